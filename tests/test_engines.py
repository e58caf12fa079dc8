"""Engines beside those of test_sources: the same counts and releases, and few rows fetched."""

import sys

import numpy as np
import pytest

pytest.importorskip("narwhals")
pytest.importorskip("duckdb")
pytest.importorskip("pandas")
pytest.importorskip("polars")
pytest.importorskip("pyarrow")

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from doors import ENGINES, TABLES, events, spark

import dptopk as dp
from dptopk.errors import SourceError
from dptopk.sources import frames, on_dask
from dptopk.sources.engines import keyed
from dptopk.sources.queries import counts_of
from dptopk.sources.rules import RULES

COLUMNS = {"user": "user", "item": "item"}
# Dask and Ibis call what pandas 3 and DuckDB 2 advise against.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
FULL = [pytest.mark.full]
FRAMES = [pytest.param(name, marks=FULL if name == "spark" else []) for name in ENGINES]
WAYS = [
    *(pytest.param(name, marks=FULL if name == "spark" else []) for name in ENGINES),
    *("pandas", "polars", "polars lazy", "pyarrow", "duckdb"),
]  # fmt: skip
MAKE = TABLES | ENGINES
# In the order of their code points, which is that of their UTF-8 and not that of UTF-16.
TEXTS = ["", "A", "B", "a", "a\u0301", "z", "é", "ﬀ", "\uffff", "\U00010000", "\U0001f600"]


def some_events(seed=1, n=300):
    rng = np.random.default_rng(seed)
    users = rng.integers(0, 40, n).tolist()
    items = [TEXTS[i] for i in np.minimum(rng.geometric(0.2, n) - 1, len(TEXTS) - 1)]
    return users, items


def same(one, other):
    assert list(one.labels) == list(other.labels)
    assert one.counts.tolist() == other.counts.tolist()
    assert one._next_count == other._next_count


OPTIONS = [
    {},
    {"k_bar": 4},
    {"min_events": 2, "k_bar": 4},
    {"max_items_per_user": 2, "hash_key": "x"},
    {"domain": ["z", "nobody's", "", "A"], "max_items_per_user": 2},
    {"soft_cap": 2},
    {"soft_cap": 1, "norm": "l1", "max_items_per_user": 3, "domain": TEXTS[::-1]},
]


@pytest.mark.parametrize("name", FRAMES)
def test_every_engine_counts_as_plain_python_does(name):
    users, items = some_events()
    frame = MAKE[name](events(users, items))
    for options in OPTIONS:
        expected = dp.Histogram.from_events((users, items), **COLUMNS, **options)
        got = dp.Histogram.from_events(frame, **COLUMNS, **options)
        same(got, expected)
        if not options.get("soft_cap"):
            releases = [
                dp.limited_domain(h, k=3, epsilon=9, delta=0.1, k_bar=4, rng=dp.SeededRng(7))
                for h in (got, expected)
            ]
            assert releases[0].labels == releases[1].labels


@pytest.mark.parametrize("name", WAYS)
def test_ties_go_by_code_points_and_only_k_bar_rows_and_one_more_come(name, monkeypatch):
    rows = []
    fetch = frames.fetch

    def spy(query):
        columns = fetch(query)
        rows.append([*map(len, columns)])
        return columns

    monkeypatch.setattr(frames, "fetch", spy)
    items = TEXTS[::-1] * 2
    frame = MAKE[name](events([f"u{n % 2}" for n in range(len(items))], items))
    got = dp.Histogram.from_events(frame, **COLUMNS, k_bar=8)
    assert rows == [[9, 9, 9]]
    assert list(got.labels) == sorted(TEXTS)[:8]
    assert dp.Histogram.from_events(frame, **COLUMNS).labels == sorted(TEXTS)


@pytest.mark.full
def test_a_plan_of_spark_ends_in_a_limit():
    frame = ENGINES["spark"](events(*some_events()))
    query = counts_of(keyed(frame, **COLUMNS), None, 5, RULES).to_native()
    plan = query._jdf.queryExecution().executedPlan().toString()
    assert "TakeOrderedAndProject(limit=5" in plan
    assert plan.count("Scan") == 1


def test_a_lazy_query_of_polars_streams(monkeypatch):
    engines = []
    collect = pl.LazyFrame.collect

    def spy(self, *args, engine="auto", **options):
        engines.append(engine)
        return collect(self, *args, engine=engine, **options)

    monkeypatch.setattr(pl.LazyFrame, "collect", spy)
    frame = pl.LazyFrame({"user": [1, 2], "item": ["a", "b"]})
    dp.Histogram.from_events(frame, **COLUMNS, k_bar=1)
    assert engines == ["streaming"]


def test_a_dataset_is_read_by_its_two_columns_and_not_kept(tmp_path):
    table = events(list(range(10_000)), ["a", "b"] * 5000).append_column(
        "more", pa.array(["x" * 100] * 10_000)
    )
    ds.write_dataset(table, tmp_path, format="parquet", max_rows_per_file=2500,
                     max_rows_per_group=2500)  # fmt: skip
    before = pa.total_allocated_bytes()
    dataset = ds.dataset(tmp_path)
    assert "more" not in keyed(dataset, **COLUMNS).query.to_native().explain()
    h = dp.Histogram.from_events(dataset, **COLUMNS)
    assert (h.labels, h.counts.tolist()) == (["a", "b"], [5000, 5000])
    assert pa.total_allocated_bytes() - before < 2**20


def test_parts_of_dask_stay_apart_and_their_tops_alone_meet(monkeypatch):
    """Each part gives its own k_bar + 1 items at most to the one that sorts them all."""
    sizes = []
    top = on_dask._top

    def spy(part, limit):
        sizes.append(len(part))
        return top(part, limit)

    monkeypatch.setattr(on_dask, "_top", spy)
    dask = pytest.importorskip("dask")
    frame = ENGINES["dask"](events(list(range(200)), list(range(200))))
    with dask.config.set(scheduler="synchronous"):
        got = dp.Histogram.from_events(frame, **COLUMNS, k_bar=3)
    assert list(got.labels) == [0, 1, 2]
    assert max(sizes[-1:]) <= 2 * 4


# ---- nulls and refusals


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("column", ["user", "item"])
def test_nulls_are_refused_or_dropped(name, column):
    users, items = ["u1", "u2", "u3", "u4"], ["secret", "secret", "secret", "rare"]
    (users if column == "user" else items)[3] = None
    frame = MAKE[name](events(users, items))
    with pytest.raises(SourceError, match=f"^column '{column}' holds nulls; drop or fill"):
        dp.Histogram.from_events(frame, **COLUMNS, k_bar=1, max_items_per_user=1)
    got = dp.Histogram.from_events(frame, **COLUMNS, nulls="drop")
    assert (got.labels, got.counts.tolist()) == (["secret"], [3])


@pytest.mark.parametrize("name", FRAMES)
def test_zeros_and_nans(name):
    floats = [0.0, -0.0, 2.5, float("nan")]
    table = events([1, 2, 3, 4], pa.array(floats, pa.float64()))
    got = dp.Histogram.from_events(MAKE[name](table), **COLUMNS, nulls="drop")
    assert [*map(repr, got.labels)] == ["0.0", "2.5"]
    assert got.counts.tolist() == [2, 1]
    with pytest.raises(SourceError, match="column 'item' holds nulls"):
        dp.Histogram.from_events(MAKE[name](table), **COLUMNS)


@pytest.mark.parametrize("name", FRAMES)
def test_columns_by_their_exact_name(name):
    table = pa.table({"User": ["no"], "user": ["u"], "us.er": ["x"], "item": ["a"]})
    if name == "ibis":
        table = table.select(["user", "us.er", "item"])  # DuckDB's own tables have no two such
    frame = MAKE[name](table)
    for user in ("user", "us.er"):
        assert dp.Histogram.from_events(frame, user=user, item="item").labels == ["a"]
    with pytest.raises(SourceError, match=r"no column 'USER', but '[Uu]ser'; columns: "):
        dp.Histogram.from_events(frame, user="USER", item="item")


@pytest.mark.parametrize("name", FRAMES)
def test_no_events_is_no_error(name):
    frame = MAKE[name](events([], [], pa.string(), pa.string()))
    got = dp.Histogram.from_events(frame, **COLUMNS, k_bar=3, max_items_per_user=2)
    assert (list(got.labels), got.counts.tolist(), got._next_count) == ([], [], 0)
    got = dp.Histogram.from_events(frame, **COLUMNS, domain=["a"])
    assert got.counts.tolist() == [0]


def test_what_dask_does_not_know_of_a_column_is_refused():
    dd = pytest.importorskip("dask.dataframe")
    dask = pytest.importorskip("dask")
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_pandas(
            pd.DataFrame({"user": [1, 2], "item": pd.Series(["a", "b"], dtype=object)}),
            npartitions=1,
        )
        with pytest.raises(SourceError, match="column 'item' is of type object"):
            dp.Histogram.from_events(frame, **COLUMNS)
    known = dd.from_pandas(
        pd.DataFrame({"user": [1, 2], "item": pd.Categorical([3, 4])}), npartitions=2
    )
    assert dp.Histogram.from_events(known, **COLUMNS).labels == [3, 4]
    unknown = known.assign(item=known["item"].cat.as_unknown())
    with pytest.raises(SourceError, match="column 'item' is of type category, of categories that"):
        dp.Histogram.from_events(unknown, **COLUMNS)


def test_an_ibis_table_of_another_database_is_refused():
    ibis = pytest.importorskip("ibis")
    con = ibis.sqlite.connect()
    con.raw_sql("CREATE TABLE e (user TEXT, item TEXT)")
    with pytest.raises(SourceError, match=r"this one is of sqlite; give its query to .*from_sql"):
        dp.Histogram.from_events(con.table("e"), **COLUMNS)
    con.disconnect()
    memory = ibis.memtable(events([1, 2], ["a", "b"]))
    assert dp.Histogram.from_events(memory, **COLUMNS).labels == ["a", "b"]


def test_an_engine_that_was_not_tried_is_refused(monkeypatch):
    """narwhals takes more of them; whether keys are right there nobody has looked."""
    import narwhals as nw

    monkeypatch.setattr(nw.Implementation, "is_polars", lambda _: False)
    with pytest.raises(TypeError, match=r"events must be pandas, Polars .* got DataFrame"):
        dp.Histogram.from_events(pl.DataFrame({"user": [1], "item": [1]}), **COLUMNS)


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("array(1)", "array"), ("map(1, 2)", "map"), ("struct(1)", "struct"),
        ("interval '1' day", "daytimeinterval"), ("time '12:00:00'", "time"),
        ("parse_json('1')", "variant"),
    ],
)  # fmt: skip
def test_types_of_spark_that_hold_no_labels(sql, named):
    frame = spark().sql(f"SELECT 1 AS user, {sql} AS item")
    with pytest.raises(SourceError, match=f"column 'item' is of type {named}.*, which holds no"):
        dp.Histogram.from_events(frame, **COLUMNS)


@pytest.mark.full
def test_spark_reads_text_and_times_as_they_are():
    """Whatever the collation of a column, the zone of the session, and hours it lacks."""
    session = spark()
    frame = session.sql(
        "SELECT user, CAST(item AS STRING) COLLATE UTF8_LCASE AS item "
        "FROM VALUES (1, 'a'), (2, 'A'), (3, 'A') AS t(user, item)"
    )
    got = dp.Histogram.from_events(frame, **COLUMNS)
    assert (got.labels, got.counts.tolist()) == (["A", "a"], [2, 1])
    frame = session.sql(
        "SELECT user, item FROM VALUES (1, TIMESTAMP_NTZ'2024-03-10 02:30:00'), "
        "(2, TIMESTAMP_NTZ'2024-03-10 03:30:00') AS t(user, item)"
    )
    assert [*map(str, dp.Histogram.from_events(frame, **COLUMNS).labels)] == [
        "2024-03-10 02:30:00", "2024-03-10 03:30:00",
    ]  # fmt: skip
    void = session.sql("SELECT 1 AS user, NULL AS item")
    with pytest.raises(SourceError, match="column 'item' holds nulls"):
        dp.Histogram.from_events(void, **COLUMNS)


@pytest.mark.full
def test_an_error_of_spark_quotes_no_row(capfd):
    frame = spark().sql("SELECT 1 AS user, CAST(x AS INT) AS item FROM VALUES ('secret') AS t(x)")
    with pytest.raises(SourceError, match="could not be read and counted") as caught:
        dp.Histogram.from_events(frame, **COLUMNS)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_missing_packages_say_so(monkeypatch):
    """Of the engine nothing is imported but what made the frame."""
    for package in ("pyspark", "dask", "ibis"):
        monkeypatch.setitem(sys.modules, package, None)
    assert dp.Histogram.from_events(pl.DataFrame({"user": [1], "item": [5]}), **COLUMNS).labels


# ---- real data

DATA = ("ciao", "debian12_deps", "debian12_sections", "epinions", "fimi_retail",
        "gowalla_10core", "lastfm_hetrec", "ml100k")  # fmt: skip


def opened(path, name):
    """A file of events as the frame of an engine, which reads it itself."""
    if name == "spark":
        return spark().read.parquet(str(path))
    if name == "dask":
        return pytest.importorskip("dask.dataframe").read_parquet(path)
    if name == "ibis":
        ibis = pytest.importorskip("ibis")
        return ibis.duckdb.from_connection(duckdb.connect()).read_parquet(path)
    return {
        "pandas": pd.read_parquet,
        "polars": pl.read_parquet,
        "polars lazy": pl.scan_parquet,
        "pyarrow": pa.parquet.read_table,
        "pyarrow dataset": ds.dataset,
        "duckdb": lambda path: duckdb.read_parquet(str(path)),
    }[name](path)


@pytest.mark.full
@pytest.mark.parametrize("data", DATA)
def test_engines_agree_on_real_events_and_releases(data_dir, data):
    """The whole way: files to a release on the same tape, with and without a bound."""
    path = data_dir / f"{data}.events.parquet"
    columns = ("user", "item") if data != "debian12_sections" else ("package", "dependency")
    columns = dict(zip(("user", "item"), columns, strict=True))
    names = ["duckdb", "pandas", "polars", "polars lazy", "pyarrow", *ENGINES]
    for options in ({"k_bar": 1000}, {"k_bar": 1000, "max_items_per_user": 3}):
        expected = drawn = None
        for name in names:
            h = dp.Histogram.from_events(opened(path, name), **columns, **options)
            release = dp.limited_domain(
                h, k=50, k_bar=1000, epsilon=3, delta=1e-3, rng=dp.SeededRng(5)
            )
            if expected is None:
                expected, drawn = h, release
                assert len(release.labels) > 0
            same(h, expected)
            assert release.labels == drawn.labels, name
