"""Budgets as the exact numbers they stand for, and their texts in messages."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, TypeAlias

__all__ = ["Exact", "exact", "told_apart"]

#: What is taken for the exact number that it is.
Exact: TypeAlias = Decimal | Fraction


def exact(value: Any) -> Fraction:
    """Return a number as the fraction it stands for, a float as the decimal it prints as."""
    if isinstance(value, (int, Fraction, Decimal)):
        return Fraction(value)
    return Fraction(repr(float(value)))


def told_apart(value: Fraction, other: Fraction) -> tuple[str, str]:
    """Write two different numbers with as few digits as tell them apart, but at least six."""
    for digits in range(6, 18):
        texts = _short(value, digits), _short(other, digits)
        if texts[0] != texts[1]:
            return texts
    while True:  # the same doubles
        digits *= 2
        context = Context(prec=digits)
        asked, left = (context.divide(*x.as_integer_ratio()) for x in (value, other))
        if asked != left:
            return str(asked), str(left)


def _short(value: Fraction, digits: int) -> str:
    try:
        return f"{float(value):.{digits}g}"
    except OverflowError:
        return "more than any float"
