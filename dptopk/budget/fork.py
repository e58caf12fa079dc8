"""Connections and forks: a fork waits for transactions, and finds no connection open.

Neither SQLite nor libpq may be carried across a fork: not their connections, and not
SQLite's own notes on which locks the process holds. So a fork waits until no transaction
is running, and all connections are closed before it.

A signal handler runs in the middle of whatever its thread was at. If that is a
transaction, waiting for it would be waiting for ever. Then

- `close` closes what is idle, and the transaction closes its own connection at its end;
- another transaction is refused;
- a fork goes ahead, and its child can use no ledger: every transaction in it is refused,
  and the one that the handler interrupted stops before its next statement.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dptopk.errors import DptopkError, LedgerUnavailableError

__all__ = ["Connected", "check", "closing", "opened", "transaction"]


class Connected:
    """A store with connections: idle ones, which a fork closes, and those in use."""

    def __init__(self) -> None:
        self._idle: list[Any] = []
        self._used: list[Any] = []
        self._closed = False

    def close(self) -> None:
        """Close all connections; one in use is closed at the end of its transaction."""
        self._closed = True
        with closing():
            self.close_connections()

    def close_connections(self) -> None:
        """Close what no transaction is using; the next one opens another."""
        while self._idle:
            self._idle.pop().close()

    def connections(self) -> list[Any]:
        """Return all that are open, those in use included."""
        return self._idle + self._used

    @contextmanager
    def _borrowed(self, db: Any) -> Iterator[Any]:
        """Run the statements of one transaction; keep the connection if it can serve again."""
        self._used.append(db)
        sound = False
        try:
            try:
                yield db
            except DptopkError:
                check()
                db.execute("ROLLBACK")
                sound = True
                raise
            check()
            self._commit(db)
            sound = True
        finally:
            self._used.remove(db)
            if sound and not self._closed:
                self._idle.append(db)
            elif not _broken:  # what state it is in is not known
                db.close()

    def _commit(self, db: Any) -> None:
        db.execute("COMMIT")


class Gate:
    """Many transactions at a time, or one that shuts it; who waits to shut it goes first.

    `busy` has the threads that are anywhere in this code or between its two ends: their
    signal handlers must not wait here.
    """

    def __init__(self) -> None:
        self.condition = threading.Condition(threading.Lock())
        self.busy: set[int] = set()
        self.inside: set[int] = set()
        self.waiting = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        me = threading.get_ident()
        if me in self.busy:
            raise LedgerUnavailableError(
                "a ledger was called in the middle of a transaction of the same thread, "
                "as by a signal handler"
            )
        try:
            self.busy.add(me)
            with self.condition:
                while self.waiting:
                    self.condition.wait()
                self.inside.add(me)
            yield
        finally:
            self.inside.discard(me)
            if not _broken:  # there nobody waits, and a thread that is gone may have the lock
                with self.condition:
                    self.condition.notify_all()
            self.busy.discard(me)

    def shut(self) -> bool:
        """Wait until nobody is inside, and let nobody in; False if that can't be waited for."""
        me = threading.get_ident()
        if me in self.busy:
            return False
        self.busy.add(me)
        self.condition.acquire()
        self.waiting += 1
        while self.inside:
            self.condition.wait()
        return True

    def open(self) -> None:
        """Undo a `shut` that was True."""
        self.waiting -= 1
        self.condition.notify_all()
        self.condition.release()
        self.busy.discard(threading.get_ident())


_gate = Gate()
_shut: list[bool] = []  # of the forks under way in this thread: whether each shut the gate
_connected: weakref.WeakSet[Connected] = weakref.WeakSet()
_broken = False  # in the child of a fork amid a transaction


def check() -> None:
    """Refuse to go on in a process that was forked amid a transaction."""
    if _broken:
        raise LedgerUnavailableError(
            "this process was forked in the middle of a transaction, by a signal handler: "
            "it can use no ledger"
        )


@contextmanager
def transaction() -> Iterator[None]:
    """Keep forks, and whoever closes connections, out while the block runs."""
    check()
    with _gate.shared():
        yield


def opened(owner: Connected) -> None:
    """Close the connections of an owner, as long as it lives, before every fork."""
    _connected.add(owner)


@contextmanager
def closing() -> Iterator[None]:
    """Keep transactions out while the block runs, but for one of this very thread."""
    shut = _gate.shut()
    try:
        yield
    finally:
        if shut:
            _gate.open()


def _before_fork() -> None:
    _shut.append(_gate.shut())
    if _shut[-1]:
        for owner in list(_connected):
            owner.close_connections()


def _after_fork_in_parent() -> None:
    if _shut.pop():
        _gate.open()


def _after_fork_in_child() -> None:
    global _gate, _broken
    if not _shut.pop():
        _broken = True
        for owner in list(_connected):
            for connection in owner.connections():
                # Never closed here, not even at exit: that would undo what its owner writes.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    _shut.clear()
    _gate = Gate()  # threads that waited at the old one are not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
