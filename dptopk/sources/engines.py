"""Columns of DataFrames, lazy queries and DuckDB relations as keys of labels.

The kind of a column is decided by its type in the schema, before any row is
read, and its keys (see `dptopk.sources.labels`) are computed by the engine:
timestamps and dates as integers, categories as what they stand for, 0.0 for
-0.0. So no engine's way of turning a value into a Python object can make two
labels one, or one label two.
"""

from __future__ import annotations

import inspect
import sys
from functools import reduce
from operator import or_
from typing import Any

from dptopk.sources import labels, on_duckdb, on_spark
from dptopk.sources.keys import Keyed, find, in_engine, integers, is_dask, named, no_labels
from dptopk.sources.labels import Kind

__all__ = ["ACCEPTED", "collected", "fetch", "keyed"]

ACCEPTED = (
    "pandas, Polars (eager or lazy), PyArrow tables and datasets, DuckDB relations, Spark, Dask, "
    "Ibis, a dict of columns, a pair of columns, or a list of (user, item) pairs"
)


def keyed(frame: Any, user: str, item: str, *by: str) -> Keyed | None:
    """Return columns of a table as keys; None for pandas objects of other kinds.

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
    native, columns = nw.to_native(frame, pass_through=True), (user, item, *by)
    if _is_dataset(native):
        keyed(native.schema.empty_table(), *columns)  # what DuckDB might read as another type
        return on_duckdb.of_dataset(native, *columns)
    if nw.dependencies.is_ibis_table(native):
        native = on_duckdb.of_ibis(native)
    if nw.dependencies.is_duckdb_relation(native):
        return on_duckdb.of_relation(native, *columns)
    if nw.dependencies.is_pyspark_dataframe(native) or nw.dependencies.is_pyspark_connect_dataframe(
        native
    ):
        return on_spark.of_frame(native, *columns)
    if is_dask(native):
        from dptopk.sources import on_dask  # it calls this for each of its parts

        return on_dask.of_frame(native, *columns)
    names = _names_of(native)
    if names is not None:
        for name in columns:
            find(names, name)
        if nw.dependencies.is_pandas_dataframe(native):
            native = in_engine(_decoded, native[list(columns)], columns)
            if any(in_engine(_needs_python, native[name]) for name in columns):
                return None
        else:
            native = in_engine(_decoded, native, columns)
    lazy = in_engine(_lazy, native)
    if lazy is None:
        hint = "; read files with dptopk.Histogram.from_files" if _is_path(frame) else ""
        raise TypeError(f"events must be {ACCEPTED}; got {type(frame).__name__}{hint}")
    schema = in_engine(lazy.collect_schema)
    if names is None:
        for name in columns:
            find(list(schema), name)
    kinds = [_kind_of(name, schema[name], native) for name in columns]
    no_user, no_item, *no_group = (
        _is_null(name, kind) for name, kind in zip(columns, kinds, strict=True)
    )
    bad = no_user.cast(nw.Int8) + 2 * no_item.cast(nw.Int8)
    if no_group:
        bad = bad + 4 * reduce(or_, no_group).cast(nw.Int8)
    keys = {
        key: _key(name, kind, schema)
        for key, name, kind in zip(named(len(columns)), columns, kinds, strict=True)
    }
    return Keyed.of(lazy.select(**keys, bad=bad), kinds)


def fetch(query: Any) -> tuple[list[Any], ...]:
    """Run a query and return its columns as lists."""
    if is_dask(query):
        from dptopk.sources import on_dask

        return on_dask.rows(query)
    engine = query.implementation
    if engine.is_duckdb():
        return on_duckdb.rows(query.to_native())
    if engine.is_spark_like():
        return on_spark.rows(query.to_native())
    done = collected(query)
    return tuple(done[name].to_list() for name in done.columns)


def collected(query: Any) -> Any:
    """Run a query of tables in memory; of Polars piece by piece, which takes less of it."""
    if query.implementation.is_polars():
        can_stream = "engine" in inspect.signature(query.to_native().collect).parameters
        return query.collect(engine="streaming") if can_stream else query.collect()
    return query.collect()


# ---- names


def _names_of(native: Any) -> list[Any] | None:
    """Return the column names of a table that may hold one twice, or None."""
    import narwhals as nw

    if nw.dependencies.is_pandas_dataframe(native):
        return list(native.columns)
    if nw.dependencies.is_pyarrow_table(native):
        return list(native.column_names)
    return None


def _is_dataset(native: Any) -> bool:
    dataset = sys.modules.get("pyarrow.dataset")
    return dataset is not None and isinstance(native, dataset.Dataset)


def _is_path(frame: object) -> bool:
    return isinstance(frame, str) or hasattr(frame, "__fspath__")


# ---- what narwhals takes


def _lazy(native: Any) -> Any:
    """Return the narwhals lazy frame, or None if narwhals does not take it."""
    import narwhals as nw

    try:
        frame = nw.from_native(native)
    except TypeError:
        return None
    engine = frame.implementation
    tried = engine.is_pandas_like() or engine.is_polars() or engine.is_pyarrow()
    return frame.lazy() if tried else None


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


def _decoded(native: Any, names: tuple[str, ...]) -> Any:
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
        return labels.INTEGER._replace(limits=integers(str(dtype)))
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
