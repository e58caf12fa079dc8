/* The inverse-sensitivity mechanism: an envelope that has each row and group once and is nowhere
 * below the weight; and draws from it in long doubles, to the same ranks and the same next word. */
#include "naive.h"

enum { GROUPS = 12, K = 16 };

/* The group of a rank. */
static size_t group_of(const dptk_groups *groups, int64_t rank)
{
    size_t g = 0;
    while (groups->end[g] <= rank) g++;
    return g;
}

/* From the first group's score on, what the block's thresholds are within: no bound at the end. */
static long double width_of(const dptk_groups *groups, const dptk_canonical_block *b)
{
    if ((size_t)b->last + 1 == groups->n) return INFINITY;
    return drop_of(groups, (size_t)b->first, (size_t)b->last + 1);
}

/* The logarithm of a block: as if all thresholds let in what those of the last group do. */
static long double log_block(const dptk_groups *groups, size_t k, double scale,
                             const dptk_canonical_block *b)
{
    const size_t row = (size_t)b->row;
    if (row == k) return 0.0L;
    const size_t own = group_of(groups, b->row);
    const int64_t among = groups->end[b->last] - b->row - 1;
    const long double sets = ways((long double)(among - (int64_t)(k - row) + 1), k - row);
    return logl(sets) - drop_of(groups, own, (size_t)b->first) / scale
         + logl(-expm1l(-width_of(groups, b) / scale));
}

static void check_envelope(const dptk_groups *groups, size_t k, double scale,
                           const dptk_canonical_block *block, size_t blocks, double unit)
{
    const uint64_t items = (uint64_t)groups->end[groups->n - 1];
    const size_t own = k < items ? group_of(groups, (int64_t)k) : groups->n;
    int times[K + 1][GROUPS] = {{0}}, whole = 0;
    uint64_t total = 0;
    for (size_t at = 0; at < blocks; at++) {
        const dptk_canonical_block *b = &block[at];
        const long double log_right = log_block(groups, k, scale, b);
        const long double log_weight = logl((long double)b->weight) - 60.0L * logl(2.0L) + unit;
        CHECK(log_weight >= log_right - 0x1p-45L * (fabsl(log_right) + fabs(unit)));
        CHECK(total + b->weight > total);
        total += b->weight;
        whole += (size_t)b->row == k;
        for (int64_t g = b->first; (size_t)b->row < k && g <= b->last; g++) times[b->row][g]++;
    }
    CHECK(whole == 1);
    for (size_t h = 0; h < k; h++)
        for (size_t g = 0; g < groups->n; g++) CHECK(times[h][g] == (g >= own));
}

/* A draw, plainly. */
static void draw(plain *p, const dptk_groups *groups, size_t k, double scale,
                 const dptk_canonical_block *block, size_t blocks, double unit, int64_t *rank)
{
    uint64_t total = 0;
    for (size_t i = 0; i < blocks; i++) total += block[i].weight;
    while (!p->ended) {
        const dptk_canonical_block *b = block;
        uint64_t at = plain_below(p, total);
        while (at >= b->weight) at -= (b++)->weight;
        const long double price = logl((long double)b->weight) - 60.0L * logl(2.0L) + unit
                                - log_block(groups, k, scale, b);
        if (exponential_of(plain_word(p), 0.5L) <= price) continue;
        const size_t h = (size_t)b->row;
        int64_t last = 0;
        for (size_t i = 0; i < h; i++) rank[i] = (int64_t)i;
        if (h == k) return;
        plain_subset(p, b->row + 1, (uint64_t)(groups->end[b->last] - b->row - 1), k - h, rank + h);
        if (p->ended) return;
        for (size_t i = h; i < k; i++)
            if (rank[i] > last) last = rank[i];
        const size_t g = group_of(groups, last);
        if (g <= (size_t)b->first) return;
        const long double drop = drop_of(groups, (size_t)b->first, g);
        const long double width = width_of(groups, b);
        const long double out = expm1l(-drop / scale) / expm1l(-width / scale);
        if (((long double)plain_word(p) + 0.5L) * 0x1p-64L
            > (width / scale < 0x1p-70L ? drop / width : out))
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    const double scale = number(&in, 1) % 4 ? 0.5 + (double)number(&in, 1) : scale_of(&in);
    const double factor = ldexp(1.0, number(&in, 1) % 2 ? (int)(number(&in, 1) % 48) : 0);
    const size_t n_words = number(&in, 2) % 1024, k_of = 1 + number(&in, 1) % K;
    uint64_t *words = tape(&in, n_words);
    int64_t key[GROUPS], end[GROUPS], rank[K], right[K];
    const dptk_groups groups = groups_of(&in, key, end, GROUPS);
    const uint64_t items = (uint64_t)end[groups.n - 1];
    const size_t k = k_of < items ? k_of : (size_t)items;
    int64_t *scratch = room(dptk_canonical_scratch(k) * 8);
    dptk_canonical_block *block = room(dptk_canonical_blocks(k) * sizeof *block);
    size_t blocks = 0;
    double unit;
    plain p = {words, words + n_words, 0};
    dptk_rng rng;
    dptk_canonical_envelope(&groups, k, scale, scratch, block, &blocks, &unit);
    CHECK(blocks >= 1 && blocks <= dptk_canonical_blocks(k));
    check_envelope(&groups, k, scale, block, blocks, unit);
    dptk_tape_init(&rng, words, n_words);
    for (int status = DPTK_OK; status == DPTK_OK;) {
        const uint64_t *word = rng.next;
        status =
            dptk_canonical(&rng, &groups, k, scale, factor, block, blocks, unit, scratch, rank);
        CHECK(status == DPTK_OK || status == DPTK_UNDECIDED
              || (status == DPTK_TAPE_END && rng.next == rng.end));
        if (status != DPTK_OK) break;
        draw(&p, &groups, k, scale, block, blocks, unit, right);
        CHECK(!p.ended && p.next == rng.next && rng.next > word);
        check_distinct(rank, k, items);
        CHECK(same(rank, right, k * 8));
    }
    free(words), free(scratch), free(block);
    return 0;
}
