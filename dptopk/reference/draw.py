"""The readable twin of csrc/draw.c: specification, test oracle, exact fallback.

Who becomes a candidate is computed in doubles, as the kernel does it: the same numbers in
the same order, by operations that every machine rounds alike. All else is exact.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence

from dptopk.reference.race import (
    Block,
    Exponential,
    Runner,
    Scale,
    Score,
    Tape,
    maker_of_runners,
    pop_leader,
    reaches,
)

__all__ = ["draw"]

LEADS = 4  # items that take their first 16 bits from one word
FEW = 64  # maxima that are ranked
BASE = 143 << 23
UNITS = float.fromhex("0x1.71547652b82fep+23")  # 2^23 / ln 2


def draw(tape: Tape, scores: Sequence[Score], *, k: int, scale: Scale) -> list[int]:
    """Return the k items with the largest score/scale + Gumbel noise, in order.

    The words are those of `candidates`; further bits as the order needs them.
    """
    most = max(scores)
    runner_of = maker_of_runners([Block(most, 0.0, 1, "head")], scale, "gumbel")
    words = [tape.word() for _ in range(-(-len(scores) // LEADS))]
    leads = [words[i // LEADS] >> 16 * (i % LEADS) & 0xFFFF for i in range(len(scores))]
    # In units of ln 2 2^-23, as bounds of noise are.
    drops = [(float(score) - float(most) if isinstance(most, float) else float(score - most))
             * (UNITS / float(scale)) for score in scores]  # fmt: skip
    seen: set[int] = set()
    runners: list[Runner] = []
    for floor in floors(drops, leads, k):
        for item, (drop, lead) in enumerate(zip(drops, leads, strict=True)):
            if item not in seen and is_above(drop, floor, lead):
                seen.add(item)
                block = Block(scores[item], 0.0, 1, "head")
                block.spacings.append(Exponential(tape, lead << 48 | tape.word() >> 16))
                runners.append(runner_of(block, block.score, item))
        if len(runners) < k:
            continue
        heap = runners.copy()
        heapq.heapify(heap)
        picks = [pop_leader(heap) for _ in range(k)]
        if floor == -math.inf or reaches(picks[-1], most_below(floor)):
            break
    return [pick.item for pick in picks]


def floors(drops: Sequence[float], leads: Sequence[int], k: int) -> Iterator[float]:
    """Yield falling floors of the bounds, the first one some more than k are above."""
    n, before = len(drops), math.inf
    share = (k + k // 5 + 8) / n
    while n > FEW and share <= 0.5:
        floor = floor_at(drops, leads, share)
        if floor < before:
            yield floor
            before = floor
        share *= 2.0
    yield -math.inf


def floor_at(drops: Sequence[float], leads: Sequence[int], share: float) -> float:
    """Return a floor above which some more than a share of all bounds lie, from some of them."""
    n = len(drops)
    times = 1 if n < 2048 else 2
    limit = min(n // (16 * times * FEW), 64)
    many = max(1, min(int(0.69 / share), limit))
    below, total = 1.0, 0.0
    for _ in range(many):
        below *= 1.0 - share
    rank = 3 + int(FEW * (1.0 - below))
    places = [(j * 0x9E3779B9 % 2**32) * n >> 32 for j in range(times * FEW * many)]
    bounds = [drops[at] - steps(leads[at]) for at in places]
    for time in range(times):
        part = bounds[time * FEW * many :][: FEW * many]
        largest = sorted((max(part[i : i + many]) for i in range(0, len(part), many)), reverse=True)
        total += largest[rank - 1]
    return total / times


def is_above(drop: float, floor: float, lead: int) -> bool:
    """Tell whether the bound of a value is above a floor, or nothing bounds it."""
    return lead == 0 or drop - floor >= steps(lead)


def steps(lead: int) -> int:
    """Return the bits of a whole number below 2^16 as a float: about 2^23 (127 + log2 of it).

    That runs along the chords of log2, and so below it.
    """
    if lead == 0:
        return 0
    power = lead.bit_length() - 1
    return (127 + power) << 23 | (lead << 23 >> power) - (1 << 23)


def most_below(floor: float) -> float:
    """Return what no value exceeds that is not above a floor, whatever was rounded."""
    most = (floor + BASE) / UNITS
    return most + (2.0**-20 + 2.0**-46 * abs(most))
