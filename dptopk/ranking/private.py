"""The k best items by pairwise comparisons: noise on a stationary distribution."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

import numpy as np

from dptopk._argtopk import argtopk
from dptopk._types import Bound
from dptopk._validate import boolean, integer
from dptopk.discrete import add_noise
from dptopk.domain import labels_at
from dptopk.errors import StatementError
from dptopk.mechanisms._select import head_of_scores, select
from dptopk.ranking import chain
from dptopk.ranking.plan import METHODS, Plan, accuracy, calibrate, largest_rho
from dptopk.ranking.table import checked_table, compared, is_complete, read_table
from dptopk.release import CountsNoise, Release
from dptopk.rng import Rng
from dptopk.rounding import up

__all__ = ["METHODS", "Plan", "accuracy", "calibrate", "rank_pairs", "worst_case_rho"]


def rank_pairs(
    wins: Any,
    *,
    k: int,
    epsilon: float,
    delta: float = 0.0,
    degree: int,
    comparisons_per_pair: int,
    rho: float | None = None,
    restart: float = 0.0,
    method: Literal["laplace", "pure", "approximate"] = "laplace",
    bound: Bound = "exact",
    check_rho: bool = True,
    max_comparisons_per_item: int = 1,
    winner: str | None = None,
    loser: str | None = None,
    items: Any = None,
    rng: Rng | None = None,
) -> Release:
    """Pick the k best items from the outcomes of pairwise comparisons.

    An item is as good as its share of the stationary distribution of a random
    walk from losers to winners (rank centrality).

    Parameters
    ----------
    wins : sparse or dense array of integers, shape (n, n); or a DataFrame
        wins[i, j] is how often i beat j. Or rows of winners and losers: whatever
        `Histogram.from_events` takes, with `winner`, `loser` and `items`.
    k : int
        How many items to pick, 1 <= k <= n.
    epsilon : float
        The total the release costs.
    delta : float, default 0
        The most delta it may cost. Only method "approximate" uses it.
    degree : int
        d, at least the most items that any item was compared with.
    comparisons_per_pair : int
        L, the same for every pair that was compared.
    rho : float, optional
        In [0, 1): a bound of `ergodicity_coefficient` of the transition matrix,
        stated without a look at the outcomes. It must hold of every
        table that might have come out, see Notes. By default `worst_case_rho`,
        which is below 1 if every two items were compared; else it takes `restart`.
    restart : float, default 0
        In [0, 1): the chance that a step of the walk goes to an item drawn
        uniformly. The larger, the less noise, and the more wins over whomever
        count alike. The guarantee then needs no `rho`.
    method : {"laplace", "pure", "approximate"}
        "laplace" adds noise to the whole distribution, never more than the others,
        which are the paper's one-shot selection of a set, without and with `delta`.
    bound : {"exact", "paper"}, default "exact"
        Whose constants "pure" and "approximate" take: those of our proof, or the larger
        ones of the paper's Theorems 2.1 and 3.5 (epsilon <= 0.2, delta <= 0.05).
    check_rho : bool, default True
        Whether to check `rho` against these comparisons. Past 2^34 operations (one
        for each item and two that were compared with it: 10,000 items of degree 1,000
        take 10^10) that is not done: then vouch for it by False.
        A `rho` that holds of all outcomes, as the default does, is never checked.
    max_comparisons_per_item : int, default 1
        How many comparisons of any one item one user decides at most. With it whole
        users are protected: so many times the noise.
    winner, loser : str, optional
        Columns of a frame.
    items : sequence, optional
        Labels; with a frame required: all items there are.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release
        By "laplace" in order, with noisy scores: ``counts`` over
        ``parameters["grid"]``. By the others a set without scores.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.
    StatementError
        If `degree`, `comparisons_per_pair` or `rho` does not hold, an item was
        compared with itself, or the comparisons do not connect all items.
    SourceError
        If a frame cannot be read, or has items that are not in `items`.
    ArithmeticError
        If the distribution cannot be computed to the accuracy accounted for.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: (cost.epsilon, cost.delta)-DP when ONE COMPARISON comes out the
    other way, or all of ONE USER who decides at most `max_comparisons_per_item` of each
    item's. Who was compared with whom, and how often, is public. By default it protects
    single comparisons, not people: who made m of them is protected by m epsilon.

    With `rho` given it holds among the tables of which `rho` holds. Others
    are refused, and that refusal is itself visible: where a neighbour of the
    data would be refused, one comparison decides between an answer and an error.
    So `rho` should hold of all outcomes. From the graph alone such a bound is
    known if every two items were compared, 1 - 1 / d; otherwise there is none, for
    two items never compared may both win everything. `restart` gives one.

    One comparison moves the distribution by s = 2 / (d L (1 - rho)) at most in L1 (with
    restarts see `cost.theorem`; proof: docs/proofs/ranking.md), so Laplace
    noise of scale s / epsilon makes all of it private: ranks and scores cost
    nothing more. Noise is added to integers on a grid; the grid and the error of the
    distribution, bounded beforehand, add to s. The scales of the others are

    ============= ============= ===================================
    method        exact         paper
    ============= ============= ===================================
    "pure"        s / epsilon   2 k s / epsilon
    "approximate" 2 s / e'      8 s sqrt(k ln(n / delta)) / epsilon
    ============= ============= ===================================

    where k bounded-range steps of e' compose to (epsilon - e', delta). With
    `max_comparisons_per_item` M, s is M times as large in all of them.

    Source: Qiao, Su and Zhang 2021, section 3.

    Examples
    --------
    >>> import dptopk as dp
    >>> wins = [[0, 9000, 9900], [1000, 0, 9500], [100, 500, 0]]
    >>> release = dp.rank_pairs(wins, k=2, epsilon=1.0, degree=2, comparisons_per_pair=10_000)
    >>> release.items, release.ordered, release.parameters["rho"]
    ((0, 1), True, 0.5)
    """
    check_rho = boolean("check_rho", check_rho)
    table, labels = read_table(wins, winner=winner, loser=loser, items=items)
    n_items = table.shape[0]
    degree = integer("degree", degree)
    comparisons = integer("comparisons_per_pair", comparisons_per_pair)
    table = checked_table(table, degree=degree, comparisons_per_pair=comparisons)
    plan = calibrate(
        n_items, complete=is_complete(table), k=k, epsilon=epsilon, delta=delta, degree=degree,
        comparisons_per_pair=comparisons, rho=rho, restart=restart, method=method,
        bound=bound, max_comparisons_per_item=max_comparisons_per_item,
    )  # fmt: skip
    always = is_complete(table) and plan.rho >= largest_rho(degree)  # whatever the outcomes
    scores = _scores(table, plan, check_rho=check_rho and not always)
    parameters = {
        "k": plan.k,
        "method": plan.method,
        "bound": plan.bound,
        "degree": plan.degree,
        "comparisons_per_pair": plan.comparisons_per_pair,
        "max_comparisons_per_item": plan.max_comparisons_per_item,
        "rho": plan.rho,
        "rho_is": _said_of_rho(given=rho is not None and not always, checked=check_rho),
        "restart": plan.restart,
        "sensitivity": plan.sensitivity,
        "n_items": n_items,
        "monotone": False,
    }
    if plan.method != "laplace":
        return _set_of(scores, plan, labels, parameters, rng)
    noisy, private = add_noise(
        np.rint(scores * plan.grid).astype(np.int64), "laplace", plan.scale, rng
    )
    picks = argtopk(noisy, plan.k)
    return Release(
        indices=picks,
        labels=labels_at(labels, picks),
        counts=noisy[picks],
        # Of as many noises the largest; and no score is above 1.
        counts_noise=CountsNoise("laplace", plan.scale, among=n_items, most=plan.grid),
        ordered=True,
        complete=True,
        cost=plan.cost,
        mechanism="rank_pairs",
        private=private,
        parameters={**parameters, "grid": plan.grid, "scale": plan.scale / plan.grid},
    )


def worst_case_rho(wins: Any, *, degree: int) -> float:
    """Return the largest ergodicity coefficient that any outcomes can have.

    Parameters
    ----------
    wins : sparse or dense array of integers, shape (n, n)
        Only who was compared with whom is looked at: what is not 0, either way.
    degree : int
        At least the most items that any item was compared with.

    Returns
    -------
    float
        1 - 1 / degree (rounded up) if every two items were compared, otherwise 1.

    Raises
    ------
    TypeError, ValueError, StatementError
        If `wins` is no such table, or `degree` is too small.

    Notes
    -----
    Two items never compared with each other that win all their comparisons have
    nothing in common: each stays where it is. Two that were compared have at
    least the outcomes of their own comparisons in common, 1 / degree; and no
    more, if both beat all others.

    Examples
    --------
    >>> from dptopk.ranking import worst_case_rho
    >>> worst_case_rho([[0, 1, 4], [3, 0, 2], [0, 2, 0]], degree=2)
    0.5
    """
    degree = integer("degree", degree)
    table, _ = read_table(wins, winner=None, loser=None, items=None)
    table.setdiag(0)
    table.eliminate_zeros()
    graph = compared(table)
    if int(np.diff(graph.indptr).max()) > degree:
        raise StatementError(
            f"degree = {degree} does not hold: some item was compared with more others"
        )
    return up(largest_rho(degree)) if is_complete(table) else 1.0


def _said_of_rho(*, given: bool, checked: bool) -> str:
    """Say why rho holds; one that holds of all outcomes is not the caller's to give."""
    if not given:
        return "the worst case"
    return "checked" if checked else "vouched for"


def _scores(table: Any, plan: Plan, *, check_rho: bool) -> np.ndarray:
    """Return the stationary distribution of a table of which rho holds."""
    total = plan.degree * plan.comparisons_per_pair
    steps = chain.walk(table, total)
    refused = StatementError(f"rho = {plan.rho} does not hold of these comparisons")
    if plan.rho < 1.0 and check_rho:
        graph = compared(table)
        graph.setdiag(1)
        if chain.overlap_work(graph) > chain.MOST_WORK:
            raise ValueError(
                "to check rho on this graph takes more than 2**34 operations: vouch for it by "
                "check_rho=False"
            )
        if int(chain.least_overlap(steps)) < (1 - Fraction(plan.rho)) * total:
            raise refused
    elif not plan.restart and chain.closed_classes(steps) > 1:
        raise refused
    # As near as doubles come; what the noise accounts for is less, and is what counts.
    rounding, _ = accuracy(table.shape[0], plan.degree, plan.comparisons_per_pair)
    scores, moved = chain.stationary(steps / float(total), plan.restart, float(4 * rounding))
    if not moved <= plan.tolerance:
        raise ArithmeticError(
            "the stationary distribution cannot be computed to the accuracy that the noise "
            "accounts for"
        )
    return scores


def _set_of(
    scores: np.ndarray, plan: Plan, labels: Any, parameters: dict[str, Any], rng: Any
) -> Release:
    """Pick a set by noise on every score once, which is not shown."""
    head = head_of_scores(scores, k=plan.k, scale=plan.scale)
    picks, private = select(head, k=plan.k, scale=plan.scale, noise="laplace", rng=rng)
    picks = np.sort(picks)
    return Release(
        indices=picks,
        labels=labels_at(labels, picks),
        ordered=False,
        complete=True,
        cost=plan.cost,
        mechanism="rank_pairs",
        private=private,
        parameters={**parameters, "scale": plan.scale},
    )
