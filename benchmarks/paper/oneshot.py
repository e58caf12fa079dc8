"""Theorems 2.1 to 2.3 of Qiao, Su and Zhang (2021): scales, and what a gap promises."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import dptopk as dp
from benchmarks.paper.record import Figure, Line, Panel, Result, Scale, Table

LAMBDA, K = 10.0, 10
GAPS = (1, 2, 4, 6, 8, 10, 20)
SCALES = {
    "Laplace, Thm 2.1 (any scores)": {"noise": "laplace", "monotone": False, "delta": 0.0},
    "Laplace, Thm 2.1 (counts)": {"noise": "laplace", "delta": 0.0},
    "Laplace, Thm 2.2 as printed": {"noise": "laplace", "method": "approximate", "bound": "paper"},
    "Laplace, Thm 2.2, ours": {"noise": "laplace", "method": "approximate"},
    "exponential, pure, ours": {"noise": "exponential", "delta": 0.0},
    "Gumbel, ours": {"noise": "gumbel"},
}


def promised(m: int, gap: float) -> float:
    """Theorem 2.3 at a gap of so many lambda."""
    return max(0.0, 1 - (m - 1) * (2 + gap) * math.exp(-gap) / 4)


def run(scale: Scale, say: Callable[[str], None]) -> Result:
    """Simulate the one shot at every gap, and list the scales."""
    sizes = scale.pick([50], [100, 10_000], [100, 10_000, 1_000_000])
    trials = scale.pick(50, 1000, 4000)
    rows, lines = [], []
    broken = 0
    for m in sizes:
        shares = []
        for gap in GAPS:
            say(f"Theorem 2.3, m = {m:,}, gap {gap} lambda")
            share = found(m, gap, trials)
            promise = promised(m, gap)
            error = math.sqrt(max(share * (1 - share), 1 / trials) / trials)
            broken += share < promise - 5 * error
            rows.append([m, gap, promise, share])
            shares.append(share)
        lines.append(Line(f"found, m = {m:,}", GAPS, shares))
        lines.append(Line(f"promised, m = {m:,}", GAPS, [promised(m, gap) for gap in GAPS]))
    eight = promised(8_000_000, 20)
    rows.append([8_000_000, 20, eight, None])
    theorem = Table(
        "theorem23", f"Theorem 2.3: all of the top {K} come out, all gaps alike",
        ["m", "gap / lambda", "promised", "found"], rows,
        [f"{trials:,} draws each, counts {K} gaps and more apart; synthetic, as the theorem asks."],
    )  # fmt: skip
    return Result(
        "One shot: Theorems 2.1 to 2.3",
        "Qiao, Su and Zhang, ICML 2021",
        [theorem, _scales(scale)],
        [
            Figure(
                "theorem23",
                f"Share of draws with all of the top {K}",
                "gap / lambda",
                "share",
                [Panel("Laplace noise, all gaps alike", lines)],
                columns=1,
            )
        ],
        [
            f"The promise was broken (5 standard errors) in {broken} of {len(rows) - 1} places.",
            "The paper says that a gap of 20 lambda gives more than 0.99 up to m = 8e6. Its own "
            f"formula gives {eight:.3f} there. What happens is better than either: only items "
            f"near place {K} can be taken for one another, and the formula adds up all of m.",
            "The paper has no experiments, so there are no further numbers to compare.",
        ],
        facts={"promise_at_8e6": eight},
    )


def found(m: int, gap: float, trials: int) -> float:
    """Return the share of draws that pick just the top k of counts `gap` lambda apart."""
    step = int(gap * LAMBDA)
    near = min(m, K + 2000)  # past 2,000 gaps an item comes up less than once in e^2000 draws
    counts = step * np.arange(near, 0, -1, dtype=np.int64)
    picks = dp.noisy_topk(
        counts, K, scale=LAMBDA, noise="laplace", size=trials, rng=dp.SeededRng(3)
    )
    return float((picks < K).all(axis=1).mean())


def _scales(scale: Scale) -> Table:
    ks = scale.pick([10], [10, 100], [10, 100, 1000, 10_000])
    counts = np.arange(100_000, dtype=np.int64)
    rows = []
    for label, options in SCALES.items():
        row: list[str | float | None] = [label]
        for k in ks:
            call = {"k": k, "epsilon": 0.2, "delta": 1e-6, **options}
            row.append(float(dp.oneshot(counts, rng=dp.SeededRng(0), **call).parameters["scale"]))  # type: ignore[arg-type]
        rows.append(row)
    return Table(
        "scales", "The scale of the noise at (0.2, 1e-6), m = 100,000",
        ["noise and statement", *(f"k = {k:,}" for k in ks)], rows,
        ["Epsilon alone where the statement is pure. The standard deviation is 1.41 scales of "
         "Laplace noise, 1.28 of Gumbel, 1 of exponential."],
    )  # fmt: skip
