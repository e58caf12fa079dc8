"""All ways into databases: drivers, and tables of any types in what they reach."""

import contextlib
import itertools
import sqlite3
import struct
from datetime import datetime
from decimal import Decimal

import duckdb
import pytest

_numbers = itertools.count()


_CLICKHOUSE = {
    "text": "Nullable(String)",
    "smallint": "Nullable(Int16)",
    "integer": "Nullable(Int32)",
    "bigint": "Nullable(Int64)",
    "double precision": "Nullable(Float64)",
}


class Database:
    """A connection, and a second one by which tables are made."""

    def __init__(self, dialect, connection, maker=None, mark="?"):
        self.dialect, self.connection, self.mark = dialect, connection, mark
        self.maker = maker or connection

    def run(self, statement, rows=None):
        """Run a statement of the test's own, once or for each row."""
        cursor = self.maker if self.dialect == "duckdb" else self.maker.cursor()
        if rows is None:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else None
        if rows:
            cursor.executemany(statement, rows)
        return None

    def table(self, users, items, user_type, item_type):
        """Make a table of events, and return its name."""
        name = f"events_{next(_numbers)}"
        if self.dialect == "clickhouse":
            user_type, item_type = (_CLICKHOUSE.get(t, t) for t in (user_type, item_type))
        engine = " ENGINE = Memory" if self.dialect == "clickhouse" else ""
        self.run(f'CREATE TABLE {name} ("user" {user_type}, "item" {item_type}){engine}')
        rows = list(zip(users, items, strict=True))
        if self.dialect == "clickhouse":
            values = ", ".join(f"({_literal(user)}, {_literal(item)})" for user, item in rows)
            self.run(f"INSERT INTO {name} VALUES {values}" if rows else "SELECT 1")
            return name
        self.run(f"INSERT INTO {name} VALUES ({self.mark}, {self.mark})", rows)
        return name


def _literal(value):
    """Write a value for ClickHouse, which reads no float exactly."""
    if isinstance(value, float):
        return f"reinterpretAsFloat64(unhex('{struct.pack('<d', value).hex()}'))"
    if isinstance(value, datetime):
        return f"toDateTime64('{value:%Y-%m-%d %H:%M:%S.%f}', 6, 'UTC')"
    if value is None or isinstance(value, (int, Decimal)):
        return "NULL" if value is None else str(value)
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def _of_postgres(connect):
    @contextlib.contextmanager
    def opened(request):
        dsn = request.getfixturevalue("postgres")
        import psycopg

        with psycopg.connect(dsn, autocommit=True) as maker:
            maker.execute("CREATE SCHEMA IF NOT EXISTS mine")
            with contextlib.closing(connect(dsn)) as connection:
                yield Database("postgres", connection, maker, "%s")

    return opened


def _psycopg(dsn):
    import psycopg

    return psycopg.connect(dsn)


def _psycopg_autocommit(dsn):
    import psycopg

    return psycopg.connect(dsn, autocommit=True)


def _psycopg2(dsn):
    return pytest.importorskip("psycopg2").connect(dsn)


def _adbc_postgres(dsn):
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    settings = dict(part.split("=") for part in dsn.split())
    return dbapi.connect(
        f"postgresql:///{settings['dbname']}?host={settings['host']}&user={settings['user']}"
    )


@contextlib.contextmanager
def _sqlite(request):
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        yield Database("sqlite", connection)


@contextlib.contextmanager
def _duckdb(request):
    with contextlib.closing(duckdb.connect()) as connection:
        yield Database("duckdb", connection)


@contextlib.contextmanager
def _chdb(request):
    dbapi = pytest.importorskip("chdb.dbapi", reason="ClickHouse is not tested: no chdb")
    with contextlib.closing(dbapi.connect()) as connection:
        yield Database("clickhouse", connection, mark="%s")


#: Each dialect once, and drivers that tell other errors, types or transactions.
FULL = ("psycopg autocommit", "psycopg2", "adbc postgres", "chdb")
DATABASES = {
    "psycopg": _of_postgres(_psycopg),
    "psycopg autocommit": _of_postgres(_psycopg_autocommit),
    "psycopg2": _of_postgres(_psycopg2),
    "adbc postgres": _of_postgres(_adbc_postgres),
    "sqlite3": _sqlite,
    "duckdb": _duckdb,
    "chdb": _chdb,
}


def each(*dialects):
    """Return the databases as parameters of a fixture: the drivers of `FULL` in the full tests."""
    return [
        pytest.param(name, marks=[pytest.mark.full] * (name in FULL))
        for name in DATABASES
        if not dialects or name in dialects
    ]
