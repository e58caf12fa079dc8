"""The entry of rank_pairs: every outcome of small graphs against every flip of one comparison.

Scales come from the mechanism's own `calibrate`, scores and refusals from its own code; the true
distributions and coefficients from exact fractions.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dptopk.ranking import private
from dptopk.ranking.private import Plan, rank_pairs
from dptopk.ranking.table import checked_table
from dptopk.reference import ranking
from dptopk.reference.noise import set_law
from dptopk.rng import TapeRng
from dptopk.verification import tapes
from dptopk.verification.draws import Public, at_least
from dptopk.verification.registry import Entry, SamplerCheck, Verdict

EPSILON = 1.0
SLACK = 2.0**-10  # what the grid may add to the noise
Wins = tuple[tuple[int, ...], ...]
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Graph:
    """Who is compared with whom: n items, L times each pair, normalised by the degree d."""

    name: str
    n: int
    pairs: Pairs
    comparisons_per_pair: int
    degree: int

    def outcomes(self) -> Iterator[Wins]:
        """Yield all tables."""
        return ranking.outcomes(
            self.pairs, n=self.n, comparisons_per_pair=self.comparisons_per_pair
        )

    @property
    def stated(self) -> dict[str, Any]:
        """What the caller states of it."""
        return {"degree": self.degree, "comparisons_per_pair": self.comparisons_per_pair}


def _complete(n: int, comparisons_per_pair: int) -> Graph:
    pairs = tuple(itertools.combinations(range(n), 2))
    name = f"{n} items, all pairs, L={comparisons_per_pair}"
    return Graph(name, n, pairs, comparisons_per_pair, n - 1)


TWO, THREE, FOUR = _complete(2, 3), _complete(3, 2), _complete(4, 1)
RING = Graph("4 items in a ring, L=2", 4, ((0, 1), (1, 2), (2, 3), (0, 3)), 2, 2)
PATH = Graph("3 items in a row, L=3", 3, ((0, 1), (1, 2)), 3, 2)


def _plan(graph: Graph, **options: Any) -> Plan:
    given: dict[str, Any] = {
        "k": 1, "epsilon": EPSILON, "delta": 0.0, "rho": None, "restart": 0.0, "method": "laplace",
        **graph.stated, **options,
    }  # fmt: skip
    complete = 2 * len(graph.pairs) == graph.n * (graph.n - 1)
    return private.calibrate(graph.n, complete=complete, **given)


@functools.cache
def _exact(graph: Graph, wins: Wins, restart: float) -> tuple[Any, Any]:
    """Return pi (None if it is not unique) and tau without restarts, in fractions."""
    plain, moved = (
        ranking.transition_matrix(wins, restart=chance, **graph.stated) for chance in (0.0, restart)
    )
    return ranking.stationary_distribution(moved), ranking.ergodicity_coefficient(plain)


def _flips(graph: Graph, plan: Plan) -> Iterator[tuple[Wins, Wins]]:
    """Yield all pairs of neighbours of which rho holds: of one comparison, or of a user."""
    most = plan.max_comparisons_per_item
    if most > 1:
        tables = [w for w in graph.outcomes() if _exact(graph, w, plan.restart)[1] <= plan.rho]
        for wins, other in itertools.permutations(tables, 2):
            if np.abs(np.array(wins) - np.array(other)).sum(axis=1).max() <= most:
                yield wins, other
        return
    for wins in graph.outcomes():
        if _exact(graph, wins, plan.restart)[1] <= plan.rho:
            for other in ranking.neighbours(wins):
                if _exact(graph, other, plan.restart)[1] <= plan.rho:
                    yield wins, other


def _verdict(share: float, where: Any, attains: float, what: str, pairs: int) -> Verdict:
    good = pairs > 0 and attains <= share <= 1 + 1e-9
    return Verdict(good, f"{what} {share:.2%} of {pairs} pairs: {where}")


@dataclass(frozen=True)
class ScoresCheck:
    """All noisy scores at once: the integers before noise, from the mechanism's own code.

    Discrete Laplace noise of scale b on integers g and g' gives a loss of |g - g'| / b in L1 at
    most, and attains it: nothing is approximated.
    """

    label: str
    graph: Graph
    plan: Plan
    attains: float = 0.0
    scale: float = 0.0  #: a wrong one, in units of the distribution
    quick: bool = True

    def run(self) -> Verdict:
        """Compare every table with every neighbour."""
        scale = self.scale * self.plan.grid or self.plan.scale
        integers: dict[Wins, Any] = {}
        worst, where, pairs = 0.0, None, 0
        for flip in _flips(self.graph, self.plan):
            for wins in flip:
                if wins not in integers:
                    table = checked_table(np.array(wins), **self.graph.stated)
                    scores = private._scores(table, self.plan, check_rho=True)
                    integers[wins] = np.rint(scores * self.plan.grid).astype(np.int64)
            loss = float(np.abs(integers[flip[0]] - integers[flip[1]]).sum()) / scale
            pairs += 1
            if loss / EPSILON > worst:
                worst, where = loss / EPSILON, flip
        return _verdict(worst, where, self.attains, "loss, as a part of epsilon,", pairs)


@dataclass(frozen=True)
class PicksCheck:
    """The law of what is picked, by quadrature, on exact distributions."""

    label: str
    graph: Graph
    plan: Plan
    ordered: bool = True
    attains: float = 0.0
    scale: float = 0.0  #: a wrong one, in units of the distribution
    quick: bool = True

    def run(self) -> Verdict:
        """Compare every table with every neighbour, outcome by outcome."""
        scale = self.scale or _noise(self.plan)
        law = functools.cache(
            partial(ranking.law, k=self.plan.k, scale=scale, ordered=self.ordered)
        )
        worst, where, pairs = 0.0, None, 0
        for flip in _flips(self.graph, self.plan):
            p, q = (law(tuple(_exact(self.graph, w, self.plan.restart)[0])) for w in flip)
            loss = max(math.log(p[outcome] / q[outcome]) for outcome in p)
            pairs += 1
            if loss / EPSILON > worst:
                worst, where = loss / EPSILON, flip
        return _verdict(worst, where, self.attains, "loss, as a part of epsilon,", pairs)


@dataclass(frozen=True)
class SetCheck:
    """The pure form by its proof: a score outside rises by half of 1, one inside falls by as much.

    All others inside stand far above. An exact law of sets, by quadrature.
    """

    label: str
    k: int
    factor: float = 1.0  #: a wrong share of the noise
    attains: float = 0.0
    quick: bool = True

    def run(self) -> Verdict:
        """Compare the law of every set before and after."""
        scale = self.factor / EPSILON
        worst, where = 0.0, 0.0
        gaps = (-12.0, 0.0, 12.0, 150.0)
        for gap in gaps:
            scores = [*(300.0,) * (self.k - 1), 0.0, gap, -1.0]
            moved = [*scores[: self.k - 1], -0.5, gap + 0.5, -1.0]
            before, after = (
                set_law(x, k=self.k, scale=scale, noise="laplace") for x in (scores, moved)
            )
            loss = max(abs(math.log(before[s] / after[s])) for s in before)
            if loss / EPSILON > worst:
                worst, where = loss / EPSILON, gap
        return _verdict(worst, where, self.attains, "loss, as a part of epsilon,", len(gaps))


@dataclass(frozen=True)
class DistanceCheck:
    """How far one flip moves the distribution, in exact fractions, against the bound.

    The bound is taken at the coefficient of the first table of a pair, whatever that of the other.
    """

    label: str
    graph: Graph
    restart: float = 0.0
    attains: float = 0.0
    factor: float = 1.0  #: of a wrong bound
    largest: bool = False  #: the largest entry, not the sum
    quick: bool = True

    def run(self) -> Verdict:
        """Look at every table and neighbour that have a distribution."""
        worst, where, pairs = 0.0, None, 0
        for wins in self.graph.outcomes():
            pi, tau = _exact(self.graph, wins, self.restart)
            if tau == 1 and not self.restart:
                continue
            bound = self.factor * ranking.sensitivity(
                rho=tau, restart=self.restart, **self.graph.stated
            )
            for other in ranking.neighbours(wins):
                far, _ = _exact(self.graph, other, self.restart)
                if far is None:
                    continue
                moves = [abs(a - b) for a, b in zip(pi, far, strict=True)]
                share = float((max if self.largest else sum)(moves) / bound)
                pairs += 1
                if share > worst:
                    worst, where = share, (wins, other)
        return _verdict(worst, where, self.attains, "distance, as a part of the bound,", pairs)


@dataclass(frozen=True)
class WorstCheck:
    """The largest coefficient of all outcomes of a graph, against `worst_case_rho`."""

    label: str
    graph: Graph
    quick: bool = True

    def run(self) -> Verdict:
        """Enumerate."""
        taus = [_exact(self.graph, wins, 0.0)[1] for wins in self.graph.outcomes()]
        table = np.zeros((self.graph.n, self.graph.n), np.int64)
        for i, j in self.graph.pairs:
            table[i, j] = 1
        claimed = private.worst_case_rho(table, degree=self.graph.degree)
        good = 0 <= claimed - max(taus) <= 2.0**-52
        return Verdict(good, f"largest of {len(taus)} is {float(max(taus)):.6g} of {claimed:.6g}")


def _noise(plan: Plan) -> float:
    """Return the scale of the noise in units of the distribution."""
    return plan.scale / plan.grid if plan.method == "laplace" else plan.scale


def _wrong(label: str, graph: Graph, scale: float, **options: Any) -> Iterator[Any]:
    plan = _plan(graph, **options)
    yield ScoresCheck(f"{label}: all scores", graph, plan, scale=scale)
    yield PicksCheck(f"{label}: the picks", graph, plan, scale=scale)


# ---- draws and tapes

DRAWS = 10_000  # sees a scale that is off by 20%; a call takes a millisecond
DRAWN = ((0, 30, 30, 32), (20, 0, 28, 27), (20, 22, 0, 26), (18, 23, 24, 0))


def _drawn(factor: float = 1.0) -> Callable[[Any], Any]:
    graph = _complete(4, 50)
    plan = _plan(graph, epsilon=0.5)
    pi = ranking.stationary_distribution(ranking.transition_matrix(DRAWN, **graph.stated))
    assert pi is not None
    return lambda _: ranking.law(pi, k=2, scale=factor * _noise(plan))


def _public(*, epsilon: float = 0.5) -> Public:
    call = partial(rank_pairs, k=2, epsilon=epsilon, **_complete(4, 50).stated)
    return Public(call, data=lambda _: np.array(DRAWN), covers=at_least(epsilon))


def _case(seed: int) -> tuple[Graph, Wins, dict[str, Any]]:
    rng = np.random.default_rng([seed, 3])
    n, times = int(rng.integers(2, 9)), int(rng.choice([1, 7, 1000]))
    graph = _complete(n, times)
    table = np.zeros((n, n), np.int64)
    for i, j in graph.pairs:
        table[i, j] = rng.integers(0, times, endpoint=True)
        table[j, i] = times - table[i, j]
    options = {
        "k": int(rng.integers(1, n, endpoint=True)),
        "epsilon": float(rng.choice([0.1, 2.0])),
    }
    options["restart"] = float(rng.choice([0.0, 0.25]))
    return graph, tuple(map(tuple, table.tolist())), options


def _kernel(seed: int, rng: TapeRng, *, factor: float = 1.0) -> Any:
    graph, wins, options = _case(seed)
    options["epsilon"] *= factor
    release = rank_pairs(np.array(wins), rng=rng, **options, **graph.stated)
    assert release.counts is not None
    return tuple(zip(release.items, release.counts.tolist(), strict=True))


def _twin(seed: int) -> Any:
    graph, wins, options = _case(seed)
    plan = _plan(graph, **options)
    matrix = ranking.transition_matrix(wins, restart=plan.restart, **graph.stated)
    pi = ranking.stationary_distribution(matrix)
    assert pi is not None
    return ranking.sample(tapes.read(seed), pi, k=plan.k, grid=plan.grid, scale=plan.scale)


def _sampler(
    label: str, sampler: Callable[..., Iterable[Any]], *, sees: bool = False
) -> SamplerCheck:
    wrong = _drawn(0.8) if sees else None
    return SamplerCheck(label, _drawn(), sampler, (), draws=DRAWS, seed=5, sees=wrong)


RESTART = 0.25
# What is enough for FOUR: 2 / (d L (1 - rho)) with d = 3, L = 1, rho = 2 / 3.
RIGHT = 2.0

ENTRY = Entry(
    "ranking",
    checks=(
        *(
            DistanceCheck(f"one flip moves pi in L1, {g.name}", g, attains=attains)
            for g, attains in ((TWO, 1.0), (THREE, 1.0), (FOUR, 1.0), (PATH, 1.0), (RING, 0.66))
        ),
        DistanceCheck(f"the same with restarts, {RING.name}", RING, RESTART, attains=0.5),
        DistanceCheck(f"the largest entry of pi moves half of it, {FOUR.name}", FOUR, 0.0, 1.0, 0.5,
                      largest=True),
        *(WorstCheck(f"the largest rho of all outcomes, {g.name}", g)
          for g in (TWO, THREE, FOUR, PATH, RING)),
        *(
            ScoresCheck(f"all noisy scores, {g.name}", g, _plan(g), 1 - SLACK)
            for g in (TWO, THREE, FOUR)
        ),
        ScoresCheck(f"all noisy scores, rho = 0.75 stated, {RING.name}", RING,
                    _plan(RING, rho=0.75), 0.33),
        ScoresCheck(f"all noisy scores, restarts, {RING.name}", RING,
                    _plan(RING, restart=RESTART), 0.27),
        *(
            ScoresCheck(f"a user decides {most} of each item's, {g.name}", g,
                        _plan(g, max_comparisons_per_item=most, **more), attains)
            for g, most, more, attains in (
                (THREE, 2, {}, 1 - SLACK), (FOUR, 2, {}, 0.45), (FOUR, 3, {}, 0.3),
                (RING, 2, {"restart": RESTART}, 0.2),
            )
        ),
        *(
            PicksCheck(f"k={k} in order, {FOUR.name}", FOUR, _plan(FOUR, k=k), attains=attains)
            for k, attains in ((1, 0.57), (2, 0.74), (3, 0.85))
        ),
        PicksCheck(f"k=1, {TWO.name}", TWO, _plan(TWO), attains=0.66),
        PicksCheck(f"k=2 in order, restarts, {RING.name}", RING, _plan(RING, k=2, restart=RESTART)),
        *(
            PicksCheck(f"k={k}, {whose} pure form: a set, {graph.name}", graph,
                       _plan(graph, k=k, method="pure", bound=bound), ordered=False,
                       attains=attains)
            for whose, bound, graph, k, attains in (
                ("the paper's", "paper", FOUR, 1, 0.0), ("the paper's", "paper", FOUR, 2, 0.0),
                ("our", "exact", TWO, 1, 0.66), ("our", "exact", FOUR, 2, 0.57),
            )
        ),
        *(SetCheck(f"a set, where one score rises and one falls, k={k}", k, attains=0.99)
          for k in (1, 2, 3)),
        _sampler("rank_pairs(), k=2 of 4", _public(), sees=True),
        tapes.check("rank_pairs() and its twin on the same tapes", _kernel, _twin, 200),
    ),
    broken=(
        *_wrong("s without the 2", FOUR, RIGHT / 2),
        *_wrong("s without 1 - rho", FOUR, RIGHT / 3),
        *_wrong("s without the 2, two items", TWO, 1 / 3),
        *_wrong("s over L once more", THREE, 2 / (2 * 4 * 0.5)),
        ScoresCheck("a user decides 2 of each item's: noise for one comparison", THREE,
                    _plan(THREE, max_comparisons_per_item=2), scale=1.0),
        ScoresCheck("a user decides 2 of each item's: noise 10% too small", THREE,
                    _plan(THREE, max_comparisons_per_item=2), scale=1.8),
        ScoresCheck("noise 1% too small: all scores", FOUR, _plan(FOUR), scale=RIGHT * 0.99),
        *_wrong("restarts that shrink rho but not enough", RING, 0.1, restart=RESTART),
        *(SetCheck(f"k={k}, noise of a set 2% too small", k, factor=0.98) for k in (1, 2, 3)),
        PicksCheck("k=1, half of our pure noise", FOUR, _plan(FOUR, method="pure"), ordered=False,
                   scale=0.5 * RIGHT),
        DistanceCheck("half of the bound", FOUR, factor=0.5),
        DistanceCheck("the bound of the largest entry, 5% too small", FOUR, factor=0.475,
                      largest=True),
        DistanceCheck("restarts: half of the bound", RING, RESTART, factor=0.5),
        _sampler("noise 20% too small, drawn", _public(epsilon=0.5 / 0.8)),
        tapes.check("noise 1% too small, same tapes", partial(_kernel, factor=1.01), _twin, 50),
    ),
)  # fmt: skip
