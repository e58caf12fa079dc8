"""What a mechanism releases of many groups at once, and what all of it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dptopk._framed import Framed
from dptopk._show import table
from dptopk.release import Cost, Release, caption

__all__ = ["Releases", "RowsOfReleases"]

_IN_COMMON = ("cost", "mechanism", "private")


class RowsOfReleases(Sequence[Release]):
    """Releases of many groups, each made when it is looked at: two arrays hold them all.

    Parameters
    ----------
    made : function
        A Release from indices, labels and complete.
    offsets : int64 array, shape (n + 1,)
        Where the picks of each group begin.
    indices : int64 array or None
    labels : tuple or None
    complete : bool array, shape (n,)
    """

    def __init__(
        self,
        made: Callable[..., Release],
        offsets: np.ndarray,
        indices: np.ndarray | None,
        labels: tuple[Any, ...] | None,
        complete: np.ndarray,
    ):
        self._made, self._offsets, self._complete = made, offsets, complete
        self._indices, self._labels = indices, labels

    def __len__(self) -> int:
        return self._complete.size

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        some = slice(*self._offsets[place : place + 2].tolist())
        return self._made(
            indices=None if self._indices is None else self._indices[some].copy(),
            labels=None if self._labels is None else self._labels[some],
            complete=bool(self._complete[place]),
        )


class Releases(Framed, Mapping[Any, Release]):
    """The items a mechanism picked in each of many groups. Immutable.

    A mapping from groups to releases. Each release says what all of them cost together:
    the costs of the releases of one call are one cost, and are not to be added up.

    Attributes
    ----------
    groups : tuple
        The groups, in the order of the histograms. Where these were read off the data,
        those that something came out of, in the order of its noisy weight.
    cost : Cost
        What all releases together cost.
    mechanism : str
        The mechanism's name.
    private : bool
        False if the random bits were not secure (`SeededRng` and the like).

    Examples
    --------
    >>> import dptopk as dp
    >>> counts = [[900, 3, 700], [40, 800, 900]]
    >>> by_country = dp.Histograms(counts, ["tea", "jam", "ale"], groups=["FR", "DE"],
    ...                            max_groups_per_user=1)
    >>> releases = dp.peel(by_country, k=2, epsilon=2)
    >>> releases
    <Releases of 2 groups by peel: 'FR': ['tea', 'ale'], 'DE': ['ale', 'jam']; epsilon=2, delta=0>
    >>> for country, release in releases.items():
    ...     print(country, release.labels)
    FR ('tea', 'ale')
    DE ('ale', 'jam')
    >>> releases["DE"].cost == releases.cost
    True
    """

    groups: tuple[Any, ...]
    cost: Cost
    mechanism: str
    private: bool
    _releases: Sequence[Release]
    _places: dict[Any, int]

    def __init__(
        self,
        groups: Sequence[Any],
        releases: Sequence[Release],
        *,
        cost: Cost,
        mechanism: str,
        private: bool,
    ):
        self.__dict__.update(
            groups=tuple(groups),
            cost=cost,
            mechanism=mechanism,
            private=private,
            _releases=releases,
            _places={group: place for place, group in enumerate(groups)},
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Releases are immutable")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __getitem__(self, group: Any) -> Release:
        return self._releases[self._places[group]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def top(self, k: int) -> Releases:
        """Return the first k of each group, which costs nothing more: see `Release.top`.

        Examples
        --------
        >>> import dptopk as dp
        >>> two = dp.Histograms([[900, 3, 700], [40, 800, 900]], max_groups_per_user=1)
        >>> dp.peel(two, k=2, epsilon=2).top(1)
        <Releases of 2 groups by peel: 0: [0], 1: [2]; epsilon=2, delta=0>
        """
        return Releases(
            self.groups,
            [release.top(k) for release in self._releases],
            cost=self.cost,
            mechanism=self.mechanism,
            private=self.private,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all that was released, as plain numbers, lists and the labels as they are.

        Examples
        --------
        >>> import dptopk as dp
        >>> two = dp.Histograms([[900, 3, 700], [40, 800, 900]], max_groups_per_user=1)
        >>> [row["items"] for row in dp.peel(two, k=1, epsilon=2).to_dict()["groups"]]
        [[0], [2]]
        """
        rows = []
        for group, release in zip(self.groups, self._releases, strict=True):
            row = release.to_dict()
            for name in _IN_COMMON:
                del row[name]
            rows.append({"group": group, **row})
        return {
            "groups": rows,
            "cost": self.cost._asdict(),
            "mechanism": self.mechanism,
            "private": bool(self.private),
        }

    def columns(self) -> dict[str, list[Any]]:
        """Return what stands in a table, one row for each item of each group.

        Its columns are group, or group_1, group_2, ... where groups are tuples, and those of
        `Release.columns`. A group that nothing came out of has no row.

        Examples
        --------
        >>> import dptopk as dp
        >>> two = dp.Histograms([[900, 3, 700], [40, 800, 900]], max_groups_per_user=1)
        >>> print(dp.peel(two, k=2, epsilon=2).to_frame().to_string(index=False))
         group  rank  item
             0     1     0
             0     2     2
             1     1     2
             1     2     1
        """
        several = any(isinstance(group, tuple) for group in self.groups)
        parts = len(self.groups[0]) if several else 1
        columns: dict[str, list[Any]] = {
            f"group_{part + 1}" if several else "group": [] for part in range(parts)
        }
        for group, release in zip(self.groups, self._releases, strict=True):
            rows = release.columns()
            names = group if several else (group,)
            keys = {name: [part] * len(release) for name, part in zip(columns, names, strict=False)}
            for name, column in {**keys, **rows}.items():
                columns.setdefault(name, []).extend(column)
        return columns

    def plot(self, ax: Any = None, *, confidence: float = 0.95) -> Any:
        """Draw the items of each group below each other; see `Release.plot`.

        Examples
        --------
        >>> import dptopk as dp
        >>> two = dp.Histograms([[900, 3, 700], [40, 800, 900]], max_groups_per_user=1)
        >>> ax = dp.peel(two, k=1, epsilon=2).plot()
        >>> [text.get_text() for text in ax.get_yticklabels()]
        ['0', '1. 0', '1', '1. 2']
        """
        from dptopk.plotting.released import plot_releases

        return plot_releases(self, ax, confidence)

    def to_html(self, *, title: str | None = None, remaining: Any = None) -> str:
        """Return a page of HTML with the items of each group; see `Release.to_html`.

        Examples
        --------
        >>> import dptopk as dp
        >>> two = dp.Histograms([[900, 3, 700], [40, 800, 900]], max_groups_per_user=1)
        >>> "<h1>The top items of 2 groups</h1>" in dp.peel(two, k=1, epsilon=2).to_html()
        True
        """
        from dptopk.plotting.page import page_of

        return page_of(self, title=title, remaining=remaining)

    def _repr_html_(self) -> str:
        return table(self.columns(), caption(self, True, ""))

    def __repr__(self) -> str:
        shown = [
            f"{group!r}: [{', '.join(map(repr, self[group].items[:3]))}"
            f"{', ...' if len(self[group]) > 3 else ''}]"
            for group in self.groups[:3]
        ]
        more = ", ..." if len(self) > 3 else ""
        unsafe = "" if self.private else ", NOT PRIVATE"
        return (
            f"<Releases of {len(self)} group{'' if len(self) == 1 else 's'} by {self.mechanism}: "
            f"{', '.join(shown)}{more}; epsilon={self.cost.epsilon:g}, "
            f"delta={self.cost.delta:g}{unsafe}>"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Releases):
            return NotImplemented
        mine, theirs = (
            (r.groups, r.cost, r.mechanism, r.private, list(r._releases)) for r in (self, other)
        )
        return mine == theirs

    def __hash__(self) -> int:
        return hash((self.mechanism, self.groups))
