"""Many draws of one call: what a mechanism does, seen by experiment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dptopk._validate import boolean, integer
from dptopk.histogram import Counts, Histogram, Histograms
from dptopk.mechanisms._plan import Plan, plan_of
from dptopk.mechanisms.table import MECHANISMS
from dptopk.release import Release
from dptopk.rng import SeededRng
from dptopk.sources.progress import working

__all__ = ["trials"]

TAKEN = [
    name for name, its in MECHANISMS.items() if its.domain and name != "restricted"
]  # that pick from counts


def trials(
    mechanism: Callable[..., Release],
    counts: Counts,
    size: int,
    *,
    rng: SeededRng,
    workers: int = 1,
    progress: bool = False,
    **options: Any,
) -> np.ndarray:
    """Draw from a mechanism many times: for experiments, NOT PRIVATE.

    The call is checked, calibrated and its counts put in order once. Where its draw is a
    race (`limited_domain`, `limited_domain_laplace`, `peel`, `oneshot`, `noisy_max`), all
    draws are one call of the kernel: some microseconds each. Other mechanisms draw one
    time after the other.

    Parameters
    ----------
    mechanism : function
        One that picks items from counts, such as `peel`; not `restricted` itself, but
        those that are made of it.
    counts : Histogram or array
        What it picks from.
    size : int
        How many draws, at least 0.
    rng : SeededRng
        There is no default: what is drawn so often tells the counts.
    workers : int, default 1
        How many threads share the draws of a race. It changes no pick.
    progress : bool, default False
        Whether to show a progress line on stderr, if it is a terminal and the work is long.
    **options
        The arguments of the mechanism but `rng`.

    Returns
    -------
    numpy.ndarray of int64, shape (size, k)
        The items of each draw, best first, or ascending where they come without an order; -1
        where it returned fewer than k. Items are numbered as in the counts, and those
        of an unknown domain as in ``domain_labels`` of the histogram.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, as by the mechanism.

    Notes
    -----
    **No guarantee**: nothing is charged, and one budget would pay for one draw. Draws are
    independent, each with the law of a call of the mechanism. A race of few draws reads the
    same words as a loop of calls with this `rng`; many draws are shared among sources of
    their own, which its words determine.

    Examples
    --------
    >>> import numpy as np
    >>> import dptopk as dp
    >>> picks = dp.trials(dp.peel, [9, 8, 3], 100_000, rng=dp.SeededRng(1), k=1, epsilon=1.0)
    >>> picks.shape, f"{np.mean(picks == 0):.2f}"
    ((100000, 1), '0.73')
    """
    name = getattr(mechanism, "__name__", "")
    ours = str(getattr(mechanism, "__module__", "")).startswith("dptopk.")
    if not ours or name not in TAKEN:
        raise TypeError(f"mechanism must be a function that picks from counts: {', '.join(TAKEN)}")
    if not isinstance(rng, SeededRng):
        raise TypeError(
            f"rng must be a SeededRng, as trials are never private, got {type(rng).__name__}"
        )
    if isinstance(counts, Histograms):
        raise TypeError("counts must be of one group")
    size = integer("size", size, minimum=0)
    workers = integer("workers", workers)
    progress = boolean("progress", progress)
    plan: Plan = plan_of(mechanism)(counts, **options)
    if plan.many is not None:
        with working(f"trials of {name}", progress):
            return plan.many(size, rng, workers)
    done = 0
    picks = np.full((size, _most(options.get("k", 1))), -1, np.int64)
    items_of = _numbering(counts)
    with working(f"trials of {name}", progress and (lambda: 100.0 * done / max(1, size))):
        for row in picks:
            items = items_of(plan.draw(rng))
            row[: len(items)] = items
            done += 1
    return picks


def _most(k: Any) -> int:
    """Return how many items come out at most; k may be the range of `top_stable`."""
    return int(k[-1]) if isinstance(k, tuple) else int(k)


def _numbering(counts: Counts) -> Callable[[Release], Any]:
    """Return what turns a release into numbers of items."""
    if not isinstance(counts, Histogram) or counts.known_domain:
        return lambda release: release.indices
    labels = counts.domain_labels
    assert labels is not None  # of an unknown domain
    numbers = {label: number for number, label in enumerate(labels)}
    return lambda release: [numbers[label] for label in release.labels or ()]
