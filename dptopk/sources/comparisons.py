"""Rows of winners and losers, counted by the engine that holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dptopk.errors import SourceError
from dptopk.sources.frames import _domain_labels, _fetch, _in_engine, _pairs
from dptopk.sources.plain import _columns, is_plain
from dptopk.sources.progress import working

__all__ = ["count_pairs"]

Ints = npt.NDArray[np.int64]


def count_pairs(
    frame: Any,
    *,
    winner: str,
    loser: str,
    items: Any,
    progress: bool | Callable[[], float] = False,
) -> tuple[list[Any], Ints, Ints, Ints]:
    """Count how often each item beat each other one.

    Parameters
    ----------
    frame : DataFrame, lazy query, DuckDB relation or plain container
        One row per comparison; equal rows count as often as they stand there.
    winner, loser : str
        Names of the two columns.
    items : sequence of labels
        The items that exist, fixed without looking at the data.
    progress : bool or callable
        As in `dptopk.sources.frames.count_users`.

    Returns
    -------
    list of labels, and ndarrays of int64, shape (pairs,)
        The items; and for each pair that occurs the positions of its winner
        and its loser, and how often.

    Raises
    ------
    SourceError
        A column that is missing or holds nulls, an item that is not in `items`,
        or an engine that fails. No value of the data is in the message.
    TypeError, ValueError
        An unsupported frame, or labels with duplicates or of another kind.
    ImportError
        narwhals is not installed and the frame needs it.

    Examples
    --------
    >>> rows = [("ann", "bob"), ("ann", "bob"), ("bob", "ann")]
    >>> count_pairs(rows, winner="w", loser="l", items=["ann", "bob"])
    (['ann', 'bob'], array([0, 1]), array([1, 0]), array([2, 1]))
    """
    if winner == loser:
        raise ValueError("winner and loser must be two different columns")
    labels = _domain_labels(items)
    if labels is None:
        raise TypeError("items must be a sequence of labels")
    counts: list[int]
    if is_plain(frame):
        winners, losers = _columns(frame, winner, loser)
        for name, column in ((winner, winners), (loser, losers)):
            if any(value is None or value != value for value in column):
                raise SourceError(f"column {name!r} holds nulls; drop or fill them first")
        try:
            found = Counter(zip(winners, losers, strict=True))
        except TypeError:
            found = None
        if found is None:
            raise SourceError("labels of winners and losers must be hashable")
        winners, losers = [pair[0] for pair in found], [pair[1] for pair in found]
        counts = list(found.values())
    else:
        _pairs(frame, loser, winner, labels)  # both columns must be of the labels' kind
        pairs = _pairs(frame, winner, loser, labels)
        with working("Counting", progress):
            winners, losers, counts = _in_engine(_count, pairs)
        for name, column in ((winner, winners), (loser, losers)):
            if any(value is None or value != value for value in column):
                raise SourceError(f"column {name!r} holds nulls; drop or fill them first")
    place = {label: i for i, label in enumerate(labels)}
    rows, columns = ([place.get(label, -1) for label in side] for side in (winners, losers))
    if -1 in rows or -1 in columns:
        raise SourceError("the comparisons name items that are not among all there are")
    return labels, _array(rows), _array(columns), _array(counts)


def _array(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _count(pairs: Any) -> tuple[list[Any], list[Any], list[Any]]:
    import narwhals as nw

    query = pairs.group_by("user", "item").agg(nw.len().alias("count")).sort("user", "item")
    return _fetch(query.select("user", "item", "count"))
