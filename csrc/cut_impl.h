/* cut_impl.h - private to cut.c, cut_rows.c, cut_x86.c, cut_neon.c, draw.c, few.c, filter.c,
 * filter_avx512.c, keys.c, sieve.c, survey.c and sweep.c: the loops worth a SIMD form.
 *
 * Everything else about the cut is written once, portably. */
#ifndef DPTK_CUT_IMPL_H
#define DPTK_CUT_IMPL_H

#include "dptk.h"
#include "simd.h"

enum {
    DPTK_CHUNK = 2048,  /* keys a call at most: 16 KB, half of the smallest L1 */
    DPTK_BLOCK = 512,   /* scores, or bytes, that a filter looks at together at most */
    DPTK_SAMPLE = 2048, /* scores from which a first bound is made, at most */
    DPTK_FEW = 64,      /* keys that are ranked by comparing each with each */
    DPTK_LANES = 4      /* counters per key: equal neighbours must not wait for each other */
};

/* Candidates in order of index. */
typedef struct dptk_hits {
    int64_t *keys, *index;
    size_t held;
    int nan;     /* out: whether one of the scores read is NaN */
    int watch;   /* whether to look for negative integers or floats that are not finite, if the
                  * filter does ... */
    int watched; /* ... and whether there was one */
} dptk_hits;

/* Appends the scores, packed, whose key is at least `bound`, and their indices (that of
 * the first is `first`), up to the block with which at least `enough` are held. NaN has
 * the key INT64_MIN. Returns how many were read; 0: none that is left can get in.
 * Assumed: n > 0, held < enough, room for enough + DPTK_BLOCK. */
typedef size_t dptk_filter_fn(const char *data, size_t n, size_t first, int64_t bound,
                              size_t enough, dptk_hits *hits);

/* That for a type, of the largest or the least: the keys of these are those of the largest, bits
 * flipped. Those of the largest do not watch for anything, the third does. */
enum { DPTK_OF_LARGEST, DPTK_OF_LEAST, DPTK_OF_LARGEST_WATCHED };
dptk_filter_fn *dptk_filter(int type, int of);

/* The keys of all of a column, flipped or not; NaN comes after every number. Returns
 * DPTK_NAN if there is any. */
int dptk_ordered_keys(const dptk_column *col, int64_t flip, int64_t *keys);

/* Of n keys, at most DPTK_FEW, in memory that reaches to a multiple of 16: the rank-th
 * largest, rank from 1; and the m largest, equal ones as they stand, in descending order or
 * as they stand, with their indices (NULL: their places). */
int64_t dptk_select_few(const int64_t *keys, size_t n, size_t rank);
void dptk_take_few(const int64_t *keys, const int64_t *index, size_t n, size_t m, int sorted,
                   int64_t *keys_out, int64_t *index_out);

/* The rank-th largest of n keys, rank from 1, and in *ties how many of its equals belong to the
 * first `rank`. work: n words. */
int64_t dptk_select(const int64_t *keys, size_t n, size_t rank, int64_t *work, size_t *ties);

/* Keys in descending order, stably, each with its index. The first two arrays are written
 * over. Assumed: n > 0. */
void dptk_sort_pairs(int64_t *keys, int64_t *index, size_t n, int64_t *keys_out,
                     int64_t *index_out);

/* In ascending order words that differ in their lowest `bits` alone, and are in order if they
 * differ in the lowest `low` alone. work: n words. */
void dptk_sort_words(uint64_t *word, size_t n, unsigned bits, unsigned low, uint64_t *work);

/* Scores from `first` on as a filter reads them, and how many: all that are left where they stand,
 * if they are packed; else those of a chunk, in the buffer. */
const char *dptk_packed_from(const dptk_column *col, size_t first, int64_t *buffer, size_t *count);

/* The beginning of two loops of cut.c, as far as whole vectors go: keys [0, *i) are done. Both
 * return how many keys they wrote. */
size_t dptk_between_avx512(const int64_t *keys, size_t n, int64_t least, int64_t most, int64_t *to,
                           size_t *i, size_t *above);
size_t dptk_keep_avx512(const int64_t *keys, const int64_t *index, size_t n, size_t m, int64_t tau,
                        int64_t *keys_to, int64_t *index_to, size_t *i, size_t *ties);

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

dptk_tally_fn dptk_tally_portable, dptk_tally_avx2, dptk_tally_avx512, dptk_tally_neon;

#endif
