/* few.c - a few keys in order. */
#include "cut_impl.h"
#include "simd.h"

#include <string.h>

/* Which key comes at each place, in descending order, equal ones as they stand. */
typedef void order_fn(const int64_t *keys, size_t n, uint8_t *from);

static void insert(const int64_t *keys, size_t n, uint8_t *from)
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

#if DPTK_X86
typedef int64_t vector __attribute__((vector_size(32)));
typedef int64_t memory __attribute__((vector_size(32), aligned(1), may_alias));

/* The place of a key is how many come before it: larger ones, and equal ones that stand
 * before it. Each is compared with each, since branches that miss cost more; 16 at a time,
 * no matter what stands behind the last. */
DPTK_AVX2 static void compare(const int64_t *keys, size_t n, uint8_t *from)
{
    enum { STEP = 16, VECTORS = 4, LANES = 4 };
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
#else
#define compare insert
#endif

static void in_order(const int64_t *keys, size_t n, uint8_t *from)
{
    order_fn *const order = dptk_simd_get() >= DPTK_SIMD_AVX2 ? compare : insert;
    order(keys, n, from);
}

int64_t dptk_select_few(const int64_t *keys, size_t n, size_t rank)
{
    uint8_t from[DPTK_FEW];
    in_order(keys, n, from);
    return keys[from[rank - 1]];
}

void dptk_take_few(const int64_t *keys, const int64_t *index, size_t n, size_t m, int sorted,
                   int64_t *keys_out, int64_t *index_out)
{
    uint8_t from[DPTK_FEW + 1];

    in_order(keys, n, from);
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
