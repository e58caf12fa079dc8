"""The entry of top_stable: a sparse vector with one hit, plus delta over all unstable places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from dptopk.mechanisms.top_stable import calibrated
from dptopk.mechanisms.top_stable import top_stable as mechanism
from dptopk.reference import sparse_vector, top_stable
from dptopk.reference.limited_domain import BOT
from dptopk.reference.noise import LAWS
from dptopk.reference.top_stable import Outcome
from dptopk.release import Release
from dptopk.rng import TapeRng
from dptopk.verification import tapes, top_stable_range
from dptopk.verification.draws import Public, at_least, histogram_of, outcome_of
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Entry, PrivacyCheck, Sampler, SamplerCheck

EPSILON = 6.0  # so that gaps of small counts reach the threshold
DELTA = 0.01
SMALL_DELTA = 1e-6
SPLIT = 0.37
ITEMS = 4
COUNTS = (10, 7, 4, 1)  # gaps near the threshold: all outcomes are frequent
DRAWS = 100_000


def _options(
    k: int,
    k_bar: int,
    *,
    known: bool = True,
    split: float = SPLIT,
    select: float = 0.0,
    bound: str = "exact",
    epsilon: float = EPSILON,
    delta: float = DELTA,
) -> dict[str, Any]:
    n_items = ITEMS if known else None
    plan = calibrated(k, epsilon, delta, k_bar, split, select, bound, n_items)
    return {
        "k": k,
        "k_bar": k_bar,
        "threshold": plan.threshold,
        "threshold_scale": plan.threshold_scale,
        "query_scale": plan.query_scale,
        "select_scale": plan.select_scale,
        "known": known,
    }


def _law(k: int, k_bar: int, **options: Any) -> Law:
    return partial(top_stable.law, **_options(k, k_bar, **options))


def _cases() -> Iterator[PrivacyCheck]:
    """All small k and k_bar up to past the domain, both kinds of domain, both tails."""
    for k, k_bar, known in itertools.product((1, 2, 3), (1, 2, 3, 5), (True, False)):
        if k > k_bar:
            continue
        # With one test a gap of 1 passes with chance delta, and its set tells all.
        tight = 0.999999 if k_bar == 1 else 0.3
        if known and k_bar > ITEMS and k == 1:
            tight = 0.0  # any item of the whole domain may come out
        yield PrivacyCheck(
            f"k={k}, k_bar={k_bar}, {_domain(known)}",
            _law(k, k_bar, known=known),
            (Claim(EPSILON, DELTA, tight),),
        )
    for split in (1 / 3, 0.1, 0.9):
        name = "1/3" if split == 1 / 3 else f"{split}"
        yield PrivacyCheck(
            f"k=1, k_bar=1, split {name}",
            _law(1, 1, split=split),
            (Claim(EPSILON, DELTA, 0.999999),),
        )
    yield PrivacyCheck(
        "k=3, k_bar=3, epsilon 1",
        _law(3, 3, epsilon=1.0),
        (Claim(1.0, DELTA, 0.8),),
    )
    yield PrivacyCheck(
        "k=1, k_bar=1, the paper's tail", _law(1, 1, bound="paper"), (Claim(EPSILON, DELTA, 0.5),)
    )
    for known in (True, False):
        yield PrivacyCheck(
            f"k=1, k_bar=3, a third of epsilon to select, {_domain(known)}",
            _law(1, 3, known=known, select=EPSILON / 3),
            (Claim(EPSILON, DELTA),),
        )
    yield PrivacyCheck(
        "k=9, k_bar=9, gaps near the threshold: pure",
        _near_the_threshold(top_stable.law),
        (Claim(EPSILON, attains=0.999),),
        items=9,
        max_count=0,
    )
    yield PrivacyCheck(
        "k=2, k_bar=3, counts up to 9 of 3 items",
        partial(top_stable.law, **{**_options(2, 3, known=False)}),
        (Claim(EPSILON, DELTA, 0.3),),
        items=3,
        max_count=9,
    )


def _near_the_threshold(law: Any) -> Law:
    """Nine items whose gaps are 2 and a little above the threshold in turn.

    No set is unstable, and a user can lower one gap and raise the next: innocent misses
    and hits near the threshold, where a sparse vector may go wrong.
    """
    options = _options(9, 9, known=False, delta=SMALL_DELTA)
    high = math.floor(options["threshold"]) + 3
    gaps = (high - 3, *(high, 2) * 4)
    base = [sum(gaps[i:]) for i in range(9)]
    return lambda counts: law(tuple(map(sum, zip(counts, base, strict=True))), **options)


def _domain(known: bool) -> str:
    return f"{'known' if known else 'unknown'} domain"


# ---- broken laws


def _one_place_too_low(counts: Counts, **options: Any) -> dict[Outcome, float]:
    """Test the gap between places i + 1 and i + 2, and release the top i."""
    k_bar = options.pop("k_bar")
    wide = {**options, "k": k_bar + 1, "k_bar": k_bar + 1, "select_scale": None}
    h = top_stable.cut(counts, k_bar + 2, known=False)[0]
    chances: dict[Outcome, float] = {}
    for outcome, chance in top_stable.law(counts, **wide).items():
        top = tuple(sorted(h[: max(0, len(outcome) - 1)]))
        chances[top] = chances.get(top, 0.0) + chance
    return chances


def _each_on_its_own(
    counts: Counts, *, noisy_threshold: bool, **options: Any
) -> dict[Outcome, float]:
    """Draw a noise of the threshold for every test, or none at all."""
    items, tests = top_stable.distances(counts, options["k_bar"], known=options["known"])
    scales = {name: options[name] for name in ("threshold", "threshold_scale", "query_scale")}
    chances: dict[Outcome, float] = {}
    left = 1.0
    for place, distance in tests:
        if noisy_threshold:
            passes = sparse_vector.law([distance], **scales)[True,]
        else:
            needed = (options["threshold"] - distance) / options["query_scale"]
            passes = float(LAWS["laplace"].above(np.array(needed)))
        top = tuple(sorted(items[:place]))
        chances[top] = chances.get(top, 0.0) + left * passes
        left *= 1 - passes
    chances[()] = chances.get((), 0.0) + left
    return chances


def _in_order_of_counts(counts: Counts, **options: Any) -> dict[Outcome, float]:
    order = {item: place for place, item in enumerate(top_stable.cut(counts, 4, known=True)[0])}
    law = top_stable.law(counts, **options)
    return {tuple(sorted(top, key=order.__getitem__)): chance for top, chance in law.items()}


def _not_private(
    label: str, law: Law, *, delta: float = DELTA, items: int = 4, max_count: int = 3
) -> PrivacyCheck:
    return PrivacyCheck(label, law, (Claim(EPSILON, delta),), items=items, max_count=max_count)


def _broken() -> Iterator[PrivacyCheck]:
    def changed(k: int, k_bar: int, law: Any = top_stable.law, **changes: Any) -> Law:
        options = _options(k, k_bar, known=False)
        for name, change in changes.items():
            options[name] = change(options[name])
        return partial(law, **options)

    yield _not_private("the gap one place too low", changed(1, 1, _one_place_too_low))
    for noisy, name in (
        (True, "fresh threshold noise for every test"),
        (False, "threshold without noise"),
    ):
        yield _not_private(
            name,
            _near_the_threshold(partial(_each_on_its_own, noisy_threshold=noisy)),
            delta=SMALL_DELTA,
            items=9,
            max_count=0,
        )
    yield _not_private(
        "noise of a gap 1 / e2, as if a user moved it one way",
        changed(2, 2, query_scale=lambda scale: scale / 2, threshold=lambda height: 1.5 * height),
        items=2,
        max_count=12,
    )
    yield _not_private(
        "distance without the - 1", changed(1, 1, threshold=lambda height: height - 1)
    )
    yield _not_private(
        "delta not shared among the places",
        partial(top_stable.law, **{**_options(1, 1), "k": 3, "k_bar": 3}),
    )
    yield _not_private(
        "delta_q for a threshold without noise",
        changed(1, 1, threshold=lambda _: -math.log(2 * DELTA) * 2 / ((1 - SPLIT) * EPSILON)),
    )
    yield _not_private("the set in the order of the counts", changed(3, 3, _in_order_of_counts))
    yield _not_private(
        "selection by count not charged",
        _law(1, 3, select=EPSILON, epsilon=2 * EPSILON),
        items=3,
        max_count=9,
    )


# ---- samplers


def _outcome(release: Release) -> Outcome:
    """Say nothing of BOT: the law has an empty set for it."""
    return tuple(pick for pick in outcome_of(release) if pick != BOT)


def _public(*, known: bool = True, select: float = 0.0) -> Public:
    options: dict[str, Any] = {"k": 2, "k_bar": 3, "epsilon_select": select}
    return Public(
        partial(mechanism, epsilon=EPSILON, delta=DELTA, **options),
        _outcome,
        partial(histogram_of, known=known),
        at_least(EPSILON, DELTA),
    )


def _naive(
    counts: Counts, draws: int, seed: int, *, narrow: float = 1.0, fresh: bool = False
) -> list[Outcome]:
    options = _options(2, 3)
    del options["select_scale"]
    options["query_scale"] *= narrow
    rng = np.random.default_rng(seed)
    return top_stable.naive_sample(counts, draws=draws, rng=rng, fresh_threshold=fresh, **options)


def _narrow(share: float) -> Law:
    options = _options(2, 3)
    return partial(top_stable.law, **{**options, "query_scale": share * options["query_scale"]})


def _sampler(
    label: str,
    sampler: Sampler,
    *,
    known: bool = True,
    select: float = 0.0,
    sees: Law | None = None,
    seed: int = 31,
) -> SamplerCheck:
    law = _law(2, 3, known=known, select=select)
    return SamplerCheck(label, law, sampler, COUNTS, draws=DRAWS, seed=seed, sees=sees)


# ---- tapes


def _case(seed: int) -> tuple[Counts, bool, dict[str, Any]]:
    """Return counts, whether their domain is known, and options, so that all outcomes occur."""
    counts = tuple(tapes.counts(seed).tolist())
    k = 1 + seed % 7
    return (
        counts,
        seed % 2 == 0,
        {
            "k": k,
            "k_bar": k + seed % 11,
            "epsilon": (0.01, 1.0, 30.0)[seed % 3],
            "epsilon_select": (0.0, 0.005)[seed % 5 // 4],
        },
    )


def _kernel(seed: int, rng: TapeRng, *, delta: float = DELTA) -> Outcome:
    counts, known, options = _case(seed)
    h = histogram_of(counts, known=known, k_bar=options["k_bar"])
    return _outcome(mechanism(h, delta=delta, rng=rng, **options))


def _twin(seed: int) -> Outcome:
    counts, known, options = _case(seed)
    k, k_bar = options["k"], options["k_bar"]
    n_items = len(counts) if known else None
    plan = calibrated(
        k, options["epsilon"], DELTA, k_bar, SPLIT, options["epsilon_select"], "exact", n_items
    )
    return top_stable.sample(
        tapes.read(seed),
        counts,
        k=k,
        k_bar=k_bar,
        threshold=plan.threshold,
        threshold_scale=plan.threshold_scale,
        query_scale=plan.query_scale,
        select_scale=plan.select_scale,
        known=known,
        picks_tape=tapes.read(seed),
    )


ENTRY = Entry(
    "top_stable",
    checks=(
        *_cases(),
        _sampler("top_stable(), known domain", _public(), sees=_narrow(0.95)),
        _sampler("top_stable(), unknown domain", _public(known=False), known=False, seed=32),
        _sampler(
            "top_stable(), a third of epsilon to select",
            _public(select=EPSILON / 3),
            select=EPSILON / 3,
            seed=33,
        ),
        tapes.check("top_stable() and its twin on the same tapes", _kernel, _twin, 600),
        _sampler("NumPy baseline, k=2, k_bar=3", _naive, sees=_narrow(0.95), seed=34),
        *top_stable_range.CHECKS,
    ),
    broken=(
        *_broken(),
        _sampler("noise of the gaps 5% too small, drawn", partial(_naive, narrow=0.95)),
        _sampler("fresh threshold noise for every test, drawn", partial(_naive, fresh=True)),
        _sampler("k by count where any k were meant, drawn", _public(select=EPSILON / 3)),
        tapes.check("threshold too low, same tapes", partial(_kernel, delta=2 * DELTA), _twin, 200),
        *top_stable_range.BROKEN,
    ),
)
