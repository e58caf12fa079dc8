/* draw_close.c - what a noisy score is, where a double does not tell it from another.
 *
 * 64 bits of U tell a noise x to some e^x 2^-65, which pairs of doubles hold (wide.h). Of the
 * orders that doubles leave open they leave about n/k in 2^21, if k of n are picked: to the exact
 * twin. */
#include "draw_impl.h"
#include "wide.h"

/* Of a logarithm, a quotient or a sum: below, by several bits. */
#define ROUNDINGS 0x1p-92
#define FINE 0x1p-20 /* a V, or an E, that is off by more of itself says too little */

static wide minus(wide a) { return (wide){-a.high, -a.low}; }

/* ln x to within ROUNDINGS of itself, 2^-70 < x < 2^10.
 *
 * x = 2^e f with f in about [sqrt(1/2), sqrt(2)]; ln f = 2 atanh(s) for s = (f - 1)/(f + 1), of
 * which f - 1 is exact. z = s^2 < 0.0295: of 2 s (1 + z/3 + z^2/5 + ...) the terms that are left
 * out are 2^-106 of it. If e is not 0, |e ln 2| > 1.9 |ln f|: no more than half cancels. */
static wide wide_ln(wide x)
{
    enum { TERMS = 20 };
    const wide LN_2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}, one = {1.0, 0.0};
    const double ROOT = 0x1.6a09e667f3bcdp-1; /* of 1/2 */
    int e;
    wide f, up, down, s, z, sum = {0.0, 0.0};
    const int twice = frexp(x.high, &e) < ROOT;
    e -= twice;
    f = (wide){ldexp(x.high, -e), ldexp(x.low, -e)};
    up = wide_sum(f.high, -1.0);
    up = wide_of(up.high, up.low + f.low);
    down = wide_add(f, one);
    s = wide_over(up, down.high); /* and a step of Newton's for what is not in down.high */
    s = wide_add(s, wide_over(wide_add(up, minus(wide_times(s, down))), down.high));
    z = wide_times(s, s);
    for (int i = TERMS - 1; i >= 0; i--)
        sum = wide_add(wide_times(sum, z), wide_over(one, 2.0 * i + 1.0));
    sum = wide_times(s, sum);
    return wide_add(wide_times((wide){e, 0.0}, LN_2), wide_add(sum, sum));
}

/* What a score is more than another: exactly, except past the range of doubles. */
static wide exact_drop(int64_t key, int64_t from, int real)
{
    if (real) return wide_sum(key_double(key), -key_double(from));
    if (key < from) return minus(exact_drop(from, key, real));
    const uint64_t up = (uint64_t)key - (uint64_t)from;
    return wide_sum((double)(up >> 32) * 0x1p32, (double)(up & UINT32_MAX));
}

/* The noise of a word, and what it may be off by. */
static wide noise_of(uint64_t word, double *error)
{
    const double HALF = 0x1p-65; /* V is in the middle of an interval, or off by that */
    const uint64_t v = ~word;
    const double low = ((double)(v & UINT32_MAX) + 0.5) * 0x1p-64;
    const wide middle = wide_sum((double)(v >> 32) * 0x1p-32, low);
    const wide e = minus(wide_ln(middle)), noise = minus(wide_ln(e));
    const double off = HALF / (middle.high * e.high);
    const int fine = HALF < FINE * middle.high && off < FINE;
    *error = fine ? 1.01 * (off + ROUNDINGS) + ROUNDINGS * fabs(noise.high) : INFINITY;
    return noise;
}

wide dptk_close_value(uint64_t word, int64_t key, int64_t from, int real, double scale,
                      double *error)
{
    const wide noise = noise_of(word, error);
    const wide score = wide_over(exact_drop(key, from, real), scale);
    *error = 1.01 * (*error + 2.0 * ROUNDINGS * (fabs(score.high) + fabs(noise.high)));
    if (!(*error < INFINITY)) *error = INFINITY; /* not a number: of differences past the range */
    return wide_add(score, noise);
}
