"""Sums of weights in every engine: each the same as in exact integers."""

from collections import Counter

import numpy as np
import pytest

nw = pytest.importorskip("narwhals")

from dptopk.accounting.weights import weight  # noqa: E402
from dptopk.sources.weighting import sum_weights, with_weights  # noqa: E402


def in_pandas(users, items):
    return pytest.importorskip("pandas").DataFrame({"user": users, "item": items})


def in_polars(users, items):
    return pytest.importorskip("polars").LazyFrame({"user": users, "item": items})


def in_pyarrow(users, items):
    return pytest.importorskip("pyarrow").table({"user": users, "item": items})


def in_duckdb(users, items):
    duckdb = pytest.importorskip("duckdb")
    table = in_pyarrow(users, items)
    return duckdb.connect().from_arrow(table)


ENGINES = [in_pandas, in_polars, in_pyarrow, in_duckdb]


def sums_by(engine, pairs, soft_cap, norm):
    users, items = zip(*sorted(pairs), strict=True)
    frame = nw.from_native(engine(list(users), list(items))).lazy()
    query = with_weights(frame, soft_cap, norm).group_by("item").agg(nw.col("weight").sum())
    if query.implementation.is_duckdb():
        return sorted((i, int(w)) for i, w in query.to_native().fetchall())
    done = query.collect()
    return sorted(zip(done["item"].to_list(), done["weight"].to_list(), strict=True))


def random_pairs(seed):
    rng = np.random.default_rng(seed)
    return {
        (user, int(item))
        for user, t in enumerate(rng.choice([1, 2, 3, 5, 17, 60], size=20).tolist())
        for item in rng.choice(80, size=t, replace=False)
    }


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("soft_cap", [1, 3, 10, 2**20])
@pytest.mark.parametrize("engine", ENGINES)
def test_engines_sum_exactly(engine, soft_cap, norm):
    for seed in range(4):
        pairs = random_pairs(seed)
        assert sums_by(engine, pairs, soft_cap, norm) == sum_weights(pairs, soft_cap, norm)


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("engine", ENGINES)
def test_one_user_more_moves_exactly_their_items_by_their_weight(engine, norm):
    pairs = random_pairs(9)
    before = Counter(dict(sums_by(engine, pairs, 3, norm)))
    for t in (1, 3, 4, 50):
        more = pairs | {(1000, item) for item in range(40, 40 + t)}
        after = Counter(dict(sums_by(engine, more, 3, norm)))
        moved = {item: after[item] - before[item] for item in after}
        assert {item: w for item, w in moved.items() if w} == dict.fromkeys(
            range(40, 40 + t), weight(t, soft_cap=3, norm=norm)
        )


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("soft_cap", [1, 2, 7, 2**20])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_number_of_items_has_its_weight(engine, soft_cap, norm, monkeypatch):
    """The window's count replaced, so that t may be anything: squares, their neighbours, huge."""
    roots = [*range(1, 200), 2**10, 2**15]
    many = sorted({x for r in roots for x in (r * r - 1, r * r, r * r + 1)} | {2**39, 10**9} - {0})
    many = [t for t in many if t]
    frame = nw.from_native(engine(list(range(len(many))), many)).lazy()

    class Given:
        def over(self, *_):
            return nw.col("item")

    monkeypatch.setattr(nw, "len", Given)
    query = with_weights(frame, soft_cap, norm).select("item", "weight")
    if query.implementation.is_duckdb():
        found = dict(query.to_native().fetchall())
    else:
        done = query.collect()
        found = dict(zip(done["item"].to_list(), done["weight"].to_list(), strict=True))
    assert found == {t: weight(t, soft_cap=soft_cap, norm=norm) for t in many}
