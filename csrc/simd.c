/* simd.c - which instruction sets are in use: the library's only global. */
#include "dptk.h"
#include "simd.h"

static int always(void) { return 1; }

#if DPTK_X86
static int has_avx2(void) { return DPTK_AVX2_FEATURES(__builtin_cpu_supports, &&); }
static int has_avx512(void) { return DPTK_AVX512_FEATURES(__builtin_cpu_supports, &&); }
#endif

/* In the order of the levels: each one needs those before it. */
static int (*const runs[])(void) = {
    always,
#if DPTK_X86
    has_avx2,
    has_avx512,
#elif DPTK_NEON
    always,
#endif
};

#define UNSET (-1)

/* Threads that race to set it at first use all write the same value. */
#if DPTK_GNU
static int level = UNSET;
#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define STORE(x, value) __atomic_store_n(&(x), (value), __ATOMIC_RELAXED)
#else
static volatile int level = UNSET;
#define LOAD(x) (x)
#define STORE(x, value) ((x) = (value))
#endif

int dptk_simd_best(void)
{
    int best = DPTK_SIMD_PORTABLE;
    const int levels = (int)(sizeof runs / sizeof runs[0]);
    while (best + 1 < levels && runs[best + 1]()) best++;
    return best;
}

int dptk_simd_get(void)
{
    int current = LOAD(level);
    if (current == UNSET) {
        current = dptk_simd_best();
        STORE(level, current);
    }
    return current;
}

int dptk_simd_set(int wanted)
{
    const int best = dptk_simd_best();
    if (wanted > best) wanted = best;
    if (wanted < DPTK_SIMD_PORTABLE) wanted = DPTK_SIMD_PORTABLE;
    STORE(level, wanted);
    return wanted;
}
