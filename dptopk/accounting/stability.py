"""How high a threshold must stand over 0 to be passed by 0 with chance delta at most.

What is held against it carries Laplace noise; so does the threshold, where there are
many tests. A function of the data that a neighbour could change is at distance 0 from
instability: it is released only if noise alone lifts it over the threshold.
"""

from __future__ import annotations

import math
from functools import lru_cache

from dptopk._types import Bound
from dptopk._validate import choice
from dptopk.rounding import padded, product_up

__all__ = ["BOUNDS", "release_threshold", "stability_threshold"]

#: "exact": the chance itself; "paper": the larger bound of Carvalho and others 2020, Lemma 3.1,
#: which at equal scales is delta_q (3 + ln(1/delta_q)) / 4, as in Durfee and Rogers 2019.
BOUNDS = ("exact", "paper")


def release_threshold(delta: float, scale: float, bound: str) -> float:
    """Return what a distance of 0 with noise of this scale exceeds with chance delta, rounded up.

    ``scale * ln(1 / (2 delta))``, as P(noise > T) = exp(-T / scale) / 2; the
    paper's is ``scale * ln(1 / delta)``.
    """
    length = -math.log(2.0 * delta if bound == "exact" else delta)
    height = product_up(padded(length, units=8), scale) if length > 0.0 else 0.0
    if not math.isfinite(height):
        raise ValueError("epsilon is too small: the threshold is past the range of floats")
    return height


def _ratio(x: float) -> float:
    """(1 - exp(-x)) / x for x >= 0, which is 1 at 0."""
    return -math.expm1(-x) / x if x > 0.0 else 1.0


def log_exact(height: float, query_scale: float, threshold_scale: float) -> float:
    """Logarithm of P(A - B > height) for A, B Laplace of these scales, height >= 0.

    With slow and fast the larger and the smaller scale, L = height / slow and
    c = slow / fast it is exp(-L) (1 + L r((c - 1) L) / (c + 1)) / 2, where
    r(x) = (1 - exp(-x)) / x: the closed form (c^2 d - d^c) / (2 (c^2 - 1)) at
    d = exp(-L), without its 0/0 at equal scales.
    """
    slow, fast = max(query_scale, threshold_scale), min(query_scale, threshold_scale)
    c, length = slow / fast, height / slow
    share = length * _ratio((c - 1.0) * length) / (c + 1.0)
    return math.log1p(share) - length - math.log(2.0)


def log_paper(height: float, query_scale: float, threshold_scale: float) -> float:
    """Logarithm of the bound of Lemma 3.1.

    With a, b the inverses of the two scales and H the height it is
    exp(-b H)/4 + exp(-a H)/2 + a (exp(-b H) - exp(-a H)) / (4 (a - b)).
    """
    a, b = height / query_scale, height / threshold_scale
    x = abs(a - b)
    mean = a * _ratio(x) / 4.0
    if b <= a:
        return math.log(0.25 + math.exp(-x) / 2.0 + mean) - b
    return math.log(math.exp(-x) / 4.0 + 0.5 + mean) - a


_LOGS = {"exact": log_exact, "paper": log_paper}


@lru_cache(maxsize=4096)
def stability_threshold(
    delta: float,
    *,
    query_scale: float,
    threshold_scale: float,
    tests: int = 1,
    bound: Bound = "exact",
) -> float:
    """Return the least height that 0 passes with chance delta / tests at most, rounded up.

    Parameters
    ----------
    delta : float
        In (0, 1).
    query_scale, threshold_scale : float
        Scales of the two Laplace noises.
    tests : int
        Among how many tests delta is shared.
    bound : {"exact", "paper"}
        One of `BOUNDS`.

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    ValueError
        If the scales are so large that the height is past the range of floats.

    Examples
    --------
    >>> from dptopk.accounting.stability import stability_threshold
    >>> scales = {"query_scale": 2.0, "threshold_scale": 2.0}
    >>> round(stability_threshold(1e-6, **scales), 3)
    30.557
    >>> round(stability_threshold(1e-6, bound="paper", **scales), 3)
    30.676
    """
    log = _LOGS[choice("bound", bound, BOUNDS)]
    target = math.log(delta) - math.log(tests)
    slow = max(query_scale, threshold_scale)

    def excess(length: float) -> float:
        # In units of the larger scale, so that no product overflows.
        return log(length, query_scale / slow, threshold_scale / slow) - target

    if excess(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while excess(high) > 0.0:
        low, high = high, 2.0 * high
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    # excess errs by a few ulp of its terms, and falls by 1/2 a unit at least.
    height = product_up(padded(high, high - target + 4.0, units=32), slow)
    if not math.isfinite(height):
        raise ValueError("epsilon is too small: the threshold is past the range of floats")
    return height
