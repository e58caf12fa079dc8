"""``dptopk ledger``: budgets in a file, that last from one run to the next."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dptopk.cli.groups import shown
from dptopk.cli.printing import Refused, plain, print_json, printable, refusing, tables
from dptopk.releases import Releases


def add(commands: Any) -> None:
    """Add the command and its actions."""
    ledger = commands.add_parser(
        "ledger",
        allow_abbrev=False,
        help="budgets in a file, for select --ledger",
        description="Budgets by name in a file. What select --ledger draws from one is charged "
        "to it by the number of outcomes, on disk, before anything is drawn.",
    )
    actions = ledger.add_subparsers(required=True, metavar="ACTION", parser_class=type(ledger))
    create = _action(actions, "create", _create, "make a budget, and the file if there is none")
    option = create.add_argument
    option("--budget", metavar="NAME", required=True, help="its name, e.g. 'ann, sales'")
    option("--k-star", type=int, required=True, help="outcomes of all calls, BOT included")
    option("--calls", type=int, required=True, help="how many calls")
    option("--epsilon", type=float, help="the total budget")
    option("--rho", type=float, help="in place of it: the total of all steps in zCDP")
    option("--delta", type=float, required=True, help="the total delta, e.g. 1e-6")
    option("--method", default="adaptive", help="how steps are composed (default: adaptive)")
    option("--accounting", default="tight", help="tight or printed (default: tight)")
    option("--delta-split", type=float, default=0.5, help="the thresholds' part (default: 0.5)")
    _action(actions, "show", _show, "what is left of each budget")
    history = _action(actions, "history", _history, "what was released from a budget")
    history.add_argument("--budget", metavar="NAME", required=True, help="its name")


def _action(actions: Any, name: str, run: Any, help: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, allow_abbrev=False, help=help)
    parser.set_defaults(run=run)
    parser.add_argument("path", metavar="PATH", help="the file")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    return parser


def existing(path: str) -> Any:
    """Open a ledger that must be there already: a mistyped path makes no new one."""
    from dptopk.budget.ledger import Ledger

    if not Path(path).is_file():
        raise Refused(f"there is no ledger at {path}; dptopk ledger create makes one")
    return Ledger(path)


def _create(args: argparse.Namespace) -> int:
    from dptopk.budget.ledger import Ledger
    from dptopk.budget.terms import Terms

    names = ("k_star", "calls", "epsilon", "rho", "delta", "method", "accounting", "delta_split")
    terms = {name: getattr(args, name) for name in names}
    with refusing():
        Terms.of(**terms)  # before there is a file
    with refusing(), Ledger(args.path) as ledger:
        ledger.create(args.budget, **terms)
        budget = ledger.budget(args.budget)
    if args.json:
        print_json(_plain(budget))
    else:
        print(
            f"Each of {budget.terms.k_star} outcomes gets epsilon = "
            f"{budget.terms.epsilon_step:.6g}, the threshold of each of {budget.terms.calls} "
            f"calls delta = {budget.terms.delta_threshold:.6g}; together they cost epsilon = "
            f"{budget.terms.epsilon:.6g}, delta = {budget.terms.delta:.6g} per user."
        )
    return 0


def _show(args: argparse.Namespace) -> int:
    with existing(args.path) as ledger:
        budgets = [ledger.budget(name) for name in ledger.names()]
    if args.json:
        print_json([_plain(budget) for budget in budgets])
        return 0
    console, table = tables()
    for heading in ("budget", "outcomes left", "calls left", "epsilon", "delta", "epsilon_step"):
        table.add_column(heading, justify="left" if heading == "budget" else "right")
    for name, terms, left in budgets:
        table.add_row(
            printable(name),
            f"{left.outcomes} of {terms.k_star}",
            f"{left.calls} of {terms.calls}",
            f"{terms.epsilon:.6g}",
            f"{terms.delta:.6g}",
            f"{terms.epsilon_step:.6g}",
        )
    console.print(table)
    return 0


def _plain(budget: Any) -> dict[str, Any]:
    cost = budget.terms.cost
    return {
        "budget": budget.name,
        **budget.terms.__dict__,
        "remaining": budget.remaining._asdict(),
        "theorem": cost.theorem,
    }


def _history(args: argparse.Namespace) -> int:
    with existing(args.path) as ledger:
        entries = ledger.history(args.budget)
    if args.json:
        print_json([_line(entry) for entry in entries])
        return 0
    console, table = tables()
    for heading in ("when (UTC)", "mechanism", "k", "outcomes", "request", "released"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        table.add_row(
            entry.at[:19].replace("T", " "),
            entry.call["mechanism"],
            str(entry.call.get("k", 1)),  # noisy_max picks one
            str(entry.outcomes),
            printable(entry.request_id or "-"),
            _released(entry.release),
        )
    console.print(table)
    return 0


def _released(release: Any) -> str:
    if release is None:
        return "nothing recorded: under way or lost, and charged"
    if isinstance(release, Releases):
        rows = (f"{shown(group)}: {_released(one)}" for group, one in release.items())
        return "; ".join(rows)
    names = [printable(str(item)) for item in release.items]
    return ", ".join(names + ([] if release.complete else ["BOT"]))


def _line(entry: Any) -> dict[str, Any]:
    release = entry.release
    amounts = {unit: str(amount) for unit, amount in entry.amounts.items()}
    line = {**entry._asdict(), "release": None, "amounts": amounts}
    if isinstance(release, Releases):
        groups = [{"group": plain(group), **_items(one)} for group, one in release.items()]
        line["release"] = {"groups": groups, "private": bool(release.private)}
    elif release is not None:
        line["release"] = {**_items(release), "private": bool(release.private)}
    return line


def _items(release: Any) -> dict[str, Any]:
    return {
        "items": [plain(item) for item in release.items],
        "ordered": bool(release.ordered),
        "complete": bool(release.complete),
    }
