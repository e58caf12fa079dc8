"""All noise drawn at once: against its exact twin on the same tape, its law, one row and many."""

import itertools
import math
import re
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
from tapes import exact_tape, random_case, words

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.errors import TapeEndError
from dptopk.mechanisms import _drawn
from dptopk.mechanisms._select import Tail, head_of_scores, select
from dptopk.reference.draw import UNITS, Drawn, draw, floor_at, is_above
from dptopk.reference.noise import sequence_law
from dptopk.reference.race import Tape
from dptopk.rng import TapeRng
from dptopk.verification.sampling import chi_square

noisy_topk = sys.modules[dp.noisy_topk.__module__]


def tape_size(n):
    """Return how many words are enough for n scores: all may be candidates."""
    return -(-n // 4) + n


def reference(scores, tape, **case):
    return draw(exact_tape(tape), list(Tail(scores, scores.dtype.kind == "f")), **case)


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
        tape = words(seed, tape_size(scores.size))
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


def test_the_polynomial_of_the_logarithm_is_as_close_as_its_bound_says():
    """Below 2^-58 of 2 atanh(s), for any s there is; a 100,000th part of a constant is seen."""
    header = Path(__file__).parents[1] / "csrc/draw_impl.h"
    if not header.exists():
        pytest.skip("the constants stand in the sources, not in the wheel")
    text = header.read_text().split("double first =")[1].split("return")[0]
    q = [float.fromhex(each) for each in re.findall(r"0x1\.[0-9a-f]+p[-+]\d+", text)]
    assert len(q) == 7

    def furthest(q):
        off = []
        for i in range(1, 401):
            s = mpmath.sqrt(i * mpmath.mpf("0.02944") / 400)
            right = 2 * mpmath.atanh(s)
            sum_ = 2 + sum(each * s ** (2 * at) for at, each in enumerate(q, 1))
            off.append(abs(s * sum_ / right - 1))
        return max(off)

    with mpmath.workprec(120):
        assert furthest(q) < 2.0**-58
        for at, each in enumerate(q):
            wrong = [*q[:at], each * (1 + 1e-5), *q[at + 1 :]]
            assert furthest(wrong) > 2.0**-58


def leads_of(tape, n):
    """Return the first bits of n items, by another way than the kernel's and the twin's."""
    parts = tape[: -(-n // 4), None] >> np.array([0, 16, 32, 48], np.uint64)
    return (parts & np.uint64(0xFFFF)).ravel()[:n]


def test_kernel_equals_plain_arithmetic_on_many_scores(levels):
    """Of sizes that exact arithmetic is slow for: each item's further bits are the same, which a
    tape of one word over and over makes them, so that NumPy knows all values."""
    cases = []
    for seed, (n, k) in enumerate([(65, 64), (300, 5), (2000, 1), (3000, 600), (70_000, 900)]):
        rng = np.random.default_rng(seed)
        first = rng.integers(0, 2**64, size=-(-n // 4), dtype=np.uint64)
        tape = np.r_[first, np.full(n, np.uint64(0xABCD << 48))]
        u = (leads_of(first, n).astype(float) + 0xABCD / 2**16) / 2**16
        noise = -np.log(-np.log1p(-u))
        shapes = [rng.permutation(n), rng.normal(size=n), np.arange(n) * 0.01 % 0.7]
        shapes += [(1e5 * rng.normal(size=n)).astype(np.float32)[::-1]]
        for scores in (*shapes, np.where(np.arange(n) % 3 > 0, -1e6, 0.0) + rng.random(n)):
            for scale in (0.3, 1000.0):
                values = scores / scale + noise
                order = np.argsort(-values, kind="stable")[: k + 1]
                if np.diff(-values[order]).min() > 1e-9:
                    cases.append((scores, tape, k, scale, order[:k].tolist()))
    assert len(cases) > 30
    for _ in levels:
        for scores, tape, k, scale, right in cases:
            assert kernel(scores, tape, k=k, scale=scale) == right


@pytest.mark.parametrize("dtype", ["i8", "f8", "i4", "f4", "u1", "u8"])
def test_every_k_of_few_scores_is_the_head_of_their_whole_order(dtype, levels):
    """All are candidates, so the words that are read are the same ones."""
    cases = []
    for n in range(1, 65):
        rng = np.random.default_rng([n, ord(dtype[0])])
        scores = rng.integers(0, (3, 100)[n % 2], size=2 * n).astype(dtype)[::-2]
        if n % 3 == 0 and dtype in ("i8", "u8", "f8"):
            scores = scores << 51 if dtype != "f8" else scores * 1e100
        scale = float(max(scores.max(), 1)) / 20 if n % 3 == 0 else 0.8
        tape = words(4 * n + 1, tape_size(n))
        if n % 8 == 5:
            tape[rng.integers(n // 4 + 1, tape.size)] = (0, 2**64 - 1)[n // 8 % 2]
        cases.append((scores, scale, tape, reference(scores, tape, k=n, scale=scale)))
    for _ in levels:
        undecided = 0
        for scores, scale, tape, right in cases:
            for k in range(1, scores.size + 1):
                picks = kernel(scores, tape, k=k, scale=scale)
                undecided += picks is None
                assert picks is None or picks == right[:k]
        assert undecided < 300


@pytest.mark.parametrize("gap", [1e-11, -1e-11])
def test_values_close_to_each_other_are_in_order(gap, levels):
    """Noise that is off by more than its bound says would change their order."""
    cases = []
    for seed in range(300):
        tape = np.random.default_rng(seed).integers(0, 2**64, size=3, dtype=np.uint64)
        tape[0] &= np.uint64(0xEFFF_EFFF)  # U not too near to 1: NumPy's noise is as good as exact
        further = tape[1:].astype(object) >> 16
        u = [int(lead) << 48 | more for lead, more in zip(leads_of(tape, 2), further, strict=True)]
        noise = [-math.log(-math.log1p(-(each + 0.5) / 2**64)) for each in u]
        scores = np.array([0.0, noise[0] - noise[1] + gap])
        cases.append((scores, tape))
    for _ in levels:
        for draw_ in (kernel, rows_of):
            picks = [draw_(scores, tape, k=2, scale=1.0) for scores, tape in cases]
            assert picks.count(None) < 5
            right = [1, 0] if gap > 0 else [0, 1]
            assert all(each in (None, right) for each in picks)


def exact_noise(lead, word):
    """Return the noise of the middle of the U that these bits begin."""
    with mpmath.workdps(40):
        u = mpmath.mpf((int(lead) << 49 | int(word) >> 16 << 1) + 1) / 2**65
        return -mpmath.log(-mpmath.log1p(-u))


@pytest.mark.parametrize("end", [0, 2**16 - 1])
def test_noise_near_the_edges_is_known_less(end, levels):
    """There a U of 52 bits leaves more open: no order is certain that its other bits turn."""
    cases, rng = [], np.random.default_rng(3)
    for _ in range(200):
        top, low = int(rng.integers(1100, 9000)), int(rng.integers(0, 2**12))
        further = (top << 12 | low) if end == 0 else 2**48 - 1 - (top << 12 | low)
        other = int(rng.integers(2**46, 2**47))
        tape = np.array([end | 1 << 30, further << 16, other << 16], np.uint64)
        gap = float(rng.choice([-1e-9, 1e-9]))
        noise = exact_noise(end, further << 16), exact_noise(1 << 14, other << 16)
        cases.append((np.array([0.0, float(noise[0] - noise[1]) + gap]), tape, gap))
    for _ in levels:
        for scores, tape, gap in cases:
            assert kernel(scores, tape, k=2, scale=1.0) in (None, [1, 0] if gap > 0 else [0, 1])


def test_rows_with_values_that_doubles_cannot_tell_apart():
    """Side by side too they are left to the exact replay."""
    n = 40
    words_of_rows = words(0, 3 * n).reshape(n, 3)
    rows = np.zeros((n, 2))
    for row, tape in zip(rows, words_of_rows, strict=True):
        leads = leads_of(tape, 2).tolist()
        row[1] = float(exact_noise(leads[0], tape[1]) - exact_noise(leads[1], tape[2]))
    picks = dp.noisy_topk(rows, 2, scale=1.0, rng=TapeRng(words_of_rows.ravel())).tolist()
    right = [
        reference(row, tape, k=2, scale=1.0) for row, tape in zip(rows, words_of_rows, strict=True)
    ]
    assert picks == right
    assert 0 < sum(pick == [0, 1] for pick in picks) < n


def test_forced_replay_gives_the_same_picks(monkeypatch):
    for seed in range(10):
        scores, case = random_case(5 * seed)
        scores = scores % 1000
        k, scale = case["k"], case["scale"]
        picks = dp.noisy_topk(scores, k, scale=scale, rng=SeededRng(seed)).tolist()
        right = kernel(scores, SeededRng(seed).generator.integers(
            0, 2**64, size=tape_size(scores.size), dtype=np.uint64), **case)  # fmt: skip
        assert picks == right
        monkeypatch.setattr(_core, "error_factor", 2.0**80)
        assert (
            scores.size == 1 or kernel(scores, words(seed, tape_size(scores.size)), **case) is None
        )
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
            shape = draws, tape_size(scores.size)
            tapes = rng.generator.integers(0, 2**64, size=shape, dtype=np.uint64)
            tapes[:, 0] &= np.uint64(2**32 - 1)
            tapes[:, 0] |= tapes[:, 0] << np.uint64(32)  # first bits serve two items
            return [
                tuple(dp.noisy_topk(scores, 2, scale=scale, rng=TapeRng(tape)).tolist())
                for tape in tapes
            ]

        return pairs

    assert chi_square(law, sample(3.0), draws=20_000, seed=5).passed
    assert not chi_square(law, sample(4.0), draws=20_000, seed=5).passed
    assert not chi_square(law, sample(3.0, twin=True), draws=20_000, seed=5).passed


def test_picks_have_the_exact_law_when_the_floor_falls():
    """As the items that it is estimated from are the largest, which are few."""
    n, k, scale = 600, 6, 3.0
    high = {(j * 0x9E3779B9 % 2**32) * n >> 32 for j in range(64)}
    scores = np.array([8 if i in high else 0 for i in range(n)])
    weight, size = (1.0, math.exp(8 / scale)), (n - len(high), len(high))

    def chance(outcome):
        left, total = list(size), 1.0
        for group in outcome:
            total *= weight[group] * left[group] / (weight[0] * left[0] + weight[1] * left[1])
            left[group] -= 1
        return total

    def sample(scale):
        def groups(draws, seed):
            rng = SeededRng(seed)
            for _ in range(draws):
                picks = dp.noisy_topk(scores, k, scale=scale, rng=rng)
                yield tuple((scores[picks] > 0).astype(int).tolist())

        return lambda draws, seed: list(groups(draws, seed))

    law = {each: chance(each) for each in itertools.product((0, 1), repeat=k)}
    assert chi_square(law, sample(scale), draws=20_000, seed=7).passed
    assert not chi_square(law, sample(1.1 * scale), draws=20_000, seed=7).passed
    fell = 0
    for seed in range(20):
        tape = words(4 * seed, tape_size(n) + 1)
        source = _core.TapeSource(tape)
        source.begin()
        _core.draw(source, scores, k, scale)
        leads = leads_of(tape, n).tolist()
        drawn = [
            Drawn(item, score, float(score - 8) * (UNITS / scale), lead)
            for item, (score, lead) in enumerate(zip(scores.tolist(), leads, strict=True))
        ]
        first = floor_at(drawn, (k + k // 5 + 8) / n, 3)
        above = sum(is_above(each.drop, first, each.lead) for each in drawn)
        fell += int(np.flatnonzero(tape == source.read(1))[0]) > n // 4 + above
    assert fell > 10


def one_by_one(scores, offsets, k, scale, tape):
    """Return of each row, up to one that is not drawn so: its picks, whether the kernel was certain
    of them, and how many words were left before it."""
    source = _core.TapeSource(tape)
    for start, end in itertools.pairwise(offsets.tolist()):
        source.begin()
        left, row, k_row = source.consumed().size, scores[start:end], min(k, end - start)
        picks = _core.draw(source, row, k_row, scale) if k_row else np.arange(0)
        if picks is False:
            yield None, False, left
            return
        certain = picks is not None
        if not certain:
            exact = list(Tail(row, row.dtype.kind == "f"))
            picks = draw(Tape.replay(source), exact, k=k_row, scale=scale)
        yield list(picks), certain, left


def side_by_side(scores, offsets, k, scale, tape):
    """Return the picks of the rows that one call of the kernel has drawn, and how many words are
    left then."""
    source = _core.TapeSource(tape)
    place = np.cumsum([0, *np.minimum(np.diff(offsets), k)])
    item = np.empty(place[-1], np.int64)
    source.begin()
    done = _core.draw_rows(source, scores, offsets, place, scale, 4096, item, 0, offsets.size - 1)
    picks = [item[a:b].tolist() for a, b in itertools.pairwise(place[: done + 1].tolist())]
    return picks, source.consumed().size


@pytest.mark.parametrize("dtype", ["i8", "f8", "i4", "f4", "u1", "u8"])
def test_rows_side_by_side_are_rows_by_themselves(dtype, levels, monkeypatch):
    """Of scores that are near and far, with words at the edges and first bits that bound nothing,
    up to a row that is undecided by itself, or not drawn so."""
    cases = []
    for seed in range(60):
        rng = np.random.default_rng([seed, ord(dtype[0])])
        lengths = rng.integers(0, (12, 71)[seed % 2], size=40)
        lengths[rng.integers(40)] = 90
        offsets = np.cumsum([0, *lengths])
        scores = rng.integers(0, (2, 30, 250)[seed % 3], size=2 * offsets[-1]).astype(dtype)[::-2]
        if seed % 10 == 9 and dtype in ("i8", "f8", "u8"):
            scores[offsets[30]] = {"i8": 2**60, "f8": np.nan, "u8": 2**63}[dtype]
        tape = words(seed, tape_size(offsets[-1]) + 80)
        tape[rng.random(tape.size) < 0.02] &= np.uint64(0xFFFF_0000_FFFF_FFFF)
        tape[rng.random(tape.size) < 0.02] |= np.uint64(0xFFFF_0000_FFFF_0000)
        k, scale = (1, 5, 6, 13, 14, 40)[seed % 6], (0.1, 3.0, 1000.0)[seed // 3 % 3]
        cases.append((scores, offsets, k, scale, tape))
    right = [list(one_by_one(*case)) for case in cases]
    for _ in levels:
        stopped = 0
        for case, rows in zip(cases, right, strict=True):
            picks, left = side_by_side(*case)
            assert picks == [row[0] for row in rows[: len(picks)]]
            if len(picks) < 40:
                assert not rows[len(picks)][1]
                assert left == rows[len(picks)][2]
                stopped += 1
        assert 0 < stopped < 30
    monkeypatch.setattr(_core, "error_factor", 2.0**40)
    short = [len(side_by_side(*case)[0]) < 40 for case in cases]
    assert sum(short) > 30


def rows_of(scores, tape, rows=3, **case):
    """Return the picks of equal rows side by side, or None if they are undecided."""
    offsets = np.arange(rows + 1) * scores.size
    picks, _ = side_by_side(np.tile(scores, rows), offsets, tape=np.tile(tape, rows), **case)
    assert len(picks) in (0, rows)
    return picks[0] if picks and picks == [picks[0]] * rows else None


def test_what_is_left_out_by_its_bound_is_never_larger(levels):
    """Of seven items with the largest bounds the values are far below these; those of the others,
    of which one is kept, are close to their bounds: above the seven or below, as the scores go."""
    cases = []
    for step in range(60):
        scores = np.r_[np.full(7, 5.6 + step / 60), np.zeros(9)]
        leads = np.r_[np.full(7, 0xE000), np.full(9, 0x0100)].astype(np.uint64)
        tape = words(4 * step, tape_size(16))
        tape[:4] = (leads.reshape(4, 4) << np.array([0, 16, 32, 48], np.uint64)).sum(1)
        cases.append((scores, tape, reference(scores, tape, k=1, scale=1.0)))
    assert 10 < sum(right[0] < 7 for *_, right in cases) < 50
    for _ in levels:
        for scores, tape, right in cases:
            assert rows_of(scores, tape, k=1, scale=1.0) == right


@pytest.mark.parametrize("k", [1, 2])
def test_two_words_that_doubles_do_not_tell_apart_are_undecided(k, levels):
    """Both are the same V to 52 bits, and the score of the less noise is larger by less than the
    noise is: their values would come in the wrong order, also if only the first is wanted."""
    tape = np.array([0, (2**22 + 4095) << 16, 2**22 << 16], np.uint64)
    for gap, known in ((5e-4, False), (-5e-3, True)):
        scores = np.array([gap, 0.0])
        for _ in levels:
            for draw_ in (kernel, rows_of):
                picks = draw_(scores, tape, k=k, scale=1.0)
                assert picks == ([1, 0][:k] if known else None)
    assert reference(np.array([5e-4, 0.0]), tape, k=2, scale=1.0) == [1, 0]


def test_rows_side_by_side_have_the_exact_law():
    """More items than bounds are kept of."""
    scores = np.array([4, 4, 3, 3, 2, 2, 1, 1, 0, 0, 0, 0])
    law = sequence_law(dict(enumerate(scores.tolist())), k=2, scale=3.0, noise="gumbel")

    def sample(scale):
        def pairs(draws, seed):
            picks = dp.noisy_topk(np.tile(scores, (draws, 1)), 2, scale=scale)
            return [tuple(pair) for pair in picks.tolist()]

        return pairs

    assert chi_square(law, sample(3.0), draws=100_000, seed=5).passed
    assert not chi_square(law, sample(3.5), draws=100_000, seed=5).passed


@pytest.mark.parametrize("factor", [1.0, 2.0**52])
def test_rows_are_a_loop_over_the_rows(factor, monkeypatch):
    """Of lengths on both sides of every limit, and scores too far apart to be drawn so."""
    monkeypatch.setattr(_core, "error_factor", factor)
    monkeypatch.setattr(noisy_topk, "DRAWN", 60)
    monkeypatch.setattr(_drawn, "MOST_OF_ALL", 500)
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


def test_long_rows_are_a_loop_over_the_rows():
    """Longer than a block of words: the scratch is that of the longest row."""
    rows = np.random.default_rng(1).integers(0, 9, (5, 4000))
    batch, one = SeededRng(5), SeededRng(5)
    offsets = np.arange(len(rows) + 1) * rows.shape[1]
    picks, _ = dp.noisy_topk(rows.ravel(), 6, scale=2.0, offsets=offsets, rng=batch)
    right = [dp.noisy_topk(row, 6, scale=2.0, rng=one) for row in rows]
    assert picks.tolist() == np.concatenate(right + offsets[:-1, None]).tolist()


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
    """The same picks as by a race, on the same words."""
    apart = np.arange(50) * 10**15
    for scores, scale in ((apart, 1.0), (np.arange(5000) * 10**12, 1e-3), (np.arange(3.0), 1e-200)):
        head = head_of_scores(scores, k=3, scale=scale)
        right, _ = select(head, k=3, scale=scale, rng=SeededRng(2))
        assert dp.noisy_topk(scores, 3, scale=scale, rng=SeededRng(2)).tolist() == right.tolist()
    assert kernel(apart, words(0, 50), k=3, scale=1.0) is False


def test_words_are_read_for_each_item_and_candidate_and_no_more():
    for n in (1, 64, 65, 2000, 5000, 200_000):
        scores = np.arange(n) % 10
        for k in {1, n} if n <= 5000 else {1000}:
            tape = words(0, tape_size(n) + 1)
            source = _core.TapeSource(tape)
            source.begin()
            sieve = _drawn.part_to_draw(scores, k=k, scale=1.0) if n == 200_000 else None
            assert len(_drawn.pick(source, scores, sieve, k=k, scale=1.0)) == k
            used = np.flatnonzero(tape == source.read(1))[0]
            if sieve:
                few = n * sieve.bits / 64 + sieve.through / 4
                assert few / 1.1 + k <= used < 1.1 * few + 2 * k
            elif k == n or n <= 64:
                assert used == tape_size(n)
            else:
                assert -(-n // 4) + k <= used < n / 4 + 3 * k + n / 10 + 50
            with pytest.raises(TapeEndError):
                dp.noisy_topk(scores, k, scale=1.0, rng=TapeRng(tape[: used - 1]))
            generator, other = np.random.default_rng(0), np.random.default_rng(0)
            dp.noisy_topk(scores, k, scale=1.0, rng=generator)
            other.integers(0, 2**64, size=used, dtype=np.uint64)
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
