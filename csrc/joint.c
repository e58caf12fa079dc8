/* joint.c - the joint exponential mechanism over sets, and over sequences.
 *
 * A set whose i-th largest score is c_(j_i) has the loss max_i (c_i - c_(j_i)).
 * It is at most tau iff j_i <= t_i(tau), the number of items that score at
 * least c_i - tau, for all i: the sets of loss <= tau are the paths under a
 * staircase, N(tau) of them (paths.c). As exp(-m / s) is the integral of
 * exp(-tau / s) / s over tau >= m, the mechanism is: draw tau with density
 * proportional to N(tau) exp(-tau / s), then a uniform set under its staircase.
 *
 * N rises with tau, so on [a, b) the weight is at most N(b) exp(-tau / s).
 * Blocks of tau make an envelope whose weights are integers, rounded up; tau
 * is drawn from it exactly and accepted with probability N(tau) exp(-tau / s)
 * over the envelope. Only the acceptance needs N, and a path the shares of its
 * stairs: these are decided with certified error, as everywhere. */
#include "dptk.h"
#include "variate.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double LN_2 = 0x1.62e42fefa39efp-1;
/* How much of a count of sets another block must save to be worth its own; more
 * than a few hundredths would trust in a straight line for too long. */
static const double PATIENCE = 0.03;
static const double TAIL = 8.0;

typedef struct joint {
    const dptk_groups *groups;
    size_t k;
    double scale;
    int sequence;
    const dptk_watch *watch;
    int64_t *bound, *other; /* k each */
    int64_t *taken;         /* by a subset; none for sequences */
    double *paths;
} joint;

/* ---- the staircase of a tau ----------------------------------------------- */

/* How many items score at least key - tau, from group `at` on, which does. */
static size_t groups_within(const dptk_groups *g, int64_t key, double tau, size_t at)
{
    size_t step = 1, high;
    while (at + step < g->n && score_drop(g, key, g->key[at + step]) <= tau) {
        at += step;
        step *= 2;
    }
    high = at + step < g->n ? at + step : g->n; /* groups up to `at` are in, `high` is out */
    while (high - at > 1) {
        const size_t middle = at + (high - at) / 2;
        if (score_drop(g, key, g->key[middle]) <= tau)
            at = middle;
        else
            high = middle;
    }
    return at;
}

/* bound[i] = t_i(tau) - 1 for a sequence; for a set the largest x_i = j_i - i. */
static void bounds(const joint *j, double tau, int64_t *bound)
{
    const dptk_groups *g = j->groups;
    size_t own = 0, within = 0;
    for (size_t i = 0; i < j->k; i++) {
        while ((size_t)g->end[own] <= i) own++;
        if (within < own) within = own;
        within = groups_within(g, g->key[own], tau, within);
        bound[i] = g->end[within] - 1 - (j->sequence ? 0 : (int64_t)i);
    }
    if (j->sequence) return;
    for (size_t i = j->k - 1; i > 0; i--)
        if (bound[i - 1] > bound[i]) bound[i - 1] = bound[i];
}

/* Logarithm of the number of sets or sequences within these bounds. */
static int count(const joint *j, const int64_t *bound, int precision, double *log_count,
                 double *error)
{
    double sum = 0.0;
    if (dptk_stopped(j->watch)) return DPTK_STOPPED;
    if (!j->sequence) {
        dptk_staircase c;
        const int status = dptk_paths(bound, j->k, precision, 0, j->watch, j->paths, &c);
        if (status == DPTK_OK) dptk_paths_log(&c, log_count, error);
        return status;
    }
    for (size_t i = 0; i < j->k; i++) sum += log((double)(bound[i] + 1 - (int64_t)i));
    *log_count = sum;
    *error = (LOG_ERROR + 0x1p-52 * (double)j->k) * sum;
    return DPTK_OK;
}

/* No less than it, for the envelope: the sums of long sequences are off by more
 * than a millionth. */
static int count_within(const joint *j, double tau, double *log_count)
{
    double error;
    int status;
    bounds(j, tau, j->bound);
    status = count(j, j->bound, DPTK_ROUGH, log_count, &error);
    if (status == DPTK_OK) *log_count += error;
    return status;
}

/* From this tau on all sets are within: max_i of c_i less the score i places
 * from the end, of as many places as picks. */
static double last_loss(const joint *j)
{
    const dptk_groups *g = j->groups;
    const int64_t d = g->end[g->n - 1];
    size_t own = 0, low = 0;
    double last = 0.0;
    if (j->sequence) return score_drop(g, g->key[0], g->key[g->n - 1]);
    for (size_t i = 0; i < j->k; i++) {
        const int64_t rank = d - (int64_t)j->k + (int64_t)i;
        double loss;
        size_t high = g->n;
        while ((size_t)g->end[own] <= i) own++;
        for (low = low < own ? own : low; high - low > 1;) {
            const size_t middle = low + (high - low) / 2;
            if (g->end[middle - 1] <= rank)
                low = middle;
            else
                high = middle;
        }
        loss = score_drop(g, g->key[own], g->key[low]);
        if (loss > last) last = loss;
    }
    return last;
}

/* ---- the envelope ----------------------------------------------------------- */

/* Logarithm of the integral of exp(-tau / s) / s over the block. */
static double log_mass(const joint *j, const dptk_joint_block *b)
{
    const double start = -b->start / j->scale;
    return b->width < INFINITY ? start + log(-expm1(-b->width / j->scale)) : start;
}

/* Halve a block. For integers its middle is one, and in a block of width 1 the
 * number of sets is the same. */
static int split(const joint *j, dptk_joint_block *b, dptk_joint_block *right)
{
    double half = 0.5 * b->width;
    int status;
    if (!j->groups->real) half = floor(half);
    *right = *b;
    right->start = b->start + half;
    right->width = b->width - half;
    b->width = half;
    status = count_within(j, right->start, &right->log_low);
    b->log_high = right->log_low;
    b->constant = !j->groups->real && b->width == 1.0;
    right->constant = !j->groups->real && right->width == 1.0;
    if (b->constant) b->log_high = b->log_low;
    if (right->constant) right->log_high = right->log_low;
    return status;
}

/* Whether its halves start and end at doubles, and are worth telling apart. */
static int splits(const joint *j, const dptk_joint_block *b)
{
    const int exact = b->width > 0x1p-40 * b->start;
    if (b->width == INFINITY || b->constant) return 0;
    if (j->groups->real) return exact && b->width > 0x1p-20 * j->scale;
    return exact || b->start + b->width < 0x1p+53;
}

/* The mean of exp(-x t), t in [0, 1], for x >= 0. */
static double mean_exp(double x) { return x > 0x1p-20 ? -expm1(-x) / x : 1.0; }

/* What a block covers, as if log N rose in a straight line, over its envelope. */
static double cover(const joint *j, const dptk_joint_block *b)
{
    const double rise = b->log_high - b->log_low, fall = b->width / j->scale;
    if (!(rise > 0x1p-20 && fall < INFINITY)) return 1.0;
    return exp(-fmin(rise, fall)) * mean_exp(fabs(rise - fall)) / mean_exp(fall);
}

/* The block whose envelope exceeds what it covers most; n if to draw from the
 * envelope as it is takes fewer counts of sets than it has blocks, about. */
static size_t loosest(const joint *j, const dptk_joint_block *block, size_t n)
{
    double top = -INFINITY, envelope = 0.0, covered = 0.0, worst = 0.0;
    size_t at = n;
    for (size_t i = 0; i < n; i++) {
        const double size = block[i].log_high + log_mass(j, &block[i]);
        if (size > top) top = size;
    }
    for (size_t i = 0; i < n; i++) {
        const double size = exp(block[i].log_high + log_mass(j, &block[i]) - top);
        const double part = cover(j, &block[i]);
        envelope += size;
        covered += size * part;
        if (size * (1.0 - part) > worst && splits(j, &block[i])) {
            worst = size * (1.0 - part);
            at = i;
        }
    }
    return envelope > covered * (1.0 + PATIENCE * (double)n) ? at : n;
}

static joint joint_of(const dptk_groups *groups, size_t k, double scale, int sequence,
                      const dptk_watch *watch, int64_t *scratch)
{
    joint j = {.groups = groups, .k = k, .scale = scale, .sequence = sequence, .watch = watch};
    j.bound = scratch;
    j.other = scratch + k;
    j.taken = scratch + 2 * k;
    if (!sequence) j.paths = (double *)(void *)(j.taken + dptk_subset_scratch(k));
    return j;
}

size_t dptk_joint_scratch(size_t k, int sequence)
{
    return 2 * k + (sequence ? 0 : dptk_subset_scratch(k) + dptk_paths_scratch(k, DPTK_PLAIN, 1));
}

/* A power of two past x, which is known to 2^-52. */
static double power_past(double x)
{
    int exponent;
    frexp(x * (1.0 + 0x1p-50), &exponent);
    return ldexp(1.0, exponent);
}

int dptk_joint_envelope(const dptk_groups *groups, size_t k, double scale, int sequence,
                        const dptk_watch *watch, int64_t *scratch, dptk_joint_block *block,
                        size_t *blocks, double *log_unit)
{
    const joint j = joint_of(groups, k, scale, sequence, watch, scratch);
    double last = last_loss(&j), start, unit = -INFINITY, least, most;
    size_t n = 0, at;
    int status;
    if (last >= 0x1p+53 || groups->real) /* may have been rounded down */
        last = last > 0.0 ? nextafter(last, INFINITY) : 0.0;
    status = count_within(&j, 0.0, &least);
    if (status == DPTK_OK) status = count_within(&j, last, &most);
    if (status != DPTK_OK) return status;
    /* Past this the weight is under exp(-TAIL) of the least that all is. */
    start = scale * (most - least + TAIL);
    if (!(start < last)) start = last;
    /* Halves of a power of two, and theirs, are exact. */
    if (groups->real ? start > 0.0 : start >= 0x1p+53)
        start = power_past(start);
    else
        start = ceil(start);
    block[n++] = (dptk_joint_block){.start = start,
                                    .width = INFINITY,
                                    .log_low = most,
                                    .log_high = most,
                                    .constant = start >= last};
    if (start > 0.0)
        block[n++] = (dptk_joint_block){.start = 0.0,
                                        .width = start,
                                        .log_low = least,
                                        .log_high = most,
                                        .constant = !groups->real && start == 1.0};
    if (n > 1 && block[1].constant) block[1].log_high = least;
    while (n < DPTK_JOINT_BLOCKS && (at = loosest(&j, block, n)) < n) {
        status = split(&j, &block[at], &block[n]);
        if (status != DPTK_OK) return status;
        n++;
    }
    for (size_t i = 0; i < n; i++) {
        const double size = block[i].log_high + log_mass(&j, &block[i]);
        if (size > unit) unit = size;
    }
    /* A millionth more than rounding could take, and one unit. */
    for (size_t i = 0; i < n; i++) {
        const double size = block[i].log_high + log_mass(&j, &block[i]) - unit;
        block[i].weight = (uint64_t)(exp(size + 0x1p-20) * 0x1p+52) + 2;
    }
    *blocks = n;
    *log_unit = unit;
    return DPTK_OK;
}

/* ---- tau ------------------------------------------------------------------ */

/* Draw tau's place in a block, and the bounds that belong to it. Exp(1) scales
 * modulo the width are the exponential law cut to the block: it has no memory. */
static int place(const joint *j, dptk_rng *rng, const dptk_joint_block *b, double error_factor)
{
    double error, x, low, high, rounds;
    uint64_t word;
    int status = next_word(rng, &word);
    if (status != DPTK_OK) return status;
    x = exponential(word, &error) * j->scale;
    error = error_factor * (error * j->scale + 0x1p-52 * x);
    if (!j->groups->real) { /* N(tau) = N(floor(tau)) */
        low = floor(x - error);
        high = floor(x + error);
        if (!(low == high && high < 0x1p+52 && low >= 0.0)) return DPTK_UNDECIDED;
        low = b->start + fmod(low, b->width);
        if (low >= 0x1p+53) return DPTK_UNDECIDED;
        bounds(j, low, j->bound);
        return DPTK_OK;
    }
    error += 0x1p-50 * x + 0x1p-51 * b->start; /* of the product, the difference and the sum */
    if (b->width < INFINITY) {
        rounds = floor(x / b->width);
        if (!(rounds < 0x1p+40)) return DPTK_UNDECIDED;
        x -= rounds * b->width;
    }
    if (!(x - error > 0.0 && x + error < b->width)) return DPTK_UNDECIDED;
    /* A difference that rounds to at most `low` is at most tau, one that rounds
     * to more than `high` is more: are they the same? */
    low = b->start + (x - error);
    high = b->start + (x + error);
    bounds(j, nextafter(low, -INFINITY), j->other);
    bounds(j, high, j->bound);
    return memcmp(j->bound, j->other, j->k * sizeof *j->bound) ? DPTK_UNDECIDED : DPTK_OK;
}

static int draw_tau(const joint *j, dptk_rng *rng, const dptk_joint_block *block, size_t blocks,
                    double log_unit, double error_factor)
{
    uint64_t total = 0;
    for (size_t i = 0; i < blocks; i++) total += block[i].weight;
    for (;;) {
        const dptk_joint_block *b = block;
        double log_count, error, price, word_error, e;
        uint64_t at, word;
        int status = next_below(rng, total, &at);
        if (status != DPTK_OK) return status;
        while (at >= b->weight) at -= (b++)->weight;
        if (b->constant)
            bounds(j, b->start, j->bound);
        else
            status = place(j, rng, b, error_factor);
        if (status == DPTK_OK) status = next_word(rng, &word);
        if (status != DPTK_OK) return status;
        /* Accepted with probability exp(-price): envelope over density, in logs. */
        e = exponential(word, &word_error);
        for (int precision = DPTK_ROUGH; precision <= DPTK_PLAIN; precision++) {
            status = count(j, j->bound, precision, &log_count, &error);
            if (status != DPTK_OK) return status;
            price = log_unit - 52.0 * LN_2 + log((double)b->weight) - log_mass(j, b) - log_count;
            error += word_error + 0x1p-42
                   + 0x1p-48
                         * (fabs(log_unit) + fabs(log_mass(j, b)) + b->start / j->scale
                            + fabs(log_count));
            error *= error_factor;
            if (e - price > error) return DPTK_OK;
            if (price - e > error) break;
            if (precision == DPTK_PLAIN) return DPTK_UNDECIDED;
        }
    }
}

/* ---- the set, or the sequence, under a staircase ------------------------------ */

/* i with a chance proportional to part[i] < n, each known but for `error` of it. */
static int share(dptk_rng *rng, const double *part, size_t n, double error, double error_factor,
                 size_t *i)
{
    double sum = 0.0, so_far = 0.0, target, rounding;
    uint64_t word;
    int status;
    for (size_t at = 0; at < n; at++) sum += part[at];
    status = next_word(rng, &word);
    if (status != DPTK_OK) return status;
    target = (double)word * 0x1p-64 * sum;
    /* Parts that were left out, at both ends, are far less than the roundings. */
    rounding = error_factor * ((double)n + 4.0) * 0x1p-52 * sum;
    if (!(target > rounding)) return DPTK_UNDECIDED;
    for (*i = 0; *i < n; ++*i) {
        double slack;
        so_far += part[*i];
        /* A share c = a / (a + b) moves by at most 2 error c (1 - c) as a and b do; the
         * sums took n roundings, their quotient and the target some more. */
        slack = error_factor * 2.1 * error * so_far * fabs(1.0 - so_far / sum) + rounding;
        if (target < so_far - slack) return DPTK_OK;
        if (!(target > so_far + slack)) return DPTK_UNDECIDED;
    }
    return DPTK_UNDECIDED;
}

static int draw_set(const joint *j, dptk_rng *rng, double error_factor, int64_t *rank)
{
    dptk_staircase c;
    size_t taken = j->k;
    int status = dptk_paths(j->bound, j->k, DPTK_PLAIN, 1, j->watch, j->paths, &c);
    for (size_t s = c.stairs; status == DPTK_OK && taken > 0; s--) {
        const dptk_stair *stair = &c.stair[s - 1];
        const int64_t foot = s > 1 ? stair[-1].height : 0;
        size_t below = 0, first, n, i;
        double error;
        if (dptk_stopped(j->watch)) return DPTK_STOPPED;
        if (s > 1) {
            status = dptk_paths_parts(&c, s - 1, taken, &first, &n, &error);
            if (status == DPTK_OK) status = share(rng, c.part.high, n, error, error_factor, &i);
            if (status == DPTK_OK) below = first + i;
        }
        if (status == DPTK_OK && below < taken)
            status = dptk_subset(rng, foot + (int64_t)below,
                                 (uint64_t)(stair->height - foot) + (taken - below) - 1,
                                 taken - below, j->taken, rank + below);
        taken = below;
    }
    return status;
}

/* Each rank uniform among those within its bound and not taken: all earlier
 * ones are within it, as bounds rise. */
static int draw_sequence(const joint *j, dptk_rng *rng, int64_t *rank)
{
    int64_t *sorted = j->other;
    for (size_t i = 0; i < j->k; i++) {
        const uint64_t left = (uint64_t)(j->bound[i] + 1) - i;
        uint64_t at = 0;
        int64_t chosen;
        size_t q;
        if (i % 64 == 0 && dptk_stopped(j->watch)) return DPTK_STOPPED;
        if (left > 1) {
            int status = next_below(rng, left, &at);
            if (status != DPTK_OK) return status;
        }
        chosen = (int64_t)at;
        for (q = 0; q < i && sorted[q] <= chosen; q++) chosen++;
        memmove(sorted + q + 1, sorted + q, (i - q) * sizeof *sorted);
        sorted[q] = rank[i] = chosen;
    }
    return DPTK_OK;
}

int dptk_joint(dptk_rng *rng, const dptk_groups *groups, size_t k, double scale, int sequence,
               double error_factor, const dptk_joint_block *block, size_t blocks, double log_unit,
               const dptk_watch *watch, int64_t *scratch, int64_t *rank)
{
    joint j = joint_of(groups, k, scale, sequence, watch, scratch);
    int status = draw_tau(&j, rng, block, blocks, log_unit, error_factor);
    if (status != DPTK_OK) return status;
    return sequence ? draw_sequence(&j, rng, rank) : draw_set(&j, rng, error_factor, rank);
}
