"""The race kernel against its exact twin on the same tape, and its error bounds."""

import math

import mpmath
import numpy as np
import pytest
from mpmath import libmp
from scipy import special

from dptopk import SeededRng, _core
from dptopk._counts import Head
from dptopk.mechanisms import _select
from dptopk.reference import noise as noise_law
from dptopk.reference import race as exact
from dptopk.reference.interval import Interval
from dptopk.verification.sampling import chi_square, power

TAPES = 1000
LONG = 1 << 16  # words of a tape for fresh noise, in a head that is cut too short
NOISES = sorted(_core.NOISES)


def full(value):
    """A value that only `make test-full` tries."""
    return pytest.param(value, marks=pytest.mark.full)


every_noise = pytest.mark.parametrize("noise", NOISES)


def words(seed, n=4096):
    return np.random.default_rng(seed).integers(0, 2**64, size=n, dtype=np.uint64)


def head_of(array, m):
    keys, items, _ = _core.cut(array, m)
    tail = array if m < array.size else None
    return Head(keys, items, tail, array.dtype.kind == "f")


def kernel(head, tape, *, k, scale, noise="gumbel", offsets=None, stop=None, fresh=False):
    source = _core.TapeSource(tape)
    source.begin()
    key, offset = stop or (0, 0.0)
    picks = _core.race(
        source, head.keys, head.items, k, scale, _core.NOISES[noise], head.real,
        head.tail, offsets, stop is not None, key, offset, fresh,
    )  # fmt: skip
    return None if picks is None else picks.tolist()


def reference(head, tape, *, k, scale, noise="gumbel", offsets=None, stop=None, fresh=99):
    generator = np.random.default_rng(fresh)
    source = exact.Tape(
        _core.TapeSource(tape).read,
        lambda n: generator.integers(0, 2**64, size=n, dtype=np.uint64),
    )
    field = _select.exact_field(head, offsets=offsets, stop=stop)
    return exact.race(source, field, k=k, scale=scale, noise=noise)


def reference_afresh(head, tape, *, k, scale, noise, offsets=None, stop=None):
    generator = np.random.default_rng(99)
    source = exact.Tape(
        _core.TapeSource(tape).read,
        lambda n: generator.integers(0, 2**64, size=n, dtype=np.uint64),
    )
    field = _select.exact_field(head, offsets=None, stop=None)
    return exact.race_afresh(source, field, k=k, scale=scale, noise=noise)


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


@pytest.mark.slow
@every_noise
def test_kernel_equals_reference_on_the_same_tape(noise, levels, wide):
    """At every level; and no noise passes for another."""
    tapes = TAPES if wide else 200
    right = []
    for seed in range(tapes):
        head, case = random_case(np.random.default_rng(seed))
        right.append(reference(head, words(seed), noise=noise, **case))
    for level in levels:
        undecided = 0
        for seed in range(tapes):
            head, case = random_case(np.random.default_rng(seed))
            picks = kernel(head, words(seed), noise=noise, **case)
            if picks is None:
                # Far below the first score, doubles can't tell one noise from another.
                assert span(head) / case["scale"] > 2**30
                undecided += 1
            else:
                assert picks == right[seed], (level, seed)
        assert undecided < tapes / 4
    for other in NOISES:
        picks = []
        for seed in range(200):
            head, case = random_case(np.random.default_rng(seed))
            picks.append(kernel(head, words(seed), noise=other, **case) or right[seed])
        assert (picks == right[:200]) == (noise == other)


@every_noise
def test_a_broken_twin_disagrees(noise):
    """The comparison can fail: a scale 1% off is seen within these tapes."""
    wrong = 0
    for seed in range(400):
        head, case = random_case(np.random.default_rng(seed))
        right = kernel(head, words(seed), noise=noise, **case)
        case["scale"] *= 1.01
        wrong += right != kernel(head, words(seed), noise=noise, **case)
    assert wrong > 0


def test_error_bounds_are_taken_whole():
    """They are proved for no smaller a factor; other tests raise it and put it back."""
    assert _core.error_factor == 1.0


@pytest.mark.slow
@every_noise
def test_forced_replay_gives_the_same_picks(monkeypatch, noise):
    """Wider error bounds send most calls to the replay, with the same result."""
    replays = 0
    for seed in range(150):
        head, case = random_case(np.random.default_rng(seed))
        monkeypatch.setattr(_core, "error_factor", 1.0)
        picks, _ = _select.select(head, rng=SeededRng(seed), noise=noise, **case)
        monkeypatch.setattr(_core, "error_factor", 2.0**48)
        replays += kernel(head, words(seed), noise=noise, **case) is None
        again, private = _select.select(head, rng=SeededRng(seed), noise=noise, **case)
        assert again.tolist() == picks.tolist(), seed
        assert not private
    assert replays > 50


def fresh_cases(tapes):
    """The cases without offsets and stopper."""
    for seed in range(tapes):
        head, case = random_case(np.random.default_rng(seed))
        if case["offsets"] is None and case["stop"] is None:
            yield seed, head, case


@pytest.mark.slow
@every_noise
def test_fresh_noise_for_every_pick_equals_the_reference(noise, levels, wide):
    tapes = 100 if noise == "gaussian" else 400 if wide else 150
    right = {
        seed: reference_afresh(head, words(seed, LONG), noise=noise, **case)
        for seed, head, case in fresh_cases(tapes)
    }
    for level in levels:
        undecided = changed = 0
        for seed, head, case in fresh_cases(tapes):
            tape = words(seed, LONG)
            picks = kernel(head, tape, noise=noise, fresh=True, **case)
            undecided += picks is None
            assert picks is None or picks == right[seed], (level, seed)
            changed += picks is not None and picks != kernel(head, tape, noise=noise, **case)
        assert undecided <= len(right) / 10
        assert changed > len(right) / 10  # one draw for all picks is something else


@every_noise
def test_forced_replay_of_fresh_noise_gives_the_same_picks(monkeypatch, noise):
    replays = 0
    for seed, head, case in fresh_cases(60):
        monkeypatch.setattr(_core, "error_factor", 1.0)
        picks, _ = _select.select(head, rng=SeededRng(seed), noise=noise, fresh=True, **case)
        monkeypatch.setattr(_core, "error_factor", 2.0**48)
        replays += kernel(head, words(seed, LONG), noise=noise, fresh=True, **case) is None
        again, _ = _select.select(head, rng=SeededRng(seed), noise=noise, fresh=True, **case)
        assert again.tolist() == picks.tolist(), seed
    assert replays > 10


@pytest.mark.slow
@every_noise
def test_fresh_picks_are_distinct_and_all_items_when_k_is_d(noise):
    rng = np.random.default_rng(3)
    for d, m in [(1, 1), (2, 1), (50, 7), (400, 50), (3000, 1), (3000, 3000)]:
        for scores in (rng.integers(0, 3, size=d), rng.normal(size=d), np.zeros(d, np.int64)):
            picks, _ = _select.select(
                head_of(scores, m), k=d, scale=2.0, noise=noise, rng=SeededRng(d), fresh=True
            )
            assert sorted(picks.tolist()) == list(range(d))


@every_noise
def test_fresh_picks_from_a_tail_of_a_million_ties(noise):
    scores = np.zeros(1_000_000, np.int64)
    for m, leaders in ((1, 0), (1024, 50)):
        scores[:leaders] = 4
        case = {"k": 300, "scale": 1.0, "noise": noise, "fresh": True}
        picks, _ = _select.select(head_of(scores, m), rng=SeededRng(m), **case)
        assert len(set(picks.tolist())) == 300
        cells = np.bincount(picks[picks >= 1024] * 10 // scores.size, minlength=10)
        assert cells.sum() > 200
        assert cells.min() > 5


def test_fresh_noise_knows_neither_offsets_nor_a_stopper():
    head = Head(np.array([2, 1], np.int64), np.arange(2), None, False)
    for other in ({"offsets": np.zeros(2)}, {"stop": (1, 0.0)}):
        with pytest.raises(ValueError, match="fresh"):
            kernel(head, words(0), k=1, scale=1.0, fresh=True, **other)


@pytest.mark.slow
@every_noise
@pytest.mark.parametrize("m", [full(1), 3, full(5)])
def test_fresh_picks_have_the_law_of_races_one_after_the_other(noise, m):
    """Gumbel noise drawn once has that law too, no other noise has."""
    scores = {0: 7, 1: 5, 2: 5, 3: 2, 4: 0}
    head = head_of(np.array(list(scores.values())), m)
    law = {}
    for (first,), chance in noise_law.sequence_law(scores, k=1, scale=3.0, noise=noise).items():
        rest = {item: score for item, score in scores.items() if item != first}
        for (second,), share in noise_law.sequence_law(rest, k=1, scale=3.0, noise=noise).items():
            law[first, second] = chance * share
    once = noise_law.sequence_law(scores, k=2, scale=3.0, noise=noise)
    draws = 150_000

    def sampler(fresh):
        def sample(n, seed):
            rng = SeededRng(seed)
            case = {"k": 2, "scale": 3.0, "noise": noise, "rng": rng, "fresh": fresh}
            return [tuple(_select.select(head, **case)[0].tolist()) for _ in range(n)]

        return sample

    assert chi_square(law, sampler(True), draws=draws, seed=8).passed
    if noise == "gumbel":
        assert all(abs(law[pair] - once[pair]) < 1e-12 for pair in law)
    else:
        assert power(law, once, draws=draws) > 0.999
        assert not chi_square(law, sampler(False), draws=draws, seed=8).passed


@pytest.mark.parametrize("word", [0, 1, 2**63, 2**64 - 2, 2**64 - 1])
def test_further_bits_stay_within_what_a_word_leaves_open(word):
    for further in (0, 2**64 - 1):
        tape = exact.Tape(lambda n: [word], lambda n, further=further: [further])
        variate = exact.Exponential(tape)
        wide, narrow = variate.interval(1), variate.interval(2)
        assert libmp.mpf_le(wide.ends[0], narrow.ends[0])
        assert libmp.mpf_ge(wide.ends[1], narrow.ends[1])
        assert wide.ends != narrow.ends


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


@every_noise
@pytest.mark.parametrize("word", [0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1])
def test_extreme_words_are_never_decided_wrongly(word, noise):
    head = Head(np.array([3, 3, 1], np.int64), np.arange(3), None, False)
    for seed in range(20):
        tape = words(seed, 64)
        tape[seed % 4] = word
        picks = kernel(head, tape, k=3, scale=1.0, noise=noise)
        right = reference(head, tape, k=3, scale=1.0, noise=noise)
        assert picks is None or picks == right


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


def near_one(rng):
    return 1 - rng.random(2000) * 2.0 ** -rng.integers(1, 53, 2000)


LIBM = {
    "log": lambda rng: np.r_[
        rng.random(2000), near_one(rng), 2.0 ** -rng.uniform(0, 70, 2000),
        10 ** rng.uniform(0, 18, 2000),
    ],
    "log1p": lambda rng: -np.r_[rng.uniform(0, 0.51, 4000), 10 ** -rng.uniform(0.3, 300, 2000)],
    "expm1": lambda rng: -np.r_[10 ** rng.uniform(-40, 3, 4000), rng.uniform(0, 2, 2000)],
    "exp": lambda rng: -np.r_[rng.uniform(0, 700, 4000), 10 ** rng.uniform(-20, 0, 1000)],
    "erfc": lambda rng: np.r_[rng.uniform(-0.01, 6, 4000), rng.uniform(6, 26.2, 2000)],
}  # fmt: skip


@pytest.mark.parametrize("function", LIBM)
def test_libm_errs_by_less_than_the_analysis_assumes(function):
    """csrc/variate.h assumes 2^-50 relative (4 ulp), and 2^-49 of erfc."""
    bound = 2.0**-49 if function == "erfc" else 2.0**-50
    true, measured = getattr(mpmath, function), getattr(math, function)
    with mpmath.workprec(200):
        for x in LIBM[function](np.random.default_rng(1)).tolist():
            right = true(mpmath.mpf(x))
            assert abs(mpmath.mpf(measured(x)) - right) <= abs(right) * bound, x


def true_noise(noise, s):
    """F^-1(exp(-s)) at the precision in use, straight from its definition."""
    if noise == "gumbel":
        return -mpmath.log(s)
    if noise == "exponential":
        return -mpmath.log(-mpmath.expm1(-s))
    if noise == "laplace":
        above = -mpmath.log(-2 * mpmath.expm1(-s))
        return above if above > 0 else mpmath.log(2) - s
    if noise == "uniform":
        return 2 * mpmath.expm1(-s)
    root = mpmath.sqrt(2)  # gaussian: by Newton's method
    z = mpmath.mpf(float(special.ndtri_exp(-float(s))))
    for _ in range(4):
        below = mpmath.erfc(-z / root) / 2
        at = -mpmath.log(below) if z < 0 else -mpmath.log1p(-mpmath.erfc(z / root) / 2)
        z += (at - s) * below * mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(z * z / 2)
    return z


def sums(rng):
    """Where noises are looked up: sums of all sizes, dense around the median."""
    middle = math.log(2) * (1 + rng.normal(size=100) * 2.0 ** -rng.integers(20, 53, 100))
    return np.r_[
        10 ** rng.uniform(-31, 2.8, 300), rng.uniform(0, 60, 100), middle, math.log(2),
        np.nextafter(math.log(2), 1),
    ].tolist()  # fmt: skip


@pytest.mark.slow
@every_noise
@pytest.mark.parametrize("relative", [0.0, full(2.0**-52), 2.0**-25, full(2.0**-11)])
def test_noise_lies_within_its_error_bound(noise, relative):
    rng = np.random.default_rng(6)
    missed = 0
    with mpmath.workprec(250):
        for s in sums(rng):
            value, error = _core.noise_value(_core.NOISES[noise], s, relative * s)
            _, blind = _core.noise_value(_core.NOISES[noise], s, 0.0)
            if relative < 2.0**-50:  # not a bound that says nothing
                assert error <= 2.0**-47 * (1 + abs(value))
            for end in (-1, rng.uniform(-1, 1), 1):
                miss = abs(true_noise(noise, s * (1 + mpmath.mpf(relative) * end)) - value)
                assert miss <= error, s
                missed += miss > blind
    assert (missed > 200) == (relative >= 2.0**-25)  # the bound has to know of the error of s


def moved_by_libm(noise, s):
    """How far a noise moves if each function of libm errs by as much as the analysis assumes."""
    libm, erfc = 2.0**-50, 2.0**-49
    if noise == "gaussian":
        z, beyond = special.ndtri_exp(-s), min(math.exp(-s), -math.expm1(-s))
        slope = math.exp(-s + z * z / 2) * math.sqrt(2 * math.pi)
        return slope * (libm * s + erfc * (beyond / (1 - beyond) if z > 0 else 1.0))
    if noise == "uniform":
        return libm * -2 * math.expm1(-s)
    logarithm = -math.log(s if noise == "gumbel" else -math.expm1(-s))
    if noise == "laplace" and s > math.log(2):
        return 0.0
    return libm * (abs(logarithm) + (noise != "gumbel"))


@every_noise
def test_the_error_bound_of_a_noise_allows_for_any_libm(noise):
    """Here libm may err by less than it is allowed to, so that a wrong bound would still hold."""
    least = math.inf
    for s in sums(np.random.default_rng(7)):
        _, error = _core.noise_value(_core.NOISES[noise], s, 0.0)
        needed = moved_by_libm(noise, s)
        assert error >= needed * (1 - 1e-9), s
        least = min(least, error / needed) if needed else least
    assert least < 2.5  # half of it would not do


@every_noise
def test_a_noise_out_of_reach_claims_nothing(noise):
    """Sums whose error is their own size, or past the range of a normal tail."""
    blind = _core.noise_value(_core.NOISES[noise], 1e-20, 1e-20)[1]
    assert blind > 1.9e-20 if noise == "uniform" else blind == math.inf
    assert _core.noise_value(_core.NOISES[noise], 1.0, math.inf)[1] == math.inf
    if noise == "gaussian":
        for s in (0.5, math.log(2), 0.8):  # too far for two terms of a series, at the median too
            assert _core.noise_value(_core.NOISES[noise], s, 0.1)[1] == math.inf
        for s in (5e-324, 1e-308, 750.0, 1e5, 1e300):
            assert not _core.noise_value(_core.NOISES[noise], s, 0.0)[1] < math.inf


@pytest.mark.slow
@pytest.mark.parametrize("precision", [96, full(160)])
@pytest.mark.parametrize("function", ["log", "exp", "expm1", *NOISES])
def test_intervals_hold_the_true_value_and_little_else(function, precision, wide):
    rng = np.random.default_rng(7)
    points = sums(rng)[:: 1 if wide else 4]
    if function in ("exp", "expm1"):
        points += [-x for x in points]
    missed = 0
    with mpmath.workprec(1200):
        for x in points:
            interval = Interval.exact(x, precision)
            if function in exact.LAWS:
                interval = exact.LAWS[function](interval)
                true = true_noise(function, mpmath.mpf(x))
            else:
                interval = getattr(interval, function)()
                true = getattr(mpmath, function)(mpmath.mpf(x))
            low, high = map(mpmath.mp.make_mpf, interval.ends)
            assert low <= true <= high, x
            assert high - low <= mpmath.mpf(2) ** (24 - precision) * (1 + abs(true))
            missed += not low <= true * (1 + mpmath.mpf(2) ** (28 - precision)) <= high
    assert missed > len(points) / 2


@every_noise
def test_intervals_reach_to_the_ends_of_a_noise(noise):
    """Where 64 bits leave S open at 0 or at infinity."""
    least = {"exponential": 0, "uniform": -2}.get(noise, -math.inf)
    most, ulp = (0, 2.0**-52) if noise == "uniform" else (math.inf, 1e-20)  # of -2 as a double
    some = Interval.exact(1, 96)
    zero, infinity = Interval.exact(0, 96), Interval(libmp.finf, libmp.finf, 96)
    values = [exact.LAWS[noise](s) for s in (infinity.hull(infinity), some, zero)]
    low, middle, high = ((libmp.to_float(v.ends[0]), libmp.to_float(v.ends[1])) for v in values)
    assert least - ulp <= low[0] <= low[1] <= least + ulp
    assert -1.3 < middle[0] <= middle[1] < 1
    assert high == (most, most)


def test_others_who_use_mpmath_do_not_write_its_constants():
    """Their threads don't know the lock: half-written, ln 2 is off by a power of 2."""
    from dptopk.accounting import gaussian_sigma

    memos = [
        constant.__closure__[0].cell_contents for constant in (libmp.ln2_fixed, libmp.pi_fixed)
    ]
    assert [memo.memo_val >> (memo.memo_prec - 4) for memo in memos] == [11, 50]
    before = [memo.memo_prec for memo in memos]
    assert min(before) > 4000
    gaussian_sigma.__globals__["_sigma"].cache_clear()
    assert gaussian_sigma(epsilon=1e300, delta=0.5) > 0.0  # in 3,500 bits
    assert [memo.memo_prec for memo in memos] == before


@every_noise
def test_no_item_twice_and_all_items_when_k_is_d(noise):
    rng = np.random.default_rng(3)
    for d, m in [(1, 1), (2, 1), (50, 7), (400, 50)]:
        scores = rng.integers(0, 3, size=d)
        picks, _ = _select.select(head_of(scores, m), k=d, scale=2.0, noise=noise, rng=SeededRng(d))
        assert sorted(picks.tolist()) == list(range(d))


@pytest.mark.parametrize("scores", [[0.0, 5e-324], [0.0, 1.5e-323], [1.6e308, -1.7e308]])
def test_differences_at_the_ends_of_the_range_are_exact(scores):
    """Neither subnormal differences nor those past the range of doubles lose anything."""
    head = head_of(np.array(scores), 2)
    scale = max(abs(scores[1] - scores[0]) / 2, 5e-324) if scores[0] == 0.0 else 1e308
    for seed in range(200):
        tape = words(seed, 16)
        assert kernel(head, tape, k=2, scale=scale) == reference(head, tape, k=2, scale=scale)


@pytest.mark.slow
@every_noise
def test_large_k_is_decided_in_doubles(noise):
    """The error of a long race grows as its sum does, not with the number of its steps."""
    scores = np.random.default_rng(2).poisson(3, size=200_000)
    head = head_of(scores, scores.size)
    undecided = [
        kernel(head, words(seed, 1_000_000), k=scores.size, scale=20.0, noise=noise) is None
        for seed in range(4)
    ]
    assert not any(undecided)


def noise_after(noise, tape, spacings, n):
    """The noise at S_j to 300 bits, for the middle of what the words leave open."""
    s = mpmath.mpf(0)
    for i, word in enumerate(spacings):
        u = (mpmath.mpf(int(tape[word])) + 0.5) / 2**64
        s -= mpmath.log(1 - u) / (n - i)
    return true_noise(noise, s)


@pytest.mark.slow
@every_noise
@pytest.mark.parametrize("j", [full(1), 2, full(300)])
@pytest.mark.parametrize("gap", [0, 1, 10**6 + 1, -(10**6) - 1, -(2**60) - 1])
@pytest.mark.parametrize("extreme", [False, True])
def test_near_ties_are_never_decided_wrongly(j, gap, extreme, noise):
    """A stopper set to within rounding of the j-th noise of a block of equal scores."""
    n = j + 1
    head = Head(np.full(n, 2**61, np.int64), np.arange(n), None, False)
    decided = 0
    for seed in range(200 if j < 300 else 25):
        rng = np.random.default_rng(seed)
        tape = words(seed, 2 * n + 8)
        if extreme:  # the last words leave ln(1 - U) open, or are rounded upwards
            tape[1] = ~np.uint64(0) - np.uint64(2 ** rng.uniform(1, 53))
        # Far apart in scales, the scores are rounded by more than the noise is.
        scale = float(abs(gap) / 10 ** rng.uniform(0, 6) if gap else 1.0)
        with mpmath.workprec(300):
            spacings = [0, *range(3, 2 * j, 2)]
            value = noise_after(noise, tape, spacings, n)
            offset = value - noise_after(noise, tape, [1], 1) - mpmath.mpf(gap) / scale
        stop = (2**61 + gap, float(offset) + int(rng.integers(-1, 2)) * np.spacing(float(offset)))
        picks = kernel(head, tape, k=n, scale=scale, noise=noise, stop=stop)
        if picks is not None:
            decided += 1
            assert picks == reference(head, tape, k=n, scale=scale, noise=noise, stop=stop), seed
    assert decided < 50


@every_noise
def test_near_ties_of_offsets_are_never_decided_wrongly(noise):
    """Equal scores, and offsets that make up for their noises to within rounding."""
    head = Head(np.full(2, 7, np.int64), np.arange(2), None, False)
    decided = 0
    for seed in range(200):
        rng, tape = np.random.default_rng(seed), words(seed, 8)
        first = float(10 ** rng.uniform(1, 6))
        with mpmath.workprec(300):
            noises = [noise_after(noise, tape, [word], 1) for word in (0, 1)]
            second = float(first + noises[0] - noises[1])
        offsets = np.array([first, second + int(rng.integers(-1, 2)) * np.spacing(second)])
        picks = kernel(head, tape, k=2, scale=1.0, noise=noise, offsets=offsets)
        if picks is not None:
            decided += 1
            assert picks == reference(head, tape, k=2, scale=1.0, noise=noise, offsets=offsets)
    assert decided < 50


@pytest.mark.full
def test_a_long_race_is_summed_as_precisely_as_it_claims():
    """A stopper set beside the 300,000th noise of a million, to either side of it.

    Added up as plain doubles, their sum is off by 2^-45 of itself.
    """
    n, j = 10**6, 300_000
    head = Head(np.zeros(n, np.int64), np.arange(n), None, False)
    for seed in (5, 7):  # where what doubles drop is much
        tape = words(seed, 2 * j + 64)
        v = (tape[[1, 0, *range(3, 2 * j, 2)]] + 0.5) * -(2.0**-64)  # between them a rank each
        stop, *spacings = (-np.log1p(v) / np.r_[1, n - np.arange(j)]).tolist()
        gap = math.log(stop) - math.log(math.fsum(spacings))
        for step in (-32, -24, -16, -8, 8, 16, 24, 32):
            picks = kernel(head, tape, k=j, scale=1.0, stop=(0, gap + step * 2.0**-50))
            if picks is None:
                assert abs(step) < 16
            else:
                assert (picks[-1] == exact.STOP) == (step > 0)


def test_values_past_the_range_of_doubles_are_never_decided_wrongly():
    """Scores and offsets whose sums, or whose errors, overflow: right, or not decided."""
    huge = [0.0, 1.0, 1e300, 4e307, 8.9e307, 1.3e308, 1.7e308]
    huge = np.array(huge + [-x for x in huge])
    decided = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 6))
        scores, offsets = rng.choice(huge, size=(2, d))
        if seed % 3 == 0:
            offsets[rng.random(d) < 0.7] = 0.0
        head = Head(_core.keys(scores), np.arange(d), None, True)
        case = {"k": d, "scale": float(rng.choice([1e-3, 1.0, 3.0])), "offsets": offsets}
        picks = kernel(head, words(seed, 64), **case)
        decided += picks is not None
        assert picks is None or picks == reference(head, words(seed, 64), **case), seed
    assert decided > 30


@every_noise
def test_near_ties_far_below_the_first_score_are_never_decided_wrongly(noise):
    """Scores alone that make up for the noises of the second item and the third."""
    tried = decided = 0
    for seed in range(600):
        rng, tape = np.random.default_rng(seed), words(seed, 8)
        with mpmath.workprec(300):
            second, third = (noise_after(noise, tape, [word], 1) for word in (1, 2))
            near = float(10 ** rng.uniform(3, 6))
            far = float(near + third - second)
        if far < near + 0.6:  # one block
            continue
        far += int(rng.integers(-1, 2)) * np.spacing(far)
        head = head_of(np.array([0.0, -near, -far]), 3)
        picks = kernel(head, tape, k=3, scale=1.0, noise=noise)
        tried += 1
        if picks is not None:
            decided += 1
            assert picks == reference(head, tape, k=3, scale=1.0, noise=noise)
    assert decided < tried / 4 > 10


def test_blocks_are_cut_alike(wide):
    """Differences of exactly half a scale, and of exactly what leaves a rest out."""
    for seed in range(1500 if wide else 300):
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
