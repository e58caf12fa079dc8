/* fuzz.h - what the targets share: an input as a stream of bytes, a check that is not left out by
 * NDEBUG, and random variates in long doubles, which are far closer than any error bound here. */
#ifndef FUZZ_H
#define FUZZ_H

#include "dptk.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                             \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

typedef struct input {
    const uint8_t *at, *end;
} input;

/* The next bytes; zeros after the end. */
static inline void take(input *in, void *to, size_t bytes)
{
    const size_t left = (size_t)(in->end - in->at), n = bytes < left ? bytes : left;
    memset(to, 0, bytes);
    if (n) memcpy(to, in->at, n);
    in->at += n;
}

static inline uint64_t number(input *in, size_t bytes)
{
    uint8_t byte[8];
    uint64_t value = 0;
    take(in, byte, bytes);
    for (size_t i = bytes; i-- > 0;) value = value << 8 | byte[i];
    return value;
}

static inline void *room(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    CHECK(memory);
    return memory;
}

/* Words of a tape: a few of the input, which it can make extreme, then of splitmix64. In memory
 * of just this size, so that a read past it is seen. */
static inline uint64_t *tape(input *in, size_t n)
{
    uint64_t *words = room(n * sizeof *words), state = number(in, 8);
    for (size_t i = 0; i < n; i++) {
        uint64_t z = state += 0x9E3779B97F4A7C15u;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        words[i] = i < 8 && in->at < in->end ? number(in, 8) : z ^ z >> 31;
    }
    return words;
}

/* From 2^-700 to 2^708. */
static inline double scale_of(input *in)
{
    const double part = 1.0 + (double)number(in, 1);
    return ldexp(part, (int)(number(in, 2) % 1400) - 700);
}

/* One score for each 8 bytes that are left, and these again and again; of doubles no others than
 * finite ones. */
static inline void fill(input *in, int64_t *score, size_t n, int real)
{
    const size_t given = (size_t)(in->end - in->at + 7) / 8;
    for (size_t i = 0; i < n; i++) {
        double x;
        if (i < given)
            score[i] = (int64_t)number(in, 8);
        else
            score[i] = given ? score[i % given] : (int64_t)(i % 7);
        memcpy(&x, &score[i], sizeof x);
        if (real && !isfinite(x)) score[i] = 0;
    }
}

static inline int same(const void *a, const void *b, size_t bytes)
{
    return bytes == 0 || memcmp(a, b, bytes) == 0;
}

/* ---- what kernels draw, plainly -------------------------------------------- */

/* -ln(1 - U) for U = (word + part) 2^-64. */
static inline long double exponential_of(uint64_t word, long double part)
{
    if (word >> 63) return -logl(((long double)~word + (1.0L - part)) * 0x1p-64L);
    return -log1pl(-((long double)word + part) * 0x1p-64L);
}

/* The next word, or 0 at the end, which `ended` then says. */
typedef struct plain {
    const uint64_t *next, *end;
    int ended;
} plain;

static inline uint64_t plain_word(plain *p)
{
    if (p->next < p->end) return *p->next++;
    p->ended = 1;
    return 0;
}

static inline uint64_t plain_below(plain *p, uint64_t n)
{
    const uint64_t past = (UINT64_MAX % n + 1) % n; /* 2^64 modulo n */
    for (;;) {
        const uint64_t word = plain_word(p);
        if (p->ended || word <= UINT64_MAX - past) return word % n;
    }
}

/* Floyd's: of ranks from `first` on. */
static inline void plain_subset(plain *p, int64_t first, uint64_t n, size_t m, int64_t *rank)
{
    for (size_t i = 0; i < m; i++) {
        const uint64_t last = n - m + i;
        int64_t at = first + (int64_t)(last ? plain_below(p, last + 1) : 0);
        for (size_t j = 0; j < i; j++)
            if (rank[j] == at) {
                at = first + (int64_t)last;
                break;
            }
        rank[i] = at;
    }
}

/* Each once, and below n. */
static inline void check_distinct(const int64_t *item, size_t k, uint64_t n)
{
    for (size_t i = 0; i < k; i++) {
        CHECK(item[i] >= 0 && (uint64_t)item[i] < n);
        for (size_t j = 0; j < i; j++) CHECK(item[j] != item[i]);
    }
}

#endif
