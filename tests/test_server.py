"""examples/server.py behind a real ASGI server."""

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

import dptopk as dp

pytest.importorskip("uvicorn")
pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")
pytest.importorskip("duckdb")
ROOT = Path(__file__).parents[1]
EVENTS = ROOT / "examples" / "debian12_sections.parquet"
if not EVENTS.is_file():
    pytest.skip("the examples are not here", allow_module_level=True)


@contextmanager
def running(ledger_path, events, before=(), **settings):
    """Start it on a free port; yield its address. What is before it on the path goes first."""
    path = [*before, str(Path(dp.__file__).parents[1]), *sys.path]
    # The port is the system's choice, and uvicorn says which in its log.
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "server:app", "--port", "0", "--no-access-log"],
        cwd=ROOT / "examples",
        env={**os.environ, "EVENTS": str(events), "LEDGER": str(ledger_path),
             "LEDGER_TIMEOUT": "8", **settings,
             "PYTHONPATH": os.pathsep.join(path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    log = []
    for line in process.stderr:
        log.append(line)
        found = re.search(r"http://127.0.0.1:\d+", line)
        if found:
            break
    else:
        process.communicate()
        pytest.fail("".join(log))
    try:
        yield found[0]
    finally:
        process.terminate()
        process.communicate(timeout=120)
    assert process.returncode in (0, -15)


# While there is a file, the read of the number in it has no random bytes.
NO_BYTES = """
import os

real, asked = os.urandom, []

def urandom(count):
    try:
        with open(os.environ["NO_BYTES"]) as file:
            missing = int(file.read())
    except OSError:
        asked.clear()
        return real(count)
    asked.append(count)
    if len(asked) == missing + 1:
        raise OSError("none")
    return real(count)

os.urandom = urandom
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    path = tmp_path_factory.mktemp("server") / "budgets.sqlite"
    (path.parent / "sitecustomize.py").write_text(NO_BYTES)
    settings = {
        "USER_COLUMN": "package", "ITEM_COLUMN": "dependency",
        "NO_BYTES": str(path.parent / "missing"),
    }  # fmt: skip
    before = [str(path.parent)]
    with dp.Ledger(path) as ledger, running(path, EVENTS, before, **settings) as address:
        yield address, ledger, path


@pytest.fixture
def server(started):
    """Yield its address, its ledger, and two budgets of this test."""
    address, ledger, _ = started
    names = [f"{name}-{time.monotonic_ns()}" for name in ("ann", "bob")]
    for name in names:
        ledger.create(name, k_star=60, calls=40, epsilon=50.0, delta=1e-6)
    return address, ledger, *names


def test_each_error_of_the_ledger_says_what_to_do(server, started):
    address, ledger, ann, _ = server
    assert ask(address, "k=2", x_analyst=ann, idempotency_key="1")[0] == 200
    code, answer = ask(address, "k=3", x_analyst=ann, idempotency_key="1")
    assert code == 409
    assert "'1' was made before with other parameters" in answer["error"]

    # Charged and not answered, as after a crash.
    call = {"mechanism": "limited_domain", "k": 2, "k_bar": None, "max_items_per_user": None}
    ledger.account(ann)[1].reserve(2, 1, "lost", call)
    code, answer = ask(address, "k=2", x_analyst=ann, idempotency_key="lost")
    assert code == 409
    assert "'lost' was charged before and no release is recorded" in answer["error"]
    left = ledger.budget(ann).remaining

    blocker = sqlite3.connect(ledger._store.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    code, answer = ask(address, "k=2", x_analyst=ann, idempotency_key="busy")
    blocker.execute("ROLLBACK")
    blocker.close()
    assert (code, answer) == (
        503, {"error": "the ledger failed; ask again with the same idempotency-key"},
    )  # fmt: skip
    assert ledger.budget(ann).remaining == left
    code, answer = ask(address, "k=2", x_analyst=ann, idempotency_key="busy")
    assert (code, answer["charged"]) == (200, 2)


def ask(address, query="k=3", **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{address}/top?{query}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_many_threads_one_session_an_analyst(server):
    address, ledger, ann, bob = server
    code, first = ask(address, x_analyst=ann, idempotency_key="1")
    assert code == 200
    assert first["complete"]
    assert len(first["items"]) == first["charged"] == 3
    again = ask(address, x_analyst=ann, idempotency_key="1")[1]
    assert again["items"] == first["items"]
    assert ledger.budget(ann).remaining == (57, 39)
    assert ask(address)[0] == 401
    assert ask(address, x_analyst="eve") == (404, {"error": "there is no budget for this analyst"})
    assert ask(address, "k=58", x_analyst=ann) == (
        429,
        {"error": "the call may cost 58 outcomes, and 57 are left in this session"},
    )
    assert ledger.budget(ann).remaining == (57, 39)

    answers = []

    def work(analyst):
        for _ in range(6):
            answers.append((analyst, *ask(address, "k=4", x_analyst=analyst)))

    threads = [threading.Thread(target=work, args=(name,)) for name in (ann, bob) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, before in ((ann, 3), (bob, 0)):
        codes = [code for analyst, code, _ in answers if analyst == name]
        paid = sum(answer["charged"] for analyst, code, answer in answers
                   if analyst == name and code == 200)  # fmt: skip
        assert len(codes) == 24
        assert set(codes) == {200, 429}  # 24 x 4 is more than there is
        budget = ledger.budget(name)
        assert budget.remaining.outcomes == 60 - before - paid < 4


# ---- what is not understood


def sent(address, text):
    """Send bytes as they are; return the status and the answer."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as connection:
        connection.sendall(text)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def request(target="/top?k=3", *headers, method="GET", body=b""):
    lines = [f"{method} {target} HTTP/1.1".encode("latin-1"), b"host: x", b"connection: close"]
    return b"\r\n".join([*lines, *headers, b"", body])


QUERIES = [
    "", "k", "k=", "k=0", "k=00", "k=03", "k=-1", "k=+1", "k=1_0", "k=1.0", "k=1e1", "k=x",
    "k=1001", "k=99999", "K=3", "k=3&k=4", "k=3&k=3", "k=3&", "&k=3", "k=3;k=4", "k=3&q=1", "q=1",
    "k=%33", "k=%zz", "k=%", "k=3%00", "k=3%0a", "k=%D9%A3", "k=REST", "k=rest&k=3", "k= 3",
    "k[]=3", "k=" + "1" * 50_000,
]  # fmt: skip
HEADERS = [
    (401, ()),
    (400, (b"x-analyst:",)),
    (400, (b"x-analyst: ",)),
    (400, (b"x-analyst: ANN", b"x-analyst: ANN")),
    (400, (b"x-analyst: ANN", b"X-Analyst: BOB")),
    (400, (b"x-analyst: ANN BOB",)),
    (400, (b"x-analyst: \xc3\xa4",)),
    (400, (b"x-analyst: " + b"a" * 201,)),
    (400, (b"x-analyst: ANN", b"idempotency-key:")),
    (400, (b"x-analyst: ANN", b"idempotency-key: 1", b"idempotency-key: 1")),
    (400, (b"x-analyst: ANN", b"idempotency-key: 1 2")),
    (400, (b"x-analyst: ANN", b"idempotency-key: " + b"1" * 201)),
    (413, (b"x-analyst: ANN", b"content-length: 5")),
    (413, (b"x-analyst: ANN", b"content-length: 1000000000000")),
    (413, (b"x-analyst: ANN", b"transfer-encoding: chunked")),
    (400, (b"x-analyst: ANN", b"content-length: x")),
    (400, (b"x-analyst: ANN", b"no colon")),
]
TARGETS = [
    (404, "/"), (404, "/top/"), (404, "/Top?k=3"), (404, "/top%2f?k=3"), (404, "/docs"),
    (404, "/openapi.json"), (404, "/top/../top?k=3"),
]  # fmt: skip


def test_what_is_not_understood_is_refused_and_free(server):
    address, ledger, ann, bob = server
    known = b"x-analyst: " + ann.encode()
    wrong = [(400, request(f"/top?{query}", known)) for query in QUERIES]
    for status, lines in HEADERS:
        named = [x.replace(b"ANN", ann.encode()).replace(b"BOB", bob.encode()) for x in lines]
        wrong.append((status, request("/top?k=3", *named)))
    wrong += [(status, request(target, known)) for status, target in TARGETS]
    wrong += [
        (405, request("/top?k=3", known, method=m)) for m in ("POST", "PUT", "HEAD", "DELETE")
    ]
    for status, text in wrong:
        found, body = sent(address, text)
        assert found == status, text
        assert b"Traceback" not in body
        if body.startswith(b"{"):
            assert set(json.loads(body)) == {"error"}
    for name in (ann, bob):
        assert ledger.budget(name).remaining == (60, 40)
    # The same with nothing wrong: the table above is not refused for something else.
    assert sent(address, request("/top?k=3", known))[0] == 200
    assert ledger.budget(ann).remaining == (57, 39)


def test_without_random_bytes_nothing_is_answered_and_what_was_charged_stays_so(server, started):
    """The nonce of the charge; the salt of what is released, and the nonce of its line."""
    address, ledger, ann, _ = server
    known = b"x-analyst: " + ann.encode()
    assert ask(address, "k=2", x_analyst=ann)[0] == 200  # the source has its key
    left = ledger.budget(ann).remaining
    missing = started[2].parent / "missing"
    for read, charged in enumerate([0, 2, 2]):
        missing.write_text(f"{read}")
        found = sent(address, request("/top?k=2", known, f"idempotency-key: {read}".encode()))
        missing.unlink()
        assert found == (500, b"Internal Server Error")
        assert ledger.budget(ann).remaining == (left.outcomes - charged, left.calls - charged // 2)
        status, answer = ask(address, "k=2", x_analyst=ann, idempotency_key=read)
        assert status == (409 if charged else 200)
        assert ("items" in answer) != bool(charged)
        assert ask(address, "k=2", x_analyst=ann)[0] == 200
        left = ledger.budget(ann).remaining


# ---- health, metrics and reload


def page(address, path):
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(address):
    lines = page(address, "/metrics")[1].splitlines()
    return {name: float(value) for name, value in (x.rsplit(" ", 1) for x in lines if x[0] != "#")}


def test_metrics_hold_what_was_answered_and_nothing_of_the_data(server):
    address, _, ann, _ = server
    assert page(address, "/health") == (200, '{"status":"ok"}')
    good, bad = (f'topk_requests_total{{path="/top",status="{x}"}}' for x in (200, 400))
    before = metrics(address)
    items = ask(address, "k=3", x_analyst=ann)[1]["items"]
    ask(address, "k=x", x_analyst=ann)
    after = metrics(address)
    assert after[good] == before.get(good, 0) + 1
    assert after[bad] == before.get(bad, 0) + 1
    assert after["topk_outcomes_total"] == before["topk_outcomes_total"] + 3
    text = page(address, "/metrics")[1]
    assert not any(word in text for word in (*items, ann, str(EVENTS)))
    # No number depends on the data: neither its size nor how long it took to read.
    names = {name.split("{")[0] for name in after}
    assert names == {
        "topk_requests_total", "topk_requests_created", "topk_seconds_bucket",
        "topk_seconds_count", "topk_seconds_sum", "topk_seconds_created", "topk_outcomes_total",
        "topk_outcomes_created", "topk_loaded_time_seconds",
    }  # fmt: skip


def test_a_ledger_that_is_gone_is_503(tmp_path):
    path = tmp_path / "budgets.sqlite"
    with dp.Ledger(path) as ledger:
        ledger.create("ann", k_star=60, calls=40, epsilon=50.0, delta=1e-6)
    columns = {"USER_COLUMN": "package", "ITEM_COLUMN": "dependency"}
    with running(path, EVENTS, **columns) as address:
        assert page(address, "/health")[0] == 200
        path.rename(tmp_path / "away")
        assert page(address, "/health")[0] == 503
        code, answer = ask(address, "k=3", x_analyst="ann")
        assert code == 503
        assert str(path) not in answer["error"]


def events_of(path, name):
    """Three items of 900, 800 and 700 users."""
    lines = [f"{user},{name}{item}" for item in range(3) for user in range(900 - 100 * item)]
    path.write_text("\n".join(["user,item", *lines]) + "\n")


@pytest.mark.slow
def test_a_reload_under_load_is_seen_whole_and_a_failed_one_not_at_all(tmp_path):
    path, events = tmp_path / "budgets.sqlite", tmp_path / "events.csv"
    files = {}
    for name in ("old", "new"):
        files[name] = tmp_path / f"{name}.csv"
        events_of(files[name], name)
    shutil.copy(files["old"], events)
    with dp.Ledger(path) as ledger:
        ledger.create("ann", k_star=10**6, calls=10**6, epsilon=1e5, delta=1e-6, method="zcdp")
    stop, seen = threading.Event(), []

    def work(address):
        while not stop.is_set():
            seen.append(ask(address, "k=3", x_analyst="ann"))

    def replace(content):
        following = tmp_path / "following"
        following.write_text(content)
        os.replace(following, events)

    def until(address, name, count):
        end = time.monotonic() + 120
        while metrics(address).get(name, 0) < count:
            assert time.monotonic() < end
            time.sleep(0.02)

    ok, failed = (f'topk_reloads_total{{result="{x}"}}' for x in ("ok", "failed"))
    with running(path, events, RELOAD_SECONDS="0.05") as address:
        threads = [threading.Thread(target=work, args=(address,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for turn in range(4):
            name = ("new", "old")[turn % 2]
            replace(files[name].read_text())
            until(address, ok, turn + 1)
            answer = ask(address, "k=3", x_analyst="ann")[1]
            assert answer["items"] == [f"{name}{item}" for item in range(3)]
        for turn, broken in enumerate(("", "other,columns\n1,2\n", "user,item\n1\n2,3,4\n")):
            replace(broken)
            until(address, failed, metrics(address).get(failed, 0) + 1)
            assert metrics(address)[ok] == 4, turn
            assert ask(address, "k=3", x_analyst="ann")[1]["items"][0] == "old0"
        events.unlink()
        until(address, failed, metrics(address)[failed] + 1)
        assert ask(address, "k=3", x_analyst="ann")[0] == 200
        shutil.copy(files["new"], events)
        until(address, ok, 5)
        stop.set()
        for thread in threads:
            thread.join()
    assert {code for code, _ in seen} == {200}
    whole = [[f"{name}{item}" for item in range(3)] for name in ("old", "new")]
    assert len(seen) > 20
    assert all(answer["items"] in whole for _, answer in seen)
    assert {answer["items"][0] for _, answer in seen} == {"old0", "new0"}
