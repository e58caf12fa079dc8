"""A progress line on stderr for work that turns out to be long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_PATIENCE = 1.0  # seconds of silence: short work shows nothing
_PERIOD = 0.2  # seconds between two readings of the engine's own progress


@contextmanager
def working(message: str, progress: bool | Callable[[], float]) -> Iterator[None]:
    """Show that the body is at work, if it is long and stderr is a terminal.

    Parameters
    ----------
    message : str
        What is being done. It holds no data.
    progress : bool or callable
        False shows nothing, True a pulse and the time passed. A callable is
        asked for the percentage done, negative while it is not known; the time
        left is estimated from it.
    """
    if progress is False or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    # The work stays in the main thread, where Ctrl-C reaches it.
    drawer = threading.Thread(target=_draw, args=(message, progress, done), daemon=True)
    drawer.start()
    try:
        yield
    finally:
        done.set()
        drawer.join()


def _draw(message: str, progress: bool | Callable[[], float], done: threading.Event) -> None:
    if done.wait(_PATIENCE):
        return
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
    except ImportError:  # no progress line, the same result
        return
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()]
    if callable(progress):
        columns += [TextColumn("left:"), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(message, total=None)
        while not done.wait(_PERIOD):
            percent = progress() if callable(progress) else -1.0
            if percent >= 0:
                bar.update(task, total=100.0, completed=percent)
