"""Composition: closed forms against mpmath, the recursion between proven bounds, the inverses."""

import math
import random
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptopk import _core
from dptopk.accounting import METHODS, compositions, prepare, step_epsilon, total_epsilon
from dptopk.accounting.adaptive import BLOCK, FEWEST, MAX_STEPS, from_profiles
from dptopk.accounting.inverse import _solve

CLOSED = [m for m in METHODS if m not in ("adaptive", "best")]
STEPS = (10, 50, 100, 1000)
# What a total of (1, 1e-6) buys per step, to four places.
TABLE = {
    "basic": (0.1, 0.02, 0.01, 0.001),
    "optimal": (0.1001, 0.0344, 0.0240, 0.0075),
    "bounded_range": (0.1127, 0.0504, 0.0356, 0.0113),
    "bounded_range_2020": (0.1182, 0.0529, 0.0374, 0.0118),
    "zcdp": (0.1396, 0.0624, 0.0441, 0.0140),
}
# The recursion on a plain grid, certified as e (M - 1)/M, gave these; ours is finer.
PLAIN_GRID = (0.1530, 0.0668, 0.0471, 0.0148)


@pytest.mark.parametrize("method", TABLE)
def test_table(method):
    assert tuple(round(step_epsilon(1, k, 1e-6, method), 4) for k in STEPS) == TABLE[method]


@pytest.mark.parametrize("method", ["adaptive", "best"])
def test_table_of_the_recursion(method):
    ours = [step_epsilon(1, k, 1e-6, method) for k in STEPS]
    assert all(plain <= x <= plain * 1.012 for x, plain in zip(ours, PLAIN_GRID, strict=True))
    assert [round(x, 4) for x in ours] == [0.1534, 0.0671, 0.0474, 0.0150]


def test_zcdp_that_forgets_the_steps_is_not_in_the_table():
    forgetful = compositions.zcdp(((0.0441, 1),), 1e-6)
    assert forgetful < 0.2 < 0.99 < total_epsilon(0.0441, 100, 1e-6, "zcdp") < 1


# ---- closed forms against the printed equations


def printed(method, e, k, delta):
    """The equation as printed, in high precision."""
    e, delta = mp.mpf(e), mp.mpf(delta)
    log = mp.log(1 / delta)
    if method == "advanced":
        return k * e * (mp.exp(e) - 1) / (mp.exp(e) + 1) + mp.sqrt(2 * k * e**2 * log)
    if method == "bounded_range":
        third = k * e**2 / 2 + mp.sqrt(k * e**2 * log / 2)
        return min(third, printed("advanced", e, k, delta))
    x = e / (1 - mp.exp(-e))
    return k * (x - 1 - mp.log(x)) + e * mp.sqrt(k * log / 2)


@pytest.mark.parametrize("method", ["advanced", "bounded_range", "bounded_range_2020"])
@pytest.mark.parametrize("e", [1e-200, 1e-12, 1e-3, 0.2, 0.9999, 1.0, 7.0, 60.0])
@pytest.mark.parametrize("k", [1, 10, 100_000])
def test_printed_equations(method, e, k):
    with mp.workdps(450):
        exact = min(mp.mpf(e) * k, printed(method, e, k, 1e-6))
        ours = mp.mpf(total_epsilon(e, k, 1e-6, method))
        assert exact <= ours <= exact * (1 + mp.mpf(2) ** -42)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    e=st.floats(-7, 6).map(math.exp),
    k=st.integers(2, 10**6),
    delta=st.one_of(st.floats(-600, -0.01).map(math.exp), st.floats(0.999, 1, exclude_max=True)),
)
def test_closed_forms_are_rounded_up(e, k, delta):
    with mp.workdps(60):
        for method in ("advanced", "bounded_range", "bounded_range_2020"):
            exact = min(mp.mpf(e) * k, printed(method, e, k, delta))
            assert exact <= total_epsilon(e, k, delta, method) <= exact * (1 + mp.mpf(2) ** -42)


@pytest.mark.parametrize(("e", "k", "delta"), [(0.1, 10, 1e-6), (1e-3, 9999, 1e-12), (3, 7, 0.3)])
def test_zcdp_is_the_minimum_over_all_orders(e, k, delta):
    with mp.workdps(40):
        rho, delta_ = k * mp.mpf(e) ** 2 / 8, mp.mpf(delta)

        def at(order):
            return (
                rho * order + mp.log(1 - 1 / order) - (mp.log(delta_) + mp.log(order)) / (order - 1)
            )

        orders = [1 + mp.mpf(2) ** (mp.mpf(i) / 16) for i in range(-160, 480)]
        best = min(range(1, len(orders) - 1), key=lambda i: at(orders[i]))
        low, high = orders[best - 1], orders[best + 1]
        for _ in range(120):
            third = (high - low) / 3
            low, high = (
                (low, high - third) if at(low + third) < at(high - third) else (low + third, high)
            )
        exact = min(k * mp.mpf(e), max(mp.mpf(0), at(low)))
        ours = total_epsilon(e, k, delta, "zcdp")
        assert exact <= ours <= exact + mp.mpf(1e-13) * (1 + exact)


def enumerated_delta(epsilons, total):
    """Randomised response for every step, all outcomes one by one."""
    total, delta = mp.mpf(total), mp.mpf(0)
    for signs in product((1, -1), repeat=len(epsilons)):
        loss = mp.fsum(s * mp.mpf(e) for s, e in zip(signs, epsilons, strict=True))
        if loss > total:
            chance = mp.mpf(1)
            for s, e in zip(signs, epsilons, strict=True):
                chance /= 1 + mp.exp(-s * mp.mpf(e))
            delta += chance * (1 - mp.exp(total - loss))
    return delta


@pytest.mark.parametrize(
    "epsilons", [(0.5,), (1e-9,) * 3, (0.3,) * 7, (3.0,) * 4, (0.3, 0.5, 0.5, 1.1), (40.0, 1.0)]
)
@pytest.mark.parametrize("share", [1e-9, 0.01, 0.5, 0.999])
def test_optimal_is_the_enumeration(epsilons, share):
    with mp.workdps(40):
        delta = float(share * enumerated_delta(epsilons, 0))
        ours = total_epsilon(list(epsilons), len(epsilons), delta, "optimal")
        assert 0 < ours <= math.fsum(epsilons) * (1 + 1e-15)
        assert enumerated_delta(epsilons, ours) <= delta
        assert enumerated_delta(epsilons, ours - 1e-11 * math.fsum(epsilons)) > delta


@pytest.mark.parametrize("i", [1, 3, 5])
def test_optimal_at_the_places_of_lemma_4_5(i):
    k, e = 11, 0.25
    delta = (
        sum(
            math.comb(k, j) * (math.exp((k - j) * e) - math.exp((k - 2 * i + j) * e))
            for j in range(i)
        )
        / (1 + math.exp(e)) ** k
    )
    assert total_epsilon(e, k, delta, "optimal") == pytest.approx((k - 2 * i) * e, rel=1e-12)


# ---- the recursion


def two_point_chance(t, e):
    return np.expm1(t - e) / math.expm1(-e)


def value_one(x, e):
    """V_1 on the whole line, in closed form and by symmetry."""
    a = np.abs(x)
    right = np.where(a < e, np.expm1((np.minimum(a, e) - e) / 2) ** 2 / -math.expm1(-e), 0.0)
    return np.where(x >= 0, right, -np.expm1(-a) + np.exp(-a) * right)


def plain_grid(e, k, m):
    """Places x >= 0 and the recursion's values there with t on the grid: from below."""
    h, span = e / m, k * m
    x = h * np.arange(-2 * span, 2 * span + 1)
    value = np.maximum(0.0, -np.expm1(x))
    chance = two_point_chance(h * np.arange(m + 1), e)
    for _ in range(k):
        left = np.concatenate([-np.expm1(x[0] - h * np.arange(m, 0, -1)), value])
        both = np.concatenate([left, np.zeros(m)])
        n = len(value)
        value = np.max(
            [
                p * both[m - i : m - i + n] + (1 - p) * both[2 * m - i : 2 * m - i + n]
                for i, p in enumerate(chance)
            ],
            axis=0,
        )
    middle = 2 * span
    return x[middle : middle + span], value[middle : middle + span]


def ours_is_above(total, e, k, m):
    x, below = plain_grid(e, k, m)
    places = range(m // 2, len(x), max(1, len(x) // 9))
    return all(total(e, k, below[i]) >= x[i] for i in places if below[i] > 1e-12)


@pytest.mark.parametrize(("k", "e", "m"), [(2, 0.4, 96), (5, 0.2, 64), (10, 0.153, 48), (3, 3, 64)])
def test_recursion_lies_between_the_plain_grids(k, e, m):
    assert ours_is_above(from_profiles, e, k, m)
    x, above = plain_grid(e * m / (m - 1), k, m)  # valid at e: losses rounded outwards
    for i in range(m // 2, len(x), max(1, len(x) // 9)):
        if above[i] > 1e-12:
            assert from_profiles(e, k, above[i]) <= x[i]


def test_a_coarse_uncertified_grid_is_caught():
    def twin(e, k, delta):
        x, value = plain_grid(e, k, 8)
        return float(np.interp(-delta, -value, x))

    assert not ours_is_above(twin, 0.2, 5, 64)


def non_adaptive_delta(e, k, total):
    """Steps fixed in advance: the worst common t of the two-point losses."""
    low = np.arange(k + 1)
    log_comb = np.array([math.lgamma(k + 1) - math.lgamma(i + 1) - math.lgamma(k - i + 1)
                         for i in low])  # fmt: skip
    worst = 0.0
    for t in np.linspace(0, e, 2001)[1:-1]:
        p = two_point_chance(t, e)
        loss = k * t - low * e
        mass = np.exp(log_comb + (k - low) * math.log(p) + low * math.log1p(-p))
        worst = max(worst, float(np.sum(mass * np.maximum(0.0, -np.expm1(total - loss)))))
    return worst


def test_the_non_adaptive_optimum_is_neither_valid_nor_returned():
    fixed = 0.1550
    assert non_adaptive_delta(fixed, 10, 1.0) == pytest.approx(1e-6, rel=0.02)
    x, below = plain_grid(fixed, 10, 48)
    assert below[np.searchsorted(x, 1.0)] > 1.2e-6  # not valid for adaptive steps
    assert total_epsilon(fixed, 10, 1e-6) > 1.005
    assert step_epsilon(1.0, 10, 1e-6) < 0.1535


@pytest.mark.parametrize("e", [1e-9, 0.3, 2.0, 8.0, 50.0])
@pytest.mark.parametrize("share", [1e-6, 0.1, 0.9])
def test_one_step_is_the_worst_two_point_loss(e, share):
    def worst(total):
        best = 0
        for i in range(1, 400):
            t = e * mp.mpf(i) / 400
            best = max(best, (1 - mp.exp(t - e)) * (1 - mp.exp(total - t)) if t > total else 0)
        return best / (1 - mp.exp(-e))

    with mp.workdps(40):
        delta = float(share * mp.tanh(mp.mpf(e) / 4))
        ours = mp.mpf(total_epsilon(e, 1, delta))
        exact = e + 2 * mp.log(1 - mp.sqrt(delta * (1 - mp.exp(-mp.mpf(e)))))
        assert exact <= ours <= exact + 3e-14 * e
        assert worst(ours) <= delta
        assert total_epsilon(e, 1, delta * 1.1) < ours


@pytest.mark.parametrize("e", [0.05, 0.5, 2.0, 6.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_two_steps_by_brute_force(e, delta):
    t = np.linspace(0, e, 20_001)
    chance = two_point_chance(t, e)

    def worst(x):
        return np.max(chance * value_one(x - t, e) + (1 - chance) * value_one(x - t + e, e))

    total = total_epsilon(e, 2, delta)
    assert worst(total) <= delta
    if total > 0:
        assert worst(total - 6e-3 * e) > delta


def chords_searched(ends, e, m, capacity):
    """Sup over t with values linear in e^x between places, from those at -m, 1 - m, ...

    Searched at 33 places of each cell: all of them, and the ends of cells alone.
    """
    h = e / m
    parts = np.arange(33) / 32
    dense, corners = np.zeros(capacity), np.zeros(capacity)
    for cell in range(m):
        t = h * (cell + parts)
        p, q = two_point_chance(t, e), math.exp(-e) * np.expm1(t) / -math.expm1(-e)
        w = np.expm1(h - h * parts) / math.expm1(h)
        a = m + np.arange(capacity)[:, None] - cell
        left = ends[a - 1] + w * (ends[a] - ends[a - 1])
        right = ends[a + m - 1] + w * (ends[a + m] - ends[a + m - 1])
        both = p * left + q * right
        dense = np.maximum(dense, both.max(axis=1))
        corners = np.maximum(corners, both[:, [0, -1]].max(axis=1))
    return dense, corners


@pytest.mark.parametrize("m", [8, 16, 64, 128])
@pytest.mark.parametrize("e", [1e-7, 0.0148, 0.5, 4.0, 8.0])
def test_kernel_reaches_the_supremum_over_all_t(m, e):
    """Against a dense search of the interpolated V_1: no skipped block, no lost peak."""
    h, floor = e / m, 1e-200
    capacity = 2 * m + 1
    x = h * np.arange(capacity)
    bounds = np.full(capacity, floor)
    found = _core.adaptive(2, m, capacity, e, floor)
    bounds[: len(found)] = found
    dense, corners = chords_searched(value_one(h * np.arange(-m, 4 * m), e), e, m, capacity)
    assert np.all(bounds >= dense)
    inner = x < 1.5 * e  # the parabola drops a factor of at most e^h
    assert np.all(bounds[inner] <= dense[inner] * (1 + 2e-3 + 0.1 * math.expm1(h)))
    assert not np.all(corners >= dense)  # ends of cells alone would not do


def test_kernel_loses_no_peak_in_tiny_values():
    """Where the square of a value is below the range of a double."""
    e, m, steps = 0.5, 16, 150
    floor, capacity = 1e-276, 151 * 16 + 2
    before, after = np.full((2, capacity + 2 * m), floor)
    for values, n in ((before, steps), (after, steps + 1)):
        found = _core.adaptive(n, m, capacity, e, floor)
        values[: len(found)] = found
    x = e / m * np.arange(m, 0, -1)
    left = np.exp(-x) * before[m:0:-1] - np.expm1(-x)
    dense, corners = chords_searched(np.concatenate([left, before]), e, m, capacity)
    tiny = (dense > floor) & (dense < 1e-160)
    assert tiny.sum() > 20
    assert dense[tiny].min() < 1e-250
    assert np.all(after[:capacity] >= dense * (1 - 1e-13))
    assert np.any(after[:capacity][tiny] > corners[tiny] * 2)


def test_kernel_reaches_the_supremum_after_any_steps():
    """From bounds of many shapes the best t lies anywhere, in the first cell too."""
    n, floor = 100, 1e-200
    for seed in range(30):
        rng = np.random.default_rng(seed)
        m, e = int(rng.integers(2, 9)), float(rng.choice([0.1, 0.5, 2.0]))
        x = e / m * np.arange(n)
        kinks = rng.uniform(0, 0.9 * x[-1], size=(5, 1))
        start = rng.dirichlet(np.ones(5)) @ np.maximum(0.0, -np.expm1(x - kinks))
        before, after = np.full(n + 3 * m, floor), np.full(n + m, floor)
        before[:n] = np.maximum(start, floor)
        found = _core.adaptive(1, m, n + m, e, floor, start)
        after[: len(found)] = found
        left = np.exp(-x[m:0:-1]) * before[m:0:-1] - np.expm1(-x[m:0:-1])
        dense, corners = chords_searched(np.concatenate([left, before]), e, m, n + m)
        assert np.all(after >= dense * (1 - 1e-13))
        assert not np.all(corners >= dense * (1 - 1e-13))


@pytest.mark.parametrize("floor", [1e-2, 1e-5])
def test_the_floor_only_ever_adds_and_no_more_than_itself(floor):
    e, m, steps, capacity = 0.3, 16, 12, 12 * 16 + 2
    raised = np.full(capacity, floor)
    found = _core.adaptive(steps, m, capacity, e, floor)
    raised[: len(found)] = found
    plain = np.zeros(capacity)
    found = _core.adaptive(steps, m, capacity, e, 1e-270)
    plain[: len(found)] = found
    assert np.all(raised >= plain)
    assert np.all(raised <= plain + floor * (1 + 1e-9))


@pytest.mark.parametrize("e", [0.03527136543998867, 2.8430832247978164, 7.037102121756302e-06])
def test_kernel_starts_above_one_step_up_to_its_end(e):
    found = _core.adaptive(1, 128, 128, e, 1e-280)
    with mp.workdps(40):
        for i in (0, 1, 64, 126, 127):
            exact = mp.expm1(mp.mpf(e) * (i - 128) / 256) ** 2 / -mp.expm1(-mp.mpf(e))
            assert exact <= float(found[i]) <= exact * (1 + mp.mpf(2) ** -46)


def test_kernel_starts_at_one_step_and_keeps_its_order():
    bounds = _core.adaptive(1, 64, 65, 0.7, 1e-12)
    np.testing.assert_allclose(bounds, value_one(0.7 / 64 * np.arange(len(bounds)), 0.7), 1e-12)
    for capacity in (3, 63, 64, 65, 130):  # around the kernel's tile of 64 places
        many = _core.adaptive(9, 8, capacity, 0.1, 1e-9)
        assert len(many) <= capacity
        assert np.all(np.diff(many) < 0)


# ---- what holds of every method

deltas = st.one_of(st.just(0.0), st.floats(-35, -0.01).map(math.exp))
totals = st.floats(-14, 4).map(math.exp)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(total=totals, steps=st.integers(1, 130), delta=deltas)
def test_inverse_is_affordable_and_nothing_much_larger_is(method, total, steps, delta):
    step = step_epsilon(total, steps, delta, method)
    assert total_epsilon(step, steps, delta, method) <= total
    assert total_epsilon(step * (1 + 2**-44), steps, delta, method) > total


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    step=st.floats(-10, 2.5).map(math.exp),
    more=st.floats(1.001, 3),
    steps=st.integers(1, 130),
    delta=deltas,
)
def test_totals_are_monotone_and_never_above_the_sum(method, step, more, steps, delta):
    total = total_epsilon(step, steps, delta, method)
    slack = 1 + 1e-12
    assert 0 <= total <= total_epsilon(step, steps, delta, "basic")
    assert total <= total_epsilon(step * more, steps, delta, method) * slack
    assert total <= total_epsilon(step, steps + 1, delta, method) * slack
    assert total_epsilon(step, steps, min(0.999, delta * more), method) <= total * slack or (
        delta > 0.999
    )
    if delta == 0:
        assert total == total_epsilon(step, steps, delta, "basic")


@settings(max_examples=40, deadline=None, derandomize=True)
@given(step=st.floats(-10, 4).map(math.exp), steps=st.integers(1, 130), delta=deltas)
def test_best_is_never_above_another(step, steps, delta):
    best = total_epsilon(step, steps, delta)
    for method in METHODS:
        assert best <= total_epsilon(step, steps, delta, method) * (1 + 1e-12)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "best"])
@pytest.mark.parametrize("steps", [16, FEWEST - 1, 128, MAX_STEPS, BLOCK, 2 * BLOCK, 100_000])
@pytest.mark.parametrize("total", [0.1, 1.0, 8.0])
def test_many_steps(method, steps, total):
    """Around the places where the way of computing changes."""
    step = total / 4 / steps**0.5
    total = total_epsilon(step, steps, 1e-6, method)
    assert total <= total_epsilon(step, steps + 1, 1e-6, method)
    assert total <= total_epsilon(step, steps, 1e-6, "basic")


@pytest.mark.parametrize("steps", [5000, 10**5, 10**6])
def test_no_number_of_steps_is_a_cliff(steps):
    """What a step may spend falls like 1 / sqrt(steps), and stays past what zCDP affords."""
    scaled = [step_epsilon(1.0, n, 1e-6) * n**0.5 for n in (1000, steps)]
    assert scaled[1] == pytest.approx(scaled[0], rel=1e-3)
    assert step_epsilon(1.0, steps, 1e-6) > 1.07 * step_epsilon(1.0, steps, 1e-6, "zcdp")


def test_a_total_never_falls_with_steps_or_epsilon_or_rises_with_delta():
    """Past every change of method, also at large epsilon."""
    draw = random.Random(3)
    near = [2, 3, 15, 16, 17, 62, 63, 64, 127, 128, 1024, 2047, 2048, 4095, 4096, 5000]
    for _ in range(250):
        e, delta = math.exp(draw.uniform(-8, 2.3)), math.exp(draw.uniform(-40, -0.1))
        steps = draw.choice(near) if e < 0.3 else draw.randrange(2, 70)
        total, more = total_epsilon(e, steps, delta), 1 + 10 ** draw.uniform(-9, -1)
        assert total <= total_epsilon(e, steps + 1, delta)
        assert total <= total_epsilon(e * more, steps, delta)
        assert total <= total_epsilon(e, steps, delta / more)


@pytest.mark.parametrize("range_", [0.125, 0.3535533905932738, 1.0, 2.0])
@pytest.mark.parametrize("steps", [10, 63, 64, 100])
def test_a_total_does_not_fall_where_a_profile_ends(range_, steps):
    totals = [total_epsilon(range_ * (1 + i / 1000), steps, 1e-4) for i in range(-25, 5)]
    assert totals == sorted(totals)


def test_prepare_leaves_nothing_to_compute():
    _solve.cache_clear()
    prepare(0.9, (7, 70), [1e-6, 1e-7])
    misses = _solve.cache_info().misses
    assert step_epsilon(0.9, 70, 1e-7) > 0
    assert _solve.cache_info().misses == misses
    with pytest.raises(TypeError, match="steps must be an integer, got str"):
        prepare(0.9, "7", 1e-6)
    with pytest.raises(ValueError, match="steps must be an integer >= 1, got 0"):
        prepare(0.9, range(2), 1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("epsilon", "steps", "delta"),
    [
        (1e-300, 3, 1e-6),
        (1e-12, 5, 1e-300),
        (1, 5, 5e-324),
        (50, 1, 1e-6),
        (50, 20, 0.5),
        (1, 5, 1 - 2**-53),
        (1e300, 1000, 1e-6),
    ],
)
def test_extremes(method, epsilon, steps, delta):
    step = step_epsilon(epsilon, steps, delta, method)
    assert step >= epsilon / steps * (1 - 1e-14)
    assert total_epsilon(step, steps, delta, method) <= epsilon


@pytest.mark.parametrize("share", [0.01, 0.1, 0.2])
def test_one_step_where_the_product_underflows(share):
    e = 8.785988735630174e-160
    delta = share * e
    with mp.workdps(400):
        exact = e + 2 * mp.log(1 - mp.sqrt(delta * -mp.expm1(-mp.mpf(e))))
        assert exact <= total_epsilon(e, 1, delta) <= exact * (1 + mp.mpf(2) ** -40)


def test_optimal_gives_up_where_probabilities_underflow():
    assert total_epsilon(0.1, 5000, 5e-324, "optimal") == total_epsilon(0.1, 5000, 0.0, "basic")
    assert total_epsilon(0.1, 5000, 1e-300, "optimal") < 278


def test_basic_is_exact():
    assert total_epsilon(0.25, 4, 0) == 1.0
    assert total_epsilon(0.1, 1, 0) == 0.1
    assert total_epsilon(0.1, 10, 0) == math.nextafter(1, 2)  # the double 0.1 is above 1/10
    assert total_epsilon([0.5, 0.5], 2, 0) == 1.0
    assert step_epsilon(1.0, 2, 0) == 0.5


def test_other_numbers_are_rounded_against_the_caller():
    third = Fraction(1, 3)  # above its double; 1/10 is below
    assert Fraction(total_epsilon(third, 1, 0)) >= third
    assert Fraction(total_epsilon([third], 1, 0)) >= third
    for total in (third, Fraction(1, 10)):
        assert Fraction(step_epsilon(total, 1, 0)) <= total
    assert step_epsilon(np.float32(0.5), np.int64(2), np.float64(0)) == 0.25


def test_a_sequence_of_steps():
    for method in METHODS:
        assert total_epsilon([0.2] * 6, 6, 1e-3, method) == total_epsilon(0.2, 6, 1e-3, method)
    mixed = [0.1, 0.4, 0.4]
    squares, log = 0.01 + 0.16 + 0.16, math.log(10)
    assert total_epsilon(mixed, 3, 0.1, "bounded_range") == pytest.approx(
        min(0.9, squares / 2 + math.sqrt(squares * log / 2))
    )
    for method in ("advanced", "optimal", "zcdp", "best"):
        total = total_epsilon(np.array(mixed), 3, 0.1, method)
        assert total_epsilon(0.1, 3, 0.1, method) < total <= total_epsilon(0.4, 3, 0.1, method)
    with pytest.raises(ValueError, match="needs equal steps"):
        total_epsilon(mixed, 3, 0.1, "bounded_range_2020")


def test_answers_are_cached():
    _solve.cache_clear()
    first = step_epsilon(0.77, 64, 1e-6)
    misses = _solve.cache_info().misses
    steps = {method: step_epsilon(0.77, 64, 1e-6, method) for method in METHODS}
    assert step_epsilon(0.77, 64, 1e-6) == first == steps["adaptive"]
    assert _solve.cache_info().misses == misses + len(CLOSED) - 1  # zcdp was a first guess


def test_the_cache_tells_true_from_one():
    assert step_epsilon(1, 1, 0.25) == step_epsilon(1.0, 1, 0.25)
    with pytest.raises(TypeError, match="epsilon must be a real number, got bool"):
        step_epsilon(True, 1, 0.25)
    with pytest.raises(TypeError, match="steps must be an integer, got bool"):
        step_epsilon(1, True, 0.25)
    with pytest.raises(TypeError, match="steps must be an integer, got float"):
        step_epsilon(1, 1.0, 0.25)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((-1, 2, 0.1), ValueError, "must be a finite number > 0, got -1"),
        ((0, 2, 0.1), ValueError, "must be a finite number > 0, got 0"),
        ((math.nan, 2, 0.1), ValueError, "must be a finite number > 0, got nan"),
        ((math.inf, 2, 0.1), ValueError, "must be a finite number > 0, got inf"),
        ((10**400, 2, 0.1), ValueError, "must be a finite number > 0"),
        (("1", 2, 0.1), TypeError, "got str"),
        ((None, 2, 0.1), TypeError, "got NoneType"),
        ((True, 2, 0.1), TypeError, "got bool"),
        ((1.0, 0, 0.1), ValueError, "steps must be an integer >= 1, got 0"),
        ((1.0, 2.0, 0.1), TypeError, "steps must be an integer, got float"),
        ((1.0, True, 0.1), TypeError, "steps must be an integer, got bool"),
        ((1.0, [2], 0.1), TypeError, "steps must be an integer, got list"),
        ((1.0, 2, -0.1), ValueError, "delta must be in \\[0, 1\\), got -0.1"),
        ((1.0, 2, 1.0), ValueError, "delta must be in \\[0, 1\\), got 1.0"),
        ((1.0, 2, math.nan), ValueError, "delta must be in \\[0, 1\\), got nan"),
        ((1.0, 2, "0"), TypeError, "delta must be a real number, got str"),
        ((1.0, 2, 0.1, "gaussian"), ValueError, "method must be one of basic, advanced"),
        ((1.0, 2, 0.1, 3), TypeError, "method must be a string, got int"),
    ],
)
@pytest.mark.parametrize("function", [total_epsilon, step_epsilon])
def test_bad_arguments(function, arguments, error, message):
    with pytest.raises(error, match=message):
        function(*arguments)


def test_bad_sequences():
    with pytest.raises(ValueError, match="epsilon_step must hold 3 values, got 2"):
        total_epsilon([0.1, 0.2], 3, 0.1)
    with pytest.raises(TypeError, match="epsilon must be a real number, got list"):
        step_epsilon([0.1], 1, 0.1)
    with pytest.raises(ValueError, match="fewer distinct values"):
        total_epsilon([1 / i for i in range(1, 31)], 30, 0.1, "optimal")
    with pytest.raises(ValueError, match="too small to share"):
        step_epsilon(5e-324, 2, 0.0)
