"""Distinct users per item, counted by a database over a connection that the user opened.

First the database is asked for the types of the two columns, without a row; then one
statement (`dptopk.sources.statements`) reads and counts. A database's own errors may quote
rows, so none comes through, but for its name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import Any, NamedTuple

from dptopk._validate import choice, integer
from dptopk.errors import SourceError
from dptopk.sources.column_types import kind_of
from dptopk.sources.columns import domain_of
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

__all__ = ["RUN", "count_in_database", "count_in_groups_of_database", "dialect_of"]

#: Dialects whose databases can be asked; others only by hand.
RUN = ("postgres", "clickhouse", "duckdb", "sqlite")
#: Those of them that count in groups.
GROUPED = ("postgres", "duckdb", "sqlite")
_MODULES = {
    "psycopg": "postgres",
    "psycopg2": "postgres",
    "pg8000": "postgres",
    "sqlite3": "sqlite",
    "chdb": "clickhouse",
    "clickhouse_connect": "clickhouse",
    "clickhouse_driver": "clickhouse",
    "duckdb": "duckdb",
    "_duckdb": "duckdb",
}


def dialect_of(connection: Any, dialect: Any = None) -> str:
    """Return the dialect of a connection: as given, or where its driver leaves no doubt.

    Raises
    ------
    TypeError
        No connection of the DB-API.
    ValueError
        A dialect that can't be asked, or none given and the driver is for several.
    """
    name = type(connection).__name__
    if not callable(getattr(connection, "cursor", None)) or name.startswith("Async"):
        hint = ""
        if hasattr(connection, "exec_driver_sql"):  # SQLAlchemy's
            hint = "; give its connection.connection.dbapi_connection"
        raise TypeError(f"connection must be one of the DB-API (PEP 249), got {name}{hint}")
    if dialect is not None:
        return choice("dialect", dialect, RUN)
    known = _MODULES.get(type(connection).__module__.split(".")[0])
    if known is None and hasattr(connection, "adbc_get_info"):
        with suppress(Exception):
            known = str(connection.adbc_get_info().get("vendor_name", "")).lower()
            known = "postgres" if known == "postgresql" else known
    if known not in RUN:
        raise ValueError(
            f"which SQL this connection ({type(connection).__module__}.{name}) speaks is not "
            f"known: say dialect= one of {', '.join(map(repr, RUN))}"
        )
    return known


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
    asked = _ask(
        connection, query_or_table, (user, item), dialect_of(connection, dialect), domain, k_bar,
        progress, lambda source, kinds, only, limit: counting(
            source, kinds, rules, only=only, limit=limit
        ),
    )  # fmt: skip
    keys, counts = _columns(asked.source, asked.kinds[1:2], asked.rows)
    return counted_of(keys, counts, asked.kinds[1], asked.wanted, asked.places, k_bar)


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
    asked = _ask(connection, query_or_table, names, known, domain, k_bar, progress, write)
    _, kind, *by = asked.kinds
    of_group = by if listed is None else [INTEGER]
    found = _columns(asked.source, [*of_group, kind], asked.rows)
    return assembled(found, groups, by, kind, asked.wanted, asked.places, k_bar)


class _Asked(NamedTuple):
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
) -> _Asked:
    """Ask for the types of columns, then what is written for columns of these kinds."""
    if k_bar is not None:
        k_bar = integer("k_bar", k_bar)
    wanted = None if domain is None else domain_of(domain)
    source = source_of(dialect, query_or_table, *names)
    limit = None if k_bar is None or wanted is not None else k_bar + 1
    with working("Counting", progress), _asked(connection, dialect) as database:
        kinds = _kinds(database, source)
        places = None if wanted is None else matched(wanted, kinds[1], source.names[1])
        only = None if places is None else [key for key in places if key is not None]
        rows = database.rows(write(source, kinds, only, limit))
    return _Asked(source, kinds, wanted, places, rows)


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
    columns = [_guarded(_keys, kind, rows, place) for place, kind in enumerate(kinds)]
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


# ---- asking


class _Database:
    """A cursor, whose errors hold no data."""

    def __init__(self, cursor: Any):
        self.cursor = cursor

    def do(self, statement: str) -> None:
        _guarded(self.cursor.execute, statement)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, whatever the connection makes of rows."""
        self.do(statement)
        rows = _guarded(self.cursor.fetchall)
        return [tuple(row.values() if isinstance(row, Mapping) else row) for row in rows]

    def names(self, query: str) -> list[str]:
        """Return the names of a query's columns."""
        self.do(query)
        names = [column[0] for column in self.cursor.description]
        _guarded(self.cursor.fetchall)
        return names


def _guarded(work: Callable[..., Any], *args: Any) -> Any:
    """Call `work`; replace a database's error, which may quote data, by one that does not."""
    try:
        return work(*args)
    except Exception as error:
        kind = type(error).__name__
        interrupted = type(error) is RuntimeError and "interrupted" in str(error).lower()
    if interrupted:  # DuckDB's word for Ctrl-C
        raise KeyboardInterrupt
    # Raised out here, so that not even __context__ holds the database's message.
    raise SourceError(
        f"the database refused the query or failed at it ({kind}); its own message may quote "
        "data and is left out: run the query by itself to see it"
    )


@contextmanager
def _asked(connection: Any, dialect: str) -> Iterator[_Database]:
    """Give a database to ask, and leave the connection as it was."""
    if type(connection).__module__.split(".")[0] in ("duckdb", "_duckdb"):
        # A cursor of DuckDB's would not see temporary and registered tables.
        yield _Database(connection)
        return
    cursor = _guarded(connection.cursor)
    try:
        database = _Database(cursor)
        with _SURROUNDED.get(dialect, _plainly)(connection, database):
            yield database
    finally:
        with suppress(Exception):
            cursor.close()


@contextmanager
def _read_only(connection: Any, database: _Database) -> Iterator[None]:
    """Run the body in a transaction, or in a part of the user's, that is rolled back.

    An error would otherwise leave the user's transaction unusable, and a connection
    without autocommit inside a transaction.
    """
    start, undo = _transaction(connection, database)
    try:
        if start:
            database.do(start)
        yield
    finally:
        try:
            for step in undo:
                database.do(step)
        except SourceError:  # of ADBC, after an error: what was to be saved is lost
            undo = []
        if not undo and start:
            with suppress(SourceError):
                _guarded(connection.rollback)


def _transaction(connection: Any, database: _Database) -> tuple[str, list[str]]:
    """Return what makes it read-only, and what undoes it: nothing for the driver's rollback."""
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    if status == 0:  # psycopg, which says that none is open
        if connection.autocommit:
            return "BEGIN READ ONLY", ["ROLLBACK"]
        return "SET TRANSACTION READ ONLY", []  # the driver begins by itself
    try:
        database.do("SAVEPOINT dptopk")
    except SourceError:  # autocommit, or a transaction that has failed already
        return "", []
    undo = ["ROLLBACK TO SAVEPOINT dptopk", "RELEASE SAVEPOINT dptopk"]
    return "SET LOCAL transaction_read_only = on", undo


@contextmanager
def _plainly(connection: Any, database: _Database) -> Iterator[None]:
    yield


@contextmanager
def _with_md5(connection: Any, database: _Database) -> Iterator[None]:
    """Lend SQLite the function that it has not, in which items are ranked."""
    create = getattr(connection, "create_function", None)
    if create is None:  # not of Python's sqlite3: it fails where it is needed
        yield
        return
    create("dptopk_md5", 1, _md5, deterministic=True)
    try:
        yield
    finally:
        create("dptopk_md5", 1, None)


def _md5(text: str | None) -> str | None:
    if text is None:
        return None
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


_SURROUNDED = {"postgres": _read_only, "sqlite": _with_md5}


# ---- types


def _kinds(database: _Database, source: Source) -> list[Kind | None]:
    """Return the kinds of the columns, by their types."""
    types = _TYPES[source.dialect](database, source)
    return [
        None if dtype is None else kind_of(source.dialect, name, dtype)
        for name, dtype in zip(source.names, types, strict=True)
    ]


def _postgres_types(database: _Database, source: Source) -> list[str]:
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


def _sqlite_types(database: _Database, source: Source) -> list[str | None]:
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


def _duckdb_types(database: _Database, source: Source) -> list[str]:
    rows = database.rows(f"DESCRIBE {source.text}")
    names = [row[0] for row in rows]
    _check_case(names, source)
    return [rows[names.index(column)][1] for column in source.names]


def _clickhouse_types(database: _Database, source: Source) -> list[str]:
    rows = database.rows(f"DESCRIBE TABLE {source.text}")
    names = [row[0] for row in rows]
    return [rows[find(names, column)][1] for column in source.names]


def _check_case(names: list[str], source: Source) -> None:
    """See to it that each column is there, and none that this database takes for the same."""
    for column in source.names:
        find(names, column)
        find([column if name.lower() == column.lower() else name for name in names], column)


_TYPES: dict[str, Callable[[_Database, Source], list[Any]]] = {
    "postgres": _postgres_types,
    "sqlite": _sqlite_types,
    "clickhouse": _clickhouse_types,
    "duckdb": _duckdb_types,
}
