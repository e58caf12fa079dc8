"""joint: from ranks to items, extremes, truncation, replay. Its law is in test_verify.py."""

import itertools
import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.mechanisms import _groups
from dptopk.mechanisms import joint as module
from dptopk.reference import joint as exact
from dptopk.reference import paths as module_of_paths
from dptopk.reference.race import Tape
from dptopk.rng import TapeRng
from dptopk.verification.sampling import chi_square


def loss(counts, items):
    best = sorted(counts, reverse=True)
    picked = sorted((counts[i] for i in items), reverse=True)
    return max(c - s for c, s in zip(best, picked, strict=False))


def test_sets_are_in_item_order_and_sequences_in_their_own():
    counts = [1, 800, 3, 900, 2, 1000]
    chosen = dp.joint(counts, k=3, epsilon=2.0)
    assert not chosen.ordered
    assert chosen.indices.tolist() == [1, 3, 5]
    assert "unordered" in repr(chosen)
    ordered = dp.joint(counts, k=3, epsilon=2.0, output="sequence")
    assert ordered.ordered
    assert ordered.indices.tolist() == [5, 3, 1]
    assert ordered.cost == dp.Cost(2.0, 0.0, module.THEOREM)
    assert ordered.parameters["output"] == "sequence"


def test_the_scale_pays_for_the_sensitivity():
    def scale(counts, **options):
        one, two = (
            dp.joint(counts, k=k, epsilon=0.5, **options).parameters["scale"] for k in (1, 2)
        )
        assert two == 2 * one  # a single pick needs no half in its weight
        return two

    assert scale([5, 3]) >= 2 / 0.5
    assert scale([5, 3]) == pytest.approx(4)
    assert scale([5, 3], sensitivity=3) == pytest.approx(12)
    assert scale([5.0, 3.0]) == pytest.approx(8)
    assert scale([5.0, 3.0], monotone=True) == pytest.approx(4)
    assert scale([5, -3], monotone=False) == pytest.approx(8)
    for h in (dp.Histogram([5, 3, 1]), dp.Histogram([5, 3, 1]).truncate(2)):
        assert scale(h) == pytest.approx(4)
        assert scale(h, monotone=False) == pytest.approx(8)


@pytest.mark.parametrize("output", ["set", "sequence"])
def test_never_the_same_item_twice(output):
    """k=200 of d=1000: where another implementation repeats items in 59 runs of 60."""
    counts = np.random.default_rng(1).integers(0, 10**4, size=1000)
    for seed in range(60):
        items = dp.joint(counts, k=200, epsilon=1.0, output=output, rng=SeededRng(seed)).items
        assert len(set(items)) == 200


@pytest.mark.parametrize("dtype", ["i8", "f8", "u8"])
def test_extremes(dtype):
    """Counts near 2^62 with gaps of 1, and all the way down to 0: no bit is lost."""
    top = 2**53 if dtype == "f8" else 2**62
    counts = np.array([top, top - 1, top - 2, 0, 1, top - 3], dtype=dtype)
    monotone = True if dtype == "f8" else None
    release = dp.joint(counts, k=2, epsilon=200.0, monotone=monotone)
    assert release.items == (0, 1)
    assert dp.joint(counts, k=6, epsilon=1e-3, output="set").items == tuple(range(6))
    draws = {
        dp.joint(counts, k=2, epsilon=1.0, monotone=monotone, rng=SeededRng(s)).items
        for s in range(200)
    }
    assert draws <= set(itertools.combinations((0, 1, 2, 5), 2))
    assert len(draws) > 1


@pytest.mark.full
def test_counts_far_apart_at_a_scale_to_match():
    """Blocks of losses past 2^53: the law of [3, 2, 1, 0] at the same ratio of gaps to scale."""
    unit = 2**61
    counts = np.array([3, 2, 1, 0]) * unit
    law = exact.law([3, 2, 1, 0], k=2, scale=1.0)

    def sample(draws, seed):
        rng = SeededRng(seed)
        for _ in range(draws):
            yield dp.joint(counts, k=2, epsilon=2.0, sensitivity=float(unit), rng=rng).items

    assert chi_square(law, sample, draws=4_000, seed=1).passed


@pytest.mark.parametrize("output", ["set", "sequence"])
def test_small_cases(output):
    assert dp.joint([7], k=1, epsilon=1, output=output).items == (0,)
    assert sorted(dp.joint([7, 7, 7], k=3, epsilon=1, output=output).items) == [0, 1, 2]
    assert sorted(dp.joint(np.zeros(50, int), k=50, epsilon=1, output=output).items) == list(
        range(50)
    )
    assert sorted(dp.joint([1.5, -2.0], k=2, epsilon=1, output=output).items) == [0, 1]


@pytest.mark.parametrize("epsilon", [1e-300, 1e-12, 1e6, 1e300])
def test_any_epsilon(epsilon):
    for counts in ([5, 3, 1], [0.5, 0.25, 1e-300], [2**60, 3, 0]):
        items = dp.joint(counts, k=2, epsilon=epsilon).items
        assert len(set(items)) == 2
        if epsilon >= 1e6 and counts[1] != 0.25:
            assert items == (0, 1)


@pytest.mark.parametrize("n", [4095, 4096, 20_000])
def test_items_of_the_tail(n):
    """Large groups by draws, small ones by one pass; never one of the head, none twice."""
    rng = np.random.default_rng(n)
    few = np.sort(np.r_[10:30, 340:345, 340:345])  # of the last 5 two each
    column = np.concatenate([np.repeat([3, 2], [n // 2, n - n // 2 - 30]), few])
    column = rng.permutation(column)
    order = np.lexsort((np.arange(n), -column))
    values, sizes = np.unique(column, return_counts=True)
    keys, ends = values[::-1].copy(), np.cumsum(sizes[::-1])
    for m in (1, 20, 30, 100):
        ranks = rng.permutation(n)[:40]
        ranks[:7] = [m - 1, 25, n - 1, 4, 5, 21, 28]
        ranks = np.unique(ranks)
        source = _core.GeneratorSource(np.random.default_rng(m))
        source.claim()
        items = _core.items(source, ranks, keys, ends, order[:m].copy(), column)
        source.unclaim()
        assert len(set(items.tolist())) == ranks.size
        assert column[items].tolist() == column[order[ranks]].tolist()
        assert items[ranks < m].tolist() == order[ranks[ranks < m]].tolist()
        assert not set(items[ranks >= m]) & set(order[:m])


def test_all_of_a_group_that_the_head_cuts():
    """Each item of its tail once, the head's last never."""
    column = np.repeat([2, 5], [40, 3])
    order = np.lexsort((np.arange(43), -column))
    keys, ends = np.array([5, 2]), np.array([3, 43])
    for m in range(3, 43):
        source = _core.GeneratorSource(np.random.default_rng(m))
        source.claim()
        items = _core.items(source, np.arange(m, 43), keys, ends, order[:m].copy(), column)
        source.unclaim()
        assert sorted(items.tolist()) == order[m:].tolist()


def test_items_of_a_group_are_uniform(monkeypatch):
    """A group that the head cuts in two: its last items as likely as any other."""
    monkeypatch.setattr(_groups, "DEEP", 0)
    counts = np.array([9] * 3 + [5] * 1200 + [1] * 2797)
    h = dp.Histogram(counts)
    assert h.head(1024)[0].size == 1024
    group = np.zeros(1203)
    rng = SeededRng(3)
    for _ in range(300):
        items = np.array(dp.joint(h, k=50, epsilon=3.0, rng=rng).items)
        group += np.bincount(items[items < 1203], minlength=1203)
    group = group[3:]
    late, expected = group[1021:].sum(), group.sum() * 179 / 1200
    assert group.sum() > 3000
    assert abs(late - expected) < 7 * math.sqrt(expected)
    assert abs(group[:600].sum() - group.sum() / 2) < 7 * math.sqrt(group.sum() / 4)


def test_a_truncated_histogram_of_a_known_domain():
    """What was left out counts h_(k_bar+1): the same law, and all of it can come out."""
    counts = np.array([9, 1, 7, 2, 5, 5, 0])
    h = dp.Histogram(counts, labels=list("abcdefg")).truncate(3)
    law = exact.law(np.maximum(counts, 5).tolist(), k=2, scale=2.0)

    def sample(draws, seed):
        rng = SeededRng(seed)
        for _ in range(draws):
            yield tuple(dp.joint(h, k=2, epsilon=1.0, rng=rng).indices.tolist())

    assert chi_square(law, sample, draws=20_000, seed=2).passed
    assert dp.joint(h, k=7, epsilon=1.0).labels == tuple("abcdefg")


@pytest.mark.full
def test_the_exact_envelope_gives_the_same_law():
    """What takes over where counts are beyond doubles."""
    for scores in ([9, 7, 7, 4, 0], [4.5, 2.25, 2.25, -1.0, -2.5]):
        values, sizes = np.unique(scores, return_counts=True)
        values, ends = values[::-1].tolist(), np.cumsum(sizes[::-1]).tolist()
        for output in ("set", "sequence"):
            blocks, log_unit = exact.envelope(values, ends, k=2, scale=2.0, output=output)
            order = sorted(range(5), key=lambda i: (-scores[i], i))

            def sample(draws, seed, values=values, ends=ends, output=output, order=order,
                       blocks=blocks, log_unit=log_unit):  # fmt: skip
                rng = np.random.default_rng(seed)
                tape = Tape(*[lambda n: rng.integers(0, 2**64, size=n, dtype=np.uint64)] * 2)
                for _ in range(draws):
                    picks = [order[r] for r in exact.sample(
                        tape, values, ends, k=2, scale=2.0, output=output, blocks=blocks,
                        log_unit=log_unit)]  # fmt: skip
                    yield tuple(sorted(picks) if output == "set" else picks)

            law = exact.law(scores, k=2, scale=2.0, output=output)
            assert chi_square(law, sample, draws=2_000, seed=4).passed


def test_a_call_beyond_doubles_is_drawn_exactly(monkeypatch):
    class Beyond(_core.Joint):
        def envelope(self):
            return None

        def draw(self, source):
            return None

    monkeypatch.setattr(_core, "Joint", Beyond)
    assert dp.joint([900, 3, 700, 5], k=2, epsilon=2.0).items == (0, 2)
    assert dp.joint([900.0, 3, 700, 5], k=2, epsilon=4.0, output="sequence").items == (0, 2)


@pytest.mark.parametrize("real", [False, True])
def test_widened_bounds_replay_exactly(real, monkeypatch):
    """The replay runs, often, and comes to the kernel's ranks on the kernel's words."""
    replays = []
    sample = exact.sample
    monkeypatch.setattr(exact, "sample", lambda *a, **kw: replays.append(1) or sample(*a, **kw))
    rng = np.random.default_rng(8)
    for seed in range(100):
        d = int(rng.integers(2, 60))
        counts = rng.integers(0, int(rng.choice([3, 100, 2**60])), size=d)
        scores = counts / 7.0 if real else counts
        k = int(rng.integers(1, d + 1))
        words = np.random.default_rng(seed).integers(0, 2**64, size=4096, dtype=np.uint64)
        options = {"k": k, "epsilon": 0.1, "sensitivity": float(rng.choice([1, 2.0**55]))}
        plain = dp.joint(scores, rng=TapeRng(words), **options)
        before = len(replays)
        monkeypatch.setattr(_core, "error_factor", 2.0**45)
        assert dp.joint(scores, rng=TapeRng(words), **options) == plain
        monkeypatch.setattr(_core, "error_factor", 1.0)
        assert len(replays) >= before
    assert len(replays) > 50


class Blind(_core.Staircase):
    """Pairs of doubles that can't tell."""

    def count(self):
        return None

    def parts(self, s, taken):
        return None


def test_doubles_pairs_and_integers_draw_alike(level, monkeypatch):
    """The same words, decided in three ways: the same ranks."""
    rng = np.random.default_rng(9)
    integers = []
    exactly = module_of_paths.count
    monkeypatch.setattr(
        module_of_paths, "count", lambda bound: integers.append(1) or exactly(bound)
    )
    for seed in range(40):
        d = int(rng.integers(30, 200))
        k = int(rng.integers(2, 30))
        counts = np.sort((1e3 / rng.uniform(0.01, 1, size=d)).astype(np.int64))
        words = np.random.default_rng(seed).integers(0, 2**64, size=4096, dtype=np.uint64)

        def draw(counts=counts, k=k, words=words):
            return dp.joint(counts, k=k, epsilon=0.05, rng=TapeRng(words)).items

        with monkeypatch.context() as changed:
            by_doubles = draw()
            changed.setattr(_core, "error_factor", 2.0**45)
            by_pairs = draw()
            assert not integers
            changed.setattr(_core, "Staircase", Blind)
            by_integers = draw()
            assert integers
        integers.clear()
        assert by_doubles == by_pairs == by_integers


@pytest.mark.parametrize("k", [300, 1500])
def test_replays_of_larger_sets(k, level, monkeypatch):
    """As many stairs as items, none of them in integers."""
    monkeypatch.setattr(module_of_paths, "count", None)
    monkeypatch.setattr(module_of_paths, "rows", None)
    counts = (1e7 / np.arange(1, 20_001)).astype(np.int64)
    draws = []
    for factor in (1.0, 2.0**45):
        monkeypatch.setattr(_core, "error_factor", factor)
        draws.append(dp.joint(counts, k=k, epsilon=5.0, rng=SeededRng(k)).items)
    assert draws[0] == draws[1]


@pytest.mark.slow
def test_the_largest_sets():
    counts = (1e7 / np.arange(1, 10**5 + 1)).astype(np.int64)
    release = dp.joint(counts, k=module.MOST, epsilon=1e3)
    assert len(set(release.items)) == module.MOST
    with pytest.raises(ValueError, match="k must be at most 20,000 for a set, got 20001"):
        dp.joint(counts, k=module.MOST + 1, epsilon=1.0)
    assert len(dp.joint(counts, k=module.MOST + 1, epsilon=1.0, output="sequence").items) == 20_001


def test_a_word_that_no_part_owns_for_sure():
    """All bits 0, or all 1: beyond all parts that are kept, for what doubles know."""
    counts = (1e4 / np.arange(1, 101)).astype(np.int64)
    for word in (0, 2**64 - 1):
        words = np.random.default_rng(1).integers(0, 2**64, size=4096, dtype=np.uint64)
        plain = TapeRng(words)
        first = dp.joint(counts, k=20, epsilon=0.01, rng=plain).items
        words[3] = word
        changed = dp.joint(counts, k=20, epsilon=0.01, rng=TapeRng(words)).items
        assert len(set(first)) == len(set(changed)) == 20


def test_words_between_two_parts_are_not_decided():
    """As many as parts may be off: roundings, 3 a number and some for terms of products."""
    k, words = 200, np.random.default_rng(1).integers(0, 2**64, size=4096, dtype=np.uint64)
    values, sizes = np.unique((1e4 / np.arange(1, 401)).astype(np.int64), return_counts=True)
    drawing = _core.Joint(values[::-1].copy(), np.cumsum(sizes[::-1]), k, 200.0, False, False)

    def ranks(word):
        tape = words.copy()
        tape[6] = word  # of how many numbers stay below one of the stairs
        source = _core.TapeSource(tape)
        source.begin()
        drawn = drawing.draw(source)
        return None if drawn is None else drawn.tolist()

    def last(word, end, same):
        """The last up to `end` that is the same as a word: both ends are known."""
        while end - word > 1:
            middle = (word + end) // 2
            word, end = (middle, end) if same(ranks(middle)) else (word, middle)
        return word

    below = ranks(2**62)
    assert below not in (None, ranks(2**63))
    sure = last(2**62, 2**63, lambda drawn: drawn == below)
    unsure = last(sure + 1, sure + 2**30, lambda drawn: drawn is None) - sure
    c = sure / 2**64
    assert 0.3 < c < 0.5
    assert ranks(sure + 2**30) not in (None, below)
    assert unsure / 2**64 > 4 * c * (1 - c) * 10 * k * 2.0**-53
    assert unsure / 2**64 < 20 * k * 2.0**-52


def test_envelopes_cover():
    """Every block's weight is at least what it holds, by exact counts; and they tile [0, inf)."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        d = int(rng.integers(1, 40))
        counts = rng.integers(0, int(rng.choice([2, 30, 10**5])), size=d)
        k, scale = int(rng.integers(1, d + 1)), float(rng.choice([0.1, 2.0, 50.0]))
        values, sizes = np.unique(counts, return_counts=True)
        keys, ends = values[::-1].copy(), np.cumsum(sizes[::-1])
        for output in ("set", "sequence"):
            blocks, log_unit = _core.Joint(
                keys, ends, k, scale, output == "sequence", False
            ).envelope()
            for start, width, weight, constant in blocks:
                last = start if constant else min(start + width - 1, float(counts.max()))
                bound = exact.staircase(keys, ends, k=k, tau=last, output=output)
                if constant:
                    end = min(start + width - 1, float(counts.max()))
                    ends_at = exact.staircase(keys, ends, k=k, tau=max(start, end), output=output)
                    assert exact.outcomes_within(ends_at, output) == exact.outcomes_within(
                        bound, output
                    )
                log_mass = -start / scale + (
                    math.log(-math.expm1(-width / scale)) if width < math.inf else 0.0
                )
                log_n = math.log(exact.outcomes_within(bound, output))
                assert math.log(weight) - 52 * math.log(2) + log_unit >= log_mass + log_n - 1e-9
            tiles = sorted(blocks)
            assert tiles[0][0] == 0
            assert tiles[-1][1] == math.inf
            assert all(a[0] + a[1] == b[0] for a, b in itertools.pairwise(tiles))


def test_an_envelope_covers_a_long_sequence():
    """Sums of a million logarithms are off by more than a weight's spare millionth."""
    k, d = 10**6, 2**33
    [(_, _, weight, _)], log_unit = _core.Joint(
        np.array([0]), np.array([d]), k, 2.0, True, False
    ).envelope()
    with mpmath.workdps(40):
        sequences = mpmath.loggamma(d + 1) - mpmath.loggamma(d - k + 1)
        assert log_unit + mpmath.log(mpmath.mpf(weight) / 2**52) >= sequences


def test_count_sets():
    rng = np.random.default_rng(3)
    for _ in range(30):
        d = int(rng.integers(1, 9))
        k = int(rng.integers(1, d + 1))
        counts = rng.integers(0, 12, size=d).tolist()
        losses = [loss(counts, s) for s in itertools.combinations(range(d), k)]
        for tau in range(13):
            sets = sum(x <= tau for x in losses)
            assert dp.count_sets(counts, k=k, tau=tau) == sets
            assert dp.count_sets(dp.Histogram(counts), k=k, tau=tau + 0.5) == sets
            assert dp.count_sets(np.array(counts) / 4, k=k, tau=tau / 4) == sets
    far = [2**60, 2**60 - 2**54 - 1]  # float(2**54 + 1) is less
    for tau, sets in ((2**54 + 1, 2), (2**54, 1)):
        for kind in (int, np.int64, np.uint64):
            assert dp.count_sets(far, k=1, tau=kind(tau)) == sets
    assert dp.count_sets(np.arange(10**5), k=300, tau=10**5) == math.comb(10**5, 300)
    for bad, error in (
        (-1, ValueError),
        (math.nan, ValueError),
        ("1", TypeError),
        (True, TypeError),
    ):
        with pytest.raises(error, match="tau must be a"):
            dp.count_sets([3, 1], k=1, tau=bad)


# ---- the envelope of a prepared histogram


@pytest.mark.parametrize("output", ["set", "sequence"])
@pytest.mark.parametrize("truncated", [False, True])
def test_a_prepared_histogram_keeps_its_envelope(output, truncated, monkeypatch):
    """The same picks on the same words as without; another k, scale or output makes its own."""
    counts = np.random.default_rng(5).integers(0, 60, 300)

    def prepared():
        if not truncated:
            return dp.Histogram(counts)
        rows = np.sort(counts)[::-1]
        return dp.Histogram.truncated(
            rows[:50], np.arange(50), next_count=int(rows[50]), k_bar=50, n_items=300
        )

    kept = prepared()
    made = []
    whole = _core.Joint

    def watched(*given):
        made.append(given[6] is None)
        return whole(*given)

    monkeypatch.setattr(module._core, "Joint", watched)
    for k, epsilon, again in ((7, 0.5, False), (7, 0.5, True), (8, 0.5, False), (8, 0.4, False),
                              (8, 0.4, True), (7, 0.5, False)):  # fmt: skip
        made.clear()
        found = dp.joint(kept, k=k, epsilon=epsilon, output=output, rng=SeededRng(3))
        assert made == [not again]
        fresh = dp.joint(prepared(), k=k, epsilon=epsilon, output=output, rng=SeededRng(3))
        assert (found.indices == fresh.indices).all()
    made.clear()
    dp.joint(kept, k=7, epsilon=0.5, output={"set": "sequence", "sequence": "set"}[output])
    assert made == [True]


# ---- Ctrl-C


INTERRUPTED = """
import os, signal, threading, time
import numpy as np
import dptopk as dp
from dptopk import _core
# Not in a call: CPython ends with SIGINT if one came amid an exec of text, caught or not.
from dptopk.reference import joint, paths, race

counts = np.floor(1e12 / np.arange(1, 400_001) ** 1.2).astype(np.int64)
h = dp.Histogram(counts)
bound = np.sort(np.random.default_rng(1).integers(0, 10**6, 20_000))
calls = {
    "set": lambda: dp.joint(h, k=20_000, epsilon=0.01),
    "sequence": lambda: dp.joint(h, k=200_000, epsilon=0.01, output="sequence"),
    "count_sets": lambda: dp.count_sets(h, k=10_000, tau=10**7),
    "in pairs": lambda: [_core.Staircase(bound, "pairs") for _ in range(100)],
}
for name, call in calls.items():
    sent = []

    def send():
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(0.3, send).start()
    try:
        while not sent or time.process_time() - sent[0] < 60:  # a fast machine needs several
            call()
        print(name, "was not stopped")
    except KeyboardInterrupt:
        took = time.process_time() - sent[0]
        print(name, "was stopped" if took < 0.5 else f"took {took}")
print(dp.joint(h, k=3, epsilon=1e9).items)
"""


@pytest.mark.posix
@pytest.mark.slow
def test_ctrl_c_ends_a_long_call():
    """Within half a second of processor time; the next call is as any."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True
    )
    names = ["set", "sequence", "count_sets", "in pairs"]
    assert done.stdout.split("\n") == [*(f"{n} was stopped" for n in names), "(0, 1, 2)", ""]
