"""Rounded against you: budgets down, costs, scales and thresholds up. Nowhere else.

A function whose name ends in `up` returns the least double that is not below
the exact value, one that ends in `down` the largest that is not above it: both
are found by comparing exact fractions. Arguments are doubles (or integers or
fractions) and are taken for the exact numbers that they are.

What comes out of logarithms and roots has no exact fraction to compare with:
`padded` adds a stated number of units for what the operations may have lost.
Every operation of IEEE arithmetic is within half a unit of 2^-52 (so within one
unit of 2^-53) of the exact result, the library's exp, log and tanh within two.

`tests/test_rounding.py` tries every function on all pairs of some hundred
awkward doubles, and sees to it that no other module rounds by itself.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from functools import lru_cache

__all__ = [
    "UNIT",
    "above",
    "below",
    "difference_down",
    "down",
    "padded",
    "product_up",
    "quotient_up",
    "root_up",
    "sum_up",
    "up",
]

#: The relative error of one rounding.
UNIT = 2.0**-53

Number = int | float | Fraction


def above(x: float) -> float:
    """Return the next double above."""
    return math.nextafter(x, math.inf)


def below(x: float) -> float:
    """Return the next double below."""
    return math.nextafter(x, -math.inf)


def up(value: Number) -> float:
    """Return the least double that is at least a number; inf past the largest.

    Examples
    --------
    >>> up(Fraction(1, 10)), up(Fraction(1, 3)) > 1 / 3, up(2**53 + 1) == 2**53 + 2
    (0.1, True, True)
    """
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return nearest if nearest >= value else above(nearest)


def down(value: Number) -> float:
    """Return the largest double that is at most a number; -inf past the least.

    Examples
    --------
    >>> down(Fraction(1, 10)) < 0.1, down(Fraction(1, 3)) == 1 / 3, down(2**53 + 1) == 2**53
    (True, True, True)
    """
    try:
        nearest = float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -math.inf
    return nearest if nearest <= value else below(nearest)


def sum_up(*values: float) -> float:
    """Return the sum, up; inf if one is."""
    if math.inf in values:
        return math.inf
    return up(sum(map(Fraction, values), Fraction(0)))


def difference_down(a: float, b: float) -> float:
    """Return a - b, down."""
    return down(Fraction(a) - Fraction(b))


def product_up(a: float, b: float) -> float:
    """Return a b, up, for a and b > 0; inf if one is."""
    if math.isinf(a) or math.isinf(b):
        return math.inf
    return up(Fraction(a) * Fraction(b))


@lru_cache(maxsize=4096)
def quotient_up(a: float, b: float) -> float:
    """Return a / b, up, for a, b > 0; inf if a is."""
    return math.inf if math.isinf(a) else up(Fraction(a) / Fraction(b))


def root_up(value: int | Fraction) -> float:
    """Return the square root, up, of a number >= 0 within the range of doubles."""
    root = math.sqrt(value)  # may be off by a few units where the number is no double
    while Fraction(root) ** 2 < value:
        root = above(root)
    while root and Fraction(below(root)) ** 2 >= value:
        root = below(root)
    return root


def padded(value: float, size: float | None = None, *, units: int = 16) -> float:
    """Return value + units 2^-53 size, up: more than the operations before it can have lost.

    `size` is the sum of the sizes of all terms, by default the value itself,
    where all are positive. Errors add up to about one unit an operation.
    """
    charge = units * UNIT * (value if size is None else size)
    return above(value + charge)
