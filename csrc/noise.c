/* noise.c - quantiles of noise, with certified error bounds. */
#include "dptk.h"
#include "variate.h"

#include <math.h>

/* F^-1(exp(-S)) of a noise with distribution F, for an S that the double s gives
 * to within s_error; *error bounds the absolute error. */
typedef double (*law)(double s, double s_error, double *error);

/* ln 2 rounded down: no double lies between the two, so that s <= LN_2 tells
 * exactly on which side of the median a law is. */
static const double LN_2 = 0x1.62e42fefa39efp-1;

/* How far ln S lies from ln s, as |ln(1 + r)| <= r (1 + 2^-9) for |r| < 2^-10;
 * past that nothing is claimed. */
static double log_error(double s, double s_error)
{
    const double relative = s_error / s;
    return relative < 0x1p-10 ? relative * (1.0 + 0x1p-9) : INFINITY;
}

static double gumbel(double s, double s_error, double *error)
{
    const double value = -log(s);
    *error = log_error(s, s_error) + LOG_ERROR * fabs(value);
    return value;
}

/* -ln(1 - e^-S): the slope -1/(e^s - 1) is no steeper than Gumbel's, -1/s; expm1
 * errs by LIBM_ERROR of itself, which is as much of its logarithm. */
static double exponential_noise(double s, double s_error, double *error)
{
    const double value = -log(-expm1(-s));
    *error = log_error(s, s_error) + LOG_ERROR * fabs(value) + 1.25 * LIBM_ERROR;
    return value;
}

/* The exponential law less ln 2 above the median; below it ln 2 - s, so that the
 * slope is no steeper than max(1/s, 1) on either side. The logarithm may be 0.7
 * more than the value; LN_2 and the subtraction round by 2^-54 and 2^-53 |value|. */
static double laplace(double s, double s_error, double *error)
{
    const double value = s <= LN_2 ? -log(-expm1(-s)) - LN_2 : LN_2 - s;
    *error = (s < 1.0 ? 1.0 : s) * log_error(s, s_error) + LOG_ERROR * (1.25 * fabs(value) + 1.0)
           + 1.25 * LIBM_ERROR;
    return value;
}

/* -Phi^-1(e^-y) for y >= ln 2, a rational function of sqrt(y) fitted by least
 * squares: within 4e-7 / (r + 1) up to r = 12, 1e-7 up to 38. What it errs by shows
 * in the residual below, so that a wrong digit here would cost time and nothing else. */
static double quantile_start(double y)
{
    const double t = sqrt(y);
    const double above =
        ((((0.10164186 * t + 2.5098694) * t + 11.10235) * t + 5.7679438) * t - 10.20219) * t
        - 3.1576566;
    const double below =
        (((0.071869155 * t + 1.7752886) * t + 8.0493291) * t + 7.2440022) * t + 1.0;
    return above / below;
}

/* Phi^-1(e^-S), the inverse G of L(z) = -ln Phi(z).
 *
 * At a start z the residual t = L(z) - s is computed, and two terms of Taylor's
 * series of G around L(z) are taken. With m = Phi/phi (z) and h = 1/m,
 *     G' = -m,   G'' = m^2 (z + h),   G''' = -m^3 ((z + h)(2z + h) + 1),
 * so that for d = m t the value is z + d (1 + d (z + h) / 2).
 *
 * The bound. As 0 < z + h < |z| + 0.8 and h < |z| + 0.8, |G'''| <= 2 m^3 (|z| + 1)^2,
 * and m changes with z by the relative slope z + h. Let e bound the error of t,
 * S - s included, and D = m (|t| + e), eta = D (|z| + 1) < 2^-6. On the way from L(z)
 * to S, z moves by no more than 1.05 D: as long as it has moved by less than 1.1 D
 * m has grown by a factor below exp(1.1 eta (1 + 2^-5)) < 1.02. So
 *   - the rest of the series is at most (1/6) 2 (1.02 m)^3 (1.02 (|z| + 1))^2 (|t| + e)^3
 *     < eta^2 D / 2;
 *   - the error of t costs at most m e (1 + 1.02 eta) < 1.05 m e;
 *   - the rounding of the argument of erfc, 2^-52 |z|, is a move of z itself (and
 *     times 1.05 as such); that of the sum is 2^-53 |value|;
 *   - phi, erfc and thereby m, h and d err by less than 2^-40 of themselves for
 *     |z| < 37 (z^2/2 rounded twice in exp, h |z| 2^-52 in erfc), the rest of the
 *     correction by less: 2^-38 D.
 * The error of t: below the median L is the logarithm of erfc, which errs by
 * ERFC_ERROR; above it by ERFC_ERROR Q / ((1 - Q) L) <= 1.5 of itself, Q <= 0.51. */
static double gaussian(double s, double s_error, double *error)
{
    const int upper = s <= LN_2;
    const double r = quantile_start(upper ? -log(-expm1(-s)) : s);
    const double z = upper ? r : -r;
    const double beyond = 0.5 * erfc(r * 0.70710678118654752);
    const double at = upper ? -log1p(-beyond) : -log(beyond);
    const double density = exp(-0.5 * z * z) * 0.39894228040143268;
    const double m = (upper ? 1.0 - beyond : beyond) / density;
    const double residual = at - s, d = m * residual;
    const double unsure = s_error + (upper ? 1.5 * ERFC_ERROR * at : 1.01 * ERFC_ERROR)
                        + LIBM_ERROR * at + 0x1p-52 * fabs(residual);
    const double reach = m * (fabs(residual) + unsure), eta = reach * (fabs(z) + 1.0);
    const double value = z + d * (1.0 + d * 0.5 * (z + 1.0 / m));
    *error = INFINITY;
    if (eta < 0x1p-6 && fabs(z) < 37.0)
        *error = 1.05 * m * unsure + (0.5 * eta * eta + 0x1p-38) * reach + 1.05 * 0x1p-52 * fabs(z)
               + 0x1p-52 * fabs(value);
    return value;
}

/* 2 (e^-S - 1): from s/2 on the slope is at most 2 e^(-s/2) < 2 / (1 + s/2),
 * and anywhere at most 2. */
static double uniform(double s, double s_error, double *error)
{
    const double value = 2.0 * expm1(-s);
    const double slope = s_error < 0.5 * s ? 2.0 / (1.0 + 0.5 * s) : 2.0;
    *error = slope * (1.0 + 0x1p-9) * s_error + LIBM_ERROR * fabs(value);
    return value;
}

static const law LAWS[] = {
    [DPTK_GUMBEL] = gumbel,   [DPTK_EXPONENTIAL] = exponential_noise,
    [DPTK_LAPLACE] = laplace, [DPTK_GAUSSIAN] = gaussian,
    [DPTK_UNIFORM] = uniform,
};

double dptk_noise(int noise, double s, double s_error, double *error)
{
    return LAWS[noise](s, s_error, error);
}
