"""Release by stability, readable: a value comes out if no few users could change it.

Every query has a value f(D) and a distance to instability: how many users can
be added or removed, any users, with f the same throughout. It is 0 wherever a
neighbour has another value, and neighbours' distances differ by 1 at most.

One query (A_stab): f(D) if distance + Lap(1/e) > T, otherwise BOT. Take two
neighbours. If their values agree, what comes out is a function of a noisy
distance: e-DP. If not, both distances are 0: BOT has the same chance on both
sides, and a value only P(Lap(1/e) > T) = exp(-eT) / 2. So T = ln(1/(2 delta))/e
gives (e, delta), and not a smaller one, as a value that only one side has
comes out with chance delta. (Thakurta and Smith 2013 have T = ln(1/delta)/e.)

Many queries: distances against one noisy threshold T + rho, sparse vector
(`dptopk.reference.sparse_vector`) with the values of the queries that pass.
Call a query moved if the neighbours' values differ; a moved query has distance
0 on both sides. Let B be the event that a moved query passes. Where B does not
happen, an outcome has the same bits on both sides and, value by value, the same
values: sparse vector bounds the ratio by exp(epsilon), however the queries are
chosen by what came out before. So delta need only bound the chance of B. The
j-th moved query passes with chance p = P(nu_j > T + rho) at most, whoever
chose to ask it, and

- if the first stable answers end the run, at most m queries are asked: m p;
- if the c-th unstable one does, then the first c moved queries decide: should
  none of them pass, these are c unstable ones and the run is over. B takes one
  of c to pass: c p, however many queries there may be. (Carvalho and others
  2020 and, with |rho|, Bassily and others 2018 share delta among all m.)

p is the exact tail of `dptopk.accounting.stability`. Nothing here needs
|rho|: a low rho is part of p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dptopk.reference import sparse_vector
from dptopk.reference.noise import LAWS
from dptopk.reference.race import Tape

__all__ = ["law", "naive_sample", "queries_law", "sample", "sample_queries"]

Answer = tuple[Any, int | float]  # a value, and its distance to instability
BOT = None


def law(answer: Answer, *, threshold: float, scale: float) -> dict[Any, float]:
    """Chance of the value and of BOT.

    Parameters
    ----------
    answer : (value, distance)
        The query's.
    threshold : float
        What the noisy distance must exceed.
    scale : float
        Of the Laplace noise.

    Returns
    -------
    dict
        ``(value,)`` and ``(BOT,)`` with their probabilities.

    Examples
    --------
    >>> from dptopk.reference import stable_release
    >>> chance = stable_release.law(("ant", 5), threshold=4, scale=1.0)
    >>> {outcome: round(p, 3) for outcome, p in chance.items()}
    {('ant',): 0.816, (None,): 0.184}
    """
    value, distance = answer
    above = float(LAWS["laplace"].above(np.array((threshold - distance) / scale)))
    return {(value,): above, (BOT,): 1.0 - above}


def queries_law(
    answers: Sequence[Answer], *, stop: str, hits: int = 1, **noise: float
) -> dict[tuple[Any, ...], float]:
    """Chance of every outcome of a run.

    Parameters
    ----------
    answers : sequence of (value, distance), shape (n,)
        The queries', in this order.
    stop : {"stable", "unstable"}
        Which answers are counted: the run ends with the last of so many `hits`.
    hits : int
        How many.
    **noise
        ``threshold``, ``threshold_scale``, ``query_scale`` of sparse vector.

    Returns
    -------
    dict of tuple to float
        Each outcome, values and BOT where the query did not pass.

    Examples
    --------
    >>> from dptopk.reference import stable_release
    >>> chance = stable_release.queries_law([("ant", 0), ("bee", 9)], stop="unstable", threshold=4,
    ...                                     threshold_scale=1.0, query_scale=1.0)
    >>> {outcome: round(p, 3) for outcome, p in chance.items()}
    {(None,): 0.973, ('ant', None): 0.0, ('ant', 'bee'): 0.027}
    """
    above = stop == "stable"
    bits_law = sparse_vector.law([d for _, d in answers], hits=hits, above=above, **noise)
    return {_outcome(answers, bits, above): chance for bits, chance in bits_law.items()}


def _outcome(answers: Sequence[Answer], bits: Sequence[bool], above: bool) -> tuple[Any, ...]:
    return tuple(
        value if hit == above else BOT for (value, _), hit in zip(answers, bits, strict=False)
    )


def sample(tape: Tape, answer: Answer, *, threshold: float, scale: float) -> tuple[Any, ...]:
    """Draw once, exactly; arguments as in `law`. The first word of the tape is not used."""
    value, distance = answer
    (stable,) = sparse_vector.sample(
        tape, [distance], threshold=threshold, threshold_scale=0.0, query_scale=scale
    )
    return (value if stable else BOT,)


def sample_queries(
    tape: Tape, answers: Sequence[Answer], *, stop: str, hits: int = 1, **noise: float
) -> tuple[Any, ...]:
    """Draw once from a tape of random words, exactly; arguments as in `queries_law`."""
    draw: Callable[..., Any] = sparse_vector.sample
    above = stop == "stable"
    bits = draw(tape, [d for _, d in answers], hits=hits, above=above, **noise)
    return _outcome(answers, bits, above)


def naive_sample(
    answers: Sequence[Answer],
    *,
    stop: str,
    hits: int = 1,
    draws: int,
    rng: np.random.Generator,
    **noise: float,
) -> list[tuple[Any, ...]]:
    """Draw the way it is usually written; a baseline for tests, not private.

    Parameters
    ----------
    answers, stop, hits, **noise
        As in `queries_law`.
    draws : int
        Number of independent draws.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    list of tuple
        One outcome a draw.
    """
    above = stop == "stable"
    distances = [d for _, d in answers]
    drawn = sparse_vector.naive_sample(
        distances, hits=hits, above=above, draws=draws, rng=rng, **noise
    )
    return [_outcome(answers, bits, above) for bits in drawn]
