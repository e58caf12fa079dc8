/* paths_mod.c - how many paths run under a staircase, modulo a prime.
 *
 * With N_i paths under the first i bounds and B_i = bound[i - 1] + 1,
 *   N_n = sum over i < n of (-1)^(n - i - 1) C(B_(i+1), n - i) N_i
 * (expand Kreweras's and Steck's determinant by its last column): k^2 / 2 terms,
 * however high the stairs are. Signs alternate and most of it cancels, which is
 * no matter to residues. */
#include "dptk.h"
#include "simd.h"

/* Products of numbers below p < 2^61 as 128 bits, and Montgomery's reduction. */
typedef struct long_word {
    uint64_t low, high;
} long_word;

static inline long_word multiply(uint64_t a, uint64_t b)
{
#if DPTK_GNU && defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 uint128;
    const uint128 product = (uint128)a * b;
    return (long_word){(uint64_t)product, (uint64_t)(product >> 64)};
#else
    const uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    const uint64_t middle = ah * bl + (al * bl >> 32), other = al * bh + (uint32_t)middle;
    return (long_word){a * b, ah * bh + (middle >> 32) + (other >> 32)};
#endif
}

/* x / 2^64 modulo p, for x < 2^64 p; inverse = -1 / p modulo 2^64. */
static inline uint64_t reduce(long_word x, uint64_t p, uint64_t inverse)
{
    const long_word q = multiply(x.low * inverse, p);
    const uint64_t result = x.high + q.high + (x.low != 0);
    return result >= p ? result - p : result;
}

static inline uint64_t times(uint64_t a, uint64_t b, uint64_t p, uint64_t inverse)
{
    return reduce(multiply(a, b), p, inverse);
}

size_t dptk_paths_mod_scratch(size_t k) { return 3 * (k + 1); }

int dptk_paths_mod(const int64_t *bound, size_t k, uint64_t p, const dptk_watch *watch,
                   uint64_t *scratch, uint64_t *residue)
{
    uint64_t *over = scratch, *weight = over + (k + 1), *term = weight + (k + 1);
    uint64_t inverse = p, square, count = 1;                /* (-1)^n N_n */
    for (int i = 0; i < 6; i++) inverse *= 2 - p * inverse; /* 1 / p modulo 2^64 */
    inverse = -inverse;
    square = (UINT64_MAX % p + 1) % p; /* 2^64 modulo p */
    weight[0] = square;
    for (int i = 0; i < 64; i++) square = 2 * square >= p ? 2 * square - p : 2 * square;
    /* over[m] = 2^128 / m, by p = (p / m) m + p % m; weight[m] = 2^(64 m + 64) / m!. */
    over[1] = square;
    for (size_t m = 2; m <= k; m++)
        over[m] = times(times(p - p / m, square, p, inverse), over[p % m], p, inverse);
    for (size_t m = 1; m <= k; m++) weight[m] = times(weight[m - 1], over[m], p, inverse);
    for (size_t n = 1; n <= k; n++) {
        long_word sum = {0, 0};
        if (n % 64 == 0 && dptk_stopped(watch)) return DPTK_STOPPED;
        term[n - 1] = count;
        /* term[i] = (-1)^i N_i B (B - 1) ... (B - m + 1) / 2^(64 m) with m = n - i: 0 from
         * m = B + 1 on. Each 32 products add less than 2^66 p. */
        for (size_t i = 0; i < n;) {
            const size_t end = n - i > 32 ? i + 32 : n;
            for (; i < end; i++) {
                const uint64_t factor = (uint64_t)(bound[i] + 2 + (int64_t)i - (int64_t)n);
                long_word product;
                term[i] = times(term[i], factor, p, inverse);
                product = multiply(term[i], weight[n - i]);
                sum.low += product.low;
                sum.high += product.high + (sum.low < product.low);
            }
            if (sum.high >= p << 2) sum.high -= p << 2;
        }
        if (sum.high >= p << 1) sum.high -= p << 1;
        if (sum.high >= p) sum.high -= p;
        count = reduce(sum, p, inverse);
        count = count ? p - count : 0;
    }
    *residue = k % 2 && count ? p - count : count;
    return DPTK_OK;
}
