"""Events to counts: every engine and every file format says the same."""

import sys
from collections import Counter
from datetime import date
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from dptopk.errors import SourceError
from dptopk.sources import frames
from dptopk.sources.column_types import kind_of
from dptopk.sources.databases import _clickhouse_types
from dptopk.sources.domains import as_kind
from dptopk.sources.files import connect, read_events
from dptopk.sources.frames import Counted, count_users
from dptopk.sources.labels import TEXT
from dptopk.sources.plain import some_columns
from dptopk.sources.rules import Rules, rules_of

nw = pytest.importorskip("narwhals")
duckdb = pytest.importorskip("duckdb")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

ARROW_TYPES = {int: pa.int64(), str: pa.string(), float: pa.float64()}


def arrow(users, items):
    """A table whose types do not depend on there being rows."""
    kinds = [next((type(v) for v in col if v is not None), int) for col in (users, items)]
    columns = [pa.array(c, ARROW_TYPES[k]) for c, k in zip((users, items), kinds, strict=True)]
    return pa.table(columns, names=["user", "item"])


ENGINES = {
    "pandas": lambda u, i: arrow(u, i).to_pandas(),
    "polars": lambda u, i: pl.from_arrow(arrow(u, i)),
    "polars lazy": lambda u, i: pl.from_arrow(arrow(u, i)).lazy(),
    "pyarrow": arrow,
    "duckdb": lambda u, i: duckdb.connect().from_arrow(arrow(u, i)),
    "dict": lambda u, i: {"user": u, "item": i},
    "pairs": lambda u, i: list(zip(u, i, strict=True)),
}
COLUMNS = {"user": "user", "item": "item"}


@pytest.fixture(params=ENGINES)
def engine(request):
    return ENGINES[request.param]


def random_events(seed, n=400, text=False):
    """Skewed events with repeats and many equal counts."""
    rng = np.random.default_rng(seed)
    users = rng.integers(0, 40, n).tolist()
    items = np.minimum(rng.geometric(0.08, n), 60).tolist()
    return (users, [f"i{v:02d} ü" for v in items]) if text else (users, items)


def bounded(most):
    return Rules(max_items_per_user=most)


def rows_of(counted: Counted):
    return list(zip(counted.labels, counted.counts.tolist(), strict=True))


def oracle(users, items):
    """(item, count) by count descending, then item ascending."""
    counts = Counter(item for _, item in set(zip(users, items, strict=True)))
    return sorted(counts.items(), key=lambda row: (-row[1], row[0]))


# ---- counting


@pytest.mark.parametrize("text", [False, True])
def test_top_rows_and_next_count_are_the_oracles(engine, text):
    users, items = random_events(1, text=text)
    rows = oracle(users, items)
    ties = [j for j in range(1, len(rows)) if rows[j - 1][1] == rows[j][1]]
    assert ties, "the data must have ties at some cut"
    for k_bar in (1, ties[0], ties[-1], len(rows) - 1, len(rows), len(rows) + 5):
        got = count_users(engine(users, items), **COLUMNS, k_bar=k_bar)
        assert rows_of(got) == rows[:k_bar]
        assert got.next_count == (rows[k_bar][1] if k_bar < len(rows) else 0)
        assert got.counts.dtype == np.int64


def test_without_a_cut_items_come_in_their_own_order(engine):
    users, items = random_events(2, text=True)
    got = count_users(engine(users, items), **COLUMNS)
    assert rows_of(got) == sorted(oracle(users, items))
    assert got.next_count is None


@pytest.mark.parametrize("bound", [None, 3])
def test_domain_gives_order_zeros_and_nothing_else(engine, bound):
    users, items = [1, 1, 2, 2, 3, 1], ["c", "a", "c", "x", "x", "c"]
    got = count_users(
        engine(users, items), **COLUMNS, domain=["b", "c", "a"], k_bar=1, rules=bounded(bound)
    )
    assert got.labels == ["b", "c", "a"]
    assert got.counts.tolist() == [0, 2, 1]
    assert got.next_count is None


def test_domain_is_applied_before_the_bound():
    """Or the bound would be spent on items that cannot be released."""
    users, items = [1] * 50, list(range(50))
    for name in ENGINES:
        frame = ENGINES[name](users, items)
        got = count_users(frame, **COLUMNS, domain=[7, 31], rules=bounded(2))
        assert got.counts.tolist() == [1, 1], name


@pytest.mark.parametrize("k_bar", [None, 3])
def test_no_events_is_no_error(engine, k_bar):
    got = count_users(engine([], []), **COLUMNS, k_bar=k_bar, rules=bounded(2))
    assert got.labels == []
    assert got.counts.shape == (0,)
    assert got.next_count == (None if k_bar is None else 0)


@pytest.mark.parametrize(
    "frame",
    [
        (np.array([1, 1, 2]), np.array(["a", "a", "b"])),
        np.array([(1, "a"), (1, "a"), (2, "b")], dtype=[("user", "i8"), ("item", "U1")]),
        np.array([["1", "a"], ["1", "a"], ["2", "b"]]),
        {"item": np.array(["a", "a", "b"]), "user": [1, 1, 2]},
        pd.DataFrame({"user": [1, 1, 2], "item": pd.Categorical(list("aab"), ["c", "b", "a"])}),
        pl.DataFrame({"user": [1, 1, 2], "item": list("aab")}).cast({"item": pl.Categorical}),
    ],
    ids=["arrays", "structured", "matrix", "dict", "pandas categories", "polars categories"],
)
def test_other_containers(frame):
    got = count_users(frame, **COLUMNS)
    assert (got.labels, got.counts.tolist()) == (["a", "b"], [1, 1])


def test_one_row_does_not_decide_how_a_label_is_written(engine):
    """-0.0 and 0.0 are one item, shown alike whoever has which."""
    for items in ([0.0, -0.0, 2.5], [-0.0, 0.0, 2.5], [-0.0, -0.0, 2.5]):
        for bound in (None, 1):
            got = count_users(engine([1, 2, 3], items), **COLUMNS, rules=bounded(bound))
            assert [*map(repr, got.labels)] == ["0.0", "2.5"]
            assert got.counts.tolist() == [2, 1]


@pytest.mark.parametrize("bound", [None, 1])
def test_a_collation_does_not_decide_how_a_label_is_written(bound):
    con = duckdb.connect()
    con.execute("SET default_collation = 'nocase'")
    for users, items in (([1, 2, 3], "aAA"), ([3, 2, 1], "AAa")):
        con.register("events", arrow(users, list(items)))
        relation = con.sql("SELECT * FROM events")
        got = count_users(relation, **COLUMNS, rules=bounded(bound))
        assert rows_of(got) == [("A", 2), ("a", 1)]


def test_pandas_objects_of_one_kind_are_labels():
    days = [date(2020, 1, 2), date(2020, 1, 1), date(2020, 1, 1)]
    frame = pd.DataFrame({"user": [1, 2, 3], "item": days})
    assert rows_of(count_users(frame, **COLUMNS)) == [(days[1], 2), (days[0], 1)]


def test_the_group_by_and_the_limit_run_in_the_engine(monkeypatch):
    """Of 400 events only k_bar + 1 rows come to Python."""
    fetched = []
    fetch = frames.fetch

    def spy(query):
        columns = fetch(query)
        fetched.append(len(columns[0]))
        return columns

    monkeypatch.setattr(frames, "fetch", spy)
    for name in ("pandas", "polars", "polars lazy", "pyarrow", "duckdb"):
        count_users(ENGINES[name](*random_events(1)), **COLUMNS, k_bar=4)
    assert fetched == [5] * 5


def test_duckdb_relation_needs_no_pyarrow(monkeypatch):
    relation = duckdb.connect().sql("SELECT 1 AS user, 'a' AS item")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert count_users(relation, **COLUMNS).labels == ["a"]


# ---- bounded contributions


def kept(frame, most):
    """What each user keeps, seen by counting that user alone."""
    return count_users(frame, **COLUMNS, rules=bounded(most))


@pytest.mark.parametrize("name", ENGINES)
def test_each_user_keeps_exactly_the_bound(name):
    users, items = random_events(3)
    had = Counter(user for user, _ in set(zip(users, items, strict=True)))
    for most in (1, 4):
        total = kept(ENGINES[name](users, items), most).counts.sum()
        assert total == sum(min(most, n) for n in had.values())


@pytest.mark.full  # test_doors.py has the like of few examples, through every door
@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    others=st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abcdefgh")), max_size=25),
    own=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8),
    most=st.integers(1, 4),
    at=st.integers(0, 25),
)
def test_a_neighbour_differs_by_that_users_own_items_only(name, others, own, most, at):
    """What a user keeps does not depend on the others, nor on the order of rows."""
    mine = [(99, item) for item in own]
    both = others[:at] + mine + others[at:]

    def counts(pairs):
        users, items = [list(col) for col in zip(*pairs, strict=True)] if pairs else ([], ["a"][:0])
        got = kept(ENGINES[name](users, items), most)
        return Counter(dict(zip(got.labels, got.counts.tolist(), strict=True)))

    difference = counts(both)
    difference.subtract(counts(others))
    alone = counts(mine)
    assert {item: n for item, n in difference.items() if n} == dict(alone)
    assert len(alone) == min(most, len(set(own)))
    assert set(alone.values()) == {1}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("text", [False, True])
def test_the_bound_favours_no_item(name, text):
    """3,000 users with the same 10 items, 3 kept: each item is kept by 30% of them.

    Against a fair draw without replacement, whose counts have covariance
    n p (1 - p) d / (d - 1) (I - J / d): chi-square with d - 1 degrees of freedom,
    level 1e-9. Rules that keep low ids, or order the items alike for many users,
    fail by far.
    """
    n, d, most = 3000, 10, 3
    users = [u for u in range(n) for _ in range(d)]
    items = [v for _ in range(n) for v in range(d)]
    if text:
        users, items = [f"user {u}" for u in users], [f"item {v}" for v in items]
    counts = kept(ENGINES[name](users, items), most).counts
    p = most / d
    statistic = ((counts - n * p) ** 2).sum() / (n * p * (1 - p)) * (d - 1) / d
    assert statistic < chi2.isf(1e-9, d - 1)
    assert len(counts) == d


def test_a_bounded_table_spills_nowhere(monkeypatch):
    """PyArrow is bounded by a DuckDB of our own, which must not write events to a file."""
    opened = []
    open_one = duckdb.connect

    def spy(*args, **options):
        opened.append(open_one(*args, **options))
        return opened[-1]

    monkeypatch.setattr(duckdb, "connect", spy)
    kept(arrow(["u", "u"], ["a", "b"]), 1)
    assert [
        con.execute("SELECT current_setting('temp_directory')").fetchone() for con in opened
    ] == [("",)]


# ---- refusals


@pytest.mark.parametrize("bound", [None, 2])
@pytest.mark.parametrize("k_bar", [None, 1])
@pytest.mark.parametrize("column", ["user", "item"])
def test_nulls_are_refused_even_below_the_cut(engine, column, k_bar, bound):
    users, items = ["u1", "u2", "u3", "u4"], ["secret", "secret", "secret", "rare"]
    (users if column == "user" else items)[3] = None
    with pytest.raises(SourceError, match=f"^column '{column}' holds nulls; drop or fill them"):
        count_users(engine(users, items), **COLUMNS, k_bar=k_bar, rules=bounded(bound))


@pytest.mark.parametrize("options", [{"k_bar": 1}, {"domain": ["i0", "i1"]}])
@pytest.mark.parametrize("column", ["user", "item"])
def test_neither_bound_nor_domain_hides_a_null(engine, column, options):
    users, items = ["u"] * 30, [f"i{n}" for n in range(30)]
    (users if column == "user" else items)[7] = None
    with pytest.raises(SourceError, match=f"^column '{column}' holds nulls; drop or fill them"):
        count_users(engine(users, items), **COLUMNS, rules=bounded(1), **options)


@pytest.mark.parametrize("name", ["pandas", "polars", "pyarrow", "duckdb", "dict"])
def test_nan_is_null(name):
    with pytest.raises(SourceError, match="column 'item' holds nulls"):
        count_users(ENGINES[name]([1, 2], [1.0, float("nan")]), **COLUMNS)


@pytest.mark.parametrize("name", ["pandas", "polars lazy", "pyarrow", "duckdb", "dict"])
def test_missing_column_is_named_with_those_there_are(name):
    frame = ENGINES[name]([1], ["secret"])
    with pytest.raises(SourceError, match=r"^no column 'who'; columns: 'user', 'item'$"):
        count_users(frame, user="who", item="item")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame({"user": [1], "item": [["secret"]]}), r"is of type List\(String\), which"),
        (pd.DataFrame({"user": [1] * 500, "item": [*["secret"] * 499, 3]}, dtype=object),
         "column 'item' holds labels of mixed kinds"),
        (pd.DataFrame({"user": [["secret"]], "item": [3]}), "labels of type list"),
        (pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"]), "two columns are named"),
        (pl.LazyFrame({"user": ["1", "secret"], "item": [1, 2]}).cast({"user": int}),
         r"malformed.*\(InvalidOperationError\)"),
        ([("u", "secret"), ("u", 3)], r"mixed kinds \(integer, text\)"),
        ([("u", 1), ("v", 1.0)], r"mixed kinds \(float, integer\)"),
        ([("u", 1), ("v", True)], r"mixed kinds \(boolean, integer\)"),
        ([("u", ["secret"])], "holds labels of type list"),
        ([("u", "secret", 3)], r"must hold \(user, item\) pairs"),
        ({"user": [1, 2], "item": ["secret"]}, "differ in length"),
        (np.zeros(3), r"shape \(n, 2\)"),
    ],
)  # fmt: skip
def test_unusable_tables_are_refused_without_data(frame, message):
    with pytest.raises(SourceError, match=message) as caught:
        count_users(frame, **COLUMNS)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None  # nor in what a logger would follow


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, 2)], "a list of events must hold rows of 3: user, item, then by$"),
        (np.zeros((4, 2)), r"an array of events must have shape \(n, 3\): user, item, then by$"),
    ],
)
def test_rows_without_a_group_are_refused(rows, message):
    with pytest.raises(SourceError, match=message):
        some_columns(rows, "user", "item", "by")


@pytest.mark.parametrize("bits", [8, 16, 32, 64, 128, 256])
def test_integers_of_clickhouse_have_their_limits(bits):
    """Also where no ClickHouse is there to ask."""
    kind, unsigned = (kind_of("clickhouse", "item", f"{u}Int{bits}") for u in ("", "U"))
    assert kind.limits == (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    assert unsigned.limits == (0, 2**bits - 1)


def test_clickhouse_describes_a_table_a_row_for_each_column():
    rows = [("item", "String", ""), ("User", "Int8", ""), ("user", "UInt64", "")]
    database = SimpleNamespace(rows=lambda query: rows if query == "DESCRIBE TABLE t" else None)
    source = SimpleNamespace(text="t", names=("user", "item"))
    assert _clickhouse_types(database, source) == ["UInt64", "String"]


@pytest.mark.parametrize("kind", [None, TEXT])
def test_numbers_of_a_domain_are_text_where_the_column_is(kind):
    assert as_kind([7, "x"], kind, "item") == ["7", "x"]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (7, "events must be pandas, Polars .* got int"),
        ("events.csv", "got str; read files with"),
        (pl.Series([1]), "got Series"),
    ],
)
def test_other_objects_are_refused(frame, message):
    with pytest.raises(TypeError, match=message):
        count_users(frame, **COLUMNS)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"k_bar": 0}, ValueError, "k_bar must be an integer >= 1, got 0"),
        ({"k_bar": 2.0}, TypeError, "k_bar must be an integer, got float"),
        ({"k_bar": True}, TypeError, "k_bar must be an integer, got bool"),
        ({"domain": ["a", "b", "a"]}, ValueError, "domain contains 'a' twice"),
        ({"domain": ["a", None]}, ValueError, "must not contain nulls"),
        ({"domain": [float("nan")]}, ValueError, "must not contain nulls"),
        ({"domain": "abc"}, TypeError, "not one text"),
        (
            {"domain": [1, 2]},
            TypeError,
            "column 'item' is of kind text, the domain of kind integer",
        ),
        ({"user": "item"}, ValueError, "two different columns"),
    ],
)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        count_users(pl.DataFrame({"user": [1], "item": ["a"]}), **{**COLUMNS, **options})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_items_per_user": 0}, ValueError, "max_items_per_user must be an integer >= 1"),
        ({"min_events": 0}, ValueError, "min_events must be an integer >= 1, got 0"),
        ({"min_events": True}, TypeError, "min_events must be an integer, got bool"),
        ({"hash_key": b"secret"}, TypeError, "hash_key must be a text, got bytes"),
        ({"nulls": "keep"}, ValueError, "nulls must be one of error, drop"),
    ],
)
def test_bad_rules(options, error, message):
    with pytest.raises(error, match=message):
        rules_of(**options)


@pytest.mark.parametrize("name", ["a.b", 'us"er', '"item"', "SELECT", "x y"])
def test_columns_of_a_relation_have_any_name(name):
    quoted = name.replace('"', '""')
    relation = duckdb.connect().sql(f'SELECT u AS "{quoted}", 7 AS item FROM range(3) t(u)')
    got = count_users(relation, user=name, item="item")
    assert (got.counts.tolist(), got.labels) == ([3], [7])


def test_text_domain_on_an_integer_column_is_refused():
    """Every count would be 0, silently."""
    with pytest.raises(
        TypeError, match="column 'item' is of kind integer, the domain of kind text"
    ):
        count_users(pl.DataFrame({"user": [1], "item": [5]}), **COLUMNS, domain=["5"])


@pytest.mark.parametrize("kind", [np.array, pl.Series, pd.Series, pa.array, tuple, iter])
def test_domain_of_any_kind(kind):
    frame = pl.DataFrame({"user": [1], "item": [5]})
    got = count_users(frame, **COLUMNS, domain=kind([4, 5]))
    assert got.counts.tolist() == [0, 1]


def test_missing_extras_say_what_to_install(monkeypatch):
    frame = pl.DataFrame({"user": [1], "item": [5]})
    monkeypatch.setitem(sys.modules, "narwhals", None)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError, match=r"pip install 'dptopk\[files\]'"):
        count_users(frame, **COLUMNS)
    with pytest.raises(ImportError, match=r"pip install 'dptopk\[files\]'"):
        connect()
    assert count_users([(1, 5)], **COLUMNS).labels == [5]


# ---- real data


@pytest.mark.parametrize("name", ["ml100k", "gowalla_10core"])
def test_real_events_give_their_published_histogram(data_dir, name):
    expected = np.load(data_dir / f"{name}.hist.npz")["counts"]
    relation = read_events(data_dir / f"{name}.events.parquet", user="user", item="item")
    got = count_users(relation, **COLUMNS, k_bar=500)
    np.testing.assert_array_equal(got.counts, expected[:500])
    assert got.next_count == expected[500]
