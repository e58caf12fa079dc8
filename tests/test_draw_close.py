"""Values that a double does not tell apart: all 64 bits of their U do, and nothing is replayed."""

import mpmath
import numpy as np
import pytest
from tapes import exact_tape, random_case, words

from dptopk import _core
from dptopk.mechanisms._select import Tail, scores_of
from dptopk.reference.draw import FEW, Sieve, draw, most_below, place_of, steps

DIGITS = 60


def noise_at(v):
    """Return the noise where V = 1 - U is v 2^-64."""
    return -mpmath.log(-mpmath.log(mpmath.mpf(v) / 2**64)) if 0 < v < 2**64 else mpmath.inf


def ends(word, score=0, origin=0, scale=1.0):
    """Return the least and the largest value of a U that begins with a word."""
    drop = (mpmath.mpf(score) - mpmath.mpf(origin)) / mpmath.mpf(scale)
    return drop + noise_at(2**64 - word - 1), drop + noise_at(2**64 - word)


def within(word, case=(0, 0, 1.0), tight=1.0):
    """Tell whether the value is off by its error at most, or by less of it."""
    score, origin, scale = case
    real = isinstance(score, float)
    keys = _core.keys(np.array([score, origin])).tolist()
    high, low, error = _core.close_value(word, *keys, real, scale)
    if error == np.inf:
        return None
    middle = mpmath.mpf(high) + mpmath.mpf(low)
    return max(abs(end - middle) for end in ends(word, *case)) <= tight * mpmath.mpf(error)


def some_words(n):
    """Return words of every size, and next to the edges."""
    rng = np.random.default_rng(1)
    ones = [2**64 - 2**b for b in range(64)]
    edges = [max(0, min(2**64 - 1, 2**b + off)) for b in range(65) for off in (-1, 0, 1)]
    return ones + edges + rng.integers(0, 2**64, size=n, dtype=np.uint64).tolist()


CASES = [
    (5, 2, 3.0),
    (-(2**63), 2**63 - 1, 2.0**30),
    (2**62 + 1, -(2**61) - 7, 1e9),
    (0.1, -1e-9, 0.3),
    (1.0 + 2**-52, 2.0**-60, 7.0),
    (1e-300, 3e-310, 1e-100),
    (1e100, -3e99, 1e95),
    (5e-324, 0.0, 1e-140),
]


@pytest.mark.parametrize("case", [(0, 0, 1.0), *CASES])
def test_values_are_off_by_their_error_at_most(case):
    """Whatever the bits of U are that follow; and hardly by less, where U is not near an edge."""
    with mpmath.workdps(DIGITS):
        found = {word: within(word, case) for word in some_words(200)}
        assert False not in found.values()
        assert [found[word] for word in (2**20, 2**62, 2**63, 2**64 - 2**20)] == [True] * 4
        assert found[0] is found[2**64 - 1] is None
        if abs(case[0] - case[1]) < 8 * case[2]:
            assert not any(within(word, case, tight=0.9) for word in some_words(200))


def test_past_the_range_of_doubles_nothing_is_known():
    for score, origin in ((1e308, -1e308), (1e308, 0.0)):
        key, other = _core.keys(np.array([score, origin])).tolist()
        assert _core.close_value(2**62, key, other, True, 1e-300)[2] == np.inf


def kernel(scores, tape, *, k, scale, sieve=None):
    source = _core.TapeSource(tape)
    source.begin()
    if sieve is None:
        picks = _core.draw(source, scores, k, scale)
    else:
        picks = _core.draw_sieved(source, scores, *sieve, k, scale)
    return picks if picks is None or picks is False else picks.tolist()


def reference(scores, tape, *, k, scale, sieve=None):
    real = scores.dtype.kind == "f"
    exact = list(Tail(scores, real))
    sieve = sieve and Sieve(scores_of(np.array(sieve[:1]), real)[0], sieve[1])
    return draw(exact_tape(tape), exact, k=k, scale=scale, sieve=sieve)


def tape_of(us):
    """Return a tape for which U of each item begins with such a word; its last 4 bits are none."""
    leads = np.zeros(-(-len(us) // 4) * 4, np.uint64)
    leads[: len(us)] = [u >> 48 for u in us]
    first = leads.reshape(-1, 4) << np.array([0, 16, 32, 48], np.uint64)
    further = np.array([(u << 16) % 2**64 for u in us], np.uint64)
    return np.r_[np.bitwise_or.reduce(first, axis=1), further]


@pytest.mark.parametrize("dtype", ["i8", "f8", "u1"])
def test_noises_next_to_each_other_are_in_order(dtype, levels):
    """Their U are some 2^-64 apart, in every order: the smaller U, the larger the noise."""
    n, cases = 90, []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        start = int(rng.integers(2**60, 2**64 - 2**60, dtype=np.uint64))
        us = [start + 2 * int(i) for i in rng.permutation(n)]
        k = (n, 1, 40)[seed % 3]
        right = sorted(range(n), key=us.__getitem__)[:k]
        cases.append((np.full(n, 7, dtype), tape_of(us), k, right))
    for _ in levels:
        for scores, tape, k, right in cases:
            assert kernel(scores, tape, k=k, scale=1.0) == right
    scores, tape, k, right = cases[0]
    assert reference(scores, tape, k=k, scale=1.0) == right
    # Next to each other further bits may turn them: two intervals that have an end in common.
    apart = tape_of([start + i for i in range(n)])
    assert kernel(np.zeros(n, dtype), apart, k=n, scale=1.0) is None


def test_scores_that_make_up_for_noise_are_in_order(levels):
    """Of pairs whose values are less apart than a double tells, some are within 2^-62 of it."""
    cases, rng = [], np.random.default_rng(5)
    filler = 70
    with mpmath.workdps(DIGITS):
        for _ in range(60):
            us = [int(u) for u in rng.integers(2**61, 2**64 - 2**61, size=2, dtype=np.uint64)]
            noise = [(noise_at(2**64 - u - 1) + noise_at(2**64 - u)) / 2 for u in us]
            scale = float(rng.choice([0.01, 1.0, 50.0]))
            score = float(100.0 * rng.random())
            near = float(mpmath.mpf(score) + scale * (noise[0] - noise[1]))
            first = (mpmath.mpf(score) - near) / scale + noise[0] - noise[1]
            scores = np.r_[[score, near], np.full(filler, -1e3)]
            tape = tape_of(us + [2**63] * filler)
            cases.append((scores, tape, scale, first))
    assert sum(abs(first) > 2.0**-60 for *_, first in cases) > 40
    for _ in levels:
        certain = 0
        for scores, tape, scale, first in cases:
            picks = kernel(scores, tape, k=2, scale=scale)
            right = [0, 1] if first > 0 else [1, 0]
            assert picks == right or (picks is None and abs(first) < 2.0**-58)
            certain += picks is not None
        assert certain > 40


@pytest.mark.parametrize(("n", "told"), [(40_000, True), (1_000_000, False)])
def test_not_too_many_are_compared_that_are_close(n, told):
    """Of scores so far from the k-th that doubles hold little else: it would take minutes."""
    scores = np.full(n, -(2.0**39.9))
    scores[[place_of(j, n) for j in range(FEW)]] = 0.0  # values are measured from one of these
    assert (kernel(scores, words(0, 2 * n), k=n // 2, scale=1.0) is not None) is told


@pytest.mark.parametrize("sieved", [False, True])
@pytest.mark.parametrize("factor", [2.0**30, 2.0**40])
def test_kernel_equals_reference_where_doubles_tell_little(factor, sieved, levels, monkeypatch):
    """With larger errors most orders are found by 64 bits of U: they are the same."""
    cases = []
    for seed in range(90):
        scores, case = random_case(seed)
        if scores.size <= 64:
            continue
        if sieved:
            key = int(np.sort(_core.keys(scores))[scores.size // 2])
            case["sieve"] = (min(key, 2**63 - 2), seed % 9, scores.size)
        tape = words(seed, 2 * scores.size + 20)
        if kernel(scores, tape, **case) is not False:
            cases.append((scores, tape, case, reference(scores, tape, **case)))
    assert len(cases) > 20
    monkeypatch.setattr(_core, "error_factor", factor)
    for _ in levels:
        found = [kernel(scores, tape, **case) for scores, tape, case, _ in cases]
        pairs = list(zip(found, (right for *_, right in cases), strict=True))
        assert all(picks in (None, right) for picks, right in pairs)
        assert sum(picks is not None for picks in found) > len(found) / 2


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_values_next_to_a_floor_are_on_the_right_side(bits, levels):
    """A sieve has one floor that is known: whoever is above it is enough, and else more is read."""
    n = 70
    floor = most_below(2.0 - steps(1 << 16 - bits))
    scores = np.r_[[1], np.zeros(n - 1, np.int64)]
    # No other is let through at first, and all are once their first bits may be less.
    planes = np.array([*[0] * (bits - 1), 2**64 - 1] * -(-n // 64), np.uint64)
    rest = np.random.default_rng(1).integers(0, 2**64, size=4 * n, dtype=np.uint64)
    cases = []
    with mpmath.workdps(DIGITS):
        v = int(2**64 * mpmath.exp(-mpmath.exp(1 - mpmath.mpf(floor))))
        for off in (-3000, -300, -30, -3, -2, -1, 0, 1, 2, 3, 30, 300, 3000):
            low, high = (end - floor for end in ends(2**64 - v + off, 1))
            parts = (2**64 - v + off) >> 48, (2**64 - v + off) << 16 & 2**64 - 1
            tape = np.r_[planes, np.array(parts, np.uint64), rest]
            cases.append((tape, None if low < 0 < high else low > 0))
    assert sum(above is True for _, above in cases) > 3
    assert sum(above is False for _, above in cases) > 3
    for _ in levels:
        for tape, above in cases:
            source = _core.TapeSource(tape)
            source.begin()
            picks = _core.draw_sieved(source, scores, 0, bits, n, 1, 1.0)
            enough = bool(source.read(1)[0] == rest[0])
            assert picks is None if above is None else (picks == [0] and enough is above)
    assert sum(above is None for _, above in cases) == 1
