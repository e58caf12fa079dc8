"""The normal quantile in interval arithmetic, at any precision.

The race of `dptopk.reference.race` needs Phi^-1(exp(-s)) for Gaussian noise. It
is found by Newton's method on L(z) = -ln Phi(z), and enclosed by what the
last residual proves.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

from mpmath import libmp
from scipy import special

from dptopk.reference.interval import Interval

__all__ = ["quantile"]

GUARD = 32  # bits carried beyond those asked for


def quantile(s: Interval) -> Interval:
    """Return Phi^-1(exp(-s)) of a nonnegative interval, Phi the normal distribution."""
    low, high = _enclose(s.ends[1], s.precision), _enclose(s.ends[0], s.precision)
    return Interval(low.ends[0], high.ends[1], s.precision)


def _enclose(s: Any, precision: int) -> Interval:
    """Enclose G(s) = Phi^-1(exp(-s)) for one end of an interval.

    By a step of Newton's method from z: with t = L(z) - s and m = Phi / phi (z), the
    slope of G in -s, G(s) = z + m t + G'' t^2 / 2. There G'' = m^2 (z + 1/m), and
    0 < z + 1/m < |z| + 0.8 is also the relative slope of m in z. So as long as z has
    moved by at most w = 2 m |t|, m has grown by a factor below exp(w (|z| + 1 + w));
    where that is below 2, G(s) is not past w, and the last term is at most
    2 (m t)^2 (|z| + 1 + w).
    """
    if s == libmp.fzero:
        return Interval(libmp.finf, libmp.finf, precision)
    if s == libmp.finf:
        return Interval(libmp.fninf, libmp.fninf, precision)
    # Rounded, so that the ends of a narrow interval start at the same place.
    z = Fraction(round(float(special.ndtri_exp(-libmp.to_float(s))) * 2**46), 2**46)
    work = precision + GUARD
    while True:
        at, slope = _minus_log_below(z, work)
        low, high = (_fraction(end) for end in ((at - Interval(s, s, work)) * slope).ends)
        size, move = abs(z) + 1, max(abs(low), abs(high))
        near = 2 * move * (size + 2 * move) < Fraction(1, 2)
        rest = 2 * move**2 * (size + 2 * move)
        if near and rest + high - low <= size / 2 ** (precision - 8):
            return Interval.exact(z + low - rest, precision).hull(
                Interval.exact(z + high + rest, precision)
            )
        z += Fraction(round((low + high) * 2 ** (work - 1)), 2**work)


@functools.lru_cache(maxsize=4)
def _minus_log_below(z: Fraction, precision: int) -> tuple[Interval, Interval]:
    """Enclose L(z) = -ln Phi(z) and m = Phi / phi (z).

    Phi(z) = 1/2 + phi(z) T(z), where T(z) = z + z^3 / 3 + z^5 / (3 5) + ...; what
    cancels for z < 0 are log2(1 / Phi) bits, and as many are lost in 1 - Q for z > 0.
    """
    square = z * z
    precision += int(square * 3 / 4) + GUARD
    low, high = _series(abs(z), precision)
    series = Interval.exact(Fraction(low, 2**precision), precision).hull(
        Interval.exact(Fraction(high, 2**precision), precision)
    )
    root = (Interval.exact(2, precision) * Interval.pi(precision)).sqrt()
    density = Interval.exact(-square / 2, precision).exp() / root
    half = Interval.exact(Fraction(1, 2), precision)
    below = half + density * series if z > 0 else half - density * series
    return -below.log(), below / density


def _series(z: Fraction, bits: int) -> tuple[int, int]:
    """Enclose 2^bits T(z) for z >= 0, in integers that are rounded down and up.

    The terms fall by z^2 / (2n + 3): once that is below 1/2, all that follow a
    term add up to less than it.
    """
    term_low, term_high = _floor(z, bits), -_floor(-z, bits)
    square_low, square_high = _floor(z * z, bits), -_floor(-z * z, bits)
    low, high, odd = term_low, term_high, 3
    while term_high > 2 or 2 * square_high > odd << bits:
        term_low = (term_low * square_low >> bits) // odd
        term_high = -((-term_high * square_high >> bits) // odd)
        low, high, odd = low + term_low, high + term_high, odd + 2
    return low, high + term_high


def _floor(value: Fraction, bits: int) -> int:
    return (value.numerator << bits) // value.denominator


def _fraction(end: Any) -> Fraction:
    return Fraction(*libmp.to_rational(end))
