"""Ledgers in PostgreSQL, on a real server: the contract, crashes, cuts; and stores of others.

DPTOPK_CRASHES sets the size of the long tests.
"""

import contextlib
import json
import os
import threading
import time
from pathlib import Path

import pytest
from ledger_harness import CLEAR, HAMMER, Proxy, cuts, hammer, kills

import dptopk as dp
from dptopk import _core
from dptopk.budget.conformance import check_store
from dptopk.budget.postgres import PostgresStore
from dptopk.budget.sqlite import SqliteStore
from dptopk.budget.store import Line, Log, Store, UncertainError

fcntl = pytest.importorskip("fcntl")  # not of Windows

CRASHES = int(os.environ.get("DPTOPK_CRASHES", "20"))
TERMS = {"k_star": 20, "calls": 5, "epsilon": 1.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def server():
    """The folder of a server's socket, and what crashes and restarts it."""
    import postgres

    pytest.importorskip("psycopg", reason="PostgreSQL is not tested: no psycopg")
    binaries = postgres.find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not tested: no server of 15 or newer; Debian's is postgresql")
    with postgres.durable_server(binaries) as (folder, restart):
        yield folder, restart


@pytest.fixture
def schema(request, server):
    """A schema of the test's own."""
    name = f"l{abs(hash(request.node.name))}"
    yield name
    with sql(server) as db:
        db.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.fixture
def options(server, schema):
    return {"path": address(server), "schema": schema, "timeout": 20}


@pytest.fixture
def ledger(options):
    with dp.Ledger(**options) as ledger:
        ledger.create("ann", **TERMS)
        yield ledger


def address(server, more=""):
    return f"postgresql://dptopk@/postgres?host={server[0]}{more}"


@contextlib.contextmanager
def sql(server):
    import psycopg

    with psycopg.connect(address(server), autocommit=True) as db:
        yield db


def spend(ledger, **more):
    return dp.Session.bound(ledger, "ann").limited_domain(CLEAR, k=3, k_bar=3, **more)


# ---- the contract


def test_a_ledger_in_a_database_is_what_one_in_a_file_is(ledger, options, server):
    first = spend(ledger, request_id="one")
    with dp.Ledger(**options) as other:
        assert spend(other, request_id="one") == first
        assert other.budget("ann").remaining == (17, 4)
        assert other.names() == ["ann"]
        (entry,) = other.history("ann")
        assert (entry.release, entry.outcomes, entry.request_id) == (first, 3, "one")
        with pytest.raises(dp.LedgerConflictError, match="there is a budget named"):
            other.create("ann", **TERMS)
        with pytest.raises(dp.LedgerConflictError, match="with other parameters"):
            spend(other, request_id="one", max_items_per_user=2)
        with pytest.raises(dp.UnknownBudgetError):
            other.budget("eve")
    with pytest.raises(dp.LedgerUnavailableError, match="closed"):
        spend(other)
    assert repr(ledger) == f"Ledger('postgresql://{server[0]}:/postgres, schema " \
        f"{options['schema']}')"  # fmt: skip


def test_charged_before_the_draw(ledger, server, schema, monkeypatch):
    seen, race = [], _core.race

    def spy(*args):
        with sql(server) as db:
            (text,) = db.execute(f"SELECT text FROM {schema}.lines WHERE seq = 1").fetchone()
        seen.append(json.loads(text)["left"])
        return race(*args)

    monkeypatch.setattr(_core, "race", spy)
    spend(ledger)
    assert seen == [{"outcomes": "17", "calls": "4"}]


def test_two_schemas_are_two_ledgers_whatever_the_search_path(ledger, server, schema):
    with dp.Ledger(address(server), schema=f"{schema}b") as other:
        assert other.names() == []
        other.create("ann", **TERMS)
        spend(other)
        assert other.budget("ann").remaining == (17, 4)
    path = address(server, f"&options=-csearch_path%3D{schema}b")
    with dp.Ledger(path, schema=schema) as again:
        assert again.budget("ann").remaining == (20, 5)
    with sql(server) as db:
        db.execute(f"DROP SCHEMA {schema}b CASCADE")


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM {0}.lines", "UPDATE {0}.lines SET seq = 9", "TRUNCATE {0}.lines",
     "INSERT INTO {0}.lines SELECT * FROM {0}.lines ON CONFLICT (name, seq) "
     "DO UPDATE SET body = ''"],
)  # fmt: skip
def test_the_record_is_append_only(ledger, server, schema, change):
    import psycopg

    with sql(server) as db, pytest.raises(psycopg.errors.RaiseException, match="append-only"):
        db.execute(change.format(schema))


def test_a_record_that_went_back_is_seen(ledger, server, schema):
    spend(ledger)
    with sql(server) as db:  # as of a standby that was behind
        db.execute(f"ALTER TABLE {schema}.lines DISABLE TRIGGER append_only")
        db.execute(f"DELETE FROM {schema}.lines WHERE seq = 2")
    with pytest.raises(dp.LedgerError, match="has lost what was in it before"):
        spend(ledger)


@pytest.mark.parametrize(
    ("path", "more", "error", "message"),
    [
        ("postgresql://u:secret@host/x?nope=1", {}, ValueError, "not one of PostgreSQL"),
        ("mysql://localhost/x", {}, ValueError, "postgresql://"),
        ("postgresql:///x", {"schema": 'x"; DROP'}, ValueError, "schema must be a name"),
        ("postgresql://u:secret@127.0.0.1:1/x", {"timeout": 1}, dp.LedgerUnavailableError, "reach"),
        ("file.sqlite", {"schema": "mine"}, ValueError, "schema is for an address"),
    ],
)
def test_bad_addresses(tmp_path, monkeypatch, path, more, error, message):
    pytest.importorskip("psycopg")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message) as raised:
        dp.Ledger(path, **more)
    assert "secret" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_wait_for_its_disk_is_refused(postgres):
    user = postgres.split()
    words = dict(word.split("=") for word in user)
    path = f"postgresql://{words['user']}@/{words['dbname']}?host={words['host']}"
    with pytest.raises(dp.LedgerError, match="has fsync off"):
        dp.Ledger(path)


def test_another_version_and_no_rights(ledger, server, schema, options):
    with sql(server) as db:
        db.execute("DROP ROLE IF EXISTS reader")
        db.execute("CREATE ROLE reader LOGIN")
        path = options["path"].replace("dptopk@", "reader@")
        with pytest.raises(dp.LedgerUnavailableError, match="does not let this user"):
            dp.Ledger(**options | {"path": path})
        db.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader")
        db.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
        with dp.Ledger(**options | {"path": path}) as other:
            assert other.budget("ann").remaining == (20, 5)
            with pytest.raises(dp.LedgerUnavailableError, match="does not let this user"):
                spend(other)
        db.execute(f"GRANT INSERT ON {schema}.lines TO reader")
        with dp.Ledger(**options | {"path": path}) as other:
            spend(other)
        db.execute(f"UPDATE {schema}.dptopk_ledger SET version = 9")
        with pytest.raises(dp.LedgerError, match="another version"):
            dp.Ledger(**options)
        db.execute("DROP OWNED BY reader")
        db.execute("DROP ROLE reader")


# ---- crashes and cuts


@pytest.mark.slow
@pytest.mark.posix
def test_killed_or_disconnected_at_any_point_nothing_is_released_without_its_charge(
    options, server
):
    def disconnect(rng):
        with sql(server) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )

    counts = kills(options, CRASHES, strike=disconnect)
    print(counts)
    assert counts["lost"] > 0


@pytest.mark.slow
def test_cut_off_before_or_after_a_commit_each_call_is_charged_once(options, server):
    path = "postgresql://dptopk@127.0.0.1:{port}/postgres"
    counts = cuts(options, path, f"{server[0]}/.s.PGSQL.5432", 2 * CRASHES)
    print(counts)
    assert min(counts["before"], counts["after"]) > 0
    assert counts["delivered"] + counts["not known"] == counts["calls"]


@pytest.mark.slow
def test_an_answer_that_never_comes_is_not_waited_for_for_ever(ledger, options, server):
    proxy = Proxy(f"{server[0]}/.s.PGSQL.5432", rate=0.0, silent=True)
    try:
        path = f"postgresql://dptopk@127.0.0.1:{proxy.port}/postgres"
        with dp.Ledger(**options | {"path": path, "timeout": 3}) as other:
            session = dp.Session.bound(other, "ann")
            proxy._fate = iter(["silent", None, None, None]).__next__
            start = time.monotonic()
            release = session.limited_domain(CLEAR, k=3, k_bar=3, request_id="one")
            assert 3 < time.monotonic() - start < 60
    finally:
        proxy.close()
    (entry,) = ledger.history("ann")
    assert entry.release == release
    assert ledger.budget("ann").remaining == (17, 4)


@pytest.mark.slow
def test_a_server_that_crashes_and_comes_back(ledger, server):
    spend(ledger, request_id="one")
    server[1]()
    again = spend(ledger, request_id="one")
    assert spend(ledger, request_id="two").labels == again.labels
    assert ledger.budget("ann").remaining == (14, 3)


def test_a_budget_that_another_client_holds(ledger, options, server, schema, monkeypatch):
    monkeypatch.setattr(_core, "race", None)
    with dp.Ledger(**options | {"timeout": 2}) as impatient, sql(server) as db:
        db.execute("BEGIN")
        db.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{schema}.ann"])
        with pytest.raises(dp.LedgerUnavailableError, match="locked by other clients"):
            spend(impatient)
        impatient.create("bob", **TERMS)  # who has a budget of their own does not wait
        db.execute("ROLLBACK")
    assert ledger.budget("ann").remaining == (20, 5)


@pytest.mark.slow
@pytest.mark.posix
def test_processes_and_threads_pay_exactly_what_there_is(options):
    print(hammer(options, *HAMMER, "fork"))


@pytest.mark.posix
def test_a_fork_finds_no_connection(ledger):
    spend(ledger)
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(spend(ledger).outcomes)
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    spend(ledger)
    assert ledger.budget("ann").remaining == (11, 2)


# ---- stores


class Lines(Log):
    """Lines in a dictionary, by name."""

    def __init__(self, logs):
        self.logs = logs

    def names(self):
        return sorted(self.logs)

    def last(self, name):
        return self.logs.get(name, [None])[-1]

    def lines(self, name, since=0, most=None):
        return self.logs.get(name, [])[since:][:most]

    def find(self, name, request_id):
        return [line for line in self.logs.get(name, []) if line.request_id == request_id]

    def append(self, line):
        log = self.logs.setdefault(line.name, [])
        if line.seq != len(log):
            raise UncertainError("taken")
        log.append(line)


class JsonStore(Store):
    """A third party's store: one file of JSON that is written anew, under a lock of the system."""

    def __init__(self, path):
        self.path, self.closed = path, False

    @contextlib.contextmanager
    def transaction(self, names=()):
        if self.closed:
            raise dp.LedgerUnavailableError("closed")
        with open(self.path.with_suffix(".lock"), "w") as lock:
            self.lock(lock)
            text = self.path.read_text() if self.path.exists() else "{}"
            logs = {name: [Line(*line) for line in log] for name, log in json.loads(text).items()}
            try:
                yield Lines(logs)
            finally:
                self.unlock(lock)
            if names:
                self.write(json.dumps(logs))

    def lock(self, lock):
        fcntl.flock(lock, fcntl.LOCK_EX)

    def unlock(self, lock):
        pass

    def write(self, text):
        self.path.with_suffix(".new").write_text(text)
        self.path.with_suffix(".new").replace(self.path)

    def close(self):
        self.closed = True


class Unlocked(JsonStore):
    def unlock(self, lock):
        fcntl.flock(lock, fcntl.LOCK_UN)
        time.sleep(0.001)


class Forgetful(JsonStore):
    def write(self, text):
        if len(json.loads(text)) < 4:
            super().write(text)


class Foldcase(JsonStore):
    @contextlib.contextmanager
    def transaction(self, names=()):
        with super().transaction(names) as log:
            find, last = log.find, log.last
            log.last = lambda name: last(name) or last(name.lower())
            log.find = lambda name, request: find(name, request)
            yield log


class Keeping(JsonStore):
    @contextlib.contextmanager
    def transaction(self, names=()):
        try:
            with super().transaction(names) as log:
                yield log
        except dp.LedgerError:
            if names:
                self.write(json.dumps(log.logs))
            raise


class Open(JsonStore):
    def close(self):
        pass


def test_stores_keep_to_the_contract(tmp_path, server, schema):
    check_store(lambda: SqliteStore(tmp_path / "l.sqlite", 30.0))
    check_store(lambda: PostgresStore(address(server), schema, 30.0))
    check_store(lambda: JsonStore(tmp_path / "l.json"))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Unlocked, "take turns|failed among others"),
        (Forgetful, "two names|not come back|transaction failed"),
        (Foldcase, "two names are taken for one"),
        (Keeping, "ended by an error stays"),
        (Open, "closed runs transactions"),
    ],
)
def test_a_broken_store_is_found_out(tmp_path, broken, message):
    with pytest.raises(AssertionError, match=message):
        check_store(lambda: broken(tmp_path / "l.json"))


def test_a_ledger_in_a_store_of_ones_own(tmp_path):
    with dp.Ledger(JsonStore(tmp_path / "l.json")) as ledger:
        ledger.create("ann", **TERMS)
        first = spend(ledger, request_id="one")
        assert spend(ledger, request_id="one") == first
        threads = [threading.Thread(target=spend, args=(ledger,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.budget("ann").remaining == (5, 0)
        with pytest.raises(dp.BudgetError):
            spend(ledger)
    assert Path(tmp_path, "l.json").exists()
