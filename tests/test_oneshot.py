"""oneshot: which theorem, which scale, a set. Its laws and claims are in test_verify.py."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import dptopk as dp
from dptopk import SeededRng
from dptopk.accounting import gaussian_sigma, total_epsilon
from dptopk.reference import oneshot as reference
from dptopk.verification import oneshot as entry

COUNTS = np.array([40, 7, 90, 7, 3, 61, 0])
NOISES = ("gumbel", "laplace", "exponential", "gaussian")
GAUSSIAN = {"delta": 1e-6, "max_items_per_user": 3}


def budget(noise):
    return {"noise": noise, "epsilon": 1.0, **(GAUSSIAN if noise == "gaussian" else {})}


# ---- the release


@pytest.mark.parametrize("noise", NOISES)
def test_a_set_in_item_order_with_its_labels(noise):
    h = dp.Histogram([900, 3, 7000, 40_000, 0], labels=["ant", "bee", "cat", "dog", "eel"])
    release = dp.oneshot(h, k=3, **budget(noise))
    assert release.indices.tolist() == [0, 2, 3]
    assert release.labels == ("ant", "cat", "dog")
    assert not release.ordered
    assert release.complete
    assert "unordered" in repr(release)
    assert release.parameters["noise"] == noise
    smallest = dp.oneshot(h, k=2, largest=False, **budget(noise))
    assert smallest.labels == ("bee", "eel")
    assert smallest.parameters["largest"] is False


@pytest.mark.parametrize("noise", NOISES)
def test_no_rank_can_be_read_off(noise):
    """Whatever comes first in rank, indices ascend."""
    h = dp.Histogram(np.arange(50)[::-1])
    rng = SeededRng(3)
    for largest in (True, False):
        for _ in range(20):
            picks = dp.oneshot(h, k=9, largest=largest, rng=rng, **budget(noise)).indices
            assert (np.diff(picks) > 0).all()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("d", [1, 2, 7])
def test_all_items_and_one_item(noise, d):
    for k in (1, d):
        for largest in (True, False):
            release = dp.oneshot([5] * d, k=k, largest=largest, **budget(noise))
            assert len(release) == k
    assert release.indices.tolist() == list(range(d))


@pytest.mark.parametrize("noise", NOISES)
def test_equal_scores_are_equally_likely(noise):
    """The fifteen pairs of six equal items, alpha 1e-9."""
    rng, pairs = SeededRng(8), list(itertools.combinations(range(6), 2))
    drawn = [dp.oneshot([4] * 6, k=2, rng=rng, **budget(noise)).items for _ in range(6000)]
    seen = [drawn.count(pair) for pair in pairs]
    assert sum(seen) == 6000
    assert stats.chisquare(seen).pvalue > 1e-9


@pytest.mark.parametrize("noise", NOISES)
def test_a_million_counts_most_of_them_tied(noise):
    counts = np.zeros(1_000_000, np.int64)
    top = np.arange(0, 1_000_000, 50_000)
    counts[::50] = 1
    counts[top] = 10_000 + top
    release = dp.oneshot(counts, k=20, **budget(noise))
    assert release.indices.tolist() == top.tolist()
    noisy = dp.oneshot(counts, k=100, **budget(noise))
    assert len(set(noisy.items)) == 100
    assert set(top) <= set(noisy.items)


@pytest.mark.parametrize("noise", NOISES)
def test_large_offsets_lose_no_precision(noise):
    """Differences of 64 at 1e17 and of 0.125 at 1e15, where sums with noise are rounded."""
    for offset, unit in ((1e17, 64.0), (1e15, 0.125), (-1e15, 0.125)):
        steps = np.array([3.0, 0.0, 1.0, 2.0, 0.0])
        at = dp.oneshot(offset + unit * steps, k=2, sensitivity=unit, rng=SeededRng(5),
                        **budget(noise))  # fmt: skip
        near = dp.oneshot(steps, k=2, rng=SeededRng(5), **budget(noise))
        assert at.items == near.items


# ---- which theorem


@pytest.mark.parametrize(
    ("options", "scale", "theorem"),
    [
        ({"k": 3}, 3.0, "Theorem 2.1, halved"),
        ({"k": 3, "monotone": False}, 6.0, "Theorem 2.1"),
        ({"k": 3, "noise": "exponential"}, 3.0, "Theorem 2.1 for exponential noise, halved"),
        ({"k": 3, "noise": "exponential", "monotone": False}, 6.0, "Theorem 2.1 for exp"),
        ({"k": 3, "max_items_per_user": 2}, 2.0, "Laplace mechanism, at most 2"),
        ({"k": 3, "max_items_per_user": 4}, 3.0, "Theorem 2.1, halved"),
        ({"k": 3, "max_items_per_user": 4, "monotone": False}, 4.0, "Laplace mechanism"),
        ({"k": 2, "max_items_per_user": 1, "noise": "exponential"}, 2.0, "halved"),
        ({"k": 3, "sensitivity": 0.5}, 1.5, "halved"),
    ],
)
def test_pure_scales(options, scale, theorem):
    release = dp.oneshot(COUNTS, epsilon=1.0, delta=0.01, **{"noise": "laplace", **options})
    assert release.parameters["scale"] == pytest.approx(scale, rel=1e-15)
    assert release.parameters["scale"] >= scale
    assert release.parameters["method"] == "pure"
    assert release.cost.delta == 0.0, "a pure theorem costs no delta"
    assert theorem in release.cost.theorem
    assert ("halved" in release.cost.theorem) == ("halved" in theorem)


PAPER = {"noise": "laplace", "method": "approximate", "bound": "paper"}


@pytest.mark.parametrize("k", [1, 5, 300])
@pytest.mark.parametrize("delta", [0.05, 1e-6, 1e-300])
@pytest.mark.parametrize("sensitivity", [1.0, Fraction(1, 3), 1e9])
@pytest.mark.parametrize("monotone", [True, False])
def test_theorem_2_2_is_rounded_up(k, delta, sensitivity, monotone):
    release = dp.oneshot(
        np.arange(300), k=k, epsilon=0.1, delta=delta, sensitivity=sensitivity, monotone=monotone,
        **PAPER,
    )  # fmt: skip
    with mpmath.workdps(50):
        root = mpmath.sqrt(k * mpmath.log(300 / mpmath.mpf(delta)))
        s = mpmath.mpf(sensitivity.numerator) / sensitivity.denominator if isinstance(
            sensitivity, Fraction) else mpmath.mpf(sensitivity)  # fmt: skip
        exact = 8 * s * root / mpmath.mpf(0.1)
        assert exact <= release.parameters["scale"] <= exact * (1 + mpmath.mpf(2) ** -46)
    assert release.cost.delta == delta


@pytest.mark.parametrize(("monotone", "ways"), [(True, 1), (False, 2)])
@pytest.mark.parametrize(
    "budget", [(1, 1.0, 1e-6), (40, 0.2, 1e-6), (100, 3.0, 0.1), (9, 50.0, 1e-300)]
)
def test_noise_for_k_picks(monotone, ways, budget):
    """Gumbel: k steps; Laplace: k of a range twice as wide, which add up with one more range."""
    k, epsilon, delta = budget
    scales = {}
    for noise in ("gumbel", "laplace"):
        release = dp.oneshot(
            np.arange(200), k=k, epsilon=epsilon, delta=delta, noise=noise, sensitivity=0.5,
            method="approximate", monotone=monotone,
        )  # fmt: skip
        assert release.cost[:2] == (epsilon, delta)
        assert release.parameters["method"] == "approximate"
        assert f"composition of {k} bounded-range step" in release.cost.theorem
        scales[noise] = release.parameters["scale"]
    gumbel = 0.5 * ways / scales["gumbel"]
    assert total_epsilon(gumbel, k, delta) == pytest.approx(epsilon, rel=1e-9)
    laplace = 2 * 0.5 * ways / scales["laplace"]
    assert total_epsilon(laplace, k, delta) + laplace <= epsilon * (1 + 1e-12)
    assert total_epsilon(1.05 * laplace, k, delta) + 1.05 * laplace > epsilon


def test_laplace_noise_is_not_for_k_picks_where_it_is_less():
    for k, method in ((10, "pure"), (100, "approximate")):
        release = dp.oneshot(np.arange(300), k=k, epsilon=1.0, delta=1e-6, noise="laplace")
        assert release.parameters["method"] == method
        assert release.cost.delta == (1e-6 if method == "approximate" else 0.0)


# ---- the best noise


def test_best_has_the_least_gap():
    """At which the chance that an item outside passes one inside is that which is said."""
    from dptopk.mechanisms._set_noise import _gap

    rng = np.random.default_rng(5)
    draw = {"gumbel": rng.gumbel, "laplace": rng.laplace, "exponential": rng.exponential,
            "gaussian": rng.normal}  # fmt: skip
    n = 200_000
    for noise, law in draw.items():
        for chance in (0.25, 0.01):
            passed = np.count_nonzero(law(size=n) - law(size=n) > _gap(noise, chance))
            assert stats.binomtest(passed, n, chance).pvalue > 1e-9
            assert stats.binomtest(passed, n, 0.8 * chance).pvalue < 1e-9
    for chance in (0.25, 0.01, 1e-9):
        gaps = {noise: _gap(noise, chance) for noise in draw}
        assert gaps["exponential"] < min(gaps["gumbel"], gaps["laplace"])


@pytest.mark.parametrize(
    ("options", "noise"),
    [
        ({"k": 10}, "exponential"),
        ({"k": 10, "max_items_per_user": 3}, "laplace"),
        ({"k": 10, "max_items_per_user": 11}, "exponential"),
        ({"k": 100, "delta": 1e-6}, "gumbel"),
        ({"k": 1, "delta": 1e-6}, "exponential"),
        ({"k": 100, "delta": 1e-6, "method": "pure"}, "exponential"),
        ({"k": 100, "delta": 1e-6, "max_items_per_user": 10}, "gaussian"),
        ({"k": 100, "delta": 1e-6, "max_items_per_user": 2}, "laplace"),
        ({"k": 100, "delta": 1e-6, "bound": "paper"}, "gumbel"),
        ({"k": 100, "delta": 1e-6, "sensitivity": 0.1, "monotone": False}, "gumbel"),
    ],
)
def test_which_noise_is_best(options, noise):
    counts = np.arange(100_000)
    best = dp.oneshot(counts, epsilon=0.5, **options)
    assert best.parameters["noise"] == noise
    named = dp.oneshot(counts, epsilon=0.5, noise=noise, **options)
    assert named.cost == best.cost
    assert named.parameters == best.parameters
    other = dp.oneshot(counts + 7, epsilon=0.5, **options)  # not by the counts
    assert other.parameters == best.parameters


def test_a_noise_that_nothing_can_be_said_of_is_no_reason_to_fail():
    """Gaussian noise at this sensitivity is past the range of floats, exponential is not."""
    huge = {"sensitivity": 1e306, "monotone": False, "epsilon": 1.0, "delta": 1e-3}
    assert dp.oneshot(np.arange(5.0), k=1, **huge).parameters["noise"] == "exponential"
    with pytest.raises(ValueError, match="sensitivity is too large"):
        dp.oneshot(np.arange(5.0), k=1, **{**huge, "sensitivity": 1.7e308})


@pytest.mark.parametrize(
    ("options", "squared"),
    [  # of 7 items
        ({}, Fraction(12, 7)),
        ({"max_items_per_user": 100}, Fraction(12, 7)),
        ({"max_items_per_user": 7}, Fraction(12, 7)),
        ({"max_items_per_user": 5}, Fraction(12, 7)),
        ({"max_items_per_user": 3}, Fraction(12, 7)),
        ({"max_items_per_user": 2}, Fraction(10, 7)),
        ({"max_items_per_user": 1}, Fraction(6, 7)),
        ({"monotone": False}, 7),
        ({"monotone": False, "max_items_per_user": 5}, 5),
        ({"monotone": False, "max_items_per_user": 100}, 7),
        ({"bound": "paper"}, 7),
        ({"bound": "paper", "max_items_per_user": 5}, 5),
    ],
)
def test_gaussian_noise_is_the_analytic_one(options, squared):
    release = dp.oneshot(
        COUNTS, k=2, noise="gaussian", epsilon=0.5, delta=1e-5, sensitivity=3.0, **options
    )
    sigma = gaussian_sigma(epsilon=0.5, delta=1e-5, sensitivity=3.0 * math.sqrt(squared))
    scale = release.parameters["scale"]
    assert scale == pytest.approx(sigma, rel=1e-15)
    least = Fraction(gaussian_sigma(epsilon=0.5, delta=1e-5)) ** 2 * (1 - Fraction(1, 2**51))
    assert Fraction(scale) ** 2 >= 9 * squared * least
    assert release.cost[:2] == (0.5, 1e-5)
    assert "Balle and Wang 2018, Theorem 8, at most" in release.cost.theorem
    one_way = options.keys() <= {"max_items_per_user"}
    assert ("differences of scores that move one way" in release.cost.theorem) == one_way
    assert release.parameters["bound"] == options.get("bound", "exact")


def test_few_items_with_gaussian_noise():
    """One item moves nothing; two are moved by 1/sqrt(2); half of many by sqrt(d)/2."""
    for d, squared in ((1, 1.0), (2, 0.5), (3, 2 / 3), (4, 1.0), (10**5, 25_000.0)):
        release = dp.oneshot(np.zeros(d, int), k=1, noise="gaussian", epsilon=1.0, delta=1e-3)
        sigma = gaussian_sigma(epsilon=1.0, delta=1e-3, sensitivity=math.sqrt(squared))
        assert release.parameters["scale"] == pytest.approx(sigma, rel=1e-14)


def test_the_constants_that_are_printed_are_had_by_name():
    """Twice those of counts, as for any scores; and with delta those of Theorem 2.2."""
    counts = np.arange(500)
    for k, delta in ((3, 0.0), (240, 1e-3)):
        ours, printed, any_scores = (
            dp.oneshot(counts, k=k, epsilon=0.2, delta=delta, noise=noise, method=method, **options)
            for noise, method in [("laplace", "approximate" if delta else "pure")]
            for options in ({}, {"bound": "paper"}, {"monotone": False})
        )
        scales = [release.parameters["scale"] for release in (ours, printed, any_scores)]
        assert scales[2] == pytest.approx(2 * scales[0])
        if not delta:
            assert scales[1] == scales[2]
        assert scales[1] == pytest.approx(
            8 * math.sqrt(k * math.log(500 / delta)) / 0.2 if delta else scales[2]
        )
        assert "halved" not in printed.cost.theorem
        assert ("Theorem 2.2" in printed.cost.theorem) == bool(delta)
    with pytest.raises(ValueError, match=r"^bound must be one of exact, paper, got 'long'"):
        dp.oneshot(counts, k=1, epsilon=1.0, bound="long")


def test_the_bound_of_the_histogram_holds():
    events = {"u": [1, 1, 1, 2], "i": ["a", "b", "c", "a"]}
    h = dp.Histogram.from_events(
        events, user="u", item="i", domain=["a", "b", "c"], max_items_per_user=2
    )
    for bound, expected in ((None, 2), (2, 2), (3, 2)):
        release = dp.oneshot(h, k=3, epsilon=1.0, max_items_per_user=bound, noise="laplace")
        assert release.parameters["max_items_per_user"] == expected
        assert release.parameters["scale"] == pytest.approx(expected)


# ---- the proof of Theorem 2.2 in docs/proofs/oneshot.md, number by number


def h(u):
    return (1 + u) * mpmath.log(1 + u) - u


def proof_holds(constant, move, ratio, *, fallback):
    """Whether steps 0 to 4 go through at the worst epsilon, delta and m.

    `move` bounds an argument's change in units of 1/scale, `ratio` the last
    step's exponent likewise; the pure scale is `fallback` k / epsilon.
    """
    root_c0, c1, c = mpmath.mpf("3.9"), mpmath.mpf("1.95"), mpmath.mpf("1.9")
    epsilon, log = mpmath.mpf("0.2"), mpmath.log(2 / mpmath.mpf("0.05"))
    if fallback is not None and constant / root_c0 <= fallback:
        return False
    scale = constant * root_c0 * log / epsilon  # the least, where k = C0 L
    closeness = 2 * move * mpmath.exp(move / scale)  # tau = closeness / scale
    share = closeness / constant * c1  # Lemma 4.4 is used at share * epsilon
    t = c / root_c0
    few = c**2 / (2 * (1 + 4 * t / 3))  # Lemma 4.5: the exponent, in units of L
    tau = epsilon / (c1 * root_c0 * log)
    mean = (1 + t) / c1**2 * epsilon / log  # |t - epsilon| / epsilon
    largest = 1 / (1 - tau)  # A / tau
    variance = largest**2 * (1 + t)  # in units of tau^2 k
    y = largest * (1 + mean) * c1 / root_c0 / variance
    many = h(y) / y**2 * (1 - mean) ** 2 * c1**2 / variance
    return few >= 1 and many >= 1 and share + ratio / (constant * root_c0 * log) <= 1


def test_the_constants_of_theorem_2_2():
    with mpmath.workdps(30):
        assert proof_holds(8, 2, 0, fallback=2)
        assert proof_holds(8, 2, 1, fallback=2)  # as printed, a factor exp(1/scale) to spare
        assert not proof_holds(mpmath.mpf("7.8"), 2, 0, fallback=2)
        assert not proof_holds(4, 2, 0, fallback=None)


def test_lemma_4_3():
    """|G(z') - G(z)| <= 2 d e^d G (1 - G), and not with 1 for 2."""
    z = np.linspace(-40, 40, 801)
    for d in (1e-4, 1e-2, 0.1, 1.0, 5.0):
        g = stats.laplace.cdf(z) * stats.laplace.sf(z)
        for other in (z + d, z - d):
            change = np.abs(
                np.where(
                    z > 0,
                    stats.laplace.sf(other) - stats.laplace.sf(z),
                    stats.laplace.cdf(other) - stats.laplace.cdf(z),
                )
            )
            assert (change <= 2 * d * np.exp(d) * g * (1 + 1e-9)).all()
            assert (change > d * g).any()


def beyond(p, k, m, epsilon, tau):
    """Hockey stick over sets of at most k of m items, each in with chance p, half moved each way.

    A set's chance depends on how many it takes of either half.
    """
    half = m // 2
    up, down = p + tau * p * (1 - p), p - tau * p * (1 - p)
    n = np.arange(min(half, k) + 1)
    inside = n[:, None] + n[None, :] <= k
    one = stats.binom.logpmf(n, half, p)
    other = stats.binom.logpmf(n, half, up)[:, None] + stats.binom.logpmf(n, half, down)[None, :]
    excess = np.exp(one[:, None] + one[None, :]) - np.exp(epsilon + other)
    return float(np.maximum(excess, 0)[inside].sum())


@pytest.mark.parametrize(("m", "delta"), [(200, 0.05), (1000, 1e-4)])
def test_lemma_4_4(m, delta):
    """The key inequality, exactly, where k is as small as it may be; six times tau breaks it."""
    epsilon, log = 0.2, math.log(m / delta)
    k = math.ceil(3.9**2 * log)
    tau = epsilon / (1.95 * math.sqrt(k * log))
    expected = np.linspace(0.3, 2.0, 35) * k
    for p in expected[expected < m] / m:
        assert beyond(p, k, m, epsilon, tau) <= delta / m
    assert max(beyond(p, k, m, epsilon, 6 * tau) for p in expected[expected < m] / m) > delta / m


@pytest.mark.parametrize("noise", NOISES)
def test_a_common_shift_changes_no_law(noise):
    """Why scores that move one way take half the noise."""
    for scores, k in itertools.product(((3, 1, 0, 1), (0, 0, 5, 2)), (1, 2, 3)):
        law = reference.law(scores, k=k, scale=1.7, noise=noise)
        shifted = reference.law([x - 0.5 for x in scores], k=k, scale=1.7, noise=noise)
        assert law == pytest.approx(shifted, abs=1e-13)


# ---- the reference


@pytest.mark.parametrize("noise", NOISES)
def test_group_law_is_the_law_of_sets_summed(noise):
    for (a, b), k in itertools.product(((2, 3), (1, 4), (4, 1)), (1, 2, 3)):
        groups = reference.group_law((1.5, 0), (a, b), k=k, scale=0.8, noise=noise)
        summed = dict.fromkeys(groups, 0.0)
        for items, p in reference.law([1.5] * a + [0] * b, k=k, scale=0.8, noise=noise).items():
            summed[sum(item < a for item in items)] += p
        assert groups == pytest.approx(summed, abs=1e-13)


def test_the_pure_scale_covers_even_the_order():
    """Not claimed; but the order is no broken twin of the pure theorems, only of the set."""
    from dptopk.reference.noise import sequence_law
    from dptopk.verification.privacy import Claim
    from dptopk.verification.registry import PrivacyCheck

    def ordered(counts):
        return sequence_law(dict(enumerate(counts)), k=2, scale=2.0, noise="laplace")

    assert PrivacyCheck("ordered", ordered, (Claim(1.0),), items=3).run().passed
    assert not PrivacyCheck("ordered", ordered, (Claim(0.45),), items=3).run().passed


def test_how_far_wide_checks_see():
    """At two thirds of the Laplace noise for k picks no breach shows, at a half one does."""
    for case in range(len(entry.WIDE)):
        scale = entry.wide_scale(case)
        assert entry._wide("two thirds", 0.69 * scale, case=case).run().passed
        assert not entry._wide("half", scale / 2, case=case).run().passed
