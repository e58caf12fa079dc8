"""The one-shot mechanism, readable: noise on every score once, the k largest as a set.

docs/proofs/oneshot.md proves the scales: b = 2 k s / epsilon is pure, and half of it for
scores that move one way (Qiao, Su and Zhang 2021, Theorem 2.1); with delta, that of k picks for
Gumbel noise, and about twice as much for Laplace noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from dptopk.reference import noise as quadrature
from dptopk.reference.race import Field, Tape, race


def law(
    scores: Sequence[float], *, k: int, scale: float, noise: str, largest: bool = True
) -> dict[tuple[int, ...], float]:
    """Chance of every set of k items.

    Parameters
    ----------
    scores : sequence of float, shape (items,)
        One per item.
    k : int
        Size of the set.
    scale : float
        Scale of the noise, in units of the scores.
    noise : {"gumbel", "laplace", "exponential", "gaussian"}
        Law of the noise.
    largest : bool
        Whether the largest are wanted, or the smallest.

    Returns
    -------
    dict of tuple to float
        Each set, as indices in item order, and its probability.

    Examples
    --------
    >>> from dptopk.reference import oneshot
    >>> chance = oneshot.law([2, 1, 0], k=2, scale=1.0, noise="laplace")
    >>> {items: round(p, 3) for items, p in chance.items()}
    {(0, 1): 0.671, (0, 2): 0.246, (1, 2): 0.083}
    """
    turned = scores if largest else [-score for score in scores]
    return quadrature.set_law(turned, k=k, scale=scale, noise=noise)


def group_law(
    scores: tuple[float, float], sizes: tuple[int, int], *, k: int, scale: float, noise: str
) -> dict[int, float]:
    """Chance of how many of the k come from the first of two groups of equal scores.

    Sets with the same number from a group are equally likely, so this says all
    about a set that its whole law does, for any number of items.

    Parameters
    ----------
    scores : (float, float)
        The score of all items of each group.
    sizes : (int, int)
        How many items each has.
    k, scale, noise
        As in `law`.

    Returns
    -------
    dict of int to float
        Each number that can be, and its probability.

    Examples
    --------
    >>> from dptopk.reference import oneshot
    >>> chance = oneshot.group_law((1, 0), (1, 2), k=2, scale=1.0, noise="laplace")
    >>> {number: round(p, 3) for number, p in chance.items()}
    {0: 0.142, 1: 0.858}
    """
    low, high = sorted(scores)
    pieces = int(np.ceil((high - low) / scale + 80)) * 4  # a quarter of a scale, or less
    cuts = np.linspace(low - 40 * scale, high + 40 * scale, pieces + 1)
    panels = quadrature.Panels([low, high, *cuts.tolist()], scale)
    standard = quadrature.LAWS[noise]
    at = [panels.points - score / scale for score in scores]
    with np.errstate(divide="ignore"):  # a finite number, so that 0 times it is 0
        above = [np.maximum(np.log(standard.above(z)), -1e300) for z in at]
        below = [np.maximum(np.log(standard.below(z)), -1e300) for z in at]

    def selected(group: int, size: int, number: int) -> npt.NDArray[np.float64]:
        """Logarithm of the chance that so many of so many are above each point."""
        ways = -np.log1p(size) - special.betaln(size - number + 1, number + 1)
        return np.asarray(ways + number * above[group] + (size - number) * below[group])

    chances = {}
    for first in range(max(0, k - sizes[1]), min(k, sizes[0]) + 1):
        numbers, kth = (first, k - first), np.zeros_like(panels.points)
        for group in (0, 1):
            other = 1 - group
            if numbers[group]:
                before = selected(group, sizes[group] - 1, numbers[group] - 1)
                beside = selected(other, sizes[other], numbers[other])
                kth += sizes[group] * standard.density(at[group]) * np.exp(before + beside)
        chances[first] = panels.integral(kth)
    return chances


def sample(
    tape: Tape,
    scores: Sequence[int | float],
    *,
    k: int,
    scale: float,
    noise: str,
    largest: bool = True,
) -> tuple[int, ...]:
    """Draw once from a tape of random words, exactly: the twin of the compiled mechanism.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    scores, k, scale, noise, largest
        As in `law`.

    Returns
    -------
    tuple of int
        The set, in item order.
    """
    turned = list(scores) if largest else [-score for score in scores]
    field = Field.of(turned)
    return tuple(sorted(race(tape, field, k=k, scale=scale, noise=noise)))


def naive_sample(
    scores: npt.ArrayLike,
    *,
    k: int,
    scale: float,
    noise: str,
    draws: int,
    rng: np.random.Generator,
    largest: bool = True,
) -> npt.NDArray[np.int64]:
    """Draw the way it is usually written: noise on every score, then a partial sort.

    A baseline for tests and timings. Not private: double arithmetic, and a
    generator that is no secure source.

    Parameters
    ----------
    scores : array_like of float, shape (items,)
        One per item.
    k, scale, noise, largest
        As in `law`.
    draws : int
        Number of independent draws.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    ndarray of int64, shape (draws, k)
        The set of each draw, in item order.

    Examples
    --------
    >>> import numpy as np
    >>> from dptopk.reference import oneshot
    >>> rng = np.random.default_rng(1)
    >>> oneshot.naive_sample([90, 0, 60], k=2, scale=1.0, noise="laplace", draws=1, rng=rng)
    array([[0, 2]])
    """
    turned = np.asarray(scores, dtype=np.float64) * (1 if largest else -1)
    size = (draws, turned.size)
    laws: dict[str, Callable[..., Any]] = {
        "gumbel": rng.gumbel,
        "laplace": rng.laplace,
        "exponential": rng.exponential,
        "gaussian": rng.normal,
    }
    noisy = turned + scale * laws[noise](size=size)
    if k < turned.size:
        return np.sort(np.argpartition(-noisy, k, axis=1)[:, :k], axis=1)
    return np.tile(np.arange(k), (draws, 1))
