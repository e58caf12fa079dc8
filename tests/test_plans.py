"""Plans: each mechanism's call between its checks and its draw."""

import inspect

import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.mechanisms._plan import Plan, Steps, plan_of, steps_of
from dptopk.mechanisms.table import MECHANISMS
from dptopk.reference import canonical, joint, noisy_max
from dptopk.verification.privacy import Table

PICKING = [name for name, its in MECHANISMS.items() if its.domain]
STEPPED = [name for name, its in MECHANISMS.items() if its.bounded_range]
H = dp.Histogram([900, 3, 700, 5, 4, 1], labels=list("abcdef"))
WEIGHTED = dp.Histogram.from_weights(
    H.counts << 20, H.labels, soft_cap=1, norm="l1", domain_is_public=True
)


def call_of(name):
    """Arguments of a call."""
    its = MECHANISMS[name]
    call = {"epsilon": 1.0}
    if name != "noisy_max":
        call["k"] = 2
    if its.delta == "required":
        call["delta"] = 1e-6
    if name in ("limited_domain_laplace", "restricted_normal"):
        call["max_items_per_user"] = 2
    return call


def planned(name, h=H, **changes):
    mechanism = getattr(dp, name)
    first = ("peel", h) if name == "restricted" else (h,)
    if MECHANISMS[name].weights and h is H:
        first = (WEIGHTED,)
    return mechanism, plan_of(mechanism), first, {**call_of(name), **changes}


@pytest.mark.parametrize("name", PICKING)
def test_a_mechanism_is_its_plan_drawn(name):
    mechanism, plan, first, call = planned(name)
    made = plan(*first, **call)
    assert isinstance(made, Plan)
    release = made.draw(SeededRng(3))
    assert release == mechanism(*first, **call, rng=SeededRng(3))
    assert release.cost == made.cost
    assert made.draw(SeededRng(3)) == release  # nothing of the first draw is kept


@pytest.mark.parametrize("name", PICKING)
def test_nothing_is_drawn_by_planning(name, monkeypatch):
    monkeypatch.setattr(_core, "race", None)
    monkeypatch.setattr("dptopk.rng.acquire", None)
    _, plan, first, call = planned(name)
    plan(*first, **call)


@pytest.mark.parametrize("name", PICKING)
def test_a_plan_refuses_what_the_mechanism_refuses(name):
    negative = np.array([900, 3, -1, 5, 4, 1])
    for changes in ({"epsilon": -1.0}, {"epsilon": "1"}, {"k": 0}, {"delta": 1.5}, {"h": negative},
                    {"max_items_per_user": 0}, {"nonsense": 1}):  # fmt: skip
        mechanism, plan, first, call = planned(name, **changes)
        with pytest.raises((TypeError, ValueError)) as ours:
            plan(*first, **call)
        with pytest.raises((TypeError, ValueError)) as theirs:
            mechanism(*first, **call, rng=SeededRng(1))
        assert type(ours.value) is type(theirs.value), changes


def for_one(parameter):
    """Return a parameter as it is for one histogram: what plans may be lifted by a decorator."""
    return parameter.replace(annotation=parameter.annotation.replace(" | Histograms", ""))


@pytest.mark.parametrize("name", PICKING)
def test_a_plan_takes_what_the_mechanism_takes(name):
    mechanism = getattr(dp, name)
    theirs = dict(inspect.signature(mechanism).parameters)
    assert theirs.pop("rng").default is None
    ours = dict(inspect.signature(plan_of(mechanism)).parameters)
    ours.pop("groups", None)  # of how many its cost must pay for; see test_groups.py
    more = [p for p in ours.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    for parameter in ours.values():
        if parameter not in more:
            assert for_one(theirs[parameter.name]) == for_one(parameter)
    assert more or list(ours) == list(theirs)


@pytest.mark.parametrize("name", STEPPED)
def test_steps_say_what_is_paid(name):
    call = {"k": 2} if name != "noisy_max" else {}
    steps = steps_of(name)(H, **call)
    assert isinstance(steps, Steps)
    cost = dp.Cost(1.0, 1e-6, "of a test")
    release = steps.at(2.0, 1e-3, cost).draw(SeededRng(5))
    assert release.cost == cost
    assert 1 <= steps.taken(release) <= steps.most
    assert steps.histogram is H
    assert steps.thresholds == (MECHANISMS[name].domain == "any")
    # The same call with a budget of its own, at this epsilon of each step.
    if name in ("peel", "limited_domain"):
        assert steps.most == 2
        assert release.parameters["epsilon_step"] == 2.0
    else:
        assert steps.most == 1
        options = {"noise": "gumbel"} if name == "noisy_max" else {}
        alone = getattr(dp, name)(H, **call, epsilon=2.0, **options, rng=SeededRng(5))
        assert (alone.items, alone.parameters) == (release.items, release.parameters)


def test_noise_that_is_not_of_bounded_range_has_no_steps():
    for noise in ("exponential", "laplace"):
        with pytest.raises(ValueError, match="noise must be gumbel"):
            steps_of("noisy_max")(H, noise=noise)


# ---- that a call of joint or canonical, and a pick by Gumbel noise, is one bounded-range step

EPSILON = 1.0


def widest_range(law, *, monotone):
    """Largest span of log-ratios over all histograms of 4 items and their neighbours."""
    table = Table(law, items=4 if monotone else 3, max_count=2, monotone=monotone)
    laws = [law(counts) for counts in table.histograms]
    outcomes = sorted(laws[0])
    logs = np.log([[chances[outcome] for outcome in outcomes] for chances in laws])
    spans = [np.ptp(logs[p] - logs[q], axis=-1).max() for p, q in table.pairs()]
    return max(spans)


def of_joint(k, output, factor):
    return lambda counts: joint.law(counts, k=k, scale=factor / EPSILON, output=output)


def of_canonical(k, factor):
    return lambda counts: canonical.law(counts, k=k, scale=factor / EPSILON)


def of_gumbel(factor, noise="gumbel"):
    return lambda counts: noisy_max.law(counts, scale=factor / EPSILON, noise=noise)


@pytest.mark.parametrize(
    ("law", "monotone", "tight"),
    [
        (of_joint(2, "set", 2), True, 0.999),
        (of_joint(3, "set", 2), True, 0.999),
        (of_joint(1, "set", 2), True, 0.499),
        (of_joint(2, "sequence", 2), True, 0.999),
        (of_joint(2, "set", 4), False, 0.499),
        (of_joint(2, "sequence", 4), False, 0.499),
        (of_canonical(1, 2), True, 0.499),
        (of_canonical(2, 2), True, 0.499),
        (of_canonical(2, 4), False, 0.499),
        (of_gumbel(1), True, 0.999),
        (of_gumbel(2), False, 0.999),
    ],
)
def test_it_is_of_bounded_range(law, monotone, tight):
    widest = widest_range(law, monotone=monotone)
    assert tight * EPSILON <= widest <= EPSILON * (1 + 1e-9)


@pytest.mark.parametrize(
    ("law", "monotone"),
    [
        (of_joint(2, "set", 1), True),  # without the 1/2
        (of_joint(2, "sequence", 1), True),
        (of_canonical(2, 1), True),
        (of_gumbel(1), False),  # scores that move both ways, taken for counts
        (of_gumbel(1, "exponential"), True),  # permute-and-flip
        (of_gumbel(1, "laplace"), True),
    ],
)
def test_what_is_not_of_bounded_range_is_seen(law, monotone):
    assert widest_range(law, monotone=monotone) > 1.05 * EPSILON
