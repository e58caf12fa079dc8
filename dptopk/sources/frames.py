"""Distinct users per item, counted by the engine that holds the events.

One narwhals query serves every engine: pairs made distinct, grouped by item,
counted, sorted and cut. Only its result comes to Python.

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
from dptopk.sources.files import connect
from dptopk.sources.plain import count_plain, is_plain
from dptopk.sources.progress import working

_ACCEPTED = (
    "pandas, Polars (eager or lazy), PyArrow and other tables that narwhals takes, DuckDB "
    "relations, a dict of columns, a pair of arrays, or a list of (user, item) pairs"
)


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
    progress: bool | Callable[[], float] = False,
) -> Counted:
    """Count the distinct users of each item.

    Parameters
    ----------
    frame : DataFrame, lazy query, DuckDB relation or plain container of events
        One row per event; repeated (user, item) pairs count once.
    user, item : str
        Names of the two columns. Categorical columns are read as text.
    domain : sequence of labels, optional
        The items that exist, fixed without looking at the data. The result
        follows its order; absent items count 0, items outside it are ignored
        (before `max_items_per_user` applies).
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
        A column that is missing, holds nulls (NaN is one) or nested values, or
        an engine that fails. These are faults of the input file, reported
        outside the privacy guarantee; no value of the data is in the message.
    TypeError
        An unsupported frame, or domain labels of another kind than the column.
    ValueError
        A domain with duplicates or None, `k_bar` or `max_items_per_user` < 1.
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
    wanted = _domain_labels(domain)
    limit = None if k_bar is None or wanted is not None else k_bar + 1
    only = wanted if max_items_per_user is not None else None
    if is_plain(frame):
        with working("Counting", progress):
            rows = count_plain(
                frame, user=user, item=item, only=only, max_items_per_user=max_items_per_user
            )
        if limit is not None:
            rows = sorted(rows, key=lambda row: -row[1])[:limit]  # stable: ties stay by item
        labels, counts = [row[0] for row in rows], [row[1] for row in rows]
    else:
        pairs = _pairs(frame, user, item, wanted)
        with working("Counting", progress):
            labels, counts, bad = _in_engine(_count, pairs, only, max_items_per_user, limit)
        if bad and bad[0]:
            name = item if bad[0] >= 2 else user
            raise SourceError(f"column {name!r} holds nulls; drop or fill them first")
    if wanted is not None:
        found = dict(zip(labels, counts, strict=True))
        return Counted(_int64([found.get(label, 0) for label in wanted]), wanted, None)
    if k_bar is None:
        return Counted(_int64(counts), labels, None)
    next_count = int(counts[k_bar]) if len(counts) > k_bar else 0
    return Counted(_int64(counts[:k_bar]), labels[:k_bar], next_count)


def _pairs(frame: Any, user: str, item: str, wanted: list[Any] | None) -> Any:
    """Return the lazy query of the two columns, named `user` and `item`."""
    try:
        import narwhals as nw
    except ImportError:
        raise ImportError(
            "reading DataFrames needs narwhals: pip install 'dptopk[files]'"
        ) from None
    lazy = _in_engine(_lazy, frame)
    if lazy is None:
        hint = "; read files with dptopk.sources.files.read_events" if _is_path(frame) else ""
        raise TypeError(f"events must be {_ACCEPTED}; got {type(frame).__name__}{hint}")
    schema = _in_engine(lazy.collect_schema)
    for name in (user, item):
        if name not in schema:
            raise SourceError(f"no column {name!r}; columns: {', '.join(map(repr, schema))}")
        if schema[name].is_nested():
            raise SourceError(f"column {name!r} holds nested values, which are no labels")
        if lazy.implementation.is_pandas() and _is_mixed(lazy.to_native()[name]):
            raise SourceError(f"column {name!r} holds labels of mixed kinds; make them all text")
    dtype = schema[item]
    for kind, held, fits in (
        ("text", dtype == nw.String, str),
        ("integers", dtype.is_integer(), int),
    ):
        if wanted and held and not isinstance(wanted[0], fits):
            raise TypeError(f"column {item!r} holds {kind}, the domain does not")
    columns = {"user": user, "item": item}
    kinds = {name: schema[source] for name, source in columns.items()}
    if lazy.implementation.is_duckdb():
        lazy = _in_engine(_renamed, lazy, columns)
        columns = {name: name for name in columns}
    pairs = lazy.select(**{name: _label(columns[name], kinds[name]) for name in columns})
    if pairs.implementation.is_duckdb() and pairs.collect_schema()["item"] == nw.String:
        # Under another collation the rows would decide which of two equal items is shown.
        project = pairs.to_native().project
        return nw.from_native(project('"user", "item" COLLATE C AS "item"'))
    return pairs


def _label(name: str, dtype: Any) -> Any:
    """Return a column of labels in which equal ones are written alike."""
    import narwhals as nw

    column = nw.col(name)
    # Categories sort by an order that may stem from the data, and hash by code.
    if isinstance(dtype, (nw.Categorical, nw.Enum)):
        return column.cast(nw.String)
    # Of -0.0 and 0.0 the rows would decide which one is shown.
    return column + 0.0 if dtype.is_float() else column


def _renamed(lazy: Any, columns: dict[str, str]) -> Any:
    """Rename the columns of a DuckDB relation in SQL.

    A column expression of DuckDB 1 takes a name apart at its dots and quotes.
    """
    import narwhals as nw

    quoted = ((name, '"' + source.replace('"', '""') + '"') for name, source in columns.items())
    project = ", ".join(f'{source} AS "{name}"' for name, source in quoted)
    return nw.from_native(lazy.to_native().project(project)).lazy()


def _lazy(frame: Any) -> Any:
    """Return the narwhals lazy frame, or None if narwhals does not take it."""
    import narwhals as nw

    try:
        return nw.from_native(frame).lazy()
    except TypeError:
        return None


def _is_mixed(series: Any) -> bool:
    """Whether a pandas column holds objects whose order or look the data could decide.

    pandas does not fail on kinds that have no common order: it sorts them by
    first appearance. And objects that are equal may look different, as 1.0 and
    1.00 do, or one instant in two time zones: it shows the first.
    """
    if series.dtype != object:
        return False
    from pandas.api.types import infer_dtype  # type: ignore[import-untyped,unused-ignore]

    plain = ("string", "bytes", "integer", "boolean", "date", "empty")
    return infer_dtype(series, skipna=True) not in plain


def _count(
    pairs: Any, only: list[Any] | None, max_items_per_user: int | None, limit: int | None
) -> tuple[list[Any], list[int], list[int]]:
    """Return items, counts and, for each, whether it or a user of it is null.

    One query, so that a lazy source is read once. Nulls sort first: no limit
    hides them.
    """
    import narwhals as nw

    schema = pairs.collect_schema()
    null = {
        name: nw.col(name).is_null() | nw.col(name).is_nan()
        if schema[name].is_float()
        else nw.col(name).is_null()
        for name in ("user", "item")
    }
    if only is not None:
        pairs = pairs.filter(nw.col("item").is_in(only) | null["item"] | null["user"])
    pairs = pairs.unique()
    if max_items_per_user is not None:
        nth = nw.col("item").cum_count().over("user", order_by=["hash", "item"])
        kept = (nw.col("nth") <= max_items_per_user) | null["item"]
        pairs = _hashed(pairs).with_columns(nth=nth).filter(kept)
    bad = null["user"].cast(nw.Int8) + 2 * null["item"].cast(nw.Int8)
    query = pairs.with_columns(bad=bad).group_by("item").agg(nw.len().alias("count"), nw.max("bad"))
    if limit is None:
        query = query.sort("bad", "item", descending=[True, False])
    else:
        query = query.sort("bad", "count", "item", descending=[True, True, False]).head(limit)
    return _fetch(query.select("item", "count", "bad"))


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
    return nw.from_native(native.project('"user", "item", hash(hash("user", "item")) AS "hash"'))


def _fetch(query: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Run a query of three columns and return them as lists."""
    if query.implementation.is_duckdb():
        rows = query.to_native().fetchall()  # narwhals would go through PyArrow
        first, second, third = zip(*rows, strict=True) if rows else ((), (), ())
        return list(first), list(second), list(third)
    done = query.collect()
    first, second, third = (done[name].to_list() for name in done.columns)
    return first, second, third


def _in_engine(work: Callable[..., Any], *args: Any) -> Any:
    """Call `work`; replace an engine's error, which may quote data, by one that does not."""
    try:
        return work(*args)
    except (SourceError, ImportError):
        raise
    except Exception as error:
        kind = type(error).__name__
        interrupted = isinstance(error, RuntimeError) and "interrupted" in str(error)
    if interrupted:  # DuckDB's word for Ctrl-C
        raise KeyboardInterrupt
    # Raised out here, so that not even __context__ holds the engine's message.
    if kind in ("MemoryError", "OutOfMemoryException"):
        raise SourceError("the distinct (user, item) pairs do not fit in memory")
    raise SourceError(
        "the events could not be read and counted: a malformed, cut short or non-UTF-8 row, "
        f"labels of mixed kinds, or a failure of the engine ({kind})"
    )


def _domain_labels(domain: Any) -> list[Any] | None:
    if domain is None:
        return None
    if isinstance(domain, (str, bytes)):
        raise TypeError("domain must be a sequence of labels, not one text")
    for name in ("to_list", "tolist", "to_pylist"):  # Series, ndarray, PyArrow
        if hasattr(domain, name):
            labels = getattr(domain, name)()
            break
    else:
        labels = list(domain)
    # The domain is public: naming one of its labels tells nothing.
    seen = set()
    for label in labels:
        if label is None or label != label:
            raise ValueError("domain must not contain nulls")
        if label in seen:
            raise ValueError(f"domain contains {label!r} twice")
        seen.add(label)
    return labels


def _int64(counts: list[int]) -> NDArray[np.int64]:
    return np.array(counts, dtype=np.int64)


def _is_path(frame: object) -> bool:
    return isinstance(frame, str) or hasattr(frame, "__fspath__")
