"""Connections to SQLite and forks: a fork waits for transactions, and finds no connection open.

SQLite must not be carried across a fork: neither its connections nor its own
notes on which locks the process holds. So a fork waits until no transaction
is running, and all connections are closed before it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

__all__ = ["closing", "opened", "transaction"]


class Connected(Protocol):
    """What has connections to close before a fork."""

    def close_connections(self) -> None:
        """Close them; the next transaction opens others."""


class Gate:
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


_gate = Gate()
_connected: weakref.WeakSet[Connected] = weakref.WeakSet()


def transaction() -> AbstractContextManager[None]:
    """Keep forks, and whoever closes connections, out while the block runs."""
    return _gate.shared()


def opened(owner: Connected) -> None:
    """Close the connections of an owner, as long as it lives, before every fork."""
    _connected.add(owner)


@contextmanager
def closing() -> Iterator[None]:
    """Keep transactions out while the block runs."""
    _gate.shut()
    try:
        yield
    finally:
        _gate.open()


def _before_fork() -> None:
    _gate.shut()
    for owner in list(_connected):
        owner.close_connections()


def _after_fork_in_child() -> None:
    global _gate
    _gate = Gate()  # threads that waited at the old one are not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _gate.open(),
        after_in_child=_after_fork_in_child,
    )
