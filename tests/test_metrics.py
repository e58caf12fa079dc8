"""metrics: each measure against its definition in the paper, on lists that stopped early too."""

import itertools

import numpy as np
import pytest

import dptopk as dp
from dptopk import metrics

COUNTS = [5, 9, 1, 7, 7, 0]
TOP = {1: [1], 2: [1, 3], 3: [1, 3, 4], 4: [1, 3, 4, 0]}  # ties by index
MEASURES = [
    metrics.true_top_k_proportion,
    metrics.f1_score,
    metrics.score_ratio,
    metrics.l_inf_error,
    metrics.l_1_error,
]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_measures_are_what_the_papers_say(k):
    """Every set of up to k items, from sums and set operations written out."""
    best = TOP[k]
    for size in range(k + 1):
        for picks in itertools.combinations(range(6), size):
            hits = len(set(picks) & set(best))
            assert metrics.number_returned(picks) == size
            assert metrics.true_top_k_proportion(picks, COUNTS, k) == hits / k
            missed, wrong = len(set(best) - set(picks)), len(set(picks) - set(best))
            assert metrics.f1_score(picks, COUNTS, k) == 2 * hits / (2 * hits + wrong + missed)
            total = sum(COUNTS[i] for i in best)
            ratio = sum(COUNTS[i] for i in picks) / total
            assert metrics.score_ratio(picks, COUNTS, k) == pytest.approx(ratio)
            came = sorted((COUNTS[i] for i in picks), reverse=True) + [0] * (k - size)
            gaps = [COUNTS[i] - c for i, c in zip(best, came, strict=True)]
            assert metrics.l_inf_error(picks, COUNTS, k) == max(gaps)
            assert metrics.l_1_error(picks, COUNTS, k) == sum(gaps)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_true_top_k_is_perfect_and_nothing_is_worst(measure):
    perfect = 0 if "error" in measure.__name__ else 1
    for k, best in TOP.items():
        assert measure(best, COUNTS, k) == measure(best[::-1], COUNTS, k) == perfect
        assert measure(set(best), np.array(COUNTS), k) == perfect
    assert measure([], COUNTS, 2) == {"l_inf_error": 9, "l_1_error": 16}.get(measure.__name__, 0)


@pytest.mark.parametrize("measure", MEASURES)
def test_labels_and_releases(measure):
    labels = ["a", "b", "c", "d", "e", "f"]
    by_label = dict(zip(labels, COUNTS, strict=True))
    expected = measure([1, 0], COUNTS, 2)
    assert measure(["b", "a"], by_label, 2) == expected
    known = dp.peel(dp.Histogram(COUNTS, labels), k=2, epsilon=1, rng=dp.SeededRng(3))
    assert measure(known, COUNTS, 2) == measure(known, by_label, 2)
    rows = dp.Histogram.truncated([90, 50], ["b", "a"], next_count=1, k_bar=2)
    unknown = dp.limited_domain(rows, k=2, epsilon=9, delta=1e-3, rng=dp.SeededRng(3))
    assert set(unknown.labels) == {"a", "b"}
    assert measure(unknown, by_label, 2) == expected
    with pytest.raises(TypeError, match="the release has no indices"):
        measure(unknown, COUNTS, 2)
    with pytest.raises(TypeError, match="the release has no labels"):
        measure(dp.peel(COUNTS, k=2, epsilon=1), by_label, 2)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("picks", "counts", "k", "error", "message"),
    [
        ([1, 1], COUNTS, 2, ValueError, "picks must not hold an item twice"),
        ([6], COUNTS, 2, ValueError, "picks must be indices into the counts"),
        ([-1], COUNTS, 2, ValueError, "an item of picks must be an integer >= 0"),
        ([1.0], COUNTS, 2, TypeError, "an item of picks must be an integer"),
        (["x"], {"a": 1}, 1, ValueError, "picks must be among the labels"),
        ([1, 2, 3], COUNTS, 2, ValueError, "k must be at least the number of picks"),
        ([1], COUNTS, 7, ValueError, "k must be at least the number of picks"),
        ([1], COUNTS, 1.0, TypeError, "k must be an integer, got float"),
        ("ab", {"a": 1, "b": 2}, 2, TypeError, "picks must be a Release, a sequence or a set"),
        (3, COUNTS, 2, TypeError, "picks must be a Release, a sequence or a set"),
        ([0], [["a"]], 1, TypeError, "counts must be numbers in one dimension"),
    ],
)
def test_bad_input(measure, picks, counts, k, error, message):
    with pytest.raises(error, match=message):
        measure(picks, counts, k)


def test_no_scores_at_all_are_fully_returned():
    assert metrics.score_ratio([], [0, 0], 1) == 1.0
