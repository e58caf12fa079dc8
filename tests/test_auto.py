"""What `auto` chooses can run, costs no more than was asked, and is chosen without the data."""

import inspect
import itertools
import sys

import numpy as np
import pytest

import dptopk as dp
from dptopk.mechanisms._plan import plan_of
from dptopk.mechanisms.table import MECHANISMS
from dptopk.planning import auto
from dptopk.planning.auto import choose, default_soft_cap

PUBLIC = {"int", "int | None", "float", "float | None", "bool"}


def grid(ks, epsilons, bounds):
    return [
        {"k": k, "epsilon": epsilon, "delta": delta, "known_domain": known,
         "max_items_per_user": most, "ordered": ordered, "counts": counts}
        for k, epsilon, (known, delta), most, (ordered, counts) in itertools.product(
            ks, epsilons, ((False, 1e-6), (True, 1e-6), (True, 0.0)), bounds,
            ((True, False), (False, False), (True, True)),
        )
    ]  # fmt: skip


GRID = [*grid((20,), (1.0,), (None, 5)), *grid((1,), (1.0,), (5,))]
WIDE = grid((1, 2, 5, 10, 100, 500, 3000), (0.1, 1.0, 4.0), (None, 1, 10, 1000))
N = 5000


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


@pytest.mark.parametrize("many", [GRID, pytest.param(WIDE, marks=pytest.mark.full)])
def test_every_choice_runs_within_its_budget_and_does_what_was_asked(many):
    for facts in many:
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


def opened_by(choosing):
    """What a choice opened, or asked of any engine, while it was made: every such event."""
    seen, live = [], [True]
    watched = ("open", "os.", "socket.", "sqlite3.", "subprocess.", "mmap.")

    def watch(event, args):
        if live[0] and event.startswith(watched):
            seen.append((event, str(args[0]) if args else ""))

    sys.addaudithook(watch)  # it can't be taken away again
    try:
        choosing()
    finally:
        live[0] = False
    return [(event, path) for event, path in seen if not path.endswith((".py", ".pyc", ".so"))]


def test_a_choice_reads_nothing_but_its_own_code(tmp_path):
    private = tmp_path / "private.csv"
    private.write_text("user,item\n1,tea\n")
    facts = {"k": 7, "epsilon": 0.7, "delta": 1e-5, "known_domain": False}
    choose(**facts)  # what is imported on the way is imported now
    auto._chosen.cache_clear()
    assert opened_by(lambda: choose(**facts)) == []
    # The broken twin, which peeks, is seen.
    assert opened_by(lambda: (private.read_text(), choose(**facts))) != []


@pytest.mark.parametrize("known", [False, True])
def test_few_items_are_counted_and_many_are_weighed(known):
    names = [
        choose(k=k, epsilon=1.0, delta=1e-6, known_domain=known).mechanism for k in (3, 10, 500)
    ]
    assert [name == "weighted" for name in names] == [False, False, True]


def test_the_same_facts_are_decided_alike():
    some = GRID[::7]
    first = [choose(**facts) for facts in some]
    first[0].options["k_bar"] = 1  # the caller's own
    auto._chosen.cache_clear()
    again = [choose(**facts) for facts in some]
    assert [chosen[:1] + chosen[2:] for chosen in first] == [c[:1] + c[2:] for c in again]
    assert "k_bar" not in again[0].options


def test_a_user_of_few_items_is_counted_whole():
    for most in (1, 10, 30):
        assert default_soft_cap(100, 1.0, most) == most
    assert [default_soft_cap(100, e) for e in (0.01, 0.3, 1.0, 1e300)] == [1, 3, 12, 30]
    assert [default_soft_cap(k, 1.0, 31) for k in (1, 10, 100, 1000)] == [30, 30, 12, 3]
    one = choose(k=50, epsilon=1.0, delta=1e-6, known_domain=False, max_items_per_user=1)
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
