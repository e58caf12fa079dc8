"""The gamma mechanism, readable: noise from a ball of the maximum norm.

Steinke and Ullman 2015 release a vector with noise of a density that falls with
exp(-epsilon ||z|| / sensitivity), || || the maximum norm: of all coordinates at
once, so that a user who moves every score costs no more than one who moves one.
Here for integers, exactly. Let e = epsilon / sensitivity and draw

    tau = 0, 1, 2, ...    with P(tau) proportional to (2 tau + 1)^d exp(-e tau),
    v_i = (tau + 1/2) W_i  with W_i independent and uniform on (-1, 1).

**The noise.** Let z be v rounded to integers. Given tau, z is uniform on the
(2 tau + 1)^d points of the cube {-tau .. tau}^d, and v - z uniform on a unit cube
and independent of z. Summed over tau, a point of norm m has, from all cubes that
hold it,

    P(z) proportional to sum over tau >= m of exp(-e tau) = exp(-e m) / (1 - exp(-e)).

So x + z is the integer mechanism: if neighbouring x and x' differ by at most
`sensitivity` everywhere, so do the norms of the two z that lead to one result, and
P(x + z = y) <= exp(epsilon) P(x' + z = y). Items in the order of x + v stand in
that of x + z, and equal x_i + z_i in that of the fractions v - z, which are drawn
apart from data and z: ties are broken at random, a post-processing. (By item
order would do as well; by fractions the noisy scores are exactly those of a race.
It adds W_i - 1, on (-2, 0): what is added to all scores changes no order.)

**Monotone scores.** If a user moves all scores one way, by integers u_i in 0 .. s,
s <= sensitivity, half the noise will do. The order is that of the doubled scores,
2 x + v, and stays the same when a number is added to all of them: it is as if the
user moved 2 x_i by 2 u_i - s, which lies in -s .. s. So the order of 2 x + v, that
is of x + v / 2, is epsilon-DP. (The vector itself would not be.)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dptopk.reference.interval import Interval
from dptopk.reference.race import Exponential, Field, Tape, race

__all__ = [
    "envelope",
    "law",
    "mixture_law",
    "naive_sample",
    "radius",
    "radius_law",
    "sample",
    "scale_of_radius",
]

Array = npt.NDArray[np.float64]
NEGLIGIBLE = 1e-20  # of the largest weight


# ---- the radius


def drop(d: int, rate: Fraction, top: int, tau: int, precision: int) -> Interval:
    """Return ln P(top) - ln P(tau) = d ln((2 top + 1) / (2 tau + 1)) - rate (top - tau)."""
    ratio = Interval.exact(Fraction(2 * top + 1, 2 * tau + 1), precision)
    slope = Interval.exact(rate * (top - tau), precision)
    return Interval.exact(d, precision) * ratio.log() - slope


def precision_of(d: int, level: int) -> int:
    """Bits for `drop` to be good to about 64 * level past the point: it cancels as d grows."""
    return 64 * level + 64 + 2 * d.bit_length()


def certainly_above(d: int, rate: Fraction, top: int, tau: int, bound: int) -> bool:
    """Tell whether P(top) / P(tau) is above the integer `bound`; they are never equal.

    exp(rate) is transcendental, and with it the ratio of any two chances.
    """
    level = 1
    while True:
        precision = precision_of(d, level)
        value, limit = drop(d, rate, top, tau, precision), Interval.exact(bound, precision).log()
        if value.above(limit) or limit.above(value):
            return value.above(limit)
        level += 1


@functools.lru_cache(maxsize=256)
def envelope(d: int, rate: Fraction) -> tuple[int, int]:
    """Return the likeliest radius, and a width over which chances fall to half or less.

    ln P is concave: past the width, chances go on falling at least as fast.

    Parameters
    ----------
    d : int
        Number of items.
    rate : Fraction
        epsilon / sensitivity, exactly.

    Returns
    -------
    top, width : int
        ``P(tau) <= P(top) 2^-j`` wherever ``|tau - top| >= j width``.

    Raises
    ------
    ValueError
        If the width is past what one random word can choose from.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from dptopk.reference.gamma import envelope
    >>> envelope(1000, Fraction(1))
    (1000, 39)
    """
    width = math.isqrt(math.floor(Fraction(3, 2) * d / rate**2)) + 1
    if width >= 2**62:
        raise ValueError("epsilon is too small for so many items: the noise is past 64 bits")
    top = max(0, math.floor(d / rate - Fraction(1, 2)))  # the slope 2 d / (2 tau + 1) is rate
    if certainly_above(d, rate, top + 1, top, 1):
        top += 1
    while not (
        certainly_above(d, rate, top, top + width, 2)
        and (width > top or certainly_above(d, rate, top, top - width, 2))
    ):
        width += width // 8 + 1
    return top, width


def radius(tape: Tape, d: int, rate: Fraction) -> int:
    """Draw tau with P(tau) proportional to (2 tau + 1)^d exp(-rate tau), exactly.

    Rejection from blocks of `width` radii to both sides of the top, the j-th
    of weight 2^-j: a side, a block and a place in it are fair bits, and a radius
    stays with chance 2^j P(tau) / P(top) <= 1, which an exponential variate
    decides, with as many bits as that takes. About one in two stays, whatever d.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    d : int
        Number of items.
    rate : Fraction
        epsilon / sensitivity, exactly.

    Returns
    -------
    int
    """
    top, width = envelope(d, rate)
    while True:
        right = tape.below(2)
        j = blocks_out(tape)
        steps = j * width + tape.below(width)
        tau = top + 1 + steps if right else top - steps
        if tau >= 0 and outlasts(Exponential(tape), d, rate, top, tau, j):
            return tau


def blocks_out(tape: Tape) -> int:
    """Return j with chance 2^-(j+1): the zeros before the first 1 among fair bits."""
    zeros = 0
    while True:
        word = tape.word()
        if word:
            return zeros + (word & -word).bit_length() - 1
        zeros += 64


def outlasts(trial: Exponential, d: int, rate: Fraction, top: int, tau: int, j: int) -> bool:
    """Tell whether an exponential variate exceeds -ln(2^j P(tau) / P(top))."""
    level = 1
    while True:
        precision = precision_of(d, level)
        halvings = Interval.exact(j, precision) * Interval.exact(2, precision).log()
        needed = drop(d, rate, top, tau, precision) - halvings
        drawn = trial.interval(level)
        if drawn.above(needed) or needed.above(drawn):
            return drawn.above(needed)
        level += 1


def scale_of_radius(tau: int, *, monotone: bool) -> Fraction:
    """Return the scale of the uniform noise on (-1, 1): tau + 1/2, or half of it."""
    return Fraction(2 * tau + 1, 4 if monotone else 2)


# ---- the law


def radius_law(d: int, rate: float) -> Array:
    """Return the chances of tau = 0, 1, ..., as far as they count.

    Examples
    --------
    >>> from dptopk.reference.gamma import radius_law
    >>> radius_law(1, 2.0)[:3].round(3)
    array([0.659, 0.267, 0.06 ])
    """
    n = 64
    while True:
        tau = np.arange(n)
        logs = d * np.log(2 * tau + 1) - rate * tau
        weights = np.exp(logs - logs.max())
        if logs.argmax() < n - 1 and weights[-1] < NEGLIGIBLE:
            return np.asarray(weights / weights.sum())
        n *= 2


def law(
    counts: Sequence[int],
    *,
    k: int,
    epsilon: float,
    sensitivity: float = 1.0,
    monotone: bool = True,
) -> dict[tuple[int, ...], float]:
    """Chance of every ordered pick of k items.

    Parameters
    ----------
    counts : sequence of int, shape (items,)
        Users per item, or scores; every index exists, also those that count 0.
    k : int
        Number of picks, at most ``len(counts)``.
    epsilon : float
        What the release costs.
    sensitivity : float
        How far one user can move a score.
    monotone : bool
        Whether a user moves all scores one way; then half the noise is added.

    Returns
    -------
    dict of tuple to float
        Each ordered tuple of k indices and its probability.

    Examples
    --------
    >>> from dptopk.reference import gamma
    >>> chance = gamma.law([2, 1, 0], k=1, epsilon=2.0)
    >>> {pick: round(p, 3) for pick, p in chance.items()}
    {(0,): 0.876, (1,): 0.112, (2,): 0.012}
    """
    chances = radius_law(len(counts), epsilon / sensitivity)
    return mixture_law(counts, chances, k=k, monotone=monotone)


def mixture_law(
    counts: Sequence[int], chances: Array, *, k: int, monotone: bool
) -> dict[tuple[int, ...], float]:
    """Chance of every ordered pick of k items when tau has the given chances."""
    order = sorted(range(len(counts)), key=lambda i: (-counts[i], i))
    shape = tuple(counts[i] - counts[order[-1]] for i in order)  # a shift changes nothing
    mixture = _mixture(shape, k, chances.tobytes(), monotone)
    return {tuple(order[place] for place in picks): chance for picks, chance in mixture.items()}


@functools.lru_cache(maxsize=4096)
def _mixture(
    scores: tuple[int, ...], k: int, chances: bytes, monotone: bool
) -> dict[tuple[int, ...], float]:
    weights = np.frombuffer(chances, np.float64)
    scales = np.arange(0.5, weights.size) * (0.5 if monotone else 1.0)
    laws = uniform_law(scores, scales, k=k)
    return {picks: float(weights @ given) for picks, given in laws.items()}


def uniform_law(scores: Sequence[int], scales: Array, *, k: int) -> dict[tuple[int, ...], Array]:
    """Chance of every ordered pick of k items under uniform noise on (-scale, scale).

    Between the ends of the items' ranges all densities are constant, so the integrals
    over the noisy values, from the largest down, are of polynomials of degree at most
    ``len(scores)``: Gauss-Legendre is exact on them up to rounding.

    Parameters
    ----------
    scores : sequence of int, shape (items,)
        One per item.
    scales : ndarray, shape (n,)
        Several at once.
    k : int
        Number of picks.

    Returns
    -------
    dict of tuple to ndarray of shape (n,)
        Each ordered tuple of k indices and its probability for each scale.
    """
    nodes, node_weights = np.polynomial.legendre.leggauss(len(scores) + 2)
    basis = np.linalg.inv(np.polynomial.legendre.legvander(nodes, len(scores) + 1))
    antiderivative = np.polynomial.legendre.legint(basis, lbnd=1)
    to_end = -np.polynomial.legendre.legval(nodes, antiderivative)  # column: where it starts

    x, half = np.asarray(scores, dtype=float), np.asarray(scales)[:, None]
    cuts = np.sort(np.concatenate((x - half, x + half), axis=1), axis=1)  # (n, 2 items)
    widths = np.diff(cuts, axis=1)[:, :, None] / 2
    points = cuts[:, :-1, None] + widths * (nodes + 1)
    middles = (cuts[:, :-1] + cuts[:, 1:])[:, :, None] / 2
    inside = [np.abs(middles - score) < half[:, :, None] for score in x]
    density = [within / (2 * half[:, :, None]) for within in inside]
    below = [np.clip((points - score) / half[:, :, None] / 2 + 0.5, 0.0, 1.0) for score in x]

    def beyond(f: Array) -> Array:
        """From every point up."""
        whole = ((f * widths) @ node_weights)[:, ::-1].cumsum(axis=1)[:, ::-1]
        after = np.concatenate((whole[:, 1:], np.zeros((len(half), 1))), axis=1)
        return np.asarray((f * widths) @ to_end + after[:, :, None])

    everyone = range(len(x))
    chances: dict[tuple[int, ...], Array] = {}

    def extend(items: tuple[int, ...], ahead: Array) -> None:
        """`ahead`: the chance that the items come in this order, all above a point."""
        for item in set(everyone) - set(items):
            f, picks = density[item] * ahead, (*items, item)
            if len(picks) < k:
                extend(picks, beyond(f))
                continue
            for other in set(everyone) - set(picks):
                f = f * below[other]
            chances[picks] = ((f * widths) @ node_weights).sum(axis=1)

    extend((), np.ones_like(points))
    return chances


# ---- samplers


def sample(
    tape: Tape, counts: Sequence[int], *, k: int, rate: Fraction, monotone: bool = True
) -> tuple[int, ...]:
    """Draw once from a tape of random words, exactly: the twin of the compiled mechanism.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from: first the radius, then a race.
    counts, k, monotone
        As in `law`.
    rate : Fraction
        epsilon / sensitivity, exactly.

    Returns
    -------
    tuple of int
        The picks, best first.
    """
    scale = float(scale_of_radius(radius(tape, len(counts), rate), monotone=monotone))
    field = Field.of(counts)
    return tuple(race(tape, field, k=k, scale=scale, noise="uniform"))


def naive_sample(
    counts: npt.ArrayLike,
    *,
    k: int,
    epsilon: float,
    draws: int,
    rng: np.random.Generator,
    sensitivity: float = 1.0,
    monotone: bool = True,
) -> npt.NDArray[np.int64]:
    """Draw the integer mechanism as it is defined: a radius, a cube, a sort, ties at random.

    A baseline for tests. Not private: double arithmetic, and a generator that is no
    secure source.

    Parameters
    ----------
    counts, k, epsilon, sensitivity, monotone
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
    >>> from dptopk.reference import gamma
    >>> gamma.naive_sample([90, 0, 60], k=2, epsilon=1.0, draws=1, rng=np.random.default_rng(1))
    array([[0, 2]])
    """
    scores = np.asarray(counts, dtype=np.int64) * (2 if monotone else 1)
    chances = radius_law(scores.size, epsilon / sensitivity)
    tau = rng.choice(chances.size, p=chances, size=draws)[:, None]
    noise = rng.integers(-tau, tau, size=(draws, scores.size), endpoint=True)
    return np.lexsort((rng.random(noise.shape), -(scores + noise)), axis=1)[:, :k]
