"""Sessions: what they charge, when, and what they refuse. Their law is in test_verify.py."""

import copy
import json
import math
import os
import pickle
import signal
import threading
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk.accounting import METHODS, step_epsilon, total_epsilon
from dptopk.accounting.compositions import epsilon_of_rho
from dptopk.accounting.prices import bounded_range_rho
from dptopk.budget.account import ProcessAccount
from dptopk.budget.terms import Remaining
from dptopk.mechanisms.limited_domain import steps_limited_domain
from dptopk.mechanisms.table import MECHANISMS

CLEAR = dp.Histogram([9000, 8000, 40, 3], labels=["ant", "bee", "cat", "dog"])
TERMS = {"k_star": 20, "calls": 5, "epsilon": 1.0, "delta": 1e-6}


def session(**changes):
    return dp.Session(**TERMS | changes)


@pytest.fixture
def no_draw(monkeypatch):
    monkeypatch.setattr(_core, "race", None)


# ---- terms


@pytest.mark.parametrize("accounting", ["tight", "printed"])
@pytest.mark.parametrize("split", [0.5, 0.1, 0.7, 1 / 3])
@pytest.mark.parametrize("delta", [1e-6, 3e-5, 0.1])
def test_delta_is_shared_and_never_exceeded(accounting, split, delta):
    terms = session(calls=7, delta=delta, accounting=accounting, delta_split=split).terms
    factor = {"tight": 1, "printed": 2}[accounting]
    thresholds = 7 * factor * Fraction(terms.delta_threshold)
    assert thresholds + Fraction(terms.delta_composition) <= Fraction(delta)
    assert float(thresholds) == pytest.approx(delta * split, rel=1e-15)
    assert terms.delta_composition == pytest.approx(delta * (1 - split), rel=1e-15)


@pytest.mark.parametrize("method", METHODS)
def test_the_step_is_what_the_total_affords(method):
    terms = session(method=method).terms
    assert terms.epsilon_step == step_epsilon(1.0, 20, terms.delta_composition, method)
    assert total_epsilon(terms.epsilon_step, 20, terms.delta_composition, method) <= 1.0


def test_all_of_delta_for_the_thresholds_adds_steps_up():
    terms = session(delta_split=1.0).terms
    assert terms.delta_composition == 0.0
    assert terms.epsilon_step == pytest.approx(1.0 / 20, rel=1e-14)
    assert 5 * terms.delta_threshold == pytest.approx(1e-6)


def test_a_call_draws_at_the_terms_of_the_session():
    s = session()
    terms = s.terms
    release = s.limited_domain(CLEAR, k=3, k_bar=2 + 1, max_items_per_user=2, rng=SeededRng(3))
    steps = steps_limited_domain(CLEAR, k=3, k_bar=3, max_items_per_user=2)
    plan = steps.at(terms.epsilon_step, terms.delta_threshold, release.cost)
    bare = plan.draw(SeededRng(3))
    assert release == bare
    assert release.parameters["epsilon_step"] == terms.epsilon_step
    assert release.parameters["delta_threshold"] == terms.delta_threshold


def test_what_a_release_costs_is_the_session():
    s = session()
    release = s.limited_domain(CLEAR, k=2)
    assert (release.cost.epsilon, release.cost.delta) == (1.0, 1e-6)
    assert release.cost.theorem.startswith("charged to a session, whose calls cost this all")
    assert "Theorem 2, its delta charged on one side; adaptive composition of 20 bounded-range" in (
        release.cost.theorem
    )
    assert "on one side" not in session(accounting="printed").cost.theorem
    assert s.cost == s.cost
    assert s.cost.theorem.startswith("a whole session: ")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"k_star": 0}, ValueError, "k_star must be an integer >= 1, got 0"),
        ({"k_star": 2.0}, TypeError, "k_star must be an integer, got float"),
        ({"calls": 0}, ValueError, "calls must be an integer >= 1, got 0"),
        ({"calls": True}, TypeError, "calls must be an integer, got bool"),
        ({"epsilon": 0}, ValueError, "epsilon must be a finite number > 0, got 0"),
        ({"epsilon": math.inf}, ValueError, "epsilon must be a finite number > 0, got inf"),
        ({"epsilon": 5e-324}, ValueError, "epsilon .* too small"),
        ({"epsilon": "1"}, TypeError, "epsilon must be a real number, got str"),
        ({"delta": 0}, ValueError, r"delta must be in \(0, 1\), got 0"),
        ({"delta": 1}, ValueError, r"delta must be in \(0, 1\), got 1"),
        ({"delta": 5e-324}, ValueError, "delta is too small to share among 5 calls"),
        ({"method": "magic"}, ValueError, "method must be one of"),
        ({"accounting": "loose"}, ValueError, "accounting must be one of tight, printed"),
        ({"rho": 1.0}, TypeError, "give either epsilon or rho"),
        ({"epsilon": None}, TypeError, "give either epsilon or rho"),
        ({"epsilon": None, "rho": 0}, ValueError, "rho must be a finite number > 0"),
        ({"epsilon": None, "rho": 1, "method": "basic"}, ValueError, "method must be zcdp"),
        ({"epsilon": None, "rho": 1, "delta_split": 1}, ValueError, "delta_split must leave"),
        ({"delta_split": 0}, ValueError, "delta_split must be a finite number > 0"),
        ({"delta_split": 1.1}, ValueError, r"delta_split must be in \(0, 1\], got 1.1"),
    ],
)
def test_bad_terms(changes, error, message):
    with pytest.raises(error, match=f"^{message}"):
        session(**changes)


# ---- what is charged


def test_a_call_is_charged_what_came_back_with_bot():
    s = session()
    release = s.limited_domain(CLEAR, k=3, k_bar=3)
    assert release.labels == ("ant", "bee")
    assert not release.complete
    assert s.remaining == (17, 4)
    assert s.limited_domain(CLEAR, k=2, k_bar=3).complete
    assert s.remaining == (15, 3)
    assert s.limited_domain([0, 0, 0], k=1, k_bar=2).items == ()  # BOT alone is an outcome
    assert s.remaining == (14, 2)
    assert s.spent[:2] == (6, 3)


def test_a_private_k_bar_costs_one_more():
    s = session()
    release = s.limited_domain(CLEAR, k=1, k_bar="private")
    assert release.outcomes == 1
    assert s.remaining == (18, 4)
    with pytest.raises(dp.BudgetError, match="may cost 19 outcomes, and 18 are left"):
        s.limited_domain(CLEAR, k=18, k_bar="private")
    assert s.limited_domain(np.arange(99), k=17, k_bar="private").parameters["k"] == 17


def test_peel_costs_k_and_no_call():
    s = session(epsilon=30.0)
    assert s.peel(CLEAR, k=2).labels == ("ant", "bee")
    assert s.remaining == (18, 5)
    scale = s.peel([1.0, 2.0, 500.0], k=1, sensitivity=2.0).parameters["scale"]
    assert scale == pytest.approx(4.0 / s.terms.epsilon_step)
    assert s.remaining == (17, 5)
    with pytest.raises(dp.UnknownDomainError):
        s.peel(dp.Histogram.truncated([9], ["a"], next_count=0, k_bar=3), k=1)
    assert s.remaining == (17, 5)


def test_the_rest():
    s = session(epsilon=30.0)
    assert s.limited_domain(CLEAR, k="rest", k_bar=np.int64(3)).parameters["k"] == 3
    assert s.limited_domain(CLEAR.truncate(2), k="rest").parameters["k"] == 2
    left = s.remaining.outcomes
    assert s.limited_domain(np.arange(999) * 999, k="rest").parameters["k"] == left
    assert s.remaining.outcomes == 0
    with pytest.raises(dp.BudgetError, match="may cost 1 outcomes, and 0 are left"):
        s.limited_domain(CLEAR, k="rest")
    s = session(epsilon=30.0)
    assert s.limited_domain(np.arange(999), k="rest", k_bar="private").parameters["k"] == 19
    s = session(epsilon=30.0)
    assert len(s.peel(CLEAR, k="rest")) == 4
    assert len(s.peel(np.arange(30), k="rest")) == 16
    assert len(session(epsilon=30.0).peel([7], k="rest")) == 1


@pytest.mark.parametrize("call", ["peel", "limited_domain"])
@pytest.mark.parametrize("taken", [6, 19, 20])
def test_the_rest_is_what_another_call_has_left(call, taken, monkeypatch):
    """It takes some between the first look and the charge."""
    s, reserve, takes = session(epsilon=30.0), ProcessAccount.reserve, [taken]

    def late(account, *args):
        if takes:
            s.peel(np.arange(30), k=takes.pop())
        return reserve(account, *args)

    monkeypatch.setattr(ProcessAccount, "reserve", late)
    if taken == 20:
        with pytest.raises(dp.BudgetError):
            getattr(s, call)(np.arange(999) * 999, k="rest")
    else:
        assert len(getattr(s, call)(np.arange(999) * 999, k="rest")) == 20 - taken
    assert s.remaining == (0, 4 if call == "limited_domain" and taken < 20 else 5)


def test_joint_and_noisy_max_cost_one_outcome_and_no_call():
    s = session(epsilon=60.0)
    step = s.terms.epsilon_step
    release = s.joint(CLEAR, k=2)
    assert (set(release.items), release.outcomes) == ({"ant", "bee"}, 2)
    assert release.parameters["scale"] == pytest.approx(2 / step)
    assert s.remaining == (19, 5)
    assert s.joint(CLEAR, k=2, output="sequence").items == ("ant", "bee")
    assert s.noisy_max(CLEAR).items == ("ant",)
    lowest = s.noisy_max([5.0, -9e9, 7.0], largest=False)
    assert lowest.items == (1,)
    assert lowest.parameters["noise"] == "gumbel"
    assert lowest.parameters["scale"] == pytest.approx(2 / step)
    assert s.remaining == (16, 5)
    for bad in (lambda: s.joint(CLEAR, k="rest"), lambda: s.joint(CLEAR, k=5),
                lambda: s.joint(CLEAR, k=1, output="list"),
                lambda: s.noisy_max(CLEAR, noise="laplace")):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            bad()
    assert s.remaining == (16, 5)


def test_a_check_charges_nothing_and_says_what_the_call_would():
    s = session(k_star=3)
    s.check("limited_domain", CLEAR, k=3)
    s.check("joint", CLEAR, k=4)
    for mechanism, options, error in (
        ("limited_domain", {"k": 4}, dp.BudgetError),
        ("limited_domain", {"k": 3, "k_bar": "private"}, dp.BudgetError),
        ("peel", {"k": 5}, ValueError),
        ("peel", {"k": 0}, ValueError),
        ("noisy_max", {"largest": 3}, TypeError),
    ):
        with pytest.raises(error) as checked:
            s.check(mechanism, CLEAR, **options)
        with pytest.raises(error) as called:
            getattr(s, mechanism)(CLEAR, **options)
        assert str(checked.value) == str(called.value)
    s.check("limited_domain", CLEAR, k=4, request_id="paid before, it may be")
    assert s.remaining == (3, 5)


@pytest.mark.parametrize("rho", [0.02, 1.0, Decimal("0.1")])
def test_a_total_given_as_rho(rho):
    s = dp.Session(k_star=20, calls=5, rho=rho, delta=1e-6)
    steps = 20 * Fraction(bounded_range_rho(s.terms.epsilon_step))
    assert steps <= Fraction(rho)
    assert float(steps) == pytest.approx(float(rho), rel=1e-13)
    assert s.cost.rho == pytest.approx(float(rho), rel=1e-13)
    follows = epsilon_of_rho(float(rho), s.terms.delta_composition)
    assert s.cost.epsilon == pytest.approx(follows, rel=1e-15)
    assert s.terms.method == "zcdp"
    assert "zcdp composition of 20 bounded-range steps" in s.cost.theorem
    assert s.limited_domain(CLEAR, k=1).cost.rho == s.cost.rho
    # A little more for each step than the same epsilon buys at epsilon^2/8.
    same = session(epsilon=s.cost.epsilon, method="zcdp").terms
    assert 1.0 < s.terms.epsilon_step / same.epsilon_step < 1.01


@pytest.mark.usefixtures("no_draw")
def test_refused_before_anything_is_drawn():
    s = session()
    with pytest.raises(dp.BudgetError, match="may cost 21 outcomes, and 20 are left"):
        s.limited_domain(CLEAR, k=21)
    with pytest.raises(dp.BudgetError, match="may cost 21 outcomes, and 20 are left"):
        s.peel(np.arange(30), k=21)
    assert s.remaining == (20, 5)


def test_the_calls_run_out_too():
    s = session(calls=2, k_star=100)
    for _ in range(2):
        s.limited_domain(CLEAR, k=1)
    for k in (1, "rest"):
        with pytest.raises(
            dp.BudgetError, match=r"^no call is left in this session; what came out"
        ):
            s.limited_domain(CLEAR, k=k)
    assert s.remaining == (98, 0)
    assert len(s.peel(CLEAR, k=1)) == 1  # which has no threshold to pay


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"k": 0}, ValueError),
        ({"k": 1.0}, TypeError),
        ({"k": "all"}, ValueError),
        ({"k": 3, "k_bar": 2}, ValueError),
        ({"k_bar": 1.5}, TypeError),
        ({"k_bar": "secret"}, ValueError),
        ({"max_items_per_user": 0}, ValueError),
        ({"counts": [-1, 2]}, ValueError),
        ({"counts": [0.5]}, TypeError),
        ({"rng": 7}, TypeError),
        ({"request_id": "a"}, ValueError),
        ({"request_id": 5}, TypeError),
    ],
)
@pytest.mark.usefixtures("no_draw")
def test_bad_input_is_not_charged(changes, error):
    s = session()
    call = {"counts": CLEAR, "k": 1, **changes}
    with pytest.raises(error):
        s.limited_domain(call.pop("counts"), **call)
    assert s.remaining == (20, 5)


def test_no_secure_randomness_no_charge(monkeypatch):
    from dptopk import rng

    def broken(count):
        raise NotImplementedError

    monkeypatch.setattr("os.urandom", broken)
    monkeypatch.setattr(rng, "_free", [])
    s = session()
    with pytest.raises(dp.RandomnessError):
        s.limited_domain(CLEAR, k=1)
    assert s.remaining == (20, 5)


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, KeyboardInterrupt])
def test_a_failure_in_between_keeps_the_whole_charge(monkeypatch, error):
    def fail(*args):
        raise error

    s = session()
    monkeypatch.setattr(_core, "race", fail)
    with pytest.raises(error):
        s.limited_domain(CLEAR, k=4)
    with pytest.raises(error):
        s.limited_domain(CLEAR, k=2, k_bar="private")
    with pytest.raises(error):
        s.peel(CLEAR, k=3)
    assert s.remaining == (20 - 4 - 3 - 3, 3)


def test_charged_while_it_draws(monkeypatch):
    """No other call can spend what a call under way may need."""
    s, seen, race = session(), [], _core.race

    def spy(*args):
        seen.append(s.remaining)
        return race(*args)

    monkeypatch.setattr(_core, "race", spy)
    s.limited_domain(CLEAR, k=3, k_bar=3)
    assert seen == [(17, 4)]


@pytest.mark.parametrize("name", [n for n, its in MECHANISMS.items() if its.no_session])
def test_what_has_no_theorem_is_refused_with_the_reason(name):
    s = session()
    with pytest.raises(AttributeError, match=f"^{name} can't be called through a session: "):
        getattr(s, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        s.nonsense  # noqa: B018


# ---- what may be quoted


def test_spent_adds_steps_up_and_stops_at_the_total():
    s = session(k_star=200, calls=200)
    step = s.terms.epsilon_step
    assert s.spent == (0, 0, 0.0, 1e-6)
    s.peel(np.arange(30), k=1)
    assert s.spent == (1, 0, step, 1e-6)
    s.peel(np.arange(300), k=150)
    assert 151 * step > 1.0
    assert s.spent == (151, 0, 1.0, 1e-6)
    # What a composition of the steps so far would say is less, and is not said.
    assert total_epsilon(step, 151, s.terms.delta_composition, "adaptive") < s.spent.epsilon
    assert s.cost.epsilon == 1.0


def test_a_plain_dict():
    s = session()
    s.limited_domain(CLEAR, k=2)
    plain = json.loads(json.dumps(s.to_dict()))
    assert plain == s.to_dict()
    assert plain["remaining"] == {"outcomes": 18, "calls": 4}
    assert plain["epsilon_step"] == s.terms.epsilon_step
    assert plain["spent"]["epsilon"] == s.spent.epsilon
    assert plain["theorem"] == s.cost.theorem


@pytest.mark.parametrize("accounting", ["tight", "printed"])
def test_an_event_for_another_accountant(monkeypatch, accounting):
    import sys
    from types import SimpleNamespace

    monkeypatch.setitem(sys.modules, "dp_accounting", SimpleNamespace(ZCDpEvent=lambda rho: rho))
    s = session(accounting=accounting)
    s.peel(CLEAR, k=1)  # what is spent makes no difference
    rho, delta = s.to_dp_event()
    assert Fraction(rho) >= Fraction(s.terms.epsilon_step) ** 2 * 20 / 8
    assert rho == pytest.approx(20 * s.terms.epsilon_step**2 / 8)
    assert delta == pytest.approx(5e-7)
    assert delta + s.terms.delta_composition == pytest.approx(1e-6)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"pip install 'dptopk\[interop\]'"):
        s.to_dp_event()


@pytest.mark.parametrize("k_star", [1, 10, 100])
def test_the_other_accountant_agrees_with_ours(k_star):
    """And counts an event that is repeated, which not every event of it was."""
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.rdp import RdpAccountant

    s = session(k_star=k_star)
    event, delta = s.to_dp_event()
    step, rest = s.terms.epsilon_step, 1e-6 - delta
    for times in (1, 3):
        accountant = RdpAccountant()
        accountant.compose(event, times)
        theirs, ours = (
            accountant.get_epsilon(rest),
            total_epsilon(step, times * k_star, rest, "zcdp"),
        )
        closed = dp_accounting.SelfComposedDpEvent(event, times)
        assert RdpAccountant().compose(closed).get_epsilon(rest) == pytest.approx(theirs)
        if k_star > 1:  # for one step ours is the plain sum
            assert ours * (1 - 1e-9) <= theirs <= 1.02 * ours


def test_the_repr_is_public():
    assert repr(session()) == (
        "<Session: 20 of 20 outcomes and 5 of 5 calls left; epsilon=1, delta=1e-06>"
    )


# ---- threads, processes, copies


def test_threads_never_pay_more_than_there_is():
    s = session(k_star=500, calls=10_000)
    paid, refused = [], []
    start = threading.Barrier(8)

    def work():
        start.wait()
        while True:
            try:
                paid.append(s.limited_domain(CLEAR, k=3, k_bar=3).outcomes)
            except dp.BudgetError:
                try:
                    paid.append(s.limited_domain(CLEAR, k="rest", k_bar=3).outcomes)
                except dp.BudgetError:
                    refused.append(1)
                    return

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(paid) == 500
    assert s.remaining.outcomes == 0
    assert len(refused) == 8


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_session_is_not_copied(how):
    with pytest.raises(TypeError, match="spent twice"):
        how(session())


@pytest.mark.posix
def test_a_forked_session_pays_nothing():
    s = session()
    pid = os.fork()
    if pid == 0:
        try:
            s.limited_domain(CLEAR, k=1)
        except dp.BudgetError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert s.limited_domain(CLEAR, k=1).outcomes == 1


@pytest.mark.posix
@pytest.mark.parametrize("mechanism", ["limited_domain", "peel"])
def test_a_forked_session_has_no_rest(mechanism):
    s = session()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # a call that tries for ever ends with the child
        try:
            getattr(s, mechanism)(CLEAR, k="rest")
        except dp.BudgetError as error:
            os._exit(7 if "fork" in str(error) and s.remaining == (0, 0) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_remaining_is_public_numbers():
    assert session().remaining == Remaining(outcomes=20, calls=5)
