"""The restricted domain: what it returns beside limited_domain and top_stable, and how fast.

The settings of figures 4, 5, 9 and 10 of Carvalho and Wang: k of 10, 50 and 100, k_bar of
k, 10 k and 50 k, delta = 1 / (2 users), 100 trials; every total budget is calibrated by
this library's accounting. The data is research data beside the checkout (or where
DPTOPK_DATA says); without it there are times only.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import rich.table

import dptopk as dp
from benchmarks.data import SHARED, skewed
from benchmarks.row import Row
from benchmarks.timing import medians_ms
from dptopk import metrics, utility

# The .synth files match the published percentiles of the papers' sets, but not their gaps:
# not to be compared with the papers' own figures for top_stable.
SETS = (
    "yelp_tips.synth",
    "foursquare.synth",
    "gowalla_hybrid.synth",
    "epinions.hist",
    "ciao.hist",
    "gowalla_10core.hist",
)
PLATEAU = "plateau"
TRIALS = 100
KS = (10, 50, 100)
TIMES = (1, 10, 50)  # k_bar / k
EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SHOWN = (0.2, 0.6, 1.0)
MECHANISMS: dict[str, Callable[..., dp.Release]] = {
    "RG": dp.restricted_gumbel,
    "LD": dp.limited_domain,
    "TS": dp.top_stable,
}
MEASURES: dict[str, Callable[[set[int], Any, int], float]] = {
    "number returned": lambda picks, counts, k: metrics.number_returned(picks),
    "score ratio": metrics.score_ratio,
    "F1": metrics.f1_score,
}
BUDGET: dict[str, Any] = {"k": 100, "epsilon": 1.0, "delta": 1e-6}
TIMED: dict[str, Callable[..., dp.Release]] = {
    "restricted_gumbel": dp.restricted_gumbel,
    "top_stable": dp.top_stable,
    "restricted_oneshot": dp.restricted_oneshot,
    "restricted_normal": functools.partial(dp.restricted_normal, max_items_per_user=8),
}


class Setting(NamedTuple):
    """A data set, cut, and what is asked of it."""

    name: str
    k: int
    k_bar: int
    epsilon: float


class Result(NamedTuple):
    """Trials of the mechanisms: each measure, by mechanism; and what Theorem 5 asks."""

    measures: dict[str, dict[str, np.ndarray]]
    four_steps: bool  # the tests have 4 steps of limited_domain, and delta_q is large enough
    gap_suffices: bool  # and h_(k_bar) - h_(k_bar+1) is what limited_domain needs


def load(name: str) -> tuple[np.ndarray, int]:
    """Return counts, descending, and the number of users."""
    with np.load(SHARED / f"{name}.npz") as data:
        if "counts" in data:
            return data["counts"].astype(np.int64), int(data["n_users"])
        counts = np.repeat(data["value"], data["multiplicity"]).astype(np.int64)
        return np.sort(counts)[::-1].copy(), int(data["n_users"])


def plateau(k_bar: int, gap: int) -> np.ndarray:
    """Return counts on which Theorem 5 says most: k_bar equal ones, and nothing for a gap."""
    return np.repeat([gap + 9, 9], [k_bar, 50])


def trials(counts: np.ndarray, setting: Setting, delta: float, seed: int) -> Result:
    """Run every mechanism on the same cut counts, as rows of an unknown domain."""
    k, k_bar = setting.k, setting.k_bar
    h = dp.Histogram.truncated(
        counts[:k_bar], range(k_bar), next_count=int(counts[k_bar]), k_bar=k_bar
    )
    rng = dp.SeededRng(seed)
    budget: dict[str, Any] = {"k": k, "epsilon": setting.epsilon, "delta": delta}
    found: dict[str, dict[str, np.ndarray]] = {measure: {} for measure in MEASURES}
    parameters = {}
    for name, mechanism in MECHANISMS.items():
        releases = [mechanism(h, k_bar=k_bar, rng=rng, **budget) for _ in range(TRIALS)]
        parameters[name] = releases[0].parameters
        picks = [set(release.items) for release in releases]
        for measure, function in MEASURES.items():
            found[measure][name] = np.array([function(p, counts[: k_bar + 1], k) for p in picks])
    ours, step = parameters["RG"], parameters["LD"]["epsilon_step"]
    delta_q = math.exp(-ours["threshold"] / ours["scale"])
    four_steps = bool(
        ours["epsilon_tests"] >= 4 * step * (1 - 1e-9) and delta_q >= ours["delta_tests"] ** 2
    )
    needed = utility.limited_domain_gap(k_bar=k_bar, beta=0.5, **budget)
    gap = int(counts[k_bar - 1]) - int(counts[k_bar])
    return Result(found, four_steps, four_steps and gap >= needed)


@functools.cache
def results(quick: bool) -> dict[Setting, Result]:
    """All settings of all data sets that are there, and the plateaus."""
    found: dict[Setting, Result] = {}
    epsilons = SHOWN if quick else EPSILONS
    for seed, name in enumerate(SETS):
        if not (SHARED / f"{name}.npz").exists():
            print(f"framework: no {name}.npz in {SHARED}, left out", file=sys.stderr)
            continue
        counts, users = load(name)
        for k, times, epsilon in itertools.product(KS, TIMES, epsilons):
            setting = Setting(name, k, times * k, epsilon)
            found[setting] = trials(counts, setting, 1 / (2 * users), seed)
    for k, times, epsilon in itertools.product(KS, TIMES, epsilons):
        delta = 1e-6
        gap = math.ceil(
            utility.limited_domain_gap(k=k, k_bar=times * k, epsilon=epsilon, delta=delta, beta=0.5)
        )
        setting = Setting(PLATEAU, k, times * k, epsilon)
        found[setting] = trials(plateau(times * k, gap), setting, delta, seed=len(SETS))
    return found


def tables(quick: bool = False) -> Iterator[rich.table.Table]:
    """Yield a table a measure: means over the trials."""
    for measure in MEASURES:
        names = " / ".join(MECHANISMS)
        table = rich.table.Table(
            "data", "k", "k_bar", *(f"epsilon {epsilon}: {names}" for epsilon in SHOWN)
        )
        table.title = f"{measure}, mean of {TRIALS} trials"
        found = results(quick)
        for name, k, k_bar in dict.fromkeys(setting[:3] for setting in found):
            if name == PLATEAU:
                continue
            cells = []
            for epsilon in SHOWN:
                means = [
                    found[Setting(name, k, k_bar, epsilon)].measures[measure][m].mean()
                    for m in MECHANISMS
                ]
                cells.append(" / ".join(f"{mean:.3g}" for mean in means))
            table.add_row(name.removesuffix(".hist"), str(k), str(k_bar), *cells)
        if table.row_count:
            yield table


def _returns_as_many(result: Result) -> tuple[bool, bool]:
    """Tell whether RG returned as many as LD on average, and whether it certainly didn't."""
    by_name = result.measures["number returned"]
    behind = by_name["LD"].mean() - by_name["RG"].mean()
    error = math.sqrt((by_name["LD"].var() + by_name["RG"].var()) / TRIALS)
    return behind <= 0, behind > 4 * error


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield where RG returns as many as LD, and the times."""
    found = results(quick)
    for label, chosen, target in (
        ("of all settings", list(found.values()), ""),
        ("with 4 steps for the tests", [r for r in found.values() if r.four_steps], "all"),
        ("and the gap of Theorem 5", [r for r in found.values() if r.gap_suffices], "all"),
    ):
        as_many = sum(_returns_as_many(result)[0] for result in chosen)
        certainly_fewer = sum(_returns_as_many(result)[1] for result in chosen)
        yield Row(
            f"RG returns as many as LD on average, {label}: {as_many} of {len(chosen)}; "
            f"fewer by 4 standard errors: {certainly_fewer}",
            math.nan,
            "",
            None,
            as_many / max(1, len(chosen)),
            target,
            (certainly_fewer == 0 and bool(chosen)) if target else None,
        )
    h = dp.Histogram(skewed(1_000_000))
    repeats = 200 if quick else 1000
    for k_bar, limit in ((500, 20.0), (5000, 60.0)):
        calls = {
            name: functools.partial(call, h, k_bar=k_bar, **BUDGET) for name, call in TIMED.items()
        }
        for name, ms in medians_ms(calls, repeats=repeats).items():
            work = f"{name}, k=100, k_bar={k_bar:,}, on a prepared Histogram of 1e6"
            if name in ("restricted_gumbel", "top_stable"):
                yield Row(work, ms, "", None, 1e3 * ms, f"<= {limit:g} us", 1e3 * ms <= limit)
            else:
                yield Row(work, ms, "", None, 1e3 * ms, "", None)
