"""Users who may come or go: what `weighted` promises of them, checked in every way there is.

All sums, scales and thresholds here are in users.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import signal

from dptopk.accounting.weighted import weighted_noise
from dptopk.accounting.weights import ONE, weight
from dptopk.reference import weighted as reference
from dptopk.reference.noise import LAWS
from dptopk.verification.privacy import RELATIVE, hockey_stick
from dptopk.verification.registry import Verdict

__all__ = [
    "DELTA",
    "EPSILON",
    "ITEMS",
    "Array",
    "BoundCheck",
    "CostCheck",
    "Model",
    "PlanCheck",
    "UserCheck",
    "model_of",
]

Array = npt.NDArray[np.float64]

EPSILON, DELTA = 1.0, 0.05
ITEMS = 3
LEVELS = (0, 1, 2, 9)  # users of one item each that an item has: 0 is nobody, 9 passes mostly
FINE = 2048  # cells of a scale, in the sums that enclose a hockey stick


@dataclass(frozen=True)
class Model:
    """A mechanism of this kind: right, or with a mistake in it."""

    norm: str
    soft_cap: int
    scale: float
    threshold: float | None  #: None: a known domain
    weight: Callable[..., float] = weight  #: in units of 1 / ONE
    noise: str = ""  #: that of the norm if empty
    least_users: int = 0  #: an item comes out if so many have it, whatever the noise

    @property
    def law(self) -> str:
        """The noise."""
        return self.noise or ("laplace" if self.norm == "l1" else "gaussian")

    def adds(self, items: int) -> float:
        """Return what a user adds to each of so many items."""
        return self.weight(items, soft_cap=self.soft_cap, norm=self.norm) / ONE


def model_of(
    norm: str, soft_cap: int, *, known: bool, items: int = ITEMS, epsilon: float = EPSILON,
    delta: float = DELTA,
) -> Model:  # fmt: skip
    """Return the mechanism as it is, at a budget."""
    plan = weighted_noise(
        epsilon=epsilon,
        delta=delta,
        soft_cap=soft_cap,
        norm=norm,
        max_items_per_user=items,
        known_domain=known,
    )
    bar = None if plan.threshold is None else plan.threshold / ONE
    return Model(norm, soft_cap, plan.scale / ONE, bar)


# ---- every small data set, and every user who may come or go


@dataclass(frozen=True)
class UserCheck:
    """All sums of a small domain, and every set of items of one user more, both ways.

    Once for the noisy sums, whose outcomes are cells of the line, and once for the order
    alone, by its exact law.
    """

    label: str
    model: Model
    delta: float
    attains: float = 0.0
    orders: tuple[int | None, ...] = (None, 1, 2)
    quick: bool = True

    def run(self) -> Verdict:
        """Find the worst user."""
        worst, where = 0.0, ""
        for kind, found in (*self._by_values(), *self._by_order()):
            if found > worst:
                worst, where = found, kind
        claim = self.delta or 1.0  # of a pure claim the loss, as a share of epsilon
        good = self.attains <= worst / claim and worst <= claim * (1 + RELATIVE) + 1e-13
        what = "delta" if self.delta else "loss over epsilon"
        return Verdict(good, f"{what} {worst:.6g}, {worst / claim:.2%} of the claim: {where}")

    def _cost(self, p: Array, q: Array) -> float:
        if self.delta:
            return float(hockey_stick(p, q, EPSILON))
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = np.where(p > 1e-290, np.log(p) - np.log(q), 0.0)
        return float(loss.max()) / EPSILON

    def _by_values(self) -> Iterator[tuple[str, float]]:
        """Items no part of which the user has are alike on both sides: left out."""
        for size in range(1, ITEMS + 1):
            for levels in itertools.combinations_with_replacement(LEVELS, size):
                pairs = [self._cells(level, self.model.adds(size)) for level in levels]
                with_user, without = (_product(side) for side in zip(*pairs, strict=True))
                at = f"values, the user has items of {levels} others"
                yield f"{at}, added", self._cost(with_user, without)
                yield f"{at}, removed", self._cost(without, with_user)

    def _cells(self, level: int, added: float) -> tuple[Array, Array]:
        """Chances of where a noisy sum is, with the user and without; the first: nowhere."""
        model = self.model
        bar = model.threshold
        if model.least_users or bar is None:
            bar = -8 * model.scale
        width = model.scale / 6 if self.delta else 2 * model.scale
        edges = np.arange(bar, LEVELS[-1] + 1 + 8 * model.scale, width)
        out = [
            self._masses(level + 1, level + added, edges),
            self._masses(level, float(level), edges),
        ]
        return out[0], out[1]

    def _masses(self, users: int, total: float, edges: Array) -> Array:
        model = self.model
        missing = users == 0 and model.threshold is not None
        if missing or users < model.least_users:
            return np.array([1.0] + [0.0] * edges.size)
        law, z = LAWS[model.law], (edges - total) / model.scale
        # On the side where nothing cancels.
        above, below = law.above(z), law.below(z)
        inner = np.where(z[1:] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
        return np.array([below[0], *inner, above[-1]])

    def _by_order(self) -> Iterator[tuple[str, float]]:
        if self.model.least_users:
            return
        for k in self.orders:
            if k is None and self.model.threshold is None:
                k = ITEMS
            laws: dict[tuple[float, ...], dict[Any, float]] = {}
            for levels in itertools.combinations_with_replacement(LEVELS, ITEMS):
                for size in range(1, ITEMS + 1):
                    for items in itertools.combinations(range(ITEMS), size):
                        added = self.model.adds(size)
                        sums = [float(level) for level in levels]
                        more = [s + added * (i in items) for i, s in enumerate(sums)]
                        with_user = self._law(tuple(more), k, laws)
                        without = self._law(tuple(sums), k, laws)
                        names = sorted({*with_user, *without})
                        p = np.array([with_user.get(name, 0.0) for name in names])
                        q = np.array([without.get(name, 0.0) for name in names])
                        at = f"order, k={k}, {levels}, the user has {items}"
                        yield f"{at}, added", self._cost(p, q)
                        yield f"{at}, removed", self._cost(q, p)

    def _law(
        self, sums: tuple[float, ...], k: int | None, laws: dict[Any, dict[Any, float]]
    ) -> dict[Any, float]:
        if sums not in laws:
            model = self.model
            there = {
                i: total for i, total in enumerate(sums) if total > 0 or model.threshold is None
            }
            laws[sums] = reference.law(
                there, k=k, scale=model.scale, noise=model.law, threshold=model.threshold
            )
        return laws[sums]


def _product(sides: Iterable[Array]) -> Array:
    whole = np.ones(1)
    for side in sides:
        whole = np.multiply.outer(whole, side).ravel()
    return whole


# ---- the formula of a user's cost


@dataclass(frozen=True)
class CostCheck:
    """The formula against sums over fine cells of the line, for 1 to 4 items.

    The loss of a coordinate is linear in its noise, so that losses of cells add up on a
    grid: each hockey stick is enclosed between those of the cells' two ends.
    """

    label: str
    formula: Callable[..., tuple[float, float]]
    quick: bool = True

    def run(self) -> Verdict:
        """Compare every t and u; and look at how wide the enclosures are."""
        widest = 0.0
        for soft_cap, (scale, bar) in itertools.product((1, 2), ((1.3, 3.0), (2.0, 2.5))):
            for items in range(1, 5):
                added = weight(items, soft_cap=soft_cap) / ONE
                for alone in range(items + 1):
                    found = self.formula(
                        EPSILON, weight=added, items=items, alone=alone, scale=scale,
                        threshold=bar,
                    )  # fmt: skip
                    ends = _enclosed(added, items - alone, alone, scale, bar)
                    for value, (low, high) in zip(found, ends, strict=True):
                        widest = max(widest, high - low)
                        if not low - 1e-12 <= value <= high + 1e-12:
                            at = f"t={items}, u={alone}, tau={soft_cap}"
                            return Verdict(False, f"{value:.9g} not in {low:.9g}..{high:.9g}: {at}")
        return Verdict(widest < 5e-4, f"within enclosures of at most {widest:.2g}")


def _enclosed(
    added: float, others: int, alone: int, scale: float, bar: float
) -> list[tuple[float, float]]:
    """Bounds of delta when a user is added, and removed."""
    law, shift = LAWS["gaussian"], added / scale
    edges = np.arange(-9.0, 9.0 + shift, 1 / FINE)
    missed = float(law.below(np.array((bar - added) / scale))) ** alone
    bounds = []
    for sign in (1, -1):  # under the law with the user, and without
        z = edges - (shift if sign == 1 else 0.0)
        mass = np.diff(law.below(z))
        loss = sign * (shift * edges - 0.5 * shift * shift)  # of one coordinate, at edges
        chances, first, step = np.ones(1), 0.0, abs(shift) / FINE
        for _ in range(others):
            chances = signal.fftconvolve(chances, mass if sign == 1 else mass[::-1])
            first += float(loss.min())
        losses = first + step * np.arange(chances.size)
        # What the grid leaves out has a weight of 1e-17.
        if sign == 1:
            extra, factor, shown = math.log(missed), missed, 1.0 - missed
        else:
            extra, factor, shown = -math.log(missed), 1.0, 0.0
        ends = [
            shown
            + factor * float((chances * -np.expm1(np.minimum(EPSILON - at - extra, 0.0))).sum())
            for at in (losses, losses + others * step)
        ]
        bounds.append((ends[0], ends[1]))
    return bounds


@dataclass(frozen=True)
class PlanCheck:
    """The threshold against the formula, for every t and every u up to a bound."""

    label: str
    bar: Callable[[Model, float, int], float]  #: of the model, delta and most items; in users
    attains: float = 0.0
    quick: bool = True

    def run(self) -> Verdict:
        """Find the worst t and u, of several budgets, soft caps and bounds."""
        lowest = math.inf
        for (epsilon, delta), (soft_cap, most) in itertools.product(
            ((1.0, 1e-6), (0.2, 1e-9), (4.0, 0.01)), ((1, 1), (1, 40), (3, 2), (3, 60), (10, 30))
        ):
            model = model_of("l2", soft_cap, known=False, items=most, epsilon=epsilon, delta=delta)
            cost = partial(
                reference.user_cost,
                epsilon,
                scale=model.scale,
                threshold=self.bar(model, delta, most),
            )
            worst = max(
                max(cost(weight=model.adds(t), items=t, alone=u))
                for t in range(1, most + 1)
                for u in range(t + 1)
            )
            lowest = min(lowest, worst / delta)
            if worst > delta * (1 + RELATIVE):
                at = f"epsilon={epsilon}, tau={soft_cap}, at most {most} items"
                return Verdict(False, f"{worst / delta:.4g} of delta: {at}")
        return Verdict(lowest >= self.attains, f"at least {lowest:.7f} of delta each time")


# ---- the weights


@dataclass(frozen=True)
class BoundCheck:
    """That no user moves the sums by more than the norm allows, for every number of items."""

    label: str
    weight: Callable[..., int]
    most: int = 20_000
    quick: bool = True

    def run(self) -> Verdict:
        """Check every t in exact integers, and that nine tenths of the bound are used."""
        for soft_cap, norm in itertools.product((1, 2, 3, 10, 30, 1000, 2**20), ("l2", "l1")):
            power = 2 if norm == "l2" else 1
            for t in range(1, self.most + 1):
                added = self.weight(t, soft_cap=soft_cap, norm=norm)
                moved, bound = t * added**power, min(t, soft_cap) * ONE**power
                if added > ONE or not 0.9 * bound < moved <= bound:
                    return Verdict(False, f"{norm}, tau={soft_cap}: t={t} moves {moved / bound}")
        return Verdict(True, f"at most 1 for t up to {self.most}")
