/* cut_impl.h - private to cut.c and cut_x86.c: the two loops worth a SIMD form.
 *
 * Both work on one chunk of keys that sits in the L1 cache (or is read in
 * place), so the rest of the cut is written once, in portable C. */
#ifndef DPTK_CUT_IMPL_H
#define DPTK_CUT_IMPL_H

#include "dptk.h"

enum {
    DPTK_CHUNK = 2048, /* keys a call at most: 16 KB, half of the smallest L1 */
    DPTK_LANES = 4     /* counters per key: equal neighbours must not wait for each other */
};

/* Positions of the keys > tau, ascending, in hits[]; returns how many.
 * ORs every key into *any, whose sign then tells whether one was negative.
 * hits has room for DPTK_CHUNK positions. */
typedef size_t dptk_scan_fn(const int64_t *keys, size_t n, int64_t tau,
                            uint32_t *hits, int64_t *any);

/* Adds 1 to one of lanes[off * DPTK_LANES + 0..3] for each key = low + off,
 * where off = span stands for every key outside [low, low + span). */
typedef void dptk_tally_fn(const int64_t *keys, size_t n, int64_t low, size_t span,
                           uint32_t *lanes);

dptk_scan_fn dptk_scan_portable;
dptk_tally_fn dptk_tally_portable;

/* The list of instruction sets, in order of level: there is no other. */
typedef struct dptk_cut_kernels {
    int level;
    int (*runs_here)(void); /* asks the processor and the operating system */
    dptk_scan_fn *scan;
    dptk_tally_fn *tally;
} dptk_cut_kernels;

extern const dptk_cut_kernels dptk_cut_table[];
extern const int dptk_cut_table_size;

#endif
