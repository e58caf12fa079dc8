"""Ctrl-C ends the wait for work that doesn't look at signals itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["interruptible"]

_GRACE = 0.25  # seconds for an engine to stop, after which it is left behind


def interruptible(work: Callable[[], Any], stop: Callable[[], None] | None = None) -> Any:
    """Return what `work` returns, or raise what it raises, such that Ctrl-C ends the wait for it.

    Parameters
    ----------
    work : callable
        Runs in a thread of its own, where this is the main thread, to which
        signals come; else at once.
    stop : callable, optional
        Asks the engine to stop. One that can't is left behind, and ends with
        its work or the process.
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

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        end = time.monotonic() + _GRACE
        # More than once: the first may come before there is anything to stop.
        while stop is not None and thread.is_alive() and time.monotonic() < end:
            stop()
            thread.join(_GRACE / 10)
        raise
    if errors:
        raise errors.pop()
    return results[0]
