"""Domains of numbered items, of which none need be in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dptopk._validate import integer, labels_array

__all__ = ["LabelsByNumber", "item_numbers", "with_zeros"]


class LabelsByNumber(Sequence[Any]):
    """The names of items 0 .. n - 1, each made when it is asked for."""

    def __init__(self, label_of: Callable[[int], Any], n: int):
        if not callable(label_of):
            raise TypeError(f"label_of must be callable, got {type(label_of).__name__}")
        self._label_of = label_of
        self._n = n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, item: Any) -> Any:
        if not 0 <= item < self._n:
            raise IndexError(f"items are 0 to {self._n - 1}")
        label = self._label_of(item)
        if type(label) not in (str, int):  # what a ledger can record, whatever is picked
            raise TypeError(
                f"label_of must return a text or an integer, got {type(label).__name__}"
            )
        return label


def item_numbers(labels: Any, rows: int, n_items: int) -> np.ndarray:
    """Return the numbers of the items of some rows."""
    if n_items > 2**53:
        raise ValueError(f"n_items must be at most 2**53, got {n_items}")
    names = labels_array(labels, rows)
    if names is None:
        raise TypeError("labels must be given: the numbers of the items")
    if isinstance(names, np.ndarray) and names.dtype.kind == "i" and names.size:
        integer("a label", int(names.min()), minimum=0)
        items = names.astype(np.int64)
    else:
        items = np.array([integer("a label", name, minimum=0) for name in names], np.int64)
    if items.size and items.max() >= n_items:
        raise ValueError("labels must be below n_items: they are the numbers of items")
    return items


def with_zeros(counts: np.ndarray, items: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Add the first items that nobody has, until there are `size`.

    They are in the domain as all others: how many of the rows have users is data, and who
    can move into the top is counted on.
    """
    lacking = size - items.size
    if lacking <= 0:
        return counts, items
    free = np.setdiff1d(np.arange(size), items)[:lacking]  # at least so many are not taken
    return np.append(counts, np.zeros(lacking, np.int64)), np.append(items, free)
