"""A session, readable: queries one after the other, each chosen by what came before.

Durfee and Rogers 2019, Algorithm 2, with an analyst in place of the stream of
histograms: a function from the transcript so far to the next query, or to None
when the analyst stops. A query that the budget can't pay ends the session too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dptopk.reference import canonical, joint, limited_domain, noisy_max
from dptopk.reference.limited_domain import Outcome
from dptopk.reference.race import Tape

Transcript = tuple[Outcome, ...]


class Query(NamedTuple):
    """A call of limited_domain.

    Attributes
    ----------
    k, k_bar : int
        As there.
    known : bool
        Whether items that count 0 are there.
    private_k_bar : bool
        Whether k_bar is only the largest to choose from, privately.
    """

    k: int
    k_bar: int
    known: bool = True
    private_k_bar: bool = False

    @property
    def most(self) -> int:
        """What it may cost."""
        return self.k + self.private_k_bar

    def price(self, outcome: Outcome) -> int:
        """Return what an outcome of it costs: its length, BOT included."""
        return len(outcome) + self.private_k_bar


Analyst = Callable[[Transcript], Query | None]


class Pick(NamedTuple):
    """A call that is one bounded-range step over a known domain, without a threshold.

    Attributes
    ----------
    name : {"joint", "canonical", "noisy_max"}
        `noisy_max` with Gumbel noise.
    k : int
        How many items.
    half : bool
        Whether losses that move by 1 either way weigh half, as they must.
    """

    name: str
    k: int = 1
    half: bool = True

    @property
    def most(self) -> int:
        """What it costs."""
        return 1

    def price(self, outcome: Outcome) -> int:
        """Return what an outcome of it costs: one, however many items."""
        return 1

    def law(self, counts: Sequence[int], scale: float) -> dict[Any, float]:
        """Chance of every outcome, `scale` being 1 / epsilon_step."""
        wide = (2.0 if self.half else 1.0) * scale
        if self.name == "joint":
            return joint.law(counts, k=self.k, scale=wide)
        if self.name == "canonical":
            return canonical.law(counts, k=self.k, scale=wide)
        return noisy_max.law(counts, scale=scale, noise="gumbel")


def law_of(
    counts: Sequence[int], query: Query | Pick, *, scale: float, delta: float
) -> dict[Outcome, float]:
    """Chance of every outcome of a single query, `delta` being that of its threshold."""
    if isinstance(query, Pick):
        return query.law(counts, scale)
    if query.private_k_bar:
        return limited_domain.private_k_bar_law(
            counts, k=query.k, k_bar_max=query.k_bar, scale=scale, delta=delta, known=query.known
        )
    n_items = len(counts) if query.known else None
    m = limited_domain.movable(query.k_bar, n_items=n_items, max_items_per_user=None)
    threshold = math.log(m / delta)
    return limited_domain.law(
        counts, k=query.k, k_bar=query.k_bar, scale=scale, threshold=threshold, known=query.known
    )


def law(
    counts: Sequence[int],
    *,
    analyst: Analyst,
    k_star: int,
    calls: int,
    scale: float,
    delta: float,
) -> dict[Transcript, float]:
    """Chance of every transcript.

    Parameters
    ----------
    counts : sequence of int, shape (items,)
        Distinct users per item, the same for all queries.
    analyst : callable
        Takes the outcomes so far, returns the next query or None.
    k_star, calls : int
        The budget: outcomes, BOT included, and queries.
    scale : float
        Scale of the Gumbel noise, in users.
    delta : float
        Of the threshold of each query.

    Returns
    -------
    dict of tuple to float
        Each transcript, a tuple of outcomes, and its probability.

    Examples
    --------
    >>> from dptopk.reference import session
    >>> chance = session.law([9, 1], analyst=lambda seen: session.Query(1, 1, known=False),
    ...                      k_star=2, calls=2, scale=1.0, delta=0.01)
    >>> {transcript: round(p, 2) for transcript, p in chance.items()}
    {((0,), (0,)): 0.84, ((0,), ('BOT',)): 0.08, (('BOT',), (0,)): 0.08, (('BOT',), ('BOT',)): 0.01}
    """
    chances: dict[Transcript, float] = {}

    def follow(seen: Transcript, chance: float, outcomes: int, calls: int) -> None:
        query = analyst(seen) if outcomes > 0 and calls > 0 else None
        if query is None or query.most > outcomes:
            chances[seen] = chance
            return
        for outcome, share in law_of(counts, query, scale=scale, delta=delta).items():
            left = outcomes - query.price(outcome)
            follow((*seen, outcome), chance * share, left, calls - 1)

    follow((), 1.0, k_star, calls)
    return chances


def sample(
    tapes: Callable[[int], Tape],
    counts: Sequence[int],
    *,
    analyst: Analyst,
    k_star: int,
    calls: int,
    scale: float,
    threshold: Callable[[Query], float],
) -> Transcript:
    """Draw a transcript exactly, each query from a tape of its own.

    Parameters
    ----------
    tapes : callable
        From the number of a query, from 0, to its tape.
    counts, analyst, k_star, calls, scale
        As in `law`. The analyst asks for no private k_bar.
    threshold : callable
        From a query to ln(m / delta), in units of the scale.

    Returns
    -------
    tuple of tuple
        The outcomes.
    """
    seen: Transcript = ()
    for number in range(calls):
        query = analyst(seen) if k_star > 0 else None
        if query is None or query.most > k_star:
            break
        outcome = limited_domain.sample(
            tapes(number),
            counts,
            k=query.k,
            k_bar=query.k_bar,
            scale=scale,
            threshold=threshold(query),
            known=query.known,
        )
        seen = (*seen, outcome)
        k_star -= query.price(outcome)
    return seen
