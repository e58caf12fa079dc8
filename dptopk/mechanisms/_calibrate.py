"""From the total a caller pays to the epsilon of a step, and back to what it costs."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dptopk._types import Method
from dptopk._validate import positive
from dptopk.accounting import step_epsilon, total_epsilon, winning_method
from dptopk.release import Cost
from dptopk.rounding import down, quotient_up

__all__ = ["PURE", "calibrate", "composition", "cost_of_steps", "scale_of", "share_of"]

# The methods that hold for any pure DP step: what a mechanism that is not
# bounded-range may be composed by.
PURE = ("basic", "advanced", "optimal")


def calibrate(
    epsilon: Any, epsilon_step: Any, *, steps: int, delta: float, method: Method
) -> tuple[float, float]:
    """Return (total epsilon, epsilon of each step); one of them is given.

    `delta` is what the composition may use of the total.
    """
    if (epsilon is None) == (epsilon_step is None):
        raise TypeError(
            "give either epsilon (the total) or epsilon_step (of each step): one of the two"
        )
    if epsilon is not None:
        total = positive("epsilon", epsilon)
        return total, step_epsilon(total, steps, delta, method)
    step = positive("epsilon_step", epsilon_step)
    total = total_epsilon(step, steps, delta, method)
    if not math.isfinite(total):
        raise ValueError("epsilon_step is too large: the total is past the range of floats")
    return total, step


def share_of(budget: float, parts: int, name: str) -> float:
    """Return an equal part of an epsilon or a delta, rounded down."""
    if parts == 1:
        return budget
    each = down(Fraction(budget) / parts)
    if budget and not each:
        raise ValueError(f"{name} is too small to share, got {budget}")
    return each


def scale_of(epsilon_step: float, sensitivity: float = 1.0) -> float:
    """Return sensitivity / epsilon_step, rounded up."""
    scale = quotient_up(sensitivity, epsilon_step)
    if not math.isfinite(scale):
        raise ValueError("epsilon is too small: the noise scale is past the range of floats")
    return scale


@lru_cache(maxsize=4096)
def composition(
    method: str, epsilon_step: float, steps: int, delta: float, kind: str = "bounded-range"
) -> str:
    """Say how steps were composed, for ``cost.theorem``."""
    if method == "best":
        method = winning_method(epsilon_step, steps, delta)
    return f"{method} composition of {steps} {kind} step{'s' if steps > 1 else ''}"


@lru_cache(maxsize=4096)
def cost_of_steps(total: float, delta: float, theorem: str, composed: str) -> Cost:
    """Return the cost of steps whose theorem and `composition` are these."""
    return Cost(total, delta + 0.0, f"{theorem}; {composed}")  # one 0 for both of its signs
