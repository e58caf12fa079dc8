"""Report noisy max: one pick, by noise on every score."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

from dptopk._validate import choice, positive
from dptopk.histogram import Counts, Histogram
from dptopk.mechanisms._calibrate import scale_of, share_of
from dptopk.mechanisms._plan import Plan, Steps, for_groups, plans_by_group, steps_by_group
from dptopk.mechanisms._race import Race, plan_race
from dptopk.mechanisms._select import scores_over
from dptopk.release import Cost, Release
from dptopk.rng import Rng

__all__ = ["noisy_max", "plan_noisy_max", "steps_noisy_max"]

#: The noises there are, and what proves each of them private.
THEOREMS = {
    "exponential": "report noisy max with exponential noise, Ding et al. 2021",
    "gumbel": "exponential mechanism, McSherry and Talwar 2007",
    "laplace": "report noisy max, Dwork and Roth 2014, Claim 3.9",
}


@for_groups
def noisy_max(
    counts: Counts,
    *,
    epsilon: float,
    noise: Literal["exponential", "gumbel", "laplace"] = "exponential",
    largest: bool = True,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    rng: Rng | None = None,
) -> Release:
    """Pick the item with the largest (or the least) noisy score.

    Adds noise to every score and returns the item with the largest sum; the sum
    itself is not released. With ``largest=False`` the noise is subtracted, and
    the item with the least difference is returned.

    Parameters
    ----------
    counts : Histogram, Histograms or array, shape (d,)
        Users per item over a known domain; items that a truncated histogram
        left out count what the next one does. An array of floats holds scores,
        and so does one of integers with ``monotone=False``: of any sign.
    epsilon : float
        The total the release costs.
    noise : {"exponential", "gumbel", "laplace"}
        Law of the noise. With exponential noise this is permute-and-flip; with
        Gumbel noise it is the exponential mechanism, whose pick never scores
        higher on average.
    largest : bool, default True
        False for the item with the least noisy score (report noisy min).
    sensitivity : float, default 1
        How far one user can move a score.
    monotone : bool, optional
        Whether a user moves all scores one way; otherwise the noise is
        doubled. By default counts do, and scores do not.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release, or Releases for Histograms
        One item.

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
    **Guarantee**: (epsilon, 0)-DP when one user, who moves every score by at
    most `sensitivity`, is added or removed, by the theorem named in
    ``cost.theorem``; `dptopk.reference.noisy_max` has a proof for all three.
    The noise has scale sensitivity / epsilon if `monotone`, else twice that.

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.noisy_max([3, 900, 700, 5], epsilon=1.0).indices
    array([1])
    >>> dp.noisy_max([0.9, -0.4, 0.7], epsilon=1.0, sensitivity=0.01, largest=False).indices
    array([1])
    """
    plan = plan_noisy_max(
        counts,
        epsilon=epsilon,
        noise=noise,
        largest=largest,
        sensitivity=sensitivity,
        monotone=monotone,
    )
    return plan.draw(rng)


@plans_by_group
def plan_noisy_max(
    counts: Counts,
    *,
    epsilon: float,
    noise: Literal["exponential", "gumbel", "laplace"] = "exponential",
    largest: bool = True,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    groups: int = 1,
) -> Plan:
    """Check a call of `noisy_max`; arguments as there."""
    epsilon = positive("epsilon", epsilon)
    noise = choice("noise", noise, THEOREMS)
    at = _at(counts, noise=noise, largest=largest, sensitivity=sensitivity, monotone=monotone)[1]
    return at(share_of(epsilon, groups, "epsilon"), 0.0, Cost(epsilon, 0.0, THEOREMS[noise]))


@steps_by_group
def steps_noisy_max(
    counts: Counts,
    *,
    noise: str = "gumbel",
    largest: bool = True,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
) -> Steps:
    """Check everything about a call but its budget: one step, with Gumbel noise alone."""
    if choice("noise", noise, THEOREMS) != "gumbel":
        raise ValueError(f"noise must be gumbel, whose pick is of bounded range, got {noise!r}")
    h, at = _at(counts, noise=noise, largest=largest, sensitivity=sensitivity, monotone=monotone)
    return Steps(h, 1, 0, at, lambda release: 1)


def _at(
    counts: Counts, *, noise: str, largest: bool, sensitivity: float, monotone: bool | None
) -> tuple[Histogram | None, Callable[[float, float, Cost], Plan]]:
    """Return whose labels may come out, and what makes a plan of an epsilon."""
    sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
    scores = scores_over(counts, "noisy_max", monotone=monotone, largest=largest)

    def at(step: float, delta: float, cost: Cost) -> Plan:
        scale = scale_of(step, sensitivity * (1.0 if scores.monotone else 2.0))
        release = partial(
            Release,
            ordered=True,
            cost=cost,
            mechanism="noisy_max",
            by_counts=scores.monotone and sensitivity <= 1.0,
            parameters={
                "k": 1,
                "noise": noise,
                "largest": bool(largest),
                "scale": scale,
                "sensitivity": sensitivity,
                "monotone": scores.monotone,
                "n_items": scores.n_items,
            },
        )
        return plan_race(Race(1, scale, release, noise=noise), scores, cost)

    return scores.histogram, at
