/* Uniform subsets against the same by a plain search, to the same next word. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    const size_t m_of = number(&in, 1), n_words = number(&in, 2) % 1024;
    const uint64_t n = m_of + number(&in, 1 + number(&in, 1) % 6);
    const int64_t first = (int64_t)number(&in, 6);
    const size_t m = m_of;
    uint64_t *words = tape(&in, n_words);
    int64_t *scratch = room(dptk_subset_scratch(m) * 8), *rank = room(m * 8), *right = room(m * 8);
    plain p = {words, words + n_words, 0};
    dptk_rng rng;
    dptk_tape_init(&rng, words, n_words);
    plain_subset(&p, first, n, m, right);
    const int status = dptk_subset(&rng, first, n, m, scratch, rank);
    CHECK(status == (p.ended ? DPTK_TAPE_END : DPTK_OK));
    CHECK(rng.next == p.next);
    if (status == DPTK_OK) {
        CHECK(same(rank, right, m * 8));
        for (size_t i = 0; i < m; i++) rank[i] -= first;
        check_distinct(rank, m, n);
    }
    free(words), free(scratch), free(rank), free(right);
    return 0;
}
