"""Tests of queries against one noisy threshold: the kernel, and its replay if it can't decide."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dptopk import _core
from dptopk._validate import probability, scores_array
from dptopk.answers import Answers
from dptopk.errors import ExhaustedError
from dptopk.mechanisms._calibrate import scale_of
from dptopk.release import Cost
from dptopk.rng import acquire, check_rng, release
from dptopk.rounding import difference_down, product_up

if TYPE_CHECKING:
    from dptopk.reference.sparse_vector import Laplace

__all__ = [
    "OnlineTests",
    "Scales",
    "ThresholdTests",
    "query_array",
    "query_number",
    "scales",
    "threshold_tests",
]


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
    second = difference_down(epsilon, first)
    if not (first > 0.0 and second > 0.0):
        raise ValueError("epsilon is too small to split")
    distance = product_up(times, sensitivity)
    if not math.isfinite(distance):
        raise ValueError("sensitivity is too large: the noise scale is past the range of floats")
    return Scales(share, scale_of(first, sensitivity), scale_of(second, distance))


class ThresholdTests:
    """Tests against one noisy threshold, in any number of runs, until `hits` have hit.

    The first run draws the threshold's noise. Its bits are kept, those that only an
    exact replay needed too, since all tests must see the same noise.

    Parameters
    ----------
    threshold : int or float
        Finite.
    threshold_scale, query_scale : float
        Scales of the Laplace noises; the threshold's may be 0, for none.
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
        self._noise: Laplace | None = None

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
        from dptopk.reference import sparse_vector as exact  # loads mpmath
        from dptopk.reference.race import Tape

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


class OnlineTests:
    """Tests that are spread over calls: what they cost, and what has come out.

    Threads take turns. Another process would spend the same hits once more: a
    forked one is refused, and the lock keeps it from being pickled.

    Parameters
    ----------
    tests : ThresholdTests
        Not begun.
    cost : Cost
        Of all tests; charged whole before the first.
    mechanism : str
        Its name.
    parameters : dict
        The public ones.
    most : int or None
        How many tests there may be.
    valued : bool
        Whether values are released beside the bits.
    rng : optional
        As in `dptopk.rng.acquire`.
    """

    def __init__(
        self,
        tests: ThresholdTests,
        *,
        cost: Cost,
        mechanism: str,
        parameters: dict[str, Any],
        most: int | None = None,
        valued: bool,
        rng: Any,
    ):
        check_rng(rng)
        self.mechanism = mechanism
        self.parameters = parameters
        self._tests = tests
        self._cost = cost
        self._most = most
        self._rng = rng
        self._charged = False
        self._private = True
        self._bits = bytearray()
        self._values: list[Any] | None = [] if valued else None
        self._lock = Lock()
        self._pid = os.getpid()

    @property
    def exhausted(self) -> bool:
        """Whether all was used up that the cost pays for: no test is left."""
        return self._tests.left == 0 or len(self._bits) == self._most

    @property
    def cost(self) -> Cost:
        """What it has cost so far: nothing before the first test, then all of it."""
        return self._cost if self._charged else Cost(0.0, 0.0, "nothing was drawn")

    def result(self) -> Answers:
        """Return what has come out so far."""
        with self._lock:
            return Answers(
                bits=np.array(self._bits, np.uint8).view(np.bool_),
                values=None if self._values is None else tuple(self._values),
                exhausted=self.exhausted,
                cost=self.cost,
                mechanism=self.mechanism,
                private=self._private,
                parameters=self.parameters,
            )

    def _run(
        self,
        queries: np.ndarray,
        values: Callable[[np.ndarray], tuple[list[Any], bool]] | None = None,
    ) -> np.ndarray:
        """Test, and keep the bits, and the values that `values` makes of them."""
        # Before the lock, that another thread may have held when the process was forked.
        if self._pid != os.getpid():
            raise RuntimeError("these tests belong to another process")
        with self._lock:
            if self.exhausted:
                raise ExhaustedError("all that the cost pays for has been used up")
            self._charged = True
            left = None if self._most is None else self._most - len(self._bits)
            bits, private = self._tests.run(queries[:left], self._rng)
            made, safe = ([], True) if values is None else values(bits)
            self._private &= private and safe
            self._bits += bits.tobytes()
            if self._values is not None:
                self._values += made
            return bits


def _parts(threshold: int | float, real: bool) -> tuple[int, float]:
    """Return the threshold as an int64 and a double that add up to it within 2^-54.

    Exactly but for a negative one smaller than 2^-53 and the like: then the double is
    1, and the error that the kernel allows for covers what is missing.
    """
    if real or not -(2.0**63) <= threshold < 2.0**63:
        return 0, float(threshold)
    base = math.floor(threshold)
    return base, float(threshold - base)


def query_array(name: str, values: Any) -> np.ndarray:
    """Return queries as a contiguous, aligned array of int64 or float64, all finite."""
    array = scores_array(name, values)
    if array.dtype == np.uint64 and array.size and array.max() >= 2**63:
        raise ValueError(f"{name} must be below 2**63")
    return np.require(array, np.float64 if array.dtype.kind == "f" else np.int64, ["C", "A"])


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
