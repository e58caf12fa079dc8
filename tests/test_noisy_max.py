"""noisy_max: dtypes, offsets, edges. Its law and its privacy are in test_verify.py."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dptopk as dp
from dptopk import SeededRng
from dptopk.mechanisms.noisy_max import THEOREMS
from dptopk.reference import noisy_max, peel
from dptopk.rng import TapeRng

NOISES = list(THEOREMS)
COUNTS = np.array([40, 7, 41, 7, 3, 38, 0])


def tape(seed):
    return TapeRng(np.random.default_rng(seed).integers(0, 2**64, size=256, dtype=np.uint64))


def picks(scores, n=200, **changes):
    """One pick from each of n tapes."""
    options = {"epsilon": 0.3, **changes}
    return [dp.noisy_max(scores, rng=tape(seed), **options).items[0] for seed in range(n)]


# ---- the law


def test_gumbel_noise_is_the_exponential_mechanism():
    for scores in itertools.product(range(3), repeat=3):
        law = noisy_max.law(scores, scale=0.7, noise="gumbel")
        assert law == pytest.approx(peel.law(scores, k=1, scale=0.7), rel=1e-11)


@pytest.mark.parametrize("noise", NOISES)
def test_law_by_hand(noise):
    """Of two, the one behind by g scales wins with the chance of a difference of noises."""
    for g in (0.0, 0.4, 3.0):
        e = np.exp(-g)
        behind = {"exponential": e / 2, "gumbel": e / (1 + e), "laplace": e * (2 + g) / 4}[noise]
        assert noisy_max.law([g, 0.0], scale=1.0, noise=noise)[1,] == pytest.approx(behind)


@pytest.mark.parametrize("noise", NOISES)
def test_law_of_offset_scores(noise):
    plain = noisy_max.law([3, 0, 2], scale=1.5, noise=noise)
    assert noisy_max.law([2**62 + 3, 2**62, 2**62 + 2], scale=1.5, noise=noise) == plain
    assert noisy_max.law([1e15 + 3, 1e15, 1e15 + 2], scale=1.5, noise=noise) == plain
    assert noisy_max.law([-3, 0, -2], scale=1.5, noise=noise, largest=False) == plain


# ---- one noise for every dtype and offset


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    "dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i8", "f2", "f4"]
)
def test_any_dtype_draws_alike(dtype, largest, noise):
    """The same tape, the same pick: counts, scores, a Histogram."""
    expected = picks(COUNTS, 60, noise=noise, largest=largest)
    column = np.repeat(COUNTS, 2)[::2].astype(dtype)
    assert picks(column, 60, noise=noise, largest=largest, monotone=True) == expected
    if column.dtype.kind != "f":
        h = dp.Histogram(column)
        assert picks(h, 60, noise=noise, largest=largest) == expected
    general = {"noise": noise, "largest": largest, "monotone": False, "epsilon": 0.6}
    assert picks(column, 60, **general) == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("dtype", ["i1", "i8", "f4", "f8"])
def test_the_least_is_the_largest_of_the_negated(dtype, noise):
    column = (COUNTS - 20).astype(dtype)
    least = picks(column, noise=noise, largest=False, monotone=False)
    assert least == picks(-column, noise=noise, monotone=False)
    assert least != picks(column, noise=noise, monotone=False)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int8, np.int64])
def test_extremes_of_integers_are_turned_round_exactly(dtype):
    info = np.iinfo(dtype)
    column = np.array([info.max, info.min, info.max, info.min + 1], dtype)
    least = [dp.noisy_max(column, epsilon=200.0, largest=False, monotone=False) for _ in range(20)]
    assert {r.items for r in least} == {(1,)}
    most = [dp.noisy_max(column, epsilon=200.0, monotone=False) for _ in range(50)]
    assert {r.items for r in most} == {(0,), (2,)}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("largest", [True, False])
def test_large_offsets_lose_nothing(largest, noise):
    """2**62 and small differences, 1e15 and eighths: the picks of the differences alone."""
    options = {"noise": noise, "largest": largest, "monotone": False}
    expected = picks(COUNTS, **options)
    assert picks(COUNTS + 2**62, **options) == expected
    assert picks(COUNTS - 2**62, **options) == expected
    assert picks(COUNTS.astype(np.uint64) + np.uint64(2**63), **options) == expected
    eighths = {**options, "epsilon": 2.4}
    assert picks(COUNTS / 8, **eighths) == expected
    assert picks(COUNTS / 8 + 1e15, **eighths) == expected
    assert picks(COUNTS / 8 - 1e15, **eighths) == expected
    # The comparison can fail: where a double cannot hold the differences, picks differ.
    assert picks(COUNTS + 2.0**62, **options) != expected


# ---- edges


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("largest", [True, False])
def test_equal_scores_are_picked_evenly(largest, noise):
    """7 equal items, 7,000 draws: chi-square at 1e-9."""
    rng, n = SeededRng(3), 7_000
    drawn = Counter(
        dp.noisy_max([5] * 7, epsilon=1, noise=noise, largest=largest, rng=rng).items[0]
        for _ in range(n)
    )
    statistic = sum((drawn[i] - n / 7) ** 2 / (n / 7) for i in range(7))
    assert statistic < stats.chi2.isf(1e-9, 6)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scores", [[0], [2**62], [-1.5], [1e308]])
def test_one_item(scores, noise):
    for largest in (True, False):
        assert dp.noisy_max(scores, epsilon=1e-3, noise=noise, largest=largest).items == (0,)


@pytest.mark.parametrize("noise", NOISES)
def test_a_million_items_nearly_all_tied(noise):
    """Far above the ties the leader comes out; among them, all over the array."""
    counts = np.zeros(1_000_000, np.int64)
    counts[::50] = np.arange(20_000) % 30
    counts[777] = 200
    h = dp.Histogram(counts)
    for data in (counts, h, counts.astype(np.float64)):
        most = {"epsilon": 1.0, "noise": noise, "monotone": True}
        assert dp.noisy_max(data, **most).items == (777,)
        least = [dp.noisy_max(data, largest=False, **most).items[0] for _ in range(8)]
        assert (counts[least] < 40).all()
        assert len(set(least)) == 8


def test_extremes_of_floats():
    assert dp.noisy_max([1e308, -1e308], epsilon=1.0).items == (0,)
    assert dp.noisy_max([1e308, -1e308], epsilon=1.0, largest=False).items == (1,)
    assert dp.noisy_max([5e-324, 0.0], epsilon=1.0, sensitivity=5e-324).items[0] in (0, 1)


# ---- what is released


def test_scale_and_cost():
    release = dp.noisy_max([3, 900], epsilon=0.5, sensitivity=3)
    assert release.cost == dp.Cost(0.5, 0.0, THEOREMS["exponential"])
    assert release.mechanism == "noisy_max"
    assert release.parameters["scale"] == pytest.approx(6.0)
    assert dict(release.parameters) == {
        "k": 1, "noise": "exponential", "largest": True, "scale": release.parameters["scale"],
        "sensitivity": 3.0, "monotone": True, "n_items": 2,
    }  # fmt: skip
    general = dp.noisy_max([3.0, 900.0], epsilon=0.5, sensitivity=3)
    assert general.parameters["scale"] == pytest.approx(12.0)
    assert not general.parameters["monotone"]
    for noise in NOISES:
        assert dp.noisy_max([1, 2], epsilon=1, noise=noise).cost.theorem == THEOREMS[noise]


def test_what_is_no_double_is_rounded_against_us():
    for epsilon in (0.3, Fraction(1, 3)):
        release = dp.noisy_max([5, 3], epsilon=epsilon, sensitivity=Fraction(1, 11))
        assert Fraction(release.cost.epsilon) <= epsilon
        scale = Fraction(release.parameters["scale"])
        assert scale * Fraction(release.cost.epsilon) >= Fraction(1, 11)


def test_labels():
    h = dp.Histogram([3, 900, 5], labels=["ant", "bee", "cat"])
    assert dp.noisy_max(h, epsilon=1.0).labels == ("bee",)
    assert dp.noisy_max(h, epsilon=9.0, largest=False).labels == ("ant",)
