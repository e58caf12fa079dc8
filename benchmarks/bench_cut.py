"""The cut against reading the array (np.max) and against NumPy's ways to the same indices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.timing import medians_ms
from dptopk import _core
from dptopk.argtopk import argtopk

Counts = npt.NDArray[np.int64]


class Row(NamedTuple):
    """One comparison. ratio = baseline / ours where more is better, else ours / baseline."""

    work: str
    ours_ms: float
    baseline: str
    baseline_ms: float
    ratio: float
    target: str
    met: bool | None  # None: no target, for information


def skewed(n: int) -> Counts:
    """n counts as skewed as real ones, in random order.

    DPTOPK_DATA names a directory with gowalla_hybrid.synth.npz; without it, a Pareto law of about
    the same head, tail and ties.
    """
    rng = np.random.default_rng(1)
    directory = os.environ.get("DPTOPK_DATA")
    if directory:
        with np.load(Path(directory) / "gowalla_hybrid.synth.npz") as data:
            counts = np.repeat(data["value"], data["multiplicity"])
        return rng.permutation(np.resize(counts, n)).astype(np.int64)
    return np.minimum((1.0 - rng.random(n)) ** (-1 / 1.5), 3000.0).astype(np.int64)


def by_argpartition(counts: Counts, m: int) -> Counts:
    """Today's idiom (ties in no fixed order)."""
    top = np.argpartition(counts, len(counts) - m)[len(counts) - m :]
    return top[np.argsort(-counts[top], kind="stable")]


def by_sample(counts: Counts, m: int) -> Counts:
    """The best of NumPy: a bound from a strided sample, then a sort of what passes it."""
    sample = np.sort(counts[:: len(counts) // 4096])
    expected = len(sample) * m / len(counts)
    bound = sample[-int(expected + 3 * expected**0.5 + 4)]
    kept = np.flatnonzero(counts >= bound)
    if len(kept) < m:
        kept = np.arange(len(counts))
    return kept[np.argsort(-counts[kept], kind="stable")[:m]]


def histogram_parts(counts: Counts, m: int) -> None:
    """What preparing a Histogram reads: the top m, and counts of the counts below them."""
    keys, _, _ = _core.cut(counts, m)
    _core.count_keys(counts, 0, int(keys[-1]))


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the comparisons of the cut; quick takes fewer repeats."""
    n, m, repeats = 1_000_000, 501, 7 if quick else 31
    counts = skewed(n)
    orders = {
        "": counts,
        ", ascending": np.sort(counts),
        ", descending": np.sort(counts)[::-1].copy(),
        ", constant": np.full(n, 1),
        ", two values": counts & 1,
        ", no ties": np.random.default_rng(2).permutation(n),
    }
    for order, x in orders.items():
        ms = medians_ms({"ours": lambda x=x: argtopk(x, m), "max": x.max}, repeats=repeats)
        ratio = ms["ours"] / ms["max"]
        work = f"argtopk m={m} n=1e6{order}"
        yield Row(work, ms["ours"], "np.max", ms["max"], ratio, "<= 2.5", ratio <= 2.5)
    for order, method, target in (
        ("", by_argpartition, 20.0),
        (", no ties", by_argpartition, None),
        ("", by_sample, None),
    ):
        x = orders[order]
        contenders = {"ours": lambda x=x: argtopk(x, m), "other": lambda: method(x, m)}  # noqa: B023
        ms = medians_ms(contenders, repeats=min(repeats, 11))
        ratio = ms["other"] / ms["ours"]
        yield Row(
            f"argtopk m={m} n=1e6{order}",
            ms["ours"],
            method.__name__.removeprefix("by_"),
            ms["other"],
            ratio,
            f">= {target:g}" if target else "",
            ratio >= target if target else None,
        )
    pair = {"ours": lambda: histogram_parts(counts, 4096), "max": counts.max}
    ms = medians_ms(pair, repeats=repeats)
    ratio = ms["ours"] / ms["max"]
    work = "cut m=4096 and counts of counts"
    yield Row(work, ms["ours"], "np.max", ms["max"], ratio, "<= 6", ratio <= 6)
