"""What was released, for other programs and for people: JSON, frames, a notebook's table."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, TypeAlias

__all__ = ["Backend", "frame", "json_of", "plain", "printable", "table"]

#: Libraries of frames.
Backend: TypeAlias = Literal["pandas", "polars", "pyarrow"]
BACKENDS = ("pandas", "polars", "pyarrow")
ROWS = 50  # of a notebook's table
JOINERS = "\u200c\u200d"  # Persian words and many emoji have them; they move nothing


def plain(value: Any) -> Any:
    """Return a label or parameter for JSON: numbers and text as they are, all else as text."""
    if isinstance(value, Mapping):  # parameters of a mechanism inside another
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if hasattr(value, "item") and hasattr(value, "dtype") and value.dtype.kind in "biufU":
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):  # JSON has no word for it
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def json_of(value: Mapping[str, Any]) -> str:
    """Return one line of ASCII JSON; labels that JSON lacks are written as text."""
    return json.dumps(plain(value), allow_nan=False)


def printable(text: str) -> str:
    """Escape what would move the cursor, colour the terminal or turn the line: foreign text."""
    return "".join(
        c if c.isprintable() or c in JOINERS else c.encode("unicode_escape").decode() for c in text
    )


def frame(columns: dict[str, list[Any]], backend: str) -> Any:
    """Return columns of equal length as a frame of a library, imported here."""
    try:
        library = import_module(backend)
    except ImportError:
        raise ImportError(f"to_frame needs {backend}: pip install {backend}") from None
    if backend == "pyarrow":
        return library.table(columns)
    return library.DataFrame(columns, **({"strict": False} if backend == "polars" else {}))


def table(columns: Mapping[str, Sequence[Any]], caption: str) -> str:
    """Return an HTML table of the first rows, its texts escaped."""
    n = max((len(column) for column in columns.values()), default=0)
    rows = zip(*(column[:ROWS] for column in columns.values()), strict=True)
    more = f", {ROWS} of {n} shown" if n > ROWS else ""
    return (
        f"<table><caption>{html.escape(caption + more)}</caption>"
        f"<thead>{_row('th', columns)}</thead>"
        f"<tbody>{''.join(_row('td', row) for row in rows)}</tbody></table>"
    )


def _row(tag: str, cells: Iterable[Any]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(str(cell))}</{tag}>' for cell in cells)}</tr>"
