"""Ledger files under other names, in signal handlers, after losses; and those of version 0.1."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

import dptopk as dp
from dptopk import _core
from dptopk.budget import fork
from dptopk.budget.record import encode
from dptopk.budget.sqlite import _is_mounted
from dptopk.budget.terms import Terms

TERMS = {"k_star": 20, "calls": 5, "epsilon": 1.0, "delta": 1e-6}
CLEAR = dp.Histogram([9000, 8000, 40, 3], labels=["ant", "bee", "cat", "dog"])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budgets.sqlite"


@pytest.fixture
def ledger(path):
    with dp.Ledger(path) as ledger:
        ledger.create("ann", **TERMS)
        yield ledger


def spend(ledger, request_id=None):
    return dp.Session.bound(ledger, "ann").limited_domain(CLEAR, k=2, request_id=request_id)


# ---- one file, one name


def hard_link(path, other):
    other.hardlink_to(path)


def renamed(path, other):
    path.rename(other)


def replaced_by_a_copy(path, other):
    shutil.copy(path, other)
    other.replace(path)


def removed(path, other):
    path.unlink()


def link_to_itself(path, other):
    path.rename(other)
    path.symlink_to(other)


def folder_moved(path, other):
    path.parent.rename(path.parent.with_name("moved"))


@pytest.mark.posix
@pytest.mark.parametrize(
    "change",
    [hard_link, renamed, replaced_by_a_copy, removed, link_to_itself, folder_moved],
)
def test_nothing_is_drawn_once_a_file_is_not_the_one_of_its_name(tmp_path, change, monkeypatch):
    (tmp_path / "here").mkdir()
    path = tmp_path / "here" / "l.sqlite"
    with dp.Ledger(path) as ledger:
        ledger.create("ann", **TERMS)
        session = dp.Session.bound(ledger, "ann")
        change(path, tmp_path / "here" / "other")
        monkeypatch.setattr(_core, "race", None)
        with pytest.raises(dp.LedgerError, match=r"hard links|another file is at|can't be opened"):
            session.limited_domain(CLEAR, k=2)


@pytest.mark.posix
def test_two_hard_links_are_refused_whichever_is_opened(ledger, path, tmp_path):
    ledger.close()
    other = tmp_path / "other.sqlite"
    other.hardlink_to(path)
    for name in (path, other):
        with pytest.raises(dp.LedgerError, match=r"has 2 names \(hard links\)"):
            dp.Ledger(name)
    other.unlink()
    with dp.Ledger(path) as again:
        assert again.budget("ann").remaining == (20, 5)


@pytest.mark.posix
def test_other_ways_to_one_file_share_its_budget(ledger, path, tmp_path):
    """A symbolic link, one in the path, a file descriptor, a relative path."""
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "folder").symlink_to(tmp_path)
    ways = [tmp_path / "link", tmp_path / "folder" / path.name, os.path.relpath(path)]
    with open(os.devnull) as held:
        if os.path.exists(f"/proc/self/fd/{held.fileno()}"):
            opened = os.open(path, os.O_RDONLY)
            ways.append(f"/proc/self/fd/{opened}")
        for number, way in enumerate(ways, 1):
            with dp.Ledger(way) as other:
                spend(other)
                assert other.budget("ann").remaining.calls == 5 - number
                assert ledger.budget("ann").remaining.calls == 5 - number
    names = {path.name, f"{path.name}-journal", "link", "folder"}
    assert {file.name for file in tmp_path.iterdir()} == names
    if len(ways) == 4:
        os.close(opened)


MOUNTED = """
import os, subprocess, sys
import dptopk as dp
path, other = sys.argv[1:]
open(other, "w").close()
if subprocess.run(["mount", "--bind", path, other]).returncode:
    sys.exit(77)
try:
    dp.Ledger(other)
except dp.LedgerError as error:
    print(error)
os.mkdir(os.path.dirname(path) + "/folder")
subprocess.run(["mount", "--bind", os.path.dirname(path), os.path.dirname(path) + "/folder"],
               check=True)
with dp.Ledger(os.path.dirname(path) + "/folder/budgets.sqlite") as whole:
    print(whole.budget("ann").remaining)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts of Linux")
def test_a_file_that_is_a_mount_of_its_own_is_refused(ledger, path, tmp_path):
    mounts = "36 35 98:0 /a /mnt/a\\040b/l.sqlite rw - ext4 /dev/root rw\n"
    assert _is_mounted("/mnt/a b/l.sqlite", mounts)
    assert not _is_mounted("/mnt/a b", mounts)
    assert not _is_mounted("/mnt/l.sqlite", mounts)
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("only root can mount")
    command = ["unshare", "-m", sys.executable, "-c", MOUNTED, str(path), str(tmp_path / "other")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no mounts here")
    assert done.returncode == 0, done.stderr
    refused, shared = done.stdout.splitlines()
    assert "is a mount of a single file" in refused
    assert shared == "Remaining(outcomes=20, calls=5)"


# ---- signal handlers: they run in the middle of anything

HANDLED = """
import os, random, signal, sys, threading, time
import dptopk as dp
from dptopk.budget import fork
path, what = sys.argv[1:]
h = dp.Histogram([9000, 8000, 40], labels=["ant", "bee", "cat"])
ledger = dp.Ledger(path, timeout=5)
session = dp.Session.bound(ledger, "ann")
other = dp.Ledger(path, timeout=5)
seen = {"idle": 0, "amid": 0, "refused": 0}

def in_child():
    # A child of a fork that waited works; any other is refused, and never hangs.
    try:
        with dp.Ledger(path, timeout=5) as mine:
            mine.budget("ann")
        code = 0
    except dp.LedgerUnavailableError as error:
        code = 1 if "forked in the middle" in str(error) else 9
    os._exit(code)

def handler(number, frame):
    if seen.get("now") or stop.is_set():
        return  # the next shot may come before this one is done
    amid = threading.get_ident() in fork._gate.busy
    seen["now"] = True
    handled(amid)
    seen["now"] = False

def handled(amid):
    seen["amid" if amid else "idle"] += 1
    if what == "fork":
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            in_child()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code == amid, (code, amid)
    elif what == "return":  # the child goes on where the parent was
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            seen["child"] = amid
            return
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (7, 8), (code, amid)
        seen[f"child {code}"] = seen.get(f"child {code}", 0) + 1
    elif what == "close":
        extra = dp.Ledger(path) if not amid else None
        (extra or other).close()
        other.close()
    elif what == "call":
        try:
            session.limited_domain(h, k=1)
        except dp.LedgerUnavailableError as error:
            assert amid and "middle of a transaction" in str(error)
            seen["refused"] += 1

signal.signal(signal.SIGUSR1, handler)
stop, started = threading.Event(), threading.Event()

def shoot():
    shots = random.Random(1)
    started.wait()  # a child of a fork amid Thread.start would wait for a thread that is gone
    while not stop.is_set():
        time.sleep(shots.uniform(0, 0.004))
        os.kill(os.getpid(), signal.SIGUSR1)

def busy():
    mine = dp.Session.bound(ledger, "ann")
    while not stop.is_set():
        mine.remaining

threads = [threading.Thread(target=shoot), threading.Thread(target=busy)]
for thread in threads:
    thread.start()
started.set()
end = time.monotonic() + float(os.environ.get("SECONDS", 1))
calls = 0
try:
    while time.monotonic() < end or not (seen["amid"] and calls):
        session.limited_domain(h, k=2, k_bar=2)
        calls += 1
        if "child" in seen:  # the transaction that was interrupted had come to its end
            os._exit(8)
except (dp.LedgerError, dp.RandomnessError) as error:
    if "child" in seen:
        wanted = "forked in the middle" if seen["child"] else "while it was drawn"
        # Or before the charge, where it is seen whether there is randomness.
        os._exit(7 if wanted in str(error) or "forked amid a call" in str(error) else 9)
    raise
finally:
    stop.set()
if "child" in seen:  # forked after the last call
    os._exit(8)
"""
HANDLED += """
for thread in threads:
    thread.join()
print(calls, seen["idle"], seen["amid"], seen["refused"])
"""


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize("what", ["fork", "return", "close", "call"])
def test_a_signal_handler_raises_or_works_and_never_hangs(path, what):
    with dp.Ledger(path) as ledger:
        ledger.create("ann", k_star=10**6, calls=10**6, epsilon=1, delta=1e-6, method="zcdp")
    done = subprocess.run(
        [sys.executable, "-c", HANDLED, str(path), what],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    calls, _, amid, refused = map(int, done.stdout.split())
    assert amid > 0
    assert (refused > 0) == (what == "call")
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with dp.Ledger(path) as ledger:
        history = ledger.history("ann")
        answered = sum(entry.release is not None for entry in history)
        if what in ("fork", "close"):
            assert answered == len(history) == calls
        ledger.budget("ann")  # no charge has two releases


@pytest.mark.posix
@pytest.mark.parametrize("kept", ["ledger", "process"])
def test_a_fork_between_the_charge_and_the_draw_gives_one_release(ledger, monkeypatch, kept):
    race, pids, answered = _core.race, [], 50

    def forking(*args):
        if not pids:
            pids.append(os.fork())
        return race(*args)

    bound = dp.Session.bound(ledger, "ann") if kept == "ledger" else dp.Session(**TERMS)
    monkeypatch.setattr(_core, "race", forking)
    try:
        bound.limited_domain(CLEAR, k=2)
        answered = 1
    except (dp.LedgerConflictError, dp.BudgetError, dp.RandomnessError):
        answered = 0
    finally:
        if pids == [0]:  # never back into pytest
            os._exit(10 + answered)
    code = os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1])
    assert code + answered == 11
    if kept == "ledger":
        (entry,) = ledger.history("ann")
        assert entry.release is not None
        assert ledger.budget("ann").remaining == (18, 4)


@pytest.mark.posix
def test_close_waits_for_other_threads_but_not_for_its_own(ledger, path):
    seen = []
    with dp.Ledger(path) as other:

        def handler(number, frame):
            other.close()
            seen.append(len(other._store.connections()))

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with other._store.transaction() as log:
                signal.raise_signal(signal.SIGUSR1)
                assert log.names() == ["ann"]  # what was under way comes to its end
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert seen == [1]
        assert other._store.connections() == []
        with pytest.raises(dp.LedgerUnavailableError, match="the ledger is closed"):
            other.names()
    entered, leave, closed = threading.Event(), threading.Event(), []
    third = dp.Ledger(path)

    def hold():
        with third._store.transaction():
            entered.set()
            leave.wait(10)

    def close():
        third.close()
        closed.append(time.monotonic())

    holder, closer = threading.Thread(target=hold), threading.Thread(target=close)
    holder.start()
    entered.wait(10)
    closer.start()
    time.sleep(0.05)
    assert closed == []
    leave.set()
    for thread in (holder, closer):
        thread.join(10)
    assert len(closed) == 1
    assert fork._gate.busy == fork._gate.inside == set()


# ---- texts that stores differ in


@pytest.mark.parametrize(
    "text", ["\udc80", "a\0b", "\ud800\udc00", "\U00010000", '"\\u00e4"', "\\ä", "日本", " "]
)
def test_names_and_ids_are_any_text(path, text):
    with dp.Ledger(path) as ledger:
        ledger.create(text, **TERMS)
        session = dp.Session.bound(ledger, text)
        first = session.limited_domain(CLEAR, k=2, request_id=text)
        assert session.limited_domain(CLEAR, k=2, request_id=text) == first
        assert session.remaining == (18, 4)
        (entry,) = ledger.history(text)
        assert (entry.request_id, ledger.names()) == (text, [text])
        assert ledger.budget(text).name == text


# ---- losses


def test_half_a_transaction_is_undone_by_the_journal_and_seen_without_it(path, tmp_path):
    """What a crash leaves in the middle of a commit: the journal makes it whole again."""
    with dp.Ledger(path) as ledger:
        ledger.create("ann", **TERMS)
        for _ in range(3):
            spend(ledger)
    crash = """
import os, sys
import dptopk as dp
ledger = dp.Ledger(sys.argv[1])
with ledger._store._connection("BEGIN IMMEDIATE") as db:
    db.execute("PRAGMA cache_size = 1")
    db.execute("PRAGMA cache_spill = 1")
    for trigger in ("update", "delete", "replace"):
        db.execute(f"DROP TRIGGER lines_{trigger}")
    db.execute("UPDATE lines SET body = hex(randomblob(20000)) WHERE body IS NOT NULL")
    db.execute("UPDATE lines SET text = replace(text, 'ann', 'bob')")
    os._exit(0)
"""
    subprocess.run([sys.executable, "-c", crash, str(path)], check=True)
    journal = path.with_name(path.name + "-journal")
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(path, alone / path.name)
    assert journal.read_bytes()[:8] == b"\xd9\xd5\x05\xf9 \xa1c\xd7"  # it is to be played back
    with dp.Ledger(path) as ledger:
        assert ledger.budget("ann").remaining == (14, 2)
    with pytest.raises(dp.LedgerError), dp.Ledger(alone / path.name) as lost:
        lost.budget("ann")


def test_an_index_that_lost_a_period_is_refused(ledger, path):
    """The period would begin once more, with the whole budget."""
    ledger.renew("ann", "the second")
    ledger.close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        (root,) = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'requests'"
        ).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    data = path.read_bytes()
    page = data[(root - 1) * size : root * size]
    assert b"the second" in page
    damaged = page.replace(b"the second", b"the sekond")
    path.write_bytes(data[: (root - 1) * size] + damaged + data[root * size :])
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA quick_check").fetchall() == [("ok",)]  # which sees no such thing
    with pytest.raises(dp.LedgerError, match="damaged"):
        dp.Ledger(path)


# ---- files of version 0.1

VERSION_1 = f"""
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO schema_version VALUES (1);
CREATE TABLE budgets (name TEXT NOT NULL PRIMARY KEY, created TEXT NOT NULL,
    k_star INTEGER NOT NULL CHECK (k_star >= 1), calls INTEGER NOT NULL CHECK (calls >= 1),
    method TEXT NOT NULL, accounting TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    delta_split TEXT NOT NULL, epsilon_step TEXT NOT NULL, delta_threshold TEXT NOT NULL,
    delta_composition TEXT NOT NULL);
CREATE TABLE balances (name TEXT NOT NULL PRIMARY KEY REFERENCES budgets,
    outcomes INTEGER NOT NULL CHECK (outcomes >= 0), calls INTEGER NOT NULL CHECK (calls >= 0));
CREATE TABLE reservations (id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL REFERENCES budgets, request_id TEXT, call TEXT NOT NULL,
    outcomes INTEGER NOT NULL CHECK (outcomes >= 1), calls INTEGER NOT NULL CHECK (calls >= 0),
    at TEXT NOT NULL, UNIQUE (name, request_id));
CREATE TABLE releases (reservation INTEGER PRIMARY KEY REFERENCES reservations,
    outcomes INTEGER NOT NULL CHECK (outcomes >= 1), released TEXT NOT NULL, at TEXT NOT NULL);
CREATE TRIGGER budgets_update BEFORE UPDATE ON budgets
    BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END;
CREATE TRIGGER releases_delete BEFORE DELETE ON releases
    BEGIN SELECT RAISE(ABORT, 'the record is append-only'); END;
PRAGMA application_id = {0x6470746B};
"""
FIELDS = ("k_star", "calls", "method", "accounting", "epsilon", "delta", "delta_split",
          "epsilon_step", "delta_threshold", "delta_composition")  # fmt: skip
AT = "2026-01-02T03:04:05.006+00:00"
CALL = {"mechanism": "limited_domain", "k": 2, "k_bar": None, "max_items_per_user": None}


def of_version_1(path, release, left=(13, 3)):
    """Write a file as version 0.1 did: a call that was answered, one that was lost, one of peel."""
    terms = Terms.of(**TERMS)
    values = [getattr(terms, field) for field in FIELDS]
    values = [value.hex() if isinstance(value, float) else value for value in values]
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(VERSION_1)
    with db:
        db.execute(f"INSERT INTO budgets VALUES ('ännchen', ?, {', '.join('?' * 10)})",
                   (AT, *values))  # fmt: skip
        db.execute("INSERT INTO balances VALUES ('ännchen', ?, ?)", left)
        call = json.dumps(CALL, sort_keys=True)
        for id_, request, outcomes, calls in (1, "one", 4, 1), (2, None, 3, 1), (3, "three", 2, 0):
            db.execute("INSERT INTO reservations VALUES (?, 'ännchen', ?, ?, ?, ?, ?)",
                       (id_, request, call, outcomes, calls, AT))  # fmt: skip
        for id_ in (1, 3):
            db.execute("INSERT INTO releases VALUES (?, 2, ?, ?)", (id_, encode(release), AT))
    return db


def test_a_file_of_version_0_1_is_taken_over(path):
    release = dp.peel(CLEAR, k=2, epsilon=5)
    of_version_1(path, release).close()
    with dp.Ledger(path) as ledger:
        budget = ledger.budget("ännchen")
        assert (budget.terms, budget.remaining) == (Terms.of(**TERMS), (13, 3))
        history = ledger.history("ännchen")
        assert [(entry.request_id, entry.outcomes, entry.calls) for entry in history] == [
            ("one", 2, 1), (None, 3, 1), ("three", 2, 0),
        ]  # fmt: skip
        assert [entry.release for entry in history] == [release, None, release]
        assert {entry.at for entry in history} == {AT}
        assert history[0].call == CALL
        session = dp.Session.bound(ledger, "ännchen")
        assert session.limited_domain(CLEAR, k=2, request_id="one") == release
        session.limited_domain(CLEAR, k=2, k_bar=2)
    with dp.Ledger(path) as again:
        assert again.budget("ännchen").remaining == (11, 2)


def test_a_file_of_version_0_1_that_is_in_use_or_does_not_add_up_is_refused(path):
    db = of_version_1(path, dp.peel(CLEAR, k=2, epsilon=5), left=(14, 3))
    with pytest.raises(dp.LedgerUnavailableError, match="is locked by another program"):
        dp.Ledger(path, timeout=0.05)
    assert db.execute("SELECT * FROM balances").fetchone() == ("ännchen", 14, 3)
    db.close()
    with pytest.raises(dp.LedgerError, match="is not what its record adds up to"):
        dp.Ledger(path)
    db = sqlite3.connect(path)  # it is as it was
    assert db.execute("SELECT * FROM balances").fetchone() == ("ännchen", 14, 3)
    db.close()
