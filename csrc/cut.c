/* cut.c - the largest of a big array, and counts of counts, in one pass.
 *
 * Scores of any type become int64 keys, a chunk at a time: int64 columns are
 * read in place, the others through a buffer on the stack. */
#include "cut_impl.h"

#include <string.h>

/* Keys of a chunk: where they stand if they stand packed, else in buffer.
 * NULL: one of them is NaN. */
static const int64_t *chunk_keys(const dptk_column *col, size_t first, size_t count,
                                 int64_t *buffer)
{
    if (col->type == DPTK_I64 && col->stride == (ptrdiff_t)sizeof(int64_t)
        && (uintptr_t)col->data % sizeof(int64_t) == 0)
        return (const int64_t *)(const void *)col->data + first;
    return dptk_keys(col, first, count, buffer) == DPTK_OK ? buffer : NULL;
}

/* ---- select and sort ----------------------------------------------------- */

/* Keys in descending order are these words in ascending order. */
static inline uint64_t descend(int64_t key) { return (uint64_t)key ^ (uint64_t)INT64_MAX; }

/* The bits in which the words differ. */
static uint64_t differing(const uint64_t *words, size_t n)
{
    uint64_t bits = 0;
    for (size_t i = 1; i < n; i++) bits |= words[i] ^ words[0];
    return bits;
}

/* The rank-th largest of the keys, rank from 1, and in *ties how many of its
 * equals belong to the first `rank`. work: n words. A byte a pass, from the
 * highest bit in which the words left differ: at most 8 passes of at most n
 * words, on any data. */
static int64_t select_key(const int64_t *keys, size_t n, size_t rank, uint64_t *work, size_t *ties)
{
    uint64_t bits;

    for (size_t i = 0; i < n; i++) work[i] = descend(keys[i]);
    while ((bits = differing(work, n)) != 0) {
        uint64_t bucket[2][256] = {{0}}; /* two: equal neighbours don't wait for each other */
        uint64_t total;
        unsigned shift = 0, digit = 0;
        size_t kept = 0;

        while (bits >> shift > 255) shift++;
        for (size_t i = 0; i < n; i++) bucket[i & 1][work[i] >> shift & 255]++;
        while (rank > (total = bucket[0][digit] + bucket[1][digit])) {
            rank -= total;
            digit++;
        }
        for (size_t i = 0; i < n; i++) {
            const uint64_t word = work[i];
            work[kept] = word;
            kept += (word >> shift & 255) == digit;
        }
        n = kept;
    }
    *ties = rank;
    return (int64_t)descend((int64_t)work[0]);
}

/* One pass of a stable radix sort: by byte `shift` of the descending words. */
static void sort_pass(const int64_t *keys, const int64_t *index, size_t n, unsigned shift,
                      int64_t *keys_out, int64_t *index_out)
{
    size_t place[256] = {0}, sum = 0;

    for (size_t i = 0; i < n; i++) place[descend(keys[i]) >> shift & 255]++;
    for (int digit = 0; digit < 256; digit++) {
        const size_t count = place[digit];
        place[digit] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++) {
        const size_t to = place[descend(keys[i]) >> shift & 255]++;
        keys_out[to] = keys[i];
        index_out[to] = index[i];
    }
}

/* Stable, keys descending. Takes (keys, index) as its second buffer and
 * leaves the result in the outputs. */
static void sort_pairs(int64_t *keys, int64_t *index, size_t n, int64_t *keys_out,
                       int64_t *index_out)
{
    int64_t *from[2] = {keys, index}, *to[2] = {keys_out, index_out};
    uint64_t differ = 0;

    for (size_t i = 1; i < n; i++) differ |= (uint64_t)keys[i] ^ (uint64_t)keys[0];
    for (unsigned shift = 0; shift < 64; shift += 8) {
        if ((differ >> shift & 255) == 0) continue;
        sort_pass(from[0], from[1], n, shift, to[0], to[1]);
        for (int side = 0; side < 2; side++) {
            int64_t *const swap = from[side];
            from[side] = to[side];
            to[side] = swap;
        }
    }
    if (from[0] != keys_out) {
        memcpy(keys_out, from[0], n * sizeof *keys_out);
        memcpy(index_out, from[1], n * sizeof *index_out);
    }
}

/* ---- the cut ------------------------------------------------------------- */

/* Candidates in order of index. Once `bounded`, m held ones (or the sample)
 * say that nothing at or below tau can still get in: a later equal of a held
 * key loses the tie. */
typedef struct cut {
    size_t m, capacity, held;
    int bounded;
    int64_t tau;
    int64_t *keys, *index;
    uint64_t *work;
} cut;

/* Room for m after a compaction, for what the sample is expected to let through
 * on top of them, and for a chunk: more than m candidates are read between two
 * compactions, which pay for the second. */
static size_t capacity_for(size_t n, size_t m)
{
    return n / 3 < m + DPTK_CHUNK ? n : 3 * (m + DPTK_CHUNK);
}

size_t dptk_cut_scratch(size_t n, size_t m) { return 3 * (capacity_for(n, m) + DPTK_SLACK); }

/* Keep the m largest, the first ones among equals; the smallest is the bound. */
static void compact(cut *c)
{
    int64_t *const keys = c->keys, *const index = c->index;
    const size_t held = c->held;
    size_t ties, kept = 0, i = 0;
    const int64_t tau = select_key(keys, held, c->m, c->work, &ties);

    for (; ties > 0; i++) { /* the last that stays of those equal to tau ends it */
        const int64_t key = keys[i];
        keys[kept] = key;
        index[kept] = index[i];
        kept += key >= tau;
        ties -= key == tau;
    }
    for (; i < held; i++) {
        const int64_t key = keys[i];
        keys[kept] = key;
        index[kept] = index[i];
        kept += key > tau;
    }
    c->held = kept;
    c->tau = tau;
    c->bounded = 1;
}

/* A first bound from every step-th score, low enough that about m of its
 * betters, and seldom fewer than m, lie in the column. Without it an ascending
 * column would pass through the buffer whole; it decides speed only. */
static int sample_bound(cut *c, const dptk_column *col)
{
    const size_t n = col->n, size = n / 16 < 2 * DPTK_CHUNK ? n / 16 : 2 * DPTK_CHUNK;
    const size_t step = (n / size - 1) | 1; /* odd: tables have even row lengths */
    const dptk_column sample = {col->data, col->stride * (ptrdiff_t)step, size, col->type};
    const double expected = (double)size * (double)c->m / (double)n;
    size_t rank = (size_t)expected + 4, ties;
    int64_t bound;

    for (size_t root = 1; (double)(root * root) <= 9.0 * expected; root++)
        rank++; /* three standard deviations */
    if (dptk_keys(&sample, 0, size, c->keys) != DPTK_OK) return DPTK_NAN;
    bound = select_key(c->keys, size, rank, c->work, &ties);
    c->bounded = bound > INT64_MIN;
    c->tau = c->bounded ? bound - 1 : bound;
    return DPTK_OK;
}

static void take_all(cut *c, const int64_t *keys, size_t first, size_t count, int64_t *any)
{
    int64_t *const index = c->index + c->held;

    memcpy(c->keys + c->held, keys, count * sizeof *keys);
    for (size_t i = 0; i < count; i++) {
        index[i] = (int64_t)(first + i);
        *any |= keys[i];
    }
    c->held += count;
}

static int read_column(cut *c, const dptk_column *col, int64_t *any)
{
    dptk_scan_fn *const scan = dptk_cut_table[dptk_simd_get()].scan;
    int64_t buffer[DPTK_CHUNK];

    c->held = 0;
    for (size_t first = 0; first < col->n; first += DPTK_CHUNK) {
        const size_t left = col->n - first, count = left < DPTK_CHUNK ? left : DPTK_CHUNK;
        const int64_t *keys = chunk_keys(col, first, count, buffer);

        if (!keys) return DPTK_NAN;
        if (c->held + count > c->capacity) compact(c);
        if (c->bounded)
            c->held += scan(keys, count, first, c->tau, c->keys + c->held, c->index + c->held, any);
        else
            take_all(c, keys, first, count, any);
    }
    return DPTK_OK;
}

int dptk_cut(const dptk_column *col, size_t m, int64_t *scratch, int64_t *keys, int64_t *index,
             int *negative)
{
    const size_t capacity = capacity_for(col->n, m), room = capacity + DPTK_SLACK;
    cut c = {.m = m,
             .capacity = capacity,
             .keys = scratch,
             .index = scratch + room,
             .work = (uint64_t *)(scratch + 2 * room)};
    const int sampled = col->n >= 4 * DPTK_CHUNK && col->n / 8 >= m;
    int64_t any = 0;

    if (sampled && sample_bound(&c, col) != DPTK_OK) return DPTK_NAN;
    if (read_column(&c, col, &any) != DPTK_OK) return DPTK_NAN;
    if (c.held < m) { /* the sample was unlucky or made to deceive */
        c.bounded = 0;
        if (read_column(&c, col, &any) != DPTK_OK) return DPTK_NAN;
    }
    if (c.held > m) compact(&c);
    sort_pairs(c.keys, c.index, m, keys, index);
    *negative = any < 0 && col->type != DPTK_U64;
    return DPTK_OK;
}

size_t dptk_scan_portable(const int64_t *keys, size_t n, size_t first, int64_t tau,
                          int64_t *keys_out, int64_t *index_out, int64_t *any)
{
    enum { STEP = 4 };
    int64_t seen = 0;
    size_t count = 0;

    for (size_t i = 0; i < n;) {
        size_t end = i + STEP;

        if (n - i >= STEP) { /* mostly none gets in: branches that are never taken are cheap */
            const int64_t a = keys[i], b = keys[i + 1], c = keys[i + 2], d = keys[i + 3];
            seen |= (a | b) | (c | d);
            if (a <= tau && b <= tau && c <= tau && d <= tau) {
                i = end;
                continue;
            }
        } else {
            end = n;
        }
        for (; i < end; i++) {
            seen |= keys[i];
            keys_out[count] = keys[i];
            index_out[count] = (int64_t)(first + i);
            count += keys[i] > tau;
        }
    }
    *any |= seen;
    return count;
}

/* ---- counts of counts ---------------------------------------------------- */

/* Counters are 32 bits wide, in lanes: a word holds two. */
size_t dptk_count_keys_scratch(size_t span) { return (span + 1) * DPTK_LANES / 2; }

size_t dptk_tally_portable(const int64_t *keys, size_t n, size_t span, uint32_t *lanes,
                           int16_t *copy)
{
    size_t i = 0;

    if (copy) dptk_clip(keys, n, copy);
    for (; i + DPTK_LANES <= n; i += DPTK_LANES)
        for (size_t lane = 0; lane < DPTK_LANES; lane++) {
            const uint64_t key = (uint64_t)keys[i + lane];
            lanes[(key < span ? key : span) * DPTK_LANES + lane]++;
        }
    for (; i < n; i++) {
        const uint64_t key = (uint64_t)keys[i];
        lanes[(key < span ? key : span) * DPTK_LANES]++;
    }
    return n;
}

int dptk_count_keys(const dptk_column *col, size_t span, int64_t *scratch, int64_t *table,
                    int16_t *copy)
{
    enum { BATCH = 1 << 30 }; /* elements before a 32-bit counter could wrap */
    dptk_tally_fn *const fast = dptk_cut_table[dptk_simd_get()].tally;
    int plain = 0; /* chunks to go without it: it helps if most keys are small */
    const size_t counters = span * DPTK_LANES;
    uint32_t *const lanes = (uint32_t *)(void *)scratch;
    int64_t buffer[DPTK_CHUNK];

    memset(table, 0, span * sizeof *table);
    for (size_t start = 0; start < col->n; start += BATCH) {
        const size_t end = col->n - start < BATCH ? col->n : start + BATCH;

        memset(lanes, 0, (counters + DPTK_LANES) * sizeof *lanes);
        for (size_t first = start; first < end; first += DPTK_CHUNK) {
            const size_t count = end - first < DPTK_CHUNK ? end - first : DPTK_CHUNK;
            const int64_t *keys = chunk_keys(col, first, count, buffer);
            if (!keys) return DPTK_NAN;
            int16_t *const to = copy ? copy + first : NULL;
            if (plain > 0) {
                plain--;
                dptk_tally_portable(keys, count, span, lanes, to);
            } else if (fast(keys, count, span, lanes, to) > count / 4) {
                plain = 31;
            }
        }
        for (size_t i = 0; i < counters; i++) table[i / DPTK_LANES] += lanes[i];
    }
    return DPTK_OK;
}
