"""Every door takes every kind of label alike: exact counts, or an error that names the type."""

from collections import Counter
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest

pytest.importorskip("narwhals")
pytest.importorskip("duckdb")
pytest.importorskip("pandas")
pytest.importorskip("polars")
pytest.importorskip("pyarrow")

import duckdb
import narwhals
import pandas as pd
import polars as pl
import pyarrow as pa
from doors import (
    ALL_DOORS,
    FILES,
    STREAMS,
    TABLES,
    counts_of,
    events,
    through,
)
from grids import thinned
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dptopk as dp
from dptopk.errors import SourceError

UTC = timezone.utc
DAY = date(2024, 2, 29)
NOON = datetime(2024, 2, 29, 12, 0, 0, 1)
BIG = 2**53

# kind -> (Arrow type, three or two values ascending)
KINDS = {
    "text": (pa.string(), ["", "A", "a", "é"][1:]),
    "large text": (pa.large_string(), ["A", "a", "é"]),
    "integer": (pa.int64(), [-1, BIG, BIG + 1]),
    "small integer": (pa.int8(), [-128, 0, 127]),
    "unsigned integer": (pa.uint64(), [0, 2**63, 2**64 - 1]),
    "boolean": (pa.bool_(), [False, True]),
    "float": (pa.float64(), [-0.5, 0.1, 1e300]),
    "32-bit float": (pa.float32(), [float(np.float32(x)) for x in (-0.5, 0.1, 1e30)]),
    "bytes": (pa.binary(), [b"\x00a", b"a", b"\xff"]),
    "date": (pa.date32(), [date(1, 1, 1), DAY, date(9999, 12, 31)]),
    "timestamp in s": (pa.timestamp("s"), [datetime(1900, 1, 1), datetime(2024, 1, 1)]),
    "timestamp in us": (pa.timestamp("us"), [datetime(1, 1, 1), NOON, datetime(9999, 12, 31)]),
    "timestamp with zone": (
        pa.timestamp("us", "UTC"),
        [NOON.replace(tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)],
    ),
    "decimal": (pa.decimal128(20, 2), [Decimal("-1.50"), Decimal("0.01"), Decimal("123.40")]),
}
ROLES = ("items", "users", "domain")


def as_text(values):
    """What a text file holds of these values, or None where that is not as Python writes it."""
    if all(isinstance(v, (str, int)) and not isinstance(v, bool) for v in values):
        return [str(v) for v in values]
    return None


def check(door, kind, values, table_of, tmp_path, role):
    """Three people have the first label, one has the second, nobody the last."""
    first, second, *rest = values
    plain = door in FILES + STREAMS and not door.startswith("parquet")
    if plain:
        text = as_text(values)
        if text is None:
            pytest.skip("text files hold text")
        first, second, *rest = text
    if role == "users":
        people = [values[0], values[0], values[1], values[-1], values[1]]
        got = through(door, table_of(people, ["x", "x", "x", "x", "y"], "user"), tmp_path)
        assert counts_of(got) == {"x": len(set(people)), "y": 1}
        return
    things = [values[0], values[0], values[0], values[0], values[1]]
    table = table_of([1, 1, 2, 3, 2], things, "item")
    if role == "items":
        got = through(door, table, tmp_path)
        assert got.labels == sorted([first, second])
        assert [*map(type, got.labels)] == [type(first)] * 2
        assert counts_of(got) == {first: 3, second: 1}
        top = through(door, table, tmp_path, k_bar=1)
        assert (counts_of(top), top.cut(1)[2]) == ({first: 3}, 1)
    else:
        domain = [*rest, second, first]
        for bound in (None, 2):
            got = through(door, table, tmp_path, domain=domain, max_items_per_user=bound)
            assert list(got.labels) == domain
            assert got.counts.tolist() == [0] * len(rest) + [1, 3]


@pytest.mark.parametrize(("door", "kind", "role"), thinned(ALL_DOORS, KINDS, ROLES, keep=3))
def test_every_door_counts_every_kind(door, kind, role, tmp_path):
    arrow, values = KINDS[kind]
    if (door, kind) == ("dict of arrays", "timestamp with zone"):
        pytest.skip("NumPy has no zones")
    if (door, kind) == ("spark", "unsigned integer"):
        pytest.skip("Spark has none")

    def table_of(users, items, which):
        types = {f"{which}_type": arrow}
        return events(users, items, **types)

    check(door, kind, values, table_of, tmp_path, role)


NANO = [
    np.datetime64("2024-01-01T00:00:00.000000001"),
    np.datetime64("2024-01-01T00:00:00.000000002"),
]


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("door", [*TABLES, "parquet"])
def test_nanoseconds_stay_apart(door, role, zone, tmp_path):
    """Python's datetime has none: two labels a nanosecond apart were one, and k_bar an error."""
    if door in ("rows", "dict", "pair of lists"):
        pytest.skip("PyArrow gives Python no nanoseconds; pandas' own are in the next test")
    if zone and door in ("dict of arrays", "duckdb"):
        pytest.skip("NumPy has no zones, and DuckDB no nanoseconds with one")
    if zone and door == "parquet" and duckdb.__version__ < "2":
        pytest.skip("DuckDB 1 has no nanoseconds with a zone: refused")

    def table_of(users, items, which):
        columns = {"user": pa.array(users), "item": pa.array(items)}
        return pa.table(columns | {which: columns[which].cast(pa.timestamp("ns", zone))})

    if role == "domain":
        domain = pa.array([NANO[1], NANO[0]]).cast(pa.timestamp("ns", zone))
        table = table_of([1, 1, 2, 3, 2], [NANO[0]] * 4 + [NANO[1]], "item")
        assert through(door, table, tmp_path, domain=domain).counts.tolist() == [1, 3]
    else:
        check(door, "timestamp", NANO, table_of, tmp_path, role)


@pytest.mark.parametrize("kind", [UUID, tuple, pd.Timestamp, np.datetime64, np.str_, np.int64])
@pytest.mark.parametrize("door", ["pandas", "dict", "rows", "pair of lists"])
def test_other_python_values(door, kind):
    made = {
        UUID: ([UUID(int=1), UUID(int=2**127)],) * 2,
        tuple: ([("a", 1), ("a", 2)],) * 2,
        pd.Timestamp: ([pd.Timestamp(1000), pd.Timestamp(1001)],
                       [datetime(1970, 1, 1, 0, 0, 0, 1), np.datetime64(1001, "ns")]),
        np.datetime64: ([np.datetime64("2024-01-01"), np.datetime64("2024-01-02")],
                        [date(2024, 1, 1), date(2024, 1, 2)]),
        np.str_: ([np.str_("a"), np.str_("b")], ["a", "b"]),
        np.int64: ([np.int64(1), np.int64(2)], [1, 2]),
    }  # fmt: skip
    values, labels = made[kind]
    users, items = [1, 1, 2, 3, 2], [values[0]] * 4 + [values[1]]
    frame = {
        "pandas": lambda: pd.DataFrame({"user": users, "item": pd.Series(items, dtype=object)}),
        "dict": lambda: {"user": users, "item": items},
        "rows": lambda: list(zip(users, items, strict=True)),
        "pair of lists": lambda: (users, items),
    }[door]()
    got = dp.Histogram.from_events(frame, user="user", item="item")
    assert counts_of(got) == {labels[0]: 3, labels[1]: 1}
    assert [*map(type, got.labels)] == [*map(type, labels)]
    got = dp.Histogram.from_events(frame, user="user", item="item", domain=values[::-1])
    assert got.counts.tolist() == [1, 3]


REFUSED = {
    "time": (pa.time64("ns"), [time(1), time(2)]),
    "duration": (pa.duration("ns"), [timedelta(1), timedelta(2)]),
    "list": (pa.list_(pa.int64()), [[1], [2]]),
    "struct": (pa.struct({"a": pa.int64()}), [{"a": 1}, {"a": 2}]),
    "16-bit float": (pa.float16(), [np.float16(1), np.float16(2)]),
}


@pytest.mark.parametrize("which", ["user", "item"])
@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize(
    "door", [*TABLES, "parquet", *(door for door in ALL_DOORS if not isinstance(door, str))]
)
def test_every_door_refuses_other_types_by_name(door, kind, which, tmp_path):
    arrow, values = REFUSED[kind]
    if kind == "16-bit float" and door in ("rows", "dict", "pair of lists", "dict of arrays"):
        pytest.skip("NumPy's are exact as Python's floats")
    if (kind, door) in {("16-bit float", "parquet"), ("duration", "parquet")}:
        pytest.skip("DuckDB reads them as 32 bits and as integers, exactly")
    if kind == "16-bit float" and door in ("duckdb", "ibis", "spark"):
        pytest.skip("it does not take such a table")
    if (kind, door) == ("time", "spark"):
        pytest.skip("it has a type for them, but takes no such table")
    if kind == "16-bit float" and "polars" in door and not hasattr(pl, "Float16"):
        pytest.skip("this Polars reads them as 32 bits, exactly")
    other = {"user": "item", "item": "user"}[which]
    table = pa.table({which: pa.array(values, arrow), other: ["a", "b"]})
    with pytest.raises(SourceError, match=f"column '{which}' (is of type|holds labels of type)"):
        through(door, table.select(["user", "item"]), tmp_path)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([frozenset("a"), frozenset("b")], "frozenset"),
        ([object(), object()], "object"),
        ([1j, 2j], "complex"),
        (["a", 1], r"mixed kinds \(integer, text\)"),
        ([1, 1.0], r"mixed kinds \(float, integer\)"),
        ([1, True], r"mixed kinds \(boolean, integer\)"),
        ([("a",), ("a", 1)], r"mixed kinds \(tuple\(text\), tuple\(text, integer\)\)"),
        ([date(2024, 1, 1), datetime(2024, 1, 1)], r"mixed kinds \(date, timestamp\)"),
        ([NOON, NOON.replace(tzinfo=UTC)], "mixed kinds"),
        ([(frozenset(),)], "tuple"),
        ([pd.Period("2024")], "Period"),
        ([pd.Interval(0, 1)], "Interval"),
        ([timedelta(1)], "timedelta"),
        ([np.timedelta64(1, "s")], "timedelta64"),
        ([np.datetime64(1, "ps")], "datetime64"),
        ([np.longdouble(1)], type(np.longdouble(1)).__name__),
    ],
)
@pytest.mark.parametrize("which", ["user", "item"])
def test_labels_without_an_order_or_a_form_of_their_own_are_refused(values, named, which):
    other = [1] * len(values)
    for frame in (
        {"user": other, "item": other, which: values},
        pd.DataFrame({"user": other, "item": other}).assign(
            **{which: pd.Series(values, dtype=object)}
        ),
    ):
        with pytest.raises(SourceError, match=named) as caught:
            dp.Histogram.from_events(frame, user="user", item="item")
        assert caught.value.__context__ is None


def test_equal_decimals_are_written_alike():
    """Of 1, 1.0 and 1.00 the rows would decide which is shown."""
    frame = {"user": [1, 2, 3], "item": [Decimal("100"), Decimal("1E+2"), Decimal("100.00")]}
    got = dp.Histogram.from_events(frame, user="user", item="item")
    assert [*map(str, got.labels)] == ["100"]
    assert got.counts.tolist() == [3]


NULLS = [
    None,
    float("nan"),
    pd.NA,
    pd.NaT,
    Decimal("NaN"),
    Decimal("sNaN"),
    np.datetime64("NaT", "us"),
]


@pytest.mark.parametrize("null", [*NULLS, ("a", float("nan"))], ids=repr)
@pytest.mark.parametrize("which", ["user", "item"])
def test_all_nulls_are_refused_or_dropped(null, which):
    for fill in ("a", ("a", 1.0)) if isinstance(null, tuple) else ("a",):
        full = {"user": [fill, fill], "item": [fill, fill]}
        frame = full | {which: [fill, null]}
        if isinstance(null, tuple) and fill == "a":
            continue
        with pytest.raises(SourceError, match=f"^column '{which}' holds nulls"):
            dp.Histogram.from_events(frame, user="user", item="item")
        got = dp.Histogram.from_events(frame, user="user", item="item", nulls="drop")
        assert counts_of(got) == {fill: 1}


@pytest.mark.parametrize(("door", "bound"), thinned(ALL_DOORS, [None, 2], keep=2))
def test_dropping_nulls_drops_rows_by_their_own_values_only(door, bound, tmp_path):
    users = ["u", "v", None, "w", None, "v"]
    items = ["a", None, "a", "a", None, "b"]
    table = events(users, items, pa.string(), pa.string())
    with pytest.raises(SourceError, match=r"holds nulls; .* or leave such rows out: nulls='drop'"):
        through(door, table, tmp_path, max_items_per_user=bound)
    got = through(door, table, tmp_path, nulls="drop", max_items_per_user=bound)
    assert counts_of(got) == {"a": 2, "b": 1}
    got = through(door, table, tmp_path, nulls="drop", max_items_per_user=bound, domain=["b", "c"])
    assert got.counts.tolist() == [1, 0]


@pytest.mark.parametrize("door", ["pandas", "polars", "pyarrow", "duckdb", "parquet"])
def test_infinite_dates_and_nat_are_nulls(door, tmp_path):
    table = events([1, 2], [NOON, None], item_type=pa.timestamp("ns"))
    assert counts_of(through(door, table, tmp_path, nulls="drop")) == {NOON: 1}
    import duckdb

    for dtype in ("DATE", "TIMESTAMP", "TIMESTAMPTZ"):
        relation = duckdb.sql(f"SELECT 1 AS user, 'infinity'::{dtype} AS item")
        with pytest.raises(SourceError, match="holds nulls"):
            dp.Histogram.from_events(relation, user="user", item="item")


@pytest.mark.parametrize("door", ALL_DOORS)
@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    others=st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abcdefgh")), max_size=25),
    own=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8),
    most=st.sampled_from([None, 1, 3]),
    at=st.integers(0, 25),
)  # fmt: skip
def test_one_user_more_moves_at_most_so_many_counts_by_one(door, tmp_path, others, own, most, at):
    """And which ones depends on nothing but that user's own rows."""
    mine = [(99, item) for item in own]

    def counts(pairs):
        users, items = zip(*pairs, strict=True) if pairs else ((), ())
        table = events(users, items, pa.int64(), pa.string())
        return Counter(counts_of(through(door, table, tmp_path, max_items_per_user=most)))

    moved = counts(others[:at] + mine + others[at:])
    moved.subtract(counts(others))
    moved = {item: n for item, n in moved.items() if n}
    assert set(moved.values()) == {1}
    assert len(moved) == min(most or len(set(own)), len(set(own)))
    assert moved.keys() <= set(own)
    assert moved == dict(counts(mine))


# ---- names of columns


def named(names, door):
    """A table of columns so named, which a PyArrow table may have twice."""
    table = pa.Table.from_arrays([pa.array([place]) for place in range(len(names))], list(names))
    return {
        "pyarrow": lambda: table,
        "pandas": lambda: pd.DataFrame([range(len(names))], columns=list(names)),
        "polars": lambda: pl.from_arrow(table),
        "duckdb": lambda: __import__("duckdb").sql(
            "SELECT " + ", ".join(f'{place} AS "{name}"' for place, name in enumerate(names))
        ),
    }[door]()


@pytest.mark.parametrize("door", ["pyarrow", "pandas", "polars", "duckdb"])
def test_the_column_named_exactly_so_is_taken(door):
    frame = named(["User", "user", "ITEM", "item"], door)
    got = dp.Histogram.from_events(frame, user="User", item="ITEM")
    assert got.labels == [2]
    got = dp.Histogram.from_events(frame, user="user", item="item")
    assert got.labels == [3]
    with pytest.raises(SourceError, match="no column 'USER', but 'User'; columns: 'User', 'user'"):
        dp.Histogram.from_events(frame, user="USER", item="item")


@pytest.mark.parametrize("door", ["pyarrow", "pandas", "duckdb"])
def test_columns_of_one_name_are_said_so(door):
    frame = named(["user", "item", "item"], door)
    with pytest.raises(SourceError, match="two columns are named 'item'; rename one of them"):
        dp.Histogram.from_events(frame, user="user", item="item")


# ---- domains


@pytest.mark.parametrize(
    ("door", "kind"),
    thinned(["pandas", "polars", "pyarrow", "duckdb", "dict", "parquet"], KINDS, keep=3),
)
def test_a_domain_of_another_kind_is_refused(door, kind, tmp_path):
    """Every count would be 0, without a word."""
    arrow, values = KINDS[kind]
    table = events([1, 2], values[:2], item_type=arrow)
    fits = kind.split(" in ")[0].removeprefix("small ").removeprefix("unsigned ")
    for other, (_, domain) in KINDS.items():
        same = other.split(" in ")[0].removeprefix("small ").removeprefix("unsigned ")
        if {fits, same} <= {"text", "large text"} or {fits, same} <= {"float", "32-bit float"}:
            continue
        if same == fits:
            continue
        with pytest.raises(TypeError, match=r"column 'item' is of kind .*, the domain of kind"):
            through(door, table, tmp_path, domain=domain)


@pytest.mark.parametrize(
    ("domain", "error", "message"),
    [
        ({"a", "b"}, TypeError, "must be a sequence, as its order breaks ties; got set"),
        ({"a": 1}, TypeError, "must be a sequence"),
        ("ab", TypeError, "not one text"),
        (7, TypeError, "must be a column of labels, got int"),
        ([], ValueError, "must hold at least one label"),
        (["a", None], ValueError, "must not contain nulls"),
        (["a", float("nan")], ValueError, "must not contain nulls"),
        (["a", 1], TypeError, r"'domain' holds labels of mixed kinds \(integer, text\)"),
        (["a", "b", "a"], ValueError, "domain contains 'a' twice"),
        ([frozenset()], TypeError, "holds labels of type frozenset"),
        ([("a",)], TypeError, r"column 'item' is of kind text, the domain of kind tuple\(text\)"),
    ],
)
@pytest.mark.parametrize("door", ["pandas", "polars", "pyarrow", "duckdb", "dict", "rows"])
def test_bad_domains(door, domain, error, message, tmp_path):
    with pytest.raises(error, match=message):
        through(door, events(["u"], ["a"]), tmp_path, domain=domain)


@pytest.mark.parametrize(
    "domain",
    [
        [np.int64(4), np.int64(5)], np.array([4, 5]), range(4, 6), (4, 5), iter([4, 5]),
        pd.Series([4, 5]), pd.Index([4, 5]), pl.Series([4, 5]), pa.array([4, 5]),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_domains_of_any_sequence(domain):
    frame = pl.DataFrame({"user": [1], "item": [5]})
    got = dp.Histogram.from_events(frame, user="user", item="item", domain=domain)
    assert got.counts.tolist() == [0, 1]


def test_labels_that_a_column_cannot_hold_count_nothing():
    for item, domain in (
        (pl.Series([1], dtype=pl.Int8), [1, 300, 2**80]),
        (pl.Series([Decimal("1.50")]), [Decimal("1.5"), Decimal("1.505"), Decimal(10) ** 40]),
        (pl.Series([datetime(2024, 1, 1)]), [np.datetime64("2024-01-01", "us"), NANO[0]]),
    ):
        for frame in (
            pl.DataFrame({"user": [1], "item": item}),
            pl.DataFrame({"user": [1], "item": item}).to_arrow(),
            __import__("duckdb").from_arrow(pl.DataFrame({"user": [1], "item": item}).to_arrow()),
        ):
            got = dp.Histogram.from_events(frame, user="user", item="item", domain=domain)
            assert got.counts.tolist() == [1] + [0] * (len(domain) - 1)


def test_a_double_is_no_32_bit_float():
    frame = pl.DataFrame({"user": [1], "item": pl.Series([0.1], dtype=pl.Float32)})
    with pytest.raises(TypeError, match=r"holds 32-bit floats, and the domain.s 0\.1 is none"):
        dp.Histogram.from_events(frame, user="user", item="item", domain=[0.1])
    got = dp.Histogram.from_events(frame, user="user", item="item", domain=[np.float32(0.1)])
    assert got.counts.tolist() == [1]


def test_categories_are_what_they_stand_for():
    """As text 1 and "1" would be one; by code the rows would decide the order."""
    for frame in (
        pd.DataFrame({"user": [1, 2, 3], "item": pd.Categorical([10, 9, 9], [10, 9])}),
        pa.table({"user": [1, 2, 3], "item": pa.array([10, 9, 9]).dictionary_encode()}),
        pd.DataFrame({"user": [1, 2, 3], "item": pa.array([10, 9, 9]).dictionary_encode()}),
    ):
        got = dp.Histogram.from_events(frame, user="user", item="item")
        assert counts_of(got) == {10: 1, 9: 2}
    mixed = pd.DataFrame({"user": [1, 2], "item": pd.Categorical([1, "1"], [1, "1"])})
    with pytest.raises(SourceError, match="mixed kinds"):
        dp.Histogram.from_events(mixed, user="user", item="item")


@pytest.mark.parametrize("dtype", ["JSON", "TIME", "INTERVAL", "BIT", "TIMETZ"])
def test_duckdb_types_that_hold_no_labels(dtype):
    import duckdb

    relation = duckdb.sql(f"SELECT 1 AS user, NULL::{dtype} AS item")
    with pytest.raises(SourceError, match=r"column 'item' is of type .*, which holds no labels"):
        dp.Histogram.from_events(relation, user="user", item="item")


# ---- counts with labels

VISITS = pd.DataFrame({"user": [1, 2, 3, 1], "item": list("aabb")}).drop_duplicates()


@pytest.mark.parametrize(
    "counts",
    [
        {"b": 1, "a": 2},
        Counter("aab"),
        Counter("aab").most_common(),
        pd.Series(list("aab")).value_counts(),
        pd.Series(list("aab")).value_counts().reset_index(),
        pd.Series(list("aab"), dtype="category").cat.add_categories("z").value_counts(),
        pl.Series("item", list("aab")).value_counts(),
        pa.array(list("aab")).value_counts(),
        pa.table({"item": ["b", "a"], "n": [1, 2]}),
    ],
    ids=lambda counts: type(counts).__name__,
)
def test_counts_by_label_are_an_unknown_domain(counts):
    h = dp.Histogram.from_counts(counts)
    assert not h.known_domain
    assert counts_of(h) == {"a": 2, "b": 1}
    with pytest.raises(dp.UnknownDomainError):
        dp.peel(h, k=1, epsilon=1)
    assert dp.Histogram.from_counts(counts, k_bar=1).cut(1)[2] == 1
    public = dp.Histogram.from_counts(counts, domain_is_public=True)
    assert public.known_domain
    assert {label: n for label, n in counts_of(public).items() if n} == {"a": 2, "b": 1}


MECHANISMS = [
    dp.peel, dp.limited_domain, dp.oneshot, dp.joint, dp.permute_and_flip, dp.gamma,
    dp.noisy_max, dp.top_stable, dp.Histogram,
]  # fmt: skip


@pytest.mark.parametrize("function", MECHANISMS, ids=lambda function: function.__name__)
@pytest.mark.parametrize(
    "counts",
    [
        VISITS.item.value_counts(),
        pd.Series([5, 6, 7], index=[2, 1, 0]),
        pd.Series([5, 6, 7])[1:],
        Counter("aab"),
        {"a": 1},
    ],
    ids=["value_counts", "numbers", "a slice", "Counter", "dict"],
)
def test_labels_are_never_dropped_in_silence(function, counts):
    options = {"k": 1, "epsilon": 1.0}
    if function in (dp.limited_domain, dp.top_stable):
        options["delta"] = 1e-6
    if function is dp.noisy_max:
        del options["k"]
    if function is dp.Histogram:
        options = {"labels": list(counts)}
    with pytest.raises(TypeError, match=r"counts come with labels.*Histogram\.from_counts"):
        function(counts, **options)
    assert dp.peel(pd.Series([5, 6000, 7]), k=1, epsilon=1).indices.tolist() == [1]


@pytest.mark.parametrize(
    ("counts", "error", "message"),
    [
        ([1, 2], TypeError, "counts have no labels"),
        (np.array([1, 2]), TypeError, "counts must have labels"),
        ({"a": 1.5}, TypeError, "must be an array of integers"),
        ({"a": -1}, ValueError, "counts must not be negative"),
        ({None: 1}, ValueError, "must not have a null for a label"),
        (pd.Series([1, 2], index=["a", "a"]), ValueError, "every label once"),
        ({frozenset(): 1}, SourceError, "labels of type frozenset"),
        (pl.DataFrame({"item": ["a"], "count": [1.5]}), TypeError, "counts must be integers"),
        (pl.DataFrame({"a": ["a"], "b": [1], "c": [1]}), TypeError, "two columns"),
    ],
)
def test_bad_labelled_counts(counts, error, message):
    with pytest.raises(error, match=message):
        dp.Histogram.from_counts(counts)


def test_a_table_with_more_columns_says_which():
    table = pl.DataFrame({"day": [1, 1], "what": ["a", "b"], "people": [4, 9]})
    h = dp.Histogram.from_counts(table, item="what", count="people")
    assert counts_of(h) == {"a": 4, "b": 9}


# ---- text, timestamps and zeros that an engine takes for others

NUL = ["a", "a\0b", "a", "a\0c", "a\0b"]
ODD_TEXT = {"NUL": NUL, "surrogate": [text.replace("\0b", "\ud800") for text in NUL]}
TEXT_COLUMNS = {
    "pandas objects": lambda values: pd.Series(values, dtype=object),
    "pandas python text": lambda values: pd.Series(values, dtype=pd.StringDtype("python")),
    "pandas arrow text": lambda values: pd.Series(values, dtype=pd.StringDtype("pyarrow")),
    "polars": pl.Series,
    "pyarrow": pa.array,
    "list": list,
}


@pytest.mark.parametrize("bound", [None, 2])
@pytest.mark.parametrize("column", TEXT_COLUMNS)
@pytest.mark.parametrize("text", ODD_TEXT)
def test_text_is_all_of_its_characters(text, column, bound):
    """The hash table of pandas 2 ends text at a NUL; UTF-8 can't write a surrogate."""
    values = ODD_TEXT[text]
    if text == "surrogate" and column in ("pandas arrow text", "polars", "pyarrow"):
        pytest.skip("can't hold it")
    whole = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "list": dict}
    of = whole[column.split()[0]]
    same = ["x"] * len(values)
    options = {"user": "user", "item": "item", "max_items_per_user": bound}
    held = TEXT_COLUMNS[column](values)
    got = dp.Histogram.from_events(of({"user": held, "item": same}), **options)
    assert counts_of(got) == {"x": 3}
    frame = of({"user": list(range(5)), "item": held})
    expected = Counter(values)
    assert counts_of(dp.Histogram.from_events(frame, **options)) == expected
    domain = [*expected, "a\0z", "\udfff"]
    got = dp.Histogram.from_events(frame, domain=domain, **options)
    assert got.counts.tolist() == [*expected.values(), 0, 0]
    frame = of({"user": same, "item": held})
    assert len(dp.Histogram.from_events(frame, **options).labels) == (bound or 3)


@pytest.mark.parametrize("door", ["pandas", "pandas on arrow", "polars", "pyarrow", "dict"])
@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize("which", ["user", "item"])
def test_far_timestamps_stay_apart(door, unit, which):
    """As microseconds they would wrap around: 2**58 seconds would be 1970."""
    far = np.array([0, 2**58, 2**58, 1], f"M8[{unit}]")
    column = {
        "pandas": lambda: pd.Series(far),
        "pandas on arrow": lambda: pd.Series(
            pa.array(far), dtype=pd.ArrowDtype(pa.timestamp(unit))
        ),
        "polars": lambda: pl.Series(far.astype(np.int64)).cast(pl.Datetime("ms")),
        "pyarrow": lambda: pa.array(far),
        "dict": lambda: far,
    }[door]()
    of = {"dict": dict, "polars": pl.DataFrame, "pyarrow": pa.table}.get(door, pd.DataFrame)
    frame = of({"one": [1, 1, 1, 1], "many": column})
    named = ("many", "one") if which == "user" else ("one", "many")
    got = dp.Histogram.from_events(frame, user=named[0], item=named[1])
    assert got.counts.tolist() == ([3] if which == "user" else [1, 1, 1])


def test_timestamps_past_the_calendar_of_python():
    minus_5 = timezone(timedelta(hours=-5))
    for item, label in (
        (datetime.max.replace(tzinfo=minus_5), np.datetime64("10000-01-01T04:59:59.999999")),
        (pd.Timestamp(np.datetime64(2**40, "s")), np.datetime64(2**40, "s")),
        (np.datetime64(2**62, "s"), np.datetime64(2**62, "s")),
        (np.datetime64(-(2**62), "h"), np.datetime64(-(2**62), "h")),
    ):
        got = dp.Histogram.from_events([(1, item)], user="user", item="item")
        assert got.labels == [label]
    import duckdb

    table = pa.table({"user": [1, 2], "item": pa.array([0, 2**58], pa.timestamp("s"))})
    relation = duckdb.connect().from_arrow(table)  # which can't calculate with it
    got = dp.Histogram.from_events(relation, user="user", item="item", nulls="drop")
    assert got.labels == [datetime(1970, 1, 1)]


@pytest.mark.parametrize("dtype", ["UHUGEINT", "HUGEINT", "DECIMAL(38, 30)"])
def test_a_domain_in_duckdb_is_exact(dtype):
    """A list of large integers, or of 1E-30 and others, would be one of doubles."""
    import duckdb

    big = {"UHUGEINT": 2**127 + 2**60, "HUGEINT": 2**126, "DECIMAL(38, 30)": Decimal("1E-30")}[
        dtype
    ]
    near = big + 1 if isinstance(big, int) else Decimal("1.1E-29")
    relation = duckdb.sql(f"SELECT 1 AS user, unnest(['{big}', '{near}']::{dtype}[]) AS item")
    for wanted in (big, near):
        domain = [wanted, type(wanted)(1)]
        got = dp.Histogram.from_events(
            relation, user="user", item="item", domain=domain, max_items_per_user=1
        )
        assert got.counts.tolist() == [1, 0]


@pytest.mark.parametrize(
    "arrow", [pa.large_binary(), pa.binary(2), pa.date64(), pa.decimal256(50, 2)], ids=str
)
@pytest.mark.parametrize("door", ["pandas on arrow", "pyarrow"])
def test_types_without_a_name_are_refused_by_column(arrow, door, tmp_path):
    if "decimal" in str(arrow) and not hasattr(narwhals.Decimal(), "precision"):
        pytest.skip("this narwhals takes them, exactly")
    values = {"date64[ms]": [date(2024, 1, 1)], "decimal256(50, 2)": [Decimal(1)]}
    table = events([1], values.get(str(arrow), [b"ab"]), item_type=arrow)
    with pytest.raises(SourceError, match=r"column 'item' is of type .*, which holds no labels"):
        through(door, table, tmp_path)


def test_a_domain_in_duckdb_may_hold_any_text():
    """It goes there as one text with separators, which labels may hold too."""
    import duckdb

    labels = ["", "\x1e", "\x1e0\x1f", "\x1e0", "0\x1f", "\x1f", "\0", "a\0'b", "'", "\\x41", "A"]
    table = pa.table({"user": list(range(len(labels))), "item": labels})
    relation = duckdb.connect().from_arrow(table)
    for domain in (labels, labels[::-1], *([label] for label in labels)):
        got = dp.Histogram.from_events(
            relation, user="user", item="item", domain=domain, max_items_per_user=1
        )
        assert got.counts.tolist() == [1] * len(domain)
    blobs = [b"", b"\0", b"\xff\x1e", b"a"]
    table = pa.table({"user": list(range(4)), "item": pa.array(blobs)})
    relation = duckdb.connect().from_arrow(table)
    got = dp.Histogram.from_events(relation, user="user", item="item", domain=blobs)
    assert got.counts.tolist() == [1] * 4
