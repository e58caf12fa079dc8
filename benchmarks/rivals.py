"""What else finds the k largest on a CPU: libraries, where installed, and loops in C++ and Numba.

Each rival is given the array in its own form, and times its call alone. All of one core.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
#: Takes an array, k, and whether in order; returns a call, which returns indices or values.
Maker = Callable[[Array, int, bool], Callable[[], Any] | None]


class Rival(NamedTuple):
    """A way to the k largest; `returns` says whether its call gives indices or values."""

    name: str
    returns: str
    make: Maker


def rivals() -> Iterator[Rival]:
    """Yield those that can run here."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    yield Rival("np.argpartition", "indices", _argpartition)
    yield Rival("np.partition", "values", _partition)
    for module, name, returns, make in (
        ("torch", "torch.topk", "indices", _torch),
        ("pyarrow", "pyarrow select_k", "indices", _pyarrow),
        ("polars", "polars top_k", "values", _polars),
        ("bottleneck", "bottleneck", "indices", _bottleneck),
        ("numba", "numba heap", "indices", _numba),
    ):
        try:
            importlib.import_module(module)
        except ImportError:
            continue
        yield Rival(name, returns, make)
    built = _built()
    if built is not None:
        yield Rival("C++ heap", "indices", _native(built, "heap"))
        yield Rival("C++ reservoir", "indices", _native(built, "reservoir"))


def numpy_features() -> list[str]:
    """Return the vector instructions that NumPy dispatches to, by its names."""
    from numpy._core import _multiarray_umath as core  # type: ignore

    return [name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)]


def _argpartition(a: Array, k: int, in_order: bool) -> Callable[[], Any]:
    def call() -> Array:
        top = np.argpartition(a, a.size - k)[a.size - k :]
        return top[np.argsort(a[top])[::-1]] if in_order else top

    return call


def _partition(a: Array, k: int, in_order: bool) -> Callable[[], Any]:
    def call() -> Array:
        top = np.partition(a, a.size - k)[a.size - k :]
        return np.sort(top)[::-1] if in_order else top

    return call


def _torch(a: Array, k: int, in_order: bool) -> Callable[[], Any] | None:
    import torch

    torch.set_num_threads(1)
    if a.dtype in (np.uint16, np.uint32, np.uint64, np.bool_):
        return None  # PyTorch does not select among these
    tensor = torch.from_numpy(a)
    return lambda: torch.topk(tensor, k, sorted=in_order).indices


def _pyarrow(a: Array, k: int, in_order: bool) -> Callable[[], Any] | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if a.dtype in (np.bool_, np.float16):
        return None
    table = pa.array(a)
    return lambda: pc.select_k_unstable(table, k, [("", "descending")])


def _polars(a: Array, k: int, in_order: bool) -> Callable[[], Any] | None:
    import polars as pl

    if a.dtype == np.float16:
        return None
    series = pl.Series(a)
    return lambda: series.top_k(k).sort(descending=True) if in_order else series.top_k(k)


def _bottleneck(a: Array, k: int, in_order: bool) -> Callable[[], Any] | None:
    import bottleneck as bn

    if a.dtype not in (np.int32, np.int64, np.float32, np.float64):
        return None  # it hands the others to NumPy

    def call() -> Array:
        top = bn.argpartition(a, a.size - k)[a.size - k :]
        return top[np.argsort(a[top])[::-1]] if in_order else top

    return call


def _numba(a: Array, k: int, in_order: bool) -> Callable[[], Any] | None:
    import heapq

    import numba

    global _heap
    if a.dtype not in (np.int8, np.int64, np.float32):
        return None  # it takes many seconds to compile for a type
    if _heap is None:

        @numba.njit(nogil=True)
        def heap(x: Array, k: int) -> Array:
            best = [(x[i], -i) for i in range(k)]
            heapq.heapify(best)
            for i in range(k, x.size):
                if x[i] > best[0][0]:
                    heapq.heapreplace(best, (x[i], -i))
            best.sort()
            return np.array([-item[1] for item in best[::-1]])

        _heap = heap
    made = _heap
    made(a[: k + 1], k)  # compiled before it is timed
    return lambda: made(a, k)


_heap: Any = None


def _built() -> ctypes.CDLL | None:
    compiler = shutil.which("g++")
    if compiler is None:
        return None
    folder = Path(tempfile.mkdtemp())
    library = folder / "rivals.so"
    source = Path(__file__).with_name("rivals.cpp")
    flags = ["-std=c++17", "-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(library), str(source)], check=True)
    built = ctypes.CDLL(str(library))
    shutil.rmtree(folder)
    return built


def _native(built: ctypes.CDLL, way: str) -> Maker:
    def make(a: Array, k: int, in_order: bool) -> Callable[[], Any] | None:
        function = getattr(built, f"{way}_{a.dtype.name}", None)
        if function is None:
            return None
        size, pointer = ctypes.c_size_t, ctypes.c_void_p
        function.argtypes = [pointer, size, size, ctypes.c_int, pointer]
        function.restype = None
        where = a.ctypes.data

        def call() -> Array:
            out = np.empty(k, np.int64)
            function(where, a.size, k, in_order, out.ctypes.data)
            return out

        return call

    return make
