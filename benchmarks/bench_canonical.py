"""canonical: its time beside joint, peel and one-shot noise, and how many of the top it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import dptopk as dp
from benchmarks.data import skewed
from benchmarks.row import Row
from benchmarks.timing import medians_ms
from dptopk.rng import SeededRng

D = 1_000_000
KS = (10, 100, 1_000, 10_000)
TARGETS = {100: 1.0}  # ms
# All are pure.
MECHANISMS: dict[str, Callable[..., dp.Release]] = {
    "canonical": dp.canonical,
    "joint": dp.joint,
    "peel": dp.peel,
    "oneshot": partial(dp.oneshot, noise="exponential"),
}


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield times on a prepared histogram, and recall, at epsilon 1."""
    counts = skewed(D)
    h = dp.Histogram(counts)
    top = np.sort(counts)[::-1]
    for k in KS:
        contenders = {
            name: partial(mechanism, h, k=k, epsilon=1.0)
            for name, mechanism in MECHANISMS.items()
            if name != "joint" or k <= 200
        }
        ms = medians_ms(contenders, repeats=3 if quick or k > 100 else 15, warm_up=1)
        value, limit = ms["canonical"], TARGETS.get(k)
        against = "peel" + (f" (joint {ms['joint']:.3g})" if "joint" in ms else "")
        yield Row(
            f"canonical, k={k:,}, d={D:,}, epsilon 1", value, against, ms["peel"], value,
            "" if limit is None else f"<= {limit:g} ms", None if limit is None else value <= limit,
        )  # fmt: skip
        for name, draw in contenders.items():
            found = _recall(draw, counts, int(top[k - 1]), k)
            yield Row(f"share of the top {k:,} found by {name}", 0.0, "", None, found, "", None)


def _recall(draw: Callable[..., dp.Release], counts: np.ndarray, least: int, k: int) -> float:
    """Share of picks that count no less than the k-th largest, over ten draws."""
    return float(
        np.mean([(counts[list(draw(rng=SeededRng(s)).items)] >= least).mean() for s in range(10)])
    )
