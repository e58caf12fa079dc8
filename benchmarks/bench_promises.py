"""What `dptopk.utility` promises before any data is touched, and how often it then comes true.

Each on data that have just the gap, or the shape, that is asked for. What a paper prints and
no theorem of ours confirms has no target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import dptopk as dp
from benchmarks.row import Row
from dptopk import metrics, utility

BETA = 0.05
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
K, K_BAR, REST = 10, 50, 400


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the share of calls that keep each promise."""
    calls = 300 if quick else 3000
    yield from _gaps(calls)
    yield from _accuracy(calls)
    yield from _recovered(calls)
    yield from _intervals(calls)


def _row(work: str, kept: int, calls: int, promised: float | None) -> Row:
    """The share kept; a promise is broken if it is 5 standard errors below."""
    share = kept / calls
    if promised is None:
        return Row(work, math.nan, "", None, share, "no promise", None)
    least = promised - 5 * math.sqrt(promised * (1 - promised) / calls)
    return Row(work, math.nan, "", None, share, f">= {promised:.3g}", share >= least)


def _share(draw: Callable[[dp.SeededRng], bool], calls: int) -> int:
    rng = dp.SeededRng(20)
    return sum(draw(rng) for _ in range(calls))


def _with_gap(gap: float, above: int) -> dp.Histogram:
    """A histogram of `above` items that count a gap more than all the rest."""
    low = 1000
    return dp.Histogram(np.repeat([low + math.ceil(gap), low], [above, REST]))


def _gaps(calls: int) -> Iterator[Row]:
    asked: dict[str, Any] = {"k": K, "beta": BETA, **BUDGET}
    for bound in ("exact", "paper"):
        gap = utility.limited_domain_gap(k_bar=K, bound=bound, **asked)
        draw = partial(dp.limited_domain, _with_gap(gap, K), k=K, k_bar=K, **BUDGET)
        kept = _share(lambda rng, draw=draw: draw(rng=rng).complete, calls)  # type: ignore[misc]
        promised = 1 - BETA if bound == "exact" else None
        yield _row(f"limited_domain returns {K}, gap of {bound} {gap:.4g}", kept, calls, promised)
        split = 0.45
        gap = utility.top_stable_gap(bound=bound, split=split, **asked)
        draw = partial(dp.top_stable, _with_gap(gap, K), k=K, k_bar=K, split=split, **BUDGET)
        kept = _share(lambda rng, draw=draw: len(draw(rng=rng)) == K, calls)  # type: ignore[misc]
        yield _row(f"top_stable returns {K}, gap of {bound} {gap:.4g}", kept, calls, 1 - BETA)
        tests = {"epsilon": 0.5, "delta": 5e-7}
        gap = utility.restricted_gap(k=K, beta=BETA, bound=bound, **tests)
        draw = partial(
            dp.restricted_gumbel, _with_gap(gap, K_BAR), k=K, k_bar=K_BAR, bound=bound,
            mechanism_epsilon=0.5, mechanism_delta=5e-7, **BUDGET,
        )  # fmt: skip
        kept = _share(lambda rng, draw=draw: draw(rng=rng).complete, calls)  # type: ignore[misc]
        yield _row(f"restricted returns {K}, gap of {bound} {gap:.4g}", kept, calls, 1 - BETA)


def _accuracy(calls: int) -> Iterator[Row]:
    """The most that can be picked wrongly: k_bar - k items, just too few to be accurate."""
    for bound in ("exact", "paper"):
        alpha = utility.limited_domain_accuracy(k=K, k_bar=K_BAR, beta=BETA, bound=bound, **BUDGET)
        counts = np.repeat([5000, 5000 - math.ceil(alpha) - 1], [K, K_BAR - K])
        h = dp.Histogram(np.append(counts, 0))

        def accurate(rng: dp.SeededRng, h: dp.Histogram = h, alpha: float = alpha) -> bool:
            release = dp.limited_domain(h, k=K, k_bar=K_BAR, rng=rng, **BUDGET)
            return metrics.accuracy_alpha(release, h, K) <= alpha

        work = f"limited_domain is ({alpha:.4g}, {K})-accurate, {bound}"
        yield _row(work, _share(accurate, calls), calls, 1 - BETA)


def _recovered(calls: int) -> Iterator[Row]:
    for noise in ("gumbel", "exponential", "laplace", "gaussian"):
        asked: dict[str, Any] = {"k": K, "noise": noise, **BUDGET}
        scale = dp.oneshot(_with_gap(1, K), **asked).parameters["scale"]
        low, high = 0.0, 100 * scale
        promise = partial(utility.oneshot_recovers, n_items=K + REST, scale=scale, k=K, noise=noise)
        while high - low > 0.01 * scale:
            gap = (low + high) / 2
            low, high = (gap, high) if promise(gap=gap) < 1 - BETA else (low, gap)
        h, gap = _with_gap(high, K), math.ceil(high)

        def right(rng: dp.SeededRng, h: dp.Histogram = h, asked: Any = asked) -> bool:
            return max(dp.oneshot(h, rng=rng, **asked).items) < K

        work = f"oneshot finds all {K}, {noise} noise, gap {gap}"
        yield _row(work, _share(right, calls), calls, promise(gap=gap))


def _intervals(calls: int) -> Iterator[Row]:
    counts = np.repeat(1000, K)
    for noise in ("laplace", "gaussian", "shared"):
        budget: dict[str, Any] = {"noise": noise, "epsilon": 1.0}
        budget |= {} if noise == "laplace" else {"delta": 1e-6}
        for simultaneous in (True, False):
            held = 0
            rng = dp.SeededRng(4)
            picks = dp.peel(counts, k=K, epsilon=1.0, rng=rng)
            for _ in range(calls // 3):
                release = dp.noisy_counts(picks, counts, rng=rng, **budget)
                ends = release.intervals(simultaneous=simultaneous)
                held += bool(((ends[:, 0] <= 1000) & (ends[:, 1] >= 1000)).all())
            named = "simultaneous intervals" if simultaneous else "intervals of each"
            promised = 0.95 if simultaneous else None
            yield _row(f"{named} hold all {K} counts, {noise}", held, calls // 3, promised)
