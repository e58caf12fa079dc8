/* survey.c - what some of many scores tell of all: how noise is drawn best of them.
 *
 * It follows from the scores and the scale alone, and changes the cost, never the law. */
#include "blocks.h"
#include "draw_impl.h"
#include "float_state.h"

enum { SOME = DPTK_SURVEY_MOST };
#define FAR 0x1p200 /* scales, of which doubles may lose track */

/* What a score costs, in ns: to be sifted, and a bit of its noise; to be let through by a sieve; to
 * be cut. For a part see dptk.h. */
static const double SIFT = 0.2, PLANE = 0.07, THROUGH = 4.0, CUT = 0.25;

#define WIDE 600.0 /* scales: e^x is far within the range of doubles */

/* A sample in descending order, in scales from about the k-th of all. */
typedef struct sample {
    int64_t key[SOME];
    double x[SOME], weight[SOME]; /* e^x */
    int64_t origin;               /* the key of x = 0 */
    size_t n;
    double mass[SOME + 1]; /* of the weights from one on */
    double each;           /* so many scores are as one of the sample */
    double floor, low;     /* some more than k noisy scores are above; and if the sample has many */
    double spread; /* of how many of the sample they are, or so; 0: most would be without noise */
} sample;

static void take_sample(sample *s, const dptk_column *col, size_t size, size_t k, double scale)
{
    int64_t key[SOME], index[SOME], to_index[SOME];
    const int real = col->type >= DPTK_F32;
    const double most = exp(WIDE), least = exp(-WIDE); /* which takes longer than others */
    size_t kth;
    s->n = size;
    s->each = (double)col->n / (double)size;
    kth = (size_t)((double)k / s->each);
    for (size_t j = 0; j < size; j++) {
        key[j] = score_key(col, place_of(j, col->n));
        index[j] = 0;
    }
    dptk_sort_pairs(key, index, size, s->key, to_index);
    s->origin = s->key[kth < size ? kth : size - 1];
    for (size_t i = 0; i < size; i++) {
        s->x[i] = scaled_difference(s->key[i], s->origin, real, scale);
        s->weight[i] = s->x[i] < -WIDE ? least : s->x[i] > WIDE ? most : exp(s->x[i]);
    }
}

/* Above which so many of the sample are: as if those above stayed there, and others came there by a
 * chance of e^-gap. */
static double floor_of(const sample *s, double wanted, size_t *above)
{
    for (*above = 0; *above < s->n && (double)*above < wanted; ++*above) {
        const double floor = log(s->mass[*above] / (wanted - (double)*above));
        if (floor >= s->x[*above]) return floor;
    }
    return s->x[*above < s->n ? *above : s->n - 1];
}

/* Where the k-th score may be, if the largest of all go on as those of the sample do by a power of
 * their rank: so that none that matters is missing from the sample. */
static double kth_of(const sample *s, double k)
{
    enum { HIGH = 1, STEP = 16, LOW = 2 * STEP - 1 };
    const double middle = s->x[s->n / 2];
    const double steps = log((HIGH + 1) * s->each / k) / log(STEP);
    if (steps <= 0.0 || s->n < SOME) return -INFINITY; /* the sample has it, or says too little */
    if (!(s->x[HIGH] > s->x[LOW])) return s->x[HIGH];
    return middle
         + (s->x[HIGH] - middle) * pow((s->x[HIGH] - middle) / (s->x[LOW] - middle), steps);
}

/* Where some more than k are above; and where they are if the sample has more large scores than its
 * share, by one and a half of its standard deviations. */
static void find_floors(sample *s, double k)
{
    const double wanted = k * (1.25 + 3.0 / sqrt(k)) / s->each;
    double sum, squares;
    size_t above;
    s->mass[s->n] = 0.0;
    for (size_t i = s->n; i-- > 0;) s->mass[i] = s->mass[i + 1] + s->weight[i];
    s->floor = floor_of(s, wanted, &above);
    sum = squares = (double)above;
    for (size_t i = above; i < s->n && s->x[i] - s->floor > -WIDE; i++) {
        const double chance = exp(s->x[i] - s->floor);
        sum += chance;
        squares += chance * chance;
    }
    s->spread = sum > 2.0 * (double)above && kth_of(s, k) < s->floor ? sum * sum / squares : 0.0;
    s->low = floor_of(s, wanted * (1.0 + 1.5 * sqrt(squares) / sum), &above);
}

/* By how many scales scores fall from the k-th on to the last that a cut would have, or some
 * more. */
static double fall_of(const sample *s, double k)
{
    enum { MORE = 2 };
    const size_t kth = (size_t)(k / s->each), last = kth + (size_t)(k / 4.0 / s->each) + MORE;
    return last < s->n ? s->x[kth] - s->x[last] : 0.0;
}

/* About how many scores are above x. */
static double above(const sample *s, double x)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->x[middle] > x)
            low = middle + 1;
        else
            high = middle;
    }
    return s->each * (double)low;
}

/* The key of about the score at x, and where that is. */
static int64_t key_at(const sample *s, int real, double scale, double *x)
{
    /* Without last bits, about which machines may differ. */
    const uint64_t LAST = (UINT64_C(1) << 32) - 1;
    const double MOST = 0x1p62;
    double more = scale * *x;
    int64_t key;
    if (real) {
        key = f64_key(key_double(s->origin) + more) & (int64_t)~LAST;
    } else {
        more = floor(more < -MOST ? -MOST : more > MOST ? MOST : more);
        key = s->origin >= 0 && more >= (double)(INT64_MAX - 1 - s->origin) ? INT64_MAX - 1
            : s->origin < 0 && more <= (double)(INT64_MIN - s->origin) ? INT64_MIN
                                                                       : s->origin + (int64_t)more;
    }
    *x = scaled_difference(key, s->origin, real, scale);
    return key;
}

/* The sieve that seems the cheapest, and its cost. */
static double best_sieve(const sample *s, int real, double scale, dptk_survey *out)
{
    const double LEAST = 1.01; /* times: keys are rounded down, but for the least of all */
    const double n = s->each * (double)s->n;
    double least = INFINITY;
    for (int bits = DPTK_SIEVE_BITS; bits > 0; bits--) {
        const double share = 1.0 / (double)(1 << bits);
        double x = s->low + log(share), through, cost;
        const int64_t key = key_at(s, real, scale, &x);
        if (exp(x - s->low) > LEAST * share) continue;
        through = above(s, x);
        through += (n - through) * share;
        cost = (SIFT + PLANE * bits) * n + THROUGH * through;
        if (!(cost < least)) continue;
        least = cost;
        out->key = key;
        out->bits = bits;
        out->through = (size_t)through;
    }
    return least;
}

/* To cut some more than k, and look past them down to the floor. */
static double cut_cost(const sample *s, double k)
{
    const double n = s->each * (double)s->n;
    const size_t last = (size_t)(1.25 * k / s->each);
    const double gap = s->low - s->x[last < s->n ? last : s->n - 1];
    return CUT * n + DPTK_COST_LOOK * n * exp(gap > 0.0 ? -gap : 0.0);
}

/* The part that seems the cheapest: all that are above one of the sample. */
static double best_part(const sample *s, dptk_survey *out)
{
    const double n = s->each * (double)s->n;
    double least = INFINITY;
    for (size_t i = 1; i < s->n; i++) {
        const double over = s->each * (double)i, gap = s->low - s->x[i];
        const double looks = (n - over) * exp(-gap);
        const double most = n / DPTK_COST_BLOCK, blocks = over < most ? over : most;
        const double cost = DPTK_COST_PASS * n + DPTK_COST_PART * over + DPTK_COST_FIRST * blocks
                          + DPTK_COST_LOOK * looks;
        if (!(cost < least && gap > 0.0) || s->key[i] == s->key[i - 1]) continue;
        least = cost;
        out->most = s->key[i];
        out->floor = gap;
        out->held = (size_t)over;
        out->looks = (size_t)looks;
    }
    return least;
}

void dptk_survey_of(const dptk_column *col, size_t k, double scale, size_t size, int64_t origin,
                    double floor, dptk_survey *out)
{
    const uint64_t state = dptk_float_begin();
    const int real = col->type >= DPTK_F32;
    sample s;
    *out = (dptk_survey){.sieve_cost = INFINITY, .part_cost = INFINITY, .cut_cost = INFINITY};
    take_sample(&s, col, size < SOME ? size : SOME, k, scale);
    if (real && (s.key[0] >= DPTK_DOUBLE_INF || s.key[s.n - 1] <= ~DPTK_DOUBLE_INF)) {
        dptk_float_end(state);
        return;
    }
    find_floors(&s, (double)k);
    /* A quarter lower, for what is not known of it. */
    if (floor > -INFINITY) s.low = floor - 0.25 + scaled_difference(origin, s.origin, real, scale);
    out->cut_cost = cut_cost(&s, (double)k);
    out->spread = s.spread;
    out->fall = fall_of(&s, (double)k);
    if (s.x[0] < FAR && s.x[s.n - 1] > -FAR && fabs(s.low) < FAR) {
        out->sieve_cost = best_sieve(&s, real, scale, out);
        out->part_cost = best_part(&s, out);
    }
    dptk_float_end(state);
}

double dptk_fall_of(const int64_t *keys, size_t n, size_t k, int in_order, int real, double scale,
                    int64_t *scratch, int64_t *least)
{
    enum { EVERY = 8 };
    const uint64_t state = dptk_float_begin();
    const size_t size = (n + EVERY - 1) / EVERY;
    int64_t kth = keys[k - 1];
    double fall;
    *least = keys[n - 1];
    if (!in_order) {
        size_t ties, rank = size * k / n;
        rank += rank == 0;
        for (size_t i = 0; i < size; i++) scratch[i] = keys[EVERY * i];
        for (size_t i = 0; i < n; i++) *least = keys[i] < *least ? keys[i] : *least;
        kth = dptk_select(scratch, size, rank, scratch + size, &ties);
    }
    fall = scaled_difference(kth, *least, real, scale);
    dptk_float_end(state);
    return fall;
}
