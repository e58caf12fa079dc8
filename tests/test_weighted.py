"""weighted: its input, its noise and threshold, its release. Laws and privacy: test_verify.py."""

import math
import pickle

import mpmath
import numpy as np
import pytest
from scipy import special, stats

import dptopk as dp
from dptopk import _core
from dptopk.accounting import gaussian_sigma, weight, weighted_noise
from dptopk.accounting import weighted as noises
from dptopk.accounting.gaussian import gaussian_delta
from dptopk.accounting.weighted import _gaussian_reach, _laplace_reach, adding, removing
from dptopk.accounting.weights import ONE, norm_bound, weights
from dptopk.budget.record import decode, encode
from dptopk.mechanisms.weighted import _floors, price_weighted, weighted
from dptopk.reference import weighted as reference

SUMS = [900 * ONE, 3 * ONE, 700 * ONE, 5 * ONE]
NAMES = ["ant", "bee", "cat", "dog"]


def histogram(sums=SUMS, labels=NAMES, **changes):
    options = {"soft_cap": 3, "max_items_per_user": 20, **changes}
    return dp.Histogram.from_weights(sums, labels, **options)


def public(**changes):
    return histogram(domain_is_public=True, **changes)


# ---- input


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"epsilon": 0}, ValueError, "epsilon must be a finite number > 0, got 0"),
        ({"epsilon": "1"}, TypeError, "epsilon must be a real number, got str"),
        (
            {"epsilon": 1e-10, "h": public(norm="l1"), "k": 1},
            ValueError,
            "epsilon or delta is too small",
        ),
        ({"delta": 1}, ValueError, r"delta must be in \[0, 1\), got 1"),
        ({"delta": 0}, ValueError, "norm 'l2' needs delta > 0, got 0.0"),
        ({"delta": 0, "h": histogram(norm="l1")}, ValueError, "an unknown domain needs delta > 0"),
        ({"delta": 0, "h": public(), "k": 1}, ValueError, "norm 'l2' needs delta > 0"),
        ({"k": 0}, ValueError, "k must be an integer >= 1, got 0"),
        ({"k": 1.0}, TypeError, "k must be an integer, got float"),
        ({"k": 5, "h": public()}, ValueError, "k must be at most the number of items, 4; got 5"),
        ({"h": public()}, TypeError, "k or min_users must be given: over a known domain"),
        ({"min_users": 0}, ValueError, "min_users must be an integer >= 1, got 0"),
        ({"min_users": 2**62}, ValueError, "min_users is too large"),
        ({"max_items_per_user": 0}, ValueError, "max_items_per_user must be an integer >= 1"),
        ({"max_items_per_user": 19}, ValueError, "max_items_per_user must be at least 20"),
        ({"h": histogram(max_items_per_user=None)}, TypeError, "max_items_per_user must be given"),
        ({"release_weights": 1}, TypeError, "release_weights must be True or False, got int"),
        ({"rng": 7}, TypeError, "rng must be None"),
        ({"h": np.array([3, 1])}, TypeError, "give it a Histogram with a soft cap"),
        ({"h": dp.Histogram([3, 1])}, ValueError, "needs a histogram with a soft cap"),
    ],
)
def test_bad_input(changes, error, message):
    given = {"h": histogram(), "epsilon": 1.0, "delta": 1e-6, **changes}
    with pytest.raises(error, match=message):
        dp.weighted(given.pop("h"), **given)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"sums": [1.0]}, TypeError, "weights must be an array of integers, got float64"),
        ({"sums": [[1]]}, ValueError, "weights must have one dimension"),
        ({"sums": [3, -1], "labels": NAMES[:2]}, ValueError, "weights must not be negative"),
        ({"sums": np.array([2**63], np.uint64)}, ValueError, r"weights must be below 2\*\*63"),
        ({"soft_cap": 0}, ValueError, "soft_cap must be an integer >= 1, got 0"),
        ({"soft_cap": 2.5}, TypeError, "soft_cap must be an integer, got float"),
        ({"soft_cap": 2**21}, ValueError, "soft_cap must be at most 1048576, got 2097152"),
        ({"norm": "l3"}, ValueError, "norm must be one of l2, l1, got 'l3'"),
        ({"norm": 2}, TypeError, "norm must be a string, got int"),
        ({"domain_is_public": 1}, TypeError, "domain_is_public must be True or False, got int"),
        ({"max_items_per_user": 0}, ValueError, "max_items_per_user must be an integer >= 1"),
        ({"labels": None}, TypeError, "labels must be given: the domain is read off the data"),
        ({"sums": [], "labels": [], "domain_is_public": True}, ValueError, "at least one item"),
    ],
)
def test_bad_weights(changes, error, message):
    with pytest.raises(error, match=message):
        histogram(**changes)


OTHERS = [
    lambda h: dp.peel(h, k=1, epsilon=1),
    lambda h: dp.limited_domain(h, k=1, epsilon=1, delta=1e-6),
    lambda h: dp.limited_domain_laplace(h, k=1, epsilon=1, delta=1e-6),
    lambda h: dp.oneshot(h, k=1, epsilon=1),
    lambda h: dp.permute_and_flip(h, k=1, epsilon=1),
    lambda h: dp.noisy_max(h, epsilon=1),
    lambda h: dp.joint(h, k=1, epsilon=1),
    lambda h: dp.gamma(h, k=1, epsilon=1),
    lambda h: dp.top_stable(h, k=1, epsilon=1, delta=1e-6),
    lambda h: dp.restricted_gumbel(h, k=1, epsilon=1, delta=1e-6),
    lambda h: dp.noisy_counts(dp.peel([3, 1, 2, 9], k=1, epsilon=1), h, epsilon=1),
    lambda h: dp.Session(k_star=5, calls=2, epsilon=1, delta=1e-6).limited_domain(h, k=1),
]


@pytest.mark.parametrize("call", OTHERS)
def test_no_other_mechanism_takes_weights_for_counts(call):
    with pytest.raises(ValueError, match="this histogram has a soft cap"):
        call(public())


def test_weights_are_not_truncated():
    with pytest.raises(ValueError, match="soft cap can't be truncated"):
        histogram().truncate(2)


def test_the_histogram_copies_and_says_nothing():
    sums = np.array(SUMS)
    h = histogram(sums)
    sums[:] = 0
    assert h.weights.tolist() == [900, 3, 700, 5]
    assert repr(h) == "Histogram(unknown domain, soft_cap=3, norm='l2')"
    assert (h.soft_cap, h.norm, h.max_items_per_user) == (3, "l2", 20)
    assert (dp.Histogram([3]).soft_cap, dp.Histogram([3]).norm) == (None, None)
    assert dp.Histogram([3]).weights is None


# ---- weights


@pytest.mark.parametrize(("norm", "power"), [("l2", 2), ("l1", 1)])
@pytest.mark.parametrize("soft_cap", [1, 2, 3, 7, 30, 2**20])
def test_weights_are_the_largest_integers_within_the_norm(norm, power, soft_cap):
    for t in (*range(1, 300), 10**6, 10**9, 10**15):
        w = weight(t, soft_cap=soft_cap, norm=norm)
        assert t * w**power <= soft_cap * ONE**power
        assert w == ONE or t * (w + 1) ** power > soft_cap * ONE**power
    assert weights(50, soft_cap, norm).tolist() == [
        weight(t, soft_cap=soft_cap, norm=norm) for t in range(1, 51)
    ]


@pytest.mark.parametrize(("soft_cap", "most"), [(1, None), (3, None), (3, 2), (7, 100), (10**6, 5)])
def test_the_bound_of_the_norm_is_rounded_up(soft_cap, most):
    cap = soft_cap if most is None else min(soft_cap, most)
    assert norm_bound(soft_cap, "l1", most) == cap * ONE
    bound = norm_bound(soft_cap, "l2", most)
    assert bound == pytest.approx(ONE * math.sqrt(cap), rel=1e-15)
    numerator, denominator = bound.as_integer_ratio()
    assert numerator**2 >= cap * ONE**2 * denominator**2


# ---- noise and threshold


BUDGETS = [
    (1.0, 1e-6), (0.1, 1e-6), (0.01, 1e-9), (4.0, 1e-3), (10.0, 1e-12), (100.0, 1e-6), (0.1, 0.1),
    (0.001, 0.5), (1.0, 0.9), (1e-6, 1e-12),
]  # fmt: skip


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize(("soft_cap", "most"), [(1, 1), (1, 30), (3, 60), (40, 30)])
def test_delta_is_kept_and_used_up(epsilon, delta, soft_cap, most):
    """The cost of every t and u, by the formula; and one unit in a thousand off it is not."""
    plan = weighted_noise(
        epsilon=epsilon,
        delta=delta,
        soft_cap=soft_cap,
        norm="l2",
        max_items_per_user=most,
        known_domain=False,
    )

    def worst(bar):
        return max(
            max(
                reference.user_cost(
                    epsilon, weight=weight(t, soft_cap=soft_cap), items=t, alone=u,
                    scale=plan.scale, threshold=bar,
                )
            )
            for t in range(1, most + 1)
            for u in range(t + 1)
        )  # fmt: skip

    assert worst(plan.threshold) <= delta * (1 + 1e-9)
    if plan.threshold > ONE + 1:  # the largest weight is the least threshold
        assert worst(plan.threshold - plan.scale * 1e-3) > delta


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_delta_is_not_split(epsilon, delta):
    plan = weighted_noise(
        epsilon=epsilon,
        delta=delta,
        soft_cap=3,
        norm="l2",
        max_items_per_user=60,
        known_domain=False,
    )
    least = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=norm_bound(3, "l2"))
    assert least <= plan.scale <= least * (1 + 1e-5)
    alone = max(
        -math.expm1(t * special.log_ndtr((plan.threshold - weight(t, soft_cap=3)) / plan.scale))
        for t in range(1, 61)
    )
    assert alone <= delta * (1 + 1e-12)
    assert alone > 0.9999 * delta or plan.threshold <= ONE + 1


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize(("soft_cap", "most"), [(1, 1), (1, 30), (3, 60), (40, 30)])
def test_laplace_threshold(epsilon, delta, soft_cap, most):
    plan = weighted_noise(
        epsilon=epsilon,
        delta=delta,
        soft_cap=soft_cap,
        norm="l1",
        max_items_per_user=most,
        known_domain=False,
    )
    assert plan.scale == pytest.approx(ONE * min(soft_cap, most) / epsilon, rel=1e-15)

    def alone(bar):
        """The most that u = t items of a user's own cost, and what removing them adds."""
        worst, loss = 0.0, 0.0
        for t in range(1, most + 1):
            w = weight(t, soft_cap=soft_cap, norm="l1")
            missed = t * math.log1p(-0.5 * math.exp(-(bar - w) / plan.scale))
            worst = max(worst, -math.expm1(missed))
            loss = max(loss, -missed - epsilon)
        return worst, loss

    found, loss = alone(plan.threshold)
    assert found <= min(delta, -math.expm1(-epsilon)) * (1 + 1e-12)
    assert loss <= 1e-12
    if plan.threshold > ONE:  # a threshold below the largest weight is raised to it
        assert alone(plan.threshold - plan.scale * 1e-3)[0] > 0.9999 * min(delta, found)


@pytest.mark.parametrize("ratio", [0.0, 1e-3, 0.2, 1.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 1.0, 50.0])
def test_costs_are_rounded_up_and_rise_with_what_is_told(epsilon, ratio):
    if ratio:
        exact = gaussian_delta(epsilon=epsilon, sigma=1.0, sensitivity=ratio)
        for cost in (adding, removing):
            assert exact * (1 - 1e-15) <= cost(epsilon, 0.0, ratio)
            assert cost(epsilon, 0.0, ratio) <= exact * (1 + 1e-5) + 1e-12
    for cost in (adding, removing):
        found = [cost(epsilon, alone, ratio) for alone in (0.0, 1e-6, 0.1, 1.0, 5.0)]
        assert found == sorted(found)
        assert cost(epsilon, 0.1, ratio) <= cost(epsilon, 0.1, ratio + 0.1)


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_the_threshold_grows_slowly_with_the_bound(norm):
    found = [
        weighted_noise(
            epsilon=1.0,
            delta=1e-6,
            soft_cap=3,
            norm=norm,
            max_items_per_user=most,
            known_domain=False,
        ).threshold
        for most in (1, 3, 100, 10**6, 10**12, 2**62)
    ]
    assert found == sorted(found)
    assert found[-1] < (2.1 if norm == "l2" else 4) * found[2]


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_a_known_domain_has_no_threshold_and_bounds_the_items(norm):
    few = weighted_noise(
        epsilon=1.0, delta=1e-6, soft_cap=30, norm=norm, max_items_per_user=4, known_domain=True
    )
    assert few.threshold is None
    assert (
        few.scale
        < weighted_noise(
            epsilon=1.0,
            delta=1e-6,
            soft_cap=30,
            norm=norm,
            max_items_per_user=None,
            known_domain=True,
        ).scale
        / 2
    )
    r = dp.weighted(public(soft_cap=30, norm=norm), k=2, epsilon=1.0, delta=1e-6)
    assert r.parameters["scale"] == few.scale / ONE


def test_the_plan_says_its_price():
    known = price_weighted(1.0, 1e-6, 3, "l2", max_items_per_user=None, n_items=100)
    sigma = gaussian_sigma(epsilon=1.0, delta=1e-6, sensitivity=norm_bound(3, "l2"))
    assert known.rho == pytest.approx(3 * ONE**2 / (2 * sigma**2), rel=1e-14)
    assert known.cost[:2] == (1.0, 1e-6)
    pure = price_weighted(1.0, 1e-6, 3, "l1", max_items_per_user=None, n_items=100)
    assert (pure.cost[:2], pure.rho) == ((1.0, 0.0), None)
    unknown = price_weighted(1.0, 1e-6, 3, "l2", max_items_per_user=20, n_items=None)
    assert (unknown.cost[:2], unknown.rho) == ((1.0, 1e-6), None)


# ---- the release


def test_all_that_pass_and_any_k_of_them():
    every = dp.weighted(histogram(), epsilon=1, delta=1e-6)
    assert every.labels == ("ant", "cat")
    assert (every.ordered, every.complete, every.indices) == (True, True, None)
    assert every.top(1).labels == ("ant",)
    assert every.top(1).complete
    assert every.top(3).labels == every.labels
    assert not every.top(3).complete
    assert every.top(3).cost == every.cost
    four = dp.weighted(histogram(), k=4, epsilon=1, delta=1e-6)
    assert (four.labels, four.complete) == (("ant", "cat"), False)
    assert four.top(9).labels == four.labels  # the threshold ended it: no more would have come
    assert dp.weighted(histogram(), k=1, epsilon=1, delta=1e-6).labels == ("ant",)


def test_top_of_other_releases():
    two = dp.peel([900, 3, 700], k=2, epsilon=5)
    assert two.top(1).indices.tolist() == [0]
    with pytest.raises(ValueError, match="k must be at most 2, which was asked for; got 3"):
        two.top(3)
    with pytest.raises(ValueError, match="a set has no first k"):
        dp.oneshot([900, 3, 700], k=2, epsilon=1).top(1)
    with pytest.raises(TypeError, match="k must be an integer"):
        two.top(1.0)


def test_a_known_domain_shows_indices_and_is_pure_by_l1():
    r = dp.weighted(public(norm="l1"), k=2, epsilon=1)
    assert (r.indices.tolist(), r.labels, r.cost.delta) == ([0, 2], ("ant", "cat"), 0.0)
    r = dp.weighted(public(norm="l1"), min_users=300, epsilon=1)
    assert (r.labels, r.parameters["threshold"]) == (("ant", "cat"), 300.0)


@pytest.mark.parametrize("share", [1e-300, 1e-6, 0.2, 0.45, 0.5, 0.9])
def test_the_reach_of_a_noise_is_where_its_tail_has_that_share(share):
    """No less, by rounding, and 0 where half of the noise is already below."""
    laplace = float(stats.laplace.isf(share)) if share < 0.5 else 0.0
    gaussian = float(stats.norm.isf(share)) if share < 0.5 else 0.0
    for reach, exact in ((_laplace_reach, laplace), (_gaussian_reach, gaussian)):
        assert exact * (1 - 1e-14) <= reach(share) <= exact * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 3.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-3, 0.45])
def test_what_a_threshold_may_let_out_is_rounded_down(epsilon, delta, monkeypatch):
    masses = []
    monkeypatch.setattr(noises, "_threshold", lambda mass, *_: masses.append(mass) or ONE)
    options = {"soft_cap": 1, "norm": "l1", "max_items_per_user": 5, "known_domain": False}
    weighted_noise(epsilon=epsilon, delta=delta, **options)
    with mpmath.workdps(40):
        exact = -mpmath.log1p(-min(mpmath.mpf(delta), -mpmath.expm1(-mpmath.mpf(epsilon))))
        assert exact * (1 - 1e-11) <= masses[0] <= exact


def test_min_users_raises_the_threshold():
    plain = dp.weighted(histogram(), epsilon=1, delta=1e-6).parameters["threshold"]
    raised = dp.weighted(histogram(), epsilon=1, delta=1e-6, min_users=800)
    assert raised.labels == ("ant",)
    assert raised.parameters["threshold"] == plain + 800


def test_nobody_at_all():
    h = histogram([], [])
    assert dp.weighted(h, epsilon=1, delta=1e-6).labels == ()
    assert not dp.weighted(h, k=3, epsilon=1, delta=1e-6).complete


def test_noisy_weights_come_with_the_order():
    r = dp.weighted(histogram(), epsilon=1, delta=1e-6, release_weights=True)
    assert np.abs(r.weights - [900, 700]).max() < 60
    assert (np.diff(r.weights) <= 0).all()
    assert (r.weights * 1024 == np.floor(r.weights * 1024)).all()
    assert not r.weights.flags.writeable
    assert repr(r).startswith(f"<Release of 2 by weighted: ['ant': {r.weights[0]:.1f}, 'cat': ")
    assert r.top(1).weights.tolist() == r.weights[:1].tolist()
    assert dp.weighted(histogram(), epsilon=1, delta=1e-6).weights is None


def test_weights_survive_pickle_and_the_record():
    r = dp.weighted(histogram(), epsilon=1, delta=1e-6, release_weights=True)
    for copy in (pickle.loads(pickle.dumps(r)), decode(encode(r))):
        assert copy == r
    other = decode(encode(r).replace(str(r.weights[0]), "1.5"))
    assert other != r


def test_counts_afterwards_at_their_own_cost():
    r = dp.weighted(histogram(), epsilon=1, delta=1e-6, release_weights=True)
    h = dp.Histogram.truncated([1000, 800, 9], ["ant", "cat", "bee"], next_count=0, k_bar=3)
    counted = dp.noisy_counts(r, h, epsilon=1, delta=1e-6)
    assert counted.counts.size == 2
    assert counted.weights.tolist() == r.weights.tolist()
    assert counted.cost.epsilon == 2


def test_memory_order_and_size_of_sums_make_no_difference(level):
    sums = np.array([2**62, 2**62 - 5 * ONE, 2**61, 0, 9 * ONE])
    drawn = {
        dp.weighted(
            histogram(array, list("abcde")), epsilon=1, delta=1e-6, release_weights=True,
            rng=dp.SeededRng(5),
        )
        for array in (sums, sums.astype(">i8"), np.repeat(sums, 2)[::2], sums.astype(np.uint64))
    }  # fmt: skip
    (r,) = drawn
    assert set(r.labels) == {"a", "b", "c"}
    assert abs(r.weights[0] - 2**42) < 100


def test_no_secure_randomness_no_release(monkeypatch):
    from dptopk import rng

    def broken(count):
        raise NotImplementedError

    monkeypatch.setattr("os.urandom", broken)
    monkeypatch.setattr(rng, "_free", [])
    with pytest.raises(dp.RandomnessError):
        dp.weighted(histogram(), epsilon=1, delta=1e-6)


# ---- the whole parts of noisy sums


def floors(low, high, base=900 * ONE + 7, scale=4.0 * ONE):
    head = _core_head(base)
    found = _floors(head, scale, np.array([[low, high]]))
    return None if found is None else found.item()


def _core_head(base):
    from dptopk._counts import Head

    return Head(np.array([base]), np.array([0]), None, False)


@pytest.mark.parametrize("base", [0, 7, 1023, 900 * ONE + 7, 2**62 + 5])
@pytest.mark.parametrize("value", [0.3, -0.3, 5.7, -4000.2, 1e-9, 0.0])
def test_whole_parts_are_certain_or_left_to_the_replay(base, value):
    scale = 4.0 * ONE
    exact = math.floor((base + _fraction(value) * _fraction(scale)) / reference.GRID)
    found = floors(value, value, base)
    assert found in (None, exact)
    if value not in (0.0, 1e-9):
        assert found == exact
    assert floors(value - 1e-3, value + 1e-3, base) is None  # 4 parts wide
    assert floors(-math.inf, math.inf, base) is None


def _fraction(x):
    from fractions import Fraction

    return Fraction(x)


def test_the_replay_shows_what_the_kernel_shows():
    h = histogram(np.arange(1, 400) * ONE // 3, list(range(399)))
    both = []
    for factor in (1.0, 2.0**45):
        before, _core.error_factor = _core.error_factor, factor
        try:
            both.append(
                weighted(h, epsilon=1, delta=1e-6, release_weights=True, rng=dp.SeededRng(8))
            )
        finally:
            _core.error_factor = before
    assert both[0] == both[1]
    assert len(both[0]) > 100


@pytest.mark.parametrize("k", [None, 10])
def test_a_tail_is_drawn_like_a_head(k):
    """Many items of little weight: they come out as seldom as the tail of the noise says."""
    n, low = 200_000, 20 * ONE
    h = dp.Histogram.from_weights(np.full(n, low), np.arange(n), soft_cap=3, max_items_per_user=100)
    plan = weighted_noise(
        epsilon=1.0, delta=1e-6, soft_cap=3, norm="l2", max_items_per_user=100, known_domain=False
    )
    share = special.ndtr(-(plan.threshold - low) / plan.scale)
    rng, rounds = dp.SeededRng(3), 200
    passed = [len(dp.weighted(h, k=k, epsilon=1.0, delta=1e-6, rng=rng)) for _ in range(rounds)]
    if k is not None:
        assert set(passed) == {k}
        return
    expected = rounds * n * share
    # A normal deviation of 6.1: alpha 1e-9. A share 5% off is 20 deviations away.
    assert abs(sum(passed) - expected) < 6.1 * math.sqrt(expected)
    assert 0.05 * expected > 12 * math.sqrt(expected)
