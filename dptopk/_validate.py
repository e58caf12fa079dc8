"""Checks at the door: TypeError for the kind, ValueError for the value.

Every public function checks its arguments once, before any budget is touched
and any noise drawn. Messages name the argument and show scalar parameters,
which are public; never an element of the data.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from dptopk import _core
from dptopk.rounding import down, up

__all__ = [
    "boolean",
    "choice",
    "counts_array",
    "integer",
    "labels_array",
    "nonnegative",
    "positive",
    "probability",
    "real_array",
    "scores_array",
]


def integer(name: str, value: Any, *, minimum: int = 1) -> int:
    """Return `value` as an int of at least `minimum` that fits into 64 bits."""
    if type(value) is int and minimum <= value < 2**63:
        return value
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None
    if number < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}, got {number}")
    if number >= 2**63:
        raise ValueError(f"{name} must be below 2**63")
    return number


def _double(name: str, value: Any, toward: float) -> float:
    """Return `value` as a double, rounded toward 0 or infinity if it is not one."""
    if type(value) is float:
        return value
    if type(value) is int and -(2**53) <= value <= 2**53:  # without the slow question for Real
        return float(value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Real, Decimal)):
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}")
    if isinstance(value, Decimal) and value.is_nan():  # a signalling one can't be converted
        return math.nan
    try:
        number = float(value)
    except OverflowError:
        return math.inf
    if math.isinf(number):  # so a Decimal past all floats, which raises nothing
        return number
    exact: Any = value
    return up(exact) if toward > 0.0 else down(exact) if number > 0.0 else number


def positive(name: str, value: Any, *, toward: float = 0.0) -> float:
    """Return `value` as a finite float > 0; budgets round toward 0, costs and sensitivities up."""
    number = _double(name, value, toward)
    if not (0.0 < number < math.inf):
        raise ValueError(f"{name} must be a finite number > 0, got {value}")
    return number


def nonnegative(name: str, value: Any, *, toward: float = 0.0) -> float:
    """Return `value` as a finite float >= 0; budgets round toward 0, costs up."""
    number = _double(name, value, toward)
    if not (0.0 <= number < math.inf):
        raise ValueError(f"{name} must be a finite number >= 0, got {value}")
    return number


def probability(name: str, value: Any, *, zero: bool) -> float:
    """Return `value` as a float in (0, 1), or in [0, 1) if `zero` is allowed, rounded toward 0."""
    number = _double(name, value, 0.0)
    if not (0.0 <= number < 1.0) or (number == 0.0 and not zero):
        raise ValueError(f"{name} must be in {'[' if zero else '('}0, 1), got {value}")
    return number


def boolean(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}")
    return bool(value)


def choice(name: str, value: Any, names: Collection[str]) -> Any:
    """Return `value` if it is one of the names."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {type(value).__name__}")
    if value not in names:
        raise ValueError(f"{name} must be one of {', '.join(names)}, got {value!r}")
    return value


def _vector(name: str, values: Any, kinds: str, wanted: str, *, many: bool = False) -> np.ndarray:
    """Return an array of some kinds, native and of one dimension; or, if `many`, of one or more."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must be {wanted}, got a masked array: its mask would be lost")
    try:
        array = np.asarray(values)
    except ValueError:  # NumPy's message tells lengths
        raise ValueError(f"{name} must have one dimension") from None
    if isinstance(values, (list, tuple)) and not array.size:
        array = array.astype(np.int64)  # NumPy takes an empty list for floats
    if array.dtype.kind not in kinds or array.dtype.itemsize > 8:
        # Not the dtype: that of strings tells how long they are.
        hint = ""
        if name == "counts" and array.dtype.kind in "OSU":
            hint = "; dptopk.Histogram.from_events and from_files count events"
        raise TypeError(f"{name} must be {wanted}, got {array.dtype.type.__name__}{hint}")
    if array.ndim == 0 and many:
        raise ValueError(f"{name} must have at least one dimension")
    if array.ndim != 1 and not many:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _check_unlabelled(name: str, values: Any) -> None:
    """Refuse a mapping, and a pandas Series with an index of its own: its labels would be lost.

    They may have been read off the data, and then positions are no known domain.
    """
    if isinstance(values, (np.ndarray, list, tuple)):
        return
    index: Any = getattr(values, "index", None)
    if type(index).__module__.split(".")[0] == "pandas":
        named = type(index).__name__ != "RangeIndex" or (index.start, index.step) != (0, 1)
    else:
        named = isinstance(values, Mapping)
    if named:
        raise TypeError(
            f"{name} come with labels, which may have been read off the data: give them to "
            "dptopk.Histogram.from_counts; or their values alone, if their positions are a domain "
            "fixed before the data was seen"
        )


def real_array(name: str, values: Any) -> np.ndarray:
    """Return numbers as a 1-D array of a native dtype that the C core reads."""
    return _vector(name, values, "biuf", "an array of integers or floats of up to 64 bits")


def counts_array(name: str, values: Any) -> np.ndarray:
    """Return counts as a 1-D array of a native integer dtype within int64.

    Whether any is negative shows when they are cut.
    """
    _check_unlabelled(name, values)
    array = _vector(name, values, "iu", "an array of integers")
    if array.dtype == np.uint64:
        # Past int64 the view as signed is negative.
        if array.size and array.view(np.int64).min() < 0:
            raise ValueError(f"{name} must be below 2**63")
        array = array.view(np.int64)
    return array


def scores_array(name: str, values: Any, *, many: bool = False) -> np.ndarray:
    """Return scores as an array of a native integer or float dtype, all finite.

    It has one dimension; or, if `many`, one or more.
    """
    _check_unlabelled(name, values)
    wanted = "an array of integers or floats of up to 64 bits"
    array = _vector(name, values, "iuf", wanted, many=many)
    if array.dtype.kind == "f" and not _finite(array):
        what = "NaN" if np.isnan(array).any() else "infinite values"
        raise ValueError(f"{name} must not contain {what}")
    return array


def _finite(array: np.ndarray) -> bool:
    if array.ndim > 1 and not array.flags.c_contiguous:
        return bool(np.isfinite(array).all())
    return _core.finite(array.reshape(-1))


def labels_array(labels: Any, n: int) -> Sequence[Any] | np.ndarray | None:
    """Return labels as a sequence of length n without nulls."""
    if labels is None:
        return None
    if isinstance(labels, (str, bytes)):
        raise TypeError("labels must be a sequence, one label an item")
    if isinstance(labels, np.ma.MaskedArray):
        raise TypeError("labels must be all there, got a masked array: its mask would be lost")
    if not isinstance(labels, (np.ndarray, list, tuple)):
        labels = np.asarray(labels)
    if isinstance(labels, np.ndarray) and labels.ndim != 1:  # also sets and generators
        raise ValueError(f"labels must be a sequence of one dimension, got {labels.ndim}")
    if len(labels) != n:
        raise ValueError("labels must be as many as the counts")
    plain = isinstance(labels, np.ndarray) and labels.dtype.kind in "iubUS"
    if not plain and any(_null(label) for label in labels):
        raise ValueError("labels must not contain None or NaN")
    return labels


def _null(label: Any) -> bool:
    """Tell None, and what does not equal itself: NaN of any type, NaT, pandas' NA."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except TypeError:  # NA has no truth value
        return True
    except ValueError:  # an array as a label has several
        return False
