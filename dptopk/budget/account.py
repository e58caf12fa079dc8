"""Where a session's budget is kept: in the process, or in a `Ledger`."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol

from dptopk.accounting.prices import price as price_of
from dptopk.budget.book import Book, Price, Released
from dptopk.budget.lines import Amounts
from dptopk.budget.record import check_labels
from dptopk.budget.terms import Remaining, Terms
from dptopk.errors import BudgetError
from dptopk.histogram import Histogram, Histograms

__all__ = ["Account", "LedgerAccount", "ProcessAccount", "check", "remaining_in"]


class Account(Protocol):
    """Where a session's budget is kept: in the process, or in a `Ledger`."""

    periods: int

    def remaining(self) -> Remaining:
        """Return what is left, less what calls under way have reserved."""

    def affords(self) -> Remaining:
        """Return what a call may take: what is left, here and in a cap above."""

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> Released | None:
        """Return the release of an earlier request, if this is one."""

    def check_labels(self, h: Histogram | Histograms) -> None:
        """Raise TypeError if labels can't be recorded with what they were released for."""

    def reserve(
        self, outcomes: int, calls: int, request_id: str | None, call: Mapping[str, Any]
    ) -> int | Released:
        """Charge, or raise BudgetError; a Release if the request has been answered before."""

    def settle(self, ticket: int, outcomes: int, calls: int, released: Released) -> Released:
        """Keep as much of the charge as `outcomes`; record what it was for, and return it."""


class ProcessAccount(Account):
    """A budget that ends with its process."""

    periods = 1

    def __init__(self, terms: Terms):
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._outcomes, self._calls = terms.k_star, terms.calls
        self._reserved: dict[int, int] = {}
        self._tickets = 0

    def remaining(self) -> Remaining:
        """Return what is left, nothing after a fork."""
        if os.getpid() != self._pid:
            return Remaining(0, 0)
        with self._lock:
            return Remaining(self._outcomes, self._calls)

    def affords(self) -> Remaining:
        """Return what is left."""
        return self.remaining()

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> Released | None:
        """Refuse: nothing is recorded here."""
        raise ValueError("request_id needs a session that is bound to a Ledger")

    def check_labels(self, h: Histogram | Histograms) -> None:
        """Take any labels: nothing is recorded here."""

    def reserve(
        self, outcomes: int, calls: int, request_id: str | None, call: Mapping[str, Any]
    ) -> int:
        """Charge."""
        if os.getpid() != self._pid:
            raise BudgetError(
                "this session was opened before a fork: each process would spend the whole of it; "
                "bind sessions to a Ledger to share a budget among processes"
            )
        with self._lock:
            check(Remaining(self._outcomes, self._calls), outcomes, calls)
            self._outcomes -= outcomes
            self._calls -= calls
            self._tickets += 1
            self._reserved[self._tickets] = outcomes
            return self._tickets

    def settle(self, ticket: int, outcomes: int, calls: int, released: Released) -> Released:
        """Give back what was reserved and did not come."""
        if os.getpid() != self._pid:
            raise BudgetError("the process was forked while this was drawn: it is the parent's")
        with self._lock:
            self._outcomes += self._reserved.pop(ticket) - outcomes
        return released


def check(left: Remaining, outcomes: int, calls: int) -> None:
    """Raise BudgetError if this much is not left."""
    if calls > left.calls:
        raise BudgetError(
            "no call is left in this session; what came out of it may still be used, and more "
            "needs another budget, which adds to this one"
        )
    if outcomes > left.outcomes:
        raise BudgetError(
            f"the call may cost {outcomes} outcomes, and {left.outcomes} are left in this session"
        )


class LedgerAccount(Account):
    """A budget of a ledger, as a session spends it.

    Under a cap each outcome costs it the rho of a bounded-range step, and each call the
    delta of its threshold.
    """

    def __init__(self, book: Book, name: str, terms: Terms, capped: bool):
        self._book, self._name = book, name
        self._above: Amounts = {}
        if capped:
            step = price_of(Fraction(terms.epsilon_step), "bounded_range")
            self._above = {"rho": step, "delta": Fraction(terms.delta_threshold)}

    @property
    def periods(self) -> int:  # type: ignore[override]
        """How many periods there have been."""
        return self._book.state(self._name).periods

    def check_labels(self, h: Histogram | Histograms) -> None:
        """Refuse labels that can't be recorded."""
        check_labels(h)

    def remaining(self) -> Remaining:
        """Return what is left."""
        return remaining_in(self._book.state(self._name).left)

    def affords(self) -> Remaining:
        """Return what is left, but no more than what is left of the cap pays for."""
        ours, above = self._book.left(self._name)
        times = {unit: int(above[unit] // each) for unit, each in self._above.items() if each}
        left = remaining_in(ours)
        return Remaining(
            min(left.outcomes, times.get("rho", left.outcomes)),
            min(left.calls, times.get("delta", left.calls)),
        )

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> Released | None:
        """Return the release of an earlier request, None if it is new."""
        return self._book.recorded(self._name, request_id, call)

    def reserve(
        self, outcomes: int, calls: int, request_id: str | None, call: Mapping[str, Any]
    ) -> int | Released:
        """Charge what a call may cost, on disk."""
        price = self._price(outcomes, calls)
        return self._book.charge(self._name, price, _check, call, request_id=request_id)

    def settle(self, ticket: int, outcomes: int, calls: int, released: Released) -> Released:
        """Record the release and give back what it did not cost, on disk."""
        return self._book.settle(self._name, ticket, self._price(outcomes, calls), released)

    def _price(self, outcomes: int, calls: int) -> Price:
        amounts = {"outcomes": Fraction(outcomes), "calls": Fraction(calls)}
        times = {"rho": outcomes, "delta": calls}
        return Price(amounts, {unit: times[unit] * each for unit, each in self._above.items()})


def remaining_in(left: Amounts) -> Remaining:
    """Return what is left of a session's budget."""
    return Remaining(int(left["outcomes"]), int(left["calls"]))


def _check(left: Amounts, amounts: Amounts) -> None:
    check(remaining_in(left), int(amounts["outcomes"]), int(amounts["calls"]))
