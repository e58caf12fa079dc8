"""Integer noise: drawing it, its tails, and the scale that a budget pays for.

Discrete Laplace: P(x) proportional to exp(-|x| / scale). Discrete Gaussian:
P(x) proportional to exp(-x^2 / (2 scale^2)). Draws have exactly these laws.
Tails and scales are doubles, rounded against us.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dptopk import _core
from dptopk.reference import discrete as exact
from dptopk.reference.race import Tape
from dptopk.rng import acquire, release

__all__ = ["HIGHEST", "LOWEST", "NOISES", "add_noise", "draw"]

NOISES = tuple(_core.DISCRETE)
# Scales that are drawn. Past 2^40 or so draws are slow: doubles seldom decide.
LOWEST, HIGHEST = 2.0**-50, 2.0**50
INT64_MAX = 2**63 - 1


def draw(noise: str, n: int, scale: float, rng: Any = None) -> tuple[np.ndarray, bool]:
    """Return n independent integers of a discrete law, and whether privately drawn.

    Parameters
    ----------
    noise : {"laplace", "gaussian"}
        The law.
    n : int
        How many.
    scale : float
        The scale of the Laplace law, or the sigma of the Gaussian one, from 2^-50 to 2^50;
        taken as the exact number that it is.
    rng : optional
        As in `dptopk.rng.acquire`.

    Returns
    -------
    ndarray of int64, shape (n,), and bool

    Examples
    --------
    >>> from dptopk import SeededRng
    >>> draw("laplace", 5, 2.0, SeededRng(3))
    (array([ 0,  2, -1,  1,  2]), False)
    """
    return add_noise(np.zeros(n, np.int64), noise, scale, rng)


def add_noise(
    values: np.ndarray, noise: str, scale: float, rng: Any = None
) -> tuple[np.ndarray, bool]:
    """Return values + noise as if in integers without end, held within int64 at the last.

    So what leaves depends on the noisy values alone, also at the ends of the range.

    Parameters
    ----------
    values : ndarray of int64, shape (n,)
        Any values.
    noise, scale, rng
        As in `draw`.

    Returns
    -------
    ndarray of int64, shape (n,), and bool
        The noisy values, and whether privately drawn.
    """
    if not LOWEST <= scale <= HIGHEST:
        raise ValueError(f"the noise scale must be from 2**-50 to 2**50, got {scale}")
    source = acquire(rng)
    try:
        drawn = _core.discrete(source, values.size, scale, _core.DISCRETE[noise])
        if drawn is None:
            source.rewind()
            tape = Tape(source.read, source.fresh)
            integers = exact.sample(tape, values.size, scale=scale, noise=noise)
        elif _wraps(values):
            integers = drawn.tolist()
        else:
            return values + drawn, source.private
        sums = [value + x for value, x in zip(values.tolist(), integers, strict=True)]
        held = [min(max(x, -INT64_MAX - 1), INT64_MAX) for x in sums]
        return np.array(held, dtype=np.int64), source.private
    finally:
        release(source)


def _wraps(values: np.ndarray) -> bool:
    """Tell whether a sum might leave int64; what the kernel draws is below 2^54."""
    if not values.size:
        return False
    return bool(values.max() > INT64_MAX - 2**54 or values.min() < 2**54 - INT64_MAX)
