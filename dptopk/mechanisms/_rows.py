"""From the scores of many rows to the picks of each: one call of the race kernel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from dptopk import _core
from dptopk._counts import Head
from dptopk.mechanisms._select import replay
from dptopk.rng import acquire, release

__all__ = ["Rows", "select_rows", "select_rows_from"]

PICKS = 1 << 14  # of a block: some 5 to 10 ms of work


class Rows(NamedTuple):
    """What many races run over: rows of scores in order, one after the other.

    keys : int64 array, shape (m,), descending in each row; see dptk_keys in csrc/dptk.h
    items : int64 array, shape (m,); equal keys by item ascending
    offsets : int64 array, shape (n + 1,): row i is [offsets[i], offsets[i + 1]) of both
    real : whether keys are those of floats
    stop : (scores, offsets), int64 and float64 arrays of shape (n,), of a stopper in each
        row as in `select`; or None
    """

    keys: np.ndarray
    items: np.ndarray
    offsets: np.ndarray
    real: bool = False
    stop: tuple[np.ndarray, np.ndarray] | None = None

    def head(self, row: int) -> tuple[Head, tuple[int, float] | None]:
        """Return one row and its stopper, as `select` takes them."""
        some = slice(*self.offsets[row : row + 2].tolist())
        head = Head(self.keys[some], self.items[some], None, self.real)
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

    The contract: races run in order, all rows of the first pass, then all of the next.
    They are cut into blocks of ``max(1, PICKS // k)`` races, of the largest k. If there is
    one block, its races draw from the source one after the other, as a loop of
    `select_from` does. Otherwise each block draws so from a source of its own, which four
    words of the caller's determine: the first four for the first block, and so on. So
    the picks follow from the words of the source alone, however many workers there are.

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
    size = max(1, PICKS // max(1, int(np.max(k, initial=1))))
    starts = range(0, passes * n, size)

    def run(source: _core.Source, first: int) -> None:
        end = min(first + size, passes * n)
        _run(source, rows, place, picks, first, end, scale=scale, noise=noise)

    if len(starts) == 1:
        run(source, 0)
        return picks
    sources = [source.spawn() for _ in starts]
    source.begin()  # the keys of the children are forgotten
    if workers == 1:
        for child, first in zip(sources, starts, strict=True):
            run(child, first)
    else:
        with ThreadPoolExecutor(min(workers, max(1, len(starts)))) as pool:
            for _ in pool.map(run, sources, starts):
                pass
    return picks


def _run(
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
