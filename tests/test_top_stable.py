"""top_stable: threshold, places, what becomes of a large set. Its law is in test_verify.py."""

import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import dptopk as dp
from dptopk.accounting.stability import stability_threshold
from dptopk.mechanisms.top_stable import MISS, balance, calibrated, calibrated_range

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


# ---- the threshold


def exact_tail(height, query_scale, threshold_scale):
    """P(X - Y > height) of the closed form, in 60 digits."""
    a, b = 1 / mpmath.mpf(query_scale), 1 / mpmath.mpf(threshold_scale)
    if a == b:
        return (2 + a * height) * mpmath.exp(-a * height) / 4
    far, near = mpmath.exp(-a * height), mpmath.exp(-b * height)
    return (b * b * far - a * a * near) / (2 * (b * b - a * a))


def paper_tail(height, query_scale, threshold_scale):
    """Lemma 3.1 as printed."""
    a, b = 1 / mpmath.mpf(query_scale), 1 / mpmath.mpf(threshold_scale)
    delta, c = mpmath.exp(-a * height), b / a
    if c == 1:
        return delta * (3 + a * height) / 4
    return (2 * delta**c + delta - c * (delta**c + 2 * delta)) / (4 * (1 - c))


SCALES = [
    (2.0, 2.0),
    (3.17, 2.7),
    (1.0, 10.0),
    (10.0, 1.0),
    (2.0, 2.0 + 2**-40),
    (1e-3, 5.0),
    (5.0, 1e-3),
    (1e300, 1e300),
    (1.0, 1e9),
]


@pytest.mark.parametrize(("bound", "tail"), [("exact", exact_tail), ("paper", paper_tail)])
@pytest.mark.parametrize("scales", SCALES)
def test_the_threshold_is_the_least_that_delta_allows(bound, tail, scales):
    for delta in (0.3, 0.01, 1e-6, 1e-300):
        for tests in (1, 7, 5000):
            height = stability_threshold(
                delta, query_scale=scales[0], threshold_scale=scales[1], tests=tests, bound=bound
            )
            with mpmath.workdps(60):
                share = mpmath.mpf(delta) / tests
                assert tail(mpmath.mpf(height), *scales) <= share
                lower = mpmath.mpf(height) * (1 - mpmath.mpf(2) ** -35)
                assert height > 0 or share >= 0.5
                assert tail(lower, *scales) > share


def test_a_delta_that_no_height_is_needed_for():
    assert stability_threshold(0.6, query_scale=1.0, threshold_scale=3.0) == 0.0


def test_how_far_the_paper_is_above_the_exact_tail():
    """A seventh at delta 0.01 and the default split; at equal scales it is 3 + for 2 +."""
    scales = (2 / 0.63, 1 / 0.37)
    with mpmath.workdps(60):
        for height, excess in ((13.0, 0.15), (60.0, 0.07)):
            ratio = paper_tail(height, *scales) / exact_tail(height, *scales)
            assert float(ratio) == pytest.approx(1 + excess, abs=0.01)
        assert paper_tail(7.0, 1.0, 1.0) / exact_tail(7.0, 1.0, 1.0) == mpmath.mpf(10) / 9


def test_the_budget_is_not_overdrawn_by_a_single_bit():
    for split in (0.01, 1 / 3, 0.37, 0.9):
        for epsilon, select in ((1.0, 0.0), (0.1, 0.03), (7.3, 7.2), (1e-9, 0.0)):
            plan = calibrated(11, epsilon, 1e-6, 20, split, select, "exact", None)
            spent = 1 / Fraction(plan.threshold_scale) + 2 / Fraction(plan.query_scale)
            if select:
                spent += 11 / Fraction(plan.select_scale)
            assert Fraction(epsilon) * (1 - Fraction(1, 2**45)) < spent <= Fraction(epsilon)


def test_delta_is_shared_among_the_places_that_can_change():
    def threshold(k_bar, n_items, bound="exact"):
        return calibrated(1, 1.0, 1e-6, k_bar, 0.37, 0.0, bound, n_items).threshold

    assert threshold(5, None) == threshold(5, 6) == threshold(5, 100)
    assert threshold(5, 5) == threshold(4, None)  # all of a known domain is always the same
    assert threshold(90, 5) == threshold(4, None)
    assert threshold(1, 1) == threshold(1, None)
    assert threshold(5, 5, "paper") == threshold(5, None, "paper") > threshold(5, None)


# ---- what comes out


def test_the_gap_behind_the_last_place_decides():
    """A gap one place further down says nothing: neighbours would be told apart."""
    for counts in ([9000, 8999, 0], [8999, 9000, 0]):
        assert dp.top_stable(counts, k=1, **BUDGET).items == ()
        assert dp.top_stable(counts, k=2, **BUDGET).items == (0, 1)


def test_fewer_than_k_items_come_out_if_the_gap_is_higher_up():
    release = dp.top_stable([3, 900, 700, 5, 2], k=4, **BUDGET)
    assert release.items == (1, 2)
    assert not release.complete
    assert not release.ordered
    assert release.cost[:2] == (1.0, 1e-6)


def test_nothing_comes_out_if_no_gap_passes():
    release = dp.top_stable(np.full(1000, 50), k=10, **BUDGET, rng=dp.SeededRng(1))
    assert release.items == ()
    assert len(release) == 0
    assert not release.complete


def test_the_largest_set_within_k_bar_is_preferred():
    counts = [9000, 8000, 7000, 6000, 0, 0]
    assert dp.top_stable(counts, k=2, **BUDGET).items == (0, 1)
    any_two = Counter(
        dp.top_stable(counts, k=2, k_bar=4, **BUDGET, rng=rng).items
        for rng in map(dp.SeededRng, range(600))
    )
    assert len(any_two) == 6
    assert min(any_two.values()) > 50  # 100 expected; below 51 with chance 1e-7


def test_epsilon_select_picks_the_best_of_the_stable_set():
    counts = [9000, 8000, 7000, 6000, 0, 0]
    for seed in range(20):
        release = dp.top_stable(
            counts,
            k=2,
            k_bar=4,
            epsilon=2.0,
            delta=1e-6,
            epsilon_select=1.0,
            rng=dp.SeededRng(seed),
        )
        assert release.items == (0, 1)
    assert release.cost.epsilon == 2.0
    assert release.parameters["select_scale"] == pytest.approx(2.0)


def test_one_item_and_all_items():
    assert dp.top_stable([90_000], k=1, **BUDGET).items == (0,)
    assert dp.top_stable([90_000], k=3, **BUDGET).items == (0,)
    assert dp.top_stable([90_000, 80_000, 70_000], k=3, **BUDGET).items == (0, 1, 2)
    assert dp.top_stable([0], k=1, **BUDGET, rng=dp.SeededRng(1)).items == ()


def test_an_unknown_domain_shows_neither_rank_nor_size():
    """Items in an order drawn at random, however few there are."""
    rows = dp.Histogram.truncated([900, 800, 700], ["a", "b", "c"], next_count=0, k_bar=9)
    orders = {
        dp.top_stable(rows, k=9, **BUDGET, rng=dp.SeededRng(seed)).labels for seed in range(80)
    }
    assert len(orders) == 6  # one is missed with chance 3e-6
    release = dp.top_stable(rows, k=9, **BUDGET)
    assert release.indices is None
    assert not release.complete
    assert dp.top_stable(rows, k=9, epsilon=2.0, delta=1e-6, epsilon_select=1.0).labels
    empty = dp.Histogram.truncated([], [], next_count=0, k_bar=9)
    assert dp.top_stable(empty, k=9, **BUDGET, rng=dp.SeededRng(1)).labels == ()


def test_k_bar_by_default():
    counts = np.arange(300)
    assert dp.top_stable(counts, k=7, **BUDGET).parameters["k_bar"] == 7
    cut = dp.Histogram(counts).truncate(20)
    assert dp.top_stable(cut, k=20, **BUDGET).parameters["k_bar"] == 20


def test_a_million_items_of_which_nearly_all_are_equal():
    counts = np.ones(1_000_000, np.int32)
    counts[::100_000] = 5000
    release = dp.top_stable(counts, k=10, k_bar=10, **BUDGET)
    assert release.items == tuple(range(0, 1_000_000, 100_000))


def test_counts_near_the_end_of_int64():
    top = 2**63 - 2
    assert dp.top_stable([top, 0, top], k=2, **BUDGET).items == (0, 2)
    assert dp.top_stable([top, top - 1, 0], k=1, **BUDGET, rng=dp.SeededRng(1)).items == ()
    assert math.isfinite(dp.top_stable([top], k=1, **BUDGET).parameters["threshold"])


# ---- k from the data


FALLING = [9000, 8990, 8985, 3000, 2990, 2985, 2980, 0]  # the largest gaps are after 3 and 7


def test_the_size_with_the_largest_gap_in_the_range_comes_out():
    for sizes, size in (((1, 8), 3), ((1, 4), 3), ((4, 8), 7), ((3, 3), 3), ((7, 7), 7)):
        release = dp.top_stable(FALLING, k=sizes, **BUDGET)
        assert release.items == tuple(range(size))
        assert release.complete
        assert not release.ordered
        assert release.cost == dp.Cost(1.0, 1e-6, release.cost.theorem)
        assert (release.parameters["k_min"], release.parameters["k"]) == sizes
    assert dp.top_stable(FALLING, k=[1, 8], **BUDGET).items == (0, 1, 2)


def test_no_large_gap_in_the_range_and_nothing_comes_out():
    for sizes in ((1, 2), (4, 6), (5, 5)):
        release = dp.top_stable(FALLING, k=sizes, **BUDGET, rng=dp.SeededRng(1))
        assert release.items == ()
        assert not release.complete
        assert not {3, 7} & set(release.parameters.values())


def test_a_range_past_what_there_is():
    assert dp.top_stable([9000, 8000], k=(1, 50), **BUDGET).items in ((0,), (0, 1))
    assert dp.top_stable([9000, 8000], k=(2, 50), **BUDGET).items == (0, 1)
    with pytest.raises(ValueError, match="k must begin at no more than the number of items, 2"):
        dp.top_stable([9000, 8000], k=(3, 50), **BUDGET)
    rows = dp.Histogram.truncated([900, 800], ["a", "b"], next_count=0, k_bar=9)
    assert set(dp.top_stable(rows, k=(2, 9), **BUDGET).labels) == {"a", "b"}
    with pytest.raises(ValueError, match="k must be at most 9, where the histogram was truncated"):
        dp.top_stable(rows, k=(2, 10), **BUDGET)
    empty = dp.Histogram.truncated([], [], next_count=0, k_bar=9)
    assert dp.top_stable(empty, k=(2, 9), **BUDGET, rng=dp.SeededRng(1)).labels == ()


def test_the_last_gap_of_a_truncated_histogram_is_that_to_the_next_count():
    for following, wanted in ((8, {"a", "b"}), (799, set())):
        rows = dp.Histogram.truncated([900, 800], ["a", "b"], next_count=following, k_bar=2)
        release = dp.top_stable(rows, k=(2, 2), **BUDGET, rng=dp.SeededRng(1))
        assert set(release.labels) == wanted


def test_a_chosen_set_of_an_unknown_domain_shows_no_rank():
    rows = dp.Histogram.truncated([900, 890, 880], ["a", "b", "c"], next_count=0, k_bar=9)
    orders = {
        dp.top_stable(rows, k=(1, 9), **BUDGET, rng=dp.SeededRng(seed)).labels for seed in range(80)
    }
    assert len(orders) == 6  # one is missed with chance 3e-6


def test_choice_and_test_stay_within_epsilon():
    for sizes, epsilon, split in ((1, 0.3, None), (2, 1.0, 0.4), (500, 1e-9, None), (7, 7.3, 0.9)):
        noise = calibrated_range(sizes, epsilon, 1e-6, split, "exact")
        spent = 1 / Fraction(noise.query_scale)
        if sizes > 1:
            spent += 2 / Fraction(noise.choice_scale)
        assert Fraction(epsilon) * (1 - Fraction(1, 2**45)) < spent <= Fraction(epsilon)
        with mpmath.workdps(60):
            passes = mpmath.exp(-mpmath.mpf(noise.threshold) / mpmath.mpf(noise.query_scale)) / 2
            assert mpmath.mpf(1e-6) * (1 - mpmath.mpf(2) ** -40) < passes <= mpmath.mpf(1e-6)
    assert calibrated_range(1, 1.0, 1e-6, 0.9, "exact").split == 0.0  # nothing to choose
    assert calibrated_range(3, 1.0, 0.7, None, "exact").threshold == 0.0


def test_choice_and_test_need_the_same_gap():
    """One gap among equal others of 0: how often it is not chosen, and how often it fails."""
    for sizes, delta in ((2, 1e-6), (16, 1e-6), (500, 1e-9), (3, 0.6)):
        noise = calibrated_range(sizes, 1.0, delta, None, "exact")
        assert noise.split == balance(sizes, delta)
        gap = noise.choice_scale * math.log(sizes / MISS)
        missed = 1 - 1 / (1 + (sizes - 1) * math.exp(-gap / noise.choice_scale))
        failed = math.exp(-(gap - noise.threshold) / noise.query_scale) / 2
        assert missed <= MISS
        assert failed == pytest.approx(MISS, rel=1e-9)


def test_counts_of_a_chosen_set_are_priced_by_the_largest_size():
    release = dp.top_stable(FALLING, k=(1, 8), **BUDGET)
    counted = dp.noisy_counts(release, FALLING, epsilon=8.0)
    assert counted.items == (0, 1, 2)
    assert counted.cost.epsilon == 9.0
