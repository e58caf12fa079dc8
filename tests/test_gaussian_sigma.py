"""The analytic Gaussian calibration, held to its formula in 700 digits."""

import math
from concurrent.futures import ThreadPoolExecutor

import mpmath
import pytest
from grids import thinned

from dptopk.accounting import gaussian_delta, gaussian_sigma
from dptopk.accounting.gaussian import _sigma

EPSILONS = (1e-9, 1e-3, 0.2, 1.0, 10.0, 1e3, 1e6)
DELTAS = (1e-300, 1e-100, 1e-18, 1e-6, 0.05, 0.5, 0.999)


def exact(epsilon, sigma, sensitivity=1.0):
    """The formula as it is printed, with digits to spare."""
    with mpmath.workdps(700):
        r = mpmath.mpf(sensitivity) / mpmath.mpf(sigma)
        e = mpmath.mpf(epsilon)
        return mpmath.ncdf(r / 2 - e / r) - mpmath.exp(e) * mpmath.ncdf(-r / 2 - e / r)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), thinned(EPSILONS, DELTAS, keep=2))
def test_sigma_is_enough_and_two_ulp_less_is_not(epsilon, delta):
    sigma = gaussian_sigma(epsilon=epsilon, delta=delta)
    assert exact(epsilon, sigma) <= delta
    below = sigma
    for _ in range(3):
        below = math.nextafter(below, 0.0)
    assert exact(epsilon, below) > delta


@pytest.mark.parametrize("sensitivity", [1e-3, math.sqrt(3), 7.0, 1e9])
def test_sigma_scales_with_the_sensitivity(sensitivity):
    sigma = gaussian_sigma(epsilon=1.0, delta=1e-6, sensitivity=sensitivity)
    assert exact(1.0, sigma, sensitivity) <= 1e-6
    assert sigma == pytest.approx(sensitivity * gaussian_sigma(epsilon=1.0, delta=1e-6), rel=1e-15)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 4.0, 36.0])
@pytest.mark.parametrize("epsilon", [0.0, *EPSILONS])
def test_delta_is_rounded_up(epsilon, sigma):
    delta, true = gaussian_delta(epsilon=epsilon, sigma=sigma), exact(epsilon, sigma)
    assert true <= delta
    assert delta == 5e-324 or delta <= true * (1 + 2**-51)


def test_known_values():
    # Epsilon 0 is total variation, 2 Phi(1/2) - 1; and the classical bound is worse.
    assert gaussian_delta(epsilon=0.0, sigma=1.0) == pytest.approx(
        math.erf(0.5 / math.sqrt(2)), rel=1e-15
    )
    assert gaussian_sigma(epsilon=1.0, delta=1e-6) < math.sqrt(2 * math.log(1.25e6)) < 5.4


def test_noise_one_part_in_a_million_smaller_costs_more():
    sigma = gaussian_sigma(epsilon=0.5, delta=1e-9)
    assert gaussian_delta(epsilon=0.5, sigma=sigma * (1 - 1e-6)) > 1e-9
    assert gaussian_delta(epsilon=0.5, sigma=sigma) <= 1e-9


def test_threads_and_other_precisions_change_nothing():
    expected = [gaussian_sigma(epsilon=0.3, delta=10.0**-i) for i in range(1, 9)]
    _sigma.cache_clear()
    with mpmath.workprec(20), ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: gaussian_sigma(epsilon=0.3, delta=10.0**-i), range(1, 9)))
    assert found == expected


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 0.1), ValueError, "epsilon must be a finite number > 0, got 0"),
        ((1, 0), ValueError, r"delta must be in \(0, 1\), got 0"),
        ((1, 1), ValueError, r"delta must be in \(0, 1\), got 1"),
        ((1, 0.1, 0), ValueError, "sensitivity must be a finite number > 0"),
        ((1, 0.1, "1"), TypeError, "sensitivity must be a real number"),
        ((1e-300, 1e-300, 1e100), ValueError, "epsilon or delta is too small"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        gaussian_sigma(**dict(zip(("epsilon", "delta", "sensitivity"), arguments, strict=False)))
