"""Path counts: doubles and pairs within their bounds of the exact ones, residues equal to them."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dptopk import _core
from dptopk.reference.interval import Interval
from dptopk.reference.paths import Paths, bits, count, primes, rows


def staircase(bound, *options, **named):
    return _core.Staircase(np.asarray(bound, np.int64), *options, **named)


def error_of(bound, precision, log_exact=None):
    """Error of the logarithm over its bound; the exact count is that of the residues."""
    found = staircase(bound, precision)
    log_count, error = found.log()
    with mpmath.workdps(60):
        exact = mpmath.log(count(bound)) if log_exact is None else log_exact
        if precision != "pairs":
            return float(abs(exact - mpmath.mpf(log_count))) / error
        high, low, exponent, error = found.count()
        log_count = mpmath.log(mpmath.mpf(high) + mpmath.mpf(low)) - exponent * mpmath.log(2)
        before = 0
        for _, placed, theta, _, _ in found.stairs():
            log_count -= (placed - before) * mpmath.log(mpmath.mpf(theta))
            before = placed
        return float(abs(exact - log_count)) / error


HEIGHTS = st.one_of(
    st.integers(0, 3), st.integers(0, 1000), st.integers(0, 10**6), st.integers(0, 2**50)
)


@st.composite
def staircases(draw, most):
    """Stairs of every shape: few or many, even or by orders of magnitude, with long flats."""
    k = draw(st.integers(1, most))
    kind = draw(st.sampled_from(["heights", "even", "orders", "two", "cliff", "concave"]))
    if kind == "heights":
        few = sorted(draw(st.lists(HEIGHTS, min_size=1, max_size=12)))
        where = np.linspace(0, len(few), k, endpoint=False).astype(int)
        return [few[i] for i in where]
    seed = np.random.default_rng(draw(st.integers(0, 2**32)))
    if kind == "even":
        return np.cumsum(seed.integers(0, draw(st.sampled_from([2, 3, 1000])), size=k)).tolist()
    if kind == "orders":
        return np.sort(10 ** seed.uniform(0, draw(st.integers(0, 15)), size=k)).astype(int).tolist()
    if kind == "two":
        at = draw(st.integers(0, k))
        return [draw(st.integers(0, 2))] * at + [draw(st.integers(2, 2**50))] * (k - at)
    if kind == "cliff":
        return [0] * (k - 1) + [draw(st.integers(0, 2**51))]
    return [int((i / k) ** 4 * 10**9) for i in range(1, k + 1)]


def test_by_hand():
    assert count([0]) == 1
    assert count([6]) == 7
    assert count([0, 2]) == 3
    assert count([1, 1]) == 3
    assert count(list(range(10))) == math.comb(20, 10) // 11  # Catalan
    assert rows([0, 2])[-1].ways[2] == 3


@settings(max_examples=150, deadline=None, derandomize=True)
@given(staircases(40))
def test_residues_are_the_integers(bound):
    assert count(bound) == rows(bound)[-1].ways[len(bound)]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(staircases(60))
def test_the_count_fits_its_bits(bound):
    """By integers, which share nothing with the residues; and few bits are to spare."""
    needed = rows(bound)[-1].ways[len(bound)].bit_length()
    assert needed <= bits(bound) <= needed + 5 + 2 * math.log2(len(bound)) * len(set(bound))


def test_the_kernel_is_not_asked_how_many_residues_it_takes(monkeypatch):
    bound = [3 * i * i for i in range(30)]
    expected = rows(bound)[-1].ways[30]
    monkeypatch.setattr(_core, "Staircase", None)
    assert count(bound) == expected


def test_counting_on_a_grid():
    """Number by number, with no formula: another way to the same integers."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        bound = np.sort(rng.integers(0, 12, size=rng.integers(1, 9))).tolist()
        ways = [1] * (bound[0] + 1)  # by the value of the number placed last
        for b in bound[1:]:
            ways = [sum(ways[: x + 1]) for x in range(b + 1)]
        assert count(bound) == sum(ways)


@pytest.mark.parametrize("precision", _core.PRECISIONS)
@settings(max_examples=100, deadline=None, derandomize=True)
@given(bound=staircases(120))
def test_counts_keep_their_bounds(precision, bound):
    assert error_of(bound, precision) <= 1


@pytest.mark.parametrize("precision", _core.PRECISIONS)
def test_broken_twins_are_told_apart(precision):
    """A stair a unit too high, one number too many below it, a step forgotten."""
    bound = [7 * i for i in range(60)]
    for broken in (
        [*bound[:-1], bound[-1] + 1],
        [*bound[:30], bound[31], *bound[31:]],
        [0, *bound[:-1]],
    ):
        with mpmath.workdps(60):
            assert error_of(broken, precision, mpmath.log(count(bound))) > 1


@pytest.mark.parametrize("precision", _core.PRECISIONS)
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(bound=staircases(400))
def test_counts_keep_their_bounds_at_larger_k(precision, bound):
    assert error_of(bound, precision) <= 1


def closed_form(shape, k):
    """A staircase of k numbers, and the logarithm of the number of its paths (call with mpmath)."""
    if shape == "flat":
        return [10**6] * k, log_comb(10**6 + k, k)
    if shape == "steep":  # many numbers to a unit: climbed, not multiplied
        return [k // 50] * k, log_comb(k // 50 + k, k)
    a = {"line": 1, "slope 7": 7, "slope 40": 40}[shape]  # Fuss and Catalan
    return [a * i for i in range(k)], log_comb((a + 1) * k, k) - mpmath.log(a * k + 1)


def log_comb(n, k):
    return mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)


SHAPES = ["flat", "steep", "line", "slope 7", "slope 40"]


@pytest.mark.parametrize("precision", _core.PRECISIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_closed_forms(shape, precision):
    for k in (300, 2000):
        with mpmath.workdps(60):
            bound, log_exact = closed_form(shape, k)
            assert error_of(bound, precision, log_exact) <= 1


def test_residues_of_closed_forms():
    assert count([10**6] * 300) == math.comb(10**6 + 300, 300)
    assert count(list(range(1000))) == math.comb(2000, 1000) // 1001


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_closed_forms_at_the_limit(shape):
    with mpmath.workdps(60):
        bound, log_exact = closed_form(shape, 20_000)
        assert error_of(bound, "plain", log_exact) <= 1
        assert error_of(bound, "rough", log_exact) <= 1


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_pairs_of_closed_forms_at_the_limit(shape):
    with mpmath.workdps(60):
        bound, log_exact = closed_form(shape, 20_000)
        assert error_of(bound, "pairs", log_exact) <= 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(staircases(2000))
def test_doubles_decide_up_to_k_2000(bound):
    assert staircase(bound).log() is not None


@pytest.mark.full
@settings(max_examples=30, deadline=None, derandomize=True)
@given(staircases(20_000))
def test_doubles_decide_up_to_the_limit(bound):
    assert staircase(bound).log() is not None


@pytest.mark.slow
@pytest.mark.parametrize("log_top", [13, 36])
def test_where_paths_are_the_least_likely_to_keep_under_their_stairs(log_top):
    """Stairs that grow by orders of magnitude: rows must reach down 900 bits."""
    bound = np.exp(np.linspace(0, log_top, 20_000)).astype(np.int64).tolist()
    assert staircase(bound).log()[1] < 1e-8


def test_bounds_are_no_wider_than_need_be():
    """Bounds that are a million times too wide would pass all of the above."""
    for k in (1, 10, 100, 400, 20_000):
        log_count, error = staircase(np.full(k, 1000)).log()
        assert error < 1e-15 * (100 * k + 10 * log_count)
        assert staircase(np.full(k, 1000), "pairs").count()[3] < 1e-25 * k
    bound = 10 * np.arange(1000)
    assert staircase(bound).log()[1] < 2e-11
    assert staircase(bound, "rough").log()[1] < 2e-5
    assert staircase(bound, "pairs").count()[3] < 1e-23


@settings(max_examples=60, deadline=None, derandomize=True)
@given(staircases(60))
def test_parts(bound):
    """Where numbers are placed: by doubles, by pairs and by integers, from the top down."""
    paths, plain, taken = Paths(bound), staircase(bound, "plain", rows=True), len(bound)
    for s in range(len(paths.heights) - 2, 0, -1):
        first, exact, slack = paths.parts(s, taken, exact=True)
        assert slack == 0
        total = sum(exact)
        for counted in (plain, paths._pairs):
            start, highs, lows, error = counted.parts(s, taken)
            with mpmath.workdps(50):
                parts = [mpmath.mpf(x) + mpmath.mpf(y) for x, y in zip(highs, lows, strict=True)]
                whole, at = sum(parts), dict(enumerate(parts, start))
                for i, part in enumerate(exact, first):
                    share = mpmath.mpf(part) / total
                    assert abs(at.get(i, 0) / whole - share) <= 2.1 * error * share + error
        start, parts, slack = paths.parts(s, taken)
        known, so_far = dict(enumerate(parts, start)), 0
        for i in range(first, taken + 1):
            so_far += known.get(i, 0)
            true = sum(exact[: i - first + 1]) * sum(parts)
            assert abs(true - so_far * total) <= 2 * slack * total
        taken = max(first, taken - 1)


def test_the_logarithm_for_a_replay():
    for bound in ([0], [3, 3, 10], [i * i for i in range(80)]):
        exact = Interval.exact(count(bound), 200).log()
        near = Paths(bound).log(160)
        assert not near.above(exact)
        assert not exact.above(near)
        width = mpmath.mpf(near.ends[1]) - mpmath.mpf(near.ends[0])
        assert width < 1e-20
        same = Paths(bound).log(160, exact=True)
        assert not same.above(exact)
        assert not exact.above(same)


@pytest.mark.parametrize("precision", _core.PRECISIONS)
def test_levels_round_alike(level, precision):
    rng = np.random.default_rng(3)
    for bound in (np.sort(rng.integers(0, 10**5, size=97)), 9 * np.arange(500)):
        _core.simd_set(0)
        portable = staircase(bound, precision).count()
        _core.simd_set(level)
        assert staircase(bound, precision).count() == portable


def test_primes():
    first = [p for p, _ in zip(primes(), range(40), strict=False)]
    assert first[0] == 2**61 - 1
    assert first == sorted(set(first), reverse=True)
    assert all(pow(a, p - 1, p) == 1 for p in first for a in (2, 3, 41, 10**9 + 7))
