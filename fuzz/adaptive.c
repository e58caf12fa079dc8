/* Composition of steps: never below the recursion in long doubles at any t of a finer grid, nor
 * below a step less; in two parts as at once; the same at every SIMD level. */
#include "fuzz.h"

enum { FINER = 3, MOST_CELLS = 8, CAPACITY = 60, STEPS = 4 };

typedef struct law {
    size_t m, n;
    long double range, cell, value[CAPACITY + 1];
} law;

/* delta at x, linear in e^x between places; past the last one it is 0. */
static long double delta_at(const law *v, long double x)
{
    if (x < 0.0L) return expl(x) * delta_at(v, -x) - expm1l(x); /* delta(-x) by symmetry */
    const size_t i = (size_t)(x / v->cell);
    if (i + 1 >= v->n) return i < v->n && x <= (long double)i * v->cell ? v->value[i] : 0.0L;
    const long double start = (long double)i * v->cell;
    const long double share = expm1l(x - start) / expm1l(v->cell);
    return v->value[i] + share * (v->value[i + 1] - v->value[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    const size_t m = 2 + number(&in, 1) % (MOST_CELLS - 1), steps = 1 + number(&in, 1) % STEPS;
    const size_t capacity = 1 + number(&in, 1) % CAPACITY, early = number(&in, 1) % steps;
    const double part = (1.0 + (double)number(&in, 2)) * 0x1p-13;
    const double range = ldexp(part, -(int)(number(&in, 1) % 30));
    const double floor_ = number(&in, 1) % 4 ? 1e-280 : ldexp(1.0, -(int)(number(&in, 1) % 200));
    double *scratch = room(dptk_adaptive_scratch(m, capacity) * 8);
    double *out = room(capacity * 8), *less = room(capacity * 8), *first = room(capacity * 8);
    double *rest = room(capacity * 8);
    size_t n, n_less, n_first = 0;
    law v = {m, m < capacity ? m : capacity, range, (long double)range / m, {0}};
    if (range > 8.0) goto done;
    for (size_t i = 0; i < v.n; i++) {
        const long double root = expm1l(((long double)i * v.cell - v.range) / 2.0L);
        v.value[i] = root * root / -expm1l(-v.range);
    }
    for (size_t step = 1; step < steps; step++) {
        law next = v;
        next.n = v.n + m < capacity ? v.n + m : capacity;
        for (size_t i = 0; i < next.n; i++) {
            next.value[i] = 0.0L;
            for (size_t c = 0; c <= FINER * m; c++) {
                const long double t = (long double)c * v.cell / FINER, x = (long double)i * v.cell;
                const long double up = expm1l(t - v.range) / expm1l(-v.range);
                const long double down = delta_at(&v, x - t + v.range);
                const long double mean = up * delta_at(&v, x - t) + (1.0L - up) * down;
                if (mean > next.value[i]) next.value[i] = mean;
            }
        }
        v = next;
    }
    for (int level = 0; level <= dptk_simd_best(); level++) {
        dptk_simd_set(level);
        CHECK(dptk_adaptive(out, 0, steps, m, capacity, range, floor_, scratch, out, &n)
              == DPTK_OK);
        CHECK(n >= 1 && n <= capacity);
        for (size_t i = 0; i < v.n; i++)
            CHECK((i < n ? out[i] : floor_) >= v.value[i] * (1.0L - 0x1p-58L));
        for (size_t i = 0; i < n; i++) CHECK(out[i] >= floor_ && isfinite(out[i]));
        if (early) {
            CHECK(dptk_adaptive(out, 0, early, m, capacity, range, floor_, scratch, less, &n_less)
                  == DPTK_OK);
            for (size_t i = 0; i < n_less; i++)
                CHECK(less[i] <= (i < n ? out[i] : floor_) * (1.0 + 0x1p-40));
            CHECK(dptk_adaptive(less, n_less, steps - early, m, capacity, range, floor_, scratch,
                                rest, &n_less)
                  == DPTK_OK);
            CHECK(n_less == n && same(rest, out, n * 8));
        }
        if (level == 0) memcpy(first, out, n * 8), n_first = n;
        CHECK(n == n_first && same(first, out, n * 8));
    }
done:
    free(scratch), free(out), free(less), free(first), free(rest);
    return 0;
}
