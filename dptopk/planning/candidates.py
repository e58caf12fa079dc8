"""Which calls could do what is asked: mechanisms and parameters, from public numbers alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from dptopk.domain import default_k_bar, restricted_k_bar
from dptopk.mechanisms.table import MECHANISMS

__all__ = ["MANY_ITEMS", "Asked", "Candidate", "candidates"]

#: Items a user may have where nobody bounds them: nearly nobody loses one, and the threshold
#: over an unknown domain rises by little.
MANY_ITEMS = 1_000_000
SOFT_CAPS = (30, 10, 3, 1)
BOUNDS = (100, 30, 10, 3, 1)
QUICK_BOUNDS = (30, 10)
RESTRICTED = 1000  # items past which restricted_gumbel takes long to calibrate, and finds few
JOINT = 200  # items past which the draws of joint take long; others find as much there

Options = dict[str, Any]


class Asked(NamedTuple):
    """What is asked, all of it public.

    known : whether the domain is
    most : a bound on the items of a user, if there is one
    """

    k: int
    epsilon: float
    delta: float
    known: bool
    most: int | None = None
    ordered: bool = True
    counts: bool = False


class Candidate(NamedTuple):
    """A mechanism by its name in the package, and its options but for the budget."""

    mechanism: str
    options: Options


def candidates(asked: Asked, *, quick: bool = False) -> list[Candidate]:
    """Return what could do it, what goes first where others are as good.

    `quick` leaves out what seldom is best, for a choice that must not take long.
    """
    found = _known(asked, quick) if asked.known else _unknown(asked, quick)
    return [
        Candidate(mechanism, options)
        for mechanism, options in found
        if not (asked.ordered and MECHANISMS[mechanism].order != "ordered")
        and not (asked.counts and MECHANISMS[mechanism].weights)
    ]


def _unknown(asked: Asked, quick: bool) -> Iterator[tuple[str, Options]]:
    k = asked.k
    yield "limited_domain", {}
    if not quick or k <= RESTRICTED:
        yield "restricted_gumbel", {}
    yield "restricted_canonical", {}
    for bound in _bounds(asked, quick):
        yield "restricted_normal", {"max_items_per_user": bound}
        if not quick or bound == asked.most:
            yield "limited_domain_laplace", {"max_items_per_user": bound}
    if not quick:
        for k_bar in sorted({k, 10 * k, 100 * k} - {default_k_bar(k)}):
            yield "limited_domain", {"k_bar": k_bar}
        for k_bar in sorted({k, 10 * k, 200 * k} - {restricted_k_bar(k)}):
            yield "restricted_gumbel", {"k_bar": k_bar}
        yield "top_stable", {"k_bar": k}
    yield from _weighted(asked, quick)


def _known(asked: Asked, quick: bool) -> Iterator[tuple[str, Options]]:
    few = asked.k <= 5 or not asked.delta  # whose steps delta makes no cheaper
    yield from (("permute_and_flip", {}), ("peel", {}))[:: 1 if few else -1]
    if asked.k > 1:
        yield "canonical", {}
        yield "oneshot", {"noise": "exponential"}
        if not quick:
            yield "oneshot", {"noise": "laplace"}
            if asked.k <= JOINT:
                yield "joint", {}
    if asked.delta and not asked.ordered:
        for bound in _bounds(asked, quick):
            if not quick or bound == asked.most:
                yield "oneshot", {"noise": "gaussian", "max_items_per_user": bound}
    yield from _weighted(asked, quick)


def _bounds(asked: Asked, quick: bool) -> list[int]:
    """Return how many items of each user might be kept."""
    fewer = QUICK_BOUNDS if quick else BOUNDS
    if asked.most is None:
        return list(fewer)
    return [asked.most, *(bound for bound in fewer if bound < asked.most)]


def _weighted(asked: Asked, quick: bool) -> Iterator[tuple[str, Options]]:
    most = asked.most
    whole = () if most is None or most > SOFT_CAPS[0] else (most,)  # then weights are counts
    for soft_cap in (*whole, *(cap for cap in SOFT_CAPS if most is None or cap < most)):
        norms = ["l2"] if asked.delta else ["l1"]
        if asked.delta and (soft_cap == most or (asked.known and not quick)):
            norms.append("l1")
        for norm in norms:
            options: Options = {"soft_cap": soft_cap, "norm": norm}
            if not asked.known:
                options["max_items_per_user"] = MANY_ITEMS if most is None else most
            yield "weighted", options
