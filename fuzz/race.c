/* The race, the race with fresh noise and the sweep: picks that are distinct and there, the words
 * and the memory given and no more, the bounds of values in order, a watch that is heard. */
#include "fuzz.h"

typedef struct counter {
    size_t asked, stop;
} counter;

static int stop(void *state)
{
    counter *c = state;
    return ++c->asked > c->stop;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    const int real = (int)number(&in, 1) % 2, noise = (int)(number(&in, 1) % 5);
    const int how = (int)(number(&in, 1) % 4), stopper = (int)(number(&in, 1) % 3);
    const double scale = ldexp(1.0 + (double)number(&in, 1), (int)(number(&in, 2) % 1400) - 700);
    const double factor = ldexp(1.0, (int)(number(&in, 1) % 30));
    const size_t n_words = number(&in, 2) % 4096, n = 1 + number(&in, 2) % 2000;
    const size_t head = 1 + number(&in, 2) % n, wanted = 1 + number(&in, 2) % n;
    counter c = {0, number(&in, 1)};
    const dptk_watch watch = {stop, &c};
    double floor_ = (double)(int64_t)number(&in, 2) / 256.0 - 100.0;
    uint64_t *words = tape(&in, n_words);
    int64_t *scores = room(n * 8), *key = room(n * 8), *index = room(n * 8);
    fill(&in, scores, n, real);
    const dptk_column col = {(const char *)scores, 8, n, real ? DPTK_F64 : DPTK_I64};
    int64_t *cutting = room(dptk_cut_scratch(n, n) * 8);
    CHECK(dptk_cut(&col, head, 0, cutting, key, index, NULL) == DPTK_OK);
    dptk_field field = {.key = key, .index = index, .m = head, .real = real};
    if (head < n) field.tail = &col;
    if (how == 0) {
        field.stop = stopper;
        field.stop_key = key[head / 2];
    }
    const size_t most = n + (field.stop != 0), k = wanted < most ? wanted : most;
    size_t capacity = 256, picked = k;
    int64_t *item = room(k * 8), *left = room(2 * head * 8);
    double *value = room(2 * k * sizeof *value);
    int status = DPTK_SCRATCH;
    dptk_rng rng;
    while (status == DPTK_SCRATCH) {
        CHECK(capacity <= 1 << 20);
        while (how == 1 && capacity < k) capacity *= 2;
        dptk_race_scratch scratch = {.block = room(capacity * sizeof(dptk_block)),
                                     .runner = room(capacity * sizeof(dptk_runner)),
                                     .position = room(head * 4),
                                     .mark = room(2 * capacity * sizeof(dptk_mark)),
                                     .gone = room(2 * capacity * sizeof(dptk_mark)),
                                     .sort = room(4 * capacity * 8),
                                     .seen = room((n + 63) / 64 * 8),
                                     .capacity = capacity,
                                     .watch = &watch};
        dptk_tape_init(&rng, words, n_words);
        if (how == 0)
            status =
                dptk_race(&rng, &field, k, scale, noise, factor, &scratch, item, value, &picked);
        else if (how == 1)
            status = dptk_race_afresh(&rng, &field, k, scale, noise, factor, &scratch, left, item);
        else
            status = dptk_sweep(&rng, &field, k, scale, noise, factor, floor_, &scratch, item);
        free(scratch.block), free(scratch.runner), free(scratch.position), free(scratch.mark);
        free(scratch.gone), free(scratch.sort), free(scratch.seen);
        capacity *= 2;
    }
    CHECK(rng.next >= words && rng.next <= words + n_words);
    CHECK(status != DPTK_NAN && status != DPTK_CHANGED);
    CHECK((status == DPTK_STOPPED) == (c.asked > c.stop));
    if (status == DPTK_TAPE_END) CHECK(rng.next == rng.end);
    if (status == DPTK_OK) {
        char *seen = room(n);
        memset(seen, 0, n);
        CHECK(picked >= 1 && picked <= k);
        for (size_t i = 0; i < picked; i++) {
            if (item[i] == DPTK_STOP) {
                CHECK(field.stop && i + 1 == picked);
                continue;
            }
            CHECK(item[i] >= 0 && (size_t)item[i] < n && !seen[item[i]]);
            seen[item[i]] = 1;
            if (how == 0) CHECK(value[2 * i] <= value[2 * i + 1]);
            if (how == 0 && i > 0) CHECK(value[2 * i] < value[2 * i - 1]);
        }
        free(seen);
    }
    free(words), free(scores), free(key), free(index), free(cutting), free(item), free(left);
    free(value);
    return 0;
}
