"""The entry of limited_domain: k bounded-range steps, plus delta once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms.limited_domain import limited_domain as mechanism
from dptopk.reference import limited_domain, peel
from dptopk.reference.limited_domain import BOT, Outcome, movable
from dptopk.rng import TapeRng
from dptopk.verification import tapes
from dptopk.verification.bounded_range import composed_delta
from dptopk.verification.draws import Public, histogram_of, outcome_of, steps
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Entry, PrivacyCheck, Sampler, SamplerCheck, claimed

EPSILON_STEP = 1.0
SCALE = 1 / EPSILON_STEP
DELTA = 0.01
EXACT_DELTA = DELTA / (1 + DELTA)  # what a pair can really reach
ITEMS = 4
COUNTS = (8, 7, 5, 1)
DRAWS = 100_000


def _law(
    k: int, k_bar: int, m: int, *, known: bool, scale: float = SCALE, lower: float = 0.0
) -> Law:
    threshold = math.log(m / DELTA) - lower / scale
    return partial(
        limited_domain.law, k=k, k_bar=k_bar, scale=scale, threshold=threshold, known=known
    )


def _price(outcome: Outcome) -> float:
    """Pay-what-you-get: every element of the outcome is a step, BOT too."""
    return len(outcome) * EPSILON_STEP


def _price_and_k_bar(outcome: Outcome) -> float:
    """One step more for a k_bar that was chosen privately and is not shown."""
    return _price(outcome) + EPSILON_STEP


def _cases() -> Iterator[PrivacyCheck]:
    """All small k, k_bar up to past the domain, bounds on a user, and both kinds of domain."""
    for k, k_bar, user, known in itertools.product(
        (1, 2), (1, 2, 3, 4, 5), (None, 1, 2), (True, False)
    ):
        if k > k_bar:
            continue
        m = movable(k_bar, n_items=ITEMS if known else None, max_items_per_user=user)
        total = k * EPSILON_STEP
        if known and k_bar >= ITEMS:
            claims: tuple[Claim, ...] = (Claim(total), Claim(_price))  # nothing can be cut off
        else:
            tight = 0.99 if m <= ITEMS else 0.0  # nobody here has five items
            claims = (Claim(total, EXACT_DELTA, tight), Claim(_price, EXACT_DELTA, tight))
        half = composed_delta(total / 2, epsilon_step=EPSILON_STEP, steps=k)
        yield PrivacyCheck(
            _label(k, k_bar, user, known),
            _law(k, k_bar, m, known=known),
            (*claims, Claim(total / 2, half + DELTA)),
            items=ITEMS,
            max_items_per_user=user,
        )


def _private_k_bar_cases() -> Iterator[PrivacyCheck]:
    """One step more; within it whether or not the k_bar that was chosen comes out too."""
    for k, k_bar_max, user, known, shown in itertools.product(
        (1, 2), (3, 4), (None, 1, 2), (True, False), (True, False)
    ):
        law = _private_k_bar_law(k, k_bar_max, user, known=known, with_k_bar=shown)
        yield PrivacyCheck(
            _label(k, f"private up to {k_bar_max}", user, known) + ", shown" * shown,
            law,
            (
                Claim((k + 1) * EPSILON_STEP, EXACT_DELTA),
                Claim(_price if shown else _price_and_k_bar, EXACT_DELTA),
            ),
            items=ITEMS,
            max_items_per_user=user,
        )


def _private_k_bar_law(
    k: int, k_bar_max: int, user: int | None, *, known: bool, with_k_bar: bool
) -> Law:
    return partial(
        limited_domain.private_k_bar_law,
        k=k,
        k_bar_max=k_bar_max,
        scale=SCALE,
        delta=DELTA,
        known=known,
        max_items_per_user=user,
        with_k_bar=with_k_bar,
    )


def _label(k: int, k_bar: int | str, user: int | None, known: bool) -> str:
    bound = "any items a user" if user is None else f"at most {user} a user"
    return f"k={k}, k_bar={k_bar}, {bound}, {'known' if known else 'unknown'} domain"


# ---- broken laws


def _ties_by_data(counts: Counts, *, law: Law) -> dict[Outcome, float]:
    """Ties at the cut by item order, or from the last item if the total is odd."""
    if sum(counts) % 2 == 0:
        return dict(law(counts))
    last = len(counts) - 1
    mirrored = law(counts[::-1])
    return {
        tuple(pick if pick == BOT else last - pick for pick in outcome): chance
        for outcome, chance in mirrored.items()
    }


def _last_seen_is_next(counts: Counts, *, k_bar: int) -> dict[Outcome, float]:
    """Stand the threshold of a short answer on its last count, not on 0."""
    items, next_count = limited_domain.cut(counts, k_bar, known=False)
    if items and next_count == 0:
        next_count = counts[items[-1]]
    logits: dict[Any, float] = {i: (counts[i] - next_count) / SCALE for i in items}
    logits[BOT] = 1 / SCALE + math.log(k_bar / DELTA)
    return peel.plackett_luce(logits, 1, stop=BOT)


def _best_k_bar(counts: Counts, *, k_bar_max: int) -> Mapping[Outcome, float]:
    """Take the k_bar with the lowest threshold, with no noise at all."""
    best = min(
        range(1, k_bar_max + 1),
        key=lambda k_bar: (
            limited_domain.cut(counts, k_bar, known=False)[1] / SCALE + math.log(k_bar / DELTA)
        ),
    )
    return _law(1, best, best, known=False)(counts)


def _not_private(label: str, law: Law, epsilon: Any, *, user: int | None = None) -> PrivacyCheck:
    return claimed(label, law, epsilon, DELTA, max_items_per_user=user)


def _broken() -> Iterator[PrivacyCheck]:
    no_plus_one = _law(1, 1, 1, known=True, lower=1.0)
    yield _not_private("threshold without the + 1", no_plus_one, EPSILON_STEP, user=1)
    yield _not_private("ln(1 / delta) for ln(m / delta)", _law(1, 2, 1, known=True), EPSILON_STEP)
    yield _not_private(
        "m counts the items of an unknown domain", _law(1, 3, ITEMS - 3, known=False), EPSILON_STEP
    )
    yield _not_private(
        "BOT not charged",
        _law(2, 2, 2, known=True),
        lambda outcome: _price(outcome) - (BOT in outcome) * EPSILON_STEP,
    )
    yield _not_private(
        "ties broken by data",
        partial(_ties_by_data, law=_law(1, 2, 1, known=True)),
        EPSILON_STEP,
        user=1,
    )
    yield _not_private(
        "a missing next count taken as the last one seen",
        partial(_last_seen_is_next, k_bar=3),
        EPSILON_STEP,
    )
    yield _not_private(
        "noise 5% too small", _law(1, 2, 1, known=True, scale=0.95 * SCALE), EPSILON_STEP, user=1
    )
    yield _not_private(
        "private k_bar not charged",
        _private_k_bar_law(1, 2, None, known=False, with_k_bar=True),
        EPSILON_STEP,
    )
    yield _not_private(
        "private k_bar without noise", partial(_best_k_bar, k_bar_max=3), 2 * EPSILON_STEP
    )


# ---- samplers


def _naive(counts: Counts, draws: int, seed: int, **changes: float) -> list[Outcome]:
    options: dict[str, Any] = {
        "k": 2,
        "k_bar": 3,
        "scale": SCALE,
        "threshold": math.log(1 / DELTA),
        **changes,
    }
    rng = np.random.default_rng(seed)
    return limited_domain.naive_sample(counts, draws=draws, rng=rng, **options)


def _bot_without_noise(counts: Counts, draws: int, seed: int) -> list[Outcome]:
    items, next_count = limited_domain.cut(counts, 3, known=True)
    noise = np.random.default_rng(seed).gumbel(scale=SCALE, size=(draws, len(items)))
    noisy = np.array([counts[i] for i in items]) + noise
    bot = next_count + 1 + math.log(1 / DELTA) * SCALE
    outcomes: list[Outcome] = []
    for row in noisy.tolist():
        above = sorted((-score, i) for score, i in zip(row, items, strict=True) if score > bot)
        picks: Outcome = (*(i for _, i in above), BOT)
        outcomes.append(picks[:2])
    return outcomes


def _bot_left_out(counts: Counts, draws: int, seed: int) -> list[Outcome]:
    """Pick rightly, but do not say that a list ended early."""
    return [tuple(p for p in outcome if p != BOT) for outcome in _naive(counts, draws, seed)]


def _naive_private_k_bar(
    counts: Counts, draws: int, seed: int, *, sign: int = -1
) -> Iterator[Outcome]:
    """Choose k_bar from 1, 2, 3 by noisy score, then draw; sign=1 prefers the highest BOT."""
    rng = np.random.default_rng(seed)
    choice = (1, 2, 3)
    thresholds = [
        math.log(movable(k_bar, n_items=ITEMS, max_items_per_user=None) / DELTA) for k_bar in choice
    ]
    next_counts = [limited_domain.cut(counts, k_bar, known=True)[1] for k_bar in choice]
    scores = sign * (np.array(next_counts) / SCALE + np.array(thresholds))
    chosen = (scores + rng.gumbel(size=(draws, 3))).argmax(axis=1)
    for k_bar, threshold, times in zip(choice, thresholds, np.bincount(chosen), strict=True):
        yield from limited_domain.naive_sample(
            counts, k=1, k_bar=k_bar, scale=SCALE, threshold=threshold, draws=int(times), rng=rng
        )


def _sampler(label: str, sampler: Sampler, *, sees: Law | None = None) -> SamplerCheck:
    law = _law(2, 3, 1, known=True)
    return SamplerCheck(label, law, sampler, COUNTS, draws=DRAWS, seed=21, sees=sees)


def _private_k_bar_sampler(label: str, sampler: Sampler) -> SamplerCheck:
    law = _private_k_bar_law(1, 3, None, known=True, with_k_bar=False)
    return SamplerCheck(label, law, sampler, COUNTS, draws=DRAWS, seed=22)


def _public(*, known: bool) -> Public:
    options: dict[str, Any] = {"k": 2, "k_bar": 3, "delta": 2 * DELTA, "max_items_per_user": 1}
    return Public(
        partial(mechanism, epsilon_step=EPSILON_STEP, **options),
        data=partial(histogram_of, known=known),
        covers=steps(2, EPSILON_STEP, DELTA),
    )


PUBLIC_PRIVATE_K_BAR = Public(
    partial(mechanism, k=1, k_bar="private", epsilon_step=EPSILON_STEP, delta=2 * DELTA),
    data=lambda counts: histogram_of(counts, known=True).truncate(3),
    covers=steps(2, EPSILON_STEP, DELTA),
)


# ---- tapes


def case_of(seed: int) -> tuple[Counts, bool, int, int]:
    """Return counts, whether their domain is known, k and k_bar."""
    counts = tuple(tapes.counts(seed).tolist())
    k = 1 + seed % 7
    return counts, seed % 2 == 0, k, k + seed % 11


def _kernel(seed: int, rng: TapeRng, *, lift: float = 1.0) -> Outcome:
    counts, known, k, k_bar = case_of(seed)
    h = histogram_of(counts, known=known, k_bar=k_bar)
    return outcome_of(
        mechanism(h, k=k, k_bar=k_bar, epsilon_step=0.3, delta=2 * DELTA / lift, rng=rng)
    )


def _sample(seed: int, k_bar: int) -> Outcome:
    counts, known, k, _ = case_of(seed)
    m = movable(k_bar, n_items=len(counts) if known else None, max_items_per_user=None)
    threshold = (math.log(m) - math.log(DELTA)) * (1 + 2**-49) + 2**-49
    scale = scale_of(0.3)
    return limited_domain.sample(
        tapes.read(seed), counts, k=k, k_bar=k_bar, scale=scale, threshold=threshold, known=known
    )


def _twin(seed: int) -> Outcome:
    return _sample(seed, case_of(seed)[3])


def _kernel_private_k_bar(seed: int, rng: TapeRng) -> tuple[int, Outcome]:
    counts, known, k, k_bar = case_of(seed)
    h = histogram_of(counts, known=known, k_bar=k_bar).truncate(k_bar)
    release = mechanism(h, k=k, k_bar="private", epsilon_step=0.3, delta=2 * DELTA, rng=rng)
    return release.parameters["k_bar"], outcome_of(release)


def _twin_private_k_bar(seed: int) -> tuple[int, Outcome]:
    """Two draws, each from the first word of the tape."""
    counts, known, k, k_bar_max = case_of(seed)
    chosen = limited_domain.sample_private_k_bar(
        tapes.read(seed), counts, k=k, k_bar_max=k_bar_max, scale=scale_of(0.3), delta=DELTA,
        known=known,
    )  # fmt: skip
    return chosen, _sample(seed, chosen)


ENTRY = Entry(
    "limited_domain",
    checks=(
        *_cases(),
        *_private_k_bar_cases(),
        _sampler("limited_domain(), known domain", _public(known=True)),
        _sampler("limited_domain(), unknown domain", _public(known=False)),
        _private_k_bar_sampler("limited_domain(), private k_bar", PUBLIC_PRIVATE_K_BAR),
        tapes.check("limited_domain() and its twin on the same tapes", _kernel, _twin, 300),
        tapes.check("the same, private k_bar", _kernel_private_k_bar, _twin_private_k_bar, 150),
        _sampler(
            "NumPy baseline, k=2, k_bar=3",
            _naive,
            sees=_law(2, 3, 1, known=True, scale=0.95 * SCALE),
        ),
        _private_k_bar_sampler("NumPy baseline, k=1, private k_bar", _naive_private_k_bar),
    ),
    broken=(
        *_broken(),
        _sampler("noise 5% too small, drawn", partial(_naive, scale=0.95 * SCALE)),
        _sampler(
            "threshold without the + 1, drawn",
            partial(_naive, threshold=math.log(1 / DELTA) - 1 / SCALE),
        ),
        _sampler("BOT without noise, drawn", _bot_without_noise),
        _sampler("BOT left out of the outcome, drawn", _bot_left_out),
        tapes.check("threshold too low, same tapes", partial(_kernel, lift=0.5), _twin, 100),
        _private_k_bar_sampler(
            "private k_bar prefers the highest threshold, drawn",
            partial(_naive_private_k_bar, sign=1),
        ),
    ),
)
