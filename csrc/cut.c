/* cut.c - the largest of a big array, and counts of counts, in one pass.
 *
 * The cut compares scores in their own type (filter.c); what may get in becomes int64
 * keys. A strided column goes through a buffer on the stack. */
#include "cut_impl.h"
#include "float_state.h"
#include "score.h"

#include <string.h>

/* ---- select and sort ----------------------------------------------------- */

/* How far a key is below `most`, without its last bits. */
static inline uint64_t below(int64_t most, int64_t key, unsigned shift)
{
    return ((uint64_t)most - (uint64_t)key) >> shift;
}

/* The least and the largest of the keys, in lanes: a comparison need not wait for the last. */
static void range_of(const int64_t *keys, size_t n, int64_t *least, int64_t *most)
{
    enum { LANES = 4 };
    int64_t low[LANES], high[LANES];
    size_t i = 0;

    for (size_t lane = 0; lane < LANES; lane++) low[lane] = high[lane] = keys[0];
    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) {
            const int64_t key = keys[i + lane];
            low[lane] = key < low[lane] ? key : low[lane];
            high[lane] = key > high[lane] ? key : high[lane];
        }
    for (; i < n; i++) {
        low[0] = keys[i] < low[0] ? keys[i] : low[0];
        high[0] = keys[i] > high[0] ? keys[i] : high[0];
    }
    for (size_t lane = 1; lane < LANES; lane++) {
        low[0] = low[lane] < low[0] ? low[lane] : low[0];
        high[0] = high[lane] > high[0] ? high[lane] : high[0];
    }
    *least = low[0];
    *most = high[0];
}

/* The rank-th largest of the keys, rank from 1, and in *ties how many of its
 * equals belong to the first `rank`. work: n words. A pass tells 256 parts of the range
 * apart and keeps one: at most 8 passes of at most n keys, on any data. */
static int64_t select_part(const int64_t *keys, size_t n, size_t rank, int64_t *work, size_t *ties)
{
    int64_t least, most;
    unsigned shift = 0;

    range_of(keys, n, &least, &most);
    while (below(most, least, shift) > 255) shift++;
    for (;; shift = shift < 8 ? 0 : shift - 8) {
        enum { LANES = 4 }; /* equal neighbours don't wait for each other */
        uint32_t bucket[LANES][256] = {{0}}, sum;
        uint64_t part = 0, differ = 0;
        size_t kept = 0, i = 0;

        for (; i + LANES <= n; i += LANES)
            for (size_t lane = 0; lane < LANES; lane++)
                bucket[lane][below(most, keys[i + lane], shift)]++;
        for (; i < n; i++) bucket[0][below(most, keys[i], shift)]++;
        while (rank
               > (sum = bucket[0][part] + bucket[1][part] + bucket[2][part] + bucket[3][part])) {
            rank -= sum;
            part++;
        }
        if (shift > 0)
            for (i = 0; i < n; i++) {
                const int64_t key = keys[i];
                const int same = below(most, key, shift) == part;
                work[kept] = key;
                kept += (size_t)same;
                differ |= same ? (uint64_t)(key ^ work[0]) : 0;
            }
        most = (int64_t)((uint64_t)most - (part << shift));
        if (differ == 0) {
            *ties = rank;
            return shift > 0 ? work[0] : most;
        }
        keys = work;
        n = kept;
    }
}

/* The keys from `least` to `most` into `to`, which may be where they are; returns how many, and in
 * *above how many are larger. */
static size_t between(const int64_t *keys, size_t n, int64_t least, int64_t most, int64_t *to,
                      size_t *above)
{
    size_t kept = 0, i = 0;

    *above = 0;
#if DPTK_X86
    if (dptk_simd_get() >= DPTK_SIMD_AVX512)
        kept = dptk_between_avx512(keys, n, least, most, to, &i, above);
#endif
    for (; i < n; i++) {
        const int64_t key = keys[i];
        to[kept] = key;
        kept += (key >= least) & (key <= most);
        *above += key > most;
    }
    return kept;
}

/* The same, of many from those between two of a sample, which seldom are not about it. */
int64_t dptk_select(const int64_t *keys, size_t n, size_t rank, int64_t *work, size_t *ties)
{
    enum { SIZE = 512, ENOUGH = 8 * SIZE };
    const size_t expected = (size_t)((double)SIZE * (double)rank / (double)n);
    const size_t few = expected < SIZE / 2 ? expected : SIZE - expected;
    size_t margin = 3, above, kept;

    if (n < ENOUGH) return select_part(keys, n, rank, work, ties);
    for (size_t root = 1; root * root < 7 * few; root++) margin++;
    for (size_t i = 0; i < SIZE; i++) work[i] = keys[n / SIZE * i];
    const int64_t most = expected > margin
                           ? select_part(work, SIZE, expected - margin, work + SIZE, ties)
                           : INT64_MAX;
    const int64_t least = expected + margin <= SIZE
                            ? select_part(work, SIZE, expected + margin, work + SIZE, ties)
                            : INT64_MIN;
    kept = between(keys, n, least, most, work, &above);
    if (rank <= above || rank > above + kept) return select_part(keys, n, rank, work, ties);
    if (least < most) return select_part(work, kept, rank - above, work, ties);
    *ties = rank - above;
    return most;
}

/* One pass of a stable radix sort: by `width` bits of how far the keys are below `most`. Its
 * counters would add up in what calls itself below. */
enum { WIDTH = 12 };   /* at most */
enum { TWICE = 3000 }; /* so many are sorted in two passes */

DPTK_NOINLINE static void sort_pass(const int64_t *keys, const int64_t *index, size_t n,
                                    int64_t most, unsigned shift, unsigned width, int64_t *keys_out,
                                    int64_t *index_out)
{
    const uint64_t mask = (UINT64_C(1) << width) - 1;
    size_t place[1 << WIDTH], sum = 0;

    memset(place, 0, sizeof *place << width);
    for (size_t i = 0; i < n; i++) place[below(most, keys[i], shift) & mask]++;
    for (size_t digit = 0; digit <= mask; digit++) {
        const size_t count = place[digit];
        place[digit] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++) {
        const size_t to = place[below(most, keys[i], shift) & mask]++;
        keys_out[to] = keys[i];
        index_out[to] = index[i];
    }
    dptk_wipe(place, sizeof *place << width); /* keys may be of noisy values */
}

/* Puts keys in order that are, but for runs of those equal without their last bits. Seldom does
 * one have to move, and not far; if it does, its run is sorted by itself. */
static void sort_runs(int64_t *keys, int64_t *index, size_t n, int64_t most, unsigned shift,
                      int64_t *work, int64_t *index_work)
{
    enum { FAR = 32 };

    for (size_t i = 1; i < n; i++) {
        const int64_t key = keys[i], item = index[i];
        const size_t last = i > FAR ? i - FAR : 0;
        size_t at = i;

        if (keys[i - 1] >= key) continue;
        for (; at > last && keys[at - 1] < key; at--) {
            keys[at] = keys[at - 1];
            index[at] = index[at - 1];
        }
        keys[at] = key;
        index[at] = item;
        if (at > last || at == 0 || keys[at - 1] >= key) continue;
        while (at > 0 && below(most, keys[at - 1], shift) == below(most, key, shift)) at--;
        while (i < n && below(most, keys[i], shift) == below(most, key, shift)) i++;
        memcpy(work, keys + at, (i - at) * sizeof *work);
        memcpy(index_work, index + at, (i - at) * sizeof *index_work);
        dptk_sort_pairs(work, index_work, i - at, keys + at, index + at);
    }
}

/* By their highest bits, in one pass or two, after which most are in order. A run has at least
 * five bits fewer than all, so a sort within a sort soon ends. */
void dptk_sort_pairs(int64_t *keys, int64_t *index, size_t n, int64_t *keys_out, int64_t *index_out)
{
    int64_t least = keys[0], most = keys[0];
    unsigned bits = 0, width = 1, shift = 0, passes = 0;
    int rises = 0;

    for (size_t i = 1; i < n; i++) {
        least = keys[i] < least ? keys[i] : least;
        most = keys[i] > most ? keys[i] : most;
        rises |= keys[i] > keys[i - 1];
    }
    if (rises) {
        while (bits < 64 && below(most, least, bits) > 0) bits++;
        while (width < WIDTH && width < bits && n >> width > 1) width++;
        passes = n >= TWICE && bits > width ? 2 : 1;
        if (passes == 2) width = WIDTH - 1; /* its counters share the cache with the data */
        shift = bits > passes * width ? bits - passes * width : 0;
        sort_pass(keys, index, n, most, shift, width, keys_out, index_out);
        if (passes == 2) sort_pass(keys_out, index_out, n, most, shift + width, width, keys, index);
    }
    if (passes != 1) {
        memcpy(keys_out, keys, n * sizeof *keys);
        memcpy(index_out, index, n * sizeof *index);
    }
    if (shift > 0) sort_runs(keys_out, index_out, n, most, shift, keys, index);
}

/* ---- a key and its index as one word --------------------------------------- */

DPTK_NOINLINE static void word_pass(const uint64_t *word, size_t n, unsigned shift, unsigned width,
                                    uint64_t *out)
{
    const uint64_t mask = (UINT64_C(1) << width) - 1;
    size_t place[1 << WIDTH], sum = 0;

    memset(place, 0, sizeof *place << width);
    for (size_t i = 0; i < n; i++) place[word[i] >> shift & mask]++;
    for (size_t digit = 0; digit <= mask; digit++) {
        const size_t count = place[digit];
        place[digit] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++) out[place[word[i] >> shift & mask]++] = word[i];
    dptk_wipe(place, sizeof *place << width);
}

/* As dptk_sort_pairs does. */
void dptk_sort_words(uint64_t *word, size_t n, unsigned bits, unsigned low, uint64_t *work)
{
    enum { FAR = 32 };
    unsigned width = 1, shift;

    while (width < WIDTH - 1 && width < bits - low && n >> width > 1) width++;
    if (bits - low > width) {
        shift = bits - low > 2 * width ? bits - 2 * width : low;
        word_pass(word, n, shift, width, work);
        word_pass(work, n, shift + width, width, word);
    } else {
        shift = bits - width;
        word_pass(word, n, shift, width, work);
        memcpy(word, work, n * sizeof *word);
    }
    if (shift == low) return;
    for (size_t i = 1; i < n; i++) { /* as sort_runs does */
        const uint64_t one = word[i];
        const size_t last = i > FAR ? i - FAR : 0;
        size_t at = i, end = i + 1;

        if (word[i - 1] <= one) continue;
        for (; at > last && word[at - 1] > one; at--) word[at] = word[at - 1];
        word[at] = one;
        if (at > last || at == 0 || word[at - 1] <= one) continue;
        while (at > 0 && word[at - 1] >> shift == one >> shift) at--;
        while (end < n && word[end] >> shift == one >> shift) end++;
        dptk_sort_words(word + at, end - at, shift, low, work);
        i = end - 1;
    }
}

/* The same as dptk_sort_pairs, of ascending indices. Many keys that are `most` less multiples of a
 * power of two make words with their indices, if they have room in one: in two passes that is
 * half as much to move. */
static void sort_hits(int64_t *keys, int64_t *index, size_t n, int64_t *keys_out,
                      int64_t *index_out)
{
    enum { FEWEST = 1500 };
    uint64_t *const word = (uint64_t *)keys;
    int64_t least, most, differ = 0;
    unsigned bits = 0, step = 0, low = 0;

    if (n >= FEWEST) {
        range_of(keys, n, &least, &most);
        while (bits < 64 && below(most, least, bits) > 0) bits++;
        while ((uint64_t)index[n - 1] >> low > 0) low++;
        if (bits + low > 64) /* as those of floats are */
            for (size_t i = 1; i < n; i++) differ |= keys[i] ^ keys[0];
        while (differ != 0 && !(differ >> step & 1)) step++;
    }
    if (bits <= WIDTH || bits - step + low > 64) {
        dptk_sort_pairs(keys, index, n, keys_out, index_out);
        return;
    }
    for (size_t i = 0; i < n; i++) word[i] = below(most, keys[i], step) << low | (uint64_t)index[i];
    dptk_sort_words(word, n, bits - step + low, low, (uint64_t *)keys_out);
    for (size_t i = 0; i < n; i++) {
        keys_out[i] = (int64_t)((uint64_t)most - (word[i] >> low << step));
        index_out[i] = (int64_t)(word[i] & ((UINT64_C(1) << low) - 1));
    }
}

/* ---- the cut ------------------------------------------------------------- */

/* Candidates: the scores read so far whose key is at least `bound`, or was when they were
 * read. When `enough` are held the bound can rise. */
typedef struct cut {
    dptk_hits hits;
    size_t m, capacity, enough;
    int sampled; /* the bound comes from a sample */
    int64_t bound, flip;
    int64_t before; /* the bound before it rose by one */
    int64_t *work;
} cut;

/* Room for m after a compaction, and for at least as many on top of them; and for a sample. */
static size_t capacity_for(size_t n, size_t m)
{
    return n / 2 < m + DPTK_SAMPLE ? n : 2 * (m + DPTK_SAMPLE);
}

static size_t room_for(size_t n, size_t m) { return capacity_for(n, m) + DPTK_BLOCK; }

size_t dptk_cut_scratch(size_t n, size_t m) { return 3 * room_for(n, m); }

/* From here on only keys above tau may get in: a later equal of a held key loses the tie.
 * (Past the largest integer there is none to say so with: it is let in, in vain.) The next
 * compaction is when half as many as stay have come, which pay for it. */
static void raise_bound(cut *c, int64_t tau)
{
    const size_t enough = c->m + c->m / 2 + DPTK_CHUNK / 8;

    c->before = tau;
    c->bound = tau < INT64_MAX ? tau + 1 : tau;
    c->enough = enough < c->capacity ? enough : c->capacity;
    c->sampled = 0;
}

/* Whether the m-th largest is *tau: the bound, or what it was before it rose, as it often is of
 * narrow types and of counts. And how many that equal it belong to the m largest. */
static int bound_is_last(const cut *c, int64_t *tau, size_t *ties)
{
    enum { SOME = 64 };
    const int64_t *const keys = c->hits.keys, bound = c->sampled ? c->bound : c->before;
    const size_t held = c->hits.held;
    size_t above = 0, equal = 0;

    for (size_t i = 0; i < held && i < SOME; i++) equal += keys[i] == bound;
    if (equal == 0) return 0;
    equal = 0;
    for (size_t i = 0; i < held; i++) {
        above += keys[i] > bound;
        equal += keys[i] == bound;
    }
    *tau = bound;
    *ties = c->m - above;
    return above < c->m && c->m <= above + equal;
}

/* The m-th largest, and how many that equal it belong to the m largest. */
static int64_t mth(const cut *c, size_t *ties)
{
    int64_t tau;
    if (bound_is_last(c, &tau, ties)) return tau;
    return dptk_select(c->hits.keys, c->hits.held, c->m, c->work, ties);
}

/* Keep the m largest, the first ones among equals: at `to`, which may be where they are. */
static void compact(cut *c, int64_t tau, size_t ties, int64_t *keys_to, int64_t *index_to)
{
    const int64_t *const keys = c->hits.keys, *const index = c->hits.index;
    const size_t held = c->hits.held;
    size_t kept = 0, i = 0;

#if DPTK_X86
    if (dptk_simd_get() >= DPTK_SIMD_AVX512)
        kept = dptk_keep_avx512(keys, index, held, c->m, tau, keys_to, index_to, &i, &ties);
#endif
    for (; ties > 0; i++) { /* the last that stays of those equal to tau ends it */
        const int64_t key = keys[i];
        keys_to[kept] = key;
        index_to[kept] = index[i];
        kept += key >= tau;
        ties -= key == tau;
    }
    for (; i < held && kept < c->m; i++) {
        const int64_t key = keys[i];
        keys_to[kept] = key;
        index_to[kept] = index[i];
        kept += key > tau;
    }
    c->hits.held = kept;
    raise_bound(c, tau);
}

/* How many scores to sample: as many as cost no more than the candidates they save. */
static size_t sample_size(size_t bytes)
{
    size_t size = DPTK_FEW / 2;
    while (size < DPTK_SAMPLE && size * size < bytes / 2) size += size;
    return size;
}

/* The rank in a sample that seldom fewer than m of the column reach. */
static size_t sample_rank(size_t size, size_t m, size_t n)
{
    const double expected = (double)size * (double)m / (double)n;
    size_t rank = (size_t)expected + 2;

    for (size_t root = 1; (double)(root * root) <= 6.25 * expected; root++)
        rank++; /* two and a half standard deviations */
    return rank;
}

static dptk_filter_fn *filter_of(const cut *c, int type)
{
    const int largest = c->hits.watch ? DPTK_OF_LARGEST_WATCHED : DPTK_OF_LARGEST;
    return dptk_filter(type, c->flip ? DPTK_OF_LEAST : largest);
}

/* A closer bound from a larger sample, of which only what reaches the bound so far is looked
 * at, about `expected` scores of all: whole blocks, since they cost little more than one score
 * of each. Not if few blocks have most of it, since these say nothing of the others; or if
 * there are far more, which are ties. */
static void refine_bound(cut *c, const dptk_column *col, double expected)
{
    enum { PART = 32, LEAST = 128 };
    const size_t size = dptk_size(col->type);
    const size_t scores = DPTK_BLOCK / size > LEAST ? DPTK_BLOCK / size : LEAST;
    const size_t step = PART * scores | 1;
    dptk_filter_fn *const filter = filter_of(c, col->type);
    dptk_hits hits = {.keys = c->hits.keys, .index = c->hits.index};
    const double most = 3.0 * expected / PART;
    const size_t enough = most < (double)c->capacity ? (size_t)most : c->capacity;
    size_t blocks = 0, some = 0, ties;

    for (size_t at = 0; at + scores <= col->n && hits.held < enough; at += step) {
        const size_t held = hits.held;
        if (filter(col->data + at * size, scores, at, c->bound, enough, &hits) == 0) return;
        some += hits.held > held;
        blocks++;
    }
    const size_t rank = sample_rank(blocks * scores, c->m, col->n);
    if (hits.held < rank || hits.held >= enough) return;
    if (some * (blocks + hits.held) < hits.held * blocks) return;
    c->bound = dptk_select(hits.keys, hits.held, rank, c->work, &ties);
}

/* A first bound from every step-th score, low enough that seldom fewer than m of its
 * betters lie in the column (once more, with doubt: still less often), and not many more.
 * Without it an ascending column would pass through the buffer whole; it decides speed
 * only. */
static void sample_bound(cut *c, const dptk_column *col, int doubt)
{
    enum { LARGE = 1 << 16, MANY = 192, FAR = 512, FIRST = 1024 };
    const size_t n = col->n, most = sample_size(n * dptk_size(col->type));
    const int packed = col->stride == (ptrdiff_t)dptk_size(col->type);
    const int refined = n >= LARGE && c->m >= MANY && packed && !doubt;
    const size_t size = refined && most > FIRST ? FIRST : most;
    const size_t step = (n / size - 1) | 1; /* odd: tables have even row lengths */
    const dptk_column sample = {col->data, col->stride * (ptrdiff_t)step, size, col->type};
    size_t rank = sample_rank(size, c->m, n), ties;

    if (doubt) rank = 4 * rank < size ? 4 * rank : size;
    dptk_ordered_keys(&sample, c->flip, c->hits.keys);
    c->bound = size <= DPTK_FEW ? dptk_select_few(c->hits.keys, size, rank)
                                : dptk_select(c->hits.keys, size, rank, c->work, &ties);
    c->sampled = c->bound > INT64_MIN;
    c->enough = c->sampled ? c->m : c->capacity;
    if (refined && c->sampled) {
        refine_bound(c, col, (double)rank * (double)n / (double)size);
        if (c->m >= FAR && c->m <= 8 * FAR) c->enough = c->m / 4;
    }
}

/* A closer bound still, when a quarter is held, from the `read` scores that gave it: a far larger
 * sample. Not if they gave too many, as the first ones of a descending column do. */
static void tighten(cut *c, size_t read, size_t n)
{
    int64_t *const keys = c->hits.keys, *const index = c->hits.index;
    const size_t held = c->hits.held, rank = sample_rank(read, c->m, n);
    size_t ties, kept = 0;

    c->enough = c->m;
    if (rank >= held || (double)held * (double)n > 3.0 * (double)c->m * (double)read) return;
    c->bound = dptk_select(keys, held, rank, c->work, &ties);
    for (size_t i = 0; i < held; i++) {
        keys[kept] = keys[i];
        index[kept] = index[i];
        kept += keys[i] >= c->bound;
    }
    c->hits.held = kept;
}

/* Read packed scores; returns whether any later one can get in. */
static int read_packed(cut *c, const char *data, size_t n, size_t size, size_t first,
                       dptk_filter_fn *filter)
{
    for (size_t i = 0; i < n;) {
        const size_t read =
            filter(data + i * size, n - i, first + i, c->bound, c->enough, &c->hits);
        if (read == 0) return 0;
        i += read;
        if (c->hits.held >= c->enough && c->enough < c->m) tighten(c, i, n);
        if (c->hits.held >= c->enough && c->sampled) raise_bound(c, c->bound);
        if (c->hits.held >= c->enough && c->hits.held > c->m) {
            size_t ties;
            const int64_t tau = mth(c, &ties);
            compact(c, tau, ties, c->hits.keys, c->hits.index);
        }
    }
    return 1;
}

const char *dptk_packed_from(const dptk_column *col, size_t first, int64_t *buffer, size_t *count)
{
    const char *const at = col->data + (ptrdiff_t)first * col->stride;
    const size_t left = col->n - first;

    *count = left;
    if (col->stride == (ptrdiff_t)dptk_size(col->type)) return at;
    if (left > DPTK_CHUNK) *count = DPTK_CHUNK;
    dptk_take(&(dptk_column){at, col->stride, *count, col->type}, NULL, *count, buffer);
    return (const char *)buffer;
}

static void read_column(cut *c, const dptk_column *col)
{
    const size_t size = dptk_size(col->type);
    dptk_filter_fn *const filter = filter_of(c, col->type);
    int64_t buffer[DPTK_CHUNK];

    c->hits.held = 0;
    for (size_t first = 0, count; first < col->n; first += count) {
        const char *const data = dptk_packed_from(col, first, buffer, &count);
        if (!read_packed(c, data, count, size, first, filter)) return;
    }
}

/* The m best of what is held. */
static void take(cut *c, int sorted, int64_t *keys, int64_t *index)
{
    dptk_hits *const hits = &c->hits;
    size_t ties;
    int64_t tau;

    if (hits->held > DPTK_FEW && hits->held > c->m) {
        tau = mth(c, &ties);
        sorted &= ties < c->m; /* if all are equal they are in order */
        compact(c, tau, ties, sorted ? hits->keys : keys, sorted ? hits->index : index);
        if (!sorted) return;
    } else if (sorted && hits->held > DPTK_FEW) {
        sorted = !(bound_is_last(c, &tau, &ties) && ties == c->m);
    }
    if (hits->held <= DPTK_FEW) {
        dptk_take_few(hits->keys, hits->index, hits->held, c->m, sorted, keys, index);
    } else if (sorted) {
        sort_hits(hits->keys, hits->index, c->m, keys, index);
    } else {
        memcpy(keys, hits->keys, c->m * sizeof *keys);
        memcpy(index, hits->index, c->m * sizeof *index);
    }
}

/* Whether keys have what is watched for, by the least and the largest. */
static int is_watched(int type, int64_t least, int64_t most)
{
    if (type == DPTK_U64) return 0;
    if (type < DPTK_U64) return least < 0;
    if (type == DPTK_F16) return most >= DPTK_HALF_INF || least <= -DPTK_HALF_INF;
    return most >= DPTK_DOUBLE_INF || least <= ~DPTK_DOUBLE_INF;
}

static int cut_few(const dptk_column *col, size_t m, int order, int64_t *keys, int64_t *index,
                   int *watched)
{
    int64_t all[DPTK_FEW] = {0};

    if (dptk_ordered_keys(col, order & DPTK_LEAST ? -1 : 0, all) == DPTK_NAN
        && !(order & DPTK_NAN_LAST))
        return DPTK_NAN;
    if (watched) {
        int64_t least, most;
        range_of(all, col->n, &least, &most);
        *watched = is_watched(col->type, least, most);
    }
    dptk_take_few(all, NULL, col->n, m, !(order & DPTK_UNSORTED), keys, index);
    return DPTK_OK;
}

/* The first of not too many. */
enum { ONE = 512 };

static int cut_one(const dptk_column *col, int order, int64_t *keys, int64_t *index, int *watched)
{
    int64_t all[ONE], least, most;
    int64_t i = 0;

    if (dptk_ordered_keys(col, order & DPTK_LEAST ? -1 : 0, all) == DPTK_NAN
        && !(order & DPTK_NAN_LAST))
        return DPTK_NAN;
    range_of(all, col->n, &least, &most);
    while (all[i] != most) i++;
    if (watched) *watched = is_watched(col->type, least, most);
    keys[0] = most;
    index[0] = i;
    return DPTK_OK;
}

static int cut_many(const dptk_column *col, size_t m, int order, int64_t *scratch, int64_t *keys,
                    int64_t *index, int *watched)
{
    const size_t room = room_for(col->n, m), capacity = capacity_for(col->n, m);
    cut c = {.hits = {.keys = scratch, .index = scratch + room, .watch = watched != NULL},
             .m = m,
             .capacity = capacity,
             .enough = capacity,
             .bound = INT64_MIN,
             .before = INT64_MIN,
             .flip = order & DPTK_LEAST ? -1 : 0,
             .work = scratch + 2 * room};

    const int sampled = col->n / 4 >= m;

    for (int doubt = 0; doubt < 2 && sampled && c.hits.held < m; doubt++) {
        sample_bound(&c, col, doubt); /* it may be unlucky */
        read_column(&c, col);
    }
    if (c.hits.held < m) { /* or made to deceive */
        c.bound = INT64_MIN;
        c.enough = capacity;
        c.sampled = 0;
        read_column(&c, col);
    }
    if (c.hits.nan && !(order & DPTK_NAN_LAST)) return DPTK_NAN;
    take(&c, !(order & DPTK_UNSORTED), keys, index);
    if (watched) *watched = c.hits.watched;
    return DPTK_OK;
}

int dptk_cut(const dptk_column *col, size_t m, int order, int64_t *scratch, int64_t *keys,
             int64_t *index, int *watched)
{
    if (m == 1 && col->n <= ONE) return cut_one(col, order, keys, index, watched);
    if (col->n <= DPTK_FEW) return cut_few(col, m, order, keys, index, watched);

    const uint64_t state = dptk_float_begin();
    const int status = cut_many(col, m, order, scratch, keys, index, watched);
    dptk_float_end(state);
    return status;
}

/* ---- all above ------------------------------------------------------------ */

size_t dptk_part_room(size_t capacity) { return capacity + DPTK_BLOCK; }

static int part(const dptk_column *col, int64_t key, size_t capacity, int64_t *keys, int64_t *index,
                size_t *held)
{
    const size_t size = dptk_size(col->type);
    const int real = col->type >= DPTK_F16;
    dptk_filter_fn *const filter =
        dptk_filter(col->type, real ? DPTK_OF_LARGEST_WATCHED : DPTK_OF_LARGEST);
    dptk_hits hits = {.keys = keys, .index = index, .watch = real};
    int64_t buffer[DPTK_CHUNK];

    for (size_t first = 0, count; first < col->n && hits.held < capacity; first += count) {
        const char *const data = dptk_packed_from(col, first, buffer, &count);
        for (size_t i = 0, read = 1; i < count && read > 0 && hits.held < capacity; i += read)
            read = filter(data + i * size, count - i, first + i, key + 1, capacity, &hits);
    }
    *held = hits.held;
    return hits.nan || hits.watched ? DPTK_NAN : hits.held < capacity ? DPTK_OK : DPTK_SCRATCH;
}

int dptk_part(const dptk_column *col, int64_t key, size_t capacity, int64_t *keys, int64_t *index,
              size_t *held)
{
    const uint64_t state = dptk_float_begin();
    const int status = part(col, key, capacity, keys, index, held);
    dptk_float_end(state);
    return status;
}

/* ---- counts of counts ---------------------------------------------------- */

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

/* By SIMD level: all give the same bits. */
static dptk_tally_fn *const tallies[] = {
    dptk_tally_portable,
#if DPTK_X86
    dptk_tally_avx2,
    dptk_tally_avx512,
#elif DPTK_NEON
    dptk_tally_neon,
#endif
};

int dptk_count_keys(const dptk_column *col, size_t span, int64_t *scratch, int64_t *table,
                    int16_t *copy)
{
    enum { BATCH = 1 << 30 }; /* elements before a 32-bit counter could wrap */
    dptk_tally_fn *const fast = tallies[dptk_simd_get()];
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
