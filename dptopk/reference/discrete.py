"""The readable twin of csrc/discrete.c: integer noise with exactly the discrete law.

Same words for the same variates, in interval arithmetic: whatever 64 bits of
an exponential variate leave open is settled by 64 more, as often as needed.
The scale is taken as the exact number that it is, and the results are Python
integers: nothing is rounded and nothing overflows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from mpmath import libmp

from dptopk.reference.interval import Interval
from dptopk.reference.race import Exponential, Tape

__all__ = ["LAWS", "counts_law", "gaussian_law", "laplace_law", "naive_sample", "sample"]

LEAST = 1e-15  # what the laws below leave out at each end


def geometric(tape: Tape, scale: Fraction) -> int:
    """Return floor(E * scale): g with probability (1 - q) q^g, q = exp(-1 / scale)."""
    variate, level = Exponential(tape), 1
    while True:
        spacing = variate.interval(level)
        low, high = (spacing * Interval.exact(scale, spacing.precision)).ends
        if high != libmp.finf:  # the first word may be the last one below 1
            floor = int(libmp.to_int(high, "f"))
            if max(0, int(libmp.to_int(low, "f"))) == floor:
                return floor
        level += 1


def laplace(tape: Tape, scale: Fraction) -> int:
    """Return x with probability proportional to exp(-|x| / scale)."""
    up = geometric(tape, scale)
    return up - geometric(tape, scale)


def gaussian(tape: Tape, sigma: Fraction) -> int:
    """Return x with probability proportional to exp(-x^2 / (2 sigma^2)).

    Canonne, Kamath and Steinke (2020), Algorithm 3: y of the discrete Laplace
    law of scale t, kept with probability exp(-(|y| - sigma^2 / t)^2 / (2 sigma^2)).
    The exponents add up to -y^2 / (2 sigma^2) and a constant.
    """
    t = sigma.__floor__() + 1
    while True:
        y = laplace(tape, Fraction(t))
        if exceeds(Exponential(tape), (abs(y) - sigma**2 / t) ** 2 / (2 * sigma**2)):
            return y


def exceeds(variate: Exponential, bound: Fraction) -> bool:
    """Tell whether an exponential variate is larger than a number."""
    level = 1
    while True:
        value = variate.interval(level)
        limit = Interval.exact(bound, value.precision)
        if value.above(limit):
            return True
        if limit.above(value):
            return False
        level += 1


SAMPLERS: dict[str, Callable[[Tape, Fraction], int]] = {"laplace": laplace, "gaussian": gaussian}


def sample(tape: Tape, n: int, *, scale: float, noise: str) -> list[int]:
    """Return n independent integers of a discrete law, as `_core.discrete` does."""
    sampler, exact = SAMPLERS[noise], Fraction(scale)
    return [sampler(tape, exact) for _ in range(n)]


def laplace_law(scale: float) -> dict[int, float]:
    """Chance of every integer, P(x) = (1 - q) / (1 + q) q^|x| with q = exp(-1 / scale).

    Those so far out that each side of them has less than 1e-15 are left out.

    Examples
    --------
    >>> from dptopk.reference import discrete
    >>> law = discrete.laplace_law(1.0)
    >>> [round(law[x], 3) for x in (-1, 0, 1)]
    [0.17, 0.462, 0.17]
    """
    whole = math.tanh(0.5 / scale)  # (1 - q) / (1 + q)
    last = math.ceil(-scale * math.log(LEAST)) + 1
    return {x: whole * math.exp(-abs(x) / scale) for x in range(-last, last + 1)}


def gaussian_law(sigma: float) -> dict[int, float]:
    """Chance of every integer, P(x) proportional to exp(-x^2 / (2 sigma^2)).

    Those so far out that each side of them has less than 1e-15 are left out.

    Examples
    --------
    >>> from dptopk.reference import discrete
    >>> law = discrete.gaussian_law(1.0)
    >>> [round(law[x], 3) for x in (-1, 0, 1)]
    [0.242, 0.399, 0.242]
    """
    last = math.ceil(sigma * math.sqrt(-2 * math.log(LEAST))) + 1
    weights = {x: math.exp(-((x / sigma) ** 2) / 2) for x in range(-last, last + 1)}
    total = math.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


LAWS: dict[str, Callable[[float], dict[int, float]]] = {
    "laplace": laplace_law,
    "gaussian": gaussian_law,
}


def counts_law(
    counts: Sequence[int], *, scale: float, noise: str, low: int, high: int
) -> dict[tuple[int, ...], float]:
    """Chance of every noisy version of some counts, each held within [low, high].

    What lies beyond an end counts there: that is said of the result of the
    mechanism, and costs no privacy.

    Examples
    --------
    >>> from dptopk.reference import discrete
    >>> law = discrete.counts_law([0], scale=1.0, noise="laplace", low=-1, high=1)
    >>> {values: round(p, 3) for values, p in law.items()}
    {(-1,): 0.269, (0,): 0.462, (1,): 0.269}
    """
    chances = LAWS[noise](scale)
    laws: list[dict[int, float]] = []
    for count in counts:
        held = dict.fromkeys(range(low, high + 1), 0.0)
        for x, chance in chances.items():
            held[min(max(low, count + x), high)] += chance
        laws.append(held)
    return {
        values: math.prod(law[value] for law, value in zip(laws, values, strict=True))
        for values in itertools.product(range(low, high + 1), repeat=len(laws))
    }


def naive_sample(
    n: int, *, scale: float, noise: str, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw in doubles: what one writes with NumPy. The law is that of rounded values.

    Discrete Laplace as the difference of two geometrics; discrete Gaussian by
    rejection from it.
    """
    if noise == "laplace":
        p = -math.expm1(-1 / scale)
        return np.asarray(rng.geometric(p, n) - rng.geometric(p, n), dtype=np.int64)
    t = math.floor(scale) + 1
    kept = np.empty(0, np.int64)
    while kept.size < n:
        y = naive_sample(2 * n + 8, scale=t, noise="laplace", rng=rng)
        chance = np.exp(-((np.abs(y) - scale**2 / t) ** 2) / (2 * scale**2))
        kept = np.concatenate((kept, y[rng.random(y.size) < chance]))
    return kept[:n]
