"""docs/experiments.md, docs/peers.md and what README quotes: made of the records alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.paper import charts, record

ROOT = Path(__file__).parents[2]
RECORDS, FIGURES = ROOT / "docs" / "experiments", ROOT / "docs" / "figures"
ORDER = ("limited-domain", "joint", "top-stable", "framework", "oneshot", "ranking")
HEAD = """# The papers' experiments, and ours beside them

`python -m benchmarks paper` rebuilds every table and plot here from the data, and this page from
the records in `docs/experiments/`. One name after it runs one experiment, `--quick` all in minutes;
`python -m benchmarks paper page` draws page and plots anew from the records. Research data is
read from beside the checkout, or where `DPTOPK_DATA` says, and what is not there is left out.

**What may be compared.** A set with * is a synthetic stand-in: it has the published number of items
and percentiles of the paper's set, but not the gaps between its counts. What rests on gaps must not
be compared with print. Sets without * are real; the papers print nothing on them but for MovieLens
100k. All releases here were drawn from a `SeededRng`: none is private.
"""
PEERS_HEAD = """# Other libraries, in one run

`python -m benchmarks peers` runs all of this; nothing here was read off a manual.
"""
START, END = "<!-- from docs/experiments: begin -->", "<!-- from docs/experiments: end -->"


def pages(records: list[dict]) -> dict[Path, str]:
    """Return every page with its text."""
    by_name = {its["name"]: its for its in records}
    papers = [by_name[name] for name in ORDER if name in by_name]
    found = {ROOT / "docs" / "experiments.md": HEAD + "".join(map(section, papers))}
    if "peers" in by_name:
        found[ROOT / "docs" / "peers.md"] = PEERS_HEAD + section(by_name["peers"])
    readme = ROOT / "README.md"
    text = readme.read_text()
    if START in text:
        before, rest = text.split(START)
        found[readme] = f"{before}{START}\n{quoted(by_name)}{END}{rest.split(END)[1]}"
    return found


def rebuild(records: list[dict]) -> Iterator[Path]:
    """Draw every figure and write every page."""
    for its in records:
        for figure in its["figures"]:
            yield charts.draw(its, figure, FIGURES)
    for path, text in pages(records).items():
        path.write_text(text)
        yield path


def section(its: dict) -> str:
    """Return one experiment as Markdown."""
    parts = [f"\n## {its['title']}\n", f"{its['source']}.\n\n"]
    parts += [_folded(remark, "- ") for remark in its["remarks"]]
    parts.append("" if not its["remarks"] else "\n")
    for figure in its["figures"]:
        name = charts.name_of(its, figure)
        parts.append(f"![{figure['title']}](figures/{name})\n\n")
    parts += [table(one) for one in its["tables"]]
    if its["absent"]:
        parts.append(_folded(f"Not here, left out: {', '.join(its['absent'])}.") + "\n")
    return "".join(part if part.endswith("\n") else part + "\n" for part in parts if part) + _by(
        its
    )


def table(its: dict) -> str:
    """Return a table, its title above and its notes below."""
    rows = [its["columns"], ["---"] * len(its["columns"]), *its["rows"]]
    lines = ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    notes = "".join(_folded(note) for note in its["notes"])
    title = its["title"].replace("*", "\\*")
    return f"**{title}**\n\n" + "\n".join(lines) + "\n\n" + (notes + "\n" if notes else "")


def cell(value: Any) -> str:
    """Return what a cell shows."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def quoted(by_name: dict[str, dict]) -> str:
    """Return the sentences of README, with their numbers."""
    facts = {name: its["facts"] for name, its in by_name.items()}
    said = [
        "**The papers' experiments** were run again, printed numbers beside ours, in "
        "[docs/experiments.md](docs/experiments.md)",
        f": a total of (1, 1e-6) affords {facts['limited-domain']['adaptive_gain']:.2f} times the "
        "epsilon a step of the bound that limited domain came with, at k = 1,000.",
    ]
    top = facts.get("top-stable", {})
    if top:
        said.append(
            f" On counts with Gowalla's head it finds {top['ld_lowest']:.2f} of the top 50 at "
            f"epsilon 1, where 0.45 was printed: the code behind that number prefers the highest "
            f"threshold, which gives {top['ld_highest']:.2f}."
        )
    if "peers" in by_name:
        said.append(" [docs/peers.md](docs/peers.md) does the same with other libraries.")
    return _folded("".join(said))


def _by(its: dict) -> str:
    machine, versions = its["machine"], its["versions"]
    said = (
        f"`{its['command']}`, seed {its['seed']}, {its['seconds']:.0f} s on "
        f"{machine['processor']}, {machine['cores']} cores "
        f"({machine['simd']}), load {machine['load']:g}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + "."
    )
    return _folded(said)


def _folded(text: str, lead: str = "") -> str:
    """Break a paragraph into lines of at most 100 characters."""
    lines, line = [], lead
    for word in text.split():
        if len(line) + len(word) > 99:
            lines.append(line.rstrip())
            line = " " * len(lead)
        line += word + " "
    return "\n".join([*lines, line.rstrip()]) + "\n"


def paths(records: Iterable[dict]) -> list[Path]:
    """Return the figures there must be."""
    return [FIGURES / charts.name_of(its, fig) for its in records for fig in its["figures"]]


def load() -> list[dict]:
    """Return the published records."""
    return record.read(RECORDS)
