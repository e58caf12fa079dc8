"""Random words in many threads and after forks: no word is drawn twice."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from dptopk import rng


@pytest.fixture(autouse=True)
def own_pool(monkeypatch):
    """No source keyed by a test stays for later ones."""
    monkeypatch.setattr(rng, "_free", [])


FORK = """
    import ctypes, os, sys, threading
    from dptopk import rng

    mode, forks, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    fork = ctypes.PyDLL(None).fork if mode == "below python" else os.fork

    def draw(count):
        source = rng.acquire(None)
        try:
            return source.read(count).tobytes()
        finally:
            rng.release(source)

    def churn():
        while not stop.is_set():
            draw(300)

    held = rng.acquire(None)  # a call that goes on in both processes
    held.read(3)
    draw(3)
    assert len(rng._free) == 1  # keyed, and copied by the forks
    stop = threading.Event()
    workers = [threading.Thread(target=churn) for _ in range(threads)]
    for worker in workers:
        worker.start()
    seen = []
    for _ in range(forks):
        out, into = os.pipe()
        if fork() == 0:
            if mode == "held":
                held.begin()
            words = draw(30) if mode in ("pool", "below python") else held.read(30).tobytes()
            os.write(into, words)
            os._exit(0)
        os.wait()
        seen.append(os.read(out, 1000))
    seen.append(held.read(30).tobytes() if mode in ("held", "broken") else draw(30))
    stop.set()
    for worker in workers:
        worker.join()
    words = [part[i : i + 8] for part in seen for i in range(0, len(part), 8)]
    assert len(words) == 30 * (forks + 1), len(words)
    print(len(words) - len(set(words)))
"""


@pytest.mark.posix
@pytest.mark.parametrize(
    ("mode", "threads", "repeats"),
    [
        ("pool", 0, False),
        ("pool", 4, False),
        ("held", 0, False),
        ("below python", 0, False),
        ("broken", 0, True),  # the copied state used as it is: the test must see that
    ],
)
def test_forked_processes_draw_different_words(mode, threads, repeats):
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORK)]
    done = subprocess.run(
        [*command, mode, "10", str(threads)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert (int(done.stdout) > 0) == repeats


def drawn_by_threads(source_of, threads=8, calls=20, count=500):
    parts, start = [], threading.Barrier(threads)

    def work():
        start.wait()
        for _ in range(calls):
            source = rng.acquire(source_of)
            try:
                parts.append(source.read(count))
            finally:
                rng.release(source)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(parts) == threads * calls
    return np.concatenate(parts)


def test_threads_draw_no_word_twice():
    words = drawn_by_threads(None)
    assert len(np.unique(words)) == len(words)  # equal ones: probability 2e-10
    assert 1 <= len(rng._free) <= 8


def test_threads_with_one_key_are_caught(monkeypatch):
    monkeypatch.setattr(os, "urandom", bytes)
    sources = [rng.acquire(None) for _ in range(2)]
    words = np.concatenate([source.read(500) for source in sources])
    assert len(np.unique(words)) < len(words)


def test_threads_share_a_seeded_rng_word_for_word():
    words = drawn_by_threads(rng.SeededRng(3))
    expected = np.random.default_rng(3).integers(0, 2**64, size=len(words), dtype=np.uint64)
    assert np.array_equal(np.sort(words), np.sort(expected))
