"""Groups in which to count: labels of one or several columns, or periods of time.

They are public: fixed before the data is seen, by a list that also has the groups nobody
is in. A row of no listed group is ignored, before any bound. A group's **name** is the
text of its label (`dptopk.sources.bounds`), by which a user's groups are chosen.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple

from dptopk._validate import integer
from dptopk.sources.bounds import text
from dptopk.sources.columns import domain_of
from dptopk.sources.labels import DATE, TIMESTAMP, Domain, Kind, matched

__all__ = ["Groups", "Listed", "groups_of"]

_PERIOD = re.compile(r"([1-9][0-9]*)(h|d|w|mo)")
_DAY = 86_400 * 10**9  # in nanoseconds
_SPANS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


class Listed(NamedTuple):
    """Groups as the keys of columns.

    Attributes
    ----------
    places : list of int
        Of those groups that the columns can hold.
    keys : list of lists
        Of each column those groups' keys; of periods the first key, and the first one past it.
    names : list of str
        What is hashed of each.
    periods : bool
        Whether there are two lists of keys for one column, which periods begin and end with.
    """

    places: list[int]
    keys: list[list[Any]]
    names: list[str]
    periods: bool

    def column(self, place: int) -> str:
        """Return the name of the column of keys that a list of them is for."""
        return "by_1" if self.periods else f"by_{place + 1}"


class Groups(NamedTuple):
    """In which groups to count, and how many of them one user may be in.

    Attributes
    ----------
    by : tuple of str
        The columns.
    domain : Domain or None
        The groups; None where they are read off the data.
    ends : list of keys, or None
        Where periods end, as the keys of the domain tell where they begin.
    most : int or None
        How many groups each user keeps; None where they are read off the data.
    """

    by: tuple[str, ...]
    domain: Domain | None
    ends: list[Any] | None = None
    most: int | None = None

    @property
    def cut_to(self) -> int | None:
        """How many groups of each user are kept, if any has to go."""
        if self.domain is None or self.most is None:
            return None
        return None if self.most >= len(self.domain.keys) else self.most

    def listed(self, kinds: Sequence[Kind | None]) -> Listed:
        """Return the groups as keys of columns of these kinds.

        Raises
        ------
        TypeError
            A column is of another kind than the groups.
        """
        domain = self.domain
        assert domain is not None
        times = 1 if self.ends is None else 2  # a period has two ends in one column
        columns = [
            matched(_as_instants(part, kind), kind, name)
            for part, kind, name in zip(
                self._parts(), [*kinds] * times, self.by * times, strict=True
            )
        ]
        rows = [] if None in kinds else list(zip(*columns, strict=True))
        places = [place for place, row in enumerate(rows) if None not in row]
        names = [text(domain.kind, key) for key in domain.keys]
        return Listed(
            places,
            [[column[place] for place in places] for column in columns],
            [names[place] for place in places],
            self.ends is not None,
        )

    def _parts(self) -> list[Domain]:
        """Return a domain for each column; of periods for their ends."""
        domain = self.domain
        assert domain is not None
        if self.ends is not None:
            return [domain, Domain(domain.kind, self.ends, domain.labels)]
        if len(self.by) == 1:
            return [domain]
        kinds = domain.kind.parts
        if len(kinds) != len(self.by):
            raise TypeError(
                f"groups must be tuples of {len(self.by)} labels, one of each column of by; "
                f"got labels of kind {domain.kind}"
            )
        columns = zip(*domain.keys, strict=True)
        return [
            Domain(kind, list(keys), list(keys)) for kind, keys in zip(kinds, columns, strict=True)
        ]


def groups_of(
    by: Any,
    *,
    groups: Any = None,
    max_groups_per_user: Any = None,
    every: Any = None,
) -> Groups:
    """Return in which groups to count, checked.

    Raises
    ------
    TypeError, ValueError
        An argument of the wrong kind or value, or one without another that it needs.
    """
    columns = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, (list, tuple)) else ()
    if not columns or not all(isinstance(name, str) for name in columns):
        raise TypeError("by must be the name of a column, or a list of names")
    if len(set(columns)) < len(columns):
        raise ValueError("by must name each column once")
    if every is not None and not isinstance(every, str):
        if groups is not None:
            raise ValueError("groups go with no list of boundaries: these are the groups")
        groups, every = _between(every)
    if groups is None:
        for name, given in (("max_groups_per_user", max_groups_per_user), ("every", every)):
            if given is not None:
                raise ValueError(f"{name} needs groups, fixed before the data is seen")
        return Groups(columns, None)
    if max_groups_per_user is None:
        raise TypeError(
            "max_groups_per_user must be given: the most groups that a user counts in; 1 where "
            "each user belongs to one"
        )
    most = integer("max_groups_per_user", max_groups_per_user)
    labels = getattr(groups, "labels", groups)  # a Release of groups that were found
    domain = domain_of(labels, "groups")
    found = Groups(columns, domain, None, most)
    if every is None:
        found._parts()  # as many in each tuple as there are columns
        return found
    if len(columns) > 1:
        raise ValueError("every goes with one column")
    following = every if callable(every) else _following(every)
    return found._replace(ends=_ends(domain, list(labels), following))


# ---- periods of time


def _as_instants(domain: Domain, kind: Kind | None) -> Domain:
    """Return days as what a column of timestamps without a zone holds: their midnights."""
    if kind is None or (kind.name, domain.kind.name) != (TIMESTAMP.name, DATE.name):
        return domain
    return Domain(TIMESTAMP, [key * _DAY for key in domain.keys], domain.labels)


def _between(boundaries: Any) -> tuple[list[Any], Callable[[Any], Any]]:
    """Return the periods between boundaries by their beginnings, and what follows each."""
    keys = domain_of(boundaries, "every").keys
    if len(keys) < 2:
        raise ValueError("every must hold at least two boundaries")
    if any(a >= b for a, b in itertools.pairwise(keys)):
        raise ValueError("every must hold boundaries that rise")
    starts = list(boundaries)
    return starts[:-1], dict(itertools.pairwise(starts)).__getitem__


def _following(every: str) -> Callable[[Any], Any]:
    """Return what tells where a period ends that begins at a date or a datetime.

    Days, weeks and months are those of the clock in the zone of the datetime.
    """
    match = _PERIOD.fullmatch(every)
    if match is None:
        raise ValueError(
            f"every must be a number of hours, days, weeks or months, such as '1h', '1d', '1w' or "
            f"'1mo', or a list of boundaries; got {every!r}"
        )
    number, unit = int(match[1]), match[2]

    def following(start: Any) -> Any:
        if unit == "h":
            if not isinstance(start, datetime):
                raise TypeError("groups of hours must be datetimes")
            utc = start if start.tzinfo is None else start.astimezone(timezone.utc)
            return utc + number * _SPANS["h"]
        if unit != "mo":
            return start + number * _SPANS[unit]  # by the clock, where it has a zone
        if start.day != 1:
            raise ValueError("groups of months must begin on the first day of one")
        month = start.month - 1 + number
        return start.replace(year=start.year + month // 12, month=month % 12 + 1)

    return following


def _ends(domain: Domain, starts: Sequence[Any], following: Callable[[Any], Any]) -> list[Any]:
    """Return the keys of where the periods end; no two may overlap."""
    if any(not isinstance(start, date) for start in starts):
        raise TypeError("groups must be dates or datetimes, where periods begin")
    try:
        ends = domain_of([following(start) for start in starts], "the ends of groups").keys
    except OverflowError:
        raise ValueError("groups must end before the year 10000") from None
    spans = sorted(zip(domain.keys, ends, strict=True))
    if any(end > begin for (_, end), (begin, _) in itertools.pairwise(spans)):
        raise ValueError("groups must be periods that don't overlap")
    return ends
