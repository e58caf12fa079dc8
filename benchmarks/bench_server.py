"""The example server under load: releases a second and waiting times, beside SQLite alone.

Each client asks for a release, waits for it, and asks again, as an analyst of its own; the
server charges and records each in its ledger, on this disk. SQLite alone makes as many
transactions in a file of the same kind: two a release, by as many threads in turn.
"""

from __future__ import annotations

import http.client
import itertools
import os
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import rich.table

import dptopk as dp
from benchmarks.paper.record import Result, Scale, Table
from benchmarks.row import Row, at_most

ROOT = Path(__file__).parents[1]
EVENTS = ROOT / "examples" / "debian12_sections.parquet"
CLIENTS = (1, 2, 8)
_KEPT: dict[tuple[int, str], tuple[list[float], list[float]]] = {}
TERMS = {"k_star": 10**7, "calls": 10**6, "epsilon": 1e4, "delta": 1e-6, "method": "zcdp"}


@contextmanager
def _running(ledger: Path) -> Iterator[tuple[str, int]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "examples.server:app", "--port", "0", "--no-access-log"],
        cwd=ROOT,
        env={
            **os.environ,
            "EVENTS": str(EVENTS),
            "LEDGER": str(ledger),
            "USER_COLUMN": "package",
            "ITEM_COLUMN": "dependency",
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        found = None
        for line in process.stderr:
            found = re.search(r"http://(127.0.0.1):(\d+)", line)
            if found:
                break
        if not found:
            raise RuntimeError("the server did not start: pip install 'dptopk[server]'")
        yield found[1], int(found[2])
    finally:
        process.terminate()
        process.communicate()


def _client(host: str, port: int, analyst: str, until: ExitStack) -> Callable[[], None]:
    connection = http.client.HTTPConnection(host, port)
    until.callback(connection.close)

    def ask() -> None:
        connection.request("GET", "/top?k=10", headers={"x-analyst": analyst})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"the server answered {answer.status}")

    return ask


def _sqlite(path: Path, turn: threading.Lock, until: ExitStack) -> Callable[[], None]:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    until.callback(db.close)
    db.execute("PRAGMA journal_mode = PERSIST")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE IF NOT EXISTS t (x TEXT)")

    def release() -> None:
        for _ in range(2):
            with turn:
                db.execute("BEGIN IMMEDIATE")
                db.execute("INSERT INTO t VALUES (?)", ("x" * 500,))
                db.execute("COMMIT")

    return release


def _load(calls: list[Callable[[], None]], seconds: float) -> tuple[list[float], float]:
    """Milliseconds of each call, all made one after the other by a thread each; calls a second."""
    found: list[list[float]] = [[] for _ in calls]
    start = time.perf_counter()

    def work(call: Callable[[], None], into: list[float]) -> None:
        while time.perf_counter() < start + seconds:
            before = time.perf_counter()
            call()
            into.append(1e3 * (time.perf_counter() - before))

    workers = [threading.Thread(target=work, args=pair) for pair in zip(calls, found, strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    together = sorted(itertools.chain(*found))
    return together, len(together) / (time.perf_counter() - start)


def _measured(quick: bool) -> Iterator[tuple[int, str, list[float], float]]:
    seconds = 1.0 if quick else 5.0
    with tempfile.TemporaryDirectory() as inside:
        path = Path(inside, "budgets.sqlite")
        with dp.Ledger(path) as ledger:
            for number in range(max(CLIENTS)):
                ledger.create(f"analyst{number}", **TERMS)
        with _running(path) as (host, port), ExitStack() as until:
            for clients in CLIENTS:
                asks = [_client(host, port, f"analyst{number}", until) for number in range(clients)]
                turn = threading.Lock()
                plain = [_sqlite(Path(inside, "plain.sqlite"), turn, until) for _ in range(clients)]
                for call in (*asks, *plain):
                    call()
                # In turn, so that both have the same moments of the disk.
                for name, calls in (("server", asks), ("SQLite alone", plain)) * 2:
                    yield clients, name, *_load(calls, seconds / 2)


def run(scale: Scale, say: Callable[[str], None]) -> Result:
    """Ask the server and SQLite alone in turn; keep what `rows` compares."""
    say("clients")
    _KEPT.clear()
    for clients, name, times, rate in _measured(scale.name != "full"):
        before = _KEPT.setdefault((clients, name), ([], []))
        before[0].extend(times)
        before[1].append(rate)
    rows: list[list[Any]] = []
    for clients in CLIENTS:
        row: list[Any] = [clients]
        for name in ("server", "SQLite alone"):
            times, rates = _KEPT[clients, name]
            times.sort()
            row.append(f"{statistics.mean(rates):.0f}")
            row += [f"{times[int(share * (len(times) - 1))]:.0f} ms" for share in (0.5, 0.99)]
        rows.append(row)
    columns = ["releases/s", "p50", "p99"]
    columns = ["clients", *(f"server: {columns[0]}", *columns[1:]),
               *(f"SQLite alone: {columns[0]}", *columns[1:])]  # fmt: skip
    return Result(__doc__.split("\n")[0], "Measured", [Table("server", "Load", columns, rows)])


def tables(quick: bool = False) -> Iterator[rich.table.Table]:
    """Yield the table."""
    its = run(Scale("quick" if quick else "full"), lambda text: None).tables[0]
    table = rich.table.Table(*its.columns, title=its.title)
    for row in its.rows:
        table.add_row(*map(str, row))
    yield table


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the worst percentile beside the typical one, and beside SQLite's."""
    for clients in CLIENTS:
        ours, plain = (_KEPT[clients, name][0] for name in ("server", "SQLite alone"))
        last = ours[int(0.99 * (len(ours) - 1))]
        work = f"a release by the server, {clients} clients: p99"
        yield at_most(work, last, "p50", statistics.median(ours), 10.0)
        base = plain[int(0.99 * (len(plain) - 1))]
        yield Row(work, last, "SQLite alone, p99", base, last / base, "", None)
