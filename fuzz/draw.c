/* All noise at once against long doubles: picks in the order of their values and all others below,
 * at every SIMD level, whatever the error bounds are multiplied by. Behind the words of the first
 * bits the tape has one word over and over: so each item's further bits are known, whoever gets
 * them and when. By a part or a sieve too. */
#include "fuzz.h"

static __int128 whole(const char *at, int type)
{
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
#define AS(x) return memcpy(&x, at, sizeof x), x
    switch (type) {
    case DPTK_I8:
        AS(i8);
    case DPTK_I16:
        AS(i16);
    case DPTK_I32:
        AS(i32);
    case DPTK_I64:
        AS(i64);
    case DPTK_U8:
        AS(u8);
    case DPTK_U16:
        AS(u16);
    case DPTK_U32:
        AS(u32);
    default:
        AS(u64);
    }
}

static double real(const char *at, int type)
{
    float narrow;
    double x;
    memcpy(&narrow, at, sizeof narrow);
    memcpy(&x, at, dptk_size(type));
    return type == DPTK_F32 ? (double)narrow : x;
}

/* Of a part and the rest: the same at every level, whatever the error bounds are multiplied by and
 * however much room there is. */
static void part(const dptk_column *col, uint64_t seed, size_t k, double scale, double factor)
{
    const size_t n = col->n, little = (size_t)(seed >> 20), space = dptk_part_room(n + 1);
    const size_t given = 40 * n + 400;
    input in = {(const uint8_t *)&seed, (const uint8_t *)(&seed + 1)};
    uint64_t *words = tape(&in, given);
    int64_t *keys = room(space * 8), *index = room(space * 8), *item = room(k * 8);
    int64_t *first = room(k * 8), *scratch = room(dptk_draw_scratch(n) * 8);
    dptk_block block;
    dptk_race_scratch show = {
        .block = &block, .runner = room(n * sizeof(dptk_runner)), .seen = room((n + 63) / 64 * 8)};
    dptk_rest rest = {.all = col, .index = index, .floor = (double)(little % 20), .scratch = &show};
    size_t held = 0;
    int decided = 0;
    dptk_span span;
    CHECK(dptk_keys(col, little % n, 1, &rest.key) == DPTK_OK);
    rest.key -= rest.key == INT64_MAX;
    CHECK(dptk_part(col, rest.key, n + 1, keys, index, &held) == DPTK_OK);
    dptk_column some = {(const char *)keys, 8, held, DPTK_I64};
    if (col->type >= DPTK_F32) {
        some.type = DPTK_F64;
        for (size_t i = 0; i < held; i++) keys[i] ^= keys[i] < 0 ? INT64_MAX : 0;
    }
    if (held && dptk_draw_prepare(&some, &rest.key, scale, &span) == DPTK_OK) {
        for (int level = 0; level <= dptk_simd_best(); level++) {
            for (int way = 0; way < 3; way++) {
                const size_t capacity = show.capacity = way == 1 ? 1 + little % n : n;
                dptk_rng rng;
                int status;
                dptk_simd_set(level);
                dptk_tape_init(&rng, words, given);
                status = dptk_draw(&rng, &some, &span, &rest, k, scale, way == 2 ? factor : 1.0,
                                   capacity, scratch, item);
                CHECK(status != DPTK_SCRATCH || capacity < n);
                if (status != DPTK_OK) continue;
                if (decided) CHECK(same(item, first, k * 8));
                memcpy(first, item, k * 8);
                decided = 1;
                for (size_t i = 0; i < k; i++) {
                    CHECK(item[i] >= 0 && (size_t)item[i] < n);
                    for (size_t j = 0; j < i; j++) CHECK(item[i] != item[j]);
                }
            }
        }
    }
    free(keys), free(index), free(item), free(first), free(scratch), free(show.runner);
    free(show.seen), free(words);
}

/* Rows of the first of these scores, and of fewer and fewer: side by side as by themselves, up to
 * one that is undecided by itself. */
static void check_rows(const dptk_column *col, size_t k, double scale, double factor,
                       const uint64_t *leads, uint64_t further)
{
    dptk_column row[DPTK_DRAW_ROWS];
    size_t most[DPTK_DRAW_ROWS], begin[DPTK_DRAW_ROWS + 1] = {0}, done;
    int64_t *item[DPTK_DRAW_ROWS], *one = room(DPTK_DRAW_ROWS_K * 8);
    uint64_t *words = room(DPTK_DRAW_ROWS * (DPTK_DRAW_FEW / 4 + DPTK_DRAW_FEW) * 8);
    const size_t rows = 1 + (size_t)(further >> 7) % DPTK_DRAW_ROWS;
    dptk_rng rng;
    for (size_t i = 0; i < rows; i++) {
        const size_t n = col->n - i % col->n, firsts = (n + 3) / 4;
        row[i] = *col;
        row[i].n = n;
        most[i] = k < n ? k : n;
        if (most[i] > DPTK_DRAW_ROWS_K) most[i] = DPTK_DRAW_ROWS_K;
        item[i] = room(most[i] * 8);
        memcpy(words + begin[i], leads, firsts * 8);
        begin[i + 1] = begin[i] + firsts + n;
        for (size_t j = begin[i] + firsts; j < begin[i + 1]; j++) words[j] = further;
    }
    dptk_tape_init(&rng, words, begin[rows]);
    const int status = dptk_draw_few_rows(&rng, row, most, rows, scale, factor, item, &done);
    CHECK((status == DPTK_OK) == (done == rows) && rng.next == words + begin[done]);
    for (size_t i = 0; i < rows && i <= done; i++) {
        dptk_tape_init(&rng, words + begin[i], begin[i + 1] - begin[i]);
        const int alone = dptk_draw_few(&rng, &row[i], most[i], scale, factor, one);
        if (i == done) CHECK(alone == status);
        if (i < done) CHECK(alone == DPTK_UNDECIDED || alone == DPTK_OK);
        if (i < done && alone == DPTK_OK) CHECK(same(one, item[i], most[i] * 8));
    }
    for (size_t i = 0; i < rows; i++) free(item[i]);
    free(one), free(words);
}

/* What a score is above the largest, exactly or nearly, and how far below that the least is. */
static long double drops_of(const dptk_column *col, long double *drop)
{
    long double top = -INFINITY, worst = 0.0L;
    __int128 best = 0;
    for (size_t i = 0; i < col->n; i++) {
        const char *const at = col->data + (ptrdiff_t)i * col->stride;
        if (col->type >= DPTK_F32)
            top = real(at, col->type) > top ? real(at, col->type) : top;
        else if (i == 0 || whole(at, col->type) > best)
            best = whole(at, col->type);
    }
    for (size_t i = 0; i < col->n; i++) {
        const char *const at = col->data + (ptrdiff_t)i * col->stride;
        drop[i] = col->type >= DPTK_F32 ? real(at, col->type) - top
                                        : (long double)(whole(at, col->type) - best);
        worst = -drop[i] > worst ? -drop[i] : worst;
    }
    return worst;
}

/* The k picks are the largest values in order, but for what is close. */
static void check_picks(const int64_t *item, size_t k, const long double *value, size_t n,
                        long double close)
{
    char *const picked = room(n);
    memset(picked, 0, n);
    for (size_t i = 0; i < k; i++) {
        CHECK(item[i] >= 0 && (size_t)item[i] < n && !picked[item[i]]);
        picked[item[i]] = 1;
        if (i) CHECK(value[item[i]] <= value[item[i - 1]] + close);
    }
    for (size_t i = 0; i < n; i++) CHECK(picked[i] || value[i] <= value[item[k - 1]] + close);
    free(picked);
}

/* U by a sieve that gives all the same further bits, whoever gets them and when. */
static uint64_t sieved_word(const uint64_t *plane, size_t i, int bits, uint64_t further)
{
    int known = 0;
    uint64_t one = 0;
    while (known < bits && !one) one = plane[known++] >> i & 1;
    return (one << (16 - known) | further >> 48 >> known) << 48 | further >> 16;
}

static void sieved(const dptk_column *col, uint64_t seed, size_t k, double scale, double factor)
{
    const int bits = (int)(seed >> 22 & 255) % (DPTK_SIEVE_BITS + 1);
    const size_t n = col->n, blocks = (n + 63) / 64, firsts = blocks * (size_t)bits;
    const size_t given = firsts + (n + 3) / 4 + n + DPTK_SIEVE_BITS;
    const size_t space = dptk_sieve_room(n + 1), little = 1 + (size_t)(seed >> 30) % n;
    const uint64_t rest = 0x0101010101010101u * (uint8_t)(seed >> 3);
    input in = {(const uint8_t *)&seed, (const uint8_t *)(&seed + 1)};
    uint64_t *const words = tape(&in, given);
    int64_t *const score = room(space * 8), *const index = room(space * 8);
    int64_t *const item = room(k * 8), *const first = room(k * 8);
    int64_t *const scratch = room(dptk_draw_scratch(n + 1) * 8);
    uint16_t *const lead = room(space * 2);
    long double *const value = room(n * sizeof *value);
    const long double worst = drops_of(col, value) / scale;
    int decided = 0;
    dptk_sieve s = {.col = col, .score = score, .index = index, .lead = lead};
    CHECK(dptk_keys(col, (size_t)(seed >> 11) % n, 1, &s.key) == DPTK_OK);
    s.key -= s.key == INT64_MAX;
    for (size_t i = firsts; i < given; i++) words[i] = rest;
    for (size_t i = 0; i < n; i++) {
        const uint64_t *const plane = words + i / 64 * (size_t)bits;
        int64_t key;
        CHECK(dptk_keys(col, i, 1, &key) == DPTK_OK);
        const uint64_t u = key > s.key ? rest : sieved_word(plane, i % 64, bits, rest);
        value[i] = value[i] / scale - logl(exponential_of(u, 0.5L));
    }
    for (int level = 0; level <= dptk_simd_best(); level++) {
        for (int way = 0; way < 3; way++) {
            dptk_rng rng;
            int status;
            dptk_simd_set(level);
            dptk_tape_init(&rng, words, given);
            s.bits = bits;
            s.capacity = way == 1 ? little : n + 1;
            status =
                dptk_draw_sieved(&rng, &s, k, scale, way == 2 ? factor : 1.0, n, scratch, item);
            CHECK(status == DPTK_OK || status == DPTK_UNDECIDED || status == DPTK_NAN
                  || (status == DPTK_SCRATCH && way == 1));
            if (status != DPTK_OK) continue;
            if (decided) CHECK(same(item, first, k * 8));
            memcpy(first, item, k * 8);
            decided = 1;
            check_picks(item, k, value, n, 0x1p-58L * (worst + 64.0L));
        }
    }
    free(words), free(score), free(index), free(item), free(first), free(scratch), free(lead);
    free(value);
}

/* By a sieve of scores that are not all finite: it says so, with some memory or enough. */
static void strange(const dptk_column *col, uint64_t seed, size_t k, double scale)
{
    const size_t n = col->n, given = (n + 63) / 64 * DPTK_SIEVE_BITS + (n + 3) / 4;
    const size_t little = 1 + (size_t)(seed >> 30) % n, space = dptk_sieve_room(n + 1);
    input in = {(const uint8_t *)&seed, (const uint8_t *)(&seed + 1)};
    uint64_t *const words = tape(&in, given);
    int64_t *const score = room(space * 8), *const index = room(space * 8);
    int64_t *const item = room(k * 8), *const scratch = room(dptk_draw_scratch(n + 1) * 8);
    uint16_t *const lead = room(space * 2);
    dptk_sieve s = {.col = col, .score = score, .index = index, .lead = lead};
    for (int level = 0; level <= dptk_simd_best(); level++) {
        for (int way = 0; way < 2; way++) {
            dptk_rng rng;
            dptk_simd_set(level);
            dptk_tape_init(&rng, words, given);
            s.key = (int64_t)seed - ((int64_t)seed == INT64_MAX || (int64_t)seed == -1);
            s.bits = (int)(seed >> 22 & 255) % (DPTK_SIEVE_BITS + 1);
            s.capacity = way ? little : n + 1;
            const int status = dptk_draw_sieved(&rng, &s, k, scale, 1.0, n, scratch, item);
            CHECK(status == DPTK_NAN || (way && status == DPTK_SCRATCH));
        }
    }
    free(words), free(score), free(index), free(item), free(scratch), free(lead);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int types[] = {DPTK_I64, DPTK_F64, DPTK_I8,  DPTK_I16, DPTK_I32,
                                DPTK_U8,  DPTK_U16, DPTK_U32, DPTK_U64, DPTK_F32};
    input in = {data, data + size};
    const int type = types[number(&in, 1) % 10], floats = type >= DPTK_F32;
    const size_t width = dptk_size(type), most = number(&in, 1) % 4 ? 150 : 4500;
    const double scale = number(&in, 1) % 2 ? 1.0 + (double)number(&in, 1) : scale_of(&in);
    const double factor = ldexp(1.0, (int)(number(&in, 1) % 64));
    const size_t n = 1 + number(&in, 2) % most, k = 1 + number(&in, 2) % n;
    const size_t leads = (n + 3) / 4;
    const uint64_t further = number(&in, 8);
    uint64_t *words = tape(&in, leads + n);
    const size_t given = (size_t)(in.end - in.at) / width;
    char *scores = room(n * width);
    int64_t *item = room(k * 8), *first = room(k * 8);
    const size_t little = 1 + (size_t)further % n;
    int64_t *scratch = room(dptk_draw_scratch(n) * 8);
    int64_t *narrow = room(dptk_draw_scratch(little) * 8);
    long double *value = room(n * sizeof *value), worst = 0.0L;
    int finite = 1, before = -1, decided = 0;
    for (size_t i = 0; i < n; i++) {
        if (given)
            memcpy(scores + i * width, in.at + i % given * width, width);
        else
            memset(scores + i * width, (int)(i % 5), width);
        if (floats) finite &= isfinite(real(scores + i * width, type)) != 0;
    }
    for (size_t i = 0; i < n; i++) words[leads + i] = further;
    const dptk_column col = {scores, (ptrdiff_t)width, n, type};
    if (finite) worst = drops_of(&col, value) / scale;
    for (size_t i = 0; finite && i < n; i++) {
        const uint64_t u = words[i / 4] >> 16 * (i % 4) << 48 | further >> 16;
        value[i] = value[i] / scale - logl(exponential_of(u, 0.5L));
    }
    const long double close = 0x1p-58L * (worst + 64.0L);
    for (int level = 0; level <= dptk_simd_best(); level++) {
        for (int wide = 0; wide < 2; wide++) {
            dptk_rng rng;
            dptk_simd_set(level);
            dptk_span span;
            const int ready = dptk_draw_prepare(&col, NULL, scale, &span);
            CHECK(ready == DPTK_OK || ready == (finite ? DPTK_UNDECIDED : DPTK_NAN));
            CHECK(before < 0 || ready == before);
            before = ready;
            if (n <= DPTK_DRAW_FEW) check_rows(&col, k, scale, wide ? factor : 1.0, words, further);
            if (ready != DPTK_OK) continue;
            dptk_tape_init(&rng, words, leads - 1);
            CHECK(dptk_draw(&rng, &col, &span, NULL, k, scale, 1.0, n, scratch, item)
                  == DPTK_TAPE_END);
            dptk_tape_init(&rng, words, leads + n);
            const int close_by = dptk_draw(&rng, &col, &span, NULL, k, scale, wide ? factor : 1.0,
                                           little, narrow, item);
            dptk_tape_init(&rng, words, leads + n);
            const int status =
                dptk_draw(&rng, &col, &span, NULL, k, scale, wide ? factor : 1.0, n, scratch, item);
            CHECK(close_by == status || (close_by == DPTK_SCRATCH && little < n));
            CHECK(rng.next >= words + leads + k && rng.next <= words + leads + n);
            CHECK(status == DPTK_OK || status == DPTK_UNDECIDED);
            if (!wide) CHECK(level == 0 || (status == DPTK_OK) == decided);
            if (status != DPTK_OK) continue;
            if (wide) CHECK(decided);
            if (decided) CHECK(same(item, first, k * 8));
            memcpy(first, item, k * 8);
            decided = 1;
            check_picks(item, k, value, n, close);
        }
    }
    if (finite && k < 50) part(&col, further, k, scale, factor);
    if (finite)
        sieved(&col, further, k, scale, factor);
    else
        strange(&col, further, k, scale);
    free(words), free(scores), free(item), free(first), free(scratch), free(narrow), free(value);
    return 0;
}
