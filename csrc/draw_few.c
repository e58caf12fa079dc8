/* draw_few.c - the largest noisy scores when all noise of few is drawn: what draw.c does where
 * every item is a candidate.
 *
 * The same words, values and errors, for which there is nothing to choose: so all of a row is
 * computed at once, in vectors that are filled up, and its k largest are put in order. */
#include "draw_impl.h"
#include "float_state.h"
#include "simd.h"

/* Of one row, filled up to a multiple of PART: with scores that are there, words far from the
 * edges. */
enum { PART = 8 };
typedef struct row {
    int64_t score[DPTK_DRAW_FEW]; /* as scores_of has them */
    uint64_t further[DPTK_DRAW_FEW];
    uint16_t r[DPTK_DRAW_FEW];
    double e[DPTK_DRAW_FEW];
    int64_t key[DPTK_DRAW_FEW]; /* of values */
} row;

#define VALUES(target, level, kind)                                                                \
    target static uint64_t values_##kind##_##level(row *restrict x, size_t n, int64_t most,        \
                                                   double factor)                                  \
    {                                                                                              \
        int64_t least = INT64_MAX;                                                                 \
        for (size_t i = 0; i < n; i++)                                                             \
            x->further[i] = (uint64_t)x->r[i] << 48 | x->further[i] >> 16;                         \
        for (size_t i = 0; i < n; i++) {                                                           \
            const uint64_t top = top_of(x->further[i]);                                            \
            const int64_t distance = (int64_t)distance_of(top);                                    \
            least = distance < least ? distance : least;                                           \
            x->e[i] = -ln(middle_of(top));                                                         \
        }                                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            const double drop = drop_##kind(x->score[i], most);                                    \
            x->key[i] = f64_key(drop * factor - ln(x->e[i]));                                      \
        }                                                                                          \
        return (uint64_t)least;                                                                    \
    }
#define SPAN(target, level, kind, key_of)                                                          \
    target static dptk_span span_##kind##_##level(const int64_t *score, size_t n)                  \
    {                                                                                              \
        dptk_span span = {INT64_MAX, INT64_MIN};                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const int64_t key = key_of;                                                            \
            span.least = key < span.least ? key : span.least;                                      \
            span.most = key > span.most ? key : span.most;                                         \
        }                                                                                          \
        return span;                                                                               \
    }
#define LOOPS(target, level)                                                                       \
    SPAN(target, level, whole, score[i])                                                           \
    SPAN(target, level, real, score[i] ^ (int64_t)((uint64_t)(score[i] >> 63) >> 1))               \
    VALUES(target, level, narrow)                                                                  \
    VALUES(target, level, wide)                                                                    \
    VALUES(target, level, real)

typedef struct loops {
    dptk_span (*span[2])(const int64_t *score, size_t n);
    uint64_t (*values[3])(row *x, size_t n, int64_t most, double factor);
} loops;
#define THESE(level)                                                                               \
    {                                                                                              \
        {span_whole_##level, span_real_##level},                                                   \
        {                                                                                          \
            values_narrow_##level, values_wide_##level, values_real_##level                        \
        }                                                                                          \
    }

LOOPS(, portable)
#if DPTK_X86
LOOPS(DPTK_AVX2, avx2)
LOOPS(DPTK_AVX512, avx512)
#endif

/* By SIMD level. */
static const loops by_level[] = {
    THESE(portable),
#if DPTK_X86
    THESE(avx2),
    THESE(avx512),
#elif DPTK_NEON
    THESE(portable), /* which the compiler's vectors are part of */
#endif
};

static int draw(dptk_rng *rng, const dptk_column *col, size_t k, double scale, double error_factor,
                row *x, int64_t *item)
{
    const loops *const run = &by_level[dptk_simd_get()];
    const size_t n = col->n, words = (n + LEADS - 1) / LEADS, full = (n + PART - 1) / PART * PART;
    const int real = col->type >= DPTK_F32;
    const size_t some = k < n ? k + 1 : k;
    int64_t largest[DPTK_DRAW_FEW], at[DPTK_DRAW_FEW], most;
    uint64_t distance;
    double apart;
    dptk_span span;
    int status;
    const int64_t *const score = scores_of(col, 0, n, x->score);
    if (score != x->score) memcpy(x->score, score, n * sizeof *score);
    for (size_t i = n; i < full; i++) x->score[i] = x->score[0];
    span = run->span[real](x->score, full);
    status = span_status(&span, real, scale);
    if (status != DPTK_OK) return status;
    while ((size_t)(rng->end - rng->next) < words + n) {
        status = rng->refill(rng);
        if (status != DPTK_OK) return status;
    }
    leads_of(rng->next, 0, n, x->r);
    memcpy(x->further, rng->next + words, n * sizeof *x->further);
    rng->next += words + n;
    for (size_t i = n; i < full; i++) x->r[i] = 1 << 15, x->further[i] = 0;
    most = real ? (int64_t)bits_of(key_double(span.most)) : span.most;
    distance = run->values[drops_of(&span, real)](x, full, most, 1.0 / scale);
    dptk_take_few(x->key, NULL, n, some, 1, largest, at);
    apart = 2.0 * error_factor
          * value_error(fabs(key_double(largest[0])) + fabs(key_double(largest[some - 1])), distance);
    for (size_t i = 1; i < some; i++)
        if (!(key_double(largest[i - 1]) - key_double(largest[i]) > apart)) return DPTK_UNDECIDED;
    for (size_t i = 0; i < k; i++) item[i] = at[i];
    return DPTK_OK;
}

int dptk_draw_few(dptk_rng *rng, const dptk_column *col, size_t k, double scale,
                  double error_factor, int64_t *item)
{
    const uint64_t state = dptk_float_begin();
    row x;
    const int status = draw(rng, col, k, scale, error_factor, &x, item);
    dptk_wipe(&x, sizeof x);
    dptk_float_end(state);
    return status;
}
