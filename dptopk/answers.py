"""What tests of queries release, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from dptopk._framed import Framed
from dptopk._show import table
from dptopk.release import Cost, caption

__all__ = ["Answers"]


class Answers(Framed):
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
        return int(self.bits.size)

    def __iter__(self) -> Iterator[bool]:
        return iter(self.bits.tolist())

    def __getitem__(self, place: Any) -> Any:
        """Return the bit of a query, or the bits of a slice."""
        return self.bits[place].tolist()

    def to_dict(self) -> dict[str, Any]:
        """Return all that was released, as plain numbers and lists and the values as they are."""
        return {
            "bits": self.bits.tolist(),
            "values": None if self.values is None else list(self.values),
            "exhausted": self.exhausted,
            "cost": self.cost._asdict(),
            "mechanism": self.mechanism,
            "private": bool(self.private),
            "parameters": dict(self.parameters),
        }

    def columns(self) -> dict[str, list[Any]]:
        """Return what stands in a table, one row a query: query, bit, and value if there is one."""
        columns: dict[str, list[Any]] = {"query": list(range(len(self)))}
        columns["bit"] = self.bits.tolist()
        if self.values is not None:
            columns["value"] = list(self.values)
        return columns

    def _repr_html_(self) -> str:
        return table(self.columns(), caption(self, not self.exhausted, "exhausted"))

    def __repr__(self) -> str:
        at = self.indices[:10].tolist()
        shown = f"[{', '.join(map(str, at))}{', ...' if self.indices.size > 10 else ''}]"
        state = ", exhausted" if self.exhausted else ""
        unsafe = "" if self.private else ", NOT PRIVATE"
        return (
            f"<Answers to {len(self)} by {self.mechanism}: True at {shown}{state}; "
            f"epsilon={self.cost.epsilon:g}, delta={self.cost.delta:g}{unsafe}>"
        )
