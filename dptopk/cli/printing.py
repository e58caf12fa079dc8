"""What all commands share: refusals, tables and JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from dptopk._show import plain, printable

__all__ = [
    "CONFIDENCE",
    "Measures",
    "Refused",
    "bars",
    "plain",
    "print_json",
    "print_release",
    "printable",
    "refusing",
    "tables",
    "version",
]

CONFIDENCE = 0.95  # of the intervals of noisy counts
#: Arguments of the library whose options have the same names, but for the hyphens.
_NAMES = re.compile(
    r"\b(k_bar|k_star|max_items_per_user|max_groups_per_user|max_comparisons_per_item|"
    r"comparisons_per_pair|min_events|min_users|soft_cap|epsilon_step|delta_split|"
    r"memory_limit|temp_directory)\b"
)
CELLS = 30  # of the longest bar


class Refused(Exception):
    """Bad input, with the line to print."""


@contextmanager
def refusing() -> Iterator[None]:
    """Let the library's own refusals of parameters be the line to print.

    Used only where no data has been read: past that a ValueError is not one of
    ours, might quote data, and becomes an internal error.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        raise Refused(
            _NAMES.sub(lambda name: "--" + name[0].replace("_", "-"), str(error))
        ) from None
    except MemoryError:
        raise Refused("k or k_bar is too large for the memory of this machine") from None


def version() -> str:
    """Return the package's version."""
    from dptopk import __version__

    return __version__


def tables() -> Any:
    """Return a console on stdout and an empty table."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        raise Refused("tables need rich: pip install 'dptopk[files]', or use --json") from None
    # A pipe has no width: let no label be folded there.
    width = None if sys.stdout.isatty() else 10_000
    console = Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)
    return console, Table(box=box.SIMPLE_HEAD)


def print_json(value: Any) -> None:
    """Print one line of JSON."""
    print(json.dumps(value, allow_nan=False))


class Measures(NamedTuple):
    """Noisy numbers of the items picked, with intervals, as they are to be shown.

    Attributes
    ----------
    name : str
        What they are called in JSON.
    title : str
        The head of their column.
    values, intervals : list
        One for each item; an interval is a pair.
    form : str
        A format specification for each number.
    """

    name: str
    title: str
    values: list[Any]
    intervals: list[list[Any]]
    form: str


def bars(intervals: list[list[Any]]) -> list[str]:
    """Return a bar for each interval: full up to its lowest number, light up to its highest."""
    full, light = "█░"
    try:
        (full + light).encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        full, light = "#-"
    most = max((high for _, high in intervals), default=0) or 1
    cells = [[max(0, round(CELLS * end / most)) for end in pair] for pair in intervals]
    return [full * low + light * (high - low) for low, high in cells]


def print_release(
    release: Any,
    args: Any,
    *,
    measures: Measures | None,
    unit: str,
    more: Mapping[str, Any],
    before: Iterable[str] = (),
    after: Iterable[str] = (),
) -> None:
    """Print what was released: JSON, items alone, or a table and what it cost.

    `unit` is whom the cost protects, `more` what JSON holds besides; `before`
    and `after` are lines around that of the cost.
    """
    labels = [plain(label) for label in release.labels]
    if args.json:
        print_json(_as_json(release, labels, measures) | dict(more))
        return
    names = [printable(str(label)) for label in labels]
    if args.quiet:
        for name in names:
            print(name)
        return
    console, table = tables()
    table.add_column("rank" if release.ordered else "", justify="right")
    table.add_column("item" if release.ordered else "item (in no order)", overflow="fold")
    if measures is not None and names:
        table.add_column(measures.title, justify="right")
        table.add_column(f"{CONFIDENCE:.0%} interval", justify="right")
        drawn = bars(measures.intervals) if getattr(args, "plot", False) else []
        if drawn:
            table.add_column("", no_wrap=True)
    for rank, name in enumerate(names):
        shown = []
        if measures is not None:
            numbers = measures.values[rank], *measures.intervals[rank]
            value, low, high = (format(number, measures.form) for number in numbers)
            shown = [value, f"{low}-{high}", *drawn[rank : rank + 1]]
        table.add_row(str(rank + 1) if release.ordered else "-", name, *shown)
    if names:
        console.print(table)
    cost = release.cost
    paid = (
        f"{release.mechanism}: this cost epsilon = {cost.epsilon:.6g}, delta = {cost.delta:.6g} "
        f"per {unit} ({cost.theorem})."
    )
    console.print("\n".join([*before, paid, *after]))
    if not release.private:
        console.print("NOT PRIVATE: the noise did not come from a secure source.")


def _as_json(release: Any, labels: list[Any], measures: Measures | None) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if measures is not None:
        shown = {measures.name: measures.values, "intervals": measures.intervals}
        shown["confidence"] = CONFIDENCE
    return {
        "items": labels,
        **shown,
        "ordered": bool(release.ordered),
        "complete": bool(release.complete),
        "cost": {
            "epsilon": float(release.cost.epsilon),
            "delta": float(release.cost.delta),
            "theorem": str(release.cost.theorem),
        },
        "mechanism": str(release.mechanism),
        "parameters": {name: plain(value) for name, value in release.parameters.items()},
        "private": bool(release.private),
        "version": version(),
    }
