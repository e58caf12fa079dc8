"""Composition of adaptively chosen bounded-range steps, certified from above.

After j steps of range e, each chosen in view of the outcomes before it, the worst delta at
epsilon = x is at most V_j(x), where V_0(x) = max(0, 1 - e^x) and

    V_j(x) = max over t of P(t) V_{j-1}(x - t) + (1 - P(t)) V_{j-1}(x - t + e),
    P(t) = (1 - e^(t-e)) / (1 - e^(-e)), 0 <= t <= e.

What is computed is an upper bound of it at multiples of a width: docs/proofs/adaptive.md shows
why both bounds hold. Stopping early is covered, and so are smaller ranges. The bound for steps
fixed in advance is lower, but not valid for peeling, where each pick depends on those before.
"""

import math

import numpy as np

from dptopk import _core
from dptopk.accounting.compositions import basic, closed_form, zcdp
from dptopk.accounting.optimal import optimal
from dptopk.rounding import padded

# Past these a closed form is used. They only ever switch from the recursion to
# a larger bound as steps, epsilon_step or 1/delta grow, so totals stay monotone.
MAX_STEPS = 4096
_MAX_RANGE = 8.0
_MAX_WORK = 3e7
_MIN_DELTA = 1e-270
_FLOOR = 1e-6  # as a share of delta


def cells_for(steps: int) -> int:
    """Cells per range: fewer for more steps, so that the error too grows with steps."""
    for most, cells in ((16, 128), (128, 64), (1024, 32), (2048, 16)):
        if steps <= most:
            return cells
    return 8


def one_step(epsilon_step: float, delta: float) -> float:
    """Solve V_1(x) = delta (step 12 of docs/proofs/adaptive.md), rounded up."""
    root = math.sqrt(delta) * math.sqrt(-math.expm1(-epsilon_step))  # the product may underflow
    if root >= 1.0:
        return epsilon_step
    total = epsilon_step + 2 * math.log1p(-root)
    # The root is within 4 units of 2^-53 of itself, and the logarithm magnifies that.
    total = padded(total, root / (1.0 - root) + epsilon_step / 4)
    return min(epsilon_step, max(0.0, total))


def recursion(epsilon_step: float, steps: int, delta: float, cells: int) -> float:
    """Smallest x with U_steps(x) <= delta; infinity where the recursion is not used."""
    if steps > MAX_STEPS or epsilon_step > _MAX_RANGE or delta < _MIN_DELTA:
        return math.inf
    floor = delta * _FLOOR
    width = epsilon_step / cells
    reach = zcdp(((epsilon_step, steps),), floor) / width
    if reach * steps > _MAX_WORK:
        return math.inf
    bounds = _core.adaptive(steps, cells, int(reach) + 2, epsilon_step, floor)
    place = int(np.argmax(bounds <= delta)) if bounds[-1] <= delta else len(bounds)
    if place == 0:
        return 0.0
    before = float(bounds[place - 1])
    after = float(bounds[place]) if place < len(bounds) else floor
    share = (before - delta) / (before - after)
    total = (place - 1) * width + math.log1p(share * math.expm1(width))
    return padded(total, units=32)


def adaptive(epsilon_step: float, steps: int, delta: float) -> float:
    """Certified total of adaptive epsilon_step-bounded-range steps.

    Beyond MAX_STEPS steps, an epsilon_step of 8, or too large a table, the least of
    the other bounds stands in.
    """
    groups = ((epsilon_step, steps),)
    if delta == 0.0:
        return basic(groups)
    if steps == 1:
        return one_step(epsilon_step, delta)
    bound = closed_form(groups, delta)
    found = recursion(epsilon_step, steps, delta, cells_for(steps))
    if math.isinf(found) and steps <= MAX_STEPS:
        found = optimal(groups, delta)
    return min(bound, found)
