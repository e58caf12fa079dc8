"""The entry of canonical: the inverse-sensitivity mechanism over sets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dptopk import _core
from dptopk.histogram import Histogram
from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms.canonical import canonical as mechanism
from dptopk.reference import canonical, joint, peel
from dptopk.release import Release
from dptopk.rng import TapeRng
from dptopk.verification import privacy, tapes
from dptopk.verification.draws import Public, at_least
from dptopk.verification.privacy import Counts, Law
from dptopk.verification.registry import (
    Entry,
    PrivacyCheck,
    SamplerCheck,
    TapeCheck,
    Verdict,
    claimed,
)

EPSILON = 1.0
SCALE = 2 / EPSILON
COUNTS = (9, 7, 7, 4, 0)
DRAWS = 100_000  # sees a scale that is off by 10%


def _law(k: int, *, scale: float = SCALE) -> Law:
    return partial(canonical.law, k=k, scale=scale)


# ---- the law


@dataclass(frozen=True)
class LawCheck:
    """The law by rows and groups, which the kernel draws from, against brute force."""

    label: str
    missing: int = 2
    short: int = 0
    quick: bool = True

    def run(self) -> Verdict:
        """Compare every probability on many small histograms, to 1e-12."""
        worst, n = 0.0, 0
        for counts in _small():
            for k in range(1, len(counts) + 1):
                found = canonical.law_by_rows(
                    counts, k=k, scale=SCALE, missing=self.missing, short=self.short
                )
                worst = max(worst, *(abs(found[s] - p) for s, p in _law(k)(counts).items()))
                n += 1
        return Verdict(worst <= 1e-12, f"{n} laws, {worst:.1e} apart at most")


def _small() -> Iterator[Counts]:
    """Up to 8 items, with ties and without."""
    rng = np.random.default_rng(5)
    for d in range(1, 9):
        yield (3,) * d
        yield tuple(range(0, 2 * d, 2))
        for spread in (2, 30):
            yield tuple(rng.integers(0, spread, size=d, endpoint=True).tolist())


# ---- privacy


def _not_private(label: str, law: Law, **domain: Any) -> PrivacyCheck:
    return claimed(label, law, EPSILON, **domain)


def _truncated(counts: Counts, *, k: int, k_bar: int, left: int | None = None) -> Mapping[Any, Any]:
    """Take what is left out for the largest of it, or for something else: a known mistake."""
    order = sorted(range(len(counts)), key=lambda item: (-counts[item], item))
    kept = set(order[:k_bar])
    least = counts[order[k_bar]] if left is None else left
    return _law(k)(tuple(c if item in kept else least for item, c in enumerate(counts)))


@dataclass(frozen=True)
class RangeCheck:
    """One bounded-range step: the losses of a pair of neighbours lie within epsilon of each other.

    That is more than epsilon-DP says, and what makes k calls compose as k picks of `peel`.
    """

    label: str
    law: Law
    items: int = 4
    monotone: bool = True
    attains: float = 0.0
    quick: bool = True

    def run(self) -> Verdict:
        """Look at every pair of neighbours with counts, or scores, from 0 to 2."""
        table = privacy.Table(self.law, self.items, 2, monotone=self.monotone)
        laws: dict[int, Any] = {}
        worst = 0.0
        for some, others in table.pairs():
            for p, q in zip(some.tolist(), others.tolist(), strict=True):
                for row in (p, q):
                    if row not in laws:
                        laws[row] = np.log(list(self.law(table.histograms[row]).values()))
                worst = max(worst, float(np.ptp(laws[p] - laws[q])))
        share = worst / EPSILON
        return Verdict(
            self.attains <= share <= 1 + 1e-9, f"losses within {share:.2%} of epsilon {EPSILON:g}"
        )


# ---- samplers


def _public(*, k: int, real: bool = False, factor: float = 1.0, k_bar: int | None = None) -> Public:
    def call(h: Any, *, rng: Any) -> Release:
        before, _core.error_factor = _core.error_factor, factor
        try:
            return mechanism(h, k=k, epsilon=EPSILON, sensitivity=0.5 if real else 1.0, rng=rng)
        finally:
            _core.error_factor = before

    def data(counts: Counts) -> Any:
        if real:  # the same law from scores: half the sensitivity, as they are not monotone
            return np.asarray(counts) - 4.5
        return np.asarray(counts) if k_bar is None else Histogram(counts).truncate(k_bar)

    return Public(call, lambda release: release.items, data, at_least(EPSILON))


def _table(counts: Counts, draws: int, seed: int, *, law: Law, k: int) -> Iterable[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    picks = joint.naive_sample(counts, k=k, scale=SCALE, draws=draws, rng=rng, table=law(counts))
    return map(tuple, picks.tolist())


def _ties_twice(counts: Counts) -> Mapping[Any, float]:
    """Each way to order tied items counted as a set of its own."""
    law = _law(2)(counts)
    twice = {s: p * (2 if counts[s[0]] == counts[s[1]] else 1) for s, p in law.items()}
    return {s: p / math.fsum(twice.values()) for s, p in twice.items()}


def _sampler(
    label: str,
    sampler: Any,
    *,
    k: int = 2,
    draws: int = DRAWS,
    sees: Law | None = None,
    law: Law | None = None,
) -> SamplerCheck:
    law = _law(k) if law is None else law
    return SamplerCheck(label, law, sampler, COUNTS, draws=draws, seed=30, sees=sees)


# ---- tapes


def _kernel(seed: int, rng: TapeRng, *, real: bool, epsilon: float = 0.3) -> tuple[int, ...]:
    scores, k = _scores(seed, real)
    return mechanism(scores, k=k, epsilon=epsilon, rng=rng).items


def _twin(seed: int, *, real: bool) -> tuple[int, ...]:
    scores, k = _scores(seed, real)
    values, sizes = np.unique(scores, return_counts=True)
    values, ends = values[::-1].copy(), np.cumsum(sizes[::-1])
    scale = scale_of(0.3, (2.0 if real else 1.0) * (1.0 if k == 1 else 2.0))
    blocks, log_unit = _core.Canonical(_core.keys(values), ends, k, scale, real).envelope()
    ranks = canonical.sample(
        tapes.read(seed), values.tolist(), ends.tolist(), k=k, scale=scale,
        blocks=[canonical.Block(*block) for block in blocks], log_unit=log_unit,
    )  # fmt: skip
    return tuple(sorted(np.argsort(-scores, kind="stable")[ranks].tolist()))


def _scores(seed: int, real: bool) -> tuple[Any, int]:
    counts: Any = tapes.counts(seed)
    return counts * 0.37 - 5.0 if real else counts, 1 + seed % len(counts)


def _tape_check(label: str, *, real: bool = False, n: int = 300, epsilon: float = 0.3) -> TapeCheck:
    return tapes.check(
        label, partial(_kernel, real=real, epsilon=epsilon), partial(_twin, real=real), n
    )


ENTRY = Entry(
    "canonical",
    checks=(
        LawCheck("the law by rows is brute force"),
        # A set's own weight moves by half of epsilon, the sum of all by up to the other half.
        *(
            claimed(f"set of {k}: epsilon = {EPSILON:g}", _law(k), EPSILON, attains=least)
            for k, least in ((2, 0.4), (3, 0.4))
        ),
        claimed("set of 1: no half", _law(1, scale=SCALE / 2), EPSILON, attains=0.98),
        RangeCheck("set of 1: no half, one step", _law(1, scale=SCALE / 2), attains=0.9),
        claimed("set of 2 of 5", _law(2), EPSILON, attains=0.4, items=5, max_count=2),
        claimed("set of 2: epsilon = 12", _law(2, scale=2 / 12), 12.0, attains=0.5),
        claimed("set of 2, truncated to 2 of 4", partial(_truncated, k=2, k_bar=2), EPSILON),
        claimed(
            "set of 2 of scores that move both ways: scale 4 / epsilon",
            _law(2, scale=2 * SCALE), EPSILON, attains=0.4, max_count=2, monotone=False,
        ),
        RangeCheck("set of 2: one step", _law(2), attains=0.99),
        RangeCheck("set of 3 of 5: one step", _law(3), items=5, attains=0.99),
        RangeCheck(
            "set of 2 of scores: one step", _law(2, scale=2 * SCALE), monotone=False, attains=0.99
        ),
        _sampler("canonical(), set of 2", _public(k=2), sees=_law(2, scale=0.9 * SCALE)),
        _sampler("canonical(), set of 3", _public(k=3), k=3),
        _sampler("canonical(), set of 4", _public(k=4), k=4),
        _sampler(
            "canonical(), set of 1: the exponential mechanism at all of epsilon",
            _public(k=1),
            law=partial(peel.law, k=1, scale=SCALE / 2),
        ),
        _sampler("canonical(), scores", _public(k=2, real=True)),
        _sampler(
            "canonical(), truncated to 2 of 5",
            _public(k=3, k_bar=2),
            law=partial(_truncated, k=3, k_bar=2),
        ),
        _sampler("canonical(), exact replay", _public(k=2, factor=2.0**45), draws=10_000),
        _sampler(
            "canonical(), exact replay of scores",
            _public(k=2, real=True, factor=2.0**45),
            draws=10_000,
        ),
        _tape_check("sets of the same tapes"),
        _tape_check("sets of scores, the same tapes", real=True),
    ),
    broken=(
        LawCheck("C(t - h, .): one rank too many between the two", missing=1),
        LawCheck("a group's sets off by one", short=1),
        _not_private("epsilon in place of epsilon / 2", _law(2, scale=1 / EPSILON)),
        _not_private("scale 40% too small", _law(2, scale=0.6 * SCALE)),
        _not_private("what is left out counts 0", partial(_truncated, k=2, k_bar=2, left=0)),
        _not_private(
            "scores that move both ways: scale 2 / epsilon",
            _law(2), max_count=2, monotone=False,
        ),
        RangeCheck("one step at 9/10 of the scale", _law(2, scale=0.9 * SCALE)),
        RangeCheck("one step of scores: scale 2 / epsilon", _law(2), monotone=False),
        _sampler("ties counted twice, drawn", partial(_table, law=_ties_twice, k=2)),
        _sampler(
            "one rank too many between the two, drawn",
            partial(_table, law=partial(canonical.law_by_rows, k=3, scale=SCALE, missing=1), k=3),
            k=3,
        ),
        _sampler(
            "a group's sets off by one, drawn",
            partial(_table, law=partial(canonical.law_by_rows, k=2, scale=SCALE, short=1), k=2),
        ),
        _sampler(
            "scale 10% too small, drawn", partial(_table, law=_law(2, scale=0.9 * SCALE), k=2)
        ),
        _tape_check("scale 5% too small, same tapes", n=100, epsilon=0.315),
    ),
)  # fmt: skip
