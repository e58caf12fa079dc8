"""``python -m benchmarks peers [--quick]``: other libraries, the papers' own algorithms, and ours.

Utility at equal cost, time and memory by job, and what each library can do, found by running it.
Needs the extra: pip install 'dptopk[compare]', and torch. What is absent is said so. A full
run writes docs/experiments/peers.json and docs/peers.md.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import skewed
from benchmarks.events import load
from benchmarks.paper import page
from benchmarks.paper.command import rebuild, run_one
from benchmarks.paper.record import Result, Scale, Table
from benchmarks.peers import features, one
from benchmarks.peers.ways import DELTA, EPSILON, USER, Data, Job, jobs
from benchmarks.timing import medians_ms

LARGE, STEP = 1_000_000, 7  # a known domain has every seventh item, as some take minutes for all
WITH_ROWS = ("unknown", "bounded")  # the jobs over unknown domains
MODULES = {"OpenDP": "opendp.prelude", "diffprivlib": "diffprivlib.mechanisms", "torch": "torch"}


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few trials, no memory")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write the record")
    args = parser.parse_args(arguments)
    folder = args.out or (None if args.quick else page.RECORDS)
    try:
        run_one("peers", run, Scale("quick" if args.quick else "full"), folder, command="peers")
        if folder == page.RECORDS:
            rebuild()
    except KeyboardInterrupt:
        print("stopped; nothing was written", file=sys.stderr)
        return 130
    return 0


def run(scale: Scale, say: Callable[[str], None]) -> Result:
    """Run every job, then every probe."""
    warnings.filterwarnings("ignore")  # of other libraries: they are not what is measured
    absent = [peer for peer, module in MODULES.items() if not _here(module)]
    tables = [_table(job, scale, say) for job in jobs()
              if scale.name != "tiny" or job.name == "pure"]  # fmt: skip
    cells = features.table(say)
    tables.append(Table(
        "features", "What each can do: every cell was run", ["feature", *features.PEERS], cells,
        ["`no such call`: we know of none, and none was run. `no`: the probe ran, or found no "
         "public name that could be it. `no: X`: it raised X. `benchmarks/peers/probes_*.py` have "
         "every probe. NumPy and torch are what a person writes with them: noise, then a top k."],
    ))  # fmt: skip
    return Result(
        "Time, memory and accuracy at equal cost",
        "OpenDP, diffprivlib, NumPy, torch, and the papers' algorithms written from the papers",
        tables,
        remarks=[
            f"Neighbours are the same for all: one user more or less, who moves any number of "
            f"counts by one, all one way (at most {USER} where it says so). OpenDP is told so by "
            "`monotonic=True`, diffprivlib by `monotonic=True` and sensitivity 1: half the noise "
            "of their defaults. Every total is "
            f"({EPSILON:g}, {DELTA:g}) or {EPSILON:g}, and each way's `cost` says how its noise "
            "was set to it: by the library's own map or accountant, where it has one.",
            "Recall is on the real counts of the archive that the examples use (what Debian's "
            f"packages depend on), a known domain being every {STEP}th item by count.",
            "Time: medians of calls in turn, one thread, on a shared machine; the slow ones apart, "
            "their means. "
            "Ours and OpenDP's draw from a secure source in an exact law; those by hand, NumPy's "
            "and torch's are not safe to publish from, however fast. Memory: what the resident "
            "set grows by in a first call, in a process of its own.",
        ],
        absent=absent,
    )  # fmt: skip


def _here(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


@cache
def data_of(job: Job, size: int = 0) -> Data:
    """Return what a job picks from: the archive, or so many skewed counts."""
    events = None if size else load("debian12_sections")  # it stands in examples/
    bounded = np.empty(0, np.int64)
    if events is None:
        counts = skewed(size)
    elif job.name in WITH_ROWS:
        counts = events.counts
        bounded = np.bincount(events.items[events.places < USER], minlength=counts.size)
    else:
        counts = np.random.default_rng(6).permutation(events.counts[events.order][::STEP])
    place = np.empty(counts.size, np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(counts.size)
    return Data(counts.astype(np.int64), place, bounded, events)


def _table(job: Job, scale: Scale, say: Callable[[str], None]) -> Table:
    data, ready = data_of(job, scale.pick(2000, 0, 0)), {}
    known = job.name not in WITH_ROWS
    rows: dict[int, list[Any]] = {n: [None] * 4 + [way.apart] for n, way in enumerate(job.ways)}
    for number, way in enumerate(job.ways):
        say(f"{job.name}: {way.peer} {way.name}")
        if way.peer in MODULES and not _here(MODULES[way.peer]):
            rows[number][-1] = "not installed"
            continue
        call = way.make(data)
        trials = scale.pick(1, 1, 3) if way.slow else scale.pick(1, 20, 200)
        start = time.perf_counter()
        recalls = [np.sum(np.asarray(call()) < job.k) / job.k for _ in range(trials)]
        rows[number][0] = f"{np.mean(recalls):.2f} ({trials})"
        if way.slow:
            rows[number][1] = 1e3 * (time.perf_counter() - start) / trials
        else:
            ready[number] = call
        if scale.name == "full":
            found = one.measured(job.name, number, LARGE if known and not way.slow else 0)
            rows[number][3] = found and found["resident"]
    say(f"{job.name}: time")
    for number, ms in _ms(ready, scale.pick(1, 5, 15)).items():
        rows[number][1] = ms
    if known and scale.name != "tiny":
        large = {n: job.ways[n].make(data_of(job, LARGE)) for n in ready}
        for number, ms in _ms(large, 5).items():
            rows[number][2] = ms
    notes = ["Recall: mean (trials). Ways without a time at 1e6 were not run there, as "
             "they take long; their memory is that at the small size."] if known else [
                 "Recall is of the true top of all users, not cut: mean (trials). The k_bar "
                 "largest counts were cut beforehand for those that need no more; weighted and "
                 "OpenDP go through all."]  # fmt: skip
    return Table(
        job.name, job.title,
        ["by", "mechanism", "cost", "recall", f"ms at {data.counts.size:,} items", "ms at 1e6",
         "MB of a call", "not to be compared"],
        [[way.peer, way.name, way.cost, *rows[n]] for n, way in enumerate(job.ways)], notes,
    )  # fmt: skip


def _ms(ready: dict[int, Callable[[], Any]], repeats: int) -> dict[int, float]:
    """Return median milliseconds, called in turn."""
    calls = {str(n): call for n, call in ready.items()}
    return {int(n): ms for n, ms in medians_ms(calls, repeats=repeats, warm_up=1).items()}
