/* filter.c - the scores that may still get in, compared in their own type.
 *
 * Seldom does one get in, so the inner loop only asks whether any of a block does. The
 * same source for each target: the compiler's vectors do. */
#include "cut_impl.h"
#include "score.h"

#include <math.h>

/* ---- the score at a bound ------------------------------------------------- */

/* NAME_edge: scores whose key is at least `bound` are at least *edge (with flip, at
 * most). Returns 0 if no number is. */
#define INTEGER_EDGE(name, type, least, most)                                                      \
    static inline int name##_edge(int64_t bound, int64_t flip, type *edge)                         \
    {                                                                                              \
        const int64_t key = bound ^ flip;                                                          \
        *edge = (type)(key < (least) ? (least) : key > (most) ? (most) : key);                     \
        return flip ? key >= (least) : key <= (most);                                              \
    }

INTEGER_EDGE(i8, int8_t, INT8_MIN, INT8_MAX)
INTEGER_EDGE(i16, int16_t, INT16_MIN, INT16_MAX)
INTEGER_EDGE(i32, int32_t, INT32_MIN, INT32_MAX)
INTEGER_EDGE(u8, uint8_t, 0, UINT8_MAX)
INTEGER_EDGE(u16, uint16_t, 0, UINT16_MAX)
INTEGER_EDGE(u32, uint32_t, 0, UINT32_MAX)

static inline int i64_edge(int64_t bound, int64_t flip, int64_t *edge)
{
    *edge = bound ^ flip;
    return 1;
}

static inline int u64_edge(int64_t bound, int64_t flip, uint64_t *edge)
{
    *edge = (uint64_t)(bound ^ flip) ^ UINT64_C(1) << 63;
    return 1;
}

static inline int64_t within(int64_t key, int64_t least, int64_t most)
{
    return key < least ? least : key > most ? most : key;
}

/* Of floats infinity may be let in where it need not, for what is let in is looked at. */
static inline int f16_edge(int64_t bound, int64_t flip, int16_t *edge)
{
    const int64_t key = within(bound ^ flip, -DPTK_HALF_INF, DPTK_HALF_INF);
    *edge = (int16_t)(key >= 0 ? key : INT16_MIN - key);
    return 1;
}

static inline int f64_edge(int64_t bound, int64_t flip, double *edge)
{
    const int64_t key = within(bound ^ flip, ~DPTK_DOUBLE_INF, DPTK_DOUBLE_INF);
    const int64_t bits = key >= 0 ? key : key ^ INT64_MAX;
    memcpy(edge, &bits, sizeof bits);
    return 1;
}

static inline int f32_edge(int64_t bound, int64_t flip, float *edge)
{
    double exact;
    f64_edge(bound, flip, &exact);
    *edge = (float)exact;
    if (flip ? *edge > exact : *edge < exact)
        *edge = nextafterf(*edge, flip ? -INFINITY : INFINITY);
    return 1;
}

/* ---- the filter ----------------------------------------------------------- */

/* One score, without a branch. */
#define OFFER(name, type, bits, at)                                                                \
    do {                                                                                           \
        DPTK_SCORE(type, one, data + (at) * sizeof one);                                           \
        const int nan = name##_nan(one);                                                           \
        keys[held] = nan ? INT64_MIN : name##_key(one) ^ flip;                                     \
        index[held] = (int64_t)(first + (at));                                                     \
        held += keys[held] >= bound;                                                               \
        nans |= nan;                                                                               \
        if (has_sign) signs = (bits)(signs | (bits)one);                                           \
    } while (0)

#define ENTERS_largest(name, x, edge) !name##_less(x, edge)
#define ENTERS_least(name, x, edge) !name##_less(edge, x)

/* The head and the end that every filter has; between them it reads whole blocks. */
#define BEGIN(target, level, name, type, bits, has_negatives, side)                                \
    target static size_t name##_##side##_##level(const char *data, size_t n, size_t first,         \
                                                 int64_t bound, size_t enough, dptk_hits *hits)    \
    {                                                                                              \
        enum { BLOCK = DPTK_BLOCK / sizeof(type) };                                                \
        enum { least = 1, largest = 0, flip = -side, has_sign = (has_negatives) && !flip };        \
        int64_t *const keys = hits->keys, *const index = hits->index;                              \
        size_t held = hits->held, i = 0;                                                           \
        int nans = 0;                                                                              \
        bits signs = 0;                                                                            \
        type edge;                                                                                 \
                                                                                                   \
        if (!name##_edge(bound, flip, &edge) && !hits->watch) return 0;

#define END(name, type, bits, STEP)                                                                \
    if (n - i < STEP && held < enough)                                                             \
        for (; i < n; i++) OFFER(name, type, bits, i);                                             \
    hits->held = held;                                                                             \
    hits->nan |= nans;                                                                             \
    hits->negative |= signs < 0;                                                                   \
    return i;                                                                                      \
    }

/* Words of 64 bits are compared one by one, and branches never taken are cheap; of shorter
 * scores a block becomes flags, by the compiler's vectors. */
#define PORTABLE(name, type, bits, has_negatives, side)                                            \
    BEGIN(, portable, name, type, bits, has_negatives, side)                                       \
    for (; n - i >= BLOCK && held < enough; i += BLOCK) {                                          \
        bits any = 0;                                                                              \
        for (size_t j = i; j < i + BLOCK; j++) {                                                   \
            DPTK_SCORE(type, x, data + j * sizeof x);                                              \
            any = (bits)(any | (bits) - (ENTERS_##side(name, x, edge)));                           \
            if (has_sign) signs = (bits)(signs | (bits)x);                                         \
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

#define WIDE(name, type, bits, has_negatives, side)                                                \
    BEGIN(, portable, name, type, bits, has_negatives, side)                                       \
    for (; n - i >= BLOCK && held < enough; i += BLOCK)                                            \
        for (size_t j = i; j < i + BLOCK; j += 4) {                                                \
            DPTK_SCORE(type, a, data + j * sizeof a);                                              \
            DPTK_SCORE(type, b, data + (j + 1) * sizeof b);                                        \
            DPTK_SCORE(type, c, data + (j + 2) * sizeof c);                                        \
            DPTK_SCORE(type, d, data + (j + 3) * sizeof d);                                        \
            if (has_sign) signs |= ((bits)a | (bits)b) | ((bits)c | (bits)d);                      \
            if (!(ENTERS_##side(name, a, edge)) && !(ENTERS_##side(name, b, edge))                 \
                && !(ENTERS_##side(name, c, edge)) && !(ENTERS_##side(name, d, edge)))             \
                continue;                                                                          \
            for (size_t at = j; at < j + 4; at++) OFFER(name, type, bits, at);                     \
        }                                                                                          \
    END(name, type, bits, BLOCK)

#define FILTERS_PORTABLE(name, code, type, bits, has_negatives)                                    \
    PORTABLE(name, type, bits, has_negatives, largest)                                             \
    PORTABLE(name, type, bits, has_negatives, least)
#define FILTERS_WIDE(name, code, type, bits, has_negatives)                                        \
    WIDE(name, type, bits, has_negatives, largest)                                                 \
    WIDE(name, type, bits, has_negatives, least)
DPTK_SHORT(FILTERS_PORTABLE)
DPTK_LONG(FILTERS_WIDE)

#if DPTK_X86
#include <immintrin.h>

/* The compiler's vectors of a type, as they stand in memory. A lane of a comparison is all
 * ones if it holds. */
#define VECTORS(name, code, type, bits, has_negatives)                                             \
    typedef type name##_vector __attribute__((vector_size(32)));                                   \
    typedef bits name##_mask __attribute__((vector_size(32)));                                     \
    typedef type name##_memory __attribute__((vector_size(32), aligned(1), may_alias));
DPTK_TYPES(VECTORS)

#define OUTSIDE_largest(less, x, edge) less(x, edge)
#define OUTSIDE_least(less, x, edge) less(edge, x)
#define PLAIN_LESS(x, y) ((x) < (y))

/* Where a mask is not all ones: a bit for the first byte of each such lane. */
#define LANES(size) (UINT32_MAX / ((UINT32_C(1) << ((size)-1) << 1) - 1))

/* Those of the vector at i that get in. */
#define SIFT(name, type, bits, less, side)                                                         \
    do {                                                                                           \
        const name##_vector these = *(const name##_memory *)(const void *)(data + i * LANE);       \
        const name##_mask out = OUTSIDE_##side(less, these, limit);                                \
        uint32_t in = ~(uint32_t)_mm256_movemask_epi8((__m256i)out) & LANES(LANE);                 \
        if (has_sign) sign |= (name##_mask)these;                                                  \
        for (; in; in &= in - 1) {                                                                 \
            const size_t at = i + (size_t)__builtin_ctz(in) / LANE;                                \
            OFFER(name, type, bits, at);                                                           \
        }                                                                                          \
        i += STEP;                                                                                 \
    } while (0)

#define VECTOR(name, type, bits, has_negatives, less, side)                                        \
    BEGIN(DPTK_AVX2, avx2, name, type, bits, has_negatives, side)                                  \
    enum { LANE = sizeof(type), STEP = 32 / LANE };                                                \
    const name##_vector limit = edge - (name##_vector){0};                                         \
    name##_mask sign = {0};                                                                        \
    while (n - i >= BLOCK && held < enough) {                                                      \
        const name##_memory *const block = (const void *)(data + i * LANE);                        \
        const size_t end = i + BLOCK;                                                              \
        name##_mask all = ~(name##_mask){0};                                                       \
        for (size_t j = 0; j < BLOCK / STEP; j++) {                                                \
            const name##_vector x = block[j];                                                      \
            all &= OUTSIDE_##side(less, x, limit);                                                 \
            if (has_sign) sign |= (name##_mask)x;                                                  \
        }                                                                                          \
        if (_mm256_movemask_epi8((__m256i)all) == -1)                                              \
            i = end;                                                                               \
        else                                                                                       \
            while (i < end && held < enough) SIFT(name, type, bits, less, side);                   \
    }                                                                                              \
    if (n - i < BLOCK && held < enough)                                                            \
        while (n - i >= STEP) SIFT(name, type, bits, less, side);                                  \
    for (int j = 0; j < STEP; j++) signs = (bits)(signs | sign[j]);                                \
    END(name, type, bits, STEP)

#define FILTERS_PLAIN(name, code, type, bits, has_negatives)                                       \
    VECTOR(name, type, bits, has_negatives, PLAIN_LESS, largest)                                   \
    VECTOR(name, type, bits, has_negatives, PLAIN_LESS, least)
#define FILTERS_HALF(name, code, type, bits, has_negatives)                                        \
    VECTOR(name, type, bits, has_negatives, DPTK_HALF_LESS, largest)                               \
    VECTOR(name, type, bits, has_negatives, DPTK_HALF_LESS, least)
DPTK_INTEGERS(FILTERS_PLAIN)
DPTK_HALF(FILTERS_HALF)
DPTK_FLOATS(FILTERS_PLAIN)
#endif

#define ENTRY_PORTABLE(name, code, type, bits, has_negatives)                                      \
    [code] = {name##_largest_portable, name##_least_portable},
#define ENTRY_AVX2(name, code, type, bits, has_negatives)                                          \
    [code] = {name##_largest_avx2, name##_least_avx2},

static dptk_filter_fn *const portable[][2] = {DPTK_TYPES(ENTRY_PORTABLE)};
#if DPTK_X86
static dptk_filter_fn *const avx2[][2] = {DPTK_TYPES(ENTRY_AVX2)};
#else
#define avx2 portable
#endif

dptk_filter_fn *dptk_filter(int type, int least)
{
    return (dptk_simd_get() >= DPTK_SIMD_AVX2 ? avx2 : portable)[type][least];
}
