"""Filters: exact sums, and refusal before drawing."""

import copy
import math
import threading
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.accounting import total_epsilon
from dptopk.accounting.compositions import epsilon_of_rho
from dptopk.accounting.prices import bounded_range_rho, laplace_rho
from dptopk.accounting.weights import weight
from dptopk.budget.exact import exact, told_apart
from dptopk.budget.total import rho_of
from dptopk.rounding import down

CLEAR = dp.Histogram([9000, 8000, 40, 3], labels=["ant", "bee", "cat", "dog"])


@pytest.mark.parametrize(
    ("total", "each", "times"),
    [(1.0, 0.5, 2), (1.0, 0.1, 10), (0.3, 0.1, 3), (1, Fraction(1, 3), 3), (2.0, 1e-3, 2000)],
)
def test_a_budget_is_used_up_exactly(total, each, times):
    budget = dp.Filter(epsilon=total)
    for _ in range(times):
        given = budget.charge(each)
        assert Fraction(given) <= exact(each)
        assert given == pytest.approx(float(each))
    assert budget.remaining == (0.0, 0.0, 0.0)
    with pytest.raises(dp.BudgetError, match=r"and 0 is left in this filter"):
        budget.charge(1e-12)


@pytest.mark.parametrize(
    ("each", "asked", "left"),
    [
        (1 / 11, "0.09090909090909091", "0.0909090909090909"),
        (Fraction(1, 9) + Fraction(1, 10**30), "0.1111111111111111111111111111121111",
         "0.1111111111111111111111111111031111"),
        (0.3, "0.3", "0.1"),
    ],
)  # fmt: skip
def test_a_refusal_shows_digits_that_differ(each, asked, left):
    budget = dp.Filter(epsilon=1)
    for _ in range(int(1 / exact(each))):
        budget.charge(each)
    with pytest.raises(dp.BudgetError) as error:
        budget.charge(each)
    assert str(error.value) == (
        f"the call may cost epsilon = {asked}, and {left} is left in this filter"
    )


@pytest.mark.parametrize("kind", [Decimal, Fraction])
def test_decimals_and_fractions_are_exact(kind):
    budget = dp.Filter(epsilon=kind("0.3"), delta=0)
    for _ in range(3):
        budget.charge(kind("0.1"))
    assert budget.remaining.epsilon == 0.0
    budget = dp.Filter(epsilon=kind("1.0"), delta=kind("3e-7"), delta_split=kind("0.5"))
    for _ in range(3):
        budget.limited_domain(
            CLEAR, k=1, k_bar=2, epsilon_step=kind("0.01"), delta_threshold=kind("5e-8")
        )
    assert budget.remaining.delta == 0.0
    assert dp.Session(k_star=3, calls=3, epsilon=kind("1.5"), delta=kind("1e-6")).cost[:2] == (
        1.5, float(kind("1e-6")),
    )  # fmt: skip
    assert Fraction(dp.peel([1, 900], k=1, epsilon=kind("0.1")).cost.epsilon) <= Fraction("0.1")


@pytest.mark.parametrize("value", ["NaN", "sNaN", "Infinity", "-1", "0"])
def test_decimals_out_of_range(value):
    with pytest.raises(ValueError, match="epsilon must be a finite number > 0"):
        dp.Filter(epsilon=Decimal(value))


def test_peel_under_a_pure_filter():
    budget = dp.Filter(epsilon=1.0)
    release = budget.peel([3, 900, 700, 5], k=4, epsilon_step=0.2)
    assert release.parameters["epsilon_step"] <= 0.2
    assert release.cost.theorem.startswith("charged to a filter, whose calls cost this all")
    assert budget.remaining.epsilon == pytest.approx(0.2)
    with pytest.raises(dp.BudgetError, match=r"may cost epsilon = 0.4, and 0.2 is left"):
        budget.peel([3, 900, 700, 5], k=2, epsilon_step=0.2)
    budget.peel([3, 900, 700, 5], k=1, epsilon_step=0.2)
    assert budget.remaining.epsilon == 0.0
    with pytest.raises(ValueError, match="needs a filter with delta > 0"):
        budget.limited_domain(CLEAR, k=1, epsilon_step=0.1, delta_threshold=1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_rho_is_what_the_total_affords(epsilon, delta):
    rho = rho_of(epsilon, delta)
    assert epsilon_of_rho(rho, delta) <= epsilon < epsilon_of_rho(rho * (1 + 1e-12), delta)


def test_equal_steps_compose_to_the_total():
    """What a filter admits at one epsilon is what its total affords, and a little more than
    zCDP composition at epsilon^2/8 a step says.
    """
    budget = dp.Filter(epsilon=1.0, delta=1e-6)
    step = budget.epsilon_step(10)
    for _ in range(10):
        budget.peel(np.arange(5), k=1, epsilon_step=step)
    with pytest.raises(dp.BudgetError):
        budget.peel(np.arange(5), k=1, epsilon_step=step)
    total = epsilon_of_rho(10 * bounded_range_rho(step), 5e-7)
    assert total == pytest.approx(1.0, rel=1e-12)
    assert 1.0 < total_epsilon(step, 10, 5e-7, "zcdp") < 1.001
    assert budget.remaining.rho < 1e-12


def test_limited_domain_pays_for_what_comes_back():
    budget = dp.Filter(epsilon=2.0, delta=1e-6)
    whole = budget.remaining
    assert whole.delta == pytest.approx(5e-7)
    release = budget.limited_domain(
        CLEAR, k=3, k_bar=3, epsilon_step=Fraction(1, 8), delta_threshold=1e-7, rng=SeededRng(1)
    )
    assert (release.labels, release.complete) == (("ant", "bee"), False)
    assert release.parameters["delta_threshold"] == 1e-7
    each = bounded_range_rho(1 / 8)
    assert budget.remaining.rho == pytest.approx(whole.rho - 3 * each)
    budget.limited_domain(CLEAR, k=1, k_bar="private", epsilon_step=0.125, delta_threshold=1e-7)
    assert budget.remaining.rho == pytest.approx(whole.rho - 5 * each)
    assert budget.remaining.delta == pytest.approx(3e-7)
    budget.charge(0.125)  # any pure DP step costs four times as much
    assert budget.remaining.rho == pytest.approx(whole.rho - 5 * each - 4 / 8**3)


def test_the_deltas_of_thresholds_are_used_up_exactly():
    budget = dp.Filter(epsilon=9.0, delta=1e-6)
    for _ in range(5):
        budget.limited_domain(CLEAR, k=1, epsilon_step=0.1, delta_threshold=1e-7)
    with pytest.raises(dp.BudgetError, match=r"costs a delta of 1e-09, and 0 is left"):
        budget.limited_domain(CLEAR, k=1, epsilon_step=0.1, delta_threshold=1e-9)


def test_the_share_of_the_thresholds_is_the_decimal_that_it_prints_as():
    budget = dp.Filter(epsilon=1.0, delta=1e-6, delta_split=0.3)
    for _ in range(3):
        budget.limited_domain(CLEAR, k=1, k_bar=2, epsilon_step=0.01, delta_threshold=1e-7)
    assert budget.remaining.delta == 0.0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_total_given_as_rho(delta):
    budget = dp.Filter(rho=0.3, delta=delta)
    assert budget.remaining == (0.0, down(Fraction(3, 10)), delta / 2)
    for _ in range(3):
        given = budget.charge(rho=0.1)  # a decimal, and used up exactly
        assert math.nextafter(0.1, 0) <= given <= Fraction(1, 10)
    assert budget.remaining.rho == 0.0
    for call in (lambda: budget.charge(rho=1e-9), lambda: budget.charge(1e-9),
                 lambda: budget.peel([1, 2], k=1, epsilon_step=1e-9)):  # fmt: skip
        with pytest.raises(dp.BudgetError, match=r"and 0 is left in this filter"):
            call()
    cost = budget.cost
    assert cost.delta == delta
    assert Fraction(cost.rho) >= Fraction(3, 10)
    assert cost.epsilon == (epsilon_of_rho(0.3, delta / 2) if delta else math.inf)
    assert f", rho={cost.rho!r})" in repr(cost)
    assert "rho=0.3" in str(cost)


def test_a_total_given_as_rho_is_the_one_it_stands_for():
    """The same calls as of the (epsilon, delta) that follows from it."""
    by_rho = dp.Filter(rho=0.02, delta=1e-6)
    again = dp.Filter(epsilon=by_rho.epsilon, delta=1e-6)
    assert again.rho == pytest.approx(0.02, rel=1e-12)
    assert by_rho.epsilon_step(7) == pytest.approx(again.epsilon_step(7), rel=1e-12)
    by_rho.limited_domain(CLEAR, k=1, epsilon_step=0.1, delta_threshold=1e-7)
    with pytest.raises(ValueError, match="needs a filter with delta > 0"):
        dp.Filter(rho=1).limited_domain(CLEAR, k=1, epsilon_step=0.1, delta_threshold=1e-7)


def test_a_charge_is_priced_by_what_is_known_of_its_law():
    for law, price in (("any", lambda e: e * e / 2), ("laplace", laplace_rho),
                       ("bounded_range", bounded_range_rho)):  # fmt: skip
        budget = dp.Filter(rho=1)
        budget.charge(0.5, law=law)
        assert budget.remaining.rho == pytest.approx(1 - price(0.5), rel=1e-14)
        pure = dp.Filter(epsilon=1)
        pure.charge(0.5, law=law)
        assert pure.remaining.epsilon == 0.5


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: dp.Filter(), TypeError, "either epsilon or rho"),
        (lambda: dp.Filter(epsilon=1, rho=1), TypeError, "either epsilon or rho"),
        (lambda: dp.Filter(rho=0), ValueError, "rho must be a finite number > 0"),
        (lambda: dp.Filter(rho="1"), TypeError, "rho must be a real number"),
        (lambda: dp.Filter(rho=1).charge(), TypeError, "either epsilon or rho"),
        (lambda: dp.Filter(rho=1).charge(1, rho=1), TypeError, "either epsilon or rho"),
        (lambda: dp.Filter(rho=1).charge(1, law="normal"), ValueError, "law must be one of"),
        (lambda: dp.Filter(rho=1).charge(rho=-1), ValueError, "rho must be"),
        (lambda: dp.Filter(epsilon=1).charge(rho=0.1), ValueError, "rho needs a filter that"),
    ],
)
def test_bad_rho(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("total", "most"), [({"epsilon": 1.0}, 20), ({"epsilon": 1.0, "delta": 1e-6}, 73)]
)
def test_joint_canonical_and_noisy_max_are_one_bounded_range_step(total, most):
    """Of 0.05 each a total of (1, 1e-6) pays for 73; as any pure DP it would pay for 18."""
    budget, paid = dp.Filter(**total), 0
    calls = (
        lambda: budget.joint(CLEAR, k=3, epsilon_step=0.05),
        lambda: budget.joint(CLEAR, k=2, epsilon_step=0.05, output="sequence"),
        lambda: budget.noisy_max(CLEAR, epsilon_step=0.05, largest=False),
        lambda: budget.joint([0.5, 1.0], k=1, epsilon_step=0.05, sensitivity=0.1),
        lambda: budget.canonical(CLEAR, k=2, epsilon_step=0.05),
    )
    with pytest.raises(dp.BudgetError):  # noqa: PT012
        while True:
            release = calls[paid % len(calls)]()
            paid += 1
    assert paid == most
    assert release.cost == budget.joint.__self__.cost._replace(theorem=release.cost.theorem)


def sums(norm="l2", *, known=False, bound=10, soft_cap=2):
    one = weight(4, soft_cap=soft_cap, norm=norm)
    return dp.Histogram.from_weights(
        [90_000 * one, 80_000 * one, 40 * one, 3 * one], ["ant", "bee", "cat", "dog"],
        soft_cap=soft_cap, norm=norm, max_items_per_user=bound, domain_is_public=known,
    )  # fmt: skip


@pytest.mark.parametrize("known", [False, True])
def test_weighted_by_rho(known):
    budget = dp.Filter(rho=Decimal("0.3"), delta=1e-6)
    delta = 0 if known else 1e-7
    for _ in range(3):
        release = budget.weighted(
            sums(known=known), k=2, rho=Decimal("0.1"), delta_threshold=delta, release_weights=True
        )
    assert release.labels == ("ant", "bee")
    assert release.weights is not None
    assert budget.remaining.rho == 0.0
    assert budget.remaining.delta == pytest.approx(5e-7 - 3 * delta)
    scale = release.parameters["scale"]
    assert scale == pytest.approx(math.sqrt(2 / 0.2), rel=1e-12)
    assert Fraction(scale) ** 2 * Fraction("0.1") >= 1  # S^2 / (2 sigma^2) <= rho
    assert release.cost == budget.cost._replace(theorem=release.cost.theorem)
    assert (release.parameters["threshold"] is None) == known
    with pytest.raises(dp.BudgetError, match="may cost rho = 1e-09, and 0 is left"):
        budget.weighted(sums(known=known), k=2, rho=1e-9, delta_threshold=delta)


def test_the_threshold_of_weighted_is_paid_by_delta():
    budget = dp.Filter(rho=1, delta=1e-6)
    for _ in range(5):
        release = budget.weighted(sums(), rho=0.01, delta_threshold=1e-7)
    with pytest.raises(dp.BudgetError, match="costs a delta of 1e-09, and 0 is left"):
        budget.weighted(sums(), rho=0.01, delta_threshold=1e-9)
    scale, bar = release.parameters["scale"], release.parameters["threshold"]
    masses = [
        -t * float(special.log_ndtr((bar - weight(t, soft_cap=2) / 2**20) / scale))
        for t in range(1, 11)
    ]
    assert 0.9999 < max(masses) / 1e-7 <= 1 - 5e-7 / 2
    alone = dp.weighted(sums(), epsilon=9.0, delta=1e-7)  # of no filter, where delta is not split
    assert alone.parameters["threshold"] < bar


def test_laplace_noise_of_weighted_costs_less_in_rho_than_any_pure_step():
    for total, left in (({"epsilon": 1}, 0.5), ({"rho": 1}, 1 - laplace_rho(0.5))):
        budget = dp.Filter(**total)
        release = budget.weighted(sums("l1", known=True), k=2, epsilon=0.5)
        assert release.labels == ("ant", "bee")
        assert release.parameters["scale"] == 4.0  # min(soft_cap, items) / epsilon
        assert max(budget.remaining) == pytest.approx(left, rel=1e-14)


@pytest.mark.parametrize(
    ("budget", "h", "call", "error", "message"),
    [
        ({"epsilon": 1}, {"known": True}, {"rho": 0.1}, ValueError, "counts in rho"),
        ({"rho": 1}, {}, {"rho": 0.1}, ValueError, "delta_threshold must be in"),
        ({"rho": 1}, {}, {"rho": 0.1, "delta_threshold": 1e-9}, ValueError, "delta > 0"),
        ({"epsilon": 1}, {"norm": "l1"}, {"epsilon": 0.1, "delta_threshold": 1e-9}, ValueError,
         "delta > 0"),
        ({"rho": 1}, {"known": True}, {"epsilon": 0.1}, TypeError, "norm 'l2' takes rho"),
        ({"rho": 1}, {"norm": "l1", "known": True}, {"rho": 0.1}, TypeError, "'l1' takes epsilon"),
        ({"rho": 1}, {"known": True}, {"rho": 0.1, "epsilon": 0.1}, TypeError, "takes rho"),
        ({"rho": 1}, {"known": True}, {}, TypeError, "takes rho"),
        ({"rho": 1}, {"known": True}, {"rho": -1}, ValueError, "rho must be"),
        ({"rho": 1}, {"known": True}, {"rho": Fraction(1, 10**400)}, ValueError, "rho must be"),
        ({"rho": 1}, {"known": True}, {"rho": 1e-300}, ValueError, "noise scale is past"),
        ({"rho": 1}, {"known": True, "norm": "l1"}, {"epsilon": 1e-300}, ValueError, "is past"),
        ({"rho": 1}, {"known": True}, {"rho": 0.1, "delta_threshold": 1e-9}, ValueError,
         "a known domain has no threshold"),
        ({"rho": 1, "delta": 1e-6}, {"bound": None}, {"rho": 0.1, "delta_threshold": 1e-9},
         TypeError, "max_items_per_user must be given"),
        ({"rho": 1}, {"known": True}, {"rho": 0.1, "rng": 3}, TypeError, "rng"),
        ({"rho": 1}, {"known": True}, {"rho": 0.1, "k": 9}, ValueError, "k must be at most"),
    ],
)  # fmt: skip
def test_bad_calls_of_weighted_are_free(budget, h, call, error, message):
    payer = dp.Filter(**budget)
    before = payer.remaining
    with pytest.raises(error, match=message):
        payer.weighted(sums(**h), **{"k": 1, **call})
    assert payer.remaining == before


def test_a_price_past_the_range_of_floats_is_refused():
    budget = dp.Filter(epsilon=1.0, delta=1e-6)
    left = budget.remaining
    with pytest.raises(dp.BudgetError, match=r"rho = 1e\+200, and 0.02"):
        budget.peel([1, 2], k=1, epsilon_step=1e200)
    with pytest.raises(dp.BudgetError, match="rho = more than any float"):
        budget.charge(1e200)
    assert budget.remaining == left


def test_refused_before_anything_is_drawn(monkeypatch):
    monkeypatch.setattr(_core, "race", None)
    budget = dp.Filter(epsilon=1.0, delta=1e-6)
    before = budget.remaining
    with pytest.raises(dp.BudgetError, match="may cost rho = "):
        budget.peel(np.arange(9), k=5, epsilon_step=0.9)
    for changes, error in [
        ({"epsilon_step": 0}, ValueError),
        ({"epsilon_step": "1"}, TypeError),
        ({"epsilon_step": math.inf}, ValueError),
        ({"delta_threshold": 0}, ValueError),
        ({"k": 0}, ValueError),
        ({"k_bar": 0}, ValueError),
        ({"rng": 3}, TypeError),
    ]:
        call = {"k": 1, "epsilon_step": 0.1, "delta_threshold": 1e-8, **changes}
        with pytest.raises(error):
            budget.limited_domain(CLEAR, **call)
    assert budget.remaining == before


def test_a_failure_in_between_keeps_the_charge(monkeypatch):
    def fail(*args):
        raise RuntimeError

    monkeypatch.setattr(_core, "race", fail)
    budget = dp.Filter(epsilon=1.0)
    with pytest.raises(RuntimeError):
        budget.peel([3, 1], k=2, epsilon_step=0.25)
    assert budget.remaining.epsilon == 0.5


def test_threads_never_pay_more_than_there_is():
    budget, paid = dp.Filter(epsilon=1.0), []

    def work():
        try:
            while True:
                budget.charge(Fraction(1, 997))
                paid.append(1)
        except dp.BudgetError:
            pass

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paid) == 997


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"epsilon": 0}, ValueError),
        ({"epsilon": math.nan}, ValueError),
        ({"epsilon": None}, TypeError),
        ({"delta": 1}, ValueError),
        ({"delta": -1e-9}, ValueError),
        ({"delta_split": 1.0}, ValueError),
        ({"delta": 5e-324}, ValueError),
    ],
)
def test_bad_totals(changes, error):
    with pytest.raises(error):
        dp.Filter(**{"epsilon": 1.0, "delta": 1e-6, **changes})


def test_a_filter_is_not_copied():
    with pytest.raises(TypeError, match="spent twice"):
        copy.copy(dp.Filter(epsilon=1.0))


@pytest.mark.parametrize("power", [3, 17, 40, 300])
def test_numbers_that_are_the_same_double_are_told_apart(power):
    asked, left = told_apart(Fraction(1), 1 + Fraction(1, 10**power))
    assert Fraction(asked) == 1
    assert 0 < Fraction(left) - 1 <= 2 * Fraction(1, 10**power)
