"""What each user adds to their items, where users with many items add less: in any engine.

The weight of t items is the largest integer w with t w^2 <= ONE^2 soft_cap (l2) or
t w <= ONE soft_cap (l1). An engine's doubles only guess it, to within 1 however it
rounds; integers decide. So all engines come to the weights of
`dptopk.accounting.weights.weight`, and their sums are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from dptopk.accounting.weights import ONE, weight

__all__ = ["Weighting", "sum_weights", "with_weights"]

Weighting = tuple[int, str]  # soft cap and norm


def sum_weights(
    pairs: Iterable[tuple[Any, Any]], soft_cap: int, norm: str
) -> list[tuple[Any, int]]:
    """Return the items of distinct (user, item) pairs, ascending, with their sums of weights.

    Examples
    --------
    >>> pairs = {("ann", "tea"), ("ann", "jam"), ("bob", "tea")}
    >>> sum_weights(pairs, 1, "l1")
    [('jam', 524288), ('tea', 1572864)]
    """
    pairs = list(pairs)
    items_of = Counter(user for user, _ in pairs)
    known = {t: weight(t, soft_cap=soft_cap, norm=norm) for t in set(items_of.values())}
    sums: Counter[Any] = Counter()
    for user, item in pairs:
        sums[item] += known[items_of[user]]
    return sorted(sums.items())


def with_weights(pairs: Any, soft_cap: int, norm: str) -> Any:
    """Return a narwhals frame of distinct rows with columns `user`, `item`, and a `weight` each."""
    import narwhals as nw

    bound, power = (ONE * ONE * soft_cap, 2) if norm == "l2" else (ONE * soft_cap, 1)
    items = nw.col("items")
    pairs = pairs.with_columns(items=nw.len().over("user").cast(nw.Int64))
    ratio = float(bound) / items.cast(nw.Float64)
    guess = ratio.sqrt() if norm == "l2" else ratio
    pairs = pairs.with_columns(guess=guess.round(0).cast(nw.Int64))  # PyArrow casts no fraction

    def within(w: Any) -> Any:
        return (w * w if power == 2 else w) * items <= bound

    low, more = nw.col("guess"), nw.col("guess") + 1
    least = low + within(more).cast(nw.Int64) - (~within(low)).cast(nw.Int64)
    weighed = nw.when(items <= soft_cap).then(nw.lit(ONE)).otherwise(least)
    return pairs.with_columns(weight=weighed.cast(nw.Int64))
