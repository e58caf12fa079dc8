"""Ledgers: what is on disk, when; crashes, many processes, and files that fail.

DPTOPK_CRASHES and DPTOPK_HAMMER=1 set the size of the two long tests (1,000 runs; 8
processes of 4 threads of 500 calls).
"""

import contextlib
import datetime
import decimal
import json
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import uuid
import zoneinfo
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from ledger_harness import CLEAR, HAMMER, hammer, kills

import dptopk as dp
from dptopk import _core
from dptopk.budget import fork
from dptopk.budget.record import check_labels, decode, encode
from dptopk.budget.terms import Terms

TERMS = {"k_star": 20, "calls": 5, "epsilon": 1.0, "delta": 1e-6}
CRASHES = int(os.environ.get("DPTOPK_CRASHES", "20"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budgets.sqlite"


@pytest.fixture
def ledger(path):
    with dp.Ledger(path) as ledger:
        ledger.create("ann", **TERMS)
        yield ledger


def sql(path, text):
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        return db.execute(text).fetchall()


def left(path):
    """What the file says is left, after each line that is the last of a budget."""
    rows = sql(path, "SELECT text, max(seq) FROM lines GROUP BY name")
    return [json.loads(text)["left"] for text, _ in rows]


# ---- budgets


def test_a_budget_lasts_and_its_numbers_are_exact(path):
    terms = {"k_star": 7, "calls": 3, "epsilon": 0.1 + 0.2, "delta": 1e-6 / 3, "method": "zcdp",
             "accounting": "printed", "delta_split": 0.3}  # fmt: skip
    with dp.Ledger(path) as ledger:
        ledger.create("ann", **terms)
        ledger.create("bob", **TERMS)
    with dp.Ledger(str(path)) as ledger:
        assert ledger.names() == ["ann", "bob"]
        budget = ledger.budget("ann")
        assert budget[:3] == ("ann", Terms.of(**terms), (7, 3))
        assert dp.Session.bound(ledger, "ann").terms == dp.Session(**terms).terms
        assert ledger.history("ann") == []


def test_a_total_given_as_rho_lasts(path):
    with dp.Ledger(path) as ledger:
        ledger.create("ann", k_star=20, calls=5, rho=0.1, delta=1e-6)
        session = dp.Session.bound(ledger, "ann")
        first = session.joint(CLEAR, k=2, request_id="one")
        assert session.joint(CLEAR, k=2, request_id="one") == first
        assert session.remaining == (19, 5)
        assert first.cost.rho == pytest.approx(0.1)
    with dp.Ledger(path) as ledger:
        assert ledger.budget("ann").terms == dp.Session(k_star=20, calls=5, rho=0.1,
                                                        delta=1e-6).terms  # fmt: skip
        assert ledger.history("ann")[0].release == first


def test_calls_of_one_step_are_recorded_and_not_drawn_again(ledger):
    session = dp.Session.bound(ledger, "ann")
    calls = {
        "joint": {"k": 2}, "canonical": {"k": 2}, "noisy_max": {"largest": False}, "peel": {"k": 1},
    }  # fmt: skip
    for name, options in calls.items():
        left = session.remaining
        first = getattr(session, name)(CLEAR, request_id=name, **options)
        assert getattr(session, name)(CLEAR, request_id=name, **options) == first
        assert session.remaining == (left.outcomes - 1, left.calls)
        with pytest.raises(dp.LedgerConflictError, match="with other parameters"):
            getattr(session, name)(CLEAR, request_id=name, sensitivity=2, **options)
    assert [entry.outcomes for entry in ledger.history("ann")] == [1, 1, 1, 1]
    assert {entry.call["mechanism"] for entry in ledger.history("ann")} == set(calls)


def test_the_step_of_a_budget_stays_what_it_was(ledger, monkeypatch):
    step = ledger.budget("ann").terms.epsilon_step
    monkeypatch.setattr("dptopk.budget.terms.step_epsilon", lambda *args: step / 2)
    assert dp.Session.bound(ledger, "ann").terms.epsilon_step == step


@pytest.mark.parametrize(
    ("name", "changes", "error", "message"),
    [
        ("ann", {}, dp.LedgerConflictError, "there is a budget named 'ann' already"),
        ("", {}, ValueError, "name must not be empty"),
        (3, {}, TypeError, "name must be a string, got int"),
        ("bob", {"epsilon": -1}, ValueError, "epsilon must be a finite number > 0"),
        ("bob", {"k_star": None}, TypeError, "k_star must be an integer"),
        ("bob", {"colour": 1}, TypeError, "colour"),
    ],
)
def test_bad_budgets(ledger, name, changes, error, message):
    with pytest.raises(error, match=message):
        ledger.create(name, **TERMS | changes)
    assert ledger.names() == ["ann"]


def test_no_such_budget(ledger):
    for ask in (ledger.budget, ledger.history, lambda name: dp.Session.bound(ledger, name)):
        with pytest.raises(dp.LedgerError, match=r"^there is no budget named 'eve'"):
            ask("eve")


# ---- calls


def test_calls_are_charged_on_disk_and_recorded(ledger, path):
    session = dp.Session.bound(ledger, "ann")
    release = session.limited_domain(CLEAR, k=3, k_bar=3)
    assert release.labels == ("ant", "bee")
    private = session.limited_domain(CLEAR, k=1, k_bar="private", max_items_per_user=2)
    peeled = session.peel(np.arange(5) * 999, k=2)
    assert session.remaining == (20 - 3 - 2 - 2, 3)
    assert session.spent[:2] == (7, 2)
    with dp.Ledger(path) as other:
        assert dp.Session.bound(other, "ann").remaining == (13, 3)
        history = other.history("ann")
        assert other.budget("ann").remaining == (13, 3)
    assert [entry.release for entry in history] == [release, private, peeled]
    assert [(entry.outcomes, entry.calls) for entry in history] == [(3, 1), (2, 1), (2, 0)]
    assert history[0].call == {
        "mechanism": "limited_domain", "k": 3, "k_bar": 3, "max_items_per_user": None,
    }  # fmt: skip


def test_refused_before_anything_is_drawn_or_charged(ledger, monkeypatch):
    monkeypatch.setattr(_core, "race", None)
    session = dp.Session.bound(ledger, "ann")
    with pytest.raises(dp.BudgetError, match="may cost 21 outcomes, and 20 are left"):
        session.limited_domain(CLEAR, k=21)
    with pytest.raises(ValueError, match="k must be at most k_bar"):
        session.limited_domain(CLEAR, k=2, k_bar=1)
    odd = dp.Histogram([9, 8], labels=[object(), "x"])
    for call in (session.limited_domain, session.peel):
        with pytest.raises(TypeError, match="label of type object can't be recorded"):
            call(odd, k=1)
    assert ledger.history("ann") == []


@pytest.mark.parametrize("truncated", [False, True])
def test_whether_a_label_is_refused_tells_nothing_of_the_counts(ledger, monkeypatch, truncated):
    monkeypatch.setattr(_core, "race", None)
    session = dp.Session.bound(ledger, "ann")
    errors = []
    for counts in ([9, 8, 0], [9, 8, 10]):
        h = dp.Histogram(counts, labels=["a", "b", object()])
        with pytest.raises(TypeError) as error:
            session.limited_domain(h.truncate(2) if truncated else h, k=1, k_bar=2)
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    assert session.remaining == (20, 5)


def test_charged_on_disk_before_the_draw(ledger, path, monkeypatch):
    seen, race = [], _core.race

    def spy(*args):
        seen.extend(left(path))
        return race(*args)

    monkeypatch.setattr(_core, "race", spy)
    dp.Session.bound(ledger, "ann").limited_domain(CLEAR, k=3, k_bar=3)
    assert seen == [{"outcomes": "17", "calls": "4"}]


def test_a_failure_in_between_keeps_the_whole_charge(ledger, monkeypatch):
    def fail(*args):
        raise MemoryError

    session = dp.Session.bound(ledger, "ann")
    monkeypatch.setattr(_core, "race", fail)
    with pytest.raises(MemoryError):
        session.limited_domain(CLEAR, k=4, request_id="one")
    assert ledger.budget("ann").remaining == (16, 4)
    (entry,) = ledger.history("ann")
    assert (entry.outcomes, entry.release) == (4, None)
    monkeypatch.undo()
    with pytest.raises(dp.LedgerError, match="'one' was charged before and no release"):
        session.limited_domain(CLEAR, k=4, request_id="one")
    assert ledger.budget("ann").remaining == (16, 4)


def test_a_repeated_request_is_neither_drawn_nor_paid_again(ledger, monkeypatch):
    session = dp.Session.bound(ledger, "ann")
    first = session.limited_domain(CLEAR, k="rest", k_bar=3, request_id="one")
    peeled = session.peel(CLEAR, k=1, request_id="two")
    left = session.remaining
    monkeypatch.setattr(_core, "race", None)
    assert session.limited_domain(CLEAR, k="rest", k_bar=3, request_id="one") == first
    assert session.peel(CLEAR, k=1, request_id="two") == peeled
    assert session.remaining == left
    with pytest.raises(dp.LedgerError, match="'one' was made before with other parameters"):
        session.limited_domain(CLEAR, k=2, k_bar=3, request_id="one")
    with pytest.raises(dp.LedgerError, match="'one' was made before with other parameters"):
        session.peel(CLEAR, k=2, request_id="one")
    assert session.remaining == left


def test_a_repeated_request_gets_its_release_when_nothing_is_left(ledger):
    session = dp.Session.bound(ledger, "ann")
    first = session.peel(np.arange(20), k=20, request_id="all")
    assert session.remaining.outcomes == 0
    assert session.peel(np.arange(20), k=20, request_id="all") == first
    ledger.create("bob", **TERMS)
    other = dp.Session.bound(ledger, "bob").peel(np.arange(20), k=1, request_id="all")
    assert len(other) == 1  # ids are those of one budget


def test_the_same_request_at_once_is_drawn_once(ledger):
    session = dp.Session.bound(ledger, "ann")
    answers, refused, start = [], [], threading.Barrier(6)

    def ask():
        start.wait()
        try:
            answers.append(session.limited_domain(CLEAR, k=2, request_id="same"))
        except dp.LedgerError as error:
            refused.append(str(error))

    run_threads(ask, 6)
    assert all("being drawn" in message for message in refused)
    assert answers
    assert len(set(answers)) == 1
    assert session.remaining == (18, 4)


def run_threads(work, n):
    threads = [threading.Thread(target=work) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_record_is_append_only(ledger, path):
    dp.Session.bound(ledger, "ann").limited_domain(CLEAR, k=2)
    for change in (
        "DELETE FROM lines", "UPDATE lines SET seq = 9",
        "INSERT OR REPLACE INTO lines SELECT * FROM lines",
        "INSERT INTO lines SELECT * FROM lines WHERE true ON CONFLICT DO UPDATE SET body = ''",
    ):  # fmt: skip
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            sql(path, change)


def forge(path, change):
    """Change a record in spite of its triggers."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for trigger in ("update", "delete", "replace"):
            db.execute(f"DROP TRIGGER IF EXISTS lines_{trigger}")
        db.execute(change)


FORGERIES = {
    "a balance": """UPDATE lines SET text = replace(text, '"outcomes":"18"', '"outcomes":"19"')""",
    "a charge": """UPDATE lines SET text = replace(text, '"amounts":{"calls":"1"',
                                                   '"amounts":{"calls":"0"')""",
    "a line taken out": "DELETE FROM lines WHERE seq = 1",
    "a line that moved": "UPDATE lines SET seq = 9 WHERE seq = 4",
    "another budget": "UPDATE lines SET name = 'bob'",
    "an answer": "UPDATE lines SET body = replace(body, 'ant', 'bee')",
    "a request": "UPDATE lines SET request_id = 'two' WHERE seq = 1",
    "no JSON": "UPDATE lines SET text = '[]' WHERE seq = 2",
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_record_that_was_changed_is_seen(ledger, path, what):
    session = dp.Session.bound(ledger, "ann")
    for request in ("one", "three"):
        session.limited_domain(CLEAR, k=2, k_bar=3, request_id=request)
    ledger.close()
    with dp.Ledger(path) as other:
        assert other.budget("ann").remaining == (16, 3)
    before = sql(path, "SELECT * FROM lines")
    forge(path, FORGERIES[what])
    assert sql(path, "SELECT * FROM lines") != before
    with dp.Ledger(path) as other, pytest.raises(dp.LedgerError, match=r"line|damaged") as error:
        other.budget("bob" if what == "another budget" else "ann")
    assert "ant" not in str(error.value)


def test_a_ledger_that_lost_what_it_had_is_seen_while_it_is_open(ledger, path):
    """An old copy written over the file gives budget back to whoever opens it next, not to us."""
    session = dp.Session.bound(ledger, "ann")
    old = path.read_bytes()
    session.limited_domain(CLEAR, k=2)
    ledger._store.close_connections()
    path.write_bytes(old)
    with pytest.raises(dp.LedgerError, match="has lost what was in it before"):
        session.limited_domain(CLEAR, k=2)
    with pytest.raises(dp.LedgerError, match="has lost what was in it before"):
        ledger.budget("ann")


def test_a_record_that_is_gone_altogether_is_seen_while_it_is_open(ledger, path):
    """The first line of a record has the number 0."""
    assert ledger.budget("ann").remaining == (20, 5)
    forge(path, "DELETE FROM lines")
    with pytest.raises(dp.LedgerError, match="has lost what was in it before"):
        ledger.budget("ann")


def test_the_file_holds_nothing_unreleased(ledger, path):
    counts = [918_273_645_546, 817_263_544_536, 4, 3]  # so long that no random digits hold them
    h = dp.Histogram(counts, labels=["aardvark", "bumblebee", "centipede", "dodo"])
    dp.Session.bound(ledger, "ann").limited_domain(h, k=1, k_bar=2)
    ledger.close()
    stored = b"".join(file.read_bytes() for file in path.parent.iterdir())
    for secret in (b"918273645546", b"817263544536", b"centipede", b"dodo"):
        assert secret not in stored
    assert (b"aardvark" in stored) != (b"bumblebee" in stored)


def test_what_every_connection_is_set_to(ledger, path):
    for _ in range(2):
        with ledger._store._connection("BEGIN") as db:
            for pragma, value in (
                ("journal_mode", "persist"),
                ("synchronous", 2),
                ("fullfsync", 1),
            ):
                assert db.execute(f"PRAGMA {pragma}").fetchone() == (value,)
        ledger._store.close_connections()
    assert {file.name for file in path.parent.iterdir()} <= {path.name, f"{path.name}-journal"}


def test_no_ledger_is_added_amid_a_fork(path, monkeypatch):
    inside = []

    class Ledgers:
        def add(self, ledger):
            inside.extend(fork._gate.inside)

    monkeypatch.setattr(fork, "_connected", Ledgers())
    dp.Ledger(path).close()
    assert inside == [threading.get_ident()]


def test_a_relative_path_stays_the_file_it_was(tmp_path, monkeypatch):
    for folder, k_star in (("here", 20), ("there", 200)):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        ledger = dp.Ledger("budgets.sqlite")
        ledger.create("ann", **TERMS | {"k_star": k_star})
        if k_star == 20:
            here = ledger
    here._store.close_connections()  # as a fork does
    assert here.budget("ann").remaining.outcomes == 20
    here.close()
    ledger.close()


# ---- the record keeps types


@pytest.mark.parametrize(
    "label",
    [
        "a", "\udc80", "\ud800\udc00", "\U00010000", 7, -(2**70), True, 0.1,
        float("inf"), b"\xff", ("a", (1, None)),
        datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
        datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc), decimal.Decimal("1.50"),
        uuid.UUID(int=5), np.int32(4), np.str_("x"), np.bytes_(b"y"), np.str_(), np.bytes_(),
        np.datetime64("2020-01-02"),
    ],
)  # fmt: skip
def test_labels_keep_their_types(label):
    labels = np.empty(3, object)
    labels[:] = ["other", "third", "x"]
    labels[2] = label
    h = dp.Histogram([1, 2, 9000], labels=labels)
    check_labels(h)
    release = dp.peel(h, k=1, epsilon=5)
    back = decode(encode(release))
    assert back == release
    assert type(back.labels[0]) is type(label)


def test_labels_of_arrays_and_none():
    for labels in (None, np.array(["a", "b"]), np.array([1, 2]), np.array([b"a", b"b"])):
        check_labels(dp.Histogram([1, 2], labels=labels))
    for bad in ([object(), 1], ["a", ("b", [1])], np.array(["a", {}], object)):
        with pytest.raises(TypeError, match="can't be recorded"):
            check_labels(dp.Histogram([1, 2], labels=bad))


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("zone", [None, zoneinfo.ZoneInfo("Europe/Vienna")])
def test_an_hour_that_comes_twice_is_recorded_as_which_of_the_two_it_is(zone, fold):
    label = datetime.datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=zone)
    h = dp.Histogram([1, 9000], labels=["never", label])
    (back,) = decode(encode(dp.peel(h, k=1, epsilon=5))).labels
    assert (back, back.fold, back.tzinfo, back.utcoffset()) == (
        label, fold, zone, label.utcoffset(),
    )  # fmt: skip


def columns():
    """Labels of two items as sources and callers have them, by name."""
    pd = pytest.importorskip("pandas")
    day, days = datetime.date(2024, 1, 2), ["2024-01-02", "2024-02-03"]
    aware = datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc)
    yield from {
        "str": ["a", "b"], "bytes": [b"a", b"b"], "int": [1, 2], "bool": [True, False],
        "float": [0.5, 1.5], "date": [day, day.replace(day=3)],
        "datetime": [datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 3)],
        "aware": [aware, aware.replace(day=3)],
        "decimal": [decimal.Decimal("1.50"), decimal.Decimal(2)],
        "uuid": [uuid.UUID(int=1), uuid.UUID(int=2)], "tuple": [("a", 1), ("b", 2)],
        "tuple of aware": [("a", aware), ("b", aware)], "nested": [(1, (2, b"x")), (1, (2, b"y"))],
        "time": [datetime.time(1), datetime.time(2)],
        "timedelta": [datetime.timedelta(1), datetime.timedelta(2)],
        "frozenset": [frozenset("a"), frozenset("b")], "complex": [1j, 2j],
        "tuple of sets": [("a", frozenset("a")), ("b", frozenset("b"))],
        "fraction": [Fraction(1, 2), Fraction(1, 3)],
        "timestamp": list(pd.to_datetime(days)),
        "timestamp column": pd.Series(pd.to_datetime(days)),
        "zoned column": pd.Series(pd.to_datetime(days)).dt.tz_localize("Europe/Vienna"),
        "tuple of timestamps": [("a", t) for t in pd.to_datetime(days)],
        "timedelta column": pd.Series(pd.to_timedelta([1, 2])),
        "period column": pd.Series(pd.period_range("2024", periods=2, freq="D")),
        "category column": pd.Series(["a", "b"], dtype="category"),
        "string column": pd.Series(["a", "b"], dtype="string"),
        **{str(kind): np.array([1, 2]).astype(kind) for kind in (
            "i1", "u8", "f2", "f4", "f8", "S3", "U3", "M8[ns]", "M8[D]", "m8[us]", "c16", ">i4",
        )},
        "longdouble": np.array([1, 2], np.longdouble),
        "structured": np.array([(1, 2), (3, 4)], "i4,i4"),
        "objects": np.array([np.datetime64("2024"), np.datetime64("2025")], object),
    }.items()  # fmt: skip


@pytest.mark.parametrize("domain", ["known", "truncated", "read off the data"])
def test_labels_of_any_type_are_recorded_or_refused_before_the_charge(ledger, domain):
    ledger.create("big", **TERMS | {"k_star": 500, "calls": 500, "epsilon": 500.0})
    session, kept, refused = dp.Session.bound(ledger, "big"), [], []
    for name, labels in columns():
        left = session.remaining
        try:
            if domain == "read off the data":
                h = dp.Histogram.truncated([9000, 8000], labels, next_count=0, k_bar=2)
            else:
                h = dp.Histogram([9000, 8000], labels=labels)
                h = h.truncate(2) if domain == "truncated" else h
            first = session.limited_domain(h, k=1, k_bar=1, request_id=name)
        except (TypeError, ValueError) as error:
            refused.append((name, "label" in str(error), session.remaining == left))
            continue
        kept.append(name)
        again = session.limited_domain(h, k=1, k_bar=1, request_id=name)
        assert again == first, name
        assert type(again.labels[0]) is type(first.labels[0]), name
    assert {"str", "bytes", "int", "bool", "float", "date", "datetime", "aware", "decimal", "uuid",
            "tuple", "tuple of aware", "nested", "i1", "u8", "f2", "f4", "f8", "S3", "U3",
            "M8[ns]", "M8[D]", "m8[us]", ">i4", "longdouble"} <= set(kept)  # fmt: skip
    for name in ("frozenset", "complex", "tuple of sets", "structured", "c16"):
        assert (name, True, True) in refused
    assert all(said and uncharged for _, said, uncharged in refused)
    assert all(entry.release is not None for entry in ledger.history("big"))


def test_items_of_every_type_that_events_may_have_are_recorded(ledger):
    """What a source lets in, the record holds: no charge is lost by a type."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    ledger.create("big", **TERMS | {"k_star": 500, "calls": 500, "epsilon": 500.0})
    session, kept = dp.Session.bound(ledger, "big"), []
    for name, labels in columns():
        try:
            items = pd.Series(labels)
            events = pd.DataFrame({"user": range(4000), "item": items.repeat([3000, 1000]).array})
            h = dp.Histogram.from_events(events, user="user", item="item", k_bar=2)
        except Exception:  # refused at the door, or by pandas
            continue
        first = session.limited_domain(h, k=1, k_bar=1, request_id=name)
        (label,) = first.labels
        again = session.limited_domain(h, k=1, k_bar=1, request_id=name)
        assert (again, type(again.labels[0])) == (first, type(label)), name
        kept.append(name)
    assert {"str", "int", "bool", "float", "date", "datetime", "aware", "timestamp",
            "timestamp column", "zoned column", "decimal", "uuid",
            "bytes"} <= set(kept)  # fmt: skip
    assert all(entry.release is not None for entry in ledger.history("big"))


# ---- the kinds of errors


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (dp.LedgerConflictError, lambda ledger: ledger.create("ann", **TERMS)),
        (dp.LedgerConflictError, lambda ledger: twice(ledger, k=2)),
        (dp.LedgerConflictError, lambda ledger: twice(ledger, k=1, lost=True)),
        (dp.UnknownBudgetError, lambda ledger: ledger.budget("eve")),
        (dp.UnknownBudgetError, lambda ledger: ledger.history("eve")),
        (dp.UnknownBudgetError, lambda ledger: dp.Session.bound(ledger, "eve")),
        (dp.LedgerUnavailableError, lambda ledger: (ledger.close(), ledger.names())),
        (dp.LedgerUnavailableError, lambda ledger: dp.Ledger(ledger._store.path / "no" / "file")),
    ],
)
def test_errors_say_by_their_class_what_to_do(ledger, kind, cause):
    with pytest.raises(dp.LedgerError) as error:
        cause(ledger)
    assert type(error.value) is kind
    assert issubclass(kind, dp.LedgerError)


def twice(ledger, *, k, lost=False):
    """Ask twice by one id; the first may have been lost after its charge."""
    session = dp.Session.bound(ledger, "ann")
    if lost:
        call = {"mechanism": "limited_domain", "k": 1, "k_bar": None, "max_items_per_user": None}
        ledger.account("ann")[1].reserve(1, 1, "id", call)
    else:
        session.limited_domain(CLEAR, k=1, request_id="id")
    session.limited_domain(CLEAR, k=k, request_id="id")


@pytest.mark.posix
def test_a_new_file_is_its_owners_alone(tmp_path):
    """And those that SQLite keeps beside it; the mode of one that is there stays."""
    before = os.umask(0)
    try:
        with dp.Ledger(tmp_path / "new") as ledger:
            ledger.create("ann", **TERMS)
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
        assert modes == dict.fromkeys(("new", "new-journal"), 0o600)
        os.umask(0o777)
        with dp.Ledger(tmp_path / "masked") as ledger:
            ledger.create("ann", **TERMS)
        assert (tmp_path / "masked").stat().st_mode & 0o777 == 0o600
        os.umask(0)
        (tmp_path / "link").symlink_to(tmp_path / "target")
        dp.Ledger(tmp_path / "link").close()
        assert (tmp_path / "target").stat().st_mode & 0o777 == 0o600
        (tmp_path / "new").chmod(0o640)
        dp.Ledger(tmp_path / "new").close()
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_a_record_of_noisy_counts_and_no_labels():
    release = dp.noisy_counts(dp.peel([3, 900, 700], k=2, epsilon=1), [3, 900, 700], epsilon=1)
    back = decode(encode(release))
    assert back == release
    assert back.intervals().tolist() == release.intervals().tolist()
    assert dict(back.parameters) == dict(release.parameters)


# ---- crashes


@pytest.mark.slow
@pytest.mark.posix
def test_killed_at_any_point_nothing_is_released_without_its_charge(path):
    """1,000 runs as of DPTOPK_CRASHES=1000; kill -9 loses no page the kernel has."""
    counts = kills({"path": path}, CRASHES)
    print(counts)
    assert counts["lost"] > 0  # or the kills never came between the charge and the record
    assert sql(path, "PRAGMA integrity_check") == [("ok",)]


# ---- many processes and threads


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_and_threads_pay_exactly_what_there_is(path, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    processes, threads, calls = HAMMER
    if method == "spawn":
        processes = min(processes, 2)
    print(hammer({"path": path}, processes, threads, calls, method))


@pytest.mark.posix
def test_a_fork_amid_calls_leaves_both_sides_working(ledger):
    session, stop = dp.Session.bound(ledger, "ann"), threading.Event()

    def read():
        while not stop.is_set():
            assert session.remaining.outcomes <= 20

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(session.peel(CLEAR, k=1).outcomes)
            finally:
                os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    stop.set()
    for reader in readers:
        reader.join()
    assert session.peel(CLEAR, k=1).outcomes == 1
    assert ledger.budget("ann").remaining == (14, 5)


# ---- files that fail


def test_not_a_ledger(tmp_path):
    for name, content in (("text", b"user,item\n" * 200), ("short", b"x")):
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(dp.LedgerError, match="is not a ledger"):
            dp.Ledger(file)
        assert file.read_bytes() == content
    other = tmp_path / "other.sqlite"
    sql(other, "CREATE TABLE mine (x)")
    before = other.read_bytes()
    with pytest.raises(dp.LedgerError, match="an SQLite file, but not a ledger"):
        dp.Ledger(other)
    assert other.read_bytes() == before
    with pytest.raises(dp.LedgerError, match="can't be opened"):
        dp.Ledger(tmp_path / "no" / "such" / "folder")
    with pytest.raises(dp.LedgerError, match="can't be opened"):
        dp.Ledger(tmp_path)


def test_another_version(ledger, path):
    sql(path, "UPDATE schema_version SET version = 3")
    with pytest.raises(dp.LedgerError, match="another version of dptopk"):
        dp.Ledger(path)


def test_a_damaged_file(ledger, path, monkeypatch):
    session = dp.Session.bound(ledger, "ann")
    session.limited_domain(CLEAR, k=2)
    ledger.close()
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    monkeypatch.setattr(_core, "race", None)
    with pytest.raises(dp.LedgerError, match="is damaged"), dp.Ledger(path) as other:
        dp.Session.bound(other, "ann").limited_domain(CLEAR, k=2)


def test_a_locked_file(ledger, path, monkeypatch):
    monkeypatch.setattr(_core, "race", None)
    with dp.Ledger(path, timeout=0.05) as impatient:
        session = dp.Session.bound(impatient, "ann")
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(dp.LedgerUnavailableError, match="is locked by another program"):
            session.limited_domain(CLEAR, k=2)
        blocker.execute("ROLLBACK")
        blocker.close()
    assert ledger.budget("ann").remaining == (20, 5)


def test_a_closed_ledger(ledger):
    session = dp.Session.bound(ledger, "ann")
    ledger.close()
    with pytest.raises(dp.LedgerError, match="the ledger is closed"):
        session.limited_domain(CLEAR, k=1)


_FULL = """
import resource, sys
import dptopk as dp
from dptopk import _core
path = sys.argv[1]
h = dp.Histogram([9000, 8000, 40], labels=["ant", "bee", "cat"])
drawn, race = [], _core.race
def spy(*args):
    drawn.append(1)
    return race(*args)
_core.race = spy
ledger = dp.Ledger(path)
session = dp.Session.bound(ledger, "full")
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
returned = 0
try:
    while True:
        session.limited_domain(h, k=2)
        returned += 1
except dp.LedgerError as error:
    print(returned, len(drawn), error)
"""


@pytest.mark.posix
def test_no_room_on_the_disk(path):
    with dp.Ledger(path) as ledger:
        ledger.create("full", k_star=10**6, calls=10**6, epsilon=1, delta=1e-6, method="zcdp")
    done = subprocess.run(
        [sys.executable, "-c", _FULL, str(path)], capture_output=True, text=True, check=True
    )
    returned, drawn, message = done.stdout.split(" ", 2)
    assert "can't be read or written" in message or "the disk is full" in message
    with dp.Ledger(path) as ledger:  # with room again, all that was returned is there
        budget, history = ledger.budget("full"), ledger.history("full")
    complete = [entry for entry in history if entry.release is not None]
    assert len(complete) == int(returned) > 0
    assert int(drawn) == len(history)  # nothing drawn without its charge
    assert len(history) - len(complete) <= 1
    assert budget.remaining.outcomes == 10**6 - sum(entry.outcomes for entry in history)


@pytest.mark.posix
def test_a_file_that_can_only_be_read(monkeypatch):
    monkeypatch.setattr(_core, "race", None)
    folder = Path(tempfile.mkdtemp())
    path = folder / "l.sqlite"
    with dp.Ledger(path) as ledger:
        ledger.create("ann", **TERMS)
    path.chmod(0o444)
    folder.chmod(0o555)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if os.geteuid() == 0:  # whom modes do not stop
                os.setuid(65534)
            with dp.Ledger(path) as ledger:
                dp.Session.bound(ledger, "ann").limited_domain([9, 1], k=1)
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with open(reader) as said:
        message = said.read()
    folder.chmod(0o755)
    with dp.Ledger(path) as ledger:
        assert ledger.history("ann") == []
    shutil.rmtree(folder)
    assert message.startswith("LedgerUnavailableError: ")
    assert "can't be written" in message or "can't be opened" in message
