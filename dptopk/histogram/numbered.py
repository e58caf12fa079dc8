"""Domains of numbered items, of which none need be in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dptopk._validate import integer, labels_array

__all__ = ["LabelsByNumber", "item_numbers"]


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
        return self._label_of(item)


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
