"""Condition numbers of a Markov chain: how far its stationary distribution can move.

Nothing here is private.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.spatial import distance

from dptopk.ranking.chain import checked_chain, stationary_distribution

__all__ = ["ConditionNumbers", "condition_numbers"]

Array = npt.NDArray[np.float64]
MOST_STATES = 2048  # half a minute


class ConditionNumbers(NamedTuple):
    """The eight condition numbers that Cho and Meyer compare, in their order.

    Attributes
    ----------
    fundamental : float
        The largest absolute row sum of the fundamental matrix Z. Bounds the L1 norm.
    group_inverse : float
        The same of the group inverse A#. Bounds the L1 norm.
    group_inverse_gap : float
        Half of the largest difference between an entry of the diagonal of A# and another
        of its column.
    group_inverse_entry : float
        The largest absolute entry of A#.
    ergodicity : float
        1 / (1 - tau_1(P)), infinite at tau_1 = 1. Bounds the L1 norm.
    ergodicity_of_inverse : float
        tau_1(A#) = tau_1(Z), half of the largest L1 distance between two rows. Bounds the
        L1 norm.
    first_passage : float
        Half of the expected number of steps to a state from where that takes longest, for
        the state of which it is least: half of the largest absolute row sum of the inverse
        of A without its row and column.
    relative_first_passage : float
        Half of the expected number of steps to a state from where that takes longest, over
        that of a return to it, for the state of which it is most.
    """

    fundamental: float
    group_inverse: float
    group_inverse_gap: float
    group_inverse_entry: float
    ergodicity: float
    ergodicity_of_inverse: float
    first_passage: float
    relative_first_passage: float


def condition_numbers(transition: Any) -> ConditionNumbers:
    """Return how many times further a stationary distribution may move than its chain. Not private.

    Let P and Q be the transition matrices, p and q their stationary distributions, and
    E the largest L1 distance of a row of P to the same row of Q. Then each number c of P has
    max abs(p - q) <= c E, and those that say so in `ConditionNumbers` have
    sum abs(p - q) <= c E.

    They tell about the data: no noise may be set by them. `rank_pairs` takes the fifth, with
    a bound on tau_1 that holds whatever the outcomes.

    Parameters
    ----------
    transition : sparse or dense array of floats, shape (n, n)
        Rows add up to 1; n at most 2,048.

    Returns
    -------
    ConditionNumbers
        Of float each; the relative error is about 1e-12 times the first of them.

    Raises
    ------
    TypeError, ValueError
        If `transition` is no transition matrix, has several stationary distributions, or
        too many states.
    ArithmeticError
        If the stationary distribution cannot be computed to 1e-12.

    Notes
    -----
    A = I - P, Z = (A + 1 p)^-1, and A# = Z - 1 p, 1 p being the matrix whose rows are all
    p. The expected number of steps from i to another state j is (A#[j, j] - A#[i, j]) /
    p[j], and that of a return to j is 1 / p[j]. A state of probability 0 is never come back
    to; it counts by the limit of their ratio.

    The third and the last are equal and the least of all; the second is at least the
    fourth, the sixth at most the first, the second and the fifth, and at least twice the
    third.

    Source: Cho and Meyer 2001, which says who found each; here each is computed from A#.

    Examples
    --------
    >>> from dptopk.ranking import condition_numbers
    >>> numbers = condition_numbers([[0.9, 0.1], [0.3, 0.7]])
    >>> round(numbers.ergodicity, 6), round(numbers.relative_first_passage, 6)
    (2.5, 1.25)
    """
    chain = checked_chain(transition)
    n = chain.shape[0]
    if n > MOST_STATES:
        raise ValueError(f"transition must have at most {MOST_STATES} states, got {n}")
    place = stationary_distribution(chain)
    matrix = chain.toarray()
    fundamental = linalg.inv(np.eye(n) - matrix + place)
    inverse = fundamental - place
    # How much less each entry of a column is than that of the diagonal: 0 at the state itself.
    short = np.maximum(np.diag(inverse) - inverse, 0.0)
    longest = short.max(axis=0)
    come_back = place > 0
    slowest = 1.0 - _coefficient(matrix)
    return ConditionNumbers(
        fundamental=float(np.abs(fundamental).sum(axis=1).max()),
        group_inverse=float(np.abs(inverse).sum(axis=1).max()),
        group_inverse_gap=float(longest.max() / 2),
        group_inverse_entry=float(np.abs(inverse).max()),
        ergodicity=1.0 / slowest if slowest > 0 else np.inf,
        ergodicity_of_inverse=_coefficient(inverse),
        first_passage=float((longest[come_back] / place[come_back]).min() / 2),
        relative_first_passage=float(longest.max() / 2),
    )


def _coefficient(matrix: Array) -> float:
    """Return half of the largest L1 distance between two rows."""
    block = max(1, 2**17 // matrix.shape[0])  # a Ctrl-C waits for one
    starts = range(0, matrix.shape[0], block)
    return max(
        float(distance.cdist(matrix[i : i + block], matrix[i:], "cityblock").max()) / 2
        for i in starts
    )
