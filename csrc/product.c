/* product.c - products of polynomials with positive coefficients, in part.
 *
 * Direct, in doubles or in pairs of them (wide.h): every result has as small a
 * relative error as its terms. A transform has not, where the coefficients are
 * of many sizes, and the factors that paths.c has are too short for it to pay. */
#include "dptk.h"
#include "product.h"
#include "simd.h"
#include "wide.h"

/* out[j] for j in [from, to]: sum over i of a[i] b[j - i]. Four i at a time: the
 * sums have the same order, the loads are fewer. The same source for each target:
 * without contraction all levels round alike. */
#define PRODUCT(target, name)                                                                      \
    target static void name(const double *restrict a, size_t n, const double *restrict b,          \
                            size_t m, double *restrict out, size_t from, size_t to)                \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (size_t j = from; j <= to; j++) out[j] = 0.0;                                          \
        for (; i + 3 < n && m > 3; i += 4) {                                                       \
            const double a0 = a[i], a1 = a[i + 1], a2 = a[i + 2], a3 = a[i + 3];                   \
            const size_t first = i + 3 > from ? i + 3 : from;                                      \
            const size_t end = i + m < to + 1 ? i + m : to + 1;                                    \
            for (size_t j = i > from ? i : from; j < i + 3 && j <= to; j++)                        \
                for (size_t q = i; q <= j; q++) out[j] += a[q] * b[j - q];                         \
            if (first < end) {                                                                     \
                const double *restrict x = b + (first - i);                                        \
                double *restrict sum = out + first;                                                \
                for (size_t j = 0; j < end - first; j++)                                           \
                    sum[j] = (((sum[j] + a0 * x[j]) + a1 * (x - 1)[j]) + a2 * (x - 2)[j])          \
                           + a3 * (x - 3)[j];                                                      \
            }                                                                                      \
            for (size_t j = i + m > from ? i + m : from; j < i + m + 3 && j <= to; j++)            \
                for (size_t q = j - m + 1; q <= i + 3; q++) out[j] += a[q] * b[j - q];             \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            for (size_t j = i > from ? i : from; j < i + m && j <= to; j++)                        \
                out[j] += a[i] * b[j - i];                                                         \
    }

/* The same of pairs: high and low parts apart. The low parts of a sum are summed
 * as they are, and put in order at its end. */
#define WIDE_PRODUCT(target, name)                                                                 \
    target static void name(const double *restrict a, const double *restrict a_low, size_t n,      \
                            const double *restrict b, const double *restrict b_low, size_t m,      \
                            double *restrict out, double *restrict out_low, size_t from,           \
                            size_t to)                                                             \
    {                                                                                              \
        for (size_t j = from; j <= to; j++) out[j] = out_low[j] = 0.0;                             \
        for (size_t i = 0; i < n; i++) {                                                           \
            const double high = a[i], low = a_low[i];                                              \
            const size_t first = i > from ? i : from, end = i + m < to + 1 ? i + m : to + 1;       \
            const double *restrict x = b + (first - i), *restrict x_low = b_low + (first - i);     \
            double *restrict y = out + first, *restrict y_low = out_low + first;                   \
            for (size_t j = 0; first + j < end; j++) {                                             \
                const wide term = wide_product(high, x[j]), sum = wide_sum(y[j], term.high);       \
                y[j] = sum.high;                                                                   \
                y_low[j] += sum.low + (term.low + (high * x_low[j] + low * x[j]));                 \
            }                                                                                      \
        }                                                                                          \
        for (size_t j = from; j <= to; j++) {                                                      \
            const wide sum = wide_of(out[j], out_low[j]);                                          \
            out[j] = sum.high;                                                                     \
            out_low[j] = sum.low;                                                                  \
        }                                                                                          \
    }

PRODUCT(, product_portable)
WIDE_PRODUCT(, wide_product_portable)
#if DPTK_X86
PRODUCT(DPTK_AVX2, product_avx2)
PRODUCT(DPTK_AVX512, product_avx512)
WIDE_PRODUCT(DPTK_AVX2, wide_product_avx2)
WIDE_PRODUCT(DPTK_AVX512, wide_product_avx512)
#endif

typedef void product_fn(const double *restrict a, size_t n, const double *restrict b, size_t m,
                        double *restrict out, size_t from, size_t to);
typedef void wide_product_fn(const double *restrict a, const double *restrict a_low, size_t n,
                             const double *restrict b, const double *restrict b_low, size_t m,
                             double *restrict out, double *restrict out_low, size_t from,
                             size_t to);

/* By SIMD level. */
static const struct {
    product_fn *plain;
    wide_product_fn *pairs;
} products[] = {
    {product_portable, wide_product_portable},
#if DPTK_X86
    {product_avx2, wide_product_avx2},
    {product_avx512, wide_product_avx512},
#elif DPTK_NEON
    {product_portable, wide_product_portable}, /* which the compiler's vectors are part of */
#endif
};

void dptk_product(dptk_series a, dptk_series b, dptk_series out, size_t from, size_t to)
{
    const int level = dptk_simd_get();
    if (a.n > b.n) { /* the longer one in the inner loop */
        const dptk_series swap = a;
        a = b;
        b = swap;
    }
    if (out.low)
        products[level].pairs(a.high, a.low, a.n, b.high, b.low, b.n, out.high, out.low, from, to);
    else
        products[level].plain(a.high, a.n, b.high, b.n, out.high, from, to);
}
