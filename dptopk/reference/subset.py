"""Uniform subsets of a range: the readable twin of csrc/subset.c."""

from __future__ import annotations

from dptopk.reference.race import Tape

__all__ = ["subset"]


def subset(tape: Tape, first: int, n: int, m: int) -> list[int]:
    """Draw a uniform subset of m of first, ..., first + n - 1, by Floyd's method.

    Parameters
    ----------
    tape : Tape
        Where the words come from.
    first, n, m : int
        The least, how many there are, and how many to draw, m <= n.

    Returns
    -------
    list of int, shape (m,)
        In no order.
    """
    ranks: dict[int, None] = {}
    for last in range(n - m, n):
        at = first + (tape.below(last + 1) if last else 0)
        ranks[first + last if at in ranks else at] = None
    return list(ranks)
