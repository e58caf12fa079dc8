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

import datetime
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dptopk._record import check_labels, decode, encode
from dptopk._validate import nonnegative
from dptopk.errors import (
    DptopkError,
    LedgerConflictError,
    LedgerError,
    LedgerUnavailableError,
    UnknownBudgetError,
)
from dptopk.histogram import Histogram
from dptopk.release import Release
from dptopk.session import Remaining, Terms, check

__all__ = ["Budget", "Entry", "Ledger"]

VERSION = 1
APPLICATION = 0x6470746B  # "dptk": tells our files from other SQLite files

_FLOATS = tuple(name for name, kind in Terms.__annotations__.items() if kind == "float")
_TERMS = tuple(Terms.__dataclass_fields__)

# Integers and strings only: floats are kept as float.hex() writes them. The
# balances repeat what the record says, so that a call need not add it up.
_SCHEMA = f"""
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO schema_version VALUES ({VERSION});
CREATE TABLE budgets (
    name TEXT NOT NULL PRIMARY KEY,
    created TEXT NOT NULL,
    k_star INTEGER NOT NULL CHECK (k_star >= 1),
    calls INTEGER NOT NULL CHECK (calls >= 1),
    method TEXT NOT NULL,
    accounting TEXT NOT NULL,
    {", ".join(f"{name} TEXT NOT NULL" for name in _FLOATS)}
);
CREATE TABLE balances (
    name TEXT NOT NULL PRIMARY KEY REFERENCES budgets,
    outcomes INTEGER NOT NULL CHECK (outcomes >= 0),
    calls INTEGER NOT NULL CHECK (calls >= 0)
);
CREATE TABLE reservations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL REFERENCES budgets,
    request_id TEXT,
    call TEXT NOT NULL,
    outcomes INTEGER NOT NULL CHECK (outcomes >= 1),
    calls INTEGER NOT NULL CHECK (calls >= 0),
    at TEXT NOT NULL,
    UNIQUE (name, request_id)
);
CREATE TABLE releases (
    reservation INTEGER PRIMARY KEY REFERENCES reservations,
    outcomes INTEGER NOT NULL CHECK (outcomes >= 1),
    released TEXT NOT NULL,
    at TEXT NOT NULL
);
"""
_APPEND_ONLY = "".join(
    f"CREATE TRIGGER {table}_{event.lower()} BEFORE {event} ON {table} "
    "BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END;\n"
    for table in ("budgets", "reservations", "releases")
    for event in ("UPDATE", "DELETE")
) + "".join(
    # INSERT OR REPLACE deletes a row without asking the triggers on DELETE.
    f"CREATE TRIGGER {table}_replace BEFORE INSERT ON {table} "
    f"WHEN EXISTS (SELECT 1 FROM {table} WHERE {same}) "
    "BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END;\n"
    for table, same in (
        ("budgets", "rowid = NEW.rowid OR name = NEW.name"),
        ("reservations", "id = NEW.id OR (name = NEW.name AND request_id = NEW.request_id)"),
        ("releases", "reservation = NEW.reservation"),
    )
)


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
    release : Release or None
        What was released; None if it is being drawn or was lost.
    """

    at: str
    request_id: str | None
    call: dict[str, Any]
    outcomes: int
    calls: int
    release: Release | None


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
        with _gate.shared():  # not while a fork goes through them
            self._make()
            _ledgers.add(self)
        with self._transaction("BEGIN IMMEDIATE") as db:
            _prepare(db, self._path)

    def _make(self) -> None:
        """Make an empty file that only its owner can read; leave one that is there alone.

        SQLite gives the files that it keeps beside it the same mode.
        """
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
        try:
            with _making:
                os.close(os.open(os.path.realpath(self._path), flags, 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            raise LedgerUnavailableError(
                f"{self._path} can't be opened ({error.strerror})"
            ) from error

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
        values = {field: getattr(fixed, field) for field in _TERMS}
        values |= {field: values[field].hex() for field in _FLOATS}
        with self._transaction("BEGIN IMMEDIATE") as db:
            if db.execute("SELECT 1 FROM budgets WHERE name = ?", (name,)).fetchone():
                raise LedgerConflictError(f"there is a budget named {name!r} already")
            db.execute(
                f"INSERT INTO budgets (name, created, {', '.join(values)}) "
                f"VALUES (?, ?{', ?' * len(values)})",
                (name, _now(), *values.values()),
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
            terms, left = _terms(db, name), _balance(db, name)
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
            _terms(db, name)
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

    def account(self, name: str) -> tuple[Terms, Account]:
        """Return what `Session.bound` needs of a budget."""
        with self._transaction("BEGIN") as db:
            terms = _terms(db, name)
        return terms, Account(self, name)

    def close(self) -> None:
        """Close the file; sessions bound to it can't spend any more."""
        _gate.shut()
        try:
            self._closed = True
            self._close_connections()
        finally:
            _gate.open()

    def _close_connections(self) -> None:
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
        with _gate.shared():
            if self._closed:
                raise LedgerUnavailableError("the ledger is closed")
            try:
                try:
                    db = self._pool.pop()
                except IndexError:
                    db = self._connect()
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
                raise _explained(error, self._path) from error

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        try:
            _recognise(db, self._path)
            self._write_ahead(db)
            db.execute("PRAGMA synchronous = FULL")
            # On macOS fsync alone leaves writes in the drive's cache; no effect elsewhere.
            db.execute("PRAGMA fullfsync = ON")
            db.execute("PRAGMA checkpoint_fullfsync = ON")
            db.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            db.close()
            raise
        return db

    def _write_ahead(self, db: sqlite3.Connection) -> None:
        """Set WAL mode, which stays with the file; SQLite itself does not wait for its turn."""
        end = time.monotonic() + self._timeout
        while True:
            try:
                (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.01)
                continue
            if mode != "wal":
                raise LedgerError(f"{self._path} can't be used in WAL mode")
            return


class Account:
    """A budget of a ledger, as a session spends it."""

    def __init__(self, ledger: Ledger, name: str):
        self._ledger, self._name = ledger, name
        self.check_labels: Callable[[Histogram], None] | None = check_labels

    def remaining(self) -> Remaining:
        """Return what is left."""
        with self._ledger._transaction("BEGIN") as db:
            return _balance(db, self._name)

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> Release | None:
        """Return the release of an earlier request, None if it is new."""
        with self._ledger._transaction("BEGIN") as db:
            return _recorded(db, self._name, request_id, _text(call))

    def reserve(
        self, outcomes: int, calls: int, request_id: str | None, call: Mapping[str, Any]
    ) -> int | Release:
        """Charge what a call may cost, on disk."""
        name, text = self._name, _text(call)
        with self._ledger._transaction("BEGIN IMMEDIATE") as db:
            if request_id is not None:
                recorded = _recorded(db, name, request_id, text)
                if recorded is not None:
                    return recorded
            check(_balance(db, name), outcomes, calls)
            db.execute(
                "UPDATE balances SET outcomes = outcomes - ?, calls = calls - ? WHERE name = ?",
                (outcomes, calls, name),
            )
            row = db.execute(
                "INSERT INTO reservations (name, request_id, call, outcomes, calls, at) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (name, request_id, text, outcomes, calls, _now()),
            )
            assert row.lastrowid is not None
            return row.lastrowid

    def settle(self, ticket: int, outcomes: int, calls: int, released: Release) -> None:
        """Record the release and give back what it did not cost, on disk."""
        text = encode(released)
        with self._ledger._transaction("BEGIN IMMEDIATE") as db:
            (reserved,) = db.execute(
                "SELECT outcomes FROM reservations WHERE id = ?", (ticket,)
            ).fetchone()
            db.execute("INSERT INTO releases VALUES (?, ?, ?, ?)", (ticket, outcomes, text, _now()))
            db.execute(
                "UPDATE balances SET outcomes = outcomes + ? WHERE name = ?",
                (reserved - outcomes, self._name),
            )


def _recognise(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether a file is a ledger, False if it is empty; refuse any other."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if application == APPLICATION:
        return True
    if application != 0 or db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise LedgerError(f"{path} is an SQLite file, but not a ledger")
    return False


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file; check the version of an old one."""
    if not _recognise(db, path):
        for statement in _SCHEMA.split(";\n"):
            db.execute(statement)
        for trigger in _APPEND_ONLY.splitlines():
            db.execute(trigger)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
    elif db.execute("SELECT version FROM schema_version").fetchall() != [(VERSION,)]:
        raise LedgerError(f"{path} is a ledger of another version of dptopk")


def _terms(db: sqlite3.Connection, name: str) -> Terms:
    row = db.execute(f"SELECT {', '.join(_TERMS)} FROM budgets WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise UnknownBudgetError(f"there is no budget named {name!r}")
    values = dict(zip(_TERMS, row, strict=True))
    return Terms(**values | {field: float.fromhex(values[field]) for field in _FLOATS})


def _balance(db: sqlite3.Connection, name: str) -> Remaining:
    row = db.execute("SELECT outcomes, calls FROM balances WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise UnknownBudgetError(f"there is no budget named {name!r}")
    return Remaining(*row)


def _recorded(db: sqlite3.Connection, name: str, request_id: str, call: str) -> Release | None:
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


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


_PASSING, _LASTING = LedgerUnavailableError, LedgerError
_SIGNS = (
    ("locked", "is locked by another program", _PASSING),
    ("readonly", "can't be written", _PASSING),
    ("unable to open", "can't be opened", _PASSING),
    ("full", "can't be written: the disk is full", _PASSING),
    ("disk I/O", "can't be read or written", _PASSING),
    ("not a database", "is not a ledger", _LASTING),
    ("malformed", "is damaged", _LASTING),
)


def _explained(error: sqlite3.Error, path: Path) -> LedgerError:
    """Return an error that says what is wrong; SQLite's words hold none of the rows."""
    text = str(error)
    for sign, meaning, kind in _SIGNS:
        if sign in text:
            return kind(f"{path} {meaning} ({text})")
    return LedgerError(f"{path} can't be used ({text})")


# SQLite must not be carried across a fork: neither its connections nor its own
# notes on which locks the process holds. So a fork waits until no transaction
# is running, and all connections are closed before it.


class _Gate:
    """Many transactions at a time, or one fork; a fork that waits goes first."""

    def __init__(self) -> None:
        self.condition = threading.Condition(threading.Lock())
        self.inside = self.waiting = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self.condition:
            while self.waiting:
                self.condition.wait()
            self.inside += 1
        try:
            yield
        finally:
            with self.condition:
                self.inside -= 1
                if not self.inside:
                    self.condition.notify_all()

    def shut(self) -> None:
        """Wait until nobody is inside, and let nobody in."""
        self.condition.acquire()
        self.waiting += 1
        while self.inside:
            self.condition.wait()

    def open(self) -> None:
        """Undo `shut`."""
        self.waiting -= 1
        self.condition.notify_all()
        self.condition.release()


_gate = _Gate()
# Closing a file drops the locks that other threads' SQLite has on it: none opens it before.
_making = threading.Lock()
_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _before_fork() -> None:
    _gate.shut()
    for ledger in list(_ledgers):
        ledger._close_connections()


def _after_fork_in_child() -> None:
    global _gate
    _gate = _Gate()  # threads that waited at the old one are not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _gate.open(),
        after_in_child=_after_fork_in_child,
    )
