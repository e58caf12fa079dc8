"""How much of the true top k each mechanism finds, from rows of events, at the same total.

Recall, score ratio and number returned of every mechanism and of what papers offer, by
data set, domain, epsilon and k. Users are cut to the items that a mechanism allows
them, so that this counts as loss. Not in the run without names: it takes minutes.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rich.table

import dptopk as dp
from benchmarks.contenders import REGIMES, Contender, auto_of, contenders, draw_of, settings
from benchmarks.events import SETS, Events, load
from benchmarks.paper.record import Result, Scale, Table
from benchmarks.row import Row

PRINTED = ((1.0, 10), (1.0, 100))  # epsilon and k of README
PRINTED_TOO = (REGIMES[0].name, 4.0, 500)
MEASURES = ("recall", "score_ratio", "returned")
TRIALS = 20
SHORT = {"limited_domain": "limited", "restricted_gumbel": "restricted", "permute_and_flip": "flip"}
SLOW = ("joint", "canonical", "permute_and_flip", "two_stages")  # fewer trials of these
# What is asked of `auto`, and which of our mechanisms could do it.
ASKED: dict[str, tuple[dict[str, Any], Callable[[Contender], bool]]] = {
    "auto": ({"ordered": True}, lambda c: c.ordered),
    "auto, a set": ({"ordered": False}, lambda c: True),
    "auto, counts": ({"ordered": True, "counts": True}, lambda c: c.ordered and c.counts),
}


class Cell(NamedTuple):
    """One mechanism in one setting: means over the trials, and standard errors."""

    data: str
    regime: str
    epsilon: float
    k: int
    name: str
    ours: bool
    ordered: bool
    counts: bool
    recall: float
    score_ratio: float
    returned: float
    recall_error: float
    score_ratio_error: float
    returned_error: float
    halves: tuple[float, float]  # recall in either half of the trials
    chosen: str  # what `auto` runs


def saidof(name: str, quick: bool, full: bool) -> list[Cell] | None:
    """Run all of one data set; None if it is not here."""
    events = load(name)
    if events is None:
        return None
    found = []
    for regime in REGIMES:
        for epsilon, k in settings(quick):
            runs = list(contenders(regime, k))
            for asked, (options, _) in ASKED.items():
                runs.append(auto_of(regime, k, epsilon, **options)._replace(name=asked))
            for contender in runs:
                draw = draw_of(events, contender, regime, k, epsilon)
                if draw is None:
                    continue
                trials = TRIALS // 2 if contender.mechanism in SLOW else TRIALS
                measured = measure(events, draw, k, 10 * trials if full else trials)
                found.append(Cell(name, regime.name, epsilon, k, **_summary(contender, measured)))
    return found


def _summary(contender: Contender, measured: np.ndarray) -> dict[str, Any]:
    errors = np.std(measured, axis=0, ddof=1) / math.sqrt(len(measured))
    half = len(measured) // 2
    return {
        **{name: getattr(contender, name) for name in ("name", "ours", "ordered", "counts")},
        **dict(zip(MEASURES, np.mean(measured, axis=0).tolist(), strict=True)),
        **{f"{name}_error": x for name, x in zip(MEASURES, errors.tolist(), strict=True)},
        "halves": (float(measured[:half, 0].mean()), float(measured[half:, 0].mean())),
        "chosen": contender.mechanism if contender.name in ASKED else "",
    }


def measure(events: Events, draw: Callable[[Any], Any], k: int, trials: int) -> np.ndarray:
    """Return a row of measures a trial, on the same random bits in every run."""
    of_top, best = events.true_top(k), events.counts[events.order[:k]].sum()
    rng = dp.SeededRng(11)
    rows = []
    for _ in range(trials):
        picks = np.asarray(draw(rng), np.int64)
        rows.append((of_top[picks].sum() / k, events.counts[picks].sum() / best, picks.size))
    return np.array(rows, float)


@cache
def cells(quick: bool, full: bool) -> tuple[Cell, ...]:
    """Run all data sets, two at a time."""
    with ProcessPoolExecutor(2) as pool:
        found = pool.map(saidof, SETS, [quick] * len(SETS), [full] * len(SETS))
        by_set = dict(zip(SETS, found, strict=True))
    absent = [name for name, its in by_set.items() if its is None]
    if absent:
        print(f"utility: not here, left out: {', '.join(absent)}", file=sys.stderr)
    return tuple(cell for its in by_set.values() for cell in its or ())


class Setting(NamedTuple):
    """What is asked of all contenders alike."""

    data: str
    regime: str
    epsilon: float
    k: int


def by_setting(found: tuple[Cell, ...]) -> dict[Setting, list[Cell]]:
    """Group the cells."""
    groups: dict[Setting, list[Cell]] = {}
    for cell in found:
        groups.setdefault(Setting(*cell[:4]), []).append(cell)
    return groups


def best_of(cells: list[Cell]) -> float:
    """Return the recall of the best: chosen by one half of its trials, measured on the other.

    The largest of many noisy means would be too large.
    """
    return sum(max(cells, key=lambda c: c.halves[half]).halves[1 - half] for half in (0, 1)) / 2


def ours_of(cells: list[Cell], asked: str) -> list[Cell]:
    """Return our mechanisms that can do what is asked."""
    could = ASKED[asked][1]
    return [cell for cell in cells if cell.ours and cell.name not in ASKED and could(cell)]  # type: ignore[arg-type]


def run(scale: Scale, say: Callable[[str], None]) -> Result:
    """Run all; what README prints of it, and every setting."""
    say("all sets")
    found = cells(scale.name != "full", False)
    sets = sorted({cell.data for cell in found})
    groups = by_setting(found)
    rows, short = [], []
    for _, regime, epsilon, k in dict.fromkeys(key._replace(data="") for key in groups):
        alike = [groups[Setting(name, regime, epsilon, k)] for name in sets]
        plain, chosen = _plain(regime, k), _chosen(alike[0])
        means = [
            sum(values) / len(values)
            for values in (
                [best_of([c for c in one if not c.ours]) for one in alike],
                [best_of(ours_of(one, "auto, a set")) for one in alike],
                [next(c.recall for c in one if c.name == plain) for one in alike],
                [next(c.recall for c in one if c.name == "auto") for one in alike],
            )
        ]
        where = [regime.removesuffix(" domain").replace(" domain", ""), f"{epsilon:g}", k]
        rows.append([*where, *(f"{mean:.3f}" for mean in means), chosen])
        if (epsilon, k) in PRINTED or (regime, epsilon, k) == PRINTED_TOO:
            said = [f"{mean:.2f}" for mean in means]
            said[2] += f" (`{plain.split()[0]}`)"
            said[3] += f" (`{chosen}`)"
            short.append([*where, *said])
    columns = ["domain", "epsilon", "k", "the best of the papers", "the best of ours",
               "the default", "`--mechanism auto`"]  # fmt: skip
    return Result(
        f"Mean recall over {', '.join(sets)}",
        "Measured",
        [
            Table("readme", "Mean recall", columns, short),
            Table("all", "Mean recall in every setting", [*columns, "it runs"], rows),
        ],
        absent=[name for name in SETS if name not in sets],
    )


def _plain(regime: str, k: int) -> str:
    """Return who runs where nobody names a mechanism."""
    return f"limited_domain (k_bar {max(10 * k, 1000)})" if regime == REGIMES[0].name else "peel"


def _chosen(cells: list[Cell]) -> str:
    return next(cell.chosen for cell in cells if cell.name == "auto")


def tables(
    quick: bool = False, *, full: bool = False, keep: str | None = None
) -> Iterator[rich.table.Table]:
    """Yield recall, the mean over the data sets, by domain, epsilon and k; keep all as JSON."""
    found = cells(quick, full)
    if keep is not None:
        Path(keep).write_text(json.dumps([cell._asdict() for cell in found], indent=0) + "\n")
    sets = sorted({cell.data for cell in found})
    groups = by_setting(found)
    table = rich.table.Table(
        "domain", "epsilon", "k", "papers", "their best", "our best", "auto", "error",
        "it runs", "auto, a set", "it runs", "auto, counts", "it runs",
        title=f"mean recall over {', '.join(sets)}",
    )  # fmt: skip
    for _, regime, epsilon, k in dict.fromkeys(key._replace(data="") for key in groups):
        alike = [groups[Setting(name, regime, epsilon, k)] for name in sets]
        papers = [[cell for cell in one if not cell.ours] for one in alike]
        row = [_mean([best_of(one) for one in papers])]
        row.append(_most_often([max(one, key=lambda c: c.recall).name for one in papers]))
        row.append(_mean([best_of(ours_of(one, "auto, a set")) for one in alike]))
        for asked in ASKED:
            autos = [next(cell for cell in one if cell.name == asked) for one in alike]
            row.append(_mean([cell.recall for cell in autos]))
            if asked == "auto":
                squares = sum(cell.recall_error**2 for cell in autos)
                row.append(f"{math.sqrt(squares) / len(autos):.3f}")
            row.append(SHORT.get(autos[0].chosen, autos[0].chosen))
        table.add_row(regime, f"{epsilon:g}", str(k), *row)
    yield table


def _mean(values: list[float]) -> str:
    return f"{sum(values) / len(values):.3f}"


def _most_often(names: list[str]) -> str:
    return max(dict.fromkeys(names), key=names.count)


def rows(quick: bool = False, *, full: bool = False) -> Iterator[Row]:
    """Yield how often we are no worse than the papers; `plan` says how well `auto` chooses."""
    as_good = [_as_good(its) for its in by_setting(cells(quick, full)).values()]
    work = "ours no worse than the papers' best, within 2 standard errors"
    share = sum(as_good) / len(as_good)
    yield Row(f"{work}: {sum(as_good)} of {len(as_good)}", math.nan, "", None, share, "", None)


def _as_good(cells: list[Cell]) -> bool:
    ours = max(ours_of(cells, "auto, a set"), key=lambda c: c.recall)
    theirs = max((cell for cell in cells if not cell.ours), key=lambda c: c.recall)
    error = math.hypot(ours.recall_error, theirs.recall_error)
    return ours.recall >= theirs.recall - 2 * error
