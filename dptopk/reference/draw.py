"""The readable twin of csrc/draw.c: specification, test oracle, exact fallback."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from dptopk.reference.race import (
    Block,
    Exponential,
    Runner,
    Scale,
    Score,
    Tape,
    maker_of_runners,
    pop_leader,
)

__all__ = ["draw"]


def draw(tape: Tape, scores: Sequence[Score], *, k: int, scale: Scale) -> list[int]:
    """Return the k items with the largest score/scale + Gumbel noise, in order.

    A word for each item in order; further bits as the order needs them.
    """
    blocks = [Block(score, 0.0, 1, "head") for score in scores]
    runner_of = maker_of_runners(blocks, scale, "gumbel")
    runners: list[Runner] = []
    for item, block in enumerate(blocks):
        block.spacings.append(Exponential(tape))
        runners.append(runner_of(block, block.score, item))
    heapq.heapify(runners)
    return [pop_leader(runners).item for _ in range(k)]
