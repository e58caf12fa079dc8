"""Checks that a mechanism is as private as it says: yours, or all of ours.

`verify` takes the exact law of any mechanism and looks at every histogram of a
small domain and every neighbour of it. `run` does that, and more, for the
mechanisms of this library; `dptopk verify` prints what it found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from dptopk._validate import integer, nonnegative
from dptopk.verification.privacy import Claim, Counts, Law, Table, holds, tightness
from dptopk.verification.reach import around, riskiest

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)  # of epsilon: where a report looks if not told


@dataclass(frozen=True)
class Report:
    """What `verify` found. `print` it, or read its fields."""

    passed: bool
    epsilon: float
    delta: float
    worst_delta: float  #: largest sum of max(0, P - exp(epsilon) Q) over all pairs
    worst_epsilon: float  #: largest ln(P / Q) of a single outcome; inf where Q is 0
    tightness: float  #: worst_delta / delta, or worst_epsilon / epsilon if delta is 0
    counts: tuple[int, ...]  #: the worst pair: P is the law here ...
    neighbour: tuple[int, ...]  #: ... and Q the law here
    profile: tuple[tuple[float, float], ...]  #: (epsilon, worst delta), not judged

    def __str__(self) -> str:
        """Say the verdict in a few lines."""
        lines = [
            f"{'passed' if self.passed else 'FAILED'}: "
            f"epsilon={self.epsilon:.6g}, delta={self.delta:.6g}, {self.tightness:.2%} used",
            f"  worst pair       {self.counts} -> {self.neighbour}",
            f"  worst delta      {self.worst_delta:.6g} at epsilon={self.epsilon:.6g}",
            f"  worst epsilon    {self.worst_epsilon:.6g} of a single outcome",
        ]
        lines += [f"  epsilon {e:<9.4g}delta {d:.6g}" for e, d in self.profile]
        return "\n".join(lines)


@dataclass(frozen=True)
class Result:
    """One check of `run`."""

    name: str  #: the mechanism
    check: str  #: what was checked, or which broken twin had to be rejected
    passed: bool
    detail: str


def verify(
    law: Callable[[tuple[int, ...]], Mapping[Any, float]],
    *,
    epsilon: float,
    delta: float,
    items: int = 4,
    max_count: int = 3,
    max_items_per_user: int | None = None,
    base: Sequence[int] | None = None,
    reach: int | None = None,
    epsilons: Iterable[float] | None = None,
) -> Report:
    """Look for a violation of (epsilon, delta)-DP on every small histogram.

    Neighbours differ by one user, who has any non-empty set of items and counts once for
    each; both directions are compared. A pass is a proof for this small domain only, up to
    rounding (1e-9); a failure comes with the pair that shows it. With delta = 0 every
    single outcome is judged, so that a rare one counts as much as a frequent one.

    Parameters
    ----------
    law : callable
        Takes a tuple of counts (distinct users per item), returns {outcome: probability}.
        Outcomes are anything hashable; equal ones of different types, as 1 and 1.0, are
        two outcomes, since whoever sees them can tell.
    epsilon, delta : float
        The claim, in total.
    items, max_count : int
        The domain: all histograms of so many items that count 0, ..., max_count; with one
        user more, max_count + 1. `law` is called up to (max_count + 2)**items times.
    max_items_per_user : int, optional
        Most items one user can have; any number if None.
    base : sequence of int, optional
        Counts that are added to every histogram, one an item. A mechanism with a threshold
        is hardly put to the test by counts that never reach it.
    reach : int, optional
        Without a base, two domains are judged: the counts from 0, and those around the
        counts up to `reach` at which one user changes the law the most. These are looked
        for where one item has all users, all items have as many, and all but one; that
        takes up to 15 more calls of `law` for each count. If None 64 with a delta, as a
        mechanism that needs one has a threshold somewhere, and 0 without: the first
        domain only.
    epsilons : iterable of float, optional
        Where else to report the worst delta (`Report.profile`); quarters of epsilon if
        None. These are not judged.

    Returns
    -------
    Report
        The verdict, the worst pair, and how much of the claim it uses.

    Raises
    ------
    TypeError
        If `law` is not callable, or a number is not one.
    ValueError
        If a number is out of range, or `law` does not return probabilities.

    Examples
    --------
    The exponential mechanism with weights exp(count) is 1-DP, and not 0.9-DP:

    >>> import math
    >>> from dptopk import verify
    >>> def law(counts):
    ...     weights = [math.exp(count) for count in counts]
    ...     return {item: weight / sum(weights) for item, weight in enumerate(weights)}
    >>> print(verify(law, epsilon=1.0, delta=0.0, epsilons=[]))
    passed: epsilon=1, delta=0, 98.96% used
      worst pair       (3, 3, 3, 0) -> (4, 4, 4, 0)
      worst delta      0 at epsilon=1
      worst epsilon    0.989627 of a single outcome
    >>> verify(law, epsilon=0.9, delta=0.0).passed
    False
    """
    if not callable(law):
        raise TypeError("law must be callable: a tuple of counts -> {outcome: probability}")
    epsilon, delta = nonnegative("epsilon", epsilon), nonnegative("delta", delta)
    if delta > 1:
        raise ValueError(f"delta must be at most 1, got {delta}")
    user = None
    if max_items_per_user is not None:
        user = integer("max_items_per_user", max_items_per_user)
    items = integer("items", items)
    max_count = integer("max_count", max_count, minimum=0)
    reach = integer("reach", (64 if delta else 0) if reach is None else reach, minimum=0)
    grid = [part * epsilon for part in GRID] if epsilons is None else epsilons
    grid = [nonnegative("epsilons", e) for e in grid]
    claim = Claim(epsilon, delta)

    def told_apart(counts: Counts) -> dict[Any, float]:
        return {(outcome, _kind(outcome)): p for outcome, p in law(counts).items()}

    def judged(start: Counts) -> Report:
        return _judge(told_apart, claim, start, max_count, user, grid)

    if base is not None:
        start = tuple(integer("base", count, minimum=0) for count in base)
        if len(start) != items:
            raise ValueError(f"base must have one count an item, {items}; got {len(start)}")
        return judged(start)
    report = judged((0,) * items)
    risk = riskiest(told_apart, claim, items, min(items, user or items), reach)
    if max(risk) > max_count:
        report = max(report, judged(around(risk, max_count)), key=lambda r: r.tightness)
    return report


def _kind(outcome: Any) -> Any:
    """Return what tells equal outcomes apart: 1, True and 1.0; 0.0 and -0.0."""
    if isinstance(outcome, tuple):
        return type(outcome), *map(_kind, outcome)
    if isinstance(outcome, frozenset):
        return type(outcome), frozenset((part, _kind(part)) for part in outcome)
    if isinstance(outcome, (float, np.floating)):
        return type(outcome), math.copysign(1.0, outcome)
    if isinstance(outcome, (complex, np.complexfloating)):
        return type(outcome), _kind(float(outcome.real)), _kind(float(outcome.imag))
    if isinstance(outcome, Decimal):
        return type(outcome), outcome.as_tuple()
    return type(outcome)


def _judge(
    law: Law, claim: Claim, start: Counts, max_count: int, user: int | None, grid: list[float]
) -> Report:
    """Judge the claim on all counts from `start` to `max_count` above it."""

    def moved(counts: Counts) -> Counts:
        return tuple(map(sum, zip(start, counts, strict=True)))

    table = Table(lambda counts: law(moved(counts)), len(start), max_count, user)
    worst = table.worst(claim)
    assert not callable(claim.epsilon)
    return Report(
        passed=holds(claim, worst),
        epsilon=claim.epsilon,
        delta=claim.delta,
        worst_delta=worst.delta,
        worst_epsilon=table.worst(Claim(1.0)).loss,
        tightness=tightness(claim, worst),
        counts=moved(worst.counts),
        neighbour=moved(worst.neighbour),
        profile=tuple((e, table.worst(Claim(e, delta=1.0)).delta) for e in grid),
    )


def run(names: Sequence[str] | None = None, *, quick: bool = False) -> list[Result]:
    """Run the checks of the library's own mechanisms.

    Each mechanism brings its exact law, its claims, its samplers, and broken twins: the
    same with a known mistake in it. A twin's check passes when the mistake is seen.

    Parameters
    ----------
    names : sequence of str, optional
        Which mechanisms; all if None or empty.
    quick : bool
        Leave out the statistical checks, which draw many times.

    Returns
    -------
    list of Result
        One per check, in order.

    Raises
    ------
    ValueError
        If a name is not known.

    Examples
    --------
    >>> import dptopk as dp
    >>> results = dp.verify.run(["peel"], quick=True)
    >>> all(result.passed for result in results)
    True
    >>> results[0].detail
    'delta 0.244766, 99.46% of 0.246099, at epsilon 0: (2, 0, 0, 1) -> (1, 0, 0, 1)'
    """
    from dptopk.verification.entries import ENTRIES  # loads every mechanism: only on demand

    unknown = [name for name in names or () if name not in ENTRIES]
    if unknown:
        raise ValueError(f"no mechanism named {unknown[0]!r}; known: {', '.join(ENTRIES)}")
    results = []
    for name in names or ENTRIES:
        entry = ENTRIES[name]
        for check in entry.checks:
            if check.quick or not quick:
                verdict = check.run()
                results.append(Result(name, check.label, verdict.passed, verdict.detail))
        for twin in entry.broken:
            if twin.quick or not quick:
                verdict = twin.run()
                results.append(
                    Result(name, f"rejects: {twin.label}", not verdict.passed, verdict.detail)
                )
    return results


verify.run = run  # type: ignore[attr-defined]  # so that dp.verify.run is at hand
