"""The part of top_stable's entry where k is chosen from the data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from dptopk.mechanisms.top_stable import calibrated_range
from dptopk.mechanisms.top_stable import top_stable as mechanism
from dptopk.reference import top_stable
from dptopk.reference.top_stable import Outcome
from dptopk.release import Release
from dptopk.rng import TapeRng
from dptopk.verification import tapes
from dptopk.verification.draws import Public, at_least, histogram_of
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Check, PrivacyCheck, SamplerCheck

EPSILON = 4.0
DELTA = 0.01
ITEMS = 4
COUNTS = (12, 9, 5, 0)  # gaps 3, 4, 5: no choice is rare
EVEN = (12, 8, 4, 0)  # gaps a little above the threshold: they often fail
DRAWS = 100_000
Sizes = tuple[int, int]


def _options(
    sizes: Sizes,
    *,
    known: bool = True,
    split: float | None = None,
    bound: str = "exact",
    epsilon: float = EPSILON,
    delta: float = DELTA,
    items: int = ITEMS,
) -> dict[str, Any]:
    last = min(sizes[1], items) if known else sizes[1]
    noise = calibrated_range(last - sizes[0] + 1, epsilon, delta, split, bound)
    return {
        "sizes": sizes,
        "threshold": noise.threshold,
        "query_scale": noise.query_scale,
        "choice_scale": noise.choice_scale,
        "known": known,
    }


def _law(sizes: Sizes, **options: Any) -> Law:
    return partial(top_stable.range_law, **_options(sizes, **options))


# ---- exhaustive


def _cases() -> Iterator[PrivacyCheck]:
    """All ranges up to past the domain, both kinds of domain."""
    for low, high, known in itertools.product((1, 2, 3, 4), (1, 2, 3, 4, 6), (True, False)):
        if low > high:
            continue
        # One size that can change: its set has chance delta where a neighbour lacks it. Else
        # its gap, of 1, is chosen among others that may be 0.
        tight = 0.999999 if low == high else 0.6
        if known and low == ITEMS:
            tight = 0.0  # all of the domain, whatever the data
        yield PrivacyCheck(
            f"k=({low}, {high}), {_domain(known)}",
            _law((low, high), known=known),
            (Claim(EPSILON, DELTA, tight),),
        )
    for split in (0.05, 0.95):
        yield PrivacyCheck(
            f"k=(1, 3), split {split}", _law((1, 3), split=split), (Claim(EPSILON, DELTA),)
        )
    yield PrivacyCheck(
        "k=(1, 3), epsilon 0.5", _law((1, 3), epsilon=0.5), (Claim(0.5, DELTA, 0.9),)
    )
    yield PrivacyCheck(
        "k=(2, 2), the paper's threshold",
        _law((2, 2), bound="paper"),
        (Claim(EPSILON, DELTA, 0.499999),),
    )
    yield PrivacyCheck(
        "k=(1, 2), counts up to 9 of 3 items, unknown domain",
        _law((1, 2), known=False),
        (Claim(EPSILON, DELTA, 0.7),),
        items=3,
        max_count=9,
    )
    for gaps, tight in ((APART, 0.999), (ALIKE, 0.0), (NEAR, 0.0)):
        yield PrivacyCheck(
            f"k=(1, 3), gaps {gaps}, all sets stable: pure",
            _stable(gaps),
            (Claim(EPSILON, attains=tight),),
            max_count=0,
        )


# Gaps after the first three items that no user makes unstable. A user of the second item alone
# lowers the first gap and lifts the second.
APART = (4, 36, 6)  # the first is chosen seldom, and then passes seldom: all of e1 and of e2
ALIKE = (9, 9, 9)  # a little above the threshold, and one user decides which is the largest
NEAR = (4, 9, 4)
SMALL_DELTA = 1e-9


def _stable(gaps: Counts, law: Any = top_stable.range_law, **factors: float) -> Law:
    options = _options((1, 3), delta=SMALL_DELTA)
    for name, factor in factors.items():
        options[name] *= factor
    base = [sum(gaps[i:]) for i in range(ITEMS)]
    return lambda counts: law(tuple(map(sum, zip(counts, base, strict=True))), **options)


def _domain(known: bool) -> str:
    return f"{'known' if known else 'unknown'} domain"


# ---- broken laws


def _as_it_is(counts: Counts, *, sizes: Sizes, known: bool, **options: Any) -> dict[Outcome, float]:
    """Choose the size with the largest gap, without noise."""
    items, tests = top_stable._sizes(counts, sizes, known=known)
    size = max(tests, key=tests.__getitem__)
    del options["choice_scale"]
    return top_stable.chosen_law(items, tests, {size: 1.0}, **options)


def _every_size(
    counts: Counts, *, sizes: Sizes, known: bool, **options: Any
) -> dict[Outcome, float]:
    """Test every size, from the largest, until one passes."""
    items, tests = top_stable._sizes(counts, sizes, known=known)
    del options["choice_scale"]
    chances: dict[Outcome, float] = {}
    left = 1.0
    for size in reversed(tests):
        one = top_stable.chosen_law(items, tests, {size: 1.0}, **options)
        failed = one.pop(())
        for outcome, chance in one.items():
            chances[outcome] = chances.get(outcome, 0.0) + left * chance
        left *= failed
    chances[()] = chances.get((), 0.0) + left
    return chances


def _named_where_it_fails(
    counts: Counts, *, sizes: Sizes, known: bool, **options: Any
) -> dict[Outcome, float]:
    """Say which size has the largest gap where nothing comes out."""
    chances = top_stable.range_law(counts, sizes=sizes, known=known, **options)
    tests = top_stable._sizes(counts, sizes, known=known)[1]
    # No item has the number -1 - size.
    chances[(-1 - max(tests, key=tests.__getitem__),)] = chances.pop(())
    return chances


def _one_place_too_low(
    counts: Counts, *, sizes: Sizes, known: bool, **options: Any
) -> dict[Outcome, float]:
    """Look at the gap between places i + 1 and i + 2, and release the top i."""
    items, tests = top_stable._sizes(counts, (sizes[0], sizes[1] + 1), known=known)
    moved = {size: tests[size + 1] for size in range(sizes[0], sizes[1] + 1)}
    chosen = top_stable.size_law(moved, options.pop("choice_scale"))
    return top_stable.chosen_law(items, moved, chosen, **options)


def _broken() -> Iterator[PrivacyCheck]:
    def twin(
        label: str,
        sizes: Sizes,
        law: Any = top_stable.range_law,
        *,
        known: bool = True,
        **changes: Any,
    ) -> PrivacyCheck:
        options = _options(sizes, known=known)
        changed = {name: change(options[name]) for name, change in changes.items()}
        return PrivacyCheck(label, partial(law, **{**options, **changed}), (Claim(EPSILON, DELTA),))

    for label, law in (
        ("weight exp(e1 gap), as if a user moved gaps one way", _stable(APART, choice_scale=0.5)),
        ("noise of the test 5% too small", _stable(APART, query_scale=0.95)),
        ("the largest gap chosen without noise", _stable(ALIKE, _as_it_is)),
        ("the best size named where the test fails", _stable(ALIKE, _named_where_it_fails)),
        ("every size tested for the price of one", _stable(NEAR, _every_size)),
    ):
        yield PrivacyCheck(label, law, (Claim(EPSILON),), max_count=0)
    for known in (True, False):
        yield twin(
            f"the gap without the - 1, {_domain(known)}",
            (2, 2),
            known=known,
            threshold=lambda height: height - 1,
        )
        yield twin(
            f"ln(1 / (4 delta)) in place of ln(1 / (2 delta)), {_domain(known)}",
            (2, 2),
            known=known,
            threshold=lambda height: height - math.log(2) / EPSILON,
        )
    yield twin(
        "the gap of a chosen size one place too low", (1, 2), _one_place_too_low, known=False
    )


# ---- samplers


def _outcome(release: Release) -> Outcome:
    picks = release.labels if release.indices is None else release.indices.tolist()
    return tuple(sorted(picks or ()))


def _public(sizes: Sizes, *, known: bool, split: float | None = None) -> Public:
    return Public(
        partial(mechanism, k=sizes, epsilon=EPSILON, delta=DELTA, split=split),
        _outcome,
        partial(histogram_of, known=known, k_bar=sizes[1]),
        at_least(EPSILON, DELTA),
    )


def _sampler(
    label: str,
    sizes: Sizes,
    *,
    known: bool = True,
    split: float | None = None,
    counts: Counts = COUNTS,
    sees: Law | None = None,
    seed: int,
) -> SamplerCheck:
    return SamplerCheck(
        label,
        _law(sizes, known=known),
        _public(sizes, known=known, split=split),
        counts,
        draws=DRAWS,
        seed=seed,
        sees=sees,
    )


def _narrow(name: str, share: float) -> Law:
    options = _options((1, 3))
    return partial(top_stable.range_law, **{**options, name: share * options[name]})


# ---- tapes


def _case(seed: int) -> tuple[Counts, bool, Sizes, float, float | None]:
    """Return counts, whether their domain is known, sizes, epsilon and the split."""
    counts = tuple(tapes.counts(seed).tolist())
    known = seed % 2 == 0
    low = 1 + seed % 7
    if known:
        low = min(low, len(counts))
    split = (None, 0.1, 0.9)[seed // 3 % 3]
    return counts, known, (low, low + seed // 7 % 12), (0.01, 1.0, 30.0)[seed % 3], split


def _kernel(seed: int, rng: TapeRng, *, delta: float = DELTA) -> Outcome:
    counts, known, sizes, epsilon, split = _case(seed)
    h = histogram_of(counts, known=known, k_bar=sizes[1])
    return _outcome(mechanism(h, k=sizes, epsilon=epsilon, delta=delta, split=split, rng=rng))


def _twin(seed: int) -> Outcome:
    counts, known, sizes, epsilon, split = _case(seed)
    options = _options(sizes, known=known, split=split, epsilon=epsilon, items=len(counts))
    return top_stable.sample_range(
        tapes.read(seed), counts, choice_tape=tapes.read(seed), **options
    )


CHECKS: tuple[Check, ...] = (
    *_cases(),
    _sampler(
        "top_stable(k=(1, 3)), known domain",
        (1, 3),
        counts=EVEN,
        sees=_narrow("query_scale", 0.92),
        seed=41,
    ),
    _sampler(
        "top_stable(k=(1, 3)), unknown domain",
        (1, 3),
        known=False,
        sees=_narrow("choice_scale", 0.95),
        seed=42,
    ),
    _sampler("top_stable(k=(2, 6)), unknown domain", (2, 6), known=False, seed=43),
    tapes.check("top_stable(k=(lo, hi)) and its twin on the same tapes", _kernel, _twin, 600),
)
BROKEN: tuple[Check, ...] = (
    *_broken(),
    _sampler("budget split otherwise, drawn", (1, 3), split=0.7, seed=44),
    tapes.check(
        "k=(lo, hi), threshold too low, same tapes", partial(_kernel, delta=2 * DELTA), _twin, 200
    ),
)
