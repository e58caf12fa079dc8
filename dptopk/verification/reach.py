"""Where to look: the counts at which one user changes a law the most.

A table of all small histograms never crosses a threshold that lies above its counts.
So the law is first followed along a few lines up to larger counts, and a second
table is laid where the claim is most at risk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dptopk.verification.privacy import Claim, Counts, Law, hockey_stick, losses_of, prices


def riskiest(law: Law, claim: Claim, items: int, most_items: int, reach: int) -> Counts:
    """Return the histogram on the lines, counts up to `reach`, with the worst pair of all."""
    worst, where = -1.0, (0,) * items
    for counts in _lines(items, reach):
        here = law(counts)
        for size in {1, most_items}:
            for user in {tuple(range(size)), tuple(range(items - size, items))}:
                there = law(tuple(n + (i in user) for i, n in enumerate(counts)))
                risk = _risk(here, there, claim)
                if risk > worst * (1 + 1e-9):  # the first of equals: the least counts
                    worst, where = risk, counts
    return where


def around(counts: Counts, max_count: int) -> Counts:
    """Return where a table of 0, ..., max_count more has these counts in its middle."""
    return tuple(max(count - (max_count + 1) // 2, 0) for count in counts)


def _lines(items: int, reach: int) -> Iterator[Counts]:
    """One item that counts, all alike, all but one."""
    shapes = {(1,) + (0,) * (items - 1), (1,) * items, (1,) * (items - 1) + (0,)}
    for height in range(reach + 1):
        for shape in sorted(shapes):
            yield tuple(height * n for n in shape)


def _risk(p: Mapping[Any, float], q: Mapping[Any, float], claim: Claim) -> float:
    outcomes = list({**p, **q})
    laws = np.array([[law.get(outcome, 0.0) for outcome in outcomes] for law in (p, q)])
    judge = losses_of if claim.delta == 0 else hockey_stick
    return float(judge(laws, laws[::-1], prices(claim, outcomes)).max())
