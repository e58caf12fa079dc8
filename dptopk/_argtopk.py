"""The indices of the largest counts: argpartition and argsort in about one pass."""

import numpy as np
import numpy.typing as npt

from dptopk import _core
from dptopk._validate import integer, real_array

__all__ = ["argtopk"]


def argtopk(counts: npt.ArrayLike, m: int) -> npt.NDArray[np.int64]:
    """Return the indices of the m largest counts, largest first, equal ones by index.

    A drop-in for ``np.argpartition`` followed by ``np.argsort``, with a fixed
    order of ties and without the collapse of ``np.argpartition`` when most
    counts are equal, as real counts are. It reads the array about once,
    whatever its order, and releases the GIL meanwhile. Not private: it is the
    exact answer.

    Parameters
    ----------
    counts : array_like, shape (n,)
        Booleans, integers or floats of up to 64 bits, any strides. ``-0.0``
        and ``0.0`` are equal. float16 and arrays of foreign byte order are
        converted first, other arrays are never copied.
    m : int
        How many, from 0 to n.

    Returns
    -------
    ndarray of int64, shape (m,)
        The same as ``np.lexsort((np.arange(n), -counts))[:m]`` (where negation
        does not overflow).

    Raises
    ------
    TypeError
        If counts holds anything but real numbers, or m is not an integer.
    ValueError
        If counts is not 1-D or contains NaN, or m is not from 0 to n.

    Examples
    --------
    >>> import numpy as np
    >>> from dptopk import argtopk
    >>> argtopk(np.array([1, 7, 1, 9, 7, 1]), 4)
    array([3, 1, 4, 0])
    """
    column = real_array("counts", counts)
    size = integer("m", m, minimum=0)
    if size > len(column):
        raise ValueError(f"m must be at most the number of counts, got {size}")
    if len(column) == 0:
        return np.empty(0, dtype=np.int64)
    _, index, _ = _core.cut(column, max(size, 1))  # m = 0 looks for NaN all the same
    return index[:size]
