"""Known domains that no array holds: items left out count what the next one does."""

import itertools
import math

import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.accounting import gaussian_sigma
from dptopk.mechanisms._select import outside
from dptopk.mechanisms.noisy_counts import ANY_ITEM
from dptopk.mechanisms.table import MECHANISMS
from dptopk.verification.truncated import clamped

HUGE = 10**12
PURE = {"epsilon": 1.0}
CALLS = {
    "peel": lambda h, k, **o: dp.peel(h, k=k, **PURE, **o),
    "oneshot": lambda h, k, **o: dp.oneshot(h, k=k, **PURE, **o),
    "oneshot, gaussian": lambda h, k, **o: dp.oneshot(
        h, k=k, noise="gaussian", delta=1e-6, **PURE, **o
    ),
    "permute_and_flip": lambda h, k, **o: dp.permute_and_flip(h, k=k, **PURE, **o),
    "gamma": lambda h, k, **o: dp.gamma(h, k=k, **PURE, **o),
    "noisy_max": lambda h, k, **o: dp.noisy_max(h, **PURE, **o),
    "joint": lambda h, k, **o: dp.joint(h, k=k, **PURE, **o),
    "canonical": lambda h, k, **o: dp.canonical(h, k=k, **PURE, **o),
}


def huge(n_items=HUGE, **options):
    return dp.Histogram.truncated(
        [900_000, 700_000, 40], [7, n_items - 1, 11], next_count=4, k_bar=3, n_items=n_items,
        **options,
    )  # fmt: skip


def test_clamped_counts_move_one_way_by_one_at_most():
    wrong = 0
    for counts in itertools.product(range(4), repeat=4):
        for user in itertools.product((0, 1), repeat=4):
            more = tuple(c + u for c, u in zip(counts, user, strict=True))
            for k_bar in (1, 2, 3):
                before, after = clamped(counts, k_bar), clamped(more, k_bar)
                moves = {b - a for a, b in zip(before, after, strict=True)}
                assert moves <= {0, 1}
                # Cut to 0 in place of the next count they don't.
                low = sorted(range(4), key=lambda i: (-counts[i], i))[:k_bar]
                late = sorted(range(4), key=lambda i: (-more[i], i))[:k_bar]
                cut = [(counts[i] * (i in low), more[i] * (i in late)) for i in range(4)]
                wrong += any(b - a not in (0, 1) for a, b in cut)
    assert wrong > 1000


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("n_items", [30, 10**6, HUGE, 2**53])
def test_any_item_may_come_out(name, n_items):
    h, rng = huge(n_items, label_of="item {}".format), SeededRng(5)
    seen = set()
    for _ in range(30):
        release = CALLS[name](h, 20, rng=rng)
        items = release.indices.tolist()
        assert len(set(items)) == len(items)
        assert all(0 <= item < n_items for item in items)
        assert release.labels == tuple(f"item {item}" for item in items)
        assert release.parameters["n_items"] == n_items
        if not release.ordered:
            assert items == sorted(items)
        seen.update(items)
    if name == "noisy_max":
        assert seen <= {7, n_items - 1}
        return
    if "gaussian" not in name and not (name == "gamma" and n_items > 100):
        assert {7, n_items - 1} <= seen
    assert seen - {7, 11, n_items - 1}
    assert n_items > 30 or seen == set(range(30))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("factor", [1.0, 1e12])
def test_a_truncated_histogram_draws_what_the_clamped_counts_draw(name, factor, monkeypatch):
    """The same law by other words: the mean number of kept items, and exact replays too."""
    counts = np.array([9, 0, 12, 3, 3, 7, 0, 3, 1, 5, 0, 2])
    cut = dp.Histogram(counts).truncate(4)
    whole = np.maximum(counts, 3)
    if factor > 1.0:
        monkeypatch.setattr(_core, "error_factor", factor)
    draws = 1500 if factor == 1.0 else 150
    kept = {0, 2, 5, 9}
    found = []
    for h, seed in ((cut, 1), (whole, 2)):
        rng = SeededRng(seed)
        found.append([len(kept & set(CALLS[name](h, 4, rng=rng).items)) for _ in range(draws)])
    means = [np.mean(numbers) for numbers in found]
    error = math.sqrt(sum(np.var(numbers) + 1e-9 for numbers in found) / draws)
    assert abs(means[0] - means[1]) < 6 * error


def test_which_of_equal_counts_were_kept_changes_no_law():
    """Of three items that count 5 any may be kept: each comes out as often."""
    chances = []
    for kept in (1, 4, 8):
        h = dp.Histogram.truncated([9, 5], [3, kept], next_count=5, k_bar=2, n_items=10)
        rng = SeededRng(11)
        picks = dp.trials(dp.peel, h, size=20_000, k=1, epsilon=1.0, rng=rng).ravel()
        chances.append(np.bincount(picks, minlength=10) / 20_000)
    assert np.abs(np.array(chances) - np.mean(chances, axis=0)).max() < 0.02
    others = np.delete(np.mean(chances, axis=0), 3)
    assert np.ptp(others) < 0.02


def test_no_rows_at_all_and_all_of_them():
    empty = dp.Histogram.truncated([], [], next_count=0, k_bar=5, n_items=9)
    whole = dp.Histogram.truncated([4, 3], [1, 0], next_count=0, k_bar=5, n_items=2)
    one_left = dp.Histogram.truncated([4, 3], [1, 0], next_count=0, k_bar=2, n_items=3)
    for name, call in CALLS.items():
        n = 1 if name == "noisy_max" else 9
        assert len(set(call(empty, 9).items)) == n
        assert len(call(whole, 2)) == min(n, 2)
        assert set(call(one_left, 3).items) <= {0, 1, 2}
        if name != "noisy_max":
            with pytest.raises(ValueError, match="k must be at most the number of items, 2"):
                call(whole, 3)


ANY_DOMAIN = {
    "limited_domain": lambda h, k, **o: dp.limited_domain(h, k=k, delta=0.1, **PURE, **o),
    "private": lambda h, k, **o: dp.limited_domain(h, k=k, delta=0.1, k_bar="private", **PURE, **o),
    "limited_domain_laplace": lambda h, k, **o: dp.limited_domain_laplace(
        h, k=k, delta=0.1, max_items_per_user=2, **PURE, **o
    ),
    "top_stable": lambda h, k, **o: dp.top_stable(h, k=k, delta=0.1, **PURE, **o),
    "restricted_gumbel": lambda h, k, **o: dp.restricted_gumbel(h, k=k, delta=0.1, **PURE, **o),
}


@pytest.mark.parametrize("name", [*ANY_DOMAIN, *CALLS])
def test_items_that_nobody_has_are_there_as_in_an_array(name):
    """Left out, one user could move more of them in than are counted on."""
    call = {**ANY_DOMAIN, **CALLS}[name]
    for counts in ([0, 0, 0, 0], [0, 1, 0, 1], [3, 0, 9, 2], [5, 5, 5, 5]):
        for k_bar in (2, 3, 4, 7):
            whole = dp.Histogram(counts).truncate(k_bar)
            top = sorted((i for i in range(4) if counts[i]), key=lambda i: (-counts[i], i))
            h = dp.Histogram.truncated(
                [counts[i] for i in top[:k_bar]], top[:k_bar], k_bar=k_bar, n_items=4,
                next_count=sorted(counts)[-k_bar - 1] if k_bar < 4 else 0,
            )  # fmt: skip
            assert len(h) == min(k_bar, 4)  # and not how many have users
            if k_bar < 4 and name in CALLS:
                continue  # these refuse an array that was cut
            for seed in range(20):
                mine, theirs = (call(x, 2, rng=SeededRng(seed)) for x in (h, whole))
                assert mine.items == theirs.items
                assert mine.cost == theirs.cost


@pytest.mark.parametrize("rows", [0, 2, 3, 5])
def test_the_rest_of_a_session_does_not_follow_from_how_many_have_users(rows):
    counts, items = range(20, 20 - rows, -1), range(rows)
    h = dp.Histogram.truncated(list(counts), list(items), next_count=0, k_bar=5, n_items=100)
    session = dp.Session(k_star=50, calls=1, epsilon=1, delta=1e-6)
    assert len(session.peel(h, k="rest")) == 5


def test_a_ledger_records_names_that_are_made_when_asked_for(tmp_path):
    with dp.Ledger(tmp_path / "budgets.sqlite") as ledger:
        ledger.create("ann", k_star=9, calls=9, epsilon=9.0, delta=1e-6)
        session = dp.Session.bound(ledger, "ann")
        assert session.peel(huge(label_of="user {}".format), k=1).labels == ("user 7",)
    odd = huge(label_of=lambda item: object())
    with pytest.raises(TypeError, match="label_of must return a text or an integer, got object"):
        dp.peel(odd, k=1, epsilon=1.0)
    assert list(dp.Histogram.truncated([2], [1], next_count=0, k_bar=1, n_items=3,
                                       label_of=str).domain_labels) == ["0", "1", "2"]  # fmt: skip


def test_a_bound_on_the_items_of_a_user_is_not_used():
    h = huge(10**4, max_items_per_user=2)
    for noise, squared in (("laplace", None), ("gaussian", 2500)):
        release = dp.oneshot(h, k=8, epsilon=1.0, delta=1e-6, noise=noise, max_items_per_user=2)
        assert release.parameters["max_items_per_user"] is None
        expected = 8.0 if squared is None else gaussian_sigma(
            epsilon=1.0, delta=1e-6, sensitivity=squared**0.5
        )  # fmt: skip
        assert release.parameters["scale"] == pytest.approx(expected)


def test_no_counts_of_a_truncated_histogram():
    """Whatever was picked: an error for some items alone would tell how much they count."""
    for name, call in CALLS.items():
        release = call(huge(), 1, rng=SeededRng(1))
        with pytest.raises(ValueError, match=f"counts of what {release.mechanism} picked need all"):
            dp.noisy_counts(release, huge(), epsilon=1.0)
        assert name.startswith(release.mechanism)
    known = {name for name, its in MECHANISMS.items() if its.domain == "known"}
    assert known == set(ANY_ITEM)


def test_sessions_and_trials_take_them():
    session = dp.Session(k_star=5, calls=2, epsilon=1.0, delta=1e-6)
    assert len(session.peel(huge(), k=2)) == 2
    picks = dp.trials(dp.peel, huge(), size=50, k=3, epsilon=1.0, rng=SeededRng(1))
    assert ((picks >= 0) & (picks < HUGE)).all()
    assert 7 in picks
    assert (picks >= 100).any()


def test_numbers_of_what_was_left_out():
    for n, size in ((6, 0), (6, 2), (6, 6), (40, 9)):
        kept = np.random.default_rng(n + size).permutation(n)[:size]
        named = outside(kept, np.arange(n))
        assert named[:size].tolist() == kept.tolist()
        assert named[size:].tolist() == sorted(set(range(n)) - set(kept.tolist()))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"n_items": 2**53 + 1}, ValueError, r"n_items must be at most 2\*\*53"),
        ({"n_items": 0}, ValueError, "n_items must be an integer >= 1"),
        ({"n_items": 5.0}, TypeError, "n_items must be an integer"),
        ({"n_items": 11}, ValueError, "labels must be below n_items"),
        ({"labels": [1, "a", 2]}, TypeError, "a label must be an integer, got str"),
        ({"labels": [1, -1, 2]}, ValueError, "a label must be an integer >= 0"),
        ({"labels": [1, 1, 2]}, ValueError, "labels must be distinct"),
        ({"labels": None}, TypeError, "labels must be given"),
        ({"label_of": "x"}, TypeError, "label_of must be callable, got str"),
        ({"n_items": None, "label_of": str}, TypeError, "label_of goes with n_items"),
    ],
)
def test_bad_domains(changes, error, message):
    given = {"labels": [7, 9, 11], "next_count": 4, "k_bar": 3, "n_items": 20, **changes}
    with pytest.raises(error, match=message):
        dp.Histogram.truncated([9, 7, 5], given.pop("labels"), **given)


def test_what_it_shows():
    assert repr(huge()) == f"Histogram(n_items={HUGE}, known domain, k_bar=3)"
    assert huge().labels is None
    assert huge(label_of=str).labels == ("7", str(HUGE - 1), "11")
    with pytest.raises(ValueError, match="needs all counts, and this histogram is truncated"):
        dp.noisy_max(huge(), epsilon=1.0, largest=False)
