"""restricted: shares of the budget, what a callable sees, and what it may not do.

Its law is in test_verify.py.
"""

from fractions import Fraction

import numpy as np
import pytest

import dptopk as dp
from dptopk.accounting import step_epsilon
from dptopk.domain import restricted_k_bar
from dptopk.framework.restrict import default_split

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
COUNTS = np.array([40, 7000, 9000, 7, 8000, 3, 0])
ROWS = dp.Histogram.truncated([900, 800, 700], ["a", "b", "c"], next_count=0, k_bar=9)


def yours(mechanism, counts=COUNTS, **changes):
    options = {"k": 3, "k_bar": 5, "mechanism_epsilon": 0.5, **BUDGET, **changes}
    return dp.restricted(mechanism, counts, **options)


def best(h, k):
    """Return the true top k, with no noise: 0-DP it is not, but a test can tell what it does."""
    return np.argsort(-h.counts)[:k]


# ---- the budget


@pytest.mark.parametrize(("k", "epsilon", "delta"), [(20, 1.0, 1e-6), (60, 0.3, 1e-5)])
def test_the_tests_get_four_steps_of_limited_domain(k, epsilon, delta):
    release = dp.restricted_gumbel(np.arange(9000), k=k, epsilon=epsilon, delta=delta)
    rival = dp.limited_domain(np.arange(9000), k=k, epsilon=epsilon, delta=delta)
    share = release.parameters["epsilon_tests"]
    assert share == pytest.approx(4 * rival.parameters["epsilon_step"], rel=1e-12)
    assert release.parameters["mechanism_delta"] == delta / 2
    step = step_epsilon(release.parameters["mechanism_epsilon"], k, delta / 2)
    assert release.parameters["mechanism_parameters"]["epsilon_step"] == step


def test_with_few_picks_the_tests_get_half_with_many_a_fifth():
    assert default_split(1, 1.0, 1e-6) == default_split(10, 1.0, 1e-6) == pytest.approx(0.5)
    assert default_split(500, 1.0, 1e-6) == default_split(900, 1.0, 1e-6) == pytest.approx(0.8)


def test_the_budget_is_not_overdrawn_by_a_single_bit():
    for epsilon, delta, share in ((1.0, 1e-6, 0.3), (0.1, 0.01, 0.07), (7.3, 1e-9, 1e-9)):
        release = dp.restricted(
            "peel", COUNTS, k=2, epsilon=epsilon, delta=delta, mechanism_epsilon=share,
            mechanism_delta=delta / 3,
        )  # fmt: skip
        tests = 2 / Fraction(release.parameters["scale"])
        assert tests <= Fraction(release.parameters["epsilon_tests"])
        assert Fraction(share) + tests <= Fraction(epsilon)
        shares = release.parameters["mechanism_delta"], release.parameters["delta_tests"]
        assert sum(map(Fraction, shares)) <= Fraction(delta)
        assert release.cost[:2] == (epsilon, delta)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"mechanism_epsilon": 1.0}, ValueError, "mechanism_epsilon must be less than epsilon"),
        ({"mechanism_epsilon": -0.1}, ValueError, "mechanism_epsilon must be a finite number >= 0"),
        ({"mechanism_epsilon": None}, TypeError, "mechanism_epsilon must be given"),
        ({"mechanism_delta": 1e-6}, ValueError, "mechanism_delta must be less than delta"),
        ({"mechanism_delta": "0"}, TypeError, "mechanism_delta must be a real number"),
        ({"k": 6}, ValueError, "k must be at most k_bar = 5, got 6"),
        ({"k_bar": None, "k": 8}, ValueError, "k must be at most k_bar = 7, got 8"),
        ({"ordered": 1}, TypeError, "ordered must be True or False, got int"),
        ({"bound": "long"}, ValueError, "bound must be one of exact, paper"),
        ({"options": {}}, TypeError, "options are for the mechanisms of this library"),
        ({"delta": 0.0}, ValueError, r"delta must be in \(0, 1\), got 0"),
        ({"counts": [3, -1]}, ValueError, "counts must not be negative"),
        ({"rng": 7}, TypeError, "rng must be None"),
    ],
)
def test_bad_input_never_reaches_the_mechanism(changes, error, message):
    called = []
    with pytest.raises(error, match=message):
        yours(lambda h, k: called.append(h) or [0], **{"k": 1, **changes})
    assert not called


def test_a_mechanism_is_a_name_or_a_callable():
    with pytest.raises(TypeError, match="mechanism must be a name or a callable"):
        yours(7)
    with pytest.raises(ValueError, match="mechanism must be one of peel, "):
        yours("magic")


@pytest.mark.parametrize("options", [{"sensitivity": 0.1}, {"rng": None}, {"k": 1}, ["noise"]])
def test_options_say_nothing_of_the_counts(options):
    with pytest.raises(TypeError, match="options must be a mapping with keys among method, noise"):
        dp.restricted("oneshot", COUNTS, k=2, **BUDGET, options=options)


# ---- ours


def test_by_name_or_by_function():
    for name in ("peel", "oneshot", "permute_and_flip", "canonical"):
        function = getattr(dp, name)
        one, other = (
            dp.restricted(m, COUNTS, k=3, **BUDGET, rng=dp.SeededRng(2)) for m in (name, function)
        )
        assert one == other
        assert one.mechanism == f"restricted({name})"
        assert set(one.items) == {1, 2, 4}


def test_the_short_way_is_the_long_way():
    """restricted("peel") skips the checks of peel, and nothing else."""
    for seed in range(30):
        short, long = (
            dp.restricted(
                "peel", [12, 9, 7, 7, 3, 1, 0], k=3, k_bar=5, epsilon=4.0, delta=0.01,
                options=options, rng=dp.SeededRng(seed),
            )
            for options in (None, {"method": "best"})
        )  # fmt: skip
        assert short.items == long.items
        assert short.cost == long.cost
        scales = [r.parameters["mechanism_parameters"]["scale"] for r in (short, long)]
        assert scales[0] == scales[1]


def test_a_set_comes_out_as_one():
    release = dp.restricted_oneshot(COUNTS, k=3, k_bar=5, **BUDGET)
    assert release.items == (1, 2, 4)  # in item order
    assert not release.ordered
    assert release.parameters["mechanism_delta"] == 0.0
    orders = {
        dp.restricted_oneshot(ROWS, k=3, **BUDGET, rng=dp.SeededRng(seed)).labels
        for seed in range(80)
    }
    assert len(orders) == 6  # one is missed with chance 3e-6
    gaussian = dp.restricted(
        "oneshot", COUNTS, k=3, **BUDGET, options={"noise": "gaussian", "max_items_per_user": 4}
    )
    assert gaussian.parameters["mechanism_delta"] == 5e-7


def test_canonical_by_its_own_name():
    release = dp.restricted_canonical(COUNTS, k=3, k_bar=5, **BUDGET)
    assert release.items == (1, 2, 4)
    assert not release.ordered
    assert release.mechanism == "restricted(canonical)"
    assert release.parameters["mechanism_delta"] == 0.0
    orders = {
        dp.restricted_canonical(ROWS, k=3, **BUDGET, rng=dp.SeededRng(seed)).labels
        for seed in range(80)
    }
    assert len(orders) == 6  # one is missed with chance 3e-6


def test_permute_and_flip_by_its_own_name():
    release = dp.restricted_permute_and_flip(COUNTS, k=3, k_bar=5, **BUDGET)
    assert release.items == (2, 4, 1)
    assert release.ordered
    assert release.mechanism == "restricted(permute_and_flip)"
    assert release.parameters["mechanism_delta"] == 0.0


def sigma_of(counts=COUNTS, **options):
    release = dp.restricted_normal(
        counts, **{"k": 3, "mechanism_epsilon": 0.5, **BUDGET, **options}
    )
    return release.parameters["mechanism_parameters"]["scale"]


@pytest.mark.parametrize(
    ("options", "squared"),
    [
        ({}, 250),  # k_bar = 1000, half of them
        ({"max_items_per_user": 4}, 4 * 996 / 1000),
        ({"max_items_per_user": 4, "k": 300, "k_bar": 1000}, 4 * 996 / 1000),
        ({"max_items_per_user": 4, "k_bar": 5}, 2 * 3 / 5),
        ({"k_bar": 5}, 2 * 3 / 5),
        ({"k_bar": 3}, 2 / 3),
        ({"k_bar": 1, "k": 1}, 1),
        ({"max_items_per_user": 4, "bound": "paper"}, 4),
        ({"max_items_per_user": 4, "k_bar": 3, "bound": "paper"}, 3),
        ({"bound": "paper"}, 1000),
    ],
)
def test_normal_noise_is_for_the_items_shown(options, squared):
    """For half of the k_bar counts at most; made-up ones count among them."""
    sigma = dp.accounting.gaussian_sigma(epsilon=0.5, delta=5e-7, sensitivity=squared**0.5)
    assert sigma_of(np.arange(9000), **options) == pytest.approx(sigma, rel=1e-14)
    if options.get("k", 3) == 3:
        few = dp.Histogram.truncated([900, 800, 700], ["a", "b", "c"], next_count=0, k_bar=2000)
        assert sigma_of(few, **options) == pytest.approx(sigma, rel=1e-14)


def test_normal_noise_costs_by_the_items_of_a_user():
    release = dp.restricted_normal(COUNTS, k=3, max_items_per_user=8, **BUDGET)
    assert release.items == (2, 4, 1)
    assert release.ordered
    assert release.parameters["epsilon_tests"] == pytest.approx(0.5)  # 4 epsilon / D
    release = dp.restricted_normal(COUNTS, k=3, **BUDGET)  # no D: as of any other mechanism
    assert release.items == (2, 4, 1)
    assert release.parameters["mechanism_epsilon"] == default_split(3, **BUDGET)
    rows = dp.Histogram.truncated([900, 800], ["a", "b"], next_count=0, k_bar=9,
                                  max_items_per_user=2)  # fmt: skip
    release = dp.restricted_normal(rows, k=2, max_items_per_user=50, **BUDGET)
    assert release.parameters["mechanism_parameters"]["max_items_per_user"] == 2
    release = dp.restricted("normal", rows, k=2, **BUDGET)  # the rows' own bound, as by its name
    assert release.parameters["mechanism_parameters"]["max_items_per_user"] == 2


def test_the_constants_of_a_oneshot_go_with_those_of_the_threshold():
    for bound in ("exact", "paper"):
        release = dp.restricted_oneshot(COUNTS, k=3, bound=bound, mechanism_epsilon=0.5, **BUDGET)
        assert release.parameters["mechanism_parameters"]["bound"] == bound
        assert release.parameters["bound"] == bound


@pytest.mark.parametrize(
    ("bound", "error", "message"),
    [
        (0, ValueError, "max_items_per_user must be an integer >= 1, got 0"),
        (0.5, TypeError, "max_items_per_user must be an integer, got float"),
        (True, TypeError, "max_items_per_user must be an integer, got bool"),
        ("2", TypeError, "max_items_per_user must be an integer, got str"),
    ],
)
def test_a_bound_among_the_options_is_checked_as_one_that_is_named(bound, error, message):
    with pytest.raises(error, match=message):
        dp.restricted("normal", COUNTS, k=2, **BUDGET, options={"max_items_per_user": bound})


def test_normal_noise_needs_a_delta():
    with pytest.raises(ValueError, match="noise 'gaussian' needs delta > 0"):
        dp.restricted_normal(COUNTS, k=2, **BUDGET, max_items_per_user=2, mechanism_delta=0.0)


def test_a_oneshot_takes_a_bound_on_the_items_of_a_user():
    bounded = {"k": 3, "max_items_per_user": 1, **BUDGET}
    for noise in ("gaussian", "laplace"):
        release = dp.restricted_oneshot(COUNTS, noise=noise, **bounded)
        assert release.parameters["mechanism_parameters"]["max_items_per_user"] == 1
        assert "at most 1 items a user" in release.cost.theorem


# ---- which items


def test_k_bar_by_default():
    assert restricted_k_bar(7) == 1000
    assert restricted_k_bar(100) == 5000
    counts = np.arange(30_000)
    assert dp.restricted_gumbel(counts, k=7, **BUDGET).parameters["k_bar"] == 1000
    cut = dp.Histogram(counts).truncate(50)
    assert dp.restricted_gumbel(cut, k=7, **BUDGET).parameters["k_bar"] == 50
    assert dp.restricted_gumbel(counts[:30], k=7, **BUDGET).parameters["k_bar"] == 30


def test_made_up_items_are_shown_as_bot():
    """Three items, of k_bar = 9; the noise of a huge epsilon is next to none."""
    release = dp.restricted_gumbel(ROWS, k=5, epsilon=1e6, delta=0.4, rng=dp.SeededRng(1))
    assert release.labels == ("a", "b", "c")
    assert not release.complete
    assert release.parameters["k_bar"] == 9
    empty = dp.Histogram.truncated([], [], next_count=0, k_bar=9)
    for seed in range(30):  # a made-up item passes with chance 0.4 / e^..., and is not shown
        release = dp.restricted_gumbel(empty, k=5, epsilon=1.0, delta=0.99, rng=dp.SeededRng(seed))
        assert release.labels == ()


def test_nothing_comes_out_after_a_made_up_item():
    """BOT ends the list: what a mechanism picked next would come out with BOT before it."""
    rows = dp.Histogram.truncated([900], ["a"], next_count=0, k_bar=3)
    last = {"k": 3, "k_bar": 3, "epsilon": 9.0, "delta": 0.9, "mechanism_epsilon": 0.0}
    alone = 0
    for seed in range(200):
        rng = dp.SeededRng(seed)
        release = dp.restricted(lambda h, k: np.argsort(h.counts), rows, rng=rng, **last)
        assert release.labels == ()
        alone += len(dp.restricted(lambda h, k: np.argsort(-h.counts), rows, rng=rng, **last))
    assert alone == 200


def test_equal_counts_and_a_single_item():
    flat = dp.restricted_gumbel(np.full(5000, 9), k=10, k_bar=100, **BUDGET, rng=dp.SeededRng(1))
    assert flat.items == ()
    assert dp.restricted_gumbel([90_000], k=1, **BUDGET).items == (0,)
    every = dp.restricted_gumbel([90_000, 70_000, 50_000], k=3, **BUDGET)
    assert sorted(every.items) == [0, 1, 2]


def test_a_million_items_of_which_nearly_all_are_equal():
    counts = np.ones(1_000_000, np.int32)
    counts[::100_000] = 5000
    release = dp.restricted_gumbel(counts, k=10, **BUDGET)
    assert sorted(release.items) == list(range(0, 1_000_000, 100_000))


def test_counts_near_the_end_of_int64():
    top = 2**63 - 2
    release = dp.restricted_gumbel([top, 0, top, 0], k=2, k_bar=3, **BUDGET)
    assert sorted(release.items) == [0, 2]
    assert dp.restricted_gumbel([top] * 4, k=1, k_bar=2, **BUDGET, rng=dp.SeededRng(1)).items == ()


# ---- yours


def test_a_callable_sees_counts_in_an_order_drawn_at_random():
    seen = []
    for counts in (COUNTS, ROWS):
        for _ in range(20):
            yours(lambda h, k: seen.append(h) or [0], counts, k_bar=5)
    assert all(h.labels is None and h.known_domain and h.n_items == 5 for h in seen)
    first, second = seen[:20], seen[20:]
    assert {tuple(sorted(h.counts.tolist())) for h in first} == {(7, 40, 7000, 8000, 9000)}
    assert {tuple(sorted(h.counts.tolist())) for h in second} == {(0, 0, 700, 800, 900)}
    assert len({tuple(h.counts.tolist()) for h in first}) > 5  # of 120 orders


def test_what_a_callable_picks_is_named_by_item():
    assert yours(best).items == (2, 4, 1)
    assert yours(lambda h, k: list(best(h, k))).ordered
    for unordered in (
        yours(lambda h, k: set(best(h, k).tolist())),
        yours(best, ordered=False),
        yours(lambda h, k: dp.oneshot(h, k=k, epsilon=0.5)),
    ):
        assert unordered.items == (1, 2, 4)
        assert not unordered.ordered
    assert yours(best).private
    assert not yours(lambda h, k: dp.peel(h, k=k, epsilon=0.5, rng=dp.SeededRng(1))).private


def test_a_callable_may_pick_fewer():
    assert yours(lambda h, k: best(h, 1)).items == (2,)
    release = yours(lambda h, k: ())
    assert release.items == ()
    assert not release.complete


def raises(h, k):
    raise ValueError(f"a secret: {h.counts.tolist()}")


def raises_while_read(h, k):
    yield 0
    raises(h, k)


def endless(h, k):
    while True:
        yield 0


@pytest.mark.parametrize(
    "mechanism",
    [
        raises,
        raises_while_read,
        endless,
        lambda h, k: None,
        lambda h, k: "01",
        lambda h, k: 7,
        lambda h, k: [0.0, 1.0],
        lambda h, k: [True],
        lambda h, k: [0, 0],
        lambda h, k: [-1],
        lambda h, k: [5],
        lambda h, k: [2**70],
        lambda h, k: range(4),
        lambda h, k: np.zeros((1, 1), np.int64),
        lambda h, k: [None],
        lambda h, k: dp.peel(h, k=4, epsilon=0.5),
        lambda h, k: dp.peel(h, k=k, epsilon=0.6),
        lambda h, k: dp.peel(h, k=k, epsilon=0.5, delta=1e-7),
    ],
)
def test_a_callable_that_does_wrong_is_charged_and_its_error_holds_no_data(mechanism):
    with pytest.raises(dp.MechanismError, match="budget is spent") as caught:
        yours(mechanism)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None  # the exception with the data is not kept


def test_an_interrupt_is_not_held_back():
    def interrupted(h, k):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        yours(interrupted)


def test_a_callable_may_draw_from_the_generator_of_the_call():
    """No source of random words is held while it runs."""
    rng = dp.SeededRng(5)
    assert yours(lambda h, k: dp.peel(h, k=k, epsilon=0.5, rng=rng), rng=rng).items
