"""Rows of winners and losers, counted by the engine that holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dptopk.errors import SourceError
from dptopk.sources.columns import domain_of
from dptopk.sources.engines import fetch, keyed
from dptopk.sources.keys import in_engine
from dptopk.sources.labels import Domain, Kind, matched
from dptopk.sources.plain import is_plain, two_columns
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
    domain = domain_of(items, "items")
    query = None if is_plain(frame) else keyed(frame, winner, loser)
    if query is None:
        sides = two_columns(frame, winner, loser)
        kinds = tuple(side.kind for side in sides)
        found = Counter(zip(*(side.keys for side in sides), strict=True))
        winners, losers = ([pair[place] for pair in found] for place in (0, 1))
        counts = list(found.values())
        nulls = {name for name, keys in ((winner, winners), (loser, losers)) if None in keys}
    else:
        kinds = query.kinds
        with working("Counting", progress):
            winners, losers, counts, bad = in_engine(_count, query.query)
        nulls = {loser if b >= 2 else winner for b in bad if b}
    for name in (winner, loser):
        if name in nulls:
            raise SourceError(f"column {name!r} holds nulls; drop or fill them first")
    rows, columns = (
        _places(domain, kind, name, keys)
        for kind, name, keys in zip(kinds, (winner, loser), (winners, losers), strict=True)
    )
    if -1 in rows or -1 in columns:
        raise SourceError("the comparisons name items that are not among all there are")
    return domain.labels, _array(rows), _array(columns), _array(counts)


def _places(domain: Domain, kind: Kind | None, name: str, keys: list[Any]) -> list[int]:
    """Return where in the domain each key stands, -1 for none."""
    place = {key: i for i, key in enumerate(matched(domain, kind, name)) if key is not None}
    return [place.get(key, -1) for key in keys]


def _array(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _count(pairs: Any) -> tuple[list[Any], ...]:
    import narwhals as nw

    by = ("user", "item", "bad")
    query = pairs.group_by(*by).agg(nw.len().alias("count")).sort("bad", "user", "item")
    return fetch(query.select("user", "item", "count", "bad"))
