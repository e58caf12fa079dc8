"""The arrays that `argtopk` is measured on, and one measurement."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import dptopk as dp
from benchmarks.data import mostly_equal, skewed
from benchmarks.rivals import Rival
from benchmarks.timing import seconds_of

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTEGERS, "float16", "float32", "float64")
SIZES = (10, 100, 1_000, 8_000, 100_000, 1_000_000)
#: Sizes at which an array and the copies of others fill much of the memory: some types only.
LARGE = {
    10_000_000: ("int64", "int8", "float32", "float64"),
    100_000_000: ("int64", "int8", "float32"),
}
SLOW = 10.0  # times as long as ours: one call of such a rival tells enough
WARM = 0.05  # seconds: what a library sets up at its first call may be a large part of less


class Cell(NamedTuple):
    """One array and what is asked of it."""

    n: int
    k: int
    dtype: str
    shape: str
    in_order: bool = True


class Measured(NamedTuple):
    """Microseconds of every contender in a cell, and which of them were wrong."""

    cell: Cell
    least: dict[str, float]
    median: dict[str, float]
    wrong: list[str]

    @property
    def best(self) -> str:
        """The fastest of the others, by the median."""
        others = (name for name in self.median if name not in ("ours", "np.max"))
        return min(others, key=self.median.__getitem__)

    @property
    def lost(self) -> bool:
        """Whether another was faster, by the median and by the minimum."""
        best = self.best
        return all(us[best] < us["ours"] for us in (self.median, self.least))


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
        if kind.kind == "b":
            return make(n) > 1
        most = np.finfo(kind).max if kind.kind == "f" else min(np.iinfo(kind).max, 2**63 - 1)
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


def some_cells() -> Iterator[Cell]:
    """Yield some of each size, type and shape."""
    for n in SIZES[1:]:
        for k, dtype in itertools.product(sorted({10, n // 10}), ("int64", "float32")):
            yield Cell(n, k, dtype, "normal")
    for dtype in DTYPES:
        yield Cell(1_000_000, 1_000, dtype, "normal", in_order=False)
    for shape, dtype in itertools.product(SHAPES, ("int64", "float32")):
        yield Cell(1_000_000, 1_000, dtype, shape)


def all_cells() -> Iterator[Cell]:
    """Yield all; those of one array one after the other."""
    for n in SIZES:
        ks = sorted({1, 10, 100, 1_000, n // 10} & set(range(1, n // 10 + 1)))
        for dtype, shape in itertools.product(DTYPES, SHAPES):
            for k in ks:
                yield Cell(n, k, dtype, shape)
                if shape in ("normal", "98% equal") and n >= 1_000:
                    yield Cell(n, k, dtype, shape, in_order=False)
    for n, dtypes in LARGE.items():
        for dtype, shape in itertools.product(
            dtypes, ("normal", "98% equal")[: 2 if n < 10**8 else 1]
        ):
            for k in (1_000, n // 10)[: 2 if n < 10**8 else 1]:
                yield Cell(n, k, dtype, shape)


def chosen(cells: Iterator[Cell], words: str | None) -> Iterator[Cell]:
    """Yield the cells that words, with commas between, name: sizes, k=..., types and shapes."""
    kinds: dict[str, set[str]] = {}
    for word in filter(None, (words or "").split(",")):
        if word in DTYPES:
            kind = "dtype"
        elif word in SHAPES:
            kind = "shape"
        elif word.isdecimal():
            kind = "n"
        elif word.startswith("k=") and word[2:].isdecimal():
            kind, word = "k", word[2:]
        else:
            raise ValueError(f"--only takes sizes, k=, types and shapes, got {word!r}")
        kinds.setdefault(kind, set()).add(word)
    for cell in cells:
        if all(str(getattr(cell, kind)) in some for kind, some in kinds.items()):
            yield cell


def truth(a: np.ndarray, k: int) -> np.ndarray:
    """Return the indices of the k largest by a stable sort of all that may be among them."""
    if k == 0:
        return np.empty(0, np.int64)
    bound = np.partition(a, a.size - k)[a.size - k] if a.size > 10**7 else a.dtype.type(0)
    some = np.flatnonzero(a >= bound) if a.size > 10**7 else np.arange(a.size)
    order = np.argsort(a[some][::-1], kind="stable")[::-1]
    return some[some.size - 1 - order[:k]]


def _right(rival: Rival, found: Any, a: np.ndarray, best: np.ndarray) -> bool:
    """Whether a rival found elements of the same values (which of equal ones is left to it)."""
    values = np.asarray(found)
    if rival.returns == "indices":
        values = a[values]
    return bool(np.array_equal(np.sort(values), np.sort(a[best])))


def measure(
    cells: Iterator[Cell], ways: list[Rival], seconds: float, *, most: int = 300
) -> Iterator[Measured]:
    """Yield the times of all calls in turn within one run, about so many seconds of each cell."""
    for _, group in itertools.groupby(cells, lambda cell: (cell.n, cell.dtype, cell.shape)):
        same = list(group)
        a = array_of(same[0])
        best = truth(a, max(cell.k for cell in same))
        for cell in same:
            yield _measure(cell, a, best[: cell.k], ways, seconds, most)


def _measure(
    cell: Cell, a: np.ndarray, best: np.ndarray, ways: list[Rival], seconds: float, most: int
) -> Measured:
    k, in_order = cell.k, cell.in_order
    expected = best if in_order else np.sort(best)
    wrong = [] if np.array_equal(dp.argtopk(a, k, sorted=in_order), expected) else ["ours"]
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: dp.argtopk(a, k, sorted=in_order),
        "np.max": a.max,
    }
    spent = {name: min(seconds_of({"": call}, repeats=2, warm_up=0)[""])
             for name, call in calls.items()}  # fmt: skip
    slow: dict[str, list[float]] = {}
    for rival in ways:
        call = rival.make(a, k, in_order)
        if call is None:
            continue
        start = time.perf_counter()
        found = call()
        took = time.perf_counter() - start
        if took < WARM:
            took = min(seconds_of({"": call}, repeats=1, warm_up=0)[""])
        if not _right(rival, found, a, best):
            wrong.append(rival.name)
        if took > SLOW * spent["ours"] and took > 1e-3:
            slow[rival.name] = [took]
        else:
            calls[rival.name], spent[rival.name] = call, took
    in_a_row = max(1, int(50e-6 / spent["ours"]))  # of short calls: in a warm cache
    turns = int(seconds / (in_a_row * sum(spent[name] for name in calls)))
    times = seconds_of(calls, repeats=min(max(turns, 5), most), warm_up=1, in_a_row=in_a_row)
    times |= slow
    return Measured(
        cell,
        {name: 1e6 * min(values) for name, values in times.items()},
        {name: 1e6 * statistics.median(values) for name, values in times.items()},
        wrong,
    )
