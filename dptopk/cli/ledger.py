"""``dptopk ledger``: budgets in a file, that last from one run to the next."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dptopk.budget.total import Total
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
    _more_of_a_budget(create)
    of_filter = _action(
        actions, "create-filter", _create_filter, "make a budget of a Filter, or a cap of others"
    )
    option = of_filter.add_argument
    option("--budget", metavar="NAME", required=True, help="its name, e.g. sales")
    option("--epsilon", type=float, help="the total budget")
    option("--rho", type=float, help="in place of it: the total in zCDP")
    option("--delta", type=float, default=0.0, help="the total delta (default: 0, pure DP)")
    option("--delta-split", type=float, default=0.5, help="the thresholds' part (default: 0.5)")
    _more_of_a_budget(of_filter)
    renew = _action(actions, "renew", _renew, "begin a new period of a budget: costs add up")
    renew.add_argument("--budget", metavar="NAME", required=True, help="its name")
    renew.add_argument("--period", metavar="NAME", required=True, help="its name, e.g. 2026-12")
    _action(actions, "show", _show, "what is left of each budget")
    for name, run, what in (
        ("history", _history, "what was released from a budget"),
        ("lost", _lost, "calls of a budget that were charged and have no release"),
    ):
        action = _action(actions, name, run, what)
        action.add_argument("--budget", metavar="NAME", required=True, help="its name")
    export = _action(actions, "export", _export, "the record as chained lines of JSON", json=False)
    option = export.add_argument
    option("--budget", metavar="NAME", action="append", help="of these budgets alone")
    option("--key-file", metavar="FILE", help="sign it: HMAC-SHA256 by the bytes of this file")
    option("--no-releases", action="store_true", help="leave out what was released")
    verify = actions.add_parser("verify", allow_abbrev=False, help="check an export")
    verify.set_defaults(run=_verify)
    option = verify.add_argument
    option("export", metavar="EXPORT", help="a file that export wrote")
    option("--key-file", metavar="FILE", help="check its signature")
    option("--earlier", metavar="FILE", help="an earlier export, from which it must go on")
    option("--json", action="store_true", help="JSON instead of a table")


def _more_of_a_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dataset", metavar="NAME", help="the data set, for the record")
    parser.add_argument("--cap", metavar="NAME", help="a budget above it, charged too")


def _action(
    actions: Any, name: str, run: Any, help: str, json: bool = True
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, allow_abbrev=False, help=help)
    parser.set_defaults(run=run)
    parser.add_argument("path", metavar="PATH", help="the file, or postgresql://...")
    if json:
        parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    return parser


def existing(path: str) -> Any:
    """Open a ledger that must be there already: a mistyped path makes no new one."""
    from dptopk.budget.ledger import Ledger

    if "://" not in path and not Path(path).is_file():
        raise Refused(f"there is no ledger at {path}; dptopk ledger create makes one")
    return Ledger(path)


def _create(args: argparse.Namespace) -> int:
    from dptopk.budget.ledger import Ledger
    from dptopk.budget.terms import Terms

    names = ("k_star", "calls", "epsilon", "rho", "delta", "method", "accounting", "delta_split")
    terms = {name: getattr(args, name) for name in names}
    with refusing():
        fixed = Terms.of(**terms)  # before there is a file
    with refusing(), Ledger(args.path) as ledger:
        ledger.create(args.budget, dataset=args.dataset, cap=args.cap, **terms)
        budget = ledger.budget(args.budget)
    if args.json:
        print_json(_plain(budget))
    else:
        print(
            f"Each of {fixed.k_star} outcomes gets epsilon = "
            f"{fixed.epsilon_step:.6g}, the threshold of each of {fixed.calls} "
            f"calls delta = {fixed.delta_threshold:.6g}; together they cost epsilon = "
            f"{fixed.epsilon:.6g}, delta = {fixed.delta:.6g} per user."
        )
    return 0


def _create_filter(args: argparse.Namespace) -> int:
    from dptopk.budget.ledger import Ledger
    from dptopk.budget.total import Total

    total = {name: getattr(args, name) for name in ("epsilon", "rho", "delta", "delta_split")}
    with refusing():
        Total.of(**total)  # before there is a file
    with refusing(), Ledger(args.path) as ledger:
        ledger.create_filter(args.budget, dataset=args.dataset, cap=args.cap, **total)
        budget = ledger.budget(args.budget)
    if args.json:
        print_json(_plain(budget))
    else:
        print(f"All calls together cost {budget.total} per user.")
    return 0


def _renew(args: argparse.Namespace) -> int:
    with refusing(), existing(args.path) as ledger:
        ledger.renew(args.budget, args.period)
        budget = ledger.budget(args.budget)
    if args.json:
        print_json(_plain(budget))
    else:
        cost = budget.total
        print(
            f"Period {budget.periods} has begun. All {budget.periods} periods together cost "
            f"epsilon = {cost.epsilon:.6g}, delta = {cost.delta:.6g} per user."
        )
    return 0


def _show(args: argparse.Namespace) -> int:
    with existing(args.path) as ledger:
        budgets = [ledger.budget(name) for name in ledger.names()]
    if args.json:
        print_json([_plain(budget) for budget in budgets])
        return 0
    console, table = tables()
    headings = (
        "budget",
        "left",
        "calls left",
        "epsilon",
        "delta",
        "epsilon_step",
        "periods",
        "cap",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "budget" else "right")
    for budget in budgets:
        table.add_row(printable(budget.name), *_cells(budget))
    console.print(table)
    return 0


def _cells(budget: Any) -> list[str]:
    """Return what a budget's row says; epsilon and delta are those of all its periods."""
    terms, left = budget.terms, budget.remaining
    whole = [f"{budget.total.epsilon:.6g}", f"{budget.total.delta:.6g}"]
    more = [str(budget.periods), printable(budget.cap or "-")]
    if isinstance(terms, Total):
        unit, rest, all_ = (
            ("epsilon", left.epsilon, terms.epsilon) if terms.pure else ("rho", left.rho, terms.rho)
        )
        return [f"{unit} {rest:.6g} of {all_:.6g}", "-", *whole, "-", *more]
    return [
        f"{left.outcomes} of {terms.k_star} outcomes",
        f"{left.calls} of {terms.calls}",
        *whole,
        f"{terms.epsilon_step:.6g}",
        *more,
    ]


def _plain(budget: Any) -> dict[str, Any]:
    of_filter = isinstance(budget.terms, Total)
    return {
        "budget": budget.name,
        **(budget.terms.plain() if of_filter else budget.terms.__dict__),
        "remaining": budget.remaining._asdict(),
        "theorem": budget.terms.cost("all calls").theorem
        if of_filter
        else budget.terms.cost.theorem,
        "dataset": budget.dataset,
        "cap": budget.cap,
        "periods": budget.periods,
        "period": budget.period,
        "total": {"epsilon": budget.total.epsilon, "delta": budget.total.delta},
    }


def _lost(args: argparse.Namespace) -> int:
    with existing(args.path) as ledger:
        entries = ledger.lost(args.budget)
    return _entries(entries, args.json)


def _key(args: argparse.Namespace) -> bytes | None:
    if args.key_file is None:
        return None
    try:
        key = Path(args.key_file).read_bytes().strip()
    except OSError as error:
        raise Refused(f"{args.key_file} can't be read ({error.strerror})") from None
    if len(key) < 16:
        raise Refused(f"{args.key_file} holds no key: it has less than 16 bytes")
    return key


def _export(args: argparse.Namespace) -> int:
    key = _key(args)
    with existing(args.path) as ledger:
        for line in ledger.export(args.budget, key=key, bodies=not args.no_releases):
            print(line)
    return 0


def _verify(args: argparse.Namespace) -> int:
    from dptopk.budget.audit import verify_export

    key = _key(args)
    try:
        with open(args.export, encoding="ascii") as lines:
            if args.earlier is None:
                audit = verify_export(lines, key=key)
            else:
                with open(args.earlier, encoding="ascii") as earlier:
                    before = verify_export(earlier, key=key).heads
                audit = verify_export(lines, key=key, earlier=before)
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"an export can't be read ({error})") from None
    if args.json:
        print_json({"signed": audit.signed, "heads": audit.heads, "lost or under way": audit.lost})
        return 0
    for name, (lines_, _) in audit.heads.items():
        print(f"{printable(name)}: {lines_} lines, {audit.lost[name]} calls without a release")
    print("signed by this key" if audit.signed else "the chain is sound; no signature was checked")
    return 0


def _history(args: argparse.Namespace) -> int:
    with existing(args.path) as ledger:
        entries = ledger.history(args.budget)
    return _entries(entries, args.json)


def _entries(entries: list[Any], json: bool) -> int:
    if json:
        print_json([_line(entry) for entry in entries])
        return 0
    console, table = tables()
    for heading in ("when (UTC)", "mechanism", "k", "charged", "request", "released"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        table.add_row(
            entry.at[:19].replace("T", " "),
            entry.call["mechanism"],
            str(entry.call.get("k", 1)),  # noisy_max picks one
            _price(entry),
            printable(entry.request_id or "-"),
            _came(entry),
        )
    console.print(table)
    return 0


def _came(entry: Any) -> str:
    if entry.below is not None:
        return f"a call of {printable(entry.below)}"
    return "paid: run by the caller" if entry.paid else _released(entry.release)


def _price(entry: Any) -> str:
    if "outcomes" in entry.amounts:
        return f"{entry.outcomes}"
    paid = ((unit, float(amount)) for unit, amount in entry.amounts.items() if amount)
    return ", ".join(f"{unit} {amount:.4g}" for unit, amount in paid)


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
