"""The command line: a private top-k of a file of events in one command.

Standard output holds the result and nothing else. Whatever is wrong with the
input is one line on standard error and exit code 2, with no data in it; 1 is
kept for a failed `verify`. One file for each command.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from dptopk.cli import cost, ledger, plan, rank, select, sql, verify
from dptopk.cli.printing import Refused, version
from dptopk.errors import BudgetError, DptopkError

COMMANDS = (select, plan, rank, sql, cost, ledger, verify)


DESCRIPTION = """\
Find the most frequent items of a file of events, without telling whether any one person is
in it (differential privacy).

  $ dptopk select visits.csv --user visitor --item page -k 10 --epsilon 1 --delta 1e-6

reads one visit a row, counts for each page how many different visitors it had, and prints the
10 pages with the most, in their order, as far as that can be told without telling of anyone.
"""
EPILOG = "dptopk COMMAND --help teaches each of them; start with: dptopk select --help"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message}; see {self.prog} --help")


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
            raise Refused("standard output is closed")
        parser = _parser()
        if not (sys.argv[1:] if argv is None else argv):  # nothing asked, nothing done: no success
            if sys.stderr is not None:
                parser.print_help(sys.stderr)
            return 2
        args, rest = parser.parse_known_args(argv)
        if rest:
            raise Refused(
                f"unrecognized arguments: {' '.join(rest)}; see dptopk {args.command} --help"
            )
        code: int = args.run(args)
        sys.stdout.flush()
        if argv is None:  # it is done: Ctrl-C while the interpreter ends must not deny it
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGINT, signal.SIG_IGN)
        return code
    except SystemExit as stop:  # --help and --version
        return stop.code if isinstance(stop.code, int) else 0
    except KeyboardInterrupt:
        if argv is None:  # an engine at work that could not be stopped must not hold us up
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
            os._exit(130)
        return 130
    except BrokenPipeError:  # the reader has seen enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BudgetError as error:
        message = f"{error}; a smaller -k may cost less, and dptopk ledger show says what is left"
    except (Refused, DptopkError, ImportError) as error:
        message = " ".join(str(error).split())
    except OSError as error:  # a full disk behind standard output
        message = f"cannot write the result: {error.strerror or type(error).__name__}"
    except Exception as error:
        message = f"internal error ({type(error).__name__}); please report it"
    if sys.stderr is not None:
        print(f"dptopk: error: {message}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dptopk",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=DESCRIPTION,
        epilog=EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_Parser
    )
    for command in COMMANDS:
        command.add(commands)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"dptopk {version()}")
        parser.exit()
