"""What all mechanisms share: input, randomness, cost. Their laws are in test_verify.py."""

import inspect
import math

import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.accounting import step_epsilon, total_epsilon
from dptopk.mechanisms.table import MECHANISMS as TABLE

COUNTS = np.array([40, 7, 90, 7, 3, 61, 0])
NEEDED = {"k": 2, "epsilon": 1, "delta": 1e-3, "max_items_per_user": 2, "scale": 1}
PICKING = [n for n, its in TABLE.items() if its.domain and n != "restricted" and not its.weights]
PICKING.append("noisy_topk")


def arguments_of(name):
    return inspect.signature(getattr(dp, name)).parameters


def calling(name):
    """A call with whatever the mechanism needs, and changes to that."""
    needed = {"k", "epsilon", "scale"} & arguments_of(name).keys()
    if TABLE[name].delta == "required":
        needed.add("delta")
    if name in ("limited_domain_laplace", "restricted_normal"):
        needed.add("max_items_per_user")
    options = {argument: NEEDED[argument] for argument in needed}
    return lambda counts=COUNTS, **changes: getattr(dp, name)(counts, **{**options, **changes})


MECHANISMS = {name: calling(name) for name in PICKING}


def that_take(*names):
    return [m for m in MECHANISMS if all(name in arguments_of(m) for name in names)]


FULL_DOMAIN = [m for m in MECHANISMS if TABLE[m].domain == "known"]
ANY_DOMAIN = [m for m in MECHANISMS if TABLE[m].domain == "any"]
BUDGETED = (*FULL_DOMAIN, *ANY_DOMAIN)
SCORED = [m for m in FULL_DOMAIN if TABLE[m].scores]
LIMITED = ("limited_domain", "limited_domain_laplace")
BY_STEP = that_take("epsilon_step")
BY_METHOD = that_take("method")
PURE_TOO = [m for m in FULL_DOMAIN if TABLE[m].delta == "optional"]
OF_K = that_take("k")


def case(mechanism, error, message, **changes):
    return pytest.param(mechanism, changes, error, message, id=f"{mechanism}-{message[:40]}")


@pytest.mark.parametrize(
    ("mechanism", "changes", "error", "message"),
    [
        *(
            case(m, ValueError, f"epsilon must be a finite number > 0, got {bad}", epsilon=bad)
            for m in BUDGETED
            for bad in (-1, 0, math.nan, math.inf)
        ),
        *(
            case(m, TypeError, "epsilon must be a real number, got str", epsilon="1")
            for m in BUDGETED
        ),
        *(
            case(m, TypeError, "give either epsilon .* or epsilon_step", epsilon_step=1.0)
            for m in BY_STEP
        ),
        *(
            case(m, TypeError, "give either epsilon .* or epsilon_step", epsilon=None)
            for m in BY_STEP
        ),
        *(
            case(m, ValueError, "k must be an integer >= 1, got 0", k=0)
            for m in OF_K
        ),
        *(case(m, TypeError, "k must be an integer, got float", k=2.0) for m in OF_K),
        *(case(m, TypeError, "k must be an integer, got bool", k=True) for m in OF_K),
        *(
            case(m, ValueError, "counts must not be negative", counts=np.array([3, -1]), k=1)
            for m in BUDGETED if m != "noisy_max"
        ),
        *(
            case(m, TypeError, "counts must be an array of integers, got float64",
                 counts=np.array([3.0, 1.0]), k=1)
            for m in (*ANY_DOMAIN, "gamma")
        ),
        *(
            case("noisy_max", ValueError, "counts must not be negative",
                 counts=np.array([3, -1]), largest=largest)
            for largest in (True, False)
        ),
        *(
            case(m, TypeError, "monotone must be True or False, got int", monotone=1)
            for m in FULL_DOMAIN
        ),
        *(
            case(m, TypeError, "largest must be True or False, got str", largest="no")
            for m in FULL_DOMAIN if m not in ("peel", "joint", "canonical")
        ),
        *(
            case(m, ValueError, "counts must hold at least one item", counts=[])
            for m in BUDGETED
        ),
        *(case(m, TypeError, "rng must be None", rng=7) for m in MECHANISMS),
        *(
            case(m, ValueError, "method must be one of", method="magic")
            for m in BY_METHOD
        ),
        *(
            case(m, ValueError, "k must be at most the number of items, 7; got 8", k=8)
            for m in (*PURE_TOO, "gamma", "joint", "canonical")
        ),
        *(
            case(m, ValueError, r"delta must be in \[0, 1\), got " + str(bad), delta=bad)
            for m in PURE_TOO
            for bad in (1, -0.1)
        ),
        *(
            case(m, ValueError, "sensitivity must be a finite number > 0", sensitivity=bad)
            for m in FULL_DOMAIN
            for bad in (0, math.nan, math.inf)
        ),
        *(
            case(m, ValueError, f"counts must not contain {what}",
                 counts=np.array([1.0, bad, 2.0], dtype), **changes)
            for m in SCORED
            for dtype in ("f2", "f4", "f8")
            for what, bad in (("NaN", math.nan), ("infinite", math.inf), ("infinite", -math.inf))
            for changes in ({"monotone": False}, {})
        ),
        *(
            case(m, TypeError, "counts must be an array of integers or floats", counts=counts)
            for m in SCORED
            for counts in ([1j, 2j], ["1", "2"], [True, False], [None, 1.0])
        ),
        *(
            case(m, dp.UnknownDomainError, f"{m} is private only over a domain fixed before",
                 counts=dp.Histogram.truncated([3, 1], ["a", "b"], next_count=0, k_bar=2))
            for m in FULL_DOMAIN
        ),
        *(
            case(m, ValueError, f"{m} needs all counts", largest=False,
                 counts=dp.Histogram(COUNTS).truncate(3))
            for m in FULL_DOMAIN if m not in ("joint", "canonical", "peel")
        ),
        *(
            case(m, ValueError, "k must be at most the number of items, 7; got 8", k=8,
                 counts=dp.Histogram(COUNTS).truncate(3))
            for m in FULL_DOMAIN if m != "noisy_max"
        ),
        case("noisy_max", ValueError, "noise must be one of .*, laplace, got 'pink'", noise="pink"),
        case("noisy_max", TypeError, "noise must be a string, got NoneType", noise=None),
        *(
            case(m, error, message, **changes)
            for m in ANY_DOMAIN
            for error, message, changes in (
                (ValueError, r"counts must be below 2\*\*63 - 1",
                 {"counts": np.array([2**63 - 1] * 3), "k_bar": 2}),
                (ValueError, r"delta must be in \(0, 1\), got 0", {"delta": 0}),
                (ValueError, r"delta must be in \(0, 1\), got nan", {"delta": math.nan}),
                (ValueError, "k must be at most k_bar = 1, got 2", {"k_bar": 1}),
                (ValueError, "k_bar must be an integer >= 1, got 0", {"k_bar": 0}),
                (TypeError, "k_bar must be an integer, got float", {"k_bar": 5.0}),
                (ValueError, "k_bar must be at most 3, where the histogram",
                 {"counts": dp.Histogram(COUNTS).truncate(3), "k_bar": 4}),
            )
        ),
        *(
            case(m, ValueError, "max_items_per_user must be an integer >= 1, got 0",
                 max_items_per_user=0)
            for m in LIMITED
        ),
        *(
            case(m, ValueError, "k must be at most 1, where the histogram",
                 counts=dp.Histogram(COUNTS).truncate(1))
            for m in LIMITED
        ),
        *(
            case("top_stable", ValueError, r"split must be in \(0, 1\), got " + str(bad), split=bad)
            for bad in (0, 1, -0.1, math.nan)
        ),
        *(
            case("top_stable", error, message, epsilon_select=bad)
            for error, message, bad in (
                (ValueError, "epsilon_select must be less than epsilon, got 1.0", 1.0),
                (ValueError, "epsilon_select must be a finite number >= 0, got -1", -1),
                (TypeError, "epsilon_select must be a real number, got str", "0"),
            )
        ),
        *(
            case("top_stable", error, message, **changes)
            for error, message, changes in (
                (ValueError, r"k must be an integer or a pair \(lo, hi\), got 3 numbers",
                 {"k": (1, 2, 3)}),
                (ValueError, r"k must be a pair \(lo, hi\) with lo <= hi, got \(3, 2\)",
                 {"k": (3, 2)}),
                (ValueError, r"k\[0\] must be an integer >= 1, got 0", {"k": (0, 2)}),
                (TypeError, r"k\[1\] must be an integer, got float", {"k": (1, 2.0)}),
                (TypeError, r"k\[0\] must be an integer, got bool", {"k": (True, 2)}),
                (TypeError, "k must be an integer, got str", {"k": "1-2"}),
                (TypeError, "k must be an integer, got range", {"k": range(2)}),
                (ValueError, "k_bar goes with a single k", {"k": (1, 2), "k_bar": 3}),
                (ValueError, "epsilon_select goes with a single k",
                 {"k": (1, 2), "epsilon_select": 0.1}),
                (ValueError, "k must be at most 3, where the histogram",
                 {"k": (1, 4), "counts": dp.Histogram(COUNTS).truncate(3)}),
                (ValueError, "k must begin at no more than the number of items, 7; got 8",
                 {"k": (8, 9)}),
                (ValueError, "epsilon is too small", {"k": (1, 2), "epsilon": 5e-324}),
            )
        ),
        *(
            case(m, TypeError, "k must be an integer, got tuple", k=(1, 2))
            for m in OF_K if m != "top_stable"
        ),
        *(
            case(m, ValueError, "bound must be one of exact, paper, got 'long'", bound="long")
            for m in ("top_stable", "restricted_gumbel")
        ),
        case("limited_domain", ValueError, 'k_bar must be an integer, "private" or None',
             k_bar="secret"),
        case("joint", ValueError, "k must be at most the number of items, 7; got 8", k=8,
             counts=dp.Histogram(COUNTS).truncate(3)),
        case("joint", ValueError, "k must be at most 20,000 for a set, got 20001", k=20001,
             counts=np.arange(20500)),
        case("joint", ValueError, "output must be one of set, sequence, got 'list'",
             output="list"),
        case("joint", TypeError, "output must be a string, got int", output=2),
        *(
            case(m, ValueError, r"counts must lie within 2\*\*1000 of each other",
                 counts=[1e308, -1e308])
            for m in ("joint", "canonical")
        ),
        case("canonical", ValueError, "k must be at most the number of items, 7; got 8", k=8,
             counts=dp.Histogram(COUNTS).truncate(3)),
        case("gamma", ValueError, "epsilon is too small for so many items", epsilon=1e-20),
        case("permute_and_flip", ValueError,
             "method must be one of basic, advanced, optimal, got 'zcdp': it needs bounded-range",
             method="zcdp"),
        case("permute_and_flip", TypeError, "method must be a string, got int", method=1),
        case("oneshot", TypeError, "epsilon must be a real number, got NoneType", epsilon=None),
        case("oneshot", ValueError, "noise must be one of .*, got 'uniform'", noise="uniform"),
        case("oneshot", ValueError, "max_items_per_user must be an integer >= 1, got 0",
             max_items_per_user=0),
        case("oneshot", ValueError, "counts must not be negative", counts=np.array([3, -1]), k=1,
             largest=False),
        *(
            case("oneshot", ValueError, f"method 'approximate' needs {what}",
                 **{"method": "approximate", "noise": "laplace", "bound": "paper",
                    "epsilon": 0.2, "delta": 0.05, **changes})
            for what, changes in (
                ("epsilon <= 0.2, got 0.2000", {"epsilon": math.nextafter(0.2, 1)}),
                (r"delta in \(0, 0.05\], got 0.0500", {"delta": math.nextafter(0.05, 1)}),
                (r"delta in \(0, 0.05\], got 0.0", {"delta": 0}),
                ("delta > 0, got 0.0", {"delta": 0, "noise": "best"}),
                ("delta > 0, got 0.0", {"delta": 0, "noise": "gumbel", "bound": "exact"}),
                ("at least 2 items, got 1", {"counts": [5], "k": 1}),
                ("noise 'gumbel', 'laplace' or 'gaussian', got 'exp", {"noise": "exponential"}),
            )
        ),
        *(
            case("oneshot", ValueError, what,
                 **{"noise": "gaussian", "delta": 0.1, "max_items_per_user": 1, **changes})
            for what, changes in (
                ("noise 'gaussian' is never pure", {"method": "pure"}),
                ("noise 'gaussian' needs delta > 0", {"delta": 0.0}),
            )
        ),
        *(
            case("oneshot", ValueError, "(epsilon|sensitivity) (or delta )?is too", **changes)
            for changes in (
                {"epsilon": 5e-324},
                {"sensitivity": 1.7e308},
                {"sensitivity": 1e308, "noise": "gaussian", "delta": 1e-3,
                 "max_items_per_user": 1},
            )
        ),
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


@pytest.mark.parametrize("name", BUDGETED)
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
    for name in BUDGETED:
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
