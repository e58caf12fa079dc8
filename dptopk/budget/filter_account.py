"""Where a filter's budget is kept: in the process, or in a `Ledger`."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol

from dptopk.budget.book import Book, Price, Released
from dptopk.budget.exact import told_apart
from dptopk.budget.lines import Amounts
from dptopk.budget.record import check_labels
from dptopk.budget.total import Total
from dptopk.errors import BudgetError, LedgerConflictError
from dptopk.histogram import Histogram, Histograms

__all__ = ["FilterAccount", "LedgerFilterAccount", "ProcessFilterAccount", "amounts_of", "check"]


def amounts_of(pure: bool, price: Fraction, delta: Fraction) -> Amounts:
    """Return amounts by the units of a filter."""
    return {"epsilon" if pure else "rho": price, "delta": delta}


def check(left: Amounts, amounts: Amounts, where: str = "this filter") -> None:
    """Raise BudgetError if this is not left."""
    for unit, amount in amounts.items():
        if amount <= left[unit]:
            continue
        asked, rest = told_apart(amount, left[unit])
        if unit == "delta":
            raise BudgetError(f"the call costs a delta of {asked}, and {rest} is left in {where}")
        raise BudgetError(f"the call may cost {unit} = {asked}, and {rest} is left in {where}")


class FilterAccount(Protocol):
    """Where a filter's budget is kept.

    `thresholds` is the largest part of a delta that is for thresholds, its own or of a cap.
    """

    periods: int
    thresholds: Fraction

    def left(self) -> tuple[Fraction, Fraction]:
        """Return what is left of epsilon or rho, and of delta."""

    def affords(self) -> tuple[Fraction, Fraction]:
        """Return what a call may take: what is left, here and in a cap above."""

    def check_labels(self, h: Histogram | Histograms | None) -> None:
        """Raise TypeError if labels can't be recorded with what they were released for."""

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> Released | None:
        """Return the release of an earlier request, if this is one."""

    def reserve(
        self,
        price: Fraction,
        delta: Fraction,
        call: Mapping[str, Any],
        request_id: str | None = None,
        *,
        paid: bool = False,
    ) -> int | Released:
        """Charge, or raise BudgetError; a Release if the request has been answered before."""

    def settle(self, ticket: int, price: Fraction, delta: Fraction, released: Released) -> Released:
        """Keep this much of the charge; record what it was for, and return it."""


class ProcessFilterAccount(FilterAccount):
    """A budget that ends with its process."""

    periods = 1

    def __init__(self, total: Total):
        self.thresholds = total.thresholds
        self._pure = total.pure
        self._left = amounts_of(total.pure, total.amount, total.thresholds)
        self._lock, self._pid = threading.Lock(), os.getpid()
        self._reserved: dict[int, Fraction] = {}
        self._tickets = 0

    def left(self) -> tuple[Fraction, Fraction]:
        """Return what is left, nothing after a fork."""
        if os.getpid() != self._pid:
            return Fraction(0), Fraction(0)
        with self._lock:
            price, delta = self._left.values()
            return price, delta

    def affords(self) -> tuple[Fraction, Fraction]:
        """Return what is left."""
        return self.left()

    def check_labels(self, h: Histogram | Histograms | None) -> None:
        """Take any labels: nothing is recorded here."""

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> Released | None:
        """Refuse: nothing is recorded here."""
        raise ValueError("request_id needs a filter that is bound to a Ledger")

    def reserve(
        self,
        price: Fraction,
        delta: Fraction,
        call: Mapping[str, Any],
        request_id: str | None = None,
        *,
        paid: bool = False,
    ) -> int:
        """Charge."""
        if os.getpid() != self._pid:
            raise BudgetError(
                "this filter was opened before a fork: each process would spend the whole of it; "
                "bind filters to a Ledger to share a budget among processes"
            )
        amounts = amounts_of(self._pure, price, delta)
        with self._lock:
            check(self._left, amounts)
            for unit, amount in amounts.items():
                self._left[unit] -= amount
            self._tickets += 1
            if not paid:
                self._reserved[self._tickets] = price
            return self._tickets

    def settle(self, ticket: int, price: Fraction, delta: Fraction, released: Released) -> Released:
        """Give back what was reserved and did not come."""
        if os.getpid() != self._pid:
            raise BudgetError("the process was forked while this was drawn: it is the parent's")
        with self._lock:
            self._left["epsilon" if self._pure else "rho"] += self._reserved.pop(ticket) - price
        return released


class LedgerFilterAccount(FilterAccount):
    """A budget of a ledger, as a filter spends it."""

    def __init__(self, book: Book, name: str, total: Total, cap: Total | None):
        self._book, self._name, self._pure, self._cap = book, name, total.pure, cap
        self.thresholds = total.thresholds if cap is None else max(total, cap, key=_d).thresholds

    @property
    def periods(self) -> int:  # type: ignore[override]
        """How many periods there have been."""
        return self._book.state(self._name).periods

    def left(self) -> tuple[Fraction, Fraction]:
        """Return what is left."""
        left = self._book.state(self._name).left
        return left["epsilon" if self._pure else "rho"], left["delta"]

    def affords(self) -> tuple[Fraction, Fraction]:
        """Return what is left, but no more than what is left of the cap."""
        ours, above = self._book.left(self._name)
        price, delta = (
            min(ours[unit], above.get(unit, ours[unit]))
            for unit in ("epsilon" if self._pure else "rho", "delta")
        )
        return price, delta

    def check_labels(self, h: Histogram | Histograms | None) -> None:
        """Refuse labels that can't be recorded."""
        if h is not None:
            check_labels(h)

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> Released | None:
        """Return the release of an earlier request, None if it is new."""
        return self._book.recorded(self._name, request_id, call)

    def reserve(
        self,
        price: Fraction,
        delta: Fraction,
        call: Mapping[str, Any],
        request_id: str | None = None,
        *,
        paid: bool = False,
    ) -> int | Released:
        """Charge, on disk."""
        return self._book.charge(
            self._name, self._price(price, delta), check, call, request_id=request_id, paid=paid
        )

    def settle(self, ticket: int, price: Fraction, delta: Fraction, released: Released) -> Released:
        """Record the release and give back what it did not cost, on disk."""
        return self._book.settle(self._name, ticket, self._price(price, delta), released)

    def _price(self, price: Fraction, delta: Fraction) -> Price:
        amounts = amounts_of(self._pure, price, delta)
        return Price(amounts, amounts if self._cap is not None else {})


def _d(total: Total) -> Fraction:
    return total.thresholds


def check_cap(cap: Total, pure: bool) -> None:
    """Refuse a cap that counts otherwise than the budgets under it."""
    if cap.pure != pure:
        ours, its = ("pure DP", "rho") if pure else ("rho", "pure DP")
        raise LedgerConflictError(f"a budget that counts in {ours} can't have a cap in {its}")
