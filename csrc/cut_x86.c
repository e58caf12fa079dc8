/* cut_x86.c - the AVX2 and AVX-512 forms of the two loops of cut_impl.h, and
 * the table that lists them. Target attributes stand on the functions, so that
 * the file is built with the flags of every other and one wheel runs anywhere.
 * Every level gives the same bits. */
#include "cut_impl.h"

static int always(void)
{
    return 1;
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define DPTK_X86 1
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

/* __builtin_cpu_supports also checks that the system saves the registers. */
static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2") != 0;
}

static int has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static inline size_t put_bits(uint32_t bits, size_t first, uint32_t *hits)
{
    size_t count = 0;
    for (; bits; bits &= bits - 1)
        hits[count++] = (uint32_t)first + (uint32_t)__builtin_ctz(bits);
    return count;
}

/* The last keys of a chunk, fewer than a step. */
static inline size_t scan_tail(const int64_t *keys, size_t first, size_t n, int64_t tau,
                               uint32_t *hits, int64_t *any)
{
    size_t count = 0;
    for (size_t i = first; i < n; i++) {
        *any |= keys[i];
        if (keys[i] > tau)
            hits[count++] = (uint32_t)i;
    }
    return count;
}

AVX2 static size_t scan_avx2(const int64_t *keys, size_t n, int64_t tau,
                             uint32_t *hits, int64_t *any)
{
    const __m256i bound = _mm256_set1_epi64x(tau);
    __m256i seen = _mm256_setzero_si256();
    size_t count = 0, i = 0;

    for (; i + 16 <= n; i += 16) {
        const __m256i *p = (const __m256i *)(keys + i);
        const __m256i a = _mm256_loadu_si256(p), b = _mm256_loadu_si256(p + 1);
        const __m256i c = _mm256_loadu_si256(p + 2), d = _mm256_loadu_si256(p + 3);
        const __m256i ga = _mm256_cmpgt_epi64(a, bound), gb = _mm256_cmpgt_epi64(b, bound);
        const __m256i gc = _mm256_cmpgt_epi64(c, bound), gd = _mm256_cmpgt_epi64(d, bound);
        const __m256i some = _mm256_or_si256(_mm256_or_si256(ga, gb), _mm256_or_si256(gc, gd));

        seen = _mm256_or_si256(seen, _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d)));
        if (!_mm256_testz_si256(some, some)) {
            const int low = _mm256_movemask_pd(_mm256_castsi256_pd(ga)) |
                            _mm256_movemask_pd(_mm256_castsi256_pd(gb)) << 4;
            const int high = _mm256_movemask_pd(_mm256_castsi256_pd(gc)) |
                             _mm256_movemask_pd(_mm256_castsi256_pd(gd)) << 4;
            count += put_bits((uint32_t)(low | high << 8), i, hits + count);
        }
    }
    if (_mm256_movemask_pd(_mm256_castsi256_pd(seen)))
        *any = -1;
    return count + scan_tail(keys, i, n, tau, hits + count, any);
}

AVX512 static size_t scan_avx512(const int64_t *keys, size_t n, int64_t tau,
                                 uint32_t *hits, int64_t *any)
{
    const __m512i bound = _mm512_set1_epi64(tau);
    __m512i seen = _mm512_setzero_si512();
    size_t count = 0, i = 0;

    for (; i + 32 <= n; i += 32) {
        const __m512i a = _mm512_loadu_si512(keys + i), b = _mm512_loadu_si512(keys + i + 8);
        const __m512i c = _mm512_loadu_si512(keys + i + 16), d = _mm512_loadu_si512(keys + i + 24);
        const __mmask16 low = _mm512_kunpackb(_mm512_cmpgt_epi64_mask(b, bound),
                                              _mm512_cmpgt_epi64_mask(a, bound));
        const __mmask16 high = _mm512_kunpackb(_mm512_cmpgt_epi64_mask(d, bound),
                                               _mm512_cmpgt_epi64_mask(c, bound));
        const uint32_t bits = (uint32_t)_mm512_kunpackw(high, low);

        seen = _mm512_ternarylogic_epi64(seen, a, b, 0xFE); /* 0xFE: the OR of three */
        seen = _mm512_ternarylogic_epi64(seen, c, d, 0xFE);
        if (bits)
            count += put_bits(bits, i, hits + count);
    }
    if (_mm512_movepi64_mask(seen))
        *any = -1;
    return count + scan_tail(keys, i, n, tau, hits + count, any);
}

/* Sixteen byte counters, a byte of each 64-bit lane of a (even steps) and b
 * (odd steps), into the counters of eight keys. */
AVX512 static inline void flush8(__m512i a, __m512i b, uint32_t *lanes)
{
    const __m512i bytes = _mm512_set1_epi64(0x00FF00FF00FF00FF);
    const __m512i even = _mm512_add_epi64(_mm512_and_si512(a, bytes), _mm512_and_si512(b, bytes));
    const __m512i odd = _mm512_add_epi64(_mm512_and_si512(_mm512_srli_epi64(a, 8), bytes),
                                         _mm512_and_si512(_mm512_srli_epi64(b, 8), bytes));
    /* Four 16-bit sums in one word: a chunk holds 2048 keys, so none carries. */
    const uint64_t e = (uint64_t)_mm512_reduce_add_epi64(even);
    const uint64_t o = (uint64_t)_mm512_reduce_add_epi64(odd);

    for (int j = 0; j < 4; j++) {
        lanes[2 * j * DPTK_LANES] += (uint32_t)(e >> (16 * j)) & 0xFFFF;
        lanes[(2 * j + 1) * DPTK_LANES] += (uint32_t)(o >> (16 * j)) & 0xFFFF;
    }
}

/* Real counts are mostly a few small values. Keys low .. low + 15 are counted
 * in registers: 1 << 8 * off adds to byte `off` of a word, and a shift of 64
 * or more adds nothing. The others are squeezed out and counted one by one.
 * A chunk is 256 steps, even and odd ones apart, so a byte holds at most 128. */
AVX512 static void tally_avx512(const int64_t *keys, size_t n, int64_t low, size_t span,
                                uint32_t *lanes)
{
    const __m512i first = _mm512_set1_epi64(low), one = _mm512_set1_epi64(1);
    const __m512i sixteen = _mm512_set1_epi64(16), word = _mm512_set1_epi64(64);
    __m512i acc[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(),
                      _mm512_setzero_si512(), _mm512_setzero_si512()};
    int64_t rest[DPTK_CHUNK + 8];
    size_t left = 0, i = 0;

    if (span >= 16) {
        for (; i + 16 <= n; i += 16)
            for (int half = 0; half < 2; half++) {
                const __m512i key = _mm512_loadu_si512(keys + i + 8 * half);
                const __m512i off = _mm512_sub_epi64(key, first);
                const __mmask8 small = _mm512_cmplt_epu64_mask(off, sixteen);
                const __m512i shift = _mm512_slli_epi64(off, 3);
                const __m512i to_low = _mm512_sllv_epi64(one, shift);
                const __m512i to_high = _mm512_sllv_epi64(one, _mm512_sub_epi64(shift, word));

                acc[half] = _mm512_mask_add_epi64(acc[half], small, acc[half], to_low);
                acc[half + 2] = _mm512_mask_add_epi64(acc[half + 2], small, acc[half + 2], to_high);
                _mm512_storeu_si512(rest + left,
                                    _mm512_maskz_compress_epi64((__mmask8)~small, key));
                left += 8 - (size_t)__builtin_popcount(small);
            }
        flush8(acc[0], acc[1], lanes);
        flush8(acc[2], acc[3], lanes + 8 * DPTK_LANES);
    }
    dptk_tally_portable(rest, left, low, span, lanes);
    dptk_tally_portable(keys + i, n - i, low, span, lanes);
}
#endif

const dptk_cut_kernels dptk_cut_table[] = {
    {DPTK_SIMD_PORTABLE, always, dptk_scan_portable, dptk_tally_portable},
#ifdef DPTK_X86
    {DPTK_SIMD_AVX2, has_avx2, scan_avx2, dptk_tally_portable},
    {DPTK_SIMD_AVX512, has_avx512, scan_avx512, tally_avx512},
#endif
};

const int dptk_cut_table_size = (int)(sizeof dptk_cut_table / sizeof dptk_cut_table[0]);
