"""The readable twin of csrc/draw.c: specification, test oracle, exact fallback.

Who becomes a candidate is computed in doubles, as the kernel does it: the same numbers in
the same order, by operations that every machine rounds alike. All else is exact.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

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

__all__ = ["Rest", "Sieve", "draw"]

FEW = 64  # maxima that are ranked
MORE = 3  # ranks
LARGE = 2048  # scores, of which more are looked at for the floor
NEAR = 4096.0  # scales
MANY, A_FEW = 1 << 14, 2  # of fewer scores some of FEW may be far above the others
BASE = 143 << 23
UNITS = float.fromhex("0x1.71547652b82fep+23")  # 2^23 / ln 2
DEEP = 2.0**40


@dataclasses.dataclass(frozen=True)
class Rest:
    """All scores, where noise is drawn of those of some `items` only; see dptk_rest.

    No other score is above `most`; the floor is so many scales above that.
    """

    scores: Sequence[Score]
    items: Sequence[int]
    most: Score
    floor: float


@dataclasses.dataclass(frozen=True)
class Sieve:
    """Which items are let through: those of larger scores, or whose U begins with such zeros.

    They are so many `bits`; see dptk_sieve.
    """

    score: Score
    bits: int


class Drawn(NamedTuple):
    """An item with the first 16 bits of its U, and in UNITS what its score is above another."""

    item: int
    score: Score
    drop: float
    lead: int


def draw(
    tape: Tape,
    scores: Sequence[Score],
    *,
    k: int,
    scale: Scale,
    rest: Rest | None = None,
    sieve: Sieve | None = None,
) -> list[int]:
    """Return the k items with the largest score/scale + Gumbel noise, in order.

    The words are those of dptk_draw, or dptk_draw_sieved; further bits as the order needs them.
    """
    n = len(scores)
    base = near_kth(scores, rest, k, scale) if sieve is None else sieve.score
    runner_of = maker_of_runners([Block(base, 0.0, 1, "head")], scale, "gumbel")

    def drop_of(score: Score) -> float:
        return float(score - base) * (UNITS / float(scale))

    drawn: list[Drawn] = []
    if sieve is not None:
        sifted = Sifted(tape, scores, sieve, drop_of)
        floor = sifted.into(drawn, k)
    else:
        leads, items = first_bits(tape, n, 16), range(n) if rest is None else rest.items
        for item, score, lead in zip(items, scores, leads, strict=True):
            drawn.append(Drawn(item, score, drop_of(score), lead))
        floor = estimated_floor(drawn, k, MORE)
        if rest is not None:
            block = Block(rest.most, 0.0, len(rest.scores) - n, "tail")
            hidden = Hidden(tape, rest, block, runner_of)
            floor = max(floor, drop_of(rest.most) + rest.floor * UNITS - BASE)
    seen: set[int] = set()
    runners: list[Runner] = []
    fall, more = 0.25 * UNITS, MORE
    while True:
        for place, (item, score, drop, lead) in enumerate(drawn):
            if place not in seen and is_above(drop, floor, lead):
                seen.add(place)
                block = Block(score, 0.0, 1, "head")
                block.spacings.append(Exponential(tape, lead << 48 | tape.word() >> 16))
                runners.append(runner_of(block, block.score, item))
        if rest is not None:
            runners += hidden.down_to(most_below(floor))
        above = [runner for runner in runners if reaches(runner, most_below(floor))]
        if len(above) >= k:
            heapq.heapify(above)
            return [pop_leader(above).item for _ in range(k)]
        if sieve is not None and sifted.bits > 0:
            sifted.widen()
            floor = min(floor, sifted.into(drawn, k))
        else:
            more *= 2
            lower = math.inf if rest is not None else estimated_floor(drawn, k, more)
            floor = min(lower, floor - fall) if fall < DEEP * UNITS else -math.inf
            fall *= 1.25


def first_bits(tape: Tape, n: int, size: int) -> list[int]:
    """Return so many bits each of n numbers: from the lowest of each word up."""
    each = 64 // size
    words = [tape.word() for _ in range(-(-n // each))]
    return [words[i // each] >> size * (i % each) & (1 << size) - 1 for i in range(n)]


class Sifted:
    """The items that a sieve lets through, each time more."""

    def __init__(self, tape: Tape, scores: Sequence[Score], sieve: Sieve, drop_of: Any):
        self.tape, self.scores, self.drop_of = tape, scores, drop_of
        self.planes: list[list[int]] = [[] for _ in scores]  # of each item
        for first in range(0, len(scores), 64):
            for _ in range(sieve.bits):
                word = tape.word()
                for i, bits in enumerate(self.planes[first : first + 64]):
                    bits.append(word >> i & 1)
        self.high = [score > sieve.score for score in scores]
        self.start, self.bits = [0] * sieve.bits, sieve.bits

    def widen(self) -> None:
        """Let others through: as many zeros less one, and then a one."""
        self.bits -= 1
        self.start = [0] * self.bits + [1]

    def into(self, drawn: list[Drawn], k: int) -> float:
        """Add those let through; return a floor that the others, if any, are certainly below."""
        size, first = len(self.start), self.bits == len(self.start)
        items = [
            item
            for item, bits in enumerate(self.planes)
            if (first if self.high[item] else bits[:size] == self.start)
        ]
        for item, more in zip(items, first_bits(self.tape, len(items), 16), strict=True):
            lead = more  # whoever has a larger score: its planes say nothing
            if not self.high[item]:
                lead = sum(self.start) << 16 - size | more >> size
            score = self.scores[item]
            drawn.append(Drawn(item, score, self.drop_of(score), lead))
        return (
            estimated_floor(drawn, k, MORE) if self.bits == 0 else 2.0 - steps(1 << 16 - self.bits)
        )


class Hidden:
    """The items of the rest: one block, of which the next order statistic is known."""

    def __init__(self, tape: Tape, rest: Rest, block: Block, runner_of: Any):
        self.tape, self.rest, self.block, self.runner_of = tape, rest, block, runner_of
        self.gone = set(rest.items)
        self.advance()

    def advance(self) -> None:
        """Draw the next order statistic."""
        self.block.spacings.append(Exponential(self.tape))
        self.next = self.runner_of(self.block, self.block.score)

    def down_to(self, floor: float) -> Iterator[Runner]:
        """Yield items until what is hidden is below a floor."""
        while len(self.gone) < len(self.rest.scores) and reaches(self.next, floor):
            item = self.tape.below(len(self.rest.scores))
            while item in self.gone:
                item = self.tape.below(len(self.rest.scores))
            self.gone.add(item)
            yield self.runner_of(self.block, self.rest.scores[item], item)
            if len(self.gone) < len(self.rest.scores):
                self.advance()


def near_kth(scores: Sequence[Score], rest: Rest | None, k: int, scale: Scale) -> Score:
    """Return a score about the k-th, by some of them; the largest of few not far apart."""
    n, known = len(scores), scores if rest is None else [*scores, rest.most]
    if n < LARGE and float(max(known) - min(known)) / float(scale) < NEAR:
        return max(known)
    some = sorted((scores[place_of(j, n)] for j in range(FEW)), reverse=True)
    above = A_FEW if n < MANY else 0
    return some[above + (FEW - 1 - above) * min(k, n) // n]


def place_of(j: int, n: int) -> int:
    """Return the j-th of some places that are as even as they can be, for any number of them."""
    return (j * 0x9E3779B9 % 2**32) * n >> 32


def estimated_floor(drawn: Sequence[Drawn], k: int, more: int) -> float:
    """Return above what some more than k of what is drawn are."""
    share = (k + k // 5 + 8) / len(drawn)
    return -math.inf if len(drawn) <= FEW or share > 0.5 else floor_at(drawn, share, more)


def floor_at(drawn: Sequence[Drawn], share: float, more: int) -> float:
    """Return a floor above which some more than a share of all bounds lie, from some of them.

    By `more` ranks lower; or infinity, if there are not so many.
    """
    n = len(drawn)
    times = 1 if n < LARGE else 2
    limit = min(n // (16 * times * FEW), 64)
    many = max(1, min(int(0.69 / share), limit))
    below, total = 1.0, 0.0
    for _ in range(many):
        below *= 1.0 - share
    rank = more + int(FEW * (1.0 - below))
    if rank > FEW:
        return math.inf
    places = [place_of(j, n) for j in range(times * FEW * many)]
    bounds = [drawn[at].drop - steps(drawn[at].lead) for at in places]
    for time in range(times):
        part = bounds[time * FEW * many :][: FEW * many]
        largest = sorted((max(part[i : i + many]) for i in range(0, len(part), many)), reverse=True)
        total += largest[rank - 1]
    return total / times


def is_above(drop: float, floor: float, lead: int) -> bool:
    """Tell whether the bound of a value is above a floor, or nothing bounds it.

    There is no floor if it and the drop are past the range of doubles.
    """
    return lead == 0 or not drop - floor < steps(lead)


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
    return floor if floor == -math.inf else most + (2.0**-20 + 2.0**-46 * abs(most))
