"""Accounting: the first call with new numbers, any number of steps, steps of several sizes.

"by recursion" is what a total was before: the recursion at each epsilon_step that the search
for it tries, on a finer grid here; past 4,096 steps it was zCDP. Totals are (1, 1e-6). Times are
the least of several: on a busy machine a millisecond is often interrupted.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import rich.table

from benchmarks.row import Row
from dptopk import _core
from dptopk.accounting import adaptive, gaussian_sigma, inverse, step_epsilon, total_epsilon
from dptopk.accounting.compositions import zcdp
from dptopk.verification.bounded_range import delta_in_order

DELTA = 1e-6
#: Steps, and how long a first call may take in milliseconds.
LIMITS = {10: 2.0, 64: 2.0, 100: 2.0, 1000: 20.0, 10_000: 20.0, 1_000_000: 20.0}
SIZES = (
    (1.0, *(0.25,) * 4),
    (2.0, *(0.125,) * 3),
    (1.0, 0.5, 0.25, 0.125),
    (3.0, 1.0),
    (1.0, *(0.1,) * 99),
    (1.0, 1.0, *(0.05,) * 1000),
)


def _cold(call: Callable[[], float]) -> tuple[float, float]:
    for cache in (
        inverse._step_epsilon,
        inverse._solve,
        inverse._total,
        adaptive.profile,
    ):
        cache.cache_clear()
    start = time.perf_counter()
    found = call()
    return found, 1e3 * (time.perf_counter() - start)


def _by_recursion(steps: int, cells: int) -> float:
    """Return the epsilon_step at total 1 by the kernel at that very step."""

    def total(range_: float) -> float:
        floor = DELTA * 1e-6
        reach = zcdp(((range_, steps),), floor) / range_ * cells
        bounds = _core.adaptive(steps, cells, int(reach) + 2, range_, floor)
        place = int(np.argmax(bounds <= DELTA))
        before, after = bounds[place - 1], bounds[place]
        width = range_ / cells
        share = (before - DELTA) / (before - after)
        return float((place - 1) * width + math.log1p(share * math.expm1(width)))

    guess = 1.065 * step_epsilon(1.0, steps, DELTA, "zcdp")
    return inverse.largest(total, 1.0, guess, ulps=2**20)


def tables(quick: bool = False) -> Iterator[rich.table.Table]:
    """Yield steps, and steps of several sizes."""
    first = 1.0 / gaussian_sigma(epsilon=1.0, delta=DELTA)
    table = rich.table.Table(
        "steps", "epsilon_step", "first call ms", "by recursion", "ms", "lost %", "zCDP",
        "over zCDP %", "below the limit 2 mu / sqrt(k) %", title="What a step may spend",
    )  # fmt: skip
    for steps in LIMITS:
        tries = [
            _cold(lambda steps=steps: step_epsilon(1.0, steps, DELTA))
            for _ in range(3 if quick else 9)
        ]
        ours, ms = tries[0][0], min(x[1] for x in tries)
        theirs, theirs_ms, lost = "", "", ""
        if steps <= (100 if quick else 1000):
            start = time.perf_counter()
            found = _by_recursion(steps, 128 if steps <= 100 else 64)
            theirs_ms = f"{1e3 * (time.perf_counter() - start):.0f}"
            theirs, lost = f"{found:.6g}", f"{100 * (1 - ours / found):.3f}"
        plain = step_epsilon(1.0, steps, DELTA, "zcdp")
        limit = 2 * first / math.sqrt(steps)
        table.add_row(
            f"{steps:,}", f"{ours:.6g}", f"{ms:.2f}", theirs, theirs_ms, lost, f"{plain:.6g}",
            f"{100 * (ours / plain - 1):.2f}", f"{100 * (1 - ours / limit):.3f}",
        )  # fmt: skip
    yield table
    table = rich.table.Table(
        "steps", "delta", "every order and strategy", "ours", "before", "basic + adaptive",
        title="Steps of several sizes: the total",
    )  # fmt: skip
    for sizes in SIZES:
        for delta in (1e-6, 1e-3):
            steps = len(sizes)
            before = min(
                total_epsilon(sizes, steps, delta, "zcdp"),
                total_epsilon(sizes, steps, delta, "bounded_range"),
                total_epsilon(max(sizes), steps, delta),
            )
            rest = [size for size in sizes if size < max(sizes)]
            apart = sum(sizes) - sum(rest) + total_epsilon(rest, len(rest), delta)
            counts = ", ".join(f"{sizes.count(x)} of {x:g}" for x in sorted(set(sizes))[::-1])
            table.add_row(
                counts, f"{delta:g}", _exact(sizes, delta),
                f"{total_epsilon(sizes, steps, delta):.4f}", f"{before:.4f}", f"{apart:.4f}",
            )  # fmt: skip
    yield table


def _exact(sizes: tuple[float, ...], delta: float) -> str:
    """Return the total that some order and strategy on a grid needs; the truth is at least it."""
    if len(sizes) > 5:
        return ""
    cell = 1 / 64
    worst = 0.0
    for order in set(itertools.permutations(sizes)):
        x, found = delta_in_order(order, cell)
        place = int(np.argmax(found <= delta))
        if place:
            share = (found[place - 1] - delta) / (found[place - 1] - found[place])
            worst = max(worst, float(x[place - 1]) + cell * share)
    return f"{worst:.4f}"


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield first calls, beside their limits."""
    for steps, limit in LIMITS.items():
        times = [
            _cold(lambda i=i, steps=steps: step_epsilon(1.0 + i / 99, steps, DELTA))[1]
            for i in range(5 if quick else 15)
        ]
        ms = min(times)
        yield Row(
            f"a first step_epsilon, {steps:,} steps", ms, "", None, ms, f"<= {limit:g} ms",
            ms <= limit,
        )  # fmt: skip
