"""The cut against NumPy's stable sort, at every SIMD level. No test here is statistical."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptopk import _core, argtopk, topk

CHUNK = 2048  # keys the C code handles at a time
SAMPLED = 4 * CHUNK  # from here on it takes its first bound from a sample
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
# Around the vector widths (4, 8), the steps of the loops (16, 32, 64), the chunk, and the size
# below which everything fits the buffer of candidates (3 * CHUNK + 3 * m).
EDGES = [1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 511, 512, 513]
EDGES += [CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 2, 3 * CHUNK + 3, 3 * CHUNK + 4]


def oracle(x, *, largest=True):
    """Indices in order, equal ones ascending, NaN behind all, for any dtype (no negation)."""
    nan = x != x
    numbers = np.flatnonzero(~nan)
    y = x[numbers]
    if largest:
        order = len(y) - 1 - np.argsort(y[::-1], kind="stable")[::-1]
    else:
        order = np.argsort(y, kind="stable")
    return np.concatenate((numbers[order], np.flatnonzero(nan)))


def random_array(dtype, n, seed):
    """Values over the whole range of a dtype, half of them from a few values."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(n) < 0.3
    if kind.kind == "f":
        x = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, n)
    else:
        info = np.iinfo(kind)
        x = rng.integers(info.min, info.max, n, dtype=kind, endpoint=True)
    few = rng.integers(0, 4, n)
    return np.where(rng.random(n) < 0.5, few, x).astype(kind)


LAYOUTS = {
    "packed": lambda x: x,
    "strided": lambda x: np.repeat(x, 3)[::3],
    "reversed": lambda x: x[::-1].copy()[::-1],
    "stride 0": lambda x: np.broadcast_to(x[:1], x.shape),
    "foreign order": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), dtype=x.dtype, offset=1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_stable_sort(dtype, layout, level):
    for n in EDGES:
        x = LAYOUTS[layout](random_array(dtype, n, seed=n))
        x.flags.writeable = False
        for largest in (True, False):
            expected = oracle(x, largest=largest)
            for k in sorted({0, 1, n // 8, n // 2, n - 1, n}):
                got = argtopk(x, k, largest=largest)
                assert got.dtype == np.int64
                assert np.array_equal(got, expected[:k]), (n, k)
                unsorted = argtopk(x, k, largest=largest, sorted=False)
                assert np.array_equal(unsorted, np.sort(expected[:k])), (n, k)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_the_elements(dtype, level):
    for layout, n in itertools.product(LAYOUTS, (1, 40, 700)):
        x = LAYOUTS[layout](random_array(dtype, n, seed=n))
        values, indices = topk(x, n // 2)
        assert np.array_equal(indices, argtopk(x, n // 2))
        assert values.dtype == np.dtype(dtype)
        assert values.tobytes() == x.astype(dtype)[indices].tobytes()  # -0.0 stays what it is


def sampled_positions(n):
    """Return where the C code looks for its first bound."""
    size = 32
    while size < 2048 and size * size < 4 * n:  # of int64
        size *= 2
    return np.arange(size) * ((n // size - 1) | 1)


def shapes(n):
    """Orders and values that have hurt selection algorithms, and samples."""
    rng = np.random.default_rng(n)
    wide = rng.integers(np.iinfo(np.int64).min, np.iinfo(np.int64).max, n)
    skewed = np.minimum(rng.zipf(1.7, n), 3000)
    sampled = np.zeros(n, dtype=bool)
    sampled[sampled_positions(n)] = True
    return {
        "random": wide,
        "ascending": np.sort(wide),
        "descending": np.sort(wide)[::-1].copy(),
        "skewed": skewed,
        "skewed ascending": np.sort(skewed),
        "constant": np.full(n, 7),
        "lowest": np.full(n, np.iinfo(np.int64).min),
        "two values": rng.integers(0, 2, n),
        "one large": (np.arange(n) == n // 3).astype(np.int64),
        "organ pipe": np.minimum(np.arange(n), np.arange(n)[::-1]),
        "powers": np.int64(1) << rng.integers(0, 63, n),
        "close but for one": np.where(np.arange(n) == n // 3, 2**62, rng.permutation(n)),
        "small where sampled": np.where(sampled, 0, rng.permutation(n) + 1),
        "small where sampled, ascending": np.where(sampled, 0, np.arange(n) + 1),
        "large where sampled": np.where(sampled, 10 + rng.permutation(n), rng.integers(0, 3, n)),
    }


@pytest.mark.parametrize("n", [SAMPLED - 1, SAMPLED, SAMPLED + 1, 70_001])
@pytest.mark.parametrize("shape", shapes(SAMPLED))
def test_every_shape(shape, n, level):
    wide = shapes(n)[shape]
    late = np.clip(wide, -128, 90).astype(np.int8)  # many ties, and larger ones behind them
    late[-3:] = (91, 93, 92)
    for x in (wide, wide.astype(np.float32), late):
        for largest, ks in ((True, (1, 100, 501, n // 4, n // 4 + 1, n)), (False, (1, 501))):
            expected = oracle(x, largest=largest)
            for k in ks:
                assert np.array_equal(argtopk(x, k, largest=largest), expected[:k]), (k, largest)


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
def test_many_in_order(dtype, level):
    """A key and its index as one word, or not: ranges and steps around what has room in it."""
    n, m = 50_000, 20_000
    rng = np.random.default_rng(4)
    rows = [rng.integers(0, 2**bits, n) << step for bits, step in ((30, 0), (3, 20), (13, 1))]
    if dtype == "i8":
        rows += [
            rng.integers(0, 2**bits, n) << step
            for bits, step in ((48, 9), (49, 0), (50, 0), (52, 8))
        ]
    rows += [rows[0] - 2**29, np.where(rng.random(n) < 0.3, rows[0] // 2**20, rows[0])]
    rows.append(np.where(np.arange(n) % 100 < 99, rows[0] % 64, rows[0]))  # long runs, not in order
    for x in rows:
        a = x.astype(dtype)
        for largest in (True, False):
            expected = oracle(a, largest=largest)[:m]
            for k in (600, m):
                assert np.array_equal(argtopk(a, k, largest=largest), expected[:k])


def selections(n):
    """Where a sample of what is held tells little of the rank, or lies."""
    rng = np.random.default_rng(n)
    return {
        "distinct": rng.permutation(n),
        "two values": rng.integers(0, 2, n),
        "three, two of them seldom": np.where(rng.random(n) < 0.99, 5, rng.integers(0, 9, n)),
        "ascending": np.arange(n),
        "every eighth small": np.where(
            np.arange(n) % 8 == 0, rng.integers(0, 9, n), 100 + rng.permutation(n)
        ),
        "every eighth large": np.where(
            np.arange(n) % 8 == 0, n + rng.permutation(n), rng.integers(0, 9, n)
        ),
    }


@pytest.mark.parametrize("n", [8000, 8192, 40_960])
@pytest.mark.parametrize("kind", selections(8000))
def test_any_rank_of_many(kind, n, level):
    x = selections(n)[kind]
    expected = oracle(x)
    for m in (n // 8, n // 2, n - 1, n - n // 100, n - 300):
        assert np.array_equal(argtopk(x, m), expected[:m]), m
        assert np.array_equal(argtopk(x, m, sorted=False), np.sort(expected[:m])), m


def cut_with_late_ties(x, m):
    """Broken twin: the first m at or above the bound push out larger ones behind them."""
    bound = np.sort(x)[len(x) - m]
    kept = np.flatnonzero(x >= bound)[:m]
    return kept[oracle(x[kept])]


def cut_with_reversed_ties(x, m):
    """Broken twin: the usual argsort()[::-1], which puts equal ones in descending order."""
    return np.argsort(x, kind="stable")[::-1][:m]


def breaks_on(select, x):
    return [m for m in (10, 501, 2000) if not np.array_equal(select(x, m), oracle(x)[:m])]


@pytest.mark.parametrize("n", [3000, 40_000])
def test_ties(n, level):
    rng = np.random.default_rng(5)
    tied, distinct = rng.integers(0, 9, n), rng.permutation(n)
    tied[-5:] = range(10, 15)  # larger ones behind the ties
    assert breaks_on(argtopk, tied) == []
    for twin in (cut_with_late_ties, cut_with_reversed_ties):
        assert breaks_on(twin, tied) == [10, 501, 2000]
        assert breaks_on(twin, distinct) == []  # it is the ties that give it away


def blocks_of(dtype, n, large):
    """n scores that are large where it is said, the large ones distinct as far as may be."""
    x = np.zeros(n, dtype)
    x[large] = 1 if x.dtype.kind == "b" else 2 + np.arange(np.count_nonzero(large)) % 100
    return x


#: Where the scores that get in stand: a few in a block of 64, many, runs, whole blocks.
PLACES = {
    "2 in 100": lambda at, rng: rng.random(at.size) < 0.02,
    "2 a block": lambda at, rng: np.isin(at % 64, (5, 63)),
    "3 a block": lambda at, rng: np.isin(at % 64, (0, 31, 62)),
    "1 in 5": lambda at, rng: rng.random(at.size) < 0.2,
    "runs": lambda at, rng: at % 500 < 90,
    "whole blocks": lambda at, rng: at // 64 % 7 == 3,
    "the end": lambda at, rng: at >= at.size - 130,
}


def cut_with_two_a_block(x, m):
    """Broken twin: of a block it takes two, as if more never got in."""
    bound = x[oracle(x)[m - 1]]
    kept = [start + np.flatnonzero(x[start : start + 64] >= bound)[:2]
            for start in range(0, x.size, 64)]  # fmt: skip
    kept = np.concatenate(kept)
    return kept[oracle(x[kept])][:m]


@pytest.mark.parametrize("dtype", DTYPES)
def test_however_many_of_a_block_get_in(dtype, level):
    at, rng = np.arange(9000), np.random.default_rng(3)
    for name, place in PLACES.items():
        large = place(at, rng)
        x = blocks_of(dtype, at.size, large)
        m = np.count_nonzero(large)
        expected = oracle(x)
        for k in {1, m // 2, m}:
            assert np.array_equal(argtopk(x, k), expected[:k]), (name, k)
            assert np.array_equal(argtopk(x, k, sorted=False), np.sort(expected[:k])), (name, k)
        if name in ("3 a block", "1 in 5", "runs", "whole blocks", "the end"):
            assert not np.array_equal(cut_with_two_a_block(x, m), expected[:m]), name


EXTREMES = {
    "i8": [np.iinfo(np.int64).min, np.iinfo(np.int64).min + 1, -1, 0, 1, np.iinfo(np.int64).max],
    "u8": [0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1],
    "f8": [-np.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 2.2e-308, 1.0, 1.7e308, np.inf],
    "f4": [-np.inf, -1.0, -1e-45, -0.0, 0.0, 1e-45, 1.0, 3.4e38, np.inf],
    "f2": [-np.inf, -1.0, -6e-8, -0.0, 0.0, 6e-8, 1.0, 65504.0, np.inf],
}


@pytest.mark.parametrize("dtype", EXTREMES)
def test_extremes(dtype, level):
    values = np.array(EXTREMES[dtype], dtype=dtype)
    for n in (len(values), 200, SAMPLED + 5):
        x = np.random.default_rng(n).permutation(np.resize(values, n))
        for largest in (True, False):
            expected = oracle(x, largest=largest)
            for k in (1, n // 9, n):
                assert np.array_equal(argtopk(x, k, largest=largest), expected[:k]), (n, k)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("n", [1, 17, 3 * CHUNK + 1, SAMPLED + 40])
def test_nan_is_refused_wherever_it_is(dtype, n, level):
    for at in {0, n // 2, n - 1, min(n - 1, CHUNK), int(sampled_positions(n)[-1]) if n > 64 else 0}:
        for nan in (np.nan, -np.nan):
            x = np.ones(n, dtype=dtype)
            x[at] = nan
            for view, k, largest in itertools.product((x, x[::-1]), (0, 1, n), (True, False)):
                with pytest.raises(ValueError, match=r"^a must not contain NaN; nan=\"last\""):
                    argtopk(view, k, largest=largest)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_nan_last(dtype, share, level):
    """Behind all numbers, infinities too, both ways; by index among themselves."""
    for n in (1, 5, 64, 65, 700, SAMPLED + 5):
        rng = np.random.default_rng(n)
        x = random_array(dtype, n, seed=n)
        x[rng.random(n) < 0.1] = -np.inf
        x[rng.random(n) < 0.1] = np.inf
        x[rng.random(n) < share] = rng.choice([np.nan, -np.nan])
        for view, largest in itertools.product((x, x[::-1]), (True, False)):
            expected = oracle(view, largest=largest)
            for k in sorted({0, 1, n // 9, n // 2, n}):
                got = argtopk(view, k, largest=largest, nan="last")
                assert np.array_equal(got, expected[:k]), (n, k, largest)
        if share < 1:  # NumPy sorts NaN to the end, too
            values = topk(x, n, largest=False, nan="last").values
            assert np.array_equal(values, np.sort(x), equal_nan=True)


@pytest.mark.parametrize("largest", [True, False])
def test_every_half_that_is_nan_is_last(largest, level):
    """All bits there are: 0xFC01, next to minus infinity, was taken for a number."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    mixed = halves.reshape(-1, 32)[:, ::-1].copy()
    mixed[:, ::2] = [-np.inf, *range(-9, 5), np.inf]
    picks = argtopk(mixed, 32, largest=largest, nan="last")
    assert picks.tolist() == [oracle(row, largest=largest).tolist() for row in mixed]
    picks = argtopk(halves, 2**16, largest=largest, nan="last")
    assert np.array_equal(picks, oracle(halves, largest=largest))


def rows_of(dtype, lengths, seed):
    """Rows of such lengths one behind the other, with ties."""
    return random_array(dtype, int(np.sum(lengths)), seed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_short_rows(dtype, level):
    """Four side by side, and what is left of them; lengths and k around what has room."""
    for n in (1, 7, 8, 9, 33, 50, 64, 255, 256, 257):
        a = rows_of(dtype, [n] * 7, seed=n).reshape(7, n)
        for rows, largest in itertools.product((a, a[::-1, ::-1], a.T.copy().T), (True, False)):
            expected = np.array([oracle(row, largest=largest) for row in rows])
            for k in {1, 7, 8, 9, 16, 31, 32, 33, n} & set(range(1, n + 1)):
                assert np.array_equal(argtopk(rows, k, largest=largest), expected[:, :k]), (n, k)
                unsorted = argtopk(rows, k, largest=largest, sorted=False)
                assert np.array_equal(unsorted, np.sort(expected[:, :k])), (n, k)


def rows_that_are_close(kind):
    """Scores of a wide range, of which many differ in their last bits alone."""
    rng = np.random.default_rng(8)
    if kind == "f8":
        rows = 1.0 + rng.integers(0, 900, (40, 50)) * 2.0**-52
        return np.where(rng.random(rows.shape) < 0.1, -rows, rows)
    rows = np.iinfo(kind).max - rng.integers(0, 900, (40, 50)).astype(kind)
    return np.where(rng.random(rows.shape) < 0.1, np.iinfo(kind).min, rows)


@pytest.mark.parametrize("kind", ["f8", "i8", "u8"])
def test_rows_that_differ_in_their_last_bits(kind, level):
    rows = rows_that_are_close(kind)
    bits = rows.view("i8") if kind == "f8" else rows
    for k in (1, 7, 8, 10, 16, 32, 50):
        expected = np.array([oracle(row)[:k] for row in rows])
        assert np.array_equal(argtopk(rows, k), expected)
        rough = np.array([oracle(row >> 10)[:k] for row in bits])
        assert not np.array_equal(rough, expected)  # a part of the bits would not do


def test_rows_of_the_whole_range(level):
    """One of the least and the largest there are: the difference has as many bits as they."""
    for kind in ("i8", "u8"):
        info = np.iinfo(kind)
        row = np.array([info.min, info.max, info.min + 1, info.max - 1, 5, info.max], kind)
        for rows in (np.tile(row, (4, 1)), np.tile(row[:1], (4, 9)), np.tile(row[1:2], (4, 9))):
            for largest, k in itertools.product((True, False), (1, 4, rows.shape[1])):
                expected = [oracle(each, largest=largest)[:k].tolist() for each in rows]
                assert argtopk(rows, k, largest=largest).tolist() == expected


@pytest.mark.parametrize("dtype", ["?", "i1", "i8", "u8", "f4", "f8"])
def test_ragged_rows_side_by_side(dtype, level):
    """Short ones are filled up, with what must not come out, even of the least there is."""
    lengths = np.r_[3, 0, 50, 7, 49, 300, 1, 2, 3, 4, 256, 255, 250, 8, 9, 16, 5]
    offsets = np.r_[0, np.cumsum(lengths)]
    for a in (rows_of(dtype, lengths, seed=1), np.zeros(offsets[-1], dtype)):
        rows = [np.arange(*ends) for ends in itertools.pairwise(offsets)]
        for k, largest in itertools.product((1, 8, 20, 60), (True, False)):
            expected = [row[oracle(a[row], largest=largest)][:k] for row in rows]
            got = argtopk(a, k, largest=largest, offsets=offsets)
            assert np.array_equal(got.indices, np.concatenate(expected))
            got = argtopk(a, k, largest=largest, sorted=False, offsets=offsets)
            assert np.array_equal(got.indices, np.concatenate([np.sort(row) for row in expected]))


def test_one_row_with_nan_among_others(level):
    for at, dtype in itertools.product(range(8), ("f2", "f4", "f8")):
        rows = random_array(dtype, 8 * 20, seed=at).reshape(8, 20)
        rows[at, 13] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            argtopk(rows, 3)
        got = argtopk(rows, 20, nan="last")
        assert got.tolist() == [oracle(row).tolist() for row in rows]


def test_nothing_asked_nothing_given():
    for counts in ([], [3, 4]):
        got = argtopk(counts, 0)
        assert got.shape == (0,)
        assert got.dtype == np.int64


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_any_array(data):
    dtype = data.draw(st.sampled_from([np.dtype(d) for d in DTYPES]))
    few = data.draw(st.booleans())
    values = hnp.from_dtype(dtype, allow_nan=False)
    if few:
        values = st.sampled_from(data.draw(st.lists(values, min_size=1, max_size=3)))
    x = data.draw(hnp.arrays(dtype, st.integers(0, 200), elements=values))
    x = x[:: data.draw(st.sampled_from([1, 2, -1, -3]))]
    k, largest = data.draw(st.integers(0, len(x))), data.draw(st.booleans())
    assert np.array_equal(argtopk(x, k, largest=largest), oracle(x, largest=largest)[:k])


def model_keys(x):
    """The definition in dptk.h, in NumPy."""
    if x.dtype == np.float16:
        size = (x.view(np.int16) & 0x7FFF).astype(np.int64)
        return np.where(np.signbit(x), -size, size)
    if x.dtype.kind == "f":
        bits = (x.astype(np.float64) + 0.0).view(np.int64)
        return np.where(bits >= 0, bits, bits ^ np.iinfo(np.int64).max)
    if x.dtype == np.uint64:
        return (x ^ np.uint64(2**63)).view(np.int64)
    return x.astype(np.int64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_and_cut(dtype, level):
    x = random_array(dtype, 3 * CHUNK + 5, seed=9)
    expected = model_keys(x)
    assert np.array_equal(_core.keys(x), expected)
    assert np.array_equal(_core.keys(x[::-2]), expected[::-2])
    top, index, watched = _core.cut(x, 77)
    assert np.array_equal(top, expected[index])
    odd = ~np.isfinite(x) if x.dtype.kind == "f" else x < 0
    assert watched == bool(odd.any())
    assert not _core.cut(x, 77, True, False)[2]
    assert not _core.cut(np.abs(x[x > 0]), 1)[2]


@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, 512, CHUNK, SAMPLED, SAMPLED + 33])
def test_one_negative_is_seen_wherever_it_is(n, level):
    for at in {0, n // 2, n - 1}:
        x = np.arange(n) % 5
        x[at] = -1
        assert _core.cut(x, 1)[2]
        assert _core.cut(x.astype("i4"), 1)[2]


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8"])
def test_one_negative_is_seen_behind_the_largest_there_are(dtype, level):
    x = np.full(SAMPLED, np.iinfo(dtype).max, dtype=dtype)
    assert not _core.cut(x, 3)[2]
    x[-1] = -1
    for view in (x, np.repeat(x, 2)[::2]):
        _, index, watched = _core.cut(view, 3)
        assert watched
        assert index.tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("n", [1, 32, 33, 65, CHUNK, SAMPLED, 3 * SAMPLED + 33])
def test_one_that_is_not_finite_is_seen_wherever_it_is(dtype, n, level):
    x = (np.arange(n) % 1000 - 500).astype(dtype)
    key = int(_core.keys(x).max()) - 1
    for at in {0, n // 3, n // 2, max(0, n - 64), n - 2, n - 1} - {-1}:
        kept = x[at]
        for view in (x, np.repeat(x, 2)[::2]):
            assert not _core.cut(view, 1)[2]
            assert _core.part(view, key, n + 1)
        for bad in (math.inf, -math.inf):
            x[at] = bad
            for view in (x, np.repeat(x, 2)[::2]):
                assert _core.cut(view, 1)[2]
                assert _core.part(view, key, n + 1) is False
        x[at] = math.nan
        for view in (x, np.repeat(x, 2)[::2]):
            assert _core.part(view, key, n + 1) is False
        x[at] = kept


def tallies():
    """Kinds of keys a table of counts meets, each with the span to count."""
    rng = np.random.default_rng(3)
    n = 5 * CHUNK + 77
    wide = rng.integers(np.iinfo(np.int64).min, np.iinfo(np.int64).max, n)
    skewed = np.minimum(rng.zipf(1.7, n), 3000)
    return {
        "skewed": (skewed, 54),
        "skewed, few wanted": (skewed, 4),
        "skewed, one wanted": (skewed, 2),
        "none wanted": (skewed, 0),
        "all wanted": (skewed, 3001),
        "constant": (np.full(n, 4), 16),
        "constant, outside": (np.full(n, 4), 4),
        "no small ones": (rng.integers(100, 200, n), 256),
        "small, then large, then small": (np.sort(skewed)[np.r_[0:n:2, n - 1 : 0 : -2]], 99),
        "negative too": (rng.integers(-40, 40, n), 30),
        "around 128 and 256": (rng.integers(100, 300, n), 300),
        "wide": (wide, 40),
        "32-bit look-alikes": ((rng.integers(0, 2, n) << 32) + rng.integers(0, 9, n), 9),
        "31-bit look-alikes": ((rng.integers(0, 2, n) << 31) + rng.integers(0, 9, n), 9),
        "the lowest too": (np.where(wide < 0, np.iinfo(np.int64).min + skewed, skewed), 64),
    }


@pytest.mark.parametrize("kind", tallies())
def test_counts_of_counts(kind, level):
    keys, span = tallies()[kind]
    for x in (keys, keys[: 3 * 64 + 5], keys[:63], keys[:31], keys[:1], keys[:0], keys[::-3]):
        inside = x[(x >= 0) & (x < span)]
        assert np.array_equal(_core.count_keys(x, span), np.bincount(inside, minlength=span))
    with pytest.raises(ValueError, match="NaN"):
        _core.count_keys(np.array([1.0, np.nan]), span)


@pytest.mark.full
def test_counts_past_what_32_bits_are_sure_to_hold():
    """More than 2^30 scores go batch by batch, and the last ends where they do."""
    keys = np.broadcast_to(np.uint8(2), 2**30 + 5)
    assert _core.count_keys(keys, 4).tolist() == [0, 0, 2**30 + 5, 0]


def test_levels_stay_within_what_the_machine_has(level):
    assert _core.simd_get() == level
    assert _core.simd_set(99) == _core.simd_best()
    assert _core.simd_set(-1) == 0 == _core.simd_get()


def test_threads_share_nothing():
    x = np.random.default_rng(1).integers(0, 1000, 50_000)
    expected = oracle(x)
    with ThreadPoolExecutor(4) as pool:
        for m, got in enumerate(pool.map(lambda m: argtopk(x, m), range(200))):
            assert np.array_equal(got, expected[:m])


@pytest.mark.parametrize("n", [1, 31, 32, 63, 64, 65, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize("top", [5, 300, 32_766, 32_767, 32_768, 2**31 - 1, 2**31, 2**62])
@pytest.mark.usefixtures("level")
def test_the_copy_is_the_keys_clipped(n, top):
    rng = np.random.default_rng(n)
    x = np.where(rng.random(n) < 0.9, rng.integers(0, 5, size=n), rng.integers(0, top, size=n))
    x[n // 2] = top
    copy = np.empty(n, np.int16)
    table = _core.count_keys(x, 100, copy)
    assert (copy == np.minimum(x, 32_767)).all()
    assert (table == np.bincount(x[x < 100], minlength=100)).all()
