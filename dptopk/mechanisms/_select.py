"""From scores to picks: the race kernel, and its exact replay when it can't decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dptopk import _core
from dptopk._counts import HEAD, Head, head_size
from dptopk._validate import boolean, scores_array
from dptopk.histogram import Histogram, known_histogram
from dptopk.rng import acquire, release

if TYPE_CHECKING:
    from dptopk.reference.race import Field

__all__ = [
    "Scores",
    "Tail",
    "first_size",
    "full_head",
    "head_of_scores",
    "outside",
    "places",
    "replay",
    "scores_fall",
    "scores_over",
    "select",
    "select_from",
]


class Scores(NamedTuple):
    """What a full-domain mechanism picks from: counts of a known domain, or scores.

    Of a truncated histogram the items that were left out count what the next one does.

    histogram : the counts, or None
    column : the scores, turned round if the least are wanted; or None: those of the histogram
    monotone : whether a user moves all of them one way
    """

    histogram: Histogram | None
    column: np.ndarray | None
    monotone: bool

    @property
    def n_items(self) -> int:
        """How many there are."""
        return self.column.size if self.column is not None else self._counts.n_items or 0

    @property
    def clamped(self) -> bool:
        """Whether items were left out: then one user can move more of them than they have."""
        return self.column is None and self._counts.tail is None

    def head(self, *, k: int, scale: float) -> Head:
        """Cut for k picks at a noise scale."""
        if self.column is not None:
            return head_of_scores(self.column, k=k, scale=scale)
        h = self._counts
        n, tail = len(h), h.tail
        if tail is None:  # clamped
            return _clamped_head(h)
        call, size = h._raced or (None, 0)
        if call == (k, scale):
            keys, items = h.head(size)
        else:
            keys, items = full_head(h.head, n, k=k, scale=scale, tail=tail)
            h._raced = (k, scale), keys.size
        return Head(keys, items, tail if keys.size < n else None, False)

    @property
    def _counts(self) -> Histogram:
        assert self.histogram is not None
        return self.histogram

    @property
    def known_domain(self) -> bool:
        """Always: see `known_histogram`."""
        return True

    def items_of(self, picks: np.ndarray) -> np.ndarray:
        """Return the items that a race over `head` has picked."""
        if not self.clamped:
            return picks
        _, kept, _ = self._counts.cut(self._counts.k_bar or 0)
        return outside(kept, picks)

    def labels_of(self, items: np.ndarray) -> tuple[Any, ...] | None:
        """Return the labels of some items, or None if there are none."""
        return None if self.histogram is None else self.histogram.labels_of(items)


def scores_over(
    counts: Any, mechanism: str, *, monotone: bool | None, k: int = 1, largest: bool = True
) -> Scores:
    """Check what a full-domain mechanism was given, for k picks.

    A Histogram, or an array of integers, holds counts unless ``monotone=False``;
    an array of floats holds scores, and is not monotone unless it is said to be.
    """
    largest = boolean("largest", largest)
    if monotone is not None:
        monotone = boolean("monotone", monotone)
    histogram = column = None
    if not isinstance(counts, Histogram):
        counts = scores_array("counts", counts)
        if monotone is False or counts.dtype.kind == "f":
            column = counts
    if column is None:
        histogram = known_histogram(counts, mechanism, truncated=largest)
        if not largest:
            column = histogram.counts
            if column.min() < 0:
                raise ValueError("counts must not be negative")
    n_items = histogram.n_items or 0 if histogram is not None else counts.size
    if k > n_items:
        raise ValueError(f"k must be at most the number of items, {n_items}; got {k}")
    if column is not None and not largest:
        # The order turned round, exactly at any dtype: ~x = -x - 1 for integers.
        column = -column if column.dtype.kind == "f" else ~column
    return Scores(histogram, column, (histogram is not None) if monotone is None else monotone)


def _clamped_head(h: Histogram) -> Head:
    """Return the head of a truncated histogram of a known domain, by numbers of its own.

    Kept items come first, 0, 1, ..., and all others after them: see `outside`. The first of
    these closes the head, so that a race finds every number up to it in the head, and draws
    the others from a tail of equal counts, of which no memory holds more than one.
    """
    kept, _, next_count = h.cut(h.k_bar or 0)
    n_items = h.n_items or 0
    if kept.size < n_items:
        kept = np.append(kept, next_count)
    numbers = np.arange(kept.size)
    tail = np.broadcast_to(np.int64(next_count), (n_items,)) if kept.size < n_items else None
    return Head(kept, numbers, tail, False)


def outside(kept: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return items by number: first those kept, as they stand, then all others, ascending."""
    # The r-th that is not kept: as many more as kept ones come before it.
    jumps = np.sort(kept) - np.arange(kept.size)
    items = numbers - kept.size
    past = items >= 0
    items[past] += np.searchsorted(jumps, items[past], side="right")
    items[~past] = kept[numbers[~past]]
    return items


# That many at most are all put in order, if their first ones are not enough.
FEW = 1 << 14


def head_of_scores(array: np.ndarray, *, k: int, scale: float) -> Head:
    """Cut an array of scores for k picks at a noise scale."""
    n, m, real = array.size, first_size(array.size, k), array.dtype.kind == "f"
    keys, items, _ = _core.cut(array, m, watch=False)
    if m < n and not scores_fall(keys, n, k=k, scale=scale, real=real):
        better = n if n <= FEW else better_size(keys, array, k=k, scale=scale, real=real)
        if better > m:
            keys, items, _ = _core.cut(array, better, watch=False)
    return Head(keys, items, array if keys.size < n else None, real)


def first_size(n: int, k: int) -> int:
    """Return how many of n scores to put in order first: few more than k, or all."""
    m = k + max(k // 4, min(HEAD, max(118, n // 64)))
    return n if m >= n // 2 else m


def enough(n: int, m: int) -> float:
    """Return by how many scales m of n scores must fall below the k-th for few looks past them."""
    return 1.0 + math.log(max(1.0, (n - m) * LOOK / (PASS * n + ORDER * m)))


def scores_fall(keys: np.ndarray, n: int, *, k: int, scale: float, real: bool) -> bool:
    """Tell whether the scores fall so far within a head that a race seldom looks past it."""
    if real:
        kth, last = scores_of(keys[[k - 1, -1]], True)
    else:
        kth, last = float(keys.item(k - 1)), float(keys.item(-1))
    return bool((kth - last) / scale >= enough(n, keys.size))


def full_head(
    cut: Callable[[int], tuple[np.ndarray, np.ndarray]],
    n: int,
    *,
    k: int,
    scale: float,
    tail: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Cut n items so that a race for k picks seldom looks in vain at what is left.

    It is meant for a `cut` that keeps what it put in order.

    How many are cut follows from the scores and the scale, not from the
    random words: it changes the cost, never the law.
    """
    m = n if n <= head_size(n, k) else max(HEAD, k + max(k // 4, HEAD // 4))
    keys, items = cut(m)
    if m == n or tail is None:
        return keys, items
    if scores_fall(keys, n, k=k, scale=scale, real=False):
        return keys, items
    better = better_size(keys, tail, k=k, scale=scale, real=False, calls=CALLS)
    return cut(better) if better > m else (keys, items)


SAMPLE = 1024
# What an item costs, in ns: to pass by, to put in order, to look at in the tail; and what it
# costs to estimate all that.
PASS, ORDER, LOOK, ESTIMATE = 0.2, 35.0, 80.0, 60_000.0
CALLS = 16  # calls that a head which a histogram keeps is for, or so


@lru_cache(maxsize=16)
def places(n: int) -> np.ndarray:
    """Return some places of n, always the same ones: where to sample a tail before any draw."""
    return np.random.default_rng(n).integers(0, n, size=SAMPLE)


def better_size(
    keys: np.ndarray, tail: np.ndarray, *, k: int, scale: float, real: bool, calls: int = 1
) -> int:
    """Return how large a head would be the cheapest for k picks, having one.

    A race looks into the tail whenever (the head's last score) + (a noise of the tail)
    beats the k-th largest noisy value, which about k of the scores do. It is estimated
    from the head, and from a sample of the tail, which also tells what other heads would
    end in. So many `calls` share what a cut costs.
    """
    n, m = tail.size, keys.size
    last = float(scores_of(keys[-1:], real)[0])
    with np.errstate(over="ignore", under="ignore"):  # past the range of floats is far enough
        for sample in (SAMPLE // 16, SAMPLE):
            down = (last - floats_of(_core.keys(tail[places(n)[:sample]]), real)) / scale
            down = down.clip(0.0)
            step = 1 + m // sample
            weights = np.exp(((floats_of(keys[::step], real) - last) / scale).clip(max=600.0))
            # Where the sum of min(1, weight / e^lead) is k.
            rest = weights[::-1].cumsum()[::-1] + (n - m) * np.exp(-down).mean() / step
            share = rest[: 1 + (k - 1) // step] / (k / step - np.arange(1 + (k - 1) // step))
            lead = math.log(share[(share >= weights[: share.size]).argmax()])
            cost = (n - m) * math.exp(-lead) * LOOK
            if cost < (PASS * n + ESTIMATE) / calls:
                return m
        sizes = m + (n - m) * np.arange(SAMPLE + 1) / SAMPLE
        down = np.append(0.0, np.sort(down))
        looks = (n - sizes) * np.minimum(np.exp(-lead - down), 1.0)
    costs = (ORDER * sizes + PASS * n) / calls + LOOK * looks
    costs[0] = LOOK * looks[0]  # that one is there
    return math.ceil(sizes[costs.argmin()])


def floats_of(keys: np.ndarray, real: bool) -> np.ndarray:
    """Return the scores that have these keys, nearly."""
    if real:
        keys = np.where(keys >= 0, keys, keys ^ np.int64(2**63 - 1)).view(np.float64)
    return keys.astype(np.float64)


def select(
    head: Head,
    *,
    k: int,
    scale: float,
    rng: Any,
    noise: str = "gumbel",
    offsets: np.ndarray | None = None,
    stop: tuple[int, float] | None = None,
    fresh: bool = False,
) -> tuple[np.ndarray, bool]:
    """Return the k items with the largest score/scale + noise, and whether privately drawn.

    `offsets` are added to the scores, in units of the scale; `stop` is the
    (score, offset) of a stopper, which ends the picks as ``_core.STOP``. With
    `fresh` (and neither of these) the noise is drawn anew for every pick.
    """
    source = acquire(rng)
    try:
        picks = select_from(
            source,
            head,
            k=k,
            scale=scale,
            noise=noise,
            offsets=offsets,
            stop=stop,
            fresh=fresh,
        )
        return picks, source.private
    finally:
        release(source)


def select_from(
    source: _core.Source,
    head: Head,
    *,
    k: int,
    scale: float | Fraction,
    noise: str = "gumbel",
    offsets: np.ndarray | None = None,
    stop: tuple[int, float] | None = None,
    fresh: bool = False,
) -> np.ndarray:
    """Return the picks by the words of a source that is at the first word of a call.

    A scale that no double holds is left to the replay.
    """
    stop_key, stop_offset = stop if stop is not None else (0, 0.0)
    picks = None
    if isinstance(scale, float):
        picks = _core.race(
            source,
            head.keys,
            head.items,
            k,
            scale,
            _core.NOISES[noise],
            head.real,
            head.tail,
            offsets,
            stop is not None,
            stop_key,
            stop_offset,
            fresh,
        )
    if picks is None:
        picks = replay(
            source, head, k=k, scale=scale, noise=noise, offsets=offsets, stop=stop, fresh=fresh
        )
    return picks


def replay(
    source: _core.Source,
    head: Head,
    *,
    k: int,
    scale: float | Fraction,
    noise: str,
    offsets: np.ndarray | None = None,
    stop: tuple[int, float] | None = None,
    fresh: bool = False,
) -> np.ndarray:
    """Return what `select_from` does, exactly, by the same words of the source's call."""
    from dptopk.reference import race as exact  # loads mpmath: seldom needed

    tape = exact.Tape.replay(source)
    field = exact_field(head, offsets=offsets, stop=stop)
    if fresh:
        picks = exact.race_afresh(tape, field, k=k, scale=scale, noise=noise)
    else:
        floor = None
        if isinstance(scale, float) and offsets is None and stop is None:
            floor = _core.sweep_floor(
                head.keys, head.items, k, scale, _core.NOISES[noise], head.real, head.tail
            )
        picks = exact.race(tape, field, k=k, scale=scale, noise=noise, floor=floor)
    return np.array(picks, dtype=np.int64)


class Tail(Sequence[int | float]):
    """The scores of all items as Python numbers, each made when it is looked at."""

    def __init__(self, column: np.ndarray, real: bool):
        self._column = column
        self._real = real

    def __len__(self) -> int:
        return self._column.size

    def __getitem__(self, item: Any) -> Any:
        keys = _core.keys(self._column[item : item + 1])
        return finite_scores_of(keys, self._real)[0]


def scores_of(keys: np.ndarray, real: bool) -> list[Any]:
    """Return the scores that have these keys, as Python numbers."""
    if not real:
        return keys.tolist()
    return np.where(keys >= 0, keys, keys ^ np.int64(2**63 - 1)).view(np.float64).tolist()


def finite_scores_of(keys: np.ndarray, real: bool) -> list[Any]:
    """Return the same of scores that were finite when the call began, if they still are."""
    scores = scores_of(keys, real)
    if real and any(map(math.isinf, scores)):
        raise RuntimeError(_core.CHANGED)
    return scores


def exact_field(head: Head, *, offsets: np.ndarray | None, stop: tuple[int, float] | None) -> Field:
    """Return the same scores for `dptopk.reference.race`, as Python numbers."""
    from dptopk.reference import race as exact

    return exact.Field(
        scores=finite_scores_of(head.keys, head.real),
        items=head.items.tolist(),
        offsets=None if offsets is None else offsets.tolist(),
        tail=None if head.tail is None else Tail(head.tail, head.real),
        stop=stop,
    )
