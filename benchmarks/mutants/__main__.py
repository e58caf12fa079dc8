"""``python -m benchmarks.mutants``: put mistakes into the library, and see which tests notice.

Each mutant is one token changed in a copy of the package (rebuilt, if it is C), and the tests
nearest to its file are run against that, a few cases of each; with --again all cases, on those
that survived and are not explained. What has no mistake must pass before. A record a line goes to
a file; a run that is stopped goes on where it was. What survives is a test that is missing, or the
same program: docs/mutants.md lists them, from docs/mutants.json, which --publish writes.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.mutants import nearest, published, runner
from benchmarks.mutants.choose import Mutant, choose
from benchmarks.mutants.workspace import ROOT, BuildError, Workspace
from benchmarks.paper.record import machine, versions

ORDER = ("csrc", "accounting", "budget", "sources", "mechanisms", "dptopk")  # the slow last
BUILD = ROOT / "build" / "mutants"


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--number", type=int, default=300, help="how many (300)")
    parser.add_argument("--seed", type=int, default=1, help="which (1)")
    parser.add_argument("--out", type=Path, default=BUILD / "mutants.jsonl", metavar="FILE")
    parser.add_argument("--only", default="", help="a part of the path of their files")
    parser.add_argument("--list", action="store_true", help="print them, and run nothing")
    parser.add_argument("--again", action="store_true", help="those that survived, whole tests")
    parser.add_argument("--publish", metavar="COMMIT", help="write what is known of this commit")
    args = parser.parse_args(arguments)
    mutants = [m for m in choose(args.number, args.seed) if args.only in m.path]
    mutants.sort(key=lambda m: ORDER.index(Path(m.path).parent.name))
    if args.list:
        for m in mutants:
            print(f"{m.path}:{m.line}:{m.column}: {m.before!r} -> {m.after!r}: {m.text}")
        return 0
    known = {_key(r): r for r in runner.read_lines(args.out)}
    if args.publish:
        publish(mutants, known, args)
        return 0
    if args.again:
        mutants = [m for m in mutants if _survived(known.get(_key(m.record())))]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the copy is put right
    runner.preload()
    workspace = Workspace(BUILD / "package")
    passing: set[str] = set()
    for at, mutant in enumerate(mutants):
        if not args.again and _key(mutant.record()) in known:
            continue
        began = time.monotonic()
        control(workspace, mutant.path, passing)
        outcome = judge(workspace, mutant, whole=args.again)
        record = {**mutant.record(), **outcome, "wall": round(time.monotonic() - began, 1)}
        with args.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(
            f"{at + 1}/{len(mutants)} {record['how']:9} {record['wall']:6.1f} s  "
            f"{mutant.path}:{mutant.line} {mutant.before!r} -> {mutant.after!r}  "
            f"{record['test'].replace('tests/', '')[:90]}",
            flush=True,
        )
    summary(runner.read_lines(args.out))
    return 0


def _survived(record: dict[str, Any] | None) -> bool:
    """Tell whether it was let pass, and nothing says why."""
    if record is None or record["how"] not in published.SURVIVED:
        return False
    return published.place_of(record) not in published.WHY


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("path", "line", "column", "before", "after"))


def control(workspace: Workspace, path: str, passing: set[str]) -> None:
    """See to it that the tests of a file pass where there is no mistake, once each.

    Raises
    ------
    RuntimeError
        If they don't: they would notice any mutant.
    """
    tests = [test for test in nearest.nearest(path) if test not in passing]
    if tests:
        outcome = runner.run(workspace.folder, tests, plugins=(nearest.FewCases(),), cache=True)
        if outcome.how not in published.SURVIVED:
            raise RuntimeError(f"without a mistake, {outcome.test} {outcome.how}")
        passing.update(tests)


def judge(workspace: Workspace, mutant: Mutant, *, whole: bool) -> dict[str, Any]:
    """Build a mutant, run its tests, and say how that ended."""
    text = (workspace.folder / mutant.path).read_text()  # it stays as it was
    tests, few = nearest.nearest(mutant.path), () if whole else (nearest.FewCases(),)
    limits: dict[str, Any] = {"cpu": 100, "wall": 3600, "marked": "full or not full"}
    try:
        with workspace.changed(mutant.path, mutant.apply(text)):
            outcome = runner.run(workspace.folder, tests, plugins=few, **limits if whole else {})
    except BuildError:
        outcome = runner.Outcome("no program", "", 0.0)
    return {"how": outcome.how, "test": outcome.test, "seconds": outcome.seconds, "whole": whole}


def publish(mutants: list[Mutant], known: dict[Any, Any], args: argparse.Namespace) -> None:
    """Keep what is known of these mutants in the docs."""
    outcomes = {published.place_of(m.record()): known.get(_key(m.record()), {}) for m in mutants}
    about = {
        "command": f"python -m benchmarks.mutants --number {args.number} --seed {args.seed}",
        "commit": args.publish,
        "machine": machine(),
        "versions": versions(),
    }
    published.write([m.record() for m in mutants], outcomes, about)


def summary(records: list[dict[str, Any]]) -> None:
    """Print how many of each area were noticed, and each that was not."""
    records = list({_key(record): record for record in records}.values())  # the last of each
    by_area: dict[str, Counter[str]] = {}
    for record in records:
        by_area.setdefault(str(Path(record["path"]).parent), Counter())[record["how"]] += 1
    for area, counts in sorted(by_area.items()):
        print(f"{area:20} {sum(counts.values()):4}  {dict(sorted(counts.items()))}")
    for record in records:
        if record["how"] in published.SURVIVED:
            print("{path}:{line} {before!r} -> {after!r}: {text}".format(**record))


if __name__ == "__main__":
    sys.exit(main())
