"""What `auto` chooses can run, costs no more than was asked, and is chosen without the data."""

import ast
import inspect
import itertools

import numpy as np
import pytest

import dptopk as dp
from dptopk.mechanisms import auto
from dptopk.mechanisms._plan import plan_of
from dptopk.mechanisms.auto import choose, default_soft_cap
from dptopk.mechanisms.table import MECHANISMS

PUBLIC = {"int", "int | None", "float", "float | None", "bool"}
GRID = [
    {"k": k, "epsilon": epsilon, "delta": delta, "known_domain": known,
     "max_items_per_user": most, "ordered": ordered, "counts": counts}
    for k, epsilon, (known, delta), most, ordered, counts in itertools.product(
        (1, 2, 5, 10, 50, 100, 500), (0.1, 1.0, 4.0),
        ((False, 1e-6), (True, 1e-6), (True, 0.0)), (None, 1, 10, 1000),
        (True, False), (True, False),
    )
]  # fmt: skip
N = 1000


def planned(facts, chosen):
    """Plan the call of a choice on data that are all zeros."""
    options, most = dict(chosen.options), facts["max_items_per_user"]
    its = MECHANISMS[chosen.mechanism]
    zeros = np.zeros(N if facts["known_domain"] else 0, np.int64)
    if its.weights:
        weighting = {name: options.pop(name) for name in ("soft_cap", "norm")}
        h = dp.Histogram.from_weights(
            zeros, range(zeros.size), domain_is_public=facts["known_domain"],
            max_items_per_user=options.pop("max_items_per_user", most), **weighting,
        )  # fmt: skip
    elif facts["known_domain"]:
        h = dp.Histogram(zeros)
    else:
        h = dp.Histogram.truncated(
            zeros, [], next_count=0, k_bar=its.rows(facts["k"]),
            max_items_per_user=options.get("max_items_per_user", most),
        )  # fmt: skip
    budget = {"k": facts["k"], "epsilon": facts["epsilon"]}
    if its.delta != "none":
        budget["delta"] = facts["delta"]
    return plan_of(getattr(dp, chosen.mechanism))(h, **budget, **options)


def test_every_choice_runs_within_its_budget_and_does_what_was_asked():
    for facts in GRID:
        chosen = choose(**facts)
        its = MECHANISMS[chosen.mechanism]
        cost = planned(facts, chosen).cost
        assert cost.epsilon <= facts["epsilon"], facts
        assert cost.delta <= facts["delta"], facts
        assert its.command, facts
        assert its.domain == "any" or facts["known_domain"], facts
        assert its.order == "ordered" or not facts["ordered"], facts
        assert not (its.weights and facts["counts"]), facts
        assert "\n" not in chosen.why, facts


def test_a_choice_that_asks_for_more_than_was_given_would_be_seen():
    facts = {**GRID[0], "delta": 0.0, "known_domain": True}
    with pytest.raises(ValueError, match="delta"):
        planned(facts, auto.Choice("weighted", {"soft_cap": 3, "norm": "l2"}, ""))


def test_only_public_numbers_can_be_given():
    its = inspect.signature(choose).parameters.values()
    assert {parameter.annotation for parameter in its} <= PUBLIC
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in its)


def test_nothing_that_holds_or_reads_data_is_imported():
    tree = ast.parse(inspect.getsource(auto))
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    found |= {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    allowed = {"__future__", "math", "typing", "dptopk._validate", "dptopk.accounting"}
    assert found <= allowed


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_from_some_number_of_items_on_they_are_weighed(known, epsilon):
    names = [
        choose(k=k, epsilon=epsilon, delta=1e-6, known_domain=known).mechanism
        for k in range(1, 300)
    ]
    weighed = [name == "weighted" for name in names]
    assert weighed == sorted(weighed)
    assert (weighed[0], weighed[-1]) == (False, True)


def test_the_same_facts_are_decided_alike():
    assert [choose(**facts) for facts in GRID[::7]] == [choose(**facts) for facts in GRID[::7]]


def test_a_user_of_few_items_is_counted_whole():
    for most in (1, 10, 30):
        assert default_soft_cap(100, 1.0, most) == most
        for k in (5, 500):
            chosen = choose(
                k=k, epsilon=1.0, delta=1e-6, known_domain=False, max_items_per_user=most
            )
            assert chosen.options.get("soft_cap", most) == most
    assert [default_soft_cap(100, e) for e in (0.01, 0.3, 1.0, 1e300)] == [1, 3, 12, 30]
    assert [default_soft_cap(k, 1.0, 31) for k in (1, 10, 100, 1000)] == [30, 30, 12, 3]
    one = choose(k=10, epsilon=1.0, delta=1e-6, known_domain=False, max_items_per_user=1)
    assert one[:2] == ("weighted", {"soft_cap": 1, "norm": "l1", "max_items_per_user": 1})


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"k": 0}, ValueError, "k must be an integer >= 1"),
        ({"k": 2.5}, TypeError, "k must be an integer"),
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"epsilon": None}, TypeError, "epsilon must be given"),
        ({"delta": 0.0}, ValueError, "an unknown domain needs delta > 0"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"known_domain": 1}, TypeError, "known_domain"),
        ({"max_items_per_user": 0}, ValueError, "max_items_per_user"),
        ({"ordered": "yes"}, TypeError, "ordered"),
        ({"counts": 1}, TypeError, "counts"),
        ({"session": 0}, TypeError, "session"),
    ],
)
def test_what_is_no_fact_is_refused(changes, error, said):
    facts = {"k": 10, "epsilon": 1.0, "delta": 1e-6, "known_domain": False}
    with pytest.raises(error, match=said):
        choose(**{**facts, **changes})


def test_a_session_pays_for_picks():
    for known, name in ((False, "limited_domain"), (True, "peel")):
        chosen = choose(k=500, known_domain=known, session=True)
        assert chosen[:2] == (name, {})
        assert not MECHANISMS[name].no_session
