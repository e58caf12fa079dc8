/* paths.c - how many monotone lattice paths run under a staircase.
 *
 * A path is a sequence 0 <= x_1 <= ... <= x_k of integers with x_i <= bound[i].
 * The stairs are the distinct values of bound + 1. Below a stair, F[i] counts
 * the ways to have placed exactly the first i numbers; the next stair, g units
 * higher, takes m more in C(g + m - 1, m) ways. So every stair is one product
 * with a lower triangular Toeplitz matrix, on the i that are still possible.
 *
 * The counts reach d^k. So that a row of them fits doubles, F[i] is tilted by
 * theta^i. A typical path is as straight as the stairs allow: the least concave
 * curve above the points (height, numbers placed by then). Where it has slope
 * rho, theta = rho / (1 + rho): C(g + m - 1, m) theta^m is then as large as
 * (1 + rho)^g, e^k over all stairs. That does for k past 1,000, with a power of
 * two set aside for each stair. Slopes fall, and with them theta: from one stair
 * to the next, entries shrink by r^(i - placed), r <= 1.
 *
 * Every term is positive. A path's product takes 3 roundings a number placed,
 * 2 a number still to be placed where the slope changes, and 2 a stair; its sums
 * at most k + 1 a stair. What underflows is kept account of. */
#include "dptk.h"
#include "simd.h"
#include "variate.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double LN_2 = 0x1.62e42fefa39efp-1;
/* More than one operation can lose to underflow, on a machine that flushes
 * subnormal numbers to zero too. */
static const double UNDERFLOW = 0x1p-1021;

double dptk_stair_weights(double *t, size_t n, int64_t g, double theta, int *exponent)
{
    double sum;
    *exponent = (int)(-0.5 * (double)g * log1p(-theta) / LN_2);
    sum = t[0] = ldexp(1.0, -*exponent);
    for (size_t m = 1; m < n; m++) {
        t[m] = t[m - 1] * (theta * ((double)(g + (int64_t)m - 1) / (double)m));
        sum += t[m];
    }
    return sum;
}

/* next[j] = sum over i in [from, j] of f[i] t[j - i], for j in [to, k]. Four i
 * at a time: the sums have the same order, the loads are fewer. The same source
 * for each target: without contraction all levels round alike. */
#define PRODUCT(target, name)                                                                 \
    target static void name(const double *restrict f, const double *restrict t,               \
                            double *restrict next, size_t from, size_t to, size_t k)          \
    {                                                                                         \
        size_t i = from;                                                                      \
        for (size_t j = to; j <= k; j++) next[j] = 0.0;                                       \
        for (; i + 3 <= k; i += 4) {                                                          \
            const size_t first = i + 3 > to ? i + 3 : to;                                     \
            const double *restrict a = t + (first - i);                                       \
            const double f0 = f[i], f1 = f[i + 1], f2 = f[i + 2], f3 = f[i + 3];              \
            double *restrict out = next + first;                                              \
            for (size_t j = i > to ? i : to; j < first; j++)                                  \
                for (size_t q = i; q <= j; q++) next[j] += f[q] * t[j - q];                   \
            for (size_t j = 0; j <= k - first; j++)                                           \
                out[j] = (((out[j] + f0 * a[j]) + f1 * (a - 1)[j]) + f2 * (a - 2)[j])         \
                       + f3 * (a - 3)[j];                                                     \
        }                                                                                     \
        for (; i <= k; i++)                                                                   \
            for (size_t j = i > to ? i : to; j <= k; j++) next[j] += f[i] * t[j - i];         \
    }

PRODUCT(, product_portable)
#if DPTK_X86
PRODUCT(DPTK_AVX2, product_avx2)
PRODUCT(DPTK_AVX512, product_avx512)
#endif

typedef void product_of(const double *restrict f, const double *restrict t,
                        double *restrict next, size_t from, size_t to, size_t k);

/* By SIMD level. */
static product_of *const products[] = {
    product_portable,
#if DPTK_X86
    product_avx2,
    product_avx512,
#endif
};

/* The stairs, each with the theta of the typical path below it. */
static size_t stairs_of(const int64_t *bound, size_t k, dptk_stair *stair)
{
    size_t n = 0, corner = 0;
    for (size_t placed = 0; placed < k; n++) {
        stair[n].height = bound[placed] + 1;
        while (placed < k && bound[placed] + 1 == stair[n].height) placed++;
        stair[n].placed = placed;
    }
    for (size_t from = 0; from < n; from = corner + 1) {
        const int64_t foot = from ? stair[from - 1].height : 0;
        const size_t placed = from ? stair[from - 1].placed : 0;
        double steepest = 0.0;
        for (size_t i = from; i < n; i++) {
            const double slope = (double)(stair[i].placed - placed)
                               / (double)(stair[i].height - foot);
            if (slope >= steepest) {
                steepest = slope;
                corner = i;
            }
        }
        for (size_t i = from; i <= corner; i++) stair[i].theta = steepest / (1.0 + steepest);
    }
    return n;
}

size_t dptk_paths_scratch(size_t k, int rows) { return (k + 1) * (rows ? k + 2 : 3); }

int dptk_paths(const int64_t *bound, size_t k, int rows, double *scratch, dptk_stair *stair,
               size_t *stairs, double *log_count, double *error)
{
    double *t = scratch, *f = t + (k + 1), *next = f;
    double lost = 0.0, roundings = 3.0 * (double)k, logs = 0.0, sizes = 0.0;
    int64_t below = 0, exponents = 0;
    size_t placed = 0;

    *stairs = stairs_of(bound, k, stair);
    for (size_t s = 0; s < *stairs; s++) {
        const double theta = stair[s].theta, log_theta = log(theta);
        const size_t to = stair[s].placed;
        double sum, largest = 0.0, shrink, tilt = 1.0, power = 1.0;
        int exponent, shift;
        if (-0.5 * (double)(stair[s].height - below) * log1p(-theta) > 600.0)
            return DPTK_UNDECIDED; /* the power of two would leave the normal range */
        sum = dptk_stair_weights(t, k - placed + 1, stair[s].height - below, theta, &exponent);
        if (s == 0) { /* nothing is placed yet */
            memcpy(f + to, t + to, (k + 1 - to) * sizeof *t);
        } else {
            next = rows || s % 2 ? f + (k + 1) : f - (k + 1);
            products[dptk_simd_get()](f, t, next, placed, to, k);
        }
        for (size_t j = to; j <= k; j++)
            if (next[j] > largest) largest = next[j];
        if (!(largest >= 0x1p-900 && largest <= 0x1p+1000)) return DPTK_UNDECIDED;
        frexp(largest, &shift);
        shrink = ldexp(1.0, -shift);
        if (s + 1 < *stairs) tilt = stair[s + 1].theta / theta;
        for (size_t j = to; j <= k; j++) {
            next[j] = next[j] * shrink * power; /* shrink * power alone might be 0 */
            power *= tilt;
        }
        /* Everything lost so far, carried on; what products and weights lost now,
         * a weight after m steps of underflow m units; and the powers, which fall
         * by so much a step that theirs add up to two. */
        lost = (lost * sum + UNDERFLOW * (double)(k + 1) * (double)(k + 1)) * shrink;
        lost += 4.0 * UNDERFLOW;
        stair[s].lost = lost;
        exponents += exponent + shift;
        logs += (double)(to - placed) * log_theta;
        sizes += (double)(to - placed) * fabs(log_theta);
        roundings += (double)(k - placed) + 3.0 + (tilt == 1.0 ? 0.0 : 2.0 * (double)(k - to));
        below = stair[s].height;
        placed = to;
        f = next;
    }
    if (!(lost <= f[k] * 0x1p-60)) return DPTK_UNDECIDED;
    *log_count = log(f[k]) + (double)exponents * LN_2 - logs;
    sizes += fabs(log(f[k])) + fabs((double)exponents) * LN_2;
    *error = 1.01 * 0x1p-53 * roundings + 0x1p-59
           + (LOG_ERROR + 0x1p-52 * (double)(*stairs + 2)) * sizes;
    return DPTK_OK;
}
