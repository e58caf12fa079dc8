"""The exponential mechanism, k times without replacement, in one draw."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, overload

from dptopk._types import Method
from dptopk._validate import integer, positive, probability
from dptopk.histogram import Counts
from dptopk.mechanisms._calibrate import calibrate, composition, scale_of
from dptopk.mechanisms._select import Scores, scores_over, select
from dptopk.release import Cost, Release
from dptopk.rng import Rng

__all__ = ["Plan", "draw", "peel", "plan_of", "scale_in"]

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


def peel(
    counts: Counts,
    *,
    k: int,
    epsilon: float | None = None,
    delta: float = 0.0,
    epsilon_step: float | None = None,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    method: Method = "best",
    rng: Rng | None = None,
) -> Release:
    """Pick k items over the full domain by peeling the exponential mechanism.

    Adds Gumbel noise once and takes the k largest, which has the law of k
    exponential mechanisms one after the other, each without the items already
    picked (Durfee and Rogers 2019, Lemma 4.2).

    Parameters
    ----------
    counts : Histogram or array, shape (d,)
        Users per item over a known domain. An array of floats holds scores,
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
    Release
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
    delta = probability("delta", delta, zero=True)
    plan = plan_of(counts, k=k, sensitivity=sensitivity, monotone=monotone)
    total, step = calibrate(epsilon, epsilon_step, steps=plan.k, delta=delta, method=method)
    cost = Cost(total, delta, f"{THEOREM}; {composition(method, step, plan.k, delta)}")
    return draw(plan, step=step, cost=cost, rng=rng)


class Plan(NamedTuple):
    """A call that has passed the checks and has not drawn."""

    scores: Scores
    k: int
    sensitivity: float


def plan_of(counts: Counts, *, k: int, sensitivity: float, monotone: bool | None) -> Plan:
    """Check everything about a call but its budget; arguments as in `peel`."""
    k = integer("k", k)
    sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
    return Plan(scores_over(counts, "peel", monotone=monotone, k=k), k, sensitivity)


def scale_in(plan: Plan, step: float) -> float:
    """Return the scale of the noise at an epsilon of each step."""
    return scale_of(step, plan.sensitivity * (1.0 if plan.scores.monotone else 2.0))


def draw(plan: Plan, *, step: float, cost: Cost, rng: Any) -> Release:
    """Draw at an epsilon of each step."""
    scores, k, sensitivity = plan
    scale = scale_in(plan, step)
    picks, private = select(scores.head(k=k, scale=scale), k=k, scale=scale, rng=rng)
    return Release(
        indices=picks,
        labels=scores.labels_of(picks),
        ordered=True,
        complete=True,
        cost=cost,
        mechanism="peel",
        private=private,
        parameters={
            "k": k,
            "epsilon_step": step,
            "scale": scale,
            "sensitivity": sensitivity,
            "monotone": scores.monotone,
            "n_items": scores.n_items,
        },
    )
