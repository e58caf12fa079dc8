"""gamma: its law, the radius, both forms. Uniform noise as such is in test_race.py."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from scipy import special

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.reference import gamma
from dptopk.reference import race as exact
from dptopk.reference.noise import sequence_law
from dptopk.rng import acquire, release
from dptopk.verification.sampling import chi_square, power

# ---- the law


def by_enumeration(scores, k, rate, radii):
    """The integer mechanism as it is defined: all radii, all noises, all orders of ties."""
    d, chances = len(scores), defaultdict(float)
    for tau in range(radii):
        weight = math.exp(-rate * tau)  # of each point of the cube
        for noise in itertools.product(range(-tau, tau + 1), repeat=d):
            noisy = [score + z for score, z in zip(scores, noise, strict=True)]
            for order in itertools.permutations(range(d)):
                if all(noisy[a] >= noisy[b] for a, b in itertools.pairwise(order)):
                    ties = math.prod(math.factorial(noisy.count(y)) for y in set(noisy))
                    chances[order[:k]] += weight / ties
    total = sum(chances.values())
    return {picks: chance / total for picks, chance in chances.items()}


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_law_is_that_of_the_integer_mechanism(k, monotone):
    scores, rate, radii = (2, 1, 0), 4.0, 9
    doubled = [2 * score for score in scores] if monotone else scores
    expected = by_enumeration(doubled, k, rate, radii)  # what is left out: 17^3 e^-36
    law = gamma.law(scores, k=k, epsilon=rate, monotone=monotone)
    for picks, chance in law.items():
        assert chance == pytest.approx(expected.get(picks, 0.0), abs=1e-11)
    wrong = gamma.law(scores, k=k, epsilon=rate, monotone=not monotone)
    assert any(abs(chance - expected[picks]) > 1e-3 for picks, chance in wrong.items())


@pytest.mark.parametrize("k", [1, 2, 4])
def test_uniform_noise_has_the_law_that_panels_give(k):
    scores, scales = (4, 2, 2, 0), np.array([0.75, 1.5, 3.25])
    at_once = gamma.uniform_law(scores, scales, k=k)
    for i, scale in enumerate(scales):
        one = sequence_law(dict(enumerate(scores)), k=k, scale=scale, noise="uniform")
        assert one.keys() == at_once.keys()
        for picks, chance in one.items():
            assert at_once[picks][i] == pytest.approx(chance, abs=1e-13)


def worst_loss(law, items=3, largest=2):
    """The largest ln(P / Q) between scores that differ by -1, 0 or 1 each, any way."""
    laws = {s: law(s) for s in itertools.product(range(largest + 1), repeat=items)}
    return max(
        math.log(p / laws[other][picks])
        for scores, chances in laws.items()
        for other in laws
        if max(abs(a - b) for a, b in zip(scores, other, strict=True)) == 1
        for picks, p in chances.items()
    )


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_scores_that_move_both_ways_need_the_whole_noise(epsilon):
    for k in (1, 2, 3):
        law = partial(gamma.law, k=k, epsilon=epsilon)
        assert worst_loss(partial(law, monotone=False)) == pytest.approx(epsilon, rel=1e-9)
        assert worst_loss(law) > 1.9 * epsilon


# ---- the radius


def drawn_radii(d, rate, draws, seed):
    source = acquire(SeededRng(seed))
    try:
        tape = exact.Tape(source.read, source.fresh)
        for _ in range(draws):
            yield gamma.radius(tape, d, rate)
            source.begin()
    finally:
        release(source)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "rate", "wrong"),
    [
        (1, 0.3, 0.345),
        pytest.param(4, 1.0, 1.1, marks=pytest.mark.full),
        pytest.param(2, 5.0, 4.5, marks=pytest.mark.full),
        (900, 40.0, 40.4),
    ],
)
def test_radii_have_their_law(d, rate, wrong):
    law = dict(enumerate(gamma.radius_law(d, rate)))
    sees = dict(enumerate(gamma.radius_law(d, wrong)))
    sample = partial(drawn_radii, d, Fraction(rate))
    draws = 6000
    assert power(law, sees, draws=draws) > 0.999
    assert chi_square(law, lambda n, seed: sample(n, seed), draws=draws, seed=31).passed


def test_large_radii_have_their_law():
    """In tenths of the normal law that they are near: d = 1e7, epsilon 1e-3."""
    d, rate = 10**7, 1e-3
    radii = np.fromiter(drawn_radii(d, Fraction(rate), 4000, 5), float)
    z = (radii - (d + 1) / rate) * rate / math.sqrt(d)
    tenths = special.ndtri(np.arange(1, 10) / 10)

    def statistic(values):
        cells = np.bincount(np.searchsorted(tenths, values), minlength=10)
        return ((cells - 400) ** 2 / 400).sum()

    critical = special.chdtri(9, 1e-9)
    assert statistic(z) < critical
    assert statistic(z + 0.3) > critical
    assert statistic(1.3 * z) > critical


@pytest.mark.parametrize(
    ("d", "rate"), [(1, 100.0), (1, 1e-3), (3, 0.7), (100, 100.0), (10**7, 1e-3), (10**7, 100.0)]
)
def test_the_envelope_covers_the_law(d, rate):
    """At the ends of 40 blocks to both sides, by 60 digits."""
    top, width = gamma.envelope(d, Fraction(rate))
    with mpmath.workdps(60):

        def log_chance(tau):
            return d * mpmath.log(2 * tau + 1) - mpmath.mpf(rate) * tau

        for tau in (top - 1, top + 1):
            assert tau < 0 or log_chance(tau) < log_chance(top)
        for j in range(40):
            for tau in (top + 1 + j * width, top - j * width):
                assert tau < 0 or log_chance(tau) <= log_chance(top) - j * mpmath.log(2)
        # No wider than it need be, so that a draw takes a few trials.
        assert width == 1 or log_chance(top) - log_chance(top + width) < 1.5


def test_a_likelier_radius_is_found_beside_the_slope():
    """At large rates the top of the curve lies between integers, and far above both."""
    assert [gamma.envelope(100, Fraction(rate))[0] for rate in (60, 100, 109, 110)] == [1, 1, 1, 0]


@pytest.mark.slow
def test_the_envelope_covers_what_is_left_of_the_top():
    """P(0) is 70% of P(1) here, and P(2) next to nothing: a width of 1 is too little."""
    top, width = gamma.envelope(100, Fraction(109.5))
    assert (top, width) == (1, 2)
    law = dict(enumerate(gamma.radius_law(100, 109.5)[:2]))
    assert 0.69 < law[0] / law[1] < 0.7
    sample = partial(drawn_radii, 100, Fraction(109.5))
    assert power(law, {0: 1 / 3, 1: 2 / 3}, draws=6000) > 0.999  # what a width of 1 would give
    assert chi_square(law, lambda n, seed: sample(n, seed), draws=6000, seed=4).passed


def test_an_open_decision_takes_more_bits():
    """A trial of all ones leaves E unbounded; of zeros, it may be 0, as P(top) asks."""
    words = iter([0, 1, 0, 0])  # left, block 0, place 0, E in [0, 2^-64)
    further = iter([0, 5])
    tape = exact.Tape(lambda n: [next(words)], lambda n: [next(further)])
    assert gamma.radius(tape, 1, Fraction(100)) == 0
    assert list(further) == []


def test_runs_of_zero_words_go_on():
    words = iter([0, 0, 8])
    assert gamma.blocks_out(exact.Tape(lambda n: [next(words)], None)) == 131


# ---- the mechanism


def test_the_noise_spans_the_radius():
    """Far enough apart, scores come out in order; within reach, not always."""
    assert dp.gamma([0, 10**6, 2 * 10**6], k=3, epsilon=1.0).items == (2, 1, 0)
    rng = SeededRng(3)
    picks = {dp.gamma([0, 1, 2], k=3, epsilon=1.0, rng=rng).items for _ in range(300)}
    assert len(picks) == 6


def test_smallest_first():
    counts = [10**6, 0, 2 * 10**6]
    assert dp.gamma(counts, k=2, epsilon=1.0, largest=False).items == (1, 0)
    scores = [-(10**6), 0, 2 * 10**6]
    assert dp.gamma(scores, k=1, epsilon=1.0, monotone=False, largest=False).items == (0,)


def test_only_the_ratio_of_epsilon_and_sensitivity_counts():
    counts = np.arange(50) % 7
    one = dp.gamma(counts, k=20, epsilon=0.5, rng=SeededRng(2))
    three = dp.gamma(counts, k=20, epsilon=1.5, sensitivity=3, rng=SeededRng(2))
    other = dp.gamma(counts, k=20, epsilon=1.5, rng=SeededRng(2))
    assert one.items == three.items != other.items
    assert three.cost.epsilon == 1.5


def test_a_sensitivity_that_no_double_holds_is_rounded_up():
    released = dp.gamma([5, 3], k=1, epsilon=1.0, sensitivity=1 + Fraction(1, 2**60))
    assert released.parameters["sensitivity"] == math.nextafter(1.0, 2.0)


def test_the_release_does_not_tell_the_radius():
    one, two = (dp.gamma([5, 3, 1], k=1, epsilon=1.0, rng=SeededRng(s)) for s in (1, 2))
    assert one.parameters == two.parameters
    assert one.parameters["monotone"]
    assert one.ordered
    assert one.cost.delta == 0.0


def test_general_scores_take_twice_the_noise():
    """Two scores, one drawn first with a chance that the law tells apart: 20,000 draws."""
    for monotone in (True, False):
        law, other = (
            gamma.law((0, 2), k=1, epsilon=1.0, monotone=m) for m in (monotone, not monotone)
        )

        def sampler(draws, seed, monotone=monotone):
            rng = SeededRng(seed)
            for _ in range(draws):
                yield dp.gamma([0, 2], k=1, epsilon=1.0, monotone=monotone, rng=rng).items

        assert power(law, other, draws=4000) > 0.999
        assert chi_square(law, sampler, draws=4000, seed=8).passed


@pytest.mark.parametrize("d", [1, 2, 300, 3000])
def test_all_items_when_k_is_d(d):
    for counts in (np.zeros(d, np.int64), np.arange(d)):
        picks = dp.gamma(counts, k=d, epsilon=3.0, rng=SeededRng(d)).items
        assert sorted(picks) == list(range(d))


def test_equal_scores_come_out_evenly():
    rng, counts = SeededRng(6), np.full(5, 9)
    law = dict.fromkeys(itertools.permutations(range(5), 2), 1 / 20)

    def sampler(draws, seed):
        return [dp.gamma(counts, k=2, epsilon=1.0, rng=rng).items for _ in range(draws)]

    assert chi_square(law, sampler, draws=4000, seed=0).passed


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 100.0, 1e5])
def test_a_million_items_mostly_equal(epsilon):
    counts = np.ones(1_000_000, np.int64)
    counts[::50] = 400
    h = dp.Histogram(counts)
    picks = dp.gamma(h, k=100, epsilon=epsilon, rng=SeededRng(1)).indices
    assert len(set(picks.tolist())) == 100
    if epsilon == 1e5:  # the radius is about 10: 400 stand out
        assert (counts[picks] == 400).all()


def test_a_radius_past_doubles_is_replayed(monkeypatch):
    """A scale that no double holds is not rounded to one."""
    scales = []
    race = exact.race

    def spy(*args, **options):
        scales.append(options["scale"])
        return race(*args, **options)

    monkeypatch.setattr(exact, "race", spy)
    monkeypatch.setattr(_core, "race", None)
    release_ = dp.gamma(np.arange(5) * 2**60, k=5, epsilon=1e-17, rng=SeededRng(4))
    assert sorted(release_.items) == list(range(5))
    assert isinstance(scales[0], Fraction)
    assert scales[0].denominator == 4
    assert scales[0] > 2**52


def test_an_unknown_domain_is_refused():
    h = dp.Histogram.truncated([5, 3], ["a", "b"], next_count=1, k_bar=2)
    with pytest.raises(dp.UnknownDomainError, match=r"^gamma is private only over a domain"):
        dp.gamma(h, k=1, epsilon=1.0)


def test_a_bad_count_is_refused_before_the_first_word(monkeypatch):
    monkeypatch.setattr("dptopk.mechanisms.gamma.acquire", None)
    with pytest.raises(ValueError, match=r"^counts must not be negative"):
        dp.gamma([3, -1], k=1, epsilon=1.0)
