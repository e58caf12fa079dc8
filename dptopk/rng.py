"""Which source of random words a call draws from.

By default a secure one: ChaCha20 keyed by the operating system, erasing its
key as it goes. Every concurrent call has a source to itself, taken from a
free list and put back, so that no call waits for another. After a fork the
child's sources are keyed anew. Without secure random bytes there is no
release: `acquire` raises, and nothing takes the place of the secure source.

For experiments and tests a seed, a NumPy generator or a fixed tape can stand
in; what is released then is not private.
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dptopk._core import GeneratorSource, SecureSource, Source, TapeSource
from dptopk._validate import integer
from dptopk.errors import RandomnessError

__all__ = ["Rng", "SeededRng", "TapeRng", "acquire", "check_rng", "release", "token"]


class SeededRng:
    """Reproducible random words for experiments: NOT PRIVATE.

    Whoever guesses the seed can remove the noise, and the generator (PCG64) is not a
    cryptographic one. Two calls in a row draw different words; the same calls after
    the same seed draw the same ones. Threads may share it: their calls wait for each
    other.

    Parameters
    ----------
    seed : int
        At least 0.

    Raises
    ------
    TypeError
        If `seed` is not an integer.
    ValueError
        If it is negative.

    Examples
    --------
    >>> SeededRng(7)
    SeededRng(7)  # NOT PRIVATE: for experiments only
    """

    def __init__(self, seed: int) -> None:
        self.seed = integer("seed", seed, minimum=0)
        self.generator = np.random.Generator(np.random.PCG64(self.seed))

    def __repr__(self) -> str:
        return f"SeededRng({self.seed})  # NOT PRIVATE: for experiments only"


class TapeRng:
    """A fixed tape of 64-bit words for tests of kernels: NOT PRIVATE.

    Every call reads it from its first word, so equal calls give equal results;
    a call that needs more words raises `dptopk.errors.TapeEndError`.

    Parameters
    ----------
    words : iterable of int, or ndarray of uint64, shape (n,)
        Each in [0, 2**64).

    Raises
    ------
    TypeError
        If `words` is an array of another type, or holds anything but integers.
    ValueError
        If it is an array of more than one dimension or a word is out of range.

    Examples
    --------
    >>> TapeRng([1, 2, 3])
    TapeRng(3 words)  # NOT PRIVATE: for tests only
    """

    def __init__(self, words: npt.NDArray[np.uint64] | Iterable[int]) -> None:
        if isinstance(words, np.ndarray):
            if words.dtype != np.uint64:
                raise TypeError(f"words must be uint64, got {words.dtype}")
            if words.ndim != 1:
                raise ValueError(f"words must have one dimension, got {words.ndim}")
            self.words = words.copy()
        else:
            values = [operator.index(word) for word in words]
            if not all(0 <= value < 2**64 for value in values):
                raise ValueError("words must be in [0, 2**64)")
            self.words = np.array(values, dtype=np.uint64)

    def __repr__(self) -> str:
        return f"TapeRng({len(self.words)} words)  # NOT PRIVATE: for tests only"


Rng: TypeAlias = SeededRng | TapeRng | np.random.Generator

# Secure sources that no call is using. pop and append are atomic, so there is
# no lock, and a call inside a call (a callback, a finaliser) gets its own.
_free: list[Source] = []


def acquire(rng: Rng | None) -> Source:
    """Take a source for one call; give it back by `release` in a finally clause.

    Never hold one while running code of the user's: a generator that both
    would draw from is locked.

    Parameters
    ----------
    rng : None, SeededRng, numpy.random.Generator or TapeRng
        None for the secure source.

    Returns
    -------
    Source
        Nothing read of it yet. Its `private` is True for the secure source
        and for no other.

    Raises
    ------
    RandomnessError
        If the operating system has no secure random bytes.
    TypeError
        If `rng` is anything else.
    """
    source: Source
    if rng is None:
        try:
            source = _free.pop()
        except IndexError:
            source = SecureSource()
    elif isinstance(rng, SeededRng):
        source = GeneratorSource(rng.generator)
    elif isinstance(rng, np.random.Generator):
        source = GeneratorSource(rng)
    elif isinstance(rng, TapeRng):
        source = TapeSource(rng.words)
    else:
        raise TypeError(
            "rng must be None (secure), SeededRng, numpy.random.Generator or TapeRng, "
            f"got {type(rng).__name__}"
        )
    source.claim()
    return source


def release(source: Source) -> None:
    """Give a source back: the words read are wiped, whatever became of the call.

    Parameters
    ----------
    source : Source
        From `acquire`, once.

    Raises
    ------
    RuntimeError
        If it was given back before: two calls would share its words.
    """
    if source.unclaim():
        _free.append(source)


def check_rng(rng: Rng | None) -> None:
    """Raise what `acquire` would: for a bad rng, or where there are no secure random bits.

    Call it before a budget is charged. It reads no word.
    """
    release(acquire(rng))


def token(count: int) -> str:
    """Return random bytes of the system as hexadecimal digits.

    Parameters
    ----------
    count : int
        How many bytes.

    Returns
    -------
    str
        Two digits a byte.

    Raises
    ------
    RandomnessError
        If the operating system has none.
    """
    with contextlib.suppress(OSError, NotImplementedError):
        return os.urandom(count).hex()
    raise RandomnessError("the operating system has no secure random bytes")


def _after_fork_in_child() -> None:
    # A new list: the parent may have been forked amid a change of the old one.
    global _free
    _free = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
