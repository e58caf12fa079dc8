"""Histogram: what it holds, what it refuses, and what it must not tell."""

import copy
import pickle
from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, UnknownDomainError
from dptopk._counts import HEAD

DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">u8"]


def skewed(d, seed=0):
    return np.random.default_rng(seed).zipf(1.5, size=d).clip(max=10**6).astype(np.int64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("view", ["plain", "strided", "reversed", "read-only"])
def test_any_integer_array_gives_the_same_histogram(dtype, view):
    counts = np.random.default_rng(1).integers(0, 100, size=40).astype(dtype)
    if view == "strided":
        counts = np.repeat(counts, 3)[::3]
    elif view == "reversed":
        counts = counts[::-1].copy()[::-1]
    elif view == "read-only":
        counts.flags.writeable = False
    h = dp.Histogram(counts)
    plain = counts.astype(np.int64)
    assert (h.counts == plain).all()
    assert h.n_items == len(h) == 40
    top, items = h.head(7)
    order = np.lexsort((np.arange(40), -plain))[:7]
    assert (items == order).all()
    assert (top == plain[order]).all()


def test_what_the_guards_rest_on_cannot_be_set():
    h = dp.Histogram.truncated([7], ["a"], next_count=0, k_bar=50)
    for name in ("known_domain", "k_bar", "n_items", "max_items_per_user"):
        with pytest.raises(AttributeError):
            setattr(h, name, 1)


def test_it_is_a_copy():
    counts = np.array([5, 1, 3])
    h = dp.Histogram(counts)
    counts[:] = 99
    assert h.counts.tolist() == [5, 1, 3]


@pytest.mark.parametrize("d", [1, 2, HEAD - 1, HEAD, HEAD + 1, 2 * HEAD + 1, 50_000])
def test_groups_are_the_counts_of_counts(d):
    counts = skewed(d)
    values, sizes = dp.Histogram(counts).groups
    expected, multiplicity = np.unique(counts, return_counts=True)
    assert (values == expected[::-1]).all()
    assert (sizes == multiplicity[::-1]).all()


def test_groups_of_wide_counts():
    counts = np.random.default_rng(2).integers(0, 2**62, size=5000)
    counts[:100] = counts[200:300]
    values, sizes = dp.Histogram(counts).groups
    expected, multiplicity = np.unique(counts, return_counts=True)
    assert (values == expected[::-1]).all()
    assert (sizes == multiplicity[::-1]).all()


@pytest.mark.parametrize("k_bar", [1, 3, HEAD, HEAD + 5, 5000, 9999, 10_000, 20_000])
def test_truncating_keeps_the_top_and_the_next(k_bar):
    counts = skewed(10_000)
    h = dp.Histogram(counts)
    cut = h.truncate(k_bar)
    down = np.sort(counts)[::-1]
    assert cut.is_truncated
    assert cut.k_bar == k_bar
    assert cut.n_items == 10_000
    assert cut.head(k_bar)[0].tolist() == down[:k_bar].tolist()
    expected = int(down[k_bar]) if k_bar < 10_000 else 0
    assert cut.cut(k_bar)[2] == h.cut(k_bar)[2] == expected
    with pytest.raises(ValueError, match=f"k_bar must be at most {k_bar}"):
        cut.truncate(k_bar + 1)
    if k_bar > 1:
        assert cut.truncate(1).cut(1)[2] == down[1]


def test_truncated_rows_in_any_order():
    h = dp.Histogram.truncated([3, 9, 9], ["c", "b", "a"], next_count=2, k_bar=3)
    assert h.head(3)[0].tolist() == [9, 9, 3]
    assert h.labels_of(h.head(3)[1]) == ("b", "a", "c")  # equal rows as the engine ordered them
    assert h.cut(3)[2] == 2
    assert h.cut(2)[2] == 3
    assert not h.known_domain
    assert h.n_items is None


def test_fewer_rows_than_asked_for_count_zero():
    h = dp.Histogram.truncated([7], ["a"], next_count=0, k_bar=50)
    assert h.cut(50)[2] == 0
    assert h.cut(1)[2] == 0
    assert dp.limited_domain(h, k=5, epsilon=8, delta=1e-3).items in {(), ("a",)}
    empty = dp.Histogram.truncated([], [], next_count=0, k_bar=50)
    release = dp.limited_domain(empty, k=5, epsilon=1, delta=1e-3)
    assert release.items == ()
    assert not release.complete


@pytest.mark.parametrize(
    ("counts", "error", "message"),
    [
        ([1.5, 2.0], TypeError, "counts must be an array of integers, got float64"),
        ([True, False], TypeError, "counts must be an array of integers, got bool"),
        (
            ["a"],
            TypeError,
            "counts must be an array of integers, got str_; .*from_events",
        ),
        ([None], TypeError, "counts must be an array of integers, got object"),
        ([[1, 2]], ValueError, "counts must have one dimension, got 2"),
        ([], ValueError, "counts must hold at least one item"),
        ([3, -7], ValueError, "counts must not be negative"),
        ([[1], [2, 3]], ValueError, "counts must have one dimension"),
        (np.ma.array([3, 7], mask=[0, 1]), TypeError, ".*masked array"),
        (np.array([1, 2**63], np.uint64), ValueError, r"counts must be below 2\*\*63"),
    ],
)
def test_bad_counts(counts, error, message):
    with pytest.raises(error, match=f"^{message}"):
        dp.Histogram(counts)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (["a"], ValueError, "labels must be as many as the counts"),
        (["a", None], ValueError, "labels must not contain None or NaN"),
        ([1.0, float("nan")], ValueError, "labels must not contain None or NaN"),
        (np.array([1.0, np.nan]), ValueError, "labels must not contain None or NaN"),
        ("ab", TypeError, "labels must be a sequence"),
        ([1, Decimal("NaN")], ValueError, "labels must not contain None or NaN"),
        (np.array(["NaT", "NaT"], "M8[D]"), ValueError, "labels must not contain None or NaN"),
        ({"a", "b"}, ValueError, "labels must be a sequence of one dimension, got 0"),
        (iter("ab"), ValueError, "labels must be a sequence of one dimension, got 0"),
        (np.array([["a"], ["b"]]), ValueError, "labels must be a sequence of one dimension, got 2"),
    ],
)
def test_bad_labels(labels, error, message):
    with pytest.raises(error, match=f"^{message}"):
        dp.Histogram([1, 2], labels=labels)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"k_bar": 1}, ValueError, "counts must not hold more rows than k_bar"),
        ({"k_bar": 0}, ValueError, "k_bar must be an integer >= 1, got 0"),
        ({"k_bar": 2.0}, TypeError, "k_bar must be an integer, got float"),
        ({"labels": ["a", "a"]}, ValueError, "labels must be distinct"),
        ({"labels": None}, TypeError, "labels must be given"),
        ({"labels": ["a", None]}, ValueError, "labels must not contain None"),
        ({"counts": [5, 0]}, ValueError, "counts must be >= 1"),
        ({"next_count": -1}, ValueError, "next_count must be an integer >= 0, got -1"),
        ({"next_count": 6}, ValueError, "next_count must not exceed the counts"),
        ({"next_count": 1, "k_bar": 3}, ValueError, "next_count must not exceed the counts"),
        ({"max_items_per_user": 0}, ValueError, "max_items_per_user must be an integer >= 1"),
    ],
)
def test_bad_rows(changes, error, message):
    good = {"counts": [9, 5], "labels": ["a", "b"], "next_count": 4, "k_bar": 2}
    dp.Histogram.truncated(**good)
    with pytest.raises(error, match=f"^{message}"):
        dp.Histogram.truncated(**{**good, **changes})


READ_OFF = {
    "truncated": lambda labels: dp.Histogram.truncated([9, 8], labels, next_count=0, k_bar=2),
    "from_weights": lambda labels: dp.Histogram.from_weights([9, 8], labels, soft_cap=1),
}


@pytest.mark.parametrize("door", READ_OFF)
@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (["secret", 7], TypeError, r"mixed kinds \(integer, text\)"),
        ([True, 7], TypeError, r"mixed kinds \(boolean, integer\)"),
        ([("a", 1), ("a", "b")], TypeError, "mixed kinds"),
        (np.array(["secret", 7], object), TypeError, "mixed kinds"),
        (["secret", object()], TypeError, "labels of type object"),
        ([object(), "secret"], TypeError, "labels of type object"),
        ([Fraction(1, 2), Fraction(1, 3)], TypeError, "labels of type Fraction"),
        (["secret", {}], TypeError, "labels of type dict"),
        ([("secret", None), ("b", 1)], ValueError, "must not contain None"),
        ([("secret", None), ("b", None)], ValueError, "must not contain None"),
    ],
)
def test_labels_read_off_the_data_are_of_one_kind(door, labels, error, message):
    with pytest.raises(error, match=message) as raised:
        READ_OFF[door](labels)
    assert "secret" not in str(raised.value)
    assert raised.value.__context__ is None


@pytest.mark.parametrize("door", READ_OFF)
@pytest.mark.parametrize(
    ("labels", "same"),
    [
        (["a", "b"], ["a", "b"]),
        ([np.str_("a"), "b"], ["a", "b"]),
        (np.array(["a", "b"], object), ["a", "b"]),
        ([np.int64(7), 8], [7, 8]),
        ([np.datetime64("2024-01-02"), date(2024, 1, 3)], [date(2024, 1, 2), date(2024, 1, 3)]),
        ([("a", np.int8(1)), ("b", 2)], [("a", 1), ("b", 2)]),
        (np.array([1.5, 2.5], np.float32), [1.5, 2.5]),
    ],
)
def test_labels_read_off_the_data_are_written_alike(door, labels, same):
    found = READ_OFF[door](labels).labels
    assert list(found) == same
    assert [type(label) for label in found if not isinstance(found, np.ndarray)] in (
        [], [type(label) for label in same]
    )  # fmt: skip


def test_from_events_counts_distinct_users():
    events = {"u": [1, 1, 1, 2, 3], "i": ["x", "x", "y", "x", "z"]}
    h = dp.Histogram.from_events(events, user="u", item="i")
    assert not h.known_domain
    assert dict(zip(h.labels, h.counts.tolist(), strict=True)) == {"x": 2, "y": 1, "z": 1}
    known = dp.Histogram.from_events(events, user="u", item="i", domain=["z", "w", "x"])
    assert known.counts.tolist() == [1, 0, 2]
    assert dp.peel(known, k=1, epsilon=50).labels == ("x",)
    cut = dp.Histogram.from_events(events, user="u", item="i", k_bar=2, max_items_per_user=1)
    assert cut.is_truncated
    assert cut.max_items_per_user == 1
    cut = dp.Histogram.from_events(events, user="u", item="i", k_bar=2, domain=["z", "w", "x"])
    assert cut.n_items == 3
    assert cut.counts.tolist() == [2, 1]


def test_full_domain_mechanisms_refuse_an_unknown_domain():
    events = {"u": [1, 2], "i": ["x", "y"]}
    h = dp.Histogram.from_events(events, user="u", item="i")
    with pytest.raises(UnknownDomainError, match=r"domain=.*limited_domain"):
        dp.peel(h, k=1, epsilon=1)
    with pytest.raises(ValueError, match="needs all counts"):
        dp.noisy_max(dp.Histogram([1, 2, 3]).truncate(1), epsilon=1, largest=False)


def test_an_unknown_domain_releases_labels_and_no_positions():
    events = {"u": list(range(60)), "i": ["x"] * 40 + ["y"] * 20}
    h = dp.Histogram.from_events(events, user="u", item="i")
    release = dp.limited_domain(h, k=1, epsilon=5, delta=1e-3)
    assert release.indices is None
    assert release.labels == ("x",)


def test_reprs_tell_nothing_of_the_data():
    few = dp.Histogram.from_events({"u": [1], "i": ["secret"]}, user="u", item="i")
    many = dp.Histogram.from_events({"u": [1] * 9, "i": list("abcdefghi")}, user="u", item="i")
    assert repr(few) == repr(many) == "Histogram(unknown domain)"
    assert repr(dp.Histogram([777, 888])) == "Histogram(n_items=2, known domain)"


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_a_release_can_be_copied_and_sent(again):
    unknown = dp.Histogram.truncated([900, 5], ["x", "y"], next_count=4, k_bar=2)
    for release in (
        dp.peel([1, 900, 3], k=2, epsilon=9),
        dp.limited_domain(unknown, k=2, epsilon=5, delta=1e-6, rng=SeededRng(1)),
    ):
        twin = again(release)
        assert (twin, hash(twin), repr(twin)) == (release, hash(release), repr(release))
        assert twin.indices is None or not twin.indices.flags.writeable
        with pytest.raises(TypeError):
            twin.parameters["k"] = 3


@pytest.mark.parametrize("labels", [["a", "b"], (3, 4), np.array([3, 4]), np.array(["a", "b"])])
def test_labels_come_back_as_plain_python(labels):
    release = dp.peel(dp.Histogram([1, 900], labels=labels), k=1, epsilon=5)
    assert release.labels == (list(labels)[1],)
    assert type(release.labels[0]) in (str, int)
