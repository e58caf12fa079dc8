/* canonical.c - the inverse-sensitivity mechanism over sets.
 *
 * The sets other than that of the k best ranks fall into rows: row h has those that
 * hold the ranks 0 .. h-1 and not h. Such a set loses c_h - c_t, t its last rank, and
 * its weight is exp(-loss / s): the integral of exp(-tau / s) / s over tau >= loss.
 * Cut at the distinct scores, a row is a sum over groups g: the thresholds tau between
 * c_h - (score of g) and c_h - (score of the next group) let in exactly the sets whose
 * k - h ranks past h lie above the end of g, C(end[g] - h - 1, k - h) of them.
 *
 * A block is a row and a run of groups. Its envelope takes all its thresholds to let
 * in what the last of its groups does. A block is proposed by an integer weight, no
 * less than its envelope; then a uniform set of those it may let in; and the set is
 * accepted by the share of the block's thresholds that let it in. So numbers of sets
 * decide nothing but whether a weight, rounded up, is accepted. */
#include "dptk.h"
#include "variate.h"

#include <math.h>
#include <string.h>

/* How much of the envelope may be in vain before blocks are split. */
static const double LOOSE = 0.5;
static const double LN_2 = 0x1.62e42fefa39efp-1;
/* Below this 1 - exp(-x) is x, but for less than a unit in the last place. */
static const double LINEAR = 0x1p-60;

typedef struct rows {
    const dptk_groups *groups;
    size_t k;
    double scale;
    const int64_t *key; /* of the score of rank h, for each row */
} rows;

/* ---- logarithms with error bounds ------------------------------------------- */

/* ln x! less Stirling's formula, for x >= 16. The series alternates: what is left
 * out is less than its next term, 1 / (1188 x^9) < 2^-46. */
static double stirling(double x)
{
    const double r = 1.0 / x, q = r * r;
    return r * (1.0 / 12.0 - q * (1.0 / 360.0 - q * (1.0 / 1260.0 - q / 1680.0)));
}

/* The logarithm of C(n, m), 1 <= m <= n < 2^52, within *error.
 *
 * Few factors are multiplied, two roundings each. Otherwise, by Stirling's formula,
 * with r = n - m >= m: m ln(n/m) - r ln(1 - m/n) + ln(n / (2 pi m r)) / 2 and three
 * rests. The first two are positive and make up most of it; they err by LOG_ERROR, a
 * rounding of the quotient (1.5 times as much in the second) and one of the product,
 * and m 2^-53 is less than 2^-52 of the first as ln(n/m) >= ln 2. The third is less
 * than 60 in size, the rests than 2^-44 off. */
static double log_binomial(int64_t n, int64_t m, double *error)
{
    if (m > n - m) m = n - m;
    if (m < 16) {
        double product = 1.0, value;
        for (int64_t i = 0; i < m; i++) product = product * (double)(n - i) / (double)(i + 1);
        value = log(product);
        *error = LOG_ERROR * value + 0x1p-47;
        return value;
    }
    const double all = (double)n, in = (double)m, out = (double)(n - m);
    const double taken = in * log(all / in), left = -out * log1p(-in / all);
    *error = 0x1p-49 * (taken + left) + 0x1p-42;
    return taken + left + 0.5 * log(all / (6.283185307179586 * in * out))
         + (stirling(all) - stirling(in) - stirling(out));
}

/* The logarithm of exp(-from / s) - exp(-(from + width) / s); width may be infinite.
 * Quotients have two roundings, and ln(1 - exp(-x)) moves by less than x does of
 * itself. A quotient past all doubles is cut: the envelope gets no smaller by it. */
static double log_mass(double from, double width, double scale, double *error)
{
    const double x = width / scale, ahead = fmin(from / scale, 1e300);
    double part;
    if (x < LINEAR) {
        const double log_width = log(width), log_scale = log(scale);
        part = log_width - log_scale;
        *error = 0x1p-49 * (1.0 + fabs(log_width) + fabs(log_scale));
    } else {
        part = log(-expm1(-x));
        *error = 0x1p-49 * (1.0 - part);
    }
    *error += 0x1p-51 * ahead;
    return part - ahead;
}

/* ---- blocks ------------------------------------------------------------------- */

/* From the first group's score down to that of the group after the last: how far the
 * block's thresholds reach. */
static double width_of(const dptk_groups *g, int64_t first, int64_t last)
{
    if ((size_t)last + 1 == g->n) return INFINITY;
    return score_drop(g, g->key[first], g->key[last + 1]);
}

static double log_size(const rows *r, int64_t row, int64_t first, int64_t last, int64_t most,
                       double *error)
{
    const dptk_groups *g = r->groups;
    const double from = score_drop(g, r->key[row], g->key[first]);
    double count_error, mass_error;
    const double count = log_binomial(g->end[most] - row - 1, (int64_t)r->k - row, &count_error);
    const double mass = log_mass(from, width_of(g, first, last), r->scale, &mass_error);
    *error = count_error + mass_error + 0x1p-52 * (count + fabs(mass));
    return count + mass;
}

static dptk_canonical_block block_of(const rows *r, int64_t row, int64_t first, int64_t last)
{
    dptk_canonical_block b = {.row = row, .first = first, .last = last};
    double least, other, error;
    b.log_size = log_size(r, row, first, last, last, &b.error);
    b.log_excess = -INFINITY;
    if (first == last) return b;
    /* All its thresholds let in the sets of the first group, and the last its own. */
    least = log_size(r, row, first, last, first, &error);
    other = log_size(r, row, last, last, last, &error);
    if (other > least) least = other;
    if (least < b.log_size) b.log_excess = b.log_size + log(-expm1(least - b.log_size));
    return b;
}

/* The blocks are a heap by excess. */
static void raise(dptk_canonical_block *heap, size_t at, dptk_canonical_block b)
{
    for (; at > 0 && heap[(at - 1) / 2].log_excess < b.log_excess; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = b;
}

static void replace_top(dptk_canonical_block *heap, size_t n, dptk_canonical_block b)
{
    size_t at = 0;
    for (size_t child = 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && heap[child + 1].log_excess > heap[child].log_excess;
        if (heap[child].log_excess <= b.log_excess) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = b;
}

/* Where its scores fall to below the middle of the block's. */
static int64_t middle(const dptk_groups *g, int64_t first, int64_t last)
{
    const double half = 0.5 * score_drop(g, g->key[first], g->key[last]);
    int64_t low = first, high = last; /* low is above the middle, high below */
    while (high - low > 1) {
        const int64_t at = low + (high - low) / 2;
        if (score_drop(g, g->key[first], g->key[at]) <= half)
            low = at;
        else
            high = at;
    }
    return high;
}

/* The logarithm of what all blocks add up to, and whether enough of it is in use. */
static int tight(const dptk_canonical_block *block, size_t n, double *log_total)
{
    double top = -INFINITY, total = 0.0, excess = 0.0;
    for (size_t i = 0; i < n; i++)
        if (block[i].log_size > top) top = block[i].log_size;
    for (size_t i = 0; i < n; i++) {
        if (block[i].log_size < top - 50.0) continue; /* n of them still are nothing */
        total += exp(block[i].log_size - top);
        excess += exp(block[i].log_excess - top);
    }
    *log_total = top + log(total);
    return excess <= LOOSE * total;
}

size_t dptk_canonical_blocks(size_t k) { return 16 * k + 4096; }

size_t dptk_canonical_scratch(size_t k) { return k + dptk_subset_scratch(k); }

void dptk_canonical_envelope(const dptk_groups *groups, size_t k, double scale, int64_t *scratch,
                             dptk_canonical_block *block, size_t *blocks, double *log_unit)
{
    const rows r = {.groups = groups, .k = k, .scale = scale, .key = scratch};
    const size_t most = dptk_canonical_blocks(k);
    const int64_t last = (int64_t)groups->n - 1, d = groups->end[last];
    size_t n = 0, own = 0, check;
    block[n++] = (dptk_canonical_block){.row = (int64_t)k, .log_excess = -INFINITY};
    for (size_t h = 0; h < k; h++) {
        while ((size_t)groups->end[own] <= h) own++;
        scratch[h] = groups->key[own];
    }
    if ((size_t)d > k) {
        while ((size_t)groups->end[own] <= k) own++;
        for (int64_t h = (int64_t)k - 1; h >= 0; h--, n++)
            raise(block, n, block_of(&r, h, (int64_t)own, last));
    }
    for (check = n; n < most && block[0].log_excess > -INFINITY; n++) {
        const dptk_canonical_block b = block[0];
        int64_t at;
        if (n >= check) {
            if (tight(block, n, log_unit)) break;
            check = n + n / 8 + 8;
        }
        at = middle(groups, b.first, b.last);
        replace_top(block, n, block_of(&r, b.row, b.first, at - 1));
        raise(block, n, block_of(&r, b.row, at, b.last));
    }
    tight(block, n, log_unit);
    for (size_t i = 0; i < n; i++) {
        /* A millionth more than rounding could take, and one unit. */
        const double size = block[i].log_size + block[i].error - *log_unit + 0x1p-20;
        block[i].weight = (uint64_t)(exp(size) * 0x1p+60) + 2;
    }
    *blocks = n;
}

/* ---- draws --------------------------------------------------------------------- */

/* Whether a block's weight is accepted, by its size over the weight. */
static int weigh(dptk_rng *rng, const dptk_canonical_block *b, double log_unit, double error_factor,
                 int *accepted)
{
    const double price = log_unit - 60.0 * LN_2 + log((double)b->weight) - b->log_size;
    double error, e;
    uint64_t word;
    int status = next_word(rng, &word);
    if (status != DPTK_OK) return status;
    e = exponential(word, &error);
    error += b->error + 0x1p-42 + 0x1p-50 * (fabs(log_unit) + fabs(b->log_size));
    error *= error_factor;
    *accepted = e > price;
    return fabs(e - price) > error ? DPTK_OK : DPTK_UNDECIDED;
}

/* Whether a set whose last rank is t is accepted, by the share of the block's
 * thresholds that let it in: 1 - q, q = (1 - exp(-drop/s)) / (1 - exp(-width/s)). Both
 * quotients have two roundings, as much of themselves comes to expm1, which errs by
 * LIBM_ERROR. */
static int let_in(dptk_rng *rng, const dptk_groups *g, const dptk_canonical_block *b, int64_t t,
                  double scale, double error_factor, int *accepted)
{
    const double width = width_of(g, b->first, b->last);
    int64_t low = b->first, high = b->last; /* t is past the end of low, not of high */
    double drop, q, error;
    uint64_t word;
    int status;
    *accepted = 1;
    if (t < g->end[low]) return DPTK_OK;
    while (high - low > 1) {
        const int64_t at = low + (high - low) / 2;
        if (t < g->end[at])
            high = at;
        else
            low = at;
    }
    drop = score_drop(g, g->key[b->first], g->key[high]);
    q = width / scale < LINEAR ? drop / width : expm1(-drop / scale) / expm1(-width / scale);
    status = next_word(rng, &word);
    if (status != DPTK_OK) return status;
    error = error_factor * (0x1p-47 * q + 0x1p-52);
    *accepted = (double)word * 0x1p-64 > q;
    return fabs((double)word * 0x1p-64 - q) > error ? DPTK_OK : DPTK_UNDECIDED;
}

int dptk_canonical(dptk_rng *rng, const dptk_groups *groups, size_t k, double scale,
                   double error_factor, const dptk_canonical_block *block, size_t blocks,
                   double log_unit, int64_t *scratch, int64_t *rank)
{
    uint64_t total = 0;
    for (size_t i = 0; i < blocks; i++) total += block[i].weight;
    for (;;) {
        const dptk_canonical_block *b = block;
        size_t h;
        int64_t t = 0;
        uint64_t at;
        int accepted, status = next_below(rng, total, &at);
        if (status != DPTK_OK) return status;
        while (at >= b->weight) at -= (b++)->weight;
        status = weigh(rng, b, log_unit, error_factor, &accepted);
        if (status != DPTK_OK) return status;
        if (!accepted) continue;
        h = (size_t)b->row;
        for (size_t i = 0; i < h; i++) rank[i] = (int64_t)i;
        if (h == k) return DPTK_OK;
        status = dptk_subset(rng, b->row + 1, (uint64_t)(groups->end[b->last] - b->row - 1), k - h,
                             scratch, rank + h);
        if (status != DPTK_OK) return status;
        for (size_t i = h; i < k; i++)
            if (rank[i] > t) t = rank[i];
        status = let_in(rng, groups, b, t, scale, error_factor, &accepted);
        if (status != DPTK_OK || accepted) return status;
    }
}
