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
#include "score.h"
#include "variate.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define TAIL (-1)
#define STOPPER (-2)

/* ---- scores -------------------------------------------------------------- */

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
    int noise;
    dptk_rng *rng;
    dptk_race_scratch *scratch;
    double scale, error_factor;
    const int64_t *key, *index; /* the head: m items */
    const double *offset;
    size_t m;
    int real;
    const dptk_column *tail;
    size_t n_tail;                /* items of it that are left, ... */
    int64_t last_key, last_index; /* ... all of them after this one in order */
    int64_t first_tail;           /* their places come after the head's */
    int64_t base;                 /* the key that scores are measured from */
    int64_t round;                /* from 1; marks of other rounds count as empty */
    size_t n_blocks, n_runners, n_marks, n_gone;
    size_t n_running; /* head blocks from this one on wait outside the heap */
    size_t n_waiting; /* where those that can wait end */
    dptk_runner won; /* who led when the last pick was made */
} race;

/* Bounds of score + noise for a score with the block's current noise. */
static void bound(const race *r, const dptk_block *b, double score, dptk_runner *runner)
{
    double value = score + b->offset + b->noise;
    double error = b->noise_error + 0x1p-50 * (fabs(score) + fabs(b->offset) + fabs(b->noise));
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

/* ---- which tail items have been seen: a set with linear probing ----------- */

/* Where the item's mark is in a table, or would be. */
static dptk_mark *find(const race *r, dptk_mark *table, int64_t round, int64_t item)
{
    size_t mask = 2 * r->scratch->capacity - 1;
    size_t at = (size_t)(((uint64_t)item * 0x9E3779B97F4A7C15u) >> 20) & mask;
    while (table[at].round == round && table[at].item != item) at = (at + 1) & mask;
    return &table[at];
}

/* The picks of earlier rounds: a table of their own, of one round. */
static dptk_mark *find_gone(const race *r, int64_t item)
{
    return find(r, r->scratch->gone, 1, item);
}

/* Make all marks those of round 0. */
static void clear(const dptk_race_scratch *scratch, dptk_mark *table)
{
    memset(table, 0, 2 * scratch->capacity * sizeof *table);
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
    b->noise = dptk_noise(r->noise, sum, b->s_error + 0x1p-52 * sum, &b->noise_error);
    bound(r, b, b->score, runner);
    runner->id = (int64_t)block;
    return DPTK_OK;
}

/* A block's first order statistic comes with it; that of a fixed stopper is 0. */
static int add_block(race *r, int64_t start, int64_t size, int64_t key, double offset, int fixed)
{
    dptk_runner runner = {.id = (int64_t)r->n_blocks};
    int status = DPTK_OK;
    if (r->n_blocks == r->scratch->capacity) return DPTK_SCRATCH;
    r->scratch->block[r->n_blocks] =
        (dptk_block){.start = start,
                     .size = size,
                     .key = key,
                     .offset = offset,
                     .score = scaled_difference(key, r->base, r->real, r->scale)};
    if (fixed)
        bound(r, &r->scratch->block[r->n_blocks], r->scratch->block[r->n_blocks].score, &runner);
    else
        status = advance(r, r->n_blocks, &runner);
    if (status != DPTK_OK) return status;
    r->scratch->block[r->n_blocks].rest = runner.high;
    r->n_blocks++;
    return start < 0 ? push(r, runner) : DPTK_OK;
}

/* How far the score at head position b lies below the one at a, in scales. */
static double below(const race *r, size_t a, size_t b)
{
    return -scaled_difference(r->key[b], r->key[a], r->real, r->scale);
}

/* About exp(gap) items, at least 1: that many, the first of them `gap` below the
 * k-th largest score, are expected to show at most one noise that reaches it. 2^x
 * by its chords, which no two machines round differently. */
static size_t size_far_below(double gap, size_t most)
{
    const double x = gap * 1.4375, whole = floor(x);
    double size;
    if (!(x > 0.0)) return 1;
    if (x >= 62.0) return most;
    size = (1.0 + (x - whole)) * (double)((uint64_t)1 << (int)whole);
    return size < (double)most ? (size_t)size : most;
}

/* Where the block that starts at head position `start` ends. Blocks span at
 * most half a scale, so a look into one is seldom in vain (e^(1/2) Gumbel
 * looks a pick). But past the first k items, where it takes more items than
 * that to expect a look, they are one block. The partition changes the
 * cost, never the law. */
static size_t block_end(const race *r, size_t start, size_t k)
{
    size_t low = start, high = r->m, step = 1; /* low in, high out */
    if (r->offset) return start + 1;
    if (start >= k) low += size_far_below(below(r, k - 1, start), r->m - start) - 1;
    if (low + 1 < r->m && below(r, start, low + 1) > 0.5) return low + 1;
    while (low + step < r->m && below(r, start, low + step) <= 0.5) {
        low += step;
        step *= 2;
    }
    if (low + step < r->m) high = low + step;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (below(r, start, middle) <= 0.5)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* A block for every part of the head, and one for the tail. */
static int start_blocks(race *r, size_t k)
{
    int status;
    for (size_t start = 0, end; start < r->m; start = end) {
        end = block_end(r, start, k);
        status = add_block(r, (int64_t)start, (int64_t)(end - start), r->key[start],
                           r->offset ? r->offset[start] : 0.0, 0);
        if (status != DPTK_OK) return status;
    }
    r->n_running = 0;
    r->n_waiting = r->n_blocks;
    for (size_t i = r->n_blocks; i-- > 1;) {
        dptk_block *b = &r->scratch->block[i - 1];
        if (b->rest < b[1].rest) b->rest = b[1].rest;
    }
    return r->n_tail ? add_block(r, TAIL, (int64_t)r->n_tail, r->last_key, 0.0, 0) : DPTK_OK;
}

/* A uniform one of the block's items not seen yet: a Fisher-Yates shuffle of the
 * positions, which are listed when the first one is drawn. */
static int draw_head(race *r, const dptk_block *b, int64_t *place, int64_t *key)
{
    const uint64_t left = (uint64_t)(b->size - b->taken);
    uint32_t *position = r->scratch->position + b->start;
    uint64_t rank = 0;
    *place = b->start;
    if (left > 1) {
        int status = next_below(r->rng, left, &rank);
        if (status != DPTK_OK) return status;
    }
    if (b->size > 1) {
        if (b->taken == 0)
            for (int64_t i = 0; i < b->size; i++) position[i] = (uint32_t)(b->start + i);
        *place = position[rank];
        position[rank] = position[left - 1];
    }
    *key = r->key[*place];
    return DPTK_OK;
}

/* Tail: uniform items, those of the head, those seen and those gone rejected. An
 * element belongs to the head if it does not come after the head's last. */
static int draw_tail(race *r, int64_t *place, int64_t *key)
{
    misses missed = misses_of(r->tail->n, r->n_tail - r->n_marks);
    for (;;) {
        uint64_t at;
        dptk_mark *mark;
        int64_t item;
        int status = next_below(r->rng, r->tail->n, &at);
        if (status != DPTK_OK) return status;
        *key = score_key(r->tail, (size_t)at);
        item = (int64_t)at;
        if (miss(&missed)
            && (missed.times > 2
                || dptk_count(r->tail, r->last_key, r->last_index, 1) != r->n_tail + r->n_gone))
            return DPTK_CHANGED;
        if (*key > r->last_key || (*key == r->last_key && item <= r->last_index)) continue;
        if (r->n_gone && find_gone(r, item)->round) continue;
        mark = find(r, r->scratch->mark, r->round, item);
        if (mark->round == r->round) continue;
        if (r->n_marks == r->scratch->capacity) return DPTK_SCRATCH;
        r->n_marks++;
        *mark = (dptk_mark){.item = item, .round = r->round};
        *place = r->first_tail + item;
        return DPTK_OK;
    }
}

/* The leader is a block: show one of its items. *done: the item is the next
 * pick at once, as it has the block's largest score. */
static int look(race *r, size_t block, int *done, int64_t *place)
{
    dptk_block *b = &r->scratch->block[block];
    dptk_runner seen = {0}, next;
    int64_t key = b->key;
    int status = DPTK_OK;
    if (b->start == STOPPER)
        *place = DPTK_STOP;
    else if (b->start == TAIL)
        status = draw_tail(r, place, &key);
    else
        status = draw_head(r, b, place, &key);
    if (status != DPTK_OK) return status;
    *done = key == b->key;
    if (!*done) bound(r, b, scaled_difference(key, r->base, r->real, r->scale), &seen);
    seen.id = ~*place;
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

/* Head blocks come with falling scores, and noise seldom makes up for much: so they
 * wait in order until the leader is no longer certainly ahead of all that wait, and
 * the heap stays small enough for the fastest cache. */
static int let_in(race *r)
{
    const dptk_runner *heap = r->scratch->runner;
    while (r->n_running < r->n_waiting) {
        const dptk_block *b = &r->scratch->block[r->n_running];
        dptk_runner runner = {.id = (int64_t)r->n_running};
        int status;
        if (r->n_runners && heap[0].low > b->rest) break;
        bound(r, b, b->score, &runner);
        status = push(r, runner);
        if (status != DPTK_OK) return status;
        r->n_running++;
    }
    return DPTK_OK;
}

/* The place of the next pick: a head position, first_tail + item, or DPTK_STOP.
 * Assumed: there is a runner. */
static int next_pick(race *r, int64_t *place)
{
    int status = DPTK_OK, done = 0;
    while (status == DPTK_OK && !done) {
        const dptk_runner *leader = &r->scratch->runner[0];
        status = let_in(r);
        if (status != DPTK_OK) return status;
        if (!leads(r)) return DPTK_UNDECIDED;
        r->won = *leader;
        if (leader->id >= 0) {
            status = look(r, (size_t)leader->id, &done, place);
        } else {
            *place = ~leader->id;
            pop(r);
            done = 1;
        }
    }
    return status;
}

static int64_t item_at(const race *r, int64_t place)
{
    if (place < 0) return DPTK_STOP;
    return place < r->first_tail ? r->index[place] : place - r->first_tail;
}

static race race_over(dptk_rng *rng, const dptk_field *field, double scale, int noise,
                      double error_factor, dptk_race_scratch *scratch, int64_t round)
{
    race r = {.noise = noise,
              .rng = rng,
              .scratch = scratch,
              .scale = scale,
              .error_factor = error_factor,
              .key = field->key,
              .index = field->index,
              .offset = field->offset,
              .m = field->m,
              .real = field->real,
              .tail = field->tail,
              .first_tail = (int64_t)field->m,
              .round = round};
    if (field->m) {
        r.last_key = field->key[field->m - 1];
        r.last_index = field->index[field->m - 1];
    }
    r.base = field->m ? field->key[0] : field->stop_key;
    if (field->tail) r.n_tail = field->tail->n - field->m;
    return r;
}

static int anyone(const race *r) { return r->n_runners || r->n_running < r->n_waiting; }

static int run(race *r, const dptk_field *field, size_t k, int64_t *item, double *value,
               size_t *picked)
{
    int64_t place = 0;
    int status = start_blocks(r, k);
    if (status == DPTK_OK && field->stop)
        status = add_block(r, STOPPER, 1, field->stop_key, field->stop_offset,
                           field->stop == DPTK_FIXED);
    *picked = 0;
    while (status == DPTK_OK && *picked < k && anyone(r) && place != DPTK_STOP) {
        status = next_pick(r, &place);
        if (status != DPTK_OK) break;
        if (value) {
            value[2 * *picked] = r->won.low;
            value[2 * *picked + 1] = r->won.high;
        }
        item[(*picked)++] = item_at(r, place);
    }
    return status;
}

int dptk_race(dptk_rng *rng, const dptk_field *field, size_t k, double scale, int noise,
              double error_factor, dptk_race_scratch *scratch, int64_t *item, double *value,
              size_t *picked)
{
    race r = race_over(rng, field, scale, noise, error_factor, scratch, 1);
    if (r.n_tail) clear(scratch, scratch->mark);
    return run(&r, field, k, item, value, picked);
}

/* The scores of row i. */
static dptk_field field_of(const dptk_rows *rows, size_t i)
{
    const size_t start = (size_t)rows->start[i];
    dptk_field field = {.key = rows->key + start,
                        .index = rows->index + start,
                        .m = (size_t)rows->start[i + 1] - start,
                        .real = rows->real,
                        .tail = rows->tail ? &rows->tail[i] : NULL,
                        .stop = rows->stop};
    if (rows->stop) {
        field.stop_key = rows->stop_key[i];
        field.stop_offset = rows->stop_offset[i];
    }
    return field;
}

int dptk_race_rows(dptk_rng *rng, const dptk_rows *rows, size_t end, double scale, int noise,
                   double error_factor, dptk_race_scratch *scratch, int64_t *item, size_t *done)
{
    const size_t first = *done;
    if (rows->tail) clear(scratch, scratch->mark);
    for (; *done < end; ++*done) {
        const size_t i = *done % rows->n, pass = *done / rows->n;
        const size_t k = (size_t)(rows->place[i + 1] - rows->place[i]);
        const dptk_field field = field_of(rows, i);
        const uint64_t *word = rng->next;
        int64_t *out = item + pass * (size_t)rows->place[rows->n] + rows->place[i];
        race r = race_over(rng, &field, scale, noise, error_factor, scratch,
                           (int64_t)(*done - first) + 1);
        size_t picked = 0;
        int status = k ? run(&r, &field, k, out, NULL, &picked) : DPTK_OK;
        if (status != DPTK_OK) {
            rng->next = word;
            return status;
        }
        while (picked < k) out[picked++] = DPTK_STOP;
    }
    return DPTK_OK;
}

int dptk_race_afresh(dptk_rng *rng, const dptk_field *field, size_t k, double scale, int noise,
                     double error_factor, dptk_race_scratch *scratch, int64_t *left, int64_t *item)
{
    race r = race_over(rng, field, scale, noise, error_factor, scratch, 1);
    int64_t *key = left, *index = left + field->m;
    memcpy(key, field->key, field->m * sizeof *key);
    memcpy(index, field->index, field->m * sizeof *index);
    if (r.n_tail) {
        clear(scratch, scratch->mark);
        clear(scratch, scratch->gone);
    }
    for (size_t i = 0; i < k; i++, r.round++) {
        int64_t place;
        int status;
        r.key = key;
        r.index = index;
        r.base = r.m ? key[0] : r.last_key;
        r.n_blocks = r.n_runners = r.n_marks = 0;
        status = start_blocks(&r, 1);
        if (status == DPTK_OK) status = next_pick(&r, &place);
        if (status != DPTK_OK) return status;
        item[i] = item_at(&r, place);
        if (place < r.first_tail) { /* those before it close the gap: they are few */
            memmove(key + 1, key, (size_t)place * sizeof *key);
            memmove(index + 1, index, (size_t)place * sizeof *index);
            key++;
            index++;
            r.m--;
        } else {
            const int64_t gone = place - r.first_tail;
            *find_gone(&r, gone) = (dptk_mark){.item = gone, .round = 1};
            r.n_gone++;
            r.n_tail--;
        }
    }
    return DPTK_OK;
}
