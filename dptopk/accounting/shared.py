"""Counts with noise of their own and one noise that they share: the least of both.

n counts all move one way, by 0 or 1, t <= D of them by 1. Own noise has variance a, the
shared one b. With beta = b / (a + n b) the move has squared length (t - beta t^2) / a in
units of the noise, which the analytic Gaussian mechanism holds at 1 / sigma^2, for its
sigma at sensitivity 1. docs/proofs/shared.md has the proof, and which beta is best.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dptopk.accounting.gaussian import gaussian_sigma
from dptopk.rounding import root_up

__all__ = ["longest_move", "shared_scales"]

# What can be drawn, as in `dptopk.discrete`.
LEAST, MOST = 2.0**-50, 2.0**50


def shared_scales(
    *, epsilon: float, delta: float, counts: int, moved: int | None = None, groups: int = 1
) -> tuple[float, float]:
    """Return standard deviations that are (epsilon, delta)-DP: each count's own, and the shared.

    Parameters
    ----------
    epsilon, delta : float
        The budget; delta > 0.
    counts : int
        How many there are, n >= 1.
    moved : int, optional
        How many of them one user moves at most; by default all.
    groups : int
        In how many such groups of counts, each with a shared noise of its own.

    Returns
    -------
    float, float
        Rounded up. Where all may move, and n is large, each count's whole noise is half of
        what independent noise takes: (sqrt(n) + 1) sigma / 2 in place of sqrt(n) sigma.

    Examples
    --------
    >>> own, shared = shared_scales(epsilon=1.0, delta=1e-6, counts=100)
    >>> round(own, 2), round(shared, 2), round(math.hypot(own, shared), 2)
    (22.15, 7.01, 23.24)
    """
    moved = counts if moved is None else min(moved, counts)
    sigma = Fraction(gaussian_sigma(epsilon=epsilon, delta=delta))
    beta = Fraction(_best_beta(counts, moved))
    own = max(LEAST, root_up(sigma**2 * groups * longest_move(beta, moved)))
    shared = root_up(Fraction(own) ** 2 * beta / (1 - counts * beta))
    if not max(own, shared) <= MOST:
        raise ValueError("epsilon is too small: the noise scale is past 2**50")
    return own, shared


def longest_move(beta: Fraction, moved: int) -> Fraction:
    """Return the largest t - beta t^2 over whole t from 1 to `moved`, exactly."""
    peak = moved if not beta else min(moved, math.floor(1 / (2 * beta)))
    tries = {t for t in (peak, peak + 1) if 1 <= t <= moved} or {1}
    return max(t - beta * t * t for t in tries)


def _best_beta(counts: int, moved: int) -> float:
    """Return the beta below 1/n of least variance; any is private."""

    def variance(beta: float) -> float:
        return float(longest_move(Fraction(beta), moved)) * (1 + beta / (1 - counts * beta))

    if counts == 1:
        return 0.0
    middle = min(moved, int((counts + math.sqrt(counts)) / 2))
    tries = [0.0]
    for t in range(max(1, middle - 2), min(moved, middle + 2) + 1):
        tries.append(1.0 / (2 * t + 1))
        tries.append((1.0 - math.sqrt((counts - t) / (t * (counts - 1.0)))) / counts)
    return min((beta for beta in tries if 0.0 <= counts * beta < 1.0), key=variance)
