"""From the scores of many rows to the picks of each: one call of the race kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from dptopk import _core
from dptopk._counts import Head
from dptopk.mechanisms._select import FEW, better_size, enough, first_size, floats_of, replay
from dptopk.rng import acquire, release

__all__ = [
    "Rows",
    "Table",
    "in_blocks",
    "race_rows",
    "select_rows",
    "select_rows_from",
    "sorted_rows",
]

PICKS = 1 << 14  # of a block: some 5 to 10 ms of work


class Table(NamedTuple):
    """All scores of each row: a table, or with bounds parts of one array, as in `sorted_rows`."""

    values: np.ndarray
    bounds: np.ndarray | None

    def row(self, i: int) -> np.ndarray:
        """Return those of a row."""
        if self.bounds is None:
            return self.values[i]
        return self.values[self.bounds[i] : self.bounds[i + 1]]


class Rows(NamedTuple):
    """What many races run over: rows of scores in order, one after the other.

    keys : int64 array, shape (m,), descending in each row; see dptk_keys in csrc/dptk.h
    items : int64 array, shape (m,); equal keys by item ascending
    offsets : int64 array, shape (n + 1,): row i is [offsets[i], offsets[i + 1]) of both
    real : whether keys are those of floats
    stop : (scores, offsets), int64 and float64 arrays of shape (n,), of a stopper in each
        row as in `select`; or None
    tails : for each row an array of all its scores, or None if all are in `keys`; or a
        Table of all scores; or None if all of every row are in `keys`
    """

    keys: np.ndarray
    items: np.ndarray
    offsets: np.ndarray
    real: bool = False
    stop: tuple[np.ndarray, np.ndarray] | None = None
    tails: Sequence[np.ndarray | None] | Table | None = None

    @classmethod
    def of(cls, head: Head, stop: tuple[int, float] | None) -> Rows:
        """Return one row, of what `select` takes."""
        offsets = np.array([0, head.keys.size])
        stops = stop and (np.array(stop[:1]), np.array(stop[1:], np.float64))
        tails = None if head.tail is None else [head.tail]
        return cls(head.keys, head.items, offsets, head.real, stops, tails)

    def head(self, row: int) -> tuple[Head, tuple[int, float] | None]:
        """Return one row and its stopper, as `select` takes them."""
        some = slice(*self.offsets[row : row + 2].tolist())
        keys, tails = self.keys[some], self.tails
        tail: np.ndarray | None
        if isinstance(tails, Table):
            tail = tails.row(row)
            tail = tail if tail.size > keys.size else None
        else:
            tail = None if tails is None else tails[row]
        head = Head(keys, self.items[some], tail, self.real)
        return head, self.stop and (int(self.stop[0][row]), float(self.stop[1][row]))


def select_rows(
    rows: Rows,
    *,
    k: int | np.ndarray,
    scale: float,
    rng: Any,
    noise: str = "gumbel",
    passes: int = 1,
    workers: int = 1,
) -> tuple[np.ndarray, bool]:
    """Return the k picks of every row, as `select` draws them, and whether privately drawn.

    The contract: races run in order, all rows of the first pass, then all of the next, in
    the blocks of `in_blocks`, of the largest k. In a block, each race draws the words
    that follow those of the one before, as a loop of `select_from` does.

    Parameters
    ----------
    rows : Rows
        Checked by the caller.
    k : int, or int64 array of shape (n,)
        How many picks a row, at least 0.
    scale, rng, noise
        As in `select`.
    passes : int, default 1
        How many times to draw from each row.
    workers : int, default 1
        How many threads share the blocks.

    Returns
    -------
    picks : int64 array, shape (passes * sum of all k,)
        Each race has k places, one after the other. A stopper that is picked, and every
        place that is left, is ``_core.STOP``. With one k: ``picks.reshape(-1, k)``.
    private : bool
    """
    source = acquire(rng)
    try:
        picks = select_rows_from(
            source, rows, k=k, scale=scale, noise=noise, passes=passes, workers=workers
        )
        return picks, source.private
    finally:
        release(source)


def select_rows_from(
    source: _core.Source,
    rows: Rows,
    *,
    k: int | np.ndarray,
    scale: float,
    noise: str = "gumbel",
    passes: int = 1,
    workers: int = 1,
) -> np.ndarray:
    """Return the picks by the words of a source that is at the first word of a call."""
    n = rows.offsets.size - 1
    place = np.zeros(n + 1, np.int64)
    np.cumsum(np.broadcast_to(k, (n,)), out=place[1:])
    picks = np.empty(passes * int(place[-1]), np.int64)

    def run(source: _core.Source, first: int, end: int) -> None:
        race_rows(source, rows, place, picks, first, end, scale=scale, noise=noise)

    in_blocks(source, passes * n, int(np.max(k, initial=1)), workers, run)
    return picks


def in_blocks(
    source: _core.Source,
    races: int,
    k: int,
    workers: int,
    run: Callable[[_core.Source, int, int], None],
) -> None:
    """Call ``run(source, first, end)`` for blocks of races with k picks each, in threads.

    A block is ``max(1, PICKS // k)`` races. If there is one, it draws from the source
    itself. Otherwise each draws from a source of its own, which four words of this one
    determine: the first four for the first block, and so on. So what is drawn follows
    from the words of the source alone, however many workers there are.
    """
    size = max(1, PICKS // max(1, k))
    firsts = range(0, races, size)
    ends = [min(first + size, races) for first in firsts]
    if len(firsts) == 1:
        run(source, 0, races)
        return

    def children() -> Iterator[_core.Source]:
        for _ in firsts:
            yield source.spawn()
            source.begin()  # the child's key is forgotten

    if workers == 1:
        for each in zip(children(), firsts, ends, strict=True):
            run(*each)
        return
    with ThreadPoolExecutor(min(workers, max(1, len(firsts)))) as pool:
        for _ in pool.map(run, children(), firsts, ends):
            pass


def race_rows(
    source: _core.Source,
    rows: Rows,
    place: np.ndarray,
    picks: np.ndarray,
    done: int,
    end: int,
    *,
    scale: float,
    noise: str,
) -> None:
    """Draw the races [done, end) from a source that is at the first word of a call."""
    stop_keys, stop_offsets = rows.stop if rows.stop is not None else (None, None)
    while True:
        done, undecided = _core.race_rows(
            source,
            rows.keys,
            rows.items,
            rows.offsets,
            place,
            scale,
            _core.NOISES[noise],
            rows.real,
            rows.stop is not None,
            stop_keys,
            stop_offsets,
            rows.tails,
            picks,
            done,
            end,
        )
        source.begin()
        if not undecided:
            return
        sweep, row = divmod(done, place.size - 1)
        head, stop = rows.head(row)
        first = sweep * int(place[-1]) + int(place[row])
        k = int(place[row + 1] - place[row])
        found = replay(source, head, k=k, scale=scale, noise=noise, stop=stop)
        picks[first : first + k] = _core.STOP
        picks[first : first + found.size] = found
        source.begin()
        done += 1


def sorted_rows(
    values: np.ndarray, bounds: np.ndarray, first: int, end: int, *, k: int, scale: float
) -> Rows:
    """Cut the rows [first, end) of scores for k picks at a noise scale.

    Row i is ``values[bounds[i]:bounds[i + 1]]``, or if the values have two dimensions
    ``values[i]``. Each is cut as `head_of_scores` does.
    """
    flat, real = values.ndim == 1, values.dtype.kind == "f"
    bounds = bounds[first : end + 1]
    lengths = np.diff(bounds)
    kinds, which = np.unique(lengths, return_inverse=True)
    sizes = np.array([first_size(n, k) for n in kinds.tolist()], np.int64)[which]
    keys, items = _core.cut_rows(
        values if flat else values[first:end], sizes, bounds if flat else None
    )
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    some = (sizes < lengths).nonzero()[0]
    if not some.size:
        return Rows(keys, items, offsets, real)
    table = Table(values, bounds) if flat else Table(values[first:end], None)
    limits = np.array([enough(max(1, n), first_size(n, k)) for n in kinds.tolist()])[which[some]]
    with np.errstate(over="ignore"):
        kth, last = (floats_of(keys[offsets[some] + at], real) for at in (k - 1, sizes[some] - 1))
        short = some[(kth - last) / scale < limits]
    if not short.size:
        return Rows(keys, items, offsets, real, None, table)
    better = np.where(lengths[short] <= FEW, lengths[short], sizes[short])
    for at in (lengths[short] > FEW).nonzero()[0].tolist():  # each has many scores to look at
        row = short[at]
        head = keys[offsets[row] : offsets[row + 1]]
        size = better_size(head, table.row(row), k=k, scale=scale, real=real)
        better[at] = max(size, head.size)
    again = np.zeros_like(sizes)
    again[short] = np.where(better > sizes[short], better, 0)
    larger = _core.cut_rows(values if flat else values[first:end], again, bounds if flat else None)
    old, sizes = sizes, np.maximum(sizes, again)
    kept, new = np.repeat(again == 0, old), np.repeat(again > 0, sizes)
    np.cumsum(sizes, out=offsets[1:])
    both = np.empty((2, int(offsets[-1])), np.int64)
    for to, before, after in zip(both, (keys, items), larger, strict=True):
        to[new], to[~new] = after, before[kept]
    return Rows(both[0], both[1], offsets, real, None, table)
