"""Integer noise: kernel against twin, edges. Its law is also in test_verify.py."""

from fractions import Fraction

import numpy as np
import pytest

from dptopk import SeededRng, _core, discrete
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


def test_scales_are_exact_numbers():
    """The twin takes the double for the number it is, not for what it is near to."""
    assert Fraction(0.1) != Fraction(1, 10)
    for noise in discrete.NOISES:
        words = case(1)[0]
        tape = Tape(_core.TapeSource(words).read, lambda n: [0] * n)
        by_fraction = [exact.SAMPLERS[noise](tape, Fraction(0.1)) for _ in range(9)]
        assert by_fraction == reference(words, 9, 0.1, noise)
