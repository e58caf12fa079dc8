"""A call of a mechanism between its checks and its draw.

Beside each mechanism NAME stands plan_NAME, which takes the same arguments but
rng: the mechanism is ``plan_NAME(...).draw(rng)``. Beside one that is made of
bounded-range steps stands steps_NAME too, which takes no budget: sessions and
filters fix the epsilon of its steps.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from dptopk.histogram import Histogram
from dptopk.release import Cost, Release

__all__ = ["Plan", "Steps", "outcomes_of", "plan_of", "steps_of"]


class Plan(NamedTuple):
    """A call that has passed every check and has not drawn.

    Attributes
    ----------
    cost : Cost
        What it costs; to be charged before it draws.
    draw : function of rng
        Draws, and returns the Release.
    """

    cost: Cost
    draw: Callable[[Any], Release]


class Steps(NamedTuple):
    """A call of bounded-range steps that has passed every check and has no budget yet.

    Attributes
    ----------
    histogram : Histogram or None
        Whose labels may come out.
    most : int
        How many steps it takes at most.
    thresholds : int
        How many thresholds need a delta: 0 or 1.
    at : function of step, delta and cost
        The plan at an epsilon of each step and a delta of each threshold, whose
        releases say that they cost this. Refuses noise past the range of floats.
    taken : function of a Release
        How many steps it took: what is to be paid for.
    """

    histogram: Histogram | None
    most: int
    thresholds: int
    at: Callable[[float, float, Cost], Plan]
    taken: Callable[[Release], int]


def outcomes_of(release: Release) -> int:
    """Return the steps that a release took, if each outcome took one."""
    return release.outcomes


def plan_of(mechanism: Callable[..., Release]) -> Callable[..., Plan]:
    """Return what plans the calls of a mechanism: plan_NAME of its module."""
    plan: Callable[..., Plan] = getattr(
        sys.modules[mechanism.__module__], f"plan_{mechanism.__name__}"
    )
    return plan


def steps_of(name: str) -> Callable[..., Steps]:
    """Return what plans the steps of a mechanism by its name: steps_NAME of its module."""
    module = importlib.import_module(f"dptopk.mechanisms.{name}")
    steps: Callable[..., Steps] = getattr(module, f"steps_{name}")
    return steps
