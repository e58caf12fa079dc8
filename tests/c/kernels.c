/* kernels.c - what the kernels give on fixed tapes, a line a case: to be compared between
 * machines, compilers and levels (the argument; there must be one such). A case that doubles
 * can't decide prints "?": a libm that rounds otherwise may decide others. */
#include "cases.h"

void sets(void); /* sets.c */

/* Rows of a column, some longer than others. */
static void rows(int type, size_t c, int order)
{
    enum { ROWS = 9, K = 40 };
    const size_t n = c % 2 ? 60 : 250, k = 1 + c % K;
    const dptk_column col = column(type, ROWS * n, c);
    dptk_column row[ROWS];
    size_t m[ROWS];
    int64_t index[ROWS * K] = {0}, *at[ROWS], *scratch = room(dptk_cut_scratch(n, k) + k);
    int status;
    for (size_t i = 0; i < ROWS; i++) {
        row[i] = col;
        row[i].data += (ptrdiff_t)(i * n) * col.stride;
        row[i].n = n - (c % 3) * i;
        m[i] = k < row[i].n ? k : row[i].n;
        at[i] = index + i * K;
    }
    status = dptk_cut_rows(row, m, ROWS, order, scratch, at);
    print("rows", type, c, status, hash(1, index, ROWS * K));
    free(scratch);
}

static void cuts(void)
{
    static const size_t sizes[] = {1, 40, 1000, 2500, MOST};
    static int64_t keys[MOST], index[MOST + 1];
    static char taken[8 * MOST];
    for (int type = DPTK_I8; type <= DPTK_F64; type++) {
        for (size_t c = 0; c < 30; c++) {
            const size_t n = sizes[c % 5], m = c % 2 ? n : 1 + n / 30;
            const int order = (int)(c % 8);
            const dptk_column col = column(type, n, c);
            int64_t *scratch = room(dptk_cut_scratch(n, m));
            int status = dptk_cut(&col, m, order, scratch, keys, index, NULL);
            print("cut", type, c, status, hash(hash(1, keys, m), index, m));
            free(scratch);
            status = dptk_keys(&col, 0, n, keys);
            print("keys", type, c, status, hash(1, keys, n));
            index[0] = status ? 0 : (int64_t)dptk_count(&col, keys[n / 2], (int64_t)n / 3, 1);
            for (size_t i = 0; i < m; i++) index[i + 1] = (int64_t)(n - 1 - i);
            dptk_take(&col, index + 1, m, taken);
            dptk_keys(&(dptk_column){taken, (ptrdiff_t)dptk_size(type), m, type}, 0, m, keys);
            print("take", type, c, status, hash(hash(1, index, 1), keys, m));
            rows(type, c, order);
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
        int64_t *scratch = room(dptk_count_keys_scratch(span));
        for (size_t i = 0; i < n; i++) {
            const uint64_t most = word() % 8 ? 4 : mosts[c / 8];
            const int64_t drawn = (int64_t)(word() % most);
            keys[i] = drawn - !copied * (word() % 50 == 0) * 10;
        }
        memset(copy, 0, sizeof copy);
        const int status = dptk_count_keys(&col, span, scratch, table, copied ? copy : NULL);
        for (size_t i = 0; i < MOST; i++) keys[i] = copy[i];
        print("tally", (int)span, c, status, hash(hash(1, table, span), keys, MOST));
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
            int64_t *space = room(dptk_cut_scratch(n, m));
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
            rng = tape(1000 * (size_t)noise + c);
            status = dptk_race_rows(&rng, &rows, 4, scale, noise, 1.0, &scratch, item, &done);
            print("rows", noise, c, status, hash(done, item, done * k));
            dptk_tape_init(&rng, words, WORDS);
            status = dptk_race_afresh(&rng, &field, k, scale, noise, 1.0, &scratch, left, item);
            print("afresh", noise, c, status, hash(1, item, k));
            field.stop = c % 5 == 0 && !field.real ? c % 2 ? DPTK_FIXED : 1 : 0;
            field.stop_key = keys[m / 2];
            field.stop_offset = 0.5;
            dptk_tape_init(&rng, words, WORDS);
            status = dptk_race(&rng, &field, k, scale, noise, 1.0, &scratch, item, NULL, &picked);
            print("race", noise, c, status, hash(picked, item, picked));
            dptk_tape_init(&rng, words, WORDS);
            status = dptk_sweep(&rng, &field, k, scale, noise, 1.0, -2.0, &scratch, item);
            print("sweep", noise, c, status, hash(k, item, k));
        }
    }
}

/* Sizes on both sides of the limits: one, a few that are ranked, a sample, four samples. */
static void draws(void)
{
    static const size_t sizes[] = {1, 50, 64, 65, 900, 4000};
    static const int types[] = {DPTK_I64, DPTK_F64, DPTK_U8, DPTK_F32, DPTK_I16};
    static const double scales[] = {0.3, 20.0, 1e4};
    static int64_t item[MOST];
    for (int t = 0; t < 5; t++) {
        for (size_t c = 0; c < 24; c++) {
            dptk_rng rng = tape(700000 + c);
            const size_t n = sizes[c % 6];
            const dptk_column col = column(types[t], n, c);
            const size_t k = 1 + word() % (c % 4 ? n / 8 + 1 : n);
            const double scale = scales[c % 3];
            int64_t *scratch = room(dptk_draw_scratch(n));
            dptk_span span;
            int status = dptk_draw_prepare(&col, NULL, scale, &span);
            if (status == DPTK_OK)
                status = dptk_draw(&rng, &col, &span, NULL, k, scale, 1.0, n, scratch, item);
            print("draw", types[t], c, status, hash(k, item, k));
            free(scratch);
        }
    }
}

/* Some of the scores, and a floor that falls or does not. */
static void parts(void)
{
    static int64_t keys[MOST + 1024], index[MOST + 1024], item[MOST];
    static const int types[] = {DPTK_I64, DPTK_U8, DPTK_I16, DPTK_U64};
    dptk_race_scratch scratch = {
        .block = blocks, .runner = runners, .seen = seen, .capacity = CAPACITY};
    for (size_t c = 0; c < 40; c++) {
        dptk_rng rng = tape(800000 + c);
        const size_t n = 2 + word() % 2000;
        const dptk_column col = column(types[c % 4], n, c);
        const size_t k = 1 + word() % (n / 8 + 1);
        dptk_rest rest = {.all = &col, .index = index, .floor = c % 3, .scratch = &scratch};
        int64_t *work = room(dptk_draw_scratch(n)), all[MOST];
        dptk_span span;
        size_t held;
        int status;
        if (dptk_part_room(n) > sizeof keys / sizeof *keys) abort();
        dptk_keys(&col, 0, n, all);
        rest.key = all[n / 2] - (all[n / 2] == INT64_MAX); /* as dptk_part asks */
        status = dptk_part(&col, rest.key, n, keys, index, &held);
        print("part", types[c % 4], c, status, hash(hash(held, keys, held), index, held));
        if (held > 0) {
            const dptk_column part = {(const char *)keys, sizeof *keys, held, DPTK_I64};
            status = dptk_draw_prepare(&part, &rest.key, 1e3, &span);
            if (status == DPTK_OK)
                status = dptk_draw(&rng, &part, &span, &rest, k, 1e3, 1.0, n, work, item);
            print("drawn", types[c % 4], c, status, hash(k, item, k));
        }
        free(work);
    }
}

/* Sieves that let few through, and all, and that are widened. */
static void sieves(void)
{
    static int64_t score[2 * MOST], index[2 * MOST], item[MOST], all[MOST];
    static uint16_t lead[2 * MOST];
    static const int types[] = {DPTK_I64, DPTK_F64, DPTK_U8, DPTK_F32, DPTK_I16, DPTK_U64};
    static const int bits[] = {8, 6, 2, 0};
    if (dptk_sieve_room(MOST) > 2 * MOST) abort();
    for (size_t c = 0; c < 48; c++) {
        dptk_rng rng = tape(850000 + c);
        const size_t n = 2 + word() % 3000;
        const dptk_column col = column(types[c % 6], n, c);
        const size_t k = 1 + word() % (n / 8 + 1);
        int64_t *const work = room(dptk_draw_scratch(n + 1));
        dptk_sieve sieve = {.col = &col,
                            .bits = bits[c % 4],
                            .capacity = n + 1,
                            .score = score,
                            .index = index,
                            .lead = lead};
        int status;
        dptk_keys(&col, 0, n, all);
        sieve.key = all[n / 2] < INT64_MAX ? all[n / 2] : 0;
        status = dptk_draw_sieved(&rng, &sieve, k, c % 3 ? 1e3 : 1e17, 1.0, n, work, item);
        print("sieve", types[c % 6], c, status,
              status == DPTK_OK ? hash(hash(k, item, k), score, sieve.through.n) : 0);
        free(work);
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
            dptk_rng rng = tape(90000 + c);
            const int status = dptk_discrete(&rng, 500, 0.3 * (double)(1 + c * c), noise, 1.0, out);
            print("discrete", noise, c, status, hash(1, out, 500));
        }
    }
    for (int i = 0; i < 32; i++) key[i] = (uint8_t)i;
    dptk_chacha_init(&chacha, key, stream, 4 * DPTK_CHACHA_BATCH);
    for (size_t c = 0; c < 4; c++) {
        const int status = chacha.buffer.rng.refill(&chacha.buffer.rng, 1);
        print("chacha", 0, c, status, hash(1, stream, (c + 1) * DPTK_CHACHA_BATCH));
    }
}

int main(int count, char **arguments)
{
    if (count > 1 && dptk_simd_set(atoi(arguments[1])) != atoi(arguments[1])) return 1;
    cuts();
    tallies();
    races();
    draws();
    parts();
    sieves();
    others();
    sets();
    return 0;
}
