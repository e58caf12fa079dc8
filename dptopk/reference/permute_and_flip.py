"""Permute-and-flip, readable: the items in random order, a coin for each, the first heads wins.

McKenna and Sheldon 2020. The coin of an item shows heads with probability
exp((score - largest score) / scale), so one of the largest wins at the latest.
The winner has the law of the largest of score + exponential noise (Ding et al.
2021), which is how the compiled mechanism draws it; here the law is computed
from the permutation and the coins, so that each checks the other.

k picks are k rounds, each over the items that are left with a permutation and
coins of its own. The k largest of one draw of exponential noise are something
else: there the noise of a runner-up is known to have lost.

A round with scale s / epsilon, or 2 s / epsilon where scores move both ways, is
epsilon-DP (`dptopk.reference.noisy_max` has the proof). It is not
epsilon-bounded-range: between (0, 0) and (1, 0) the losses are 1 for item 1 and
-0.49 for item 0. So rounds compose as pure DP steps only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dptopk.reference.noisy_max import turned
from dptopk.reference.race import Field, Score, Tape, race_afresh

__all__ = ["first_heads", "heads", "law", "naive_sample", "sample"]

Item = TypeVar("Item")


def heads(scores: Mapping[Item, Score], scale: float) -> dict[Item, float]:
    """Return each item's chance of heads, exp((score - largest) / scale).

    Examples
    --------
    >>> from dptopk.reference.permute_and_flip import heads
    >>> heads({"a": 2**62, "b": 2**62}, 1.0)
    {'a': 1.0, 'b': 1.0}
    """
    exact = {item: Fraction(score) for item, score in scores.items()}
    top = max(exact.values())  # reduced before they meet a double
    return {item: math.exp(float(score - top) / scale) for item, score in exact.items()}


def first_heads(coins: Mapping[Item, float]) -> dict[Item, float]:
    """Chance of every item to be the first in random order whose coin shows heads.

    The items arrive at independent uniform times. Item i wins at time t if no
    other came before t and had heads: the integral over [0, 1] of
    p_i * product over j of (1 - p_j t), a polynomial, by a Gauss rule that is exact
    for its degree and all of whose terms are positive. Some coin must have p = 1.

    Examples
    --------
    >>> from dptopk.reference.permute_and_flip import first_heads
    >>> {item: round(p, 12) for item, p in first_heads({"a": 1.0, "b": 0.5}).items()}
    {'a': 0.75, 'b': 0.25}
    """
    times, weights = np.polynomial.legendre.leggauss((len(coins) + 1) // 2)
    times = (times + 1) / 2
    silent = {item: 1 - p * times for item, p in coins.items()}
    chances = {}
    for item, p in coins.items():
        others = [silent[other] for other in coins if other != item]
        chances[item] = p * float(
            (weights / 2 * np.prod([np.ones_like(times), *others], axis=0)).sum()
        )
    return chances


def law(
    scores: Sequence[Score], *, k: int, scale: float, largest: bool = True
) -> dict[tuple[int, ...], float]:
    """Chance of every ordered pick of k items.

    Parameters
    ----------
    scores : sequence of int or float, shape (items,)
        One per item.
    k : int
        Number of rounds, at most ``len(scores)``.
    scale : float
        What a score is divided by in the exponent of the coin, in units of the scores.
    largest : bool
        False: the negated scores are used.

    Returns
    -------
    dict of tuple to float
        Each ordered tuple of k indices and its probability.

    Examples
    --------
    >>> from dptopk.reference import permute_and_flip
    >>> chance = permute_and_flip.law([1, 0], k=1, scale=1.0)
    >>> {pick: round(p, 3) for pick, p in chance.items()}
    {(0,): 0.816, (1,): 0.184}
    """
    chances: dict[tuple[int, ...], float] = {}

    def round_of(picks: tuple[int, ...], chance: float, left: Mapping[int, Score]) -> None:
        if len(picks) == k:
            chances[picks] = chance
            return
        for item, p in first_heads(heads(left, scale)).items():
            rest = {other: score for other, score in left.items() if other != item}
            round_of((*picks, item), chance * p, rest)

    round_of((), 1.0, dict(enumerate(turned(scores, largest=largest))))
    return chances


def sample(
    tape: Tape, scores: Sequence[Score], *, k: int, scale: float, largest: bool = True
) -> tuple[int, ...]:
    """Draw once from a tape of random words, exactly: the twin of the compiled mechanism.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    scores, k, scale, largest
        As in `law`; scores all of one type.

    Returns
    -------
    tuple of int
        The picks, in the order of the rounds.
    """
    wanted = turned(scores, largest=largest)
    field = Field.of(wanted)
    return tuple(race_afresh(tape, field, k=k, scale=scale, noise="exponential"))


def naive_sample(
    scores: npt.ArrayLike,
    *,
    k: int,
    scale: float,
    draws: int,
    rng: np.random.Generator,
    largest: bool = True,
) -> npt.NDArray[np.int64]:
    """Draw the way the paper prints it: a permutation and coins, k times.

    A baseline for tests and timings. Not private: double arithmetic, and a
    generator that is no secure source.

    Parameters
    ----------
    scores, k, scale, largest
        As in `law`.
    draws : int
        Number of independent draws.
    rng : numpy.random.Generator
        Source of the permutations and coins.

    Returns
    -------
    ndarray of int64, shape (draws, k)
        The picks of each draw, in the order of the rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from dptopk.reference import permute_and_flip
    >>> permute_and_flip.naive_sample([90, 0, 6], k=2, scale=0.1, draws=1,
    ...                               rng=np.random.default_rng(1))
    array([[0, 2]])
    """
    column = np.asarray(scores, dtype=np.float64)
    left = np.tile(column if largest else -column, (draws, 1))
    rows, rounds = np.arange(draws), []
    for _ in range(k):
        chance = np.exp((left - left.max(axis=1, keepdims=True)) / scale)  # 0 for the picked
        arrival = rng.random(left.shape)  # its order is the permutation
        arrival[rng.random(left.shape) >= chance] = 2.0
        rounds.append(arrival.argmin(axis=1))
        left[rows, rounds[-1]] = -np.inf
    return np.stack(rounds, axis=1)
