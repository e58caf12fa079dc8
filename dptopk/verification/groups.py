"""The entry of groups: one price for a histogram of each, by the most groups of a user.

Items are pairs of a group and an item. The laws are those of the mechanisms in each group,
with the noise that the public function says it used; a user has any items in up to so many
groups. So what is checked is what is charged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dptopk.framework import restricted
from dptopk.histogram import Histogram, Histograms
from dptopk.mechanisms.canonical import canonical
from dptopk.mechanisms.joint import joint
from dptopk.mechanisms.limited_domain import limited_domain
from dptopk.mechanisms.limited_domain_laplace import limited_domain_laplace
from dptopk.mechanisms.noisy_max import noisy_max
from dptopk.mechanisms.oneshot import oneshot
from dptopk.mechanisms.peel import peel
from dptopk.mechanisms.permute_and_flip import permute_and_flip
from dptopk.mechanisms.top_stable import top_stable
from dptopk.reference import canonical as canonical_law
from dptopk.reference import gamma as gamma_law
from dptopk.reference import joint as joint_law
from dptopk.reference import limited_domain as limited_law
from dptopk.reference import limited_domain_laplace as laplace_law
from dptopk.reference import noisy_max as max_law
from dptopk.reference import oneshot as oneshot_law
from dptopk.reference import peel as peel_law
from dptopk.reference import permute_and_flip as flip_law
from dptopk.reference import restricted as restricted_law
from dptopk.reference import top_stable as stable_law
from dptopk.releases import Releases
from dptopk.rng import SeededRng
from dptopk.verification.draws import Public, at_least, outcome_of
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Entry, PrivacyCheck, SamplerCheck, Verdict

EPSILON, DELTA = 1.0, 0.02
DRAWS = 20_000
MAX_COUNT = 1


@dataclass(frozen=True)
class Shape:
    """How many groups there are, items in each, and the most of both that a user has."""

    groups: int
    items: int
    of_user: int
    items_of_user: int | None = None

    def has(self, user: tuple[int, ...]) -> bool:
        """Whether one user may have these pairs."""
        groups = [pair // self.items for pair in user]
        most = max(map(groups.count, groups))
        return len(set(groups)) <= self.of_user and most <= (self.items_of_user or most)

    def histograms(self, counts: Sequence[int], *, known: bool) -> Histograms:
        """Return the histograms of counts of pairs."""
        rows = [counts[i : i + self.items] for i in range(0, len(counts), self.items)]
        if known:
            return Histograms(
                np.array(rows), max_groups_per_user=self.of_user,
                max_items_per_user=self.items_of_user,
            )  # fmt: skip
        return Histograms.from_histograms(
            {group: self._unknown(row) for group, row in enumerate(rows)},
            max_groups_per_user=self.of_user,
        )

    def _unknown(self, row: Sequence[int]) -> Histogram:
        there = sorted((-count, item) for item, count in enumerate(row) if count)
        return Histogram.truncated(
            [-count for count, _ in there], [item for _, item in there], next_count=0,
            k_bar=self.items, max_items_per_user=self.items_of_user,
        )  # fmt: skip


TWO = Shape(3, 2, 2)  # of 3 groups of 2 items a user is in 2
ONE = Shape(3, 2, 1)
WIDE = Shape(2, 3, 2)
FEW = Shape(2, 3, 2, items_of_user=1)
PAIR = Shape(2, 2, 2)

One = Callable[[Counts], dict[Any, float]]
Make = Callable[[], One]  # looks up the noise when it is called


def in_all(make: Make, items: int) -> Law:
    """Return the law of independent draws in each group."""

    @lru_cache
    def one() -> One:
        return lru_cache(make())

    def law(counts: Counts) -> dict[Any, float]:
        rows = [one()(counts[i : i + items]) for i in range(0, len(counts), items)]
        return {
            tuple(outcome for outcome, _ in cells): math.prod(chance for _, chance in cells)
            for cells in itertools.product(*(row.items() for row in rows))
        }

    return law


def _noise(call: Any, shape: Shape, *, known: bool) -> dict[str, Any]:
    """Return the parameters of the public function's releases, whatever is picked."""
    counts = [0] * (shape.groups * shape.items)
    releases = call(shape.histograms(counts, known=known), rng=SeededRng(0))
    return dict(releases[0].parameters)


def _limited(shape: Shape, k: int, *, known: bool, divided: bool = True) -> One:
    """Divided or, as a broken twin, not: the delta of thresholds."""
    call = partial(limited_domain, k=k, epsilon=EPSILON, delta=DELTA, k_bar=shape.items)
    its = _noise(call, shape, known=known)
    m = limited_law.movable(
        shape.items, n_items=shape.items if known else None,
        max_items_per_user=shape.items_of_user,
    )  # fmt: skip
    delta = its["delta_threshold"] * (1 if divided else shape.of_user)
    return partial(
        limited_law.law, k=k, k_bar=shape.items, scale=its["scale"],
        threshold=math.log(m / delta), known=known,
    )  # fmt: skip


def _laplace(shape: Shape, k: int, *, priced: Shape | None = None) -> One:
    call = partial(
        limited_domain_laplace, k=k, epsilon=EPSILON, delta=DELTA, k_bar=shape.items,
        max_items_per_user=shape.items_of_user or shape.items,
    )  # fmt: skip
    its = _noise(call, priced or shape, known=False)
    return partial(
        laplace_law.law, k=k, k_bar=shape.items, scale=its["scale"],
        threshold=its["threshold"], known=False,
    )  # fmt: skip


def _peel(shape: Shape, k: int, delta: float = 0.0) -> One:
    its = _noise(partial(peel, k=k, epsilon=EPSILON, delta=delta), shape, known=True)
    return partial(peel_law.law, k=k, scale=its["scale"])


def _oneshot(shape: Shape, noise: Any, delta: float = 0.0) -> One:
    call = partial(oneshot, k=1, epsilon=EPSILON, delta=delta, noise=noise)
    its = _noise(call, shape, known=True)
    return partial(oneshot_law.law, k=1, scale=its["scale"], noise=noise)


def _scaled(law: Any, mechanism: Any, shape: Shape, **options: Any) -> One:
    its = _noise(partial(mechanism, epsilon=EPSILON, **options), shape, known=True)
    return partial(law, scale=its["scale"], **{k: v for k, v in options.items() if k != "delta"})


def _gamma(shape: Shape) -> One:
    return partial(gamma_law.law, k=1, epsilon=EPSILON / shape.of_user)


def _stable(shape: Shape) -> One:
    call = partial(top_stable, k=1, epsilon=EPSILON, delta=DELTA, k_bar=2)
    its = _noise(call, shape, known=False)
    names = ("threshold", "threshold_scale", "query_scale")
    noise = {name: its[name] for name in names}
    return partial(stable_law.law, k=1, k_bar=2, known=False, **noise)


def _restricted(shape: Shape) -> One:
    call = partial(restricted, "peel", k=1, epsilon=EPSILON, delta=DELTA, k_bar=shape.items)
    its = _noise(call, shape, known=False)
    picks = partial(peel_law.law, k=1, scale=its["mechanism_parameters"]["scale"])
    return partial(
        restricted_law.law, picks_law=picks, k=1, k_bar=shape.items, known=False,
        threshold=its["threshold"], scale=its["scale"],
    )  # fmt: skip


def _claimed(
    label: str, make: Make, shape: Shape, delta: float = 0.0, *, epsilon: float = EPSILON,
    attains: float = 0.0, quick: bool = True, law: Law | None = None,
) -> PrivacyCheck:  # fmt: skip
    where = f"a user in {shape.of_user} of {shape.groups} groups of {shape.items} items"
    return PrivacyCheck(
        f"{label}: {where}", law or in_all(make, shape.items), (Claim(epsilon, delta, attains),),
        items=shape.groups * shape.items, max_count=MAX_COUNT, user=shape.has, quick=quick,
    )  # fmt: skip


def _of(shape: Shape, *, attains: dict[str, float], quick: bool) -> list[PrivacyCheck]:
    """Check every mechanism at what it costs."""
    rows: list[tuple[str, Make, float]] = [
        ("peel, k=1", partial(_peel, shape, 1), 0.0),
        ("peel, k=2", partial(_peel, shape, 2), 0.0),
        ("peel, k=2, with delta", partial(_peel, shape, 2, DELTA), DELTA),
        ("limited_domain, k=1", partial(_limited, shape, 1, known=False), DELTA),
        ("limited_domain, k=1, known", partial(_limited, shape, 1, known=True), DELTA),
        ("limited_domain_laplace, k=1", partial(_laplace, shape, 1), DELTA),
        ("oneshot, laplace", partial(_oneshot, shape, "laplace"), 0.0),
        ("oneshot, exponential", partial(_oneshot, shape, "exponential"), 0.0),
        ("oneshot, gumbel", partial(_oneshot, shape, "gumbel"), 0.0),
        ("oneshot, gumbel, with delta", partial(_oneshot, shape, "gumbel", DELTA), DELTA),
        ("oneshot, gaussian", partial(_oneshot, shape, "gaussian", DELTA), DELTA),
        ("noisy_max", partial(_scaled, max_law.law, noisy_max, shape), 0.0),
        ("permute_and_flip", partial(_scaled, flip_law.law, permute_and_flip, shape, k=1), 0.0),
        ("joint", partial(_scaled, joint_law.law, joint, shape, k=1), 0.0),
        ("canonical", partial(_scaled, canonical_law.law, canonical, shape, k=1), 0.0),
        ("gamma", partial(_gamma, shape), 0.0),
        ("top_stable", partial(_stable, shape), DELTA),
        ("restricted", partial(_restricted, shape), DELTA),
    ]
    return [
        _claimed(name, make, shape, delta, attains=attains.get(name, 0.0), quick=quick)
        for name, make, delta in rows
    ]


# ---- thresholds alone: at plain sums of steps nothing else needs a delta


def _at_steps(step: float, delta: float) -> One:
    return partial(
        limited_law.law, k=1, k_bar=1, scale=1 / step, threshold=math.log(1 / delta), known=False
    )


def _thresholds(shape: Shape, charged: int, **more: Any) -> PrivacyCheck:
    """Check the thresholds of so many groups, at a step in each group of a user."""
    each = 0.01
    delta = 1 - (1 - each / (1 + each)) ** charged  # some threshold is passed
    return _claimed(
        f"{charged} threshold{'s' if charged > 1 else ''} of k_bar=1",
        partial(_at_steps, EPSILON / shape.of_user, each), shape, delta, **more,
    )  # fmt: skip


# ---- what is public, and how a user's groups are bounded


def _groups_seen(make: Make, items: int) -> Law:
    """Release of those groups alone that somebody is in."""
    law = in_all(make, items)

    def seen(counts: Counts) -> dict[Any, float]:
        there = [any(counts[i : i + items]) for i in range(0, len(counts), items)]
        found: dict[Any, float] = {}
        for outcome, chance in law(counts).items():
            key = tuple((g, o) for g, o in enumerate(outcome) if there[g])
            found[key] = found.get(key, 0.0) + chance
        return found

    return seen


Users = Sequence[Sequence[int]]


def by_hash(users: Users) -> list[set[int]]:
    """Keep one group of each user: by an order that is the user's own."""
    return [set(sorted(groups, key=lambda g: (g * 2 + u * 3) % 7)[:1]) for u, groups in
            enumerate(users)]  # fmt: skip


def by_popularity(users: Users) -> list[set[int]]:
    """Keep the one that most users have: which of them, others decide."""
    size = [sum(g in groups for groups in users) for g in range(3)]
    return [set(sorted(groups, key=lambda g: (-size[g], g))[:1]) for groups in users]


@dataclass(frozen=True)
class BoundedCheck:
    """Every set of 3 users in any of 3 groups, and one user more: one group moves, by 1."""

    label: str
    bound: Callable[[Users], list[set[int]]]
    quick: bool = True

    def run(self) -> Verdict:
        """Count what moves."""
        every = [s for r in range(4) for s in itertools.combinations(range(3), r)]
        worst = 0
        for users in itertools.product(every, repeat=3):
            for user in every:
                before, after = self.bound(users), self.bound((*users, user))
                moves = [
                    sum(g in kept for kept in after) - sum(g in kept for kept in before)
                    for g in range(3)
                ]
                worst = max(worst, sum(map(abs, moves)))
        return Verdict(worst <= 1, f"a user moves {worst} group counts at most, allowed 1")


# ---- draws of the public functions


def _outcomes(releases: Releases) -> Any:
    return tuple(map(outcome_of, releases.values()))


def _drawn(
    label: str, make: Make, mechanism: Any, *, known: bool, delta: float = 0.0, **options: Any
) -> SamplerCheck:
    data = partial(PAIR.histograms, known=known)
    call = partial(mechanism, k=1, epsilon=EPSILON, delta=delta, **options)
    covers = at_least(EPSILON, delta)
    return SamplerCheck(
        label, in_all(make, PAIR.items), Public(call, _outcomes, data, covers=covers),
        (2, 1, 0, 3), draws=DRAWS, seed=30,
    )  # fmt: skip


def _same_noise(counts: Counts, draws: int, seed: int) -> Iterable[Any]:
    """Draw in all groups by the same noise: a broken twin."""
    scale = _noise(partial(peel, k=1, epsilon=EPSILON), PAIR, known=True)["scale"]
    noise = np.random.default_rng(seed).gumbel(scale=scale, size=(draws, 2))
    picks = [(np.array(row) + noise).argmax(axis=1) for row in (counts[:2], counts[2:])]
    return (((a,), (b,)) for a, b in zip(*(row.tolist() for row in picks), strict=True))


# ---- the entry

PEEL, EM = partial(_peel, PAIR, 1), partial(_scaled, max_law.law, noisy_max, ONE)
ONE_EACH = replace(FEW, of_user=1)
#: How much of the claim is used, where it is much: a user in 2 of 3 groups.
TIGHT = {
    "peel, k=1": 0.6,
    "limited_domain_laplace, k=1": 0.85,
    "oneshot, exponential": 0.99,
    "noisy_max": 0.99,
    "permute_and_flip": 0.99,
    "gamma": 0.99,
    "top_stable": 0.85,
}

ENTRY = Entry(
    "groups",
    checks=(
        *_of(TWO, attains=TIGHT, quick=True),
        *_of(ONE, attains={}, quick=False),
        _claimed("peel, k=2", partial(_peel, WIDE, 2), WIDE, quick=False),
        _claimed(
            "limited_domain, k=2", partial(_limited, WIDE, 2, known=False), WIDE, DELTA,
            quick=False,
        ),
        _claimed(
            "limited_domain_laplace, an item a user", partial(_laplace, FEW, 2), FEW, DELTA,
            attains=0.99,
        ),
        _thresholds(TWO, 2, attains=0.999),
        _thresholds(ONE, 1, attains=0.999),
        BoundedCheck("groups bounded by a hash of user and group", by_hash),
        _drawn("peel() in two groups", PEEL, peel, known=True),
        _drawn(
            "limited_domain() in two groups", partial(_limited, PAIR, 1, known=False),
            limited_domain, known=False, delta=DELTA, k_bar=2,
        ),
    ),
    broken=(
        _claimed("k steps for G k", partial(_peel, ONE, 1), TWO),
        _claimed("pure noise for one group", EM, TWO),
        _claimed(
            "Gumbel noise for one group", partial(_oneshot, ONE, "gumbel", DELTA), TWO, DELTA
        ),
        _claimed(
            "Gaussian noise for one group", partial(_oneshot, ONE, "gaussian", DELTA), TWO, DELTA
        ),
        _thresholds(TWO, 1),
        _claimed(
            "items of a user bounded in all, not in each group",
            partial(_laplace, FEW, 2, priced=ONE_EACH), FEW, DELTA,
        ),
        _claimed("groups read off the data", PEEL, TWO, law=_groups_seen(PEEL, TWO.items)),
        BoundedCheck("groups bounded by popularity", by_popularity),
        SamplerCheck(
            "the same noise in all groups", in_all(PEEL, PAIR.items), _same_noise, (2, 1, 0, 3),
            draws=DRAWS, seed=31,
        ),
    ),
)  # fmt: skip
