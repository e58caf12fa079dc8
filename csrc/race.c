/* race.c - order statistics of noise over blocks of items.
 *
 * The noises of n items need not be drawn one by one: their order statistics
 * come in descending order from one race of exponentials, and which item holds
 * the next one is uniform among those left. So the items are cut into blocks
 * of nearly equal scores, each block shows only its next largest noise, and
 * (largest score of the block) + (that noise) bounds from above every value
 * still hidden in it. The leader of all blocks and seen items is either an
 * item, which is the next pick, or a block, which then shows one item more.
 * Blocks that never lead cost one word each, however many items they hold.
 *
 * Every value carries a certified error bound. A pick or a look into a block
 * happens only when the leader's lower bound beats every other upper bound, so
 * which variate a word of the tape serves never depends on rounding. */
#include "dptk.h"
#include "variate.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define TAIL (-1)
#define STOPPER (-2)
#define LEAVE_OUT 2.0 /* see block_end */

/* ---- noise laws ---------------------------------------------------------- */

typedef struct law {
    double (*value)(double s);                               /* F^-1(exp(-s)) */
    double (*error)(double s, double s_error, double value); /* absolute, of s and of value */
} law;

static double gumbel_value(double s) { return -log(s); }

/* |ln(1 + r)| <= r (1 + 2^-9) for |r| < 2^-10; past that nothing is claimed. */
static double gumbel_error(double s, double s_error, double value)
{
    const double relative = s_error / s;
    if (!(relative < 0x1p-10)) return INFINITY;
    return relative * (1.0 + 0x1p-9) + LOG_ERROR * fabs(value);
}

/* -ln(1 - e^-s): the slope is -1/(e^s - 1), no steeper than Gumbel's. expm1 errs
 * by at most 4 ulp as well. */
static double exponential_value(double s) { return -log(-expm1(-s)); }

static double exponential_error(double s, double s_error, double value)
{
    return gumbel_error(s, s_error, value) + 0x1p-49;
}

/* The exponential law less ln 2 above the median; below it ln 2 - s. Both have
 * the slope -1 at s = ln 2, so that taking the wrong one there costs h^2. */
static const double LN_2 = 0x1.62e42fefa39efp-1;

static double laplace_value(double s) { return s <= LN_2 ? exponential_value(s) - LN_2 : LN_2 - s; }

static double laplace_error(double s, double s_error, double value)
{
    const double steepest = s < 1.0 ? 1.0 : s;
    return steepest * gumbel_error(s, s_error, 0.0) + LOG_ERROR * (fabs(value) + 2.0) + 0x1p-49;
}

static const law LAWS[] = {
    [DPTK_GUMBEL] = {gumbel_value, gumbel_error},
    [DPTK_EXPONENTIAL] = {exponential_value, exponential_error},
    [DPTK_LAPLACE] = {laplace_value, laplace_error},
};

/* ---- scores -------------------------------------------------------------- */

static double key_double(int64_t key)
{
    int64_t bits = key >= 0 ? key : key ^ INT64_MAX;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* (score of key - score of base) / divisor, relative error 3 * 2^-53. Integers
 * are subtracted as such, so that large counts keep their differences; doubles
 * whose difference overflows are halved first (not all, as half of a subnormal
 * double may not be one). */
static double scaled_difference(int64_t key, int64_t base, int real, double divisor)
{
    if (real) {
        const double score = key_double(key), from = key_double(base);
        const double difference = score - from;
        if (fabs(difference) <= DBL_MAX) return difference / divisor;
        return 2.0 * ((0.5 * score - 0.5 * from) / divisor);
    }
    if (key >= base) return (double)((uint64_t)key - (uint64_t)base) / divisor;
    return -((double)((uint64_t)base - (uint64_t)key) / divisor);
}

typedef struct race {
    const dptk_field *field;
    const law *law;
    dptk_rng *rng;
    dptk_race_scratch *scratch;
    double scale, error_factor;
    int64_t base;     /* the key that scores are measured from */
    size_t n_blocks, n_runners, n_pairs;
} race;

/* Bounds of score + noise for a score with the block's current noise. */
static void bound(const race *r, const dptk_block *b, double score, dptk_runner *runner)
{
    double value = score + b->offset + b->noise;
    double error = b->noise_error
                 + 0x1p-50 * (fabs(score) + fabs(b->offset) + fabs(b->noise));
    error *= r->error_factor;
    if (error < INFINITY) {
        runner->high = value + error;
        runner->low = value - error;
    } else { /* past the range of doubles: far below, or not known at all */
        runner->high = score < 0.0 && b->noise_error < INFINITY ? -DBL_MAX / 2 : INFINITY;
        runner->low = -INFINITY;
    }
}

/* ---- the heap of runners, by upper bound ---------------------------------- */

static void sift_up(dptk_runner *heap, size_t at, dptk_runner runner)
{
    while (at > 0 && heap[(at - 1) / 2].high < runner.high) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = runner;
}

/* Replace the leader. The hole goes down to a leaf without a look at the new
 * runner, which mostly belongs near one: no branch there that could miss. */
static void replace(dptk_runner *heap, size_t n, dptk_runner runner)
{
    size_t at = 0, child = 1;
    for (; child + 1 < n; child = 2 * at + 1) {
        child += heap[child + 1].high > heap[child].high;
        heap[at] = heap[child];
        at = child;
    }
    if (child < n) {
        heap[at] = heap[child];
        at = child;
    }
    sift_up(heap, at, runner);
}

static int push(race *r, dptk_runner runner)
{
    if (r->n_runners == r->scratch->capacity) return DPTK_SCRATCH;
    sift_up(r->scratch->runner, r->n_runners++, runner);
    return DPTK_OK;
}

static void pop(race *r)
{
    dptk_runner *heap = r->scratch->runner;
    r->n_runners--;
    if (r->n_runners) replace(heap, r->n_runners, heap[r->n_runners]);
}

/* Is the leader certainly ahead of all others? */
static int leads(const race *r)
{
    const dptk_runner *heap = r->scratch->runner;
    double rival;
    if (r->n_runners == 1) return 1;
    rival = heap[1].high;
    if (r->n_runners > 2 && heap[2].high > rival) rival = heap[2].high;
    return heap[0].low > rival;
}

/* ---- which items have been seen: a map with linear probing ---------------- */

static dptk_pair *find(const race *r, int64_t key)
{
    size_t mask = 2 * r->scratch->capacity - 1;
    size_t at = (size_t)(((uint64_t)key * 0x9E3779B97F4A7C15u) >> 20) & mask;
    while (r->scratch->pair[at].key >= 0 && r->scratch->pair[at].key != key)
        at = (at + 1) & mask;
    return &r->scratch->pair[at];
}

static int store(race *r, dptk_pair *pair, int64_t key, int64_t value)
{
    if (pair->key < 0) {
        if (r->n_pairs == r->scratch->capacity) return DPTK_SCRATCH;
        r->n_pairs++;
    }
    pair->key = key;
    pair->value = value;
    return DPTK_OK;
}

/* ---- blocks --------------------------------------------------------------- */

/* The block's next order statistic, and the block's bound as a runner. The
 * absolute error of S: that of each E, three roundings of each step, and those of
 * s_low, which sums at most j 2^-53 s in j steps: 2^-106 j s each, j < 2^36. */
static int advance(race *r, size_t block, dptk_runner *runner)
{
    dptk_block *b = &r->scratch->block[block];
    uint64_t word;
    double error, e, share, step, sum, part;
    int status = next_word(r->rng, &word);
    if (status != DPTK_OK) return status;
    e = exponential(word, &error);
    share = 1.0 / (double)(b->size - b->taken);
    step = e * share;
    sum = b->s + step; /* what rounding drops goes to s_low: Knuth's two-sum */
    part = sum - b->s;
    b->s_low += (b->s - (sum - part)) + (step - part);
    b->s = sum;
    b->s_error += error * share + 0x1p-51 * step + 0x1p-70 * sum;
    sum += b->s_low;
    b->noise = r->law->value(sum);
    b->noise_error = r->law->error(sum, b->s_error + 0x1p-52 * sum, b->noise);
    bound(r, b, b->score, runner);
    runner->id = (int64_t)block;
    return DPTK_OK;
}

static int add_block(race *r, int64_t start, int64_t size, int64_t key, double offset)
{
    dptk_runner runner;
    int status;
    if (r->n_blocks == r->scratch->capacity) return DPTK_SCRATCH;
    r->scratch->block[r->n_blocks] =
        (dptk_block){.start = start, .size = size, .key = key, .offset = offset,
                     .score = scaled_difference(key, r->base, r->field->real, r->scale)};
    status = advance(r, r->n_blocks, &runner);
    if (status != DPTK_OK) return status;
    r->n_blocks++;
    return push(r, runner);
}

static int bit_length(size_t n)
{
    int bits = 0;
    for (; n; n >>= 1) bits++;
    return bits;
}

/* Where the block that starts at head position `start` ends. Blocks span at
 * most half a scale, so a look into one is seldom in vain (e^(1/2) Gumbel
 * looks a pick). But past the first k items, a rest of n items whose scores
 * lie (ln n + 2) scales below the k-th largest will hardly be looked into at
 * all: it is one block. The partition changes the cost, never the law. */
static size_t block_end(const race *r, size_t start, size_t k)
{
    const dptk_field *f = r->field;
    size_t low = start, high = f->m, step = 1; /* key[low] in, key[high] out */
    if (f->offset) return start + 1;
    if (start >= k) {
        double below = -scaled_difference(f->key[start], f->key[k - 1], f->real, r->scale);
        if (below >= 0.75 * bit_length(f->m - start) + LEAVE_OUT) return f->m;
    }
    while (low + step < f->m
           && -scaled_difference(f->key[low + step], f->key[start], f->real, r->scale) <= 0.5) {
        low += step;
        step *= 2;
    }
    if (low + step < f->m) high = low + step;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (-scaled_difference(f->key[middle], f->key[start], f->real, r->scale) <= 0.5)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static int start_blocks(race *r, size_t k)
{
    const dptk_field *f = r->field;
    int status;
    for (size_t start = 0, end; start < f->m; start = end) {
        end = block_end(r, start, k);
        status = add_block(r, (int64_t)start, (int64_t)(end - start), f->key[start],
                           f->offset ? f->offset[start] : 0.0);
        if (status != DPTK_OK) return status;
    }
    if (f->tail && f->tail->n > f->m) {
        status = add_block(r, TAIL, (int64_t)(f->tail->n - f->m), f->key[f->m - 1], 0.0);
        if (status != DPTK_OK) return status;
    }
    return f->stop ? add_block(r, STOPPER, 1, f->stop_key, f->stop_offset) : DPTK_OK;
}

/* A uniform one of the block's items not seen yet. Head: a sparse
 * Fisher-Yates shuffle over positions. */
static int draw_head(race *r, const dptk_block *b, int64_t *item, int64_t *key)
{
    uint64_t left = (uint64_t)(b->size - b->taken), rank = 0;
    int64_t position, last = b->start + (int64_t)left - 1;
    dptk_pair *here;
    if (left > 1) {
        int status = next_below(r->rng, left, &rank);
        if (status != DPTK_OK) return status;
    }
    position = b->start + (int64_t)rank;
    if (b->size > 1) {
        const dptk_pair *end = find(r, last);
        int64_t replacement = end->key < 0 ? last : end->value;
        here = find(r, position);
        int64_t seen = here->key < 0 ? position : here->value;
        int status = store(r, here, position, replacement);
        if (status != DPTK_OK) return status;
        position = seen;
    }
    *item = r->field->index[position];
    *key = r->field->key[position];
    return DPTK_OK;
}

/* Tail: uniform items, those of the head and those seen rejected. An element
 * belongs to the head if it does not come after the head's last. */
static int draw_tail(race *r, int64_t *item, int64_t *key)
{
    const dptk_field *f = r->field;
    int64_t last_key = f->key[f->m - 1], last_index = f->index[f->m - 1];
    for (;;) {
        uint64_t at;
        dptk_pair *pair;
        int status = next_below(r->rng, f->tail->n, &at);
        if (status == DPTK_OK) status = dptk_keys(f->tail, (size_t)at, 1, key);
        if (status != DPTK_OK) return status;
        *item = (int64_t)at;
        if (*key > last_key || (*key == last_key && *item <= last_index)) continue;
        pair = find(r, (int64_t)f->m + *item);
        if (pair->key < 0) return store(r, pair, (int64_t)f->m + *item, 0);
    }
}

/* The leader is a block: show one of its items. *done: the item is the next
 * pick at once, as it has the block's largest score. */
static int look(race *r, size_t block, int *done, int64_t *item)
{
    dptk_block *b = &r->scratch->block[block];
    dptk_runner seen = {0}, next;
    int64_t key = b->key;
    int status = DPTK_OK;
    if (b->start == STOPPER)
        *item = DPTK_STOP;
    else if (b->start == TAIL)
        status = draw_tail(r, item, &key);
    else
        status = draw_head(r, b, item, &key);
    if (status != DPTK_OK) return status;
    *done = key == b->key;
    if (!*done)
        bound(r, b, scaled_difference(key, r->base, r->field->real, r->scale), &seen);
    seen.id = ~*item;
    b->taken++;
    if (b->taken < b->size) {
        status = advance(r, block, &next);
        if (status != DPTK_OK) return status;
        replace(r->scratch->runner, r->n_runners, next);
    } else {
        pop(r);
    }
    return *done ? DPTK_OK : push(r, seen);
}

int dptk_race(dptk_rng *rng, const dptk_field *field, size_t k, double scale, int noise,
              double error_factor, dptk_race_scratch *scratch, int64_t *item, size_t *picked)
{
    race r = {.field = field, .law = &LAWS[noise], .rng = rng, .scratch = scratch,
              .scale = scale, .error_factor = error_factor,
              .base = field->m ? field->key[0] : field->stop_key};
    int status;
    memset(scratch->pair, 0xff, 2 * scratch->capacity * sizeof *scratch->pair); /* keys -1 */
    *picked = 0;
    status = start_blocks(&r, k);
    while (status == DPTK_OK && *picked < k && r.n_runners) {
        const dptk_runner *leader = &scratch->runner[0];
        int64_t chosen = ~leader->id;
        int done = 1;
        if (!leads(&r)) return DPTK_UNDECIDED;
        if (leader->id >= 0)
            status = look(&r, (size_t)leader->id, &done, &chosen);
        else
            pop(&r);
        if (status == DPTK_OK && done) {
            item[(*picked)++] = chosen;
            if (chosen == DPTK_STOP) break;
        }
    }
    return status;
}
