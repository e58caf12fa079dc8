"""Races over many rows: the same as a loop over the rows on the same words."""

import numpy as np
import pytest

from dptopk import SeededRng, _core
from dptopk.errors import TapeEndError
from dptopk.mechanisms import _rows
from dptopk.mechanisms._rows import Rows, select_rows, select_rows_from
from dptopk.mechanisms._select import select_from
from dptopk.reference.noise import sequence_law
from dptopk.rng import TapeRng, acquire, release
from dptopk.verification.sampling import chi_square

NOISES = sorted(_core.NOISES)


def words(seed, n=1 << 16):
    return np.random.default_rng(seed).integers(0, 2**64, size=n, dtype=np.uint64)


def rows_of(arrays, stop=None):
    cuts = [_core.cut(a, a.size)[:2] if a.size else (np.empty(0, np.int64),) * 2 for a in arrays]
    return Rows(
        np.concatenate([keys for keys, _ in cuts]),
        np.concatenate([items for _, items in cuts]),
        np.cumsum([0, *(a.size for a in arrays)]),
        arrays[0].dtype.kind == "f",
        stop,
    )


def random_rows(seed):
    """Rows of every shape: empty, tied, wide; floats or stoppers; a k of its own for each."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    real = rng.random() < 0.3
    arrays = []
    for _ in range(n):
        spread = int(rng.choice([1, 3, 50, 10**6, 2**62]))
        scores = rng.integers(-spread, spread, size=int(rng.choice([0, 1, 2, 9, 60])))
        arrays.append(scores * 0.37 if real else scores)
    stop = None
    if not real and rng.random() < 0.6:
        stop = rng.integers(-3, 60, size=n), rng.choice([0.0, 0.7, 5.0], size=n)
    k = rng.integers(0, 20, size=n) if rng.random() < 0.5 else int(rng.integers(0, 20))
    scale = float(rng.choice([1e-3, 0.5, 1.0, 7.3, 1e4, 1e300]))
    return rows_of(arrays, stop), {"k": k, "scale": scale}


def loop(rows, source, *, k, scale, noise="gumbel", passes=1):
    """The same by one call of `select_from` for each row; with the words it left unread."""
    out = []
    n = rows.offsets.size - 1
    for _ in range(passes):
        for row, size in enumerate(np.broadcast_to(k, n).tolist()):
            source.begin()
            head, stop = rows.head(row)
            picks = select_from(source, head, k=size, scale=scale, noise=noise, stop=stop)
            out += picks.tolist() + [_core.STOP] * (size - picks.size)
    source.begin()
    return out, source.read(3).tolist()


@pytest.mark.parametrize("noise", NOISES)
def test_rows_are_picked_as_by_a_loop_on_the_same_words(noise, levels, monkeypatch):
    """At every level, to the same next word, and with many races left to the replay."""
    replays, differ = [], 0
    replay = _rows.replay
    monkeypatch.setattr(_rows, "replay", lambda *a, **b: replays.append(a) or replay(*a, **b))
    right = {}
    for seed in range(60):
        rows, case = random_rows(seed)
        case |= {"noise": noise, "passes": 1 + seed % 3}
        right[seed] = rows, case, loop(rows, _core.TapeSource(words(seed)), **case)
        case = {**case, "noise": NOISES[noise == NOISES[0]]}
        wrong = select_rows_from(_core.TapeSource(words(seed)), rows, **case)
        differ += wrong.tolist() != right[seed][2][0]
    for _ in levels:
        before = len(replays)
        for seed, (rows, case, picks) in right.items():
            for factor in (1.0, 2.0**46) if seed < 12 else (1.0,):
                monkeypatch.setattr(_core, "error_factor", factor)
                source = _core.TapeSource(words(seed))
                found = select_rows_from(source, rows, **case).tolist()
                assert (found, source.read(3).tolist()) == picks, (seed, factor)
        assert len(replays) > before + 20
    assert differ > 10  # the comparison can fail


def test_a_seeded_generator_stands_where_the_loop_leaves_it():
    """Long batches: the buffer of the source is filled many times over."""
    rows = rows_of([np.random.default_rng(i).integers(0, 9, size=30) for i in range(300)])
    rng, other = SeededRng(8), SeededRng(8)
    picks, _ = select_rows(rows, k=9, scale=2.0, rng=rng)
    source = acquire(other)
    try:
        right, following = loop(rows, source, k=9, scale=2.0)
    finally:
        release(source)
    assert picks.tolist() == right
    assert rng.generator.integers(0, 2**64, 3, dtype=np.uint64).tolist() == following


@pytest.mark.parametrize("passes", [1, 3])
def test_blocks_draw_from_sources_of_their_own_whatever_the_workers(passes, monkeypatch):
    monkeypatch.setattr(_rows, "PICKS", 70)  # 10 races of 7 picks
    rows = rows_of([np.random.default_rng(i).integers(0, 9, size=30) for i in range(25)])
    case = {"k": 7, "scale": 2.0}
    parent = acquire(SeededRng(3))
    children = [parent.spawn() for _ in range(-(-25 * passes // 10))]
    following = parent.read(1).tolist()
    release(parent)
    right = []
    for number, child in enumerate(children):
        for race in range(10 * number, min(25 * passes, 10 * number + 10)):
            child.begin()
            head, _ = rows.head(race % 25)
            right += select_from(child, head, **case).tolist()
    for workers in (1, 2, 5):
        rng = SeededRng(3)
        picks, private = select_rows(rows, rng=rng, passes=passes, workers=workers, **case)
        assert picks.tolist() == right
        assert not private
        assert rng.generator.integers(0, 2**64, 1, dtype=np.uint64).tolist() == following


def test_children_of_the_secure_source_have_the_keys_it_draws():
    parent = _core.SecureSource()
    parent.begin()
    first, second = parent.spawn(), parent.spawn()
    parent.rewind()
    for child in (first, second):
        key = parent.read(4)
        block = [
            _core.chacha20_block(key.view(np.uint32), counter, np.zeros(3, np.uint32))
            for counter in range(32)
        ]
        stream = np.array(block).T.ravel()[8:].view(np.uint64)  # see rng.c: lane order
        child.claim()
        assert child.private
        assert child.read(252).tolist() == stream.tolist()
        child.unclaim()


def test_many_private_rows(monkeypatch):
    monkeypatch.setattr(_rows, "PICKS", 70)
    rows = rows_of([np.zeros(30, np.int64)] * 100)
    picks, private = select_rows(rows, k=7, scale=1.0, rng=None, workers=3)
    assert private
    sets = picks.reshape(-1, 7)
    assert all(len(set(row)) == 7 for row in sets.tolist())
    assert len({tuple(row) for row in sets.tolist()}) == 100
    again, _ = select_rows(rows, k=7, scale=1.0, rng=None, workers=3)
    assert again.tolist() != picks.tolist()


def test_races_of_a_batch_have_the_exact_law():
    scores = np.array([7, 5, 5, 2, 0])
    rows = rows_of([scores, scores[::-1].copy()])
    law, wrong = (
        sequence_law(dict(enumerate(scores.tolist())), k=2, scale=scale, noise="gumbel")
        for scale in (3.0, 3.2)
    )

    def sample(draws, seed):
        picks, _ = select_rows(rows, k=2, scale=3.0, rng=SeededRng(seed), passes=draws // 2)
        pairs = picks.reshape(-1, 2)
        pairs[1::2] = 4 - pairs[1::2]
        return [tuple(pair) for pair in pairs.tolist()]

    assert chi_square(law, sample, draws=200_000, seed=4).passed
    assert not chi_square(wrong, sample, draws=200_000, seed=4).passed


def test_no_rows_no_picks_and_a_tape_that_ends():
    none = Rows(np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(1, np.int64))
    assert select_rows(none, k=3, scale=1.0, rng=None)[0].size == 0
    empty = none._replace(offsets=np.zeros(4, np.int64))
    assert select_rows(empty, k=2, scale=1.0, rng=None)[0].tolist() == [_core.STOP] * 6
    assert select_rows(empty, k=0, scale=1.0, rng=None)[0].size == 0
    stopped = empty._replace(stop=(np.zeros(3, np.int64), np.zeros(3)))
    assert select_rows(stopped, k=1, scale=1.0, rng=None)[0].tolist() == [_core.STOP] * 3
    with pytest.raises(TapeEndError):
        select_rows(rows_of([np.arange(9)] * 9), k=5, scale=1.0, rng=TapeRng(words(1, 20)))
