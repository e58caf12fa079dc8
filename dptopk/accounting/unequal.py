"""Adaptive composition of bounded-range steps of several sizes.

The sizes and their order are fixed beforehand, and the bound holds for every order. Steps
are cut in two: the larger ones, and the rest, which may be cut again. docs/proofs/adaptive.md
shows that

- the larger ones can only add their sum to what the rest costs, and
- where they come between steps of the rest, each run of these is still a Gaussian, and
  what the larger ones cost by themselves is spread by it: `spread_out`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dptopk import _core
from dptopk.accounting.adaptive import MAX_RANGE, adaptive, blocks, solve
from dptopk.accounting.compositions import Groups, basic, closed_form
from dptopk.accounting.curve import DOWN, UP, delta_of
from dptopk.rounding import padded

__all__ = ["spread_out", "unequal"]

_SIZES = 8  # that are told apart
_CUTS = 3  # of these that may be among the larger ones
_LARGE = 16  # steps of these that are worth the recursion
_CELLS = 32


def unequal(groups: Groups, delta: float) -> float:
    """Return the total of steps of falling sizes, rounded up."""
    if delta == 0.0:
        return basic(groups)
    bound = math.inf
    # From the smaller steps on, to which one size more comes each time.
    for first in reversed(range(min(len(groups), _SIZES))):
        part = groups[first:]
        alone = adaptive(part[0][0], sum(count for _, count in part), delta)
        with_all = [alone, closed_form(part, delta), padded(basic(part[:1]) + bound)]
        bound = min(with_all)
        for cut in range(1, min(len(part), _CUTS + 1)):
            bound = min(bound, _mixed(part[:cut], part[cut:], delta, bound))
    return bound


def _mixed(larger: Groups, rest: Groups, delta: float, most: float) -> float:
    large, count = larger[0][0], sum(count for _, count in larger)
    if count > _LARGE or not 1e-6 < large <= MAX_RANGE or delta < 1e-270:
        return math.inf
    steps = sum(count for _, count in rest)
    mu, beyond = blocks(rest[0][0], steps, runs=count + 1)
    if delta <= 2 * beyond:
        return math.inf
    curve = spread_out(large, count, mu, delta * 2.0**-50)
    return padded(solve(curve, delta - beyond, most), units=32)


def spread_out(range_: float, steps: int, mu: float, floor: float) -> Callable[[float], float]:
    """Return x -> an upper bound of E V_steps(x - L), L being the loss of a Gaussian of mu.

    The bound of V_steps is linear in y = e^x between places, so it is a constant and a sum of
    weights times max(0, 1 - y / e^place). The expectation of each is a delta of the Gaussian.
    """
    reach = steps * _CELLS + 1
    bounds = _core.adaptive(steps, _CELLS, reach, range_, max(floor, 1e-280))
    width = range_ / _CELLS
    right = np.append(bounds, max(floor, 1e-280))
    x = width * np.arange(1, len(right))
    left = np.exp(-x) * right[1:] - np.expm1(-x)  # the neighbours exchanged
    values = np.concatenate([left[::-1], right])
    places = width * np.arange(-len(left), len(right))
    slopes = np.diff(values) / (np.exp(places[:-1]) * math.expm1(width))
    first = (values[0] - 1.0) / math.exp(places[0])
    weights = np.exp(places) * np.diff(np.concatenate([[first], slopes, [0.0]]))
    knots = [(float(w), float(p)) for w, p in zip(weights, places, strict=True) if w != 0.0]
    last = float(right[-1])

    def curve(x: float) -> float:
        terms = (w * _at(x - p, mu, UP if w > 0.0 else DOWN) for w, p in knots)
        return (math.fsum(terms) + last) * (1 + 2.0**-40)

    return curve


def _at(x: float, mu: float, side: int) -> float:
    """Delta of a Gaussian at any x: left of 0 the neighbours are exchanged."""
    if x >= 0.0:
        return delta_of(x, mu, side)
    return (-math.expm1(x) + math.exp(x) * delta_of(-x, mu, side)) * (1 + side * 2.0**-48)
