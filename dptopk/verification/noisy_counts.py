"""The entry of noisy_counts: integer noise on the counts of what was picked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dptopk import discrete as tails
from dptopk.accounting.shared import shared_scales
from dptopk.mechanisms.noisy_counts import calibrate_counts
from dptopk.mechanisms.noisy_counts import noisy_counts as mechanism
from dptopk.reference import discrete, peel, shared
from dptopk.release import Cost, Release
from dptopk.rng import SeededRng, TapeRng
from dptopk.verification import tapes
from dptopk.verification.draws import Public, at_least
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Entry, PrivacyCheck, SamplerCheck

DELTA = 0.01
DRAWS = 400_000  # of one integer; 100,000 through the public function
SCALES = {"laplace": (0.3, 1.0, 7.5), "gaussian": (0.5, 1.0, 3.0)}
# Past these, rounded continuous noise comes too near for so many draws.
NARROW = {"laplace": (0.3, 1.0), "gaussian": (0.5, 1.0)}

# Counts, most of one user's, and how much of delta shows: rounding takes its share.
SHARED = ((1, 1, 0.86), (2, 2, 0.95), (2, 1, 0.86), (3, 3, 0.95), (3, 2, 0.96))

# ---- privacy


def _law(
    counts: Counts, *, items: Sequence[int], scale: float, noise: str, reach: int = 9
) -> dict[Any, float]:
    """Noisy counts of the items that were picked, whatever picked them."""
    picked = [counts[item] for item in items]
    return discrete.counts_law(picked, scale=scale, noise=noise, low=-reach, high=reach)


def _laplace(k: int, moved: int, *, epsilon: float, factor: float = 1.0) -> Law:
    scale = factor * tails.laplace_scale(epsilon=epsilon, moved=moved)
    return partial(_law, items=range(k), scale=scale, noise="laplace")


def _gaussian(k: int, moved: int, *, epsilon: float, factor: float = 1.0) -> Law:
    sigma = factor * tails.discrete_gaussian_sigma(epsilon=epsilon, delta=DELTA, moved=moved)
    reach = math.ceil(6 * sigma)
    return partial(_law, items=range(k), scale=sigma, noise="gaussian", reach=reach)


def _pick_then_count(counts: Counts, *, epsilon: float, scale: float) -> dict[Any, float]:
    """One pick of the exponential mechanism, then its count with noise of its own."""
    return {
        (*pick, *values): chance * p
        for pick, chance in peel.law(counts, k=1, scale=1 / epsilon).items()
        for values, p in _law(counts, items=pick, scale=scale, noise="laplace").items()
    }


def _value_of_the_race(counts: Counts, *, scale: float, reach: int = 9) -> dict[Any, float]:
    """Release the largest noisy count: the noise that picked an item as that of its value.

    Outcomes by value within reach, all others as one.
    """
    q = math.exp(-1 / scale)

    def at_most(x: int) -> float:
        return q**-x / (1 + q) if x < 0 else 1 - q ** (x + 1) / (1 + q)

    chances: dict[Any, float] = {}
    for i, v in itertools.product(range(len(counts)), range(-reach, reach + 1)):
        chances[i, v] = math.tanh(0.5 / scale) * q ** abs(v - counts[i])
        for j, count in enumerate(counts):
            if j != i:  # ties go to the item that comes first
                chances[i, v] *= at_most(v - count - (j < i))
    return {**chances, (): 1 - math.fsum(chances.values())}


def _one_sided(counts: Counts, *, scale: float, reach: int = 9) -> dict[Any, float]:
    """Geometric noise upwards only: an outcome below a count cannot be."""
    q = math.exp(-1 / scale)
    law = {x: (1 - q) * q**x for x in range(40 * reach)}
    held: dict[Any, float] = dict.fromkeys(range(-reach, reach + 1), 0.0)
    for x, chance in law.items():
        held[min(counts[0] + x, reach)] += chance
    return held


def _shared(
    k: int,
    moved: int | None = None,
    *,
    epsilon: float = 1.0,
    own: float = 1.0,
    common: float = 1.0,
    among: int | None = None,
) -> Law:
    """Noise of both kinds at factors of what is enough, for k counts or another number."""
    both = shared_scales(epsilon=epsilon, delta=DELTA, counts=among or k, moved=moved)
    own, common = own * both[0], common * both[1]
    reach = math.ceil(4.5 * math.hypot(own, common))
    return partial(shared.counts_law, own=own, shared=common, low=-reach, high=reach)


def _private(label: str, law: Law, claim: Claim, items: int, **domain: Any) -> PrivacyCheck:
    return PrivacyCheck(label, law, (claim,), items=items, max_count=2, **domain)


# ---- draws


def _single(counts: Counts, *, scale: float, noise: str) -> dict[Any, float]:
    return {counts[0] + x: chance for x, chance in discrete.LAWS[noise](scale).items()}


def _draws(counts: Counts, draws: int, seed: int, *, scale: float, noise: str) -> Iterable[int]:
    values = np.full(draws, counts[0], np.int64)
    return map(int, tails.add_noise(values, noise, scale, SeededRng(seed))[0].tolist())


def _public(*, epsilon: float, delta: float, noise: Any) -> Public:
    call = partial(mechanism, _picked(range(1)), epsilon=epsilon, delta=delta, noise=noise)
    return Public(call, lambda r: int(r.counts[0]), covers=at_least(epsilon, delta))


def _rounded(counts: Counts, draws: int, seed: int, *, scale: float, noise: str) -> Iterable[int]:
    """Continuous noise, rounded."""
    rng = np.random.default_rng(seed)
    law = rng.laplace if noise == "laplace" else rng.normal
    return map(int, counts[0] + np.rint(law(scale=scale, size=draws)).astype(int))


def _naive(counts: Counts, draws: int, seed: int, *, scale: float, noise: str) -> Iterable[int]:
    rng = np.random.default_rng(seed)
    drawn = discrete.naive_sample(draws, scale=scale, noise=noise, rng=rng)
    return map(int, counts[0] + drawn)


def _upwards(counts: Counts, draws: int, seed: int, *, scale: float) -> Iterable[int]:
    rng = np.random.default_rng(seed)
    return map(int, counts[0] + rng.geometric(-math.expm1(-1 / scale), draws) - 1)


def _sampler(
    label: str, sampler: Any, noise: str, scale: float, *, draws: int = DRAWS, sees: bool = False
) -> SamplerCheck:
    wrong = partial(_single, scale=0.95 * scale, noise=noise) if sees else None
    law = partial(_single, scale=scale, noise=noise)
    return SamplerCheck(label, law, sampler, (7,), draws=draws, seed=20, sees=wrong)


def _each(
    label: str, sampler: Any, *, sees: bool = False, scales: Mapping[str, Any] = SCALES
) -> list[SamplerCheck]:
    return [
        _sampler(
            f"{label}: {noise}, scale {scale:g}",
            partial(sampler, scale=scale, noise=noise),
            noise,
            scale,
            sees=sees,
        )
        for noise, values in scales.items()
        for scale in values
    ]


# ---- one noise that all counts share

PAIR = (7, 5)
NEAR = 12  # counts are held within it, each way


def _pairs(*, own: float = 1.0, common: float = 1.0) -> Law:
    """Return the law of two counts whose noise is narrow, at epsilon 4."""
    a, b = shared_scales(epsilon=4.0, delta=DELTA, counts=2)
    return partial(shared.counts_law, own=own * a, shared=common * b, low=-NEAR, high=NEAR)


def _naive_pairs(
    counts: Counts, draws: int, seed: int, *, own: float = 1.0, common: float = 1.0
) -> Iterable[tuple[int, ...]]:
    a, b = shared_scales(epsilon=4.0, delta=DELTA, counts=2)
    rng = np.random.default_rng(seed)
    noise = shared.naive_sample(2, own=own * a, shared=common * b, draws=draws, rng=rng)
    return map(tuple, np.clip(np.array(counts) + noise, -NEAR, NEAR).tolist())


def _rounded_twice(counts: Counts, draws: int, seed: int) -> Iterable[tuple[int, ...]]:
    """Round each of the two noises by itself."""
    a, b = shared_scales(epsilon=4.0, delta=DELTA, counts=2)
    rng = np.random.default_rng(seed)
    noise = np.rint(a * rng.normal(size=(draws, 2))) + np.rint(b * rng.normal(size=(draws, 1)))
    return map(tuple, np.clip(counts + noise.astype(int), -NEAR, NEAR).tolist())


def _public_pairs() -> Public:
    call = partial(mechanism, _picked(range(2)), epsilon=4.0, delta=DELTA, noise="shared")
    held = partial(np.clip, a_min=-NEAR, a_max=NEAR)
    return Public(call, lambda r: tuple(held(r.counts).tolist()), covers=at_least(4.0, DELTA))


def _pairs_check(label: str, sampler: Any, *, sees: bool = False) -> SamplerCheck:
    wrong = _pairs(own=0.95, common=0.95) if sees else None
    return SamplerCheck(label, _pairs(), sampler, PAIR, draws=DRAWS // 4, seed=24, sees=wrong)


def _shared_checks() -> Iterable[PrivacyCheck | SamplerCheck]:
    for k, moved, attains in SHARED:
        yield _private(
            f"{k} counts, shared noise, at most {moved} a user",
            _shared(k, moved),
            Claim(1.0, DELTA, attains),
            k,
            max_items_per_user=moved,
        )
    yield _pairs_check("noisy_counts(), shared noise of two counts", _public_pairs(), sees=True)
    yield _pairs_check("NumPy baseline, shared noise", _naive_pairs, sees=True)


def _shared_broken() -> Iterable[PrivacyCheck | SamplerCheck]:
    for label, law in (
        ("own noise of the pair alone", _shared(2, common=0.0)),
        ("the shared noise alone", _shared(2, own=0.05)),
        ("the two exchanged", _shared(2, own=2**-0.25, common=2**0.25)),
        ("both 5% too small", _shared(2, own=0.95, common=0.95)),
        ("noise of one count", _shared(2, among=1)),
    ):
        yield _private(f"shared noise: {label}", law, Claim(1.0, DELTA), 2)
    yield _private(
        "shared noise: counts that move both ways",
        _shared(2),
        Claim(1.0, DELTA),
        2,
        monotone=False,
    )
    yield _private("shared noise: a bound understated", _shared(3, 1), Claim(1.0, DELTA), 3)
    yield _pairs_check("noises of their own, no shared one", partial(_naive_pairs, common=0.0))
    yield _pairs_check("each noise rounded by itself, drawn", _rounded_twice)


# ---- tapes


def _picked(items: Iterable[int]) -> Release:
    return Release(
        indices=np.array(list(items), dtype=np.int64),
        labels=None,
        ordered=True,
        complete=True,
        cost=Cost(0.0, 0.0, "fixed beforehand"),
        mechanism="none",
        by_counts=True,
        private=True,
        parameters={},
    )


def _budget(seed: int) -> tuple[float, float, Any]:
    noise = (*tails.NOISES, "shared")[seed % 3]
    epsilon = (0.01, 0.3, 1.0, 5.0)[seed // 3 % 4]
    return epsilon, DELTA * (noise != "laplace"), noise


def _kernel(seed: int, rng: TapeRng, *, factor: float = 1.0) -> list[int]:
    counts = tapes.counts(seed)
    epsilon, delta, noise = _budget(seed)
    release = _picked(range(0, len(counts), 2))
    counted = mechanism(
        release, counts, epsilon=factor * epsilon, delta=delta, noise=noise, rng=rng
    )
    assert counted.counts is not None
    return counted.counts.tolist()


def _twin(seed: int) -> list[int]:
    counts = tapes.counts(seed).tolist()[::2]
    epsilon, delta, noise = _budget(seed)
    n = len(counts)
    plan = calibrate_counts(epsilon, delta, n, n, noise)
    if noise == "shared":
        drawn = shared.sample(tapes.read(seed), n, own=plan.scale, shared=plan.shared)
    else:
        drawn = discrete.sample(tapes.read(seed), n, scale=plan.scale, noise=noise)
    return [count + x for count, x in zip(counts, drawn, strict=True)]


ENTRY = Entry(
    "noisy_counts",
    checks=(
        *(
            _private(
                f"{k} counts, Laplace, at most {d} a user: epsilon {epsilon:g}",
                _laplace(k, min(k, d), epsilon=epsilon),
                Claim(epsilon, attains=0.999999),
                3,
                max_items_per_user=d,
            )
            for (k, d), epsilon in itertools.product(
                [(1, 3), (2, 3), (3, 3), (3, 1), (3, 2)], [1.0]
            )
        ),
        *(
            _private(
                f"{k} counts, Gaussian, at most {d} a user: epsilon {epsilon:g}",
                _gaussian(k, min(k, d), epsilon=epsilon),
                Claim(epsilon, DELTA, attains=0.999),
                2,
                max_items_per_user=d,
            )
            for (k, d), epsilon in itertools.product([(1, 2), (2, 2), (2, 1)], [1.0, 0.5])
        ),
        _private(
            "a pick and its count: the sum of both",
            partial(_pick_then_count, epsilon=1.0, scale=tails.laplace_scale(epsilon=0.5, moved=1)),
            Claim(1.5, attains=0.93),
            3,
        ),
        *_shared_checks(),
        *_each("integer noise", _draws, sees=True),
        _sampler(
            "noisy_counts(), Laplace",
            _public(epsilon=0.5, delta=0.0, noise="laplace"),
            "laplace",
            2.0,
            draws=100_000,
            sees=True,
        ),
        _sampler(
            "noisy_counts(), Gaussian",
            _public(epsilon=1.0, delta=DELTA, noise="gaussian"),
            "gaussian",
            tails.discrete_gaussian_sigma(epsilon=1.0, delta=DELTA, moved=1),
            draws=100_000,
            sees=True,
        ),
        *_each("NumPy baseline", _naive, sees=True),
        tapes.check("noisy_counts() and its twin on the same tapes", _kernel, _twin, 300),
    ),
    broken=(
        _private("noise 5% too small", _laplace(2, 2, epsilon=1.0, factor=0.95), Claim(1.0), 2),
        _private("two counts charged as one", _laplace(2, 1, epsilon=1.0), Claim(1.0), 2),
        _private(
            "a user's bound understated",
            _laplace(3, 1, epsilon=1.0),
            Claim(1.0),
            3,
            max_items_per_user=2,
        ),
        _private(
            "counts as if free",
            partial(_pick_then_count, epsilon=1.0, scale=tails.laplace_scale(epsilon=0.5, moved=1)),
            Claim(1.0),
            3,
        ),
        _private(
            "the noise of the pick as the value, charged twice",
            partial(_value_of_the_race, scale=1.0),
            Claim(2.0),
            3,
        ),
        _private("geometric noise upwards only", partial(_one_sided, scale=1.0), Claim(1.0), 1),
        _private(
            "Gaussian, sigma without sqrt(m)",
            _gaussian(2, 1, epsilon=1.0),
            Claim(1.0, DELTA),
            2,
        ),
        _private(
            "Gaussian, noise 5% too small",
            _gaussian(1, 1, epsilon=1.0, factor=0.95),
            Claim(1.0, DELTA),
            2,
        ),
        _private(
            "Gaussian, sigma for the differences of two counts that are both shown",
            _gaussian(2, 2, epsilon=1.0, factor=0.5),
            Claim(1.0, DELTA),
            2,
        ),
        _private("Gaussian, delta not charged", _gaussian(1, 1, epsilon=1.0), Claim(1.0), 2),
        *_each("continuous noise, rounded", _rounded, scales=NARROW),
        _sampler(
            "geometric noise upwards only, drawn", partial(_upwards, scale=1.0), "laplace", 1.0
        ),
        _sampler(
            "noise 5% too small, drawn",
            partial(_draws, scale=0.95, noise="laplace"),
            "laplace",
            1.0,
        ),
        *_shared_broken(),
        tapes.check("noise 1% too small, same tapes", partial(_kernel, factor=1.01), _twin, 100),
    ),
)
