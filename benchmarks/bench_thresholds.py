"""Queries against one noisy threshold: sparse vector in batches, in one call, one by one.

And what A_OQR, a baseline with constants of ours, returns of the top k beside top_stable.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import dptopk as dp
from benchmarks.data import skewed
from benchmarks.row import Row, at_least
from benchmarks.timing import medians_ms
from dptopk.mechanisms._threshold import scales, threshold_tests
from dptopk.reference import a_oqr

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
K_BAR = 100


def by_numpy(
    queries: Any, *, threshold: float, hits: int, epsilon: float, rng: np.random.Generator
) -> np.ndarray:
    """Today's idiom: noise on all queries, then up to the last hit."""
    noise = scales(epsilon, hits=hits, monotone=True)
    level = threshold + rng.laplace(scale=noise.threshold)
    above = queries + rng.laplace(scale=noise.query, size=len(queries)) > level
    at = np.flatnonzero(above)
    return above[: at[hits - 1] + 1] if at.size >= hits else above


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the comparisons; quick takes fewer repeats."""
    repeats = 5 if quick else 15
    rng = np.random.default_rng(1)
    queries = rng.integers(0, 100, size=1_000_000)
    # What decides the speed is how near the threshold the queries are, in noises.
    cases = [(f"hits={hits}, none near", 1.0, hits, 300 + 60 * hits) for hits in (1, 10, 100)]
    cases.append(("hits=1e6, all near", 1e4, 1_000_000, 50))
    for what, epsilon, hits, threshold in cases:
        options: dict[str, Any] = {"threshold": threshold, "hits": hits, "epsilon": epsilon}
        contenders = {
            "ours": partial(dp.sparse_vector, queries, monotone=True, **options),
            "numpy": partial(by_numpy, queries, rng=rng, **options),
        }
        assert all(len(call()) == len(queries) for call in contenders.values())
        ms = medians_ms(contenders, repeats=repeats)
        work = f"sparse_vector, 1e6 queries, {what}"
        yield at_least(
            work, ms["ours"], "queries + rng.laplace", ms["numpy"], 2.0 if hits <= 100 else None
        )
        rate = 1e3 * len(queries) / ms["ours"]
        yield Row("the same, queries a second", ms["ours"], "", None, rate, "", None)
    gaps = np.sort(rng.integers(0, 2000, 100))[::-1].copy()
    call = partial(
        threshold_tests, gaps, threshold=-600, threshold_scale=20.0, query_scale=20.0,
        above=False, rng=None,
    )  # fmt: skip
    us = 1e3 * medians_ms({"ours": call}, repeats=40 * repeats)["ours"]
    yield Row("threshold_tests, 100 gaps in one call", us / 1e3, "", None, us, "<= 10 us", us <= 10)
    tests = dp.SparseVector(threshold=10**6, epsilon=1.0)
    us = 1e3 * medians_ms({"ours": partial(tests.test, 3)}, repeats=40 * repeats)["ours"]
    yield Row("SparseVector.test, one query", us / 1e3, "", None, us, "", None)
    yield from _stable_sets(20 if quick else 200)


def _stable_sets(draws: int) -> Iterator[Row]:
    """Yield the mean size of the largest stable set that comes out of the top 100, ..., 1."""
    rng = np.random.default_rng(7)
    for times in (1, 30):
        counts = times * skewed(1_000_000)
        h = dp.Histogram(counts)
        queries = a_oqr.stable_sets(counts.tolist(), k=1, k_bar=K_BAR)
        work = f"mean size of the largest set of the top {K_BAR} that comes out, {times} x counts"
        for name, noise in (("|rho|", a_oqr.noise), ("rho", a_oqr.improved)):
            for cutoff in (1, 10, K_BAR):
                used = noise(cutoff=cutoff, queries=K_BAR, **BUDGET)
                outcomes = a_oqr.naive_sample(
                    queries, cutoff=cutoff, draws=draws, rng=rng, **used._asdict()
                )
                sizes = [max(map(len, filter(None, outcome)), default=0) for outcome in outcomes]
                yield _mean(f"{work}: A_OQR with {name}, our constants, T={cutoff}", sizes)
        stable = [len(dp.top_stable(h, k=K_BAR, k_bar=K_BAR, **BUDGET)) for _ in range(draws)]
        yield _mean(f"{work}: top_stable", stable)


def _mean(work: str, sizes: list[int]) -> Row:
    return Row(work, float("nan"), "", None, float(np.mean(sizes)), "", None)
