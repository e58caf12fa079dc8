"""DuckDB: relations of two columns as keys, and what narwhals has no word for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dptopk.errors import SourceError
from dptopk.sources import labels
from dptopk.sources.bounds import DUCKDB, rank_sql
from dptopk.sources.keys import Keyed, codes, find, in_engine, integers, named, no_labels
from dptopk.sources.labels import Kind
from dptopk.sources.paths import literal

if TYPE_CHECKING:
    from dptopk.sources.groups import Listed

__all__ = [
    "DUCKDB_KEYS",
    "among",
    "duckdb_kind",
    "form_of",
    "in_groups",
    "listed",
    "of_dataset",
    "of_ibis",
    "of_relation",
    "ranked",
    "rows",
    "with_column",
]

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_DUCKDB = {
    f"{u}{name}": labels.INTEGER._replace(limits=integers(f"{u}Int{bits}"))
    for u in ("", "U")
    for name, bits in _BITS.items()
} | {
    "VARCHAR": labels.TEXT,
    "BOOLEAN": labels.BOOLEAN,
    "FLOAT": labels.FLOAT._replace(single=True),
    "DOUBLE": labels.FLOAT,
    "BLOB": labels.BYTES,
    "DATE": labels.DATE,
    "UUID": labels.UUID,
    "TIMESTAMP": labels.TIMESTAMP._replace(unit="us"),
    "TIMESTAMP_S": labels.TIMESTAMP._replace(unit="us"),
    "TIMESTAMP_MS": labels.TIMESTAMP._replace(unit="us"),
    "TIMESTAMP_NS": labels.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": labels.ZONED._replace(unit="us"),
    "TIMESTAMPTZ_NS": labels.ZONED,
}
# Dates and timestamps that are infinite, or past what DuckDB can calculate with,
# become nulls. It compares text by the connection's collation, under which the
# rows would decide which of two equal labels is shown: hence the bytes' own order.
DUCKDB_KEYS = {
    "text": "CAST({} AS VARCHAR) COLLATE C",
    "uuid": "CAST({} AS VARCHAR) COLLATE C",
    "float": "CAST({} AS DOUBLE) + 0.0",
    "date": "CASE WHEN isfinite({0}) THEN {0} - DATE '1970-01-01' END",
    "timestamp": "TRY(epoch_us({}))",
    "timestamp with time zone": "epoch_us({})",
    "timestamp in ns": "CASE WHEN isfinite({0}) THEN epoch_ns({0}) END",
    "timestamp with time zone in ns": "epoch_ns({})",
}


def duckdb_kind(name: str, dtype: str) -> Kind | None:
    """Return the kind of labels that a column of this DuckDB type holds."""
    if dtype == '"NULL"':
        return None
    if dtype.startswith("ENUM(") and not dtype.endswith("]"):
        return labels.TEXT
    if dtype.startswith("DECIMAL(") and not dtype.endswith("]"):
        digits, scale = map(int, dtype[len("DECIMAL(") : -1].split(","))
        return labels.DECIMAL._replace(limits=(digits, scale))
    if dtype not in _DUCKDB:
        # No more of a nested type than its head: an enum's values are data.
        raise no_labels(name, dtype if dtype.isidentifier() else "nested or custom")
    return _DUCKDB[dtype]


def form_of(kind: Kind) -> str:
    """Return the name under which `DUCKDB_KEYS` has a kind, or one alike."""
    return f"{kind.name} in ns" if f"{kind.name} in {kind.unit}" in DUCKDB_KEYS else kind.name


def of_ibis(table: Any) -> Any:
    """Return the relation of an Ibis table.

    Raises
    ------
    SourceError
        One of another database: the order of its texts may be any.
    """
    backend = table.get_backend()
    if backend.name != "duckdb":
        raise SourceError(
            f"Ibis tables are taken where DuckDB runs them, and this one is of {backend.name}; "
            "give its query to dptopk.Histogram.from_sql"
        )

    def relation() -> Any:
        table.head(0).count().to_pyarrow()  # brings its tables in memory to DuckDB
        return backend.con.sql(backend.compile(table))

    return in_engine(relation)


def of_dataset(dataset: Any, *wanted: str) -> Keyed:
    """Return columns of a PyArrow dataset, which DuckDB reads piece by piece."""
    from dptopk.sources.files import connect

    relation = in_engine(connect().from_arrow, dataset)
    # Two names that differ in case only DuckDB makes different.
    return of_relation(relation, *wanted, names=dataset.schema.names)


def of_relation(relation: Any, *wanted: str, names: list[str] | None = None) -> Keyed:
    """Return columns of a relation as keys."""
    import narwhals as nw

    names = relation.columns if names is None else names
    types = [str(dtype) for dtype in relation.types]
    # By place: DuckDB's own look-up ignores case, and takes a name apart at its
    # dots and quotes.
    places = [find(names, name) for name in wanted]
    kinds = [duckdb_kind(name, types[place]) for name, place in zip(wanted, places, strict=True)]
    keys, nulls = [], {1: "false", 2: "false", 4: "false"}
    for place, kind, as_key, code in zip(
        places, kinds, named(len(wanted)), codes(len(wanted)), strict=True
    ):
        form = "0" if kind is None else DUCKDB_KEYS.get(form_of(kind), "{}")
        key, column = form.format(f"#{place + 1}"), f"#{place + 1}"
        null = f"{column} IS NULL OR {key} IS NULL"
        if kind is not None and kind.name == "float":
            null += f" OR isnan({column})"
        keys.append(f'{key} AS "{as_key}"')
        nulls[code] += f" OR {null}"
    bad = " + ".join(f"{code} * CAST({null} AS TINYINT)" for code, null in nulls.items())
    query = in_engine(relation.project, f'{", ".join(keys)}, {bad} AS "bad"')
    return Keyed.of(nw.from_native(query).lazy(), kinds)


def among(pairs: Any, only: list[Any]) -> Any:
    """Keep the rows of these items, and those with nulls."""
    return pairs.filter(f'"item" IN ({listed(only, pairs.types[1])}) OR "bad" > 0')


def listed(keys: list[Any], dtype: Any) -> str:
    """Return DuckDB's query of these keys."""
    return f"SELECT {_unnested(keys, dtype)}" if keys else "SELECT NULL WHERE false"


def _unnested(keys: list[Any], dtype: Any) -> str:
    """Return these keys as a column: one text, split and cast.

    As so many literals they would take minutes to plan, and a list of large
    integers would be one of doubles.
    """
    texts = list(map(_text, keys))
    number = 0
    while any(f"\x1e{number}\x1f" in text for text in texts):
        number += 1
    separator = f"\x1e{number}\x1f"  # no end of it begins another
    whole = literal(separator.join(texts)).replace("\0", "' || chr(0) || '")
    return f"CAST(unnest(string_split({whole}, '{separator}')) AS {dtype})"


def in_groups(events: Any, listed: Listed) -> Any:
    """Return the rows of listed groups, and those with nulls, with `group` and `name`."""
    if not listed.places:
        return events.project('*, -1 AS "group", \'\' AS "name"').filter('"bad" > 0')
    types = dict(zip(events.columns, events.types, strict=True))
    columns = [
        f"{_unnested(keys, types[listed.column(place)])} AS k{place}"
        for place, keys in enumerate(listed.keys)
    ]
    columns.append(f"{_unnested(listed.places, 'INTEGER')} AS place")
    columns.append(f"{_unnested(listed.names, 'VARCHAR')} AS name")
    tests = [f"{listed.column(place)} = k{place}" for place in range(len(listed.keys))]
    condition = "by_1 >= k0 AND by_1 < k1" if listed.periods else " AND ".join(tests)
    view = f"dptopk_{uuid4().hex}"  # a relation reads it when it is run
    return events.query(
        view,
        f'SELECT "user", "item", "bad", coalesce(place, -1) AS "group", '
        f"coalesce(name, '') AS \"name\" FROM {view} "
        f"LEFT JOIN (SELECT {', '.join(columns)}) AS listed ON {condition} "
        'WHERE place IS NOT NULL OR "bad" > 0',
    )


def with_column(rows: Any, expression: str) -> Any:
    """Add a column that is said in SQL."""
    return rows.project(f"*, {expression}")


def _text(key: Any) -> str:
    """Return a text that DuckDB casts to the key."""
    return "".join(f"\\x{byte:02X}" for byte in key) if isinstance(key, bytes) else str(key)


def ranked(pairs: Any, kinds: tuple[Kind | None, Kind | None], hash_key: str) -> Any:
    """Add a column `rank`; see `dptopk.sources.bounds`."""
    rank = rank_sql(DUCKDB, kinds, '"user"', '"item"', hash_key)
    return pairs.project(f'*, {rank} AS "rank"')


def rows(query: Any) -> tuple[list[Any], ...]:
    """Run a query and return its columns; narwhals would go through PyArrow."""
    fetched = query.fetchall()
    columns = zip(*fetched, strict=True) if fetched else ((),) * len(query.columns)
    return tuple(map(list, columns))
