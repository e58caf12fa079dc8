"""The k largest of an array, of its rows or of ragged rows: exact, without noise."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from dptopk import _core
from dptopk._dense import dense
from dptopk._validate import boolean, choice, integer

try:
    from numpy.exceptions import AxisError
except ImportError:  # NumPy before 1.25
    from numpy import AxisError  # type: ignore[no-redef,attr-defined]

__all__ = ["RaggedIndices", "RaggedTopK", "TopK", "argtopk", "topk"]

Indices = npt.NDArray[np.int64]
#: What has no type of its own to state: lists, arrays of other libraries.
ArrayLike = Any


class TopK(NamedTuple):
    """What `topk` returns: the values, and where they are."""

    values: npt.NDArray[Any]
    indices: Indices


class RaggedIndices(NamedTuple):
    """What `argtopk` returns of ragged rows: those of row i are at offsets[i]:offsets[i + 1]."""

    indices: Indices
    offsets: Indices


class RaggedTopK(NamedTuple):
    """What `topk` returns of ragged rows: those of row i are at offsets[i]:offsets[i + 1]."""

    values: npt.NDArray[Any]
    indices: Indices
    offsets: Indices


@overload
def argtopk(
    a: ArrayLike,
    k: int,
    axis: int | None = ...,
    largest: bool = ...,
    sorted: bool = ...,
    *,
    nan: Literal["error", "last"] = ...,
    offsets: None = ...,
    workers: int = ...,
) -> Indices: ...
@overload
def argtopk(
    a: ArrayLike,
    k: int,
    axis: int | None = ...,
    largest: bool = ...,
    sorted: bool = ...,
    *,
    nan: Literal["error", "last"] = ...,
    offsets: npt.ArrayLike,
    workers: int = ...,
) -> RaggedIndices: ...
def argtopk(
    a: ArrayLike,
    k: int,
    axis: int | None = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    nan: Literal["error", "last"] = "error",
    offsets: npt.ArrayLike | None = None,
    workers: int = 1,
) -> Indices | RaggedIndices:
    """Return the indices of the k largest elements, largest first, equal ones by index.

    A drop-in for ``np.argpartition`` followed by ``np.argsort``, with a fixed
    order of ties and without the collapse of ``np.argpartition`` when most
    elements are equal, as real counts are. It reads the array about once,
    whatever its order, and releases the GIL meanwhile. Not private: it is the
    exact answer.

    Parameters
    ----------
    a : array_like
        Booleans, integers or floats of up to 64 bits, of any shape, strides
        and byte order; or an array of another library in the memory of the
        CPU (by ``__dlpack__`` or ``__array__``, without a copy where that
        library has none to make). Subclasses of ``ndarray`` are refused, but
        for ``memmap``. ``-0.0`` and ``0.0`` are equal.
    k : int
        How many, from 0 to the length of the axis.
    axis : int or None, default -1
        The axis to select along; None takes all elements, in C order.
    largest : bool, default True
        False asks for the k least, least first, equal ones by index too.
    sorted : bool, default True
        False gives the same elements in order of their index, which is faster.
    nan : {"error", "last"}
        "last" puts NaN behind all numbers, the largest and the least: it comes
        out only where fewer than k numbers are, in order of index.
    offsets : array_like of int, shape (rows + 1,), optional
        Ragged rows in place of an axis: ``a`` has one dimension, and row i is
        ``a[offsets[i]:offsets[i + 1]]``. A row of fewer than k elements gives
        them all.
    workers : int, default 1
        Threads that share the rows.

    Returns
    -------
    ndarray of int64
        The shape of ``a`` with k in place of the length of the axis, as
        ``np.take_along_axis`` takes it. In one dimension the same as
        ``np.lexsort((np.arange(n), -a))[:k]`` (where negation does not
        overflow). With offsets a pair (indices, offsets): positions in ``a``,
        and where those of each row are among them.

    Raises
    ------
    TypeError
        If a holds anything but real numbers, or is not on the CPU; or an
        argument is of the wrong kind.
    ValueError
        If a contains NaN and ``nan="error"``, or nulls; or k or an offset is
        out of bounds. ``AxisError``, which is one, if axis is.

    See Also
    --------
    topk : the values too.

    Examples
    --------
    >>> import numpy as np
    >>> import dptopk as dp
    >>> dp.argtopk(np.array([1, 7, 1, 9, 7, 1]), 4)
    array([3, 1, 4, 0])
    >>> dp.argtopk([[3, 1, 2], [4, 6, 5]], 2)
    array([[0, 2],
           [1, 2]])
    >>> dp.argtopk([3, 1, 2, 4, 6, 5], 2, offsets=[0, 1, 1, 6])
    RaggedIndices(indices=array([0, 4, 5]), offsets=array([0, 1, 1, 3]))
    """
    done = _core.topk_at_once(a, k, axis, largest, sorted, nan, offsets, workers, False)
    if done is not None:
        return done[1]
    order = _order(largest, sorted, nan)
    if offsets is not None:
        return RaggedIndices(*_ragged(a, k, axis, order, offsets, workers, valued=False)[1:])
    return _along(a, k, axis, order, workers, valued=False)[1]


@overload
def topk(
    a: ArrayLike,
    k: int,
    axis: int | None = ...,
    largest: bool = ...,
    sorted: bool = ...,
    *,
    nan: Literal["error", "last"] = ...,
    offsets: None = ...,
    workers: int = ...,
) -> TopK: ...
@overload
def topk(
    a: ArrayLike,
    k: int,
    axis: int | None = ...,
    largest: bool = ...,
    sorted: bool = ...,
    *,
    nan: Literal["error", "last"] = ...,
    offsets: npt.ArrayLike,
    workers: int = ...,
) -> RaggedTopK: ...
def topk(
    a: ArrayLike,
    k: int,
    axis: int | None = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    nan: Literal["error", "last"] = "error",
    offsets: npt.ArrayLike | None = None,
    workers: int = 1,
) -> TopK | RaggedTopK:
    """Return the k largest elements, largest first, equal ones by index, and their indices.

    Not private: it is the exact answer.

    Parameters
    ----------
    a, k, axis, largest, sorted, nan, offsets, workers
        See `argtopk`, which has the indices alone.

    Returns
    -------
    TopK
        ``values``, of the type of ``a`` in native byte order, and ``indices``,
        of its shape with k in place of the length of the axis. With offsets a
        RaggedTopK: ``values``, ``indices`` (positions in ``a``) and
        ``offsets``, where those of each row are among them.

    Raises
    ------
    TypeError, ValueError
        As `argtopk` does.

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.topk([1.5, 7.0, -2.0, 9.0], 2)
    TopK(values=array([9., 7.]), indices=array([3, 1]))
    >>> dp.topk([1.5, 7.0, -2.0, 9.0], 1, largest=False).values
    array([-2.])
    """
    done = _core.topk_at_once(a, k, axis, largest, sorted, nan, offsets, workers, True)
    if done is not None:
        return TopK(*done)
    order = _order(largest, sorted, nan)
    if offsets is not None:
        return RaggedTopK(*_ragged(a, k, axis, order, offsets, workers, valued=True))
    return TopK(*_along(a, k, axis, order, workers, valued=True))


def _order(largest: bool, sorted: bool, nan: str) -> int:
    order = 0 if boolean("largest", largest) else _core.LEAST
    if not boolean("sorted", sorted):
        order |= _core.UNSORTED
    return order | _core.NAN_LAST if choice("nan", nan, ("error", "last")) == "last" else order


def _along(
    a: ArrayLike, k: int, axis: int | None, order: int, workers: int, *, valued: bool
) -> tuple[Any, Indices]:
    """Return values, or None unless asked for, and indices along an axis."""
    array = dense("a", a)
    if axis is None:
        array, axis = array.ravel(), -1
    elif not isinstance(axis, int):
        axis = _axis(axis)
    dims = array.ndim
    if not -dims <= axis < dims:
        raise AxisError(axis, dims)
    n = array.shape[axis]
    k = integer("k", k, minimum=0)
    if k > n:
        raise ValueError(f"k must be at most the length of the axis, {n}, got {k}")
    workers = integer("workers", workers)
    if k == 0:
        _refuse_nan(array, order)
    if dims == 1:
        values = np.empty(k, array.dtype) if valued else None
        return values, _core.topk(array, k, order, values) if k else np.empty(0, np.int64)
    moved = np.moveaxis(array, axis, -1)
    shape = moved.shape[:-1]
    n_rows = math.prod(shape)
    index = np.empty((n_rows, k), np.int64)
    values = np.empty((n_rows, k), array.dtype) if valued else None
    if index.size:
        rows = moved.reshape(n_rows, n)
        _share(workers, n_rows, lambda *part: _core.topk_rows(rows, k, order, index, values, *part))

    def back(out: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(out.reshape(*shape, k), -1, axis))

    return None if values is None else back(values), back(index)


def _axis(axis: Any) -> int:
    try:
        return operator.index(axis)
    except TypeError:
        raise TypeError(f"axis must be an integer or None, got {type(axis).__name__}") from None


def _refuse_nan(array: np.ndarray, order: int) -> None:
    if array.dtype.kind == "f" and not order & _core.NAN_LAST and np.isnan(array).any():
        raise ValueError(_core.NAN_REFUSED)


def _share(workers: int, n: int, work: Callable[[int, int], None]) -> None:
    """Call work(start, stop) for n rows, in as many parts as there are threads."""
    if workers == 1 or n < 2:
        work(0, n)
        return
    ends = [n * part // workers for part in range(workers + 1)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, ends[:-1], ends[1:]))


def _ragged(
    a: ArrayLike,
    k: int,
    axis: int | None,
    order: int,
    offsets: npt.ArrayLike,
    workers: int,
    *,
    valued: bool,
) -> tuple[Any, Indices, Indices]:
    """Return values, or None unless asked for, indices and offsets of ragged rows."""
    array = dense("a", a)
    if array.ndim != 1 or axis not in (-1, 0, None):
        raise ValueError("a must have one dimension, and no other axis, if it has offsets")
    bounds = row_bounds(offsets, array.size)
    k = integer("k", k, minimum=0)
    workers = integer("workers", workers)
    if k == 0:
        _refuse_nan(array[bounds[0] : bounds[-1]], order)
    places = np.zeros_like(bounds)
    np.cumsum(np.minimum(np.diff(bounds), k), out=places[1:])
    index = np.empty(places[-1], np.int64)
    values = np.empty(places[-1], array.dtype) if valued else None
    if index.size:
        _share(
            workers,
            bounds.size - 1,
            lambda *part: _core.topk_ragged(array, k, order, bounds, places, index, values, *part),
        )
    return values, index, places


def row_bounds(offsets: npt.ArrayLike, n: int) -> Indices:
    """Return offsets of rows of n elements as int64: at least one, in order and within."""
    given = dense("offsets", offsets)
    if given.dtype.kind not in "iu":
        raise TypeError(f"offsets must be integers, got {given.dtype.type.__name__}")
    if given.ndim != 1 or given.size == 0:
        raise ValueError("offsets must have one dimension, and one more than there are rows")
    given = given.copy()  # as what is checked here is where memory is read and written later
    if given.min() < 0 or given.max() > n:
        raise ValueError("offsets must lie from 0 to the number of elements")
    bounds = np.ascontiguousarray(given, np.int64)
    if (np.diff(bounds) < 0).any():
        raise ValueError("offsets must not fall")
    return bounds
