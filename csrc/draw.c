/* draw.c - the largest noisy scores when noise is drawn of all: a little of each, more of few.
 *
 * Gumbel noise only. The first 16 bits of each item's U bound its noise by a few operations. An
 * item whose value may be above a floor is a candidate: it gets the further bits of its U, and a
 * value. The floor is estimated so that some more than k are; if it is too high it falls, and
 * candidates stay what they are. So the floor changes the cost, never the law.
 *
 * Of many items those with small scores may be a rest, of which no noise is drawn: they are one
 * block (blocks.h), which shows its items down to the floor. Or a sieve (sieve.c) drops those that
 * are below a floor for their first few bits; it is widened if the floor falls.
 *
 * Who is a candidate depends on doubles, computed by +, -, * and / alone: so every SIMD level and
 * machine rounds alike, as does the reference, and the compiler's vectors do many at once. */
#include "blocks.h"
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
    double room = drop - floor; /* not a number, where both are past the range: no floor */
    room = room <= 0.0 ? 0.0 : room;
    room = room < MOST ? room : MOST;
    return (int32_t)room - steps(r);
}

#define MARGINS(target, level, kind)                                                               \
    target static void margins_##kind##_##level(                                                   \
        const int64_t *restrict score, const uint16_t *restrict r, size_t n, int64_t from,         \
        double factor, double floor, int32_t *restrict margin)                                     \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            margin[i] = margin_of(drop_##kind(score[i], from) * factor, floor, r[i]);              \
    }
#define LOOPS(target, level)                                                                       \
    SPANS(target, level)                                                                           \
    MARGINS(target, level, narrow)                                                                 \
    MARGINS(target, level, wide)                                                                   \
    MARGINS(target, level, real)                                                                   \
    target static int64_t further_##level(const uint64_t *restrict word, size_t n,                 \
                                          uint64_t *restrict further)                              \
    {                                                                                              \
        int64_t least = INT64_MAX;                                                                 \
        for (size_t i = 0; i < n; i++) {                                                           \
            const uint64_t all = further[i] | word[i] >> 16;                                       \
            const int64_t distance = (int64_t)distance_of(top_of(all));                            \
            further[i] = all;                                                                      \
            least = distance < least ? distance : least;                                           \
        }                                                                                          \
        return least;                                                                              \
    }                                                                                              \
    target static void values_##level(const uint64_t *restrict word, const double *restrict drop,  \
                                      size_t n, double factor, double *restrict value)             \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) value[i] = -ln(middle_of(top_of(word[i])));                 \
        for (size_t i = 0; i < n; i++) value[i] = drop[i] * factor - ln(value[i]);                 \
    }

typedef struct loops {
    dptk_span (*span[2])(const int64_t *score, size_t n);
    void (*margins[3])(const int64_t *score, const uint16_t *r, size_t n, int64_t from,
                       double factor, double floor, int32_t *margin);
    int64_t (*further)(const uint64_t *word, size_t n, uint64_t *further);
    void (*values)(const uint64_t *word, const double *drop, size_t n, double factor,
                   double *value);
} loops;
#define THESE(level)                                                                               \
    {{span_whole_##level, span_real_##level},                                                      \
     {margins_narrow_##level, margins_wide_##level, margins_real_##level},                         \
     further_##level,                                                                              \
     values_##level}

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

static int prepare(const dptk_column *col, const int64_t *also, double scale, dptk_span *span)
{
    const loops *const run = &by_level[dptk_simd_get()];
    int64_t buffer[CHUNK];
    const int real = col->type >= DPTK_F32;
    *span = also ? (dptk_span){*also, *also} : (dptk_span){INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < col->n; i += CHUNK) {
        const size_t n = col->n - i < CHUNK ? col->n - i : CHUNK;
        const dptk_span part = run->span[real](scores_of(col, i, n, buffer), n);
        span->least = part.least < span->least ? part.least : span->least;
        span->most = part.most > span->most ? part.most : span->most;
    }
    return span_status(span, real, scale);
}

int dptk_draw_prepare(const dptk_column *col, const int64_t *also, double scale, dptk_span *span)
{
    const uint64_t state = dptk_float_begin();
    const int status = prepare(col, also, scale, span);
    dptk_float_end(state);
    return status;
}

/* ---- the candidates --------------------------------------------------------- */

/* Items that have values, and what these are computed from. */
typedef struct draws {
    const dptk_column *col;
    const dptk_column *all; /* the scores by item */
    const int64_t *name;    /* of its items; NULL: their places */
    const uint64_t *word;   /* the first bits; NULL: in lead */
    const uint16_t *lead;
    int64_t from; /* the score that values are measured from */
    int kind;     /* of drops */
    double factor, scale, error_factor;
    int64_t *item, *key, *place, *to_key, *to_place; /* the latter four to filter and sort */
    uint64_t *further;                               /* the first 64 bits of U */
    double *drop, *value;
    double *error; /* of a value of the rest; or 0 */
    size_t n, capacity;
    uint64_t distance;  /* of their words, the least */
    double noise_error; /* no noise is worse known */
    size_t close;       /* pairs that doubles did not tell */
} draws;

enum { ARRAYS = 9, LARGE = 2048 };

static size_t room_for(size_t n) { return n + DPTK_BLOCK + CHUNK + 1; }

size_t dptk_draw_scratch(size_t capacity) { return ARRAYS * room_for(capacity); }

/* A score near the k-th: values near it are known best, however large the largest is. A few of
 * not so many scores may be sampled though they are far above. Of few scores that are not far
 * apart it is the largest. */
static int64_t near_kth(const dptk_column *col, const dptk_span *span, size_t k, double scale)
{
    enum { MANY = 1 << 14, A_FEW = 2 };
    const double NEAR = 4096.0;
    const size_t above = col->n < MANY ? A_FEW : 0;
    const size_t share = (DPTK_FEW - 1 - above) * (k < col->n ? k : col->n) / col->n;
    int64_t key[DPTK_FEW];
    if (col->n < LARGE && width_of(span, col->type >= DPTK_F32) / scale < NEAR) return span->most;
    for (size_t j = 0; j < DPTK_FEW; j++) key[j] = score_key(col, place_of(j, col->n));
    return dptk_select_few(key, DPTK_FEW, 1 + above + share);
}

/* None yet, of values that are measured from the score that has a key. */
static draws none(const dptk_column *col, const dptk_column *all, const dptk_span *span,
                  const int64_t *name, int64_t from, double scale, double error_factor,
                  size_t capacity, int64_t *scratch)
{
    const size_t room = room_for(capacity);
    const int real = col->type >= DPTK_F32;
    return (draws){.col = col,
                   .all = all,
                   .name = name,
                   .from = real ? (int64_t)bits_of(key_double(from)) : from,
                   .kind = drops_of(span, real),
                   .factor = UNITS / scale,
                   .scale = scale,
                   .error_factor = error_factor,
                   .item = scratch,
                   .key = scratch + room,
                   .place = scratch + 2 * room,
                   .to_key = scratch + 3 * room,
                   .to_place = scratch + 4 * room,
                   .further = (uint64_t *)(scratch + 5 * room),
                   .drop = (double *)(scratch + 6 * room),
                   .value = (double *)(scratch + 7 * room),
                   .error = (double *)(scratch + 8 * room),
                   .capacity = capacity,
                   .distance = UINT64_MAX};
}

static double drop_of(const draws *d, int64_t score)
{
    return d->kind == NARROW ? drop_narrow(score, d->from)
         : d->kind == REAL   ? drop_real(score, d->from)
                             : drop_wide(score, d->from);
}

/* A key as a score that differences are taken of, and back. */
static int64_t score_of(const draws *d, int64_t key)
{
    return d->kind == REAL ? (int64_t)bits_of(key_double(key)) : key;
}

static int64_t key_of(const draws *d, int64_t score)
{
    return d->kind == REAL ? f64_key(from_bits((uint64_t)score)) : score;
}

/* A floor above which some more than a share of all bounds lie: the median of some maxima of
 * equally many, as no more than DPTK_FEW are quick to put in order; or the fitting rank of them,
 * where maxima for the median would be of too many, or of less than one. By `more` ranks lower; or
 * infinite, if there are not so many. */
static double floor_at(const draws *d, double share, size_t more)
{
    enum { TIMES = 2, PART = 16, MOST = 64 };
    const size_t n = d->col->n, times = n < LARGE ? 1 : TIMES;
    const size_t part = n / (PART * times * DPTK_FEW), limit = part < MOST ? part : MOST;
    const size_t wanted = (size_t)(0.69 / share);
    const size_t many = wanted < 1 || limit < 1 ? 1 : wanted < limit ? wanted : limit;
    double below = 1.0, sum = 0.0;
    size_t rank, j = 0;
    int64_t buffer;
    for (size_t i = 0; i < many; i++) below *= 1.0 - share;
    rank = more + (size_t)(DPTK_FEW * (1.0 - below));
    if (rank > DPTK_FEW) return INFINITY;
    for (size_t time = 0; time < times; time++) {
        int64_t largest[DPTK_FEW];
        for (size_t i = 0; i < DPTK_FEW; i++) {
            double best = -INFINITY;
            for (const size_t end = j + many; j < end; j++) {
                const size_t at = place_of(j, n);
                const double bound = drop_of(d, *scores_of(d->col, at, 1, &buffer)) * d->factor
                                   - (double)steps(d->word ? lead_of(d->word, at) : d->lead[at]);
                best = bound > best ? bound : best;
            }
            largest[i] = f64_key(best);
        }
        sum += key_double(dptk_select_few(largest, DPTK_FEW, rank));
    }
    return sum / (double)times;
}

/* Add those that are above a floor and were not above the one before, if it was finite. */
static int choose(draws *d, double floor, double before)
{
    const loops *const run = &by_level[dptk_simd_get()];
    dptk_filter_fn *const filter = dptk_filter(DPTK_I32, DPTK_OF_LARGEST);
    const size_t most = d->col->n < CHUNK ? d->col->n : CHUNK;
    int64_t buffer[CHUNK];
    uint16_t r[CHUNK];
    int32_t margin[CHUNK];
    for (size_t first = 0; first < d->col->n; first += most) {
        const size_t n = d->col->n - first < most ? d->col->n - first : most;
        const size_t held = d->n;
        dptk_hits hits = {.keys = d->key, .index = d->item + held};
        const int64_t *const score = scores_of(d->col, first, n, buffer);
        if (d->word)
            leads_of(d->word, first, n, r);
        else
            memcpy(r, d->lead + first, n * sizeof *r);
        run->margins[d->kind](score, r, n, d->from, d->factor, floor, margin);
        for (size_t i = 0, read = 1; i < n && read > 0; i += read)
            read = filter((const char *)(margin + i), n - i, i, 0, CHUNK + 1, &hits);
        for (size_t i = 0; i < hits.held; i++) {
            const size_t at = (size_t)d->item[held + i];
            const double drop = drop_of(d, score[at]);
            if (before < INFINITY && margin_of(drop * d->factor, before, r[at]) >= 0) continue;
            d->item[d->n] = d->name ? d->name[first + at] : (int64_t)(first + at);
            d->further[d->n] = (uint64_t)r[at] << 48;
            d->drop[d->n] = drop;
            d->error[d->n] = 0.0;
            d->n++;
        }
        if (d->n > d->capacity) break;
    }
    const size_t left = room_for(d->capacity) - d->n;
    dptk_wipe(r, most * sizeof *r);
    dptk_wipe(margin, most * sizeof *margin);
    /* A filter writes past what it lets in, up to all that it reads, and a vector. */
    dptk_wipe(d->item + d->n, (most + DPTK_FEW < left ? most + DPTK_FEW : left) * sizeof *d->item);
    dptk_wipe(d->key, (most + DPTK_FEW) * sizeof *d->key);
    dptk_burn_stack(); /* of the filter: which are candidates */
    return d->n > d->capacity ? DPTK_SCRATCH : DPTK_OK;
}

/* Give those from `first` on the further bits of their U, and a value. */
static int evaluate(draws *d, size_t first, dptk_rng *rng)
{
    const loops *const run = &by_level[dptk_simd_get()];
    const size_t n = d->n - first;
    const int status = words_at_hand(rng, n);
    double error;
    if (status != DPTK_OK) return status;
    const uint64_t distance = (uint64_t)run->further(rng->next, n, d->further + first);
    rng->next += n;
    d->distance = distance < d->distance ? distance : d->distance;
    error = n > 0 ? noise_error(d->distance) : 0.0;
    d->noise_error = error > d->noise_error ? error : d->noise_error;
    run->values(d->further + first, d->drop + first, n, 1.0 / d->scale, d->value + first);
    return DPTK_OK;
}

/* ---- the rest --------------------------------------------------------------- */

static race race_of(const dptk_rest *rest, const draws *d, dptk_rng *rng)
{
    return (race){.noise = DPTK_GUMBEL,
                  .rng = rng,
                  .scratch = rest->scratch,
                  .scale = d->scale,
                  .error_factor = d->error_factor,
                  .index = rest->index,
                  .m = d->col->n,
                  .real = d->kind == REAL,
                  .tail = rest->all,
                  .n_tail = rest->all->n - d->col->n,
                  .last_key = rest->key,
                  .base = key_of(d, d->from),
                  .round = 1};
}

/* Add what the rest has above a floor. */
static int show(draws *d, race *rest, double floor)
{
    size_t shown = rest->n_runners;
    dptk_runner hidden;
    int status;
    bound(rest, rest->scratch->block, rest->scratch->block->score, &hidden);
    if (hidden.high < floor) return DPTK_OK;
    if (shown == 0) dptk_mark_head(rest);
    status = dptk_sweep_block(rest, 0, floor);
    if (status != DPTK_OK) return status;
    if (rest->n_runners - shown > d->capacity - d->n) return DPTK_SCRATCH;
    for (; shown < rest->n_runners; shown++, d->n++) {
        const dptk_runner *const seen = &rest->scratch->runner[shown];
        /* Past the range of doubles no more is known than what it does not exceed. */
        const int far = !(seen->low > -INFINITY);
        d->item[d->n] = seen->id;
        d->value[d->n] = far ? seen->high : seen->low + 0.5 * (seen->high - seen->low);
        /* Twice as much as it is off by, which makes up for what is rounded here. */
        d->error[d->n] = far ? INFINITY : (seen->high - seen->low) / d->error_factor;
    }
    return DPTK_OK;
}

/* ---- their order ------------------------------------------------------------ */

static double error_of(const draws *d, size_t at)
{
    const double known = d->error[at];
    return d->error_factor
         * (known > 0.0 ? known : value_error(d->value[at], distance_of(top_of(d->further[at]))));
}

/* What a value is certainly not off by, without a division. */
static double coarse_error(const draws *d, size_t at)
{
    const double known = d->error[at];
    return d->error_factor
         * (known > 0.0 ? known : error_within(d->noise_error, fabs(d->value[at])));
}

/* A value as all 64 bits of its U tell it; one of the rest has no U of its own. */
static dptk_wide close_value(const draws *d, size_t at, double *error)
{
    *error = INFINITY;
    if (d->error[at] > 0.0) return (dptk_wide){d->value[at], 0.0};
    return dptk_close_value(d->further[at], score_key(d->all, (size_t)d->item[at]),
                            key_of(d, d->from), d->kind == REAL, d->scale, error);
}

/* Whether a value is above a floor: 1, or -1 if it is below; 0 if that is not certain. */
static int against_floor(const draws *d, size_t at, double floor)
{
    const double gap = d->value[at] - floor;
    double error;
    if (fabs(gap) > coarse_error(d, at) || fabs(gap) > error_of(d, at)) return gap > 0.0 ? 1 : -1;
    const dptk_wide value = close_value(d, at, &error);
    const double rest = (value.high - floor) + value.low;
    return !(fabs(rest) > d->error_factor * error) ? 0 : rest > 0.0 ? 1 : -1;
}

/* Whether a value is above another: as above. Scores can be made of which so many are near that
 * this would take minutes: past MANY it is left to the exact twin, which can be interrupted. */
static int against(draws *d, size_t a, size_t b)
{
    enum { MANY = 1 << 18 };
    const double gap = d->value[a] - d->value[b];
    double errors[2];
    if (fabs(gap) > error_of(d, a) + error_of(d, b)) return gap > 0.0 ? 1 : -1;
    if (++d->close > MANY) return 0;
    const dptk_wide x = close_value(d, a, &errors[0]), y = close_value(d, b, &errors[1]);
    const double rest = (x.high - y.high) + (x.low - y.low);
    if (!(fabs(rest) > d->error_factor * (errors[0] + errors[1]))) return 0;
    return rest > 0.0 ? 1 : -1;
}

/* The places of the k largest in order, and how many are above a floor, if no two of them are near:
 * else 0. */
static size_t descending(draws *d, double floor, size_t k)
{
    return dptk_descending(d->value, d->error, d->n, floor, d->noise_error, d->error_factor, k,
                           d->key, d->to_key, d->to_place);
}

/* Those above a floor in the order of their values, in to_place: keys are what they are above it,
 * which rounds the less the nearer they are. */
static int order(draws *d, double floor, size_t *above)
{
    double origin = floor;
    size_t n = 0;
    if (floor == -INFINITY) { /* values near the k-th are about 0, and keys spread well from 1 on */
        const double DEPTH = 1024.0;
        double least = d->value[0];
        for (size_t i = 1; i < d->n; i++) least = d->value[i] < least ? d->value[i] : least;
        origin = (least > -DEPTH ? least : -DEPTH) - 1.0;
    }
    for (size_t i = 0; i < d->n; i++) {
        if (d->error[i] == INFINITY && d->value[i] < floor) continue; /* however far, below */
        const int sign = against_floor(d, i, floor);
        if (sign == 0) return DPTK_UNDECIDED;
        d->key[n] = f64_key(d->value[i] - origin);
        d->place[n] = (int64_t)i;
        n += sign > 0;
    }
    *above = n;
    if (n > 0) dptk_sort_pairs(d->key, d->place, n, d->to_key, d->to_place);
    return DPTK_OK;
}

/* Put what stands at `i` where it belongs among those before it, which are in order. Returns
 * whether that is certain. */
static int insert(draws *d, size_t i)
{
    int64_t *const place = d->to_place;
    for (; i > 0; i--) {
        const int64_t low = place[i];
        const int sign = against(d, (size_t)place[i - 1], (size_t)low);
        if (sign >= 0) return sign;
        place[i] = place[i - 1];
        place[i - 1] = low;
    }
    return 1;
}

/* Put the first k in order, which they nearly are, above all others. Returns whether that is
 * certain; most differences are large. */
static int settle_order(draws *d, size_t k, size_t n)
{
    int64_t *const place = d->to_place;
    double high = d->value[place[0]], error = coarse_error(d, (size_t)place[0]);
    for (size_t i = 1; i < n; i++) {
        const size_t low = (size_t)place[i], last = i < k ? i : k - 1;
        const double other = coarse_error(d, low);
        if (!(high - d->value[low] > error + other)) {
            if (i >= k) {
                const int sign = against(d, (size_t)place[last], low);
                if (sign == 0) return 0;
                if (sign > 0) continue;
                place[last] = (int64_t)low;
            }
            if (!insert(d, last)) return 0;
        } else if (i >= k) {
            continue;
        }
        high = d->value[place[last]];
        error = coarse_error(d, (size_t)place[last]);
    }
    return 1;
}

/* What no value exceeds that is not above a floor. Roundings of the drop, the floor and the
 * difference are below 2^-50 of drop and floor; a drop below 4 floors and BASE is no matter. */
static double most_below(double floor)
{
    const double most = (floor + BASE) / UNITS;
    return floor > -INFINITY ? most + (0x1p-20 + 0x1p-46 * fabs(most)) : floor;
}

/* Nobody who reads memory that was freed learns U, or what says where it is. */
static void forget(draws *d, const dptk_rest *rest, size_t shown)
{
    int64_t *const arrays[] = {d->item, d->key, d->place, d->to_key, d->to_place};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        dptk_wipe(arrays[i], d->n * sizeof **arrays);
    dptk_wipe(d->further, d->n * sizeof *d->further);
    dptk_wipe(d->drop, d->n * sizeof *d->drop);
    dptk_wipe(d->value, d->n * sizeof *d->value);
    dptk_wipe(d->error, d->n * sizeof *d->error);
    if (!rest) return;
    dptk_wipe(rest->scratch->block, sizeof *rest->scratch->block);
    if (!shown) return;
    dptk_wipe(rest->scratch->runner, shown * sizeof *rest->scratch->runner);
    dptk_wipe(rest->scratch->seen, (rest->all->n + 63) / 64 * sizeof *rest->scratch->seen);
}

/* ---- all together ----------------------------------------------------------- */

/* How far a floor that was too high falls at first at least, and how much further each time; and to
 * how many ranks lower. */
#define FALL (0.25 * UNITS)
#define FALLS 1.25
enum { MORE = 3 };

/* Above which some more than k of what is drawn are: for what bounds are too high and floors
 * off. */
static double estimated_floor(const draws *d, size_t k, size_t more)
{
    const double share = (double)(k + k / 5 + 8) / (double)d->col->n;
    return share > 0.5 || d->col->n <= DPTK_DRAW_FEW ? -INFINITY : floor_at(d, share, more);
}

/* What an item that a sieve drops is below: its score is no more than what values are measured
 * from, and of its U not all first bits are zero. By 2, so that whoever is let through later does
 * not seem to have been above it. If nothing is dropped, any floor will do. */
static double floor_of(const dptk_sieve *sieve, const draws *d, size_t k)
{
    return sieve->bits > 0 ? 2.0 - (double)steps((uint16_t)(1 << (16 - sieve->bits)))
                           : estimated_floor(d, k, MORE);
}

/* Of those let through, and of the key. */
static dptk_span span_of(const dptk_sieve *sieve)
{
    const int real = sieve->through.type == DPTK_F64;
    const int64_t *const score = (const int64_t *)(const void *)sieve->through.data;
    dptk_span span = by_level[dptk_simd_get()].span[real](score, sieve->through.n);
    span.least = sieve->key < span.least ? sieve->key : span.least;
    span.most = sieve->key > span.most ? sieve->key : span.most;
    return span;
}

static int widen(draws *d, dptk_sieve *sieve, dptk_rng *rng)
{
    const int status = dptk_sieve_widen(sieve, rng);
    const dptk_span span = span_of(sieve);
    d->kind = drops_of(&span, d->kind == REAL);
    return status;
}

static int read_leads(draws *d, dptk_rng *rng)
{
    const int status = words_at_hand(rng, leads(d->col->n));
    if (status != DPTK_OK) return status;
    d->word = rng->next;
    rng->next += leads(d->col->n);
    return DPTK_OK;
}

/* Pick from those above a floor that falls until they are enough. */
static int settle(draws *d, dptk_rng *rng, race *rest, dptk_sieve *sieve, double floor, size_t k,
                  int64_t *item)
{
    double before = INFINITY, fall = FALL;
    size_t found = 0, certain = 0, more = MORE;
    int status = DPTK_OK;
    while (status == DPTK_OK) {
        const size_t first = d->n;
        const double most = most_below(floor);
        status = choose(d, floor, before);
        if (status == DPTK_OK) status = evaluate(d, first, rng);
        if (status == DPTK_OK && rest) status = show(d, rest, most);
        if (status != DPTK_OK) break;
        /* Without a floor all are found that still are what `span` says of them. */
        if (d->n < k && floor == -INFINITY) return DPTK_CHANGED;
        if (d->n >= k) {
            found = certain = descending(d, most, k);
            if (!certain) status = order(d, most, &found);
        }
        if (status != DPTK_OK || found >= k) break;
        before = floor;
        if (sieve && sieve->bits > 0) {
            status = widen(d, sieve, rng);
            if (status != DPTK_OK) break;
            floor = floor_of(sieve, d, k);
            floor = floor < before ? floor : before;
        } else {
            const double lower = rest ? INFINITY : estimated_floor(d, k, more *= 2);
            floor = fall < DEEP * UNITS ? floor - fall : -INFINITY;
            floor = lower < floor ? lower : floor;
            fall *= FALLS;
        }
    }
    if (status != DPTK_OK) return status;
    if (!certain && !settle_order(d, k, found)) return DPTK_UNDECIDED;
    for (size_t i = 0; i < k; i++) item[i] = d->item[d->to_place[i]];
    return DPTK_OK;
}

static int draw_all(draws *d, dptk_rng *rng, size_t k, int64_t *item)
{
    const int status = read_leads(d, rng);
    if (status != DPTK_OK) return status;
    const double floor = estimated_floor(d, k, MORE);
    if (!(floor < INFINITY)) return DPTK_CHANGED; /* by scores that are not finite any more */
    return settle(d, rng, NULL, NULL, floor, k, item);
}

/* The rest's floor is known before anything is drawn: it may be lower than need be. */
static int draw_part(draws *d, dptk_rng *rng, const dptk_rest *rest, race *r, size_t k,
                     int64_t *item)
{
    double floor = drop_of(d, score_of(d, rest->key)) * d->factor + rest->floor * UNITS - BASE;
    int status = read_leads(d, rng);
    if (status == DPTK_OK) status = dptk_add_tail(r);
    if (status != DPTK_OK) return status;
    const double estimate = estimated_floor(d, k, MORE);
    floor = estimate > floor ? estimate : floor;
    return settle(d, rng, r, NULL, floor, k, item);
}

int dptk_draw(dptk_rng *rng, const dptk_column *col, const dptk_span *span, const dptk_rest *rest,
              size_t k, double scale, double error_factor, size_t capacity, int64_t *scratch,
              int64_t *item)
{
    if (!rest && col->n <= DPTK_DRAW_FEW) {
        const int status = dptk_draw_few(rng, col, k, scale, error_factor, item);
        return status == DPTK_NAN ? DPTK_CHANGED : status;
    }
    const uint64_t state = dptk_float_begin();
    draws d = none(col, rest ? rest->all : col, span, rest ? rest->index : NULL,
                   near_kth(col, span, k, scale), scale, error_factor, capacity, scratch);
    int status;
    if (rest) {
        race r = race_of(rest, &d, rng);
        status = draw_part(&d, rng, rest, &r, k, item);
        forget(&d, rest, r.n_runners);
        dptk_wipe(&r, sizeof r);
    } else {
        status = draw_all(&d, rng, k, item);
        forget(&d, NULL, 0);
    }
    dptk_burn_stack();
    dptk_float_end(state);
    return status;
}

int dptk_draw_sieved(dptk_rng *rng, dptk_sieve *sieve, size_t k, double scale, double error_factor,
                     size_t capacity, int64_t *scratch, int64_t *item)
{
    const uint64_t state = dptk_float_begin();
    int status = dptk_sieve_start(sieve, rng);
    const dptk_span span = span_of(sieve);
    if (status == DPTK_OK) {
        const dptk_span above = {sieve->key, span.most};
        status = span_status(&above, sieve->col->type >= DPTK_F32, scale);
        if (status != DPTK_OK) status = DPTK_NAN;
    }
    if (status == DPTK_OK) {
        draws d = none(&sieve->through, sieve->col, &span, sieve->index, sieve->key, scale,
                       error_factor, capacity, scratch);
        d.lead = sieve->lead;
        status = settle(&d, rng, NULL, sieve, floor_of(sieve, &d, k), k, item);
        forget(&d, NULL, 0);
    }
    dptk_wipe(sieve->lead, sieve->through.n * sizeof *sieve->lead);
    dptk_wipe(sieve->index, sieve->through.n * sizeof *sieve->index);
    dptk_wipe(sieve->score, sieve->through.n * sizeof *sieve->score);
    dptk_burn_stack();
    dptk_float_end(state);
    return status;
}
