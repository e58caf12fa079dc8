"""A store that is one SQLite file.

The file is all there is: its journal mode is PERSIST, with synchronous=FULL, so whatever
was committed is in the file itself, on disk. In WAL mode the newest charges would be in
a second file, whose loss gives them back without a word; and SQLite before 3.51.3 can
damage a file there, when one process writes while another one resets the log. It costs
two more waits for the disk in each transaction.

The journal beside the file matters after a crash only: it undoes the transaction that
was under way. It belongs to the name of the file, so a file that goes by two names, or is
moved while it is open, is refused.
"""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dptopk.budget import fork
from dptopk.budget.sql import SqlLog
from dptopk.budget.store import Log, Store, UncertainError
from dptopk.budget.version1 import upgraded
from dptopk.errors import LedgerError, LedgerUnavailableError

__all__ = ["SqliteStore"]

VERSION = 2
APPLICATION = 0x6470746B  # "dptk": tells our files from other SQLite files

_SCHEMA = (
    """CREATE TABLE lines (
        name TEXT NOT NULL,
        seq INTEGER NOT NULL,
        request_id TEXT,
        text TEXT NOT NULL,
        body TEXT,
        PRIMARY KEY (name, seq)
    ) WITHOUT ROWID""",
    "CREATE INDEX requests ON lines (name, request_id) WHERE request_id IS NOT NULL",
    *(
        f"CREATE TRIGGER lines_{event.lower()} BEFORE {event} ON lines "
        "BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END"
        for event in ("UPDATE", "DELETE")
    ),
    # INSERT OR REPLACE deletes a row without asking the triggers on DELETE.
    "CREATE TRIGGER lines_replace BEFORE INSERT ON lines "
    "WHEN EXISTS (SELECT 1 FROM lines WHERE name = NEW.name AND seq = NEW.seq) "
    "BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END",
)


class SqliteStore(fork.Connected, Store):
    """A file.

    Parameters
    ----------
    path : path
        Where; it is made if it does not exist, for its owner alone.
    timeout : float
        Seconds to wait for other writers.
    """

    def __init__(self, path: Path, timeout: float):
        super().__init__()
        # Connections are opened later too, when the process may be in another directory.
        self.path = Path(os.path.realpath(path))
        self._timeout = timeout
        self._turn = threading.Lock()
        with fork.transaction():  # not while a fork goes through them
            _make(self.path)
            self._same = _identity(self.path)
            fork.opened(self)
        try:
            with self._connection("BEGIN IMMEDIATE") as db:
                _prepare(db, self.path)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self, names: Sequence[str] = ()) -> Iterator[Log]:
        """Run a transaction; one that writes keeps all other writers out."""
        with self._connection("BEGIN IMMEDIATE" if names else "BEGIN") as db:

            def query(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
                fork.check()
                return db.execute(statement, values).fetchall()

            # Without statistics SQLite takes the primary key: it would read the whole log.
            yield SqlLog(query, "lines", "?", requests="INDEXED BY requests")

    def __repr__(self) -> str:
        return repr(str(self.path))

    @contextmanager
    def _connection(self, begin: str) -> Iterator[sqlite3.Connection]:
        """Run a transaction on a connection that no other thread is using.

        Whatever goes wrong undoes it, and errors of SQLite become LedgerError.
        """
        with fork.transaction():
            if self._closed:
                raise LedgerUnavailableError("the ledger is closed")
            # SQLite polls for its locks. Within the process threads wait here in its place.
            end = time.monotonic() + self._timeout
            while not self._turn.acquire(timeout=0.1):
                fork.check()  # the thread that has it may be in another process now
                if time.monotonic() > end:
                    raise LedgerUnavailableError(f"{self.path} is locked by other threads")
            try:
                with self._running(begin) as db:
                    yield db
            finally:
                self._turn.release()

    @contextmanager
    def _running(self, begin: str) -> Iterator[sqlite3.Connection]:
        if _identity(self.path) != self._same:
            raise LedgerUnavailableError(
                f"another file is at {self.path} than when the ledger was opened: open it again, "
                "if it holds all that was charged"
            )
        try:
            try:
                db = self._idle.pop()
            except IndexError:
                db = _connect(self.path, self._timeout)
                db.execute("PRAGMA busy_timeout = 0")  # _patiently waits
            with self._borrowed(db):
                self._patiently(db, begin)
                yield db
        except sqlite3.IntegrityError:
            raise UncertainError(f"{self.path} has another line there already") from None
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error
        except UnicodeDecodeError:  # of SQLite's message
            raise LedgerError(f"{self.path} is damaged") from None

    def _commit(self, db: sqlite3.Connection) -> None:
        self._patiently(db, "COMMIT")

    def _patiently(self, db: sqlite3.Connection, statement: str) -> None:
        """Run what may have to wait for other processes: SQLite itself looks ever less often."""
        end = time.monotonic() + self._timeout
        while True:
            fork.check()
            try:
                db.execute(statement)
                if statement == "BEGIN":  # takes no lock before its first read
                    statement = "SELECT 1 FROM sqlite_master LIMIT 1"
                    continue
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(random.uniform(0.0005, 0.003))


def _make(path: Path) -> None:
    """Make an empty file that only its owner can use; leave one that is there alone.

    SQLite gives the journal that it keeps beside it the same mode.
    """
    try:
        with _making:
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            try:
                if hasattr(os, "fchmod"):
                    os.fchmod(file, 0o600)  # whatever the umask takes away
            finally:
                os.close(file)
    except FileExistsError:
        # SQLite takes a few bytes for an empty file. Only their number is asked for: opening
        # and closing the file would drop this process's locks on it.
        if path.is_file() and 0 < path.stat().st_size < 512:
            raise LedgerError(f"{path} is not a ledger") from None
    except OSError as error:
        raise LedgerUnavailableError(f"{path} can't be opened ({error.strerror})") from error


# Closing a file drops the locks that other threads' SQLite has on it: none opens it before.
_making = threading.Lock()


def _identity(path: Path) -> tuple[int, int]:
    """Return what tells a file from others; refuse one that goes by two names."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError as error:
        raise LedgerUnavailableError(f"{path} can't be opened ({error.strerror})") from error
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        raise LedgerError(
            f"{path} has {found.st_nlink} names (hard links): each would have a journal of its "
            "own, and what was charged under one could be lost; leave it one"
        )
    return found.st_dev, found.st_ino


def _is_mounted(path: Path, mounts: str) -> bool:
    """Return whether a file itself is a mount point, by the text of /proc/self/mountinfo."""
    points = (line.split(" ")[4] for line in mounts.splitlines())
    escapes = {" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"}
    wanted = "".join(escapes.get(character, character) for character in str(path))
    return wanted in points


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    """Open a file that is a ledger or empty; every commit of it waits for the disk."""
    mounts = Path("/proc/self/mountinfo")
    if mounts.exists() and _is_mounted(path, mounts.read_text(errors="surrogateescape")):
        raise LedgerError(
            f"{path} is a mount of a single file: its journal would not be beside the file; "
            "mount the directory"
        )
    db = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    # Else what is not UTF-8 is an error that quotes the row.
    db.text_factory = partial(str, encoding="utf-8", errors="replace")
    try:
        _recognise(db, path)
        _journal(db, path, timeout)
        db.execute("PRAGMA synchronous = FULL")
        # On macOS fsync alone leaves writes in the drive's cache; no effect elsewhere.
        db.execute("PRAGMA fullfsync = ON")
    except BaseException:
        db.close()
        raise
    return db


def _journal(db: sqlite3.Connection, path: Path, timeout: float) -> None:
    """Leave WAL mode, which stays with the file; SQLite itself does not wait for its turn."""
    end = time.monotonic() + timeout
    while True:
        mode = "wal"
        try:
            (mode,) = db.execute("PRAGMA journal_mode = PERSIST").fetchone()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
        if mode == "persist":
            return
        if time.monotonic() > end:
            raise LedgerUnavailableError(f"{path} is locked by another program, in WAL mode")
        time.sleep(0.01)


def _recognise(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether a file is a ledger, False if it is empty; refuse any other."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if application == APPLICATION:
        return True
    if application != 0 or db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise LedgerError(f"{path} is an SQLite file, but not a ledger")
    return False


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file; check the version of an old one, or upgrade it."""
    if not _recognise(db, path):
        db.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
        db.execute("INSERT INTO schema_version VALUES (?)", (VERSION,))
        for statement in _SCHEMA:
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        return
    # A page that lost its last rows reads as an old copy would, with more budget left; an index
    # that lost some, as if a request were new, or a period had not begun.
    if db.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]:
        raise LedgerError(f"{path} is damaged")
    versions = db.execute("SELECT version FROM schema_version").fetchall()
    if versions == [(1,)]:
        lines = upgraded(db, path)
        for statement in _SCHEMA:
            db.execute(statement)
        db.executemany("INSERT INTO lines VALUES (?, ?, ?, ?, ?)", lines)
        db.execute("UPDATE schema_version SET version = ?", (VERSION,))
    elif versions != [(VERSION,)]:
        raise LedgerError(f"{path} is a ledger of another version of dptopk")


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
