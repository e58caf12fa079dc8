/* sparse_vector.c - queries against one noisy threshold.
 *
 * A Laplace noise takes one word: bit 0 is its sign, the 63 bits above are the
 * first of the U of its size E = -ln(1 - U). How large E can be shows in the
 * leading zeros of 1 - U, and that decides most tests without a logarithm.
 *
 * A test is decided only when the two sides differ by more than their error
 * bounds, so word i serves query i whatever was rounded. */
#include "dptk.h"
#include "variate.h"

#include <math.h>
#include <string.h>

/* What underflow may take from a product or a sum of error bounds. */
#define TINY 0x1p-1020

/* An upper bound of exponential(word): with h the 63 bits of 1 - U, E is below
 * -ln(h 2^-63), at most 63 - floor(log2 h) times ln 2. As a double h may round
 * up to a power of two: the 2^-50. */
static inline double at_most(uint64_t word)
{
    const double h = (double)(int64_t)(~word >> 1);
    uint64_t bits;
    if (h == 0.0) return INFINITY;
    memcpy(&bits, &h, sizeof bits);
    return (double)(63 + 1023 - (int)(bits >> 52)) * 0x1.62e42fefa39f0p-1 + 0x1p-50;
}

/* A Laplace noise of this scale, within *error. */
static double laplace(uint64_t word, double scale, double *error)
{
    double size_error;
    const double size = scale * exponential(word, &size_error);
    *error = (scale * size_error + 0x1p-52 * size) * (1.0 + 0x1p-50) + TINY;
    return word & 1 ? -size : size;
}

/* threshold - query, relative error 2^-52 of its terms. Integers are
 * subtracted as such, so that large ones keep their difference. */
static inline double difference(const dptk_tests *t, size_t i, double *terms)
{
    double whole;
    if (t->real) {
        whole = t->offset - t->real[i];
        *terms = fabs(whole);
        return whole;
    }
    if (t->base >= t->integer[i])
        whole = (double)((uint64_t)t->base - (uint64_t)t->integer[i]);
    else
        whole = -(double)((uint64_t)t->integer[i] - (uint64_t)t->base);
    *terms = fabs(whole) + fabs(t->offset);
    return whole + t->offset;
}

int dptk_sparse_vector(dptk_rng *rng, const dptk_tests *tests, size_t n, size_t hits,
                       double error_factor, size_t *tested, uint8_t *hit)
{
    double shift_error;
    const double shift = laplace(tests->threshold_word, tests->threshold_scale, &shift_error);
    const double scale = tests->query_scale;
    size_t i = *tested;
    int status = DPTK_OK;
    while (i < n && hits > 0) {
        uint64_t word;
        double terms, gap, error;
        int above;
        status = next_word(rng, &word);
        if (status != DPTK_OK) break;
        gap = difference(tests, i, &terms) + shift;
        error = shift_error + 0x1p-50 * (terms + fabs(shift)) + TINY;
        /* Above: the noise exceeds the gap. No noise of either sign reaches
         * further than its size: no branch here that a sign could turn. */
        const double reach = scale * at_most(word);
        if (fabs(gap) - error_factor * error > reach * (1.0 + 0x1p-50) + TINY) {
            above = gap < 0.0;
        } else {
            double noise_error;
            const double noise = laplace(word, scale, &noise_error);
            error = error_factor * (error + noise_error);
            /* Also where one of them is infinite or NaN. */
            if (!(fabs(noise - gap) * (1.0 - 0x1p-50) > error && error < INFINITY)) {
                rng->next--;
                status = DPTK_UNDECIDED;
                break;
            }
            above = noise > gap;
        }
        hit[i] = above == tests->above;
        hits -= hit[i++];
    }
    *tested = i;
    return status;
}
