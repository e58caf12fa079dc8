"""Names of files: globs, formats, and how SQL writes them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from dptopk.errors import SourceError

__all__ = [
    "FORMATS",
    "NAMED",
    "Paths",
    "checked",
    "expand",
    "format_of",
    "literal",
    "packing_of",
    "quoted",
]

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

FORMATS = {
    ".csv": "CSV",
    ".tsv": "TSV",
    ".tab": "TSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".json": "JSON",
    ".jsonl": "JSON",
    ".ndjson": "JSON",
}
NAMED = {"csv": "CSV", "tsv": "TSV", "parquet": "Parquet", "json": "JSON"}


def expand(paths: Paths) -> list[str]:
    """Return the files that paths and globs stand for, each checked."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    if not isinstance(given, Iterable):
        raise TypeError(f"paths must be a path or a sequence of paths, got {type(paths).__name__}")
    files: list[str] = []
    for path in [os.fspath(path) for path in given]:
        if path == "-":
            files.append(path)
        elif not os.path.exists(path) and glob.has_magic(path):
            found = sorted(p for p in glob.glob(path, recursive=True) if not os.path.isdir(p))
            if not found:
                raise SourceError(f"{path}: no file matches")
            files += map(checked, found)
        else:
            files.append(checked(path))
    if not files:
        raise SourceError("no files given")
    return files


def checked(path: str) -> str:
    """Return a path that can be opened; a SourceError otherwise."""
    if os.path.isdir(path):
        raise SourceError(f"{path}: is a directory; name its files, as in '{path.rstrip('/')}/*'")
    if not os.path.exists(path):
        raise SourceError(f"{path}: no such file; give the path of one on this machine")
    if not os.access(path, os.R_OK):
        raise SourceError(f"{path}: permission denied")
    return path


def packing_of(path: str) -> str:
    """Return how a file is packed, by its name, in DuckDB's words."""
    return {".gz": "gzip", ".zst": "zstd"}.get(Path(path).suffix.lower(), "uncompressed")


def format_of(path: str) -> str | None:
    """Return the format of a file by its name, or None."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    packed = packing_of(path) != "uncompressed"
    if packed:
        suffixes.pop()
    form = FORMATS.get(suffixes[-1]) if suffixes else None
    return None if packed and form == "Parquet" else form


def literal(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def quoted(text: str) -> str:
    """Return the name of a column as SQL writes it."""
    return '"' + text.replace('"', '""') + '"'
