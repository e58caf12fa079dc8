/* blocks.h - private to blocks.c, draw.c, race.c and sweep.c: blocks of items of nearly equal
 * scores, and the order statistics of their noise.
 *
 * The noises of n items need not be drawn one by one: their order statistics come in
 * descending order from one race of exponentials, and which item holds the next one is
 * uniform among those left. So each block shows only its next largest noise, and (largest
 * score of the block) + (that noise) bounds from above every value still hidden in it.
 *
 * Every value carries a certified error bound, and every decision is made by bounds. So
 * which variate a word of the tape serves never depends on rounding. */
#ifndef DPTK_BLOCKS_H
#define DPTK_BLOCKS_H

#include "dptk.h"
#include "score.h"
#include "variate.h"

#include <float.h>
#include <math.h>

/* Where a block starts that is no part of the head. */
#define TAIL (-1)
#define STOPPER (-2)

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
    size_t steps;     /* order statistics drawn so far */
    dptk_runner won;  /* who led when the last pick was made */
} race;

/* The race over a field, before its blocks are made. */
race dptk_race_over(dptk_rng *rng, const dptk_field *field, double scale, int noise,
                    double error_factor, dptk_race_scratch *scratch, int64_t round);

/* A block for every part of the head and one for the tail, for k picks; then one for a
 * stopper. Each draws its first order statistic. */
int dptk_start_blocks(race *r, size_t k);
int dptk_add_tail(race *r);
int dptk_add_stopper(race *r, const dptk_field *field);

/* sweep.c: mark the items of the head, so that those of the tail are the ones without a mark; and
 * show the items of a block until those still hidden are certainly below the floor. */
void dptk_mark_head(const race *r);
int dptk_sweep_block(race *r, size_t block, double floor);

/* About exp(gap) items, from 1 to most: so many, the first of them `gap` scales below the
 * k-th largest score, are expected to show at most one noise that reaches it. */
size_t dptk_size_far_below(double gap, size_t most);

/* (score of key - score of base) / divisor, relative error 3 * 2^-53. Integers
 * are subtracted as such, so that large counts keep their differences; doubles
 * whose difference overflows are halved first (not all, as half of a subnormal
 * double may not be one). */
static inline double scaled_difference(int64_t key, int64_t base, int real, double divisor)
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

/* Bounds of score + offset + noise, for any score with the block's current noise: the exact value
 * lies between low and high, whatever was rounded in the score, the noise and the sum. Past the
 * range of doubles low is -INFINITY, and so high is INFINITY but for a value certainly below
 * -0x1p1022. */
static inline void bound(const race *r, const dptk_block *b, double score, dptk_runner *runner)
{
    const double value = score + b->offset + b->noise;
    const double error =
        r->error_factor
        * (b->noise_error + 0x1p-50 * (fabs(score) + fabs(b->offset) + fabs(b->noise)));
    runner->high = value + error;
    runner->low = value - error;
    if (!(error < INFINITY)) { /* past the range of doubles: far below, or not known at all */
        const int far =
            score <= -0x1.8p1023 && b->offset <= 0x1p1020 && b->noise + b->noise_error <= 0x1p1020;
        runner->high = far ? -0x1p1022 : INFINITY;
        runner->low = -INFINITY;
    }
}

/* So many order statistics take less than a millisecond. */
enum { WATCH_STEPS = 1024 };

/* The block's next order statistic, and the block's bound as a runner. The
 * absolute error of S: that of each E, three roundings of each step, and those of
 * s_low, which sums at most j 2^-53 s in j steps: 2^-106 j s each, j < 2^36. */
static inline int advance(race *r, size_t block, dptk_runner *runner)
{
    dptk_block *b = &r->scratch->block[block];
    uint64_t word;
    double error, e, share, step, sum, part;
    int status;
    if (++r->steps % WATCH_STEPS == 0 && dptk_stopped(r->scratch->watch)) return DPTK_STOPPED;
    status = next_word(r->rng, &word);
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

/* A uniform one of the block's items not seen yet: a Fisher-Yates shuffle of the
 * positions. They are listed when the second one is drawn: until then the first of them
 * says which came first, as most large blocks are looked into once at most. */
static inline int draw_head(race *r, const dptk_block *b, int64_t *place, int64_t *key)
{
    const uint64_t left = (uint64_t)(b->size - b->taken);
    uint32_t *position = r->scratch->position + b->start;
    uint64_t rank = 0;
    *place = b->start;
    if (left > 1) {
        int status = next_below(r->rng, left, &rank);
        if (status != DPTK_OK) return status;
    }
    if (b->size > 1 && b->taken == 0) {
        *place += (int64_t)rank;
        position[0] = (uint32_t)rank;
    } else if (b->size > 1) {
        if (b->taken == 1) {
            const uint32_t gone = position[0];
            for (int64_t i = 0; i < b->size; i++) position[i] = (uint32_t)(b->start + i);
            position[gone] = position[left];
        }
        *place = position[rank];
        position[rank] = position[left - 1];
    }
    *key = r->key[*place];
    return DPTK_OK;
}

/* An element of the tail's column that is no item of the head: one that does not come
 * after the head's last is. */
static inline int is_tail(const race *r, int64_t item, int64_t key)
{
    return key < r->last_key || (key == r->last_key && item > r->last_index);
}

static inline int64_t item_at(const race *r, int64_t place)
{
    if (place < 0) return DPTK_STOP;
    return place < r->first_tail ? r->index[place] : place - r->first_tail;
}

#endif
