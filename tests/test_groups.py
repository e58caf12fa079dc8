"""A histogram of each of many groups, what mechanisms make of them, and at what price."""

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.histogram.many import Histograms
from dptopk.mechanisms import _plan, _rows
from dptopk.mechanisms._plan import plan_of, steps_of
from dptopk.mechanisms.table import MECHANISMS
from dptopk.mechanisms.weighted import plan_weighted
from dptopk.rng import TapeRng

PICKING = [name for name, its in MECHANISMS.items() if its.domain]
COUNTING = [name for name in PICKING if not MECHANISMS[name].weights]
STEPPED = [name for name, its in MECHANISMS.items() if its.bounded_range]
RACES = ["limited_domain", "limited_domain_laplace", "peel", "oneshot", "noisy_max"]
BASE = np.array([900, 3, 700, 5, 4, 1])
ROWS = np.array([BASE, BASE[::-1], 2 * BASE, BASE // 3])
NAMES = ["FR", "DE", "IT", "ES"]


def known(most=2, rows=ROWS, **more):
    return Histograms(rows, list("abcdef"), groups=NAMES[: len(rows)], max_groups_per_user=most,
                      **more)  # fmt: skip


def unknown(most=2, **more):
    """Rows of an engine, as many as it had; nobody is in the last group."""
    labels = ["ant", "bee", "cat", "bee", "dog", "ant"]
    return Histograms.truncated(
        [900, 700, 9, 800, 30, 1500], labels, offsets=[0, 3, 5, 6, 6], next_counts=[2, 0, 0, 0],
        k_bar=3, groups=NAMES, max_groups_per_user=most, **more,
    )  # fmt: skip


def call_of(name):
    its = MECHANISMS[name]
    call = {"epsilon": 1.0}
    if name != "noisy_max":
        call["k"] = 2
    if its.delta == "required":
        call["delta"] = 1e-6
    if name in ("limited_domain_laplace", "restricted_normal"):
        call["max_items_per_user"] = 2
    return call


def domains(name):
    return [known] if MECHANISMS[name].domain == "known" else [known, unknown]


def run(name, hs, *, rng=None, **changes):
    first = ("peel", hs) if name == "restricted" else (hs,)
    return getattr(dp, name)(*first, **{**call_of(name), **changes}, rng=rng or SeededRng(7))


# ---- the container


def test_each_group_is_the_histogram_of_its_row():
    hs = known()
    assert list(hs) == NAMES
    assert len(hs) == 4
    for name, row in zip(NAMES, ROWS, strict=True):
        one, alone = hs[name], dp.Histogram(row, list("abcdef"))
        assert one.counts.tolist() == row.tolist()
        assert one.labels == alone.labels
        assert one.cut(3)[1].tolist() == alone.cut(3)[1].tolist()
        assert one.known_domain
        assert dp.joint(one, k=2, epsilon=1, rng=SeededRng(1)) == dp.joint(
            alone, k=2, epsilon=1, rng=SeededRng(1)
        )
    with pytest.raises(KeyError):
        hs["GB"]
    assert "GB" not in hs


def test_the_same_groups_by_offsets_and_from_histograms():
    flat = Histograms(
        ROWS.reshape(-1), list("abcdef") * 4, groups=NAMES, offsets=range(0, 25, 6),
        max_groups_per_user=2,
    )  # fmt: skip
    mapped = Histograms.from_histograms(
        {name: dp.Histogram(row, list("abcdef")) for name, row in zip(NAMES, ROWS, strict=True)},
        max_groups_per_user=2,
    )
    wanted = run("peel", known())
    assert run("peel", flat) == wanted
    assert run("peel", mapped) == wanted


@pytest.mark.parametrize("cut", [None, 2, 9])
def test_unknown_domains_from_histograms(cut):
    full = {
        "FR": dp.Histogram.from_counts({"ant": 3, "bee": 9, "cat": 5}),
        "DE": dp.Histogram.from_counts({}),
        "IT": dp.Histogram.from_counts({"bee": 4}),
    }
    hs = Histograms.from_histograms(
        full if cut is None else {g: h.truncate(cut) for g, h in full.items()},
        max_groups_per_user=1,
    )
    assert not hs.known_domain
    assert hs.k_bar == cut
    for name, one in full.items():
        counts, items, following = hs[name].cut(cut or 3)
        theirs = one.cut(cut or 3)
        assert (counts.tolist(), following) == (theirs[0].tolist(), theirs[2])
        assert hs[name].labels_of(items) == one.labels_of(theirs[1])
    release = dp.limited_domain(hs, k=1, epsilon=1, delta=1e-6, rng=SeededRng(1))["DE"]
    assert (release.labels, release.complete) == ((), False)


def test_a_group_that_nobody_is_in_is_there():
    assert "ES" in unknown()
    assert len(unknown()["ES"]) == 0
    assert run("limited_domain", unknown())["ES"].labels == ()


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, ">i4", np.int64, np.uint64])
def test_counts_of_any_integers(dtype):
    rows = np.array([[3, 9, 9], [5, 0, 120]]).astype(dtype)
    hs = Histograms(rows, max_groups_per_user=1)
    assert list(hs) == [0, 1]
    assert hs[0].cut(3)[1].tolist() == [1, 2, 0]
    assert hs[1].counts.tolist() == [5, 0, 120]
    rows[:] = 0
    assert hs[1].counts.tolist() == [5, 0, 120]


def test_order_within_rows_of_unequal_length():
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 40, 50)
    offsets = np.append(0, np.cumsum(sizes))
    for top in (5, 2**40):
        values = rng.integers(0, top, offsets[-1])
        hs = Histograms(values, offsets=offsets, max_groups_per_user=1)
        for row in range(50):
            alone = dp.Histogram(values[offsets[row] : offsets[row + 1]])
            for mine, theirs in zip(hs[row].cut(7), alone.cut(7), strict=True):
                assert np.array_equal(mine, theirs)


def test_no_repr_shows_counts_or_labels():
    for hs in (known(), unknown()):
        assert repr(hs).startswith("Histograms(4 groups, max_groups_per_user=2, ")
        assert not any(word in repr(hs) for word in ("900", "ant", "abc", "FR"))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"groups": ["a", "b", "a", "c"]}, ValueError, "groups contains 'a' twice"),
        ({"groups": ["a", "b", None, "c"]}, ValueError, "groups must not contain nulls"),
        ({"groups": ["a", "b", float("nan"), "c"]}, ValueError, "groups must not contain nulls"),
        ({"groups": {"a", "b", "c", "d"}}, TypeError, "groups must be a sequence, as its order"),
        ({"groups": "abcd"}, TypeError, "groups must be a sequence of labels"),
        ({"groups": ["a", "b"]}, ValueError, "groups must be as many as the counts have, 4"),
        ({"groups": ["a", 1, "b", 2]}, TypeError, "'groups'"),
        ({"max_groups_per_user": 0}, ValueError, "max_groups_per_user must be an integer >= 1"),
        ({"max_groups_per_user": True}, TypeError, "max_groups_per_user must be an integer"),
        ({"max_groups_per_user": 1.5}, TypeError, "max_groups_per_user must be an integer"),
        ({"max_items_per_user": 0}, ValueError, "max_items_per_user must be an integer >= 1"),
        ({"counts": -ROWS}, ValueError, "counts must not be negative"),
        ({"counts": ROWS.astype(float)}, TypeError, "counts must be an array of integers"),
        ({"counts": [[1, 2], [3]]}, ValueError, "counts must be as many in each group"),
        ({"counts": []}, ValueError, "there must be at least one group"),
        ({"counts": [[], []], "groups": None}, ValueError, "counts must hold at least one item"),
        ({"counts": {"a": [1]}}, TypeError, "counts must be an array of groups and items"),
        ({"counts": [1, 2]}, ValueError, "counts must have one dimension"),
        ({"counts": np.full((4, 2), 2**63 - 1)}, ValueError, "counts must be below"),
        ({"labels": list("abc")}, ValueError, "labels must be as many as the counts"),
        ({"counts": [1, 2, 3], "offsets": [0, 1, 2]}, ValueError, "offsets must rise from 0"),
        ({"counts": [1, 2, 3], "offsets": [0, 2, 1, 3]}, ValueError, "offsets must rise from 0"),
        ({"counts": [1, 2, 3], "offsets": []}, ValueError, "offsets must rise from 0"),
        ({"counts": [1, 2], "offsets": [0, 2, 2]}, ValueError, "at least one item of each group"),
    ],
)  # fmt: skip
def test_bad_input(changes, error, message):
    given = {"counts": ROWS, "max_groups_per_user": 2, "groups": NAMES, **changes}
    if "counts" in changes and "groups" not in changes:
        given["groups"] = None
    with pytest.raises(error, match=message):
        Histograms(given.pop("counts"), given.pop("labels", None), **given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"next_counts": [9, 31, 0, 0]}, "next_counts must not exceed"),
        ({"next_counts": [10, 0, 0, 0]}, "next_counts must not exceed"),
        ({"next_counts": [0, 0, 0]}, "next_counts must be as many as the groups"),
        ({"k_bar": 2}, "counts must not hold more rows of a group than k_bar"),
        ({"counts": [900, 700, 9, 800, 0, 1500]}, "counts must be >= 1"),
        ({"labels": ["ant", "ant", "cat", "bee", "dog", "ant"]}, "labels must be distinct"),
    ],
)
def test_bad_rows_of_an_engine(changes, message):
    given = {
        "counts": [900, 700, 9, 800, 30, 1500],
        "labels": ["ant", "bee", "cat", "bee", "dog", "ant"], "offsets": [0, 3, 5, 6, 6],
        "next_counts": [2, 0, 0, 0], "k_bar": 3, "max_groups_per_user": 1, **changes,
    }  # fmt: skip
    with pytest.raises(ValueError, match=f"^{message}"):
        Histograms.truncated(given.pop("counts"), given.pop("labels"), **given)


def test_the_least_of_a_full_group_is_its_own():
    hs = Histograms.truncated(
        [9, 8, 1, 7, 6], ["a", "b", "a", "a", "b"], offsets=[0, 2, 3, 5], next_counts=[5, 0, 6],
        k_bar=2, max_groups_per_user=1,
    )  # fmt: skip
    assert [h.cut(2)[2] for h in hs.values()] == [5, 0, 6]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (known(), TypeError, "histograms must be a mapping .* got Histograms"),
        ([dp.Histogram([1])], TypeError, "histograms must be a mapping"),
        ({"a": [1, 2]}, TypeError, "each group must have a Histogram, got list"),
        ({}, ValueError, "there must be at least one group"),
        ({"a": dp.Histogram([1]), "b": unknown()["FR"]}, ValueError, "one known_domain"),
        ({"a": dp.Histogram([1]).truncate(1)}, ValueError, "must be whole"),
        ({"a": dp.Histogram([1]), "b": dp.Histogram([1], ["x"])}, ValueError, "labels, or none"),
        (
            {"a": dp.Histogram.from_weights([1], ["x"], soft_cap=1)},
            ValueError,
            "a histogram with a soft cap weighs",
        ),
    ],
)
def test_bad_mappings(rows, error, message):
    with pytest.raises(error, match=message):
        Histograms.from_histograms(rows, max_groups_per_user=1)


# ---- mechanisms


@pytest.mark.parametrize("most", [1, 2, 4, 9])
@pytest.mark.parametrize("name", COUNTING)
def test_one_cost_for_all_groups(name, most):
    for make in domains(name):
        hs = make(most)
        releases = run(name, hs)
        assert isinstance(releases, dp.Releases)
        assert releases.groups == tuple(NAMES)
        assert releases.mechanism == releases["FR"].mechanism
        assert not releases.private
        assert releases.cost.epsilon == 1.0
        assert releases.cost.delta == pytest.approx(call_of(name).get("delta", 0.0), rel=1e-12)
        of = "1 group" if most == 1 else f"{min(most, 4)} groups"
        assert releases.cost.theorem.endswith(f"; all groups together, at most {of} a user")
        for release in releases.values():
            assert release.cost == releases.cost
            assert (release.indices is None) == (make is unknown)
            assert len(release) <= 2
        plan = plan_of(getattr(dp, name))
        first = ("peel", hs) if name == "restricted" else (hs,)
        assert plan(*first, **call_of(name)).cost == releases.cost
        assert plan(*first, **call_of(name)).draw(SeededRng(7)) == releases


@pytest.mark.parametrize("name", COUNTING)
def test_one_group_a_user_is_priced_as_one_histogram(name):
    for make in domains(name):
        hs = make(1)
        together, alone = run(name, hs)["FR"], run(name, hs["FR"])
        assert together.parameters == alone.parameters
        assert together.cost[:2] == alone.cost[:2]


def test_a_oneshot_takes_one_law_in_groups_of_all_sizes():
    """Gumbel noise that is composed over all groups must not meet noise that has a share."""
    differ = False
    for bound, k, delta in itertools.product((None, 2, 40), (1, 2, 20), (0.0, 1e-6)):
        sizes = [k, 30, 3000, 10**5]
        hs = Histograms(
            np.arange(sum(sizes)), offsets=np.append(0, np.cumsum(sizes)), max_groups_per_user=2,
            max_items_per_user=bound,
        )  # fmt: skip
        asked = {"k": k, "epsilon": 0.5, "delta": delta, "rng": SeededRng(1)}
        releases = dp.oneshot(hs, **asked).values()
        assert len({release.parameters["noise"] for release in releases}) == 1
        assert len({release.parameters["method"] for release in releases}) == 1
        alone = {
            dp.oneshot(np.arange(n), **asked, max_items_per_user=bound).parameters["noise"]
            for n in sizes
        }
        differ = differ or len(alone) > 1
    assert differ


@pytest.mark.parametrize("name", COUNTING)
def test_two_groups_a_user_take_more_noise(name):
    """Each group's noise is at least that of a call at the whole budget, and no more than twice."""
    for make in domains(name):
        one, two = (run(name, make(most))["FR"].parameters for most in (1, 2))
        if name == "gamma":  # its scale is drawn
            continue
        scale = "query_scale" if name == "top_stable" else "scale"
        growth = two[scale] / one[scale]
        assert 1.2 < growth <= 2.0 * (1 + 1e-12), (name, growth)


def test_prices_by_hand():
    """What the proof says each costs, from the accounting alone."""
    epsilon, delta, k, most = 1.0, 1e-6, 2, 3
    for mechanism, share in ((dp.peel, 0.0), (dp.peel, delta)):
        step = dp.accounting.step_epsilon(epsilon, k * most, share)
        release = mechanism(known(most), k=k, epsilon=epsilon, delta=share, rng=SeededRng(1))
        assert release["FR"].parameters["epsilon_step"] == step
    release = dp.limited_domain(known(most), k=k, epsilon=epsilon, delta=delta, rng=SeededRng(1))
    its = release["FR"].parameters
    assert its["epsilon_step"] == dp.accounting.step_epsilon(epsilon, k * most, delta / 2)
    assert most * Fraction(its["delta_threshold"]) <= Fraction(delta) / 2
    assert its["delta_threshold"] == pytest.approx(delta / 6, rel=1e-12)
    gaussian = dp.oneshot(
        known(most), k=k, epsilon=epsilon, delta=delta, noise="gaussian", rng=SeededRng(1)
    )["FR"].parameters["scale"]
    # Half of 6 items move: 3 * 3 / 6, in each of 3 groups.
    wanted = dp.accounting.gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=4.5**0.5)
    assert gaussian == pytest.approx(wanted, rel=1e-12)
    gumbel = dp.oneshot(
        known(most), k=k, epsilon=epsilon, delta=delta, noise="gumbel", rng=SeededRng(1)
    )["FR"].parameters["scale"]
    wanted = 1 / dp.accounting.step_epsilon(epsilon, k * most, delta)
    assert gumbel == pytest.approx(wanted, rel=1e-12)
    for mechanism in (dp.joint, dp.canonical):
        its = mechanism(known(most), k=k, epsilon=epsilon, rng=SeededRng(1))["FR"].parameters
        assert its["scale"] == pytest.approx(2.0 * most / epsilon, rel=1e-12)
    laplace = dp.limited_domain_laplace(
        known(most), k=k, epsilon=epsilon, delta=delta, max_items_per_user=1, rng=SeededRng(1)
    )["FR"].parameters
    assert laplace["epsilon_step"] == pytest.approx(epsilon / most, rel=1e-12)


@pytest.mark.parametrize("name", COUNTING)
def test_refused_before_the_first_draw(name, monkeypatch):
    monkeypatch.setattr(_rows, "acquire", None)
    monkeypatch.setattr(_core, "race", None)
    for changes in ({"epsilon": -1.0}, {"k": 0}, {"k": 99}, {"delta": 1.5}, {"nonsense": 1}):
        if name == "noisy_max" and "k" in changes:
            continue
        if MECHANISMS[name].domain == "any" and changes.get("k") == 99:
            continue
        with pytest.raises((TypeError, ValueError)):
            run(name, known(), **changes)
    if MECHANISMS[name].domain == "known":
        with pytest.raises(dp.UnknownDomainError):
            run(name, unknown())


@pytest.mark.parametrize("name", RACES)
@pytest.mark.parametrize("most", [1, 3])
def test_races_of_all_groups_are_those_of_each(name, most):
    """The same words, one group after the other: the kernel for rows and the loop."""
    words = np.random.default_rng(5).integers(0, 2**64, 4000, dtype=np.uint64)
    for make in domains(name):
        hs = make(most)
        found = plan_of(getattr(dp, name))(hs, **call_of(name)).draw(TapeRng(words))
        at = 0
        for place, group in enumerate(hs):
            plan = _alone(name, hs, place, most)
            alone = plan.draw(TapeRng(words[at:]))
            assert alone.items == found[group].items
            assert alone.complete == found[group].complete
            assert alone.parameters == found[group].parameters
            at += _words_read(plan, words[at:])


def _alone(name, hs, place, most):
    """Plan one group at the price of all."""
    if name not in ("limited_domain", "peel"):
        return plan_of(getattr(dp, name))(hs.row(place), **call_of(name), groups=most)
    call = {k: v for k, v in call_of(name).items() if k not in ("epsilon", "delta")}
    whole = run(name, hs)[NAMES[place]].parameters
    steps = steps_of(name)(hs.row(place), **call)
    return steps.at(
        whole["epsilon_step"], whole.get("delta_threshold", 0.0), dp.Cost(1.0, 0.0, "of a test")
    )


def _words_read(plan, words):
    """How many words a race reads: the least tape that is long enough."""
    for n in range(1, words.size):
        try:
            plan.draw(TapeRng(words[:n]))
        except dp.errors.TapeEndError:
            continue
        return n
    raise AssertionError


def test_where_domains_differ_in_size_each_group_has_its_own_plan():
    hs = Histograms([9, 5, 30, 2, 1], offsets=[0, 2, 5], max_groups_per_user=1)
    assert not hs.alike
    releases = dp.peel(hs, k=1, epsilon=50, rng=SeededRng(1))
    assert [r.items for r in releases.values()] == [(0,), (0,)]
    assert [r.parameters["n_items"] for r in releases.values()] == [2, 3]
    with pytest.raises(ValueError, match=r"^k must be at most the number of items, 2; got 3"):
        dp.peel(hs, k=3, epsilon=1)


@pytest.mark.parametrize("sizes", [(1, 100), (100, 1)])
def test_the_cost_is_that_of_the_dearest_group(sizes):
    """At a step that is given, Laplace noise costs by how many items a group has."""
    hs = Histograms(
        [9] * 101, offsets=[0, sizes[0], 101], max_groups_per_user=1, max_items_per_user=50
    )
    call = {"k": 50, "k_bar": 100, "epsilon_step": 0.1, "delta": 1e-6}
    together = dp.limited_domain_laplace(hs, **call, rng=SeededRng(1))
    alone = [dp.limited_domain_laplace(h, **call, rng=SeededRng(1)).cost for h in hs.values()]
    assert together.cost.epsilon == max(cost.epsilon for cost in alone) == pytest.approx(5.0)


def test_ten_thousand_groups_in_one_call_of_the_kernel(monkeypatch):
    rows = np.random.default_rng(1).integers(0, 50, (10_000, 20))
    hs = Histograms(rows, max_groups_per_user=1)
    monkeypatch.setattr(_core, "race", None)
    releases = dp.limited_domain(hs, k=3, epsilon=1, delta=1e-6, rng=SeededRng(1))
    assert len(releases) == 10_000
    assert releases[9_999].cost == releases.cost


def test_k_bar_cuts_each_group():
    hs = known(1)
    releases = dp.limited_domain(hs, k=2, epsilon=90.0, delta=0.5, k_bar=3, rng=SeededRng(2))
    assert [r.items for r in releases.values()] == [("a", "c"), ("f", "d"), ("a", "c"), ("a", "c")]
    keys, _, offsets, following = hs.cut(3)
    assert following.tolist() == [sorted(row)[-4] for row in ROWS.tolist()]
    assert offsets.tolist() == [0, 3, 6, 9, 12]
    assert keys.tolist() == [x for row in ROWS.tolist() for x in sorted(row)[:2:-1]]


def test_private_k_bar_in_each_group():
    releases = dp.limited_domain(
        known(2), k=1, epsilon=1, delta=1e-6, k_bar="private", rng=SeededRng(4)
    )
    step = dp.accounting.step_epsilon(1.0, 4, 5e-7)
    assert {r.parameters["epsilon_step"] for r in releases.values()} == {step}


def test_groups_are_drawn_independently():
    """What comes out of a group and of the next one; seeded, at alpha 1e-9."""
    hs = Histograms(np.tile([2, 1], (40_000, 1)), max_groups_per_user=1)
    picks = [r.items[0] for r in dp.peel(hs, k=1, epsilon=1.0, rng=SeededRng(11)).values()]
    table = np.bincount(2 * np.array(picks[::2]) + np.array(picks[1::2]), minlength=4)
    p = 1 / (1 + np.exp(-1.0))
    law = np.outer([p, 1 - p], [p, 1 - p]).ravel()
    assert stats.chisquare(table, law * table.sum()).pvalue > 1e-9
    wrong = np.array([p, 1e-9, 1e-9, 1 - p])  # the same noise in both
    assert stats.chisquare(table, wrong / wrong.sum() * table.sum()).pvalue < 1e-9


@pytest.mark.parametrize("most", [None, 1])
def test_the_best_noise_is_of_one_law_in_all_groups(most):
    """Of the public numbers of the call, as in one histogram of very many items."""
    hs, call = known(), {"k": 2, "epsilon": 0.5, "delta": 1e-6, "max_items_per_user": most}
    found = [r.parameters["noise"] for r in dp.oneshot(hs, noise="best", **call).values()]
    alone = dp.oneshot(np.arange(2000), noise="best", **{**call, "epsilon": 0.25, "delta": 5e-7})
    assert found == [alone.parameters["noise"]] * len(hs)


# ---- weights


def weights(most=None, *, known_domain=False):
    """Two groups by rows of weights; without `most` they were read off the data."""
    values = np.array([900, 40, 500, 300, 20, 800]) << 20
    return Histograms.__new__(Histograms)._set(
        values, np.array([0, 3, 6]), labels=list("abc") * 2, groups=["FR", "DE"],
        max_groups_per_user=most, max_items_per_user=5, known_domain=known_domain,
        weighting=(1, "l2"),
    )  # fmt: skip


@pytest.mark.parametrize("most", [None, 1, 2])
def test_weighted_has_one_price_whatever_groups_a_user_has(most):
    hs = weights(most)
    releases = dp.weighted(hs, k=2, epsilon=1, delta=1e-6, rng=SeededRng(1))
    pairs = dp.weighted(hs.pairs(), epsilon=1, delta=1e-6, rng=SeededRng(1))
    assert releases.cost[:2] == pairs.cost[:2]
    assert {g: r.labels for g, r in releases.items()} == {"FR": ("a", "c"), "DE": ("c", "a")}
    assert releases["FR"].parameters["scale"] == pairs.parameters["scale"]
    assert releases["FR"].parameters["threshold"] == pairs.parameters["threshold"]


def test_the_top_of_a_group_is_post_processing_of_all_pairs():
    hs = weights()
    for seed in range(20):
        whole = dp.weighted(hs, epsilon=0.05, delta=0.01, rng=SeededRng(seed), release_weights=True)
        for k in (1, 2):
            some = dp.weighted(
                hs, k=k, epsilon=0.05, delta=0.01, rng=SeededRng(seed), release_weights=True
            )
            assert {g: r.labels for g, r in some.items()} == {
                g: r.labels[:k] for g, r in whole.items()
            }
            assert all(r.complete == (len(r.items) == k) for r in some.values())
        assert all(r.complete for r in whole.values())
        first = [r.weights[0] for r in whole.values()]
        assert first == sorted(first, reverse=True)  # not in the order of the data's groups


def test_groups_show_only_where_a_pair_passes():
    hs = Histograms.__new__(Histograms)._set(
        np.array([900, 1]) << 20, np.array([0, 1, 2]), labels=["a", "b"], groups=["FR", "DE"],
        max_groups_per_user=None, max_items_per_user=5, known_domain=False, weighting=(1, "l2"),
    )  # fmt: skip
    assert list(dp.weighted(hs, epsilon=1, delta=1e-6, rng=SeededRng(1))) == ["FR"]
    assert repr(hs) == "Histograms(groups read off the data, unknown domain, soft_cap=1, norm='l2')"


@pytest.mark.parametrize("name", COUNTING)
def test_other_mechanisms_refuse_groups_of_the_data(name):
    hs = Histograms.__new__(Histograms)._set(
        np.array([9, 1]), np.array([0, 1, 2]), labels=["a", "b"], groups=["FR", "DE"],
        max_groups_per_user=None, known_domain=MECHANISMS[name].domain == "known",
    )  # fmt: skip
    with pytest.raises(dp.UnknownDomainError, match="needs groups that were fixed before"):
        run(name, hs)


def test_weights_over_a_known_domain_are_drawn_in_each_group():
    hs = weights(1, known_domain=True)
    releases = dp.weighted(hs, k=2, epsilon=1, delta=1e-6, rng=SeededRng(1))
    assert [r.labels for r in releases.values()] == [("a", "c"), ("c", "a")]
    assert plan_weighted(hs, k=2, epsilon=1, delta=1e-6).cost == releases.cost
    floor = dp.weighted(hs, min_users=600, epsilon=1, delta=1e-6, rng=SeededRng(1))
    assert [r.labels for r in floor.values()] == [("a",), ("c",)]
    with pytest.raises(ValueError, match="k must be at most the number of items, 3"):
        dp.weighted(hs, k=4, epsilon=1, delta=1e-6)


# ---- counts afterwards


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "shared"])
@pytest.mark.parametrize("make", [known, unknown])
def test_counts_of_all_groups_at_one_cost(make, noise):
    hs = make(3)
    picked = run("limited_domain", hs)
    delta = 0.0 if noise == "laplace" else 1e-6
    counted = dp.noisy_counts(picked, hs, epsilon=0.5, delta=delta, noise=noise, rng=SeededRng(1))
    assert counted.cost.epsilon == 1.5
    assert {g: r.items for g, r in counted.items()} == {g: r.items for g, r in picked.items()}
    its = counted["FR"].counts_noise
    if noise == "laplace":
        assert its.scale == pytest.approx(2 * 3 / 0.5)
    elif noise == "gaussian":
        alone = dp.discrete.discrete_gaussian_sigma(epsilon=0.5, delta=delta, moved=6)
        assert its.scale == alone
    else:
        one = dp.noisy_counts(
            picked["FR"], hs["FR"], epsilon=0.5, delta=delta, noise=noise, rng=SeededRng(1)
        ).counts_noise
        assert its.scale == pytest.approx(3**0.5 * one.scale, rel=1e-9)
        assert its.shared == pytest.approx(3**0.5 * one.shared, rel=1e-9)
    for release in counted.values():
        assert release.cost == counted.cost
        for item, count in zip(release.items, release.counts, strict=True):
            truth = dict(zip(hs["FR"].labels, hs["FR"].counts, strict=True)).get(item)
            assert truth is None or abs(count) < 10_000


def test_counts_of_one_group_alone_are_as_before():
    h = known()["FR"]
    release = dp.peel(h, k=2, epsilon=1, rng=SeededRng(1))
    assert dp.noisy_counts(release, h, epsilon=1, rng=SeededRng(2)).counts_noise.scale == 2.0


@pytest.mark.parametrize(
    ("release", "h", "error", "message"),
    [
        (lambda: run("peel", known()), lambda: ROWS[0], TypeError, "h must be the Histograms"),
        (lambda: run("peel", known()), lambda: known(rows=ROWS[:3]), ValueError, "not of these"),
        (lambda: run("peel", known()), unknown, ValueError, "the release is not of this"),
        (lambda: run("peel", known()["FR"]), known, TypeError, "counts"),
    ],
)
def test_counts_of_other_groups_are_refused(release, h, error, message):
    with pytest.raises(error, match=message):
        dp.noisy_counts(release(), h(), epsilon=1.0)


# ---- sessions, filters, ledgers


@pytest.mark.parametrize("name", STEPPED)
@pytest.mark.parametrize("most", [1, 2, 9])
def test_a_session_charges_the_groups_of_a_user_whatever_came_out(name, most):
    session = dp.Session(k_star=20, calls=8, epsilon=1.0, delta=1e-6)
    call = {} if name == "noisy_max" else {"k": 2}
    for make in domains(name):
        before = session.remaining
        hs = make(most)
        steps = steps_of(name)(hs.row(0), **call)
        releases = getattr(session, name)(hs, **call)
        paid = min(most, 4)
        assert before.outcomes - session.remaining.outcomes == paid * steps.most
        assert before.calls - session.remaining.calls == paid * steps.thresholds
        assert releases.cost.epsilon == 1.0
        assert releases["FR"].cost == releases.cost


def test_a_session_refuses_groups_that_it_cannot_pay():
    session = dp.Session(k_star=5, calls=9, epsilon=1.0, delta=1e-6)
    with pytest.raises(dp.BudgetError, match="the call may cost 6 outcomes, and 5 are left"):
        session.limited_domain(unknown(3), k=2)
    assert session.remaining.outcomes == 5
    session = dp.Session(k_star=50, calls=2, epsilon=1.0, delta=1e-6)
    with pytest.raises(dp.BudgetError, match="no call is left"):
        session.limited_domain(unknown(3), k=2)


@pytest.mark.parametrize(("call", "k"), [("peel", 6), ("limited_domain", 8)])
def test_the_rest_of_a_session_is_shared_by_the_groups_of_a_user(call, k):
    """17 outcomes are left: 8 in each of 2 groups, and no more than the items of a known domain."""
    session = dp.Session(k_star=17, calls=8, epsilon=1.0, delta=1e-6)
    releases = getattr(session, call)(known(2), k="rest")
    assert releases["FR"].parameters["k"] == k
    assert session.remaining.outcomes == 17 - 2 * k
    session = dp.Session(k_star=17, calls=8, epsilon=1.0, delta=1e-6)
    releases = session.limited_domain(known(2), k="rest", k_bar="private")
    assert releases["FR"].parameters["k"] == 7


def test_a_filter_charges_them_too():
    budget = dp.Filter(epsilon=1.0, delta=1e-6)
    before = budget.remaining
    budget.limited_domain(unknown(2), k=2, epsilon_step=0.01, delta_threshold=1e-8)
    one = dp.Filter(epsilon=1.0, delta=1e-6)
    one.peel(known()["FR"], k=4, epsilon_step=0.01)
    assert before.rho - budget.remaining.rho == pytest.approx(before.rho - one.remaining.rho)
    assert before.delta - budget.remaining.delta == pytest.approx(2e-8)


def test_a_ledger_keeps_the_releases_of_all_groups(tmp_path):
    ledger = dp.Ledger(tmp_path / "budgets.db")
    ledger.create("shop", k_star=20, calls=8, epsilon=1.0, delta=1e-6)
    session = dp.Session.bound(ledger, "shop")
    first = session.limited_domain(unknown(2), k=2, request_id="today")
    again = session.limited_domain(unknown(2), k=2, request_id="today")
    assert again == first
    assert session.remaining == (16, 6)


# ---- releases


def test_releases_are_shown_and_written():
    releases = run("peel", known(1), epsilon=99.0)
    assert repr(releases) == (
        "<Releases of 4 groups by peel: 'FR': ['a', 'c'], 'DE': ['f', 'd'], 'IT': ['a', 'c'], "
        "...; epsilon=99, delta=0, NOT PRIVATE>"
    )
    rows = releases.to_dict()
    assert [row["group"] for row in rows["groups"]] == NAMES
    assert rows["cost"]["epsilon"] == 99.0
    assert "cost" not in rows["groups"][0]
    assert '"group": "FR"' in releases.to_json()
    for backend in ("pandas", "polars", "pyarrow"):
        frame = releases.to_frame(backend)
        columns = getattr(frame, "column_names", None) or list(frame.columns)
        assert list(columns) == ["group", "rank", "item"]
        assert len(frame) == 8
    assert "FR" in releases._repr_html_()
    assert pickle.loads(pickle.dumps(releases)) == releases
    assert releases.top(1)["DE"].items == ("f",)
    with pytest.raises(AttributeError, match="immutable"):
        releases.cost = None


def test_groups_of_several_columns_are_tuples():
    groups = [("FR", 1), ("FR", 2)]
    hs = Histograms([[9, 1], [1, 9]], groups=groups, max_groups_per_user=1)
    releases = dp.peel(hs, k=1, epsilon=99, rng=SeededRng(1))
    assert releases["FR", 2].items == (1,)
    frame = releases.to_frame("polars")
    assert frame.columns == ["group_1", "group_2", "rank", "item"]
    assert frame["group_2"].to_list() == [1, 2]


def test_what_releases_hold_tells_nothing_else():
    """The histograms, whose counts are not released, don't go along."""
    releases = run("peel", known(1), epsilon=99.0)
    seen = pickle.dumps(releases)
    assert b"many" not in seen
    assert b"Histogram" not in seen


def test_the_public_functions_are_no_wrappers():
    assert dp.joint.__module__ == "dptopk.mechanisms.joint"
    assert _plan.for_groups(dp.joint) is dp.joint
