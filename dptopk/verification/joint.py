"""The entry of joint: the exponential mechanism over sets, and over sequences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dptopk import _core
from dptopk.histogram import Histogram
from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms.joint import joint as mechanism
from dptopk.reference import joint, peel
from dptopk.release import Release
from dptopk.rng import TapeRng
from dptopk.verification import tapes
from dptopk.verification.draws import Public, at_least
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Entry, PrivacyCheck, SamplerCheck, TapeCheck, Verdict

EPSILON = 1.0
SCALE = 2 / EPSILON
COUNTS = (9, 7, 7, 4, 0)
DRAWS = 100_000  # sees a scale that is off by 10%


def _law(k: int, output: str = "set", *, scale: float = SCALE) -> Law:
    return partial(joint.law, k=k, scale=scale, output=output)


def _groups(scores: Any) -> tuple[list[Any], list[int]]:
    values, sizes = np.unique(np.asarray(scores), return_counts=True)
    return values[::-1].tolist(), np.cumsum(sizes[::-1]).tolist()


# ---- the law that the kernel draws from


def realised_law(
    counts: Counts,
    *,
    k: int,
    scale: float,
    output: str = "set",
    shift: int = 0,
    certain: bool = False,
) -> dict[tuple[int, ...], float]:
    """Chance of every outcome, as the kernel makes it: tau, then uniform under its staircase.

    The numbers of sets are those of the doubles' path counts, or with `certain`
    of the exact ones. `shift` moves every bound of the staircase: a known mistake.
    """
    values, ends = _groups(counts)
    last = values[0] - values[-1]
    order = sorted(range(len(counts)), key=lambda item: (-counts[item], item))
    ways = itertools.combinations if output == "set" else itertools.permutations
    ranks = list(ways(range(len(counts)), k))
    chances = dict.fromkeys(ranks, 0.0)
    for tau in range(last + 1):
        bound = joint.staircase(values, ends, k=k, tau=tau, output=output)
        bound = [max(0, min(b + shift, len(counts) - 1)) for b in bound]
        inside = [r for r in ranks if _within(r, bound, output)]
        mass = math.exp(-tau / scale) * (1.0 if tau == last else -math.expm1(-1 / scale))
        weight = mass * _number(bound, output, certain, len(inside) if shift else None)
        for r in inside:
            chances[r] += weight / len(inside)
    total = math.fsum(chances.values())
    items = {r: tuple(order[i] for i in r) for r in ranks}
    return {
        tuple(sorted(items[r])) if output == "set" else items[r]: chance / total
        for r, chance in chances.items()
    }


def _within(ranks: tuple[int, ...], bound: list[int], output: str) -> bool:
    step = 1 if output == "set" else 0
    return all(r - step * i <= b for i, (r, b) in enumerate(zip(ranks, bound, strict=True)))


def _number(bound: list[int], output: str, certain: bool, known: int | None) -> float:
    if known is not None:
        return float(known)
    if output == "set" and not certain:
        found = _core.Staircase(np.array(bound, np.int64)).log()
        assert found is not None
        return math.exp(found[0])
    return float(joint.outcomes_within(bound, output))


@dataclass(frozen=True)
class LawCheck:
    """What the kernel draws from against brute force, on many small histograms."""

    label: str
    law: Callable[..., Mapping[Any, float]]
    quick: bool = True

    def run(self) -> Verdict:
        """Compare every probability, to 1e-12."""
        worst, n = 0.0, 0
        for counts in _small():
            for k in range(1, len(counts) + 1):
                expected, found = _law(k)(counts), self.law(counts, k=k, scale=SCALE)
                if set(expected) != set(found):
                    return Verdict(False, f"other outcomes than the law has: {counts}, k={k}")
                worst = max(worst, *(abs(found[s] - p) for s, p in expected.items()))
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


def _paper(counts: Counts, *, k: int, scale: float) -> Mapping[Any, float]:
    return joint.paper_law(counts, k=k, epsilon=2 / scale)


# ---- privacy


def _private(k: int, output: str, attains: float, *, epsilon: float = EPSILON) -> PrivacyCheck:
    return PrivacyCheck(
        f"{output} of {k}: epsilon = {epsilon:g}",
        _law(k, output, scale=2 / epsilon),
        (Claim(epsilon, attains=attains),),
    )


def _single(*, monotone: bool = True) -> PrivacyCheck:
    """Check one pick, which needs no half: it is that of `peel`, and a bounded-range step."""
    return PrivacyCheck(
        "set of 1, no half, " + ("counts" if monotone else "scores that move both ways"),
        _law(1, scale=(1 if monotone else 2) / EPSILON),
        (Claim(EPSILON, attains=0.88),),
        max_count=3 if monotone else 2,
        monotone=monotone,
    )


def _not_private(label: str, law: Law) -> PrivacyCheck:
    return PrivacyCheck(label, law, (Claim(EPSILON),))


def _truncated(counts: Counts, *, k: int, k_bar: int) -> Mapping[Any, float]:
    """Take what is left out for the largest of it."""
    order = sorted(range(len(counts)), key=lambda item: (-counts[item], item))
    least = counts[order[k_bar]]
    return _law(k)(tuple(max(count, least) for count in counts))


def _left_out_is_nothing(counts: Counts, *, k: int, k_bar: int) -> Mapping[Any, float]:
    order = sorted(range(len(counts)), key=lambda item: (-counts[item], item))
    return _law(k)(tuple(c if i in order[:k_bar] else 0 for i, c in enumerate(counts)))


@dataclass(frozen=True)
class ScoresCheck:
    """Scores that one user moves both ways, on a grid: every pair, every outcome."""

    label: str
    scale: float
    attains: float = 0.0
    quick: bool = True

    def run(self) -> Verdict:
        """Three items with scores 0, 1, 2; a neighbour moves each by -1, 0 or 1."""
        laws: dict[Counts, Mapping[Any, float]] = {}
        worst = 0.0
        for scores in itertools.product(range(3), repeat=3):
            for move in itertools.product((-1, 0, 1), repeat=3):
                other = tuple(s + m for s, m in zip(scores, move, strict=True))
                for counts in (scores, other):
                    if counts not in laws:
                        laws[counts] = joint.law(counts, k=2, scale=self.scale)
                p, q = laws[scores], laws[other]
                worst = max(worst, *(abs(math.log(p[s] / q[s])) for s in p))
        share = worst / EPSILON
        return Verdict(self.attains <= share <= 1 + 1e-9, f"loss {share:.2%} of epsilon {EPSILON}")


# ---- samplers


def _public(
    *, k: int, output: Any = "set", real: bool = False, factor: float = 1.0,
    k_bar: int | None = None,
) -> Public:  # fmt: skip
    def call(h: Any, *, rng: Any) -> Release:
        before, _core.error_factor = _core.error_factor, factor
        try:
            return mechanism(
                h, k=k, epsilon=EPSILON, output=output, sensitivity=0.5 if real else 1.0, rng=rng
            )
        finally:
            _core.error_factor = before

    def data(counts: Counts) -> Any:
        if real:  # the same law from scores: half the sensitivity, as they are not monotone
            return np.asarray(counts) - 4.5
        return (
            np.asarray(counts) if k_bar is None else Histogram(np.asarray(counts)).truncate(k_bar)
        )

    return Public(call, lambda release: release.items, data, at_least(EPSILON))


def _table(
    counts: Counts, draws: int, seed: int, *, law: Callable[..., Mapping[Any, float]], k: int
) -> Iterable[tuple[int, ...]]:
    picks = joint.naive_sample(
        counts, k=k, scale=SCALE, draws=draws, rng=np.random.default_rng(seed), table=law(counts)
    )
    return map(tuple, picks.tolist())


def _with_repeats(counts: Counts, draws: int, seed: int) -> Iterable[tuple[int, ...]]:
    """Bounds respected, items not taken out: the same item twice."""
    rng = np.random.default_rng(seed)
    one = np.array(list(_table(counts, 2 * draws, seed, law=_law(1), k=1)))[:, 0]
    return map(tuple, np.sort(rng.permutation(one).reshape(draws, 2), axis=1).tolist())


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
    output: str = "set",
    draws: int = DRAWS,
    sees: Law | None = None,
    law: Law | None = None,
) -> SamplerCheck:
    law = _law(k, output) if law is None else law
    return SamplerCheck(label, law, sampler, COUNTS, draws=draws, seed=30, sees=sees)


# ---- tapes


def _kernel(
    seed: int, rng: TapeRng, *, output: Any, real: bool, epsilon: float = 0.3
) -> tuple[int, ...]:
    counts: Any = tapes.counts(seed)
    k = 1 + seed % len(counts)
    scores = counts * 0.37 - 5.0 if real else counts
    return mechanism(scores, k=k, epsilon=epsilon, output=output, rng=rng).items


def _twin(seed: int, *, output: str, real: bool) -> tuple[int, ...]:
    counts = tapes.counts(seed)
    k = 1 + seed % len(counts)
    scores = counts * 0.37 - 5.0 if real else counts
    values, ends = _groups(scores)
    scale = scale_of(0.3, (2.0 if real else 1.0) * (1.0 if k == 1 else 2.0))
    keys = _core.keys(np.array(values))
    drawn_from = _core.Joint(keys, np.array(ends), k, scale, output == "sequence", real)
    envelope = drawn_from.envelope()
    assert envelope is not None
    ranks = joint.sample(
        tapes.read(seed), values, ends, k=k, scale=scale, output=output,
        blocks=[joint.Block(*block) for block in envelope[0]], log_unit=envelope[1],
    )  # fmt: skip
    order = np.argsort(-scores, kind="stable")
    picks = order[ranks].tolist()
    return tuple(sorted(picks)) if output == "set" else tuple(picks)


def _tape_check(
    label: str, output: str, *, real: bool = False, n: int = 200, epsilon: float = 0.3
) -> TapeCheck:
    return TapeCheck(
        label,
        tapes.at_levels(partial(_kernel, output=output, real=real, epsilon=epsilon)),
        partial(_twin, output=output, real=real),
        tapes.seeds(n),
    )


ENTRY = Entry(
    "joint",
    checks=(
        LawCheck("the law of doubles is brute force", realised_law),
        LawCheck("the law of exact counts is brute force", partial(realised_law, certain=True)),
        LawCheck("the paper's algorithm is brute force", _paper),
        # A set's own weight moves by half of epsilon; the sum of all weights by up to the other
        # half, the more sets there are. Where epsilon is large, the best sets are nearly all of it.
        *(_private(k, "set", least) for k, least in ((2, 0.64), (3, 0.72))),
        _single(),
        _single(monotone=False),
        *(_private(k, "sequence", least) for k, least in ((2, 0.66), (3, 0.7))),
        *(_private(2, output, 0.59, epsilon=12.0) for output in ("set", "sequence")),
        PrivacyCheck(
            "set of 2, truncated to 2 of 4", partial(_truncated, k=2, k_bar=2), (Claim(EPSILON),)
        ),
        ScoresCheck("scores that move both ways: scale 4 / epsilon", 2 * SCALE, attains=0.46),
        _sampler("joint(), set of 2", _public(k=2), sees=_law(2, scale=0.9 * SCALE)),
        _sampler("joint(), set of 3", _public(k=3), k=3),
        _sampler("joint(), set of 4", _public(k=4), k=4),
        _sampler(
            "joint(), set of 1: the exponential mechanism at all of epsilon",
            _public(k=1),
            law=partial(peel.law, k=1, scale=SCALE / 2),
        ),
        _sampler(
            "joint(), sequence of 2",
            _public(k=2, output="sequence"),
            output="sequence",
            sees=_law(2, "sequence", scale=0.9 * SCALE),
        ),
        _sampler("joint(), scores", _public(k=2, real=True)),
        _sampler(
            "joint(), truncated to 2 of 5",
            _public(k=3, k_bar=2),
            law=partial(_truncated, k=3, k_bar=2),
        ),
        _sampler("joint(), exact replay", _public(k=2, factor=2.0**45), draws=20_000),
        _sampler(
            "joint(), exact replay of scores",
            _public(k=2, real=True, factor=2.0**45),
            draws=20_000,
        ),
        _tape_check("sets of the same tapes", "set"),
        _tape_check("sequences of the same tapes", "sequence"),
        _tape_check("sets of scores, the same tapes", "set", real=True),
        _tape_check("sequences of scores, the same tapes", "sequence", real=True),
    ),
    broken=(
        LawCheck("bounds one too high", partial(realised_law, shift=1)),
        LawCheck("bounds one too low", partial(realised_law, shift=-1)),
        _not_private("epsilon in place of epsilon / 2", _law(2, scale=1 / EPSILON)),
        _not_private(
            "epsilon in place of epsilon / 2, sequence",
            _law(2, "sequence", scale=1 / EPSILON),
        ),
        _not_private("scale 40% too small", _law(2, scale=0.6 * SCALE)),
        _not_private("what is left out counts 0", partial(_left_out_is_nothing, k=2, k_bar=2)),
        ScoresCheck("scores that move both ways: scale 2 / epsilon", SCALE),
        _sampler("ties counted twice, drawn", partial(_table, law=_ties_twice, k=2)),
        _sampler(
            "bounds one too high, drawn",
            partial(_table, law=partial(realised_law, k=2, scale=SCALE, shift=1), k=2),
        ),
        _sampler(
            "scale 10% too small, drawn", partial(_table, law=_law(2, scale=0.9 * SCALE), k=2)
        ),
        _sampler("the same item twice, drawn", _with_repeats),
        _tape_check("scale 5% too small, same tapes", "set", n=100, epsilon=0.315),
    ),
)  # fmt: skip
