"""The entry of limited_domain_laplace: so many shifts of the noise, plus delta once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms.limited_domain_laplace import integer_threshold, threshold
from dptopk.mechanisms.limited_domain_laplace import limited_domain_laplace as mechanism
from dptopk.reference import limited_domain as gumbel_reference
from dptopk.reference import limited_domain_laplace as reference
from dptopk.reference.limited_domain import BOT, Outcome, cut, movable
from dptopk.reference.peel import plackett_luce
from dptopk.release import Release
from dptopk.rng import TapeRng
from dptopk.verification import tapes
from dptopk.verification.draws import Public, at_least, histogram_of, outcome_of
from dptopk.verification.limited_domain import case_of
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Entry, PrivacyCheck, Sampler, SamplerCheck, claimed

EPSILON_STEP = 1.0
SCALE = 1 / EPSILON_STEP
DELTA = 0.01  # m e^-threshold of continuous noise
ITEMS = 4
COUNTS = (7, 6, 4, 1)
DRAWS = 100_000
SHARP = 0.5  # scale of integer noise: outcomes of few values
LIFT = 3  # its threshold
WINDOW = 1e-12  # what the laws with noisy counts leave out of the line
FEW: dict[str, Any] = {"items": 3, "max_count": 2}  # a domain for outcomes of many values


def _law(k: int, k_bar: int, m: float, *, known: bool, **changes: Any) -> Law:
    options = {"scale": SCALE, "threshold": math.log(m / DELTA), **changes}
    return partial(reference.law, k=k, k_bar=k_bar, known=known, **options)


def _delta(m: int) -> float:
    return m * reference.tail(math.log(m / DELTA))


def _counts_law(k: int, k_bar: int, *, known: bool, **changes: Any) -> Law:
    options = {"scale": SHARP, "threshold": LIFT, **changes}
    return partial(reference.counts_law, k=k, k_bar=k_bar, known=known, **options)


def _counts_delta(m: int, scale: float = SHARP) -> float:
    return m * reference.discrete_tail(LIFT, scale)


def _label(k: int, k_bar: int, user: int, known: bool) -> str:
    domain = "known" if known else "unknown"
    return f"k={k}, k_bar={k_bar}, at most {user} a user, {domain} domain"


def _cases() -> Iterator[PrivacyCheck]:
    """All small k, k_bar to past the domain, bounds on a user, both kinds of domain."""
    for k, k_bar, user, known in itertools.product(
        (1, 2, 3), (1, 2, 3, 4, 5), (1, 2, 3, 4), (True, False)
    ):
        if k > k_bar:
            continue
        m = movable(k_bar, n_items=ITEMS if known else None, max_items_per_user=user)
        tops = min(k_bar, ITEMS) if known else k_bar
        total = reference.steps(k, tops, user, with_counts=False) * EPSILON_STEP
        if known and k_bar >= ITEMS:
            claim = Claim(total, attains=0.99)  # nothing is cut off
        else:
            # With m > 1 slots the union bound is loose.
            claim = Claim(total, _delta(m), 0.77 if m <= ITEMS else 0.0)
        yield PrivacyCheck(
            _label(k, k_bar, user, known),
            _law(k, k_bar, m, known=known),
            (claim,),
            items=ITEMS,
            max_items_per_user=user,
        )


def _counts_cases() -> Iterator[PrivacyCheck]:
    """Items and noisy counts together."""
    for k, k_bar, user, known in itertools.product((1, 2), (1, 2, 3), (1, 2, 3), (True, False)):
        if k > k_bar:
            continue
        m = movable(k_bar, n_items=FEW["items"] if known else None, max_items_per_user=user)
        total = reference.steps(k, k_bar, user, with_counts=True) / SHARP
        claim = Claim(total, _counts_delta(m), 0.75)
        if known and k_bar >= FEW["items"]:
            claim = Claim(total, WINDOW)  # nothing is cut off; its tightness: see the twins
        yield PrivacyCheck(
            "noisy counts, " + _label(k, k_bar, user, known),
            _counts_law(k, k_bar, known=known),
            (claim,),
            **FEW,
            max_items_per_user=user,
        )


# ---- broken laws


def _gumbel_with_counts(counts: Counts) -> dict[Outcome, float]:
    """Limited domain's pick of one among all items, with the noisy count that won, floored."""
    logits: dict[Any, float] = {item: count / SHARP for item, count in enumerate(counts)}
    logits[BOT] = 1 / SHARP + math.log(1 / DELTA)
    # Whoever wins, its noisy value is Gumbel about the log-sum of all.
    middle = math.log(sum(map(math.exp, logits.values())))
    line = range(-6, 60)
    below = [math.exp(-math.exp(middle - value / SHARP)) for value in (*line[1:], math.inf)]
    below.insert(0, 0.0)
    chances = dict(plackett_luce(logits, 1, stop=BOT))
    for item in range(len(counts)):
        chance = chances.pop((item,))
        for value, low, high in zip(line, below[:-1], below[1:], strict=True):
            chances[(item, value)] = chance * (high - low)
    return chances


def _ties_by_rank(counts: Counts) -> dict[Any, float]:
    """Equal noisy counts in the order of the true counts."""
    ranks = cut(counts, len(counts), known=True)[0]
    chances: dict[Any, float] = {}
    for outcome, chance in _counts_law(2, 3, known=True)(counts).items():
        if len(outcome) == 2 and BOT not in outcome and outcome[0][1] == outcome[1][1]:
            outcome = tuple(sorted(outcome, key=lambda pick: ranks.index(pick[0])))
        chances[outcome] = chances.get(outcome, 0.0) + chance
    return chances


def _not_private(label: str, law: Law, epsilon: float, user: int, delta: float) -> PrivacyCheck:
    return claimed(label, law, epsilon, delta, max_items_per_user=user)


def _broken() -> Iterator[PrivacyCheck]:
    no_plus_one = _law(1, 1, 1, known=True, threshold=math.log(1 / DELTA) - 1 / SCALE)
    small_m = _law(2, 2, 1, known=False)
    yield _not_private("threshold without the + 1", no_plus_one, 1.0, 1, _delta(1))
    yield _not_private("ln(1 / delta) for ln(m / delta)", small_m, 1.0, 2, _delta(1))
    yield _not_private("users of more items than stated", small_m, 1.0, 3, _delta(1))
    yield _not_private(
        "m counts the items of an unknown domain", _law(2, 3, 1, known=False), 2.0, 2, _delta(1)
    )
    yield _not_private(
        "noise 5% too small", _law(1, 4, 1, known=True, scale=0.95 * SCALE), 1.0, 1, 0.0
    )
    yield _not_private("epsilon_step for two items", _law(2, 4, 1, known=True), 1.0, 2, 0.0)


def _counts_not_private(
    label: str, law: Law, steps: float, user: int, delta: float
) -> PrivacyCheck:
    label = f"noisy counts, {label}"
    return claimed(label, law, steps / SHARP, delta, **FEW, max_items_per_user=user)


def _counts_broken() -> Iterator[PrivacyCheck]:
    one_less = _counts_law(1, 1, known=True, threshold=LIFT - 1)
    all_items = _counts_law(2, 3, known=True)
    yield _counts_not_private("tail of > where >= is tested", one_less, 1.0, 1, _counts_delta(1))
    yield _counts_not_private(
        "tail of continuous noise where >= is tested",
        one_less,
        1.0,
        1,
        reference.tail(LIFT / SHARP),
    )
    yield _counts_not_private("5% less epsilon", _counts_law(1, 3, known=True), 0.95, 1, 1e-6)
    yield _counts_not_private("5% less epsilon, two items", all_items, 1.9, 2, 1e-6)
    yield _counts_not_private("epsilon_step for two items", all_items, 1.0, 2, 1e-6)
    yield _counts_not_private("for k steps", _counts_law(1, 3, known=True), 1.0, 3, 1e-6)
    yield _counts_not_private("ties by rank", _ties_by_rank, 1.0, 1, 1e-6)
    yield _counts_not_private(
        "those of a Gumbel race, for nothing", _gumbel_with_counts, 1.0, 3, 1e-6
    )


# ---- samplers


def _naive(counts: Counts, draws: int, seed: int, **changes: float) -> list[Outcome]:
    options: dict[str, Any] = {"scale": SCALE, "threshold": math.log(1 / DELTA), **changes}
    rng = np.random.default_rng(seed)
    return reference.naive_sample(counts, k=2, k_bar=3, draws=draws, rng=rng, **options)


def _naive_counts(counts: Counts, draws: int, seed: int, **changes: Any) -> Iterator[Any]:
    options: dict[str, Any] = {"scale": SHARP, "threshold": LIFT, **changes}
    rng = np.random.default_rng(seed)
    return reference.naive_sample_counts(counts, k=2, k_bar=3, draws=draws, rng=rng, **options)


def _gumbel(counts: Counts, draws: int, seed: int) -> list[Outcome]:
    options: dict[str, Any] = {"scale": SCALE, "threshold": math.log(1 / DELTA)}
    rng = np.random.default_rng(seed)
    return gumbel_reference.naive_sample(counts, k=2, k_bar=3, draws=draws, rng=rng, **options)


def _rounded(counts: Counts, draws: int, seed: int) -> Iterator[Any]:
    """Continuous noise, rounded to whole users."""
    items, next_count = cut(counts, 3, known=True)
    means = np.array([counts[i] for i in items] + [next_count + 1 + LIFT])
    noise = np.random.default_rng(seed).laplace(scale=SHARP, size=(draws, means.size))
    for row in np.rint(means + noise).astype(int).tolist():
        bot = row.pop()
        order = np.argsort(-np.array(row), kind="stable")[:2].tolist()
        picks = [(items[j], row[j]) for j in order if row[j] > bot]
        yield tuple(picks) + (BOT,) * (len(picks) < 2)


def _ties_by_position(counts: Counts, draws: int, seed: int) -> Iterator[Any]:
    for outcome in _naive_counts(counts, draws, seed):
        picks = [pick for pick in outcome if pick != BOT]
        picks.sort(key=lambda pick: (-pick[1], pick[0]))
        yield (*picks, *((BOT,) * (len(picks) < 2)))


def _public(*, known: bool) -> Public:
    options: dict[str, Any] = {"k": 2, "k_bar": 3, "delta": _delta(1), "max_items_per_user": 1}
    return Public(
        partial(mechanism, epsilon_step=EPSILON_STEP, **options),
        data=partial(histogram_of, known=known),
        covers=at_least(EPSILON_STEP, _delta(1)),
    )


def _public_counts(*, known: bool) -> Public:
    delta = _counts_delta(1, scale_of(1 / SHARP)) * (1 + 1e-9)
    options: dict[str, Any] = {"k": 2, "k_bar": 3, "delta": delta, "max_items_per_user": 1}
    return Public(
        partial(mechanism, epsilon_step=1 / SHARP, release_counts=True, **options),
        _with_counts,
        partial(histogram_of, known=known),
        at_least(1 / SHARP, _counts_delta(1)),
    )


def _with_counts(release: Release) -> tuple[Any, ...]:
    assert release.counts is not None
    picks = outcome_of(release)[: len(release)]
    noisy = release.counts.tolist()
    return (*zip(picks, noisy, strict=True), *((BOT,) * (not release.complete)))


def _sampler(label: str, sampler: Sampler, *, sees: Law | None = None) -> SamplerCheck:
    law = _law(2, 3, 1, known=True)
    return SamplerCheck(label, law, sampler, COUNTS, draws=DRAWS, seed=23, sees=sees)


def _counts_sampler(
    label: str, sampler: Sampler, *, sees: Law | None = None, seed: int = 24
) -> SamplerCheck:
    law = _counts_law(2, 3, known=True)
    return SamplerCheck(label, law, sampler, COUNTS, draws=DRAWS, seed=seed, sees=sees)


# ---- tapes


def _run(seed: int, rng: TapeRng, *, lift: float = 1.0, **options: Any) -> Release:
    counts, known, k, k_bar = case_of(seed)
    h = histogram_of(counts, known=known, k_bar=k_bar)
    return mechanism(
        h, k=k, k_bar=k_bar, epsilon_step=0.3, delta=DELTA / lift, max_items_per_user=1 + seed % 3,
        rng=rng, **options,
    )  # fmt: skip


def _movable(seed: int) -> int:
    counts, known, _, k_bar = case_of(seed)
    return movable(k_bar, n_items=len(counts) if known else None, max_items_per_user=1 + seed % 3)


def _kernel(seed: int, rng: TapeRng, **changes: float) -> Outcome:
    return outcome_of(_run(seed, rng, **changes))


def _twin(seed: int) -> Outcome:
    counts, known, k, k_bar = case_of(seed)
    lift = threshold(_movable(seed), DELTA)
    return reference.sample(
        tapes.read(seed), counts, k=k, k_bar=k_bar, scale=scale_of(0.3), threshold=lift, known=known
    )


def _counts_kernel(seed: int, rng: TapeRng, **changes: float) -> tuple[Any, ...]:
    return _with_counts(_run(seed, rng, release_counts=True, **changes))


def _counts_twin(seed: int) -> tuple[Any, ...]:
    """Two draws, each from the first word of the tape: the noise, and the order of equals."""
    counts, known, k, k_bar = case_of(seed)
    scale = scale_of(0.3)
    lift = integer_threshold(_movable(seed), DELTA, scale)
    return reference.sample_counts(
        tapes.read(seed), tapes.read(seed), counts, k=k, k_bar=k_bar, scale=scale, threshold=lift,
        known=known,
    )  # fmt: skip


NARROW, COUNTS_NARROW = (
    _law(2, 3, 1, known=True, scale=0.95 * SCALE),
    _counts_law(2, 3, known=True, scale=0.95 * SHARP),
)

ENTRY = Entry(
    "limited_domain_laplace",
    checks=(
        *_cases(),
        *_counts_cases(),
        _sampler("limited_domain_laplace(), known domain", _public(known=True), sees=NARROW),
        _sampler("limited_domain_laplace(), unknown domain", _public(known=False)),
        _counts_sampler(
            "limited_domain_laplace(), noisy counts", _public_counts(known=True), sees=COUNTS_NARROW
        ),
        _counts_sampler(
            "the same, unknown domain",
            _public_counts(known=False),
            sees=COUNTS_NARROW,
            seed=25,
        ),
        tapes.check("limited_domain_laplace() and its twin on the same tapes", _kernel, _twin, 300),
        tapes.check("the same, noisy counts", _counts_kernel, _counts_twin, 300),
        _sampler("NumPy baseline, k=2, k_bar=3", _naive, sees=NARROW),
        _counts_sampler(
            "NumPy baseline with noisy counts, k=2, k_bar=3", _naive_counts, sees=COUNTS_NARROW
        ),
    ),
    broken=(
        *_broken(),
        *_counts_broken(),
        _sampler("noise 5% too small, drawn", partial(_naive, scale=0.95 * SCALE)),
        _sampler("Gumbel noise, drawn", _gumbel),
        _counts_sampler(
            "noisy counts, noise 5% too small, drawn", partial(_naive_counts, scale=0.95 * SHARP)
        ),
        _counts_sampler("noisy counts, continuous noise rounded, drawn", _rounded),
        _counts_sampler(
            "noisy counts, BOT loses ties, drawn", partial(_naive_counts, threshold=LIFT - 1)
        ),
        _counts_sampler("noisy counts, ties by position, drawn", _ties_by_position),
        tapes.check("threshold too low, same tapes", partial(_kernel, lift=0.5), _twin, 100),
        tapes.check(
            "noisy counts, threshold too low, same tapes",
            partial(_counts_kernel, lift=0.5),
            _counts_twin,
            100,
        ),
    ),
)
