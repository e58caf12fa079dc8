/* simd.h - instruction sets by function, not by file.
 *
 * A function marked DPTK_AVX2 may only be called when dptk_simd_get() is at
 * least DPTK_SIMD_AVX2. The features of a level are listed once, below: the
 * compiler's target and the run-time check are both made from that list. */
#ifndef DPTK_SIMD_H
#define DPTK_SIMD_H

/* Whether there is what gcc and clang know beyond C11. A compiler that knows only C11, as
 * MSVC does, compiles what DPTK_C11_ALONE leaves. */
#if defined(__GNUC__) && !defined(DPTK_C11_ALONE)
#define DPTK_GNU 1
#else
#define DPTK_GNU 0
#endif

/* A function whose frame is to be gone when it returns. */
#if DPTK_GNU
#define DPTK_NOINLINE __attribute__((noinline))
#elif defined(_MSC_VER)
#define DPTK_NOINLINE __declspec(noinline)
#else
#define DPTK_NOINLINE
#endif

#if DPTK_GNU && defined(__x86_64__)
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

/* Every 64-bit Arm has NEON: that level needs no target and no check. */
#if DPTK_GNU && defined(__aarch64__) && defined(__AARCH64EL__)
#define DPTK_NEON 1
#else
#define DPTK_NEON 0
#endif

/* The first level above the portable one: its target, where there is one. */
#if DPTK_X86
#define DPTK_VECTORS 1
#define DPTK_FIRST_LEVEL DPTK_AVX2
#elif DPTK_NEON
#define DPTK_VECTORS 1
#define DPTK_FIRST_LEVEL
#else
#define DPTK_VECTORS 0
#endif
#endif
