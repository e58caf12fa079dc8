"""Tests in a process of their own that is cheap to start and certain to end.

This process imports what tests import, but never the library itself, and forks for each run.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.mutants.workspace import ROOT

CPU, WALL, MEMORY = 12, 600, 8 << 30  # seconds of CPU a test, seconds in all, bytes
BROKEN = 70  # the exit code of a run in which no test is to blame


@dataclass(frozen=True)
class Outcome:
    """How a run of tests ended: passed, failed, crashed, timeout, or nothing (was run)."""

    how: str
    test: str  #: the first that failed, or that ran when it ended
    seconds: float  #: of CPU, children included

    @property
    def killed(self) -> bool:
        """Whether the tests noticed something."""
        return self.how in ("failed", "crashed", "timeout")


class Witness:
    """A plugin of pytest that writes down what is running, and what failed first.

    A test that takes too long ends the process: an endless loop in C heeds nothing else.
    """

    def __init__(self, file: Path, cpu: int):
        self.file, self.cpu, self.failed = file, cpu, False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note the test that runs, and how long it may."""
        limit_cpu(self.cpu)
        if not self.failed:
            self.file.write_text(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the first that failed."""
        if report.failed and not self.failed:
            self.file.write_text(report.nodeid)
            self.failed = True


def limit_cpu(seconds: int) -> None:
    """Let this process run for so many seconds more."""
    used = sum(os.times()[:2])
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + seconds + 1, hard))


def preload() -> None:
    """Import what most tests import."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"  # no thread stands here when this process forks
    for name in ("hypothesis", "mpmath", "numpy", "pytest", "scipy.optimize", "scipy.stats"):
        importlib.import_module(name)


def run(
    package: Path,
    tests: list[str],
    *,
    marked: str = "not slow and not full",
    stop: bool = True,
    plugins: tuple[Any, ...] = (),
    cpu: int = CPU,
    wall: int = WALL,
    cache: bool = False,
) -> Outcome:
    """Run tests, by their names, against the package in a folder; maybe keep them compiled."""
    folder = package / "run"
    folder.mkdir(exist_ok=True)
    witness = folder / "witness"
    witness.write_text("")
    (folder / "tests").write_text("\n".join(tests))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = os.fork()
    if child == 0:
        code = BROKEN
        try:
            sys.dont_write_bytecode = not cache  # of two mutants of one age and size, neither
            code = _child(package, folder, marked, stop, (Witness(witness, cpu), *plugins))
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    status = _wait(child, wall)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Outcome(_how(status), witness.read_text(), round(seconds, 2))


def _child(package: Path, folder: Path, marked: str, stop: bool, plugins: tuple[Any, ...]) -> int:
    import pytest

    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(folder)
    output = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    limit_cpu(5 * CPU)  # to import the library and collect tests
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["PYTHONPATH"] = str(package)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.path[:] = [str(package), *(p for p in sys.path if p not in ("", str(ROOT)))]
    options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-n", "0"]
    options += ["-p", "no:cacheprovider", "-m", marked, "--tb=short"]
    options += ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, *["-x"] * stop, "@tests"], plugins))


def _wait(child: int, wall: int) -> int:
    deadline = time.monotonic() + wall
    pause = 0.02
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _end_group(child)
            return status
        time.sleep(pause)
        pause = min(pause * 1.2, 0.5)
    _end_group(child)
    os.waitpid(child, 0)
    return signal.SIGXCPU


def _end_group(child: int) -> None:
    """End what the tests started and left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return "timeout" if os.WTERMSIG(status) == signal.SIGXCPU else "crashed"
    code = os.WEXITSTATUS(status)
    if code == BROKEN:
        raise RuntimeError("the runner itself failed: see `output` in its folder")
    # 4: a file of tests can't be imported. 5: none was selected.
    return {0: "passed", 5: "nothing"}.get(code, "failed")


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Return the records of a file of JSON lines; none if there is no file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
