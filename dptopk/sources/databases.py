"""Distinct users per item, counted by a database over a connection that the user opened.

First the database is asked for the types of the two columns, without a row; then one
statement (`dptopk.sources.statements`) reads and counts. A database's own errors may quote
rows, so none comes through, but for its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from dptopk._validate import choice, integer
from dptopk.errors import SourceError
from dptopk.sources.column_types import kind_of
from dptopk.sources.columns import domain_of
from dptopk.sources.connections import Database, asked, dialect_of, guarded
from dptopk.sources.dialects import unpacked
from dptopk.sources.frames import Counted, counted_of
from dptopk.sources.grouped import CountedInGroups, assembled
from dptopk.sources.grouped_statements import counting_in_groups
from dptopk.sources.groups import Groups, Listed
from dptopk.sources.keys import find
from dptopk.sources.labels import INTEGER, Domain, Kind, matched
from dptopk.sources.plain import NULLS
from dptopk.sources.progress import working
from dptopk.sources.rules import RULES, Rules
from dptopk.sources.statements import Kinds, Source, counting, refused_for, source_of

__all__ = ["count_in_database", "count_in_groups_of_database"]

#: Those of them that count in groups.
GROUPED = ("postgres", "duckdb", "sqlite")


def count_in_database(
    connection: Any,
    query_or_table: str | Sequence[str],
    *,
    user: str,
    item: str,
    dialect: str | None = None,
    domain: Any = None,
    k_bar: int | None = None,
    rules: Rules = RULES,
    progress: bool | Callable[[], float] = False,
) -> Counted:
    """Count the distinct users of each item of a table or query of a database.

    Parameters and errors are those of `dptopk.Histogram.from_sql`.

    Examples
    --------
    >>> import sqlite3
    >>> con = sqlite3.connect(":memory:")
    >>> _ = con.execute("CREATE TABLE visits (who INTEGER, page TEXT)")
    >>> _ = con.execute("INSERT INTO visits VALUES (1, 'a'), (1, 'b'), (2, 'a'), (2, 'a')")
    >>> count_in_database(con, "visits", user="who", item="page", k_bar=1)
    Counted(counts=array([2]), labels=['a'], next_count=1)
    """
    found = _ask(
        connection, query_or_table, (user, item), dialect_of(connection, dialect), domain, k_bar,
        progress, lambda source, kinds, only, limit: counting(
            source, kinds, rules, only=only, limit=limit
        ),
    )  # fmt: skip
    keys, counts = _columns(found.source, found.kinds[1:2], found.rows)
    return counted_of(keys, counts, found.kinds[1], found.wanted, found.places, k_bar)


def count_in_groups_of_database(
    connection: Any,
    query_or_table: str | Sequence[str],
    *,
    user: str,
    item: str,
    groups: Groups,
    dialect: str | None = None,
    domain: Any = None,
    k_bar: int | None = None,
    rules: Rules = RULES,
    progress: bool | Callable[[], float] = False,
) -> CountedInGroups:
    """Count the distinct users of each item in each group; see `count_in_database`."""
    listed: Listed | None = None

    def write(source: Source, kinds: Kinds, only: Any, limit: int | None) -> str:
        nonlocal listed
        listed = None if groups.domain is None else groups.listed(kinds[2:])
        return counting_in_groups(source, kinds, rules, groups, listed, only=only, limit=limit)

    known = choice("dialect", dialect_of(connection, dialect), GROUPED)
    names = (user, item, *groups.by)
    found = _ask(connection, query_or_table, names, known, domain, k_bar, progress, write)
    _, kind, *by = found.kinds
    of_group = by if listed is None else [INTEGER]
    columns = _columns(found.source, [*of_group, kind], found.rows)
    return assembled(columns, groups, by, kind, found.wanted, found.places, k_bar)


class _Found(NamedTuple):
    source: Source
    kinds: list[Kind | None]
    wanted: Domain | None
    places: list[Any] | None
    rows: list[tuple[Any, ...]]


def _ask(
    connection: Any,
    query_or_table: str | Sequence[str],
    names: tuple[str, ...],
    dialect: str,
    domain: Any,
    k_bar: int | None,
    progress: bool | Callable[[], float],
    write: Callable[[Source, Kinds, Any, int | None], str],
) -> _Found:
    """Ask for the types of columns, then what is written for columns of these kinds."""
    if k_bar is not None:
        k_bar = integer("k_bar", k_bar)
    wanted = None if domain is None else domain_of(domain)
    source = source_of(dialect, query_or_table, *names)
    limit = None if k_bar is None or wanted is not None else k_bar + 1
    with working("Counting", progress), asked(connection, dialect) as database:
        kinds = _kinds(database, source)
        places = None if wanted is None else matched(wanted, kinds[1], source.names[1])
        only = None if places is None else [key for key in places if key is not None]
        rows = database.rows(write(source, kinds, only, limit))
    return _Found(source, kinds, wanted, places, rows)


def _refuse(code: int, source: Source) -> None:
    """Raise the error for rows that the statement refused."""
    column, is_null = refused_for(code, source)
    if is_null:
        raise SourceError(f"column {column!r} holds nulls; {NULLS}")
    raise SourceError(_MIXED.format(repr(column), ""))


_MIXED = "column {} holds labels of mixed kinds{}; make them all of one kind"


def _columns(
    source: Source, kinds: Sequence[Kind | None], rows: list[tuple[Any, ...]]
) -> list[list[Any]]:
    """Return columns of keys, and counts, of rows that also tell what was refused."""
    n = len(kinds)
    if rows and len(rows[0]) > n + 1 and rows[0][n + 1]:
        _refuse(int(rows[0][n + 1]), source)
    columns = [guarded(_keys, kind, rows, place) for place, kind in enumerate(kinds)]
    return [*columns, [int(row[n]) for row in rows]]


def _keys(kind: Kind | None, rows: list[tuple[Any, ...]], place: int) -> list[Any]:
    return [_key(kind, row[place]) for row in rows]


def _key(kind: Kind | None, shown: Any) -> Any:
    """Return the key of a label in the form in which it came."""
    if kind is None or shown is None:
        return shown
    if kind.name == "text":
        return _decoded(shown)
    if kind.name == "float":
        return (unpacked(shown) if isinstance(shown, str) else float(shown)) + 0.0
    if kind.name == "decimal":
        return Decimal(shown)
    return bytes(shown) if kind.name == "bytes" else shown


def _decoded(text: str | bytes) -> str:
    """Return a text, of a connection that may decode none."""
    return text.decode() if isinstance(text, bytes) else text


# ---- types


def _kinds(database: Database, source: Source) -> list[Kind | None]:
    """Return the kinds of the columns, by their types."""
    types = _TYPES[source.dialect](database, source)
    return [
        None if dtype is None else kind_of(source.dialect, name, dtype)
        for name, dtype in zip(source.names, types, strict=True)
    ]


def _postgres_types(database: Database, source: Source) -> list[str]:
    names = database.names(f"SELECT * FROM {source.text} AS source LIMIT 0")
    for column in source.names:
        find(names, column)
    types = (
        f"CAST(pg_typeof((SELECT {column} FROM {source.text} AS source LIMIT 0)) AS text) AS {key}"
        for key, column in zip(source.keys, source.columns, strict=True)
    )
    query = f"SELECT {', '.join(types)}, getdatabaseencoding() AS encoding"
    *found, encoding = database.rows(query)[0]
    if not set(_TEXTS).isdisjoint(found):
        _check_encoding(encoding, "UTF8")
    return found


def _check_encoding(encoding: str, right: str) -> None:
    if encoding != right:
        raise SourceError(
            f"the database's encoding is {encoding}: its text has another order of bytes than "
            f"in {right}, where equal counts come in the order that all sources have"
        )


_TEXTS = ("text", "character varying", "character")


def _sqlite_types(database: Database, source: Source) -> list[str | None]:
    """Return the one type that all values of each column have."""
    names = database.names(f"SELECT * FROM {source.text} AS source LIMIT 0")
    _check_case([re.sub(r":\d+$", "", name) for name in names], source)
    columns = zip(source.keys, source.columns, strict=True)
    types = ", ".join(f"typeof({column}) AS {key}" for key, column in columns)
    rows = database.rows(f"SELECT DISTINCT {types} FROM {source.text} AS source")
    found: list[str | None] = []
    for place, name in enumerate(source.names):
        there = sorted({_decoded(row[place]) for row in rows} - {"null"})
        if len(there) > 1:
            kinds = ", ".join(sorted(str(kind_of("sqlite", name, dtype)) for dtype in there))
            raise SourceError(_MIXED.format(repr(name), f" ({kinds})"))
        found.append(there[0] if there else None)
    if "text" in found:
        _check_encoding(_decoded(database.rows("PRAGMA encoding")[0][0]), "UTF-8")
    return found


def _duckdb_types(database: Database, source: Source) -> list[str]:
    rows = database.rows(f"DESCRIBE {source.text}")
    names = [row[0] for row in rows]
    _check_case(names, source)
    return [rows[names.index(column)][1] for column in source.names]


def _clickhouse_types(database: Database, source: Source) -> list[str]:
    rows = database.rows(f"DESCRIBE TABLE {source.text}")
    names = [row[0] for row in rows]
    return [rows[find(names, column)][1] for column in source.names]


def _check_case(names: list[str], source: Source) -> None:
    """See to it that each column is there, and none that this database takes for the same."""
    for column in source.names:
        find(names, column)
        find([column if name.lower() == column.lower() else name for name in names], column)


_TYPES: dict[str, Callable[[Database, Source], list[Any]]] = {
    "postgres": _postgres_types,
    "sqlite": _sqlite_types,
    "clickhouse": _clickhouse_types,
    "duckdb": _duckdb_types,
}
