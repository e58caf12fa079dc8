"""What sessions, filters and sparse_vector charge, against what their calls take.

No law shows a cost that is not charged. So every call is made once, what is left is read
before and after, and the difference must cover the call's own price, computed here anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dptopk.budget.filter import Filter
from dptopk.budget.session import Session
from dptopk.mechanisms.sparse_vector import SparseVector
from dptopk.rng import SeededRng
from dptopk.verification.draws import at_least, histogram_of, outcome_of, steps
from dptopk.verification.privacy import RELATIVE
from dptopk.verification.registry import Entry, Verdict

COUNTS = (9, 7, 4, 2, 0)
STEP, THRESHOLD = 0.5, 1e-3  # what a step and a threshold of a filter take
LOW = 1 - RELATIVE

Paid = tuple[float, ...]


@dataclass(frozen=True)
class ChargeCheck:
    """What was charged for a call, and what it takes."""

    label: str
    call: Callable[[], tuple[Paid, Paid]]  #: (charged, taken), part by part
    quick: bool = True

    def run(self) -> Verdict:
        """Compare part by part."""
        charged, taken = self.call()
        passed = all(c >= LOW * t for c, t in zip(charged, taken, strict=True))
        return Verdict(passed, f"charged {_shown(charged)} for {_shown(taken)}")


@dataclass(frozen=True)
class Call:
    """A method by name, its arguments, over which domain; whether it has a threshold."""

    method: str
    known: bool = True
    threshold: bool = False
    options: tuple[tuple[str, Any], ...] = ()

    def taken(self, release: Any) -> tuple[int, int]:
        """Return the steps and thresholds of what came out, BOT included."""
        one = self.method in ("joint", "canonical", "noisy_max")
        outcomes = 1 if one else len(outcome_of(release))
        private = ("k_bar", "private") in self.options  # a choice of its own
        return outcomes + private, int(self.threshold)


CALLS = (
    Call("limited_domain", False, True, (("k", 2),)),
    Call("limited_domain", False, True, (("k", 4), ("k_bar", "private"))),
    Call("limited_domain", True, False, (("k", 3), ("k_bar", 5))),
    Call("peel", options=(("k", 3),)),
    Call("joint", options=(("k", 2),)),
    Call("canonical", options=(("k", 2),)),
    Call("noisy_max"),
)


def _charged(budget: Any, call: Call, **more: Any) -> tuple[Any, Any, Any]:
    h = histogram_of(COUNTS, known=call.known, k_bar=5)
    before = budget.remaining
    release = getattr(budget, call.method)(h, rng=SeededRng(3), **dict(call.options), **more)
    return before, budget.remaining, release


def _session(call: Call, part: float = 1.0) -> tuple[Paid, Paid]:
    budget = Session(k_star=12, calls=3, epsilon=6.0, delta=0.01)
    before, after, release = _charged(budget, call)
    charged = (before.outcomes - after.outcomes, before.calls - after.calls)
    return tuple(part * c for c in charged), call.taken(release)


def _filter(call: Call, part: float = 1.0) -> tuple[Paid, Paid]:
    budget = Filter(epsilon=6.0, delta=0.01)
    more = {"epsilon_step": STEP}
    if call.method == "limited_domain":
        more["delta_threshold"] = THRESHOLD
    before, after, release = _charged(budget, call, **more)
    number, thresholds = call.taken(release)
    charged = (before.rho - after.rho, before.delta - after.delta)
    return (
        tuple(part * c for c in charged),
        (number * _bounded_range(STEP), thresholds * THRESHOLD),
    )


def _bounded_range(epsilon: float) -> float:
    """Return the mean loss of a bounded-range step, which its zCDP is."""
    x = epsilon / math.expm1(epsilon)
    return x - 1 - math.log(x)


def _budgets() -> Iterator[ChargeCheck]:
    for call in CALLS:
        options = ", ".join(f"{name}={value}" for name, value in call.options)
        for budget, charge in (("session", _session), ("filter", _filter)):
            yield ChargeCheck(f"{budget}.{call.method}({options})", partial(charge, call))


@dataclass(frozen=True)
class StatedCheck:
    """A cost that is stated, and whether it covers what was proved."""

    label: str
    cost: Callable[[], Any]
    covers: Callable[[Any], bool]
    quick: bool = True

    def run(self) -> Verdict:
        """Read the cost."""
        cost = self.cost()
        return Verdict(self.covers(cost), f"said to cost ({cost.epsilon:g}, {cost.delta:g})")


def _whole_session(**changes: Any) -> Any:
    terms = {"k_star": 3, "calls": 2, "epsilon": 3.0, "delta": 2e-3, "method": "basic"}
    return Session(**{**terms, "delta_split": 1.0, **changes}).cost


def _tests(epsilon: float = 1.0, answers: float | None = None) -> Any:
    tests = SparseVector(
        epsilon=epsilon, threshold=3, hits=2, rng=SeededRng(0), answers_epsilon=answers
    )
    tests.test_all(np.array([5, 1, 6]))
    return tests.cost


def _stated() -> Iterator[StatedCheck]:
    yield StatedCheck("Session of 3 steps and 2 thresholds", _whole_session, steps(3, 1.0, 2e-3))
    yield StatedCheck("SparseVector", _tests, at_least(1.0))
    yield StatedCheck("SparseVector, with answers", partial(_tests, answers=0.5), at_least(1.5))


ENTRY = Entry(
    "charges",
    checks=(*_budgets(), *_stated()),
    broken=(
        ChargeCheck("session: half of the outcomes", partial(_session, CALLS[0], part=0.5)),
        ChargeCheck("filter: half of the price", partial(_filter, CALLS[0], part=0.5)),
        ChargeCheck("session: one pick fewer", partial(_session, CALLS[3], part=2 / 3)),
        ChargeCheck("filter: e^2 / 9 for a step", partial(_filter, CALLS[3], part=8 / 9)),
        StatedCheck(
            "a session of two steps", partial(_whole_session, k_star=2, epsilon=2.0),
            steps(3, 1.0, 2e-3),
        ),
        StatedCheck("SparseVector without its answers", _tests, at_least(1.5)),
    ),
)  # fmt: skip


def _shown(paid: Paid) -> str:
    return " and ".join(f"{part:.6g}" for part in paid)
