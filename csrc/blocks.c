/* blocks.c - a field of items cut into blocks. */
#include "blocks.h"

race dptk_race_over(dptk_rng *rng, const dptk_field *field, double scale, int noise,
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

/* A block's first order statistic comes with it; that of a fixed stopper is 0. */
static int add_block(race *r, int64_t start, int64_t size, int64_t key, double offset, int fixed)
{
    dptk_runner runner;
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
    return DPTK_OK;
}

/* How far the score at head position b lies below the one at a, in scales. */
static double below(const race *r, size_t a, size_t b)
{
    return -scaled_difference(r->key[b], r->key[a], r->real, r->scale);
}

/* 2^x by its chords, which no two machines round differently. */
size_t dptk_size_far_below(double gap, size_t most)
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
    if (start >= k) low += dptk_size_far_below(below(r, k - 1, start), r->m - start) - 1;
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

int dptk_start_blocks(race *r, size_t k)
{
    int status;
    for (size_t start = 0, end; start < r->m; start = end) {
        end = block_end(r, start, k);
        status = add_block(r, (int64_t)start, (int64_t)(end - start), r->key[start],
                           r->offset ? r->offset[start] : 0.0, 0);
        if (status != DPTK_OK) return status;
    }
    r->n_waiting = r->n_blocks;
    for (size_t i = r->n_blocks; i-- > 1;) {
        dptk_block *b = &r->scratch->block[i - 1];
        if (b->rest < b[1].rest) b->rest = b[1].rest;
    }
    return r->n_tail ? dptk_add_tail(r) : DPTK_OK;
}

int dptk_add_tail(race *r) { return add_block(r, TAIL, (int64_t)r->n_tail, r->last_key, 0.0, 0); }

int dptk_add_stopper(race *r, const dptk_field *field)
{
    return add_block(r, STOPPER, 1, field->stop_key, field->stop_offset,
                     field->stop == DPTK_FIXED);
}
