"""The joint exponential mechanism: all k items at once (Gillenwater et al. 2022)."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any, Literal

import numpy as np

from dptopk import _core
from dptopk._validate import choice, integer, positive
from dptopk.histogram import Counts
from dptopk.mechanisms._calibrate import scale_of, share_of
from dptopk.mechanisms._groups import Field, field_of
from dptopk.mechanisms._plan import Plan, Steps, for_groups, steps_by_group
from dptopk.release import Cost, Release
from dptopk.rng import Rng

__all__ = ["MOST", "count_sets", "joint", "plan_joint", "steps_joint"]

THEOREM = "exponential mechanism; Gillenwater et al. 2022, Theorem 8"
MOST = 20_000  # items in a set: what doubles are known to carry


@for_groups
def joint(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    output: Literal["set", "sequence"] = "set",
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    rng: Rng | None = None,
) -> Release:
    """Pick k items at once over the full domain by the joint exponential mechanism.

    Every set of k items has the weight exp(-epsilon loss / 2). Its loss is
    max_i (c_i - s_i), where c_i is the i-th best count of all and s_i the i-th best
    of the set: how far it falls short at its worst place. For a sequence s_i is its
    i-th count. It is most accurate for few items and clear gaps. For large k or
    small epsilon the many poor sets outweigh the good ones, and `peel` does better.

    Parameters
    ----------
    counts : Histogram, Histograms or array, shape (d,)
        Users per item over a known domain; items that a truncated histogram
        left out count as much as the largest of them. An array of floats holds
        scores, and so does one of integers with ``monotone=False``: of any sign.
    k : int
        How many items to pick, 1 <= k <= d; for sets at most 20,000.
    epsilon : float
        What the release costs.
    output : {"set", "sequence"}
        Whether the order is part of the release. A set costs no less, but is
        far likelier to be good.
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
        k items: a set in item order, a sequence in its own.

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
    once each, is added or removed (Theorem 8): the exponential mechanism with
    a loss of sensitivity 1. The i-th best count of all and the i-th best of a
    set both move by 0 or 1 the same way, so that their difference moves by at
    most 1, either way: hence the 2 in the weight, but for k = 1 (docs/proofs/session.md,
    11). Where scores move both ways it moves by 2 `sensitivity`. Items that
    truncation left out are taken for h_(k_bar+1): max(c_j, h_(k_bar+1)) moves as a count does.

    The law is exact. Cost on a prepared histogram: about k^1.5 for each loss that is
    looked at, of which there are some tens, hundreds if counts are far apart; some
    microseconds at k = 10, a millisecond at k = 100. Memory 16 k^1.5 bytes at most.

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.joint([3, 900, 700, 5], k=2, epsilon=2.0).indices
    array([1, 2])
    """
    plan = plan_joint(
        counts, k=k, epsilon=epsilon, output=output, sensitivity=sensitivity, monotone=monotone
    )
    return plan.draw(rng)


def plan_joint(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    output: Literal["set", "sequence"] = "set",
    sensitivity: float = 1.0,
    monotone: bool | None = None,
) -> Plan:
    """Check a call of `joint`; arguments as there."""
    steps = steps_joint(counts, k=k, output=output, sensitivity=sensitivity, monotone=monotone)
    epsilon = positive("epsilon", epsilon)
    each = share_of(epsilon, steps.most, "epsilon")
    return steps.at(each, 0.0, Cost(epsilon, 0.0, THEOREM))


@steps_by_group
def steps_joint(
    counts: Counts,
    *,
    k: int,
    output: Literal["set", "sequence"] = "set",
    sensitivity: float = 1.0,
    monotone: bool | None = None,
) -> Steps:
    """Check everything about a call but its budget; arguments as in `joint`.

    It is one bounded-range step, as every exponential mechanism: see `joint`.
    """
    k = integer("k", k)
    output = choice("output", output, ("set", "sequence"))
    sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
    field = field_of(counts, "joint", k=k, monotone=monotone)
    if output == "set" and k > MOST:
        raise ValueError(
            f"k must be at most {MOST:,} for a set, got {k}: the numbers of sets are past doubles; "
            'use output="sequence" or peel'
        )
    # A single pick is that of `peel`, from which what all scores share drops out.
    distance = sensitivity * (1.0 if field.monotone else 2.0) * (1.0 if k == 1 else 2.0)

    def at(step: float, delta: float, cost: Cost) -> Plan:
        scale = scale_of(step, distance)

        def draw(rng: Rng | None) -> Release:
            ranks = partial(_ranks, field, k=k, scale=scale, output=output)
            picks, private = field.picks(ranks, rng)
            if output == "set":
                picks.sort()
            return Release(
                indices=picks,
                labels=field.labels_of(picks),
                ordered=output == "sequence",
                complete=True,
                cost=cost,
                mechanism="joint",
                by_counts=field.monotone and sensitivity <= 1.0,
                private=private,
                parameters={
                    "k": k,
                    "output": output,
                    "scale": scale,
                    "sensitivity": sensitivity,
                    "monotone": field.monotone,
                    "n_items": field.n_items,
                },
            )

        return Plan(cost, draw)

    return Steps(field.histogram, 1, 0, at, lambda release: 1)


def count_sets(counts: Counts, *, k: int, tau: Any) -> int:
    """Count the sets of k items that lose at most tau, exactly.

    Parameters
    ----------
    counts : Histogram, Histograms or array, shape (d,)
        As in `joint`.
    k : int
        How many items, 1 <= k <= d.
    tau : real number
        A loss: max_i (c_i - s_i), c_i the i-th best of all scores, s_i the i-th
        best of the set.

    Returns
    -------
    int

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Notes
    -----
    **Not private**: an exact function of the data, to study the mechanism with.

    Cost: 2 k^2 products for each 61 bits of the result; under a second at k = 1,000;
    at k = 10,000 nine seconds of processor time for 4,850 bits, 145 for 80,786.
    Ctrl-C ends it.

    Examples
    --------
    >>> import dptopk as dp
    >>> [dp.count_sets([9, 7, 7, 4], k=2, tau=tau) for tau in (0, 2, 5)]
    [2, 3, 6]
    """
    k = integer("k", k)
    if isinstance(tau, (bool, np.bool_)) or not isinstance(tau, (Real, np.number)):
        raise TypeError(f"tau must be a real number, got {type(tau).__name__}")
    if isinstance(tau, np.integer):
        tau = int(tau)
    loss: Any = tau if isinstance(tau, (int, Fraction)) else float(tau)
    if not 0 <= loss < math.inf:
        raise ValueError(f"tau must be a finite number >= 0, got {tau}")
    field = field_of(counts, "joint", k=k, monotone=None)
    from dptopk.reference import joint as exact
    from dptopk.reference.paths import count

    return count(exact.staircase(field.values, field.ends.tolist(), k=k, tau=Fraction(loss)))


def _ranks(field: Field, source: _core.Source, *, k: int, scale: float, output: str) -> np.ndarray:
    """Draw ranks; exactly, on the same words, where doubles can't decide."""
    asked, kept = (k, scale, output), None
    h = field.histogram if field.prepared else None
    last = h._envelope if h is not None else None  # read once: other threads may replace it
    if last is not None and last[0] == asked:
        kept = last[1]
    drawing = _core.Joint(field.keys, field.ends, k, scale, output == "sequence", field.real, kept)
    if h is not None and kept is None:
        h._envelope = asked, drawing.envelope()  # it follows from these numbers, without a draw
    ranks = drawing.draw(source)
    if ranks is not None:
        return ranks
    from dptopk.reference import joint as exact  # loads mpmath: seldom needed
    from dptopk.reference.race import Tape

    values, ends = field.values, field.ends.tolist()
    known = drawing.envelope()
    if known is not None:
        blocks, log_unit = [exact.Block(*block) for block in known[0]], known[1]
    else:
        blocks, log_unit = exact.envelope(values, ends, k=k, scale=scale, output=output)
    tape = Tape.replay(source)
    return np.array(
        exact.sample(
            tape, values, ends, k=k, scale=scale, output=output, blocks=blocks, log_unit=log_unit
        ),
        dtype=np.int64,
    )
