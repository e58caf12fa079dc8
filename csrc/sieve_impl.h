/* sieve_impl.h - private to sieve.c and filter_avx512.c: what every mesh has. */
#ifndef DPTK_SIEVE_IMPL_H
#define DPTK_SIEVE_IMPL_H

#include "filter_impl.h"

/* Of at most DPTK_CHUNK packed scores those whose key is at least `bound`, and those whose byte is
 * at most `most`, in order: where they are, and their scores: keys, of floats their bits as
 * doubles. Both have memory for all. Returns how many. */
typedef size_t dptk_mesh_fn(const char *data, const uint8_t *byte, size_t n, int64_t bound,
                            uint8_t most, uint32_t *at, int64_t *score);

/* By type. */
extern dptk_mesh_fn *const dptk_mesh_avx512[];

/* Those from i on one by one, without a branch; and the scores of all. */
#define MESH_SCORES(name, code, type, i, n)                                                        \
    for (; i < n; i++) {                                                                           \
        DPTK_SCORE(type, x, data + i * sizeof x);                                                  \
        at[held] = (uint32_t)i;                                                                    \
        held += (size_t)((any && !name##_less(x, edge)) | (byte[i] <= most));                      \
    }                                                                                              \
    for (size_t j = 0; j < held; j++) {                                                            \
        DPTK_SCORE(type, x, data + at[j] * sizeof x);                                              \
        score[j] = code >= DPTK_F32 ? (int64_t)bits_of((double)x) : name##_key(x);                 \
    }

#endif
