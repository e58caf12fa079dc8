/* The joint mechanism: an envelope that covers all losses and is nowhere below the weight in long
 * doubles; ranks that are distinct and there, whatever the level and the error bounds. */
#include "naive.h"

enum { GROUPS = 12, K = 16, DRAWS = 3 };

/* log N(tau): items within tau of rank i for each i, counted plainly. */
static long double log_sets(const dptk_groups *groups, size_t k, int sequence, long double tau)
{
    int64_t bound[K];
    long double sum = 0.0L;
    for (size_t i = 0; i < k; i++) {
        size_t own = 0, within;
        while ((size_t)groups->end[own] <= i) own++;
        for (within = own; within + 1 < groups->n; within++)
            if (drop_of(groups, own, within + 1) > tau) break;
        bound[i] = groups->end[within] - 1;
        sum += logl((long double)(bound[i] + 1 - (int64_t)i));
        if (!sequence) bound[i] -= (int64_t)i;
    }
    if (sequence) return sum;
    for (size_t i = k - 1; i > 0; i--)
        if (bound[i - 1] > bound[i]) bound[i - 1] = bound[i];
    return naive_log_paths(bound, k);
}

static void check_envelope(const dptk_groups *groups, size_t k, double scale, int sequence,
                           const dptk_joint_block *block, size_t blocks, double unit)
{
    double covered = 0.0;
    uint64_t total = 0;
    size_t last = 0;
    for (size_t found = 0; found < blocks; found++) { /* from each to the one it ends at */
        size_t at = 0;
        while (at < blocks && block[at].start != covered) at++;
        CHECK(at < blocks && block[at].width > 0.0);
        covered += block[at].width;
        last = at;
    }
    CHECK(block[last].width == INFINITY);
    for (size_t at = 0; at < blocks; at++) {
        const dptk_joint_block *b = &block[at];
        const long double end =
            b->width < INFINITY && !groups->real ? b->start + b->width - 1.0L : b->start + b->width;
        const long double mass =
            -(long double)b->start / scale + logl(-expm1l(-b->width / (long double)scale));
        const long double log_weight = logl((long double)b->weight) - 52.0L * logl(2.0L) + unit;
        const long double log_right = log_sets(groups, k, sequence, end) + mass;
        CHECK(total + b->weight > total);
        total += b->weight;
        /* Of weights that are next to nothing sums of logarithms say less. */
        CHECK(log_weight >= log_right - 0x1p-45L * (fabsl(log_right) + fabsl(mass) + fabs(unit)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    const int sequence = (int)(number(&in, 1) % 2);
    const double scale = number(&in, 1) % 4 ? 0.5 + (double)number(&in, 1) : scale_of(&in);
    const double factor = ldexp(1.0, (int)(number(&in, 1) % 48));
    const size_t n_words = number(&in, 2) % 1024, k_of = 1 + number(&in, 1) % K;
    uint64_t *words = tape(&in, n_words);
    int64_t key[GROUPS], end[GROUPS], rank[K], first[DRAWS][K];
    const dptk_groups groups = groups_of(&in, key, end, GROUPS);
    const uint64_t items = (uint64_t)end[groups.n - 1];
    const size_t k = k_of < items ? k_of : (size_t)items;
    int64_t *scratch = room(dptk_joint_scratch(k, sequence) * 8);
    dptk_joint_block *block = room(DPTK_JOINT_BLOCKS * sizeof *block);
    int before[DRAWS] = {0};
    for (int level = 0; level <= dptk_simd_best(); level++) {
        size_t blocks = 0;
        double unit;
        dptk_simd_set(level);
        const int ready =
            dptk_joint_envelope(&groups, k, scale, sequence, NULL, scratch, block, &blocks, &unit);
        CHECK(ready == DPTK_OK || ready == DPTK_UNDECIDED);
        if (ready != DPTK_OK) break;
        CHECK(blocks >= 1 && blocks <= DPTK_JOINT_BLOCKS);
        if (level == 0) check_envelope(&groups, k, scale, sequence, block, blocks, unit);
        dptk_rng rng, other;
        dptk_tape_init(&rng, words, n_words);
        for (int draw = 0; draw < DRAWS; draw++) {
            other = rng;
            const int status = dptk_joint(&rng, &groups, k, scale, sequence, 1.0, block, blocks,
                                          unit, NULL, scratch, rank);
            CHECK(status == DPTK_OK || status == DPTK_UNDECIDED
                  || (status == DPTK_TAPE_END && rng.next == rng.end));
            CHECK(level == 0 || status == before[draw]);
            before[draw] = status;
            if (status != DPTK_OK) break;
            check_distinct(rank, k, items);
            CHECK(level == 0 || same(rank, first[draw], k * 8));
            memcpy(first[draw], rank, k * 8);
            if (dptk_joint(&other, &groups, k, scale, sequence, factor, block, blocks, unit, NULL,
                           scratch, rank)
                == DPTK_OK)
                CHECK(same(rank, first[draw], k * 8) && other.next == rng.next);
        }
    }
    free(words), free(scratch), free(block);
    return 0;
}
