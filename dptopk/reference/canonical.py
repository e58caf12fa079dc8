"""The inverse-sensitivity mechanism over sets, readable: by brute force, by rows, as it is drawn.

A set loses max(0, largest score outside - least score in it): how far the scores must move
until it is a set of the k best. The mechanism draws a set with weight exp(-loss / scale).
`law` adds all weights up; `law_by_rows` adds them up by the classes that the kernel
draws from; `sample` is the exact twin of csrc/canonical.c.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from dptopk.reference.interval import Interval
from dptopk.reference.race import Exponential, Tape
from dptopk.reference.subset import subset

__all__ = ["Block", "law", "law_by_rows", "loss", "sample"]

Score = int | float


# ---- the law


def loss(scores: Sequence[Score], items: Sequence[int]) -> Fraction:
    """Return how far the largest score outside the set is above the least one in it.

    Parameters
    ----------
    scores : sequence of int or float, shape (items,)
        Of any sign.
    items : sequence of int
        The set.

    Returns
    -------
    Fraction
        At least 0.

    Examples
    --------
    >>> from dptopk.reference.canonical import loss
    >>> int(loss([9, 7, 7, 4], (0, 3))), int(loss([9, 7, 7, 4], (0, 2)))
    (3, 0)
    """
    least = min(Fraction(scores[i]) for i in items)
    outside = [Fraction(score) for i, score in enumerate(scores) if i not in items]
    return max(Fraction(0), max(outside, default=least) - least)


def law(scores: Sequence[Score], *, k: int, scale: float) -> dict[tuple[int, ...], float]:
    """Chance of every set of k items, in item order.

    Parameters
    ----------
    scores : sequence of int or float, shape (items,)
        Of any sign.
    k : int
        How many items, at most ``len(scores)``.
    scale : float
        2 sensitivity / epsilon.

    Returns
    -------
    dict of tuple to float
        Each set and its probability.

    Examples
    --------
    >>> from dptopk.reference import canonical
    >>> {s: round(p, 3) for s, p in canonical.law([2, 1, 0], k=2, scale=1.0).items()}
    {(0, 1): 0.665, (0, 2): 0.245, (1, 2): 0.09}
    """
    weights = {
        items: math.exp(-float(loss(scores, items)) / scale)
        for items in itertools.combinations(range(len(scores)), k)
    }
    total = math.fsum(weights.values())
    return {items: weight / total for items, weight in weights.items()}


def law_by_rows(
    scores: Sequence[Score], *, k: int, scale: float, missing: int = 2, short: int = 0
) -> dict[tuple[int, ...], float]:
    """Chance of every set of k items, by classes in place of the sets.

    Ranks from 0. Row h holds the sets that have the ranks 0, ..., h - 1 and not h; they
    lose c_h - c_t, t their last rank. The other k - h - 1 items are any of the ranks
    h + 1, ..., t - 1. The set of the k best is a row of its own.

    Parameters
    ----------
    scores, k, scale
        As in `law`.
    missing, short : int
        What is right is 2: between h and t lie t - h + 1 - `missing` ranks; and 0: by how
        much fewer sets a group of equal scores is said to have. Others are known mistakes.

    Returns
    -------
    dict of tuple to float
        As in `law`.
    """
    d = len(scores)
    order = sorted(range(d), key=lambda item: (-scores[item], item))
    c = [Fraction(scores[item]) for item in order]
    weights: dict[tuple[int, int], float] = {}
    for h in range(k):
        for t in range(k, d):
            ways = math.comb(t - h + 1 - missing, k - h - 1)
            if short and (t + 1 == d or c[t + 1] < c[t]):
                ways = max(ways - short, 0)
            weights[h, t] = ways * math.exp(-float(c[h] - c[t]) / scale)
    total = 1 + math.fsum(weights.values())
    chances = {}
    for ranks in itertools.combinations(range(d), k):
        h = next((r for r in range(k) if ranks[r] != r), k)
        sets = math.comb(ranks[-1] - h - 1, k - h - 1) if h < k else 1
        weight = weights[h, ranks[-1]] if h < k else 1.0
        chances[tuple(sorted(order[r] for r in ranks))] = weight / sets / total
    return chances


# ---- as it is drawn


class Block(NamedTuple):
    """Sets of a row by thresholds that let in at least the first group, at most the last.

    weight : int
        No less than what the block holds, in units of 2**-60 of ``exp(log_unit)``.
    """

    row: int
    first: int
    last: int
    weight: int


def sample(
    tape: Tape,
    values: Sequence[Score],
    ends: Sequence[int],
    *,
    k: int,
    scale: float,
    blocks: Sequence[Block],
    log_unit: float,
) -> list[int]:
    """Draw once from a tape, exactly: ranks from 0, in no order.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    values, ends : sequences, shape (groups,)
        The distinct scores, descending, and how many items score at least each.
    k, scale
        As in `law`.
    blocks, log_unit
        The envelope of ``_core.Canonical``: it decides which words are read, never the law.

    Returns
    -------
    list of int, shape (k,)
    """
    total = sum(block.weight for block in blocks)
    while True:
        at = tape.below(total)
        for block in blocks:
            if at < block.weight:
                break
            at -= block.weight
        if not _weighed(tape, block, values, ends, k=k, scale=scale, log_unit=log_unit):
            continue
        head, row = list(range(block.row)), block.row
        if row == k:
            return head
        ranks = subset(tape, row + 1, ends[block.last] - row - 1, k - row)
        if _let_in(tape, block, values, ends, last=max(ranks), scale=scale):
            return head + ranks


def _weighed(
    tape: Tape,
    block: Block,
    values: Sequence[Score],
    ends: Sequence[int],
    *,
    k: int,
    scale: float,
    log_unit: float,
) -> bool:
    """Accept the weight of a block with its envelope over it: by an exponential."""
    variate, level, row = Exponential(tape), 1, block.row
    ways = math.comb(ends[block.last] - row - 1, k - row) if row < k else 1
    start = Fraction(0)
    if row < k:
        own = next(value for value, end in zip(values, ends, strict=True) if row < end)
        start = Fraction(own) - Fraction(values[block.first])
    width = _width(block, values) if row < k else None
    while True:
        e = variate.interval(level)
        precision = e.precision + 64

        def number(value: Any, bits: int = precision) -> Interval:
            return Interval.exact(value, bits)

        log_size = number(ways).log() - number(start / Fraction(scale))
        if width is not None:
            log_size = log_size + (-_below(width, scale, precision)).log()
        price = number(log_unit) - number(60) * number(2).log() + number(block.weight).log()
        price = price - log_size
        if e.above(price):
            return True
        if price.above(e):
            return False
        level += 1


def _width(block: Block, values: Sequence[Score]) -> Fraction | None:
    """Return how far the thresholds of a block reach, None for ever."""
    if block.last + 1 == len(values):
        return None
    return Fraction(values[block.first]) - Fraction(values[block.last + 1])


def _below(width: Fraction, scale: float, precision: int) -> Interval:
    """Return exp(-width / scale) - 1."""
    return (-Interval.exact(width / Fraction(scale), precision)).expm1()


def _let_in(
    tape: Tape,
    block: Block,
    values: Sequence[Score],
    ends: Sequence[int],
    *,
    last: int,
    scale: float,
) -> bool:
    """Accept a set by the share of the thresholds that let it in: a uniform U above a quotient."""
    if last < ends[block.first]:
        return True
    group = next(g for g, end in enumerate(ends) if last < end)
    drop = Fraction(values[block.first]) - Fraction(values[group])
    width = _width(block, values)
    word, words = tape.word(), 1
    while True:
        precision = 64 * words + 64
        over = Interval.exact(-1, precision) if width is None else _below(width, scale, precision)
        quotient = _below(drop, scale, precision) / over
        unit = 1 << (64 * words)
        u = Interval.exact(Fraction(word, unit), precision)
        u = u.hull(Interval.exact(Fraction(word + 1, unit), precision))
        if u.above(quotient):
            return True
        if quotient.above(u):
            return False
        word, words = (word << 64) + tape.further(), words + 1
