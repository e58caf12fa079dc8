"""The public functions: the total of given steps, and the step of a given total."""

import itertools
import math
import numbers
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dptopk._types import Method
from dptopk._validate import choice, integer, positive, probability
from dptopk.accounting import adaptive as recursion
from dptopk.accounting import compositions as closed
from dptopk.accounting.optimal import optimal
from dptopk.accounting.prices import bounded_range_rho
from dptopk.accounting.unequal import unequal
from dptopk.rounding import down

_TOTALS: dict[str, Callable[[closed.Groups, float], float]] = {
    "basic": lambda groups, delta: closed.basic(groups),
    "advanced": closed.advanced,
    "optimal": optimal,
    "bounded_range": closed.bounded_range,
    "bounded_range_2020": closed.bounded_range_2020,
    "zcdp": closed.zcdp,
    "adaptive": lambda groups, delta: _adaptive(groups, delta),
    "best": lambda groups, delta: _adaptive(groups, delta),  # which looks at all the others
}
#: Each method, what it assumes of a step, and its source.
METHODS: dict[Method, tuple[str, str]] = {
    "basic": ("any pure DP", "the sum"),
    "advanced": ("any pure DP", "Durfee-Rogers 2019, Theorem 3"),
    "optimal": ("any pure DP", "Kairouz-Oh-Viswanath; there Lemma 4.5"),
    "bounded_range": ("bounded range", "Durfee-Rogers 2019, eq. 4"),
    "bounded_range_2020": ("bounded range", "Dong-Durfee-Rogers 2020"),
    "zcdp": ("bounded range", "epsilon^2/8-zCDP, Canonne-Kamath-Steinke"),
    "adaptive": ("bounded range", "certified adaptive recursion"),
    "best": ("bounded range", "the smallest of all"),
}
_MAX = sys.float_info.max
_EQUAL_STEPS_ONLY = ("bounded_range_2020",)


def _adaptive(groups: closed.Groups, delta: float) -> float:
    return recursion.adaptive(*groups[0], delta) if len(groups) == 1 else unequal(groups, delta)


def _check(steps: Any, delta: Any, method: Any) -> tuple[int, float, Method]:
    return (
        integer("steps", steps),
        probability("delta", delta, zero=True),
        choice("method", method, METHODS),
    )


def _group(epsilon_step: float | Sequence[float], steps: int, method: str) -> closed.Groups:
    if isinstance(epsilon_step, numbers.Real):
        return ((positive("epsilon_step", epsilon_step, toward=math.inf), steps),)
    if not isinstance(epsilon_step, (list, tuple, np.ndarray)) or np.ndim(epsilon_step) == 0:
        raise TypeError(
            "epsilon_step must be a number, or a list, tuple or array of them, "
            f"got {type(epsilon_step).__name__}"
        )
    groups = Counter(positive("epsilon_step", value, toward=math.inf) for value in epsilon_step)
    if groups.total() != steps:
        raise ValueError(f"epsilon_step must hold {steps} values, got {groups.total()}")
    if len(groups) > 1 and method in _EQUAL_STEPS_ONLY:
        raise ValueError(f"method {method!r} needs equal steps")
    return tuple(sorted(groups.items(), reverse=True))


def total_epsilon(
    epsilon_step: float | Sequence[float], steps: int, delta: float, method: Method = "best"
) -> float:
    """Total epsilon of adaptive steps, rounded up.

    Parameters
    ----------
    epsilon_step : float or sequence of float
        Epsilon of each step; a sequence gives each of `steps` its own. How many steps
        have which epsilon is fixed beforehand, and so is their order, but the total is the
        same for every order. Only the mechanisms may be chosen in view of earlier outcomes;
        where the epsilons are too, use `Filter`.
    steps : int
        How many steps, at least 1.
    delta : float
        What the composition may add to delta, at least 0 and less than 1. At 0 every
        method is the plain sum.
    method : str
        One of `METHODS`. basic, advanced and optimal assume epsilon_step-DP steps; all
        others assume epsilon_step-bounded-range ones (module docstring).
        "bounded_range_2020" needs equal steps. For equal steps "adaptive" is the worst case
        itself, up to a part in a thousand; for others it is the least of several bounds
        (docs/proofs/adaptive.md).

    Returns
    -------
    float
        An epsilon such that the steps together are (epsilon, delta)-DP.

    Raises
    ------
    TypeError, ValueError
        For an argument of the wrong kind, or of a value out of range.

    Examples
    --------
    >>> round(total_epsilon(0.1, 10, 1e-6), 3)
    0.634
    >>> total_epsilon(0.25, 4, 0.0)
    1.0
    """
    steps, delta, method = _check(steps, delta, method)
    return _total(_group(epsilon_step, steps, method), delta, method)


@lru_cache(maxsize=4096)
def _total(groups: closed.Groups, delta: float, method: str) -> float:
    return _TOTALS[method](groups, delta)


def step_epsilon(epsilon: float, steps: int, delta: float, method: Method = "best") -> float:
    """Epsilon that each of `steps` adaptive steps may spend, rounded down.

    Parameters
    ----------
    epsilon : float
        Total epsilon, finite and > 0.
    steps : int
        How many steps, at least 1.
    delta : float
        What the composition may add to delta, at least 0 and less than 1.
    method : str
        As in `total_epsilon`, with the same assumptions on a step.

    Returns
    -------
    float
        epsilon_step with total_epsilon(epsilon_step, steps, delta, method) <= epsilon, about
        two units in the last place below the largest such double (8 for "adaptive" and
        "best", more where delta is near 1). Results are cached.

    Raises
    ------
    TypeError, ValueError
        For an argument of the wrong kind, or of a value out of range.

    Examples
    --------
    >>> step_epsilon(1.0, 4, 0.0)
    0.25
    >>> round(step_epsilon(1.0, 100, 1e-6, "zcdp"), 4)
    0.0441
    """
    try:
        return _step_epsilon(epsilon, steps, delta, method)
    except TypeError:
        # An unhashable argument never reached the checks that name it.
        positive("epsilon", epsilon)
        _check(steps, delta, method)
        raise


@lru_cache(maxsize=4096, typed=True)
def _step_epsilon(epsilon: float, steps: int, delta: float, method: str) -> float:
    target = positive("epsilon", epsilon)
    return _solve(target, *_check(steps, delta, method))


@lru_cache(maxsize=4096)
def _solve(target: float, steps: int, delta: float, method: str) -> float:
    if method == "best":  # the same for equal steps
        return _solve(target, steps, delta, "adaptive")

    def total(epsilon_step: float) -> float:
        return _TOTALS[method](((epsilon_step, steps),), delta)

    if method == "adaptive" and steps > 1 and delta > 0.0:
        # A few per cent more than zCDP affords; the last digits are not worth the tables.
        guess = 1.065 * _solve(target, steps, delta, "zcdp")
        return largest(total, target, guess, ulps=8)
    return largest(total, target, target / steps, ulps=2)


def prepare(
    epsilon: float | Iterable[float], steps: int | Iterable[int], delta: float | Iterable[float]
) -> None:
    """Compute the epsilons of steps before they are asked for, so that no first call waits.

    A first call with new numbers takes a millisecond or so; for up to 64 steps, or an
    epsilon_step above a third, the table behind it is kept for all other totals as well.

    Parameters
    ----------
    epsilon, delta : float or iterable of float
        The totals to come.
    steps : int or iterable of int
        The numbers of steps to come. Every combination is prepared.

    Raises
    ------
    TypeError, ValueError
        As by `step_epsilon`.

    Examples
    --------
    >>> from dptopk.accounting import prepare
    >>> prepare(1.0, range(1, 11), 1e-6)
    """

    def each(value: Any) -> Iterable[Any]:
        return value if isinstance(value, Iterable) and not isinstance(value, str) else (value,)

    for combination in itertools.product(each(epsilon), each(steps), each(delta)):
        step_epsilon(*combination)


def largest(
    total: Callable[[float], float], target: float, guess: float, *, ulps: int, most: int = 10_000
) -> float:
    """Return about the largest double with total(double) <= target, for increasing total.

    `low` always affords the target and `high` never does; they end `ulps` apart, or further
    if `most` totals were computed. Secants close in; at the root they aim past it, so that
    both ends move; a bracket that has not halved in four tries is halved.
    """
    low, high = 0.0, math.inf
    x, before, checkpoint, tries = guess, (0.0, -target), math.inf, 0
    for computed in itertools.count(1):
        if x == 0.0:
            raise ValueError(f"epsilon {target} is too small to share among the steps")
        gap = total(x) - target
        if gap <= 0.0:
            low = x
        else:
            high = x
        if low == _MAX or high - low <= ulps * math.ulp(low) or (low > 0.0 and computed >= most):
            break
        tries += 1
        aim = _secant(x, gap, *before, ulps) if tries < 5 else math.nan
        if high - low < checkpoint / 2 or tries >= 5:
            checkpoint, tries = high - low, 0
        before = (x, gap)
        x = aim if low < aim < high else _halve(low, high)
    return low


def _secant(x: float, gap: float, other: float, other_gap: float, ulps: int) -> float:
    """Where the line through two points meets 0, or somewhat past it when near; else NaN."""
    rise, run = gap - other_gap, x - other
    if not math.isfinite(rise) or rise == 0.0 or rise * run < 0.0:
        return math.nan
    move = -gap / rise * run
    if abs(move) < 1e-13 * x:
        move = 2 * move + (ulps if gap <= 0.0 else -ulps) * 0.75 * math.ulp(x)
    return min(max(x + move, x / 16), 16 * x, _MAX)


def _halve(low: float, high: float) -> float:
    if math.isinf(high):
        return min(16 * low, _MAX)
    if high > 2 * low:
        return math.sqrt(low) * math.sqrt(high) if low > 0.0 else high / 16
    return low + (high - low) / 2


@lru_cache(maxsize=4096)
def winning_method(epsilon_step: float, steps: int, delta: float) -> str:
    """Return the method whose bound "best" is, for equal steps."""
    groups = ((epsilon_step, steps),)
    total = _total(groups, delta, "best")
    others = [m for m in METHODS if m not in ("adaptive", "best", "optimal")]
    if steps <= recursion.OPTIMAL_STEPS:
        others.append("optimal")
    return next((m for m in others if _total(groups, delta, m) == total), "adaptive")


def step_of_rho(rho: float | Fraction, steps: int) -> float:
    """Return about the largest epsilon of that many bounded-range steps that cost at most rho."""
    each = down(Fraction(rho) / steps)
    if each == 0.0:
        raise ValueError(f"rho is too small to share among {steps} steps")
    return largest(bounded_range_rho, each, math.sqrt(8 * each), ulps=4)
