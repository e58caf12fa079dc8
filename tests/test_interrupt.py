"""Ctrl-C ends the wait at once, and leaves a ledger in which every charge has its record."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import warm

from dptopk.sources.interrupt import interruptible

pty, resource = map(pytest.importorskip, ("pty", "resource"))  # not of Windows
duckdb = pytest.importorskip("duckdb")
pytest.importorskip("narwhals")
pytest.importorskip("rich")

EVENTS = (
    "COPY (SELECT 'u' || hash(range) % 700_000 AS user, 'i' || range % 400_000 AS item FROM range"
)


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    path = tmp_path_factory.mktemp("events") / "e.csv"
    duckdb.connect().execute(f"{EVENTS}(2_000_000)) TO '{path}' (HEADER)")
    return path


def cli(*argv):
    return [sys.executable, "-m", "dptopk", *map(str, argv)]


def processor_seconds(process):
    """What it used until now: no load of other programs counts. All there is, if it has ended."""
    if process.poll() is not None:
        return math.inf  # so that nothing is left for after it
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def of_children():
    """The processor seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check_kill(events, tmp_path, seed):
    """Send SIGINT to a real process on a real terminal, at a random time."""
    ledger = tmp_path / f"{seed}.sqlite"
    terms = ["--budget", "ann", "--k-star", 9, "--calls", 3, "--epsilon", 2, "--delta", "1e-6"]
    subprocess.run(cli("ledger", "create", ledger, *terms), check=True, capture_output=True)
    spill = tmp_path / f"{seed}.spill"
    spill.mkdir()
    argv = ["-k", 3, "--ledger", ledger, "--budget", "ann", "--temp-directory", spill, "--json"]
    ours, theirs = pty.openpty()
    before = of_children()
    process = subprocess.Popen(
        warm.cli("select", events, *argv), stdin=theirs, stderr=theirs, stdout=subprocess.PIPE
    )
    os.close(theirs)
    assert process.stdout.readline() == b"on\n"
    while process.poll() is None and not list(spill.iterdir()):
        time.sleep(0.005)
    time.sleep(random.Random(seed).uniform(0, 1.5))
    used = processor_seconds(process)
    process.send_signal(signal.SIGINT)
    out = process.stdout.read()
    code = process.wait(timeout=120)
    took = of_children() - before - used
    process.stdout.close()
    os.set_blocking(ours, False)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:
            break
    os.close(ours)
    assert b"Traceback" not in shown, shown.decode()
    assert list(spill.iterdir()) == []
    done = subprocess.run(
        cli("ledger", "history", ledger, "--budget", "ann", "--json"),
        check=True,
        capture_output=True,
    )
    entries = json.loads(done.stdout)
    assert all(entry["release"] is not None for entry in entries)
    if code == 130:
        assert out == b"" or json.loads(out)
    else:
        assert code == 0  # it was done
        assert json.loads(out)["items"] == entries[0]["release"]["items"]
    return code, took


@pytest.mark.slow
def test_ctrl_c_at_a_random_time(events, tmp_path):
    """Within half a second of a quiet machine; here in processor seconds, as it may not be."""
    _, took = check_kill(events, tmp_path, 0)
    assert took < 1


@pytest.mark.full
def test_ctrl_c_at_many_random_times(events, tmp_path):
    results = [check_kill(events, tmp_path, seed) for seed in range(1, 32)]
    stopped = sorted(took for code, took in results if code == 130)
    assert stopped[len(stopped) // 2] < 0.5


LATE = """
import atexit, os, signal, sys
from dptopk.cli import main
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv = "dptopk cost -k 10 --epsilon 1 --delta 1e-6 --json".split()
sys.exit(main())
"""


def test_ctrl_c_after_the_end_changes_nothing():
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["steps"] == 10


ENGINES = {
    "pandas": "import pandas as pd; frame = pd.DataFrame({'user': u, 'item': i})",
    "polars": "import polars as pl; frame = pl.DataFrame({'user': u, 'item': i}).lazy()",
    "pyarrow": "import pyarrow as pa; frame = pa.table({'user': u, 'item': i})",
    "dict": "frame = {'user': u, 'item': i}",
}
COUNT = """
import os, sys, numpy as np, dptopk as dp
rng = np.random.default_rng(0)
u, i = rng.integers(0, 10**6, 2 * 10**6), rng.integers(0, 10**6, 2 * 10**6)
{}
dp.Histogram.from_events([(1, 2)], user="user", item="item")
print("on", flush=True)
try:
    while True:
        dp.Histogram.from_events(frame, user="user", item="item", k_bar=10)
except KeyboardInterrupt:
    print("caught", flush=True)
    os._exit(0)
"""


@pytest.mark.full
@pytest.mark.parametrize("engine", ENGINES)
def test_ctrl_c_ends_the_wait_for_an_engine(engine):
    for wait in np.random.default_rng(1).uniform(0.05, 2, 5):
        command, before = [sys.executable, "-c", COUNT.format(ENGINES[engine])], of_children()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"on\n"
            time.sleep(wait)
            used = processor_seconds(process)
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == b"caught\n"
        assert of_children() - before - used < 3


HEARS_NOTHING = """
import os, signal, threading, time
from dptopk.sources.interrupt import can_stop, interruptible, stopping

def interrupt():
    at_work.wait()
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)

at_work, stopped, never = threading.Event(), threading.Event(), threading.Event()

def work(end):
    at_work.set()
    end.wait(60)

def told():
    with stopping(stopped.set):
        assert can_stop()
        interruptible(lambda: work(stopped))

for wait in (lambda: interruptible(lambda: work(never)), told):
    at_work.clear()
    killer = threading.Thread(target=interrupt)
    killer.start()
    begun = time.monotonic()
    try:
        wait()
    except KeyboardInterrupt:
        print("interrupted")
    killer.join()
    assert time.monotonic() - begun < 50
assert stopped.is_set()
assert not can_stop()
"""


def test_work_that_hears_nothing_is_left_behind_and_other_work_is_stopped():
    """In a process of its own, whose signals no library of another test has taken."""
    done = subprocess.run(
        [sys.executable, "-c", HEARS_NOTHING], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["interrupted"] * 2


def test_what_the_work_returns_and_raises_comes_through():
    assert interruptible(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)
