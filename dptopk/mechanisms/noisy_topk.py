"""The raw noise-and-select kernel, for those who calibrate by hand."""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from dptopk import _core
from dptopk._argtopk import AxisError, RaggedIndices, row_bounds
from dptopk._types import Noise, Numbers
from dptopk._validate import choice, integer, positive, scores_array
from dptopk.mechanisms import _drawn
from dptopk.mechanisms._rows import Table, in_blocks, race_rows, select_rows_from, sorted_rows
from dptopk.mechanisms._select import head_of_scores, replay, select_from
from dptopk.rng import Rng, acquire, release

__all__ = ["noisy_topk"]

PLAIN = "bhilqBHILQfd"  # dtypes, by their characters, that the kernels take as they are
CHUNK = 1 << 16  # scores that are put in order at a time: they stay in the cache
DRAWN = 1 << 12  # up to so many scores all Gumbel noise is drawn


@overload
def noisy_topk(
    scores: Numbers,
    k: int,
    *,
    scale: float,
    noise: Noise = ...,
    axis: int | None = ...,
    size: int | tuple[int, ...] | None = ...,
    offsets: None = ...,
    workers: int = ...,
    rng: Rng | None = ...,
) -> np.ndarray: ...
@overload
def noisy_topk(
    scores: Numbers,
    k: int,
    *,
    scale: float,
    noise: Noise = ...,
    axis: int | None = ...,
    size: int | tuple[int, ...] | None = ...,
    offsets: npt.ArrayLike,
    workers: int = ...,
    rng: Rng | None = ...,
) -> RaggedIndices: ...
def noisy_topk(
    scores: Numbers,
    k: int,
    *,
    scale: float,
    noise: Noise = "gumbel",
    axis: int | None = -1,
    size: int | tuple[int, ...] | None = None,
    offsets: npt.ArrayLike | None = None,
    workers: int = 1,
    rng: Rng | None = None,
) -> np.ndarray | RaggedIndices:
    """Return the indices of the k largest of scores + noise, largest first.

    The drop-in for ``np.argpartition(-(scores + rng.gumbel(scale=scale, ...)), k)``:
    same law, but of many scores most noise is never drawn, the
    order is exactly that of real-valued noise (no rounding, no overflow), and
    the bits are secure by default.

    Parameters
    ----------
    scores : array of any integer or float dtype, of one or more dimensions
        Finite scores, in any order.
    k : int
        How many to pick, at least 1 and at most what there is along the axis.
    scale : float
        Scale of the noise, in units of the scores.
    noise : {"gumbel", "exponential", "laplace", "gaussian", "uniform"}
        Law of the noise. The scale is the b of Gumbel and Laplace noise, the
        mean of exponential noise, the standard deviation of Gaussian noise,
        half the range of uniform noise.
    axis : int or None, default -1
        The axis to pick along, all other axes make rows with noise of their own; None
        takes all scores as one row, in C order.
    size : int or tuple of int, optional
        How many independent draws to make, as in NumPy: faster than as many calls,
        as the scores are put in order once. They read other words than as many calls.
    offsets : array_like of int, shape (rows + 1,), optional
        Ragged rows in place of an axis: `scores` has one dimension, and row i is
        ``scores[offsets[i]:offsets[i + 1]]``. A row of fewer than k items gives them all.
    workers : int, default 1
        How many threads share the rows and draws. It changes no pick.
    rng : optional
        None for secure randomness; `SeededRng` or a `numpy.random.Generator`
        for experiments, which are not private.

    Returns
    -------
    numpy.ndarray of int64
        The shape of the scores with k in place of the length of the axis, after
        the dimensions of `size`: (k,) for one row and no size. Indices are along the
        axis, as `numpy.take_along_axis` takes them. With offsets a pair (indices,
        offsets): positions in `scores`, and where those of each row are among them.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If k, the scale, the size or the offsets are out of range, or a score is
        NaN or infinite. ``AxisError``, which is one, if the axis is.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **No guarantee**: this does no accounting. Gumbel noise of scale s/e on
    scores of sensitivity s that move all one way (counts) makes k picks out of
    k steps that are each e-bounded-range; of scale 2s/e on other scores. Rows and draws
    add up: each is k steps more for a user who moves it.

    Cost: one pass over the scores, then time in k alone. Of up to a few thousand
    scores, and where a good part of many scores are nearly as large as the k-th,
    some bits of all Gumbel noise are drawn, 0.5 to 2 ns a score; other noise takes
    more passes there. The array must not change during the call.

    Examples
    --------
    >>> import numpy as np
    >>> import dptopk as dp
    >>> dp.noisy_topk(np.array([5, 900, 2, 700, 1]), 2, scale=1.0)
    array([1, 3])
    >>> dp.noisy_topk(np.array([[5, 900], [700, 1]]), 1, scale=1.0, size=3)[..., 0]
    array([[1, 0],
           [1, 0],
           [1, 0]])
    >>> dp.noisy_topk(np.array([5, 900, 7]), 2, scale=1.0, offsets=[0, 2, 3])
    RaggedIndices(indices=array([1, 0, 2]), offsets=array([0, 2, 3]))
    """
    plain = (
        type(scores) is np.ndarray
        and scores.ndim == 1
        and scores.size > 0
        and scores.dtype.char in PLAIN
        and scores.dtype.isnative
        and size is None
        and offsets is None
        and (axis is None or (type(axis) is int and axis in (0, -1)))
    )
    given: Any = scores
    array: np.ndarray = given if plain else scores_array("scores", scores, many=True)
    k = integer("k", k)
    scale = positive("scale", scale)
    noise = choice("noise", noise, _core.NOISES)
    workers = integer("workers", workers)
    if plain:
        _check_k(k, array.size)
        if noise == "gumbel" or array.size <= _core.FEW:
            picks = _of_one(array, k, scale, noise, rng, checked=False)
            if picks is not None:
                return picks
        array = scores_array("scores", scores)  # says what is not finite
    if axis is None:
        array, axis = array.ravel(), -1
    axis = _axis(axis, array.ndim)
    if array.ndim == 1 and size is None and offsets is None:
        _check_k(k, array.size)
        picks = _of_one(array, k, scale, noise, rng)
        assert picks is not None
        return picks
    draws = _shape(size)
    shape: tuple[int, ...] = ()
    if offsets is not None:
        if array.ndim != 1:
            raise ValueError("scores must have one dimension, if there are offsets")
        rows, bounds = array, row_bounds(offsets, array.size)
    else:
        across = np.moveaxis(array, axis, -1)
        shape = across.shape[:-1]
        _check_k(k, across.shape[-1])
        rows = across.reshape(math.prod(shape), across.shape[-1])
        bounds = np.arange(rows.shape[0] + 1) * rows.shape[1]
    place = np.zeros_like(bounds)
    np.cumsum(np.minimum(np.diff(bounds), k), out=place[1:])
    source = acquire(rng)
    try:
        picks = _draw(source, rows, bounds, place, k, scale, noise, math.prod(draws), workers)
    finally:
        release(source)
    if offsets is not None:
        picks += np.repeat(bounds[:-1], np.diff(place))
        return RaggedIndices(picks.reshape(*draws, place[-1]), place)
    return np.moveaxis(picks.reshape(*draws, *shape, k), -1, axis - array.ndim)


def _of_one(
    array: np.ndarray, k: int, scale: float, noise: Noise, rng: Rng | None, checked: bool = True
) -> np.ndarray | None:
    source = acquire(rng)
    try:
        return _from_one(source, array, k, scale, noise, checked)
    finally:
        release(source)


def _from_one(
    source: _core.Source, array: np.ndarray, k: int, scale: float, noise: Noise, checked: bool
) -> np.ndarray | None:
    """Return the picks of one row, by the words of a source at the first word of a call.

    None, before a word is read, if the scores are not `checked` and there is need to.
    """
    n = array.size
    if noise == "gumbel":
        try:
            part = _drawn.part_to_draw(array, k=k, scale=scale) if n > DRAWN else None
        except _drawn.NotFiniteError:
            if checked:
                raise RuntimeError(_core.CHANGED) from None
            return None
        if isinstance(part, _drawn.Sieve) and not checked and not source.private:
            # It would be seen after words were read, which a generator does not take back.
            if not _core.finite(array):
                return None
            checked = True
        picks = _drawn.pick(source, array, part, k=k, scale=scale)
        if picks is None:
            return _drawn.replay(source, array, part, k=k, scale=scale)
        if picks is not False:
            return picks
    elif not checked and n <= _core.FEW:
        picks = _core.race_few(source, array, k, scale, _core.NOISES[noise])
        if picks is None:
            head = head_of_scores(array, k=k, scale=scale)
            return replay(source, head, k=k, scale=scale, noise=noise)
        if picks is not False:
            return picks
    if not checked:
        return None
    head = head_of_scores(array, k=k, scale=scale)
    return select_from(source, head, k=k, scale=scale, noise=noise)


def _draw(
    source: _core.Source,
    values: np.ndarray,
    bounds: np.ndarray,
    place: np.ndarray,
    k: int,
    scale: float,
    noise: Noise,
    passes: int,
    workers: int,
) -> np.ndarray:
    """Return the picks of all rows in every pass: (passes, place[-1]).

    For one pass each row is put in order just before its race, and not kept.
    """
    n, sizes = bounds.size - 1, np.diff(place)
    if passes != 1:
        rows = sorted_rows(values, bounds, 0, n, k=k, scale=scale)
        picks = select_rows_from(
            source, rows, k=sizes, scale=scale, noise=noise, passes=passes, workers=workers
        )
        return picks.reshape(passes, place[-1])
    picks = np.empty((1, place[-1]), np.int64)
    some = max(1, CHUNK * n // max(1, values.size))

    def run(source: _core.Source, first: int, end: int) -> None:
        if noise == "gumbel":
            _draw_rows(source, values, bounds, place, picks[0], first, end, scale)
            return
        for start in range(first, end, some):
            stop = min(start + some, end)
            rows = sorted_rows(values, bounds, start, stop, k=k, scale=scale)
            here = place[start : stop + 1] - place[start]
            out = picks[0, place[start] : place[stop]]
            race_rows(source, rows, here, out, 0, stop - start, scale=scale, noise=noise)

    in_blocks(source, n, int(sizes.max(initial=1)), workers, run)
    return picks


def _draw_rows(
    source: _core.Source,
    values: np.ndarray,
    bounds: np.ndarray,
    place: np.ndarray,
    picks: np.ndarray,
    done: int,
    end: int,
    scale: float,
) -> None:
    """Pick from the rows [done, end) as `_from_one` does from each, by words in turn."""
    table = Table(values, None if values.ndim == 2 else bounds)
    while True:
        done = _core.draw_rows(source, values, bounds, place, scale, DRAWN, picks, done, end)
        source.begin()
        if done == end:
            return
        out = picks[place[done] : place[done + 1]]
        out[:] = _from_one(source, table.row(done), out.size, scale, "gumbel", True)
        source.begin()
        done += 1


def _axis(axis: Any, dims: int) -> int:
    """Return an axis from 0 on."""
    axis = integer("axis", axis, minimum=-(2**63))
    if not -dims <= axis < dims:
        raise AxisError(axis, dims)
    return axis % dims


def _check_k(k: int, most: int) -> None:
    if k > most:
        raise ValueError(f"k must be at most the number of scores, got {k}")


def _shape(size: Any) -> tuple[int, ...]:
    """Return the shape that `size` means, as NumPy reads it."""
    if size is None:
        return ()
    if isinstance(size, tuple):
        return tuple(integer("size", part, minimum=0) for part in size)
    return (integer("size", size, minimum=0),)
