"""What runs in ``python -m benchmarks utility``: our mechanisms, the papers', and `auto`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import dptopk as dp
from benchmarks.events import Events
from dptopk.domain import private_limit
from dptopk.mechanisms._plan import plan_of
from dptopk.mechanisms.table import MECHANISMS

MOST = 1_000_000  # items that a user may have: no item of anybody is dropped
SOFT_CAPS = (1, 3, 10, 30)
BOUNDS = (1, 3, 10, 30, 100)


class Regime(NamedTuple):
    """What is known and what is promised."""

    name: str
    known: bool
    delta: float


REGIMES = (
    Regime("unknown domain", False, 1e-6),
    Regime("known domain", True, 1e-6),
    Regime("known domain, pure", True, 0.0),
)


class Contender(NamedTuple):
    """A mechanism with its options; one of a paper keeps that paper's constants.

    ordered : whether the items come out in order
    counts : whether it goes by numbers of users, so that noisy counts can follow
    """

    name: str
    mechanism: str
    options: dict[str, Any]
    ours: bool = True
    ordered: bool = True
    counts: bool = True


def contenders(regime: Regime, k: int) -> Iterator[Contender]:
    """Yield all that run for some k."""
    named = [*(_unknown(k) if not regime.known else _known(regime))]
    named += [("weighted", {"soft_cap": cap, "norm": norm, "max_items_per_user": MOST})
              for cap in SOFT_CAPS for norm in _norms(regime)]  # fmt: skip
    for mechanism, options in named:
        said = ", ".join(f"{name} {value}" for name, value in options.items() if value != MOST)
        yield Contender(
            f"{mechanism} ({said})" if said else mechanism,
            mechanism,
            options,
            ordered=MECHANISMS[mechanism].order != "set" and mechanism != "joint",
            counts=not MECHANISMS[mechanism].weights,
        )
    for name, mechanism, options in _papers(regime, k):
        yield Contender(name, mechanism, options, ours=False)


def _norms(regime: Regime) -> tuple[str, ...]:
    if not regime.known:
        return ("l2",)
    return ("l2", "l1") if regime.delta else ("l1",)


def _unknown(k: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for k_bar in sorted({k, 10 * k, 50 * k, 1000, 10_000}):
        if k_bar >= k:
            yield "limited_domain", {"k_bar": k_bar}
    yield "limited_domain", {"k_bar": "private"}
    for bound in BOUNDS:
        yield "limited_domain_laplace", {"max_items_per_user": bound}
        yield "restricted_normal", {"max_items_per_user": bound}
    for k_bar in sorted({k, 10 * k, 50 * k, 10_000}):
        yield "restricted_gumbel", {"k_bar": k_bar}
    for k_bar in (k, 10 * k):
        yield "top_stable", {"k_bar": k_bar}


def _known(regime: Regime) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "peel", {}
    yield "oneshot", {"noise": "laplace"}
    yield "oneshot", {"noise": "exponential"}
    if regime.delta:
        for bound in BOUNDS:
            yield "oneshot", {"noise": "gaussian", "max_items_per_user": bound}
    yield "permute_and_flip", {}
    yield "joint", {}
    yield "canonical", {}


def _papers(regime: Regime, k: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the best known before, each with the constants of its paper."""
    if not regime.known:
        for k_bar in (k, 10 * k, 50 * k):
            options = {"k_bar": k_bar, "method": "bounded_range"}
            yield f"limited domain 2019, {k_bar}", "limited_domain", options
            options = {"k_bar": k_bar, "bound": "paper"}
            yield f"restricted domain, {k_bar}", "restricted_gumbel", options
            yield f"stability 2020, {k_bar}", "top_stable", options
        yield "discovery, then peel", "two_stages", {}
        return
    if regime.delta:
        yield "peel by zCDP", "peel", {"method": "zcdp"}
        yield "one shot, Laplace noise", "oneshot", {"noise": "laplace", "method": "approximate"}
    yield "peel, k steps", "peel", {"method": "basic"}
    yield "permute and flip, k steps", "permute_and_flip", {"method": "basic"}
    yield "joint, in order", "joint", {"output": "sequence"}


def auto_of(regime: Regime, k: int, epsilon: float, **asked: Any) -> Contender:
    """Return what `auto` chooses, by public numbers alone."""
    from dptopk.planning.auto import choose

    chosen = choose(k=k, epsilon=epsilon, delta=regime.delta, known_domain=regime.known, **asked)
    return Contender("auto", chosen.mechanism, chosen.options)


def draw_of(
    events: Events, contender: Contender, regime: Regime, k: int, epsilon: float
) -> Callable[[Any], Any] | None:
    """Return what draws the picks; None where the mechanism refuses the setting."""
    budget: dict[str, Any] = {"k": k, "epsilon": epsilon}
    if contender.mechanism == "two_stages":
        return _two_stages(events, regime.delta, **budget)
    options, mechanism = dict(contender.options), contender.mechanism
    most = options.get("max_items_per_user")
    if MECHANISMS[mechanism].weights:
        h = events.weighed(
            known=regime.known,
            most=None if most == MOST else most,
            soft_cap=options.pop("soft_cap"),
            norm=options.pop("norm"),
        )
    else:
        limit = private_limit(k) if options.get("k_bar") == "private" else None
        h = events.counted(known=regime.known, most=most, limit=limit)
        if "max_items_per_user" not in MECHANISMS[mechanism].options:
            options.pop("max_items_per_user", None)
    if isinstance(options.get("k_bar"), int):
        options["k_bar"] = min(options["k_bar"], events.counts.size)
    if MECHANISMS[mechanism].delta != "none":
        budget["delta"] = regime.delta
    try:
        plan = plan_of(getattr(dp, mechanism))(h, **budget, **options)
    except (ValueError, dp.MechanismError):
        return None
    return lambda rng: plan.draw(rng).items


def _two_stages(events: Events, delta: float, *, k: int, epsilon: float) -> Callable[[Any], Any]:
    """Find a domain by Gaussian noise on weights 1 / sqrt(t), then peel: half the budget each."""
    h = events.weighed(known=False, most=None, soft_cap=1, norm="l2")
    half = {"epsilon": epsilon / 2, "delta": delta / 2}
    finding = plan_of(dp.weighted)(h, max_items_per_user=MOST, **half)

    def draw(rng: Any) -> Any:
        found = np.asarray(finding.draw(rng).items, np.int64)
        if found.size <= k:
            return found
        return found[dp.peel(events.counts[found], k=k, rng=rng, **half).indices]

    return draw


def settings(quick: bool) -> Iterator[tuple[float, int]]:
    """Yield epsilon and k."""
    if quick:
        return iter([(1.0, 10), (1.0, 100)])
    return itertools.product((0.1, 0.4, 1.0, 4.0), (5, 10, 50, 100, 500))
