"""What a mechanism releases, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dptopk._framed import Framed
from dptopk._show import table
from dptopk._validate import boolean, integer, probability
from dptopk.rounding import up

__all__ = ["Cost", "CountsNoise", "Release", "caption"]


class Cost(NamedTuple):
    """The privacy cost of a release.

    Attributes
    ----------
    epsilon, delta : float
        The release is (epsilon, delta)-DP when one user is added or removed.
    theorem : str
        What proves it.
    rho : float or None
        Only where the accounting is in zero-concentrated DP. Then all that is
        released, apart from the noisy thresholds, is rho-zCDP, and epsilon follows
        from rho and delta. Without a delta epsilon is infinite.
    """

    epsilon: float
    delta: float
    theorem: str
    rho: float | None = None

    def __repr__(self) -> str:
        rho = "" if self.rho is None else f", rho={self.rho!r}"
        return (
            f"Cost(epsilon={self.epsilon!r}, delta={self.delta!r}, theorem={self.theorem!r}{rho})"
        )

    def __str__(self) -> str:
        rho = "" if self.rho is None else f", rho={self.rho:g}"
        return f"epsilon={self.epsilon:g}, delta={self.delta:g}{rho} ({self.theorem})"


class CountsNoise(NamedTuple):
    """The noise of counts that were released.

    Attributes
    ----------
    law : {"laplace", "gaussian", "shared"}
        The discrete law; "shared" is normal noise of its own for each count and
        one for all of them, rounded.
    scale : float
        The scale of the Laplace law, the sigma of the Gaussian one, and of what is
        each count's own where there is a shared one.
    among : int
        Of how many noises those released are the largest: how many items took
        part where the noise did the picking; 1 where it was drawn afterwards.
    shared : float
        The sigma of the noise that all counts have in common.
    most : int or None
        The largest count there can be, if one is known.
    """

    law: str
    scale: float
    among: int = 1
    shared: float = 0.0
    most: int | None = None


class Release(Framed):
    """The items a mechanism picked. Immutable; holds nothing that was not released.

    Attributes
    ----------
    indices : numpy.ndarray of int64 or None
        Positions of the items in the array of counts, best first (if
        `ordered`). None where the domain was read off the data: a position in
        such a histogram would tell more than the label.
    labels : tuple or None
        The items' labels, or None if the histogram had none.
    counts : numpy.ndarray of int64 or None
        Noisy counts of the items, in the same order; None if none were released.
    counts_noise : CountsNoise or None
        Their noise.
    weights : numpy.ndarray of float64 or None
        Noisy sums of weights, in users, in the same order; None if none were
        released (`weighted` can).
    ordered : bool
        Whether the order is part of the release; if not, items stand in item
        order, or of an unknown domain, whose item order is data, in random order.
    complete : bool
        False if the stopper BOT came before k items did.
    cost : Cost
        What the release costs.
    mechanism : str
        The mechanism's name.
    by_counts : bool
        Whether the items were picked by counts of users, each of which one user
        moves by at most 1: `noisy_counts` asks for that.
    private : bool
        False if the random bits were not secure (`SeededRng` and the like):
        then this is an experiment, and the cost is what it would have been.
    parameters : mapping
        The public parameters.

    Examples
    --------
    >>> import dptopk as dp
    >>> release = dp.peel(dp.Histogram([900, 3, 700], labels=["ant", "bee", "cat"]), k=2, epsilon=2)
    >>> release
    <Release of 2 by peel: ['ant', 'cat']; epsilon=2, delta=0>
    >>> release.indices
    array([0, 2])
    >>> release.cost.theorem
    'Durfee and Rogers 2019, Lemma 4.3; basic composition of 2 bounded-range steps'
    """

    indices: np.ndarray | None
    labels: tuple[Any, ...] | None
    counts: np.ndarray | None
    counts_noise: CountsNoise | None
    weights: np.ndarray | None
    ordered: bool
    complete: bool
    cost: Cost
    mechanism: str
    by_counts: bool
    private: bool
    parameters: Mapping[str, Any]

    def __init__(
        self,
        *,
        indices: np.ndarray | None,
        labels: tuple[Any, ...] | None,
        ordered: bool,
        complete: bool,
        cost: Cost,
        mechanism: str,
        private: bool,
        parameters: dict[str, Any],
        counts: np.ndarray | None = None,
        counts_noise: CountsNoise | None = None,
        weights: np.ndarray | None = None,
        by_counts: bool = False,
    ):
        if (counts is None) != (counts_noise is None):
            raise TypeError("give both counts and counts_noise, or neither")
        for array in (indices, counts, weights):
            if array is not None:
                array.flags.writeable = False
        # One update in place of nine: a release is made 40,000 times a second.
        self.__dict__.update(
            indices=indices,
            labels=labels,
            counts=counts,
            counts_noise=counts_noise,
            weights=weights,
            ordered=ordered,
            complete=complete,
            cost=cost,
            mechanism=mechanism,
            by_counts=by_counts,
            private=private,
            parameters=MappingProxyType(parameters),
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Release is immutable")

    __delattr__ = __setattr__  # type: ignore[assignment]

    # A mapping proxy can be neither pickled nor copied.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "parameters": dict(self.parameters)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Release.__init__(self, **state)

    @property
    def items(self) -> tuple[Any, ...]:
        """The labels if there are any, otherwise the indices."""
        if self.labels is not None:
            return self.labels
        return tuple(self.indices.tolist()) if self.indices is not None else ()

    @property
    def outcomes(self) -> int:
        """Number of outcomes, BOT included: what pay-what-you-get charges."""
        return len(self) + (not self.complete)

    def top(self, k: int) -> Release:
        """Return the first k of an ordered release, which costs nothing more.

        Parameters
        ----------
        k : int
            How many, at most as many as could have come out.

        Returns
        -------
        Release
            Of the same cost, paid once for all k; ``complete`` is False if fewer
            than k came out.

        Raises
        ------
        TypeError, ValueError
            If `k` is not an integer >= 1, is past what was asked for, or the release
            is a set.

        Examples
        --------
        >>> import dptopk as dp
        >>> dp.peel([900, 3, 700], k=2, epsilon=2).top(1)
        <Release of 1 by peel: [0]; epsilon=2, delta=0>
        """
        k = integer("k", k)
        if not self.ordered:
            raise ValueError(
                "a set has no first k; noisy_counts(..., ranked=True) puts it in order"
            )
        most = self.parameters.get("k")
        if self.complete and most is not None and k > most:
            raise ValueError(f"k must be at most {most}, which was asked for; got {k}")
        cut = {
            name: None if value is None else value[:k]
            for name, value in self.__dict__.items()
            if name in ("indices", "labels", "counts", "weights")
        }
        state = {**self.__getstate__(), **cut, "complete": k <= len(self)}
        state["parameters"]["k"] = k
        return Release(**state)

    def at_cost(self, cost: Cost) -> Release:
        """Return the same release as part of a whole that costs this."""
        return Release(**{**self.__getstate__(), "cost": cost})

    def with_counts(
        self, counts: np.ndarray, noise: CountsNoise, *, cost: Cost, private: bool, **more: Any
    ) -> Release:
        """Return the same release with noisy counts, and more parameters; it then costs this."""
        state = self.__getstate__()
        state["parameters"].update(more)
        changed = {
            "counts": counts,
            "counts_noise": noise,
            "cost": cost,
            "private": self.private and private,
        }
        return Release(**{**state, **changed})

    def by_noisy_counts(self) -> Release:
        """Return the same release with its items in the order of their noisy counts."""
        assert self.counts is not None
        assert self.counts_noise is not None
        order = np.argsort(~self.counts, kind="stable")  # equal ones as they stood
        labels = None if self.labels is None else tuple(self.labels[i] for i in order)
        changed = {
            "indices": None if self.indices is None else self.indices[order],
            "labels": labels,
            "counts": self.counts[order],
            # What stands first has the largest of so many noises.
            "counts_noise": self.counts_noise._replace(among=max(1, len(self))),
            "ordered": True,
        }
        return Release(**{**self.__getstate__(), **changed})

    def intervals(self, confidence: float = 0.95, *, simultaneous: bool = False) -> np.ndarray:
        """Return confidence intervals of the true counts, where noisy ones were released.

        Each holds its item's true count with at least this probability, over
        the noise of the counts. After `noisy_counts` that is so whatever was
        picked: the noise of the picks is another; and all n at once are held
        with probability 1 - n (1 - confidence) at least. Of counts whose noise
        did the picking (``limited_domain_laplace(..., release_counts=True)``) or the
        ordering (``noisy_counts(..., ranked=True)``)
        the largest noises come first: these intervals are wider, such that with
        this probability the counts of all who took part are held at once.

        Parameters
        ----------
        confidence : float, default 0.95
            Of each interval, in (0, 1).
        simultaneous : bool, default False
            Whether it is that of all intervals at once: each is then wider.

        Returns
        -------
        ndarray of int64, shape (n, 2)
            Lowest and highest count, both included, at least 0 and at most
            ``counts_noise.most``; in the order of `counts`.

        Raises
        ------
        TypeError
            If `confidence` is not a real number.
        ValueError
            If it is not in (0, 1) or too near 1, or there are no noisy counts.

        Examples
        --------
        >>> import dptopk as dp
        >>> counts = [3, 900, 700, 5]
        >>> release = dp.noisy_counts(dp.peel(counts, k=2, epsilon=2), counts, epsilon=2)
        >>> release.intervals(0.99).shape
        (2, 2)
        """
        confidence = probability("confidence", confidence, zero=False)
        if self.counts is None or self.counts_noise is None:
            raise ValueError("the release has no counts; noisy_counts adds them")
        law, scale, among, shared, most = self.counts_noise
        each = confidence
        if boolean("simultaneous", simultaneous):
            among = max(among, self.counts.size)
        if among > 1:
            each = up(1 - (1 - Fraction(confidence)) / among)
        if each == 1.0:
            raise ValueError(f"confidence is too near 1, got {confidence}")
        from dptopk.discrete import margin  # a Release needs no sampler to be made or shown

        reach = margin(law, scale, each, shared)
        most = 2**63 - 1 if most is None else most
        # As Python integers: near the ends of int64 these sums would wrap.
        ends = [
            (min(max(0, count - reach), most), min(max(0, count + reach), most))
            for count in self.counts.tolist()
        ]
        return np.array(ends, dtype=np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __getitem__(self, place: Any) -> Any:
        """Return the item at a place, or the items of a slice."""
        return self.items[place]

    def to_dict(self) -> dict[str, Any]:
        """Return all that was released, as plain numbers, lists and the labels as they are.

        Examples
        --------
        >>> import dptopk as dp
        >>> dp.peel([3, 900, 700], k=1, epsilon=2).to_dict()["items"]
        [1]
        """
        counted: dict[str, Any] = {"counts": None, "counts_noise": None}
        if self.counts is not None and self.counts_noise is not None:
            counted = {
                "counts": self.counts.tolist(),
                "counts_noise": self.counts_noise._asdict(),
            }
        return {
            "items": list(self.items),
            "indices": None if self.indices is None else self.indices.tolist(),
            "labels": None if self.labels is None else list(self.labels),
            **counted,
            "weights": None if self.weights is None else self.weights.tolist(),
            "ordered": self.ordered,
            "complete": self.complete,
            "cost": self.cost._asdict(),
            "mechanism": self.mechanism,
            "by_counts": self.by_counts,
            "private": bool(self.private),
            "parameters": dict(self.parameters),
        }

    def columns(self) -> dict[str, list[Any]]:
        """Return what stands in a table, one row an item.

        Its columns are rank, if the items are ordered, and item; and where noisy
        counts were released count, low and high, a 95% interval; or noisy weights, weight.
        """
        columns: dict[str, list[Any]] = {}
        if self.ordered:
            columns["rank"] = list(range(1, len(self) + 1))
        columns["item"] = list(self.items)
        if self.counts is not None:
            columns["count"] = self.counts.tolist()
            ends = self.intervals()
            columns["low"], columns["high"] = ends[:, 0].tolist(), ends[:, 1].tolist()
        if self.weights is not None:
            columns["weight"] = self.weights.tolist()
        return columns

    def plot(self, ax: Any = None, *, confidence: float = 0.95) -> Any:
        """Draw the items, and the noisy numbers that came out with them, as bars.

        Nothing is drawn that was not released: without counts only the items stand there.
        The public threshold of `weighted` is a line.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default on a new figure.
        confidence : float, default 0.95
            Of each interval, as in `intervals`.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or out of range.
        ImportError
            If matplotlib is not installed.

        Examples
        --------
        >>> import dptopk as dp
        >>> counts = [3, 900, 700, 5]
        >>> release = dp.noisy_counts(dp.peel(counts, k=2, epsilon=2), counts, epsilon=2)
        >>> release.plot().get_xlabel()
        'users (noisy), 95% intervals'
        """
        from dptopk.plotting.released import plot_release

        return plot_release(self, ax, confidence)

    def to_html(self, *, title: str | None = None, remaining: Any = None) -> str:
        """Return a page of HTML that says what was released, at which cost, and protecting whom.

        It stands by itself: no script, nothing that is loaded, texts escaped; light or dark
        as the reader likes it. ``Path("report.html").write_text(page, encoding="utf-8")`` keeps it.

        Parameters
        ----------
        title : str, optional
            Its heading.
        remaining : optional
            What is left of a budget, to be shown too: ``session.remaining``.

        Returns
        -------
        str

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.

        Examples
        --------
        >>> import dptopk as dp
        >>> page = dp.peel([3, 900, 700], k=2, epsilon=2).to_html(title="Pages <of> May")
        >>> "<h1>Pages &lt;of&gt; May</h1>" in page
        True
        """
        from dptopk.plotting.page import page_of

        return page_of(self, title=title, remaining=remaining)

    def _repr_html_(self) -> str:
        return table(self.columns(), caption(self, self.complete, "stopped by BOT"))

    def __repr__(self) -> str:
        names = [repr(item) for item in self.items[:10]]
        if self.counts is not None:
            names = [f"{name}: {count}" for name, count in zip(names, self.counts, strict=False)]
        elif self.weights is not None:
            names = [f"{name}: {w:.1f}" for name, w in zip(names, self.weights, strict=False)]
        shown = ", ".join(names) + (", ..." if len(self) > 10 else "")
        state = "" if self.complete else ", stopped by BOT"
        order = "" if self.ordered else ", unordered"
        unsafe = "" if self.private else ", NOT PRIVATE"
        return (
            f"<Release of {len(self)} by {self.mechanism}: [{shown}]{order}{state}; "
            f"epsilon={self.cost.epsilon:g}, delta={self.cost.delta:g}{unsafe}>"
        )

    # Arrays have no truth value and mappings no hash: compare what was released.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Release):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.mechanism, self.items))

    def _key(self) -> tuple[Any, ...]:
        return (
            _tuple(self.indices),
            self.labels,
            _tuple(self.counts),
            self.counts_noise,
            _tuple(self.weights),
            self.ordered,
            self.complete,
            self.cost,
            self.mechanism,
            self.by_counts,
            self.private,
            dict(self.parameters),
        )


def caption(released: Any, good: bool, state: str) -> str:
    """Say what a table shows, without its items."""
    cost = released.cost
    unsafe = "" if released.private else ", NOT PRIVATE"
    return (
        f"{released.mechanism}{'' if good else ', ' + state}; "
        f"epsilon={cost.epsilon:g}, delta={cost.delta:g}{unsafe}"
    )


def _tuple(array: np.ndarray | None) -> tuple[float, ...] | None:
    return None if array is None else tuple(array.tolist())
