"""The tables of a ledger file, how a connection to it is set, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path

from dptopk.budget.terms import Terms
from dptopk.errors import LedgerError, LedgerUnavailableError

__all__ = ["FLOATS", "TERMS", "connect", "explained", "make", "prepare"]

VERSION = 1
APPLICATION = 0x6470746B  # "dptk": tells our files from other SQLite files

FLOATS = tuple(name for name, kind in Terms.__annotations__.items() if kind == "float")
TERMS = tuple(Terms.__dataclass_fields__)

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
    {", ".join(f"{name} TEXT NOT NULL" for name in FLOATS)}
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


def connect(path: Path, timeout: float) -> sqlite3.Connection:
    """Open a file that is a ledger or empty; every commit of it waits for the disk."""
    db = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        _recognise(db, path)
        _write_ahead(db, path, timeout)
        db.execute("PRAGMA synchronous = FULL")
        # On macOS fsync alone leaves writes in the drive's cache; no effect elsewhere.
        db.execute("PRAGMA fullfsync = ON")
        db.execute("PRAGMA checkpoint_fullfsync = ON")
        db.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        db.close()
        raise
    return db


def _write_ahead(db: sqlite3.Connection, path: Path, timeout: float) -> None:
    """Set WAL mode, which stays with the file; SQLite itself does not wait for its turn."""
    end = time.monotonic() + timeout
    while True:
        try:
            (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise LedgerError(f"{path} can't be used in WAL mode")
        return


def make(path: Path) -> None:
    """Make an empty file that only its owner can use; leave one that is there alone.

    SQLite gives the files that it keeps beside it the same mode.
    """
    try:
        with _making:
            os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise LedgerUnavailableError(f"{path} can't be opened ({error.strerror})") from error


# Closing a file drops the locks that other threads' SQLite has on it: none opens it before.
_making = threading.Lock()


def _recognise(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether a file is a ledger, False if it is empty; refuse any other."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if application == APPLICATION:
        return True
    if application != 0 or db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise LedgerError(f"{path} is an SQLite file, but not a ledger")
    return False


def prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file; check the version of an old one."""
    if not _recognise(db, path):
        for statement in _SCHEMA.split(";\n"):
            db.execute(statement)
        for trigger in _APPEND_ONLY.splitlines():
            db.execute(trigger)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
    elif db.execute("SELECT version FROM schema_version").fetchall() != [(VERSION,)]:
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


def explained(error: sqlite3.Error, path: Path) -> LedgerError:
    """Return an error that says what is wrong; SQLite's words hold none of the rows."""
    text = str(error)
    for sign, meaning, kind in _SIGNS:
        if sign in text:
            return kind(f"{path} {meaning} ({text})")
    return LedgerError(f"{path} can't be used ({text})")
