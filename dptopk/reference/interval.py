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

# mpmath keeps ln 2, and pi, and its precision in two variables that a thread without
# the GIL could read apart. The lock is for who comes through here; others in the
# process (dptopk.accounting, any user of mpmath) write them as well, when they need
# more digits: so these are there from the start.
_LOCK = Lock()
BITS = 1 << 12  # few calls need more

for _constant in (libmp.ln2_fixed, libmp.pi_fixed):
    _constant(BITS)


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

    @classmethod
    def pi(cls, precision: int) -> Interval:
        """Return pi."""
        with _LOCK:
            low, high = (libmp.mpf_pi(precision, rounding) for rounding in "fc")
        return cls(_widen(low, precision, "f"), _widen(high, precision, "c"), precision)

    def hull(self, other: Interval) -> Interval:
        """Return the interval from the lower end of this one to the upper end of the other."""
        return self._with((self.ends[0], other.ends[1]))

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

    def sqrt(self) -> Interval:
        """Return the square root; the interval must not be negative."""
        return self._with(libmpi.mpi_sqrt(self.ends, self.precision))

    def log(self) -> Interval:
        """Return the natural logarithm; the interval must not be negative."""
        low = self._monotone(libmp.mpf_log, self.ends[0], "f")
        return self._with((low, self._monotone(libmp.mpf_log, self.ends[1], "c")))

    def exp(self) -> Interval:
        """Return the exponential."""
        low = self._monotone(libmp.mpf_exp, self.ends[0], "f")
        return self._with((low, self._monotone(libmp.mpf_exp, self.ends[1], "c")))

    def expm1(self) -> Interval:
        """Return the exponential less 1, as precise near 0 as elsewhere."""
        low = self._monotone(_expm1, self.ends[0], "f")
        return self._with((low, self._monotone(_expm1, self.ends[1], "c")))

    def _monotone(self, function: Callable[..., Any], end: Any, rounding: str) -> Any:
        with _LOCK:
            value = function(end, self.precision, rounding)
        return _widen(value, self.precision, rounding)

    def above(self, other: Interval) -> bool:
        """Tell whether every point of this interval is larger than the other's."""
        return bool(libmp.mpf_gt(self.ends[0], other.ends[1]))

    def higher(self, other: Interval) -> bool:
        """Tell whether this interval reaches higher than the other."""
        return bool(libmp.mpf_gt(self.ends[1], other.ends[1]))


def _widen(value: Any, precision: int, rounding: str) -> Any:
    """Move an end outwards by half a unit in its last place at least.

    mpmath rounds an approximation that is good to some bits more, so that the
    true value may lie just beyond.
    """
    if value in (libmp.finf, libmp.fninf):
        return value
    unit = libmp.mpf_shift(libmp.mpf_abs(value), -precision)
    widen = libmp.mpf_sub if rounding == "f" else libmp.mpf_add
    return widen(value, unit, precision, rounding)


def _expm1(x: Any, precision: int, rounding: str) -> Any:
    if x in (libmp.fzero, libmp.finf):
        return x
    cancelled = max(0, 2 - x[2] - x[3])  # x = man 2^exp, of bc bits
    power = libmp.mpf_exp(x, precision + cancelled + 8, rounding)
    return libmp.mpf_sub(power, libmp.fone, precision, rounding)
