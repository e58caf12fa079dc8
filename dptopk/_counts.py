"""Counts in order: the head of a big array, and its counts of counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dptopk import _core

__all__ = ["CLIP", "HEAD", "Head", "cut_counts", "group", "head_size"]

HEAD = 1024  # how many items are kept in order, at least
# Counts of counts come from a table of up to this span, from sorting past it.
TABLE = 1 << 20
CLIP = 32_767  # where the kernel that counts clips its copy


def head_size(n: int, k: int) -> int:
    """Return how many of n items to keep in order for k picks: all, if few more."""
    size = max(HEAD, 8 * k)
    return n if size >= n // 2 else size


class Head(NamedTuple):
    """The largest scores in order, and where all the others are.

    keys : int64 array, shape (m,), descending; see dptk_keys in csrc/dptk.h
    items : int64 array, shape (m,); equal keys by item ascending
    tail : array of all scores, or None if the head is all there is
    real : whether keys are those of floats
    """

    keys: np.ndarray
    items: np.ndarray
    tail: np.ndarray | None
    real: bool


def cut_counts(column: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the m largest counts, descending, and their items; ties by item."""
    counts, items, negative = _core.cut(column, m)
    if negative:
        raise ValueError("counts must not be negative")
    return counts, items


def group(
    column: np.ndarray, head: np.ndarray, copy: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct counts, descending, with their multiplicities; fill in the copy.

    Those up to the head's smallest come from a table, larger ones from the
    head, which is sorted and has them all.
    """
    if not head.size:
        return head, head
    span = int(head[-1]) + 1
    if span > TABLE:
        return _runs(np.sort(column)[::-1].astype(np.int64))
    table = _core.count_keys(column, span, copy)
    values, sizes = _runs(head[: np.count_nonzero(head >= span)])
    small = table.nonzero()[0][::-1]
    return np.concatenate((values, small)), np.concatenate((sizes, table[small]))


def _runs(down: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of a descending array and the lengths of their runs."""
    last = np.append(down[1:] != down[:-1], True).nonzero()[0] if down.size else down
    return down[last], np.diff(last, prepend=-1)
