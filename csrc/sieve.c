/* sieve.c - the items whose noisy scores may be above a floor, by the first bits of each U.
 *
 * The bits come by planes: a word has the first bits of U of 64 items, the next word their second
 * bits, and so on. So few bits an item are drawn, and a few operations on words tell which of 64
 * items have none but zeros. The other half is a comparison of each score in its own type: no other
 * pass over many scores is as fast that draws noise of all. Its vector forms are in filter.c and
 * filter_avx512.c. */
#include "draw_impl.h"
#include "sieve_impl.h"

/* Where the set bits of a block are, from `first` on, into place[held...]; returns where they
 * end. */
static inline size_t mark_near(uint64_t in, int32_t first, int32_t *place, size_t held)
{
    for (; in; in >>= 1) {
        place[held] = first++;
        held += in & 1;
    }
    return held;
}

#define MESH(name, code, type, bits, watchable)                                                    \
    MESH_BEGIN(, portable, name, type)                                                             \
    MESH_END(name, code, type)
#define ENTRY(name, code, type, bits, watchable) [code] = name##_mesh_portable,
DPTK_MESH_TYPES(MESH)
static dptk_meshes portable = {DPTK_MESH_TYPES(ENTRY)};

/* By SIMD level. */
static dptk_meshes *const by_level[] = {
    &portable,
#if DPTK_VECTORS
    &dptk_mesh_vectors,
#endif
#if DPTK_X86
    &dptk_mesh_avx512,
#endif
};

size_t dptk_sieve_room(size_t capacity) { return capacity + DPTK_CHUNK; }

static size_t blocks(size_t n) { return (n + DPTK_WORD - 1) / DPTK_WORD; }

/* Of n blocks, which have zeros alone in their first bits; or again: which have, but for the bit
 * behind them. */
static inline void find_low(const uint64_t *restrict plane, size_t n, int planes, int bits,
                            int again, uint64_t *restrict low)
{
    for (size_t block = 0; block < n; block++, plane += planes) {
        uint64_t some = 0;
        for (int i = 0; i < bits; i++) some |= plane[i];
        low[block] = again ? plane[bits] & ~some : ~some;
    }
}

/* The same, without a loop over the planes where they are as many as most sieves have. */
static void find_low_fast(const uint64_t *plane, size_t n, int planes, int bits, int again,
                          uint64_t *low)
{
    switch (again ? 0 : bits) {
    case 3:
        find_low(plane, n, 3, 3, 0, low);
        break;
    case 4:
        find_low(plane, n, 4, 4, 0, low);
        break;
    case 5:
        find_low(plane, n, 5, 5, 0, low);
        break;
    default:
        find_low(plane, n, planes, bits, again, low);
    }
}

/* What follows of U where the first `known` bits are zeros, but for the last of them (again): for
 * those whose score is at most the key. One whose score is larger was let through whatever its
 * planes are, and they are left alone. */
#define LEADS_OF(target, level, kind, key_of)                                                      \
    target static void leads_##kind##_##level(const int64_t *restrict score, size_t n,             \
                                              int64_t key, int known, uint16_t start,              \
                                              uint16_t *restrict lead)                             \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            const uint16_t after = (uint16_t)(start | lead[i] >> known);                           \
            lead[i] = key_of > key ? lead[i] : after;                                              \
        }                                                                                          \
    }
#define LEADS_AT(target, level)                                                                    \
    LEADS_OF(target, level, whole, score[i])                                                       \
    LEADS_OF(target, level, real, bits_key(score[i]))
typedef void leads_fn(const int64_t *score, size_t n, int64_t key, int known, uint16_t start,
                      uint16_t *lead);

LEADS_AT(, portable)
#if DPTK_X86
LEADS_AT(DPTK_AVX2, avx2)
LEADS_AT(DPTK_AVX512, avx512)
#endif

/* By SIMD level, of integers and of floats. */
static leads_fn *const leads_at[][2] = {
    {leads_whole_portable, leads_real_portable},
#if DPTK_X86
    {leads_whole_avx2, leads_real_avx2},
    {leads_whole_avx512, leads_real_avx512},
#elif DPTK_NEON
    {leads_whole_portable, leads_real_portable}, /* which the compiler's vectors are part of */
#endif
};

/* The first bits of U of those from `from` on. */
static int add_leads(dptk_sieve *s, size_t from, int again, dptk_rng *rng)
{
    const size_t n = s->through.n - from;
    const int real = s->through.type == DPTK_F64, known = s->bits + again;
    const uint16_t start = (uint16_t)(again << (16 - known));
    const int status = words_at_hand(rng, leads(n));
    if (status != DPTK_OK) return status;
    leads_of(rng->next, 0, n, s->lead + from);
    rng->next += leads(n);
    leads_at[dptk_simd_get()][real](s->score + from, n, s->key, known, start, s->lead + from);
    return DPTK_OK;
}

/* Let through what the key and the bits say; or again: what one bit less lets through. */
static int sift(dptk_sieve *s, int again, dptk_rng *rng)
{
    dptk_mesh_fn *const mesh = (*by_level[dptk_simd_get()])[s->col->type];
    const size_t held = s->through.n;
    size_t n = held, count;
    int64_t buffer[DPTK_CHUNK];
    uint64_t low[DPTK_CHUNK / DPTK_WORD];
    int32_t place[DPTK_CHUNK + DPTK_WORD];
    int odd = 0;
    for (size_t first = 0; first < s->col->n && n < s->capacity; first += count) {
        const char *const data = dptk_packed_from(s->col, first, buffer, &count);
        if (count > DPTK_CHUNK) count = DPTK_CHUNK;
        const uint64_t *const plane = s->word + first / DPTK_WORD * (size_t)s->planes;
        find_low_fast(plane, blocks(count), s->planes, s->bits, again, low);
        n += mesh(data, count, first, s->key + 1, low, again, place, s->index + n, s->score + n,
                  &odd);
    }
    s->through.n = n;
    dptk_wipe(low, sizeof low);
    dptk_wipe(place, sizeof place);
    dptk_burn_stack(); /* of the mesh */
    return odd ? DPTK_NAN : n >= s->capacity ? DPTK_SCRATCH : add_leads(s, held, again, rng);
}

int dptk_sieve_start(dptk_sieve *s, dptk_rng *rng)
{
    const size_t words = blocks(s->col->n) * (size_t)s->bits;
    int status;
    s->through = (dptk_column){.data = (const char *)s->score,
                               .stride = sizeof *s->score,
                               .type = s->col->type >= DPTK_F32 ? DPTK_F64 : DPTK_I64};
    s->planes = s->bits;
    status = words_at_hand(rng, words);
    if (status != DPTK_OK) return status;
    s->word = rng->next;
    rng->next += words;
    return sift(s, 0, rng);
}

int dptk_sieve_widen(dptk_sieve *s, dptk_rng *rng)
{
    s->bits--;
    return sift(s, 1, rng);
}
