"""Top-k from a limited domain with Laplace noise, for users of few items."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any, overload

import numpy as np

from dptopk._counts import Head
from dptopk._validate import boolean, integer, probability
from dptopk.discrete import add_noise
from dptopk.domain import default_k_bar, k_bar_of, movable
from dptopk.histogram import Counts, Histograms, as_histogram
from dptopk.mechanisms._calibrate import calibrate, scale_of, share_of
from dptopk.mechanisms._plan import Plan, plans_by_group
from dptopk.mechanisms._race import Race, plan_race
from dptopk.mechanisms._select import select
from dptopk.release import Cost, CountsNoise, Release
from dptopk.releases import Releases
from dptopk.rng import Rng
from dptopk.rounding import padded

__all__ = [
    "integer_threshold",
    "limited_domain_laplace",
    "plan_limited_domain_laplace",
    "steps",
    "threshold",
]

THEOREM = "Durfee and Rogers 2019, limited domain with Laplace noise, in its tighter form"


@overload
def limited_domain_laplace(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float,
    k_bar: int | None = None,
    max_items_per_user: int | None = None,
    release_counts: bool = False,
    rng: Rng | None = None,
) -> Release: ...


@overload
def limited_domain_laplace(
    counts: Counts,
    *,
    k: int,
    delta: float,
    k_bar: int | None = None,
    max_items_per_user: int | None = None,
    epsilon_step: float,
    release_counts: bool = False,
    rng: Rng | None = None,
) -> Release: ...


@overload
def limited_domain_laplace(
    counts: Histograms,
    *,
    k: int,
    epsilon: float | None = None,
    delta: float,
    k_bar: int | None = None,
    max_items_per_user: int | None = None,
    epsilon_step: float | None = None,
    release_counts: bool = False,
    rng: Rng | None = None,
) -> Releases: ...


def limited_domain_laplace(
    counts: Counts | Histograms,
    *,
    k: int,
    epsilon: float | None = None,
    delta: float,
    k_bar: int | None = None,
    max_items_per_user: int | None = None,
    epsilon_step: float | None = None,
    release_counts: bool = False,
    rng: Rng | None = None,
) -> Release | Releases:
    """Pick up to k of the k_bar most frequent items, where a user has few items.

    Adds Laplace noise to the k_bar largest counts and to a threshold above
    h_(k_bar+1) + 1, and returns the items that come before the threshold, at
    most k. The cost grows with the items a user may have, and not with k.

    Parameters
    ----------
    counts : Histogram, Histograms or array of integers, shape (d,)
        Users per item, full or truncated, of a known or an unknown domain.
    k : int
        How many items to pick at most.
    epsilon : float
        The total the release costs.
    delta : float
        The total delta, > 0: all of it for the threshold.
    k_bar : int, optional
        How many of the largest counts take part, k <= k_bar. By default
        max(10 k, 1000), or where the histogram was truncated.
    max_items_per_user : int
        A bound on the items one user has, known beforehand. May be left out
        if the histogram has one, which it may not be below.
    epsilon_step : float
        In place of `epsilon`: the inverse of the noise scale; the cost follows.
    release_counts : bool, default False
        Whether the noisy counts of the items come out too. Noise and
        threshold are integers then.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release, or Releases for Histograms
        Items best first; ``complete`` is False if BOT came before k items.
        ``counts`` has their noisy counts, if released, in users.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or nothing bounds
        the items of a user.
    RandomnessError
        If there is no secure source of random bits.

    See Also
    --------
    limited_domain : Gumbel noise; no bound on a user needed.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP when one user, who touches at most
    max_items_per_user items once each, is added or removed. The noise scale is
    1 / epsilon_step; epsilon = epsilon_step min(max_items_per_user, k,
    floor((k_bar + 1) / 2)), and with counts released epsilon_step
    min(max_items_per_user, k_bar + 1). The threshold is the least that has
    m P(X - Y > threshold) <= delta for two noises X, Y, with
    m = min(max_items_per_user, k_bar, and for a known domain the number of
    items outside the top k_bar). Durfee and Rogers (2019) introduce the
    mechanism; `dptopk.reference.limited_domain_laplace` proves these costs,
    which are below the printed (max_items_per_user + 1) epsilon_step. Items
    missing from the top k_bar+1 count 0. Equal noisy counts stand in random
    order.

    The noisy counts that come out are the largest ones, so on average they are too
    high; the intervals of `Release.intervals` are wider to allow for that.
    `noisy_counts` costs more, and its noise had no part in the choice.

    Examples
    --------
    >>> import dptopk as dp
    >>> h = dp.Histogram.truncated([9000, 8000, 40], ["ant", "bee", "cat"], next_count=2, k_bar=3,
    ...                            max_items_per_user=1)
    >>> r = dp.limited_domain_laplace(h, k=3, epsilon=1.0, delta=1e-6)
    >>> r.labels, r.complete
    (('ant', 'bee', 'cat'), True)
    >>> r = dp.limited_domain_laplace(h, k=2, epsilon=1.0, delta=1e-6, release_counts=True)
    >>> r.labels, bool(abs(r.counts[0] - 9000) < 100)
    (('ant', 'bee'), True)
    """
    plan = plan_limited_domain_laplace(
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        k_bar=k_bar,
        max_items_per_user=max_items_per_user,
        epsilon_step=epsilon_step,
        release_counts=release_counts,
    )
    return plan.draw(rng)


@plans_by_group
def plan_limited_domain_laplace(
    counts: Counts,
    *,
    k: int,
    epsilon: float | None = None,
    delta: float,
    k_bar: int | None = None,
    max_items_per_user: int | None = None,
    epsilon_step: float | None = None,
    release_counts: bool = False,
    groups: int = 1,
) -> Plan:
    """Check a call of `limited_domain_laplace`; arguments as there."""
    k = integer("k", k)
    delta = probability("delta", delta, zero=False)
    release_counts = boolean("release_counts", release_counts)
    h = as_histogram(counts)
    user = h.bound_of_user(max_items_per_user)
    if user is None:
        raise TypeError(
            "max_items_per_user must be given, or have bounded the histogram's users; "
            "limited_domain needs no bound"
        )
    if isinstance(k_bar, str):
        raise ValueError("k_bar must be an integer or None; limited_domain can choose it privately")
    k_bar = k_bar_of(k, k_bar, default=default_k_bar(k), limit=h.k_bar)
    tops = k_bar if h.n_items is None else min(k_bar, h.n_items)
    times = groups * steps(k, tops, user, release_counts)
    total, step = calibrate(epsilon, epsilon_step, steps=times, delta=0.0, method="basic")
    scale, each = scale_of(step), share_of(delta, groups, "delta")
    m = movable(k_bar, n_items=h.n_items, max_items_per_user=user)
    cost = Cost(total, delta, f"{THEOREM}; {times} x epsilon_step")
    lift: Any = integer_threshold(m, each, scale) if release_counts else threshold(m, each)
    release = partial(
        Release,
        ordered=True,
        cost=cost,
        mechanism="limited_domain_laplace",
        by_counts=True,
        parameters={
            "k": k,
            "k_bar": k_bar,
            "max_items_per_user": user,
            "epsilon_step": step,
            "scale": scale,
            "threshold": lift,
        },
    )
    if not release_counts:
        race = Race(k, scale, release, noise="laplace", k_bar=k_bar, lift=lift)
        return plan_race(race, h, cost)
    keys, items, next_count = h.cut(k_bar)  # before the first draw: a bad count is an error

    def draw(rng: Rng | None) -> Release:
        positions, noisy, private = _noisy_picks(keys, next_count + 1 + lift, k, scale, rng)
        picks = items[positions]
        return release(
            indices=picks if h.known_domain else None,
            labels=h.labels_of(picks),
            counts=noisy,
            counts_noise=CountsNoise("laplace", scale, among=tops),
            complete=positions.size == k,
            private=private,
        )

    return Plan(cost, draw)


def steps(k: int, tops: int, max_items_per_user: int, release_counts: bool) -> int:
    """Return how many times epsilon_step a release costs; `tops` items take part, and BOT."""
    if release_counts:
        return min(max_items_per_user, tops + 1)
    return min(max_items_per_user, k, (tops + 1) // 2)


@lru_cache(maxsize=4096)
def threshold(m: int, delta: float) -> float:
    """Return t >= 0 with m P(X - Y > t) = delta for standard Laplace X, Y, rounded up.

    P(X - Y > t) = (2 + t) exp(-t) / 4. Newton's method on t - ln(2 + t), which
    is convex: it comes down from above.
    """
    level = math.log(m) - math.log(delta) - math.log(4.0)
    t = 2.0 * max(level, 0.0) + 2.0
    for _ in range(12):
        t = max(0.0, t - (t - math.log(2.0 + t) - level) * (2.0 + t) / (1.0 + t))
    return padded(t, t + 1.0, units=32)


@lru_cache(maxsize=4096)
def integer_threshold(m: int, delta: float, scale: float) -> int:
    """Return the least T >= 0 with m P(X - Y > T) <= delta for discrete Laplace X, Y.

    With q = exp(-1 / scale), P(X - Y > T) is
    q^(T+1) ((1-q) (T+1) + (1+q^2) / (1+q) + q) / (1+q)^2. In logarithms, up to
    a margin for their rounding; T by bisection.
    """
    q, gap = math.exp(-1.0 / scale), -math.expm1(-1.0 / scale)
    most = math.log(delta) - math.log(m) - 2**-40

    def affords(lift: int) -> bool:
        whole = gap * (lift + 1) + (1.0 + q * q) / (1.0 + q) + q
        return math.log(whole) - (lift + 1) / scale - 2.0 * math.log1p(q) <= most

    low, high = -1, 0
    while not affords(high):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if affords(middle) else (middle, high)
    return high


def _noisy_picks(
    counts: np.ndarray, bot: int, k: int, scale: float, rng: Any
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return which counts beat BOT with noise, k at most, their noisy counts, and whether private.

    BOT wins ties: its threshold is for P(X - Y > T). Other ties are left to
    chance: positions in a truncated histogram are ranks.
    """
    values = np.zeros(counts.size + 1, np.int64)  # BOT's noise last, alone: bot may be any size
    values[:-1] = counts
    noisy, private = add_noise(values, "laplace", scale, rng)
    bot, noisy = bot + int(noisy[-1]), noisy[:-1]
    above = np.flatnonzero(noisy > bot)
    order = above[np.argsort(~noisy[above], kind="stable")]  # ~x falls with x, and never wraps
    if order.size > k:
        order = order[noisy[order] >= noisy[order[k - 1]]]
    values = noisy[order]
    if (values[1:] == values[:-1]).any():
        zeros = np.zeros(order.size, np.int64)
        shuffled, _ = select(
            Head(zeros, np.sort(order), None, False), k=order.size, scale=1.0, rng=rng
        )
        order = shuffled[np.argsort(~noisy[shuffled], kind="stable")]
    order = order[:k]
    return order, noisy[order], private
