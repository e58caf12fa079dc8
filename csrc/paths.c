/* paths.c - how many monotone lattice paths run under a staircase.
 *
 * A path is a sequence 0 <= x_1 <= ... <= x_k of integers with x_i <= bound[i].
 * The stairs are the distinct values of bound + 1. Below a stair, F[i] counts
 * the ways to have placed exactly the first i numbers; the next stair, g units
 * higher, takes m more in C(g + m - 1, m) ways: its row is the product of F with
 * the series (1 - z)^-g, less the entries that have placed too few.
 *
 * The counts reach d^k. So that a row fits doubles, F[i] is tilted by theta^i. A
 * typical path is as straight as the stairs allow: the least concave curve above
 * the points (height, numbers placed by then). Where it has slope rho, theta =
 * rho / (1 + rho): the weights of a stair, C(g + m - 1, m) theta^m, then have
 * their largest where the path goes. Slopes fall, and with them theta: from one
 * stair to the next, entries shrink by r^(i - placed), r <= 1.
 *
 * So entries of a row that are far below its largest, by 2^-depth, matter to
 * nobody, and few are not: some times the square root of k, as a walk spreads,
 * or its cube root, where it runs along the stairs. What is left out is kept
 * account of: no more than `lost` in any entry of a row, as weights add up to 1
 * and r <= 1. All terms are positive, and their relative errors small.
 *
 * A stair of few units is that many times y[j] = f[j] + theta y[j - 1]. */
#include "dptk.h"
#include "product.h"
#include "variate.h"
#include "wide.h"

#include <math.h>
#include <string.h>

static const double LN_2 = 0x1.62e42fefa39efp-1;

/* ---- stairs ------------------------------------------------------------------ */

static double slope(const dptk_stair *stair, size_t from, size_t to)
{ /* from the top of stair from - 1, the origin if 0, to that of stair to - 1 */
    const double placed = from ? (double)stair[from - 1].placed : 0.0;
    const double foot = from ? (double)stair[from - 1].height : 0.0;
    return ((double)stair[to - 1].placed - placed) / ((double)stair[to - 1].height - foot);
}

/* The stairs, each with the theta of the typical path below it. */
static size_t stairs_of(const int64_t *bound, size_t k, dptk_stair *stair)
{
    size_t n = 0, corners = 0, from = 0;
    double theta = 1.0;
    for (size_t placed = 0; placed < k; n++) {
        stair[n].height = bound[placed] + 1;
        while (placed < k && bound[placed] + 1 == stair[n].height) placed++;
        stair[n].placed = placed;
    }
    /* The corners of the least concave curve, in stair[].first. */
    for (size_t i = 1; i <= n; i++) {
        while (corners) {
            const size_t corner = stair[corners - 1].first;
            const size_t before = corners > 1 ? stair[corners - 2].first : 0;
            if (slope(stair, before, corner) > slope(stair, corner, i)) break;
            corners--;
        }
        stair[corners++].first = i;
    }
    for (size_t c = 0; c < corners; c++) {
        const size_t to = stair[c].first;
        const double rho = slope(stair, from, to);
        if (rho / (1.0 + rho) < theta) theta = rho / (1.0 + rho);
        for (; from < to; from++) stair[from].theta = theta;
    }
    return n;
}

/* ---- rows ---------------------------------------------------------------------- */

/* Where row s is kept, the row above s stairs: every stride-th, those since the
 * last of these, and no others; without a walk only the last two. */
static dptk_series row_at(const dptk_staircase *c, size_t s)
{
    const size_t width = c->k + 1, left = s % c->stride;
    const size_t slot = !c->rows ? s % 2 : left ? left - 1 : c->stride - 1 + s / c->stride;
    double *row = c->row + slot * width * (c->pairs ? 2 : 1);
    return (dptk_series){row, c->pairs ? row + width : NULL, width};
}

static dptk_series from(dptk_series row, size_t first, size_t n)
{
    return (dptk_series){row.high + first, row.low ? row.low + first : NULL, n};
}

static inline wide get(dptk_series row, size_t i)
{
    return (wide){row.high[i], row.low ? row.low[i] : 0.0};
}

/* One step of the recurrence t[m] = t[m - 1] theta (g + m - 1) / m. */
static inline wide next_weight(const dptk_staircase *c, wide t, int64_t g, double theta, size_t m)
{
    const double rise = (double)(g + (int64_t)m - 1);
    if (!c->pairs) return (wide){t.high * (theta * (rise / (double)m)), 0.0};
    return wide_over(wide_times(wide_times(t, (wide){rise, 0.0}), (wide){theta, 0.0}), (double)m);
}

/* What is known of the weights of a stair. */
typedef struct span {
    size_t skip, n;   /* they begin at m = skip, and there are n */
    int64_t exponent; /* they are 2^exponent of what they stand for */
    double sum, left; /* of all, at most 1; of those left out, for m <= most */
} span;

/* weight[i] = C(g + m - 1, m) theta^m 2^exponent for m = skip + i <= most, as far as
 * that is at least 2^-depth or so. */
static span weights(const dptk_staircase *c, int64_t g, double theta, size_t most)
{
    const double power = (double)g * log1p(-theta) / LN_2, cut = ldexp(1.0, -c->depth);
    dptk_series t = c->weight;
    wide x = {1.0, 0.0};
    size_t m = 0;
    int64_t reached = (int64_t)floor(power);
    span w = {0, 0, reached, exp(((double)reached - power) * LN_2) * (1.0 + 0x1p-30), 0.0};
    while (reached < -c->depth) {
        if (++m > most) return w;
        for (x = next_weight(c, x, g, theta, m); x.high >= 0x1p+8; reached += 8) {
            x.high *= 0x1p-8;
            x.low *= 0x1p-8;
        }
    }
    x.high = ldexp(x.high, (int)reached);
    x.low = ldexp(x.low, (int)reached);
    w.skip = m;
    w.left = (double)m * 256.0 * cut;
    for (;;) {
        double ratio;
        t.high[w.n] = x.high;
        if (t.low) t.low[w.n] = x.low;
        w.n++;
        if (++m > most) return w;
        x = next_weight(c, x, g, theta, m);
        ratio = theta * ((double)(g + (int64_t)m) / (double)(m + 1)) * (1.0 + 0x1p-50);
        if (x.high < cut && ratio < 1.0) { /* and ratios fall */
            w.left += 1.01 * x.high / (1.0 - ratio);
            return w;
        }
    }
}

/* What a sum loses to underflow, on a machine that flushes subnormal numbers to zero
 * too: less than this for each of its terms. */
static double underflow(const dptk_staircase *c) { return (double)(c->k + 1) * 0x1p-1015; }

/* What a step knows of its row. */
typedef struct window {
    size_t first, last;
    double lost, roundings;
    int64_t exponent; /* entries are 2^exponent of what they stand for */
} window;

/* g times y[j] = f[j] + theta y[j - 1]. */
static void climb(const dptk_staircase *c, dptk_series in, dptk_series out, int64_t g, double theta,
                  window *w)
{
    const double cut = ldexp(1.0, -c->depth);
    const size_t n = w->last - w->first + 1;
    double largest = 0.0;
    memcpy(out.high + w->first, in.high + w->first, n * sizeof(double));
    if (out.low) memcpy(out.low + w->first, in.low + w->first, n * sizeof(double));
    for (size_t j = w->first; j <= w->last; j++)
        if (out.high[j] > largest) largest = out.high[j];
    for (int64_t pass = 0; pass < g; pass++) {
        double scale;
        wide y = {0.0, 0.0};
        int shift;
        size_t j;
        frexp(largest, &shift); /* as doubles, they grow by 1 / (1 - theta) at most */
        scale = ldexp(1.0, -shift);
        w->exponent -= shift;
        w->lost *= scale;
        largest = 0.0;
        for (j = w->first; j <= c->k; j++) {
            if (out.low) {
                y = wide_times(y, (wide){theta, 0.0});
                if (j <= w->last) y = wide_add(y, (wide){out.high[j] * scale, out.low[j] * scale});
            } else {
                y.high *= theta;
                if (j <= w->last) y.high += out.high[j] * scale;
            }
            if (y.high > largest) largest = y.high;
            if (j > w->last && y.high < cut * largest) break;
            out.high[j] = y.high;
            if (out.low) out.low[j] = y.low;
        }
        w->last = j - 1;
        w->lost = (w->lost / (1.0 - theta) + cut * largest) * (1.0 + 0x1p-40);
    }
    w->roundings += (double)g;
}

/* The product with the weights of a stair of g units, from entry `to` on. */
static int multiply(const dptk_staircase *c, dptk_series in, dptk_series out, int64_t g,
                    double theta, size_t to, window *w)
{
    const span t = weights(c, g, theta, c->k - w->first);
    const size_t n = w->last - w->first + 1, start = w->first + t.skip;
    const size_t first = start > to ? start : to;
    size_t last = w->last + t.skip + t.n - 1;
    const double terms = (double)(t.n < n ? t.n : n);
    if (last > c->k) last = c->k;
    if (t.n == 0 || first > last) return DPTK_UNDECIDED;
    dptk_product(from(in, w->first, n), from(c->weight, 0, t.n), from(out, start, c->k + 1 - start),
                 first - start, last - start);
    w->first = first;
    w->last = last;
    w->exponent += t.exponent;
    w->lost = w->lost * t.sum + t.left;
    w->roundings += c->pairs ? (terms * terms + 8.0) / 4.0 : terms + 1.0;
    return DPTK_OK;
}

/* row[j] *= r^(j - to): r <= 1. */
static void tilt(dptk_series row, double to_theta, double theta, size_t to, window *w)
{
    wide power = {1.0, 0.0}, r = {to_theta / theta, 0.0}, square;
    if (row.low) r = wide_over((wide){to_theta, 0.0}, theta);
    square = r;
    for (size_t n = w->first - to; n; n /= 2) {
        if (n % 2) power = wide_times(power, square);
        square = wide_times(square, square);
    }
    for (size_t j = w->first; j <= w->last; j++) {
        if (row.low) {
            const wide x = wide_times(get(row, j), power);
            row.high[j] = x.high;
            row.low[j] = x.low;
            power = wide_times(power, r);
        } else {
            row.high[j] *= power.high;
            power.high *= r.high;
        }
    }
}

/* Row s + 1 out of row s. */
static int step(const dptk_staircase *c, size_t s)
{
    dptk_stair *stair = c->stair + s;
    const int64_t g = stair->height - (s ? stair[-1].height : 0);
    const size_t to = stair->placed;
    const double theta = stair->theta;
    const dptk_series in = row_at(c, s), out = row_at(c, s + 1);
    window w = {0, 0, 0.0, 0.0, 0};
    double largest = 0.0, cut, scale;
    int shift;
    if (s)
        w = (window){stair[-1].first, stair[-1].last, stair[-1].lost, stair[-1].roundings, 0};
    else {
        in.high[0] = 1.0;
        if (in.low) in.low[0] = 0.0;
    }
    /* A pass costs as much as some 24 terms of a product. */
    if (24.0 * (double)g * -log(theta) < (double)c->depth * LN_2)
        climb(c, in, out, g, theta, &w);
    else if (multiply(c, in, out, g, theta, to, &w) != DPTK_OK)
        return DPTK_UNDECIDED;
    if (w.first < to) w.first = to;
    if (w.first > w.last) return DPTK_UNDECIDED;
    if (s + 1 < c->stairs && stair[1].theta != theta) {
        tilt(out, stair[1].theta, theta, to, &w);
        w.roundings += 2.0 * (double)(w.last - to) + 8.0;
    }
    for (size_t j = w.first; j <= w.last; j++)
        if (out.high[j] > largest) largest = out.high[j];
    if (!(largest >= 0x1p-300 && largest <= 0x1p+300)) return DPTK_UNDECIDED;
    w.lost += underflow(c);
    cut = largest * ldexp(1.0, -c->depth);
    while (out.high[w.first] < cut) w.first++;
    while (out.high[w.last] < cut) w.last--;
    frexp(largest, &shift);
    scale = ldexp(1.0, -shift);
    for (size_t j = w.first; j <= w.last; j++) out.high[j] *= scale;
    if (out.low)
        for (size_t j = w.first; j <= w.last; j++) out.low[j] *= scale;
    stair->first = w.first;
    stair->last = w.last;
    stair->lost = (w.lost + cut) * scale * (1.0 + 0x1p-40);
    stair->roundings = w.roundings;
    stair->exponent = w.exponent - shift;
    return DPTK_OK;
}

/* ---- counts ---------------------------------------------------------------------- */

static size_t root(size_t n)
{ /* rounded up */
    size_t r = (size_t)sqrt((double)n);
    while (r * r < n) r++;
    return r;
}

/* stride - 1 rows and one in stride, with row 0: for no number of stairs more than this. */
static size_t slots(size_t k, int rows) { return rows ? 2 * root(k) + 2 : 2; }

/* Rounded up: where a double need not stand at a multiple of 8, a stair is 6.5 words. */
enum { STAIR_WORDS = (sizeof(dptk_stair) + sizeof(double) - 1) / sizeof(double) };

size_t dptk_paths_scratch(size_t k, int precision, int rows)
{
    const size_t row = (k + 1) * (precision == DPTK_PAIRS ? 2 : 1);
    return STAIR_WORDS * k + row * (2 + slots(k, rows));
}

/* How much of a count may be lost. */
static double may_lose(const dptk_staircase *c)
{
    static const double most[] = {0x1p-20, 0x1p-60, 0x1p-100};
    return most[c->precision];
}

/* The relative error of an entry of row s, s > 0, but for what is lost: a weight
 * takes 3 roundings, or a climb 2, for each number placed. */
static double error_of(const dptk_staircase *c, size_t s)
{
    const double roundings = c->stair[s - 1].roundings + 3.0 * (double)c->k;
    return 1.01 * roundings * (c->pairs ? 0x1p-100 : 0x1p-53) + 2.0 * may_lose(c);
}

int dptk_paths(const int64_t *bound, size_t k, int precision, int rows, const dptk_watch *watch,
               double *scratch, dptk_staircase *c)
{
    const int pairs = precision == DPTK_PAIRS;
    /* Bits that rows keep: more where a path is unlikely to keep under its stairs. */
    static const int depths[][4] = {
        {72, 192, 448, 900}, {160, 256, 448, 900}, {224, 320, 448, 900}};
    const size_t row = (k + 1) * (pairs ? 2 : 1);
    double *weight = scratch + STAIR_WORDS * k, *part = weight + row;
    int status = DPTK_UNDECIDED;
    *c = (dptk_staircase){
        .k = k, .precision = precision, .pairs = pairs, .rows = rows, .watch = watch};
    c->stair = (dptk_stair *)(void *)scratch;
    c->weight = (dptk_series){weight, pairs ? weight + (k + 1) : NULL, k + 1};
    c->part = (dptk_series){part, pairs ? part + (k + 1) : NULL, k + 1};
    c->row = part + row;
    c->stairs = stairs_of(bound, k, c->stair);
    c->stride = root(c->stairs);
    for (int deep = 0; deep < 4 && status != DPTK_OK; deep++) {
        c->depth = depths[precision][deep];
        c->exponent = 0;
        status = DPTK_OK;
        for (size_t s = 0; s < c->stairs && status == DPTK_OK; s++) {
            if (dptk_stopped(watch)) return DPTK_STOPPED;
            status = step(c, s);
            c->exponent += c->stair[s].exponent;
            if (!(c->stair[s].lost < may_lose(c))) status = DPTK_UNDECIDED;
        }
        if (status != DPTK_OK) continue;
        c->count = get(row_at(c, c->stairs), k);
        if (!(c->stair[c->stairs - 1].lost <= may_lose(c) * c->count.high)) status = DPTK_UNDECIDED;
    }
    if (status == DPTK_OK) c->error = error_of(c, c->stairs);
    c->at = (c->stairs - 1) / c->stride;
    return status;
}

/* log(count 2^-exponent) - sum of log(theta) for each number placed, as pairs. */
void dptk_paths_log(const dptk_staircase *c, double *log_count, double *error)
{
    const double logs[2] = {log(c->count.high), -(double)c->exponent * LN_2};
    wide sum = wide_sum(logs[0], logs[1]);
    double size = fabs(logs[0]) + fabs(logs[1]);
    for (size_t s = 0; s < c->stairs; s++) {
        const size_t placed = c->stair[s].placed - (s ? c->stair[s - 1].placed : 0);
        const double part = -(double)placed * log(c->stair[s].theta);
        sum = wide_add(sum, (wide){part, 0.0});
        size += part;
    }
    *log_count = sum.high;
    *error = c->error + 0x1p-59 + (LOG_ERROR + 0x1p-52) * size;
}

int dptk_paths_parts(dptk_staircase *c, size_t s, size_t taken, size_t *first, size_t *n,
                     double *error)
{
    const dptk_stair *stair = c->stair + s, *below = stair - 1;
    const size_t segment = s / c->stride;
    const dptk_series row = row_at(c, s);
    size_t last;
    double sum = 0.0;
    span t;
    if (segment != c->at) { /* its rows are made again, from the one that was kept */
        for (size_t i = segment * c->stride; i + 1 < (segment + 1) * c->stride; i++) {
            if (dptk_stopped(c->watch)) return DPTK_STOPPED;
            step(c, i);
        }
        c->at = segment;
    }
    t = weights(c, stair->height - below->height, stair->theta, taken - below->first);
    if (t.n == 0) return DPTK_UNDECIDED;
    *first = taken - (t.skip + t.n - 1);
    if (*first < below->first) *first = below->first;
    last = taken - t.skip < below->last ? taken - t.skip : below->last;
    if (last < *first) return DPTK_UNDECIDED;
    *n = last - *first + 1;
    for (size_t i = 0; i < *n; i++) {
        const wide weight = get(c->weight, taken - *first - i - t.skip);
        const wide x = get(row, *first + i);
        if (c->pairs) {
            const wide part = wide_times(x, weight);
            c->part.high[i] = part.high;
            c->part.low[i] = part.low;
        } else
            c->part.high[i] = x.high * weight.high;
        sum += c->part.high[i];
    }
    if (!(below->lost + t.left + underflow(c) <= may_lose(c) * sum)) return DPTK_UNDECIDED;
    *error = error_of(c, s);
    return DPTK_OK;
}
