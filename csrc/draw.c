/* draw.c - the largest noisy scores when all noise is drawn: a little of each, the rest of few.
 *
 * Gumbel noise only. The first 16 bits of each item's U bound its noise by a few operations. An
 * item whose value may be above a floor is a candidate: it gets the further bits of its U, and a
 * value. The floor is estimated so that some more than k are; if it is too high it falls, and
 * candidates stay what they are. So the floor changes the cost, never the law.
 *
 * Who is a candidate depends on doubles, computed by +, -, * and / alone: so every SIMD level and
 * machine rounds alike, as does the reference, and the compiler's vectors do many at once. */
#include "draw_impl.h"
#include "float_state.h"
#include "simd.h"

/* ---- all at once ------------------------------------------------------------ */

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
        for (size_t i = 0; i < n; i++) value[i] = -ln(middle_of(top_of(word[i])));                 \
        for (size_t i = 0; i < n; i++) value[i] = drop[i] * factor - ln(value[i]);                 \
    }

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

static int prepare(const dptk_column *col, double scale, dptk_span *span)
{
    const loops *const run = &by_level[dptk_simd_get()];
    int64_t buffer[CHUNK], least, most;
    const int real = col->type >= DPTK_F32;
    span->least = INT64_MAX;
    span->most = INT64_MIN;
    for (size_t i = 0; i < col->n; i += CHUNK) {
        const size_t n = col->n - i < CHUNK ? col->n - i : CHUNK;
        const int64_t *const score = scores_of(col, i, n, buffer);
        run->range[real](score, n, &least, &most);
        span->least = least < span->least ? least : span->least;
        span->most = most > span->most ? most : span->most;
    }
    return span_status(span, real, scale);
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
    return (draws){.col = col,
                   .most = real ? (int64_t)bits_of(key_double(span->most)) : span->most,
                   .kind = drops_of(span, real),
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
        const double floor = share > 0.5 ? -INFINITY : floor_at(d, share);
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
    if (col->n <= DPTK_DRAW_FEW) {
        const int status = dptk_draw_few(rng, col, k, scale, error_factor, item);
        return status == DPTK_NAN ? DPTK_CHANGED : status;
    }
    const uint64_t state = dptk_float_begin();
    draws d = none(col, span, scale, capacity, scratch);
    const int status = draw(&d, rng, k, scale, error_factor, item);
    forget(&d);
    dptk_float_end(state);
    return status;
}
