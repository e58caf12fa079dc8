"""`plot_costs`: what each composition method makes of a budget, over the number of steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dptopk import accounting
from dptopk._types import Method
from dptopk._validate import choice, integer
from dptopk.plotting.axes import COLOURS, MARKS, STROKES, axes, legend, logarithmic

__all__ = ["plot_costs"]

STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def plot_costs(
    ks: Sequence[int] = STEPS,
    *,
    epsilon: float | None = None,
    epsilon_step: float | None = None,
    delta: float = 1e-6,
    methods: Sequence[Method] | None = None,
    ax: Any = None,
) -> Any:
    """Draw what a budget buys, or what steps cost, by each composition method.

    Parameters
    ----------
    ks : sequence of int
        Numbers of steps: the items of `peel` or `limited_domain`.
    epsilon : float, optional
        The total. The epsilon that it affords each step is drawn: more is better. 1 if
        neither is given.
    epsilon_step : float, optional
        In place of it: that of each step. The total is drawn: less is better.
    delta : float, default 1e-6
        What the composition may add to delta.
    methods : sequence of str, optional
        Of ``accounting.METHODS``; by default all but "best".
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or both epsilons are given.
    ImportError
        If matplotlib is not installed.

    Notes
    -----
    A method that can't do so many steps ("optimal") has no point there.

    Examples
    --------
    >>> import dptopk as dp
    >>> ax = dp.plot_costs([1, 10, 100], epsilon=1, methods=["basic", "adaptive"])
    >>> [line.get_label() for line in ax.get_lines()]
    ['basic', 'adaptive']
    """
    if epsilon is not None and epsilon_step is not None:
        raise ValueError("give epsilon or epsilon_step, not both")
    if isinstance(ks, (int, str)) or not len(ks):
        raise TypeError("ks must be a sequence of integers, such as [1, 10, 100]")
    steps = [integer("ks", k) for k in ks]
    if isinstance(methods, str):
        raise TypeError("methods must be a sequence of names")
    if methods is None:
        names: list[Method] = [name for name in accounting.METHODS if name != "best"]
    else:
        names = [choice("method", name, accounting.METHODS) for name in methods]
    total = 1.0 if epsilon is None else epsilon
    curves = {name: [_at(name, k, total, epsilon_step, delta) for k in steps] for name in names}
    own, ax = ax is None, axes(ax, 8.0, 4.2)
    for place, (name, values) in enumerate(curves.items()):
        ax.plot(
            steps,
            values,
            label=name,
            color=COLOURS[place % len(COLOURS)],
            linestyle=STROKES[(place + place // len(COLOURS)) % len(STROKES)],
            marker=MARKS[place % len(MARKS)],
            markersize=5,
        )
    logarithmic(ax, steps)
    ax.set_yscale("log")
    ax.set_xlabel("steps")
    if epsilon_step is None:
        ax.set_ylabel("epsilon of each step")
        title = f"What a total of epsilon = {total:g}, delta = {delta:g} buys"
    else:
        ax.set_ylabel("total epsilon")
        title = f"What steps of epsilon = {epsilon_step:g} cost at delta = {delta:g}"
    ax.set_title(title, loc="left", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    legend(ax, outside=own, title="composition")
    return ax


def _at(method: Method, k: int, total: float, step: float | None, delta: float) -> float:
    try:
        if step is None:
            return accounting.step_epsilon(total, k, delta, method)
        return accounting.total_epsilon(step, k, delta, method)
    except ValueError:
        if method != "optimal":  # it can't do very many steps; bad values fail for all
            raise
        accounting.step_epsilon(total, k, delta, "basic")
        return math.nan
