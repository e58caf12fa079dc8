"""peel: scores and threads. Its law is in test_verify.py."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import dptopk as dp


def test_general_scores_take_twice_the_noise():
    scores = [-3.0, 0.25, 1e9]
    release = dp.peel(scores, k=1, epsilon=2.0, sensitivity=3.0, monotone=False)
    assert release.parameters["scale"] == pytest.approx(3.0)
    assert release.indices.tolist() == [2]
    counts = dp.peel([1, 2, 10**9], k=1, epsilon=2.0, sensitivity=3.0)
    assert counts.parameters["scale"] == pytest.approx(1.5)


def test_a_sensitivity_that_is_no_double_is_rounded_up():
    release = dp.peel([5, 3], k=1, epsilon_step=0.3, sensitivity=Fraction(1, 11))
    assert Fraction(release.parameters["scale"]) * Fraction(0.3) >= Fraction(1, 11)


def test_threads_draw_at_once():
    """Calls from many threads on one histogram: all right, none alike."""
    h = dp.Histogram(np.zeros(100_000, np.int64))
    with ThreadPoolExecutor(8) as pool:
        picks = list(pool.map(lambda _: tuple(dp.peel(h, k=5, epsilon=1).items), range(400)))
    assert len(set(picks)) == 400
