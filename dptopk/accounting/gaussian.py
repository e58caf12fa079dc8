"""The analytic Gaussian mechanism: what a noise costs, and the noise for a cost.

Gaussian noise of standard deviation sigma on a vector that one user moves by at
most `sensitivity` in L2 norm is (epsilon, delta)-DP if and only if, with
r = sensitivity / sigma (Balle and Wang 2018, Theorem 8),

    Phi(r/2 - epsilon/r) - exp(epsilon) Phi(-r/2 - epsilon/r) <= delta.

The two terms can agree in hundreds of digits, so they are computed with as many
more digits as they lose. That takes milliseconds; results are cached.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any

from dptopk._validate import nonnegative, positive, probability
from dptopk.rounding import above

__all__ = ["gaussian_delta", "gaussian_sigma"]

BITS = 80  # of the difference that is left
STEPS = 500  # of Newton's method at most; a few are enough


def gaussian_delta(*, epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Return the least delta of Gaussian noise at an epsilon, rounded up.

    Parameters
    ----------
    epsilon : float
        At least 0.
    sigma : float
        Standard deviation of the noise.
    sensitivity : float, default 1
        How far one user moves the vector of all scores, in L2 norm.

    Returns
    -------
    float
        delta, at least the exact value and within 2 ulp of it.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Examples
    --------
    >>> from dptopk.accounting import gaussian_delta
    >>> round(gaussian_delta(epsilon=1.0, sigma=1.0), 4)
    0.1269
    """
    epsilon = nonnegative("epsilon", epsilon)
    sigma = positive("sigma", sigma)
    sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
    import mpmath

    context = mpmath.MPContext()
    context.prec = 2 * BITS
    delta = _delta(context, epsilon, context.mpf(sensitivity) / sigma)
    nearest = float(delta)
    return nearest if nearest >= delta * (1 + context.ldexp(1, -60)) else above(nearest)


def gaussian_sigma(*, epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the least Gaussian noise that is (epsilon, delta)-DP, rounded up.

    Parameters
    ----------
    epsilon : float
        Finite and > 0, of any size.
    delta : float
        In (0, 1), of any size.
    sensitivity : float, default 1
        How far one user moves the vector of all scores, in L2 norm.

    Returns
    -------
    float
        sigma, at least the exact value and within 2 ulp of it.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or sigma is past
        the range of floats.

    Examples
    --------
    >>> from dptopk.accounting import gaussian_sigma
    >>> round(gaussian_sigma(epsilon=1.0, delta=1e-6), 4)
    4.2247
    """
    return _sigma(
        positive("epsilon", epsilon),
        probability("delta", delta, zero=False),
        positive("sensitivity", sensitivity, toward=math.inf),
    )


@lru_cache(maxsize=4096)
def _sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    import mpmath

    context = mpmath.MPContext()  # its own: the shared one's precision is anyone's
    context.prec = 2 * BITS
    target = context.mpf(delta)
    log_target = context.log(target)
    # From the left, where delta(r) <= Phi(r/2 - epsilon/r) <= delta / 2. There ln delta(r)
    # rises and is concave, so Newton's steps stay left of the root, and d delta / d r is
    # the normal density at r/2 - epsilon/r.
    tail = context.sqrt(-2 * log_target)
    r = 2 * context.mpf(epsilon) / (tail + context.sqrt(tail**2 + 2 * epsilon))
    for _ in range(STEPS):
        found = _delta(context, epsilon, r)
        step = (log_target - context.log(found)) * found / _density(context, r / 2 - epsilon / r)
        if step < r * context.ldexp(1, -64):
            break
        r += step
    sigma = sensitivity / r
    rounded = above(float(sigma))
    if not 0.0 < rounded < math.inf:
        raise ValueError("epsilon or delta is too small: sigma is past the range of floats")
    # However the search ended, what is returned has been checked.
    for power in itertools.count():
        if _delta(context, epsilon, context.mpf(sensitivity) / rounded) <= target:
            return rounded
        rounded += math.ldexp(math.ulp(rounded), power)
    raise AssertionError


def _delta(context: Any, epsilon: float, r: Any) -> Any:
    """Return Phi(r/2 - epsilon/r) - exp(epsilon) Phi(-r/2 - epsilon/r) to some BITS bits."""
    before = context.prec
    try:
        for bits in (before << i for i in itertools.count()):
            context.prec = bits
            at, half = context.mpf(epsilon) / r, r / 2
            first = _normal(context, half - at)
            second = context.exp(epsilon) * _normal(context, -half - at)
            # Each argument is rounded: an error u in x is one of about x^2 u in Phi(x).
            lost = (2 + at + half) ** 2 * first
            if first - second > context.ldexp(lost, BITS + 8 - bits):
                return first - second
    finally:
        context.prec = before


def _normal(context: Any, x: Any) -> Any:
    return context.erfc(-x / context.sqrt(2)) / 2


def _density(context: Any, x: Any) -> Any:
    return context.exp(-x * x / 2) / context.sqrt(2 * context.pi)
