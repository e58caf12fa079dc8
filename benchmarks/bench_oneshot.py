"""oneshot: how many of the true top its noise finds, by law, and what "best" takes.

The default must find as many as any one law did as a default, in every setting but for
chance; no law does by itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import dptopk as dp
from benchmarks.data import SHARED, skewed
from benchmarks.row import Row

SETS = ("ciao", "epinions", "fimi_retail", "gowalla_10core", "lastfm_hetrec", "ml100k")
LAWS = ("gumbel", "exponential", "laplace", "gaussian")
DRAWS = 20
SLACK = 0.03  # standard errors of a mean recall of 20 draws are below 0.01


def _counts() -> Iterator[tuple[str, np.ndarray]]:
    yield "skewed", skewed(100_000)
    for name in SETS:
        path = SHARED / f"{name}.hist.npz"
        if path.exists():
            with np.load(path) as data:
                yield name, data["counts"].astype(np.int64)


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the mean recall of each law over all data sets, and where "best" is worst."""
    data = [(name, counts, dp.Histogram(counts)) for name, counts in _counts()]
    worst: dict[str, tuple[float, str]] = dict.fromkeys(LAWS, (-1.0, ""))
    for delta, user in ((0.0, None), (0.0, 10), (1e-6, None), (1e-6, 10)):
        for epsilon, k in itertools.product((0.1, 1.0), (1, 10, 100)):
            options: dict[str, Any] = {
                "k": k,
                "epsilon": epsilon,
                "delta": delta,
                "max_items_per_user": user,
            }
            means: dict[str, list[float]] = {}
            for name, counts, h in data[: 2 if quick else None]:
                found = {law: _recall(h, counts, options, law) for law in ("best", *LAWS)}
                for law, recall in found.items():
                    means.setdefault(law, []).append(recall)
                    if law in LAWS and recall - found["best"] > worst[law][0]:
                        at = f"{name}, k={k}, epsilon {epsilon}, delta {delta}, D {user}"
                        worst[law] = recall - found["best"], at
            chosen = dp.oneshot(data[0][2], **options).parameters["noise"]
            said = ", ".join(
                f"{law} {np.mean(means[law]):.2f}" for law in LAWS if not math.isnan(means[law][0])
            )
            setting = f"k={k}, epsilon {epsilon}, delta {delta}, D {user}"
            yield Row(f"recall of best ({chosen}): {setting}", math.nan, said, None,
                      float(np.mean(means["best"])), "", None)  # fmt: skip
    for law, (more, at) in worst.items():
        was = law == "laplace"  # the default before
        yield Row(f"recall of {law} above best, at most", math.nan, at, None, more,
                  f"<= {SLACK}" if was else "", more <= SLACK if was else None)  # fmt: skip


def _recall(h: dp.Histogram, counts: np.ndarray, options: dict[str, Any], law: Any) -> float:
    """Mean share of the picks that count no less than the k-th largest; nan if refused."""
    k = options["k"]
    least = np.partition(counts, counts.size - k)[counts.size - k]
    try:
        draws = [dp.oneshot(h, noise=law, rng=dp.SeededRng(s), **options) for s in range(DRAWS)]
    except ValueError:
        return math.nan
    return float(np.mean([(counts[r.indices] >= least).mean() for r in draws]))
