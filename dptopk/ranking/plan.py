"""What is fixed of a private ranking before any outcome is looked at: above all its noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

from dptopk._validate import choice, integer, positive, probability
from dptopk.accounting.stability import BOUNDS
from dptopk.discrete import laplace_scale
from dptopk.errors import StatementError
from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms._set_noise import Noise, noise_for
from dptopk.ranking.table import MOST_TOTAL
from dptopk.release import Cost
from dptopk.rounding import up

__all__ = ["METHODS", "Plan", "accuracy", "calibrate", "largest_rho"]

METHODS = ("laplace", "pure", "approximate")
PAPER = "Qiao, Su and Zhang 2021, "
OURS = "docs/proofs/ranking.md, "
# What a user's comparisons move, in units of the distribution.
SENSITIVITY = "2{} (1 - restart) / (d L (1 - (1 - restart) rho)) (Seneta 1988)"
USER = ", M = {} comparisons of any one item a user"
COARSE = 2**12  # the grid adds at most this part to the noise
FINEST = 10**15  # grids that doubles resolve


class Plan(NamedTuple):
    """What is fixed before any outcome is looked at.

    rho : bound of the ergodicity coefficient, 1.0 with restarts alone
    sensitivity : L1 distance of two distributions, without the error of computing them
    tolerance : how far one step may move the distribution as computed
    grid : units of noisy scores in 1
    scale : noise in these units; of the other methods in units of the distribution
    """

    k: int
    epsilon: float
    delta: float
    degree: int
    comparisons_per_pair: int
    rho: float
    restart: float
    method: Any  # one of METHODS
    bound: Any  # one of BOUNDS
    sensitivity: float
    tolerance: float
    grid: int
    scale: float
    widened: float  # sensitivity with the error of computing them
    max_comparisons_per_item: int
    cost: Cost


def calibrate(
    n_items: int,
    *,
    complete: bool,
    k: Any,
    epsilon: Any,
    delta: Any,
    degree: Any,
    comparisons_per_pair: Any,
    rho: Any,
    restart: Any,
    method: Any,
    bound: Any = "exact",
    max_comparisons_per_item: Any = 1,
) -> Plan:
    """Check what was asked for and return the noise that pays for it."""
    k = integer("k", k)
    epsilon = positive("epsilon", epsilon)
    delta = probability("delta", delta, zero=True)
    degree = integer("degree", degree)
    comparisons = integer("comparisons_per_pair", comparisons_per_pair)
    restart = probability("restart", restart, zero=True)
    method = choice("method", method, METHODS)
    bound = choice("bound", bound, BOUNDS)
    most = integer("max_comparisons_per_item", max_comparisons_per_item)
    if most > degree * comparisons:
        raise ValueError(
            "max_comparisons_per_item must be at most degree times comparisons_per_pair = "
            f"{degree * comparisons}, got {most}"
        )
    slowest = largest_rho(degree) if rho is None and complete else Fraction(1)
    if rho is not None:
        slowest = Fraction(_rho(rho))
    if k > n_items:
        raise ValueError(f"k must be at most the number of items, {n_items}; got {k}")
    if degree * comparisons > MOST_TOTAL:
        raise ValueError("degree times comparisons_per_pair must be at most 2**52")
    stays = 1 - Fraction(restart)
    gap = 1 - stays * slowest
    if gap <= 0:
        raise StatementError(
            "without rho or restart every two items must have been compared: otherwise no "
            "bound below 1 holds whatever the outcomes"
        )
    sensitivity = most * 2 * stays / (degree * comparisons * gap)
    rounding, tolerance = accuracy(n_items, degree, comparisons)
    error = (Fraction(tolerance) * (1 + Fraction(1, 2**10)) + rounding) / gap
    error += Fraction(n_items + 2, 2**53)
    widened = sensitivity + 2 * error
    grid = 10
    while grid < FINEST and grid * sensitivity < n_items * COARSE:
        grid *= 10
    by_user = USER.format(most) if most > 1 else ""
    if method == "laplace":
        moved = math.ceil(grid * (widened + Fraction(1, 2**51))) + n_items
        scale = laplace_scale(epsilon=epsilon, moved=moved)
        moves = SENSITIVITY.format(" M" if most > 1 else "")
        theorem = f"Laplace mechanism on the stationary distribution, L1 sensitivity {moves}"
        cost = Cost(epsilon, 0.0, theorem + by_user)
    else:
        noise = _of_set(
            method, bound, k=k, epsilon=epsilon, delta=delta, n_items=n_items,
            whole=widened, entry=sensitivity / 2 + 2 * error,
        )  # fmt: skip
        scale, cost = noise.scale, Cost(epsilon, noise.delta, noise.theorem + by_user)
    return Plan(
        k, epsilon, delta, degree, comparisons, up(slowest), restart, method, bound,
        up(sensitivity), tolerance, grid, scale, up(widened), most, cost,
    )  # fmt: skip


def _of_set(
    method: str,
    bound: str,
    *,
    k: int,
    epsilon: float,
    delta: float,
    n_items: int,
    whole: Fraction,
    entry: Fraction,
) -> Noise:
    """Return the noise of a set: by how far all scores move together, or each of them.

    What is printed takes the former for the latter.
    """
    if method == "pure" and bound == "exact":
        return Noise("laplace", scale_of(epsilon, up(whole)), 0.0, f"{OURS}13")
    found = noise_for(
        noise="laplace", method=method, k=k, epsilon=epsilon, delta=delta,
        sensitivity=up(whole if bound == "paper" else entry), monotone=False,
        max_items_per_user=None, n_items=n_items, bound=bound,
    )  # fmt: skip
    if bound == "exact":
        return found._replace(theorem=f"{OURS}14 and 15, by {found.theorem}")
    if method == "approximate":
        by_set = found.theorem.removeprefix(PAPER)
        return found._replace(theorem=f"{PAPER}Theorem 3.5, by {by_set}")
    return found


def accuracy(n_items: int, degree: int, comparisons_per_pair: int) -> tuple[Fraction, float]:
    """Return how much roundings can hide of a step's L1 distance, and what it may be.

    A step adds up at most m = min(degree, n - 1) + 1 products of entries, each
    entry and product rounded once, and mixes in the restart: the roundings of
    all states together are below (m + 8) 2^-52 of the sum, which is 1. Both are
    public. What a distribution is from the true one is at most its step over 1 - rho.
    """
    rounding = Fraction(min(degree, n_items) + 16, 2**51)
    allowed = max(4 * rounding, Fraction(1, 2**16 * degree * comparisons_per_pair))
    return rounding, float(allowed)


def _rho(value: Any) -> float:
    """Return a stated rho, rounded up."""
    zero = type(value) in (int, float) and value == 0
    rho = 0.0 if zero else positive("rho", value, toward=math.inf)
    if rho >= 1.0:
        raise ValueError(f"rho must be in [0, 1), got {value}")
    return rho


def largest_rho(degree: int) -> Fraction:
    """Return the ergodicity coefficient that no outcomes of a complete graph pass."""
    return 1 - Fraction(1, degree)
