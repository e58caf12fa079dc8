"""Every function that takes an array x every way it may lie in memory: the right answer, or an
error; and objects that say one thing of themselves and then another."""

import array
import inspect
import threading
import time

import numpy as np
import pytest

import dptopk as dp
from dptopk.mechanisms.table import MECHANISMS

COUNTS = np.random.default_rng(0).integers(1, 50, 3000)
COUNTS[:5] = [900, 30, 700, 20, 800]
OPTIONS = {
    "k": 3, "epsilon": 1.0, "delta": 1e-3, "max_items_per_user": 2, "scale": 1.0, "threshold": 500,
    "mechanism_epsilon": 0.5, "tau": 1,
}  # fmt: skip
NAMES = [f"item {n}" for n in range(3000)]
PICKS = dp.peel(COUNTS, k=3, epsilon=1.0, rng=dp.SeededRng(1))


def mechanism(name):
    """A call of it with what it needs, on the same random words every time."""
    function = getattr(dp, name)
    its = inspect.signature(function).parameters
    given = {
        option: OPTIONS[option]
        for option in its
        if option in OPTIONS
        and (
            its[option].default is its[option].empty or option in ("epsilon", "max_items_per_user")
        )
    } | {"k": 3}
    given = {option: value for option, value in given.items() if option in its}
    if name == "restricted":
        given["mechanism_epsilon"] = 0.5

    def call(a):
        first = {"restricted": (lambda h, k: range(k), a), "noisy_counts": (PICKS, a)}
        return function(*first.get(name, (a,)), **given, rng=dp.SeededRng(7))

    return call


CALLS = {
    name: mechanism(name)
    for name in MECHANISMS
    if name not in ("weighted", "stable_release", "stable_queries", "rank_pairs")
}


def seeded():
    return {"k": 5, "epsilon": 1.0, "rng": dp.SeededRng(1)}


MEASURES = sorted(set(dp.metrics.__all__) - {"number_returned"})


def measured(name):
    return lambda a: getattr(dp.metrics, name)(PICKS, a, 5)


CALLS |= {
    "weighted": lambda a: dp.weighted(
        dp.Histogram.from_weights(a, soft_cap=2, norm="l1", domain_is_public=True), **seeded()
    ),
    "from_weights": lambda a: (
        dp.Histogram.from_weights(a, soft_cap=2, domain_is_public=True).counts
    ),
    "Histogram": lambda a: dp.Histogram(a).counts,
    "truncated": lambda a: dp.Histogram.truncated(a, NAMES, next_count=0, k_bar=3000).counts,
    "Histograms": lambda a: list(
        dp.peel(
            dp.Histograms(a, offsets=[0, 100, 3000], max_groups_per_user=1), **seeded()
        ).values()
    ),
    **{f"metrics.{name}": measured(name) for name in MEASURES},
    "argtopk": lambda a: dp.argtopk(a, 5),
    "topk": lambda a: dp.topk(a, 5),
    "argtopk ragged": lambda a: dp.argtopk(a, 5, offsets=[0, 100, 100, 3000]),
    "noisy_topk ragged": lambda a: dp.noisy_topk(
        a, 5, scale=2.0, offsets=[0, 100, 100, 3000], rng=dp.SeededRng(1)
    ),
    "count_sets": lambda a: dp.count_sets(a, k=5, tau=3),
    "trials": lambda a: dp.trials(dp.peel, a, 10, k=5, epsilon=1.0, rng=dp.SeededRng(1)),
    "SparseVector": lambda a: dp.SparseVector(
        threshold=40, epsilon=1.0, hits=9, rng=dp.SeededRng(1)
    ).test_all(a),
}


class Array:
    """Gives an array only when it is asked for one."""

    def __init__(self, a):
        self.a = a

    def __array__(self, dtype=None, copy=None):
        return self.a


class Packed:
    def __init__(self, a):
        self.a = a

    def __dlpack__(self, **options):
        return self.a.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


class Sub(np.ndarray):
    pass


def unaligned(a):
    memory = bytearray(a.nbytes + 1)
    out = np.frombuffer(memory, a.dtype, offset=1)
    out[:] = a
    assert not out.flags.aligned
    return out


def readonly(a):
    out = a.copy()
    out.flags.writeable = False
    return out


def table(a):
    out = np.zeros((a.size, 3), a.dtype)
    out[:, 1] = a
    return out[:, 1]


def record(a):
    out = np.zeros(a.size, [("x", "i1"), ("y", a.dtype)])  # strided and unaligned
    out["y"] = a
    return out["y"]


RIGHT = {
    "unaligned": unaligned,
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "backwards": lambda a: a[::-1].copy()[::-1],
    "every third": table,
    "in records": record,
    "read only": readonly,
    "read only bytes": lambda a: np.frombuffer(a.tobytes(), a.dtype),
    "memoryview": memoryview,
    "array.array": lambda a: array.array("q", a.tolist()),
    "a list": lambda a: a.tolist(),
    "int16": lambda a: a.astype(np.int16),
    "uint64": lambda a: a.astype(np.uint64),
    "unaligned and swapped": lambda a: unaligned(a.astype(a.dtype.newbyteorder())),
    "__array__": Array,
}
#: The right answer or an error.
EITHER = {
    "a subclass": lambda a: a.view(Sub),
    "__dlpack__": Packed,
}
WRONG = {
    "objects": lambda a: a.astype(object),
    "strings": lambda a: a.astype(str),
    "complex": lambda a: a.astype(complex),
    "times": lambda a: a.astype("m8[s]"),
    "long doubles": lambda a: a.astype(np.longdouble),
    "no dimension": lambda a: a[0].reshape(()),
    "a mask": lambda a: np.ma.array(a, mask=a == 900),
    "__array__ of no array": lambda a: Array("ninety"),
    "__array__ of strings": lambda a: Array(a.astype(str)),
    "a set": set,
    "an iterator": iter,
    "bytes": lambda a: a.tobytes(),
}


def plain(result):
    """What came out, as something to compare."""
    if isinstance(result, tuple):
        return [plain(part) for part in result]
    for part in ("items", "bits"):
        if hasattr(result, part):
            return list(getattr(result, part))
    if hasattr(result, "values") and not callable(result.values):
        return list(result.values)
    return result.tolist() if hasattr(result, "tolist") else result


@pytest.mark.parametrize("name", CALLS)
def test_layouts(name):
    call = CALLS[name]
    right = plain(call(COUNTS))
    for how, lay in (RIGHT | EITHER).items():
        try:
            got = plain(call(lay(COUNTS)))
        except (TypeError, ValueError):
            # A few read arrays alone: what they are given is then plainly no array.
            assert how in EITHER or name == "count_sets", how
            continue
        assert got == right, how
    for how, lay in WRONG.items():
        if name == "SparseVector" or (name, how) != ("sparse_vector", "an iterator"):
            with pytest.raises((TypeError, ValueError)) as caught:
                call(lay(COUNTS))
            assert "900" not in str(caught.value), how


def masked(values):
    return np.ma.array(values, mask=np.zeros(np.shape(values), bool))


MASKED = {
    "users": lambda: dp.Histogram.from_events((masked([1]), ["a"]), user="user", item="item"),
    "items": lambda: dp.Histogram.from_events(([1], masked(["a"])), user="user", item="item"),
    "a domain": lambda: dp.Histogram.from_events(
        ([1], ["a"]), user="user", item="item", domain=masked(["a"])
    ),
    "labels": lambda: dp.Histogram([3, 2], masked(["a", "b"])),
    "labels of the largest": lambda: dp.Histogram.truncated(
        [3, 2], masked(["a", "b"]), next_count=0, k_bar=2
    ),
    "labels of weights": lambda: dp.Histogram.from_weights([3, 2], masked(["a", "b"]), soft_cap=2),
    "rows": lambda: dp.Histograms(masked([[1, 2]]), max_groups_per_user=1),
    "groups": lambda: dp.Histograms([[1, 2]], groups=masked(["a"]), max_groups_per_user=1),
    "offsets": lambda: dp.argtopk([3, 1], 1, offsets=masked([0, 2])),
    "comparisons": lambda: dp.rank_pairs(
        masked(WINS), degree=5, comparisons_per_pair=40, **seeded()
    ),
    "counts to measure by": lambda: dp.metrics.f1_score([0], masked([3, 2]), 1),
}


@pytest.mark.parametrize("what", MASKED)
def test_no_mask_is_lost(what):
    """Whether it hides anything or not: that would be data."""
    with pytest.raises((TypeError, ValueError), match=r"(?i)masked ?array"):
        MASKED[what]()


WINS = np.random.default_rng(1).multinomial(40, [0.5, 0.5], (6, 6))[..., 0]
WINS = np.triu(WINS, 1) + np.tril(40 - WINS.T, -1)
SQUARES = {
    "unaligned": lambda a: unaligned(a.ravel()).reshape(a.shape),
    "by columns": np.asfortranarray,
    "turned twice": lambda a: np.ascontiguousarray(a.T).T,
    "every other": lambda a: np.repeat(np.repeat(a, 2, 0), 2, 1)[::2, ::2],
    "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
} | {
    how: RIGHT[how]
    for how in ("byte-swapped", "read only", "memoryview", "a list", "int16", "uint64", "__array__")
}


def test_layouts_of_comparisons():
    def call(wins):
        return plain(dp.rank_pairs(wins, degree=5, comparisons_per_pair=40, **seeded()))

    right = call(WINS)
    for how, lay in SQUARES.items():
        assert call(lay(WINS)) == right, how
    for how in ("objects", "strings", "complex", "times", "long doubles", "an iterator", "bytes"):
        with pytest.raises((TypeError, ValueError)):
            call(WRONG[how](WINS))
    with pytest.raises(TypeError):
        call(WINS.astype(float))


@pytest.mark.parametrize("name", CALLS)
def test_one_number_for_all(name):
    """An array of stride 0: as long as it says, and as large as one number."""
    one = np.broadcast_to(np.int64(9), COUNTS.shape)
    assert plain(CALLS[name](one)) == plain(CALLS[name](one.copy()))


def test_bounds_of_rows_are_read_once():
    """Else another thread could move them after they were checked, and memory elsewhere is read."""
    from dptopk._argtopk import row_bounds

    offsets = np.array([0, 100, 100, 3000])
    bounds = row_bounds(offsets, 3000)
    offsets[:] = 10**15
    assert bounds.tolist() == [0, 100, 100, 3000]


@pytest.mark.slow
def test_rows_whose_bounds_a_thread_moves():
    offsets = np.array([0, 100, 100, 3000])
    over = threading.Event()

    def move():
        while not over.is_set():
            offsets[1:3] = 10**15
            offsets[1:3] = 100

    mover = threading.Thread(target=move)
    mover.start()
    end = time.monotonic() + 0.5
    try:
        while time.monotonic() < end:
            try:
                found = dp.argtopk(COUNTS, 5, offsets=offsets)
            except ValueError as error:
                assert str(error).startswith("offsets must")  # noqa: PT017
                continue
            assert ((found.indices >= 0) & (found.indices < 3000)).all()
    finally:
        over.set()
        mover.join()


class Fickle:
    """Another array every time it is asked."""

    def __init__(self, a):
        self.left = [a.astype(float)[:3], np.zeros(9_000, np.int64), a]

    def __array__(self, dtype=None, copy=None):
        return self.left.pop()


@pytest.mark.parametrize("name", CALLS)
def test_an_object_is_asked_for_its_array_once(name):
    call = CALLS[name]
    try:
        got = plain(call(Fickle(COUNTS)))
    except (TypeError, ValueError):
        assert name == "count_sets"
    else:
        assert got == plain(call(COUNTS))


def test_a_length_that_is_a_lie():
    class Long(list):
        def __len__(self):
            return 10**9

    assert sorted(dp.peel(Long([1, 2, 3]), k=3, epsilon=1.0).items) == [0, 1, 2]
    assert dp.argtopk(Long([1, 2, 3]), 1).tolist() == [2]
