"""What a ledger needs of the place where it keeps its record: a few methods.

A record is made of logs, one for each budget, and a log of lines that are numbered from 0
and never changed. Two stores stand ready: `dptopk.budget.sqlite` and
`dptopk.budget.postgres`. Anybody may write another, and hand it to `Ledger`;
`dptopk.budget.conformance.check_store` tells whether it keeps to the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from dptopk.errors import LedgerUnavailableError

__all__ = ["Line", "Log", "Store", "UncertainError"]


class Line(NamedTuple):
    """A line of a log; all texts are printable ASCII.

    Attributes
    ----------
    name : str
        The log that it belongs to.
    seq : int
        Its number there: 0, 1, 2 and so on.
    request_id : str or None
        The request that it is about.
    text : str
        What happened.
    body : str or None
        What was released, if it is about that.
    """

    name: str
    seq: int
    request_id: str | None
    text: str
    body: str | None


class UncertainError(LedgerUnavailableError):
    """The store can't tell whether a transaction was committed, or asks to try it again.

    A connection that breaks before the answer to COMMIT has come, or a transaction that
    was undone for the sake of another. The ledger looks whether the lines are there.
    """


class Log(Protocol):
    """A transaction of a store: it sees what was committed before it, and what it added."""

    def names(self) -> list[str]:
        """Return the names of all logs, in the order of their characters."""

    def last(self, name: str) -> Line | None:
        """Return the line of a log with the largest number, None if there is no such log."""

    def lines(self, name: str, since: int = 0, most: int | None = None) -> list[Line]:
        """Return the lines of a log from this number on, in their order; so many at most."""

    def find(self, name: str, request_id: str) -> list[Line]:
        """Return the lines of a log that are about a request, in their order."""

    def append(self, line: Line) -> None:
        """Add a line to one of the logs that the transaction was begun for.

        Its number is one more than the last one's. If there is a line of that number,
        nothing is committed, and this or the end of the transaction raises UncertainError.
        """


class Store(Protocol):
    """Where a ledger keeps its record."""

    def transaction(self, names: Sequence[str] = ()) -> AbstractContextManager[Log]:
        """Run a transaction, which may append to the logs of these names.

        From its first read to its commit nobody else appends to any of them, whichever
        process or machine they are on. If the block ends by an error nothing of it stays;
        otherwise all of it is on disk when the block has ended, and stays through a crash
        of any process and a loss of power.

        Raises LedgerUnavailableError if the store can't be used now (and nothing was
        committed), UncertainError if it is not known whether something was, LedgerError
        if the store is damaged or not what it was. No message quotes a line.
        """

    def close(self) -> None:
        """Close it; transactions are refused from then on. Must not wait for its own thread."""
