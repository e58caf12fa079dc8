"""One way in a process of its own: ``python -m benchmarks.peers.one JOB NUMBER SIZE``.

Prints how much memory its first call takes on top of what stands: the peak of the resident set,
and of what Python allocates. Linux says the first; elsewhere it is null.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def main(job: str, number: int, size: int) -> dict[str, float | None]:
    """Measure one call."""
    from benchmarks.peers import command, ways

    its = next(one for one in ways.jobs() if one.name == job)
    call = its.ways[number].make(command.data_of(its, size))
    before = _resident("VmRSS")
    if before is not None:
        RESET.write_text("5")  # forget the peak until now
    call()
    peak = _resident("VmHWM")
    tracemalloc.start()
    call()
    allocated = tracemalloc.get_traced_memory()[1] / 1e6
    return {
        "resident": None if before is None or peak is None else max(0.0, peak - before),
        "allocated": allocated,
    }


def measured(job: str, number: int, size: int) -> dict[str, float | None] | None:
    """Run it in a process of its own; None if that fails."""
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.peers.one", job, str(number)]
    root = Path(__file__).parents[2]
    done = subprocess.run([*words, str(size)], capture_output=True, text=True, cwd=root)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def _resident(name: str) -> float | None:
    """Return a line of the process's status, in megabytes."""
    if not STATUS.exists():
        return None
    line = next((x for x in STATUS.read_text().splitlines() if x.startswith(name)), None)
    return None if line is None else int(line.split()[1]) / 1e3


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
