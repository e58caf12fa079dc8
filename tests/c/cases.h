/* cases.h - what the programs of cases share: inputs, tapes, and a line a case. */
#ifndef CASES_H
#define CASES_H

#include "dptk.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 1 << 16, MOST = 9000 };
static uint64_t state, words[WORDS];
static char scores[8 * MOST];

/* splitmix64 */
static inline uint64_t word(void)
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline dptk_rng tape(size_t seed)
{
    dptk_rng rng;
    state = seed;
    for (size_t i = 0; i < WORDS; i++) words[i] = word();
    dptk_tape_init(&rng, words, WORDS);
    return rng;
}

/* Room for so many words. */
static inline void *room(size_t size)
{
    void *memory = malloc(8 * (size ? size : 1));
    if (!memory) abort();
    return memory;
}

/* FNV-1a of words, whatever the order of their bytes. */
static inline uint64_t hash(uint64_t h, const void *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t one;
        memcpy(&one, (const char *)data + 8 * i, 8);
        for (int shift = 0; shift < 64; shift += 8)
            h = (h ^ (one >> shift & 0xFF)) * 0x100000001B3u;
    }
    return h;
}

/* 24 bits of each: libms differ in the last ones. */
static inline uint64_t hash_rough(uint64_t h, const double *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int exponent = 0;
        const double part = isfinite(x[i]) ? frexp(x[i], &exponent) : x[i] > 0 ? 2.0 : -2.0;
        const int64_t rough[] = {(int64_t)floor(part * 0x1p24 + 0.5), exponent};
        h = hash(h, rough, 2);
    }
    return h;
}

static inline void print(const char *what, int which, size_t number, int status, uint64_t h)
{
    printf("%s %d %u ", what, which, (unsigned)number);
    if (status == DPTK_UNDECIDED)
        printf("?\n");
    else
        printf("%d %016" PRIx64 "\n", status, h);
}

/* Scores of a type: few or many distinct, of either sign, a few of them far away. */
static inline dptk_column column(int type, size_t n, size_t shape)
{
    static const uint64_t spreads[] = {3, 200, 1u << 20};
    const uint64_t spread = spreads[shape % 3];
    for (size_t i = 0; i < n; i++) {
        const uint64_t drawn = word() % spread;
        const int64_t value = (int64_t)drawn - (int64_t)(shape % 2 * spread / 2);
        const double real = (double)value * 0.37;
        const float narrow = (float)real;
        const uint64_t size = word() % 0x7C00;
        const int16_t half = (int16_t)(size ^ (word() & 1) << 15);
        char *at = scores + i * dptk_size(type);
        if (type == DPTK_F64) memcpy(at, &real, 8);
        else if (type == DPTK_F32) memcpy(at, &narrow, 4);
        else if (type == DPTK_F16) memcpy(at, &half, 2);
        else if (dptk_size(type) == 8) memcpy(at, &value, 8);
        else if (dptk_size(type) == 4) memcpy(at, &(int32_t){(int32_t)value}, 4);
        else if (dptk_size(type) == 2) memcpy(at, &(int16_t){(int16_t)value}, 2);
        else memcpy(at, &(int8_t){(int8_t)value}, 1);
    }
    return (dptk_column){
        .data = scores, .stride = (ptrdiff_t)dptk_size(type), .n = n, .type = type};
}

#endif
