"""Counts of the items that were picked, with integer noise of their own."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal, overload

import numpy as np

from dptopk._counts import HEAD
from dptopk._validate import boolean, choice, positive, probability
from dptopk.accounting.compositions import basic
from dptopk.accounting.shared import shared_scales
from dptopk.discrete import (
    NOISES,
    add_noise,
    add_shared_noise,
    discrete_gaussian_sigma,
    laplace_scale,
    variance,
)
from dptopk.histogram import Counts, Histogram, Histograms, as_histogram
from dptopk.release import Cost, CountsNoise, Release
from dptopk.releases import Releases
from dptopk.rng import Rng

__all__ = ["noisy_counts"]

#: What picks any item of a known domain, those too that a truncated histogram left out.
ANY_ITEM = (
    "peel", "oneshot", "noisy_max", "permute_and_flip", "gamma", "joint", "canonical",
)  # fmt: skip

THEOREMS = {
    "laplace": "discrete Laplace counts, L1 sensitivity {}",
    "gaussian": "discrete Gaussian counts, squared L2 sensitivity {} "
    "(Canonne, Kamath and Steinke 2020)",
    "shared": "counts that share a normal noise (Lebeda 2025), rounded, at most {} a user",
}


@overload
def noisy_counts(
    release: Release,
    h: Counts,
    *,
    epsilon: float,
    delta: float = 0.0,
    noise: Literal["laplace", "gaussian", "shared"] | None = None,
    max_items_per_user: int | None = None,
    ranked: bool = False,
    rng: Rng | None = None,
) -> Release: ...


@overload
def noisy_counts(
    release: Releases,
    h: Histograms,
    *,
    epsilon: float,
    delta: float = 0.0,
    noise: Literal["laplace", "gaussian", "shared"] | None = None,
    max_items_per_user: int | None = None,
    ranked: bool = False,
    rng: Rng | None = None,
) -> Releases: ...


def noisy_counts(
    release: Release | Releases,
    h: Counts | Histograms,
    *,
    epsilon: float,
    delta: float = 0.0,
    noise: Literal["laplace", "gaussian", "shared"] | None = None,
    max_items_per_user: int | None = None,
    ranked: bool = False,
    rng: Rng | None = None,
) -> Release | Releases:
    """Add noisy counts to a release, at a cost of their own.

    The noise that picked the items can't be used again, as the picks tell about it.
    So every count gets fresh noise: an integer, drawn exactly from the discrete
    Laplace or the discrete Gaussian law, or the whole number nearest to a real sum.

    Parameters
    ----------
    release : Release
        What a mechanism picked from `h`, without counts.
    h : Histogram or array of integers, shape (d,)
        The very counts that it was picked from.
    epsilon : float
        What the counts cost, all together, on top of the release.
    delta : float, default 0
        Their delta. It is not spent where Laplace noise is the choice for as many items
        as were asked for; then it is used for fewer, too.
    noise : {"laplace", "gaussian", "shared"}, optional
        By default the one of least variance; Laplace if delta is 0. "shared" is normal
        noise of each count's own and one that all of them share, rounded. For many
        counts it has about half the deviation of the Gaussian, but errors go together.
    max_items_per_user : int, optional
        A bound on the items one user has, known beforehand; fewer counts then
        move at once. By default the histogram's own bound, which it may not be
        below.
    ranked : bool, default False
        Whether to put the items in the order of their noisy counts, largest first:
        a set is then ranked, at no further cost.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release, or Releases for Histograms
        The same with `counts` (int64, in the same order, or, ``ranked``, descending; may
        be negative), the
        sum of both costs, their noise as ``counts_noise``, and the parameters
        counts_epsilon and counts_delta. See `Release.intervals`.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If one is out of range, the release has counts or was picked by scores
        other than counts of users, or is not of this histogram.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP by itself when one user, who adds at most
    1 to each count, is added or removed; with the release it is the sum of
    both, by basic composition: what is counted depends on the data through the
    release alone. One user moves m counts at most, the smaller of their number
    and max_items_per_user: Laplace noise of scale m / epsilon is epsilon-DP;
    for Gaussian noise see `dptopk.discrete.discrete_gaussian_sigma`, for shared noise
    (Lebeda 2025) docs/proofs/shared.md. Their order is post-processing.

    The price is fixed beforehand, whatever was picked. So a release of no items is
    charged too, though nothing is counted; and so is delta, where Laplace noise is
    chosen because few of the k items came out.

    An item that a full histogram of an unknown domain does not have counts 0.
    Other releases by truncated counts hold kept items only, but those of mechanisms over
    known domains any: they need all counts here. An item that was not kept is an error,
    which tells as much: never offer others' releases.

    Examples
    --------
    >>> import dptopk as dp
    >>> h = dp.Histogram([900, 3, 700], labels=["ant", "bee", "cat"])
    >>> picked = dp.peel(h, k=2, epsilon=1.0)
    >>> counted = dp.noisy_counts(picked, h, epsilon=0.5)
    >>> counted.labels, counted.cost.epsilon, counted.counts_noise.scale
    (('ant', 'cat'), 1.5, 4.0)
    >>> a_set = dp.canonical(h, k=2, epsilon=1.0)
    >>> ranked = dp.noisy_counts(a_set, h, epsilon=0.5, ranked=True)
    >>> ranked.labels, ranked.ordered, ranked.cost.epsilon
    (('ant', 'cat'), True, 1.5)
    """
    ranked = boolean("ranked", ranked)
    rows, groups = _rows_of(release, h)
    epsilon = positive("epsilon", epsilon)
    delta = probability("delta", delta, zero=True)
    if noise is not None:
        noise = choice("noise", noise, (*NOISES, "shared"))
    for row, _ in rows:
        _check_release(row)
    counts = [_counts_of(row, one) for row, one in rows]
    bound = rows[0][1].bound_of_user(max_items_per_user)
    bounds = [] if bound is None else [bound]
    number = max(1, *(len(row) for row, _ in rows))
    moved = min([number, *bounds])
    spent = delta
    if noise is None and _laplace_for_all(rows[0][0], epsilon, delta, bounds, groups):
        noise, spent = "laplace", 0.0
    plan = calibrate_counts(epsilon, spent, number, moved, noise, groups)
    theorem = THEOREMS[plan.law].format(moved * groups)
    cost = total_cost(release.cost, epsilon, delta, spent, theorem)
    noisy, private = _with_noise(counts, plan, rng)
    more = {"counts_epsilon": epsilon, "counts_delta": spent}
    releases = [
        row.with_counts(shown, plan, cost=cost, private=private, **more)
        for (row, _), shown in zip(rows, noisy, strict=True)
    ]
    if ranked:
        releases = [one.by_noisy_counts() for one in releases]
    if isinstance(release, Release):
        return releases[0]
    return Releases(
        release.groups,
        releases,
        cost=cost,
        mechanism=release.mechanism,
        private=release.private and private,
    )


def _rows_of(release: Any, h: Any) -> tuple[list[tuple[Release, Histogram]], int]:
    """Return each release with its histogram, and how many of these one user is in."""
    if isinstance(release, Release):
        return [(release, as_histogram(h))], 1
    if not isinstance(release, Releases):
        raise TypeError(f"release must be a Release, got {type(release).__name__}")
    if not isinstance(h, Histograms):
        raise TypeError(f"h must be the Histograms of the releases, got {type(h).__name__}")
    h.check_public("noisy_counts")
    if release.groups != h.groups:
        raise ValueError("the releases are not of these histograms")
    rows = [(one, as_histogram(h.row(place))) for place, one in enumerate(release.values())]
    return rows, h.max_groups_per_user


def _with_noise(
    counts: list[np.ndarray], plan: CountsNoise, rng: Any
) -> tuple[list[np.ndarray], bool]:
    """Return noisy counts of each histogram, and whether all noise was drawn privately."""
    if plan.law == "shared":
        drawn = [
            add_shared_noise(each, plan.scale, plan.shared, rng) if each.size else (each, True)
            for each in counts
        ]
        return [noisy for noisy, _ in drawn], all(private for _, private in drawn)
    whole = np.concatenate(counts)
    if not whole.size:
        return counts, True
    noisy, private = add_noise(whole, plan.law, plan.scale, rng)
    return np.split(noisy, np.cumsum([each.size for each in counts])[:-1]), private


def _laplace_for_all(
    release: Release, epsilon: float, delta: float, bounds: list[int], groups: int
) -> bool:
    """Tell whether the price is without delta: by how many items were asked for.

    Not by how many came out, or the price would depend on them.
    """
    asked = release.parameters.get("k")
    if not isinstance(asked, int) or asked < len(release):
        return False
    moved = min([asked, *bounds])
    return calibrate_counts(epsilon, delta, asked, moved, None, groups).law == "laplace"


@lru_cache(maxsize=1024)
def calibrate_counts(
    epsilon: float, delta: float, number: int, moved: int, noise: str | None, groups: int = 1
) -> CountsNoise:
    """Return the noise of so many counts, some of which a user moves by 1: in each group."""
    if noise == "laplace" or delta == 0.0:
        if noise not in (None, "laplace"):
            raise ValueError(f"{noise} noise needs delta > 0")
        if delta > 0.0:
            raise ValueError("laplace noise has no use for delta; leave it 0")
        return CountsNoise("laplace", laplace_scale(epsilon=epsilon, moved=moved * groups))
    found: dict[float, CountsNoise] = {}  # by variance
    if noise in (None, "shared"):
        own, shared = shared_scales(
            epsilon=epsilon, delta=delta, counts=number, moved=moved, groups=groups
        )
        found[variance("shared", math.hypot(own, shared))] = CountsNoise(
            "shared", own, shared=shared
        )
    if noise in (None, "gaussian"):
        sigma = discrete_gaussian_sigma(epsilon=epsilon, delta=delta, moved=moved * groups)
        found[variance("gaussian", sigma)] = CountsNoise("gaussian", sigma)
    if noise is None:
        scale = laplace_scale(epsilon=epsilon, moved=moved * groups)
        found[variance("laplace", scale)] = CountsNoise("laplace", scale)
    return found[min(found)]


@lru_cache(maxsize=1024)
def total_cost(cost: Cost, epsilon: float, delta: float, spent: float, theorem: str) -> Cost:
    """Return a cost with that of the counts added, rounded up."""
    if _sum(cost.delta, delta) >= 1.0:  # also where it is not spent: which depends on the picks
        raise ValueError("delta must be below 1 together with that of the release")
    total = _sum(cost.epsilon, epsilon)
    return Cost(total, _sum(cost.delta, spent), f"{cost.theorem}; and {theorem}")


def _sum(a: float, b: float) -> float:
    return basic(((a, 1), (b, 1)))


def _check_release(release: Release) -> None:
    if release.counts is not None:
        raise ValueError("the release has counts already")
    if not release.by_counts:
        raise ValueError("the release is not by counts of users that one user moves by 1 at most")


def _counts_of(release: Release, h: Histogram) -> np.ndarray:
    """Return the true counts of what was picked."""
    other = ValueError("the release is not of this histogram")
    h.head(1)  # a negative count is an error at the door
    if release.indices is None:
        if h.known_domain or h.labels is None:
            raise other
        return _counts_by_label(release.items, h, other)
    items = release.indices
    if release.mechanism in ANY_ITEM and h.known_domain and h.tail is None:
        # It picks what was left out too: an error then and only then would tell the data.
        raise ValueError(
            f"counts of what {release.mechanism} picked need all counts: "
            "this histogram is truncated"
        )
    if not h.known_domain or (
        items.size and not 0 <= items.min() <= items.max() < (h.n_items or 0)
    ):
        raise other
    if release.labels is not None and h.labels_of(items) != release.labels:
        raise other
    counts = h.counts_of(items)
    if counts.size and counts.min() < 0:
        raise other
    return counts


def _counts_by_label(labels: tuple[Any, ...], h: Histogram, other: ValueError) -> np.ndarray:
    """Return the counts of some labels; looks at the largest counts first, where most are."""
    counts, items = h.head(len(h) if h.is_truncated else min(len(h), HEAD))
    names = h.labels_of(items)
    assert names is not None
    found = dict(zip(names, counts.tolist(), strict=True))
    if not all(label in found for label in labels):
        if h.is_truncated:
            raise other
        everything = np.arange(len(h))
        whole = h.labels_of(everything)
        assert whole is not None
        found = dict(zip(whole, h.counts_of(everything).tolist(), strict=True))
    return np.array([found.get(label, 0) for label in labels], dtype=np.int64)
