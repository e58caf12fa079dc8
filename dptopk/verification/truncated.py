"""Known domains that no array holds: every mechanism on counts that are cut, and clamped.

What was left out counts what the next one does. The laws are those of the mechanisms on
such counts; the scales are those that the public functions say they used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dptopk.histogram import Histogram
from dptopk.mechanisms.canonical import canonical
from dptopk.mechanisms.gamma import gamma
from dptopk.mechanisms.joint import joint
from dptopk.mechanisms.noisy_max import noisy_max
from dptopk.mechanisms.oneshot import oneshot
from dptopk.mechanisms.peel import peel
from dptopk.mechanisms.permute_and_flip import permute_and_flip
from dptopk.reference import canonical as canonical_law
from dptopk.reference import gamma as gamma_law
from dptopk.reference import joint as joint_law
from dptopk.reference import noisy_max as max_law
from dptopk.reference import oneshot as oneshot_law
from dptopk.reference import peel as peel_law
from dptopk.reference import permute_and_flip as flip_law
from dptopk.rng import SeededRng
from dptopk.verification.draws import Public, at_least, outcome_of
from dptopk.verification.privacy import Counts, Law, Outcome
from dptopk.verification.registry import Entry, PrivacyCheck, SamplerCheck, claimed

EPSILON, DELTA, ITEMS = 1.0, 0.01, 4
DRAWS = 10_000
SAMPLED = (4, 1, 1, 0, 3)


def clamped(counts: Counts, k_bar: int, less: int = 0) -> Counts:
    """Return the counts, none below the (k_bar+1)-th, or `less` below it."""
    following = sorted(counts, reverse=True)[k_bar]
    kept = sorted(range(len(counts)), key=lambda i: (-counts[i], i))[:k_bar]
    return tuple(c if i in kept else following - less for i, c in enumerate(counts))


def cut(counts: Counts, k_bar: int) -> Histogram:
    """Return what an engine has of a domain of numbered items."""
    items = sorted(range(len(counts)), key=lambda i: (-counts[i], i))
    rows = [i for i in items[:k_bar] if counts[i]]
    return Histogram.truncated(
        [counts[i] for i in rows], rows, next_count=counts[items[k_bar]], k_bar=k_bar,
        n_items=len(counts),
    )  # fmt: skip


def _on(law: Law, k_bar: int) -> Law:
    return lambda counts: law(clamped(counts, k_bar))


def _scale(call: Any, items: int) -> float:
    h = cut(tuple(range(items)), items - 1)
    return float(call(h, rng=SeededRng(1)).parameters["scale"])


def _laws(items: int) -> Iterator[tuple[str, Any, Law, float]]:
    """Yield every mechanism: a name, the call, its law, and its delta."""
    for k in (1, 2):
        for delta in (0.0, DELTA):
            call = partial(peel, k=k, epsilon=EPSILON, delta=delta)
            law = partial(peel_law.law, k=k, scale=_scale(call, items))
            yield f"peel, k={k}, delta={delta:g}", call, law, delta
    budgets: tuple[tuple[Any, float], ...] = (
        ("gumbel", 0.0), ("gumbel", DELTA), ("exponential", 0.0), ("laplace", 0.0),
        ("gaussian", DELTA),
    )  # fmt: skip
    for noise, delta in budgets:
        one = partial(oneshot, k=2, epsilon=EPSILON, delta=delta, noise=noise, max_items_per_user=1)
        set_law = partial(oneshot_law.law, k=2, scale=_scale(one, items), noise=noise)
        yield f"oneshot, {noise}, delta={delta:g}", one, set_law, delta
    noises: tuple[Any, ...] = ("exponential", "gumbel", "laplace")
    for noise in noises:
        first = partial(noisy_max, epsilon=EPSILON, noise=noise)
        yield f"noisy_max, {noise}", first, partial(max_law.law, scale=1.0, noise=noise), 0.0
    flip = partial(permute_and_flip, k=2, epsilon=EPSILON)
    yield "permute_and_flip, k=2", flip, partial(flip_law.law, k=2, scale=_scale(flip, items)), 0.0
    ball = partial(gamma, k=2, epsilon=EPSILON)
    yield "gamma, k=2", ball, partial(gamma_law.law, k=2, epsilon=EPSILON, monotone=True), 0.0
    for name, mechanism, reference in (
        ("joint", joint, joint_law.law), ("canonical", canonical, canonical_law.law),
    ):  # fmt: skip
        whole: Any = partial(mechanism, k=2, epsilon=EPSILON)
        yield f"{name}, k=2", whole, partial(reference, k=2, scale=_scale(whole, items)), 0.0


#: How much of the claim is used, where it is much.
TIGHT = {
    "peel, k=1, delta=0": 0.96,
    "oneshot, exponential, delta=0": 0.99,
    "noisy_max, exponential": 0.99,
    "permute_and_flip, k=2": 0.95,
    "gamma, k=2": 0.99,
}


def _checks() -> Iterator[PrivacyCheck]:
    for name, _, law, delta in _laws(ITEMS):
        attains = TIGHT.get(name, 0.0)
        yield claimed(f"{name}, k_bar=2", _on(law, 2), EPSILON, delta, attains)
        if name.startswith(("peel", "oneshot")):
            yield claimed(f"{name}, k_bar=1", _on(law, 1), EPSILON, delta)


def _samplers() -> Iterator[SamplerCheck]:
    for name, call, law, delta in _laws(len(SAMPLED)):
        data: Callable[[Counts], Histogram] = partial(cut, k_bar=2)
        yield SamplerCheck(
            f"{name}, drawn",
            _on(law, 2),
            Public(call, outcome_of, data, at_least(EPSILON, delta)),
            SAMPLED,
            draws=DRAWS,
            seed=29,
        )


# ---- broken


def _only_kept(counts: Counts) -> dict[Outcome, float]:
    kept = sorted(range(len(counts)), key=lambda i: (-counts[i], i))[:2]
    law = peel_law.law([counts[i] for i in kept], k=1, scale=1.0)
    return {(kept[place],): chance for (place,), chance in law.items()}


def _as_nothing(counts: Counts) -> dict[Outcome, float]:
    """Let what was left out count 0, where what was kept counts as it does."""
    following = sorted(counts, reverse=True)[2]
    return peel_law.law(clamped(counts, 2, less=following), k=1, scale=1.0)


def _by_rank(counts: Counts, draws: int, seed: int) -> Iterable[Outcome]:
    """Name picks by their place in the order of the counts."""
    h, rng = cut(counts, 2), SeededRng(seed)
    order = sorted(range(len(counts)), key=lambda i: (-counts[i], i))
    for _ in range(draws):
        yield (order.index(peel(h, k=1, epsilon=EPSILON, rng=rng).items[0]),)


def _others_by_naive(counts: Counts, draws: int, seed: int) -> Iterable[Outcome]:
    """Draw with one noise for all that were left out, and one of these at random."""
    rng = np.random.default_rng(seed)
    order = sorted(range(len(counts)), key=lambda i: (-counts[i], i))
    scores = np.array([counts[i] for i in order[:3]], float)
    first = (scores + rng.gumbel(size=(draws, 3))).argmax(axis=1)
    others = rng.integers(2, len(counts), draws)
    for place, other in zip(first.tolist(), others.tolist(), strict=True):
        yield (order[place if place < 2 else other],)


FIRST = partial(peel_law.law, k=1, scale=1.0)

ENTRY = Entry(
    "truncated",
    checks=(*_checks(), *_samplers()),
    broken=(
        claimed("only kept items can come out", _only_kept, EPSILON),
        claimed("what was left out counts 0", _as_nothing, EPSILON),
        claimed(
            "Laplace noise for the one item of a user",
            _on(partial(oneshot_law.law, k=2, scale=1.0, noise="laplace"), 2),
            EPSILON,
            max_items_per_user=1,
        ),
        claimed(
            "noise for k - 1 of k picks",
            _on(partial(oneshot_law.law, k=2, scale=1.0, noise="exponential"), 2),
            EPSILON,
        ),
        SamplerCheck(
            "items named by rank", _on(FIRST, 2), _by_rank, SAMPLED, draws=DRAWS, seed=29
        ),
        SamplerCheck(
            "one noise for all that were left out", _on(FIRST, 2), _others_by_naive, SAMPLED,
            draws=DRAWS, seed=29,
        ),
    ),
)  # fmt: skip
