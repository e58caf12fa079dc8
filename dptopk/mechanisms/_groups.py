"""Scores by distinct value, for mechanisms that draw ranks: `joint` and `canonical`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dptopk import _core
from dptopk._counts import head_size
from dptopk._validate import boolean
from dptopk.histogram import Histogram, known_histogram
from dptopk.mechanisms._select import outside, scores_of, scores_over
from dptopk.rng import acquire, release

__all__ = ["DEEP", "Field", "field_of"]

DEEP = 1 << 15  # how far down a head is put in order, once a pick has come from below it


class Field(NamedTuple):
    """Scores by distinct value, and how to get from ranks to items.

    keys : int64 array, descending, shape (groups,); see dptk_keys in csrc/dptk.h
    ends : int64 array: how many items score at least each
    """

    keys: np.ndarray
    ends: np.ndarray
    real: bool
    monotone: bool
    items: Callable[[_core.Source, np.ndarray], np.ndarray]
    histogram: Histogram | None
    prepared: bool = False  # whether these scores are what the histogram always gives

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return int(self.ends[-1])

    @property
    def values(self) -> Sequence[Any]:
        """The distinct scores, for exact arithmetic."""
        return scores_of(self.keys, self.real)

    def picks(
        self, ranks: Callable[[_core.Source], np.ndarray], rng: Any
    ) -> tuple[np.ndarray, bool]:
        """Draw ranks from a source, and their items; return these, and whether privately drawn."""
        source = acquire(rng)
        try:
            drawn = ranks(source)
            source.begin()  # the ranks' words are done with
            return self.items(source, drawn), source.private
        finally:
            release(source)

    def labels_of(self, items: np.ndarray) -> tuple[Any, ...] | None:
        """Return the labels of some items, or None if there are none."""
        return None if self.histogram is None else self.histogram.labels_of(items)


def field_of(counts: Any, mechanism: str, *, k: int, monotone: bool | None) -> Field:
    """Check what a mechanism over sets was given, for k picks: see `scores_over`.

    A truncated histogram of a known domain will do.
    """
    if isinstance(counts, Histogram) and counts.is_truncated:
        monotone = True if monotone is None else boolean("monotone", monotone)
        h = known_histogram(counts, mechanism, truncated=True)
        return _truncated(h, k, monotone) if h.tail is None else _of_histogram(h, k, monotone)
    scores = scores_over(counts, mechanism, monotone=monotone, k=k)
    if scores.histogram is not None and scores.column is None:
        return _of_histogram(scores.histogram, k, scores.monotone)
    column = scores.column
    assert column is not None
    keys, order, _ = _core.cut(column, column.size, watch=False)
    real = column.dtype.kind == "f"
    if real and not (scores_of(keys[:1], True)[0] - scores_of(keys[-1:], True)[0] < 2.0**1000):
        raise ValueError("counts must lie within 2**1000 of each other")
    keys, ends = _runs(keys, np.ones(keys.size, np.int64))

    def items(source: _core.Source, ranks: np.ndarray) -> np.ndarray:
        return order[ranks]

    return Field(keys, ends, real, scores.monotone, items, scores.histogram)


def _of_histogram(h: Histogram, k: int, monotone: bool) -> Field:
    _check_k(k, len(h))
    head = h.head(head_size(len(h), 1))[1]  # here, for a bad count is an error at the door
    keys, ends = h.groups[0], h.group_ends

    def items(source: _core.Source, ranks: np.ndarray) -> np.ndarray:
        deepest = int(ranks.max())
        if deepest < head.size:
            return head[ranks]
        deep = h.head(min(DEEP, len(h)))[1] if deepest < DEEP else head
        return _core.items(source, ranks, keys, ends, deep, h.tail)

    return Field(keys, ends, False, monotone, items, h, prepared=True)


def _truncated(h: Histogram, k: int, monotone: bool) -> Field:
    """Take what was left out for as large as it can be; those items are all alike."""
    kept, head, next_count = h.cut(h.k_bar or 0)
    n_items = h.n_items or 0
    _check_k(k, n_items)
    sizes = np.append(np.ones(kept.size, np.int64), n_items - kept.size)
    keys, ends = _runs(np.append(kept, next_count), sizes)

    def items(source: _core.Source, ranks: np.ndarray) -> np.ndarray:
        return outside(head, ranks)

    return Field(keys, ends, False, monotone, items, h, prepared=True)


def _check_k(k: int, n_items: int) -> None:
    if k > n_items:
        raise ValueError(f"k must be at most the number of items, {n_items}; got {k}")


def _runs(keys: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct keys of a descending array, and how many items come up to each."""
    last = np.append(keys[1:] != keys[:-1], True).nonzero()[0]
    return keys[last], np.cumsum(sizes)[last]
