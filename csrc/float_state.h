/* float_state.h - what another library did to this thread's floating point is undone
 * while a kernel runs: rounding is to nearest, subnormal numbers are numbers.
 *
 *     const uint64_t state = dptk_float_begin();
 *     ...
 *     dptk_float_end(state);
 */
#ifndef DPTK_FLOAT_STATE_H
#define DPTK_FLOAT_STATE_H

#include <stdint.h>

#if defined(__SSE2__) || defined(_M_X64)
#include <immintrin.h>
#define DPTK_FLOAT_BITS 0xE040u /* of MXCSR: flush to zero, rounding (2), denormals are zeros */
static inline uint64_t dptk_float_state(void) { return _mm_getcsr(); }
static inline void dptk_float_set(uint64_t state) { _mm_setcsr((unsigned)state); }

#elif defined(__aarch64__)
#define DPTK_FLOAT_BITS 0x3C80000u /* of FPCR: default NaN, flush to zero, rounding (2), FZ16 */
static inline uint64_t dptk_float_state(void)
{
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    return state;
}
static inline void dptk_float_set(uint64_t state)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(state) : "memory");
}

#else
#define DPTK_FLOAT_BITS 0u
static inline uint64_t dptk_float_state(void) { return 0; }
static inline void dptk_float_set(uint64_t state) { (void)state; }
#endif

static inline uint64_t dptk_float_begin(void)
{
    const uint64_t state = dptk_float_state();
    if (state & DPTK_FLOAT_BITS) dptk_float_set(state & ~(uint64_t)DPTK_FLOAT_BITS);
    return state;
}

/* As the thread is now, whatever its machine. */
static inline int dptk_rounds_to_nearest(void)
{
    const volatile double one = 1.0, little = 0x1p-60;
    return one + little == 1.0 && one - little == 1.0;
}

/* A state that was sound is left, with the exceptions that the kernel raised. */
static inline void dptk_float_end(uint64_t state)
{
    if (state & DPTK_FLOAT_BITS) dptk_float_set(state);
}

#endif
