"""Steps of several sizes: against every order and every strategy on a grid, and broken twins."""

import math
from itertools import permutations

import numpy as np
import pytest

from dptopk import _core
from dptopk.accounting import total_epsilon
from dptopk.accounting.adaptive import blocks
from dptopk.accounting.unequal import spread_out
from dptopk.verification.bounded_range import delta_in_order

CELL = 1 / 32


def by_grid(sizes):
    return delta_in_order(sizes, CELL)


def worst_order(sizes):
    """The largest delta over all orders, place by place."""
    orders = sorted(set(permutations(sizes)))
    x, _ = by_grid(orders[0])
    return x, np.max([by_grid(order)[1] for order in orders], axis=0)


SIZES = [
    (1.0, 0.25, 0.25, 0.25, 0.25),
    (2.0, 0.125, 0.125, 0.125),
    (0.5, 0.5, 0.25, 0.25, 0.25),
    (1.0, 0.5, 0.25, 0.125),
    (3.0, 1.0),
]


@pytest.mark.parametrize("sizes", SIZES)
def test_no_order_and_no_strategy_costs_more(sizes):
    x, worst = worst_order(sizes)
    for place in range(0, len(x), 3):
        if worst[place] > 1e-12:
            for method in ("adaptive", "best"):
                assert total_epsilon(sizes, len(sizes), worst[place], method) >= x[place]


def test_the_order_matters():
    first, last = by_grid((1.0, *(0.25,) * 4))[1], by_grid((*(0.25,) * 4, 1.0))[1]
    assert np.max(last / np.maximum(first, 1e-6)) > 1.02


@pytest.mark.parametrize("sizes", [(1.0, *(0.25,) * 4), (1.0, *(0.125,) * 6)])
def test_larger_steps_are_spread_by_the_rest(sizes):
    """The mixture alone, and a twin that leaves the rest out."""
    x, worst = by_grid((*sizes[1:], sizes[0]))
    mu, beyond = blocks(sizes[1], len(sizes) - 1, runs=2)
    assert beyond < 1e-300
    curve = spread_out(sizes[0], 1, mu, 1e-30)
    ours = np.array([curve(place) for place in x])
    assert np.all(ours >= worst)
    assert ours[0] < 1.1 * worst[0]
    # Where the larger step can add to delta only what it does alone, as if nothing spread it.
    alone = spread_out(sizes[0], 1, 1e-9, 1e-30)
    assert not all(alone(x) >= w for x, w in zip(x, worst, strict=True))


def test_small_steps_without_their_excess_are_caught():
    """Where all of four small steps are a Gaussian, steps / 4 alone would be below the truth."""
    x, worst = by_grid((0.5,) * 4)
    mu, _ = blocks(0.5, 4)
    flat = 0.5 * math.sqrt(4) / 2  # steps / 4
    nothing = spread_out(1e-5, 1, mu, 1e-30)
    assert all(nothing(x) >= w for x, w in zip(x, worst, strict=True))
    twin = spread_out(1e-5, 1, flat, 1e-30)
    assert not all(twin(x) >= w for x, w in zip(x, worst, strict=True))


def test_the_mixture_is_the_recursion_where_nothing_spreads_it():
    found = _core.adaptive(3, 32, 97, 0.5, 1e-30)
    curve = spread_out(0.5, 3, 1e-9, 1e-30)
    for place, value in enumerate(found):
        x = 0.5 / 32 * place
        assert value * (1 - 1e-6) <= curve(x) <= value * (1 + 1e-6) + 1e-9


def test_one_large_step_and_many_small_ones():
    steps = [1.0] + [0.1] * 99
    ours = total_epsilon(steps, 100, 1e-6)
    assert 2.9 < ours < 3.0
    assert ours < 1.0 + total_epsilon(0.1, 99, 1e-6) < 3.25
    assert total_epsilon(steps, 100, 1e-6, "zcdp") > 3.5
    assert total_epsilon(steps[::-1], 100, 1e-6) == ours


@pytest.mark.parametrize("method", ["adaptive", "best"])
@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-9, 0.01, 0.5, 0.999])
@pytest.mark.parametrize(
    "sizes",
    [
        (0.2, 0.1),
        (9.0, 0.5, 0.5),
        (1e-200, 1e-300),
        (1e300, 1e300, 1.0),
        tuple(0.1 / i for i in range(1, 31)),
        (1.0,) * 20 + (0.01,) * 3000,
    ],
)
def test_extremes(method, delta, sizes):
    total = total_epsilon(sizes, len(sizes), delta, method)
    assert 0.0 <= total <= total_epsilon(sizes, len(sizes), delta, "basic")
    equal = total_epsilon(max(sizes), len(sizes), delta, method)
    assert total <= equal
