"""What k adaptive bounded-range steps can add up to, from above.

A second way to the number that dptopk.accounting computes, kept apart so that
one checks the other; grids of a few hundred points, for a handful of steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]


def composed_delta(epsilon: float, *, epsilon_step: float, steps: int, grid: int = 200) -> float:
    """Largest delta at `epsilon` of `steps` adaptive epsilon_step-bounded-range steps.

    A step's worst case has two losses, t and t - epsilon_step, the first with probability
    P(t) = (1 - exp(t - epsilon_step)) / (1 - exp(-epsilon_step)), t chosen after what came
    before. With V_0(x) = max(0, 1 - exp(x)) and
    V_j(x) = max over t of P(t) V_(j-1)(x - t) + (1 - P(t)) V_(j-1)(x - t + epsilon_step),
    it is V_steps(epsilon). Only multiples of epsilon_step / grid are looked at: the
    recursion runs at a step larger by grid / (grid - 1), which covers what lies between.

    Parameters
    ----------
    epsilon : float
        The total at which delta is asked for, at least 0.
    epsilon_step : float
        Bounded range of one step.
    steps : int
        Number of steps.
    grid : int
        Points per step.

    Returns
    -------
    float
        An upper bound.

    Examples
    --------
    >>> from dptopk.verification.bounded_range import composed_delta
    >>> composed_delta(1.0, epsilon_step=1.0, steps=2) < 0.13
    True
    >>> composed_delta(2.1, epsilon_step=1.0, steps=2)
    0.0
    """
    step = epsilon_step * grid / (grid - 1)
    width = step / grid
    first = np.arange(grid + 1)  # t, in grid points
    chance = (1 - np.exp(first * width - step)) / (1 - np.exp(-step))
    lowest = int(np.floor(epsilon / width)) - steps * grid  # grid points V_0 is needed from
    value = np.maximum(0.0, 1 - np.exp((lowest + np.arange(2 * steps * grid + 1)) * width))
    for _ in range(steps):
        inner = np.arange(grid, value.size - grid)  # where x - t and x - t + step are both there
        at = inner[:, None] - first[None, :]
        value = (chance * value[at] + (1 - chance) * value[at + grid]).max(axis=1)
    return float(value[0])


def delta_in_order(sizes: Sequence[float], cell: float) -> tuple[_Floats, _Floats]:
    """Worst delta of steps of several sizes in this order, from below.

    Every strategy whose losses are multiples of `cell` is tried, by the same recursion.

    Parameters
    ----------
    sizes : sequence of float
        Bounded ranges, multiples of `cell`, in the order in which the steps are made.
    cell : float
        Width of the grid.

    Returns
    -------
    array of float, array of float
        Totals from 0 on, and delta at each.

    Examples
    --------
    >>> from dptopk.verification.bounded_range import delta_in_order
    >>> first = delta_in_order([1.0, 0.25, 0.25], 1 / 32)[1][0]
    >>> last = delta_in_order([0.25, 0.25, 1.0], 1 / 32)[1][0]
    >>> bool(first < last)  # the large step can use what came before
    True
    """
    span = round(sum(sizes) / cell)
    x: _Floats = np.arange(-2 * span, 2 * span + 1, dtype=np.float64) * cell
    value: _Floats = np.maximum(0.0, -np.expm1(x))
    for size in reversed(sizes):  # the last step acts first
        m, n = round(size / cell), len(value)
        both = np.concatenate([-np.expm1(x[0] - cell * np.arange(m, 0, -1)), value, np.zeros(m)])
        best = value
        for i in range(m + 1):
            chance = np.expm1(i * cell - size) / np.expm1(-size)
            low, high = both[m - i : m - i + n], both[2 * m - i : 2 * m - i + n]
            best = np.maximum(best, chance * low + (1 - chance) * high)
        value = best
    return x[2 * span :], value[2 * span :]
