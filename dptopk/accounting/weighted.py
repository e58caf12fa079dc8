"""The noise, and the threshold, that weighted sums of people need.

docs/proofs/weighted.md has the proofs, and the names: M, g, x.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from dptopk.accounting.gaussian import gaussian_sigma
from dptopk.accounting.weights import ONE, norm_bound, weight
from dptopk.rounding import down, padded, quotient_up, root_up

__all__ = ["WeightedNoise", "adding", "removing", "split_noise", "weighted_noise"]

ROUNDING = 2.0**-46  # of a normal tail, times what its argument cancels squared
NARROW = 2.0**-50  # cells of x are not cut further
LOOSE = 2.0**-34  # how much of a threshold may be lost to the search
HIGHEST = 2.0**50  # of scales, so that noisy sums stay within int64
SLACKS = (30, 24, 18, 12, 6, 3)  # powers of 1/2: what sigma exceeds the least one by


class WeightedNoise(NamedTuple):
    """What is added to sums of weights, in units of 1 / ONE.

    Attributes
    ----------
    noise : {"gaussian", "laplace"}
    scale : float
        Its sigma, or its scale.
    threshold : int or None
        What a noisy sum must exceed to come out; None for a known domain, where all may.
    """

    noise: str
    scale: float
    threshold: int | None


def weighted_noise(
    *,
    epsilon: float,
    delta: float,
    soft_cap: int,
    norm: str,
    max_items_per_user: int | None,
    known_domain: bool,
) -> WeightedNoise:
    """Return the noise with which sums of weights are (epsilon, delta)-DP, rounded against us.

    Over a known domain it is the analytic Gaussian mechanism, or the Laplace
    mechanism, which needs no delta. Over an unknown one, whose items are those that
    somebody has, the scale is the same to 1e-9, and only noisy sums above a
    threshold come out: the least one for which no person can be noticed more.

    Parameters
    ----------
    epsilon, delta : float
        The budget. delta may be 0 with "l1" over a known domain.
    soft_cap : int
        tau of the weights.
    norm : {"l2", "l1"}
        The norm that tau bounds.
    max_items_per_user : int or None
        The most items one person has. An unknown domain needs it: the threshold
        grows like the square root of its logarithm, or with its logarithm.
    known_domain : bool
        Whether the items were fixed before the data was seen.

    Returns
    -------
    WeightedNoise

    Raises
    ------
    ValueError
        If epsilon or delta is so small that the noise is past 2**30 users.

    Examples
    --------
    >>> plan = weighted_noise(epsilon=1.0, delta=1e-6, soft_cap=1, norm="l2",
    ...                       max_items_per_user=100, known_domain=False)
    >>> round(plan.scale / 2**20, 3), round(plan.threshold / 2**20, 3)
    (4.225, 23.809)
    """
    bound = norm_bound(soft_cap, norm, max_items_per_user)
    if norm == "l1":
        scale = _held(quotient_up(bound, epsilon))
        if known_domain:
            return WeightedNoise("laplace", scale, None)
        mass = -math.log1p(-min(delta, -math.expm1(-epsilon))) * (1.0 - 2.0**-40)
        reach = _laplace_reach
    else:
        scale = _held(gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=bound))
        if known_domain:
            return WeightedNoise("gaussian", scale, None)
        scale, mass = _gaussian_mass(epsilon, delta, bound, scale)
        reach = _gaussian_reach
    assert max_items_per_user is not None
    least = _threshold(mass, scale, reach, soft_cap, norm, max_items_per_user)
    return WeightedNoise("laplace" if norm == "l1" else "gaussian", scale, least)


def split_noise(
    price: Fraction,
    *,
    soft_cap: int,
    norm: str,
    max_items_per_user: int | None,
    mass: Fraction | None,
) -> WeightedNoise:
    """Return the noise of a price, and the threshold of a mass of its own, for many calls together.

    docs/proofs/weighted.md, "In a filter", proves what they cost together.

    Parameters
    ----------
    price : Fraction
        rho of Gaussian noise ("l2"), or epsilon of Laplace noise ("l1").
    soft_cap, norm, max_items_per_user
        As in `weighted_noise`.
    mass : Fraction or None
        M: what -ln of the chance that no item of one person's own comes out may be
        at most. None for a known domain.

    Returns
    -------
    WeightedNoise

    Raises
    ------
    ValueError
        If the price is so small that the noise is past 2**30 users.

    Examples
    --------
    >>> noise = split_noise(Fraction(1, 50), soft_cap=1, norm="l2", max_items_per_user=100,
    ...                     mass=Fraction(1, 10**6))
    >>> round(noise.scale / 2**20, 3), round(noise.threshold / 2**20, 3)
    (5.0, 28.16)
    """
    bound = Fraction(norm_bound(soft_cap, norm, max_items_per_user))
    if norm == "l1":
        if bound > price * Fraction(HIGHEST):
            _held(math.inf)
        noise, reach, scale = "laplace", _laplace_reach, _held(quotient_up(bound, down(price)))
    else:
        cap = soft_cap if max_items_per_user is None else min(soft_cap, max_items_per_user)
        variance = Fraction(ONE * ONE * cap) / (2 * price)
        if variance > Fraction(HIGHEST) ** 2:
            _held(math.inf)
        noise, reach, scale = "gaussian", _gaussian_reach, root_up(variance)
    if mass is None:
        return WeightedNoise(noise, scale, None)
    assert max_items_per_user is not None
    least = down(mass * (1 - Fraction(1, 2**40)))
    return WeightedNoise(
        noise, scale, _threshold(least, scale, reach, soft_cap, norm, max_items_per_user)
    )


def _held(scale: float) -> float:
    if not scale <= HIGHEST:
        raise ValueError("epsilon or delta is too small: the noise scale is past 2**30 users")
    return scale


def adding(epsilon: float, alone: float, ratio: float) -> float:
    """Return delta at epsilon when a person is added, rounded up (Gaussian noise).

    Parameters
    ----------
    epsilon : float
    alone : float
        -ln of the chance that none of the items that are nobody else's comes out.
    ratio : float
        How far the person moves the others, in L2 norm, over sigma.

    Examples
    --------
    >>> round(adding(1.0, 0.0, 1.0), 4), round(adding(1.0, 0.5, 0.0), 4)
    (0.1269, 0.3935)
    """
    value = -math.expm1(-alone) + math.exp(-alone) * _gaussian_delta(epsilon + alone, ratio)
    return min(1.0, padded(value))


def removing(epsilon: float, alone: float, ratio: float) -> float:
    """Return delta at epsilon when a person is removed, rounded up; arguments as in `adding`.

    Examples
    --------
    >>> round(removing(1.0, 0.0, 1.0), 4), removing(1.0, 0.5, 0.0)
    (0.1269, 0.0)
    """
    return _gaussian_delta(epsilon - alone, ratio)


def _gaussian_delta(x: float, ratio: float) -> float:
    """Return delta of Gaussian noise at an epsilon of any sign, rounded up.

    Phi(r/2 - x/r) - exp(x) Phi(-r/2 - x/r). A relative error u of the argument a of
    Phi is one of about a^2 u in Phi(a), and both terms are at most the first.
    """
    if ratio <= 0.0:
        return max(0.0, -math.expm1(x))
    from scipy import special

    half, at = ratio / 2.0, x / ratio
    first = math.exp(special.log_ndtr(half - at))
    second = math.exp(min(x + special.log_ndtr(-half - at), 0.0))
    lost = first * ROUNDING * (1.0 + half + abs(at)) ** 2
    return min(1.0, max(0.0, first - second) + lost + 1e-300)


@lru_cache(maxsize=1024)
def _gaussian_mass(epsilon: float, delta: float, bound: float, least: float) -> tuple[float, float]:
    """Return a sigma just above the least one, and the largest M that it leaves room for."""
    highest = -math.log1p(-delta)
    for power in SLACKS:
        scale = least * (1.0 + 2.0**-power)
        ratio = bound / scale * (1.0 + 2.0**-50)
        high = highest * (1.0 - 2.0**-power)
        if _affords(high, epsilon, delta, ratio):
            return scale, high
        low = high * 2.0**-20
        if _affords(low, epsilon, delta, ratio):
            while high / low > 1.0 + 2.0**-20:
                middle = math.sqrt(low * high)
                if _affords(middle, epsilon, delta, ratio):
                    low = middle
                else:
                    high = middle
            return scale, low
    raise ValueError("no threshold is certain to be private at this epsilon and delta")


def _affords(mass: float, epsilon: float, delta: float, ratio: float) -> bool:
    """Tell whether no share x in [0, 1] of a person's items being theirs alone costs more.

    Both costs rise with either argument, so a cell of x is bounded by its worst corner;
    a cell that is not settled is halved.
    """

    def cost(more: float, less: float) -> float:
        alone, others = more * mass, ratio * math.sqrt(1.0 - less)
        return max(adding(epsilon, alone, others), removing(epsilon, alone, others))

    cells = [(0.0, 1.0)]
    while cells:
        low, high = cells.pop()
        if cost(high, low) <= delta:
            continue
        middle = (low + high) / 2.0
        if high - low < NARROW or cost(middle, middle) > delta:
            return False
        cells += [(low, middle), (middle, high)]
    return True


def _gaussian_reach(share: float) -> float:
    """Return z >= 0 with P(noise > z) <= share, for noise of scale 1."""
    from scipy import special

    z = -float(special.ndtri_exp(math.log(share)))
    return max(0.0, z) * (1.0 + 2.0**-40)


def _laplace_reach(share: float) -> float:
    """Return the same for Laplace noise: exp(-z) / 2 = share."""
    return max(0.0, -math.log(2.0 * share)) * (1.0 + 2.0**-40)


@lru_cache(maxsize=1024)
def _threshold(
    mass: float,
    scale: float,
    reach: Callable[[float], float],
    soft_cap: int,
    norm: str,
    most: int,
) -> int:
    """Return the least T with -t ln P(w_t + noise <= T) <= M for all t = 1, ..., most.

    That is the largest of w_t + scale z(1 - exp(-M / t)). The weight falls with t and
    z rises, so a range of t is bounded by the weight of its first and the z of its last.
    """

    def above(first: int, last: int) -> float:
        return weight(first, soft_cap=soft_cap, norm=norm) + scale * reach(
            -math.expm1(-mass / last)
        )

    first = min(soft_cap, most)  # fewer items have the same weight and a lower z
    ranges = [(-above(first, most), first, most)]
    best = max(above(first, first), above(most, most))
    while True:
        bound, low, high = ranges[0]
        if low == high or -bound <= best * (1.0 + LOOSE):
            break
        middle = min(max(math.isqrt(low * high), low), high - 1)
        best = max(best, above(middle, middle))
        heapq.heapreplace(ranges, (-above(low, middle), low, middle))
        heapq.heappush(ranges, (-above(middle + 1, high), middle + 1, high))
    return max(math.floor(-bound * (1.0 + 2.0**-40)) + 1, ONE)
