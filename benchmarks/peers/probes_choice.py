"""Probes of selection and of noise."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.calls import (
    COUNTS,
    exponential,
    gumbel,
    names,
    opendp_prelude,
    opendp_top,
    refuses,
    torch_gumbel,
)
from benchmarks.peers.features import probe

HUGE = np.array([2**60, 2**60 + 1])

# ---- selection

TOP = "top k in order in one call, known domain"


@probe(TOP, "dptopk")
def _() -> bool:
    import dptopk as dp

    return list(dp.peel(COUNTS, k=2, epsilon=20.0).indices) == [0, 1]


@probe(TOP, "OpenDP")
def _() -> bool:
    return list(opendp_top(2, 0.1)(COUNTS)) == [0, 1]


@probe(TOP, "NumPy")
def _() -> bool:
    return list(gumbel(COUNTS, 0.1, 2)) == [0, 1]


@probe(TOP, "torch")
def _() -> bool:
    return list(torch_gumbel(COUNTS, 0.1, 2)) == [0, 1]


SET = "a set for less than the same set in order, pure"


@probe(SET, "dptopk")
def _() -> bool:
    """The set finds more at the same epsilon."""
    import dptopk as dp

    counts, rng = np.arange(200, 0, -2), dp.SeededRng(1)
    found = [np.mean(dp.trials(call, counts, 300, rng=rng, k=10, epsilon=1.0) < 10)
             for call in (dp.peel, dp.canonical)]  # fmt: skip
    return bool(found[1] > found[0] + 0.05)


@probe(SET, "OpenDP", "diffprivlib")
def _() -> bool:
    return names("joint", "canonical_set", "inverse_sensitivity", "subset_selection")


UNKNOWN = "unknown domain, users with any number of items"


@probe(UNKNOWN, "dptopk")
def _() -> bool:
    import dptopk as dp

    h = dp.Histogram.from_counts({"a": 900, "b": 700, "c": 1})
    return dp.limited_domain(h, k=2, epsilon=5.0, delta=1e-6).labels == ("a", "b")


@probe(UNKNOWN, "OpenDP")
def _() -> bool:
    """The threshold's map wants to know in how many items one user is."""
    opendp = opendp_prelude()
    keyed = opendp.map_domain(opendp.atom_domain(T=str), opendp.atom_domain(T="i64"))
    space = (keyed, opendp.l01inf_distance(opendp.absolute_distance(T="i64")))
    made = opendp.m.make_laplace_threshold(*space, scale=1.0, threshold=100)
    return bool(made.map((2**31 - 1, 2**31 - 1, 1))[0] < 10)


BOUNDED = "unknown domain, users with at most D items"


@probe(BOUNDED, "dptopk")
def _() -> bool:
    import dptopk as dp

    h = dp.Histogram.truncated([900, 700], ["a", "b"], next_count=1, k_bar=2, max_items_per_user=2)
    release = dp.limited_domain_laplace(h, k=2, epsilon=5.0, delta=1e-6, max_items_per_user=2)
    return release.labels == ("a", "b")


@probe(BOUNDED, "OpenDP")
def _() -> bool:
    opendp = opendp_prelude()
    keyed = opendp.map_domain(opendp.atom_domain(T=str), opendp.atom_domain(T="i64"))
    space = (keyed, opendp.l01inf_distance(opendp.absolute_distance(T="i64")))
    made = opendp.m.make_laplace_threshold(*space, scale=2.0, threshold=100)
    return set(made({"a": 900, "b": 700, "c": 1})) == {"a", "b"} and made.map((2, 2, 1))[1] < 1e-6


# ---- noise

EXACT = "a difference of 1 at counts of 2^60 is kept"


def _keeps(draw: Callable[[], int], trials: int = 2000) -> bool:
    """The larger comes with chance 0.73 (Gumbel) or 0.82 (exponential); with 0.5 if it is lost."""
    return bool(np.mean([draw() == 1 for _ in range(trials)]) > 0.65)


@probe(EXACT, "dptopk")
def _() -> bool:
    import dptopk as dp

    return _keeps(lambda: dp.peel(HUGE, k=1, epsilon=1.0).indices[0])


@probe(EXACT, "OpenDP")
def _() -> bool:
    made = opendp_top(1, 1.0)
    return _keeps(lambda: made(HUGE)[0])


@probe(EXACT, "diffprivlib")
def _() -> bool:
    return _keeps(lambda: exponential(HUGE), 500)


@probe(EXACT, "NumPy")
def _() -> bool:
    return _keeps(lambda: gumbel(HUGE, 1.0, 1)[0])


@probe(EXACT, "torch")
def _() -> bool:
    return _keeps(lambda: torch_gumbel(HUGE, 1.0, 1)[0])


SEEDED = "draws are not repeated by a global seed"


def _differs(draw: Callable[[], Any]) -> bool:
    seen = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(1)
        seen.append([int(draw()) for _ in range(60)])
    return seen[0] != seen[1]


FLAT = np.full(64, 3)


@probe(SEEDED, "dptopk")
def _() -> bool:
    import dptopk as dp

    return _differs(lambda: dp.peel(FLAT, k=1, epsilon=1.0).indices[0])


@probe(SEEDED, "OpenDP")
def _() -> bool:
    made = opendp_top(1, 1.0)
    return _differs(lambda: made(FLAT)[0])


@probe(SEEDED, "diffprivlib")
def _() -> bool:
    return _differs(lambda: exponential(FLAT))


@probe(SEEDED, "NumPy")
def _() -> bool:
    return _differs(lambda: np.argmax(FLAT + np.random.gumbel(size=FLAT.size)))


@probe(SEEDED, "torch")
def _() -> bool:
    return _differs(lambda: torch_gumbel(FLAT, 1.0, 1)[0])


NAN = "NaN scores are refused"
BAD = np.array([1.0, math.nan, 3.0])


@probe(NAN, "dptopk")
def _() -> bool:
    import dptopk as dp

    return refuses(lambda: dp.peel(BAD, k=1, epsilon=1.0))


@probe(NAN, "OpenDP")
def _() -> bool:
    made = opendp_top(1, 1.0, type_="f64")
    made(np.array([1.0, 2.0, 3.0]))  # it takes floats
    return refuses(lambda: made(BAD))


@probe(NAN, "diffprivlib")
def _() -> bool:
    return refuses(lambda: exponential(BAD))


@probe(NAN, "NumPy")
def _() -> bool:
    return refuses(lambda: gumbel(BAD, 1.0, 1))


@probe(NAN, "torch")
def _() -> bool:
    return refuses(lambda: torch_gumbel(BAD, 1.0, 1))
