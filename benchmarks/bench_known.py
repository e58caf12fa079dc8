"""Known domains that no array holds: figure 7 of the restricted-domain paper, and times.

The recipe of its section 8.5: a data set of many items, to which 10^8 to 10^10 items of
count 1 are added; score ratio of the exponential mechanism over the whole domain (peel) and of
the restricted domain (k_bar = 50 k), which the size does not concern; delta = 1 / (2 users).
Gowalla stands for the paper's D_3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial

import numpy as np

import dptopk as dp
from benchmarks.data import SHARED, skewed
from benchmarks.row import Row
from benchmarks.timing import medians_ms

SIZES = (0, 10**8, 10**9, 10**10)
TRIALS = 20  # the paper has 5
KS, EPSILONS = (10, 50), (0.4, 1.0)
SAID = (50, 0.4)  # where the paper has RG nearly 0.3 ahead at 10^10 items
USERS = 107_092  # of Gowalla


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield score ratios by size, where RG is ahead, and times that do not grow with it."""
    counts = _counts()
    whole = {added: cut_of(counts, added, counts.size) for added in SIZES}
    for k, epsilon in itertools.product(KS, EPSILONS):
        budget = {"k": k, "epsilon": epsilon, "delta": 1 / (2 * USERS)}
        cut = cut_of(counts, 0, 50 * k)
        rg = ratio(partial(dp.restricted_gumbel, cut, k_bar=50 * k, **budget), cut, k)  # type: ignore[arg-type]
        for added, h in whole.items():
            em = ratio(partial(dp.peel, h, **budget), h, k)  # type: ignore[arg-type]
            work = f"score ratio of EM, k={k}, epsilon {epsilon}, {added:.0e} items added"
            said = added == SIZES[-1] and (k, epsilon) == SAID
            target = "< RG - 0.1" if said else ""
            met = em < rg - 0.1 if said else None
            yield Row(work, math.nan, f"RG {rg:.3f}", None, em, target, met)
    yield from _times(counts, quick)


def cut_of(counts: np.ndarray, added: int, k_bar: int) -> dp.Histogram:
    """What an engine keeps of the counts, descending, and of so many items of count 1."""
    following = int(counts[k_bar]) if k_bar < counts.size else min(added, 1)
    return dp.Histogram.truncated(
        counts[:k_bar], np.arange(k_bar), next_count=following, k_bar=k_bar,
        n_items=counts.size + added,
    )  # fmt: skip


def _counts() -> np.ndarray:
    path = SHARED / "gowalla.synth.npz"
    if not path.exists():
        return np.sort(skewed(1_280_000))[::-1]
    with np.load(path) as data:
        return np.sort(np.repeat(data["value"], data["multiplicity"]).astype(np.int64))[::-1]


def ratio(draw: partial[dp.Release], h: dp.Histogram, k: int) -> float:
    """Mean score ratio; what was left out counts 1."""
    best, came = int(h.counts[:k].sum()), []
    for seed in range(TRIALS):
        picked = h.counts_of(np.array(draw(rng=dp.SeededRng(seed)).items, np.int64))
        came.append(int(np.maximum(picked, 1).sum()))
    return float(np.mean(came)) / best


def _times(counts: np.ndarray, quick: bool) -> Iterator[Row]:
    for name in ("peel", "oneshot", "permute_and_flip", "noisy_max"):
        options = {} if name == "noisy_max" else {"k": 10}
        calls = {
            f"{added:.0e}": partial(
                getattr(dp, name), cut_of(counts, added, 1000), epsilon=1.0, **options
            )
            for added in (0, 10**10)
        }
        ms = medians_ms(calls, repeats=30 if quick else 300)
        small, large = ms.values()
        ratio = large / small
        work = f"{name}, k=10, k_bar=1,000, 1e10 items more"
        yield Row(work, large, "without them", small, ratio, "<= 1.5 x", ratio <= 1.5)
