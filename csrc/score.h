/* score.h - private to this folder: types of scores, and their keys. */
#ifndef DPTK_SCORE_H
#define DPTK_SCORE_H

#include "dptk.h"
#include "simd.h"

#include <string.h>

/* Halves are read as the integers that their bits are. */
enum { DPTK_HALF_INF = 0x7C00 };
#define DPTK_DOUBLE_INF INT64_C(0x7FF0000000000000) /* a key */

/* Of each type: its name, its code, its C type, the integer as wide; whether there is something
 * to watch for: negative integers, floats that are not finite. */
#define DPTK_SHORT_INTEGERS(X)                                                                     \
    X(i8, DPTK_I8, int8_t, int8_t, 1)                                                              \
    X(i16, DPTK_I16, int16_t, int16_t, 1)                                                          \
    X(i32, DPTK_I32, int32_t, int32_t, 1)                                                          \
    X(u8, DPTK_U8, uint8_t, int8_t, 0)                                                             \
    X(u16, DPTK_U16, uint16_t, int16_t, 0)                                                         \
    X(u32, DPTK_U32, uint32_t, int32_t, 0)
#define DPTK_LONG_INTEGERS(X)                                                                      \
    X(i64, DPTK_I64, int64_t, int64_t, 1) X(u64, DPTK_U64, uint64_t, int64_t, 0)
#define DPTK_HALF(X) X(f16, DPTK_F16, int16_t, int16_t, 1)
#define DPTK_FLOAT(X) X(f32, DPTK_F32, float, int32_t, 1)
#define DPTK_DOUBLE(X) X(f64, DPTK_F64, double, int64_t, 1)

#define DPTK_INTEGERS(X) DPTK_SHORT_INTEGERS(X) DPTK_LONG_INTEGERS(X)
#define DPTK_FLOATS(X) DPTK_FLOAT(X) DPTK_DOUBLE(X)
#define DPTK_SHORT(X) DPTK_SHORT_INTEGERS(X) DPTK_HALF(X) DPTK_FLOAT(X)
#define DPTK_LONG(X) DPTK_LONG_INTEGERS(X) DPTK_DOUBLE(X)
#define DPTK_TYPES(X) DPTK_SHORT(X) DPTK_LONG(X)

/* A score as it stands in memory, which may be unaligned. */
#define DPTK_SCORE(type, x, at)                                                                    \
    type x;                                                                                        \
    memcpy(&x, (at), sizeof x)

/* NAME_key(x) is the key, NAME_nan(x) whether there is none, NAME_less(x, y) the order;
 * NAME_exact, whether each key is that of one score and each score has one; NAME_watch(x) the
 * sign bit of a negative integer, any bit of a float that is not finite. */
#define DPTK_INTEGER_RULES(name, code, type, bits, watchable)                                      \
    enum { name##_exact = 1 };                                                                     \
    static inline int64_t name##_key(type x)                                                       \
    {                                                                                              \
        return code == DPTK_U64 ? (int64_t)((uint64_t)x ^ UINT64_C(1) << 63) : (int64_t)x;         \
    }                                                                                              \
    static inline int name##_nan(type x) { return (void)x, 0; }                                    \
    static inline int name##_less(type x, type y) { return x < y; }                                \
    static inline bits name##_watch(type x) { return (bits)x; }

DPTK_INTEGERS(DPTK_INTEGER_RULES)

/* -0.0 ties with 0.0. Of halves, or of vectors of them: */
#define DPTK_HALF_SIZE(x) ((x) & INT16_MAX)
#define DPTK_HALF_KEY(x) ((DPTK_HALF_SIZE(x) ^ ((x) >> 15)) - ((x) >> 15))
#define DPTK_HALF_LESS(x, y)                                                                       \
    ((DPTK_HALF_KEY(x) < DPTK_HALF_KEY(y)) & (DPTK_HALF_SIZE(x) <= DPTK_HALF_INF)                  \
     & (DPTK_HALF_SIZE(y) <= DPTK_HALF_INF))

static inline uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The key of a double that has these bits, and is not -0.0. */
static inline int64_t bits_key(int64_t bits)
{
    return bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1);
}

enum { f16_exact = 0, f32_exact = 0, f64_exact = 0 };
static inline int64_t f16_key(int16_t x) { return DPTK_HALF_KEY(x); }
static inline int64_t f64_key(double x)
{
    int64_t bits;
    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return bits >= 0 ? bits : bits ^ INT64_MAX;
}
static inline int64_t f32_key(float x) { return f64_key(x); }

/* Infinity less itself is NaN, too. Of vectors as well: */
#define DPTK_HALF_WATCH(x) (DPTK_HALF_SIZE(x) >= DPTK_HALF_INF)
#define DPTK_FLOAT_WATCH(x) ((x) - (x))
static inline int16_t f16_watch(int16_t x) { return (int16_t)-DPTK_HALF_WATCH(x); }
static inline int32_t f32_watch(float x)
{
    const float none = DPTK_FLOAT_WATCH(x);
    int32_t bits;
    memcpy(&bits, &none, sizeof bits);
    return bits;
}
static inline int64_t f64_watch(double x) { return (int64_t)bits_of(DPTK_FLOAT_WATCH(x)); }

static inline int f16_nan(int16_t x) { return DPTK_HALF_SIZE(x) > DPTK_HALF_INF; }
static inline int f32_nan(float x) { return x != x; }
static inline int f64_nan(double x) { return x != x; }

/* The key of one element, which is not NaN: faster than dptk_keys. */
#define DPTK_ONE_KEY(name, code, type, bits, watchable)                                            \
    case code: {                                                                                   \
        DPTK_SCORE(type, x, at);                                                                   \
        return name##_key(x);                                                                      \
    }
static inline int64_t score_key(const dptk_column *col, size_t i)
{
    const char *const at = col->data + (ptrdiff_t)i * col->stride;
    switch (col->type) {
        DPTK_TYPES(DPTK_ONE_KEY)
    }
    return 0;
}

/* NaN is less than nothing, and nothing less than it. */
static inline int f16_less(int16_t x, int16_t y) { return DPTK_HALF_LESS(x, y); }
static inline int f32_less(float x, float y) { return x < y; }
static inline int f64_less(double x, double y) { return x < y; }

#endif
