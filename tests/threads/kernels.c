/* kernels.c - threads that run the kernels at once on shared inputs, each with memory of its own:
 * for ThreadSanitizer. All find the same. With SHARED_SCRATCH, a broken twin, they race. */
#include "dptk.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, N = 1500, K = 40, ROWS = 5, ROUNDS = 10, WORDS = 1 << 15, CAPACITY = 1 << 12 };

/* Inputs, written before the threads begin. */
static uint64_t words[WORDS];
static int64_t score[N], key[N], order[N], group[N], end[N];
static dptk_column column;
static dptk_span span;
static dptk_groups groups;
static int64_t start[ROWS + 1], place[ROWS + 1];
static dptk_joint_block joint[DPTK_JOINT_BLOCKS];
static dptk_canonical_block *canonical;
static size_t joints, canonicals;
static double joint_unit, canonical_unit;

typedef struct work {
    pthread_t thread;
    int64_t out[12][ROUNDS][K * ROWS];
    size_t asked;
} work;

static void *room(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory) abort();
    return memory;
}

static int go_on(void *state)
{
    ++*(size_t *)state;
    return 0;
}

static dptk_rng tape(size_t from)
{
    dptk_rng rng;
    dptk_tape_init(&rng, words + from, WORDS - from);
    return rng;
}

static void need(int status)
{
    if (status != DPTK_OK && status != DPTK_UNDECIDED) abort();
}

static void races(work *w, size_t round, dptk_race_scratch *scratch)
{
    const dptk_watch watch = {go_on, &w->asked};
    const dptk_field field = {.key = key, .index = order, .m = N / 2, .tail = &column};
    dptk_rows rows = {.key = key, .index = order, .start = start, .place = place, .n = ROWS};
    int64_t *left = room(2 * N * 8);
    size_t picked, done = 0;
    dptk_rng rng = tape(round);
    scratch->watch = &watch;
    need(dptk_race(&rng, &field, K, 20.0, DPTK_GUMBEL, 1.0, scratch, w->out[0][round], NULL,
                   &picked));
    rng = tape(round);
    need(dptk_race_afresh(&rng, &field, K, 20.0, DPTK_LAPLACE, 1.0, scratch, left,
                          w->out[1][round]));
    rng = tape(round);
    need(dptk_sweep(&rng, &field, K, 20.0, DPTK_GUMBEL, 1.0, 0.0, scratch, w->out[2][round]));
    rng = tape(round);
    need(dptk_race_rows(&rng, &rows, ROWS, 20.0, DPTK_GUMBEL, 1.0, scratch, w->out[3][round],
                        &done));
    free(left);
}

static void sets(work *w, size_t round)
{
    int64_t *scratch = room(8
                            * (dptk_joint_scratch(K, 0) + dptk_canonical_scratch(K)
                               + dptk_subset_scratch(K) + dptk_items_scratch(K)));
    dptk_rng rng = tape(round);
    need(dptk_joint(&rng, &groups, K, 20.0, 0, 1.0, joint, joints, joint_unit, NULL, scratch,
                    w->out[4][round]));
    need(dptk_canonical(&rng, &groups, K, 20.0, 1.0, canonical, canonicals, canonical_unit, scratch,
                        w->out[5][round]));
    need(dptk_subset(&rng, 0, N, K, scratch, w->out[6][round]));
    need(dptk_items(&rng, w->out[6][round], &groups, order, K, &column, K, scratch,
                    w->out[7][round]));
    need(dptk_discrete(&rng, K, 30.0, DPTK_DISCRETE_GAUSSIAN, 1.0, w->out[8][round]));
    free(scratch);
}

static void passes(work *w, size_t round, int64_t *scratch)
{
    int64_t keys[K], index[K], table[K];
    dptk_rng rng = tape(round);
    need(dptk_cut(&column, K, 0, scratch, keys, index, NULL));
    memcpy(w->out[9][round], index, sizeof index);
    need(dptk_count_keys(&column, K, scratch, table, NULL));
    memcpy(w->out[10][round], table, sizeof table);
    need(dptk_draw(&rng, &column, &span, NULL, K, 20.0, 1.0, N, scratch, w->out[11][round]));
}

#ifdef SHARED_SCRATCH
#define MINE static
#else
#define MINE
#endif

static void *run(void *state)
{
    work *w = state;
    MINE int64_t cutting[20 * N];
    dptk_race_scratch scratch = {.block = room(CAPACITY * sizeof(dptk_block)),
                                 .runner = room(CAPACITY * sizeof(dptk_runner)),
                                 .position = room(N * 4),
                                 .mark = room(2 * CAPACITY * sizeof(dptk_mark)),
                                 .gone = room(2 * CAPACITY * sizeof(dptk_mark)),
                                 .sort = room(4 * CAPACITY * 8),
                                 .seen = room(N / 8 + 8),
                                 .capacity = CAPACITY};
    if (dptk_cut_scratch(N, N) > 20 * N || dptk_draw_scratch(N) > 20 * N) abort();
    for (size_t round = 0; round < ROUNDS; round++) {
        races(w, round, &scratch);
        sets(w, round);
        passes(w, round, cutting);
    }
    free(scratch.block), free(scratch.runner), free(scratch.position), free(scratch.mark);
    free(scratch.gone), free(scratch.sort), free(scratch.seen);
    return NULL;
}

static void prepare(void)
{
    int64_t *scratch = room(8 * (dptk_cut_scratch(N, N) + dptk_joint_scratch(K, 0)));
    uint64_t state = 1;
    for (size_t i = 0; i < WORDS; i++) { /* splitmix64 */
        uint64_t z = state += 0x9E3779B97F4A7C15u;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        words[i] = z ^ z >> 31;
    }
    for (size_t i = 0; i < N; i++) score[i] = (int64_t)(words[i] % 300);
    column = (dptk_column){(const char *)score, 8, N, DPTK_I64};
    need(dptk_cut(&column, N, 0, scratch, key, order, NULL));
    need(dptk_draw_prepare(&column, NULL, 20.0, &span));
    groups = (dptk_groups){group, end, 0, 0};
    for (size_t i = 0; i < N; i++) {
        if (i == 0 || key[i] != key[i - 1]) group[groups.n++] = key[i];
        end[groups.n - 1] = (int64_t)i + 1;
    }
    for (int64_t i = 0; i < ROWS; i++) {
        start[i + 1] = start[i] + N / ROWS;
        place[i + 1] = place[i] + K;
    }
    canonical = room(dptk_canonical_blocks(K) * sizeof *canonical);
    need(dptk_joint_envelope(&groups, K, 20.0, 0, NULL, scratch, joint, &joints, &joint_unit));
    dptk_canonical_envelope(&groups, K, 20.0, scratch, canonical, &canonicals, &canonical_unit);
    free(scratch);
}

int main(void)
{
    static work all[THREADS];
    prepare();
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&all[i].thread, NULL, run, &all[i])) abort();
    for (int i = 0; i < THREADS; i++) pthread_join(all[i].thread, NULL);
    for (int i = 1; i < THREADS; i++)
        if (memcmp(all[i].out, all[0].out, sizeof all[i].out)) return puts("they differ"), 1;
    free(canonical);
    return 0;
}
