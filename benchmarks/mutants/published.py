"""What is kept of a run, docs/mutants.json, and the tables that docs/mutants.md prints of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import PurePath
from typing import Any

from benchmarks.mutants.explained import EXPLAINED
from benchmarks.mutants.workspace import ROOT

LIST, PAGE = ROOT / "docs" / "mutants.json", ROOT / "docs" / "mutants.md"
FIELDS = ("path", "line", "column", "before", "after", "text", "how", "test", "whole")
NOTICED, SURVIVED = ("failed", "crashed", "timeout"), ("passed", "nothing")
AREAS = {"csrc": "`csrc/`", "dptopk": "`dptopk/_core.pyx`"}
WHY = {place: why for why, places in EXPLAINED.items() for place in places}


def place_of(mutant: dict[str, Any]) -> str:
    """Return where a mutant is, as `explained.py` names it."""
    return "{path}:{line}:{column}".format(**mutant)


def write(mutants: list[dict[str, Any]], outcomes: dict[str, dict[str, Any]], about: dict) -> None:
    """Keep every mutant of a list with its outcome, a line each, and rewrite the page's tables."""
    rows = []
    for mutant in mutants:
        its = {"how": "not run", "test": "", "whole": False, **outcomes.get(place_of(mutant), {})}
        its |= mutant
        its["test"] = its["test"].removeprefix("tests/") if its["how"] in NOTICED else ""
        rows.append(json.dumps([its[name] for name in FIELDS]))
    head = json.dumps({**about, "fields": FIELDS}, indent=0)[:-2]
    LIST.write_text(head + ',\n"mutants": [\n' + ",\n".join(sorted(rows)) + "\n]\n}\n")
    PAGE.write_text(page(PAGE.read_text(), load()))


def load() -> list[dict[str, Any]]:
    """Return what is kept."""
    kept = json.loads(LIST.read_text())
    return [dict(zip(kept["fields"], row, strict=True)) for row in kept["mutants"]]


def page(text: str, mutants: list[dict[str, Any]]) -> str:
    """Return the page with these tables in it."""
    for name, table in {"counts": counts(mutants), "survivors": survivors(mutants)}.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        text, found = re.subn(
            f"(?<={begin}).*?(?={end})", table.replace("\\", r"\\"), text, flags=re.S
        )
        assert found == 1, f"the page has no place for {name}"
    return text


def counts(mutants: list[dict[str, Any]]) -> str:
    """Return how many of each area were noticed."""
    by_area: dict[str, Counter[str]] = {}
    for m in mutants:
        folder = str(PurePath(m["path"]).parent)
        kind = "noticed" if m["how"] in NOTICED else m["how"]
        kind = "survived" if m["how"] in SURVIVED else kind
        by_area.setdefault(AREAS.get(folder, f"`{folder}/`"), Counter())[kind] += 1
    by_area = {**dict(sorted(by_area.items())), "all": sum(by_area.values(), Counter())}
    columns = ("noticed", "survived", "no program", "not run")
    lines = ["| area | chosen | noticed | survived | no program | not run |", "|---|" + "---|" * 5]
    for area, each in by_area.items():
        cells = [str(each[column]) for column in columns]
        lines.append(f"| {area} | {each.total()} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def survivors(mutants: list[dict[str, Any]]) -> str:
    """Return those that nothing noticed, by the reason why not."""
    by_why: dict[str, list[str]] = {}
    for m in mutants:
        if m["how"] in SURVIVED:
            name = str(PurePath(m["path"].removeprefix("dptopk/")))
            after = f"`{m['after']}`" if m["after"] else "nothing"
            what = f"`{name}:{m['line']}` `{m['before']}` to {after}".replace("|", "\\|")
            by_why.setdefault(WHY.get(place_of(m), "not explained yet"), []).append(what)
    lines = ["| mutants | why nothing can notice |", "|---|---|"]
    lines += [f"| {'; '.join(places)} | {why} |" for why, places in sorted(by_why.items())]
    return "\n".join(lines) + "\n"
