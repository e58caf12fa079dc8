"""docs/experiments.md, docs/peers.md and what README quotes: made of the records alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.paper import charts, quotes, record
from benchmarks.paper.quotes import folded, grid, made_by

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


def pages(records: list[dict]) -> dict[Path, str]:
    """Return every page with its text."""
    by_name = {its["name"]: its for its in records}
    papers = [by_name[name] for name in ORDER if name in by_name]
    found = {ROOT / "docs" / "experiments.md": HEAD + "".join(map(section, papers))}
    if "peers" in by_name:
        found[ROOT / "docs" / "peers.md"] = PEERS_HEAD + section(by_name["peers"])
    for name, makers in quotes.BY_PAGE.items():
        path = ROOT / name
        found[path] = quotes.put(path.read_text(), makers, by_name)
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
    parts += [folded(remark, "- ") for remark in its["remarks"]]
    parts.append("" if not its["remarks"] else "\n")
    for figure in its["figures"]:
        name = charts.name_of(its, figure)
        parts.append(f"![{figure['title']}](figures/{name})\n\n")
    parts += [table(one) for one in its["tables"]]
    if its["absent"]:
        parts.append(folded(f"Not here, left out: {', '.join(its['absent'])}.") + "\n")
    return "".join(
        part if part.endswith("\n") else part + "\n" for part in parts if part
    ) + made_by(its)


def table(its: dict) -> str:
    """Return a table, its title above and its notes below."""
    notes = "".join(folded(note) for note in its["notes"])
    title = its["title"].replace("*", "\\*")
    return f"**{title}**\n\n{grid(its['columns'], its['rows'])}\n" + (notes + "\n" if notes else "")


def paths(records: Iterable[dict]) -> list[Path]:
    """Return the figures there must be."""
    return [FIGURES / charts.name_of(its, fig) for its in records for fig in its["figures"]]


def load() -> list[dict]:
    """Return the published records."""
    return record.read(RECORDS)
