"""Events in plain Python and NumPy containers, counted without any engine."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from dptopk.errors import SourceError


def is_plain(frame: object) -> bool:
    """Whether `frame` is one of the containers this module reads."""
    return isinstance(frame, (Mapping, list, tuple, np.ndarray))


def count_plain(
    frame: Any,
    *,
    user: str,
    item: str,
    only: Collection[Any] | None,
    max_items_per_user: int | None,
) -> list[tuple[Any, int]]:
    """Count the distinct users of each item, items ascending.

    Parameters
    ----------
    frame : mapping, (users, items) arrays, (n, 2) or structured array, or pairs
        A mapping of columns or a structured array is read by the names `user`
        and `item`; the others have the user first and the item second.
    user, item : str
        Names of the two columns.
    only : collection of hashable or None
        Items to count; the others are ignored, before any bound.
    max_items_per_user : int or None
        Each user keeps at most this many items: those with the smallest
        BLAKE2b hash of (user, item), which no other user's rows can change.

    Returns
    -------
    list of (item, count)

    Raises
    ------
    SourceError
        A missing column, columns of unequal length, rows that are not pairs,
        nulls, items that cannot be hashed or ordered, or equal ones that are
        written differently (1 and 1.0).
    """
    users, items = _columns(frame, user, item)
    for name, column in ((user, users), (item, items)):
        if any(value is None or value != value for value in column):
            raise SourceError(f"column {name!r} holds nulls; drop or fill them first")
    items = [value + 0.0 if type(value) is float else value for value in items]  # no -0.0
    try:
        # Of equal labels the rows would decide which one is shown.
        if len(set(map(repr, items))) > len(set(items)):
            raise TypeError
        pairs = set(zip(users, items, strict=True))
        if only is not None:
            wanted = set(only)
            pairs = {pair for pair in pairs if pair[1] in wanted}
        if max_items_per_user is not None:
            pairs = _bound(pairs, max_items_per_user)
        return sorted(Counter(item for _, item in pairs).items())
    except TypeError:
        pass
    raise SourceError("user and item labels must be hashable, and item labels of one kind")


def _bound(pairs: set[tuple[Any, Any]], most: int) -> set[tuple[Any, Any]]:
    items_of: defaultdict[Any, list[Any]] = defaultdict(list)
    for user, item in pairs:
        items_of[user].append(item)
    kept: set[tuple[Any, Any]] = set()
    for user, items in items_of.items():

        def key(item: Any, user: Any = user) -> tuple[bytes, str]:
            text = repr((user, item))
            return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), text

        kept.update((user, item) for item in heapq.nsmallest(most, items, key=key))
    return kept


def _columns(frame: Any, user: str, item: str) -> tuple[list[Any], list[Any]]:
    if isinstance(frame, np.ndarray) and frame.dtype.names is not None:
        frame = {name: frame[name] for name in frame.dtype.names}
    if isinstance(frame, Mapping):
        for name in (user, item):
            if name not in frame:
                raise SourceError(f"no column {name!r}; columns: {', '.join(map(repr, frame))}")
        users, items = _values(frame[user]), _values(frame[item])
    elif isinstance(frame, np.ndarray):
        if frame.ndim != 2 or frame.shape[1] != 2:
            raise SourceError("an array of events must have shape (n, 2): user, item")
        users, items = frame[:, 0].tolist(), frame[:, 1].tolist()
    elif isinstance(frame, tuple) and len(frame) == 2 and isinstance(frame[0], np.ndarray):
        users, items = _values(frame[0]), _values(frame[1])
    else:
        if not all(isinstance(row, (tuple, list)) and len(row) == 2 for row in frame):
            raise SourceError("a list of events must hold (user, item) pairs")
        users, items = [row[0] for row in frame], [row[1] for row in frame]
    if len(users) != len(items):
        raise SourceError("the user and item columns differ in length")
    return users, items


def _values(column: Any) -> list[Any]:
    """Return a column as a list of Python objects."""
    return column.tolist() if isinstance(column, np.ndarray) else list(column)
