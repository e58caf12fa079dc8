"""Which mechanism to run, with which options: decided by what is public, before any data is read.

A plain rule. Counting users is unbiased, but its noise grows with k; weighing them
favours people with few items, but its noise does not. So few items are counted
and many are weighed, and the number where that changes grows with epsilon. The figures
behind each line are in docs/choosing.md; `python -m benchmarks utility` measures them anew.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dptopk._validate import boolean, integer, positive, probability
from dptopk.accounting import gaussian_sigma, step_epsilon

__all__ = ["Choice", "choose", "default_soft_cap"]

#: Items a user may have where nobody bounds them: nearly nobody loses one, and the threshold
#: over an unknown domain rises by little.
MANY_ITEMS = 1_000_000
#: Items of a user up to which none need count less than 1.
UNBIASED = 30
#: Items that each user keeps where counts of very many items are wanted.
KEPT = 10
#: Standard deviations of noise of scale 1.
GUMBEL = math.pi / math.sqrt(6.0)
LAPLACE = math.sqrt(2.0)


class Choice(NamedTuple):
    """A mechanism by its name in the package, its options, and why in one line."""

    mechanism: str
    options: dict[str, Any]
    why: str


def choose(
    *,
    k: int,
    epsilon: float | None = None,
    delta: float = 0.0,
    known_domain: bool,
    max_items_per_user: int | None = None,
    ordered: bool = True,
    counts: bool = False,
    session: bool = False,
) -> Choice:
    """Choose a mechanism and its options by public numbers alone.

    Parameters
    ----------
    k : int
        How many items are wanted.
    epsilon : float
        The total that the selection may cost. Not needed for a session.
    delta : float, default 0
        The total delta. An unknown domain needs one.
    known_domain : bool
        Whether the items were fixed before the data was seen.
    max_items_per_user : int, optional
        A bound on the items of a user, if there is one.
    ordered : bool, default True
        Whether the items must come out in order; a set can be better.
    counts : bool, default False
        Whether noisy numbers of users are wanted too.
    session : bool, default False
        Whether a budget for many queries pays.

    Returns
    -------
    Choice

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or nothing can
        do what is asked.

    Examples
    --------
    >>> from dptopk.mechanisms.auto import choose
    >>> choose(k=10, epsilon=1, delta=1e-6, known_domain=False).mechanism
    'limited_domain'
    >>> choose(k=100, epsilon=1, delta=1e-6, known_domain=False).mechanism
    'weighted'
    """
    k = integer("k", k)
    delta = probability("delta", delta, zero=True)
    known = boolean("known_domain", known_domain)
    if max_items_per_user is not None:
        max_items_per_user = integer("max_items_per_user", max_items_per_user)
    if boolean("session", session):
        name = "peel" if known else "limited_domain"
        return Choice(name, {}, "a budget for many queries pays for its picks one by one")
    if epsilon is None:
        raise TypeError("epsilon must be given")
    epsilon = positive("epsilon", epsilon)
    if not (known or delta):
        raise ValueError("an unknown domain needs delta > 0, got 0.0")
    ordered, counts = boolean("ordered", ordered), boolean("counts", counts)
    few = (80.0 if delta else 40.0) * math.sqrt(epsilon)
    if known and not ordered and _clear(k, epsilon, delta, few):
        return Choice("canonical", {}, "as a set, few items of a known domain are found at once")
    if not counts and _weighs(k, epsilon, delta, max_items_per_user, few):
        return _weighted(k, epsilon, delta, known, max_items_per_user)
    if known:
        return _known(k, epsilon, delta, ordered)
    return _unknown(k, epsilon, max_items_per_user)


def default_soft_cap(k: int, epsilon: float, max_items_per_user: int | None = None) -> int:
    """Return the soft cap of `weighted` when none is given, from 1 to 30, or a bound up to 30.

    More of it is less bias and more noise, which a larger epsilon affords, and fewer items.
    Up to a user's bound weights are plain counts.
    """
    if max_items_per_user is not None and max_items_per_user <= UNBIASED:
        return max_items_per_user
    k, epsilon = integer("k", k), positive("epsilon", epsilon)
    return max(1, int(min(120.0 * epsilon / math.sqrt(k), UNBIASED)))


def _clear(k: int, epsilon: float, delta: float, few: float) -> bool:
    """Tell whether `canonical` finds most: few sets must be nearly as good as the top k."""
    return 1 < k <= 25.0 * epsilon and (not delta or k <= few / 2)


def _weighs(k: int, epsilon: float, delta: float, most: int | None, few: float) -> bool:
    """Tell whether weights find more than counts, whose noise grows with k."""
    if most is None or most > UNBIASED:
        return k > few
    counting = GUMBEL / step_epsilon(epsilon, k, delta)
    return _quieter(epsilon, delta, most)[0] < counting  # neither is biased


def _quieter(epsilon: float, delta: float, soft_cap: int) -> tuple[float, str]:
    """Return the lesser noise of `weighted`, its standard deviation in users, and its norm."""
    laplace = LAPLACE * soft_cap / epsilon, "l1"
    if not delta:
        return laplace
    sigma = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=math.sqrt(soft_cap))
    return min(laplace, (sigma, "l2"))


def _weighted(k: int, epsilon: float, delta: float, known: bool, most: int | None) -> Choice:
    soft_cap = default_soft_cap(k, epsilon, most)
    norm = "l2" if delta else "l1"
    if soft_cap == most:  # both are plain counts
        norm = _quieter(epsilon, delta, soft_cap)[1]
    options: dict[str, Any] = {"soft_cap": soft_cap, "norm": norm}
    if not known:
        options["max_items_per_user"] = MANY_ITEMS if most is None else most
    return Choice("weighted", options, "its noise does not grow with the number of items")


def _unknown(k: int, epsilon: float, most: int | None) -> Choice:
    if k <= 30.0 * math.sqrt(epsilon):
        return Choice("limited_domain", {}, "few items of an unknown domain")
    if k > 200.0 * math.sqrt(epsilon):
        bound = KEPT if most is None else min(most, KEPT)
        why = "counts of very many items: noise for some items of a user, and not for all"
        return Choice("restricted_normal", {"max_items_per_user": bound}, why)
    return Choice(
        "restricted_gumbel", {}, "too many items of an unknown domain for one threshold for all"
    )


def _known(k: int, epsilon: float, delta: float, ordered: bool) -> Choice:
    if delta and step_epsilon(epsilon, k, delta) > 1.25 * epsilon / k:
        return Choice("peel", {}, "items of a known domain, whose picks delta makes cheaper")
    if not ordered and k > 1:
        return Choice("oneshot", {}, "items of a known domain, as a set")
    return Choice("permute_and_flip", {}, "few items of a known domain")
