/* From ranks to items: each rank's score, the head's own item, the order itself where a group is
 * small, and no item twice. */
#include "fuzz.h"

enum { RARE = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    const size_t n = 1 + number(&in, 2) % (number(&in, 1) % 4 ? 400 : 20000);
    const size_t m = 1 + number(&in, 2) % n, k_of = 1 + number(&in, 1) % 40,
                 k = k_of < n ? k_of : n;
    const size_t n_words = number(&in, 2) % 8192, apart = 1 + number(&in, 2);
    uint64_t *words = tape(&in, n_words);
    int64_t *score = room(n * 8), *key = room(n * 8), *order = room(n * 8);
    int64_t *group = room(n * 8), *end = room(n * 8), *rank = room(k * 8), *item = room(k * 8);
    int64_t *scratch = room((dptk_cut_scratch(n, n) + dptk_items_scratch(k)) * 8);
    dptk_groups groups = {group, end, 0, 0};
    const dptk_column col = {(const char *)score, 8, n, DPTK_I64};
    plain p = {words, words + n_words, 0};
    dptk_rng rng;
    fill(&in, score, n, 0);
    for (size_t i = 0; i < n; i += apart) score[i] = (int64_t)i; /* groups of one */
    CHECK(dptk_cut(&col, n, 0, scratch, key, order, NULL) == DPTK_OK);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || key[i] != key[i - 1]) group[groups.n++] = key[i];
        end[groups.n - 1] = (int64_t)i + 1;
    }
    plain_subset(&p, 0, n, k, rank);
    if (!p.ended) {
        dptk_tape_init(&rng, p.next, (size_t)(p.end - p.next));
        const int status = dptk_items(&rng, rank, &groups, order, m, &col, k, scratch, item);
        CHECK(status == DPTK_OK || (status == DPTK_TAPE_END && rng.next == rng.end));
        if (status == DPTK_OK) check_distinct(item, k, n);
        for (size_t i = 0; status == DPTK_OK && i < k; i++) {
            const size_t at = (size_t)rank[i];
            size_t g = 0;
            while (end[g] <= rank[i]) g++;
            const size_t start = g ? (size_t)end[g - 1] : 0;
            CHECK(score[item[i]] == key[at]);
            if (at < m || ((size_t)end[g] - start) < n / RARE)
                CHECK(item[i] == order[at]);
            else
                for (size_t j = start; j < m && j < (size_t)end[g]; j++) CHECK(item[i] != order[j]);
        }
    }
    free(words), free(score), free(key), free(order), free(group), free(end), free(rank);
    free(item), free(scratch);
    return 0;
}
