"""Any mechanism on the top k_bar only, readable: pick, then test each pick against the cut.

Carvalho and Wang, "A Framework for Practical Differentially Private Top-k Selection",
Algorithm 1. An (eM, dM)-DP mechanism picks k of the k_bar largest. In its order each pick's
distance, count - h_(k_bar+1) - 1, is tested against one noisy threshold. The first pick that
fails, and all after it, give way to BOT.

This is (eM + eR, dM + dR)-DP if the mechanism treats items alike: renaming the items renames
what it picks, in law. docs/proofs/restricted.md has the proof, and says why the paper's weaker
condition is not enough.

Where an unknown domain has only n < k_bar items, k_bar - n are made up, which count 0. If one of
them is picked and passes, it is shown as BOT, and nothing comes out after it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from dptopk.reference import sparse_vector
from dptopk.reference.limited_domain import BOT, Outcome, cut
from dptopk.reference.race import Field, Tape, race

__all__ = ["in_random_order", "law", "passing_law", "sample_order", "sample_tests", "scan_law"]

Picks = tuple[int, ...]
PicksLaw = Callable[[Sequence[int]], Mapping[Picks, float]]


def domain(counts: Sequence[int], k_bar: int, *, known: bool) -> tuple[list[int], list[int], int]:
    """Items of the top k_bar, the counts with those of made-up items, and the next count.

    Examples
    --------
    >>> from dptopk.reference.restricted import domain
    >>> domain([0, 3, 1, 0], 3, known=False)
    ([1, 2], [3, 1, 0], 0)
    """
    items, next_count = cut(counts, k_bar, known=known)
    missing = 0 if known else k_bar - len(items)
    return items, [counts[i] for i in items] + [0] * missing, next_count


@lru_cache(maxsize=100_000)
def passing_law(distances: tuple[int, ...], threshold: float, scale: float) -> tuple[float, ...]:
    """Chance that so many of the first distances pass before one fails: 0, 1, ..., all.

    Examples
    --------
    >>> from dptopk.reference.restricted import passing_law
    >>> [round(p, 3) for p in passing_law((9, 2), 4.0, 1.0)]
    [0.012, 0.853, 0.135]
    """
    by_bits = sparse_vector.law(
        distances, threshold=threshold, threshold_scale=scale, query_scale=scale, above=False
    )
    chances = [0.0] * (len(distances) + 1)
    for bits, chance in by_bits.items():
        chances[len(bits) - sum(bits)] += chance
    return tuple(chances)


def scan_law(
    picks_law: Mapping[Picks, float],
    items: Sequence[int],
    counts: Sequence[int],
    next_count: int,
    *,
    k: int,
    threshold: float,
    scale: float,
) -> dict[Outcome, float]:
    """Chance of every outcome, given that of every sequence of places that is picked."""
    chances: dict[Outcome, float] = {}
    for picks, chance in picks_law.items():
        distances = tuple(counts[place] - next_count - 1 for place in picks)
        for passed, share in enumerate(passing_law(distances, threshold, scale)):
            shown = [items[place] for place in picks[:passed] if place < len(items)]
            real = next((j for j, p in enumerate(picks[:passed]) if p >= len(items)), passed)
            outcome: Outcome = tuple(shown[:real])
            if len(outcome) < k:
                outcome = (*outcome, BOT)
            chances[outcome] = chances.get(outcome, 0.0) + chance * share
    return chances


def law(
    counts: Sequence[int],
    *,
    picks_law: PicksLaw,
    k: int,
    k_bar: int,
    threshold: float,
    scale: float,
    known: bool = True,
) -> dict[Outcome, float]:
    """Chance of every outcome.

    Parameters
    ----------
    counts : sequence of int, shape (items,)
        Distinct users per item.
    picks_law : callable
        The mechanism: from the counts of a domain to the chance of every sequence
        of k indices. It must treat items alike.
    k : int
        Most items that come out.
    k_bar : int
        Number of items the mechanism is shown, at least k.
    threshold : float
        What the distances are tested against, in users.
    scale : float
        Scale of the Laplace noises of threshold and tests, in users.
    known : bool
        Whether items that count 0 are there.

    Returns
    -------
    dict of tuple to float
        Each outcome, a tuple of item indices that ends in BOT if there are fewer than k, and
        its probability.

    Examples
    --------
    >>> from functools import partial
    >>> from dptopk.reference import peel, restricted
    >>> chance = restricted.law([9, 1, 0], picks_law=partial(peel.law, k=1, scale=1.0), k=1,
    ...                         k_bar=1, threshold=4.0, scale=1.0)
    >>> {outcome: round(p, 3) for outcome, p in chance.items()}
    {('BOT',): 0.062, (0,): 0.938}
    """
    items, shown, next_count = domain(counts, k_bar, known=known)
    return scan_law(
        picks_law(shown), items, shown, next_count, k=k, threshold=threshold, scale=scale
    )


def in_random_order(sets_law: Mapping[Picks, float]) -> dict[Picks, float]:
    """Chance of every sequence, if a set is put in an order drawn at random.

    Examples
    --------
    >>> from dptopk.reference.restricted import in_random_order
    >>> in_random_order({(0, 1): 0.5, (1, 2): 0.5})
    {(0, 1): 0.25, (1, 0): 0.25, (1, 2): 0.25, (2, 1): 0.25}
    """
    return {
        picks: chance / math.factorial(len(items))
        for items, chance in sets_law.items()
        for picks in itertools.permutations(items)
    }


def sample_order(tape: Tape, picks: Sequence[int]) -> list[int]:
    """Put picks in an order drawn at random: a race of equal scores."""
    return race(tape, Field([0] * len(picks), list(picks)), k=len(picks), scale=1.0)


def sample_tests(
    tape: Tape,
    picks: Sequence[int],
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    threshold: float,
    scale: float,
    known: bool = True,
) -> Outcome:
    """Draw the tests once from a tape of random words, exactly.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        One word for the threshold, then one a test.
    picks : sequence of int
        The places that the mechanism picked, in order.
    counts, k, k_bar, threshold, scale, known
        As in `law`.

    Returns
    -------
    tuple
        An outcome as in `law`.
    """
    items, shown, next_count = domain(counts, k_bar, known=known)
    bits = sparse_vector.sample(
        tape,
        [shown[place] - next_count - 1 for place in picks],
        threshold=threshold,
        threshold_scale=scale,
        query_scale=scale,
        above=False,
    )
    outcome: list[int | str] = []
    for place in picks[: len(bits) - sum(bits)]:
        if place >= len(items):
            break
        outcome.append(items[place])
    return (*outcome, BOT) if len(outcome) < k else tuple(outcome)


def naive_tests(
    distances: np.ndarray,
    *,
    threshold: float,
    scale: float,
    rng: np.random.Generator,
    fresh_threshold: bool = False,
) -> np.ndarray:
    """Draw how many distances pass in each row, the way Algorithm 1 is printed.

    A baseline for tests. Not private: double arithmetic, and a generator that is no
    secure source.

    Parameters
    ----------
    distances : ndarray, shape (draws, k)
        One row a draw.
    threshold, scale
        As in `law`.
    rng : numpy.random.Generator
        Source of the noise.
    fresh_threshold : bool
        Wrong: a noise of the threshold for every test.

    Returns
    -------
    ndarray of int, shape (draws,)
    """
    draws, k = distances.shape
    level = threshold + rng.laplace(scale=scale, size=(draws, k if fresh_threshold else 1))
    fails = distances + rng.laplace(scale=scale, size=(draws, k)) <= level
    return np.where(fails.any(axis=1), fails.argmax(axis=1), k)
