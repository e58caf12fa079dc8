/* sieve_impl.h - private to sieve.c, filter.c and filter_avx512.c: what every mesh has. */
#ifndef DPTK_SIEVE_IMPL_H
#define DPTK_SIEVE_IMPL_H

#include "filter_impl.h"

enum { DPTK_WORD = 64 }; /* items of which a word has a bit each: a block */

/* Of at most DPTK_CHUNK packed scores, of which `first` is the first, those whose key is at least
 * `bound` or that have a bit in `low`, a word a block; or again: those that have one, and no such
 * key. In order: which they are, and their scores: keys, of floats their bits as doubles. place is
 * memory for where they are: of a chunk, and a block. Sets *odd if a float is not finite. Returns
 * how many. */
typedef size_t dptk_mesh_fn(const char *data, size_t n, size_t first, int64_t bound,
                            const uint64_t *low, int again, int32_t *place, int64_t *index,
                            int64_t *score, int *odd);

/* By type, of which halves have none. */
typedef dptk_mesh_fn *const dptk_meshes[];
extern dptk_meshes dptk_mesh_vectors, dptk_mesh_avx512;
#define DPTK_MESH_TYPES(X) DPTK_INTEGERS(X) DPTK_FLOATS(X)

/* The head and the end that every mesh has; between them it reads whole blocks, if there is a
 * faster way, and notes x - x: of finite scores it is 0, of others NaN. The end has the last block,
 * or all, one by one. Its file has a mark_near(), which writes where the bits of a word are. */
#define MESH_BEGIN(target, level, name, type)                                                      \
    target static size_t name##_mesh_##level(                                                      \
        const char *data, size_t n, size_t first, int64_t bound, const uint64_t *low, int again,   \
        int32_t *place, int64_t *index, int64_t *score, int *odd)                                  \
    {                                                                                              \
        size_t held = 0, i = 0;                                                                    \
        type edge;                                                                                 \
        const uint64_t any = name##_edge(bound, 0, &edge) ? UINT64_MAX : 0;

/* Take those of the block at i, of which `above` says whose scores are at least the edge. */
#define TAKE_BLOCK(above, mine)                                                                    \
    do {                                                                                           \
        const uint64_t large = (above) & any, small = low[i / DPTK_WORD];                          \
        held =                                                                                     \
            mark_near((again ? small & ~large : small | large) & (mine), (int32_t)i, place, held); \
    } while (0)

#define MESH_END(name, code, type)                                                                 \
    for (; i < n; i += DPTK_WORD) {                                                                \
        const size_t count = n - i < DPTK_WORD ? n - i : DPTK_WORD;                                \
        uint64_t above = 0;                                                                        \
        int strange = 0;                                                                           \
        for (size_t j = 0; j < count; j++) {                                                       \
            DPTK_SCORE(type, x, data + (i + j) * sizeof x);                                        \
            above |= (uint64_t)!name##_less(x, edge) << j;                                         \
            strange |= DPTK_FLOAT_WATCH(x) != 0;                                                   \
        }                                                                                          \
        *odd |= strange;                                                                           \
        TAKE_BLOCK(above, UINT64_MAX >> (DPTK_WORD - count));                                      \
    }                                                                                              \
    for (size_t j = 0; j < held; j++) {                                                            \
        DPTK_SCORE(type, x, data + (size_t)place[j] * sizeof x);                                   \
        index[j] = (int64_t)first + place[j];                                                      \
        score[j] = code >= DPTK_F32 ? (int64_t)bits_of((double)x) : name##_key(x);                 \
    }                                                                                              \
    return held;                                                                                   \
    }

#endif
