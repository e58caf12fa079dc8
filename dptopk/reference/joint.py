"""The joint exponential mechanism, readable: by brute force, as published, and as it is drawn.

A set of k items whose scores, sorted, are s_1 >= ... >= s_k loses
max_i (c_i - s_i) against the k best c_1 >= ... >= c_k; a sequence, the same with
s_i in the order given. The mechanism draws an outcome with weight
exp(-loss / scale). `law` adds all weights up, `paper_law` counts paths as the
paper does, and `sample` is the exact twin of csrc/joint.c.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from mpmath import libmp

from dptopk.reference.interval import Interval
from dptopk.reference.paths import Paths, count
from dptopk.reference.race import Exponential, Tape
from dptopk.reference.subset import subset

__all__ = ["Block", "envelope", "law", "naive_sample", "paper_law", "sample", "staircase"]

Score = int | float
Outcome = tuple[int, ...]
Logarithm = Callable[[int, int], Interval]  # of a number, by precision and level


# ---- the law, by brute force


def law(
    scores: Sequence[Score], *, k: int, scale: float, output: str = "set"
) -> dict[Outcome, float]:
    """Chance of every set of k items (in item order), or of every sequence.

    Parameters
    ----------
    scores : sequence of int or float, shape (items,)
        Of any sign.
    k : int
        How many items, at most ``len(scores)``.
    scale : float
        2 sensitivity / epsilon.
    output : {"set", "sequence"}
        What is drawn.

    Returns
    -------
    dict of tuple to float
        Each outcome and its probability.

    Examples
    --------
    >>> from dptopk.reference import joint
    >>> {s: round(p, 3) for s, p in joint.law([2, 1, 0], k=2, scale=1.0).items()}
    {(0, 1): 0.576, (0, 2): 0.212, (1, 2): 0.212}
    """
    best = sorted(map(Fraction, scores), reverse=True)
    ways = itertools.combinations if output == "set" else itertools.permutations
    weights = {}
    for items in ways(range(len(scores)), k):
        picked = [Fraction(scores[i]) for i in items]
        if output == "set":
            picked.sort(reverse=True)
        loss = max(c - s for c, s in zip(best, picked, strict=False))
        weights[items] = math.exp(-float(loss) / scale)
    total = math.fsum(weights.values())
    return {items: weight / total for items, weight in weights.items()}


# ---- the algorithm of the paper


def paper_law(counts: Sequence[int], *, k: int, epsilon: float) -> dict[Outcome, float]:
    """Chance of every set as Algorithm 1 of Gillenwater et al. 2022 makes it, step by step.

    For few items: it looks at all k d utilities. The paper takes counts to be
    distinct; equal ones are told apart by item order here, an infinitely small
    amount each, so that the utilities are (difference, difference of places).

    Parameters
    ----------
    counts : sequence of int, shape (d,)
        Users per item.
    k : int
        How many items.
    epsilon : float
        The privacy parameter.

    Returns
    -------
    dict of tuple to float
        Each set, in item order, and its probability.
    """
    d = len(counts)
    order = sorted(range(d), key=lambda item: (-counts[item], item))
    c = [(counts[item], -place) for place, item in enumerate(order)]
    # Line 1. The matrix M, by its entries that are not "bottom": row i begins at column i
    # and ends at d - k + i (from 0). Left-aligned, M-hat has d - k + 1 columns.
    m_hat = [
        [(c[i][0] - c[j][0], c[i][1] - c[j][1]) for j in range(i, d - k + i + 1)] for i in range(k)
    ]
    # Line 2. Sets of utility at least -M_ij are paths in A^ij; differences give those of
    # exactly that utility.
    losses = sorted({entry for row in m_hat for entry in row})
    reached = [paths_in(a_matrix(m_hat, loss)) for loss in losses]
    exactly = [n - before for n, before in zip(reached, [0, *reached[:-1]], strict=True)]
    # Line 3. The utility.
    weights = [
        n * math.exp(-epsilon * loss[0] / 2) for n, loss in zip(exactly, losses, strict=True)
    ]
    total = math.fsum(weights)
    # Line 4. A uniform one of the sets that have it.
    share = {
        loss: weight / total / n
        for loss, weight, n in zip(losses, weights, exactly, strict=True)
        if n
    }
    chances = {}
    for places in itertools.combinations(range(d), k):
        loss = max(m_hat[i][j - i] for i, j in enumerate(places))
        chances[tuple(sorted(order[j] for j in places))] = share[loss]
    return chances


def a_matrix(m_hat: Sequence[Sequence[Any]], most: Any) -> list[list[int]]:
    """Return A^ij: 1 where an entry of M-hat is at most M_ij, and a row of ones below.

    The paper prints "<", which would leave out the sets of utility exactly -M_ij.
    """
    width = len(m_hat[0])
    return [[int(entry <= most) for entry in row] for row in m_hat] + [[1] * width]


def paths_in(a: Sequence[Sequence[int]]) -> int:
    """Count paths right and down over ones, corner to corner: Q_1 Q_2 ... of Lemma 7.

    The matrix is cut where a row ends. In the columns between two cuts all rows
    still open are full of ones: there from row r to row q >= r, over a width of w
    columns, go C(w - 1 + q - r, q - r) paths: Toeplitz matrices from Pascal's triangle.
    """
    k = len(a) - 1
    # Rows end one after the other; a path must be below a row before it ends. (Of two
    # rows, the lower may end first: then so does the upper, for a path.)
    ends = list(itertools.accumulate(reversed([sum(row) for row in a]), min))[::-1]
    if ends[0] == 0:
        return 0
    cuts = sorted(set(ends))
    vector = [1] + [0] * k  # paths to each row, in the column before the first
    before = 0
    for cut in cuts:
        width = cut - before
        q_matrix = [
            [math.comb(width - 1 + q - r, q - r) if q >= r else 0 for q in range(k + 1)]
            for r in range(k + 1)
        ]
        vector = [sum(vector[r] * q_matrix[r][q] for r in range(k + 1)) for q in range(k + 1)]
        if cut < len(a[0]):  # on to the next column, in the rows that have it
            vector = [n if end > cut else 0 for n, end in zip(vector, ends, strict=True)]
        before = cut
    return vector[k]


# ---- as it is drawn


class Block(NamedTuple):
    """Losses in [start, start + width) that are proposed with an integer weight.

    `constant`: all of them let the same outcomes in.
    """

    start: float
    width: float
    weight: int
    constant: bool


def staircase(
    values: Sequence[Score],
    ends: Sequence[int],
    *,
    k: int,
    tau: int | float | Fraction,
    output: str = "set",
) -> list[int]:
    """Return the bounds of outcomes that lose at most tau.

    Of a set: x_i = j_i - i for its ranks j_0 < j_1 < ..., as they must not fall; of
    a sequence: the ranks.

    Parameters
    ----------
    values, ends : sequences, shape (groups,)
        The distinct scores, descending, and how many items score at least each.
    k, output
        As in `law`.
    tau : number
        The loss, at least 0.

    Returns
    -------
    list of int, shape (k,)

    Examples
    --------
    >>> from dptopk.reference.joint import staircase
    >>> staircase([5, 4, 2], [1, 3, 4], k=2, tau=1), staircase([5, 4, 2], [1, 3, 4], k=2, tau=2)
    ([1, 1], [2, 2])
    """
    exact = _exact(values)
    tau = math.floor(tau) if isinstance(exact(values[0]), int) else Fraction(tau)
    bound, own = [], 0
    for i in range(k):
        while int(ends[own]) <= i:
            own += 1
        least = exact(values[own]) - tau
        within = bisect_right(values, -least, key=lambda value: -exact(value))
        bound.append(int(ends[within - 1]) - 1 - (i if output == "set" else 0))
    if output == "set":
        for i in range(k - 1, 0, -1):
            bound[i - 1] = min(bound[i - 1], bound[i])
    return bound


def _exact(values: Sequence[Score]) -> Any:
    return Fraction if isinstance(values[0], (float, np.floating)) else int


def outcomes_within(bound: Sequence[int], output: str) -> int:
    """Return how many outcomes are within the bounds."""
    if output == "set":
        return count(bound)
    return math.prod(b + 1 - i for i, b in enumerate(bound))


def sample(
    tape: Tape,
    values: Sequence[Score],
    ends: Sequence[int],
    *,
    k: int,
    scale: float,
    output: str = "set",
    blocks: Sequence[Block],
    log_unit: float,
) -> list[int]:
    """Draw once from a tape, exactly: ranks from 0, those of a set in no order.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    values, ends, k, scale, output
        As in `staircase` and `law`.
    blocks, log_unit
        The envelope, from ``_core.Joint`` or from `envelope`: it decides which words are
        read, never the law.

    Returns
    -------
    list of int, shape (k,)
    """
    total = sum(block.weight for block in blocks)
    while True:
        at = tape.below(total)
        for block in blocks:
            if at < block.weight:
                break
            at -= block.weight
        if block.constant:
            bound = staircase(values, ends, k=k, tau=Fraction(block.start), output=output)
        else:
            bound = _place(tape, block, values, ends, k=k, scale=scale, output=output)
        if output == "set":
            paths = Paths(bound)
            if _accepted(tape, block, _log_sets(paths), scale=scale, log_unit=log_unit):
                return _set_under(tape, paths)
        else:
            log = _log_sequences(bound)
            if _accepted(tape, block, log, scale=scale, log_unit=log_unit):
                return _sequence_under(tape, bound)


def _log_sets(paths: Paths) -> Logarithm:
    # A level past what pairs of doubles hold: once in 2^60 draws or so.
    return lambda precision, level: paths.log(precision, exact=level > 2)


def _log_sequences(bound: Sequence[int]) -> Logarithm:
    within = outcomes_within(bound, "sequence")
    return lambda precision, level: Interval.exact(within, precision).log()


def _place(
    tape: Tape,
    block: Block,
    values: Sequence[Score],
    ends: Sequence[int],
    *,
    k: int,
    scale: float,
    output: str,
) -> list[int]:
    """Draw tau within a block, with as many bits as its staircase needs."""
    variate, level = Exponential(tape), 1
    while True:
        found = _within(block, variate.interval(level), scale)
        if found is not None:
            low, high = (staircase(values, ends, k=k, tau=tau, output=output) for tau in found)
            if low == high:
                return low
        level += 1


def _within(block: Block, e: Interval, scale: float) -> tuple[Fraction, Fraction] | None:
    """Return the ends of tau in the block; None if not even its lap is known.

    Exp(1) scales modulo the width are the exponential law cut to the block.
    """
    if libmp.finf in e.ends:
        return None
    low, high = (Fraction(*libmp.to_rational(end)) * Fraction(scale) for end in e.ends)
    laps = Fraction(0)
    if block.width < math.inf:
        width = Fraction(block.width)
        if low // width != high // width:
            return None
        laps = low // width * width
    return Fraction(block.start) + low - laps, Fraction(block.start) + high - laps


def _accepted(
    tape: Tape, block: Block, log_within: Logarithm, *, scale: float, log_unit: float
) -> bool:
    """Accept with the density over the envelope: if an exponential is above its logarithm."""
    variate, level = Exponential(tape), 1
    while True:
        e = variate.interval(level)
        precision = e.precision + 64

        def number(value: Any, bits: int = precision) -> Interval:
            return Interval.exact(value, bits)

        log_mass = -number(Fraction(block.start) / Fraction(scale))
        if block.width < math.inf:
            past = (-number(Fraction(block.width) / Fraction(scale))).exp()
            log_mass = log_mass + (number(1) - past).log()
        price = number(log_unit) - number(52) * number(2).log() + number(block.weight).log()
        price = price - log_mass - log_within(precision, level)
        if e.above(price):
            return True
        if price.above(e):
            return False
        level += 1


def _set_under(tape: Tape, paths: Paths) -> list[int]:
    """Draw a uniform set: how many ranks come from each stair, from the top down."""
    k = len(paths.bound)
    ranks, taken = [0] * k, k
    for s in range(len(paths.heights) - 2, -1, -1):
        if taken == 0:
            break
        foot, height = paths.heights[s : s + 2]
        below = _share(tape, paths, s, taken) if s else 0
        if below < taken:
            first, n = foot + below, height - foot + (taken - below) - 1
            ranks[below:taken] = subset(tape, first, n, taken - below)
        taken = below
    return ranks


def _share(tape: Tape, paths: Paths, s: int, taken: int) -> int:
    """Return how many of the numbers below a stair are below the one before, at random."""
    words = [tape.word()]
    for exact in (False, True):
        found = paths.parts(s, taken, exact=exact)
        if found is not None:
            first, parts, slack = found
            i = _place_of(tape, words, parts, slack)
            if i is not None:
                return first + i
    raise AssertionError("integers decide")


def _place_of(tape: Tape, words: list[int], parts: Sequence[int], slack: int) -> int | None:
    """Return i with a chance proportional to parts[i]; None if they are known too badly."""
    total = sum(parts)
    while True:
        # U in [value, value + 1) / 2^bits, times the total.
        bits = 64 * len(words)
        value = sum(word << (bits - 64 - 64 * i) for i, word in enumerate(words))
        low, high = value * (total - slack), (value + 1) * (total + slack)
        if low >= slack << bits:  # not below all parts
            i, so_far = 0, parts[0]
            while low >= (so_far + slack) << bits:
                i += 1
                so_far += parts[i]
            if high <= (so_far - slack) << bits:
                return i
        if slack and len(words) > 1:
            return None
        words.append(tape.further())


def _sequence_under(tape: Tape, bound: Sequence[int]) -> list[int]:
    """Draw each rank uniform among those within its bound that are not taken."""
    ranks: list[int] = []
    for i, most in enumerate(bound):
        left = most + 1 - i
        rank = tape.below(left) if left > 1 else 0
        for taken in sorted(ranks):
            rank += taken <= rank
        ranks.append(rank)
    return ranks


def envelope(
    values: Sequence[Score], ends: Sequence[int], *, k: int, scale: float, output: str = "set"
) -> tuple[list[Block], float]:
    """Return an envelope by exact counts, for when they are beyond doubles: slow.

    Blocks are halved until the envelope is at most some times what it covers.

    Parameters
    ----------
    values, ends, k, scale, output
        As in `staircase` and `law`.

    Returns
    -------
    blocks : list of Block
    log_unit : float
        The logarithm of what a weight of 2^52 stands for.
    """
    whole = _exact(values) is int

    def log_count(tau: float) -> float:
        bound = staircase(values, ends, k=k, tau=Fraction(tau), output=output)
        return math.log(outcomes_within(bound, output))

    span = _exact(values)(values[0]) - _exact(values)(values[len(values) - 1])
    reach = math.ldexp(1.0, math.frexp(float(span) * (1 + 2**-50))[1]) if span else 0.0
    least, most = log_count(0.0), log_count(reach)
    spread = scale * (most - least + 8.0)
    while reach / 2 > spread and not (whole and reach == 1.0):
        reach /= 2
    # (start, width, log of the outcomes at its start and at its end, constant)
    found = [(reach, math.inf, most, most, reach >= span)]
    if reach:
        found.append((0.0, reach, least, most, whole and reach == 1.0))

    def log_size(block: tuple[float, float, float, float, bool]) -> float:
        start, width, low, high, constant = block
        mass = -start / scale
        if width < math.inf:
            mass += math.log(-math.expm1(-width / scale))
        return (low if constant else high) + mass

    def splits(block: tuple[float, float, float, float, bool]) -> bool:
        start, width, _, _, constant = block
        fine = whole or width > scale * 2**-20
        return not constant and width < math.inf and fine and width > start * 2**-40

    while len(found) < 512:
        top = max(map(log_size, found))
        sizes = [math.exp(log_size(block) - top) for block in found]
        loose = [
            size * -math.expm1(b[2] - b[3]) if splits(b) else 0.0
            for size, b in zip(sizes, found, strict=True)
        ]
        if sum(loose) <= 0.6 * sum(sizes):
            break
        start, half, low, high, _ = found.pop(max(range(len(loose)), key=loose.__getitem__))
        half /= 2
        middle = log_count(start + half)
        unit = whole and half == 1.0
        found += [(start, half, low, middle, unit), (start + half, half, middle, high, unit)]
    log_unit = max(map(log_size, found))
    return [
        Block(b[0], b[1], int(math.exp(log_size(b) - log_unit + 2**-20) * 2**52) + 2, b[4])
        for b in found
    ], log_unit


def naive_sample(
    counts: Sequence[int],
    *,
    k: int,
    scale: float,
    draws: int,
    rng: np.random.Generator,
    table: Mapping[Outcome, float] | None = None,
) -> npt.NDArray[np.int64]:
    """Draw from the whole table of sets: the exponential mechanism as it is usually written.

    A baseline for tests. Not private: double arithmetic, and a generator that
    is no secure source. `table` takes the place of the law.
    """
    chances = law(counts, k=k, scale=scale) if table is None else table
    outcomes = np.array(list(chances), dtype=np.int64)
    return outcomes[rng.choice(len(outcomes), size=draws, p=list(chances.values()))]
