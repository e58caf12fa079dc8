/* adaptive.c - the composition recursion for bounded-range steps.
 *
 * The mathematics, and why every number here is an upper bound, is in the
 * docstring of dptopk/accounting/adaptive.py; the contract is in dptk.h.
 */
#include "dptk.h"
#include "simd.h"

#include <math.h>

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

enum { TILE = 64, MAX_BLOCKS = DPTK_ADAPTIVE_MAX_CELLS / DPTK_ADAPTIVE_BLOCK };

/* Rounding, charged against us: 2^-50 of the larger value in each difference,
 * 2^-47 on each new value. */
static const double DIFF_PAD = 0x1p-50;
static const double STEP_PAD = 1.0 + 0x1p-47;
static const double TINY = 1e-300; /* keeps 0/0 out of a quotient that is then 0 */

/* One interval of t: the chance of the upper loss at its two ends, and the
 * growth of e^x across it less 1. */
typedef struct interval {
    double p0, q0; /* at the lower end: P and 1 - P */
    double p1, q1; /* at the upper end */
    double fall;   /* p0 - p1 */
    double growth;
} interval;

/* From the `low`-th to the `high`-th of m cells. P vanishes at the last, so its
 * argument is counted from there: range - low * cell would cancel. */
static interval make_interval(size_t m, double cell, size_t low, size_t high)
{
    double whole = -expm1(-(double)m * cell);
    double above0 = -(double)(m - low) * cell, above1 = -(double)(m - high) * cell;
    double shrunk = exp(-(double)m * cell) / whole;
    interval c;
    c.p0 = -expm1(above0) / whole;
    c.q0 = shrunk * expm1((double)low * cell);
    c.p1 = -expm1(above1) / whole;
    c.q1 = shrunk * expm1((double)high * cell);
    c.growth = expm1((double)(high - low) * cell);
    c.fall = exp(above0) * c.growth / whole;
    return c;
}

/* max(v, 0), exactly, in a form that compilers turn into vectors */
INLINE double positive(double v) { return 0.5 * (v + fabs(v)); }

/* The objective on an interval. left is value(x - t) and right is
 * value(x - t + range) at its lower t, left1 and right1 the same at its upper
 * t, `width` places lower. Between its ends the objective is their chord plus
 * k w(1-w)/(1 + w growth). Dropping that denominator bounds it by a parabola,
 * which rises over the higher end by over^2 / (4 k), so by at most over / 4. */
typedef struct piece {
    double top, k, over;
} piece;

INLINE piece objective(const interval *c, double left, double right, double left1, double right1)
{
    double f0 = c->p0 * left + c->q0 * right;
    double f1 = c->p1 * left1 + c->q1 * right1;
    double bend = (left1 - left) - (right1 - right) + DIFF_PAD * left1;
    double k = c->fall * (c->growth * (left1 - right1) + bend);
    double rise = f1 - f0;
    piece found = {f0 + positive(rise), k, positive(k - fabs(rise))};
    return found;
}

/* An upper bound on the interval without a division; nonzero if it exceeds best. */
INLINE int may_exceed(const interval *c, const double *left, const double *right, size_t width,
                      const double *best)
{
    const double *left1 = left - width, *right1 = right - width;
    int64_t any = 0;
    for (size_t i = 0; i < TILE; i++) {
        piece f = objective(c, left[i], right[i], left1[i], right1[i]);
        any |= f.top + 0.25 * f.over > best[i];
    }
    return any != 0;
}

/* best = max(best, the parabola's peak), without over^2, which underflows */
INLINE void raise_to_peak(const interval *c, const double *left, const double *right, size_t width,
                          double *restrict best)
{
    const double *left1 = left - width, *right1 = right - width;
    for (size_t i = 0; i < TILE; i++) {
        piece f = objective(c, left[i], right[i], left1[i], right1[i]);
        double top = f.top + f.over * (f.over / (4.0 * positive(f.k) + TINY));
        best[i] = top > best[i] ? top : best[i];
    }
}

/* best = max(best, the objective at the interval's lower end) */
INLINE void raise_to_end(const interval *c, const double *left, const double *right,
                         double *restrict best)
{
    for (size_t i = 0; i < TILE; i++) {
        double f = c->p0 * left[i] + c->q0 * right[i];
        best[i] = f > best[i] ? f : best[i];
    }
}

/* New values for TILE places x, from `now` = the old value at the first x.
 * First the objective at the ends of the blocks, then at those of the cells of
 * the promising blocks, then the peaks inside the promising cells. What is
 * skipped has a bound of its own that does not exceed what is already reached. */
INLINE void tile(const interval *cells, const interval *blocks, size_t m, const double *now,
                 double *best)
{
    const size_t width = DPTK_ADAPTIVE_BLOCK;
    for (size_t i = 0; i < TILE; i++) best[i] = 0.0;
    for (size_t c = 0; c < m; c += width) raise_to_end(&cells[c], now - c, now - c + m, best);
    int open[MAX_BLOCKS];
    for (size_t b = 0; b < m / width; b++) {
        const double *left = now - b * width;
        open[b] = may_exceed(&blocks[b], left, left + m, width, best);
        for (size_t c = b * width + 1; open[b] && c < (b + 1) * width; c++)
            raise_to_end(&cells[c], now - c, now - c + m, best);
    }
    for (size_t c = 0; c < m; c++)
        if (open[c / width] && may_exceed(&cells[c], now - c, now - c + m, 1, best))
            raise_to_peak(&cells[c], now - c, now - c + m, 1, best);
}

/* The same loops in vectors of two widths; the results are the same. */
typedef void advance_fn(const interval *, const interval *, size_t, const double *, double *);

static void advance_portable(const interval *cells, const interval *blocks, size_t m,
                             const double *now, double *best)
{
    tile(cells, blocks, m, now, best);
}

#if DPTK_X86
DPTK_AVX2 static void advance_avx2(const interval *cells, const interval *blocks, size_t m,
                                   const double *now, double *best)
{
    tile(cells, blocks, m, now, best);
}
DPTK_AVX512 static void advance_avx512(const interval *cells, const interval *blocks, size_t m,
                                       const double *now, double *best)
{
    tile(cells, blocks, m, now, best);
}
#endif

/* By SIMD level. */
static advance_fn *const advances[] = {
    advance_portable,
#if DPTK_X86
    advance_avx2,
    advance_avx512,
#endif
};

/* Values right of n at the floor, then values left of 0 by symmetry. */
static void pad(double *value, size_t n, size_t m, double cell, double floor_)
{
    for (size_t i = n; i < n + 2 * m + TILE; i++) value[i] = floor_;
    for (size_t i = 1; i <= m; i++) {
        double x = (double)i * cell;
        *(value - i) = (exp(-x) * value[i] - expm1(-x)) * STEP_PAD;
    }
}

static double at_least(double value, double floor_) { return value > floor_ ? value : floor_; }

size_t dptk_adaptive_scratch(size_t m, size_t capacity)
{
    return 2 * (capacity + 4 * m + 2 * TILE);
}

int dptk_adaptive(size_t steps, size_t m, size_t capacity, double range, double floor_,
                  double *scratch, double *out, size_t *n_out)
{
    advance_fn *const advance = advances[dptk_simd_get()];
    interval cells[DPTK_ADAPTIVE_MAX_CELLS], blocks[MAX_BLOCKS];
    size_t n = m < capacity ? m : capacity;
    size_t half = dptk_adaptive_scratch(m, capacity) / 2;
    double cell = range / (double)m;
    double *now = scratch + m, *next = scratch + half + m;
    for (size_t c = 0; c < m; c++) cells[c] = make_interval(m, cell, c, c + 1);
    for (size_t b = 0; b < m / DPTK_ADAPTIVE_BLOCK; b++)
        blocks[b] = make_interval(m, cell, b * DPTK_ADAPTIVE_BLOCK, (b + 1) * DPTK_ADAPTIVE_BLOCK);
    for (size_t i = 0; i < n; i++) {
        double root = expm1(-(double)(m - i) * cell / 2.0);
        now[i] = at_least(root * root / -expm1(-range) * STEP_PAD, floor_);
    }
    pad(now, n, m, cell, floor_);
    for (size_t step = 1; step < steps; step++) {
        double best[TILE];
        size_t grown = n + m < capacity ? n + m : capacity;
        for (size_t x = 0; x < grown; x += TILE) {
            advance(cells, blocks, m, now + x, best);
            for (size_t i = 0; i < TILE; i++) next[x + i] = at_least(best[i] * STEP_PAD, floor_);
        }
        while (grown > 1 && next[grown - 1] <= floor_) grown--;
        n = grown;
        pad(next, n, m, cell, floor_);
        double *swap = now;
        now = next;
        next = swap;
    }
    for (size_t i = 0; i < n; i++) out[i] = now[i];
    *n_out = n;
    return DPTK_OK;
}
