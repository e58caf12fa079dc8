"""Databases count as plain Python does: on real servers, by several drivers, for all types."""

import random
from collections import Counter
from datetime import date, datetime, timezone
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

from databases import DATABASES, each
from doors import counts_of
from postgres import in_database

import dptopk as dp
from dptopk.errors import SourceError
from dptopk.sources.labels import BYTES, FLOAT, INTEGER, TEXT
from dptopk.sources.rules import Rules
from dptopk.sources.statements import counting, source_of

UTC = timezone.utc
POSTGRES = [name for name in DATABASES if "postgres" in name or "psycopg" in name]


@pytest.fixture(params=each())
def database(request):
    with DATABASES[request.param](request) as opened:
        yield opened


@pytest.fixture(params=each(*POSTGRES))
def server(request):
    with DATABASES[request.param](request) as opened:
        yield opened


def ask(database, table, **options):
    return dp.Histogram.from_sql(
        database.connection, table, user="user", item="item", dialect=database.dialect, **options
    )


# ---- kinds

BIG = 2**53
NOON = datetime(2024, 2, 29, 12, 0, 0, 1)
# kind -> (values ascending, types by dialect: "*" is any)
KINDS = {
    "text": (["A", "B", "a", "b", "é", "\U0001f600"], {"*": "text"}),
    "odd text": (["", "\n", " ", '"', "'", "\\", "it's; -- $$"], {"*": "text"}),
    "varying": (["A", "a"], {"postgres": "varchar(9)", "sqlite": "varchar(9)"}),
    "integer": ([-(2**63), -1, BIG, BIG + 1, 2**63 - 1], {"*": "bigint"}),
    "small integer": ([-(2**15), 0, 2**15 - 1], {"*": "smallint"}),
    "unsigned integer": ([0, 2**63, 2**64 - 1], {"duckdb": "ubigint", "clickhouse": "UInt64"}),
    "huge integer": ([-(2**126), 2**126], {"duckdb": "hugeint", "clickhouse": "Int128"}),
    "unsigned huge integer": ([0, 2**127, 2**127 + 2**60], {"duckdb": "uhugeint"}),
    "boolean": ([False, True], {"postgres": "boolean", "duckdb": "boolean", "clickhouse": "Bool"}),
    "float": (
        [float("-inf"), -1e300, -0.5, 0.0, 5e-324, 0.1, 0.1 + 2**-56, 1e22, 1e300, float("inf")],
        {"*": "double precision", "sqlite": "real"},
    ),
    "32-bit float": (
        [float(np.float32(x)) for x in (-0.5, 0.1, 1e30)],
        {"postgres": "real", "duckdb": "real", "clickhouse": "Float32"},
    ),
    "bytes": (
        [b"", b"\x00a", b"a", b"\xff"],
        {"postgres": "bytea", "sqlite": "blob", "duckdb": "blob"},
    ),
    "date": (
        [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)],
        {"postgres": "date", "duckdb": "date"},
    ),
    "timestamp": (
        [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), NOON,
         datetime(9999, 12, 31, 23, 59, 59, 999_999)],
        {"postgres": "timestamp", "duckdb": "timestamp"},
    ),
    "timestamp with zone": (
        [datetime(1, 1, 2, tzinfo=UTC), NOON.replace(tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)],
        {"postgres": "timestamptz", "duckdb": "timestamptz"},
    ),
    "recent date": ([date(1969, 12, 31), date(2024, 2, 29)], {"clickhouse": "Date32"}),
    "recent timestamp with zone": (
        [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), NOON.replace(tzinfo=UTC)],
        {"clickhouse": "DateTime64(6, 'Asia/Tokyo')"},
    ),
    "decimal": (
        [Decimal("-1.5"), Decimal("-0.01"), Decimal(0), Decimal("0.01"), Decimal("123.4")],
        {"postgres": "numeric(20, 2)", "duckdb": "decimal(20, 2)", "clickhouse": "Decimal(20, 2)"},
    ),
    "small decimal": (
        [Decimal("-0.25"), Decimal("0.01"), Decimal("0.5")],
        {"postgres": "numeric(2, 2)", "duckdb": "decimal(2, 2)", "clickhouse": "Decimal(2, 2)"},
    ),
    "free decimal": (
        [Decimal("-7"), Decimal("0.00001"), Decimal(100), Decimal(10) ** 40 + 1],
        {"postgres": "numeric"},
    ),
    "uuid": (
        [UUID(int=1), UUID(int=2**64), UUID(int=2**127)],
        {"postgres": "uuid", "duckdb": "uuid", "clickhouse": "UUID"},
    ),
}  # fmt: skip


def type_of(kind, dialect):
    types = KINDS[kind][1]
    found = types.get(dialect, types.get("*"))
    if found is None:
        pytest.skip(f"{dialect} has no such type")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_items_of_every_kind(database, kind):
    """Three people have the first, two the others: ties come in the order of the labels."""
    values, _ = KINDS[kind]
    users = [1, 2, 2, 3] + [n for n in range(2) for _ in values[1:]]
    items = [values[0]] * 4 + values[1:] * 2
    order = random.Random(5).sample(range(len(users)), len(users))
    table = database.table(
        [users[n] for n in order], [items[n] for n in order],
        "integer", type_of(kind, database.dialect),
    )  # fmt: skip
    got = ask(database, table)
    assert list(got.labels) == values
    assert [*map(type, got.labels)] == [*map(type, values)]
    assert got.counts.tolist() == [3] + [2] * (len(values) - 1)
    top = ask(database, table, k_bar=1)
    assert (counts_of(top), top.cut(1)[2]) == ({values[0]: 3}, 2)
    for most in (None, 1000):
        known = ask(database, table, domain=values[::-1], max_items_per_user=most)
        assert list(known.labels) == values[::-1]
        assert known.counts.tolist() == [2] * (len(values) - 1) + [3]


@pytest.mark.parametrize("kind", KINDS)
def test_users_of_every_kind(database, kind):
    values, _ = KINDS[kind]
    people = [*values, *values[::-1], values[0]]
    table = database.table(
        people, ["x"] * len(values) + ["y"] * (len(values) + 1),
        type_of(kind, database.dialect), "text",
    )  # fmt: skip
    assert counts_of(ask(database, table)) == {"x": len(values), "y": len(values)}


EQUAL = {
    "postgres": {
        "numeric": ["7", "7.0", "7.00"],
        "double precision": ["0.0", "'-0.0'"],
        "real": ["0.0", "'-0.0'"],
        "character(5)": ["'a'", "'a  '"],
        "timestamptz": ["'2024-01-01 12:00+00'", "'2024-01-01 14:00+02'"],
        "uuid": ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
                 "'{a0eebc999c0b4ef8bb6d6bb9bd380a11}'"],
    },
    "sqlite": {"real": ["0.0", "-0.0", "0"], "integer": ["7", "7.0", "'7'"]},
    "duckdb": {"double": ["0.0", "-0.0"], "real": ["0.0", "-0.0"]},
    "clickhouse": {
        "Float64": ["0.0", "-0.0"],
        "Float32": ["0.0", "-0.0"],
        "LowCardinality(Nullable(String))": ["'a'", "'a'"],
        "DateTime('Asia/Tokyo')": ["'2024-01-01 21:00:00'", "1704110400"],
    },
}  # fmt: skip


@pytest.mark.parametrize("which", ["user", "item"])
def test_equal_labels_are_one(database, which):
    for dtype, written in EQUAL[database.dialect].items():
        types = {"user": "text", "item": "text"} | {which: dtype}
        table = database.table([], [], *types.values())
        for text in written:
            values = {"user": "'u'", "item": "'i'"} | {which: text}
            database.run(f"INSERT INTO {table} VALUES ({', '.join(values.values())})")
        got = ask(database, table, k_bar=5)
        assert got.counts.tolist() == [1]
        assert str(got.labels[0]) in ("i", "7", "0.0", "a", "2024-01-01 12:00:00+00:00",
                                      "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")  # fmt: skip


@pytest.mark.parametrize("which", ["user", "item"])
def test_text_is_told_apart_by_its_bytes(database, which):
    """Whatever the collation takes for equal, of the column or of the database."""
    alike = ["ann", "Ann", "ANN", "e\u0301", "\u00e9", "x", "x "]
    if database.dialect == "postgres":
        how = "provider = icu, locale = 'und-u-ks-level1', deterministic = false"
        database.run(f"CREATE COLLATION IF NOT EXISTS loose ({how})")
    collations = {"postgres": "loose", "sqlite": "NOCASE", "duckdb": "NOACCENT.NOCASE"}
    collation = collations.get(database.dialect)
    loose = f"text COLLATE {collation}" if collation else "text"
    sides = {"user": ["u"] * 7, "item": ["i"] * 7} | {which: alike}
    types = {"user": "text", "item": "text"} | {which: loose}
    table = database.table(*sides.values(), *types.values())
    expected = {"i": 7} if which == "user" else dict.fromkeys(alike, 1)
    for query in (table, f"SELECT * FROM {table}"):
        assert counts_of(ask(database, query)) == expected
        bounded = ask(database, query, max_items_per_user=3)
        assert bounded.counts.sum() == (7 if which == "user" else 3)
        known = ask(database, query, domain=["ann", "i", "x"])
        assert known.counts.tolist() == ([0, 7, 0] if which == "user" else [1, 0, 1])


def test_order_is_that_of_bytes(database):
    """The server's own order is another one, or this test could not fail."""
    names = ["B", "a", "Z", "é", "_", "z", "É"]
    table = database.table([1] * 7, names, "integer", "text")
    if database.dialect == "postgres":
        own = [row[0] for row in database.run(f"SELECT item FROM {table} ORDER BY item")]
        assert own != sorted(names)
    assert list(ask(database, table).labels) == sorted(names)
    for k_bar in range(1, 7):
        assert list(ask(database, table, k_bar=k_bar).labels) == sorted(names)[:k_bar]


NO_LABELS = {
    "postgres": ["time", "interval", "json", "jsonb", "integer[]", "text[]", "inet", "xml",
                 "money", "int4range", "citext", "mood", "email"],
    "duckdb": ["time", "interval", "integer[]", "struct(a integer)", "map(integer, integer)"],
    "sqlite": [],
    "clickhouse": ["Array(Int8)", "Tuple(Int8, String)", "FixedString(3)", "Map(String, Int8)",
                   "IPv4"],
}  # fmt: skip


@pytest.mark.parametrize("which", ["user", "item"])
def test_other_types_are_refused_by_name(database, which):
    if database.dialect == "postgres" and not database.run("SELECT to_regtype('mood')")[0][0]:
        database.run("CREATE EXTENSION IF NOT EXISTS citext")
        database.run("CREATE TYPE mood AS ENUM ('low')")
        database.run("CREATE DOMAIN email AS citext")
    for dtype in NO_LABELS[database.dialect]:
        types = {"user": "text", "item": "text"} | {which: dtype}
        table = database.table([], [], *types.values())
        message = rf"column '{which}' is of type .*, which holds no labels"
        with pytest.raises(SourceError, match=f"(?i){message}"):
            ask(database, table)


# ---- rules

OPTIONS = [
    {},
    {"k_bar": 3},
    {"k_bar": 1000},
    {"max_items_per_user": 2},
    {"max_items_per_user": 2, "hash_key": "it's \\ a \0 key", "k_bar": 4},
    {"min_events": 2},
    {"min_events": 3, "max_items_per_user": 1, "k_bar": 2},
    {"nulls": "drop", "domain": ["t3", "none", "t1", "it's"]},
    {"domain": ["t3", "none", "t1", "it's"], "max_items_per_user": 1},
    {"soft_cap": 1},
    {"soft_cap": 3, "norm": "l1"},
    {"soft_cap": 2, "max_items_per_user": 5, "min_events": 2, "hash_key": "k"},
    {"soft_cap": 2, "domain": ["t3", "t1"]},
]


def random_events(seed, rows=400):
    rng = random.Random(seed)
    names = [f"t{n}" for n in range(12)] + ["it's", "é", "T1"]
    weights = [1 / (n + 1) for n in range(len(names))]
    users = [f"u{int(rng.paretovariate(0.7)) % 40}" for _ in range(rows)]
    return users, rng.choices(names, weights, k=rows)


def same(got, expected):
    assert list(got.labels) == list(expected.labels)
    assert got.counts.tolist() == expected.counts.tolist()
    for name in ("k_bar", "known_domain", "max_items_per_user", "soft_cap", "norm"):
        assert getattr(got, name) == getattr(expected, name)


def test_databases_count_as_plain_python_does(database):
    users, items = random_events(1)
    table = database.table(users, items, "text", "text")
    for options in OPTIONS:
        expected = dp.Histogram.from_events((users, items), user="user", item="item", **options)
        same(ask(database, table, **options), expected)


BOUNDED = [kind for kind in KINDS if kind not in ("float", "32-bit float")]


@pytest.mark.parametrize("kind", BOUNDED)
def test_a_bound_keeps_the_same_items_of_every_kind(database, kind):
    """Floats differ where a database writes one in another way; whole ones don't."""
    values, _ = KINDS[kind]
    dtype = type_of(kind, database.dialect)
    others = [f"n{n}" for n in range(4)]
    for sides in ((others, values), (values, others)):
        users, items = zip(*((u, i) for u in sides[0] for i in sides[1]), strict=True)
        types = ("text", dtype) if sides[1] is values else (dtype, "text")
        table = database.table(users, items, *types)
        for most in (1, 2):
            options = {"max_items_per_user": most, "hash_key": "2024"}
            expected = dp.Histogram.from_events(
                (list(users), list(items)), user="user", item="item", **options
            )
            assert counts_of(ask(database, table, **options)) == counts_of(expected)


def test_a_bound_whatever_the_collation(postgres):
    """Under one that takes digits for numbers the text 10a comes after 9b."""
    import psycopg

    pairs = [(u, i) for u in range(30) for i in range(20)]
    with psycopg.connect(postgres, autocommit=True) as maker:
        maker.execute("DROP DATABASE IF EXISTS numbers")
        maker.execute("CREATE DATABASE numbers LOCALE_PROVIDER icu ICU_LOCALE 'en-u-kn-true' "
                      "LOCALE 'C.UTF-8' TEMPLATE template0")  # fmt: skip
    with psycopg.connect(in_database(postgres, "numbers")) as connection:
        assert connection.execute("SELECT '10a' > '9b'").fetchone() == (True,)
        connection.execute("CREATE TABLE t (u integer, i integer)")
        connection.cursor().executemany("INSERT INTO t VALUES (%s, %s)", pairs)
        got = dp.Histogram.from_sql(connection, "t", user="u", item="i", max_items_per_user=3)
    same(got, dp.Histogram.from_events(pairs, user="u", item="i", max_items_per_user=3))


def test_one_more_user_moves_their_own_items_by_one_each(database):
    users, items = random_events(2, rows=60)
    own = ["t1", "t1", "t5", "é", "new"]
    for options in ({}, {"max_items_per_user": 2}, {"soft_cap": 2}):
        tables = [
            database.table(users + ["w"] * n, items + own[:n], "text", "text")
            for n in (0, len(own))
        ]
        before, after = (Counter(counts_of(ask(database, table, **options))) for table in tables)
        after.subtract(before)
        moved = {item: n for item, n in after.items() if n}
        assert moved.keys() <= set(own)
        t = min(4, options.get("max_items_per_user", 4))
        each = dp.accounting.weight(t, soft_cap=2) if "soft_cap" in options else 1
        assert list(moved.values()) == [each] * t


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_every_number_of_items_has_its_weight(database, norm):
    """Where a root is whole, and beside it: users 1, 2, ... have so many items."""
    many = sorted({x for r in range(1, 9) for x in (r * r - 1, r * r, r * r + 1)} - {0})
    pairs = [(t, f"{t}-{n}") for t in many for n in range(t)]
    table = database.table(*zip(*pairs, strict=True), "integer", "text")
    for soft_cap in (1, 2, 7, 2**20):
        got = counts_of(ask(database, table, soft_cap=soft_cap, norm=norm))
        for t in many:
            assert got[f"{t}-0"] == dp.accounting.weight(t, soft_cap=soft_cap, norm=norm)


@pytest.mark.full
def test_a_large_domain(database):
    many = 10_000 if database.dialect == "clickhouse" else 100_000  # its max_query_size
    domain = [f"label {n}" for n in range(many)] + ["it's"]
    table = database.table([1, 2, 2, 3], ["it's", "it's", "label 7", "other"], "integer", "text")
    got = ask(database, table, domain=domain)
    assert (got.counts.sum(), got.counts[7], got.counts[-1]) == (3, 1, 2)


# ---- nulls

NOTHING = {
    "postgres": {"double precision": "'NaN'", "real": "'NaN'", "numeric": "'NaN'",
                 "date": "'infinity'", "timestamp": "'-infinity'", "timestamptz": "'infinity'",
                 "text": "NULL", "bytea": "NULL"},
    "duckdb": {"double": "'NaN'", "date": "'infinity'", "timestamp": "'-infinity'",
               "timestamptz": "'infinity'", "text": "NULL"},
    "sqlite": {"text": "NULL", "real": "NULL"},
    "clickhouse": {"Float64": "nan", "Nullable(String)": "NULL"},
}  # fmt: skip


@pytest.mark.parametrize("which", ["user", "item"])
def test_nulls_are_refused_or_dropped(database, which):
    for dtype, nothing in NOTHING[database.dialect].items():
        value = {"text": "'x'", "bytea": "'x'"}.get(dtype, "0.5")
        value = "'2024-01-01'" if "date" in dtype or "time" in dtype else value
        types = {"user": "text", "item": "text"} | {which: dtype}
        table = database.table(["u"] * 20, [f"i{n}" for n in range(20)], "text", "text")
        cast = ", ".join(
            f"CAST({value if name == which else name_} AS {types[name]}) AS {name_}"
            for name, name_ in (("user", '"user"'), ("item", '"item"'))
        )
        hole = ", ".join(f"CAST({nothing if name == which else value_} AS {types[name]})"
                         for name, value_ in (("user", "'u'"), ("item", "'z'")))  # fmt: skip
        query = f"SELECT {cast} FROM {table}\nUNION ALL\nSELECT {hole}"
        for options in ({}, {"k_bar": 2}, {"max_items_per_user": 1}, {"min_events": 5},
                        {"soft_cap": 1}):  # fmt: skip
            with pytest.raises(SourceError, match=f"^column '{which}' holds nulls; drop or fill"):
                ask(database, query, **options)
        got = ask(database, query, nulls="drop")
        assert len(got) == (20 if which == "user" else 1)


def test_sqlite_refuses_values_of_two_types():
    with DATABASES["sqlite3"](None) as database:
        for values, named in (
            (["'a'", "7"], "integer, text"),
            (["0.5", "7"], "float, integer"),
            (["x'00'", "'a'"], "bytes, text"),
        ):
            table = database.table([], [], "", "")
            for value in values:
                database.run(f"INSERT INTO {table} VALUES ('u', {value})")
            for options in ({}, {"k_bar": 1}, {"domain": ["a"]}, {"nulls": "drop"}):
                with pytest.raises(SourceError, match=rf"'item' holds labels of mixed .*{named}"):
                    ask(database, table, **options)
            # What the statement itself says, should a row come after the types were read.
            source = source_of("sqlite", table, "user", "item")
            for kind in (TEXT, INTEGER, FLOAT, BYTES):
                for rules in (Rules(), Rules(nulls="drop"), Rules(min_events=2)):
                    rows = database.run(counting(source, (TEXT, kind), rules, limit=1))
                    assert rows[0][2] == 8
        table = database.table([None], [None], "", "")
        assert len(ask(database, table, nulls="drop")) == 0
        assert ask(database, table, nulls="drop", domain=[1]).counts.tolist() == [0]


# ---- what goes over the wire


class Spy:
    """A connection whose cursors count the rows that come, and keep the statements."""

    def __init__(self, connection):
        self.connection, self.statements, self.rows = connection, [], []

    def cursor(self):
        return Spying(self, self.connection.cursor())

    def __getattr__(self, name):
        return getattr(self.connection, name)


class Spying:
    def __init__(self, spy, cursor):
        self.spy, self.inner = spy, cursor

    def execute(self, statement):
        self.spy.statements.append(statement)
        return self.inner.execute(statement)

    def fetchall(self):
        rows = self.inner.fetchall()
        self.spy.rows.append(len(rows))
        return rows

    def __getattr__(self, name):
        return getattr(self.inner, name)


def test_no_more_than_k_bar_and_one_rows_come(database):
    users, items = [n // 50 for n in range(1000)], [f"i{n % 100}" for n in range(1000)]
    table = database.table(users, items, "integer", "text")
    spy = Spy(database.connection)
    for options, most in (({"k_bar": 7}, 8), ({"k_bar": 7, "max_items_per_user": 3}, 8),
                          ({"domain": ["i1", "i2", "none"]}, 2)):  # fmt: skip
        spy.rows.clear()
        h = dp.Histogram.from_sql(
            spy, table, user="user", item="item", dialect=database.dialect, **options
        )
        assert max(spy.rows) <= max(most, 2)  # two are the types of SQLite's and DuckDB's columns
        assert spy.rows[-1] == most
        assert len(h) == (3 if "domain" in options else 7)
        if database.dialect == "postgres" and "k_bar" in options:
            ran = [text for text in spy.statements if text.startswith("WITH dptopk_events")]
            assert database.run(f"EXPLAIN {ran[-1]}")[0][0].startswith("Limit")


# ---- connections


def state(connection):
    return connection.info.transaction_status, connection.autocommit


@pytest.mark.parametrize("driver", ["psycopg", "psycopg autocommit", "psycopg2"])
@pytest.mark.parametrize("inside", [False, True])
def test_transactions_stay_as_they_were(driver, inside, request):
    with DATABASES[driver](request) as database:
        table = database.table([1], ["a"], "integer", "text")
        connection = database.connection
        cursor = connection.cursor()
        if inside:
            cursor.execute("BEGIN" if connection.autocommit else "SELECT 1")
            cursor.execute(f"INSERT INTO {table} VALUES (2, 'a')")
        before = state(connection)
        for _ in range(2):
            assert ask(database, table).counts.tolist() == [1 + inside]
            assert state(connection) == before
            bad = f'SELECT 1 / ("user" - "user") AS "user", item FROM {table}'
            with pytest.raises(SourceError, match="DivisionByZero"):
                ask(database, bad)
            assert state(connection) == before
            with pytest.raises(SourceError, match="UndefinedTable"):
                ask(database, "nowhere")
            assert state(connection) == before
        if inside:
            cursor.execute(f"SELECT count(*) FROM {table}")
            assert cursor.fetchone()[0] == 2
            cursor.execute("ROLLBACK")
        assert ask(database, table).counts.tolist() == [1]


def test_nothing_is_written(server):
    table = server.table([1], ["a"], "integer", "text")
    server.run(f"""
        CREATE OR REPLACE FUNCTION sly() RETURNS integer LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO {table} VALUES (7, 'b'); RETURN 1; END $$""")
    query = f'SELECT sly() AS "user", item FROM {table}'
    with pytest.raises(SourceError, match=r"ReadOnlySqlTransaction|Error"):
        ask(server, query)
    assert server.run(f"SELECT count(*) FROM {table}") == [(1,)]


def test_no_error_holds_data(database):
    table = database.table([1, 2], ["alice", "secret"], "integer", "text")
    for query in (
        f'SELECT "user", CAST(item AS integer) AS item FROM {table}',
        f'SELECT CAST(item AS integer) AS "user", item FROM {table} ORDER BY 2',
        f"SELECT * FROM {table} WHERE nope(item) = 'secret'",
    ):
        if database.dialect == "sqlite" and "nope" not in query:
            continue  # it casts anything to 0
        with pytest.raises(SourceError, match="the database refused the query") as caught:
            ask(database, query)
        error = caught.value
        assert error.__context__ is None
        assert error.__cause__ is None
        assert "secret" not in str(error)
        assert "alice" not in str(error)


def test_rows_of_any_shape(request):
    """A connection may give rows as mappings, or text as bytes."""
    import sqlite3

    import psycopg.rows

    with DATABASES["psycopg"](request) as database:
        table = database.table([1], ["é"], "integer", "text")
        for factory in (psycopg.rows.dict_row, psycopg.rows.namedtuple_row):
            database.connection.row_factory = factory
            assert counts_of(ask(database, table)) == {"é": 1}
    with DATABASES["sqlite3"](request) as database:
        table = database.table([1], ["é"], "integer", "text")
        database.connection.row_factory = sqlite3.Row
        assert counts_of(ask(database, table)) == {"é": 1}
        database.connection.text_factory = bytes
        assert counts_of(ask(database, table)) == {"é": 1}


def test_a_session_of_another_kind(request):
    """Time zone, digits of floats, forms of bytes and dates don't matter."""
    settings = {"TimeZone": "Asia/Kathmandu", "extra_float_digits": "-10", "DateStyle": "German",
                "bytea_output": "escape", "IntervalStyle": "sql_standard",
                "standard_conforming_strings": "off", "backslash_quote": "on"}  # fmt: skip
    with DATABASES["psycopg"](request) as database:
        for name, value in settings.items():
            database.connection.execute(f"SET {name} = '{value}'")
        database.connection.commit()
        for kind in KINDS:
            values, types = KINDS[kind]
            if "postgres" not in types and "*" not in types:
                continue
            table = database.table([1] * len(values), values, "integer", type_of(kind, "postgres"))
            assert list(ask(database, table).labels) == values
            assert ask(database, table, domain=values).counts.tolist() == [1] * len(values)


@pytest.mark.full
@pytest.mark.parametrize(
    "what", ["rows_to_group_by", "rows_to_read", "rows_to_sort", "result_rows"]
)
def test_clickhouse_leaves_nothing_out(what):
    """A server may be set to end early without a word: what is left then is no count."""
    how = {"result_rows": "result", "rows_to_read": "read"}.get(what, what.removeprefix("rows_to_"))
    with DATABASES["chdb"](None) as database:
        query = """SELECT number AS "user", toString(number) AS item FROM numbers(1000)"""
        assert len(ask(database, query)) == 1000
        mode = "any" if how == "group_by" else "break"
        database.run(f"SET max_{what} = 1, {how}_overflow_mode = '{mode}', max_block_size = 1")
        with pytest.raises(SourceError, match="the database refused"):
            ask(database, query)
        source = source_of("clickhouse", query, "user", "item")
        careless, _, _ = counting(source, (INTEGER, TEXT), Rules()).partition("SETTINGS")
        assert len(database.run(careless)) < 1000


# ---- names and queries


def test_the_column_named_exactly_so_is_taken(server):
    server.run('DROP TABLE IF EXISTS "Odd ""Table"; CREATE TABLE "Odd ""Table" '
               '("User" text, "user" text, "a.b" text, "it\'s" text)')  # fmt: skip
    server.run("""INSERT INTO "Odd ""Table" VALUES ('U', 'u', 'x', 'y')""")
    name = ['Odd "Table']
    for user, item, label in (("User", "a.b", "x"), ("user", "it's", "y"), ("a.b", "User", "U")):
        got = dp.Histogram.from_sql(
            server.connection, name, user=user, item=item, dialect="postgres"
        )
        assert got.labels == [label]
    for source in (["public", *name], 'SELECT * FROM "Odd ""Table"'):
        with pytest.raises(SourceError, match="no column 'USER', but 'User'; columns: 'User'"):
            dp.Histogram.from_sql(
                server.connection, source, user="USER", item="a.b", dialect="postgres"
            )


def test_columns_of_one_name_are_refused(database):
    for query in ('SELECT 1 AS "user", 2 AS item, 3 AS item', "SELECT 1 AS item, 'a' AS item"):
        with pytest.raises(
            SourceError, match=r"two columns are named 'item'|no column 'user'|refused"
        ):
            ask(database, query)
    if database.dialect in ("sqlite", "duckdb"):  # they can't tell them apart
        with pytest.raises(SourceError, match="two columns are named 'ITEM'"):
            dp.Histogram.from_sql(
                database.connection, "SELECT 1 AS u, 2 AS item, 3 AS ITEM", user="u", item="ITEM",
                dialect=database.dialect,
            )  # fmt: skip


QUERIES = [
    "SELECT * FROM {}",
    "  SELECT *\nFROM {}  -- a comment; with 'a quote\n;",
    "/* ; */ SELECT * FROM {} /* ;",
    "WITH x AS (SELECT * FROM {}) SELECT * FROM x;;",
    "WITH dptopk_events AS (SELECT * FROM {}) SELECT * FROM dptopk_events",
    "(SELECT * FROM {})",
    "SELECT * FROM {} WHERE item <> ');' ORDER BY item LIMIT 100",
    "SELECT * FROM {} WHERE item <> '%s ?1 :x {{}}'",
]


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_queries_of_all_shapes(database, number):
    table = database.table([1, 2], ["a", "a"], "integer", "text")
    query = QUERIES[number].format(table)
    if query.endswith("/* ;"):
        with pytest.raises((ValueError, SourceError), match=r"no end|the database refused"):
            ask(database, query)
        return
    assert ask(database, query).counts.tolist() == [2]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT 1; DROP TABLE x", ValueError, "must be one statement"),
        ("SELECT 1) AS a; DROP TABLE x; (SELECT 1", ValueError, "don't match|must be one"),
        ("SELECT 1) UNION (SELECT 2", ValueError, "brackets of the query don't match"),
        ("SELECT 'a", ValueError, "a quote or a comment has no end"),
        (" ; ", ValueError, "the query is empty"),
        ("", ValueError, "the name of a table must not be empty"),
        ("a..b", ValueError, "the name of a table must not be empty"),
        ([], ValueError, "the name of a table must not be empty"),
        (b"t", TypeError, "must be the text of a query"),
        (None, TypeError, "must be the text of a query"),
        (7, TypeError, "must be the text of a query"),
    ],
)
def test_queries_that_are_none(query, error, message):
    with DATABASES["sqlite3"](None) as database, pytest.raises(error, match=message):
        ask(database, query)


def test_connections_that_are_none():
    with DATABASES["duckdb"](None) as database:
        for connection, error, message in (
            (None, TypeError, "must be one of the DB-API"),
            ("postgresql://", TypeError, "must be one of the DB-API"),
            (Spy(database.connection), ValueError, "say dialect= one of 'postgres', 'clickhouse'"),
        ):
            with pytest.raises(error, match=message):
                dp.Histogram.from_sql(connection, "t", user="user", item="item")
        for options, error, message in (
            ({"dialect": "oracle"}, ValueError, "dialect must be one of"),
            ({"user": 7}, TypeError, "user must be the name of a column"),
            ({"user": "item"}, ValueError, "two different columns"),
            ({"k_bar": 0}, ValueError, "k_bar"),
            ({"k_bar": 2, "soft_cap": 2}, ValueError, "k_bar goes with no soft cap"),
            ({"min_events": 0}, ValueError, "min_events"),
            ({"domain": {"a"}}, TypeError, "must be a sequence"),
            ({"domain": [1]}, TypeError, "column 'item' is of kind text, the domain of kind int"),
        ):
            table = database.table([1], ["a"], "integer", "text")
            with pytest.raises(error, match=message):
                dp.Histogram.from_sql(
                    database.connection, table, **{"user": "user", "item": "item", **options}
                )


def test_a_database_of_another_encoding_is_refused(postgres):
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as maker:
        maker.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE_PROVIDER libc "
                      "LOCALE 'C' TEMPLATE template0")  # fmt: skip
    with psycopg.connect(in_database(postgres, "latin")) as connection:
        with pytest.raises(SourceError, match="the database's encoding is LATIN1"):
            dp.Histogram.from_sql(connection, "SELECT 'a' AS u, 'b' AS i", user="u", item="i")
        connection.execute("CREATE TABLE n (u integer, i bigint)")
        got = dp.Histogram.from_sql(connection, "n", user="u", item="i", k_bar=1)
        assert got.k_bar == 1
    with DATABASES["sqlite3"](None) as database:
        database.run("PRAGMA encoding = 'UTF-16le'")
        table = database.table(["u"], [1], "text", "integer")
        with pytest.raises(SourceError, match="the database's encoding is UTF-16le"):
            ask(database, table)


def test_labels_that_a_column_cannot_hold_count_nothing(database):
    table = database.table([1], ["a"], "integer", "text")
    assert ask(database, table, domain=["\ud800", "a"]).counts.tolist() == [0, 1]
    assert ask(database, table, domain=["\0", "a\0", "a"]).counts.tolist() == [0, 0, 1]
    table = database.table([1], [7], "integer", "smallint")
    assert ask(database, table, domain=[7, 2**15, -(2**63), 2**80]).counts.tolist() == [1, 0, 0, 0]


DATA_SETS = ["ciao", "debian12_deps", "debian12_sections", "epinions", "fimi_retail",
             "gowalla_10core", "lastfm_hetrec", "ml100k"]  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", DATA_SETS)
def test_real_data_in_databases_and_in_files(name, data_dir, postgres):
    """Identical histograms, and on one tape identical releases, however they are bounded."""
    import duckdb
    import psycopg

    path = data_dir / f"{name}.events.parquet"
    relation = duckdb.read_parquet(str(path))
    user, item = relation.columns[:2]
    types = ["text" if str(dtype) == "VARCHAR" else "bigint" for dtype in relation.types[:2]]
    with psycopg.connect(postgres) as connection:
        connection.execute(f'CREATE TEMP TABLE real ("{user}" {types[0]}, "{item}" {types[1]})')
        with connection.cursor().copy("COPY real FROM STDIN") as copy:
            for row in relation.select(user, item).fetchall():
                copy.write_row(row)
        for options in ({"k_bar": 1000}, {"k_bar": 1000, "max_items_per_user": 5}, {"soft_cap": 3}):
            columns = {"user": user, "item": item}
            expected = dp.Histogram.from_files(path, **columns, **options)
            got = dp.Histogram.from_sql(connection, "real", **columns, **options)
            same(got, expected)
            if "k_bar" in options:
                releases = [
                    dp.limited_domain(h, k=20, epsilon=1, delta=1e-6, rng=dp.SeededRng(3))
                    for h in (got, expected)
                ]
                assert releases[0].labels == releases[1].labels
