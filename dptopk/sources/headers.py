"""The first line of a CSV: which columns there are, read before DuckDB reads the rest.

DuckDB's own reading of a header renames columns that differ in case only, and
guesses types and dialects from the rows. So columns are found here, by place,
and every column is text.
"""

from __future__ import annotations

import csv
import gzip
import io
from typing import IO, Any, NamedTuple

from dptopk.errors import SourceError
from dptopk.sources.keys import no_column

__all__ = ["Columns", "Table", "first_record", "open_binary", "table_of"]

Columns = tuple[str | int, ...]  # names, or numbers from 1
DELIMITERS = {"CSV": ",;\t|", "TSV": "\t"}
_LONGEST = 1 << 20  # bytes of a header line


class Table(NamedTuple):
    """Where the columns stand in a CSV.

    Attributes
    ----------
    delimiter : str
    width : int
        How many columns there are.
    places : tuple of int
        Of users, items and groups, from 0.
    """

    delimiter: str
    width: int
    places: tuple[int, ...]


def open_binary(path: str) -> Any:
    """Open a regular file for reading bytes, unpacked if its name ends in .gz."""
    return gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb")


def first_record(file: IO[bytes]) -> bytes:
    """Read the first line, and those that a quoted line break joins to it.

    Or seems to: past a quote inside a name, or where lines end otherwise, this
    is more than one record.
    """
    record = b""
    while True:
        line = file.readline(_LONGEST)
        record += line
        if not line or record.count(b'"') % 2 == 0 or len(record) > _LONGEST:
            return record


def table_of(
    record: bytes,
    source: str,
    *,
    form: str,
    columns: Columns,
    header: bool,
    delimiter: str | None,
) -> Table:
    """Return where the columns stand, by the names in the header or by number.

    The delimiter is the one given, or the one under which the header has all
    columns.

    Raises
    ------
    SourceError
        A column is missing or stands there twice. What stands in the first
        line may be data: no more of it is named than differs in case from what
        was asked for.
    """
    try:
        text = record.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = None
    if text is None:
        raise SourceError(f"{source}: not readable as {form}: not UTF-8")
    candidates = DELIMITERS[form] if delimiter is None else delimiter
    if not header:
        names = _first(text, candidates[0], source)
        return Table(candidates[0], len(names), _by_number(columns, len(names), source))
    if not record:
        raise SourceError(
            f"{source}: no header line: it is empty; the first line names the columns"
        )
    best: list[str] = []
    for candidate in candidates:
        names = _first(text, candidate, source)
        # The delimiter that finds most of the columns tells which is missing.
        if _found(names, columns) >= _found(best, columns):
            best = names
        if _found(names, columns) == len(columns):
            places = tuple(_place(names, column, source) for column in columns)
            return Table(candidate, len(names), places)
    for column in columns:
        _place(best, column, source)
    raise AssertionError("one of the columns is missing")


def _first(text: str, delimiter: str, source: str) -> list[str]:
    """Return the first record of a text."""
    try:
        names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    except csv.Error:  # a field of more than 128 KiB
        names = None
    if names is None:
        raise SourceError(f"{source}: not readable as CSV: its first line is malformed")
    return names


def _found(names: list[str], columns: Columns) -> int:
    return sum(isinstance(column, int) or column in names for column in columns)


def _place(names: list[str], column: str | int, source: str) -> int:
    if isinstance(column, int):
        return _by_number((column,), len(names), source)[0]
    if names.count(column) > 1:
        raise SourceError(f"{source}: two columns are named {column!r}; rename one of them")
    if column not in names:
        raise SourceError(f"{source}: {no_column(column, names)} in the header")
    return names.index(column)


def _by_number(columns: Columns, width: int, source: str) -> tuple[int, ...]:
    places = []
    for column in columns:
        if not isinstance(column, int):
            raise SourceError(f"{source}: without a header columns go by number, from 1")
        if width and column > width:
            raise SourceError(f"{source}: no column {column}; there are {width}")
        places.append(column - 1)
    return tuple(places)
