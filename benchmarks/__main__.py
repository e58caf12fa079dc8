"""``python -m benchmarks [--quick] [NAME...]``: the performance table.

Without names all but ``compare``, which needs other libraries, ``utility`` and
``plan``, which measure recall in place of time, and ``engines``; these three take minutes.
``publish`` measures all that README and docs print, keeps it as JSON, and writes their tables
and plots from that; ``paper`` does so of the papers' experiments alone, ``peers`` of other
libraries, ``randomness`` runs a battery on the generator. These four have a help page each.
``figures`` draws those of docs/pictures.md.

Every line compares calls made in turn within this one run, on one thread
unless it says otherwise; medians after a warm-up. Times depend on the machine,
ratios less so. Exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import rich.console
import rich.table

from benchmarks import (
    bench_accounting,
    bench_canonical,
    bench_compare,
    bench_cut,
    bench_engines,
    bench_figures,
    bench_framework,
    bench_groups,
    bench_joint,
    bench_known,
    bench_ledger,
    bench_mechanisms,
    bench_noise,
    bench_noisy,
    bench_oneshot,
    bench_paths,
    bench_plan,
    bench_promises,
    bench_randomness,
    bench_ranking,
    bench_server,
    bench_session,
    bench_thresholds,
    bench_utility,
    bench_weighted,
)
from benchmarks.paper import command
from benchmarks.paper.record import Result, Table, recorded
from benchmarks.row import Row
from dptopk import _core
from dptopk.verification.tapes import LEVELS

BENCHES = {
    "accounting": bench_accounting,
    "cut": bench_cut,
    "mechanisms": bench_mechanisms,
    "noise": bench_noise,
    "noisy": bench_noisy,
    "oneshot": bench_oneshot,
    "promises": bench_promises,
    "thresholds": bench_thresholds,
    "framework": bench_framework,
    "joint": bench_joint,
    "paths": bench_paths,
    "known": bench_known,
    "canonical": bench_canonical,
    "compare": bench_compare,
    "ranking": bench_ranking,
    "session": bench_session,
    "ledger": bench_ledger,
    "server": bench_server,
    "groups": bench_groups,
    "weighted": bench_weighted,
    "utility": bench_utility,
    "plan": bench_plan,
    "engines": bench_engines,
    "figures": bench_figures,
}
FULL = (bench_utility, bench_plan, bench_cut, bench_engines)
KEEPERS = {"utility", "plan", "cut"}  # write a file of their own
APART = ("compare", "utility", "plan", "engines", "figures")


def main() -> int:
    """Print the table, or run the command of that name."""
    if sys.argv[1:2] in (["publish"], ["paper"]):
        return command.main(sys.argv[2:], papers=sys.argv[1] == "paper")
    if sys.argv[1:2] == ["peers"]:
        return importlib.import_module("benchmarks.peers.command").main(sys.argv[2:])
    if sys.argv[1:2] == ["randomness"]:
        return bench_randomness.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument(
        "--full",
        action="store_true",
        help="of utility and plan: more trials; of cut: all sizes; of engines: 1e8 events",
    )
    parser.add_argument(
        "--keep",
        metavar="FILE",
        help="write the table as JSON, with command, machine and versions; of utility, plan and "
        "cut all figures",
    )
    parser.add_argument(
        "--only", help="of cut: sizes, k=..., types and shapes, with commas between"
    )
    parser.add_argument(
        "--simd", type=int, default=None, help="0 portable, 1 AVX2 or NEON, 2 AVX-512"
    )
    args = parser.parse_args()
    unknown = set(args.names) - set(BENCHES)
    if unknown:
        parser.error(f"no benchmark named {sorted(unknown)[0]}")
    if args.simd is not None:
        _core.simd_set(args.simd)
    table = rich.table.Table("work", "ms", "against", "ms", "ratio or value", "target", "met")
    missed, started, found = 0, time.perf_counter(), []
    console = rich.console.Console(width=160)
    for name in args.names or [name for name in BENCHES if name not in APART]:
        bench: Any = BENCHES[name]
        full = {"full": args.full} if bench in FULL else {}
        kept = {"keep": args.keep} if name in KEEPERS else {}
        if bench is bench_cut:
            kept["only"] = args.only
        for results in getattr(bench, "tables", lambda *_, **__: ())(args.quick, **full, **kept):
            console.print(results)
        for row in bench.rows(args.quick, **full):
            missed += row.met is False
            found.append([None if cell != cell else cell for cell in row])  # NaN is no JSON
            table.add_row(
                row.work,
                "" if math.isnan(row.ours_ms) else f"{row.ours_ms:.3g}",
                row.baseline,
                "" if row.baseline_ms is None else f"{row.baseline_ms:.3g}",
                f"{row.ratio:,.3g}" if row.ratio < 1000 else f"{row.ratio:,.0f}",
                row.target,
                {True: "yes", False: "NO", None: ""}[row.met],
            )
    level = LEVELS[_core.simd_get()]
    console.print(table, f"SIMD level: {level}", sep="\n")
    if args.keep and not set(args.names) & KEEPERS:
        result = Result("Ratios", "Measured", [Table("rows", "Rows", Row._fields, found)])
        words, seconds = " ".join(["python -m benchmarks", *sys.argv[1:]]), time.perf_counter()
        made = recorded("rows", result, command=words, seed=0, seconds=seconds - started)
        Path(args.keep).write_text(json.dumps(made, indent=0) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
