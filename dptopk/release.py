"""What a mechanism releases, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dptopk._validate import probability
from dptopk.discrete import margin
from dptopk.rounding import up

__all__ = ["Answers", "Cost", "Release"]


class Cost(NamedTuple):
    """The privacy cost of a release.

    Attributes
    ----------
    epsilon, delta : float
        The release is (epsilon, delta)-DP when one user is added or removed.
    theorem : str
        What proves it.
    """

    epsilon: float
    delta: float
    theorem: str

    def __str__(self) -> str:
        return f"epsilon={self.epsilon:g}, delta={self.delta:g} ({self.theorem})"


class Release:
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
    ordered : bool
        Whether the order is part of the release; if not, items stand in item
        order, or of an unknown domain, whose item order is data, in random order.
    complete : bool
        False if the stopper BOT came before k items did.
    cost : Cost
        What the release costs.
    mechanism : str
        The mechanism's name.
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
    ordered: bool
    complete: bool
    cost: Cost
    mechanism: str
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
    ):
        for array in (indices, counts):
            if array is not None:
                array.flags.writeable = False
        # One update in place of nine: a release is made 40,000 times a second.
        self.__dict__.update(
            indices=indices,
            labels=labels,
            counts=counts,
            ordered=ordered,
            complete=complete,
            cost=cost,
            mechanism=mechanism,
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

    def intervals(self, confidence: float = 0.95) -> np.ndarray:
        """Return confidence intervals of the true counts, where noisy ones were released.

        Each holds its item's true count with at least this probability, over
        the noise of the counts. After `noisy_counts` that is so whatever was
        picked: the noise of the picks is another; and all n at once are held
        with probability 1 - n (1 - confidence) at least. Of counts whose noise
        did the picking (``limited_domain_laplace(..., release_counts=True)``)
        the largest noises were picked: these intervals are wider, such that with
        this probability the counts of all who took part are held at once.

        Parameters
        ----------
        confidence : float, default 0.95
            Of each interval, in (0, 1).

        Returns
        -------
        ndarray of int64, shape (n, 2)
            Lowest and highest count, both included and at least 0; in the order of
            `counts`.

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
        noise = self.parameters.get("counts_noise")
        if self.counts is None or noise is None:
            raise ValueError("the release has no counts; noisy_counts adds them")
        among = self.parameters.get("counts_among", 1)
        each = confidence
        if among > 1:
            each = up(1 - (1 - Fraction(confidence)) / among)
        if each == 1.0:
            raise ValueError(f"confidence is too near 1, got {confidence}")
        reach = margin(noise, self.parameters["counts_scale"], each)
        # As Python integers: near the ends of int64 these sums would wrap.
        ends = [
            (max(0, count - reach), min(max(0, count + reach), 2**63 - 1))
            for count in self.counts.tolist()
        ]
        return np.array(ends, dtype=np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        names = [repr(item) for item in self.items[:10]]
        if self.counts is not None:
            names = [f"{name}: {count}" for name, count in zip(names, self.counts, strict=False)]
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
            self.ordered,
            self.complete,
            self.cost,
            self.mechanism,
            self.private,
            dict(self.parameters),
        )


def _tuple(array: np.ndarray | None) -> tuple[int, ...] | None:
    return None if array is None else tuple(array.tolist())


class Answers:
    """What tests of queries released, one after the other. Immutable.

    Attributes
    ----------
    bits : numpy.ndarray of bool, shape (n,)
        One for each query that was tested, in order: True for a hit of
        `sparse_vector`, or for a stable query, whose value came out.
    values : tuple or None
        In the same order the value released, or None where there is none;
        None altogether if no values were asked for.
    exhausted : bool
        Whether it stopped because all was used up that the cost pays for;
        otherwise the queries ended first.
    cost : Cost
        What the release costs, wherever it stopped.
    mechanism : str
        The mechanism's name.
    private : bool
        False if the random bits were not secure (`SeededRng` and the like).
    parameters : mapping
        The public parameters.

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.sparse_vector([3, 900, 5], threshold=400, epsilon=2.0)
    <Answers to 2 by sparse_vector: True at [1], exhausted; epsilon=2, delta=0>
    """

    bits: np.ndarray
    values: tuple[Any, ...] | None
    exhausted: bool
    cost: Cost
    mechanism: str
    private: bool
    parameters: Mapping[str, Any]

    def __init__(
        self,
        *,
        bits: np.ndarray,
        values: tuple[Any, ...] | None,
        exhausted: bool,
        cost: Cost,
        mechanism: str,
        private: bool,
        parameters: dict[str, Any],
    ):
        bits.flags.writeable = False
        self.__dict__.update(
            bits=bits,
            values=values,
            exhausted=exhausted,
            cost=cost,
            mechanism=mechanism,
            private=private,
            parameters=MappingProxyType(parameters),
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Answers are immutable")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "parameters": dict(self.parameters)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Answers.__init__(self, **state)

    @property
    def indices(self) -> np.ndarray:
        """Where the bits are True."""
        return self.bits.nonzero()[0]

    @property
    def value(self) -> Any:
        """The last value released, or None if there is none."""
        return self.values[-1] if self.values else None

    def __len__(self) -> int:
        return self.bits.size

    def __repr__(self) -> str:
        at = self.indices[:10].tolist()
        shown = f"[{', '.join(map(str, at))}{', ...' if self.indices.size > 10 else ''}]"
        state = ", exhausted" if self.exhausted else ""
        unsafe = "" if self.private else ", NOT PRIVATE"
        return (
            f"<Answers to {len(self)} by {self.mechanism}: True at {shown}{state}; "
            f"epsilon={self.cost.epsilon:g}, delta={self.cost.delta:g}{unsafe}>"
        )
