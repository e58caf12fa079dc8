"""The command line: a private top-k of a file of events in one command.

Standard output holds the result and nothing else. Whatever is wrong with the
input is one line on standard error and exit code 2, with no data in it; 1 is
kept for a failed `verify`. Parameters are tried on an empty histogram before
any events are read, so the mechanism's own messages serve here too.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from dptopk.errors import DptopkError

CONFIDENCE = 0.95  # of the intervals of noisy counts


class _Refused(Exception):
    """Bad input, with the line to print."""


@contextmanager
def _refusing() -> Iterator[None]:
    """Let the library's own refusals of parameters be the line to print.

    Used only where no data has been read: past that a ValueError is not one of
    ours, might quote data, and becomes an internal error.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        raise _Refused(str(error)) from None
    except MemoryError:
        raise _Refused("k or k_bar is too large for the memory of this machine") from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments, those of the process by default.

    Returns
    -------
    int
        0 done, 1 a check of `verify` failed, 2 bad input, 130 interrupted.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a label must not fail an ASCII terminal
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if sys.stdout is None:  # a release that nobody sees would still be paid for
            raise _Refused("standard output is closed")
        args = _parser().parse_args(argv)
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # --help and --version
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has seen enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (_Refused, DptopkError, ImportError) as error:
        message = " ".join(str(error).split())
    except OSError as error:  # a full disk behind standard output
        message = f"cannot write the result: {error.strerror or type(error).__name__}"
    except Exception as error:
        message = f"internal error ({type(error).__name__}); please report it"
    if sys.stderr is not None:
        print(f"dptopk: error: {message}", file=sys.stderr)
    return 2


# ---- arguments


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dptopk", description="Private top-k of a file of events.", allow_abbrev=False
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    for add in (_add_select, _add_cost, _add_verify):
        add(commands)
    return parser


def _add_select(commands: Any) -> None:
    select = commands.add_parser(
        "select",
        allow_abbrev=False,
        help="the k items with the most users, privately",
        description="Select the k items with the most distinct users under user-level "
        "(epsilon, delta)-differential privacy.",
    )
    select.set_defaults(run=_select)
    add = select.add_argument
    add("files", nargs="+", metavar="FILE", help="CSV, TSV, Parquet, JSON lines (.gz); - for CSV")
    add("--user", default="user", metavar="COL", help="column of users (default: user)")
    add("--item", default="item", metavar="COL", help="column of items (default: item)")
    add("-k", "--k", type=int, default=10, help="how many items (default: 10)")
    add("--epsilon", type=float, required=True, help="the total budget")
    add("--delta", type=float, help="e.g. 1e-6; may be left out (0) for peel only")
    add("--mechanism", choices=("limited_domain", "peel"), default="limited_domain")
    add("--k-bar", type=_k_bar, metavar="N|private", help="items considered (default: by k)")
    add("--max-items-per-user", type=int, metavar="D", help="keep D items of each user")
    add("--domain", metavar="FILE", help="all items there are, one a line; required by peel")
    add("--counts-epsilon", type=float, metavar="E", help="noisy counts too, for this much more")
    add("--counts-delta", type=float, metavar="D", help="delta of the counts (default: 0)")
    add("--json", action="store_true", help="one JSON object instead of a table")
    add("-q", "--quiet", action="store_true", help="the items only, one a line; no progress")


def _add_cost(commands: Any) -> None:
    cost = commands.add_parser(
        "cost",
        allow_abbrev=False,
        help="what a budget buys, by every method",
        description="Per-step epsilon that a total affords, or the total that steps cost. "
        "peel and limited_domain take k steps (k + 1 with --k-bar private).",
    )
    cost.set_defaults(run=_cost)
    budget = cost.add_mutually_exclusive_group(required=True)
    budget.add_argument("--epsilon", type=float, help="the total budget")
    budget.add_argument("--epsilon-step", type=float, help="the budget of one step")
    cost.add_argument("-k", "--k", "--steps", dest="steps", type=int, required=True)
    cost.add_argument("--delta", type=float, default=0.0)
    cost.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def _add_verify(commands: Any) -> None:
    verify = commands.add_parser(
        "verify", allow_abbrev=False, help="check the privacy of the mechanisms exhaustively"
    )
    verify.set_defaults(run=_verify)
    verify.add_argument("names", nargs="*", metavar="NAME", help="mechanisms (default: all)")
    verify.add_argument("--quick", action="store_true", help="leave out what draws many times")
    verify.add_argument("--list", action="store_true", help="list the mechanisms")
    verify.add_argument("--json", action="store_true", help="a JSON array instead of a table")


def _k_bar(text: str) -> int | str:
    if text == "private":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer or private, got {text!r}") from None


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"dptopk {_version()}")
        parser.exit()


def _version() -> str:
    from dptopk import __version__

    return __version__


# ---- select


def _select(args: argparse.Namespace) -> int:
    import numpy as np

    from dptopk import Histogram
    from dptopk.sources.files import connect, read_domain, read_events
    from dptopk.sources.frames import count_users

    if args.user == args.item:
        raise _Refused("--user and --item must name two different columns")
    if args.mechanism == "peel":
        _check_peel(args)
    elif args.delta is None:
        raise _Refused(f"{args.mechanism} needs --delta, e.g. --delta 1e-6")
    _check_counts(args)
    domain = read_domain(args.domain) if args.domain else None
    with _refusing():  # a run on no events refuses bad parameters before any are read
        if domain is None:
            limit = _limit(args)
            h = Histogram.truncated(np.zeros(0, np.int64), [], next_count=0, k_bar=limit)
        else:
            limit = None
            h = Histogram(np.zeros(len(domain), np.int64), domain)
        _run_mechanism(h, args)
    if not (args.json or args.quiet):
        _rich()
    con = connect()
    events = read_events(
        args.files, user=args.user, item=args.item, as_text=domain is not None, connection=con
    )
    counted = count_users(
        events,
        user=args.user,
        item=args.item,
        domain=domain,
        k_bar=limit,
        max_items_per_user=args.max_items_per_user,
        progress=False if args.quiet else con.query_progress,
    )
    if limit is not None:
        h = Histogram.truncated(
            counted.counts, counted.labels, next_count=counted.next_count or 0, k_bar=limit
        )
    else:
        h = Histogram(counted.counts, counted.labels)
    _print_release(_run_mechanism(h, args), args)
    return 0


def _check_peel(args: argparse.Namespace) -> None:
    if args.domain is None:
        raise _Refused(
            "peel needs a domain fixed before the data is seen: give --domain FILE with all "
            "items there are, or use --mechanism limited_domain"
        )
    if args.k_bar is not None:
        raise _Refused("--k-bar goes with --mechanism limited_domain")


def _check_counts(args: argparse.Namespace) -> None:
    from dptopk._validate import integer, positive, probability
    from dptopk.mechanisms.noisy_counts import calibrate_counts

    if args.counts_epsilon is None:
        if args.counts_delta is not None:
            raise _Refused("--counts-delta goes with --counts-epsilon")
        return
    if args.quiet and not args.json:
        raise _Refused("--quiet prints the items alone: the counts would be paid for and not seen")
    with _refusing():
        # Here, as the noise of k counts may be refused where that of none is not.
        epsilon = positive("counts-epsilon", args.counts_epsilon)
        delta = probability("counts-delta", args.counts_delta or 0.0, zero=True)
        calibrate_counts(epsilon, delta, integer("k", args.k), None)


def _limit(args: argparse.Namespace) -> int:
    """Return how many rows to ask of the engine, decided without the data."""
    from dptopk.mechanisms.limited_domain import default_k_bar, private_limit

    if isinstance(args.k_bar, int):
        return args.k_bar
    return private_limit(args.k) if args.k_bar == "private" else default_k_bar(args.k)


def _run_mechanism(h: Any, args: argparse.Namespace) -> Any:
    import dptopk

    budget = {"k": args.k, "epsilon": args.epsilon, "delta": args.delta or 0.0}
    if args.mechanism == "peel":
        release = dptopk.peel(h, **budget)
    else:
        release = dptopk.limited_domain(
            h, **budget, k_bar=args.k_bar, max_items_per_user=args.max_items_per_user
        )
    if args.counts_epsilon is None:
        return release
    return dptopk.noisy_counts(
        release,
        h,
        epsilon=args.counts_epsilon,
        delta=args.counts_delta or 0.0,
        max_items_per_user=args.max_items_per_user,
    )


def _print_release(release: Any, args: argparse.Namespace) -> None:
    labels = [_plain(label) for label in release.labels]
    counts = [] if release.counts is None else release.counts.tolist()
    intervals = [] if release.counts is None else release.intervals(CONFIDENCE).tolist()
    if args.json:
        counted = {"counts": counts, "intervals": intervals, "confidence": CONFIDENCE}
        _print_json(
            {
                "items": labels,
                **({} if release.counts is None else counted),
                "ordered": bool(release.ordered),
                "complete": bool(release.complete),
                "cost": {
                    "epsilon": float(release.cost.epsilon),
                    "delta": float(release.cost.delta),
                    "theorem": str(release.cost.theorem),
                },
                "mechanism": str(release.mechanism),
                "parameters": {name: _plain(value) for name, value in release.parameters.items()},
                "private": bool(release.private),
                "version": _version(),
            }
        )
        return
    names = [_printable(str(label)) for label in labels]
    if args.quiet:
        for name in names:
            print(name)
        return
    console, table = _rich()
    table.add_column("rank" if release.ordered else "", justify="right")
    table.add_column("item" if release.ordered else "item (in no order)", overflow="fold")
    if counts:
        table.add_column("users (noisy)", justify="right")
        table.add_column(f"{CONFIDENCE:.0%} interval", justify="right")
    for rank, name in enumerate(names, 1):
        shown = [str(counts[rank - 1]), "{}-{}".format(*intervals[rank - 1])] if counts else []
        table.add_row(str(rank) if release.ordered else "-", name, *shown)
    if names:
        console.print(table)
    cost = release.cost
    lines = [
        f"{release.mechanism}: this cost epsilon = {cost.epsilon:.6g}, delta = {cost.delta:.6g} "
        f"per user ({cost.theorem})."
    ]
    if not release.complete:
        lines.insert(
            0,
            f"Stopped after {len(names)} of {args.k}: the noisy threshold (BOT) came next; the "
            "remaining items are too close to the cut to be told privately.",
        )
    if not release.private:
        lines.append("NOT PRIVATE: the noise did not come from a secure source.")
    console.print("\n".join(lines))


# ---- cost


def _cost(args: argparse.Namespace) -> int:
    from dptopk import accounting

    given = args.epsilon if args.epsilon is not None else args.epsilon_step
    solve = accounting.step_epsilon if args.epsilon is not None else accounting.total_epsilon
    answers: dict[str, float | None] = {}
    with _refusing():
        for method in accounting.METHODS:
            if method == "best":
                continue
            try:
                value: float = solve(given, args.steps, args.delta, method)
            except ValueError:
                if method != "optimal":  # it can't do very many steps; bad values fail for all
                    raise
                value = math.inf
            answers[method] = value if math.isfinite(value) else None
    found = [value for value in answers.values() if value is not None]
    best = (max if args.epsilon is not None else min)(found, default=None)
    unknown = "epsilon_step" if args.epsilon is not None else "epsilon"
    if args.json:
        question = {"epsilon": args.epsilon, "epsilon_step": args.epsilon_step}
        question |= {"delta": args.delta, "steps": args.steps}
        _print_json({**question, "answer": unknown, "methods": answers, "version": _version()})
        return 0
    console, table = _rich()
    for heading in ("method", unknown, "steps that are", "by"):
        table.add_column(heading, justify="right" if heading == unknown else "left")
    for method, answer in answers.items():
        shown = "-" if answer is None else f"{answer:.6g}"
        mark = " *" if answer is not None and answer == best else "  "
        table.add_row(method, f"{shown}{mark}", *accounting.METHODS[method])
    console.print(table)
    if args.epsilon is not None:
        asked = f"A total of epsilon = {given:g}, delta = {args.delta:g} affords each of "
        asked += f"{args.steps} steps the epsilon_step above"
    else:
        asked = f"{args.steps} steps of epsilon_step = {given:g} cost together the epsilon above, "
        asked += f"with delta = {args.delta:g}"
    console.print(
        f"{asked}; * is the best. peel and limited_domain take bounded-range steps; "
        "limited_domain has half of its delta for them, the other half for its threshold."
    )
    return 0


# ---- verify


def _verify(args: argparse.Namespace) -> int:
    if args.list:
        from dptopk.verification.entries import ENTRIES

        names = list(ENTRIES)
        if args.json:
            _print_json(names)
        else:
            print("\n".join(names))
        return 0
    from dptopk.sources.progress import working
    from dptopk.verify import run

    with _refusing(), working("Checking", not args.json):
        results = run(args.names or None, quick=args.quick)
    if args.json:
        fields = ("name", "check", "passed", "detail")
        _print_json([{name: _plain(getattr(r, name)) for name in fields} for r in results])
    else:
        console, table = _rich()
        for heading in ("mechanism", "check", "", "detail"):
            table.add_column(heading, overflow="fold")
        for r in results:
            table.add_row(r.name, r.check, "passed" if r.passed else "FAILED", str(r.detail))
        console.print(table)
    return 0 if all(r.passed for r in results) else 1


# ---- printing


def _rich() -> Any:
    """Return a console on stdout and an empty table."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        raise _Refused("tables need rich: pip install 'dptopk[files]', or use --json") from None
    # A pipe has no width: let no label be folded there.
    width = None if sys.stdout.isatty() else 10_000
    console = Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)
    return console, Table(box=box.SIMPLE_HEAD)


def _print_json(value: Any) -> None:
    print(json.dumps(value, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a label or parameter as JSON has it: numbers, text, or their text."""
    if hasattr(value, "item") and hasattr(value, "dtype"):  # a NumPy scalar
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):  # JSON has no word for it
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def _printable(text: str) -> str:
    """Escape what would move the cursor or colour the terminal: labels are foreign text."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
