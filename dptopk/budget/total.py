"""The total of a filter, of pure DP or in rho, and what is left of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from dptopk._validate import positive, probability
from dptopk.accounting.compositions import epsilon_of_rho
from dptopk.accounting.inverse import largest
from dptopk.budget.exact import Exact, exact
from dptopk.release import Cost
from dptopk.rounding import down, up

__all__ = ["Left", "Total", "left_of", "rho_of"]

PURE = "pure DP filter: epsilons add up (Rogers, Roth, Ullman and Vadhan 2016)"
ZCDP = (
    "zCDP filter (Feldman and Zrnic 2021): x - 1 - ln x, x = e/(exp(e) - 1), for an "
    "e-bounded-range step (Harrison and Manurangsi 2025), converted by Canonne, Kamath and "
    "Steinke 2020"
)


class Left(NamedTuple):
    """What a filter has left, rounded down.

    Attributes
    ----------
    epsilon : float
        In pure DP; 0 for a filter that counts in rho.
    rho : float
        In zero-concentrated DP; 0 for a filter of pure DP.
    delta : float
        For thresholds.
    """

    epsilon: float
    rho: float
    delta: float


def left_of(pure: bool, amount: Fraction, delta: Fraction) -> Left:
    """Return what is left, rounded down."""
    left = down(amount)
    return Left(left, 0.0, down(delta)) if pure else Left(0.0, left, down(delta))


class Total(NamedTuple):
    """What a filter may spend.

    Attributes
    ----------
    pure : bool
        Whether epsilons of pure DP add up; otherwise rho does.
    amount : Fraction
        Of epsilon or of rho, exactly.
    thresholds : Fraction
        The part of delta that is for thresholds.
    epsilon, delta, rho : float
        What follows, rounded; rho is 0 in pure DP.
    """

    pure: bool
    amount: Fraction
    thresholds: Fraction
    epsilon: float
    delta: float
    rho: float

    @classmethod
    def of(
        cls,
        *,
        epsilon: float | Exact | None,
        rho: float | Exact | None,
        delta: float | Exact,
        delta_split: float | Exact,
    ) -> Total:
        """Check the arguments of a filter."""
        if (epsilon is None) == (rho is None):
            raise TypeError("give either epsilon or rho, the total, not both")
        most = probability("delta", delta, zero=True)
        probability("delta_split", delta_split, zero=False)
        thresholds = exact(delta) * exact(delta_split)
        composition = down(exact(delta) - thresholds)
        if most > 0.0 and composition == 0.0:
            raise ValueError(f"delta is too small to share, got {delta}")
        whole = _stated(most, delta)
        if rho is not None:
            least, amount = positive("rho", rho), exact(rho)
            follows = epsilon_of_rho(up(amount), composition) if composition else math.inf
            return cls(False, amount, thresholds, max(0.0, follows), whole, least)
        given = positive("epsilon", epsilon)
        if most == 0.0:
            return cls(True, exact(epsilon), thresholds, _stated(given, epsilon), whole, 0.0)
        least = rho_of(given, composition)
        return cls(False, Fraction(least), thresholds, given, whole, least)

    def texts(self) -> dict[str, Any]:
        """Return what a ledger keeps of it; `of_texts` returns the same total."""
        floats = {name: getattr(self, name).hex() for name in ("epsilon", "delta", "rho")}
        exacts = {name: str(getattr(self, name)) for name in ("amount", "thresholds")}
        return {"pure": self.pure, **exacts, **floats}

    def plain(self) -> dict[str, Any]:
        """Return the total as plain numbers and strings."""
        exacts = {name: str(getattr(self, name)) for name in ("amount", "thresholds")}
        return {**self._asdict(), **exacts}

    @classmethod
    def of_texts(cls, texts: Mapping[str, Any]) -> Total:
        """Return the total that has these."""
        amount, thresholds = (Fraction(texts[name]) for name in ("amount", "thresholds"))
        epsilon, delta, rho = (float.fromhex(texts[name]) for name in ("epsilon", "delta", "rho"))
        return cls(texts["pure"], amount, thresholds, epsilon, delta, rho)

    def cost(self, what: str) -> Cost:
        """Return the whole total as a cost."""
        theorem = PURE if self.pure else ZCDP
        rho = None if self.pure else up(self.amount)
        return Cost(self.epsilon, self.delta, f"{what}: {theorem}", rho)


def _stated(nearest: float, value: Any) -> float:
    """Return the double that a cost says: a float stands for the decimal that it prints as."""
    return up(exact(value)) if isinstance(value, (int, Fraction, Decimal)) else nearest


@lru_cache(maxsize=256)
def rho_of(epsilon: float, delta: float) -> float:
    """Return about the largest rho such that rho-zCDP is (epsilon, delta)-DP, rounded down."""
    guess = epsilon / 4 / (1 - math.log(delta) / epsilon)  # no square: it may be past all floats

    def total(rho: float) -> float:
        return epsilon_of_rho(rho, delta)

    found = largest(total, epsilon, max(guess, 1e-300), ulps=4)
    if found == 0.0:
        raise ValueError(f"epsilon and delta are too small, got {epsilon} and {delta}")
    return found
