"""All noise drawn at once: against its exact twin on the same tape, its law, one row and many."""

import math
import sys

import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.errors import TapeEndError
from dptopk.mechanisms._select import Tail, head_of_scores, select
from dptopk.reference.draw import draw
from dptopk.reference.noise import sequence_law
from dptopk.reference.race import Tape
from dptopk.rng import TapeRng
from dptopk.verification.sampling import chi_square

noisy_topk = sys.modules[dp.noisy_topk.__module__]
EDGES = np.array([0, 1, 2**12 - 1, 2**22, 2**32, 2**63, 2**64 - 2**32, 2**64 - 1], np.uint64)


def words(seed, n):
    """Mostly like random ones; on some tapes many at the edges."""
    rng = np.random.default_rng(seed)
    tape = rng.integers(0, 2**64, size=n, dtype=np.uint64)
    if seed % 4 == 3:
        some = rng.random(n) < 0.3
        tape[some] = rng.choice(EDGES, size=some.sum())
    return tape


def random_case(seed):
    """Scores of every type and shape, with ties, and far apart."""
    rng = np.random.default_rng([seed, 1])
    n = int(rng.integers(1, 150))
    scores = rng.integers(0, int(rng.choice([1, 3, 50, 10**6, 2**60])), size=n)
    kind = seed % 5
    if kind == 1:
        scores = scores * 0.37 - 11.0
    elif kind == 2:
        scores = scores.astype(np.uint64) + np.uint64(2**63)
    elif kind == 3:
        scores = (scores % 100).astype(np.int8)[::-1]
    elif kind == 4:
        scores = scores.astype(np.float32)
    return scores, {"k": int(rng.integers(1, n + 1)), "scale": float(rng.choice([0.5, 7.3, 1e4]))}


def reference(scores, tape, **case):
    fresh = np.random.default_rng(99)
    source = Tape(
        _core.TapeSource(tape).read, lambda n: fresh.integers(0, 2**64, size=n, dtype=np.uint64)
    )
    return draw(source, list(Tail(scores, scores.dtype.kind == "f")), **case)


def kernel(scores, tape, *, k, scale):
    source = _core.TapeSource(tape)
    source.begin()
    picks = _core.draw(source, scores, k, scale)
    return picks if picks is None or picks is False else picks.tolist()


def test_kernel_equals_reference_on_the_same_tape(levels):
    """At every level; and another scale, or the words one further, are seen."""
    cases = []
    for seed in range(120):
        scores, case = random_case(seed)
        tape = words(seed, scores.size)
        if kernel(scores, tape, **case) is not False:
            cases.append((scores, tape, case, reference(scores, tape, **case)))
    assert len(cases) > 80
    for _ in levels:
        undecided = 0
        for scores, tape, case, right in cases:
            picks = kernel(scores, tape, **case)
            undecided += picks is None
            assert picks is None or picks == right
        assert undecided < len(cases) / 2
    scaled = moved = 0
    for scores, tape, case, right in cases:
        scaled += kernel(scores, tape, k=case["k"], scale=1.3 * case["scale"]) not in (None, right)
        moved += kernel(scores, np.roll(tape, 1), **case) not in (None, right)
    assert min(scaled, moved) > 10


def test_kernel_equals_plain_arithmetic_on_many_scores(levels):
    """Of sizes that the reference is slow for: NumPy orders the same, on these tapes."""
    cases = []
    for seed, (n, k) in enumerate([(65, 64), (300, 5), (2000, 1), (3000, 600), (9000, 90)]):
        rng = np.random.default_rng(seed)
        tape = rng.integers(0, 2**64, size=n, dtype=np.uint64)
        noise = -np.log(-np.log1p(-(tape >> np.uint64(11)).astype(float) * 2.0**-53))
        shapes = rng.permutation(n), rng.normal(size=n), np.zeros(n, np.uint8), np.arange(n) % 7
        for scores in (*shapes, np.where(np.arange(n) % 3 > 0, 0, -(10**6))):
            for scale in (0.3, 1000.0):
                values = scores / scale + noise
                cases.append((scores, tape, k, scale, np.argsort(-values)[:k].tolist()))
    for _ in levels:
        for scores, tape, k, scale, right in cases:
            assert kernel(scores, tape, k=k, scale=scale) == right


def test_forced_replay_gives_the_same_picks(monkeypatch):
    for seed in range(10):
        scores, case = random_case(5 * seed)
        scores = scores % 1000
        k, scale = case["k"], case["scale"]
        picks = dp.noisy_topk(scores, k, scale=scale, rng=SeededRng(seed)).tolist()
        right = kernel(scores, SeededRng(seed).generator.integers(
            0, 2**64, size=scores.size, dtype=np.uint64), **case)  # fmt: skip
        assert picks == right
        monkeypatch.setattr(_core, "error_factor", 2.0**52)
        assert scores.size == 1 or kernel(scores, words(seed, scores.size), **case) is None
        again = dp.noisy_topk(scores, k, scale=scale, rng=SeededRng(seed)).tolist()
        assert again == picks
        monkeypatch.setattr(_core, "error_factor", 1.0)


@pytest.mark.parametrize("more", [0, 100])
def test_picks_have_the_exact_law(more):
    """By themselves, and before scores that are far below: then most never get a noise."""
    scores = np.r_[np.array([7, 5, 5, 2, 0]), np.full(more, -1000)]
    law = sequence_law(dict(enumerate(scores[:5].tolist())), k=2, scale=3.0, noise="gumbel")

    def sample(scale, twin=False):
        def pairs(draws, seed):
            rng = SeededRng(seed)
            if not twin:
                return [
                    tuple(dp.noisy_topk(scores, 2, scale=scale, rng=rng).tolist())
                    for _ in range(draws)
                ]
            tapes = rng.generator.integers(0, 2**64, size=(draws, scores.size), dtype=np.uint64)
            tapes[:, 1::2] = tapes[:, : scores.size - 1 : 2]  # a word serves two items
            return [
                tuple(dp.noisy_topk(scores, 2, scale=scale, rng=TapeRng(tape)).tolist())
                for tape in tapes
            ]

        return pairs

    assert chi_square(law, sample(3.0), draws=20_000, seed=5).passed
    assert not chi_square(law, sample(4.0), draws=20_000, seed=5).passed
    assert not chi_square(law, sample(3.0, twin=True), draws=20_000, seed=5).passed


@pytest.mark.parametrize("factor", [1.0, 2.0**52])
def test_rows_are_a_loop_over_the_rows(factor, monkeypatch):
    """Of lengths on both sides of every limit, and scores too far apart to be drawn so."""
    monkeypatch.setattr(_core, "error_factor", factor)
    monkeypatch.setattr(noisy_topk, "DRAWN", 60)
    monkeypatch.setattr(noisy_topk, "MAY_BE_DRAWN", 500)
    lengths = [0, 3, 60, 61, 1, 500, 501, 40, 0, 9]
    if factor > 1.0:
        lengths = [0, 3, 20, 61, 1, 0, 9]
    offsets = np.cumsum([0, *lengths])
    rng = np.random.default_rng(6)
    for scores in (
        rng.integers(0, 30, size=offsets[-1]),
        (1e3 * rng.normal(size=offsets[-1]))[::-1],
        rng.integers(0, 2**62, size=offsets[-1]),
    ):
        batch, one = np.random.default_rng(5), np.random.default_rng(5)
        picks, places = dp.noisy_topk(scores, 6, scale=2.0, offsets=offsets, rng=batch)
        right = []
        for start, length in zip(offsets.tolist(), lengths, strict=False):
            row, k = scores[start : start + length], min(6, length)
            right += (dp.noisy_topk(row, k, scale=2.0, rng=one) + start).tolist() if k else []
        assert picks.tolist() == right
        assert places.tolist() == np.cumsum([0, *np.minimum(lengths, 6)]).tolist()
        assert batch.integers(2**60) == one.integers(2**60)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_an_axis_is_a_loop_over_the_rows(axis):
    array = np.random.default_rng(3).integers(0, 90, (14, 33, 6), dtype=np.uint8)[::-2, ::2]
    batch, one = SeededRng(5), SeededRng(5)
    picks = np.moveaxis(dp.noisy_topk(array, 4, scale=3.0, axis=axis, rng=batch), axis, -1)
    rows = np.moveaxis(array, axis, -1)
    right = [
        dp.noisy_topk(rows[at], 4, scale=3.0, rng=one).tolist() for at in np.ndindex(rows.shape[:2])
    ]
    assert picks.reshape(-1, 4).tolist() == right


def test_scores_that_are_far_apart_go_another_way():
    """So do many: the same picks as by a race, on the same words."""
    apart = np.arange(50) * 10**15
    many = np.random.default_rng(1).permutation(noisy_topk.MAY_BE_DRAWN + 1)
    steep = np.arange(5000)
    for scores, scale in ((apart, 1.0), (many, 1.0), (steep, 1e-3), (np.arange(3.0), 1e-200)):
        head = head_of_scores(scores, k=3, scale=scale)
        right, _ = select(head, k=3, scale=scale, rng=SeededRng(2))
        assert dp.noisy_topk(scores, 3, scale=scale, rng=SeededRng(2)).tolist() == right.tolist()
    assert kernel(apart, words(0, 50), k=3, scale=1.0) is False


def test_a_word_is_read_for_each_item_and_no_more():
    for n in (1, 64, 65, 2000, 5000):
        scores = np.arange(n) % 10
        tape = words(0, n + 1)
        assert len(dp.noisy_topk(scores, n, scale=1.0, rng=TapeRng(tape[:n]))) == n
        with pytest.raises(TapeEndError):
            dp.noisy_topk(scores, 1, scale=1.0, rng=TapeRng(tape[: n - 1]))
        generator, other = np.random.default_rng(1), np.random.default_rng(1)
        dp.noisy_topk(scores, 1, scale=1.0, rng=generator)
        other.integers(0, 2**64, size=n, dtype=np.uint64)
        assert generator.integers(2**60) == other.integers(2**60)


def test_bad_input_of_the_kernel():
    source = _core.TapeSource(words(0, 10))
    for scores, k in ((np.arange(5), 6), (np.arange(5), 0), (np.arange(0), 1)):
        with pytest.raises(ValueError, match="too few"):
            _core.draw(source, scores, k, 1.0)
    with pytest.raises(ValueError, match="halves"):
        _core.draw(source, np.arange(5).astype(np.float16), 1, 1.0)
    for bad in (math.nan, math.inf, -math.inf):
        assert _core.draw(source, np.array([1.0, bad, 2.0]), 1, 1.0) is False
    assert source.read(10).tolist() == words(0, 10).tolist()


@pytest.mark.parametrize("n", [1, 64, 3000, 5000, 20_000])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite_are_refused_before_a_word_is_read(n, bad):
    scores = np.arange(n, dtype=np.float64)
    scores[n // 2] = bad
    generator = np.random.default_rng(1)
    with pytest.raises(ValueError, match="scores must not contain"):
        dp.noisy_topk(scores, 1, scale=1.0, rng=generator)
    assert generator.random() == np.random.default_rng(1).random()
