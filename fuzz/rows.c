/* Many races at once against a loop of single ones on the same tape: the same picks, the same
 * status at the same race, the same next word, at every SIMD level. */
#include "fuzz.h"

enum { ROWS = 6, MOST = 600, MOST_CAPACITY = 1 << 14 };

typedef struct batch {
    int64_t key[ROWS * MOST], index[ROWS * MOST], score[ROWS * MOST];
    int64_t start[ROWS + 1], place[ROWS + 1], stop_key[ROWS];
    double stop_offset[ROWS];
    dptk_column tail[ROWS];
} batch;

static dptk_race_scratch scratch_of(size_t capacity)
{
    return (dptk_race_scratch){.block = room(capacity * sizeof(dptk_block)),
                               .runner = room(capacity * sizeof(dptk_runner)),
                               .position = room(MOST * 4),
                               .mark = room(2 * capacity * sizeof(dptk_mark)),
                               .gone = NULL,
                               .sort = room(4 * capacity * 8),
                               .seen = room((MOST + 63) / 64 * 8),
                               .capacity = capacity};
}

static void let_go(dptk_race_scratch *s)
{
    free(s->block), free(s->runner), free(s->position), free(s->mark), free(s->sort);
    free(s->seen);
}

/* Race number j by itself. */
static int single(dptk_rng *rng, const dptk_rows *rows, size_t j, double scale, int noise,
                  double factor, dptk_race_scratch *scratch, int64_t *out)
{
    const size_t i = j % rows->n, k = (size_t)(rows->place[i + 1] - rows->place[i]);
    dptk_field field = {.key = rows->key + rows->start[i],
                        .index = rows->index + rows->start[i],
                        .m = (size_t)(rows->start[i + 1] - rows->start[i]),
                        .real = rows->real,
                        .tail = rows->tail ? rows->tail + i : NULL,
                        .stop = rows->stop};
    size_t picked = k, looks;
    double floor_;
    int status = DPTK_OK;
    if (rows->stop) field.stop_key = rows->stop_key[i], field.stop_offset = rows->stop_offset[i];
    if (dptk_sweep_floor(&field, k, scale, noise, &floor_, &looks))
        status = dptk_sweep(rng, &field, k, scale, noise, factor, floor_, scratch, out);
    else if (k)
        status = dptk_race(rng, &field, k, scale, noise, factor, scratch, out, NULL, &picked);
    while (picked < k) out[picked++] = DPTK_STOP;
    return status;
}

/* Rows of lengths and heads of their own, some of them empty. */
static void fill_rows(input *in, batch *b, dptk_rows *rows, int tails)
{
    size_t shape[ROWS][3];
    for (size_t i = 0; i < rows->n; i++) {
        const size_t most = number(in, 1) % 8 ? 40 : MOST;
        shape[i][0] = number(in, 2) % (most + 1);
        if (tails && !shape[i][0]) shape[i][0] = 1;
        shape[i][1] = tails ? 1 + number(in, 2) % shape[i][0] : shape[i][0];
        shape[i][2] = number(in, 2) % (shape[i][0] + 2);
        b->stop_key[i] = (int64_t)number(in, 1);
        b->stop_offset[i] = (double)number(in, 1) / 16.0;
    }
    fill(in, b->score, ROWS * MOST, rows->real);
    for (size_t i = 0; i < rows->n; i++) {
        const size_t n = shape[i][0], m = shape[i][1];
        int64_t *cutting = room(dptk_cut_scratch(n ? n : 1, m ? m : 1) * 8);
        b->tail[i] = (dptk_column){(const char *)(b->score + i * MOST), 8, n,
                                   rows->real ? DPTK_F64 : DPTK_I64};
        b->start[i + 1] = b->start[i] + (int64_t)m;
        b->place[i + 1] = b->place[i] + (int64_t)shape[i][2];
        if (m)
            CHECK(dptk_cut(&b->tail[i], m, 0, cutting, b->key + b->start[i], b->index + b->start[i],
                           NULL)
                  == DPTK_OK);
        free(cutting);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    batch *b = room(sizeof *b);
    memset(b, 0, sizeof *b);
    dptk_rows rows = {.key = b->key, .index = b->index, .start = b->start, .place = b->place};
    const int noise = (int)(number(&in, 1) % 5), tails = (int)(number(&in, 1) % 2);
    const double scale = number(&in, 1) % 2 ? 1.0 + (double)number(&in, 1) : scale_of(&in);
    const double factor = ldexp(1.0, number(&in, 1) % 2 ? (int)(number(&in, 1) % 48) : 0);
    const size_t n_words = number(&in, 2) % 8192, passes = 1 + number(&in, 1) % 3;
    rows.n = 1 + number(&in, 1) % ROWS;
    rows.real = (int)(number(&in, 1) % 2);
    rows.stop = (int)(number(&in, 1) % 3);
    rows.stop_key = b->stop_key;
    rows.stop_offset = b->stop_offset;
    const size_t races = rows.n * passes, end = races - number(&in, 1) % rows.n;
    uint64_t *words = tape(&in, n_words);
    fill_rows(&in, b, &rows, tails);
    if (tails) rows.tail = b->tail;
    const size_t places = (size_t)b->place[rows.n];
    int64_t *item = room(passes * places * 8), *right = room(passes * places * 8);
    for (int level = 0; level <= dptk_simd_best(); level++) {
        size_t done = 0, capacity = 64, j = 0;
        int status = DPTK_SCRATCH, alone = DPTK_OK;
        dptk_rng rng, loop;
        dptk_simd_set(level);
        dptk_tape_init(&rng, words, n_words);
        dptk_tape_init(&loop, words, n_words);
        for (size_t i = 0; i < passes * places; i++) item[i] = right[i] = -2;
        while (status == DPTK_SCRATCH) { /* goes on where it was */
            capacity *= 2;
            CHECK(capacity <= MOST_CAPACITY);
            dptk_race_scratch scratch = scratch_of(capacity);
            status = dptk_race_rows(&rng, &rows, end, scale, noise, factor, &scratch, item, &done);
            let_go(&scratch);
        }
        dptk_race_scratch scratch = scratch_of(capacity);
        for (; j < end; j++) {
            const uint64_t *word = loop.next;
            const size_t at = j / rows.n * places + (size_t)rows.place[j % rows.n];
            alone = single(&loop, &rows, j, scale, noise, factor, &scratch, right + at);
            if (alone == DPTK_OK) continue;
            loop.next = word;
            break;
        }
        let_go(&scratch);
        CHECK(status == DPTK_OK || status == DPTK_TAPE_END || status == DPTK_UNDECIDED);
        CHECK(status == alone && done == j && rng.next == loop.next);
        for (size_t race = 0; race < done; race++) {
            const size_t i = race % rows.n, k = (size_t)(rows.place[i + 1] - rows.place[i]);
            const size_t at = race / rows.n * places + (size_t)rows.place[i];
            size_t picked = 0;
            CHECK(same(item + at, right + at, k * 8));
            while (picked < k && item[at + picked] != DPTK_STOP) picked++;
            for (size_t q = picked; q < k; q++) CHECK(item[at + q] == DPTK_STOP);
            if (!rows.stop) CHECK(picked == (k < b->tail[i].n ? k : b->tail[i].n));
            check_distinct(item + at, picked, b->tail[i].n);
        }
    }
    free(words), free(item), free(right), free(b);
    return 0;
}
