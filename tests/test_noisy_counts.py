"""noisy_counts: contract, lookup, cost, intervals. Its law is in test_verify.py."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dptopk as dp
from dptopk import Histogram, SeededRng, _core, discrete
from dptopk.accounting import gaussian_delta, gaussian_sigma
from dptopk.accounting.shared import longest_move, shared_scales
from dptopk.reference import shared as reference
from dptopk.reference.race import Tape
from dptopk.rng import TapeRng

COUNTS = np.array([40, 7, 90, 7, 3, 61, 0])
LABELS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu"]
KNOWN = Histogram(COUNTS, LABELS)
EVENTS = {
    "user": [u for count in COUNTS for u in range(count)],
    "item": [label for label, count in zip(LABELS, COUNTS, strict=True) for _ in range(count)],
}
HUGE = 1e12  # an epsilon at which the noise is 0


def release_of(items, *, named=False, **changes):
    arguments = {
        "indices": np.array(items, dtype=np.int64),
        "labels": tuple(LABELS[i] for i in items) if named else None,
        "ordered": True,
        "complete": True,
        "cost": dp.Cost(0.5, 1e-7, "the pick's theorem"),
        "mechanism": "peel",
        "private": True,
        "parameters": {"k": len(items)},
        "by_counts": True,
    }
    return dp.Release(**{**arguments, **changes})


def unknown(labels, **changes):
    return release_of([], indices=None, labels=labels, **changes)


def counted(items=(2, 5, 0), h=COUNTS, **changes):
    return dp.noisy_counts(release_of(list(items)), h, **{"epsilon": 1.0, **changes})


# ---- contract


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"epsilon": 0}, ValueError, "epsilon must be a finite number > 0, got 0"),
        ({"epsilon": -1}, ValueError, "epsilon must be a finite number > 0, got -1"),
        ({"epsilon": math.nan}, ValueError, "epsilon must be a finite number > 0, got nan"),
        ({"epsilon": math.inf}, ValueError, "epsilon must be a finite number > 0, got inf"),
        ({"epsilon": "1"}, TypeError, "epsilon must be a real number, got str"),
        ({"epsilon": None}, TypeError, "epsilon must be a real number, got NoneType"),
        ({"epsilon": 1e-15}, ValueError, r"epsilon is too small: the noise scale is past 2\*\*50"),
        ({"delta": 1}, ValueError, r"delta must be in \[0, 1\), got 1"),
        ({"delta": -0.1}, ValueError, r"delta must be in \[0, 1\), got -0.1"),
        ({"delta": 1 - 1e-9}, ValueError, "delta must be below 1 together with that of the rel"),
        (
            {"noise": "gumbel"},
            ValueError,
            "noise must be one of laplace, gaussian, shared, got 'gumbel'",
        ),
        ({"noise": 1}, TypeError, "noise must be a string, got int"),
        ({"noise": "gaussian"}, ValueError, "gaussian noise needs delta > 0"),
        ({"noise": "laplace", "delta": 0.1}, ValueError, "laplace noise has no use for delta"),
        ({"max_items_per_user": 0}, ValueError, "max_items_per_user must be an integer >= 1"),
        ({"max_items_per_user": 1.5}, TypeError, "max_items_per_user must be an integer, got fl"),
        ({"h": COUNTS * 1.0}, TypeError, "counts must be an array of integers, got float64"),
        ({"h": []}, ValueError, "counts must hold at least one item"),
        ({"h": -COUNTS}, ValueError, "counts must not be negative"),
        ({"h": COUNTS[:3]}, ValueError, "the release is not of this histogram"),
        ({"h": KNOWN.truncate(2)}, ValueError, "counts of what .* picked need all counts"),
        ({"rng": 7}, TypeError, "rng must be None"),
    ],
)
def test_bad_input(changes, error, message, monkeypatch):
    if "rng" not in changes:
        monkeypatch.setattr(_core, "discrete", None)
    with pytest.raises(error, match=f"^{message}"):
        counted(**changes)


def test_picks_of_joint_need_all_counts_whatever_was_picked():
    """An error for some picks and not for others would tell which items were kept."""
    h = Histogram(COUNTS).truncate(2)
    for k, epsilon in ((2, 1e6), (5, 1e-6)):
        picked = dp.joint(h, k=k, epsilon=epsilon)
        with pytest.raises(ValueError, match=r"^counts of what joint picked need all counts"):
            dp.noisy_counts(picked, h, epsilon=1.0)
    whole = Histogram(COUNTS).truncate(len(COUNTS))
    assert len(dp.noisy_counts(dp.joint(whole, k=5, epsilon=1.0), whole, epsilon=1.0)) == 5


@pytest.mark.parametrize(
    ("release", "error", "message"),
    [
        ("ant", TypeError, "release must be a Release, got str"),
        (
            release_of([1], counts=np.array([3]), counts_noise=dp.CountsNoise("laplace", 1.0)),
            ValueError,
            "the release has counts already",
        ),
        (release_of([1], by_counts=False), ValueError, "the release is not by counts of users"),
        (release_of([-1]), ValueError, "the release is not of this histogram"),
        (release_of([7]), ValueError, "the release is not of this histogram"),
        (release_of([1], named=True), ValueError, "the release is not of"),
        (unknown(("ant",)), ValueError, "the release is not of this histogram"),
    ],
)
def test_releases_that_cannot_be_counted(release, error, message, monkeypatch):
    monkeypatch.setattr(_core, "discrete", None)
    with pytest.raises(error, match=f"^{message}"):
        dp.noisy_counts(release, Histogram(COUNTS, LABELS[::-1]), epsilon=1)


def test_scores_are_not_counted():
    picked = dp.peel([1.5, 2.5], k=1, epsilon=1)
    with pytest.raises(ValueError, match=r"^the release is not by counts of users"):
        dp.noisy_counts(picked, [1, 2], epsilon=1)


def test_counts_are_added_to_what_was_released():
    before = dp.peel(KNOWN, k=2, epsilon=1.0, rng=SeededRng(1))
    after = dp.noisy_counts(before, KNOWN, epsilon=0.25, rng=SeededRng(2))
    for name in ("labels", "ordered", "complete", "mechanism"):
        assert getattr(after, name) == getattr(before, name)
    assert after.indices is before.indices
    assert after.counts.dtype == np.int64
    assert after.counts.shape == (2,)
    assert dict(after.parameters) == {
        **before.parameters,
        "counts_epsilon": 0.25,
        "counts_delta": 0.0,
    }
    assert after.counts_noise == ("laplace", 8.0, 1, 0.0, None)
    with pytest.raises(ValueError, match="read-only"):
        after.counts[0] = 1
    assert pickle.loads(pickle.dumps(after)) == after
    with pytest.raises(ValueError, match=r"^the release has counts already"):
        dp.noisy_counts(after, KNOWN, epsilon=1)


@pytest.mark.parametrize("rng", [None, SeededRng(1)])
@pytest.mark.parametrize("private", [True, False])
def test_private_only_if_both_are(rng, private):
    release = dp.noisy_counts(release_of([1], private=private), COUNTS, epsilon=1, rng=rng)
    assert release.private == (private and rng is None)


def test_the_repr_shows_the_counts_and_no_more():
    release = counted(epsilon=HUGE)
    assert repr(release).startswith("<Release of 3 by peel: [2: 90, 5: 61, 0: 40]; epsilon=1e+12")
    named = dp.noisy_counts(release_of([2], named=True), KNOWN, epsilon=HUGE)
    assert repr(named).startswith("<Release of 1 by peel: ['cat': 90]; ")
    many = dp.noisy_counts(release_of(range(12)), np.arange(12) + 50, epsilon=HUGE)
    assert "9: 59, ...]" in repr(many)
    assert "60" not in repr(many)


# ---- whose counts


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i8"])
def test_any_dtype_and_layout(dtype):
    array = np.repeat(COUNTS, 2)[::2].astype(dtype)
    for h in (array, array.tolist(), Histogram(array)):
        assert counted(h=h, epsilon=HUGE).counts.tolist() == [90, 61, 40]


def test_every_item_gets_its_own_count():
    """In the head, past it, clipped in the copy, tied, unprepared: by position and by label."""
    rng = np.random.default_rng(1)
    for top in (10, 40_000, 10**12):
        counts = rng.integers(0, top, size=5000)
        counts[rng.choice(5000, 200, replace=False)] = rng.integers(32_700, 32_800, size=200)
        items = rng.permutation(5000)
        release = release_of(items)
        for h in (counts, Histogram(counts), Histogram(counts).truncate(5000)):
            found = dp.noisy_counts(release, h, epsilon=HUGE).counts
            assert (found == counts[items]).all()
        order = dp.argtopk(counts, 2000)
        kept = Histogram(counts).truncate(2000)
        picked = release_of(order[::-1], mechanism="limited_domain")
        found = dp.noisy_counts(picked, kept, epsilon=HUGE).counts
        assert (found == counts[order[::-1]]).all()


def test_labels_of_an_unknown_domain():
    full = Histogram.from_events(EVENTS, user="user", item="item")
    assert not full.known_domain
    for labels in [("cat", "dog", "ant"), ("eel",), ()]:
        true = [int(COUNTS[LABELS.index(label)]) for label in labels]
        released = dp.noisy_counts(unknown(labels), full, epsilon=HUGE)
        assert released.counts.tolist() == true
        assert released.indices is None
    rows = Histogram.truncated([90, 61, 40], ["cat", "fox", "ant"], next_count=7, k_bar=3)
    found = dp.noisy_counts(unknown(("ant", "cat")), rows, epsilon=HUGE).counts
    assert found.tolist() == [40, 90]


def test_labels_past_the_head_of_a_large_unknown_domain():
    n = 3000
    events = [(user, item) for item in range(n) for user in range(1 + (item % 3))]
    h = Histogram.from_events(events, user="user", item="item")
    labels = tuple(range(0, n, 7))
    found = dp.noisy_counts(unknown(labels), h, epsilon=HUGE).counts
    assert found.tolist() == [1 + label % 3 for label in labels]
    kept = h.truncate(2500)
    labels = kept.labels[::-1]
    found = dp.noisy_counts(unknown(tuple(labels)), kept, epsilon=HUGE).counts
    assert found.tolist() == kept.counts[::-1].tolist()


def test_an_item_that_nobody_has_counts_nothing_if_all_are_held():
    """And is an error where truncation may have left it out, or in a fixed domain."""
    full = Histogram.from_events(EVENTS, user="user", item="item")
    found = dp.noisy_counts(unknown(("ant", "yak")), full, epsilon=HUGE)
    assert found.counts.tolist() == [40, 0]
    for h in (full.truncate(3), KNOWN, COUNTS):
        with pytest.raises(ValueError, match=r"^the release is not of this histogram$"):
            dp.noisy_counts(unknown(("ant", "yak")), h, epsilon=1)
    with pytest.raises(ValueError, match=r"^the release is not of this histogram$"):
        dp.noisy_counts(release_of([0]), full, epsilon=1)


def test_an_empty_release_is_charged_and_draws_nothing():
    for empty in (release_of([], complete=False), unknown((), complete=False)):
        h = COUNTS
        if empty.indices is None:
            h = Histogram.truncated([], [], next_count=0, k_bar=3)
        release = dp.noisy_counts(empty, h, epsilon=1.0, rng=TapeRng([]))
        assert release.counts.tolist() == []
        assert release.intervals().shape == (0, 2)
        assert release.cost.epsilon == 1.5
        assert not release.complete


# ---- cost and noise


def test_the_cost_is_the_sum_of_both():
    release = counted(epsilon=0.1)
    assert Fraction(release.cost.epsilon) >= Fraction(0.5) + Fraction(0.1)
    assert release.cost.epsilon == pytest.approx(0.6, rel=1e-15)
    assert release.cost.delta == 1e-7
    assert release.cost.theorem == (
        "the pick's theorem; and discrete Laplace counts, L1 sensitivity 3"
    )
    release = counted(items=range(7), epsilon=0.1, delta=0.3, noise="gaussian")
    assert Fraction(release.cost.delta) >= Fraction(1e-7) + Fraction(0.3)
    assert release.parameters["counts_delta"] == 0.3
    assert "the pick's theorem; and discrete Gaussian counts" in release.cost.theorem


def test_a_delta_that_is_not_spent_counts_all_the_same():
    """An error that depends on the noise would tell how many were picked."""
    release = release_of([0], cost=dp.Cost(0.5, 0.9995, "the pick's theorem"))
    assert dp.noisy_counts(release, COUNTS, epsilon=1, delta=4e-4).cost.delta == 0.9995
    with pytest.raises(ValueError, match="delta must be below 1 together"):
        dp.noisy_counts(release, COUNTS, epsilon=1, delta=1e-3)


@pytest.mark.parametrize(
    ("items", "bound", "moved"),
    [([0], None, 1), ([0, 1], None, 2), ([0, 1, 2], 2, 2), ([0, 1, 2], 9, 3), ([0, 1], 1, 1)],
)
def test_a_user_moves_no_more_than_is_counted_and_bounded(items, bound, moved):
    release = counted(items, epsilon=0.3, max_items_per_user=bound)
    scale = release.counts_noise.scale
    assert Fraction(scale) * Fraction(0.3) >= moved
    assert Fraction(math.nextafter(scale, 0)) * Fraction(0.3) < moved
    release = counted(items, epsilon=0.3, delta=1e-5, noise="gaussian", max_items_per_user=bound)
    assert release.counts_noise.scale == discrete.discrete_gaussian_sigma(
        epsilon=0.3, delta=1e-5, moved=moved
    )


def test_the_histograms_own_bound_is_used():
    h = Histogram.from_events(EVENTS, user="user", item="item", max_items_per_user=2)
    for bound, scale in [(None, 2.0), (2, 2.0), (3, 2.0)]:
        release = dp.noisy_counts(
            unknown(("ant", "cat", "fox")), h, epsilon=1.0, max_items_per_user=bound
        )
        assert release.counts_noise.scale == scale


@pytest.mark.parametrize("bound", [None, 1, 3])
@pytest.mark.parametrize(
    ("k", "epsilon", "delta"),
    [(1, 1.0, 1e-6), (2, 1.0, 1e-6), (7, 1.0, 1e-6), (7, 0.1, 1e-3), (3, 5.0, 0.2), (7, 0.3, 0.1)],
)
def test_by_default_the_noise_of_least_variance(k, epsilon, delta, bound):
    release = counted(range(k), epsilon=epsilon, delta=delta, max_items_per_user=bound)
    moved = min(k, bound or k)
    own, shared = shared_scales(epsilon=epsilon, delta=delta, counts=k, moved=moved)
    laplace = discrete.laplace_scale(epsilon=epsilon, moved=moved)
    gaussian = discrete.discrete_gaussian_sigma(epsilon=epsilon, delta=delta, moved=moved)
    variances = {
        "laplace": discrete.variance("laplace", laplace),
        "gaussian": discrete.variance("gaussian", gaussian),
        "shared": own**2 + shared**2 + 1 / 12,
    }
    noise = release.counts_noise.law
    assert noise == min(variances, key=variances.get)
    assert release.parameters["counts_delta"] == (0.0 if noise == "laplace" else delta)
    if noise == "shared":
        assert release.counts_noise == ("shared", own, 1, shared, None)


def test_each_law_is_the_choice_somewhere():
    found = {
        counted(range(k), epsilon=epsilon, delta=delta, max_items_per_user=bound).counts_noise.law
        for k, epsilon, delta, bound in [
            (1, 1.0, 1e-6, None),
            (7, 1.0, 1e-3, None),
            (1, 0.1, 0.1, 1),
        ]
    }
    assert found == {"laplace", "shared", "gaussian"}


# ---- one noise that all counts share


def nearness(own, shared, n, t):
    """Distance of a user of t of n counts in units of the noise, by matrices."""
    covariance = own**2 * np.eye(n) + shared**2 * np.ones((n, n))
    move = np.array([1.0] * t + [0.0] * (n - t))
    return math.sqrt(move @ np.linalg.solve(covariance, move))


CASES = [
    (n, d) for n in (1, 2, 3, 7, 40) for d in {1, 2, n // 3, n // 2, 3 * n // 4, n} if 0 < d <= n
]


@pytest.mark.parametrize(("n", "moved"), CASES)
def test_a_user_is_no_nearer_than_the_analytic_noise_allows(n, moved):
    """And no further, for the worst number of counts; one more count than bounded is too near."""
    own, shared = shared_scales(epsilon=0.7, delta=1e-5, counts=n, moved=moved)
    reach = [nearness(own, shared, n, t) for t in range(1, n + 1)]
    allowed = 1 / gaussian_sigma(epsilon=0.7, delta=1e-5)
    assert max(reach[:moved]) == pytest.approx(allowed, rel=1e-9)
    if 2 * moved < n:
        assert reach[moved] > allowed * (1 + 1e-6)
    delta = gaussian_delta(epsilon=0.7, sigma=1.0, sensitivity=max(reach[:moved]))
    assert delta == pytest.approx(1e-5, rel=1e-6)


@pytest.mark.parametrize(("n", "moved"), [*CASES, (10**5, 10**5), (10**5, 40)])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0, HUGE])
def test_shared_scales_are_rounded_up(n, moved, epsilon):
    """In exact fractions: (t - beta t^2) / a is at most 1 / sigma^2 for every t."""
    own, shared = map(Fraction, shared_scales(epsilon=epsilon, delta=1e-5, counts=n, moved=moved))
    sigma = Fraction(gaussian_sigma(epsilon=epsilon, delta=1e-5))
    beta = shared**2 / (own**2 + n * shared**2)
    assert 0 <= beta < Fraction(1, n)
    worst = longest_move(beta, moved)
    assert (
        worst
        == max(t - beta * t * t for t in {*range(1, min(moved, 50) + 1), moved, moved // 2 or 1})
        or n > 50
    )
    assert sigma**2 * worst <= own**2
    if epsilon < HUGE:
        assert own**2 <= sigma**2 * worst * (1 + Fraction(1, 2**40))


@pytest.mark.parametrize(("n", "moved"), CASES)
def test_no_other_mix_of_noises_is_better(n, moved):
    own, shared = shared_scales(epsilon=1.0, delta=1e-5, counts=n, moved=moved)
    sigma = gaussian_sigma(epsilon=1.0, delta=1e-5)
    variances = []
    for share in np.linspace(0, 0.999, 2000):
        beta = share / n
        longest = max(t - beta * t * t for t in range(1, moved + 1))
        variances.append(sigma**2 * longest * (1 + beta / (1 - n * beta)))
    assert own**2 + shared**2 <= min(variances) * (1 + 1e-9)
    assert own**2 + shared**2 >= min(variances) * (1 - 1e-3)
    if moved > 1:  # less than noises of their own
        assert own**2 + shared**2 < (0.999 if moved < n else 0.75) * moved * sigma**2


def test_the_deviation_is_half_of_independent_noise():
    sigma = gaussian_sigma(epsilon=1.0, delta=1e-6)
    for n in (4, 100, 10_000):
        own, shared = shared_scales(epsilon=1.0, delta=1e-6, counts=n)
        assert math.hypot(own, shared) == pytest.approx((math.sqrt(n) + 1) / 2 * sigma, rel=5e-3)


@pytest.mark.parametrize(("own", "shared"), [(0.6, 0.8), (30.0, 7.0), (2.0**50, 2.0**49), (3.0, 0)])
def test_shared_noise_is_rounded_exactly(own, shared):
    """Words at the edges too: doubles say so, or leave it to the replay."""
    edges = np.array([0, 1, 2**64 - 1, 2**64 - 2, 2**63, 2**63 - 1, 2**53], np.uint64)
    rng, undecided = np.random.default_rng(7), 0
    for case in range(200):
        words = rng.integers(0, 2**64, size=6, dtype=np.uint64)
        if case % 4 == 0:
            words[rng.integers(0, 6, 2)] = rng.choice(edges, 2)
        exact = reference.sample(tape_of(words), 5, own=own, shared=shared)
        found = discrete._rounded_sums(words.tolist(), own, shared)
        undecided += found is None
        assert found is None or found == exact
    assert undecided == 200 if own > 2**40 else undecided < 60


def tape_of(words):
    fresh = np.random.default_rng(1)
    return Tape(
        _core.TapeSource(words).read, lambda n: fresh.integers(0, 2**64, size=n, dtype=np.uint64)
    )


def test_shared_noise_at_the_ends_of_the_range():
    values = np.array([2**63 - 1, -(2**63), 0])
    noisy, private = discrete.add_shared_noise(values, 1e9, 1e9, SeededRng(1))
    assert not private
    assert noisy.dtype == np.int64
    with pytest.raises(ValueError, match="the noise scale must be from"):
        discrete.add_shared_noise(values, 2.0**51, 1.0)


def test_intervals_of_shared_noise_hold_each_count():
    """The noise of one count has both parts: 3,000 releases (alpha 1e-9)."""
    held, rng = 0, SeededRng(9)
    for _ in range(3000):
        release = counted([2, 5], noise="shared", delta=1e-3, rng=rng)
        held += release.intervals(0.9)[0, 0] <= COUNTS[2] <= release.intervals(0.9)[0, 1]
    total = math.hypot(release.counts_noise.scale, release.counts_noise.shared)
    reach = discrete.margin("shared", *release.counts_noise[1:2], 0.9, release.counts_noise.shared)
    exact = math.erf((reach + 0.5) / total / math.sqrt(2))
    assert exact >= 0.9 > math.erf((reach - 0.5) / total / math.sqrt(2))
    assert abs(held / 3000 - exact) < 6.2 * math.sqrt(exact * (1 - exact) / 3000)


@pytest.mark.parametrize(
    ("k", "bound", "epsilon", "delta", "laws"),
    [
        (900, None, 1.0, 1e-6, {"laplace", "shared"}),  # Laplace noise for few
        (900, 5, 1.0, 1e-6, {"laplace"}),  # for 5 counts shared noise had less
        (2, None, 4.0, 0.1, {"laplace"}),  # for 1 count Gaussian noise had less
        (1, None, 4.0, 0.1, {"gaussian"}),
    ],
)
def test_delta_is_charged_by_what_was_asked_for(k, bound, epsilon, delta, laws):
    """Not by what came out; and where it is not charged it is never spent."""
    h, deltas, seen = np.arange(1000), set(), set()
    for picked in {0, 1, 2, 5, 6, 10, k}:
        if picked <= k:
            release = release_of(range(picked), parameters={"k": k})
            release = dp.noisy_counts(
                release, h, epsilon=epsilon, delta=delta, max_items_per_user=bound
            )
            deltas.add(release.parameters["counts_delta"])
            seen.add(release.counts_noise.law)
    assert seen - {"laplace"} == laws - {"laplace"}
    assert deltas == {0.0 if laws == {"laplace"} else delta}


@pytest.mark.parametrize("asked", [None, 2, (1, 9), "7"])
def test_delta_is_charged_where_it_is_not_known_what_was_asked_for(asked):
    release = release_of(range(3), parameters={"k": asked})
    release = dp.noisy_counts(release, COUNTS, epsilon=1.0, delta=1e-6)
    assert release.parameters["counts_delta"] == 1e-6


def test_delta_does_not_depend_on_how_many_were_picked():
    """Else one release would be priced below what all that might have come out cost."""
    budget = {"epsilon": 1.0, "delta": 1e-3}
    for k, bound, spent in [(1, None, 0.0), (7, None, 1e-3), (7, 1, 0.0), (None, None, 1e-3)]:
        found = set()
        for picked in range(1 + (k or 1)):
            parameters = {} if k is None else {"k": k}
            release = release_of(range(picked), complete=picked == k, parameters=parameters)
            release = dp.noisy_counts(release, COUNTS, max_items_per_user=bound, **budget)
            found.add((release.cost.delta, release.parameters["counts_delta"]))
            if picked == 1:
                assert release.counts_noise.law == "laplace"
        ((total, own),) = found
        assert own == spent
        assert total == pytest.approx(1e-7 + spent, rel=1e-15)


def test_counts_at_the_end_of_the_range_do_not_wrap():
    release = counted([0, 1], h=np.array([2**63 - 1, 0]), epsilon=1e-6, rng=SeededRng(3))
    assert release.counts[0] > 2**62
    low, high = release.intervals()[0].tolist()
    assert low < 2**63 - 1 <= high


# ---- intervals


def test_intervals_hold_the_true_count_as_often_as_they_say():
    """Each of 4,000: below 95% of them by more than chance allows (alpha 1e-9) is a fault."""
    counts = np.arange(4000) % 50 + 100
    for delta, noise in [(0.0, "laplace"), (1e-3, "gaussian")]:
        release = dp.noisy_counts(
            release_of(range(4000)), counts, epsilon=2.0, delta=delta, noise=noise,
            max_items_per_user=1, rng=SeededRng(5),
        )  # fmt: skip
        for confidence in (0.5, 0.95):
            low, high = release.intervals(confidence).T
            held = np.mean((low <= counts) & (counts <= high))
            scale = release.counts_noise.scale
            reach = discrete.margin(noise, scale, confidence)
            exact = 1 - math.exp(discrete.log_tail(noise, scale, reach + 1))
            assert exact >= confidence
            assert abs(held - exact) < 6.2 * math.sqrt(exact * (1 - exact) / 4000)
            # One less would hold too few.
            assert math.exp(discrete.log_tail(noise, scale, reach)) > 1 - confidence


@pytest.mark.parametrize("among", [1, 2, 3, 80, 10**6])
@pytest.mark.parametrize("confidence", [0.1, 0.3, 0.95, 1 - 2.0**-32, 1 - 2.0**-46])
def test_all_at_once_are_held_as_often_as_is_said(among, confidence, monkeypatch):
    """In the last place too: rounded to nearest, 1 - 2^-46 among 80 was 25% short."""
    asked = []
    monkeypatch.setattr(
        "dptopk.discrete.margin", lambda noise, scale, each, shared: asked.append(each) or 1
    )
    noise = dp.CountsNoise("laplace", 1.0, among=among)
    release = release_of([1], counts=np.array([4]), counts_noise=noise)
    try:
        release.intervals(confidence)
    except ValueError:
        assert (1 - confidence) / among < 2.0**-52
    else:
        missed = 1 - Fraction(asked[0])
        assert missed * among <= 1 - Fraction(confidence)
        assert missed * among >= 1 - Fraction(confidence) - among * Fraction(2) ** -52


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "shared"])
def test_simultaneous_intervals_hold_all_counts_at_once(noise):
    """Each at 1 - (1 - confidence) / n: 9 in 10 hold all eight, and single ones hold far fewer."""
    counts, rng, draws = np.arange(100, 180, 10), SeededRng(6), 400
    picks = dp.peel(counts, k=8, epsilon=1, rng=rng)
    delta = {} if noise == "laplace" else {"delta": 1e-3}
    held = {True: 0, False: 0}
    for _ in range(draws):
        release = dp.noisy_counts(picks, counts, epsilon=2.0, noise=noise, rng=rng, **delta)
        true = counts[list(release.items)]
        for simultaneous in held:
            low, high = release.intervals(0.9, simultaneous=simultaneous).T
            held[simultaneous] += bool(((low <= true) & (true <= high)).all())
    assert stats.binomtest(held[True], draws, 0.9, alternative="less").pvalue > 1e-9
    assert held[False] < 0.75 * draws
    reach = release.intervals(0.9, simultaneous=True)[:, 1] - release.counts
    assert (reach == release.intervals(1 - 0.1 / 8)[:, 1] - release.counts).all()
    with pytest.raises(TypeError, match="simultaneous must be"):
        release.intervals(simultaneous=1)


def test_simultaneous_intervals_of_counts_that_did_the_picking_are_the_same():
    release = dp.limited_domain_laplace(
        [900, 800, 5, 3], k=2, epsilon=1, delta=1e-3, max_items_per_user=2, release_counts=True
    )
    assert np.array_equal(release.intervals(), release.intervals(simultaneous=True))


def test_intervals_are_of_counts():
    release = counted([6, 0], h=COUNTS, epsilon=0.1, rng=SeededRng(1))
    intervals = release.intervals(0.99)
    assert intervals.dtype == np.int64
    assert (intervals >= 0).all()
    assert (intervals[:, 0] <= intervals[:, 1]).all()
    assert (release.intervals() <= intervals)[:, 1].all()


@pytest.mark.parametrize("bad", [0, 1, -0.5, 2, math.nan])
def test_intervals_refuse_a_confidence_out_of_range(bad):
    with pytest.raises(ValueError, match=r"^confidence must be in \(0, 1\)"):
        counted().intervals(bad)


def test_intervals_need_counts():
    with pytest.raises(TypeError, match=r"^confidence must be a real number"):
        counted().intervals("95%")
    for release in (release_of([1]), release_of([])):
        with pytest.raises(ValueError, match=r"^the release has no counts"):
            release.intervals()


def test_no_secure_randomness_no_counts(monkeypatch):
    from dptopk import rng

    def broken(count):
        raise NotImplementedError

    monkeypatch.setattr("os.urandom", broken)
    monkeypatch.setattr(rng, "_free", [])
    with pytest.raises(dp.RandomnessError):
        counted()


# ---- a set, ranked


def test_a_set_is_ranked_by_its_noisy_counts():
    """What comes out is the same but for its order, at the same cost on the same words."""
    picked = dp.canonical(KNOWN, k=5, epsilon=HUGE)  # at k=4 two items tie for the last place
    assert not picked.ordered
    plain, ranked = (
        dp.noisy_counts(picked, KNOWN, epsilon=2.0, ranked=r, rng=SeededRng(4))
        for r in (False, True)
    )
    assert ranked.ordered
    assert (np.diff(ranked.counts) <= 0).all()
    assert sorted(zip(ranked.items, ranked.counts, strict=True)) == sorted(
        zip(plain.items, plain.counts, strict=True)
    )
    assert [LABELS[i] for i in ranked.indices] == list(ranked.labels)
    assert (ranked.cost, ranked.parameters) == (plain.cost, plain.parameters)
    assert ranked.counts_noise == plain.counts_noise._replace(among=5)
    assert ranked.top(2).items == ranked.items[:2]
    exact = dp.noisy_counts(picked, KNOWN, epsilon=HUGE, ranked=True)
    assert exact.labels == ("cat", "fox", "ant", "bee", "dog"), "equal counts by item"
    assert dp.noisy_counts(release_of([]), COUNTS, epsilon=1.0, ranked=True).items == ()
    with pytest.raises(TypeError, match="ranked must be True or False, got int"):
        counted(ranked=1)


def test_labels_of_an_unknown_domain_and_groups_are_ranked():
    h = Histogram.from_events(EVENTS, user="user", item="item")
    for labels in (("bee", "cat"), ("cat", "bee")):
        release = dp.noisy_counts(unknown(labels), h, epsilon=HUGE, ranked=True)
        assert (release.labels, release.counts.tolist()) == (("cat", "bee"), [90, 7])
        assert release.indices is None
    frame = {**EVENTS, "by": [u % 2 for u in EVENTS["user"]]}
    hs = Histogram.from_events(
        frame,
        user="user",
        item="item",
        by="by",
        groups=[0, 1],
        max_groups_per_user=1,
        domain=sorted(LABELS),
    )
    releases = dp.noisy_counts(dp.oneshot(hs, k=3, epsilon=HUGE), hs, epsilon=HUGE, ranked=True)
    for release in releases.values():
        assert release.labels == ("cat", "fox", "ant")


def test_the_first_of_a_ranked_set_is_held_by_its_interval():
    """The largest of 40 noises stands first: intervals for one noise alone hold it far less."""
    counts, rng, draws = np.full(40, 100), SeededRng(8), 400
    picked = dp.oneshot(counts, k=40, epsilon=1, rng=rng)
    held = {"ranked": 0, "as if it were any": 0}
    for _ in range(draws):
        first = dp.noisy_counts(picked, counts, epsilon=20.0, ranked=True, rng=rng).top(1)
        for name, among in (("ranked", 40), ("as if it were any", 1)):
            assert first.counts_noise.among == 40
            noise = first.counts_noise._replace(among=among)
            shown = release_of([0], counts=first.counts.copy(), counts_noise=noise)
            ((low, high),) = shown.intervals(0.9)
            held[name] += bool(low <= 100 <= high)
    assert stats.binomtest(held["ranked"], draws, 0.9, alternative="less").pvalue > 1e-9
    assert held["as if it were any"] < 0.5 * draws
