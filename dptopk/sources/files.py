"""Files of events as one DuckDB relation; nothing is read before it is counted.

What a file means is decided by its name, its header line or its schema, never
by its rows: a reader that guesses types or a dialect from the rows would let
one user change how everybody's rows are read. So text formats are read as text
(00123 and 123 are two users), the dialect of CSV is fixed but for the
delimiter, which the header line tells, and files whose types differ are refused.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from dptopk._validate import boolean, choice, integer
from dptopk.errors import SourceError
from dptopk.sources.headers import Columns
from dptopk.sources.interrupt import stopping
from dptopk.sources.on_duckdb import duckdb_kind
from dptopk.sources.paths import NAMED, Paths, expand, format_of, quoted
from dptopk.sources.readers import How, Reader, of_file, of_stream
from dptopk.sources.streams import is_stream

__all__ = ["checked_directory", "checked_limit", "closed", "connect", "opened", "read_events"]


def connect(
    *, temp_directory: str | os.PathLike[str] | None = None, memory_limit: str | None = None
) -> Any:
    """Open an in-memory DuckDB that loads no code, and writes no files that nobody asked for.

    Extensions are not fetched or loaded by themselves.

    Parameters
    ----------
    temp_directory : path, optional
        An existing directory for what does not fit into memory: events, which
        are private. By default nothing is written, and what does not fit is an
        error.
    memory_limit : str, optional
        Such as "2GB"; 80% of the machine's memory by default.
    """
    try:
        import duckdb
    except ImportError:
        raise ImportError("reading files needs DuckDB: pip install 'dptopk[files]'") from None
    config: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "temp_directory": "" if temp_directory is None else checked_directory(temp_directory),
        "preserve_insertion_order": "false",
    }
    if memory_limit is not None:
        config["memory_limit"] = checked_limit(memory_limit)
    con = duckdb.connect(config=config)
    # Measured, for con.query_progress(), but not drawn.
    for setting in ("progress_bar = true", "progress_bar_print = false"):
        con.execute(f"SET enable_{setting}")
    con.execute("SET progress_bar_time = 0")
    return con


@contextlib.contextmanager
def opened(
    *, temp_directory: str | os.PathLike[str] | None = None, memory_limit: str | None = None
) -> Iterator[Any]:
    """Open a DuckDB as `connect` does, and close it at the end.

    What it writes to the directory stands in a folder that only the owner can
    read, and is removed however the body ends. Ctrl-C stops what it does.
    """
    with contextlib.ExitStack() as stack:
        folder = None
        if temp_directory is not None:
            parent = checked_directory(temp_directory)
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(
                    prefix="dptopk-", dir=parent, ignore_cleanup_errors=True
                )
            )
        con = connect(temp_directory=folder, memory_limit=memory_limit)
        stack.callback(closed, con)
        stack.enter_context(stopping(con.interrupt))
        yield con


def closed(con: Any) -> None:
    """Close a connection; one that Ctrl-C left at work closes when that is done."""
    with contextlib.suppress(Exception):
        con.close()


def checked_directory(path: str | os.PathLike[str], name: str = "temp_directory") -> str:
    """Return a directory that is there and can be written to."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, got {type(path).__name__}")
    folder = os.fspath(path)
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{name} must be a directory that can be written to, got {folder!r}")
    return os.path.abspath(folder)


def checked_limit(limit: str) -> str:
    """Return a limit of memory, as DuckDB takes it."""
    if not isinstance(limit, str):
        raise TypeError(f"memory_limit must be a text such as '2GB', got {type(limit).__name__}")
    if not re.fullmatch(r" *[0-9]+(\.[0-9]+)? *([KMGT]i?)?B *", limit, re.IGNORECASE):
        raise ValueError(f"memory_limit must be a size such as '2GB' or '500MiB', got {limit!r}")
    return limit


def read_events(
    paths: Paths,
    *,
    user: str | int,
    item: str | int,
    by: Sequence[str | int] = (),
    format: str | None = None,
    header: bool = True,
    delimiter: str | None = None,
    distinct: bool = True,
    connection: Any = None,
) -> Any:
    """Open files of events as one relation of two columns, and those of groups.

    Parameters
    ----------
    paths : path, glob or sequence of them
        CSV, TSV, Parquet, JSON lines (or a JSON array), by extension, text
        formats also as .gz or .zst. ``-`` is standard input; it, pipes and
        FIFOs are read once, are CSV unless `format` says otherwise, and may be
        gzipped. Parquet can't be read from a stream.
    user, item : str or int
        Names of the columns, spelt exactly so; in a CSV or TSV their numbers,
        from 1, too. In text formats every label is text, as written. Parquet
        keeps its own types.
    by : sequence of str or int
        Further columns likewise.
    format : {"csv", "tsv", "parquet", "json"}, optional
        The format of all files, whatever their names are.
    header : bool, default True
        Whether CSV and TSV have a header line. Without one columns go by
        number.
    delimiter : str, optional
        Of CSV. By default the one (comma, semicolon, tab or bar) under which
        the header has both columns; a comma where there is no header.
    distinct : bool, default True
        Whether rows that stand there again may be left out, as they are of streams.
    connection : duckdb.DuckDBPyConnection, optional
        Where to run; a new one from `connect` by default.

    Returns
    -------
    duckdb.DuckDBPyRelation
        Columns ``str(user)``, ``str(item)`` and those of `by`, for
        `dptopk.sources.frames.count_users`.

    Raises
    ------
    SourceError
        A file that is missing, of unknown format or unreadable, has no such
        column, or has it of another type than the other files: one person
        would be two. A CSV without as much as a header line is refused as
        empty; a header without rows, and a file of JSON lines without any,
        hold no events, which is no error: whether there are events is data.
        The message names files and columns, no data.
    TypeError, ValueError
        An option of the wrong kind, or a column number below 1.
    ImportError
        DuckDB is not installed.
    """
    columns = (
        _checked_column("user", user),
        _checked_column("item", item),
        *(_checked_column("by", column) for column in by),
    )
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ValueError("delimiter must be one character, and no quote or line break")
    form = None if format is None else NAMED[choice("format", format, NAMED)]
    how = How(columns, boolean("header", header), delimiter)
    con = connect() if connection is None else connection
    # One reader for all files alike, and one SELECT for each reader.
    readers: dict[Reader, list[str]] = {}
    for number, path in enumerate(expand(paths)):
        if is_stream(path):
            reader = of_stream(
                con, path, form or format_of(path) or "CSV", how, number, distinct=distinct
            )
        else:
            reader = of_file(con, path, form, how)
        if reader is not None:
            readers.setdefault(reader, []).append(path)
    _check_agreement(readers, columns)
    names = [quoted(str(column)) for column in columns]
    selects = [reader.select(paths, names) for reader, paths in readers.items()]
    if not selects:  # files without a header and without rows
        selects = ["SELECT {} LIMIT 0".format(", ".join(f"'' AS {name}" for name in names))]
    return con.sql(" UNION ALL ".join(selects))


def _checked_column(name: str, column: Any) -> str | int:
    if isinstance(column, str):
        return column
    return integer(name, column)


def _check_agreement(readers: dict[Reader, list[str]], columns: Columns) -> None:
    """Refuse files whose types differ: cast to a common one, one label would be two.

    Integers of all sizes have a common type that keeps every value.
    """
    for place, column in enumerate(columns):
        seen: dict[str, str] = {}
        for reader, paths in readers.items():
            dtype = reader.types[place]
            kind = duckdb_kind(str(column), dtype)
            seen.setdefault(
                "integer" if (kind is not None and kind.name == "integer") else dtype, paths[0]
            )
        if len(seen) > 1:
            (one, first), (other, second) = list(seen.items())[:2]
            raise SourceError(
                f"column {str(column)!r} is {one} in {first} and {other} in {second}: equal labels "
                "would not meet; write the files with one type"
            )
