/* cut_impl.h - private to cut.c and cut_x86.c: the two loops worth a SIMD form.
 *
 * Both work on one chunk of keys, which lies in the L1 cache or is read in
 * place, so that everything else about the cut is written once, portably. */
#ifndef DPTK_CUT_IMPL_H
#define DPTK_CUT_IMPL_H

#include "dptk.h"
#include "simd.h"

enum {
    DPTK_CHUNK = 2048, /* keys a call at most: 16 KB, half of the smallest L1 */
    DPTK_SLACK = 8,    /* words that whole-vector stores may touch past the end */
    DPTK_LANES = 4     /* counters per key: equal neighbours must not wait for each other */
};

/* Appends the keys > tau, and their indices (that of keys[0] is `first`), in
 * order; returns how many. ORs keys into *any, whose sign then tells whether
 * one was negative. The outputs have room for n + DPTK_SLACK words. */
typedef size_t dptk_scan_fn(const int64_t *keys, size_t n, size_t first, int64_t tau,
                            int64_t *keys_out, int64_t *index_out, int64_t *any);

/* Adds 1 to one of lanes[key * DPTK_LANES + 0..3] for each key, where span
 * stands for every key outside [0, span). Unless copy is NULL, no key is
 * negative and copy[i] = min(keys[i], INT16_MAX).
 * Returns how many keys went the slow way. */
typedef size_t dptk_tally_fn(const int64_t *keys, size_t n, size_t span, uint32_t *lanes,
                             int16_t *copy);

static inline void dptk_clip(const int64_t *keys, size_t n, int16_t *copy)
{
    for (size_t i = 0; i < n; i++) copy[i] = (int16_t)(keys[i] < INT16_MAX ? keys[i] : INT16_MAX);
}

dptk_scan_fn dptk_scan_portable;
dptk_tally_fn dptk_tally_portable;

/* The forms by SIMD level (simd.c lists the levels and asks the processor). */
typedef struct dptk_cut_kernels {
    dptk_scan_fn *scan;
    dptk_tally_fn *tally;
} dptk_cut_kernels;

extern const dptk_cut_kernels dptk_cut_table[];

#endif
