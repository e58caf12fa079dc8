/* The cut and the counts of counts against an insertion sort and a plain count: every type, stride,
 * alignment, order and SIMD level. */
#include "fuzz.h"

/* Whether element i comes before j in the order asked for. */
static int before(const int64_t *key, const int *nan, int order, size_t i, size_t j)
{
    if (nan[i] != nan[j]) return nan[j];
    if (!nan[i] && key[i] != key[j]) return order & DPTK_LEAST ? key[i] < key[j] : key[i] > key[j];
    return i < j;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    const int type = (int)(number(&in, 1) % 11), order = (int)(number(&in, 1) % 8);
    const size_t width = dptk_size(type), offset = number(&in, 1) % 8, gap = number(&in, 1) % 4;
    const int level = dptk_simd_set((int)(number(&in, 1) % 3)), backwards = (int)number(&in, 1) % 2;
    const size_t repeat = 1 + number(&in, 1) % 8, m_of = number(&in, 2), span = number(&in, 1);
    const size_t n = (size_t)(in.end - in.at) / width * repeat;
    const size_t step = (gap ? gap - 1 : 1) * width + (gap == 3 ? 1 : 0);
    if (n == 0 || n > 3000) return 0;
    const size_t bytes = offset + (n - 1) * step + width, m = 1 + m_of % n;
    char *memory = room(bytes);
    dptk_column col = {.data = memory + offset, .stride = (ptrdiff_t)step, .n = n, .type = type};
    if (backwards) {
        col.data += (n - 1) * step;
        col.stride = -col.stride;
    }
    memset(memory, 0x5A, bytes);
    for (size_t i = 0; i < n; i++) /* the same few elements again: ties */
        memcpy((char *)(uintptr_t)col.data + (ptrdiff_t)i * col.stride,
               in.at + i % (n / repeat) * width, width);
    int64_t *key = room(n * 8), *keys = room(m * 8), *index = room(m * 8);
    int *nan = room(n * sizeof *nan), any_nan = 0, watched = -1, any_watched = 0, status;
    size_t *rank = room(n * sizeof *rank);
    const int64_t infinite = type == DPTK_F16 ? INT64_C(0x7C00) : INT64_C(0x7FF0000000000000);
    const int64_t least = type == DPTK_F16 ? -infinite : ~infinite;
    for (size_t i = 0; i < n; i++) {
        nan[i] = dptk_keys(&col, i, 1, &key[i]) == DPTK_NAN;
        any_nan |= nan[i];
        any_watched |= type < DPTK_U8 && key[i] < 0;
        any_watched |= type > DPTK_U64 && (nan[i] || key[i] >= infinite || key[i] <= least);
        size_t at = i;
        for (; at > 0 && before(key, nan, order, i, rank[at - 1]); at--) rank[at] = rank[at - 1];
        rank[at] = i;
    }
    int64_t *scratch = room(dptk_cut_scratch(n, m) * 8);
    status = dptk_cut(&col, m, order, scratch, keys, index, order & DPTK_LEAST ? NULL : &watched);
    if (any_nan && !(order & DPTK_NAN_LAST)) {
        CHECK(status == DPTK_NAN);
    } else {
        CHECK(status == DPTK_OK);
        if (!(order & DPTK_LEAST)) CHECK(watched == any_watched);
        char *chosen = room(n);
        memset(chosen, 0, n);
        for (size_t i = 0; i < m; i++) chosen[rank[i]] = 1;
        for (size_t i = 0; i < m; i++) {
            const size_t at = (size_t)index[i];
            CHECK(index[i] >= 0 && at < n && chosen[at]);
            chosen[at] = 0; /* each once */
            if (order & DPTK_UNSORTED)
                CHECK(i == 0 || index[i - 1] < index[i]);
            else
                CHECK(at == rank[i]);
            CHECK(keys[i] == (nan[at] ? INT64_MIN : order & DPTK_LEAST ? ~key[at] : key[at]));
        }
        free(chosen);
    }
    dptk_column row[5];
    size_t some[5];
    int64_t *at[5];
    for (size_t i = 0; i < 5; i++) { /* the column and four more, each shorter */
        row[i] = col;
        row[i].n = n - i * n / 8;
        some[i] = m < row[i].n ? m : row[i].n;
        at[i] = room(some[i] * 8);
    }
    int64_t *of_rows = room((dptk_cut_scratch(n, m) + m) * 8);
    status = dptk_cut_rows(row, some, 5, order, of_rows, at);
    CHECK(status == (any_nan && !(order & DPTK_NAN_LAST) ? DPTK_NAN : DPTK_OK));
    for (size_t i = 0; i < 5; i++) {
        if (status == DPTK_OK)
            CHECK(dptk_cut(&row[i], some[i], order, scratch, keys, index, NULL) == DPTK_OK);
        CHECK(status != DPTK_OK || !memcmp(at[i], index, some[i] * 8));
        free(at[i]);
    }
    free(of_rows);
    int64_t *table = room(span * 8), *counting = room(dptk_count_keys_scratch(span) * 8);
    status = dptk_count_keys(&col, span, counting, table, NULL);
    CHECK(status == (any_nan ? DPTK_NAN : DPTK_OK));
    for (size_t value = 0; !any_nan && value < span; value++) {
        int64_t times = 0;
        for (size_t i = 0; i < n; i++) times += key[i] == (int64_t)value;
        CHECK(table[value] == times);
    }
    CHECK(dptk_simd_get() == level);
    free(memory), free(key), free(keys), free(index), free(nan), free(rank), free(scratch);
    free(table), free(counting);
    return 0;
}
