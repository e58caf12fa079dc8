"""Several calls of `weighted` under one filter: what they cost together.

So many equal calls of one histogram, where a user has t items and u of them alone, are
one call where they have so many times t, and u: the noise of each is its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dptopk.accounting.inverse import largest
from dptopk.accounting.prices import laplace_rho
from dptopk.accounting.weights import ONE
from dptopk.budget.filter import Filter
from dptopk.histogram import Histogram
from dptopk.reference import weighted as reference
from dptopk.rng import SeededRng
from dptopk.rounding import down
from dptopk.verification.privacy import RELATIVE
from dptopk.verification.registry import Verdict
from dptopk.verification.users import DELTA, EPSILON, ITEMS, Array, Model, UserCheck

__all__ = ["Budget", "CallsCheck", "FormulaCheck", "drawn"]


@dataclass(frozen=True)
class Budget:
    """A filter that is used up by so many equal calls.

    A twin has calls that pay for less than they take: `rho_taken` and `delta_taken` say how
    many times what was paid.
    """

    epsilon: float = EPSILON
    delta: float = DELTA
    split: float = 0.5
    calls: int = 2
    rho_taken: int = 1
    delta_taken: int = 1

    def model(self, norm: str, soft_cap: int, *, known: bool = False, most: int = ITEMS) -> Model:
        """Return what each call does, as the release of the last one says."""
        budget = Filter(epsilon=self.epsilon, delta=self.delta, delta_split=self.split)
        whole = budget.remaining
        rho = Fraction(whole.rho) * self.rho_taken / self.calls
        delta = Fraction(whole.delta) * self.delta_taken / self.calls
        if self.rho_taken > 1 or self.delta_taken > 1:
            budget = Filter(rho=100 * rho * self.calls, delta=0.9)
        h = Histogram.from_weights(
            [9 * ONE] * most, list(range(most)), soft_cap=soft_cap, norm=norm,  # type: ignore[arg-type]
            max_items_per_user=most, domain_is_public=known,
        )  # fmt: skip
        l2 = norm == "l2"
        for _ in range(self.calls):
            release = budget.weighted(
                h, k=1, rho=rho if l2 else None, epsilon=None if l2 else _epsilon_of(rho),
                delta_threshold=0 if known else delta, rng=SeededRng(1),
            )  # fmt: skip
        said = release.parameters
        return Model(norm, soft_cap, said["scale"], said["threshold"])


def _epsilon_of(rho: Fraction) -> Fraction:
    """Return about the largest epsilon of Laplace noise that costs so much."""
    return Fraction(largest(laplace_rho, down(rho), math.sqrt(2 * rho), ulps=4))


@dataclass(frozen=True)
class CallsCheck(UserCheck):
    """Every small data set and every user, with as many calls as the filter pays for.

    By the order of what comes out, and by the noisy sums of users with one item.
    """

    calls: int = 2

    def _cost(self, p: Array, q: Array) -> float:
        if p.size > 500:
            return 0.0
        together = [np.ones(1), np.ones(1)]
        for _ in range(self.calls):
            together = [
                np.multiply.outer(so_far, side).ravel()
                for so_far, side in zip(together, (p, q), strict=True)
            ]
        return super()._cost(*together)


@dataclass(frozen=True)
class FormulaCheck:
    """The exact cost of the calls of a filter, at real budgets and every t and u."""

    label: str
    budgets: tuple[Budget, ...]
    attains: float = 0.0  #: of the thresholds' part
    quick: bool = True

    def run(self) -> Verdict:
        """Find the worst user of each budget."""
        lowest, highest = math.inf, 0.0
        for budget in self.budgets:
            for soft_cap, most in ((1, 1), (1, 8), (3, 8)):
                model = budget.model("l2", soft_cap, most=most)
                cost = partial(
                    reference.user_cost, budget.epsilon, scale=model.scale,
                    threshold=model.threshold or 0.0,
                )  # fmt: skip
                worst = max(
                    max(cost(weight=model.adds(t), items=budget.calls * t, alone=budget.calls * u))
                    for t in range(1, most + 1)
                    for u in range(t + 1)
                )
                share = worst / budget.delta
                lowest = min(lowest, share / budget.split)
                highest = max(highest, share)
        good = highest <= 1 + RELATIVE and lowest >= self.attains
        return Verdict(good, f"at most {highest:.4f} of delta, at least {lowest:.5f} of its part")


def drawn(
    data: Callable[[Any], Histogram], counts: Any, draws: int, seed: int, *, budget: Budget
) -> Iterator[tuple[Any, ...]]:
    """Draw each time from a filter of its own."""
    rng, h = SeededRng(seed), data(counts)
    whole = Filter(epsilon=budget.epsilon, delta=budget.delta, delta_split=budget.split).remaining
    rho = Fraction(whole.rho) / budget.calls
    delta = Fraction(whole.delta) / budget.calls
    for _ in range(draws):
        payer = Filter(epsilon=budget.epsilon, delta=budget.delta, delta_split=budget.split)
        yield payer.weighted(h, k=2, rho=rho, delta_threshold=delta, rng=rng).items
