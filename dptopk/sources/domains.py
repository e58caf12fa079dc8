"""Files of a known domain: the items that exist, whether or not anybody has them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

from dptopk.errors import SourceError
from dptopk.sources.columns import domain_of
from dptopk.sources.files import connect
from dptopk.sources.labels import Kind
from dptopk.sources.on_duckdb import duckdb_kind
from dptopk.sources.paths import checked, format_of
from dptopk.sources.readers import How, of_file, parquet_columns, rows_of

__all__ = ["as_kind", "fitted", "read_domain"]


def read_domain(path: str | os.PathLike[str]) -> list[Any]:
    """Read a domain: the items that exist, whether or not anybody has them.

    Parameters
    ----------
    path : path
        The first column of a CSV or TSV (with a header line) or Parquet file;
        any other file is text with one label per line, blank lines ignored
        (.gz too).

    Returns
    -------
    list
        Text; of a Parquet file, labels of its column's type. See `fitted`.

    Raises
    ------
    SourceError
        A file that cannot be read or is not UTF-8, no labels, nulls, or a label twice
        (which is named: a domain is public).
    """
    name = checked(str(path))
    form = format_of(name)
    labels: list[Any] | None
    if form not in ("CSV", "TSV", "Parquet"):
        labels = _lines(name)
    else:
        con = connect()
        first = (parquet_columns(con, name) or [""])[0] if form == "Parquet" else 1
        reader = of_file(con, name, None, How((first, first), True, None))
        rows = None if reader is None else rows_of(con, reader.select([name], ['"a"', '"b"']))
        labels = None if rows is None else [row[0] for row in rows]
    if labels is None:
        raise SourceError(f"{name}: not readable as {form}")
    if None in labels:
        raise SourceError(f"{name}: the domain holds nulls or empty values")
    if not labels:
        raise SourceError(f"{name}: the domain is empty; it has one item a line")
    try:
        return domain_of(labels).labels
    except (TypeError, ValueError) as error:
        raise SourceError(f"{name}: the {error}") from None


def fitted(domain: list[Any], events: Any, item: str) -> list[Any]:
    """Return a domain that was read as text with labels of the kind of a relation's column.

    A file of labels has no types. So 7 in it stands for the integer where the
    column holds integers, and for the text "7" where it holds text.

    Raises
    ------
    SourceError
        A label that can't be of that kind (which is named: a domain is public).
    """
    kind = duckdb_kind(item, str(events.types[events.columns.index(item)]))
    return as_kind(domain, kind, item)


def as_kind(domain: list[Any], kind: Kind | None, item: str) -> list[Any]:
    """Return a domain that was read as text with labels of a kind, as `fitted` does."""
    if kind is None or kind.name == "text":
        return [str(label) if type(label) is int else label for label in domain]
    fitting = []
    for label in domain:
        try:
            fitting.append(kind.parsed(label) if isinstance(label, str) else label)
        except ValueError:
            raise SourceError(
                f"the domain's {label!r} is no {kind}, which column {item!r} holds"
            ) from None
    return fitting


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
