/* filter_avx512.c - the AVX-512 form of the filter, and of the sieve's mesh: masks in place of
 * lanes of ones. */
#include "sieve_impl.h"

#if DPTK_X86
#include <immintrin.h>

/* Scores a block: bits of a word; bytes of a register, and of a cache line; see MARK_SOME. */
enum { BITS = 64, WIDTH = 64, FEW = 3, SOME = 8 };

/* NAME_LESS: of the lanes that have a bit in `all`, those where x is less than y. Of halves the
 * compiler's vectors are compared. */
#define INTEGERS(kind, all, x, y)                                                                  \
    _mm512_mask_cmp_##kind##_mask(all, (__m512i)(x), (__m512i)(y), _MM_CMPINT_LT)
#define i8_LESS(all, x, y) INTEGERS(epi8, all, x, y)
#define i16_LESS(all, x, y) INTEGERS(epi16, all, x, y)
#define i32_LESS(all, x, y) INTEGERS(epi32, all, x, y)
#define i64_LESS(all, x, y) INTEGERS(epi64, all, x, y)
#define u8_LESS(all, x, y) INTEGERS(epu8, all, x, y)
#define u16_LESS(all, x, y) INTEGERS(epu16, all, x, y)
#define u32_LESS(all, x, y) INTEGERS(epu32, all, x, y)
#define u64_LESS(all, x, y) INTEGERS(epu64, all, x, y)
#define f16_LESS(all, x, y) ((all) & _mm512_movepi16_mask((__m512i)DPTK_HALF_LESS(x, y)))
#define f32_LESS(all, x, y) _mm512_mask_cmp_ps_mask(all, (__m512)(x), (__m512)(y), _CMP_LT_OQ)
#define f64_LESS(all, x, y) _mm512_mask_cmp_pd_mask(all, (__m512d)(x), (__m512d)(y), _CMP_LT_OQ)

typedef __mmask64 i8_mask, u8_mask;
typedef __mmask32 i16_mask, u16_mask, f16_mask;
typedef __mmask16 i32_mask, u32_mask, f32_mask;
typedef __mmask8 i64_mask, u64_mask, f64_mask;

/* Where the set bits of a block are, from `first` on, into index[held...], of which sixteen more
 * may be written over; returns where they end. Few bits or many, without a loop that would miss
 * its end. */
DPTK_AVX512 static inline size_t mark(uint64_t in, int64_t first, int64_t *index, size_t held)
{
    const __m512i sixteen = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i from = _mm512_set1_epi64(first);

    MARK_SOME(int64_t);
    for (int step = 0; step < 4; step++, in >>= 16) {
        const __m512i near = _mm512_maskz_compress_epi32((__mmask16)in, sixteen);
        const __m512i low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(near));
        const __m512i high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(near, 1));
        _mm512_storeu_si512(index + held, _mm512_add_epi64(from, low));
        _mm512_storeu_si512(index + held + 8, _mm512_add_epi64(from, high));
        from = _mm512_add_epi64(from, _mm512_set1_epi64(16));
        held += (size_t)__builtin_popcountll(in & 0xFFFF);
    }
    return held;
}

/* The same of a chunk: sixteen at a time. */
DPTK_AVX512 static inline size_t mark_near(uint64_t in, int32_t first, int32_t *place, size_t held)
{
    const __m512i sixteen = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i places = _mm512_add_epi32(sixteen, _mm512_set1_epi32(first));
    for (int step = 0; step < 4; step++, in >>= 16) {
        _mm512_storeu_si512(place + held, _mm512_maskz_compress_epi32((__mmask16)in, places));
        places = _mm512_add_epi32(places, _mm512_set1_epi32(16));
        held += (size_t)__builtin_popcountll(in & 0xFFFF);
    }
    return held;
}

#define OUTSIDE_largest(less, all, x, limit) less##_LESS(all, x, limit)
#define OUTSIDE_least(less, all, x, limit) less##_LESS(all, limit, x)
#define OUTSIDE_watched OUTSIDE_largest

/* Which of the block at `at` get in. */
#define SIFT(name, less, side, at, word)                                                           \
    do {                                                                                           \
        const name##_memory *const from = (const void *)(data + (at) * LANE);                      \
        uint64_t outside = 0;                                                                      \
        for (size_t v = 0; v < LANE; v++) {                                                        \
            const name##_vector x = from[v];                                                       \
            prefetch(from + v);                                                                    \
            outside |= (uint64_t)OUTSIDE_##side(less, (name##_mask)UINT64_MAX, x, limit)           \
                    << v * (WIDTH / LANE);                                                         \
            if (watches) sign |= (name##_lanes)(name##_WATCH(x));                                  \
        }                                                                                          \
        (word) = ~outside;                                                                         \
    } while (0)

#define FILTER(name, type, bits, watching, side)                                                   \
    BEGIN(DPTK_AVX512, avx512, name, type, bits, watching, side)                                   \
    enum { LANE = sizeof(type), NOTED = LANE <= 2 ? 64 : 32 };                                     \
    enum { BLOCKS = LANE == 8 ? 1 : 2, GROUP = BLOCKS * BITS };                                    \
    const name##_vector limit = edge - (name##_vector){0};                                         \
    name##_lanes sign = {0};                                                                       \
    const size_t ahead = -(uintptr_t)data % WIDTH / LANE;                                          \
    if (ahead > 0 && n > NOTED * BITS) {                                                           \
        ONE_BLOCK(name, type, bits, name, side, 0, (UINT64_C(1) << ahead) - 1);                    \
        i = ahead;                                                                                 \
    }                                                                                              \
    uint64_t in[DPTK_WAITING + NOTED];                                                             \
    size_t where[DPTK_WAITING + NOTED], sifted = 0;                                                \
    while (n - i >= GROUP && held < enough) {                                                      \
        const size_t groups = (n - i) / GROUP;                                                     \
        const size_t end = i + GROUP * (groups < NOTED / BLOCKS ? groups : NOTED / BLOCKS);        \
        for (; i < end; i += GROUP) {                                                              \
            uint64_t word[BLOCKS], some = 0;                                                       \
            for (size_t j = 0; j < BLOCKS; j++) {                                                  \
                SIFT(name, name, side, i + j * BITS, word[j]);                                     \
                some |= word[j];                                                                   \
            }                                                                                      \
            if (BLOCKS > 1 && !some) continue;                                                     \
            for (size_t j = 0; j < BLOCKS; j++) {                                                  \
                in[sifted] = word[j];                                                              \
                where[sifted] = i + j * BITS;                                                      \
                sifted += word[j] != 0;                                                            \
            }                                                                                      \
        }                                                                                          \
        TAKE_SIFTED(name, type, bits);                                                             \
    }                                                                                              \
    LAST_BLOCKS(name, type, bits, name, side)                                                      \
    for (size_t j = 0; j < WIDTH / LANE; j++) seen = (bits)(seen | sign[j]);                       \
    END(name, type, bits, BITS)

#define FILTERS(name, code, type, bits, watchable)                                                 \
    typedef type name##_vector __attribute__((vector_size(WIDTH)));                                \
    typedef bits name##_lanes __attribute__((vector_size(WIDTH)));                                 \
    typedef type name##_memory __attribute__((vector_size(WIDTH), aligned(1), may_alias));         \
    FILTER(name, type, bits, 0, largest)                                                           \
    FILTER(name, type, bits, 0, least)                                                             \
    DPTK_IF_WATCHABLE_##watchable(FILTER(name, type, bits, 1, watched))
DPTK_TYPES(FILTERS)

#define ENTRY(name, code, type, bits, watchable) DPTK_FILTERS_OF(name, code, avx512, watchable)
dptk_filters dptk_filters_avx512 = {DPTK_TYPES(ENTRY)};

/* ---- the mesh ------------------------------------------------------------- */

#define MESH(name, code, type, bits, watchable)                                                    \
    MESH_BEGIN(DPTK_AVX512, avx512, name, type)                                                    \
    enum { LANE = sizeof(type) };                                                                  \
    const name##_vector limit = edge - (name##_vector){0};                                         \
    name##_lanes gaps = {0};                                                                       \
    for (; n - i >= BITS; i += BITS) {                                                             \
        const name##_memory *const from = (const void *)(data + i * LANE);                         \
        uint64_t word = 0;                                                                         \
        for (size_t v = 0; v < LANE; v++) {                                                        \
            const name##_vector x = from[v];                                                       \
            prefetch(from + v);                                                                    \
            word |= (uint64_t)name##_LESS((name##_mask)UINT64_MAX, x, limit)                       \
                 << v * (WIDTH / LANE);                                                            \
            gaps |= (name##_lanes)DPTK_FLOAT_WATCH(x);                                             \
        }                                                                                          \
        TAKE_BLOCK(~word, UINT64_MAX);                                                             \
    }                                                                                              \
    for (size_t j = 0; j < WIDTH / LANE; j++) *odd |= gaps[j] != 0;                                \
    MESH_END(name, code, type)
#define MESH_ENTRY(name, code, type, bits, watchable) [code] = name##_mesh_avx512,
DPTK_MESH_TYPES(MESH)
dptk_meshes dptk_mesh_avx512 = {DPTK_MESH_TYPES(MESH_ENTRY)};
#endif
