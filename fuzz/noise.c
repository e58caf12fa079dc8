/* Quantiles of noise: the long double one lies within the error bound. */
#include "fuzz.h"

/* -ln F(x): of Gaussian noise. */
static long double gaussian_s(long double x)
{
    const long double root = 0.70710678118654752440084436210485L;
    if (x > 0.0L) return -log1pl(-0.5L * erfcl(x * root));
    return -logl(0.5L * erfcl(-x * root));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const long double ln_2 = 0.69314718055994530941723212145818L;
    input in = {data, data + size};
    const int noise = (int)(number(&in, 1) % 5), near = (int)(number(&in, 1) % 4);
    uint64_t bits = number(&in, 8);
    double s, wide = ldexp(1.0 + (double)number(&in, 1) / 256.0, -(int)(number(&in, 2) % 1100));
    double error, value;
    if (near == 0)
        s = 0x1.62e42fefa39efp-1 + (double)(int64_t)bits * 0x1p-116; /* the median */
    else if (near == 1)
        s = (double)bits * 0x1p-56;
    else
        memcpy(&s, &bits, sizeof s);
    s = fabs(s);
    if (!(s > 0.0 && s < INFINITY)) return 0;
    if (number(&in, 1) % 2) wide = s * wide; /* of itself */
    if (number(&in, 1) % 2) wide = 0.0;
    value = dptk_noise(noise, s, wide, &error);
    CHECK(error >= 0.0);
    if (!(error < INFINITY)) return 0;
    for (int end = -1; end <= 1; end++) { /* of the S there may be */
        const long double S = (long double)s + end * (long double)wide;
        if (!(S > 0.0L)) continue;
        long double right;
        if (noise == DPTK_GUMBEL)
            right = -logl(S);
        else if (noise == DPTK_UNIFORM)
            right = 2.0L * expm1l(-S);
        else if (noise == DPTK_EXPONENTIAL)
            right = S > 40 ? expl(-S) : -logl(-expm1l(-S));
        else if (noise == DPTK_LAPLACE)
            right = S <= ln_2 ? -logl(-expm1l(-S)) - ln_2 : ln_2 - S;
        else {
            const long double share = 1.0L + 0x1p-58L;
            CHECK(gaussian_s((long double)value + error) <= S * share);
            CHECK(gaussian_s((long double)value - error) * share >= S);
            continue;
        }
        CHECK(fabsl(value - right) <= error + 0x1p-62L * (1.0L + fabsl(right)));
    }
    return 0;
}
