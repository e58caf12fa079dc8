"""What README and docs quote of the records, between marks: all of it is made here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.paper.speed import speed

Records = dict[str, dict]


def grid(columns: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table in Markdown."""
    head = list(columns)
    lines = ["| " + " | ".join(map(cell, row)) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


def cell(value: Any) -> str:
    """Return what a cell shows."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def made_by(its: dict) -> str:
    """Say which command made a record, where, and with what."""
    machine, versions = its["machine"], its["versions"]
    said = (
        f"`{its['command']}`, seed {its['seed']}, {its['seconds']:.0f} s on "
        f"{machine['processor']}, {machine['cores']} cores "
        f"({machine['simd']}), load {machine['load']:g}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + "."
    )
    return folded(said)


def folded(text: str, lead: str = "") -> str:
    """Break a paragraph into lines of at most 100 characters."""
    lines, line = [], lead
    for word in text.split():
        if len(line) + len(word) > 99:
            lines.append(line.rstrip())
            line = " " * len(lead)
        line += word + " "
    return "\n".join([*lines, line.rstrip()]) + "\n"


def papers(by_name: Records) -> str:
    """Return the sentences of README on the papers."""
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
    return folded("".join(said))


def table_of(record: str) -> Callable[[Records], str]:
    """Return what prints the first table of a record, and how it came about."""

    def make(by_name: Records) -> str:
        its = by_name[record]
        table = its["tables"][0]
        return f"{grid(table['columns'], table['rows'])}\n{made_by(its)}"

    return make


#: By page what stands between the marks of each name.
BY_PAGE: dict[str, dict[str, Callable[[Records], str]]] = {
    "README.md": {
        "docs/experiments": papers,
        "docs/experiments/utility.json": table_of("utility"),
        "docs/experiments/speed.json": lambda by_name: speed(by_name["speed"], grid, folded),
    },
    "docs/choosing.md": {"docs/experiments/plan.json": table_of("plan")},
    "docs/server.md": {"docs/experiments/server.json": table_of("server")},
}


def marks(name: str) -> tuple[str, str]:
    """Return the lines that what is quoted stands between."""
    return f"<!-- from {name}: begin -->\n", f"<!-- from {name}: end -->"


def put(text: str, makers: dict[str, Callable[[Records], str]], by_name: Records) -> str:
    """Return a page with everything anew that it quotes; it must have the marks of all."""
    for name, make in makers.items():
        start, end = marks(name)
        before, rest = text.split(start)
        text = f"{before}{start}{make(by_name)}{end}{rest.split(end)[1]}"
    return text
