"""One line of the table."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One comparison. ratio = baseline / ours where more is better, else ours / baseline."""

    work: str
    ours_ms: float
    baseline: str
    baseline_ms: float | None
    ratio: float
    target: str
    met: bool | None  # None: no target, for information


def at_most(work: str, ours_ms: float, baseline: str, baseline_ms: float, limit: float) -> Row:
    """Ours may take `limit` times as long as the baseline."""
    ratio = ours_ms / baseline_ms
    return Row(work, ours_ms, baseline, baseline_ms, ratio, f"<= {limit:g} x", ratio <= limit)


def at_least(
    work: str, ours_ms: float, baseline: str, baseline_ms: float, limit: float | None
) -> Row:
    """Ours must be `limit` times as fast as the baseline."""
    ratio = baseline_ms / ours_ms
    target = "" if limit is None else f">= {limit:g} x faster"
    return Row(
        work,
        ours_ms,
        baseline,
        baseline_ms,
        ratio,
        target,
        None if limit is None else ratio >= limit,
    )
