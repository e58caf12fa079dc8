"""Distinct users per item in each group: the tops of all groups in one query.

As `dptopk.sources.frames` for one histogram: nulls, then items of a domain, then rows of
enough events; then the listed groups, each user's groups, and each user's items in each.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from dptopk._validate import integer
from dptopk.errors import SourceError
from dptopk.sources import on_duckdb, on_spark
from dptopk.sources.bounds import DUCKDB, SPARK, rank, rank_sql, text, text_sql
from dptopk.sources.columns import domain_of
from dptopk.sources.engines import fetch, keyed
from dptopk.sources.files import connect
from dptopk.sources.groups import Groups, Listed
from dptopk.sources.keys import Keyed, in_engine, is_dask
from dptopk.sources.labels import TEXT, Column, Domain, Kind, matched
from dptopk.sources.plain import NULLS, is_plain, some_columns
from dptopk.sources.progress import working
from dptopk.sources.queries import enough_rows, wanted_rows
from dptopk.sources.rules import Rules
from dptopk.sources.weighting import sum_weights, with_weights

__all__ = ["CountedInGroups", "assembled", "count_in_groups"]

Rows = tuple[list[Any], list[Any], list[int]]  # groups, items, counts: each group's together


class CountedInGroups(NamedTuple):
    """Counts of distinct users, one group after the other.

    Attributes
    ----------
    groups : list
        Their labels.
    counts : ndarray of int64
    offsets : ndarray of int64
        Where each group begins.
    labels : list or None
        The items; None for those of the domain, in each group.
    next_counts : ndarray of int64 or None
        The (k_bar+1)-th largest counts, 0 if there are none; None when nothing was cut.
    """

    groups: list[Any]
    counts: np.ndarray
    offsets: np.ndarray
    labels: list[Any]
    next_counts: np.ndarray | None


def count_in_groups(
    frame: Any,
    *,
    user: str,
    item: str,
    groups: Groups,
    domain: Any,
    k_bar: int | None,
    rules: Rules,
    progress: bool | Callable[[], float],
) -> CountedInGroups:
    """Count the distinct users of each item in each group; see `frames.count_users`."""
    if k_bar is not None:
        k_bar = integer("k_bar", k_bar)
    columns = (user, item, *groups.by)
    if len(set(columns)) < len(columns):
        raise ValueError("user, item and by must be different columns")
    wanted = None if domain is None else domain_of(domain)
    limit = None if k_bar is None or wanted is not None else k_bar + 1
    events = None if is_plain(frame) else keyed(frame, *columns)
    plain = [] if events is not None else some_columns(frame, *columns)
    _, kind, *by = (
        [column.kind for column in plain] if events is None else [*events.kinds, *events.by]
    )
    listed = None if groups.domain is None else groups.listed(by)
    places = None if wanted is None else matched(wanted, kind, item)
    only = None if places is None else [key for key in places if key is not None]
    with working("Counting", progress):
        if events is None:
            of = _Plain(plain, columns, groups, listed, rules)
            found = of.counted(only, limit)
        else:
            *found, bad = in_engine(_counted, events, groups, listed, only, limit, rules)
            if bad and bad[0]:
                code = 0 if bad[0] % 2 else 1 if bad[0] % 4 else 2
                raise SourceError(f"column {columns[code]!r} holds nulls; {NULLS}")
    return assembled(found, groups, by, kind, wanted, places, k_bar)


def assembled(
    found: Any,
    groups: Groups,
    by: list[Kind | None],
    kind: Kind | None,
    wanted: Domain | None,
    places: list[Any] | None,
    k_bar: int | None,
) -> CountedInGroups:
    """Return what came, with those groups that nothing came of, and items that nobody has."""
    *of_groups, items, counts = found
    keys: list[Any]
    if groups.domain is not None:
        keys, labels = list(range(len(groups.domain.keys))), groups.domain.labels
        of_rows = of_groups[0]
    else:
        of_rows = list(zip(*of_groups, strict=True))
        keys = list(dict.fromkeys(of_rows))
        parts = [
            tuple(part.label(key) for part, key in zip(by, row, strict=True) if part is not None)
            for row in keys
        ]
        labels = [part[0] for part in parts] if len(by) == 1 else parts
    rows: dict[Any, list[tuple[Any, int]]] = {key: [] for key in keys}
    for group, item, count in zip(of_rows, items, counts, strict=True):
        rows[group].append((item, int(count)))
    if wanted is not None and places is not None and groups.domain is not None:
        found_in = [dict(rows[key]) for key in keys]
        matrix = [[there.get(item, 0) for item in places] for there in found_in]
        sizes = [len(places)] * len(keys)
        values = np.array(matrix, np.int64).reshape(-1)
        return CountedInGroups(labels, values, _offsets(sizes), wanted.labels, None)
    cut = [rows[key][:k_bar] for key in keys]
    values = np.array([count for row in cut for _, count in row], np.int64)
    # Of groups that were found nobody knows which have an item that nobody has: no zeros.
    label_of = (
        dict(zip(places, wanted.labels, strict=True)).__getitem__
        if wanted is not None and places is not None
        else None
        if kind is None
        else kind.label
    )
    names = [] if label_of is None else [label_of(item) for row in cut for item, _ in row]
    following = None
    if k_bar is not None:
        over = ([count for _, count in rows[key][k_bar:]] or [0] for key in keys)
        following = np.array([next(iter(counts)) for counts in over], np.int64)
    return CountedInGroups(labels, values, _offsets(map(len, cut)), names, following)


def _offsets(sizes: Iterable[int]) -> np.ndarray:
    return np.cumsum([0, *sizes], dtype=np.int64)


# ---- in engines


def _counted(
    events: Keyed,
    groups: Groups,
    listed: Listed | None,
    only: list[Any] | None,
    limit: int | None,
    rules: Rules,
) -> tuple[list[Any], ...]:
    """Return groups, items, counts and flags, as `queries.top` does of one histogram."""
    import narwhals as nw

    if is_dask(events.query):
        from dptopk.sources import on_dask

        table = on_dask.distinct(events, all_rows=rules.min_events > 1)
        events = events._replace(query=nw.from_native(table).lazy())
    rows = wanted_rows(events.query, only, rules)
    if rules.min_events == 1:
        rows = enough_rows(rows, rules)
    if not (rows.implementation.is_duckdb() or rows.implementation.is_spark_like()):
        rows = nw.from_native(connect().from_arrow(rows.collect().to_arrow())).lazy()
    spark = rows.implementation.is_spark_like()
    engine: Any = on_spark if spark else on_duckdb
    native, of_group = rows.to_native(), [f"by_{place + 1}" for place in range(len(events.by))]
    sql = _Sql(spark, events)
    if listed is not None:
        native, of_group = engine.in_groups(native, listed), ["group"]
    elif rules.max_items_per_user is not None:
        native = engine.with_column(native, f"{sql.name_of_group()} AS {sql.quoted('name')}")
    native = enough_rows(nw.from_native(native).lazy(), rules).to_native()
    for most, nth in sql.bounds(groups, rules, of_group):
        ranked = nw.from_native(engine.with_column(native, f"{nth} AS nth")).lazy()
        native = (
            ranked.filter((nw.col("nth") <= most) | (nw.col("bad") > 0)).drop("nth").to_native()
        )
    rows, count = nw.from_native(native).lazy(), nw.len()
    if rules.weighting is not None:
        rows, count = with_weights(rows, *rules.weighting), nw.col("weight").sum()
    tops = rows.group_by(*of_group, "item").agg(count.alias("count"), nw.max("bad"))
    tops = tops.with_columns(least=-nw.col("count").cast(nw.Int64))
    order = ["item"] if limit is None else ["least", "item"]
    if limit is not None:
        nth_item = nw.col("item").cum_count().over(*of_group, order_by=order)
        tops = tops.with_columns(nth=nth_item)
        tops = tops.filter((nw.col("nth") <= limit) | (nw.col("bad") > 0))
    keys = ["bad", *of_group, *order]
    tops = tops.sort(keys, descending=[True] + [False] * (len(keys) - 1))
    return fetch(tops.select(*of_group, "item", "count", "bad"))


class _Sql:
    """What is said in SQL: of DuckDB, or of Spark."""

    def __init__(self, spark: bool, events: Keyed):
        self.quote, self.words = ("`", SPARK) if spark else ('"', DUCKDB)
        self.kinds, self.by = events.kinds, events.by

    def quoted(self, name: str) -> str:
        return f"{self.quote}{name}{self.quote}"

    def name_of_group(self) -> str:
        """Return the text of a group that is not listed; as `bounds.text` of its label."""
        texts = [
            text_sql(self.words, kind, f"by_{place + 1}") for place, kind in enumerate(self.by)
        ]
        if len(texts) == 1:
            return texts[0]
        return "'(' || " + " || ',' || ".join(texts) + " || ',)'"

    def bounds(
        self, groups: Groups, rules: Rules, of_group: list[str]
    ) -> Iterable[tuple[int, str]]:
        """Return how many of which numbers are kept: of a user's groups, and of the items."""
        user, item, name = map(self.quoted, ("user", "item", "name"))
        group = ", ".join(map(self.quoted, of_group))
        kinds = (self.kinds[0], TEXT)
        if groups.cut_to is not None:
            by = rank_sql(self.words, kinds, user, name, rules.hash_key)
            order = f"PARTITION BY {user} ORDER BY {by}, {group}"
            yield groups.cut_to, f"dense_rank() OVER ({order})"
        if rules.max_items_per_user is not None:
            both = f"{name} || ':' || {text_sql(self.words, self.kinds[1], item)}"
            by = rank_sql(self.words, kinds, user, both, rules.hash_key)
            of = user if rules.weighting is not None else f"{user}, {group}"
            order = f"PARTITION BY {of} ORDER BY {by}, {group}, {item}"
            yield rules.max_items_per_user, f"row_number() OVER ({order})"


# ---- in plain Python


class _Plain:
    """The same of columns in Python."""

    def __init__(
        self,
        columns: list[Column],
        names: tuple[str, ...],
        groups: Groups,
        listed: Listed | None,
        rules: Rules,
    ):
        self.columns, self.names, self.rules = columns, names, rules
        self.groups, self.listed = groups, listed

    def counted(self, only: Collection[Any] | None, limit: int | None) -> Any:
        """Return groups, items and counts."""
        rows = Counter(zip(*(column.keys for column in self.columns), strict=True))
        if self.rules.nulls == "error":
            for name, place in zip(self.names, range(len(self.names)), strict=True):
                if any(row[place] is None for row in rows):
                    raise SourceError(f"column {name!r} holds nulls; {NULLS}")
        items = None if only is None else set(only)
        group_of = self._group_of()
        triples: Counter[Any] = Counter()
        for row, number in rows.items():
            if None in row or (items is not None and row[1] not in items):
                continue
            group = group_of(row[2:])
            if group is not None:
                triples[row[0], group, row[1]] += number
        kept = [triple for triple, n in triples.items() if n >= self.rules.min_events]
        tops = self._sums(self._bounded(kept))
        of_group: defaultdict[Any, list[tuple[Any, int]]] = defaultdict(list)
        for (group, item), count in sorted(tops, key=lambda top: top[0]):
            of_group[group].append((item, count))
        flat = [
            (group, *row)
            for group, those in of_group.items()
            for row in (those if limit is None else sorted(those, key=lambda r: -r[1])[:limit])
        ]
        of_rows = [[row[0] for row in flat]]
        if self.listed is None:
            of_rows = [[group[i] for group in of_rows[0]] for i in range(len(self.groups.by))]
        return [*of_rows, [row[1] for row in flat], [row[2] for row in flat]]

    def _group_of(self) -> Callable[[Any], Any]:
        """Return what tells the group of a row, None if it is in none that is listed."""
        listed = self.listed
        if listed is None:
            return lambda keys: keys
        if not listed.periods:
            return dict(zip(zip(*listed.keys, strict=True), listed.places, strict=True)).get
        spans = sorted(zip(*listed.keys, listed.places, strict=True))
        starts = [start for start, _, _ in spans]

        def of_period(keys: Any) -> int | None:
            place = bisect_right(starts, keys[0]) - 1
            return spans[place][2] if place >= 0 and keys[0] < spans[place][1] else None

        return of_period

    def _bounded(self, triples: list[Any]) -> list[Any]:
        """Return those (user, group, item) that count; see `dptopk.sources.bounds`."""
        key = self.rules.hash_key
        of_user, of_item = (column.kind for column in self.columns[:2])
        name = self._name_of()
        if self.groups.cut_to is not None:
            groups_of: defaultdict[Any, set[Any]] = defaultdict(set)
            for user, group, _ in triples:
                groups_of[user].add(group)
            left = {
                user: set(
                    heapq.nsmallest(
                        self.groups.cut_to,
                        groups,
                        key=lambda g: (rank(key, text(of_user, user), name(g)), g),
                    )
                )
                for user, groups in groups_of.items()
            }
            triples = [triple for triple in triples if triple[1] in left[triple[0]]]
        if self.rules.max_items_per_user is None:
            return triples
        rows_of: defaultdict[Any, list[Any]] = defaultdict(list)
        for user, group, item in triples:
            rows_of[user if self.rules.weighting is not None else (user, group)].append(
                (user, group, item)
            )

        def order(triple: Any) -> Any:
            user, group, item = triple
            both = f"{name(group)}:{text(of_item, item)}"
            return rank(key, text(of_user, user), both), group, item

        most = self.rules.max_items_per_user
        return [row for rows in rows_of.values() for row in heapq.nsmallest(most, rows, key=order)]

    def _name_of(self) -> Callable[[Any], str]:
        if self.listed is not None:
            return dict(zip(self.listed.places, self.listed.names, strict=True)).__getitem__
        kinds = [column.kind for column in self.columns[2:]]
        if len(kinds) == 1:
            return lambda keys: text(kinds[0], keys[0])
        whole = Kind("tuple", parts=tuple(kind for kind in kinds if kind is not None))
        return lambda keys: text(whole, keys)

    def _sums(self, triples: list[Any]) -> Iterable[tuple[Any, int]]:
        pairs = [(user, (group, item)) for user, group, item in triples]
        if self.rules.weighting is not None:
            return sum_weights(pairs, *self.rules.weighting)
        return Counter(pair for _, pair in pairs).items()
