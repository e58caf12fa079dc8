"""The entry of A_OQR, a baseline: small histograms, and thousands of stable queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dptopk.reference import a_oqr
from dptopk.reference.a_oqr import Noise
from dptopk.reference.noise import LAWS, Panels
from dptopk.reference.stable_release import Answer
from dptopk.verification.privacy import Counts, Law, hockey_stick
from dptopk.verification.registry import Entry, PrivacyCheck, SamplerCheck, Verdict, claimed
from dptopk.verification.stable_release import DELTA, DRAWN, EPSILON, PAIRS, pairs

Outcome = tuple[Any, ...]
MANY = 1e-4  # delta of thousands of queries, at epsilon 1
SETS = 3  # queries: the top 3, 2, 1


@lru_cache(maxsize=100_000)
def _law_of(answers: tuple[Answer, ...], cutoff: int, noise: Noise) -> dict[Outcome, float]:
    return a_oqr.law(answers, cutoff=cutoff, **noise._asdict())


def _law(cutoff: int, noise: Noise, *, margin: int = 1, last: int | None = None) -> Law:
    """`last` is when it really stops."""

    def law(counts: Counts) -> dict[Outcome, float]:
        return _law_of(pairs(counts, margin=margin), last or cutoff, noise)

    return law


def _of_sets(cutoff: int, noise: Noise) -> Law:
    def law(counts: Counts) -> dict[Outcome, float]:
        return _law_of(tuple(a_oqr.stable_sets(counts, k=1, k_bar=SETS)), cutoff, noise)

    return law


def _ours(cutoff: int, *, queries: int = PAIRS) -> Noise:
    return a_oqr.noise(epsilon=EPSILON, delta=DELTA, cutoff=cutoff, queries=queries)


def _improved(cutoff: int) -> Noise:
    return a_oqr.improved(epsilon=EPSILON, delta=DELTA, cutoff=cutoff, queries=PAIRS)


def _private(label: str, law: Law, *, attains: float = 0.0) -> PrivacyCheck:
    return claimed(label, law, EPSILON, DELTA, attains, items=2 * PAIRS, max_count=1)


@dataclass(frozen=True)
class ManyCheck:
    """Thousands of queries of one distance, which a user moves by 1, until the first BOT."""

    label: str
    noise: Noise
    epsilon: float
    delta: float
    quick: bool = True

    def run(self) -> Verdict:
        """Take numbers of queries such that noise fails 1 to 30 of them in the mean."""
        worst = 0.0
        for hazard in (1.0, 3.0, 5.0, 7.0, 10.0, 30.0):
            distance = self.noise.threshold + 7 * self.noise.query_scale
            number = round(hazard * 2 * np.exp(7.0))
            p, q = (self._passing(distance - less, number) for less in (0.0, 1.0))
            worst = max(
                worst,
                float(hockey_stick(p, q, self.epsilon)),
                float(hockey_stick(q, p, self.epsilon)),
            )
        return Verdict(worst <= self.delta, f"delta {worst:.3g} of {self.delta:g}")

    def _passing(self, distance: float, number: int) -> np.ndarray:
        """Return the chance of each place of the first BOT, and of none."""
        laplace, noise = LAWS["laplace"], self.noise
        unit = noise.threshold_scale
        panels = Panels([0.0], unit)
        rho = panels.points * unit
        weight = laplace.density(panels.points) * panels.widths * panels.weights
        if noise.absolute:
            weight = np.where(rho > 0, 2 * weight, 0.0)
        some = weight.ravel() > 1e-18
        z = (noise.threshold + rho.ravel()[some] - distance) / noise.query_scale
        logs, fails, left = np.log(laplace.above(z)), laplace.below(z), weight.ravel()[some]
        # In blocks of places: a BOT at one of them is one outcome, which can only hide.
        ends = np.unique(np.geomspace(1, number, 400).astype(int))
        still = [np.exp(end * logs) @ left for end in ends]
        firsts = [fails @ left]
        return np.array([*firsts, *-np.diff(still), still[-1]])


def _many(label: str, noise: Noise) -> ManyCheck:
    return ManyCheck(f"thousands of stable queries, {label}", noise, 1.0, MANY)


def _stated(make: Any) -> Noise:
    noise: Noise = make(epsilon=1.0, delta=MANY, cutoff=1, queries=10**5)
    return noise


def _naive(counts: Counts, draws: int, seed: int, *, noise: Noise) -> list[Outcome]:
    rng = np.random.default_rng(seed)
    return a_oqr.naive_sample(pairs(counts), cutoff=2, draws=draws, rng=rng, **noise._asdict())


def _checks() -> Iterator[Any]:
    for cutoff in (1, 2, 3):
        yield _private(f"until {cutoff} unstable", _law(cutoff, _ours(cutoff)), attains=0.85)
        yield _private(
            f"until {cutoff} unstable, rho in place of |rho|",
            _law(cutoff, _improved(cutoff)),
            attains=0.85,
        )
    for cutoff in (1, SETS):
        noise = _ours(cutoff, queries=SETS)
        yield claimed(f"the top 3, 2, 1 until {cutoff} unstable", _of_sets(cutoff, noise), EPSILON,
                      DELTA, 0.25, max_count=2)  # fmt: skip
    yield _many("|rho|", _stated(a_oqr.noise))
    yield _many("rho in place of |rho|", _stated(a_oqr.improved))
    noise = _ours(2)
    yield SamplerCheck(
        "NumPy baseline, until 2 unstable", _law(2, noise), partial(_naive, noise=noise), DRAWN,
        draws=30_000, seed=43, sees=_law(2, noise._replace(threshold=0.85 * noise.threshold)),
    )  # fmt: skip


def _broken() -> Iterator[Any]:
    for cutoff in (1, 2):
        noise = _ours(cutoff)
        yield _private(f"until {cutoff}: rho at the threshold of |rho|",
                       _law(cutoff, noise._replace(absolute=False)))  # fmt: skip
    yield _private("distance off by one", _law(1, _ours(1), margin=0))
    yield _private("no cut-off", _law(1, _ours(1), last=PAIRS + 1))
    yield _private("delta not shared", _law(3, _ours(3, queries=1)))
    yield _many("|rho| with the noise of sparse vector",
                _stated(a_oqr.improved)._replace(absolute=True))  # fmt: skip
    yield _many("a quarter of our noise", _stated(partial(_times, 0.25)))
    yield SamplerCheck(
        "rho at the threshold of |rho|, drawn", _law(2, _ours(2)),
        partial(_naive, noise=_ours(2)._replace(absolute=False)), DRAWN, draws=30_000, seed=43,
    )  # fmt: skip


def _times(factor: float, **asked: Any) -> Noise:
    used = a_oqr.noise(**asked)
    return Noise(
        factor * used.threshold,
        factor * used.threshold_scale,
        factor * used.query_scale,
        absolute=True,
    )


ENTRY = Entry("a_oqr", checks=tuple(_checks()), broken=tuple(_broken()))
