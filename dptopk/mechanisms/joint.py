"""The joint exponential mechanism: all k items at once (Gillenwater et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from dptopk import _core
from dptopk._counts import head_size
from dptopk._validate import boolean, choice, integer, positive
from dptopk.histogram import Counts, Histogram, known_histogram
from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms._plan import Plan, Steps
from dptopk.mechanisms._select import scores_of, scores_over
from dptopk.release import Cost, Release
from dptopk.rng import Rng, acquire, release

__all__ = ["MOST", "count_sets", "joint", "plan_joint", "steps_joint"]

THEOREM = "exponential mechanism; Gillenwater et al. 2022, Theorem 8"
MOST = 1000  # items in a set: what doubles carry
DEEP = 1 << 15  # how far down a head is put in order, once a pick has come from below it


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

    Every set of k items has the weight exp(-epsilon loss / 2), where the loss is
    max_i (c_i - s_i): by how much its i-th best count falls short of the i-th
    best of all, at worst. For a sequence s_i is its i-th count. Most accurate
    for few items and clear gaps; for large k or small epsilon the many poor
    sets outweigh the good ones, and peel does better.

    Parameters
    ----------
    counts : Histogram or array, shape (d,)
        Users per item over a known domain; items that a truncated histogram
        left out count as much as the largest of them. An array of floats holds
        scores, and so does one of integers with ``monotone=False``: of any sign.
    k : int
        How many items to pick, 1 <= k <= d; for sets at most 1,000.
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
    Release
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
    most 1, either way: hence the 2 in the weight. Where scores move both ways
    it moves by 2 `sensitivity`. Items that truncation left out are taken for
    h_(k_bar+1): max(c_j, h_(k_bar+1)) moves as a count does.

    The law is exact. Cost on a prepared histogram: time in k alone, some
    microseconds at k = 10, a millisecond at k = 100; memory k^2 and the
    distinct counts.

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
    return steps.at(epsilon, 0.0, Cost(epsilon, 0.0, THEOREM))


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
    field = _field(counts, k=k, monotone=monotone)
    if output == "set" and k > MOST:
        raise ValueError(
            f"k must be at most {MOST:,} for a set, got {k}: the numbers of sets are past doubles; "
            'use output="sequence" or peel'
        )
    distance = sensitivity * (2.0 if field.monotone else 4.0)

    def at(step: float, delta: float, cost: Cost) -> Plan:
        scale = scale_of(step, distance)

        def draw(rng: Rng | None) -> Release:
            source = acquire(rng)
            try:
                ranks = _ranks(field, source, k=k, scale=scale, output=output)
                source.begin()  # the ranks' words are done with
                picks = field.items(source, ranks)
                private = source.private
            finally:
                release(source)
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
    counts : Histogram or array, shape (d,)
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

    Cost: k^3 / 6 products for each 61 bits of the result; about 1 s at k = 500.

    Examples
    --------
    >>> import dptopk as dp
    >>> [dp.count_sets([9, 7, 7, 4], k=2, tau=tau) for tau in (0, 2, 5)]
    [2, 3, 6]
    """
    k = integer("k", k)
    if isinstance(tau, (bool, np.bool_)) or not isinstance(tau, (Real, np.number)):
        raise TypeError(f"tau must be a real number, got {type(tau).__name__}")
    loss: Any = tau if isinstance(tau, (int, Fraction)) else float(tau)
    if not 0 <= loss < math.inf:
        raise ValueError(f"tau must be a finite number >= 0, got {tau}")
    field = _field(counts, k=k, monotone=None)
    from dptopk.reference import joint as exact
    from dptopk.reference.paths import count

    return count(exact.staircase(field.values, field.ends.tolist(), k=k, tau=Fraction(loss)))


class _Field(NamedTuple):
    """Scores by distinct value, and how to get from ranks to items.

    keys : int64 array, descending, shape (groups,); see dptk_keys in csrc/dptk.h
    ends : int64 array: how many items score at least each
    """

    keys: np.ndarray
    ends: np.ndarray
    real: bool
    monotone: bool
    items: Callable[[_core.Source, np.ndarray], np.ndarray]
    histogram: Histogram | None

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return int(self.ends[-1])

    @property
    def values(self) -> Sequence[Any]:
        """The distinct scores, for exact arithmetic."""
        return scores_of(self.keys, self.real)

    def labels_of(self, items: np.ndarray) -> tuple[Any, ...] | None:
        """Return the labels of some items, or None if there are none."""
        return None if self.histogram is None else self.histogram.labels_of(items)


def _field(counts: Any, *, k: int, monotone: bool | None) -> _Field:
    if isinstance(counts, Histogram) and counts.is_truncated:
        monotone = True if monotone is None else boolean("monotone", monotone)
        h = known_histogram(counts, "joint", truncated=True)
        return _truncated(h, k, monotone) if h.tail is None else _of_histogram(h, k, monotone)
    scores = scores_over(counts, "joint", monotone=monotone, k=k)
    if scores.histogram is not None and scores.column is None:
        return _of_histogram(scores.histogram, k, scores.monotone)
    column = scores.column
    assert column is not None
    keys, order, _ = _core.cut(column, column.size)
    real = column.dtype.kind == "f"
    if real and not (scores_of(keys[:1], True)[0] - scores_of(keys[-1:], True)[0] < 2.0**1000):
        raise ValueError("counts must lie within 2**1000 of each other")
    keys, ends = _runs(keys, np.ones(keys.size, np.int64))

    def items(source: _core.Source, ranks: np.ndarray) -> np.ndarray:
        return order[ranks]

    return _Field(keys, ends, real, scores.monotone, items, scores.histogram)


def _of_histogram(h: Histogram, k: int, monotone: bool) -> _Field:
    _check_k(k, len(h))
    head = h.head(head_size(len(h), 1))[1]  # here, for a bad count is an error at the door
    keys, ends = h.groups[0], h.group_ends

    def items(source: _core.Source, ranks: np.ndarray) -> np.ndarray:
        deepest = int(ranks.max())
        if deepest < head.size:
            return head[ranks]
        deep = h.head(min(DEEP, len(h)))[1] if deepest < DEEP else head
        return _core.items(source, ranks, keys, ends, deep, h.tail)

    return _Field(keys, ends, False, monotone, items, h)


def _truncated(h: Histogram, k: int, monotone: bool) -> _Field:
    """Take what was left out for as large as it can be; those items are all alike."""
    kept, head, next_count = h.cut(h.k_bar or 0)
    n_items = h.n_items or 0
    _check_k(k, n_items)
    sizes = np.append(np.ones(kept.size, np.int64), n_items - kept.size)
    keys, ends = _runs(np.append(kept, next_count), sizes)
    # The r-th item that is not in the head: as many more as head items come before it.
    jumps = np.sort(head) - np.arange(head.size)

    def items(source: _core.Source, ranks: np.ndarray) -> np.ndarray:
        picks = ranks - head.size
        past = picks >= 0
        picks[past] += np.searchsorted(jumps, picks[past], side="right")
        picks[~past] = head[ranks[~past]]
        return picks

    return _Field(keys, ends, False, monotone, items, h)


def _check_k(k: int, n_items: int) -> None:
    if k > n_items:
        raise ValueError(f"k must be at most the number of items, {n_items}; got {k}")


def _runs(keys: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct keys of a descending array, and how many items come up to each."""
    last = np.append(keys[1:] != keys[:-1], True).nonzero()[0]
    return keys[last], np.cumsum(sizes)[last]


def _ranks(field: _Field, source: _core.Source, *, k: int, scale: float, output: str) -> np.ndarray:
    """Draw ranks; exactly, on the same words, where doubles can't decide."""
    drawing = _core.Joint(field.keys, field.ends, k, scale, output == "sequence", field.real)
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
