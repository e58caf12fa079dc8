"""Tapes and scores for the tests of drawn noise."""

import numpy as np

from dptopk import _core
from dptopk.reference.race import Tape

EDGES = np.array([0, 1, 2**12 - 1, 2**22, 2**32, 2**63, 2**64 - 2**32, 2**64 - 1], np.uint64)


def words(seed, n):
    """Mostly like random ones; on some tapes many at the edges."""
    rng = np.random.default_rng(seed)
    tape = rng.integers(0, 2**64, size=n, dtype=np.uint64)
    if seed % 4 == 3:
        some = rng.random(n) < 0.3
        tape[some] = rng.choice(EDGES, size=some.sum())
    return tape


def exact_tape(tape):
    """The words as a reference reads them, and further bits that are always the same."""
    fresh = np.random.default_rng(99)
    return Tape(
        _core.TapeSource(tape).read, lambda n: fresh.integers(0, 2**64, size=n, dtype=np.uint64)
    )


def random_case(seed):
    """Scores of every type and shape, with ties, and far apart; most are few."""
    rng = np.random.default_rng([seed, 1])
    n = int(rng.integers(1, 150 if seed % 6 else 4500))
    scores = rng.integers(0, int(rng.choice([1, 3, 50, 10**6, 2**60])), size=n)
    kind = seed % 5
    if kind == 1:
        scores = scores * 0.37 - 11.0
    elif kind == 2:
        scores = scores.astype(np.uint64) + np.uint64(2**63)
    elif kind == 3:
        scores = (scores % 100).astype(np.int8)[::-1]
    elif kind == 4:
        scores = scores.astype(np.float32)
    k = int(rng.integers(1, 1 + n if n < 150 else 30))
    return scores, {"k": k, "scale": float(rng.choice([0.5, 7.3, 1e4]))}
