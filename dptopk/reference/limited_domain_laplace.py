"""The limited domain with Laplace noise, readable: a noisy top k_bar and a stop.

As `dptopk.reference.limited_domain`, with Laplace noise of scale 1 / epsilon_step; or with
integer noise of that scale, whose noisy counts may then come out too (`counts_law`).

One release costs `steps` times epsilon_step, and delta is m times `tail` or `discrete_tail`,
m being `movable`. docs/proofs/limited_domain_laplace.md has the proof.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dptopk.reference import discrete
from dptopk.reference.limited_domain import BOT, Outcome, cut, drawn, until_bot
from dptopk.reference.noise import sequence_law
from dptopk.reference.race import Field, Tape, race

__all__ = [
    "counts_law", "discrete_tail", "law", "naive_sample", "naive_sample_counts", "sample",
    "sample_counts", "steps", "tail",
]  # fmt: skip


def steps(k: int, tops: int, max_items_per_user: int, *, with_counts: bool) -> int:
    """How many times epsilon_step one release costs; `tops` items take part, and BOT.

    That is k_bar, or the size of a known domain if that is less.

    Examples
    --------
    >>> from dptopk.reference.limited_domain_laplace import steps
    >>> steps(100, 500, 20, with_counts=False), steps(1, 500, 20, with_counts=False)
    (20, 1)
    """
    if with_counts:
        return min(max_items_per_user, tops + 1)
    return min(max_items_per_user, k, (tops + 1) // 2)


def tail(threshold: float) -> float:
    """P(X - Y > threshold) for independent standard Laplace X, Y and threshold >= 0.

    Examples
    --------
    >>> from dptopk.reference.limited_domain_laplace import tail
    >>> tail(0.0), round(tail(3.0), 4)
    (0.5, 0.0622)
    """
    return (2 + threshold) * math.exp(-threshold) / 4


def discrete_tail(threshold: int, scale: float) -> float:
    """P(X - Y > threshold) for independent discrete Laplace X, Y and integer threshold >= 0.

    With q = exp(-1 / scale), P(X = x) = (1 - q) / (1 + q) q^|x|, and so
    P(X - Y = n) = ((1 - q) / (1 + q))^2 q^|n| (|n| + (1 + q^2) / (1 - q^2)), of which
    the sum over n > threshold is below.

    Examples
    --------
    >>> from dptopk.reference.limited_domain_laplace import discrete_tail
    >>> round(discrete_tail(3, 1.0), 4)
    0.0365
    """
    q, gap = math.exp(-1 / scale), -math.expm1(-1 / scale)
    whole = gap * (threshold + 1) + (1 + q * q) / (1 + q) + q
    return math.exp(-(threshold + 1) / scale) * whole / (1 + q) ** 2


def law(
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    scale: float,
    threshold: float,
    known: bool = True,
) -> dict[Outcome, float]:
    """Chance of every outcome.

    Parameters
    ----------
    counts : sequence of int, shape (items,)
        Distinct users per item.
    k : int
        Most items that are picked.
    k_bar : int
        Number of items that compete, at least k.
    scale : float
        Scale of the Laplace noise, in users.
    threshold : float
        How far BOT stands above h_(k_bar+1) + 1, in units of the scale.
    known : bool
        Whether items that count 0 are there.

    Returns
    -------
    dict of tuple to float
        Each outcome, a tuple of item indices with BOT as its last element if BOT came
        before the k-th item, and its probability.

    Examples
    --------
    >>> from dptopk.reference import limited_domain_laplace
    >>> chance = limited_domain_laplace.law([9, 1, 0], k=1, k_bar=1, scale=1.0, threshold=5.0)
    >>> {outcome: round(p, 3) for outcome, p in chance.items()}
    {(0,): 0.865, ('BOT',): 0.135}
    """
    items, next_count = cut(counts, k_bar, known=known)
    gaps = tuple(counts[i] - next_count for i in items)
    ranks = _ranks_law(gaps, k=k, scale=scale, threshold=threshold)
    return {
        tuple(rank if rank == BOT else items[rank] for rank in outcome): chance
        for outcome, chance in ranks.items()
    }


@lru_cache(maxsize=4096)
def _ranks_law(
    gaps: tuple[int, ...], *, k: int, scale: float, threshold: float
) -> dict[tuple[Any, ...], float]:
    """Return the law over ranks: few histograms differ in it."""
    scores: dict[Any, float] = {**dict(enumerate(gaps)), BOT: 1 + threshold * scale}
    return sequence_law(scores, k=k, scale=scale, noise="laplace", stop=BOT)


def counts_law(
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    scale: float,
    threshold: int,
    known: bool = True,
) -> dict[tuple[Any, ...], float]:
    """Chance of every outcome with noisy counts: integer noise, BOT before its equals.

    Items of equal noisy counts stand in random order, all orders alike: any order fixed
    by the data would tell of it.

    Parameters
    ----------
    counts, k, k_bar, known
        As in `law`.
    scale : float
        Scale of the discrete Laplace noise.
    threshold : int
        How far BOT stands above h_(k_bar+1) + 1.

    Returns
    -------
    dict of tuple to float
        Each outcome, (item, noisy count) pairs with BOT as last element if it came before
        the k-th item, and its probability. About 1e-15 is left out at either end of a noise.

    Examples
    --------
    >>> from dptopk.reference import limited_domain_laplace
    >>> chance = limited_domain_laplace.counts_law([9, 1], k=1, k_bar=1, scale=0.5, threshold=3)
    >>> {outcome: round(p, 3) for outcome, p in chance.items() if p > 0.1}
    {((0, 8),): 0.103, ((0, 9),): 0.761, ((0, 10),): 0.103}
    """
    items, next_count = cut(counts, k_bar, known=known)
    gaps = tuple(counts[i] - next_count for i in items)
    ranks = _ranks_counts_law(gaps, k=k, scale=scale, threshold=threshold)
    return {
        tuple(x if x == BOT else (items[x[0]], x[1] + next_count) for x in outcome): chance
        for outcome, chance in ranks.items()
    }


@lru_cache(maxsize=64)
def _ranks_counts_law(
    gaps: tuple[int, ...], *, k: int, scale: float, threshold: int
) -> dict[tuple[Any, ...], float]:
    """Return the law over ranks, of noisy counts less h_(k_bar+1)."""
    noise = discrete.laplace_law(scale)
    reach, bot = max(noise), len(gaps)
    means = (*gaps, 1 + threshold)
    lowest, highest = min(means) - reach, max(means) + reach
    line = range(lowest, highest + 1)
    at = np.array([[noise.get(x - mean, 0.0) for x in line] for mean in means])
    upto = at.cumsum(axis=1)
    under = upto - at
    chances: dict[tuple[Any, ...], float] = {}
    for length in range(min(k, len(gaps)) + 1):
        for ranks in itertools.permutations(range(len(gaps)), length):
            rest = [rank for rank in range(len(gaps)) if rank not in ranks]
            if length < k:
                ended = at[bot] * upto[rest].prod(axis=0)
                ended = ended.cumsum() - ended  # BOT below a noisy count, the rest not above it
            for up in itertools.combinations_with_replacement(range(len(line)), length):
                places = up[::-1]
                chance = math.prod(at[rank, x] for rank, x in zip(ranks, places, strict=True))
                ties = [places.count(x) for x in set(places)]
                if length < k:
                    chance *= ended[places[-1]] if places else ended[-1] + at[bot, -1]
                    chance /= math.prod(map(math.factorial, ties))
                else:
                    last = places.count(places[-1])
                    share = _first_of_equals(under[rest, places[-1]], at[rest, places[-1]], last)
                    chance *= under[bot, places[-1]] * share * math.factorial(last)
                    chance /= math.prod(map(math.factorial, ties))
                if chance > 0.0:
                    named = tuple((r, lowest + x) for r, x in zip(ranks, places, strict=True))
                    chances[named if length == k else (*named, BOT)] = float(chance)
    return chances


def _first_of_equals(under: Any, at: Any, picked: int) -> float:
    """Chance that no other item is above `picked` equal ones, and that these stand first.

    In one order of theirs, among all that are equal; `under` and `at` are the chances of
    each other item to be below them, and equal.
    """
    equal = np.ones(1)  # chance of so many others equal
    for below, same in zip(under, at, strict=True):
        equal = np.convolve(equal, (below, same))
    return sum(
        chance * math.factorial(others) / math.factorial(picked + others)
        for others, chance in enumerate(equal.tolist())
    )


def sample(
    tape: Tape,
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    scale: float,
    threshold: float,
    known: bool = True,
) -> Outcome:
    """Draw once from a tape of random words, exactly: the twin of the compiled mechanism.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    counts, k, k_bar, scale, threshold, known
        As in `law`.

    Returns
    -------
    tuple
        The picks, best first, ended by `BOT` if it came before the k-th.
    """
    top = cut(counts, k_bar, known=known)
    return drawn(tape, top, counts, k=k, scale=scale, threshold=threshold, noise="laplace")


def sample_counts(
    tape: Tape,
    ties: Tape,
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    scale: float,
    threshold: int,
    known: bool = True,
) -> tuple[Any, ...]:
    """Draw once with noisy counts; the order of equals comes from a tape of its own.

    Arguments as in `counts_law` and `sample`, outcomes as in `counts_law`.
    """
    items, next_count = cut(counts, k_bar, known=known)
    noise = discrete.sample(tape, len(items) + 1, scale=scale, noise="laplace")
    bot = next_count + 1 + threshold + noise.pop()
    noisy = {i: counts[i] + z for i, z in zip(items, noise, strict=True)}
    above = sorted((i for i in items if noisy[i] > bot), key=lambda i: -noisy[i])
    cut_off = noisy[above[k - 1]] if len(above) > k else bot
    above = [i for i in items if noisy[i] >= cut_off and i in above]
    shuffled = race(ties, Field([0] * len(above), above), k=len(above), scale=1.0)
    picks = sorted(shuffled, key=lambda i: -noisy[i])[:k]
    return tuple((i, noisy[i]) for i in picks) + (BOT,) * (len(picks) < k)


def naive_sample(
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    scale: float,
    threshold: float,
    draws: int,
    rng: np.random.Generator,
    known: bool = True,
) -> list[Outcome]:
    """Draw with NumPy: noise on every competitor, then a sort.

    A baseline for tests. Not private: double arithmetic, and a generator that is no
    secure source.

    Parameters
    ----------
    counts, k, k_bar, scale, threshold, known
        As in `law`.
    draws : int
        Number of independent draws.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    list of tuple
        One outcome a draw, as in `law`.
    """
    items, next_count = cut(counts, k_bar, known=known)
    names: list[int | str] = [*items, BOT]
    scores = np.array([counts[i] for i in items] + [next_count + 1 + threshold * scale])
    noisy = scores + rng.laplace(scale=scale, size=(draws, len(names)))
    return until_bot(noisy, names, k)


def naive_sample_counts(
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    scale: float,
    threshold: int,
    draws: int,
    rng: np.random.Generator,
    known: bool = True,
) -> Iterator[tuple[Any, ...]]:
    """Draw with NumPy and noisy counts; arguments as in `counts_law` and `naive_sample`."""
    items, next_count = cut(counts, k_bar, known=known)
    means = np.array([counts[i] for i in items] + [next_count + 1 + threshold])
    noise = discrete.naive_sample(draws * means.size, scale=scale, noise="laplace", rng=rng)
    chance = rng.random((draws, len(items)))
    for row, ties in zip((means + noise.reshape(draws, -1)).tolist(), chance, strict=True):
        bot = row.pop()
        order = np.lexsort((ties, -np.array(row)))[:k]
        picks = [(items[j], row[j]) for j in order.tolist() if row[j] > bot]
        yield tuple(picks) + (BOT,) * (len(picks) < k)
