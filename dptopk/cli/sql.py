"""``dptopk sql``: the statement that has a database count, to be run by hand."""

from __future__ import annotations

import argparse
from typing import Any

from dptopk.cli import groups
from dptopk.cli.printing import Refused, print_json, refusing, version
from dptopk.mechanisms import table
from dptopk.sources.column_types import UNSEEN, unseen_kind
from dptopk.sources.columns import domain_of
from dptopk.sources.databases import GROUPED
from dptopk.sources.dialects import DIALECTS
from dptopk.sources.domains import as_kind, read_domain
from dptopk.sources.grouped_statements import counting_in_groups
from dptopk.sources.groups import groups_of
from dptopk.sources.labels import matched
from dptopk.sources.rules import Rules, rules_of
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
        "row, rows have a null, and the counts must not be used. With --by the group comes "
        "first: with --groups as its place there, from 0.",
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
    option("--domain", metavar="FILE", help="count these items, one a line, and no others")
    groups.add(option)
    option(
        "--by-kind",
        action="append",
        choices=tuple(UNSEEN),
        help="what the column of --by holds, once for each (default: text)",
    )
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
    if args.domain is not None and k_bar is not None:
        raise Refused("--domain goes with neither --k-bar nor -k: all its items come")
    _check_groups(args)
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
        statement = _statement(args, rules, None if k_bar is None else k_bar + 1)
    if args.json:
        print_json(
            {"sql": statement, "dialect": args.dialect, "k_bar": k_bar, "version": version()}
        )
    else:
        print(f"{statement};")
    return 0


def _check_groups(args: argparse.Namespace) -> None:
    groups.check_given(args)
    if args.by_kind is not None and len(args.by_kind) != len(args.by or ()):
        raise Refused("--by-kind must be given once for each --by")
    if args.by is None:
        return
    if args.dialect not in GROUPED:
        raise Refused(f"--by goes with the dialects {', '.join(GROUPED)}")
    if args.groups is None and args.soft_cap is None:
        raise Refused(
            "--by needs --groups FILE with all groups there may be, and --max-groups-per-user; "
            "or --soft-cap, for weighted"
        )


def _statement(args: argparse.Namespace, rules: Rules, limit: int | None) -> str:
    """Return the statement for columns of the kinds that were given."""
    by = args.by or []
    given = args.table.split(".") if args.table is not None else args.query
    source = source_of(args.dialect, given, args.user, args.item, *by)
    names = [args.user_kind, args.item_kind, *(args.by_kind or ["text"] * len(by))]
    kinds = [unseen_kind(args.dialect, name) for name in names]
    only = None
    if args.domain is not None:
        labels = as_kind(read_domain(args.domain), kinds[1], args.item)
        keys = matched(domain_of(labels), kinds[1], args.item)
        only = [key for key in keys if key is not None]
    if not by:
        return counting(source, kinds, rules, only=only, limit=limit)
    wanted = groups.in_groups(args, tuple(by))
    if args.groups is not None and args.every is None:
        wanted["groups"] = as_kind(wanted["groups"], kinds[2], by[0])
    of = groups_of(**wanted)
    listed = None if of.domain is None else of.listed(kinds[2:])
    return counting_in_groups(source, kinds, rules, of, listed, only=only, limit=limit)


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
