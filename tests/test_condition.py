"""Condition numbers of a Markov chain: by hand, by other equations, and what they promise."""

import math

import numpy as np
import pytest

from dptopk import ranking
from dptopk.ranking import condition

FIRST = ("fundamental", "group_inverse", "ergodicity", "ergodicity_of_inverse")  # of the L1 norm


def two(a, b):
    """The chain of two states, and its numbers, by hand: A# = A / (a + b)^2."""
    s = a + b
    z = np.array([[a / s**2 + b / s, a / s - a / s**2], [b / s - b / s**2, b / s**2 + a / s]])
    numbers = (
        np.abs(z).sum(axis=1).max(),
        2 * max(a, b) / s**2,
        1 / (2 * s),
        max(a, b) / s**2,
        math.inf if s in (0, 2) else 1 / (1 - abs(1 - s)),
        1 / s,
        min(1 / x for x in (a, b) if x) / 2,
        1 / (2 * s),
    )
    return [[1 - a, a], [b, 1 - b]], numbers


def uniform(n):
    """Rows that are all the same: Z = I, A# = I - 1/n, n steps to any state."""
    numbers = (1, 2 - 2 / n, 1 / 2, 1 - 1 / n, 1, 1, n / 2, 1 / 2)
    return np.full((n, n), 1 / n), numbers


# One after the other: 1 or 2 steps to another state, 3 to come back; rows of A# are 1/3, 0, -1/3.
CYCLE = ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], (1, 2 / 3, 1 / 3, 1 / 3, math.inf, 2 / 3, 1, 1 / 3))


@pytest.mark.parametrize(
    ("chain", "numbers"),
    [two(0.1, 0.3), two(0.5, 0.5), two(1.0, 1.0), two(0.0, 0.25), two(0.9, 0.8), CYCLE,
     uniform(2), uniform(7)],
)  # fmt: skip
def test_by_hand(chain, numbers):
    found = ranking.condition_numbers(chain)
    assert found == pytest.approx(numbers, rel=1e-10)
    assert ranking.ConditionNumbers._fields[4] == "ergodicity"
    assert all(type(value) is float for value in found)
    wrong = [*numbers[:2], 1.01 * numbers[2], *numbers[3:]]
    assert found != pytest.approx(wrong, rel=1e-10)


def random_chain(rng, n):
    """Rows that are sparse or full; every state comes back to every other."""
    p = rng.dirichlet(np.full(n, rng.choice([0.1, 1.0])), size=n)
    for i in range(n):
        p[i, (i + 1) % n] += 0.05
    return p / p.sum(axis=1, keepdims=True)


def passage_times(p):
    """Expected steps from i to j, by their own equations: one step, and what is left."""
    n = len(p)
    times = np.empty((n, n))
    for j in range(n):
        others = [i for i in range(n) if i != j]
        times[others, j] = np.linalg.solve(
            np.eye(n - 1) - p[np.ix_(others, others)], np.ones(n - 1)
        )
        times[j, j] = 1 + p[j, others] @ times[others, j]
    return times


def test_by_their_own_equations():
    """The group inverse by A A# A = A and what else defines it; passage times by theirs."""
    rng = np.random.default_rng(1)
    for n in (2, 3, 5, 9):
        p = random_chain(rng, n)
        found = ranking.condition_numbers(p)
        a = np.eye(n) - p
        u, d, v = np.linalg.svd(a)
        pi = np.abs(u[:, -1]) / np.abs(u[:, -1]).sum()
        project = np.eye(n) - np.outer(np.ones(n), pi)
        group = project @ (v.T[:, :-1] / d[:-1]) @ u.T[:-1] @ project
        assert a @ group @ a == pytest.approx(a, abs=1e-10)
        assert group @ a == pytest.approx(a @ group, abs=1e-10)
        assert found.group_inverse == pytest.approx(np.abs(group).sum(axis=1).max(), rel=1e-8)
        assert found.group_inverse_entry == pytest.approx(np.abs(group).max(), rel=1e-8)
        gap = max(group[j, j] - group[:, j].min() for j in range(n)) / 2
        assert found.group_inverse_gap == pytest.approx(gap, rel=1e-8)
        assert found.ergodicity == pytest.approx(
            1 / (1 - ranking.ergodicity_coefficient(p)), rel=1e-9
        )
        tau = max(np.abs(x - y).sum() for x in group for y in group) / 2
        assert found.ergodicity_of_inverse == pytest.approx(tau, rel=1e-8)
        z = np.linalg.inv(a + pi)
        assert found.fundamental == pytest.approx(np.abs(z).sum(axis=1).max(), rel=1e-8)
        times = passage_times(p)
        apart = times - np.diag(np.diag(times))
        assert found.first_passage == pytest.approx(apart.max(axis=0).min() / 2, rel=1e-8)
        relative = (apart.max(axis=0) / np.diag(times)).max() / 2
        assert found.relative_first_passage == pytest.approx(relative, rel=1e-8)
        minors = [
            np.abs(np.linalg.inv(np.delete(np.delete(a, j, 0), j, 1))).sum(axis=1).max()
            for j in range(n)
        ]
        assert found.first_passage == pytest.approx(min(minors) / 2, rel=1e-8)


def test_the_order_that_cho_and_meyer_prove():
    rng = np.random.default_rng(2)
    for _ in range(200):
        found = ranking.condition_numbers(random_chain(rng, int(rng.integers(2, 10))))
        least, sixth = found.relative_first_passage, found.ergodicity_of_inverse
        more = 1 + 1e-9
        assert found.group_inverse_gap == pytest.approx(least, rel=1e-9)
        assert all(least <= number * more for number in found)
        assert found.group_inverse_entry <= found.group_inverse * more
        assert 2 * least <= sixth * more
        for number in (found.fundamental, found.group_inverse, found.ergodicity):
            assert sixth <= number * more


def test_what_they_promise_holds_and_half_of_it_does_not():
    """Each number bounds the move of the distribution; some chain comes near the least."""
    rng = np.random.default_rng(3)
    nearest = 0.0
    for _ in range(300):
        n = int(rng.integers(2, 6))
        p = random_chain(rng, n)
        q = p + rng.choice([1e-3, 0.1, 0.9]) * (random_chain(rng, n) - p)
        move = ranking.stationary_distribution(p) - ranking.stationary_distribution(q)
        far = np.abs(p - q).sum(axis=1).max()
        found = ranking.condition_numbers(p)._asdict()
        for name, number in found.items():
            moved = np.abs(move).sum() if name in FIRST else np.abs(move).max()
            assert moved <= number * far * (1 + 1e-9) + 1e-11, name
        nearest = max(nearest, np.abs(move).max() / (found["group_inverse_gap"] * far))
    assert nearest > 0.5, "half of the third is no bound"


def test_outcomes_of_comparisons_and_sparse_matrices():
    wins = ranking.bradley_terry(
        [1, 2, 4, 3], edge_probability=1, comparisons_per_pair=50, rng=np.random.default_rng(4)
    )
    p = ranking.transition_matrix(wins, degree=3, comparisons_per_pair=50)
    found = ranking.condition_numbers(p)
    assert found == pytest.approx(ranking.condition_numbers(p.toarray()))
    # What rank_pairs would make of it: never less than what the data themselves need.
    assert found.ergodicity <= 1 / (1 - ranking.worst_case_rho(wins, degree=3))


def test_a_state_that_is_left_for_good_counts_by_the_limit():
    """As of chains that come back with a chance that goes to 0."""
    chain = np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.0, 0.25, 0.75]])
    near = 1e-9 * np.array([[0, 0, 0], [1, -1, 0], [1, 0, -1]])
    assert ranking.condition_numbers(chain) == pytest.approx(
        ranking.condition_numbers(chain + near), rel=1e-6
    )
    assert ranking.condition_numbers([[1.0]]) == (1, 0, 0, 0, 1, 0, 0, 0)


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (np.eye(2), ValueError, "more than one stationary distribution"),
        ([[0.5, 0.5]], ValueError, "must be a square matrix"),
        ([[0.5, 0.4], [0.5, 0.5]], ValueError, "must add up to 1"),
        ([["a"]], TypeError, "must be a matrix of floats"),
        (None, TypeError, "must be a matrix of floats"),
        (np.full((9, 9), 1 / 9), ValueError, "at most 8 states, got 9"),
    ],
)
def test_bad_matrices(matrix, error, message, monkeypatch):
    monkeypatch.setattr(condition, "MOST_STATES", 8)
    with pytest.raises(error, match=message):
        ranking.condition_numbers(matrix)
