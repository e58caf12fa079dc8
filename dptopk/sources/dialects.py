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

from dptopk.sources import bounds
from dptopk.sources.bounds import Words
from dptopk.sources.on_duckdb import DUCKDB_KEYS

__all__ = ["DIALECTS", "Dialect", "name_of", "packed", "text_literal", "unpacked"]


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
    decimal : str
        The type of decimals of so many digits, and so many after the point.
    other : str
        Where values have types and columns have none: whether one is of another than this.
    end : str
        What stands at the end of each statement.
    """

    quote: str
    words: Words
    keys: Mapping[str, str]
    shown: Mapping[str, str]
    of_hex: str
    bytes_of_hex: str
    double: str
    integer: str
    decimal: str = "DECIMAL({}, {})"
    other: str = ""
    end: str = ""


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
        md5='md5({}) COLLATE "C"',  # a collation may take digits for numbers
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
    keys=dict.fromkeys(("text", "integer", "float", "bytes"), "+{} COLLATE BINARY"),
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
    shown={},
    of_hex="decode(unhex('{}'))",
    bytes_of_hex="unhex('{}')",
    double="DOUBLE",
    integer="BIGINT",
)

# A server may be set to leave out what goes past a limit: whose rows, would be up to others'.
_OVERFLOWS = (
    *("read_overflow_mode", "read_overflow_mode_leaf", "timeout_overflow_mode"),
    *("timeout_overflow_mode_leaf", "set_overflow_mode", "group_by_overflow_mode"),
    *("sort_overflow_mode", "distinct_overflow_mode", "join_overflow_mode"),
    *("transfer_overflow_mode", "result_overflow_mode"),
)
_CLICKHOUSE = Dialect(
    quote='"',
    words=Words(
        text="toString({})",
        integer="toInt64({})",
        hex="lower(hex({}))",
        # A setting says whether it writes zeros at the end.
        decimal="if(position({0}, '.') = 0, {0}, "
        "trim(TRAILING '.' FROM trim(TRAILING '0' FROM {0})))",
        md5="lower(hex(MD5({})))",
    ),
    keys={
        "text": "toString({})",
        "uuid": "toString({})",  # its own order is that of the second half first
        "float": "if(isNaN({0}), NULL, toFloat64({0}) + 0.0)",
        "date": "toInt32({})",
        "timestamp with time zone": "toUnixTimestamp64Micro(toDateTime64({}, 6, 'UTC'))",
        "timestamp with time zone in ns": "toUnixTimestamp64Nano(toDateTime64({}, 9, 'UTC'))",
    },
    shown={},
    of_hex="unhex('{}')",
    bytes_of_hex="unhex('{}')",
    double="Float64",
    integer="Int64",
    end="SETTINGS limit = 0, offset = 0" + "".join(f",\n  {name} = 'throw'" for name in _OVERFLOWS),
)

_SPARK = Dialect(
    quote="`",
    words=bounds.SPARK,
    keys={
        "text": "CAST({} AS STRING)",
        "float": "nullif(CAST({} AS DOUBLE) + CAST(0 AS DOUBLE), CAST('NaN' AS DOUBLE))",
        "date": "unix_date({})",
        "timestamp with time zone": "unix_micros({})",
    },
    shown={"decimal": "CAST({} AS STRING)"},
    of_hex="decode(unhex('{}'), 'UTF-8')",
    bytes_of_hex="unhex('{}')",
    double="DOUBLE",
    integer="BIGINT",
)

_BIGQUERY = Dialect(
    quote="`",
    words=Words(
        text="CAST({} AS STRING)",
        integer="CAST({} AS INT64)",
        hex="TO_HEX({})",
        decimal="{}",
        md5="TO_HEX(MD5({}))",
    ),
    keys={
        "text": "COLLATE({}, '')",
        "date": "UNIX_DATE({})",
        "timestamp": "UNIX_MICROS(TIMESTAMP({}, 'UTC'))",
        "timestamp with time zone": "UNIX_MICROS({})",
    },
    shown={"decimal": "CAST({} AS STRING)"},
    of_hex="SAFE_CONVERT_BYTES_TO_STRING(FROM_HEX('{}'))",
    bytes_of_hex="FROM_HEX('{}')",
    double="FLOAT64",
    integer="INT64",
)

DIALECTS = {
    "postgres": _POSTGRES,
    "bigquery": _BIGQUERY,
    "clickhouse": _CLICKHOUSE,
    "spark": _SPARK,
    "duckdb": _DUCKDB,
    "sqlite": _SQLITE,
}


# ---- names and values


def name_of(dialect: Dialect, *parts: str) -> str:
    """Return a name in quotes, so that it means itself; of several parts, joined by dots."""
    quote = dialect.quote
    for part in parts:
        odd = quote in part or "\\" in part
        if odd and dialect not in (_POSTGRES, _SQLITE, _DUCKDB):
            raise ValueError(f"the name {part!r} has a character that is written in other ways")
    return ".".join(f"{quote}{part.replace(quote, quote * 2)}{quote}" for part in parts)


def text_literal(dialect: Dialect, text: str) -> str:
    """Return a text as it stands in a statement, where no character of it means anything else.

    Examples
    --------
    >>> print(text_literal(DIALECTS["postgres"], "tea"))
    'tea'
    >>> print(text_literal(DIALECTS["postgres"], "it's"))
    convert_from(decode('69742773', 'hex'), 'UTF8')
    """
    if text.isprintable() and "'" not in text and "\\" not in text:
        return f"'{text}'"
    return dialect.of_hex.format(text.encode().hex())


def packed(value: float) -> str:
    """Return the 8 bytes of a float in hexadecimal."""
    return struct.pack(">d", value).hex()


def unpacked(shown: str) -> float:
    """Return the float of `packed`."""
    return float(struct.unpack(">d", bytes.fromhex(shown))[0])
