"""Prices in zero-concentrated DP: no order of the Rényi divergence asks for more."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dptopk.accounting.prices import bounded_range_rho, laplace_rho, price

EPSILONS = (1e-3, 0.05, 0.3, 1.0, 2.5, 6.0, 12.0, 40.0)
#: Orders less 1: those near 1, where the mean loss is, and those where all is the largest loss.
ORDERS = np.concatenate([np.logspace(-7, 0, 71), np.logspace(0, 5, 101)[1:]])


def divergence(log_p, losses, order):
    """D_a(P || Q) of a law with these log-chances under P, a = 1 + order: last axis outcomes."""
    if order * np.abs(losses).max() < 1.0:  # a sum of small numbers, without cancellation
        return np.log1p((np.exp(log_p) * np.expm1(order * losses)).sum(axis=-1)) / order
    exponents = log_p + order * losses
    top = exponents.max(axis=-1)
    return (top + np.log(np.exp(exponents - top[..., None]).sum(axis=-1))) / order


def two_points(epsilon, shares):
    """The laws that dominate a bounded-range step: losses t and t - e, t a share of e."""
    t = shares * epsilon
    chance = np.expm1(t - epsilon) / np.expm1(-epsilon)
    chances = np.stack([chance, 1 - chance], axis=-1)
    with np.errstate(divide="ignore"):
        return np.log(chances), np.stack([t, t - epsilon], axis=-1)


def bounded_range(epsilon):
    """Largest divergence per order of bounded-range steps, over all orders and laws."""
    shares = np.linspace(0, 1, 4001)[1:-1]
    log_p, losses = two_points(epsilon, shares)
    return max((divergence(log_p, losses, a) / (1 + a)).max() for a in ORDERS)


def laplace(epsilon):
    """The same of Laplace noise, in closed form (Mironov 2017, Proposition 6)."""
    found = []
    for order in ORDERS:
        a = 1 + order
        if order * epsilon < 1.0:  # the same less 1, without cancellation
            tails = a * np.expm1(order * epsilon) + order * np.expm1(-a * epsilon)
            found.append(np.log1p(tails / (2 * a - 1)) / order / a)
        else:
            first = np.log(a / (2 * a - 1)) + order * epsilon
            second = np.log(order / (2 * a - 1)) - a * epsilon
            found.append(np.logaddexp(first, second) / order / a)
    return max(found)


def discrete_laplace(epsilon):
    """The same of discrete Laplace noise on an integer that moves by 1: the loss is e or -e."""
    log_p = np.array([-np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)])
    losses = np.array([epsilon, -epsilon])
    return max(divergence(log_p, losses, a) / (1 + a) for a in ORDERS)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    ("most", "ours"), [(bounded_range, bounded_range_rho), (laplace, laplace_rho)]
)
def test_no_order_asks_for_more_and_the_first_for_all(most, ours, epsilon):
    found = most(epsilon)
    assert found <= ours(epsilon) * (1 + 1e-6)
    assert found >= ours(epsilon) * (1 - 1e-4)


@pytest.mark.parametrize(
    ("most", "wrong"),
    [
        (bounded_range, lambda e: e * e / 10),
        (bounded_range, lambda e: 0.99 * bounded_range_rho(e)),
        (bounded_range, lambda e: bounded_range_rho(e) - e**4 / 500),
        (laplace, lambda e: e * e / 2 - e**3 / 5),
        (laplace, lambda e: 0.99 * laplace_rho(e)),
        (laplace, bounded_range_rho),  # as if Laplace noise were of bounded range
        (discrete_laplace, laplace_rho),  # as if integers had something between them
    ],
)
def test_prices_that_are_too_low_are_seen(most, wrong):
    assert any(most(e) > wrong(e) * (1 + 1e-6) for e in (0.3, 1.0))


@pytest.mark.parametrize("epsilon", [5e-324, 1e-160, 1e-9, 0.1, 0.999999, 1.0, 3.7, 700.0, 1e300])
def test_prices_are_rounded_up_and_hardly_so(epsilon):
    with mpmath.workprec(4000):
        e = mpmath.mpf(epsilon)
        x = e / mpmath.expm1(e) if e < 1e6 else None
        exact = x - 1 - mpmath.log(x) if x is not None else e - 1 - mpmath.log(e)
        both = (
            (bounded_range_rho(epsilon), exact, e * e / 8),
            (laplace_rho(epsilon), e + mpmath.expm1(-e), e * e / 2),
        )
        for ours, least, known in both:
            assert ours >= least
            assert ours <= least * (1 + mpmath.mpf(2) ** -44) + 1e-322
            assert ours <= known * (1 + mpmath.mpf(2) ** -44) + 1e-322


def test_a_price_is_that_of_the_exact_epsilon():
    third = Fraction(1, 3)
    assert price(third, "any") == Fraction(1, 18)
    for law, rho in (("bounded_range", bounded_range_rho), ("laplace", laplace_rho)):
        above = 1 / 3 if Fraction(1 / 3) >= third else math.nextafter(1 / 3, 1)
        assert price(third, law) == Fraction(rho(above))
        assert price(Fraction(10) ** 400, law) == Fraction(10) ** 800 / 2
