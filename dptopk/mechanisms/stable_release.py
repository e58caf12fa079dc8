"""Values released as they are, if they are far from changing: A_stab and its online form."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from typing import Any, Literal

import numpy as np

from dptopk._types import Bound
from dptopk._validate import boolean, choice, integer, positive, probability
from dptopk.accounting.stability import BOUNDS, release_threshold, stability_threshold
from dptopk.answers import Answers
from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms._threshold import (
    OnlineTests,
    ThresholdTests,
    query_number,
    scales,
    threshold_tests,
)
from dptopk.release import Cost
from dptopk.rng import Rng

__all__ = ["StableQueries", "stable_queries", "stable_release"]

STOPS = ("stable", "unstable")
SINGLE = "Thakurta and Smith 2013, release by distance to instability"
MANY = "Carvalho, Wang, Gondara and Miao 2020, sparse vector with distance to instability"


def stable_release(
    value: Any,
    *,
    distance: int | float,
    epsilon: float,
    delta: float,
    sensitivity: float = 1.0,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Answers:
    """Release a value if many users would have to come or go to change it.

    Adds Laplace noise to the distance to instability. If the sum exceeds
    ln(1 / (2 delta)) / epsilon the value is released as it is, otherwise nothing.

    Parameters
    ----------
    value : any
        What would be released: a function of the data.
    distance : int or float
        Its distance to instability, >= 0: the largest number of users that can
        be added or removed, whoever they are, without a change of the value.
        A lower bound is enough, if it is 0 whenever one user could change the
        value and one user changes it by at most `sensitivity`.
    epsilon : float
        The total the release costs.
    delta : float
        The total delta, > 0.
    sensitivity : float, default 1
        How far one user can move the distance.
    bound : {"exact", "paper"}
        How the threshold follows from delta: from the exact chance that a
        distance of 0 passes, or as the paper has it, ln(1 / delta) / epsilon.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Answers
        Of one query: ``value``, or None where nothing is released and
        ``bits[0]`` is False.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP when one user is added or removed:
    Thakurta and Smith 2013. `dptopk.reference.stable_release` has the proof for
    the exact threshold, and why none may be lower.

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.stable_release("ant", distance=200, epsilon=1.0, delta=1e-12).value
    'ant'
    >>> dp.stable_release("ant", distance=0, epsilon=1.0, delta=1e-12).value is None
    True
    """
    distance = _distance(distance)
    epsilon = positive("epsilon", epsilon)
    delta = probability("delta", delta, zero=False)
    sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
    bound = choice("bound", bound, BOUNDS)
    scale = scale_of(epsilon, sensitivity)
    threshold = release_threshold(delta, scale, bound)
    bits, private = threshold_tests(
        _array(distance), threshold=threshold, threshold_scale=0.0, query_scale=scale, rng=rng
    )
    return Answers(
        bits=bits,
        values=(value if bits[0] else None,),
        exhausted=True,
        cost=Cost(epsilon, delta, SINGLE),
        mechanism="stable_release",
        private=private,
        parameters={
            "sensitivity": sensitivity,
            "bound": bound,
            "threshold": threshold,
            "scale": scale,
        },
    )


class StableQueries(OnlineTests):
    """Exact answers to the stable ones of many queries, one query at a time.

    Each may depend on what came out before. All of epsilon and delta is charged
    before the first.

    Parameters
    ----------
    epsilon, delta : float
        The total that all queries together cost; delta > 0.
    stop : {"stable", "unstable"}
        Which answers are paid for: the run ends after `hits` of them. "stable"
        looks for one value (or a few) among many queries, most of which may
        fail; "unstable" answers any number of queries, as long as few fail.
    hits : int, default 1
        Stop after this many answers of the kind that `stop` names.
    max_queries : int, optional
        How many queries there may be. Needed with ``stop="stable"``, where delta
        is shared among them, and with ``bound="paper"``.
    monotone : bool, default False
        Whether a user moves all distances one way: half the noise.
    sensitivity : float, default 1
        How far one user can move a distance.
    split : float, optional
        The share of epsilon that goes to the threshold, in (0, 1); by default
        the best one for many misses, as for `sparse_vector`.
    bound : {"exact", "paper"}
        How the threshold follows from delta. "exact": from the chance that a
        distance of 0 passes, times the queries that can be the first to do so
        (`hits` of them with ``stop="unstable"``). "paper": from the larger
        bound of Lemma 3.1, times `max_queries`.
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
    **Guarantee**: (epsilon, delta)-DP when one user is added or removed, for
    everything that comes out of all queries together; distances as for
    `stable_release`. Carvalho and others 2020, section 5; proof in
    `dptopk.reference.stable_release`. It holds for one object in one process;
    it cannot be pickled, and a forked child is refused.

    Examples
    --------
    >>> import dptopk as dp
    >>> queries = dp.StableQueries(epsilon=1.0, delta=1e-12, stop="unstable")
    >>> [queries.ask(name, distance=gap) for name, gap in (("ant", 300), ("bee", 0))]
    ['ant', None]
    >>> queries.exhausted
    True
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        stop: Literal["stable", "unstable"],
        hits: int = 1,
        max_queries: int | None = None,
        monotone: bool = False,
        sensitivity: float = 1.0,
        split: float | None = None,
        bound: Bound = "exact",
        rng: Rng | None = None,
    ):
        epsilon = positive("epsilon", epsilon)
        delta = probability("delta", delta, zero=False)
        stop = choice("stop", stop, STOPS)
        hits = integer("hits", hits)
        if max_queries is not None:
            max_queries = integer("max_queries", max_queries)
        monotone = boolean("monotone", monotone)
        sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
        bound = choice("bound", bound, BOUNDS)
        if max_queries is None and (stop == "stable" or bound == "paper"):
            raise TypeError("give max_queries: delta is shared among so many queries")
        moved = hits if stop == "unstable" and bound == "exact" else max_queries
        assert moved is not None
        if max_queries is not None:
            moved = min(moved, max_queries)
        noise = scales(epsilon, hits=hits, monotone=monotone, sensitivity=sensitivity, split=split)
        threshold = stability_threshold(
            delta,
            query_scale=noise.query,
            threshold_scale=noise.threshold,
            tests=moved,
            bound=bound,
        )
        self._stable = stop == "stable"  # whether a hit is a stable answer
        super().__init__(
            ThresholdTests(
                threshold=threshold,
                threshold_scale=noise.threshold,
                query_scale=noise.query,
                hits=hits,
                above=self._stable,
            ),
            cost=Cost(epsilon, delta, MANY),
            mechanism="stable_queries",
            parameters={
                "stop": stop,
                "hits": hits,
                "max_queries": max_queries,
                "monotone": monotone,
                "sensitivity": sensitivity,
                "split": noise.split,
                "bound": bound,
                "threshold": threshold,
                "threshold_scale": noise.threshold,
                "query_scale": noise.query,
            },
            most=max_queries,
            valued=True,
            rng=rng,
        )

    def ask(self, value: Any, *, distance: int | float) -> Any:
        """Ask one query.

        Parameters
        ----------
        value : any
            What is released if it is stable.
        distance : int or float
            Its distance to instability, as for `stable_release`.

        Returns
        -------
        any
            The value, or None if it is not stable.

        Raises
        ------
        ExhaustedError
            If the run is over.
        """
        queries = _array(_distance(distance))
        hit = self._run(queries, lambda bits: ([value if bits[0] == self._stable else None], True))
        return value if hit[0] == self._stable else None

    def result(self) -> Answers:
        """Return what has come out so far; bits are True for stable answers."""
        answers = super().result()
        if self._stable:
            return answers
        return Answers(**{**answers.__getstate__(), "bits": ~answers.bits})


def stable_queries(
    queries: Iterable[tuple[Any, int | float]],
    *,
    epsilon: float,
    delta: float,
    stop: Literal["stable", "unstable"],
    hits: int = 1,
    max_queries: int | None = None,
    monotone: bool = False,
    sensitivity: float = 1.0,
    split: float | None = None,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Answers:
    """Answer the stable ones of many queries, as they are.

    Tests each query's distance to instability, with Laplace noise, against one
    threshold with Laplace noise, until `hits` answers were stable, or unstable.

    Parameters
    ----------
    queries : iterable of (value, distance)
        Asked in this order, each drawn after the one before was answered. A
        generator is sent the answer (the value, or None).
    epsilon, delta, stop, hits, max_queries, monotone, sensitivity, split, bound, rng
        As for `StableQueries`, which is this one query at a time. `max_queries`
        is by default the length of a sequence where it is needed.

    Returns
    -------
    Answers
        ``values``, None where a query was unstable; ``bits``, True where not.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range. A query of an
        iterator is looked at when its turn comes: then the budget is spent, and
        what came out before is lost; `StableQueries` keeps it.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP when one user is added or removed: see
    `StableQueries`.

    Examples
    --------
    >>> import dptopk as dp
    >>> queries = [("bee", 0), ("ant", 250), ("fly", 900)]
    >>> dp.stable_queries(queries, stop="stable", epsilon=1.0, delta=1e-12).values
    (None, 'ant')
    """
    if max_queries is None and isinstance(queries, (list, tuple)):
        max_queries = max(1, len(queries))
    run = StableQueries(
        epsilon=epsilon,
        delta=delta,
        stop=stop,
        hits=hits,
        max_queries=max_queries,
        monotone=monotone,
        sensitivity=sensitivity,
        split=split,
        bound=bound,
        rng=rng,
    )
    left = iter(queries)
    answer: Any = None
    while not run.exhausted:
        try:
            query = left.send(answer) if isinstance(left, Generator) else next(left)
        except StopIteration:
            return run.result()
        try:
            value, distance = query
        except (TypeError, ValueError):
            raise TypeError("a query must be a pair: its value and its distance") from None
        answer = run.ask(value, distance=distance)
    if isinstance(left, Generator):
        left.close()
    return run.result()


def _distance(distance: Any) -> int | float:
    number = query_number("distance", distance)
    if number < 0:
        raise ValueError("distance must not be negative")
    return number


def _array(number: int | float) -> np.ndarray:
    return np.array([number], np.float64 if isinstance(number, float) else np.int64)
