"""limited_domain_laplace: thresholds, costs, noisy counts. Its law is in test_verify.py."""

import math

import mpmath
import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.discrete import margin
from dptopk.mechanisms.limited_domain_laplace import integer_threshold, steps, threshold
from dptopk.reference import limited_domain_laplace as reference


def release(counts, **changes):
    options = {"k": 2, "epsilon": 1.0, "delta": 1e-6, "max_items_per_user": 2, **changes}
    return dp.limited_domain_laplace(counts, **options)


@pytest.mark.parametrize("m", [1, 2, 20, 10**6])
@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-10, 1e-6, 0.3, 0.9])
def test_the_threshold_costs_delta_and_no_more(m, delta):
    """(m / 4) (2 + t) exp(-t) is delta to 13 digits, and never above it."""
    with mpmath.workdps(60):
        t = mpmath.mpf(threshold(m, delta))
        cost = mpmath.mpf(m) / 4 * (2 + t) * mpmath.exp(-t)
        assert cost <= delta
        assert t < 1e-13 or cost >= mpmath.mpf(delta) * (1 - mpmath.mpf("1e-11"))


@pytest.mark.parametrize("m", [1, 2, 1000])
@pytest.mark.parametrize("scale", [2.0**-50, 0.1, 1.0, 20.0, 1e6, 2.0**50])
@pytest.mark.parametrize("delta", [5e-324, 1e-10, 1e-6, 0.3, 0.9])
def test_the_integer_threshold_is_the_least_that_delta_pays_for(m, scale, delta):
    def cost(lift):
        q = mpmath.exp(-1 / mpmath.mpf(scale))
        whole = (1 - q) * (lift + 1) + (1 + q * q) / (1 + q) + q
        return m * q ** (lift + 1) * whole / (1 + q) ** 2

    with mpmath.workdps(60):
        lift = integer_threshold(m, delta, scale)
        assert lift >= 0
        assert cost(lift) <= delta
        below = cost(max(lift - 1 - int(lift * 2**-38), 0))
        assert lift == 0 or below > delta * (1 - mpmath.mpf("1e-11"))


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_the_discrete_tail_is_the_sum(scale):
    law = reference.discrete.laplace_law(scale)
    for lift in range(6):
        summed = math.fsum(law[x] * law[y] for x in law for y in law if x - y > lift)
        assert reference.discrete_tail(lift, scale) == pytest.approx(summed, rel=1e-8)


def test_tails_agree_where_steps_are_fine():
    assert reference.discrete_tail(3 * 10**6, 1e6) == pytest.approx(reference.tail(3.0), rel=1e-5)


@pytest.mark.parametrize(
    ("k", "tops", "user", "with_counts", "expected"),
    [
        (100, 500, 20, False, 20),
        (1, 500, 20, False, 1),
        (10, 10, 20, False, 5),
        (10, 11, 20, False, 6),
        (1, 1, 1, False, 1),
        (1, 500, 20, True, 20),
        (10, 10, 20, True, 11),
    ],
)
def test_steps(k, tops, user, with_counts, expected):
    assert steps(k, tops, user, with_counts) == expected
    assert reference.steps(k, tops, user, with_counts=with_counts) == expected


@pytest.mark.parametrize("release_counts", [False, True])
def test_the_cost_and_what_is_public(release_counts):
    h = dp.Histogram(np.arange(2000, 0, -1))
    r = release(h, k=50, max_items_per_user=7, release_counts=release_counts)
    step = r.parameters["epsilon_step"]
    assert step * 7 <= 1.0 < step * 7 * (1 + 1e-14)
    assert r.parameters["scale"] * step >= 1.0
    assert (r.cost.epsilon, r.cost.delta) == (1.0, 1e-6)
    assert "7 x epsilon_step" in r.cost.theorem
    assert r.parameters["k_bar"] == 1000
    by_step = release(
        h, k=50, max_items_per_user=7, release_counts=release_counts, epsilon=None, epsilon_step=0.1
    )
    assert by_step.cost.epsilon >= 7 * 0.1
    assert by_step.cost.epsilon == pytest.approx(0.7)
    assert by_step.parameters["scale"] == pytest.approx(10.0)
    assert (r.counts is None) != release_counts
    assert r.ordered


def test_a_small_known_domain_costs_less():
    """No more than half of all who compete need to move: 3 items and BOT."""
    r = release(np.array([5, 3, 2]), k=3, max_items_per_user=3)
    assert "2 x epsilon_step" in r.cost.theorem
    unknown = dp.Histogram.truncated([5, 3, 2], ["a", "b", "c"], next_count=0, k_bar=1000)
    assert "3 x epsilon_step" in release(unknown, k=3, max_items_per_user=3).cost.theorem


def test_the_threshold_uses_what_bounds_a_user():
    known = dp.Histogram(np.arange(10))
    for k_bar, user, m in [(3, 2, 2), (3, 9, 3), (8, 9, 2), (10, 9, 1), (99, 9, 1)]:
        r = release(known, k_bar=k_bar, max_items_per_user=user)
        assert r.parameters["threshold"] == threshold(m, 1e-6)
        r = release(known, k_bar=k_bar, max_items_per_user=user, release_counts=True)
        assert r.parameters["threshold"] == integer_threshold(m, 1e-6, r.parameters["scale"])


def test_the_bound_of_the_histogram_holds():
    rows = dp.Histogram.truncated([9, 8], ["a", "b"], next_count=0, k_bar=9, max_items_per_user=3)
    for given, used in [(None, 3), (5, 3), (3, 3)]:
        assert release(rows, max_items_per_user=given).parameters["max_items_per_user"] == used


@pytest.mark.parametrize("release_counts", [False, True])
def test_bot_is_said(release_counts):
    r = release([9000, 3, 3, 3], k=3, k_bar=3, release_counts=release_counts)
    assert r.items == (0,)
    assert not r.complete
    assert "stopped by BOT" in repr(r)
    if release_counts:
        assert r.counts.dtype == np.int64
        assert r.counts.shape == (1,)
        assert not r.counts.flags.writeable
    r = release(np.zeros(3, np.int64), k=3, release_counts=release_counts)
    assert r.items == ()
    assert r.outcomes == 1


@pytest.mark.parametrize("release_counts", [False, True])
def test_no_rows_at_all(release_counts):
    rows = dp.Histogram.truncated([], [], next_count=0, k_bar=9)
    r = release(rows, release_counts=release_counts)
    assert (r.items, r.complete, r.indices) == ((), False, None)


@pytest.mark.parametrize("release_counts", [False, True])
@pytest.mark.parametrize("k", [1, 5, 1000])
def test_a_million_items_nearly_all_tied(k, release_counts):
    counts = np.ones(1_000_000, np.int64)
    counts[::50] = np.arange(20_000) * 100
    r = release(counts, k=k, epsilon=10.0, rng=SeededRng(1), release_counts=release_counts)
    assert len(r) == k
    assert len(set(r.items)) == k
    assert (counts[r.indices] > 1_000_000).all()


def test_noisy_counts_fall_and_are_near():
    counts = np.arange(2000) * 3
    r = release(counts, k=100, k_bar=500, epsilon=2.0, release_counts=True, rng=SeededRng(3))
    assert (np.diff(r.counts) <= 0).all()
    errors = r.counts - counts[r.indices]
    assert 0.5 < np.abs(errors).mean() < 3.0
    assert (errors != 0).any()


def test_equal_noisy_counts_stand_in_random_order():
    """Also the last of them that is let in: rows of a truncated histogram stand by rank."""
    rows = dp.Histogram.truncated([900] * 3, [0, 1, 2], next_count=0, k_bar=3)
    rng = SeededRng(5)
    first = np.zeros(3)
    for _ in range(600):
        first[release(rows, k=1, epsilon=1000.0, release_counts=True, rng=rng).labels[0]] += 1
    # Noise of scale 1/500 is 0: all three are equal. 6 standard deviations.
    assert (abs(first - 200) < 6 * math.sqrt(600 * 2 / 9)).all()


def test_intervals_hold_although_the_largest_noises_were_picked():
    """1,000 equal counts: what is picked is far off, and within the interval all the same."""
    counts, held, narrow = np.full(1000, 500), 0, 0
    rng = SeededRng(6)
    for _ in range(200):
        r = release(counts, k=5, k_bar=1000, epsilon=200.0, delta=0.9, max_items_per_user=1000,
                    release_counts=True, rng=rng)  # fmt: skip
        low, high = r.intervals(0.9).T
        held += bool(((low <= 500) & (high >= 500)).all())
        narrow += bool((r.counts > 500 + margin("laplace", r.counts_noise.scale, 0.9)).any())
    # At least 180 of 200 are held, up to 6 standard deviations; one noise's margin would not do.
    assert held >= 180 - 6 * math.sqrt(200 * 0.09)
    assert narrow == 200
    with pytest.raises(ValueError, match=r"^confidence is too near 1"):
        r.intervals(1 - 2**-53)


def test_counts_at_the_end_of_the_range():
    top = 2**63 - 2
    for seed in range(5):
        r = release([top, top, 5], k=2, k_bar=2, epsilon=1e-3, release_counts=True,
                    rng=SeededRng(seed))  # fmt: skip
        assert (r.counts > 2**62).all()
        assert len(r) == 2


@pytest.mark.parametrize("epsilon", [1e-18, 1e300])
def test_a_scale_that_integer_noise_cannot_have(epsilon):
    with pytest.raises(ValueError, match=r"^the noise scale must be from"):
        release([5, 3], epsilon=epsilon, release_counts=True)


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(_core, "race", None)
    monkeypatch.setattr(_core, "discrete", None)
    with pytest.raises(TypeError, match=r"^max_items_per_user must be given"):
        release([5, 3], max_items_per_user=None)
    with pytest.raises(ValueError, match="k_bar must be an integer or None; limited_domain can"):
        release([5, 3], k_bar="private")
    with pytest.raises(TypeError, match=r"^release_counts must be True or False, got int"):
        release([5, 3], release_counts=1)
