"""sparse_vector: the kernel against its twin, sessions, bad input. Its law is in test_verify.py."""

import contextlib
import copy
import math
import os
import pickle
import signal
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.mechanisms._threshold import ThresholdTests, scales, threshold_tests
from dptopk.reference import sparse_vector as exact
from dptopk.reference.race import Tape
from dptopk.rng import TapeRng, acquire, release

TAPES = 1500


def words(seed, n=256):
    return np.random.default_rng(seed).integers(0, 2**64, size=n, dtype=np.uint64)


def read(tape, fresh=99):
    generator = np.random.default_rng(fresh)
    return Tape(
        _core.TapeSource(tape).read,
        lambda n: generator.integers(0, 2**64, size=n, dtype=np.uint64),
    )


def random_case(seed):
    """Queries of both kinds, from all equal to far apart, and scales from tiny to huge."""
    rng = np.random.default_rng([seed, 1])
    n = int(rng.integers(0, 60))
    spread = int(rng.choice([0, 1, 5, 100, 10**6, 2**61]))
    queries = rng.integers(-spread, spread, size=n, endpoint=True)
    threshold = int(queries[0]) if n and rng.random() < 0.7 else int(rng.integers(-9, 9))
    if rng.random() < 0.3:
        queries, threshold = queries * 0.37, threshold * 0.37
    elif rng.random() < 0.5:
        threshold += 0.25
    near = max(1.0, spread / 3.0)
    return queries, {
        "threshold": threshold,
        "threshold_scale": float(rng.choice([0.0, 1e-3, 0.5, 1.0, 7.3, near])),
        "query_scale": float(rng.choice([1e-3, 0.5, 1.0, 7.3, near])),
        "hits": int(rng.choice([1, 2, 5, 1000])),
        "above": bool(rng.integers(2)),
    }


@pytest.fixture(scope="module")
def expected(wide):
    """What the reference makes of every tape."""
    outcomes = []
    for seed in range(TAPES if wide else TAPES // 3):
        queries, case = random_case(seed)
        outcomes.append(exact.sample(read(words(seed)), queries.tolist(), **case))
    return outcomes


@pytest.mark.slow
@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("factor", [1.0, 2.0**30, 2.0**49], ids=["kernel", "mixed", "replay"])
def test_kernel_equals_reference_on_the_same_tape(expected, factor, monkeypatch):
    monkeypatch.setattr(_core, "error_factor", factor)
    for seed, right in enumerate(expected):
        queries, case = random_case(seed)
        bits, private = threshold_tests(queries, rng=TapeRng(words(seed)), **case)
        assert tuple(bits.tolist()) == right, seed
        assert not private


@pytest.mark.parametrize("what", ["threshold_scale", "query_scale"])
def test_a_broken_twin_disagrees(expected, what):
    """The comparison can fail: one scale 5% off is seen within these tapes."""
    wrong = 0
    for seed, right in enumerate(expected):
        queries, case = random_case(seed)
        case[what] *= 1.05
        bits, _ = threshold_tests(queries, rng=TapeRng(words(seed)), **case)
        wrong += tuple(bits.tolist()) != right
    assert wrong


def test_replays_happen_and_are_few(monkeypatch):
    """Doubles decide all of 300,000 tests; widened, their replay is what the tests above ran."""
    calls = []
    right = exact.exceeds
    monkeypatch.setattr(exact, "exceeds", lambda *a, **k: calls.append(1) or right(*a, **k))
    case = {"threshold": 1, "threshold_scale": 1.0, "query_scale": 1.0, "hits": 10**9}
    threshold_tests(np.arange(300_000) % 3, rng=SeededRng(1), **case)
    assert not calls
    monkeypatch.setattr(_core, "error_factor", 2.0**49)
    threshold_tests(np.arange(100) % 3, rng=SeededRng(1), **case)
    assert len(calls) > 50


def edge_words():
    """Words whose noise is 0, huge or unbounded in 64 bits, or near a power of two."""
    yield from (0, 1, 2, 3, 2**64 - 1, 2**64 - 2, 2**64 - 3, 2**64 - 4, 2**63, 2**63 - 1)
    for bit in (2, 10, 11, 12, 40, 52, 53, 54, 62):
        for step in (-2, -1, 0, 1, 2):
            yield (2**64 - 1 - (2**bit + step)) % 2**64


@pytest.mark.parametrize("gap", [0, 1, -1, 20, -20, 40, 44, -44, 45, 2000])
def test_words_at_the_edges(gap):
    for word in edge_words():
        for sides in ([2**63, word], [word, 2**63], [word, word ^ 1], [word, word]):
            tape = np.array(sides, dtype=np.uint64)
            case = {"threshold": gap, "threshold_scale": 1.0, "query_scale": 1.0}
            bits, _ = threshold_tests(np.array([0]), rng=TapeRng(tape), **case)
            source = _core.TapeSource(tape)  # with the further bits that a replay draws
            source.begin()
            twin = exact.sample(Tape(source.read, source.fresh), [0], **case)
            assert tuple(bits.tolist()) == twin, (gap, sides)


@pytest.mark.parametrize("word", [0, 1])
@pytest.mark.parametrize("gap", [1e-20, 2e-20, 5e-20, 8e-20, 1e-19])
def test_a_noise_of_less_than_a_word_tells(word, gap):
    """U of 63 zeros: the noise is below 2^-63, and further bits say on which side of the gap."""
    sign = -1.0 if word else 1.0
    case = {"threshold": sign * gap, "threshold_scale": 0.0, "query_scale": 1.0}
    for first in range(8):
        tape = np.array([first, word], dtype=np.uint64)
        bits, _ = threshold_tests(np.array([0.0]), rng=TapeRng(tape), **case)
        source = _core.TapeSource(tape)
        source.begin()
        assert tuple(bits.tolist()) == exact.sample(Tape(source.read, source.fresh), [0.0], **case)


def test_every_test_sees_the_same_noise_of_the_threshold():
    """Below the words that were read, too: equal queries without noise to speak of are equal."""
    seen = set()
    for seed in range(20):
        tests = ThresholdTests(
            threshold=0.0, threshold_scale=1.0, query_scale=1e-60, hits=10**6, above=True
        )
        first = tests.run(np.full(5, 5e-20), TapeRng(np.append(np.uint64(0), words(seed))))[0]
        more = [tests.run(np.full(5, 5e-20), SeededRng(n))[0] for n in range(6)]
        bits = set(np.concatenate([first, *more]).tolist())
        assert len(bits) == 1, seed
        seen |= bits
    assert seen == {False, True}  # the noise is between 0 and 2^-63, on either side of the query


@pytest.mark.parametrize("threshold", [-1e-20, -3e-17, 2**40 - 2.0**-13])
def test_a_threshold_near_an_integer(threshold):
    """An integer and a double beside it don't always hold it: then the kernel does not decide."""
    size = abs(threshold - round(threshold))
    case = {"threshold": threshold, "threshold_scale": 0.0, "query_scale": size}
    for word in (0, 1, 2**62, 2**62 + 1, 2**63, 2**63 + 1, 2**64 - 2**61, 2**64 - 2**61 + 1):
        tape = np.array([0, word], dtype=np.uint64)
        bits, _ = threshold_tests(np.array([round(threshold)]), rng=TapeRng(tape), **case)
        assert tuple(bits.tolist()) == exact.sample(read(tape), [round(threshold)], **case)


def test_differences_of_large_integers_are_exact():
    top = 2**62
    queries = np.array([top - 1, top, top + 1, -(2**63), 2**63 - 1])
    for threshold, hits in ((top, [2, 4]), (-(2**63), [0, 1, 2, 4]), (2**63 - 1, [])):
        bits, _ = threshold_tests(
            queries, threshold=threshold,
            threshold_scale=1e-3, query_scale=1e-3, hits=9, rng=SeededRng(3),
        )  # fmt: skip
        sure = [i for i in np.flatnonzero(bits) if queries[i] != threshold]
        assert sure == hits
    half, _ = threshold_tests(
        np.array([7, 8]), threshold=7.5, threshold_scale=1e-3, query_scale=1e-3, rng=SeededRng(3)
    )
    assert half.tolist() == [False, True]


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1.0, 1e300, 1.7e308])
def test_extreme_floats(scale):
    """Differences past the range of doubles, noises below it: the replay decides."""
    queries = [1.7e308, -1.7e308, 5e-324, 0.0, 1e-310, 1.0]
    for threshold in (-1.7e308, 0.0, 1e-310, 1e308):
        for seed in range(20):
            case = {
                "threshold": threshold, "threshold_scale": scale, "query_scale": scale, "hits": 9,
            }  # fmt: skip
            bits, _ = threshold_tests(np.array(queries), rng=TapeRng(words(seed)), **case)
            assert tuple(bits.tolist()) == exact.sample(read(words(seed)), queries, **case)


def test_a_long_run_is_the_same_in_one_or_many_and_needs_no_more_memory():
    queries = np.random.default_rng(5).integers(0, 30, size=50_000)
    case = {"threshold": 20, "epsilon": 500.0, "hits": 10_000, "monotone": True}
    whole = dp.sparse_vector(queries, rng=np.random.default_rng(8), **case)
    tests = dp.SparseVector(rng=np.random.default_rng(8), **case)
    at = 0
    for size in np.random.default_rng(6).integers(1, 4000, size=100).tolist():
        if at >= queries.size or tests.exhausted:
            break
        at += tests.test_all(queries[at : at + size]).size
    assert whole.exhausted
    assert tests.result().bits.tolist() == whole.bits.tolist()
    source = acquire(None)
    before = source.capacity
    try:
        hit = np.empty(queries.size, np.uint8)
        done, undecided = _core.sparse_vector(
            source, queries, 20, 0.0, 1.0, 1.0, 7, True, 10**9, hit
        )
        assert (done, undecided) == (queries.size, False)
        assert source.capacity == before < queries.size
    finally:
        release(source)


# How many misses it takes to see that the claim can't be improved.
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("hits", [1, 2, 3])
def test_the_worst_pair_with_many_misses_uses_all_of_epsilon(hits, monotone):
    """Misses that rise and hits that need it cost e1 + e2, and never more."""
    epsilon = 2.0
    noise = scales(epsilon, hits=hits, monotone=monotone)
    rho = np.linspace(-40.0, 40.0, 16_001) * noise.threshold
    laplace = exact.LAWS["laplace"]

    def chance(miss, hit):
        below = laplace.below((rho - miss) / noise.query)
        above = laplace.above((rho - hit) / noise.query)
        density = laplace.density(rho / noise.threshold)
        return float((density * below**misses * above**hits).sum())

    misses, losses = 300, []
    for at in np.arange(-30.0, 0.0, 1.0):
        # Against a neighbour whose misses are higher by 1, and whose hits are as high or lower.
        pair = chance(at, -40.0), chance(at + 1.0, -40.0 if monotone else -41.0)
        losses.append(abs(math.log(pair[0] / pair[1])))
        assert losses[-1] <= epsilon * (1 + 1e-9)
    assert max(losses) > 0.9999 * epsilon


# ---- the public function


# The queries are so far from it, in noises, that secure draws come out as said.
CASE = {"threshold": 10**6, "epsilon": 1.0}


@pytest.mark.parametrize(("threshold", "hits"), [(2.0**63, []), (-(2.0**63), [0, 1])])
def test_a_float_at_the_ends_of_int64_is_a_threshold(threshold, hits):
    answers = dp.sparse_vector([5, 7], threshold=threshold, epsilon=1.0, hits=2, rng=SeededRng(0))
    assert answers.indices.tolist() == hits


def test_what_comes_out():
    queries = [0, 10000000, 3, 20000000, 5, 30000000]
    answers = dp.sparse_vector(queries, **CASE, hits=2)
    assert answers.bits.tolist() == [False, True, False, True]
    assert answers.indices.tolist() == [1, 3]
    assert answers.exhausted
    assert answers.values is None
    assert answers.private
    assert len(answers) == 4
    assert (answers.cost.epsilon, answers.cost.delta) == (1.0, 0.0)
    assert repr(answers) == (
        "<Answers to 4 by sparse_vector: True at [1, 3], exhausted; epsilon=1, delta=0>"
    )
    with pytest.raises(AttributeError):
        answers.cost = None
    with pytest.raises(ValueError, match="read-only"):
        answers.bits[0] = True
    assert pickle.loads(pickle.dumps(answers)).bits.tolist() == answers.bits.tolist()
    below = dp.sparse_vector(queries, **CASE, hits=2, above=False)
    assert below.bits.tolist() == [True, False, True]
    rest = dp.sparse_vector(queries, **CASE, hits=9)
    assert not rest.exhausted
    assert len(rest) == 6
    assert "NOT PRIVATE" in repr(dp.sparse_vector(queries, **CASE, rng=SeededRng(1)))
    empty = dp.sparse_vector([], **CASE)
    assert len(empty) == 0
    assert empty.cost.epsilon == 1.0


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "u8", ">i8", "f4", "f8", ">f8"])
def test_any_dtype_and_layout(dtype):
    queries = np.array([40, 100, 7, 90, 3, 61, 0] * 40)
    wide = np.repeat(queries, 2)[::2].astype(dtype)
    case = {"threshold": 60, "epsilon": 8.0, "hits": 50}
    bits = dp.sparse_vector(queries, rng=SeededRng(4), **case).bits
    assert dp.sparse_vector(wide, rng=SeededRng(4), **case).bits.tolist() == bits.tolist()


def test_the_scales_cost_no_more_than_epsilon():
    for epsilon in (1.0, 0.3, 1e-9, 700.0):
        for hits in (1, 2, 3, 10, 1000):
            for monotone in (True, False):
                for sensitivity in (1.0, 0.1, 3.7):
                    noise = scales(epsilon, hits=hits, monotone=monotone, sensitivity=sensitivity)
                    times = hits if monotone else 2 * hits
                    share = Fraction(sensitivity) / Fraction(noise.threshold)
                    cost = share + times * Fraction(sensitivity) / Fraction(noise.query)
                    assert cost <= Fraction(epsilon)
                    assert cost >= Fraction(epsilon) * (1 - Fraction(1, 10**14))
                    best = 1 / (1 + times ** (2 / 3))
                    assert noise.split == pytest.approx(best, rel=1e-15)
                    assert float(share) == pytest.approx(best * epsilon, rel=1e-14)
    assert scales(1.0, hits=3, monotone=False, split=0.25).threshold == pytest.approx(4.0)
    assert scales(1.0, hits=3, monotone=False, split=0.25).query == pytest.approx(8.0)


def test_no_split_costs_more_than_epsilon_by_a_bit():
    rng = np.random.default_rng(5)
    for epsilon, split in zip(rng.uniform(0.1, 9, 2000), rng.uniform(0, 1, 2000), strict=True):
        noise = scales(float(epsilon), hits=1, monotone=True, split=float(split))
        assert 1 / Fraction(noise.threshold) + 1 / Fraction(noise.query) <= Fraction(epsilon)


def test_the_total_with_answers_is_rounded_up():
    rng, down = np.random.default_rng(6), 0
    for epsilon, answers in rng.uniform(0.1, 9, (500, 2)).tolist():
        cost = dp.sparse_vector([0], threshold=9, epsilon=epsilon, answers_epsilon=answers).cost
        exact_total = Fraction(epsilon) + Fraction(answers)
        assert Fraction(cost.epsilon) >= exact_total
        down += Fraction(epsilon + answers) < exact_total
    assert down > 100  # else it would have come out right by itself


def test_the_default_split_has_the_least_variance():
    for hits in (1, 5, 40):
        for monotone in (True, False):

            def variance(split, hits=hits, monotone=monotone):
                noise = scales(1.0, hits=hits, monotone=monotone, split=split)
                return noise.threshold**2 + noise.query**2

            best = scales(1.0, hits=hits, monotone=monotone).split
            assert variance(best) < min(variance(0.98 * best), variance(1.02 * best))


def test_answers_have_their_own_cost_and_noise():
    queries = [0, 10000000, 3, 20000000]
    answers = dp.sparse_vector(queries, **CASE, hits=2, answers_epsilon=0.5, sensitivity=3)
    assert answers.cost.epsilon == 1.5
    assert answers.parameters["answer_scale"] == pytest.approx(2 * 3 / 0.5)
    assert [value is None for value in answers.values] == [True, False, True, False]
    assert all(isinstance(value, int) for value in answers.values if value is not None)
    rng = SeededRng(1)
    drawn = {
        dp.sparse_vector([10**7], **CASE, answers_epsilon=0.5, rng=rng).values[0] for _ in range(20)
    }
    assert len(drawn) > 3


def test_answers_at_the_extremes():
    """Held within int64; a budget that hardly needs noise adds none."""
    top = [2**63 - 1] * 30
    case = {"threshold": 0, "epsilon": 600.0, "hits": 30}
    values = dp.sparse_vector(top, **case, answers_epsilon=1e-9).values
    assert max(values) == 2**63 - 1
    assert min(values) < 2**63 - 1
    assert dp.sparse_vector(top, **case, answers_epsilon=1e300).values == tuple(top)


def test_a_generator_is_told_and_closed():
    told, closed = [], []

    def ask():
        try:
            for query in (0, 10000000, 3, 20000000, 7):
                told.append((yield query))
        finally:
            closed.append(True)

    answers = dp.sparse_vector(ask(), **CASE, hits=2)
    assert answers.bits.tolist() == [False, True, False, True]
    assert told == [False, True, False]  # nothing is asked after the last hit
    assert closed == [True]
    told.clear()
    noisy = dp.sparse_vector(ask(), **CASE, hits=2, answers_epsilon=1.0)
    assert told == [None, noisy.values[1], None]
    left = iter([0, 10000000, 3])
    assert len(dp.sparse_vector(left, **CASE)) == 2
    assert next(left) == 3
    assert len(dp.sparse_vector(iter([0, 0]), **CASE)) == 2


def test_a_session_charges_first_and_ends():
    tests = dp.SparseVector(**CASE)
    assert tests.cost.epsilon == 0.0
    with pytest.raises(ValueError, match="finite"):
        tests.test(math.nan)
    assert tests.cost.epsilon == 0.0  # refused at the door
    assert not tests.test(0)
    assert tests.cost.epsilon == 1.0
    assert tests.test(10**7)
    assert tests.exhausted
    with pytest.raises(dp.ExhaustedError):
        tests.test(0)
    with pytest.raises(dp.ExhaustedError):
        tests.test_all([1, 2])
    assert tests.result().bits.tolist() == [False, True]


def test_a_failing_source_is_charged_for(monkeypatch):
    tests = dp.SparseVector(**CASE, rng=TapeRng([1]))
    with pytest.raises(dp.errors.TapeEndError):
        tests.test(3)
    assert tests.cost.epsilon == 1.0


def test_a_session_is_not_copied(monkeypatch):
    tests = dp.SparseVector(**CASE, hits=3)
    tests.test(0)
    for duplicate in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            duplicate(tests)
    twin = copy.copy(tests)
    monkeypatch.setattr("os.getpid", lambda: -1)
    for one in (tests, twin):
        with pytest.raises(RuntimeError, match="another process"):
            one.test(0)


@pytest.mark.posix
def test_a_child_is_refused_that_was_forked_amid_a_test():
    """Not left to wait for a lock whose holder it has not got."""
    tests = dp.SparseVector(**CASE, hits=3)
    with tests._lock:
        child = os.fork()
        if not child:
            signal.alarm(10)
            with contextlib.suppress(RuntimeError):
                tests.test(0)
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def test_threads_share_the_hits():
    tests = dp.SparseVector(threshold=0, epsilon=1.0, hits=200)

    def hammer(_):
        found = 0
        try:
            for _ in range(100):
                found += tests.test(10**9)
        except dp.ExhaustedError:
            pass
        return found

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(hammer, range(8))) == 200
    assert len(tests.result()) == 200


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"epsilon": 0}, ValueError, "epsilon must be a finite number > 0, got 0"),
        ({"epsilon": "1"}, TypeError, "epsilon must be a real number, got str"),
        ({"epsilon": 5e-324}, ValueError, "epsilon is too small"),
        ({"epsilon": 1e-320}, ValueError, "epsilon is too small"),
        ({"hits": 0}, ValueError, "hits must be an integer >= 1, got 0"),
        ({"hits": 1.0}, TypeError, "hits must be an integer, got float"),
        ({"monotone": 1}, TypeError, "monotone must be True or False, got int"),
        ({"above": "yes"}, TypeError, "above must be True or False, got str"),
        ({"sensitivity": -1}, ValueError, "sensitivity must be a finite number > 0"),
        ({"sensitivity": 1e308, "hits": 2}, ValueError, "sensitivity is too large"),
        ({"split": 0}, ValueError, r"split must be in \(0, 1\), got 0"),
        ({"split": 1}, ValueError, r"split must be in \(0, 1\), got 1"),
        ({"epsilon": 5e-324}, ValueError, "epsilon is too small to split"),
        ({"threshold": math.inf}, ValueError, "threshold must be finite"),
        ({"threshold": 2**63}, ValueError, "threshold must be within int64"),
        ({"threshold": "7"}, TypeError, "threshold must be an integer or a float, got str"),
        ({"threshold": True}, TypeError, "threshold must be an integer or a float, got bool"),
        ({"answers_epsilon": 0}, ValueError, "answers_epsilon must be a finite number > 0"),
        ({"answers_epsilon": 1e-16}, ValueError, "answers_epsilon is too small"),
        ({"rng": 7}, TypeError, "rng must be None"),
        ({"queries": [1.0, math.nan]}, ValueError, "queries must not contain NaN"),
        ({"queries": [1.0, math.inf]}, ValueError, "queries must not contain infinite"),
        ({"queries": [[1, 2]]}, ValueError, "queries must have one dimension"),
        ({"queries": ["1"]}, TypeError, "queries must be an array of integers or floats"),
        ({"queries": np.array([2**63], np.uint64)}, ValueError, r"queries must be below 2\*\*63"),
        ({"queries": iter([None])}, TypeError, "query must be an integer or a float, got NoneType"),
        ({"queries": iter([True])}, TypeError, "query must be an integer or a float, got bool"),
        ({"queries": iter([2**63])}, ValueError, "query must be within int64$"),
        ({"queries": iter([-math.inf])}, ValueError, "query must be finite$"),
        ({"queries": [1.5], "answers_epsilon": 1}, TypeError, "queries must be integers where"),
        ({"queries": iter([1.5]), "answers_epsilon": 1}, TypeError, "queries must be integers"),
    ],
)
def test_bad_input(changes, error, message, monkeypatch):
    """Refused at the door: no random word is drawn for it."""
    monkeypatch.setattr(_core, "sparse_vector", None)
    queries = changes.pop("queries", [1, 2])
    with pytest.raises(error, match=f"^{message}"):
        dp.sparse_vector(queries, **{**CASE, **changes})


def test_no_secure_randomness_no_release(monkeypatch):
    from dptopk import rng

    def broken(count):
        raise NotImplementedError

    monkeypatch.setattr("os.urandom", broken)
    monkeypatch.setattr(rng, "_free", [])
    with pytest.raises(dp.RandomnessError):
        dp.sparse_vector([1, 2], **CASE)
