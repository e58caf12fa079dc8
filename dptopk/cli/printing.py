"""What all commands share: refusals, tables and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dptopk._show import plain

__all__ = ["Refused", "plain", "print_json", "printable", "refusing", "tables", "version"]


class Refused(Exception):
    """Bad input, with the line to print."""


@contextmanager
def refusing() -> Iterator[None]:
    """Let the library's own refusals of parameters be the line to print.

    Used only where no data has been read: past that a ValueError is not one of
    ours, might quote data, and becomes an internal error.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        raise Refused(str(error)) from None
    except MemoryError:
        raise Refused("k or k_bar is too large for the memory of this machine") from None


def version() -> str:
    """Return the package's version."""
    from dptopk import __version__

    return __version__


def tables() -> Any:
    """Return a console on stdout and an empty table."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        raise Refused("tables need rich: pip install 'dptopk[files]', or use --json") from None
    # A pipe has no width: let no label be folded there.
    width = None if sys.stdout.isatty() else 10_000
    console = Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)
    return console, Table(box=box.SIMPLE_HEAD)


def print_json(value: Any) -> None:
    """Print one line of JSON."""
    print(json.dumps(value, allow_nan=False))


def printable(text: str) -> str:
    """Escape what would move the cursor or colour the terminal: labels are foreign text."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
