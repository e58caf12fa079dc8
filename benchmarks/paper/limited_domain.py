"""Figure 1 of Durfee and Rogers (2019): composition of bounded-range steps, with our line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaln, logsumexp

from benchmarks.paper.record import Figure, Line, Panel, Result, Scale, Table
from dptopk.accounting import step_epsilon, total_epsilon

DELTA = 1e-6
METHODS = {
    "basic": "basic",
    "any epsilon-DP steps, optimal": "optimal",
    "bounded range, eq. (4)": "bounded_range",
    "bounded range, 2020": "bounded_range_2020",
    "zCDP": "zcdp",
    "adaptive, ours": "adaptive",
}
REFERENCE = "bounded range, eq. (4)"


def run(scale: Scale, say: Callable[[str], None]) -> Result:
    """Compare the compositions."""
    ks = scale.pick([10], [10, 50, 100], [10, 50, 100, 1000])
    steps = {}
    for k in ks:
        say(f"per-step epsilon, k = {k}")
        steps[k] = {label: step_epsilon(1.0, k, DELTA, name) for label, name in METHODS.items()}  # type: ignore[arg-type]
    rows = [[label, *(steps[k][label] for k in ks), steps[ks[-1]][label] / steps[ks[-1]][REFERENCE]]
            for label in METHODS]  # fmt: skip
    table = Table(
        "steps", "The epsilon of a step that a total of (1, 1e-6) affords",
        ["method", *(f"k = {k}" for k in ks), f"against eq. (4), k = {ks[-1]}"], rows,
        ["Larger is better: less noise at the same cost. Arithmetic: there is no data and no "
         "chance in it."],
    )  # fmt: skip
    figure, ends = _ratios(scale, say)
    gain = steps[ks[-1]]["adaptive, ours"] / steps[ks[-1]][REFERENCE]
    return Result(
        "Limited domain: composition of bounded-range steps",
        "Durfee and Rogers, NeurIPS 2019, Figure 1 and Lemmas 4.4 and 4.5",
        [table],
        [figure],
        [
            "The paper prints the ratio as a plot only, so there are no printed numbers to set "
            "beside ours. Its claim, that eq. (4) can be smaller than the optimal bound for any "
            "epsilon-DP steps (a ratio above 1), holds past some tens of steps, less so for large "
            f"epsilon (the ratio is {ends[0]:.2f} to {ends[1]:.2f} here). Ours is "
            f"{ends[2]:.2f} to {ends[3]:.2f}.",
            "As in the paper, the optimal bound is taken at the largest of its own deltas that is "
            "at most 1e-6, and the others at the same delta: so the lines are jagged.",
        ],
        facts={"adaptive_gain": gain},
    )


def optimal_at(epsilon: float, k: int) -> tuple[float, float]:
    """Lemma 4.5: the least (k - 2i) epsilon with delta_i <= 1e-6, and this delta_i."""
    best = (k * epsilon, 0.0)
    for i in range(1, k // 2 + 1):
        flips = np.arange(i)
        ways = gammaln(k + 1) - gammaln(flips + 1) - gammaln(k - flips + 1)
        terms = ways + (k - flips) * epsilon + np.log(-np.expm1(-2 * (i - flips) * epsilon))
        delta = float(np.exp(logsumexp(terms) - k * np.logaddexp(0, epsilon)))
        if delta > DELTA:
            break
        best = ((k - 2 * i) * epsilon, delta)
    return best


def _ratios(scale: Scale, say: Callable[[str], None]) -> tuple[Figure, list[float]]:
    epsilons = scale.pick([0.1], [0.01, 0.1], [0.01, 0.05, 0.1, 0.5])
    most = scale.pick(20, 200, 500)
    ks = sorted({round(k) for k in np.geomspace(2, most, scale.pick(3, 12, 30))})
    panels: dict[str, list[Line]] = {"bounded_range": [], "adaptive": []}
    for epsilon in epsilons:
        say(f"Figure 1, epsilon = {epsilon}")
        bounds = [optimal_at(epsilon, k) for k in ks]
        for name, lines in panels.items():
            ratios = [
                total / total_epsilon(epsilon, k, delta, name if delta else "basic")  # type: ignore[arg-type]
                for (total, delta), k in zip(bounds, ks, strict=True)
            ]
            lines.append(Line(f"epsilon {epsilon:g}", ks, ratios))
    ends = [end([y for line in lines for y in line.y]) for lines in panels.values()
            for end in (min, max)]  # fmt: skip
    titles = {"bounded_range": "the paper's bound, eq. (4)", "adaptive": "our adaptive bound"}
    return Figure(
        "figure1", "Optimal composition of any DP steps / that of bounded-range steps",
        "k", "ratio (above 1: better)", [Panel(titles[n], its) for n, its in panels.items()],
        log_x=True,
    ), ends  # fmt: skip
