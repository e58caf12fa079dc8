"""The k-fold exponential mechanism, readable: k draws without replacement.

Picking the k largest of ``counts + Gumbel(scale)`` and drawing one item after
another with chances proportional to ``exp(count / scale)`` are the same thing
(Durfee and Rogers 2019, Lemma 4.2): the Plackett-Luce law. Each draw of a
monotone count is bounded-range with ``epsilon_step = 1 / scale``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import mpmath
import numpy as np
import numpy.typing as npt

from dptopk.reference.race import Field, Tape, race

Item = TypeVar("Item")

EXACT_DIGITS = 50  # decimal digits of the `exact=True` path


def law(
    counts: Sequence[int], *, k: int, scale: float, exact: bool = False
) -> dict[tuple[int, ...], float]:
    """Chance of every ordered pick of k items.

    Parameters
    ----------
    counts : sequence of int, shape (items,)
        Distinct users per item; every index exists, also those that count 0.
    k : int
        Number of picks, at most ``len(counts)``.
    scale : float
        Scale of the Gumbel noise, in users.
    exact : bool
        Compute with 50 digits and round once at the end.

    Returns
    -------
    dict of tuple to float
        Each ordered tuple of k indices and its probability.

    Examples
    --------
    >>> from dptopk.reference import peel
    >>> chance = peel.law([2, 1, 0], k=1, scale=1.0)
    >>> {pick: round(p, 3) for pick, p in chance.items()}
    {(0,): 0.665, (1,): 0.245, (2,): 0.09}
    """
    number = mpmath.mpf if exact else float
    top = max(counts)  # integers are reduced before they meet a double
    with mpmath.workdps(EXACT_DIGITS):
        logits = {i: number(count - top) / number(scale) for i, count in enumerate(counts)}
        return plackett_luce(logits, k)


def plackett_luce(
    logits: Mapping[Item, Any], k: int, *, stop: Item | None = None
) -> dict[tuple[Item, ...], float]:
    """Chance of every ordered draw without replacement, weights exp(logit).

    Parameters
    ----------
    logits : mapping of item to float or mpf
        Who competes, and the logarithm of each one's weight.
    k : int
        Number of draws.
    stop : item, optional
        A competitor that ends the draw when it comes; it is the outcome's last element.

    Returns
    -------
    dict of tuple to float
        Each outcome and its probability. One below the range of a double is 0.

    Examples
    --------
    >>> from dptopk.reference.peel import plackett_luce
    >>> plackett_luce({"a": 0.0, "end": 0.0}, 2, stop="end")
    {('a', 'end'): 0.5, ('end',): 0.5}
    """
    chances: dict[tuple[Item, ...], float] = {}

    def draw(picks: tuple[Item, ...], chance: Any, left: Mapping[Item, Any]) -> None:
        if len(picks) == k or (stop is not None and stop in picks):
            chances[picks] = float(chance)
            return
        for item, share in shares(left).items():
            rest = {other: logit for other, logit in left.items() if other != item}
            draw((*picks, item), chance * share, rest)

    draw((), 1, logits)
    return chances


def shares(logits: Mapping[Item, Any]) -> dict[Item, Any]:
    """Softmax, shifted by the largest so that nothing overflows and someone weighs 1."""
    top = max(logits.values())
    exact = isinstance(top, mpmath.mpf)
    weights = {
        item: (mpmath.exp if exact else math.exp)(logit - top) for item, logit in logits.items()
    }
    total = (mpmath.fsum if exact else math.fsum)(weights.values())
    return {item: weight / total for item, weight in weights.items()}


def sample(tape: Tape, counts: Sequence[int], *, k: int, scale: float) -> tuple[int, ...]:
    """Draw once from a tape of random words, exactly: the twin of the compiled mechanism.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    counts, k, scale
        As in `law`.

    Returns
    -------
    tuple of int
        The picks, best first.
    """
    field = Field.of(counts)
    return tuple(race(tape, field, k=k, scale=scale))


def naive_sample(
    counts: npt.ArrayLike, *, k: int, scale: float, draws: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw the way it is usually written: noise on every count, then a sort.

    A baseline for tests and timings. Not private: double arithmetic, and a
    generator that is no secure source.

    Parameters
    ----------
    counts : array_like of int, shape (items,)
        Distinct users per item.
    k, scale
        As in `law`.
    draws : int
        Number of independent draws.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    ndarray of int64, shape (draws, k)
        The picks of each draw, best first.

    Examples
    --------
    >>> import numpy as np
    >>> from dptopk.reference import peel
    >>> peel.naive_sample([90, 0, 60], k=2, scale=1.0, draws=1, rng=np.random.default_rng(1))
    array([[0, 2]])
    """
    scores = np.asarray(counts, dtype=np.float64) / scale
    noisy = scores + rng.gumbel(size=(draws, scores.size))
    return np.argsort(-noisy, axis=1)[:, :k]
