/* draw_impl.h - private to draw*.c, sieve.c and survey.c: the noise of a word, with its error, and
 * what scores say about differences. All of it for the compiler's vectors too. */
#ifndef DPTK_DRAW_IMPL_H
#define DPTK_DRAW_IMPL_H

#include "cut_impl.h"
#include "score.h"
#include "variate.h"

#include <string.h>

/* ln x to within LN_ERROR of itself, 2^-1000 < x < 2^1000.
 *
 * x = 2^e f with f in [sqrt(1/2), sqrt(2)); ln f = 2 atanh(s) for s = (f - 1)/(f + 1), of which
 * f - 1 is exact, so that s errs by 2^-52 of itself. z = s^2 < 0.02944, and 2 atanh(s) is
 * s (2 + z Q(z)) but for 2^-58 of it: Q is the polynomial for which this is least, and the test
 * measures it. What follows 2s is below 0.0102 of it: its own errors, z's 2^-51 and a few
 * roundings, are below 2^-56 of 2s. e LN_2 errs by 2^-52.5 of itself, and |e ln 2| >= 2 |ln f|
 * unless e = 0: so |ln x| >= |ln f| and |e ln 2| / 2. The errors of s, Q, 2s + ..., e LN_2 and the
 * last sum, 2^-52, 2^-58 and 2^-56, 2^-53, 2^-51.5 and 2^-53, are below LN_ERROR.
 *
 * A noise is two logarithms, which take a loop each: of shorter chains more go on at a time. */
#define LN_ERROR 0x1p-50
static inline double ln(double x)
{
    const double LN_2 = 0x1.62e42fefa39efp-1;
    const uint64_t root = UINT64_C(0x3FE6A09E667F3BCD); /* of 1/2 */
    const uint64_t above = bits_of(x) - root + (UINT64_C(1023) << 52);
    const double e = from_bits(UINT64_C(0x433) << 52 | above >> 52) - (0x1p52 + 1023.0);
    const double f = from_bits((above & ((UINT64_C(1) << 52) - 1)) + root);
    const double s = (f - 1.0) / (f + 1.0), z = s * s;
    const double z2 = z * z, z4 = z2 * z2; /* by pairs: short chains, too */
    const double first = (0x1.55555555555aep-1 + 0x1.999999997abf3p-2 * z)
                       + (0x1.2492494536f90p-2 + 0x1.c71c4fe573342p-3 * z) * z2;
    const double then =
        (0x1.74669e9933d5cp-3 + 0x1.39993b32c9238p-3 * z) + 0x1.2f529a3866366p-3 * z2;
    return e * LN_2 + (2.0 * s + s * z * (first + then * z4));
}

/* The first 52 bits of V = 1 - U, of which a word is the first 64 of U: V is in
 * [top, top + 1] 2^-52, whose middle is a double. */
static inline uint64_t top_of(uint64_t word) { return ~word >> 12; }

static inline double middle_of(uint64_t top)
{
    return from_bits(UINT64_C(0x3FF) << 52 | top) - (1.0 - 0x1p-53);
}

/* The noise -ln(-ln V) that belongs to a word, and how far it may be off.
 *
 * With t the middle and E = -ln t, V is off by 2^-53, so -ln V by 2^-53/t (1 + 2^-9) as long as
 * t > 2^-43, and by r = 2^-53/(t E) + LN_ERROR of itself, and the noise by r (1 + 2^-9) and
 * LN_ERROR of itself. E >= 1 - t. No noise here is larger than 37. */
enum { EDGE = 1 << 10 }; /* closer to 0 or 1, in 2^-52, V says too little */
#define MOST_NOISE 38.0

static inline double noise_error(uint64_t distance) /* of the top from the nearer end */
{
    const double nearer = (double)(int64_t)distance * 0x1p-52; /* >= min(t, 1 - t) - 2^-53 */
    return distance < EDGE
             ? INFINITY
             : 1.02 * (0x1p-53 / (nearer * (1.0 - nearer)) + LN_ERROR) + LN_ERROR * MOST_NOISE;
}

static inline uint64_t distance_of(uint64_t top)
{
    const uint64_t other = (UINT64_C(1) << 52) - 1 - top;
    return top < other ? top : other;
}

/* How far a value no further than that from 0 may be off: its noise, and 2^-50 of the score and of
 * the sum, which have been rounded a few times. A score is value - noise. */
static inline double error_within(double noise_error, double far)
{
    return noise_error + 0x1p-49 * (far + MOST_NOISE);
}

static inline double value_error(double value, uint64_t distance)
{
    return error_within(noise_error(distance), fabs(value));
}

/* ---- the words -------------------------------------------------------------- */

enum { LEADS = 4 }; /* items whose first bits a word has */

/* How many words have those of n items. */
static inline size_t leads(size_t n) { return (n + LEADS - 1) / LEADS; }

/* From the lowest bits of the first word up. */
static inline uint16_t lead_of(const uint64_t *word, size_t i)
{
    return (uint16_t)(word[i / LEADS] >> 16 * (i % LEADS));
}

/* Those of n items from a multiple of LEADS on: as they stand where low bytes come first. */
static inline void leads_of(const uint64_t *word, size_t first, size_t n, uint16_t *r)
{
    if (low_bytes_first())
        memcpy(r, word + first / LEADS, n * sizeof *r);
    else
        for (size_t i = 0; i < n; i++) r[i] = lead_of(word, first + i);
}

/* ---- bounds from the first bits --------------------------------------------- */

/* Of a U in [r, r + 1) 2^-16, noise <= -ln U <= -ln (r 2^-16). ln is bounded from below by the
 * chords of log2, which the bits of a float are: log2 r >= steps(r) 2^-23 - 127. So in units of
 * ln 2 2^-23 a noise is at most BASE - steps(r), if r > 0. An item with r = 0 may have any. */
enum { BASE = 143 << 23 };          /* 127 + 16 */
#define UNITS 0x1.71547652b82fep+23 /* in 1: 2^23 / ln 2 */

static inline int32_t steps(uint16_t r)
{
    const float x = (float)(int32_t)r;
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- the scores ------------------------------------------------------------- */

/* What a score is more than another: by keys, of integers less than 2^51 apart and of any; by
 * their bits, of doubles. */
static inline double drop_narrow(int64_t key, int64_t from)
{
    const uint64_t zero = UINT64_C(0x4338) << 48; /* the bits of 1.5 2^52 */
    return from_bits(zero + ((uint64_t)key - (uint64_t)from)) - 0x1.8p52;
}

static inline double drop_wide(int64_t key, int64_t from)
{
    const uint64_t up = (uint64_t)key - (uint64_t)from;
    return key >= from ? (double)up : -(double)(0 - up);
}

static inline double drop_real(int64_t bits, int64_t from)
{
    return from_bits((uint64_t)bits) - from_bits((uint64_t)from);
}

/* Some place, the j-th of places as even as they can be, for any number of them. */
static inline size_t place_of(size_t j, size_t n)
{
    return (size_t)((j * UINT64_C(0x9E3779B9) & UINT32_MAX) * n >> 32);
}

/* The least and the largest key of some scores: functions for a target, of integers and reals. */
#define SPAN(target, level, kind, key_of)                                                          \
    target static dptk_span span_##kind##_##level(const int64_t *score, size_t n)                  \
    {                                                                                              \
        dptk_span span = {INT64_MAX, INT64_MIN};                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const int64_t key = key_of;                                                            \
            span.least = key < span.least ? key : span.least;                                      \
            span.most = key > span.most ? key : span.most;                                         \
        }                                                                                          \
        return span;                                                                               \
    }
#define SPANS(target, level)                                                                       \
    SPAN(target, level, whole, score[i])                                                           \
    SPAN(target, level, real, bits_key(score[i]))

/* More scales than these from the first score to the last, or differences past these powers of
 * two: the errors could be too wide, or the numbers past the range of doubles. */
#define DEEP 0x1p40
#define VAST 0x1p500

static inline double width_of(const dptk_span *span, int real)
{
    return real ? key_double(span->most) - key_double(span->least)
                : (double)((uint64_t)span->most - (uint64_t)span->least);
}

/* Whether the scores of a span are finite, and not too far apart. */
static inline int span_status(const dptk_span *span, int real, double scale)
{
    const double width = width_of(span, real);
    if (real && (span->most >= DPTK_DOUBLE_INF || span->least <= ~DPTK_DOUBLE_INF)) return DPTK_NAN;
    return scale > 1.0 / VAST && scale < VAST && width < VAST && width / scale < DEEP
             ? DPTK_OK
             : DPTK_UNDECIDED;
}

/* How differences of the scores of a span are computed. */
enum { NARROW, WIDE, REAL };
static inline int drops_of(const dptk_span *span, int real)
{
    const uint64_t width = (uint64_t)span->most - (uint64_t)span->least;
    return real ? REAL : width < UINT64_C(1) << 51 ? NARROW : WIDE;
}

/* Keys of the items [first, first + n) of integers, and of others their bits as doubles: where
 * they stand, if they are what stands there. */
static inline const int64_t *scores_of(const dptk_column *col, size_t first, size_t n,
                                       int64_t *buffer)
{
    const char *const at = col->data + (ptrdiff_t)first * col->stride;
    const int plain = col->type == DPTK_I64 || col->type == DPTK_F64;
    if (plain && col->stride == sizeof *buffer && (uintptr_t)at % sizeof *buffer == 0)
        return (const int64_t *)(const void *)at;
    if (col->type == DPTK_F32 && col->stride == sizeof(float)) { /* the compiler has vectors */
        for (size_t i = 0; i < n; i++) {
            DPTK_SCORE(float, x, at + i * sizeof x);
            buffer[i] = (int64_t)bits_of((double)x);
        }
    } else if (col->type == DPTK_F32) {
        for (size_t i = 0; i < n; i++) {
            DPTK_SCORE(float, x, at + (ptrdiff_t)i * col->stride);
            buffer[i] = (int64_t)bits_of((double)x);
        }
    } else if (col->type == DPTK_F64) {
        for (size_t i = 0; i < n; i++) {
            DPTK_SCORE(int64_t, bits, at + (ptrdiff_t)i * col->stride);
            buffer[i] = bits;
        }
    } else {
        dptk_keys(col, first, n, buffer);
    }
    return buffer;
}

#endif
