"""Ranking from pairwise comparisons: the readable twin, in exact fractions.

A walk goes from losers to winners: P[i, j] = (how often j beat i) / (d L) for j != i, and
stays otherwise; with probability `restart` a step goes to an item drawn uniformly. pi is its
stationary distribution. tau is the ergodicity coefficient of P, half of the largest L1
distance of two rows.

One comparison moves pi by at most 2 (1 - restart) / (d L (1 - (1 - restart) tau)) in L1, so
Laplace noise of that scale, divided by epsilon, on all of pi makes all of it epsilon-DP. The
largest tau of all outcomes is 1 - 1 / d if every two items were compared, and 1 otherwise.
docs/proofs/ranking.md has the proofs.

As an entry moves by at most half of the L1 distance, the paper's Lemma 3.3, which bounds the
largest entry, holds for the L1 norm too; and its sets take 2 k or 4 sqrt(k ln(n / delta))
times this noise and more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from dptopk.reference import discrete
from dptopk.reference.noise import sequence_law, set_law
from dptopk.reference.race import Tape

__all__ = [
    "eigenvector",
    "ergodicity_coefficient",
    "law",
    "neighbours",
    "outcomes",
    "sample",
    "sensitivity",
    "stationary_distribution",
    "transition_matrix",
]

Wins = Sequence[Sequence[int]]
Matrix = list[list[Fraction]]


def transition_matrix(
    wins: Wins, *, degree: int, comparisons_per_pair: int, restart: float = 0.0
) -> Matrix:
    """Return the transition matrix, in fractions.

    Parameters
    ----------
    wins : sequence of sequences of int, shape (n, n)
        wins[i][j] is how often i beat j.
    degree, comparisons_per_pair : int
        d and L.
    restart : float
        Chance of a step to an item drawn uniformly.

    Returns
    -------
    list of lists of Fraction, shape (n, n)

    Examples
    --------
    >>> from dptopk.reference import ranking
    >>> ranking.transition_matrix([[0, 3], [1, 0]], degree=1, comparisons_per_pair=4)
    [[Fraction(3, 4), Fraction(1, 4)], [Fraction(3, 4), Fraction(1, 4)]]
    """
    n, total = len(wins), degree * comparisons_per_pair
    chance = Fraction(restart)
    matrix = []
    for i in range(n):
        row = [Fraction(wins[j][i], total) if j != i else Fraction(0) for j in range(n)]
        row[i] = 1 - sum(row, Fraction(0))
        matrix.append([(1 - chance) * p + chance / n for p in row])
    return matrix


def stationary_distribution(transition: Matrix) -> list[Fraction] | None:
    """Return the stationary distribution by elimination, or None if there are several.

    Parameters
    ----------
    transition : list of lists of Fraction, shape (n, n)
        Rows add up to 1.

    Returns
    -------
    list of Fraction, shape (n,), or None
    """
    n = len(transition)
    # Columns of I - P and the sum, as rows of a system that any stationary pi solves.
    rows = [
        [*(Fraction(i == j) - transition[i][j] for i in range(n)), Fraction(0)] for j in range(n)
    ]
    rows.append([Fraction(1)] * (n + 1))
    for place in range(n):
        pivot = next((r for r in range(place, n + 1) if rows[r][place]), None)
        if pivot is None:
            return None
        rows[place], rows[pivot] = rows[pivot], rows[place]
        top = rows[place][place]
        rows[place] = [value / top for value in rows[place]]
        for r in range(n + 1):
            if r != place and rows[r][place]:
                factor = rows[r][place]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[place], strict=True)]
    return [row[n] for row in rows[:n]]


def eigenvector(transition: Sequence[Sequence[Fraction | float]]) -> np.ndarray:
    """Return the stationary distribution as a left eigenvector, dense, in doubles."""
    values, vectors = np.linalg.eig(np.array(transition, dtype=np.float64).T)
    vector = np.real(vectors[:, np.abs(values - 1).argmin()])
    return np.asarray(vector / vector.sum())


def ergodicity_coefficient(transition: Matrix) -> Fraction:
    """Return half of the largest L1 distance of two rows, pair by pair."""
    pairs = itertools.combinations(transition, 2)
    distances = (sum(abs(p - q) for p, q in zip(a, b, strict=True)) for a, b in pairs)
    return Fraction(max(distances, default=0)) / 2


def sensitivity(
    *, degree: int, comparisons_per_pair: int, rho: Fraction | float, restart: float = 0.0
) -> Fraction:
    """Return the bound of the L1 distance, see above."""
    stays = 1 - Fraction(restart)
    return Fraction(2) * stays / (degree * comparisons_per_pair * (1 - stays * Fraction(rho)))


def outcomes(
    pairs: Sequence[tuple[int, int]], *, n: int, comparisons_per_pair: int
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield every table of wins that comparisons of these pairs can have."""
    for won in itertools.product(range(comparisons_per_pair + 1), repeat=len(pairs)):
        table = [[0] * n for _ in range(n)]
        for (i, j), wins in zip(pairs, won, strict=True):
            table[i][j], table[j][i] = wins, comparisons_per_pair - wins
        yield tuple(map(tuple, table))


def neighbours(wins: Wins) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield every table in which one comparison came out the other way."""
    for i, j in itertools.permutations(range(len(wins)), 2):
        if wins[i][j] > 0:
            table = [list(row) for row in wins]
            table[i][j] -= 1
            table[j][i] += 1
            yield tuple(map(tuple, table))


def law(
    scores: Sequence[Fraction | float], *, k: int, scale: float, ordered: bool = True
) -> dict[tuple[int, ...], float]:
    """Return the chance of every outcome: Laplace noise on scores, the k largest.

    Parameters
    ----------
    scores : sequence of numbers, shape (n,)
        The stationary distribution.
    k : int
        How many are picked.
    scale : float
        Scale of the noise, in units of the scores.
    ordered : bool
        Whether the order is released.

    Returns
    -------
    dict of tuple to float
        For continuous noise. The mechanism's grid is fine: a step is below
        2^-12 / n of the scale at epsilon = 1.
    """
    numbers = [float(score) for score in scores]
    if ordered:
        return sequence_law(dict(enumerate(numbers)), k=k, scale=scale, noise="laplace")
    return set_law(numbers, k=k, scale=scale, noise="laplace")


def sample(
    tape: Tape, scores: Sequence[Fraction], *, k: int, grid: int, scale: float
) -> tuple[tuple[int, int], ...]:
    """Draw once from a tape of random words: items with their noisy scores on the grid.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    scores : sequence of Fraction, shape (n,)
        The stationary distribution.
    k, grid : int
        How many items; units in 1.
    scale : float
        Scale of the discrete Laplace noise, in units.

    Returns
    -------
    tuple of (item, noisy score)
        Largest first, equal ones by item.
    """
    noise = discrete.sample(tape, len(scores), scale=scale, noise="laplace")
    noisy = [math.floor(grid * p + Fraction(1, 2)) + x for p, x in zip(scores, noise, strict=True)]
    order = sorted(range(len(noisy)), key=lambda i: (-noisy[i], i))
    return tuple((i, noisy[i]) for i in order[:k])
