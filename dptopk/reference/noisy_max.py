"""Report noisy max, readable: noise on every score, and only who has the largest comes out.

Why it is private, for all three noises at once. Fix the noise of all others:
item i wins if its own noise exceeds t = max over j of (score_j + noise_j) -
score_i. A user moves t by at most s where all scores move one way, and by at
most 2 s else. P(noise > t) changes by a factor of at most exp(a / scale) when t
moves by a, as the hazard rate of the noise is at most 1 / scale: the
exponential law has it constant, the Laplace law below it up to the median, the
Gumbel law everywhere. So scale s / epsilon, or 2 s / epsilon, makes it
epsilon-DP. Noise that is taken away where it should be added (exponential noise
and the smallest sum) has no such bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dptopk.reference.noise import set_law
from dptopk.reference.race import Field, Score, Tape, race

__all__ = ["law", "naive_sample", "sample", "turned"]


def turned(scores: Sequence[Score], *, largest: bool) -> list[Score]:
    """Return the scores of which the largest is wanted: negated if the least is."""
    return list(scores) if largest else [-score for score in scores]


def law(
    scores: Sequence[Score], *, scale: float, noise: str = "exponential", largest: bool = True
) -> dict[tuple[int], float]:
    """Chance of every item to have the largest noisy score.

    Parameters
    ----------
    scores : sequence of int or float, shape (items,)
        One per item; they should lie within some thousands of scales.
    scale : float
        Scale of the noise, in units of the scores.
    noise : {"exponential", "gumbel", "laplace"}
        Law of the noise.
    largest : bool
        False: chance to have the least of score - noise.

    Returns
    -------
    dict of tuple to float
        Each item, as a tuple of one index, and its probability.

    Examples
    --------
    >>> from dptopk.reference import noisy_max
    >>> chance = noisy_max.law([1, 0], scale=1.0)
    >>> {pick: round(p, 3) for pick, p in chance.items()}
    {(0,): 0.816, (1,): 0.184}
    """
    exact = [Fraction(score) for score in turned(scores, largest=largest)]
    below = [float(score - max(exact)) for score in exact]  # reduced before they meet a double
    return {(item,): p for (item,), p in set_law(below, k=1, scale=scale, noise=noise).items()}


def sample(
    tape: Tape,
    scores: Sequence[Score],
    *,
    scale: float,
    noise: str = "exponential",
    largest: bool = True,
) -> tuple[int, ...]:
    """Draw once from a tape of random words, exactly: the twin of the compiled mechanism.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    scores, scale, noise, largest
        As in `law`; scores all of one type.

    Returns
    -------
    tuple of int
        The one pick.
    """
    wanted = turned(scores, largest=largest)
    field = Field.of(wanted)
    return tuple(race(tape, field, k=1, scale=scale, noise=noise))


def naive_sample(
    scores: npt.ArrayLike,
    *,
    scale: float,
    draws: int,
    rng: np.random.Generator,
    noise: str = "exponential",
    largest: bool = True,
) -> npt.NDArray[np.int64]:
    """Draw the way it is usually written: argmax(scores + noise).

    A baseline for tests and timings. Not private: double arithmetic, and a
    generator that is no secure source.

    Parameters
    ----------
    scores, scale, noise, largest
        As in `law`.
    draws : int
        Number of independent draws.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    ndarray of int64, shape (draws, 1)
        The pick of each draw.

    Examples
    --------
    >>> import numpy as np
    >>> from dptopk.reference import noisy_max
    >>> noisy_max.naive_sample([90, 0, 6], scale=1.0, draws=1, rng=np.random.default_rng(1))
    array([[0]])
    """
    column = np.asarray(scores, dtype=np.float64)
    size = (draws, column.size)
    variates = (
        rng.exponential(size=size) if noise == "exponential" else getattr(rng, noise)(size=size)
    )
    return ((column if largest else -column) / scale + variates).argmax(axis=1)[:, None]
