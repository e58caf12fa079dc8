"""``dptopk sql`` prints what `from_sql` runs; every dialect can read it, and those here run it."""

import json
import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

import sqlglot
from databases import DATABASES, each
from doors import counts_of, spark
from test_sql import Spy, random_events

import dptopk as dp
from dptopk.cli import main
from dptopk.sources.column_types import NOT_IN, UNSEEN, unseen_kind
from dptopk.sources.dialects import DIALECTS
from dptopk.sources.rules import Rules
from dptopk.sources.statements import counting, source_of


@pytest.fixture(params=each("psycopg", "sqlite3", "duckdb", "chdb"))
def database(request):
    with DATABASES[request.param](request) as opened:
        yield opened


def printed(capsys, *options):
    assert main(["sql", *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(capsys, *options):
    assert main(["sql", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


OPTIONS = [
    ((), {}),
    (("--k-bar", "3"), {"k_bar": 3}),
    (("-k", "5", "--mechanism", "restricted_gumbel"), {"k_bar": 1000}),
    (
        ("-k", "150", "--max-items-per-user", "2", "--hash-key", "it's"),
        {"k_bar": 1500, "max_items_per_user": 2, "hash_key": "it's"},
    ),
    (("--min-events", "2", "--drop-nulls"), {"min_events": 2, "nulls": "drop"}),
    (("--soft-cap", "3", "--norm", "l1"), {"soft_cap": 3, "norm": "l1"}),
    (
        ("--soft-cap", "2", "--max-items-per-user", "4"),
        {"soft_cap": 2, "max_items_per_user": 4},
    ),
]


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_it_is_what_from_sql_runs(database, number, capsys):
    given, options = OPTIONS[number]
    users, items = random_events(3, rows=120)
    table = database.table(users, items, "text", "text")
    spy = Spy(database.connection)
    for source, kind in ((table, "--table"), (f"SELECT * FROM {table} -- all", "--query")):
        h = dp.Histogram.from_sql(
            spy, source, user="user", item="item", dialect=database.dialect, **options
        )
        ran = next(text for text in reversed(spy.statements) if text.startswith("WITH"))
        assert printed(capsys, "--dialect", database.dialect, kind, source, *given) == f"{ran};\n"
    if database.dialect == "sqlite":
        from hashlib import md5

        database.connection.create_function("dptopk_md5", 1, lambda t: md5(t.encode()).hexdigest())
    rows = database.run(ran)
    assert all(row[2] == 0 for row in rows if len(row) > 2)
    assert {row[0]: row[1] for row in rows[: options.get("k_bar")]} == counts_of(h)


def test_by_hand_to_a_release(capsys):
    """As docs/sql.md shows."""
    with DATABASES["sqlite3"](None) as database:
        users = [n for n in range(500) for _ in range(2)] + [1]
        table = database.table(users, ["tea", "jam"] * 500 + ["ink"], "integer", "text")
        text = printed(capsys, "--dialect", "sqlite", "--table", table, "--user-kind", "integer",
                       "-k", "2")  # fmt: skip
        rows = database.run(text)
        assert len(rows) == 3
        assert not any(refused for *_, refused in rows)
        items, users, _ = zip(*rows[:1000], strict=True)
        next_count = rows[1000][1] if len(rows) > 1000 else 0
        h = dp.Histogram.truncated(users, items, next_count=next_count, k_bar=1000)
        release = dp.limited_domain(h, k=2, epsilon=1, delta=1e-6)
        assert set(release.labels) == {"tea", "jam"}


def test_a_domain(database, tmp_path, capsys):
    """Of texts, or of labels as the column holds them."""
    for kind, labels, file in (
        ("text", ["tea", "it's", "jam"], "tea\nit's\njam\n"),
        ("integer", [7, -3, 12], "7\n-3\n12\n"),
    ):
        path = tmp_path / f"{kind}.txt"
        path.write_text(file)
        table = database.table(["ann", "ann", "bob"], [labels[0], labels[1], labels[0]],
                               "text", kind)  # fmt: skip
        text = printed(capsys, "--dialect", database.dialect, "--table", table, "--item-kind",
                       kind, "--domain", str(path))  # fmt: skip
        rows = [tuple(row)[:2] for row in database.run(text.rstrip(";\n"))]
        assert rows == sorted([(labels[0], 2), (labels[1], 1)])
    path.write_text("7\nseven\n")
    assert "'seven' is no integer" in refused(capsys, "--dialect", database.dialect, "--table",
        table, "--item-kind", "integer", "--domain", str(path))  # fmt: skip


def test_json(capsys):
    out = printed(capsys, "--dialect", "bigquery", "--table", "shop.visits", "--json", "-k", "3")
    made = json.loads(out)
    assert made.keys() == {"sql", "dialect", "k_bar", "version"}
    assert (made["dialect"], made["k_bar"]) == ("bigquery", 1000)
    assert made["sql"].endswith("LIMIT 1001")
    assert "FROM `shop`.`visits` AS source" in made["sql"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_can_read_it(dialect):
    """By sqlglot's grammar of it: all there is to check BigQuery with, which runs nowhere here."""
    source = source_of(dialect, ["a table", "visits"], "who is", "what's")
    rules = [
        Rules(),
        Rules(nulls="drop", min_events=3, max_items_per_user=7, hash_key="it's \\ a \0 key"),
        Rules(weighting=(3, "l2"), max_items_per_user=7),
        Rules(weighting=(3, "l1"), nulls="drop"),
    ]
    kinds = [unseen_kind(dialect, name) for name in UNSEEN if name not in NOT_IN.get(dialect, ())]
    assert len(kinds) >= 4
    cases = [(UNSEEN["text"], rule, limit) for rule in rules for limit in (None, 11)]
    cases += [(kind, rules[1], 11) for kind in kinds]
    for kind, rule, limit in cases:
        text = counting(source, (kind, kind), rule, limit=limit)
        (tree,) = sqlglot.parse(text, read=dialect)
        assert tree.key == "select"
        assert ("limit" in tree.args and tree.args["limit"] is not None) == (limit == 11)
        assert tree.args["order"].expressions[-1].this.name == "i"
        names = {column.alias_or_name for column in tree.expressions}
        count = "users" if rule.weighting is None else "weights"
        refused = rule.nulls == "error" or dialect == "sqlite"
        assert {"item", count} <= names
        assert ("refused" in names) == refused
        columns = {c.name for c in tree.find_all(sqlglot.exp.Column) if c.table == "source"}
        assert columns == {"who is", "what's"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "arguments are required: --dialect"),
        (("--dialect", "mysql", "--table", "t"), "invalid choice: 'mysql'"),
        (("--dialect", "postgres"), "one of the arguments --table --query is required"),
        (("--dialect", "postgres", "--table", "t", "--query", "q"), "not allowed with"),
        (("--dialect", "postgres", "--table", ""), "name of a table must not be empty"),
        (("--dialect", "postgres", "--table", "a..b"), "name of a table must not be empty"),
        (("--dialect", "postgres", "--query", "SELECT 1; SELECT 2"), "must be one statement"),
        (("--dialect", "postgres", "--query", "SELECT 'a"), "a quote or a comment has no end"),
        (("--dialect", "postgres", "--table", "t", "--user", "item"), "two different columns"),
        (("--dialect", "postgres", "--table", "t", "--k-bar", "0"), "--k-bar must be at least 1"),
        (("--dialect", "postgres", "--table", "t", "-k", "0"), "-k must be at least 1"),
        (("--dialect", "postgres", "--table", "t", "-k", "3", "--k-bar", "9"), "not both"),
        (("--dialect", "postgres", "--table", "t", "--mechanism", "peel"), "invalid choice"),
        (
            ("--dialect", "postgres", "--table", "t", "--mechanism", "limited_domain"),
            "--mechanism goes with -k",
        ),
        (("--dialect", "postgres", "--table", "t", "--norm", "l1"), "--norm goes with --soft-cap"),
        (("--dialect", "postgres", "--table", "t", "--soft-cap", "0"), "--soft-cap must be"),
        (("--dialect", "postgres", "--table", "t", "--soft-cap", "3", "-k", "3"), "all items"),
        (("--dialect", "postgres", "--table", "t", "--min-events", "0"), "--min-events must be"),
        (("--dialect", "postgres", "--table", "t", "--max-items-per-user", "0"), "must be"),
        (("--dialect", "sqlite", "--table", "t", "--item-kind", "date"), "no labels of kind date"),
        (("--dialect", "duckdb", "--table", "t", "--domain", "f", "-k", "3"), "all its items come"),
        (("--dialect", "duckdb", "--table", "t", "--domain", "/no/file"), "no such file"),
        (("--dialect", "spark", "--table", "t", "--by", "c"), "postgres, duckdb, sqlite"),
        (("--dialect", "duckdb", "--table", "t", "--by", "item"), "must name different columns"),
        (("--dialect", "duckdb", "--table", "t", "--by", "c"), "--by needs --groups FILE"),
        (("--dialect", "duckdb", "--table", "t", "--groups", "f"), "--groups goes with --by"),
        (("--dialect", "duckdb", "--table", "t", "--every", "1d"), "--every goes with --by"),
        (("--dialect", "duckdb", "--table", "t", "--by-kind", "text"), "once for each --by"),
        (
            ("--dialect", "duckdb", "--table", "t", "--by", "c", "--groups", "f"),
            "--groups needs --max-groups-per-user G",
        ),
        (
            ("--dialect", "duckdb", "--table", "t", "--by", "c", "--every", "1d"),
            "--every goes with --groups",
        ),
        (
            (
                *("--dialect", "duckdb", "--table", "t", "--by", "c"),
                *("--by", "d", "--groups", "f", "--max-groups-per-user", "1"),
            ),
            "--groups goes with a single --by",
        ),
        (("--dialect", "bigquery", "--table", "a`b"), "a character that is written in other ways"),
    ],
)
def test_what_is_refused(options, message, capsys):
    assert message in refused(capsys, *options)


@pytest.mark.full
def test_spark_runs_it():
    """Each rule and kind, as plain Python counts."""
    from datetime import date, datetime, timezone

    session = spark()
    users, items = random_events(4, rows=150)
    session.createDataFrame(list(zip(users, items, strict=True)), "`user` string, item string") \
        .createOrReplaceTempView("events")  # fmt: skip
    text = UNSEEN["text"]
    source = source_of("spark", "events", "user", "item")
    for rules, options in (
        (Rules(), {}),
        (
            Rules(max_items_per_user=2, hash_key="it's", min_events=2),
            {"max_items_per_user": 2, "hash_key": "it's", "min_events": 2},
        ),
        (Rules(weighting=(2, "l2"), nulls="drop"), {"soft_cap": 2, "nulls": "drop"}),
        (Rules(weighting=(2, "l1")), {"soft_cap": 2, "norm": "l1"}),
    ):
        expected = dp.Histogram.from_events((users, items), user="u", item="i", **options)
        for limit in (None, 4) if rules.weighting is None else (None,):
            rows = session.sql(counting(source, (text, text), rules, limit=limit)).collect()
            if limit is not None:
                expected = expected.truncate(3)
            rows = rows[: None if limit is None else 3]
            assert [row[0] for row in rows] == list(expected.labels)
            assert [row[1] for row in rows] == expected.counts.tolist()
    for name, dtype, values, shown in (
        ("integer", "bigint", [-(2**63), 7], [-(2**63), 7]),
        ("boolean", "boolean", [False, True], [False, True]),
        ("float", "double", [-0.5, 0.0, -0.0, float("nan")], [None, -0.5, 0.0]),
        ("bytes", "binary", [b"", b"a", b"\xff"], [b"", b"a", b"\xff"]),
        ("date", "date", [date(1969, 12, 31), date(2024, 2, 29)], [-1, 19782]),
        (
            "timestamp with time zone",
            "timestamp_ltz",
            [datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=timezone.utc)],
            [1],
        ),
    ):
        session.createDataFrame([(1, value) for value in values], f"`user` int, item {dtype}") \
            .createOrReplaceTempView("events")  # fmt: skip
        kinds = (UNSEEN["integer"], UNSEEN[name])
        rows = session.sql(counting(source, kinds, Rules(max_items_per_user=9))).collect()
        assert [bytes(row[0]) if name == "bytes" else row[0] for row in rows] == shown
        assert [row[2] for row in rows] == [2 * (row[0] is None) for row in rows]


ROOT = Path(__file__).parents[1]


def on_database(page):
    """The code of a page that asks a database, and the commands that print for one."""
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```python\n(?!>>>)(.*?)^```$", text, re.M | re.S)
    return [b for b in blocks if "from_sql(" in b], re.findall(r"^    (dptopk sql .*)$", text, re.M)


@pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="the pages are not here")
def test_pages_run_as_written(postgres, monkeypatch, capsys):
    import psycopg

    settings = dict(part.split("=") for part in postgres.split())
    with psycopg.connect(postgres, autocommit=True) as maker:
        maker.execute("DROP DATABASE IF EXISTS shop")
        maker.execute("CREATE DATABASE shop")
    monkeypatch.setenv("PGHOST", settings["host"])
    monkeypatch.setenv("PGUSER", settings["user"])
    with psycopg.connect("dbname=shop") as connection:
        connection.execute("CREATE TABLE visits (customer text, page text)")
        for page, people in (("home", 900), ("shop", 700), ("jobs", 500), ("rare", 3)):
            connection.execute(
                "INSERT INTO visits SELECT 'c' || n, %s FROM generate_series(1, %s) n",
                (page, people),
            )
    found = 0
    for page in ("README.md", "docs/sql.md"):
        blocks, commands = on_database(page)
        for block in blocks:
            exec(block, {"dp": dp})
            assert capsys.readouterr().out == "('home', 'shop', 'jobs')\n"
        for command in commands:
            statement = printed(capsys, *shlex.split(command)[2:])
            with psycopg.connect("dbname=shop") as connection:
                rows = connection.execute(statement).fetchall()
            assert rows == [("home", 900, 0), ("shop", 700, 0), ("jobs", 500, 0), ("rare", 3, 0)]
        found += len(blocks) + len(commands)
    assert found == 3
