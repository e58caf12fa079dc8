"""Sums of weights in every engine: each the same as in exact integers."""

from collections import Counter

import numpy as np
import pytest

nw = pytest.importorskip("narwhals")
for engine in ("duckdb", "pandas", "polars"):
    pytest.importorskip(engine)
pa = pytest.importorskip("pyarrow")

from doors import ALL_DOORS, events, through  # noqa: E402
from grids import thinned  # noqa: E402
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import dptopk as dp  # noqa: E402
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


# ---- every way in


def weights_of(h):
    """The sums of weights by label, in their integer units."""
    return Counter(dict(zip(h.labels, h.counts.tolist(), strict=True)))


@pytest.mark.parametrize(("door", "norm"), thinned(ALL_DOORS, ["l2", "l1"], keep=2))
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    others=st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abcdefgh")), max_size=25),
    own=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8),
    most=st.sampled_from([None, 1, 3]),
    soft_cap=st.sampled_from([1, 2, 30]),
    domain=st.sampled_from([None, "hcbadz"]),
)  # fmt: skip
def test_every_door_moves_by_the_weight_of_the_items_that_are_left(
    door, tmp_path, norm, others, own, most, soft_cap, domain
):
    """After the hard cap, and of a known domain by the items that are in it."""
    wanted = None if domain is None else list(domain)
    mine = [(99, item) for item in own]

    def weighed(pairs):
        users, items = zip(*pairs, strict=True) if pairs else ((), ())
        table = events(users, items, pa.int64(), pa.string())
        h = through(
            door, table, tmp_path, max_items_per_user=most, domain=wanted, soft_cap=soft_cap,
            norm=norm,
        )  # fmt: skip
        assert (h.soft_cap, h.norm, h.known_domain) == (soft_cap, norm, domain is not None)
        return weights_of(h)

    moved = weighed(others + mine)
    moved.subtract(weighed(others))
    moved = {item: w for item, w in moved.items() if w}
    left = set(own) if domain is None else set(own) & set(domain)
    t = min(len(left), most or len(left))
    assert len(moved) == t
    assert moved.keys() <= left
    assert set(moved.values()) == ({weight(t, soft_cap=soft_cap, norm=norm)} if t else set())


def test_a_soft_cap_goes_with_no_k_bar_and_is_checked_first():
    pairs = [(1, "a")]
    for changes, error, message in (
        ({"soft_cap": 3, "k_bar": 5}, ValueError, "k_bar goes with no soft cap"),
        ({"soft_cap": 0}, ValueError, "soft_cap must be an integer >= 1"),
        ({"soft_cap": 3, "norm": "l3"}, ValueError, "norm must be one of l2, l1"),
    ):
        with pytest.raises(error, match=message):
            dp.Histogram.from_events(pairs, user="u", item="i", **changes)


def test_from_events_to_a_release():
    pairs = [(u, item) for u in range(2000) for item in ("tea", "jam", str(u))]
    h = dp.Histogram.from_events(pairs, user="u", item="i", soft_cap=1, max_items_per_user=100)
    r = dp.weighted(h, epsilon=1, delta=1e-6, release_weights=True)
    assert set(r.labels) == {"tea", "jam"}
    assert np.abs(r.weights - 2000 / np.sqrt(3)).max() < 40


def test_items_that_nobody_has_are_no_candidates_of_an_unknown_domain():
    h = dp.Histogram.from_weights(
        [0, 1 << 20, 0], ["a", "b", "c"], soft_cap=1, max_items_per_user=2
    )
    assert list(h.labels) == ["b"]
    public = dp.Histogram.from_weights([0, 1 << 20], ["a", "b"], soft_cap=1, domain_is_public=True)
    assert list(public.labels) == ["a", "b"]
