/* adaptive.c - the composition recursion for bounded-range steps.
 *
 * The mathematics, and why every number here is an upper bound, is in the
 * docstring of dptopk/accounting/adaptive.py; the contract is in dptk.h.
 */
#include "dptk.h"
#include "simd.h"

#include <math.h>

#if DPTK_GNU
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

enum { TILE = 64, MOST = DPTK_ADAPTIVE_MAX_CELLS, MAX_OPEN = 64 };

/* Rounding, charged against us: 2^-50 of the larger value in each difference,
 * 2^-47 on each new value. */
static const double DIFF_PAD = 0x1p-50;
static const double STEP_PAD = 1.0 + 0x1p-47;
static const double TINY = 1e-300; /* keeps 0/0 out of a quotient that is then 0 */

/* By the number c of cells from t = 0: the chance P of the upper loss, 1 - P, how fast P falls
 * there, and the growth of e^x across c cells less 1. */
typedef struct grid {
    size_t m;
    double p[MOST + 1], q[MOST + 1], slope[MOST + 1], growth[MOST + 1];
} grid;

/* P vanishes at the last end, so its argument is counted from there: range - c * cell would
 * cancel. */
static void make_grid(grid *g, size_t m, double cell)
{
    double range = (double)m * cell, whole = -expm1(-range);
    g->m = m;
    for (size_t c = 0; c <= m; c++) {
        double above = -(double)(m - c) * cell;
        g->p[c] = -expm1(above) / whole;
        g->q[c] = exp(-range) / whole * expm1((double)c * cell);
        g->slope[c] = exp(above) / whole;
        g->growth[c] = expm1((double)c * cell);
    }
}

/* Some cells in a row: P and 1 - P at their two ends, the fall of P and the growth of e^x. */
typedef struct interval {
    double p0, q0, p1, q1, fall, growth;
} interval;

INLINE interval between(const grid *g, size_t low, size_t high)
{
    double growth = g->growth[high - low];
    interval c = {g->p[low], g->q[low], g->p[high], g->q[high], g->slope[low] * growth, growth};
    return c;
}

/* max(v, 0), exactly, in a form that compilers turn into vectors */
INLINE double positive(double v) { return 0.5 * (v + fabs(v)); }

/* The objective on an interval. left is value(x - t) and right is
 * value(x - t + range) at its lower t, left1 and right1 the same at its upper
 * t, some places lower. Between its ends the objective is their chord plus
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

/* An upper bound on an interval without a division; nonzero if it exceeds best. */
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
INLINE void raise_to_peak(const interval *c, const double *left, const double *right,
                          double *restrict best)
{
    const double *left1 = left - 1, *right1 = right - 1;
    for (size_t i = 0; i < TILE; i++) {
        piece f = objective(c, left[i], right[i], left1[i], right1[i]);
        double top = f.top + f.over * (f.over / (4.0 * positive(f.k) + TINY));
        best[i] = top > best[i] ? top : best[i];
    }
}

/* best = max(best, the objective at an end of cells) */
INLINE void raise_to_end(double p, double q, const double *left, const double *right,
                         double *restrict best)
{
    for (size_t i = 0; i < TILE; i++) {
        double f = p * left[i] + q * right[i];
        best[i] = f > best[i] ? f : best[i];
    }
}

/* About the best t at one place, in cells, uphill from a guess. */
INLINE size_t climb(const grid *g, const double *now, size_t c)
{
    const size_t m = g->m;
    double here = g->p[c] * *(now - c) + g->q[c] * now[m - c];
    for (;;) {
        size_t best = c;
        for (size_t next = c ? c - 1 : 0; next <= c + 1 && next <= m; next++) {
            double f = g->p[next] * *(now - next) + g->q[next] * now[m - next];
            if (f > here) here = f, best = next;
        }
        if (best == c) return c;
        c = best;
    }
}

/* New values for TILE places x, from `now` = the old value at the first x, and `guess`, about
 * the best t in cells. The two cells beside it get their peaks. All others lie in intervals
 * that grow with the distance; one whose bound exceeds what is already reached is halved, down
 * to cells. So every t is covered, wherever the guess was. */
INLINE size_t tile(const grid *g, const double *now, size_t guess, double *best)
{
    const size_t m = g->m, c = climb(g, now + TILE / 2, guess);
    size_t lows[MAX_OPEN], highs[MAX_OPEN], open = 0;
    for (size_t i = 0; i < TILE; i++) best[i] = now[i]; /* t = 0 */
    raise_to_end(g->p[c], g->q[c], now - c, now - c + m, best);
    for (size_t from = c, width = 1; from < m; from += width, width *= 2, open++) {
        lows[open] = from;
        highs[open] = from + width < m ? from + width : m;
    }
    for (size_t from = c, width = 1; from > 0; from = lows[open++], width *= 2) {
        highs[open] = from;
        lows[open] = from > width ? from - width : 0;
    }
    for (size_t first = 0, rings = open; first < rings; first++) {
        lows[open] = lows[first], highs[open] = highs[first];
        for (size_t left_open = open + 1; left_open > open;) {
            size_t low = lows[--left_open], high = highs[left_open];
            const double *left = now - low;
            interval cells = between(g, low, high);
            if (high - low == 1) {
                raise_to_peak(&cells, left, left + m, best);
            } else if (may_exceed(&cells, left, left + m, high - low, best)) {
                size_t middle = low + (high - low) / 2;
                raise_to_end(g->p[middle], g->q[middle], now - middle, now - middle + m, best);
                lows[left_open] = low, highs[left_open++] = middle;
                lows[left_open] = middle, highs[left_open++] = high;
            }
        }
    }
    return c;
}

/* The same loops in vectors of two widths; the results are the same. */
typedef size_t advance_fn(const grid *, const double *, size_t, double *);

static size_t advance_portable(const grid *g, const double *now, size_t guess, double *best)
{
    return tile(g, now, guess, best);
}

#if DPTK_X86
DPTK_AVX2 static size_t advance_avx2(const grid *g, const double *now, size_t guess, double *best)
{
    return tile(g, now, guess, best);
}
DPTK_AVX512 static size_t advance_avx512(const grid *g, const double *now, size_t guess,
                                         double *best)
{
    return tile(g, now, guess, best);
}
#endif

/* By SIMD level. */
static advance_fn *const advances[] = {
    advance_portable,
#if DPTK_X86
    advance_avx2,
    advance_avx512,
#elif DPTK_NEON
    advance_portable, /* which the compiler's vectors are part of */
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

int dptk_adaptive(const double *start, size_t n_start, size_t steps, size_t m, size_t capacity,
                  double range, double floor_, double *scratch, double *out, size_t *n_out)
{
    advance_fn *const advance = advances[dptk_simd_get()];
    grid g;
    size_t n = n_start ? n_start : m, half = dptk_adaptive_scratch(m, capacity) / 2;
    double cell = range / (double)m;
    double *now = scratch + m, *next = scratch + half + m;
    make_grid(&g, m, cell);
    n = n < capacity ? n : capacity;
    for (size_t i = 0; i < n; i++) {
        double root = expm1(-(double)(m - i) * cell / 2.0);
        double first = root * root / -expm1(-range) * STEP_PAD;
        now[i] = at_least(n_start ? start[i] : first, floor_);
    }
    pad(now, n, m, cell, floor_);
    for (size_t step = n_start ? 0 : 1; step < steps; step++) {
        double best[TILE];
        size_t grown = n + m < capacity ? n + m : capacity, guess = m / 2;
        for (size_t x = 0; x < grown; x += TILE) {
            guess = advance(&g, now + x, guess, best);
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
