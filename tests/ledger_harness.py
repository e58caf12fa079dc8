"""Processes that spend a ledger and are killed, cut off, or many: for the tests and benchmarks.

Each takes `options`, the arguments of `dptopk.Ledger`, so that it runs on any store.
"""

import contextlib
import json
import multiprocessing
import os
import random
import select
import signal
import socket
import threading
import time

import pytest

import dptopk as dp

CLEAR = dp.Histogram([9000, 8000, 40, 3], labels=["ant", "bee", "cat", "dog"])
PLENTY = 10**9
#: Processes, threads of each, and calls of each of those.
HAMMER = (8, 4, 500) if os.environ.get("DPTOPK_HAMMER") else (3, 2, 10)


def _spend(options, run, pipe):
    """Make calls until killed; write down each release that came back."""
    with dp.Ledger(**options) as ledger:
        session = dp.Session.bound(ledger, "crash")
        os.write(pipe, b"\n")
        for number in range(1000):
            request = f"{run}-{number}"
            release = session.limited_domain(CLEAR, k=4, k_bar=4, request_id=request)
            os.write(pipe, (json.dumps([request, release.items, release.outcomes]) + "\n").encode())


def kills(options, times, *, seed=1, strike=None):
    """Kill a process in the middle of its calls, so many times; return counts.

    Checks every so often that nothing came back without its charge. `strike` is called now
    and then in place of the kill, for what else can befall the store.
    """
    rng = random.Random(seed)
    with dp.Ledger(**options) as ledger:
        ledger.create("crash", k_star=PLENTY, calls=PLENTY, epsilon=1e7, delta=1e-6, method="zcdp")
        session = dp.Session.bound(ledger, "crash")
        start = time.perf_counter()
        for number in range(5):
            session.limited_domain(CLEAR, k=4, k_bar=4, request_id=f"{number}")
        seconds = (time.perf_counter() - start) / 5  # a call
    delivered, every = {}, max(10, times // 20)
    for run in range(times):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            try:
                _spend(options, run, writer)
            finally:
                os._exit(3)
        os.close(writer)
        with open(reader) as lines:
            lines.readline()  # it has opened the ledger
            time.sleep(rng.uniform(0, 4 * seconds))
            if strike is not None and rng.random() < 0.5:
                strike(rng)
                time.sleep(rng.uniform(0, 4 * seconds))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            came = [json.loads(line) for line in lines]
        delivered |= {request: (items, outcomes) for request, items, outcomes in came}
        if not delivered:  # the machine has got other work: a call takes longer than it did
            seconds *= 1.5
        if (run + 1) % every == 0 or run + 1 == times:
            recorded, lost = _checked(options, delivered)
    seen = {outcomes for _, outcomes in delivered.values()}
    assert seen == {3}, seen  # a part was given back
    return {"kills": times, "delivered": len(delivered), "recorded": recorded, "lost": lost}


def _checked(options, delivered):
    """Compare the record with what came back; ask for some of it again."""
    with dp.Ledger(**options) as ledger:  # it opens, and its balance is that of its record
        left = ledger.budget("crash").remaining
        history = {entry.request_id: entry for entry in ledger.history("crash")}
        assert sum(entry.outcomes for entry in history.values()) == PLENTY - left.outcomes
        for request, (items, outcomes) in delivered.items():
            assert list(history[request].release.items) == items
            assert history[request].outcomes == outcomes
        lost = [request for request, entry in history.items() if entry.release is None]
        assert all(history[request].outcomes == 4 for request in lost)
        session = dp.Session.bound(ledger, "crash")
        for request in lost[-2:]:
            with pytest.raises(dp.LedgerConflictError, match="charged before"):
                session.limited_domain(CLEAR, k=4, k_bar=4, request_id=request)
        for request in list(delivered)[-2:]:
            again = session.limited_domain(CLEAR, k=4, k_bar=4, request_id=request)
            assert list(again.items) == delivered[request][0]
        assert ledger.budget("crash").remaining == left
        return len(history) - len(lost), len(lost)


class Proxy:
    """Stands between clients and a server's Unix socket, and cuts them off at a COMMIT.

    At each COMMIT of a client that writes it draws what happens: nothing, with probability
    1 - `rate`; or the client is cut off before the server gets it, or after the server got
    it and before its answer; or the answer never comes (`silent`).
    """

    def __init__(self, path, *, rate, seed=1, silent=False):
        self._path, self._rate, self._silent = path, rate, silent
        self._rng, self._lock = random.Random(seed), threading.Lock()
        self.cuts = {"before": 0, "after": 0, "silent": 0}
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._stop = threading.Event()
        self._threads = []
        self._start(self._accept)

    def close(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._server.close()

    def _start(self, work, *args):
        thread = threading.Thread(target=work, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while not self._stop.is_set():
            if select.select([self._server], [], [], 0.05)[0]:
                self._start(self._serve, self._server.accept()[0])

    def _fate(self):
        with self._lock:
            if self._rng.random() >= self._rate:
                return None
            fate = self._rng.choice(["before", "after", "silent"][: 2 + self._silent])
            self.cuts[fate] += 1
            return fate

    def _serve(self, client):
        server = socket.socket(socket.AF_UNIX)
        with client, server, contextlib.suppress(OSError):
            server.connect(self._path)
            writes = False
            while not self._stop.is_set():
                ready = select.select([client, server], [], [], 0.05)[0]
                if client in ready:
                    said = client.recv(1 << 16)
                    if not said:
                        return
                    writes = (writes or b"INSERT" in said) and b"BEGIN" not in said
                    fate = self._fate() if writes and b"COMMIT\0" in said else None
                    if fate == "before":
                        return
                    server.sendall(said)
                    if fate == "after":
                        server.recv(1 << 16)  # it has been committed
                        return
                    if fate == "silent":
                        self._stop.wait(30)
                        return
                if server in ready:
                    said = server.recv(1 << 16)
                    if not said:
                        return
                    client.sendall(said)


def cuts(options, address, socket_path, calls, *, seed=1):
    """Make calls through a proxy that cuts a third of the commits; return counts.

    Each call must come through, charged once, whether its commit did.
    """
    proxy = Proxy(socket_path, rate=1 / 3, seed=seed)
    try:
        with dp.Ledger(**options) as ledger:
            ledger.create("cut", k_star=PLENTY, calls=PLENTY, epsilon=1e7, delta=1e-6,
                          method="zcdp")  # fmt: skip
        with dp.Ledger(**options | {"path": address.format(port=proxy.port)}) as ledger:
            session = dp.Session.bound(ledger, "cut")
            came, unknown = {}, []
            for number in range(calls):
                try:
                    came[f"{number}"] = session.limited_domain(
                        CLEAR, k=4, k_bar=4, request_id=f"{number}"
                    )
                except dp.LedgerUnavailableError:  # five cuts in a row
                    unknown.append(f"{number}")
    finally:
        proxy.close()
    with dp.Ledger(**options) as ledger:
        left = ledger.budget("cut").remaining
        history = {entry.request_id: entry for entry in ledger.history("cut")}
        assert len(ledger.history("cut")) == len(history)  # none is charged twice
        for request, release in came.items():
            assert history[request].release == release
        charged = sum(entry.outcomes for entry in history.values())
        assert charged == PLENTY - left.outcomes
        assert set(history) <= {*came, *unknown}
    return {"calls": calls, **proxy.cuts, "delivered": len(came), "not known": len(unknown)}


def _pay(options, threads, calls, results):
    paid, errors = [], []
    with dp.Ledger(**options) as ledger:
        session = dp.Session.bound(ledger, "busy")

        def work():
            for _ in range(calls):
                try:
                    paid.append(session.limited_domain(CLEAR, k=2, k_bar=3).outcomes)
                except dp.BudgetError:
                    try:
                        paid.append(session.limited_domain(CLEAR, k="rest", k_bar=3).outcomes)
                    except dp.BudgetError:
                        return
                except Exception as error:
                    errors.append(repr(error))
                    return

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    results.put((len(paid), sum(paid), errors))


def hammer(options, processes, threads, calls, method):
    """Let many processes of many threads want a little more than there is; return counts."""
    options = options | {"timeout": 300}
    k_star = processes * threads * calls * 2 - 7
    with dp.Ledger(**options) as ledger:
        ledger.create("busy", k_star=k_star, calls=PLENTY, epsilon=1e5, delta=1e-6, method="zcdp")
        context = multiprocessing.get_context(method)
        results = context.SimpleQueue()
        workers = [
            context.Process(target=_pay, args=(options, threads, calls, results))
            for _ in range(processes)
        ]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        answers = [results.get() for _ in workers]
        seconds = time.perf_counter() - start
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
        assert [errors for _, _, errors in answers] == [[]] * processes
        assert sum(paid for _, paid, _ in answers) == k_star
        assert ledger.budget("busy").remaining.outcomes == 0
        assert sum(entry.outcomes for entry in ledger.history("busy")) == k_star
    made = sum(number for number, _, _ in answers)
    return {"processes": processes, "threads": threads, "calls": made,
            "a second": round(made / seconds)}  # fmt: skip
