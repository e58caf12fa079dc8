"""The k largest of noisy counts, told by public numbers alone: of one histogram or of many."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dptopk import _core
from dptopk._counts import Head
from dptopk.histogram import Histogram, Histograms
from dptopk.mechanisms._plan import Plan
from dptopk.mechanisms._rows import Rows, select_rows
from dptopk.mechanisms._select import Scores, select
from dptopk.release import Cost, Release
from dptopk.releases import Releases, RowsOfReleases

__all__ = ["Race", "plan_race"]


class Race(NamedTuple):
    """What noise is drawn and what becomes of the picks.

    Attributes
    ----------
    k : int
    scale : float
    noise : str
    k_bar : int or None
        How many of the largest counts take part, against a stopper; None: all, and none.
    lift : float
        How far the stopper stands above h_(k_bar+1) + 1, in units of the scale.
    release : partial of Release
        Takes what is left to say: indices, labels, complete and private.
    ordered : bool
    """

    k: int
    scale: float
    release: partial[Release]
    noise: str = "gumbel"
    k_bar: int | None = None
    lift: float = 0.0
    ordered: bool = True

    def released(self, picks: np.ndarray, source: Histogram | Scores, private: bool) -> Release:
        """Return the release of the picks, in the order they came."""
        complete = self.k_bar is None or bool(picks[-1] != _core.STOP)
        if not complete:
            picks = picks[:-1]
        if not self.ordered:
            picks = np.sort(picks)
        return self.release(
            indices=picks if source.known_domain else None,
            labels=source.labels_of(picks),
            complete=complete,
            private=private,
        )

    def in_rows(self, hs: Histograms, cost: Cost, rng: Any) -> Releases:
        """Draw in every group: the same race, whatever its counts."""
        k, stop = np.full(len(hs), self.k), None
        keys, items, offsets, next_counts = hs.cut(self.k_bar)
        if self.k_bar is not None:
            stop = next_counts + 1, np.full(len(hs), self.lift)
            k = np.minimum(k, np.diff(offsets) + 1)
        picks, private = select_rows(
            Rows(keys, items, offsets, stop=stop), k=k, scale=self.scale, noise=self.noise, rng=rng
        )
        came = picks != _core.STOP
        complete = came[np.cumsum(k) - 1]  # the stopper, and what is left, come last
        ends = np.cumsum(np.add.reduceat(came, np.cumsum(k) - k, dtype=np.int64))
        picks = picks[came]
        if not self.ordered:
            picks = np.sort(picks.reshape(len(hs), self.k), axis=1).reshape(-1)
        places = np.append(0, ends)
        made = partial(self.release, cost=cost, private=private)
        labels = hs.labels_in_rows(picks, places)
        return Releases(
            hs.groups,
            RowsOfReleases(made, places, picks if hs.known_domain else None, labels, complete),
            cost=cost,
            mechanism=self.release.keywords["mechanism"],
            private=private,
        )


def plan_race(
    race: Race,
    source: Histogram | Scores,
    cost: Cost,
    cut: tuple[np.ndarray, np.ndarray, int] | None = None,
) -> Plan:
    """Return the plan of a race among a histogram's counts, or scores.

    `cut` is ``source.cut(race.k_bar)``, if it is at hand.
    """
    stop, outside = None, None
    if race.k_bar is None:
        assert isinstance(source, Scores)
        head = source.head(k=race.k, scale=race.scale)
        clamped = source.clamped
        # Scores that are no histogram's counts as they are, such as for the least of them.
        plain = not clamped and source.column is None
        outside = source.items_of if clamped else None
    else:
        assert isinstance(source, Histogram)
        keys, items, next_count = cut or source.cut(race.k_bar)
        plain = True
        head, stop = Head(keys, items, None, False), (next_count + 1, race.lift)

    def draw(rng: Any) -> Release:
        picks, private = select(
            head, k=race.k, scale=race.scale, noise=race.noise, stop=stop, rng=rng
        )
        if outside is not None:
            picks = outside(picks)
        return race.released(picks, source, private)

    def many(size: int, rng: Any, workers: int) -> np.ndarray:
        picks, _ = select_rows(
            Rows.of(head, stop), k=race.k, scale=race.scale, noise=race.noise, rng=rng,
            passes=size, workers=workers,
        )  # fmt: skip
        if outside is not None:
            picks = outside(picks)
        picks = picks.reshape(size, race.k)
        return picks if race.ordered else np.sort(picks, axis=1)

    return Plan(cost, draw, race if plain else None, many)
