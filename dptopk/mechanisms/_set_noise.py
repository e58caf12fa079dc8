"""Noise on every score once: what proves the set of the k largest, and which law errs least."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, NamedTuple, TypeAlias

from dptopk.accounting import gaussian_sigma, step_epsilon
from dptopk.mechanisms._calibrate import composition, scale_of, share_of
from dptopk.rounding import below, difference_down, padded, product_up, root_up

__all__ = ["METHODS", "NOISES", "Noise", "SetNoise", "centred", "noise_for"]

SetNoise: TypeAlias = Literal["best", "gumbel", "exponential", "laplace", "gaussian"]
NOISES = ("best", "gumbel", "exponential", "laplace", "gaussian")
METHODS = ("best", "pure", "approximate")
PAPER = "Qiao, Su and Zhang 2021"
PEEL = "Durfee and Rogers 2019, Lemma 4.3"
ONE_WAY = "halved for scores that move one way"
# Where Theorem 2.2 holds.
LARGEST_EPSILON = 0.2
LARGEST_DELTA = 0.05
LEAST_ITEMS = 2


class Noise(NamedTuple):
    """A law and its scale, the delta it costs, and what proves it."""

    law: str
    scale: float
    delta: float
    theorem: str


class _Asked(NamedTuple):
    """What a theorem needs to know.

    epsilon, delta : of each of the groups of one user
    total : epsilon and delta of all of them
    user : the bound on the items of a user, if any
    """

    k: int
    epsilon: float
    delta: float
    total: tuple[float, float]
    groups: int
    sensitivity: float
    monotone: bool
    user: int | None
    n_items: int

    @property
    def moved(self) -> float:
        """By how much one user can change the difference of two scores."""
        return self.times(1 if self.monotone else 2)

    @property
    def items(self) -> int:
        """How many items a user has at most."""
        return self.n_items if self.user is None else min(self.user, self.n_items)

    def times(self, factor: float) -> float:
        """Return factor * sensitivity, rounded up."""
        product = product_up(factor, self.sensitivity)
        if not math.isfinite(product):
            raise ValueError(
                "sensitivity is too large: the noise scale is past the range of floats"
            )
        return product


@lru_cache(maxsize=4096)
def noise_for(
    *,
    noise: str,
    method: str,
    k: int,
    epsilon: float,
    delta: float,
    sensitivity: float,
    monotone: bool,
    max_items_per_user: int | None,
    n_items: int,
    bound: str = "exact",
    groups: int = 1,
) -> Noise:
    """Return the noise of the least gap that some theorem allows, rounded against us.

    With several groups of one user the theorems for one share the budget; the picks of
    all by Gumbel noise are composed, and the normal noise of all is one Gaussian mechanism.
    """
    asked = _Asked(
        k,
        share_of(epsilon, groups, "epsilon"),
        share_of(delta, groups, "delta"),
        (epsilon, delta),
        groups,
        sensitivity,
        monotone and bound == "exact",
        max_items_per_user,
        n_items,
    )
    if noise == "best" and groups > 1:
        # What is composed must be of one law in all groups, whatever their sizes.
        size = 1000 * max(k, max_items_per_user or 1)
        noise = _least(noise, method, asked._replace(n_items=size), bound).law
    return _least(noise, method, asked, bound)


def _least(noise: str, method: str, asked: _Asked, bound: str) -> Noise:
    found: list[Noise] = []
    refused = ""
    for law in NOISES[1:] if noise == "best" else (noise,):
        try:
            found += _theorems(law, method, asked, bound)
        except ValueError as error:
            refused = refused or str(error)
    if not found:
        raise ValueError(refused)
    # Between 1/4, where few scores are near, and k / n_items, where many are far below.
    chance = math.sqrt(min(0.25, asked.k / asked.n_items)) / 2
    return min(found, key=lambda one: one.scale * _gap(one.law, chance))


def _gap(law: str, chance: float) -> float:
    """Return how far apart two scores are that noise of scale 1 turns round with this chance."""
    if law == "gumbel":
        return math.log(1 / chance - 1)
    if law == "exponential":
        return -math.log(2 * chance)
    if law == "gaussian":
        return math.sqrt(2) * NormalDist().inv_cdf(1 - chance)
    gap = 1.0
    for _ in range(50):  # (2 + gap) exp(-gap) / 4 = chance
        gap = math.log((2 + gap) / (4 * chance))
    return gap


def _theorems(law: str, method: str, asked: _Asked, bound: str) -> Iterator[Noise]:
    """Yield the noise of each theorem; ValueError if there is none by this method."""
    if law == "gaussian":
        yield _gaussian(method, asked)
        return
    if method != "approximate":
        yield _pure(law, asked)
        if law == "laplace" and asked.user is not None:
            theorem = f"Laplace mechanism, at most {asked.items} items a user"
            yield Noise(law, scale_of(asked.epsilon, asked.times(asked.items)), 0.0, theorem)
    if method != "pure":
        paper = law == "laplace" and bound == "paper"
        refused = _refused(law, asked, paper)
        if not refused:
            by = _by_theorem_2_2 if paper else _laplace if law == "laplace" else _gumbel
            yield by(asked)
        elif method == "approximate":
            raise ValueError(refused)


def _pure(law: str, asked: _Asked) -> Noise:
    theorem = f"{PAPER}, Theorem 2.1"
    if law == "gumbel":
        theorem = f"{PEEL}; {composition('basic', asked.epsilon, asked.k, 0.0)}"
    elif law == "exponential":
        theorem += " for exponential noise"
    if asked.monotone and law != "gumbel":
        theorem += f", {ONE_WAY}"
    factor = asked.k if asked.monotone else 2 * asked.k
    return Noise(law, scale_of(asked.epsilon, asked.times(factor)), 0.0, theorem)


def _refused(law: str, asked: _Asked, paper: bool) -> str:
    """Say why nothing is proved of this noise with delta, or nothing if something is."""
    needs = "method 'approximate' needs"
    if law == "exponential":
        return f"{needs} noise 'gumbel', 'laplace' or 'gaussian', got {law!r}"
    if not paper:
        return "" if asked.delta else f"{needs} delta > 0, got {asked.delta}"
    if asked.epsilon > LARGEST_EPSILON:
        return f"{needs} epsilon <= {LARGEST_EPSILON}, got {asked.epsilon}"
    if not 0.0 < asked.delta <= LARGEST_DELTA:
        return f"{needs} delta in (0, {LARGEST_DELTA}], got {asked.delta}"
    if asked.n_items < LEAST_ITEMS:
        return f"{needs} at least {LEAST_ITEMS} items, got {asked.n_items}"
    return ""


def _gumbel(asked: _Asked) -> Noise:
    """Return the noise of k picks by `peel`, whose order is not shown."""
    (epsilon, delta), picks = asked.total, asked.k * asked.groups
    step = step_epsilon(epsilon, picks, delta)
    theorem = f"{PEEL}; {composition('best', step, picks, delta)}"
    return Noise("gumbel", scale_of(step, asked.moved), delta, theorem)


def _laplace(asked: _Asked) -> Noise:
    """Return the noise of k picks of a range of twice that, and one such range besides."""
    epsilon, k, delta = asked.epsilon, asked.k, asked.delta
    first = step_epsilon(epsilon, k, delta)
    besides = below(below(epsilon / (1.0 + epsilon / first)))
    rest = difference_down(epsilon, besides)
    step = min(besides, step_epsilon(rest, k, delta))
    theorem = f"docs/proofs/oneshot.md 5; {composition('best', step, k, delta)}"
    return Noise("laplace", scale_of(step, product_up(2, asked.moved)), asked.total[1], theorem)


def _by_theorem_2_2(asked: _Asked) -> Noise:
    # Logarithms of their own: n_items / delta may be past the range of floats.
    log = padded(math.log(asked.n_items) - math.log(asked.delta), units=32)
    root = padded(math.sqrt(asked.k * log), units=32)
    scale = scale_of(asked.epsilon, asked.times(8.0 * root))
    return Noise("laplace", scale, asked.total[1], f"{PAPER}, Theorem 2.2")


def _gaussian(method: str, asked: _Asked) -> Noise:
    if method == "pure":
        raise ValueError("noise 'gaussian' is never pure; use method 'best' or 'approximate'")
    epsilon, delta = asked.total
    if delta == 0.0:
        raise ValueError("noise 'gaussian' needs delta > 0, got 0.0")
    theorem = f"Balle and Wang 2018, Theorem 8, at most {asked.items} items a user"
    squared: int | Fraction = asked.items
    if asked.monotone:
        squared = centred(asked.items, asked.n_items)
        theorem += ", for differences of scores that move one way"
    sensitivity = asked.times(root_up(asked.groups * squared))
    sigma = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    return Noise("gaussian", sigma, delta, theorem)


def centred(items: int, n_items: int) -> Fraction:
    """Return the largest squared L2 norm of a user's 0s and 1s less their mean.

    The user has at most `items` of `n_items` items: t of them make t (n_items - t) / n_items,
    which is most at half of all. A single item moves nothing; it gets the 1 of any other.

    Examples
    --------
    >>> centred(1, 2), centred(7, 8), centred(2, 100)
    (Fraction(1, 2), Fraction(2, 1), Fraction(49, 25))
    """
    most = min(items, n_items // 2)
    return Fraction(most * (n_items - most), n_items) if most else Fraction(1)
