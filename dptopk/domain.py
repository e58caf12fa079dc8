"""Three rules, each in one place: which items take part, how many one user moves, their labels.

Plain numbers in, plain numbers out. `limit` is where a histogram was truncated,
`n_items` the size of a known domain; None where there is none. All of this is
public, so messages may show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dptopk._validate import integer

__all__ = [
    "bound_of_user",
    "checked_k_bar",
    "default_k_bar",
    "k_bar_of",
    "labels_at",
    "movable",
    "private_limit",
    "restricted_k_bar",
]


def default_k_bar(k: int) -> int:
    """Return the k_bar of a limited domain when none is given: max(10 k, 1000).

    It depends on k alone. The threshold falls with h_(k_bar+1) and rises only
    with ln(k_bar), so more is better until the counts flatten out.
    """
    return max(10 * k, 1000)


def private_limit(k: int) -> int:
    """Return the largest k_bar that ``k_bar="private"`` may choose.

    10 default_k_bar(k), but not past 100,000 or, if that is more, 2 k: each
    k_bar there is to choose from costs a random word.
    """
    return min(10 * default_k_bar(k), max(100_000, 2 * k))


def restricted_k_bar(k: int) -> int:
    """Return the k_bar of a restricted domain when none is given: max(50 k, 1000).

    The tests don't depend on k_bar, and the cut they hold the picks against falls with it:
    the paper advises a large multiple of k, such as 50 or 100.
    """
    return max(50 * k, 1000)


def checked_k_bar(k_bar: Any, *, limit: int | None) -> int:
    """Return k_bar as given, if the histogram holds enough for it."""
    number = integer("k_bar", k_bar)
    if limit is not None and number > limit:
        raise ValueError(
            f"k_bar must be at most {limit}, where the histogram was truncated; got {number}"
        )
    return number


def k_bar_of(
    k: int, k_bar: Any, *, default: int, limit: int | None, n_items: int | None = None
) -> int:
    """Return how many of the largest counts take part: as given, or the default.

    The default goes no further than where the histogram was truncated. Give
    `n_items` where items that are missing can't take part: k_bar is then no
    more than there are.
    """
    if k_bar is None:
        number = default if limit is None else min(default, limit)
        if k > number:
            raise ValueError(
                f"k must be at most {number}, where the histogram was truncated; got {k}"
            )
    else:
        number = checked_k_bar(k_bar, limit=limit)
    if n_items is not None:
        number = min(number, n_items)
    if k > number:
        raise ValueError(f"k must be at most k_bar = {number}, got {k}")
    return number


def bound_of_user(given: Any, known: int | None = None, *, counted: bool = False) -> int | None:
    """Return how many items one user has at most, or None if nothing bounds them.

    `known` is what each user of the histogram was cut to, or its maker vouched for. If
    the given bound is larger, it is true as well, and the smaller one is used. If it is
    smaller, it is refused: the counts may hold users who have more.

    Where nothing is known of counts that the caller brought, the given bound is taken at
    its word: it can be true by nature only. Where the events were `counted` here they
    could have been cut, and were not: it is refused.

    Examples
    --------
    >>> bound_of_user(5, 2), bound_of_user(None, 2), bound_of_user(5, None)
    (2, 2, 5)
    >>> bound_of_user(1, 2)
    Traceback (most recent call last):
    ValueError: max_items_per_user must be at least 2, which the histogram was bounded by; got 1
    """
    if given is None:
        return known
    bound = integer("max_items_per_user", given)
    if known is None:
        if counted:
            raise ValueError(
                f"max_items_per_user={bound} is claimed of events that were not cut to it: give "
                "it to Histogram.from_events, which cuts them, with bounded_by_nature=True if "
                "nobody can have more"
            )
        return bound
    if bound < known:
        raise ValueError(
            f"max_items_per_user must be at least {known}, which the histogram was bounded by; "
            f"got {bound}"
        )
    return known


def movable(k_bar: int, *, n_items: int | None, max_items_per_user: int | None) -> int:
    """Return how many items one user may push into the top k_bar.

    In a known domain only the items outside the top k_bar can move in. It is at least
    1, which keeps the threshold finite where there are none.
    """
    m = k_bar if max_items_per_user is None else min(k_bar, max_items_per_user)
    return m if n_items is None else min(m, max(1, n_items - k_bar))


def labels_at(
    labels: Sequence[Any] | np.ndarray | None, items: np.ndarray
) -> tuple[Any, ...] | None:
    """Return the labels of some items, each of the type it was given in; None if there are none.

    Only numbers, booleans and texts become Python's own: other kinds of an
    array, such as dates, would turn into integers.
    """
    if labels is None:
        return None
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iufbU":
        return tuple(labels[items].tolist())
    return tuple(labels[i] for i in items.tolist())
