"""Anything that is one column of values, as keys of labels: lists, arrays, Series."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from dptopk.errors import SourceError
from dptopk.sources.engines import fetch, keyed
from dptopk.sources.keys import in_engine
from dptopk.sources.labels import BOOLEAN, FLOAT, INTEGER, TEXT, Column, Domain, column_of, is_null

__all__ = ["column", "domain_of", "is_column"]

_ARRAYS = {"i": INTEGER, "u": INTEGER, "b": BOOLEAN, "U": TEXT}


def is_column(value: Any) -> bool:
    """Whether `value` is one column: a list, a range, an array, a Series."""
    return isinstance(value, (list, range, np.ndarray)) or _is_series(value)


def column(name: str, values: Any) -> Column:
    """Return a column as keys of labels; see `dptopk.sources.labels.column_of`.

    Raises
    ------
    SourceError
        Labels of a type that is not allowed, or of two kinds.
    TypeError
        Not a column at all.
    """
    if isinstance(values, np.ndarray):
        return _of_array(name, values)
    if _is_series(values):
        return _of_series(name, values)
    if isinstance(values, (str, bytes, Mapping, Set)):
        raise TypeError(f"{name} must be a column of labels, got {type(values).__name__}")
    try:
        listed = list(values)
    except TypeError:
        listed = None
    if listed is None:
        raise TypeError(f"{name} must be a column of labels, got {type(values).__name__}")
    return column_of(name, listed)


def domain_of(domain: Any, name: str = "domain") -> Domain:
    """Return a domain as given by the caller: public, so messages may name labels.

    Raises
    ------
    TypeError
        Not a sequence (a set has no order), or labels that are not all of one
        kind.
    ValueError
        No label, a null, or a label twice.
    """
    if isinstance(domain, (str, bytes)):
        raise TypeError(f"{name} must be a sequence of labels, not one text")
    if isinstance(domain, (Set, Mapping)):
        raise TypeError(
            f"{name} must be a sequence, as its order breaks ties; got {type(domain).__name__}"
        )
    try:
        kind, keys = column(name, domain)
    except SourceError as error:
        raise TypeError(str(error).removeprefix("column ")) from None
    if not keys:
        raise ValueError(f"{name} must hold at least one label")
    if kind is None or any(map(is_null, keys)):
        raise ValueError(f"{name} must not contain nulls")
    seen = set()
    for key in keys:
        if key in seen:
            raise ValueError(f"{name} contains {kind.label(key)!r} twice")
        seen.add(key)
    return Domain(kind, keys, [kind.label(key) for key in keys])


def _is_series(value: Any) -> bool:
    """Whether this is a Series, Index or array of pandas, Polars or PyArrow."""
    library = type(value).__module__.split(".")[0]
    named = type(value).__name__
    return (library == "pandas" and (named == "Series" or named.endswith("Index"))) or (
        (library == "polars" and named == "Series")
        or (library == "pyarrow" and named.endswith("Array"))
    )


def _of_array(name: str, array: np.ndarray) -> Column:
    if isinstance(array, np.ma.MaskedArray):
        raise SourceError(f"column {name!r} is a masked array; fill or drop what is masked first")
    if array.ndim != 1:
        raise SourceError(f"column {name!r} must have one dimension, got {array.ndim}")
    kind = _ARRAYS.get(array.dtype.kind)
    if kind is not None:
        return Column(kind, array.tolist())
    if array.dtype.kind == "f" and array.itemsize <= 8:
        single = FLOAT._replace(single=array.itemsize == 4)
        return Column(single, [None if v != v else v + 0.0 for v in array.tolist()])
    # As NumPy's own scalars: a datetime64 of nanoseconds would become a number.
    return column_of(name, array.tolist() if array.dtype.kind == "O" else list(array))


def _of_series(name: str, series: Any) -> Column:
    """Return a Series as keys that its own engine computes."""
    library, other = type(series).__module__.split(".")[0], f"{name}'"
    if hasattr(series, "levels"):  # a MultiIndex, of tuples
        return column_of(name, list(series))
    if library == "pandas":
        from pandas import DataFrame, Series  # type: ignore[import-untyped,unused-ignore]

        # Without its index, which two columns need not share.
        frame: Any = DataFrame({name: Series(series).reset_index(drop=True), other: 0})
    elif library == "polars":
        frame = series.rename(name).to_frame().with_columns(**{other: 0})
    else:
        from pyarrow import table  # type: ignore[import-untyped,unused-ignore]

        frame = table({name: series, other: [0] * len(series)})
    got = keyed(frame, name, other)
    if got is None:  # pandas objects
        return column_of(name, list(series))
    keys, bad = in_engine(fetch, got.query.select("user", "bad"))
    return Column(got.kinds[0], [None if b else key for key, b in zip(keys, bad, strict=True)])
