"""Permute-and-flip, k times: pure DP picks with the least noise."""

from __future__ import annotations

import math
from typing import Any, overload

from dptopk._types import PureMethod
from dptopk._validate import choice, integer, positive, probability
from dptopk.accounting import METHODS
from dptopk.histogram import Counts, Histograms
from dptopk.mechanisms._calibrate import PURE, calibrate, composition, scale_of
from dptopk.mechanisms._plan import Plan, plans_by_group
from dptopk.mechanisms._select import scores_over, select
from dptopk.release import Cost, Release
from dptopk.releases import Releases
from dptopk.rng import Rng

__all__ = ["permute_and_flip", "plan_permute_and_flip"]

THEOREM = "permute-and-flip, McKenna and Sheldon 2020"


@overload
def permute_and_flip(
    counts: Counts,
    *,
    k: int = 1,
    epsilon: float,
    delta: float = 0.0,
    largest: bool = True,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    method: PureMethod = "optimal",
    rng: Rng | None = None,
) -> Release: ...


@overload
def permute_and_flip(
    counts: Counts,
    *,
    k: int = 1,
    delta: float = 0.0,
    epsilon_step: float,
    largest: bool = True,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    method: PureMethod = "optimal",
    rng: Rng | None = None,
) -> Release: ...


@overload
def permute_and_flip(
    counts: Histograms,
    *,
    k: int = 1,
    epsilon: float | None = None,
    delta: float = 0.0,
    epsilon_step: float | None = None,
    largest: bool = True,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    method: PureMethod = "optimal",
    rng: Rng | None = None,
) -> Releases: ...


def permute_and_flip(
    counts: Counts | Histograms,
    *,
    k: int = 1,
    epsilon: float | None = None,
    delta: float = 0.0,
    epsilon_step: float | None = None,
    largest: bool = True,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    method: PureMethod = "optimal",
    rng: Rng | None = None,
) -> Release | Releases:
    """Pick k items over the full domain, each by permute-and-flip among those left.

    Permute-and-flip visits the items in random order and takes the first whose
    coin, heads with probability exp((score - largest score) / scale), shows
    heads. That is the law of the largest of score + exponential noise, which
    is how it is drawn here; each pick has noise of its own.

    Parameters
    ----------
    counts : Histogram, Histograms or array, shape (d,)
        Users per item over a known domain; items that a truncated histogram
        left out count what the next one does. An array of floats holds scores,
        and so does one of integers with ``monotone=False``: of any sign.
    k : int, default 1
        How many items to pick, 1 <= k <= d.
    epsilon : float
        The total the release costs.
    delta : float, default 0
        The total delta; the composition of the k picks spends it. 0 is pure DP.
    epsilon_step : float
        In place of `epsilon`: the epsilon of each pick; the cost follows.
    largest : bool, default True
        False for the items with the least scores.
    sensitivity : float, default 1
        How far one user can move a score.
    monotone : bool, optional
        Whether a user moves all scores one way; otherwise the noise is
        doubled. By default counts do, and scores do not.
    method : {"optimal", "basic", "advanced"}
        How the picks are composed; see `dptopk.accounting.total_epsilon`. The
        methods that need bounded-range steps are refused: a pick is
        epsilon_step-DP, and not bounded-range.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release, or Releases for Histograms
        k items, in the order of the picks.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.
    UnknownDomainError
        If the items were read off the data.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP when one user, who moves every score by
    at most `sensitivity`, is added or removed: each pick is epsilon_step-DP
    (McKenna and Sheldon 2020; scale sensitivity / epsilon_step if `monotone`,
    else twice that), and the picks are composed as named in ``cost.theorem``.

    At delta = 0 a pick scores at least as high, on average, as one of `peel`
    among the same items. With delta > 0 the steps of `peel` compose better.

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.permute_and_flip([3, 900, 700, 5], k=2, epsilon=2.0).indices
    array([1, 2])
    """
    plan = plan_permute_and_flip(
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        epsilon_step=epsilon_step,
        largest=largest,
        sensitivity=sensitivity,
        monotone=monotone,
        method=method,
    )
    return plan.draw(rng)


@plans_by_group
def plan_permute_and_flip(
    counts: Counts,
    *,
    k: int = 1,
    epsilon: float | None = None,
    delta: float = 0.0,
    epsilon_step: float | None = None,
    largest: bool = True,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    method: PureMethod = "optimal",
    groups: int = 1,
) -> Plan:
    """Check a call of `permute_and_flip`; arguments as there."""
    k = integer("k", k)
    delta = probability("delta", delta, zero=True)
    method = _pure(method)
    sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
    scores = scores_over(counts, "permute_and_flip", monotone=monotone, k=k, largest=largest)
    steps = k * groups
    total, step = calibrate(epsilon, epsilon_step, steps=steps, delta=delta, method=method)
    scale = scale_of(step, sensitivity * (1.0 if scores.monotone else 2.0))
    head = scores.head(k=k, scale=scale)
    cost = Cost(total, delta, f"{THEOREM}; {composition(method, step, steps, delta, 'pure DP')}")

    def draw(rng: Rng | None) -> Release:
        picks, private = select(head, k=k, scale=scale, noise="exponential", fresh=True, rng=rng)
        picks = scores.items_of(picks)
        return Release(
            indices=picks,
            labels=scores.labels_of(picks),
            ordered=True,
            complete=True,
            cost=cost,
            mechanism="permute_and_flip",
            by_counts=scores.monotone and sensitivity <= 1.0,
            private=private,
            parameters={
                "k": k,
                "largest": bool(largest),
                "epsilon_step": step,
                "scale": scale,
                "sensitivity": sensitivity,
                "monotone": scores.monotone,
                "n_items": scores.n_items,
            },
        )

    return Plan(cost, draw)


def _pure(method: Any) -> Any:
    """Return a method that composes any pure DP steps."""
    if isinstance(method, str) and method in METHODS and method not in PURE:
        raise ValueError(
            f"method must be one of {', '.join(PURE)}, got {method!r}: it needs bounded-range "
            "steps, and a pick of permute-and-flip is epsilon_step-DP but not bounded-range"
        )
    return choice("method", method, PURE)
