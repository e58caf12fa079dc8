"""Delta of a Gaussian at every epsilon, in doubles, from above or below.

Noise that moves by mu standard deviations has, with z = x / mu,

    delta(x) = Phi(mu/2 - z) - e^x Phi(-mu/2 - z)
             = e^(x/2) / 2 * integral over 0 < s < mu^2 of e^(-s/8) p_s(x) ds,

p_s being the normal density of variance s. `dptopk.accounting.gaussian` has the first
form in any precision; here it is fast, and its rounding is charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dptopk.rounding import UNIT

__all__ = ["delta_of", "linear", "spread_of"]

_SMALL = 2.0**-7  # below this mu the two terms of the first form cancel too much
_ROOT_2 = math.sqrt(2.0)
_ROOT_2_PI = math.sqrt(2 * math.pi)

#: What a rounding error is multiplied by: 1 from above, -1 from below.
UP, DOWN = 1, -1


def delta_of(x: float, mu: float, side: int = UP) -> float:
    """Delta at epsilon = x >= 0 of a Gaussian of mu > 0, not below it (above it, for DOWN)."""
    if mu < _SMALL:
        return _small(x, mu, side)
    z, half = x / mu, mu / 2
    first = math.erfc((z - half) / _ROOT_2) / 2
    if first == 0.0:
        return 0.0 if side == DOWN else 1e-320
    second = math.exp(x + _log_tail(z + half))
    # An argument t of the tail is off by 3 units, which is 3 (1 + t^2) of the tail.
    charge = 16 * UNIT * (4 + (z + half) ** 2) * first
    return max(0.0, first - second + side * charge)


def _log_tail(t: float) -> float:
    """Logarithm of the chance of more than t >= 0 standard deviations."""
    if t < 25.0:
        return math.log(math.erfc(t / _ROOT_2) / 2)
    # Mills' ratio by its continued fraction, which closes in from both sides.
    below = t
    for n in range(24, 0, -1):
        below = t + n / below
    return -t * t / 2 - math.log(below * _ROOT_2_PI)


def linear(x: float, mu: float, side: int = UP) -> float:
    """Return E max(0, mu Z - x), Z normal: half the integral above without e^(-s/8)."""
    z = x / mu
    density = math.exp(-z * z / 2) / _ROOT_2_PI
    value = density - z * math.erfc(z / _ROOT_2) / 2
    return mu * max(0.0, value + side * 16 * UNIT * (4 + z * z) * density)


def _small(x: float, mu: float, side: int) -> float:
    """e^(-s/8) lies between 1 - s/8 and 1 - s/8 + s^2/128, whose integrals are elementary."""
    value, square = linear(x, mu, side), mu * mu
    density = math.exp(-((x / mu) ** 2) / 2) / _ROOT_2_PI
    moment = (mu * square * density - x * x * value) / 3  # of s p_s / 2
    slack = 16 * UNIT * (4 + (x / mu) ** 2) * mu * density * square
    quadratic = value * square * square / 128 if side == UP else 0.0
    found = value - moment / 8 + quadratic + side * slack
    return max(0.0, found * math.exp(x / 2) * (1 + side * 16 * UNIT * (1 + x)))


def spread_of(
    value: float, x: float, guess: float, delta_at: Callable[[float, float, int], float]
) -> float:
    """Return a mu, close to the least, at which `delta_at` is at least `value`.

    Newton's steps in 1/mu^2, in which the logarithm of delta is nearly linear.
    """
    mu, target = guess, math.log(value)
    for _ in range(40):
        found = delta_at(x, mu, DOWN)
        if found <= 0.0:
            mu *= 1.5
            continue
        nearby = delta_at(x, mu * (1 + 2.0**-20), DOWN)
        slope = (math.log(nearby) - math.log(found)) * 2.0**20  # by the logarithm of mu
        # d ln(delta) / d(mu^-2) = -slope mu^2 / 2
        scale = 1.0 - 2 * (target - math.log(found)) / slope if slope > 0.0 else 0.5
        mu /= math.sqrt(min(4.0, max(0.25, scale)))
        if abs(scale - 1.0) < 1e-13:
            break
    for bump in range(-48, 1):
        raised = mu * (1 + 2.0**bump)
        if delta_at(x, raised, DOWN) >= value:
            return raised
    return math.inf
