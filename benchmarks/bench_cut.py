"""argtopk against reading the array (np.max) and against every other way to the k largest.

``python -m benchmarks cut`` has some cells of each size, type and shape, ``--full`` all of them.
NumPy's ways are timed once more in a process that may not use AVX-512.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import rich.console
import rich.table

import dptopk as dp
from benchmarks.data import mostly_equal, skewed
from benchmarks.rivals import Rival, numpy_features, rivals
from benchmarks.row import Row, at_least, at_most
from benchmarks.timing import medians_ms, seconds_of
from dptopk import Histogram

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTEGERS, "float16", "float32", "float64")
SIZES = (10, 100, 1_000, 8_000, 100_000, 1_000_000)
LARGE = (10_000_000, 100_000_000)
NUMPY_ONLY = "--numpy"


class Cell(NamedTuple):
    """One array and what is asked of it."""

    n: int
    k: int
    dtype: str
    shape: str
    in_order: bool = True


def array_of(cell: Cell) -> np.ndarray:
    """Make the array of a cell: distinct over the range of its type, or as its shape says."""
    n, kind = cell.n, np.dtype(cell.dtype)
    return SHAPES[cell.shape](n, kind, np.random.default_rng(n))


def _distinct(n: int, kind: np.dtype, rng: np.random.Generator) -> np.ndarray:
    if kind.kind == "b":
        return rng.random(n) < 0.5
    if kind.kind == "f":
        return rng.permutation(n).astype(kind) if kind.itemsize > 2 else rng.random(n).astype(kind)
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max, n, dtype=kind, endpoint=True)


def _normal(n: int, kind: np.dtype, rng: np.random.Generator) -> np.ndarray:
    values = rng.standard_normal(n)
    if kind.kind == "f":
        return values.astype(kind)
    if kind.kind == "b":
        return values > 0
    info = np.iinfo(kind)
    spread = (info.max / 8.0 - info.min / 8.0) / 2
    middle = info.max / 2 + info.min / 2
    return (middle + spread * np.clip(values, -3.5, 3.5)).astype(kind)


def _counts(make: Callable[[int], np.ndarray]) -> Any:
    def values(n: int, kind: np.dtype, rng: np.random.Generator) -> np.ndarray:
        most = (
            1
            if kind.kind == "b"
            else np.finfo(kind).max
            if kind.kind == "f"
            else np.iinfo(kind).max
        )
        return np.minimum(make(n), most).astype(kind)

    return values


def _pipe(n: int, kind: np.dtype, rng: np.random.Generator) -> np.ndarray:
    half = np.sort(_distinct(n, kind, rng))
    return np.concatenate((half[::2], half[1::2][::-1]))


SHAPES: dict[str, Callable[[int, np.dtype, np.random.Generator], np.ndarray]] = {
    "distinct": _distinct,
    "normal": _normal,
    "98% equal": _counts(mostly_equal),
    "as real counts": _counts(skewed),
    "ascending": lambda n, kind, rng: np.sort(_distinct(n, kind, rng)),
    "descending": lambda n, kind, rng: np.sort(_distinct(n, kind, rng))[::-1].copy(),
    "organ pipe": _pipe,
    "all equal": lambda n, kind, rng: np.ones(n, kind),
}


def cells(full: bool) -> Iterator[Cell]:
    """Yield what to measure."""
    if full:
        for n in (*SIZES, *LARGE):
            ks = sorted({1, 10, 100, 1_000, n // 10} & set(range(1, n // 10 + 1)))
            for k, dtype, shape in itertools.product(ks, DTYPES, SHAPES):
                yield Cell(n, k, dtype, shape)
        return
    for n in SIZES[1:]:
        for k, dtype in itertools.product(sorted({10, n // 10}), ("int64", "float32")):
            yield Cell(n, k, dtype, "normal")
    for dtype in DTYPES:
        yield Cell(1_000_000, 1_000, dtype, "normal", in_order=False)
    for shape, dtype in itertools.product(SHAPES, ("int64", "float32")):
        yield Cell(1_000_000, 1_000, dtype, shape)


def truth(a: np.ndarray, k: int) -> np.ndarray:
    """Return the indices of the k largest by a stable sort of the whole."""
    return (a.size - 1 - np.argsort(a[::-1], kind="stable")[::-1])[:k]


def _right(rival: Rival, found: Any, a: np.ndarray, best: np.ndarray) -> bool:
    """Whether a rival found elements of the same values (which of equal ones is left to it)."""
    values = np.asarray(found)
    if rival.returns == "indices":
        values = a[values]
    return bool(np.array_equal(np.sort(values), np.sort(a[best])))


def measure(cell: Cell, ways: list[Rival], quick: bool) -> list[str]:
    """Return a line of the table: all calls in turn within one run."""
    a = array_of(cell)
    expected = truth(a, cell.k)
    if not cell.in_order:
        expected = np.sort(expected)
    wrong = (
        [] if np.array_equal(dp.argtopk(a, cell.k, sorted=cell.in_order), expected) else ["ours"]
    )
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: dp.argtopk(a, cell.k, sorted=cell.in_order),
        "np.max": a.max,
    }
    for rival in ways:
        call = rival.make(a, cell.k, cell.in_order)
        if call is None:
            continue
        calls[rival.name] = call
        if not _right(rival, call(), a, expected):
            wrong.append(rival.name)
    spent = {name: min(seconds_of({"": call}, repeats=2)[""]) for name, call in calls.items()}
    in_a_row = max(1, int(50e-6 / spent["ours"]))  # of short calls: in a warm cache
    repeats = int((0.2 if quick else 1.0) / (in_a_row * sum(spent.values())))
    seconds = seconds_of(calls, repeats=min(max(repeats, 5), 300), in_a_row=in_a_row)
    low = {name: 1e6 * min(values) for name, values in seconds.items()}
    middle = {name: 1e6 * statistics.median(values) for name, values in seconds.items()}
    best = min((name for name in calls if name not in ("ours", "np.max")), key=low.__getitem__)
    return [
        f"{cell.n:,}", f"{cell.k:,}", cell.dtype, cell.shape, "yes" if cell.in_order else "no",
        f"{low['ours']:.3g} / {middle['ours']:.3g}",
        f"{low['ours'] / low['np.max']:.2f} / {middle['ours'] / middle['np.max']:.2f}",
        best, f"{low[best]:.3g} / {middle[best]:.3g}",
        f"{low[best] / low['ours']:.2f} / {middle[best] / middle['ours']:.2f}",
        f"{low['C++ heap'] / low['ours']:.2f}" if "C++ heap" in low else "",
        "yes" if not wrong else "NO: " + ", ".join(wrong),
    ]  # fmt: skip


def _table(chosen: Iterator[Cell], ways: list[Rival], quick: bool, title: str) -> rich.table.Table:
    table = rich.table.Table(
        "n", "k", "type", "shape", "in order", "ours, us", "x np.max", "best of the others",
        "us", "others / ours", "C++ heap / ours", "equal to a sort", title=title,
        caption="minimum / median of calls made in turn; one thread",
    )  # fmt: skip
    for cell in chosen:
        table.add_row(*measure(cell, ways, quick))
    return table


def tables(quick: bool = False, full: bool = False) -> Iterator[Any]:
    """Yield the tables: against everything; and against NumPy without AVX-512."""
    features = numpy_features()
    title = f"NumPy {np.__version__} dispatches to {' '.join(features) or 'no vectors'}"
    yield _table(cells(full), list(rivals()), quick, title)
    off = [name for name in features if "AVX512" in name or name == "X86_V4"]
    if off:
        call = [sys.executable, "-m", "benchmarks.bench_cut", NUMPY_ONLY, *["--quick"] * quick]
        disabled = {"NPY_DISABLE_CPU_FEATURES": " ".join(off)}
        yield subprocess.run(
            call, env={**os.environ, **disabled}, check=True, capture_output=True, text=True
        ).stdout


def _numpy_alone() -> None:
    """Print the table of NumPy's ways, with what it may use in this process."""
    ways = [rival for rival in rivals() if rival.name.startswith("np.")]
    title = f"NumPy {np.__version__} dispatches to {' '.join(numpy_features())}"
    rich.console.Console(width=160).print(_table(cells(False), ways, "--quick" in sys.argv, title))


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
