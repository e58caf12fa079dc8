"""canonical: ranks and items, extremes, envelopes, replay. Its law is in test_verify.py."""

import itertools
import math
from collections import Counter

import mpmath
import numpy as np
import pytest
from grids import thinned

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.mechanisms import _groups
from dptopk.mechanisms import canonical as module
from dptopk.mechanisms._select import head_size
from dptopk.reference import canonical as exact
from dptopk.reference.race import Tape
from dptopk.rng import TapeRng, acquire, release
from dptopk.verification.sampling import chi_square


def groups_of(scores):
    values, sizes = np.unique(scores, return_counts=True)
    return values[::-1].copy(), np.cumsum(sizes[::-1])


def test_a_set_in_item_order():
    release = dp.canonical([1, 800, 3, 900, 2, 1000], k=3, epsilon=2.0)
    assert release.indices.tolist() == [1, 3, 5]
    assert not release.ordered
    assert "unordered" in repr(release)
    assert release.cost == dp.Cost(2.0, 0.0, module.THEOREM)
    h = dp.Histogram([1, 800, 3], labels=["a", "b", "c"])
    assert dp.canonical(h, k=1, epsilon=2.0).labels == ("b",)


def test_ranks_at_the_ends_of_what_is_put_in_order():
    """The head of a prepared histogram, and how far down it is put in order."""
    n = _groups.DEEP + 1000
    order = np.random.default_rng(2).permutation(n)
    counts = np.empty(n, np.int64)
    counts[order] = np.arange(n, 0, -1)
    field = _groups._of_histogram(dp.Histogram(counts), 1, True)
    source = acquire(SeededRng(1))
    try:
        for edge in (head_size(n, 1), _groups.DEEP, n - 1):
            for rank in (edge - 1, edge, min(edge + 1, n - 1)):
                assert field.items(source, np.array([rank])).tolist() == [order[rank]]
    finally:
        release(source)


def test_the_scale_pays_for_the_sensitivity():
    def scale(counts, **options):
        one, two = (
            dp.canonical(counts, k=k, epsilon=0.5, **options).parameters["scale"] for k in (1, 2)
        )
        assert two == 2 * one  # a single pick needs no half in its weight
        return two

    assert scale([5, 3]) >= 2 / 0.5
    assert scale([5, 3]) == pytest.approx(4)
    assert scale([5, 3], sensitivity=3) == pytest.approx(12)
    assert scale([5.0, 3.0]) == pytest.approx(8)
    assert scale([5.0, 3.0], monotone=True) == pytest.approx(4)
    assert scale([5, -3], monotone=False) == pytest.approx(8)
    for h in (dp.Histogram([5, 3, 1]), dp.Histogram([5, 3, 1]).truncate(2)):
        assert scale(h) == pytest.approx(4)
        assert scale(h, monotone=False) == pytest.approx(8)


@pytest.mark.parametrize("real", [False, True])
def test_never_the_same_item_twice(real):
    counts = np.random.default_rng(1).integers(0, 10**4, size=1000)
    scores = counts / 3.0 if real else counts
    for seed in range(40):
        items = dp.canonical(scores, k=200, epsilon=0.1, rng=SeededRng(seed)).items
        assert len(set(items)) == 200
        assert list(items) == sorted(items)


@pytest.mark.parametrize("unit", [1, 10**9, 2**55])
def test_gaps_count_in_units_of_the_scale(unit):
    """Counts near 1e9 and up, at gaps of the scale: the same law."""
    counts = [2 * unit, unit, 0]
    law = exact.law([2, 1, 0], k=2, scale=2.0)

    def sample(draws, seed):
        rng = SeededRng(seed)
        for _ in range(draws):
            yield dp.canonical(counts, k=2, epsilon=1.0, sensitivity=float(unit), rng=rng).items

    assert chi_square(law, sample, draws=10_000, seed=1).passed


def test_small_cases():
    assert dp.canonical([7], k=1, epsilon=1).items == (0,)
    assert dp.canonical([7, 7, 7], k=3, epsilon=1).items == (0, 1, 2)
    assert dp.canonical(np.zeros(50, int), k=50, epsilon=1).items == tuple(range(50))
    assert dp.canonical([1.5, -2.0], k=2, epsilon=1).items == (0, 1)
    assert len(dp.canonical(np.zeros(51, int), k=50, epsilon=1).items) == 50


@pytest.mark.parametrize("epsilon", [1e-300, 1e-12, 1e6, 1e300])
def test_any_epsilon(epsilon):
    for counts in ([5, 3, 1], [0.5, 0.25, 1e-300], [2**60, 3, 0], [1e300, 1.0, -1e300]):
        items = dp.canonical(counts, k=2, epsilon=epsilon).items
        assert len(set(items)) == 2
        if epsilon >= 1e6:
            assert items == (0, 1)


def law_of_rows(counts, k, scale):
    """Chance of (the first rank that is missing, the score of the last rank)."""
    c = sorted(counts, reverse=True)
    weights = Counter({(k, c[k - 1]): 1.0})
    for h, t in itertools.product(range(k), range(k, len(c))):
        ways = math.comb(t - h - 1, k - h - 1)
        weights[h, c[t]] += ways * math.exp(-float(c[h] - c[t]) / scale)
    total = math.fsum(weights.values())
    return {outcome: weight / total for outcome, weight in weights.items()}


@pytest.mark.parametrize(
    ("k", "shape", "real"),
    thinned([1, 7, 40], [(3, 2.0), (60, 2.0), (2000, 4.0), (2000, 30.0)], [False, True], keep=2),
)
def test_the_law_at_size(k, shape, real):
    """Hundreds of items, blocks of many groups: the first rank missing, and the last score."""
    spread, scale = shape
    counts = np.random.default_rng(k).integers(0, spread, size=300)
    counts = counts + np.linspace(0, 1, 300) if real else counts
    keys, ends = groups_of(counts)
    law = law_of_rows(counts.tolist(), k, scale)
    drawing = _core.Canonical(_core.keys(keys), ends, k, scale, real)

    def sample(draws, seed):
        source = _core.GeneratorSource(np.random.default_rng(seed))
        source.claim()
        for _ in range(draws):
            source.begin()
            ranks = np.sort(drawing.draw(source))
            assert ranks.size == np.unique(ranks).size == k
            missing = np.flatnonzero(ranks != np.arange(k))
            h = int(missing[0]) if missing.size else k
            yield h, keys[np.searchsorted(ends, ranks[-1], side="right")]
        source.unclaim()

    assert chi_square(law, sample, draws=20_000, seed=k).passed


def test_all_sets_alike_are_uniform():
    """At next to no epsilon: every subset of 3 of 7 equally likely."""
    law = dict.fromkeys(itertools.combinations(range(7), 3), 1 / 35)
    counts = [6, 5, 4, 3, 2, 1, 0]

    def sample(draws, seed):
        rng = SeededRng(seed)
        for _ in range(draws):
            yield dp.canonical(counts, k=3, epsilon=1e-9, rng=rng).items

    assert chi_square(law, sample, draws=20_000, seed=3).passed


def test_a_truncated_histogram_of_a_known_domain():
    """What was left out counts h_(k_bar+1): the same law, and all of it can come out."""
    counts = np.array([9, 1, 7, 2, 5, 5, 0])
    h = dp.Histogram(counts, labels=list("abcdefg")).truncate(3)
    law = exact.law(np.maximum(counts, 5).tolist(), k=2, scale=2.0)

    def sample(draws, seed):
        rng = SeededRng(seed)
        for _ in range(draws):
            yield tuple(dp.canonical(h, k=2, epsilon=1.0, rng=rng).indices.tolist())

    assert chi_square(law, sample, draws=20_000, seed=2).passed
    assert dp.canonical(h, k=7, epsilon=1.0).labels == tuple("abcdefg")
    with pytest.raises(ValueError, match=r"^counts of what canonical picked need all counts"):
        dp.noisy_counts(dp.canonical(h, k=2, epsilon=1.0), h, epsilon=1.0)


def exact_size(block, keys, ends, k, scale):
    """Logarithm of what a block may let in, to 50 digits; and the sizes of its parts, summed."""
    if block.row == k:
        return mpmath.mpf(0), 0.0
    own = keys[np.searchsorted(ends, block.row, side="right")]
    parts = [
        mpmath.log(math.comb(int(ends[block.last]) - block.row - 1, k - block.row)),
        -mpmath.mpf(own - keys[block.first]) / scale,
    ]
    if block.last + 1 < len(keys):
        width = keys[block.first] - keys[block.last + 1]
        parts.append(mpmath.log(-mpmath.expm1(-mpmath.mpf(width) / scale)))
    return mpmath.fsum(parts), float(sum(map(abs, parts)))


def moved_by_libm(block, keys, ends, k, scale):
    """How far a block's logarithm moves if libm errs by as much as the analysis assumes."""
    if block.row == k:
        return 0.0
    n, m = int(ends[block.last]) - block.row - 1, k - block.row
    own = keys[np.searchsorted(ends, block.row, side="right")]
    count, ahead = float(mpmath.log(math.comb(n, m))), (own - keys[block.first]) / scale
    few = min(m, n - m)
    products = few * 2.0**-54 if few < 16 else 0.0  # a quarter of what they may be
    part = 0.0
    if block.last + 1 < len(keys):
        part = math.log(-math.expm1(-(keys[block.first] - keys[block.last + 1]) / scale))
    return 2.0**-50 * (count + abs(part)) + products + 2.0**-53 * (count + abs(part - ahead))


def shapes():
    """Counts of all kinds, as (distinct values, how many each): up to 2^51 items."""
    rng = np.random.default_rng(11)
    for _ in range(60):
        n = int(rng.integers(1, 60))
        spread = int(rng.choice([n + 1, 1000, 10**9, 2**55]))
        values = np.unique(rng.integers(0, spread, size=n))[::-1].tolist()
        sizes = np.ceil(10 ** rng.uniform(0, rng.choice([0.5, 3, 13]), size=len(values)))
        ends = np.cumsum(sizes.astype(np.int64))
        k = int(rng.integers(1, min(int(ends[-1]), 400) + 1))
        yield values, ends, k, float(rng.choice([1e-3, 0.1, 2.0, 50.0, 1e6, 1e30]))


def test_blocks_are_as_large_as_is_said_and_cover_all():
    with mpmath.workdps(50):
        for keys, ends, k, scale in shapes():
            drawing = _core.Canonical(np.array(keys), ends, k, scale, False)
            found, log_unit = drawing.envelope()
            blocks = [exact.Block(*block) for block in found]
            total = mpmath.mpf(0)
            for block, (log_size, error) in zip(blocks, drawing.sizes(), strict=True):
                size, parts = exact_size(block, keys, ends, k, scale)
                assert abs(size - log_size) <= error
                assert error >= moved_by_libm(block, keys, ends, k, scale)
                assert error <= 1e-12 + 1e-14 * (parts + math.log(1 + scale))
                weight = mpmath.mpf(block.weight) / 2**60
                assert mpmath.log(weight) >= size - log_unit
                assert weight <= mpmath.exp(size - log_unit + 3e-6) + mpmath.mpf(3) / 2**60
                total += weight
            assert 0.99 < total < 1.01
            lead = int(np.searchsorted(ends, k, side="right"))
            for row in range(k if ends[-1] > k else 0):
                tiles = sorted((b.first, b.last) for b in blocks if b.row == row)
                assert (tiles[0][0], tiles[-1][1]) == (lead, len(keys) - 1)
                assert all(a[1] + 1 == b[0] for a, b in itertools.pairwise(tiles))
            assert sum(b.row == k for b in blocks) == 1


@pytest.mark.parametrize("spread", [0.1, 3.0, 300.0])
@pytest.mark.parametrize("scale", [0.02, 2.0, 200.0])
def test_most_proposals_are_accepted(spread, scale):
    """A block that is too loose would only cost time: each proposal reads some k words."""
    k = 100
    counts = (np.random.default_rng(2).pareto(1.0, size=10**5) * spread).astype(int)
    keys, ends = groups_of(counts)
    drawing = _core.Canonical(keys, ends, k, scale, False)
    assert len(drawing.envelope()[0]) < 3000
    source = _core.GeneratorSource(np.random.default_rng(5))
    source.claim()
    words = 0
    for _ in range(200):
        source.begin()
        assert drawing.draw(source) is not None
        words += source.consumed().size
    source.unclaim()
    assert words / 200 < 2.5 * (k + 3)


def test_subsets_by_hash_are_those_by_hand():
    """Small ranges too, where most draws were drawn before."""
    for n, m in ((1, 1), (5, 5), (7, 3), (1000, 999), (2**50, 300)):
        words = np.random.default_rng(n).integers(0, 2**64, size=4000, dtype=np.uint64)
        # One group of n more items than the k - 1 that are in: rows are subsets.
        drawing = _core.Canonical(np.array([1, 0]), np.array([1, n + 1]), m, 1e9, False)
        source = _core.TapeSource(words)
        source.claim()
        ranks = drawing.draw(source)
        blocks, log_unit = drawing.envelope()
        tape = Tape(_core.TapeSource(words).read, None)
        twin = exact.sample(
            tape, [1, 0], [1, n + 1], k=m, scale=1e9,
            blocks=[exact.Block(*block) for block in blocks], log_unit=log_unit,
        )  # fmt: skip
        assert ranks.tolist() == twin
        assert len(set(twin)) == m


@pytest.mark.parametrize("real", [False, True])
def test_widened_bounds_replay_exactly(real, monkeypatch):
    """The replay runs, often, and comes to the kernel's ranks on the kernel's words."""
    replays = []
    sample = exact.sample
    monkeypatch.setattr(exact, "sample", lambda *a, **kw: replays.append(1) or sample(*a, **kw))
    rng = np.random.default_rng(8)
    for seed in range(150):
        d = int(rng.integers(2, 60))
        counts = rng.integers(0, int(rng.choice([3, 100, 2**60])), size=d)
        scores = counts / 7.0 if real else counts
        k = int(rng.integers(1, d + 1))
        words = np.random.default_rng(seed).integers(0, 2**64, size=4096, dtype=np.uint64)
        options = {"k": k, "epsilon": 0.1, "sensitivity": float(rng.choice([1, 2.0**55]))}
        plain = dp.canonical(scores, rng=TapeRng(words), **options)
        monkeypatch.setattr(_core, "error_factor", 2.0**45)
        assert dp.canonical(scores, rng=TapeRng(words), **options) == plain
        monkeypatch.setattr(_core, "error_factor", 1.0)
    assert len(replays) > 75


def test_it_finds_the_top_where_joint_does_not():
    """Many items, gaps of one at the cut and wide further down: what it is for."""
    counts = np.concatenate([np.arange(2000, 1000, -10), np.arange(900, 0, -1)])
    top = set(range(100))

    def found(mechanism):
        rng = SeededRng(1)
        return np.mean([len(top & set(mechanism(counts, k=100, epsilon=1.0, rng=rng).items))
                        for _ in range(20)]) / 100  # fmt: skip

    assert found(dp.canonical) > 0.99


def test_the_utility_that_is_stated():
    """No more than beta of the sets lose 2 (ln C(d, k) + ln(1 / beta)) / epsilon."""
    for counts in itertools.product(range(0, 61, 20), repeat=4):
        law = exact.law(counts, k=2, scale=2.0)
        for beta in (0.5, 0.1, 0.01):
            most = 2 * (math.log(6) + math.log(1 / beta))
            lost = math.fsum(p for s, p in law.items() if exact.loss(counts, s) > most)
            assert lost <= beta


def test_one_step_in_a_session_and_in_a_filter():
    session = dp.Session(k_star=20, calls=5, epsilon=10.0, delta=1e-6)
    release = session.canonical([3, 900, 700, 5], k=3)
    assert len(release) == 3
    assert (session.remaining.outcomes, session.remaining.calls) == (19, 5)
    pure = dp.Filter(epsilon=1.0, delta=0.0)
    assert pure.canonical([3, 900, 700, 5], k=2, epsilon_step=0.75).items == (1, 2)
    with pytest.raises(dp.BudgetError):
        pure.canonical([3, 900, 700, 5], k=2, epsilon_step=0.5)
