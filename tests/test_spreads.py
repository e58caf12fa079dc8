"""The Gaussian that stands for adaptive steps: in doubles, its formula, and that it is above."""

import math
import random

import mpmath as mp
import numpy as np
import pytest
from scipy import special

from dptopk import _core
from dptopk.accounting import adaptive
from dptopk.accounting.curve import DOWN, UP, delta_of, linear, spread_of
from dptopk.verification.bounded_range import delta_in_order

RANGE = 1e-6  # stands for range 0, as in the code


def exact(x, mu):
    x, mu = mp.mpf(x), mp.mpf(mu)
    return mp.ncdf(mu / 2 - x / mu) - mp.exp(x) * mp.ncdf(-mu / 2 - x / mu)


def exact_linear(x, mu):
    z = mp.mpf(x) / mp.mpf(mu)
    return mu * (mp.npdf(z) - z * mp.ncdf(-z))


@pytest.mark.parametrize(("ours", "theirs"), [(delta_of, exact), (linear, exact_linear)])
def test_a_curve_in_doubles_holds_the_exact_one(ours, theirs):
    draw = random.Random(1)
    with mp.workdps(80):
        for _ in range(500):
            mu = math.exp(draw.uniform(-25, 3))
            x = draw.choice([0, draw.uniform(0, 10), draw.uniform(0, 33)]) * mu
            assert ours(x, mu, DOWN) <= theirs(x, mu) <= ours(x, mu, UP)
            assert ours(x, mu, UP) <= theirs(x, mu) * (1 + mp.mpf("1e-7")) + mp.mpf("1e-290")


def test_the_small_form_without_its_linear_term_is_caught():
    x, mu = 0.01, 2.0**-8
    forgetful = linear(x, mu, UP) * math.exp(x / 2)  # e^(-s/8) left out: above, too far
    assert forgetful > delta_of(x, mu, UP) * (1 + 1e-7)
    with mp.workdps(40):
        assert linear(x, mu, UP) < exact(x, mu)  # e^(x/2) left out: below


@pytest.mark.parametrize("curve", [delta_of, linear])
@pytest.mark.parametrize("mu", [1e-6, 0.03, 1.0, 6.0])
@pytest.mark.parametrize("z", [0, 0.5, 5, 20])
def test_a_spread_is_just_large_enough(curve, mu, z):
    value = curve(z * mu, mu, UP)
    found = spread_of(value, z * mu, mu * 1.3, curve)
    assert curve(z * mu, found, DOWN) >= value
    assert found <= mu * (1 + 1e-7)


# ---- the formula for spreads, at range 0


def bachelier(u, a):
    return a * np.exp(-((u / a) ** 2) / 2) / math.sqrt(2 * math.pi) - u * special.ndtr(-u / a)


def holds(values, cells, square_of):
    """Whether a line between two values is below the curve of spreads everywhere.

    Spreads fall with u: from u to the next place the curve is above that of the spread there,
    which is convex, so above its tangent at the middle.
    """
    u = np.arange(len(values)) / cells
    a = np.sqrt(square_of(u[1:])) / 2
    middle = (u[1:] + u[:-1]) / 2
    slope = -special.ndtr(-middle / a)
    half = (u[1:] - u[:-1]) / 2
    value = bachelier(middle, a) * (1 - 1e-10)
    ok = (values[:-1] <= value - slope * half) & (values[1:] <= value + slope * half)
    return bool(ok.all())


def values_by_steps(most, cells, floor, far):
    """Upper bounds at range 0 after 1, 2, ... steps, at u up to far sqrt(steps) / 2."""
    kept = None
    for steps in range(1, most + 1):
        capacity = int(min(steps, far * math.sqrt(most) / 2 + 2) * cells) + 2
        kept = _core.adaptive(1, cells, capacity, RANGE, floor, kept)
        last = int(min(steps * cells, far * math.sqrt(steps) / 2 * cells + 2))
        yield steps, np.append(kept, floor)[: last + 1] * ((1 + RANGE) / RANGE)


def smooth_square(steps, extra=0.0, fall=2 / 9):
    # Past `far` the formula is not used, and its square may be below 0.
    peak = steps + adaptive.excess(steps) + extra
    return lambda u: np.maximum(1e-9, peak - u * u * (fall / steps))


def check_up_to(most, cells):
    for steps, values in values_by_steps(most, cells, 1e-120, adaptive._FAR):
        if steps >= adaptive.FEWEST:
            assert holds(values, cells, smooth_square(steps)), steps
        flat = steps + adaptive.excess_of_few(steps)
        assert holds(values, cells, lambda u, flat=flat: np.full(len(u), flat)), steps


def test_the_formula_for_spreads():
    check_up_to(160, 128)


@pytest.mark.full
def test_the_formula_for_spreads_at_every_number_of_steps_of_a_block():
    check_up_to(adaptive.BLOCK, 128)


@pytest.mark.parametrize("broken", [{"extra": -0.05}, {"fall": 2 / 7}])
def test_formulas_that_promise_more_are_caught(broken):
    *_, (steps, values) = values_by_steps(100, 128, 1e-120, adaptive._FAR)
    assert steps == 100
    assert holds(values, 128, smooth_square(100))
    assert not holds(values, 128, smooth_square(100, **broken))
    assert not holds(values, 128, lambda u: np.full(len(u), 100.0))  # no excess at all


# ---- one spread for all ranges


def from_below(range_, steps, cells):
    """V_steps at multiples of range / cells, t on the grid alone."""
    return delta_in_order([range_] * steps, range_ / cells)[1][: steps * cells]


@pytest.mark.parametrize("range_", [1e-3, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("steps", [2, 5, 10])
def test_a_spread_holds_at_every_larger_range(range_, steps):
    cells = 32
    worst = from_below(range_, steps, cells)
    for index in {0, int(16 * range_**2)}:
        at = adaptive.profile(steps, index, 1)
        for place in range(0, len(worst), 7):
            if worst[place] > 1e-25 * range_:
                ours = at.delta(place * at.cells // cells, range_)
                assert ours >= worst[place] * (1 - 1e-12)


def test_a_spread_of_a_larger_range_is_caught():
    at = adaptive.profile(2, 64 * 16, 0)  # of range 4
    worst = from_below(0.5, 2, 32)
    assert any(at.delta(4 * i, 0.5) < worst[i] * 0.99 for i in range(64))
    assert all(at.delta(4 * i, 4.0) >= x for i, x in enumerate(from_below(4.0, 2, 32)))


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_blocks_are_above_every_strategy(monkeypatch, pieces):
    """Short blocks, so that they can be searched; a Gaussian of steps / 4 alone is not above."""
    monkeypatch.setattr(adaptive, "BLOCK", 4)
    monkeypatch.setattr(adaptive, "excess", adaptive.excess_of_few)
    steps = 4 * pieces
    mu, beyond = adaptive.blocks(0.5, steps)
    worst = from_below(0.5, steps, 16)
    places = [place * 0.5 / 16 for place in range(len(worst))]
    assert beyond < 1e-300
    pairs = list(zip(places, worst, strict=True))
    assert all(delta_of(x, mu) >= value for x, value in pairs)
    assert not all(delta_of(x, 0.5 * math.sqrt(steps) / 2) >= value for x, value in pairs)
