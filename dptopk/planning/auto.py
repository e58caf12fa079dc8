"""Which mechanism to run where nobody names one: the plan for data of which nothing is said.

It is given public numbers, and no data: there is nothing that it could peek at.
`python -m benchmarks plan` measures how well it chooses; docs/choosing.md has the figures.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

from dptopk._validate import boolean, integer, positive
from dptopk.planning.candidates import Asked, candidates
from dptopk.planning.ranked import asked_of, ranked
from dptopk.planning.shapes import default_shapes
from dptopk.planning.words import WHY

__all__ = ["Choice", "choose", "default_soft_cap"]

TRIALS = 120  # of a call, on all shapes together
PICKS = 48_000  # in all of them: the more items, the surer is each trial
MOST = 2_000  # more items than this are planned for as so many
#: Past so many items the best accounting takes long. These are simulated by one that is
#: nearly as good, in a closed form; what is chosen runs with the best.
FEW = 200
ROUGHLY = {name: {"method": "zcdp"} for name in ("peel", "limited_domain")}
UNBIASED = 30  # the largest soft cap by default


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
    >>> from dptopk.planning.auto import choose
    >>> choose(k=10, epsilon=1, delta=1e-6, known_domain=False).mechanism
    'limited_domain'
    >>> choose(k=100, epsilon=1, delta=1e-6, known_domain=False).mechanism
    'weighted'
    """
    known = boolean("known_domain", known_domain)
    if boolean("session", session):
        integer("k", k)
        name = "peel" if known else "limited_domain"
        return Choice(name, {}, "a budget for many queries pays for its picks one by one")
    if epsilon is None:
        raise TypeError("epsilon must be given")
    domain = "known" if known else "unknown"
    asked = asked_of(k, epsilon, delta, domain, max_items_per_user, ordered, counts)
    chosen = _chosen(asked._replace(k=min(asked.k, MOST)))
    return chosen._replace(options=dict(chosen.options))


@lru_cache(maxsize=256)
def _chosen(asked: Asked) -> Choice:
    shapes = default_shapes(sets=not asked.ordered)
    found = ranked(
        asked,
        shapes,
        candidates(asked, quick=True),
        trials=min(TRIALS, PICKS // asked.k) // len(shapes),
        more=ROUGHLY if asked.delta and asked.k > FEW else {},
    )
    best = found[0].candidate
    why = f"{WHY[best.mechanism]}; the best of {len(found)} on dptopk's default shapes"
    return Choice(best.mechanism, best.options, why)


def default_soft_cap(k: int, epsilon: float, max_items_per_user: int | None = None) -> int:
    """Return the soft cap of `weighted` when none is given, from 1 to 30, or a bound up to 30.

    More of it is less bias and more noise, which a larger epsilon affords, and fewer items.
    Up to a user's bound weights are plain counts.
    """
    if max_items_per_user is not None and max_items_per_user <= UNBIASED:
        return max_items_per_user
    k, epsilon = integer("k", k), positive("epsilon", epsilon)
    return max(1, int(min(120.0 * epsilon / math.sqrt(k), UNBIASED)))
