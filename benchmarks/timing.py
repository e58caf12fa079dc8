"""One way to time everything: interleaved calls, medians after a warm-up.

Interleaving gives each contender the same moments of a shared machine, so that ratios within a run
mean something where absolute times do not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def medians_ms(
    contenders: dict[str, Callable[[], Any]], *, repeats: int = 31, warm_up: int = 3
) -> dict[str, float]:
    """Median milliseconds of each contender, called in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(warm_up + repeats):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            elapsed = time.perf_counter() - start
            if turn >= warm_up:
                seconds[name].append(elapsed)
    return {name: 1e3 * statistics.median(values) for name, values in seconds.items()}
