"""The mechanisms: one-off on an array, and calls on a prepared Histogram."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import dptopk as dp
from benchmarks.data import SHARED, Counts, skewed
from benchmarks.row import Row, at_least
from benchmarks.timing import medians_ms

BUDGET = {"k": 100, "epsilon": 1.0, "delta": 1e-6}
MECHANISMS: dict[str, Callable[[Any], Any]] = {
    "limited_domain": lambda h: dp.limited_domain(h, k_bar=500, **BUDGET),
    "peel": lambda h: dp.peel(h, **BUDGET),
}


def by_gumbel(counts: Counts, k: int, scale: float, rng: np.random.Generator) -> Counts:
    """Today's idiom."""
    noisy = counts + rng.gumbel(scale=scale, size=len(counts))
    top = np.argpartition(-noisy, k)[:k]
    return top[np.argsort(-noisy[top])]


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the comparisons; quick takes fewer repeats."""
    repeats = 5 if quick else 15
    rng = np.random.default_rng(1)
    scale = 1 / dp.accounting.step_epsilon(1.0, 100, 1e-6)
    counts = skewed(1_000_000)
    ms = medians_ms(
        {
            "peel": lambda: dp.peel(counts, **BUDGET),
            "noisy_topk": lambda: dp.noisy_topk(counts, 100, scale=scale),
            "numpy": lambda: by_gumbel(counts, 100, scale, rng),
        },
        repeats=repeats,
    )
    for name in ("peel", "noisy_topk"):
        work = f"{name}, k=100, on an array of 1e6"
        yield at_least(work, ms[name], "argpartition(counts + gumbel)", ms["numpy"], 15.0)
    for d in (10_000, 1_000_000):
        h = dp.Histogram(skewed(d))
        for name, call in MECHANISMS.items():
            us = 1e3 * medians_ms({"ours": lambda: call(h)}, repeats=40 * repeats)["ours"]  # noqa: B023
            work = f"{name}, k=100, on a prepared Histogram of {d:.0e}".replace("e+0", "e")
            yield Row(work, us / 1e3, "", None, us, "<= 20 us", us <= 20.0)
    yield from rows_of_ties(repeats)
    h = dp.Histogram(counts)
    for name, call in MECHANISMS.items():
        one = calls_a_second(call, h, 1)
        work = f"{name}, k=100, calls a second on a prepared Histogram"
        yield Row(work, 1e3 / one, "", None, one, ">= 40,000", one >= 40_000)
    for work, call, x in (
        ("peel, k=100, on an array of 1e6", MECHANISMS["peel"], counts),
        ("peel, k=500, on a prepared Histogram", lambda h: dp.peel(h, k=500, epsilon=5.0), h),
        ("peel, k=100, on a prepared Histogram", MECHANISMS["peel"], h),
    ):
        one, two = calls_a_second(call, x, 1), calls_a_second(call, x, 2)
        work = f"{work}: calls by two threads over one"
        yield Row(work, 1e3 / two, "one thread", 1e3 / one, two / one, "", None)


def near_ties() -> Iterator[tuple[str, Counts, float]]:
    """Yield counts, and an epsilon_step, of which thousands may well be among the picks."""
    yield "0..9 over 1e6, epsilon_step 1", np.arange(1_000_000) % 10, 1.0
    yield "900..999 over 1e6, epsilon_step 0.1", 900 + np.arange(1_000_000) % 100, 0.1
    file = SHARED / "gowalla_10core.hist.npz"
    if file.exists():
        with np.load(file) as data:
            counts = data["counts"].astype(np.int64)
        for step in (0.01, 0.001):
            yield f"Gowalla, {counts.size:,} items, epsilon_step {step}", counts, step


def rows_of_ties(repeats: int) -> Iterator[Row]:
    """Yield calls among near ties; oneshot has the total of 100 such steps."""
    for shape, counts, step in near_ties():
        h = dp.Histogram(counts)
        total = dp.accounting.total_epsilon(step, 100, 1e-6)
        calls: dict[str, Callable[[], Any]] = {
            "peel": lambda: dp.peel(h, k=100, delta=1e-6, epsilon_step=step),  # noqa: B023
            "permute_and_flip": lambda: dp.permute_and_flip(h, k=100, epsilon_step=step),  # noqa: B023
            "oneshot": lambda: dp.oneshot(h, k=100, epsilon=total, delta=1e-6),  # noqa: B023
        }
        for name, ms in medians_ms(calls, repeats=20 * repeats).items():
            yield Row(f"{name}, k=100, near ties: {shape}", ms, "", None, 1e3 * ms, "", None)


def calls_a_second(call: Callable[[Any], Any], h: dp.Histogram, threads: int) -> float:
    """Median over rounds of a fifth of a second."""
    return float(np.median([_round(call, h, threads) for _ in range(5)]))


def _round(call: Callable[[Any], Any], h: dp.Histogram, threads: int) -> float:
    done = [0] * threads
    end = time.perf_counter() + 0.2

    def work(i: int) -> None:
        while time.perf_counter() < end:
            for _ in range(20):
                call(h)
            done[i] += 20

    start = time.perf_counter()
    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - start)
