"""The exhaustive privacy check: every small histogram against every neighbour.

A neighbour has one user more, who adds 1 to any non-empty set of items; or, for
scores that are not monotone, any scores moved by 1, each up or down. The
law of a mechanism is tabulated once per histogram (rows) over all outcomes
(columns); a claim is then a few array operations per set of items, both ways.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = tuple[int, ...]
Outcome = Any  # hashable; tuples of item indices in this library
Law = Callable[[Counts], Mapping[Any, float]]
Array = npt.NDArray[np.float64]

# Laws are sums of a few dozen doubles: a violation is real above these.
RELATIVE = 1e-9
ABSOLUTE = 1e-13  # and never more than a tenth of what is claimed


@dataclass(frozen=True)
class Claim:
    """What a mechanism promises on every pair of neighbours.

    Parameters
    ----------
    epsilon : float or callable
        The bound on the privacy loss. A callable takes an outcome and returns the bound
        for it: a price that depends on what came out (pay-what-you-get).
    delta : float
        What the outcomes beyond that bound may weigh: sum of max(0, P - exp(epsilon) Q).
    attains : float
        How much of the claim the worst pair must reach at least, as a fraction (0: no
        demand): shows that a claim is tight, and that a check has teeth.
    """

    epsilon: float | Callable[[Outcome], float]
    delta: float = 0.0
    attains: float = 0.0


@dataclass(frozen=True)
class Worst:
    """The worst pair of neighbours for one claim."""

    delta: float  #: largest hockey stick
    loss: float  #: largest ratio of privacy loss to epsilon, over single outcomes
    counts: Counts  #: where: the histogram whose outcomes are too likely ...
    neighbour: Counts  #: ... compared with this one


def hockey_stick(p: npt.ArrayLike, q: npt.ArrayLike, epsilon: float | npt.ArrayLike) -> Array:
    """Sum over outcomes (last axis) of max(0, p - exp(epsilon) q).

    Parameters
    ----------
    p, q : array_like of float, shape (..., outcomes)
        Two laws on the same outcomes.
    epsilon : float or array_like, shape (outcomes,)
        The loss that is allowed.

    Returns
    -------
    ndarray of float64, shape (...)
        The least delta with which p is epsilon-close to q.

    Examples
    --------
    >>> import math
    >>> from dptopk.verification.privacy import hockey_stick
    >>> round(float(hockey_stick([0.75, 0.25], [0.25, 0.75], math.log(2))), 3)
    0.25
    """
    excess = np.asarray(p, dtype=float) - np.exp(epsilon) * np.asarray(q, dtype=float)
    return np.asarray(np.maximum(excess, 0.0).sum(axis=-1))


def prices(claim: Claim, outcomes: Sequence[Outcome]) -> Array:
    """Return what the claim allows each outcome to lose."""
    if callable(claim.epsilon):
        return np.array([claim.epsilon(outcome) for outcome in outcomes])
    return np.full(len(outcomes), float(claim.epsilon))


@dataclass(frozen=True)
class Table:
    """The laws of all histograms of a small domain.

    Parameters
    ----------
    law : callable
        Takes a tuple of counts, returns {outcome: probability}.
    items, max_count : int
        All histograms of so many items with counts 0, ..., max_count; their larger
        neighbours may count one more.
    max_items_per_user : int or None
        Most items that one user adds to.
    monotone : bool
        False: a neighbour moves every score by -1, 0 or 1; all pairs of histograms
        with counts 0, ..., max_count + 1.
    user : callable, optional
        Whether one user may have these items; by default any.
    """

    law: Law
    items: int = 4
    max_count: int = 3
    max_items_per_user: int | None = None
    monotone: bool = True
    user: Callable[[tuple[int, ...]], bool] | None = None

    @cached_property
    def most_items(self) -> int:
        """Most items of one user, as a number."""
        return min(self.items, self.max_items_per_user or self.items)

    @cached_property
    def histograms(self) -> list[Counts]:
        """All histograms and neighbours: the digits of the row's number, base max_count + 2."""
        return list(itertools.product(range(self.max_count + 2), repeat=self.items))

    @cached_property
    def _laws(self) -> tuple[list[Hashable], Array]:
        columns: dict[Hashable, int] = {}
        cells: list[tuple[int, int, float]] = []
        for row, counts in enumerate(self.histograms):
            if self.monotone and counts.count(self.max_count + 1) > self.most_items:
                continue  # no pair leads here
            chances = self.law(counts)
            _require_law(chances, counts)
            for outcome, chance in chances.items():
                cells.append((row, columns.setdefault(outcome, len(columns)), chance))
        table = np.zeros((len(self.histograms), len(columns)))
        rows, places, chances_ = zip(*cells, strict=True)
        table[list(rows), list(places)] = chances_
        return list(columns), table

    @property
    def outcomes(self) -> list[Hashable]:
        """Every outcome that some histogram can have."""
        return self._laws[0]

    def pairs(self) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Rows (p, q) of all neighbours, one block per set of items and direction."""
        counts = np.array(self.histograms)
        if not self.monotone:
            yield from self._score_pairs(counts)
            return
        small = np.flatnonzero((counts <= self.max_count).all(axis=1))
        radix = (self.max_count + 2) ** np.arange(self.items - 1, -1, -1)
        for size in range(1, self.most_items + 1):
            for user in itertools.combinations(range(self.items), size):
                if self.user is not None and not self.user(user):
                    continue
                large = small + radix[list(user)].sum()
                yield small, large
                yield large, small

    def _score_pairs(
        self, scores: npt.NDArray[np.int64]
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Rows (p, q) where any scores move by 1 each way; the moves come with their opposites."""
        top = self.max_count + 1
        radix = (top + 1) ** np.arange(self.items - 1, -1, -1)
        for move in map(np.array, itertools.product((-1, 0, 1), repeat=self.items)):
            if 0 < np.count_nonzero(move) <= self.most_items:
                moved = scores + move
                rows = np.flatnonzero(((moved >= 0) & (moved <= top)).all(axis=1))
                yield rows, rows + int(radix @ move)

    def worst(self, claim: Claim) -> Worst:
        """Look at every pair of neighbours in both directions."""
        outcomes, table = self._laws
        price = prices(claim, outcomes)
        pure = claim.delta == 0
        delta = loss = 0.0
        where, most = (0, 0), -1.0
        for p, q in self.pairs():
            sticks = hockey_stick(table[p], table[q], price)
            losses = losses_of(table[p], table[q], price)
            delta, loss = max(delta, float(sticks.max())), max(loss, float(losses.max()))
            badness = losses if pure else sticks
            i = int(badness.argmax())
            if badness[i] > most:
                most, where = float(badness[i]), (int(p[i]), int(q[i]))
        return Worst(delta, loss, self.histograms[where[0]], self.histograms[where[1]])


def holds(claim: Claim, worst: Worst) -> bool:
    """Whether the worst pair keeps the promise.

    A pure claim is judged by single outcomes, so that a rare outcome counts as much as a
    frequent one; an approximate one by the hockey stick.
    """
    if claim.delta == 0:
        return worst.loss <= 1 + RELATIVE
    return within(worst.delta, claim.delta)


def within(found: float, claimed: float) -> bool:
    """Whether a delta is what was claimed, up to rounding: small claims get little of it."""
    return found <= claimed * (1 + RELATIVE) + min(ABSOLUTE, claimed / 10)


def tightness(claim: Claim, worst: Worst) -> float:
    """How much of the claim the worst pair uses: 1 is all of it."""
    return worst.loss if claim.delta == 0 else worst.delta / claim.delta


def losses_of(p: Array, q: Array, price: Array) -> Array:
    """Row by row, the largest ln(p / q) / price; impossible against possible is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.where(p > 0, np.log(p) - np.log(q), 0.0)
        share = np.where(loss > ABSOLUTE, loss / price, 0.0)
    return np.asarray(share.max(axis=-1))


def _require_law(chances: Mapping[Any, float], counts: Counts) -> None:
    values = list(chances.values())
    if not all(math.isfinite(p) and p >= 0 for p in values):
        raise ValueError(f"law({counts}) has a probability that is negative or not finite")
    if abs(math.fsum(values) - 1) > 1e-9:
        raise ValueError(f"law({counts}) sums to {math.fsum(values):.12g}, not to 1")
