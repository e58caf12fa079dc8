"""Running a mechanism on a domain of its own, for `dptopk.restricted`: ours, or the caller's."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dptopk._counts import Head
from dptopk._types import Bound
from dptopk._validate import choice
from dptopk.accounting import step_epsilon
from dptopk.accounting.stability import BOUNDS
from dptopk.errors import MechanismError
from dptopk.histogram import Histogram
from dptopk.mechanisms._calibrate import composition, scale_of
from dptopk.mechanisms._plan import Plan, plan_of
from dptopk.mechanisms._select import scores_over, select
from dptopk.mechanisms._set_noise import noise_for
from dptopk.mechanisms.canonical import canonical
from dptopk.mechanisms.oneshot import oneshot
from dptopk.mechanisms.peel import THEOREM as GUMBEL_THEOREM
from dptopk.mechanisms.peel import peel
from dptopk.mechanisms.permute_and_flip import permute_and_flip
from dptopk.release import Cost, Release

__all__ = [
    "FUNCTIONS",
    "OURS",
    "Picked",
    "Picking",
    "by_gumbel",
    "by_ours",
    "by_yours",
    "in_random_order",
]


class Picked(NamedTuple):
    """What the mechanism picked: places in the order of the counts."""

    places: np.ndarray
    ordered: bool
    private: bool
    parameters: dict[str, Any] | None


class Picking(NamedTuple):
    """A mechanism on a domain of its own that has passed its checks.

    Its proof, how to draw, and the delta it uses.
    """

    theorem: str
    pick: Callable[[Any], Picked]
    delta: float


def _plan_normal(
    h: Histogram,
    *,
    k: int,
    epsilon: float,
    delta: float = 0.0,
    max_items_per_user: int | None = None,
    bound: Bound = "exact",
) -> Plan:
    """Plan picks by the Gaussian mechanism on all counts: the order of its picks comes free.

    Here all are the k_bar counts that are shown, those of made-up items among them.
    """
    bound = choice("bound", bound, BOUNDS)
    max_items_per_user = h.bound_of_user(max_items_per_user)
    chosen = noise_for(
        noise="gaussian",
        method="best",
        k=k,
        epsilon=epsilon,
        delta=delta,
        sensitivity=1.0,
        monotone=True,
        max_items_per_user=max_items_per_user,
        n_items=len(h),
        bound=bound,
    )
    head = scores_over(h, "normal", monotone=None, k=k).head(k=k, scale=chosen.scale)
    cost = Cost(epsilon, chosen.delta, chosen.theorem)

    def draw(rng: Any) -> Release:
        picks, private = select(head, k=k, scale=chosen.scale, noise="gaussian", rng=rng)
        return Release(
            indices=picks,
            labels=None,
            ordered=True,
            complete=True,
            cost=cost,
            mechanism="normal",
            private=private,
            parameters={"k": k, "scale": chosen.scale, "max_items_per_user": max_items_per_user},
        )

    return Plan(cost, draw)


#: The functions of those that stand for themselves; and what plans each.
FUNCTIONS: dict[str, Callable[..., Release]] = {
    "peel": peel,
    "oneshot": oneshot,
    "permute_and_flip": permute_and_flip,
    "canonical": canonical,
}
OURS: dict[str, Callable[..., Plan]] = {
    **{name: plan_of(function) for name, function in FUNCTIONS.items()},
    "normal": _plan_normal,
}


def by_gumbel(shown: np.ndarray, k: int, epsilon: float, delta: float) -> Picking:
    """Do what `by_ours` does with `peel`, without its checks and its Release."""
    step, scale, theorem = _gumbel_noise(k, epsilon, delta)
    head = Head(shown, _positions(shown.size), None, False)

    def pick(rng: Any) -> Picked:
        picks, private = select(head, k=k, scale=scale, rng=rng)
        return Picked(picks, True, private, {"epsilon_step": step, "scale": scale})

    return Picking(theorem, pick, delta)


@lru_cache(maxsize=4096)
def _gumbel_noise(k: int, epsilon: float, delta: float) -> tuple[float, float, str]:
    """Return the epsilon of a step, its scale, and what proves it."""
    step = step_epsilon(epsilon, k, delta)
    proof = composition("best", step, k, delta)
    return step, scale_of(step), f"{GUMBEL_THEOREM}; {proof}"


@lru_cache(maxsize=64)
def _positions(n: int) -> np.ndarray:
    return np.arange(n)


def by_ours(
    name: str,
    shown: np.ndarray,
    h: Histogram,
    k: int,
    epsilon: float,
    delta: float,
    options: Mapping[str, Any],
) -> Picking:
    """Plan one of our mechanisms. All treat items alike: no need to hide their order."""
    domain = Histogram.of_descending(shown, like=h)
    spend = {"delta": delta} if delta else {}
    plan = OURS[name](domain, k=k, epsilon=epsilon, **spend, **options)

    def pick(rng: Any) -> Picked:
        release = plan.draw(rng)
        assert release.indices is not None
        return Picked(release.indices, release.ordered, release.private, dict(release.parameters))

    return Picking(plan.cost.theorem, pick, plan.cost.delta)


def by_yours(
    mechanism: Callable[[Histogram, int], Any],
    shown: np.ndarray,
    k: int,
    epsilon: float,
    delta: float,
    ordered: bool,
) -> Picking:
    """Plan a callable of the caller's; what it costs is as stated."""

    def pick(rng: Any) -> Picked:
        return _by_yours(mechanism, shown, k, epsilon, delta, ordered, rng)

    return Picking("as stated by the caller", pick, delta)


def _by_yours(
    mechanism: Callable[[Histogram, int], Any],
    shown: np.ndarray,
    k: int,
    epsilon: float,
    delta: float,
    ordered: bool,
    rng: Any,
) -> Picked:
    """Run a callable on the counts in an order drawn at random, and check what it returns.

    What it raises or returns may be made of the data: no error tells more than
    which of the rules was broken.
    """
    order, private = in_random_order(np.arange(shown.size), rng)
    domain = Histogram(shown[order])
    picks, failed = _call(mechanism, domain, k)
    if failed:  # out here, where the exception is no longer at hand
        raise MechanismError("the mechanism raised an exception; its budget is spent")
    if isinstance(picks, Release):
        cost = picks.cost
        if cost.epsilon > epsilon or cost.delta > delta:
            raise MechanismError("the mechanism costs more than was stated; its budget is spent")
        ordered, private = ordered and picks.ordered, private and picks.private
        picks = picks.indices
    ordered = ordered and not isinstance(picks, (set, frozenset))
    places = _indices(picks, shown.size)
    if places is None or len(places) > k or len(set(places)) < len(places):
        raise MechanismError(
            "the mechanism must return up to k different indices into its histogram; "
            "its budget is spent"
        )
    return Picked(order[np.array(places, np.int64)], ordered, private, None)


def _call(mechanism: Callable[[Histogram, int], Any], domain: Histogram, k: int) -> Any:
    """Return what the mechanism returns, and whether it failed."""
    try:
        return mechanism(domain, k), False
    except Exception:
        return None, True


def _indices(picks: Any, n: int) -> list[int] | None:
    """Return indices below n as a list, or None if they are anything else."""
    try:
        if isinstance(picks, np.ndarray) and picks.ndim != 1:
            return None
        picks = list(itertools.islice(picks, n + 1))
        places = [operator.index(pick) for pick in picks]
    except Exception:
        return None
    if any(isinstance(pick, (bool, np.bool_)) for pick in picks):
        return None
    return places if all(0 <= place < n for place in places) else None


def in_random_order(places: np.ndarray, rng: Any) -> tuple[np.ndarray, bool]:
    """Return places in an order drawn at random, and whether privately drawn: equal scores."""
    equal = np.zeros(places.size, np.int64)
    return select(Head(equal, places, None, False), k=places.size, scale=1.0, rng=rng)
