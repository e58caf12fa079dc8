"""Figures 4, 5, 7 to 10 and Table 2 of Silva Carvalho and Wang: the restricted domain."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import dptopk as dp
from benchmarks import bench_known
from benchmarks.bench_framework import KS, TIMES, TRIALS
from benchmarks.paper import sets
from benchmarks.paper.record import Figure, Line, Panel, Result, Scale, Table
from benchmarks.timing import medians_ms
from dptopk.accounting import step_epsilon, total_epsilon

SETS = ("yelp_tips.synth", "foursquare.synth", "gowalla_hybrid.synth", "epinions.hist",
        "gowalla_10core.hist")  # fmt: skip
SHOWN = ((10, 10), (50, 500), (100, 5000))  # k and k_bar, in the plots
USER = 8  # the most items of a user, in Figure 8
LAW = "bounded_range_2020"  # eq. (12)
MEASURES = ("returned", "score ratio", "F1")
# figure of the paper: what is measured, and which mechanisms it compares
FIGURES = {
    "figure4": ("Figure 4: number returned", "returned", ("RG paper", "LD paper", "RG", "LD")),
    "figure5": ("Figure 5: score ratio", "score ratio", ("RG paper", "LD paper", "RG", "LD")),
    "figure8": ("Figure 8: number returned, users with at most 8 items", "returned", ("RN", "LL")),
    "figure9": ("Figure 9: number returned", "returned", ("RG paper", "TS", "RG")),
    "figure10": ("Figure 10: F1", "F1", ("RG paper", "LD paper", "RG", "LD")),
}
TABLE_2 = {"Yelp*": ((41.94, 1.91, 1.87, 1.93), (36.66, 4.57, 4.21, 4.40),
                     (38.41, 3.61, 3.99, 4.82)),
           "Foursquare*": ((29.48, 4.73, 4.71, 4.24), (31.17, 5.14, 5.18, 5.87),
                           (30.39, 4.64, 4.93, 5.74)),
           "Gowalla (real head)*": ((475.94, 2.11, 2.37, 2.29), (466.73, 4.11, 4.26, 4.82),
                                    (481.90, 3.55, 3.73, 4.66))}  # fmt: skip


class Setting(NamedTuple):
    """What is asked, of which set."""

    data: str
    k: int
    k_bar: int
    epsilon: float


Found = dict[Setting, dict[str, dict[str, float]]]


def run(scale: Scale, say: Callable[[str], None]) -> Result:
    """Run all figures that share their draws, then Figure 7 and Table 2."""
    names = scale.pick(SETS[2:3], SETS[:3], SETS)
    here, absent = sets.found(names)
    here = [its._replace(counts=its.counts[: scale.pick(20_000, None, None)]) for its in here]
    epsilons = scale.pick((1.0,), (0.2, 1.0), (0.1, 0.3, 0.5, 0.7, 1.0))
    found: Found = {}
    for its in here:
        for k, times in itertools.product(KS[: scale.pick(1, 3, 3)], TIMES):
            for epsilon in epsilons:
                setting = Setting(its.name, k, times * k, epsilon)
                say(f"{its.name}, k = {k}, k_bar = {times * k}, epsilon {epsilon}")
                found[setting] = measured(its, setting, scale.pick(5, TRIALS // 4, TRIALS))
    tables = [_means(found, epsilons), *_claims(found)]
    figures = [_figure(name, found, epsilons) for name in FIGURES]
    seven, gap, facts = _figure_7(scale, say)
    return Result(
        "Restricted domain: any mechanism over the top k_bar",
        "Silva Carvalho and Wang, Figures 4, 5, 7 to 10 and Table 2",
        [*tables, gap, _table_2(scale, say, here)],
        [*figures, seven],
        [
            "`RG paper` and `LD paper` have the constants and the accounting of the paper: eq. "
            "(12), half of delta for either part, 4 steps of LD for the tests, the looser tail. "
            "The paper's search for the step, in steps of 1e-4, is replaced by the solution. "
            "`RG`, `LD`, `TS`, `RN` and `LL` are this library's at the same total.",
            "RN: the paper's Theorem 8 counts sqrt(D) twice. Ours is (epsilon, delta) by the "
            "analytic Gaussian mechanism alone, so that it has less noise than theirs.",
            "Figure 8 takes every count as if users had at most 8 items, as the paper does; the "
            "sets are not cut to it.",
        ],
        absent,
        facts,
    )


def contenders(setting: Setting, delta: float) -> dict[str, tuple[Callable[..., Any], dict]]:
    """Return each mechanism with its options, all at the total (epsilon, delta)."""
    k, half, total = setting.k, delta / 2, setting.epsilon
    step = step_epsilon(total, k, half, LAW)  # type: ignore[arg-type]
    budget = {"k": k, "k_bar": setting.k_bar, "delta": delta}
    ours = {**budget, "epsilon": total}
    found = {
        "RG": (dp.restricted_gumbel, ours),
        "LD": (dp.limited_domain, ours),
        "TS": (dp.top_stable, ours),
        "RN": (dp.restricted_normal, {**ours, "max_items_per_user": USER}),
        "LL": (dp.limited_domain_laplace, {**ours, "max_items_per_user": USER}),
        "LD paper": (dp.limited_domain, {**budget, "epsilon_step": step}),  # half of delta each
    }
    if total > 4 * step:  # what is left picks; the same step costs less by our accounting
        picks = step_epsilon(total - 4 * step, k, half, LAW)  # type: ignore[arg-type]
        least = total_epsilon(picks, k, half)
        found["RG paper"] = (dp.restricted_gumbel, {
            **budget, "epsilon": least + 4 * step, "mechanism_epsilon": least,
            "mechanism_delta": half, "bound": "paper",
        })  # fmt: skip
    return found


def measured(its: sets.Counts, setting: Setting, trials: int) -> dict[str, dict[str, float]]:
    """Return the mean of each measure, and the standard deviation of how many came."""
    k, k_bar = setting.k, setting.k_bar
    results = {}
    for name, (mechanism, options) in contenders(setting, 1 / (2 * its.users)).items():
        user = options.get("max_items_per_user")
        h = dp.Histogram.truncated(
            its.counts[:k_bar], range(k_bar), next_count=int(its.counts[k_bar]), k_bar=k_bar,
            max_items_per_user=user,
        )  # fmt: skip
        try:
            picks = dp.trials(mechanism, h, trials, rng=dp.SeededRng(2), **options)
        except (ValueError, dp.MechanismError):
            continue  # it refuses so small a budget
        came = (picks >= 0).sum(axis=1)
        right = ((picks >= 0) & (picks < k)).sum(axis=1)
        sums = np.where(picks < 0, 0, its.counts[picks]).sum(axis=1)
        results[name] = {
            "returned": float(came.mean()),
            "spread": float(came.std()),
            "score ratio": float(sums.mean() / its.counts[:k].sum()),
            "F1": float((2 * right / (came + k)).mean()),
        }
    return results


def _figure(name: str, found: Found, epsilons: tuple[float, ...]) -> Figure:
    title, measure, mechanisms = FIGURES[name]
    panels = []
    for data, k, k_bar in dict.fromkeys(setting[:3] for setting in found):
        if (k, k_bar) not in SHOWN or data not in map(sets.label, SETS[:3]):
            continue  # the table of means has them all
        lines = []
        for mechanism in mechanisms:
            points = [(e, found[Setting(data, k, k_bar, e)].get(mechanism)) for e in epsilons]
            there = [(e, its[measure]) for e, its in points if its]
            lines.append(Line(mechanism, [e for e, _ in there], [y for _, y in there]))
        panels.append(Panel(f"{data}, k={k}, k_bar={k_bar}", lines))
    return Figure(name, f"{title} (* stand-ins)", "epsilon, total", measure, panels, columns=3)


def _means(found: Found, epsilons: tuple[float, ...]) -> Table:
    mechanisms = ("RG paper", "LD paper", "RG", "LD", "TS", "RN", "LL")
    rows: list[list[Any]] = []
    for setting, its in found.items():
        if setting.epsilon == epsilons[-1]:
            cells = [
                f"{m['returned']:.3g} / {m['score ratio']:.2f} / {m['F1']:.2f}" if m else None
                for m in map(its.get, mechanisms)
            ]
            rows.append([setting.data, setting.k, setting.k_bar, *cells])
    return Table(
        "means", f"Number returned / score ratio / F1, epsilon {epsilons[-1]:g}",
        ["data", "k", "k_bar", *mechanisms], rows,
        ["delta = 1 / (2 users). RN and LL know that a user has at most 8 items: not to be "
         "compared with the others.", sets.STAND_IN_NOTE],
    )  # fmt: skip


def _claims(found: Found) -> Iterator[Table]:
    """What the text prints as numbers."""
    yelp = {s: its for s, its in found.items() if s.data == "Yelp*"}
    if not yelp:
        return  # not here, or a tiny run

    mechanisms = ("RG paper", "LD paper", "RG", "LD")
    alike = [its for s, its in yelp.items() if (s.k, s.k_bar) == (50, 50)]
    means, spreads = [], []
    for name in mechanisms if alike else ():
        cells = [its[name] for its in alike if name in its]
        came = np.array([its["returned"] for its in cells])
        means.append(float(came.mean()))
        within = np.mean([its["spread"] ** 2 for its in cells])
        spreads.append(float(np.sqrt(within + came.var())))
    rows: list[list[Any]] = [
        ["number returned, k = k_bar = 50, mean over all epsilon", "10.9", "5.2", *means],
        ["its standard deviation, over all epsilon", "7.3", "4.3", *spreads],
    ]
    for (k, k_bar, epsilon, measure), label, printed in (
        ((50, 2500, 0.7, "score ratio"), "score ratio, k = 50, k_bar = 2,500, epsilon 0.7",
         ("1.0", "below 1")),
        ((50, 2500, 1.0, "score ratio"), "score ratio, k = 50, k_bar = 2,500, epsilon 1",
         ("1.0", "1.0")),
        ((100, 5000, 1.0, "returned"), "number returned, k = 100, k_bar = 5,000, epsilon 1",
         ("over 3 times LD", "")),
    ):  # fmt: skip
        its = yelp.get(Setting("Yelp*", k, k_bar, epsilon))
        if its:
            cells = [its[name][measure] for name in mechanisms]
            rows.append([label, *printed, *cells])
    yield Table(
        "claims", "Numbers of the text, on Yelp*",
        ["what", "RG printed", "LD printed", "RG paper", "LD paper", "RG", "LD"], rows,
        ["The paper has epsilon from 0.01 to 1, we the values of the plots.", sets.STAND_IN_NOTE],
    )  # fmt: skip


def _figure_7(scale: Scale, say: Callable[[str], None]) -> tuple[Figure, Table, dict[str, float]]:
    """Both by the paper's accounting in the plot, and by either in the table."""
    gowalla = sets.load("gowalla_hybrid.synth")
    assert gowalla is not None  # it stands beside the benchmarks
    gowalla = gowalla._replace(counts=gowalla.counts[: scale.pick(20_000, None, None)])
    epsilons = scale.pick((0.4,), (0.4, 1.0), (0.1, 0.2, 0.4, 0.7, 1.0))
    panels, rows, facts = [], [], {}
    for k in scale.pick((10,), (10, 50), (10, 50)):
        lines: dict[str, list[float]] = {}
        for epsilon in epsilons:
            say(f"Figure 7, k = {k}, epsilon {epsilon}")
            for name, ratio in _by_size(gowalla, Setting("", k, 50 * k, epsilon), scale).items():
                lines.setdefault(name, []).append(ratio)
        shown = {name: y for name, y in lines.items() if "ours" not in name}
        panels.append(Panel(f"k = {k}", [Line(name, epsilons, y) for name, y in shown.items()]))
        at = epsilons.index(0.4)
        ahead = [lines["RG" + by][at] - lines["EM, 1e+10 items more" + by][at]
                 for by in ("", ", ours")]  # fmt: skip
        rows.append([k, "nearly 0.3" if k == 50 else None, *ahead])
        facts[f"ahead_{k}"] = ahead[0]
    table = Table(
        "figure7", "Figure 7: score ratio of RG less that of EM, 1e10 items of count 1 added, "
        "epsilon 0.4", ["k", "printed", "the paper's accounting", "our accounting"], rows,
        [f"{gowalla.name}, {bench_known.TRIALS} trials, the paper 5. The items that are added "
         "exist as a number only: no array holds them.", sets.STAND_IN_NOTE],
    )  # fmt: skip
    figure = Figure("figure7", f"Figure 7: the size of the domain ({gowalla.name})",
                    "epsilon, total", "score ratio", panels)  # fmt: skip
    return figure, table, facts


def _by_size(its: sets.Counts, setting: Setting, scale: Scale) -> dict[str, float]:
    """Return the score ratio of RG, and of EM over domains of all sizes."""
    k, delta = setting.k, 1 / (2 * its.users)
    cut = bench_known.cut_of(its.counts, 0, setting.k_bar)
    step = step_epsilon(setting.epsilon, k, delta, LAW)  # type: ignore[arg-type]
    ours = {"k": k, "epsilon": setting.epsilon, "delta": delta}
    paper = {"k": k, "epsilon_step": step, "delta": delta}
    found = {}
    known = contenders(setting, delta)
    for by, name, budget in (("", "RG paper", paper), (", ours", "RG", ours)):
        mechanism, options = known[name]
        found["RG" + by] = bench_known.ratio(partial(mechanism, cut, **options), cut, k)
        for added in bench_known.SIZES[:: scale.pick(3, 3, 1)]:
            h = bench_known.cut_of(its.counts, added, its.counts.size)
            em = partial(dp.peel, h, **budget)  # type: ignore[arg-type]
            found[f"EM, {added:.0e} items more{by}" if added else f"EM, the set alone{by}"] = (
                bench_known.ratio(em, h, k)
            )
    return found


def _table_2(scale: Scale, say: Callable[[str], None], here: list[sets.Counts]) -> Table:
    rows: list[list[Any]] = []
    rng = np.random.default_rng(1)
    for its in here:
        counts, h = rng.permutation(its.counts), dp.Histogram(its.counts)
        for place, k in enumerate(KS[: scale.pick(1, 3, 3)]):
            say(f"Table 2, {its.name}, k = {k}")
            budget: dict[str, Any] = {"k": k, "epsilon": 1.0, "delta": 1 / (2 * its.users)}
            calls: dict[str, Callable[[], Any]] = {
                "EM, plain NumPy": partial(_naive, counts, k, rng),
                "EM (peel on the array)": partial(dp.peel, counts, **budget),
            }
            for times in TIMES:
                name = f"RG, k_bar = {times} k"
                calls[name] = partial(dp.restricted_gumbel, h, k_bar=times * k, **budget)
            ms = medians_ms(calls, repeats=scale.pick(1, 7, 31), warm_up=1)
            printed = TABLE_2.get(its.name)
            said = " / ".join(f"{x:g}" for x in printed[place]) if printed else None
            rows.append([its.name, k, said, *ms.values()])
    names = ("EM, plain NumPy", "EM (peel on the array)", *(f"RG, k_bar = {t} k" for t in TIMES))
    return Table(
        "table2", "Table 2: milliseconds a call",
        ["data", "k", "printed: EM / RG at k_bar = k, 10 k, 50 k", *names], rows,
        ["Times of different machines: not to be compared. RG is timed on a prepared Histogram, as "
         "the paper leaves out the query, too. The machine was shared; medians of calls in turn.",
         "Plain NumPy is Gumbel noise on all counts, then a partition: not safe in floats."],
    )  # fmt: skip


def _naive(counts: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    noisy = counts + rng.gumbel(scale=30.0, size=counts.size)
    top = np.argpartition(noisy, -k)[-k:]
    return top[np.argsort(-noisy[top])]
