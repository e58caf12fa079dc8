"""Composition of adaptively chosen bounded-range steps, certified from above.

A step of range e is dominated by a two-point loss: t with probability
P(t) = (1 - e^(t-e)) / (1 - e^(-e)), else t - e, for some t in [0, e]: the
hockey stick is convex in exp(-loss), and exp(-loss) has mean 1. So after j
steps, each chosen in view of the outcomes before it, the worst delta at
epsilon = x is V_j(x), where V_0(x) = max(0, 1 - e^x) and

    V_j(x) = max over t of P(t) V_{j-1}(x - t) + (1 - P(t)) V_{j-1}(x - t + e).

What is computed is an upper bound U_j of V_j at multiples of h = e/m.

1. As a function of y = e^x, V_j is convex (V_0 is, and scaling of y, mixtures
   and maxima keep it), does not increase, and lies in [0, 1]. So the line in y
   between two upper bounds at neighbouring places is an upper bound between
   them. The error of a step is O(h^2), as V_j is smooth but for its kinks.
2. x - t and x - t + e differ by m places: as t moves through a cell of width
   h, both move through one cell each. There, with z = e^t, the objective is
   A + B z + C/z. Let w in [0, 1] run over the cell with 1 + w (e^h - 1) = s
   proportional to 1/z. Then the objective is the chord in w of its end values
   plus K w (1-w)/s, where K is the fall of P across the cell times
   (e^h - 1) gap + bend; gap is the first value function less the second at the
   upper t, bend the rise of the first from lower to upper t less that of the
   second. As s >= 1, a parabola bounds it, with its peak in closed form. So
   U_j(x) is at least the supremum over all t, not only over a grid.
   The same argument on a block of cells gives a bound by which most blocks are
   skipped.
3. Exchanging the neighbours turns losses {t, t-e} into {e-t, -t}, again a
   step of range e. Hence V_j(-x) = 1 - e^(-x) + e^(-x) V_j(x), and only
   x >= 0 is stored.
4. Past the last stored place V_j is at most a floor v, and U_j is never set
   below it. The recursion is monotone and commutes with adding a constant,
   so U_j exceeds what v = 0 gives by at most v.
5. V_1(x) = (1 - e^((x-e)/2))^2 / (1 - e^(-e)) on [0, e]: the objective is
   P(t) (1 - e^(x-t)), largest at t = (x+e)/2. The recursion starts there.
6. Rounding: the weights come from expm1 and all sums that matter have positive
   terms, so a new value is within 32 units of 2^-53 and is raised by 64. Only
   `bend` subtracts; its error is at most 4 units of the larger value at the
   lower end, and 8 are added.

Stopping early is covered: t = 0 has P = 1, a step without loss. A smaller
range is covered too, being a special case. The bound for steps fixed in
advance is lower and is not valid for peeling, where each pick depends on those
before.
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
    """Solve V_1(x) = delta (point 5 above), rounded up."""
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
