/* dptk.h - the whole C surface of dptopk.
 *
 * House rules, true of every function here:
 *   - no Python, no allocation, no printing, no environment, no global but the
 *     SIMD level; the caller owns every buffer.
 *   - arguments in this order: random words, inputs, sizes, numbers, scratch,
 *     outputs.
 *   - C knows scales, Python knows epsilon.
 *   - a contract has a line for each argument; what it says of an input is for
 *     the caller to check, and is not checked again here.
 *   - error_factor is 1; tests widen all error bounds with more.
 *   - the return value is a status; outputs mean nothing unless it is DPTK_OK.
 */
#ifndef DPTK_H
#define DPTK_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__FAST_MATH__) || defined(_M_FP_FAST)                                                  \
    || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "error bounds, NaN and ties need IEEE arithmetic: compile without -ffast-math"
#endif

/* 1: a float is computed as a double, as on s390x; a double is computed as one all the same. */
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 1
#error "error bounds hold for doubles computed as doubles: on 32-bit x86 -msse2 -mfpmath=sse"
#endif

typedef enum dptk_status {
    DPTK_OK = 0,
    DPTK_TAPE_END = 1,  /* out of random words: lengthen the tape, run again */
    DPTK_SCRATCH = 2,   /* scratch too small: enlarge it, run again */
    DPTK_UNDECIDED = 3, /* two values closer than their error bounds: replay exactly */
    DPTK_NAN = 4,       /* a score is NaN */
    DPTK_CHANGED = 5,   /* a column changed while it was read: what was said of it is wrong */
    DPTK_STOPPED = 6    /* the caller's watch said so */
} dptk_status;

/* What can take seconds asks this now and then, some hundred times a second at least, and
 * returns DPTK_STOPPED if it answers other than 0. A watch of NULL never does. */
typedef struct dptk_watch {
    int (*stop)(void *state);
    void *state;
} dptk_watch;

static inline int dptk_stopped(const dptk_watch *watch)
{
    return watch != NULL && watch->stop(watch->state) != 0;
}

/* ---- simd.c: which instruction sets are in use --------------------------- */

/* SIMD levels, each a superset of the one before: two of x86-64, one of 64-bit Arm. */
enum { DPTK_SIMD_PORTABLE = 0, DPTK_SIMD_AVX2 = 1, DPTK_SIMD_AVX512 = 2, DPTK_SIMD_NEON = 1 };
int dptk_simd_best(void);     /* the highest level this machine can run */
int dptk_simd_get(void);      /* the level in use */
int dptk_simd_set(int level); /* returns the level now in use (never above best) */

/* ---- rng.c: where random words come from -------------------------------- */

/* A tape of 64-bit words. Kernels read `*next++` and call `refill` when
 * `next == end`; refill makes one word or more readable, of the n that are wanted
 * as many as it can at once, and returns DPTK_OK, or returns DPTK_TAPE_END. It must
 * not move or change words already read, so
 * that after DPTK_UNDECIDED the same words can be replayed. A kernel only
 * touches `next`, `end` and `refill`. */
typedef struct dptk_rng {
    const uint64_t *next;
    const uint64_t *end;
    int (*refill)(struct dptk_rng *rng, size_t n);
    const uint64_t *first; /* where the current call began to read */
} dptk_rng;

/* A fixed tape: the n words and no more. */
void dptk_tape_init(dptk_rng *rng, const uint64_t *words, size_t n);

/* Go back to the first word of the current call, for a run-again. */
void dptk_rewind(dptk_rng *rng);

/* A tape that grows in a buffer of the caller's: the current call's words
 * (those read, for a replay, and those not yet read). Full: DPTK_TAPE_END. */
typedef struct dptk_buffer {
    dptk_rng rng; /* first member: a dptk_buffer* is a dptk_rng* */
    uint64_t *words;
    size_t capacity; /* in words */
} dptk_buffer;

/* Start a call: wipe the words that were read, keep the unread ones (in their
 * place, or moved to the front when room runs short). Words read in earlier
 * calls cannot be recovered after it. */
void dptk_buffer_begin(dptk_buffer *b);

/* Move this call's words to the front of a larger buffer; wipe the old one.
 * Assumed: capacity >= b->capacity. */
void dptk_buffer_grow(dptk_buffer *b, uint64_t *words, size_t capacity);

/* Any generator of words, called once for each word that is read and never
 * ahead, so that it stands exactly where the last word read left it. */
typedef struct dptk_drawn {
    dptk_buffer buffer; /* first member */
    uint64_t (*draw)(void *state);
    void *state;
} dptk_drawn;

void dptk_drawn_init(dptk_drawn *d, uint64_t (*draw)(void *state), void *state, uint64_t *words,
                     size_t capacity);

/* ChaCha20 with fast key erasure: a refill makes 32 blocks, or some times as many, of which
 * each time 32 bytes replace the key and the rest are words. */
typedef struct dptk_chacha {
    dptk_buffer buffer; /* first member */
    uint32_t key[8];    /* key of the next batch; never the key of a past one */
} dptk_chacha;

#define DPTK_CHACHA_BATCH 252u /* words at a time: 32 blocks less the next key */

/* One ChaCha20 block as in RFC 8439 section 2.3: 16 little-endian words. */
void dptk_chacha20_block(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3],
                         uint32_t out[16]);

/* Start from a 32-byte key of the OS. Assumed: capacity >= DPTK_CHACHA_BATCH. */
void dptk_chacha_init(dptk_chacha *c, const uint8_t key[32], uint64_t *words, size_t capacity);

/* Wipe key and words; from then on every refill says DPTK_TAPE_END, so that
 * a source without a key gives nothing rather than the stream of key zero. */
void dptk_chacha_wipe(dptk_chacha *c);

/* Overwrite n bytes in a way the compiler may not leave out. */
void dptk_wipe(void *memory, size_t n);

/* Overwrite the 4 KB below the caller's frame: what the functions it called left on the stack. */
void dptk_burn_stack(void);

/* ---- keys.c: scores of any type as integers ----------------------------- */

/* Element types of a column. */
enum {
    DPTK_I8,
    DPTK_I16,
    DPTK_I32,
    DPTK_I64,
    DPTK_U8,
    DPTK_U16,
    DPTK_U32,
    DPTK_U64, /* up to here integers, the signed ones first */
    DPTK_F16,
    DPTK_F32,
    DPTK_F64
};

/* A strided, native-endian array of scores. */
typedef struct dptk_column {
    const char *data;
    ptrdiff_t stride; /* bytes from one element to the next; may be negative or 0 */
    size_t n;
    int type;
} dptk_column;

/* A key is an int64 that orders as the score does. Signed integers: the value
 * itself. Unsigned: value XOR 2^63 for U64, the value for narrower ones.
 * Floats (as doubles, -0.0 taken as 0.0): the bits b of the double, b >= 0 ?
 * b : b ^ INT64_MAX. Halves: their bits b, b >= 0 ? b : -(b & INT16_MAX). NaN has no
 * key. */

/* Bytes of an element. */
size_t dptk_size(int type);

/* Elements as they are.
 *
 *   col    the scores
 *   index  which: `count` of them; or NULL for the first ones
 *   out    out: count elements, packed */
void dptk_take(const dptk_column *col, const int64_t *index, size_t count, void *out);

/* Keys of elements [first, first + count) of the column.
 *
 *   col          the scores
 *   first, count a range within [0, col->n)
 *   keys         out: count of them
 *
 * Returns DPTK_NAN if one of them is NaN. Cost: one pass. */
int dptk_keys(const dptk_column *col, size_t first, size_t count, int64_t *keys);

/* How many elements of a column are of a kind: whose key is `key`, or (`below` is 1)
 * less; of those with that key only the ones after index `after` (-1: all). Cost: one
 * pass. What looks for such elements by chance asks when it finds none for long. */
size_t dptk_count(const dptk_column *col, int64_t key, int64_t after, int below);

/* ---- cut.c: the largest of a big array ---------------------------------- */

/* What is asked of a cut, together by OR; 0: the largest, in descending order. */
enum { DPTK_LEAST = 1, DPTK_UNSORTED = 2, DPTK_NAN_LAST = 4 };

/* The m first elements in an order: descending, equal ones by index ascending.
 *
 *   col       the scores
 *   m         how many, 1 <= m <= col->n
 *   order     DPTK_LEAST: ascending in place of descending, equal ones by index ascending
 *             too; DPTK_UNSORTED: the same elements, out by index ascending;
 *             DPTK_NAN_LAST: NaN comes after all numbers, whether they ascend or descend
 *   scratch   dptk_cut_scratch(col->n, m) words
 *   keys      out: m keys (of the least: ~key; of NaN: INT64_MIN)
 *   index     out: m indices
 *   watched   out: 1 if any score is < 0, of integers; NaN or infinite, of floats; or NULL.
 *             Only of the largest.
 *
 * Equivalent: order = np.lexsort((np.arange(n), -keys))[:m]
 * Returns DPTK_NAN if any score is NaN, unless DPTK_NAN_LAST.
 * Cost: about one pass; never more than O(n + m) steps whatever the data. */
size_t dptk_cut_scratch(size_t n, size_t m);
int dptk_cut(const dptk_column *col, size_t m, int order, int64_t *scratch, int64_t *keys,
             int64_t *index, int *watched);

/* The same of each of some rows, without what is out but the indices: m[i] of row i, at index[i].
 * scratch: dptk_cut_scratch(row[i].n, m[i]) + m[i] words, for each i. */
int dptk_cut_rows(const dptk_column *row, const size_t *m, size_t rows, int order, int64_t *scratch,
                  int64_t *const *index);

/* The items of larger scores than a number has, in order.
 *
 *   col       the scores
 *   key       of the number, below INT64_MAX
 *   capacity  so many are too many
 *   keys      out: theirs; room for dptk_part_room(capacity) of them
 *   index     out: which they are; as much room
 *   held      out: how many there are
 *
 * Returns DPTK_SCRATCH if they are too many; DPTK_NAN if a score that was read is NaN or
 * infinite.
 * Cost: one pass at the speed of memory, if they are few. */
size_t dptk_part_room(size_t capacity);
int dptk_part(const dptk_column *col, int64_t key, size_t capacity, int64_t *keys, int64_t *index,
              size_t *held);

/* Counts of counts: how many elements have each key in [0, span); and unless
 * copy is NULL, the keys in 16 bits, those past them as 32,767.
 *
 *   col      the scores; with a copy, no key is negative
 *   span     where the table ends
 *   scratch  dptk_count_keys_scratch(span) words
 *   table    out: span words
 *   copy     out: col->n of them, or NULL
 *
 * Equivalent: table = np.bincount(keys[(keys >= 0) & (keys < span)], minlength=span)
 *             copy[:] = np.minimum(keys, 32767)
 * Returns DPTK_NAN if any score is NaN.
 * Cost: one pass plus O(span), no slower when most elements are equal. */
size_t dptk_count_keys_scratch(size_t span);
int dptk_count_keys(const dptk_column *col, size_t span, int64_t *scratch, int64_t *table,
                    int16_t *copy);

/* ---- noise.c: quantiles of noise ------------------------------------------ */

/* Noise laws. The j-th largest of n iid noises with CDF F is F^-1(exp(-S_j)),
 * S_1 < S_2 < ... the race S_j = S_(j-1) + Exp(1) / (n - j + 1). */
enum { DPTK_GUMBEL, DPTK_EXPONENTIAL, DPTK_LAPLACE, DPTK_GAUSSIAN, DPTK_UNIFORM };

/* F^-1(exp(-S)) for an S within s_error of s, and an absolute error bound of it;
 * INFINITY where nothing is known. All noises have scale 1: the Gaussian one is
 * the standard normal, the uniform one lies in (-2, 0), as a number that is added
 * to all noises changes no order and this one leaves the largest near 0.
 *
 *   noise    a law
 *   s        0 < s < INFINITY
 *   s_error  at least 0
 *   error    out: an absolute error bound
 *
 * Cost: 10 to 100 ns. */
double dptk_noise(int noise, double s, double s_error, double *error);

/* ---- race.c: order statistics of noise over blocks ---------------------- */

/* The scored items a race runs over. */
typedef struct dptk_field {
    const int64_t *key;      /* the head: m keys (see dptk_keys) ... */
    const int64_t *index;    /* ... and their items */
    const double *offset;    /* added to each score, in units of the scale; or NULL */
    size_t m;                /* below 2^32 */
    int real;                /* keys of doubles; otherwise of integers */
    const dptk_column *tail; /* all items, those of the head too; or NULL: the head is all */
    int stop;                /* whether a stopper (BOT) runs too, DPTK_FIXED without noise */
    int64_t stop_key;
    double stop_offset;
} dptk_field;

#define DPTK_STOP (-1) /* the "item" that stands for the stopper */
#define DPTK_FIXED 2   /* a stopper that has no noise: a threshold that is public */

/* One block of items that share a run of order statistics. */
typedef struct dptk_block {
    int64_t start, size, taken; /* head positions; start -1: tail, -2: stopper */
    int64_t key;                /* largest key in the block, ... */
    double score;               /* ... as (score - that of the first key) / scale */
    double offset;
    double s, s_low, s_error;  /* the race's S = s + s_low, its absolute error bound */
    double noise, noise_error; /* the current noise and its absolute error bound */
    double rest;               /* no block from this one on starts above it */
} dptk_block;

/* A value in the running: a block's upper bound, or an item already seen. */
typedef struct dptk_runner {
    double high, low; /* bounds of the value */
    int64_t id;       /* a block; or an item as ~item */
} dptk_runner;

/* The mark of a tail item that has been seen. */
typedef struct dptk_mark {
    int64_t item, round;
} dptk_mark;

/* Working memory: `capacity` blocks and runners, a position for each item of the
 * head; with a tail 2 * capacity marks, and as many again for dptk_race_afresh. For a sweep
 * 4 * capacity words to sort in, with a tail a bit for each of its items, and no marks.
 * And who may stop the race: a watch, or NULL. */
typedef struct dptk_race_scratch {
    dptk_block *block;
    dptk_runner *runner;
    uint32_t *position;
    dptk_mark *mark, *gone;
    int64_t *sort;
    uint64_t *seen;
    size_t capacity; /* a power of two */
    const dptk_watch *watch;
} dptk_race_scratch;

/* The k items with the largest score/scale + noise, in descending order, cut
 * short by the stopper.
 *
 *   rng           the words
 *   field         without offsets the head is the m largest of all items in descending
 *                 order (ties by index); with offsets there is no tail and the order is
 *                 free; tail scores are not NaN
 *   k             how many, at least 1
 *   scale         of the noise: 0 < scale finite
 *   noise         a law
 *   error_factor  see above
 *   scratch       working memory
 *   item          out: k items; the stopper is DPTK_STOP and counts
 *   value         out: unless NULL, value[2 i] and value[2 i + 1] are bounds of v of
 *                 item[i], less that of the first key (or of the stopper's, without a
 *                 head) without noise
 *   picked        out: how many items there are
 *
 * Equivalent: v = key/scale + offset + noise; order = argsort(-v)[:k]
 * Words: one for each block in order (head, tail, stopper with noise); then for each
 * block that leads, those of a uniform integer (rejection), and one for its
 * next order statistic if items remain.
 * Returns DPTK_UNDECIDED if an order cannot be certified in doubles.
 * Cost: O((blocks + seen) log), seen about k times a small constant. */
int dptk_race(dptk_rng *rng, const dptk_field *field, size_t k, double scale, int noise,
              double error_factor, dptk_race_scratch *scratch, int64_t *item, double *value,
              size_t *picked);

/* ---- sweep.c: many picks at once ------------------------------------------ */

/* Whether to pick by a sweep rather than by a race: that depends on the field and the
 * numbers alone, never on a word.
 *
 *   field, k, scale, noise
 *          as for dptk_race
 *   floor  out, if it returns 1: a floor above which some more than k values are expected
 *   looks  out, if it returns 1: about the capacity that a sweep down to there needs
 *
 * Returns 1 for a sweep: where there are neither offsets nor a stopper, the tail is of no
 * more than DPTK_SWEEP_MOST items (it takes a bit of memory for each), the head has k
 * items or more, the k-th largest score is not too many scales below the first, and k is
 * large, or not small where much of the tail will be looked at.
 * Cost: 10 to 50 us. */
#define DPTK_SWEEP_MOST ((size_t)1 << 30)
int dptk_sweep_floor(const dptk_field *field, size_t k, double scale, int noise, double *floor,
                     size_t *looks);

/* What dptk_race does, by another use of the words.
 *
 *   floor  any number or -INFINITY; it changes the cost, never the law
 *   item   out: k items
 *   rng, field, k, scale, noise, error_factor, scratch
 *          as for dptk_race; k at most the number of items, no offsets, no stopper
 *
 * Values count from the first key, as in dptk_race. Equivalent: the same.
 * Words: one for each block in order (head, tail). Then for each block in order, as long as
 * its next order statistic is above the floor and items remain: those of a uniform integer,
 * and one for its next order statistic if items still remain. If fewer than k of the items
 * seen are above the floor it falls, by 1/4, and each time by an eighth more than before, and each
 * block goes on.
 * Returns DPTK_UNDECIDED also if a value can't be told from a floor.
 * Cost: 30 to 50 ns for each item seen, k times a small constant. */
int dptk_sweep(dptk_rng *rng, const dptk_field *field, size_t k, double scale, int noise,
               double error_factor, double floor, dptk_race_scratch *scratch, int64_t *item);

/* ---- race.c again: many races ---------------------------------------------- */

/* Rows of scored items, each a race to itself: the heads one after the other. */
typedef struct dptk_rows {
    const int64_t *key, *index; /* row i's head is [start[i], start[i + 1]) of these */
    const int64_t *start;       /* n + 1, not falling */
    const int64_t *place;       /* n + 1, not falling: row i takes place[i + 1] - place[i] picks */
    const dptk_column *tail;    /* n: all items of each row; or NULL: the heads are all */
    size_t n;                   /* at least 1 */
    int real;                   /* as in dptk_field, of all rows; so is `stop` */
    int stop;
    const int64_t *stop_key; /* n, if a stopper runs */
    const double *stop_offset;
} dptk_rows;

/* Races number *done to end - 1, one after the other: race j is over row j % n.
 *
 *   rng, scale, noise, error_factor, scratch
 *            as for dptk_race
 *   rows     the rows; each head in order as for dptk_race
 *   end      how many races there are from number 0 on
 *   item     out: the picks of race j from item[(j / n) place[n] + place[j % n]] on; the
 *            places that are left, where a race has fewer picks, are DPTK_STOP too
 *   done     in: the first race to run; out: the first one that has not run to its end,
 *            whose first word is rng->next
 *
 * Equivalent: for each race dptk_sweep if dptk_sweep_floor says so, and else dptk_race, with
 * the words that follow those of the one before.
 * Returns as dptk_race does, of race number *done.
 * Cost: that of the races, and of the scratch once. */
int dptk_race_rows(dptk_rng *rng, const dptk_rows *rows, size_t end, double scale, int noise,
                   double error_factor, dptk_race_scratch *scratch, int64_t *item, size_t *done);

/* k picks, one after the other: each is the item with the largest score/scale +
 * noise of those not yet picked, with fresh noise for every pick.
 *
 *   rng, field, k, scale, noise, error_factor
 *            as for dptk_race; k at most the number of items, no offsets, no stopper
 *   scratch  working memory, of a capacity of at least k
 *   left     scratch: 2 m words
 *   item     out: k items
 *
 * Equivalent: k times: v = key/scale + noise of the items left; i = argmax(v);
 * pick i and take it out. With Gumbel noise that has the law of dptk_race, with
 * no other noise.
 * Words: k times those of dptk_race for one pick over the items left in order, but that the first
 * of the equal scores of a pick has taken its place.
 * The tail's bound remains the score of the head's last item, picked or not.
 * Returns as dptk_race does.
 * Cost: k races for one pick, and moving the head items before each pick. */
int dptk_race_afresh(dptk_rng *rng, const dptk_field *field, size_t k, double scale, int noise,
                     double error_factor, dptk_race_scratch *scratch, int64_t *left, int64_t *item);

/* ---- survey.c: how noise is drawn best --------------------------------------- */

/* What a score costs, in ns: to be passed by, for a part; to be put there and drawn from, and more
 * for the first of a block of so many; to be looked at in the rest. */
#define DPTK_COST_PASS 0.15
#define DPTK_COST_PART 5.0
#define DPTK_COST_FIRST 10.0
#define DPTK_COST_LOOK 50.0
enum { DPTK_COST_BLOCK = 64 };

/* What a sample tells of many scores. Costs are of a call, in ns; infinite: that is no way. */
typedef struct dptk_survey {
    double spread; /* of how many of the sample about the k largest noisy scores are; 0 if most of
                    * these would be without noise: then a sample doesn't know the floor */
    double fall;   /* by how many scales scores fall from the k-th to some behind the 1.25 k-th */
    double cut_cost;
    double sieve_cost;
    int64_t key; /* ... and what it is: see dptk_sieve */
    int bits;
    size_t through; /* about so many are let through */
    double part_cost;
    int64_t most; /* ... of all scores that are larger: see dptk_rest */
    double floor;
    size_t held, looks; /* about so many are in it, and so many looks into the rest needed */
} dptk_survey;

/* It follows from the scores and the scale, and changes what a call costs, never its law.
 *
 *   col    the scores, of any type but DPTK_F16; nothing is known, and each way costs infinitely
 *          much, if one of the sample is infinite or NaN
 *   k      how many are to be picked, 1 <= k
 *   scale  of the noise, 0 < scale finite
 *   size   of the sample, at most DPTK_SURVEY_MOST and col->n
 *   floor  so many scales above the score whose key is `origin` some more than k noisy scores are;
 *          or -INFINITY: not known
 *   out    out
 *
 * Cost: some 20 ns for each of the sample. */
enum { DPTK_SURVEY_MOST = 1024 };
void dptk_survey_of(const dptk_column *col, size_t k, double scale, size_t size, int64_t origin,
                    double floor, dptk_survey *out);

/* By how many scales the k-th of n keys is above the least of them, 1 <= k <= n; which that is goes
 * to *least. If they are not in order, so is about the k-th, as every eighth of them tells.
 * scratch: n / 4 + 2 words. */
double dptk_fall_of(const int64_t *keys, size_t n, size_t k, int in_order, int real, double scale,
                    int64_t *scratch, int64_t *least);

/* ---- draw.c: all noise at once --------------------------------------------- */

/* The least and the largest key of a column. */
typedef struct dptk_span {
    int64_t least, most;
} dptk_span;

/* Whether dptk_draw can draw for these scores.
 *
 *   col    the scores, 1 to 2^32 of them, of any type but DPTK_F16
 *   also   the key of one more, of which the span is too; or NULL
 *   scale  0 < scale finite
 *   span   out
 *
 * Returns DPTK_NAN if a score is NaN or infinite; DPTK_UNDECIDED if this is no way for these
 * scores at this scale, some 2^40 scales apart. That depends on the scores and the scale alone.
 * Cost: one pass. */
int dptk_draw_prepare(const dptk_column *col, const int64_t *also, double scale, dptk_span *span);

/* All items, where noise is not drawn of all of them. */
typedef struct dptk_rest {
    const dptk_column *all; /* their scores */
    const int64_t *index;   /* item i of the column is item index[i] of all; the rest, those left,
                             * are one or more, and shown one after the other as they are needed */
    int64_t key;            /* no score of the rest has a larger one */
    double floor;           /* so many scales above that some more than k values are expected */
    dptk_race_scratch *scratch; /* `capacity` runners, a block, and a bit for each of all */
} dptk_rest;

/* The k items with the largest score/scale + Gumbel noise, in descending order, by drawing some
 * bits of all noise, or of the noise of some items.
 *
 *   rng           the words
 *   col           the scores whose noise is drawn; packed, if there is a rest
 *   span          of them, and of rest->key, by dptk_draw_prepare
 *   rest          what else there is; or NULL
 *   k             how many, 1 <= k <= the number of items
 *   scale         of the noise, as it was prepared for
 *   error_factor  see above
 *   capacity      how many items may have a value, at most all: some more than k
 *   scratch       dptk_draw_scratch(capacity) words
 *   item          out: k items
 *
 * Equivalent: v = score/scale - log(-log(1 - U)); order = argsort(-v)[:k]
 * Words: one for each four items in order, whose U begin with 16 bits of it, from the lowest up;
 * one for the first order statistic of the rest. Then one for each candidate in order, of which
 * the upper 48 bits are the next of its U; then of the rest as dptk_sweep takes them for a block;
 * and if the floor falls, once more for those that become candidates, and the rest. Who does, by
 * the first bits: dptopk/reference/draw.py. The floor changes the cost, never the law.
 * Returns DPTK_UNDECIDED if 64 bits of each U don't tell an order, or doubles one with the rest, or
 * of few items; DPTK_SCRATCH if there are more values than the capacity: never if it is the number
 * of items; DPTK_CHANGED if scores have changed since dptk_draw_prepare. What it computed of the
 * words is wiped.
 * Cost: 1 to 2 ns for each item with vectors, some 40 ns for each candidate, 50 to 100 ns for
 * each look into the rest. */
size_t dptk_draw_scratch(size_t capacity);
int dptk_draw(dptk_rng *rng, const dptk_column *col, const dptk_span *span, const dptk_rest *rest,
              size_t k, double scale, double error_factor, size_t capacity, int64_t *scratch,
              int64_t *item);

/* Which of many items may be above a floor, and their first 16 bits of U: those let through. They
 * are the items whose score has a larger key; and of the others those whose U begins with `bits`
 * zeros. So no item that is not let through has a value above that of the key's
 * score + scale bits log 2. */
enum { DPTK_SIEVE_BITS = 8 };
typedef struct dptk_sieve {
    const dptk_column *col; /* the scores, of any type but DPTK_F16 */
    int64_t key;            /* below INT64_MAX; of floats not -1, which no score has */
    int bits;               /* 0 to DPTK_SIEVE_BITS */
    size_t capacity;        /* of those let through: that many are too many */
    int64_t *score;         /* out: their keys, of floats their bits as doubles, in memory for */
    int64_t *index;         /* dptk_sieve_room(capacity); out: which they are, as many */
    uint16_t *lead;         /* out: the bits, as many */
    dptk_column through;    /* out: their scores as a column */
    const uint64_t *word;   /* out: the first bits of all, ... */
    int planes;             /* out: ... so many of each */
} dptk_sieve;

/* Let items through; and again, by a bit less, which is 1 at least: others.
 *
 * Words: for each 64 items in order `bits` words: the first bits of their U, from the lowest bit
 * up, then the second bits, and so on. Then, and each time, one for each four items let through in
 * the order of `index`, from the lowest up: 16 bits, with which U begins where the score's key is
 * larger. Of the other items the upper ones of these are the next bits of U, behind the first of
 * them that let it through: zeros, or again zeros and a one.
 * Returns DPTK_NAN if a score that it reads is NaN or infinite, else DPTK_SCRATCH if there are as
 * many as the capacity.
 * Cost: one pass at the speed of memory, and some ns for each that is let through. */
size_t dptk_sieve_room(size_t capacity);
int dptk_sieve_start(dptk_sieve *sieve, dptk_rng *rng);
int dptk_sieve_widen(dptk_sieve *sieve, dptk_rng *rng);

/* The same picks as dptk_draw's, of items that a sieve lets through.
 *
 *   sieve    what it starts with
 *   rng, k, scale, error_factor, capacity, scratch, item  as above
 *
 * Words: the sieve's, then those of the candidates as above; and each time that it has to be
 * widened, because fewer than k values are above the floor that it makes certain, both once more;
 * once it lets all through the floor falls as above.
 * Returns as dptk_draw does; and DPTK_NAN if a score that it reads is NaN or infinite, or is too far
 * above the key: unless there is too little memory, for which it may stop before it has read all,
 * that depends on the scores and the scale alone. What it computed of the words is wiped. */
int dptk_draw_sieved(dptk_rng *rng, dptk_sieve *sieve, size_t k, double scale, double error_factor,
                     size_t capacity, int64_t *scratch, int64_t *item);

/* A number as the sum of two doubles. */
typedef struct dptk_wide {
    double high, low;
} dptk_wide;

/* A value once more, by all 64 bits of the word that its U begins with, for the few that a double
 * does not tell from others.
 *
 *   word       the bits
 *   key, from  of its score, and of the score that values are measured from; of doubles if `real`
 *   scale      of the noise
 *   error      out: what it may be off by, and what comparing it with one near it may add; infinite
 *              if U is too near to 0 or 1, or the score is past the range of doubles
 *
 * Equivalent: (score - from)/scale - log(-log(1 - U)). Cost: some us. */
dptk_wide dptk_close_value(uint64_t word, int64_t key, int64_t from, int real, double scale,
                           double *error);

/* Of many values those above a floor in descending order, if a glance shows that it is certain.
 *
 *   value, error  n > 0 of each: an error of 0 stands for noise_error and 2^-49 of |value| + 38
 *   floor         0 is returned for -INFINITY
 *   factor        of all errors, 1 at least
 *   k             how many are wanted, 1 <= k
 *   scratch, to   n words each
 *   place         out: where the k largest are, the largest first
 *
 * Returns how many are above the floor. 0 if these are fewer than k or 2, or two neighbours of the
 * first k and the next are no further apart than what each is off by, or a value and the floor:
 * or nearly so. Cost: some 3 ns a value. */
size_t dptk_descending(const double *value, const double *error, size_t n, double floor,
                       double noise_error, double factor, size_t k, int64_t *scratch, int64_t *to,
                       int64_t *place);

/* The same of at most DPTK_DRAW_FEW scores, which need not be prepared: faster.
 *
 *   rng, k, scale, error_factor, item  as above
 *   col                                the scores, 1 to DPTK_DRAW_FEW of them
 *
 * Words: as above, of which every item is a candidate.
 * Returns as both do, but never DPTK_SCRATCH or DPTK_CHANGED.
 * Cost: some 6 ns for each item with vectors. */
enum { DPTK_DRAW_FEW = 64 };
int dptk_draw_few(dptk_rng *rng, const dptk_column *col, size_t k, double scale,
                  double error_factor, int64_t *item);

/* The same of some rows, one after the other: faster than by themselves.
 *
 *   col, k, item  of each row; no k above DPTK_DRAW_ROWS_K
 *   rows          how many, 1 to DPTK_DRAW_ROWS
 *   done          out: how many are done
 *
 * Returns DPTK_OK, or what the first that is not done returns, of which the next word is the
 * first. It has read the words of those behind it, if there were any. */
enum { DPTK_DRAW_ROWS = 16, DPTK_DRAW_ROWS_K = 13 };
int dptk_draw_few_rows(dptk_rng *rng, const dptk_column *col, const size_t *k, size_t rows,
                       double scale, double error_factor, int64_t *const *item, size_t *done);

/* ---- paths.c: lattice paths under a staircase ---------------------------- */

/* So many numbers: low is NULL in plain doubles. */
typedef struct dptk_series {
    double *high, *low;
    size_t n;
} dptk_series;

/* A stair: `placed` numbers must be placed below `height`; theta tilts what is
 * placed since the stair before. Of the row below it, entries first, ..., last are
 * kept; no entry has lost more than `lost`, their relative errors are those of so
 * many roundings, and the step to it scaled them by 2^exponent. */
typedef struct dptk_stair {
    int64_t height;
    size_t placed;
    double theta;
    size_t first, last;
    double lost, roundings;
    int64_t exponent;
} dptk_stair;

/* A staircase whose paths are counted. The number of paths is count 2^-exponent
 * over the product of theta, one factor for each number that a stair places; error is
 * the relative error of count. */
typedef struct dptk_staircase {
    dptk_stair *stair; /* from the lowest up */
    size_t stairs;
    dptk_wide count;
    int64_t exponent;
    double error;
    dptk_series part; /* see dptk_paths_parts */
    /* private to paths.c */
    size_t k, stride, at;
    int precision, pairs, rows, depth;
    dptk_series weight;
    double *row;
    const dptk_watch *watch;
} dptk_staircase;

/* How well a number is to be known: to 2^-19 of it, as well as doubles can (1e-9 at
 * k = 20,000), or as pairs of doubles can (1e-22). */
enum { DPTK_ROUGH = 0, DPTK_PLAIN = 1, DPTK_PAIRS = 2 };

/* Counts the integer sequences 0 <= x_1 <= ... <= x_k with x_i <= bound[i].
 *
 *   bound      k integers, not falling, 0 <= bound[i] < 2^52
 *   k          at least 1
 *   precision  DPTK_ROUGH, DPTK_PLAIN or DPTK_PAIRS
 *   rows       1: dptk_paths_parts will be called
 *   watch      or NULL
 *   scratch    dptk_paths_scratch(k, precision, rows) doubles; most remain untouched
 *   staircase  out; it points into the scratch
 *
 * Equivalent, for each distinct height of bound + 1, g above the one before:
 *   F = [sum(F[i] * comb(g + j - i - 1, j - i) for i in range(j + 1)) for j in range(k + 1)],
 *   F[j] = 0 for j < placed; at the end F[k]
 * Returns DPTK_UNDECIDED if doubles can't tell; no staircase of 20,000 is known to.
 * Cost: some 100 k^1.5 multiplications. */
size_t dptk_paths_scratch(size_t k, int precision, int rows);
int dptk_paths(const int64_t *bound, size_t k, int precision, int rows, const dptk_watch *watch,
               double *scratch, dptk_staircase *staircase);

/* The logarithm of that number, and an absolute error bound. */
void dptk_paths_log(const dptk_staircase *staircase, double *log_count, double *error);

/* Of the paths that have placed `taken` numbers below stair s > 0, how many have
 * placed i of them below the stair before: staircase->part[i - first] to scale, for
 * first <= i < first + n. Each is off by at most `error` of itself and what was left out,
 * less than 2^-20, 2^-60 or 2^-100 of their sum by the precision; of other i there are no
 * more than that. Stairs are asked for from the top down. */
int dptk_paths_parts(dptk_staircase *staircase, size_t s, size_t taken, size_t *first, size_t *n,
                     double *error);

/* ---- paths_mod.c: the same modulo a prime ---------------------------------- */

/* The number of those sequences modulo p.
 *
 *   bound, k  as for dptk_paths
 *   p         2^53 < p < 2^61 a prime, k < p
 *   watch     or NULL
 *   scratch   dptk_paths_mod_scratch(k) words
 *   residue   out
 *
 * Cost: 2 k^2 products of 64 bits. */
size_t dptk_paths_mod_scratch(size_t k);
int dptk_paths_mod(const int64_t *bound, size_t k, uint64_t p, const dptk_watch *watch,
                   uint64_t *scratch, uint64_t *residue);

/* ---- subset.c: uniform subsets --------------------------------------------- */

/* A uniform subset of m of the integers first, ..., first + n - 1, by Floyd's method.
 *
 *   rng      the words
 *   first    the least
 *   n        how many there are, below 2^53
 *   m        how many to draw, at most n
 *   scratch  dptk_subset_scratch(m) words
 *   rank     out: m of them, in no order
 *
 * Words: for last = n - m, ..., n - 1 those of a uniform integer at in [0, last], unless
 * last is 0; if at was drawn before, last stands for it. */
size_t dptk_subset_scratch(size_t m);
int dptk_subset(dptk_rng *rng, int64_t first, uint64_t n, size_t m, int64_t *scratch,
                int64_t *rank);

/* ---- joint.c: the joint exponential mechanism ---------------------------- */

/* Scores by distinct value, descending: end[g] items score at least key[g]. */
typedef struct dptk_groups {
    const int64_t *key;
    const int64_t *end;
    size_t n;
    int real; /* keys of doubles; otherwise of integers */
} dptk_groups;

/* A block of losses tau in [start, start + width) that is proposed with a
 * weight: its envelope over that of all, in fixed point. */
typedef struct dptk_joint_block {
    double start, width;      /* width is infinite in the last */
    double log_low, log_high; /* log of the number of sets at its ends */
    uint64_t weight;
    int constant; /* whether that number is the same all over it */
} dptk_joint_block;

enum { DPTK_JOINT_BLOCKS = 2048 };

/* Working memory for k picks: dptk_joint_scratch(k, sequence) words. */
size_t dptk_joint_scratch(size_t k, int sequence);

/* The envelope. What it is follows from the scores and the scale, with no
 * randomness: it changes the cost of a draw, never its law. log_unit is the
 * logarithm of what a weight of 2^52 stands for.
 *
 *   groups    the scores: fewer than 2^52, differences finite
 *   k         how many to pick, 1 <= k <= end[n - 1]
 *   scale     of a loss: 0 < scale finite
 *   sequence  1: sequences in place of sets
 *   watch     or NULL
 *   scratch   dptk_joint_scratch(k, sequence) words
 *   block     out: room for DPTK_JOINT_BLOCKS
 *   blocks    out: how many there are
 *   log_unit  out
 *
 * Returns DPTK_UNDECIDED if the numbers of sets are beyond doubles.
 * Cost: tens to some hundreds of counts of paths (k steps each for sequences). */
int dptk_joint_envelope(const dptk_groups *groups, size_t k, double scale, int sequence,
                        const dptk_watch *watch, int64_t *scratch, dptk_joint_block *block,
                        size_t *blocks, double *log_unit);

/* Ranks (0 the largest score) of a set, or a sequence, of k items, drawn with
 * probability proportional to exp(-max_i (c_i - c_(rank[i])) / scale). Those of
 * a set come in no order. Which of equal scores a rank stands for is free.
 *
 *   rng           the words
 *   groups, k, scale, sequence
 *                 as for dptk_joint_envelope
 *   error_factor  see above
 *   block, blocks, log_unit
 *                 the envelope
 *   watch         or NULL
 *   scratch       dptk_joint_scratch(k, sequence) words
 *   rank          out: k ranks
 *
 * Words: for each proposal those of a uniform integer (the block), one for tau
 * unless the block is the last, one to accept; then for a set, from the top stair
 * down, one for each but the lowest and those of a uniform subset, for a sequence
 * those of k uniform integers.
 * Returns DPTK_UNDECIDED if a decision cannot be certified in doubles. */
int dptk_joint(dptk_rng *rng, const dptk_groups *groups, size_t k, double scale, int sequence,
               double error_factor, const dptk_joint_block *block, size_t blocks, double log_unit,
               const dptk_watch *watch, int64_t *scratch, int64_t *rank);

/* ---- canonical.c: the inverse-sensitivity mechanism ------------------------ */

/* Sets that hold the ranks 0 .. row - 1 and not `row`, by thresholds: see canonical.c.
 * row = k stands for the set of the k best ranks. */
typedef struct dptk_canonical_block {
    int64_t row;
    int64_t first, last;    /* groups that the thresholds let in, at least and at most */
    double log_size, error; /* logarithm of the envelope, its absolute error bound */
    double log_excess;      /* of what may be in vain of it; -INFINITY: nothing */
    uint64_t weight;        /* the envelope over that of all, in fixed point, rounded up */
} dptk_canonical_block;

/* How many blocks an envelope for k picks has at most, and its working memory. */
size_t dptk_canonical_blocks(size_t k);
size_t dptk_canonical_scratch(size_t k);

/* The envelope. What it is follows from the scores and the scale, with no
 * randomness: it changes the cost of a draw, never its law.
 *
 *   groups    the scores: fewer than 2^52, differences finite
 *   k         how many to pick, 1 <= k <= end[n - 1]
 *   scale     of a loss: 0 < scale finite
 *   scratch   dptk_canonical_scratch(k) words
 *   block     out: room for dptk_canonical_blocks(k)
 *   blocks    out: how many there are
 *   log_unit  out: the logarithm of what a weight of 2^60 stands for
 *
 * Cost: some tens of logarithms for each rank that may be missing. */
void dptk_canonical_envelope(const dptk_groups *groups, size_t k, double scale, int64_t *scratch,
                             dptk_canonical_block *block, size_t *blocks, double *log_unit);

/* Ranks (0 the largest score) of a set of k items, drawn with probability proportional
 * to exp(min(0, least score in the set - largest outside) / scale), in no order. Which
 * of equal scores a rank stands for is free.
 *
 *   rng           the words
 *   groups, k, scale
 *                 as for dptk_canonical_envelope
 *   error_factor  see above
 *   block, blocks, log_unit
 *                 the envelope
 *   scratch       dptk_canonical_scratch(k) words
 *   rank          out: k ranks
 *
 * Words: for each proposal those of a uniform integer (the block) and one to accept its
 * weight; unless that fails or the set is that of the k best, those of a uniform subset;
 * and unless its last rank is in the first group, one to accept the set.
 * Returns DPTK_UNDECIDED if a decision cannot be certified in doubles. */
int dptk_canonical(dptk_rng *rng, const dptk_groups *groups, size_t k, double scale,
                   double error_factor, const dptk_canonical_block *block, size_t blocks,
                   double log_unit, int64_t *scratch, int64_t *rank);

/* ---- items.c: from ranks to items ---------------------------------------- */

/* The items that have given ranks among all by score, where those of equal score
 * may stand in for one another.
 *
 *   rng      the words
 *   rank     k different ones below col->n, uniform among those of equal score
 *   groups   the column's; if m < col->n all its keys are in use
 *   head     the items of ranks 0 .. m - 1, equal scores by index
 *   m        size of the head, at least 1
 *   col      the scores: right for all but the head, and there no smaller than the
 *            head's last; not read if all ranks are below m
 *   k        how many ranks
 *   scratch  dptk_items_scratch(k) words
 *   item     out: k items
 *
 * Equivalent: item = np.lexsort((np.arange(n), -column))[rank]; but past the head,
 * in a group of at least n / 4096 (rounded down), uniform ones in place of that order.
 * Words: for each such rank in turn those of uniform integers below n, until one
 * is an item of the group, not in the head and not taken.
 * Cost: 4096 tries a rank at most, on average; one pass if a small group is hit. */
size_t dptk_items_scratch(size_t k);
int dptk_items(dptk_rng *rng, const int64_t *rank, const dptk_groups *groups, const int64_t *head,
               size_t m, const dptk_column *col, size_t k, int64_t *scratch, int64_t *item);

/* ---- discrete.c: integer noise -------------------------------------------- */

/* P(x) proportional to exp(-|x| / scale), or to exp(-x^2 / (2 scale^2)). */
enum { DPTK_DISCRETE_LAPLACE, DPTK_DISCRETE_GAUSSIAN };

/* n independent integers of a discrete law, the scale taken as the exact number
 * it is.
 *
 *   rng           the words
 *   n             how many
 *   scale         2^-50 <= scale <= 2^50
 *   noise         DPTK_DISCRETE_LAPLACE or DPTK_DISCRETE_GAUSSIAN
 *   error_factor  see above
 *   out           out: n integers, each below 2^54 in size
 *
 * Equivalent: Laplace: floor(scale * E1) - floor(scale * E2) of standard
 * exponentials. Gaussian: y of that at scale t = floor(scale) + 1, again and again until
 * E3 > (|y| - scale**2 / t)**2 / (2 * scale**2).
 * Words: one for each E in this order; E3 is drawn after each y.
 * Returns DPTK_UNDECIDED if a whole part or a comparison cannot be certified in
 * doubles: with probability about scale / 2^47 a variate.
 * Cost: n times two or about five logarithms. */
int dptk_discrete(dptk_rng *rng, size_t n, double scale, int noise, double error_factor,
                  int64_t *out);

/* ---- sparse_vector.c: tests against one noisy threshold ------------------ */

/* Queries, and the threshold base + offset that they are tested against. */
typedef struct dptk_tests {
    const int64_t *integer; /* the queries: integers; ... */
    const double *real;     /* ... or, unless NULL, doubles: then base is 0 */
    int64_t base;
    double offset;
    double threshold_scale, query_scale; /* of the Laplace noises */
    uint64_t threshold_word;             /* the one the threshold's noise is made of */
    int above;                           /* whether a hit is above the threshold, or below */
} dptk_tests;

/* Test queries from *tested on, until n are tested or `hits` of them have hit.
 *
 *   rng           the words
 *   tests         queries and offset are finite, scales finite and > 0 (the threshold's
 *                 may be 0: no noise on it)
 *   n             how many queries there are
 *   hits          stop after this many
 *   error_factor  see above
 *   tested        in: how many are tested already; out: how many are now
 *   hit           out: room for n, those tested are filled in
 *
 * Equivalent: noisy = query[i] + query_scale * laplace[i]
 *             hit[i] = (noisy > base + offset + threshold_scale * laplace_0) == above
 * Words: one a query. Bit 0 is the sign of a noise (1: negative), the other 63
 * the first of the U of its size -ln(1 - U).
 * After any status but DPTK_OK the run can go on from *tested; with DPTK_UNDECIDED
 * the word of query *tested has not been read.
 * Cost: one pass; a logarithm only for queries near the threshold. */
int dptk_sparse_vector(dptk_rng *rng, const dptk_tests *tests, size_t n, size_t hits,
                       double error_factor, size_t *tested, uint8_t *hit);

/* ---- adaptive.c: composition of adaptive bounded-range steps ------------- */

/* Upper bounds of delta(x) after `steps` steps, at x = 0, cell, 2 cell, ...
 * with cell = range / m: the worst hockey-stick divergence at e^x over all
 * adaptive choices of steps whose loss lies in some [t - range, t].
 *
 *   start     n_start such bounds after earlier steps, at the same places, to go on from;
 *             n_start = 0: from none
 *   steps     at least 1, without the earlier ones
 *   m         cells a range: 2 to DPTK_ADAPTIVE_MAX_CELLS
 *   capacity  how many places there are: delta(x) <= floor is known past them
 *   range     of the losses of a step: 0 < range <= 8
 *   floor_    at least 1e-280
 *   scratch   dptk_adaptive_scratch(m, capacity) doubles
 *   out       out: room for capacity; every value is at least floor
 *   n_out     out: how many there are; past them delta <= floor
 *
 * Equivalent: v[1] = expm1((x - range) / 2)**2 / -expm1(-range), then steps - 1
 * times v = max over t in [0, range] of P(t) v(x - t) + (1 - P(t)) v(x - t + range),
 * P(t) = expm1(t - range) / expm1(-range), v linear in e^x between places.
 * The floor costs no more than itself: out exceeds what floor = 0 gives by at
 * most floor (and the rounding charge).
 * The bounds never fall from one step to the next.
 * Cost: about steps * n * 2 log2(m) evaluations. */
enum { DPTK_ADAPTIVE_MAX_CELLS = 128 };
size_t dptk_adaptive_scratch(size_t m, size_t capacity);
int dptk_adaptive(const double *start, size_t n_start, size_t steps, size_t m, size_t capacity,
                  double range, double floor_, double *scratch, double *out, size_t *n_out);

#endif
