"""Counting paths under a staircase: a window of each row, all of it, or transforms of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import scipy.signal

from benchmarks.row import Row
from benchmarks.timing import medians_ms
from dptopk import _core

KS = (100, 300, 1_000, 3_000)
Array = npt.NDArray[np.float64]


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield times of a count, and how far off the transforms are."""
    for k in KS[:2] if quick else KS:
        for name, bound in shapes(k):
            contenders: dict[str, Callable[[], object]] = {
                "window": partial(_core.Staircase, bound),
                "pairs": partial(_core.Staircase, bound, "pairs"),
            }
            contenders["direct"] = partial(whole_rows, bound, np.convolve)
            contenders["transforms"] = partial(whole_rows, bound, scipy.signal.fftconvolve)
            ms = medians_ms(contenders, repeats=1 if k > 500 else 3, warm_up=0)
            others = {other: ms[other] for other in ("direct", "transforms")}
            best = min(others, key=others.__getitem__)
            work = f"paths, k={k}, {name}: the count in doubles (in pairs {ms['pairs']:.3g} ms)"
            off = off_by(bound)
            against = (
                f"whole rows, {best} (direct {ms['direct']:.3g},"
                f" transforms {ms['transforms']:.3g}, off by {off:.1g})"
            )
            yield Row(work, ms["window"], against, ms[best], ms["window"] / ms[best], "", None)


def shapes(k: int) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """Yield staircases: along a straight line, and along a curve."""
    i = np.arange(k)
    yield "10 i", 10 * i
    yield "1000 (i / k)^3 k", (1e3 * k * (i / k) ** 3).astype(np.int64)


def off_by(bound: npt.NDArray[np.int64]) -> float:
    """How far the transforms are from the logarithm of the count."""
    found = _core.Staircase(bound).log()
    assert found is not None
    return abs(whole_rows(bound, scipy.signal.fftconvolve) - found[0])


def whole_rows(bound: npt.NDArray[np.int64], convolve: Callable[[Array, Array], Array]) -> float:
    """Return the logarithm of the count, by products of whole rows, tilted as in csrc/paths.c."""
    k = bound.size
    stairs = _core.Staircase(bound).stairs()
    row = np.zeros(k + 1)
    row[0] = 1.0
    log_count, below, before = 0.0, 0, 0
    for s, (height, placed, theta, _, _) in enumerate(stairs):
        gap, m = height - below, np.arange(1, k - before + 1)
        steps = np.log(theta) + np.log1p((gap - 1) / m)
        weights = np.exp(gap * math.log1p(-theta) + np.concatenate([[0.0], np.cumsum(steps)]))
        log_count -= gap * math.log1p(-theta) + (placed - before) * math.log(theta)
        row[before:] = convolve(row[before:], weights)[: k + 1 - before]
        row[:placed] = 0.0
        if s + 1 < len(stairs):
            row[placed:] *= (stairs[s + 1][2] / theta) ** np.arange(k + 1 - placed)
        np.maximum(row, 0.0, out=row)  # transforms leave negative dust
        largest = row.max()
        row /= largest
        log_count += math.log(largest)
        below, before = height, placed
    return log_count + math.log(row[k]) if row[k] > 0 else -math.inf
