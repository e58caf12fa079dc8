"""Counts of distinct users per item in each of many groups: ragged rows of one array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dptopk._types import Numbers
from dptopk._validate import counts_array, integer, labels_array
from dptopk.domain import bound_of_user, labels_at
from dptopk.errors import UnknownDomainError
from dptopk.histogram.one import INT64_MAX, Histogram, labels_of_data
from dptopk.sources.columns import domain_of
from dptopk.sources.grouped import CountedInGroups
from dptopk.sources.groups import Groups

__all__ = ["Histograms"]

_ABOUT = ("known_domain", "k_bar", "max_items_per_user", "soft_cap")  # the same in all groups


class Histograms(Mapping[Any, Histogram]):
    """One histogram for each of many public groups: per country, per day, per category.

    Every mechanism on counts takes it and returns a `Releases`: a release for each group,
    at one price for all of them. A user who is in at most G groups moves the counts of
    at most G, so the price depends on G and not on how many groups there are.

    Parameters
    ----------
    counts : array of integers, shape (groups, d), or (n,) with `offsets`
        Users per item in each group, in any order: a domain fixed before the data was
        seen. Copied.
    labels : sequence of length d, or n with `offsets`, optional
        The items' names.
    max_groups_per_user : int
        The most groups that one user has events in, known beforehand. 1 where each user
        belongs to one group: all groups then cost as much as one.
    groups : sequence, optional
        The groups' names, fixed before the data was seen: all there may be, those that
        nobody is in too. By default their numbers.
    offsets : array of integers, shape (groups + 1,), optional
        Where each group begins in `counts`, and where the last one ends; as the
        ``indptr`` of a sparse matrix.
    max_items_per_user : int, optional
        The most items that one user has in any one group, known beforehand.

    Raises
    ------
    TypeError
        If the counts are no integers, or the groups have no order, as a set has none.
    ValueError
        If a count is negative, there is no group, a group stands there twice or is null,
        or shapes don't fit.

    See Also
    --------
    from_histograms : from a histogram of each group.
    Histogram.from_events : with ``by=``, from a table of events.

    Notes
    -----
    It is a mapping from groups to histograms. Its repr shows no counts, and no labels of
    items.

    Examples
    --------
    >>> import dptopk as dp
    >>> counts = [[900, 3, 700], [40, 800, 900]]
    >>> by_country = dp.Histograms(counts, ["tea", "jam", "ale"], groups=["FR", "DE"],
    ...                            max_groups_per_user=1)
    >>> by_country
    Histograms(2 groups, max_groups_per_user=1, known domain)
    >>> dp.peel(by_country, k=1, epsilon=1.0)["DE"].labels
    ('ale',)
    """

    __slots__ = (
        "_counted",
        "_groups",
        "_items",
        "_k_bar",
        "_known_domain",
        "_labels",
        "_max_groups_per_user",
        "_max_items_per_user",
        "_next_counts",
        "_offsets",
        "_places",
        "_values",
        "_weighting",
    )

    _counted: bool  # from events, whose users could have been cut
    _groups: Sequence[Any]
    _places: dict[Any, int]  # of the groups
    _values: np.ndarray  # counts, each group's descending
    _items: np.ndarray  # their items, numbered from 0 in each group
    _offsets: np.ndarray
    # Of all items in turn, or of those of any group, if there are as many as a group has.
    _labels: Sequence[Any] | np.ndarray | None
    _next_counts: np.ndarray | None  # the largest that truncation left out
    _k_bar: int | None
    _known_domain: bool
    _max_groups_per_user: int | None  # None: nobody bounds them, and the groups are data
    _max_items_per_user: int | None
    _weighting: tuple[int, str] | None

    def __init__(
        self,
        counts: Numbers | Sequence[Sequence[int]],
        labels: Any = None,
        *,
        max_groups_per_user: int,
        groups: Any = None,
        offsets: Numbers | None = None,
        max_items_per_user: int | None = None,
    ):
        if offsets is None:
            if not isinstance(counts, (np.ndarray, list, tuple)):
                raise TypeError(
                    "counts must be an array of groups and items, or have offsets; "
                    f"got {type(counts).__name__}"
                )
            values, number = _matrix(counts)
            width = values.size // number if number else 0
            places = np.arange(number + 1) * width
            names = labels_array(labels, width)
        else:
            values = counts_array("counts", counts).astype(np.int64)
            places = _offsets(offsets, values.size)
            names = labels_array(labels, values.size)
        if not np.diff(places).all():
            raise ValueError("counts must hold at least one item of each group")
        self._set(
            values,
            places,
            labels=names,
            groups=_named(groups),
            max_groups_per_user=integer("max_groups_per_user", max_groups_per_user),
            max_items_per_user=_bound(max_items_per_user),
        )

    def _set(
        self,
        values: np.ndarray,
        offsets: np.ndarray,
        *,
        labels: Sequence[Any] | np.ndarray | None,
        groups: Sequence[Any] | None,
        max_groups_per_user: int | None,
        max_items_per_user: int | None = None,
        known_domain: bool = True,
        next_counts: np.ndarray | None = None,
        k_bar: int | None = None,
        weighting: tuple[int, str] | None = None,
        counted: bool = False,
    ) -> Histograms:
        """Put each group's counts in order; they stand in item order."""
        number = offsets.size - 1
        self._groups = range(number) if groups is None else groups
        if len(self._groups) != number:
            raise ValueError(f"groups must be as many as the counts have, {number}")
        if not number and max_groups_per_user is not None:
            raise ValueError("there must be at least one group")
        if values.size and values.min() < 0:
            raise ValueError("counts must not be negative")
        if values.size and values.max() == INT64_MAX:
            raise ValueError("counts must be below 2**63 - 1")
        self._values, self._items = _descending(values, offsets)
        self._offsets = offsets
        self._places = {group: place for place, group in enumerate(self._groups)}
        self._labels = labels
        self._next_counts = next_counts
        self._k_bar = k_bar
        self._known_domain = known_domain
        self._max_groups_per_user = max_groups_per_user
        self._max_items_per_user = max_items_per_user
        self._weighting = weighting
        self._counted = counted
        return self

    @classmethod
    def from_histograms(
        cls, histograms: Mapping[Any, Histogram], *, max_groups_per_user: int
    ) -> Histograms:
        """Build from a histogram of each group.

        Parameters
        ----------
        histograms : mapping
            From groups, fixed before the data was seen and all there are, to their
            histograms: all of a known domain or all of an unknown one, cut at the same
            k_bar if they are, and with the same bound on a user's items.
        max_groups_per_user : int
            The most groups that one user has events in, known beforehand.

        Returns
        -------
        Histograms

        Raises
        ------
        TypeError
            If it is no mapping to histograms.
        ValueError
            If it is empty, or the histograms differ in these things.

        Examples
        --------
        >>> import dptopk as dp
        >>> one = dp.Histogram.truncated([81, 12], ["cat", "ant"], next_count=5, k_bar=2)
        >>> none = dp.Histogram.truncated([], [], next_count=0, k_bar=2)
        >>> dp.Histograms.from_histograms({"FR": one, "DE": none}, max_groups_per_user=3)
        Histograms(2 groups, max_groups_per_user=3, unknown domain, k_bar=2)
        """
        if not isinstance(histograms, Mapping) or isinstance(histograms, Histograms):
            raise TypeError(
                "histograms must be a mapping from groups to a Histogram of each, "
                f"got {type(histograms).__name__}"
            )
        rows = list(histograms.values())
        for h in rows:
            if not isinstance(h, Histogram):
                raise TypeError(f"each group must have a Histogram, got {type(h).__name__}")
            if h.soft_cap is not None:
                raise ValueError(
                    "a histogram with a soft cap weighs a user's items in one group alone; "
                    "Histogram.from_events(..., by=..., soft_cap=...) weighs all of them"
                )
        for name in _ABOUT:
            if len({getattr(h, name) for h in rows}) > 1:
                raise ValueError(f"the histograms must have one {name}")
        if len({h.domain_labels is None for h in rows}) > 1:
            raise ValueError("all histograms must have labels, or none")
        if any(h.known_domain and h.is_truncated for h in rows):
            raise ValueError("histograms of a known domain must be whole: they are truncated")
        cuts = [h.cut(h.k_bar or len(h)) for h in rows]
        about = rows[0] if rows else Histogram([0])
        columns: list[np.ndarray] = []
        labels: list[Any] = []
        for h, (counts, items, _) in zip(rows, cuts, strict=True):
            order = np.arange(items.size) if h.is_truncated else np.argsort(items)
            columns.append(counts[order])
            labels.extend(h.labels_of(items[order]) or ())
        return cls.__new__(cls)._set(
            np.concatenate(columns) if columns else np.empty(0, np.int64),
            np.cumsum([0, *(column.size for column in columns)]),
            labels=None if about.domain_labels is None else labels,
            groups=_named(list(histograms)) if rows else None,
            max_groups_per_user=integer("max_groups_per_user", max_groups_per_user),
            max_items_per_user=about.max_items_per_user,
            known_domain=about.known_domain,
            next_counts=np.array([cut[2] for cut in cuts], np.int64) if about.k_bar else None,
            k_bar=about.k_bar,
            counted=any(h._counted for h in rows),
        )

    @classmethod
    def truncated(
        cls,
        counts: Numbers,
        labels: Any,
        *,
        offsets: Numbers,
        next_counts: Numbers,
        k_bar: int,
        max_groups_per_user: int,
        groups: Any = None,
        max_items_per_user: int | None = None,
    ) -> Histograms:
        """Build from the top rows of each group that an engine returned: an unknown domain.

        Parameters
        ----------
        counts : array of integers, shape (n,)
            Users per item of the rows returned, one group after the other.
        labels : sequence of length n
            Their labels, all of one kind and different in each group; in each group the
            rows stand as in `Histogram.truncated`.
        offsets : array of integers, shape (groups + 1,)
            Where the rows of each group begin, and where the last ones end.
        next_counts : array of integers, shape (groups,)
            The (k_bar+1)-th count of each group; 0 where there is none.
        k_bar : int
            The LIMIT that the engine was asked for in each group, less one.
        max_groups_per_user, groups, max_items_per_user
            As in `Histograms`.

        Returns
        -------
        Histograms

        Raises
        ------
        TypeError, ValueError
            If an argument is not as described.

        Examples
        --------
        >>> import dptopk as dp
        >>> dp.Histograms.truncated([81, 12, 7], ["cat", "ant", "cat"], offsets=[0, 2, 3],
        ...                         next_counts=[5, 0], k_bar=2, groups=["FR", "DE"],
        ...                         max_groups_per_user=1)
        Histograms(2 groups, max_groups_per_user=1, unknown domain, k_bar=2)
        """
        k_bar = integer("k_bar", k_bar)
        values = counts_array("counts", counts).astype(np.int64)
        places = _offsets(offsets, values.size)
        names = labels_of_data(labels, values.size)
        cut_off = counts_array("next_counts", next_counts).astype(np.int64)
        sizes = np.diff(places)
        if cut_off.size != sizes.size:
            raise ValueError("next_counts must be as many as the groups")
        if sizes.size and sizes.max() > k_bar:
            raise ValueError("counts must not hold more rows of a group than k_bar")
        if values.size and values.min() < 1:
            raise ValueError("counts must be >= 1: an item without users is not in the data")
        least = np.zeros(sizes.size, np.int64)
        full = sizes == k_bar
        least[full] = values[places[:-1][full, None] + np.arange(k_bar)].min(axis=1)
        if (cut_off > least).any() or (cut_off < 0).any():
            raise ValueError("next_counts must not exceed the counts that came before them")
        plain = names.tolist() if isinstance(names, np.ndarray) else names
        if len(set(zip(_rows(places).tolist(), plain, strict=True))) != values.size:
            raise ValueError("labels must be distinct in each group")
        return cls.__new__(cls)._set(
            values,
            places,
            labels=names,
            groups=_named(groups),
            max_groups_per_user=integer("max_groups_per_user", max_groups_per_user),
            max_items_per_user=_bound(max_items_per_user),
            known_domain=False,
            next_counts=cut_off,
            k_bar=k_bar,
        )

    @classmethod
    def counted(
        cls, counted: CountedInGroups, groups: Groups, *, known_domain: bool, **known: Any
    ) -> Histograms:
        """Build from what `dptopk.sources.grouped` counted."""
        return cls.__new__(cls)._set(
            counted.counts,
            counted.offsets,
            labels=counted.labels,
            groups=counted.groups,
            max_groups_per_user=groups.most,
            # Pairs with groups that were read off the data are themselves.
            known_domain=known_domain and groups.domain is not None,
            next_counts=counted.next_counts,
            counted=True,
            **known,
        )

    # ---- one group

    def __getitem__(self, group: Any) -> Histogram:
        return self.row(self._places[group])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def row(self, place: int) -> Histogram:
        """Return the histogram of the group at a place.

        A histogram by itself: what a mechanism releases of it alone costs what it says, and
        several such releases add up.
        """
        begin, end = self._offsets[place : place + 2].tolist()
        values, items = self._values[begin:end], self._items[begin:end]
        column, next_count = None, 0
        if self._k_bar is None:
            column = np.empty(end - begin, np.int64)
            column[items] = values
            column.flags.writeable = False
        elif self._next_counts is not None:
            next_count = int(self._next_counts[place])
        return Histogram.__new__(Histogram)._set(
            column,
            labels=self._labels_of(begin, end),
            head=(values, items),
            known_domain=self._known_domain,
            k_bar=self._k_bar,
            next_count=next_count,
            max_items_per_user=self._max_items_per_user,
            weighting=self._weighting,
            counted=self._counted,
        )

    def _labels_of(self, begin: int, end: int) -> Sequence[Any] | np.ndarray | None:
        if self._labels is None or len(self._labels) != self._values.size:
            return self._labels  # none, or those of all groups
        return self._labels[begin:end]

    # ---- all groups

    @property
    def alike(self) -> bool:
        """Whether the groups have the same public numbers: known domains of one size."""
        sizes = np.diff(self._offsets)
        return not self._known_domain or bool((sizes == sizes[0]).all())

    def cut(self, k_bar: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the k_bar largest counts of each group, or all, as `Histogram.cut` does.

        These are the counts and their items, each group's descending, one group after the
        other; the offsets of groups; and the counts that come next.
        """
        offsets, sizes = self._offsets, np.diff(self._offsets)
        following = np.zeros(sizes.size, np.int64)
        if k_bar == self._k_bar and self._next_counts is not None:
            following = self._next_counts
        if k_bar is None or not self._values.size or sizes.max() <= k_bar:
            return self._values, self._items, offsets, following
        more, starts, left = sizes > k_bar, offsets[:-1], np.minimum(sizes, k_bar)
        following[more] = self._values[starts[more] + k_bar]
        cuts = np.append(0, np.cumsum(left))
        kept = np.arange(cuts[-1]) + np.repeat(starts - cuts[:-1], left)
        return self._values[kept], self._items[kept], cuts, following

    def labels_in_rows(self, items: np.ndarray, offsets: np.ndarray) -> tuple[Any, ...] | None:
        """Return the labels of some items of each group, which begin at offsets."""
        if self._labels is not None and len(self._labels) == self._values.size:
            items = items + np.repeat(self._offsets[:-1], np.diff(offsets))
        return labels_at(self._labels, items)

    def pairs(self) -> Histogram:
        """Return the counts of all pairs of a group and an item; pairs are numbered in turn."""
        column = np.empty(self._values.size, np.int64)
        column[self._items + np.repeat(self._offsets[:-1], np.diff(self._offsets))] = self._values
        known = {
            "known_domain": self._known_domain,
            "max_items_per_user": self._max_items_per_user,
            "weighting": self._weighting,
        }
        return Histogram.__new__(Histogram)._of_weights(column, **known)

    def split(self, pairs: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Return groups by place, in their first order, with the places of the pairs in each."""
        rows = np.searchsorted(self._offsets, pairs, side="right") - 1
        order = np.argsort(rows, kind="stable")
        ends = np.flatnonzero(np.diff(rows[order])) + 1
        chunks = [chunk for chunk in np.split(order, ends) if chunk.size]
        for chunk in sorted(chunks, key=lambda chunk: int(chunk[0])):
            yield int(rows[chunk[0]]), chunk

    def items_of(self, place: int, pairs: np.ndarray) -> np.ndarray:
        """Return the items of some pairs of one group."""
        return pairs - self._offsets[place]

    def labels_of(self, place: int, pairs: np.ndarray) -> tuple[Any, ...] | None:
        """Return the labels of the items of some pairs of one group."""
        begin, end = self._offsets[place : place + 2].tolist()
        return labels_at(self._labels_of(begin, end), pairs - begin)

    @property
    def public(self) -> bool:
        """Whether the groups were fixed before the data was seen."""
        return self._max_groups_per_user is not None

    def check_public(self, mechanism: str) -> None:
        """Raise UnknownDomainError if the groups were read off the data."""
        if not self.public:
            raise UnknownDomainError(
                f"{mechanism} needs groups that were fixed before the data was seen, and these "
                "were read off it; give Histogram.from_events(..., groups=..., "
                "max_groups_per_user=...) or use weighted"
            )

    @property
    def groups(self) -> tuple[Any, ...]:
        """The groups' names, in their order."""
        return tuple(self._groups)

    @property
    def max_groups_per_user(self) -> int:
        """The most groups of one user; no more than there are."""
        self.check_public("max_groups_per_user")
        assert self._max_groups_per_user is not None
        return min(self._max_groups_per_user, len(self))

    @property
    def max_items_per_user(self) -> int | None:
        """The bound on the items of one user in one group (with a soft cap in all), or None."""
        return self._max_items_per_user

    def bound_of_user(self, given: Any) -> int | None:
        """Return how many items one user has at most, `given` being what a call says."""
        return bound_of_user(given, self.max_items_per_user, counted=self._counted)

    @property
    def known_domain(self) -> bool:
        """Whether the items were fixed before the data was seen."""
        return self._known_domain

    @property
    def k_bar(self) -> int | None:
        """How many items of each group truncated histograms were cut to, or None."""
        return self._k_bar

    @property
    def soft_cap(self) -> int | None:
        """The items of a user, in all groups, up to which each counts as 1, or None."""
        return None if self._weighting is None else self._weighting[0]

    @property
    def norm(self) -> str | None:
        """The norm of what a user adds that the soft cap bounds, or None without one."""
        return None if self._weighting is None else self._weighting[1]

    @property
    def n_items(self) -> int | None:
        """How many pairs of a group and an item there are; None for an unknown domain."""
        return self._values.size if self._known_domain else None

    @property
    def least_items(self) -> int | None:
        """How many items the smallest known domain has; None for unknown ones."""
        return int(np.diff(self._offsets).min()) if self._known_domain else None

    @property
    def domain_labels(self) -> Sequence[Any] | np.ndarray | None:
        """The labels of all items of all groups, or None."""
        return self._labels

    def __repr__(self) -> str:
        parts = ["groups read off the data"]
        if self._max_groups_per_user is not None:
            number = f"{len(self)} group{'s' if len(self) > 1 else ''}"
            parts = [number, f"max_groups_per_user={self._max_groups_per_user}"]
        parts.append(f"{'known' if self._known_domain else 'unknown'} domain")
        if self._k_bar is not None:
            parts.append(f"k_bar={self._k_bar}")
        if self._weighting is not None:
            parts.append(f"soft_cap={self.soft_cap}, norm={self.norm!r}")
        return f"Histograms({', '.join(parts)})"

    # Arrays have no truth value: two are equal if they are the same.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


def _named(groups: Any) -> list[Any] | None:
    """Return public groups, checked."""
    return None if groups is None else domain_of(groups, "groups").labels


def _bound(max_items_per_user: int | None) -> int | None:
    if max_items_per_user is None:
        return None
    return integer("max_items_per_user", max_items_per_user)


def _matrix(counts: Any) -> tuple[np.ndarray, int]:
    """Return the rows of a matrix one after the other, int64, and how many there are."""
    if isinstance(counts, np.ndarray) and counts.ndim == 2:
        return counts_array("counts", counts.reshape(-1)).astype(np.int64), len(counts)
    rows = [counts_array("counts", row) for row in counts]
    if len({row.size for row in rows}) > 1:
        raise ValueError("counts must be as many in each group, or have offsets")
    return np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int64), len(rows)


def _offsets(offsets: Any, size: int) -> np.ndarray:
    """Return offsets of rows that cover so many counts."""
    places = counts_array("offsets", offsets).astype(np.int64)
    if not places.size or places[0] != 0 or places[-1] != size or (np.diff(places) < 0).any():
        raise ValueError("offsets must rise from 0 to the number of counts")
    return places


def _rows(offsets: np.ndarray) -> np.ndarray:
    """Return the number of the row that each count is in."""
    return np.repeat(np.arange(offsets.size - 1), np.diff(offsets))


def _descending(values: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's values in descending order, and their places in it; ties by place."""
    sizes = np.diff(offsets)
    if values.size and (sizes == sizes[0]).all():
        matrix = values.reshape(sizes.size, -1)
        small = np.int16 if values.max() < 2**15 else np.int64  # NumPy sorts these by radix
        items = np.argsort(-matrix.astype(small), axis=1, kind="stable")
        return np.take_along_axis(matrix, items, axis=1).reshape(-1), items.reshape(-1)
    order = np.lexsort((-values, _rows(offsets)))
    return values[order], order - np.repeat(offsets[:-1], sizes)
