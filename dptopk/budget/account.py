"""Where a session's budget is kept: in the process, or in a `Ledger`."""

from __future__ import annotations

import datetime
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from dptopk.budget.record import check_labels, decode, encode
from dptopk.budget.schema import FLOATS, TERMS
from dptopk.budget.terms import Remaining, Terms
from dptopk.errors import BudgetError, LedgerConflictError, UnknownBudgetError
from dptopk.histogram import Histogram, Histograms
from dptopk.release import Release
from dptopk.releases import Releases

__all__ = [
    "Account",
    "LedgerAccount",
    "ProcessAccount",
    "Released",
    "balance_in",
    "check",
    "now",
    "terms_in",
]

Released: TypeAlias = Release | Releases

#: What runs a transaction of SQLite, begun by this word, and commits it.
Transaction: TypeAlias = Callable[[str], AbstractContextManager[sqlite3.Connection]]


class Account(Protocol):
    """Where a session's budget is kept: in the process, or in a `Ledger`."""

    def remaining(self) -> Remaining:
        """Return what is left, less what calls under way have reserved."""

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> Released | None:
        """Return the release of an earlier request, if this is one."""

    def check_labels(self, h: Histogram | Histograms) -> None:
        """Raise TypeError if labels can't be recorded with what they were released for."""

    def reserve(
        self, outcomes: int, calls: int, request_id: str | None, call: Mapping[str, Any]
    ) -> int | Released:
        """Charge, or raise BudgetError; a Release if the request has been answered before."""

    def settle(self, ticket: int, outcomes: int, calls: int, released: Released) -> None:
        """Keep as much of the charge as `outcomes`, and record what it was for."""


class ProcessAccount(Account):
    """A budget that ends with its process."""

    def __init__(self, terms: Terms):
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._outcomes, self._calls = terms.k_star, terms.calls
        self._reserved: dict[int, int] = {}
        self._tickets = 0

    def remaining(self) -> Remaining:
        """Return what is left, nothing after a fork."""
        if os.getpid() != self._pid:
            return Remaining(0, 0)
        with self._lock:
            return Remaining(self._outcomes, self._calls)

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> Released | None:
        """Refuse: nothing is recorded here."""
        raise ValueError("request_id needs a session that is bound to a Ledger")

    def check_labels(self, h: Histogram | Histograms) -> None:
        """Take any labels: nothing is recorded here."""

    def reserve(
        self, outcomes: int, calls: int, request_id: str | None, call: Mapping[str, Any]
    ) -> int:
        """Charge."""
        if os.getpid() != self._pid:
            raise BudgetError(
                "this session was opened before a fork: each process would spend the whole of it; "
                "bind sessions to a Ledger to share a budget among processes"
            )
        with self._lock:
            check(Remaining(self._outcomes, self._calls), outcomes, calls)
            self._outcomes -= outcomes
            self._calls -= calls
            self._tickets += 1
            self._reserved[self._tickets] = outcomes
            return self._tickets

    def settle(self, ticket: int, outcomes: int, calls: int, released: Released) -> None:
        """Give back what was reserved and did not come."""
        with self._lock:
            self._outcomes += self._reserved.pop(ticket) - outcomes


def check(left: Remaining, outcomes: int, calls: int) -> None:
    """Raise BudgetError if this much is not left."""
    if calls > left.calls:
        raise BudgetError("no call is left in this session")
    if outcomes > left.outcomes:
        raise BudgetError(
            f"the call may cost {outcomes} outcomes, and {left.outcomes} are left in this session"
        )


class LedgerAccount(Account):
    """A budget of a ledger, as a session spends it."""

    def __init__(self, transaction: Transaction, name: str):
        self._transaction, self._name = transaction, name

    def check_labels(self, h: Histogram | Histograms) -> None:
        """Refuse labels that can't be recorded."""
        check_labels(h)

    def remaining(self) -> Remaining:
        """Return what is left."""
        with self._transaction("BEGIN") as db:
            return balance_in(db, self._name)

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> Released | None:
        """Return the release of an earlier request, None if it is new."""
        with self._transaction("BEGIN") as db:
            return _recorded(db, self._name, request_id, _text(call))

    def reserve(
        self, outcomes: int, calls: int, request_id: str | None, call: Mapping[str, Any]
    ) -> int | Released:
        """Charge what a call may cost, on disk."""
        name, text = self._name, _text(call)
        with self._transaction("BEGIN IMMEDIATE") as db:
            if request_id is not None:
                recorded = _recorded(db, name, request_id, text)
                if recorded is not None:
                    return recorded
            check(balance_in(db, name), outcomes, calls)
            db.execute(
                "UPDATE balances SET outcomes = outcomes - ?, calls = calls - ? WHERE name = ?",
                (outcomes, calls, name),
            )
            row = db.execute(
                "INSERT INTO reservations (name, request_id, call, outcomes, calls, at) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (name, request_id, text, outcomes, calls, now()),
            )
            assert row.lastrowid is not None
            return row.lastrowid

    def settle(self, ticket: int, outcomes: int, calls: int, released: Released) -> None:
        """Record the release and give back what it did not cost, on disk."""
        text = encode(released)
        with self._transaction("BEGIN IMMEDIATE") as db:
            (reserved,) = db.execute(
                "SELECT outcomes FROM reservations WHERE id = ?", (ticket,)
            ).fetchone()
            db.execute("INSERT INTO releases VALUES (?, ?, ?, ?)", (ticket, outcomes, text, now()))
            db.execute(
                "UPDATE balances SET outcomes = outcomes + ? WHERE name = ?",
                (reserved - outcomes, self._name),
            )


def terms_in(db: sqlite3.Connection, name: str) -> Terms:
    """Return the terms of a budget."""
    row = db.execute(f"SELECT {', '.join(TERMS)} FROM budgets WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise UnknownBudgetError(f"there is no budget named {name!r}")
    values = dict(zip(TERMS, row, strict=True))
    return Terms(**values | {field: float.fromhex(values[field]) for field in FLOATS})


def balance_in(db: sqlite3.Connection, name: str) -> Remaining:
    """Return what is left of a budget."""
    row = db.execute("SELECT outcomes, calls FROM balances WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise UnknownBudgetError(f"there is no budget named {name!r}")
    return Remaining(*row)


def _recorded(db: sqlite3.Connection, name: str, request_id: str, call: str) -> Released | None:
    row = db.execute(
        "SELECT call, released FROM reservations LEFT JOIN releases ON reservation = id "
        "WHERE name = ? AND request_id = ?",
        (name, request_id),
    ).fetchone()
    if row is None:
        return None
    if row[0] != call:
        raise LedgerConflictError(f"request {request_id!r} was made before with other parameters")
    if row[1] is None:
        raise LedgerConflictError(
            f"request {request_id!r} was charged before and no release is recorded: it is being "
            "drawn, or was lost in a crash and stays charged; it is not drawn again"
        )
    return decode(row[1])


def _text(call: Mapping[str, Any]) -> str:
    return json.dumps(call, sort_keys=True)


def now() -> str:
    """Return the time in UTC."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
