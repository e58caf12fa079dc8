"""Noise drawn of what a sieve lets through: kernel, law, choice."""

import math

import numpy as np
import pytest
from tapes import exact_tape, random_case, words

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.mechanisms import _drawn
from dptopk.mechanisms._drawn import Sieve
from dptopk.mechanisms._select import Tail, scores_of
from dptopk.reference import draw as exact
from dptopk.reference.noise import sequence_law
from dptopk.verification.sampling import chi_square


def kernel(scores, sieve, tape, *, k, scale):
    source = _core.TapeSource(tape)
    source.begin()
    picks = _drawn.pick(source, scores, sieve, k=k, scale=scale)
    if picks is False:
        assert source.read(1)[0] == tape[0]
    return picks if picks is None or picks is False else picks.tolist()


def reference(scores, sieve, tape, *, k, scale):
    real = scores.dtype.kind == "f"
    of = exact.Sieve(scores_of(np.array([sieve.key]), real)[0], sieve.bits)
    return exact.draw(exact_tape(tape), list(Tail(scores, real)), k=k, scale=scale, sieve=of)


def a_sieve(scores, seed):
    """Return some sieve: of few or many, with room for few or many."""
    rng = np.random.default_rng(seed)
    key = int(np.sort(_core.keys(scores))[int(rng.random() * (scores.size - 1))])
    bits = int(rng.integers(0, 9))
    return Sieve(min(key, 2**63 - 2), bits, int(rng.choice([1, 2 * scores.size])))


def test_kernel_equals_reference_on_the_same_tape(levels):
    """At every level, for sieves that are widened and sieves that let all through; and twins."""
    cases = []
    for seed in range(150):
        scores, case = random_case(seed)
        sieve, tape = a_sieve(scores, seed), words(seed, 2 * scores.size + 20)
        if kernel(scores, sieve, tape, **case) is not False:
            cases.append((scores, sieve, tape, case, reference(scores, sieve, tape, **case)))
    assert len(cases) > 80
    for _ in levels:
        undecided = 0
        for scores, sieve, tape, case, right in cases:
            picks = kernel(scores, sieve, tape, **case)
            undecided += picks is None
            assert picks is None or picks == right
        assert undecided < len(cases) / 2
    twins = [0, 0, 0]
    for scores, sieve, tape, case, right in cases:
        other = {**case, "scale": 1.3 * case["scale"]}
        twins[0] += kernel(scores, sieve, tape, **other) not in (None, right)
        twins[1] += kernel(scores, sieve, np.roll(tape, 1), **case) not in (None, right)
        wider = sieve._replace(bits=(sieve.bits + 1) % 9)
        twins[2] += kernel(scores, wider, tape, **case) not in (None, False, right)
    assert min(twins) > 10


@pytest.mark.parametrize("dtype", ["i8", "f8"])
def test_kernel_equals_plain_arithmetic_on_many_scores(dtype, levels):
    """All further bits are the same, which a tape of one byte over and over makes them, so that
    NumPy knows all values, whoever is let through and when."""
    n, cases = 70_001, []
    for seed, (k, bits) in enumerate([(5, 8), (900, 6), (900, 3), (20_000, 0), (3000, 8), (9, 1)]):
        rng = np.random.default_rng(seed)
        first = rng.integers(0, 2**64, size=(-(-n // 64), bits, 1), dtype=np.uint64)
        tape = np.r_[first.ravel(), np.full(2 * n, np.uint64(0xABABABABABABABAB))]
        planes = first >> np.arange(64, dtype=np.uint64) & np.uint64(1)
        planes = np.swapaxes(planes, 1, 2).reshape(64 * len(first), bits)[:n]
        ones = planes.cumsum(axis=1).astype(bool)  # from the first one on
        known = np.minimum(1 + (~ones).sum(axis=1), bits)  # bits up to it
        scores = rng.normal(size=n) if dtype == "f8" else rng.permutation(n * 40)[:n]
        scale = 0.7 if dtype == "f8" else n * 30.0
        key = int(np.sort(_core.keys(scores))[-(k // 2 + 1)])
        further = 0xABAB + 0xABABABABABAB / 2**48  # in 2^-16
        lead = ones.any(axis=1) * 2.0 ** (16 - known) + (0xABAB >> known) + further - 0xABAB
        lead[_core.keys(scores) > key] = further
        values = scores / scale - np.log(-np.log1p(-lead / 2**16))
        order = np.argsort(-values)[: k + 1]
        assert np.diff(-values[order]).min() > 1e-12
        cases.append((scores, Sieve(key, bits, 9), tape, k, scale, order[:k].tolist()))
    for _ in levels:
        for scores, sieve, tape, k, scale, right in cases:
            assert kernel(scores, sieve, tape, k=k, scale=scale) == right


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "u1", "u2", "u4", "u8", "f4"])
def test_a_column_of_any_type_is_its_wide_one(dtype, levels):
    """Strided or not, with a key at the ends of the type."""
    n, tape = 20_011, words(1, 60_000)
    real = dtype == "f4"
    info = np.finfo(dtype) if real else np.iinfo(dtype)
    scores = np.random.default_rng(1).integers(0, 100, size=n).astype(dtype)
    scores[:2] = info.min, info.max
    wide = scores.astype("f8" if real else "i8")
    if dtype == "u8":
        wide = _core.keys(scores)
    keys = _core.keys(wide).tolist()
    for _ in levels:
        decided = 0
        for key in (keys[0] - 1, keys[0], keys[2], keys[1], keys[1] + 1):
            sieve = Sieve(min(max(key, -(2**63)), 2**63 - 2), 3, 9)
            case = {"k": 60, "scale": 1e4}
            if real or scores.itemsize > 4:
                case["scale"] = float(info.max) / 2.0**38
            right = kernel(wide, sieve, tape, **case)
            decided += right is not None
            for column in (scores, np.repeat(scores, 3)[::3], np.repeat(scores[::-1], 2)[::-2]):
                assert kernel(column, sieve, tape, **case) == right
        assert decided > 0


@pytest.mark.parametrize("bits", [8, 3, 1, 0])
def test_picks_have_the_exact_law(bits):
    """However far it has to be widened; a key above which a score is said to be has another law."""
    scores = np.array([7, 5, 6, 5, 2, 4])
    law = sequence_law(dict(enumerate(scores.tolist())), k=2, scale=3.0, noise="gumbel")

    def sample(scale, twin=False):
        def pairs(draws, seed):
            tapes = SeededRng(seed).generator.integers(0, 2**64, (draws, 40), dtype=np.uint64)
            if twin:  # bits serve all items
                one, times = (1, 2**64 - 1) if bits else (2**16 - 1, 0x1000100010001)
                tapes[:, : bits or 1] = (tapes[:, : bits or 1] & one) * np.uint64(times)
            sieve = Sieve(5, bits, 9)
            return [tuple(kernel(scores, sieve, tape, k=2, scale=scale)) for tape in tapes]

        return pairs

    assert chi_square(law, sample(3.0), draws=20_000, seed=5).passed
    assert not chi_square(law, sample(4.0), draws=20_000, seed=5).passed
    assert not chi_square(law, sample(3.0, twin=True), draws=20_000, seed=5).passed


@pytest.mark.parametrize("scale", [1e15, 1e16])
def test_a_key_that_is_far_from_all_that_is_let_through(scale, levels):
    """Values are measured from it, though no score that is let through is near it."""
    cases, twins = [], 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scores = rng.integers(0, 22 * 10**14, size=200)
        if seed % 2:
            scores = 2**55 + rng.integers(0, 9, size=200) * 10**14
        sieve, tape = Sieve(3 * 10**15 if seed % 2 == 0 else 0, 3, 9), words(4 * seed, 400)
        case = {"k": 10, "scale": scale}
        cases.append((scores, sieve, tape, case, reference(scores, sieve, tape, **case)))
    for _ in levels:
        for scores, sieve, tape, case, right in cases:
            picks = kernel(scores, sieve, tape, **case)
            assert picks in (None, right)
            twins += picks == right
    assert twins > len(cases) / 2


def test_scores_past_the_range_of_doubles_are_replayed():
    """Their differences are infinite: no kernel can say anything of them, and no pick is lost."""
    scores = np.where(np.arange(300) % 2, 1e308, -1e308)
    sieve, tape = Sieve(int(_core.keys(np.array([1e308])).item()), 7, 9), words(4, 600)
    right = reference(scores, sieve, tape, k=200, scale=1.0)
    assert sorted(right[:150]) == list(range(1, 300, 2))
    assert kernel(scores, sieve, tape, k=100, scale=1.0) in (None, right[:100])
    assert kernel(scores, sieve, tape, k=200, scale=1.0) is None


@pytest.mark.parametrize("dtype", ["u8", "i8", "i4", "f8"])
@pytest.mark.parametrize("k", [1, 1000, 10_000, 50_000])
def test_plain_counts_of_every_type_are_decided_by_the_kernel(dtype, k):
    """Small ones too: a replay of so many takes seconds."""
    scores = np.random.default_rng(1).integers(0, 100, size=140_000).astype(dtype)
    for scale in (1.0, 100.0):
        part = _drawn.part_to_draw(scores, k=k, scale=scale)
        assert len(kernel(scores, part, words(4, 200_000), k=k, scale=scale)) == k


N = 300_000
SHAPES = {
    "ties": np.arange(N) % 10,
    "normal": np.random.default_rng(3).normal(size=N),
    "all equal": np.full(N, 7),
    "float32": np.random.default_rng(4).normal(size=N).astype(np.float32)[::-1],
    "uint64": np.random.default_rng(5).integers(0, 9, N).astype(np.uint64) + np.uint64(2**63),
    "int8 strided": np.random.default_rng(6).integers(-5, 5, (N, 2), dtype=np.int8)[:, 1],
    "one far above": np.where(np.arange(N) == 77, 10**9, np.arange(N) % 10),
    "some far below": np.where(np.arange(N) % 3 == 0, -1e30, np.arange(N) % 10 / 7),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_choice_lets_about_as_many_through_as_was_expected(shape):
    """It is the cost; and few times it has to be widened."""
    scores, sifted, widened = SHAPES[shape], 0, 0
    tape = words(4, scores.size)
    for k in (300, 3000, 30_000):
        for scale in (1.0, 3.0, 100.0):
            sieve = _drawn.part_to_draw(scores, k=k, scale=scale)
            if not isinstance(sieve, Sieve):
                continue
            sifted += 1
            source = _core.TapeSource(tape)
            source.begin()
            picks = _drawn.pick(source, scores, sieve, k=k, scale=scale)
            assert len(picks) == k
            used = np.flatnonzero(tape == source.read(1))[0] - scores.size * sieve.bits / 64
            through = (_core.keys(scores) > sieve.key).sum() + scores.size / 2**sieve.bits
            assert 0.5 * through < sieve.through < 1.5 * through + 1000
            widened += used > through / 4 + 2 * k + 1000
    assert sifted > 2
    assert widened <= 1


@pytest.mark.parametrize("shape", ["ties", "normal"])
def test_an_exact_replay_gives_the_same_picks(shape, monkeypatch):
    scores = SHAPES[shape][:140_000]
    case = {"k": 3000, "scale": 30.0}
    sieve = _drawn.part_to_draw(scores, **case)
    assert isinstance(sieve, Sieve)
    case["k"] = 30
    picks = kernel(scores, sieve, words(1, 90_000), **case)
    assert picks == reference(scores, sieve, words(1, 90_000), **case)
    whole = dp.noisy_topk(scores, 3000, scale=30.0, rng=SeededRng(1))
    monkeypatch.setattr(_core, "error_factor", 2.0**80)
    assert kernel(scores, sieve, words(1, 90_000), **case) is None
    assert dp.noisy_topk(scores, 3000, scale=30.0, rng=SeededRng(1)).tolist() == whole.tolist()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_score_that_is_not_finite_is_seen_wherever_it_is(dtype, levels):
    """Whether or not it is let through; the largest, the least and the smallest are no such."""
    n, tape = 2048 + 64 + 5, words(4, 9000)
    info = np.finfo(dtype)
    scores = np.random.default_rng(1).normal(size=n).astype(dtype)
    most = float(info.max) if dtype == "f4" else 2.0**499  # past which the kernel does not go
    scores[5:11] = 0.0, -0.0, most, info.min, info.smallest_subnormal, info.tiny
    sieve = Sieve(int(_core.keys(np.array([most / 2])).item()), 5, n + 1)
    case = {"k": 9, "scale": most / 2.0**38}
    for _ in levels:
        for step in (1, 3):
            assert len(kernel(np.repeat(scores, step)[::step], sieve, tape, **case)) == 9
            for at in (0, 63, 64, 777, 2047, 2048, 2111, 2112, n - 1):
                for wrong in (math.nan, math.inf, -math.inf):
                    other = scores.copy()
                    other[at] = wrong
                    assert kernel(np.repeat(other, step)[::step], sieve, tape, **case) is False
                    little = sieve._replace(through=1)
                    assert kernel(other, little, tape, **case) is False


def test_bad_input_of_the_kernel():
    source, scores = _core.TapeSource(words(0, 99)), np.arange(5)
    for array, key, bits, k, what in (
        (scores, 2, 0, 0, "too few"),
        (scores, 2, 0, 6, "too few"),
        (scores.astype(np.float16), 2, 0, 1, "halves"),
        (scores, 2, -1, 1, "bits"),
        (scores, 2, 9, 1, "bits"),
        (scores, 2**63 - 1, 0, 1, "key"),
        (scores * 1.0, -1, 0, 1, "key"),
    ):
        with pytest.raises(ValueError, match=what):
            _core.draw_sieved(source, array, key, bits, 9, k, 1.0)
    for far in (np.array([10**15, 2, 1]), np.array([math.inf, 2.0, 1.0])):
        source.begin()
        assert _core.draw_sieved(source, far, 1, 8, 9, 1, 1e-3) is False
    assert source.read(99).tolist() == words(0, 99).tolist()
