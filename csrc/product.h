/* product.h - private to product.c and paths.c. */
#ifndef DPTK_PRODUCT_H
#define DPTK_PRODUCT_H

#include "dptk.h"

/* out[j] = sum over i of a[i] b[j - i], for j in [from, to], to < a.n + b.n - 1.
 * A term takes at most min(a.n, b.n) + 1 roundings in doubles; in pairs the
 * relative error is at most (min(a.n, b.n)^2 + 8) 2^-103. */
void dptk_product(dptk_series a, dptk_series b, dptk_series out, size_t from, size_t to);

#endif
