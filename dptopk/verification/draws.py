"""Public functions as samplers, and what several entries need to call one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dptopk.histogram import Histogram
from dptopk.reference.limited_domain import BOT
from dptopk.release import Cost, Release
from dptopk.rng import SeededRng
from dptopk.verification.bounded_range import composed_delta
from dptopk.verification.privacy import RELATIVE, Counts, Outcome

GRID = 400  # places of a step, where costs are composed
Covers = Callable[[Cost], bool]  # whether a cost is no less than what was proved


def at_least(epsilon: float, delta: float = 0.0) -> Covers:
    """Tell whether a cost is (epsilon, delta) or more."""
    low = 1 - RELATIVE
    return lambda cost: cost.epsilon >= low * epsilon and cost.delta >= low * delta


def steps(number: int, epsilon_step: float, delta: float = 0.0) -> Covers:
    """Tell whether a cost covers so many bounded-range steps, and `delta` besides."""

    def covers(cost: Cost) -> bool:
        # From below: less what the recursion adds to a step, and a place of its grid on.
        cell = epsilon_step / GRID
        needed = composed_delta(
            cost.epsilon + cell, epsilon_step=epsilon_step - cell, steps=number, grid=GRID
        )
        return cost.delta >= (1 - RELATIVE) * (needed + delta)

    return covers


def histogram_of(counts: Counts, *, known: bool, k_bar: int = 0) -> Histogram:
    """Return a known domain, or the rows that an engine would return of an unknown one.

    The LIMIT of the rows is k_bar, or the number of items where that is more.
    """
    if known:
        return Histogram(np.asarray(counts))
    rows = sorted((-count, i) for i, count in enumerate(counts) if count > 0)
    return Histogram.truncated(
        [-count for count, _ in rows],
        [i for _, i in rows],
        next_count=0,
        k_bar=max(len(counts), k_bar),
    )


def outcome_of(release: Release) -> Outcome:
    """Name the picks as the laws do: labels are indices here, a set is in item order."""
    picks = release.labels if release.indices is None else release.indices.tolist()
    if not release.ordered:
        picks = sorted(picks or ())
    return tuple(picks or ()) + (() if release.complete else (BOT,))


def rows(picks: npt.NDArray[Any]) -> Iterable[Outcome]:
    """Return the rows of an array of picks as outcomes."""
    return map(tuple, picks.tolist())


@dataclass(frozen=True)
class Public:
    """A public function as a sampler: called for every draw, from one seeded generator.

    Parameters
    ----------
    call : callable
        ``call(data, rng=rng)`` returns a release.
    outcome : callable
        From a release to what the law calls an outcome.
    data : callable
        From the counts of a check to what the function takes.
    covers : callable, optional
        Whether the cost that a release states is no less than what was proved of it.
    """

    call: Callable[..., Any]
    outcome: Callable[[Any], Outcome] = outcome_of
    data: Callable[[Counts], Any] = np.asarray
    covers: Covers | None = None

    def undercharged(self, counts: Counts) -> str:
        """Say which cost is too low; nothing if it covers what was proved."""
        if self.covers is None:
            return ""
        cost = self.call(self.data(counts), rng=SeededRng(0)).cost
        return "" if self.covers(cost) else f"it is said to cost ({cost.epsilon:g}, {cost.delta:g})"

    def __call__(self, counts: Counts, draws: int, seed: int) -> Iterator[Outcome]:
        """Yield so many independent outcomes."""
        rng, data = SeededRng(seed), self.data(counts)
        for _ in range(draws):
            yield self.outcome(self.call(data, rng=rng))


def put_back(
    sampler: Callable[..., Iterable[Outcome]], counts: Counts, draws: int, seed: int, *, k: int
) -> Iterator[Outcome]:
    """Draw one item k times and never take it out: a broken twin, with the same item twice."""
    columns = [list(sampler(counts, draws, seed + j, k=1)) for j in range(k)]
    return (sum(row, ()) for row in zip(*columns, strict=True))


UNIT = 0.1  # sensitivity of the scores that `floats` returns


def floats(counts: Counts) -> npt.NDArray[np.float64]:
    """Return the counts as real-valued scores, which move by `UNIT` where counts move by 1."""
    return np.asarray(counts) * UNIT
