"""permute_and_flip: its law told three ways, its accounting, edges. More is in test_verify.py."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import dptopk as dp
from dptopk.accounting import METHODS, step_epsilon, total_epsilon
from dptopk.mechanisms._calibrate import PURE
from dptopk.reference import noise, peel, permute_and_flip
from dptopk.rng import TapeRng

COUNTS = np.array([40, 7, 41, 7, 3, 38, 0])
CASES = [
    ([0], 1.0),
    ([0, 0, 0], 1.0),
    ([3, 2, 1, 0], 1.0),
    ([3, 2, 1, 0, 0, 7], 2.5),
    ([0.25, -1.5, 0.3, 0.29], 0.1),
    ([50, 0, 49, 20], 0.7),
]


def tape(seed):
    return TapeRng(np.random.default_rng(seed).integers(0, 2**64, size=2048, dtype=np.uint64))


def picks(scores, n=120, **changes):
    """The picks from each of n tapes."""
    options = {"k": 2, "epsilon_step": 0.3, **changes}
    return [dp.permute_and_flip(scores, rng=tape(seed), **options).items for seed in range(n)]


# ---- the law


def by_enumeration(scores, scale):
    """Every permutation, every coin: the algorithm as it is printed."""
    heads = [math.exp((score - max(scores)) / scale) for score in scores]
    orders = list(itertools.permutations(range(len(scores))))
    chances = [0.0] * len(scores)
    for order in orders:
        silent = 1.0
        for item in order:
            chances[item] += silent * heads[item] / len(orders)
            silent *= 1 - heads[item]
    return chances


@pytest.mark.parametrize(("scores", "scale"), CASES)
def test_one_pick_three_ways(scores, scale):
    """Permutations and coins; arrival times; the largest of scores + exponential noise."""
    law = permute_and_flip.law(scores, k=1, scale=scale)
    printed = by_enumeration(scores, scale)
    noisy = noise.set_law(scores, k=1, scale=scale, noise="exponential")
    assert list(law) == list(noisy) == [(i,) for i in range(len(scores))]
    for item, chance in enumerate(printed):
        assert law[item,] == pytest.approx(chance, rel=1e-12)
        assert abs(law[item,] - noisy[item,]) < 1e-12
    assert math.fsum(law.values()) == pytest.approx(1, rel=1e-13)


def test_gumbel_noise_or_one_draw_would_be_seen():
    """The equality above can fail, and k picks are not the k largest of one draw."""
    gumbel = noise.set_law([3, 2, 1, 0], k=1, scale=1.0, noise="gumbel")
    law = permute_and_flip.law([3, 2, 1, 0], k=1, scale=1.0)
    assert max(abs(law[o] - gumbel[o]) for o in law) > 0.05
    one_draw = noise.sequence_law(
        dict(enumerate([3, 2, 1, 0])), k=2, scale=1.0, noise="exponential"
    )
    two = permute_and_flip.law([3, 2, 1, 0], k=2, scale=1.0)
    assert set(two) == set(one_draw)
    assert max(abs(two[o] - one_draw[o]) for o in two) > 0.005


@pytest.mark.parametrize(("scores", "scale"), CASES)
def test_k_picks_are_rounds_over_those_left(scores, scale):
    law = permute_and_flip.law(scores, k=min(3, len(scores)), scale=scale)
    for sequence, chance in law.items():
        left, product = list(range(len(scores))), 1.0
        for item in sequence:
            round_ = by_enumeration([scores[i] for i in left], scale)
            product *= round_[left.index(item)]
            left.remove(item)
        assert chance == pytest.approx(product, rel=1e-11)


def test_law_of_offset_scores():
    plain = permute_and_flip.law([3, 0, 2], k=2, scale=1.5)
    assert permute_and_flip.law([2**62 + 3, 2**62, 2**62 + 2], k=2, scale=1.5) == plain
    assert permute_and_flip.law([1e15 + 3, 1e15, 1e15 + 2], k=2, scale=1.5) == plain
    assert permute_and_flip.law([-3, 0, -2], k=2, scale=1.5, largest=False) == plain


def test_a_pick_scores_at_least_as_high_as_the_exponential_mechanism():
    for scores in itertools.product(range(4), repeat=4):
        ours, theirs = (
            math.fsum(chance * scores[item] for (item,), chance in law.items())
            for law in (
                permute_and_flip.law(scores, k=1, scale=1.0),
                peel.law(scores, k=1, scale=1.0),
            )
        )
        assert ours >= theirs - 1e-12


# ---- what it costs


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(PURE)))
def test_methods_for_bounded_range_are_refused(method):
    with pytest.raises(ValueError, match=f"got '{method}': it needs bounded-range steps"):
        dp.permute_and_flip(COUNTS, k=2, epsilon=1, method=method)


def test_the_cost_is_what_the_noise_pays_for():
    counts = np.arange(200)
    for k, delta in [(1, 0.0), (10, 0.0), (10, 1e-6), (100, 1e-6)]:
        totals = {}
        for method in PURE:
            release = dp.permute_and_flip(counts, k=k, epsilon=1.0, delta=delta, method=method)
            step = release.parameters["epsilon_step"]
            assert step == step_epsilon(1.0, k, delta, method)
            assert 1 / release.parameters["scale"] <= step
            assert release.cost[:2] == (1.0, delta)
            by_step = dp.permute_and_flip(counts, k=k, epsilon_step=0.1, delta=delta, method=method)
            totals[method] = by_step.cost.epsilon
            assert totals[method] == total_epsilon(0.1, k, delta, method)
        default = dp.permute_and_flip(counts, k=k, epsilon_step=0.1, delta=delta)
        assert default.cost.epsilon == totals["optimal"]
        assert totals["optimal"] <= min(totals.values())
    release = dp.permute_and_flip(counts, k=10, epsilon=1.0, delta=1e-6)
    assert release.cost.theorem.endswith("optimal composition of 10 pure DP steps")
    # Bounded range would have afforded more: that is the breach to avoid.
    assert release.parameters["epsilon_step"] < step_epsilon(1.0, 10, 1e-6, "adaptive")


def test_scale():
    """Scores that move both ways take twice the noise; what is no double rounds against us."""
    counts = dp.permute_and_flip([1, 2, 10**9], epsilon=2.0, sensitivity=3)
    assert counts.parameters["scale"] == pytest.approx(1.5)
    scores = dp.permute_and_flip([1.0, 2.0, 1e9], epsilon=2.0, sensitivity=3)
    assert scores.parameters["scale"] == pytest.approx(3.0)
    assert len(scores) == scores.parameters["k"] == 1
    odd = dp.permute_and_flip([5, 3], epsilon_step=0.3, sensitivity=Fraction(1, 11))
    assert Fraction(odd.parameters["scale"]) * Fraction(0.3) >= Fraction(1, 11)


# ---- one noise for every dtype and offset


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    "dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i8", "f2", "f4"]
)
def test_any_dtype_draws_alike(dtype, largest):
    """The same tape, the same picks: counts, scores, a Histogram."""
    expected = picks(COUNTS, 60, largest=largest)
    column = np.repeat(COUNTS, 2)[::2].astype(dtype)
    assert picks(column, 60, largest=largest, monotone=True) == expected
    if column.dtype.kind != "f":
        assert picks(dp.Histogram(column), 60, largest=largest) == expected
    general = {"largest": largest, "monotone": False, "epsilon_step": 0.6}
    assert picks(column, 60, **general) == expected
    assert len(set(expected)) > 2


@pytest.mark.parametrize("largest", [True, False])
def test_large_offsets_lose_nothing(largest):
    options = {"largest": largest, "monotone": False}
    expected = picks(COUNTS, **options)
    assert picks(COUNTS + 2**62, **options) == expected
    assert picks(-COUNTS - 2**62, **{**options, "largest": not largest}) == expected
    assert picks(COUNTS / 8 + 1e15, **{**options, "epsilon_step": 2.4}) == expected
    assert picks(COUNTS + 2.0**62, **options) != expected  # it can fail


# ---- edges


@pytest.mark.parametrize("d", [1, 2, 7, 300])
def test_all_items_when_k_is_d(d):
    for scores in (np.zeros(d, np.int64), np.arange(d) / 3):
        for largest in (True, False):
            release = dp.permute_and_flip(scores, k=d, epsilon=1.0, largest=largest)
            assert sorted(release.items) == list(range(d))


def test_a_million_items_nearly_all_tied():
    counts = np.zeros(1_000_000, np.int64)
    counts[::50] = np.arange(20_000) % 30
    leaders = np.arange(10) * 99
    counts[leaders] = 10_000 - 500 * np.arange(10)
    for data in (counts, dp.Histogram(counts), counts.astype(np.float64)):
        most = dp.permute_and_flip(data, k=10, epsilon_step=0.5, monotone=True)
        assert most.items == tuple(leaders)
        more = dp.permute_and_flip(data, k=60, epsilon_step=0.5, monotone=True)
        assert more.items[:10] == tuple(leaders)
        assert len(set(more.items)) == 60
        least = dp.permute_and_flip(data, k=60, epsilon_step=0.5, monotone=True, largest=False)
        assert len(set(least.items)) == 60
        assert (counts[list(least.items)] < 100).all()


def test_labels():
    h = dp.Histogram([3, 900, 700], labels=["ant", "bee", "cat"])
    assert dp.permute_and_flip(h, k=2, epsilon=2.0).labels == ("bee", "cat")
