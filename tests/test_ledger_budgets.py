"""Kinds of budgets in a ledger: filters, charges for others, caps, periods; export and audit."""

import json
import math
import os
import threading
from decimal import Decimal
from fractions import Fraction

import pytest

import dptopk as dp
from dptopk import _core
from dptopk.accounting.prices import price as price_of
from dptopk.budget.audit import verify_export
from dptopk.budget.exact import exact
from dptopk.cli import main
from dptopk.rounding import down

CLEAR = dp.Histogram([9000, 8000, 40, 3], labels=["ant", "bee", "cat", "dog"])
TERMS = {"k_star": 20, "calls": 5, "epsilon": 1.0, "delta": 1e-6}
UNIT = dp.accounting.weight(2, soft_cap=1)
WEIGHED = dp.Histogram.from_weights(
    [900 * UNIT, 450 * UNIT], ["tea", "jam"], soft_cap=1, max_items_per_user=10
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budgets.sqlite"


@pytest.fixture
def ledger(path):
    with dp.Ledger(path) as ledger:
        yield ledger


# ---- filters that last

TOTALS = [
    {"epsilon": 1.0},
    {"epsilon": Fraction(1, 3)},
    {"epsilon": 1.0, "delta": 1e-6},
    {"rho": Decimal("0.1"), "delta": 1e-6, "delta_split": 0.25},
    {"rho": 0.1},
]
CALLS = {
    "limited_domain": {"k": 2, "k_bar": 3, "epsilon_step": 0.05, "delta_threshold": 1e-8},
    "peel": {"k": 2, "epsilon_step": Fraction(1, 50)},
    "joint": {"k": 2, "epsilon_step": 0.01},
    "canonical": {"k": 2, "epsilon_step": 0.01},
    "noisy_max": {"largest": False, "epsilon_step": 0.01},
    "weighted": {"rho": 0.001, "delta_threshold": 1e-8},
}


@pytest.mark.parametrize("total", TOTALS, ids=str)
def test_a_filter_in_a_ledger_is_the_one_in_the_process(ledger, path, total):
    """Every call is charged and refused alike, and recorded; and not drawn again."""
    ledger.create_filter("ann", **total)
    bound, alone = dp.Filter.bound(ledger, "ann"), dp.Filter(**total)
    assert (bound.cost, bound.epsilon, bound.delta, bound.rho) == (
        alone.cost, alone.epsilon, alone.delta, alone.rho,
    )  # fmt: skip
    made = 0
    for name, options in CALLS.items():
        h = WEIGHED if name == "weighted" else CLEAR
        pure, known = "delta" not in total, name not in ("limited_domain", "weighted")
        if pure and not known:  # a threshold, which needs a delta
            for budget in (alone, bound):
                with pytest.raises(ValueError, match="needs a filter"):
                    getattr(budget, name)(h, **options)
            continue
        first = getattr(alone, name)(h, **options)
        ours = getattr(bound, name)(h, request_id=name, **options)
        assert ours.cost == first.cost
        assert getattr(bound, name)(h, request_id=name, **options) == ours
        made += 1
        if name in ("limited_domain", "weighted", "joint"):  # clear whatever comes out
            assert bound.remaining == alone.remaining
    assert made >= 4
    with dp.Ledger(path) as other:
        again = dp.Filter.bound(other, "ann")
        assert again.remaining == bound.remaining
        assert again.cost == alone.cost
        assert len(other.history("ann")) == made
        assert all(entry.release is not None for entry in other.history("ann"))
        other.budget("ann")


def test_steps_of_differing_epsilon_are_used_up_exactly(ledger):
    ledger.create_filter("ann", epsilon=1)
    budget = dp.Filter.bound(ledger, "ann")
    for step in (0.1, Fraction(1, 3), Decimal("0.2"), 0.3):
        budget.joint(CLEAR, k=2, epsilon_step=step)
    assert budget.remaining.epsilon == pytest.approx(1 - 0.6 - 1 / 3)
    last = Fraction(1) - Fraction(6, 10) - Fraction(1, 3)
    budget.joint(CLEAR, k=2, epsilon_step=last)
    assert budget.remaining == (0.0, 0.0, 0.0)
    with pytest.raises(dp.BudgetError, match="and 0 is left in this filter"):
        budget.joint(CLEAR, k=2, epsilon_step=1e-9)
    amounts = [entry.amounts["epsilon"] for entry in ledger.history("ann")]
    assert sum(amounts) == 1


def test_a_request_of_a_filter_is_one_request(ledger, monkeypatch):
    ledger.create_filter("ann", rho=1.0, delta=1e-6)
    budget = dp.Filter.bound(ledger, "ann")
    budget.peel(CLEAR, k=1, epsilon_step=0.1, request_id="one")
    monkeypatch.setattr(_core, "race", None)
    for change in ({"k": 2}, {"epsilon_step": 0.2}, {"sensitivity": 2}):
        with pytest.raises(dp.LedgerConflictError, match="with other parameters"):
            budget.peel(CLEAR, **{"k": 1, "epsilon_step": 0.1} | change, request_id="one")
    with pytest.raises(TypeError, match="request_id must be a string"):
        budget.peel(CLEAR, k=1, epsilon_step=0.1, request_id=3)
    with pytest.raises(ValueError, match="request_id needs a filter that is bound"):
        dp.Filter(epsilon=1).peel(CLEAR, k=1, epsilon_step=0.1, request_id="one")
    odd = dp.Histogram([9, 8], labels=[object(), "x"])
    with pytest.raises(TypeError, match="can't be recorded"):
        budget.peel(odd, k=1, epsilon_step=0.1)
    assert len(ledger.history("ann")) == 1


def test_a_budget_is_opened_as_what_it_is(ledger):
    ledger.create("session", **TERMS)
    ledger.create_filter("filter", epsilon=1)
    with pytest.raises(dp.LedgerConflictError, match=r"use Session\.bound"):
        dp.Filter.bound(ledger, "session")
    with pytest.raises(dp.LedgerConflictError, match=r"use Filter\.bound"):
        dp.Session.bound(ledger, "filter")
    for name in ("session", "filter"):
        with pytest.raises(dp.LedgerConflictError, match="there is a budget named"):
            ledger.create_filter(name, epsilon=1)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, TypeError), ({"epsilon": 1, "rho": 1}, TypeError), ({"epsilon": -1}, ValueError),
        ({"epsilon": 1, "delta": 2}, ValueError), ({"epsilon": "1"}, TypeError),
        ({"epsilon": 1, "dataset": ""}, ValueError), ({"epsilon": 1, "cap": 3}, TypeError),
        ({"epsilon": 1, "cap": "x" * 2000}, ValueError), ({"epsilon": math.inf}, ValueError),
    ],
)  # fmt: skip
def test_bad_filters(ledger, options, error):
    with pytest.raises(error):
        ledger.create_filter("ann", **options)
    assert ledger.names() == []


# ---- what others run


@pytest.mark.parametrize("bound", [True, False])
def test_what_others_run_is_charged(ledger, bound):
    ledger.create_filter("ann", rho=1.0, delta=1e-6)
    budget = dp.Filter.bound(ledger, "ann") if bound else dp.Filter(rho=1.0, delta=1e-6)
    rho, delta = Fraction(1), Fraction(1, 2 * 10**6)
    for args, options, costs, failure in (
        ((0.1, 1e-7), {}, exact(0.1) ** 2 / 2, exact(1e-7)),
        ((0.1,), {}, exact(0.1) ** 2 / 2, 0),
        ((), {"rho": 0.05}, exact(0.05), 0),
        ((0.1,), {"bounded_range": True}, price_of(exact(0.1), "bounded_range"), 0),
        ((0.1,), {"law": "bounded_range"}, price_of(exact(0.1), "bounded_range"), 0),
        ((0.1,), {"law": "laplace"}, price_of(exact(0.1), "laplace"), 0),
    ):
        given = budget.charge(*args, **options)
        assert given == down(exact(args[0] if args else options["rho"]))
        rho, delta = rho - costs, delta - failure
        assert budget._account.left() == (rho, delta)
    with pytest.raises(dp.BudgetError, match="costs a delta of 5e-07, and 4e-07 is left"):
        budget.charge(0.01, 5e-7)
    if bound:
        entries = ledger.history("ann")
        assert [entry.paid for entry in entries] == [True] * 6
        assert ledger.lost("ann") == []
        assert entries[0].call == {
            "mechanism": "charge", "epsilon": "1/10", "law": "any", "delta": "1/10000000",
        }  # fmt: skip


def test_bad_charges(ledger):
    rho, pure = dp.Filter(rho=1.0, delta=1e-6), dp.Filter(epsilon=1.0)
    for budget, args, options, error in (
        (rho, (), {}, TypeError), (rho, (1,), {"rho": 1}, TypeError),
        (rho, (0.1, 1e-7), {"bounded_range": True}, ValueError),
        (rho, (0.1, 1e-7), {"law": "laplace"}, ValueError),
        (rho, (), {"rho": 0.1, "delta": 1e-7}, ValueError), (rho, (0.1, 2.0), {}, ValueError),
        (rho, (0.1,), {"law": "laplace", "bounded_range": True}, ValueError),
        (rho, (0.1,), {"bounded_range": "yes"}, TypeError), (rho, (0.1, "0"), {}, TypeError),
        (pure, (0.1, 1e-7), {}, ValueError), (pure, (), {"rho": 0.1}, ValueError),
        (rho, (0.1,), {"request_id": "one"}, ValueError),
    ):  # fmt: skip
        before = budget.remaining
        with pytest.raises(error):
            budget.charge(*args, **options)
        assert budget.remaining == before


def test_a_charge_for_others_is_not_made_twice_by_one_id(ledger):
    ledger.create_filter("ann", epsilon=1)
    budget = dp.Filter.bound(ledger, "ann")
    budget.charge(0.25, request_id="one")
    with pytest.raises(dp.LedgerConflictError, match="was charged before"):
        budget.charge(0.25, request_id="one")
    assert budget.remaining.epsilon == 0.75


# ---- caps


def test_a_cap_pays_for_all_budgets_under_it(ledger, path):
    ledger.create_filter("sales", rho=1.0, delta=1e-5, dataset="sales of 2026")
    ledger.create("ann", **TERMS, cap="sales", dataset="sales of 2026")
    ledger.create_filter("bob", rho=0.5, delta=1e-6, cap="sales")
    ann, bob = dp.Session.bound(ledger, "ann"), dp.Filter.bound(ledger, "bob")
    ann.limited_domain(CLEAR, k=3, k_bar=3)  # two items and BOT
    ann.joint(CLEAR, k=2)
    step, each = ann.terms.epsilon_step, Fraction(ann.terms.delta_threshold)
    rho = 4 * price_of(Fraction(step), "bounded_range")
    bob.charge(0.1, 1e-7)
    bob.limited_domain(CLEAR, k=3, k_bar=3, epsilon_step=0.1, delta_threshold=1e-8)
    rho += exact(0.1) ** 2 / 2 + 3 * price_of(exact(0.1), "bounded_range")
    delta = each + exact(1e-7) + exact(1e-8)
    cap = ledger._book.state("sales").left
    assert cap == {"rho": 1 - rho, "delta": exact(1e-5) / 2 - delta}
    for name in ledger.names():
        assert ledger.budget(name).cap == (None if name == "sales" else "sales")
    assert ledger.history("ann")[0].dataset == "sales of 2026"
    assert ledger.lost("sales") == []


MANY = dp.Histogram(list(range(9000, 0, -600)))


@pytest.mark.parametrize("steps", [0, 1, 3, 40])
def test_the_rest_is_what_a_cap_pays_for(ledger, steps):
    """More than that was asked for again and again, for ever."""
    terms = dp.Session(**TERMS).terms
    each = price_of(Fraction(terms.epsilon_step), "bounded_range")
    ledger.create_filter("sales", rho=each * steps + each / 2, delta=1e-6)
    ledger.create("ann", **TERMS, cap="sales")
    ann = dp.Session.bound(ledger, "ann")
    if steps == 0:
        for ask in (lambda: ann.peel(MANY, k="rest"), lambda: ann.check("peel", MANY, k=1)):
            with pytest.raises(dp.BudgetError):
                ask()
        return
    planned = [("peel", MANY, {"k": min(steps, len(MANY))})]
    assert ann.price(planned).fits
    assert len(ann.peel(MANY, k="rest").items) == min(steps, len(MANY))
    assert ledger.budget("ann").remaining.outcomes == 20 - min(steps, len(MANY))
    assert not ann.price(planned).fits


def test_a_cap_without_delta_leaves_no_threshold(ledger):
    ledger.create_filter("sales", rho=1)
    ledger.create("ann", **TERMS, cap="sales")
    ann = dp.Session.bound(ledger, "ann")
    with pytest.raises(dp.BudgetError):
        ann.limited_domain(MANY, k="rest")
    assert len(ann.peel(MANY, k="rest").items) == len(MANY)


def test_a_filter_asks_for_no_more_than_its_cap_has(ledger):
    ledger.create_filter("sales", rho=0.01, delta=1e-6)
    ledger.create_filter("bob", rho=1.0, delta=1e-6, cap="sales")
    bob = dp.Filter.bound(ledger, "bob")
    step = bob.epsilon_step(2)
    assert bob.price([("peel", MANY, {"k": 2, "epsilon_step": step})]).fits
    assert not bob.price([("peel", MANY, {"k": 2, "epsilon_step": 2 * step})]).fits
    bob.peel(MANY, k=2, epsilon_step=step)
    assert bob.remaining.rho > 0.98


def test_a_cap_refuses_what_the_budget_could_pay(ledger, monkeypatch):
    ledger.create_filter("sales", rho=1e-6, delta=1e-6)
    ledger.create("ann", **TERMS, cap="sales")
    ledger.create_filter("bob", rho=1.0, delta=1e-6, cap="sales")
    monkeypatch.setattr(_core, "race", None)
    ann, bob = dp.Session.bound(ledger, "ann"), dp.Filter.bound(ledger, "bob")
    for ask in (
        lambda: ann.peel(CLEAR, k=1),
        lambda: bob.peel(CLEAR, k=1, epsilon_step=0.1),
        lambda: bob.charge(rho=0.1),
    ):
        with pytest.raises(dp.BudgetError, match="is left in the cap 'sales'"):
            ask()
    for name, left in (("ann", (20, 5)), ("bob", (0.0, 1.0, 5e-7)), ("sales", (0.0, 1e-6, 5e-7))):
        assert ledger.budget(name).remaining == left
        assert ledger.history(name) == []


def test_the_threshold_of_weighted_is_drawn_for_the_larger_delta(ledger):
    """docs/proofs/weighted.md, 17."""
    ledger.create_filter("sales", rho=10.0, delta=0.4)
    ledger.create_filter("ann", rho=1.0, delta=1e-6, cap="sales")
    ledger.create_filter("bob", rho=1.0, delta=1e-6)
    thresholds = [
        dp.Filter.bound(ledger, name)
        .weighted(WEIGHED, rho=0.01, delta_threshold=1e-7)
        .parameters["threshold"]
        for name in ("ann", "bob")
    ]
    assert thresholds[0] > thresholds[1]
    alone = dp.Filter(rho=10.0, delta=0.4).weighted(WEIGHED, rho=0.01, delta_threshold=1e-7)
    assert thresholds[0] == alone.parameters["threshold"]


def test_what_can_be_a_cap(ledger):
    ledger.create("session", **TERMS)
    ledger.create_filter("pure", epsilon=1)
    ledger.create_filter("rho", rho=1, delta=1e-6)
    ledger.create_filter("under", rho=1, delta=1e-6, cap="rho")
    for make in (
        lambda: ledger.create("new", **TERMS, cap="session"),
        lambda: ledger.create("new", **TERMS, cap="pure"),
        lambda: ledger.create("new", **TERMS, cap="under"),
        lambda: ledger.create_filter("new", epsilon=1, cap="rho"),
        lambda: ledger.create_filter("new", rho=1, cap="pure"),
    ):
        with pytest.raises(dp.LedgerConflictError, match="cap"):
            make()
    with pytest.raises(dp.UnknownBudgetError):
        ledger.create("new", **TERMS, cap="nobody")
    ledger.create_filter("new", epsilon=1, cap="pure")
    dp.Filter.bound(ledger, "new").charge(0.25)
    assert ledger.budget("pure").remaining.epsilon == 0.75


def test_budgets_under_one_cap_spend_it_exactly_at_once(path):
    """Threads of four budgets, whose cap pays for 30 of the 40 charges they want."""
    with dp.Ledger(path) as ledger:
        ledger.create_filter("cap", epsilon=3)
        for number in range(4):
            ledger.create_filter(f"{number}", epsilon=1, cap="cap")
        paid = []

        def work(number):
            budget = dp.Filter.bound(ledger, f"{number}")
            for _ in range(10):
                try:
                    paid.append(budget.charge(0.1))
                except dp.BudgetError:
                    return

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(paid) == 30
        assert ledger.budget("cap").remaining.epsilon == 0.0
        left = sum(ledger._book.state(f"{number}").left["epsilon"] for number in range(4))
        assert left == 1


# ---- periods


@pytest.mark.parametrize("kind", ["session", "filter", "rho"])
def test_a_renewed_budget_costs_the_sum_of_its_periods_and_says_so(ledger, kind):
    if kind == "session":
        ledger.create("ann", **TERMS)
    else:
        ledger.create_filter("ann", **{"epsilon" if kind == "filter" else "rho": 1.0})
    open_ = dp.Session.bound if kind == "session" else dp.Filter.bound
    more = {} if kind == "session" else {"epsilon_step": 0.5}
    old = open_(ledger, "ann")
    one = old.cost
    whole = ledger.budget("ann").remaining
    assert old.peel(CLEAR, k=1, **more).cost.epsilon == one.epsilon
    for number, period in ((2, "2026-12"), (3, "2027-01")):
        ledger.renew("ann", period)
        budget = ledger.budget("ann")
        assert (budget.remaining, budget.periods, budget.period) == (whole, number, period)
        for spender in (old, open_(ledger, "ann")):  # opened before, and after
            cost = spender.peel(CLEAR, k=1, **more).cost
            for each in (cost, spender.cost, budget.total):
                assert each.epsilon == pytest.approx(number * one.epsilon)
                assert each.delta == pytest.approx(number * one.delta)
                assert each.epsilon >= number * one.epsilon
                assert each.theorem.startswith(f"{number} periods, each of: ")
                if kind == "rho":
                    assert each.rho == pytest.approx(number)
            if kind == "session":
                assert one.epsilon * (number - 1) < spender.spent.epsilon < one.epsilon * number
                assert spender.spent.delta >= one.delta * number
                assert spender.to_dict()["spent"]["epsilon"] == spender.spent.epsilon
        with pytest.raises(dp.LedgerConflictError, match=r"was renewed for .* before"):
            ledger.renew("ann", period)
    ledger.budget("ann")
    assert len(ledger.history("ann")) == 5


def test_nothing_of_a_period_comes_back_in_the_next(ledger, monkeypatch):
    """A call that is under way when its budget is renewed."""
    ledger.create_filter("cap", rho=1, delta=1e-5)
    ledger.create("ann", **TERMS, cap="cap")
    race = _core.race

    def renewing(*args):
        ledger.renew("ann", "next")
        ledger.renew("cap", "next")
        return race(*args)

    monkeypatch.setattr(_core, "race", renewing)
    session = dp.Session.bound(ledger, "ann")
    release = session.limited_domain(CLEAR, k=4, k_bar=4, request_id="one")
    assert release.cost.epsilon == pytest.approx(2.0)
    assert session.remaining == (20, 5)
    assert ledger.budget("cap").remaining.rho == 1.0
    assert ledger.history("ann")[0].release == release
    monkeypatch.undo()
    session.limited_domain(CLEAR, k=3, k_bar=3)
    assert session.remaining == (17, 4)


def test_bad_renewals(ledger):
    ledger.create("ann", **TERMS)
    for name, period, error in (
        ("ann", "", ValueError), ("ann", 3, TypeError), ("ann", "x" * 2000, ValueError),
        ("eve", "2026", dp.UnknownBudgetError),
    ):  # fmt: skip
        with pytest.raises(error):
            ledger.renew(name, period)
    assert ledger.budget("ann").periods == 1
    ledger.renew("ann", "a\udc80\0")
    assert ledger.budget("ann").period == "a\udc80\0"


# ---- batches


@pytest.mark.parametrize("bound", [True, False])
def test_the_price_of_a_batch_is_what_it_costs_at_most(ledger, bound):
    ledger.create("ann", **TERMS)
    ledger.create_filter("bob", rho=0.1, delta=1e-6)
    session = dp.Session.bound(ledger, "ann") if bound else dp.Session(**TERMS)
    batch = [
        ("limited_domain", CLEAR, {"k": 2, "k_bar": 2}), ("peel", CLEAR, {"k": 2}),
        ("joint", CLEAR, {"k": 3, "request_id": "one"}), ("noisy_max", CLEAR, {}),
        ("limited_domain", CLEAR, {"k": 1, "k_bar": "private"}),
    ]  # fmt: skip
    price = session.price(batch)
    assert price == ({"outcomes": 8, "calls": 2}, True)
    assert session.price(batch * 3).fits is False
    rest = session.price([*batch, ("peel", dp.Histogram(range(99), range(99)), {"k": "rest"})])
    assert rest == ({"outcomes": 20, "calls": 2}, True)
    assert session.remaining == (20, 5)
    budget = dp.Filter.bound(ledger, "bob") if bound else dp.Filter(rho=0.1, delta=1e-6)
    batch = [
        (name, WEIGHED if name == "weighted" else CLEAR, options)
        for name, options in CALLS.items()
        if name != "canonical"
    ]
    price = budget.price(batch)
    before = budget._account.left()
    assert price.fits
    for name, h, options in batch:
        getattr(budget, name)(h, **options)
    after = budget._account.left()
    assert price.amounts == {"rho": before[0] - after[0], "delta": before[1] - after[1]}
    for bad, error in (
        ([("price", CLEAR, {})], ValueError), (["peel"], TypeError), ([("peel", CLEAR)], TypeError),
        ([("peel", CLEAR, {"k": 0, "epsilon_step": 1})], ValueError),
    ):  # fmt: skip
        with pytest.raises(error):
            budget.price(bad)


# ---- export and audit

KEY = b"0123456789abcdef"


@pytest.fixture
def busy(ledger, monkeypatch):
    """A ledger with a cap, a renewal, a paid charge, and a call that was lost."""
    ledger.create_filter("cap", rho=1, delta=1e-5)
    ledger.create("änn", **TERMS, cap="cap")
    ledger.create_filter("bob", rho=0.5, cap="cap")
    session = dp.Session.bound(ledger, "änn")
    session.limited_domain(CLEAR, k=3, k_bar=3, request_id="one")
    ledger.renew("änn", "next")
    session.peel(CLEAR, k=2)
    dp.Filter.bound(ledger, "bob").charge(0.1)
    with monkeypatch.context() as patch:
        patch.setattr(_core, "race", None)
        with pytest.raises(TypeError):
            session.limited_domain(CLEAR, k=3, request_id="lost")
    return ledger


def test_an_export_is_sound_and_tells_what_was_lost(busy):
    (lost,) = busy.lost("änn")
    assert (lost.request_id, lost.outcomes, lost.release) == ("lost", 3, None)
    export = list(busy.export(key=KEY))
    audit = verify_export(export, key=KEY)
    assert audit.signed
    assert {name: length for name, (length, _) in audit.heads.items()} == {
        "cap": 7, "änn": 7, "bob": 2,
    }  # fmt: skip
    assert audit.lost == {"cap": 1, "änn": 1, "bob": 0}
    assert verify_export(export).signed is False
    assert any("ant" in line for line in export)
    bare = list(busy.export(key=KEY, bodies=False))
    assert not any('"ant"' in line or "ant" in json.loads(line).get("body", "") for line in bare)
    assert verify_export(bare, key=KEY) == audit
    assert set(verify_export(busy.export(["bob"])).heads) == {"bob"}
    with pytest.raises(dp.UnknownBudgetError):
        list(busy.export(["eve"]))
    for line in export[:-1]:
        fields = json.loads(json.loads(line)["text"])
        assert fields["library"] == dp.__version__
        if fields["kind"] == "charge":
            assert "dataset" in fields
            assert fields["accounting"].startswith(("session: ", "filter: "))


def replaced(lines, number, old, new):
    assert old in lines[number]
    return [*lines[:number], lines[number].replace(old, new), *lines[number + 1 :]]


FORGERIES = {
    "a line left out": lambda lines: lines[:2] + lines[3:],
    "two lines swapped": lambda lines: [lines[1], lines[0], *lines[2:]],
    "the end left out": lambda lines: lines[:-1],
    "the last line of a log left out": lambda lines: [
        line for number, line in enumerate(lines) if number != len(lines) - 2
    ],
    "a line twice": lambda lines: [lines[0], *lines],
    "a line after the end": lambda lines: [*lines, lines[0]],
    "an amount": lambda lines: replaced(
        lines, 1, '\\"amounts\\":{\\"delta\\"', '\\"amounts\\":{\\"omega\\"'
    ),
    "a release": lambda lines: [line.replace("ant", "bee") for line in lines],
    "another data set": lambda lines: replaced(lines, 0, '\\"dataset\\":null', '\\"dataset\\":1'),
    "no JSON": lambda lines: ["x", *lines],
    "an empty file": lambda lines: [],
    "another kind of JSON": lambda lines: ["[]", *lines],
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_changed_export_is_refused(busy, what):
    lines = list(busy.export())
    verify_export(lines)
    with pytest.raises(dp.LedgerError) as error:
        verify_export(FORGERIES[what](lines))
    assert "ant" not in str(error.value)


def test_who_makes_the_whole_chain_anew_has_no_signature(busy, tmp_path):
    with dp.Ledger(tmp_path / "forged") as forged:
        forged.create("änn", **TERMS)
        lines = list(forged.export())
    verify_export(lines)
    for key in (KEY, b""):
        with pytest.raises(dp.LedgerError, match="not signed by this key"):
            verify_export(lines, key=key)
    with pytest.raises(dp.LedgerError, match="not signed by this key"):
        verify_export(busy.export(key=b"another key"), key=KEY)


def test_an_old_copy_does_not_go_on_from_an_export(busy, path, tmp_path):
    """What no file can tell of itself: that it was restored from a copy."""
    copy = path.read_bytes()
    dp.Session.bound(busy, "änn").peel(CLEAR, k=1)
    heads = verify_export(busy.export()).heads
    dp.Session.bound(busy, "änn").peel(CLEAR, k=1)
    verify_export(busy.export(), earlier=heads)
    restored = tmp_path / "restored"
    restored.write_bytes(copy)
    with dp.Ledger(restored) as ledger:
        with pytest.raises(dp.LedgerError, match=r"'(änn|cap)' does not go on"):
            verify_export(ledger.export(), earlier=heads)
        for _ in range(3):
            dp.Session.bound(ledger, "änn").peel(CLEAR, k=1)
        with pytest.raises(dp.LedgerError, match="does not go on"):
            verify_export(ledger.export(), earlier=heads)


def test_what_is_no_name_or_no_export(ledger):
    ledger.create("ann", **TERMS)
    for ask in (
        lambda: ledger.budget(3), lambda: ledger.history(None), lambda: ledger.lost(b"ann"),
        lambda: dp.Filter.bound(ledger, 3), lambda: dp.Session.bound(ledger, None),
        lambda: list(ledger.export("ann")), lambda: list(ledger.export([3])),
        lambda: list(ledger.export(key="text")), lambda: verify_export(3),
        lambda: verify_export([3]), lambda: verify_export(ledger.export(), key="text"),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            ask()


def test_the_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_bytes(KEY + b"\n")
    (tmp_path / "short").write_bytes(b"x")

    def run(*words):
        code = main(["ledger", *words])
        return code, *capsys.readouterr()

    ledger = "budgets.sqlite"
    assert run("create-filter", ledger, "--budget", "cap", "--rho", "1", "--delta", "1e-5",
               "--dataset", "sales")[0] == 0  # fmt: skip
    assert run("create", ledger, "--budget", "ann", "--k-star", "20", "--calls", "5", "--epsilon",
               "1", "--delta", "1e-6", "--cap", "cap")[0] == 0  # fmt: skip
    with dp.Ledger(ledger) as opened:
        dp.Session.bound(opened, "ann").limited_domain(CLEAR, k=3, k_bar=3, request_id="one")
        dp.Filter.bound(opened, "cap").charge(0.1)
    code, out, _ = run("renew", ledger, "--budget", "ann", "--period", "2026-12")
    assert code == 0
    assert "All 2 periods together cost epsilon = 2" in out
    code, out, _ = run("show", ledger)
    assert code == 0
    assert "20 of 20 outcomes" in out
    (ann, cap) = json.loads(run("show", ledger, "--json")[1])
    assert (ann["periods"], ann["total"]["epsilon"], ann["cap"]) == (2, 2.0, "cap")
    assert cap["remaining"]["rho"] < 1 == cap["rho"]
    for command in ("history", "lost"):
        for name in ("ann", "cap"):
            assert run(command, ledger, "--budget", name)[0] == 0
            assert run(command, ledger, "--budget", name, "--json")[0] == 0
    code, first, _ = run("export", ledger, "--key-file", "key")
    assert code == 0
    (tmp_path / "first.jsonl").write_text(first)
    run("renew", ledger, "--budget", "ann", "--period", "2027-01")
    (tmp_path / "second.jsonl").write_text(run("export", ledger, "--key-file", "key")[1])
    code, out, _ = run("verify", "second.jsonl", "--key-file", "key", "--earlier", "first.jsonl")
    assert code == 0
    assert "signed by this key" in out
    assert run("verify", "first.jsonl", "--json")[0] == 0
    for words, message in (
        (("verify", "first.jsonl", "--earlier", "second.jsonl"), "does not go on"),
        (("verify", "nothing"), "can't be read"),
        (("verify", "key"), "is no line of an export"),
        (("export", ledger, "--key-file", "short"), "holds no key"),
        (("renew", ledger, "--budget", "ann", "--period", "2027-01"), "was renewed"),
        (("export", "nothing"), "there is no ledger"),
        (("create-filter", "new", "--budget", "x"), "either epsilon or rho"),
    ):
        code, _, said = run(*words)
        assert (code, message in said) == (2, True), said
    assert not os.path.exists("new")


BAD_LINES = ['"format"', '["format"]', "[" * 100_000, "{}", "null", "7"]


@pytest.mark.parametrize("text", BAD_LINES, ids=lambda text: text[:10])
def test_no_line_makes_the_verifier_fail_otherwise(text):
    with pytest.raises(dp.LedgerError):
        verify_export([text])


@pytest.mark.parametrize(("field", "value"), [("name", ["a"]), ("seq", "x"), ("seq", None),
                                              ("left", {"outcomes": "1/0", "calls": "1"}),
                                              ("left", {"outcomes": "1e999999999"})])  # fmt: skip
def test_no_field_makes_the_verifier_fail_otherwise(ledger, field, value):
    ledger.create("ann", **TERMS)
    first, *rest = ledger.export()
    shown = json.loads(first)
    shown["text"] = json.dumps({**json.loads(shown["text"]), field: value})
    with pytest.raises(dp.LedgerError):
        verify_export([json.dumps(shown), *rest])


def test_the_hash_of_a_release_that_is_not_shown_tells_no_guess(ledger):
    """The same release twice has two hashes: its text has a salt."""
    ledger.create("ann", **TERMS)
    ann = dp.Session.bound(ledger, "ann")
    for _ in range(2):
        ann.peel(dp.Histogram([10**9, 1]), k=1)
    lines = [json.loads(json.loads(text).get("text", "{}")) for text in ledger.export(bodies=False)]
    bodies = [fields["body"] for fields in lines if "body" in fields]
    assert len(set(bodies)) == 2
