"""Integer noise: drawing it, its tails, and the scale that a budget pays for.

Discrete Laplace: P(x) proportional to exp(-|x| / scale). Discrete Gaussian:
P(x) proportional to exp(-x^2 / (2 scale^2)). Shared: a normal noise of its own and one
that all counts share, rounded. Draws have exactly these laws. Tails and scales are
doubles, rounded against us.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dptopk import _core
from dptopk.accounting.compositions import epsilon_of_rho
from dptopk.accounting.inverse import largest
from dptopk.rng import acquire, release
from dptopk.rounding import UNIT, below, difference_down, padded, quotient_up, root_up

__all__ = [
    "HIGHEST",
    "LOWEST",
    "NOISES",
    "add_noise",
    "add_shared_noise",
    "discrete_gaussian_delta",
    "discrete_gaussian_sigma",
    "draw",
    "laplace_scale",
    "log_tail",
    "margin",
    "variance",
]

NOISES = tuple(_core.DISCRETE)
# Scales that are drawn. Past 2^40 or so draws are slow: doubles seldom decide.
LOWEST, HIGHEST = 2.0**-50, 2.0**50
INT64_MAX = 2**63 - 1
GAUSSIAN = _core.NOISES["gaussian"]
# Gaussian sums go term by term below SUMMED, the exact delta up to MOST_SIGMA. The
# SLACK covers their roundings: all terms are positive, each good to a few 2^-53.
SUMMED, MOST_SIGMA, SLACK = 64.0, 2000.0, 1e-12


def draw(noise: str, n: int, scale: float, rng: Any = None) -> tuple[np.ndarray, bool]:
    """Return n independent integers of a discrete law, and whether privately drawn.

    Parameters
    ----------
    noise : {"laplace", "gaussian"}
        The law.
    n : int
        How many.
    scale : float
        The scale of the Laplace law, or the sigma of the Gaussian one, from 2^-50 to 2^50;
        taken as the exact number that it is.
    rng : optional
        As in `dptopk.rng.acquire`.

    Returns
    -------
    ndarray of int64, shape (n,), and bool

    Examples
    --------
    >>> from dptopk import SeededRng
    >>> draw("laplace", 5, 2.0, SeededRng(3))
    (array([ 0,  2, -1,  1,  2]), False)
    """
    return add_noise(np.zeros(n, np.int64), noise, scale, rng)


def add_noise(
    values: np.ndarray, noise: str, scale: float, rng: Any = None
) -> tuple[np.ndarray, bool]:
    """Return values + noise as if in integers without end, held within int64 at the last.

    So what leaves depends on the noisy values alone, also at the ends of the range.

    Parameters
    ----------
    values : ndarray of int64, shape (n,)
        Any values.
    noise, scale, rng
        As in `draw`.

    Returns
    -------
    ndarray of int64, shape (n,), and bool
        The noisy values, and whether privately drawn.
    """
    if not LOWEST <= scale <= HIGHEST:
        raise ValueError(f"the noise scale must be from 2**-50 to 2**50, got {scale}")
    source = acquire(rng)
    try:
        drawn = _core.discrete(source, values.size, scale, _core.DISCRETE[noise])
        if drawn is None:
            from dptopk.reference import discrete as exact  # loads mpmath: seldom needed
            from dptopk.reference.race import Tape

            tape = Tape.replay(source)
            integers = exact.sample(tape, values.size, scale=scale, noise=noise)
        elif _wraps(values):
            integers = drawn.tolist()
        else:
            return values + drawn, source.private
        return _held(values, integers), source.private
    finally:
        release(source)


def add_shared_noise(
    values: np.ndarray, own: float, shared: float, rng: Any = None
) -> tuple[np.ndarray, bool]:
    """Return round(value + own Z + shared Z_0) for normal Z, each its own, and one Z_0 for all.

    The integers next to sums of real numbers, exactly: where doubles can't tell which, more
    bits are drawn. Held within int64 as in `add_noise`; arguments as there.

    Examples
    --------
    >>> from dptopk import SeededRng
    >>> add_shared_noise(np.array([90, 70]), 2.0, 1.0, SeededRng(3))
    (array([93, 70]), False)
    """
    if not (LOWEST <= own <= HIGHEST and 0.0 <= shared <= HIGHEST):
        raise ValueError(f"the noise scale must be from 2**-50 to 2**50, got {own} and {shared}")
    source = acquire(rng)
    try:
        words = source.read(values.size + 1).tolist()
        integers = _rounded_sums(words, own, shared)
        if integers is None:
            from dptopk.reference import shared as exact  # loads mpmath: seldom needed
            from dptopk.reference.race import Tape

            integers = exact.sample(Tape.replay(source), values.size, own=own, shared=shared)
        return _held(values, integers), source.private
    finally:
        release(source)


def _rounded_sums(words: list[int], own: float, shared: float) -> list[int] | None:
    """Return floor(own Z + shared Z_0 + 1/2), Z_0 the first, or None if some are not certain."""
    (common, common_error), *rest = map(_normal, words)
    common, common_error = shared * common, shared * common_error
    integers = []
    for z, error in rest:
        total = own * z + common + 0.5
        # Products, sums and what is added below: each within 2^-53 of its size.
        reach = own * error + common_error + 5 * UNIT * (abs(own * z) + abs(common) + 1.0)
        reach *= _core.error_factor * (1.0 + 2.0**-40)
        if not reach < 0.5 or math.floor(total - reach) != math.floor(total + reach):
            return None
        integers.append(math.floor(total))
    return integers


def _normal(word: int) -> tuple[float, float]:
    """Return the normal variate of a word and its error bound: `exponential` of csrc/variate.h."""
    steps = 2.0 * float((2**64 - 1 - word) >> 1)
    value = -math.log((steps + 1.0) * 2.0**-64)
    step = max(1.0 / steps, 2.0**-52) if steps else math.inf
    error = step * (1.0 + 2.0**-9) + 2.0**-51 + 2.0**-50 * value
    return _core.noise_value(GAUSSIAN, value, error)


def _held(values: np.ndarray, integers: list[int]) -> np.ndarray:
    sums = [value + x for value, x in zip(values.tolist(), integers, strict=True)]
    return np.array([min(max(x, -INT64_MAX - 1), INT64_MAX) for x in sums], dtype=np.int64)


def _wraps(values: np.ndarray) -> bool:
    """Tell whether a sum might leave int64; what the kernel draws is below 2^54."""
    if not values.size:
        return False
    return bool(values.max() > INT64_MAX - 2**54 or values.min() < 2**54 - INT64_MAX)


# ---- tails


def log_tail(noise: str, scale: float, m: int) -> float:
    """Return ln P(|X| >= m), rounded up.

    Laplace: P = 2 q^m / (1 + q) with q = exp(-1 / scale). Gaussian: by its
    sum; for a large sigma by the integral from m - 1/2, which is above the sum
    where the density is convex, past sigma, and below it by 0.061 / sigma^2 at
    most before (an eighth of the variation of the slope). The sum over all
    integers is above sigma sqrt(2 pi). Shared: the normal tail from m - 1/2, `scale` that
    of both noises together.

    Examples
    --------
    >>> import math
    >>> round(math.exp(log_tail("laplace", 1.0, 1)), 6), log_tail("laplace", 1.0, 0)
    (0.537883, 0.0)
    """
    if m <= 0:
        return 0.0
    if noise == "laplace":
        value = math.log(2) - math.log1p(math.exp(-1 / scale)) - m / scale
        return min(0.0, padded(value, m / scale + 1))
    if noise == "gaussian" and scale < SUMMED:
        first = 0.5 * (m / scale) ** 2
        ahead = np.arange(math.ceil(9 * scale) + 2) / scale
        rest = float(np.exp(-ahead * (ahead / 2 + m / scale)).sum())
        value = math.log(2 * rest / _whole(scale)) - first
        return min(0.0, padded(value, first) + SLACK)
    z = (m - 0.5) / scale
    from scipy import special

    value = math.log(2) + float(special.log_ndtr(-z))
    if noise == "gaussian" and z < 1.0:
        value += math.log1p(0.061 / scale**2 * math.exp(-value))
    return min(0.0, value + SLACK * (1 - value))


def _whole(sigma: float) -> float:
    """Return the sum of exp(-x^2 / (2 sigma^2)) over all integers."""
    side = np.arange(1, math.ceil(9 * sigma) + 2) / sigma
    return 1.0 + 2.0 * float(np.exp(-0.5 * side * side).sum())


@lru_cache(maxsize=1024)
def margin(noise: str, scale: float, confidence: float, shared: float = 0.0) -> int:
    """Return the smallest m >= 0 with P(|X| > m) <= 1 - confidence, or one more by rounding.

    This is for one variate; `shared` is the scale of a shared noise, on top of its own.
    All of n variates keep within it with probability at least 1 - n (1 - confidence).

    Examples
    --------
    >>> margin("laplace", 1.0, 0.95), margin("gaussian", 1.0, 0.95)
    (3, 2)
    """
    if noise == "shared":
        scale = root_up(Fraction(scale) ** 2 + Fraction(shared) ** 2)
    most = below(math.log(difference_down(1.0, confidence)))
    return _least(lambda m: log_tail(noise, scale, m + 1) <= most)


def _least(holds: Callable[[int], bool]) -> int:
    """Return the least m >= 0 from which on a condition holds."""
    if holds(0):
        return 0
    low, high = 0, 1
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def variance(noise: str, scale: float) -> float:
    """Return the variance of a discrete law; of a shared one about.

    Examples
    --------
    >>> round(variance("laplace", 1.0), 4), round(variance("gaussian", 1.0), 4)
    (1.8413, 1.0)
    """
    if noise == "laplace":
        return 0.5 / math.sinh(0.5 / scale) ** 2 if scale > 0.001 else 0.0
    if noise == "shared":
        return scale * scale + 1.0 / 12.0
    if scale >= SUMMED:
        return scale * scale
    x = np.arange(1, math.ceil(9 * scale) + 2)
    return 2.0 * float((x * x * np.exp(-0.5 * (x / scale) ** 2)).sum()) / _whole(scale)


# ---- what a budget pays for


def laplace_scale(*, epsilon: float, moved: int) -> float:
    """Return the least scale, a double, that is moved / epsilon at least.

    `moved` is how many counts one user moves by 1. The loss of each is
    1 / scale, exactly.

    Examples
    --------
    >>> laplace_scale(epsilon=0.5, moved=3)
    6.0
    """
    return _in_range(quotient_up(moved, epsilon))


@lru_cache(maxsize=1024)
def discrete_gaussian_sigma(*, epsilon: float, delta: float, moved: int) -> float:
    """Return a sigma with which counts are (epsilon, delta)-DP.

    `moved`, m below, is how many counts one user moves by 1. Then the noise is
    m / (2 sigma^2)-zCDP, from which (epsilon, delta) follows by
    `accounting.compositions.epsilon_of_rho`; and `discrete_gaussian_delta`, nearly
    exact, affords 5 to 20% less, up to m sigma^2 = 2000^2.

    Examples
    --------
    >>> [round(discrete_gaussian_sigma(epsilon=1.0, delta=1e-6, moved=m), 3) for m in (1, 4)]
    [4.231, 8.45]
    """
    slack = -math.log(delta)
    guess = (epsilon / (math.sqrt(slack + epsilon) + math.sqrt(slack))) ** 2
    rho = largest(lambda rho: epsilon_of_rho(rho, delta), epsilon, guess, ulps=8)
    sigma = _in_range(root_up(Fraction(moved) / (2 * Fraction(rho))))
    if math.sqrt(moved) * sigma > MOST_SIGMA:
        return sigma

    def enough(sigma: float) -> bool:
        return discrete_gaussian_delta(epsilon=epsilon, sigma=sigma, moved=moved) <= delta

    low = high = sigma
    while low > LOWEST and enough(low):
        low, high = low / 2, low
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return max(LOWEST, high)


def discrete_gaussian_delta(*, epsilon: float, sigma: float, moved: int) -> float:
    """Return an upper bound of delta at epsilon of counts with discrete Gaussian noise.

    `moved`, m below, is how many counts one user moves by 1: that all m move is
    the worst, since from them those where fewer do follow by leaving some out.
    The loss is (2 S + m) / (2 sigma^2) at the sum S of m noises, so that
    delta = sum over s of P(S = s) max(0, 1 - exp(epsilon - loss)); for m = 1
    this is in Canonne, Kamath and Steinke (2020).

    P(S = s) is c^m times the normal density at s of variance m sigma^2, with
    c = sigma sqrt(2 pi) / (sum of exp(-x^2 / (2 sigma^2))) <= 1, to within T
    times its value at 0: the characteristic function of a noise is the sum over
    j of c exp(-sigma^2 (t - 2 pi j)^2 / 2); in its m-th power the products of m
    equal j make up the density, and the others, with j = (0, j_2, ..., j_m) less a
    common shift, integrate to at most exp(-2 pi^2 sigma^2 |j|^2 / m) times its
    value at 0, as |j|^2 - (sum j)^2 / m >= |j|^2 / m. T is their sum, 0 for m = 1.
    Past the last term, P(S >= s) <= exp(-s^2 / (2 m sigma^2)).

    Examples
    --------
    >>> f"{discrete_gaussian_delta(epsilon=1.0, sigma=4.231, moved=1):.4g}"
    '9.993e-07'
    """
    m, spread = moved, math.sqrt(moved) * sigma
    ratio = math.exp(-2 * (math.pi * sigma) ** 2 / m)
    if m > 1 and ratio * m > 0.1:
        return 1.0  # T is past use
    start = math.floor(epsilon * sigma * sigma - m / 2)
    s = np.arange(start, max(start, 0) + math.ceil(9 * spread) + 2)
    c = min(1.0, sigma * math.sqrt(2 * math.pi) / _whole(sigma))
    peak = c**m * (1 + 32 * m * UNIT) / (math.sqrt(2 * math.pi) * spread)
    chance = peak * np.exp(-0.5 * (s / spread) ** 2)
    excess = -np.expm1(np.minimum(0.0, epsilon - (2 * s + m) / (2 * sigma * sigma)))
    others = math.expm1((m - 1) * math.log1p(2 * ratio / (1 - ratio))) if m > 1 else 0.0
    last = math.exp(-0.5 * ((float(s[-1]) + 1) / spread) ** 2)
    rounding = 8 * UNIT * (1 + 2 * epsilon) * float(chance.sum())
    value = float((chance * excess).sum()) + s.size * peak * others + last
    return value * (1 + SLACK) + rounding + 1e-300


def _in_range(scale: float) -> float:
    if not scale <= HIGHEST:
        raise ValueError("epsilon is too small: the noise scale is past 2**50")
    return max(scale, LOWEST)
