"""Arrays that another thread writes to amid a call: an error, or an answer for some state of it."""

import re
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import dptopk as dp
from dptopk import _core

CHANGED = "the counts changed during the call"


def race(before, after, m, **options):
    """A race whose head was cut from `before`, while its tail is read from `after`."""
    keys, items, _ = _core.cut(before, m)
    source = _core.SecureSource()
    source.claim()
    source.begin()
    return _core.race(source, keys, items, 50, 1e6, _core.NOISES["gumbel"], False, after, **options)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("after", [1, 0], ids=["all above", "fewer than there were"])
def test_a_race_gives_up_when_its_tail_is_gone(after, fresh):
    """Every draw from it would be rejected, for ever."""
    before = np.zeros(5000, np.int64)
    gone = np.ones(5000, np.int64)
    gone[4990:] = after
    with pytest.raises(RuntimeError, match=CHANGED):
        race(before, gone, 10, fresh=fresh)


def test_a_race_goes_on_when_only_its_luck_is_bad():
    """Of 20,000 items the head has all but a few, so that misses are the rule."""
    counts = np.zeros(20_000, np.int64)
    picks = race(counts, counts, 19_999)
    assert len(set(picks.tolist())) == 50


@pytest.mark.parametrize("size", [10_000, 3], ids=["a large group", "a small one"])
def test_ranks_give_up_when_their_group_is_gone(size):
    before = np.zeros(20_000, np.int64)
    before[:size] = 1
    _keys, items, _ = _core.cut(before, 1)
    source = _core.SecureSource()
    source.claim()
    source.begin()
    ends = np.array([size, 20_000])
    both = np.array([1, 0])
    with pytest.raises(RuntimeError, match=CHANGED):
        _core.items(source, np.array([1, 2]), both, ends, items, np.zeros(20_000, np.int64))
    after = before.copy()
    found = _core.items(source, np.array([1, 2]), both, ends, items, after)
    assert (after[found] == 1).all()
    assert len(set(found.tolist())) == 2


CALLS = {
    "argtopk": lambda a: dp.argtopk(a, 10),
    "noisy_topk": lambda a: dp.noisy_topk(a, 10, scale=1.0),
    "noisy_topk wide": lambda a: dp.noisy_topk(a, 10, scale=1e9),
    "peel": lambda a: dp.peel(a, k=10, epsilon=1.0),
    "oneshot": lambda a: dp.oneshot(a, k=10, epsilon=1.0),
    "permute_and_flip": lambda a: dp.permute_and_flip(a, k=10, epsilon=1.0),
    "joint": lambda a: dp.joint(a, k=10, epsilon=1.0),
    "canonical": lambda a: dp.canonical(a, k=10, epsilon=1.0),
    "limited_domain": lambda a: dp.limited_domain(a, k=10, epsilon=1.0, delta=1e-6),
}


@contextmanager
def writing(write):
    """A thread that does it over and over; yields what calls for half a second meanwhile."""
    over = threading.Event()

    def go_on():
        while not over.is_set():
            write()

    def meanwhile(call):
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            try:
                yield call()
            except (RuntimeError, ValueError) as error:
                assert re.search(f"{CHANGED}|finite|NaN", str(error))  # noqa: PT017

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        yield meanwhile
    finally:
        over.set()
        writer.join()


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_calls_end_while_a_thread_writes(call):
    counts = np.zeros(300_000, np.int64)
    rng = np.random.default_rng(0)

    def write():
        counts[:] = rng.integers(0, 3, counts.size) * rng.integers(0, 1000)
        counts[:] = 0

    with writing(write) as meanwhile:
        for answer in meanwhile(lambda: CALLS[call](counts)):
            items = np.asarray(getattr(answer, "items", answer))
            assert ((items >= 0) & (items < counts.size)).all()


@pytest.mark.slow
@pytest.mark.parametrize("gone", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(6000,), (4, 1500)], ids=["one row", "rows"])
def test_noise_for_all_ends_while_scores_are_no_longer_finite(shape, gone):
    """An item that is no number any more is above no floor, however low: none is waited for."""
    scores = np.zeros(shape)

    def write():
        scores[..., 5::7] = gone
        scores[..., 5::7] = 0.0

    with writing(write) as meanwhile:
        for picks in meanwhile(lambda: dp.noisy_topk(scores, shape[-1], scale=1.0)):
            assert (np.sort(picks) == np.arange(shape[-1])).all()
