/* draw.c - the largest noisy scores when all noise is drawn: a little of each, the rest of few.
 *
 * Gumbel noise only. The first 16 bits of each item's U bound its noise by a few operations. An
 * item whose value may be above a floor is a candidate: it gets the further bits of its U, and a
 * value. The floor is estimated so that some more than k are; if it is too high it falls, and
 * candidates stay what they are. So the floor changes the cost, never the law.
 *
 * Who is a candidate depends on doubles, computed by +, -, * and / alone: so every SIMD level and
 * machine rounds alike, as does the reference, and the compiler's vectors do many at once. */
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

/* ---- the first bits --------------------------------------------------------- */

/* Of a U in [r, r + 1) 2^-16, noise <= -ln U <= -ln (r 2^-16). ln is bounded from below by the
 * chords of log2, which the bits of a float are: log2 r >= steps(r) 2^-23 - 127. So in units of
 * ln 2 2^-23 a noise is at most BASE - steps(r), if r > 0. An item with r = 0 may have any noise. */
enum { LEADS = 4, BASE = 143 << 23 }; /* first bits a word; 127 + 16 */
#define UNITS 0x1.71547652b82fep+23   /* in 1: 2^23 / ln 2 */

static inline int32_t steps(uint16_t r)
{
    const float x = (float)(int32_t)r;
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* From the lowest bits of the first word up. */
static inline uint16_t lead_of(const uint64_t *word, size_t i)
{
    return (uint16_t)(word[i / LEADS] >> 16 * (i % LEADS));
}

/* Those of n items from a multiple of LEADS on: as they stand where low bytes come first. */
static void leads_of(const uint64_t *word, size_t first, size_t n, uint16_t *r)
{
    const uint16_t one = 1;
    uint8_t low;
    memcpy(&low, &one, 1);
    if (low)
        memcpy(r, word + first / LEADS, n * sizeof *r);
    else
        for (size_t i = 0; i < n; i++) r[i] = lead_of(word, first + i);
}

/* Not negative: the item is a candidate. A drop is in those units, and the floor leaves BASE
 * out. Clipping makes no difference for r > 0, as 0 < steps(r) < MOST; and with r = 0 any item
 * is one. */
static inline int32_t margin_of(double drop, double floor, uint16_t r)
{
    const double MOST = 0x1p31 - 0x1p8;
    double room = drop - floor;
    room = room > 0.0 ? room : 0.0;
    room = room < MOST ? room : MOST;
    return (int32_t)room - steps(r);
}

/* What a score that is no larger than another is less than that: by keys, of integers 2^52 apart
 * at most and of any; by their bits, of doubles. */
static inline double drop_narrow(int64_t key, int64_t most)
{
    return 0x1p52 - from_bits(UINT64_C(0x433) << 52 | ((uint64_t)most - (uint64_t)key));
}

static inline double drop_wide(int64_t key, int64_t most)
{
    return -(double)((uint64_t)most - (uint64_t)key);
}

static inline double drop_real(int64_t bits, int64_t most)
{
    return from_bits((uint64_t)bits) - from_bits((uint64_t)most);
}

/* ---- all at once ------------------------------------------------------------ */

#define MARGINS(target, level, kind)                                                               \
    target static void margins_##kind##_##level(                                                   \
        const int64_t *restrict score, const uint16_t *restrict r, size_t n, int64_t most,         \
        double factor, double floor, int32_t *restrict margin)                                     \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            margin[i] = margin_of(drop_##kind(score[i], most) * factor, floor, r[i]);              \
    }
#define RANGE(target, level, kind, key_of)                                                         \
    target static void range_##kind##_##level(const int64_t *score, size_t n, int64_t *least,      \
                                              int64_t *most)                                       \
    {                                                                                              \
        int64_t low = INT64_MAX, high = INT64_MIN;                                                 \
        for (size_t i = 0; i < n; i++) {                                                           \
            const int64_t key = key_of;                                                            \
            low = key < low ? key : low;                                                           \
            high = key > high ? key : high;                                                        \
        }                                                                                          \
        *least = low;                                                                              \
        *most = high;                                                                              \
    }
#define LOOPS(target, level)                                                                       \
    RANGE(target, level, whole, score[i])                                                          \
    RANGE(target, level, real, score[i] ^ (int64_t)((uint64_t)(score[i] >> 63) >> 1))              \
    MARGINS(target, level, narrow)                                                                 \
    MARGINS(target, level, wide)                                                                   \
    MARGINS(target, level, real)                                                                   \
    target static void values_##level(const uint64_t *restrict word, const double *restrict drop,  \
                                      size_t n, double factor, double *restrict value)             \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            value[i] = drop[i] * factor - ln(-ln(middle_of(top_of(word[i]))));                     \
    }

enum { NARROW, WIDE, REAL };
typedef struct loops {
    void (*range[2])(const int64_t *score, size_t n, int64_t *least, int64_t *most);
    void (*margins[3])(const int64_t *score, const uint16_t *r, size_t n, int64_t most,
                       double factor, double floor, int32_t *margin);
    void (*values)(const uint64_t *word, const double *drop, size_t n, double factor,
                   double *value);
} loops;
#define THESE(level)                                                                               \
    {                                                                                              \
        {range_whole_##level, range_real_##level},                                                 \
            {margins_narrow_##level, margins_wide_##level, margins_real_##level}, values_##level   \
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

/* ---- the scores ------------------------------------------------------------- */

enum { CHUNK = DPTK_CHUNK / 2 }; /* items at a time: all that is known of them stays in the L1 */

/* More scales than these from the first score to the last, or differences past these powers of
 * two: the errors could be too wide, or the numbers past the range of doubles. */
static const double DEEP = 0x1p40, VAST = 0x1p500;

/* Keys of the items [first, first + n) of integers, and of others their bits as doubles: where
 * they stand, if they are what stands there. */
static const int64_t *scores_of(const dptk_column *col, size_t first, size_t n, int64_t *buffer)
{
    const char *const at = col->data + (ptrdiff_t)first * col->stride;
    const int plain = col->type == DPTK_I64 || col->type == DPTK_F64;
    if (plain && col->stride == sizeof *buffer && (uintptr_t)at % sizeof *buffer == 0)
        return (const int64_t *)(const void *)at;
    if (col->type == DPTK_F32 && col->stride == sizeof(float)) { /* the compiler has vectors */
        for (size_t i = 0; i < n; i++) {
            DPTK_SCORE(float, x, at + i * sizeof x);
            buffer[i] = (int64_t)bits_of((double)x);
        }
    } else if (col->type == DPTK_F32) {
        for (size_t i = 0; i < n; i++) {
            DPTK_SCORE(float, x, at + (ptrdiff_t)i * col->stride);
            buffer[i] = (int64_t)bits_of((double)x);
        }
    } else if (col->type == DPTK_F64) {
        for (size_t i = 0; i < n; i++) {
            DPTK_SCORE(int64_t, bits, at + (ptrdiff_t)i * col->stride);
            buffer[i] = bits;
        }
    } else {
        dptk_keys(col, first, n, buffer);
    }
    return buffer;
}

static int prepare(const dptk_column *col, double scale, dptk_span *span)
{
    const loops *const run = &by_level[dptk_simd_get()];
    int64_t buffer[CHUNK], least, most;
    const int real = col->type >= DPTK_F32;
    double width;
    span->least = INT64_MAX;
    span->most = INT64_MIN;
    for (size_t i = 0; i < col->n; i += CHUNK) {
        const size_t n = col->n - i < CHUNK ? col->n - i : CHUNK;
        const int64_t *const score = scores_of(col, i, n, buffer);
        run->range[real](score, n, &least, &most);
        span->least = least < span->least ? least : span->least;
        span->most = most > span->most ? most : span->most;
    }
    least = span->least;
    most = span->most;
    if (real && (most >= DPTK_DOUBLE_INF || least <= ~DPTK_DOUBLE_INF)) return DPTK_NAN;
    width =
        real ? key_double(most) - key_double(least) : (double)((uint64_t)most - (uint64_t)least);
    return scale > 1.0 / VAST && scale < VAST && width < VAST && width / scale < DEEP
             ? DPTK_OK
             : DPTK_UNDECIDED;
}

int dptk_draw_prepare(const dptk_column *col, double scale, dptk_span *span)
{
    const uint64_t state = dptk_float_begin();
    const int status = prepare(col, scale, span);
    dptk_float_end(state);
    return status;
}

/* ---- the candidates --------------------------------------------------------- */

/* Items whose values are computed, and what they are computed from. */
typedef struct draws {
    const dptk_column *col;
    const uint64_t *word; /* the first bits */
    int64_t most;
    int kind; /* of drops */
    double factor;
    int64_t *index, *key, *place, *to_key, *to_place; /* the latter four to filter and sort */
    uint64_t *further;                                /* the first 64 bits of U */
    double *drop, *value;
    size_t n, capacity;
    uint64_t distance; /* of their words, the least */
} draws;

enum { ARRAYS = 8 };

static size_t room_for(size_t n) { return n + DPTK_BLOCK + CHUNK + 1; }

size_t dptk_draw_scratch(size_t capacity) { return ARRAYS * room_for(capacity); }

static draws none(const dptk_column *col, const dptk_span *span, double scale, size_t capacity,
                  int64_t *scratch)
{
    const size_t room = room_for(capacity);
    const int real = col->type >= DPTK_F32;
    const uint64_t width = (uint64_t)span->most - (uint64_t)span->least;
    return (draws){.col = col,
                   .most = real ? (int64_t)bits_of(key_double(span->most)) : span->most,
                   .kind = real                      ? REAL
                         : width < UINT64_C(1) << 51 ? NARROW
                                                     : WIDE,
                   .factor = UNITS / scale,
                   .index = scratch,
                   .key = scratch + room,
                   .place = scratch + 2 * room,
                   .to_key = scratch + 3 * room,
                   .to_place = scratch + 4 * room,
                   .further = (uint64_t *)(scratch + 5 * room),
                   .drop = (double *)(scratch + 6 * room),
                   .value = (double *)(scratch + 7 * room),
                   .capacity = capacity,
                   .distance = UINT64_MAX};
}

static double drop_of(const draws *d, int64_t score)
{
    return d->kind == REAL ? drop_real(score, d->most) : drop_wide(score, d->most);
}

/* A floor above which some more than a share of all bounds lie: the median of some maxima of
 * equally many, as no more than DPTK_FEW are quick to put in order; or the fitting rank of them,
 * where maxima for the median would be of too many, or of less than one. */
static double floor_at(const draws *d, double share)
{
    enum { TIMES = 2, LARGE = 2048, PART = 16, MOST = 64, MORE = 3 };
    const size_t n = d->col->n, times = n < LARGE ? 1 : TIMES;
    const size_t part = n / (PART * times * DPTK_FEW), limit = part < MOST ? part : MOST;
    const size_t wanted = (size_t)(0.69 / share);
    const size_t many = wanted < 1 || limit < 1 ? 1 : wanted < limit ? wanted : limit;
    double below = 1.0, sum = 0.0;
    size_t rank, j = 0;
    int64_t buffer;
    for (size_t i = 0; i < many; i++) below *= 1.0 - share;
    rank = MORE + (size_t)(DPTK_FEW * (1.0 - below));
    for (size_t time = 0; time < times; time++) {
        int64_t largest[DPTK_FEW];
        for (size_t i = 0; i < DPTK_FEW; i++) {
            double best = -INFINITY;
            for (const size_t end = j + many; j < end; j++) {
                /* Places as even as they can be, for any number of them. */
                const size_t at = (size_t)((j * UINT64_C(0x9E3779B9) & UINT32_MAX) * n >> 32);
                const double bound = drop_of(d, *scores_of(d->col, at, 1, &buffer)) * d->factor
                                   - (double)steps(lead_of(d->word, at));
                best = bound > best ? bound : best;
            }
            largest[i] = f64_key(best);
        }
        sum += key_double(dptk_select_few(largest, DPTK_FEW, rank));
    }
    return sum / (double)times;
}

/* Add those that are above a floor and were not above the one before. */
static int choose(draws *d, double floor, double before)
{
    const loops *const run = &by_level[dptk_simd_get()];
    dptk_filter_fn *const filter = dptk_filter(DPTK_I32, 0);
    const int again = before < INFINITY;
    const size_t most = d->col->n < CHUNK ? d->col->n : CHUNK;
    int64_t buffer[CHUNK];
    uint16_t r[CHUNK];
    int32_t margin[CHUNK];
    for (size_t first = 0; first < d->col->n; first += most) {
        const size_t n = d->col->n - first < most ? d->col->n - first : most;
        const size_t held = d->n;
        dptk_hits hits = {.keys = d->key, .index = d->index + held};
        const int64_t *const score = scores_of(d->col, first, n, buffer);
        leads_of(d->word, first, n, r);
        run->margins[d->kind](score, r, n, d->most, d->factor, floor, margin);
        for (size_t i = 0, read = 1; i < n && read > 0; i += read)
            read = filter((const char *)(margin + i), n - i, i, 0, CHUNK + 1, &hits);
        for (size_t i = 0; i < hits.held; i++) {
            const size_t at = (size_t)d->index[held + i];
            const double drop = drop_of(d, score[at]);
            if (again && margin_of(drop * d->factor, before, r[at]) >= 0) continue;
            d->index[d->n] = (int64_t)(first + at);
            d->further[d->n] = (uint64_t)r[at] << 48;
            d->drop[d->n] = drop;
            d->n++;
        }
        if (d->n > d->capacity) break;
    }
    dptk_wipe(r, most * sizeof *r);
    dptk_wipe(margin, most * sizeof *margin);
    return d->n > d->capacity ? DPTK_SCRATCH : DPTK_OK;
}

/* Give those from `first` on the further bits of their U, and all a value. */
static int evaluate(draws *d, size_t first, dptk_rng *rng, double scale)
{
    while ((size_t)(rng->end - rng->next) < d->n - first) {
        const int status = rng->refill(rng);
        if (status != DPTK_OK) return status;
    }
    for (size_t i = first; i < d->n; i++) {
        uint64_t distance;
        d->further[i] |= *rng->next++ >> 16;
        distance = distance_of(top_of(d->further[i]));
        d->distance = distance < d->distance ? distance : d->distance;
    }
    by_level[dptk_simd_get()].values(d->further, d->drop, d->n, 1.0 / scale, d->value);
    return DPTK_OK;
}

/* Their order by value: to_place says which comes where. Keys are those of values less an
 * origin, which is no more than DEPTH below the largest: from 1 on they are spread well. Rounding
 * hides which is the larger of two that are within 2^-50 of the value and the origin. */
static const double DEPTH = 1024.0;

static void order(draws *d)
{
    double least = d->value[0], most = d->value[0], origin;
    for (size_t i = 1; i < d->n; i++) {
        least = d->value[i] < least ? d->value[i] : least;
        most = d->value[i] > most ? d->value[i] : most;
    }
    origin = (least > most - DEPTH ? least : most - DEPTH) - 1.0;
    for (size_t i = 0; i < d->n; i++) {
        d->key[i] = f64_key(d->value[i] - origin);
        d->place[i] = (int64_t)i;
    }
    dptk_sort_pairs(d->key, d->place, d->n, d->to_key, d->to_place);
}

static double error_of(const draws *d, size_t at)
{
    return value_error(d->value[at], distance_of(top_of(d->further[at])));
}

/* Whether the first k are certainly in order, and above all others of the candidates: the next
 * is the largest of these, but for what is hidden, and no worse known than the worst of all.
 * Most lie further apart than the worst is known. *low, *high: bounds of the k-th. */
static int in_order(const draws *d, size_t k, double error_factor, double *low, double *high)
{
    const int64_t *const at = d->to_place;
    const double first = d->value[at[0]], last = d->value[at[k < d->n ? k : k - 1]];
    const double hidden = 0x1p-49 * (fabs(first) + fabs(last) + DEPTH + MOST_NOISE);
    const double worst = value_error(fabs(first) + fabs(last), d->distance);
    const double apart = 2.0 * error_factor * worst + hidden;
    for (size_t i = 1; i < k; i++) {
        const double above = d->value[at[i - 1]], below = d->value[at[i]];
        if (above - below > apart) continue;
        if (!(above - error_factor * error_of(d, (size_t)at[i - 1])
              > below + error_factor * error_of(d, (size_t)at[i])))
            return 0;
    }
    *low = d->value[at[k - 1]] - error_factor * error_of(d, (size_t)at[k - 1]);
    *high = d->value[at[k - 1]] + error_factor * error_of(d, (size_t)at[k - 1]);
    return k == d->n || last + (error_factor * worst + hidden) < *low;
}

/* What no value that is not above a floor exceeds. Roundings of the drop, the floor and the
 * difference are below 2^-50 of drop and floor; a drop below 4 floors and BASE is no matter. */
static double most_below(double floor)
{
    const double most = (floor + BASE) / UNITS;
    return most + (0x1p-20 + 0x1p-46 * fabs(most));
}

/* Nobody who reads memory that was freed learns U, or what says where it is. */
static void forget(draws *d)
{
    int64_t *const arrays[] = {d->index, d->key, d->place, d->to_key, d->to_place};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        dptk_wipe(arrays[i], d->n * sizeof **arrays);
    dptk_wipe(d->further, d->n * sizeof *d->further);
    dptk_wipe(d->drop, d->n * sizeof *d->drop);
    dptk_wipe(d->value, d->n * sizeof *d->value);
}

static int draw(draws *d, dptk_rng *rng, size_t k, double scale, double error_factor, int64_t *item)
{
    const size_t n = d->col->n, words = (n + LEADS - 1) / LEADS;
    /* Some more than k, for what bounds are too high and floors off. */
    double share = (double)(k + k / 5 + 8) / (double)n, low, high, before = INFINITY;
    while ((size_t)(rng->end - rng->next) < words) {
        const int status = rng->refill(rng);
        if (status != DPTK_OK) return status;
    }
    d->word = rng->next;
    rng->next += words;
    for (;; share *= 2.0) {
        const double floor = n <= DPTK_FEW || share > 0.5 ? -INFINITY : floor_at(d, share);
        const size_t first = d->n;
        int status;
        if (!(floor < before)) continue;
        status = choose(d, floor, before);
        if (status == DPTK_OK) status = evaluate(d, first, rng, scale);
        if (status != DPTK_OK) return status;
        before = floor;
        if (d->n < k) {
            /* All are above it that still are what `span` says of them. */
            if (floor == -INFINITY) return DPTK_CHANGED;
            continue;
        }
        order(d);
        if (!in_order(d, k, error_factor, &low, &high)) return DPTK_UNDECIDED;
        if (floor == -INFINITY || low > most_below(floor)) break;
        if (!(high < most_below(floor))) return DPTK_UNDECIDED;
    }
    for (size_t i = 0; i < k; i++) item[i] = d->index[d->to_place[i]];
    return DPTK_OK;
}

int dptk_draw(dptk_rng *rng, const dptk_column *col, const dptk_span *span, size_t k, double scale,
              double error_factor, size_t capacity, int64_t *scratch, int64_t *item)
{
    const uint64_t state = dptk_float_begin();
    draws d = none(col, span, scale, capacity, scratch);
    const int status = draw(&d, rng, k, scale, error_factor, item);
    forget(&d);
    dptk_float_end(state);
    return status;
}
