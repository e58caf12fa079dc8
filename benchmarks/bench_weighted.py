"""weighted: its speed, and how much of the true top k it finds beside the others.

The soft cap of each data set is the one that is best on all the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rich.table

import dptopk as dp
from benchmarks.data import SHARED, skewed
from benchmarks.row import Row, at_most
from benchmarks.timing import medians_ms
from dptopk.accounting.weights import ONE, weights

SETS = ("debian12_sections", "ciao", "epinions", "fimi_retail", "gowalla_10core", "lastfm_hetrec",
        "ml100k")  # fmt: skip
OWN = Path(__file__).parents[1] / "examples" / "debian12_sections.parquet"
SOFT_CAPS = (1, 3, 10, 30)
MOST = 1_000_000  # items that a user may have: no item of anybody is dropped
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
COLUMNS = ("weighted", "limited_domain", "restricted_gumbel", "peel", "oneshot")


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


def tables(quick: bool = False) -> Iterator[rich.table.Table]:
    """Yield recall by data set, mechanism and k."""
    found = {name: _events(name) for name in SETS}
    data = {name: events for name, events in found.items() if events is not None}
    left_out = f"; not here: {', '.join(set(SETS) - set(data))}" if len(data) < len(SETS) else ""
    trials = 3 if quick else 20
    for k in (10, 100):
        title = f"recall of the true top {k} at (1, 1e-6), standard error in brackets{left_out}"
        table = rich.table.Table("data", "soft cap", *COLUMNS, title=title)
        tried = {
            name: {cap: _trials(_weighted(*events, cap), events, k, trials) for cap in SOFT_CAPS}
            for name, events in data.items()
        }
        for name, events in data.items():
            cap = _best_elsewhere(tried, name)
            recalls = [tried[name][cap]]
            recalls += [_trials(call, events, k, trials) for call in _others(*events)]
            table.add_row(name, str(cap), *map(_mean, recalls))
        yield table


def _events(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Users and items of distinct pairs, from 0 on; None if the set is not here."""
    import duckdb

    path = SHARED / f"{name}.events.parquet"
    if not path.is_file():
        path = OWN
        if name != OWN.stem:
            return None
    events = duckdb.read_parquet(str(path))
    user, item = events.columns[:2]
    columns = events.select(user, item).distinct().fetchnumpy()
    users, items = (np.unique(columns[name], return_inverse=True)[1] for name in (user, item))
    return users, items


def _best_elsewhere(tried: dict[str, dict[int, list[float]]], name: str) -> int:
    def elsewhere(cap: int) -> float:
        return sum(float(np.mean(tried[other][cap])) for other in tried if other != name)

    return max(SOFT_CAPS, key=elsewhere) if len(tried) > 1 else 3


def _weighted(users: np.ndarray, items: np.ndarray, soft_cap: int) -> Callable[[int], Any]:
    have = np.bincount(users)
    sums = np.zeros(items.max() + 1, np.int64)
    np.add.at(sums, items, weights(int(have.max()), soft_cap, "l2")[have[users] - 1])
    h = dp.Histogram.from_weights(
        sums, np.arange(sums.size), soft_cap=soft_cap, max_items_per_user=MOST
    )
    return lambda k: dp.weighted(h, k=k, **BUDGET).labels


def _others(users: np.ndarray, items: np.ndarray) -> Iterator[Callable[[int], Any]]:
    """The first two over an unknown domain, as weighted; the others over a known one.

    oneshot has Gaussian noise, for users cut to the 30 of their items that come first in a
    random order.
    """
    counts = np.bincount(items)
    order = np.lexsort((np.arange(counts.size), -counts))
    h = dp.Histogram.truncated(counts[order], order, next_count=0, k_bar=counts.size)
    yield lambda k: dp.limited_domain(h, k=k, **BUDGET).labels
    yield lambda k: dp.restricted_gumbel(h, k=k, **BUDGET).labels
    yield lambda k: dp.peel(counts, k=k, **BUDGET).indices
    bounded = np.bincount(items[_first(users, 30)], minlength=counts.size)
    yield (
        lambda k: (
            dp.oneshot(bounded, k=k, noise="gaussian", max_items_per_user=30, **BUDGET).indices
        )
    )


def _first(users: np.ndarray, most: int) -> np.ndarray:
    """Which rows are among the first so many of their user, in a random order."""
    order = np.lexsort((np.random.default_rng(7).random(users.size), users))
    starts = np.flatnonzero(np.diff(users[order], prepend=-1))
    lengths = np.diff(np.append(starts, users.size))
    place = np.arange(users.size) - np.repeat(starts, lengths)
    return order[place < most]


def _trials(
    call: Callable[[int], Any], events: tuple[np.ndarray, np.ndarray], k: int, trials: int
) -> list[float]:
    counts = np.bincount(events[1])
    true = set(np.lexsort((np.arange(counts.size), -counts))[:k].tolist())
    return [len(true.intersection(np.asarray(call(k)).tolist())) / k for _ in range(trials)]


def _mean(recalls: list[float]) -> str:
    error = float(np.std(recalls, ddof=1)) / math.sqrt(len(recalls))
    return f"{np.mean(recalls):.3f} ({error:.3f})"
