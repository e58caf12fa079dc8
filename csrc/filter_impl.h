/* filter_impl.h - private to filter.c, filter_avx512.c and sieve.c: what every filter has. */
#ifndef DPTK_FILTER_IMPL_H
#define DPTK_FILTER_IMPL_H

#include "cut_impl.h"
#include "score.h"

#include <math.h>

/* By type: of the largest, of the least, of the largest with an eye on what is watched for. */
typedef dptk_filter_fn *const dptk_filters[][3];
extern dptk_filters dptk_filters_avx512;

/* Ask for the first lines of the next page while those of this one are read. What a processor
 * foresees ends with a page, and it is quick to foresee the rest of one. (Asking for every line
 * makes some processors wait a third longer, as they then foresee nothing.) */
enum { PAGE = 1 << 12, BEGINNING = 1 << 8 }; /* bytes */
static inline void prefetch(const void *now)
{
#if DPTK_GNU
    enum { READ = 0, INTO_L2 = 2 };
    if ((uintptr_t)now % PAGE < BEGINNING)
        __builtin_prefetch((const void *)((uintptr_t)now + PAGE), READ, INTO_L2);
#else
    (void)now;
#endif
}

/* ---- the score at a bound ------------------------------------------------- */

/* NAME_edge: scores whose key is at least `bound` are at least *edge (with flip, at
 * most). Returns 0 if no number is. */
#define INTEGER_EDGE(name, type, least, most)                                                      \
    static inline int name##_edge(int64_t bound, int64_t flip, type *edge)                         \
    {                                                                                              \
        const int64_t key = bound ^ flip;                                                          \
        *edge = (type)(key<(least) ? (least) : key>(most) ? (most) : key);                         \
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
        if (watches) seen = (bits)(seen | name##_watch(one));                                      \
    } while (0)

#define ENTERS_largest(name, x, edge) !name##_less(x, edge)
#define ENTERS_least(name, x, edge) !name##_less(edge, x)
#define ENTERS_watched ENTERS_largest

/* Where there is something to watch for, there is a third filter, which does. */
#define DPTK_IF_WATCHABLE_1(filter) filter
#define DPTK_IF_WATCHABLE_0(filter)
#define DPTK_WATCHED_1(name, level) name##_watched_##level
#define DPTK_WATCHED_0(name, level) name##_largest_##level
#define DPTK_FILTERS_OF(name, code, level, watchable)                                              \
    [code] = {name##_largest_##level, name##_least_##level, DPTK_WATCHED_##watchable(name, level)},

/* The head and the end that every filter has; between them it reads whole blocks. */
#define BEGIN(target, level, name, type, bits, watching, side)                                     \
    target static size_t name##_##side##_##level(const char *data, size_t n, size_t first,         \
                                                 int64_t bound, size_t enough, dptk_hits *hits)    \
    {                                                                                              \
        enum { least = 1, largest = 0, watched = 0, flip = -side, watches = watching };            \
        int64_t *const keys = hits->keys, *const index = hits->index;                              \
        size_t held = hits->held, i = 0;                                                           \
        int nans = 0;                                                                              \
        bits seen = 0;                                                                             \
        type edge;                                                                                 \
                                                                                                   \
        if (!name##_edge(bound, flip, &edge) && !(watches && hits->watch)) return 0;

#define END(name, type, bits, STEP)                                                                \
    if (n - i < STEP && held < enough)                                                             \
        for (; i < n; i++) OFFER(name, type, bits, i);                                             \
    hits->held = held;                                                                             \
    hits->nan |= nans;                                                                             \
    hits->watched |= name##_exact ? seen < 0 : seen != 0;                                          \
    return i;                                                                                      \
    }

/* Of the compiler's vectors of a type what NAME_watch is. */
#define i8_WATCH(x) (x)
#define i16_WATCH(x) (x)
#define i32_WATCH(x) (x)
#define i64_WATCH(x) (x)
#define u8_WATCH(x) (x)
#define u16_WATCH(x) (x)
#define u32_WATCH(x) (x)
#define u64_WATCH(x) (x)
#define f16_WATCH(x) DPTK_HALF_WATCH(x)
#define f32_WATCH(x) DPTK_FLOAT_WATCH(x)
#define f64_WATCH(x) DPTK_FLOAT_WATCH(x)

/* Take those whose places stand in index[held...end). The bound may have let in a float too
 * many, or NaN. */
#define GATHER(name, type, bits, end)                                                              \
    do {                                                                                           \
        const size_t start = held, from = start < (end) ? (size_t)index[start] - first : 0;        \
        const int run =                                                                            \
            start < (end) && (size_t)(index[(end) - 1] - index[start]) == (end) - 1 - start;       \
        int64_t fits = -1;                                                                         \
        if (run) /* one behind the other: the compiler's vectors do */                             \
            for (size_t j = start; j < (end); j++) PLACE(name, type, from + (j - start), j);       \
        else                                                                                       \
            for (size_t j = start; j < (end); j++) PLACE(name, type, (size_t)index[j] - first, j); \
        if (fits)                                                                                  \
            held = (end);                                                                          \
        else                                                                                       \
            for (size_t j = start; j < (end); j++)                                                 \
                OFFER(name, type, bits, (size_t)index[j] - first);                                 \
    } while (0)
#define PLACE(name, type, at, j)                                                                   \
    do {                                                                                           \
        DPTK_SCORE(type, one, data + (at) * LANE);                                                 \
        const int64_t key = name##_key(one) ^ flip;                                                \
        keys[j] = key;                                                                             \
        if (!name##_exact || watches) fits &= -(int64_t)((key >= bound) & !name##_nan(one));       \
    } while (0)

/* ---- by blocks ------------------------------------------------------------ */

/* In a mark(in, first, index, held): a few set bits one by one, and return. FEW and SOME are how
 * many most have, and how many of the others are no slower so than all at once. */
#define MARK_SOME(type)                                                                            \
    do {                                                                                           \
        const uint64_t top = UINT64_C(1) << 63;                                                    \
        const size_t count = (size_t)__builtin_popcountll(in);                                     \
        if (count > SOME) break;                                                                   \
        for (size_t j = 0; j < FEW; j++, in &= in - 1)                                             \
            index[held + j] = first + (type)__builtin_ctzll(in | top);                             \
        if (count <= FEW) return held + count;                                                     \
        for (size_t j = FEW; j < SOME; j++, in &= in - 1)                                          \
            index[held + j] = first + (type)__builtin_ctzll(in | top);                             \
        return held + count;                                                                       \
    } while (0)

/* A form by blocks of BITS scores has a SIFT(name, less, side, at, word), which says by bits which
 * of the block at `at` get in, and a mark(), which writes where they are. First it notes which
 * blocks of some groups have any, and which these are, then their places, and then their keys:
 * without branches that would often miss, and without stores whose place is not known early, which
 * would hold up loads. The first block and the last may have scores of their neighbours, so that
 * those between stand on cache lines and no score is left over. */

/* The scores of the block at `at` that have a bit in `mine`. */
#define ONE_BLOCK(name, type, bits, less, side, at, mine)                                          \
    do {                                                                                           \
        uint64_t word;                                                                             \
        SIFT(name, less, side, at, word);                                                          \
        const size_t end = mark(word & (mine), (int64_t)(first + (at)), index, held);              \
        GATHER(name, type, bits, end);                                                             \
    } while (0)

/* Those of the blocks in in[0...sifted), which are where[...], when they are many or the last. Few
 * wait for more, since a loop over few misses its end; not for long, as their scores leave the
 * cache. */
#define TAKE_SIFTED(name, type, bits)                                                              \
    do {                                                                                           \
        if (sifted >= DPTK_WAITING || sifted >= enough - held || n - i < GROUP) {                  \
            size_t block = 0, marked = held;                                                       \
            for (; block < sifted && marked < enough; block++)                                     \
                marked = mark(in[block], (int64_t)(first + where[block]), index, marked);          \
            if (block < sifted) i = where[block];                                                  \
            GATHER(name, type, bits, marked);                                                      \
            sifted = 0;                                                                            \
        }                                                                                          \
    } while (0)
enum { DPTK_WAITING = 32 };

/* Behind whole groups. */
#define LAST_BLOCKS(name, type, bits, less, side)                                                  \
    for (; n - i >= BITS && held < enough; i += BITS)                                              \
        ONE_BLOCK(name, type, bits, less, side, i, UINT64_MAX);                                    \
    if (i < n && n >= BITS && held < enough) {                                                     \
        ONE_BLOCK(name, type, bits, less, side, n - BITS, UINT64_MAX << (BITS - (n - i)));         \
        i = n;                                                                                     \
    }

#endif
