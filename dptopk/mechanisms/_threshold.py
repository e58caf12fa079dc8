"""Queries against one noisy threshold: the kernel, and its exact replay when it can't decide."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dptopk import _core
from dptopk.reference import sparse_vector as exact
from dptopk.reference.race import Tape
from dptopk.rng import acquire, release

__all__ = ["ThresholdTests", "threshold_tests"]


class ThresholdTests:
    """Tests against one noisy threshold, in as many runs as wanted, until `hits` have hit.

    The threshold's noise is drawn by the first run. Its bits are kept, for no
    test may see another noise: also those that only an exact replay needed.

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

    def run(self, queries: np.ndarray, rng: Any) -> tuple[np.ndarray, bool]:
        """Return a bool a query tested, True for a hit, and whether privately drawn.

        Queries are int64 or float64, contiguous and finite. Those past the
        last hit are not tested.
        """
        source = acquire(rng)
        try:
            return self._run(queries, source), source.private
        finally:
            release(source)

    def _run(self, queries: np.ndarray, source: _core.Source) -> np.ndarray:
        base, offset = _parts(self.threshold, queries.dtype.kind == "f")
        if self._noise is None:
            self._noise = exact.Laplace(int(source.read(1)[0]))
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
