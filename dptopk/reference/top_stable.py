"""Top Stable, readable: the top i as a set, where a gap after place i shows that it is stable.

Carvalho, Wang, Gondara and Miao 2020, Algorithm 3. From i = k_bar down to 1 the
distance to instability of "the set of the top i", h_i - h_(i+1) - 1, is held
against one noisy threshold; the first to pass is released, or if it has more
than k items, k of them.

Why it is (e1 + e2 + e_EM, delta)-DP. The bits are a sparse vector with one hit
whose queries, differences of two counts, a user moves by 1 up or down: e1 + e2
with noises 1/e1 and 2/e2. Given the bits, what is released differs between two
neighbours only if the top i do. Then some item outside came level with one
inside, so that the gap is at most 1 on both sides and the distance at most 0;
that such an i passes has the chance delta / m at most, and there are m of them
(`movable`). What becomes of a set of more than k items depends on its members
alone, or on their counts by way of an e_EM-DP mechanism over them.

Items past the last one read off the data count 0: the top i are then those
there are, and the argument stays the same. The gap must be that behind place i:
testing the one between places i+1 and i+2 says nothing of the top i.

k from the data (Zhu and Wang 2022), `range_law`: a size from lo to hi is chosen by the
exponential mechanism on the gaps after it, then one test, A_stab, is made of that gap.
The proof is `docs/proofs/top_stable.md`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from dptopk.reference import sparse_vector
from dptopk.reference.limited_domain import cut
from dptopk.reference.noise import LAWS
from dptopk.reference.peel import plackett_luce
from dptopk.reference.race import Field, Tape, race

__all__ = [
    "chosen_law",
    "law",
    "movable",
    "naive_sample",
    "places",
    "range_law",
    "sample",
    "sample_range",
    "size_law",
]

Outcome = tuple[int, ...]


def places(k_bar: int, *, n_items: int | None) -> int:
    """At which place the tests begin: k_bar, or the last of a known domain.

    Examples
    --------
    >>> from dptopk.reference.top_stable import places
    >>> places(7, n_items=4), places(7, n_items=None)
    (4, 7)
    """
    return k_bar if n_items is None else min(k_bar, n_items)


def movable(k_bar: int, *, n_items: int | None) -> int:
    """At how many places i the set of the top i can change: what delta is shared among.

    At the last place of a known domain it never does. A bound on the items of a user is no
    help: who lifts one item over a row of equals changes the set at every place of that row.

    Examples
    --------
    >>> from dptopk.reference.top_stable import movable
    >>> movable(7, n_items=4), movable(2, n_items=4), movable(7, n_items=None)
    (3, 2, 7)
    """
    return k_bar if n_items is None else max(1, min(k_bar, n_items - 1))


def distances(
    counts: Sequence[int], k_bar: int, *, known: bool
) -> tuple[list[int], list[tuple[int, int]]]:
    """Items in order, and (place i, distance of the top i) in the order they are tested."""
    n = places(k_bar, n_items=len(counts) if known else None)
    items, next_count = cut(counts, n, known=known)
    h = [counts[i] for i in items] + [0] * (n - len(items)) + [next_count]
    return items, [(i, h[i - 1] - h[i] - 1) for i in range(n, 0, -1)]


def law(
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    threshold: float,
    threshold_scale: float,
    query_scale: float,
    select_scale: float | None = None,
    known: bool = True,
) -> dict[Outcome, float]:
    """Chance of every outcome.

    Parameters
    ----------
    counts : sequence of int, shape (items,)
        Distinct users per item.
    k : int
        Most items that come out.
    k_bar : int
        The largest set that is tested, at least k.
    threshold : float
        What the distances are tested against, in users.
    threshold_scale, query_scale : float
        Scales of the Laplace noises, in users.
    select_scale : float, optional
        Scale of the Gumbel noise by which k of a larger stable set are picked; uniform
        without it.
    known : bool
        Whether items that count 0 are there.

    Returns
    -------
    dict of tuple to float
        Each set that can come out, in item order, and its probability; empty if no test
        passes.

    Examples
    --------
    >>> from dptopk.reference import top_stable
    >>> chance = top_stable.law([9, 1, 0], k=1, k_bar=1, threshold=3.0,
    ...                         threshold_scale=1.0, query_scale=1.0)
    >>> {outcome: round(p, 3) for outcome, p in chance.items()}
    {(0,): 0.973, (): 0.027}
    """
    items, tests = distances(counts, k_bar, known=known)
    by_bits = sparse_vector.law(
        [distance for _, distance in tests],
        threshold=threshold,
        threshold_scale=threshold_scale,
        query_scale=query_scale,
    )
    chances: dict[Outcome, float] = {}
    for bits, chance in by_bits.items():
        top = items[: tests[len(bits) - 1][0]] if bits[-1] else []
        for outcome, share in picks_law(top, counts, k, select_scale).items():
            chances[outcome] = chances.get(outcome, 0.0) + chance * share
    return chances


def picks_law(
    top: Sequence[int], counts: Sequence[int], k: int, select_scale: float | None
) -> dict[Outcome, float]:
    """Chance of every set that may come of a stable one."""
    if len(top) <= k:
        return {tuple(sorted(top)): 1.0}
    if select_scale is None:
        return {
            subset: 1 / math.comb(len(top), k) for subset in itertools.combinations(sorted(top), k)
        }
    chances: dict[Outcome, float] = {}
    for picks, chance in plackett_luce({i: counts[i] / select_scale for i in top}, k).items():
        subset = tuple(sorted(picks))
        chances[subset] = chances.get(subset, 0.0) + chance
    return chances


def sample(
    tape: Tape,
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    threshold: float,
    threshold_scale: float,
    query_scale: float,
    select_scale: float | None = None,
    known: bool = True,
    picks_tape: Tape,
) -> Outcome:
    """Draw once from tapes of random words, exactly: the twin of the compiled mechanism.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        The words of the tests: one for the threshold, one a test.
    counts, k, k_bar, threshold, threshold_scale, query_scale, select_scale, known
        As in `law`.
    picks_tape : dptopk.reference.race.Tape
        The words of what follows: k of a larger set.

    Returns
    -------
    tuple of int
        The items, in item order.
    """
    items, tests = distances(counts, k_bar, known=known)
    bits = sparse_vector.sample(
        tape,
        [distance for _, distance in tests],
        threshold=threshold,
        threshold_scale=threshold_scale,
        query_scale=query_scale,
    )
    top = items[: tests[len(bits) - 1][0]] if bits[-1] else []
    if len(top) <= k:
        return tuple(sorted(top))
    if select_scale is None:  # equal scores: any k
        return tuple(sorted(race(picks_tape, Field([0] * len(top), top), k=k, scale=1.0)))
    field = Field([counts[i] for i in top], top)
    return tuple(sorted(race(picks_tape, field, k=k, scale=select_scale)))


def naive_sample(
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    threshold: float,
    threshold_scale: float,
    query_scale: float,
    draws: int,
    rng: np.random.Generator,
    known: bool = True,
    fresh_threshold: bool = False,
) -> list[Outcome]:
    """Draw the way Algorithm 3 is printed, with e_EM = 0.

    A baseline for tests. Not private: double arithmetic, and a generator that is no
    secure source.

    Parameters
    ----------
    counts, k, k_bar, threshold, threshold_scale, query_scale, known
        As in `law`.
    draws : int
        Number of independent draws.
    rng : numpy.random.Generator
        Source of the noise.
    fresh_threshold : bool
        Wrong: a noise of the threshold for every test.

    Returns
    -------
    list of tuple
        One outcome a draw, as in `law`.

    Examples
    --------
    >>> import numpy as np
    >>> from dptopk.reference import top_stable
    >>> top_stable.naive_sample([0, 90, 50], k=2, k_bar=2, threshold=20.0, threshold_scale=1.0,
    ...                         query_scale=1.0, draws=1, rng=np.random.default_rng(1))
    [(1, 2)]
    """
    items, tests = distances(counts, k_bar, known=known)
    columns = len(tests) if fresh_threshold else 1
    level = threshold + rng.laplace(scale=threshold_scale, size=(draws, columns))
    noise = rng.laplace(scale=query_scale, size=(draws, len(tests)))
    passed = np.array([distance for _, distance in tests]) + noise > level
    outcomes: list[Outcome] = []
    for row in passed:
        top = items[: tests[int(row.argmax())][0]] if row.any() else []
        if len(top) > k:
            top = rng.permutation(top)[:k].tolist()
        outcomes.append(tuple(sorted(top)))
    return outcomes


# ---- k from the data


def range_law(
    counts: Sequence[int],
    *,
    sizes: tuple[int, int],
    threshold: float,
    query_scale: float,
    choice_scale: float | None,
    known: bool = True,
) -> dict[Outcome, float]:
    """Chance of every outcome where the size is chosen from a range.

    Parameters
    ----------
    counts : sequence of int, shape (items,)
        Distinct users per item.
    sizes : (int, int)
        The least and the largest.
    threshold : float
        What the distance of the chosen size is tested against, in users.
    query_scale : float
        Scale of the Laplace noise of that distance.
    choice_scale : float or None
        A size has weight exp(its gap / choice_scale). None if there is but one.
    known : bool
        Whether items that count 0 are there.

    Returns
    -------
    dict of tuple to float
        Each set that can come out, in item order; empty if the test does not pass.

    Examples
    --------
    >>> from dptopk.reference import top_stable
    >>> chance = top_stable.range_law([9, 1, 0], sizes=(1, 2), threshold=3.0, query_scale=1.0,
    ...                               choice_scale=2.0)
    >>> {outcome: round(p, 3) for outcome, p in chance.items()}
    {(0,): 0.962, (): 0.037, (0, 1): 0.001}
    """
    items, tests = _sizes(counts, sizes, known=known)
    return chosen_law(
        items, tests, size_law(tests, choice_scale), threshold=threshold, query_scale=query_scale
    )


def _sizes(
    counts: Sequence[int], sizes: tuple[int, int], *, known: bool
) -> tuple[list[int], dict[int, int]]:
    """Items in order, and the distance of the top i by size i."""
    items, tests = distances(counts, sizes[1], known=known)
    return items, {i: distance for i, distance in reversed(tests) if i >= sizes[0]}


def size_law(tests: Mapping[int, int], scale: float | None) -> dict[int, float]:
    """Chance of every size, by an exponential mechanism; the distances are the gaps less 1."""
    if scale is None:
        (size,) = tests
        return {size: 1.0}
    most = max(tests.values())
    weights = {size: math.exp((distance - most) / scale) for size, distance in tests.items()}
    total = math.fsum(weights.values())
    return {size: weight / total for size, weight in weights.items()}


def chosen_law(
    items: Sequence[int],
    tests: Mapping[int, int],
    chosen: Mapping[int, float],
    *,
    threshold: float,
    query_scale: float,
) -> dict[Outcome, float]:
    """Chance of every outcome, given that of every size."""
    chances: dict[Outcome, float] = {}
    for size, share in chosen.items():
        needed = (threshold - tests[size]) / query_scale
        passes = float(LAWS["laplace"].above(np.array(needed)))
        for outcome, chance in ((tuple(sorted(items[:size])), passes), ((), 1.0 - passes)):
            chances[outcome] = chances.get(outcome, 0.0) + share * chance
    return chances


def sample_range(
    tape: Tape,
    counts: Sequence[int],
    *,
    sizes: tuple[int, int],
    threshold: float,
    query_scale: float,
    choice_scale: float | None,
    known: bool = True,
    choice_tape: Tape,
) -> Outcome:
    """Draw once from tapes of random words, exactly: the twin of the compiled mechanism.

    Parameters
    ----------
    tape, choice_tape : dptopk.reference.race.Tape
        The words of the test (the first is not used), and those of the choice.
    counts, sizes, threshold, query_scale, choice_scale, known
        As in `range_law`.

    Returns
    -------
    tuple of int
        The items, in item order.
    """
    items, tests = _sizes(counts, sizes, known=known)
    size = sizes[0]
    if choice_scale is not None:
        field = Field.of(list(tests.values()))
        size += race(choice_tape, field, k=1, scale=choice_scale)[0]
    (passed,) = sparse_vector.sample(
        tape, [tests[size]], threshold=threshold, threshold_scale=0.0, query_scale=query_scale
    )
    return tuple(sorted(items[:size])) if passed else ()
