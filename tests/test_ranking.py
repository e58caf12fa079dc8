"""rank_pairs: tables, statements, accuracy. Its privacy is checked by test_verify.py."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

import dptopk as dp
from dptopk import SeededRng, _core, ranking
from dptopk.ranking import chain, private
from dptopk.reference import ranking as reference
from dptopk.verification import ranking as entry

# All pairs of four items, L = 10: 0 is the best, 3 the worst.
WINS = np.array([[0, 7, 8, 9], [3, 0, 7, 8], [2, 3, 0, 7], [1, 2, 3, 0]])
STATED = {"degree": 3, "comparisons_per_pair": 10}
# A ring of four items.
RING = np.array([[0, 7, 0, 9], [3, 0, 7, 0], [0, 3, 0, 7], [1, 0, 3, 0]])


def rank(wins=WINS, **changes):
    return dp.rank_pairs(wins, **{"k": 2, "epsilon": 1.0, **STATED, **changes})


def random_table(seed):
    """A connected table of 2 to 12 items with wins of zero too, with its degree and L."""
    rng = np.random.default_rng(seed)
    n, times = int(rng.integers(2, 13)), int(rng.choice([1, 2, 50]))
    table = np.zeros((n, n), np.int64)
    density = rng.choice([0.2, 0.6, 1.0])
    for i, j in itertools.combinations(range(n), 2):
        if j == i + 1 or rng.random() < density:
            table[i, j] = rng.binomial(times, rng.choice([0.0, 0.3, 0.5, 1.0]))
            table[j, i] = times - table[i, j]
    most = int(((table + table.T) > 0).sum(axis=1).max())
    return table, {"degree": most + int(rng.integers(0, 3)), "comparisons_per_pair": times}


# ---- the parts that are not private


def test_the_matrix_leads_from_losers_to_winners():
    p = ranking.transition_matrix(WINS, **STATED).toarray()
    assert p[3, 0] == pytest.approx(9 / 30)
    assert p[0, 3] == pytest.approx(1 / 30)
    assert p.sum(axis=1) == pytest.approx(np.ones(4))
    pi = ranking.stationary_distribution(p)
    assert np.argsort(-pi).tolist() == [0, 1, 2, 3]


@pytest.mark.slow
def test_hundreds_of_graphs_against_dense_eigenvectors_and_all_pairs_of_rows(wide):
    unique, graphs = 0, 400 if wide else 80
    for seed in range(graphs):
        table, stated = random_table(seed)
        exact = reference.transition_matrix(table.tolist(), **stated)
        p = ranking.transition_matrix(sparse.csr_array(table), **stated)
        assert p.toarray() == pytest.approx(np.array(exact, float), abs=1e-15)
        tau = reference.ergodicity_coefficient(exact)
        for form in (p, p.toarray(), sparse.coo_matrix(p)):
            assert ranking.ergodicity_coefficient(form) == pytest.approx(float(tau), abs=1e-14)
        total = stated["degree"] * stated["comparisons_per_pair"]
        assert (
            int(chain.least_overlap(chain.walk(sparse.csr_array(table), total)))
            == (1 - tau) * total
        )
        pi = reference.stationary_distribution(exact)
        if pi is None:
            assert chain.closed_classes(p) > 1
            with pytest.raises(ValueError, match="more than one stationary"):
                ranking.stationary_distribution(p)
            continue
        unique += 1
        found = ranking.stationary_distribution(p, tolerance=1e-13)
        assert found.sum() == pytest.approx(1, abs=1e-14)
        if tau < 1:
            assert np.abs(found - np.array(pi, float)).sum() <= 2e-13 / float(1 - tau) + 1e-14
            assert np.abs(found - reference.eigenvector(exact)).max() < 1e-9
    assert graphs / 4 < unique < graphs


@pytest.mark.parametrize("steps", [1, 30])
def test_slow_walks_are_solved_directly(monkeypatch, steps):
    """Whatever the walk has reached; with restarts too."""
    monkeypatch.setattr(chain, "STEPS", steps)
    for seed in range(60):
        table, stated = random_table(seed)
        exact = reference.transition_matrix(table.tolist(), **stated)
        for restart in (0.0, 0.125):
            moved = reference.transition_matrix(table.tolist(), restart=restart, **stated)
            pi = reference.stationary_distribution(moved)
            if pi is not None:
                found = ranking.stationary_distribution(
                    np.array(exact, float), restart=restart, tolerance=1e-13
                )
                assert found == pytest.approx(np.array(pi, float), abs=1e-9)


def test_overlaps_by_blocks_and_by_distances(monkeypatch):
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.full(60, 0.05), size=60)
    p[rng.random(p.shape) < 0.5] = 0
    p /= p.sum(axis=1, keepdims=True)
    brute = max(np.abs(a - b).sum() for a, b in itertools.combinations(p, 2)) / 2
    for cells, dense in itertools.product((1, 60 * 7, 10**6), (1e-9, 1e9)):
        monkeypatch.setattr(chain, "CELLS", cells)
        monkeypatch.setattr(chain, "DENSE", dense)
        assert ranking.ergodicity_coefficient(p) == pytest.approx(brute, abs=1e-13)


def test_one_state_and_equal_rows():
    assert ranking.ergodicity_coefficient([[1.0]]) == 0
    assert ranking.stationary_distribution([[1.0]]).tolist() == [1]
    assert ranking.ergodicity_coefficient(np.full((5, 5), 0.2)) == 0
    assert ranking.ergodicity_coefficient(np.eye(3)) == 1


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        ([[0.5, 0.5]], ValueError, "must be a square matrix"),
        ([0.5, 0.5], ValueError, "must be a square matrix"),
        ([[1.0], [0.5, 0.5]], ValueError, "must be a square matrix"),
        ([[0.5, 0.4], [0.5, 0.5]], ValueError, "rows of transition must add up to 1"),
        ([[1.5, -0.5], [0.5, 0.5]], ValueError, "finite numbers >= 0"),
        ([[math.nan, 1], [0.5, 0.5]], ValueError, "finite numbers >= 0"),
        ([["a", "b"], ["c", "d"]], TypeError, "must be a matrix of floats"),
    ],
)
def test_bad_matrices(matrix, error, message):
    for function in (ranking.stationary_distribution, ranking.ergodicity_coefficient):
        with pytest.raises(error, match=message):
            function(matrix)


def test_a_tolerance_past_doubles_is_refused():
    p = np.random.default_rng(0).dirichlet(np.ones(30), size=30)
    with pytest.raises(ArithmeticError, match="tolerance was not reached"):
        ranking.stationary_distribution(p, tolerance=1e-300)


def test_too_large_for_the_coefficient(monkeypatch):
    monkeypatch.setattr(chain, "MOST_WORK", 5)
    with pytest.raises(ValueError, match=r"more than 2\*\*34 operations"):
        ranking.ergodicity_coefficient(np.full((9, 9), 1 / 9))
    with pytest.raises(ValueError, match="vouch for it by check_rho=False"):
        rank(rho=0.1)
    assert rank(rho=0.1, check_rho=False).parameters["rho_is"] == "vouched for"
    assert rank().parameters["rho_is"] == "the worst case"  # which needs no check


def test_the_model_is_the_model():
    """Shares of wins and of edges within six standard deviations."""
    rng = np.random.default_rng(4)
    strengths = np.array([5.0, 1.0, 2.0])
    wins = ranking.bradley_terry(
        strengths, edge_probability=1, comparisons_per_pair=100_000, rng=rng
    ).toarray()
    for i, j in itertools.permutations(range(3), 2):
        chance = strengths[i] / (strengths[i] + strengths[j])
        assert abs(wins[i, j] - 1e5 * chance) < 6 * math.sqrt(1e5 * chance * (1 - chance))
    some = ranking.bradley_terry(
        np.ones(300), edge_probability=0.1, comparisons_per_pair=3, rng=rng
    )
    assert set((some + some.T).data.tolist()) == {3}
    pairs = (some + some.T).nnz / 2
    assert abs(pairs - 4485) < 6 * math.sqrt(4485 * 0.9)
    pi = ranking.stationary_distribution(
        ranking.transition_matrix(wins, degree=2, comparisons_per_pair=100_000)
    )
    assert pi == pytest.approx(strengths / 8, abs=0.01)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"strengths": [1.0]}, ValueError, "at least 2 items"),
        ({"strengths": [1.0, 0.0]}, ValueError, "must be positive"),
        ({"edge_probability": 0}, ValueError, "edge_probability"),
        ({"edge_probability": 1.5}, ValueError, "edge_probability"),
        ({"comparisons_per_pair": 0}, ValueError, "comparisons_per_pair"),
        ({"rng": 7}, TypeError, r"must be a numpy\.random\.Generator"),
    ],
)
def test_bad_models(changes, error, message):
    options = {"strengths": [1.0, 2.0], "edge_probability": 0.5, "comparisons_per_pair": 3,
               "rng": np.random.default_rng(0), **changes}  # fmt: skip
    strengths = options.pop("strengths")
    with pytest.raises(error, match=message):
        ranking.bradley_terry(strengths, **options)


# ---- the release


def test_a_ranking_with_scores():
    wins = WINS * 10_000
    release = rank(wins, k=4, comparisons_per_pair=100_000, items=["ant", "bee", "cat", "dog"])
    assert release.labels == ("ant", "bee", "cat", "dog")
    assert release.indices.tolist() == [0, 1, 2, 3]
    assert release.ordered
    assert release.complete
    assert release.cost[:2] == (1.0, 0.0)
    assert "Laplace mechanism" in release.cost.theorem
    parameters = release.parameters
    assert parameters["rho"] >= Fraction(2, 3)
    assert parameters["rho_is"] == "the worst case"
    pi = ranking.stationary_distribution(
        ranking.transition_matrix(wins, degree=3, comparisons_per_pair=100_000)
    )
    scores = release.counts / parameters["grid"]
    # 60 scales: e^-60.
    assert np.abs(scores - pi).max() < 60 * parameters["scale"]
    low, high = release.intervals(0.99).T / parameters["grid"]
    assert (low < high).all()
    assert release.private
    with pytest.raises(ValueError, match="has counts already"):
        dp.noisy_counts(release, [1, 2, 3, 4], epsilon=1.0)


def test_scales_are_those_of_the_theorems():
    for n, times, epsilon in ((4, 10, 1.0), (4, 1000, 0.1), (30, 7, 3.0)):
        wins = np.triu(np.full((n, n), times), 1)
        stated = {"degree": n - 1, "comparisons_per_pair": times}
        for options in ({}, {"rho": 0.99}, {"restart": 0.25}, {"rho": 0.99, "restart": 0.25}):
            stays = 1 - Fraction(options.get("restart", 0.0))
            rho = Fraction(options["rho"]) if "rho" in options else 1 - Fraction(1, n - 1)
            s = 2 * stays / ((n - 1) * times * (1 - stays * rho))
            assert s == reference.sensitivity(
                rho=rho, restart=options.get("restart", 0.0), **stated
            )
            one = dp.rank_pairs(wins, k=1, epsilon=epsilon, **stated, **options)
            assert 1 <= Fraction(one.parameters["scale"]) / (s / Fraction(epsilon)) < 1.001
            two = dp.rank_pairs(wins, k=3, epsilon=epsilon, method="pure", **stated, **options)
            assert 1 <= Fraction(two.parameters["scale"]) / (s / Fraction(epsilon)) < 1.001
            assert not two.ordered
            assert two.counts is None
            assert two.cost.delta == 0
            printed = dp.rank_pairs(
                wins, k=3, epsilon=epsilon, method="pure", bound="paper", **stated, **options
            )
            scale = Fraction(printed.parameters["scale"])
            assert 1 <= scale / (6 * s / Fraction(epsilon)) < 1.001


def test_theorem_3_5():
    wins = np.triu(np.full((60, 60), 9), 1)
    stated = {"degree": 59, "comparisons_per_pair": 9, "method": "approximate", "bound": "paper"}
    release = dp.rank_pairs(wins, k=7, epsilon=0.2, delta=0.01, **stated)
    s = 2 / 9
    assert release.parameters["scale"] == pytest.approx(
        8 * s * math.sqrt(7 * math.log(60 / 0.01)) / 0.2, rel=1e-3
    )
    assert release.cost[:2] == (0.2, 0.01)
    assert "Theorem 3.5" in release.cost.theorem
    assert (np.diff(release.indices) > 0).all()
    for changes, message in (
        ({"epsilon": 0.21, "delta": 0.01}, r"needs epsilon <= 0\.2"),
        ({"epsilon": 0.2, "delta": 0.06}, r"needs delta in \(0, 0\.05\]"),
        ({"epsilon": 0.2}, r"needs delta in \(0, 0\.05\]"),
    ):
        with pytest.raises(ValueError, match=message):
            dp.rank_pairs(wins, k=7, **changes, **stated)


def test_our_approximate_noise_is_that_of_half_the_distance():
    """An item moves by half of what all move; at any epsilon and delta."""
    wins = np.triu(np.full((60, 60), 9), 1)
    stated = {"degree": 59, "comparisons_per_pair": 9, "method": "approximate"}
    for k, epsilon, delta in ((7, 0.2, 0.01), (1, 3.0, 1e-6), (60, 1.0, 0.1)):
        release = dp.rank_pairs(wins, k=k, epsilon=epsilon, delta=delta, **stated)
        half = dp.oneshot(
            np.zeros(60), k=k, epsilon=epsilon, delta=delta, noise="laplace",
            method="approximate", sensitivity=1 / 9,
        )  # fmt: skip
        assert release.parameters["scale"] == pytest.approx(half.parameters["scale"], rel=1e-4)
        assert release.parameters["scale"] >= half.parameters["scale"]
        assert release.cost[:2] == (epsilon, delta)
        assert "docs/proofs/ranking.md, 14 and 15" in release.cost.theorem


def test_laplace_noise_is_below_that_of_all_sets():
    for k in (1, 10, 50):
        options = {"complete": True, "k": k, "epsilon": 0.2, "delta": 0.05, "degree": 99,
                   "comparisons_per_pair": 10, "rho": None, "restart": 0.0}  # fmt: skip
        for bound, most in (("paper", 0.51), ("exact", 1.001)):
            ours, pure, approximate = (
                private.calibrate(100, method=m, bound=bound, **options) for m in private.METHODS
            )
            assert ours.scale / ours.grid < most * pure.scale
            assert ours.scale / ours.grid < most * approximate.scale


def test_no_score_and_no_interval_is_off_the_grid():
    """However large the noise: a score is a share of the whole."""
    for seed in range(20):
        release = rank(k=4, epsilon=0.001, rng=SeededRng(seed))
        grid = release.parameters["grid"]
        ends = release.intervals(0.9)
        assert np.abs(release.counts).max() > grid
        assert ((ends >= 0) & (ends <= grid)).all()
        assert (ends[:, 0] <= ends[:, 1]).all()


def test_all_inputs_are_one_table():
    expected = rank(rng=SeededRng(3))
    for wins in (WINS.tolist(), WINS.astype(np.uint8), WINS.astype(">i4"), sparse.csr_matrix(WINS),
                 sparse.coo_array(WINS), np.asfortranarray(WINS)):  # fmt: skip
        assert rank(wins, rng=SeededRng(3)) == expected
    rows, columns = np.nonzero(WINS)
    values = WINS[rows, columns].astype(np.uint8)
    values = np.concatenate(([3, 4], values[1:])).astype(np.uint8)  # the first of them in two parts
    places = (np.append(rows[0], rows), np.append(columns[0], columns))
    split = sparse.coo_array((values, places), shape=(4, 4))
    assert rank(split, rng=SeededRng(3)) == expected
    assert split.nnz == 13, "the caller's table is not touched"


@pytest.mark.parametrize("kind", ["dict", "list", "pandas", "polars", "arrow", "duckdb"])
def test_frames(kind):
    labels = ["dog", "ant", "cat", "bee"]
    pairs = [(labels[i], labels[j]) for i in range(4) for j in range(4) for _ in range(WINS[i, j])]
    columns = {"won": [a for a, _ in pairs], "lost": [b for _, b in pairs]}
    if kind == "dict":
        frame = columns
    elif kind == "list":
        frame = pairs
    elif kind == "pandas":
        frame = pytest.importorskip("pandas").DataFrame(columns)
    elif kind == "polars":
        frame = pytest.importorskip("polars").DataFrame(columns).lazy()
    else:
        frame = pytest.importorskip("pyarrow").table(columns)
        if kind == "duckdb":
            frame = pytest.importorskip("duckdb").from_arrow(frame)
    release = rank(frame, winner="won", loser="lost", items=labels, rng=SeededRng(3))
    assert release == rank(items=labels, rng=SeededRng(3))
    with pytest.raises(dp.SourceError, match="items that are not among all there are"):
        rank(frame, winner="won", loser="lost", items=labels[:3])
    with pytest.raises(TypeError, match="are an unknown domain"):
        rank(frame, winner="won", loser="lost")
    with pytest.raises(dp.StatementError, match="do not connect all items"):
        rank(frame, winner="won", loser="lost", items=[*labels, "eel"], restart=0.5)


def test_frames_with_nulls_and_self_comparisons():
    pandas = pytest.importorskip("pandas")
    for rows in ([("a", None)], [("a", "b"), (None, "b")]):
        for frame in (rows, pandas.DataFrame(rows, columns=["winner", "loser"])):
            with pytest.raises(dp.SourceError, match="holds nulls"):
                rank(frame, winner="winner", loser="loser", items=["a", "b"])
    with pytest.raises(dp.StatementError, match="of an item with itself"):
        rank([("a", "a")], winner="winner", loser="loser", items=["a", "b"])


# ---- statements


def changed(*changes):
    table = WINS.copy()
    for i, j, value in changes:
        table[i, j] = value
    return table


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"k": 0}, ValueError, "k must be an integer >= 1, got 0"),
        ({"k": 5}, ValueError, "k must be at most the number of items, 4; got 5"),
        ({"epsilon": 0}, ValueError, "epsilon must be a finite number > 0"),
        ({"epsilon": 1e-30}, ValueError, "epsilon is too small"),
        ({"delta": 1}, ValueError, r"delta must be in \[0, 1\)"),
        ({"rho": 1}, ValueError, r"rho must be in \[0, 1\), got 1"),
        ({"rho": 1.5}, ValueError, r"rho must be in \[0, 1\), got 1\.5"),
        ({"rho": -0.5}, ValueError, "rho must be a finite number > 0"),
        ({"rho": "1"}, TypeError, "rho must be a real number"),
        ({"rho": False}, TypeError, "rho must be a real number"),
        ({"rho": 0.1}, dp.StatementError, "rho = 0.1 does not hold of these comparisons$"),
        ({"rho": 0}, dp.StatementError, "rho = 0.0 does not hold of these comparisons$"),
        ({"restart": 1}, ValueError, r"restart must be in \[0, 1\)"),
        ({"bound": "best"}, ValueError, "bound must be one of exact, paper"),
        ({"bound": 1}, TypeError, "bound must be a string"),
        ({"method": "magic"}, ValueError, "method must be one of laplace, pure, approximate"),
        ({"check_rho": 1}, TypeError, "check_rho must be True or False"),
        ({"degree": 2.0}, TypeError, "degree must be an integer"),
        ({"degree": 2}, dp.StatementError, "degree = 2 does not hold: some item"),
        ({"degree": 2**50}, ValueError, r"degree times comparisons_per_pair must be at most"),
        ({"comparisons_per_pair": 9}, dp.StatementError, "comparisons_per_pair = 9 does not hold"),
        ({"wins": changed((0, 1, 6))}, dp.StatementError, "compared another number of times"),
        ({"wins": changed((1, 1, 1))}, dp.StatementError, "an item with itself"),
        ({"wins": changed((1, 0, -3))}, ValueError, "wins must be from 0 to"),
        ({"wins": np.array([[0, 10, 0, 0], [0, 0, 0, 0], [0, 0, 0, 10], [0, 0, 0, 0]]),
          "rho": 0.9}, dp.StatementError, "do not connect all items"),
        ({"wins": RING}, dp.StatementError, "without rho or restart every two items"),
        ({"wins": WINS.astype(float)}, TypeError, "wins must be a matrix of integers, got float"),
        ({"wins": WINS[:3]}, ValueError, "wins must be a square matrix"),
        ({"wins": [1, 2]}, ValueError, "wins must be a square matrix"),
        ({"wins": [[0]]}, ValueError, "at least 2 items, got 1"),
        ({"wins": [("a", "b")]}, TypeError, "name the columns winner and loser"),
        ({"winner": "w"}, TypeError, "give both winner and loser"),
        ({"items": ["a"]}, ValueError, "labels must be as many"),
        ({"rng": 7}, TypeError, "rng must be None"),
    ],
)  # fmt: skip
def test_bad_input(changes, error, message, monkeypatch):
    """Refused before a random word is drawn, each with its own message."""
    if "rng" not in changes:
        monkeypatch.setattr(_core, "discrete", None)
    with pytest.raises(error, match=message):
        rank(**changes)


def test_rho_is_checked_exactly():
    """At tau itself it holds; a double below it does not. Refused before anything is drawn."""
    tau = reference.ergodicity_coefficient(reference.transition_matrix(RING.tolist(), degree=2,
                                           comparisons_per_pair=10))  # fmt: skip
    assert tau < 1
    at = float(tau)
    if Fraction(at) < tau:
        at = math.nextafter(at, 1)
    options = {"degree": 2, "comparisons_per_pair": 10}
    assert rank(RING, rho=at, **options).parameters["rho_is"] == "checked"
    with pytest.raises(dp.StatementError, match="does not hold of these comparisons"):
        rank(RING, rho=math.nextafter(at, 0), **options)
    rounded = rank(RING, rho=Fraction(9, 10), **options).parameters["rho"]
    assert rounded >= Fraction(9, 10), "rounded up"


def test_two_undefeated_items():
    """No unique distribution: refused even if vouched for; not with restarts."""
    wins = np.array([[0, 10, 0, 10], [0, 0, 0, 0], [0, 10, 0, 10], [0, 0, 0, 0]])
    options = {"degree": 2, "comparisons_per_pair": 10}
    for check_rho in (True, False):
        with pytest.raises(dp.StatementError, match=r"rho = 0\.9 does not hold of these"):
            rank(wins, rho=0.9, check_rho=check_rho, **options)
    assert len(rank(wins, restart=0.1, **options)) == 2


def test_no_outcome_is_refused_where_rho_is_not_stated():
    """All pairs or restarts: whether an answer comes does not depend on the outcomes."""
    for graph, restart in ((entry.FOUR, 0.0), (entry.RING, 0.01), (entry.PATH, 0.5)):
        for wins in graph.outcomes():
            assert len(rank(np.array(wins), k=1, restart=restart, **graph.stated)) == 1


def test_worst_case_rho():
    assert ranking.worst_case_rho(WINS, degree=3) == math.nextafter(2 / 3, 1)
    assert Fraction(ranking.worst_case_rho(WINS, degree=49)) >= Fraction(48, 49)
    assert ranking.worst_case_rho(RING, degree=5) == 1.0
    with pytest.raises(dp.StatementError, match="degree = 2 does not hold"):
        ranking.worst_case_rho(WINS, degree=2)


def test_what_cannot_be_computed_is_not_released(monkeypatch):
    monkeypatch.setattr(_core, "discrete", None)
    monkeypatch.setattr(
        chain, "stationary", lambda p, *_: (np.full(p.shape[0], 1 / p.shape[0]), 0.1)
    )
    with pytest.raises(ArithmeticError, match="accuracy that the noise accounts for"):
        rank()


def test_the_error_of_the_distribution_is_below_what_is_accounted_for():
    """At the sizes of the issue: the certified step is met by far."""
    rng = np.random.default_rng(5)
    for n, p, times in ((2000, 0.02, 30), (40, 1.0, 10**9)):
        wins = ranking.bradley_terry(
            np.exp(rng.normal(size=n)), edge_probability=p, comparisons_per_pair=times, rng=rng
        )
        degree = int(np.diff((wins + wins.T).indptr).max())
        rounding, allowed = private.accuracy(n, degree, times)
        _, moved = chain.stationary(
            ranking.transition_matrix(wins, degree=degree, comparisons_per_pair=times),
            0.2, float(4 * rounding),
        )  # fmt: skip
        assert moved <= 4 * rounding <= allowed
        sensitivity = reference.sensitivity(
            degree=degree, comparisons_per_pair=times, rho=1.0, restart=0.2
        )
        plan = private.calibrate(
            n, complete=p == 1.0, k=1, epsilon=1.0, delta=0.0, degree=degree, rho=None,
            comparisons_per_pair=times, restart=0.2, method="pure",
        )  # fmt: skip
        assert plan.widened >= plan.sensitivity
        if times == 30:
            assert plan.widened < 1.001 * float(sensitivity)


def test_no_data_in_a_repr_or_message():
    release = rank(k=1)
    assert set(release.parameters) == {
        "k", "method", "degree", "comparisons_per_pair", "rho", "rho_is", "restart", "sensitivity",
        "n_items", "monotone", "grid", "scale", "max_comparisons_per_item",
        "bound",
    }  # fmt: skip


# ---- the command line


@pytest.fixture
def files(tmp_path):
    pytest.importorskip("duckdb")
    pytest.importorskip("rich")
    labels = ["ant", "bee", "cat", "[red]dog"]
    rows = [f"{labels[i]},{labels[j]}" for i in range(4) for j in range(4)
            for _ in range(100 * WINS[i, j])]  # fmt: skip
    (tmp_path / "c.csv").write_text("\n".join(["winner,loser", *rows]) + "\n")
    (tmp_path / "d.txt").write_text("\n".join(labels) + "\n")
    return tmp_path


@pytest.fixture
def command(files, capsys):
    from dptopk.cli import main

    def run(*changes):
        given = {"-k": "3", "--epsilon": "2", "--degree": "3", "--comparisons-per-pair": "1000"}
        flags = [c for c in changes if isinstance(c, str)]
        for change in changes:
            if isinstance(change, tuple):
                given[change[0]] = change[1]
        argv = ["rank", str(files / "c.csv"), "--domain", str(files / "d.txt"), *flags]
        code = main([*argv, *itertools.chain.from_iterable(given.items())])
        return (code, *capsys.readouterr())

    return run


def test_the_command_line(command):
    import json

    code, out, err = command("--json")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["items"] == ["ant", "bee", "cat"]
    assert answer["ordered"]
    assert answer["cost"]["epsilon"] == 2
    assert all(low < score < high for score, (low, high) in zip(
        answer["scores"], answer["intervals"], strict=True))  # fmt: skip
    code, out, err = command()
    assert (code, err) == (0, "")
    assert "per comparison" in out
    users = json.loads(command("--json", ("--max-comparisons-per-item", "3"))[1])
    assert users["parameters"]["max_comparisons_per_item"] == 3
    assert users["parameters"]["scale"] == pytest.approx(3 * answer["parameters"]["scale"], 1e-3)
    assert "per user" in command(("--max-comparisons-per-item", "3"))[1]
    printed = json.loads(
        command("--json", ("--method", "pure"), ("--epsilon", "50"), ("--bound", "paper"))[1]
    )
    assert printed["parameters"]["bound"] == "paper"
    code, out, _ = command("-q", ("-k", "4"))
    assert (code, out.split()) == (0, ["ant", "bee", "cat", "[red]dog"])
    code, out, _ = command("--json", ("--method", "pure"), ("--epsilon", "50"))
    assert not json.loads(out)["ordered"]
    assert "scores" not in json.loads(out)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--rho", "1"), "rho must be in [0, 1), got 1.0"),
        (("--rho", "0.1"), "rho = 0.1 does not hold of these comparisons"),
        (("--degree", "2"), "without rho or restart every two items"),
        (("--comparisons-per-pair", "999"), "comparisons_per_pair = 999 does not hold"),
        (("--winner", "loser"), "--winner and --loser must name two different columns"),
        (("--winner", "user"), "no column 'user'"),
        (("-k", "5"), "k must be at most the number of items"),
        (("--method", "approximate"), "method 'approximate' needs delta > 0"),
        (("--max-comparisons-per-item", "0"), "--max-comparisons-per-item must be an integer >= 1"),
        (("--max-comparisons-per-item", "9999"), "must be at most degree times"),
    ],
)
def test_bad_commands(command, change, message):
    code, out, err = command(change)
    assert (code, out) == (2, "")
    assert message in err
    assert "internal" not in err


def test_an_item_outside_of_the_domain(command, files):
    (files / "d.txt").write_text("ant\nbee\ncat\n")
    code, _, err = command(("--degree", "2"))
    assert code == 2
    assert "items that are not among all there are" in err
    assert "dog" not in err


# ---- users, and bounds that hold of all outcomes


def test_a_user_takes_the_noise_of_as_many_comparisons_of_an_item():
    wins = np.triu(np.full((9, 9), 7), 1)
    stated = {"k": 2, "epsilon": 0.2, "degree": 8, "comparisons_per_pair": 7}
    for method, delta in (("laplace", 0.0), ("pure", 0.0), ("approximate", 0.01)):
        one, five = (
            dp.rank_pairs(wins, **stated, method=method, delta=delta, max_comparisons_per_item=m)
            for m in (1, 5)
        )
        ratio = five.parameters["scale"] / one.parameters["scale"]
        assert ratio == pytest.approx(5, rel=1e-4)
        assert "M = 5 comparisons of any one item a user" in five.cost.theorem
        assert " M" not in one.cost.theorem
        assert five.parameters["max_comparisons_per_item"] == 5
    for wrong, error in ((0, ValueError), (57, ValueError), (2.0, TypeError)):
        with pytest.raises(error, match="max_comparisons_per_item must be"):
            dp.rank_pairs(wins, **stated, max_comparisons_per_item=wrong)


def test_a_rho_that_holds_of_all_outcomes_is_not_checked(monkeypatch):
    """Of a complete graph; a smaller one, and any of another graph, is."""
    checked = []
    least = chain.least_overlap
    monkeypatch.setattr(chain, "least_overlap", lambda steps: checked.append(1) or least(steps))
    wins = np.triu(np.full((5, 5), 4), 1)
    stated = {"k": 1, "epsilon": 1.0, "degree": 4, "comparisons_per_pair": 4}
    dp.rank_pairs(wins, **stated)
    dp.rank_pairs(wins, **stated, rho=0.8)
    assert not checked
    with pytest.raises(dp.StatementError, match=r"rho = 0\.7 does not hold"):
        dp.rank_pairs(wins, **stated, rho=0.7)
    assert len(checked) == 1
