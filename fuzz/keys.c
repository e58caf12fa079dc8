/* Keys order as the scores do, NaN has none, and what is taken and counted is what a plain loop
 * takes and counts: every type, stride, alignment and SIMD level. */
#include "fuzz.h"

/* The score as a long double, in which all of them are exact. */
static long double score_at(const char *at, int type)
{
    const size_t width = dptk_size(type);
    uint64_t bits = 0;
    float narrow;
    double x;
    memcpy(&bits, at, width); /* little-endian, as all that have libFuzzer here */
    memcpy(&narrow, at, width == 4 ? 4 : 0);
    memcpy(&x, &bits, sizeof x);
    if (type == DPTK_F64) return x;
    if (type == DPTK_F32) return narrow;
    if (type == DPTK_F16) {
        const int exponent = bits >> 10 & 31;
        const double part = (double)(bits & 1023) + (exponent ? 1024.0 : 0.0);
        x = exponent < 31 ? ldexp(part, (exponent ? exponent : 1) - 25)
          : part > 1024   ? NAN
                          : INFINITY;
        return bits >> 15 ? -x : x;
    }
    if (type >= DPTK_U8) return bits;
    return (int64_t)(bits << (64 - 8 * width)) >> (64 - 8 * width);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    const int type = (int)(number(&in, 1) % 11), backwards = (int)(number(&in, 1) % 2);
    const size_t width = dptk_size(type), gap = number(&in, 1) % 4, offset = number(&in, 1) % 8;
    const size_t n = 1 + number(&in, 2) % 1200, from = number(&in, 2) % n;
    const size_t length = number(&in, 2) % (n - from + 1),
                 step = (gap ? gap - 1 : 1) * width + gap / 3;
    const int64_t after = (int64_t)(number(&in, 2) % n) - 1;
    const size_t which = number(&in, 2);
    const size_t given = (size_t)(in.end - in.at) / width;
    char *memory = room(offset + (n - 1) * step + width), *taken = room(length * width);
    dptk_column col = {.data = memory + offset, .stride = (ptrdiff_t)step, .n = n, .type = type};
    int64_t *key = room(n * 8), *part = room(length * 8), *index = room(length * 8);
    memset(memory, 0x5A, offset + (n - 1) * step + width);
    if (backwards) {
        col.data += (n - 1) * step;
        col.stride = -col.stride;
    }
    for (size_t i = 0; given && i < n; i++)
        memcpy((char *)(uintptr_t)col.data + (ptrdiff_t)i * col.stride, in.at + i % given * width,
               width);
    for (size_t i = 0; i < length; i++) index[i] = (int64_t)((which * i + from) % n);
    for (int level = 0; level <= dptk_simd_best(); level++) {
        int nan = 0, part_nan = 0, status;
        dptk_simd_set(level);
        status = dptk_keys(&col, 0, n, key);
        for (size_t i = 0; i < n; i++) {
            const char *const at = col.data + (ptrdiff_t)i * col.stride;
            const char *const other = col.data + (ptrdiff_t)(i / 2) * col.stride;
            const long double x = score_at(at, type), y = score_at(other, type);
            nan |= isnan(x);
            part_nan |= isnan(x) && i >= from && i < from + length;
            if (!isnan(x) && !isnan(y)) {
                CHECK((x < y) == (key[i] < key[i / 2]) && (x == y) == (key[i] == key[i / 2]));
                if (type < DPTK_U64) CHECK(key[i] == (int64_t)x);
            }
        }
        CHECK(status == (nan ? DPTK_NAN : DPTK_OK));
        CHECK(dptk_keys(&col, from, length, part) == (part_nan ? DPTK_NAN : DPTK_OK));
        for (int below = 0; below < 2 && !nan; below++) {
            const int64_t wanted = key[which % n];
            size_t count = 0;
            CHECK(same(part, key + from, length * 8));
            for (size_t i = 0; i < n; i++)
                count += key[i] == wanted ? (int64_t)i > after : below && key[i] < wanted;
            CHECK(dptk_count(&col, wanted, after, below) == count);
        }
    }
    for (int all = 0; all < 2; all++) {
        dptk_take(&col, all ? NULL : index, length, taken);
        for (size_t i = 0; i < length; i++) {
            const ptrdiff_t at = all ? (ptrdiff_t)i : (ptrdiff_t)index[i];
            CHECK(same(taken + i * width, col.data + at * col.stride, width));
        }
    }
    free(memory), free(taken), free(key), free(part), free(index);
    return 0;
}
