/* keys.c - scores of any type as int64 keys of the same order. */
#include "cut_impl.h"
#include "float_state.h"
#include "score.h"

typedef int loader(const char *data, ptrdiff_t stride, size_t count, int64_t *keys);

/* The loop stands twice so that the compiler can use vectors for the packed case. */
#define LOADER(target, level, name, type)                                                          \
    target static int name##_##level(const char *data, ptrdiff_t stride, size_t count,             \
                                     int64_t *keys)                                                \
    {                                                                                              \
        int64_t bad = 0; /* as wide as a key: the loop stays in vectors */                         \
        if (stride == (ptrdiff_t)sizeof(type)) {                                                   \
            for (size_t i = 0; i < count; i++) {                                                   \
                DPTK_SCORE(type, x, data + i * sizeof x);                                          \
                keys[i] = name##_key(x);                                                           \
                bad |= name##_nan(x);                                                              \
            }                                                                                      \
        } else {                                                                                   \
            for (size_t i = 0; i < count; i++) {                                                   \
                DPTK_SCORE(type, x, data + (ptrdiff_t)i * stride);                                 \
                keys[i] = name##_key(x);                                                           \
                bad |= name##_nan(x);                                                              \
            }                                                                                      \
        }                                                                                          \
        return bad ? DPTK_NAN : DPTK_OK;                                                           \
    }

/* The same source for each target: the compiler's vectors do. */
#define LOADER_PORTABLE(name, code, type, bits, watchable) LOADER(, portable, name, type)
DPTK_TYPES(LOADER_PORTABLE)
#define ENTRY_PORTABLE(name, code, type, bits, watchable) [code] = name##_portable,
static loader *const loaders_portable[] = {DPTK_TYPES(ENTRY_PORTABLE)};

#if DPTK_X86
#define LOADER_AVX2(name, code, type, bits, watchable) LOADER(DPTK_AVX2, avx2, name, type)
DPTK_TYPES(LOADER_AVX2)
#define ENTRY_AVX2(name, code, type, bits, watchable) [code] = name##_avx2,
static loader *const loaders_avx2[] = {DPTK_TYPES(ENTRY_AVX2)};
#else
#define loaders_avx2 loaders_portable
#endif

int dptk_keys(const dptk_column *col, size_t first, size_t count, int64_t *keys)
{
    loader *const *const loaders =
        dptk_simd_get() >= DPTK_SIMD_AVX2 ? loaders_avx2 : loaders_portable;
    const char *const data = col->data + (ptrdiff_t)first * col->stride;
    const uint64_t state = dptk_float_begin();
    const int status = loaders[col->type](data, col->stride, count, keys);
    dptk_float_end(state);
    return status;
}

size_t dptk_count(const dptk_column *col, int64_t key, int64_t after, int below)
{
    enum { CHUNK = 512 };
    int64_t keys[CHUNK];
    size_t found = 0;

    for (size_t first = 0; first < col->n; first += CHUNK) {
        const size_t count = col->n - first < CHUNK ? col->n - first : CHUNK;
        dptk_keys(col, first, count, keys);
        for (size_t i = 0; i < count; i++)
            found += (below && keys[i] < key)
                  || (keys[i] == key && (int64_t)(first + i) > after);
    }
    return found;
}

int dptk_ordered_keys(const dptk_column *col, int64_t flip, int64_t *keys)
{
    const int half = col->type == DPTK_F16; /* their keys are negated, those of others flipped */
    const int64_t most = half ? DPTK_HALF_INF : DPTK_DOUBLE_INF;
    const int64_t least = half ? -DPTK_HALF_INF : ~DPTK_DOUBLE_INF;
    const int status = dptk_keys(col, 0, col->n, keys);

    if (status == DPTK_NAN)
        for (size_t i = 0; i < col->n; i++)
            if (keys[i] > most || keys[i] < least) keys[i] = INT64_MIN ^ flip;
    if (flip)
        for (size_t i = 0; i < col->n; i++) keys[i] ^= flip;
    return status;
}

#define SIZE(name, code, type, bits, watchable) [code] = sizeof(type),
static const uint8_t sizes[] = {DPTK_TYPES(SIZE)};

size_t dptk_size(int type) { return sizes[type]; }

#define TAKE(type)                                                                                 \
    for (size_t i = 0; i < count; i++) {                                                           \
        const ptrdiff_t at = index ? (ptrdiff_t)index[i] : (ptrdiff_t)i;                           \
        DPTK_SCORE(type, x, col->data + at * col->stride);                                         \
        memcpy((char *)out + i * sizeof x, &x, sizeof x);                                          \
    }                                                                                              \
    break

void dptk_take(const dptk_column *col, const int64_t *index, size_t count, void *out)
{
    switch (dptk_size(col->type)) {
    case 1:
        TAKE(uint8_t);
    case 2:
        TAKE(uint16_t);
    case 4:
        TAKE(uint32_t);
    default:
        TAKE(uint64_t);
    }
}
