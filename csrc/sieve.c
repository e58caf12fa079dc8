/* sieve.c - the items whose noisy scores may be above a floor, by the first byte of each U.
 *
 * A byte of noise an item, and a comparison of its score in its own type: no other pass over many
 * scores is as fast that draws noise of all. Its AVX-512 form is in filter_avx512.c. */
#include "sieve_impl.h"
#include "variate.h"

#include <string.h>

enum { BYTES = 8 }; /* first bytes in a word */

#define MESH(name, code, type, bits, watchable)                                                    \
    static size_t name##_portable(const char *data, const uint8_t *byte, size_t n, int64_t bound,  \
                                  uint8_t most, uint32_t *at, int64_t *score)                      \
    {                                                                                              \
        size_t held = 0, i = 0;                                                                    \
        type edge;                                                                                 \
        const int any = name##_edge(bound, 0, &edge);                                              \
        MESH_SCORES(name, code, type, i, n)                                                        \
        return held;                                                                               \
    }
#define ENTRY(name, code, type, bits, watchable) [code] = name##_portable,
DPTK_TYPES(MESH)
static dptk_mesh_fn *const portable[] = {DPTK_TYPES(ENTRY)};

/* By SIMD level. */
static dptk_mesh_fn *const *const by_level[] = {
    portable,
#if DPTK_X86
    portable,
    dptk_mesh_avx512,
#elif DPTK_NEON
    portable,
#endif
};

size_t dptk_sieve_room(size_t capacity) { return capacity + DPTK_CHUNK; }

static inline uint8_t byte_of(const uint64_t *word, size_t i)
{
    return (uint8_t)(word[i / BYTES] >> 8 * (i % BYTES));
}

/* The first bytes of U of n items from a multiple of BYTES on: where they stand, if low bytes come
 * first there. */
static const uint8_t *bytes_of(const uint64_t *word, size_t first, size_t n, uint8_t *buffer)
{
    if (low_bytes_first()) return (const uint8_t *)(word + first / BYTES);
    for (size_t i = 0; i < n; i++) buffer[i] = byte_of(word, first + i);
    return buffer;
}

/* Of items let through once more keep those that an earlier byte did not let through. */
static size_t keep_new(const dptk_sieve *s, const uint8_t *byte, int before, uint32_t *at,
                       int64_t *score, size_t n)
{
    const int real = s->through.type == DPTK_F64;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t own = score[i], key = real ? bits_key(own) : own;
        at[kept] = at[i];
        score[kept] = own;
        kept += (size_t)((byte[at[i]] > before) & (key <= s->key));
    }
    return kept;
}

/* The further bytes of those from `first` on. */
static int add_bytes(dptk_sieve *s, size_t first, dptk_rng *rng)
{
    const size_t n = s->through.n - first, words = (n + BYTES - 1) / BYTES;
    const int status = words_at_hand(rng, words);
    if (status != DPTK_OK) return status;
    for (size_t i = 0; i < n; i++) s->lead[first + i] |= byte_of(rng->next, i);
    rng->next += words;
    return DPTK_OK;
}

/* Let through what the key and the byte say, but for what an earlier byte let through. */
static int sift(dptk_sieve *s, int before, dptk_rng *rng)
{
    dptk_mesh_fn *const mesh = by_level[dptk_simd_get()][s->col->type];
    const int64_t bound = before < 0 ? s->key + 1 : INT64_MAX;
    const size_t held = s->through.n;
    size_t n = held, count;
    int64_t buffer[DPTK_CHUNK];
    uint8_t byte_buffer[DPTK_CHUNK];
    uint32_t at[DPTK_CHUNK];
    for (size_t first = 0; first < s->col->n && n < s->capacity; first += count) {
        const char *const data = dptk_packed_from(s->col, first, buffer, &count);
        if (count > DPTK_CHUNK) count = DPTK_CHUNK;
        const uint8_t *const byte = bytes_of(s->word, first, count, byte_buffer);
        size_t more = mesh(data, byte, count, bound, (uint8_t)s->byte, at, s->score + n);
        if (before >= 0) more = keep_new(s, byte, before, at, s->score + n, more);
        for (size_t i = 0; i < more; i++) {
            s->index[n + i] = (int64_t)(first + at[i]);
            s->lead[n + i] = (uint16_t)(byte[at[i]] << 8);
        }
        n += more;
    }
    s->through.n = n;
    dptk_wipe(at, sizeof at); /* where U is small */
    return n < s->capacity ? add_bytes(s, held, rng) : DPTK_SCRATCH;
}

int dptk_sieve_start(dptk_sieve *s, dptk_rng *rng)
{
    const size_t words = (s->col->n + BYTES - 1) / BYTES;
    int status;
    s->through = (dptk_column){.data = (const char *)s->score,
                               .stride = sizeof *s->score,
                               .type = s->col->type >= DPTK_F32 ? DPTK_F64 : DPTK_I64};
    status = words_at_hand(rng, words);
    if (status != DPTK_OK) return status;
    s->word = rng->next;
    rng->next += words;
    return sift(s, -1, rng);
}

int dptk_sieve_widen(dptk_sieve *s, dptk_rng *rng)
{
    const int before = s->byte;
    s->byte = before < UINT8_MAX / 2 ? 2 * before + 1 : UINT8_MAX;
    return sift(s, before, rng);
}
