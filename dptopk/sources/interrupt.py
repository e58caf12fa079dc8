"""Ctrl-C ends the wait for work that doesn't look at signals itself, or not often enough."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["can_stop", "interruptible", "stopping"]

_GRACE = 0.3  # seconds for an engine to stop, after which it is left behind
_PERIOD = 0.05  # seconds between two looks at signals
_here = threading.local()


@contextlib.contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Let `interruptible` work of the body be stopped by a call, as of a connection's interrupt.

    It may be called more than once, and before there is anything to stop. Calls
    of bodies around this one are made after it.
    """
    before = getattr(_here, "stops", ())
    _here.stops = (stop, *before)
    try:
        yield
    finally:
        _here.stops = before


def can_stop() -> bool:
    """Whether there is a call that stops the engine."""
    return bool(getattr(_here, "stops", ()))


def interruptible(work: Callable[[], Any]) -> Any:
    """Return what `work` returns, or raise what it raises, such that Ctrl-C ends the wait for it.

    It runs in a thread of its own, where this is the main thread, to which
    signals come; else at once. An engine that can't be stopped is left behind,
    and ends with its work or with the process.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    # Not Thread.join: one that is interrupted takes the thread for ended (Python 3.11).
    done = threading.Event()
    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
        # Not one long wait: a signal that another thread takes does not end it.
        while not done.wait(_PERIOD):
            pass
    except BaseException:
        end = time.monotonic() + _GRACE
        while can_stop() and not done.is_set() and time.monotonic() < end:
            for stop in _here.stops:
                stop()
            done.wait(_GRACE / 10)
        raise
    if errors:
        raise errors.pop()
    return results[0]
