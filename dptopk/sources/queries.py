"""What is asked of an engine: the distinct pairs that count, and the top of their items.

One narwhals query serves every engine. Only what narwhals has no word for is said
in an engine's own.
"""

from __future__ import annotations

from typing import Any

from dptopk.sources import on_duckdb, on_spark
from dptopk.sources.bounds import rank, text
from dptopk.sources.engines import collected
from dptopk.sources.files import connect
from dptopk.sources.keys import Keyed, is_dask
from dptopk.sources.labels import Kind, is_unicode
from dptopk.sources.rules import Rules
from dptopk.sources.weighting import with_weights

__all__ = ["counts_of", "enough_rows", "pairs_of", "top", "wanted_rows"]

Kinds = tuple[Kind | None, Kind | None]


def counts_of(events: Keyed, only: list[Any] | None, limit: int | None, rules: Rules) -> Any:
    """Return items, counts and flags as `top` does, of `pairs_of`, in whatever engine."""
    if is_dask(events.query):
        from dptopk.sources import on_dask  # it calls these for each of its parts

        return on_dask.counted(events, only, limit, rules)
    return top(pairs_of(events, only, rules), limit, weighed=rules.weighting is not None)


def pairs_of(events: Keyed, only: list[Any] | None, rules: Rules) -> Any:
    """Return the distinct pairs that count, as a lazy query.

    Parameters
    ----------
    events : Keyed
    only : list of keys, or None
        Items to count; the others are ignored, before any bound.
    rules : Rules

    Returns
    -------
    narwhals.LazyFrame
        Columns `user`, `item`, `bad`, and `weight` if there is a weighting.
    """
    import narwhals as nw

    pairs = enough_rows(wanted_rows(events.query, only, rules), rules)
    if rules.max_items_per_user is not None:
        nth = nw.col("item").cum_count().over("user", order_by=["rank", "item"])
        enough = (nw.col("nth") <= rules.max_items_per_user) | (nw.col("bad") > 0)
        ranked = _ranked(pairs, events.kinds, rules.hash_key)
        pairs = ranked.with_columns(nth=nth).filter(enough).drop("nth", "rank")
    if rules.weighting is not None:
        pairs = with_weights(pairs, *rules.weighting)
    return pairs


def wanted_rows(rows: Any, only: list[Any] | None, rules: Rules) -> Any:
    """Return the rows of some items, without nulls if these are to be left out."""
    import narwhals as nw

    if rules.nulls == "drop":
        rows = rows.filter(nw.col("bad") == 0)
    return rows if only is None else _among(rows, only)


def enough_rows(rows: Any, rules: Rules) -> Any:
    """Return each row once, if it is there often enough."""
    import narwhals as nw

    if rules.min_events == 1:
        return _distinct(rows)
    rows = rows.group_by(*rows.collect_schema().names()).agg(nw.len().alias("rows"))
    enough = (nw.col("rows") >= rules.min_events) | (nw.col("bad") > 0)
    return rows.filter(enough).drop("rows")


def top(pairs: Any, limit: int | None, *, weighed: bool = False) -> Any:
    """Return items, counts and, for each, whether it or a user of it is null, as a query.

    One query, so that a lazy source is read once. Nulls sort first: no limit
    hides them. Without a limit all items come, ascending.
    """
    import narwhals as nw

    count = nw.col("weight").sum() if weighed else nw.len()
    query = pairs.group_by("item").agg(count.alias("count"), nw.max("bad"))
    if limit is None:
        query = query.sort("bad", "item", descending=[True, False])
    else:
        query = query.sort("bad", "count", "item", descending=[True, True, False]).head(limit)
    return query.select("item", "count", "bad")


def _distinct(pairs: Any) -> Any:
    """Return each row once; narwhals would number the rows of databases to do so."""
    import narwhals as nw

    native = pairs.to_native()
    return (
        nw.from_native(native.distinct()).lazy() if hasattr(native, "distinct") else pairs.unique()
    )


def _among(pairs: Any, only: list[Any]) -> Any:
    """Keep the rows of these items, and those with nulls."""
    import narwhals as nw

    native, engine = pairs.to_native(), pairs.implementation
    # What no column of text of these engines holds: they would fail on it.
    only = [key for key in only if not isinstance(key, str) or is_unicode(key)]
    if engine.is_duckdb():
        return nw.from_native(on_duckdb.among(native, only)).lazy()
    if engine.is_spark_like():
        return nw.from_native(on_spark.among(native, only)).lazy()
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


def _ranked(pairs: Any, kinds: Kinds, hash_key: str) -> Any:
    """Add a column `rank`; see `dptopk.sources.bounds`.

    Tables in memory go through DuckDB: pandas, Polars and PyArrow have no md5.
    """
    import narwhals as nw

    if pairs.implementation.is_spark_like():
        return nw.from_native(on_spark.ranked(pairs.to_native(), kinds, hash_key)).lazy()
    if not pairs.implementation.is_duckdb():
        table = collected(pairs)
        if not _goes_to_arrow(kinds):
            return _ranked_here(table, kinds, hash_key)
        pairs = nw.from_native(connect().from_arrow(table.to_arrow()))
    return nw.from_native(on_duckdb.ranked(pairs.to_native(), kinds, hash_key)).lazy()


def _goes_to_arrow(kinds: Kinds) -> bool:
    """Whether PyArrow is there, and has integers as large as these columns'."""
    try:
        import pyarrow  # type: ignore[import-untyped,unused-ignore]  # noqa: F401
    except ImportError:
        return False
    whole = [kind.limits[1] for kind in kinds if kind and kind.name == "integer" and kind.limits]
    return max(whole, default=0) < 2**64


def _ranked_here(table: Any, kinds: Kinds, hash_key: str) -> Any:
    """Add a column `rank` row by row, some times slower than DuckDB."""
    import narwhals as nw

    of_user, of_item = kinds
    rows = zip(*(table[name].to_list() for name in ("user", "item", "bad")), strict=True)
    ranks = [
        "" if bad else rank(hash_key, text(of_user, user), text(of_item, item))
        for user, item, bad in rows
    ]
    column = nw.new_series("rank", ranks, nw.String, backend=table.implementation)
    return table.with_columns(column).lazy()
