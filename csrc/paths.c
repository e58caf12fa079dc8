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
#define PRODUCT(target, name)                                                                      \
    target static void name(const double *restrict f, const double *restrict t,                    \
                            double *restrict next, size_t from, size_t to, size_t k)               \
    {                                                                                              \
        size_t i = from;                                                                           \
        for (size_t j = to; j <= k; j++) next[j] = 0.0;                                            \
        for (; i + 3 <= k; i += 4) {                                                               \
            const size_t first = i + 3 > to ? i + 3 : to;                                          \
            const double *restrict a = t + (first - i);                                            \
            const double f0 = f[i], f1 = f[i + 1], f2 = f[i + 2], f3 = f[i + 3];                   \
            double *restrict out = next + first;                                                   \
            for (size_t j = i > to ? i : to; j < first; j++)                                       \
                for (size_t q = i; q <= j; q++) next[j] += f[q] * t[j - q];                        \
            for (size_t j = 0; j <= k - first; j++)                                                \
                out[j] = (((out[j] + f0 * a[j]) + f1 * (a - 1)[j]) + f2 * (a - 2)[j])              \
                       + f3 * (a - 3)[j];                                                          \
        }                                                                                          \
        for (; i <= k; i++)                                                                        \
            for (size_t j = i > to ? i : to; j <= k; j++) next[j] += f[i] * t[j - i];              \
    }

PRODUCT(, product_portable)
#if DPTK_X86
PRODUCT(DPTK_AVX2, product_avx2)
PRODUCT(DPTK_AVX512, product_avx512)
#endif

typedef void product_of(const double *restrict f, const double *restrict t, double *restrict next,
                        size_t from, size_t to, size_t k);

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
            const double slope =
                (double)(stair[i].placed - placed) / (double)(stair[i].height - foot);
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

/* ---- exact: residues modulo primes ------------------------------------------ */

/* Products of numbers below p < 2^61 as 128 bits, and Montgomery's reduction. */
typedef struct wide {
    uint64_t low, high;
} wide;

static inline wide multiply(uint64_t a, uint64_t b)
{
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 uint128;
    const uint128 product = (uint128)a * b;
    return (wide){(uint64_t)product, (uint64_t)(product >> 64)};
#else
    const uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    const uint64_t middle = ah * bl + (al * bl >> 32), other = al * bh + (uint32_t)middle;
    return (wide){a * b, ah * bh + (middle >> 32) + (other >> 32)};
#endif
}

/* x / 2^64 modulo p, for x < 2^64 p; inverse = -1 / p modulo 2^64. */
static inline uint64_t reduce(wide x, uint64_t p, uint64_t inverse)
{
    const wide q = multiply(x.low * inverse, p);
    const uint64_t result = x.high + q.high + (x.low != 0);
    return result >= p ? result - p : result;
}

static inline uint64_t times(uint64_t a, uint64_t b, uint64_t p, uint64_t inverse)
{
    return reduce(multiply(a, b), p, inverse);
}

/* sum of f[i] t[-i] for i < n, over 2^64. Each 32 products add less than 2^66 p. */
static uint64_t dot(const uint64_t *f, const uint64_t *t, size_t n, uint64_t p, uint64_t inverse)
{
    wide sum = {0, 0};
    for (size_t i = 0; i < n;) {
        const size_t end = n - i > 32 ? i + 32 : n;
        for (; i < end; i++) {
            const wide product = multiply(f[i], *(t - i));
            sum.low += product.low;
            sum.high += product.high + (sum.low < product.low);
        }
        if (sum.high >= p << 2) sum.high -= p << 2;
    }
    if (sum.high >= p << 1) sum.high -= p << 1;
    if (sum.high >= p) sum.high -= p;
    return reduce(sum, p, inverse);
}

size_t dptk_paths_mod_scratch(size_t k) { return 4 * (k + 1); }

void dptk_paths_mod(const int64_t *bound, size_t k, uint64_t p, uint64_t *scratch,
                    uint64_t *residue)
{
    uint64_t *t = scratch, *f = t + (k + 1), *next = f + (k + 1), *over = next + (k + 1);
    uint64_t inverse = p, one, square;
    int64_t below = 0;
    size_t placed = 0;
    for (int i = 0; i < 6; i++) inverse *= 2 - p * inverse; /* 1 / p modulo 2^64 */
    inverse = -inverse;
    one = square = (UINT64_MAX % p + 1) % p; /* 2^64 modulo p */
    for (int i = 0; i < 64; i++) square = 2 * square >= p ? 2 * square - p : 2 * square;
    /* over[m] = 2^128 / m modulo p, by p = (p / m) m + p % m. */
    over[1] = square;
    for (size_t m = 2; m <= k; m++)
        over[m] = times(times(p - p / m, square, p, inverse), over[p % m], p, inverse);
    memset(f, 0, (k + 1) * sizeof *f);
    f[0] = 1;
    while (placed < k) {
        const int64_t height = bound[placed] + 1;
        uint64_t *swap = f;
        size_t to = placed;
        while (to < k && bound[to] + 1 == height) to++;
        t[0] = one; /* t[m] = 2^64 C(g + m - 1, m) */
        for (size_t m = 1; m <= k - placed; m++)
            t[m] = times(times(t[m - 1], (uint64_t)(height - below) + (m - 1), p, inverse), over[m],
                         p, inverse);
        for (size_t j = to; j <= k; j++)
            next[j] = dot(f + placed, t + (j - placed), j - placed + 1, p, inverse);
        f = next;
        next = swap;
        below = height;
        placed = to;
    }
    *residue = f[k];
}
