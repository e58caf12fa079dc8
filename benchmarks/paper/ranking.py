"""Private ranking (Qiao, Su and Zhang 2021, section 3): how many comparisons it takes."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import bench_ranking
from benchmarks.paper.record import Figure, Line, Panel, Result, Scale, Table


def run(scale: Scale, say: Callable[[str], None]) -> Result:
    """Recover the best of Bradley-Terry tables, at growing L."""
    times = bench_ranking.TIMES[: scale.pick(1, 2, 4)]
    runs = scale.pick(1, 5, bench_ranking.RUNS)
    rows, lines = [], []
    for way in bench_ranking.WAYS[: scale.pick(1, 4, 4)]:
        shares = []
        for each in times:
            say(f"{way.name}, L = {each:,}")
            share, _ = bench_ranking.recovery(way, each, runs)
            shares.append(share)
        rows.append([way.name, *shares])
        lines.append(Line(way.name, times, shares))
    picks, items = bench_ranking.PICKS, bench_ranking.ITEMS
    return Result(
        "Ranking from comparisons",
        "Qiao, Su and Zhang, ICML 2021, section 3",
        [Table(
            "recovery", f"Share of the true {picks} of {items} that are picked, epsilon 1",
            ["graph and method", *(f"L = {each:,}" for each in times)], rows,
            [f"Means over {runs} tables drawn from the Bradley-Terry model: synthetic. Epsilon is "
             "for one comparison of a pair, as in the paper, not for a person."],
        )],
        [Figure("recovery", f"The true {picks} of {items} found at epsilon 1",
                "comparisons of each pair, L", "share found",
                [Panel("", lines)], columns=1, log_x=True)],
        ["The paper prints no experiment on ranking: nothing to compare."],
    )  # fmt: skip
