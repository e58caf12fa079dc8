/* race.c - the largest noisy scores, one after the other.
 *
 * The leader of all blocks (blocks.h) and seen items is either an item, which is the
 * next pick, or a block, which then shows one item more. Blocks that never lead cost
 * one word each, however many items they hold. A pick or a look into a block happens
 * only when the leader's lower bound beats every other upper bound. */
#include "blocks.h"

#include <string.h>

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

static int push_block(race *r, size_t block)
{
    const dptk_block *b = &r->scratch->block[block];
    dptk_runner runner = {.id = (int64_t)block};
    bound(r, b, b->score, &runner);
    return push(r, runner);
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

/* Tail: uniform items, those of the head, those seen and those gone rejected. */
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
        if (!is_tail(r, item, *key)) continue;
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
        int status;
        if (r->n_runners && heap[0].low > r->scratch->block[r->n_running].rest) break;
        status = push_block(r, r->n_running);
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

/* The blocks for k picks, none of them running: those of the head wait, ... */
static int start(race *r, const dptk_field *field, size_t k)
{
    int status = dptk_start_blocks(r, k);
    if (status == DPTK_OK && field->stop) status = dptk_add_stopper(r, field);
    r->n_runners = r->n_running = 0;
    for (size_t i = r->n_waiting; status == DPTK_OK && i < r->n_blocks; i++) /* ... others run */
        status = push_block(r, i);
    return status;
}

static int anyone(const race *r) { return r->n_runners || r->n_running < r->n_waiting; }

static int run(race *r, const dptk_field *field, size_t k, int64_t *item, double *value,
               size_t *picked)
{
    int64_t place = 0;
    int status = start(r, field, k);
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
    race r = dptk_race_over(rng, field, scale, noise, error_factor, scratch, 1);
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

/* Rows of fewer steps than are watched. */
enum { WATCH_ROWS = 32 };

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
        race r = dptk_race_over(rng, &field, scale, noise, error_factor, scratch,
                                (int64_t)(*done - first) + 1);
        size_t picked = k, looks;
        double floor;
        int status = DPTK_OK;
        if (*done % WATCH_ROWS == WATCH_ROWS - 1 && dptk_stopped(scratch->watch))
            return DPTK_STOPPED;
        if (dptk_sweep_floor(&field, k, scale, noise, &floor, &looks))
            status = dptk_sweep(rng, &field, k, scale, noise, error_factor, floor, scratch, out);
        else if (k)
            status = run(&r, &field, k, out, NULL, &picked);
        if (status != DPTK_OK) {
            rng->next = word;
            return status;
        }
        while (picked < k) out[picked++] = DPTK_STOP;
    }
    return DPTK_OK;
}

/* The first of the keys in order that equals the one at a place. */
static size_t first_of(const int64_t *key, size_t place)
{
    size_t low = 0, high = place;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (key[middle] == key[place])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int dptk_race_afresh(dptk_rng *rng, const dptk_field *field, size_t k, double scale, int noise,
                     double error_factor, dptk_race_scratch *scratch, int64_t *left, int64_t *item)
{
    race r = dptk_race_over(rng, field, scale, noise, error_factor, scratch, 1);
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
        r.n_blocks = r.n_marks = 0;
        status = start(&r, field, 1);
        if (status == DPTK_OK) status = next_pick(&r, &place);
        if (status != DPTK_OK) return status;
        item[i] = item_at(&r, place);
        if (place < r.first_tail) { /* the first of its score takes its place, ... */
            size_t gap = first_of(key, (size_t)place);
            index[place] = index[gap];
            while (gap > 0) { /* ... and that of the next larger score the place of that one */
                const size_t top = first_of(key, gap - 1);
                key[gap] = key[top];
                index[gap] = index[top];
                gap = top;
            }
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
