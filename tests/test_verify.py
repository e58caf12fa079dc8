"""The exact laws, the checks built on them, and that each check can fail.

Random tests here are seeded and run once, at alpha = 1e-9 unless they say otherwise.
"""

import itertools
import math
from dataclasses import replace
from decimal import Decimal
from functools import partial
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy import stats

from dptopk.reference import limited_domain, peel
from dptopk.reference.limited_domain import BOT
from dptopk.rng import SeededRng
from dptopk.verification import entries
from dptopk.verification import limited_domain as limited_domain_entry
from dptopk.verification import peel as peel_entry
from dptopk.verification.bounded_range import composed_delta
from dptopk.verification.draws import Public
from dptopk.verification.privacy import Claim, Table, hockey_stick
from dptopk.verification.registry import Entry, PrivacyCheck, SamplerCheck, TapeCheck
from dptopk.verification.sampling import chi_square, power, tape_twin
from dptopk.verification.verify import Report, run, verify

DELTA = 0.01


def exponential_mechanism(counts, epsilon=1.0):
    weights = [math.exp(epsilon * count) for count in counts]
    return {item: weight / sum(weights) for item, weight in enumerate(weights)}


# ---- exact laws


def test_peel_law_is_a_product_of_shares():
    w = [math.exp(c / 2) for c in (3, 1, 0)]
    law = peel.law([3, 1, 0], k=2, scale=2.0)
    assert set(law) == set(itertools.permutations(range(3), 2))
    for i, j in law:
        share = w[i] / sum(w) * w[j] / (sum(w) - w[i])
        assert law[i, j] == pytest.approx(share, rel=1e-14)


@pytest.mark.parametrize(
    ("counts", "scale"),
    [((5, 3, 3, 0), 1.0), ((2**62, 2**62 - 1, 2**62 - 700, 0), 1.0), ((9, 5, 1, 0), 0.05)],
)
def test_float_law_is_the_exact_law(counts, scale):
    rough, exact = (peel.law(counts, k=3, scale=scale, exact=e) for e in (False, True))
    assert rough == pytest.approx(exact, rel=1e-13)
    assert math.fsum(exact.values()) == pytest.approx(1, rel=1e-14)


def test_exact_law_has_fifty_digits_behind_it():
    with mpmath.workdps(60):
        share = 1 / (1 + mpmath.exp(mpmath.mpf(-1) / mpmath.mpf(0.3)))
    assert peel.law([1, 0], k=1, scale=0.3, exact=True)[0,] == float(share)


def test_an_item_of_a_neighbour_is_picked_with_delta_over_one_plus_delta():
    law = limited_domain.law([1, 0], k=1, k_bar=1, scale=0.7, threshold=math.log(1 / DELTA))
    assert law[0,] == pytest.approx(DELTA / (1 + DELTA), rel=1e-13)


@pytest.mark.parametrize(
    ("counts", "k_bar", "known", "expected"),
    [
        ((2, 5, 5, 5), 2, True, ([1, 2], 5)),  # ties at the cut by index
        ((0, 3, 0, 0), 3, True, ([1, 0, 2], 0)),  # zeros compete in a known domain
        ((0, 3, 0, 0), 3, False, ([1], 0)),  # and are not there in an unknown one
        ((1, 2, 1, 1), 4, True, ([1, 0, 2, 3], 0)),  # k_bar = d: the next count is 0
        ((1, 2, 1, 1), 9, False, ([1, 0, 2, 3], 0)),
        ((0, 0, 0, 0), 2, False, ([], 0)),
    ],
)
def test_cut(counts, k_bar, known, expected):
    assert limited_domain.cut(counts, k_bar, known=known) == expected


def test_fewer_items_than_picks_ends_with_bot():
    law = limited_domain.law([0, 4, 0], k=2, k_bar=2, scale=1.0, threshold=1.0, known=False)
    assert set(law) == {(1, BOT), (BOT,)}
    empty = limited_domain.law([0, 0], k=2, k_bar=2, scale=1.0, threshold=1.0, known=False)
    assert empty == {(BOT,): 1.0}


def test_limited_domain_law_by_hand():
    law = limited_domain.law([4, 3, 1], k=2, k_bar=2, scale=2.0, threshold=0.5)
    a, b, bot = math.exp(4 / 2), math.exp(3 / 2), math.exp((1 + 1 + 0.5 * 2.0) / 2)
    total = a + b + bot
    assert law == pytest.approx(
        {
            (0, 1): a / total * b / (b + bot),
            (0, BOT): a / total * bot / (b + bot),
            (1, 0): b / total * a / (a + bot),
            (1, BOT): b / total * bot / (a + bot),
            (BOT,): bot / total,
        }
    )


def test_private_k_bar_is_chosen_by_the_negative_threshold():
    counts = (6, 5, 5, 1)
    law = limited_domain.private_k_bar_law(
        counts, k=1, k_bar_max=3, scale=2.0, delta=DELTA, known=False, with_k_bar=True
    )
    weights = {j: math.exp(-(next_ / 2.0)) / j for j, next_ in ((1, 5), (2, 5), (3, 1))}
    for k_bar, weight in weights.items():
        chance = sum(p for outcome, p in law.items() if outcome[0] == k_bar)
        assert chance == pytest.approx(weight / sum(weights.values()))
    hidden = limited_domain.private_k_bar_law(
        counts, k=1, k_bar_max=3, scale=2.0, delta=DELTA, known=False
    )
    assert hidden[0,] == pytest.approx(sum(p for o, p in law.items() if o[1:] == (0,)))


# ---- the exhaustive check


def test_hockey_stick_is_the_worst_event():
    p, q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.2, 0.3, 0.1, 0.4])
    events = itertools.chain.from_iterable(itertools.combinations(range(4), n) for n in range(5))
    worst = max(p[list(e)].sum() - math.exp(0.3) * q[list(e)].sum() for e in events)
    assert hockey_stick(p, q, 0.3) == pytest.approx(worst, rel=1e-14)


@pytest.mark.parametrize("most", [None, 1, 2])
def test_every_pair_of_neighbours_is_looked_at_both_ways(most):
    table = Table(exponential_mechanism, items=3, max_count=2, max_items_per_user=most)
    seen = [
        (table.histograms[a], table.histograms[b])
        for p, q in table.pairs()
        for a, b in zip(p, q, strict=True)
    ]
    wanted = set()
    for counts in itertools.product(range(3), repeat=3):
        for user in itertools.product((0, 1), repeat=3):
            if 1 <= sum(user) <= (most or 3):
                other = tuple(c + u for c, u in zip(counts, user, strict=True))
                wanted |= {(counts, other), (other, counts)}
    assert len(seen) == len(wanted)
    assert set(seen) == wanted


@pytest.mark.parametrize("most", [None, 1, 2])
def test_general_scores_have_neighbours_that_cross(most):
    table = Table(exponential_mechanism, 3, max_count=1, max_items_per_user=most, monotone=False)
    seen = [
        (table.histograms[a], table.histograms[b])
        for p, q in table.pairs()
        for a, b in zip(p, q, strict=True)
    ]
    wanted = {
        (one, other)
        for one in itertools.product(range(3), repeat=3)
        for other in itertools.product(range(3), repeat=3)
        if one != other and all(abs(a - b) <= 1 for a, b in zip(one, other, strict=True))
        if sum(a != b for a, b in zip(one, other, strict=True)) <= (most or 3)
    }
    assert len(seen) == len(wanted)
    assert set(seen) == wanted
    if most is None:  # noise for counts is half of what such neighbours need
        assert table.worst(Claim(1.0)).loss > 1.5


def test_worst_pair_is_the_one_found_by_plain_loops():
    law = partial(limited_domain.law, k=2, k_bar=2, scale=0.8, threshold=2.0, known=False)
    table = Table(law, items=3, max_count=2)
    found = table.worst(Claim(1.7, DELTA))
    deltas = {}
    for p, q in table.pairs():
        for a, b in zip(p, q, strict=True):
            one, other = table.histograms[a], table.histograms[b]
            there = law(other)
            deltas[one, other] = math.fsum(
                max(0.0, chance - math.exp(1.7) * there.get(outcome, 0.0))
                for outcome, chance in law(one).items()
            )
    assert found.delta == pytest.approx(max(deltas.values()), rel=1e-12)
    assert deltas[found.counts, found.neighbour] == pytest.approx(found.delta, rel=1e-12)


def test_a_rare_outcome_counts_as_much_as_a_frequent_one():
    def law(counts):  # one outcome of probability 1e-20 moves by a factor e^2 a user
        rare = 1e-20 * math.exp(2 * counts[0])
        return {"often": 1 - rare, "rare": rare}

    assert verify(law, epsilon=2.0, delta=0.0, items=1).passed
    assert not verify(law, epsilon=1.99, delta=0.0, items=1).passed
    # ... which delta would forgive
    assert verify(law, epsilon=1.0, delta=1e-12, items=1, reach=0).passed


def test_a_tiny_delta_is_not_swallowed_by_the_slack_for_rounding():
    def law(counts):  # an outcome of chance 9e-14 that a user alone makes possible
        tiny = 9e-14 * (counts[0] > 0)
        return {"often": 1 - tiny, "rare": tiny}

    assert verify(law, epsilon=1.0, delta=9e-14, items=1).passed
    assert not verify(law, epsilon=1.0, delta=1e-14, items=1).passed
    assert not verify(law, epsilon=1.0, delta=8e-14, items=1).passed


def test_a_base_shows_what_happens_at_a_threshold():
    """Small counts never pass: what one user gives away there is seen from a base near it."""

    def law(counts):  # no noise at all, but a threshold of 40
        return {tuple(i for i, count in enumerate(counts) if count > 40): 1.0}

    assert verify(law, epsilon=1.0, delta=0.01, items=2, reach=0).passed
    assert verify(law, epsilon=1.0, delta=0.01, items=2, reach=39).passed
    for place in ({"base": (39, 0)}, {"reach": 40}, {}):
        report = verify(law, epsilon=1.0, delta=0.01, items=2, **place)
        assert not report.passed
        assert {report.counts[0], report.neighbour[0]} == {40, 41}
    with pytest.raises(ValueError, match="base must have one count an item, 2; got 1"):
        verify(law, epsilon=1.0, delta=0.01, items=2, base=(39,))


def test_verify_reports():
    report = verify(exponential_mechanism, epsilon=1.0, delta=0.0, epsilons=[0.0, 0.5])
    assert isinstance(report, Report)
    assert report.passed
    assert 0.98 < report.tightness == report.worst_epsilon < 1
    assert [e for e, _ in report.profile] == [0.0, 0.5]
    assert report.profile[0][1] == pytest.approx(0.2448, abs=1e-4)
    assert str(report).startswith("passed: epsilon=1, delta=0, 98.96% used")

    low = verify(exponential_mechanism, epsilon=0.9, delta=0.0)
    assert not low.passed
    p, q = exponential_mechanism(low.counts), exponential_mechanism(low.neighbour)
    assert max(math.log(p[i] / q[i]) for i in p) == pytest.approx(low.worst_epsilon)
    assert str(low).startswith("FAILED")


def test_verify_knows_a_bound_on_the_items_of_a_user():
    # One random bit per item, of loss below 1: a user costs 1 per item.
    def law(counts):
        up = [1 / (1 + math.exp(-(c - 1.5))) for c in counts]
        return {
            bits: math.prod(u if bit else 1 - u for u, bit in zip(up, bits, strict=True))
            for bits in itertools.product((0, 1), repeat=len(counts))
        }

    assert verify(law, epsilon=1.0, delta=0.0, items=3, max_items_per_user=1).passed
    assert not verify(law, epsilon=1.0, delta=0.0, items=3).passed
    assert verify(law, epsilon=3.0, delta=0.0, items=3).passed


def test_verify_sees_an_outcome_that_only_one_neighbour_has():
    def law(counts):
        return {sum(counts): 1.0}

    report = verify(law, epsilon=50.0, delta=0.5, items=2)
    assert not report.passed
    assert (report.worst_delta, report.worst_epsilon) == (1.0, math.inf)
    assert verify(law, epsilon=0.0, delta=1.0, items=2).passed


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"law": 3}, TypeError, "law must be callable"),
        ({"epsilon": "1"}, TypeError, "epsilon must be a real number, got str"),
        ({"epsilon": True}, TypeError, "epsilon must be a real number, got bool"),
        ({"epsilon": -1.0}, ValueError, "epsilon must be a finite number >= 0, got -1.0"),
        ({"epsilon": math.nan}, ValueError, "epsilon must be a finite number >= 0, got nan"),
        ({"delta": math.inf}, ValueError, "delta must be a finite number >= 0, got inf"),
        ({"delta": 1.5}, ValueError, "delta must be at most 1, got 1.5"),
        ({"items": 0}, ValueError, "items must be an integer >= 1, got 0"),
        ({"items": 2.0}, TypeError, "items must be an integer, got float"),
        ({"max_count": -1}, ValueError, "max_count must be an integer >= 0, got -1"),
        (
            {"max_items_per_user": 0},
            ValueError,
            "max_items_per_user must be an integer >= 1, got 0",
        ),
        ({"epsilons": [-1.0]}, ValueError, "epsilons must be a finite number >= 0, got -1.0"),
        ({"law": lambda counts: {0: 0.5}}, ValueError, "sums to 0.5, not to 1"),
        ({"law": lambda counts: {0: 1.5, 1: -0.5}}, ValueError, "negative or not finite"),
        ({"law": lambda counts: {0: math.nan}}, ValueError, "negative or not finite"),
    ],
)
def test_verify_validates(change, error, message):
    arguments = {"law": exponential_mechanism, "epsilon": 1.0, "delta": 0.0, **change}
    with pytest.raises(error, match=message):
        verify(arguments.pop("law"), **arguments)


# ---- what bounded-range steps compose to


def test_one_step_composes_to_the_closed_form():
    t = np.linspace(0, 0.7, 200_001)
    chance = (1 - np.exp(t - 0.7)) / (1 - np.exp(-0.7))
    for epsilon in (0.0, 0.2, 0.6):
        exact = (chance * np.maximum(0, 1 - np.exp(epsilon - t))).max()
        bound = composed_delta(epsilon, epsilon_step=0.7, steps=1, grid=1000)
        assert exact <= bound <= exact * 1.02


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_composition_covers_peel_and_not_much_more(steps):
    table = Table(partial(peel.law, k=steps, scale=1.0))
    bound = composed_delta(0.0, epsilon_step=1.0, steps=steps)
    assert 0.9 * bound <= table.worst(Claim(0.0, bound)).delta <= bound


def test_ten_steps_match_the_published_per_step_figure():
    # (1, 1e-6) affords ten steps of 0.1530; the grid of 400 costs under 1%.
    assert composed_delta(1.0, epsilon_step=0.1515, steps=10, grid=400) < 1e-6
    assert composed_delta(1.0, epsilon_step=0.1550, steps=10, grid=400) > 1e-6


# ---- samplers against laws


def test_critical_value_and_pooling():
    law = {"a": 0.6, "b": 0.39996, "c": 0.00002, "d": 0.00002}

    def sampler(draws, seed):
        return np.random.default_rng(seed).choice(list(law), p=list(law.values()), size=draws)

    test = chi_square(law, sampler, draws=10_000, seed=1, alpha=1e-6)
    assert test.freedom == 1  # c and d expect 0.2 draws each: pooled with b
    assert test.critical == pytest.approx(stats.chi2.isf(1e-6, 1))
    test = chi_square(law, sampler, draws=200_000, seed=1)
    assert test.freedom == 2  # c and d together expect 8


def test_chi_square_rejects_at_its_level():
    # 4,000 fair tests at alpha = 0.05: the number rejected, at level 1e-9 two-sided.
    law = dict.fromkeys(range(6), 1 / 6)
    dice = np.random.default_rng(5).integers(6, size=(4_000, 600))
    rejected = sum(
        not chi_square(law, lambda n, s: dice[s].tolist(), draws=600, seed=s, alpha=0.05).passed
        for s in range(4_000)
    )
    assert stats.binomtest(rejected, 4_000, 0.05).pvalue > 1e-9


def test_stated_power_is_the_power():
    # Where it matters, halfway up: 300 tests of a coin that is off by 1%, level 1e-9.
    law, real = {0: 0.5, 1: 0.5}, {0: 0.49, 1: 0.51}
    stated = power(law, real, draws=90_000)
    assert 0.4 < stated < 0.6
    ones = np.random.default_rng(6).binomial(90_000, real[1], size=300)

    def sampler(draws, seed):
        return [0] * (draws - ones[seed]) + [1] * ones[seed]

    tests = [chi_square(law, sampler, draws=90_000, seed=s) for s in range(300)]
    rejected = sum(not test.passed for test in tests)
    assert stats.binomtest(rejected, 300, stated).pvalue > 1e-9


def test_power_sees_five_per_cent_of_scale_but_not_with_ten_thousand_draws():
    for entry in (peel_entry, limited_domain_entry):
        sampler = next(c for c in entry.ENTRY.checks if getattr(c, "sees", None))
        law, wrong = sampler.law(sampler.counts), sampler.sees(sampler.counts)
        assert power(law, wrong, draws=sampler.draws) > 0.999
    law, wrong = (peel.law((3, 2, 1, 0), k=2, scale=s) for s in (1.0, 0.95))
    assert power(law, wrong, draws=10_000) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.full) for seed in (2, 3, 4))]
)
def test_five_per_cent_of_scale_is_rejected(seed):
    sampler = partial(peel_entry._naive, peel_entry.COUNTS, k=2)
    law = peel.law(peel_entry.COUNTS, k=2, scale=1.0)
    draws = peel_entry.DRAWS
    assert chi_square(law, sampler, draws=draws, seed=seed).passed
    for scale in (0.95, 1.05):
        off = partial(sampler, scale=scale)
        assert not chi_square(law, off, draws=draws, seed=seed).passed


def test_an_impossible_outcome_fails_at_once():
    law = {0: 0.5, 1: 0.5, 2: 0.0}
    for stray in (2, 3):
        drawn = [0, 1] * 499 + [stray, 0]
        test = chi_square(law, lambda n, s, d=drawn: d, draws=1_000, seed=0)
        assert not test.passed
    assert power(law, {0: 0.5, 1: 0.499, 3: 0.001}, draws=1_000) == 1.0


def test_chi_square_refuses_what_cannot_fail():
    with pytest.raises(ValueError, match="fewer than two cells"):
        chi_square({0: 1.0}, lambda n, s: [0] * n, draws=100, seed=0)
    with pytest.raises(ValueError, match="fewer than two cells"):
        chi_square({0: 0.5, 1: 0.5}, lambda n, s: [0] * n, draws=5, seed=0)
    with pytest.raises(ValueError, match="returned 99 outcomes, asked for 100"):
        chi_square({0: 0.5, 1: 0.5}, lambda n, s: [0] * 99, draws=100, seed=0)


def test_tape_twin():
    tapes = [[3, 1], [2, 5], [4, 4]]
    assert tape_twin({"a": max, "b": lambda t: sorted(t)[-1]}, max, tapes).passed
    off = tape_twin({"a": max, "b": lambda t: t[0]}, max, tapes)
    assert (off.passed, off.kernel, off.tape) == (False, "b", 1)
    assert not tape_twin({"a": max}, max, []).passed
    assert not tape_twin({}, max, tapes).passed


# ---- the registry


# Their exact checks alone take 3 to 25 seconds each. They run in the test after this one, which
# has the same checks and the draws, with the widest grids.
HEAVY = (
    "gamma", "joint", "limited_domain_laplace", "noisy_counts", "noisy_max", "oneshot",
    "permute_and_flip", "ranking", "restricted", "session", "sparse_vector", "top_stable",
    "truncated", "weighted",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in entries.ENTRIES if name not in HEAVY])
def test_every_check_without_draws_passes_and_every_twin_is_rejected(name):
    results = run([name], quick=True)
    assert [f"{r.check}: {r.detail}" for r in results if not r.passed] == []
    assert len(results) > len(entries.ENTRIES[name].checks) / 2


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("name", entries.ENTRIES)
def test_every_check_passes_and_every_twin_is_rejected(name):
    results, entry = run([name]), entries.ENTRIES[name]
    assert [f"{r.check}: {r.detail}" for r in results if not r.passed] == []
    checks = [r.check for r in results]
    assert len(checks) == len(entry.checks) + len(entry.broken)
    assert len(set(checks)) == len(checks)


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("limited_domain", "threshold without the + 1"),
        ("limited_domain", "ln(1 / delta) for ln(m / delta)"),
        ("limited_domain", "BOT not charged"),
        ("limited_domain", "ties broken by data"),
        ("peel", "noise 5% too small"),
        ("peel", "half the noise: scale 1 / (2 epsilon)"),
    ],
)
def test_the_known_mistakes_are_among_the_twins(name, twin):
    assert twin in [check.label for check in entries.ENTRIES[name].broken]


@pytest.mark.slow
@pytest.mark.full
def test_quick_leaves_out_the_draws_only():
    of_peel = run(["peel"])
    assert {r.name for r in of_peel} == {"peel"}
    assert run(["peel"], quick=True) == [r for r in of_peel if "chi-square" not in r.detail]


def test_run_takes_names():
    with pytest.raises(ValueError, match="no mechanism named 'pell'; known: peel, limited"):
        run(["peel", "pell"])


def _entry(law, *, broken_law, attains=0.0):
    check = PrivacyCheck("true", law, (Claim(1.0, attains=attains),), items=2)
    twin = PrivacyCheck("twin", broken_law, (Claim(1.0),), items=2)
    return Entry("mine", (check,), (twin,))


right, wrong = exponential_mechanism, partial(exponential_mechanism, epsilon=2.0)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (_entry(right, broken_law=wrong), [True, True]),
        (_entry(wrong, broken_law=wrong), [False, True]),
        (_entry(right, broken_law=right), [True, False]),  # a twin that slips through
        (_entry(right, broken_law=wrong, attains=0.999), [False, True]),  # less tight than said
    ],
)
def test_run_can_fail(monkeypatch, entry, expected):
    monkeypatch.setitem(entries.ENTRIES, "mine", entry)
    assert [r.passed for r in run(["mine"])] == expected


def test_sampler_and_tape_checks_can_fail():
    law = partial(peel.law, k=1, scale=1.0)
    naive = partial(peel_entry._naive, k=1)
    good = SamplerCheck("s", law, naive, (2, 1, 0), 50_000, sees=partial(law, scale=0.9))
    assert good.run().passed
    assert not replace(good, draws=1_000).run().passed  # cannot see what it says it sees
    assert not replace(good, sampler=partial(naive, scale=0.9)).run().passed
    tapes = TapeCheck("t", {"portable": max}, max, lambda: [[1, 2]])
    assert tapes.run().passed
    assert not replace(tapes, kernels={"portable": min}).run().passed
    assert not replace(tapes, tapes=list).run().passed


def _samplers():
    for entry in entries.ENTRIES.values():
        for check in entry.checks:
            if isinstance(check, SamplerCheck) and isinstance(check.sampler, Public):
                yield pytest.param(check, id=f"{entry.name}-{check.label}")


def _said_to_cost(check, **changes):
    """The same function, whose releases state another cost."""
    call = check.sampler.call

    def other(data, **options):
        release = call(data, **options)
        return SimpleNamespace(cost=release.cost._replace(**changes))

    return replace(check, sampler=replace(check.sampler, call=other))


@pytest.mark.parametrize("check", list(_samplers()))
def test_a_cost_below_what_was_proved_is_rejected_whatever_is_drawn(check):
    """A step, the threshold or a bit forgotten: seen before anything is drawn."""
    assert check.sampler.covers is not None, "nothing is said of its cost"
    cost = check.sampler.call(check.sampler.data(check.counts), rng=SeededRng(1)).cost
    assert check.sampler.undercharged(check.counts) == ""
    for changes in (
        {"epsilon": cost.epsilon / 2},
        {"epsilon": cost.epsilon * 0.98, "delta": cost.delta * 0.98},
        *([{"delta": 0.0}, {"delta": cost.delta / 2}] if cost.delta else []),
    ):
        verdict = _said_to_cost(check, **changes).run()
        assert not verdict.passed, changes
        assert "said to cost" in verdict.detail


def test_an_entry_needs_twins_that_only_privacy_rejects():
    check = PrivacyCheck("c", right, (Claim(1.0),))
    with pytest.raises(ValueError, match="needs checks and broken twins"):
        Entry("mine", (check,), ())
    with pytest.raises(ValueError, match="must ask for no tightness"):
        Entry("mine", (check,), (replace(check, claims=(Claim(1.0, attains=0.9),)),))


def test_verify_finds_the_threshold_of_a_framework_that_is_shown_too_few_items():
    """A pure choice among the items that anybody has, let out above a noisy threshold of 40.

    Counts from 0 to 3 never pass it; what a user alone in an item gives away is seen near it.
    """
    threshold = 40.0

    def law(counts):
        passes = [1 / (1 + math.exp(min(threshold - count, 700.0))) for count in counts]
        nothing = math.prod(1 - p for p in passes)
        total = sum(passes)
        return {None: nothing, **{i: (1 - nothing) * p / total for i, p in enumerate(passes)}}

    assert verify(law, epsilon=0.5, delta=0.05, items=2, reach=0).passed
    report = verify(law, epsilon=0.5, delta=0.05, items=2)
    assert not report.passed
    assert min(max(report.counts), max(report.neighbour)) >= 35


@pytest.mark.parametrize("bad", [-1, 1.5, "64", True])
def test_a_reach_is_a_count(bad):
    with pytest.raises((TypeError, ValueError), match="reach"):
        verify(exponential_mechanism, epsilon=1.0, delta=0.1, reach=bad)


EQUAL = [
    (1, True), (1, 1.0), (0.0, -0.0), ("a", np.str_("a")), ((1, 2), (1, 2.0)),
    (np.float32(0.0), np.float32(-0.0)), (0j, complex(0.0, -0.0)),
    (Decimal("1.0"), Decimal("1.00")),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), [*EQUAL, (frozenset({1}), frozenset({1.0}))], ids=repr)
def test_equal_outcomes_that_can_be_told_apart_are_two(one, other):
    assert one == other

    def law(counts):
        return {one if counts[0] else other: 1.0}

    def same(counts):
        return {one: 1.0}

    assert not verify(law, epsilon=1.0, delta=0.1, items=1).passed
    assert verify(same, epsilon=1.0, delta=0.0, items=1).passed
