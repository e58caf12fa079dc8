"""Draws against the exact law, and a kernel against its reference on one tape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scipy import special

LEAST_EXPECTED = 5.0  # smaller cells are pooled


@dataclass(frozen=True)
class ChiSquare:
    """The outcome of `chi_square`."""

    passed: bool
    statistic: float  #: infinite if an impossible outcome was drawn
    critical: float  #: the exact critical value at alpha
    freedom: int  #: degrees of freedom, after pooling
    draws: int


@dataclass(frozen=True)
class TapeTwin:
    """The outcome of `tape_twin`."""

    passed: bool
    tapes: int  #: how many tapes were compared
    kernel: str | None = None  #: the first kernel that disagreed, and ...
    tape: int | None = None  #: ... the number of the tape


def chi_square(
    law: Mapping[Any, float],
    sampler: Callable[[int, int], Iterable[Any]],
    *,
    draws: int,
    seed: int,
    alpha: float = 1e-9,
) -> ChiSquare:
    """Pearson's test of a sampler against the exact law of one histogram.

    Cells that expect fewer than 5 draws are pooled. An outcome of probability 0 that is
    drawn fails the test at once.

    Parameters
    ----------
    law : mapping of outcome to float
        Every outcome and its probability.
    sampler : callable
        ``sampler(draws, seed)`` returns that many independent outcomes.
    draws, seed : int
        How many, and from which seed: the same seed gives the same verdict.
    alpha : float
        The chance that a right sampler is rejected.

    Returns
    -------
    ChiSquare
        The verdict and its numbers.

    Raises
    ------
    ValueError
        If the sampler returns another number of draws, or so few are asked for that fewer
        than two cells are left to compare.

    Examples
    --------
    >>> import numpy as np
    >>> from dptopk.verification.sampling import chi_square
    >>> coin = lambda p: lambda n, seed: (np.random.default_rng(seed).random(n) < p).tolist()
    >>> law = {True: 0.5, False: 0.5}
    >>> chi_square(law, coin(0.50), draws=20_000, seed=1).passed
    True
    >>> chi_square(law, coin(0.55), draws=20_000, seed=1).passed
    False
    """
    drawn = Counter(sampler(draws, seed))
    if drawn.total() != draws:
        raise ValueError(f"the sampler returned {drawn.total()} outcomes, asked for {draws}")
    cells = _cells(law, draws)
    freedom = len(cells) - 1
    critical = float(special.chdtri(freedom, alpha))
    statistic = 0.0
    if any(law.get(outcome, 0.0) == 0.0 for outcome in drawn):
        statistic = float("inf")
    for cell in cells:
        expected = draws * sum(law[outcome] for outcome in cell)
        observed = sum(drawn[outcome] for outcome in cell)
        statistic += (observed - expected) ** 2 / expected
    return ChiSquare(statistic <= critical, statistic, critical, freedom, draws)


def power(
    law: Mapping[Any, float],
    alternative: Mapping[Any, float],
    *,
    draws: int,
    alpha: float = 1e-9,
) -> float:
    """Chance that `chi_square` rejects a sampler whose law is `alternative`.

    From the non-central chi-square law, good to a percent or so at these sizes.

    Parameters
    ----------
    law, alternative : mapping of outcome to float
        What is tested against, and what is really drawn.
    draws, alpha
        As in `chi_square`.

    Returns
    -------
    float
        Between alpha and 1.

    Examples
    --------
    >>> from dptopk.verification.sampling import power
    >>> law, other = {"a": 0.5, "b": 0.5}, {"a": 0.51, "b": 0.49}
    >>> round(power(law, other, draws=100_000), 2), power(law, other, draws=1_000) < 1e-6
    (0.59, True)
    """
    if any(p > 0 and law.get(outcome, 0.0) == 0.0 for outcome, p in alternative.items()):
        return 1.0
    cells = _cells(law, draws)
    shift = 0.0
    for cell in cells:
        expected = sum(law[outcome] for outcome in cell)
        shift += draws * (sum(alternative.get(o, 0.0) for o in cell) - expected) ** 2 / expected
    freedom = len(cells) - 1
    accepted = special.chndtr(special.chdtri(freedom, alpha), freedom, shift)
    return 1.0 - float(accepted)


def tape_twin(
    kernels: Mapping[str, Callable[[Any], Any]],
    reference: Callable[[Any], Any],
    tapes: Iterable[Any],
) -> TapeTwin:
    """Compare kernels with their reference, tape by tape: no statistics, plain equality.

    Parameters
    ----------
    kernels : mapping of str to callable
        By name (a SIMD level, say), a function from a tape to an outcome.
    reference : callable
        The readable twin: the same tape, the same outcome.
    tapes : iterable
        The tapes of random words.

    Returns
    -------
    TapeTwin
        Passed if every kernel agreed on every tape, and there was something to compare.

    Examples
    --------
    >>> from dptopk.verification.sampling import tape_twin
    >>> tape_twin({"fast": max}, lambda tape: sorted(tape)[-1], [[3, 1], [2, 5]])
    TapeTwin(passed=True, tapes=2, kernel=None, tape=None)
    """
    number = 0
    for number, tape in enumerate(tapes, start=1):
        expected = reference(tape)
        for name, kernel in kernels.items():
            if kernel(tape) != expected:
                return TapeTwin(False, number, name, number - 1)
    return TapeTwin(number > 0 and len(kernels) > 0, number)


def _cells(law: Mapping[Any, float], draws: int) -> list[list[Any]]:
    """Outcomes in cells that each expect at least 5 draws: one each, the rare ones pooled."""
    ranked = sorted((outcome for outcome in law if law[outcome] > 0), key=lambda o: law[o])
    pool: list[Any] = []
    pooled = 0.0
    while ranked and (
        draws * law[ranked[0]] < LEAST_EXPECTED or 0 < draws * pooled < LEAST_EXPECTED
    ):
        pooled += law[ranked[0]]
        pool.append(ranked.pop(0))
    cells = [pool] * bool(pool) + [[outcome] for outcome in ranked]
    if len(cells) < 2:
        raise ValueError(f"{draws} draws leave fewer than two cells to compare")
    return cells
