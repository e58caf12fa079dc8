"""Sums of weights with noise above a threshold, readable: one draw serves every k.

A user with t items adds w_t to each (`dptopk.accounting.weights`). Items get Gaussian or
Laplace noise, over an unknown domain those that somebody has and no others, and the noisy
sums above a public threshold come out in descending order: k of them, or all. What is
shown of a noisy sum is its whole part in units of `GRID`: rounding down what is private
over the real numbers costs nothing, and as the bits of a noise are drawn until the whole
part is certain, it has exactly its law. So the noise that picks is the noise that is shown.

docs/proofs/weighted.md proves the cost. In short, a user with t items, u of which are
nobody else's, is noticed in two independent ways: one of the u comes out, or the other t-u
sums have moved by w_t. `user_cost` is exactly that, and `dptopk.accounting.weighted` finds
the scale and the threshold for which it is at most delta for every t and u.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from mpmath import libmp

from dptopk.accounting.weights import GRID
from dptopk.reference.noise import LAWS, Panels
from dptopk.reference.race import STOP, Field, Runner, Tape, runners_of

__all__ = ["GRID", "draw", "law", "naive_sample", "sample", "user_cost", "whole"]

Outcome = tuple[Any, ...]


def user_cost(
    epsilon: float, *, weight: float, items: int, alone: int, scale: float, threshold: float
) -> tuple[float, float]:
    """Return delta at epsilon when a user is added, and when removed (Gaussian noise).

    With q = P(weight + noise <= threshold) and G(x; r) the delta of a Gaussian mechanism at
    epsilon x and sensitivity over sigma r (Balle and Wang 2018, Theorem 8): 1 - q^u + q^u
    G(epsilon - u ln q; r) and G(epsilon + u ln q; r), where r = weight sqrt(t - u) / sigma.

    Parameters
    ----------
    epsilon : float
    weight : float
        What the user adds to each item.
    items, alone : int
        t, and how many of them are nobody else's: u.
    scale, threshold : float
        sigma, and what a noisy sum must exceed.

    Examples
    --------
    >>> from dptopk.reference.weighted import user_cost
    >>> [round(x, 4) for x in user_cost(1, weight=1, items=2, alone=1, scale=1, threshold=3)]
    [0.1428, 0.1312]
    """
    from scipy import special

    missed = float(special.log_ndtr((threshold - weight) / scale)) * alone  # u ln q
    ratio = weight * math.sqrt(items - alone) / scale

    def gaussian(x: float) -> float:
        if ratio == 0:
            return max(0.0, -math.expm1(x))
        half, at = ratio / 2, x / ratio
        first = math.exp(special.log_ndtr(half - at))
        return first - math.exp(x + special.log_ndtr(-half - at))

    added = -math.expm1(missed) + math.exp(missed) * gaussian(epsilon - missed)
    return added, gaussian(epsilon + missed)


def law(
    scores: Mapping[Any, float],
    *,
    k: int | None,
    scale: float,
    noise: str,
    threshold: float | None,
) -> dict[Outcome, float]:
    """Chance of every sequence of items that can come out.

    Parameters
    ----------
    scores : mapping of item to float
        The sums of weights of the items that are there.
    k : int or None
        Most items that come out; None for all above the threshold.
    scale : float
        Scale of the noise.
    noise : {"gaussian", "laplace"}
    threshold : float or None
        What a noisy sum must exceed; None for nothing.

    Returns
    -------
    dict of tuple to float
        Each sequence of items, descending, and its probability.

    Examples
    --------
    >>> from dptopk.reference import weighted
    >>> chance = weighted.law({0: 3, 1: 1}, k=1, scale=1.0, noise="gaussian", threshold=2.0)
    >>> {items: round(p, 3) for items, p in chance.items()}
    {(): 0.133, (0,): 0.815, (1,): 0.052}
    """
    if not scores:
        return {(): 1.0}
    lowest = min(scores.values()) - 100 * scale
    bar = lowest if threshold is None else max(threshold, lowest)
    panels = Panels([*scores.values(), bar], scale)
    passed = panels.points > bar / scale
    standard = LAWS[noise]
    at = {item: panels.points - score / scale for item, score in scores.items()}
    missed = {
        item: float(standard.below(np.array((bar - score) / scale)))
        for item, score in scores.items()
    }
    chances: dict[Outcome, float] = {(): math.prod(missed.values())}

    def extend(items: Outcome, ahead: npt.NDArray[np.float64]) -> None:
        """`ahead`: the chance that the items come in this order, all above a point."""
        for item in scores:
            if item in items:
                continue
            sequence = (*items, item)
            others = [other for other in scores if other not in sequence]
            density = standard.density(at[item]) * ahead * passed
            if len(sequence) == k:
                for other in others:
                    density = density * standard.below(at[other])
                chances[sequence] = panels.integral(density)
            else:
                chances[sequence] = panels.integral(density) * math.prod(
                    missed[other] for other in others
                )
                extend(sequence, panels.beyond(density))

    extend((), np.ones_like(panels.points))
    least = 0 if threshold is not None else min(len(scores), len(scores) if k is None else k)
    return {
        items: chance for items, chance in chances.items() if chance > 0.0 and len(items) >= least
    }


def whole(runner: Runner, base: int, scale: float | Fraction) -> int:
    """Return the whole part of a noisy sum in units of `GRID`, by as many bits as it takes.

    The runner's value is measured from the sum `base`, in units of the scale.
    """
    while True:
        low, high = (_floor(end, base, scale) for end in runner.interval.ends)
        if low == high and low is not None:
            return low
        runner.refine()


def _floor(end: Any, base: int, scale: float | Fraction) -> int | None:
    """Return the whole part of base + scale end, in units of `GRID`; None if infinite."""
    if end in (libmp.finf, libmp.fninf):
        return None
    sign, mantissa, exponent, _ = end
    value = Fraction(-int(mantissa) if sign else int(mantissa)) * Fraction(2) ** exponent
    return math.floor((base + value * Fraction(scale)) / GRID)


def draw(
    tape: Tape,
    field: Field,
    *,
    k: int,
    scale: float | Fraction,
    noise: str,
    values: bool,
) -> tuple[list[int], list[int]]:
    """Return the picks, in order, and on request the whole parts of their noisy sums.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    field : dptopk.reference.race.Field
        The sums; a threshold is its stopper, which is fixed.
    k : int
        Most items that come out; of `Field`'s items at most all.
    scale, noise
        As in `law`.
    values : bool
        Whether the noisy sums come out.

    Returns
    -------
    list of int, list of int
        Items, without the stopper, and whole parts: none without `values`.
    """
    base = field.scores[0] if len(field.scores) else 0
    picks, floors = [], []
    for runner in runners_of(tape, field, k=k, scale=scale, noise=noise):
        if runner.item == STOP:
            break
        picks.append(runner.item)
        if values:
            floors.append(whole(runner, int(base), scale))
    return picks, floors


def sample(
    tape: Tape,
    sums: Sequence[int],
    *,
    k: int | None,
    scale: float,
    noise: str,
    threshold: int | None,
    values: bool = False,
) -> tuple[Outcome, tuple[int, ...]]:
    """Draw once from a tape of random words, exactly: the twin of the compiled mechanism.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    sums : sequence of int
        The sums of weights of the items that are there.
    k, scale, noise, threshold
        As in `law`.
    values : bool
        Whether the noisy sums come out.

    Returns
    -------
    tuple of int, tuple of int
        The items, descending, and the whole parts of their noisy sums.
    """
    order = sorted(range(len(sums)), key=lambda i: (-sums[i], i))
    stop = None if threshold is None else (threshold, 0.0)
    field = Field([sums[i] for i in order], order, stop=stop, fixed=True)
    most = len(sums) if k is None else min(k, len(sums))
    most = max(1, most) if stop else most
    picks, floors = draw(tape, field, k=most, scale=scale, noise=noise, values=values)
    return tuple(picks), tuple(floors)


def naive_sample(
    scores: Mapping[Any, float],
    *,
    k: int | None,
    scale: float,
    noise: str,
    threshold: float | None,
    draws: int,
    rng: np.random.Generator,
) -> Iterator[Outcome]:
    """Draw the way it is usually written: noise on every sum, what is above, a sort.

    A baseline for tests and timings. Not private: double arithmetic, and a generator
    that is no secure source. Arguments as in `law`, one outcome a draw.
    """
    names = list(scores)
    standard = rng.normal if noise == "gaussian" else rng.laplace
    noisy = np.array([scores[name] for name in names]) + standard(
        scale=scale, size=(draws, len(names))
    )
    bar = -math.inf if threshold is None else threshold
    for row in noisy:
        order = [j for j in np.argsort(-row).tolist() if row[j] > bar]
        yield tuple(names[j] for j in order[:k])
