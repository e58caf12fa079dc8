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


def exact_field(
    head: Head, *, offsets: np.ndarray | None, stop: tuple[int, float] | None
) -> exact.Field:
    """Return the same scores for `dptopk.reference.race`, as Python numbers."""

    def scores(keys: np.ndarray) -> Sequence[int | float]:
        if not head.real:
            return keys.tolist()
        return np.where(keys >= 0, keys, keys ^ np.int64(2**63 - 1)).view(np.float64).tolist()

    return exact.Field(
        scores=scores(head.keys),
        items=head.items.tolist(),
        offsets=None if offsets is None else offsets.tolist(),
        tail=None if head.tail is None else scores(_core.keys(head.tail)),
        stop=stop,
    )
