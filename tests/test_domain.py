"""The rules of k_bar, of a user's bound and of labels, and that every door keeps them."""

import datetime
import inspect

import numpy as np
import pytest

import dptopk as dp
from dptopk import domain

COUNTS = [40, 30, 7, 5, 3]
EVENTS = {"user": [1, 1, 2, 2, 3, 4], "item": ["a", "b", "a", "b", "a", "c"]}
TOTAL = {"epsilon": 1.0, "delta": 1e-3}
PURE = {"epsilon": 1.0}
PICKED = dp.Histogram(COUNTS)


def session():
    return dp.Session(k_star=9, calls=9, **TOTAL)


def by_filter(h, **options):
    return dp.Filter(**TOTAL).limited_domain(h, epsilon_step=0.1, delta_threshold=1e-4, **options)


#: Every function that takes a bound on a user's items, with what else it needs.
BOUNDED = {
    "limited_domain": lambda h, **o: dp.limited_domain(h, k=1, **TOTAL, **o),
    "limited_domain_laplace": lambda h, **o: dp.limited_domain_laplace(h, k=1, **TOTAL, **o),
    "oneshot": lambda h, **o: dp.oneshot(h, k=1, **PURE, **o),
    "oneshot, gaussian": lambda h, **o: dp.oneshot(h, k=1, noise="gaussian", **TOTAL, **o),
    "restricted_oneshot": lambda h, **o: dp.restricted_oneshot(h, k=1, **TOTAL, **o),
    "restricted_normal": lambda h, **o: dp.restricted_normal(h, k=1, **TOTAL, **o),
    "restricted": lambda h, **o: dp.restricted("normal", h, k=1, options=o, **TOTAL),
    "noisy_counts": lambda h, **o: dp.noisy_counts(dp.peel(h, k=1, **PURE), h, **PURE, **o),
    "Session": lambda h, **o: session().limited_domain(h, k=1, **o),
    "Filter": lambda h, **o: by_filter(h, k=1, **o),
}
HISTOGRAMS = {
    "events": dp.Histogram.from_events(
        EVENTS, user="user", item="item", domain=["a", "b", "c"], max_items_per_user=2
    ),
    "truncated": dp.Histogram.truncated(
        [40, 30, 7], ["a", "b", "c"], next_count=1, k_bar=3, max_items_per_user=2
    ),
    "truncated again": dp.Histogram.from_events(
        EVENTS, user="user", item="item", max_items_per_user=2
    ).truncate(2),
}
KNOWN_ONLY = ("oneshot", "oneshot, gaussian", "noisy_counts")
WEIGHTED = {
    "weighted": lambda h, **o: dp.weighted(h, k=1, **TOTAL, **o),
    "Filter.weighted": lambda h, **o: dp.Filter(**TOTAL).weighted(h, k=1, rho=0.01, **o),
}


def test_every_function_that_takes_a_bound_is_here():
    """But for `verify` and `plan`, whose histograms are their own."""
    named = {dp.Session: "Session", dp.Filter: "Filter"}
    functions = {
        name: getattr(dp, name) for name in dp.__all__ if inspect.isfunction(getattr(dp, name))
    }
    for budget, name in named.items():
        functions |= {f"{name}.{method}": f for method, f in inspect.getmembers(budget, callable)
                      if not method.startswith("_")}  # fmt: skip
    taking = {
        name for name, f in functions.items()
        if "max_items_per_user" in inspect.signature(f).parameters
    }  # fmt: skip
    tried = {*BOUNDED, *WEIGHTED, "Session.limited_domain", "Filter.limited_domain",
             "Filter.weighted"}  # fmt: skip
    assert taking - {"verify", "plan"} <= tried
    assert len(taking) >= 9


def uncut(soft_cap=None, **options):
    domain = ["a", "b", "c"]
    more = {} if soft_cap is None else {"soft_cap": soft_cap, "norm": "l2"}
    return dp.Histogram.from_events(
        EVENTS, user="user", item="item", domain=domain, **more, **options
    )


@pytest.mark.parametrize(
    ("name", "call", "soft_cap"),
    [
        *((name, call, None) for name, call in BOUNDED.items()),
        *((name, call, 1) for name, call in WEIGHTED.items()),
    ],
)
def test_a_bound_that_the_events_were_not_cut_to_is_refused(name, call, soft_cap):
    """Unless the caller vouches for it, where the histogram is made."""
    for h in (uncut(soft_cap), uncut().truncate(3)) if soft_cap is None else (uncut(soft_cap),):
        if h.is_truncated and name in KNOWN_ONLY:
            continue
        with pytest.raises(ValueError, match=r"^max_items_per_user=2 is claimed of .*from_events"):
            call(h, max_items_per_user=2)
        if name != "limited_domain_laplace":  # which needs one
            call(h)
    vouched = uncut(soft_cap, max_items_per_user=2, bounded_by_nature=True)
    cut = uncut(soft_cap, max_items_per_user=1)
    assert vouched.counts.tolist() == uncut(soft_cap).counts.tolist()
    assert cut.counts.sum() < vouched.counts.sum()
    for h in (vouched, cut):
        call(h, max_items_per_user=2)
    if soft_cap is None:
        brought = dp.Histogram([3, 2, 1])
    else:
        brought = dp.Histogram.from_weights([3, 2, 1], soft_cap=1, domain_is_public=True)
    call(brought, max_items_per_user=2)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"bounded_by_nature": True}, ValueError, "bounded_by_nature goes with max_items_per_user"),
        ({"bounded_by_nature": 1, "max_items_per_user": 2}, TypeError, "bounded_by_nature must be"),
        ({"bounded_by_nature": True, "max_items_per_user": 0}, ValueError, "max_items_per_user"),
    ],
)
def test_bad_vouching(options, error, message):
    with pytest.raises(error, match=message):
        uncut(**options)


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("kind", HISTOGRAMS)
def test_a_bound_below_that_of_the_histogram_is_refused(name, kind):
    if kind != "events" and name in KNOWN_ONLY:
        pytest.skip("needs a known domain")
    h, call = HISTOGRAMS[kind], BOUNDED[name]
    with pytest.raises(ValueError, match=r"^max_items_per_user must be at least 2, .*got 1$"):
        call(h, max_items_per_user=1)
    for true in (None, 2, 3):
        assert call(h, max_items_per_user=true) is not None


@pytest.mark.parametrize("name", ["Session", "Filter"])
def test_nothing_is_charged_for_a_bound_that_is_refused(name):
    budget = dp.Session(k_star=9, calls=9, **TOTAL) if name == "Session" else dp.Filter(**TOTAL)
    before, more = budget.remaining, {}
    if name == "Filter":
        more = {"epsilon_step": 0.1, "delta_threshold": 1e-4}
    with pytest.raises(ValueError, match="max_items_per_user"):
        budget.limited_domain(HISTOGRAMS["events"], k=1, max_items_per_user=1, **more)
    assert budget.remaining == before


#: Every mechanism that takes an unknown domain.
ANY_DOMAIN = {
    "limited_domain": lambda h: dp.limited_domain(h, k=1, **TOTAL),
    "limited_domain, private": lambda h: dp.limited_domain(h, k=1, k_bar="private", **TOTAL),
    "limited_domain_laplace": lambda h: dp.limited_domain_laplace(
        h, k=1, max_items_per_user=2, **TOTAL
    ),
    "with counts": lambda h: dp.limited_domain_laplace(
        h, k=1, max_items_per_user=2, release_counts=True, **TOTAL
    ),
    "top_stable": lambda h: dp.top_stable(h, k=1, **TOTAL),
    "restricted_gumbel": lambda h: dp.restricted_gumbel(h, k=1, **TOTAL),
    "restricted_oneshot": lambda h: dp.restricted_oneshot(h, k=1, **TOTAL),
    "restricted_permute_and_flip": lambda h: dp.restricted_permute_and_flip(h, k=1, **TOTAL),
    "restricted_normal": lambda h: dp.restricted_normal(h, k=1, max_items_per_user=2, **TOTAL),
    "restricted": lambda h: dp.restricted(
        lambda h, k: range(k), h, k=1, mechanism_epsilon=0.5, **TOTAL
    ),
    "Session": lambda h: session().limited_domain(h, k=1),
    "Filter": lambda h: by_filter(h, k=1),
    "noisy_counts": lambda h: dp.noisy_counts(dp.top_stable(h, k=1, **TOTAL), h, **PURE),
}
LARGEST = 2**63 - 1


@pytest.mark.parametrize("name", ANY_DOMAIN)
@pytest.mark.parametrize("next_count", [LARGEST, LARGEST - 1, 0])
def test_counts_at_the_end_of_int64(name, next_count):
    """A threshold above the largest int64 is refused by name; below it all is in range."""
    h = dp.Histogram.truncated([LARGEST], ["a"], next_count=next_count, k_bar=1)
    if next_count == LARGEST:
        with pytest.raises(ValueError, match=r"^counts must be below 2\*\*63 - 1$"):
            ANY_DOMAIN[name](h)
    else:
        assert ANY_DOMAIN[name](h).labels in (("a",), ())


def test_defaults_of_k_bar():
    assert [domain.default_k_bar(k) for k in (1, 100, 500)] == [1000, 1000, 5000]
    assert [domain.restricted_k_bar(k) for k in (7, 100)] == [1000, 5000]
    assert [domain.private_limit(k) for k in (1, 1000, 10_000, 90_000)] == [
        10_000, 100_000, 100_000, 180_000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("k", "k_bar", "limit", "n_items", "expected"),
    [
        (2, None, None, None, 10),
        (2, None, 7, None, 7),
        (2, None, 70, None, 10),
        (2, None, None, 4, 4),
        (2, 5, None, None, 5),
        (2, 5, 5, None, 5),
        (2, 5, None, 3, 3),
        (2, None, 1, None, "k must be at most 1, where the histogram was truncated; got 2"),
        (2, 1, None, None, "k must be at most k_bar = 1, got 2"),
        (2, 8, 7, None, "k_bar must be at most 7, where the histogram was truncated; got 8"),
        (2, 5, None, 1, "k must be at most k_bar = 1, got 2"),
        (2, 0, None, None, "k_bar must be an integer >= 1, got 0"),
    ],
)
def test_the_rule_of_k_bar(k, k_bar, limit, n_items, expected):
    options = {"default": 10, "limit": limit, "n_items": n_items}
    if isinstance(expected, int):
        assert domain.k_bar_of(k, k_bar, **options) == expected
    else:
        with pytest.raises(ValueError, match=f"^{expected}$"):
            domain.k_bar_of(k, k_bar, **options)


def test_what_one_user_moves_is_as_in_the_reference():
    from dptopk.reference.limited_domain import movable

    for k_bar in range(1, 6):
        for n_items in (None, *range(1, 8)):
            for user in (None, *range(1, 8)):
                options = {"n_items": n_items, "max_items_per_user": user}
                assert domain.movable(k_bar, **options) == movable(k_bar, **options)


DAY = datetime.date(2024, 2, 29)
LABELS = {
    "text": (["a", "b"], ("b", "a")),
    "array of text": (np.array(["a", "b"]), ("b", "a")),
    "integers": (np.array([3, 4], np.int8), (4, 3)),
    "booleans": (np.array([True, False]), (False, True)),
    "dates": ([DAY, "x"], ("x", DAY)),
    "bytes": (np.array([b"a\0", b"b"]), (np.bytes_(b"b"), np.bytes_(b"a"))),
    "instants": (
        np.array(["2024-02-29T01", "1970-01-01T00:00:00.000000001"], "M8[ns]"),
        (np.datetime64(1, "ns"), np.datetime64("2024-02-29T01", "ns")),
    ),
    "durations": (np.array([5, 7], "m8[ns]"), (np.timedelta64(7, "ns"), np.timedelta64(5, "ns"))),
    "objects": (np.array([(1, 2), None], object), (None, (1, 2))),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_keep_their_type(kind):
    labels, expected = LABELS[kind]
    found = domain.labels_at(labels, np.array([1, 0]))
    assert found == expected
    assert [type(label) for label in found] == [type(label) for label in expected]


def test_ranking_keeps_the_type_of_labels():
    days = np.array(["2024-01-01", "2024-01-02"], "M8[D]")
    release = dp.rank_pairs(
        [[0, 9], [1, 0]], k=1, epsilon=9.0, degree=1, comparisons_per_pair=10, items=days
    )
    assert release.labels[0] in days
    assert isinstance(release.labels[0], np.datetime64)
