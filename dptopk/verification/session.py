"""The entry of sessions: no analyst, however adaptive, gets more out of one than its total.

For a pair of neighbours the worst analyst is found by going backwards: after any
transcript, of probability P and Q, an analyst can stop, at max(0, P - e^epsilon Q), or ask
the query whose outcomes add up to the most. That maximises over all deterministic
analysts, who choose each query (of a handful of kinds) by all that came before, and so
over the randomised ones too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dptopk.accounting.inverse import step_of_rho
from dptopk.accounting.prices import bounded_range_rho
from dptopk.budget.filter import Filter
from dptopk.budget.session import Session
from dptopk.budget.terms import Terms
from dptopk.mechanisms._calibrate import scale_of
from dptopk.mechanisms.limited_domain import threshold
from dptopk.reference import session as reference
from dptopk.reference.limited_domain import BOT
from dptopk.reference.session import Pick, Query, Transcript
from dptopk.rng import SeededRng, TapeRng
from dptopk.verification import tapes
from dptopk.verification.bounded_range import composed_delta
from dptopk.verification.draws import histogram_of, outcome_of
from dptopk.verification.privacy import Array, Counts, Law, Table, within
from dptopk.verification.registry import Entry, Sampler, SamplerCheck, TapeCheck, Verdict

ITEMS, MAX_COUNT = 3, 2
DELTA = 0.01  # of the threshold of a call
EXACT_DELTA = DELTA / (1 + DELTA)
QUERIES = (
    *(
        Query(k, k_bar, known)
        for k, k_bar in ((1, 1), (1, 2), (2, 2), (2, 3))
        for known in (True, False)
    ),
    Query(1, 2, False, private_k_bar=True),
)
PICKS = (Pick("joint", 2), Pick("canonical", 2), Pick("noisy_max"))
Price = Callable[[Any, tuple[Any, ...]], int]


def price(query: Query | Pick, outcome: tuple[Any, ...]) -> int:
    """Return what is charged for an outcome."""
    return query.price(outcome)


def one(step: float) -> float:
    """Count an outcome as one, whatever the epsilon of its step."""
    return 1.0


def rho(step: float) -> float:
    """Count an outcome in zero-concentrated DP."""
    return bounded_range_rho(step)


@dataclass(frozen=True)
class AnalystCheck:
    """The worst analyst of sessions, over all small histograms and their neighbours.

    Parameters
    ----------
    label : str
        What is checked.
    k_star, calls : int
        The budget.
    epsilon : float or callable
        The total; or what may be quoted, by the number of outcomes so far.
    delta : float
        What the hockey stick may weigh in total.
    steps : tuple of float
        The epsilons of steps that the analyst may choose from, call by call.
    delta_threshold : float
        The delta of the threshold of each call.
    attains : float
        How much of delta the worst analyst must reach at least.
    price : callable
        What an outcome of a query is charged.
    unit : callable
        What an outcome counts for in the budget, by the epsilon of its step.
    queries : tuple of Query and Pick
        What the analyst may ask.
    items, max_count : int
        The domain.
    """

    label: str
    k_star: float
    calls: int
    epsilon: float | Callable[[float], float]
    delta: float
    steps: tuple[float, ...] = (1.0,)
    delta_threshold: float = DELTA
    attains: float = 0.0
    price: Price = price
    unit: Callable[[float], float] = one
    queries: tuple[Query | Pick, ...] = QUERIES
    items: int = ITEMS
    max_count: int = MAX_COUNT
    quick: bool = True

    def run(self) -> Verdict:
        """Find the worst analyst for each pair of neighbours, all pairs at once."""
        table = Table(lambda counts: {}, self.items, self.max_count)
        pairs = list(table.pairs())
        p, q = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
        asked = [
            (query.most * self.unit(step), self._outcomes(query, step, table, p, q))
            for query, step in itertools.product(self.queries, self.steps)
        ]
        worst = self._worst(np.ones(p.size), np.ones(p.size), self.k_star, self.calls, asked)
        i = int(worst.argmax())
        share = worst[i] / self.delta
        where = f"{table.histograms[p[i]]} -> {table.histograms[q[i]]}"
        at = "its price" if callable(self.epsilon) else f"{self.epsilon:.6g}"
        good = within(float(worst[i]), self.delta) and share >= self.attains
        return Verdict(
            bool(good),
            f"delta {worst[i]:.6g}, {share:.2%} of {self.delta:.6g}, at epsilon {at}: {where}",
        )

    def _outcomes(
        self,
        query: Query | Pick,
        step: float,
        table: Table,
        p: npt.NDArray[Any],
        q: npt.NDArray[Any],
    ) -> list[tuple[float, Array, Array]]:
        """Return the price of each outcome of a query and its chances, pair by pair."""
        laws = [
            reference.law_of(counts, query, scale=1 / step, delta=self.delta_threshold)
            for counts in table.histograms
        ]
        found = []
        for outcome in sorted({outcome for law in laws for outcome in law}, key=repr):
            chances = np.array([law.get(outcome, 0.0) for law in laws])
            cost = self.price(query, outcome) * self.unit(step)
            found.append((cost, chances[p], chances[q]))
        return found

    def _worst(
        self,
        p: Array,
        q: Array,
        left: float,
        calls: int,
        asked: Sequence[tuple[float, list[tuple[float, Array, Array]]]],
    ) -> Array:
        """Return the most that an analyst gets from here, with this much left."""
        epsilon = self.epsilon
        allowed = epsilon(self.k_star - left) if callable(epsilon) else epsilon
        best = np.maximum(p - np.exp(allowed) * q, 0.0)
        for most, outcomes in asked if calls else ():
            if most > left:
                continue
            total = np.zeros(p.size)
            for cost, chance_p, chance_q in outcomes:
                total += self._worst(p * chance_p, q * chance_q, left - cost, calls - 1, asked)
            np.maximum(best, total, out=best)
        return best


def _budgets() -> Iterator[AnalystCheck]:
    """Two calls and three, each against the total, half of it, and what may be quoted."""
    two = ((k_star, 2, QUERIES) for k_star in (1, 2, 3, 4))
    three = ((3, 3, QUERIES[:5]), (2, 3, QUERIES[::2]))
    for k_star, calls, queries in (*two, *three):
        thresholds = min(calls, k_star) * DELTA
        for total, tight in ((k_star, 0.6), (k_star / 2, 0.25)):
            steps = composed_delta(total, epsilon_step=1.0, steps=k_star)
            yield AnalystCheck(
                f"k_star={k_star}, {calls} calls: epsilon = {total:g} steps, tight delta",
                k_star,
                calls,
                float(total),
                steps + thresholds,
                attains=tight,
                queries=queries,
            )
        yield AnalystCheck(
            f"k_star={k_star}, {calls} calls: what may be quoted so far",
            k_star,
            calls,
            float,
            thresholds,
            attains=0.6,
            queries=queries,
        )


def _picks(label: str, k_star: int, *picks: Query | Pick, attains: float = 0.0) -> AnalystCheck:
    """Check calls that are one step each, among others, at a total of half the steps."""
    delta = k_star * DELTA if any(isinstance(pick, Query) for pick in picks) else 0.0
    delta += composed_delta(epsilon := k_star / 2, epsilon_step=1.0, steps=k_star)
    return AnalystCheck(
        label, k_star, k_star, epsilon, delta, attains=attains, queries=picks, items=4
    )


def _sessions() -> Iterator[AnalystCheck]:
    """Take the terms of real sessions, by all accountings and some methods and splits."""
    for method, accounting, split, calls in (
        ("adaptive", "tight", 0.5, 2),
        ("adaptive", "printed", 0.5, 2),
        ("adaptive", "tight", 0.1, 2),
        ("zcdp", "tight", 0.9, 2),
        ("optimal", "tight", 0.5, 2),
        ("basic", "tight", 1.0, 2),
        ("adaptive", "tight", 0.5, 3),
    ):
        terms = Terms.of(
            k_star=3, calls=calls, epsilon=1.0, delta=0.1, method=method, accounting=accounting,
            delta_split=split,
        )  # fmt: skip
        yield AnalystCheck(
            f"Session(k_star=3, calls={calls}, epsilon=1, delta=0.1, {method}, {accounting}, "
            f"split {split:g})",
            terms.k_star,
            terms.calls,
            terms.epsilon,
            terms.delta,
            steps=(terms.epsilon_step,),
            delta_threshold=terms.delta_threshold,
            queries=QUERIES if calls == 2 else QUERIES[:5],
        )


def _filter(label: str, unit: Callable[[float], float]) -> AnalystCheck:
    """Check steps of three sizes, chosen call by call, as a filter admits them."""
    whole = Filter(epsilon=2.0, delta=0.01, delta_split=0.1).remaining
    step = step_of_rho(whole.rho, 2)
    return AnalystCheck(
        label,
        whole.rho,
        2,
        2.0,
        0.01,
        steps=(step / 2, step, 1.2 * step),
        delta_threshold=whole.delta / 2,
        unit=unit,
        queries=(Query(2, 2), Query(2, 3, False), Query(1, 2)),
        max_count=12,
    )


def _bot_free(query: Query, outcome: tuple[Any, ...]) -> int:
    return price(query, outcome) - (BOT in outcome)


def _refunded(query: Query, outcome: tuple[Any, ...]) -> int:
    """Charge nothing for a bad answer: "it failed, let me try again"."""
    return 0 if outcome[0] == BOT else price(query, outcome)


@lru_cache
def _composed_so_far(outcomes: float) -> float:
    """Return about the smallest epsilon at which so many steps have delta 0.05."""
    return next(
        e / 50 for e in range(201)
        if composed_delta(e / 50, epsilon_step=1.0, steps=int(outcomes)) <= 0.05
    )  # fmt: skip


def _broken() -> Iterator[AnalystCheck]:
    # Counts near the threshold, where BOT says as much as an item.
    for label, wrong in (("BOT not charged", _bot_free), ("a failed call refunded", _refunded)):
        queries = (Query(1, 2, False), Query(2, 2, False))
        yield AnalystCheck(
            label, 1, 3, 1.0, 3 * DELTA, price=wrong, queries=queries, items=2, max_count=6
        )
    yield AnalystCheck(
        "delta of a threshold not multiplied by the calls", 3, 3, 3.0, DELTA, queries=QUERIES[:5]
    )
    yield AnalystCheck(
        "epsilon of a step varies about that of which the total was composed",
        2,
        2,
        1.0,
        composed_delta(1.0, epsilon_step=1.0, steps=2) + 2 * DELTA,
        steps=(0.2, 1.8),
        queries=QUERIES[:5],
    )
    for name in ("joint", "canonical"):
        yield _picks(f"{name} without the half in its weight", 2, Pick(name, 2, half=False))
    yield _filter("a filter that charges half a step", lambda step: rho(step) / 2)
    yield AnalystCheck(
        "an odometer that composes the steps so far",
        4,
        4,
        _composed_so_far,
        0.05 + 4e-5,
        delta_threshold=1e-5,
        queries=(Query(1, 2),),
        items=2,
        max_count=14,
    )


# ---- samplers and tapes

TERMS = {"k_star": 3, "calls": 2, "epsilon": 3.0, "delta": 2 * DELTA, "method": "basic"}
COUNTS = (8, 7, 5, 1)


def _analyst(seen: Transcript) -> Query | None:
    """Ask for two; then among the other counts, by whether BOT came."""
    if not seen:
        return Query(2, 3)
    return Query(1, 2, known=False) if BOT in seen[0] else Query(1, 1)


def _law(counts: Counts, *, scale: float = 1.0) -> dict[Transcript, float]:
    return reference.law(counts, analyst=_analyst, k_star=3, calls=2, scale=scale, delta=DELTA)


def _transcript(session: Session, counts: Counts, rng: Any) -> Transcript:
    """Ask as `_analyst` does, until the session refuses."""
    seen: Transcript = ()
    while session.remaining.calls and session.remaining.outcomes:
        query = _analyst(seen)
        assert query is not None
        h = histogram_of(counts, known=query.known)
        release = session.limited_domain(h, k=query.k, k_bar=query.k_bar, rng=rng)
        seen = (*seen, outcome_of(release))
    return seen


def _public(counts: Counts, draws: int, seed: int, **changes: Any) -> Iterator[Transcript]:
    rng = SeededRng(seed)
    for _ in range(draws):
        yield _transcript(Session(**{**TERMS, "delta_split": 1.0, **changes}), counts, rng)


def _sampler(label: str, sampler: Sampler, *, sees: Law | None = None) -> SamplerCheck:
    return SamplerCheck(label, _law, sampler, COUNTS, draws=60_000, seed=31, sees=sees)


def _kernel(seed: int, rng: TapeRng, **changes: Any) -> Transcript:
    counts = tuple(tapes.counts(seed).tolist())
    counts = counts if len(counts) > 3 else (*counts, 1, 2, 3)
    return _transcript(Session(**{**TERMS, "k_star": 4, "calls": 3, **changes}), counts, rng)


def _twin(seed: int) -> Transcript:
    counts = tuple(tapes.counts(seed).tolist())
    counts = counts if len(counts) > 3 else (*counts, 1, 2, 3)
    terms = Terms.of(**{**TERMS, "k_star": 4, "calls": 3})

    def ln(query: Query) -> float:
        h = histogram_of(counts, known=query.known)
        return threshold(h, query.k_bar, None, terms.delta_threshold)

    return reference.sample(
        lambda number: tapes.read(seed),
        counts,
        analyst=_analyst,
        k_star=4,
        calls=3,
        scale=scale_of(terms.epsilon_step),
        threshold=ln,
    )


def _tapes(label: str, **changes: Any) -> TapeCheck:
    return TapeCheck(label, tapes.at_levels(partial(_kernel, **changes)), _twin, tapes.seeds(100))


ENTRY = Entry(
    "session",
    checks=(
        *_budgets(),
        *_sessions(),
        *(
            _picks(f"2 calls of {pick.name}", 2, pick, attains=attains)
            for pick, attains in zip(PICKS, (0.25, 0.05, 0.95), strict=True)
        ),
        _picks("3 calls, one step each", 3, *PICKS, attains=0.95),
        _picks("2 calls, of limited_domain too", 2, *PICKS, QUERIES[3], attains=0.7),
        _filter("Filter(epsilon=2, delta=0.01): 2 calls, steps of three sizes", rho),
        _sampler("Session, two adaptive calls", _public, sees=partial(_law, scale=0.95)),
        _tapes("Session and its twin on the same tapes"),
    ),
    broken=(
        *_broken(),
        _sampler("the step of fewer outcomes, drawn", partial(_public, epsilon=3.15)),
        _tapes("threshold's delta doubled, same tapes", delta=4 * DELTA),
    ),
)
