"""Noise drawn at once of some scores, and of the rest as it is needed: kernel, law, choice."""

import math
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from tapes import exact_tape, random_case, words

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.mechanisms import _drawn
from dptopk.mechanisms._select import Tail, scores_of
from dptopk.reference.draw import Rest, draw
from dptopk.reference.noise import sequence_law
from dptopk.verification.sampling import chi_square


def a_part(scores, fraction, floor, seed):
    """Return the scores above a quantile, in some order, as `part_to_draw` would."""
    keys = _core.keys(scores)
    most = int(np.sort(keys)[int(fraction * (keys.size - 1))])
    items = np.flatnonzero(keys > most)
    if seed % 2:  # equal ones may be on both sides
        items = np.append(items, np.flatnonzero(keys == most)[: seed % 3])
        items = np.random.default_rng(seed).permutation(items)
    return _drawn.Part(keys[items], items, most, floor, 10)


def kernel(scores, part, tape, *, k, scale):
    source = _core.TapeSource(tape)
    source.begin()
    picks = _drawn.pick(source, scores, part, k=k, scale=scale)
    return picks if picks is None or picks is False else picks.tolist()


def reference(scores, part, tape, *, k, scale):
    real = scores.dtype.kind == "f"
    most = scores_of(np.array([part.most]), real)[0]
    rest = Rest(Tail(scores, real), part.items.tolist(), most, part.floor)
    return draw(exact_tape(tape), scores_of(part.keys, real), k=k, scale=scale, rest=rest)


@pytest.fixture(scope="module")
def cases():
    """Return floors that fall and floors that all is above, with what the reference picks."""
    found = []
    for seed in range(150):
        scores, case = random_case(seed + seed // 6)
        if not 2 < scores.size < 150:
            continue
        floor = float(np.random.default_rng(seed).choice([-3.0, 0.5, 4.0, 60.0]))
        part = a_part(scores, (0.2, 0.6, 0.95)[seed % 3], floor, seed)
        tape = words(seed, 40 * scores.size)
        if part.items.size and kernel(scores, part, tape, **case) is not False:
            found.append((scores, part, tape, case, reference(scores, part, tape, **case)))
    assert len(found) > 80
    return found


def test_kernel_equals_reference_on_the_same_tape(cases, levels):
    """At every level; and twins are seen."""
    for _ in levels:
        undecided = 0
        for scores, part, tape, case, right in cases:
            picks = kernel(scores, part, tape, **case)
            undecided += picks is None
            assert picks is None or picks == right
        assert undecided < len(cases) / 2
    scaled = moved = 0
    for scores, part, tape, case, right in cases:
        other = {**case, "scale": 1.3 * case["scale"]}
        scaled += kernel(scores, part, tape, **other) not in (None, right)
        moved += kernel(scores, part, np.roll(tape, 1), **case) not in (None, right)
    assert min(scaled, moved) > 10


@pytest.mark.parametrize("factor", [2.0**30, 2.0**35])
def test_kernel_equals_reference_where_doubles_tell_little(factor, cases, levels, monkeypatch):
    """64 bits of U tell most orders, but none of the rest, whose noise has no U of its own."""
    monkeypatch.setattr(_core, "error_factor", factor)
    for _ in levels:
        found = [kernel(scores, part, tape, **case) for scores, part, tape, case, _ in cases]
        assert all(picks in (None, right) for picks, (*_, right) in zip(found, cases, strict=True))
        assert 5 < sum(picks is None for picks in found) < len(found) - 10


@pytest.mark.parametrize("floor", [-4.0, 1.0, 6.0])
def test_picks_have_the_exact_law(floor):
    """Wherever the floor is; a rest that has more than was said of it has another law."""
    scores = np.array([7, 5, 6, 5, 2, 4])
    law = sequence_law(dict(enumerate(scores.tolist())), k=2, scale=3.0, noise="gumbel")

    def sample(scale, most=5):
        def pairs(draws, seed):
            items = np.array([0, 2, 1])
            part = _drawn.Part(scores[items], items, most, floor, 10)
            tapes = SeededRng(seed).generator.integers(0, 2**64, (draws, 400), dtype=np.uint64)
            return [tuple(kernel(scores, part, tape, k=2, scale=scale)) for tape in tapes]

        return pairs

    assert chi_square(law, sample(3.0), draws=20_000, seed=5).passed
    assert not chi_square(law, sample(4.0), draws=20_000, seed=5).passed
    if floor > 0.0:
        assert not chi_square(law, sample(3.0, most=0), draws=20_000, seed=5).passed


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no memory to fill with other bytes")
def test_no_order_of_the_rest_is_taken_from_what_memory_holds():
    """Where fresh memory is not zero: of the rest there are no words of U to look at."""
    test = f"{__file__}::{test_kernel_equals_reference_where_doubles_tell_little.__name__}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:xdist", test],
        env={**os.environ, "MALLOC_PERTURB_": "90"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


SHAPES = {
    "falling": np.arange(200_000) * 7 % 200_003,
    "ties": np.arange(300_000) % 100,
    "cluster": np.where(np.arange(300_000) % 42_000 == 9, 10**6, np.arange(300_000) % 100),
    "normal": 100.0 * np.random.default_rng(3).normal(size=300_000),
    "float32": np.random.default_rng(4).normal(size=200_000).astype(np.float32)[::-1],
    "uint64": np.random.default_rng(5).zipf(1.3, 150_000).astype(np.uint64) + np.uint64(2**63),
    "int8 strided": np.random.default_rng(6).integers(-100, 100, (70_000, 2), dtype=np.int8)[:, 1],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_part_has_all_that_is_above_the_rest(shape):
    """And every shape is drawn in parts at some scale."""
    scores, parted = SHAPES[shape], 0
    keys = _core.keys(scores)
    for k in (1, 30, 2000):
        for scale in (0.01, 1.0, 100.0):
            part = _drawn.part_to_draw(scores, k=k, scale=scale)
            if not isinstance(part, _drawn.Part):
                continue
            parted += 1
            assert np.unique(part.items).size == part.items.size < scores.size
            assert part.keys.tolist() == keys[part.items].tolist()
            assert np.delete(keys, part.items).max() <= part.most <= part.keys.min()
            assert part.floor > 0.0
    assert parted > 2


@pytest.mark.parametrize("shape", SHAPES)
def test_looks_are_about_as_many_as_was_expected(shape):
    """So floors are neither far too low nor so high that they fall a lot: it is the cost."""
    scores = SHAPES[shape]
    tape = words(4, 2 * scores.size)
    for k in (1, 30, 2000):
        for scale in (0.01, 1.0, 100.0):
            part = _drawn.part_to_draw(scores, k=k, scale=scale)
            if not isinstance(part, _drawn.Part):
                continue
            source = _core.TapeSource(tape)
            source.begin()
            picks = _drawn.pick(source, scores, part, k=k, scale=scale)
            if picks is False:
                continue  # too far apart
            assert len(picks) == k
            used = np.flatnonzero(tape == source.read(1))[0]
            assert used < 1.3 * part.keys.size + 5 * part.looks + 100


@pytest.mark.parametrize("shape", SHAPES)
def test_an_exact_replay_gives_the_same_picks(shape, monkeypatch):
    scores = SHAPES[shape]
    case = {"k": 20, "scale": float(1e-4 * np.ptp(scores.astype(float)))}
    part = _drawn.part_to_draw(scores, **case)
    assert part is not None
    picks = dp.noisy_topk(scores, 20, scale=case["scale"], rng=SeededRng(1)).tolist()
    monkeypatch.setattr(_core, "error_factor", 2.0**80)
    assert kernel(scores, part, words(1, 9000), **case) is None
    assert dp.noisy_topk(scores, 20, scale=case["scale"], rng=SeededRng(1)).tolist() == picks


@pytest.mark.parametrize("outlier", [10**9, 10**12])
@pytest.mark.parametrize("n", [3000, 20_000, 200_000])
def test_a_score_far_above_all_others_leaves_them_decided(n, outlier):
    """Values are measured from where the k-th is: so no exact replay of a second is needed."""
    scores = np.random.default_rng(1).integers(0, 1000, size=n)
    scores[n // 3] = outlier
    for k in (10, n // 100, n // 2 if n <= 20_000 else 9):
        for scale in (1.0, 30.0):
            part = _drawn.part_to_draw(scores, k=k, scale=scale) if n > 4096 else None
            picks = kernel(scores, part, words(4, 2 * n), k=k, scale=scale)
            assert picks is not None
            assert picks[0] == n // 3


def test_bad_input_of_the_kernel():
    source, scores = _core.TapeSource(words(0, 99)), np.arange(5)
    for items, k in (([4, 3], 6), ([4, 3], 0), ([], 1), ([0, 1, 2, 3, 4], 1)):
        items = np.array(items, np.int64)
        with pytest.raises(ValueError, match="too few"):
            _core.draw_part(source, scores, scores[items], items, False, 2, 1.0, 9, k, 1.0)
    far = np.array([10**15, 2, 1])
    part = far[:1], np.array([0]), False, 2, 1.0, 9
    assert _core.draw_part(source, far, *part, 1, 1e-3) is False
    assert source.read(99).tolist() == words(0, 99).tolist()
    assert _core.part(scores, 1, 3) is None
    assert [each.tolist() for each in _core.part(scores, 1, 4)] == [[2, 3, 4], [2, 3, 4]]
    assert _core.part(np.array([1.0, math.nan]), 0, 9) is False
    assert _core.part(np.array([1.0, -math.inf]), 0, 9) is False
