"""Which mutants: a seed picks places over all files, as many of each as it has places."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.mutants.sites import Site, sites
from benchmarks.mutants.workspace import ROOT

AREAS = (
    "csrc/*.[ch]", "dptopk/_core.pyx", "dptopk/mechanisms/*.py", "dptopk/accounting/*.py",
    "dptopk/budget/*.py", "dptopk/sources/*.py",
)  # fmt: skip
SKIPPED = ("csrc/cut_neon.c",)  # code of a machine that this one is not


@dataclass(frozen=True)
class Mutant:
    """One token in a file, and what stands there instead."""

    path: str
    line: int
    column: int
    before: str
    after: str
    text: str  #: the whole line, for people

    def apply(self, text: str) -> str:
        """Return the text of the file with the mistake in it."""
        lines = text.split("\n")
        line = lines[self.line - 1]
        end = self.column + len(self.before)
        if line[self.column : end] != self.before:
            raise ValueError(f"{self.path}:{self.line} is not as it was")
        lines[self.line - 1] = line[: self.column] + self.after + line[end:]
        return "\n".join(lines)

    def record(self) -> dict[str, Any]:
        """Return it as a record."""
        return asdict(self)


def places() -> Iterator[tuple[str, str, Site]]:
    """Yield every place of every file, with the file's path and text."""
    for area in AREAS:
        for file in sorted(ROOT.glob(area)):
            path = str(file.relative_to(ROOT))
            if path not in SKIPPED:
                text = file.read_text()
                yield from ((path, text, site) for site in sites(path, text))


def choose(number: int, seed: int) -> list[Mutant]:
    """Return so many different mutants, in an order that is as good as random."""
    rng = random.Random(seed)
    return [mutant(*place, rng) for place in rng.sample(list(places()), number)]


def mutant(path: str, text: str, site: Site, rng: random.Random) -> Mutant:
    """Return one of a place's mutants."""
    begin = text.rfind("\n", 0, site.start) + 1
    before = text[site.start : site.end]
    assert "\n" not in before, "an operator stands on one line"
    line = text[begin : text.find("\n", site.start)].strip()
    after = rng.choice(site.choices)
    return Mutant(path, text.count("\n", 0, begin) + 1, site.start - begin, before, after, line)
