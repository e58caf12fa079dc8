"""The readable twin of csrc/race.c and sweep.c: specification, test oracle, exact fallback.

Same algorithm, same words for the same variates, but every value is an
interval of arbitrary precision, and a variate whose 64 bits don't suffice to
order two values gets 64 more, as often as needed. So it always decides, and
what it decides is the order of the mathematical values.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from dptopk._core import Source
from dptopk.reference.gaussian import quantile
from dptopk.reference.interval import Interval

__all__ = ["STOP", "Field", "Tape", "race", "race_afresh"]

STOP = -1
Score = int | float
Scale = float | Fraction  # what no double holds, a kernel cannot have drawn with
Words = Callable[[int], Any]  # how many -> a sequence of integers


class Tape:
    """Words read in order, and further bits of variates on demand.

    Parameters
    ----------
    read : callable(int) -> sequence of int
        The next words of the tape.
    fresh : callable(int) -> sequence of int
        Words that are not on the tape: the further bits of variates.
    """

    def __init__(self, read: Words, fresh: Words):
        self._read = read
        self._fresh = fresh

    @classmethod
    def replay(cls, source: Source) -> Tape:
        """Return the words of a source's call once more, from the first."""
        source.rewind()
        return cls(source.read, source.fresh)

    def word(self) -> int:
        """Return the next word."""
        return int(self._read(1)[0])

    def further(self) -> int:
        """Return a word that is not on the tape."""
        return int(self._fresh(1)[0])

    def below(self, n: int) -> int:
        """Return a uniform integer in [0, n), by rejection."""
        while True:
            word = self.word()
            if word < 2**64 - 2**64 % n:
                return word % n


class Exponential:
    """E = -ln(1 - U), the bits of U drawn as they are needed; the first 64 may be given."""

    def __init__(self, tape: Tape, word: int | None = None):
        self.tape = tape
        self.bits = [tape.word() if word is None else word]

    def interval(self, level: int) -> Interval:
        """Return bounds of E from the first 64 * level bits of U."""
        while len(self.bits) < level:
            self.bits.append(self.tape.further())
        value = sum(word << (64 * (level - 1 - i)) for i, word in enumerate(self.bits[:level]))
        one = 1 << (64 * level)
        precision = 64 * level + 32
        low = -Interval.exact(Fraction(one - value, one), precision).log()
        high = -Interval.exact(Fraction(one - value - 1, one), precision).log()
        return Interval(low.ends[0], high.ends[1], precision)


def gumbel(s: Interval) -> Interval:
    """Return F^-1(exp(-s)) of the standard Gumbel law."""
    return -s.log()


def exponential(s: Interval) -> Interval:
    """Return F^-1(exp(-s)) of the standard exponential law: -ln(1 - exp(-s))."""
    return -(-(-s).expm1()).log()


def laplace(s: Interval) -> Interval:
    """Return F^-1(exp(-s)) of the standard Laplace law.

    That is -ln(2 (1 - exp(-s))) above the median, where s < ln 2, and ln 2 - s
    below it. Around the median one end comes from each.
    """
    ln_2 = Interval.exact(2, s.precision).log()
    above, below = exponential(s) - ln_2, ln_2 - s
    if ln_2.above(s):
        return above
    return below if s.above(ln_2) else below.hull(above)


def uniform(s: Interval) -> Interval:
    """Return F^-1(exp(-s)) of the uniform law on (-2, 0): 2 (exp(-s) - 1)."""
    return Interval.exact(2, s.precision) * (-s).expm1()


LAWS = {
    "gumbel": gumbel,
    "exponential": exponential,
    "laplace": laplace,
    "gaussian": quantile,
    "uniform": uniform,
}


@dataclasses.dataclass(frozen=True)
class Field:
    """What a race runs over; see dptk_field in csrc/dptk.h.

    `scores` and `items` are the head; `tail` holds the scores of all items,
    those of the head too; `stop` is the (score, offset) of the stopper, which has
    noise unless it is `fixed`. Of the tail, `gone` don't run any more, and no score
    is above `bound`: that of the head's last item, if not given.
    """

    scores: Sequence[Score]
    items: Sequence[int]
    offsets: Sequence[float] | None = None
    tail: Sequence[Score] | None = None
    stop: tuple[Score, float] | None = None
    gone: Sequence[int] = ()
    bound: Score | None = None

    @classmethod
    def of(cls, scores: Sequence[Score]) -> Field:
        """Return all items as the head, from the largest score down, ties by item."""
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
        return cls([scores[i] for i in order], order)

    fixed: bool = False


@dataclasses.dataclass
class Block:
    """Items of nearly equal scores, and the order statistics of their noise."""

    score: Score
    offset: float
    size: int
    where: str  # "head", "tail" or "stop"
    left: list[int] = dataclasses.field(default_factory=list)  # head positions not seen yet
    spacings: list[Exponential] = dataclasses.field(default_factory=list)
    sums: dict[int, list[Interval]] = dataclasses.field(default_factory=dict)

    def race(self, j: int, level: int) -> Interval:
        """Return S_j = sum over i <= j of E_i / (size - i + 1)."""
        sums = self.sums.setdefault(level, [])
        for i in range(len(sums), j):
            spacing = self.spacings[i].interval(level)
            step = spacing / Interval.exact(self.size - i, spacing.precision)
            sums.append(sums[-1] + step if sums else step)
        return sums[j - 1]


class Runner:
    """A block's upper bound, or an item already seen, in the running."""

    def __init__(self, value: Callable[[int], Interval], block: Block | None, item: int):
        self.value = value
        self.block = block
        self.item = item
        self.level = 1
        self.interval = value(1)

    def refine(self) -> None:
        """Draw 64 more bits of every variate in the value."""
        self.level += 1
        self.interval = self.value(self.level)

    def __lt__(self, other: Runner) -> bool:
        return self.interval.higher(other.interval)


def block_ends(
    scores: Sequence[Score], k: int, scale: Scale, offsets: Sequence[float] | None
) -> list[int]:
    """Return where the blocks of the head end: block_end of csrc/race.c."""
    m, ends, start = len(scores), [], 0

    def below(position: int, top: int) -> float:
        if isinstance(scores[top], float):
            difference = scores[top] - scores[position]
            if math.isfinite(difference):
                return difference / scale
            return 2.0 * ((0.5 * scores[top] - 0.5 * scores[position]) / scale)
        return float(scores[top] - scores[position]) / scale

    while start < m:
        end = start + 1
        if offsets is None:
            if start >= k:
                end = start + size_far_below(below(start, k - 1), m - start)
            while end < m and below(end, start) <= 0.5:
                end += 1
        ends.append(end)
        start = end
    return ends


def size_far_below(gap: float, most: int) -> int:
    """Return how many items are one block, the first `gap` scales below the k-th score."""
    x = gap * 1.4375
    if not x > 0.0:
        return 1
    if x >= 62.0:
        return most
    return min(int((1.0 + x % 1.0) * 2.0 ** int(x)), most)


def race(
    tape: Tape,
    field: Field,
    *,
    k: int,
    scale: Scale,
    noise: str = "gumbel",
    floor: float | None = None,
) -> list[int]:
    """Return the k items with the largest score/scale + noise, in order.

    The stopper, if any, ends the list as STOP. With a `floor` it is a sweep down to it.
    """
    if floor is not None:
        return sweep(tape, field, k=k, scale=scale, noise=noise, floor=floor)
    return [runner.item for runner in runners_of(tape, field, k=k, scale=scale, noise=noise)]


def runners_of(
    tape: Tape, field: Field, *, k: int, scale: Scale, noise: str = "gumbel"
) -> Iterator[Runner]:
    """Yield the k with the largest score/scale + noise, in order, as `Runner`s.

    The value of each is measured from the first score of the head.
    """
    runners: list[Runner] = []
    blocks = blocks_of(field, k, scale)
    if not blocks:
        return
    runner_of = maker_of_runners(blocks, scale, noise)

    def advance(block: Block) -> None:
        if not (field.fixed and block.where == "stop"):
            block.spacings.append(Exponential(tape))
        heapq.heappush(runners, runner_of(block, block.score))

    for block in blocks:
        advance(block)
    seen = {*field.items, *field.gone}  # tail items that cannot be drawn any more
    picked = 0
    while picked < k and runners:
        leader = pop_leader(runners)
        if leader.block is None:
            picked += 1
            yield leader
            continue
        block = leader.block
        if block.where == "stop":
            yield leader
            return
        score, item = draw(tape, block, field, seen)
        runner = runner_of(block, score, item)
        if len(block.spacings) < block.size:
            advance(block)
        if score == block.score:
            picked += 1
            yield runner
        else:
            heapq.heappush(runners, runner)


def sweep(
    tape: Tape, field: Field, *, k: int, scale: Scale, noise: str = "gumbel", floor: float
) -> list[int]:
    """Return what `race` does, by other words: first all items above a floor, in no order.

    Each block shows items until what it hides is below the floor. The floor falls until
    k of all that were seen are above it: so it changes the cost, never the law.
    """
    blocks = blocks_of(field, k, scale)
    k = min(k, sum(block.size for block in blocks))
    runner_of = maker_of_runners(blocks, scale, noise)
    hidden: list[Runner | None] = []
    for block in blocks:
        block.spacings.append(Exponential(tape))
        hidden.append(runner_of(block, block.score))
    seen: list[Runner] = []
    gone, fall = set(field.items), 0.25
    while True:
        for i, block in enumerate(blocks):
            while (bound := hidden[i]) is not None and reaches(bound, floor):
                score, item = draw(tape, block, field, gone)
                seen.append(runner_of(block, score, item))
                hidden[i] = None
                if len(block.spacings) < block.size:
                    block.spacings.append(Exponential(tape))
                    hidden[i] = runner_of(block, block.score)
        above = [runner for runner in seen if reaches(runner, floor)]
        if len(above) >= k:
            heapq.heapify(above)
            return [pop_leader(above).item for _ in range(k)]
        floor -= fall
        fall *= 1.125


def reaches(runner: Runner, floor: float) -> bool:
    """Tell whether the value is above a floor, by as many bits as that takes."""
    while math.isfinite(floor):
        level = Interval.exact(Fraction(floor), runner.interval.precision)
        if runner.interval.above(level):
            return True
        if level.above(runner.interval):
            return False
        runner.refine()
    return floor < 0.0


def maker_of_runners(blocks: list[Block], scale: Scale, noise: str) -> Callable[..., Runner]:
    """Return what makes a runner with the current noise of a block."""
    law, base, divisor = LAWS[noise], Fraction(blocks[0].score), Fraction(scale)

    def runner_of(block: Block, score: Score, item: int | None = None) -> Runner:
        exact = (Fraction(score) - base) / divisor + Fraction(block.offset)
        j = len(block.spacings)
        whole = int(abs(exact)).bit_length()  # bits on top, or the noise is lost in the sum

        def value(level: int) -> Interval:
            if j == 0:  # a fixed stopper
                return Interval.exact(exact, 64 * level + 32 + whole)
            noise_value = law(block.race(j, level))
            return Interval.exact(exact, noise_value.precision + whole) + noise_value

        return Runner(value, block if item is None else None, STOP if item is None else item)

    return runner_of


def race_afresh(
    tape: Tape, field: Field, *, k: int, scale: Scale, noise: str = "gumbel"
) -> list[int]:
    """Return k items, each the first of a race of its own over the items not yet picked."""
    scores, items = list(field.scores), list(field.items)
    picks: list[int] = []
    bound = scores[-1]
    for _ in range(min(k, len(scores if field.tail is None else field.tail))):
        left = dataclasses.replace(field, scores=scores, items=items, gone=picks, bound=bound)
        (pick,) = race(tape, left, k=1, scale=scale, noise=noise)
        picks = [*picks, pick]
        if pick in items:
            position = items.index(pick)
            gap = scores.index(scores[position])  # the first of its score takes its place, ...
            items[position] = items[gap]
            while gap > 0:  # ... and that of the next larger score the place of that one
                top = scores.index(scores[gap - 1])
                scores[gap], items[gap] = scores[top], items[top]
                gap = top
            del scores[0], items[0]
    return picks


def blocks_of(field: Field, k: int, scale: Scale) -> list[Block]:
    """Return the blocks in the order in which they take their first word."""
    blocks, start = [], 0
    for end in block_ends(field.scores, k, scale, field.offsets):
        offset = 0.0 if field.offsets is None else field.offsets[start]
        blocks.append(
            Block(field.scores[start], offset, end - start, "head", list(range(start, end)))
        )
        start = end
    size = 0 if field.tail is None else len(field.tail) - len(field.scores) - len(field.gone)
    if size:
        bound = field.scores[-1] if field.bound is None else field.bound
        blocks.append(Block(bound, 0.0, size, "tail"))
    if field.stop is not None:
        blocks.append(Block(field.stop[0], field.stop[1], 1, "stop"))
    return blocks


def pop_leader(runners: list[Runner]) -> Runner:
    """Remove and return the runner that is certainly ahead of all others."""
    while True:
        leader = heapq.heappop(runners)
        if not runners or leader.interval.above(runners[0].interval):
            return leader
        rival = heapq.heappop(runners)
        leader.refine()
        rival.refine()
        heapq.heappush(runners, leader)
        heapq.heappush(runners, rival)


def draw(tape: Tape, block: Block, field: Field, seen: set[int]) -> tuple[Score, int]:
    """Return a uniform one of the block's items not seen yet."""
    if block.where == "head":
        left = block.left
        rank = tape.below(len(left)) if len(left) > 1 else 0
        left[rank], left[-1] = left[-1], left[rank]
        position = left.pop()
        return field.scores[position], field.items[position]
    assert field.tail is not None
    while True:
        item = tape.below(len(field.tail))
        if item not in seen:
            seen.add(item)
            return field.tail[item], item
