"""Counts of distinct users per item, sorted once: every mechanism runs on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from dptopk._counts import CLIP, cut_counts, group, head_size
from dptopk._types import Nulls, Numbers
from dptopk._validate import boolean, counts_array, integer, labels_array
from dptopk.accounting.weights import ONE, checked_weighting
from dptopk.domain import bound_of_user, checked_k_bar, labels_at
from dptopk.errors import SourceError, UnknownDomainError
from dptopk.histogram.numbered import LabelsByNumber, item_numbers, with_zeros

if TYPE_CHECKING:
    from dptopk.histogram.many import Histograms
    from dptopk.sources.groups import Groups

__all__ = [
    "Counts",
    "Histogram",
    "as_histogram",
    "known_histogram",
    "labels_of_data",
    "weighted_histogram",
]

INT64_MAX = 2**63 - 1

FileFormat = Literal["csv", "tsv", "parquet", "json"]
Norm = Literal["l2", "l1"]
SQLDialect = Literal["postgres", "clickhouse", "duckdb", "sqlite"]
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Histogram:
    """Counts of distinct users per item, with their order prepared.

    Preparing takes about one pass over the counts. After that the time of a mechanism
    depends on how many items it picks, not on how many there are.

    Parameters
    ----------
    counts : array of any integer dtype, shape (d,)
        Users per item, in any order. The items are the positions 0 .. d-1: a
        domain fixed before the data was seen. Copied.
    labels : sequence of length d, optional
        The items' names: strings, integers, anything but None.

    Raises
    ------
    TypeError
        If the counts are not integers.
    ValueError
        If a count is negative or past int64, the array is empty or not 1-D,
        or labels don't fit.

    See Also
    --------
    from_events : count distinct users in a DataFrame or query.
    truncated : the top rows that a database returned.

    Notes
    -----
    A Histogram knows whether its **domain** is known (an array, or events with
    ``domain=``) or was read off the data; mechanisms over the full domain
    refuse the latter. Its repr shows no counts, and for an unknown domain not
    how many items there are.

    Examples
    --------
    >>> import dptopk as dp
    >>> h = dp.Histogram([12, 5, 81, 5], labels=["ant", "bee", "cat", "dog"])
    >>> h
    Histogram(n_items=4, known domain)
    """

    __slots__ = (
        "_column",
        "_counted",
        "_envelope",
        "_group_ends",
        "_groups",
        "_head",
        "_k_bar",
        "_known_domain",
        "_labels",
        "_max_items_per_user",
        "_n_items",
        "_next_count",
        "_raced",
        "_weighting",
    )

    # All counts by item, where those of the head may be clipped, but not below
    # what comes after the head. None if truncated.
    _column: np.ndarray | None
    _counted: bool  # from events, whose users could have been cut
    _head: tuple[np.ndarray, np.ndarray]  # the largest: counts and items
    _labels: Sequence[Any] | np.ndarray | None
    _n_items: int  # of a known domain
    _next_count: int  # the largest count that truncation left out
    _groups: tuple[np.ndarray, np.ndarray] | None
    _group_ends: np.ndarray | None
    _k_bar: int | None
    _known_domain: bool
    _max_items_per_user: int | None
    _weighting: tuple[int, str] | None  # soft cap and norm, if the counts are sums of weights
    _envelope: tuple[Any, Any] | None  # that of the last call of `joint`, and which call it was
    _raced: tuple[tuple[int, float], int] | None  # k, scale and head size of the last race

    def __init__(self, counts: Numbers, labels: Any = None):
        array = counts_array("counts", counts)
        if not array.size:
            raise ValueError("counts must hold at least one item")
        self._prepare(array, labels=labels_array(labels, array.size))

    def _prepare(self, array: np.ndarray, **known: Any) -> Histogram:
        """Cut the head, count the counts, and copy the rest in two bytes each if they fit."""
        counts, items = cut_counts(array, head_size(array.size, 1))
        beyond = int(counts[-1]) + 1
        if beyond <= CLIP:
            column = np.empty(array.size, np.int16)
            groups = group(array, counts, copy=column)
        else:
            column = array.astype(np.int64)
            groups = group(array, counts)
        column.flags.writeable = False
        self._set(column, head=(counts, items), **known)
        self._groups = groups
        return self

    def _set(
        self,
        column: np.ndarray | None,
        *,
        labels: Sequence[Any] | np.ndarray | None = None,
        head: tuple[np.ndarray, np.ndarray] | None = None,
        known_domain: bool = True,
        n_items: int | None = None,
        k_bar: int | None = None,
        next_count: int = 0,
        max_items_per_user: int | None = None,
        weighting: tuple[int, str] | None = None,
        counted: bool = False,
    ) -> Histogram:
        self._column = column
        self._counted = counted
        self._weighting = weighting
        self._labels = labels
        self._known_domain = known_domain
        self._k_bar = k_bar
        self._next_count = next_count
        self._max_items_per_user = max_items_per_user
        self._groups = self._group_ends = self._envelope = self._raced = None
        empty = np.empty(0, np.int64)
        self._head = (empty, empty) if head is None else head
        self._n_items = (0 if column is None else column.size) if n_items is None else n_items
        return self

    @classmethod
    def truncated(
        cls,
        counts: Numbers,
        labels: Any,
        *,
        next_count: int,
        k_bar: int,
        max_items_per_user: int | None = None,
        n_items: int | None = None,
        label_of: Callable[[int], Any] | None = None,
    ) -> Histogram:
        """Build from the top rows that an engine returned: an unknown domain, or a huge known one.

        Parameters
        ----------
        counts : array of integers, shape (r,), r <= k_bar
            Users per item of the rows returned, each at least 1.
        labels : sequence of length r
            Their labels, all different and of one kind, as `from_events` has
            them: text, integers, dates, ... Among equal counts the engine must
            have kept those that come first in a fixed order of labels (``ORDER
            BY count DESC, label``), never a data-dependent one, and the rows
            must stand in that order.
        next_count : int
            The (k_bar+1)-th count; 0 if there is none.
        k_bar : int
            The LIMIT that the engine was asked for, less one. It is public; r, how
            many rows there were, is not.
        max_items_per_user : int, optional
            A bound on the items any one user has, known beforehand.
        n_items : int, optional
            The size of a domain that was fixed beforehand, at most 2^53. Its items are the
            integers 0 .. n_items - 1, and so are the labels here; none need exist in memory.
            Mechanisms over known domains take such a histogram: they count all that was
            left out as `next_count`, and any of these may be picked.
        label_of : callable, optional
            ``label_of(i)`` is the name of item i of that domain, for releases: a text or an
            integer.

        Returns
        -------
        Histogram

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described.

        Examples
        --------
        >>> import dptopk as dp
        >>> dp.Histogram.truncated([81, 12], ["cat", "ant"], next_count=5, k_bar=2)
        Histogram(unknown domain, k_bar=2)
        >>> h = dp.Histogram.truncated([8100, 1200], [7, 123456789], next_count=5, k_bar=2,
        ...                            n_items=10**12, label_of="user {}".format)
        >>> dp.peel(h, k=1, epsilon=1.0).labels
        ('user 7',)
        """
        k_bar = integer("k_bar", k_bar)
        next_count = integer("next_count", next_count, minimum=0)
        if max_items_per_user is not None:
            max_items_per_user = integer("max_items_per_user", max_items_per_user)
        rows = counts_array("counts", counts).astype(np.int64, copy=True)
        if n_items is not None:
            n_items = integer("n_items", n_items)
            items = item_numbers(labels, rows.size, n_items)
        elif label_of is not None:
            raise TypeError("label_of goes with n_items: it names the items of a known domain")
        names = labels_of_data(labels, rows.size)
        if rows.size > k_bar:
            raise ValueError("counts must not hold more rows than k_bar")
        if len(set(names.tolist() if isinstance(names, np.ndarray) else names)) != rows.size:
            raise ValueError("labels must be distinct")
        if rows.size and rows.min() < 1:
            raise ValueError("counts must be >= 1: an item without users is not in the data")
        if next_count > (rows.min() if rows.size == k_bar else 0):
            raise ValueError("next_count must not exceed the counts that came before it")
        if n_items is not None:
            rows, items = with_zeros(rows, items, min(k_bar, n_items))
            order = np.lexsort((items, -rows))
            return cls.__new__(cls)._set(
                None,
                labels=None if label_of is None else LabelsByNumber(label_of, n_items),
                head=(rows[order], items[order]),
                n_items=n_items,
                k_bar=k_bar,
                next_count=next_count,
                max_items_per_user=max_items_per_user,
            )
        order = np.argsort(-rows, kind="stable")
        return cls.__new__(cls)._set(
            None,
            labels=names,
            head=(rows[order], order.astype(np.int64)),
            known_domain=False,
            k_bar=k_bar,
            next_count=next_count,
            max_items_per_user=max_items_per_user,
        )

    @classmethod
    def from_weights(
        cls,
        weights: Any,
        labels: Any = None,
        *,
        soft_cap: int,
        norm: Norm = "l2",
        max_items_per_user: int | None = None,
        domain_is_public: bool = False,
    ) -> Histogram:
        """Build from sums of weights, for `weighted`: users with many items count less.

        Parameters
        ----------
        weights : array of any integer dtype, shape (d,)
            For each item the sum over its users of
            ``dptopk.accounting.weight(t, soft_cap=soft_cap, norm=norm)``, t being the number of
            distinct items of the user. Copied.
        labels : sequence of length d, optional
            The items' names. Only a public domain can do without.
        soft_cap : int
            The items of a user up to which each counts as 1; public.
        norm : {"l2", "l1"}
            "l2": past it each counts as sqrt(soft_cap / t), for Gaussian noise;
            "l1": as soft_cap / t, for Laplace noise.
        max_items_per_user : int, optional
            The most items a user has, known beforehand.
        domain_is_public : bool, default False
            Whether the items were fixed before the data was seen; they then include
            those that nobody has. By default they are the items that somebody has:
            all of them, without a LIMIT.

        Returns
        -------
        Histogram

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described.

        Examples
        --------
        >>> import dptopk as dp
        >>> one, twelve = (dp.accounting.weight(t, soft_cap=3) for t in (1, 12))
        >>> sums = [one + twelve, twelve]
        >>> h = dp.Histogram.from_weights(sums, ["ant", "bee"], soft_cap=3, max_items_per_user=12)
        >>> h
        Histogram(unknown domain, soft_cap=3, norm='l2')
        """
        weighting = checked_weighting(soft_cap, norm)
        known = boolean("domain_is_public", domain_is_public)
        if max_items_per_user is not None:
            max_items_per_user = integer("max_items_per_user", max_items_per_user)
        array = counts_array("weights", weights)
        if known and not array.size:
            raise ValueError("weights must hold at least one item")
        column = array.astype(np.int64, copy=True)
        names = labels_array(labels, column.size)
        if not known:  # an item that nobody has is not in the data: no noise may make it one
            there = column.nonzero()[0]
            names = labels_at(labels_of_data(labels, column.size), there)
            column = column[there]
        return cls.__new__(cls)._of_weights(
            column,
            labels=names,
            known_domain=known,
            max_items_per_user=max_items_per_user,
            weighting=weighting,
        )

    def _of_weights(self, column: np.ndarray, **known: Any) -> Histogram:
        """Prepare sums of weights: their order only, as few are equal."""
        if column.size and column.min() < 0:
            raise ValueError("weights must not be negative")
        head = cut_counts(column, head_size(column.size, 1)) if column.size else None
        column.flags.writeable = False
        return self._set(column, head=head, **known)

    @classmethod
    def of_descending(cls, counts: np.ndarray, *, like: Histogram) -> Histogram:
        """Build from int64 counts in descending order, without a copy or a check.

        A known domain, whose items are the positions, of users who are bounded as
        those of another histogram are. For the length of a call.
        """
        return cls.__new__(cls)._set(
            counts,
            head=(counts, np.arange(counts.size)),
            max_items_per_user=like.max_items_per_user,
            counted=like._counted,
        )

    @overload
    @classmethod
    def from_events(
        cls,
        frame: Any,
        *,
        user: str,
        item: str,
        domain: Any = None,
        k_bar: int | None = None,
        max_items_per_user: int | None = None,
        soft_cap: int | None = None,
        norm: Norm = "l2",
        nulls: Nulls = "error",
        min_events: int = 1,
        hash_key: str = "",
        bounded_by_nature: bool = False,
        by: None = None,
        progress: bool | Callable[[], float] = False,
    ) -> Histogram: ...

    @overload
    @classmethod
    def from_events(
        cls,
        frame: Any,
        *,
        user: str,
        item: str,
        domain: Any = None,
        k_bar: int | None = None,
        max_items_per_user: int | None = None,
        soft_cap: int | None = None,
        norm: Norm = "l2",
        nulls: Nulls = "error",
        min_events: int = 1,
        hash_key: str = "",
        bounded_by_nature: bool = False,
        by: str | Sequence[str],
        groups: Any = None,
        max_groups_per_user: int | None = None,
        every: str | Sequence[Any] | None = None,
        progress: bool | Callable[[], float] = False,
    ) -> Histograms: ...

    @classmethod
    def from_events(
        cls,
        frame: Any,
        *,
        user: str,
        item: str,
        domain: Any = None,
        k_bar: int | None = None,
        max_items_per_user: int | None = None,
        soft_cap: int | None = None,
        norm: Norm = "l2",
        nulls: Nulls = "error",
        min_events: int = 1,
        hash_key: str = "",
        bounded_by_nature: bool = False,
        by: str | Sequence[str] | None = None,
        groups: Any = None,
        max_groups_per_user: int | None = None,
        every: str | Sequence[Any] | None = None,
        progress: bool | Callable[[], float] = False,
    ) -> Histogram | Histograms:
        """Count the distinct users of each item in a table of events.

        The work runs in the frame's own engine, lazily where it can; only
        counts come back.

        Parameters
        ----------
        frame : DataFrame, lazy frame, relation or plain container
            pandas, Polars, PyArrow tables and datasets, DuckDB relations,
            Spark and Dask DataFrames, Ibis tables of DuckDB, a dict of columns,
            a tuple of two columns (lists, arrays, Series) or a list of (user,
            item) pairs, one row an event; repeated rows of a user and an item
            count once.
        user, item : str
            Names of the columns, spelt exactly so. Users and items may be
            text, integers, booleans, floats, bytes, dates, timestamps,
            decimals or UUIDs, all of a column of one kind; in plain Python
            tuples of these, too.
        domain : sequence, optional
            All items there may be, fixed before the data was seen, and of the
            column's kind. Items outside are ignored, those without users count
            0. Without it the domain is unknown: read off the data.
        k_bar : int, optional
            Keep only the k_bar largest counts and the next one.
        max_items_per_user : int, optional
            Bound each user's contribution to this many distinct items: those
            with the smallest hash of (user, item), whatever others do, and the
            same in every engine.
        soft_cap : int, optional
            Sum weights in place of counting, for `weighted`: a user counts 1 for
            each of up to so many items, and less for each past that. Goes with no
            `k_bar`: all items are needed.
        norm : {"l2", "l1"}
            With a soft cap: "l2" for Gaussian noise, where each of t items counts
            sqrt(soft_cap / t), or "l1" for Laplace noise, soft_cap / t.
        nulls : {"error", "drop"}, default "error"
            Whether a row whose user or item is null is an error, or is left out.
            Other rows have no say in that.
        min_events : int, default 1
            A user has an item only by at least so many rows of the two. It costs
            nothing: it is a function of the user's own rows.
        hash_key : str, default ""
            A key of the hash by which `max_items_per_user` chooses. Another key
            is another choice; equal ones choose alike each time.
        bounded_by_nature : bool, default False
            Whether you vouch that no user has more than `max_items_per_user`
            items in any data there may be, as nobody has two countries of
            birth. Nothing is cut then.
        by : str or list of str, optional
            The column, or columns, that tell the group of a row: a histogram of each
            group comes, all at one price. `max_items_per_user` and `k_bar` then hold in
            each group; but with a soft cap a user's items are those in all groups.
        groups : sequence, or Release
            All groups there may be, fixed before the data was seen and of the column's
            kind; tuples for several columns. Rows of others are ignored, before any
            bound; groups that nobody is in have no items. Or the release in which they
            were found. Without it, `soft_cap` must be given: only `weighted` takes
            groups that were read off the data.
        max_groups_per_user : int
            Bound each user to this many groups: those with the smallest hash of
            (user, group), whatever others do. It is what the price depends on; 1
            where each user belongs to one group.
        every : str or list, optional
            Where the column tells a time, and groups are periods: "1h", "1d", "1w",
            "1mo" or a multiple, `groups` being where each period begins; or a list of
            boundaries, each period being from one to the next. Days, weeks and months
            are those of the clock in the zone of a datetime.
        progress : bool or callable, default False
            Show progress on stderr. A callable gives the percentage done.

        Returns
        -------
        Histogram
            Or Histograms, with `by`.

        Raises
        ------
        ImportError
            If the frame needs narwhals and it is not installed
            (``pip install 'dptopk[files]'``).
        TypeError
            If the frame is of no known kind, or the domain of another kind
            than the column, or without an order, as a set is.
        ValueError
            If the domain is empty, holds nulls or a label twice, or a number
            is out of range.
        SourceError
            If a column is missing, stands there twice, holds nulls or is of a
            type that is no kind of label, or the engine fails. No value of the
            data is in the message.

        Examples
        --------
        >>> import dptopk as dp
        >>> events = {"who": [1, 1, 2, 2, 3], "what": ["a", "a", "a", "b", "a"]}
        >>> dp.Histogram.from_events(events, user="who", item="what", domain=["a", "b", "c"])
        Histogram(n_items=3, known domain)
        >>> dp.Histogram.from_events(events, user="who", item="what", soft_cap=1).weights.tolist()
        [2.707106590270996, 0.7071065902709961]
        >>> events["where"] = ["FR", "DE", "FR", "FR", "DE"]
        >>> dp.Histogram.from_events(events, user="who", item="what", by="where",
        ...                          groups=["DE", "FR", "IT"], max_groups_per_user=1)
        Histograms(3 groups, max_groups_per_user=1, unknown domain)
        """
        from dptopk.sources.frames import count_users
        from dptopk.sources.grouped import count_in_groups

        in_groups = _groups(by, groups, max_groups_per_user, every)
        count: Any = count_users
        if in_groups is not None:
            count = partial(count_in_groups, groups=in_groups)
        return cls._counted_by(
            lambda rules: count(
                frame,
                user=user,
                item=item,
                domain=domain,
                k_bar=k_bar,
                rules=rules,
                progress=progress,
            ),
            known_domain=domain is not None,
            k_bar=k_bar,
            max_items_per_user=max_items_per_user,
            soft_cap=soft_cap,
            norm=norm,
            nulls=nulls,
            min_events=min_events,
            hash_key=hash_key,
            bounded_by_nature=bounded_by_nature,
            groups=in_groups,
        )

    @overload
    @classmethod
    def from_sql(
        cls,
        connection: Any,
        query_or_table: str | Sequence[str],
        *,
        user: str,
        item: str,
        dialect: SQLDialect | None = None,
        domain: Any = None,
        k_bar: int | None = None,
        max_items_per_user: int | None = None,
        soft_cap: int | None = None,
        norm: Norm = "l2",
        nulls: Nulls = "error",
        min_events: int = 1,
        hash_key: str = "",
        bounded_by_nature: bool = False,
        by: None = None,
        progress: bool | Callable[[], float] = False,
    ) -> Histogram: ...

    @overload
    @classmethod
    def from_sql(
        cls,
        connection: Any,
        query_or_table: str | Sequence[str],
        *,
        user: str,
        item: str,
        dialect: SQLDialect | None = None,
        domain: Any = None,
        k_bar: int | None = None,
        max_items_per_user: int | None = None,
        soft_cap: int | None = None,
        norm: Norm = "l2",
        nulls: Nulls = "error",
        min_events: int = 1,
        hash_key: str = "",
        bounded_by_nature: bool = False,
        by: str | Sequence[str],
        groups: Any = None,
        max_groups_per_user: int | None = None,
        every: str | Sequence[Any] | None = None,
        progress: bool | Callable[[], float] = False,
    ) -> Histograms: ...

    @classmethod
    def from_sql(
        cls,
        connection: Any,
        query_or_table: str | Sequence[str],
        *,
        user: str,
        item: str,
        dialect: SQLDialect | None = None,
        domain: Any = None,
        k_bar: int | None = None,
        max_items_per_user: int | None = None,
        soft_cap: int | None = None,
        norm: Norm = "l2",
        nulls: Nulls = "error",
        min_events: int = 1,
        hash_key: str = "",
        bounded_by_nature: bool = False,
        by: str | Sequence[str] | None = None,
        groups: Any = None,
        max_groups_per_user: int | None = None,
        every: str | Sequence[Any] | None = None,
        progress: bool | Callable[[], float] = False,
    ) -> Histogram | Histograms:
        """Count the distinct users of each item in a table or query of a database.

        The database counts, by one statement that ``dptopk sql`` prints; with a
        `k_bar` no more than k_bar + 1 rows come back. Nothing is written, and the
        connection's transaction and autocommit stay as they were.

        Parameters
        ----------
        connection : connection of the DB-API or of ADBC
            Open: of psycopg, psycopg2, sqlite3, duckdb, ... One at a time may use it.
        query_or_table : str or sequence of str
            A table's name, whose parts dots separate, or the sequence of its parts,
            spelt exactly so; or the text of one query (which needs
            ``pip install 'dptopk[sql]'``).
        user, item : str
            Names of its columns, spelt exactly so. The types in the database say
            what kinds of labels they hold, whatever the rows are; those that
            `from_events` does not take are refused. Text is compared byte by byte,
            whatever the collation.
        dialect : {"postgres", "clickhouse", "duckdb", "sqlite"}, optional
            What SQL to speak; needed only where the driver is one for many databases.
        domain, k_bar, max_items_per_user, soft_cap, norm, nulls, min_events
            As in `from_events`.
        hash_key, bounded_by_nature, progress
            As in `from_events`.
        by, groups, max_groups_per_user, every
            As in `from_events`; for PostgreSQL, DuckDB and SQLite.

        Returns
        -------
        Histogram
            Or Histograms, with `by`.

        Raises
        ------
        ImportError
            If it is a query and sqlglot is not installed.
        SourceError
            As in `from_events`; and if the database refuses the query or fails at
            it. The database's own message is left out, as it may quote data.
        TypeError, ValueError
            As in `from_events`; and if this is no connection, its dialect can't be
            told, or the query is none or more than one.

        Examples
        --------
        >>> import sqlite3
        >>> import dptopk as dp
        >>> con = sqlite3.connect(":memory:")
        >>> _ = con.execute("CREATE TABLE visits (who INTEGER, page TEXT)")
        >>> _ = con.execute("INSERT INTO visits VALUES (1, 'home'), (2, 'home'), (2, 'jobs')")
        >>> dp.Histogram.from_sql(con, "visits", user="who", item="page", k_bar=1000)
        Histogram(unknown domain, k_bar=1000)
        """
        from dptopk.sources.databases import count_in_database, count_in_groups_of_database

        in_groups = _groups(by, groups, max_groups_per_user, every)
        count: Any = count_in_database
        if in_groups is not None:
            count = partial(count_in_groups_of_database, groups=in_groups)
        return cls._counted_by(
            lambda rules: count(
                connection,
                query_or_table,
                user=user,
                item=item,
                dialect=dialect,
                domain=domain,
                k_bar=k_bar,
                rules=rules,
                progress=progress,
            ),
            known_domain=domain is not None,
            k_bar=k_bar,
            max_items_per_user=max_items_per_user,
            soft_cap=soft_cap,
            norm=norm,
            nulls=nulls,
            min_events=min_events,
            hash_key=hash_key,
            bounded_by_nature=bounded_by_nature,
            groups=in_groups,
        )

    @classmethod
    def _counted_by(
        cls,
        count: Callable[[Any], Any],
        *,
        known_domain: bool,
        k_bar: int | None,
        max_items_per_user: int | None,
        soft_cap: int | None,
        norm: Norm,
        bounded_by_nature: bool,
        groups: Groups | None = None,
        **rest: Any,
    ) -> Any:
        """Build from what an engine counts by the rules that it is handed."""
        from dptopk.sources.rules import rules_of

        weighting = None if soft_cap is None else checked_weighting(soft_cap, norm)
        if weighting is not None and k_bar is not None:
            raise ValueError("k_bar goes with no soft cap: weighted needs all items")
        if groups is not None:
            if groups.domain is None and weighting is None:
                raise TypeError(
                    "by needs groups, fixed before the data is seen, and max_groups_per_user; or "
                    "a soft_cap, for weighted, which finds groups too"
                )
            if known_domain and k_bar is not None:
                raise ValueError("k_bar goes with no domain where there are groups")
        rules = rules_of(max_items_per_user=max_items_per_user, weighting=weighting, **rest)
        max_items_per_user = rules.max_items_per_user
        if boolean("bounded_by_nature", bounded_by_nature):
            if max_items_per_user is None:
                raise ValueError("bounded_by_nature goes with max_items_per_user")
            rules = rules._replace(max_items_per_user=None)
        counted = count(rules)
        if groups is not None:
            from dptopk.histogram.many import Histograms

            return Histograms.counted(
                counted,
                groups,
                known_domain=known_domain,
                k_bar=k_bar,
                max_items_per_user=max_items_per_user,
                weighting=weighting,
            )
        if weighting is not None:
            h = cls.__new__(cls)._of_weights(
                counted.counts,
                labels=labels_array(counted.labels, len(counted.counts)),
                known_domain=known_domain,
                max_items_per_user=max_items_per_user,
                weighting=weighting,
            )
        elif not known_domain and k_bar is not None:
            h = cls.truncated(
                counted.counts,
                counted.labels,
                next_count=counted.next_count or 0,
                k_bar=k_bar,
                max_items_per_user=max_items_per_user,
            )
        else:
            h = cls._of_column(
                counted.counts,
                counted.labels,
                known_domain=known_domain,
                k_bar=k_bar,
                max_items_per_user=max_items_per_user,
            )
        h._counted = True
        return h

    @classmethod
    def _of_column(
        cls,
        counts: np.ndarray,
        labels: Any,
        *,
        known_domain: bool,
        k_bar: int | None,
        max_items_per_user: int | None,
    ) -> Histogram:
        """Build from all counts, which may be none where the domain is unknown."""
        h = cls.__new__(cls)
        known: dict[str, Any] = {
            "labels": labels_array(labels, len(counts)),
            "known_domain": known_domain,
            "max_items_per_user": max_items_per_user,
        }
        h = h._prepare(counts, **known) if len(counts) else h._set(counts, **known)
        return h if k_bar is None else h.truncate(k_bar)

    @overload
    @classmethod
    def from_files(
        cls,
        paths: Paths,
        *,
        user: str | int,
        item: str | int,
        format: FileFormat | None = None,
        header: bool = True,
        delimiter: str | None = None,
        domain: Any = None,
        k_bar: int | None = None,
        max_items_per_user: int | None = None,
        soft_cap: int | None = None,
        norm: Norm = "l2",
        nulls: Nulls = "error",
        min_events: int = 1,
        hash_key: str = "",
        bounded_by_nature: bool = False,
        by: None = None,
        temp_directory: str | os.PathLike[str] | None = None,
        memory_limit: str | None = None,
        progress: bool = False,
    ) -> Histogram: ...

    @overload
    @classmethod
    def from_files(
        cls,
        paths: Paths,
        *,
        user: str | int,
        item: str | int,
        format: FileFormat | None = None,
        header: bool = True,
        delimiter: str | None = None,
        domain: Any = None,
        k_bar: int | None = None,
        max_items_per_user: int | None = None,
        soft_cap: int | None = None,
        norm: Norm = "l2",
        nulls: Nulls = "error",
        min_events: int = 1,
        hash_key: str = "",
        bounded_by_nature: bool = False,
        by: str | int | Sequence[str | int],
        groups: Any = None,
        max_groups_per_user: int | None = None,
        every: str | Sequence[Any] | None = None,
        temp_directory: str | os.PathLike[str] | None = None,
        memory_limit: str | None = None,
        progress: bool = False,
    ) -> Histograms: ...

    @classmethod
    def from_files(
        cls,
        paths: Paths,
        *,
        user: str | int,
        item: str | int,
        format: FileFormat | None = None,
        header: bool = True,
        delimiter: str | None = None,
        domain: Any = None,
        k_bar: int | None = None,
        max_items_per_user: int | None = None,
        soft_cap: int | None = None,
        norm: Norm = "l2",
        nulls: Nulls = "error",
        min_events: int = 1,
        hash_key: str = "",
        bounded_by_nature: bool = False,
        by: str | int | Sequence[str | int] | None = None,
        groups: Any = None,
        max_groups_per_user: int | None = None,
        every: str | Sequence[Any] | None = None,
        temp_directory: str | os.PathLike[str] | None = None,
        memory_limit: str | None = None,
        progress: bool = False,
    ) -> Histogram | Histograms:
        """Count the distinct users of each item in files of events.

        Parameters
        ----------
        paths : path, glob or sequence of them
            CSV, TSV, Parquet, JSON lines or a JSON array, by extension, text
            formats also as .gz or .zst; pipes and FIFOs are read once, as is
            standard input, ``-``.
        user, item : str or int
            Names of the columns, spelt exactly so; in a CSV or TSV their
            numbers, from 1, too.
        format : {"csv", "tsv", "parquet", "json"}, optional
            The format of all files, whatever their names are; by default that
            of their names, and CSV for streams.
        header : bool, default True
            Whether CSV and TSV have a header line. Without one columns go by
            number.
        delimiter : str, optional
            Of CSV; by default what the header tells.
        domain, k_bar, max_items_per_user, soft_cap, norm, nulls
            As in `from_events`.
        min_events, hash_key, bounded_by_nature, progress
            As in `from_events`. Labels of text formats are text, as written;
            Parquet keeps its types.
        by, groups, max_groups_per_user, every
            As in `from_events`; `by` may be numbers of columns, too.
        temp_directory : path, optional
            An existing directory for what does not fit into memory: private
            events, not encrypted, in a folder that only you can read and that is
            removed at the end. By default nothing is written, and what does not
            fit is an error.
        memory_limit : str, optional
            Of the engine, such as "2GB"; 80% of the machine's memory by default.

        Returns
        -------
        Histogram

        Raises
        ------
        ImportError
            If DuckDB or narwhals are not installed (``pip install 'dptopk[files]'``).
        SourceError
            As in `from_events`; and if a file can't be read, or the types of a
            column differ between files, as one person would be two.
        TypeError, ValueError
            As in `from_events`.

        Examples
        --------
        >>> import dptopk as dp
        >>> path = "examples/debian12_sections.parquet"
        >>> dp.Histogram.from_files(path, user="package", item="dependency", k_bar=1000)
        Histogram(unknown domain, k_bar=1000)
        """
        from dptopk.sources.files import opened, read_events

        columns = () if by is None else (by,) if isinstance(by, (str, int)) else tuple(by)
        named = None if by is None else list(map(str, columns))
        _groups(named, groups, max_groups_per_user, every)  # before a stream is read
        with opened(temp_directory=temp_directory, memory_limit=memory_limit) as connection:
            events = read_events(
                paths,
                user=user,
                item=item,
                by=columns,
                format=format,
                header=header,
                delimiter=delimiter,
                distinct=min_events == 1,
                connection=connection,
            )
            more: Any = {
                "groups": groups,
                "max_groups_per_user": max_groups_per_user,
                "every": every,
            }
            return cls.from_events(
                events,
                user=str(user),
                item=str(item),
                by=named,
                **more,
                domain=domain,
                k_bar=k_bar,
                max_items_per_user=max_items_per_user,
                soft_cap=soft_cap,
                norm=norm,
                nulls=nulls,
                min_events=min_events,
                hash_key=hash_key,
                bounded_by_nature=bounded_by_nature,
                progress=connection.query_progress if progress else False,
            )

    @classmethod
    def from_counts(
        cls,
        counts: Any,
        *,
        item: str | None = None,
        count: str | None = None,
        domain_is_public: bool = False,
        k_bar: int | None = None,
        max_items_per_user: int | None = None,
    ) -> Histogram:
        """Build from counts that come with their labels.

        The counts must be of distinct users: ``value_counts()`` counts rows,
        of which one user may have many. Drop repeated (user, item) rows before
        it, or let `from_events` do all of this.

        Parameters
        ----------
        counts : mapping, pandas Series, table, or sequence of (label, count) pairs
            A dict or Counter; a pandas Series with the labels in its index; a
            table of two columns, labels first, as Polars', PyArrow's and
            DuckDB's counts are.
        item, count : str, optional
            Names of the two columns of a table that has more.
        domain_is_public : bool, default False
            Whether you vouch that these labels were fixed before the data was seen,
            and include those without users. By default the domain is unknown, read
            off the data, and labels that count 0 are left out.
        k_bar : int, optional
            Keep only the k_bar largest counts and the next one.
        max_items_per_user : int, optional
            A bound on the items any one user has, known beforehand.

        Returns
        -------
        Histogram

        Raises
        ------
        TypeError
            If the counts are not integers or have no labels.
        ValueError
            If a label is null or stands there twice, a count is negative, or a
            known domain is empty.
        SourceError
            If labels are of a type that is no kind of label.

        Examples
        --------
        >>> import dptopk as dp
        >>> from collections import Counter
        >>> visits = {("ann", "tea"), ("bob", "tea"), ("bob", "jam")}
        >>> dp.Histogram.from_counts(Counter(drink for _, drink in visits))
        Histogram(unknown domain)
        """
        from dptopk.sources.counts import labelled_counts

        public = boolean("domain_is_public", domain_is_public)
        if max_items_per_user is not None:
            max_items_per_user = integer("max_items_per_user", max_items_per_user)
        labels, keys, array = labelled_counts(counts, item, count)
        if public and not labels:
            raise ValueError("counts must hold at least one item")
        if not public:
            there = sorted((i for i, n in enumerate(array.tolist()) if n), key=keys.__getitem__)
            labels, array = [labels[i] for i in there], array[there]
        return cls._of_column(
            array,
            labels,
            known_domain=public,
            k_bar=k_bar,
            max_items_per_user=max_items_per_user,
        )

    def truncate(self, k_bar: int) -> Histogram:
        """Return the histogram cut to its k_bar largest counts and the next one.

        Parameters
        ----------
        k_bar : int
            How many items to keep; ties by item order. More than there are is
            no error, but more than an earlier truncation kept is.

        Returns
        -------
        Histogram
            Of the same domain, known or unknown.
        """
        if self._weighting is not None:
            raise ValueError(
                "a histogram with a soft cap can't be truncated: weighted needs it all"
            )
        k_bar = self.check_k_bar(k_bar)
        counts, items, next_count = self.cut(k_bar)
        return Histogram.__new__(Histogram)._set(
            self._column if k_bar >= len(self) else None,
            labels=self._labels,
            head=(counts, items),
            known_domain=self.known_domain,
            n_items=self._n_items,
            k_bar=k_bar,
            next_count=next_count,
            max_items_per_user=self.max_items_per_user,
            counted=self._counted,
        )

    def head(self, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the m largest counts and their items, fewer if there are fewer."""
        counts, items = self._head
        if self._column is not None and counts.size < min(m, self._column.size):
            # Kept, so that the next call costs nothing.
            size = min(max(m, head_size(self._column.size, 1)), self._column.size)
            self._head = counts, items = cut_counts(self._whole(), size)
        return (counts, items) if m == counts.size else (counts[:m], items[:m])

    def cut(self, k_bar: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the k_bar largest counts, their items, and the count that comes next.

        Missing ones count 0: there may be fewer items than k_bar.
        """
        counts, items = self._head
        if counts.size <= k_bar:
            counts, items = self.head(k_bar + 1)
        if counts.size > k_bar:
            next_count = counts.item(k_bar)
            counts, items = counts[:k_bar], items[:k_bar]
        else:
            next_count = self._next_count if k_bar == self.k_bar else 0
        if next_count == INT64_MAX:  # a threshold stands at least one above it
            raise ValueError("counts must be below 2**63 - 1")
        return counts, items, next_count

    def check_k_bar(self, k_bar: Any) -> int:
        """Return k_bar if this histogram holds enough for it."""
        return checked_k_bar(k_bar, limit=self.k_bar)

    def bound_of_user(self, given: Any) -> int | None:
        """Return how many items one user has at most, `given` being what a call says."""
        return bound_of_user(given, self.max_items_per_user, counted=self._counted)

    def labels_of(self, items: np.ndarray) -> tuple[Any, ...] | None:
        """Return the labels of some items, or None if there are none."""
        return labels_at(self._labels, items)

    def counts_of(self, items: np.ndarray) -> np.ndarray:
        """Return the counts of some items, int64; -1 for one that truncation left out."""
        counts, kept = self._head
        if self._column is None:
            found = np.full(items.size, -1, np.int64)
        else:
            found = self._column[items].astype(np.int64)
        if kept.size:  # the head has the right ones
            order = np.argsort(kept)
            place = order[np.searchsorted(kept, items, sorter=order).clip(max=kept.size - 1)]
            here = kept[place] == items
            found[here] = counts[place[here]]
        return found

    @property
    def counts(self) -> np.ndarray:
        """The counts by item, int64; where truncation left some out, those kept, descending.

        With a soft cap the sums of weights, in units of 2**-20.
        """
        return self._head[0] if self._column is None else self._whole()

    def _whole(self) -> np.ndarray:
        """Return all counts by item as they are."""
        assert self._column is not None
        counts, items = self._head
        if not counts.size:
            return self._column
        whole = self._column.astype(np.int64)
        whole[items] = counts
        return whole

    @property
    def tail(self) -> np.ndarray | None:
        """Counts by item: exact outside the head; those in the head may be clipped."""
        return self._column

    @property
    def labels(self) -> Sequence[Any] | np.ndarray | None:
        """The labels that belong to `counts`, or None."""
        if self._labels is None or self._column is not None:
            return self._labels
        return self.labels_of(self._head[1])

    @property
    def domain_labels(self) -> Sequence[Any] | np.ndarray | None:
        """The labels of all items of a known domain, those left out too; or those there are."""
        return self._labels

    @property
    def groups(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct counts, descending, and how many items have each."""
        if self._groups is None:
            self.head(1)
            self._groups = group(self.counts, self._head[0])
        return self._groups

    @property
    def group_ends(self) -> np.ndarray:
        """How many items have at least each of the distinct counts."""
        if self._group_ends is None:
            self._group_ends = np.cumsum(self.groups[1], dtype=np.int64)
        return self._group_ends

    @property
    def known_domain(self) -> bool:
        """Whether the items were fixed before the data was seen."""
        return self._known_domain

    @property
    def k_bar(self) -> int | None:
        """How many items a truncated histogram was cut to, or None."""
        return self._k_bar

    @property
    def max_items_per_user(self) -> int | None:
        """The bound on the items of one user, or None."""
        return self._max_items_per_user

    @property
    def soft_cap(self) -> int | None:
        """The items of a user up to which each counts as 1, or None where all always do."""
        return None if self._weighting is None else self._weighting[0]

    @property
    def norm(self) -> str | None:
        """The norm of what a user adds that the soft cap bounds, or None without one."""
        return None if self._weighting is None else self._weighting[1]

    @property
    def weights(self) -> np.ndarray | None:
        """The sums of weights by item, in users, float64; None without a soft cap."""
        return None if self._weighting is None else self.counts / ONE

    @property
    def n_items(self) -> int | None:
        """Size of a known domain; None for an unknown one, where it is data."""
        return self._n_items if self.known_domain else None

    @property
    def is_truncated(self) -> bool:
        """Whether only the top k_bar counts are held."""
        return self.k_bar is not None

    def __len__(self) -> int:
        return self._head[0].size if self._column is None else self._column.size

    def __repr__(self) -> str:
        parts = [f"n_items={self.n_items}, known domain" if self.known_domain else "unknown domain"]
        if self.k_bar is not None:
            parts.append(f"k_bar={self.k_bar}")
        if self.soft_cap is not None:
            parts.append(f"soft_cap={self.soft_cap}, norm={self.norm!r}")
        return f"Histogram({', '.join(parts)})"


def labels_of_data(labels: Any, n: int) -> Sequence[Any] | np.ndarray:
    """Return labels that were read off the data, as `dptopk.sources` reads them: of one kind.

    Whether one of them can't be recorded, after it was picked and paid for, would
    be data if they were of several. An array that holds no objects is of one kind.
    """
    names = labels_array(labels, n)
    if names is None:
        raise TypeError("labels must be given: the domain is read off the data")
    if isinstance(names, np.ndarray) and names.dtype.kind != "O":
        return names
    from dptopk.sources.labels import column_of

    values, refused = list(names), ""
    try:
        kind, keys = column_of("labels", values)
    except SourceError as error:
        refused = str(error).removeprefix("column ")
    if refused:  # out here, where no exception holds a label
        raise TypeError(refused)
    if keys is values or not keys:
        return names
    if kind is None or any(key is None for key in keys):  # inside a tuple
        raise ValueError("labels must not contain None or NaN")
    return [kind.label(key) for key in keys]


def _groups(by: Any, groups: Any, max_groups_per_user: Any, every: Any) -> Groups | None:
    """Return in which groups to count, None for all events together."""
    from dptopk.sources.groups import groups_of

    more = {"groups": groups, "max_groups_per_user": max_groups_per_user, "every": every}
    if by is not None:
        return groups_of(by, **more)
    for name, given in more.items():
        if given is not None:
            raise TypeError(f"{name} goes with by: the column that tells the group of a row")
    return None


#: What mechanisms pick from: users per item, or scores.
Counts: TypeAlias = Histogram | Numbers


def as_histogram(counts: Counts) -> Histogram:
    """Return a Histogram as it is; counts of a known domain without a copy.

    For the length of a call only: the array stays the caller's.
    """
    if isinstance(counts, Histogram):
        if counts.soft_cap is not None:
            raise ValueError(
                "this histogram has a soft cap: it holds sums of weights, from which weighted "
                "picks, and no counts"
            )
        return counts
    column = counts_array("counts", counts)
    if not column.size:
        raise ValueError("counts must hold at least one item")
    return Histogram.__new__(Histogram)._set(column)


def known_histogram(counts: Counts, mechanism: str, *, truncated: bool = False) -> Histogram:
    """Return `as_histogram(counts)` if it holds a known domain, full unless `truncated`."""
    h = as_histogram(counts)
    if not h._known_domain:
        raise UnknownDomainError(
            f"{mechanism} is private only over a domain fixed before the data is seen, and this "
            "histogram's items were read off the data; give Histogram.from_events(..., domain=...) "
            "or use limited_domain"
        )
    if h._k_bar is not None and not truncated:
        raise ValueError(f"{mechanism} needs all counts, and this histogram is truncated")
    return h


def weighted_histogram(h: Any) -> tuple[Any, int, str]:
    """Return a histogram of weights, or one for each group, with its soft cap and norm."""
    from dptopk.histogram.many import Histograms

    if not isinstance(h, (Histogram, Histograms)):
        raise TypeError(
            "weighted needs to know how many items each user has: give it a Histogram with a "
            f"soft cap, as of Histogram.from_events(..., soft_cap=3), not {type(h).__name__}"
        )
    if h._weighting is None:
        raise ValueError(
            "weighted needs a histogram with a soft cap: Histogram.from_events(..., soft_cap=3)"
        )
    return h, *h._weighting
