"""Ledgers in a file and in PostgreSQL, against the raw database that writes the same rows.

A call of a ledger commits twice: the charge, and the release. So does the raw database
here, with the same settings, rows of the same size and nothing looked up. PostgreSQL is a
server of the benchmark's own (Debian's package `postgresql`); without one its rows are
left out.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dptopk as dp
from benchmarks.own_server import postgres_server
from benchmarks.row import Row, at_most
from benchmarks.timing import medians_ms

TERMS = {"k_star": 10**9, "calls": 10**9, "epsilon": 1e6, "delta": 1e-6, "method": "zcdp"}
H = dp.Histogram([9000, 8000, 40, 3], labels=["ant", "bee", "cat", "dog"])
TEXT, BODY = "t" * 700, "b" * 500  # about as long as what a call of H writes
COLUMNS = "(name text, seq bigint, request_id text, text text, body text, PRIMARY KEY (name, seq))"


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the comparisons; quick takes fewer repeats."""
    repeats = 20 if quick else 150
    with tempfile.TemporaryDirectory() as folder:
        raw = {
            "PERSIST, as ours": _raw_sqlite(Path(folder, "persist"), "PERSIST"),
            "WAL": _raw_sqlite(Path(folder, "wal"), "WAL"),
        }
        with dp.Ledger(Path(folder, "ours")) as ledger:
            yield from _compared("a file", ledger, "SQLite", raw, repeats)
    with postgres_server() as dsn:
        if dsn is not None:
            raw = {"two commits": _raw_postgres(dsn)}
            address = f"postgresql://dptopk@/postgres?host={dsn}"
            with dp.Ledger(address) as ledger:
                yield from _compared("PostgreSQL", ledger, "PostgreSQL", raw, repeats)


def _compared(
    place: str,
    ledger: dp.Ledger,
    database: str,
    raw: dict[str, Callable[[], None]],
    repeats: int,
) -> Iterator[Row]:
    ledger.create("bench", **TERMS)
    session = dp.Session.bound(ledger, "bench")

    def call() -> None:
        session.limited_domain(H, k=2, k_bar=3)

    ms = medians_ms({"ours": call, **raw}, repeats=repeats)
    for number, name in enumerate(raw):
        against = f"raw {database}: {name}"
        work = f"a call charged to a ledger in {place}"
        if number == 0:
            yield at_most(work, ms["ours"], against, ms[name], 3.0)
        else:
            yield Row(work, ms["ours"], against, ms[name], ms["ours"] / ms[name], "", None)
    for threads in (1, 8):
        seconds, latencies = _by_threads(call, threads, repeats)
        p50, p99 = (1e3 * latencies[int(part * len(latencies))] for part in (0.5, 0.99))
        a_second = threads * repeats / seconds
        work = f"calls a second in {place}, {threads} threads (p50 on the left, p99 on the right)"
        yield Row(work, p50, "p99", p99, a_second, "", None)


def _by_threads(call: Callable[[], None], threads: int, calls: int) -> tuple[float, list[float]]:
    latencies: list[float] = []

    def work() -> None:
        for _ in range(calls):
            start = time.perf_counter()
            call()
            latencies.append(time.perf_counter() - start)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - start, sorted(latencies)


def _raw_sqlite(path: Path, mode: str) -> Callable[[], None]:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA journal_mode = {mode}")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"CREATE TABLE plain_lines {COLUMNS} WITHOUT ROWID")
    return _twice(lambda words, *values: db.execute(words, *values), "?")


def _raw_postgres(folder: str) -> Callable[[], None]:
    import psycopg

    db = psycopg.connect(f"postgresql://dptopk@/postgres?host={folder}", autocommit=True)
    db.execute(f"CREATE TABLE plain_lines {COLUMNS}")
    return _twice(lambda words, *values: db.execute(words, *values), "%s")


def _twice(execute: Any, here: str) -> Callable[[], None]:
    """Return what commits two rows, one after the other."""
    seq = 0

    def write() -> None:
        nonlocal seq
        for body in (None, BODY):
            execute("BEGIN")
            execute(f"INSERT INTO plain_lines VALUES ({', '.join([here] * 5)})",
                    ("bench", seq, None, TEXT, body))  # fmt: skip
            execute("COMMIT")
            seq += 1

    return write
