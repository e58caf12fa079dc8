"""Distinct users per item, counted by the engine that holds the events.

One narwhals query serves every engine: pairs made distinct, grouped by item,
counted, sorted and cut. Only its result comes to Python, as keys
(`dptopk.sources.labels`), which become labels here.

Messages name columns (the schema) and never hold values: an engine's own error
may quote the row it failed on, so it is replaced, not chained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dptopk._validate import choice, integer
from dptopk.errors import SourceError
from dptopk.sources.columns import domain_of
from dptopk.sources.engines import fetch, in_engine, keyed
from dptopk.sources.files import connect
from dptopk.sources.labels import Domain, Kind, is_unicode, matched
from dptopk.sources.paths import literal
from dptopk.sources.plain import NULLS, count_columns, is_plain, two_columns
from dptopk.sources.progress import working
from dptopk.sources.weighting import Weighting, with_weights

__all__ = ["Counted", "count_users"]

Nulls = Literal["error", "drop"]


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
    max_items_per_user: int | None = None,
    nulls: Nulls = "error",
    weighting: Weighting | None = None,
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
        items outside it are ignored (before `max_items_per_user` applies).
    k_bar : int, optional
        Bring only the `k_bar` largest, counts descending, equal counts by item
        ascending. With a `domain` the whole domain comes whatever `k_bar` is.
        Without either, all items come, ascending.
    max_items_per_user : int, optional
        Keep at most this many distinct items of each user: those with the
        smallest hash of (user, item). Which ones are kept depends on nothing
        but that user's own rows, so a neighbour changes at most this many
        counts; it may differ from one engine to another. Supported for pandas,
        Polars, PyArrow, DuckDB and plain containers.
    nulls : {"error", "drop"}, default "error"
        What becomes of a row whose user or item is null (NaN, NaT and infinite
        dates are): it is refused, or left out, whatever other rows hold.
    weighting : (int, str), optional
        Soft cap and norm: in place of users sum what each of them adds, by
        the number of items that is left of theirs (see `dptopk.accounting.weights`).
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
        A domain that is empty or holds duplicates or nulls, `k_bar` or
        `max_items_per_user` < 1.
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
    if max_items_per_user is not None:
        max_items_per_user = integer("max_items_per_user", max_items_per_user)
    if user == item:
        raise ValueError("user and item must be two different columns")
    choice("nulls", nulls, ("error", "drop"))
    wanted = None if domain is None else domain_of(domain)
    limit = None if k_bar is None or wanted is not None else k_bar + 1
    query = None if is_plain(frame) else keyed(frame, user, item)
    if query is None:
        with working("Counting", progress):
            kind, rows = _in_python(frame, user, item, wanted, max_items_per_user, nulls, weighting)
        if limit is not None:
            rows = sorted(rows, key=lambda row: -row[1])[:limit]  # stable: ties stay by item
        keys, counts = [row[0] for row in rows], [row[1] for row in rows]
    else:
        kind = query.kinds[1]
        places = None if wanted is None else matched(wanted, kind, item)
        only = None if places is None else [key for key in places if key is not None]
        with working("Counting", progress):
            keys, counts, bad = in_engine(
                _count, query.query, only, max_items_per_user, limit, nulls, weighting
            )
        if bad and bad[0]:
            raise SourceError(f"column {(item if bad[0] >= 2 else user)!r} holds nulls; {NULLS}")
    if wanted is not None:
        # Keys are exact: to look them up here is the engine's own join.
        found = dict(zip(keys, counts, strict=True))
        places = matched(wanted, kind, item)
        return Counted(_int64([found.get(key, 0) for key in places]), wanted.labels, None)
    labels = [] if kind is None else [kind.label(key) for key in keys]
    if k_bar is None:
        return Counted(_int64(counts), labels, None)
    next_count = int(counts[k_bar]) if len(counts) > k_bar else 0
    return Counted(_int64(counts[:k_bar]), labels[:k_bar], next_count)


def _in_python(
    frame: Any,
    user: str,
    item: str,
    wanted: Domain | None,
    max_items_per_user: int | None,
    nulls: Nulls,
    weighting: Weighting | None,
) -> tuple[Kind | None, list[tuple[Any, int]]]:
    """Return the kind of the items, and their keys with counts; items ascending."""
    users, items = two_columns(frame, user, item)
    only = None if wanted is None else matched(wanted, items.kind, item)
    rows = count_columns(
        users,
        items,
        names=(user, item),
        only=only,
        max_items_per_user=max_items_per_user,
        nulls=nulls,
        weighting=weighting,
    )
    return items.kind, rows


def _count(
    pairs: Any,
    only: list[Any] | None,
    max_items_per_user: int | None,
    limit: int | None,
    nulls: Nulls,
    weighting: Weighting | None,
) -> tuple[list[Any], ...]:
    """Return items, counts and, for each, whether it or a user of it is null.

    One query, so that a lazy source is read once. Nulls sort first: no limit
    hides them.
    """
    import narwhals as nw

    if nulls == "drop":
        pairs = pairs.filter(nw.col("bad") == 0)
    if only is not None:
        pairs = _among(pairs, only)
    pairs = pairs.unique()
    if max_items_per_user is not None:
        nth = nw.col("item").cum_count().over("user", order_by=["hash", "item"])
        kept = (nw.col("nth") <= max_items_per_user) | (nw.col("bad") > 0)
        pairs = _hashed(pairs).with_columns(nth=nth).filter(kept)
    count = nw.len()
    if weighting is not None:
        pairs, count = with_weights(pairs, *weighting), nw.col("weight").sum()
    query = pairs.group_by("item").agg(count.alias("count"), nw.max("bad"))
    if limit is None:
        query = query.sort("bad", "item", descending=[True, False])
    else:
        query = query.sort("bad", "count", "item", descending=[True, True, False]).head(limit)
    return fetch(query.select("item", "count", "bad"))


def _among(pairs: Any, only: list[Any]) -> Any:
    """Keep the rows of these items, and those with nulls."""
    import narwhals as nw

    native, engine = pairs.to_native(), pairs.implementation
    # What no column of text of these engines holds: they would fail on it.
    only = [key for key in only if not isinstance(key, str) or is_unicode(key)]
    if engine.is_duckdb():
        kept = native.filter(f'"item" IN ({_listed(only, native.types[1])}) OR "bad" > 0')
        return nw.from_native(kept).lazy()
    # As the column's own type: of a list an engine would guess one.
    library = engine.to_native_namespace()
    if engine.is_pandas():
        only = library.Series(only, dtype=native["item"].dtype)
    elif engine.is_polars():
        only = library.Series(only, dtype=native.collect_schema()["item"])
    elif engine.is_pyarrow():
        only = library.chunked_array([library.array(only, native.schema.field("item").type)])
    wanted = only if isinstance(only, list) else nw.from_native(only, series_only=True)
    return pairs.filter(nw.col("item").is_in(wanted) | (nw.col("bad") > 0))


def _listed(keys: list[Any], dtype: Any) -> str:
    """Return DuckDB's query of these keys: one text, split and cast.

    As so many literals they would take minutes to plan, and a list of large
    integers would be one of doubles.
    """
    if not keys:
        return "SELECT NULL WHERE false"
    texts = list(map(_text, keys))
    number = 0
    while any(f"\x1e{number}\x1f" in text for text in texts):
        number += 1
    separator = f"\x1e{number}\x1f"  # no end of it begins another
    whole = literal(separator.join(texts)).replace("\0", "' || chr(0) || '")
    return f"SELECT CAST(unnest(string_split({whole}, '{separator}')) AS {dtype})"


def _text(key: Any) -> str:
    """Return a text that DuckDB casts to the key."""
    return "".join(f"\\x{byte:02X}" for byte in key) if isinstance(key, bytes) else str(key)


def _hashed(pairs: Any) -> Any:
    """Add a column `hash` of (user, item), which narwhals has no word for.

    The hash is of the two values alone: ranks or dictionary codes would let
    one user's rows decide which items another user keeps.
    """
    import narwhals as nw

    native, engine = pairs.to_native(), pairs.implementation
    if engine.is_polars():
        struct = engine.to_native_namespace().struct
        return nw.from_native(native.with_columns(struct("user", "item").hash().alias("hash")))
    if engine.is_pandas():
        hash_rows = engine.to_native_namespace().util.hash_pandas_object
        hashes = hash_rows(native[["user", "item"]], index=False)
        return nw.from_native(native.assign(hash=hashes)).lazy()
    if engine.is_pyarrow():
        native = connect().from_arrow(native)
    elif not engine.is_duckdb():
        raise SourceError(
            "max_items_per_user needs pandas, Polars, PyArrow or DuckDB; on other engines "
            "bound the contributions in your own query"
        )
    # Twice: DuckDB joins the two hashes by an xor, under which the items of many
    # users would come in much the same order.
    return nw.from_native(native.project('*, hash(hash("user", "item")) AS "hash"'))


def _int64(counts: list[int]) -> NDArray[np.int64]:
    return np.array(counts, dtype=np.int64)
