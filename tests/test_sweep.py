"""The sweep, a race for many picks: against its exact twin on the same tape, and its law."""

import math

import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk._counts import Head
from dptopk.mechanisms import _select
from dptopk.reference import noise as noise_law
from dptopk.reference import race as exact
from dptopk.verification.sampling import chi_square

NOISES = sorted(_core.NOISES)
every_noise = pytest.mark.parametrize("noise", NOISES)


def words(seed, n=1 << 13):
    return np.random.default_rng(seed).integers(0, 2**64, size=n, dtype=np.uint64)


def head_of(array, m):
    keys, items, _ = _core.cut(array, m)
    return Head(keys, items, array if m < array.size else None, array.dtype.kind == "f")


def kernel(head, tape, *, k, scale, noise, floor):
    source = tape if isinstance(tape, _core.Source) else _core.TapeSource(tape)
    source.begin()
    picks = _core.race(
        source, head.keys, head.items, k, scale, _core.NOISES[noise], head.real, head.tail,
        sweep=floor,
    )  # fmt: skip
    return None if picks is None else picks.tolist()


def reference(head, tape, *, k, scale, noise, floor):
    generator = np.random.default_rng(99)
    source = exact.Tape(
        _core.TapeSource(tape).read,
        lambda n: generator.integers(0, 2**64, size=n, dtype=np.uint64),
    )
    field = _select.exact_field(head, offsets=None, stop=None)
    return exact.race(source, field, k=k, scale=scale, noise=noise, floor=floor)


def random_case(seed):
    """Fields of every shape, and floors from above all to below all."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 40))
    scores = rng.integers(0, int(rng.choice([1, 3, 50, 10**6, 2**62])), size=d)
    if rng.random() < 0.3:
        scores = scores * 0.37
    head = head_of(scores, int(rng.integers(1, d + 1)))
    floor = float(rng.choice([5.0, 1.0, 0.0, -1.0, -3.0, -20.0, -1e9, -math.inf]))
    scale = float(rng.choice([0.5, 1.0, 7.3, 1e4]))
    return head, {"k": int(rng.integers(1, d + 2)), "scale": scale, "floor": floor}


@every_noise
def test_kernel_equals_reference_on_the_same_tape(noise, levels):
    """At every level; and another noise, floor or scale is seen."""
    seeds = range(50 if noise == "gaussian" else 100)
    right = [
        reference(head, words(seed), noise=noise, **case)
        for seed in seeds
        for head, case in [random_case(seed)]
    ]
    for _ in levels:
        undecided = 0
        for seed in seeds:
            head, case = random_case(seed)
            picks = kernel(head, words(seed), noise=noise, **case)
            undecided += picks is None
            assert picks is None or picks == right[seed], seed
        assert undecided < len(seeds) / 4

    def wrong(noise=noise, **change):
        for seed in seeds:
            head, case = random_case(seed)
            case |= {name: by(case[name]) for name, by in change.items()}
            yield kernel(head, words(seed), noise=noise, **case)

    def differ(many):
        return sum(picks is not None and picks != right[seed] for seed, picks in enumerate(many))

    assert differ(wrong()) == 0
    assert differ(wrong(noise=NOISES[NOISES.index(noise) - 1])) > 5
    assert differ(wrong(floor=lambda floor: floor + 0.7)) > 5
    assert differ(wrong(scale=lambda scale: 1.1 * scale)) > 3


def near(n, m):
    """A head and a tail that starts where it ends, where `race` itself takes to a sweep."""
    return head_of(np.random.default_rng(n).integers(0, 9, size=n), m)


@every_noise
def test_forced_replay_gives_the_same_picks(monkeypatch, noise):
    case = {"k": 20, "scale": 4.0, "noise": noise}
    for seed in range(8):
        head = near(300 + seed, 40)
        floor = _core.sweep_floor(
            head.keys, head.items, 20, 4.0, _core.NOISES[noise], head.real, head.tail
        )
        assert floor is not None
        monkeypatch.setattr(_core, "error_factor", 1.0)
        picks, _ = _select.select(head, rng=SeededRng(seed), **case)
        source = _core.GeneratorSource(SeededRng(seed).generator)
        assert kernel(head, source, floor=floor, **case) == picks.tolist()
        monkeypatch.setattr(_core, "error_factor", 2.0**48)
        assert kernel(head, words(seed), floor=floor, **case) is None
        again, _ = _select.select(head, rng=SeededRng(seed), **case)
        assert again.tolist() == picks.tolist()


@every_noise
@pytest.mark.parametrize("floor", [3.0, 0.3, -math.inf])
def test_picks_have_the_law_whatever_the_floor(noise, floor):
    scores = np.array([7, 5, 5, 2, 0])
    head, case = head_of(scores, 3), {"k": 2, "scale": 3.0}
    law = noise_law.sequence_law(dict(enumerate(scores.tolist())), noise=noise, **case)

    def sample(n, seed, scale=3.0):
        source = _core.GeneratorSource(SeededRng(seed).generator)
        return [
            tuple(kernel(head, source, k=2, scale=scale, noise=noise, floor=floor))
            for _ in range(n)
        ]

    assert chi_square(law, sample, draws=20_000, seed=4).passed
    wrong = chi_square(law, lambda n, seed: sample(n, seed, 4.0), draws=20_000, seed=4)
    assert not wrong.passed


def test_to_start_again_when_too_few_are_above_the_floor_would_be_wrong():
    """That is why the floor falls, and what was shown stays shown: the same test rejects it."""
    scores, floor = np.array([7, 5, 5, 2, 0]), 0.3
    law = noise_law.sequence_law(dict(enumerate(scores.tolist())), k=2, scale=3.0, noise="gumbel")

    def sample(n, seed):
        rng = np.random.default_rng(seed)
        values = (scores - 7) / 3.0 + rng.gumbel(size=(4 * n, scores.size))
        values = values[(values > floor).sum(axis=1) >= 2][:n]
        return [tuple(row) for row in np.argsort(-values, axis=1)[:, :2].tolist()]

    assert not chi_square(law, sample, draws=20_000, seed=4).passed


@every_noise
def test_no_item_twice_and_all_items_when_k_is_d(noise):
    for n, m in ((600, 600), (3000, 700), (3000, 3000)):
        for scores in (np.zeros(n, np.int64), np.random.default_rng(n).normal(size=n)):
            for k in {600, m}:
                picks, _ = _select.select(
                    head_of(scores, m), k=k, scale=2.0, noise=noise, rng=SeededRng(n)
                )
                assert len(set(picks.tolist())) == k


def test_a_sweep_is_for_many_picks_or_a_tail_that_is_near():
    def sweeps(scores, m, k, scale):
        head = head_of(scores, m)
        floor = _core.sweep_floor(head.keys, head.items, k, scale, 0, head.real, head.tail)
        return floor is not None

    steps, ties = np.arange(100_000), np.zeros(100_000, np.int64)
    assert sweeps(steps, 2000, 1500, 1.0)
    assert not sweeps(steps, 2000, 100, 1.0)
    assert sweeps(ties, 2000, 100, 1.0)
    assert not sweeps(ties, 2000, 3, 1.0)
    assert not sweeps(ties, 2000, 2001, 1.0)  # more than the head has
    assert not sweeps(steps, 2000, 1500, 1e-12)  # too deep for doubles


def test_draws_and_rows_are_loops_of_single_calls():
    scores = np.random.default_rng(1).normal(size=(2, 6000))
    case, loop = {"scale": 1.0, "noise": "laplace"}, SeededRng(3)
    singly = [
        [dp.noisy_topk(row, 1200, rng=loop, **case).tolist() for row in scores] for _ in range(2)
    ]
    assert dp.noisy_topk(scores, 1200, size=2, rng=SeededRng(3), **case).tolist() == singly


def test_a_source_that_falls_short_or_memory_that_does_changes_no_pick():
    """Looks that no estimate foresees, on tapes that begin short: run again, from the start."""
    head = near(5000, 40)
    case = {"k": 30, "scale": 2.0, "noise": "gumbel"}
    everything = kernel(head, words(5, 1 << 17), floor=-math.inf, **case)
    source = _core.GeneratorSource(np.random.Generator(np.random.PCG64(5)))
    assert everything == kernel(head, source, floor=-math.inf, **case)
    from dptopk.errors import TapeEndError

    with pytest.raises(TapeEndError):
        kernel(head, words(5, 1 << 12), floor=-math.inf, **case)
