"""noisy_counts: contract, lookup, cost, intervals. Its law is in test_verify.py."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import dptopk as dp
from dptopk import Histogram, SeededRng, _core, discrete
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
        ({"noise": "gumbel"}, ValueError, "noise must be one of laplace, gaussian, got 'gumbel'"),
        ({"noise": 1}, TypeError, "noise must be a string, got int"),
        ({"noise": "gaussian"}, ValueError, "gaussian noise needs delta > 0"),
        ({"noise": "laplace", "delta": 0.1}, ValueError, "laplace noise has no use for delta"),
        ({"max_items_per_user": 0}, ValueError, "max_items_per_user must be an integer >= 1"),
        ({"max_items_per_user": 1.5}, TypeError, "max_items_per_user must be an integer, got fl"),
        ({"h": COUNTS * 1.0}, TypeError, "counts must be an array of integers, got float64"),
        ({"h": []}, ValueError, "counts must hold at least one item"),
        ({"h": -COUNTS}, ValueError, "counts must not be negative"),
        ({"h": COUNTS[:3]}, ValueError, "the release is not of this histogram"),
        ({"h": KNOWN.truncate(2)}, ValueError, "the release is not of this histogram"),
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
    assert after.counts_noise == ("laplace", 8.0, 1)
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
        found = dp.noisy_counts(release_of(order[::-1]), kept, epsilon=HUGE).counts
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


def test_the_noise_of_smaller_variance_is_chosen():
    for k, epsilon, delta in [(1, 1.0, 1e-6), (7, 1.0, 1e-6), (7, 0.1, 1e-3), (3, 5.0, 0.2)]:
        release = counted(range(k), epsilon=epsilon, delta=delta)
        laplace = discrete.laplace_scale(epsilon=epsilon, moved=k)
        gaussian = discrete.discrete_gaussian_sigma(epsilon=epsilon, delta=delta, moved=k)
        variances = {
            "laplace": discrete.variance("laplace", laplace),
            "gaussian": discrete.variance("gaussian", gaussian),
        }
        noise = release.counts_noise.law
        assert noise == min(variances, key=variances.get)
        assert release.parameters["counts_delta"] == (delta if noise == "gaussian" else 0.0)
    assert counted(range(7), epsilon=1.0, delta=1e-3).counts_noise.law == "gaussian"
    assert counted(range(1), epsilon=1.0, delta=1e-6).counts_noise.law == "laplace"
    assert counted(range(7)).counts_noise.law == "laplace"


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
        "dptopk.discrete.margin", lambda noise, scale, each: asked.append(each) or 1
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
