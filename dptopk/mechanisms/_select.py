"""From scores to picks: the race kernel, and its exact replay when it can't decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dptopk import _core
from dptopk._counts import Head, head_size
from dptopk.reference import race as exact
from dptopk.rng import acquire, release

__all__ = ["scored_head", "select"]


def scored_head(array: np.ndarray, k: int) -> Head:
    """Cut an array of scores for k picks."""
    m = head_size(array.size, k)
    keys, items, _ = _core.cut(array, m)
    return Head(keys, items, array if m < array.size else None, array.dtype.kind == "f")


def select(
    head: Head,
    *,
    k: int,
    scale: float,
    rng: Any,
    noise: str = "gumbel",
    offsets: np.ndarray | None = None,
    stop: tuple[int, float] | None = None,
) -> tuple[np.ndarray, bool]:
    """Return the k items with the largest score/scale + noise, and whether privately drawn.

    `offsets` are added to the scores, in units of the scale; `stop` is the
    (score, offset) of a stopper, which ends the picks as ``_core.STOP``.
    """
    stop_key, stop_offset = stop if stop is not None else (0, 0.0)
    source = acquire(rng)
    try:
        picks = _core.race(
            source,
            head.keys,
            head.items,
            k,
            scale,
            _core.NOISES[noise],
            head.real,
            head.tail,
            offsets,
            stop is not None,
            stop_key,
            stop_offset,
        )
        if picks is None:
            source.rewind()
            tape = exact.Tape(source.read, source.fresh)
            things = exact_field(head, offsets=offsets, stop=stop)
            picks = np.array(
                exact.race(tape, things, k=k, scale=scale, noise=noise), dtype=np.int64
            )
        return picks, source.private
    finally:
        release(source)


class Tail(Sequence[int | float]):
    """The scores of all items as Python numbers, each made when it is looked at."""

    def __init__(self, column: np.ndarray, real: bool):
        self._column = column
        self._real = real

    def __len__(self) -> int:
        return self._column.size

    def __getitem__(self, item: Any) -> Any:
        keys = _core.keys(self._column[item : item + 1])
        return scores_of(keys, self._real)[0]


def scores_of(keys: np.ndarray, real: bool) -> list[Any]:
    """Return the scores that have these keys, as Python numbers."""
    if not real:
        return keys.tolist()
    return np.where(keys >= 0, keys, keys ^ np.int64(2**63 - 1)).view(np.float64).tolist()


def exact_field(
    head: Head, *, offsets: np.ndarray | None, stop: tuple[int, float] | None
) -> exact.Field:
    """Return the same scores for `dptopk.reference.race`, as Python numbers."""
    return exact.Field(
        scores=scores_of(head.keys, head.real),
        items=head.items.tolist(),
        offsets=None if offsets is None else offsets.tolist(),
        tail=None if head.tail is None else Tail(head.tail, head.real),
        stop=stop,
    )
