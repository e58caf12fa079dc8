"""argtopk against reading the array (np.max) and against every other way to the k largest.

``python -m benchmarks cut`` has some cells of each size, type and shape, ``--full`` all of them,
``--only 1000000,k=1000,int8`` a part. NumPy's ways are timed once more in a process that may not
use AVX-512. ``--keep FILE`` writes every figure as JSON, and ``--full`` goes on where
FILE stops: what it has of the same versions is not measured again.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import rich.console
import rich.table

import dptopk as dp
from benchmarks.cut_cells import (
    DTYPES,
    Cell,
    Measured,
    all_cells,
    array_of,
    chosen,
    measure,
    some_cells,
)
from benchmarks.rivals import numpy_features, rivals
from benchmarks.row import Row, at_least, at_most
from benchmarks.timing import medians_ms
from dptopk import Histogram, _core
from dptopk.verification.tapes import LEVELS

LIBRARIES = ("dptopk", "numpy", "torch", "pyarrow", "polars", "bottleneck", "numba")


def _line(found: Measured) -> list[str]:
    cell, least, median, best = found.cell, found.least, found.median, found.best
    heap = "C++ heap"
    return [
        f"{cell.n:,}", f"{cell.k:,}", cell.dtype, cell.shape, "yes" if cell.in_order else "no",
        f"{least['ours']:.3g} / {median['ours']:.3g}",
        f"{least['ours'] / least['np.max']:.2f} / {median['ours'] / median['np.max']:.2f}",
        best, f"{least[best]:.3g} / {median[best]:.3g}",
        f"{least[best] / least['ours']:.2f} / {median[best] / median['ours']:.2f}",
        f"{median[heap] / median['ours']:.2f}" if heap in median else "",
        "yes" if not found.wrong else "NO: " + ", ".join(found.wrong),
    ]  # fmt: skip


def _table(found: list[Measured], title: str) -> rich.table.Table:
    table = rich.table.Table(
        "n", "k", "type", "shape", "in order", "ours, us", "x np.max", "best of the others",
        "us", "others / ours", "C++ heap / ours", "equal to a sort", title=title,
        caption="minimum / median of calls made in turn; one thread",
    )  # fmt: skip
    for each in found:
        table.add_row(*_line(each))
    return table


def _summary(found: list[Measured], title: str) -> rich.table.Table:
    """Return how many cells of each size and type another wins, and how far ahead it is."""
    table = rich.table.Table(
        "n", "type", "cells", "lost", "least others / ours", "where", "wrong", title=title
    )
    groups: dict[tuple[int, str], list[Measured]] = {}
    for each in found:
        groups.setdefault((each.cell.n, each.cell.dtype), []).append(each)
    for (n, dtype), some in groups.items():
        worst = min(some, key=lambda each: each.median[each.best] / each.median["ours"])
        cell, median = worst.cell, worst.median
        table.add_row(
            f"{n:,}", dtype, f"{len(some)}", f"{sum(each.lost for each in some)}",
            f"{median[worst.best] / median['ours']:.2f}",
            f"{worst.best}, k = {cell.k}, {cell.shape}, {'' if cell.in_order else 'not '}in order",
            f"{sum(bool(each.wrong) for each in some)}",
        )  # fmt: skip
    return table


def _run(
    quick: bool, full: bool, only: str | None, alone: bool = False, keep: str | None = None
) -> tuple[list[Measured], str]:
    """Measure until all is done or Ctrl-C; alone: NumPy only, as it may run in this process."""
    title = f"NumPy {np.__version__} dispatches to {' '.join(numpy_features()) or 'no vectors'}"
    cells = list(chosen(all_cells() if full else some_cells(), only))
    if alone and full:
        cells = [cell for cell in cells if cell.shape == "normal" and cell.n < 10**7]
    ways = [rival for rival in rivals() if not alone or rival.name.startswith("np.")]
    found = _kept(keep, title) if full else []
    known = {each.cell for each in found}
    cells = [cell for cell in cells if cell not in known]
    start = saved = time.monotonic()
    try:
        each_cell = measure(iter(cells), ways, 0.03 if full else 0.2 if quick else 1.0)
        for done, each in enumerate(each_cell, 1):
            found.append(each)
            now = time.monotonic()
            if full and now - saved > SAVE_EVERY:
                saved = now
                _save(keep, found, title)
                print(f"{now - start:5.0f} s: {done} of {len(cells)} cells", file=sys.stderr)
            if each.lost or each.wrong:
                print(*_line(each), sep="  ", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped: what follows is of the cells so far", file=sys.stderr)
    _save(keep, found, title)
    return found, title


SAVE_EVERY = 10.0  # seconds


def _save(keep: str | None, found: list[Measured], title: str) -> None:
    if keep is None:
        return
    part = Path(keep + ".part")  # a run that is stopped here leaves the file as it was
    part.write_text(json.dumps(_as_json(found, title), indent=0) + "\n")
    part.replace(keep)


def _kept(keep: str | None, title: str) -> list[Measured]:
    """Return what an earlier run of the same versions has kept."""
    if keep is None or not Path(keep).exists():
        return []
    now, kept = _as_json([], title), json.loads(Path(keep).read_text())
    if any(kept[name] != now[name] for name in ("versions", "dispatch")):
        return []
    return [Measured(**each | {"cell": Cell(**each["cell"])}) for each in kept["cells"]]


def _show(found: list[Measured], title: str, full: bool) -> Iterator[Any]:
    if not full:
        yield _table(found, title)
        return
    yield _summary(found, title)
    yield _table([each for each in found if each.lost or each.wrong], "Where another is ahead")


def _as_json(found: list[Measured], title: str) -> dict[str, Any]:
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
        "machine": {
            "processor": _processor(),
            "system": platform.platform(),
            "load": os.getloadavg(),
        },
        "versions": versions,
        "dispatch": {"numpy": title, "dptopk": LEVELS[_core.simd_get()]},
        "cells": [each._asdict() | {"cell": each.cell._asdict()} for each in found],
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def tables(
    quick: bool = False, full: bool = False, keep: str | None = None, only: str | None = None
) -> Iterator[Any]:
    """Yield the tables: against everything; and against NumPy without AVX-512."""
    found, title = _run(quick, full, only, keep=keep)
    yield from _show(found, title, full)
    off = [name for name in numpy_features() if "AVX512" in name or name == "X86_V4"]
    if off:
        call = [sys.executable, "-m", "benchmarks.bench_cut"]
        call += ["--quick"] * quick + ["--full"] * full + (["--only", only] if only else [])
        disabled = {"NPY_DISABLE_CPU_FEATURES": " ".join(off)}
        yield subprocess.run(
            call, env={**os.environ, **disabled}, check=True, stdout=subprocess.PIPE, text=True
        ).stdout


def _numpy_alone() -> None:
    """Print the tables of NumPy's ways, with what it may use in this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only")
    args = parser.parse_args()
    found, title = _run(args.quick, args.full, args.only, alone=True)
    rich.console.Console(width=160).print(*_show(found, title, args.full))


def by_argpartition(counts: np.ndarray, k: int) -> np.ndarray:
    """Today's idiom (ties in no fixed order)."""
    top = np.argpartition(counts, len(counts) - k)[len(counts) - k :]
    return top[np.argsort(-counts[top], kind="stable")]


def rows_by_argpartition(a: np.ndarray, k: int) -> np.ndarray:
    """The same along the last axis."""
    top = np.argpartition(a, a.shape[1] - k, axis=1)[:, -k:]
    order = np.argsort(-np.take_along_axis(a, top, 1), axis=1, kind="stable")
    return np.take_along_axis(top, order, 1)


def rows(quick: bool = False, full: bool = False) -> Iterator[Row]:
    """Yield the comparisons with a target; quick takes fewer repeats."""
    n, k, repeats = 1_000_000, 1_000, 7 if quick else 31
    for dtype, limit in (("int64", 1.8), *((dtype, 2.0) for dtype in DTYPES if dtype[0] in "iuf")):
        if dtype == "int64" and limit == 2.0:
            continue
        a = array_of(Cell(n, k, dtype, "normal"))
        calls = {"ours": lambda a=a: dp.argtopk(a, k, sorted=False), "max": a.max}
        ms = medians_ms(calls, repeats=repeats)
        work = f"argtopk, top {k} of 1e6, unsorted, {dtype}"
        yield at_most(work, ms["ours"], "np.max", ms["max"], limit)
    for shape, limit in (("98% equal", 20.0), ("as real counts", 20.0), ("distinct", None)):
        a = array_of(Cell(n, k, "int64", shape))
        calls = {
            "ours": lambda a=a: dp.argtopk(a, k),
            "other": lambda a=a: by_argpartition(a, k),
        }
        ms = medians_ms(calls, repeats=min(repeats, 11))
        work = f"argtopk, top {k} of 1e6, {shape}"
        yield at_least(work, ms["ours"], "argpartition", ms["other"], limit)
    yield from _many_rows(min(repeats, 11))
    a = np.random.default_rng(1).standard_normal(100)
    calls = {"ours": lambda: dp.argtopk(a, 10), "other": lambda: np.argpartition(a, 90)[90:]}
    ms = medians_ms(calls, repeats=2_000)
    yield at_least("argtopk, top 10 of 100", ms["ours"], "argpartition", ms["other"], 1.0)
    for shape in ("98% equal", "as real counts"):
        a = array_of(Cell(n, k, "int64", shape))
        ms = medians_ms({"ours": lambda a=a: Histogram(a), "max": a.max}, repeats=repeats)
        yield at_most(f"Histogram of 1e6, {shape}", ms["ours"], "np.max", ms["max"], 6.0)


def _many_rows(repeats: int) -> Iterator[Row]:
    a = np.random.default_rng(1).standard_normal((20_000, 50))
    for k in (5, 10):
        calls: dict[str, Callable[[], Any]] = {
            "ours": lambda k=k: dp.argtopk(a, k),
            "NumPy along the axis": lambda k=k: rows_by_argpartition(a, k),
        }
        if importlib.util.find_spec("torch"):
            import torch

            torch.set_num_threads(1)
            tensor = torch.from_numpy(a)
            calls["torch.topk"] = functools.partial(torch.topk, tensor, k)
        ms = medians_ms(calls, repeats=repeats)
        for name, limit in (("NumPy along the axis", 3.0), ("torch.topk", 1.0)):
            if name in ms:
                work = f"argtopk, top {k} of each of 20,000 rows of 50"
                yield at_least(work, ms["ours"], name, ms[name], limit)


if __name__ == "__main__":
    _numpy_alone()
