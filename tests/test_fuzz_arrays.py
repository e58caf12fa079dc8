"""Arrays of any type, shape and memory, and objects that lie: a right answer or a plain error."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from fuzzing import holds
from hypothesis import strategies as st
from test_layouts import CALLS, plain

import dptopk as dp
from dptopk import _validate

REFUSED = (TypeError, ValueError)


class Sub(np.ndarray):
    pass


class Once:
    """Another array each time that it is asked."""

    def __init__(self, *arrays):
        self.arrays = list(arrays)

    def __array__(self, dtype=None, copy=None):
        return self.arrays.pop(0) if len(self.arrays) > 1 else self.arrays[0]


class Longer(list):
    def __len__(self):
        return 10**9


class Shorter(list):
    def __len__(self):
        return max(0, super().__len__() - 1)


class Growing(list):
    def __iter__(self):
        self.append(1)
        return super().__iter__()


class Says:
    """What other libraries' arrays say of themselves, made up."""

    def __init__(self, a, **said):
        self.a = a
        for name, value in said.items():
            setattr(self, name, value)

    def __array__(self, dtype=None, copy=None):
        return self.a


class Device(Says):
    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        return self.capsule


class Bare:
    def __init__(self, device, capsule):
        self.device, self.capsule = device, capsule

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        return self.capsule


class Struct:
    """Bytes that say that they are more than they are."""

    def __init__(self, shape):
        self.__array_interface__ = {
            "data": b"12345678", "shape": shape, "typestr": "<i8", "version": 3,
        }  # fmt: skip


JUNK = st.sampled_from([None, (), (1,), ("cpu", 0), (1, 0), (2, 0), 7, "x", [], (99, 0), (True, 0)])
NUMBERS = (
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
    hnp.boolean_dtypes(),
)
DTYPES = st.one_of(
    *(3 * NUMBERS),
    hnp.scalar_dtypes(),
    hnp.unicode_string_dtypes(),
    hnp.byte_string_dtypes(),
    hnp.array_dtypes(max_size=3),
    st.just(np.dtype(object)),
    st.just(np.dtype([])),
    st.just(np.dtype(np.longdouble)),
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)


def unaligned(a):
    if a.dtype.hasobject:
        return a
    out = np.frombuffer(bytearray(a.nbytes + 1), np.uint8, offset=1)[: a.nbytes]
    out[:] = np.frombuffer(a.tobytes(), np.uint8)
    return out.view(a.dtype).reshape(a.shape) if a.dtype.itemsize and a.size else a


LAYS = {
    "as it is": lambda a: a,
    "backwards": lambda a: a[..., ::-1] if a.ndim else a,
    "every other": lambda a: np.concatenate([a, a], -1)[..., ::2] if a.ndim else a,
    "turned": lambda a: a.T,
    "unaligned": unaligned,
    "stride 0": lambda a: np.broadcast_to(a.reshape(-1)[0], (4,)) if a.size else a,
    "read only": lambda a: np.broadcast_to(a, a.shape),
    "a subclass": lambda a: a.view(Sub),
    "masked": lambda a: np.ma.array(a),
    "a list": lambda a: a.tolist(),
    "a tuple": lambda a: tuple(a.tolist()) if a.ndim else a.tolist(),
    "memory": lambda a: memoryview(a) if a.dtype.kind in "biuf" and a.dtype.isnative else a,
    "bytes": lambda a: a.tobytes(),
    "a scalar": lambda a: a[()],
    "an object": Once,
    "another each time": lambda a: Once(a, a[:0] if a.ndim else a, "none"),
    "ragged": lambda a: [a.tolist(), [a.tolist()]],
    "longer": lambda a: Longer(a.tolist()) if a.ndim else a,
    "shorter": lambda a: Shorter(a.tolist()) if a.ndim else a,
    "growing": lambda a: Growing(a.tolist()) if a.ndim else a,
    "an iterator": lambda a: iter(a.tolist()) if a.ndim else a,
    "a set": lambda a: {str(a)},
    "a mapping": lambda a: dict(enumerate(a.tolist())) if a.ndim else {},
    "a type": type,
}
SAID = {
    "null_count": lambda a, junk: Says(a, null_count=junk),
    "null_count()": lambda a, junk: Says(a, null_count=lambda: junk),
    "device": lambda a, junk: Device(a, device=junk, capsule=junk),
    "dlpack": lambda a, junk: Bare((1, 0), junk),
    "dlpack's device": lambda a, junk: Bare(junk, junk),
    "interface's shape": lambda a, junk: Struct(junk),
    "index": lambda a, junk: Says(a, index=junk),
}


@st.composite
def arrays(draw):
    """Something like an array; and a plain one of the same numbers where that is clear."""
    dtype = draw(DTYPES)
    if dtype.kind == "O":
        values = st.one_of(st.integers(), st.floats(), st.none(), st.text(max_size=2))
        a = draw(hnp.arrays(dtype, draw(SHAPES), elements=values))
    else:
        with np.errstate(all="ignore"):  # long doubles past the others
            a = draw(hnp.arrays(dtype, draw(SHAPES)))
    if draw(st.integers(0, 5)) == 0:
        how = draw(st.sampled_from(list(SAID)))
        return SAID[how](a, draw(JUNK)), None if how == "interface's shape" else a
    how = draw(st.sampled_from(list(LAYS)))
    made = LAYS[how](a)
    if how in ("growing", "an iterator"):  # whatever it had come to
        return made, None
    return made, made if isinstance(made, np.ndarray) else a


K = st.one_of(
    st.integers(-1, 6), st.sampled_from([2**63, 10**30, 1.0, "1", None, True, np.int8(2)])
)


def ranks(column, k, largest, last):
    """The answer in plain Python; None where it has to be an error."""
    nans = [place for place, x in enumerate(column) if x != x]
    if (nans and not last) or not 0 <= k <= len(column):
        return None
    numbers = [place for place in range(len(column)) if column[place] == column[place]]
    numbers.sort(key=lambda place: (-column[place] if largest else column[place], place))
    return (numbers + nans)[:k]


def check_argtopk(pair, k, largest, last, valued):
    made, a = pair
    options = {"largest": largest, "nan": "last" if last else "error"}
    try:
        got = dp.topk(made, k, **options) if valued else dp.argtopk(made, k, **options)
    except REFUSED:
        return
    if a is None:
        return
    indices = got.indices if valued else got
    array = np.asarray(made) if isinstance(made, (list, tuple)) else a
    if not array.size:
        assert not indices.size
        return
    rows = array.reshape(-1, array.shape[-1])
    for row, found in zip(rows, indices.reshape(len(rows), -1), strict=True):
        assert found.tolist() == ranks(row.tolist(), k, largest, last)
    if valued:
        same = np.take_along_axis(array, indices, -1)
        assert np.array_equal(same, got.values, equal_nan=array.dtype.kind == "f")


WHICH = (arrays(), K, st.booleans(), st.booleans(), st.booleans())


def test_argtopk_of_anything(wide):
    holds(check_argtopk, *WHICH, number=150, wide=wide, times=6)


# ---- mechanisms: what they answer is what they answer for plain numbers


def as_numbers(array):
    """A plain array of the same numbers, by way of Python's."""
    return np.array(array.tolist(), array.dtype.newbyteorder("=")).reshape(array.shape)


def check_call(name, pair):
    made, a = pair
    try:
        got = plain(CALLS[name](made))
    except REFUSED:
        return
    if a is not None:
        array = np.asarray(made) if isinstance(made, (list, tuple)) else a
        assert got == plain(CALLS[name](as_numbers(array)))


NAMES = [name for name in CALLS if "ragged" not in name]


def test_mechanisms_of_anything(wide):
    holds(check_call, st.sampled_from(NAMES), arrays(), number=150, wide=wide, times=6)


# ---- and each of these checks sees a mistake

SWAPPED = np.array([3, 256, 2, 512, 5], ">i8")


def ties_backwards(a, k, **options):
    a = np.asarray(a)
    return a.size - 1 - ARGTOPK(a[::-1], k, **options)


def another_error(a, k, **options):
    if not isinstance(a, np.ndarray):
        raise IndexError
    return ARGTOPK(a, k, **options)


ARGTOPK = dp.argtopk


@pytest.mark.parametrize("broken", [ties_backwards, another_error])
def test_a_broken_argtopk_is_found_out(broken, monkeypatch):
    examples = [(np.array([1, 1, 0]), 2), ([3, 1, 2], 1)]
    for a, k in examples:
        check_argtopk((a, np.asarray(a)), k, True, False, False)
    monkeypatch.setattr(dp, "argtopk", broken)
    place = [ties_backwards, another_error].index(broken)
    a, k = examples[place]
    with pytest.raises((AssertionError, IndexError)):
        check_argtopk((a, np.asarray(a)), k, True, False, False)


@pytest.mark.parametrize("name", ["peel", "noisy_topk", "limited_domain"])
def test_an_order_of_bytes_that_is_not_looked_at_is_found_out(name, monkeypatch):
    check_call(name, (SWAPPED, SWAPPED))
    vector = _validate._vector
    monkeypatch.setattr(
        _validate, "_vector",
        lambda name, a, *more, **options: vector(name, a.view(np.int64), *more, **options),
    )  # fmt: skip
    with pytest.raises((AssertionError, ValueError)):
        check_call(name, (SWAPPED, SWAPPED))
