"""Top k in each of many groups: items found at the same total cost, and time, against a loop."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import rich.table

import dptopk as dp
from benchmarks.data import skewed
from benchmarks.events import load
from benchmarks.row import Row, at_least, at_most
from benchmarks.timing import medians_ms

GROUPS, K, TRIALS = 10, 10, 20
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
SET = "gowalla_10core"


def tables(quick: bool = False) -> Iterator[rich.table.Table]:
    """Yield the share of each group's true top that is found, by the groups of a user."""
    events = load(SET)
    if events is None:
        return
    table = rich.table.Table(
        "mechanism", *(f"G = {most}" for most in (1, 2, 5)),
        title=f"{SET} in {GROUPS} groups, k = {K}, (1, 1e-6) in all: recall",
    )  # fmt: skip
    found: dict[str, list[str]] = {}
    for most in (1, 2, 5):
        counts, group = _in_groups(events, most)
        trials = 3 if quick else TRIALS
        for name, recall in _recalls(counts, most, trials):
            found.setdefault(name, []).append(f"{recall:.2f}")
        weighed = _recall(_weighted(events, group), _best(counts), trials)
        found.setdefault("weighted, no bound on groups", []).append(f"{weighed:.2f}")
    for name, cells in found.items():
        table.add_row(name, *cells)
    yield table


def _in_groups(events: Any, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Put each user into `most` groups at random, and each of their items into one of these.

    Return the counts, and the group of each row.
    """
    rng = np.random.default_rng(16)
    users, of_row = np.unique(events.users, return_inverse=True)
    groups = rng.permuted(np.tile(np.arange(GROUPS), (users.size, 1)), axis=1)[:, :most]
    group = groups[of_row, rng.integers(0, most, of_row.size)]
    items = int(events.items.max()) + 1
    counts = np.bincount(group * items + events.items, minlength=GROUPS * items)
    return counts.reshape(GROUPS, items), group


def _weighted(events: Any, group: np.ndarray) -> Any:
    import pyarrow as pa

    table = pa.table({"user": events.users, "item": events.items, "by": group})
    hs = dp.Histogram.from_events(
        table, user="user", item="item", by="by", groups=range(GROUPS), max_groups_per_user=GROUPS,
        soft_cap=10, max_items_per_user=1000,
    )  # fmt: skip
    return partial(dp.weighted, hs, k=K, **BUDGET)


def _best(counts: np.ndarray) -> list[set[int]]:
    return [set(np.argsort(-row, kind="stable")[:K].tolist()) for row in counts]


def _recalls(counts: np.ndarray, most: int, trials: int) -> Iterator[tuple[str, float]]:
    best = _best(counts)
    for name, draw in (
        ("limited_domain", partial(dp.limited_domain, k=K, **BUDGET)),
        ("peel, known items", partial(dp.peel, k=K, **BUDGET)),
    ):
        together = dp.Histograms(counts, max_groups_per_user=most)
        apart = dp.Histograms(counts, max_groups_per_user=GROUPS)
        for how, hs in (("one price", together), ("a loop, its costs composed", apart)):
            yield f"{name}, {how}", _recall(partial(draw, hs), best, trials)
        each = {"epsilon": BUDGET["epsilon"] / GROUPS, "delta": BUDGET["delta"] / GROUPS}
        plain = partial(_loop, draw, together, **each)
        yield f"{name}, a loop, its costs added", _recall(plain, best, trials)


def _loop(draw: Any, hs: dp.Histograms, *, rng: Any, **budget: float) -> dict[Any, dp.Release]:
    return {group: draw(h, **budget, rng=rng) for group, h in hs.items()}


def _recall(draw: Any, best: list[set[int]], trials: int) -> float:
    rng, hits = dp.SeededRng(3), 0
    for _ in range(trials):
        hits += sum(len(top.intersection(r)) for top, r in zip(best, draw(rng=rng).values(),
                                                               strict=True))  # fmt: skip
    return hits / (trials * K * len(best))


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the comparisons; quick takes fewer repeats."""
    repeats = 3 if quick else 15
    counts = skewed(10_000 * 1_000).reshape(10_000, 1_000)
    hs = dp.Histograms(counts, max_groups_per_user=1)
    each = [hs.row(place) for place in range(1_000)]
    for name, call in (
        ("limited_domain", partial(dp.limited_domain, k=K, **BUDGET)),
        ("peel", partial(dp.peel, k=K, epsilon=1.0)),
    ):
        ms = medians_ms(
            {
                "all": partial(call, hs),
                "loop": lambda call=call: [call(h) for h in each],
                "numpy": partial(_naive, counts[:1_000]),
            },
            repeats=repeats,
            warm_up=1,
        )
        loop, naive = 10 * ms["loop"], 10 * ms["numpy"]
        yield at_most(f"{name}, 10,000 groups of 1,000 items", ms["all"], "0.2 s", 200.0, 1.0)
        yield at_least("the same", ms["all"], "a loop (1,000 of them, x 10)", loop, None)
        yield at_least("the same", ms["all"], "NumPy by rows (1,000 of them, x 10)", naive, None)


def _naive(counts: np.ndarray) -> np.ndarray:
    noisy = counts + np.random.default_rng().gumbel(scale=10.0, size=counts.shape)
    return np.argpartition(-noisy, K, axis=1)[:, :K]
