/* rng.c - tapes of random words, and the ChaCha20 that fills the secure one.
 *
 * Fast key erasure: every batch has a key of its own, which is overwritten
 * by the batch's first 32 bytes before a word of it is read. So who reads the
 * memory of the process later learns no word that was read earlier and wiped.
 * Left out of that promise: what the compiler left in registers.
 *
 * A batch is 32 blocks (nonce 0, counters 0..31) in lane order: word i of all
 * 32 blocks, then word i + 1. A stream has no need of block order, and a
 * vector holds one word of many blocks: nothing has to be transposed. Two sets
 * of the widest vectors make a batch: while one waits for a sum, the other goes on.
 */
#include "dptk.h"
#include "simd.h"
#include "variate.h"

#include <string.h>
#if DPTK_X86
#include <immintrin.h>
#endif

#define BLOCKS 32
#define BATCH_WORDS (BLOCKS * 16) /* of 32 bits */

void dptk_wipe(void *memory, size_t n)
{
#if DPTK_GNU
    memset(memory, 0, n);
    __asm__ volatile("" : : "r"(memory) : "memory");
#else
    volatile unsigned char *bytes = memory;
    while (n--) *bytes++ = 0;
#endif
}

/* ---- tapes --------------------------------------------------------------- */

static int no_more(dptk_rng *rng, size_t n)
{
    (void)rng, (void)n;
    return DPTK_TAPE_END;
}

static void rng_init(dptk_rng *rng, const uint64_t *words, size_t n,
                     int (*refill)(dptk_rng *, size_t))
{
    rng->first = rng->next = words;
    rng->end = words + n;
    rng->refill = refill;
}

void dptk_tape_init(dptk_rng *rng, const uint64_t *words, size_t n)
{
    rng_init(rng, words, n, no_more);
}

void dptk_rewind(dptk_rng *rng) { rng->next = rng->first; }

/* ---- buffers ------------------------------------------------------------- */

static void buffer_init(dptk_buffer *b, uint64_t *words, size_t capacity,
                        int (*refill)(dptk_rng *, size_t))
{
    rng_init(&b->rng, words, 0, refill);
    b->words = words;
    b->capacity = capacity;
}

static size_t room(const dptk_buffer *b) { return b->capacity - (size_t)(b->rng.end - b->words); }

void dptk_buffer_begin(dptk_buffer *b)
{
    dptk_rng *rng = &b->rng;
    const size_t unread = (size_t)(rng->end - rng->next);
    const size_t read = (size_t)(rng->next - rng->first);
    dptk_wipe(b->words + (rng->first - b->words), read * sizeof *b->words);
    rng->first = rng->next;
    /* With nothing unread, start at the front for free. Else move seldom:
     * when less than half of the buffer is left for this call. */
    if (unread == 0 || room(b) < b->capacity / 2) {
        const size_t used = (size_t)(rng->end - b->words);
        memmove(b->words, rng->next, unread * sizeof *b->words);
        dptk_wipe(b->words + unread, (used - unread) * sizeof *b->words);
        rng_init(rng, b->words, unread, rng->refill);
    }
}

void dptk_buffer_grow(dptk_buffer *b, uint64_t *words, size_t capacity)
{
    dptk_rng *rng = &b->rng;
    const size_t read = (size_t)(rng->next - rng->first);
    const size_t held = (size_t)(rng->end - rng->first);
    memcpy(words, rng->first, held * sizeof *words);
    dptk_wipe(b->words, b->capacity * sizeof *words);
    b->words = words;
    b->capacity = capacity;
    rng_init(rng, words, held, rng->refill);
    rng->next = words + read;
}

static int drawn_refill(dptk_rng *rng, size_t n)
{
    (void)n;
    dptk_drawn *d = (dptk_drawn *)rng;
    if (room(&d->buffer) == 0) return DPTK_TAPE_END;
    d->buffer.words[rng->end - d->buffer.words] = d->draw(d->state);
    rng->end++;
    return DPTK_OK;
}

void dptk_drawn_init(dptk_drawn *d, uint64_t (*draw)(void *state), void *state, uint64_t *words,
                     size_t capacity)
{
    buffer_init(&d->buffer, words, capacity, drawn_refill);
    d->draw = draw;
    d->state = state;
}

/* ---- ChaCha20 (RFC 8439) on lanes: T is a uint32_t, or a vector of them -- */

#define ROTL(x, r) ((x) << (r) | (x) >> (32 - (r)))

/* A quarter round on (a, b, c, d) is these four steps. */
#define STEP(rotl, x, y, z, r) (x += y, z ^= x, z = rotl(z, r))
#define STEP1(rotl, v, a, b, c, d) STEP(rotl, v[a], v[b], v[d], 16)
#define STEP2(rotl, v, a, b, c, d) STEP(rotl, v[c], v[d], v[b], 12)
#define STEP3(rotl, v, a, b, c, d) STEP(rotl, v[a], v[b], v[d], 8)
#define STEP4(rotl, v, a, b, c, d) STEP(rotl, v[c], v[d], v[b], 7)

/* On each of the sets of 16 that there are. */
#define EACH(...)                                                                                  \
    for (int set = 0; set < sets; set++) __VA_ARGS__

/* Each quarter round starts a step after the one before it. In step with one another, all would
 * shift at once and all would add at once, and a core has fewer units for shifts than for sums. */
#define DOUBLE_ROUND(q0, q1, q2, q3, q4, q5, q6, q7)                                               \
    do {                                                                                           \
        EACH(STEP1 q0);                                                                            \
        EACH(STEP1 q1, STEP2 q0);                                                                  \
        EACH(STEP1 q2, STEP2 q1, STEP3 q0);                                                        \
        EACH(STEP1 q3, STEP2 q2, STEP3 q1, STEP4 q0);                                              \
        EACH(STEP2 q3, STEP3 q2, STEP4 q1);                                                        \
        EACH(STEP3 q3, STEP4 q2);                                                                  \
        EACH(STEP1 q4, STEP4 q3);                                                                  \
        EACH(STEP1 q5, STEP2 q4);                                                                  \
        EACH(STEP1 q6, STEP2 q5, STEP3 q4);                                                        \
        EACH(STEP1 q7, STEP2 q6, STEP3 q5, STEP4 q4);                                              \
        EACH(STEP2 q7, STEP3 q6, STEP4 q5);                                                        \
        EACH(STEP3 q7, STEP4 q6);                                                                  \
        EACH(STEP4 q7);                                                                            \
    } while (0)

/* The diagonal of v[3] is the first of the four: what it reads is ready first. */
#define TEN_DOUBLE_ROUNDS(rotl, v)                                                                 \
    for (int round = 0; round < 10; round++)                                                       \
    DOUBLE_ROUND((rotl, v[set], 0, 4, 8, 12), (rotl, v[set], 1, 5, 9, 13),                         \
                 (rotl, v[set], 2, 6, 10, 14), (rotl, v[set], 3, 7, 11, 15),                       \
                 (rotl, v[set], 3, 4, 9, 14), (rotl, v[set], 0, 5, 10, 15),                        \
                 (rotl, v[set], 1, 6, 11, 12), (rotl, v[set], 2, 7, 8, 13))

static const uint32_t SIGMA[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
static const uint32_t COUNTERS[BLOCKS] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                          11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                          22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

void dptk_chacha20_block(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3],
                         uint32_t out[16])
{
    enum { sets = 1 };
    uint32_t start[16], v[sets][16];
    memcpy(start, SIGMA, sizeof SIGMA);
    memcpy(start + 4, key, 32);
    start[12] = counter;
    memcpy(start + 13, nonce, 12);
    memcpy(v[0], start, sizeof start);
    TEN_DOUBLE_ROUNDS(ROTL, v);
    for (int i = 0; i < 16; i++) out[i] = v[0][i] + start[i];
}

/* The batch's blocks, as many at a time as some sets of T have lanes. A macro, since a vector wider
 * than the function's target is split up before inlining. The start is made twice: to keep it would
 * take as many registers as v. Stored as T_memory, since gcc makes of a memcpy moves of 16 bytes. */
#define DEFINE_BATCH(NAME, TARGET, T, SETS, rotl)                                                  \
    TARGET static void NAME(const uint32_t key[8], uint32_t out[BATCH_WORDS])                      \
    {                                                                                              \
        enum { sets = SETS, lanes = sizeof(T) / sizeof(uint32_t) };                                \
        for (int block = 0; block < BLOCKS; block += sets * lanes) {                               \
            const T zero = {0};                                                                    \
            T counters, v[sets][16];                                                               \
            for (int set = 0; set < sets; set++) {                                                 \
                memcpy(&counters, COUNTERS + block + set * lanes, sizeof(T));                      \
                for (int i = 0; i < 4; i++) v[set][i] = zero + SIGMA[i];                           \
                for (int i = 0; i < 8; i++) v[set][4 + i] = zero + key[i];                         \
                v[set][12] = counters;                                                             \
                v[set][13] = v[set][14] = v[set][15] = zero;                                       \
            }                                                                                      \
            TEN_DOUBLE_ROUNDS(rotl, v);                                                            \
            for (int set = 0; set < sets; set++) {                                                 \
                T##_memory *const to = (T##_memory *)(out + block) + set;                          \
                memcpy(&counters, COUNTERS + block + set * lanes, sizeof(T));                      \
                for (int i = 0; i < 4; i++) v[set][i] += SIGMA[i];                                 \
                for (int i = 0; i < 8; i++) v[set][4 + i] += key[i];                               \
                v[set][12] += counters;                                                            \
                for (int i = 0; i < 16; i++) to[i * BLOCKS / lanes] = v[set][i];                   \
            }                                                                                      \
        }                                                                                          \
    }

#if DPTK_GNU
#define LANES(n)                                                                                   \
    typedef uint32_t lanes##n __attribute__((vector_size(4 * n)));                                 \
    typedef uint32_t lanes##n##_memory __attribute__((vector_size(4 * n), aligned(4), may_alias))
LANES(4);
DEFINE_BATCH(batch_portable, , lanes4, 1, ROTL)
#else
typedef uint32_t lanes1, lanes1_memory;
DEFINE_BATCH(batch_portable, , lanes1, 1, ROTL)
#endif

#if DPTK_X86
LANES(8);
LANES(16);

/* AVX2 has no rotation; by 16 and by 8 bits, whole bytes move: a shuffle for three operations. */
DPTK_AVX2 static inline lanes8 rotl_avx2(lanes8 x, int r)
{
    const __m256i by_16 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    const __m256i by_8 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14));
    if (r == 16) return (lanes8)_mm256_shuffle_epi8((__m256i)x, by_16);
    if (r == 8) return (lanes8)_mm256_shuffle_epi8((__m256i)x, by_8);
    return ROTL(x, r);
}

DEFINE_BATCH(batch_avx2, DPTK_AVX2, lanes8, 1, rotl_avx2)
DEFINE_BATCH(batch_avx512, DPTK_AVX512, lanes16, 2, ROTL)
#endif

/* By SIMD level. */
static void (*const batches[])(const uint32_t key[8], uint32_t out[BATCH_WORDS]) = {
    batch_portable,
#if DPTK_X86
    batch_avx2,
    batch_avx512,
#elif DPTK_NEON
    batch_portable, /* which the compiler's vectors are part of */
#endif
};

/* Takes c->key, leaves the next one in its place. */
DPTK_NOINLINE static void make_batch(dptk_chacha *c, uint64_t words[DPTK_CHACHA_BATCH])
{
    uint32_t out[BATCH_WORDS];
    batches[dptk_simd_get()](c->key, out);
    memcpy(c->key, out, sizeof c->key);
    if (low_bytes_first()) { /* as the loop does, but faster */
        memcpy(words, out + 8, DPTK_CHACHA_BATCH * sizeof *words);
        return;
    }
    for (size_t j = 0; j < DPTK_CHACHA_BATCH; j++)
        words[j] = out[8 + 2 * j] | (uint64_t)out[9 + 2 * j] << 32;
}

/* What make_batch and its callee left on the stack: the batch, and copies of
 * the key that was erased. A test has how large their frames are. */
DPTK_NOINLINE static void burn_batch(void)
{
    unsigned char frames[8192];
    dptk_wipe(frames, sizeof frames);
}

DPTK_NOINLINE void dptk_burn_stack(void)
{
    unsigned char frames[4096];
    dptk_wipe(frames, sizeof frames);
}

static int chacha_refill(dptk_rng *rng, size_t n)
{
    dptk_chacha *c = (dptk_chacha *)rng;
    if (room(&c->buffer) < DPTK_CHACHA_BATCH) return DPTK_TAPE_END;
    do {
        make_batch(c, c->buffer.words + (rng->end - c->buffer.words));
        rng->end += DPTK_CHACHA_BATCH;
    } while ((size_t)(rng->end - rng->next) < n && room(&c->buffer) >= DPTK_CHACHA_BATCH);
    burn_batch();
    return DPTK_OK;
}

void dptk_chacha_init(dptk_chacha *c, const uint8_t key[32], uint64_t *words, size_t capacity)
{
    buffer_init(&c->buffer, words, capacity, chacha_refill);
    for (int i = 0; i < 8; i++, key += 4)
        c->key[i] =
            key[0] | (uint32_t)key[1] << 8 | (uint32_t)key[2] << 16 | (uint32_t)key[3] << 24;
}

void dptk_chacha_wipe(dptk_chacha *c)
{
    dptk_wipe(c->key, sizeof c->key);
    dptk_wipe(c->buffer.words, c->buffer.capacity * sizeof *c->buffer.words);
    buffer_init(&c->buffer, c->buffer.words, c->buffer.capacity, no_more);
}
