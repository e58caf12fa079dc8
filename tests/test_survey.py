"""What a sample tells of many scores: about what is true of them."""

import math

import numpy as np
import pytest

from dptopk import _core

N = 400_000


def survey(scores, k, scale, *, size=1024, origin=0, floor=-math.inf):
    return _core.survey(scores, k, scale, size, origin, floor)


def floor_of(x, k):
    """Return above what about k values are expected, for scores in scales."""
    low, high = x.min() - 5.0, x.max() + 40.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        chances = -np.expm1(-np.exp((x - middle).clip(-700.0, 50.0)))
        low, high = (middle, high) if chances.sum() > k else (low, middle)
    return low


WIDE = {
    "normal": np.random.default_rng(1).normal(scale=100.0, size=N),
    "uniform": np.random.default_rng(2).integers(0, 1000, size=N, dtype=np.int32),
    "equal": np.full(N, -7, np.int64),
    "uint64": np.random.default_rng(3).integers(2**63, 2**63 + 900, size=N, dtype=np.uint64),
    "strided": np.random.default_rng(4).normal(scale=100.0, size=2 * N).astype(np.float32)[::-2],
}


@pytest.mark.parametrize("scores", WIDE.values(), ids=WIDE)
@pytest.mark.parametrize("k", [100, 1000, 10_000])
def test_where_noise_matters_the_sieve_is_about_as_large_as_it_says(scores, k):
    scale, keys = 100.0, _core.keys(scores)
    found = survey(scores, k, scale)
    assert found["spread"] > 12.0
    through = (keys > found["key"]).sum() + N / 2 ** found["bits"]
    assert 0.6 * through < found["through"] < 1.6 * through
    assert found["sieve_cost"] < 1.5 * N
    # What it drops is below this, above which there should be some more than k.
    x = scores.astype(np.float64) / scale if scores.dtype != np.uint64 else keys / scale
    key = np.array([found["key"]])
    real = scores.dtype.kind == "f"
    score = float(key.view(np.float64)[0]) if real and key[0] >= 0 else float(key[0])
    certain = score / scale + found["bits"] * math.log(2)
    if not real or key[0] >= 0:
        assert floor_of(x, 3 * k) - 0.3 < certain < floor_of(x, k)


@pytest.mark.parametrize("k", [10, 1000, 10_000])
def test_where_scores_matter_a_sample_does_not_know(k):
    """The largest are so far above that most picks would be those without noise."""
    steep = np.random.default_rng(1).permutation(N)
    assert survey(steep, k, 1.0)["spread"] == 0.0
    assert survey(steep, k, 1.0)["fall"] > 50.0
    flat = steep // 1000
    assert survey(flat, k, 1.0)["fall"] < 10.0


def test_few_large_scores_that_a_sample_may_miss_are_reckoned_with():
    """By a power of their rank: so a cut is made, which sees them."""
    ranks = np.arange(1, N + 1, dtype=np.float64)
    zipf = np.random.default_rng(1).permutation((1e7 / ranks).astype(np.int64))
    assert survey(zipf, 10, 5000.0)["spread"] == 0.0
    assert survey(WIDE["normal"], 10, 100.0)["spread"] > 12.0


def test_the_part_is_about_as_large_as_it_says():
    scores = np.random.default_rng(1).normal(scale=30.0, size=N)
    for k in (1000, 10_000):
        found = survey(scores, k, 1.0)
        held = (_core.keys(scores) > found["most"]).sum()
        assert 0.5 * held < found["held"] + 1000 < 2.0 * held + 2000
        assert found["floor"] > 3.0
        assert found["part_cost"] < 0.8 * N


@pytest.mark.parametrize("low", [-(2**63), 0, 2**63 - 200])
def test_differences_of_integers_are_exact_wherever_they_are(low):
    """Doubles about 2^63 are 2,048 apart, and keys of small uint64 are about -2^63."""
    scores = np.random.default_rng(1).integers(0, 100, size=N)
    near, far = survey(scores, 1000, 10.0), survey(scores + low, 1000, 10.0)
    key, other = near.pop("key"), far.pop("key")
    assert other - low == key
    assert near.pop("most") == far.pop("most") - low
    assert near == far


def test_no_sieve_lets_all_through():
    """A floor that is as low has no use."""
    for k in (10, 1000, N // 4, N // 2, N):
        assert survey(WIDE["uniform"], k, 1e5)["bits"] > 0
    assert survey(WIDE["uniform"], N, 1e5)["sieve_cost"] > 1.5 * N


def test_a_floor_that_is_known_is_taken():
    scores = WIDE["normal"]
    origin = int(_core.keys(np.array([100.0])).item())
    high, low = (survey(scores, 1000, 100.0, origin=origin, floor=x) for x in (20.0, 3.0))
    assert high["through"] < low["through"]
    assert high["part_cost"] < low["part_cost"]


@pytest.mark.parametrize(
    ("scores", "scale"),
    [
        (np.r_[np.full(5000, -1e308), np.full(5000, 1e308)], 1e-300),
        (np.r_[np.full(5000, -1e308), np.full(5000, 5.0)], 1.0),
        (np.arange(5000.0), 1e-320),
    ],
)
def test_numbers_past_the_range_of_doubles_are_no_way(scores, scale):
    found = survey(scores, 10, scale)
    assert found["sieve_cost"] == found["part_cost"] == math.inf


def test_bad_input():
    scores = np.arange(100)
    for array, k, size in ((scores, 0, 10), (scores, 1, 0), (scores, 1, 101)):
        with pytest.raises(ValueError, match="too few"):
            _core.survey(array, k, 1.0, size)
    with pytest.raises(ValueError, match="halves"):
        _core.survey(scores.astype(np.float16), 1, 1.0, 10)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (9, 3), (3000, 2400), (12_500, 10_000)])
def test_the_fall_of_keys_is_what_some_of_them_tell(n, k, real):
    rng = np.random.default_rng(n)
    scores = rng.normal(size=n) * 1000.0 if real else rng.integers(-50_000, 10**12, size=n)
    keys = _core.keys(scores)
    fall, least = _core.fall_of(np.sort(keys)[::-1].copy(), k, True, real, 4.0)
    ordered = np.sort(scores)[::-1]
    assert fall == float(ordered[k - 1] - ordered[-1]) / 4.0
    assert least == keys.min()
    fall, least = _core.fall_of(keys, k, False, real, 4.0)
    some = np.sort(scores[::8])[::-1]
    assert fall == float(some[max(1, some.size * k // n) - 1] - ordered[-1]) / 4.0
    assert least == keys.min()
    with pytest.raises(ValueError, match="k must be between"):
        _core.fall_of(keys, n + 1, True, real, 1.0)
