"""Sessions, in the process and on disk, against a bare call of limited_domain."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dptopk as dp
from benchmarks.bench_mechanisms import calls_a_second
from benchmarks.data import skewed
from benchmarks.row import Row, at_most
from benchmarks.timing import medians_ms

TERMS = {"k_star": 10**9, "calls": 10**9, "epsilon": 1e6, "delta": 1e-6, "method": "zcdp"}
CALL = {"k": 100, "k_bar": 500}


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the comparisons; quick takes fewer repeats."""
    repeats = 20 if quick else 100
    h = dp.Histogram(skewed(100_000))
    session = dp.Session(**TERMS)

    def bare(h: dp.Histogram) -> object:
        return dp.limited_domain(h, epsilon=1.0, delta=1e-6, **CALL)

    def free(h: dp.Histogram) -> object:
        return session.limited_domain(h, **CALL)

    ms = medians_ms({"bare": lambda: bare(h), "session": lambda: free(h)}, repeats=10 * repeats)
    against = "limited_domain, k=100"
    yield at_most("a session's call, k=100", ms["session"], against, ms["bare"], 1.5)
    for work, call in (("bare calls, k=100", bare), ("a session's calls, k=100", free)):
        one, two = (calls_a_second(call, h, threads) for threads in (1, 2))
        work = f"{work}: by two threads over one"
        yield Row(work, 1e3 / two, "one thread", 1e3 / one, two / one, "", None)
    folders = {"disk": tempfile.gettempdir(), "memory": "/dev/shm"}
    for place, folder in folders.items():
        if os.path.isdir(folder):
            yield from _ledger_rows(place, folder, h, ms["bare"], repeats)


def _ledger_rows(
    place: str, folder: str, h: dp.Histogram, bare_ms: float, repeats: int
) -> Iterator[Row]:
    with (
        tempfile.TemporaryDirectory(dir=folder) as inside,
        dp.Ledger(Path(inside, "budgets.sqlite")) as ledger,
    ):
        ledger.create("bench", **TERMS)
        session = dp.Session.bound(ledger, "bench")
        contenders = {"ours": lambda: session.limited_domain(h, **CALL)}
        if place == "disk":
            contenders["sync"] = _two_syncs(Path(inside, "plain"))
        ms = medians_ms(contenders, repeats=repeats)
        work = f"a call charged to a ledger in {place}"
        ratio = ms["ours"] / bare_ms
        yield Row(work, ms["ours"], "limited_domain, k=100", bare_ms, ratio, "", None)
        if "sync" in ms:
            yield at_most(work, ms["ours"], "two appends with fsync", ms["sync"], 4.0)
        one, two = (_a_second(session, h, threads, repeats) for threads in (1, 2))
        work = f"calls to a ledger in {place} by two threads over one"
        yield Row(work, 1e3 / two, "one thread", 1e3 / one, two / one, "", None)


def _two_syncs(path: Path) -> Callable[[], None]:
    """What any durable charge and record must wait for."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write() -> None:
        for _ in range(2):
            os.write(file, bytes(4096))
            os.fsync(file)

    return write


def _a_second(session: dp.Session, h: dp.Histogram, threads: int, calls: int) -> float:
    def work() -> None:
        for _ in range(calls):
            session.limited_domain(h, **CALL)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return threads * calls / (time.perf_counter() - start)
