"""Arrays of other libraries as NumPy's, without a copy where their memory can be shared."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["dense"]

# Of DLPack: the CPU, and memory of the host that a device reads too.
HOST = {1, 3, 11}
#: Subclasses of ndarray that are no more than where their numbers lie.
PLAIN = (np.ndarray, np.memmap)
WANTED = "booleans, integers or floats of up to 64 bits"


def dense(name: str, a: Any) -> np.ndarray:
    """Return an array of real numbers in native byte order, of any number of dimensions."""
    array = a if type(a) is np.ndarray else _shared(name, a)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        # Not the dtype: that of strings tells how long they are.
        raise TypeError(f"{name} must be an array of {WANTED}, got {array.dtype.type.__name__}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array


def _shared(name: str, a: Any) -> np.ndarray:
    if isinstance(a, np.ndarray):
        if type(a) not in PLAIN:
            raise TypeError(
                f"{name} must be a plain array, got {type(a).__name__}, which may say more than "
                "its numbers (a mask, a unit): give them alone, as by numpy.asarray"
            )
        return a.view(np.ndarray)
    if hasattr(a, "__dlpack_device__"):
        try:
            device = int(a.__dlpack_device__()[0])
        except (ArithmeticError, LookupError, TypeError, ValueError):  # so mocks of it
            raise TypeError(f"{name} must be an array, got {type(a).__name__}") from None
        if device not in HOST:
            raise TypeError(f"{name} must be in the memory of the CPU, got DLPack device {device}")
        if not hasattr(a, "__array__"):
            return np.from_dlpack(a)
    nulls = getattr(a, "null_count", 0)  # of pyarrow and polars
    if (nulls() if callable(nulls) else nulls) != 0:
        raise ValueError(f"{name} must not contain nulls: they would become NaN")
    try:
        array = np.asarray(a)
    except ValueError:  # NumPy's message tells lengths
        raise ValueError(f"{name} must have rows of one length") from None
    except RuntimeError as error:  # a tensor that is part of a computation, by PyTorch
        raise TypeError(f"{name} must be an array of numbers alone") from error
    if isinstance(a, (list, tuple)) and not array.size:
        array = array.astype(np.int64)  # NumPy takes an empty list for floats
    return array
