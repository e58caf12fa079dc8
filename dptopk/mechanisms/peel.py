"""The exponential mechanism, k times without replacement, in one draw."""

from __future__ import annotations

import math
from functools import partial
from typing import overload

from dptopk._types import Method
from dptopk._validate import integer, positive, probability
from dptopk.histogram import Counts, Histograms
from dptopk.mechanisms._calibrate import calibrate, composition, cost_of_steps, scale_of
from dptopk.mechanisms._plan import Plan, Steps, outcomes_of, steps_by_group
from dptopk.mechanisms._race import Race, plan_race
from dptopk.mechanisms._select import scores_over
from dptopk.release import Cost, Release
from dptopk.releases import Releases
from dptopk.rng import Rng

__all__ = ["peel", "plan_peel", "steps_peel"]

THEOREM = "Durfee and Rogers 2019, Lemma 4.3"


@overload
def peel(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float = 0.0,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    method: Method = "best",
    rng: Rng | None = None,
) -> Release: ...


@overload
def peel(
    counts: Counts,
    *,
    k: int,
    delta: float = 0.0,
    epsilon_step: float,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    method: Method = "best",
    rng: Rng | None = None,
) -> Release: ...


@overload
def peel(
    counts: Histograms,
    *,
    k: int,
    epsilon: float | None = None,
    delta: float = 0.0,
    epsilon_step: float | None = None,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    method: Method = "best",
    rng: Rng | None = None,
) -> Releases: ...


def peel(
    counts: Counts | Histograms,
    *,
    k: int,
    epsilon: float | None = None,
    delta: float = 0.0,
    epsilon_step: float | None = None,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    method: Method = "best",
    rng: Rng | None = None,
) -> Release | Releases:
    """Pick k items over the full domain by peeling the exponential mechanism.

    Adds Gumbel noise once and takes the k largest, which has the law of k
    exponential mechanisms one after the other, each without the items already
    picked (Durfee and Rogers 2019, Lemma 4.2).

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
        The total delta; the composition of the k steps spends it. 0 is pure DP.
    epsilon_step : float
        In place of `epsilon`: the epsilon of each pick; the cost follows.
    sensitivity : float, default 1
        How far one user can move a score.
    monotone : bool, optional
        Whether a user moves all scores one way; otherwise the noise is
        doubled. By default counts do, and scores do not.
    method : str, default "best"
        How the steps are composed; see `dptopk.accounting.total_epsilon`.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release, or Releases for Histograms
        k items, best first.

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
    **Guarantee**: (epsilon, delta)-DP when one user is added or removed, by
    Lemma 4.3 (each pick is epsilon_step-bounded-range) and the composition
    named in ``cost.theorem``.

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.peel([3, 900, 700, 5], k=2, epsilon=2.0).indices
    array([1, 2])
    """
    plan = plan_peel(
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        epsilon_step=epsilon_step,
        sensitivity=sensitivity,
        monotone=monotone,
        method=method,
    )
    return plan.draw(rng)


def plan_peel(
    counts: Counts | Histograms,
    *,
    k: int,
    epsilon: float | None = None,
    delta: float = 0.0,
    epsilon_step: float | None = None,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    method: Method = "best",
) -> Plan:
    """Check a call of `peel`; arguments as there."""
    delta = probability("delta", delta, zero=True)
    steps = steps_peel(counts, k=k, sensitivity=sensitivity, monotone=monotone)
    most = steps.most
    total, step = calibrate(epsilon, epsilon_step, steps=most, delta=delta, method=method)
    cost = cost_of_steps(total, delta, THEOREM, composition(method, step, most, delta))
    return steps.at(step, 0.0, cost)


@steps_by_group
def steps_peel(
    counts: Counts, *, k: int, sensitivity: float = 1.0, monotone: bool | None = None
) -> Steps:
    """Check everything about a call but its budget; arguments as in `peel`."""
    k = integer("k", k)
    sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
    scores = scores_over(counts, "peel", monotone=monotone, k=k)

    def at(step: float, delta: float, cost: Cost) -> Plan:
        scale = scale_of(step, sensitivity * (1.0 if scores.monotone else 2.0))
        release = partial(
            Release,
            ordered=True,
            cost=cost,
            mechanism="peel",
            by_counts=scores.monotone and sensitivity <= 1.0,
            parameters={
                "k": k,
                "epsilon_step": step,
                "scale": scale,
                "sensitivity": sensitivity,
                "monotone": scores.monotone,
                "n_items": scores.n_items,
            },
        )
        return plan_race(Race(k, scale, release), scores, cost)

    return Steps(scores.histogram, k, 0, at, outcomes_of)
