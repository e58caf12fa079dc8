"""The entry of permute_and_flip: k pure DP rounds that are not bounded-range."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dptopk.accounting import step_epsilon
from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms.permute_and_flip import permute_and_flip as mechanism
from dptopk.reference import peel, permute_and_flip
from dptopk.reference.noisy_max import turned
from dptopk.reference.race import Field, race
from dptopk.rng import TapeRng
from dptopk.verification import tapes
from dptopk.verification.bounded_range import composed_delta
from dptopk.verification.draws import UNIT, Public, at_least, floats, put_back, rows
from dptopk.verification.privacy import Claim, Counts, Law, Table
from dptopk.verification.registry import Entry, PrivacyCheck, SamplerCheck, Verdict, claimed

EPSILON_STEP = 1.0
SCALE = 1 / EPSILON_STEP
COUNTS = (3, 2, 1, 0)
DRAWS = 100_000  # sees a scale that is off by 5%
# How near the worst pair of 4 items with counts 0 to 3 comes, by k: counts, scores.
ATTAINS = {1: (0.9999, 0.9999), 2: (0.99, 0.96), 3: (0.98, 0.91)}


def _law(k: int, *, scale: float = SCALE, largest: bool = True) -> Law:
    return partial(permute_and_flip.law, k=k, scale=scale, largest=largest)


def _private() -> Iterator[PrivacyCheck]:
    """Pure at k steps, nearly tight."""
    for k, monotone, largest in itertools.product((1, 2, 3), (True, False), (True, False)):
        yield PrivacyCheck(
            f"k={k}, {'counts' if monotone else 'general scores'}, "
            f"{'largest' if largest else 'least'}: epsilon = {k} steps",
            _law(k, scale=SCALE if monotone else 2 * SCALE, largest=largest),
            (Claim(k * EPSILON_STEP, attains=ATTAINS[k][not monotone]),),
            monotone=monotone,
        )


def _composed(label: str, k: int, *, epsilon: float, delta: float, method: Any) -> PrivacyCheck:
    """Claim (epsilon, delta) for the step that the method affords."""
    step = step_epsilon(epsilon, k, delta, method)
    return PrivacyCheck(label, _law(k, scale=1 / step), (Claim(epsilon, delta),))


@dataclass(frozen=True)
class BeyondRange:
    """Some pair of neighbours has losses further apart than epsilon.

    So the law is not epsilon-bounded-range, and must not be composed as if it were.
    """

    label: str
    law: Law
    epsilon: float
    quick: bool = True

    def run(self) -> Verdict:
        """Look at every pair of neighbours."""
        table = Table(self.law)
        laws = {counts: self.law(counts) for counts in table.histograms}
        widest = max(
            (self._range(laws[table.histograms[a]], laws[table.histograms[b]]), a, b)
            for p, q in table.pairs()
            for a, b in zip(p, q, strict=True)
        )
        ratio, (one, other) = widest[0], (table.histograms[row] for row in widest[1:])
        detail = f"losses {ratio:.2%} of epsilon {self.epsilon:g} apart: {one} -> {other}"
        return Verdict(ratio > 1.001, detail)

    def _range(self, one: Any, other: Any) -> float:
        losses = [math.log(one[outcome] / other[outcome]) for outcome in one]
        return (max(losses) - min(losses)) / self.epsilon


# ---- broken laws


def _in_item_order(counts: Counts) -> dict[Any, float]:
    """Flip without permuting."""
    coins = permute_and_flip.heads(dict(enumerate(counts)), SCALE)
    chances, silent = {}, 1.0
    for item, p in coins.items():
        chances[item,] = silent * p
        silent *= 1 - p
    return chances


def _as_if_bounded_range() -> Iterator[PrivacyCheck]:
    """Claim for k picks what k bounded-range steps of their epsilon compose to."""
    for k in (1, 2, 3):
        half = k * EPSILON_STEP / 2
        delta = composed_delta(half, epsilon_step=EPSILON_STEP, steps=k)
        yield PrivacyCheck(f"k={k}, composed as bounded range", _law(k), (Claim(half, delta),))
    for k, method in itertools.product((2, 3), ("zcdp", "adaptive")):
        label = f"k={k}, step by method {method!r}"
        yield _composed(label, k, epsilon=1.0, delta=0.05, method=method)


# ---- samplers


def _naive(
    counts: Counts, draws: int, seed: int, *, k: int, **changes: Any
) -> Iterable[tuple[int, ...]]:
    # Not the words that SeededRng(seed) draws.
    rng, options = np.random.default_rng([seed, 1]), {"scale": SCALE, **changes}
    picks = permute_and_flip.naive_sample(counts, k=k, draws=draws, rng=rng, **options)
    return rows(picks)


def _one_draw(counts: Counts, draws: int, seed: int, *, k: int) -> Iterable[tuple[int, ...]]:
    """Take the k largest of one draw of exponential noise."""
    noise = np.random.default_rng(seed).exponential(scale=SCALE, size=(draws, len(counts)))
    return rows(np.argsort(-(np.asarray(counts) + noise), axis=1)[:, :k])


def _coins_kept(counts: Counts, draws: int, seed: int, *, k: int) -> Iterable[tuple[int, ...]]:
    """One permutation and one uniform number an item, for all rounds."""
    rng = np.random.default_rng(seed)
    size = (draws, len(counts))
    for order, coins in zip(rng.random(size).argsort(axis=1).tolist(), rng.random(size).tolist(),
                            strict=True):  # fmt: skip
        picks: list[int] = []
        while len(picks) < k:
            top = max(c for i, c in enumerate(counts) if i not in picks)
            left = (i for i in order if i not in picks)
            picks.append(next(i for i in left if coins[i] < math.exp((counts[i] - top) / SCALE)))
        yield tuple(picks)


def _gumbel(counts: Counts, draws: int, seed: int, *, k: int) -> Iterable[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    return rows(peel.naive_sample(counts, k=k, scale=SCALE, draws=draws, rng=rng))


def _public(k: int) -> Public:
    return Public(
        partial(mechanism, k=k, epsilon_step=EPSILON_STEP), covers=at_least(k * EPSILON_STEP)
    )


def _sampler(
    label: str, sampler: Any, *, k: int = 2, largest: bool = True, power: bool = False
) -> SamplerCheck:
    return SamplerCheck(
        label, _law(k, largest=largest), sampler, COUNTS, draws=DRAWS, seed=24,
        sees=_law(k, largest=largest, scale=0.95 * SCALE) if power else None,
    )  # fmt: skip


def _drawn(label: str, sampler: Any) -> SamplerCheck:
    """Check a broken twin of two picks."""
    return _sampler(label, partial(sampler, k=2))


# ---- tapes


def _case(seed: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Return scores of some dtype, and how to pick from them."""
    counts = tapes.counts(seed)
    options = {
        "k": min(counts.size, 1 + seed % 3 if seed % 5 else 8),
        "largest": seed // 3 % 2 == 0,
        "monotone": seed // 6 % 2 == 0,
    }
    return tapes.as_scores(counts, seed, monotone=bool(options["monotone"])), options


def _kernel(seed: int, rng: TapeRng, *, step: float = 0.3, **changes: Any) -> tuple[int, ...]:
    scores, options = _case(seed)
    return mechanism(scores, epsilon_step=step, rng=rng, **{**options, **changes}).items


def _twin(seed: int) -> tuple[int, ...]:
    scores, options = _case(seed)
    scale = scale_of(0.3, 1.0 if options.pop("monotone") else 2.0)
    return permute_and_flip.sample(tapes.read(seed), scores.tolist(), scale=scale, **options)


def _one_draw_twin(seed: int) -> tuple[int, ...]:
    """Take the k largest of one draw of exponential noise, by the reference race."""
    scores, options = _case(seed)
    scale = scale_of(0.3, 1.0 if options["monotone"] else 2.0)
    wanted = turned(scores.tolist(), largest=options["largest"])
    field = Field.of(wanted)
    return tuple(race(tapes.read(seed), field, k=options["k"], scale=scale, noise="exponential"))


ENTRY = Entry(
    "permute_and_flip",
    checks=(
        *_private(),
        *(
            _composed(f"k={k}, method 'optimal'", k, epsilon=1.0, delta=0.05, method="optimal")
            for k in (1, 2, 3)
        ),
        BeyondRange("one pick is not bounded-range", _law(1), EPSILON_STEP),
        *(_sampler(f"permute_and_flip(), k={k}", _public(k), k=k, power=True) for k in (1, 2, 3)),
        _sampler(
            "permute_and_flip(), least of floats, general",
            Public(
                partial(
                    mechanism,
                    k=2,
                    epsilon_step=2 * EPSILON_STEP,
                    largest=False,
                    sensitivity=UNIT,
                    monotone=False,
                ),
                data=floats,
                covers=at_least(4 * EPSILON_STEP),
            ),
            largest=False,
            power=True,
        ),
        tapes.check("permute_and_flip() and its twin on the same tapes", _kernel, _twin, 300),
        *(
            _sampler(f"permutation and coins, k={k}", partial(_naive, k=k), k=k, power=True)
            for k in (1, 2, 3)
        ),
    ),
    broken=(
        claimed("noise 5% too small", _law(2, scale=0.95 * SCALE), 2 * EPSILON_STEP),
        claimed(
            "coins of exp(2 (score - largest) / scale)", _law(1, scale=SCALE / 2), EPSILON_STEP
        ),
        claimed("scale for counts, on general scores", _law(1), EPSILON_STEP, monotone=False),
        claimed("the same, k=2", _law(2), 2 * EPSILON_STEP, monotone=False),
        claimed("one pick not charged", _law(2), EPSILON_STEP),
        claimed("coins tossed in item order", _in_item_order, EPSILON_STEP),
        *_as_if_bounded_range(),
        BeyondRange(
            "Gumbel noise, which is bounded-range", partial(peel.law, k=1, scale=SCALE), 1.0
        ),
        _drawn("one draw of exponential noise for two picks", _one_draw),
        _drawn("permutation and coins kept for two picks", _coins_kept),
        _drawn("Gumbel noise, drawn", _gumbel),
        _drawn("noise 5% too small, drawn", partial(_naive, scale=0.95 * SCALE)),
        _drawn("items put back, drawn", partial(put_back, _naive)),
        _drawn("the least for the largest, drawn", partial(_naive, largest=False)),
        tapes.check("noise 1% too small, same tapes", partial(_kernel, step=0.303), _twin, 300),
        tapes.check("one draw of noise, same tapes", _kernel, _one_draw_twin, 100),
    ),
)
