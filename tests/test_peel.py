"""peel: scores and threads. Its law is in test_verify.py."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import dptopk as dp
from dptopk.reference import peel
from dptopk.reference.race import Tape
from dptopk.rng import TapeRng

COUNTS = np.array([40, 7, 41, 7, 3, 38, 0])


def words(seed):
    return np.random.default_rng(seed).integers(0, 2**64, size=256, dtype=np.uint64)


def picks(scores, n=100, **changes):
    """The picks from each of n tapes."""
    options = {"k": 2, "epsilon_step": 0.6, "monotone": False, **changes}
    return [dp.peel(scores, rng=TapeRng(words(seed)), **options).items for seed in range(n)]


def test_general_scores_take_twice_the_noise():
    scores = [-3.0, 0.25, 1e9]
    release = dp.peel(scores, k=1, epsilon=2.0, sensitivity=3.0, monotone=False)
    assert release.parameters["scale"] == pytest.approx(3.0)
    assert release.indices.tolist() == [2]
    counts = dp.peel([1, 2, 10**9], k=1, epsilon=2.0, sensitivity=3.0)
    assert counts.parameters["scale"] == pytest.approx(1.5)


def test_a_sensitivity_that_is_no_double_is_rounded_up():
    release = dp.peel([5, 3], k=1, epsilon_step=0.3, sensitivity=Fraction(1, 11))
    assert Fraction(release.parameters["scale"]) * Fraction(0.3) >= Fraction(1, 11)


@pytest.mark.parametrize(
    "dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", ">f8"]
)
def test_scores_of_any_dtype_draw_alike(dtype):
    """The same tape, the same picks, as counts and as scores of twice the budget."""
    expected = picks(COUNTS, monotone=None, epsilon_step=0.3)
    assert picks(COUNTS.astype(dtype)) == expected
    assert len(set(expected)) > 2


def test_large_offsets_lose_nothing():
    """2**62 and small differences, 1e15 and eighths: the picks of the differences alone."""
    expected = picks(COUNTS)
    assert picks(COUNTS + 2**62) == picks(COUNTS - 2**62) == expected
    assert picks(COUNTS.astype(np.uint64) + np.uint64(2**63)) == expected
    assert picks(COUNTS / 8 + 1e15, epsilon_step=4.8) == expected
    assert picks(COUNTS / 8 - 1e15, epsilon_step=4.8) == expected
    assert picks(COUNTS + 2.0**62) != expected  # it can fail: a double holds no such sums


def test_float_scores_have_the_law_of_their_differences():
    """The reference on the same tape, from scores that are no integers."""
    scores = [0.3, -2.75, 1e15 + 0.125, 1e15 - 0.5, 1e15]
    for seed in range(60):
        source = iter(words(seed).tolist())
        read = Tape(lambda n: [next(source) for _ in range(n)], None)  # noqa: B023
        release = dp.peel(scores, k=3, epsilon_step=1.0, rng=TapeRng(words(seed)))
        assert release.items == peel.sample(read, scores, k=3, scale=release.parameters["scale"])


def test_threads_draw_at_once():
    """Calls from many threads on one histogram: all right, none alike."""
    h = dp.Histogram(np.zeros(100_000, np.int64))
    with ThreadPoolExecutor(8) as pool:
        picks = list(pool.map(lambda _: tuple(dp.peel(h, k=5, epsilon=1).items), range(400)))
    assert len(set(picks)) == 400
