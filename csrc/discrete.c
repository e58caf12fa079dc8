/* discrete.c - integer noise with exactly the discrete law.
 *
 * The whole part of an exponential variate times the scale is geometric, and
 * the difference of two of these is discrete Laplace. The discrete Gaussian is
 * that again, thinned (Canonne, Kamath and Steinke 2020, Algorithm 3). Both
 * need a whole part, and the second also a comparison: each is taken in doubles
 * only where the error bound leaves no doubt, so that rounding is no part of
 * the law. */
#include "dptk.h"
#include "variate.h"

/* floor(E * scale) for E of the next word. What exceeds 2^53 is never certain,
 * as the bound is then larger than 1: the result fits. */
static int geometric(dptk_rng *rng, double scale, double error_factor, int64_t *value)
{
    uint64_t word;
    double error;
    int status = next_word(rng, &word);
    if (status != DPTK_OK) return status;
    const double product = exponential(word, &error) * scale;
    const double bound = (error * scale + product * 0x1p-51) * error_factor;
    const double low = floor(product - bound), high = floor(product + bound);
    /* Both ends at least 0: E is. */
    if (!((low < 0.0 ? 0.0 : low) == high)) return DPTK_UNDECIDED;
    *value = (int64_t)high;
    return DPTK_OK;
}

static int laplace(dptk_rng *rng, double scale, double error_factor, int64_t *value)
{
    int64_t up, down;
    int status = geometric(rng, scale, error_factor, &up);
    if (status == DPTK_OK) status = geometric(rng, scale, error_factor, &down);
    if (status == DPTK_OK) *value = up - down;
    return status;
}

/* Whether y, of scale t, is kept: E > z^2 / 2 at z = |y|/sigma - sigma/t, which
 * has two quotients and a difference to round. */
static int keep(dptk_rng *rng, int64_t y, double sigma, double t, double error_factor, int *kept)
{
    uint64_t word;
    double error;
    int status = next_word(rng, &word);
    if (status != DPTK_OK) return status;
    const double value = exponential(word, &error);
    const double far = (double)(y < 0 ? -y : y) / sigma, near = sigma / t;
    const double z = fabs(far - near), z_error = (far + near) * 0x1p-51 * error_factor;
    const double z_low = z > z_error ? z - z_error : 0.0, z_high = z + z_error;
    const double low = 0.5 * z_low * z_low * (1.0 - 0x1p-50);
    const double high = 0.5 * z_high * z_high * (1.0 + 0x1p-50) + DBL_MIN;
    error *= error_factor;
    if (value - error > high)
        *kept = 1;
    else if (value + error < low)
        *kept = 0;
    else
        return DPTK_UNDECIDED;
    return DPTK_OK;
}

static int gaussian(dptk_rng *rng, double sigma, double error_factor, int64_t *value)
{
    const double t = floor(sigma) + 1.0;
    int kept = 0;
    while (!kept) {
        int status = laplace(rng, t, error_factor, value);
        if (status == DPTK_OK) status = keep(rng, *value, sigma, t, error_factor, &kept);
        if (status != DPTK_OK) return status;
    }
    return DPTK_OK;
}

int dptk_discrete(dptk_rng *rng, size_t n, double scale, int noise, double error_factor,
                  int64_t *out)
{
    for (size_t i = 0; i < n; i++) {
        int status = noise == DPTK_DISCRETE_GAUSSIAN ? gaussian(rng, scale, error_factor, out + i)
                                                     : laplace(rng, scale, error_factor, out + i);
        if (status != DPTK_OK) return status;
    }
    return DPTK_OK;
}
