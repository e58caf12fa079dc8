"""Counts to measure on: a real head and tail, in random order."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
# Gowalla check-ins by place: the real head of the 10-core set, a tail from published percentiles.
# Research sets that may not be handed on; benchmarks leave out what is not there.
SHARED = Path(os.environ.get("DPTOPK_DATA") or Path(__file__).parents[2] / "shared" / "data")
FILE = Path(__file__).with_name("gowalla_hybrid.synth.npz")


def skewed(n: int) -> Counts:
    """n counts as skewed as real ones."""
    with np.load(FILE) as data:
        counts = np.repeat(data["value"], data["multiplicity"])
    return np.random.default_rng(1).permutation(np.resize(counts, n)).astype(np.int64)


def mostly_equal(n: int) -> Counts:
    """n counts of which 98% are 1."""
    counts = skewed(n)
    counts[np.random.default_rng(3).random(n) < 0.96] = 1
    return counts
