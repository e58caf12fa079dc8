"""Theorem 2.3 against exact laws."""

import itertools
import math

import mpmath
import pytest

from dptopk.reference import oneshot
from dptopk.utility import oneshot_recovers


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
    ],
)
def test_bad_input(changes, error):
    with pytest.raises(error, match=next(iter(changes))):
        oneshot_recovers(**{"gap": 1.0, "n_items": 2, "scale": 1.0, **changes})
