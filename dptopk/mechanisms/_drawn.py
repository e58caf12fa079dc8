"""Of which scores noise is drawn at once, and of which only as it is needed: csrc/draw.c."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dptopk import _core
from dptopk.mechanisms._select import (
    SAMPLE,
    Tail,
    enough,
    finite_scores_of,
    first_size,
    floats_of,
    places,
)

__all__ = ["Part", "part_to_draw", "pick", "replay"]

MANY = 128  # picks are many if every MANY-th score is one: then a sample knows the k-th
WORTH = 1 << 16  # so many scores are worth an estimate
# What a score costs, in ns: to draw its noise, if all is drawn; to pass by, for a part; to put it
# in a part and draw its noise, and more for the first of a block; to be looked at in the rest.
DRAW, PASS, PART, FIRST, LOOK = 1.2, 0.15, 5.0, 10.0, 45.0
BLOCK = 64
POINTS = 256  # of the largest keys
MOST, MOST_OF_ALL = 1 << 30, 1 << 24  # more scores than that are drawn from by a race


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


def pick(
    source: _core.Source, array: np.ndarray, part: Part | None, *, k: int, scale: float
) -> Any:
    """Return the picks by the kernel: None if undecided, False if this is no way for them."""
    if part is not None:
        real = array.dtype.kind == "f"
        return _core.draw_part(source, array, part.keys, part.items, real, *part[2:], k, scale)
    return array.size <= MOST_OF_ALL and _core.draw(source, array, k, scale)


def replay(
    source: _core.Source, array: np.ndarray, part: Part | None, *, k: int, scale: float
) -> np.ndarray:
    """Return what `pick` does, exactly, by the same words of the source's call."""
    from dptopk.reference.draw import Rest, draw  # loads mpmath: seldom needed
    from dptopk.reference.race import Tape

    real = array.dtype.kind == "f"
    tape, column = Tape.replay(source), Tail(array, real)
    if part is None:
        picks = draw(tape, list(column), k=k, scale=scale)
    else:
        scores = finite_scores_of(part.keys, real)
        most = finite_scores_of(np.array([part.most]), real)[0]
        rest = Rest(column, part.items.tolist(), most, part.floor)
        picks = draw(tape, scores, k=k, scale=scale, rest=rest)
    return np.array(picks, dtype=np.int64)


def part_to_draw(array: np.ndarray, *, k: int, scale: float) -> Part | None:
    """Return some scores so that few of the others are looked at; None: all of them.

    It follows from the scores and the scale alone: it changes the cost, never the law.
    """
    with np.errstate(all="ignore"):  # past the range of floats is far enough
        return _part_to_draw(array, k, scale)


def _part_to_draw(array: np.ndarray, k: int, scale: float) -> Part | None:
    n, real, m = array.size, array.dtype.kind == "f", first_size(array.size, k)
    if n > MOST or m == n or (n < WORTH and MANY * k >= n):
        return None
    if MANY * k < n:
        keys, items, _ = _core.cut(array, m, False)
        if (part := _falling(keys, items, n, k, scale, real)) is not None:
            return part
        return _estimated(array, keys, k, scale, real) if n >= WORTH else None
    sample = np.sort(_core.keys(array[places(n)]))[::-1]
    first = SAMPLE * k // n
    if first + first // 4 + 1 < SAMPLE:
        kth, last = floats_of(sample[[first, first + first // 4 + 1]], real)
        if (kth - last) / scale >= enough(n, m):
            keys, items, _ = _core.cut(array, m, False)
            if (part := _falling(keys, items, n, k, scale, real)) is not None:
                return part
    return _estimated(array, sample[:0], k, scale, real)


def _falling(
    keys: np.ndarray, items: np.ndarray, n: int, k: int, scale: float, real: bool
) -> Part | None:
    """Return the largest scores if they fall so far that looks past them are few."""
    m = keys.size
    ends = np.partition(keys, (0, m - k))[[0, m - k]]
    last, kth = floats_of(ends, real)
    gap, floor = (kth - last) / scale, enough(n, m)
    if gap < floor:
        return None
    # No noise is below -3, but with a chance of e^-20; and at ln n few looks are left.
    floor = max(floor, min(float(gap) - 3.0, math.log(n) + 2.0))
    return Part(keys, items, ends.item(0), floor, int((n - m) * math.exp(-floor)))


def _estimated(
    array: np.ndarray, keys: np.ndarray, k: int, scale: float, real: bool
) -> Part | None:
    """Return the part that seems the cheapest, by the largest keys and a sample of the others."""
    n, m = array.size, keys.size
    every = 1 + m // POINTS
    some = keys[::every]
    sample = _core.keys(array[places(n)])
    if m:
        sample = sample[sample <= keys.min()]
    if not sample.size:
        return None
    known = np.sort(np.concatenate((some, sample)))[::-1]
    weight = np.full(known.size, (n - m) / sample.size)
    weight[: some.size] = every
    x = floats_of(known, real)
    x = (x - x[min(k // every, x.size - 1)]) / scale
    above = np.cumsum(weight)
    mass = np.cumsum((weight * np.exp(x.clip(-600.0, 600.0)))[::-1])[::-1]
    # As if those above the floor stayed there, and others came there by a chance of e^-gap.
    before = above - weight
    floors = np.log(mass / (k - before))
    first = int(((floors >= x) | (before >= k)).argmax())
    floor = float(floors[first])
    starts = np.append(True, known[1:] < known[:-1]) & (above > m)
    looks = (n - before) * np.exp(np.minimum(x - floor, 0.0))
    blocks = n / BLOCK * -np.expm1(-BLOCK / n * before)
    costs = np.where(starts, PART * before + FIRST * blocks + LOOK * looks, math.inf)
    at = int(costs.argmin())
    gap = floor - float(x[at]) - math.log(1.25 + 3.0 / math.sqrt(k))
    if not (PASS * n + costs[at] < DRAW * n and 0.0 < gap < 600.0):
        return None
    found = _core.part(array, known.item(at), int(1.5 * before[at]) + 4096)
    if found is None or not 0 < found[0].size < n:
        return None
    return Part(*found, known.item(at), gap, int(2.0 * looks[at]))
