"""Path counts: doubles within their bound of the exact ones, residues equal to them."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dptopk import _core
from dptopk.reference.paths import bits, count, primes, rows


def error_of(bound):
    """Error of the logarithm over its bound; the exact count is that of the residues."""
    found = _core.paths(np.asarray(bound, np.int64))
    assert found is not None
    with mpmath.workdps(60):
        return float(abs(mpmath.log(count(bound)) - mpmath.mpf(found[0]))) / found[1]


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
    monkeypatch.setattr(_core, "paths", lambda bound: (0.0, 0.0))
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


@settings(max_examples=150, deadline=None, derandomize=True)
@given(staircases(120))
def test_doubles_keep_their_bound(bound):
    assert error_of(bound) <= 1


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(staircases(400))
def test_doubles_keep_their_bound_at_larger_k(bound):
    assert error_of(bound) <= 1


@pytest.mark.parametrize("shape", ["flat", "orders", "even"])
def test_doubles_at_k_1000(shape):
    k = 1000
    if shape == "flat":
        bound = [10**6] * k
    elif shape == "even":
        bound = list(range(k))
    else:
        bound = np.sort(10 ** np.random.default_rng(1).uniform(0, 6, size=k)).astype(int).tolist()
    if shape == "orders":  # residues alone would take some seconds each
        modulus = next(primes())
        assert _core.paths_mod(np.array(bound), modulus) < modulus
        assert _core.paths(np.array(bound)) is not None
    else:
        exact = math.comb(10**6 + k, k) if shape == "flat" else math.comb(2 * k, k) // (k + 1)
        found = _core.paths(np.array(bound, np.int64))
        with mpmath.workdps(60):
            assert abs(mpmath.log(exact) - mpmath.mpf(found[0])) <= found[1]
        assert _core.paths_mod(np.array(bound, np.int64), next(primes())) == exact % next(primes())


@settings(max_examples=150, deadline=None, derandomize=True)
@given(staircases(1000))
def test_doubles_decide_up_to_k_1000(bound):
    assert _core.paths(np.array(bound, np.int64)) is not None


def test_the_bound_is_no_wider_than_need_be():
    """A bound that is a million times too wide would pass all of the above."""
    for k in (1, 10, 100, 400):
        log_count, error = _core.paths(np.full(k, 1000))
        assert error < 1e-15 * (k * k + 100 * k + 10 * log_count)


def test_levels_round_alike(level):
    bound = np.sort(np.random.default_rng(3).integers(0, 10**5, size=97))
    _core.simd_set(0)
    portable = _core.paths(bound)
    _core.simd_set(level)
    assert _core.paths(bound) == portable


def test_primes():
    first = [p for p, _ in zip(primes(), range(40), strict=False)]
    assert first[0] == 2**61 - 1
    assert first == sorted(set(first), reverse=True)
    assert all(pow(a, p - 1, p) == 1 for p in first for a in (2, 3, 41, 10**9 + 7))
