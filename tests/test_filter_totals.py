"""Totals of filters of every kind and size: they end, never say less than they spend."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import dptopk as dp
from dptopk.accounting.compositions import epsilon_of_rho
from dptopk.budget.exact import exact
from dptopk.budget.total import rho_of

THIRD = Fraction(1, 3)
GOOD = [
    1.7976931348623157e308, 1e308, 1e200, 1e155, 1e100, 1e17, 3.0, 0.3, 1e-10, 1e-100,
    1e-300, 2.2250738585072014e-308, 5e-324,
    Fraction(1, 3), Fraction(10**300, 7), Fraction(1, 7 * 10**300), Fraction(2**53 + 1, 2**53),
    Decimal("0.3"), Decimal("1e-320"), Decimal("1e300"), Decimal("0.3333333333333333333333333"),
    np.float64(0.3), np.float32(0.3), np.float16(0.3), np.longdouble(0.3), np.int64(3), 3, 10**20,
    2**53 + 1,
]  # fmt: skip
BAD = [
    (math.nan, ValueError), (math.inf, ValueError), (0, ValueError), (-1, ValueError),
    (10**400, ValueError), (Fraction(1, 10**400), ValueError), (Decimal("1e400"), ValueError),
    (Decimal("1e-400"), ValueError), (Decimal("sNaN"), ValueError), (Decimal("-0"), ValueError),
    (True, TypeError), (np.bool_(True), TypeError), ("1", TypeError), (1j, TypeError),
    (np.array([1.0]), TypeError), (np.float64(math.nan), ValueError),
]  # fmt: skip


def is_float(value):
    return isinstance(value, float | np.floating)


def said(number, value):
    """What a cost says: a float for the decimal that it prints as."""
    return exact(number) if is_float(value) else Fraction(number)


@pytest.mark.parametrize("value", GOOD, ids=repr)
def test_a_pure_total_is_spent_and_is_no_more_than_the_cost_says(value):
    budget = dp.Filter(epsilon=value)
    assert exact(value) <= said(budget.cost.epsilon, value)
    if Fraction(budget.cost.epsilon) != exact(value):
        assert Fraction(math.nextafter(budget.cost.epsilon, 0)) < exact(value)
    assert budget.charge(exact(value)) <= budget.cost.epsilon
    assert budget.remaining == (0.0, 0.0, 0.0)
    with pytest.raises(dp.BudgetError):
        budget.charge(1e-9)


def test_a_cost_rounded_down_is_caught():
    budget = dp.Filter(epsilon=THIRD)
    assert Fraction(float(THIRD)) < THIRD <= Fraction(budget.cost.epsilon)


@pytest.mark.parametrize("value", GOOD, ids=repr)
@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.5, Fraction(1, 3), Decimal("1e-7")])
def test_a_total_in_rho_ends(value, delta):
    if exact(value) < 1e-290 and delta == 1e-300:
        with pytest.raises(ValueError, match="too small"):
            dp.Filter(epsilon=value, delta=delta)
        return
    budget = dp.Filter(epsilon=value, delta=delta)
    composition = float(exact(delta) / 2)
    assert 0.0 < budget.rho < math.inf
    assert epsilon_of_rho(budget.rho, math.nextafter(composition, 1)) <= budget.cost.epsilon
    assert Fraction(budget.cost.epsilon) <= max(exact(value), Fraction(float(value)))
    assert exact(delta) <= said(budget.cost.delta, delta)
    # Not a small part of what there is, either.
    half = float(exact(value) / 2)
    assert half == 0.0 or budget.rho >= 0.9 * rho_of(half, composition)


@pytest.mark.parametrize("value", GOOD, ids=repr)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_total_given_as_rho_is_no_more_than_the_cost_says(value, delta):
    budget = dp.Filter(rho=value, delta=delta)
    assert exact(value) <= Fraction(budget.cost.rho)
    assert budget.cost.epsilon >= 0.0
    assert budget.charge(rho=exact(value)) <= budget.cost.rho
    assert budget.remaining.rho == 0.0


@pytest.mark.parametrize(("value", "error"), BAD, ids=repr)
@pytest.mark.parametrize("name", ["epsilon", "rho"])
def test_other_totals_are_refused(value, error, name):
    with pytest.raises(error, match=f"{name} must be"):
        dp.Filter(**{name: value})
