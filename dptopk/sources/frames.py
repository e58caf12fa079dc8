"""Distinct users per item, counted by the engine that holds the events.

One narwhals query serves every engine: pairs made distinct, grouped by item,
counted, sorted and cut. Only its result comes to Python, as keys
(`dptopk.sources.labels`), which become labels here.

Messages name columns (the schema) and never hold values: an engine's own error
may quote the row it failed on, so it is replaced, not chained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dptopk._validate import integer
from dptopk.errors import SourceError
from dptopk.sources.columns import domain_of
from dptopk.sources.engines import fetch, keyed
from dptopk.sources.interrupt import can_stop, interruptible
from dptopk.sources.keys import Keyed, in_engine
from dptopk.sources.labels import Domain, Kind, matched
from dptopk.sources.plain import NULLS, count_columns, is_plain, two_columns
from dptopk.sources.progress import working
from dptopk.sources.queries import counts_of
from dptopk.sources.rules import RULES, Rules

__all__ = ["Counted", "count_users", "counted_of"]


class Counted(NamedTuple):
    """Counts of distinct users, their item labels, and the first count cut off.

    Attributes
    ----------
    counts : ndarray of int64, shape (n,)
    labels : list, length n
    next_count : int or None
        The (k_bar+1)-th largest count, 0 if there is none; None when nothing
        was cut.
    """

    counts: NDArray[np.int64]
    labels: list[Any]
    next_count: int | None


def count_users(
    frame: Any,
    *,
    user: str,
    item: str,
    domain: Any = None,
    k_bar: int | None = None,
    rules: Rules = RULES,
    progress: bool | Callable[[], float] = False,
) -> Counted:
    """Count the distinct users of each item.

    Parameters
    ----------
    frame : DataFrame, lazy query, DuckDB relation or plain container of events
        One row per event; repeated (user, item) pairs count once.
    user, item : str
        Names of the two columns, spelt exactly so. What they may hold, users
        and items alike: text, integers, booleans, floats, bytes, dates,
        timestamps, decimals, UUIDs; in plain Python tuples of these, too.
        Categories are read as what they stand for.
    domain : sequence of labels, optional
        The items that exist, fixed without looking at the data, and of the
        column's kind. The result follows its order; absent items count 0,
        items outside it are ignored (before any bound applies).
    k_bar : int, optional
        Bring only the `k_bar` largest, counts descending, equal counts by item
        ascending. With a `domain` the whole domain comes whatever `k_bar` is.
        Without either, all items come, ascending.
    rules : Rules
        Which rows count, and for how much.
    progress : bool or callable, optional
        Show a progress line on a terminal's stderr when the work is long. A
        callable gives the percentage done (negative: not known).

    Returns
    -------
    Counted
        `counts`, `labels` and `next_count`. Fewer than `k_bar` + 1 items is
        not an error: how many there are is data.

    Raises
    ------
    SourceError
        A column that is missing, stands there twice, holds nulls or is of a
        type that is no kind of label, or an engine that fails. These are
        faults of the input, reported outside the privacy guarantee; no value of
        the data is in the message.
    TypeError
        An unsupported frame, a domain without an order, or one of another kind
        than the column.
    ValueError
        A domain that is empty or holds duplicates or nulls, or `k_bar` < 1.
    ImportError
        narwhals is not installed and the frame needs it.

    Examples
    --------
    >>> events = [("ann", "tea"), ("bob", "tea"), ("bob", "jam"), ("bob", "tea")]
    >>> count_users(events, user="user", item="item", k_bar=1)
    Counted(counts=array([2]), labels=['tea'], next_count=1)
    >>> count_users(events, user="user", item="item", domain=["ale", "jam", "tea"]).counts
    array([0, 1, 2])
    """
    if k_bar is not None:
        k_bar = integer("k_bar", k_bar)
    if user == item:
        raise ValueError("user and item must be two different columns")
    wanted = None if domain is None else domain_of(domain)
    limit = None if k_bar is None or wanted is not None else k_bar + 1
    events = frame if isinstance(frame, Keyed) else None
    if events is None and not is_plain(frame):
        events = keyed(frame, user, item)
    if events is None:
        users, items = two_columns(frame, user, item)
        kind = items.kind
    else:
        kind = events.kinds[1]
    # Keys are exact: to look up those of a domain is the engine's own join.
    places = None if wanted is None else matched(wanted, kind, item)
    only = None if places is None else [key for key in places if key is not None]
    with working("Counting", progress):
        if events is None:
            rows = count_columns(users, items, names=(user, item), only=only, rules=rules)
            if limit is not None:
                rows = sorted(rows, key=lambda row: -row[1])[:limit]  # stable: ties stay by item
            keys, counts = [row[0] for row in rows], [row[1] for row in rows]
        else:
            keys, counts, bad = _run(lambda: in_engine(_count, events, only, limit, rules), events)
            if bad and bad[0]:
                column = item if bad[0] >= 2 else user
                raise SourceError(f"column {column!r} holds nulls; {NULLS}")
    return counted_of(keys, counts, kind, wanted, places, k_bar)


def counted_of(
    keys: list[Any],
    counts: list[int],
    kind: Kind | None,
    wanted: Domain | None,
    places: list[Any] | None,
    k_bar: int | None,
) -> Counted:
    """Return what an engine gave: keys of this kind, cut at most to `k_bar` + 1.

    With a domain in the order of its labels, whose keys `places` are.
    """
    if wanted is not None and places is not None:
        found = dict(zip(keys, counts, strict=True))
        return Counted(_int64([found.get(key, 0) for key in places]), wanted.labels, None)
    labels = [] if kind is None else [kind.label(key) for key in keys]
    if k_bar is None:
        return Counted(_int64(counts), labels, None)
    next_count = int(counts[k_bar]) if len(counts) > k_bar else 0
    return Counted(_int64(counts[:k_bar]), labels[:k_bar], next_count)


def _count(events: Keyed, *of: Any) -> tuple[list[Any], ...]:
    return fetch(counts_of(events, *of))


def _run(count: Callable[[], Any], events: Keyed) -> Any:
    """Count, in another thread where the engine itself would not see Ctrl-C."""
    engine = getattr(events.query, "implementation", None)
    deaf = engine is not None and (engine.is_pandas() or engine.is_polars() or engine.is_pyarrow())
    return interruptible(count) if deaf or can_stop() else count()


def _int64(counts: list[int]) -> NDArray[np.int64]:
    return np.array(counts, dtype=np.int64)
