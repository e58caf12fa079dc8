"""The speed of README: every cell of its table, by calls made in turn within one run.

Each group is called in turn until its time is over; the least and the median of each are kept.
Short calls are made some times in a row, so that none finds its array pushed out of the cache by
another; but not where noise is drawn for a whole array: those find what their rival left, as a
first call would. Times are processor time of this process, all its threads: it waits for others
while they have the processor. They still share its caches, which makes medians longer; the table
and its ratios are of the least. Portable C and AVX2 are run in the same groups.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import dptopk as dp
from benchmarks.bench_cut import rows_by_argpartition
from benchmarks.bench_mechanisms import BUDGET, by_gumbel, near_ties
from benchmarks.bench_noisy import inputs
from benchmarks.bench_noisy import rivals as noisy_rivals
from benchmarks.cut_cells import Cell, array_of
from benchmarks.data import skewed
from benchmarks.paper.record import Result, Scale, Table
from benchmarks.rivals import rivals
from dptopk import _core

Calls = dict[str, Callable[[], Any]]
N = 1_000_000
IN_A_ROW = 4e-3  # seconds
COLD = ("noisy_topk, ", "peel on an array")
LIMITS = {"limited_domain": {"k_bar": 500}, "peel": {}}
PICKS = {"joint": (10, 100, 1_000, 20_000), "canonical": (10, 100, 1_000, 10_000)}


def groups() -> Iterator[tuple[str, Calls, float]]:
    """Yield what is called in turn, and how much longer than others it runs."""
    yield from _cuts()
    yield from _noisy()
    yield from _prepared()
    for shape, counts, step in near_ties():
        h = dp.Histogram(counts)
        total = dp.accounting.total_epsilon(step, 100, 1e-6)
        yield f"near ties, {shape}", {
            "peel": partial(dp.peel, h, k=100, delta=1e-6, epsilon_step=step),
            "permute_and_flip": partial(dp.permute_and_flip, h, k=100, epsilon_step=step),
            "oneshot": partial(dp.oneshot, h, k=100, epsilon=total, delta=1e-6),
        }, 1.0  # fmt: skip
    h = dp.Histogram(skewed(N))
    for name, ks in PICKS.items():
        for k in ks:
            call = partial(getattr(dp, name), h, k=k, epsilon=1.0)
            yield f"{name}, k = {k}", {"ours": call}, 1.0


def _cuts() -> Iterator[tuple[str, Calls, float]]:
    for dtype in ("int64", "float32", "int16", "int8"):
        a = array_of(Cell(N, 1_000, dtype, "normal"))
        cut = partial(dp.argtopk, a, 1_000, sorted=False)
        calls: Calls = {"ours": cut, "np.max": a.max}
        if dtype == "int64":
            calls |= by_level(cut)
            for rival in rivals():
                call = rival.make(a, 1_000, False)
                if call is not None:
                    calls[rival.name] = call
        yield f"argtopk, {dtype}", calls, 2.0
    for shape in ("as real counts", "98% equal"):
        a = array_of(Cell(N, 1_000, "int64", shape))
        order = partial(dp.Histogram, a)
        calls = {"ours": order, "np.max": a.max, **by_level(order)}
        if shape == "98% equal":
            calls["argtopk, portable"] = by_level(partial(dp.argtopk, a, 1_000))["portable"]
        yield f"Histogram, {shape}", calls, 2.0
    many = np.random.default_rng(1).standard_normal((20_000, 50))
    yield "argtopk of rows", {
        "ours": partial(dp.argtopk, many, 10),
        "NumPy": partial(rows_by_argpartition, many, 10),
    }, 1.0  # fmt: skip


def _noisy() -> Iterator[tuple[str, Calls, float]]:
    counts = skewed(N)
    for k in (100, 1_000, 10_000):
        yield f"noisy_topk, k = {k}", noisy_rivals(counts, k, 1.0), 2.0
        wide = inputs(N)["float64 normal, sd 100"]
        yield f"noisy_topk, wide noise, k = {k}", noisy_rivals(wide, k, 100.0), 2.0
    for k in (5, 10):
        yield f"noisy_topk of 100, k = {k}", noisy_rivals(counts[:100], k, 1.0), 1.0
    scale = 1 / dp.accounting.step_epsilon(1.0, 100, 1e-6)
    yield "peel on an array", {
        "ours": partial(dp.peel, counts, **BUDGET),
        "NumPy": partial(by_gumbel, counts, 100, scale, np.random.default_rng(1)),
    }, 2.0  # fmt: skip


def _prepared() -> Iterator[tuple[str, Calls, float]]:
    calls: Calls = {}
    for size in (10_000, N):
        h = dp.Histogram(skewed(size))
        for name, options in LIMITS.items():
            call = partial(getattr(dp, name), h, **BUDGET, **options)
            calls[f"{name}, {size}"] = call
            if size == N:
                calls[f"{name}, portable"] = by_level(call)["portable"]
    yield "prepared", calls, 1.0


def times(calls: Calls, seconds: float, *, warm: bool) -> dict[str, tuple[float, float]]:
    """Return the least and the median microseconds of each."""
    taken: dict[str, list[float]] = {}
    for name, call in calls.items():
        call()  # what is made once
        taken[name] = [_timed(call)]
    longest = 20 if warm else 1
    in_a_row = {n: max(1, min(longest, int(IN_A_ROW / its[0]))) for n, its in taken.items()}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken[name]) < 4:
        for name, call in calls.items():
            taken[name] += [_timed(call) for _ in range(in_a_row[name])]
    # On some virtual machines the clock stands still for a call: that is no time.
    taken = {name: [its for its in all_ if its > 0.0] for name, all_ in taken.items()}
    return {name: (1e6 * min(its), 1e6 * statistics.median(its)) for name, its in taken.items()}


def _timed(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def by_level(call: Callable[[], Any]) -> Calls:
    """Return the call in portable C, and with AVX2 where more than that is in use."""
    best = _core.simd_get()

    def at(level: int) -> Any:
        _core.simd_set(level)
        try:
            return call()
        finally:
            _core.simd_set(best)

    found: Calls = {"portable": partial(at, 0)}
    if best > 1:
        found["AVX2"] = partial(at, 1)
    return found


def run(scale: Scale, say: Callable[[str], None]) -> Result:
    """Time every group."""
    seconds, rows = scale.pick(0.0, 0.3, 3.0), []
    for name, calls, longer in groups():
        say(name)
        for by, (least, median) in times(
            calls, seconds * longer, warm=not name.startswith(COLD)
        ).items():
            rows.append([name, by, least, median])
    return Result(
        "The speed of README",
        "Measured",
        [Table("speed", "Microseconds of a call", ["work", "by", "least", "median"], rows)],
    )
