/* cut_rows.c - the largest of each of many short rows, four rows side by side.
 *
 * A key and its place make one number, a tag; a lane of a vector is a row. Networks of maxima and
 * minima, without a branch, put the tags of all four in order. */
#include "cut_impl.h"

#if DPTK_X86
#include <immintrin.h>
#include <string.h>

/* The place in a row stands below the key, and counts down: of equal keys the first has the
 * largest tag. Tags are read as doubles, which have a maximum on every machine: as all are
 * positive, normal and finite, they have the order of their bits. */
enum {
    ROWS = 4,
    PLACE_BITS = 8,
    LONGEST = 1 << PLACE_BITS,
    KEY_BITS = 54,
    LEAST_DEEP = 8,
    DEEP = 32
};
#define LEAST_TAG (UINT64_C(1) << 52)

typedef uint64_t words __attribute__((vector_size(32)));

/* The part of the keys that has room in a tag: (key - base) >> shift. */
typedef struct part {
    uint64_t base;
    unsigned shift;
    int exact; /* keys that have the same part are equal */
} part;

/* They are, if the rest is the same in all: zeros, or in the negative ones ones. So it is in
 * doubles that are integers, or were floats. */
DPTK_AVX2 static part part_of(const int64_t *keys, size_t n)
{
    int64_t least = INT64_MAX, most = INT64_MIN, some = 0;
    part x = {.shift = 0};

    for (size_t i = 0; i < n; i++) {
        least = keys[i] < least ? keys[i] : least;
        most = keys[i] > most ? keys[i] : most;
        some |= keys[i] ^ -(int64_t)(keys[i] < 0);
    }
    while (((uint64_t)most - (uint64_t)least) >> x.shift >> KEY_BITS) x.shift++;
    x.base = (uint64_t)least >> x.shift << x.shift;
    x.exact = (uint64_t)some << 1 << (63 - x.shift) == 0;
    return x;
}

/* A square of keys, turned: each vector has the same place of all rows. */
DPTK_AVX2 static inline void turn_square(const int64_t *keys, size_t stride, words *x)
{
    __m256i row[ROWS], pair[ROWS];

    for (size_t i = 0; i < ROWS; i++)
        row[i] = _mm256_loadu_si256((const __m256i *)(const void *)(keys + i * stride));
    for (int i = 0; i < ROWS; i += 2) {
        pair[i] = _mm256_unpacklo_epi64(row[i], row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_epi64(row[i], row[i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        x[i] = (words)_mm256_permute2x128_si256(pair[i], pair[i + 2], 0x20);
        x[i + 2] = (words)_mm256_permute2x128_si256(pair[i], pair[i + 2], 0x31);
    }
}

/* The tags of the places from `first` on. */
DPTK_AVX2 static inline void tag(const int64_t *keys, size_t stride, size_t first, size_t count,
                                 const part *of, __m256d *x)
{
    for (size_t i = 0; i < count; i += ROWS) {
        words key[ROWS];
        turn_square(keys + first + i, stride, key);
        for (size_t j = 0; j < ROWS; j++)
            x[i + j] = (__m256d)(((key[j] - of->base) >> of->shift << PLACE_BITS)
                                 + (LEAST_TAG + (LONGEST - 1 - first - i - j)));
    }
}

/* ---- networks ------------------------------------------------------------- */

/* The larger one comes first. */
#define SWAP(x, i, j)                                                                              \
    do {                                                                                           \
        const __m256d lesser = _mm256_min_pd(x[i], x[j]);                                          \
        x[i] = _mm256_max_pd(x[i], x[j]);                                                          \
        x[j] = lesser;                                                                             \
    } while (0);
#define SWAPS(x, count, i, j)                                                                      \
    for (int step = 0; step < (count); step++) SWAP(x, (i), (j))

/* Batcher's. MERGE: of the elements from a on that stand r apart, whose halves are in order. */
#define MERGE2(x, a, r) SWAP(x, a, (a) + (r))
#define MERGE4(x, a, r) MERGE2(x, a, 2 * (r)) MERGE2(x, (a) + (r), 2 * (r)) NEIGHBOURS(x, a, r, 1)
#define MERGE8(x, a, r) MERGE4(x, a, 2 * (r)) MERGE4(x, (a) + (r), 2 * (r)) NEIGHBOURS(x, a, r, 3)
#define MERGE16(x, a, r) MERGE8(x, a, 2 * (r)) MERGE8(x, (a) + (r), 2 * (r)) NEIGHBOURS(x, a, r, 7)
#define MERGE32(x, a, r)                                                                           \
    MERGE16(x, a, 2 * (r)) MERGE16(x, (a) + (r), 2 * (r)) NEIGHBOURS(x, a, r, 15)
#define NEIGHBOURS(x, a, r, count)                                                                 \
    SWAPS(x, count, (a) + (2 * step + 1) * (r), (a) + (2 * step + 2) * (r))
#define SORT4(x, a) SWAP(x, a, (a) + 1) SWAP(x, (a) + 2, (a) + 3) MERGE4(x, a, 1)
#define SORT8(x, a) SORT4(x, a) SORT4(x, (a) + 4) MERGE8(x, a, 1)
#define SORT16(x, a) SORT8(x, a) SORT8(x, (a) + 8) MERGE16(x, a, 1)
#define SORT32(x, a) SORT16(x, a) SORT16(x, (a) + 16) MERGE32(x, a, 1)

/* Of what falls and then rises, or the other way round. */
#define TURN2(x, a) SWAP(x, a, (a) + 1)
#define TURN4(x, a) SWAPS(x, 2, (a) + step, (a) + step + 2) TURN2(x, a) TURN2(x, (a) + 2)
#define TURN8(x, a) SWAPS(x, 4, (a) + step, (a) + step + 4) TURN4(x, a) TURN4(x, (a) + 4)
#define TURN16(x, a) SWAPS(x, 8, (a) + step, (a) + step + 8) TURN8(x, a) TURN8(x, (a) + 8)
#define TURN32(x, a) SWAPS(x, 16, (a) + step, (a) + step + 16) TURN16(x, a) TURN16(x, (a) + 16)

/* The `depth` largest tags of each row, in order. The rows stand `stride` keys apart, at least n
 * and a multiple of depth. */
#define BEST(depth)                                                                                \
    DPTK_AVX2 static void best_##depth(const int64_t *keys, size_t stride, size_t n,               \
                                       const part *of, uint64_t (*top)[ROWS])                      \
    {                                                                                              \
        __m256d best[depth], more[depth];                                                          \
        tag(keys, stride, 0, depth, of, best);                                                     \
        SORT##depth(best, 0);                                                                      \
        for (size_t first = depth; first < n; first += depth) {                                    \
            tag(keys, stride, first, depth, of, more);                                             \
            SORT##depth(more, 0);                                                                  \
            for (int i = 0; i < depth; i++) best[i] = _mm256_max_pd(best[i], more[depth - 1 - i]); \
            TURN##depth(best, 0);                                                                  \
        }                                                                                          \
        memcpy(top, best, sizeof best);                                                            \
    }
BEST(8)
BEST(16)
BEST(32)

/* ---- rows ------------------------------------------------------------------ */

static inline size_t place_of(uint64_t tag) { return LONGEST - 1 - tag % LONGEST; }

/* Places, by their bits, in order. */
static void ascend(uint64_t (*top)[ROWS], size_t row, size_t m, int64_t *index)
{
    uint64_t in[LONGEST / 64] = {0};
    size_t kept = 0;

    for (size_t j = 0; j < m; j++) {
        const size_t place = place_of(top[j][row]);
        in[place / 64] |= UINT64_C(1) << place % 64;
    }
    for (size_t word = 0; kept < m; word++)
        for (; in[word]; in[word] &= in[word] - 1)
            index[kept++] = (int64_t)(word * 64) + __builtin_ctzll(in[word]);
}

/* Whether two tags have the same part of a key. */
static inline uint64_t alike(uint64_t x, uint64_t y) { return (x ^ y) < LONGEST; }

/* Whether the first m of a row's n keys are the largest, in order: as they are, if keys of the same
 * part are equal. */
static int certain(const int64_t *keys, size_t n, uint64_t (*top)[ROWS], size_t row, size_t m,
                   const part *of)
{
    const int64_t last = keys[place_of(top[m - 1][row])];
    int differ = 0;

    for (size_t j = 1; j < m; j++)
        differ |= alike(top[j - 1][row], top[j][row])
               && keys[place_of(top[j - 1][row])] != keys[place_of(top[j][row])];
    if (m < n && alike(top[m - 1][row], top[m][row])) /* there may be more of its part */
        for (size_t i = 0; i < n; i++)
            differ |= keys[i] != last && ((uint64_t)keys[i] ^ (uint64_t)last) >> of->shift == 0;
    return !differ;
}

/* Returns whether ROWS rows were done: they are not, if one has NaN, or if what the tags have of
 * the keys does not tell them apart. */
static int side_by_side(const dptk_column *row, const size_t *m, int order, int64_t *const *index)
{
    int64_t keys[ROWS * LONGEST];
    uint64_t top[DEEP][ROWS], doubt = 0;
    size_t n = 0, sum = 0, wanted = 0, depth = LEAST_DEEP;

    for (size_t r = 0; r < ROWS; r++) {
        n = row[r].n > n ? row[r].n : n;
        wanted = m[r] > wanted ? m[r] : wanted;
        sum += row[r].n;
    }
    if (n > LONGEST || wanted > DEEP || sum < 2 * n) return 0;
    while (depth <= wanted) depth += depth; /* one more, to compare the last one with */
    const size_t stride = (n + depth - 1) / depth * depth;
    for (size_t r = 0; r < ROWS; r++) {
        int64_t *const own = keys + r * stride;
        if (dptk_ordered_keys(&row[r], order & DPTK_LEAST ? -1 : 0, own) != DPTK_OK) return 0;
        for (size_t i = row[r].n; i < stride; i++) own[i] = own[0];
    }
    const part of = part_of(keys, ROWS * stride);
    for (size_t r = 0; r < ROWS; r++) /* what is no score comes behind all scores */
        for (size_t i = row[r].n; i < stride; i++) keys[r * stride + i] = (int64_t)of.base;
    if (of.exact && wanted <= depth / 2 && depth > LEAST_DEEP) depth /= 2;
    if (depth > DEEP) return 0;
    (depth == 8 ? best_8 : depth == 16 ? best_16 : best_32)(keys, stride, n, &of, top);
    for (size_t j = 0; j < wanted && !of.exact; j++)
        for (size_t r = 0; r < ROWS; r++) doubt |= alike(top[j][r], top[j + 1][r]);
    for (size_t r = 0; r < ROWS && doubt; r++)
        if (!certain(keys + r * stride, row[r].n, top, r, m[r], &of)) return 0;
    for (size_t r = 0; r < ROWS; r++) {
        if (order & DPTK_UNSORTED)
            ascend(top, r, m[r], index[r]);
        else
            for (size_t j = 0; j < m[r]; j++) index[r][j] = (int64_t)place_of(top[j][r]);
    }
    return 1;
}
#endif

int dptk_cut_rows(const dptk_column *row, const size_t *m, size_t rows, int order, int64_t *scratch,
                  int64_t *const *index)
{
    for (size_t r = 0; r < rows;) {
        size_t end = r + 1;
#if DPTK_X86
        if (rows - r >= ROWS && dptk_simd_get() >= DPTK_SIMD_AVX2) {
            end = r + ROWS;
            if (side_by_side(row + r, m + r, order, index + r)) r = end;
        }
#endif
        for (; r < end; r++) {
            const int status =
                dptk_cut(&row[r], m[r], order, scratch + m[r], scratch, index[r], NULL);
            if (status != DPTK_OK) return status;
        }
    }
    return DPTK_OK;
}
