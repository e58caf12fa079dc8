/* draw_few.c - the largest noisy scores when all noise of few is drawn: what draw.c does where
 * every item is a candidate.
 *
 * The same words, values and errors, for which there is nothing to choose. One row by itself: the
 * values of all its items, and of these the k largest. Rows side by side: by the bounds that the
 * first bits give, which are integers, the items that may be the largest of each, and values of
 * these alone. The bounds change the cost, never a pick. */
#include "draw_impl.h"
#include "float_state.h"
#include "simd.h"

enum {
    FEW = DPTK_DRAW_FEW,
    ROWS = DPTK_DRAW_ROWS,
    PART = 16,  /* arrays are filled up to a multiple of it, with what does no harm */
    DEPTH = 16, /* bounds that are kept of each of the rows, at most */
    MORE = 3,   /* of them than k at least, as bounds are too high */
};

/* ---- bounds ----------------------------------------------------------------- */

/* As in draw.c, but in units of ln 2 2^-16, which are coarse enough for 2^13 scales: drop less
 * steps(r), each rounded up, and in the lowest bits the item. A drop further down is clipped,
 * which raises the bound. It is negative but where r is 0: such an item may have any noise, and
 * no value is above what most_below says of its bound. */
enum { INDEX = FEW - 1, COARSE = 7, CLIP = 1 << 30 };

static inline int32_t bound_of(double drop, uint16_t r, int item)
{
    const double room = drop > -(double)CLIP ? drop : -(double)CLIP;
    const int32_t bound = (int32_t)room - (steps(r) >> COARSE) + (r == 0) * CLIP;
    return (bound & ~INDEX) | item;
}

/* What no value exceeds whose bound is below another. Roundings of the drop are below a unit. */
static inline double most_below(int32_t bound)
{
    return ((double)(bound | INDEX) + (BASE >> COARSE)) * ((1 << COARSE) / UNITS) + 0x1p-14;
}

/* ---- all at once ------------------------------------------------------------ */

/* Of candidates, in one row or in many. */
typedef struct values {
    uint64_t word[ROWS * DEPTH]; /* the first 64 bits of U */
    double drop[ROWS * DEPTH], value[ROWS * DEPTH];
    int64_t distance[ROWS * DEPTH]; /* of the word */
} values;

/* Of a row: the first bits, and scores as scores_of has them. */
typedef struct row {
    int64_t score[FEW], most;
    uint16_t r[FEW];
    int kind;
} row;

#define DROPS(target, level, kind)                                                                 \
    target static void drops_##kind##_##level(const int64_t *restrict score, size_t n,             \
                                              int64_t most, double *restrict drop)                 \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) drop[i] = drop_##kind(score[i], most);                      \
    }
#define LOOPS(target, level)                                                                       \
    SPANS(target, level)                                                                           \
    DROPS(target, level, narrow)                                                                   \
    DROPS(target, level, wide)                                                                     \
    DROPS(target, level, real)                                                                     \
    target static void bounds_##level(const double *restrict drop, const uint16_t *restrict r,     \
                                      int n, double factor, int32_t *restrict bound)               \
    {                                                                                              \
        for (int i = 0; i < n; i++) bound[i] = bound_of(drop[i] * factor, r[i], i);                \
    }                                                                                              \
    target static void words_##level(const uint16_t *restrict r, const uint64_t *restrict further, \
                                     size_t n, uint64_t *restrict word)                            \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) word[i] = (uint64_t)r[i] << 48 | further[i] >> 16;          \
    }                                                                                              \
    target static void values_##level(values *restrict x, size_t n, double factor)                 \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            const uint64_t top = top_of(x->word[i]);                                               \
            x->distance[i] = (int64_t)distance_of(top);                                            \
            x->value[i] = -ln(middle_of(top));                                                     \
        }                                                                                          \
        for (size_t i = 0; i < n; i++) x->value[i] = x->drop[i] * factor - ln(x->value[i]);        \
    }                                                                                              \
    target static int64_t keys_##level(const values *restrict x, size_t n, int64_t *restrict key)  \
    {                                                                                              \
        int64_t least = INT64_MAX;                                                                 \
        for (size_t i = 0; i < n; i++) {                                                           \
            least = x->distance[i] < least ? x->distance[i] : least;                               \
            key[i] = f64_key(x->value[i]);                                                         \
        }                                                                                          \
        return least;                                                                              \
    }

typedef struct loops {
    dptk_span (*span[2])(const int64_t *score, size_t n);
    void (*drops[3])(const int64_t *score, size_t n, int64_t most, double *drop);
    void (*bounds)(const double *drop, const uint16_t *r, int n, double factor, int32_t *bound);
    void (*words)(const uint16_t *r, const uint64_t *further, size_t n, uint64_t *word);
    void (*values)(values *x, size_t n, double factor);
    int64_t (*keys)(const values *x, size_t n, int64_t *key); /* returns the least distance */
    void (*tops[2])(int32_t (*bound)[ROWS], size_t n, int32_t (*top)[ROWS]);
} loops;

/* The largest bounds of each of the rows, in order: each bound is put into the place of the first
 * that is smaller, that into the place of the next, and so on, in all the rows alike. T is an
 * int32_t, or a vector of them. */
#define TOPS(target, level, T, depth)                                                              \
    target static void tops_##depth##_##level(int32_t (*bound)[ROWS], size_t n,                    \
                                              int32_t (*top)[ROWS])                                \
    {                                                                                              \
        for (size_t lane = 0; lane < ROWS; lane += sizeof(T) / sizeof(int32_t)) {                  \
            T held[depth], x;                                                                      \
            for (int j = 0; j < depth; j++) held[j] = (T){0} + INT32_MIN;                          \
            for (size_t i = 0; i < n; i++) {                                                       \
                memcpy(&x, &bound[i][lane], sizeof x);                                             \
                for (int j = 0; j < depth; j++) {                                                  \
                    const T change = (x ^ held[j]) & ABOVE(x, held[j]);                            \
                    held[j] ^= change;                                                             \
                    x ^= change;                                                                   \
                }                                                                                  \
            }                                                                                      \
            for (int j = 0; j < depth; j++) memcpy(&top[j][lane], &held[j], sizeof(T));            \
        }                                                                                          \
    }

#if DPTK_GNU
#define ABOVE(x, y) ((x) > (y))
typedef int32_t lanes4 __attribute__((vector_size(16)));
typedef int32_t lanes8 __attribute__((vector_size(32)));
TOPS(, portable, lanes4, 8)
TOPS(, portable, lanes4, 16)
#if DPTK_X86
TOPS(DPTK_AVX2, avx2, lanes8, 8)
TOPS(DPTK_AVX2, avx2, lanes8, 16)
#endif
#else
#define ABOVE(x, y) (-((x) > (y)))
TOPS(, portable, int32_t, 8)
TOPS(, portable, int32_t, 16)
#endif

#define THESE(level, tops)                                                                         \
    {                                                                                              \
        {span_whole_##level, span_real_##level},                                                   \
            {drops_narrow_##level, drops_wide_##level, drops_real_##level}, bounds_##level,        \
            words_##level, values_##level, keys_##level,                                           \
        {                                                                                          \
            tops_8_##tops, tops_16_##tops                                                          \
        }                                                                                          \
    }

LOOPS(, portable)
#if DPTK_X86
LOOPS(DPTK_AVX2, avx2)
LOOPS(DPTK_AVX512, avx512)
#endif

/* By SIMD level. */
static const loops by_level[] = {
    THESE(portable, portable),
#if DPTK_X86
    THESE(avx2, avx2),
    THESE(avx512, avx2),
#elif DPTK_NEON
    THESE(portable, portable), /* which the compiler's vectors are part of */
#endif
};

/* ---- a row ------------------------------------------------------------------ */

static size_t filled(size_t n) { return (n + PART - 1) / PART * PART; }

/* The scores of a row, and whether there is a way for them. */
static int prepare(const loops *run, const dptk_column *col, double scale, row *x)
{
    const int real = col->type >= DPTK_F32;
    const int64_t *const score = scores_of(col, 0, col->n, x->score);
    dptk_span span;
    if (score != x->score) memcpy(x->score, score, col->n * sizeof *score);
    for (size_t i = col->n; i < filled(col->n); i++) x->score[i] = x->score[0];
    span = run->span[real](x->score, filled(col->n));
    x->most = real ? (int64_t)bits_of(key_double(span.most)) : span.most;
    x->kind = drops_of(&span, real);
    return span_status(&span, real, scale);
}

/* The words of n items. */
static int words_for(dptk_rng *rng, size_t n, const uint64_t **word)
{
    const size_t words = leads(n) + n;
    const int status = words_at_hand(rng, words);
    if (status != DPTK_OK) return status;
    *word = rng->next;
    rng->next += words;
    return DPTK_OK;
}

/* The first bits of n items, and such of those that fill up. */
static void first_bits(const uint64_t *word, size_t n, uint16_t *r)
{
    leads_of(word, 0, n, r);
    for (size_t i = n; i < filled(n); i++) r[i] = 1 << 15;
}

/* How far apart values must be that lie between two, where the words are no nearer to the edges:
 * so far that those below are below as well, as their errors grow more slowly than they fall. */
static double apart(double first, double last, int64_t distance, double error_factor)
{
    return 2.0 * error_factor * value_error(fabs(first) + fabs(last), (uint64_t)distance);
}

/* Nobody who reads memory that was used learns U, or what says where it is. */
static void forget_values(values *x, size_t n)
{
    dptk_wipe(x->word, n * sizeof *x->word);
    dptk_wipe(x->value, n * sizeof *x->value);
    dptk_wipe(x->distance, n * sizeof *x->distance);
}

/* From the values of all that a row has. */
static int draw(const loops *run, row *x, const uint64_t *word, size_t n, size_t k, double scale,
                double error_factor, values *all, int64_t *item)
{
    const size_t full = filled(n), some = k < n ? k + 1 : k;
    uint64_t further[FEW] = {0};
    int64_t key[FEW], largest[FEW], at[FEW], distance;
    double enough;
    int status = DPTK_OK;
    first_bits(word, n, x->r);
    memcpy(further, word + leads(n), n * sizeof *further);
    run->words(x->r, further, full, all->word);
    run->drops[x->kind](x->score, full, x->most, all->drop);
    run->values(all, full, 1.0 / scale);
    distance = run->keys(all, full, key);
    dptk_take_few(key, NULL, n, some, 1, largest, at);
    enough = apart(key_double(largest[0]), key_double(largest[some - 1]), distance, error_factor);
    for (size_t i = 1; i < some; i++)
        if (!(key_double(largest[i - 1]) - key_double(largest[i]) > enough))
            status = DPTK_UNDECIDED;
    for (size_t i = 0; i < k; i++) item[i] = at[i];
    dptk_wipe(further, sizeof further);
    dptk_wipe(key, sizeof key);
    dptk_wipe(largest, sizeof largest);
    return status;
}

int dptk_draw_few(dptk_rng *rng, const dptk_column *col, size_t k, double scale,
                  double error_factor, int64_t *item)
{
    const uint64_t state = dptk_float_begin();
    const loops *const run = &by_level[dptk_simd_get()];
    const uint64_t *word;
    values all;
    row x;
    int status = prepare(run, col, scale, &x);
    if (status == DPTK_OK) status = words_for(rng, col->n, &word);
    if (status == DPTK_OK) {
        status = draw(run, &x, word, col->n, k, scale, error_factor, &all, item);
        dptk_wipe(x.r, sizeof x.r);
        forget_values(&all, FEW);
        dptk_burn_stack(); /* where they were put in order */
    }
    dptk_float_end(state);
    return status;
}

/* ---- rows side by side ------------------------------------------------------ */

typedef struct side {
    const uint64_t *word[ROWS];
    double drop[ROWS][FEW];
    int32_t bound[FEW][ROWS]; /* by item: the rows are the lanes */
    int32_t top[DEPTH][ROWS];
    values candidates;
    row x;
} side;

/* The bounds of a row's items, and the least where other rows have more of them. */
static void bound(side *s, const loops *run, size_t at, size_t n, size_t most, double scale)
{
    int32_t bound[FEW];
    run->drops[s->x.kind](s->x.score, filled(n), s->x.most, s->drop[at]);
    first_bits(s->word[at], n, s->x.r);
    run->bounds(s->drop[at], s->x.r, (int)filled(n), UNITS / (1 << COARSE) / scale, bound);
    for (size_t i = 0; i < n; i++) s->bound[i][at] = bound[i];
    for (size_t i = n; i < most; i++) s->bound[i][at] = INT32_MIN;
    dptk_wipe(bound, n * sizeof *bound);
}

/* The k largest of a row's candidates, from `first` on, if they are certainly that, in order, and
 * above all others of its n items, whose bounds are below the last of theirs. */
static int settle(const side *s, size_t at, size_t first, size_t held, size_t n, size_t k,
                  double error_factor, int64_t *item)
{
    const values *const x = &s->candidates;
    const int32_t last = s->top[held - 1][at];
    const size_t some = k < held ? k + 1 : k;
    double value[DEPTH];
    int64_t distance = INT64_MAX, from[DEPTH];
    double enough;
    int settled = 1;
    for (size_t i = 0; i < held; i++) {
        const double new = x->value[first + i];
        size_t to = i;
        for (; to > 0 && value[to - 1] < new; to--) {
            value[to] = value[to - 1];
            from[to] = from[to - 1];
        }
        value[to] = new;
        from[to] = s->top[i][at] & INDEX;
        distance = x->distance[first + i] < distance ? x->distance[first + i] : distance;
    }
    enough = apart(value[0], value[some - 1], distance, error_factor);
    for (size_t i = 1; i < some; i++) settled &= value[i - 1] - value[i] > enough;
    if (held < n) settled &= value[k - 1] - enough > most_below(last);
    for (size_t i = 0; i < k; i++) item[i] = from[i];
    dptk_wipe(value, sizeof value);
    return settled;
}

static void forget(side *s, size_t items, size_t candidates)
{
    dptk_wipe(s->bound, items * sizeof *s->bound);
    dptk_wipe(s->top, sizeof s->top);
    dptk_wipe(s->x.r, sizeof s->x.r);
    forget_values(&s->candidates, candidates);
}

static int draw_rows(dptk_rng *rng, side *s, const dptk_column *col, const size_t *k, size_t rows,
                     double scale, double error_factor, int64_t *const *item, size_t *done)
{
    const loops *const run = &by_level[dptk_simd_get()];
    values *const x = &s->candidates;
    size_t first[ROWS + 1] = {0}, most = 0, wanted = 0, held = 0, depth;
    const uint64_t *end;
    int status = DPTK_OK;
    for (size_t at = 0; at < rows; at++) {
        most = col[at].n > most ? col[at].n : most;
        wanted = k[at] > wanted ? k[at] : wanted;
    }
    for (; held < rows; held++) {
        const size_t n = col[held].n;
        status = prepare(run, &col[held], scale, &s->x);
        if (status == DPTK_OK) status = words_for(rng, n, &s->word[held]);
        if (status != DPTK_OK) break;
        bound(s, run, held, n, most, scale);
    }
    for (size_t at = held; at < ROWS; at++)
        for (size_t i = 0; i < most; i++) s->bound[i][at] = INT32_MIN;
    depth = wanted + MORE <= DEPTH / 2 ? DEPTH / 2 : DEPTH;
    run->tops[depth == DEPTH](s->bound, most, s->top);
    for (size_t at = 0; at < held; at++) {
        const size_t n = col[at].n, own = n < depth ? n : depth;
        for (size_t j = 0, to = first[at]; j < own; j++, to++) {
            const size_t i = (size_t)(s->top[j][at] & INDEX);
            x->word[to] = (uint64_t)lead_of(s->word[at], i) << 48 | s->word[at][leads(n) + i] >> 16;
            x->drop[to] = s->drop[at][i];
        }
        first[at + 1] = first[at] + own;
    }
    for (size_t i = first[held]; i < filled(first[held]); i++) x->word[i] = 0, x->drop[i] = 0.0;
    run->values(x, filled(first[held]), 1.0 / scale);
    end = rng->next;
    for (; *done < held; ++*done) {
        const size_t at = *done, own = first[at + 1] - first[at];
        int one;
        if (settle(s, at, first[at], own, col[at].n, k[at], error_factor, item[at])) continue;
        rng->next = s->word[at];
        one = dptk_draw_few(rng, &col[at], k[at], scale, error_factor, item[at]);
        if (one != DPTK_OK) {
            rng->next = s->word[at];
            status = one;
            break;
        }
        rng->next = end;
    }
    forget(s, most, first[held]);
    return status;
}

int dptk_draw_few_rows(dptk_rng *rng, const dptk_column *col, const size_t *k, size_t rows,
                       double scale, double error_factor, int64_t *const *item, size_t *done)
{
    const uint64_t state = dptk_float_begin();
    side s;
    int status;
    *done = 0;
    status = draw_rows(rng, &s, col, k, rows, scale, error_factor, item, done);
    dptk_burn_stack();
    dptk_float_end(state);
    return status;
}
