/* Tests against a noisy threshold, against the same in long doubles: a word a query, stopped at
 * the last hit; in two parts as in one. */
#include "fuzz.h"

static long double laplace(uint64_t word, double scale)
{
    const long double size = scale * exponential_of(word & ~UINT64_C(1), 1.0L);
    return word & 1 ? -size : size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    const int real = (int)(number(&in, 1) % 2), ordinary = (int)(number(&in, 1) % 2);
    const size_t n = number(&in, 1) % 200, hits = number(&in, 1) % 16, n_words = number(&in, 1);
    const double factor = ldexp(1.0, (int)(number(&in, 1) % 64));
    dptk_tests tests = {.above = (int)(number(&in, 1) % 2)};
    tests.query_scale = ordinary ? 1.0 + (double)number(&in, 1) : scale_of(&in);
    tests.threshold_scale = number(&in, 1) % 2 ? 0.0 : scale_of(&in);
    tests.threshold_word = number(&in, 8);
    tests.base = real ? 0 : (int64_t)number(&in, 8);
    tests.offset = (double)(int64_t)number(&in, 2) / 64.0;
    uint64_t *words = tape(&in, n_words);
    int64_t *integer = room(n * 8);
    double *doubles = room(n * 8);
    uint8_t *hit = room(n), *again = room(n);
    fill(&in, integer, n, real);
    if (n) memcpy(doubles, integer, n * 8);
    tests.integer = integer;
    tests.real = real ? doubles : NULL;
    for (int wide = 0; wide < 2; wide++) {
        dptk_rng rng;
        size_t tested = 0, parts = 0, found = 0;
        dptk_tape_init(&rng, words, n_words);
        const int status =
            dptk_sparse_vector(&rng, &tests, n, hits, wide ? factor : 1.0, &tested, hit);
        CHECK(status == DPTK_OK || status == DPTK_UNDECIDED
              || (status == DPTK_TAPE_END && tested == n_words));
        CHECK(rng.next == words + tested && tested <= n);
        const long double shift = laplace(tests.threshold_word, tests.threshold_scale);
        for (size_t i = 0; i < tested; i++) {
            const long double drop =
                real ? tests.offset - (long double)doubles[i]
                     : (long double)((__int128)tests.base - integer[i]) + tests.offset;
            CHECK(found < hits);
            CHECK(hit[i] == ((laplace(words[i], tests.query_scale) > drop + shift) == tests.above));
            found += hit[i];
        }
        if (status == DPTK_OK) CHECK(tested == n || found == hits);
        found = 0;
        dptk_tape_init(&rng, words, n_words);
        CHECK(dptk_sparse_vector(&rng, &tests, tested / 2, hits, 1.0, &parts, again) == DPTK_OK);
        for (size_t i = 0; i < parts; i++) found += again[i];
        if (found < hits || !hits) {
            CHECK(parts == tested / 2);
            dptk_sparse_vector(&rng, &tests, tested, hits - found, 1.0, &parts, again);
        }
        CHECK(parts == tested && same(hit, again, tested));
    }
    free(words), free(integer), free(doubles), free(hit), free(again);
    return 0;
}
