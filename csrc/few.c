/* few.c - a few keys in order. */
#include "cut_impl.h"
#include "simd.h"

#include <string.h>

/* Which key comes at each place, in descending order, equal ones as they stand. */
static inline void insert(const int64_t *keys, size_t n, uint8_t *from)
{
    int64_t sorted[DPTK_FEW];

    for (size_t i = 0; i < n; i++) {
        const int64_t key = keys[i];
        size_t at = i;
        for (; at > 0 && sorted[at - 1] < key; at--) {
            sorted[at] = sorted[at - 1];
            from[at] = from[at - 1];
        }
        sorted[at] = key;
        from[at] = (uint8_t)i;
    }
}

#if DPTK_VECTORS
typedef int64_t vector __attribute__((vector_size(32)));
typedef int64_t memory __attribute__((vector_size(32), aligned(1), may_alias));

/* The place of a key is how many come before it: larger ones, and equal ones that stand
 * before it. Each is compared with each, since branches that miss cost more; 16 at a time,
 * no matter what stands behind the last. */
DPTK_FIRST_LEVEL static inline void compare(const int64_t *keys, size_t n, uint8_t *from)
{
    enum { STEP = 16, VECTORS = 4 };
    static const vector lane[VECTORS] = {
        {0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}};

    for (size_t part = 0; part < n; part += STEP) {
        const size_t end = n - part < STEP ? n : part + STEP;
        int64_t place[STEP];
        vector these[VECTORS], before[VECTORS]; /* counted down: true is -1 */
        size_t i = 0;

        for (int v = 0; v < VECTORS; v++) {
            these[v] = ((const memory *)(const void *)(keys + part))[v];
            before[v] = (vector){0};
        }
        for (; i < part; i++)
            for (int v = 0; v < VECTORS; v++) before[v] += ~(these[v] > keys[i]);
        for (; i < end; i++) {
            const int64_t at = (int64_t)(i - part);
            for (int v = 0; v < VECTORS; v++)
                before[v] += (these[v] < keys[i]) | ((these[v] == keys[i]) & (lane[v] > at));
        }
        for (; i < n; i++)
            for (int v = 0; v < VECTORS; v++) before[v] += these[v] < keys[i];
        memcpy(place, before, sizeof place);
        for (i = part; i < end; i++) from[-place[i - part]] = (uint8_t)i;
    }
}
#endif

/* Of keys from a bound on, without all but the first m that equal it. */
static size_t fewer(int64_t *keys, uint8_t *at, size_t n, size_t m, int64_t bound)
{
    size_t count = 0, ties = 0;

    for (size_t i = 0; i < n; i++) {
        const int equal = keys[i] == bound;
        keys[count] = keys[i];
        at[count] = at[i];
        count += !equal | (ties < m);
        ties += (size_t)equal;
    }
    return count;
}

/* The first m places of that order. The m-th largest of the maxima of LANES lanes is a bound
 * that m keys reach at least, and few more: only those are put in order. */
enum { LANES = 16 };

#define FIRST(target, level, order)                                                                \
    target static void first_##level(const int64_t *keys, size_t n, size_t m, uint8_t *from)       \
    {                                                                                              \
        int64_t lane[LANES], kept[DPTK_FEW + 1];                                                   \
        uint8_t at[DPTK_FEW + 1], rank[DPTK_FEW];                                                  \
        size_t count = 0, i = LANES;                                                               \
                                                                                                   \
        if (n < 2 * LANES || m > LANES) {                                                          \
            order(keys, n, from);                                                                  \
            return;                                                                                \
        }                                                                                          \
        memcpy(lane, keys, sizeof lane);                                                           \
        for (; n - i >= LANES; i += LANES)                                                         \
            for (size_t j = 0; j < LANES; j++)                                                     \
                lane[j] = keys[i + j] > lane[j] ? keys[i + j] : lane[j];                           \
        for (size_t j = 0; i < n; i++, j++) lane[j] = keys[i] > lane[j] ? keys[i] : lane[j];       \
        order(lane, LANES, rank);                                                                  \
        const int64_t bound = lane[rank[m - 1]];                                                   \
        for (i = 0; i < n; i++) {                                                                  \
            kept[count] = keys[i];                                                                 \
            at[count] = (uint8_t)i;                                                                \
            count += keys[i] >= bound;                                                             \
        }                                                                                          \
        if (count > 2 * LANES) count = fewer(kept, at, count, m, bound);                           \
        order(kept, count, rank);                                                                  \
        for (i = 0; i < m; i++) from[i] = at[rank[i]];                                             \
    }

FIRST(, portable, insert)
#if DPTK_VECTORS
FIRST(DPTK_FIRST_LEVEL, vectors, compare)
#else
#define first_vectors first_portable
#endif

static void first(const int64_t *keys, size_t n, size_t m, uint8_t *from)
{
    (dptk_simd_get() > DPTK_SIMD_PORTABLE ? first_vectors : first_portable)(keys, n, m, from);
}

int64_t dptk_select_few(const int64_t *keys, size_t n, size_t rank)
{
    uint8_t from[DPTK_FEW];
    first(keys, n, rank, from);
    return keys[from[rank - 1]];
}

void dptk_take_few(const int64_t *keys, const int64_t *index, size_t n, size_t m, int sorted,
                   int64_t *keys_out, int64_t *index_out)
{
    uint8_t from[DPTK_FEW + 1];

    first(keys, n, m, from);
    if (!sorted) { /* as they stand */
        uint8_t in[DPTK_FEW] = {0};
        size_t kept = 0;
        for (size_t i = 0; i < m; i++) in[from[i]] = 1;
        for (size_t i = 0; i < n; i++) {
            from[kept] = (uint8_t)i;
            kept += in[i];
        }
    }
    for (size_t i = 0; i < m; i++) {
        keys_out[i] = keys[from[i]];
        index_out[i] = index ? index[from[i]] : from[i];
    }
}
