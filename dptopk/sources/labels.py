"""What may be a user or an item, decided once for every source.

A label must be itself whatever the other rows hold: equal labels are written
alike, different ones stay apart, and their order is their own. So there is one
list of kinds. Every value of a kind has a **key**, on which rows are made
distinct, grouped and sorted, and every key gives back one label. Columns of
other types are refused by their type, and values of two kinds never meet in
one column: 7, "7" and 7.0 would be one person to one engine and two to another.

Engines compute keys themselves (`dptopk.sources.frames`); this module does it
for values of Python and NumPy, and turns keys of either into labels.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from dptopk.errors import SourceError

__all__ = ["ALLOWED", "Column", "Domain", "Kind", "column_of", "is_null", "is_unicode", "matched"]

ALLOWED = (
    "text, integers, booleans, floats, bytes, dates, timestamps, decimals, UUIDs, "
    "or tuples of these"
)
_EPOCH = datetime(1970, 1, 1)
_DAY_0 = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
_NANOSECONDS = {"h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}


class Kind(NamedTuple):
    """A kind of labels.

    Attributes
    ----------
    name : str
        As it stands in messages: "text", "integer", ...
    unit : str
        What the key of a timestamp counts: "s", "ms", "us" or "ns", that of its
        column, as far ones do not fit into 64 bits in another. Values of Python
        have keys in "ns".
    limits : (int, int) or None
        What the column's type can hold: the least and the greatest integer, or
        a decimal's digits in all and after the point.
    single : bool
        Whether floats are of 32 bits.
    parts : tuple of Kind
        Those of the elements of a tuple.
    """

    name: str
    unit: str = "ns"
    limits: tuple[int, int] | None = None
    single: bool = False
    parts: tuple[Kind, ...] = ()

    def __str__(self) -> str:
        return f"tuple({', '.join(map(str, self.parts))})" if self.parts else self.name

    def label(self, key: Any) -> Any:
        """Return the label of a key: one for each, and always the same one."""
        if self.name == "tuple":
            return tuple(kind.label(part) for kind, part in zip(self.parts, key, strict=True))
        decode = _DECODE.get(self.name)
        return key if decode is None else decode(self, key)

    def parsed(self, text: str) -> Any:
        """Return the label that a text stands for; a ValueError if it is none of this kind."""
        try:
            return _PARSE[self.name](text)
        except (KeyError, ArithmeticError):  # Decimal's error is no ValueError
            raise ValueError from None


class Column(NamedTuple):
    """Labels as keys of one kind; None for nulls, and no kind if all are."""

    kind: Kind | None
    keys: list[Any]


class Domain(NamedTuple):
    """The items that exist, in the order in which they were given."""

    kind: Kind
    keys: list[Any]
    labels: list[Any]


# ---- from keys to labels


def _instant(kind: Kind, key: int) -> Any:
    """Return a timestamp: a datetime where it is whole microseconds, else a datetime64.

    The same whatever unit the column has.
    """
    nanoseconds = key * _NANOSECONDS[kind.unit]
    microseconds, rest = divmod(nanoseconds, 1000)
    if rest:
        return np.datetime64(nanoseconds, "ns")
    try:
        instant = _EPOCH + microseconds * _MICROSECOND
    except OverflowError:  # before the year 1 or past 9999
        fitting = (u for u in ("us", "ms", "s", "m", "h") if _fits(nanoseconds, _NANOSECONDS[u]))
        unit: Any = next(fitting)  # the finest that holds it
        return np.datetime64(nanoseconds // _NANOSECONDS[unit], unit)
    return instant.replace(tzinfo=timezone.utc) if kind.name == ZONED.name else instant


def _fits(nanoseconds: int, step: int) -> bool:
    """Whether this many nanoseconds are whole steps, so many as 64 bits hold (less NaT)."""
    return not nanoseconds % step and -(2**63) < nanoseconds // step < 2**63


def _day(_: Kind, key: int) -> Any:
    try:
        return date.fromordinal(key + _DAY_0)
    except (ValueError, OverflowError):
        return np.datetime64(key, "D")


_DECODE: dict[str, Callable[[Kind, Any], Any]] = {
    "text": lambda _, key: key if type(key) is str else str.__str__(key),
    "integer": lambda _, key: int(key),
    "boolean": lambda _, key: bool(key),
    "float": lambda _, key: float(key),
    "bytes": lambda _, key: bytes(key),
    "date": _day,
    "timestamp": _instant,
    "timestamp with time zone": _instant,
    "decimal": lambda _, key: _decimal(key),
    "uuid": lambda _, key: uuid.UUID(key),
}

_PARSE: dict[str, Callable[[str], Any]] = {
    "text": str,
    "integer": int,
    "boolean": lambda text: {"true": True, "false": False}[text.lower()],
    "float": float,
    "bytes": str.encode,
    "date": date.fromisoformat,
    "timestamp": np.datetime64,
    "timestamp with time zone": datetime.fromisoformat,
    "decimal": Decimal,
    "uuid": uuid.UUID,
}

TEXT = Kind("text")
INTEGER = Kind("integer")
BOOLEAN = Kind("boolean")
FLOAT = Kind("float")
BYTES = Kind("bytes")
DATE = Kind("date")
TIMESTAMP = Kind("timestamp")
ZONED = Kind("timestamp with time zone")
DECIMAL = Kind("decimal")
UUID = Kind("uuid")


# ---- from values to keys


def is_null(value: Any) -> bool:
    """Tell None, and what does not equal itself: NaN of any type, NaT, pandas' NA."""
    if value is None:
        return True
    if isinstance(value, Decimal):  # comparing a signalling NaN raises
        return value.is_nan()
    if type(value) is tuple:
        return any(map(is_null, value))
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # NA has no truth value, an array has several
        return type(value).__name__ == "NAType"


def is_unicode(text: str) -> bool:
    """Whether a text is without lone surrogates, which UTF-8 can't write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Refused(Exception):
    """A value of a type that is not a kind of label; caught in this module."""


def _decimal(value: Decimal) -> Decimal:
    """Return a decimal without trailing zeros: 1, 1.0 and 1.00 are written alike."""
    if not value.is_finite():
        return value
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    while len(digits) > 1 and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    if digits == (0,):
        return Decimal(0)
    if 0 < exponent <= 30:  # 100 in place of 1E+2
        digits, exponent = digits + (0,) * exponent, 0
    return Decimal((sign, digits, exponent))


def _timestamp(value: datetime) -> tuple[Kind, int]:
    """Return the nanoseconds since 1970 of a datetime."""
    offset = value.utcoffset()
    past = value.replace(tzinfo=None) - _EPOCH  # as a timedelta, which the year 9999 can't overflow
    kind = TIMESTAMP if offset is None else ZONED
    return kind, (past - (offset or timedelta())) // _MICROSECOND * 1000


def _datetime64(value: np.datetime64) -> tuple[Kind, int]:
    unit, step = np.datetime_data(value.dtype)
    if unit in ("Y", "M", "W", "D"):
        days = value.astype("M8[D]")
        if days.astype(value.dtype) != value:  # a year that its days don't fit
            raise _Refused
        return DATE, int(days.astype(np.int64))
    if unit not in _NANOSECONDS:  # finer ones, and none at all
        raise _Refused
    return TIMESTAMP, int(value.astype(np.int64)) * step * _NANOSECONDS[unit]


def _tuple(value: tuple[Any, ...]) -> tuple[Kind, tuple[Any, ...]]:
    parts = [_key_of(part) for part in value]
    return Kind("tuple", parts=tuple(k for k, _ in parts)), tuple(key for _, key in parts)


# By exact type: what inherits from these may compare and print as it likes.
_ENCODE: dict[type, Callable[[Any], tuple[Kind, Any]]] = {
    str: lambda value: (TEXT, value),
    int: lambda value: (INTEGER, value),
    bool: lambda value: (BOOLEAN, value),
    float: lambda value: (FLOAT, value + 0.0),  # -0.0 is 0.0
    bytes: lambda value: (BYTES, value),
    date: lambda value: (DATE, value.toordinal() - _DAY_0),
    datetime: _timestamp,
    Decimal: lambda value: (DECIMAL, _decimal(value)),
    uuid.UUID: lambda value: (UUID, str(value)),
    tuple: _tuple,
}


def _key_of(value: Any) -> tuple[Kind, Any]:
    """Return the kind and the key of a value that is not null."""
    if isinstance(value, np.datetime64):
        return _datetime64(value)
    if isinstance(value, np.generic) and value.dtype.kind in "biufSU":
        if isinstance(value, np.longdouble):  # more digits than a float holds
            raise _Refused
        value = value.item()
    if type(value).__name__ == "Timestamp" and isinstance(value, datetime):  # that of pandas
        kind = TIMESTAMP if value.tzinfo is None else ZONED
        return kind, _datetime64(value.to_datetime64())[1]  # type: ignore[attr-defined]
    encode = _ENCODE.get(type(value))
    if encode is None:
        raise _Refused
    return encode(value)


def column_of(name: str, values: list[Any]) -> Column:
    """Return a column of Python and NumPy values as keys of one kind.

    Raises
    ------
    SourceError
        Labels of a type that is not on the list, or of two kinds. Only types
        are named.
    """
    types = set(map(type, values))
    if types == {str}:
        return Column(TEXT, values)
    if types == {int}:
        return Column(INTEGER, values)
    kinds: set[Kind] = set()
    keys: list[Any] = []
    refused = None
    for value in values:
        if is_null(value):
            keys.append(None)
            continue
        try:
            kind, key = _key_of(value)
        except _Refused:
            refused = type(value).__name__
            break
        kinds.add(kind)
        keys.append(key)
    if refused is not None:  # out here, where no exception holds the value
        raise SourceError(
            f"column {name!r} holds labels of type {refused}; labels must be {ALLOWED}"
        )
    if len(kinds) > 1:
        raise SourceError(
            f"column {name!r} holds labels of mixed kinds ({', '.join(sorted(map(str, kinds)))}); "
            "make them all of one kind"
        )
    return Column(kinds.pop() if kinds else None, keys)


# ---- domains


def matched(domain: Domain, kind: Kind | None, name: str) -> list[Any]:
    """Return the keys that a column of this kind has for the domain's labels.

    None stands for a label that no value of the column can be: half a
    microsecond in a column of whole ones, 300 in one of bytes.

    Raises
    ------
    TypeError
        The column is of another kind: every count would be 0.
    """
    if kind is None:  # no value, no type
        return domain.keys
    if (kind.name, kind.parts) != (domain.kind.name, domain.kind.parts):
        raise TypeError(f"column {name!r} is of kind {kind}, the domain of kind {domain.kind}")
    if kind.single:
        for key in domain.keys:
            if float(np.float32(key)) != key:
                raise TypeError(
                    f"column {name!r} holds 32-bit floats, and the domain's {key!r} is none; "
                    "give numpy.float32 values"
                )
    if kind.name in (TIMESTAMP.name, ZONED.name) and kind.unit != "ns":
        step = _NANOSECONDS[kind.unit]
        return [key // step if _fits(key, step) else None for key in domain.keys]
    if kind.limits is None:
        return domain.keys
    first, last = kind.limits
    if kind.name == "integer":
        return [key if first <= key <= last else None for key in domain.keys]
    return [_rescaled(key, first, last) for key in domain.keys]


def _rescaled(key: Decimal, digits: int, scale: int) -> Decimal | None:
    """Return a decimal with so many digits after the point, if that is exact and fits."""
    sign, numerals, exponent = key.as_tuple()
    if not isinstance(exponent, int) or not -scale <= exponent <= digits:
        return None
    numerals += (0,) * (exponent + scale)
    return Decimal((sign, numerals, -scale)) if len(numerals) <= digits or not key else None
