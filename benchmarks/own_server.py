"""A PostgreSQL server of the benchmarks' own."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["postgres_server"]


@contextlib.contextmanager
def postgres_server() -> Iterator[str | None]:
    """Run a server that waits for its disk, as the tests do; None where there is none."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    try:
        import postgres
        import psycopg  # noqa: F401

        binaries = postgres.find_binaries()
    except ImportError:
        binaries = None
    finally:
        sys.path.pop(0)
    if binaries is None:
        yield None
        return
    with postgres.durable_server(binaries) as (folder, _):
        yield folder
