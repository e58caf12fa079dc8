"""The entry of stable_release and stable_queries: who leads of two items, if it leads well."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dptopk.accounting.stability import release_threshold, stability_threshold
from dptopk.answers import Answers
from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms._threshold import scales
from dptopk.mechanisms.stable_release import stable_queries
from dptopk.mechanisms.stable_release import stable_release as mechanism
from dptopk.reference import stable_release
from dptopk.reference.stable_release import Answer
from dptopk.rng import TapeRng
from dptopk.verification import tapes
from dptopk.verification.draws import Public, at_least
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Entry, PrivacyCheck, Sampler, SamplerCheck

EPSILON = 2.0
DELTA = 0.01
DRAWS = 100_000
FEWER = 30_000  # of the slower calls
PAIRS = 3  # of items, each a query: who of the two has more
DRAWN = (5, 2, 5, 4, 3, 7)  # distances 2, 0, 3

Outcome = tuple[Any, ...]


def leader(counts: Counts, first: int, *, margin: int = 1) -> Answer:
    """Return which of two items leads, ties by item, and its lead less the margin.

    A lead of more than 1 is needed to survive a user, who moves it by 1 at most.
    """
    second = first + 1
    value = first if counts[first] >= counts[second] else second
    return value, max(0, abs(counts[first] - counts[second]) - margin)


def pairs(counts: Counts, *, margin: int = 1) -> tuple[Answer, ...]:
    """Return who leads of each two items that follow each other: one query each."""
    return tuple(leader(counts, i, margin=margin) for i in range(0, len(counts), 2))


# ---- one query


def _single(
    *, bound: str = "exact", margin: int = 1, share: float = 1.0, noise: float = 1.0
) -> Law:
    scale = scale_of(EPSILON)
    threshold = release_threshold(DELTA * share, scale, bound) * noise

    def law(counts: Counts) -> dict[Outcome, float]:
        answer = leader(counts, 0, margin=margin)
        return stable_release.law(answer, threshold=threshold, scale=scale * noise)

    return law


def _private_single(label: str, law: Law, *, attains: float = 0.0) -> PrivacyCheck:
    return PrivacyCheck(label, law, (Claim(EPSILON, DELTA, attains),), items=2, max_count=7)


# ---- many queries


@lru_cache(maxsize=4096)
def _noise(
    stop: str, hits: int, bound: str = "exact", moved: int | None = None, scaled: bool = True
) -> dict[str, float]:
    """Return threshold and scales; the wrong ones by another `moved`, or not scaled by hits."""
    noise = scales(EPSILON, hits=hits if scaled else 1, monotone=False)
    if moved is None:
        moved = hits if stop == "unstable" and bound == "exact" else PAIRS
    threshold = stability_threshold(
        DELTA,
        query_scale=noise.query,
        threshold_scale=noise.threshold,
        tests=min(moved, PAIRS),
        bound=bound,
    )
    return {
        "threshold": threshold,
        "threshold_scale": noise.threshold,
        "query_scale": noise.query,
    }


@lru_cache(maxsize=100_000)
def _law_of(
    answers: tuple[Answer, ...], stop: str, hits: int, noise: tuple[tuple[str, float], ...]
) -> dict[Outcome, float]:
    return stable_release.queries_law(answers, stop=stop, hits=hits, **dict(noise))


def _many(
    stop: str,
    hits: int,
    *,
    margin: int = 1,
    last: int | None = None,
    low: Callable[[float], float] | None = None,
    **noise: Any,
) -> Law:
    """`last` is when it really stops; `low` gives another threshold from the query scale."""
    used = dict(_noise(stop, hits, **noise))
    if low is not None:
        used["threshold"] = low(used["query_scale"])

    def law(counts: Counts) -> dict[Outcome, float]:
        answers = pairs(counts, margin=margin)
        return _law_of(answers, stop, last or hits, tuple(used.items()))

    return law


def _private_many(label: str, law: Law, *, attains: float = 0.0) -> PrivacyCheck:
    return PrivacyCheck(label, law, (Claim(EPSILON, DELTA, attains),), items=2 * PAIRS, max_count=1)


# What the worst pair reaches of delta at least: all of it where the first moved query decides.
ATTAINS = {
    ("stable", 1): 0.92, ("stable", 2): 0.97, ("unstable", 1): 0.999, ("unstable", 2): 0.97,
    ("unstable", 3): 0.98,
}  # fmt: skip


def _cases() -> Iterator[PrivacyCheck]:
    yield _private_single("one query", _single(), attains=0.999)
    yield _private_single("one query, the paper's threshold", _single(bound="paper"), attains=0.499)
    for (stop, hits), attains in ATTAINS.items():
        label = f"until {hits} {stop}"
        yield _private_many(label, _many(stop, hits), attains=attains)
        yield _private_many(f"{label}, the paper's threshold", _many(stop, hits, bound="paper"))


def _broken() -> Iterator[PrivacyCheck]:
    yield _private_single("one query, distance off by one", _single(margin=0))
    yield _private_single("one query, threshold ln(1/(3 delta))", _single(share=1.5))
    yield _private_single("one query, noise 5% too small", _single(noise=0.95))
    yield _private_many("distance off by one", _many("unstable", 1, margin=0))
    yield _private_many("delta not shared, until 1 stable", _many("stable", 1, moved=1))
    yield _private_many("delta not shared, until 3 unstable", _many("unstable", 3, moved=1))
    yield _private_many("no cut-off", _many("unstable", 1, last=PAIRS + 1))
    yield _private_many(
        "threshold noise left out of delta",
        _many("unstable", 1, low=lambda scale: release_threshold(DELTA, scale, "exact")),
    )


# ---- samplers


def _outcome(answers: Answers) -> Outcome:
    return tuple(answers.values or ())


def _public_single(*, share: float = 1.0) -> Public:
    def call(answer: Answer, *, rng: Any) -> Answers:
        value, distance = answer
        return mechanism(value, distance=distance, epsilon=EPSILON, delta=DELTA * share, rng=rng)

    return Public(call, _outcome, lambda counts: leader(counts, 0), at_least(EPSILON, DELTA))


def _public_many(*, stop: Any, hits: int) -> Public:
    call = partial(stable_queries, stop=stop, hits=hits, epsilon=EPSILON, delta=DELTA)
    return Public(call, _outcome, lambda counts: list(pairs(counts)), at_least(EPSILON, DELTA))


def _naive(counts: Counts, draws: int, seed: int, *, stop: str, hits: int) -> list[Outcome]:
    rng = np.random.default_rng(seed)
    return stable_release.naive_sample(
        pairs(counts), stop=stop, hits=hits, draws=draws, rng=rng, **_noise(stop, hits)
    )


def _swapped(counts: Counts, draws: int, seed: int) -> Iterator[Outcome]:
    """Say BOT for the stable ones."""
    for outcome in _naive(counts, draws, seed, stop="unstable", hits=1):
        yield tuple("stable" if value is None else None for value in outcome)


def _sampler(
    label: str, law: Law, sampler: Sampler, *, draws: int = DRAWS, sees: Law | None = None
) -> SamplerCheck:
    return SamplerCheck(label, law, sampler, DRAWN, draws=draws, seed=41, sees=sees)


def _samplers() -> Iterator[SamplerCheck]:
    yield _sampler("stable_release()", _single(), _public_single(), sees=_single(share=1.1))
    for stop, hits in (("stable", 1), ("unstable", 1), ("unstable", 2)):
        law = _many(stop, hits)
        yield _sampler(
            f"stable_queries(), until {hits} {stop}",
            law,
            _public_many(stop=stop, hits=hits),
            draws=FEWER,
        )
        yield _sampler(
            f"NumPy baseline, until {hits} {stop}", law, partial(_naive, stop=stop, hits=hits)
        )


# ---- tapes


def _case(seed: int) -> tuple[list[Answer], Any, int]:
    counts = tapes.counts(seed).tolist()
    answers = [leader((a, b), 0) for a, b in itertools.pairwise([*counts, 0])]
    if seed % 3 == 0:
        answers = [(value, 0.5 * distance) for value, distance in answers]
    return answers, ("stable", "unstable")[seed % 2], 1 + seed % 3


def _epsilon(answers: list[Answer]) -> float:
    """So that the threshold is about as large as the distances."""
    return 20.0 / (1.0 + max(distance for _, distance in answers))


def _kernel_single(seed: int, rng: TapeRng, *, lift: float = 1.0) -> Outcome:
    answers, _, _ = _case(seed)
    value, distance = answers[0]
    epsilon = _epsilon(answers)
    return _outcome(
        mechanism(value, distance=distance, epsilon=epsilon, delta=min(0.9, 0.2 * lift), rng=rng)
    )


def _twin_single(seed: int) -> Outcome:
    answers, _, _ = _case(seed)
    scale = scale_of(_epsilon(answers))
    return stable_release.sample(
        tapes.read(seed), answers[0], threshold=release_threshold(0.2, scale, "exact"), scale=scale
    )


def _kernel_many(seed: int, rng: TapeRng, *, lift: float = 1.0) -> Outcome:
    """Draw from one stream of words, as each query would read a tape from its start."""
    answers, stop, hits = _case(seed)
    words = np.random.Generator(np.random.PCG64(seed))
    return _outcome(
        stable_queries(
            answers, stop=stop, hits=hits, epsilon=lift * _epsilon(answers), delta=0.2, rng=words
        )
    )


def _twin_many(seed: int) -> Outcome:
    answers, stop, hits = _case(seed)
    noise = scales(_epsilon(answers), hits=hits, monotone=False)
    moved = min(len(answers), hits) if stop == "unstable" else len(answers)
    threshold = stability_threshold(
        0.2, query_scale=noise.query, threshold_scale=noise.threshold, tests=moved
    )
    return stable_release.sample_queries(
        tapes.stream(seed),
        answers,
        stop=stop,
        hits=hits,
        threshold=threshold,
        threshold_scale=noise.threshold,
        query_scale=noise.query,
    )


ENTRY = Entry(
    "stable_release",
    checks=(
        *_cases(),
        *_samplers(),
        tapes.check(
            "stable_release() and its twin on the same tapes", _kernel_single, _twin_single, 300
        ),
        tapes.check(
            "stable_queries() and its twin on the same words", _kernel_many, _twin_many, 300
        ),
    ),
    broken=(
        *_broken(),
        _sampler("threshold for 1.1 delta, drawn", _single(), _public_single(share=1.1)),
        _sampler("BOT and values swapped, drawn", _many("unstable", 1), _swapped),
        tapes.check(
            "threshold for 1.5 delta, same tapes",
            partial(_kernel_single, lift=1.5),
            _twin_single,
            100,
        ),
        tapes.check(
            "noise 5% too small, same words", partial(_kernel_many, lift=1 / 0.95), _twin_many, 100
        ),
    ),
)
