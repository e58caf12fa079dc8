"""The price of calls that are planned: each is checked and stopped where it would be charged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from dptopk._validate import choice
from dptopk.budget.account import Account
from dptopk.budget.filter_account import FilterAccount
from dptopk.budget.terms import Remaining

__all__ = [
    "FILTER_CALLS",
    "SESSION_CALLS",
    "Batch",
    "FilterQuote",
    "Quoted",
    "SessionQuote",
    "run_all",
]

SESSION_CALLS = ("limited_domain", "peel", "joint", "canonical", "noisy_max")
FILTER_CALLS = (*SESSION_CALLS, "weighted")


class Batch(NamedTuple):
    """What a batch of calls may cost at most.

    Attributes
    ----------
    amounts : dict of Fraction
        By unit, exactly: outcomes and calls of a session; epsilon or rho, and delta, of a
        filter.
    fits : bool
        Whether so much is left. What others spend in between is not known.
    """

    amounts: dict[str, Fraction]
    fits: bool


class Quoted(Exception):
    """The call would be charged now."""


def run_all(
    twin: Any, calls: Iterable[tuple[str, Any, Mapping[str, Any]]], names: Collection[str]
) -> None:
    """Run calls of a session or filter whose account quotes their price."""
    for call in calls:
        if not isinstance(call, tuple) or len(call) != 3:
            raise TypeError("each call must be a tuple of mechanism, counts and options")
        mechanism, counts, options = call
        mechanism = choice("mechanism", mechanism, names)
        try:
            getattr(twin, mechanism)(counts, **options)
        except Quoted:
            continue
        raise AssertionError


class FilterQuote:
    """The account of a filter that adds up what is asked of it, and charges nothing."""

    def __init__(self, account: FilterAccount):
        self._account, self.thresholds = account, account.thresholds
        self.asked = (Fraction(0), Fraction(0))

    def check_labels(self, h: Any) -> None:
        """Refuse what the account refuses."""
        self._account.check_labels(h)

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> None:
        """Take every request for a new one."""

    def reserve(
        self, price: Fraction, delta: Fraction, call: Any, request_id: Any = None, **_: Any
    ) -> int:
        """Add it up."""
        self.asked = (self.asked[0] + price, self.asked[1] + delta)
        raise Quoted


class SessionQuote:
    """The same of a session; "rest" is what the calls before it leave."""

    def __init__(self, account: Account):
        self._account = account
        self.asked = Remaining(0, 0)

    def affords(self) -> Remaining:
        """Return what would be left."""
        left = self._account.affords()
        return Remaining(left.outcomes - self.asked.outcomes, left.calls - self.asked.calls)

    def check_labels(self, h: Any) -> None:
        """Refuse what the account refuses."""
        self._account.check_labels(h)

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> None:
        """Take every request for a new one."""

    def reserve(self, outcomes: int, calls: int, request_id: Any, call: Any) -> int:
        """Add it up."""
        self.asked = Remaining(self.asked.outcomes + outcomes, self.asked.calls + calls)
        raise Quoted
