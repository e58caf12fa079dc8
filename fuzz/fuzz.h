/* fuzz.h - what the targets share: an input as a stream of bytes, and a check that is not left out
 * by NDEBUG. */
#ifndef FUZZ_H
#define FUZZ_H

#include "dptk.h"

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

#endif
