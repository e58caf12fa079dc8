"""examples/server.py behind a real ASGI server."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import dptopk as dp

pytest.importorskip("uvicorn")
pytest.importorskip("duckdb")
ROOT = Path(__file__).parents[1]
EVENTS = ROOT / "examples" / "debian12_sections.parquet"
if not EVENTS.is_file():
    pytest.skip("the examples are not here", allow_module_level=True)


@pytest.fixture
def server(tmp_path):
    """Start it on a free port; yield its address and its ledger."""
    path = tmp_path / "budgets.sqlite"
    with dp.Ledger(path) as ledger:
        for name in ("ann", "bob"):
            ledger.create(name, k_star=60, calls=40, epsilon=50.0, delta=1e-6)
        # The port is the system's choice, and uvicorn says which in its log.
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "server:app", "--port", "0", "--no-access-log"],
            cwd=ROOT / "examples",
            env={**os.environ, "EVENTS": str(EVENTS), "LEDGER": str(path),
                 "USER_COLUMN": "package", "ITEM_COLUMN": "dependency", "LEDGER_TIMEOUT": "2",
                 "PYTHONPATH": os.pathsep.join([str(Path(dp.__file__).parents[1]), *sys.path])},
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
            yield found[0], ledger
        finally:
            process.terminate()
            process.communicate(timeout=30)
    assert process.returncode in (0, -15)


def test_each_error_of_the_ledger_says_what_to_do(server):
    address, ledger = server
    assert ask(address, "k=2", x_analyst="ann", idempotency_key="1")[0] == 200
    code, answer = ask(address, "k=3", x_analyst="ann", idempotency_key="1")
    assert code == 409
    assert "'1' was made before with other parameters" in answer["error"]

    # Charged and not answered, as after a crash.
    call = {"mechanism": "limited_domain", "k": 2, "k_bar": None, "max_items_per_user": None}
    ledger.account("ann")[1].reserve(2, 1, "lost", call)
    code, answer = ask(address, "k=2", x_analyst="ann", idempotency_key="lost")
    assert code == 409
    assert "'lost' was charged before and no release is recorded" in answer["error"]
    left = ledger.budget("ann").remaining

    blocker = sqlite3.connect(ledger._store.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    code, answer = ask(address, "k=2", x_analyst="ann", idempotency_key="busy")
    blocker.execute("ROLLBACK")
    blocker.close()
    assert (code, answer) == (
        503, {"error": "the ledger failed; ask again with the same idempotency-key"},
    )  # fmt: skip
    assert ledger.budget("ann").remaining == left
    code, answer = ask(address, "k=2", x_analyst="ann", idempotency_key="busy")
    assert (code, answer["charged"]) == (200, 2)


def ask(address, query="k=3", **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{address}/top?{query}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_many_threads_one_session_an_analyst(server):
    address, ledger = server
    code, first = ask(address, x_analyst="ann", idempotency_key="1")
    assert code == 200
    assert first["complete"]
    assert len(first["items"]) == first["charged"] == 3
    again = ask(address, x_analyst="ann", idempotency_key="1")[1]
    assert again["items"] == first["items"]
    assert ledger.budget("ann").remaining == (57, 39)
    assert ask(address)[0] == 401
    assert ask(address, "k=0", x_analyst="ann")[0] == 400
    assert ask(address, "k=x", x_analyst="ann")[0] == 400
    assert ask(address, "k=1001", x_analyst="ann")[0] == 400
    assert ask(address, x_analyst="eve") == (404, {"error": "there is no budget for this analyst"})
    assert ask(address, "k=58", x_analyst="ann") == (
        429,
        {"error": "the call may cost 58 outcomes, and 57 are left in this session"},
    )
    assert ledger.budget("ann").remaining == (57, 39)

    answers = []

    def work(analyst):
        for _ in range(6):
            answers.append((analyst, *ask(address, "k=4", x_analyst=analyst)))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("ann", "bob") * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, before in (("ann", 3), ("bob", 0)):
        codes = [code for analyst, code, _ in answers if analyst == name]
        paid = sum(answer["charged"] for analyst, code, answer in answers
                   if analyst == name and code == 200)  # fmt: skip
        assert len(codes) == 24
        assert set(codes) == {200, 429}  # 24 x 4 is more than there is
        budget = ledger.budget(name)
        assert budget.remaining.outcomes == 60 - before - paid < 4
