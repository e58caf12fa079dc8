"""Ranking from comparisons: time on sparse graphs, and how often the true best are found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import dptopk as dp
from benchmarks.row import Row
from benchmarks.timing import medians_ms

SIZES = ((2_000, 100_000), (10_000, 500_000))
TIMES = (100, 1_000, 10_000, 100_000)  # comparisons of each pair
ITEMS, PICKS, RUNS = 50, 5, 40
RESTART = 0.2


class Way(NamedTuple):
    """A graph and a method."""

    name: str
    edges: float
    options: dict[str, Any]


WAYS = (
    Way("all pairs, laplace", 1.0, {}),
    Way("all pairs, laplace, restart 0.2", 1.0, {"restart": RESTART}),
    Way("half of them, laplace, restart 0.2", 0.5, {"restart": RESTART}),
    Way("all pairs, the paper's pure form", 1.0, {"method": "pure", "bound": "paper"}),
)


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield times for each size, then the recovery for each L."""
    for n, edges in SIZES[:1] if quick else SIZES:
        rng = np.random.default_rng(n)
        strengths = np.exp(rng.normal(size=n))
        wins = dp.ranking.bradley_terry(
            strengths, edge_probability=2 * edges / n / (n - 1), comparisons_per_pair=100, rng=rng
        )
        degree = _degree(wins)
        stated: dict[str, Any] = {"degree": degree, "comparisons_per_pair": 100}
        chain = dp.ranking.transition_matrix(wins, **stated)
        ms = medians_ms(
            {
                "rank_pairs": partial(
                    dp.rank_pairs, wins, k=10, epsilon=1.0, restart=RESTART, **stated
                ),
                "stationary": partial(dp.ranking.stationary_distribution, chain),
                "tau": partial(dp.ranking.ergodicity_coefficient, chain),
            },
            repeats=1 if quick else 3,
            warm_up=0,
        )
        size = f"{n:,} items, {wins.sum() // 100:,} pairs"
        limit = 5_000.0 if n == SIZES[0][0] else None
        for name, label in (
            ("rank_pairs", "rank_pairs, restart 0.2"),
            ("stationary", "stationary_distribution"),
            ("tau", "ergodicity_coefficient (checks rho)"),
        ):
            target, met = ("<= 5 s", ms[name] <= limit) if limit else ("", None)
            yield Row(f"{label}, {size}", ms[name], "", None, ms[name] / 1e3, target, met)
    for way in WAYS:
        for times in TIMES[:2] if quick else TIMES:
            found, ms_each = recovery(way, times, 5 if quick else RUNS)
            work = f"share of the true {PICKS} of {ITEMS} found: {way.name}, L={times:,}"
            yield Row(work, ms_each, "", None, found, "", None)


def recovery(way: Way, times: int, runs: int) -> tuple[float, float]:
    """Return the mean share of the truly best that are picked at epsilon 1, and ms a call."""
    rng = np.random.default_rng([times, 7])
    shares, ms = [], []
    strengths = np.geomspace(1.0, 0.02, ITEMS)  # the best first
    while len(shares) < runs:
        wins = dp.ranking.bradley_terry(
            strengths, edge_probability=way.edges, comparisons_per_pair=times, rng=rng
        )
        stated: dict[str, Any] = {"degree": _degree(wins), "comparisons_per_pair": times}
        start = time.perf_counter()
        release = dp.rank_pairs(wins, k=PICKS, epsilon=1.0, **stated, **way.options)
        ms.append(1e3 * (time.perf_counter() - start))
        shares.append(len(set(release.items) & set(range(PICKS))) / PICKS)
    return float(np.mean(shares)), float(np.median(ms))


def _degree(wins: Any) -> int:
    return int(np.diff((wins + wins.T).indptr).max())


def plot(path: str) -> None:
    """Draw the recovery against L."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for way in WAYS:
        axes.plot(TIMES, [recovery(way, times, RUNS)[0] for times in TIMES], "o-", label=way.name)
    axes.set(
        xscale="log",
        xlabel="comparisons of each pair, L",
        ylabel=f"share of the true {PICKS} of {ITEMS} found",
        title="rank_pairs at epsilon = 1 a comparison",
        ylim=(0, 1.05),
    )
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    import sys

    plot(sys.argv[1] if len(sys.argv) > 1 else "ranking.png")
