"""Files of events as one DuckDB relation; nothing is read before it is counted.

What a file means is decided by its name, its header line or its schema, never
by its rows: a reader that guesses types or a dialect from the rows would let
one user change how everybody's rows are read. So text formats are read as text
(00123 and 123 are two users), and the dialect of CSV is fixed but for the
delimiter, which the header line tells.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import os
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dptopk.errors import SourceError

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_FORMATS = {
    ".csv": "CSV",
    ".tsv": "TSV",
    ".tab": "TSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".json": "JSON",
    ".jsonl": "JSON",
    ".ndjson": "JSON",
}
_DELIMITERS = {"CSV": ",;\t|", "TSV": "\t"}
_INTEGERS = {f"{sign}{kind}" for sign in ("", "U") for kind in ("TINYINT", "SMALLINT", "INTEGER")}
_INTEGERS |= {"BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT"}


def connect() -> Any:
    """Open an in-memory DuckDB that neither loads code nor writes files.

    Extensions are not fetched or loaded by themselves, and there is no spill
    directory: events are private and DuckDB would write them to the working
    directory. Who has more distinct pairs than memory gives `read_events` a
    connection with a `temp_directory` of their choice.
    """
    try:
        import duckdb
    except ImportError:
        raise ImportError("reading files needs DuckDB: pip install 'dptopk[files]'") from None
    con = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            "temp_directory": "",
            "preserve_insertion_order": "false",
        }
    )
    # Measured, for con.query_progress(), but not drawn.
    for setting in ("progress_bar = true", "progress_bar_print = false"):
        con.execute(f"SET enable_{setting}")
    con.execute("SET progress_bar_time = 0")
    return con


def read_events(
    paths: Paths, *, user: str, item: str, as_text: bool = False, connection: Any = None
) -> Any:
    """Open files of events as one relation of two columns.

    Parameters
    ----------
    paths : path, glob or sequence of them
        CSV, TSV, Parquet, JSON lines (or a JSON array), by extension, text
        formats also as .gz or .zst; ``-`` is comma-separated CSV on standard
        input. CSV and TSV have a header line; the delimiter of a CSV (comma,
        semicolon, tab or bar) is the one under which the header has both
        columns.
    user, item : str
        Names of the columns. In text formats every label is text, as written.
        Parquet keeps its own types; files that disagree are read as text.
    as_text : bool, optional
        Read the labels of all formats as text.
    connection : duckdb.DuckDBPyConnection, optional
        Where to run; a new one from `connect` by default.

    Returns
    -------
    duckdb.DuckDBPyRelation
        Columns `user` and `item`, for `dptopk.sources.frames.count_users`.

    Raises
    ------
    SourceError
        A file that is missing, empty, of unknown format or unreadable, or has
        no such column. The message names the file and the column, no data.
    ImportError
        DuckDB is not installed.
    """
    con = connect() if connection is None else connection
    files = _expand(paths)
    # One reader for all files alike, and one SELECT for each reader.
    groups: dict[tuple[str, str, tuple[str, str]], list[str]] = {}
    tables = []
    for path in files:
        if path == "-":
            tables.append(_stdin_table(con, user, item))
            continue
        function, options, types = _open(con, path, user, item)
        groups.setdefault((function, options, types), []).append(_literal(glob.escape(path)))
    kinds = [types for _, _, types in groups] + [("VARCHAR", "VARCHAR")] * len(tables)
    columns = ", ".join(
        f"CAST({_name(name)} AS VARCHAR) AS {_name(name)}"
        if as_text or _disagree({kind[place] for kind in kinds})
        else _name(name)
        for place, name in enumerate((user, item))
    )
    sources = [
        f"{function}([{', '.join(names)}]{options})"
        for (function, options, _), names in groups.items()
    ]
    return con.sql(" UNION ALL ".join(f"SELECT {columns} FROM {s}" for s in sources + tables))


def read_domain(path: str | os.PathLike[str]) -> list[str]:
    """Read a domain: the items that exist, whether or not anybody has them.

    Parameters
    ----------
    path : path
        The first column of a CSV or TSV (with a header line) or Parquet file;
        any other file is text with one label per line, blank lines ignored
        (.gz too).

    Returns
    -------
    list of str

    Raises
    ------
    SourceError
        A file that cannot be read or is not UTF-8, no labels, nulls, or a label twice
        (which is named: a domain is public).
    """
    name = _checked(str(path))
    form = _format(name)
    if form not in ("CSV", "TSV", "Parquet"):
        labels = _lines(name)
    else:
        delimiter = _DELIMITERS[form][0] if form != "Parquet" else ""
        con = connect()
        function, options = _reader(form, delimiter)
        source = f"{function}([{_literal(glob.escape(name))}]{options})"
        columns = _described(con, source)
        rows = None
        if columns:
            first = _name(next(iter(columns)))
            rows = _rows(con, f"SELECT CAST({first} AS VARCHAR) FROM {source}")
        if rows is None:
            raise SourceError(f"{name}: not readable as {form}")
        labels = [row[0] for row in rows]
        if None in labels:
            raise SourceError(f"{name}: the domain holds nulls or empty values")
    if not labels:
        raise SourceError(f"{name}: the domain is empty")
    if len(set(labels)) < len(labels):
        twice = next(label for label, n in Counter(labels).items() if n > 1)
        raise SourceError(f"{name}: the domain contains {twice!r} twice")
    return labels


# ---- names


def _expand(paths: Paths) -> list[str]:
    """Return the files that paths and globs stand for, each checked."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    files: list[str] = []
    for path in [os.fspath(path) for path in given]:
        if path == "-":
            files.append(path)
        elif not os.path.exists(path) and glob.has_magic(path):
            found = sorted(p for p in glob.glob(path, recursive=True) if os.path.isfile(p))
            if not found:
                raise SourceError(f"{path}: no file matches")
            files += map(_checked, found)
        else:
            files.append(_checked(path))
    if not files:
        raise SourceError("no files given")
    return files


def _checked(path: str) -> str:
    if os.path.isdir(path):
        raise SourceError(f"{path}: is a directory; name its files, as in '{path.rstrip('/')}/*'")
    if not os.path.exists(path):
        raise SourceError(f"{path}: no such file")
    if not os.access(path, os.R_OK):
        raise SourceError(f"{path}: permission denied")
    if os.path.isfile(path) and os.path.getsize(path) == 0:
        raise SourceError(f"{path}: the file is empty")
    return path


def _check_uncut(path: str) -> None:
    """Read a packed file to its end, where DuckDB 1 would take a cut for it."""
    import duckdb

    if int(duckdb.__version__.split(".")[0]) >= 2:
        return
    if path.endswith(".zst"):
        raise SourceError(f"{path}: .zst needs DuckDB 2, which notices a file that was cut short")
    if path.endswith(".gz"):
        with contextlib.suppress(OSError, EOFError, zlib.error), gzip.open(path) as file:
            while file.read(1 << 20):
                pass
            return
        raise SourceError(f"{path}: not readable as gzip: malformed or cut short")


def _format(path: str) -> str | None:
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    packed = bool(suffixes) and suffixes[-1] in (".gz", ".zst")
    if packed:
        suffixes.pop()
    form = _FORMATS.get(suffixes[-1]) if suffixes else None
    return None if packed and form == "Parquet" else form


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


# ---- readers


def _open(con: Any, path: str, user: str, item: str) -> tuple[str, str, tuple[str, str]]:
    """Return the reader's function, its options and the types of the two columns."""
    form = _format(path)
    if form is None:
        raise SourceError(
            f"{path}: unknown format; the name must end in {', '.join(_FORMATS)} "
            "(text formats also .gz or .zst)"
        )
    _check_uncut(path)
    readable, columns = [], {}
    for delimiter in _DELIMITERS.get(form, " "):
        function, options = _reader(form, delimiter)
        found = _described(con, f"{function}([{_literal(glob.escape(path))}]{options})")
        readable.append(bool(found))
        # The delimiter that finds one of the two columns tells which is missing.
        if (user in found) + (item in found) >= (user in columns) + (item in columns):
            columns = found
        if user in columns and item in columns:
            if form == "JSON":
                options += f", columns = {{{_name(user)}: 'VARCHAR', {_name(item)}: 'VARCHAR'}}"
                return function, options, ("VARCHAR", "VARCHAR")
            return function, options, (columns[user], columns[item])
    if not any(readable):
        raise SourceError(f"{path}: not readable as {form}: malformed, cut short or not UTF-8")
    missing = next(name for name in (user, item) if name not in columns)
    # What stands in the header of a text file may be a row of data: only
    # Parquet has a schema that can be named.
    known = f"; columns: {', '.join(map(repr, columns))}" if form == "Parquet" else ""
    malformed = "" if all(readable) else " in the header, or rows that do not fit the header"
    raise SourceError(f"{path}: no column {missing!r}{malformed}{known}")


def _reader(form: str, delimiter: str) -> tuple[str, str]:
    if form == "Parquet":
        return "read_parquet", ", union_by_name = true"
    if form == "JSON":
        return "read_json", ", format = 'auto', records = true, map_inference_threshold = -1"
    return "read_csv", (
        f", delim = {_literal(delimiter)}, header = true, all_varchar = true, quote = '\"', "
        "escape = '\"', comment = '', skip = 0, ignore_errors = false, "
        "null_padding = false, union_by_name = true"
    )


def _described(con: Any, source: str) -> dict[str, str]:
    """Return the columns of a source with their types; none if it is unreadable."""
    rows = _rows(con, f"DESCRIBE SELECT * FROM {source}")
    return {row[0]: row[1] for row in rows or []}


def _rows(con: Any, query: str) -> list[Any] | None:
    """Run a query; None if it fails. DuckDB's messages quote the row they fail on."""
    import duckdb

    try:
        rows: list[Any] = con.execute(query).fetchall()
    except duckdb.Error:
        return None
    except RuntimeError:  # DuckDB's word for Ctrl-C
        raise KeyboardInterrupt from None
    return rows


def _stdin_table(con: Any, user: str, item: str) -> str:
    """Read standard input, which can be read once only, into a table."""
    function, options = _reader("CSV", ",")
    table = "dptopk_stdin"
    if _rows(con, f"CREATE TEMP TABLE {table} AS FROM {function}('/dev/stdin'{options})") is None:
        raise SourceError("-: standard input is not readable as CSV: empty, malformed or not UTF-8")
    columns = _described(con, table)
    for name in (user, item):
        if name not in columns:
            raise SourceError(f"-: no column {name!r} in the header line of standard input (CSV)")
    return table


def _disagree(types: set[str]) -> bool:
    """Whether a common type of these could merge or change labels."""
    return len(types) > 1 and not types <= _INTEGERS


def _lines(path: str) -> list[str]:
    try:
        if path.endswith(".gz"):
            data = gzip.decompress(Path(path).read_bytes())
        else:
            data = Path(path).read_bytes()
        text = data.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError):
        text = None
    if text is None:
        raise SourceError(f"{path}: not readable as text, one label per line, in UTF-8")
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return [line for line in lines if line.strip()]
