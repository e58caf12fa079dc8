"""Columns of DataFrames, lazy queries and DuckDB relations as keys of labels.

The kind of a column is decided by its type in the schema, before any row is
read, and its keys (see `dptopk.sources.labels`) are computed by the engine:
timestamps and dates as integers, categories as what they stand for, 0.0 for
-0.0. So no engine's way of turning a value into a Python object can make two
labels one, or one label two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dptopk.errors import SourceError
from dptopk.sources import labels
from dptopk.sources.labels import Kind

__all__ = [
    "ACCEPTED",
    "DUCKDB_KEYS",
    "Keyed",
    "duckdb_kind",
    "fetch",
    "find",
    "form_of",
    "in_engine",
    "keyed",
    "no_column",
    "no_labels",
]

ACCEPTED = (
    "pandas, Polars (eager or lazy), PyArrow and other tables that narwhals takes, DuckDB "
    "relations, a dict of columns, a pair of columns, or a list of (user, item) pairs"
)


class Keyed(NamedTuple):
    """Two columns of keys, as a lazy query.

    Attributes
    ----------
    query : narwhals.LazyFrame
        Columns `user`, `item`, and `bad`: 1 where the user is null, 2 where the
        item is, 3 where both are, else 0.
    kinds : (Kind or None, Kind or None)
        Of users and items; None for a column of nulls without a type.
    """

    query: Any
    kinds: tuple[Kind | None, Kind | None]


def keyed(frame: Any, user: str, item: str) -> Keyed | None:
    """Return the two columns of a table as keys; None for pandas objects of other kinds.

    Those are Python values, of which pandas knows neither the kind nor an
    order: they are counted as plain Python is.

    Raises
    ------
    SourceError
        A column that is missing or stands there twice, or is of a type that
        holds no labels.
    TypeError
        A frame that narwhals does not take.
    ImportError
        narwhals is not installed.
    """
    try:
        import narwhals as nw
    except ImportError:
        raise ImportError(
            "reading DataFrames needs narwhals: pip install 'dptopk[files]'"
        ) from None
    native = nw.to_native(frame, pass_through=True)
    if nw.dependencies.is_duckdb_relation(native):
        return _of_relation(native, user, item)
    names = _names_of(native)
    if names is not None:
        find(names, user)
        find(names, item)
        if nw.dependencies.is_pandas_dataframe(native):
            native = in_engine(_decoded, native[[user, item]], (user, item))
            if any(in_engine(_needs_python, native[name]) for name in (user, item)):
                return None
        else:
            native = in_engine(_decoded, native, (user, item))
    lazy = in_engine(_lazy, native)
    if lazy is None:
        hint = "; read files with dptopk.Histogram.from_files" if _is_path(frame) else ""
        raise TypeError(f"events must be {ACCEPTED}; got {type(frame).__name__}{hint}")
    schema = in_engine(lazy.collect_schema)
    if names is None:
        find(list(schema), user)
        find(list(schema), item)
    of_user, of_item = (_kind_of(name, schema[name], native) for name in (user, item))
    bad = _is_null(user, of_user).cast(nw.Int8) + 2 * _is_null(item, of_item).cast(nw.Int8)
    keys = {"user": _key(user, of_user, schema), "item": _key(item, of_item, schema)}
    return Keyed(lazy.select(**keys, bad=bad), (of_user, of_item))


def in_engine(work: Callable[..., Any], *args: Any) -> Any:
    """Call `work`; replace an engine's error, which may quote data, by one that does not."""
    try:
        return work(*args)
    except (SourceError, ImportError):
        raise
    except Exception as error:
        kind = type(error).__name__
        interrupted = isinstance(error, RuntimeError) and "interrupted" in str(error)
    if interrupted:  # DuckDB's word for Ctrl-C
        raise KeyboardInterrupt
    # Raised out here, so that not even __context__ holds the engine's message.
    if kind in ("MemoryError", "OutOfMemoryException"):
        raise SourceError("the distinct (user, item) pairs do not fit in memory")
    raise SourceError(
        "the events could not be read and counted: a malformed, cut short or non-UTF-8 row, "
        f"or a failure of the engine ({kind})"
    )


def fetch(query: Any) -> tuple[list[Any], ...]:
    """Run a query and return its columns as lists."""
    if query.implementation.is_duckdb():
        native = query.to_native()  # narwhals would go through PyArrow
        rows = native.fetchall()
        columns = zip(*rows, strict=True) if rows else ((),) * len(native.columns)
        return tuple(map(list, columns))
    done = query.collect()
    return tuple(done[name].to_list() for name in done.columns)


# ---- names


def _names_of(native: Any) -> list[Any] | None:
    """Return the column names of a table that may hold one twice, or None."""
    import narwhals as nw

    if nw.dependencies.is_pandas_dataframe(native):
        return list(native.columns)
    if nw.dependencies.is_pyarrow_table(native):
        return list(native.column_names)
    return None


def find(names: Sequence[Any], name: Any) -> int:
    """Return the place of the column that is named exactly so."""
    places = [place for place, other in enumerate(names) if other == name]
    if len(places) > 1:
        raise SourceError(f"two columns are named {name!r}; rename one of them")
    if not places:
        columns = f"; columns: {', '.join(map(repr, names))}"
        raise SourceError(no_column(name, names) + columns)
    return places[0]


def no_column(name: str, names: Sequence[Any]) -> str:
    """Return the words for a column that is not there, with one that differs in case only."""
    alike = [other for other in names if str(other).casefold() == name.casefold()]
    return f"no column {name!r}" + (f", but {alike[0]!r}" if alike else "")


def _is_path(frame: object) -> bool:
    return isinstance(frame, str) or hasattr(frame, "__fspath__")


# ---- what narwhals takes


def _lazy(native: Any) -> Any:
    """Return the narwhals lazy frame, or None if narwhals does not take it."""
    import narwhals as nw

    try:
        return nw.from_native(native).lazy()
    except TypeError:
        return None


def _needs_python(series: Any) -> bool:
    """Whether a pandas column holds Python objects that pandas does not count rightly.

    It does so for text alone: it orders objects of several kinds by first
    appearance, and its hash table ends text at a NUL (pandas 2), or fails on a
    lone surrogate (pandas 3).
    """
    if series.dtype != object and getattr(series.dtype, "storage", None) != "python":
        return False
    try:
        values = set(series.to_numpy(dtype=object).tolist())
    except Exception:  # one that has no hash, whatever it raises instead
        return True
    missing = [value for value in values if type(value) is not str]
    if not all(map(labels.is_null, missing)):
        return True
    text = "".join(values.difference(missing))
    return "\0" in text or not labels.is_unicode(text)


def _decoded(native: Any, names: tuple[str, str]) -> Any:
    """Return a table of pandas or PyArrow with the values of dictionaries in their place.

    Categories sort by an order that may stem from the data, hash by code, and
    as text 1 and "1" would be one.
    """
    import narwhals as nw

    for name in names:
        if nw.dependencies.is_pandas_dataframe(native):
            dtype = native[name].dtype
            if hasattr(dtype, "categories"):
                plain = native[name].astype(dtype.categories.dtype)
            elif str(dtype).startswith("dictionary"):
                plain = native[name].astype(type(dtype)(dtype.pyarrow_dtype.value_type))
            else:
                continue
            native = native.assign(**{name: plain})
        else:
            column = native.column(name)
            if str(column.type).startswith("dictionary"):
                place = native.column_names.index(name)
                native = native.set_column(place, name, column.cast(column.type.value_type))
    return native


def _kind_of(name: str, dtype: Any, native: Any) -> Kind | None:
    """Return the kind of labels that a column of this type holds."""
    import narwhals as nw

    if dtype.is_integer():
        return labels.INTEGER._replace(limits=_range(str(dtype)))
    if isinstance(dtype, nw.Decimal):
        return labels.DECIMAL._replace(limits=_digits(name, dtype, native))
    if dtype in (nw.Float32, nw.Float64):
        return labels.FLOAT._replace(single=dtype == nw.Float32)
    if isinstance(dtype, nw.Datetime):
        kind = labels.TIMESTAMP if dtype.time_zone is None else labels.ZONED
        return kind._replace(unit=dtype.time_unit)
    for held, kind in (
        ((nw.String, nw.Categorical, nw.Enum), labels.TEXT),
        ((nw.Boolean,), labels.BOOLEAN),
        ((nw.Binary,), labels.BYTES),
        ((nw.Date,), labels.DATE),
    ):
        if isinstance(dtype, held):
            return kind
    if dtype == nw.Unknown and str(_native_type(native, name)) in ("Null", "null"):
        return None
    raise no_labels(name, dtype)


def _range(name: str) -> tuple[int, int]:
    """Return the least and the greatest integer of a type: Int8, UInt64, ..."""
    bits = int(name.rpartition("t")[2])
    return (0, 2**bits - 1) if name.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _digits(name: str, dtype: Any, native: Any) -> tuple[int, int] | None:
    """Return the digits of a decimal in all and after the point; None if nobody says."""
    if not hasattr(dtype, "precision"):  # of an older narwhals
        dtype = _native_type(native, name)
        dtype = getattr(dtype, "pyarrow_dtype", dtype)
    precision, scale = getattr(dtype, "precision", None), getattr(dtype, "scale", None)
    return None if precision is None or scale is None else (precision, scale)


def _native_type(native: Any, name: str) -> Any:
    """Return the type of a column as its own library has it, or None."""
    if hasattr(native, "collect_schema"):  # Polars
        return native.collect_schema()[name]
    if hasattr(native, "schema"):  # PyArrow
        return native.schema.field(name).type
    return getattr(native, "dtypes", {}).get(name)


def no_labels(name: str, dtype: Any) -> SourceError:
    """Return the error for a column of a type that holds no labels."""
    return SourceError(
        f"column {name!r} is of type {dtype}, which holds no labels: they must be "
        f"{labels.ALLOWED}; cast it to text or integers"
    )


def _is_null(name: str, kind: Kind | None) -> Any:
    import narwhals as nw

    column = nw.col(name)
    null = column.is_null()
    return null | column.is_nan() if kind is not None and kind.name == "float" else null


def _key(name: str, kind: Kind | None, schema: Any) -> Any:
    """Return the expression of a column's keys; what it makes of nulls does not matter."""
    import narwhals as nw

    column, dtype = nw.col(name), schema[name]
    if kind is None:
        return nw.lit(0)
    if isinstance(dtype, (nw.Categorical, nw.Enum)):
        return column.cast(nw.String)
    if kind.name == "float":  # 0.0 for -0.0; adding it is what an optimizer leaves out
        column = column.cast(nw.Float64)
        return nw.when(column == 0.0).then(nw.lit(0.0)).otherwise(column)
    if kind.name == "date":
        return column.cast(nw.Int32)
    if isinstance(dtype, nw.Datetime):
        return column.cast(nw.Int64)
    return column


# ---- DuckDB

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_DUCKDB = {
    f"{u}{name}": labels.INTEGER._replace(limits=_range(f"{u}Int{bits}"))
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
# become nulls. It compares text by the
# connection's collation, under which the rows would decide which of two equal
# labels is shown: hence the bytes' own order.
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


def _of_relation(relation: Any, user: str, item: str) -> Keyed:
    import narwhals as nw

    names, types = relation.columns, [str(dtype) for dtype in relation.types]
    # By place: DuckDB's own look-up ignores case, and takes a name apart at its
    # dots and quotes.
    places = [find(names, name) for name in (user, item)]
    of_user, of_item = (
        duckdb_kind(name, types[place]) for name, place in zip((user, item), places, strict=True)
    )
    columns = []
    for place, kind in zip(places, (of_user, of_item), strict=True):
        form = "0" if kind is None else DUCKDB_KEYS.get(form_of(kind), "{}")
        key, column = form.format(f"#{place + 1}"), f"#{place + 1}"
        null = f"{column} IS NULL OR {key} IS NULL"
        if kind is not None and kind.name == "float":
            null += f" OR isnan({column})"
        columns.append((key, f"({null})"))
    (u, no_u), (i, no_i) = columns
    bad = f"CAST({no_u} AS TINYINT) + 2 * CAST({no_i} AS TINYINT)"
    query = in_engine(relation.project, f'{u} AS "user", {i} AS "item", {bad} AS "bad"')
    return Keyed(nw.from_native(query).lazy(), (of_user, of_item))
