"""The one-shot mechanism, readable: noise on every score once, the k largest as a set.

Proof notes, for the maximum (the minimum is that of -x). x, x' are neighbours, |x' - x| <= s
item by item, b the scale, L = ln(m / delta). Selection doesn't see a shift of all scores, so
a user who moves all of them one way, by up to s, is after a shift by s/2 one who moves each by
up to s/2 either way. What is shown for general scores of sensitivity s therefore serves
monotone ones of sensitivity 2 s: constants 2 and 8 below become 1 and 4.

Pure (Theorem 2.1; Laplace and exponential noise alike). Let V be the largest noisy score
outside a set A, T(z) = P(noise > z). Then P(A | V = v) = prod over A of T((v - x_i) / b).
Couple V' with V by equal noises: |V' - V| <= s, so an argument moves by at most 2s/b. ln T is
1-Lipschitz, so the product of k factors changes by at most exp(2 k s / b): b = 2ks/epsilon.

With at most D scores moved, Laplace noise on all m scores is the Laplace mechanism for L1
sensitivity D s, b = D s/epsilon; Gaussian noise is the Gaussian one, L2 sensitivity sqrt(D) s.
The set is post-processing. (Exponential noise on all m scores is not private at all by itself.)

Approximate (Theorem 2.2; s = 1, b = 8 sqrt(k L) / epsilon, epsilon <= 0.2, delta <= 0.05,
m >= 2, so L >= ln 40 > 3.688). The supplement is replaced by what follows; c = 1.9,
C0 = 3.9^2, C1 = 1.95, h(u) = (1+u) ln(1+u) - u.
0. k < C0 L: b > (8 / 3.9) k / epsilon > 2k/epsilon is pure. From here on k >= C0 L.
1. Given that j is the k-th and its noise, each other i is in by itself, with probability q_i;
   sets of k-1. For x' and the same noise the arguments move by d <= 2/b. The Laplace density
   g has g(z + d) <= e^d g(z) and g <= 2 G (1 - G), so |q' - q| <= 2 d e^d q (1 - q) (Lemma
   4.3). b >= 8 * 3.9 L / epsilon >= 575, so this is tau q (1 - q), tau <= 4.014/b, which is
   0.9785 epsilon / (C1 sqrt(k L)). Call 0.9785 epsilon = e: in Lemma 4.4 it is the epsilon.
2. (Lemma 4.5) If sum q >= K = k + c sqrt(k L), then P(at most k are in) <= exp(-K h(1 - k/K)),
   by Bennett with variance <= sum q. With h(u) >= u^2 / (2 + 2u/3), t = K/k - 1 <= 1.9/3.9:
   K h >= c^2 L / (2 (1 + 4t/3)) >= 1.094 L, so at most delta/m.
3. (Lemma 4.4) Else sum q <= 1.4872 k. Let zeta = ln(P_q' / P_q) of the set drawn from q. The
   hockey stick is at most P(zeta <= -e). With D_i = q'_i - q_i: tau < 0.00713,
   |E zeta| <= sum D^2 / (q (1-q)) <= tau^2 sum q <= 0.0213 e; ranges are at most
   A = tau / (1 - 0.0072) <= 1.0073 tau, the variance is at most A^2 sum q <= 1.509 tau^2 k.
   Bennett, t >= 0.9787 e: the exponent is at least, at y = A t / (1.509 tau^2 k) <= 0.3409,
   (h(y)/y^2) t^2 / (1.509 tau^2 k) >= 0.4512 * 0.9787^2 * C1^2 / 1.509 L >= 1.08 L.
4. Sum over j: m times delta/m. The noise of j has one density on both sides: factor 1.
Half of that. Step 1 may hold the k-th noisy score, v, instead of its noise: then an argument
(v - x_i) / b moves by d <= 1/b only, and the density of v under j moves by a factor of at most
e^(1/b), to be paid in step 4. So b = 4 sqrt(k L) / epsilon (2 if monotone) does where
k >= C0 L: tau is as above, and 0.9785 + 1 / (4 * 3.9 L) <= 1. Step 0 has no such
half: where k < C0 L the pure scale is the smaller one anyway. `tests/test_oneshot.py` computes
every number above.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from dptopk.reference import noise as quadrature
from dptopk.reference.race import Field, Tape, race


def law(
    scores: Sequence[float], *, k: int, scale: float, noise: str, largest: bool = True
) -> dict[tuple[int, ...], float]:
    """Chance of every set of k items.

    Parameters
    ----------
    scores : sequence of float, shape (items,)
        One per item.
    k : int
        Size of the set.
    scale : float
        Scale of the noise, in units of the scores.
    noise : {"laplace", "exponential", "gaussian"}
        Law of the noise.
    largest : bool
        Whether the largest are wanted, or the smallest.

    Returns
    -------
    dict of tuple to float
        Each set, as indices in item order, and its probability.

    Examples
    --------
    >>> from dptopk.reference import oneshot
    >>> chance = oneshot.law([2, 1, 0], k=2, scale=1.0, noise="laplace")
    >>> {items: round(p, 3) for items, p in chance.items()}
    {(0, 1): 0.671, (0, 2): 0.246, (1, 2): 0.083}
    """
    turned = scores if largest else [-score for score in scores]
    return quadrature.set_law(turned, k=k, scale=scale, noise=noise)


def group_law(
    scores: tuple[float, float], sizes: tuple[int, int], *, k: int, scale: float, noise: str
) -> dict[int, float]:
    """Chance of how many of the k come from the first of two groups of equal scores.

    Sets with the same number from a group are equally likely, so this says all
    about a set that its whole law does, for any number of items.

    Parameters
    ----------
    scores : (float, float)
        The score of all items of each group.
    sizes : (int, int)
        How many items each has.
    k, scale, noise
        As in `law`.

    Returns
    -------
    dict of int to float
        Each number that can be, and its probability.

    Examples
    --------
    >>> from dptopk.reference import oneshot
    >>> chance = oneshot.group_law((1, 0), (1, 2), k=2, scale=1.0, noise="laplace")
    >>> {number: round(p, 3) for number, p in chance.items()}
    {0: 0.142, 1: 0.858}
    """
    low, high = sorted(scores)
    pieces = int(np.ceil((high - low) / scale + 80)) * 4  # a quarter of a scale, or less
    cuts = np.linspace(low - 40 * scale, high + 40 * scale, pieces + 1)
    panels = quadrature.Panels([low, high, *cuts.tolist()], scale)
    standard = quadrature.LAWS[noise]
    at = [panels.points - score / scale for score in scores]
    with np.errstate(divide="ignore"):  # a finite number, so that 0 times it is 0
        above = [np.maximum(np.log(standard.above(z)), -1e300) for z in at]
        below = [np.maximum(np.log(standard.below(z)), -1e300) for z in at]

    def selected(group: int, size: int, number: int) -> npt.NDArray[np.float64]:
        """Logarithm of the chance that so many of so many are above each point."""
        ways = -np.log1p(size) - special.betaln(size - number + 1, number + 1)
        return np.asarray(ways + number * above[group] + (size - number) * below[group])

    chances = {}
    for first in range(max(0, k - sizes[1]), min(k, sizes[0]) + 1):
        numbers, kth = (first, k - first), np.zeros_like(panels.points)
        for group in (0, 1):
            other = 1 - group
            if numbers[group]:
                before = selected(group, sizes[group] - 1, numbers[group] - 1)
                beside = selected(other, sizes[other], numbers[other])
                kth += sizes[group] * standard.density(at[group]) * np.exp(before + beside)
        chances[first] = panels.integral(kth)
    return chances


def sample(
    tape: Tape,
    scores: Sequence[int | float],
    *,
    k: int,
    scale: float,
    noise: str,
    largest: bool = True,
) -> tuple[int, ...]:
    """Draw once from a tape of random words, exactly: the twin of the compiled mechanism.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    scores, k, scale, noise, largest
        As in `law`.

    Returns
    -------
    tuple of int
        The set, in item order.
    """
    turned = list(scores) if largest else [-score for score in scores]
    order = sorted(range(len(turned)), key=lambda i: (-turned[i], i))
    field = Field([turned[i] for i in order], order)
    return tuple(sorted(race(tape, field, k=k, scale=scale, noise=noise)))


def naive_sample(
    scores: npt.ArrayLike,
    *,
    k: int,
    scale: float,
    noise: str,
    draws: int,
    rng: np.random.Generator,
    largest: bool = True,
) -> npt.NDArray[np.int64]:
    """Draw the way it is usually written: noise on every score, then a partial sort.

    A baseline for tests and timings. Not private: double arithmetic, and a
    generator that is no secure source.

    Parameters
    ----------
    scores : array_like of float, shape (items,)
        One per item.
    k, scale, noise, largest
        As in `law`.
    draws : int
        Number of independent draws.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    ndarray of int64, shape (draws, k)
        The set of each draw, in item order.

    Examples
    --------
    >>> import numpy as np
    >>> from dptopk.reference import oneshot
    >>> rng = np.random.default_rng(1)
    >>> oneshot.naive_sample([90, 0, 60], k=2, scale=1.0, noise="laplace", draws=1, rng=rng)
    array([[0, 2]])
    """
    turned = np.asarray(scores, dtype=np.float64) * (1 if largest else -1)
    size = (draws, turned.size)
    if noise == "laplace":
        drawn = rng.laplace(size=size)
    elif noise == "exponential":
        drawn = rng.exponential(size=size)
    else:
        drawn = rng.normal(size=size)
    noisy = turned + scale * drawn
    if k < turned.size:
        return np.sort(np.argpartition(-noisy, k, axis=1)[:, :k], axis=1)
    return np.tile(np.arange(k), (draws, 1))
