/* kernels.c - what the kernels give on fixed tapes, a line a case: to be compared between
 * machines, compilers and levels (the argument; there must be one such). A case that doubles can't decide prints "?": a libm that
 * rounds otherwise may decide others. */
#include "dptk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

/* splitmix64 */
static uint64_t word(void)
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void *room(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) abort();
    return memory;
}

/* FNV-1a */
static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) h = (h ^ at[i]) * 0x100000001B3u;
    return h;
}

static void print(const char *what, int which, size_t number, int status, uint64_t h)
{
    printf("%s %d %zu ", what, which, number);
    if (status == DPTK_UNDECIDED)
        printf("?\n");
    else
        printf("%d %016" PRIx64 "\n", status, h);
}

enum { WORDS = 1 << 16, MOST = 9000 };
static uint64_t words[WORDS];
static char scores[8 * MOST];

static void fill_words(size_t seed)
{
    state = seed;
    for (size_t i = 0; i < WORDS; i++) words[i] = word();
}

/* Scores of a type: few or many distinct, of either sign, a few of them far away. */
static dptk_column column(int type, size_t n, size_t shape)
{
    static const uint64_t spreads[] = {3, 200, 1u << 20};
    const uint64_t spread = spreads[shape % 3];
    for (size_t i = 0; i < n; i++) {
        const uint64_t drawn = word() % spread;
        const int64_t value = (int64_t)drawn - (int64_t)(shape % 2 * spread / 2);
        const double real = (double)value * 0.37;
        const float narrow = (float)real;
        const int16_t half = (int16_t)(word() % 0x7C00 ^ (word() & 1) << 15);
        char *at = scores + i * dptk_size(type);
        if (type == DPTK_F64) memcpy(at, &real, 8);
        else if (type == DPTK_F32) memcpy(at, &narrow, 4);
        else if (type == DPTK_F16) memcpy(at, &half, 2);
        else if (dptk_size(type) == 8) memcpy(at, &value, 8);
        else if (dptk_size(type) == 4) memcpy(at, &(int32_t){(int32_t)value}, 4);
        else if (dptk_size(type) == 2) memcpy(at, &(int16_t){(int16_t)value}, 2);
        else memcpy(at, &(int8_t){(int8_t)value}, 1);
    }
    return (dptk_column){
        .data = scores, .stride = (ptrdiff_t)dptk_size(type), .n = n, .type = type};
}

static void cuts(void)
{
    static const size_t sizes[] = {1, 40, 1000, 2500, MOST};
    static int64_t keys[MOST], index[MOST];
    for (int type = DPTK_I8; type <= DPTK_F64; type++) {
        for (size_t c = 0; c < 30; c++) {
            const size_t n = sizes[c % 5], m = c % 2 ? n : 1 + n / 30;
            const int order = (int)(c % 8);
            const dptk_column col = column(type, n, c);
            int64_t *scratch = room(8 * dptk_cut_scratch(n, m));
            int status = dptk_cut(&col, m, order, scratch, keys, index, NULL);
            print("cut", type, c, status, hash(hash(1, keys, 8 * m), index, 8 * m));
            free(scratch);
            status = dptk_keys(&col, 0, n, keys);
            print("keys", type, c, status, hash(1, keys, 8 * n));
        }
    }
}

/* Small counts, of which few are large; with a copy none is negative. */
static void tallies(void)
{
    static const size_t spans[] = {5, 16, 40, 300};
    static const uint64_t mosts[] = {4, 40, 400, UINT64_C(1) << 40};
    static int64_t keys[MOST], table[300];
    static int16_t copy[MOST];
    for (size_t c = 0; c < 32; c++) {
        const size_t span = spans[c % 4], n = c % 3 ? MOST : 1 + word() % 100;
        const int copied = c % 2;
        const dptk_column col = {(const char *)keys, sizeof *keys, n, DPTK_I64};
        int64_t *scratch = room(8 * dptk_count_keys_scratch(span));
        for (size_t i = 0; i < n; i++) {
            const uint64_t most = word() % 8 ? 4 : mosts[c / 8];
            keys[i] = (int64_t)(word() % most) - !copied * (word() % 50 == 0) * 10;
        }
        memset(copy, 0, sizeof copy);
        const int status = dptk_count_keys(&col, span, scratch, table, copied ? copy : NULL);
        print("tally", (int)span, c, status, hash(hash(1, table, 8 * span), copy, sizeof copy));
        free(scratch);
    }
}

enum { CAPACITY = 1 << 14 };
static dptk_block blocks[CAPACITY];
static dptk_runner runners[CAPACITY];
static dptk_mark marks[2 * CAPACITY], gone[2 * CAPACITY];
static uint32_t positions[MOST];
static int64_t sort[4 * CAPACITY];
static uint64_t seen[MOST / 64 + 1];

static void races(void)
{
    static int64_t keys[MOST], index[MOST], left[2 * MOST], item[MOST];
    static const double scales[] = {0.01, 1.0, 30.0, 1e6};
    dptk_race_scratch scratch = {.block = blocks,
                                 .runner = runners,
                                 .position = positions,
                                 .mark = marks,
                                 .gone = gone,
                                 .sort = sort,
                                 .seen = seen,
                                 .capacity = CAPACITY};
    for (int noise = DPTK_GUMBEL; noise <= DPTK_UNIFORM; noise++) {
        for (size_t c = 0; c < 60; c++) {
            const size_t n = 1 + word() % 3000, m = c % 3 ? n : 1 + n / 10;
            const size_t k = 1 + word() % (n < 60 ? n : 60);
            const int type = c % 4 == 3 ? DPTK_F64 : c % 4 == 2 ? DPTK_U16 : DPTK_I64;
            const double scale = scales[word() % 4];
            const dptk_column col = column(type, n, c);
            int64_t *space = room(8 * dptk_cut_scratch(n, m));
            dptk_field field = {
                .key = keys, .index = index, .m = m, .real = type == DPTK_F64, .tail = &col};
            int64_t start[] = {0, (int64_t)m}, place[] = {0, (int64_t)k};
            dptk_rows rows = {.key = keys,
                              .index = index,
                              .start = start,
                              .place = place,
                              .tail = &col,
                              .n = 1,
                              .real = field.real};
            size_t picked = 0, done = 0;
            dptk_rng rng;
            int status;
            if (dptk_cut(&col, m, 0, space, keys, index, NULL) != DPTK_OK) abort();
            free(space);
            fill_words(1000 * (size_t)noise + c);
            dptk_tape_init(&rng, words, WORDS);
            status = dptk_race_rows(&rng, &rows, 4, scale, noise, 1.0, &scratch, item, &done);
            print("rows", noise, c, status, hash(done, item, 8 * done * k));
            dptk_tape_init(&rng, words, WORDS);
            status = dptk_race_afresh(&rng, &field, k, scale, noise, 1.0, &scratch, left, item);
            print("afresh", noise, c, status, hash(1, item, 8 * k));
            field.stop = c % 5 == 0 && !field.real ? c % 2 ? DPTK_FIXED : 1 : 0;
            field.stop_key = keys[m / 2];
            field.stop_offset = 0.5;
            dptk_tape_init(&rng, words, WORDS);
            status = dptk_race(&rng, &field, k, scale, noise, 1.0, &scratch, item, NULL, &picked);
            print("race", noise, c, status, hash(picked, item, 8 * picked));
            dptk_tape_init(&rng, words, WORDS);
            status = dptk_sweep(&rng, &field, k, scale, noise, 1.0, -2.0, &scratch, item);
            print("sweep", noise, c, status, hash(k, item, 8 * k));
        }
    }
}

static void others(void)
{
    static int64_t out[500];
    static uint64_t stream[4 * DPTK_CHACHA_BATCH];
    uint8_t key[32];
    dptk_chacha chacha;
    for (int noise = 0; noise < 2; noise++) {
        for (size_t c = 0; c < 20; c++) {
            dptk_rng rng;
            int status;
            fill_words(90000 + c);
            dptk_tape_init(&rng, words, WORDS);
            status = dptk_discrete(&rng, 500, 0.3 * (double)(1 + c * c), noise, 1.0, out);
            print("discrete", noise, c, status, hash(1, out, sizeof out));
        }
    }
    for (int i = 0; i < 32; i++) key[i] = (uint8_t)i;
    dptk_chacha_init(&chacha, key, stream, 4 * DPTK_CHACHA_BATCH);
    for (size_t c = 0; c < 4; c++) {
        const int status = chacha.buffer.rng.refill(&chacha.buffer.rng);
        print("chacha", 0, c, status, hash(1, stream, 8 * (c + 1) * DPTK_CHACHA_BATCH));
    }
}

int main(int count, char **arguments)
{
    if (count > 1 && dptk_simd_set(atoi(arguments[1])) != atoi(arguments[1])) return 1;
    cuts();
    tallies();
    races();
    others();
    return 0;
}
