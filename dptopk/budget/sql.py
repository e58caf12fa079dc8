"""A log as a table of SQL, of SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dptopk.budget.store import Line, Log

__all__ = ["SqlLog"]

_COLUMNS = "name, seq, request_id, text, body"


class SqlLog(Log):
    """A transaction that has begun.

    Parameters
    ----------
    query : function of a statement and its parameters
        Runs it, and returns all rows.
    table : str
        The table of lines, as SQL.
    parameter : str
        How a parameter is written.
    requests : str, default ""
        What makes a search for a request use its index, where that has to be said.
    """

    def __init__(
        self,
        query: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]],
        table: str,
        parameter: str,
        requests: str = "",
    ):
        self._query = query
        here = parameter
        select = f"SELECT {_COLUMNS} FROM {table}"
        self._names = f"SELECT name FROM {table} WHERE seq = 0 ORDER BY name"
        self._last = f"{select} WHERE name = {here} ORDER BY seq DESC LIMIT 1"
        self._lines = f"{select} WHERE name = {here} AND seq >= {here} ORDER BY seq LIMIT {here}"
        self._find = f"{select} {requests} WHERE name = {here} AND request_id = {here} ORDER BY seq"
        self._append = f"INSERT INTO {table} ({_COLUMNS}) VALUES ({', '.join([here] * 5)})"

    def names(self) -> list[str]:
        """Return the names of all logs."""
        return [name for (name,) in self._query(self._names, ())]

    def last(self, name: str) -> Line | None:
        """Return the last line of a log."""
        rows = self._query(self._last, (name,))
        return Line(*rows[0]) if rows else None

    def lines(self, name: str, since: int = 0, most: int | None = None) -> list[Line]:
        """Return the lines of a log."""
        limit = 2**62 if most is None else most
        return [Line(*row) for row in self._query(self._lines, (name, since, limit))]

    def find(self, name: str, request_id: str) -> list[Line]:
        """Return the lines of a request."""
        return [Line(*row) for row in self._query(self._find, (name, request_id))]

    def append(self, line: Line) -> None:
        """Add a line."""
        self._query(self._append, line)
