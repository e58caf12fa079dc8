/* draw_order.c - many values in descending order, if a glance shows that it is certain.
 *
 * What a value is above a floor, and 1, is a double whose bits are in the order of the values. How
 * far they are below the largest, less some last bits, and which value it is make one word: half as
 * much to sort as keys and places. Then neighbours are compared as far as words tell. If two are
 * too near for that, whoever asks has to look at the values themselves. */
#include "draw_impl.h"
#include "simd.h"

#define ONE INT64_C(0x3FF0000000000000) /* the bits of 1 */

/* What all values have: their floor, the error of their noise, the largest known error, and what
 * errors are multiplied by. */
typedef struct limits {
    double floor, noise_error, known, factor;
} limits;

/* The bits of what each is above the floor, and 1: exact to within 2^-52 of it. Returns whether it
 * is not certain of one on which side of the floor it is; the largest bits, of errors too. */
#define KEYS(target, level)                                                                        \
    target static int64_t keys_##level(const double *restrict value, const double *restrict error, \
                                       size_t n, const limits *all, int64_t *restrict key,         \
                                       int64_t *most, int64_t *known)                              \
    {                                                                                              \
        const limits same = *all;                                                                  \
        int64_t near = 0, top = ONE, worst = 0;                                                    \
        for (size_t i = 0; i < n; i++) {                                                           \
            const double gap = value[i] - same.floor;                                              \
            const double own =                                                                     \
                error[i] > 0.0 ? error[i] : error_within(same.noise_error, fabs(value[i]));        \
            const int64_t bits = (int64_t)bits_of(gap + 1.0);                                      \
            const int64_t known_bits = (int64_t)bits_of(error[i]);                                 \
            near |= -(int64_t)!(fabs(gap) > same.factor * own + 0x1p-52);                          \
            key[i] = bits;                                                                         \
            top = bits > top ? bits : top;                                                         \
            worst = known_bits > worst ? known_bits : worst;                                       \
        }                                                                                          \
        *most = top;                                                                               \
        *known = worst;                                                                            \
        return near;                                                                               \
    }

/* Whether a neighbour of n words may be as large as the one before it. A key is at most what its
 * word says, and at least that less its last bits. */
#define CLOSE(target, level)                                                                       \
    target static int64_t close_##level(const uint64_t *word, size_t n, int64_t most,              \
                                        unsigned shift, unsigned low, const limits *all)           \
    {                                                                                              \
        const limits same = *all;                                                                  \
        const uint64_t last = (UINT64_C(1) << shift) - 1;                                          \
        const double from = fabs(same.floor) + 1.0;                                                \
        int64_t close = 0;                                                                         \
        for (size_t i = 1; i < n; i++) {                                                           \
            const uint64_t high = (uint64_t)most - (word[i - 1] >> low << shift);                  \
            const uint64_t other = (uint64_t)most - (word[i] >> low << shift);                     \
            const double x = from_bits(high), gap = from_bits(high - last) - from_bits(other);     \
            const double both = 2.0 * (error_within(same.noise_error, x + from) + same.known);     \
            close |= -(int64_t)!(gap > same.factor * both + 0x1p-50 * x);                          \
        }                                                                                          \
        return close;                                                                              \
    }

#define LOOPS(target, level) KEYS(target, level) CLOSE(target, level)
LOOPS(, portable)
#if DPTK_X86
LOOPS(DPTK_AVX2, avx2)
LOOPS(DPTK_AVX512, avx512)
#endif

/* By SIMD level. */
static const struct {
    int64_t (*keys)(const double *value, const double *error, size_t n, const limits *all,
                    int64_t *key, int64_t *most, int64_t *known);
    int64_t (*close)(const uint64_t *word, size_t n, int64_t most, unsigned shift, unsigned low,
                     const limits *all);
} by_level[] = {
    {keys_portable, close_portable},
#if DPTK_X86
    {keys_avx2, close_avx2},
    {keys_avx512, close_avx512},
#elif DPTK_NEON
    {keys_portable, close_portable}, /* which the compiler's vectors are part of */
#endif
};

static unsigned bits_for(uint64_t most)
{
    unsigned bits = 1;
    while (bits < 64 && most >> bits > 0) bits++;
    return bits;
}

size_t dptk_descending(const double *value, const double *error, size_t n, double floor,
                       double noise_error, double factor, size_t k, int64_t *scratch, int64_t *to,
                       int64_t *place)
{
    limits all = {floor, noise_error, 0.0, factor};
    uint64_t *const word = (uint64_t *)scratch;
    int64_t most, known;
    size_t above = 0;
    if (!(floor > -INFINITY)) return 0;
    if (by_level[dptk_simd_get()].keys(value, error, n, &all, scratch, &most, &known)) return 0;
    all.known = from_bits((uint64_t)known);
    const unsigned bits = bits_for((uint64_t)(most - ONE)), low = bits_for(n - 1);
    const unsigned shift = bits + low > 64 ? bits + low - 64 : 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t key = scratch[i];
        word[above] = ((uint64_t)most - (uint64_t)key) >> shift << low | i;
        above += key >= ONE;
    }
    if (above < k || above < 2) return 0;
    dptk_sort_words(word, above, bits - shift + low, low, (uint64_t *)to);
    const size_t n_close = above > k ? k + 1 : k;
    if (by_level[dptk_simd_get()].close(word, n_close, most, shift, low, &all)) return 0;
    for (size_t i = 0; i < k; i++) place[i] = (int64_t)(word[i] & ((UINT64_C(1) << low) - 1));
    return above;
}
