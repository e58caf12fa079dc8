"""Integer noise: kernel against twin, edges. Its law is also in test_verify.py."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from grids import thinned

from dptopk import SeededRng, _core, discrete
from dptopk.accounting.compositions import epsilon_of_rho
from dptopk.reference import discrete as exact
from dptopk.reference.race import Tape

EDGES = np.array([0, 1, 2**64 - 1, 2**64 - 2, 2**63, 2**63 - 1], dtype=np.uint64)
SCALES = [2.0**-50, 1e-3, 0.3, 0.5, 1, 2, 3, 7.5, 1000.7, 1e7, 2.0**40, 2.0**50]


def case(seed):
    """(words, n, scale, noise): every third tape begins with words at the edges."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**64, size=2000, dtype=np.uint64)
    if seed % 3 == 0:
        words[:8] = rng.choice(EDGES, 8)
    return words, int(rng.integers(1, 20)), float(rng.choice(SCALES)), discrete.NOISES[seed % 2]


def kernel(words, n, scale, noise):
    source = _core.TapeSource(words)
    source.begin()
    values = _core.discrete(source, n, scale, _core.DISCRETE[noise])
    return None if values is None else values.tolist()


def reference(words, n, scale, noise, seed=0):
    fresh = np.random.default_rng(seed)
    tape = Tape(
        _core.TapeSource(words).read,
        lambda n: fresh.integers(0, 2**64, size=n, dtype=np.uint64).tolist(),
    )
    return exact.sample(tape, n, scale=scale, noise=noise)


@pytest.mark.slow
def test_kernel_equals_reference_on_the_same_tape():
    decided = 0
    for seed in range(1500):
        words, n, scale, noise = case(seed)
        values = kernel(words, n, scale, noise)
        if values is None:
            # Only the largest scales and words that leave the sampler no bits.
            assert scale > 1e6 or seed % 3 == 0, seed
        else:
            decided += 1
            assert values == reference(words, n, scale, noise), seed
    assert decided > 800


def test_a_broken_twin_disagrees():
    wrong = 0
    for seed in range(300):
        words, n, scale, noise = case(seed)
        right, other = kernel(words, n, scale, noise), kernel(words, n, scale * 1.01, noise)
        wrong += right is not None and right != other
    assert wrong > 50


def test_forced_replay_gives_the_same_values(monkeypatch):
    replays = 0
    for seed in range(150):
        _, n, scale, noise = case(seed)
        monkeypatch.setattr(_core, "error_factor", 1.0)
        values, _ = discrete.draw(noise, n, scale, SeededRng(seed))
        monkeypatch.setattr(_core, "error_factor", 2.0**45)
        again, private = discrete.draw(noise, n, scale, SeededRng(seed))
        assert again.tolist() == values.tolist()
        assert not private
        source = _core.GeneratorSource(SeededRng(seed).generator)
        source.claim()
        replays += _core.discrete(source, n, scale, _core.DISCRETE[noise]) is None
        source.unclaim()
    assert replays > 75


def test_a_whole_part_is_settled_by_further_bits():
    """ln 2 times 1/ln 2 to 53 bits: 64 bits of E lie on both sides of 1."""
    words = np.array([2**63 - 1, 0, 2**63, 0], dtype=np.uint64)
    assert kernel(words[:2], 1, float(np.nextafter(1 / np.log(2), 2)), "laplace") in (None, [0])
    high = np.array([2**64 - 1, 0], dtype=np.uint64)
    assert kernel(high, 1, 1.0, "laplace") is None
    values = {reference(high, 1, 1.0, "laplace", seed=seed)[0] for seed in range(20)}
    assert min(values) >= 44
    assert len(values) > 1


def word_of(e, steps):
    """The word of an exponential variate near e, some words further."""
    return min(max(0, int(mpmath.floor(-mpmath.expm1(-e) * 2**64)) + steps), 2**64 - 1)


@pytest.mark.parametrize("noise", discrete.NOISES)
def test_near_ties_are_never_decided_wrongly(noise):
    """A geometric variate at a whole number, or a trial at the chance that y is kept."""
    decided = wrong = 0
    for seed in range(3000):
        rng = np.random.default_rng(seed)
        words = rng.integers(0, 2**64, size=64, dtype=np.uint64)
        scale = float(rng.choice([1, 3, 7.5, 1000.7]) * rng.uniform(0.5, 2))
        steps = int(rng.choice([-1, 1]) * 2 ** rng.uniform(0, 17))
        with mpmath.workdps(60):
            if noise == "laplace":
                e = int(rng.integers(1, 4 * scale + 2)) / mpmath.mpf(scale)
                words[0] = word_of(e, steps)
            else:
                t = int(scale) + 1
                y = exact.laplace(Tape(_core.TapeSource(words).read, None), Fraction(t))
                e = (abs(y) - mpmath.mpf(scale) ** 2 / t) ** 2 / (2 * mpmath.mpf(scale) ** 2)
                words[2] = word_of(e, steps)
        values = kernel(words, 1, scale, noise)
        if values is not None:
            decided += 1
            wrong += values != reference(words, 1, scale, noise)
    assert not wrong
    assert 300 < decided < 2000


def test_the_tape_is_lengthened_for_many():
    values, private = discrete.draw("gaussian", 5000, 3.0)
    assert private
    assert values.dtype == np.int64
    assert values.shape == (5000,)
    assert discrete.draw("laplace", 0, 1.0)[0].shape == (0,)


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0**-51, 2.0**51, float("nan"), float("inf")])
def test_scales_that_are_not_drawn(scale):
    with pytest.raises(ValueError, match=r"^the noise scale must be from"):
        discrete.draw("laplace", 1, scale)


@pytest.mark.parametrize("factor", [1.0, 2.0**45])
def test_sums_are_held_within_int64(factor, monkeypatch):
    monkeypatch.setattr(_core, "error_factor", factor)
    ends = np.array([2**63 - 1] * 50 + [-(2**63)] * 50)
    noisy, _ = discrete.add_noise(ends, "laplace", 1e6, SeededRng(1))
    noise, _ = discrete.draw("laplace", 100, 1e6, SeededRng(1))
    sums = [int(a) + int(b) for a, b in zip(ends, noise, strict=True)]
    assert noisy.tolist() == [min(max(x, -(2**63)), 2**63 - 1) for x in sums]
    assert len(set(noisy.tolist())) > 25


@pytest.mark.parametrize("scale", [1e6, 1e12])
def test_sums_do_not_wrap_near_the_ends_of_int64(scale):
    """Not at them: the noise reaches past, to one side and the other."""
    far = int(scale)
    for value in (2**63 - 1 - far, far - 2**63):
        noisy, _ = discrete.add_noise(np.full(200, value), "laplace", scale, SeededRng(2))
        noise, _ = discrete.draw("laplace", 200, scale, SeededRng(2))
        sums = [value + int(x) for x in noise]
        assert noisy.tolist() == [min(max(x, -(2**63)), 2**63 - 1) for x in sums]
        assert not -(2**63) <= min(sums) <= max(sums) < 2**63


def test_scales_are_exact_numbers():
    """The twin takes the double for the number it is, not for what it is near to."""
    assert Fraction(0.1) != Fraction(1, 10)
    for noise in discrete.NOISES:
        words = case(1)[0]
        tape = Tape(_core.TapeSource(words).read, lambda n: [0] * n)
        by_fraction = [exact.SAMPLERS[noise](tape, Fraction(0.1)) for _ in range(9)]
        assert by_fraction == reference(words, 9, 0.1, noise)


# ---- tails and calibration, against mpmath


def weights(scale, first, last):
    """exp(-x^2 / (2 scale^2)) with 30 digits."""
    s = mpmath.mpf(scale)
    return [mpmath.exp(-((x / s) ** 2) / 2) for x in range(first, last + 1)]


def exact_log_tail(noise, scale, m):
    if noise == "laplace":
        q = mpmath.exp(-1 / mpmath.mpf(scale))
        return mpmath.log(2 * q**m / (1 + q))
    reach = int(12 * scale) + 4
    whole = 1 + 2 * sum(weights(scale, 1, reach))
    return mpmath.log(2 * sum(weights(scale, m, m + reach)) / whole)


@pytest.mark.slow
@pytest.mark.parametrize("noise", discrete.NOISES)
@pytest.mark.parametrize("scale", [2.0**-50, 0.01, 0.3, 1.0, 3.0, 7.5, 63.9, 64.0, 65.5, 250.0])
def test_tails_are_above_the_exact_ones_and_near(noise, scale):
    with mpmath.workdps(30):
        for m in (1, 2, 3, 7, 32, 63, 64, 65, 100, 251, 1000):
            if m / scale > 1e150:  # past the range of doubles
                continue
            exact_log, bound = exact_log_tail(noise, scale, m), discrete.log_tail(noise, scale, m)
            assert exact_log <= bound <= 0
            coarse = noise == "gaussian" and scale >= discrete.SUMMED
            near = 1e-4 * (1 + (m / scale) ** 2) if coarse else 2e-12 * (1 + abs(exact_log))
            assert bound - exact_log <= near
    assert discrete.log_tail(noise, scale, 0) == discrete.log_tail(noise, scale, -3) == 0.0


@pytest.mark.parametrize("noise", discrete.NOISES)
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 100.0])
@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.95, 0.999999, 1 - 2.0**-53])
def test_margins_are_the_smallest(noise, scale, confidence):
    m = discrete.margin(noise, scale, confidence)
    with mpmath.workdps(30):
        most = mpmath.log(1 - mpmath.mpf(confidence))
        assert exact_log_tail(noise, scale, m + 1) <= most
        assert m == 0 or exact_log_tail(noise, scale, m) > most


@pytest.mark.parametrize("noise", discrete.NOISES)
def test_margins_of_large_scales(noise):
    """There the law is all but continuous."""
    for scale in (1e6, 2.0**50):
        m = discrete.margin(noise, scale, 0.95)
        assert m / scale == pytest.approx({"laplace": 2.995732, "gaussian": 1.959964}[noise], 1e-6)


def test_variances():
    for noise in discrete.NOISES:
        for scale in (0.3, 1.0, 7.5, 70.0):
            law = exact.LAWS[noise](scale)
            expected = sum(x * x * p for x, p in law.items())
            assert discrete.variance(noise, scale) == pytest.approx(expected, rel=1e-9)
        assert discrete.variance(noise, 2.0**-50) == 0.0
    assert discrete.variance("laplace", 1e6) == pytest.approx(2e12)


def test_laplace_scales_are_the_least_that_hold():
    for epsilon in (1e-9, 0.1, 0.3, 1.0, 3.0, 7.7):
        for moved in (1, 2, 3, 100):
            scale = discrete.laplace_scale(epsilon=epsilon, moved=moved)
            assert Fraction(scale) * Fraction(epsilon) >= moved
            assert Fraction(np.nextafter(scale, 0)) * Fraction(epsilon) < moved
    assert discrete.laplace_scale(epsilon=1e300, moved=1) == discrete.LOWEST
    for epsilon in (1e-20, 1e-320):
        with pytest.raises(ValueError, match=r"^epsilon is too small: the noise scale is past"):
            discrete.laplace_scale(epsilon=epsilon, moved=1)


def exact_delta(sigma, epsilon, m):
    """Sum over s of P(S = s) max(0, 1 - exp(epsilon - loss)), S the sum of m noises."""
    reach = int(12 * sigma) + 3
    chances = weights(sigma, -reach, reach)
    one = np.array([float(w / sum(chances)) for w in chances])
    law = one
    for _ in range(m - 1):
        law = np.convolve(law, one)
    loss = (2 * np.arange(-reach * m, reach * m + 1) + m) / (2 * sigma * sigma)
    return float((law * -np.expm1(np.minimum(0.0, epsilon - loss))).sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "m"), thinned([0.3, 0.5, 1.0, 2.0, 5.0, 20.0], [1, 2, 3, 10, 30], keep=2)
)
def test_delta_is_above_the_exact_one_and_near_where_noise_is_not_small(sigma, m):
    for epsilon in (0.1, 1.0, 3.0):
        expected = exact_delta(sigma, epsilon, m)
        bound = discrete.discrete_gaussian_delta(epsilon=epsilon, sigma=sigma, moved=m)
        assert bound >= expected * (1 - 1e-12)
        if m == 1 or sigma * sigma >= 2.5 * m:
            assert bound <= expected * (1 + 1e-9) + 1e-15


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2, 5, 40])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-3), (3.0, 1e-9)])
def test_sigmas_hold_and_are_smaller_than_zcdp_needs(epsilon, delta, m):
    sigma = discrete.discrete_gaussian_sigma(epsilon=epsilon, delta=delta, moved=m)
    if sigma < 30:  # else the convolution takes long
        assert exact_delta(sigma, epsilon, m) <= delta * (1 + 1e-9)
        assert exact_delta(0.999 * sigma, epsilon, m) > delta
    assert (
        discrete.discrete_gaussian_delta(epsilon=epsilon, sigma=sigma, moved=m) <= delta
    )  # to the last place
    assert epsilon_of_rho(m / (2 * sigma * sigma), delta) > 1.02 * epsilon


def test_sigmas_by_zcdp_where_sums_would_be_long():
    for epsilon, delta, m in [(1e-4, 1e-6, 1), (1.0, 1e-6, 10**6), (0.5, 1e-300, 10**5)]:
        sigma = discrete.discrete_gaussian_sigma(epsilon=epsilon, delta=delta, moved=m)
        assert sigma * m**0.5 > discrete.MOST_SIGMA
        rho = m / (2 * sigma * sigma)
        assert epsilon_of_rho(rho * (1 - 1e-15), delta) <= epsilon
        assert epsilon_of_rho(rho * (1 + 1e-9), delta) > epsilon


@pytest.mark.parametrize("m", [1, 2, 1000])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 50.0, 700.0, 1e6, 1e300])
@pytest.mark.parametrize("delta", [1e-300, 1e-9, 0.5, 1 - 2.0**-53])
def test_any_budget_has_a_sigma(epsilon, delta, m):
    sigma = discrete.discrete_gaussian_sigma(epsilon=epsilon, delta=delta, moved=m)
    assert discrete.LOWEST <= sigma <= discrete.HIGHEST
