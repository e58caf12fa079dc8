"""argtopk and topk of rows, of ragged rows, of other libraries' arrays; and what they refuse."""

import itertools
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dptopk as dp
from dptopk._argtopk import AxisError

SHAPES = [(7,), (4, 6), (6, 4), (3, 4, 5), (2, 3, 4, 5), (1, 9), (9, 1), (0, 5), (5, 0), (3, 70)]


def expected_indices(a, k, axis, largest, sorted):
    """By NumPy's stable sort, of the array upside down where the largest are asked for."""
    if largest:
        order = np.flip(np.argsort(np.flip(a, axis), axis=axis, kind="stable"), axis)
        order = a.shape[axis] - 1 - order
    else:
        order = np.argsort(a, axis=axis, kind="stable")
    order = np.take(order, range(k), axis=axis)
    return order if sorted else np.sort(order, axis=axis)


@pytest.mark.parametrize("shape", SHAPES)
def test_any_axis(shape):
    rng = np.random.default_rng(len(shape))
    base = rng.integers(0, 5, shape)
    layouts = (
        base,
        np.asfortranarray(base.astype(np.float32)),
        np.repeat(base, 2, axis=-1)[..., ::2],
        np.flip(base.astype(np.uint8)),
        base.astype(">i4"),
    )
    axes = range(-len(shape), len(shape))
    for a, axis, largest, sorted in itertools.product(layouts, axes, (True, False), (True, False)):
        n = shape[axis]
        for k in {0, min(1, n), n // 2, n}:
            expected = expected_indices(a, k, axis, largest, sorted)
            for workers in (1, 3):
                got = dp.argtopk(a, k, axis, largest, sorted, workers=workers)
                assert got.shape == expected.shape
                assert got.dtype == np.int64
                assert np.array_equal(got, expected)
                assert got.flags.c_contiguous
            both = dp.topk(a, k, axis, largest, sorted)
            assert np.array_equal(both.indices, expected)
            assert both.values.dtype == a.dtype.newbyteorder("=")
            assert np.array_equal(both.values, np.take_along_axis(a, expected, axis))


def test_no_axis_takes_all_in_c_order():
    a = np.asfortranarray(np.random.default_rng(1).integers(0, 9, (5, 7)))
    assert np.array_equal(dp.argtopk(a, 12, None), dp.argtopk(a.ravel(), 12))
    assert dp.argtopk(np.float64(3), 1, axis=None).tolist() == [0]


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_axes_that_are_not_there_are_refused_as_numpy_does(axis):
    for a in (np.float64(3), np.zeros(4), np.zeros((2, 3))):
        if -a.ndim <= axis < a.ndim:
            assert dp.argtopk(a, 1, axis=axis).shape[axis] == 1
            continue
        messages = []
        for call in (lambda a: np.sort(a, axis=axis), lambda a: dp.argtopk(a, 1, axis=axis)):
            with pytest.raises(AxisError) as error:
                call(a)
            messages.append(str(error.value))
        assert messages[0] == messages[1]


def test_rows_with_nan():
    a = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, -np.inf]])
    for workers in (1, 2):
        with pytest.raises(ValueError, match="NaN"):
            dp.argtopk(a, 2, workers=workers)
        assert dp.argtopk(a, 2, nan="last", workers=workers).tolist() == [[2, 0], [2, 0]]
    with pytest.raises(ValueError, match="NaN"):
        dp.argtopk(a, 0)
    assert dp.argtopk(a, 0, nan="last").shape == (2, 0)


@pytest.mark.parametrize("kind", ["i8", "f4", "u1"])
def test_ragged_rows_are_the_loop(kind):
    rng = np.random.default_rng(3)
    lengths = np.r_[0, rng.integers(0, 9, 40), 0, 300, 1, 0]
    offsets = 2 + np.r_[0, np.cumsum(lengths)]
    a = rng.integers(0, 20, offsets[-1] + 3).astype(kind)
    for view in (a, np.repeat(a, 2)[::2], a[::-1]):
        for k, largest, sorted in itertools.product((0, 1, 4, 500), (True, False), (True, False)):
            rows = [
                start + dp.argtopk(view[start:stop], min(k, stop - start), -1, largest, sorted)
                for start, stop in itertools.pairwise(offsets)
            ]
            for workers, given in itertools.product((1, 3), (offsets, offsets.astype("i4"))):
                got = dp.argtopk(view, k, -1, largest, sorted, offsets=given, workers=workers)
                assert isinstance(got, dp.RaggedIndices)
                assert got.offsets.tolist() == [0, *np.cumsum([len(row) for row in rows])]
                assert np.array_equal(got.indices, np.concatenate(rows))
            both = dp.topk(view, k, -1, largest, sorted, offsets=offsets)
            assert np.array_equal(both.values, view[both.indices])
            assert both.values.dtype == view.dtype


def test_ragged_rows_without_any():
    for offsets in ([0], [3], np.zeros(4, int)):
        got = dp.topk([5, 6, 7], 2, offsets=offsets)
        assert got.indices.size == got.values.size == 0
        assert got.offsets.tolist() == [0] * len(offsets)


def test_ragged_rows_with_nan():
    a = [1.0, np.nan, 3.0, 4.0]
    for k in (0, 1):  # only what is in a row is looked at
        with pytest.raises(ValueError, match="NaN"):
            dp.argtopk(a, k, offsets=[0, 2, 4])
        assert dp.argtopk(a, k, offsets=[2, 4]).indices.tolist() == [3][:k]
    assert dp.argtopk(a, 1, offsets=[0, 2, 4], nan="last").indices.tolist() == [0, 3]


def chunked(values):
    return pa.chunked_array([values[:2], values[2:]])


NUMBERS = [3, 1, 4, 1, 5, 9, 2, 6]
#: What gives its numbers, and whether it does without a copy.
GIVERS = {
    "list": (list, False),
    "tuple": (tuple, False),
    "range": (lambda values: range(8), False),
    "memoryview": (lambda values: memoryview(np.array(values)), True),
    "pandas Series": (pd.Series, True),
    "pandas Index": (pd.Index, True),
    "pandas nullable": (lambda values: pd.Series(values, dtype="Int64"), False),
    "polars Series": (pl.Series, True),
    "pyarrow Array": (pa.array, True),
    "pyarrow floats": (lambda values: pa.array(values, pa.float32()), True),
    "pyarrow chunks": (chunked, False),
    "memmap": (lambda values: np.array(values).view(np.memmap), True),
}


@pytest.mark.parametrize("name", GIVERS)
def test_arrays_of_other_libraries(name):
    make, shares = GIVERS[name]
    given = make(NUMBERS)
    expected = dp.topk(list(given), 3) if name == "range" else dp.topk(np.array(NUMBERS), 3)
    got = dp.topk(given, 3)
    assert np.array_equal(got.indices, expected.indices)
    assert np.array_equal(got.values, expected.values)
    assert type(got.values) is type(got.indices) is np.ndarray
    if shares:
        from dptopk._dense import dense

        one, two = dense("a", given), dense("a", given)
        assert np.shares_memory(one, two)


class OnDevice:
    """What a tensor on another device shows of itself."""

    def __init__(self, device):
        self.device = device

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, **options):
        raise AssertionError("it must not be asked")

    def __array__(self, *args, **options):
        raise AssertionError("it must not be asked")


@pytest.mark.parametrize("device", [2, 8, 13])
def test_other_devices_are_refused(device):
    with pytest.raises(TypeError, match=f"in the memory of the CPU, got DLPack device {device}"):
        dp.argtopk(OnDevice(device), 1)


class Tensor:
    """One whose DLPack is NumPy's, on the CPU, and that is nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def test_dlpack():
    for a in (np.arange(6), np.arange(6.0)[::-1], np.arange(6, dtype=np.float16)):
        assert np.array_equal(dp.topk(Tensor(a), 2), dp.topk(a, 2))


class Quantity(np.ndarray):
    """A subclass that stands for more than its numbers."""


REFUSED = [
    (np.ma.masked_array([1, 2], [True, False]), TypeError, "plain array, got MaskedArray"),
    (np.array([[1, 2]]).view(np.matrix), TypeError, "plain array, got matrix"),
    (np.arange(3).view(Quantity), TypeError, "plain array, got Quantity"),
    (np.array([(1, 2.0)], dtype="i4,f4").view(np.recarray), TypeError, "got recarray"),
    (np.array([(1, 2.0)], dtype="i4,f4"), TypeError, "got void"),
    (np.array(["a"]), TypeError, "a must be an array of booleans, integers or floats"),
    (np.array([1, None]), TypeError, "got object"),
    (np.array([1j]), TypeError, "got complex128"),
    (np.array(["2020-01-01"], dtype="M8[D]"), TypeError, "got datetime64"),
    (np.array([1], dtype=np.longdouble), TypeError, "up to 64 bits"),
    ("text", TypeError, "got str"),
    (None, TypeError, "got object"),
    ({1: 2}, TypeError, "got object"),
    ([[1, 2], [3]], ValueError, "a must have rows of one length"),
    (pa.array([1, None]), ValueError, "a must not contain nulls"),
    (chunked(pa.array([1.0, None, 2.0])), ValueError, "a must not contain nulls"),
    (pl.Series([1, None]), ValueError, "a must not contain nulls"),
    (pa.array(["a"]), TypeError, "got object"),
]


@pytest.mark.parametrize(("a", "error", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refused(a, error, message):
    for call in (dp.argtopk, dp.topk):
        with pytest.raises(error, match=re.escape(message)):
            call(a, 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"k": -1}, ValueError, "k must be an integer >= 0, got -1"),
        ({"k": 4}, ValueError, "k must be at most the length of the axis, 3, got 4"),
        ({"k": 2**70}, ValueError, "k must be below 2**63"),
        ({"k": 1.0}, TypeError, "k must be an integer, got float"),
        ({"k": None}, TypeError, "k must be an integer, got NoneType"),
        ({"k": True}, TypeError, "k must be an integer, got bool"),
        ({"axis": 1.0}, TypeError, "axis must be an integer or None, got float"),
        ({"axis": "0"}, TypeError, "axis must be an integer or None, got str"),
        ({"axis": 3}, AxisError, "axis 3 is out of bounds for array of dimension 1"),
        ({"largest": 1}, TypeError, "largest must be True or False, got int"),
        ({"sorted": None}, TypeError, "sorted must be True or False, got NoneType"),
        ({"nan": "first"}, ValueError, "nan must be one of error, last, got 'first'"),
        ({"nan": None}, TypeError, "nan must be a string, got NoneType"),
        ({"axis": np.array([0, 1])}, TypeError, "axis must be an integer or None, got ndarray"),
        ({"workers": True}, TypeError, "workers must be an integer, got bool"),
        ({"workers": 1.0}, TypeError, "workers must be an integer, got float"),
        ({"nan": np.array(["error"])}, TypeError, "nan must be a string, got ndarray"),
        ({"workers": 0}, ValueError, "workers must be an integer >= 1, got 0"),
        ({"workers": 1.5}, TypeError, "workers must be an integer, got float"),
        ({"offsets": [0, 4]}, ValueError, "offsets must lie from 0 to the number of elements"),
        ({"offsets": [-1, 2]}, ValueError, "offsets must lie from 0"),
        ({"offsets": np.array([0, 2**64 - 1], "u8")}, ValueError, "offsets must lie from 0"),
        ({"offsets": [0, 2, 1]}, ValueError, "offsets must not fall"),
        ({"offsets": []}, ValueError, "offsets must have one dimension"),
        ({"offsets": 3}, ValueError, "offsets must have one dimension"),
        ({"offsets": [0.0, 1.0]}, TypeError, "offsets must be integers, got float64"),
        ({"offsets": [0, 3], "axis": 1}, ValueError, "a must have one dimension"),
        ({"offsets": [0, 3], "k": -1}, ValueError, "k must be an integer >= 0, got -1"),
    ],
)
def test_bad_arguments(options, error, message):
    for call in (dp.argtopk, dp.topk):
        for a in ([1, 2, 3], np.array([1, 2, 3])):
            with pytest.raises(error, match=re.escape(message)):
                call(a, **{"k": 1, **options})
    if "offsets" in options:
        with pytest.raises(ValueError, match="a must have one dimension"):
            dp.argtopk([[1, 2, 3]], 1, offsets=[0, 1])


def test_k_beyond_an_empty_array():
    with pytest.raises(ValueError, match="the length of the axis, 0, got 1"):
        dp.argtopk([], 1)
    assert dp.argtopk([], 0).shape == (0,)
    assert dp.topk([], 0).values.dtype == np.int64
