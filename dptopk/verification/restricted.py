"""The entry of restricted: what the mechanism costs, and a sparse vector below the threshold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dptopk.accounting import gaussian_sigma, step_epsilon
from dptopk.accounting.stability import stability_threshold
from dptopk.framework.restrict import restricted as mechanism
from dptopk.histogram import Histogram
from dptopk.mechanisms._calibrate import scale_of
from dptopk.reference import canonical, noise, peel, permute_and_flip, restricted
from dptopk.reference.limited_domain import BOT, Outcome
from dptopk.release import Release
from dptopk.rng import TapeRng
from dptopk.rounding import difference_down
from dptopk.verification import tapes
from dptopk.verification.draws import Public, at_least, histogram_of, outcome_of
from dptopk.verification.privacy import Claim, Counts, Law
from dptopk.verification.registry import Entry, PrivacyCheck, Sampler, SamplerCheck, TapeCheck

EPSILON_STEP = 1.0  # of a pick
EPSILON_TESTS = 4.0  # so that small counts pass
DELTA = 0.01
SMALL_DELTA = 1e-6
SCALE = scale_of(EPSILON_TESTS, 2.0)
THRESHOLD = stability_threshold(DELTA, query_scale=SCALE, threshold_scale=SCALE)
ITEMS = 4
COUNTS = (6, 5, 5, 0)  # distances near the threshold: tests pass and fail
DRAWS = 100_000
NORMAL = ((2, 3, 1), (1, 2, 4), (2, 3, 4), (2, 5, 4))  # k, k_bar, most items of a user
FEW_DRAWS = 20_000  # where a call takes longer, and the race has its own checks

Picks = tuple[int, ...]


def _gumbel(k: int) -> Any:
    return partial(peel.law, k=k, scale=1 / EPSILON_STEP)


def _oneshot(counts: Sequence[int], *, k: int) -> Mapping[Picks, float]:
    """Pick a set by exponential noise, k EPSILON_STEP-DP, put in an order drawn at random."""
    sets = noise.set_law(counts, k=k, scale=1 / EPSILON_STEP, noise="exponential")
    return restricted.in_random_order(sets)


def _flip(counts: Sequence[int], *, k: int) -> Mapping[Picks, float]:
    return permute_and_flip.law(counts, k=k, scale=1 / EPSILON_STEP)


def _canonical(counts: Sequence[int], *, k: int) -> Mapping[Picks, float]:
    """Pick a set by inverse sensitivity, 2 EPSILON_STEP-DP, put in an order drawn at random."""
    return restricted.in_random_order(canonical.law(counts, k=k, scale=1 / EPSILON_STEP))


def _normal(
    counts: Sequence[int], *, k: int, user: int, factor: float = 1.0
) -> Mapping[Picks, float]:
    """Pick by normal noise that is (2 EPSILON_STEP, DELTA)-DP for users of so many items."""
    shown = len(counts)
    squared = max(t * (shown - t) / shown for t in range(1, min(user, shown) + 1))
    sigma = gaussian_sigma(
        epsilon=2 * EPSILON_STEP, delta=DELTA, sensitivity=factor * math.sqrt(squared)
    )
    return noise.sequence_law(dict(enumerate(counts)), k=k, scale=sigma, noise="gaussian")


def _by_name(counts: Sequence[int], *, k: int) -> Mapping[Picks, float]:
    """Pick the first k in the order shown: 0-DP, whatever the counts."""
    return {tuple(range(k)): 1.0}


def _any(counts: Sequence[int], *, k: int) -> Mapping[Picks, float]:
    """Do the same with items in an order drawn at random."""
    orders = list(itertools.permutations(range(len(counts)), k))
    return dict.fromkeys(orders, 1 / len(orders))


def _law(picks_law: Any, k: int, k_bar: int, *, known: bool, **changes: float) -> Law:
    options: dict[str, Any] = {"threshold": THRESHOLD, "scale": SCALE, **changes}
    if known:
        k_bar = min(k_bar, ITEMS)
    return partial(restricted.law, picks_law=picks_law, k=k, k_bar=k_bar, known=known, **options)


def _cases() -> Iterator[PrivacyCheck]:
    """Small k and k_bar up to past the domain, and both kinds of domain."""
    mechanisms: dict[str, Any] = {
        "Gumbel": (_gumbel, EPSILON_STEP),
        "a set by exponential noise": (lambda k: partial(_oneshot, k=k), EPSILON_STEP),
        "permute-and-flip": (lambda k: partial(_flip, k=k), EPSILON_STEP),
        "ranked by name behind a random order": (lambda k: partial(_any, k=k), 0.0),
    }
    for (k, k_bar, user), known in itertools.product(NORMAL, (True, False)):
        yield PrivacyCheck(
            f"normal, k={k}, k_bar={k_bar}, at most {user} of the items a user, {_domain(known)}",
            _law(partial(_normal, k=k, user=user), k, k_bar, known=known),
            (Claim(2 * EPSILON_STEP + EPSILON_TESTS, 2 * DELTA, 0.3 if k_bar <= ITEMS else 0.0),),
            max_items_per_user=user,
        )
    yield PrivacyCheck(
        "normal, k=2 of 4, where every test passes: its own cost alone",
        _all_pass(1.0),
        (Claim(2 * EPSILON_STEP, DELTA, 0.4),),
    )
    for name, (picks_law, step) in mechanisms.items():
        for k, k_bar, known in itertools.product((1, 2, 3), (1, 2, 3, 5), (True, False)):
            if k > k_bar or (name != "Gumbel" and (k, k_bar) not in ((2, 2), (2, 3), (1, 3))):
                continue
            yield PrivacyCheck(
                f"{name}, k={k}, k_bar={k_bar}, {_domain(known)}",
                _law(picks_law(k), k, k_bar, known=known),
                (Claim(k * step + EPSILON_TESTS, *_delta(k, k_bar, known)),),
            )
    yield PrivacyCheck(
        "ranked by name behind a random order, k=4, k_bar=4, distances near the threshold: pure",
        _near_the_threshold(restricted.passing_law),
        (Claim(EPSILON_TESTS, attains=0.96),),
        items=5,
        max_count=0,
    )


def _all_pass(factor: float) -> Law:
    """Pick by normal noise from all items: nothing is cut off, so nothing need fail."""
    normal = partial(_normal, k=2, user=ITEMS, factor=factor)
    return _law(normal, 2, ITEMS, known=True, threshold=-40.0)


def _delta(k: int, k_bar: int, known: bool) -> tuple[float, float]:
    """Return delta, and how much of it a pair uses: all, if all of the top can be unstable."""
    if known and k_bar >= ITEMS:
        return 0.0, 0.0  # nothing is cut off
    if k_bar > ITEMS:
        return DELTA, 0.9  # made-up items take a pick now and then
    return DELTA, 0.3 * k if known and k_bar == 3 else 0.99999


def _domain(known: bool) -> str:
    return f"{'known' if known else 'unknown'} domain"


def _near_the_threshold(passing: Any, *, scale: float = SCALE) -> Law:
    """Four items near the threshold over the fifth, picked in any order by a 0-DP mechanism."""
    threshold = stability_threshold(SMALL_DELTA, query_scale=scale, threshold_scale=scale)
    near = math.floor(threshold)

    def law(counts: Counts) -> dict[Outcome, float]:
        base = [near + count for count in counts[:4]]
        chances: dict[Outcome, float] = {}
        for picks, chance in _any(base, k=4).items():
            distances = tuple(base[place] - counts[4] - 1 for place in picks)
            for passed, share in enumerate(passing(distances, threshold, scale)):
                outcome = picks[:passed]
                chances[outcome] = chances.get(outcome, 0.0) + chance * share
        return chances

    return law


# ---- broken laws


def _fresh_threshold(
    distances: tuple[int, ...], threshold: float, scale: float
) -> tuple[float, ...]:
    """Draw a noise of the threshold for every test."""
    chances, left = [], 1.0
    for distance in distances:
        fails, passes = restricted.passing_law((distance,), threshold, scale)
        chances.append(left * fails)
        left *= passes
    return (*chances, left)


def _scan(counts: Counts, picks_law: Any, *, k: int, k_bar: int) -> dict[Outcome, float]:
    """Scan what `picks_law(items, counts)` picks from the top k_bar of a known domain."""
    items, shown, next_count = restricted.domain(counts, k_bar, known=True)
    return restricted.scan_law(
        picks_law(items, shown), items, shown, next_count, k=k, threshold=THRESHOLD, scale=SCALE
    )


def _ranked_by_name(items: list[int], counts: list[int]) -> Mapping[Picks, float]:
    """Rank by name: 0-DP on every domain, but items are not treated alike."""
    return {tuple(sorted(range(2), key=items.__getitem__)): 1.0}


def _set_by_name(items: list[int], counts: list[int]) -> Mapping[Picks, float]:
    """Pick a set, and scan it in item order."""
    sets = noise.set_law(counts, k=2, scale=1 / EPSILON_STEP, noise="exponential")
    return {tuple(sorted(s, key=items.__getitem__)): chance for s, chance in sets.items()}


def _set_by_count(items: list[int], counts: list[int]) -> Mapping[Picks, float]:
    """Pick a set, and scan it in the order of the counts."""
    return noise.set_law(counts, k=2, scale=1 / EPSILON_STEP, noise="exponential")


def _positions_by_count(items: list[int], counts: list[int]) -> Mapping[Picks, float]:
    """Rank by position, where the positions are the places by count."""
    return {(0, 1): 1.0}


def _nothing_made_up(counts: Counts) -> dict[Outcome, float]:
    """Show the mechanism what items there are, few as they may be."""
    high = (60, *counts[1:])  # passes for certain
    items, shown, next_count = restricted.domain(high, 4, known=True)
    shown = [count for count in shown if count > 0]
    return restricted.scan_law(
        _any(shown, k=1), items, shown, next_count, k=1, threshold=20.0, scale=2.0
    )


def _not_private(
    label: str, law: Law, epsilon: float, *, delta: float = DELTA, **domain: Any
) -> PrivacyCheck:
    return PrivacyCheck(label, law, (Claim(epsilon, delta),), **domain)


def _broken() -> Iterator[PrivacyCheck]:
    total = EPSILON_STEP + EPSILON_TESTS
    gumbel = partial(_law, _gumbel(1), 1, known=False)
    yield _not_private("distance without the - 1", gumbel(1, threshold=THRESHOLD - 1), total)
    yield _not_private(
        "delta_q as if the threshold had no noise",
        gumbel(1, threshold=-math.log(2 * DELTA) * SCALE),
        total,
    )
    yield _not_private("delta_q = delta", gumbel(1, threshold=-math.log(DELTA) * SCALE), total)
    yield _not_private(
        "noises of scale 1 / eR",
        _near_the_threshold(restricted.passing_law, scale=SCALE / 2),
        EPSILON_TESTS,
        delta=SMALL_DELTA,
        items=5,
        max_count=0,
    )
    yield _not_private(
        "fresh threshold noise for every test",
        _near_the_threshold(_fresh_threshold),
        EPSILON_TESTS,
        delta=SMALL_DELTA,
        items=5,
        max_count=0,
    )
    yield _not_private(
        "the mechanism not charged",
        _law(_gumbel(1), 1, 3, known=True, threshold=-20.0),
        0.9 * EPSILON_STEP,
    )
    yield _not_private(
        "normal noise for half of what differences move by", _all_pass(0.5), 2 * EPSILON_STEP
    )
    for label, picks_law, step in (
        ("ranked by name, items in their own order", _ranked_by_name, 0.0),
        ("ranked by place, items in the order of the counts", _positions_by_count, 0.0),
        ("a set scanned in item order", _set_by_name, EPSILON_STEP),
        ("a set scanned in the order of the counts", _set_by_count, EPSILON_STEP),
    ):
        yield _not_private(
            label,
            partial(_scan, picks_law=picks_law, k=2, k_bar=2),
            2 * step + EPSILON_TESTS,
            items=3,
            max_count=9,
        )
    yield _not_private("no items made up for missing ones", _nothing_made_up, 1.0)


# ---- samplers


def _as_sets(law: Law) -> Law:
    """Forget the order of the outcomes."""

    def sets(counts: Counts) -> dict[Outcome, float]:
        chances: dict[Outcome, float] = {}
        for outcome, chance in law(counts).items():
            bot = (BOT,) * (BOT in outcome)
            key = (*sorted(pick for pick in outcome if pick != BOT), *bot)
            chances[key] = chances.get(key, 0.0) + chance
        return chances

    return sets


def _first(h: Histogram, k: int) -> range:
    """Return the first k positions: a mechanism that knows nothing."""
    return range(k)


def _public(*, of: Any = "peel", known: bool = True, spent: float = 0.0, **options: Any) -> Public:
    cost = 2 * EPSILON_STEP if isinstance(of, str) else 0.0

    def call(h: Histogram, *, rng: Any) -> Release:
        return mechanism(
            of,
            h,
            k=2,
            k_bar=3,
            epsilon=cost + EPSILON_TESTS,
            delta=DELTA + spent,
            mechanism_epsilon=cost,
            mechanism_delta=spent,
            rng=rng,
            **options,
        )

    covers = at_least(cost + EPSILON_TESTS, DELTA + spent)
    return Public(call, data=partial(histogram_of, known=known), covers=covers)


def _naive(
    counts: Counts, draws: int, seed: int, *, narrow: float = 1.0, fresh: bool = False
) -> Iterator[Outcome]:
    rng = np.random.default_rng(seed)
    items, shown, next_count = restricted.domain(counts, 3, known=True)
    picks = peel.naive_sample(shown, k=2, scale=1 / EPSILON_STEP, draws=draws, rng=rng)
    passed = restricted.naive_tests(
        np.array(shown)[picks] - next_count - 1,
        threshold=THRESHOLD,
        scale=narrow * SCALE,
        rng=rng,
        fresh_threshold=fresh,
    )
    for row, n in zip(picks.tolist(), passed.tolist(), strict=True):
        yield (*(items[place] for place in row[:n]), *(BOT,) * (n < 2))


def _sampler(
    label: str,
    sampler: Sampler,
    law: Law,
    *,
    seed: int,
    sees: Law | None = None,
    draws: int = DRAWS,
) -> SamplerCheck:
    return SamplerCheck(label, law, sampler, COUNTS, draws=draws, seed=seed, sees=sees)


# ---- tapes


def _case(seed: int) -> tuple[Counts, bool, int, int, float]:
    """Return counts, whether their domain is known, k, k_bar and the epsilon of the tests."""
    counts = tuple(tapes.counts(seed).tolist())
    known = seed % 2 == 0
    k = 1 + seed % 7
    if known:
        k = min(k, len(counts))
    return counts, known, k, k + seed % 11, (0.01, 1.0, 30.0)[seed % 3]


def _kernel(seed: int, rng: TapeRng, *, of: Any = "peel", delta: float = DELTA) -> Outcome:
    counts, known, k, k_bar, epsilon = _case(seed)
    ours = isinstance(of, str)
    return outcome_of(
        mechanism(
            of,
            histogram_of(counts, known=known, k_bar=k_bar),
            k=k,
            k_bar=k_bar,
            epsilon=epsilon + ours,
            delta=delta,
            mechanism_epsilon=float(ours),
            mechanism_delta=0.0,
            ordered=ours,
            rng=rng,
        )
    )


def _twin(seed: int, *, ours: bool = True) -> Outcome:
    """Each draw from the first word of the tape."""
    counts, known, k, k_bar, epsilon = _case(seed)
    if known:
        k_bar = min(k_bar, len(counts))
    _, shown, _ = restricted.domain(counts, k_bar, known=known)
    if ours:
        scale = scale_of(step_epsilon(1.0, k, 0.0))
        picks = list(peel.sample(tapes.read(seed), shown, k=k, scale=scale))
    else:
        order = restricted.sample_order(tapes.read(seed), range(len(shown)))
        picks = restricted.sample_order(tapes.read(seed), order[:k]) if k > 1 else order[:1]
    tests = difference_down(epsilon + ours, float(ours))
    scale = scale_of(tests, 2.0)
    threshold = stability_threshold(DELTA, query_scale=scale, threshold_scale=scale)
    outcome = restricted.sample_tests(
        tapes.read(seed),
        picks,
        counts,
        k=k,
        k_bar=k_bar,
        threshold=threshold,
        scale=scale,
        known=known,
    )
    if ours:
        return outcome
    return (*sorted(pick for pick in outcome if pick != BOT), *(BOT,) * (BOT in outcome))


def _tape_check(label: str, kernel: Any, n: int, *, ours: bool = True) -> TapeCheck:
    return TapeCheck(label, tapes.at_levels(kernel), partial(_twin, ours=ours), tapes.seeds(n))


GUMBEL = _law(_gumbel(2), 2, 3, known=True)

ENTRY = Entry(
    "restricted",
    checks=(
        *_cases(),
        _sampler(
            "restricted(peel), known domain",
            _public(),
            GUMBEL,
            seed=41,
            sees=_law(_gumbel(2), 2, 3, known=True, scale=0.95 * SCALE),
        ),
        _sampler(
            "restricted(peel), unknown domain",
            _public(known=False),
            _law(_gumbel(2), 2, 3, known=False),
            seed=42,
        ),
        _sampler(
            "restricted(oneshot)",
            _public(of="oneshot", options={"noise": "exponential"}),
            _as_sets(_law(partial(_oneshot, k=2), 2, 3, known=True)),
            seed=48,
            draws=FEW_DRAWS,
        ),
        _sampler(
            "restricted(canonical)",
            _public(of="canonical"),
            _as_sets(_law(partial(_canonical, k=2), 2, 3, known=True)),
            seed=51,
            draws=FEW_DRAWS,
        ),
        _sampler(
            "restricted(permute_and_flip)",
            _public(of="permute_and_flip"),
            _law(partial(_flip, k=2), 2, 3, known=True),
            seed=49,
            draws=FEW_DRAWS,
        ),
        _sampler(
            "restricted(normal)",
            _public(of="normal", spent=DELTA, options={"max_items_per_user": 1}),
            _law(partial(_normal, k=2, user=1), 2, 3, known=True),
            seed=50,
            draws=FEW_DRAWS,
        ),
        _sampler(
            "restricted(a callable)",
            _public(of=_first),
            _law(partial(_any, k=2), 2, 3, known=True),
            seed=43,
            draws=FEW_DRAWS,
        ),
        _sampler(
            "restricted(a callable that picks a set)",
            _public(of=_first, ordered=False),
            _as_sets(_law(partial(_any, k=2), 2, 3, known=True)),
            seed=44,
            draws=FEW_DRAWS,
        ),
        _tape_check("restricted(peel) and its twin on the same tapes", _kernel, 600),
        _tape_check(
            "restricted(a callable that picks a set), the same",
            partial(_kernel, of=_first),
            300,
            ours=False,
        ),
        _sampler("NumPy baseline", _naive, GUMBEL, seed=45),
    ),
    broken=(
        *_broken(),
        _sampler(
            "noise of the tests 5% too small, drawn", partial(_naive, narrow=0.95), GUMBEL, seed=46
        ),
        _sampler("fresh threshold noise, drawn", partial(_naive, fresh=True), GUMBEL, seed=47),
        _tape_check("threshold too low, same tapes", partial(_kernel, delta=2 * DELTA), 200),
    ),
)
