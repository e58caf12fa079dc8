"""What an experiment leaves: tables, figures and remarks, with how they came about, as JSON.

The page and the plots are made of this alone, so that they can't say anything else.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

Cell = str | float | int | None
LIBRARIES = ("dptopk", "numpy", "scipy", "opendp", "diffprivlib", "torch", "pyarrow", "polars",
             "bottleneck", "numba", "fastapi", "uvicorn")  # fmt: skip


class Scale(NamedTuple):
    """How much is run: `pick` has one of three."""

    name: str

    def pick(self, tiny: Any, quick: Any, full: Any) -> Any:
        """Return what belongs to this scale."""
        return {"tiny": tiny, "quick": quick, "full": full}[self.name]


@dataclass(frozen=True)
class Line:
    """One curve; `error` is one standard error, above and below."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Figure:
    """Panels that share what their axes mean."""

    name: str
    title: str
    x: str
    y: str
    panels: Sequence[Panel]
    columns: int = 2
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under columns; `notes` say what cells are and what they must not be compared with."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Result:
    """All of one experiment."""

    title: str
    source: str
    tables: Sequence[Table]
    figures: Sequence[Figure] = ()
    remarks: Sequence[str] = ()
    absent: Sequence[str] = ()  # data sets and libraries that are not here
    facts: dict[str, float] = field(default_factory=dict)  # numbers that other pages quote


def recorded(name: str, result: Result, *, command: str, seed: int, seconds: float) -> dict:
    """Return all there is to write."""
    return {
        "name": name,
        "command": command,
        "seed": seed,
        "seconds": round(seconds, 1),
        "machine": machine(),
        "versions": versions(),
        **_short(asdict(result)),
    }


def machine() -> dict[str, Any]:
    """Say what ran it; the load is that of all programs of the machine."""
    from dptopk import _core
    from dptopk.verification.tapes import LEVELS

    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "simd": LEVELS[_core.simd_get()],
        "load": round(os.getloadavg()[0], 1),
    }


def versions() -> dict[str, str]:
    """Return the versions of what took part, where installed."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


KINDS = {
    "name": str, "command": str, "seed": int, "seconds": float, "machine": dict, "versions": dict,
    "title": str, "source": str, "tables": list, "figures": list, "remarks": list, "absent": list,
    "facts": dict,
}  # fmt: skip


def check(record: Any) -> None:
    """Refuse what is not a record: ValueError says what is wrong."""
    if not isinstance(record, dict) or set(record) != set(KINDS):
        raise ValueError(f"a record has just the keys {', '.join(KINDS)}")
    for key, kind in KINDS.items():
        if not isinstance(record[key], kind) or (kind is str and not record[key]):
            raise ValueError(f"{record['name']}: {key} must be {kind.__name__}, not empty")
    if not record["tables"]:
        raise ValueError(f"{record['name']}: no table")
    for table in record["tables"]:
        if not table["rows"] or any(len(row) != len(table["columns"]) for row in table["rows"]):
            raise ValueError(f"{table['name']}: a row for each column, and at least one")
        if not all(isinstance(c, str | int | float | None) for row in table["rows"] for c in row):
            raise ValueError(f"{table['name']}: a cell is a word, a number or nothing")
    for figure in record["figures"]:
        for line in (line for panel in figure["panels"] for line in panel["lines"]):
            if not len(line["x"]) == len(line["y"]) or not all(map(math.isfinite, line["y"])):
                raise ValueError(f"{figure['name']}: a finite y for each x")


def write(folder: Path, record: dict) -> Path:
    """Write it in one step: what is there is whole, whenever the run is stopped."""
    check(record)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['name']}.json"
    partial = path.with_suffix(".json.part")
    lines = (f"{json.dumps(key)}: {json.dumps(its)}" for key, its in record.items())
    partial.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    os.replace(partial, path)
    return path


def read(folder: Path) -> list[dict]:
    """Return all records of a folder, by name."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def _short(value: Any) -> Any:
    """Round to four digits: no more are known, and files stay small."""
    if isinstance(value, dict):
        return {key: _short(its) for key, its in value.items()}
    if isinstance(value, list | tuple):
        return [_short(its) for its in value]
    if hasattr(value, "item"):  # a number of NumPy
        value = value.item()
    return float(f"{value:.4g}") if isinstance(value, float) else value
