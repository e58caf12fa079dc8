"""Counts that come with their labels: dicts, Counters, the value_counts of a library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dptopk._validate import counts_array
from dptopk.errors import SourceError
from dptopk.sources.columns import column
from dptopk.sources.engines import fetch, keyed
from dptopk.sources.keys import in_engine
from dptopk.sources.labels import Column, is_null

__all__ = ["labelled_counts"]


def labelled_counts(
    counts: Any, item: str | None, count: str | None
) -> tuple[list[Any], list[Any], np.ndarray]:
    """Return labels with their keys, which have an order, and their counts.

    Parameters
    ----------
    counts : mapping, pandas Series, table, or sequence of (label, count) pairs
        A pandas Series has its labels in its index. A table has two columns,
        labels first; PyArrow's value_counts is one.
    item, count : str or None
        The two columns of a table that has more.

    Raises
    ------
    SourceError
        Labels of a type that is not allowed, or a missing column.
    TypeError
        Counts that are no integers, or have no labels.
    ValueError
        A null or a label twice, a negative count.
    """
    labels, numbers = _two(counts, item, count)
    if (labels.kind is None and labels.keys) or any(map(is_null, labels.keys)):
        raise ValueError("counts must not have a null for a label")
    if len(set(labels.keys)) < len(labels.keys):
        raise ValueError("counts must have every label once")
    array = counts_array("counts", numbers)
    if array.size and array.min() < 0:
        raise ValueError("counts must not be negative")
    if array.size != len(labels.keys):
        raise ValueError("labels must be as many as the counts")
    kind = labels.kind
    return [] if kind is None else [kind.label(key) for key in labels.keys], labels.keys, array


def _two(counts: Any, item: str | None, count: str | None) -> tuple[Column, Any]:
    """Return the labels and the counts."""
    if isinstance(counts, Mapping):
        return column("labels", list(counts)), list(counts.values())
    module = type(counts).__module__.split(".")[0]
    if module == "pandas" and hasattr(counts, "index") and not hasattr(counts, "columns"):
        return column("labels", counts.index), counts.to_numpy()
    if isinstance(counts, (list, tuple)):
        if not all(isinstance(row, (tuple, list)) and len(row) == 2 for row in counts):
            raise TypeError(
                "counts have no labels: dptopk.Histogram takes an array of counts, from_counts a "
                "dict, a pandas Series with its labels for an index, a table, or pairs"
            )
        return column("labels", [row[0] for row in counts]), [row[1] for row in counts]
    if module == "pyarrow" and str(getattr(counts, "type", "")).startswith("struct"):
        from pyarrow import table  # type: ignore[import-untyped,unused-ignore]

        labels, numbers = counts.flatten()
        counts = table({"values": labels, "counts": numbers})
    return _of_table(counts, item, count)


def _of_table(table: Any, item: str | None, count: str | None) -> tuple[Column, Any]:
    if item is None or count is None:
        names = list(getattr(table, "column_names", getattr(table, "columns", ())))
        if len(names) != 2:
            raise TypeError(
                "counts must have labels: a dict, a pandas Series with its labels for an index, "
                "a table with two columns (or say which by item= and count=), or pairs"
            )
        item, count = names
    got = keyed(table, item, count)
    if got is None:  # pandas objects
        return column(item, table[item]), table[count].to_numpy()
    if got.kinds[1] is None or got.kinds[1].name != "integer":
        raise TypeError(f"counts must be integers, and column {count!r} holds none")
    keys, numbers, bad = in_engine(fetch, got.query)
    if any(bad):
        raise SourceError(f"columns {item!r} and {count!r} must not hold nulls")
    return Column(got.kinds[0], keys), numbers
