"""stable_release, stable_queries: thresholds, sessions, bad input. The law is in test_verify.py."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.accounting.stability import release_threshold
from dptopk.reference.noise import LAWS

# A distance of 0 passes with chance 1e-12: secure draws come out as said.
BUDGET = {"epsilon": 1.0, "delta": 1e-12}


@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.01, 0.3, 0.49999999999, 0.5, 0.7])
@pytest.mark.parametrize("scale", [1e-9, 0.7, 1.0, 3e8])
def test_the_threshold_is_the_exact_one_rounded_up(delta, scale):
    with mpmath.workdps(50):
        for bound, factor in (("exact", 2), ("paper", 1)):
            height = mpmath.mpf(release_threshold(delta, scale, bound))
            right = max(mpmath.mpf(0), -mpmath.log(factor * mpmath.mpf(delta)) * mpmath.mpf(scale))
            assert right <= height <= right * (1 + mpmath.mpf(2) ** -48) + mpmath.mpf(5e-324)
    chance = LAWS["laplace"].above(np.array(release_threshold(delta, scale, "exact") / scale))
    assert chance <= delta


def test_one_query():
    answer = dp.stable_release({"any": "object"}, distance=500, **BUDGET)
    assert answer.value == {"any": "object"}
    assert answer.bits.tolist() == [True]
    assert (answer.cost.epsilon, answer.cost.delta) == (1.0, 1e-12)
    assert answer.private
    bot = dp.stable_release("secret", distance=0, **BUDGET, rng=SeededRng(1))
    assert bot.value is None
    assert bot.bits.tolist() == [False]
    assert "secret" not in repr(bot) + repr(bot.__getstate__())
    assert not bot.private
    assert bot.parameters["threshold"] == pytest.approx(math.log(0.5e12))
    three = dp.stable_release("x", distance=0, **BUDGET, sensitivity=3)
    assert three.parameters["threshold"] == pytest.approx(3 * math.log(0.5e12))
    assert Fraction(three.parameters["scale"]) >= 3
    paper = dp.stable_release("x", distance=0, **BUDGET, bound="paper")
    assert paper.parameters["threshold"] == pytest.approx(math.log(1e12))


def test_until_stable():
    queries = [("a", 0), ("b", 0), ("c", 700), ("d", 900)]
    answers = dp.stable_queries(queries, stop="stable", **BUDGET)
    assert answers.values == (None, None, "c")
    assert answers.bits.tolist() == [False, False, True]
    assert answers.exhausted
    assert answers.parameters["max_queries"] == 4
    both = dp.stable_queries(queries, stop="stable", hits=2, **BUDGET)
    assert both.values == (None, None, "c", "d")
    none = dp.stable_queries(queries[:2], stop="stable", **BUDGET)
    assert none.values == (None, None)
    assert none.exhausted  # as many as there could be
    assert dp.stable_queries([], stop="stable", **BUDGET).values == ()


def test_until_unstable():
    queries = [("a", 600), ("b", 700), ("c", 0), ("d", 900), ("e", 0), ("f", 900)]
    answers = dp.stable_queries(queries, stop="unstable", hits=2, epsilon=4.0, delta=1e-12)
    assert answers.values == ("a", "b", None, "d", None)
    assert answers.bits.tolist() == [True, True, False, True, False]
    assert answers.exhausted
    rest = dp.stable_queries(iter(queries[:2]), stop="unstable", **BUDGET)
    assert rest.values == ("a", "b")
    assert not rest.exhausted


def test_unstable_shares_delta_among_hits_and_stable_among_queries():
    def height(**changes):
        queries = dp.StableQueries(**{**BUDGET, "stop": "unstable", **changes})
        return queries.parameters["threshold"]

    one = height()
    assert one == height(max_queries=1) == height(max_queries=1000)
    assert one < height(max_queries=1000, bound="paper")
    stable = height(stop="stable", max_queries=1)
    assert stable == one
    assert height(stop="stable", max_queries=1000) > stable
    # delta / 2 is what each of two has, at twice the noise
    assert height(hits=2) == pytest.approx(height(hits=2, max_queries=2, stop="stable"), rel=1e-12)


def test_a_generator_is_told():
    told = []

    def ask():
        for query in (("a", 0), ("b", 900), ("c", 900)):
            told.append((yield query))

    answers = dp.stable_queries(ask(), stop="stable", max_queries=10, **BUDGET)
    assert answers.values == (None, "b")
    assert told == [None]


def test_a_session_ends_with_its_queries():
    queries = dp.StableQueries(stop="unstable", max_queries=2, hits=5, **BUDGET)
    assert queries.cost.epsilon == 0.0
    assert queries.ask("a", distance=10**4) == "a"
    assert queries.cost.delta == 1e-12
    assert queries.ask("b", distance=10.0**4) == "b"
    assert queries.exhausted
    with pytest.raises(dp.ExhaustedError):
        queries.ask("c", distance=1)
    assert queries.result().values == ("a", "b")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"distance": -1}, ValueError, "distance must not be negative$"),
        ({"distance": math.inf}, ValueError, "distance must be finite$"),
        ({"distance": math.nan}, ValueError, "distance must be finite$"),
        ({"distance": "3"}, TypeError, "distance must be an integer or a float, got str"),
        ({"epsilon": 0}, ValueError, "epsilon must be a finite number > 0"),
        ({"delta": 0}, ValueError, r"delta must be in \(0, 1\), got 0"),
        ({"delta": 1}, ValueError, r"delta must be in \(0, 1\), got 1"),
        ({"sensitivity": 0}, ValueError, "sensitivity must be a finite number > 0"),
        ({"bound": "none"}, ValueError, "bound must be one of exact, paper, got 'none'"),
        ({"rng": 1}, TypeError, "rng must be None"),
    ],
)
def test_bad_input(changes, error, message, monkeypatch):
    """Refused at the door: no random word is drawn for it."""
    monkeypatch.setattr(_core, "sparse_vector", None)
    case = {"distance": 3, **BUDGET, **changes}
    with pytest.raises(error, match=f"^{message}"):
        dp.stable_release("value", **case)
    distance = case.pop("distance")
    with pytest.raises(error, match=f"^{message}"):
        dp.stable_queries([("value", distance)], stop="stable", **case)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"stop": "never"}, ValueError, "stop must be one of stable, unstable, got 'never'"),
        ({"hits": 0}, ValueError, "hits must be an integer >= 1, got 0"),
        ({"max_queries": 0}, ValueError, "max_queries must be an integer >= 1, got 0"),
        ({"split": 2}, ValueError, r"split must be in \(0, 1\), got 2"),
        ({"queries": iter([])}, TypeError, "give max_queries"),
        (
            {"queries": iter([]), "stop": "unstable", "bound": "paper"},
            TypeError,
            "give max_queries",
        ),
        ({"queries": [3]}, TypeError, "a query must be a pair"),
        ({"queries": [(1, 2, 3)]}, TypeError, "a query must be a pair"),
    ],
)
def test_bad_queries(changes, error, message, monkeypatch):
    monkeypatch.setattr(_core, "sparse_vector", None)
    queries = changes.pop("queries", [("a", 1)])
    with pytest.raises(error, match=f"^{message}"):
        dp.stable_queries(queries, **{"stop": "stable", **BUDGET, **changes})
