"""What a user keeps: in every engine what the rule in plain Python says, for every kind."""

from collections import Counter
from datetime import date, datetime, timezone
from decimal import Decimal
from hashlib import md5
from itertools import product
from uuid import UUID

import pytest

pytest.importorskip("narwhals")
pytest.importorskip("duckdb")
pytest.importorskip("pandas")
pytest.importorskip("polars")
pytest.importorskip("pyarrow")

import polars as pl
import pyarrow as pa
from doors import DOORS, ENGINES, FILES, STREAMS, TABLES, counts_of, events, through
from grids import thinned

import dptopk as dp
from dptopk.errors import SourceError
from dptopk.sources import bounds, queries
from dptopk.sources.labels import INTEGER, column_of

UTC = timezone.utc
# Arrow type and values: those whose texts engines could write in many ways.
KINDS = {
    "text": (pa.string(), ["", "a", "A", "é", "e\u0301", "\U0001f600", "it's", "a:b", '"', "\\x"]),
    "integer": (pa.int64(), [0, -1, 7, 10**6, -(2**63), 2**63 - 1]),
    "unsigned integer": (pa.uint64(), [0, 1, 10, 2**63, 2**64 - 1]),
    "boolean": (pa.bool_(), [False, True]),
    "float": (
        pa.float64(),
        [0.0, -1.0, 0.5, 0.1, 1e-5, 2.5e-4, 2.0**53, 1e15, 1e16, -1e300, 1e7 + 0.5, float("inf")],
    ),
    "32-bit float": (pa.float32(), [0.0, -1.0, 0.5, 3.0, 2.0**24]),
    "bytes": (pa.binary(), [b"", b"\0", b"a", b"\xff\x0a"]),
    "date": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 1, 1)]),
    "timestamp in s": (pa.timestamp("s"), [datetime(1969, 1, 1), datetime(1970, 1, 1)]),
    "timestamp in ms": (pa.timestamp("ms"), [datetime(1969, 1, 1), datetime(1970, 1, 1)]),
    "timestamp in us": (
        pa.timestamp("us"), [datetime(1, 1, 1), datetime(1970, 1, 1), datetime(2024, 1, 1, 0, 0, 1)]
    ),
    "timestamp in ns": (
        pa.timestamp("ns"), [datetime(1969, 1, 1, 0, 0, 0, 5), datetime(1970, 1, 1)]
    ),
    "timestamp with zone": (
        pa.timestamp("us", "UTC"),
        [datetime(1969, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)],
    ),
    "decimal": (
        pa.decimal128(20, 2), [Decimal(x) for x in ("0", "-0.01", "0.5", "1.50", "100", "-7.00")]
    ),
    "small decimal": (pa.decimal128(2, 2), [Decimal(x) for x in ("0", "0.5", "-0.25", "0.01")]),
    "whole decimal": (pa.decimal128(10, 0), [Decimal(x) for x in ("0", "100", "-7")]),
}  # fmt: skip
TEXT_DOORS = {door for door in FILES + STREAMS if "parquet" not in door}


def expected(users, items, most, hash_key):
    """Counts by label of what is left by the rule, and how many are left of each user."""
    u, i = column_of("user", users), column_of("item", items)
    labels = dict(zip(i.keys, items, strict=True))
    pairs = set(zip(u.keys, i.keys, strict=True))
    left = bounds.kept(pairs, (u.kind, i.kind), most, hash_key)
    return Counter(labels[item] for _, item in left)


# One door into each engine; the others lead to the same ones.
MAIN = ("pandas", "polars", "pyarrow", "duckdb", "dict")


def with_the_others(*doors):
    """These doors, and all others there are for `make test-full`."""
    full = (door for door in (*DOORS, *ENGINES) if door not in doors)
    return [*doors, *(pytest.param(door, marks=pytest.mark.full) for door in full)]


@pytest.mark.parametrize(
    ("door", "kind", "role"),
    thinned(with_the_others(*MAIN), KINDS, ["items", "users"], keep=2),
)
def test_every_door_keeps_the_same(door, kind, role, tmp_path):
    arrow, values = KINDS[kind]
    if door in TEXT_DOORS and kind != "text":
        pytest.skip("text files hold text")
    if (door, kind) == ("dict of arrays", "timestamp with zone"):
        pytest.skip("NumPy has no zones")
    if (door, kind) == ("spark", "unsigned integer"):
        pytest.skip("Spark has none")
    if door in TEXT_DOORS:
        values = [value for value in values if value]
    others = [f"n{number}" for number in range(5)]
    ours, theirs = (values, others) if role == "items" else (others, values)
    types = {"item_type" if role == "items" else "user_type": arrow}
    pairs = [(u, i) for u in theirs for i in ours] * 2
    users, items = map(list, zip(*pairs, strict=True))
    table = events(users, items, **types)
    for most, hash_key in ((1, ""), (2, "it's \\ a \0 key")) if "fifo" not in door else ((2, "x"),):
        got = through(door, table, tmp_path, max_items_per_user=most, hash_key=hash_key)
        assert counts_of(got) == expected(users, items, most, hash_key)
        assert got.counts.sum() == len(theirs) * min(most, len(ours))


def keys_of(h):
    return set(column_of("item", list(h.labels)).keys)


@pytest.mark.parametrize(
    "door", ["pandas", "pandas on arrow", "polars", "pyarrow", "duckdb", "dict of arrays"]
)
def test_nanoseconds_that_are_no_whole_microseconds(door):
    """And equal times of two units are kept alike."""
    fine = pa.array([0, 1, 999, 1000, -1, -1000], pa.timestamp("ns"))
    coarse = pa.array([0, 1, 2, -1], pa.timestamp("us"))
    for column in (fine, coarse):
        items = list(column.to_numpy())
        table = pa.table({"user": ["u"] * len(items), "item": column})
        frame = TABLES[door](table)
        got = dp.Histogram.from_events(frame, user="user", item="item", max_items_per_user=2)
        left = expected(["u"] * len(items), items, 2, "")
        assert keys_of(got) == set(column_of("item", list(left)).keys)


def test_uuids_and_tuples():
    items = [UUID(int=n * 2**100) for n in range(5)]
    users = ["u"] * 5
    table = pa.table({"user": users, "item": list(map(str, items))})
    relation = TABLES["duckdb"](table).project('"user", CAST(item AS UUID) AS item')
    for frame in (relation, {"user": users, "item": items}):
        got = dp.Histogram.from_events(frame, user="user", item="item", max_items_per_user=2)
        assert counts_of(got) == expected(users, items, 2, "")
    nested = [(item, 1.0) for item in items]
    rows = list(zip(users, nested, strict=True))
    got = dp.Histogram.from_events(rows, user="user", item="item", max_items_per_user=2)
    assert counts_of(got) == expected(users, nested, 2, "")


@pytest.mark.parametrize("door", ["pandas", "polars"])
@pytest.mark.parametrize("kind", ["text", "integer", "bytes", "timestamp in us"])
def test_without_pyarrow_the_same_is_kept(door, kind, monkeypatch):
    arrow, items = KINDS[kind]
    users = [f"u{n}" for n in range(6)]
    pairs = [(u, i) for u in users for i in [*items, *items]]
    users, items = map(list, zip(*pairs, strict=True))
    frame = TABLES[door](events(users, items, item_type=arrow))
    monkeypatch.setattr(queries, "_goes_to_arrow", lambda _: False)
    got = dp.Histogram.from_events(frame, user="user", item="item", max_items_per_user=1)
    assert counts_of(got) == expected(users, items, 1, "")


def test_integers_too_large_for_arrow():
    items = [1, 2**100, -(2**100), 7]
    frame = pl.DataFrame({"user": [1] * 4, "item": pl.Series(items, dtype=pl.Int128)})
    got = dp.Histogram.from_events(frame, user="user", item="item", max_items_per_user=2)
    assert counts_of(got) == expected([1] * 4, items, 2, "")


# ---- the rule itself


def test_the_rank_is_as_documented():
    salt = md5(b"key").hexdigest()
    assert bounds.rank("key", "ann", "tea") == md5(f"{salt}:ann:tea".encode()).hexdigest()
    assert bounds.rank("", "ann", "tea") == "cca5fd0c62c76753c053b819b0a18a1d"  # for good


def neighbours(kept, users=4, items=3):
    """The most counts that one user moves, over all small tables and their neighbours.

    All sets of items for each user; the last user is added to the others.
    """
    subsets = [tuple(i for i in range(items) if bits >> i & 1) for bits in range(1, 2**items)]
    worst = 0
    for had in product(subsets, repeat=users):
        pairs = {(user, item) for user, own in enumerate(had) for item in own}
        fewer = {(user, item) for user, item in pairs if user < users - 1}
        with_, without = (Counter(item for _, item in kept(p)) for p in (pairs, fewer))
        moved = [abs(with_[item] - without[item]) for item in range(items)]
        worst = max(worst, sum(moved))
    return worst


def ours(pairs):
    return bounds.kept(pairs, (INTEGER, INTEGER), 1)


def most_popular(pairs):
    """A broken twin: each user keeps their most popular item."""
    popular = Counter(item for _, item in pairs)
    best = {}
    for user, item in sorted(pairs):
        if user not in best or popular[item] > popular[best[user]]:
            best[user] = item
    return set(best.items())


def by_place(pairs):
    """A broken twin: the hash is of the row's place, which others move."""
    best = {}
    for place, (user, item) in enumerate(sorted(pairs, key=lambda pair: (pair[1], -pair[0]))):
        best.setdefault(user, []).append((bounds.rank("", str(place), ""), item))
    return {(user, min(ranked)[1]) for user, ranked in best.items()}


def test_one_user_moves_no_more_counts_than_are_kept():
    assert neighbours(ours) == 1


@pytest.mark.parametrize("broken", [most_popular, by_place])
def test_broken_rules_let_one_user_move_others(broken):
    assert neighbours(broken) > 1


def test_most_popular_items_let_one_user_move_2001_counts():
    pairs = {(user, item) for user in range(1000) for item in "ab"}
    before, after = (
        Counter(item for _, item in most_popular(p)) for p in (pairs, pairs | {(1000, "b")})
    )
    assert sum(abs(after[item] - before[item]) for item in "ab") == 2001


# ---- at least so many rows


@pytest.mark.parametrize("door", with_the_others(*MAIN, "fifo csv", "fifo jsonl"))
@pytest.mark.parametrize("least", [2, 3])
def test_a_pair_counts_by_enough_rows_of_its_own(door, least, tmp_path):
    rows = [("u", "a")] * 3 + [("u", "b")] * 2 + [("v", "a")] * 2 + [("v", "c"), ("w", "a")]
    users, items = map(list, zip(*rows, strict=True))
    table = events(users, items)
    enough = {pair for pair, n in Counter(rows).items() if n >= least}
    got = through(door, table, tmp_path, min_events=least)
    assert counts_of(got) == Counter(item for _, item in enough)
    got = through(door, table, tmp_path, min_events=least, max_items_per_user=1)
    u, i = column_of("user", users), column_of("item", items)
    left = bounds.kept(enough, (u.kind, i.kind), 1)
    assert counts_of(got) == Counter(item for _, item in left)


@pytest.mark.parametrize("door", MAIN)
def test_a_single_row_with_a_null_is_still_an_error(door, tmp_path):
    table = events(["u", "u", "v"], ["a", "a", None])
    with pytest.raises(SourceError, match="column 'item' holds nulls"):
        through(door, table, tmp_path, min_events=2)
    got = through(door, table, tmp_path, min_events=2, nulls="drop")
    assert counts_of(got) == {"a": 1}
