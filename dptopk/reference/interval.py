"""Interval arithmetic at any precision, on the directed rounding of mpmath.

mpmath's own interval context keeps its precision in global state; this takes
it as an argument, so that replays in several threads don't meet.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from threading import Lock
from typing import Any

from mpmath import libmp
from mpmath.libmp import libmpi

__all__ = ["Interval"]

# mpmath keeps ln 2 and its precision in two variables that a thread without the
# GIL could read apart.
_LOCK = Lock()


class Interval:
    """A closed interval with ends of `precision` bits, rounded outwards.

    Parameters
    ----------
    low, high : mpmath raw floats
        The ends.
    precision : int
        Bits kept by operations on it.
    """

    __slots__ = ("ends", "precision")

    def __init__(self, low: Any, high: Any, precision: int):
        self.ends = (low, high)
        self.precision = precision

    @classmethod
    def exact(cls, value: int | float | Fraction, precision: int) -> Interval:
        """Return the tightest interval around a rational number."""
        value = Fraction(value)
        return cls(
            libmp.from_rational(value.numerator, value.denominator, precision, "f"),
            libmp.from_rational(value.numerator, value.denominator, precision, "c"),
            precision,
        )

    def _with(self, ends: tuple[Any, Any]) -> Interval:
        return Interval(ends[0], ends[1], self.precision)

    def __add__(self, other: Interval) -> Interval:
        return self._with(libmpi.mpi_add(self.ends, other.ends, self.precision))

    def __sub__(self, other: Interval) -> Interval:
        return self._with(libmpi.mpi_sub(self.ends, other.ends, self.precision))

    def __mul__(self, other: Interval) -> Interval:
        return self._with(libmpi.mpi_mul(self.ends, other.ends, self.precision))

    def __truediv__(self, other: Interval) -> Interval:
        return self._with(libmpi.mpi_div(self.ends, other.ends, self.precision))

    def __neg__(self) -> Interval:
        return self._with(libmpi.mpi_neg(self.ends, self.precision))

    def log(self) -> Interval:
        """Return the natural logarithm; the interval must not be negative."""
        low = self._monotone(libmp.mpf_log, self.ends[0], "f")
        return self._with((low, self._monotone(libmp.mpf_log, self.ends[1], "c")))

    def exp(self) -> Interval:
        """Return the exponential."""
        low = self._monotone(libmp.mpf_exp, self.ends[0], "f")
        return self._with((low, self._monotone(libmp.mpf_exp, self.ends[1], "c")))

    def _monotone(self, function: Callable[..., Any], end: Any, rounding: str) -> Any:
        # mpmath rounds an approximation good to some bits more, so that the true
        # value may lie just beyond: one unit in the last place is added.
        with _LOCK:
            value = function(end, self.precision, rounding)
        unit = libmp.mpf_shift(libmp.mpf_abs(value), -self.precision)
        widen = libmp.mpf_sub if rounding == "f" else libmp.mpf_add
        return (
            value
            if value in (libmp.finf, libmp.fninf)
            else widen(value, unit, self.precision, rounding)
        )

    def above(self, other: Interval) -> bool:
        """Tell whether every point of this interval is larger than the other's."""
        return bool(libmp.mpf_gt(self.ends[0], other.ends[1]))

    def higher(self, other: Interval) -> bool:
        """Tell whether this interval reaches higher than the other."""
        return bool(libmp.mpf_gt(self.ends[1], other.ends[1]))
