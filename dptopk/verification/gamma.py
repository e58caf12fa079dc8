"""The entry of gamma: one radius for all items, pure whatever k."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from dptopk.mechanisms.gamma import gamma as mechanism
from dptopk.reference import gamma
from dptopk.reference.gamma import radius_law
from dptopk.rng import TapeRng
from dptopk.verification import tapes
from dptopk.verification.draws import Public, at_least, rows
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Entry, PrivacyCheck, SamplerCheck, claimed

EPSILON = 1.0
ITEMS = 4
COUNTS = (6, 4, 2, 0)
DRAWS = 50_000  # sees an epsilon that is off by 5%
TAPE_EPSILON = 2.5

Picks = tuple[int, ...]


BOTH_WAYS: dict[str, Any] = {"monotone": False, "max_count": 2}


def _law(k: int, **changes: Any) -> Law:
    return partial(gamma.law, k=k, **{"epsilon": EPSILON, "monotone": True, **changes})


def _private(k: int, epsilon: float) -> PrivacyCheck:
    return PrivacyCheck(
        f"k={k}, epsilon={epsilon:g}",
        _law(k, epsilon=epsilon),
        (Claim(epsilon, attains=0.9999),),
        items=ITEMS,
    )


# ---- broken laws


def _with_radius(chances: Any, *, k: int = 2) -> Law:
    return partial(gamma.mixture_law, chances=np.asarray(chances), k=k, monotone=True)


def _mean_only() -> list[float]:
    chances = radius_law(ITEMS, EPSILON)
    mean = round(float(np.arange(chances.size) @ chances))
    return [float(tau == mean) for tau in range(mean + 1)]


def _rounded_down() -> Any:
    """Round down the radius of the continuous mechanism, which has a gamma law."""
    return np.diff(stats.gamma.cdf(np.arange(100), ITEMS + 1, scale=1 / EPSILON))


def _by_two(**changes: Any) -> Law:
    """Let a user move counts by 2."""
    law = _law(2, **changes)
    return lambda counts: law(tuple(2 * count for count in counts))


# ---- samplers


def _naive(counts: Counts, draws: int, seed: int, **changes: float) -> Iterable[Picks]:
    options: dict[str, Any] = {"k": 2, "epsilon": EPSILON, **changes}
    rng = np.random.default_rng(seed)
    return rows(gamma.naive_sample(counts, draws=draws, rng=rng, **options))


def _radius_each(counts: Counts, draws: int, seed: int) -> Iterable[Picks]:
    """Draw a radius for every item."""
    rng = np.random.default_rng(seed)
    chances = radius_law(len(counts), EPSILON)
    tau = rng.choice(chances.size, p=chances, size=(draws, len(counts)))
    noisy = np.asarray(counts) + (tau + 0.5) / 2 * rng.uniform(-1, 1, size=tau.shape)
    return rows(np.argsort(-noisy, axis=1)[:, :2])


def _ties_by_item(counts: Counts, draws: int, seed: int) -> Iterable[Picks]:
    """Break ties by item, which is as private but another law."""
    rng = np.random.default_rng(seed)
    chances = radius_law(len(counts), EPSILON)
    tau = rng.choice(chances.size, p=chances, size=draws)[:, None]
    noise = rng.integers(-tau, tau, size=(draws, len(counts)), endpoint=True)
    order = np.argsort(-(2 * np.asarray(counts) + noise), axis=1, kind="stable")
    return rows(order[:, :2])


def _sampler(label: str, sampler: Any, *, sees: Law | None = None) -> SamplerCheck:
    return SamplerCheck(label, _law(2), sampler, COUNTS, draws=DRAWS, seed=23, sees=sees)


# ---- tapes


def _case(seed: int) -> tuple[Any, int, bool]:
    """Return counts, k, and whether a user moves them one way."""
    counts = tapes.counts(seed)
    return counts, 1 + seed % len(counts), seed % 2 == 0


def _kernel(seed: int, rng: TapeRng, *, epsilon: float = TAPE_EPSILON) -> Picks:
    counts, k, monotone = _case(seed)
    return mechanism(counts, k=k, epsilon=epsilon, monotone=monotone, rng=rng).items


def _twin(seed: int) -> Picks:
    counts, k, monotone = _case(seed)
    rate = Fraction(TAPE_EPSILON)
    return gamma.sample(tapes.read(seed), counts.tolist(), k=k, rate=rate, monotone=monotone)


ENTRY = Entry(
    "gamma",
    checks=(
        *(_private(k, epsilon) for k in (1, 2, 4) for epsilon in (0.25, EPSILON, 4.0)),
        *(
            PrivacyCheck(
                f"k={k}, scores that move both ways",
                _law(k, monotone=False),
                (Claim(EPSILON, attains=0.9999),),
                items=ITEMS,
                **BOTH_WAYS,
            )
            for k in (1, 2)
        ),
        PrivacyCheck(
            "k=2, counts moved by 2, sensitivity 2",
            _by_two(sensitivity=2.0),
            (Claim(EPSILON, attains=0.9999),),
            items=ITEMS,
            max_count=2,
        ),
        _sampler(
            "gamma(), k=2",
            Public(partial(mechanism, k=2, epsilon=EPSILON), covers=at_least(EPSILON)),
            sees=_law(2, epsilon=1.05 * EPSILON),
        ),
        tapes.check("gamma() and its twin on the same tapes", _kernel, _twin, 200),
        _sampler("NumPy baseline, k=2", _naive, sees=_law(2, epsilon=1.05 * EPSILON)),
    ),
    broken=(
        claimed("noise 5% too small", _law(2, epsilon=1.05 * EPSILON), EPSILON),
        claimed("the radius fixed to its mean", _with_radius(_mean_only()), EPSILON),
        claimed("(2 tau + 1)^(d - 1)", _with_radius(radius_law(ITEMS - 1, EPSILON)), EPSILON),
        claimed("a continuous radius, rounded down", _with_radius(_rounded_down()), EPSILON),
        claimed("sensitivity 2 charged as 1", _by_two(), EPSILON, max_count=2),
        claimed("noise of counts, scores that move both ways", _law(2), EPSILON, **BOTH_WAYS),
        _sampler("noise 5% too small, drawn", partial(_naive, epsilon=1.05 * EPSILON)),
        _sampler("a radius for each item, drawn", _radius_each),
        _sampler("ties by item, drawn", _ties_by_item),
        tapes.check("noise 1% too small, same tapes", partial(_kernel, epsilon=2.525), _twin, 100),
    ),
)
