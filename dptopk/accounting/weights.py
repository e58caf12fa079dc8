"""What a user with t items adds to each of them: exact integers.

A soft cap tau of at least 1 is public. By the norm "l2" a person adds
min(1, sqrt(tau / t)), so that the squares of what they add sum to at most tau;
by "l1" min(1, tau / t), so that it sums to at most tau. Both in units of
1 / ONE, rounded down: a weight rounded up would break the bound.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptopk._validate import choice, integer
from dptopk.rounding import root_up

__all__ = [
    "GRID",
    "MOST_SOFT_CAP",
    "NORMS",
    "ONE",
    "checked_weighting",
    "norm_bound",
    "weight",
    "weights",
]

ONE = 1 << 20  # the weight of a whole user
GRID = 1 << 10  # what is shown of a noisy sum is a multiple of this
NORMS = ("l2", "l1")
MOST_SOFT_CAP = 1 << 20  # ONE^2 soft_cap fits in int64


def checked_weighting(soft_cap: Any, norm: Any) -> tuple[int, str]:
    """Return a soft cap and a norm, if they are ones."""
    soft_cap = integer("soft_cap", soft_cap)
    if soft_cap > MOST_SOFT_CAP:
        raise ValueError(f"soft_cap must be at most {MOST_SOFT_CAP}, got {soft_cap}")
    return soft_cap, choice("norm", norm, NORMS)


def weight(items: int, *, soft_cap: int, norm: str = "l2") -> int:
    """Return what a person with so many items adds to each, in units of 1 / ONE.

    Parameters
    ----------
    items : int
        How many distinct items the person has, after any hard cap; at least 1.
    soft_cap : int
        tau, at least 1.
    norm : {"l2", "l1"}
        Of what a person adds in all.

    Returns
    -------
    int
        w with w <= ONE, and items w^2 <= ONE^2 tau (l2) or items w <= ONE tau (l1).

    Examples
    --------
    >>> [weight(t, soft_cap=3) for t in (1, 3, 12, 13)], weight(12, soft_cap=3, norm="l1")
    ([1048576, 1048576, 524288, 503719], 262144)
    """
    if norm == "l1":
        return min(ONE, ONE * soft_cap // items)
    return min(ONE, math.isqrt(ONE * ONE * soft_cap // items))


def weights(most: int, soft_cap: int, norm: str) -> NDArray[np.int64]:
    """Return the weights of 1, ..., most items.

    Examples
    --------
    >>> weights(4, 1, "l1").tolist()
    [1048576, 524288, 349525, 262144]
    """
    return np.array(
        [weight(t, soft_cap=soft_cap, norm=norm) for t in range(1, most + 1)], dtype=np.int64
    )


def norm_bound(soft_cap: int, norm: str, most: int | None = None) -> float:
    """Return how far one person moves the weights in the norm at most, rounded up.

    Parameters
    ----------
    soft_cap, norm
        As in `weight`.
    most : int, optional
        The most items a person has, if that is known: with fewer than tau they add 1 each.

    Examples
    --------
    >>> norm_bound(4, "l2") / ONE, norm_bound(4, "l1", 3) / ONE
    (2.0, 3.0)
    """
    cap = soft_cap if most is None else min(soft_cap, most)
    if norm == "l1":
        return float(ONE * cap)
    return ONE * root_up(cap)
