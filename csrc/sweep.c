/* sweep.c - the largest noisy scores, many at once: all above a floor, then in order.
 *
 * Block by block (blocks.h) items are shown until what is hidden lies below the floor.
 * No heap is kept, and the same few variates follow each other on the tape, so that the
 * next looks into memory are known ahead. If there are fewer than k above the floor, the
 * floor falls, and every block goes on where it stopped: what was shown stays shown. So
 * the floor changes the cost, never the law. */
#include "blocks.h"
#include "cut_impl.h"
#include "float_state.h"

#include <string.h>

/* ---- the floor ------------------------------------------------------------ */

enum {
    MANY = 512, /* picks from which a sweep is faster than a race, whatever the scores */
    SOME = 16,  /* ... and if the tail is looked at a lot: OFTEN looks or more */
    OFTEN = 64,
    POINTS = 96, /* of the head, and of the tail, from which the floor is estimated, ... */
    FEWER = 32,  /* ... for fewer than MANY picks */
    HALVINGS = 12,
};

/* Beyond this many scales from the first score to the k-th the error bounds may be so
 * wide that no floor lies clear of all values. */
static const double DEEP = 0x1p40;
static const double REACH = 45.0; /* no noise is larger, in scales, but with a chance of e^-45 */

/* About the chance that a noise exceeds x: cost alone depends on it. */
static double chance_above(int noise, double x)
{
    switch (noise) {
    case DPTK_GUMBEL: { /* 1 - e^-e^-x, by its series where that is short */
        const double e = exp(-x);
        return x > 0.0 ? e * (1.0 - e / 2 * (1.0 - e / 3 * (1.0 - e / 4))) : 1.0 - exp(-e);
    }
    case DPTK_EXPONENTIAL:
        return x > 0.0 ? exp(-x) : 1.0;
    case DPTK_LAPLACE:
        return x > 0.0 ? 0.5 * exp(-x) : 1.0 - 0.5 * exp(x);
    case DPTK_GAUSSIAN:
        return 0.5 * erfc(0.70710678118654752 * x);
    default: /* uniform on (-2, 0) */
        return x >= 0.0 ? 0.0 : x > -2.0 ? -0.5 * x : 1.0;
    }
}

/* What the floor is estimated from; scores in scales, measured from the first. */
typedef struct sample {
    const race *r;
    size_t most;             /* so many points of the head, and of the tail */
    double tail[POINTS + 1]; /* some scores of the tail */
    size_t n_points;
} sample;

static double score_at(const race *r, size_t at)
{
    return scaled_difference(r->key[at], r->base, r->real, r->scale);
}

/* The first head position whose score is below x. */
static size_t first_below(const race *r, double x)
{
    size_t low = 0, high = r->m;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (score_at(r, middle) < x)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* About how many noisy scores exceed x. */
static double expected_above(const sample *s, double x)
{
    const race *r = s->r;
    const size_t from = first_below(r, x + REACH), to = first_below(r, x - REACH);
    const size_t points = to - from < s->most ? to - from : s->most;
    double head = 0.0, tail = 0.0;
    for (size_t i = 0; i < points; i++)
        head += chance_above(r->noise,
                             x - score_at(r, from + (2 * i + 1) * (to - from) / (2 * points)));
    for (size_t i = 0; i < s->n_points; i++) tail += chance_above(r->noise, x - s->tail[i]);
    if (points) head *= (double)(to - from) / (double)points;
    if (s->n_points) tail *= (double)r->n_tail / (double)s->n_points;
    return (double)from + head + tail;
}

/* The first of the tail's stands for those that the sample missed, which may be most of what
 * matters. A floor that is too high costs little, as it falls; one too low costs looks. */
static void take_sample(sample *s)
{
    const race *r = s->r;
    if (r->n_tail) s->tail[s->n_points++] = score_at(r, r->m - 1);
    for (size_t i = 0; r->n_tail && i < s->most; i++) {
        const size_t at = (size_t)((double)r->tail->n * ((double)i + 0.5) / (double)s->most);
        const int64_t key = score_key(r->tail, at);
        if (is_tail(r, (int64_t)at, key))
            s->tail[s->n_points++] = scaled_difference(key, r->base, r->real, r->scale);
    }
}

static int floor_of(const dptk_field *field, size_t k, double scale, int noise, double *floor,
                    size_t *looks)
{
    const race r = dptk_race_over(NULL, field, scale, noise, 1.0, NULL, 1);
    const size_t n = r.m + r.n_tail;
    /* More than k, for the scatter of the number and of the estimate. */
    const double target = (double)k * (1.0 + 0x1p-7) + 3.0 * sqrt((double)k);
    sample s = {.r = &r, .most = k < MANY ? FEWER : POINTS};
    double low, high, near = 0.0;
    if (field->offset || field->stop || k > n || k > r.m || k < SOME) return 0;
    if (r.n_tail && r.tail->n > DPTK_SWEEP_MOST) return 0;
    if (!(score_at(&r, k - 1) > -DEEP)) return 0;
    if (r.n_tail) {
        const double gap = score_at(&r, k - 1) - score_at(&r, r.m - 1);
        near = (double)r.n_tail / (double)dptk_size_far_below(gap, r.n_tail);
    }
    if (k < MANY && near < OFTEN) return 0;
    take_sample(&s);
    high = score_at(&r, k - 1) + REACH;
    low = score_at(&r, target < (double)r.m ? (size_t)target : r.m - 1) - REACH;
    *floor = -INFINITY;
    if (target < (double)n && low > -DEEP) {
        for (int i = 0; i < HALVINGS; i++) {
            const double middle = 0.5 * (low + high);
            *(expected_above(&s, middle) < target ? &high : &low) = middle;
        }
        *floor = low;
    }
    /* Blocks of the head are half a scale wide; the tail is one block. */
    *looks = (size_t)(1.125 * expected_above(&s, *floor - 0.5));
    if (*looks > r.m) *looks = r.m;
    if (r.n_tail) {
        const double chance = chance_above(noise, *floor - score_at(&r, r.m - 1));
        *looks += (size_t)(1.125 * (double)r.n_tail * chance);
    }
    *looks += 256;
    return 1;
}

int dptk_sweep_floor(const dptk_field *field, size_t k, double scale, int noise, double *floor,
                     size_t *looks)
{
    const uint64_t state = dptk_float_begin();
    const int sweep = floor_of(field, k, scale, noise, floor, looks);
    dptk_float_end(state);
    return sweep;
}

/* ---- the sweep ------------------------------------------------------------ */

/* How many looks ahead the memory of the tail is asked for. */
enum { AHEAD = 16 };

void dptk_mark_head(const race *r)
{
    uint64_t *seen = r->scratch->seen;
    memset(seen, 0, (r->tail->n + 63) / 64 * sizeof *seen);
    for (size_t i = 0; i < r->m; i++) seen[r->index[i] / 64] |= (uint64_t)1 << (r->index[i] % 64);
}

/* A uniform item of the tail without a mark, which it gets. */
static int draw_tail(race *r, uint64_t *item)
{
    uint64_t *bits, bit;
    do {
        const int status = next_below(r->rng, r->tail->n, item);
        if (status != DPTK_OK) return status;
        bits = &r->scratch->seen[*item / 64];
        bit = (uint64_t)1 << (*item % 64);
    } while (*bits & bit);
    *bits |= bit;
    return DPTK_OK;
}

/* Turn the tail's items seen from `first` on, with their noises, into values. Only here is
 * the tail's memory read, all over the place: so it is asked for in advance. */
static void value_tail(const race *r, const dptk_block *b, size_t first)
{
    dptk_runner *seen = r->scratch->runner;
    dptk_block of = *b;
    for (size_t i = first; i < r->n_runners; i++) {
        const size_t item = (size_t)(seen[i].id - r->first_tail);
        int64_t key;
#if DPTK_GNU
        if (i + AHEAD < r->n_runners)
            __builtin_prefetch(r->tail->data
                               + (ptrdiff_t)(seen[i + AHEAD].id - r->first_tail) * r->tail->stride);
#endif
        key = score_key(r->tail, item);
        of.noise = seen[i].high;
        of.noise_error = seen[i].low;
        bound(r, &of, scaled_difference(key, r->base, r->real, r->scale), &seen[i]);
    }
}

int dptk_sweep_block(race *r, size_t block, double floor)
{
    dptk_block *b = &r->scratch->block[block];
    dptk_runner hidden, *seen = r->scratch->runner;
    const size_t first = r->n_runners;
    if (b->taken == b->size) return DPTK_OK;
    bound(r, b, b->score, &hidden);
    while (!(hidden.high < floor)) {
        int status;
        if (!(hidden.low > floor)) return DPTK_UNDECIDED;
        if (r->n_runners == r->scratch->capacity) return DPTK_SCRATCH;
        if (b->start == TAIL) {
            uint64_t item = 0; /* not used unless drawn */
            status = draw_tail(r, &item);
            if (status != DPTK_OK) return status;
            seen[r->n_runners] =
                (dptk_runner){b->noise, b->noise_error, r->first_tail + (int64_t)item};
        } else {
            int64_t place, key;
            status = draw_head(r, b, &place, &key);
            if (status != DPTK_OK) return status;
            bound(r, b, scaled_difference(key, r->base, r->real, r->scale), &seen[r->n_runners]);
            seen[r->n_runners].id = place;
        }
        r->n_runners++;
        if (++b->taken == b->size) break;
        status = advance(r, block, &hidden);
        if (status != DPTK_OK) return status;
    }
    if (b->start == TAIL) value_tail(r, b, first);
    return DPTK_OK;
}

/* How many of those seen are above the floor; keys in the order of their values, and which
 * they are, go to the scratch. Above a floor that is not far the values spread well. */
static int count_above(const race *r, double floor, size_t *above)
{
    const dptk_runner *seen = r->scratch->runner;
    const double origin = floor > -0x1p20 ? floor : 0.0;
    int64_t *key = r->scratch->sort, *which = key + r->scratch->capacity;
    size_t n = 0;
    int unclear = 0;
    for (size_t i = 0; i < r->n_runners; i++) {
        key[n] = f64_key(seen[i].high - origin);
        which[n] = (int64_t)i;
        unclear |= !(seen[i].low > floor) & !(seen[i].high < floor);
        n += seen[i].low > floor;
    }
    *above = n;
    return unclear ? DPTK_UNDECIDED : DPTK_OK;
}

int dptk_sweep(dptk_rng *rng, const dptk_field *field, size_t k, double scale, int noise,
               double error_factor, double floor, dptk_race_scratch *scratch, int64_t *item)
{
    race r = dptk_race_over(rng, field, scale, noise, error_factor, scratch, 1);
    const dptk_runner *seen = scratch->runner;
    const int64_t *const keys = scratch->sort + 2 * scratch->capacity;
    const int64_t *const order = keys + scratch->capacity;
    size_t above = 0;
    int status = dptk_start_blocks(&r, k);
    if (r.n_tail) dptk_mark_head(&r);
    for (double fall = 0.25; status == DPTK_OK; floor -= fall, fall *= 1.125) {
        for (size_t i = 0; status == DPTK_OK && i < r.n_blocks; i++)
            status = dptk_sweep_block(&r, i, floor);
        if (status == DPTK_OK && r.n_runners < k) continue;
        if (status == DPTK_OK) status = count_above(&r, floor, &above);
        if (above >= k) break;
    }
    if (status != DPTK_OK) return status;
    dptk_sort_pairs(scratch->sort, scratch->sort + scratch->capacity, above,
                    scratch->sort + 2 * scratch->capacity, scratch->sort + 3 * scratch->capacity);
    for (size_t i = 0; i < k; i++) {
        const dptk_runner *pick = &seen[order[i]];
        if (i + 1 < k && !(pick->low > seen[order[i + 1]].high)) return DPTK_UNDECIDED;
        item[i] = item_at(&r, pick->id);
    }
    /* The last pick against the first of the others: keys are rounded, so any with its key. */
    for (size_t i = k; i < above && keys[i] == keys[k]; i++)
        if (!(seen[order[k - 1]].low > seen[order[i]].high)) return DPTK_UNDECIDED;
    return DPTK_OK;
}
