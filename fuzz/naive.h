/* naive.h - the number of paths under a staircase, in long doubles: for k up to MOST_PATHS. */
#ifndef NAIVE_H
#define NAIVE_H

#include "fuzz.h"

enum { MOST_PATHS = 40 };

/* C(g + m - 1, m): in how many ways m numbers are placed in g places. */
static inline long double ways(long double g, size_t m)
{
    long double product = 1.0L;
    for (size_t i = 0; i < m; i++) product *= (g + (long double)i) / (long double)(i + 1);
    return product;
}

/* F[j], j <= k: the ways to place the first j numbers below the first stairs of bound + 1, those
 * that hold `placed` of the numbers. */
static inline void naive_row(const int64_t *bound, size_t k, size_t placed, long double *row)
{
    int64_t height = 0;
    for (size_t j = 0; j <= k; j++) row[j] = j == 0;
    for (size_t i = 0; i < placed;) {
        long double next[MOST_PATHS + 1];
        const int64_t to = bound[i] + 1;
        while (i < k && bound[i] + 1 == to) i++;
        for (size_t j = 0; j <= k; j++) {
            next[j] = 0.0L;
            for (size_t q = 0; j >= i && q <= j; q++)
                next[j] += row[q] * ways((long double)(to - height), j - q);
        }
        memcpy(row, next, (k + 1) * sizeof *row);
        height = to;
    }
}

static inline long double naive_log_paths(const int64_t *bound, size_t k)
{
    long double row[MOST_PATHS + 1];
    naive_row(bound, k, k, row);
    return logl(row[k]);
}

/* Distinct scores, descending, and how many items have each. */
static inline dptk_groups groups_of(input *in, int64_t *key, int64_t *end, size_t most)
{
    dptk_groups groups = {key, end, 0, (int)(number(in, 1) % 2)};
    const size_t n = 1 + number(in, 1) % most, bytes = 1 + number(in, 1) % 8;
    const size_t more = number(in, 1) % 6;
    int64_t held = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t x = (int64_t)number(in, bytes);
        size_t at = groups.n;
        if (groups.real) {
            double real = (double)x / 4.0;
            if (bytes == 8) memcpy(&real, &x, sizeof real);
            if (!(fabs(real) < 0x1p1000)) real = 0.0;
            real += 0.0; /* no -0.0 */
            memcpy(&x, &real, sizeof x);
            x = x >= 0 ? x : x ^ INT64_MAX;
        }
        while (at > 0 && key[at - 1] < x) at--;
        if (at > 0 && key[at - 1] == x) continue;
        memmove(key + at + 1, key + at, (groups.n++ - at) * sizeof *key);
        key[at] = x;
    }
    for (size_t g = 0; g < groups.n; g++) end[g] = held += 1 + (int64_t)number(in, more);
    return groups;
}

/* How much less the score of one group is than that of another: exact but for 2^-64 of it. */
static inline long double drop_of(const dptk_groups *groups, size_t from, size_t to)
{
    double x[2];
    if (!groups->real) return (long double)((__int128)groups->key[from] - groups->key[to]);
    for (int i = 0; i < 2; i++) {
        const int64_t key = groups->key[i ? to : from], bits = key >= 0 ? key : key ^ INT64_MAX;
        memcpy(&x[i], &bits, sizeof bits);
    }
    return (long double)x[0] - x[1];
}

#endif
