"""One way to time everything: interleaved calls, medians after a warm-up.

Interleaving gives each contender the same moments of a shared machine, so that ratios within a run
mean something where absolute times do not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def seconds_of(
    contenders: dict[str, Callable[[], Any]],
    *,
    repeats: int = 31,
    warm_up: int = 3,
    in_a_row: int = 1,
) -> dict[str, list[float]]:
    """Seconds a call of each contender, called in turn, each time so many times in a row."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(warm_up + repeats):
        for name, call in contenders.items():
            start = time.perf_counter()
            for _ in range(in_a_row):
                call()
            elapsed = time.perf_counter() - start
            if turn >= warm_up:
                seconds[name].append(elapsed / in_a_row)
    return seconds


def medians_ms(
    contenders: dict[str, Callable[[], Any]], *, repeats: int = 31, warm_up: int = 3
) -> dict[str, float]:
    """Median milliseconds of each contender, called in turn."""
    seconds = seconds_of(contenders, repeats=repeats, warm_up=warm_up)
    return {name: 1e3 * statistics.median(values) for name, values in seconds.items()}
