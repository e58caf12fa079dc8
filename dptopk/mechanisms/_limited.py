"""What the mechanisms over a limited domain share: k_bar, and what one user can move there."""

from __future__ import annotations

from typing import Any

from dptopk._validate import integer
from dptopk.histogram import Histogram

__all__ = ["bound_of_user", "default_k_bar", "fixed_k_bar", "movable", "within"]


def default_k_bar(k: int) -> int:
    """Return the k_bar used when none is given: max(10 k, 1000).

    It depends on k alone. The threshold falls with h_(k_bar+1) and rises only
    with ln(k_bar), so more is better until the counts flatten out.
    """
    return max(10 * k, 1000)


def bound_of_user(h: Histogram, max_items_per_user: Any) -> int | None:
    """Return how many items one user has at most: as given or as counted, the smaller."""
    if max_items_per_user is None:
        return h.max_items_per_user
    given = integer("max_items_per_user", max_items_per_user)
    return given if h.max_items_per_user is None else min(given, h.max_items_per_user)


def fixed_k_bar(h: Histogram, k: int, k_bar: Any) -> int:
    """Return k_bar as given, or that of `default_k_bar` as far as the histogram goes."""
    if k_bar is None:
        return within(h, k, default_k_bar(k))
    number = h.check_k_bar(k_bar)
    if k > number:
        raise ValueError(f"k must be at most k_bar = {number}, got {k}")
    return number


def within(h: Histogram, k: int, k_bar: int) -> int:
    """Return k_bar, or where the histogram was truncated if that is less."""
    public = k_bar if h.k_bar is None else min(k_bar, h.k_bar)
    if k > public:
        raise ValueError(f"k must be at most {public}, where the histogram was truncated; got {k}")
    return public


def movable(h: Histogram, k_bar: int, max_items_per_user: int | None) -> int:
    """Return how many items one user may push into the top k_bar.

    Of a known domain no more than lie outside can move; at least 1 keeps the
    threshold finite where none does.
    """
    m = k_bar if max_items_per_user is None else min(k_bar, max_items_per_user)
    if h.n_items is not None:
        m = min(m, max(1, h.n_items - k_bar))
    return m
