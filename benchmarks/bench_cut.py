"""The cut against reading the array (np.max) and against NumPy's ways to the same indices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.data import Counts, mostly_equal, skewed
from benchmarks.row import Row, at_least, at_most
from benchmarks.timing import medians_ms
from dptopk import Histogram, argtopk


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


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the comparisons; quick takes fewer repeats."""
    n, m, repeats = 1_000_000, 501, 7 if quick else 31
    ties, real = mostly_equal(n), skewed(n)
    orders = {
        "98% equal": ties,
        "98% equal, ascending": np.sort(ties),
        "98% equal, descending": np.sort(ties)[::-1].copy(),
        "as real counts": real,
        "constant": np.full(n, 1),
        "two values": real & 1,
        "no ties": np.random.default_rng(2).permutation(n),
    }
    for order, x in orders.items():
        ms = medians_ms({"ours": lambda x=x: argtopk(x, m), "max": x.max}, repeats=repeats)
        yield at_most(f"argtopk, top {m} of 1e6, {order}", ms["ours"], "np.max", ms["max"], 2.5)
    for order, name, method, limit in (
        ("98% equal", "argpartition", by_argpartition, 20.0),
        ("as real counts", "argpartition", by_argpartition, 20.0),
        ("no ties", "argpartition", by_argpartition, None),
        ("98% equal", "sampled bound in NumPy", by_sample, None),
    ):
        x = orders[order]
        contenders = {
            "ours": lambda x=x: argtopk(x, m),
            "other": lambda x=x, method=method: method(x, m),
        }
        ms = medians_ms(contenders, repeats=min(repeats, 11))
        yield at_least(f"argtopk, top {m} of 1e6, {order}", ms["ours"], name, ms["other"], limit)
    for order in ("98% equal", "as real counts"):
        x = orders[order]
        ms = medians_ms({"ours": lambda x=x: Histogram(x), "max": x.max}, repeats=repeats)
        yield at_most(f"Histogram of 1e6, {order}", ms["ours"], "np.max", ms["max"], 6.0)
