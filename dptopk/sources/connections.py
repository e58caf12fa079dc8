"""Connections that the user opened: which SQL they speak, and how to ask and leave no trace."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from dptopk._validate import choice
from dptopk.errors import SourceError

__all__ = ["RUN", "Database", "asked", "dialect_of", "guarded"]

#: Dialects whose databases can be asked; others only by hand.
RUN = ("postgres", "clickhouse", "duckdb", "sqlite")
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


# ---- asking


class Database:
    """A cursor, whose errors hold no data."""

    def __init__(self, cursor: Any):
        self.cursor = cursor

    def do(self, statement: str) -> None:
        """Run a statement."""
        guarded(self.cursor.execute, statement)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, whatever the connection makes of rows."""
        self.do(statement)
        rows = guarded(self.cursor.fetchall)
        return [tuple(row.values() if isinstance(row, Mapping) else row) for row in rows]

    def names(self, query: str) -> list[str]:
        """Return the names of a query's columns."""
        self.do(query)
        names = [column[0] for column in self.cursor.description]
        guarded(self.cursor.fetchall)
        return names


def guarded(work: Callable[..., Any], *args: Any) -> Any:
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
def asked(connection: Any, dialect: str) -> Iterator[Database]:
    """Give a database to ask, and leave the connection as it was."""
    if type(connection).__module__.split(".")[0] in ("duckdb", "_duckdb"):
        # A cursor of DuckDB's would not see temporary and registered tables.
        yield Database(connection)
        return
    cursor = guarded(connection.cursor)
    try:
        database = Database(cursor)
        with _SURROUNDED.get(dialect, _plainly)(connection, database):
            yield database
    finally:
        with suppress(Exception):
            cursor.close()


@contextmanager
def _read_only(connection: Any, database: Database) -> Iterator[None]:
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
                guarded(connection.rollback)


def _transaction(connection: Any, database: Database) -> tuple[str, list[str]]:
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
def _plainly(connection: Any, database: Database) -> Iterator[None]:
    yield


@contextmanager
def _with_md5(connection: Any, database: Database) -> Iterator[None]:
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
