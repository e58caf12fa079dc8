"""A batch of events as an Arrow table of keys: one door for every table and container.

What a key is, and which kinds there are, is decided where it is for whole tables
(`dptopk.sources.labels`, `dptopk.sources.engines`). Here each kind gets a type
that holds its keys exactly, so that batches can be stored together.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple

from dptopk.errors import SourceError
from dptopk.sources.engines import keyed
from dptopk.sources.keys import in_engine
from dptopk.sources.labels import Column, Kind, is_unicode
from dptopk.sources.plain import NULLS, is_plain, two_columns

__all__ = ["Batch", "Held", "held_with", "read_batch"]

_DIGITS = 38  # of the widest decimals and integers that are stored


class Held(NamedTuple):
    """How the labels of a column are stored: their kind, and DuckDB's type of the keys."""

    kind: Kind
    dtype: str


class Batch(NamedTuple):
    """Keys of a batch without nulls: a table of `user` and `item`, and how each is held.

    None for a column of which no row tells the kind; the table is empty then.
    """

    table: Any
    held: tuple[Held | None, Held | None]


def read_batch(frame: Any, user: str, item: str, nulls: str) -> Batch:
    """Return a batch of events as keys.

    Parameters
    ----------
    frame : table, record batch, relation or plain container of events
        What `dptopk.Histogram.from_events` takes, and PyArrow record batches.
    user, item : str
        Names of the two columns.
    nulls : "error" or "drop"
        What becomes of rows whose user or item is null.

    Raises
    ------
    SourceError
        As for a whole table; and labels that no column holds exactly: tuples,
        numbers of more than 38 digits, text that UTF-8 can't write.
    TypeError
        A frame that is none.
    """
    import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    query = None if is_plain(frame) else keyed(frame, user, item)
    if query is None:
        columns = two_columns(frame, user, item)
        kinds = (columns[0].kind, columns[1].kind)
        arrays = [_array(name, held) for name, held in zip((user, item), columns, strict=True)]
        bad = [a.is_null() for a in arrays]
        table = pa.table({"user": arrays[0], "item": arrays[1]})
    else:
        kinds = query.kinds
        table = in_engine(_collected, query.query)
        flags = table["bad"].to_numpy()
        bad = [pa.array(flags & bit > 0) for bit in (1, 2)]
    table = _without_nulls(table.select(["user", "item"]), bad, (user, item), nulls)
    held = [
        None if kind is None else _stored(name, kind, table.schema.field(place).type)
        for place, (name, kind) in enumerate(zip((user, item), kinds, strict=True))
    ]
    return Batch(table, (held[0], held[1]))


def held_with(name: str, before: Held | None, now: Held | None) -> Held | None:
    """Return how a column is held that has these two; a SourceError if it can't be one.

    Integers of all sizes meet by value, and so do floats and decimals.
    """
    if before is None or now is None:
        return before or now
    one, other = before.kind, now.kind
    if _meeting(one) != _meeting(other):
        raise SourceError(
            f"column {name!r} is of kind {_meeting(other)}, and of kind {_meeting(one)} in the "
            "batches before: equal labels would not meet; make the batches of one type"
        )
    if one.name == "decimal":
        (digits, scale), (more, finer) = one.limits or (1, 0), other.limits or (1, 0)
        point = max(scale, finer)
        return _decimal(name, one, max(digits - scale, more - finer) + point, point)
    dtype = max(before.dtype, now.dtype)  # HUGEINT after BIGINT; else they are the same
    return _held(one._replace(single=one.single and other.single), dtype)


def _meeting(kind: Kind) -> str:
    """Say what two batches must agree in."""
    return f"{kind} in {kind.unit}" if kind.name.startswith("timestamp") else str(kind)


def _collected(query: Any) -> Any:
    """Run a query of keys and return it as an Arrow table."""
    if not query.implementation.is_duckdb():
        return query.collect().to_arrow()
    native = query.to_native()
    # Arrow has no integers of 128 bits: as doubles two of them would be one.
    columns = ", ".join(
        f'CAST("{name}" AS DECIMAL(38, 0)) AS "{name}"' if "HUGEINT" in str(dtype) else f'"{name}"'
        for name, dtype in zip(native.columns, native.types, strict=True)
    )
    return native.project(columns).to_arrow_table()


def _without_nulls(table: Any, bad: list[Any], names: tuple[str, str], nulls: str) -> Any:
    import pyarrow.compute as pc  # type: ignore[import-untyped,unused-ignore]

    for name, flags in zip(names, bad, strict=True):
        if nulls == "error" and pc.any(flags).as_py():
            raise SourceError(f"column {name!r} holds nulls; {NULLS}")
    return table.filter(pc.invert(pc.or_(*bad)))


def _array(name: str, column: Column) -> Any:
    """Return the keys of plain values as an Arrow array."""
    import pyarrow as pa

    kind, keys = column
    if kind is None:
        return pa.nulls(len(keys), pa.int64())
    if kind.name == "tuple":
        raise SourceError(
            f"column {name!r} holds tuples, which a builder does not store; join their parts "
            "into one text"
        )
    if kind.name in _SIMPLE:
        if kind.name == "text" and not all(key is None or is_unicode(key) for key in keys):
            raise SourceError(f"column {name!r} holds text that UTF-8 can't write")
        return pa.array(keys, getattr(pa, _SIMPLE[kind.name])())
    there = [key for key in keys if key is not None]
    if kind.name != "decimal":  # integers, and what is counted by them
        if all(-(2**63) <= key < 2**63 for key in there):
            return pa.array(keys, pa.int64())
        digits, scale = max(len(str(abs(key))) for key in there), 0
    elif not all(key.is_finite() for key in there):
        raise SourceError(f"column {name!r} holds infinite decimals, which a builder can't store")
    else:
        whole, scale = (max(sizes) for sizes in zip(*map(_size, there), strict=True))
        digits = whole + scale
    if digits > _DIGITS:
        raise _too_long(name)
    return pa.array(keys, pa.decimal128(_DIGITS if scale == 0 else digits, scale))


_SIMPLE = {
    "text": "large_string",
    "uuid": "large_string",
    "boolean": "bool_",
    "float": "float64",
    "bytes": "large_binary",
}


def _size(value: Decimal) -> tuple[int, int]:
    """Return how many digits a decimal needs before and after the point."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return max(1, len(digits) + exponent), max(0, -exponent)


def _stored(name: str, kind: Kind, arrow: Any) -> Held:
    """Return how the keys of a kind are stored that came in an Arrow array of this type."""
    if kind.name in _TYPES:
        return Held(kind, _TYPES[kind.name])
    if kind.name == "decimal":
        return _decimal(name, kind, arrow.precision, arrow.scale)
    # Nanoseconds of a domain may be past 64 bits.
    long = str(arrow).startswith(("uint64", "decimal")) or (kind.name, kind.unit) in _LONG
    return _held(kind, "HUGEINT" if long else "BIGINT")


def _held(kind: Kind, dtype: str) -> Held:
    bounded = kind.name == "integer"
    return Held(kind._replace(limits=_LIMITS[dtype]) if bounded else kind, dtype)


_LIMITS = {"BIGINT": (-(2**63), 2**63 - 1), "HUGEINT": (-(2**127), 2**127 - 1)}
_LONG = {("timestamp", "ns"), ("timestamp with time zone", "ns")}
_TYPES = {
    "text": "VARCHAR",
    "uuid": "VARCHAR",
    "boolean": "BOOLEAN",
    "float": "DOUBLE",
    "bytes": "BLOB",
}


def _decimal(name: str, kind: Kind, digits: int, scale: int) -> Held:
    if digits > _DIGITS:
        raise _too_long(name)
    return Held(kind._replace(limits=(digits, scale)), f"DECIMAL({digits}, {scale})")


def _too_long(name: str) -> SourceError:
    return SourceError(
        f"column {name!r} holds numbers of more than {_DIGITS} digits, which a builder can't store"
    )
