"""noisy_topk over axes, rows of any length, and many draws: the same as a loop of calls."""

import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.mechanisms import _rows
from dptopk.reference.noise import sequence_law
from dptopk.verification.sampling import chi_square

CASE = {"scale": 2.0, "noise": "laplace"}
ARRAYS = {
    "rows": np.random.default_rng(1).integers(0, 20, size=(7, 30)),
    "floats": np.random.default_rng(2).normal(size=(3, 4, 12)).astype(np.float32),
    "strides": np.random.default_rng(3).integers(0, 90, (40, 12, 6), dtype=np.uint8)[::-2, ::2].T,
    "long": np.random.default_rng(4).integers(0, 9, size=(3, 2600)),
    "one": np.arange(5),
}
SCORES = np.arange(12).reshape(3, 4)
SHORT = ["rows", "strides"]


@pytest.mark.parametrize(
    ("name", "factor"), [(name, 1.0) for name in ARRAYS] + [(name, 2.0**46) for name in SHORT]
)
def test_an_axis_is_a_loop_over_the_rows(name, factor, monkeypatch):
    array = ARRAYS[name]
    if factor > 1.0:
        monkeypatch.setattr(_core, "error_factor", factor)
        array = array[:2, ..., :6]
    for axis in range(-array.ndim, array.ndim):
        k = min(4, array.shape[axis])
        batch, one = np.random.default_rng(5), np.random.default_rng(5)
        for size in (None, 2, (2, 1)):
            picks = dp.noisy_topk(array, k, axis=axis, size=size, rng=batch, **CASE)
            draws = np.zeros(() if size is None else size)
            across = np.moveaxis(array, axis, -1)
            right = np.empty((*draws.shape, *across.shape[:-1], k), np.int64)
            for draw in np.ndindex(draws.shape):
                for row in np.ndindex(across.shape[:-1]):
                    right[(*draw, *row)] = dp.noisy_topk(across[row], k, rng=one, **CASE)
            right = np.moveaxis(right, -1, draws.ndim + axis % array.ndim)
            assert picks.dtype == np.int64
            assert picks.shape == right.shape
            assert picks.tolist() == right.tolist(), (axis, size)
        assert batch.integers(2**60) == one.integers(2**60)


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("real", [False, True])
def test_offsets_are_a_loop_over_the_rows(size, real):
    lengths = [0, 3, 9, 2500, 1, 40, 2600, 0]
    offsets = np.cumsum([0, *lengths], dtype=np.uint32)
    scores = np.random.default_rng(6).integers(0, 30, size=offsets[-1])
    scores = (scores * 0.7)[::-1] if real else scores
    batch, one = np.random.default_rng(5), np.random.default_rng(5)
    picks, places = dp.noisy_topk(scores, 6, offsets=offsets, size=size, rng=batch, **CASE)
    right = []
    for _ in range(size or 1):
        for start, length in zip(offsets.tolist(), lengths, strict=False):
            row, k = scores[start : start + length], min(6, length)
            right += (dp.noisy_topk(row, k, rng=one, **CASE) + start).tolist() if k else []
    assert places.tolist() == np.cumsum([0, *np.minimum(lengths, 6)]).tolist()
    assert picks.shape == ((28,) if size is None else (size, 28))
    assert picks.ravel().tolist() == right
    some = dp.noisy_topk(scores, 6, offsets=offsets[2:5], rng=SeededRng(1), **CASE)
    assert some.offsets.tolist() == [0, 6, 12]
    assert (some.indices[:6] // 12).tolist() == [0] * 6
    assert (some.indices[6:] >= 12).all()


@pytest.mark.parametrize("case", [{"size": 40}, {"size": None}, {"offsets": range(0, 601, 20)}])
def test_workers_change_no_pick(case, monkeypatch):
    monkeypatch.setattr(_rows, "PICKS", 20)
    scores = np.random.default_rng(7).integers(0, 9, size=(30, 20))
    scores = scores.ravel() if "offsets" in case else scores
    draws = [
        list(map(str, dp.noisy_topk(scores, 5, rng=SeededRng(1), workers=workers, **case, **CASE)))
        for workers in (1, 2, 7)
    ]
    assert draws[0] == draws[1] == draws[2]
    private = [
        list(map(str, dp.noisy_topk(scores, 5, workers=workers, **case, **CASE)))
        for workers in (1, 2)
    ]
    assert draws[0] != private[0] != private[1]


def test_draws_of_a_size_have_the_exact_law():
    scores = np.array([7, 5, 5, 2, 0])
    law, wrong = (
        sequence_law(dict(enumerate(scores.tolist())), k=2, scale=scale, noise="laplace")
        for scale in (2.0, 2.15)
    )

    def sample(draws, seed):
        picks = dp.noisy_topk(scores, 2, size=draws, rng=SeededRng(seed), workers=2, **CASE)
        return [tuple(pair) for pair in picks.tolist()]

    assert chi_square(law, sample, draws=200_000, seed=4).passed
    assert not chi_square(wrong, sample, draws=200_000, seed=4).passed


def test_no_axis_is_one_row():
    for size in (None, 3):
        picks = dp.noisy_topk(SCORES.T, 5, axis=None, size=size, rng=SeededRng(1), **CASE)
        right = dp.noisy_topk(SCORES.T.ravel(), 5, size=size, rng=SeededRng(1), **CASE)
        assert picks.tolist() == right.tolist()


def test_no_rows_and_no_draws():
    empty = np.empty((0, 5))
    assert dp.noisy_topk(empty, 2, scale=1.0).shape == (0, 2)
    assert dp.noisy_topk(empty, 2, scale=1.0, size=3).shape == (3, 0, 2)
    assert dp.noisy_topk([1, 2, 3], 2, scale=1.0, size=0).shape == (0, 2)
    assert dp.noisy_topk([1, 2, 3], 2, scale=1.0, size=()).shape == (2,)
    assert dp.noisy_topk([1, 2, 3], 2, scale=1.0, size=(2, 0)).shape == (2, 0, 2)
    nothing = dp.noisy_topk(np.empty(0, np.int64), 2, scale=1.0, offsets=[0])
    assert [each.tolist() for each in nothing] == [[], [0]]


@pytest.mark.parametrize(
    ("scores", "arguments", "kind", "message"),
    [
        (5, {}, ValueError, "at least one dimension"),
        (SCORES, {"k": 5}, ValueError, "k must be at most"),
        (SCORES, {"k": 4, "axis": 0}, ValueError, "k must be at most"),
        (SCORES, {"axis": 2}, ValueError, "axis 2 is out of bounds"),
        (SCORES, {"axis": -3}, IndexError, "axis -3 is out of bounds"),
        (SCORES[0], {"axis": 1}, ValueError, "axis 1 is out of bounds"),
        (SCORES, {"axis": 1.0}, TypeError, "axis"),
        (SCORES, {"axis": None, "k": 13}, ValueError, "k must be at most"),
        (SCORES, {"workers": 0}, ValueError, "workers"),
        (SCORES[0], {"workers": "2"}, TypeError, "workers"),
        (SCORES, {"size": -1}, ValueError, "size"),
        (SCORES, {"size": (2, -1)}, ValueError, "size"),
        (SCORES, {"size": 2.0}, TypeError, "size"),
        (SCORES, {"size": [2]}, TypeError, "size"),
        (SCORES + np.nan, {}, ValueError, "NaN"),
        (SCORES + np.inf, {}, ValueError, "infinite"),
        (SCORES, {"offsets": [0, 12]}, ValueError, "one dimension, if there are offsets"),
        (SCORES[0], {"offsets": [0, 5]}, ValueError, "from 0 to the number"),
        (SCORES[0], {"offsets": [-1, 4]}, ValueError, "from 0 to the number"),
        (SCORES[0], {"offsets": []}, ValueError, "one more than there are rows"),
        (SCORES[0], {"offsets": [0, 3, 2, 4]}, ValueError, "must not fall"),
        (SCORES[0], {"offsets": [[0, 4]]}, ValueError, "offsets must have one dimension"),
        (SCORES[0], {"offsets": [0.0, 4.0]}, TypeError, "offsets must be integers"),
        (SCORES[0], {"offsets": 4}, ValueError, "offsets"),
        (SCORES[0], {"offsets": [0, 4], "axis": 1}, ValueError, "axis"),
        (SCORES, {"rng": 5}, TypeError, "rng"),
        (np.array([["a"]]), {}, TypeError, "scores"),
        ([[1, 2], [3]], {}, ValueError, "scores"),
    ],
)
def test_bad_input(scores, arguments, kind, message):
    arguments = {"k": 2, "scale": 1.0, **arguments}
    with pytest.raises(kind, match=message):
        dp.noisy_topk(scores, arguments.pop("k"), **arguments)
