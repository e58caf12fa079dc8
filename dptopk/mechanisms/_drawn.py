"""Of which scores noise is drawn at once, and of which only as it is needed: csrc/draw.c."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dptopk import _core
from dptopk._core import COST_BLOCK, COST_FIRST, COST_LOOK, COST_PART, COST_PASS
from dptopk.mechanisms._select import (
    FEW,
    SAMPLE,
    Tail,
    enough,
    finite_scores_of,
    first_size,
    floats_of,
    places,
)

__all__ = ["NotFiniteError", "Part", "Sieve", "part_to_draw", "pick", "replay"]

MANY = 128  # picks are many if every MANY-th score is one: then a sample knows the k-th
WORTH = 1 << 17  # so many scores are worth the estimate of a part of them
HUGE = 1 << 19  # and so many a large sample, even if a cut may do
# What a score costs, in ns, if all noise is drawn; for a part see csrc/dptk.h.
DRAW = 1.2
ESTIMATE = 60_000.0  # and to find out
CUT = 0.7  # to cut many, where a part of which a sample knows little may do
SPREAD = 12.0  # of so many of a sample about the picks are: then it knows what all are
POINTS = 1 << 11  # of the largest keys
IN_ORDER = 1 << 11  # so many are quick to sort
MOST, MOST_OF_ALL = 1 << 30, 1 << 24  # more scores than that are drawn from by a race


class NotFiniteError(Exception):
    """A score is NaN or infinite."""


class Part(NamedTuple):
    """Some of many scores, of which noise is drawn at once; all others are the rest.

    keys : int64 array; see dptk_keys in csrc/dptk.h
    items : int64 array; which items they are
    most : int; no key of the rest is larger
    floor : float; about k noisy scores are this many scales above that
    looks : int; about so many of the rest are looked at
    """

    keys: np.ndarray
    items: np.ndarray
    most: int
    floor: float
    looks: int


class Sieve(NamedTuple):
    """What drops items by their scores and the first bits of their noise; see dptk_sieve.

    key : int; items of larger scores are let through
    bits : int; and those whose U begins with so many zeros
    through : int; about so many
    """

    key: int
    bits: int
    through: int


def pick(
    source: _core.Source, array: np.ndarray, part: Part | Sieve | None, *, k: int, scale: float
) -> Any:
    """Return the picks by the kernel: None if undecided, False if this is no way for them."""
    if isinstance(part, Sieve):
        return _core.draw_sieved(source, array, *part, k, scale)
    if part is not None:
        real = array.dtype.kind == "f"
        return _core.draw_part(source, array, part.keys, part.items, real, *part[2:], k, scale)
    return array.size <= MOST_OF_ALL and _core.draw(source, array, k, scale)


def replay(
    source: _core.Source, array: np.ndarray, part: Part | Sieve | None, *, k: int, scale: float
) -> np.ndarray:
    """Return what `pick` does, exactly, by the same words of the source's call."""
    from dptopk.reference import draw as exact  # loads mpmath: seldom needed
    from dptopk.reference.race import Tape

    real = array.dtype.kind == "f"
    tape, column = Tape.replay(source), Tail(array, real)
    if part is None:
        picks = exact.draw(tape, list(column), k=k, scale=scale)
    elif isinstance(part, Sieve):
        score = finite_scores_of(np.array([part.key]), real)[0]
        sieve = exact.Sieve(score, part.bits)
        picks = exact.draw(tape, list(column), k=k, scale=scale, sieve=sieve)
    else:
        scores = finite_scores_of(part.keys, real)
        most = finite_scores_of(np.array([part.most]), real)[0]
        rest = exact.Rest(column, part.items.tolist(), most, part.floor)
        picks = exact.draw(tape, scores, k=k, scale=scale, rest=rest)
    return np.array(picks, dtype=np.int64)


def part_to_draw(array: np.ndarray, *, k: int, scale: float) -> Part | Sieve | None:
    """Return some scores so that few of the others are looked at; or what drops most; None: all.

    It follows from the scores and the scale alone: it changes the cost, never the law. Raises
    NotFiniteError if that comes to light.
    """
    n, real, m = array.size, array.dtype.kind == "f", first_size(array.size, k)
    if n > MOST or m == n or (MANY * k >= n and n < WORTH):
        return None
    if n >= WORTH:
        cut, part = _by_sample(array, k, scale)
        if not cut:
            return part
    keys, items = _cut(array, m, m <= IN_ORDER)
    gap, last = _core.fall_of(keys, k, m <= IN_ORDER, real, scale)
    least = enough(n, m)
    if gap >= least:  # no noise is below -3, but with a chance of e^-20
        floor = max(least, gap - 3.0)
        return Part(keys, items, last, floor, int((n - m) * math.exp(-floor)))
    if n <= FEW:
        return None
    kept = Part(keys, items, last, gap, 0)  # with the k-th for a floor
    with np.errstate(all="ignore"):  # past the range of floats is far enough
        return _cheapest(array, kept, k, scale, real)


def _cut(array: np.ndarray, m: int, in_order: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys and items of the m largest scores."""
    real = array.dtype.kind == "f"
    try:
        keys, items, watched = _core.cut(array, m, in_order, real)
    except ValueError:  # NaN
        watched = True
    if watched:
        raise NotFiniteError
    return keys, items


def _by_sample(array: np.ndarray, k: int, scale: float) -> tuple[bool, Part | Sieve | None]:
    """Return whether to make a cut, and if not what else is the cheapest: a sample may know."""
    n, many = array.size, MANY * k >= array.size
    size = SAMPLE if many or n >= HUGE else SAMPLE // 16
    found = _core.survey(array, k, scale, size)
    if found["spread"] >= SPREAD and size < SAMPLE:
        found = _core.survey(array, k, scale, SAMPLE)
    if found["spread"] >= SPREAD:
        other = min(found["sieve_cost"], DRAW * n)
        if found["cut_cost"] < min(found["part_cost"], other):
            return True, None
        return False, _part_of(array, found, other) or _sieve_of(found, DRAW * n)
    steep = enough(n, k + k // 4) * (3.0 if many else 0.5)  # a cut of few is quick
    part = None
    if size == SAMPLE and found["fall"] < steep:
        part = _part_of(array, found, CUT * n)
    return part is None, part


def _part_of(array: np.ndarray, found: dict[str, Any], most: float) -> Part | None:
    """Return a part that was found, if it costs less than `most` and is not larger than found."""
    if not (found["part_cost"] < most and 0.0 < found["floor"] < 600.0):
        return None
    room = found["held"] + array.size // 64  # one of a sample stands for many
    part = _core.part(array, found["most"], room)
    if part is False:
        raise NotFiniteError
    if part is None or not 0 < part[0].size < array.size:
        return None
    return Part(*part, found["most"], found["floor"], found["looks"])


def _sieve_of(found: dict[str, Any], most: float) -> Sieve | None:
    """Return the sieve that was found, if it costs less than `most`."""
    if not found["sieve_cost"] < most:
        return None
    return Sieve(found["key"], found["bits"], found["through"])


def _sample(array: np.ndarray, size: int) -> np.ndarray:
    """Return some keys in descending order."""
    return np.sort(_core.keys(array[places(array.size)[:size]]))[::-1]


def _above(keys: np.ndarray, origin: int, real: bool) -> np.ndarray:
    """Return what scores are above the one that has a key: of integers nearly exact near it."""
    if real:
        return floats_of(keys, True) - floats_of(np.array([origin]), True)
    words, word = keys.view(np.uint64), np.int64(origin).view(np.uint64)
    return np.where(keys >= origin, (words - word) * 1.0, (word - words) * -1.0)


def _cheapest(
    array: np.ndarray, cut: Part, k: int, scale: float, real: bool
) -> Part | Sieve | None:
    """Return what seems the cheapest: what was cut, another part, a sieve of all, or all."""
    n, kept, looks_past = array.size, cut, math.inf
    # A small sample may be enough to see that looks past what was cut cost little.
    for size in (SAMPLE // 16, SAMPLE)[: 1 if n < WORTH else 2]:
        known = _known(_sample(array, size), cut, n, k, scale, real)
        gap = known.floor - float(known.x[known.cut])
        looks_past = COST_LOOK * (n - cut.keys.size) * math.exp(-gap) if gap > 0.0 else math.inf
        if gap > 0.0:
            kept = cut._replace(floor=gap, looks=int(looks_past / COST_LOOK))
        if looks_past < min(DRAW * n, ESTIMATE + COST_PASS * n):
            return kept
    if n < WORTH:
        return None
    # All that are larger than one of the known scores are the part.
    gaps, above = known.floor - known.x, known.above
    looks = (n - above) * np.exp(np.minimum(-gaps, 0.0))
    blocks = n / COST_BLOCK * -np.expm1(-COST_BLOCK / n * above)
    costs = COST_PASS * n + COST_PART * above + COST_FIRST * blocks + COST_LOOK * looks
    costs[1:][known.keys[1:] == known.keys[:-1]] = math.inf
    costs[(above < cut.keys.size) | (gaps <= 0.0)] = math.inf
    at = int(costs.argmin())
    found = _core.survey(array, k, scale, SAMPLE, known.origin, known.floor)
    other = min(found["sieve_cost"], DRAW * n)
    if looks_past < min(costs[at], other):
        return kept
    found["part_cost"], found["most"] = costs.item(at), known.keys.item(at)
    found["floor"], found["held"], found["looks"] = gaps.item(at), int(above[at]), int(looks[at])
    return _part_of(array, found, other) or _sieve_of(found, DRAW * n)


class _Known(NamedTuple):
    """Some scores in descending order, as far as is known what all are.

    keys : int64 array
    x : float array; in scales
    above : float array; how many are before each
    cut : int; where the largest one that was not cut may be
    floor : float; some more than k noisy scores are above it, in the units of x
    origin : int; the key of x = 0
    """

    keys: np.ndarray
    x: np.ndarray
    above: np.ndarray
    cut: int
    floor: float
    origin: int


def _known(sample: np.ndarray, cut: Part, n: int, k: int, scale: float, real: bool) -> _Known:
    """Estimate the floor by a sample, and by the largest scores where they were cut."""
    m = cut.keys.size
    every = 1 + m // POINTS
    sample = sample[sample <= cut.most]
    keys = np.concatenate((np.sort(cut.keys[::every])[::-1], [cut.most], sample))
    at = keys.size - sample.size - 1
    weight = np.full(keys.size, (n - m) / max(1, sample.size))
    weight[:at], weight[at] = every, 0.0
    above = np.cumsum(weight) - weight
    origin = keys.item(int(above.searchsorted(k)) - 1)
    x = _above(keys, origin, real) / scale
    # As if those above the floor stayed there, and others came there by a chance of e^-gap.
    mass = np.cumsum((weight * np.exp(x.clip(-600.0, 600.0)))[::-1])[::-1]
    floors = np.log(mass / (k - above))
    floor = float(floors[((floors >= x) | (above >= k)).argmax()])
    floor -= math.log(1.25 + 3.0 / math.sqrt(k))
    # Few more than k noisy scores are ln n scales above the k-th.
    return _Known(keys, x, above, at, min(floor, float(x[at]) + cut.floor + math.log(n)), origin)
