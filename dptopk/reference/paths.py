"""Monotone lattice paths under a staircase, counted exactly: the twin of csrc/paths.c.

A path is a sequence 0 <= x_1 <= ... <= x_k of integers with x_i <= bound[i].
`rows` is the readable form, in Python integers; `count` is the fast one, from
residues modulo primes and the Chinese remainder theorem. `Paths` is what a replay
asks: pairs of doubles with their error bounds first, integers if these can't tell.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from dptopk import _core
from dptopk.reference.interval import Interval

__all__ = ["Paths", "Stair", "count", "rows"]

BITS = 200  # of a share, as an integer: more than pairs of doubles hold


class Stair(NamedTuple):
    """One stair, and the ways to get below it.

    height : int
        The values below it are 0, ..., height - 1.
    placed : int
        How many numbers must be below it.
    ways : list of int
        ``ways[i]``: how many ways there are to place exactly i of the numbers below it,
        keeping under the stairs so far.
    """

    height: int
    placed: int
    ways: list[int]


def rows(bound: Sequence[int]) -> list[Stair]:
    """Return the stairs from the lowest up; the last one's ``ways[k]`` counts the paths.

    Between two stairs g apart, m numbers can be placed in C(g + m - 1, m) ways: each step
    is the product with a lower triangular Toeplitz matrix.

    Parameters
    ----------
    bound : sequence of int, shape (k,)
        Not falling, at least 0.

    Returns
    -------
    list of Stair

    Examples
    --------
    >>> from dptopk.reference.paths import rows
    >>> [(stair.height, stair.placed, stair.ways) for stair in rows([0, 2])]
    [(1, 1, [0, 1, 1]), (3, 2, [0, 0, 3])]
    """
    k, stairs = len(bound), [Stair(0, 0, [1] + [0] * len(bound))]
    while stairs[-1].placed < k:
        below, placed, ways = stairs[-1]
        height = bound[placed] + 1
        gap, to = height - below, placed
        while to < k and bound[to] + 1 == height:
            to += 1
        takes = [1]
        for m in range(1, k - placed + 1):
            takes.append(takes[-1] * (gap + m - 1) // m)
        takes.reverse()  # takes[-1 - m]: how many ways to place m between the two
        above = [0] * to
        for j in range(to, k + 1):
            pairs = zip(ways[placed : j + 1], takes[k - j :], strict=True)
            above.append(sum(x * y for x, y in pairs if x))
        stairs.append(Stair(height, to, above))
    return stairs[1:]


class Paths:
    """The paths under a staircase, in pairs of doubles where not asked for more.

    Parameters
    ----------
    bound : sequence of int, shape (k,)
        Not falling, at least 0, below 2**52.
    """

    def __init__(self, bound: Sequence[int]):
        self.bound = bound
        self._pairs = _core.Staircase(np.asarray(bound, np.int64), "pairs", rows=True)

    @cached_property
    def heights(self) -> list[int]:
        """The heights of the stairs, from 0 up."""
        return [0, *(stair[0] for stair in self._pairs.stairs())]

    @cached_property
    def rows(self) -> list[Stair]:
        """All of `rows`, from the row above no stair up."""
        return [Stair(0, 0, [1]), *rows(self.bound)]

    def log(self, precision: int, *, exact: bool = False) -> Interval:
        """Return bounds of the logarithm of their number."""
        found = None if exact else self._pairs.count()
        if found is None:
            return Interval.exact(count(self.bound), precision).log()

        def log(number: float) -> Interval:
            return Interval.exact(number, precision).log()

        high, low, exponent, error = found
        number, slack = Fraction(high) + Fraction(low), Fraction(error)
        ends = (Interval.exact(number * (1 + sign * slack), precision).log() for sign in (-1, 1))
        total = next(ends).hull(next(ends)) - Interval.exact(exponent, precision) * log(2)
        before = 0
        for theta, stairs in itertools.groupby(self._pairs.stairs(), key=lambda stair: stair[2]):
            *_, (_, placed, *_) = stairs
            total = total - Interval.exact(placed - before, precision) * log(theta)
            before = placed
        return total

    def parts(
        self, s: int, taken: int, *, exact: bool = False
    ) -> tuple[int, list[int], int] | None:
        """Return how many of these numbers are placed where, to scale.

        Parameters
        ----------
        s : int
            A stair, from the top down, above the lowest.
        taken : int
            How many numbers are below it.
        exact : bool
            Whether to count in integers.

        Returns
        -------
        first : int
        parts : list of int
            ``parts[i - first]``: the paths that place i of them below the stair before.
        slack : int
            How far their sum, or that of the first of them, may be off; or None in
            place of all three if pairs can't tell.
        """
        if exact:
            below, gap = self.rows[s], self.heights[s + 1] - self.heights[s]
            parts = [
                below.ways[i] * math.comb(gap + taken - i - 1, taken - i)
                for i in range(below.placed, taken + 1)
            ]
            return below.placed, parts, 0
        found = self._pairs.parts(s, taken)
        if found is None:
            return None
        first, highs, lows, error = found
        shift = BITS - math.frexp(max(highs))[1]
        parts = [
            int(math.ldexp(high, shift)) + int(math.ldexp(low, shift))
            for high, low in zip(highs, lows, strict=True)
        ]
        return first, parts, math.ceil(sum(parts) * Fraction(error)) + 2 * len(parts)


def count(bound: Sequence[int]) -> int:
    """Return the number of paths.

    Parameters
    ----------
    bound : sequence of int, shape (k,)
        Not falling, at least 0, below 2**52.

    Returns
    -------
    int

    Examples
    --------
    >>> from dptopk.reference.paths import count
    >>> count([0, 2])
    3
    """
    array = np.asarray(bound, np.int64)
    most = 1 << bits(bound)
    total, modulus = 0, 1
    for prime in primes():
        if modulus > most:
            return total
        residue = _core.paths_mod(array, prime)
        total += modulus * ((residue - total) * pow(modulus, -1, prime) % prime)
        modulus *= prime
    raise AssertionError("primes never end")


def bits(bound: Sequence[int]) -> int:
    """Return a number of bits that the number of paths surely fits in, and few more.

    Give each number between two stairs a weight theta in (0, 1) that doesn't rise from
    stair to stair. A path keeps under its stairs, so its weight is at least the product
    of theta(bound[i]); and the weights of all multisets, on any path, sum up to the
    product of (1 - theta)^-gap. Their quotient is therefore no less than the number of
    paths. It is least for theta = slope / (1 + slope) along the least concave line above
    the corners of the stairs.

    Parameters
    ----------
    bound : sequence of int, shape (k,)
        As in `count`.

    Returns
    -------
    int

    Examples
    --------
    >>> from dptopk.reference.paths import bits, count
    >>> bits([5] * 10), count([5] * 10).bit_length()
    (17, 12)
    """
    # Corners (height, placed) of the least concave line above all: steepest pieces first.
    line = [(0, 0)]
    for placed, most in enumerate(bound, 1):
        corner = (int(most) + 1, placed)
        while line[-1][0] == corner[0] or (
            len(line) > 1 and not _bends(line[-2], line[-1], corner)
        ):
            line.pop()
        line.append(corner)
    log_2 = 0.0
    for (left, below), (right, placed) in itertools.pairwise(line):
        gap, run = right - left, placed - below
        log_2 += gap * math.log1p(run / gap) + run * math.log1p(gap / run)
    return math.ceil(log_2 / math.log(2) * (1 + 1e-9)) + 1  # 1e-9: what floats lose


def _bends(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> bool:
    """Tell whether the line from a to b rises more steeply than the one from b to c."""
    return (b[1] - a[1]) * (c[0] - b[0]) > (c[1] - b[1]) * (b[0] - a[0])


def primes() -> Iterator[int]:
    """Yield the primes below 2**61, from the largest down."""
    i = 0
    while True:
        yield _prime(i)
        i += 1


@cache
def _prime(i: int) -> int:
    candidate = (_prime(i - 1) if i else 2**61 + 1) - 2
    while not _is_prime(candidate):
        candidate -= 2
    return candidate


def _is_prime(n: int) -> bool:
    """Tell whether an odd n < 2**64 is prime: Miller and Rabin, with bases that suffice there."""
    if any(n % small == 0 for small in (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)):
        return False
    twos = ((n - 1) & (1 - n)).bit_length() - 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        x = pow(base, (n - 1) >> twos, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True
