"""Counts that share one noise, readable: round(count + own normal noise + the shared one).

The whole number next to a sum of real normal noises, of which as many bits are drawn as it
takes: what is shown is made of the exact sums, so it costs what those cost. See
docs/proofs/shared.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from mpmath import libmp
from scipy import special

from dptopk.reference.gaussian import quantile
from dptopk.reference.interval import Interval
from dptopk.reference.race import Exponential, Tape

__all__ = ["counts_law", "naive_sample", "sample"]


def sample(tape: Tape, n: int, *, own: float, shared: float) -> list[int]:
    """Return the noise of n counts, rounded: a word for the shared one, then one a count."""
    common = Exponential(tape)
    alone = [Exponential(tape) for _ in range(n)]
    return [_rounded(each, common, own, shared) for each in alone]


def _rounded(each: Exponential, common: Exponential, own: float, shared: float) -> int:
    """Return floor(own Z + shared Z_0 + 1/2), by as many bits as it takes."""
    for level in itertools.count(1):
        z, z_0 = (quantile(variate.interval(level)) for variate in (each, common))
        bits = z.precision + 64  # so that large scales lose none
        total = _times(own, z, bits) + _times(shared, z_0, bits) + Interval.exact(
            Fraction(1, 2), bits
        )  # fmt: skip
        if any(end in (libmp.finf, libmp.fninf, libmp.fnan) for end in total.ends):
            continue
        low, high = (int(libmp.to_int(end, "f")) for end in total.ends)
        if low == high:
            return low
    raise AssertionError


def _times(scale: float, z: Interval, bits: int) -> Interval:
    return Interval.exact(scale, bits) * Interval(*z.ends, bits)


def counts_law(
    counts: Sequence[int], *, own: float, shared: float, low: int, high: int
) -> dict[tuple[int, ...], float]:
    """Chance of every noisy version of some counts, each held within [low, high].

    By the trapezoid rule over the shared noise, which is exact to 1e-13 or so where the
    shared noise is no more than 4 times the own one.

    Examples
    --------
    >>> from dptopk.reference import shared
    >>> law = shared.counts_law([0], own=0.6, shared=0.8, low=-1, high=1)
    >>> {values: round(p, 3) for values, p in law.items()}
    {(-1,): 0.309, (0,): 0.383, (1,): 0.309}
    """
    z, width = np.linspace(-9.0, 9.0, 241, retstep=True)
    weight = np.exp(-z * z / 2) * width / math.sqrt(2 * math.pi)
    ends = np.arange(low, high) + 0.5
    columns = []
    for count in counts:
        below = special.ndtr((ends[:, None] - count - shared * z) / own)
        below = np.vstack([np.zeros_like(z), below, np.ones_like(z)])
        columns.append(np.diff(below, axis=0))
    table = weight
    for column in columns:
        table = table[..., None, :] * column
    chances = table.sum(axis=-1).ravel()
    values = itertools.product(range(low, high + 1), repeat=len(columns))
    return dict(zip(values, (chances / chances.sum()).tolist(), strict=True))


def naive_sample(
    n: int, *, own: float, shared: float, draws: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw in doubles, one row a draw: what one writes with NumPy."""
    noise = own * rng.normal(size=(draws, n)) + shared * rng.normal(size=(draws, 1))
    return np.rint(noise).astype(np.int64)
