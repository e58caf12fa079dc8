"""The utility theorems against exact laws."""

import itertools
import math

import mpmath
import pytest

import dptopk as dp
from dptopk.accounting import step_epsilon
from dptopk.accounting.stability import stability_threshold
from dptopk.mechanisms.top_stable import calibrated
from dptopk.reference import oneshot, peel, restricted, top_stable
from dptopk.utility import (
    limited_domain_accuracy,
    limited_domain_gap,
    oneshot_recovers,
    restricted_gap,
    top_stable_gap,
    top_stable_needs_less,
)


def least_gap(scores):
    return min(b - a for a, b in itertools.pairwise(sorted(scores)))


def chance(scores, k, scale, noise, largest):
    order = sorted(range(len(scores)), key=lambda i: -scores[i] if largest else scores[i])
    law = oneshot.law(scores, k=k, scale=scale, noise=noise, largest=largest)
    return law[tuple(sorted(order[:k]))]


SCORES = [(3, 0), (5, 0, 2), (9, 6, 3, 0), (0, 4, 20, 9, 13), (1, 2, 3, 4, 5)]
CASES = [
    (scores, k, scale, noise, largest)
    for scores in SCORES
    for k in range(1, len(scores))
    for scale in (0.1, 0.5, 1.0, 3.0)
    for noise in ("laplace", "exponential")
    for largest in (True, False)
]


def test_never_above_the_exact_chance():
    for scores, k, scale, noise, largest in CASES:
        bound = oneshot_recovers(gap=least_gap(scores), n_items=len(scores), scale=scale)
        assert bound <= chance(scores, k, scale, noise, largest) + 1e-13


@pytest.mark.parametrize("noise", ["gumbel", "exponential", "laplace", "gaussian"])
def test_by_pairs_across_place_k(noise):
    """Never above the exact chance, whatever the other gaps are; attained by one item of two."""
    for scores, k, scale, _, largest in CASES[:: 2 if noise == "gaussian" else 1]:
        down = sorted(scores, reverse=largest)
        gap = abs(down[k - 1] - down[k])
        options = {"gap": gap, "n_items": len(scores), "scale": scale, "noise": noise}
        bound = oneshot_recovers(k=k, **options)
        exact = chance(scores, k, scale, noise, largest)
        assert bound <= exact + 1e-12
        if len(scores) == 2:
            assert bound == pytest.approx(exact, abs=1e-11)
        if gap == least_gap(scores):
            assert oneshot_recovers(**options) <= exact + 1e-12
    # Only the one gap counts: with ties elsewhere the other bound is nothing.
    tied = {"gap": 20.0, "n_items": 100, "scale": 1.0, "noise": noise}
    assert oneshot_recovers(k=10, **tied) > 0.99
    assert oneshot_recovers(k=100, **tied) == 1.0


def test_two_items_attain_it_with_laplace_noise():
    for gap in (0.5, 2.0, 9.0):
        bound = oneshot_recovers(gap=gap, n_items=2, scale=1.5)
        assert bound == pytest.approx(chance((gap, 0), 1, 1.5, "laplace", True), rel=1e-10)


@pytest.mark.parametrize("wrong", [0.0, 1.0, 1.9])
def test_a_smaller_tail_is_above_the_exact_chance(wrong):
    """The 2 of (2 + x) is needed."""
    x = 2.0 / 1.5
    bound = 1 - (wrong + x) * math.exp(-x) / 4
    assert bound > chance((2.0, 0.0), 1, 1.5, "laplace", True)


@pytest.mark.parametrize("n_items", [2, 1000, 8 * 10**5, 8 * 10**6, 10**18, 2**63 - 1])
@pytest.mark.parametrize("x", [0.0, 1e-300, 3.0, 20.0, 60.0, 700.0, 1e5, 1e308])
def test_rounded_down_at_any_size(n_items, x):
    bound = oneshot_recovers(gap=x, n_items=n_items, scale=1.0)
    with mpmath.workdps(60):
        exact = 1 - (n_items - 1) * (2 + mpmath.mpf(x)) * mpmath.exp(-mpmath.mpf(x)) / 4
        assert bound <= max(0, exact)
        assert bound >= max(0, exact) - (1 - exact) * mpmath.mpf(1e-10) - 2.0**-52


def test_the_smallest_scale_overflows_nothing():
    assert oneshot_recovers(gap=1e300, n_items=5, scale=5e-324) == pytest.approx(1.0)
    assert oneshot_recovers(gap=0.0, n_items=5, scale=5e-324) == 0.0
    assert oneshot_recovers(gap=0, n_items=1, scale=1) == 1.0


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"gap": -1}, ValueError),
        ({"gap": math.nan}, ValueError),
        ({"gap": "1"}, TypeError),
        ({"n_items": 0}, ValueError),
        ({"n_items": 2.0}, TypeError),
        ({"scale": 0}, ValueError),
        ({"k": 3}, ValueError),
        ({"k": 0}, ValueError),
        ({"noise": "uniform"}, ValueError),
    ],
)
def test_bad_input(changes, error):
    with pytest.raises(error, match=next(iter(changes))):
        oneshot_recovers(**{"gap": 1.0, "n_items": 2, "scale": 1.0, **changes})


# ---- gaps: of the stable mechanisms


BUDGET = {"epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize(("split", "bound"), [(0.37, "exact"), (0.45, "exact"), (0.45, "paper")])
@pytest.mark.parametrize(("k", "k_bar"), [(1, 1), (3, 3), (2, 4)])
def test_a_gap_so_large_is_enough_for_top_stable(split, bound, k, k_bar):
    """Theorem 4.1 and its exact form, by the exact law: wherever the gap is."""
    beta = 0.05
    gap = top_stable_gap(k=k, k_bar=k_bar, beta=beta, split=split, bound=bound, **BUDGET)
    plan = calibrated(k, 1.0, 1e-6, k_bar, split, 0.0, "exact", None)
    for place in range(k, k_bar + 1):
        counts = [math.ceil(gap) + 1] * place + [1] * 5
        law = top_stable.law(
            counts, k=k, k_bar=k_bar, threshold=plan.threshold, query_scale=plan.query_scale,
            threshold_scale=plan.threshold_scale, known=False,
        )  # fmt: skip
        full = math.fsum(p for outcome, p in law.items() if len(outcome) == k)
        assert full >= 1 - beta
        if bound == "exact" and k == k_bar:  # and hardly less is not
            assert full < 1 - beta / 2


def test_theorem_4_1_is_the_weaker_one_and_needs_its_split():
    for k in (1, 10, 1000):
        exact, paper = (
            top_stable_gap(k=k, beta=0.01, split=0.45, bound=bound, **BUDGET)
            for bound in ("exact", "paper")
        )
        assert exact < paper == pytest.approx(1 + 4 * math.log(k / 1e-6 / 0.01))
    for split in (0.37, 3 / 7, 0.5, 0.6):
        with pytest.raises(ValueError, match="needs a split in"):
            top_stable_gap(k=3, beta=0.01, split=split, bound="paper", **BUDGET)


def test_theorem_4_2():
    """4 ln(k / db) < sqrt(k / 2) ln(k^2 / db), db = delta beta: not below 10, always past 32."""
    needs = [top_stable_needs_less(k=k, beta=0.05, bound="paper", **BUDGET) for k in range(2, 200)]
    assert not any(needs[:8])
    assert all(needs[31:])
    first = 2 + needs.index(True)
    x = math.log(1 / 1e-6 / 0.05)
    assert 4 * (math.log(first) + x) < math.sqrt(first / 2) * (2 * math.log(first) + x)
    with pytest.raises(ValueError, match="k must be an integer >= 2"):
        top_stable_needs_less(k=1, beta=0.05, **BUDGET)


@pytest.mark.parametrize(("k", "k_bar"), [(1, 4), (2, 4), (3, 4)])
def test_picks_are_as_accurate_as_said(k, k_bar):
    """Lemma 3.1, first half, by the exact law at the k_bar - k items that are just too few."""
    for beta in (0.05, 0.3):
        asked = {"k": k, "k_bar": k_bar, "beta": beta, **BUDGET}
        exact, paper = (limited_domain_accuracy(bound=b, **asked) for b in ("exact", "paper"))
        assert 0 < exact < paper
        step = step_epsilon(1.0, k, 5e-7)
        scores = [exact * 1.0001] * k + [0.0] * (k_bar - k)
        law = peel.law(scores, k=k, scale=1 / step)
        wrong = math.fsum(p for picks, p in law.items() if max(picks) >= k)
        assert beta / 3 < wrong <= beta
        scores[:k] = [0.5 * exact] * k
        law = peel.law(scores, k=k, scale=1 / step)
        assert math.fsum(p for picks, p in law.items() if max(picks) >= k) > beta
    assert limited_domain_accuracy(k=3, beta=0.05, **BUDGET) == 0.0


def test_the_gap_of_the_paper_is_no_promise():
    """At equal counts that are so far above, none of hundreds of calls returns ten."""
    gaps = [limited_domain_gap(k=10, beta=0.05, bound=b, **BUDGET) for b in ("exact", "paper")]
    complete = []
    for gap in gaps:
        h = dp.Histogram([1000 + math.ceil(gap)] * 10 + [1000] * 50)
        rng = dp.SeededRng(3)
        draws = [dp.limited_domain(h, k=10, k_bar=10, rng=rng, **BUDGET) for _ in range(300)]
        complete.append(sum(release.complete for release in draws))
    assert complete[0] >= 0.95 * 300
    assert complete[1] == 0


def test_a_comparison_by_what_the_mechanisms_really_use():
    for k in (2, 5, 20):
        gap = limited_domain_gap(k=k, beta=0.05, **BUDGET)
        step = step_epsilon(1.0, k, 5e-7)
        assert gap == pytest.approx(1 + (math.log(k / 5e-7) + math.log(k / 0.05)) / step)
        less = top_stable_gap(k=k, beta=0.05, **BUDGET) < gap
        assert top_stable_needs_less(k=k, beta=0.05, **BUDGET) == less
    with pytest.raises(ValueError, match="k must be at most k_bar = 2, got 3"):
        limited_domain_gap(k=3, k_bar=2, beta=0.05, **BUDGET)


@pytest.mark.parametrize("bound", ["exact", "paper"])
@pytest.mark.parametrize("k", [1, 3])
def test_a_gap_so_large_is_enough_for_restricted(bound, k):
    """Theorem 4 and its exact form: all k picks pass with chance 1 - beta."""
    beta = 0.05
    gap = restricted_gap(k=k, beta=beta, bound=bound, **BUDGET)
    tail = stability_threshold(1e-6, query_scale=2.0, threshold_scale=2.0)
    law = restricted.passing_law((math.ceil(gap) - 1,) * k, tail, 2.0)
    assert law[k] >= 1 - beta
    if (bound, k) == ("exact", 1):
        assert law[k] < 1 - beta / 2
    assert restricted_gap(k=k, beta=beta, **BUDGET) <= gap


def test_theorem_5():
    """With four steps of limited_domain for the tests, restricted needs the smaller gap."""
    for k in (10, 50, 100):
        step = step_epsilon(1.0, k, 5e-7)
        rival = limited_domain_gap(k=k, beta=0.05, **BUDGET)
        assert restricted_gap(k=k, epsilon=4 * step, delta=5e-7, beta=0.05) < rival
