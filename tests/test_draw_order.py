"""The order of many values at a glance: certain where it says so, and nearly wherever it is."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dptopk import _core

MOST_NOISE = 38


def certain(value, error, floor, noise_error, factor, k):
    """Return the exact order of the k largest above the floor; None unless all errors leave it."""
    off = [
        Fraction(factor) * Fraction(e or noise_error + 2.0**-49 * (abs(v) + MOST_NOISE))
        for v, e in zip(value, error, strict=True)
    ]
    exact = [Fraction(v) for v in value]
    if any(abs(v - Fraction(floor)) <= e for v, e in zip(exact, off, strict=True)):
        return None
    order = sorted(
        (i for i in range(len(exact)) if exact[i] > floor), key=lambda i: exact[i], reverse=True
    )
    if len(order) < max(k, 2):
        return None
    first = itertools.pairwise(order[: k + 1])
    near = (exact[a] - exact[b] <= off[a] + off[b] for a, b in first)
    return None if any(near) else order[:k]


def a_case(seed):
    """Return some values with a pair that is near, or one near the floor, and all that is known.

    Of many that are wide apart words leave out more than values are off by.
    """
    rng = np.random.default_rng(seed)
    wide = seed % 8 == 0
    n = 5000 if wide else int(rng.choice([2, 3, 20, 300, 3000]))
    floor = float(rng.choice([-1e6, -3.25, 0.0, 7.5]))
    width = 1e7 if wide else float(rng.choice([1e-6, 1.0, 15.0, 1e7]))
    value = floor + width * rng.exponential(size=n) / 4 - width * 0.1
    step = 10.0 ** (rng.uniform(-14.5, -13) if wide else rng.uniform(-15, -6))
    step *= rng.choice([-1, 1]) * max(1.0, abs(floor) / 8, width / 8)
    near = rng.choice(np.argsort(value)[-(n // 4) :] if wide else n, 2)
    value[near[1]] = (floor if seed % 8 == 1 else value[near[0]]) + step
    error = np.where(rng.random(n) < 0.1, 10.0 ** rng.uniform(-14, -9, size=n), 0.0)
    error *= seed % 3 == 0
    noise_error, factor = float(rng.choice([0.0, 1e-12])), float(rng.choice([1.0, 1000.0]))
    if wide:
        noise_error, factor = 0.0, 1.0
    return value, error, floor, noise_error, factor, int(rng.integers(n // 4, max(2, n // 2)) or 1)


def glance(*case):
    places = _core.descending(*case)
    return places if places is None else places.tolist()


def test_an_order_is_what_it_is_and_certain(levels):
    """At every level alike: if there is one, it is the exact one, and errors leave it."""
    cases = [a_case(seed) for seed in range(320)]
    right = [certain(*case) for case in cases]
    at_once = [glance(*case) for case in cases]
    for found, order in zip(at_once, right, strict=True):
        assert found is None or found == order
    # Only what is nearly too near is left to others.
    assert sum(order is not None for order in right) > 150
    assert sum(found is None for found in at_once) < 1.3 * sum(order is None for order in right)
    for _ in levels:
        assert [glance(*case) for case in cases] == at_once


def test_twins_are_seen():
    """A glance that knows less of errors, or of what words leave out, would be found out."""
    wrong = {"errors": 0, "factor": 0}
    for value, error, floor, noise_error, _, k in (a_case(seed) for seed in range(320) if seed % 8):
        order = certain(value, error, floor, noise_error, 1000.0, k)
        without = glance(value, np.zeros_like(error), floor, 0.0, 1000.0, k)
        wrong["errors"] += without is not None and order is None
        wrong["factor"] += (
            glance(value, error, floor, noise_error, 1.0, k) is not None and order is None
        )
    assert min(wrong.values()) > 3, wrong


@pytest.mark.parametrize("floor", [-np.inf, 10.0])
def test_without_a_floor_or_enough_above_it_there_is_no_order(floor):
    value = np.array([1.0, 3.0, 2.0])
    assert glance(value, np.zeros(3), floor, 0.0, 1.0, 1) is None
    assert glance(value, np.zeros(3), 1.5, 0.0, 1.0, 3) is None
    assert glance(value, np.zeros(3), 1.5, 0.0, 1.0, 2) == [1, 2]


def test_what_is_hardly_below_the_floor_is_not_above_it():
    """However little it is off by: 1 less than that is 1, as doubles have it."""
    value, error = np.array([1.0, 0.5, -1e-17]), np.array([0.0, 0.0, 1e-20])
    assert glance(value, error, 0.0, 0.0, 1.0, 2) is None


def test_no_value_of_which_nothing_is_known_is_in_order():
    """An infinite error: its value is where it may be."""
    value, error = np.array([5.0, 3.0, 1.0]), np.array([0.0, np.inf, 0.0])
    assert glance(value, error, 0.0, 0.0, 1.0, 1) is None
    assert glance(value, np.zeros(3), 0.0, 0.0, 1.0, 2) == [0, 1]


def test_bad_arguments_are_refused():
    value = np.array([1.0, 3.0, 2.0])
    for k, error in ((0, value), (4, value), (1, value[:2])):
        with pytest.raises(ValueError, match="too few"):
            _core.descending(value, error, 0.0, 0.0, 1.0, k)
