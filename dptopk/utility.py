"""What accuracy a noise scale promises: theorems on utility, as pure functions.

Every number here is about data that is assumed, not seen: nothing is released,
and nothing costs privacy unless a gap is taken from real counts.
"""

from __future__ import annotations

import math

from dptopk._validate import integer, nonnegative, positive

__all__ = ["oneshot_recovers"]


def oneshot_recovers(*, gap: float, n_items: int, scale: float) -> float:
    """Return a lower bound of the chance that one-shot selection finds the true top k.

    Parameters
    ----------
    gap : float
        The least difference between two scores that follow each other in
        order, over all items; 0 if there are ties.
    n_items : int
        How many items there are.
    scale : float
        Scale of the noise, ``release.parameters["scale"]``, in units of the gap.

    Returns
    -------
    float
        max(0, 1 - (n_items - 1) (2 + x) exp(-x) / 4) with x = gap / scale,
        rounded down.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Notes
    -----
    Qiao, Su and Zhang 2021, Theorem 2.3: for any k, and for the largest as for
    the smallest. (2 + x) exp(-x) / 4 is the chance that independent Laplace
    noises turn round two scores a gap apart; if no two neighbours in the
    order are turned round, the set is right. With exponential noise of the same
    scale that chance is exp(-x) / 2, which is no more, so it holds there too.
    It says nothing about Gaussian noise.

    Examples
    --------
    >>> from dptopk.utility import oneshot_recovers
    >>> oneshot_recovers(gap=20.0, n_items=8_000_000, scale=1.0) > 0.9
    True
    >>> oneshot_recovers(gap=1.0, n_items=100, scale=1.0)
    0.0
    """
    gap = nonnegative("gap", gap)
    n_items = integer("n_items", n_items)
    scale = positive("scale", scale, toward=math.inf)
    if n_items == 1:
        return 1.0
    # Logarithms: the count of items and exp(-x) may each be past the range of floats. x is
    # rounded down; at x <= 1e4 the exponent is right to 1e-11.
    x = min(gap / scale, 1e4) * (1 - 2.0**-52)
    log_failure = math.log(n_items - 1) + math.log((2.0 + x) / 4.0) - x
    failure = math.exp(min(log_failure, 1.0)) * (1 + 1e-11)
    return max(0.0, math.nextafter(1.0 - failure, 0.0)) if failure < 1.0 else 0.0
