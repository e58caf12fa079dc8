"""Rounded against you: the one room where it happens, tried on everything awkward."""

import ast
import itertools
import math
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest

from dptopk import rounding

LARGEST, LEAST, NORMAL = sys.float_info.max, 5e-324, sys.float_info.min


def awkward():
    """Doubles > 0: the ends of the range, powers of two and their neighbours, decimals."""
    ends = [LEAST, 2 * LEAST, 3 * LEAST, NORMAL, math.nextafter(NORMAL, 0), LARGEST]
    powers = [2.0**e for e in (-1074, -1060, -1000, -540, -60, -53, -2, -1, 0, 1, 3, 52, 53, 64,
                               511, 1000, 1023)]  # fmt: skip
    beside = [math.nextafter(p, end) for p in powers for end in (0.0, math.inf)]
    plain = [0.1, 0.2, 0.3, 0.37, 1 / 3, 2 / 3, 0.7, math.pi, math.e, 3.0, 5.0, 7.0, 10.0, 1e-6,
             1e-9, 1e-300, 1e16, 1e22, 1e23, 1e300, 1 + 2.0**-52, 1 + 2.0**-30]  # fmt: skip
    few_bits = [m * 2.0**e for m in (5, 11, 2**27 + 1, 2**53 - 1) for e in (-80, -27, 0, 27)]
    return sorted({x for x in (*ends, *powers, *beside, *plain, *few_bits) if 0.0 < x < math.inf})


NUMBERS = awkward()
assert len(NUMBERS) > 80
PAIRS = list(itertools.product(NUMBERS, repeat=2))

#: Each with its exact value, for x, y > 0.
UP = {
    "sum_up": (rounding.sum_up, lambda x, y: x + y),
    "product_up": (rounding.product_up, lambda x, y: x * y),
    "quotient_up": (rounding.quotient_up, lambda x, y: x / y),
}
DOWN = {"difference_down": (rounding.difference_down, lambda x, y: x - y)}


def is_least_above(found, exact):
    """Whether a double is the least that is at least an exact number."""
    before = math.nextafter(found, -math.inf)
    above = found == math.inf or Fraction(found) >= exact
    return above and (before == -math.inf or Fraction(before) < exact)


def is_largest_below(found, exact):
    return is_least_above(-found, -exact)


@pytest.mark.parametrize("name", UP)
def test_up_of_all_pairs(name):
    function, exact = UP[name]
    for x, y in PAIRS:
        assert is_least_above(function(x, y), exact(Fraction(x), Fraction(y))), (x, y)


@pytest.mark.parametrize("name", DOWN)
def test_down_of_all_pairs(name):
    function, exact = DOWN[name]
    for x, y in PAIRS:
        assert is_largest_below(function(x, y), exact(Fraction(x), Fraction(y))), (x, y)


def test_up_and_down_of_all_quotients_either_sign():
    for x, y in PAIRS:
        for exact in (Fraction(x) / Fraction(y), -Fraction(x) / Fraction(y)):
            assert is_least_above(rounding.up(exact), exact)
            assert is_largest_below(rounding.down(exact), exact)


@pytest.mark.parametrize("x", NUMBERS)
def test_doubles_stay_what_they_are(x):
    assert rounding.up(x) == rounding.down(x) == x
    assert rounding.up(Fraction(x)) == rounding.down(Fraction(x)) == x
    assert rounding.below(x) < x < rounding.above(x)
    assert rounding.above(rounding.below(x)) == x


@pytest.mark.parametrize("n", [0, 1, 2, 3, 2**53 + 1, 10**30, *range(4, 300)])
def test_roots_of_integers(n):
    root = rounding.root_up(n)
    assert Fraction(root) ** 2 >= n
    assert n == 0 or Fraction(math.nextafter(root, 0)) ** 2 < n


def test_roots_of_fractions():
    for x, y in PAIRS:
        exact = Fraction(x) / Fraction(y)
        if not Fraction(1, 10**300) < exact < 10**300:
            continue
        root = rounding.root_up(exact)
        assert Fraction(root) ** 2 >= exact > Fraction(math.nextafter(root, 0)) ** 2


@pytest.mark.parametrize("value", [0.0, *NUMBERS])
def test_padding_is_as_much_as_it_says(value):
    for size in (None, value + 1.0, 1e-9):
        for units in (8, 16, 32):
            found = rounding.padded(value, size, units=units)
            asked = value if size is None else size
            exact = Fraction(value) + units * Fraction(asked) * Fraction(2) ** -53
            assert found == math.inf or Fraction(found) >= exact
            assert found == math.inf or found <= float(exact) * (1 + 2**-51) + 2 * LEAST


def test_past_the_range_of_doubles():
    huge = Fraction(10) ** 400
    assert (rounding.up(huge), rounding.down(-huge)) == (math.inf, -math.inf)
    assert (rounding.down(huge), rounding.up(-huge)) == (LARGEST, -LARGEST)
    assert rounding.product_up(math.inf, 2.0) == rounding.quotient_up(math.inf, 2.0) == math.inf
    assert rounding.sum_up(1.0, math.inf) == math.inf


@pytest.mark.parametrize(
    "broken",
    [
        lambda x, y: x * y,  # to the nearest
        lambda x, y: math.nextafter(x * y, math.inf),  # a unit more than is needed
        lambda x, y: math.nextafter(x * y, 0.0),
        lambda x, y: x * y if Fraction(x * y) <= Fraction(x) * Fraction(y) else x * y + LEAST,
    ],
)
def test_products_rounded_otherwise_are_caught(broken):
    in_range = [(x, y) for x, y in PAIRS if 1e-300 < x * y < 1e300]
    assert not all(is_least_above(broken(x, y), Fraction(x) * Fraction(y)) for x, y in in_range)


# ---- what is padded: never below the exact value, and hardly above it

DELTAS = (1e-300, 1e-12, 1e-6, 0.01, 0.3, 0.9)


def approximated():
    """Yield (what, found, exact), the exact value to 60 digits."""
    from dptopk.accounting.stability import stability_threshold
    from dptopk.mechanisms import limited_domain, limited_domain_laplace, stable_release

    log, exp, mpf = mpmath.log, mpmath.exp, mpmath.mpf

    class Bare:
        n_items = None

    for delta in DELTAS:
        for m in (1, 2, 7, 1000):
            found = limited_domain.threshold(Bare, m, None, delta)
            yield "limited_domain", found, log(m) - log(mpf(delta))

            found = limited_domain_laplace.threshold(m, delta)
            passed = m * (2 + mpf(found)) * exp(-mpf(found)) / 4
            yield "limited_domain_laplace", delta / passed, mpf(1)
        for scale in (0.3, 1.0, 2.0, 1e9):
            found = stable_release.release_threshold(delta, scale, "exact")
            yield "stable_release", found, max(mpf(0), -log(2 * mpf(delta)) * mpf(scale))

            found = stability_threshold(delta, query_scale=scale, threshold_scale=scale)
            length = mpf(found) / mpf(scale)
            passed = (2 + length) * exp(-length) / 4
            yield "stability", mpf(delta) / passed, mpf(1)


def test_what_is_padded():
    with mpmath.workdps(60):
        seen = {}
        for what, found, exact in approximated():
            assert found >= exact, what
            # At 0 a threshold can't be any lower.
            if (found > 0 and abs(found - 1) < 0.5) or what in ("limited_domain", "stable_release"):
                seen[what] = seen.get(what, 0) + (found <= exact * (1 + mpmath.mpf(10) ** -9))
        assert len(seen) == 4
        assert min(seen.values()) >= 6  # hardly above it, wherever it is above 0


def test_no_other_module_rounds_by_itself():
    package = Path(rounding.__file__).parent
    found = [
        path.relative_to(package).as_posix()
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "nextafter"
    ]
    assert set(found) <= {"rounding.py"}
