"""The options of commands that read files of events, and how they open them."""

from __future__ import annotations

import argparse
from typing import Any

from dptopk.cli.printing import Refused

FORMATS = ("csv", "tsv", "parquet", "json")


def add_files(
    parser: Any, *, what: str, columns: tuple[str, str], nulls: bool, flag: str | None = None
) -> None:
    """Add the files, their two columns, and how they are to be read.

    The files are arguments, unless a flag comes before them.
    """
    option = parser.add_argument
    named: dict[str, Any] = {} if flag is None else {"dest": "files"}
    option(
        flag or "files",
        **named,
        nargs="+",
        metavar="FILE",
        help=f"{what}; CSV, TSV, Parquet, JSON lines (.gz); a pipe; - for standard input",
    )
    for column in columns:
        option(
            f"--{column}",
            default=column,
            metavar="COL",
            help=f"column (default: {column}), or its number with --no-header",
        )
    option("--format", choices=FORMATS, help="of the files (default: by their names; csv for -)")
    option("--no-header", action="store_true", help="CSV without a header line: columns by number")
    option(
        "--delimiter",
        type=_delimiter,
        metavar="C",
        help="what separates columns of a CSV (default: as in its header)",
    )
    if nulls:
        choices = ("error", "drop")
        meaning = "rows without a user or an item: refuse the file (default), or leave them out"
        option("--nulls", choices=choices, default="error", help=meaning)
        option(
            "--drop-nulls",
            action="store_const",
            const="drop",
            dest="nulls",
            help="the same as --nulls drop",
        )


def _delimiter(text: str) -> str:
    if len(text) != 1 or text in '"\r\n':
        raise argparse.ArgumentTypeError("must be one character, and no quote or line break")
    return text


def columns_of(args: argparse.Namespace, names: tuple[str, str]) -> tuple[str | int, str | int]:
    """Return the two columns as given: names, or numbers where there is no header."""
    given = [getattr(args, name) for name in names]
    if given[0] == given[1]:
        raise Refused(f"--{names[0]} and --{names[1]} must name two different columns")
    if not args.no_header:
        return given[0], given[1]
    numbers = []
    for name, text in zip(names, given, strict=True):
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise Refused(f"with --no-header --{name} must be the number of a column, from 1")
        numbers.append(int(text))
    return numbers[0], numbers[1]


def groups_columns(args: argparse.Namespace) -> tuple[str | int, ...]:
    """Return the columns of --by as given: names, or numbers where there is no header."""
    given = getattr(args, "by", None) or []
    if not args.no_header:
        return tuple(given)
    if not all(text.isascii() and text.isdigit() and int(text) > 0 for text in given):
        raise Refused("with --no-header --by must be the number of a column, from 1")
    return tuple(map(int, given))


def open_events(args: argparse.Namespace, names: tuple[str, str], connection: Any) -> Any:
    """Open the files as one relation, whose columns are named ``str(column)``."""
    from dptopk.errors import SourceError
    from dptopk.sources.files import read_events

    columns = columns_of(args, names)
    try:
        return read_events(
            args.files,
            user=columns[0],
            item=columns[1],
            by=groups_columns(args),
            format=args.format,
            header=not args.no_header,
            delimiter=args.delimiter,
            distinct=getattr(args, "min_events", 1) == 1,
            connection=connection,
        )
    except SourceError as error:
        message = str(error)
    named = [*zip(names, columns, strict=True), *(("by", each) for each in groups_columns(args))]
    for name, column in named:
        if f"no column {column!r}" in message:
            raise Refused(f"{message}; say which column it is by --{name}")
    raise SourceError(message)
