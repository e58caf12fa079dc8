"""Monotone lattice paths under a staircase, counted exactly: the twin of csrc/paths.c.

A path is a sequence 0 <= x_1 <= ... <= x_k of integers with x_i <= bound[i].
`rows` is the readable form, in Python integers; `count` is the fast one, from
residues modulo primes and the Chinese remainder theorem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from dptopk import _core

__all__ = ["Stair", "count", "rows"]


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
    # No fewer than there are: what doubles say for certain, or all below the last bound.
    known = _core.paths(array)
    if known is not None:
        most = 1 << (int((known[0] + known[1]) / math.log(2)) + 2)
    else:
        most = math.comb(int(array[-1]) + array.size, array.size)
    total, modulus = 0, 1
    for prime in primes():
        if modulus > most:
            return total
        residue = _core.paths_mod(array, prime)
        total += modulus * ((residue - total) * pow(modulus, -1, prime) % prime)
        modulus *= prime
    raise AssertionError("primes never end")


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
