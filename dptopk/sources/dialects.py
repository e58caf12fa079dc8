"""What each dialect of SQL calls things: only where databases differ, and exactness hangs on it.

A statement (`dptopk.sources.statements`) is the same for all but for this. Each kind of
label (`dptopk.sources.labels`) has a **key** in SQL, on which rows are made distinct, grouped
and sorted: equal labels have equal keys, the keys' order is that of the labels whatever the
collation, time zone or session, and what is null or stands for nothing (NaN, an infinite
date) has the key NULL. Few kinds are **shown** in another form than their key, so that no
driver can round or retype them on the way.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from dptopk.sources import bounds, labels
from dptopk.sources.bounds import Words
from dptopk.sources.keys import no_labels
from dptopk.sources.labels import Kind
from dptopk.sources.on_duckdb import DUCKDB_KEYS, duckdb_kind

__all__ = [
    "DIALECTS",
    "Dialect",
    "kind_of",
    "name_of",
    "offline_kind",
    "packed",
    "storage",
    "text_literal",
    "unpacked",
]


class Dialect(NamedTuple):
    """A dialect; ``{}`` or ``{0}`` in a form is a value, a column or a text.

    Attributes
    ----------
    quote : str
        What stands around a name.
    words : Words
        What the rank of a bound is made of.
    keys : mapping
        Forms of keys by kind; a column itself where there is none.
    shown : mapping
        Forms by kind in which keys come out; as they are where there is none.
    of_hex : str
        The text of bytes in UTF-8 that are written in hexadecimal.
    bytes_of_hex : str
        The bytes themselves.
    double, integer : str
        Types of 64-bit floats and integers.
    other : str
        Where values have types and columns have none: whether one is of another than this.
    """

    quote: str
    words: Words
    keys: Mapping[str, str]
    shown: Mapping[str, str]
    of_hex: str
    bytes_of_hex: str
    double: str
    integer: str
    other: str = ""


_US = "CAST({0}::date - DATE '1970-01-01' AS bigint) * 86400000000"
_US = f"{_US} + CAST(extract(epoch FROM {{0}}::time) * 1000000 AS bigint)"
# Past that, microseconds since 1970 do not fit into 64 bits.
_US = f"CASE WHEN isfinite({{0}}) AND {{0}} < TIMESTAMP '294247-01-01' THEN {_US} END"

_POSTGRES = Dialect(
    quote='"',
    words=Words(
        text="CAST({} AS text)",
        integer="CAST({} AS bigint)",
        hex="encode({}, 'hex')",
        decimal="{}",  # of a key without needless zeros
        md5="md5({})",
    ),
    keys={
        "text": 'CAST({} COLLATE "C" AS text)',
        "uuid": 'CAST({} AS text) COLLATE "C"',
        "float": "nullif(CAST({} AS double precision) + 0.0, 'NaN')",
        "decimal": "nullif(trim_scale({}), 'NaN')",
        "date": "CASE WHEN isfinite({0}) THEN {0} - DATE '1970-01-01' END",
        "timestamp": _US,
        "timestamp with time zone": _US.format("({0} AT TIME ZONE 'UTC')"),
    },
    # A session may have floats written with fewer digits than they have.
    shown={"float": "encode(float8send({}), 'hex')", "decimal": "CAST({} AS text)"},
    of_hex="convert_from(decode('{}', 'hex'), 'UTF8')",
    bytes_of_hex="decode('{}', 'hex')",
    double="double precision",
    integer="bigint",
)

_SQLITE = Dialect(
    quote='"',
    words=Words(
        text="CAST({} AS TEXT)",
        integer="CAST({} AS INTEGER)",
        hex="lower(hex({}))",
        decimal="{}",
        md5="dptopk_md5({})",
    ),
    # A plus takes away the affinity, by which comparing would convert.
    keys=dict.fromkeys(("text", "integer", "bytes"), "+{} COLLATE BINARY") | {"float": "+{} + 0.0"},
    shown={},
    of_hex="CAST(x'{}' AS TEXT)",
    bytes_of_hex="x'{}'",
    double="REAL",
    integer="INTEGER",
    other="typeof({}) <> '{}'",
)

_DUCKDB = Dialect(
    quote='"',
    words=bounds.DUCKDB,
    keys=DUCKDB_KEYS | {"float": "nullif(CAST({} AS DOUBLE) + 0.0, 'NaN')"},
    shown={"decimal": "CAST({} AS VARCHAR)"},
    of_hex="decode(unhex('{}'))",
    bytes_of_hex="unhex('{}')",
    double="DOUBLE",
    integer="BIGINT",
)

DIALECTS = {"postgres": _POSTGRES, "sqlite": _SQLITE, "duckdb": _DUCKDB}


# ---- kinds

_SIGNED = {bits: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (16, 32, 64)}
_POSTGRES_TYPES = {
    "text": labels.TEXT,
    "character varying": labels.TEXT,
    "character": labels.TEXT,
    "smallint": labels.INTEGER._replace(limits=_SIGNED[16]),
    "integer": labels.INTEGER._replace(limits=_SIGNED[32]),
    "bigint": labels.INTEGER._replace(limits=_SIGNED[64]),
    "boolean": labels.BOOLEAN,
    "real": labels.FLOAT._replace(single=True),
    "double precision": labels.FLOAT,
    "numeric": labels.DECIMAL,
    "bytea": labels.BYTES,
    "date": labels.DATE,
    "timestamp without time zone": labels.TIMESTAMP._replace(unit="us"),
    "timestamp with time zone": labels.ZONED._replace(unit="us"),
    "uuid": labels.UUID,
}
_SQLITE_TYPES = {
    "text": labels.TEXT,
    "integer": labels.INTEGER._replace(limits=_SIGNED[64]),
    "real": labels.FLOAT,
    "blob": labels.BYTES,
}
_TYPES = {"postgres": _POSTGRES_TYPES, "sqlite": _SQLITE_TYPES}


def kind_of(dialect: str, name: str, dtype: str) -> Kind | None:
    """Return the kind of labels that a column of this type holds, None if only nulls.

    Raises
    ------
    SourceError
        A type that is no kind of label.
    """
    if dialect == "duckdb":
        return duckdb_kind(name, dtype)
    kind = _TYPES[dialect].get(dtype)
    if kind is None:
        raise no_labels(name, dtype)
    return kind


def offline_kind(dialect: str, name: str) -> Kind:
    """Return a kind by its name, of a column that nobody has looked at."""
    return next(kind for kind in _TYPES[dialect].values() if kind.name == name)


def storage(kind: Kind) -> str:
    """Return SQLite's word for the values of a kind."""
    return next(word for word, other in _SQLITE_TYPES.items() if other.name == kind.name)


# ---- names and values


def name_of(dialect: Dialect, *parts: str) -> str:
    """Return a name in quotes, so that it means itself; of several parts, joined by dots."""
    quote = dialect.quote
    return ".".join(f"{quote}{part.replace(quote, quote * 2)}{quote}" for part in parts)


def text_literal(dialect: Dialect, text: str) -> str:
    """Return a text as it stands in a statement, where no character of it means anything else.

    Examples
    --------
    >>> print(text_literal(DIALECTS["postgres"], "it's"))
    'it''s'
    >>> print(text_literal(DIALECTS["postgres"], chr(92)))
    convert_from(decode('5c', 'hex'), 'UTF8')
    """
    if "\\" not in text and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return dialect.of_hex.format(text.encode().hex())


def packed(value: float) -> str:
    """Return the 8 bytes of a float in hexadecimal."""
    return struct.pack(">d", value).hex()


def unpacked(shown: str) -> float:
    """Return the float of `packed`."""
    return float(struct.unpack(">d", bytes.fromhex(shown))[0])
