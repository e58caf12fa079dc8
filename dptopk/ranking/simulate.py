"""Comparisons as the Bradley-Terry-Luce model has them, for experiments."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from dptopk._validate import integer, probability, scores_array

__all__ = ["bradley_terry"]


def bradley_terry(
    strengths: npt.ArrayLike,
    *,
    edge_probability: float,
    comparisons_per_pair: int,
    rng: np.random.Generator,
) -> Any:
    """Draw a table of wins: an Erdos-Renyi graph, and outcomes by strength.

    Each two items are compared with probability `edge_probability`, then
    `comparisons_per_pair` times; j beats i with probability
    strength_j / (strength_i + strength_j).

    Parameters
    ----------
    strengths : array_like, shape (n,)
        Positive and finite; only their ratios matter.
    edge_probability : float
        In (0, 1], 1 for a tournament of all against all.
    comparisons_per_pair : int
        L.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    scipy.sparse.csr_array of int64, shape (n, n)
        wins[i, j] is how often i beat j. The graph need not be connected.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from dptopk.ranking import bradley_terry
    >>> wins = bradley_terry([1, 9, 3], edge_probability=1, comparisons_per_pair=40,
    ...                      rng=np.random.default_rng(3))
    >>> (wins + wins.T).toarray().tolist()
    [[0, 40, 40], [40, 0, 40], [40, 40, 0]]
    """
    strengths = scores_array("strengths", strengths).astype(np.float64)
    if not (strengths > 0).all():
        raise ValueError("strengths must be positive")
    n = strengths.size
    if n < 2:
        raise ValueError(f"strengths must be of at least 2 items, got {n}")
    if edge_probability != 1:
        edge_probability = probability("edge_probability", edge_probability, zero=False)
    comparisons_per_pair = integer("comparisons_per_pair", comparisons_per_pair)
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {type(rng).__name__}")
    later = [i + 1 + np.flatnonzero(rng.random(n - i - 1) < edge_probability) for i in range(n)]
    first = np.repeat(np.arange(n), [some.size for some in later])
    second = np.concatenate(later)
    chance = 1 / (1 + strengths[second] / strengths[first])
    won = rng.binomial(comparisons_per_pair, chance)
    counts = np.concatenate((won, comparisons_per_pair - won))
    places = (np.concatenate((first, second)), np.concatenate((second, first)))
    table = sparse.csr_array(sparse.coo_array((counts, places), shape=(n, n), dtype=np.int64))
    table.eliminate_zeros()
    return table
