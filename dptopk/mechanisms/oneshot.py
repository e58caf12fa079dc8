"""The k largest noisy scores as a set: noise once, a pure or an approximate theorem."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, partial
from typing import Literal, NamedTuple

from dptopk._types import Bound
from dptopk._validate import choice, integer, positive, probability
from dptopk.accounting import gaussian_sigma
from dptopk.accounting.stability import BOUNDS
from dptopk.domain import bound_of_user
from dptopk.histogram import Counts
from dptopk.mechanisms._calibrate import scale_of, share_of
from dptopk.mechanisms._plan import Plan, for_groups, plans_by_group
from dptopk.mechanisms._race import Race, plan_race
from dptopk.mechanisms._select import scores_over
from dptopk.release import Cost, Release
from dptopk.rng import Rng
from dptopk.rounding import padded, product_up, root_up

__all__ = ["Noise", "noise_for", "oneshot", "plan_oneshot"]

NOISES = ("laplace", "exponential", "gaussian")
METHODS = ("best", "pure", "approximate")
PAPER = "Qiao, Su and Zhang 2021"
# Where Theorem 2.2 holds.
LARGEST_EPSILON = 0.2
LARGEST_DELTA = 0.05
LEAST_ITEMS = 2


@for_groups
def oneshot(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float = 0.0,
    noise: Literal["laplace", "exponential", "gaussian"] = "laplace",
    method: Literal["best", "pure", "approximate"] = "best",
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    largest: bool = True,
    max_items_per_user: int | None = None,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Release:
    """Pick a set of k items over the full domain by adding noise to each score once.

    Parameters
    ----------
    counts : Histogram, Histograms or array, shape (d,)
        Users per item over a known domain. An array of floats holds scores,
        and so does one of integers with ``monotone=False``: of any sign.
    k : int
        How many items to pick, 1 <= k <= d.
    epsilon : float
        The total the release costs.
    delta : float, default 0
        The most delta it may cost. Only Theorem 2.2 and Gaussian noise use it.
    noise : {"laplace", "exponential", "gaussian"}
        Law of the noise. Gaussian noise needs `delta`, and no bound on the items
        of a user, but a small one lessens it.
    method : {"best", "pure", "approximate"}
        "pure" costs no delta; "approximate" is Theorem 2.2 (Laplace noise) or
        the Gaussian mechanism; "best" whichever adds least noise.
    sensitivity : float, default 1
        How far one user can move a score.
    monotone : bool, optional
        Whether a user moves all scores one way; otherwise the noise is doubled.
        By default counts do, and scores do not.
    largest : bool, default True
        Whether to pick the largest, or the smallest.
    max_items_per_user : int, optional
        A bound on the items whose score one user moves, known beforehand. By
        default the histogram's own bound, which it may not be below.
    bound : {"exact", "paper"}
        Whose constants: those of our proofs, or the larger ones that are printed. The
        latter use neither that scores move one way nor that the k-th is held fixed.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release
        k items, unordered: in item order, from which no rank can be read.
        ``cost.delta`` is 0 if a pure theorem adds least noise.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or
        ``method="approximate"`` outside of what Theorem 2.2 is proved for.
    UnknownDomainError
        If the items were read off the data.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: (cost.epsilon, cost.delta)-DP when one user is added or
    removed, for the SET alone, by the theorem that ``cost.theorem`` names. With
    sensitivity s the scale is the least of

    ==================== =========================== =========================
    theorem              scores that move one way    any scores
    ==================== =========================== =========================
    pure (Laplace, exp.) k s / epsilon               2 k s / epsilon
    pure, D items a user D s / epsilon (Laplace)     D s / epsilon (Laplace)
    Theorem 2.2          4 s sqrt(k L) / epsilon     8 s sqrt(k L) / epsilon
    the same, k >= 15.21 2 s sqrt(k L) / epsilon     4 s sqrt(k L) / epsilon
    L
    ==================== =========================== =========================

    where L = ln(d / delta), and Theorem 2.2 (Laplace noise) asks for epsilon <= 0.2,
    delta <= 0.05 and d >= 2; its constants are halved by a proof that holds the k-th
    noisy score fixed in place of its noise. Gaussian noise has the least standard deviation that
    is (epsilon, delta)-DP at an L2 sensitivity of s sqrt(min(D, d)) for any scores, and of
    s sqrt(t (d - t) / d), t = min(D, floor(d / 2)), for those that move one way: at most
    s sqrt(d) / 2, however many items a user has.

    Source: Qiao, Su and Zhang 2021, Theorems 2.1 and 2.2; proofs, also of the
    halved constants: docs/proofs/oneshot.md; of Gaussian noise: docs/proofs/shift.md.

    Examples
    --------
    >>> import dptopk as dp
    >>> release = dp.oneshot([3, 700, 900, 5], k=2, epsilon=2.0)
    >>> release
    <Release of 2 by oneshot: [1, 2], unordered; epsilon=2, delta=0>
    >>> round(release.parameters["scale"], 6)
    1.0
    """
    plan = plan_oneshot(
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        method=method,
        sensitivity=sensitivity,
        monotone=monotone,
        largest=largest,
        max_items_per_user=max_items_per_user,
        bound=bound,
    )
    return plan.draw(rng)


@plans_by_group
def plan_oneshot(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float = 0.0,
    noise: Literal["laplace", "exponential", "gaussian"] = "laplace",
    method: Literal["best", "pure", "approximate"] = "best",
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    largest: bool = True,
    max_items_per_user: int | None = None,
    bound: Bound = "exact",
    groups: int = 1,
) -> Plan:
    """Check a call of `oneshot`; arguments as there."""
    k = integer("k", k)
    epsilon = positive("epsilon", epsilon)
    delta = probability("delta", delta, zero=True)
    noise = choice("noise", noise, NOISES)
    method = choice("method", method, METHODS)
    bound = choice("bound", bound, BOUNDS)
    sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
    scores = scores_over(counts, "oneshot", monotone=monotone, k=k, largest=largest)
    bounding = bound_of_user if scores.histogram is None else scores.histogram.bound_of_user
    max_items_per_user = bounding(max_items_per_user)
    chosen = noise_for(
        noise=noise,
        method=method,
        k=k,
        epsilon=epsilon,
        delta=delta,
        sensitivity=sensitivity,
        monotone=scores.monotone,
        max_items_per_user=max_items_per_user,
        n_items=scores.n_items,
        bound=bound,
        groups=groups,
    )
    scale = chosen.scale
    cost = Cost(epsilon, chosen.delta, chosen.theorem)
    release = partial(
        Release,
        ordered=False,
        cost=cost,
        mechanism="oneshot",
        by_counts=scores.monotone and sensitivity <= 1.0,
        parameters={
            "k": k,
            "scale": scale,
            "noise": noise,
            "method": "approximate" if chosen.delta else "pure",
            "sensitivity": sensitivity,
            "monotone": scores.monotone,
            "largest": bool(largest),
            "max_items_per_user": max_items_per_user,
            "bound": bound,
            "n_items": scores.n_items,
        },
    )
    return plan_race(Race(k, scale, release, noise=noise, ordered=False), scores, cost)


class Noise(NamedTuple):
    """A scale, the delta it costs, and what proves it."""

    scale: float
    delta: float
    theorem: str


@lru_cache(maxsize=4096)
def noise_for(
    *,
    noise: str,
    method: str,
    k: int,
    epsilon: float,
    delta: float,
    sensitivity: float,
    monotone: bool,
    max_items_per_user: int | None,
    n_items: int,
    bound: str = "exact",
    groups: int = 1,
) -> Noise:
    """Return the least noise that some theorem allows, rounded against us.

    With several groups of one user the theorems for one share the budget, and the normal
    noise of all of them is one Gaussian mechanism.
    """
    monotone = monotone and bound == "exact"
    if noise == "gaussian":
        return _gaussian(
            method, epsilon, delta, sensitivity, monotone, max_items_per_user, n_items, groups
        )
    total = delta
    epsilon, delta = share_of(epsilon, groups, "epsilon"), share_of(delta, groups, "delta")
    options = []
    if method != "approximate":
        options.append(_by_picks(noise, k, epsilon, sensitivity, monotone))
        if noise == "laplace" and max_items_per_user is not None:
            items = min(max_items_per_user, n_items)
            scale = scale_of(epsilon, _product(items, sensitivity))
            options.append(Noise(scale, 0.0, f"Laplace mechanism, at most {items} items a user"))
    if method != "pure":
        refused = _refused(noise, epsilon, delta, n_items)
        if not refused:
            found = _by_theorem_2_2(k, epsilon, delta, sensitivity, monotone, n_items, bound)
            options.append(found._replace(delta=total))
        elif method == "approximate":
            raise ValueError(refused)
    return min(options, key=lambda option: option.scale)  # of equal ones the first, which is pure


def _by_picks(noise: str, k: int, epsilon: float, sensitivity: float, monotone: bool) -> Noise:
    moves = k if monotone else 2 * k
    theorem = f"{PAPER}, Theorem 2.1"
    if noise == "exponential":
        theorem += " for exponential noise"
    if monotone:
        theorem += ", halved for scores that move one way"
    return Noise(scale_of(epsilon, _product(moves, sensitivity)), 0.0, theorem)


def _refused(noise: str, epsilon: float, delta: float, n_items: int) -> str:
    """Say why Theorem 2.2 does not apply, or nothing if it does."""
    if noise != "laplace":
        return f"method 'approximate' needs noise 'laplace' or 'gaussian', got {noise!r}"
    if epsilon > LARGEST_EPSILON:
        return f"method 'approximate' needs epsilon <= {LARGEST_EPSILON}, got {epsilon}"
    if not 0.0 < delta <= LARGEST_DELTA:
        return f"method 'approximate' needs delta in (0, {LARGEST_DELTA}], got {delta}"
    if n_items < LEAST_ITEMS:
        return f"method 'approximate' needs at least {LEAST_ITEMS} items, got {n_items}"
    return ""


def _by_theorem_2_2(
    k: int,
    epsilon: float,
    delta: float,
    sensitivity: float,
    monotone: bool,
    n_items: int,
    bound: str,
) -> Noise:
    # Logarithms of their own: n_items / delta may be past the range of floats.
    log = padded(math.log(n_items) - math.log(delta), units=32)
    constant, theorem = 8.0, f"{PAPER}, Theorem 2.2"
    if k >= 15.21 * log and bound == "exact":
        constant = 4.0
        theorem += " with the k-th noisy score held fixed"
    if monotone:
        constant /= 2.0
    root = padded(math.sqrt(k * log), units=32)
    if monotone:
        theorem += ", halved for scores that move one way"
    return Noise(scale_of(epsilon, _product(constant * root, sensitivity)), delta, theorem)


def _gaussian(
    method: str,
    epsilon: float,
    delta: float,
    sensitivity: float,
    monotone: bool,
    max_items_per_user: int | None,
    n_items: int,
    groups: int,
) -> Noise:
    if method == "pure":
        raise ValueError("noise 'gaussian' is never pure; use method 'best' or 'approximate'")
    if delta == 0.0:
        raise ValueError("noise 'gaussian' needs delta > 0, got 0.0")
    items = n_items if max_items_per_user is None else min(max_items_per_user, n_items)
    theorem = f"Balle and Wang 2018, Theorem 8, at most {items} items a user"
    squared: int | Fraction = items
    if monotone:
        squared = centred(items, n_items)
        theorem += ", for differences of scores that move one way"
    sigma = gaussian_sigma(
        epsilon=epsilon, delta=delta, sensitivity=_product(root_up(groups * squared), sensitivity)
    )
    return Noise(sigma, delta, theorem)


def centred(items: int, n_items: int) -> Fraction:
    """Return the largest squared L2 norm of a user's 0s and 1s less their mean.

    The user has at most `items` of `n_items` items: t of them make t (n_items - t) / n_items,
    which is most at half of all. A single item moves nothing; it gets the 1 of any other.

    Examples
    --------
    >>> centred(1, 2), centred(7, 8), centred(2, 100)
    (Fraction(1, 2), Fraction(2, 1), Fraction(49, 25))
    """
    most = min(items, n_items // 2)
    return Fraction(most * (n_items - most), n_items) if most else Fraction(1)


def _product(factor: float, sensitivity: float) -> float:
    """Return factor * sensitivity, rounded up."""
    product = product_up(factor, sensitivity)
    if not math.isfinite(product):
        raise ValueError("sensitivity is too large: the noise scale is past the range of floats")
    return product
