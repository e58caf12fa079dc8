/* cut_neon.c - the NEON form of counting counts (cut_x86.c says how it goes). The filters
 * are filter.c's, whose source is one for all vectors. */
#include "cut_impl.h"

#if DPTK_NEON
#include <arm_neon.h>

enum { SMALL = 16, STEP = 16, RUN = 15 }; /* RUN: additions that a counter of 4 bits can take */

/* 16 keys as bytes, those past 255 or below 0 as 255. */
static inline uint8x16_t narrow(const int64_t *keys, int16_t *copy)
{
    const uint16x8_t most = vdupq_n_u16(INT16_MAX);
    uint16x8_t half[2];

    for (int h = 0; h < 2; h++) {
        uint32x4_t quarter[2];
        for (int q = 0; q < 2; q++) {
            const int64_t *const at = keys + 8 * h + 4 * q;
            quarter[q] = vqmovn_high_u64(vqmovn_u64(vreinterpretq_u64_s64(vld1q_s64(at))),
                                         vreinterpretq_u64_s64(vld1q_s64(at + 2)));
        }
        half[h] = vqmovn_high_u32(vqmovn_u32(quarter[0]), quarter[1]);
        if (copy) vst1q_s16(copy + 8 * h, vreinterpretq_s16_u16(vminq_u16(half[h], most)));
    }
    return vqmovn_high_u16(vqmovn_u16(half[0]), half[1]);
}

/* How many of the bytes are 2 t and 2 t + 1, for each t: a table look-up gives 1 in one half
 * of a byte, and nothing for bytes past the table. n: a multiple of STEP. */
static void count_bytes(const uint8_t *bytes, size_t n, uint32_t *small)
{
    const uint8x16_t low = vdupq_n_u8(15);

    for (int t = 0; t < SMALL / 2; t++) {
        uint8_t entries[16] = {0};
        uint16x8_t even = vdupq_n_u16(0), odd = even;

        entries[2 * t] = 0x01;
        entries[2 * t + 1] = 0x10;
        const uint8x16_t table = vld1q_u8(entries);
        for (size_t i = 0; i < n;) {
            const size_t end = n - i < RUN * STEP ? n : i + RUN * STEP;
            uint8x16_t both = vdupq_n_u8(0);
            for (; i < end; i += STEP)
                both = vaddq_u8(both, vqtbl1q_u8(table, vld1q_u8(bytes + i)));
            even = vpadalq_u8(even, vandq_u8(both, low));
            odd = vpadalq_u8(odd, vshrq_n_u8(both, 4));
        }
        small[2 * t] = vaddlvq_u16(even);
        small[2 * t + 1] = vaddlvq_u16(odd);
    }
}

size_t dptk_tally_neon(const int64_t *keys, size_t n, size_t span, uint32_t *lanes, int16_t *copy)
{
    const size_t whole = n / STEP * STEP;
    uint8_t bytes[DPTK_CHUNK];
    int64_t others[DPTK_CHUNK];
    uint32_t small[SMALL];
    size_t left = 0;

    for (size_t i = 0; i < whole; i += STEP) {
        const uint8x16_t all = narrow(keys + i, copy ? copy + i : NULL);
        vst1q_u8(bytes + i, all);
        if (vmaxvq_u8(all) < SMALL) continue;
        for (size_t j = i; j < i + STEP; j++) {
            others[left] = keys[j];
            left += bytes[j] >= SMALL;
        }
    }
    count_bytes(bytes, whole, small);
    for (size_t off = 0; off < SMALL; off++)
        lanes[(off < span ? off : span) * DPTK_LANES] += small[off];
    dptk_tally_portable(others, left, span, lanes, NULL);
    dptk_tally_portable(keys + whole, n - whole, span, lanes, copy ? copy + whole : NULL);
    return left;
}
#endif
