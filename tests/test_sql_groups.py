"""Databases count in groups as plain Python does."""

import random
from datetime import date, datetime, timedelta

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

from databases import DATABASES, each
from test_sql import Spy
from test_sql_command import printed

import dptopk as dp
from dptopk.cli import main
from dptopk.errors import SourceError

GROUPS = ["FR", "DE", "it's", "XX"]
KINDS = [name for name in DATABASES if name != "chdb"]


@pytest.fixture(params=each(*KINDS))
def database(request):
    with DATABASES[request.param](request) as opened:
        yield opened


def events(n=500, users=30, seed=3):
    rng = random.Random(seed)
    return {
        "user": [f"u{rng.randrange(users)}" for _ in range(n)],
        "item": [f"item {int(rng.paretovariate(1)) % 9}" for _ in range(n)],
        "by": [rng.choice(["FR", "DE", "it's", "GB", "ES"]) for _ in range(n)],
        "day": [date(2024, 1, 1) + timedelta(days=rng.randrange(90)) for _ in range(n)],
        "year": [2023 + rng.randrange(3) for _ in range(n)],
    }


def table_of(database, columns):
    """Make a table of events; where the database has no dates, these are texts."""
    types = {"user": "text", "item": "text", "by": "text", "day": "date", "year": "integer"}
    if database.dialect == "sqlite":
        types["day"] = "text"
        columns = columns | {"day": list(map(str, columns["day"]))}
    name = database.table([], [], "text", "text")
    database.run(f"DROP TABLE {name}")
    named = ", ".join(f'"{column}" {types[column]}' for column in columns)
    database.run(f"CREATE TABLE {name} ({named})")
    marks = ", ".join([database.mark] * len(columns))
    rows = list(zip(*columns.values(), strict=True))
    database.run(f"INSERT INTO {name} VALUES ({marks})", rows)
    return name


def ask(database, source, **options):
    return dp.Histogram.from_sql(
        database.connection, source, user="user", item="item", dialect=database.dialect, **options
    )


def same(got, expected):
    assert list(got) == list(expected)
    assert repr(got) == repr(expected)
    for group, h in expected.items():
        assert list(got[group].labels or ()) == list(h.labels or ())
        cut = h.k_bar or 10**6
        assert got[group].cut(cut)[0].tolist() == h.cut(cut)[0].tolist()
        assert got[group].cut(cut)[2] == h.cut(cut)[2]


LISTED = {"by": "by", "groups": GROUPS}
OPTIONS = [
    {**LISTED, "max_groups_per_user": 9},
    {**LISTED, "max_groups_per_user": 1, "max_items_per_user": 2, "k_bar": 4},
    {**LISTED, "max_groups_per_user": 2, "min_events": 2, "nulls": "drop", "hash_key": "x"},
    {**LISTED, "max_groups_per_user": 1, "domain": ["item 1", "nobody's", "item 2"]},
    {**LISTED, "max_groups_per_user": 1, "max_items_per_user": 3, "soft_cap": 2},
    {"by": "by", "soft_cap": 2},
    {"by": "by", "soft_cap": 2, "norm": "l1", "max_items_per_user": 3, "nulls": "drop"},
    {"by": ["by", "year"], "soft_cap": 1, "max_items_per_user": 5},
    {
        "by": ["by", "year"],
        "groups": [("FR", 2023), ("DE", 2024), ("XX", 1), ("FR", 2**70)],
        "max_groups_per_user": 1,
        "k_bar": 1000,
    },
    {"by": "year", "groups": [2024, 2020, 2023], "max_groups_per_user": 2, "k_bar": 1},
    {"by": "year", "groups": [2**70], "max_groups_per_user": 2},
]
PERIODS = [
    {
        "by": "day",
        "groups": [date(2024, 1, 1), date(2024, 3, 1), date(2030, 1, 1)],
        "every": "1mo",
        "max_groups_per_user": 1,
    },
    {"by": "day", "every": [date(2024, 1, 5), date(2024, 2, 1), date(2024, 2, 9)],
     "max_groups_per_user": 9, "k_bar": 3},
]  # fmt: skip


def test_databases_count_in_groups_as_plain_python_does(database):
    columns = events()
    table = table_of(database, columns)
    for options in OPTIONS + PERIODS * (database.dialect != "sqlite"):
        expected = dp.Histogram.from_events(columns, user="user", item="item", **options)
        same(ask(database, table, **options), expected)


def test_one_price_for_all(database):
    h = ask(database, table_of(database, events()), **LISTED, max_groups_per_user=1, k_bar=50)
    releases = dp.limited_domain(h, k=1, epsilon=50, delta=0.1)
    assert releases["FR"].labels == ("item 1",)
    assert releases["XX"].labels == ()


def test_many_groups(database):
    """More than the terms that SQLite has in one UNION."""
    groups = [f"g{n}" for n in range(3000)]
    columns = events() | {"by": [f"g{n % 70}" for n in range(500)]}
    options = {"by": "by", "groups": groups, "max_groups_per_user": 3, "k_bar": 2}
    expected = dp.Histogram.from_events(columns, user="user", item="item", **options)
    same(ask(database, table_of(database, columns), **options), expected)


def test_no_more_than_k_bar_and_one_rows_of_each_group_come(database):
    spy = Spy(database.connection)
    dp.Histogram.from_sql(
        spy, table_of(database, events()), user="user", item="item", dialect=database.dialect,
        **LISTED, max_groups_per_user=9, k_bar=2,
    )  # fmt: skip
    assert spy.rows[-1] == 9  # of three groups; nobody is in the fourth
    assert len([text for text in spy.statements if "dptopk_events" in text]) == 1


@pytest.mark.parametrize("which", ["user", "item", "by"])
def test_nulls_are_refused_or_dropped(database, which):
    columns = events(n=60)
    columns[which] = [None, *columns[which][1:]]
    table = table_of(database, columns)
    for options in (*OPTIONS[:2], {"by": "by", "soft_cap": 2}):
        with pytest.raises(SourceError, match=f"^column '{which}' holds nulls"):
            ask(database, table, **options)
        expected = dp.Histogram.from_events(
            columns, user="user", item="item", nulls="drop", **options
        )
        same(ask(database, table, nulls="drop", **options), expected)


def test_what_a_user_keeps_is_of_their_own_rows_alone(database):
    """The whole is the sum of its users: each adds 1 to what they keep."""
    columns = events(n=120, users=6)
    options = {**LISTED, "max_groups_per_user": 1, "max_items_per_user": 2}
    table = table_of(database, columns)
    total = {}
    for user in sorted(set(columns["user"])):
        alone = ask(database, f"SELECT * FROM {table} WHERE \"user\" = '{user}'", **options)
        held = {group: h for group, h in alone.items() if len(h)}
        assert len(held) <= 1
        for group, h in held.items():
            assert h.counts.tolist() == [1] * min(2, len(h))
            for label in h.labels:
                total[group, label] = total.get((group, label), 0) + 1
    whole = ask(database, table, **options)
    found = {
        (group, label): count
        for group, h in whole.items()
        for label, count in zip(h.labels, h.counts.tolist(), strict=True)
    }
    assert found == total


def test_what_is_refused(database):
    table = table_of(database, events(n=20))
    for options, error, message in (
        ({"by": "by"}, TypeError, "by needs groups"),
        ({"groups": GROUPS}, TypeError, "groups goes with by"),
        ({"by": "item", **{"groups": GROUPS}, "max_groups_per_user": 1}, ValueError, "different"),
        ({"by": "By", "groups": GROUPS, "max_groups_per_user": 1}, SourceError, "no column 'By'"),
        ({"by": "by", "groups": [1], "max_groups_per_user": 1}, TypeError, "of kind text"),
        ({**LISTED}, TypeError, "max_groups_per_user must be given"),
    ):
        with pytest.raises(error, match=message):
            ask(database, table, **options)


@pytest.mark.full
def test_clickhouse_is_refused():
    with DATABASES["chdb"](None) as database:
        table = database.table(["u"], ["i"], "text", "text")
        with pytest.raises(ValueError, match="dialect must be one of postgres, duckdb, sqlite"):
            ask(database, table, by="by", groups=["FR"], max_groups_per_user=1)


def test_moments_in_periods(database):
    """Of timestamps, beside each boundary."""
    if database.dialect == "sqlite":
        pytest.skip("SQLite has no timestamps")
    edge = datetime(2024, 2, 1)
    moments = [edge + timedelta(microseconds=n) for n in (-1, 0, 1)]
    name = database.table(["u"] * 3, moments, "text", "timestamp")
    source = f'SELECT "user", CAST(item AS text) AS item, item AS at FROM {name}'
    h = ask(database, source, by="at", groups=[datetime(2024, 1, 1), edge], every="1mo",
            max_groups_per_user=2)  # fmt: skip
    assert [len(h[group]) for group in h] == [1, 2]


@pytest.mark.parametrize("number", range(7))
def test_the_command_prints_what_runs(database, number, tmp_path, capsys):
    columns = events()
    source = table_of(database, columns)
    groups, domain = tmp_path / "groups.txt", tmp_path / "domain.csv"
    domain.write_text("item\nitem 1\nnobody's\nitem 2\n")
    months = [date(2024, 1, 1), date(2024, 3, 1)]
    dates = database.dialect != "sqlite"  # which has none
    listed, given, options = [
        (GROUPS, ["--by", "by"], {"by": "by"}),
        (GROUPS, ["--by", "by", "--max-items-per-user", "2", "--hash-key", "x", "--k-bar", "4"],
         {"by": "by", "max_items_per_user": 2, "hash_key": "x", "k_bar": 4}),
        (GROUPS, ["--by", "by", "--domain", str(domain), "--drop-nulls"],
         {"by": "by", "domain": ["item 1", "nobody's", "item 2"], "nulls": "drop"}),
        ([2024, 2020], ["--by", "year", "--by-kind", "integer"], {"by": "year"}),
        (months, ["--by", "day", "--by-kind", "date", "--every", "1mo"],
         {"by": "day", "every": "1mo"}),
        (None, ["--by", "by", "--soft-cap", "2"], {"by": "by", "soft_cap": 2}),
        (None, ["--by", "by", "--by", "year", "--by-kind", "text", "--by-kind", "integer",
                "--soft-cap", "1"], {"by": ["by", "year"], "soft_cap": 1}),
    ][number]  # fmt: skip
    given += ["--dialect", database.dialect, "--table", source]
    if listed is not None:
        groups.write_text("".join(f"{group}\n" for group in listed))
        given += ["--groups", str(groups), "--max-groups-per-user", "1"]
        options = options | {"groups": listed, "max_groups_per_user": 1}
    if "every" in options and not dates:
        assert main(["sql", *given]) == 2
        assert "sqlite has no labels of kind date" in capsys.readouterr().err
        return
    spy = Spy(database.connection)
    dp.Histogram.from_sql(
        spy, source, user="user", item="item", dialect=database.dialect, **options
    )
    ran = next(text for text in reversed(spy.statements) if text.startswith("WITH"))
    assert printed(capsys, *given) == f"{ran};\n"
