"""``dptopk sql``: the statement that has a database count, to be run by hand."""

from __future__ import annotations

import argparse
from typing import Any

from dptopk.cli.printing import Refused, print_json, refusing, version
from dptopk.mechanisms import table
from dptopk.sources.column_types import UNSEEN, unseen_kind
from dptopk.sources.dialects import DIALECTS
from dptopk.sources.rules import rules_of
from dptopk.sources.statements import counting, source_of

UNCUT = [name for name, its in table.MECHANISMS.items() if its.command and its.rows is not None]


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "sql",
        allow_abbrev=False,
        help="the SQL by which a database counts users per item",
        description="Print one statement that counts distinct users per item in a database and "
        "brings only what a mechanism needs. Histogram.from_sql runs the same. Its rows are the "
        "item, its users and, unless nulls are dropped, refused: if that is not 0 in the first "
        "row, rows have a null, and the counts must not be used.",
    )
    parser.set_defaults(run=_run)
    option = parser.add_argument
    option("--dialect", required=True, choices=tuple(DIALECTS))
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--table", metavar="NAME", help="dots part it: schema.table")
    source.add_argument("--query", metavar="SQL", help="one query, which gives the events")
    for column in ("user", "item"):
        option(f"--{column}", default=column, metavar="COL", help=f"column (default: {column})")
        option(
            f"--{column}-kind",
            default="text",
            choices=tuple(UNSEEN),
            help="what the column holds (default: text)",
        )
    option("--k-bar", type=int, metavar="N", help="bring the N largest counts and one more")
    option("-k", "--k", type=int, help="as many rows as --mechanism needs for k items")
    option("--mechanism", choices=UNCUT, help="(default: limited_domain)")
    option("--max-items-per-user", type=int, metavar="D")
    option("--hash-key", default="", metavar="TEXT", help="by which the D items are chosen")
    option("--min-events", type=int, default=1, metavar="N", help="rows of a user and an item")
    option("--soft-cap", type=int, metavar="TAU", help="sum weights, for weighted")
    option("--norm", choices=("l2", "l1"), help="of the weights (default: l2)")
    option("--nulls", choices=("error", "drop"), default="error")
    option("--drop-nulls", action="store_const", const="drop", dest="nulls")
    option("--json", action="store_true", help="one JSON object instead of the statement")


def _run(args: argparse.Namespace) -> int:
    from dptopk.accounting.weights import checked_weighting

    k_bar = _k_bar(args)
    if args.soft_cap is None and args.norm is not None:
        raise Refused("--norm goes with --soft-cap")
    if args.soft_cap is not None and k_bar is not None:
        raise Refused("--soft-cap goes with neither --k-bar nor -k: weighted needs all items")
    with refusing():
        weighting = None
        if args.soft_cap is not None:
            weighting = checked_weighting(args.soft_cap, args.norm or "l2")
        rules = rules_of(
            nulls=args.nulls,
            min_events=args.min_events,
            max_items_per_user=args.max_items_per_user,
            hash_key=args.hash_key,
            weighting=weighting,
        )
        given = args.table.split(".") if args.table is not None else args.query
        source = source_of(args.dialect, given, args.user, args.item)
        kinds = (
            unseen_kind(args.dialect, args.user_kind),
            unseen_kind(args.dialect, args.item_kind),
        )
        statement = counting(source, kinds, rules, limit=None if k_bar is None else k_bar + 1)
    if args.json:
        print_json(
            {"sql": statement, "dialect": args.dialect, "k_bar": k_bar, "version": version()}
        )
    else:
        print(f"{statement};")
    return 0


def _k_bar(args: argparse.Namespace) -> int | None:
    """Return how many of the largest counts are to come, or None for all."""
    if args.k is None:
        if args.mechanism is not None:
            raise Refused("--mechanism goes with -k")
        if args.k_bar is not None and args.k_bar < 1:
            raise Refused("--k-bar must be at least 1")
        return args.k_bar
    if args.k_bar is not None:
        raise Refused("give --k-bar or -k, not both")
    if args.k < 1:
        raise Refused("-k must be at least 1")
    rows = table.MECHANISMS[args.mechanism or "limited_domain"].rows
    assert rows is not None
    return rows(args.k)
