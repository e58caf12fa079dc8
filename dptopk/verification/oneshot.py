"""The entry of oneshot: noise once and the k largest as a set, under each of its theorems.

Scales come from the mechanism's own `noise_for`, so it is the code's calibration that is
checked. On four items noise for many picks would pass with a fraction of its scale, so
`WideCheck` looks at hundreds, where it shows an error of a factor 1.5.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dptopk.accounting import gaussian_delta, gaussian_sigma
from dptopk.mechanisms._set_noise import noise_for
from dptopk.mechanisms.oneshot import oneshot as mechanism
from dptopk.reference import oneshot
from dptopk.rng import TapeRng
from dptopk.verification import tapes
from dptopk.verification.draws import Public, at_least, rows
from dptopk.verification.privacy import Claim, Counts, Law, hockey_stick
from dptopk.verification.registry import Entry, PrivacyCheck, SamplerCheck, TapeCheck, Verdict

EPSILON = 1.0
NOISES = ("gumbel", "laplace", "exponential", "gaussian")
COUNTS = (3, 2, 1, 0)
DRAWS = 100_000  # sees a scale that is off by 5%
# Where two counts are told apart best at 2 users more or less: a whole number.
TIGHT = math.sqrt(0.75)
Set = tuple[int, ...]


@functools.cache
def _sorted_law(scores: Counts, k: int, scale: float, noise: str) -> dict[Set, float]:
    return oneshot.law(scores, k=k, scale=scale, noise=noise)


def _set_law(
    counts: Counts, *, k: int, scale: float, noise: str, largest: bool = True
) -> dict[Set, float]:
    """`oneshot.law`, computed once for scores that differ by a shift and their order."""
    turned = counts if largest else tuple(-count for count in counts)
    order = sorted(range(len(turned)), key=turned.__getitem__)
    low = turned[order[0]]
    chances = _sorted_law(tuple(turned[i] - low for i in order), k, scale, noise)
    return {tuple(sorted(order[i] for i in places)): p for places, p in chances.items()}


def _law(k: int, scale: float, noise: str, *, largest: bool = True) -> Law:
    return partial(_set_law, k=k, scale=scale, noise=noise, largest=largest)


def _calibrated(k: int, noise: str, **changes: Any) -> float:
    options: dict[str, Any] = {
        "method": "best",
        "epsilon": EPSILON,
        "delta": 0.0,
        "sensitivity": 1.0,
        "monotone": True,
        "max_items_per_user": None,
        "n_items": 4,
        **changes,
    }
    return noise_for(noise=noise, k=k, **options).scale


def _pure(
    k: int, noise: str, attains: float, *, monotone: bool = True, user: int | None = None,
    items: int = 4, largest: bool = True,
) -> PrivacyCheck:  # fmt: skip
    scale = _calibrated(k, noise, monotone=monotone, max_items_per_user=user, n_items=items)
    label = f"{noise}, k={k}, {'counts' if monotone else 'scores that move both ways'}"
    label += f", at most {user} a user" * (user is not None) + f", {items} items" * (items != 4)
    return PrivacyCheck(
        label + ", smallest" * (not largest),
        _law(k, scale, noise, largest=largest),
        (Claim(EPSILON, attains=attains),),
        items=items,
        max_count=3 if monotone and items == 4 else 2,
        max_items_per_user=user,
        monotone=monotone,
    )


def _cases() -> Iterator[PrivacyCheck]:
    """Every pure theorem; how tight each is on so small a domain was measured."""
    for k, one_way, both_ways in ((1, 0.98, 0.88), (2, 0.88, 0.69), (3, 0.6, 0.4)):
        yield _pure(k, "gumbel", one_way)
        yield _pure(k, "gumbel", both_ways, monotone=False)
    for k in (1, 2, 3):
        yield _pure(k, "exponential", 0.999)
        yield _pure(k, "exponential", 0.999, monotone=False)
    yield _pure(2, "exponential", 0.999, largest=False)
    for k, one_way, both_ways in ((1, 0.98, 0.98), (2, 0.8, 0.7), (3, 0.3, 0.3)):
        yield _pure(k, "laplace", one_way)
        yield _pure(k, "laplace", both_ways, monotone=False)
    yield _pure(4, "laplace", 0.2, items=5)
    yield _pure(2, "laplace", 0.8, largest=False)
    for k, user, attains in ((2, 1, 0.96), (3, 1, 0.99), (3, 2, 0.49)):
        yield _pure(k, "laplace", attains, user=user)
        yield _pure(k, "laplace", attains, user=user, monotone=False)


def _picks(k: int, noise: str, delta: float, *, monotone: bool = True) -> PrivacyCheck:
    """Check what k picks pay with delta; four items use little of it, `WideCheck` more."""
    scale = _calibrated(k, noise, method="approximate", delta=delta, monotone=monotone)
    kind = "counts" if monotone else "scores that move both ways"
    return PrivacyCheck(
        f"{noise}, k={k} picks with delta {delta:g}, {kind}",
        _law(k, scale, noise),
        (Claim(EPSILON, delta),),
        max_count=3 if monotone else 2,
        monotone=monotone,
    )


def _moved(user: int, items: int, *, monotone: bool = True) -> float:
    """Return how far a user moves what a set tells of, in L2 norm: differences, or all scores."""
    if not monotone:
        return math.sqrt(user)
    return max(math.sqrt(t * (items - t) / items) for t in range(1, user + 1))


def _gaussian(
    k: int, user: int | None, attains: float, *, monotone: bool = True, items: int = 4,
    sigma: float = 1.0,
) -> PrivacyCheck:  # fmt: skip
    """At the delta that makes sigma what it is: the calibration must come back to it."""
    moved = _moved(user or items, items, monotone=monotone)
    delta = gaussian_delta(epsilon=EPSILON, sigma=sigma, sensitivity=moved)
    scale = _calibrated(
        k, "gaussian", delta=delta, max_items_per_user=user, monotone=monotone, n_items=items
    )
    kind = "counts" if monotone else "scores that move both ways"
    return PrivacyCheck(
        f"gaussian, k={k} of {items}, {kind}, at most {user or 'all'} a user",
        _law(k, scale, "gaussian"),
        (Claim(EPSILON, delta, attains),),
        items=items,
        max_count=3 if monotone else 2,
        max_items_per_user=user,
        monotone=monotone,
    )


@dataclass(frozen=True)
class WideCheck:
    """Two groups of many items with equal scores: one pair of neighbours, exactly.

    The whole law of the set is that of how many come from the first group. The first group's
    scores are 0 and `first`, the second's 0 and `second`, in the two data sets.
    """

    label: str
    sizes: tuple[int, int]
    k: int
    scale: float
    noise: str
    epsilon: float
    delta: float
    first: int = 1
    second: int = 0
    least: float = 0.0  #: the delta that the pair must show at least
    quick: bool = True

    def run(self) -> Verdict:
        """Compare both ways."""
        p, q = (
            list(
                oneshot.group_law(
                    scores, self.sizes, k=self.k, scale=self.scale, noise=self.noise
                ).values()
            )
            for scores in ((0, 0), (self.first, self.second))
        )
        delta = max(
            float(hockey_stick(p, q, self.epsilon)), float(hockey_stick(q, p, self.epsilon))
        )
        good = self.least <= delta <= self.delta * (1 + 1e-9)
        return Verdict(good, f"delta {delta:.3g} of {self.delta:.3g}, at epsilon {self.epsilon:g}")


# Half of twice as many items: where Laplace noise needs most.
WIDE: tuple[dict[str, Any], ...] = (
    {"sizes": (528, 528), "k": 528, "delta": 1e-12, "epsilon": 0.2},
    {"sizes": (500, 500), "k": 500, "delta": 1e-6, "epsilon": 0.2},
    {"sizes": (100, 100), "k": 100, "delta": 1e-6, "epsilon": 2.0},
)


def _wide(
    label: str,
    scale: float | None = None,
    *,
    noise: str = "laplace",
    monotone: bool = True,
    case: int = 1,
    least: float = 0.0,
) -> WideCheck:
    """Noise for k picks on many items, at the mechanism's own scale if there is no other."""
    options = WIDE[case]
    if scale is None:
        scale = wide_scale(case, noise, monotone=monotone)
    return WideCheck(
        label, scale=scale, noise=noise, second=0 if monotone else -1, least=least, **options
    )


def wide_scale(case: int, noise: str = "laplace", *, monotone: bool = True) -> float:
    """Return the mechanism's own scale for k picks."""
    options = {name: WIDE[case][name] for name in ("k", "delta", "epsilon")}
    return _calibrated(
        options.pop("k"), noise, method="approximate", monotone=monotone,
        n_items=sum(WIDE[case]["sizes"]), **options,
    )  # fmt: skip


def _wide_cases() -> Iterator[WideCheck]:
    for i, case in enumerate(WIDE):
        for noise in ("laplace", "gumbel"):
            label = f"{noise}, k={case['k']} of {sum(case['sizes'])}, epsilon {case['epsilon']}"
            yield _wide(f"{label}, counts", noise=noise, case=i)
            yield _wide(f"{label}, scores that move both ways", noise=noise, monotone=False, case=i)


def _wide_gaussian(
    label: str, user: int, squared: float, *, others: int = 900, least: float = 0.0
) -> WideCheck:
    """All items of one user among many, sigma for a squared L2 sensitivity."""
    sigma = gaussian_sigma(epsilon=EPSILON, delta=0.01, sensitivity=math.sqrt(squared))
    sizes, k = (user, others), min(2 * user, (user + others) // 2)
    return WideCheck(label, sizes, k, sigma, "gaussian", EPSILON, 0.01, least=least)


# ---- broken


def _not_private(label: str, law: Law, claim: Claim | None = None, **options: Any) -> PrivacyCheck:
    return PrivacyCheck(label, law, (claim or Claim(EPSILON),), **options)


def _broken_laws() -> Iterator[PrivacyCheck | WideCheck]:
    both_ways: dict[str, Any] = {"monotone": False, "max_count": 2}
    for noise in ("laplace", "exponential"):
        yield _not_private(f"{noise}: noise for k - 1 of k picks", _law(2, 1.0, noise))
        yield _not_private(
            f"{noise}: the scale of counts for scores that move both ways",
            _law(2, 2.0, noise),
            **both_ways,
        )
    yield _not_private("exponential: noise for 1 of 3 picks", _law(3, 1.0, "exponential"))
    yield _not_private("exponential: noise 0.1% too small", _law(3, 2.997, "exponential"))
    yield _not_private(
        "exponential: D in place of k", _law(2, 1.0, "exponential"), max_items_per_user=1
    )
    yield _not_private(
        "laplace: half of D items a user",
        _law(3, 1.0, "laplace"),
        max_items_per_user=2,
        **both_ways,
    )
    yield from _broken_gaussian()
    yield from _broken_picks()


def _broken_picks() -> Iterator[WideCheck]:
    for case, options in enumerate(WIDE):
        items = f"k={options['k']}, epsilon {options['epsilon']}"
        for monotone in (True, False):
            scale = wide_scale(case, "gumbel", monotone=monotone)
            label = f"laplace, {items}: the scale of Gumbel noise" + ", both ways" * (not monotone)
            yield _wide(label, scale, monotone=monotone, case=case)
        for noise in ("laplace", "gumbel"):
            label = f"{noise}, {items}: the scale of counts for scores that move both ways"
            yield _wide(label, wide_scale(case, noise), noise=noise, monotone=False, case=case)
        label = f"gumbel, {items}: noise 5% too small"
        yield _wide(label, 0.95 * wide_scale(case, "gumbel"), noise="gumbel", case=case)
        picks = math.sqrt(options["k"])
        yield _wide(f"laplace, {items}: noise for one pick", wide_scale(case) / picks, case=case)


def _broken_gaussian() -> Iterator[PrivacyCheck | WideCheck]:
    both_ways: dict[str, Any] = {"monotone": False, "max_count": 2}
    delta = gaussian_delta(epsilon=EPSILON, sigma=1.0)
    yield _not_private(
        "gaussian: sigma without sqrt(D)",
        _law(1, 1.0, "gaussian"),
        Claim(EPSILON, delta),
        max_items_per_user=2,
        **both_ways,
    )
    # All move by 1/sqrt(2) at most after a common shift, if all move one way: then alone.
    claim = Claim(EPSILON, gaussian_delta(epsilon=EPSILON, sigma=TIGHT, sensitivity=0.5**0.5))
    label = "gaussian: differences of scores that move both ways as of those that move one way"
    yield _not_private(label, _law(1, TIGHT, "gaussian"), claim, items=2, **both_ways)
    label = "gaussian: noise 1% too small, 2 items"
    yield _not_private(label, _law(1, 0.99 * TIGHT, "gaussian"), claim, items=2)
    yield _wide_gaussian("gaussian: sigma without sqrt(D), counts of 1000 items", 100, 1.0)
    label = "gaussian: D (d - D) / d for a user of up to 19 of 20 items, 10 being the worst"
    yield _wide_gaussian(label, 10, 19 / 20, others=10)


# ---- samplers


def _budget(noise: str) -> dict[str, Any]:
    """Return what makes the scale 1 at k=2, for counts."""
    if noise != "gaussian":
        return {"epsilon": 2.0, "noise": noise}
    delta = gaussian_delta(epsilon=1.0, sigma=1.0, sensitivity=_moved(1, len(COUNTS)))
    return {"epsilon": 1.0, "delta": delta, "max_items_per_user": 1, "noise": noise}


def _public(noise: str, *, largest: bool = True) -> Public:
    budget = _budget(noise)
    return Public(
        partial(mechanism, k=2, largest=largest, **budget),
        covers=at_least(budget["epsilon"], budget.get("delta", 0.0)),
    )


def _naive(
    counts: Counts, draws: int, seed: int, *, noise: str, scale: float = 1.0, largest: bool = True
) -> Iterable[Set]:
    rng = np.random.default_rng(seed)
    options: dict[str, Any] = {"k": 2, "scale": scale, "noise": noise, "largest": largest}
    return rows(oneshot.naive_sample(counts, draws=draws, rng=rng, **options))


def _in_order(counts: Counts, draws: int, seed: int) -> Iterable[Set]:
    noisy = np.asarray(counts) + np.random.default_rng(seed).laplace(size=(draws, len(counts)))
    return rows(np.argsort(-noisy, axis=1)[:, :2])


def _sampler(
    label: str, sampler: Any, noise: str, *, largest: bool = True, sees: bool = False
) -> SamplerCheck:
    wrong = _law(2, 0.95, noise, largest=largest) if sees else None
    law = _law(2, 1.0, noise, largest=largest)
    return SamplerCheck(label, law, sampler, COUNTS, draws=DRAWS, seed=23, sees=wrong)


# ---- tapes


def _case(seed: int) -> tuple[Any, dict[str, Any]]:
    """Return counts, or scores a third of the time; for the largest, or the smallest."""
    counts = tapes.counts(seed)
    options: dict[str, Any] = {"k": 1 + seed % len(counts), "largest": seed % 2 == 0}
    return (counts / 4 - 2.0**40 if seed % 3 == 0 else counts), options


def _tape_budget(noise: str) -> dict[str, Any]:
    if noise != "gaussian":
        return {"epsilon": 0.7}
    return {"epsilon": 0.7, "delta": 0.1, "max_items_per_user": 3}


def _kernel(seed: int, rng: TapeRng, *, noise: Any, epsilon: float = 0.7) -> Set:
    scores, options = _case(seed)
    budget = {**_tape_budget(noise), "epsilon": epsilon}
    return mechanism(scores, noise=noise, rng=rng, **options, **budget).items


def _twin(seed: int, *, noise: str) -> Set:
    scores, options = _case(seed)
    scale = _calibrated(
        options["k"],
        noise,
        monotone=scores.dtype.kind != "f",
        n_items=len(scores),
        **_tape_budget(noise),
    )
    tape = tapes.read(seed)
    return oneshot.sample(tape, scores.tolist(), scale=scale, noise=noise, **options)


def _tape_check(label: str, kernel: Callable[..., Any], noise: str, n: int) -> TapeCheck:
    kernels = tapes.at_levels(partial(kernel, noise=noise))
    return TapeCheck(label, kernels, partial(_twin, noise=noise), tapes.seeds(n))


ENTRY = Entry(
    "oneshot",
    checks=(
        *_cases(),
        *(_gaussian(k, 2, 0.85, monotone=False) for k in (1, 2, 3)),
        _gaussian(3, 4, 0.75, monotone=False),
        _gaussian(1, None, 0.999999, items=2, sigma=TIGHT),
        *(_gaussian(k, None, 0.6) for k in (1, 2, 3)),
        _gaussian(2, 1, 0.6),
        _gaussian(1, None, 0.8, items=3),
        _gaussian(1, 2, 0.8, items=3),
        _gaussian(2, 5, 0.5, items=5),
        *(_picks(k, n, 0.01) for k in (2, 3) for n in ("gumbel", "laplace")),
        *(_picks(2, n, 0.01, monotone=False) for n in ("gumbel", "laplace")),
        *_wide_cases(),
        _wide_gaussian("gaussian, counts of 1000 items, at most 100 a user", 100, 90, least=1e-4),
        _wide_gaussian(
            "gaussian, counts of 1000 items, a user of any", 500, 250, others=500, least=1e-4
        ),
        *(_sampler(f"oneshot(), {n}", _public(n), n, sees=True) for n in NOISES),
        _sampler(
            "oneshot(), exponential, smallest",
            _public("exponential", largest=False),
            "exponential",
            largest=False,
            sees=True,
        ),
        *(
            _tape_check(f"oneshot() and its twin, {n}", _kernel, n, 60 if n == "gaussian" else 200)
            for n in NOISES
        ),
        *(_sampler(f"NumPy baseline, {n}", partial(_naive, noise=n), n, sees=True) for n in NOISES),
    ),
    broken=(
        *_broken_laws(),
        *(
            _sampler(f"{n}: noise 5% too small, drawn", partial(_naive, noise=n, scale=0.95), n)
            for n in NOISES
        ),
        _sampler("the order released, drawn", _in_order, "laplace"),
        _sampler(
            "exponential noise turned round with the scores, drawn",
            partial(_naive, noise="exponential", largest=False),
            "exponential",
        ),
        *(
            _tape_check(f"{n}: noise 1% too small, same tapes", partial(_kernel, epsilon=0.707), n,
                        200)
            for n in NOISES
        ),
    ),
)  # fmt: skip
