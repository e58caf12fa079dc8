"""The sparse vector technique: which of many queries lie above a threshold."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from dptopk._validate import boolean, integer, positive
from dptopk.answers import Answers
from dptopk.discrete import HIGHEST, LOWEST, add_noise
from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms._threshold import (
    OnlineTests,
    ThresholdTests,
    query_array,
    query_number,
    scales,
)
from dptopk.release import Cost
from dptopk.rng import Rng
from dptopk.rounding import product_up, sum_up

__all__ = ["SparseVector", "sparse_vector"]

THEOREM = "Lyu, Su and Li 2017, sparse vector technique with {}"


class SparseVector(OnlineTests):
    """Tests of queries against one noisy threshold, one at a time.

    Each query may depend on the answers to those before it. However many there
    are, only hits are paid for, and `hits` of them are; all of epsilon is
    charged before the first test.

    Parameters
    ----------
    threshold : int or float
        What queries are tested against. Known beforehand: not from the data.
    epsilon : float
        The total that all tests together cost.
    hits : int, default 1
        Stop after this many hits.
    monotone : bool, default False
        Whether a user moves all queries one way (counts, say): half the noise.
    sensitivity : float, default 1
        How far one user can move a query.
    above : bool, default True
        Whether a hit is above the noisy threshold, or below.
    split : float, optional
        The share of epsilon that the threshold takes, in (0, 1). By default the
        best one, 1 / (1 + (2 hits)^(2/3)), or 1 / (1 + hits^(2/3)) if monotone.
    answers_epsilon : float, optional
        For a noisy answer to each hit, paid for on top of epsilon: discrete
        Laplace noise of scale ``hits * sensitivity / answers_epsilon``, drawn
        anew. Only for integer queries: the last bits of a noisy double would
        give away what the noise hides. So round your queries to a grid first.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: epsilon-DP (with answers, (epsilon + answers_epsilon)-DP) when
    one user is added or removed, for everything that comes out of all tests
    together: proof in `dptopk.reference.sparse_vector`. It holds for one object
    in one process; it cannot be pickled, and a forked child is refused.

    Examples
    --------
    >>> import dptopk as dp
    >>> tests = dp.SparseVector(threshold=1000, epsilon=2.0, hits=2, answers_epsilon=1.0)
    >>> [tests.test(query) for query in (20, 5000, 300)]
    [False, True, False]
    >>> tests.exhausted, tests.cost.epsilon
    (False, 3.0)
    >>> abs(tests.result().values[1] - 5000) < 200
    True
    """

    def __init__(
        self,
        *,
        threshold: int | float,
        epsilon: float,
        hits: int = 1,
        monotone: bool = False,
        sensitivity: float = 1.0,
        above: bool = True,
        split: float | None = None,
        answers_epsilon: float | None = None,
        rng: Rng | None = None,
    ):
        threshold = query_number("threshold", threshold)
        epsilon = positive("epsilon", epsilon)
        hits = integer("hits", hits)
        monotone = boolean("monotone", monotone)
        sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
        above = boolean("above", above)
        noise = scales(epsilon, hits=hits, monotone=monotone, sensitivity=sensitivity, split=split)
        total = epsilon
        self._answer_scale = None
        if answers_epsilon is not None:
            answers_epsilon = positive("answers_epsilon", answers_epsilon)
            self._answer_scale = _answer_scale(answers_epsilon, hits, sensitivity)
            total = sum_up(epsilon, answers_epsilon)
        super().__init__(
            ThresholdTests(
                threshold=threshold,
                threshold_scale=noise.threshold,
                query_scale=noise.query,
                hits=hits,
                above=above,
            ),
            cost=Cost(
                total,
                0.0,
                THEOREM.format("monotone queries" if monotone else "any queries")
                + (" and answers by discrete Laplace noise" if answers_epsilon else ""),
            ),
            mechanism="sparse_vector",
            parameters={
                "threshold": threshold,
                "hits": hits,
                "monotone": monotone,
                "sensitivity": sensitivity,
                "above": above,
                "split": noise.split,
                "threshold_scale": noise.threshold,
                "query_scale": noise.query,
                "answers_epsilon": answers_epsilon,
                "answer_scale": self._answer_scale,
            },
            valued=answers_epsilon is not None,
            rng=rng,
        )

    def test(self, query: int | float) -> bool:
        """Test one query.

        Parameters
        ----------
        query : int or float
            Finite.

        Returns
        -------
        bool
            Whether it hit.

        Raises
        ------
        ExhaustedError
            If all hits have been.
        """
        number = query_number("query", query)
        kind = np.float64 if isinstance(number, float) else np.int64
        return bool(self._test(np.array([number], kind))[0])

    def test_all(self, queries: Any) -> np.ndarray:
        """Test queries in order, up to the last hit.

        Parameters
        ----------
        queries : array of integers or floats, shape (n,)
            Finite.

        Returns
        -------
        ndarray of bool, shape (m,)
            For the first m <= n of them, those that were tested.

        Raises
        ------
        ExhaustedError
            If all hits have been before.
        """
        return self._test(query_array("queries", queries))

    def _test(self, queries: np.ndarray) -> np.ndarray:
        scale = self._answer_scale
        if scale is None:
            return self._run(queries)
        if queries.dtype.kind == "f":
            raise TypeError("queries must be integers where answers are released")

        def answers(bits: np.ndarray) -> tuple[list[int | None], bool]:
            noisy, private = add_noise(queries[: bits.size][bits], "laplace", scale, self._rng)
            left = iter(noisy.tolist())
            return [next(left) if hit else None for hit in bits.tolist()], private

        return self._run(queries, answers)


def sparse_vector(
    queries: Any,
    *,
    threshold: int | float,
    epsilon: float,
    hits: int = 1,
    monotone: bool = False,
    sensitivity: float = 1.0,
    above: bool = True,
    split: float | None = None,
    answers_epsilon: float | None = None,
    rng: Rng | None = None,
) -> Answers:
    """Say which queries lie above a threshold, and stop after `hits` of them do.

    Adds Laplace noise to the threshold once and to each query, and compares.
    Misses are free, so that any number of queries can be asked.

    Parameters
    ----------
    queries : array of integers or floats, shape (n,); or an iterator
        Tested in this order. Of an iterator each is drawn after the one before was
        tested, and none after the last hit; a generator is sent what came out
        (the bit; with `answers_epsilon` the noisy answer, or None for a miss),
        so that it can choose the next query by it.
    threshold, epsilon, hits, monotone, sensitivity, above, split, answers_epsilon, rng
        As for `SparseVector`, which is this one query at a time.

    Returns
    -------
    Answers
        ``bits``, True for a hit; it ends with the last hit if it is ``exhausted``.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range. A query of an
        iterator is looked at when its turn comes: then epsilon is spent, and
        what came out before is lost; `SparseVector` keeps it.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: epsilon-DP (with answers, (epsilon + answers_epsilon)-DP) when
    one user, who moves each query by at most `sensitivity` (and all of them one
    way, if monotone), is added or removed: Lyu, Su and Li 2017; proof in
    `dptopk.reference.sparse_vector`. Where a query stands in `queries`, how
    many there are, and the threshold are taken as known.

    Examples
    --------
    >>> import dptopk as dp
    >>> answers = dp.sparse_vector([3, 900, 5, 800, 2], threshold=400, epsilon=2.0, hits=3)
    >>> answers.bits
    array([False,  True, False,  True, False])
    >>> answers.exhausted
    False

    Bisection by a generator, which is told each answer:

    >>> def bisect(data, low, high):
    ...     while high - low > 10_000:
    ...         middle = (low + high) // 2
    ...         hit = yield sum(x < middle for x in data)
    ...         low, high = (low, middle) if hit else (middle, high)
    >>> dp.sparse_vector(bisect(range(100_000), 0, 100_000), threshold=70_000, epsilon=4.0, hits=4,
    ...                  monotone=True).bits
    array([False,  True, False, False])
    """
    tests = SparseVector(
        threshold=threshold,
        epsilon=epsilon,
        hits=hits,
        monotone=monotone,
        sensitivity=sensitivity,
        above=above,
        split=split,
        answers_epsilon=answers_epsilon,
        rng=rng,
    )
    if isinstance(queries, Iterator):
        _ask(tests, queries)
    else:
        tests.test_all(queries)
    return tests.result()


def _ask(tests: SparseVector, queries: Iterator[Any]) -> None:
    """Test what an iterator yields; a generator is sent each answer."""
    outcome: Any = None
    while not tests.exhausted:
        try:
            query = queries.send(outcome) if isinstance(queries, Generator) else next(queries)
        except StopIteration:
            return
        outcome = tests.test(query)
        if tests._values is not None:
            outcome = tests._values[-1]
    if isinstance(queries, Generator):
        queries.close()


def _answer_scale(epsilon: float, hits: int, sensitivity: float) -> float:
    """Return the scale of the noise on each answer to a hit, for epsilon in all."""
    scale = scale_of(epsilon, product_up(hits, sensitivity))
    if scale > HIGHEST:
        raise ValueError("answers_epsilon is too small: the noise scale is past 2**50")
    return max(scale, LOWEST)
