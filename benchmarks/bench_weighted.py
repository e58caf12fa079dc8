"""weighted: its speed. What it finds: ``python -m benchmarks utility``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import dptopk as dp
from benchmarks.data import skewed
from benchmarks.row import Row, at_most
from benchmarks.timing import medians_ms
from dptopk.accounting.weights import ONE

MOST = 1_000_000  # items that a user may have: no item of anybody is dropped
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the comparisons; quick takes fewer repeats."""
    repeats = 20 if quick else 100
    for n in (10_000, 1_000_000):
        counts = np.maximum(skewed(n), 1)
        h = dp.Histogram(counts)
        labels = np.arange(n)
        sums = counts * ONE - np.arange(n) % 1000  # hardly two alike
        weighed = dp.Histogram.from_weights(sums, labels, soft_cap=3, max_items_per_user=MOST)
        ours = partial(dp.weighted, weighed, **BUDGET)
        ms = medians_ms(
            {
                "k": lambda ours=ours: ours(k=100),
                "shown": lambda ours=ours: ours(k=100, release_weights=True),
                "all": ours,
                "bare": lambda h=h: dp.limited_domain(h, k=100, k_bar=500, **BUDGET),
                "numpy": lambda sums=sums: _naive(sums),
            },
            repeats=repeats,
        )
        against, bare = "limited_domain, k=100", ms["bare"]
        yield at_most(f"weighted, k=100, {n:,} items prepared", ms["k"], against, bare, 10.0)
        yield at_most("the same, with noisy weights", ms["shown"], against, bare, 10.0)
        work, noisy = "the same, all that pass", ms["numpy"]
        yield Row(work, ms["all"], "NumPy: noise on all", noisy, noisy / ms["all"], "", None)


def _naive(sums: np.ndarray) -> np.ndarray:
    noisy = sums + np.random.default_rng().normal(scale=7.3 * ONE, size=sums.size)
    passed = np.flatnonzero(noisy > 51 * ONE)
    return passed[np.argsort(-noisy[passed])]
