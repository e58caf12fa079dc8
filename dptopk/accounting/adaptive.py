"""Composition of adaptively chosen bounded-range steps, certified from above.

After j steps of range e, each chosen in view of the outcomes before it, the worst delta at
epsilon = x is at most V_j(x), where V_0(x) = max(0, 1 - e^x) and

    V_j(x) = max over t of P(t) V_{j-1}(x - t) + (1 - P(t)) V_{j-1}(x - t + e),
    P(t) = (1 - e^(t-e)) / (1 - e^(-e)), 0 <= t <= e.

At each place u = x / e that is at most the delta of a Gaussian of mu = e a, where the
spread a depends on u and j, and hardly on e: a spread that was found at one range holds at
every larger one. `Profile` has the spreads at a range, from the recursion; `smooth` a formula
for small ranges and many steps; `blocks` what holds for any number of steps. docs/proofs/
adaptive.md shows why. Stopping early is covered, and so are smaller ranges. The bound for
steps fixed in advance is lower, but not valid for peeling, where each pick depends on those
before.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from dptopk import _core
from dptopk.accounting.compositions import basic, closed_form, zcdp
from dptopk.accounting.curve import delta_of, linear, spread_of
from dptopk.accounting.optimal import optimal
from dptopk.rounding import padded

#: Steps up to these are computed on so many cells a range, on from the last grid.
SCHEDULE = ((16, 128), (128, 64), (1024, 32))
MAX_STEPS = SCHEDULE[-1][0]
#: From so many steps on the formula of `smooth` holds, up to the size of a block.
FEWEST, BLOCK = 64, 2048
#: The most for which randomised response is worth its atoms.
OPTIMAL_STEPS = 4096
#: The largest range the kernel takes.
MAX_RANGE = 8.0
_MIN_DELTA = 1e-270
_RANGES = 64  # profiles are computed at ranges whose squares are multiples of 1/64,
_COARSE = 8  # and of 1/8 for many steps, where the range matters less and they cost more
_LEAST_RANGE = 1e-6  # stands for range 0
_FLOORS = (1e-20, 1e-40, 1e-80, 1e-160, 1e-273)  # of deltas over the range
_FAR = 16.0  # sqrt(steps)/2 up to which the formula was checked
_BEYOND = 15.8  # as many standard deviations, whatever the number of steps


def excess(steps: int) -> float:
    """Return how much 4 a^2 exceeds the number of steps at most, for 64 to 2048 of them.

    The last term is there for the grid of 128 cells on which this was checked.
    """
    return 0.36 + math.log(steps) / 8 + steps / 32768


def excess_of_few(steps: int) -> float:
    """Return the same for any number of steps up to a block."""
    return 0.572 + math.log(steps) / 8


def one_step(epsilon_step: float, delta: float) -> float:
    """Solve V_1(x) = delta (step 12 of docs/proofs/adaptive.md), rounded up."""
    root = math.sqrt(delta) * math.sqrt(-math.expm1(-epsilon_step))  # the product may underflow
    if root >= 1.0:
        return epsilon_step
    total = epsilon_step + 2 * math.log1p(-root)
    # The root is within 4 units of 2^-53 of itself, and the logarithm magnifies that.
    total = padded(total, root / (1.0 - root) + epsilon_step / 4)
    return min(epsilon_step, max(0.0, total))


def recursion(steps: int, range_: float, floor: float) -> tuple[np.ndarray, int]:
    """Upper bounds of V_steps at multiples of range / cells, and the cells; V <= floor past them.

    From one grid of `SCHEDULE` to the next every other place is kept: the bounds never fall
    from one step to the next.
    """
    reach = zcdp(((range_, steps),), floor) / range_
    bounds, done, before = None, 0, 0
    for most, cells in SCHEDULE:
        upto = min(most, steps)
        start = None if bounds is None else np.ascontiguousarray(bounds[:: before // cells])
        capacity = int(reach * cells) + 2
        bounds = _core.adaptive(upto - done, cells, capacity, range_, floor, start)
        done, before = upto, cells
        if done == steps:
            break
    assert bounds is not None
    return bounds, before


class Profile:
    """Spreads at places u = 0, 1/cells, ... of so many steps, for ranges from one on."""

    def __init__(self, steps: int, index: int, floor: float):
        self.range = max(_LEAST_RANGE, math.sqrt(index / _RANGES))
        self.steps, self._flat = steps, index == 0
        floor = max(floor * self.range, 1e-280)
        bounds, self.cells = recursion(steps, self.range, floor)
        self._bounds = np.append(bounds, floor)
        self._spreads: list[float | None] = [None] * len(self._bounds)

    def spread(self, place: int) -> float:
        """Return a at a place."""
        known = self._spreads[place]
        if known is None:
            bound, u = float(self._bounds[place]), place / self.cells
            guess = max(0.3, math.sqrt(self.steps) / 2)
            if self._flat:
                # The value at range 0: V_j / range, less than (1 + range) times too small.
                bound *= (1 + self.range) / self.range
                known = spread_of(bound, u, guess, linear)
            else:
                known = spread_of(bound, u * self.range, guess * self.range, delta_of) / self.range
            known = self._spreads[place] = padded(known)
        return known

    def delta(self, place: int, range_: float) -> float:
        """Return a bound of V at a place, for a range that is not smaller."""
        return delta_of(place / self.cells * range_, self.spread(place) * range_)

    def total(self, range_: float, delta: float) -> float:
        """Return the smallest x with a bound of at most delta; inf past the places."""
        if self.delta(0, range_) <= delta:
            return 0.0
        last = len(self._bounds) - 1
        if self.delta(last, range_) > delta:
            return math.inf
        place = bisect.bisect_left(
            range(last), True, key=lambda place: self.delta(place, range_) <= delta
        )
        before, after = self.delta(place - 1, range_), self.delta(place, range_)
        width = range_ / self.cells
        share = (before - delta) / (before - after)
        return padded((place - 1) * width + math.log1p(share * math.expm1(width)), units=32)


@lru_cache(maxsize=256)
def profile(steps: int, index: int, band: int) -> Profile:
    """Compute a profile once."""
    return Profile(steps, index, _FLOORS[band])


def from_profiles(range_: float, steps: int, delta: float) -> float:
    """Return the total by the profile at the largest range that is not above this one.

    For many steps of a range below 0.35 by the formula.
    """
    apart = _COARSE if steps >= FEWEST else 1
    index = int(_RANGES * range_ * range_)
    index -= math.sqrt(index / _RANGES) > range_
    index -= index % apart
    above = math.sqrt((index + apart) / _RANGES)
    total = _at(index, range_, steps, delta)
    # Just below the range of the next profile that one's total is a bound as well: without
    # it the total would fall by a part in a thousand where the profile changes.
    if range_ > above * (1 - 1 / 64) and above <= MAX_RANGE:
        total = min(total, _at(index + apart, above, steps, delta))
    return total


def _at(index: int, range_: float, steps: int, delta: float) -> float:
    if index == 0 and steps >= FEWEST:
        found = smooth(range_, steps, delta)
        if found < math.inf:
            return found
    longest = zcdp(((range_, steps),), delta)
    least = delta * math.exp(-longest / 2) / range_ * 2.0**-40
    band = next((band for band, floor in enumerate(_FLOORS) if floor <= least), None)
    if band is None:
        return math.inf
    delta *= 1 - band * 2.0**-38  # so that a lower floor never makes a total smaller
    return profile(steps, index, band).total(range_, delta)


def solve(bound: Callable[[float], float], target: float, far: float) -> float:
    """Return about the smallest x in [0, far] with bound(x) <= target; inf if there is none.

    By false position in the logarithm of a bound that falls with x, halving where it stalls.
    """
    low, high = 0.0, far
    at_low, at_high = bound(low), bound(high)
    if at_low <= target:
        return 0.0
    if at_high > target:
        return math.inf
    goal = math.log(target)
    above, below = math.log(at_low) - goal, math.log(max(at_high, 1e-320)) - goal
    for turn in range(100):
        if high - low <= 2 * math.ulp(high):
            break
        secant = turn % 3 < 2 and above > 0.0 >= below
        x = low + (high - low) * (above / (above - below) if secant else 0.5)
        if not low < x < high:
            x = low + (high - low) / 2
        found = bound(x)
        if found > target:
            low, above, below = x, math.log(found) - goal, below / 2
        else:
            high, below, above = x, math.log(max(found, 1e-320)) - goal, above / 2
    return high


def smooth(range_: float, steps: int, delta: float) -> float:
    """Return the total for 64 to 2048 steps by a formula for the spreads at range 0.

    4 a^2 = steps + excess - z^2 / 18 at z = 2 u / sqrt(steps), for z up to 16.
    """
    peak, root = steps + excess(steps), math.sqrt(steps)

    def bound(u: float) -> float:
        return delta_of(range_ * u, range_ * math.sqrt(peak - u * u * (2 / 9 / steps)) / 2)

    return padded(range_ * solve(bound, delta, _FAR * root / 2), units=32)


def blocks(range_: float, steps: int, runs: int = 1) -> tuple[float, float]:
    """Return mu of a Gaussian, and what comes on top of its delta, for any number of steps.

    The steps may come in so many runs, of any lengths, with others between them.
    """
    whole, rest = divmod(steps, BLOCK)
    if runs == 1:
        square = steps + whole * excess(BLOCK) + (excess_of_few(rest) if rest else 0.0)
    else:
        square = steps + min(steps, whole + runs) * excess_of_few(min(steps, BLOCK))
    mu = range_ * math.sqrt(square) / 2
    most = min(steps, BLOCK)
    beyond = 0.0
    if most >= FEWEST:
        one = range_ * math.sqrt(most + excess_of_few(most)) / 2
        beyond = delta_of(_BEYOND * one, one) if one < _BEYOND else 1.0
    return padded(mu), padded((whole + runs) * beyond)


def gaussian(mu: float, delta: float) -> float:
    """Return the epsilon of a Gaussian of mu at delta > 0, rounded up."""
    far = mu * (mu / 2 + math.sqrt(-2 * math.log(delta)) + 1)
    return padded(solve(lambda x: delta_of(x, mu), delta, far), units=32)


def _recursive(range_: float, steps: int, delta: float) -> float:
    if range_ > MAX_RANGE or delta < _MIN_DELTA:
        return math.inf
    if steps > BLOCK:
        mu, beyond = blocks(range_, steps)
        return gaussian(mu, delta - beyond) if delta > 2 * beyond else math.inf
    if steps > MAX_STEPS:
        return smooth(range_, steps, delta)
    found = from_profiles(range_, steps, delta)
    return min(found, smooth(range_, steps, delta)) if steps >= FEWEST else found


def adaptive(epsilon_step: float, steps: int, delta: float) -> float:
    """Certified total of adaptive epsilon_step-bounded-range steps.

    Where an epsilon_step above 8 or a tiny delta rule the recursion out, the least of the
    other bounds stands in: from there on for every larger epsilon_step and smaller delta.
    """
    groups = ((epsilon_step, steps),)
    if delta == 0.0:
        return basic(groups)
    if steps == 1:
        return one_step(epsilon_step, delta)
    bound = closed_form(groups, delta)
    if epsilon_step * steps <= delta / 2:
        return 0.0
    found = _recursive(epsilon_step, steps, delta)
    if math.isinf(found) and steps <= OPTIMAL_STEPS:
        found = optimal(groups, delta)
    return min(bound, found)
