"""How each format of files becomes some columns: a table function of DuckDB and its options."""

from __future__ import annotations

import contextlib
import glob
import gzip
import os
import zlib
from typing import Any, NamedTuple

from dptopk.errors import SourceError
from dptopk.sources.headers import Columns, Table, first_record, open_binary, table_of
from dptopk.sources.interrupt import interruptible
from dptopk.sources.keys import find, no_column
from dptopk.sources.paths import FORMATS, format_of, literal, packing_of, quoted
from dptopk.sources.streams import Stream, fed, open_stream

__all__ = ["How", "Reader", "of_file", "of_stream", "parquet_columns", "rows_of"]


class How(NamedTuple):
    """How text files are to be read, whatever is in them."""

    columns: Columns
    header: bool
    delimiter: str | None


class Reader(NamedTuple):
    """How files of one shape are read.

    Attributes
    ----------
    function : str
        A table function of DuckDB, or the name of a table that holds a stream.
    options : str
        Its further arguments.
    types : tuple of str
        DuckDB's types of the columns.
    values : tuple of str
        SQL for their values.
    """

    function: str
    options: str
    types: tuple[str, ...]
    values: tuple[str, ...]

    def select(self, paths: list[str], names: list[str]) -> str:
        """Return the query of the columns of some files, under these names."""
        columns = ", ".join(
            f"{value} AS {name}" for value, name in zip(self.values, names, strict=True)
        )
        return f"SELECT {columns} FROM {self.source(paths)}"

    def source(self, paths: list[str]) -> str:
        """Return what stands behind FROM for some files."""
        if not self.options:
            return self.function
        files = ", ".join(literal(glob.escape(path)) for path in paths)
        return f"{self.function}([{files}]{self.options})"


def _texts(how: How) -> tuple[str, ...]:
    return ("VARCHAR",) * len(how.columns)


def of_file(con: Any, path: str, form: str | None, how: How) -> Reader | None:
    """Return the reader of a file; None if it holds no rows, nor what would name columns."""
    form = form or format_of(path)
    if form is None:
        raise SourceError(
            f"{path}: unknown format; the name must end in {', '.join(FORMATS)} "
            "(text formats also .gz or .zst), or say which by format"
        )
    _check_uncut(path)
    if form == "Parquet":
        return _of_parquet(con, path, how)
    packing = f", compression = '{packing_of(path)}'"
    if form == "JSON":
        return _of_json(con, path, how, packing)
    try:
        record = _zst_record(con, path) if packing.endswith("'zstd'") else _record(path)
    except (OSError, EOFError, zlib.error):
        record = None
    if record is None:
        raise SourceError(f"{path}: not readable as {form}: malformed or cut short")
    if not record and not how.header:
        return None
    table = table_of(record, path, form=form, **how._asdict())
    options = packing + _csv_options(table, how.header)
    return Reader("read_csv", options, _texts(how), _csv_values(table))


def _record(path: str) -> bytes:
    with open_binary(path) as file:
        return first_record(file)


def _zst_record(con: Any, path: str) -> bytes | None:
    """Return the first line of a .zst file, which Python can't unpack in all versions."""
    line = "columns = {'line': 'VARCHAR'}, delim = '\\x01', quote = '', escape = '', comment = ''"
    options = f"auto_detect = false, header = false, compression = 'zstd', {line}"
    rows = rows_of(con, f"FROM read_csv({literal(glob.escape(path))}, {options}) LIMIT 1")
    return None if rows is None else (rows[0][0] or "").encode() if rows else b""


def _csv_options(table: Table, header: bool) -> str:
    """Return options under which nothing is guessed from the rows."""
    columns = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(table.width))
    return (
        f", auto_detect = false, header = {str(header).lower()}, columns = {{{columns}}}, "
        f"delim = {literal(table.delimiter)}, quote = '\"', escape = '\"', comment = '', "
        "ignore_errors = false, null_padding = false"
    )


def _csv_values(table: Table) -> tuple[str, ...]:
    return tuple(f"c{place}" for place in table.places)


def parquet_columns(con: Any, path: str) -> list[str] | None:
    """Return the names of a Parquet file's columns as they are written there."""
    rows = rows_of(con, f"SELECT name, num_children FROM parquet_schema({literal(path)})")
    if not rows:
        return None
    names, inner = [], [0]  # how many children are still to come, level by level
    for name, children in rows[1:]:
        if len(inner) == 1:
            names.append(name)
        else:
            inner[-1] -= 1
        if children:
            inner.append(children)
        while len(inner) > 1 and not inner[-1]:
            inner.pop()
    return names


def _of_parquet(con: Any, path: str, how: How) -> Reader:
    options = ", union_by_name = true, hive_partitioning = false"
    source = f"read_parquet([{literal(glob.escape(path))}]{options})"
    described = rows_of(con, f"DESCRIBE SELECT * FROM {source}")
    names = parquet_columns(con, path)
    if not described or not names or len(names) != len(described):
        raise SourceError(f"{path}: not readable as Parquet: malformed or cut short")
    try:
        places = [find(names, column) for column in how.columns]
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None
    # DuckDB's name for a column differs from the file's where two differ in case only.
    values = tuple(quoted(described[place][0]) for place in places)
    types = tuple(described[place][1] for place in places)
    if "TIMESTAMP WITH TIME ZONE" in types:  # of DuckDB 1, which cuts off nanoseconds
        fine = rows_of(
            con,
            f"SELECT 1 FROM parquet_schema({literal(path)}) WHERE logical_type LIKE '%NANOS=Nano%'",
        )
        if fine and _duckdb_major() < 2:
            raise SourceError(f"{path}: nanoseconds with a time zone need DuckDB 2")
    return Reader("read_parquet", options, types, values)


def _json_options(columns: Columns) -> str:
    typed = ", ".join(f"{literal(str(name))}: 'JSON'" for name in dict.fromkeys(columns))
    return f", format = 'auto', records = true, columns = {{{typed}}}"


def _json_values(columns: Columns) -> tuple[str, ...]:
    """Return SQL for labels as text; one object can be written in many ways."""
    return tuple(
        f"CASE WHEN json_type({name}) IN ('OBJECT', 'ARRAY') THEN error('nested') "
        f"ELSE {name} ->> '$' END"
        for name in (quoted(str(column)) for column in columns)
    )


def _of_json(con: Any, path: str, how: How, packing: str) -> Reader | None:
    if os.path.getsize(path) == 0:
        return None
    _check_names(how, path)
    ours = packing + _json_options(how.columns)
    reader = Reader("read_json", ours, _texts(how), _json_values(how.columns))
    objects = f"read_json_objects([{literal(glob.escape(path))}], format = 'auto'{packing})"
    names = [
        row[0]
        for row in rows_of(
            con,
            "SELECT DISTINCT unnest(json_keys(json)) AS name "
            f"FROM (FROM {objects} LIMIT 20000) ORDER BY name",
        )
        or []
    ]
    missing = [column for column in how.columns if column not in names]
    if not missing:
        return reader
    if rows_of(con, f"FROM {reader.source([path])} LIMIT 1") == []:  # an array of nothing
        return None
    if not names:
        raise SourceError(f"{path}: not readable as JSON: malformed, cut short or not UTF-8")
    raise SourceError(f"{path}: {no_column(str(missing[0]), names)}")


def _check_names(how: How, path: str) -> None:
    if any(isinstance(column, int) for column in how.columns):
        raise SourceError(f"{path}: columns of JSON go by name")


def of_stream(
    con: Any, path: str, form: str, how: How, number: int, *, distinct: bool
) -> Reader | None:
    """Read a stream, which can be read once only, into a table of its rows."""
    if form == "Parquet":
        raise SourceError(f"{path}: Parquet can't be read from a stream; save it to a file first")
    stream = open_stream(path)
    try:
        source = _json_stream(path, how) if form == "JSON" else _csv_stream(stream, path, form, how)
    except BaseException:
        stream.close()
        raise
    if source is None:
        stream.close()
        return None
    function, options, values, first = source
    name = f"dptopk_stream_{number}"
    with fed(stream, first, path) as pipe:
        names = tuple(f"k{place}" for place in range(len(values)))
        columns = ", ".join(f"{value} AS {key}" for value, key in zip(values, names, strict=True))
        rows = f"SELECT {'DISTINCT ' * distinct}{columns} FROM"
        query = f"CREATE TEMP TABLE {name} AS {rows} {function}({literal(pipe)}{options})"
        if interruptible(lambda: rows_of(con, query)) is None:
            raise SourceError(f"{path}: not readable as {form}: malformed or not UTF-8")
    if form == "JSON":
        counts = ", ".join(f"count({key})" for key in names)
        ((some, *of_columns),) = con.execute(f"SELECT count(*), {counts} FROM {name}").fetchall()
        for column, there in zip(how.columns, of_columns, strict=True):
            if some and not there:
                raise SourceError(f"{path}: {no_column(str(column), [])}")
    return Reader(name, "", _texts(how), names)


Source = tuple[str, str, tuple[str, ...], bytes]  # function, options, values, first bytes


def _json_stream(path: str, how: How) -> Source:
    _check_names(how, path)
    return "read_json", _json_options(how.columns), _json_values(how.columns), b""


def _csv_stream(stream: Stream, path: str, form: str, how: How) -> Source | None:
    try:
        first = first_record(stream.file)
    except (OSError, EOFError, zlib.error):
        first = None
    if first is None:
        raise SourceError(f"{path}: not readable as {form}: malformed or cut short")
    if not first and not how.header:
        return None
    table = table_of(first, path, form=form, **how._asdict())
    # With the header, as DuckDB tells from the first line how lines end.
    return "read_csv", _csv_options(table, how.header), _csv_values(table), first


def rows_of(con: Any, query: str) -> list[Any] | None:
    """Run a query; None if it fails. DuckDB's messages quote the row they fail on."""
    import duckdb

    try:
        rows: list[Any] = con.execute(query).fetchall()
    except duckdb.Error:
        return None
    except RuntimeError:  # DuckDB's word for Ctrl-C
        raise KeyboardInterrupt from None
    return rows


def _duckdb_major() -> int:
    import duckdb

    return int(duckdb.__version__.split(".")[0])


def _check_uncut(path: str) -> None:
    """Read a packed file to its end, where DuckDB 1 would take a cut for it."""
    if _duckdb_major() >= 2:
        return
    if path.endswith(".zst"):
        raise SourceError(f"{path}: .zst needs DuckDB 2, which notices a file that was cut short")
    if path.endswith(".gz"):
        with contextlib.suppress(OSError, EOFError, zlib.error), gzip.open(path) as file:
            while file.read(1 << 20):
                pass
            return
        raise SourceError(f"{path}: not readable as gzip: malformed or cut short")
