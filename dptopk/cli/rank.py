"""``dptopk rank``: the k best items, from files of pairwise comparisons."""

from __future__ import annotations

import argparse
from typing import Any

from dptopk.cli.printing import CONFIDENCE, Measures, Refused, print_release, refusing, tables
from dptopk.cli.reading import add_files, columns_of, open_events

COLUMNS = ("winner", "loser")
METHODS = ("laplace", "pure", "approximate")
BOUNDS = ("exact", "paper")


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    rank = commands.add_parser(
        "rank",
        allow_abbrev=False,
        help="the k best items by pairwise comparisons, privately",
        description="Rank items by pairwise comparisons such that single comparisons stay "
        "private, or with --max-comparisons-per-item whole people; not who was compared with whom.",
    )
    rank.set_defaults(run=_run)
    option = rank.add_argument
    add_files(rank, what="one comparison a row", columns=COLUMNS, nulls=False)
    option("--domain", metavar="FILE", required=True, help="all items there are, one a line")
    option("-k", "--k", type=int, default=10, help="how many items (default: 10)")
    option("--epsilon", type=float, required=True, help="the total budget")
    option("--delta", type=float, default=0.0, help="for --method approximate")
    option("--degree", type=int, required=True, metavar="D", help="most others of any item")
    option("--comparisons-per-pair", type=int, required=True, metavar="L")
    option(
        "--max-comparisons-per-item",
        type=int,
        default=1,
        metavar="M",
        help="most comparisons of any one item that one user decides: protects whole users",
    )
    option("--rho", type=float, help="bound of the ergodicity coefficient, whatever the outcomes")
    option("--no-check-rho", action="store_true", help="vouch for --rho")
    option("--restart", type=float, default=0.0, metavar="P", help="chance of a restart, for --rho")
    option("--method", choices=METHODS, default=METHODS[0])
    option("--bound", choices=BOUNDS, default=BOUNDS[0], help="whose constants (default: exact)")
    option("--json", action="store_true", help="one JSON object instead of a table")
    option("-q", "--quiet", action="store_true", help="the items only, one a line; no progress")


def _run(args: argparse.Namespace) -> int:
    from dptopk.ranking import rank_pairs
    from dptopk.ranking.private import calibrate
    from dptopk.sources.domains import fitted, read_domain
    from dptopk.sources.files import connect

    columns = columns_of(args, COLUMNS)
    domain = read_domain(args.domain)
    options = {
        "k": args.k,
        "epsilon": args.epsilon,
        "delta": args.delta,
        "degree": args.degree,
        "comparisons_per_pair": args.comparisons_per_pair,
        "rho": args.rho,
        "restart": args.restart,
        "method": args.method,
        "bound": args.bound,
        "max_comparisons_per_item": args.max_comparisons_per_item,
    }
    if len(domain) < 2:
        raise Refused("--domain must hold at least 2 items")
    with refusing():  # before any file is read
        calibrate(len(domain), complete=args.degree >= len(domain) - 1, **options)
    if not (args.json or args.quiet):
        tables()
    rows = open_events(args, COLUMNS, connect())
    winner, loser = map(str, columns)
    release = rank_pairs(
        rows,
        winner=winner,
        loser=loser,
        items=fitted(domain, rows, loser),
        check_rho=not args.no_check_rho,
        **options,
    )
    _print_release(release, args)
    return 0


def _print_release(release: Any, args: argparse.Namespace) -> None:
    measures = None
    if release.counts is not None:
        grid = release.parameters["grid"]
        scores = [count / grid for count in release.counts.tolist()]
        intervals = [
            [low / grid, high / grid] for low, high in release.intervals(CONFIDENCE).tolist()
        ]
        measures = Measures("scores", "score (noisy)", scores, intervals, ".6f")
    unit = "comparison" if args.max_comparisons_per_item == 1 else "user"
    print_release(release, args, measures=measures, unit=unit, more={})
