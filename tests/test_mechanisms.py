"""What all mechanisms share: input, randomness, cost. Their laws are in test_verify.py."""

import math

import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.accounting import step_epsilon, total_epsilon

COUNTS = np.array([40, 7, 90, 7, 3, 61, 0])
MECHANISMS = {
    "peel": lambda counts=COUNTS, **changes: dp.peel(counts, **{"k": 2, "epsilon": 1, **changes}),
    "limited_domain": lambda counts=COUNTS, **changes: dp.limited_domain(
        counts, **{"k": 2, "epsilon": 1, "delta": 1e-3, **changes}
    ),
    "joint": lambda counts=COUNTS, **changes: dp.joint(counts, **{"k": 2, "epsilon": 1, **changes}),
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
            for m in ("peel", "limited_domain", "joint")
            for bad in (-1, 0, math.nan, math.inf)
        ),
        *(
            case(m, TypeError, "epsilon must be a real number, got str", epsilon="1")
            for m in ("peel", "limited_domain", "joint")
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
            for m in ("peel", "limited_domain", "joint")
        ),
        case("limited_domain", TypeError, "counts must be an array of integers, got float64",
             counts=np.array([3.0, 1.0]), k=1),
        case("peel", TypeError, "monotone must be True or False, got int", monotone=1),
        *(
            case(m, ValueError, "counts must hold at least one item", counts=[])
            for m in ("peel", "limited_domain", "joint")
        ),
        *(case(m, TypeError, "rng must be None", rng=7) for m in MECHANISMS),
        *(
            case(m, ValueError, "method must be one of", method="magic")
            for m in ("peel", "limited_domain")
        ),
        case("peel", ValueError, "k must be at most the number of items, 7; got 8", k=8),
        case("joint", ValueError, "k must be at most the number of items, 7; got 8", k=8),
        case("joint", ValueError, "k must be at most the number of items, 7; got 8", k=8,
             counts=dp.Histogram(COUNTS).truncate(3)),
        case("joint", ValueError, "k must be at most 1,000 for a set, got 1001", k=1001,
             counts=np.arange(2000)),
        case("joint", ValueError, "output must be one of set, sequence, got 'list'",
             output="list"),
        case("joint", TypeError, "output must be a string, got int", output=2),
        case("joint", ValueError, "sensitivity must be a finite number > 0", sensitivity=0),
        case("joint", TypeError, "monotone must be True or False, got int", monotone=1),
        case("joint", ValueError, r"counts must lie within 2\*\*1000 of each other",
             counts=[1e308, -1e308]),
        case("joint", ValueError, "counts must not contain NaN", counts=[1.0, math.nan]),
        case("joint", dp.UnknownDomainError, "joint is private only over a domain fixed",
             counts=dp.Histogram.truncated([5, 3], ["a", "b"], next_count=1, k_bar=2)),
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
        case("noisy_topk", TypeError, "scores must be an array of integers or floats",
             counts=[1j, 2j]),
        case("noisy_topk", ValueError, "k must be at most the number of scores, got 8", k=8),
        case("noisy_topk", ValueError, "noise must be one of .*got 'pink'", noise="pink"),
    ],
)  # fmt: skip
def test_bad_input(mechanism, changes, error, message, monkeypatch):
    """Refused at the door: no random word is drawn for it."""
    if "rng" not in changes:
        monkeypatch.setattr(_core, "race", None)
        monkeypatch.setattr(_core, "Joint", None)
    with pytest.raises(error, match=f"^{message}"):
        MECHANISMS[mechanism](**changes)


@pytest.mark.parametrize("name", ["peel", "limited_domain", "joint"])
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
    for name in ("peel", "limited_domain", "joint"):
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
