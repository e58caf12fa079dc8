"""Any mechanism over an unknown domain: it picks from the top k_bar, and each pick is tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypedDict, overload

import numpy as np

from dptopk._types import Bound
from dptopk._validate import boolean, choice, integer, nonnegative, positive, probability
from dptopk.accounting import step_epsilon
from dptopk.accounting.stability import BOUNDS, stability_threshold
from dptopk.domain import k_bar_of, restricted_k_bar
from dptopk.framework.wrapped import FUNCTIONS, OURS, by_gumbel, by_ours, by_yours, in_random_order
from dptopk.histogram import Counts, Histogram, Histograms, as_histogram
from dptopk.mechanisms._calibrate import scale_of, share_of
from dptopk.mechanisms._plan import Plan, plans_by_group
from dptopk.mechanisms._set_noise import SetNoise
from dptopk.mechanisms._threshold import threshold_tests
from dptopk.release import Cost, Release
from dptopk.releases import Releases
from dptopk.rng import Rng
from dptopk.rounding import difference_down

__all__ = [
    "default_split",
    "restricted",
]


class Options(TypedDict, total=False):
    """Options that are handed on to one of our mechanisms, if it has them."""

    method: str
    noise: SetNoise
    max_items_per_user: int | None
    bound: Bound


OPTIONS = tuple(Options.__annotations__)
THEOREM = "Carvalho and Wang (restricted domain), Theorem 2"


@lru_cache(maxsize=4096)
def default_split(k: int, epsilon: float, delta: float) -> float:
    """Return the share of epsilon that one of our mechanisms gets by default.

    The tests get 4 times the step that `limited_domain` would take (Theorem 5, and the
    paper's experiments), but from a fifth to a half of the total: with few picks more would
    leave the mechanism too little to find items that pass, with many picks less would let
    too few pass (docs/choosing.md). The mechanism gets the rest.
    """
    tests = min(max(4 * step_epsilon(epsilon, k, delta / 2), 0.2 * epsilon), epsilon / 2)
    return difference_down(epsilon, tests)


@overload
def restricted(
    mechanism: Literal["peel", "oneshot", "permute_and_flip", "canonical", "normal"]
    | Callable[..., Any],
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float,
    k_bar: int | None = None,
    mechanism_epsilon: float | None = None,
    mechanism_delta: float | None = None,
    options: Options | None = None,
    ordered: bool = True,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Release: ...


@overload
def restricted(
    mechanism: Literal["peel", "oneshot", "permute_and_flip", "canonical", "normal"]
    | Callable[..., Any],
    counts: Histograms,
    *,
    k: int,
    epsilon: float,
    delta: float,
    k_bar: int | None = None,
    mechanism_epsilon: float | None = None,
    mechanism_delta: float | None = None,
    options: Options | None = None,
    ordered: bool = True,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Releases: ...


def restricted(
    mechanism: Literal["peel", "oneshot", "permute_and_flip", "canonical", "normal"]
    | Callable[..., Any],
    counts: Counts | Histograms,
    *,
    k: int,
    epsilon: float,
    delta: float,
    k_bar: int | None = None,
    mechanism_epsilon: float | None = None,
    mechanism_delta: float | None = None,
    options: Options | None = None,
    ordered: bool = True,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Release | Releases:
    """Let a mechanism pick k of the k_bar most frequent items; the domain may be unknown.

    The mechanism sees the k_bar largest counts as if they were a known domain.
    Then its picks are tested, in its order, against the (k_bar+1)-th count, the first
    that was cut off. A pick comes out if its count exceeds that one by more than 1 plus
    a threshold, where the difference and the threshold are both noisy. The first pick
    that fails ends the list.

    Parameters
    ----------
    mechanism : str or callable
        One of our mechanisms by name ("peel", "oneshot", "permute_and_flip",
        "canonical", "normal") or function, or a callable of yours ``(Histogram, k) -> picks``:
        see Notes.
    counts : Histogram, Histograms or array of integers, shape (d,)
        Users per item, full or truncated, of a known or an unknown domain.
    k : int
        How many items to pick at most.
    epsilon, delta : float
        The total the release costs, the mechanism's share included.
    k_bar : int, optional
        How many of the largest counts the mechanism sees, k <= k_bar. By
        default max(50 k, 1000), or where the histogram was truncated.
    mechanism_epsilon, mechanism_delta : float, optional
        The mechanism's share; the rest goes to the tests. For a callable of
        yours, what it costs: `mechanism_epsilon` must be given, and
        `mechanism_delta` is 0 by default. For ours, by default
        ``default_split``, and half of delta where the mechanism spends any.
    options : mapping, optional
        For one of our mechanisms, if it has them: "method", "noise",
        "max_items_per_user", "bound".
    ordered : bool, default True
        Whether the order of the picks of a callable of yours is that of its
        choice. False for a set: it is then put in an order drawn at random
        before the tests.
    bound : {"exact", "paper"}
        How the threshold follows from the tests' delta: exactly, or by the
        larger bound of the paper.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments. Not
        given to a callable of yours, which draws its own.

    Returns
    -------
    Release, or Releases for Histograms
        Items in the mechanism's order (in none, if it picks a set); ``complete``
        is False if there are fewer than k.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.
    MechanismError
        If a callable of yours fails, or returns anything but up to k different
        indices. The budget is spent: that it failed may tell of the data.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP when one user, who may touch any number
    of items once each, is added or removed: Theorem 2, if the mechanism is
    (mechanism_epsilon, mechanism_delta)-DP over every known domain of k_bar
    items **and treats items alike**: which items there are must make no
    difference but by their counts. Proof in `dptopk.reference.restricted`.

    A callable of yours treats them alike in any case: it sees the items without
    labels, in an order drawn at random. Its Histogram holds k_bar counts of
    positions 0 .. k_bar-1; it returns positions, or a Release of ours that has
    them and says whether they are ordered. It must not reach the counts in any
    other way. The chance that it picks an item should rise with the item's
    count, or what it picks won't pass. A callable that
    keeps, prints or sends the counts is not private, whatever it returns.

    With eR = epsilon - mechanism_epsilon, both noises are Laplace of scale
    2/eR, and the threshold is (2/eR) ln(1/delta_q) with the largest delta_q such
    that delta_q (2 + ln(1/delta_q)) / 4 is at most delta - mechanism_delta; for
    ``bound="paper"`` there is a 3 for the 2.

    Items missing from the top k_bar of an unknown domain are made up, and count
    0; one of these that passes is shown as BOT. Ties go by item order.

    Source: Carvalho and Wang, "A Framework for Practical Differentially Private
    Top-k Selection", Algorithm 1.

    Examples
    --------
    >>> import dptopk as dp
    >>> h = dp.Histogram.truncated([9000, 8000, 40], ["ant", "bee", "cat"], next_count=2, k_bar=3)
    >>> r = dp.restricted("peel", h, k=3, epsilon=1.0, delta=1e-6)
    >>> r.labels, r.complete
    (('ant', 'bee'), False)

    A mechanism that knows nothing is 0-DP:

    >>> r = dp.restricted(lambda h, k: range(k), h, k=1, epsilon=1.0, delta=1e-6, k_bar=2,
    ...                   mechanism_epsilon=0.0)
    >>> r.labels in [("ant",), ("bee",)]
    True
    """
    plan = plan_restricted(
        mechanism,
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        k_bar=k_bar,
        mechanism_epsilon=mechanism_epsilon,
        mechanism_delta=mechanism_delta,
        options=options,
        ordered=ordered,
        bound=bound,
    )
    return plan.draw(rng)


def plan_restricted(
    mechanism: Literal["peel", "oneshot", "permute_and_flip", "canonical", "normal"]
    | Callable[..., Any],
    counts: Counts | Histograms,
    **more: Any,
) -> Plan:
    """Check a call of `restricted`; arguments as there."""
    return _plan_restricted(counts, mechanism=mechanism, **more)


@plans_by_group
def _plan_restricted(
    counts: Counts,
    *,
    mechanism: Literal["peel", "oneshot", "permute_and_flip", "canonical", "normal"]
    | Callable[..., Any],
    k: int,
    epsilon: float,
    delta: float,
    k_bar: int | None = None,
    mechanism_epsilon: float | None = None,
    mechanism_delta: float | None = None,
    options: Options | None = None,
    ordered: bool = True,
    bound: Bound = "exact",
    groups: int = 1,
) -> Plan:
    """Check a call on one histogram.

    With several groups of one user each has an equal share of the budget, in which a
    mechanism of the caller's must have room.
    """
    k = integer("k", k)
    epsilon = positive("epsilon", epsilon)
    delta = probability("delta", delta, zero=False)
    bound = choice("bound", bound, BOUNDS)
    ordered = boolean("ordered", ordered)
    ours = _ours(mechanism)
    _check_options(ours, options)
    h = as_histogram(counts)
    default = restricted_k_bar(k)
    k_bar = k_bar_of(k, k_bar, default=default, limit=h.k_bar, n_items=h.n_items)
    shown, items, next_count = _domain(h, k_bar)

    def uses(epsilon: float, delta: float) -> float:
        """Return what a oneshot uses of a delta: none where a pure theorem is best."""
        picking = by_ours("oneshot", shown, h, k, epsilon, delta, options or {})
        return delta if picking.delta else 0.0

    budget = _shares(
        ours, k, epsilon, delta, mechanism_epsilon, mechanism_delta, uses, bound, groups
    )
    spend = budget.mechanism_epsilon, budget.mechanism_delta
    if ours == "peel" and not options:
        picking = by_gumbel(shown, k, *spend)
    elif ours is not None:
        picking = by_ours(ours, shown, h, k, *spend, options or {})
    else:
        assert callable(mechanism)
        picking = by_yours(mechanism, shown, k, *spend, ordered)
    cost = Cost(epsilon, delta, f"{THEOREM}; {picking.theorem}")

    def draw(rng: Rng | None) -> Release:
        picked = picking.pick(rng)
        places, private = picked.places, picked.private
        if not picked.ordered and places.size > 1:
            places, safe = in_random_order(places, rng)
            private = private and safe
        if places.size:
            failed, safe = threshold_tests(
                shown[places] - (next_count + 1),
                threshold=budget.threshold,
                threshold_scale=budget.scale,
                query_scale=budget.scale,
                above=False,
                rng=rng,
            )
            private = private and safe
            places = places[: failed.size - int(failed[-1])]
            if items.size < shown.size:
                made_up = np.flatnonzero(places >= items.size)
                places = places[: made_up[0]] if made_up.size else places
        picks = items[places]
        if h.known_domain and not picked.ordered:
            picks = np.sort(picks)
        return Release(
            indices=picks if h.known_domain else None,
            labels=h.labels_of(picks),
            ordered=picked.ordered,
            complete=picks.size == k,
            cost=cost,
            mechanism="restricted" if ours is None else f"restricted({ours})",
            by_counts=True,
            private=private,
            parameters={
                "k": k,
                "k_bar": k_bar,
                "mechanism_epsilon": budget.mechanism_epsilon,
                "mechanism_delta": budget.mechanism_delta,
                "epsilon_tests": budget.epsilon,
                "delta_tests": budget.delta,
                "bound": bound,
                "threshold": budget.threshold,
                "scale": budget.scale,
                "mechanism_parameters": picked.parameters,
            },
        )

    return Plan(cost, draw)


class Shares(NamedTuple):
    """What the mechanism and the tests may spend, and the noise of the tests."""

    mechanism_epsilon: float
    mechanism_delta: float
    epsilon: float
    delta: float
    threshold: float
    scale: float


def _ours(mechanism: Any) -> str | None:
    """Return the name of one of our mechanisms, or None for a callable of the caller's."""
    if isinstance(mechanism, str):
        return choice("mechanism", mechanism, OURS)
    if not callable(mechanism):
        raise TypeError(
            "mechanism must be a name or a callable (Histogram, k) -> indices, "
            f"got {type(mechanism).__name__}"
        )
    return next((name for name, function in FUNCTIONS.items() if function is mechanism), None)


def _check_options(ours: str | None, options: Any) -> None:
    """Refuse options that state of the counts what is not true of them."""
    if options is None:
        return
    if ours is None:
        raise TypeError("options are for the mechanisms of this library")
    if not isinstance(options, Mapping) or not set(options) <= set(OPTIONS):
        raise TypeError(f"options must be a mapping with keys among {', '.join(OPTIONS)}")


def _shares(
    ours: str | None,
    k: int,
    epsilon: float,
    delta: float,
    mechanism_epsilon: Any,
    mechanism_delta: Any,
    uses: Callable[[float, float], float],
    bound: str,
    groups: int,
) -> Shares:
    """Check the shares, and fill in those that are not given: of each group of a user."""
    epsilon, delta = share_of(epsilon, groups, "epsilon"), share_of(delta, groups, "delta")
    times = 1 if ours is None else groups  # what the caller's costs is said of one group
    if mechanism_epsilon is not None:
        # What it costs is rounded up, unlike what it may spend.
        check = positive if ours is not None else _cost
        mechanism_epsilon = share_of(
            check("mechanism_epsilon", mechanism_epsilon), times, "mechanism_epsilon"
        )
    elif ours is None:
        raise TypeError("mechanism_epsilon must be given: what your mechanism costs")
    else:
        mechanism_epsilon = default_split(k, epsilon, delta)
    if mechanism_delta is not None:
        mechanism_delta = share_of(
            _cost("mechanism_delta", mechanism_delta), times, "mechanism_delta"
        )
    elif ours == "oneshot":
        mechanism_delta = uses(mechanism_epsilon, delta / 2)
    elif ours in ("peel", "normal"):
        mechanism_delta = delta / 2
    else:
        mechanism_delta = 0.0
    if mechanism_epsilon >= epsilon:
        raise ValueError(f"mechanism_epsilon must be less than epsilon, got {mechanism_epsilon}")
    if mechanism_delta >= delta:
        raise ValueError(f"mechanism_delta must be less than delta, got {mechanism_delta}")
    return _budget(epsilon, delta, mechanism_epsilon, mechanism_delta, bound)


def _cost(name: str, value: Any) -> float:
    """Return a cost as a finite float >= 0, rounded up."""
    return nonnegative(name, value, toward=math.inf)


@lru_cache(maxsize=4096)
def _budget(
    epsilon: float, delta: float, mechanism_epsilon: float, mechanism_delta: float, bound: str
) -> Shares:
    """Return the shares, and what the tests' share affords, rounded against us."""
    rest = difference_down(epsilon, mechanism_epsilon)
    share = difference_down(delta, mechanism_delta)
    if not (rest > 0.0 and share > 0.0):
        raise ValueError("epsilon and delta must leave something for the tests")
    scale = scale_of(rest, 2.0)
    threshold = stability_threshold(share, query_scale=scale, threshold_scale=scale, bound=bound)
    return Shares(mechanism_epsilon, mechanism_delta, rest, share, threshold, scale)


def _domain(h: Histogram, k_bar: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Return k_bar counts, descending, made-up ones among them; the items; the next count."""
    counts, items, next_count = h.cut(k_bar)
    if counts.size < k_bar:
        shown = np.zeros(k_bar, np.int64)
        shown[: counts.size] = counts
        return shown, items, next_count
    return counts, items, next_count
