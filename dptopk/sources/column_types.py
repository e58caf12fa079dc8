"""What kind of labels a column of a database holds, by its type there."""

from __future__ import annotations

import re

from dptopk.sources import labels
from dptopk.sources.keys import integers, no_labels
from dptopk.sources.labels import Kind
from dptopk.sources.on_duckdb import duckdb_kind

__all__ = ["NOT_IN", "UNSEEN", "kind_of", "storage", "unseen_kind"]

_POSTGRES_TYPES = {
    "text": labels.TEXT,
    "character varying": labels.TEXT,
    "character": labels.TEXT,
    "smallint": labels.INTEGER._replace(limits=integers("Int16")),
    "integer": labels.INTEGER._replace(limits=integers("Int32")),
    "bigint": labels.INTEGER._replace(limits=integers("Int64")),
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
    "integer": labels.INTEGER._replace(limits=integers("Int64")),
    "real": labels.FLOAT,
    "blob": labels.BYTES,
}
_CLICKHOUSE_TYPES = {
    f"{u}Int{bits}": labels.INTEGER._replace(limits=integers(f"{u}Int{bits}"))
    for u in ("", "U")
    for bits in (8, 16, 32, 64, 128, 256)
} | {
    "String": labels.TEXT,
    "Enum8": labels.TEXT,
    "Enum16": labels.TEXT,
    "Bool": labels.BOOLEAN,
    "Float32": labels.FLOAT._replace(single=True),
    "Float64": labels.FLOAT,
    "Date": labels.DATE,
    "Date32": labels.DATE,
    "DateTime": labels.ZONED._replace(unit="us"),
    "DateTime64": labels.ZONED,
    "Decimal": labels.DECIMAL,
    "UUID": labels.UUID,
}


def kind_of(dialect: str, name: str, dtype: str) -> Kind | None:
    """Return the kind of labels that a column of this type holds, None if only nulls.

    Raises
    ------
    SourceError
        A type that is no kind of label.
    """
    if dialect == "duckdb":
        return duckdb_kind(name, dtype)
    if dialect == "clickhouse":
        return _clickhouse_kind(name, dtype)
    kind = (_POSTGRES_TYPES if dialect == "postgres" else _SQLITE_TYPES).get(dtype)
    if kind is None:
        raise no_labels(name, dtype)
    return kind


def _clickhouse_kind(name: str, dtype: str) -> Kind | None:
    while match := re.fullmatch(r"(?:LowCardinality|Nullable)\((.*)\)", dtype, re.DOTALL):
        dtype = match[1]
    if dtype == "Nothing":
        return None
    head, _, rest = dtype.partition("(")
    if head not in _CLICKHOUSE_TYPES:
        raise no_labels(name, head)  # no more of it: the values of an enum are data
    kind = _CLICKHOUSE_TYPES[head]
    numbers = [int(number) for number in re.findall(r"\d+", rest)]
    if head == "Decimal":
        return kind._replace(limits=(numbers[0], numbers[1]))
    return kind._replace(unit="us") if head == "DateTime64" and numbers[0] <= 6 else kind


#: Kinds of columns that a statement can be written for unseen. Of decimals the scale would
#: have to be known.
UNSEEN = {
    kind.name: kind._replace(unit="us")
    for kind in (
        labels.TEXT,
        labels.INTEGER,
        labels.BOOLEAN,
        labels.FLOAT,
        labels.BYTES,
        labels.DATE,
        labels.TIMESTAMP,
        labels.ZONED,
        labels.UUID,
    )
}
#: Those of them that a dialect has no columns of, or can't group.
NOT_IN = {
    "bigquery": ("float", "uuid"),
    "clickhouse": ("bytes", "timestamp"),
    "spark": ("timestamp", "uuid"),
    "sqlite": ("boolean", "date", "timestamp", "timestamp with time zone", "uuid"),
}


def unseen_kind(dialect: str, name: str) -> Kind:
    """Return a kind by its name, for a column that nobody has looked at.

    Raises
    ------
    ValueError
        The dialect has no such columns.
    """
    if name in NOT_IN.get(dialect, ()):
        raise ValueError(f"{dialect} has no labels of kind {name}")
    return UNSEEN[name]


def storage(kind: Kind) -> str:
    """Return SQLite's word for the values of a kind."""
    return next(word for word, other in _SQLITE_TYPES.items() if other.name == kind.name)
