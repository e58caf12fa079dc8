"""The inverse-sensitivity mechanism over sets (Asi and Duchi 2020), for the top k."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from dptopk import _core
from dptopk._validate import integer, positive
from dptopk.histogram import Counts
from dptopk.mechanisms._calibrate import scale_of, share_of
from dptopk.mechanisms._groups import Field, field_of
from dptopk.mechanisms._plan import Plan, Steps, for_groups, steps_by_group
from dptopk.release import Cost, Release
from dptopk.rng import Rng

__all__ = ["canonical", "plan_canonical", "steps_canonical"]

THEOREM = "exponential mechanism; Asi and Duchi 2020, inverse sensitivity"


@for_groups
def canonical(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    rng: Rng | None = None,
) -> Release:
    """Pick a set of k items at once by how many users must change to make it the top k.

    Every set of k items has the weight exp(-epsilon loss / 2), where the loss is the
    largest count outside the set less the least one in it, or 0 if that is negative. So a
    set that misses one item loses no more than one that misses many, if their worst items
    are alike. It finds nearly all of the top k where counts fall by some 2 ln(d) / epsilon
    past rank k; where many items are that close to it, the sets of them outweigh
    the top k, and `oneshot` does better.

    Parameters
    ----------
    counts : Histogram, Histograms or array, shape (d,)
        Users per item over a known domain; items that a truncated histogram
        left out count as much as the largest of them. An array of floats holds
        scores, and so does one of integers with ``monotone=False``: of any sign.
    k : int
        How many items to pick, 1 <= k <= d.
    epsilon : float
        What the release costs.
    sensitivity : float, default 1
        How far one user can move a score.
    monotone : bool, optional
        Whether a user moves all scores one way; otherwise losses can move twice
        as far. By default counts do, and scores do not.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release, or Releases for Histograms
        A set of k items, in item order.

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
    **Guarantee**: epsilon-DP when one user, who may touch any number of items
    once each, is added or removed: the exponential mechanism with a loss of
    sensitivity 1. The least count in a set and the largest outside both move by
    0 or 1 the same way, so that their difference moves by at most 1, either way:
    hence the 2 in the weight, but for k = 1 (docs/proofs/session.md, 11). Where scores
    move both ways it moves by 2 `sensitivity`. As every exponential mechanism it is one
    bounded-range step in a `Session` or `Filter`. Items that truncation left out are taken for
    h_(k_bar+1): max(c_j, h_(k_bar+1)) moves as a count does.

    **Utility**: with probability 1 - beta the set loses at most
    2 (ln C(d, k) + ln(1 / beta)) / epsilon, as any set that loses more has at most
    exp(-epsilon loss / 2) of the weight of the top k.

    The law is exact. Cost on a prepared histogram: some microseconds for each item
    picked, whatever the number of items.

    Sources: Asi and Duchi 2020 (inverse sensitivity); Shekelyan and Loukides 2022 (for the
    top k).

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.canonical([3, 900, 700, 5], k=2, epsilon=2.0).indices
    array([1, 2])
    """
    plan = plan_canonical(counts, k=k, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone)
    return plan.draw(rng)


def plan_canonical(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
) -> Plan:
    """Check a call of `canonical`; arguments as there."""
    steps = steps_canonical(counts, k=k, sensitivity=sensitivity, monotone=monotone)
    epsilon = positive("epsilon", epsilon)
    each = share_of(epsilon, steps.most, "epsilon")
    return steps.at(each, 0.0, Cost(epsilon, 0.0, THEOREM))


@steps_by_group
def steps_canonical(
    counts: Counts, *, k: int, sensitivity: float = 1.0, monotone: bool | None = None
) -> Steps:
    """Check everything about a call but its budget; arguments as in `canonical`.

    It is one bounded-range step, as every exponential mechanism.
    """
    k = integer("k", k)
    sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
    field = field_of(counts, "canonical", k=k, monotone=monotone)
    # A single pick is that of `peel`, from which what all scores share drops out.
    distance = sensitivity * (1.0 if field.monotone else 2.0) * (1.0 if k == 1 else 2.0)

    def at(step: float, delta: float, cost: Cost) -> Plan:
        scale = scale_of(step, distance)

        def draw(rng: Rng | None) -> Release:
            picks, private = field.picks(partial(_ranks, field, k=k, scale=scale), rng)
            picks.sort()
            return Release(
                indices=picks,
                labels=field.labels_of(picks),
                ordered=False,
                complete=True,
                cost=cost,
                mechanism="canonical",
                private=private,
                by_counts=field.monotone and sensitivity <= 1.0,
                parameters={
                    "k": k,
                    "scale": scale,
                    "sensitivity": sensitivity,
                    "monotone": field.monotone,
                    "n_items": field.n_items,
                },
            )

        return Plan(cost, draw)

    return Steps(field.histogram, 1, 0, at, lambda release: 1)


def _ranks(field: Field, source: _core.Source, *, k: int, scale: float) -> np.ndarray:
    """Draw ranks; exactly, on the same words, where doubles can't decide."""
    drawing = _core.Canonical(field.keys, field.ends, k, scale, field.real)
    ranks = drawing.draw(source)
    if ranks is not None:
        return ranks
    from dptopk.reference import canonical as exact
    from dptopk.reference.race import Tape

    blocks, log_unit = drawing.envelope()
    return np.array(
        exact.sample(
            Tape.replay(source), field.values, field.ends.tolist(), k=k, scale=scale,
            blocks=[exact.Block(*block) for block in blocks], log_unit=log_unit,
        ),
        dtype=np.int64,
    )  # fmt: skip
