"""The types of what mechanisms take: for type checkers, which then see a misspelt choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

__all__ = [
    "Bound",
    "KBar",
    "Method",
    "Noise",
    "Nulls",
    "Numbers",
    "PureMethod",
    "SupportsArray",
]


class SupportsArray(Protocol):
    """An array, or an object that can become one: a Series, a tensor on the CPU."""

    def __array__(self) -> np.ndarray[Any, Any]:
        """Return the array."""


#: Numbers in one dimension. A text is no sequence of numbers.
Numbers: TypeAlias = SupportsArray | Sequence[int] | Sequence[float]
#: How many of the largest counts take part; "private": chosen from the data.
KBar: TypeAlias = int | Literal["private"] | None
#: Whose constants: those of our proof, or the larger ones that a paper prints.
Bound: TypeAlias = Literal["exact", "paper"]
#: What becomes of a row of events whose user or item is null.
Nulls: TypeAlias = Literal["error", "drop"]
#: Laws of noise that only some mechanisms take are named where they are taken.
Noise: TypeAlias = Literal["gumbel", "exponential", "laplace", "gaussian", "uniform"]
#: How steps are composed that are of pure DP, or, with the others, of bounded range.
PureMethod: TypeAlias = Literal["basic", "advanced", "optimal"]
Method: TypeAlias = Literal[
    "best",
    "basic",
    "advanced",
    "optimal",
    "bounded_range",
    "bounded_range_2020",
    "zcdp",
    "adaptive",
]
