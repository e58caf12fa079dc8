"""Budgets that were renewed: what all periods cost together."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from dptopk.release import Cost
from dptopk.releases import Releases
from dptopk.rounding import up

__all__ = ["at_cost_of", "over_periods"]


def over_periods(cost: Cost, periods: int) -> Cost:
    """Return what so many periods cost, each at this: epsilons, deltas and rhos add up.

    Each period may be chosen by all that came before, and calls of two may overlap: basic
    composition holds for mechanisms that are asked in turns (Vadhan and Wang 2021).
    """
    if periods == 1:
        return cost
    epsilon, delta = (_times(periods, each) for each in (cost.epsilon, cost.delta))
    rho = None if cost.rho is None else _times(periods, cost.rho)
    return Cost(epsilon, min(delta, 1.0), f"{periods} periods, each of: {cost.theorem}", rho)


def _times(periods: int, value: float) -> float:
    return value if math.isinf(value) else up(periods * Fraction(value))


def at_cost_of(released: Any, periods: int) -> Any:
    """Return what was released at the cost of so many periods, of which it names one."""
    if periods == 1:
        return released
    whole = over_periods(released.cost, periods)
    if not isinstance(released, Releases):
        return released.at_cost(whole)
    return Releases(
        released.groups,
        [each.at_cost(whole) for each in released.values()],
        cost=whole,
        mechanism=released.mechanism,
        private=released.private,
    )
