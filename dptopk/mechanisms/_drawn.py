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
DRAW, PASS, PART, FIRST, LOOK = 1.2, 0.15, 5.0, 10.0, 50.0
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
    many, cut = MANY * k >= n, None
    if n > MOST or m == n or (n < WORTH and many):
        return None
    if not many or _fall(_sample(array)[SAMPLE * k // n :], k, n, scale, real):
        keys, items, _ = _core.cut(array, m, False)
        last, kth = np.partition(keys, (0, m - k))[[0, m - k]]
        gap = _gap(kth, last, scale, real)
        if gap >= enough(n, m):
            # No noise is below -3, but with a chance of e^-20; and at ln n few looks are left.
            floor = max(enough(n, m), min(gap - 3.0, math.log(n) + 2.0))
            return Part(keys, items, int(last), floor, int((n - m) * math.exp(-floor)))
        cut = Part(keys, items, int(last), 0.0, 0)
    return _cheapest(array, cut, k, scale, real) if n >= WORTH else None


def _sample(array: np.ndarray) -> np.ndarray:
    """Return some keys in descending order."""
    return np.sort(_core.keys(array[places(array.size)]))[::-1]


def _fall(sample: np.ndarray, k: int, n: int, scale: float, real: bool) -> bool:
    """Tell from a sample, from the k-th largest on, whether a cut for k picks seems enough."""
    last = SAMPLE * k // (4 * n) + 1
    if last >= sample.size:
        return False
    return _gap(sample[0], sample[last], scale, real) >= 2.0 * enough(n, k + k // 4)


def _gap(key: Any, lower: Any, scale: float, real: bool) -> float:
    """Return by how many scales one score is above another."""
    high, low = floats_of(np.array([key, lower]), real)
    return float((high - low) / scale)


def _cheapest(array: np.ndarray, cut: Part | None, k: int, scale: float, real: bool) -> Part | None:
    """Return the part that seems the cheapest, by the largest scores, if known, and a sample."""
    n, m, every = array.size, 0, 1
    known = sample = _sample(array)
    if cut is not None:
        m = cut.keys.size
        every = 1 + m // POINTS
        sample = sample[sample <= cut.most]
        known = np.concatenate((np.sort(cut.keys[::every])[::-1], sample))
    if not sample.size:
        return None
    weight = np.full(known.size, (n - m) / sample.size)
    weight[: known.size - sample.size] = every
    above = np.cumsum(weight) - weight
    x = floats_of(known, real)
    near = x[above.searchsorted(k) - 1]
    x = (x - near) / scale
    # The floor that some more than k are above: as if those above it stayed there, and others
    # came there by a chance of e^-gap.
    mass = np.cumsum((weight * np.exp(x.clip(-600.0, 600.0)))[::-1])[::-1]
    floors = np.log(mass / (k - above))
    floor = float(floors[((floors >= x) | (above >= k)).argmax()])
    floor -= math.log(1.25 + 3.0 / math.sqrt(k))
    gaps = floor - x
    # All that are larger than one of the known scores are the part; or what was cut.
    looks = (n - above) * np.exp(np.minimum(-gaps, 0.0))
    blocks = n / BLOCK * -np.expm1(-BLOCK / n * above)
    costs = PASS * n + PART * above + FIRST * blocks + LOOK * looks
    costs[1:][known[1:] == known[:-1]] = math.inf
    costs[above < max(m, 1)] = math.inf
    at = int(costs.argmin())
    gap, most, cost = float(gaps[at]), known.item(at), float(costs[at])
    if cut is not None:
        to_cut = floor - float((floats_of(np.array([cut.most]), real)[0] - near) / scale)
        looks_then = (n - m) * math.exp(min(0.0, -to_cut))
        if LOOK * looks_then < min(cost, DRAW * n) and 0.0 < to_cut < 600.0:
            return cut._replace(floor=to_cut, looks=int(looks_then))
    if not (cost < DRAW * n and 0.0 < gap < 600.0):
        return None
    found = _core.part(array, most, int(1.5 * above[at]) + 4096)
    if found is None or not 0 < found[0].size < n:
        return None
    return Part(*found, most, gap, int(looks[at]))
