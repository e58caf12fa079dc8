"""The entry of gamma: one radius for all items, pure whatever k."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from dptopk.mechanisms.gamma import gamma as mechanism
from dptopk.reference import gamma
from dptopk.reference.gamma import radius_law
from dptopk.rng import SeededRng, TapeRng
from dptopk.verification import tapes
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Entry, PrivacyCheck, SamplerCheck, TapeCheck

EPSILON = 1.0
ITEMS = 4
COUNTS = (6, 4, 2, 0)
DRAWS = 50_000  # sees an epsilon that is off by 5%
TAPE_EPSILON = 2.5

Picks = tuple[int, ...]


def _law(k: int, *, epsilon: float = EPSILON, monotone: bool = True) -> Law:
    return partial(gamma.law, k=k, epsilon=epsilon, monotone=monotone)


def _private(k: int, epsilon: float) -> PrivacyCheck:
    return PrivacyCheck(
        f"k={k}, epsilon={epsilon:g}",
        _law(k, epsilon=epsilon),
        (Claim(epsilon, attains=0.9999),),
        items=ITEMS,
    )


def _not_private(label: str, law: Law) -> PrivacyCheck:
    return PrivacyCheck(label, law, (Claim(EPSILON),), items=ITEMS)


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


def _two_for_one(counts: Counts) -> Any:
    """Let a user move counts by 2, as if it were 1."""
    return _law(2)(tuple(2 * count for count in counts))


# ---- samplers


def _public(counts: Counts, draws: int, seed: int) -> Iterable[Picks]:
    rng, array = SeededRng(seed), np.asarray(counts)
    for _ in range(draws):
        yield mechanism(array, k=2, epsilon=EPSILON, rng=rng).items


def _naive(counts: Counts, draws: int, seed: int, **changes: float) -> Iterable[Picks]:
    options: dict[str, Any] = {"k": 2, "epsilon": EPSILON, **changes}
    rng = np.random.default_rng(seed)
    return map(tuple, gamma.naive_sample(counts, draws=draws, rng=rng, **options).tolist())


def _radius_each(counts: Counts, draws: int, seed: int) -> Iterable[Picks]:
    """Draw a radius for every item."""
    rng = np.random.default_rng(seed)
    chances = radius_law(len(counts), EPSILON)
    tau = rng.choice(chances.size, p=chances, size=(draws, len(counts)))
    noisy = np.asarray(counts) + (tau + 0.5) / 2 * rng.uniform(-1, 1, size=tau.shape)
    return map(tuple, np.argsort(-noisy, axis=1)[:, :2].tolist())


def _ties_by_item(counts: Counts, draws: int, seed: int) -> Iterable[Picks]:
    """Break ties by item, which is as private but another law."""
    rng = np.random.default_rng(seed)
    chances = radius_law(len(counts), EPSILON)
    tau = rng.choice(chances.size, p=chances, size=draws)[:, None]
    noise = rng.integers(-tau, tau, size=(draws, len(counts)), endpoint=True)
    order = np.argsort(-(2 * np.asarray(counts) + noise), axis=1, kind="stable")
    return map(tuple, order[:, :2].tolist())


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


def _tape_check(label: str, kernel: Callable[[int, TapeRng], Any], n: int) -> TapeCheck:
    return TapeCheck(label, tapes.at_levels(kernel), _twin, tapes.seeds(n))


ENTRY = Entry(
    "gamma",
    checks=(
        *(_private(k, epsilon) for k in (1, 2, 4) for epsilon in (0.25, EPSILON, 4.0)),
        PrivacyCheck(  # counts move one way: twice the noise that they need
            "k=2, the noise of general scores",
            _law(2, monotone=False),
            (Claim(EPSILON),),
            items=ITEMS,
        ),
        _sampler("gamma(), k=2", _public, sees=_law(2, epsilon=1.05 * EPSILON)),
        _tape_check("gamma() and its twin on the same tapes", _kernel, 200),
        _sampler("NumPy baseline, k=2", _naive, sees=_law(2, epsilon=1.05 * EPSILON)),
    ),
    broken=(
        _not_private("noise 5% too small", _law(2, epsilon=1.05 * EPSILON)),
        _not_private("the radius fixed to its mean", _with_radius(_mean_only())),
        _not_private("(2 tau + 1)^(d - 1)", _with_radius(radius_law(ITEMS - 1, EPSILON))),
        _not_private("a continuous radius, rounded down", _with_radius(_rounded_down())),
        _not_private("sensitivity 2 charged as 1", _two_for_one),
        _sampler("noise 5% too small, drawn", partial(_naive, epsilon=1.05 * EPSILON)),
        _sampler("a radius for each item, drawn", _radius_each),
        _sampler("ties by item, drawn", _ties_by_item),
        _tape_check("noise 1% too small, same tapes", partial(_kernel, epsilon=2.525), 100),
    ),
)
