/* Integer noise against the same in long doubles, to the same next word. */
#include "fuzz.h"

static int64_t geometric(plain *p, long double scale)
{
    return (int64_t)floorl(exponential_of(plain_word(p), 0.5L) * scale);
}

static int64_t variate(plain *p, double scale, int noise)
{
    const long double t = noise == DPTK_DISCRETE_GAUSSIAN ? floorl(scale) + 1.0L : scale;
    for (;;) {
        const int64_t up = geometric(p, t), y = up - geometric(p, t);
        if (noise == DPTK_DISCRETE_LAPLACE || p->ended) return y;
        const long double e = exponential_of(plain_word(p), 0.5L);
        const long double z = fabsl((long double)y) / scale - scale / t;
        if (e > 0.5L * z * z) return y;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    const int noise = (int)(number(&in, 1) % 2);
    const double whole = 1.0 + (double)number(&in, 6) * 0x1p-48;
    const double scale = ldexp(whole, (int)(number(&in, 1) % 100) - 50);
    const double factor = ldexp(1.0, number(&in, 1) % 2 ? (int)(number(&in, 1) % 64) : 0);
    const size_t n = number(&in, 1), n_words = number(&in, 2) % 2048;
    uint64_t *words = tape(&in, n_words);
    int64_t *out = room(n * 8);
    plain p = {words, words + n_words, 0};
    dptk_rng rng;
    dptk_tape_init(&rng, words, n_words);
    const int status = dptk_discrete(&rng, n, scale, noise, factor, out);
    CHECK(status == DPTK_OK || status == DPTK_UNDECIDED
          || (status == DPTK_TAPE_END && rng.next == rng.end));
    for (size_t i = 0; status == DPTK_OK && i < n; i++) {
        CHECK(out[i] == variate(&p, scale, noise) && !p.ended);
        CHECK(out[i] < INT64_C(1) << 54 && out[i] > -(INT64_C(1) << 54));
    }
    if (status == DPTK_OK) CHECK(rng.next == p.next);
    free(words), free(out);
    return 0;
}
