"""Queries against one noisy threshold: the kernel, and its exact replay when it can't decide."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from dptopk import _core
from dptopk._validate import probability, scores_array
from dptopk.errors import ExhaustedError
from dptopk.mechanisms._calibrate import scale_of
from dptopk.reference import sparse_vector as exact
from dptopk.reference.race import Tape
from dptopk.rng import acquire, release

__all__ = ["Scales", "ThresholdTests", "query_array", "query_number", "scales", "threshold_tests"]


class Scales(NamedTuple):
    """The share of epsilon that the threshold takes, and the scales of both noises."""

    split: float
    threshold: float
    query: float


def scales(
    epsilon: float, *, hits: int, monotone: bool, sensitivity: float = 1.0, split: Any = None
) -> Scales:
    """Return the scales of an epsilon-DP sparse vector with up to `hits` hits.

    Threshold s/e1, queries 2 c s/e2 or, monotone, c s/e2, with e1 + e2 = epsilon.
    The best split has e1 : e2 = 1 : (2c)^(2/3), or 1 : c^(2/3): Lyu, Su and Li
    2017, on the allocation of the budget.
    """
    times = hits if monotone else 2 * hits
    share = 1.0 / (1.0 + times ** (2.0 / 3.0))
    if split is not None:
        share = probability("split", split, zero=False)
    first = share * epsilon
    second = math.nextafter(epsilon - first, 0.0)
    if not (first > 0.0 and second > 0.0):
        raise ValueError("epsilon is too small to split")
    distance = times * sensitivity
    if Fraction(distance) < times * Fraction(sensitivity):
        distance = math.nextafter(distance, math.inf)
    return Scales(share, scale_of(first, sensitivity), scale_of(second, distance))


class ThresholdTests:
    """Tests against one noisy threshold, in as many runs as wanted, until `hits` have hit.

    The threshold's noise is drawn by the first run. Its bits are kept, for no
    test may see another noise: also those that only an exact replay needed.
    Threads take turns; another process, which would spend the same hits once
    more, is refused.

    Parameters
    ----------
    threshold : int or float
        Finite.
    threshold_scale, query_scale : float
        Scales of the Laplace noises.
    hits : int
        How many hits there may be.
    above : bool
        Whether a hit is above the noisy threshold, or below.
    """

    def __init__(
        self,
        *,
        threshold: int | float,
        threshold_scale: float,
        query_scale: float,
        hits: int,
        above: bool,
    ):
        self.threshold = threshold
        self.threshold_scale = threshold_scale
        self.query_scale = query_scale
        self.above = above
        self.left = hits
        self._noise: exact.Laplace | None = None
        self._lock = Lock()  # it also keeps the tests from being pickled or copied deeply
        self._pid = 0

    def run(self, queries: np.ndarray, rng: Any) -> tuple[np.ndarray, bool]:
        """Return a bool a query tested, True for a hit, and whether privately drawn.

        Queries are int64 or float64, contiguous and finite. Those past the
        last hit are not tested; if there is none left, it is an error.
        """
        with self._lock:
            if not self.left:
                raise ExhaustedError("all the hits that epsilon pays for have been")
            source = acquire(rng)
            try:
                return self._run(queries, source), source.private
            finally:
                release(source)

    def _run(self, queries: np.ndarray, source: _core.Source) -> np.ndarray:
        base, offset = _parts(self.threshold, queries.dtype.kind == "f")
        if self._noise is None:
            self._noise = exact.Laplace(int(source.read(1)[0]))
            self._pid = os.getpid()
        elif self._pid != os.getpid():
            raise RuntimeError("these tests were begun in another process")
        bits = np.empty(queries.size, np.bool_)
        hit = bits.view(np.uint8)
        tested, undecided = 0, True
        while undecided:
            first = tested
            tested, undecided = _core.sparse_vector(
                source,
                queries,
                base,
                offset,
                self.threshold_scale,
                self.query_scale,
                self._noise.word,
                self.above,
                self.left,
                hit,
                tested,
            )
            if undecided:
                bits[tested] = self.above == exact.exceeds(
                    Tape(source.read, source.fresh),
                    queries[tested].item(),
                    threshold=Fraction(self.threshold),
                    threshold_scale=self.threshold_scale,
                    query_scale=self.query_scale,
                    threshold_noise=self._noise,
                )
                tested += 1
            self.left -= int(np.count_nonzero(bits[first:tested]))
        return bits[:tested]


def threshold_tests(
    queries: np.ndarray,
    *,
    threshold: int | float,
    threshold_scale: float,
    query_scale: float,
    hits: int = 1,
    above: bool = True,
    rng: Any,
) -> tuple[np.ndarray, bool]:
    """Test queries once: see `ThresholdTests` and its `run`."""
    tests = ThresholdTests(
        threshold=threshold,
        threshold_scale=threshold_scale,
        query_scale=query_scale,
        hits=hits,
        above=above,
    )
    return tests.run(queries, rng)


def _parts(threshold: int | float, real: bool) -> tuple[int, float]:
    """Return the threshold as an int64 and a double that add up to it, exactly."""
    if real or not -(2.0**63) <= threshold < 2.0**63:
        return 0, float(threshold)
    base = math.floor(threshold)
    return base, float(threshold - base)


def query_array(name: str, values: Any) -> np.ndarray:
    """Return queries as a contiguous array of int64 or float64, all finite."""
    array = scores_array(name, values)
    if array.dtype == np.uint64 and array.size and array.max() >= 2**63:
        raise ValueError(f"{name} must be below 2**63")
    return np.ascontiguousarray(array, np.float64 if array.dtype.kind == "f" else np.int64)


def query_number(name: str, value: Any) -> int | float:
    """Return a number as an int within int64 or a finite float, exactly; no message shows it."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"{name} must be within int64")
        return int(value)
    if not isinstance(value, (float, np.float16, np.float32)):  # np.float64 is a float
        raise TypeError(f"{name} must be an integer or a float, got {type(value).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite")
    return float(value)
