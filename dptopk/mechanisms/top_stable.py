"""Top Stable: the top i items as a set, if a gap shows that no user decides who they are."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dptopk._counts import Head
from dptopk._types import Bound
from dptopk._validate import choice, integer, nonnegative, positive, probability
from dptopk.accounting.stability import BOUNDS, stability_threshold
from dptopk.domain import k_bar_of
from dptopk.histogram import Counts, Histogram, as_histogram
from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms._plan import Plan
from dptopk.mechanisms._select import select
from dptopk.mechanisms._threshold import scales, threshold_tests
from dptopk.release import Cost, Release
from dptopk.rng import Rng
from dptopk.rounding import difference_down

__all__ = ["plan_top_stable", "top_stable"]

THEOREM = "Carvalho, Wang, Gondara and Miao 2020, Theorem 3.2"


def top_stable(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float,
    k_bar: int | None = None,
    split: float = 0.37,
    epsilon_select: float = 0.0,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Release:
    """Release the most frequent items as a set, if a large gap follows them.

    Starts at i = k_bar and goes down to 1. At each i it tests the gap between the
    counts at places i and i + 1 against one noisy threshold. At the first gap that
    passes it releases the top i, or k of them if i > k; if none passes, nothing.
    epsilon does not grow with k; the domain may be unknown.

    Parameters
    ----------
    counts : Histogram or array of integers, shape (d,)
        Users per item, full or truncated, of a known or an unknown domain.
    k : int
        How many items to release at most.
    epsilon : float
        The total the release costs, `epsilon_select` included.
    delta : float
        The total delta, > 0.
    k_bar : int, optional
        The largest set that is tested, k <= k_bar. By default k, or where the
        histogram was truncated if that is less.
    split : float, default 0.37
        The share of epsilon (less `epsilon_select`) that goes to the threshold,
        in (0, 1).
    epsilon_select : float, default 0
        The part of `epsilon` by which k of a stable set of more than k items
        are picked: a k-fold exponential mechanism over that set. 0: any k of
        them, all sets of k being equally likely.
    bound : {"exact", "paper"}
        How the threshold follows from delta: from the exact chance that a gap
        of 1 passes, or from the larger bound of the paper's Lemma 3.1.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release
        A set of up to k items, unordered: in item order if the domain is known,
        and in an order drawn at random if the items were read off the data,
        where their order may be that of the counts. ``complete`` is False if
        there are fewer than k.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP when one user, who may touch any number
    of items once each, is added or removed: Theorem 3.2. With p the split, e1
    = p e and e2 = (1 - p) e of e = epsilon - epsilon_select, the noises are
    Laplace of scale 1/e1 on the threshold and 2/e2 on each gap less 1, and the
    threshold is (2/e2) ln(1/delta_q) with the largest delta_q such that a gap
    of 1 passes with chance delta / m at most; m is k_bar, or if less (and
    ``bound="exact"``) one less than the items of a known domain. A stable set of
    more than k items reveals nothing but the k that come out.

    Items missing from the top k_bar+1 count 0; ties go by item order. Of a
    known domain of d <= k_bar items the first set tested is all of them, which
    is good for k = d, or with `epsilon_select`.

    Source: Carvalho, Wang, Gondara and Miao 2020, Algorithm 3; proof in
    `dptopk.reference.top_stable`. When to expect an answer:
    `dptopk.utility.top_stable_gap`.

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.top_stable([3, 900, 700, 5, 2], k=3, epsilon=1.0, delta=1e-6)
    <Release of 2 by top_stable: [1, 2], unordered, stopped by BOT; epsilon=1, delta=1e-06>
    """
    plan = plan_top_stable(
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        k_bar=k_bar,
        split=split,
        epsilon_select=epsilon_select,
        bound=bound,
    )
    return plan.draw(rng)


def plan_top_stable(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float,
    k_bar: int | None = None,
    split: float = 0.37,
    epsilon_select: float = 0.0,
    bound: Bound = "exact",
) -> Plan:
    """Check a call of `top_stable`; arguments as there."""
    k = integer("k", k)
    epsilon = positive("epsilon", epsilon)
    delta = probability("delta", delta, zero=False)
    split = probability("split", split, zero=False)
    epsilon_select = nonnegative("epsilon_select", epsilon_select)
    bound = choice("bound", bound, BOUNDS)
    if epsilon_select >= epsilon:
        raise ValueError(f"epsilon_select must be less than epsilon, got {epsilon_select}")
    h = as_histogram(counts)
    k_bar = k_bar_of(k, k_bar, default=k, limit=h.k_bar)
    noise = calibrated(k, epsilon, delta, k_bar, split, epsilon_select, bound, h.n_items)
    top_counts, items, gaps = _gaps(h, noise.places, k_bar)
    cost = Cost(epsilon, delta, THEOREM)

    def draw(rng: Rng | None) -> Release:
        passed, private = threshold_tests(
            gaps[::-1].copy(),  # from the last place down
            threshold=noise.threshold,
            threshold_scale=noise.threshold_scale,
            query_scale=noise.query_scale,
            rng=rng,
        )
        place = noise.places - passed.size + 1 if passed[-1] else 0
        top = items[:place]
        if top.size > k and noise.select_scale is not None:
            head = Head(top_counts[:place], top, None, False)
            top, safe = select(head, k=k, scale=noise.select_scale, rng=rng)
            private = private and safe
        if h.known_domain and top.size <= k:
            top = np.sort(top)
        elif top.size > 1:
            # Equal scores: any k of them, in any order.
            head = Head(np.zeros(top.size, np.int64), top, None, False)
            top, safe = select(head, k=min(k, top.size), scale=1.0, rng=rng)
            private = private and safe
            if h.known_domain:
                top = np.sort(top)
        return Release(
            indices=top if h.known_domain else None,
            labels=h.labels_of(top),
            ordered=False,
            complete=top.size == k,
            cost=cost,
            mechanism="top_stable",
            by_counts=True,
            private=private,
            parameters={
                "k": k,
                "k_bar": k_bar,
                "split": split,
                "epsilon_select": epsilon_select,
                "bound": bound,
                "threshold": noise.threshold,
                "threshold_scale": noise.threshold_scale,
                "query_scale": noise.query_scale,
                "select_scale": noise.select_scale,
            },
        )

    return Plan(cost, draw)


class Noise(NamedTuple):
    """Where the tests begin, and how noisy they are."""

    places: int
    threshold: float
    threshold_scale: float
    query_scale: float
    select_scale: float | None


@lru_cache(maxsize=4096)
def calibrated(
    k: int,
    epsilon: float,
    delta: float,
    k_bar: int,
    split: float,
    epsilon_select: float,
    bound: str,
    n_items: int | None,
) -> Noise:
    """Return what the budget affords, rounded against us."""
    rest = difference_down(epsilon, epsilon_select)
    first = scales(rest, hits=1, monotone=False, split=split)
    # At the last place of a known domain the set is always the same.
    moves = k_bar if n_items is None or bound == "paper" else max(1, min(k_bar, n_items - 1))
    threshold = stability_threshold(
        delta, query_scale=first.query, threshold_scale=first.threshold, tests=moves, bound=bound
    )
    return Noise(
        k_bar if n_items is None else min(k_bar, n_items),
        threshold,
        first.threshold,
        first.query,
        scale_of(epsilon_select, float(k)) if epsilon_select else None,
    )


def _gaps(h: Histogram, places: int, k_bar: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the counts and items at the places, and the gap after each place, less 1."""
    top_counts, items, next_count = h.cut(k_bar)
    steps = np.zeros(places + 1, np.int64)  # missing counts are 0
    steps[: top_counts.size] = top_counts
    if top_counts.size == places:
        steps[-1] = next_count
    return top_counts, items, steps[:-1] - steps[1:] - 1
