"""``python -m benchmarks publish [NAME...] [--quick]``: all that the docs print, measured anew.

Without names every table and plot: the papers' experiments (``paper`` runs these alone), the
other libraries, and what README and docs say of speed, recall, plans and the server. A full run
writes docs/experiments/NAME.json, then draws every plot and page from the records; ``page``
does that alone. A quick run prints its tables, and writes only where --out says. Stopped by
Ctrl-C, it leaves what was done before.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import rich.console
import rich.table

from benchmarks.bench_figures import draw
from benchmarks.paper import page, quotes, record
from benchmarks.paper.record import Scale

NAMES = {name: f"benchmarks.paper.{name.replace('-', '_')}" for name in page.ORDER}
OTHERS = {
    "peers": "benchmarks.peers.command",
    **{name: f"benchmarks.bench_{name}" for name in ("speed", "utility", "plan", "server")},
}
SEED = 0  # every draw has a fixed seed of its own; this names the set of them


def main(arguments: list[str], *, papers: bool = False) -> int:
    """Run the command; of the papers' experiments alone, if it says so."""
    known = NAMES if papers else NAMES | OTHERS
    prog = f"python -m benchmarks {'paper' if papers else 'publish'}"
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}, page")
    parser.add_argument("--quick", action="store_true", help="few trials: minutes in all")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write the records")
    args = parser.parse_args(arguments)
    unknown = set(args.names) - set(known) - {"page"}
    if unknown:
        parser.error(f"nothing is named {sorted(unknown)[0]}")
    scale = Scale("quick" if args.quick else "full")
    names = [name for name in args.names or known if name != "page"]
    folder = args.out or (None if args.quick else page.RECORDS)
    try:
        for name in names:
            runner = importlib.import_module(known[name]).run
            run_one(name, runner, scale, folder, command=command_of(name))
        if "page" in args.names or (folder == page.RECORDS and names):
            rebuild()
    except KeyboardInterrupt:
        print("stopped; what was done before is kept", file=sys.stderr)
        return 130
    return 0


def command_of(name: str) -> str:
    """Return the words that run it, behind ``python -m benchmarks``."""
    if name in NAMES:
        return f"paper {name}"
    return name if name == "peers" else f"publish {name}"


def run_one(
    name: str,
    runner: Callable[[Scale, Callable[[str], None]], record.Result],
    scale: Scale,
    folder: Path | None,
    *,
    command: str,
) -> dict:
    """Run one, print its tables, and write its record."""
    started = time.perf_counter()
    with _saying(name) as say:
        result = runner(scale, say)
    seconds = time.perf_counter() - started
    words = f"python -m benchmarks {command}" + (" --quick" if scale.name == "quick" else "")
    made = record.recorded(name, result, command=words, seed=SEED, seconds=seconds)
    show(made)
    print(f"{name}: {seconds:.0f} s", file=sys.stderr)
    if folder is not None:
        print(f"wrote {record.write(folder, made)}", file=sys.stderr)
    return made


def rebuild() -> None:
    """Draw every plot and page of the published records, and the plots of docs/pictures.md."""
    for path in [*page.rebuild(page.load()), *draw()]:
        print(f"wrote {path.relative_to(page.ROOT)}", file=sys.stderr)


def show(made: dict) -> None:
    """Print the tables and remarks."""
    console = rich.console.Console(width=160, soft_wrap=False)
    for its in made["tables"]:
        table = rich.table.Table(*map(str, its["columns"]), title=its["title"])
        for row in its["rows"]:
            table.add_row(*map(quotes.cell, row))
        console.print(table, *its["notes"], sep="\n", markup=False)
    for remark in made["remarks"]:
        console.print(f"- {remark}", markup=False)
    if made["absent"]:
        console.print("not here, left out:", ", ".join(made["absent"]), markup=False)


@contextmanager
def _saying(name: str) -> Iterator[Callable[[str], None]]:
    """Show on stderr what is run now, if it is a terminal."""
    console = rich.console.Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status(name) as status:
        yield lambda text: status.update(f"{name}: {text}")
