"""The public functions: the total of given steps, and the step of a given total."""

import math
import numbers
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from dptopk.accounting import adaptive as recursion
from dptopk.accounting import compositions as closed
from dptopk.accounting.optimal import optimal

_TOTALS: dict[str, Callable[[closed.Groups, float], float]] = {
    "basic": lambda groups, delta: closed.basic(groups),
    "advanced": closed.advanced,
    "optimal": optimal,
    "bounded_range": closed.bounded_range,
    "bounded_range_2020": closed.bounded_range_2020,
    "zcdp": closed.zcdp,
    "adaptive": lambda groups, delta: recursion.adaptive(*groups[0], delta),
    "best": lambda groups, delta: (
        recursion.adaptive(*groups[0], delta)
        if len(groups) == 1
        else closed.closed_form(groups, delta)
    ),
}
METHODS = tuple(_TOTALS)
_EQUAL_STEPS_ONLY = ("bounded_range_2020", "adaptive")


def _positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    number = float(value)
    if not (math.isfinite(number) and number > 0.0):
        raise ValueError(f"{name} must be a finite number > 0, got {value}")
    return number


def _check(steps: object, delta: object, method: object) -> tuple[int, float, str]:
    if isinstance(steps, bool) or not isinstance(steps, numbers.Integral):
        raise TypeError(f"steps must be an integer, got {type(steps).__name__}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if isinstance(delta, bool) or not isinstance(delta, numbers.Real):
        raise TypeError(f"delta must be a number, got {type(delta).__name__}")
    if not 0.0 <= float(delta) < 1.0:
        raise ValueError(f"delta must be at least 0 and less than 1, got {delta}")
    if not isinstance(method, str):
        raise TypeError(f"method must be a string, got {type(method).__name__}")
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    return int(steps), float(delta), method


def _group(epsilon_step: float | Sequence[float], steps: int, method: str) -> closed.Groups:
    if isinstance(epsilon_step, numbers.Real):
        return ((_positive("epsilon_step", epsilon_step), steps),)
    if isinstance(epsilon_step, str) or not hasattr(epsilon_step, "__iter__"):
        raise TypeError(
            f"epsilon_step must be a number or a sequence, got {type(epsilon_step).__name__}"
        )
    groups = Counter(_positive("epsilon_step", value) for value in epsilon_step)
    if groups.total() != steps:
        raise ValueError(f"epsilon_step must hold {steps} values, got {groups.total()}")
    if len(groups) > 1 and method in _EQUAL_STEPS_ONLY:
        raise ValueError(f"method {method!r} needs equal steps")
    return tuple(sorted(groups.items(), reverse=True))


def total_epsilon(
    epsilon_step: float | Sequence[float], steps: int, delta: float, method: str = "best"
) -> float:
    """Total epsilon of adaptive steps, rounded up.

    Parameters
    ----------
    epsilon_step : float or sequence of float
        Epsilon of each step; a sequence, fixed beforehand, gives each of `steps` its own.
    steps : int
        How many steps, at least 1.
    delta : float
        What the composition may add to delta, at least 0 and less than 1. At 0 every
        method is the plain sum.
    method : str
        One of `METHODS`. basic, advanced and optimal assume epsilon_step-DP steps; all
        others assume epsilon_step-bounded-range ones (module docstring). For a sequence
        "best" is the best closed form; "adaptive" and "bounded_range_2020" need equal
        steps.

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
    0.622
    >>> total_epsilon(0.25, 4, 0.0)
    1.0
    """
    steps, delta, method = _check(steps, delta, method)
    return _TOTALS[method](_group(epsilon_step, steps, method), delta)


def step_epsilon(epsilon: float, steps: int, delta: float, method: str = "best") -> float:
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
        epsilon_step with total_epsilon(epsilon_step, steps, delta, method) <= epsilon,
        and no larger double beyond the last few for which it holds. Results are cached.

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
        _positive("epsilon", epsilon)
        _check(steps, delta, method)
        raise


@lru_cache(maxsize=4096, typed=True)
def _step_epsilon(epsilon: float, steps: int, delta: float, method: str) -> float:
    target = _positive("epsilon", epsilon)
    steps, delta, method = _check(steps, delta, method)

    def total(epsilon_step: float) -> float:
        return _TOTALS[method](((epsilon_step, steps),), delta)

    guess = target / steps
    if method in ("adaptive", "best") and 1 < steps <= recursion.MAX_STEPS and delta > 0.0:
        guess = _adaptive_guess(target, steps, delta)
    return largest(total, target, guess)


def _adaptive_guess(target: float, steps: int, delta: float) -> float:
    """Root on a table eight to four times coarser, a fraction of a percent below."""
    low = _step_epsilon(target, steps, delta, "zcdp")

    def coarse(epsilon_step: float) -> float:
        return recursion.recursion(epsilon_step, steps, delta, 8)

    return largest(coarse, target, 1.06 * low, tolerance=1e-6)


def largest(
    total: Callable[[float], float], target: float, guess: float, tolerance: float = 0.0
) -> float:
    """Largest double with total(double) <= target, for an increasing total.

    Keeps low and high around the change, by secants that aim past the root on
    the side not yet tight, and by halving where these do not help. Stops
    at neighbouring doubles or at a relative width of `tolerance`.
    """
    low, high = _bracket(total, target, guess)
    (low_x, low_gap), (high_x, high_gap) = low, high
    previous = math.inf
    while True:
        width = high_x - low_x
        limit = max(2 * math.ulp(low_x), tolerance * low_x)
        if width <= limit:
            return low_x
        middle = low_x + width / 2 if high_x < 2 * low_x else math.sqrt(low_x) * math.sqrt(high_x)
        if width <= previous / 2 and math.isfinite(high_gap):
            share = -low_gap / (high_gap - low_gap)
            aim = low_x + share * width
            # Past the root by a little of the width: then the other end moves too.
            aim += (0.001 if share < 0.5 else -0.001) * width
            middle = min(max(aim, low_x + limit / 2), high_x - limit / 2)
            middle = min(max(middle, math.nextafter(low_x, high_x)), math.nextafter(high_x, low_x))
        previous = width
        gap = total(middle) - target
        if gap <= 0.0:
            low_x, low_gap = middle, gap
        else:
            high_x, high_gap = middle, gap


def _bracket(
    total: Callable[[float], float], target: float, guess: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Places left and right of the change, with total - target there."""
    x, factor = max(guess, math.ulp(0.0)), 1.004
    gap = total(x) - target
    upward = gap <= 0.0
    while True:
        other = x * factor if upward else x / factor
        if other == x:
            other = math.nextafter(x, math.inf if upward else 0.0)
        if other == 0.0:
            raise ValueError(f"epsilon {target} is too small to share among the steps")
        other_gap = total(other) - target
        if (other_gap <= 0.0) != upward:
            return ((x, gap), (other, other_gap)) if upward else ((other, other_gap), (x, gap))
        x, gap, factor = other, other_gap, min(factor * factor, 16.0)


def cost_table(epsilon: float, steps: int, delta: float) -> dict[str, float]:
    """Epsilon per step that a total buys, by every method.

    Parameters
    ----------
    epsilon, steps, delta
        As in `step_epsilon`.

    Returns
    -------
    dict
        method: epsilon_step.

    Raises
    ------
    TypeError, ValueError
        For an argument of the wrong kind, or of a value out of range.

    Examples
    --------
    >>> {m: round(e, 2) for m, e in cost_table(1.0, 10, 1e-6).items() if m in ("basic", "best")}
    {'basic': 0.1, 'best': 0.15}
    """
    return {method: step_epsilon(epsilon, steps, delta, method) for method in METHODS}
