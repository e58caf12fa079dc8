"""Dask: each part is a pandas table, and all that is done to one user is done in one part."""

from __future__ import annotations

from typing import Any

from dptopk.sources.engines import keyed
from dptopk.sources.keys import Keyed, find, in_engine, no_labels
from dptopk.sources.queries import pairs_of, top
from dptopk.sources.rules import Rules

__all__ = ["counted", "distinct", "of_frame", "rows"]


def of_frame(frame: Any, *columns: str) -> Keyed:
    """Return columns of a Dask DataFrame as keys."""
    names = list(frame.columns)
    for name in columns:
        find(names, name)
    some = frame[list(columns)]
    for name, dtype in some._meta.dtypes.items():
        if str(dtype) == "object" or getattr(dtype, "storage", None) == "python":
            # What the values are, their parts would have to agree on.
            raise no_labels(name, "object")
        if hasattr(dtype, "categories") and not some[name].cat.known:
            raise no_labels(name, "category, of categories that are not known")
    of_none = keyed(some._meta, *columns)
    assert of_none is not None
    keys = in_engine(lambda: some.map_partitions(_keys, *columns, meta=_keys(some._meta, *columns)))
    return of_none._replace(query=keys)


def counted(events: Keyed, only: list[Any] | None, limit: int | None, rules: Rules) -> Any:
    """Return what `dptopk.sources.queries.counts_of` does."""
    import dask

    keys = events.query
    if rules.min_events == 1:
        keys = keys.map_partitions(_distinct, meta=keys._meta)
    # Not by way of a disk, unless the caller has chosen that: events are private.
    method = dask.config.get("dataframe.shuffle.method", None) or "tasks"
    by_user = keys.shuffle(on="user", shuffle_method=method)
    of_part = (events.kinds, only, rules)
    parts = by_user.map_partitions(_counts, *of_part, meta=_counts(keys._meta, *of_part))
    by_item = parts.shuffle(on="item", shuffle_method=method)
    tops = by_item.map_partitions(_top, limit, meta=parts._meta)
    return tops.repartition(npartitions=1).map_partitions(_top, limit, meta=parts._meta)


def distinct(events: Keyed, *, all_rows: bool) -> Any:
    """Return the distinct rows of keys, or all of them, as one pandas table."""
    keys = events.query
    return (keys if all_rows else keys.map_partitions(_distinct, meta=keys._meta)).compute()


def rows(query: Any) -> tuple[list[Any], ...]:
    """Run a query and return its columns."""
    done = query.compute()
    return tuple(done[name].to_list() for name in done.columns)


def _keys(part: Any, *columns: str) -> Any:
    of_part = keyed(part, *columns)
    assert of_part is not None
    return of_part.query.collect().to_native()


def _distinct(part: Any) -> Any:
    return part.drop_duplicates()


def _counts(part: Any, kinds: Any, only: list[Any] | None, rules: Rules) -> Any:
    """Return items with what the users of a part add to them."""
    import narwhals as nw

    pairs = pairs_of(Keyed(nw.from_native(part).lazy(), kinds), only, rules)
    done = top(pairs, None, weighed=rules.weighting is not None).collect().to_pandas()
    # Where they went by way of DuckDB they came back as other types.
    return done.astype({"item": part["item"].dtype, "count": "int64", "bad": "int8"})


def _top(part: Any, limit: int | None) -> Any:
    """Return the top of partial counts, each item's in one part, summed."""
    sums = part.groupby("item", dropna=False, as_index=False, sort=False).agg(
        {"count": "sum", "bad": "max"}
    )
    if limit is None:
        return sums.sort_values(["bad", "item"], ascending=[False, True])
    return sums.sort_values(["bad", "count", "item"], ascending=[False, False, True]).head(limit)
