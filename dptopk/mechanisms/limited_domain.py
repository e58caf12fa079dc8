"""Top-k from a limited domain: Algorithm 1 of Durfee and Rogers 2019."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any, overload

import numpy as np

from dptopk._counts import Head
from dptopk._types import KBar, Method
from dptopk._validate import integer, probability
from dptopk.domain import default_k_bar, k_bar_of, movable, private_limit
from dptopk.histogram import Counts, Histogram, Histograms, as_histogram
from dptopk.mechanisms._calibrate import calibrate, composition, cost_of_steps, scale_of, share_of
from dptopk.mechanisms._plan import Plan, Steps, outcomes_of, steps_by_group
from dptopk.mechanisms._race import Race, plan_race
from dptopk.mechanisms._select import select
from dptopk.release import Cost, Release
from dptopk.releases import Releases
from dptopk.rng import Rng
from dptopk.rounding import padded

__all__ = ["limited_domain", "plan_limited_domain", "steps_limited_domain"]

THEOREM = "Durfee and Rogers 2019, Theorem 1"


@overload
def limited_domain(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float,
    k_bar: KBar = None,
    max_items_per_user: int | None = None,
    method: Method = "best",
    rng: Rng | None = None,
) -> Release: ...


@overload
def limited_domain(
    counts: Counts,
    *,
    k: int,
    delta: float,
    k_bar: KBar = None,
    max_items_per_user: int | None = None,
    epsilon_step: float,
    method: Method = "best",
    rng: Rng | None = None,
) -> Release: ...


@overload
def limited_domain(
    counts: Histograms,
    *,
    k: int,
    epsilon: float | None = None,
    delta: float,
    k_bar: KBar = None,
    max_items_per_user: int | None = None,
    epsilon_step: float | None = None,
    method: Method = "best",
    rng: Rng | None = None,
) -> Releases: ...


def limited_domain(
    counts: Counts | Histograms,
    *,
    k: int,
    epsilon: float | None = None,
    delta: float,
    k_bar: KBar = None,
    max_items_per_user: int | None = None,
    epsilon_step: float | None = None,
    method: Method = "best",
    rng: Rng | None = None,
) -> Release | Releases:
    """Pick up to k of the k_bar most frequent items; the domain may be unknown.

    Adds Gumbel noise to the k_bar largest counts and to a threshold
    h_bot = h_(k_bar+1) + 1 + ln(2 m / delta) / epsilon_step, and returns the
    items that come before the threshold, at most k.

    Parameters
    ----------
    counts : Histogram, Histograms or array of integers, shape (d,)
        Users per item, full or truncated, of a known or an unknown domain.
    k : int
        How many items to pick at most.
    epsilon : float
        The total the release costs.
    delta : float
        The total delta, > 0: half of it for the threshold, half for the
        composition of the steps.
    k_bar : int or "private", optional
        How many of the largest counts take part, k <= k_bar. By default
        max(10 k, 1000), or where the histogram was truncated.
        "private": it is chosen from the data, up to ``private_limit(k)`` or
        where the histogram was truncated. That takes one step more, which makes
        every step a little noisier.
    max_items_per_user : int, optional
        A bound on the items one user has, known beforehand; lowers the
        threshold. By default the histogram's own bound, which it may not be
        below.
    epsilon_step : float
        In place of `epsilon`: the epsilon of each step; the cost follows.
    method : str, default "best"
        How the steps are composed; see `dptopk.accounting.total_epsilon`.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release, or Releases for Histograms
        Items best first; ``complete`` is False if BOT came before k items.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP when one user, who may touch any number
    of items once each, is added or removed: Theorem 1, with the composition
    named in ``cost.theorem``. Here m = min(max_items_per_user, k_bar, and for
    a known domain the number of items outside the top k_bar). Items missing
    from the top k_bar+1 count 0. Ties go by item order.

    Examples
    --------
    >>> import dptopk as dp
    >>> h = dp.Histogram.truncated([9000, 8000, 4], ["ant", "bee", "cat"], next_count=2, k_bar=3)
    >>> r = dp.limited_domain(h, k=3, epsilon=1.0, delta=1e-6)
    >>> r.labels, r.complete
    (('ant', 'bee'), False)
    """
    plan = plan_limited_domain(
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        k_bar=k_bar,
        max_items_per_user=max_items_per_user,
        epsilon_step=epsilon_step,
        method=method,
    )
    return plan.draw(rng)


def plan_limited_domain(
    counts: Counts | Histograms,
    *,
    k: int,
    epsilon: float | None = None,
    delta: float,
    k_bar: KBar = None,
    max_items_per_user: int | None = None,
    epsilon_step: float | None = None,
    method: Method = "best",
) -> Plan:
    """Check a call of `limited_domain`; arguments as there."""
    delta = probability("delta", delta, zero=False)
    steps = steps_limited_domain(counts, k=k, k_bar=k_bar, max_items_per_user=max_items_per_user)
    most, share = steps.most, delta / 2
    if 2 * share != delta:
        raise ValueError(f"delta is too small to share, got {delta}")
    total, step = calibrate(epsilon, epsilon_step, steps=most, delta=share, method=method)
    cost = cost_of_steps(total, delta, THEOREM, composition(method, step, most, share))
    return steps.at(step, share_of(share, steps.thresholds, "delta"), cost)


@steps_by_group
def steps_limited_domain(
    counts: Counts,
    *,
    k: int,
    k_bar: KBar = None,
    max_items_per_user: int | None = None,
) -> Steps:
    """Check everything about a call but its budget; arguments as in `limited_domain`."""
    k = integer("k", k)
    h = as_histogram(counts)
    bound = h.bound_of_user(max_items_per_user)
    largest = _largest_k_bar(h, k, k_bar)
    candidates = np.arange(k, largest + 1) if isinstance(k_bar, str) else None
    cut = h.cut(largest)  # before the first draw: a bad count is an error

    def at(step: float, delta: float, cost: Cost) -> Plan:
        scale = scale_of(step)

        def among(chosen: int) -> Plan:
            release = partial(
                Release,
                ordered=True,
                cost=cost,
                mechanism="limited_domain",
                by_counts=True,
                parameters={
                    "k": k,
                    "k_bar": chosen,
                    "k_bar_chosen_privately": candidates is not None,
                    "max_items_per_user": bound,
                    "epsilon_step": step,
                    "scale": scale,
                    "delta_threshold": delta,
                },
            )
            lift = threshold(h, chosen, bound, delta)
            race = Race(k, scale, release, k_bar=chosen, lift=lift)
            return plan_race(race, h, cost, cut if chosen == largest else None)

        if candidates is None:
            return among(largest)

        def draw(rng: Rng | None) -> Release:
            return among(_private_k_bar(h, candidates, bound, delta, scale, rng)).draw(rng)

        return Plan(cost, draw)

    if candidates is None:
        return Steps(h, k, 1, at, outcomes_of)
    # Which k_bar was chosen is a step too, whatever comes out.
    return Steps(h, k + 1, 1, at, lambda release: release.outcomes + 1)


def _largest_k_bar(h: Histogram, k: int, k_bar: Any) -> int:
    """Return the k_bar to use, or the largest there is to choose from."""
    if not isinstance(k_bar, str):
        return k_bar_of(k, k_bar, default=default_k_bar(k), limit=h.k_bar)
    if k_bar != "private":
        raise ValueError('k_bar must be an integer, "private" or None')
    largest = private_limit(k) if h.k_bar is None else h.k_bar
    return k_bar_of(k, None, default=largest, limit=h.k_bar)


def threshold(h: Histogram, k_bar: int, max_items_per_user: int | None, delta: float) -> float:
    """Return ln(m / delta), in units of the noise scale, rounded against us."""
    m = movable(k_bar, n_items=h.n_items, max_items_per_user=max_items_per_user)
    return _lift(m, delta)


@lru_cache(maxsize=4096)
def _lift(m: int, delta: float) -> float:
    log = math.log(m) - math.log(delta)
    return padded(log, log + 1.0)


def _private_k_bar(
    h: Histogram,
    candidates: np.ndarray,
    max_items_per_user: int | None,
    delta: float,
    scale: float,
    rng: Any,
) -> int:
    """Choose k_bar among k, k+1, ... by the exponential mechanism on -h_bot.

    The score -(h_(k_bar+1) + scale ln(m / delta)) moves one way with a user,
    by at most 1: one more bounded-range step of the same scale.
    """
    k = int(candidates[0])
    counts, _, next_count = h.cut(int(candidates[-1]))
    scores = np.zeros(candidates.size, np.int64)  # missing counts are 0
    scores[: max(0, counts.size - k)] = -counts[k:]
    scores[-1] = -next_count
    m = candidates
    if max_items_per_user is not None:
        m = np.minimum(m, max_items_per_user)
    if h.n_items is not None:
        m = np.minimum(m, np.maximum(1, h.n_items - candidates))
    # Any constants that don't depend on the data would do: no rounding to mind.
    offsets = np.log(delta) - np.log(m)
    head = Head(scores, candidates, None, False)
    return int(select(head, k=1, scale=scale, offsets=offsets, rng=rng)[0][0])
