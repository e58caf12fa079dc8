"""``dptopk plan``: which mechanism to run, from public facts alone."""

from __future__ import annotations

import argparse
from typing import Any

from dptopk.cli.printing import Refused, plain, print_json, refusing, tables, version
from dptopk.cli.reading import add_files, columns_of, open_events

COLUMNS = ("user", "item")
SHOWN = 10
SHAPE = ("users", "items", "items_per_user")

EXAMPLES = """\
examples:
  ten items that are read off the data, nothing being known of it:
      dptopk plan -k 10 --epsilon 1 --delta 1e-6
  a set of 50 items, out of a list that was fixed beforehand, without delta:
      dptopk plan -k 50 --epsilon 1 --domain known --unordered
  data of some 20,000 people, who have some 8 of 3,000 items each:
      dptopk plan -k 50 --epsilon 1 --delta 1e-6 --zipf 0.8 \\
          --users 20000 --items 3000 --items-per-user 8
  data like that of another year, which is public:
      dptopk plan -k 50 --epsilon 1 --delta 1e-6 --like visits_2019.csv

It reads no private data: never give it the file that is to be protected.
"""


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    plan = commands.add_parser(
        "plan",
        allow_abbrev=False,
        help="which mechanism to run, by what each would find",
        description="Rank mechanisms and their parameters by what they find on public data like "
        "yours, and show the command to run. Costs nothing.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.set_defaults(run=_run)
    option = plan.add_argument
    option("-k", "--k", type=int, default=10, metavar="N", help="how many items (default: 10)")
    option("--epsilon", type=float, required=True, help="the total epsilon, e.g. 1")
    option("--delta", type=float, default=0.0, help="the total delta, e.g. 1e-6 (default: 0)")
    option(
        "--domain",
        choices=("known", "unknown"),
        default="unknown",
        help="whether all items there may be are fixed beforehand (default: unknown)",
    )
    option("--max-items-per-user", type=int, metavar="D", help="a bound on the items of a user")
    option("--unordered", action="store_true", help="a set will do, in no order")
    option("--counts", action="store_true", help="noisy numbers of users are wanted, too")
    option("--trials", type=int, default=200, metavar="N", help="draws of each (default: 200)")
    option("--all", action="store_true", help=f"show all, and not only the first {SHOWN}")
    option("--json", action="store_true", help="one JSON object instead of a table")
    shape = plan.add_argument_group("a shape like your data's, from guesses that are public")
    shape.add_argument(
        "--zipf", type=float, metavar="EXPONENT", help="popularity falls as rank**-EXPONENT"
    )
    shape.add_argument("--users", type=int, dest="n_users", metavar="N", help="with --zipf")
    shape.add_argument("--items", type=int, dest="n_items", metavar="N", help="with --zipf")
    shape.add_argument(
        "--items-per-user", type=float, metavar="MEAN", help="with --zipf (default: 10)"
    )
    like = plan.add_argument_group("or public events like yours")
    add_files(like, what="one event a row", columns=COLUMNS, nulls=True, flag="--like")


def _run(args: argparse.Namespace) -> int:
    import dptopk

    with refusing():
        asked: dict[str, Any] = {
            "k": args.k,
            "epsilon": args.epsilon,
            "delta": args.delta,
            "domain": args.domain,
            "max_items_per_user": args.max_items_per_user,
            "ordered": not args.unordered,
            "counts": args.counts,
        }
        shape = _shape(args)
    like = _events(args) if args.files else shape
    with refusing():
        choices = dptopk.plan(**asked, like=like, trials=args.trials, progress=not args.json)
    if args.json:
        print_json({**plain(choices.to_dict()), "version": version()})
        return 0
    rows = choices[:] if args.all else choices[:SHOWN]
    console, table = tables()
    for heading in ("mechanism", "options", "recall", "+-", "score ratio", "returned"):
        table.add_column(
            heading, justify="left" if heading in ("mechanism", "options") else "right"
        )
    for row in rows:
        options = ", ".join(f"{name} {value}" for name, value in row["parameters"].items())
        numbers = [f"{row['recall']:.3f}", f"{row['recall_se']:.3f}"]
        numbers += [f"{row['score_ratio']:.3f}", f"{row['returned']:.1f}"]
        table.add_row(row["mechanism"], options, *numbers)
    console.print(table)
    if len(rows) < len(choices):
        console.print(f"{len(choices) - len(rows)} more with --all.")
    best = choices.best
    lines = [f"{best['mechanism']} is {choices.caption}. {best['reason']}", ""]
    lines += [f"    {best['command']}", "", "In Python:", ""]
    console.print("\n".join([*lines, *(f"    {line}" for line in best["call"].splitlines())]))
    return 0


def _shape(args: argparse.Namespace) -> Any:
    """Return the shape that is described, or None."""
    from dptopk import zipf

    given = {name: getattr(args, name) for name in ("n_users", "n_items", "items_per_user")}
    given = {name: value for name, value in given.items() if value is not None}
    if args.zipf is None:
        if given:
            raise Refused("--users, --items and --items-per-user go with --zipf")
        return None
    if args.files:
        raise Refused("give --like or --zipf, not both")
    if "n_users" not in given or "n_items" not in given:
        raise Refused("--zipf needs --users and --items")
    return zipf(args.zipf, **given)


def _events(args: argparse.Namespace) -> Any:
    """Return the shape of public files of events."""
    import duckdb

    from dptopk import Shape
    from dptopk.sources.files import opened
    from dptopk.sources.keys import in_engine

    user, item = map(str, columns_of(args, COLUMNS))
    with opened() as connection:
        events = open_events(args, COLUMNS, connection)
        pair = [duckdb.ColumnExpression(name) for name in (user, item)]
        there = [column.isnotnull() for column in pair]
        found = in_engine(
            lambda: events.filter(there[0] & there[1]).select(*pair).distinct().fetchnumpy()
        )
    users, items = (found[name] for name in (user, item))
    if not users.size:
        raise Refused("the files of --like hold no events")
    return Shape.from_pairs(users, items, name=" ".join(args.files))
