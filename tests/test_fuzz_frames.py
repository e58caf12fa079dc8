"""Tables of random columns and nulls, through every library: the counts of a naive program."""

import datetime as dt
from collections import Counter
from decimal import Decimal

import pytest
from fuzzing import holds
from hypothesis import strategies as st

import dptopk as dp
from dptopk.errors import SourceError

pytest.importorskip("narwhals")
pytest.importorskip("duckdb")
pytest.importorskip("pandas")
pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

from doors import TABLES, counts_of  # noqa: E402

DAY, NOON = dt.date(2024, 2, 28), dt.datetime(2024, 2, 28, 12)
KINDS = {
    "integer": (pa.int64(), st.integers(-3, 3)),
    "large integer": (pa.int64(), st.sampled_from([2**53, 2**53 + 1, -(2**63), 2**63 - 1])),
    "small": (pa.int8(), st.integers(-2, 2)),
    "unsigned": (pa.uint64(), st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    "text": (pa.string(), st.text("aA é\0", max_size=2)),
    "bytes": (pa.binary(), st.binary(max_size=2)),
    "boolean": (pa.bool_(), st.booleans()),
    "float": (pa.float64(), st.sampled_from([0.0, -0.0, 0.1, 1.0, 1e300, 5e-324])),
    "date": (pa.date32(), st.integers(0, 3).map(lambda n: DAY + dt.timedelta(n))),
    "time": (pa.timestamp("us"), st.integers(0, 3).map(lambda n: NOON + dt.timedelta(0, 0, n))),
    "decimal": (pa.decimal128(12, 2), st.integers(-2, 2).map(lambda n: Decimal(n) / 4)),
}  # fmt: skip


@st.composite
def tables(draw):
    """A table of users and items, and its rows; with nulls or without."""
    kinds = [draw(st.sampled_from(list(KINDS))) for _ in range(2)]
    sides = [KINDS[kind][1] for kind in kinds]
    if draw(st.booleans()):
        sides = [st.one_of(side, side, st.none()) for side in sides]
    rows = draw(st.lists(st.tuples(*sides), max_size=15))
    users, items = zip(*rows, strict=True) if rows else ((), ())
    columns = [
        pa.array(side, KINDS[kind][0]) for side, kind in zip((users, items), kinds, strict=True)
    ]
    return pa.table(columns, names=["user", "item"]), rows


# What has no types of columns takes them from its values: of none, it has none.
TYPED = [door for door in TABLES if door not in ("dict", "rows", "pair of lists", "dict of arrays")]


def naive(rows, least):
    """How many users have each item so often."""
    events = Counter(rows)
    return Counter(item for (_, item), times in events.items() if times >= least)


def check(door, table, rows, nulls, k_bar, least):
    if "pandas" in door and any(column.null_count for column in table.columns):
        door = "pandas on arrow"  # NumPy has no nulls: its integers would be floats before we come
    frame = TABLES[door](table)
    options = {"nulls": nulls, "k_bar": k_bar, "min_events": least}
    kept = [(user, item) for user, item in rows if user is not None and item is not None]
    try:
        h = dp.Histogram.from_events(frame, user="user", item="item", **options)
    except SourceError as error:
        assert "holds nulls" in str(error)  # noqa: PT017
        assert nulls == "error"
        assert len(kept) < len(rows)
        return
    assert nulls == "drop" or len(kept) == len(rows)
    right = naive(kept, least)
    found = counts_of(h)
    assert sorted(found.values(), reverse=True) == sorted(right.values(), reverse=True)[:k_bar]
    assert found.items() <= right.items()
    again = counts_of(dp.Histogram.from_counts(dict(right))) if right else {}
    assert found.items() <= again.items()


WAYS = (st.sampled_from(["error", "drop"]), st.sampled_from([None, 1, 3]), st.integers(1, 2))


def test_tables_are_counted_as_a_naive_program_counts_them(wide):
    def one(door, made, nulls, k_bar, least):
        check(door, *made, nulls, k_bar, least)

    holds(one, st.sampled_from(TYPED), tables(), *WAYS, number=25, wide=wide, times=4)


EVENTS = pa.table({"user": [1, 1, 2, None], "item": ["a", "a", "a", "b"]})
ROWS = [(1, "a"), (1, "a"), (2, "a"), (None, "b")]


def rows_in_place_of_users(cls, frame, **options):
    return dp.Histogram.from_counts({"a": 3})


def nulls_as_users(cls, frame, **options):
    return dp.Histogram.from_counts({"a": 2, "b": 1})


@pytest.mark.parametrize("broken", [rows_in_place_of_users, nulls_as_users])
def test_a_count_of_something_else_is_found_out(broken, monkeypatch):
    check("pyarrow", EVENTS, ROWS, "drop", None, 1)
    monkeypatch.setattr(dp.Histogram, "from_events", classmethod(broken))
    with pytest.raises(AssertionError):
        check("pyarrow", EVENTS, ROWS, "drop", None, 1)
