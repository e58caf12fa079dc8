"""The exact composition of epsilon-DP steps (Kairouz, Oh and Viswanath).

The worst epsilon-DP step is randomised response: loss +e with probability
e^e/(1 + e^e), else -e. Composed, the losses form finitely many atoms, and
delta(epsilon) = sum of p (1 - exp(epsilon - loss)) over atoms above epsilon.
Lemma 4.5 of Durfee and Rogers (2019) is this at epsilon = (k - 2i) e; here
epsilon and delta are continuous.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dptopk.accounting.compositions import Groups, basic
from dptopk.rounding import UNIT

_MAX_ATOMS = 1 << 20
_MIN_DELTA = 1e-300  # the probabilities of atoms that matter less may underflow

_Floats = NDArray[np.float64]


def _response_atoms(epsilon: float, count: int) -> tuple[_Floats, _Floats]:
    """Losses (count - 2 flips) e, descending, with their probabilities.

    Binomial probabilities by their ratios, outward from the mode: all terms
    positive, each ratio within 4 units, so within 8 (count + 2) units after
    normalising.
    """
    odds = math.exp(-epsilon)
    mode = int((count + 1) * odds / (1 + odds))
    flips = np.arange(count + 1, dtype=np.float64)
    weights = np.ones(count + 1)
    later = flips[mode:count]
    weights[mode + 1 :] = np.cumprod((count - later) / (later + 1) * odds)
    if mode:
        earlier = flips[mode:0:-1]
        weights[mode - 1 :: -1] = np.cumprod(earlier / (count - earlier + 1) / odds)
    return (count - 2 * flips) * epsilon, weights / weights.sum()


def _atoms(groups: Groups) -> tuple[_Floats, _Floats]:
    if math.prod(count + 1 for _, count in groups) > _MAX_ATOMS:
        raise ValueError(
            "method 'optimal' needs fewer steps or fewer distinct values of epsilon_step"
        )
    losses, weights = _response_atoms(*groups[0])
    for epsilon, count in groups[1:]:
        more_losses, more_weights = _response_atoms(epsilon, count)
        losses = np.add.outer(losses, more_losses).ravel()
        weights = np.multiply.outer(weights, more_weights).ravel()
    if len(groups) > 1:
        order = np.argsort(-losses)
        losses, weights = losses[order], weights[order]
    return losses, weights


def optimal(groups: Groups, delta: float) -> float:
    """Smallest epsilon with delta(epsilon) <= delta, rounded up.

    Assumes epsilon-DP steps, adaptively chosen. Between two atoms delta(epsilon)
    falls like a constant less a multiple of e^epsilon, hence the logarithm.
    """
    ceiling = basic(groups)
    if delta < _MIN_DELTA or math.isinf(ceiling):
        return ceiling
    losses, weights = _atoms(groups)
    steps = sum(count for _, count in groups)
    target = delta * (1 - 16 * (steps + 2) * UNIT)

    def excess(epsilon: float) -> float:
        above = np.searchsorted(-losses, -epsilon)
        return float(weights[:above] @ -np.expm1(epsilon - losses[:above]))

    if excess(0.0) <= target:
        return 0.0
    low, high = 0, int(np.count_nonzero(losses > 0.0))  # excess at losses[low] <= target
    while high - low > 1:
        middle = (low + high) // 2
        if excess(losses[middle]) <= target:
            low = middle
        else:
            high = middle
    floor = max(0.0, float(losses[high])) if high < len(losses) else 0.0
    above = np.searchsorted(-losses, -floor)
    slope = float(weights[:above] @ np.exp(floor - losses[:above]))
    if slope == 0.0:
        return ceiling
    found = floor + math.log1p((excess(floor) - target) / slope)
    return min(ceiling, found + 16 * UNIT * ceiling)
