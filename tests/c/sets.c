/* sets.c - cases of the kernels that draw sets, count paths, test queries, or compose. */
#include "cases.h"

enum { GROUPS = 40, K = 50 };

static int64_t key_of(double x)
{
    int64_t bits;
    memcpy(&bits, &x, 8);
    return bits >= 0 ? bits : bits ^ INT64_MAX;
}

/* Descending scores, each of one item or of some. */
static dptk_groups groups_of(size_t c)
{
    static int64_t key[GROUPS], end[GROUPS];
    const dptk_groups groups = {key, end, 1 + word() % GROUPS, c % 4 == 3};
    int64_t score = (int64_t)(word() % 1000) + 100 * GROUPS, held = 0;
    for (size_t g = 0; g < groups.n; g++) {
        score -= 1 + (int64_t)(word() % 100);
        held += 1 + (int64_t)(c % 2 ? word() % 300 : word() % 3);
        key[g] = groups.real ? key_of(0.37 * (double)score) : score;
        end[g] = held;
    }
    return groups;
}

static const double scales[] = {0.5, 10.0, 300.0, 1e5};

/* Ranks come in no order that a libm could not change. */
static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void joints(void)
{
    for (size_t c = 0; c < 80; c++) {
        const int sequence = (int)(c / 40);
        dptk_rng rng = tape(200000 + c);
        const dptk_groups groups = groups_of(c);
        const size_t items = (size_t)groups.end[groups.n - 1];
        const size_t k = 1 + word() % (items < K ? items : K);
        const double scale = scales[word() % 4];
        int64_t *scratch = room(dptk_joint_scratch(k, sequence)), rank[K];
        dptk_joint_block *block = malloc(DPTK_JOINT_BLOCKS * sizeof *block);
        size_t blocks;
        double unit;
        int status = dptk_joint_envelope(&groups, k, scale, sequence, NULL, scratch, block, &blocks,
                                         &unit);
        for (size_t draw = 0; draw < 5; draw++) {
            if (status == DPTK_OK)
                status = dptk_joint(&rng, &groups, k, scale, sequence, 1.0, block, blocks, unit,
                                    NULL, scratch, rank);
            if (!sequence) qsort(rank, k, sizeof *rank, ascending);
            print("joint", sequence, 5 * c + draw, status, hash(k, rank, k));
        }
        free(block);
        free(scratch);
    }
}

static void canonicals(void)
{
    for (size_t c = 0; c < 60; c++) {
        dptk_rng rng = tape(300000 + c);
        const dptk_groups groups = groups_of(c);
        const size_t items = (size_t)groups.end[groups.n - 1];
        const size_t k = 1 + word() % (items < K ? items : K);
        const double scale = scales[word() % 4];
        int64_t *scratch = room(dptk_canonical_scratch(k)), rank[K];
        dptk_canonical_block *block = malloc(dptk_canonical_blocks(k) * sizeof *block);
        size_t blocks;
        double unit;
        dptk_canonical_envelope(&groups, k, scale, scratch, block, &blocks, &unit);
        for (size_t draw = 0; draw < 5; draw++) {
            const int status = dptk_canonical(&rng, &groups, k, scale, 1.0, block, blocks, unit,
                                              scratch, rank);
            qsort(rank, k, sizeof *rank, ascending);
            print("canonical", 0, 5 * c + draw, status, hash(k, rank, k));
        }
        free(block);
        free(scratch);
    }
}

/* Ranks of a subset, and the items that have them. */
static void subsets(void)
{
    static int64_t keys[MOST], index[MOST], key[MOST], end[MOST], rank[MOST], item[MOST];
    for (size_t c = 0; c < 40; c++) {
        dptk_rng rng = tape(400000 + c);
        const size_t n = 1 + word() % MOST, m = 1 + word() % n, k = 1 + word() % (n < K ? n : K);
        const dptk_column col = column(DPTK_I64, n, c);
        dptk_groups groups = {key, end, 0, 0};
        int64_t *scratch = room(dptk_cut_scratch(n, n));
        int status;
        if (dptk_cut(&col, n, 0, scratch, keys, index, NULL) != DPTK_OK) abort();
        for (size_t i = 0; i < n; i++) {
            if (i == 0 || keys[i] != keys[i - 1]) key[groups.n++] = keys[i];
            end[groups.n - 1] = (int64_t)i + 1;
        }
        free(scratch);
        scratch = room(dptk_subset_scratch(k));
        status = dptk_subset(&rng, 0, n, k, scratch, rank);
        print("subset", 0, c, status, hash(1, rank, k));
        free(scratch);
        scratch = room(dptk_items_scratch(k));
        status = dptk_items(&rng, rank, &groups, index, m, &col, k, scratch, item);
        print("items", 0, c, status, hash(1, item, k));
        free(scratch);
    }
}

static void paths(void)
{
    static int64_t bound[400];
    for (size_t c = 0; c < 40; c++) {
        const size_t k = 1 + c * c / 4;
        const uint64_t most = c % 3 ? c % 5 * 10 : 3;
        uint64_t residue, *modulo = room(dptk_paths_mod_scratch(k));
        int status;
        state = 500000 + c;
        for (size_t i = 0; i < k; i++)
            bound[i] = (i ? bound[i - 1] : 0) + (int64_t)(word() % (most + 1));
        for (int precision = DPTK_ROUGH; precision <= DPTK_PAIRS; precision++) {
            double *scratch = room(dptk_paths_scratch(k, precision, 0)), log_count, error;
            dptk_staircase staircase;
            status = dptk_paths(bound, k, precision, 0, NULL, scratch, &staircase);
            dptk_paths_log(&staircase, &log_count, &error);
            if (precision == DPTK_ROUGH) log_count = floor(log_count);
            print("paths", precision, c, status, hash_rough(1, &log_count, 1));
            free(scratch);
        }
        status = dptk_paths_mod(bound, k, (UINT64_C(1) << 61) - 1, NULL, modulo, &residue);
        print("modulo", 0, c, status, residue);
        free(modulo);
    }
}

static void queries(void)
{
    static int64_t integer[1000];
    static double real[1000];
    static uint8_t hit[1000];
    for (size_t c = 0; c < 40; c++) {
        dptk_rng rng = tape(600000 + c);
        dptk_tests tests = {.integer = integer,
                            .real = c % 2 ? real : NULL,
                            .base = c % 2 ? 0 : 100,
                            .offset = 0.25,
                            .threshold_scale = 3.0,
                            .query_scale = scales[c % 3],
                            .threshold_word = word(),
                            .above = c % 3 > 0};
        size_t tested = 0;
        uint64_t h = 1;
        int status;
        for (size_t i = 0; i < 1000; i++) {
            integer[i] = (int64_t)(word() % 200);
            real[i] = 0.37 * (double)integer[i] - 40.0;
        }
        status = dptk_sparse_vector(&rng, &tests, 1000, 1 + c * 20, 1.0, &tested, hit);
        for (size_t i = 0; i < tested; i++) h = hash(h, &(uint64_t){hit[i]}, 1);
        print("sparse", 0, c, status, h);
    }
}

static void numbers(void)
{
    for (int noise = DPTK_GUMBEL; noise <= DPTK_UNIFORM; noise++) {
        for (size_t c = 0; c < 50; c++) {
            double error, value = dptk_noise(noise, ldexp(1.0 + (double)c / 64.0, (int)c - 30),
                                             1e-18, &error);
            print("noise", noise, c, DPTK_OK, hash_rough(1, &value, 1));
        }
    }
    for (size_t c = 0; c < 6; c++) {
        const size_t m = 2 + 5 * c, capacity = 40 * m;
        double *scratch = room(dptk_adaptive_scratch(m, capacity)), *out = room(capacity), none = 0;
        size_t n;
        const int status = dptk_adaptive(&none, 0, 1 + 10 * c, m, capacity, 0.1 * (double)(c + 1),
                                         1e-200, scratch, out, &n);
        print("adaptive", (int)m, n, status, hash_rough(1, out, n));
        free(scratch);
        free(out);
    }
}

void sets(void);

void sets(void)
{
    joints();
    canonicals();
    subsets();
    paths();
    queries();
    numbers();
}
