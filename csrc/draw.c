/* draw.c - the largest noisy scores of a few thousand: all noise is drawn, then the best taken.
 *
 * Gumbel noise only. For all items a bound of the noise that costs a few operations; the noise
 * itself for those whose bound is among the largest. All of it is made of +, -, * and / alone, so
 * that the compiler's vectors do many at once and every SIMD level rounds alike. */
#include "cut_impl.h"
#include "float_state.h"
#include "score.h"
#include "simd.h"
#include "variate.h"

#include <string.h>

static inline uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ln x to within LN_ERROR of itself, 2^-1000 < x < 2^1000.
 *
 * x = 2^e f with f in [sqrt(1/2), sqrt(2)); ln f = 2 atanh(s) for s = (f - 1)/(f + 1), of which
 * f - 1 is exact, so that s errs by 2^-52 of itself. z = s^2 < 0.02944; the series 2s (1 + z/3 +
 * z^2/5 + ...) is cut behind z^9/19, whose rest is below z^10/20 < 2^-54 of it. What follows 2s
 * is below 0.0102 of it: its own errors, z's 2^-51 and a few roundings, are below 2^-56 of 2s.
 * e is below 2^10 and LN_2_HIGH has 21 bits less than a double: their product is exact.
 * |ln x| >= |ln f|, as |e ln 2| >= 2 |ln f| unless e = 0. So the errors of s, of the sums 2s + ...,
 * + e LN_2_LOW and + e LN_2_HIGH, 2^-52 and three times 2^-53, are below LN_ERROR. */
#define LN_ERROR 0x1p-50
static inline double ln(double x)
{
    const double LN_2_HIGH = 0x1.62e42feep-1, LN_2_LOW = 0x1.a39ef35793c76p-33;
    const uint64_t root = UINT64_C(0x3FE6A09E667F3BCD); /* of 1/2 */
    const uint64_t exponent = (bits_of(x) - root + (UINT64_C(1023) << 52)) >> 52;
    const double e = from_bits(UINT64_C(0x4330) << 48 | exponent) - (0x1p52 + 1023.0);
    const double f = from_bits(bits_of(x) - ((exponent - 1023) << 52));
    const double s = (f - 1.0) / (f + 1.0), z = s * s;
    const double z2 = z * z, z4 = z2 * z2; /* by pairs: short chains keep many of them going */
    const double first = (2.0 / 3.0 + 2.0 / 5.0 * z) + (2.0 / 7.0 + 2.0 / 9.0 * z) * z2;
    const double then = (2.0 / 11.0 + 2.0 / 13.0 * z) + (2.0 / 15.0 + 2.0 / 17.0 * z) * z2;
    const double sum = first + (then + 2.0 / 19.0 * z4) * z4;
    return e * LN_2_HIGH + (2.0 * s + (s * z * sum + e * LN_2_LOW));
}

/* The first 52 bits of V = 1 - U, of which a word is the first 64 of U: V is in
 * [top, top + 1] 2^-52, whose middle is a double. */
static inline uint64_t top_of(uint64_t word) { return ~word >> 12; }

static inline double middle_of(uint64_t top)
{
    return from_bits(UINT64_C(0x3FF) << 52 | top) - (1.0 - 0x1p-53);
}

/* The noise -ln(-ln V) that belongs to a word, and how far it may be off.
 *
 * With t the middle and E = -ln t, V is off by 2^-53, so -ln V by 2^-53/t (1 + 2^-9) as long as
 * t > 2^-43, and by r = 2^-53/(t E) + LN_ERROR of itself, and the noise by r (1 + 2^-9) and
 * LN_ERROR of itself. E >= 1 - t. No noise here is larger than 37. */
enum { EDGE = 1 << 10 }; /* closer to 0 or 1, in 2^-52, V says too little */
#define MOST_NOISE 38.0

static double noise_error(uint64_t distance) /* of the top from the nearer end */
{
    const double nearer = (double)(int64_t)distance * 0x1p-52; /* >= min(t, 1 - t) - 2^-53 */
    return distance < EDGE
             ? INFINITY
             : 1.02 * (0x1p-53 / (nearer * (1.0 - nearer)) + LN_ERROR) + LN_ERROR * MOST_NOISE;
}

static inline uint64_t distance_of(uint64_t top)
{
    const uint64_t other = (UINT64_C(1) << 52) - 1 - top;
    return top < other ? top : other;
}

/* How far a value may be off: its noise, and 2^-50 of the score and of the sum, which have been
 * rounded a few times. A score is value - noise. */
static double value_error(double value, uint64_t distance)
{
    return noise_error(distance) + 0x1p-49 * (fabs(value) + MOST_NOISE);
}

/* What the noise is at most, but for a share of BOUND_ERROR, as long as 1 - V is no nearer to 0
 * than EDGE.
 *
 * With u the middle of U, -ln(1 - u) >= a, four terms of its series; and with a = 2^e (1 + m),
 * log2 a >= e + m + m (1 - m)(1 - 1/(2 ln 2)), since (log2(1 + m) - m)/(m (1 - m)) falls from
 * m = 0 to 1, where it is 1 - 1/(2 ln 2) > 0.278. U may be less than u by 2^-11 of it. Where it is
 * below a half, the bound is too high by 0.02 at most. */
#define BOUND_ERROR 0x1p-10
static inline double noise_bound(uint64_t word)
{
    const double LN_2 = 0.6931471805599453;
    const double u = middle_of(word >> 12);
    const double a = u * (1.0 + u * (0.5 + u * (0.33333333333333331 + u * 0.25)));
    const double steps = from_bits(UINT64_C(0x433) << 52 | bits_of(a) >> 12) - 0x1p52;
    const double f = from_bits((bits_of(a) & (UINT64_MAX >> 12)) | UINT64_C(0x3FF) << 52);
    return 1023.0 * LN_2 - LN_2 * (0x1p-40 * steps + 0.278 * ((f - 1.0) * (2.0 - f)));
}

/* ---- all at once ----------------------------------------------------------- */

/* Drops are scores less the largest one, of integers up to 2^52 and of doubles. Bounds are those
 * of values, drop times a factor and noise. */
#define LOOPS(target, level)                                                                       \
    target static void range_##level(const int64_t *key, size_t n, int64_t *least, int64_t *most)  \
    {                                                                                              \
        int64_t low = key[0], high = key[0];                                                       \
        for (size_t i = 1; i < n; i++) {                                                           \
            low = key[i] < low ? key[i] : low;                                                     \
            high = key[i] > high ? key[i] : high;                                                  \
        }                                                                                          \
        *least = low;                                                                              \
        *most = high;                                                                              \
    }                                                                                              \
    target static void drop_##level(const int64_t *restrict key, size_t n, int64_t most,           \
                                    double *restrict drop)                                         \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            drop[i] =                                                                              \
                0x1p52 - from_bits(UINT64_C(0x433) << 52 | ((uint64_t)most - (uint64_t)key[i]));   \
    }                                                                                              \
    target static void drop_real_##level(const int64_t *restrict key, size_t n, int64_t most,      \
                                         double *restrict drop)                                    \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) drop[i] = key_double(key[i]) - key_double(most);            \
    }                                                                                              \
    target static void bounds_##level(const uint64_t *restrict word, const double *restrict drop,  \
                                      size_t n, double factor, double *restrict bound)             \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) bound[i] = drop[i] * factor + noise_bound(word[i]);         \
    }                                                                                              \
    target static void values_##level(const uint64_t *restrict word, const double *restrict drop,  \
                                      size_t n, double factor, double *restrict value)             \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            value[i] = drop[i] * factor - ln(-ln(middle_of(top_of(word[i]))));                     \
    }

typedef struct loops {
    void (*range)(const int64_t *key, size_t n, int64_t *least, int64_t *most);
    void (*drop)(const int64_t *key, size_t n, int64_t most, double *drop);
    void (*drop_real)(const int64_t *key, size_t n, int64_t most, double *drop);
    void (*bounds)(const uint64_t *word, const double *drop, size_t n, double factor,
                   double *bound);
    void (*values)(const uint64_t *word, const double *drop, size_t n, double factor,
                   double *value);
} loops;
#define THESE(level)                                                                               \
    {                                                                                              \
        range_##level, drop_##level, drop_real_##level, bounds_##level, values_##level             \
    }

LOOPS(, portable)
#if DPTK_X86
LOOPS(DPTK_AVX2, avx2)
LOOPS(DPTK_AVX512, avx512)
#endif

/* By SIMD level. */
static const loops by_level[] = {
    THESE(portable),
#if DPTK_X86
    THESE(avx2),
    THESE(avx512),
#elif DPTK_NEON
    THESE(portable), /* which the compiler's vectors are part of */
#endif
};

/* Drops and bounds (before them, keys); then of up to n candidates their indices, keys, words,
 * drops and values, and two arrays more to sort them. */
enum { ARRAYS = 7 };

static size_t room_for(size_t n) { return n + DPTK_BLOCK + 1; }

size_t dptk_draw_scratch(size_t n) { return 2 * n + ARRAYS * room_for(n); }

/* More scales than these from the first score to the last, or differences past these powers of
 * two: the errors could be too wide, or the numbers past the range of doubles. */
static const double DEEP = 0x1p40, TOO_FAR = 0x1p500;

static int prepare(const dptk_column *col, double scale, int64_t *scratch)
{
    const loops *const run = &by_level[dptk_simd_get()];
    const int real = col->type >= DPTK_F32;
    const size_t n = col->n;
    double *const drop = (double *)scratch, span;
    int64_t *const key = scratch + n, least, most;
    if (dptk_keys(col, 0, n, key) == DPTK_NAN) return DPTK_NAN;
    run->range(key, n, &least, &most);
    if (real && (most >= DPTK_DOUBLE_INF || least <= ~DPTK_DOUBLE_INF)) return DPTK_NAN;
    span = real ? key_double(most) - key_double(least) : (double)((uint64_t)most - (uint64_t)least);
    if (!(scale > 1.0 / TOO_FAR && scale < TOO_FAR && span < TOO_FAR && span / scale < DEEP))
        return DPTK_UNDECIDED;
    if (real)
        run->drop_real(key, n, most, drop);
    else if (span < 0x1p51)
        run->drop(key, n, most, drop);
    else
        for (size_t i = 0; i < n; i++) drop[i] = -(double)((uint64_t)most - (uint64_t)key[i]);
    return DPTK_OK;
}

int dptk_draw_prepare(const dptk_column *col, double scale, int64_t *scratch)
{
    const uint64_t state = dptk_float_begin();
    const int status = prepare(col, scale, scratch);
    dptk_float_end(state);
    return status;
}

/* Items whose values are computed. */
typedef struct candidates {
    int64_t *index, *key, *to_index, *to_key;
    uint64_t *word;
    double *drop, *value;
    size_t n;
    uint64_t distance; /* of their words, the least */
} candidates;

static candidates none(int64_t *scratch, size_t n)
{
    const size_t room = room_for(n);
    return (candidates){.index = scratch,
                        .key = scratch + room,
                        .to_index = scratch + 2 * room,
                        .to_key = scratch + 3 * room,
                        .word = (uint64_t *)(scratch + 4 * room),
                        .drop = (double *)(scratch + 5 * room),
                        .value = (double *)(scratch + 6 * room)};
}

/* About the rank-th of 64 in the order of bounds, from some of them. */
static double floor_at(const double *bound, size_t n, size_t rank)
{
    enum { SAMPLE = DPTK_FEW, MORE = 4, LARGE = 2048 };
    const size_t times = n < LARGE ? 1 : MORE, step = (n + times * SAMPLE - 1) / (times * SAMPLE);
    double sum = 0.0;
    for (size_t j = 0; j < times; j++) {
        int64_t sample[SAMPLE] = {0};
        size_t size = 0;
        for (size_t at = j * step; at < n; at += times * step) sample[size++] = f64_key(bound[at]);
        sum += key_double(dptk_select_few(sample, size, (rank * size + SAMPLE - 1) / SAMPLE));
    }
    return sum / (double)times;
}

/* Those with bounds from a floor on; or all, if it is -INFINITY. */
static void choose(candidates *c, const double *bound, double floor, const uint64_t *word,
                   const double *drop, size_t n)
{
    dptk_filter_fn *const filter = dptk_filter(DPTK_F64, 0);
    dptk_hits hits = {.keys = c->key, .index = c->index};
    if (floor > -INFINITY) {
        for (size_t i = 0, read = 1; i < n && read > 0; i += read)
            read = filter((const char *)(bound + i), n - i, i, f64_key(floor), n + 1, &hits);
    } else {
        for (; hits.held < n; hits.held++) c->index[hits.held] = (int64_t)hits.held;
    }
    c->n = hits.held;
    c->distance = UINT64_MAX;
    for (size_t i = 0; i < c->n; i++) {
        const size_t at = (size_t)c->index[i];
        const uint64_t distance = distance_of(top_of(word[at]));
        c->distance = distance < c->distance ? distance : c->distance;
        c->word[i] = word[at];
        c->drop[i] = drop[at];
    }
}

/* Their order by value: to_index says which comes where. Keys are those of values less an
 * origin, which is no more than SPREAD below the largest: from 1 on they are spread well. Rounding
 * hides which is the larger of two that are within 2^-50 of the value and the origin. */
static const double SPREAD = 1024.0;

static void order(candidates *c)
{
    double least = c->value[0], most = c->value[0], origin;
    for (size_t i = 1; i < c->n; i++) {
        least = c->value[i] < least ? c->value[i] : least;
        most = c->value[i] > most ? c->value[i] : most;
    }
    origin = (least > most - SPREAD ? least : most - SPREAD) - 1.0;
    for (size_t i = 0; i < c->n; i++) {
        c->key[i] = f64_key(c->value[i] - origin);
        c->to_key[i] = (int64_t)i;
    }
    dptk_sort_pairs(c->key, c->to_key, c->n, (int64_t *)c->drop, c->to_index);
}

/* Whether the first k are certainly in order, and above all others of the candidates: the next
 * is the largest of these, but for what is hidden, and no worse known than the worst of all.
 * *low: what the k-th is at least. The largest value of all is above -4, as its drop is 0. */
static int in_order(const candidates *c, size_t k, double error_factor, double *low)
{
    *low = INFINITY;
    for (size_t i = 0; i < k; i++) {
        const size_t at = (size_t)c->to_index[i];
        const double value = c->value[at];
        const double error = error_factor * value_error(value, distance_of(top_of(c->word[at])));
        if (!(value + error < *low)) return 0;
        *low = value - error;
    }
    if (k < c->n) {
        double value = c->value[c->to_index[k]];
        value += 0x1p-50 * (fabs(value) + SPREAD + MOST_NOISE);
        if (!(value + error_factor * value_error(value, c->distance) < *low)) return 0;
    }
    return 1;
}

/* How far a value may be above a bound that was rounded. */
static double bound_error(double bound)
{
    return BOUND_ERROR + 0x1p-49 * (fabs(bound) + MOST_NOISE);
}

static int draw(dptk_rng *rng, size_t n, size_t k, double scale, double error_factor,
                int64_t *scratch, int64_t *item)
{
    const loops *const run = &by_level[dptk_simd_get()];
    const double *const drop = (const double *)scratch, factor = 1.0 / scale;
    double *const bound = (double *)(scratch + n);
    candidates c = none(scratch + 2 * n, n);
    const uint64_t *word;
    uint64_t least = UINT64_MAX;
    /* Some more than k of them, for what bounds are too high; of 64. */
    size_t rank = 2 + 64 * (k + k / 8 + 8) / n;
    while ((size_t)(rng->end - rng->next) < n) {
        const int status = rng->refill(rng);
        if (status != DPTK_OK) return status;
    }
    word = rng->next;
    rng->next += n;
    run->bounds(word, drop, n, factor, bound);
    for (double low = -INFINITY, floor = 0.0; floor > -INFINITY; rank *= 2) {
        const int known = low > -INFINITY; /* k values are that high */
        if (known)
            floor = low - 2.0 * error_factor * bound_error(low);
        else
            floor = n <= DPTK_FEW || rank >= 48 ? -INFINITY : floor_at(bound, n, rank);
        choose(&c, bound, floor, word, drop, n);
        if (c.n < k && !known) continue;
        if (c.n < k) return DPTK_UNDECIDED;
        run->values(c.word, c.drop, c.n, factor, c.value);
        order(&c);
        if (!in_order(&c, k, error_factor, &low)) return DPTK_UNDECIDED;
        if (low > floor + error_factor * bound_error(floor)) break;
        if (known) return DPTK_UNDECIDED;
    }
    for (size_t i = 0; i < k; i++) item[i] = c.index[c.to_index[i]];
    for (size_t i = 0; i < n; i++) least = word[i] < least ? word[i] : least;
    return least >> 12 < EDGE ? DPTK_UNDECIDED : DPTK_OK; /* all bounds hold */
}

int dptk_draw(dptk_rng *rng, size_t n, size_t k, double scale, double error_factor,
              int64_t *scratch, int64_t *item)
{
    const uint64_t state = dptk_float_begin();
    const int status = draw(rng, n, k, scale, error_factor, scratch, item);
    dptk_float_end(state);
    return status;
}
