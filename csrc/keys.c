/* keys.c - scores of any type as int64 keys of the same order. */
#include "dptk.h"
#include "simd.h"

#include <string.h>

static inline int64_t flip(uint64_t value)
{
    const uint64_t bits = value ^ (UINT64_C(1) << 63);
    int64_t key;
    memcpy(&key, &bits, sizeof key);
    return key;
}

static inline int64_t float_key(double value)
{
    int64_t bits;
    value += 0.0; /* -0.0 ties with 0.0 */
    memcpy(&bits, &value, sizeof bits);
    return bits >= 0 ? bits : bits ^ INT64_MAX;
}

typedef int loader(const char *data, ptrdiff_t stride, size_t count, int64_t *keys);

/* The loop stands twice so that the compiler can use vectors for the packed
 * case. memcpy: elements may be unaligned. */
#define LOADER(target, name, type, key_of, is_bad)                                                 \
    target static int name(const char *data, ptrdiff_t stride, size_t count, int64_t *keys)        \
    {                                                                                              \
        int64_t bad = 0; /* as wide as a key: the loop stays in vectors */                         \
        if (stride == (ptrdiff_t)sizeof(type)) {                                                   \
            for (size_t i = 0; i < count; i++) {                                                   \
                type x;                                                                            \
                memcpy(&x, data + i * sizeof x, sizeof x);                                         \
                keys[i] = key_of(x);                                                               \
                bad |= is_bad(x);                                                                  \
            }                                                                                      \
        } else {                                                                                   \
            for (size_t i = 0; i < count; i++) {                                                   \
                type x;                                                                            \
                memcpy(&x, data + (ptrdiff_t)i * stride, sizeof x);                                \
                keys[i] = key_of(x);                                                               \
                bad |= is_bad(x);                                                                  \
            }                                                                                      \
        }                                                                                          \
        return bad ? DPTK_NAN : DPTK_OK;                                                           \
    }

#define AS_IS(x) (int64_t)(x)
#define NEVER(x) 0
#define NOT_SELF(x) ((x) != (x))

/* The same source for each target: the compiler's vectors do. */
#define LOADERS(target, level)                                                                     \
    LOADER(target, i8_##level, int8_t, AS_IS, NEVER)                                               \
    LOADER(target, i16_##level, int16_t, AS_IS, NEVER)                                             \
    LOADER(target, i32_##level, int32_t, AS_IS, NEVER)                                             \
    LOADER(target, i64_##level, int64_t, AS_IS, NEVER)                                             \
    LOADER(target, u8_##level, uint8_t, AS_IS, NEVER)                                              \
    LOADER(target, u16_##level, uint16_t, AS_IS, NEVER)                                            \
    LOADER(target, u32_##level, uint32_t, AS_IS, NEVER)                                            \
    LOADER(target, u64_##level, uint64_t, flip, NEVER)                                             \
    LOADER(target, f32_##level, float, float_key, NOT_SELF)                                        \
    LOADER(target, f64_##level, double, float_key, NOT_SELF)                                       \
    static loader *const loaders_##level[] = {                                                     \
        [DPTK_I8] = i8_##level,   [DPTK_I16] = i16_##level, [DPTK_I32] = i32_##level,              \
        [DPTK_I64] = i64_##level, [DPTK_U8] = u8_##level,   [DPTK_U16] = u16_##level,              \
        [DPTK_U32] = u32_##level, [DPTK_U64] = u64_##level, [DPTK_F32] = f32_##level,              \
        [DPTK_F64] = f64_##level,                                                                  \
    };

LOADERS(, portable)
#if DPTK_X86
LOADERS(DPTK_AVX2, avx2)
#else
#define loaders_avx2 loaders_portable
#endif

int dptk_keys(const dptk_column *col, size_t first, size_t count, int64_t *keys)
{
    loader *const *const loaders =
        dptk_simd_get() >= DPTK_SIMD_AVX2 ? loaders_avx2 : loaders_portable;
    return loaders[col->type](col->data + (ptrdiff_t)first * col->stride, col->stride, count, keys);
}
