"""``dptopk select --by``: the options of groups, and how their releases are shown."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any

import numpy as np

from dptopk.cli.printing import (
    CONFIDENCE,
    Refused,
    bars,
    plain,
    print_json,
    printable,
    refusing,
    tables,
    version,
)

__all__ = ["add", "check", "check_given", "empty", "fit", "in_groups", "print_releases", "shown"]


def add(option: Any) -> None:
    """Add the options."""
    option(
        "--by",
        action="append",
        metavar="COL",
        help="the top k in each group of this column, at one price; repeat it for several columns",
    )
    option("--groups", metavar="FILE", help="all groups there may be, fixed beforehand; one a line")
    option(
        "--max-groups-per-user", type=int, metavar="G", help="keep G groups of each user at most"
    )
    option(
        "--every",
        metavar="1d",
        help="groups are periods of a time, that begin at the lines of --groups: 1h, 1d, 1w, 1mo",
    )


def check(args: argparse.Namespace) -> None:
    """Refuse options of groups that don't go together, and choose a mechanism if none is named."""
    if args.by is not None:
        if args.mechanism == "auto":
            raise Refused("auto goes without --by: name a mechanism")
        if args.groups is None:
            if args.mechanism not in (None, "weighted"):
                raise Refused(
                    f"{args.mechanism} needs --groups FILE with all groups there may be, fixed "
                    "before the data is seen, and --max-groups-per-user; --mechanism weighted "
                    "needs neither"
                )
            args.mechanism = "weighted"
    check_given(args)
    args.mechanism = args.mechanism or "limited_domain"


def check_given(args: argparse.Namespace) -> None:
    """Refuse options of groups that don't go together with any mechanism."""
    if args.by is not None and len({args.user, args.item, *args.by}) < 2 + len(args.by):
        raise Refused("--user, --item and each --by must name different columns")
    needed = "by" if args.by is None else "groups"
    if getattr(args, needed) is None:
        for name in ("groups", "max_groups_per_user", "every"):
            if getattr(args, name) is not None:
                raise Refused(f"--{name.replace('_', '-')} goes with --{needed}")
    elif len(args.by) > 1:
        raise Refused("--groups goes with a single --by")
    elif args.max_groups_per_user is None:
        raise Refused(
            "--groups needs --max-groups-per-user G: the most groups that a user counts in; 1 "
            "where each user belongs to one"
        )


def in_groups(args: argparse.Namespace, columns: tuple[str | int, ...]) -> dict[str, Any]:
    """Return what `Histogram.from_events` takes of groups; of a file they are texts."""
    from dptopk.sources.domains import read_domain

    if args.by is None:
        return {}
    groups: Any = None if args.groups is None else read_domain(args.groups)
    if args.every is not None:
        groups = [_moment(group) for group in groups]
    return {
        "by": list(map(str, columns)),
        "groups": groups,
        "max_groups_per_user": args.max_groups_per_user,
        "every": args.every,
    }


def fit(args: argparse.Namespace, given: dict[str, Any], events: Any) -> None:
    """Make groups of a file labels of the kind of their column, or refuse them."""
    from dptopk.sources.domains import fitted
    from dptopk.sources.groups import groups_of
    from dptopk.sources.on_duckdb import duckdb_kind

    if args.groups is None:
        return
    (column,) = given["by"]
    if args.every is None:
        given["groups"] = fitted(given["groups"], events, column)
    kind = duckdb_kind(column, str(events.types[events.columns.index(column)]))
    with refusing():  # by the schema: no row has been read
        groups_of(**given).listed([kind])


def _moment(group: Any) -> Any:
    """Return the date or the time that a line of a file tells."""
    if not isinstance(group, str):
        return group
    for kind in (date, datetime):
        try:
            return kind.fromisoformat(group)
        except ValueError:
            continue
    raise Refused(f"--groups: {group!r} is no date or time such as 2024-12-31 or 2024-12-31T18:00")


def empty(args: argparse.Namespace, given: Mapping[str, Any], h: Any) -> Any:
    """Return histograms of those groups, of no events, each like one of no events."""
    from dptopk.histogram import Histograms
    from dptopk.sources.groups import groups_of

    if args.by is None:
        return h
    groups = groups_of(**given)
    number = 0 if groups.domain is None else len(groups.domain.labels)
    known, size = h.known_domain and groups.domain is not None, len(h)
    return Histograms.__new__(Histograms)._set(
        np.zeros(number * size, np.int64),
        np.arange(number + 1) * size,
        labels=h.domain_labels,
        groups=[] if groups.domain is None else groups.domain.labels,
        max_groups_per_user=groups.most,
        known_domain=known,
        k_bar=h.k_bar,
        max_items_per_user=args.max_items_per_user,
        weighting=None if h.soft_cap is None else (h.soft_cap, h.norm),
    )


def print_releases(
    releases: Any, args: argparse.Namespace, *, more: Mapping[str, Any], after: Iterable[str]
) -> None:
    """Print what was released in each group: JSON, groups and items alone, or a table and cost."""
    if args.json:
        print_json(_as_json(releases) | dict(more))
        return
    rows = [
        (shown(group), release, rank, printable(str(plain(label))))
        for group, release in releases.items()
        for rank, label in enumerate(release.items)
    ]
    if args.quiet:
        for group, _, _, item in rows:
            print(f"{group}\t{item}")
        return
    console, table = tables()
    ordered = all(release.ordered for release in releases.values())
    table.add_column("group", overflow="fold")
    table.add_column("rank" if ordered else "", justify="right")
    table.add_column("item" if ordered else "item (in no order)", overflow="fold")
    counted = any(release.counts is not None for release in releases.values())
    if counted and rows:
        table.add_column("users (noisy)", justify="right")
        table.add_column(f"{CONFIDENCE:.0%} interval", justify="right")
        if args.plot:
            table.add_column("", no_wrap=True)
    # Of what all groups released: bars of one length are of one number.
    ends = [ends for release in releases.values() for ends in _ends(release)]
    drawn = bars(ends) if args.plot else []
    for place, (group, release, rank, item) in enumerate(rows):
        numbers = []
        if release.counts is not None:
            low, high = ends[place]
            numbers = [str(release.counts[rank]), f"{low}-{high}", *drawn[place : place + 1]]
        name = group if rank == 0 else ""
        table.add_row(name, str(rank + 1) if ordered else "-", item, *numbers)
    if rows:
        console.print(table)
    cost = releases.cost
    console.print("\n".join([*_stopped(releases), (
        f"{releases.mechanism}: this cost epsilon = {cost.epsilon:.6g}, delta = {cost.delta:.6g} "
        f"per user, all groups together ({cost.theorem})."
    ), *after]))  # fmt: skip
    if not releases.private:
        console.print("NOT PRIVATE: the noise did not come from a secure source.")


def _ends(release: Any) -> list[list[int]]:
    ends: list[list[int]] = [] if release.counts is None else release.intervals(CONFIDENCE).tolist()
    return ends


def _stopped(releases: Any) -> list[str]:
    short = sum(not release.complete for release in releases.values())
    if not short:
        return []
    return [
        f"In {short} of {len(releases)} groups fewer than k came out: what is left is too near the "
        "cut to be told privately. What helps: a smaller -k; a larger budget; fewer groups a user."
    ]


def shown(group: Any) -> str:
    """Return a group as it stands in tables."""
    parts = group if isinstance(group, tuple) else (group,)
    return printable(", ".join(str(plain(part)) for part in parts))


def _as_json(releases: Any) -> dict[str, Any]:
    groups = []
    for group, release in releases.items():
        row = {"group": plain(group), "items": [plain(label) for label in release.items]}
        if release.counts is not None:
            row |= {
                "counts": release.counts.tolist(),
                "intervals": release.intervals(CONFIDENCE).tolist(),
                "confidence": CONFIDENCE,
            }
        row |= {"ordered": bool(release.ordered), "complete": bool(release.complete)}
        row["parameters"] = {name: plain(value) for name, value in release.parameters.items()}
        groups.append(row)
    cost = releases.cost
    return {
        "groups": groups,
        "cost": {"epsilon": cost.epsilon, "delta": cost.delta, "theorem": cost.theorem},
        "mechanism": releases.mechanism,
        "private": bool(releases.private),
        "version": version(),
    }
