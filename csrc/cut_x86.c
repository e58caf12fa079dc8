/* cut_x86.c - the AVX2 and AVX-512 forms of counting counts. */
#include "cut_impl.h"

#if DPTK_X86
#include <immintrin.h>
#include <string.h>

/* Real counts are mostly a few small values. So each key becomes a byte: its
 * value plus 0x70, saturated, so that the high bit stands for
 * values from 16 up. A table look-up by bytes turns the others into
 * increments of 16 counters; keys with the high bit are noted in rest[] and
 * counted one by one. */
enum { SMALL = 16, NOTES = 4, BASE = 0x70 };

/* Note the set bits: four without a branch, since a branch would miss at every
 * block, and the rest, if any, in a loop. */
DPTK_AVX2 static inline size_t note(uint64_t bits, size_t first, uint16_t *rest)
{
    const size_t count = (size_t)_mm_popcnt_u64(bits);

    for (size_t k = 0; k < NOTES || k < count; k++) {
        rest[k] = (uint16_t)(first + _tzcnt_u64(bits));
        bits = _blsr_u64(bits);
    }
    return count;
}

/* The packing instructions work within 128-bit lanes: byte t of a block of
 * 8 vectors of `width` words each is that of this word of the block. */
static inline size_t place(size_t t, size_t width)
{
    return t / 2 % 8 * width + t / 16 * 2 + t % 2;
}

DPTK_AVX2 static size_t narrow_avx2(const int64_t *keys, size_t n, uint8_t *bytes, uint16_t *rest,
                                    int16_t *copy)
{
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i wide = _mm256_set1_epi64x(~(int64_t)INT32_MAX);
    size_t left = 0;

    for (size_t i = 0; i < n; i += 32) {
        const __m256i *p = (const __m256i *)(const void *)(keys + i);
        __m256i key[8], half[4], some = _mm256_setzero_si256();

        for (int j = 0; j < 8; j++) {
            key[j] = _mm256_loadu_si256(p + j);
            some = _mm256_or_si256(some, key[j]);
        }
        for (int j = 0; j < 4; j++)
            half[j] = _mm256_castps_si256(_mm256_shuffle_ps(
                _mm256_castsi256_ps(key[2 * j]), _mm256_castsi256_ps(key[2 * j + 1]), 0x88));
        const __m256i low_half = _mm256_packs_epi32(half[0], half[1]);
        const __m256i high_half = _mm256_packs_epi32(half[2], half[3]);
        __m256i all = _mm256_packus_epi16(low_half, high_half);
        if (copy) {
            __m256i *const to = (__m256i *)(void *)(copy + i);
            _mm256_storeu_si256(to, _mm256_permutevar8x32_epi32(low_half, in_order));
            _mm256_storeu_si256(to + 1, _mm256_permutevar8x32_epi32(high_half, in_order));
        }
        if (!_mm256_testz_si256(some, wide)) { /* the packing lost high bits: nothing is small */
            all = _mm256_set1_epi8(-1);
            if (copy) dptk_clip(keys + i, 32, copy + i);
        }
        all = _mm256_adds_epu8(all, _mm256_set1_epi8(BASE));
        _mm256_storeu_si256((__m256i *)(void *)(bytes + i), all);
        left += note((uint32_t)_mm256_movemask_epi8(all), i, rest + left);
    }
    return left;
}

DPTK_AVX512 static size_t narrow_avx512(const int64_t *keys, size_t n, uint8_t *bytes,
                                        uint16_t *rest, int16_t *copy)
{
    const __m512i in_order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i wide = _mm512_set1_epi64(~(int64_t)INT32_MAX);
    size_t left = 0;

    for (size_t i = 0; i < n; i += 64) {
        __m512i key[8], half[4], some = _mm512_setzero_si512();

        for (int j = 0; j < 8; j++) key[j] = _mm512_loadu_si512(keys + i + 8 * j);
        for (int j = 0; j < 8; j += 2)
            some = _mm512_ternarylogic_epi64(some, key[j], key[j + 1], 0xFE); /* OR of three */
        for (int j = 0; j < 4; j++)
            half[j] = _mm512_castps_si512(_mm512_shuffle_ps(
                _mm512_castsi512_ps(key[2 * j]), _mm512_castsi512_ps(key[2 * j + 1]), 0x88));
        const __m512i low_half = _mm512_packs_epi32(half[0], half[1]);
        const __m512i high_half = _mm512_packs_epi32(half[2], half[3]);
        __m512i all = _mm512_packus_epi16(low_half, high_half);
        if (copy) {
            _mm512_storeu_si512(copy + i, _mm512_permutexvar_epi32(in_order, low_half));
            _mm512_storeu_si512(copy + i + 32, _mm512_permutexvar_epi32(in_order, high_half));
        }
        if (_mm512_test_epi64_mask(some, wide)) { /* as above */
            all = _mm512_set1_epi8(-1);
            if (copy) dptk_clip(keys + i, 64, copy + i);
        }
        all = _mm512_adds_epu8(all, _mm512_set1_epi8(BASE));
        _mm512_storeu_si512(bytes + i, all);
        left += note(_mm512_movepi8_mask(all), i, rest + left);
    }
    return left;
}

/* How many of the bytes are BASE + off, for each off below SMALL; n a multiple
 * of RUN vectors. Two counters a byte, which RUN vectors can't wrap, then one,
 * which a chunk of 64 vectors can't. */
enum { RUN = 8, PADDED = RUN * 32 };

DPTK_AVX2 static void count_bytes(const uint8_t *bytes, size_t n, uint64_t *small)
{
    static const uint8_t entries[SMALL / 2][16] = {
        {[0] = 0x01, [1] = 0x10},   {[2] = 0x01, [3] = 0x10},   {[4] = 0x01, [5] = 0x10},
        {[6] = 0x01, [7] = 0x10},   {[8] = 0x01, [9] = 0x10},   {[10] = 0x01, [11] = 0x10},
        {[12] = 0x01, [13] = 0x10}, {[14] = 0x01, [15] = 0x10},
    };
    const __m256i nibble = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();

    for (int pair = 0; pair < SMALL / 2; pair += 4) {
        __m256i table[4], even[4], odd[4];

        for (int j = 0; j < 4; j++) {
            table[j] = _mm256_broadcastsi128_si256(
                _mm_loadu_si128((const __m128i *)(const void *)entries[pair + j]));
            even[j] = odd[j] = zero;
        }
        for (size_t i = 0; i < n; i += PADDED) {
            __m256i both[4] = {zero, zero, zero, zero};
            for (int k = 0; k < RUN; k++) {
                const __m256i all =
                    _mm256_loadu_si256((const __m256i *)(const void *)(bytes + i) + k);
                for (int j = 0; j < 4; j++)
                    both[j] = _mm256_add_epi8(both[j], _mm256_shuffle_epi8(table[j], all));
            }
            for (int j = 0; j < 4; j++) {
                const __m256i high = _mm256_srli_epi16(both[j], 4);
                even[j] = _mm256_add_epi8(even[j], _mm256_and_si256(both[j], nibble));
                odd[j] = _mm256_add_epi8(odd[j], _mm256_and_si256(high, nibble));
            }
        }
        for (int j = 0; j < 4; j++) { /* two sums of 4 words in the halves of one */
            const __m256i sums =
                _mm256_or_si256(_mm256_sad_epu8(even[j], zero),
                                _mm256_slli_epi64(_mm256_sad_epu8(odd[j], zero), 32));
            const __m128i two =
                _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
            const uint64_t sum =
                (uint64_t)_mm_cvtsi128_si64(two) + (uint64_t)_mm_extract_epi64(two, 1);
            small[2 * (pair + j)] = sum & UINT32_MAX;
            small[2 * (pair + j) + 1] = sum >> 32;
        }
    }
}

typedef size_t narrow_fn(const int64_t *keys, size_t n, uint8_t *bytes, uint16_t *rest,
                         int16_t *copy);

/* width: words a vector. */
static inline size_t tally(narrow_fn *narrow, size_t width, const int64_t *keys, size_t n,
                           size_t span, uint32_t *lanes, int16_t *copy)
{
    const size_t block = 8 * width, whole = n / block * block;
    uint8_t bytes[DPTK_CHUNK];
    uint16_t rest[DPTK_CHUNK + NOTES];
    int64_t others[DPTK_CHUNK];
    uint64_t small[SMALL];
    const size_t left = narrow(keys, whole, bytes, rest, copy);

    const size_t padded = (whole + PADDED - 1) / PADDED * PADDED;
    memset(bytes + whole, 0xFF, padded - whole);
    count_bytes(bytes, padded, small);
    for (size_t off = 0; off < SMALL; off++)
        lanes[(off < span ? off : span) * DPTK_LANES] += (uint32_t)small[off];
    for (size_t k = 0; k < left; k++)
        others[k] = keys[rest[k] / block * block + place(rest[k] % block, width)];
    dptk_tally_portable(others, left, span, lanes, NULL);
    dptk_tally_portable(keys + whole, n - whole, span, lanes, copy ? copy + whole : NULL);
    return left;
}

size_t dptk_tally_avx2(const int64_t *keys, size_t n, size_t span, uint32_t *lanes, int16_t *copy)
{
    return tally(narrow_avx2, 4, keys, n, span, lanes, copy);
}

size_t dptk_tally_avx512(const int64_t *keys, size_t n, size_t span, uint32_t *lanes, int16_t *copy)
{
    return tally(narrow_avx512, 8, keys, n, span, lanes, copy);
}

/* Compressed in a register: to memory it takes a hundred cycles on some machines. A store writes
 * over what was read, or what will be written. */
DPTK_AVX512 size_t dptk_between_avx512(const int64_t *keys, size_t n, int64_t least, int64_t most,
                                       int64_t *to, size_t *i, size_t *above)
{
    const __m512i low = _mm512_set1_epi64(least), high = _mm512_set1_epi64(most);
    size_t kept = 0;

    for (; n - *i >= 8; *i += 8) {
        const __m512i key = _mm512_loadu_si512(keys + *i);
        const __mmask8 over = _mm512_cmpgt_epi64_mask(key, high);
        const __mmask8 in = _mm512_mask_cmpge_epi64_mask((__mmask8)~over, key, low);
        _mm512_storeu_si512(to + kept, _mm512_maskz_compress_epi64(in, key));
        kept += (size_t)_mm_popcnt_u32(in);
        *above += (size_t)_mm_popcnt_u32(over);
    }
    return kept;
}

DPTK_AVX512 size_t dptk_keep_avx512(const int64_t *keys, const int64_t *index, size_t n, size_t m,
                                    int64_t tau, int64_t *keys_to, int64_t *index_to, size_t *i,
                                    size_t *ties)
{
    const __m512i limit = _mm512_set1_epi64(tau);
    size_t kept = 0;

    for (; n - *i >= 8 && m - kept >= 8; *i += 8) {
        const __m512i key = _mm512_loadu_si512(keys + *i), at = _mm512_loadu_si512(index + *i);
        const uint32_t some = *ties < 8 ? (1u << *ties) - 1 : 255; /* the first of those equal */
        const uint32_t equal = _pdep_u32(some, _mm512_cmpeq_epi64_mask(key, limit));
        const __mmask8 in = (__mmask8)(_mm512_cmpgt_epi64_mask(key, limit) | equal);
        _mm512_storeu_si512(keys_to + kept, _mm512_maskz_compress_epi64(in, key));
        _mm512_storeu_si512(index_to + kept, _mm512_maskz_compress_epi64(in, at));
        kept += (size_t)_mm_popcnt_u32(in);
        *ties -= (size_t)_mm_popcnt_u32(equal);
    }
    return kept;
}
#endif
