"""A_OQR, readable: stable answers as they are, until T unstable ones; a baseline.

Bassily, Thakkar and Thakurta 2018 answer a stream of queries of which each has a value and a
distance to instability (`dptopk.reference.stable_release`). Distance and Laplace noise of
scale b are held against a noisy threshold w + |rho|, rho of scale b / 2. A query that passes
gets its value; one that does not gets BOT and a fresh rho, and the T-th of these ends the run.
`dptopk.top_stable` and `stable_queries` are what came after it.

THE CONSTANTS ARE OURS. The paper was not at hand: what is known of it here is what Carvalho,
Wang, Gondara and Miao 2020 say of it. So b and w are those that docs/proofs/a_oqr.md proves,
of the same form. They are not the printed ones, and no comparison with these figures
says anything of those.

What the proof finds. |rho| makes half as many moved queries pass as rho does: a threshold
that is just enough for |rho| misses delta twice over with rho, as Carvalho and others say. But
|rho| cannot be shifted below 0, and the argument of sparse vector, by which answers that are
stable cost nothing, shifts it down. With the noise of that argument epsilon fails by |rho|. What
holds instead is that stable answers cost little, as many of them in a row are unlikely
where noise could tell. `improved` has rho in place of |rho|, with sparse vector's argument.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special

from dptopk.accounting import step_epsilon
from dptopk.accounting.stability import stability_threshold
from dptopk.reference.noise import LAWS, Panels
from dptopk.reference.stable_release import Answer
from dptopk.reference.top_stable import distances

__all__ = ["Noise", "improved", "law", "naive_sample", "noise", "stable_sets"]

BOT = None
SHARE = 0.1  # of delta that pays for stable answers; the rest for those that moved
REACH = 40.0  # noise of the threshold beyond so many scales weighs e^-40


class Noise(NamedTuple):
    """The noise of a run.

    Attributes
    ----------
    threshold : float
        w.
    threshold_scale, query_scale : float
        Scales of the Laplace noises, b / 2 and b.
    absolute : bool
        Whether the threshold is raised by |rho|, or moved by rho.
    """

    threshold: float
    threshold_scale: float
    query_scale: float
    absolute: bool


def noise(*, epsilon: float, delta: float, cutoff: int, queries: int) -> Noise:
    """Return noise with |rho| that is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        What the whole run costs.
    cutoff : int
        T: so many unstable answers end it.
    queries : int
        How many queries there are at most.

    Returns
    -------
    Noise
        x is passed by a Gamma variate of shape T with chance delta / 10; x (e^(1 / (b ln 2))
        - 1) + T / b = epsilon; and exp(-w / b) / 3 is 9 delta / 10 over min(T, queries).

    Examples
    --------
    >>> from dptopk.reference import a_oqr
    >>> [round(x, 2) for x in a_oqr.noise(epsilon=1.0, delta=1e-6, cutoff=1, queries=1)[:3]]
    [319.78, 12.47, 24.94]
    """
    x = float(special.gammainccinv(cutoff, SHARE * delta))

    def excess(b: float) -> float:
        return x * math.expm1(1 / (b * math.log(2))) + cutoff / b - epsilon

    low = 1.0
    while excess(low) <= 0:
        low /= 2
    high = low
    while excess(high) > 0:
        high *= 2
    b = high if excess(high) == 0 else optimize.brentq(excess, low, high)
    tail = (1 - SHARE) * delta / min(cutoff, queries)
    return Noise(max(0.0, -b * math.log(3 * tail)), b / 2, b, True)


def improved(*, epsilon: float, delta: float, cutoff: int, queries: int) -> Noise:
    """Return noise with rho in place of |rho| that is (epsilon, delta)-DP; arguments as in `noise`.

    T runs of sparse vector with one hit each, composed.

    Examples
    --------
    >>> from dptopk.reference import a_oqr
    >>> [round(x, 2) for x in a_oqr.improved(epsilon=1.0, delta=1e-6, cutoff=1, queries=1)[:3]]
    [54.06, 2.0, 4.0]
    """
    step = step_epsilon(epsilon, cutoff, SHARE * delta, method="optimal")
    scales = {"threshold_scale": 2 / step, "query_scale": 4 / step}
    height = stability_threshold((1 - SHARE) * delta, tests=min(cutoff, queries), **scales)
    return Noise(height, absolute=False, **scales)


def law(
    answers: Sequence[Answer],
    *,
    cutoff: int,
    threshold: float,
    threshold_scale: float,
    query_scale: float,
    absolute: bool = True,
) -> dict[tuple[Any, ...], float]:
    """Chance of every outcome of a run.

    Parameters
    ----------
    answers : sequence of (value, distance), shape (n,)
        The queries', in this order.
    cutoff : int
        So many unstable answers end the run.
    threshold, threshold_scale, query_scale, absolute
        As in `Noise`.

    Returns
    -------
    dict of tuple to float
        Each outcome, values and BOT, and its probability.

    Examples
    --------
    >>> from dptopk.reference import a_oqr
    >>> chance = a_oqr.law([("ant", 0), ("bee", 9)], cutoff=2, threshold=4, threshold_scale=1.0,
    ...                    query_scale=1.0)
    >>> {outcome: round(p, 3) for outcome, p in chance.items()}
    {('ant', 'bee'): 0.005, ('ant', None): 0.0, (None, 'bee'): 0.974, (None, None): 0.022}
    """
    laplace = LAWS["laplace"]
    unit = min(threshold_scale, query_scale)
    gaps = [distance - threshold for _, distance in answers]
    reach = REACH * threshold_scale
    panels = Panels([0.0, -reach, reach, *gaps], unit)
    rho = panels.points * unit
    weight = laplace.density(rho / threshold_scale) / threshold_scale * unit
    if absolute:
        weight = np.where(rho > 0, 2 * weight, 0.0)
    passed = [laplace.above((rho - gap) / query_scale) for gap in gaps]
    failed = [laplace.below((rho - gap) / query_scale) for gap in gaps]
    done: dict[tuple[Any, ...], float] = {}
    # Outcomes so far, the chance of all that is over, and what is left of this threshold.
    open_runs: list[tuple[tuple[Any, ...], float, Any]] = [((), 1.0, weight)]
    for place, (value, _) in enumerate(answers):
        further = []
        for outcome, before, left in open_runs:
            further.append(((*outcome, value), before, left * passed[place]))
            unstable = (*outcome, BOT)
            chance = before * panels.integral(left * failed[place])
            if unstable.count(BOT) == cutoff:
                done[unstable] = chance
            else:
                further.append((unstable, chance, weight))
        open_runs = further
    done.update({outcome: before * panels.integral(left) for outcome, before, left in open_runs})
    return dict(sorted(done.items(), key=lambda pair: str(pair[0])))


def stable_sets(
    counts: Sequence[int], *, k: int, k_bar: int | None = None, known: bool = True
) -> list[Answer]:
    """Return queries for top k: the set of the top i, from k_bar (or k, alone) down to k.

    Parameters
    ----------
    counts : sequence of int, shape (items,)
        Distinct users per item.
    k, k_bar : int
        The smallest and the largest set. With k alone the top k is one query.
    known : bool
        Whether items that count 0 are there.

    Returns
    -------
    list of (tuple of int, int)
        Each set, in item order, and its distance to instability, at least 0.

    Examples
    --------
    >>> from dptopk.reference import a_oqr
    >>> a_oqr.stable_sets([9, 1, 0, 5], k=1, k_bar=2)
    [((0, 3), 3), ((0,), 3)]
    """
    items, tests = distances(counts, k if k_bar is None else k_bar, known=known)
    return [
        (tuple(sorted(items[:size])), max(0, distance)) for size, distance in tests if size >= k
    ]


def naive_sample(
    answers: Sequence[Answer],
    *,
    cutoff: int,
    draws: int,
    rng: np.random.Generator,
    **used: Any,
) -> list[tuple[Any, ...]]:
    """Draw the way it is described; a baseline for tests, not private.

    Parameters
    ----------
    answers, cutoff, **used
        As in `law`.
    draws : int
        Number of independent draws.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    list of tuple
        One outcome a draw.
    """
    noises = Noise(**{"absolute": True, **used})

    def fresh() -> float:
        rho = rng.laplace(scale=noises.threshold_scale)
        return noises.threshold + (abs(rho) if noises.absolute else rho)

    outcomes = []
    for _ in range(draws):
        outcome: list[Any] = []
        level, unstable = fresh(), 0
        for value, distance in answers:
            if unstable == cutoff:
                break
            if distance + rng.laplace(scale=noises.query_scale) > level:
                outcome.append(value)
                continue
            outcome.append(BOT)
            unstable, level = unstable + 1, fresh()
        outcomes.append(tuple(outcome))
    return outcomes
