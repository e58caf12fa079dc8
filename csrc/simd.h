/* simd.h - instruction sets by function, not by file.
 *
 * A function marked DPTK_AVX2 may only be called when dptk_simd_get() is at
 * least DPTK_SIMD_AVX2. The features of a level are listed once, below: the
 * compiler's target and the run-time check are both made from that list. */
#ifndef DPTK_SIMD_H
#define DPTK_SIMD_H

#if defined(__GNUC__) && defined(__x86_64__)
#define DPTK_X86 1

#define DPTK_AVX2_FEATURES(F, SEP) F("avx2") SEP F("bmi") SEP F("bmi2") SEP F("popcnt")
#define DPTK_AVX512_FEATURES(F, SEP)                                                               \
    F("avx2")                                                                                      \
    SEP F("bmi") SEP F("bmi2") SEP F("popcnt") SEP F("avx512f") SEP F("avx512bw")                  \
        SEP F("avx512dq") SEP F("avx512vl")

/* One string with commas in it: clang takes no second one. */
#define DPTK_SAME(x) x
#define DPTK_AVX2 __attribute__((target(DPTK_AVX2_FEATURES(DPTK_SAME, ","))))
#define DPTK_AVX512 __attribute__((target(DPTK_AVX512_FEATURES(DPTK_SAME, ","))))

#else
#define DPTK_X86 0
#endif
#endif
