"""How near the choices of `plan` and `auto` come to an exhaustive search with the data in hand.

For every data set, guarantee, epsilon and k all candidates are drawn on the data itself; the
best by one half of the trials counts by the other half. Against it stand the choices that
public facts allow: those of `auto`, of a plan on the default shapes, on another data set, and
on other people of the same source (half of the users, where the other half is the data).
The last line is what no choice without the data can do better: the one call for all
data sets that is near most often, picked in hindsight. Not in the run without names.
"""

from __future__ import annotations

import itertools
import json
import math
import platform
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rich.table

from benchmarks.contenders import REGIMES, Regime, settings
from benchmarks.events import SETS, load
from benchmarks.paper.record import Result, Scale, Table
from benchmarks.row import Row
from dptopk.errors import DptopkError
from dptopk.mechanisms.table import MECHANISMS
from dptopk.planning import Shape, choose, default_shapes
from dptopk.planning.candidates import Asked, Candidate, candidates
from dptopk.planning.measured import measure

TOLERANCE = 0.02
TRIALS = 60
FEWER = {"joint": 8, "permute_and_flip": 2}  # whose draws take long
ASKED: dict[str, dict[str, bool]] = {
    "in order": {"ordered": True},
    "a set": {"ordered": False},
    "with counts": {"ordered": True, "counts": True},
}
# The default shapes were picked among some with the figures of these sets in view: out of sample
# are the choices on another data set, and on half of its users.


class Found(NamedTuple):
    """Recall of a candidate: in all trials, and in either half of them; and its score ratio."""

    recall: float
    halves: tuple[float, float]
    score_ratio: float


Cell = tuple[Regime, float, int]
Drawn = dict[str, Found]


def key_of(candidate: Candidate) -> str:
    return f"{candidate.mechanism} {json.dumps(candidate.options)}"


def draws(shape: Shape, candidate: Candidate, cell: Cell, trials: int, seed: int) -> Found | None:
    """Draw a candidate on a shape; None where it refuses."""
    regime, epsilon, k = cell
    size = max(4, trials // FEWER.get(candidate.mechanism, 1))
    call: dict[str, Any] = {"k": k, "epsilon": epsilon, "delta": regime.delta}
    try:
        its = measure(
            shape, candidate.mechanism, candidate.options, **call, known=regime.known,
            trials=size, seed=seed,
        )  # fmt: skip
    except (ValueError, DptopkError):
        return None
    halves = float(its.recall[::2].mean()), float(its.recall[1::2].mean())
    return Found(float(its.recall.mean()), halves, float(its.score_ratio.mean()))


def everything(shapes: dict[str, Shape], cell: Cell, trials: int, seed: int) -> dict[str, Drawn]:
    """Draw every candidate on each shape."""
    regime, epsilon, k = cell
    asked = Asked(k, epsilon, regime.delta, regime.known, ordered=False)
    tables: dict[str, Drawn] = {name: {} for name in shapes}
    for candidate in candidates(asked):
        for name, shape in shapes.items():
            found = draws(shape, candidate, cell, trials, seed)
            if found is not None:
                tables[name][key_of(candidate)] = found
    return tables


def allowed(key: str, asked: dict[str, bool]) -> bool:
    """Tell whether a candidate could do what is asked."""
    its = MECHANISMS[key.split()[0]]
    if asked["ordered"] and its.order != "ordered":
        return False
    return not (asked.get("counts", False) and its.weights)


def first(tables: list[Drawn], asked: dict[str, bool]) -> str:
    """Return what `plan` ranks first by these trials: by mean recall, then by score ratio."""
    keys = [key for key in tables[0] if all(key in table for table in tables)]

    def merit(key: str) -> tuple[float, float]:
        found = [table[key] for table in tables]
        mean = sum(its.recall for its in found) / len(found)
        return round(mean, 3), sum(its.score_ratio for its in found)

    return max((key for key in keys if allowed(key, asked)), key=merit)


def best_of(table: Drawn, asked: dict[str, bool]) -> float:
    """Return the best recall: picked by one half of the trials, measured on the other."""
    fit = [found for key, found in table.items() if allowed(key, asked)]
    return sum(max(fit, key=lambda f: f.halves[i]).halves[1 - i] for i in (0, 1)) / 2


class Choice(NamedTuple):
    """A choice by public facts, what it finds, and what the best finds."""

    data: str
    regime: str
    epsilon: float
    k: int
    asked: str
    like: str
    chosen: str
    recall: float
    best: float

    @property
    def near(self) -> bool:
        return self.recall >= self.best - TOLERANCE


def halved(name: str) -> tuple[Shape, Shape, Shape] | None:
    """Return a data set, and either half of its users."""
    events = load(name)
    if events is None:
        return None
    side = np.random.default_rng(5).random(int(events.users.max()) + 1) < 0.5
    parts = []
    for which in (side, ~side):
        kept = which[events.users]
        parts.append(Shape.from_pairs(events.users[kept], events.items[kept], name=name))
    return Shape.from_pairs(events.users, events.items, name=name), parts[0], parts[1]


@cache
def choices(quick: bool, full: bool) -> tuple[Choice, ...]:
    """Make every choice, and measure it."""
    found = {name: halved(name) for name in SETS}
    absent = [name for name, shapes in found.items() if shapes is None]
    if absent:
        print(f"plan: not here, left out: {', '.join(absent)}", file=sys.stderr)
    sets = {name: shapes for name, shapes in found.items() if shapes is not None}
    trials = TRIALS * (5 if full else 1)
    made: list[Choice] = []
    for regime, (epsilon, k) in itertools.product(REGIMES, settings(quick)):
        made += of_cell(sets, (regime, epsilon, k), trials)
    return tuple(made)


def of_cell(sets: dict[str, Any], cell: Cell, trials: int) -> Iterator[Choice]:
    """Yield the choices of one setting."""
    regime, epsilon, k = cell
    whole = everything({name: its[0] for name, its in sets.items()}, cell, trials, 1)
    public = everything({name: its[1] for name, its in sets.items()}, cell, trials, 2)
    private = everything({name: its[2] for name, its in sets.items()}, cell, trials, 3)
    shapes = {
        sized: everything({s.name: s for s in default_shapes(sets=sized)}, cell, trials, 4)
        for sized in (False, True)
    }
    for asked, options in ASKED.items():

        def choice(data: str, like: str, chosen: str, table: Drawn, recall: float) -> Choice:
            best = best_of(table, options)  # noqa: B023
            where = data, regime.name, epsilon, k, asked, like  # noqa: B023
            return Choice(*where, chosen, recall, best)

        auto = choose(
            k=k, epsilon=epsilon, delta=regime.delta, known_domain=regime.known, **options
        )
        ran = Candidate(auto.mechanism, auto.options)
        default = first(list(shapes[not options["ordered"]].values()), options)
        keys = [key for key in next(iter(whole.values())) if allowed(key, options)]
        bests = {data: best_of(whole[data], options) for data in sets}

        def near(key: str) -> int:
            return sum(
                key in whole[data] and whole[data][key].recall >= bests[data] - TOLERANCE  # noqa: B023
                for data in sets
            )

        hindsight = max(keys, key=near)
        for data, its in sets.items():
            table = whole[data]
            drawn = table.get(key_of(ran)) or draws(its[0], ran, cell, trials, 1)
            assert drawn is not None
            yield choice(data, "nothing: auto", key_of(ran), table, drawn.recall)
            yield choice(data, "nothing: plan", default, table, table[default].recall)
            for other in sets:
                if other != data:
                    key = first([whole[other]], options)
                    recall = table[key].recall if key in table else 0.0
                    yield choice(data, "another data set", key, table, recall)
            key = first([public[data]], options)
            yield choice(data, "half of its users", key, private[data], private[data][key].recall)
            recall = table[hindsight].recall if hindsight in table else 0.0
            yield choice(data, "in hindsight", hindsight, table, recall)


LIKES = {
    "nothing: auto": "the default shapes: `auto`",
    "nothing: plan": "the default shapes: `plan`",
    "another data set": "another of the data sets",
    "half of its users": "other people of the same source",
    "in hindsight": "in hindsight: the best that needs no data",
}


def run(scale: Scale, say: Callable[[str], None]) -> Result:
    """Make every choice; by what it was made on, and by kind of guarantee."""
    say("choices")
    made = choices(scale.name != "full", False)
    return Result(
        f"Choices within {TOLERANCE} recall of an exhaustive search",
        "Measured",
        list(shares(made)),
        absent=[name for name in SETS if name not in {c.data for c in made}],
    )


def shares(made: tuple[Choice, ...]) -> Iterator[Table]:
    """Yield how many choices are near: in all, and by kind of guarantee."""
    likes = {like: said for like, said in LIKES.items() if _of(made, {"like": like})}
    rows: list[list[str]] = []
    for like, said in likes.items():
        of_each = [_share(made, like=like, asked=asked) for asked in ASKED]
        rows.append([said, *of_each, _share(made, like=like), _loss(made, like=like)])
    columns = ["the plan is made on", *ASKED, "all", "mean loss"]
    yield Table("plan", "Near choices", columns, rows)
    rows = []
    for like, asked in itertools.product(likes, ASKED):
        its = {"like": like, "asked": asked}
        of_each = [_share(made, **its, regime=regime.name) for regime in REGIMES]
        rows.append([likes[like], asked, *of_each, _loss(made, **its)])
    columns = ["the plan is made on", "asked", *(r.name for r in REGIMES), "mean loss"]
    yield Table("guarantees", "Near choices by guarantee", columns, rows)


def _share(made: tuple[Choice, ...], **where: str) -> str:
    near = [choice.near for choice in _of(made, where)]
    return f"{sum(near):,} of {len(near):,} ({sum(near) / len(near):.2f})"


def _loss(made: tuple[Choice, ...], **where: str) -> str:
    losses = [max(0.0, choice.best - choice.recall) for choice in _of(made, where)]
    return f"{sum(losses) / len(losses):.3f}"


def _of(made: tuple[Choice, ...], where: dict[str, str]) -> list[Choice]:
    return [c for c in made if all(getattr(c, name) == its for name, its in where.items())]


def tables(
    quick: bool = False, *, full: bool = False, keep: str | None = None
) -> Iterator[rich.table.Table]:
    """Yield the shares of near choices by domain; keep all as JSON."""
    made = choices(quick, full)
    if keep is not None:
        about = {"command": " ".join(["python -m benchmarks", *sys.argv[1:]])}
        about["machine"] = f"{platform.machine()}, Python {platform.python_version()}"
        rows = [choice._asdict() for choice in made]
        Path(keep).write_text(json.dumps({**about, "choices": rows}, indent=0) + "\n")
    for its in shares(made):
        table = rich.table.Table(*its.columns, title=its.title)
        for row in its.rows:
            table.add_row(*map(str, row))
        yield table


def rows(quick: bool = False, *, full: bool = False) -> Iterator[Row]:
    """Yield how often each choice is near the best."""
    made = choices(quick, full)
    for asked, like in dict.fromkeys((choice.asked, choice.like) for choice in made):
        near = [c.near for c in made if (c.asked, c.like) == (asked, like)]
        share, target = sum(near) / len(near), None if like == "in hindsight" else 0.9
        yield Row(
            f"plan, {asked}, like {like}: {sum(near)} of {len(near)}", math.nan, "", None, share,
            "" if target is None else f">= {target:g}", None if target is None else share >= target,
        )  # fmt: skip
