"""The k largest noisy scores as a set: noise once, a pure or an approximate theorem."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

from dptopk._types import Bound
from dptopk._validate import choice, integer, positive, probability
from dptopk.accounting.stability import BOUNDS
from dptopk.domain import bound_of_user
from dptopk.histogram import Counts
from dptopk.mechanisms._plan import Plan, for_groups, plans_by_group
from dptopk.mechanisms._race import Race, plan_race
from dptopk.mechanisms._select import scores_over
from dptopk.mechanisms._set_noise import METHODS, NOISES, SetNoise, noise_for
from dptopk.release import Cost, Release
from dptopk.rng import Rng

__all__ = ["oneshot", "plan_oneshot"]


@for_groups
def oneshot(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float = 0.0,
    noise: SetNoise = "best",
    method: Literal["best", "pure", "approximate"] = "best",
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    largest: bool = True,
    max_items_per_user: int | None = None,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Release:
    """Pick a set of k items over the full domain by adding noise to each score once.

    Parameters
    ----------
    counts : Histogram, Histograms or array, shape (d,)
        Users per item over a known domain; items that a truncated histogram
        left out count what the next one does. An array of floats holds scores,
        and so does one of integers with ``monotone=False``: of any sign.
    k : int
        How many items to pick, 1 <= k <= d.
    epsilon : float
        The total the release costs.
    delta : float, default 0
        The most delta it may cost. Gumbel and Gaussian noise use it, and Laplace
        noise by ``method="approximate"``.
    noise : {"best", "gumbel", "exponential", "laplace", "gaussian"}
        Law of the noise. "best" is that which errs least, by the numbers that are
        given here and the number of items, all of them public; with no delta it is
        exponential, or Laplace where a user has few items. Gaussian noise needs
        `delta`, and no bound on the items of a user, but a small one lessens it.
    method : {"best", "pure", "approximate"}
        "pure" costs no delta; "approximate" is the composition of k picks (Gumbel
        or Laplace noise) or the Gaussian mechanism; "best" whichever adds least noise.
    sensitivity : float, default 1
        How far one user can move a score.
    monotone : bool, optional
        Whether a user moves all scores one way; otherwise the noise is doubled.
        By default counts do, and scores do not.
    largest : bool, default True
        Whether to pick the largest, or the smallest.
    max_items_per_user : int, optional
        A bound on the items whose score one user moves, known beforehand. By
        default the histogram's own bound, which it may not be below.
    bound : {"exact", "paper"}
        Whose constants: those of our proofs, or the larger ones that are printed. The
        latter don't use that scores move one way; "approximate" Laplace noise is
        then Theorem 2.2.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release, or Releases for Histograms
        k items, unordered: in item order, from which no rank can be read.
        ``cost.delta`` is 0 if a pure theorem is used. ``parameters`` have the law
        and scale of the noise.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or
        nothing is proved of this noise by this method.
    UnknownDomainError
        If the items were read off the data.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: (cost.epsilon, cost.delta)-DP when one user is added or
    removed, for the SET alone, by the theorem that ``cost.theorem`` names. With
    sensitivity s the scale is

    ======================== ========================= =========================
    theorem                  scores that move one way  any scores
    ======================== ========================= =========================
    pure, any of the first 3 k s / epsilon             2 k s / epsilon
    pure, D items a user     D s / epsilon (Laplace)   D s / epsilon (Laplace)
    k picks (Gumbel)         s / e                     2 s / e
    k picks (Laplace)        2 s / e'                  4 s / e'
    Theorem 2.2 (Laplace)    as for any scores         8 s sqrt(k L) / epsilon
    ======================== ========================= =========================

    where e is the epsilon of each of k bounded-range steps that compose to (epsilon, delta),
    and e' that of k which compose to (epsilon - e', delta). Theorem 2.2 stands for the
    Laplace noise of k picks if ``bound="paper"``; L = ln(d / delta), and it asks for epsilon
    <= 0.2, delta <= 0.05 and d >= 2. Gaussian noise has the least standard deviation that is
    (epsilon, delta)-DP at an L2 sensitivity of s sqrt(min(D, d)) for any scores, and of
    s sqrt(t (d - t) / d), t = min(D, floor(d / 2)), for those that move one way: at most
    s sqrt(d) / 2, however many items a user has.

    "best" takes the least gap at which an item outside passes one inside with a chance of
    sqrt(k / d) / 2, or 1/4 if that is less.

    Source: Qiao, Su and Zhang 2021, Theorems 2.1 and 2.2; of Gumbel noise Durfee and Rogers
    2019, Lemmas 4.2 and 4.3. Proofs: docs/proofs/oneshot.md; of Gaussian noise:
    docs/proofs/shift.md.

    Examples
    --------
    >>> import dptopk as dp
    >>> release = dp.oneshot([3, 700, 900, 5], k=2, epsilon=2.0)
    >>> release
    <Release of 2 by oneshot: [1, 2], unordered; epsilon=2, delta=0>
    >>> round(release.parameters["scale"], 6)
    1.0
    """
    plan = plan_oneshot(
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        method=method,
        sensitivity=sensitivity,
        monotone=monotone,
        largest=largest,
        max_items_per_user=max_items_per_user,
        bound=bound,
    )
    return plan.draw(rng)


@plans_by_group
def plan_oneshot(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float = 0.0,
    noise: SetNoise = "best",
    method: Literal["best", "pure", "approximate"] = "best",
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    largest: bool = True,
    max_items_per_user: int | None = None,
    bound: Bound = "exact",
    groups: int = 1,
) -> Plan:
    """Check a call of `oneshot`; arguments as there."""
    k = integer("k", k)
    epsilon = positive("epsilon", epsilon)
    delta = probability("delta", delta, zero=True)
    noise = choice("noise", noise, NOISES)
    method = choice("method", method, METHODS)
    bound = choice("bound", bound, BOUNDS)
    sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
    scores = scores_over(counts, "oneshot", monotone=monotone, k=k, largest=largest)
    bounding = bound_of_user if scores.histogram is None else scores.histogram.bound_of_user
    max_items_per_user = bounding(max_items_per_user)
    if scores.clamped:  # the next count stands for all that were left out
        max_items_per_user = None
    chosen = noise_for(
        noise=noise,
        method=method,
        k=k,
        epsilon=epsilon,
        delta=delta,
        sensitivity=sensitivity,
        monotone=scores.monotone,
        max_items_per_user=max_items_per_user,
        n_items=scores.n_items,
        bound=bound,
        groups=groups,
    )
    scale = chosen.scale
    cost = Cost(epsilon, chosen.delta, chosen.theorem)
    release = partial(
        Release,
        ordered=False,
        cost=cost,
        mechanism="oneshot",
        by_counts=scores.monotone and sensitivity <= 1.0,
        parameters={
            "k": k,
            "scale": scale,
            "noise": chosen.law,
            "method": "approximate" if chosen.delta else "pure",
            "sensitivity": sensitivity,
            "monotone": scores.monotone,
            "largest": bool(largest),
            "max_items_per_user": max_items_per_user,
            "bound": bound,
            "n_items": scores.n_items,
        },
    )
    return plan_race(Race(k, scale, release, noise=chosen.law, ordered=False), scores, cost)
