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
    metrics.accuracy_alpha,
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
            worst = max((COUNTS[best[-1]] - COUNTS[i] for i in picks), default=0)
            assert metrics.accuracy_alpha(picks, COUNTS, k) == max(0, worst)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_true_top_k_is_perfect_and_nothing_is_worst(measure):
    perfect = 0 if measure.__name__ in ("l_inf_error", "l_1_error", "accuracy_alpha") else 1
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


@pytest.mark.parametrize("measure", MEASURES)
def test_a_prepared_histogram_is_looked_up(measure):
    counts = np.random.default_rng(2).integers(0, 300, 9000)
    labels = [f"item {i}" for i in range(9000)]
    picks = [5, 8000, 17, *np.argsort(-counts, kind="stable")[:20].tolist()]
    expected = measure(picks, counts, 30)
    named = [labels[i] for i in picks]
    assert measure(picks, dp.Histogram(counts), 30) == expected
    h = dp.Histogram(counts, labels)
    assert measure(named, h, 30) == measure(set(named), h, 30) == expected
    release = dp.oneshot(h, k=23, epsilon=1.0, rng=dp.SeededRng(1))
    assert measure(release, h, 30) == measure(release, counts, 30)
    rows = dp.Histogram.truncated([9, 7, 7], ["a", "b", "c"], next_count=4, k_bar=3)
    assert measure(["a", "c"], rows, 2) == measure([0, 2], [9, 7, 7, 4], 2)
    cut = dp.Histogram(counts).truncate(30)
    assert measure(picks[3:], cut, 25) == measure(picks[3:], counts, 25)
    for wrong, what in (([9000], "indices into"), ([int(counts.argmin())], "histogram holds")):
        with pytest.raises(ValueError, match=f"picks must be .*{what}"):
            measure(wrong, cut, 25)
    with pytest.raises(ValueError, match="picks must be among the labels"):
        measure(["item"], h, 2)
    unknown = dp.limited_domain(rows, k=1, epsilon=9, delta=1e-3)
    with pytest.raises(TypeError, match="the counts have no labels"):
        measure(unknown, dp.Histogram(counts), 3)


def test_sums_past_int64_do_not_wrap():
    counts = np.array([2**62, 2**62 - 1, 2**62 - 5, 1])
    assert metrics.score_ratio([0, 1, 2], counts, 3) == 1.0
    assert metrics.score_ratio([0, 3], counts, 3) == pytest.approx(1 / 3)
    assert metrics.score_ratio([0, 1], dp.Histogram(counts), 3) == pytest.approx(2 / 3)
    assert metrics.l_1_error([3], counts, 3) == float(3 * 2**62 - 7)
    big = np.array([2**64 - 1, 2**63, 3], np.uint64)
    assert metrics.score_ratio([2, 1], big, 2) == (2**63 + 3) / (2**64 - 1 + 2**63)
    assert metrics.l_inf_error([2], [2**62, -(2**62), -(2**62)], 1) == 2.0**63
