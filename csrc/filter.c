/* filter.c - the scores that may still get in, compared in their own type.
 *
 * Seldom does one get in, so the inner loop only asks whether any of a block does. The
 * same source for each target: the compiler's vectors do. So does the mesh of a sieve (sieve.c). */
#include "sieve_impl.h"

/* Words of 64 bits are compared one by one, and branches never taken are cheap; of shorter
 * scores a block becomes flags, by the compiler's vectors. */
#define PORTABLE(name, type, bits, watching, side)                                                 \
    BEGIN(, portable, name, type, bits, watching, side)                                            \
    enum { BLOCK = DPTK_BLOCK / sizeof(type) };                                                    \
    for (; n - i >= BLOCK && held < enough; i += BLOCK) {                                          \
        bits any = 0;                                                                              \
        for (size_t j = i; j < i + BLOCK; j++) {                                                   \
            DPTK_SCORE(type, x, data + j * sizeof x);                                              \
            any = (bits)(any | (bits) - (ENTERS_##side(name, x, edge)));                           \
            if (watches) seen = (bits)(seen | name##_watch(x));                                    \
        }                                                                                          \
        if (!any) continue;                                                                        \
        for (size_t eight = i; eight < i + BLOCK; eight += 8) {                                    \
            int some = 0;                                                                          \
            for (size_t j = eight; j < eight + 8; j++) {                                           \
                DPTK_SCORE(type, x, data + j * sizeof x);                                          \
                some |= ENTERS_##side(name, x, edge);                                              \
            }                                                                                      \
            if (some)                                                                              \
                for (size_t j = eight; j < eight + 8; j++) OFFER(name, type, bits, j);             \
        }                                                                                          \
    }                                                                                              \
    END(name, type, bits, BLOCK)

#define WIDE(name, type, bits, watching, side)                                                     \
    BEGIN(, portable, name, type, bits, watching, side)                                            \
    enum { BLOCK = DPTK_BLOCK / sizeof(type) };                                                    \
    for (; n - i >= BLOCK && held < enough; i += BLOCK)                                            \
        for (size_t j = i; j < i + BLOCK; j += 4) {                                                \
            DPTK_SCORE(type, a, data + j * sizeof a);                                              \
            DPTK_SCORE(type, b, data + (j + 1) * sizeof b);                                        \
            DPTK_SCORE(type, c, data + (j + 2) * sizeof c);                                        \
            DPTK_SCORE(type, d, data + (j + 3) * sizeof d);                                        \
            if (watches)                                                                           \
                seen |= (name##_watch(a) | name##_watch(b)) | (name##_watch(c) | name##_watch(d)); \
            if (!(ENTERS_##side(name, a, edge)) && !(ENTERS_##side(name, b, edge))                 \
                && !(ENTERS_##side(name, c, edge)) && !(ENTERS_##side(name, d, edge)))             \
                continue;                                                                          \
            for (size_t at = j; at < j + 4; at++) OFFER(name, type, bits, at);                     \
        }                                                                                          \
    END(name, type, bits, BLOCK)

#define FILTERS_PORTABLE(name, code, type, bits, watchable)                                        \
    PORTABLE(name, type, bits, 0, largest)                                                         \
    PORTABLE(name, type, bits, 0, least)                                                           \
    DPTK_IF_WATCHABLE_##watchable(PORTABLE(name, type, bits, 1, watched))
#define FILTERS_WIDE(name, code, type, bits, watchable)                                            \
    WIDE(name, type, bits, 0, largest)                                                             \
    WIDE(name, type, bits, 0, least)                                                               \
    DPTK_IF_WATCHABLE_##watchable(WIDE(name, type, bits, 1, watched))
DPTK_SHORT(FILTERS_PORTABLE)
DPTK_LONG(FILTERS_WIDE)

#if DPTK_VECTORS
/* Scores a block: bits of a word; bytes of a cache line. */
enum { BITS = 64, ALIGNED = 64 };

/* wide: some bytes in a register. all_ones(x): whether all bits are set. lanes(x, size): of a
 * block, whose lanes of `size` bytes are all ones or zeros, a bit each; x may be overwritten. */
#if DPTK_X86
#include <immintrin.h>

typedef __m256i wide;

DPTK_AVX2 static inline int all_ones(wide x) { return _mm256_movemask_epi8(x) == -1; }

DPTK_AVX2 static inline uint64_t lanes(const wide *x, size_t size)
{
    const size_t step = sizeof *x / size;
    uint64_t bits = 0;

    for (size_t i = 0; i < 2 * size; i++) {
        uint64_t part;
        if (size == 8) {
            part = (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(x[i]));
        } else if (size == 4) {
            part = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(x[i]));
        } else if (size == 2) { /* the packing goes by halves of both */
            const __m256i both = _mm256_packs_epi16(x[i], x[i + 1]);
            part = (uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(both, 0xD8));
        } else {
            part = (uint32_t)_mm256_movemask_epi8(x[i]);
        }
        bits |= part << i * step;
        i += size == 2;
    }
    return bits;
}
#else
#include <arm_neon.h>

typedef uint8x16_t wide;

static inline int all_ones(wide x) { return vminvq_u8(x) == UINT8_MAX; }

static inline uint64_t lanes(wide *x, size_t size)
{
    const wide bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));

    for (; size > 1; size /= 2) /* half of the bytes of each lane */
        for (size_t i = 0; i < 2 * size; i++) x[i] = vuzp1q_u8(x[2 * i], x[2 * i + 1]);
    for (int i = 0; i < 4; i++) x[i] = vandq_u8(x[i], bit);
    const wide sum = vpaddq_u8(vpaddq_u8(x[0], x[1]), vpaddq_u8(x[2], x[3]));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sum, sum)), 0);
}
#endif

/* The places of the set bits, from `first` on, into index[held...], of which some more are
 * written over; returns where they end. Few bits or many, without a loop that would miss its
 * end. Or in a chunk: half as wide. */
enum { FEW = 4, SOME = 12 };
#define MARK(name, type)                                                                           \
    typedef type name##_four __attribute__((vector_size(4 * sizeof(type))));                       \
    typedef type name##_memory                                                                     \
        __attribute__((vector_size(4 * sizeof(type)), aligned(1), may_alias));                     \
    DPTK_FIRST_LEVEL static inline size_t name(uint64_t in, type first, type *index, size_t held)  \
    {                                                                                              \
        static const name##_four places[16] = {                                                    \
            {0}, {0},    {1},    {0, 1},    {2},    {0, 2},    {1, 2},    {0, 1, 2},               \
            {3}, {0, 3}, {1, 3}, {0, 1, 3}, {2, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}};           \
        MARK_SOME(type);                                                                           \
        for (int step = 0; step < 16; step++, in >>= 4, first += 4) {                              \
            *(name##_memory *)(void *)(index + held) = places[in & 15] + first;                    \
            held += (size_t)__builtin_popcountll(in & 15);                                         \
        }                                                                                          \
        return held;                                                                               \
    }
MARK(mark, int64_t)
MARK(mark_near, int32_t)

/* The compiler's vectors of a type, as they stand in memory. A lane of a comparison is all
 * ones if it holds. */
#define VECTORS(name, code, type, bits, watchable)                                                 \
    typedef type name##_vector __attribute__((vector_size(sizeof(wide))));                         \
    typedef bits name##_mask __attribute__((vector_size(sizeof(wide))));                           \
    typedef type name##_memory __attribute__((vector_size(sizeof(wide)), aligned(1), may_alias));
DPTK_TYPES(VECTORS)

#define OUTSIDE_largest(less, x, edge) less(x, edge)
#define OUTSIDE_least(less, x, edge) less(edge, x)
#define OUTSIDE_watched OUTSIDE_largest
#define PLAIN_LESS(x, y) ((x) < (y))

/* Which of the block at `at` get in. */
#define SIFT(name, less, side, at, in)                                                             \
    do {                                                                                           \
        const name##_memory *const from = (const void *)(data + (at) * LANE);                      \
        wide out[PARTS];                                                                           \
        for (size_t v = 0; v < PARTS; v++) {                                                       \
            const name##_vector x = from[v];                                                       \
            out[v] = (wide)(OUTSIDE_##side(less, x, limit));                                       \
            if (watches) sign |= (name##_mask)(name##_WATCH(x));                                   \
        }                                                                                          \
        in = ~lanes(out, LANE);                                                                    \
    } while (0)

#define VECTOR(name, type, bits, watching, less, side)                                             \
    BEGIN(DPTK_FIRST_LEVEL, vectors, name, type, bits, watching, side)                             \
    enum { LANE = sizeof(type), PARTS = BITS * LANE / sizeof(wide) };                              \
    enum { BLOCKS = LANE == 1 ? 2 : 1, GROUP = BLOCKS * BITS, NOTED = LANE <= 2 ? 64 : 32 };       \
    const name##_vector limit = edge - (name##_vector){0};                                         \
    name##_mask sign = {0};                                                                        \
    const size_t ahead = -(uintptr_t)data % ALIGNED / LANE;                                        \
    if (ahead > 0 && n > NOTED * BITS) {                                                           \
        ONE_BLOCK(name, type, bits, less, side, 0, (UINT64_C(1) << ahead) - 1);                    \
        i = ahead;                                                                                 \
    }                                                                                              \
    uint64_t in[DPTK_WAITING + NOTED * BLOCKS];                                                    \
    size_t where[DPTK_WAITING + NOTED * BLOCKS], sifted = 0;                                       \
    while (n - i >= GROUP && held < enough) {                                                      \
        const name##_memory *part = (const void *)(data + i * LANE);                               \
        const size_t groups = (n - i) / GROUP < NOTED ? (n - i) / GROUP : NOTED;                   \
        const size_t end = i + groups * GROUP;                                                     \
        uint64_t noted = 0;                                                                        \
        for (size_t group = 0; group < groups; group++, part += BLOCKS * PARTS) {                  \
            name##_mask all = ~(name##_mask){0};                                                   \
            for (size_t j = 0; j < BLOCKS * PARTS; j++) {                                          \
                const name##_vector x = part[j];                                                   \
                if (j % (ALIGNED / sizeof(wide)) == 0) prefetch(part + j);                         \
                all &= OUTSIDE_##side(less, x, limit);                                             \
                if (watches) sign |= (name##_mask)(name##_WATCH(x));                               \
            }                                                                                      \
            noted |= (uint64_t)!all_ones((wide)all) << group;                                      \
        }                                                                                          \
        for (; noted; noted &= noted - 1) {                                                        \
            const size_t group = i + (size_t)__builtin_ctzll(noted) * GROUP;                       \
            for (size_t at = group; at < group + GROUP; at += BITS) {                              \
                SIFT(name, less, side, at, in[sifted]);                                            \
                where[sifted] = at;                                                                \
                sifted += BLOCKS == 1 || in[sifted] != 0;                                          \
            }                                                                                      \
        }                                                                                          \
        i = end;                                                                                   \
        TAKE_SIFTED(name, type, bits);                                                             \
    }                                                                                              \
    LAST_BLOCKS(name, type, bits, less, side)                                                      \
    for (size_t j = 0; j < sizeof(wide) / LANE; j++) seen = (bits)(seen | sign[j]);                \
    END(name, type, bits, BITS)

#define FILTERS_PLAIN(name, code, type, bits, watchable)                                           \
    VECTOR(name, type, bits, 0, PLAIN_LESS, largest)                                               \
    VECTOR(name, type, bits, 0, PLAIN_LESS, least)                                                 \
    DPTK_IF_WATCHABLE_##watchable(VECTOR(name, type, bits, 1, PLAIN_LESS, watched))
#define FILTERS_HALF(name, code, type, bits, watchable)                                            \
    VECTOR(name, type, bits, 0, DPTK_HALF_LESS, largest)                                           \
    VECTOR(name, type, bits, 0, DPTK_HALF_LESS, least)                                             \
    DPTK_IF_WATCHABLE_##watchable(VECTOR(name, type, bits, 1, DPTK_HALF_LESS, watched))
DPTK_INTEGERS(FILTERS_PLAIN)
DPTK_HALF(FILTERS_HALF)
DPTK_FLOATS(FILTERS_PLAIN)

/* The mesh of a sieve. */
#define MESH(name, code, type, bits, watchable)                                                    \
    MESH_BEGIN(DPTK_FIRST_LEVEL, vectors, name, type)                                              \
    enum { LANE = sizeof(type), PARTS = BITS * LANE / sizeof(wide) };                              \
    const name##_vector limit = edge - (name##_vector){0};                                         \
    name##_mask gaps = {0};                                                                        \
    for (; n - i >= BITS; i += BITS) {                                                             \
        const name##_memory *const from = (const void *)(data + i * LANE);                         \
        wide below[PARTS];                                                                         \
        for (size_t v = 0; v < PARTS; v++) {                                                       \
            const name##_vector x = from[v];                                                       \
            if (v % (ALIGNED / sizeof(wide)) == 0) prefetch(from + v);                             \
            below[v] = (wide)(x < limit);                                                          \
            gaps |= (name##_mask)DPTK_FLOAT_WATCH(x);                                              \
        }                                                                                          \
        TAKE_BLOCK(~lanes(below, LANE), UINT64_MAX);                                               \
    }                                                                                              \
    for (size_t j = 0; j < sizeof(wide) / LANE; j++) *odd |= gaps[j] != 0;                         \
    MESH_END(name, code, type)
#define MESH_ENTRY(name, code, type, bits, watchable) [code] = name##_mesh_vectors,
DPTK_MESH_TYPES(MESH)
dptk_meshes dptk_mesh_vectors = {DPTK_MESH_TYPES(MESH_ENTRY)};
#endif

#define ENTRY_PORTABLE(name, code, type, bits, watchable)                                          \
    DPTK_FILTERS_OF(name, code, portable, watchable)
#define ENTRY_VECTORS(name, code, type, bits, watchable)                                           \
    DPTK_FILTERS_OF(name, code, vectors, watchable)

static dptk_filters portable = {DPTK_TYPES(ENTRY_PORTABLE)};
#if DPTK_VECTORS
static dptk_filters vectors = {DPTK_TYPES(ENTRY_VECTORS)};
#endif

/* By SIMD level: all give the same bits. */
static dptk_filters *const filters[] = {
    &portable,
#if DPTK_VECTORS
    &vectors,
#endif
#if DPTK_X86
    &dptk_filters_avx512,
#endif
};

dptk_filter_fn *dptk_filter(int type, int of) { return (*filters[dptk_simd_get()])[type][of]; }
