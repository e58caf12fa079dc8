"""The arguments of ``dptopk select``, and the help that teaches them."""

from __future__ import annotations

import argparse
import re
from typing import Any

from dptopk.cli import groups as by_group
from dptopk.cli.reading import add_files
from dptopk.mechanisms import table

__all__ = ["AUTO", "COLUMNS", "MECHANISMS", "add_arguments"]

COLUMNS = ("user", "item")
AUTO = "auto"
MECHANISMS = {name: its for name, its in table.MECHANISMS.items() if its.command}
USAGE = "dptopk select FILE... --epsilon E --delta D [-k N] [--user COL] [--item COL] [option]..."
DESCRIPTION = """\
Find the k items with the most distinct users, without telling whether any one user is in
the data: user-level (epsilon, delta)-differential privacy.

example: the most visited pages, of a file with one visit a row
  $ head -3 visits.csv
  user,page
  ann,/home
  bob,/news
  $ dptopk select visits.csv --item page -k 2 --epsilon 1 --delta 1e-6

   rank   item
  ──────────────
      1   /home
      2   /news

  limited_domain: this cost epsilon = 1, delta = 1e-06 per user (...)

  --epsilon 1    how much one user may change the answer: any outcome is at most e^1 = 2.7
                 times as likely with them as without; smaller is more private, and finds less
  --delta 1e-6   how often that may fail; choose it far below 1 / the number of users
  Every run costs anew, and the costs about the same people add up: --ledger keeps the sum.
"""
EPILOG = """\
more examples:
  dptopk select visits.csv --item page --epsilon 1 --delta 1e-6 --mechanism auto -k 50
  dptopk select visits.csv --item page --epsilon 1 --domain all_pages.txt --mechanism peel
  dptopk select visits.csv --item page --epsilon 1 --delta 1e-6 --counts-epsilon 0.5 --plot \\
      --html report.html
  zcat visits.csv.gz | dptopk select - --item page --epsilon 1 --delta 1e-6 --json

exit code: 0 done, 2 refused (one line says why and what to do), 130 interrupted
"""


def add_arguments(select: Any) -> None:
    """Add all arguments, by what they are about."""
    asked = select.add_argument_group("what is asked")
    _add_question(asked.add_argument)
    add_files(
        select.add_argument_group("the events"),
        what="one event a row",
        columns=COLUMNS,
        nulls=True,
    )
    _add_counting(select.add_argument_group("what counts").add_argument)
    _add_shown(select.add_argument_group("what comes out").add_argument)
    _add_mechanism(select.add_argument_group("how it is picked").add_argument)
    by_group.add(select.add_argument_group("the top of every group").add_argument)
    option = select.add_argument_group("a budget that many runs share").add_argument
    option("--ledger", metavar="PATH", help="charge a budget of this file, in place of --epsilon")
    option("--budget", metavar="NAME", help="which budget of the ledger")
    option("--request-id", metavar="ID", help="a repeated request is not drawn and paid again")
    option = select.add_argument_group("large files").add_argument
    option("--temp-directory", metavar="DIR", help="where what does not fit into memory may go")
    option("--memory-limit", metavar="SIZE", help="of the engine that counts, such as 2GB")


def _add_question(option: Any) -> None:
    option(
        "-k",
        "--k",
        type=_k,
        default=10,
        metavar="N|LO-HI",
        help="how many items (default: 10); of top_stable also a range such as 5-20",
    )
    option("--epsilon", type=float, help="the total epsilon, e.g. 1; smaller is more private")
    option(
        "--delta", type=float, help="the total delta, e.g. 1e-6; with --domain it may be left out"
    )
    option("--domain", metavar="FILE", help="all items there may be, fixed beforehand; one a line")


def _add_counting(option: Any) -> None:
    option("--max-items-per-user", type=int, metavar="D", help="keep D items of each user at most")
    option("--hash-key", default="", metavar="TEXT", help="by which the D items are chosen")
    option(
        "--bounded-by-nature",
        action="store_true",
        help="cut nothing: nobody can have more than the D items",
    )
    option(
        "--min-events",
        type=int,
        default=1,
        metavar="N",
        help="a user has an item by N rows or more (default: 1)",
    )


def _add_shown(option: Any) -> None:
    option("--counts-epsilon", type=float, metavar="E", help="noisy counts too, for this much more")
    option("--counts-delta", type=float, metavar="D", help="delta of the counts (default: 0)")
    option("--ranked", action="store_true", help="order the items by their noisy counts")
    option("--plot", action="store_true", help="a bar beside each noisy count")
    option("--html", metavar="FILE", help="write a page with all that came out and its cost, too")
    option("--json", action="store_true", help="one JSON object instead of a table")
    option("-q", "--quiet", action="store_true", help="the items only, one a line; no progress")


def _add_mechanism(option: Any) -> None:
    option(
        "--mechanism",
        choices=(AUTO, *MECHANISMS),
        metavar="NAME",
        help="auto, which goes by what is asked and never by the data; or one of "
        f"{', '.join(MECHANISMS)} (default: limited_domain; with --by and no --groups weighted)",
    )
    option("--unordered", action="store_true", help="of auto: a set will do, in no order")
    option(
        "--k-bar",
        type=_k_bar,
        metavar="N|private",
        help="how many counts take part (default: by k)",
    )
    option(
        "--noise",
        metavar="LAW",
        help="of a oneshot: best (default), gumbel, exponential, laplace or gaussian",
    )
    option(
        "--soft-cap",
        type=int,
        metavar="T",
        help="of weighted: items past T count less (default: by k and epsilon)",
    )
    option("--norm", choices=("l2", "l1"), help="of weighted: Gaussian or Laplace noise")
    option("--min-users", type=int, metavar="C", help="of weighted: a threshold C users higher")


def _k(text: str) -> int | tuple[int, int]:
    ends = re.fullmatch(r"([0-9]+)-([0-9]+)", text)
    try:
        return (int(ends[1]), int(ends[2])) if ends else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be an integer or a range such as 5-20, got {text!r}"
        ) from None


def _k_bar(text: str) -> int | str:
    if text == "private":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer or private, got {text!r}") from None
