"""The entry of weighted: noise on sums of weights, and a threshold over an unknown domain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from dptopk.accounting.weighted import weighted_noise
from dptopk.accounting.weights import ONE, weight
from dptopk.histogram import Histogram
from dptopk.mechanisms.weighted import weighted as mechanism
from dptopk.reference import weighted as reference
from dptopk.reference.noise import LAWS
from dptopk.rng import SeededRng, TapeRng
from dptopk.verification import tapes
from dptopk.verification.draws import Public, at_least
from dptopk.verification.filtered import Budget, CallsCheck, FormulaCheck, drawn
from dptopk.verification.privacy import Counts, Law
from dptopk.verification.registry import Entry, SamplerCheck
from dptopk.verification.users import (
    DELTA,
    EPSILON,
    ITEMS,
    Array,
    BoundCheck,
    CostCheck,
    Model,
    PlanCheck,
    UserCheck,
    model_of,
)

DRAWS = 100_000
PAID = (
    Budget(1.0, 1e-6, 0.5, 1), Budget(1.0, 1e-6, 0.5, 4), Budget(0.2, 1e-9, 0.1, 3),
    Budget(4.0, 0.01, 0.9, 2),
)  # fmt: skip

# ---- mistakes


def _without_ln_q(epsilon: float, *, items: int, alone: int, **options: Any) -> tuple[float, float]:
    """As if it told nothing that none of a user's own items came out."""
    cost = partial(reference.user_cost, epsilon, **options)
    shared = cost(items=items - alone, alone=0)[0] if items > alone else 0.0
    shown = cost(items=alone, alone=alone)[0] if alone else 0.0
    return shown + (1 - shown) * shared, shared


def _for_one_item(model: Model, delta: float, most: int) -> float:
    """Take the maximum over t alone, at u = 1: what one item of theirs costs."""
    return max(model.adds(t) + model.scale * _normal_tail(delta) for t in range(1, most + 1))


def _normal_tail(share: float) -> float:
    return NormalDist().inv_cdf(1 - share)


def _rounded_up(items: int, *, soft_cap: int, norm: str) -> int:
    return min(ONE, weight(items, soft_cap=soft_cap, norm=norm) + 1)


def _of_l2(items: int, *, soft_cap: int, norm: str) -> int:
    return weight(items, soft_cap=soft_cap)


# ---- samplers


def _there(counts: Counts, *, known: bool) -> dict[int, float]:
    return {i: float(count) for i, count in enumerate(counts) if count or known}


def _law(norm: str, k: int | None, *, known: bool, **changes: Any) -> Law:
    model = replace(model_of(norm, 1, known=known), **changes)
    return lambda counts: reference.law(
        _there(counts, known=known), k=k, scale=model.scale, noise=model.law,
        threshold=model.threshold,
    )  # fmt: skip


def _histogram(sums: Iterable[int], labels: list[Any], norm: Any, *, known: bool) -> Histogram:
    return Histogram.from_weights(
        np.array(list(sums), np.int64), labels, soft_cap=1, norm=norm,
        max_items_per_user=ITEMS, domain_is_public=known,
    )  # fmt: skip


def _data(counts: Counts, *, norm: str, known: bool) -> Histogram:
    there = _there(counts, known=known)
    sums = (int(x) * ONE for x in there.values())
    return _histogram(sums, list(there), norm, known=known)


def _public(*, norm: str, k: int | None, known: bool) -> Public:
    delta = 0.0 if known and norm == "l1" else DELTA
    return Public(
        partial(mechanism, k=k, epsilon=EPSILON, delta=delta),
        lambda release: release.items,
        partial(_data, norm=norm, known=known),
        covers=at_least(EPSILON, delta),
    )


def _naive(
    counts: Counts, draws: int, seed: int, *, model: Model, k: int | None, absent: bool = False
) -> Iterator[tuple[int, ...]]:
    """Draw with NumPy; with `absent`, items that nobody has get noise too."""
    return reference.naive_sample(
        _there(counts, known=absent), k=k, scale=model.scale, noise=model.law,
        threshold=model.threshold, draws=draws, rng=np.random.default_rng(seed),
    )  # fmt: skip


def _sampler(label: str, sampler: Any, law: Law, *, sees: Law | None = None) -> SamplerCheck:
    return SamplerCheck(label, law, sampler, (7, 5, 4, 0, 1), draws=DRAWS, seed=31, sees=sees)


def _shown_law(counts: Counts, *, scale: float = 1.0) -> dict[Any, float]:
    """Chance of the whole users of one noisy sum, by the Laplace law."""
    edges: Array = np.arange(-40.0, 41.0) - counts[0]
    masses = np.diff(LAWS["laplace"].below(edges / scale))
    chances: dict[Any, float] = dict(zip(range(-40, 40), masses.tolist(), strict=True))
    chances["beyond"] = 1.0 - sum(chances.values())
    return {x: chance for x, chance in chances.items() if chance > 0}


def _shown(counts: Counts, draws: int, seed: int, *, rounded: bool = False) -> Iterator[int]:
    h, rng = _histogram([counts[0] * ONE], ["a"], "l1", known=True), SeededRng(seed)
    for _ in range(draws):
        release = mechanism(h, k=1, epsilon=EPSILON, release_weights=True, rng=rng)
        assert release.weights is not None
        noisy = release.weights.item()
        yield round(noisy) if rounded else math.floor(noisy)


# ---- tapes


def _case(seed: int) -> tuple[list[int], str, int | None, bool, bool]:
    """Return sums, norm, k, whether known, whether values come out."""
    sums = (tapes.counts(seed) * (ONE // 3) + seed).tolist()
    known, norm, values = bool(seed % 2), ("l2", "l1")[seed // 2 % 2], bool(seed // 4 % 2)
    k = 1 + seed % len(sums) if known or seed // 8 % 2 else None
    return sums, norm, k, known, values


def _kernel(seed: int, rng: TapeRng, *, epsilon: float = 0.7) -> tuple[Any, ...]:
    sums, norm, k, known, values = _case(seed)
    h = _histogram(sums, list(range(len(sums))), norm, known=known)
    release = mechanism(
        h, k=k, epsilon=epsilon, delta=0.0 if known and norm == "l1" else DELTA,
        release_weights=values, rng=rng,
    )  # fmt: skip
    shown = () if release.weights is None else release.weights * (ONE / reference.GRID)
    return release.items, tuple(map(int, shown))


def _twin(seed: int) -> tuple[Any, ...]:
    sums, norm, k, known, values = _case(seed)
    most = min(ITEMS, len(sums)) if known else ITEMS
    plan = weighted_noise(
        epsilon=0.7, delta=DELTA, soft_cap=1, norm=norm, max_items_per_user=most, known_domain=known
    )
    return reference.sample(
        tapes.read(seed), sums, k=k, scale=plan.scale, noise=plan.noise,
        threshold=plan.threshold, values=values,
    )  # fmt: skip


# ---- under a filter


def _of_filter(budget: Budget, factor: float = 1.0) -> Law:
    model = budget.model("l2", 1)
    return _law("l2", 2, known=False, scale=factor * model.scale, threshold=model.threshold)


def _filtered(counts: Counts, draws: int, seed: int, *, budget: Budget) -> Iterator[Any]:
    return drawn(partial(_data, norm="l2", known=False), counts, draws, seed, budget=budget)


# Each of two calls takes what the thresholds of both have.
FREE, FREE_SMALL = Budget(4.0, 0.01, 0.9, 2, delta_taken=2), Budget(split=0.9, delta_taken=2)

L2, L2_TWO, L1 = (
    model_of("l2", 1, known=False), model_of("l2", 2, known=False), model_of("l1", 1, known=False)
)  # fmt: skip
L2_KNOWN, L1_KNOWN = model_of("l2", 1, known=True), model_of("l1", 1, known=True)
NARROW = 0.95 * L2.scale

ENTRY = Entry(
    "weighted",
    checks=(
        BoundCheck("weights within the norm", weight),
        UserCheck("l2, unknown domain, tau=1", L2, DELTA, attains=0.98),
        UserCheck("l2, unknown domain, tau=2", L2_TWO, DELTA, attains=0.98),
        UserCheck("l1, unknown domain, tau=1", L1, DELTA, attains=0.999),
        UserCheck("l1, unknown domain, tau=2", model_of("l1", 2, known=False), DELTA, attains=0.99),
        UserCheck("l2, known domain", L2_KNOWN, DELTA, attains=0.98),
        UserCheck("l1, known domain, pure", L1_KNOWN, 0.0, attains=0.99999),
        CostCheck("a user's cost, integrated", reference.user_cost),
        PlanCheck("the threshold, every t and u", lambda m, *_: m.threshold or 0.0, attains=0.999),
        FormulaCheck("calls under a filter, every t and u", PAID, attains=0.99),
        *(
            CallsCheck(
                f"{budget.calls} calls under a filter, {norm}, tau={tau}, split {budget.split:g}",
                budget.model(norm, tau), DELTA, attains=0.9 * budget.split, calls=budget.calls,
            )
            for norm, tau, budget in (
                ("l2", 1, Budget()), ("l2", 2, Budget(split=0.9)), ("l1", 1, Budget()),
            )
        ),
        replace(_sampler(
            "Filter.weighted(), l2, k=2", partial(_filtered, budget=Budget()),
            _of_filter(Budget()), sees=_of_filter(Budget(), 0.9),
        ), draws=30_000),
        *(
            _sampler(
                f"weighted(), {norm}, k={k}, {'known' if known else 'unknown'} domain",
                _public(norm=norm, k=k, known=known),
                _law(norm, k, known=known),
                sees=_law(norm, k, known=known, scale=0.95 * model_of(norm, 1, known=known).scale),
            )
            for norm, k, known in (
                ("l2", None, False), ("l2", 2, False), ("l1", 2, False), ("l2", 2, True),
                ("l1", 2, True),
            )
        ),
        SamplerCheck(
            "weighted(), what is shown", _shown_law, _shown, (7,), draws=DRAWS, seed=32,
            sees=partial(_shown_law, scale=0.95),
        ),
        tapes.check("weighted() and its twin on the same tapes", _kernel, _twin, 160),
        _sampler(
            "NumPy baseline", partial(_naive, model=L2, k=2), _law("l2", 2, known=False),
            sees=_law("l2", 2, known=False, scale=NARROW),
        ),
    ),
    broken=(
        BoundCheck("weights rounded up", _rounded_up),
        UserCheck("weights rounded up, l1", replace(L1_KNOWN, weight=_rounded_up), 0.0),
        UserCheck("l2 weights with l1 noise", replace(L1_KNOWN, weight=_of_l2), 0.0),
        UserCheck("l2 weights with l1 noise and threshold", replace(L1, weight=_of_l2), DELTA),
        UserCheck("noise 5% too small", replace(L2, scale=NARROW), DELTA),
        UserCheck(
            ">= where > is accounted for, in whole users",
            replace(L2, threshold=(L2.threshold or 0) - 1), DELTA,
        ),
        UserCheck(
            "a threshold for one item of a user's own",
            replace(L2, threshold=_for_one_item(L2, DELTA, ITEMS)), DELTA,
        ),
        UserCheck("a threshold without delta", replace(L2, threshold=L2.adds(1)), DELTA),
        UserCheck("no threshold but two users", replace(L2, least_users=2), DELTA),
        UserCheck("all items count in full", replace(L2, weight=lambda *_, **__: ONE), DELTA),
        FormulaCheck("under a filter, rho halved", tuple(replace(b, rho_taken=2) for b in PAID)),
        FormulaCheck("under a filter, the threshold's delta forgotten", (FREE,)),
        CallsCheck(
            "2 calls under a filter, the threshold's delta forgotten",
            FREE_SMALL.model("l2", 1), DELTA,
        ),
        CallsCheck("3 calls under a filter that pays for 2", Budget(split=0.8).model("l2", 1),
                   DELTA, calls=3),
        replace(_sampler(
            "Filter.weighted() that takes half more rho, drawn",
            partial(_filtered, budget=Budget(epsilon=1.2)), _of_filter(Budget()),
        ), draws=30_000),
        CostCheck("a user's cost without ln q", _without_ln_q),
        PlanCheck("a threshold for u = 1 alone", _for_one_item),
        PlanCheck("a threshold without delta, every t and u", lambda m, *_: m.adds(1)),
        _sampler(
            "items that nobody has get noise, drawn",
            partial(_naive, model=L2, k=2, absent=True), _law("l2", 2, known=False),
        ),
        _sampler(
            "noise 5% too small, drawn", partial(_naive, model=replace(L2, scale=NARROW), k=2),
            _law("l2", 2, known=False),
        ),
        _sampler(
            "Laplace noise, drawn", partial(_naive, model=replace(L2, noise="laplace"), k=2),
            _law("l2", 2, known=False),
        ),
        SamplerCheck(
            "what is shown, rounded to the nearest", _shown_law, partial(_shown, rounded=True),
            (7,), draws=DRAWS, seed=33,
        ),
        tapes.check("noise 1% too small, same tapes", partial(_kernel, epsilon=0.707), _twin, 100),
    ),
)  # fmt: skip
