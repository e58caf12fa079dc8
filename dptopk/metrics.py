"""How good a selection is, by the measures of the papers: for experiments, not for release.

A measure compares what came out with the true counts, so its value is data.
Each takes the items that came out, in any order (fewer than k if a mechanism
stopped early); the true counts of all items, or of the largest at least; and k.
The true top k has its ties broken by item order. From a prepared Histogram it takes
microseconds; sums of integers are exact.

TS is Carvalho, Wang, Gondara and Miao 2020, "Differentially Private Top-k
Selection via Stability on Unknown Domain"; RD is Carvalho and Wang, "A Framework
for Practical Differentially Private Top-k Selection"; JOINT is Gillenwater,
Joseph, Munoz Medina and Ribero Diaz 2022, "A Joint Exponential Mechanism".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dptopk._argtopk import argtopk
from dptopk._validate import integer
from dptopk.histogram import Histogram
from dptopk.release import Release

__all__ = [
    "accuracy_alpha",
    "f1_score",
    "l_1_error",
    "l_inf_error",
    "number_returned",
    "score_ratio",
    "true_top_k_proportion",
]


def number_returned(picks: Any) -> int:
    """Return how many items came out (RD, section 8.3).

    Parameters
    ----------
    picks : Release, sequence or set
        Items.

    Returns
    -------
    int

    Examples
    --------
    >>> from dptopk.metrics import number_returned
    >>> number_returned(["ant", "cat"])
    2
    """
    return len(_items(picks))


def true_top_k_proportion(picks: Any, counts: Any, k: int) -> float:
    """Return how many of the true top k came out, divided by k (TS, section 6: P).

    Parameters
    ----------
    picks : Release, sequence or set
        Items: indices into `counts`, or its keys; of a Histogram its labels, if it has any.
    counts : Histogram, array_like of numbers, shape (d,), or mapping of label to number
        The true counts.
    k : int
        How many were asked for, 1 <= k <= d.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    TypeError, ValueError
        If an item is not among the counts or comes twice, or k is out of range.

    Examples
    --------
    >>> from dptopk.metrics import true_top_k_proportion
    >>> true_top_k_proportion([2, 3], [9, 1, 7, 3], 2)
    0.5
    """
    its = _compared(picks, counts, k)
    return its.hits / k


def f1_score(picks: Any, counts: Any, k: int) -> float:
    """Return 2 TP / (2 TP + FP + FN) (RD, equation 16).

    TP: items of the true top k that came out; FP: others that came out; FN:
    items of the true top k that did not.

    Parameters
    ----------
    picks, counts, k
        As in `true_top_k_proportion`.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> from dptopk.metrics import f1_score
    >>> f1_score({0}, [9, 1, 7, 3], 3)
    0.5
    """
    its = _compared(picks, counts, k)
    return 2 * its.hits / (its.came.size + k)  # TP + FP came out, TP + FN is k


def score_ratio(picks: Any, counts: Any, k: int) -> float:
    """Return the sum of the counts that came out over that of the true top k.

    RD, section 8.3: SR; the same as the relative sum S of TS, section 6.

    Parameters
    ----------
    picks, counts, k
        As in `true_top_k_proportion`.

    Returns
    -------
    float
        From 0 to 1; 1 where the true top k sums to 0.

    Examples
    --------
    >>> from dptopk.metrics import score_ratio
    >>> score_ratio(["cat"], {"ant": 3, "bee": 5, "cat": 4}, 2)
    0.4444444444444444
    """
    its = _compared(picks, counts, k)
    best = sum(its.best.tolist())
    return float(sum(its.came.tolist()) / best) if best else 1.0


def l_inf_error(picks: Any, counts: Any, k: int) -> float:
    """Return the largest of c_i - c'_i over the places i = 1 .. k (JOINT, Definition 1).

    c holds the counts of the true top k and c' those that came out, both in
    descending order. What did not come out counts 0.

    Parameters
    ----------
    picks, counts, k
        As in `true_top_k_proportion`.

    Returns
    -------
    float
        0 if the true top k came out.

    Examples
    --------
    >>> from dptopk.metrics import l_inf_error
    >>> l_inf_error([3, 0], [9, 1, 7, 3], 2)
    4.0
    """
    return float(max(_shortfall(picks, counts, k)))


def l_1_error(picks: Any, counts: Any, k: int) -> float:
    """Return the sum of abs(c_i - c'_i) over the places i = 1 .. k.

    The vectors of `l_inf_error` in the other norm; JOINT defines only the former.

    Parameters
    ----------
    picks, counts, k
        As in `true_top_k_proportion`.

    Returns
    -------
    float
        0 if the true top k came out.

    Examples
    --------
    >>> from dptopk.metrics import l_1_error
    >>> l_1_error([1, 3], [9, 1, 7, 3], 2)
    12.0
    """
    return float(sum(_shortfall(picks, counts, k)))


def accuracy_alpha(picks: Any, counts: Any, k: int) -> float:
    """Return the least alpha for which what came out is (alpha, k)-accurate.

    Durfee and Rogers 2019, Definition 3.1: no item that came out counts less than the k-th
    largest count less alpha. It does not ask for k items.

    Parameters
    ----------
    picks, counts, k
        As in `true_top_k_proportion`.

    Returns
    -------
    float
        0 if nothing came out, or only items of the true top k.

    Examples
    --------
    >>> from dptopk.metrics import accuracy_alpha
    >>> accuracy_alpha([0, 3], [9, 1, 7, 3], 2)
    4.0
    """
    its = _compared(picks, counts, k)
    return float(max([0, *(its.best.tolist()[-1] - count for count in its.came.tolist())]))


def _items(picks: Any, *, by_label: bool | None = None) -> list[Any]:
    """Return the items as a list; `by_label` says which of a Release's names are wanted."""
    if isinstance(picks, Release):
        if by_label is None:
            return list(picks.items)
        names = picks.labels if by_label else picks.indices
        if names is None:
            wanted = "labels" if by_label else "indices"
            raise TypeError(f"the release has no {wanted}: give the counts by the other")
        return list(names)
    if isinstance(picks, (str, bytes)) or not isinstance(picks, Iterable):
        raise TypeError(f"picks must be a Release, a sequence or a set, got {type(picks).__name__}")
    return list(picks)


class _Compared(NamedTuple):
    """What came out beside the true top k.

    hits : how many of the true top k came out
    best : their counts, descending
    came : the counts of what came out
    """

    hits: int
    best: np.ndarray
    came: np.ndarray


def _compared(picks: Any, counts: Any, k: int) -> _Compared:
    """Check what a measure was given, and look it up."""
    if isinstance(counts, Histogram):
        return _of_histogram(picks, counts, k)
    items = _items(picks, by_label=isinstance(counts, Mapping))
    places: list[int]
    if isinstance(counts, Mapping):
        place = {label: i for i, label in enumerate(counts)}
        values = np.array(list(counts.values()))
        places = _places(items, place)
    else:
        if isinstance(counts, np.ma.MaskedArray):
            raise TypeError("counts must be numbers, got a masked array: its mask would be lost")
        values = np.asarray(counts)
        places = [integer("an item of picks", item, minimum=0) for item in items]
        if any(place >= values.size for place in places):
            raise ValueError("picks must be indices into the counts")
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise TypeError("counts must be numbers in one dimension")
    k = _k(places, values.size, k)
    top, chosen = argtopk(values, k), np.array(places, dtype=np.int64)
    return _Compared(int(np.isin(chosen, top).sum()), values[top], values[chosen])


def _of_histogram(picks: Any, h: Histogram, k: int) -> _Compared:
    released = picks.indices is not None if isinstance(picks, Release) else h.labels is None
    items = _items(picks, by_label=not released)
    if released:
        places = [integer("an item of picks", item, minimum=0) for item in items]
        if any(place >= (h.n_items or 0) for place in places):
            raise ValueError("picks must be indices into the counts")
    elif h.domain_labels is None:
        raise TypeError("the counts have no labels")
    else:
        kept = h.head(len(h))[1] if h.tail is None else np.arange(len(h))
        labels = h.labels_of(kept) or ()
        places = _places(items, dict(zip(labels, kept.tolist(), strict=True)))
    k = _k(places, len(h), k)
    best, top = h.head(k)
    chosen = np.array(places, dtype=np.int64)
    came = h.counts_of(chosen)
    if (came < 0).any():
        raise ValueError("picks must be among the counts that the histogram holds")
    return _Compared(int(np.isin(chosen, top).sum()), best, came)


def _places(items: list[Any], place: dict[Any, int]) -> list[int]:
    if not all(item in place for item in items):
        raise ValueError("picks must be among the labels of the counts")
    return [place[item] for item in items]


def _k(places: list[int], n_items: int, k: int) -> int:
    if len(set(places)) != len(places):
        raise ValueError("picks must not hold an item twice")
    k = integer("k", k)
    if not len(places) <= k <= n_items:
        raise ValueError("k must be at least the number of picks and at most that of counts")
    return k


def _shortfall(picks: Any, counts: Any, k: int) -> list[Any]:
    """Return how far each place falls short, as Python numbers, which don't wrap."""
    its = _compared(picks, counts, k)
    came = sorted(its.came.tolist(), reverse=True) + [0] * (k - its.came.size)
    return [abs(a - b) for a, b in zip(its.best.tolist(), came, strict=True)]
