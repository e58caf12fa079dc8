/* subset.c - uniform subsets of a range. */
#include "dptk.h"
#include "variate.h"

#include <string.h>

size_t dptk_subset_scratch(size_t m)
{
    size_t size = 2;
    while (size < 2 * m) size *= 2;
    return size;
}

int dptk_subset(dptk_rng *rng, int64_t first, uint64_t n, size_t m, int64_t *scratch, int64_t *rank)
{
    const size_t size = dptk_subset_scratch(m), mask = size - 1;
    memset(scratch, 0xFF, size * sizeof *scratch); /* -1: an empty place */
    for (size_t i = 0; i < m; i++) {
        const int64_t last = (int64_t)(n - m + i);
        uint64_t at = 0;
        int64_t chosen;
        int status = last ? next_below(rng, (uint64_t)last + 1, &at) : DPTK_OK;
        if (status != DPTK_OK) return status;
        chosen = (int64_t)at;
        for (int tries = 0; tries < 2; tries++) { /* `last` can't be taken yet */
            size_t place = (size_t)(((uint64_t)chosen * 0x9E3779B97F4A7C15u) >> 20) & mask;
            while (scratch[place] >= 0 && scratch[place] != chosen) place = (place + 1) & mask;
            if (scratch[place] < 0) {
                scratch[place] = chosen;
                break;
            }
            chosen = last;
        }
        rank[i] = first + chosen;
    }
    return DPTK_OK;
}
