"""The sparse vector technique, readable: tests of queries against one noisy threshold.

The threshold gets a Laplace noise rho of scale s/e1, once. Every query gets
one of its own, and hits if it then lies above the noisy threshold; the c-th
hit is the last. Queries that don't hit cost nothing. (Lyu, Su and Li 2017,
Algorithm 7 without its numeric answers; here "hit" for their "top".)

Why it is (e1 + e2)-DP. Given rho the tests are independent, so the chance of
an outcome is an integral over rho of f(rho), a factor P(q + noise <= T + rho)
for each miss, and P(q + noise > T + rho) for each hit. Take a neighbour whose
queries q' are within s of q, and shift its rho by s:

- f changes by a factor exp(e1) at most;
- a miss of q at rho is no likelier than one of q' at rho + s, as q' <= q + s:
  misses are free, however many;
- a hit of q' at rho + s needs at most 2s more noise than one of q at rho, as
  q' >= q - s: a factor exp(e2/c) with noise of scale 2cs/e2, and there are at
  most c of them.

Monotone, if all queries of a pair move one way: where they rise (q <= q' <=
q + s), the same shift asks a hit for s more noise only; where they fall, no
shift at all is needed: misses get likelier, hits need s more. So query noise
of scale cs/e2 will do. Below the threshold in place of above: turn the signs
of queries, threshold and noises round, and it is the same mechanism. One rho
for all tests is what makes misses free; and nothing but the bits may come
out: a noisy query that was tested says something of rho.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dptopk.reference.interval import Interval
from dptopk.reference.noise import LAWS, Panels
from dptopk.reference.race import Tape

__all__ = ["Laplace", "exceeds", "law", "naive_sample", "sample"]

Bits = tuple[bool, ...]
Number = int | float | Fraction
TAIL = 40.0  # noises beyond so many scales weigh e^-40


def law(
    queries: Sequence[float],
    *,
    threshold: float = 0.0,
    threshold_scale: float,
    query_scale: float,
    hits: int = 1,
    above: bool = True,
) -> dict[Bits, float]:
    """Chance of every outcome.

    Parameters
    ----------
    queries : sequence of float, shape (n,)
        What is tested, in this order.
    threshold : float
        What it is tested against.
    threshold_scale, query_scale : float
        Scales of the Laplace noises, in units of the queries.
    hits : int
        The test that hits for the so-manieth time is the last.
    above : bool
        Whether a hit is above the threshold, or below.

    Returns
    -------
    dict of tuple to float
        Each outcome, a tuple of bool with True for a hit, and its probability.

    Examples
    --------
    >>> from dptopk.reference import sparse_vector
    >>> chance = sparse_vector.law([0, 9], threshold=5, threshold_scale=1.0, query_scale=1.0)
    >>> {bits: round(p, 3) for bits, p in chance.items()}
    {(True,): 0.012, (False, True): 0.961, (False, False): 0.027}
    """
    noise = LAWS["laplace"]
    unit = min(threshold_scale, query_scale)
    gaps = [query - threshold for query in queries]
    reach = TAIL * threshold_scale
    panels = Panels([0.0, -reach, reach, *gaps], unit)
    shift = panels.points * unit
    needed = {gap: (shift - gap) / query_scale for gap in gaps}
    up = {gap: noise.above(z) for gap, z in needed.items()}
    down = {gap: noise.below(z) for gap, z in needed.items()}
    hit, miss = (up, down) if above else (down, up)
    chances: dict[Bits, float] = {}

    def extend(bits: Bits, weight: np.ndarray) -> None:
        if len(bits) == len(gaps) or sum(bits) == hits:
            chances[bits] = panels.integral(weight) * unit
            return
        gap = gaps[len(bits)]
        extend((*bits, True), weight * hit[gap])
        extend((*bits, False), weight * miss[gap])

    extend((), noise.density(shift / threshold_scale) / threshold_scale)
    return chances


class Laplace:
    """Standard Laplace noise from a word and, when needed, further bits.

    Bit 0 of the word is its sign, the others begin the U of its size -ln(1 - U).
    Bits that were drawn are kept: the noise of a threshold serves many tests.
    """

    def __init__(self, word: int):
        self.word = word
        self.further: list[int] = []

    def interval(self, level: int, tape: Tape) -> Interval:
        """Return bounds from the first 64 * level - 1 bits of U."""
        while len(self.further) < level - 1:
            self.further.append(tape.further())
        value = self.word >> 1
        for word in self.further[: level - 1]:
            value = value << 64 | word
        one, precision = 1 << (64 * level - 1), 64 * level + 32
        low = -Interval.exact(Fraction(one - value, one), precision).log()
        high = -Interval.exact(Fraction(one - value - 1, one), precision).log()
        size = Interval(low.ends[0], high.ends[1], precision)
        return -size if self.word & 1 else size


def exceeds(
    tape: Tape,
    query: Number,
    *,
    threshold: Fraction,
    threshold_scale: float,
    query_scale: float,
    threshold_noise: Laplace,
) -> bool:
    """Tell whether a query, with the next word of the tape as its noise, is above."""
    noise, level = Laplace(tape.word()), 1
    gap = threshold - Fraction(query)
    scales = Fraction(threshold_scale), Fraction(query_scale)
    # Bits on top, or the noises are lost beside the gap.
    whole = int(abs(gap) / min(scale for scale in scales if scale)).bit_length()
    while True:
        precision = 64 * level + 32 + whole
        rho, nu = (
            Interval.exact(scale, precision) * x.interval(level, tape)
            for scale, x in zip(scales, (threshold_noise, noise), strict=True)
        )
        needed = Interval.exact(gap, precision) + rho
        if nu.above(needed):
            return True
        if needed.above(nu):
            return False
        level += 1


def sample(
    tape: Tape,
    queries: Sequence[Number],
    *,
    threshold: Number,
    threshold_scale: float,
    query_scale: float,
    hits: int = 1,
    above: bool = True,
) -> Bits:
    """Draw once from a tape of random words, exactly: the twin of the compiled mechanism.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        The first word is for the threshold, then comes one a query.
    queries, threshold, threshold_scale, query_scale, hits, above
        As in `law`.

    Returns
    -------
    tuple of bool
        True for a hit.
    """
    noise = Laplace(tape.word())
    bits: list[bool] = []
    for query in queries:
        if sum(bits) == hits:
            break
        passed = exceeds(
            tape,
            query,
            threshold=Fraction(threshold),
            threshold_scale=threshold_scale,
            query_scale=query_scale,
            threshold_noise=noise,
        )
        bits.append(passed == above)
    return tuple(bits)


def naive_sample(
    queries: Sequence[float],
    *,
    threshold: float = 0.0,
    threshold_scale: float,
    query_scale: float,
    hits: int = 1,
    above: bool = True,
    draws: int,
    rng: np.random.Generator,
) -> list[Bits]:
    """Draw the way it is usually written.

    A baseline for tests. Not private: double arithmetic, and a generator that is no
    secure source.

    Parameters
    ----------
    queries, threshold, threshold_scale, query_scale, hits, above
        As in `law`.
    draws : int
        Number of independent draws.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    list of tuple
        One outcome a draw, as in `law`.

    Examples
    --------
    >>> import numpy as np
    >>> from dptopk.reference import sparse_vector
    >>> sparse_vector.naive_sample([0, 90, 0], threshold=50, threshold_scale=1.0, query_scale=1.0,
    ...                            draws=1, rng=np.random.default_rng(1))
    [(False, True)]
    """
    level = threshold + rng.laplace(scale=threshold_scale, size=(draws, 1))
    noisy = np.asarray(queries) + rng.laplace(scale=query_scale, size=(draws, len(queries)))
    outcomes = []
    for row in ((noisy > level) == above).tolist():
        last = [i for i, hit in enumerate(row) if hit][hits - 1 : hits]
        outcomes.append(tuple(row[: last[0] + 1] if last else row))
    return outcomes
