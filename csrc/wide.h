/* wide.h - numbers as sums of two doubles, high + low, |low| <= 2^-53 |high|.
 *
 * Sums and products of two doubles are exact as such a pair (Knuth; Dekker) as
 * long as nothing overflows or underflows; what follows errs by 2^-100 at most,
 * relatively, for positive numbers. */
#ifndef DPTK_WIDE_H
#define DPTK_WIDE_H

#include "dptk.h"

typedef dptk_wide wide;

/* a + b for |a| >= |b|. */
static inline wide wide_of(double a, double b)
{
    const double sum = a + b;
    return (wide){sum, b - (sum - a)};
}

static inline wide wide_sum(double a, double b)
{
    const double sum = a + b, part = sum - a;
    return (wide){sum, (a - (sum - part)) + (b - part)};
}

static inline wide wide_split(double a)
{
    const double c = 0x1.000002p+27 * a, high = c - (c - a);
    return (wide){high, a - high};
}

static inline wide wide_product(double a, double b)
{
    const double product = a * b;
    const wide x = wide_split(a), y = wide_split(b);
    const double error = x.high * y.high - product;
    return (wide){product, ((error + x.high * y.low) + x.low * y.high) + x.low * y.low};
}

static inline wide wide_add(wide a, wide b)
{
    const wide sum = wide_sum(a.high, b.high);
    return wide_of(sum.high, sum.low + (a.low + b.low));
}

static inline wide wide_times(wide a, wide b)
{
    const wide product = wide_product(a.high, b.high);
    return wide_of(product.high, product.low + (a.high * b.low + a.low * b.high));
}

static inline wide wide_over(wide a, double b)
{
    const double first = a.high / b;
    const wide back = wide_product(first, b);
    return wide_of(first, ((a.high - back.high) - back.low + a.low) / b);
}

#endif
