"""Shapes are what they say, simulations have the law of the mechanism, plans can be pasted."""

import itertools
import json
import math

import numpy as np
import pytest

import dptopk as dp
from dptopk import metrics
from dptopk._trials import TAKEN
from dptopk.mechanisms.table import MECHANISMS
from dptopk.planning import default_shapes
from dptopk.planning.candidates import Asked, candidates
from dptopk.planning.measured import call_on, function_of, measure

SHAPE = dp.zipf(0.7, n_users=3000, n_items=60, items_per_user=4)
RNG = np.random.default_rng(1)
USERS = RNG.integers(0, 800, 5000)
ITEMS = np.minimum(RNG.geometric(0.08, 5000), 40)
PAIRS = dp.Shape.from_pairs(USERS, ITEMS)
EVENTS = {"user": USERS, "item": ITEMS}


# ---- shapes


def test_a_shape_of_events_has_their_counts_and_weights():
    labels = np.unique(ITEMS).tolist()
    counted = dp.Histogram.from_events(EVENTS, user="user", item="item", domain=labels)
    h, items = PAIRS.counted(known=True)
    assert h.counts.tolist() == counted.counts.tolist() == PAIRS.counts.tolist()
    assert items.tolist() == list(range(PAIRS.n_items))
    for soft_cap, norm in ((1, "l2"), (3, "l1")):
        weighting = {"soft_cap": soft_cap, "norm": norm}
        weighed = dp.Histogram.from_events(
            EVENTS, user="user", item="item", domain=labels, **weighting
        )
        h, _ = PAIRS.weighed(known=True, **weighting)
        assert h.weights.tolist() == weighed.weights.tolist()


def test_an_unknown_domain_is_cut_and_has_no_empty_items():
    shape = dp.Shape.from_counts([0, 5, 9, 7, 9, 0], items_per_user=1)
    h, items = shape.counted(known=False)
    assert (items.tolist(), h.known_domain) == ([2, 4, 3, 1], False)
    h, items = shape.counted(known=False, rows=2)
    assert (items.tolist(), h.cut(2)[2]) == ([2, 4], 7)
    h, items = shape.weighed(known=False, soft_cap=1, norm="l1")
    assert items.tolist() == [1, 2, 3, 4]


def test_a_bound_keeps_that_many_items_of_each_user():
    """Each user of t items keeps min(t, D) at random: the total within 7 standard deviations."""
    have = np.bincount(np.unique(USERS * 100 + ITEMS) // 100)
    for most in (1, 3):
        total = PAIRS.counted(known=True, most=most)[0].counts.sum()
        wanted = np.minimum(have, most).sum()
        assert abs(total - wanted) < 7 * math.sqrt(wanted)
    assert PAIRS.counted(known=True, most=100)[0].counts.sum() == have.sum()


@pytest.mark.parametrize(("exponent", "mean"), [(0.5, 3), (1.1, 10), (2.0, 1)])
def test_zipf_is_what_it_says(exponent, mean):
    shape = dp.zipf(exponent, n_users=5000, n_items=400, items_per_user=mean)
    assert abs(shape.counts.sum() - 5000 * mean) < 7 * math.sqrt(5000 * mean)
    assert shape.counts.max() <= 5000
    assert (np.diff(shape.counts) <= 0).all()
    assert (
        shape.counts.tolist()
        == dp.zipf(exponent, n_users=5000, n_items=400, items_per_user=mean).counts.tolist()
    )
    below = shape.counts < 2500
    first, last = shape.counts[below][0], shape.counts[below][30]
    ranks = np.flatnonzero(below)[[0, 30]] + 1.0
    assert math.log(first / last) / math.log(ranks[1] / ranks[0]) == pytest.approx(
        exponent, abs=0.3
    )


def test_a_shape_of_counts_keeps_them():
    counts = np.array([900, 3, 0, 700, 700])
    for h in (counts, dp.Histogram(counts, list("abcde"))):
        assert dp.Shape.from_counts(h).counts.tolist() == counts.tolist()
    assert dp.Shape.from_counts(counts).scaled(3).counts.tolist() == (3 * counts).tolist()
    down = dp.Shape.from_counts(counts * 100).scaled(4, down=True).counts
    assert np.abs(down - 25 * counts).max() < 7 * math.sqrt(25 * 900)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: dp.zipf(0, n_users=9, n_items=9), ValueError, "exponent"),
        (lambda: dp.zipf("1", n_users=9, n_items=9), TypeError, "exponent"),
        (lambda: dp.zipf(1, n_users=0, n_items=9), ValueError, "n_users"),
        (lambda: dp.zipf(1, n_users=9, n_items=9.5), TypeError, "n_items"),
        (lambda: dp.zipf(1, n_users=9, n_items=10**7), ValueError, "at most 1000000 items"),
        (lambda: dp.zipf(1, n_users=9, n_items=3), ValueError, "items_per_user must be at most"),
        (lambda: dp.zipf(1, n_users=9, n_items=3, items_per_user=0.5), ValueError, "at least 1"),
        (lambda: dp.Shape.from_pairs([1], [1, 2]), ValueError, "equal length"),
        (lambda: dp.Shape.from_pairs([], []), ValueError, "at least one row"),
        (lambda: dp.Shape.from_pairs([1, None], [1, 2]), TypeError, "none of them null"),
        (lambda: dp.Shape.from_counts([0, 0]), ValueError, "not all be 0"),
        (lambda: dp.Shape.from_counts([1.5]), TypeError, "counts"),
        (lambda: dp.Shape.from_counts([3], items_per_user=math.nan), ValueError, "items_per_user"),
        (lambda: dp.Shape.from_counts(PAIRS.weighed(known=True, soft_cap=1, norm="l1")[0]),
         ValueError, "sums of weights"),
        (lambda: PAIRS.scaled(0), ValueError, "factor"),
    ],
)  # fmt: skip
def test_bad_shapes(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


# ---- simulations

OPTIONS = {
    "limited_domain_laplace": {"max_items_per_user": 3},
    "restricted_normal": {"max_items_per_user": 3},
    "restricted_oneshot": {"noise": "gumbel"},
    "weighted": {"soft_cap": 3, "norm": "l2", "max_items_per_user": 50},
    "top_stable": {"k_bar": 10},
}


@pytest.mark.parametrize("name", [name for name in TAKEN if name != "noisy_max"])
@pytest.mark.parametrize("known", [True, False])
def test_every_mechanism_is_measured_as_metrics_do(name, known):
    """The same draws, one by one, as releases, compared by `dptopk.metrics`."""
    if not known and MECHANISMS[name].domain == "known":
        pytest.skip("it takes no unknown domain")
    call = {"k": 4, "epsilon": 0.5, "delta": 0.01, "known": known}
    options = OPTIONS.get(name, {})
    found = measure(SHAPE, name, options, **call, trials=30, seed=3)
    h, items, given = call_on(SHAPE, name, options, **call)
    rng = dp.SeededRng(3)
    for i in range(30):
        release = function_of(name)(h, rng=rng, **given)
        if release.indices is None:
            number = {label: n for n, label in enumerate(h.domain_labels)}
            picks = [int(items[number[label]]) for label in release.labels]
        else:
            picks = items[release.indices].tolist()
        assert found.recall[i] == metrics.true_top_k_proportion(picks, SHAPE.counts, 4)
        assert found.score_ratio[i] == metrics.score_ratio(picks, SHAPE.counts, 4)
        assert found.returned[i] == len(picks)


def test_a_simulation_has_the_law_of_the_mechanism():
    """Of one pick by Gumbel noise the law is known: within what 1 of 1e9 runs would leave."""
    shape = dp.Shape.from_counts([30, 27, 26, 20], items_per_user=1)
    z, n = 6.11, 20_000

    def far(epsilon):
        row = dp.simulate(dp.peel, shape, epsilons=0.3, ks=1, trials=n)[0]
        chance = 1 / np.exp(epsilon * (shape.counts - 30.0)).sum()
        return abs(row["recall"] - chance) / math.sqrt(chance * (1 - chance) / n)

    assert far(0.3) < z
    assert far(0.33) > z  # the broken twin: less noise than was said
    row = dp.simulate("peel", shape, epsilons=0.3, ks=1, trials=n)[0]
    chance = row["recall"]
    assert row["recall_se"] == pytest.approx(math.sqrt(chance * (1 - chance) / n), rel=0.01)


def test_a_table_for_programs_and_people():
    table = dp.simulate(dp.limited_domain, SHAPE, epsilons=(0.1, 1), ks=[2, 5], delta=1e-6)
    assert [(row["epsilon"], row["k"]) for row in table] == [(0.1, 2), (0.1, 5), (1.0, 2), (1.0, 5)]
    assert {row["trials"] for row in table} == {10_000}
    assert len(table) == 4
    assert len(table[1:]) == 3
    assert json.loads(table.to_json())["rows"][0]["parameters"] == {}
    names = ["mechanism", "parameters", "k", "epsilon", "delta", "trials", "recall", "recall_se",
             "score_ratio", "returned"]  # fmt: skip
    for backend in ("pandas", "polars", "pyarrow"):
        frame = table.to_frame(backend)
        columns = frame.column_names if backend == "pyarrow" else list(frame.columns)
        assert set(names) <= set(columns)
        assert len(frame) == 4
    assert "limited_domain" in repr(table)
    assert "<table>" in table._repr_html_()
    other = dp.simulate(dp.top_stable, SHAPE, ks=2, delta=1e-6)
    assert other[0]["trials"] == 1000


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"mechanism": len}, TypeError, "mechanism must be a function"),
        ({"mechanism": "restricted"}, TypeError, "mechanism must be a function"),
        ({"mechanism": "auto"}, TypeError, "mechanism must be a function"),
        ({"like": [3, 2]}, TypeError, "like must be a shape"),
        ({"epsilons": []}, ValueError, "epsilons must hold"),
        ({"epsilons": [1, -1]}, ValueError, "epsilons"),
        ({"epsilons": "1"}, TypeError, "epsilons"),
        ({"ks": 0}, ValueError, "ks"),
        ({"ks": 61}, ValueError, "k must be at most the number of items, 60"),
        ({"delta": 2}, ValueError, "delta"),
        ({"trials": 0}, ValueError, "trials"),
        ({"domain": "public"}, ValueError, "domain"),
        ({"domain": "unknown"}, dp.UnknownDomainError, "domain fixed before"),
        ({"progress": 1}, TypeError, "progress"),
        ({"misspelt": 1}, TypeError, "misspelt"),
    ],
)
def test_bad_simulations(changes, kind, message):
    given = {"mechanism": dp.peel, "like": SHAPE, "trials": 2, **changes}
    with pytest.raises(kind, match=message):
        dp.simulate(given.pop("mechanism"), given.pop("like"), **given)


def test_a_table_is_drawn():
    pytest.importorskip("matplotlib").use("Agg")
    table = dp.simulate("peel", SHAPE, epsilons=(0.1, 1), ks=[2, 5], trials=50)
    ax = table.plot(y="score_ratio")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("epsilon", "mean score ratio")
    line = ax.get_lines()[0]
    assert line.get_xydata().tolist() == [[row["epsilon"], row["score_ratio"]]
                                          for row in table if row["k"] == 2]  # fmt: skip


# ---- plans

GRID = [
    {"k": 6, "epsilon": 2.0, "delta": delta, "domain": domain, "max_items_per_user": most,
     "ordered": ordered, "counts": counts}
    for (domain, delta), most, (ordered, counts) in itertools.product(
        (("unknown", 1e-5), ("known", 1e-5), ("known", 0.0)), (None, 4),
        ((True, False), (False, False), (True, True)),
    )
]  # fmt: skip


@pytest.mark.parametrize("asked", GRID, ids=str)
def test_every_call_of_a_plan_runs_as_pasted(asked):
    choices = dp.plan(**asked, like=SHAPE, trials=2)
    calls = {(row["mechanism"], row["parameters"].get("noise")): row for row in choices}
    for (mechanism, _), row in calls.items():
        scope = {"dp": dp, "events": EVENTS, "domain": list(range(1, 41))}
        exec(row["call"], scope)
        release = scope["release"]
        assert release.mechanism.startswith(mechanism.split("_")[0])
        assert len(release) <= 6
        assert release.cost.epsilon <= asked["epsilon"]
        assert release.cost.delta <= asked["delta"]
        assert release.ordered >= asked["ordered"]
        assert release.by_counts
        assert not (asked["counts"] and MECHANISMS[mechanism].weights)
        assert row["reason"].endswith("of the true top 6.")


def test_every_command_of_a_plan_runs_as_pasted(tmp_path, capsys):
    pytest.importorskip("duckdb")
    from dptopk.cli import main

    events, domain = tmp_path / "events.csv", tmp_path / "items.txt"
    rows = zip(USERS.tolist(), ITEMS.tolist(), strict=True)
    events.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in rows))
    domain.write_text("".join(f"{item}\n" for item in range(1, 41)))
    ran = {}
    for asked in (GRID[1], GRID[7]):
        for row in dp.plan(**asked, like=SHAPE, trials=2):
            ran.setdefault(row["mechanism"], row["command"])
    assert len(ran) == 12
    for mechanism, command in ran.items():
        words = command.split()[1:]
        paths = {"FILE": str(events), "ITEMS": str(domain)}
        assert main([*(paths.get(word, word) for word in words), "--json"]) == 0, command
        assert json.loads(capsys.readouterr().out)["mechanism"].startswith(mechanism[:7])


def test_a_plan_ranks_by_what_is_found():
    asked = {"k": 6, "epsilon": 0.5, "delta": 1e-5}
    choices = dp.plan(**asked, like=SHAPE)
    recalls = [row["recall"] for row in choices if row["trials"] == 200]
    assert recalls == sorted(recalls, reverse=True)
    best = choices.best
    again = measure(SHAPE, best["mechanism"], best["parameters"], **asked, known=False,
                    trials=best["trials"])  # fmt: skip
    assert again.summary()["recall"] == best["recall"]
    assert choices.to_json() == dp.plan(**asked, like=SHAPE).to_json()
    mean = dp.plan(**asked, like=[SHAPE, PAIRS], trials=50)
    row = next(row for row in mean if row["trials"] == 50)
    each = [measure(shape, row["mechanism"], row["parameters"], **asked, known=False, trials=50)
            for shape in (SHAPE, PAIRS)]  # fmt: skip
    assert row["recall"] == pytest.approx(np.mean([its.recall.mean() for its in each]))


def test_a_plan_takes_a_public_histogram():
    h = dp.Histogram([400, 300, 200, 100, 5, 3, 1])
    choices = dp.plan(k=3, epsilon=1, delta=1e-6, like=h, trials=20)
    assert choices.best["recall"] == 1.0


def test_every_mechanism_that_selects_is_a_candidate():
    """`restricted_oneshot` and its like are others inside a framework whose best is there."""
    found = set()
    for known, ordered in itertools.product((True, False), repeat=2):
        asked = Asked(20, 1.0, 1e-6, known, ordered=ordered)
        found |= {each.mechanism for each in candidates(asked)}
        assert {c.mechanism for c in candidates(asked, quick=True)} <= found
    offered = {name for name, its in MECHANISMS.items() if its.command}
    assert offered - found == {"gamma", "restricted_oneshot", "restricted_permute_and_flip"}


def test_default_shapes_are_stated_and_sized():
    plain, sized = default_shapes(), default_shapes(sets=True)
    assert [shape.name for shape in sized[1::3]] == [shape.name for shape in plain]
    for quarter, whole in zip(sized[::3], plain, strict=True):
        assert quarter.counts.sum() == pytest.approx(whole.counts.sum() / 4, rel=0.02)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"k": 0}, ValueError, "k must be"),
        ({"k": 61, "domain": "known"}, ValueError, "nothing can pick 61 items here"),
        ({"epsilon": "1"}, TypeError, "epsilon"),
        ({"delta": 0.0}, ValueError, "an unknown domain needs delta > 0"),
        ({"domain": True}, TypeError, "domain"),
        ({"ordered": 1}, TypeError, "ordered"),
        ({"counts": None}, TypeError, "counts"),
        ({"max_items_per_user": 0}, ValueError, "max_items_per_user"),
        ({"like": []}, ValueError, "like must hold at least one shape"),
        ({"like": [3]}, TypeError, "like must be a shape"),
        ({"like": "events.csv"}, TypeError, "like must be a shape"),
        ({"trials": 1}, ValueError, "trials"),
        ({"progress": 1}, TypeError, "progress"),
    ],
)
def test_bad_plans(changes, kind, message):
    given = {"k": 5, "epsilon": 1.0, "delta": 1e-6, "like": SHAPE, "trials": 2, **changes}
    with pytest.raises(kind, match=message):
        dp.plan(**given)
