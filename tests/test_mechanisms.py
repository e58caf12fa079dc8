"""peel, limited_domain and noisy_topk: the contract. Laws are in test_verify.py."""

import math
from fractions import Fraction

import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.accounting import step_epsilon, total_epsilon
from dptopk.mechanisms.limited_domain import default_k_bar, private_limit

COUNTS = np.array([40, 7, 90, 7, 3, 61, 0])
MECHANISMS = {
    "peel": lambda counts=COUNTS, **changes: dp.peel(counts, **{"k": 2, "epsilon": 1, **changes}),
    "limited_domain": lambda counts=COUNTS, **changes: dp.limited_domain(
        counts, **{"k": 2, "epsilon": 1, "delta": 1e-3, **changes}
    ),
    "noisy_topk": lambda counts=COUNTS, **changes: dp.noisy_topk(
        counts, **{"k": 2, "scale": 1, **changes}
    ),
}


def case(mechanism, error, message, **changes):
    return pytest.param(mechanism, changes, error, message, id=f"{mechanism}-{message[:40]}")


@pytest.mark.parametrize(
    ("mechanism", "changes", "error", "message"),
    [
        *(
            case(m, ValueError, f"epsilon must be a finite number > 0, got {bad}", epsilon=bad)
            for m in ("peel", "limited_domain")
            for bad in (-1, 0, math.nan, math.inf)
        ),
        *(
            case(m, TypeError, "epsilon must be a real number, got str", epsilon="1")
            for m in ("peel", "limited_domain")
        ),
        *(
            case(m, TypeError, "give either epsilon .* or epsilon_step", epsilon_step=1.0)
            for m in ("peel", "limited_domain")
        ),
        *(
            case(m, TypeError, "give either epsilon .* or epsilon_step", epsilon=None)
            for m in ("peel", "limited_domain")
        ),
        *(
            case(m, ValueError, "k must be an integer >= 1, got 0", k=0)
            for m in MECHANISMS
        ),
        *(case(m, TypeError, "k must be an integer, got float", k=2.0) for m in MECHANISMS),
        *(case(m, TypeError, "k must be an integer, got bool", k=True) for m in MECHANISMS),
        *(
            case(m, ValueError, "counts must not be negative", counts=np.array([3, -1]), k=1)
            for m in ("peel", "limited_domain")
        ),
        *(
            case(m, TypeError, "counts must be an array of integers, got float64",
                 counts=np.array([3.0, 1.0]), k=1)
            for m in ("peel", "limited_domain")
        ),
        *(
            case(m, ValueError, "counts must hold at least one item", counts=[])
            for m in ("peel", "limited_domain")
        ),
        *(case(m, TypeError, "rng must be None", rng=7) for m in MECHANISMS),
        *(
            case(m, ValueError, "method must be one of", method="magic")
            for m in ("peel", "limited_domain")
        ),
        case("peel", ValueError, "k must be at most the number of items, 7; got 8", k=8),
        case("peel", ValueError, r"delta must be in \[0, 1\), got 1", delta=1),
        case("peel", ValueError, r"delta must be in \[0, 1\), got -0.1", delta=-0.1),
        case("peel", ValueError, "sensitivity must be a finite number > 0", sensitivity=0),
        case("peel", ValueError, "counts must not contain NaN", monotone=False,
             counts=[1.0, math.nan]),
        case("peel", ValueError, "counts must not contain infinite", monotone=False,
             counts=[1.0, -math.inf]),
        case("limited_domain", ValueError, r"counts must be below 2\*\*63 - 1",
             counts=np.array([2**63 - 1] * 3), k_bar=2),
        case("limited_domain", ValueError, r"delta must be in \(0, 1\), got 0", delta=0),
        case("limited_domain", ValueError, r"delta must be in \(0, 1\), got nan", delta=math.nan),
        case("limited_domain", ValueError, "k must be at most k_bar = 1, got 2", k_bar=1),
        case("limited_domain", ValueError, "k_bar must be an integer >= 1, got 0", k_bar=0),
        case("limited_domain", TypeError, "k_bar must be an integer, got float", k_bar=5.0),
        case("limited_domain", ValueError, 'k_bar must be an integer, "private" or None',
             k_bar="secret"),
        case("limited_domain", ValueError, "max_items_per_user must be an integer >= 1, got 0",
             max_items_per_user=0),
        case("limited_domain", ValueError, "k_bar must be at most 3, where the histogram",
             counts=dp.Histogram(COUNTS).truncate(3), k_bar=4),
        case("limited_domain", ValueError, "k must be at most 1, where the histogram",
             counts=dp.Histogram(COUNTS).truncate(1)),
        case("noisy_topk", ValueError, "scale must be a finite number > 0, got 0", scale=0),
        case("noisy_topk", ValueError, "scores must not contain NaN", counts=[1.0, math.nan]),
        case("noisy_topk", ValueError, "scores must not contain infinite", counts=[1.0, math.inf]),
        case("noisy_topk", TypeError, "scores must be an array of integers or floats, got complex",
             counts=[1j, 2j]),
        case("noisy_topk", ValueError, "k must be at most the number of scores, got 8", k=8),
        case("noisy_topk", ValueError, "noise must be one of .*got 'pink'", noise="pink"),
    ],
)  # fmt: skip
def test_bad_input(mechanism, changes, error, message, monkeypatch):
    """Refused at the door: no random word is drawn for it."""
    if "rng" not in changes:
        monkeypatch.setattr(_core, "race", None)
    with pytest.raises(error, match=f"^{message}"):
        MECHANISMS[mechanism](**changes)


@pytest.mark.parametrize("name", ["peel", "limited_domain"])
def test_no_secure_randomness_no_release(name, monkeypatch):
    from dptopk import rng

    def broken(count):
        raise NotImplementedError

    monkeypatch.setattr("os.urandom", broken)
    monkeypatch.setattr(rng, "_free", [])
    with pytest.raises(dp.RandomnessError):
        MECHANISMS[name]()


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i8"])
def test_any_integer_dtype_and_layout_draws_alike(dtype):
    """Array or Histogram, any dtype, any stride: the same seed, the same release."""
    counts = np.repeat(COUNTS, 2)[::2].astype(dtype)
    for name in ("peel", "limited_domain"):
        mechanism = MECHANISMS[name]
        release = mechanism(COUNTS, rng=SeededRng(4))
        assert mechanism(counts, rng=SeededRng(4)) == release
        assert mechanism(dp.Histogram(counts), rng=SeededRng(4)) == release
    picks = dp.noisy_topk(counts, 3, scale=5, rng=SeededRng(4))
    assert picks.tolist() == dp.noisy_topk(COUNTS, 3, scale=5, rng=SeededRng(4)).tolist()


def test_a_release_says_what_it_is():
    release = MECHANISMS["peel"](rng=SeededRng(1))
    assert release.ordered
    assert release.complete
    assert not release.private
    assert "NOT PRIVATE" in repr(release)
    assert release.mechanism == "peel"
    assert release.parameters["k"] == 2
    assert len(release) == release.outcomes == 2
    private = MECHANISMS["peel"]()
    assert private.private
    assert "NOT PRIVATE" not in repr(private)
    with pytest.raises(AttributeError):
        private.mechanism = "other"
    with pytest.raises(ValueError, match="read-only"):
        private.indices[0] = 1
    with pytest.raises(TypeError):
        private.parameters["k"] = 1


def test_bot_is_said_and_charged():
    release = dp.limited_domain([900, 3, 3, 3], k=3, k_bar=3, epsilon=5, delta=1e-6)
    assert release.items == (0,)
    assert not release.complete
    assert release.outcomes == 2
    assert "stopped by BOT" in repr(release)
    assert (release.cost.epsilon, release.cost.delta) == (5, 1e-6)


def test_the_cost_is_what_the_noise_pays_for():
    """epsilon is composed from steps of scale 1/epsilon_step, never less."""
    for k, delta in [(1, 0.0), (10, 0.0), (10, 1e-6), (100, 1e-6)]:
        counts = np.arange(200)
        release = dp.peel(counts, k=k, epsilon=1.0, delta=delta)
        step = release.parameters["epsilon_step"]
        assert step == step_epsilon(1.0, k, delta)
        assert 1 / release.parameters["scale"] <= step
        assert total_epsilon(step, k, delta) <= 1.0
        by_step = dp.peel(counts, k=k, epsilon_step=step, delta=delta)
        assert by_step.cost.epsilon == total_epsilon(step, k, delta)
    release = dp.limited_domain(counts, k=10, epsilon=1.0, delta=1e-6)
    assert release.parameters["epsilon_step"] == step_epsilon(1.0, 10, 5e-7)
    release = dp.limited_domain(counts, k=10, epsilon=1.0, delta=1e-6, k_bar="private")
    assert release.parameters["epsilon_step"] == step_epsilon(1.0, 11, 5e-7)
    assert release.parameters["k_bar_chosen_privately"]


def test_general_scores_take_twice_the_noise():
    scores = [-3.0, 0.25, 1e9]
    release = dp.peel(scores, k=1, epsilon=2.0, sensitivity=3.0, monotone=False)
    assert release.parameters["scale"] == pytest.approx(3.0)
    assert release.indices.tolist() == [2]
    counts = dp.peel([1, 2, 10**9], k=1, epsilon=2.0, sensitivity=3.0)
    assert counts.parameters["scale"] == pytest.approx(1.5)


def test_a_sensitivity_that_is_no_double_is_rounded_up():
    release = dp.peel(COUNTS, k=1, epsilon_step=0.3, sensitivity=Fraction(1, 11))
    assert Fraction(release.parameters["scale"]) * Fraction(0.3) >= Fraction(1, 11)


def test_the_threshold_uses_what_bounds_a_user():
    """m = min(k_bar, items a user, items outside a known top): less of it is a lower threshold."""
    from dptopk.mechanisms.limited_domain import threshold

    known = dp.Histogram(np.arange(10))
    rows = dp.Histogram.truncated([9, 8], ["a", "b"], next_count=0, k_bar=9, max_items_per_user=2)
    for h, k_bar, bound, m in [
        (known, 3, None, 3),
        (known, 8, None, 2),
        (known, 10, None, 1),
        (known, 99, None, 1),
        (known, 5, 2, 2),
        (rows, 9, None, 9),
        (rows, 9, 2, 2),
    ]:
        exact = math.log(m / 1e-6)
        assert exact <= threshold(h, k_bar, bound, 1e-6) <= exact * (1 + 1e-14)
    release = dp.limited_domain(rows, k=1, epsilon=1, delta=1e-6, max_items_per_user=5)
    assert release.parameters["max_items_per_user"] == 2


def test_k_bar_by_default():
    assert default_k_bar(1) == 1000
    assert default_k_bar(500) == 5000
    counts = np.arange(30_000)
    assert dp.limited_domain(counts, k=7, epsilon=1, delta=1e-6).parameters["k_bar"] == 1000
    cut = dp.Histogram(counts).truncate(50)
    assert dp.limited_domain(cut, k=7, epsilon=1, delta=1e-6).parameters["k_bar"] == 50
    release = dp.limited_domain(counts, k=7, epsilon=1, delta=1e-6, k_bar="private")
    assert 7 <= release.parameters["k_bar"] <= private_limit(7)
    for k_bar in (7, 29_999, 30_000, 90_000):
        release = dp.limited_domain(counts, k=7, epsilon=1, delta=1e-6, k_bar=k_bar)
        assert release.parameters["k_bar"] == k_bar


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "f2", "i4", "u8"])
def test_noisy_topk_of_any_real_dtype(dtype):
    scores = np.array([5, 9000, 2, 7000, 1] * 40).astype(dtype)[::-1]
    picks = dp.noisy_topk(scores, 80, scale=0.5)
    assert set(picks.tolist()) == set(np.argsort(-scores.astype(float), kind="stable")[:80])


def test_noisy_topk_survives_what_breaks_the_naive_one():
    """Counts that overflow exp, differences that vanish in doubles, extreme scales."""
    assert dp.noisy_topk([10**18, 10**18 + 50, 3], 1, scale=1e-3).tolist() == [1]
    assert dp.noisy_topk(np.array([1e308, -1e308]), 2, scale=1.0).tolist() == [0, 1]
    assert dp.noisy_topk(np.array([2**63, 2**64 - 1], np.uint64), 1, scale=1.0).tolist() == [1]
    assert sorted(dp.noisy_topk([5, 5], 2, scale=1e300).tolist()) == [0, 1]
    assert dp.noisy_topk([5, 1], 1, scale=5e-324).tolist() == [0]


def test_noise_has_the_scale_it_was_given():
    """P(the smaller of two wins) is 1 / (1 + e^(gap/scale)); 20,000 draws, alpha 1e-9."""
    from scipy import stats

    rng = SeededRng(11)
    n, p = 20_000, 1 / (1 + math.e)
    wins = sum(int(dp.noisy_topk([0, 10], 1, scale=10.0, rng=rng)[0] == 0) for _ in range(n))
    low, high = stats.binom.interval(1 - 1e-9, n, p)
    assert low <= wins <= high
    wrong = 1 / (1 + math.exp(0.85))  # a scale 15% off is outside
    assert not low <= n * wrong <= high


def test_picks_from_the_tail_have_the_exact_law():
    """A big flat domain with a small head: items past the head come out, evenly."""
    from scipy import stats

    counts = np.zeros(6000, np.int64)
    counts[::3] = 1
    rng = SeededRng(2)
    picks = np.concatenate([dp.noisy_topk(counts, 50, scale=1.0, rng=rng) for _ in range(1200)])
    ones = int((counts[picks] == 1).sum())
    p = 2000 * math.e / (2000 * math.e + 4000)  # the first pick's share; 50 of 6000 hardly move it
    assert abs(ones / picks.size - p) < 0.01
    cells = np.bincount(picks // 60, minlength=100)
    statistic = ((cells - picks.size / 100) ** 2 / (picks.size / 100)).sum()
    assert statistic < stats.chi2.isf(1e-9, 99)


def test_threads_draw_at_once():
    """Calls from many threads on one histogram: all right, none alike."""
    from concurrent.futures import ThreadPoolExecutor

    h = dp.Histogram(np.zeros(100_000, np.int64))
    with ThreadPoolExecutor(8) as pool:
        picks = list(pool.map(lambda _: tuple(dp.peel(h, k=5, epsilon=1).items), range(400)))
    assert len(set(picks)) == 400
