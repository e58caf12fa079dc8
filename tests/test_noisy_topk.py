"""noisy_topk: dtypes, extremes, the law of its noise."""

import math

import numpy as np
import pytest
from grids import thinned
from scipy import stats

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk._counts import HEAD, Head
from dptopk.mechanisms._select import head_of_scores, select
from dptopk.reference.noise import sequence_law
from dptopk.verification.sampling import chi_square, power


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "f2", "i4", "u8"])
def test_noisy_topk_of_any_real_dtype(dtype):
    scores = np.array([5, 9000, 2, 7000, 1] * 40).astype(dtype)[::-1]
    picks = dp.noisy_topk(scores, 80, scale=0.5)
    assert set(picks.tolist()) == set(np.argsort(-scores.astype(float), kind="stable")[:80])


@pytest.mark.parametrize("noise", sorted({*_core.NOISES} - {"gumbel"}))
def test_few_scores_are_picked_as_many_are(noise, monkeypatch):
    """Arrays of up to FEW go a shorter way: the same picks by the same words, replayed or not.

    Gumbel noise goes another way still: test_draw.py.
    """
    differ = 0
    for seed, kind in enumerate("bhilqBHILQfd" * 2):
        rng = np.random.default_rng(seed)
        scores = rng.integers(0, 100, size=int(rng.integers(1, _core.FEW + 1))).astype(kind)
        k, scale = int(rng.integers(1, scores.size + 1)), float(rng.choice([1.0, 30.0]))

        def picks(scale, scores=scores, k=k, seed=seed):
            rng = SeededRng(seed)
            return dp.noisy_topk(scores[::-1], k, scale=scale, noise=noise, rng=rng).tolist()

        head = head_of_scores(scores[::-1], k=k, scale=scale)
        right, _ = select(head, k=k, scale=scale, noise=noise, rng=SeededRng(seed))
        assert picks(scale) == right.tolist()
        differ += picks(1.3 * scale) != right.tolist()
        if seed < 3:
            monkeypatch.setattr(_core, "error_factor", 2.0**48)
            assert picks(scale) == right.tolist()
            monkeypatch.setattr(_core, "error_factor", 1.0)
    assert differ > 5


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_few_scores_that_are_not_finite_are_refused(bad, dtype):
    scores = np.arange(50, dtype=dtype)
    for at in (0, 20, 49):
        scores[at], kept = bad, scores[at]
        generator = np.random.default_rng(1)
        with pytest.raises(ValueError, match="scores must not contain"):
            dp.noisy_topk(scores, 5, scale=1.0, rng=generator)
        assert generator.random() == np.random.default_rng(1).random()  # no word was read
        scores[at] = kept
    with pytest.raises(ValueError, match="k must be at most"):
        dp.noisy_topk(scores, 51, scale=1.0)
    with pytest.raises(TypeError, match="axis"):
        dp.noisy_topk(scores, 5, scale=1.0, axis=0.0)


WAYS = {
    "few": (5000, 5, 1e-3),
    "a cut": (140_000, 5, 1e-3),
    "a large cut": (1_100_000, 10_000, 1e-3),
    "a part": (140_000, 3000, 10.0),
    "a sieve": (140_000, 3000, 30.0),
    "all": (140_000, 70_000, 100.0),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_many_scores_that_are_not_finite_are_refused(dtype, way):
    """Whichever way they go, wherever one is: no pass but the one that picks looks for it."""
    n, k, scale = WAYS[way]
    scores = np.random.default_rng(1).normal(scale=100.0, size=n).astype(dtype)
    for at in (0, n // 3, n - 1):
        for bad in (math.nan, -math.nan, math.inf, -math.inf):
            kept, scores[at] = scores[at], bad
            generator = np.random.default_rng(1)
            with pytest.raises(ValueError, match="scores must not contain"):
                dp.noisy_topk(scores, k, scale=scale, rng=generator)
            assert generator.random() == np.random.default_rng(1).random()  # no word was read
            with pytest.raises(ValueError, match="scores must not contain"):
                dp.noisy_topk(scores, k, scale=scale)  # by words that may be drawn ahead
            scores[at] = kept
    assert dp.noisy_topk(scores, k, scale=scale).size == k


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_many_scores_of_which_a_sample_is_not_finite_are_refused(bad):
    for n in (5000, 300_000, 1_100_000):
        for scores in (np.full(n, bad), np.append(np.full(n // 2, bad), np.zeros(n // 2))):
            for k in (1, 1000, n // 4):
                with pytest.raises(ValueError, match="scores must not contain"):
                    dp.noisy_topk(scores, k, scale=1.0)


def test_noisy_topk_survives_what_breaks_the_naive_one():
    """Counts that overflow exp, differences that vanish in doubles, extreme scales."""
    assert dp.noisy_topk([10**18, 10**18 + 50, 3], 1, scale=1e-3).tolist() == [1]
    assert dp.noisy_topk(np.array([1e308, -1e308]), 2, scale=1.0).tolist() == [0, 1]
    assert dp.noisy_topk(np.array([2**63, 2**64 - 1], np.uint64), 1, scale=1.0).tolist() == [1]
    assert sorted(dp.noisy_topk([5, 5], 2, scale=1e300).tolist()) == [0, 1]
    assert dp.noisy_topk([5, 1], 1, scale=5e-324).tolist() == [0]


def test_noise_has_the_scale_it_was_given():
    """P(the smaller of two wins) is 1 / (1 + e^(gap/scale)); 20,000 draws, alpha 1e-9."""
    rng = SeededRng(11)
    n, p = 20_000, 1 / (1 + math.e)
    wins = sum(int(dp.noisy_topk([0, 10], 1, scale=10.0, rng=rng)[0] == 0) for _ in range(n))
    low, high = stats.binom.interval(1 - 1e-9, n, p)
    assert low <= wins <= high
    wrong = 1 / (1 + math.exp(0.85))  # a scale 15% off is outside
    assert not low <= n * wrong <= high


SCORES = np.array([7, 5, 5, 2, 0])


def draw(m, noise, scale):
    """noisy_topk; or, of the same scores, the m largest in order and the others as a tail."""
    if m is None:
        return lambda rng: dp.noisy_topk(SCORES, 2, scale=scale, noise=noise, rng=rng)
    keys, items, _ = _core.cut(SCORES, m)
    head = Head(keys, items, SCORES, False)
    return lambda rng: select(head, k=2, scale=scale, noise=noise, rng=rng)[0]


@pytest.mark.slow
@pytest.mark.parametrize(("m", "noise"), thinned([None, 1, 3], _core.NOISES, keep=2))
def test_two_picks_have_the_exact_law_of_each_noise(m, noise):
    def sampler(scale):
        pick = draw(m, noise, scale)

        def sample(draws, seed):
            rng = SeededRng(seed)
            return [tuple(pick(rng).tolist()) for _ in range(draws)]

        return sample

    scores = dict(enumerate(SCORES.tolist()))
    law, wrong = (sequence_law(scores, k=2, scale=scale, noise=noise) for scale in (3.0, 3.15))
    assert power(law, wrong, draws=80_000) > 0.99
    assert chi_square(law, sampler(3.0), draws=80_000, seed=5).passed
    assert not chi_square(law, sampler(3.15), draws=80_000, seed=5).passed


def test_few_scores_are_put_in_order_where_they_fall_steeply():
    """And all of a few thousand where they don't, at any scale and size."""
    for n in (0, 1, 2, 100, 300, 4000, 20_000):
        for k in {1, 10, n // 10, n} - {0}:
            for scores in (np.arange(n), np.linspace(-8e307, 8e307, n), np.zeros(n)):
                for scale in (5e-324, 1e-3, 1e300):
                    if n >= k:
                        size = head_of_scores(scores, k=k, scale=scale).keys.size
                        assert k <= size <= n
    assert head_of_scores(np.arange(4000), k=10, scale=0.1).keys.size < 200
    assert head_of_scores(np.arange(4000), k=10, scale=1e3).keys.size == 4000


def test_picks_from_the_tail_have_the_exact_law():
    """A big flat domain with a small head: items past the head come out, evenly."""
    counts = np.zeros(6000, np.int64)
    counts[::3] = 1
    rng = SeededRng(2)
    picks = np.concatenate([dp.noisy_topk(counts, 50, scale=1.0, rng=rng) for _ in range(1200)])
    ones = int((counts[picks] == 1).sum())
    p = 2000 * math.e / (2000 * math.e + 4000)  # the first pick's share; 50 of 6000 hardly move it
    assert abs(ones / picks.size - p) < 0.01
    cells = np.bincount(picks // 60, minlength=100)
    statistic = ((cells - picks.size / 100) ** 2 / (picks.size / 100)).sum()
    assert statistic < stats.chi2.isf(1e-9, 99)


def test_many_leaders_far_above_the_rest_are_not_searched_for_one_by_one():
    """The head grows past them: one more look for every item would be 100,000 times as many."""
    scores = np.zeros(1_000_000, np.int64)
    leaders = np.random.default_rng(4).choice(scores.size, 2000, replace=False)
    scores[leaders] = 500
    for array in (scores, scores.astype(np.float64)):
        head = head_of_scores(array, k=100, scale=1.0)
        assert head.keys.size > 2000
        assert set(dp.noisy_topk(array, 100, scale=1.0).tolist()) <= set(leaders.tolist())
    # Where nothing is gained, or the tail takes part, the head stays small.
    assert head_of_scores(np.arange(1_000_000), k=100, scale=1.0).keys.size == HEAD + 100
    assert head_of_scores(np.zeros(50_000, np.int64), k=10, scale=1.0).keys.size < HEAD


@pytest.mark.parametrize("scale", [5e-324, 1.0, 1e9, 1.7e308])
@pytest.mark.parametrize(
    "scores",
    [
        100 * np.arange(10_000),
        np.r_[np.full(40, 1e308), np.full(9_000, -1e308), np.zeros(60)],
        np.r_[np.iinfo(np.int64).max, np.full(9_000, np.iinfo(np.int64).min), 0],
        np.r_[np.full(9_000, 1, np.uint64), np.uint64(2**64 - 1)],
        np.r_[np.float32(3e38), np.full(9_000, -3e38, np.float32)],
    ],
    ids=["range", "floats", "int64", "uint64", "float32"],
)
def test_extremes_with_a_tail(scores, scale):
    picks = dp.noisy_topk(scores, 50, scale=scale, rng=SeededRng(1)).tolist()
    assert len(set(picks)) == 50
    if scale <= 1.0:
        assert scores[picks[0]] == scores.max()


@pytest.mark.parametrize("noise", ["gumbel", "laplace"])
def test_few_scores_of_types_the_kernels_do_not_take(noise):
    """Halves go another way; booleans are no scores."""
    halves = np.array([3, -2, 1, 7], np.float16)
    picks = dp.noisy_topk(halves, 2, scale=1e-9, noise=noise, rng=SeededRng(1))
    assert picks.tolist() == [3, 0]
    with pytest.raises(TypeError, match="got bool"):
        dp.noisy_topk(halves > 0, 2, scale=1.0, noise=noise)
