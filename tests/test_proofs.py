"""The steps of docs/proofs that can be checked by trying all small cases.

Written from the proofs alone: nothing here calls the library's own tops, laws or scales,
but for the ranking by fractions at the end. Each check has a wrong statement that it rejects.
"""

import itertools
import math
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

ITEMS, MOST = 4, 3
PHANTOMS = tuple(f"phantom {i}" for i in range(ITEMS))


def top_of(counts, k_bar, known):
    """The top k_bar, ties by item, filled with phantoms; and the next count."""
    items = [i for i in range(len(counts)) if known or counts[i] > 0]
    items.sort(key=lambda i: (-counts[i], i))
    following = counts[items[k_bar]] if len(items) > k_bar else 0
    top = items[:k_bar]
    if not known:
        top += PHANTOMS[: k_bar - len(top)]
    return top, following


def cases():
    """All small histograms, a user more, cuts, and both kinds of domain."""
    for counts in itertools.product(range(MOST + 1), repeat=ITEMS):
        for user in itertools.product((0, 1), repeat=ITEMS):
            if any(user):
                for k_bar, known in itertools.product(range(1, ITEMS + 1), (True, False)):
                    yield counts, user, k_bar, known


class Swap:
    """What a user does to the tops: who leaves, who enters, and how much each place rises."""

    def __init__(self, counts, user, k_bar, known):
        self.more = tuple(c + u for c, u in zip(counts, user, strict=True))
        top, self.next = top_of(counts, k_bar, known)
        top_more, self.next_more = top_of(self.more, k_bar, known)
        self.leave = [i for i in top if i not in top_more]
        self.enter = [i for i in top_more if i not in top]

        def count(histogram, i):
            return 0 if isinstance(i, str) else histogram[i]

        self.low = [count(counts, i) for i in self.leave]
        self.high = [count(self.more, i) for i in self.enter]
        stay = [i for i in top if i in top_more]
        self.stay_rises = [count(self.more, i) - count(counts, i) for i in stay]
        self.bot_rise = self.next_more - self.next
        self.size = sum(user)


SWAPS = [(case, Swap(*case)) for case in cases()]


def everywhere(statement):
    return all(statement(swap, *case) for case, swap in SWAPS)


def gap_after(counts, i):
    down = [*sorted(counts, reverse=True), 0]
    return down[i - 1] - down[i]


def test_a_user_moves_a_gap_by_at_most_one_either_way():
    moves = {gap_after(swap.more, i) - gap_after(counts, i) for (counts, _, i, _), swap in SWAPS}
    assert moves == {-1, 0, 1}
    alone = ((3, 2, 0, 0), (3, 3, 0, 0))
    assert [gap_after(alone[1], i) - gap_after(alone[0], i) for i in (1, 2)] == [-1, 1]


def test_where_the_top_change_the_gap_is_at_most_one_on_both_sides():
    def at_most(bound):
        return everywhere(
            lambda s, counts, user, i, known: (
                not s.leave or max(gap_after(counts, i), gap_after(s.more, i)) <= bound
            )
        )

    assert at_most(1)
    assert not at_most(0)  # so the - 1 is needed


def test_as_many_leave_the_top_as_enter_it():
    assert everywhere(lambda s, *_: len(s.leave) == len(s.enter))
    assert not everywhere(lambda s, *_: not s.leave)  # tops do differ


def test_a_pair_rises_by_0_or_1_however_it_is_paired():
    def rises(swap, *_):
        return {b - a for a in swap.low for b in swap.high} <= {0, 1}

    assert everywhere(rises)
    assert not everywhere(lambda s, *_: {b - a for a in s.low for b in s.high} <= {0})
    assert not everywhere(lambda s, *_: {b - a for a in s.low for b in s.high} <= {1})


def test_a_slot_is_at_most_one_above_the_next_count_of_its_own_side():
    def low(above):
        def statement(swap, *_):
            return all(c <= swap.next + above for c in swap.low) and all(
                c <= swap.next_more + above for c in swap.high
            )

        return statement

    assert everywhere(low(1))
    assert not everywhere(low(0))  # the "+ 1" of the threshold is needed


def test_how_many_can_cross_the_cut():
    def most(swap, counts, user, k_bar, known):
        bounds = [k_bar, sum(user)] + [len(counts) - k_bar] * known
        return len(swap.leave) <= min(bounds)

    def too_few(swap, counts, user, k_bar, known):  # as if an unknown domain were known
        return len(swap.leave) <= min(k_bar, sum(user), len(counts) - k_bar)

    assert everywhere(most)
    assert not everywhere(too_few)


def rises_of(swap):
    pairs = zip(swap.low, swap.high, strict=True)
    return [*swap.stay_rises, *(b - a for a, b in pairs), swap.bot_rise]


def test_all_competitors_rise_by_0_or_1_and_together_by_no_more_than_the_user_has_items():
    assert everywhere(lambda s, *_: set(rises_of(s)) <= {0, 1})
    assert everywhere(lambda s, *_: sum(rises_of(s)) <= s.size)
    assert not everywhere(lambda s, *_: sum(rises_of(s)) <= s.size - 1)


def test_after_a_common_shift_half_of_the_competitors_move_at_most():
    def moved(swap, counts, user, k_bar, known):
        rises = rises_of(swap)
        return min(sum(rises), len(rises) - sum(rises)) <= (k_bar + 1) // 2

    assert everywhere(moved)
    assert not everywhere(lambda s, c, u, k_bar, _: sum(rises_of(s)) <= (k_bar + 1) // 2)


def test_distances_to_the_cut_all_move_one_way_by_at_most_1():
    def one_way(swap, *_):
        moves = {rise - swap.bot_rise for rise in rises_of(swap)[:-1]}
        return moves <= {0, 1} or moves <= {-1, 0}

    assert everywhere(one_way)
    assert not everywhere(lambda s, *_: {r - s.bot_rise for r in rises_of(s)[:-1]} <= {0, 1})


# ---- one slot against BOT


def test_a_slot_beats_bot_in_a_gumbel_race_with_less_than_delta():
    """limited_domain: m slots one user above the next count, BOT ln(m / delta) scales more."""
    for m, delta in itertools.product((1, 2, 5), (0.3, 0.01, 1e-9)):
        weight, bot = 1.0, m / delta
        beaten = m * weight / (m * weight + bot)
        assert beaten == pytest.approx(delta / (1 + delta), rel=1e-12)
        wrong = m * weight / (m * weight + 1 / delta)  # ln(1 / delta) for ln(m / delta)
        assert (wrong > delta) == (m > 1)


def test_a_slot_beats_bot_in_laplace_noise_by_the_tail():
    """P(X - Y > T) = (2 + T) exp(-T) / 4, by quadrature over Y; and not with 3 for 2."""
    y, width = np.linspace(-60, 60, 240_001, retstep=True)
    for t in (0.0, 1.0, 4.0, 9.0):
        at = t + y
        above = np.where(at > 0, np.exp(-np.abs(at)) / 2, 1 - np.exp(-np.abs(at)) / 2)
        chance = float((np.exp(-np.abs(y)) / 2 * above).sum() * width)
        assert chance == pytest.approx((2 + t) * math.exp(-t) / 4, rel=1e-6)
        assert chance < (3 + t) * math.exp(-t) / 4 * (1 - 1e-3)


# ---- one comparison


def stationary(matrix):
    """Solve pi (I - P) = 0 by the adjugate: minors of I - P, in fractions."""
    n = len(matrix)
    left = [[Fraction(i == j) - matrix[i][j] for j in range(n)] for i in range(n)]

    def determinant(rows):
        if not rows:
            return Fraction(1)
        return sum(
            (-1) ** j * rows[0][j] * determinant([row[:j] + row[j + 1 :] for row in rows[1:]])
            for j in range(len(rows))
        )

    minors = [
        determinant([[left[r][c] for c in range(n) if c != i] for r in range(n) if r != i])
        for i in range(n)
    ]
    return [minor / sum(minors) for minor in minors]


def walk(wins, degree, times, restart):
    n = len(wins)
    rows = [[Fraction(wins[j][i], degree * times) for j in range(n)] for i in range(n)]
    for i in range(n):
        rows[i][i] = 1 - sum(rows[i][:i] + rows[i][i + 1 :])
    return [[(1 - restart) * p + restart / n for p in row] for row in rows]


@pytest.mark.parametrize("restart", [Fraction(0), Fraction(1, 4)])
def test_one_comparison_moves_the_distribution_by_the_bound(restart):
    """Three items, all pairs, twice each: every table, every flip; half the bound breaks."""
    n, times, degree = 3, 2, 2
    pairs = list(itertools.combinations(range(n), 2))
    stays, rho = 1 - restart, 1 - Fraction(1, degree)
    bound = 2 * stays / (degree * times * (1 - stays * rho))
    worst = Fraction(0)
    for outcome in itertools.product(range(times + 1), repeat=len(pairs)):
        for flipped in range(len(pairs)):
            if outcome[flipped] == times:
                continue
            distributions = []
            for more in (0, 1):
                wins = [[0] * n for _ in range(n)]
                for place, ((i, j), won) in enumerate(zip(pairs, outcome, strict=True)):
                    won += more * (place == flipped)
                    wins[i][j], wins[j][i] = won, times - won
                distributions.append(stationary(walk(wins, degree, times, restart)))
            worst = max(worst, sum(abs(a - b) for a, b in zip(*distributions, strict=True)))
    assert bound / 2 < worst <= bound


# ---- Laplace noise for k picks


def threshold_law(z, k, *, odds=None, marks=None):
    """Chances of (j, rest): j is the k-th at height 0 in z, the rest are above it. Unnormalised."""
    above, below = stats.laplace.sf(z), stats.laplace.cdf(z)
    odds = above / below if odds is None else odds
    marks = stats.laplace.pdf(z) / below if marks is None else marks
    law = {}
    for j in range(len(z)):
        others = [i for i in range(len(z)) if i != j]
        for rest in itertools.combinations(others, k - 1):
            law[j, rest] = marks[j] * math.prod(odds[i] for i in rest)
    return law


def ranges(p, q, k):
    """How far ln(q / p) goes in each step: the mark, then the rest one by one in any order."""

    def sums(law, order, done):
        total = Counter()
        for (j, rest), chance in law.items():
            if (order == () and done is None) or (j == done and set(order) <= set(rest)):
                for item in [j] if done is None else set(rest) - set(order):
                    total[item] += chance
        return total

    prefixes = [((), None)]
    prefixes += [(order, j) for j, rest in p for n in range(k - 1)
                 for order in itertools.combinations(rest, n)]  # fmt: skip
    for order, j in set(prefixes):
        one, other = sums(p, order, j), sums(q, order, j)
        losses = [math.log(other[i] / one[i]) for i in one]
        yield (j is None), max(losses) - min(losses)


def test_picks_above_a_threshold_have_a_range():
    """Each step's is 2 / b at most, often nearly so; with the marks changed along, more."""
    rng = np.random.default_rng(3)
    widest, along = 0.0, 0.0
    for _ in range(150):
        n, b = int(rng.integers(3, 6)), float(rng.choice([0.5, 1.0, 4.0]))
        k = int(rng.integers(1, n))
        z = rng.normal(scale=3.0, size=n)
        c = float(rng.choice([0.0, 1.0, rng.uniform()]))
        moved = z + (c - rng.integers(0, 2, size=n)) / b
        p = threshold_law(z, k)
        odds = stats.laplace.sf(moved) / stats.laplace.cdf(moved)
        h = stats.laplace.pdf(z) / stats.laplace.sf(z)
        q = threshold_law(z, k, odds=odds, marks=odds * h)
        for _, found in ranges(p, q, k):
            assert found <= 2 / b + 1e-9
            widest = max(widest, found * b)
        along = max(along, *(f * b for _, f in ranges(p, threshold_law(moved, k), k)))
        # The other change: no set by more than exp(2 / b).
        sets = [Counter(), Counter()]
        for law, total in zip((q, threshold_law(moved, k)), sets, strict=True):
            for (j, rest), chance in law.items():
                total[frozenset({j, *rest})] += chance / sum(law.values())
        change = [abs(math.log(sets[0][items] / sets[1][items])) for items in sets[0]]
        assert max(change) <= 2 / b + 1e-9
    assert widest > 1.8
    assert along > 2.1


def test_the_kth_noisy_score_moves_by_one_at_most():
    """Whoever moves, and whichever of them the noises have made the k-th."""
    rng = np.random.default_rng(4)
    for _ in range(2000):
        n = int(rng.integers(1, 8))
        noisy, k = rng.laplace(size=n), int(rng.integers(1, n + 1))
        moved = noisy + rng.choice([0.0, 0.5, 1.0], size=n)
        change = round(np.sort(moved)[-k] - np.sort(noisy)[-k], 12)
        assert 0 <= change <= 1


def test_laplace_noise_for_k_picks_keeps_its_total():
    from dptopk.accounting import total_epsilon
    from dptopk.mechanisms._set_noise import noise_for

    seen = set()
    for k, epsilon, delta in itertools.product((1, 2, 30), (0.1, 1.0, 20.0), (1e-9, 1e-4)):
        for monotone in (True, False):
            noise = noise_for(
                noise="laplace", method="approximate", k=k, epsilon=epsilon, delta=delta,
                sensitivity=1.0, monotone=monotone, max_items_per_user=None, n_items=10**9,
            )  # fmt: skip
            step = (2 if monotone else 4) / noise.scale
            total = total_epsilon(step, k, delta) + step
            assert 0.97 * epsilon <= total <= epsilon * (1 + 1e-12)
            seen.add(round(step, 12))
    assert len(seen) == 18


# ---- Gaussian noise on scores that move one way


def centred(move):
    """Squared length of a move less its mean."""
    mean = Fraction(sum(move), len(move))
    return sum((v - mean) ** 2 for v in move)


def test_the_longest_centred_move_is_half_of_all_items():
    """All moves of 0, 1/2 and 1 of at most D of d items."""
    halves = (Fraction(0), Fraction(1, 2), Fraction(1))
    seen = False
    for d in range(2, 7):
        for most in range(1, d + 1):
            moves = (v for v in itertools.product(halves, repeat=d) if d - v.count(0) <= most)
            longest = max(map(centred, moves))
            t = min(most, d // 2)
            assert longest == Fraction(t * (d - t), d) <= Fraction(d, 4)
            seen = seen or longest > Fraction(most * (d - most), d)
    assert seen  # past the half of all items the user's own number is too little
    both_ways = centred((Fraction(1), Fraction(-1)))
    assert both_ways == 2 > Fraction(1, 2)


def test_centred_noise_has_the_same_law_in_all_directions():
    """The covariance of P Z is P, which is the identity on its image."""
    for d in (3, 4, 7):
        p = np.eye(d) - 1 / d
        assert np.allclose(p @ p.T, p, atol=1e-15)
        assert np.allclose(np.linalg.eigvalsh(p), [0] + [1] * (d - 1), atol=1e-14)
        skew = p @ np.diag(np.arange(1.0, d + 1)) @ p.T  # noise that is not alike on every item
        assert not np.allclose(skew @ skew, skew * np.trace(skew) / (d - 1))


# ---- the pages


def test_every_test_that_a_page_names_is_there():
    here = Path(__file__).parent
    there = set(re.findall(r"^def (test_\w+)", "\n".join(p.read_text() for p in here.glob("*.py")),
                           re.M))  # fmt: skip
    pages = "\n".join(page.read_text() for page in here.parent.glob("docs/proofs/*.md"))
    named = set(re.findall(r"\b(test_\w+)\b(?!\.py)", pages))
    assert len(named) > 25
    assert named <= there, named - there


# ---- a threshold that is only ever raised


def hazard(z):
    """Minus the logarithm of the chance that standard Laplace noise is above z."""
    return -stats.laplace.logsf(z)


def test_hazards_of_laplace_noise_grow_by_a_bounded_factor():
    """By exp(step / ln 2) at most, anywhere; without the 1 / ln 2 it is more somewhere."""
    z = np.linspace(-30, 60, 20_001)
    for step in (1e-3, 0.1, 1.0):
        growth = np.log(hazard(z + step) / hazard(z))
        assert (growth <= step / math.log(2) + 1e-12).all()
        assert growth.max() > 1.05 * step or step == 1.0
    assert np.log(hazard(1e-3) / hazard(0.0)) > 1.4e-3


def test_hazards_that_pass_are_below_a_gamma_variate():
    """Chosen by what came before, until T fail; below the variate of T - 1 they are not."""
    rng = np.random.default_rng(12)
    draws, most = 20_000, 3
    sums = np.zeros(draws)
    for run in range(draws):
        failed, size = 0, 0.02
        while failed < most:
            if rng.random() < math.exp(-size):
                sums[run] += size
                size = min(0.1, 1.3 * size)
            else:
                failed, size = failed + 1, 0.01
    for x in (1.0, 3.0, 6.0):
        above = int((sums > x).sum())
        for shape, held in ((most, True), (most - 1, False)):
            chance = stats.gamma.sf(x, shape)
            passed = stats.binomtest(above, draws, chance, alternative="greater").pvalue > 1e-9
            assert passed == held
