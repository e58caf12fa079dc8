"""The joint mechanism: calls on prepared histograms, and the paper's comparison of errors."""

from __future__ import annotations

import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import rich.table

import dptopk as dp
from benchmarks.data import SHARED, Counts, skewed
from benchmarks.row import Row, at_most
from benchmarks.timing import medians_ms
from dptopk import _core
from dptopk.metrics import l_inf_error
from dptopk.reference.joint import paper_law

SIZES = (1_000, 10_000, 100_000, 1_000_000)
KS = (5, 10, 50, 100, 200, 1_000, 5_000, 20_000)
EPSILONS = (0.1, 1.0, 10.0)
TARGETS = {  # ms, epsilon 1
    (1_000_000, 10): 0.3,
    (1_000_000, 200): 3.0,
    (1_000_000, 1_000): 50.0,
    (1_000_000, 5_000): 2_000.0,
    (1_000_000, 20_000): 10_000.0,
}
REPLAYS = (200, 1_000, 5_000)
# The paper's three: all pure, with the noise it states (k / epsilon and 2 k / epsilon).
MECHANISMS: dict[str, Callable[..., dp.Release]] = {
    "joint": dp.joint,
    "peel": dp.peel,
    "Laplace": partial(dp.oneshot, monotone=False),
}
K, TRIALS = 5, 100  # of the comparison of errors
DOMAINS = (100, 300, 1_000, 1_682)


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield times and memory."""
    for d in SIZES[-1:] if quick else SIZES:
        h = dp.Histogram(skewed(d))
        for k in KS:
            if k <= d:
                yield from _times(h, d, k, quick)
    h = dp.Histogram(skewed(SIZES[-1]))
    yield from (_replay(h, k) for k in REPLAYS)
    yield _memory(h)
    yield _paper()


def _times(h: dp.Histogram, d: int, k: int, quick: bool) -> Iterator[Row]:
    for epsilon in EPSILONS:
        contenders = {
            name: partial(mechanism, h, k=k, epsilon=epsilon)
            for name, mechanism in MECHANISMS.items()
        }
        ms = medians_ms(contenders, repeats=3 if quick or k > 100 else 15, warm_up=1)
        work = f"joint, k={k}, d={d:,}, epsilon {epsilon:g}"
        limit = TARGETS.get((d, k)) if epsilon == 1.0 else None
        target = "" if limit is None else f"<= {limit:g} ms"
        against = f"peel (oneshot Laplace {ms['Laplace']:.3g})"
        value = ms["joint"]
        yield Row(
            work,
            value,
            against,
            ms["peel"],
            value,
            target,
            None if limit is None else value <= limit,
        )


def _replay(h: dp.Histogram, k: int) -> Row:
    """A call that doubles don't decide, by bounds that are made wide."""

    def undecided() -> None:
        before = _core.error_factor
        _core.error_factor = 2.0**45
        try:
            dp.joint(h, k=k, epsilon=1.0)
        finally:
            _core.error_factor = before

    contenders = {"plain": partial(dp.joint, h, k=k, epsilon=1.0), "replay": undecided}
    ms = medians_ms(contenders, repeats=5, warm_up=1)
    return at_most(
        f"joint, k={k}, d=1,000,000, epsilon 1: a call that is replayed",
        ms["replay"],
        "one that is not",
        ms["plain"],
        10.0,
    )


def _memory(h: dp.Histogram) -> Row:
    """Python's peak of a call, and the kernel's scratch, most of which is never touched."""
    k = KS[-1]
    dp.joint(h, k=k, epsilon=1.0)
    tracemalloc.start()
    dp.joint(h, k=k, epsilon=1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    megabytes = (peak + 8 * (k + 1) * (2 * math.isqrt(k) + 6)) / 1e6
    return Row(
        f"joint, k={k}, d=1,000,000: MB at the peak of a call", 0.0, "", None, megabytes, "", None
    )


def _paper() -> Row:
    """The paper's algorithm to the letter, on little; its cost grows as d k^3 log k."""
    d, k = 30, 4
    counts = np.random.default_rng(1).permutation(10 * d)[:d].tolist()
    start = time.perf_counter()
    paper_law(counts, k=k, epsilon=1.0)
    ms = 1e3 * (time.perf_counter() - start)
    grown = ms * (1e6 / d) * (100 / k) ** 3 * math.log(100) / math.log(k)
    return Row(
        f"the paper's algorithm in plain Python, d={d}, k={k}; hours at 1e6, k=100 if it grows so",
        ms, "", None, grown / 3.6e6, "", None,
    )  # fmt: skip


# ---- the paper's comparison


def data() -> Iterator[tuple[str, Counts]]:
    """Yield the paper's two kinds of data; MovieLens where it is at hand."""
    for d in DOMAINS:
        yield f"uniform on [0, 10 d], d={d}", np.random.default_rng(d).integers(0, 10 * d, size=d)
    file = SHARED / "ml100k.hist.npz"
    if not file.is_file():
        print("ml100k is not there: no errors on MovieLens", file=sys.stderr)
        return
    with np.load(file) as stored:
        counts = np.sort(stored["counts"])[::-1].astype(np.int64)
    for d in DOMAINS:
        yield f"MovieLens 100k, top {d}", counts[:d]


def errors(counts: Counts, epsilon: float, trials: int) -> dict[str, float]:
    """Mean largest error of the picks' counts."""
    return {
        name: float(
            np.mean(
                [
                    l_inf_error(mechanism(counts, k=K, epsilon=epsilon), counts, K)
                    for _ in range(trials)
                ]
            )
        )
        for name, mechanism in MECHANISMS.items()
    }


def tables(quick: bool = False) -> Iterator[rich.table.Table]:
    """Yield the table of errors."""
    table = rich.table.Table("data", "epsilon", *MECHANISMS)
    trials = 20 if quick else TRIALS
    table.title = f"l_inf error, k={K}, mean of {trials} trials"
    for name, counts in data():
        for epsilon in (1.0, 0.1):
            found = errors(counts, epsilon, trials)
            table.add_row(name, f"{epsilon:g}", *(f"{found[m]:.3g}" for m in MECHANISMS))
    yield table


def plot(path: str) -> None:
    """Draw the same as curves over d."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found: dict[str, list[tuple[int, Counts]]] = {}
    for name, counts in data():
        found.setdefault(name.split(",")[0], []).append((counts.size, counts))
    figure, grid = pyplot.subplots(len(found), 2, figsize=(9, 3.5 * len(found)), squeeze=False)
    for panels, (name, sets) in zip(grid, found.items(), strict=True):
        for axes, epsilon in zip(panels, (1.0, 0.1), strict=True):
            results: Any = [errors(counts, epsilon, TRIALS) for _, counts in sets]
            for mechanism in MECHANISMS:
                axes.plot(
                    [d for d, _ in sets], [r[mechanism] for r in results], "o-", label=mechanism
                )
            axes.set(title=f"{name}, epsilon = {epsilon:g}", xlabel="d", ylabel="l_inf error")
            axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    plot(sys.argv[1] if len(sys.argv) > 1 else "joint.png")
