"""Which rows of events count, and for how much: the same for every source."""

from __future__ import annotations

from typing import Any, NamedTuple

from dptopk._types import Nulls
from dptopk._validate import choice, integer
from dptopk.sources.weighting import Weighting

__all__ = ["RULES", "Rules", "rules_of"]


class Rules(NamedTuple):
    """What is done with the rows, in this order.

    Attributes
    ----------
    nulls : "error" or "drop"
        What becomes of a row whose user or item is null.
    min_events : int
        A user has an item by at least so many rows.
    max_items_per_user : int or None
        Each user keeps at most this many items, see `dptopk.sources.bounds`.
    hash_key : str
        A key of the choice which.
    weighting : (int, str) or None
        Soft cap and norm, to sum weights in place of counting.
    """

    nulls: Nulls = "error"
    min_events: int = 1
    max_items_per_user: int | None = None
    hash_key: str = ""
    weighting: Weighting | None = None


RULES = Rules()


def rules_of(
    *,
    nulls: Any = "error",
    min_events: Any = 1,
    max_items_per_user: Any = None,
    hash_key: Any = "",
    weighting: Weighting | None = None,
) -> Rules:
    """Return the rules, checked.

    Raises
    ------
    TypeError, ValueError
        One of the wrong kind or value.
    """
    if max_items_per_user is not None:
        max_items_per_user = integer("max_items_per_user", max_items_per_user)
    min_events = integer("min_events", min_events)
    if not isinstance(hash_key, str):
        raise TypeError(f"hash_key must be a text, got {type(hash_key).__name__}")
    choice("nulls", nulls, ("error", "drop"))
    return Rules(nulls, min_events, max_items_per_user, hash_key, weighting)
