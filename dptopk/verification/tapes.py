"""Tapes for kernels and their twins, and the kernels at every SIMD level."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dptopk import _core
from dptopk.reference.race import Tape
from dptopk.rng import TapeRng
from dptopk.verification.registry import TapeCheck

WORDS = 1024
ARM = platform.machine().lower() in ("aarch64", "arm64")
LEVELS = ("portable", "NEON") if ARM else ("portable", "AVX2", "AVX-512")

# A tape is a seed, from which follow the words and the histogram they serve.


def words(seed: int) -> npt.NDArray[np.uint64]:
    """Return the words of a tape."""
    return np.random.default_rng(seed).integers(0, 2**64, size=WORDS, dtype=np.uint64)


def counts(seed: int) -> npt.NDArray[np.int64]:
    """Return a histogram: of any size up to 60, with ties and gaps of all widths."""
    rng = np.random.default_rng([seed, 1])
    size, spread = int(rng.integers(1, 61)), int(rng.choice([1, 5, 100, 10**6]))
    return rng.integers(0, spread, size=size, endpoint=True)


def read(seed: int) -> Tape:
    """Return the tape as the reference reads it."""
    fresh = np.random.default_rng([seed, 2])
    return Tape(
        _core.TapeSource(words(seed)).read,
        lambda n: fresh.integers(0, 2**64, size=n, dtype=np.uint64).tolist(),
    )


def stream(seed: int) -> Tape:
    """Return the words of ``Generator(PCG64(seed))``, as a session of many calls reads them."""
    along = np.random.Generator(np.random.PCG64(seed))
    fresh = np.random.default_rng([seed, 2])
    return Tape(
        lambda n: along.integers(0, 2**64, size=n, dtype=np.uint64).tolist(),
        lambda n: fresh.integers(0, 2**64, size=n, dtype=np.uint64).tolist(),
    )


def at_levels(
    kernel: Callable[[int, TapeRng], Any],
) -> Mapping[str, Callable[[int], Any]]:
    """Return the kernel at every SIMD level there is here, and with its exact replay forced.

    A forced replay (error bounds widened until doubles decide next to nothing)
    must come to the same outcome.
    """

    def run(seed: int, level: int, error_factor: float) -> Any:
        before = _core.simd_get(), _core.error_factor
        _core.simd_set(level)
        _core.error_factor = error_factor
        try:
            return kernel(seed, TapeRng(words(seed)))
        finally:
            _core.simd_set(before[0])
            _core.error_factor = before[1]

    def bind(level: int, error_factor: float) -> Callable[[int], Any]:
        return lambda seed: run(seed, level, error_factor)

    best = _core.simd_best()
    kernels = {LEVELS[level]: bind(level, 1.0) for level in range(best + 1)}
    kernels["exact replay"] = bind(best, 2.0**45)
    return kernels


def check(
    label: str,
    kernel: Callable[[int, TapeRng], Any],
    reference: Callable[[int], Any],
    n: int,
) -> TapeCheck:
    """Compare ``kernel(seed, rng)`` with ``reference(seed)`` on the first n tapes."""
    return TapeCheck(label, at_levels(kernel), reference, seeds(n))


def as_scores(counts: npt.NDArray[Any], seed: int, *, monotone: bool) -> npt.NDArray[Any]:
    """Return the counts of a tape as they are, unsigned, as floats, or far below 0.

    Counts that a user moves one way are never below 0.
    """
    kind = seed // 12 % 4
    if kind == 1:
        return counts.astype(np.uint64)
    if kind == 2:
        return counts * 0.37 - 11.0
    return counts - 2**62 if kind == 3 and not monotone else counts


def seeds(n: int) -> Callable[[], Iterator[int]]:
    """Return the first n tapes."""
    return lambda: iter(range(n))
