"""The race kernel against its exact twin on the same tape, and its error bounds."""

import math

import mpmath
import numpy as np
import pytest

from dptopk import SeededRng, _core
from dptopk._counts import Head
from dptopk.mechanisms import _select
from dptopk.reference import race as exact

TAPES = 2000


def words(seed, n=4096):
    return np.random.default_rng(seed).integers(0, 2**64, size=n, dtype=np.uint64)


def head_of(array, m):
    keys, items, _ = _core.cut(array, m)
    tail = array if m < array.size else None
    return Head(keys, items, tail, array.dtype.kind == "f")


def kernel(head, tape, *, k, scale, offsets=None, stop=None):
    source = _core.TapeSource(tape)
    source.begin()
    key, offset = stop or (0, 0.0)
    picks = _core.race(
        source, head.keys, head.items, k, scale, _core.NOISES["gumbel"], head.real,
        head.tail, offsets, stop is not None, key, offset,
    )  # fmt: skip
    return None if picks is None else picks.tolist()


def reference(head, tape, *, k, scale, offsets=None, stop=None, fresh=99):
    generator = np.random.default_rng(fresh)
    source = exact.Tape(
        _core.TapeSource(tape).read,
        lambda n: generator.integers(0, 2**64, size=n, dtype=np.uint64),
    )
    field = _select.exact_field(head, offsets=offsets, stop=stop)
    return exact.race(source, field, k=k, scale=scale)


def random_case(rng):
    """Fields of every shape: ties, wide gaps, a tail, a stopper, offsets, floats."""
    d = int(rng.integers(1, 40))
    spread = int(rng.choice([1, 3, 50, 10**6, 2**62]))
    scores = rng.integers(-spread, spread, size=d)
    real = rng.random() < 0.3
    if real:
        scores = scores * 0.37
    m = int(rng.integers(1, d + 1))
    head = head_of(scores, m)
    scale = float(rng.choice([1e-3, 0.5, 1.0, 7.3, 1e4, 1e300]))
    k = int(rng.integers(1, d + 2))
    stop = None
    if rng.random() < 0.5 and not real:
        stop = (int(scores[rng.integers(d)]), float(rng.choice([0.0, 0.7, 5.0])))
    offsets = None
    if rng.random() < 0.2:
        offsets = rng.normal(size=d)
        order = rng.permutation(d)
        head = Head(_core.keys(scores)[order].copy(), order.astype(np.int64), None, real)
    return head, {"k": k, "scale": scale, "offsets": offsets, "stop": stop}


def span(head):
    scores = _select.exact_field(head, offsets=None, stop=None)
    every = list(scores.scores) + list(scores.tail or [])
    return max(every) - min(every)


@pytest.fixture(scope="module")
def expected():
    """What the reference picks on every tape."""
    picks = []
    for seed in range(TAPES):
        head, case = random_case(np.random.default_rng(seed))
        picks.append(reference(head, words(seed), **case))
    return picks


@pytest.mark.usefixtures("level")
def test_kernel_equals_reference_on_the_same_tape(expected):
    for seed in range(TAPES):
        head, case = random_case(np.random.default_rng(seed))
        picks = kernel(head, words(seed), **case)
        if picks is None:
            # Far below the first score, doubles can't tell one noise from another.
            assert span(head) / case["scale"] > 2**30
        else:
            assert picks == expected[seed], seed


def test_a_broken_twin_disagrees():
    """The comparison can fail: a scale 1% off is seen within these tapes."""
    wrong = 0
    for seed in range(400):
        head, case = random_case(np.random.default_rng(seed))
        right = kernel(head, words(seed), **case)
        case["scale"] *= 1.01
        wrong += right != kernel(head, words(seed), **case)
    assert wrong > 0


def test_forced_replay_gives_the_same_picks(monkeypatch):
    """Wider error bounds send most calls to the replay, with the same result."""
    replays = 0
    for seed in range(150):
        head, case = random_case(np.random.default_rng(seed))
        monkeypatch.setattr(_core, "error_factor", 1.0)
        picks, _ = _select.select(head, rng=SeededRng(seed), **case)
        monkeypatch.setattr(_core, "error_factor", 2.0**48)
        replays += kernel(head, words(seed), **case) is None
        again, private = _select.select(head, rng=SeededRng(seed), **case)
        assert again.tolist() == picks.tolist(), seed
        assert not private
    assert replays > 50


def test_undecided_words_are_refined():
    """Two equal words on equal scores: 64 bits can't order them, more bits do."""
    head = Head(np.zeros(2, np.int64), np.arange(2), None, False)
    offsets = np.zeros(2)  # a block each
    tape = np.full(64, 2**63 + 12345, np.uint64)
    assert kernel(head, tape, k=2, scale=1.0, offsets=offsets) is None
    orders = {
        tuple(reference(head, tape, k=2, scale=1.0, offsets=offsets, fresh=seed))
        for seed in range(20)
    }
    assert orders == {(0, 1), (1, 0)}


@pytest.mark.parametrize("word", [0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1])
def test_extreme_words_are_never_decided_wrongly(word):
    head = Head(np.array([3, 3, 1], np.int64), np.arange(3), None, False)
    for seed in range(20):
        tape = words(seed, 64)
        tape[seed % 4] = word
        picks = kernel(head, tape, k=3, scale=1.0)
        assert picks is None or picks == reference(head, tape, k=3, scale=1.0)


def test_a_short_tape_says_so():
    from dptopk.errors import TapeEndError

    head = Head(np.array([2, 1], np.int64), np.arange(2), None, False)
    with pytest.raises(TapeEndError):
        kernel(head, words(0, 1), k=2, scale=0.1)


def test_the_scratch_grows():
    """A flat field with a small head: far more looks than k."""
    scores = np.zeros(50_000, np.int64)
    scores[:64] = 9
    head = head_of(scores, 64)
    picks, _ = _select.select(head, k=60, scale=3.0, rng=SeededRng(5))
    assert len(set(picks.tolist())) == 60


def test_libm_errs_by_less_than_the_analysis_assumes():
    """csrc/race.c assumes 2^-50 relative (4 ulp) of log."""
    rng = np.random.default_rng(1)
    near_one = 1 - rng.random(2000) * 2.0 ** -rng.integers(1, 53, 2000)
    wide = 2.0 ** -rng.uniform(0, 70, 2000), 10 ** rng.uniform(0, 18, 2000)
    points = np.r_[rng.random(2000), near_one, wide[0], wide[1]]
    with mpmath.workprec(200):
        for x in points.tolist():
            true = mpmath.log(mpmath.mpf(x))
            assert abs(mpmath.mpf(math.log(x)) - true) <= abs(true) * 2**-50


def test_no_item_twice_and_all_items_when_k_is_d():
    rng = np.random.default_rng(3)
    for d, m in [(1, 1), (2, 1), (50, 7), (400, 50)]:
        scores = rng.integers(0, 3, size=d)
        picks, _ = _select.select(head_of(scores, m), k=d, scale=2.0, rng=SeededRng(d))
        assert sorted(picks.tolist()) == list(range(d))


@pytest.mark.parametrize("scores", [[0.0, 5e-324], [0.0, 1.5e-323], [1.6e308, -1.7e308]])
def test_differences_at_the_ends_of_the_range_are_exact(scores):
    """Neither subnormal differences nor those past the range of doubles lose anything."""
    head = head_of(np.array(scores), 2)
    scale = max(abs(scores[1] - scores[0]) / 2, 5e-324) if scores[0] == 0.0 else 1e308
    for seed in range(200):
        tape = words(seed, 16)
        assert kernel(head, tape, k=2, scale=scale) == reference(head, tape, k=2, scale=scale)


def test_large_k_is_decided_in_doubles():
    """The error of a long race grows as its sum does, not with the number of its steps."""
    scores = np.random.default_rng(2).poisson(3, size=200_000)
    head = head_of(scores, scores.size)
    undecided = [
        kernel(head, words(seed, 1_000_000), k=scores.size, scale=20.0) is None for seed in range(4)
    ]
    assert not any(undecided)


def gumbel_after(tape, spacings, n):
    """-ln S_j to 300 bits, for the middle of what the words leave open."""
    s = mpmath.mpf(0)
    for i, word in enumerate(spacings):
        u = (mpmath.mpf(int(tape[word])) + 0.5) / 2**64
        s -= mpmath.log(1 - u) / (n - i)
    return -mpmath.log(s)


@pytest.mark.parametrize("j", [1, 2, 300])
@pytest.mark.parametrize("gap", [0, 1, 10**6 + 1, -(10**6) - 1, -(2**60) - 1])
@pytest.mark.parametrize("extreme", [False, True])
def test_near_ties_are_never_decided_wrongly(j, gap, extreme):
    """A stopper set to within rounding of the j-th noise of a block of equal scores."""
    n = j + 1
    head = Head(np.full(n, 2**61, np.int64), np.arange(n), None, False)
    decided = 0
    for seed in range(200 if j < 300 else 25):
        rng = np.random.default_rng(seed)
        tape = words(seed, 2 * n + 8)
        if extreme:  # the last words leave ln(1 - U) open, or are rounded upwards
            tape[1] = ~np.uint64(0) - rng.integers(2, 2**12, dtype=np.uint64)
        scale = float(abs(gap) / rng.uniform(1, 30) if gap else 1.0)
        with mpmath.workprec(300):
            spacings = [0, *range(3, 2 * j, 2)]
            noise = gumbel_after(tape, spacings, n)
            offset = noise - gumbel_after(tape, [1], 1) - mpmath.mpf(gap) / mpmath.mpf(scale)
        stop = (2**61 + gap, float(offset) + int(rng.integers(-1, 2)) * np.spacing(float(offset)))
        picks = kernel(head, tape, k=n, scale=scale, stop=stop)
        if picks is not None:
            decided += 1
            assert picks == reference(head, tape, k=n, scale=scale, stop=stop), seed
    assert decided < 50


def test_blocks_are_cut_alike():
    """Differences of exactly half a scale, and of exactly what leaves a rest out."""
    for seed in range(1500):
        rng = np.random.default_rng(seed)
        scores = rng.integers(0, rng.choice([3, 10, 40]), size=rng.integers(4, 40))
        head = head_of(scores, scores.size)
        case = {"k": int(rng.integers(1, 6)), "scale": float(rng.choice([2.0, 4.0]))}
        assert kernel(head, words(seed, 512), **case) == reference(head, words(seed, 512), **case)


def test_words_past_the_last_multiple_are_rejected():
    head = Head(np.zeros(3, np.int64), np.arange(3), None, False)
    tape = np.array([5, 2**64 - 1, 7, 11, 13, 1, 1], np.uint64)  # 7 % 3, 13 % 2
    assert kernel(head, tape, k=2, scale=1.0) == [1, 2]
    assert reference(head, tape, k=2, scale=1.0) == [1, 2]
