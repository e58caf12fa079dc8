"""Rows of events to measure on, and the histograms that a setting makes of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dptopk as dp
from benchmarks.data import SHARED
from dptopk.accounting.weights import weights

SETS = ("debian12_sections", "ciao", "epinions", "fimi_retail", "gowalla_10core", "lastfm_hetrec",
        "ml100k")  # fmt: skip
OWN = Path(__file__).parents[1] / "examples" / "debian12_sections.parquet"


class Events:
    """Distinct pairs of a user and an item, both numbered from 0.

    Each histogram is prepared once. Labels are the numbers of the items, so that
    picks of all of them can be compared.
    """

    def __init__(self, users: np.ndarray, items: np.ndarray):
        self.users = users
        self.items = items
        self.counts = np.bincount(items)
        self.order = np.lexsort((np.arange(self.counts.size), -self.counts))
        self.places = _places(users)

    def true_top(self, k: int) -> np.ndarray:
        """Return which items are of the true top k."""
        of_top = np.zeros(self.counts.size, bool)
        of_top[self.order[:k]] = True
        return of_top

    @cache  # noqa: B019
    def counted(self, *, known: bool, most: int | None, limit: int | None) -> dp.Histogram:
        """Count users, each cut to `most` items; keep `limit` rows of an unknown domain."""
        items = self.items if most is None else self.items[self.places < most]
        counts = np.bincount(items, minlength=self.counts.size)
        if known:
            return dp.Histogram(counts)
        order = np.lexsort((np.arange(counts.size), -counts))[: np.count_nonzero(counts)]
        cut = counts.size if limit is None else min(limit, counts.size)
        below = int(counts[order[cut]]) if cut < order.size else 0
        return dp.Histogram.truncated(
            counts[order[:cut]], order[:cut], next_count=below, k_bar=cut, max_items_per_user=most
        )

    @cache  # noqa: B019
    def weighed(self, *, known: bool, most: int | None, soft_cap: int, norm: str) -> dp.Histogram:
        """Sum weights of users, each cut to `most` items."""
        kept = slice(None) if most is None else self.places < most
        users, items = self.users[kept], self.items[kept]
        have = np.bincount(users)
        sums = np.zeros(self.counts.size, np.int64)
        np.add.at(sums, items, weights(int(have.max()), soft_cap, norm)[have[users] - 1])
        there = np.arange(sums.size) if known else np.flatnonzero(sums)
        return dp.Histogram.from_weights(
            sums[there],
            there,
            soft_cap=soft_cap,
            norm=norm,  # type: ignore[arg-type]
            max_items_per_user=most,
            domain_is_public=known,
        )


def load(name: str) -> Events | None:
    """Return a data set, or None if it is not here."""
    import duckdb

    path = SHARED / f"{name}.events.parquet"
    if not path.is_file():
        path = OWN
        if name != OWN.stem:
            return None
    events = duckdb.read_parquet(str(path))
    user, item = events.columns[:2]
    rows: dict[str, Any] = events.select(user, item).distinct().order("1, 2").fetchnumpy()
    users, items = (np.unique(rows[name], return_inverse=True)[1] for name in (user, item))
    return Events(users, items)


def _places(users: np.ndarray) -> np.ndarray:
    """Return the place of each row among those of its user, in a random order."""
    order = np.lexsort((np.random.default_rng(7).random(users.size), users))
    starts = np.flatnonzero(np.diff(users[order], prepend=-1))
    lengths = np.diff(np.append(starts, users.size))
    places = np.empty(users.size, np.int64)
    places[order] = np.arange(users.size) - np.repeat(starts, lengths)
    return places
