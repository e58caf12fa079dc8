"""Batches give what all their events in one table give, and nothing of them is left behind."""

import gc
import multiprocessing
import pickle
import random
import stat
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from itertools import pairwise
from uuid import UUID

import numpy as np
import pytest

pytest.importorskip("narwhals")
pytest.importorskip("duckdb")
pytest.importorskip("pandas")
pytest.importorskip("polars")
pytest.importorskip("pyarrow")

import pandas as pd
import polars as pl
import pyarrow as pa
from doors import TABLES, built, counts_of, events, split
from hypothesis import given, settings
from hypothesis import strategies as st
from test_doors import KINDS

import dptopk as dp
from dptopk.errors import SourceError

NAMES = {"user": "user", "item": "item"}


def builder(**options):
    return dp.HistogramBuilder(**NAMES, **options)


def from_events(pairs, **options):
    return dp.Histogram.from_events(pairs, **NAMES, **options)


def same(one, other):
    """Whether two histograms are equal in all that a mechanism sees."""
    return (
        list(one.labels) == list(other.labels)
        and [*map(type, one.labels)] == [*map(type, other.labels)]
        and one.counts.tolist() == other.counts.tolist()
        and (one.known_domain, one.k_bar, one.soft_cap, one.norm, one.max_items_per_user)
        == (other.known_domain, other.k_bar, other.soft_cap, other.norm, other.max_items_per_user)
        and (one.k_bar is None or one.cut(one.k_bar)[2] == other.cut(one.k_bar)[2])
    )


# ---- equal to the whole


def after(one, steps):
    """Return the table so many places after one: over all kinds any two tables meet."""
    names = list(TABLES)
    return names[(names.index(one) + steps) % len(names)]


@pytest.mark.full
@pytest.mark.parametrize("one", TABLES)
@pytest.mark.parametrize(("steps", "kind"), list(enumerate(KINDS)))
def test_batches_of_any_two_tables_meet(steps, kind, one):
    """Units of timestamps must agree: of Python they are nanoseconds."""
    arrow, values = KINDS[kind]
    other = after(one, steps)
    if "dict of arrays" in (one, other) and kind == "timestamp with zone":
        pytest.skip("NumPy has no zones")
    things = [values[0], values[-1], values[0], values[0], values[1]]
    halves = split(events([1, 1, 2, 3, 2], things, item_type=arrow))
    batches = list(zip((one, other), halves, strict=True))
    if one != other and kind.startswith("timestamp"):
        with suppress(SourceError):  # of two units
            assert counts_of(built(batches))[values[0]] == 3
        return
    pairs = set(zip([1, 1, 2, 3, 2], things, strict=True))
    assert counts_of(built(batches)) == Counter(thing for _, thing in pairs)


PAIRS = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "cy", "dé"]), st.integers(-2, 5)), max_size=40
)
CUTS = st.lists(st.integers(0, 40), max_size=4)
SETTINGS = st.sampled_from(
    [
        {},
        {"k_bar": 2},
        {"domain": [5, 9, -1, 0]},
        {"domain": [3, 4], "k_bar": 1},
        {"max_items_per_user": 2},
        {"max_items_per_user": 1, "hash_key": "k", "domain": [5, 0, 1]},
        {"max_items_per_user": 6, "bounded_by_nature": True},
        {"soft_cap": 2},
        {"soft_cap": 1, "norm": "l1", "domain": [0, 1]},
    ]
)


def as_table(pairs):
    columns = [list(c) for c in zip(*pairs, strict=True)] or [[], []]
    return events(*columns, pa.string(), pa.int64())


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    pairs=PAIRS,
    cuts=CUTS,
    options=SETTINGS,
    seed=st.integers(0, 9),
)
def test_no_split_and_no_order_changes_anything(pairs, cuts, options, seed):
    table = events(
        *([list(c) for c in zip(*pairs, strict=True)] or [[], []]), pa.string(), pa.int64()
    )
    whole = from_events(table, **options)
    order = random.Random(seed).sample(range(len(table)), len(table))
    shuffled = table.take(pa.array(order, pa.int64()))
    edges = sorted({0, len(table), *(min(cut, len(table)) for cut in cuts)})
    parts = [shuffled.slice(a, b - a) for a, b in pairwise(edges)]
    with builder() as one, builder() as other:
        one.extend([table.slice(0, 0), *parts[::2]])
        other.extend(parts[1::2])
        one.merge(other)
        assert same(one.histogram(**options), whole)
        one.add(table)  # once more: pairs are distinct
        assert same(one.histogram(**options), whole)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(pairs=PAIRS, cut=st.integers(0, 40), least=st.integers(1, 4), where=st.booleans())
def test_pairs_with_few_events_are_left_out(pairs, cut, least, where):
    expected = Counter(item for (_, item), n in Counter(pairs).items() if n >= least)
    with builder() as one, builder() as other:
        for batch, of in ((pairs[:cut], one), (pairs[cut:], other if where else one)):
            of.add(batch)
        one.merge(other)
        assert counts_of(one.histogram(min_events=least)) == dict(expected)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(pairs=PAIRS, cuts=CUTS, options=SETTINGS)
def test_sorted_users_give_the_same(pairs, cuts, options):
    pairs = sorted(pairs, key=lambda pair: pair[0].encode())
    table = events(
        *([list(c) for c in zip(*pairs, strict=True)] or [[], []]), pa.string(), pa.int64()
    )
    whole = from_events(table, **options)
    edges = sorted({0, len(table), *(min(cut, len(table)) for cut in cuts)})
    with builder(sorted_by_user=True) as one:
        one.extend(table.slice(a, b - a) for a, b in pairwise(edges))
        assert same(one.histogram(**options), whole)


def test_many_repeated_pairs_are_put_together(monkeypatch):
    from dptopk.sources import pairs

    monkeypatch.setattr(pairs, "_FIRST", 100)
    with builder() as b:
        for _ in range(20):
            b.add({"user": np.arange(50), "item": np.arange(50) % 7})
        assert b._pairs._con.execute("SELECT count(*) FROM kept.pairs").fetchall()[0][0] <= 250
        assert b.histogram(min_events=20).counts.sum() == 50
        assert b.histogram(min_events=21).counts.sum() == 0


# ---- kinds


WIDE = {
    "integers": ([1, -5], [2**63, 1], {1: 2, -5: 1, 2**63: 1}),
    "long integers": ([2**100], [1, 2**100 + 1], {2**100: 1, 1: 1, 2**100 + 1: 1}),
    "decimals": (
        [Decimal("1.5"), Decimal(10) ** 20],
        [Decimal("1.500"), Decimal("1e-9")],
        {Decimal("1.5"): 2, Decimal(10) ** 20: 1, Decimal("1e-9"): 1},
    ),
    "32-bit floats": (
        np.float32([0.1, 0.5]), np.float64([0.1, 0.5]), {0.5: 2, 0.1: 1, float(np.float32(0.1)): 1},
    ),
    "8-bit and unsigned": (np.int8([-1, 5]), np.uint64([5, 2**63]), {5: 2, -1: 1, 2**63: 1}),
    "categories": (pd.Categorical(["b", "a"]), ["a"], {"a": 2, "b": 1}),
    "UUIDs": ([UUID(int=1)], [UUID(int=1), UUID(int=2)], {UUID(int=1): 2, UUID(int=2): 1}),
    "zeros": ([0.0], [-0.0, 1.0], {0.0: 2, 1.0: 1}),
}  # fmt: skip


@pytest.mark.parametrize("role", ["item", "user"])
@pytest.mark.parametrize("case", WIDE)
def test_sizes_of_one_kind_meet_by_value(case, role):
    first, second, expected = WIDE[case]
    other = {"item": "user", "user": "item"}[role]
    with builder() as b:
        for n, values in enumerate((first, second)):
            b.add(pd.DataFrame({role: pd.Series(values), other: [f"part {n}"] * len(values)}))
        h = b.histogram()
        if role == "item":
            assert counts_of(h) == expected
            assert list(h.labels) == sorted(expected)
            domain = sorted(expected)[::-1]
            if case != "32-bit floats":
                assert b.histogram(domain=domain).counts.tolist() == [expected[x] for x in domain]
        else:
            assert counts_of(h) == {"part 0": len(set(first)), "part 1": len(set(second))}
            assert b.histogram(domain=["part 1"]).counts.tolist() == [len(set(second))]


def test_numbers_of_38_digits_are_stored():
    most = 10**38 - 1
    with builder() as b:
        b.add({"item": [most, -most], "user": ["a", "b"]})
        assert counts_of(b.histogram()) == {most: 1, -most: 1}


def test_integers_of_128_bits_in_duckdb_stay_apart():
    """As doubles the first two would be one."""
    import duckdb

    most = 2**126
    relation = duckdb.sql(f"SELECT 1 AS user, unnest([{most}, {most + 1}, -1]::HUGEINT[]) AS item")
    with builder() as b:
        b.add(relation)
        assert counts_of(b.histogram()) == {most: 1, most + 1: 1, -1: 1}


def test_a_domain_may_hold_the_largest_integer_of_64_bits():
    most = 2**63 - 1
    with builder() as b:
        b.add({"item": [most, -most - 1, 1], "user": ["a", "b", "c"]})
        domain = [most, -most - 1, 5]
        assert b.histogram(domain=domain).counts.tolist() == [1, 1, 0]


OTHERS = {
    "text after integers": ([1], ["1"], "of kind text, and of kind integer in the batches before"),
    "floats after integers": ([1], [1.0], "of kind float, and of kind integer"),
    "booleans after integers": ([1], [True], "of kind boolean, and of kind integer"),
    "bytes after text": (["a"], [b"a"], "of kind bytes, and of kind text"),
    "two kinds": ([1], [1, "1"], r"mixed kinds \(integer, text\)"),
    "units": (
        pl.Series([0]).cast(pl.Datetime("ms")), pl.Series([0]).cast(pl.Datetime("us")),
        "of kind timestamp in us, and of kind timestamp in ms",
    ),
    "zones": (
        pl.Series([0]).cast(pl.Datetime("us")), pl.Series([0]).cast(pl.Datetime("us", "UTC")),
        "of kind timestamp with time zone in us, and of kind timestamp in us",
    ),
    "nulls": ([1], [2, None], "holds nulls"),
    "tuples": ([1], [(1, 2)], "holds tuples, which a builder does not store"),
    "long": ([1], [10**38], "numbers of more than 38 digits"),
    "long decimals": (
        [Decimal(10) ** 30], [Decimal("1e-9")], "numbers of more than 38 digits",
    ),
    "infinity": ([Decimal(1)], [Decimal("inf")], "infinite decimals"),
    "surrogates": (["a"], ["\ud800"], "text that UTF-8 can't write"),
    "lists": ([1], pl.Series([[1]]), "holds no labels"),
}  # fmt: skip


@pytest.mark.parametrize("role", ["item", "user"])
@pytest.mark.parametrize("case", OTHERS)
def test_a_batch_that_is_refused_changes_nothing(case, role):
    first, second, message = OTHERS[case]
    other = {"item": "user", "user": "item"}[role]

    def batch(values, name):
        frame = pl.DataFrame if isinstance(values, pl.Series) else dict
        return frame({role: values, other: [name] * len(values)})

    with builder() as b:
        b.add(batch(first, "x"))
        with pytest.raises(SourceError, match=message) as caught:
            b.add(batch(second, "secret"))
        assert f"column '{role}'" in str(caught.value)
        assert "secret" not in str(caught.value)
        with pytest.raises(SourceError, match=message):
            b.extend([batch(first, "x"), batch(second, "secret")])
        b.add(batch(first, "x"))
        assert b.histogram().counts.tolist() == [1]
        assert b.histogram(min_events=3).counts.tolist() == [1]
        assert b.histogram(min_events=4).counts.tolist() == []


def test_a_failure_while_it_is_stored_changes_nothing(monkeypatch):
    """A real one: a column that is made wider, and then a row that fails."""
    with builder() as b:
        b.add([(1, "a")])
        real = b._pairs._put_together
        with monkeypatch.context() as patch:
            patch.setattr(
                b._pairs, "_put_together", lambda: real() or b._pairs._con.execute("FROM no")
            )
            with pytest.raises(SourceError, match="could not be read and counted"):
                b.add([(2**70, "a")])
        b.add([(2, "a")])
        assert counts_of(b.histogram()) == {"a": 2}
        b.add([(2**70, "a")])
        assert counts_of(b.histogram()) == {"a": 3}


def test_an_empty_column_with_a_type_fixes_the_kind():
    with builder() as b:
        b.add({"user": [], "item": []})
        b.add(pl.DataFrame(schema={"user": pl.Int64, "item": pl.String}))
        assert len(b.histogram()) == 0
        with pytest.raises(SourceError, match="of kind text, and of kind integer"):
            b.add([("a", "x")])
        b.add([(1, "x")])
        assert counts_of(b.histogram(k_bar=3)) == {"x": 1}


def test_nulls_are_left_out_where_that_is_asked_for():
    with builder(nulls="drop") as b:
        b.add([(None, "a"), (1, None), (1, "a")])
        b.add(pd.DataFrame({"user": [2.0, np.nan], "item": ["a", "a"]}).astype({"user": "Int64"}))
        b.add({"user": [None, None], "item": ["a", "a"]})
        assert counts_of(b.histogram()) == {"a": 2}


def test_batches_that_are_none():
    with builder() as b:
        for wrong in ("events.csv", 7, None, object()):
            with pytest.raises((TypeError, SourceError), match=r"events must be|must hold"):
                b.add(wrong)
        for wrong in ("events.csv", {"user": [1], "item": [2]}, pl.DataFrame({"user": [1]}), 7):
            with pytest.raises(TypeError):
                b.extend(wrong)
        with pytest.raises(SourceError, match="no column 'item'"):
            b.add({"user": [1], "thing": ["a"]})
        b.add(pa.RecordBatch.from_pydict({"user": [1], "item": ["a"], "more": [0]}))
        reader = pa.table({"user": [2, 3], "item": ["a", "b"]}).to_reader(max_chunksize=1)
        b.extend(reader)
        b.extend([])
        assert counts_of(b.histogram()) == {"a": 2, "b": 1}


# ---- sorted


@pytest.mark.parametrize(
    ("batches", "bad"),
    [
        ([[1, 1, 2], [2, 3]], False),
        ([[1, 2], [1]], True),
        ([[1, 2, 1]], True),
        ([[5], [2**70], [2**70 + 1]], False),
        ([["B", "a", "é"], ["é", "€"]], False),
        ([["a", "B"]], True),
        ([[False, True], [True]], False),
        ([[True], [False]], True),
        ([[b"a", b"\xff"], [b"b"]], True),
        ([[0.5, 1e300], [-1.0]], True),
        ([[Decimal("1.5")], [Decimal("1.25")]], True),
        ([[Decimal("1.5")], [Decimal("1.50")]], False),
    ],
)
def test_a_user_who_comes_back_is_seen(batches, bad):
    with builder(sorted_by_user=True) as b:
        for users in batches[:-1]:
            b.add({"user": users, "item": ["x"] * len(users)})
        last = {"user": batches[-1], "item": ["x"] * len(batches[-1])}
        if bad:
            with pytest.raises(SourceError, match=r"column 'user' does not ascend, and a user may"):
                b.add(last)
        else:
            b.add(last)
        seen = {user for users in (batches[:-1] if bad else batches) for user in users}
        assert b.histogram().counts.tolist() == [len(seen)] * bool(seen)
        with pytest.raises(ValueError, match="takes no pairs of others"):
            b.merge(b)
        with builder() as other:
            other.merge(b)
            assert same(other.histogram(), b.histogram())


# ---- several processes

SHARD = """
import sys, dptopk as dp, numpy as np
with dp.HistogramBuilder(user="user", item="item") as b:
    rng = np.random.default_rng(int(sys.argv[1]))
    b.add({"user": rng.integers(0, 50, 400), "item": rng.integers(0, 9, 400).astype(str)})
    b.save(sys.argv[2])
"""


@pytest.mark.posix
def test_one_user_in_the_shards_of_several_processes_is_one(tmp_path):
    paths = [tmp_path / f"{n} it's.shard" for n in range(2)]
    for n, path in enumerate(paths):
        subprocess.run([sys.executable, "-c", SHARD, str(n), str(path)], check=True, timeout=60)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    pairs = set()
    for n in range(2):
        rng = np.random.default_rng(n)
        users, items = rng.integers(0, 50, 400), rng.integers(0, 9, 400).astype(str)
        pairs |= set(zip(users.tolist(), items.tolist(), strict=True))
    with dp.HistogramBuilder.load(paths[0]) as b:
        for path in paths[1:]:
            b.merge(path)
        h = b.histogram()
        assert counts_of(h) == Counter(item for _, item in pairs)
        # Counts of the shards, added up, would be far more: the test can tell.
        alone = [dp.HistogramBuilder.load(path) for path in paths]
        assert sum(one.histogram().counts.sum() for one in alone) > 1.3 * h.counts.sum()
        for one in alone:
            one.close()
        b.save(paths[0])  # in place of what is there
    with dp.HistogramBuilder.load(paths[0]) as b:
        assert counts_of(b.histogram()) == Counter(item for _, item in pairs)
    assert sorted(tmp_path.iterdir()) == sorted(paths)


@pytest.mark.parametrize("case", WIDE)
def test_saved_labels_come_back_as_they_were(case, tmp_path):
    first, second, _ = WIDE[case]
    with builder() as b, builder() as whole:
        for n, values in enumerate((first, second)):
            batch = pd.DataFrame({"item": pd.Series(values), "user": [f"part {n}"] * len(values)})
            (b if n else whole).add(batch)
            if n:
                b.save(tmp_path / "second")
        whole.merge(tmp_path / "second")
        with builder() as other:
            other.merge(b)
            other.merge(tmp_path / "second")
            assert same(other.histogram(), b.histogram())
        with dp.HistogramBuilder.load(tmp_path / "second") as loaded:
            assert same(loaded.histogram(), b.histogram())


def test_what_can_not_be_merged(tmp_path):
    table = pa.table({"user": [1], "item": ["a"]})
    with builder() as b, builder() as text:
        b.add(table)
        for wrong, error, message in (
            (b.histogram(), TypeError, "holds counts, and a user of two of them would count twice"),
            ({"a": 1}, TypeError, "merge takes a builder or its file, got dict"),
            (b, ValueError, "with itself"),
            (tmp_path / "none", SourceError, "none: no such file"),
        ):
            with pytest.raises(error, match=message):
                b.merge(wrong)
        __import__("pyarrow.parquet").parquet.write_table(table, tmp_path / "plain.parquet")
        (tmp_path / "text").write_text("secret")
        for name in ("plain.parquet", "text"):
            with pytest.raises(SourceError, match=f"{name}: not a file that a builder"):
                dp.HistogramBuilder.load(tmp_path / name)
        text.add([("1", "a")])
        with pytest.raises(SourceError, match="of kind text, and of kind integer"):
            b.merge(text)
        with pytest.raises(OSError, match="No such file"):
            b.save(tmp_path / "no" / "where")
        text.close()
        with pytest.raises(ValueError, match="closed"):
            b.merge(text)
        assert counts_of(b.histogram()) == {"a": 1}
    with pytest.raises(TypeError, match="save it to a file"):
        pickle.dumps(b)


def test_an_empty_builder_is_saved_and_merged(tmp_path):
    with builder() as b, builder() as other:
        b.save(tmp_path / "empty")
        b.merge(tmp_path / "empty")
        b.merge(other)
        assert len(b.histogram()) == 0
        assert b.histogram(k_bar=2).cut(2)[2] == 0
        assert b.histogram(domain=["a", "b"]).counts.tolist() == [0, 0]


@pytest.mark.posix
def test_a_forked_process_leaves_it_alone(tmp_path):
    with builder(directory=tmp_path) as b:
        b.add([(1, "a")])

        def child(queue):
            try:
                b.add([(2, "a")])
            except ValueError as error:
                queue.put(str(error))
            b.close()
            gc.collect()

        fork = multiprocessing.get_context("fork")
        queue = fork.SimpleQueue()
        process = fork.Process(target=child, args=(queue,))
        with __import__("warnings").catch_warnings():
            __import__("warnings").simplefilter("ignore")  # of threads, which DuckDB has
            process.start()
        process.join(30)
        assert process.exitcode == 0
        assert "forked process" in queue.get()
        assert len(list(tmp_path.iterdir())) == 1
        assert counts_of(b.histogram()) == {"a": 1}


# ---- what is written, and what is left


def big(n):
    """A batch of text that repeats nothing."""
    names = np.arange(n * 200_000, (n + 1) * 200_000).astype(str)
    return pa.table({"user": np.char.add("a user of the long name ", names), "item": names})


SMALL = "60MB"


@pytest.mark.posix
@pytest.mark.slow
def test_more_than_memory_holds_goes_to_the_named_directory_only(tmp_path):
    with builder(directory=tmp_path, memory_limit=SMALL) as b:
        for n in range(6):
            b.add(big(n))
        (folder,) = tmp_path.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert sum(file.stat().st_size for file in folder.iterdir()) > 1e6
        b.add(big(0))
        h = b.histogram(k_bar=5)
        assert h.counts.tolist() == [1] * 5
        assert h.labels == tuple(sorted(map(str, range(1_200_000)))[:5])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_without_a_directory_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with builder(memory_limit=SMALL) as b, pytest.raises(SourceError, match="do not fit in memory"):
        b.extend(map(big, range(20)))
    assert list(tmp_path.iterdir()) == []


ENDS = {
    "exit": "pass",
    "exception": "raise SystemError('secret')",
    "system exit": "sys.exit(3)",
    "interrupt": "os.kill(os.getpid(), signal.SIGINT); time.sleep(30)",
    "out of use": "del b; gc.collect(); print(len(os.listdir(folder)))",
}


@pytest.mark.posix
@pytest.mark.parametrize(
    "end",
    [
        end if end in ("interrupt", "out of use") else pytest.param(end, marks=pytest.mark.full)
        for end in ENDS
    ],
)
def test_nothing_is_left_however_the_process_ends(end, tmp_path):
    """But for a kill outright. Here there is not even a with."""
    code = (
        "import gc, os, signal, sys, time, dptopk as dp; folder = sys.argv[1]\n"
        "b = dp.HistogramBuilder(user='user', item='item', directory=folder)\n"
        f"b.add([(1, 'a')]); print(len(os.listdir(folder)))\n{ENDS[end]}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == ("1\n0\n" if end == "out of use" else "1\n")
    assert list(tmp_path.iterdir()) == []


def test_a_closed_builder_says_so(tmp_path):
    b = builder(directory=tmp_path)
    assert repr(b) == "HistogramBuilder(user='user', item='item')"
    b.add([(1, "secret")])
    assert "secret" not in repr(b)
    b.close()
    b.close()
    assert repr(b) == "HistogramBuilder(user='user', item='item', closed)"
    for use in (
        lambda: b.add([(1, "a")]), b.histogram, lambda: b.save(tmp_path / "x"), b.__enter__,
        lambda: b.merge(builder()),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="this builder is closed"):
            use()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"user": 1}, TypeError, "user must be the name of a column, got int"),
        ({"user": "item"}, ValueError, "must be two different columns"),
        ({"directory": "/no/where"}, ValueError, "directory must be a directory that can be"),
        ({"directory": 7}, TypeError, "directory must be a path, got int"),
        ({"memory_limit": "much"}, ValueError, "memory_limit must be a size such as"),
        ({"memory_limit": 10**9}, TypeError, "memory_limit must be a text"),
        ({"sorted_by_user": "yes"}, TypeError, "sorted_by_user must be"),
        ({"nulls": "keep"}, ValueError, "nulls must be"),
    ],
)
def test_bad_builders(options, error, message):
    with pytest.raises(error, match=message):
        dp.HistogramBuilder(**(NAMES | options))


def test_bad_histograms():
    with builder() as b:
        b.add([(1, "a")])
        for options, error in (
            ({"k_bar": 0}, ValueError), ({"min_events": 0}, ValueError),
            ({"min_events": 1.5}, TypeError), ({"domain": {"a"}}, TypeError),
            ({"domain": [1]}, TypeError), ({"soft_cap": 0}, ValueError),
        ):  # fmt: skip
            with pytest.raises(error):
                b.histogram(**options)


def test_threads_take_turns():
    with builder() as b:
        errors = []

        def add(n):
            try:
                for k in range(10):
                    b.add([(n * 100 + k, "a"), (k, "b")])
                    b.histogram()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=add, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
        assert counts_of(b.histogram()) == {"a": 40, "b": 10}
