"""Budgets that last: charged on disk before anything is drawn.

A ledger is one SQLite file in WAL mode. A call takes two transactions, each
synced to disk before it is reported done:

1. reserve: what the call may cost at most goes off the balance;
2. settle: what came back is written down with its price, and the rest of the
   reservation returns to the balance.

A crash between them leaves the whole reservation charged and nothing released.
Nothing comes back from a session before its transaction 2 is on disk.

The record is append-only: triggers refuse to change or delete a row of it. It
holds what was released and what it cost, and nothing else of the data.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dptopk._validate import nonnegative
from dptopk.budget import fork, schema
from dptopk.budget.account import LedgerAccount, balance_in, now, terms_in
from dptopk.budget.record import decode
from dptopk.budget.schema import FLOATS, TERMS
from dptopk.budget.terms import Remaining, Terms
from dptopk.errors import (
    DptopkError,
    LedgerConflictError,
    LedgerError,
    LedgerUnavailableError,
)
from dptopk.release import Release
from dptopk.releases import Releases

__all__ = ["Budget", "Entry", "Ledger"]


class Budget(NamedTuple):
    """A budget in a ledger.

    Attributes
    ----------
    name : str
        Its name.
    terms : Terms
        What its sessions are opened with.
    remaining : Remaining
        What is left.
    """

    name: str
    terms: Terms
    remaining: Remaining


class Entry(NamedTuple):
    """A call in the record of a budget.

    Attributes
    ----------
    at : str
        When it was charged, UTC.
    request_id : str or None
        The id of the request.
    call : dict
        What was asked.
    outcomes : int
        What it was charged: of a call without a release, what it might have cost.
    calls : int
        How many calls it was charged.
    release : Release, Releases or None
        What was released; None if it is being drawn or was lost.
    """

    at: str
    request_id: str | None
    call: dict[str, Any]
    outcomes: int
    calls: int
    release: Release | Releases | None


class Ledger:
    """Budgets by name, in a file that survives crashes and is safe to share.

    Parameters
    ----------
    path : str or path
        The file; it is made if it does not exist. It needs a local file
        system, as SQLite's locks do, and a directory that can be written.
    timeout : float, default 30
        Seconds to wait for other writers.

    Raises
    ------
    LedgerUnavailableError
        If the file can't be opened or made.
    LedgerError
        If it is damaged, or no ledger of this version.

    Notes
    -----
    Any number of threads and processes may use a ledger, also after a fork
    (``os.fork`` waits until no transaction of the process is running).
    Every charge is on disk before anything is drawn (WAL, synchronous=FULL),
    and every release before it is returned.

    A request that is repeated with the same ``request_id`` is neither drawn
    nor paid again: it gets the recorded release or, if there is none (a crash,
    or another caller still at it), a LedgerConflictError that says that it was charged.

    The record is for whoever may see all releases: it holds their labels and
    noisy counts. Who can write the file can spend or forge any budget in it. So
    a new file can be read and written by its owner alone (mode 0600).

    Examples
    --------
    >>> import dptopk as dp, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with dp.Ledger(f"{folder.name}/budgets.sqlite") as ledger:
    ...     ledger.create("ann, sales", k_star=20, calls=5, epsilon=1.0, delta=1e-6)
    ...     session = dp.Session.bound(ledger, "ann, sales")
    ...     h = dp.Histogram([9000, 8000, 40], labels=["ant", "bee", "cat"])
    ...     release = session.limited_domain(h, k=2, request_id="monday")
    ...     again = session.limited_domain(h, k=2, request_id="monday")
    ...     again == release, ledger.budget("ann, sales").remaining
    (True, Remaining(outcomes=18, calls=4))
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0):
        # Connections are opened later too, when the process may be in another directory.
        self._path = Path(os.path.abspath(os.fspath(path)))
        self._timeout = nonnegative("timeout", timeout)
        self._pool: list[sqlite3.Connection] = []
        self._closed = False
        # SQLite takes a few bytes for an empty file. Only their number is asked for: opening
        # and closing the file would drop this process's locks on it.
        if self._path.is_file() and 0 < self._path.stat().st_size < 512:
            raise LedgerError(f"{self._path} is not a ledger")
        with fork.transaction():  # not while a fork goes through them
            schema.make(self._path)
            fork.opened(self)
        with self._transaction("BEGIN IMMEDIATE") as db:
            schema.prepare(db, self._path)

    def create(self, name: str, **terms: Any) -> None:
        """Make a budget.

        Parameters
        ----------
        name : str
            A new name.
        **terms
            k_star, calls, epsilon, delta, method, accounting, delta_split: as in
            `Session`. They are fixed, and so is the epsilon of a step that
            follows from them.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or out of range.
        LedgerConflictError
            If there is a budget of that name.
        LedgerUnavailableError
            If the file can't be written.
        """
        if not isinstance(name, str):
            raise TypeError(f"name must be a string, got {type(name).__name__}")
        if not name:
            raise ValueError("name must not be empty")
        fixed = Terms.of(**terms)
        values = {field: getattr(fixed, field) for field in TERMS}
        values |= {field: values[field].hex() for field in FLOATS}
        with self._transaction("BEGIN IMMEDIATE") as db:
            if db.execute("SELECT 1 FROM budgets WHERE name = ?", (name,)).fetchone():
                raise LedgerConflictError(f"there is a budget named {name!r} already")
            db.execute(
                f"INSERT INTO budgets (name, created, {', '.join(values)}) "
                f"VALUES (?, ?{', ?' * len(values)})",
                (name, now(), *values.values()),
            )
            db.execute("INSERT INTO balances VALUES (?, ?, ?)", (name, fixed.k_star, fixed.calls))

    def names(self) -> list[str]:
        """Return the names of all budgets, in order."""
        with self._transaction("BEGIN") as db:
            return [name for (name,) in db.execute("SELECT name FROM budgets ORDER BY name")]

    def budget(self, name: str) -> Budget:
        """Return a budget: its terms and what is left.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        Budget

        Raises
        ------
        UnknownBudgetError
            If there is none.
        LedgerError
            If its balance is not what the record adds up to.
        """
        with self._transaction("BEGIN") as db:
            terms, left = terms_in(db, name), balance_in(db, name)
            outcomes, calls = db.execute(
                "SELECT coalesce(sum(coalesce(releases.outcomes, reservations.outcomes)), 0), "
                "coalesce(sum(calls), 0) FROM reservations LEFT JOIN releases "
                "ON reservation = id WHERE name = ?",
                (name,),
            ).fetchone()
        if left != Remaining(terms.k_star - outcomes, terms.calls - calls):
            raise LedgerError(f"the balance of {name!r} is not what its record adds up to")
        return Budget(name, terms, left)

    def history(self, name: str) -> list[Entry]:
        """Return the record of a budget, oldest first.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        list of Entry

        Raises
        ------
        UnknownBudgetError
            If there is none.
        """
        with self._transaction("BEGIN") as db:
            terms_in(db, name)
            rows = db.execute(
                "SELECT reservations.at, request_id, call, "
                "coalesce(releases.outcomes, reservations.outcomes), calls, released "
                "FROM reservations LEFT JOIN releases ON reservation = id "
                "WHERE name = ? ORDER BY id",
                (name,),
            ).fetchall()
        return [
            Entry(at, request, json.loads(call), outcomes, calls, text and decode(text))
            for at, request, call, outcomes, calls, text in rows
        ]

    def account(self, name: str) -> tuple[Terms, LedgerAccount]:
        """Return what `Session.bound` needs of a budget."""
        with self._transaction("BEGIN") as db:
            terms = terms_in(db, name)
        return terms, LedgerAccount(self._transaction, name)

    def close(self) -> None:
        """Close the file; sessions bound to it can't spend any more."""
        with fork.closing():
            self._closed = True
            self.close_connections()

    def close_connections(self) -> None:
        """Close what no transaction is using; the next one opens another."""
        while self._pool:
            self._pool.pop().close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({str(self._path)!r})"

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        """Run a transaction on a connection that no other thread is using.

        Whatever goes wrong undoes it, and errors of SQLite become LedgerError.
        """
        with fork.transaction():
            if self._closed:
                raise LedgerUnavailableError("the ledger is closed")
            try:
                try:
                    db = self._pool.pop()
                except IndexError:
                    db = schema.connect(self._path, self._timeout)
                try:
                    db.execute(begin)
                    yield db
                    db.execute("COMMIT")
                except DptopkError:
                    db.execute("ROLLBACK")
                    self._pool.append(db)
                    raise
                except BaseException:
                    # What state it is in is not known: the next call opens another.
                    db.close()
                    raise
                self._pool.append(db)
            except sqlite3.Error as error:
                raise schema.explained(error, self._path) from error
