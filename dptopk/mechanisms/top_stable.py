"""Top Stable: the top i items as a set, if a gap shows that no user decides who they are."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dptopk._counts import Head
from dptopk._types import Bound
from dptopk._validate import choice, integer, nonnegative, positive, probability
from dptopk.accounting.stability import BOUNDS, release_threshold, stability_threshold
from dptopk.domain import k_bar_of
from dptopk.histogram import Counts, Histogram, as_histogram
from dptopk.mechanisms._calibrate import scale_of, share_of
from dptopk.mechanisms._plan import Plan, for_groups, plans_by_group
from dptopk.mechanisms._select import select
from dptopk.mechanisms._threshold import scales, threshold_tests
from dptopk.release import Cost, Release
from dptopk.rng import Rng
from dptopk.rounding import difference_down

__all__ = ["plan_top_stable", "top_stable"]

THEOREM = "Carvalho, Wang, Gondara and Miao 2020, Theorem 3.2"
RANGE = "Zhu and Wang 2022, a size chosen by its gap, and A_stab"
SPLIT = 0.37  # of a single k
MISS = 0.05  # how often the choice or the test of a size may fail at the gap that `balance` wants


@for_groups
def top_stable(
    counts: Counts,
    *,
    k: int | tuple[int, int],
    epsilon: float,
    delta: float,
    k_bar: int | None = None,
    split: float | None = None,
    epsilon_select: float = 0.0,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Release:
    """Release the most frequent items as a set, if a large gap follows them.

    Starts at i = k_bar and goes down to 1. At each i it tests the gap between the
    counts at places i and i + 1 against one noisy threshold. At the first gap that
    passes it releases the top i, or k of them if i > k; if none passes, nothing.
    epsilon does not grow with k; the domain may be unknown.

    With k = (lo, hi) the data choose k: a size from lo to hi, the likelier the
    larger the gap after it. The top so many come out if one test of that gap
    passes, and nothing if not.

    Parameters
    ----------
    counts : Histogram, Histograms or array of integers, shape (d,)
        Users per item, full or truncated, of a known or an unknown domain.
    k : int or (int, int)
        How many items to release at most; or the least and the largest size to
        choose from.
    epsilon : float
        The total the release costs, `epsilon_select` included.
    delta : float
        The total delta, > 0.
    k_bar : int, optional
        The largest set that is tested, k <= k_bar. By default k, or where the
        histogram was truncated if that is less. Only with a single k.
    split : float, optional
        The share of epsilon, in (0, 1), that goes to the threshold (less
        `epsilon_select`; 0.37 by default), or with a range of k to the choice of
        the size: by default such that choice and test need the same gap. If
        there is one size, all goes to the test.
    epsilon_select : float, default 0
        The part of `epsilon` by which k of a stable set of more than k items
        are picked: a k-fold exponential mechanism over that set. 0: any k of
        them, all sets of k being equally likely. Only with a single k.
    bound : {"exact", "paper"}
        How the threshold follows from delta: from the exact chance that a gap
        of 1 passes, or from the larger bound of the paper's Lemma 3.1; with a
        range of k, of Thakurta and Smith 2013.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release, or Releases for Histograms
        A set of up to k items, unordered: in item order if the domain is known,
        and in an order drawn at random if the items were read off the data,
        where their order may be that of the counts. ``complete`` is False if
        there are fewer than k, or than lo.

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

    With k = (lo, hi), (epsilon, delta)-DP by ``docs/proofs/top_stable.md``. Now p is
    the share of the choice: it is an exponential mechanism with weight
    exp(e1 gap / 2), as a user moves a gap by 1 up or down. Its gap less 1, with
    Laplace noise of scale 1/e2, must exceed ln(1 / (2 delta)) / e2.

    Items missing from the top k_bar+1 count 0; ties go by item order. Of a
    known domain of d <= k_bar items the first set tested is all of them, which
    is good for k = d, or with `epsilon_select`.

    Sources: Carvalho, Wang, Gondara and Miao 2020, Algorithm 3; proof in
    `dptopk.reference.top_stable`. For a range of k, Zhu and Wang 2022. When to expect an answer:
    `dptopk.utility.top_stable_gap`.

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.top_stable([3, 900, 700, 5, 2], k=3, epsilon=1.0, delta=1e-6)
    <Release of 2 by top_stable: [1, 2], unordered, stopped by BOT; epsilon=1, delta=1e-06>
    >>> dp.top_stable([3, 900, 700, 5, 2], k=(1, 4), epsilon=1.0, delta=1e-6)
    <Release of 2 by top_stable: [1, 2], unordered; epsilon=1, delta=1e-06>
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


@plans_by_group
def plan_top_stable(
    counts: Counts,
    *,
    k: int | tuple[int, int],
    epsilon: float,
    delta: float,
    k_bar: int | None = None,
    split: float | None = None,
    epsilon_select: float = 0.0,
    bound: Bound = "exact",
    groups: int = 1,
) -> Plan:
    """Check a call of `top_stable`; arguments as there."""
    sizes = _sizes(k)
    epsilon = positive("epsilon", epsilon)
    delta = probability("delta", delta, zero=False)
    if split is not None:
        split = probability("split", split, zero=False)
    epsilon_select = nonnegative("epsilon_select", epsilon_select)
    bound = choice("bound", bound, BOUNDS)
    if epsilon_select >= epsilon:
        raise ValueError(f"epsilon_select must be less than epsilon, got {epsilon_select}")
    h = as_histogram(counts)
    each, delta_each = share_of(epsilon, groups, "epsilon"), share_of(delta, groups, "delta")
    if isinstance(sizes, tuple):
        for name, given in (("k_bar", k_bar is not None), ("epsilon_select", epsilon_select > 0)):
            if given:
                raise ValueError(f"{name} goes with a single k, not with a range")
        plan = _plan_of_range(h, sizes, epsilon=each, delta=delta_each, split=split, bound=bound)
        return plan._replace(cost=Cost(epsilon, delta, RANGE))
    k, split = sizes, SPLIT if split is None else split
    k_bar = k_bar_of(k, k_bar, default=k, limit=h.k_bar)
    select_each = share_of(epsilon_select, groups, "epsilon_select")
    noise = calibrated(k, each, delta_each, k_bar, split, select_each, bound, h.n_items)
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
        top, safe = _in_no_order(h, top, k=k, rng=rng)
        return Release(
            indices=top if h.known_domain else None,
            labels=h.labels_of(top),
            ordered=False,
            complete=top.size == k,
            cost=cost,
            mechanism="top_stable",
            by_counts=True,
            private=private and safe,
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


def _sizes(k: Any) -> int | tuple[int, int]:
    """Return k, or the least and the largest size of a range."""
    if not isinstance(k, (tuple, list)):
        return integer("k", k)
    if len(k) != 2:
        raise ValueError(f"k must be an integer or a pair (lo, hi), got {len(k)} numbers")
    low, high = (integer(f"k[{i}]", size) for i, size in enumerate(k))
    if low > high:
        raise ValueError(f"k must be a pair (lo, hi) with lo <= hi, got ({low}, {high})")
    return low, high


def _in_no_order(
    h: Histogram, top: np.ndarray, *, k: int, rng: Rng | None
) -> tuple[np.ndarray, bool]:
    """Return k items in an order that tells nothing of their counts, and whether privately drawn.

    Any k, if there are more: equal scores.
    """
    private = True
    if top.size > k or (top.size > 1 and not h.known_domain):
        head = Head(np.zeros(top.size, np.int64), top, None, False)
        top, private = select(head, k=min(k, top.size), scale=1.0, rng=rng)
    return (np.sort(top) if h.known_domain else top), private


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


# ---- k from the data


def _plan_of_range(
    h: Histogram,
    sizes: tuple[int, int],
    *,
    epsilon: float,
    delta: float,
    split: float | None,
    bound: Bound,
) -> Plan:
    low, high = sizes
    k_bar = k_bar_of(high, None, default=high, limit=h.k_bar)
    n_items = h.n_items
    if n_items is not None and low > n_items:
        raise ValueError(f"k must begin at no more than the number of items, {n_items}; got {low}")
    places = k_bar if n_items is None else min(k_bar, n_items)
    noise = calibrated_range(places - low + 1, epsilon, delta, split, bound)
    _, items, distances = _gaps(h, places, k_bar)
    distances = distances[low - 1 :]  # by size less low
    order = np.argsort(-distances, kind="stable")
    head = Head(distances[order], order, None, False)
    cost = Cost(epsilon, delta, RANGE)

    def draw(rng: Rng | None) -> Release:
        chosen, private = 0, True
        if noise.choice_scale is not None:
            picks, private = select(head, k=1, scale=noise.choice_scale, rng=rng)
            chosen = int(picks[0])
        passed, safe = threshold_tests(
            distances[chosen : chosen + 1],
            threshold=noise.threshold,
            threshold_scale=0.0,
            query_scale=noise.query_scale,
            rng=rng,
        )
        top = items[: low + chosen] if passed[0] else items[:0]
        top, drawn = _in_no_order(h, top, k=high, rng=rng)
        return Release(
            indices=top if h.known_domain else None,
            labels=h.labels_of(top),
            ordered=False,
            complete=top.size >= low,
            cost=cost,
            mechanism="top_stable",
            by_counts=True,
            private=private and safe and drawn,
            parameters={
                "k": high,
                "k_min": low,
                "k_bar": k_bar,
                "split": noise.split,
                "bound": bound,
                "threshold": noise.threshold,
                "query_scale": noise.query_scale,
                "choice_scale": noise.choice_scale,
            },
        )

    return Plan(cost, draw)


class RangeNoise(NamedTuple):
    """The share of the choice, its scale (None if there is no choice), and the test."""

    split: float
    choice_scale: float | None
    threshold: float
    query_scale: float


@lru_cache(maxsize=4096)
def calibrated_range(
    sizes: int, epsilon: float, delta: float, split: float | None, bound: str
) -> RangeNoise:
    """Return what the budget affords for so many sizes, rounded against us."""
    share, choice_scale, rest = 0.0, None, epsilon
    if sizes > 1:
        share = balance(sizes, delta) if split is None else split
        first = share * epsilon
        rest = difference_down(epsilon, first)
        if not (first > 0.0 and rest > 0.0):
            raise ValueError("epsilon is too small to split")
        choice_scale = scale_of(first, 2.0)  # a gap moves by 1 up or down
    query_scale = scale_of(rest)
    threshold = release_threshold(delta, query_scale, bound)
    return RangeNoise(share, choice_scale, threshold, query_scale)


def balance(sizes: int, delta: float) -> float:
    """Return the share of the choice with which choice and test need the same gap.

    Where one gap stands out by G, it is chosen but with chance `MISS` if
    G = 2 ln(sizes / MISS) / e1, and passes likewise if
    G = (ln(1 / (2 delta)) + ln(1 / (2 MISS))) / e2, the 1 left aside. All of it is public.
    """
    choosing = 2.0 * math.log(sizes / MISS)
    testing = max(0.0, -math.log(2.0 * delta)) - math.log(2.0 * MISS)
    return choosing / (choosing + testing)
