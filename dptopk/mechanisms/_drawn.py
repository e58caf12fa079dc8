"""Of which scores noise is drawn at once, and of which only as it is needed: csrc/draw.c."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dptopk import _core
from dptopk.mechanisms._select import (
    FEW,
    SAMPLE,
    Tail,
    enough,
    finite_scores_of,
    first_size,
    floats_of,
    places,
    scores_of,
)

__all__ = ["Part", "part_to_draw", "pick", "replay"]

MANY = 128  # picks are many if every MANY-th score is one: then a sample knows the k-th
WORTH = 1 << 17  # so many scores are worth the estimate of a part of them
# What a score costs, in ns: to draw its noise, if all is drawn; to pass by, for a part; to put it
# in a part and draw its noise, and more for the first of a block; to be looked at in the rest; to
# be sifted; to be let through by the sieve.
DRAW, PASS, PART, FIRST, LOOK, SIFT, THROUGH = 1.2, 0.15, 5.0, 10.0, 50.0, 0.4, 4.0
BYTES = np.array([0, 1, 2, 4, 8, 16, 32, 64])  # of which the best is about the one that is taken
ESTIMATE = 60_000.0  # and to find out
BLOCK = 64
POINTS = 1 << 11  # of the largest keys
IN_ORDER = 1 << 11  # so many are quick to sort
LARGE = 2.0**62  # no key of an integer that a sieve takes is larger
VAST = 2.0**200  # scales
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


class Sieve(NamedTuple):
    """What drops items by their scores and the first byte of their noise; see dptk_sieve.

    key : int; items of larger scores are let through
    byte : int; and those whose U begins with this byte or a lower one
    through : int; about so many
    """

    key: int
    byte: int
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
        sieve = exact.Sieve(score, part.byte)
        picks = exact.draw(tape, list(column), k=k, scale=scale, sieve=sieve)
    else:
        scores = finite_scores_of(part.keys, real)
        most = finite_scores_of(np.array([part.most]), real)[0]
        rest = exact.Rest(column, part.items.tolist(), most, part.floor)
        picks = exact.draw(tape, scores, k=k, scale=scale, rest=rest)
    return np.array(picks, dtype=np.int64)


def part_to_draw(array: np.ndarray, *, k: int, scale: float) -> Part | Sieve | None:
    """Return some scores so that few of the others are looked at; or what drops most; None: all.

    It follows from the scores and the scale alone: it changes the cost, never the law.
    """
    n, real, m = array.size, array.dtype.kind == "f", first_size(array.size, k)
    many, cut = MANY * k >= n, None
    if n > MOST or m == n or (many and n < WORTH):
        return None
    sample = _sample(array, SAMPLE) if many else None
    if sample is None or _fall(sample[SAMPLE * k // n :], k, n, scale, real):
        keys, items, _ = _core.cut(array, m, m <= IN_ORDER)
        ends = keys[[k - 1, -1]] if m <= IN_ORDER else np.partition(keys, (0, m - k))[[m - k, 0]]
        gap, least = _gap(ends, scale, real), enough(n, m)
        if gap >= least:  # no noise is below -3, but with a chance of e^-20
            floor = max(least, gap - 3.0)
            return Part(keys, items, ends.item(1), floor, int((n - m) * math.exp(-floor)))
        if n <= FEW:
            return None
        cut = Part(keys, items, ends.item(1), gap, 0)  # with the k-th for a floor
    with np.errstate(all="ignore"):  # past the range of floats is far enough
        return _cheapest(array, cut, sample, k, scale, real)


def _sample(array: np.ndarray, size: int) -> np.ndarray:
    """Return some keys in descending order."""
    return np.sort(_core.keys(array[places(array.size)[:size]]))[::-1]


def _fall(sample: np.ndarray, k: int, n: int, scale: float, real: bool) -> bool:
    """Tell from a sample, from the k-th largest on, whether a cut for k picks seems enough."""
    last = SAMPLE * k // (4 * n) + 1
    if last >= sample.size:
        return False
    return _gap(sample[[0, last]], scale, real) >= 2.0 * enough(n, k + k // 4)


def _gap(keys: np.ndarray, scale: float, real: bool) -> float:
    """Return by how many scales the first of two scores is above the other."""
    high, low = scores_of(keys, real)
    return float(high - low) / scale


def _cheapest(
    array: np.ndarray,
    cut: Part | None,
    sample: np.ndarray | None,
    k: int,
    scale: float,
    real: bool,
) -> Part | Sieve | None:
    """Return what seems the cheapest: what was cut, another part, or a sieve of all."""
    n, kept, looks_past = array.size, None, math.inf
    if cut is not None:
        # A small sample may be enough to see that looks past what was cut cost little.
        for size in (SAMPLE // 16, SAMPLE)[: 1 if n < WORTH else 2]:
            known = _known(_sample(array, size), cut, n, k, scale, real)
            gap = known.floor - float(known.x[known.cut])
            looks_past = LOOK * (n - cut.keys.size) * math.exp(-gap) if gap > 0.0 else math.inf
            if gap > 0.0:
                kept = cut._replace(floor=gap, looks=int(looks_past / LOOK))
            if looks_past < min(DRAW * n, ESTIMATE + PASS * n):
                return kept
        if n < WORTH:
            return None
    else:
        assert sample is not None
        known = _known(sample, None, n, k, scale, real)
    # All that are larger than one of the known scores are the part.
    gaps, above = known.floor - known.x, known.above
    looks = (n - above) * np.exp(np.minimum(-gaps, 0.0))
    blocks = n / BLOCK * -np.expm1(-BLOCK / n * above)
    costs = PASS * n + PART * above + FIRST * blocks + LOOK * looks
    costs[1:][known.keys[1:] == known.keys[:-1]] = math.inf
    costs[above < (1 if cut is None else cut.keys.size)] = math.inf
    at = int(costs.argmin())
    gap, most, cost = float(gaps[at]), known.keys.item(at), float(costs[at])
    sieve, sifted = _sieve(known, n, scale, real)
    if looks_past < min(cost, sifted):
        return kept
    if cost < sifted and 0.0 < gap < 600.0:
        found = _core.part(array, most, int(1.5 * above[at]) + 4096)
        if found is not None and 0 < found[0].size < n:
            return Part(*found, most, gap, int(looks[at]))
    return sieve


def _sieve(known: _Known, n: int, scale: float, real: bool) -> tuple[Sieve | None, float]:
    """Return the sieve that seems the cheapest, and what it costs, in ns."""
    low, high = float(known.x[-1]), float(known.x[0])
    if not (math.isfinite(known.floor) and low > -VAST and high < VAST):
        return None, DRAW * n
    # Who may be above the floor with each byte: all that are above such a score.
    scores = known.origin + scale * (known.floor + np.log((BYTES + 1) / 256))
    keys = _core.keys(scores) if real else np.clip(np.floor(scores), -LARGE, LARGE).astype(np.int64)
    x = (floats_of(keys, real) - known.origin) / scale
    bytes_ = np.ceil(256 * np.exp((x - known.floor).clip(max=0.0))).clip(1.0, 256.0) - 1.0
    above = np.append(known.above, n)[(known.x > x[:, None]).sum(1)]
    through = above + (n - above) * (bytes_ + 1.0) / 256
    at = int(through.argmin())
    sieve = Sieve(keys.item(at), int(bytes_[at]), int(through[at]))
    return sieve, SIFT * n + THROUGH * float(through[at])


class _Known(NamedTuple):
    """Some scores in descending order, as far as is known what all are.

    keys : int64 array
    x : float array; in scales
    above : float array; how many are before each
    cut : int; where the largest one that was not cut may be
    floor : float; some more than k noisy scores are above it, in the units of x
    origin : float; the score, or key of an integer, of x = 0
    """

    keys: np.ndarray
    x: np.ndarray
    above: np.ndarray
    cut: int
    floor: float
    origin: float


def _known(
    sample: np.ndarray, cut: Part | None, n: int, k: int, scale: float, real: bool
) -> _Known:
    """Estimate the floor by a sample, and by the largest scores where they were cut."""
    m, every, keys = 0, 1, sample
    if cut is not None:
        m = cut.keys.size
        every = 1 + m // POINTS
        sample = sample[sample <= cut.most]
        keys = np.concatenate((np.sort(cut.keys[::every])[::-1], [cut.most], sample))
    at = keys.size - sample.size - 1
    weight = np.full(keys.size, (n - m) / max(1, sample.size))
    if cut is not None:
        weight[:at], weight[at] = every, 0.0
    above = np.cumsum(weight) - weight
    x = floats_of(keys, real)
    origin = float(x[above.searchsorted(k) - 1])
    x = (x - origin) / scale
    # As if those above the floor stayed there, and others came there by a chance of e^-gap.
    mass = np.cumsum((weight * np.exp(x.clip(-600.0, 600.0)))[::-1])[::-1]
    floors = np.log(mass / (k - above))
    floor = float(floors[((floors >= x) | (above >= k)).argmax()])
    floor -= math.log(1.25 + 3.0 / math.sqrt(k))
    if cut is not None:  # few more than k noisy scores are ln n scales above the k-th
        floor = min(floor, float(x[at]) + cut.floor + math.log(n))
    return _Known(keys, x, above, at, floor, origin)
