"""What a call finds on a shape: the mechanism itself, drawn many times."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dptopk import _trials, framework
from dptopk.domain import private_limit
from dptopk.histogram import Histogram
from dptopk.mechanisms._plan import plan_of
from dptopk.mechanisms.table import MECHANISMS
from dptopk.planning.shapes import Shape
from dptopk.rng import SeededRng

__all__ = ["Measured", "call_on", "in_batches", "measure"]

SEED = 11


class Measured(NamedTuple):
    """Recall, score ratio and number returned of each trial: arrays of equal length."""

    recall: NDArray[np.float64]
    score_ratio: NDArray[np.float64]
    returned: NDArray[np.float64]

    def summary(self) -> dict[str, float]:
        """Return the means, and the standard error of each."""
        n, found = self.recall.size, {}
        for name, values in self._asdict().items():
            found[name] = float(np.mean(values))
            found[f"{name}_se"] = float(np.std(values, ddof=1) / math.sqrt(n)) if n > 1 else 0.0
        return found


def measure(
    shape: Shape,
    mechanism: str,
    options: dict[str, Any],
    *,
    k: int,
    epsilon: float,
    delta: float,
    known: bool,
    most: int | None = None,
    trials: int,
    seed: int = SEED,
) -> Measured:
    """Draw from a mechanism on a shape, and compare with the true top k.

    `most` is how many items each user keeps, where the options don't tell.
    Raises ValueError, or another error of the mechanism, where it refuses the call.
    """
    h, items, left = call_on(
        shape, mechanism, options, k=k, epsilon=epsilon, delta=delta, known=known, most=most
    )
    picks = _trials.trials(function_of(mechanism), h, trials, rng=SeededRng(seed), **left)
    return _compared(shape, items, picks, k)


def in_batches(shape: Shape, mechanism: str, options: dict[str, Any], **call: Any) -> bool:
    """Tell whether all trials of a call are one call of a kernel."""
    h, _, left = call_on(shape, mechanism, options, **call)
    return plan_of(function_of(mechanism))(h, **left).many is not None


def function_of(mechanism: str) -> Any:
    """Return a mechanism by its name."""
    home = framework if mechanism.startswith("restricted") else None
    if home is None:
        home = import_module(f"dptopk.mechanisms.{mechanism}")
    return getattr(home, mechanism)


def call_on(
    shape: Shape,
    mechanism: str,
    options: dict[str, Any],
    *,
    k: int,
    epsilon: float,
    delta: float,
    known: bool,
    most: int | None = None,
) -> tuple[Histogram, NDArray[np.int64], dict[str, Any]]:
    """Return a shape's histogram for a call, the item of each number, and the call's arguments."""
    its, call = MECHANISMS[mechanism], {"k": k, "epsilon": epsilon, **options}
    if its.delta != "none":
        call["delta"] = delta
    most = call.get("max_items_per_user", most)
    if "max_items_per_user" not in its.options or not (known or its.weights):
        call.pop("max_items_per_user", None)  # what makes the histogram keeps the bound
    if its.weights:
        how = {"soft_cap": call.pop("soft_cap"), "norm": call.pop("norm")}
        h, items = shape.weighed(known=known, most=most, **how)
        return h, items, call
    rows = None
    if not known and its.rows is not None:
        k_bar = call.get("k_bar")
        rows = private_limit(k) if k_bar == "private" else k_bar or its.rows(k)
    h, items = shape.counted(known=known, most=most, rows=rows)
    return h, items, call


def _compared(shape: Shape, items: NDArray[np.int64], picks: NDArray[Any], k: int) -> Measured:
    """Compare the picks of each trial, -1 where none came, with the true top k."""
    of_top = shape.true_top(k)
    best = max(1, int(shape.counts[of_top].sum()))
    came = picks >= 0
    chosen = items[np.where(came, picks, 0)] if items.size else np.zeros_like(picks)
    return Measured(
        (of_top[chosen] & came).sum(axis=1) / k,
        np.where(came, shape.counts[chosen], 0).sum(axis=1) / best,
        came.sum(axis=1).astype(np.float64),
    )
