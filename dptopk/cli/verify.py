"""``dptopk verify``: the checks of the library's own mechanisms."""

from __future__ import annotations

import argparse
from typing import Any

from dptopk.cli.printing import plain, print_json, refusing, tables


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    verify = commands.add_parser(
        "verify", allow_abbrev=False, help="check the privacy of the mechanisms exhaustively"
    )
    verify.set_defaults(run=_run)
    verify.add_argument("names", nargs="*", metavar="NAME", help="mechanisms (default: all)")
    verify.add_argument("--quick", action="store_true", help="leave out what draws many times")
    verify.add_argument("--list", action="store_true", help="list the mechanisms")
    verify.add_argument("--json", action="store_true", help="a JSON array instead of a table")


def _run(args: argparse.Namespace) -> int:
    if args.list:
        from dptopk.verification.entries import ENTRIES

        names = list(ENTRIES)
        if args.json:
            print_json(names)
        else:
            print("\n".join(names))
        return 0
    from dptopk.sources.progress import working
    from dptopk.verification.verify import run

    with refusing(), working("Checking", not args.json):
        results = run(args.names or None, quick=args.quick)
    if args.json:
        fields = ("name", "check", "passed", "detail")
        print_json([{name: plain(getattr(r, name)) for name in fields} for r in results])
    else:
        console, table = tables()
        for heading in ("mechanism", "check", "", "detail"):
            table.add_column(heading, overflow="fold")
        for r in results:
            table.add_row(r.name, r.check, "passed" if r.passed else "FAILED", str(r.detail))
        console.print(table)
    return 0 if all(r.passed for r in results) else 1
