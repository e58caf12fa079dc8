"""Events in plain Python and NumPy containers, counted without any engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from dptopk.errors import SourceError
from dptopk.sources.bounds import kept
from dptopk.sources.columns import column, is_column
from dptopk.sources.keys import no_column
from dptopk.sources.labels import Column
from dptopk.sources.rules import Rules
from dptopk.sources.weighting import sum_weights

__all__ = ["NULLS", "count_columns", "is_plain", "some_columns", "two_columns"]


def is_plain(frame: object) -> bool:
    """Whether `frame` is one of the containers this module reads."""
    return isinstance(frame, (Mapping, list, tuple, np.ndarray))


def two_columns(frame: Any, user: str, item: str) -> tuple[Column, Column]:
    """Return the two columns of a plain container, or of a pandas table of Python objects.

    Parameters
    ----------
    frame : mapping, structured or (n, 2) array, pair of columns, or rows
        A mapping of columns or a structured array is read by the names `user`
        and `item`; the others have the user first and the item second. A tuple
        of two lists, arrays or Series is a pair of columns; any other list or
        tuple holds rows.
    user, item : str
        Names of the two columns.

    Raises
    ------
    SourceError
        A missing column, columns of unequal length, rows that are not pairs,
        or labels that are not allowed.
    """
    first, second = some_columns(frame, user, item)
    return first, second


def some_columns(frame: Any, *names: str) -> list[Column]:
    """Return columns as `two_columns` does: the user's, the item's, and those of groups."""
    sides = _sides(frame, *names) if is_plain(frame) else [frame[name] for name in names]
    columns = [column(name, side) for name, side in zip(names, sides, strict=True)]
    if len({len(each.keys) for each in columns}) > 1:
        raise SourceError("the user and item columns differ in length")
    return columns


def count_columns(
    users: Column,
    items: Column,
    *,
    names: tuple[str, str],
    only: Collection[Any] | None,
    rules: Rules,
) -> list[tuple[Any, int]]:
    """Count the distinct users of each item, items ascending.

    Parameters
    ----------
    users, items : Column
        Keys of equal number.
    names : (str, str)
        What the columns are called in messages.
    only : collection of keys or None
        Items to count; the others are ignored, before any bound.
    rules : Rules

    Returns
    -------
    list of (key, count)

    Raises
    ------
    SourceError
        Nulls, if they are an error.
    """
    # In steps of Python, between which Ctrl-C is seen.
    rows = (pair for pair in zip(users.keys, items.keys, strict=True))
    pairs: Collection[tuple[Any, Any]]
    if rules.min_events > 1:
        pairs = [pair for pair, n in Counter(rows).items() if n >= rules.min_events or None in pair]
    else:
        pairs = set(rows)
    if rules.nulls == "error":
        for name, place in zip(names, (0, 1), strict=True):
            if any(pair[place] is None for pair in pairs):
                raise SourceError(f"column {name!r} holds nulls; {NULLS}")
    pairs = {pair for pair in pairs if pair[0] is not None and pair[1] is not None}
    if only is not None:
        wanted = set(only)
        pairs = {pair for pair in pairs if pair[1] in wanted}
    if rules.max_items_per_user is not None:
        kinds = (users.kind, items.kind)
        pairs = kept(pairs, kinds, rules.max_items_per_user, rules.hash_key)
    if rules.weighting is not None:
        return sum_weights(pairs, *rules.weighting)
    return sorted(Counter(item for _, item in pairs).items())


NULLS = "drop or fill them first, or leave such rows out: nulls='drop', or --drop-nulls"


def _sides(frame: Any, *names: str) -> Sequence[Any]:
    """Return the users, the items and groups as columns of any kind."""
    if isinstance(frame, np.ndarray) and frame.dtype.names is not None:
        frame = {name: frame[name] for name in frame.dtype.names}
    if isinstance(frame, Mapping):
        for name in names:
            if name not in frame:
                there = list(frame)
                raise SourceError(
                    f"{no_column(name, there)}; columns: {', '.join(map(repr, there))}"
                )
        return [frame[name] for name in names]
    n, groups = len(names), ", then by" if len(names) > 2 else ""
    if isinstance(frame, np.ndarray):
        if frame.ndim != 2 or frame.shape[1] != n:
            raise SourceError(f"an array of events must have shape (n, {n}): user, item{groups}")
        return [frame[:, place] for place in range(n)]
    if isinstance(frame, tuple) and len(frame) == n and all(map(is_column, frame)):
        return frame
    if not all(isinstance(row, (tuple, list)) and len(row) == n for row in frame):
        rows = "(user, item) pairs" if n == 2 else f"rows of {n}: user, item{groups}"
        raise SourceError(f"a list of events must hold {rows}")
    return [[row[place] for row in frame] for place in range(n)]
