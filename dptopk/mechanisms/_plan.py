"""A call of a mechanism between its checks and its draw.

Beside each mechanism NAME stands plan_NAME, which takes the same arguments but
rng: the mechanism is ``plan_NAME(...).draw(rng)``. Beside one that is made of
bounded-range steps stands steps_NAME too, which takes no budget: sessions and
filters fix the epsilon of its steps.

Either plans a call on one histogram. On `Histograms` the same function plans a call on
each of them: `steps_by_group` and `plans_by_group`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, cast, overload

import numpy as np

from dptopk.histogram import Counts, Histogram, Histograms
from dptopk.release import Cost, Release
from dptopk.releases import Releases

if TYPE_CHECKING:
    from dptopk.mechanisms._race import Race

__all__ = [
    "Mechanism",
    "Method",
    "Plan",
    "Steps",
    "for_groups",
    "in_each",
    "method_for_groups",
    "outcomes_of",
    "plan_of",
    "plans_by_group",
    "steps_by_group",
    "steps_of",
    "together",
]


class Plan(NamedTuple):
    """A call that has passed every check and has not drawn.

    Attributes
    ----------
    cost : Cost
        What it costs; to be charged before it draws.
    draw : function of rng
        Draws, and returns the Release, or Releases.
    race : Race or None
        What `draw` does, where it is a race among counts that public numbers tell all of:
        then the same is done in every group at once.
    many : function of a number, rng and workers, or None
        Draws so many times at once, for experiments: the items of each draw, shape (number,
        k), -1 past its last.
    """

    cost: Cost
    draw: Callable[[Any], Any]
    race: Race | None = None
    many: Callable[[int, Any, int], np.ndarray] | None = None


class Steps(NamedTuple):
    """A call of bounded-range steps that has passed every check and has no budget yet.

    Attributes
    ----------
    histogram : Histogram, Histograms or None
        Whose labels may come out.
    most : int
        How many steps a user may see at most.
    thresholds : int
        How many thresholds, which need a delta: 0, or 1 in each group of a user.
    at : function of step, delta and cost
        The plan at an epsilon of each step and a delta of each threshold, whose
        releases say that they cost this. Refuses noise past the range of floats.
    taken : function of a Release
        How many steps it took: what is to be paid for.
    """

    histogram: Histogram | Histograms | None
    most: int
    thresholds: int
    at: Callable[[float, float, Cost], Plan]
    taken: Callable[[Any], int]


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


# ---- many groups: docs/proofs/groups.md

P = ParamSpec("P")


class Mechanism(Protocol[P]):
    """What picks from a histogram, or from that of every group."""

    @overload
    def __call__(self, counts: Counts, *args: P.args, **kwargs: P.kwargs) -> Release: ...
    @overload
    def __call__(self, counts: Histograms, *args: P.args, **kwargs: P.kwargs) -> Releases: ...


class Method(Protocol[P]):
    """The same as a method."""

    def __get__(self, instance: Any, owner: Any = None) -> Mechanism[P]:
        """Bind it."""


def for_groups(mechanism: Callable[Concatenate[Counts, P], Release]) -> Mechanism[P]:
    """Tell type checkers that a mechanism takes Histograms too; it is returned as it is."""
    return cast(Any, mechanism)


def method_for_groups(method: Callable[Concatenate[Any, Counts, P], Release]) -> Method[P]:
    """Tell the same of a method."""
    return cast(Any, method)


def steps_by_group(steps: Callable[..., Steps]) -> Callable[..., Steps]:
    """Let steps_NAME take Histograms: as many steps as the most groups of a user have.

    All of them are paid for, whatever comes out: how many outcomes there are in the groups
    of one user is not what all groups together show.
    """

    @wraps(steps)
    def stepped(counts: Any, **options: Any) -> Steps:
        # First, since Histograms is an abstract class, of which isinstance is slow to ask.
        if isinstance(counts, Histogram) or not isinstance(counts, Histograms):
            return steps(counts, **options)
        counts.check_public(steps.__name__.partition("steps_")[2])
        times, first = counts.max_groups_per_user, steps(counts.row(0), **options)
        most = times * first.most

        def at(step: float, delta: float, cost: Cost) -> Plan:
            return in_each(counts, lambda h: steps(h, **options).at(step, delta, cost))

        return Steps(counts, most, times * first.thresholds, at, lambda releases: most)

    return stepped


def plans_by_group(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    """Let plan_NAME take Histograms: it is told of how many `groups` its cost must pay for."""

    @wraps(plan)
    def planned(counts: Any, **options: Any) -> Plan:
        if isinstance(counts, Histogram) or not isinstance(counts, Histograms):
            return plan(counts, **options)
        counts.check_public(plan.__name__.partition("plan_")[2])
        return in_each(counts, partial(plan, groups=counts.max_groups_per_user, **options))

    return planned


def in_each(hs: Histograms, plan: Callable[[Histogram], Plan]) -> Plan:
    """Plan a call on the histogram of every group. Each plan's cost is that of all of them.

    What can be wrong in any group is found out here, before the first draw.
    """
    first = plan(hs.row(0))
    plans = [first]
    if first.race is None or not hs.alike:
        plans += [plan(hs.row(place)) for place in range(1, len(hs))]
    cost = together(_most([each.cost for each in plans]), hs)

    def draw(rng: Any) -> Releases:
        if len(plans) < len(hs):
            assert first.race is not None
            return first.race.in_rows(hs, cost, rng)
        releases = [each.draw(rng) for each in plans]
        return Releases(
            hs.groups,
            [release.at_cost(cost) for release in releases],
            cost=cost,
            mechanism=releases[0].mechanism,
            private=all(release.private for release in releases),
        )

    return Plan(cost, draw)


def _most(costs: Sequence[Cost]) -> Cost:
    """Return what covers each of these: known domains of several sizes can differ in cost."""
    first = max(costs, key=lambda cost: (cost.epsilon, cost.delta))
    rhos = [cost.rho for cost in costs]
    return first._replace(
        delta=max(cost.delta for cost in costs),
        rho=None if None in rhos else max(rhos),  # type: ignore[type-var]
    )


def together(cost: Cost, hs: Histograms) -> Cost:
    """Return the cost of the releases of all groups.

    Of sums of weights it does not depend on how many groups a user has.
    """
    if hs.soft_cap is not None:
        return cost._replace(theorem=f"{cost.theorem}; all groups together")
    number = hs.max_groups_per_user
    of = "1 group" if number == 1 else f"{number} groups"
    return cost._replace(theorem=f"{cost.theorem}; all groups together, at most {of} a user")
