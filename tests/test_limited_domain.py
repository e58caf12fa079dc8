"""limited_domain: the threshold, k_bar and BOT. Its law is in test_verify.py."""

import math

import numpy as np

import dptopk as dp
from dptopk.domain import default_k_bar, private_limit
from dptopk.mechanisms.limited_domain import threshold


def test_bot_is_said_and_charged():
    release = dp.limited_domain([900, 3, 3, 3], k=3, k_bar=3, epsilon=5, delta=1e-6)
    assert release.items == (0,)
    assert not release.complete
    assert release.outcomes == 2
    assert "stopped by BOT" in repr(release)
    assert (release.cost.epsilon, release.cost.delta) == (5, 1e-6)


def test_the_threshold_uses_what_bounds_a_user():
    """m = min(k_bar, items a user, items outside a known top): less of it is a lower threshold."""
    known = dp.Histogram(np.arange(10))
    rows = dp.Histogram.truncated([9, 8], ["a", "b"], next_count=0, k_bar=9, max_items_per_user=2)
    for h, k_bar, bound, m in [
        (known, 3, None, 3),
        (known, 8, None, 2),
        (known, 10, None, 1),
        (known, 99, None, 1),
        (known, 5, 2, 2),
        (rows, 9, None, 9),
        (rows, 9, 2, 2),
    ]:
        exact = math.log(m / 1e-6)
        assert exact <= threshold(h, k_bar, bound, 1e-6) <= exact * (1 + 1e-14)
    release = dp.limited_domain(rows, k=1, epsilon=1, delta=1e-6, max_items_per_user=5)
    assert release.parameters["max_items_per_user"] == 2


def test_k_bar_by_default():
    assert default_k_bar(1) == 1000
    assert default_k_bar(500) == 5000
    counts = np.arange(30_000)
    assert dp.limited_domain(counts, k=7, epsilon=1, delta=1e-6).parameters["k_bar"] == 1000
    cut = dp.Histogram(counts).truncate(50)
    assert dp.limited_domain(cut, k=7, epsilon=1, delta=1e-6).parameters["k_bar"] == 50
    release = dp.limited_domain(counts, k=7, epsilon=1, delta=1e-6, k_bar="private")
    assert 7 <= release.parameters["k_bar"] <= private_limit(7)
    for k_bar in (7, 29_999, 30_000, 90_000):
        release = dp.limited_domain(counts, k=7, epsilon=1, delta=1e-6, k_bar=k_bar)
        assert release.parameters["k_bar"] == k_bar
