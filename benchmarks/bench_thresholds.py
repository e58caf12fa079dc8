"""Queries against one noisy threshold: sparse vector in batches, in one call, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import dptopk as dp
from benchmarks.row import Row, at_least
from benchmarks.timing import medians_ms
from dptopk.mechanisms._threshold import scales, threshold_tests


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
