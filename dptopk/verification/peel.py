"""The entry of peel: k bounded-range steps over the full domain."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms.peel import peel as mechanism
from dptopk.reference import limited_domain, peel
from dptopk.rng import TapeRng
from dptopk.verification import tapes
from dptopk.verification.bounded_range import composed_delta
from dptopk.verification.draws import Public, at_least, put_back, rows
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Entry, PrivacyCheck, SamplerCheck, claimed

EPSILON_STEP = 1.0
COUNTS = (3, 2, 1, 0)
DRAWS = 100_000  # sees a scale that is off by 5%


def _law(k: int, *, scale: float = 1 / EPSILON_STEP) -> Law:
    return partial(peel.law, k=k, scale=scale)


def _private(k: int) -> PrivacyCheck:
    """Pure at k steps, nearly tight; below that, within what bounded range composes to."""
    total = k * EPSILON_STEP
    parts = [part * total for part in (0.0, 0.25, 0.5, 0.75, 0.9)]
    composed = [
        Claim(epsilon, composed_delta(epsilon, epsilon_step=EPSILON_STEP, steps=k))
        for epsilon in parts
    ]
    return PrivacyCheck(
        f"k={k}: epsilon = {k} steps, and less by bounded range",
        _law(k),
        (Claim(total, attains=0.94), *composed),
    )


def _pick_among(items: list[int], counts: Counts) -> dict[Any, float]:
    logits = {i: counts[i] * EPSILON_STEP for i in items}
    return peel.plackett_luce(logits, 1) if items else {(): 1.0}


def _items_seen(counts: Counts) -> dict[Any, float]:
    """Peel over the items that someone has, as if that were a domain."""
    return _pick_among([i for i, count in enumerate(counts) if count > 0], counts)


def _top_two(counts: Counts) -> dict[Any, float]:
    """Peel over the top of the domain with no BOT."""
    return _pick_among(limited_domain.cut(counts, 2, known=True)[0], counts)


def _naive(
    counts: Counts, draws: int, seed: int, *, k: int, scale: float = 1.0
) -> Iterable[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    picks = peel.naive_sample(counts, k=k, scale=scale, draws=draws, rng=rng)
    return rows(picks)


def _in_item_order(counts: Counts, draws: int, seed: int, *, k: int) -> Iterable[tuple[int, ...]]:
    return (tuple(sorted(picks)) for picks in _naive(counts, draws, seed, k=k))


def _laplace(counts: Counts, draws: int, seed: int, *, k: int) -> Iterable[tuple[int, ...]]:
    noise = np.random.default_rng(seed).laplace(size=(draws, len(counts)))
    return rows(np.argsort(-(np.asarray(counts) + noise), axis=1)[:, :k])


def _sampler(label: str, sampler: Any, *, sees: Law | None = None) -> SamplerCheck:
    return SamplerCheck(label, _law(2), sampler, COUNTS, draws=DRAWS, seed=20, sees=sees)


def _drawn(label: str, sampler: Any) -> SamplerCheck:
    """Check a broken twin."""
    return _sampler(f"{label}, drawn", partial(sampler, k=2))


# ---- tapes


def _kernel(seed: int, rng: TapeRng, *, epsilon_step: float = 0.3) -> tuple[int, ...]:
    counts = tapes.counts(seed)
    k = 1 + seed % len(counts)
    return mechanism(counts, k=k, epsilon_step=epsilon_step, rng=rng).items


def _twin(seed: int) -> tuple[int, ...]:
    counts = tapes.counts(seed).tolist()
    k = 1 + seed % len(counts)
    return peel.sample(tapes.read(seed), counts, k=k, scale=scale_of(0.3))


ENTRY = Entry(
    "peel",
    checks=(
        *(_private(k) for k in (1, 2, 3)),
        _sampler(
            "peel(), k=2",
            Public(
                partial(mechanism, k=2, epsilon_step=EPSILON_STEP),
                covers=at_least(2 * EPSILON_STEP),
            ),
            sees=_law(2, scale=0.95),
        ),
        tapes.check("peel() and its twin on the same tapes", _kernel, _twin, 300),
        _sampler("NumPy baseline, k=2", partial(_naive, k=2), sees=_law(2, scale=0.95)),
    ),
    broken=(
        claimed("noise 5% too small", _law(2, scale=0.95 / EPSILON_STEP), 2 * EPSILON_STEP),
        claimed("half the noise: scale 1 / (2 epsilon)", _law(2, scale=0.5), 2 * EPSILON_STEP),
        claimed("one pick not charged", _law(2), EPSILON_STEP),
        claimed("domain read off the data", _items_seen, EPSILON_STEP),
        claimed("domain cut to the top 2", _top_two, EPSILON_STEP),
        _drawn("noise 5% too small", partial(_naive, scale=0.95)),
        _drawn("Laplace noise", _laplace),
        _drawn("order lost", _in_item_order),
        _drawn("items put back", partial(put_back, _naive)),
        tapes.check(
            "noise 1% too small, same tapes", partial(_kernel, epsilon_step=0.303), _twin, 100
        ),
    ),
)
