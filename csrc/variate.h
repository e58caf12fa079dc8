/* variate.h - random variates from words of a tape, with certified error bounds. */
#ifndef DPTK_VARIATE_H
#define DPTK_VARIATE_H

#include "dptk.h"

#include <math.h>
#include <string.h>

/* The error analysis assumes that log, log1p, expm1 and exp err by at most 4 ulp
 * (2^-50 relative) and erfc by 8; the tests measure them against mpmath. */
#define LIBM_ERROR 0x1p-50
#define LOG_ERROR LIBM_ERROR
#define ERFC_ERROR 0x1p-49

/* The double that has a key: see dptk_keys. */
static inline double key_double(int64_t key)
{
    int64_t bits = key >= 0 ? key : key ^ INT64_MAX;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A score less one that is no larger: rounded for doubles, and for integers past
 * 2^53. Rounding keeps the order. */
static inline double score_drop(const dptk_groups *g, int64_t key, int64_t lower)
{
    if (!g->real) return (double)((uint64_t)key - (uint64_t)lower);
    return key_double(key) - key_double(lower);
}

static inline int next_word(dptk_rng *rng, uint64_t *word)
{
    if (rng->next == rng->end) {
        int status = rng->refill(rng, 1);
        if (status != DPTK_OK) return status;
    }
    *word = *rng->next++;
    return DPTK_OK;
}

/* Whether the lowest byte of a word stands first in memory. */
static inline int low_bytes_first(void)
{
    const uint16_t one = 1;
    uint8_t low;
    memcpy(&low, &one, 1);
    return low;
}

/* See to it that the next n words are in memory. */
static inline int words_at_hand(dptk_rng *rng, size_t n)
{
    while ((size_t)(rng->end - rng->next) < n) {
        const int status = rng->refill(rng, n);
        if (status != DPTK_OK) return status;
    }
    return DPTK_OK;
}

/* Uniform on [0, n): the words past the last multiple of n are rejected. */
static inline int next_below(dptk_rng *rng, uint64_t n, uint64_t *value)
{
    uint64_t word, rest;
    do {
        int status = next_word(rng, &word);
        if (status != DPTK_OK) return status;
        rest = word % n;
    } while (word - rest > UINT64_MAX - (n - 1));
    *value = rest;
    return DPTK_OK;
}

/* A search for elements of a column by uniform draws: `left` of its n are sought, and
 * were there before. More than about 64 n/left misses in a row are as likely as e^-64,
 * unless the column changed meanwhile. So then they are counted, once or twice. */
typedef struct misses {
    uint64_t now, most, times;
} misses;

static inline misses misses_of(size_t n, size_t left)
{
    return (misses){0, 64 * ((uint64_t)n / (left ? left : 1) + 1), 0};
}

/* Is it time to count them? */
static inline int miss(misses *m)
{
    if (++m->now < m->most) return 0;
    m->now = 0;
    m->times++;
    return 1;
}

/* E = -ln V for a V = 1 - U of which the word gives the first 64 bits: U in
 * [word, word + 1) 2^-64. Bit 0 is left aside, as signed integers convert
 * faster: V in (steps, steps + 2] 2^-64. The absolute error: half of that
 * interval is 1/steps wide in ln V at most, two roundings of V make 2^-52, and
 * the logarithm errs by its share. */
static inline double exponential(uint64_t word, double *error)
{
    const double steps = 2.0 * (double)(int64_t)(~word >> 1);
    const double value = -log((steps + 1.0) * 0x1p-64);
    *error =
        (steps < 0x1p52 ? 1.0 / steps : 0x1p-52) * (1.0 + 0x1p-9) + 0x1p-51 + LOG_ERROR * value;
    return value;
}

#endif
