/* Products of positive polynomials, in part, against long doubles; the same bits at every SIMD
 * level. */
#include "fuzz.h"
#include "product.h"

enum { MOST = 48 };

/* Positive doubles, as pairs whose low part is far below. */
static void fill_series(input *in, dptk_series s, int spread)
{
    for (size_t i = 0; i < s.n; i++) {
        const double part = 1.0 + (double)number(in, 1) / 256.0;
        s.high[i] = ldexp(part, spread ? (int)(number(in, 1)) - 128 : 0);
        if (s.low) s.low[i] = s.high[i] * 0x1p-60 * (double)(int64_t)number(in, 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    const int pairs = (int)(number(&in, 1) % 2), spread = (int)(number(&in, 1) % 2);
    const size_t n = 1 + number(&in, 1) % MOST, m = 1 + number(&in, 1) % MOST, all = n + m - 1;
    const size_t from = number(&in, 1) % all, to = from + number(&in, 1) % (all - from);
    const size_t least = n < m ? n : m;
    const long double error =
        pairs ? (long double)(least * least + 8) * 0x1p-103L : (long double)(least + 1) * 0x1p-53L;
    /* Each in memory of just its size. */
    dptk_series a = {room(n * 8), pairs ? room(n * 8) : NULL, n};
    dptk_series b = {room(m * 8), pairs ? room(m * 8) : NULL, m};
    double *first = room(2 * all * 8);
    fill_series(&in, a, spread);
    fill_series(&in, b, spread);
    for (int level = 0; level <= dptk_simd_best(); level++) {
        dptk_series out = {room((to + 1) * 8), pairs ? room((to + 1) * 8) : NULL, to + 1};
        dptk_simd_set(level);
        dptk_product(a, b, out, from, to);
        for (size_t j = from; j <= to; j++) {
            long double sum = 0.0L;
            for (size_t i = j < m ? 0 : j - m + 1; i <= j && i < n; i++) {
                const long double x = a.high[i] + (pairs ? (long double)a.low[i] : 0.0L);
                sum += x * (b.high[j - i] + (pairs ? (long double)b.low[j - i] : 0.0L));
            }
            const long double found = out.high[j] + (pairs ? (long double)out.low[j] : 0.0L);
            CHECK(fabsl(found - sum) <= (error + 0x1p-57L) * sum);
            if (level == 0) first[2 * j] = out.high[j], first[2 * j + 1] = pairs ? out.low[j] : 0;
            CHECK(out.high[j] == first[2 * j]);
            if (pairs) CHECK(out.low[j] == first[2 * j + 1]);
        }
        free(out.high), free(out.low);
    }
    free(a.high), free(a.low), free(b.high), free(b.low), free(first);
    return 0;
}
