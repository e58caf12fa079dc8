"""Fixtures shared by the tests."""

import hashlib
import itertools
import os
import signal
from pathlib import Path

import pytest

from dptopk import _core, rng

# Read by type checkers, never run; and run by `make tsan`.
collect_ignore = ["typing", "threads"]

# A shell ignores SIGINT for what it runs in the background, and every process below it would:
# the tests of Ctrl-C are of what runs in front.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

URANDOM = os.urandom


class Keys:
    """`os` for the kernels: the secure sources' keys follow from the name of the test.

    A test then passes each time or never. Another process, a fork's child too, has keys of the
    system's, and whatever a test puts in the place of os.urandom is called.
    """

    def __init__(self):
        self.pid = os.getpid()
        self.begin("before the tests")

    def begin(self, name):
        self.name, self.count = name, itertools.count()  # threads may share the latter
        rng._free.clear()  # keyed for the test before

    def urandom(self, count):
        if os.urandom is not URANDOM or os.getpid() != self.pid:
            return os.urandom(count)
        return hashlib.shake_256(f"{self.name} {next(self.count)}".encode()).digest(count)

    def __getattr__(self, name):
        return getattr(os, name)


keys = Keys()
if not os.environ.get("DPTOPK_FRESH_KEYS"):  # set it to look for what passes by chance
    _core.os = keys


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if item.get_closest_marker("posix") and os.name != "posix":
        pytest.skip("needs a system of POSIX")
    keys.begin(item.name)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of the research data sets; skips the test where it is absent."""
    named = os.environ.get("DPTOPK_DATA")
    path = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no real data at {path}: set DPTOPK_DATA to run this test")
    return path


@pytest.fixture(scope="session")
def wide(request) -> bool:
    """Whether the widest grids run (`make test-full`): tests of many cases then try them all."""
    return request.config.getoption("markexpr") in ("full", "full or not full")


LEVELS = range(_core.simd_best() + 1)


@pytest.fixture(params=LEVELS)
def level(request):
    """Run the test at each SIMD level of this machine."""
    before = _core.simd_get()
    assert _core.simd_set(request.param) == request.param
    yield request.param
    _core.simd_set(before)


@pytest.fixture
def levels():
    """Set the SIMD levels of this machine one after the other, as the test goes through them.

    For a test whose right answers take longer than what it compares with them.
    """

    def each():
        for number in LEVELS:
            assert _core.simd_set(number) == number
            yield number

    before = _core.simd_get()
    yield each()
    _core.simd_set(before)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """How libpq reaches a PostgreSQL server of this run's own; skips where there is none."""
    pytest.importorskip("psycopg", reason="PostgreSQL is not tested: no psycopg")
    pytest.importorskip("fcntl", reason="PostgreSQL is not tested: its server needs POSIX here")
    import postgres

    binaries = postgres.find_binaries()
    if binaries is None:
        pytest.skip(
            "PostgreSQL is not tested: no server of 15 or newer; Debian's package is postgresql"
        )
    base, worker = tmp_path_factory.getbasetemp(), os.environ.get("PYTEST_XDIST_WORKER")
    with postgres.server(binaries, base.parent if worker else base) as folder:
        yield postgres.own_database(f"host={folder} user=dptopk", worker or "main")


def pytest_terminal_summary(terminalreporter):
    """Say once for each server or engine that is missing what was not tested."""
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", ())]
    reasons = {where[2].removeprefix("Skipped: ") for where in skipped if isinstance(where, tuple)}
    for reason in sorted(reason for reason in reasons if " is not tested: " in reason):
        terminalreporter.write_line(reason)
