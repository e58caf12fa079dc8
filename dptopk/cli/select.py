"""``dptopk select``: the k items with the most users, from files of events."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Any

from dptopk.cli import groups as by_group
from dptopk.cli.asking import (
    AUTO,
    COLUMNS,
    DESCRIPTION,
    EPILOG,
    MECHANISMS,
    USAGE,
    add_arguments,
)
from dptopk.cli.ledger import existing
from dptopk.cli.printing import (
    CONFIDENCE,
    Measures,
    Refused,
    print_release,
    printable,
    refusing,
    tables,
)
from dptopk.cli.reading import columns_of, groups_columns, open_events
from dptopk.errors import LedgerError
from dptopk.releases import Releases

OPTIONS = ("k_bar", "max_items_per_user", "noise")
WEIGHTING = ("soft_cap", "norm", "min_users")
# What a budget of a ledger pays.
IN_SESSIONS = [name for name, its in MECHANISMS.items() if not its.no_session]


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    select = commands.add_parser(
        "select",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=USAGE,
        help="the k items with the most users, privately",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    select.set_defaults(run=_run)
    add_arguments(select)


def _most(args: argparse.Namespace) -> int:
    """Return how many items may come out."""
    return args.k[1] if isinstance(args.k, tuple) else args.k


def _run(args: argparse.Namespace) -> int:
    from dptopk.budget.session import Session
    from dptopk.cli.report import Report

    columns_of(args, COLUMNS)
    by_group.check(args)
    _check_budget(args)
    _choose(args)
    _check_mechanism(args)
    _check_counts(args)
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(Report(args.html))
        if args.ledger is None:
            return _select(args, None, report)
        ledger = stack.enter_context(existing(args.ledger))
        return _select(args, Session.bound(ledger, args.budget), report)


def _select(args: argparse.Namespace, session: Any, report: Any) -> int:
    """Count the events and show what was released, drawn from a session if there is one."""
    import numpy as np

    from dptopk import Histogram
    from dptopk.sources.domains import fitted, read_domain
    from dptopk.sources.files import opened
    from dptopk.sources.rules import rules_of

    domain = read_domain(args.domain) if args.domain else None
    given = by_group.in_groups(args, groups_columns(args))
    with refusing():  # a run on no events refuses bad parameters before any are read
        rules_of(max_items_per_user=args.max_items_per_user, min_events=args.min_events)
        limit = None
        if MECHANISMS[args.mechanism].weights:
            h = Histogram.from_weights(
                np.zeros(0 if domain is None else len(domain), np.int64),
                [] if domain is None else domain,
                domain_is_public=domain is not None,
                max_items_per_user=args.max_items_per_user,
                **_weighting(args),
            )
        elif domain is None:
            limit = _limit(args)
            h = Histogram.truncated(np.zeros(0, np.int64), [], next_count=0, k_bar=limit)
        else:
            h = Histogram(np.zeros(len(domain), np.int64), domain)
        _check_call(by_group.empty(args, given, h), args, session)
    if not (args.json or args.quiet):
        tables()
    with contextlib.ExitStack() as stack:
        with refusing():
            limits = {"temp_directory": args.temp_directory, "memory_limit": args.memory_limit}
            con = stack.enter_context(opened(**limits))
        columns = columns_of(args, COLUMNS)
        events = open_events(args, COLUMNS, con)
        user, item = map(str, columns)
        by_group.fit(args, given, events)
        h = Histogram.from_events(
            events,
            user=user,
            item=item,
            domain=None if domain is None else fitted(domain, events, item),
            k_bar=limit,
            max_items_per_user=args.max_items_per_user,
            nulls=args.nulls,
            min_events=args.min_events,
            hash_key=args.hash_key,
            bounded_by_nature=args.bounded_by_nature,
            **_weighting(args),
            **given,
            progress=False if args.quiet else con.query_progress,
        )
    release = _run_mechanism(h, args, session, args.request_id)
    failed = "" if args.html is None else _write(release, report, session)
    _print_release(release, args, session)  # whatever came of the page: it has been paid for
    if failed:
        again = ""
        if args.request_id is not None:
            again = "; the same command with another --html writes it, and costs nothing more"
        raise Refused(f"--html {args.html}: it could not be written ({failed}){again}")
    return 0


def _write(release: Any, report: Any, session: Any) -> str:
    """Put the page in its place; return what went wrong, or nothing."""
    written: str = report.write(release.to_html(remaining=_left(session)))
    return written


def _left(session: Any) -> Any:
    """Return what is left of a budget; None where that can't be read: the release stands."""
    if session is None:
        return None
    try:
        return session.remaining
    except LedgerError:
        return None


def _check_call(h: Any, args: argparse.Namespace, session: Any) -> None:
    """Refuse what the call would refuse whatever the data, and what a budget can't pay."""
    import numpy as np

    from dptopk.mechanisms.noisy_counts import total_cost

    if session is None:
        cost = _plan(h, args).cost
        if args.counts_epsilon is not None:
            total_cost(cost, args.counts_epsilon, args.counts_delta or 0.0, 0.0, "")
    else:
        session.check(args.mechanism, h, request_id=args.request_id, **_options(args))
    np.empty(_most(args), np.int64)  # the picks must fit into memory


def _check_budget(args: argparse.Namespace) -> None:
    if args.ledger is None:
        if args.epsilon is None:
            raise Refused(
                "the following arguments are required: --epsilon (or --ledger), "
                "e.g. --epsilon 1; see dptopk select --help"
            )
        for option in ("budget", "request_id"):
            if getattr(args, option) is not None:
                raise Refused(f"--{option.replace('_', '-')} goes with --ledger")
        return
    if args.budget is None:
        raise Refused("--ledger needs --budget NAME")
    for option in ("epsilon", "delta"):
        if getattr(args, option) is not None:
            raise Refused(f"--{option} comes from the budget of the ledger: leave it out")
    if args.counts_epsilon is not None:
        raise Refused("--counts-epsilon is not charged to a ledger: leave it out")


def _choose(args: argparse.Namespace) -> None:
    """Put a mechanism and its options in the place of auto, and say which and why."""
    args.auto = args.mechanism == AUTO
    if args.bounded_by_nature and args.max_items_per_user is None:
        raise Refused("--bounded-by-nature goes with --max-items-per-user")
    if not args.auto:
        if args.unordered:
            raise Refused("--unordered goes with --mechanism auto")
        return
    if isinstance(args.k, tuple):
        raise Refused("a range of -k goes with --mechanism top_stable")
    for option in ("k_bar", "noise", *WEIGHTING):
        if getattr(args, option) is not None:
            flag = "--" + option.replace("_", "-")
            raise Refused(f"{flag} goes with a mechanism that you name: auto chooses for itself")
    if args.domain is None and args.delta is None and args.ledger is None:
        raise Refused("auto needs --delta, e.g. --delta 1e-6, or --domain")
    vouched = args.max_items_per_user
    chosen = _choice(args)
    args.mechanism = chosen.mechanism
    for option, value in chosen.options.items():
        setattr(args, option, value)
    if args.max_items_per_user != vouched:  # nobody vouched for that: it is cut to
        args.bounded_by_nature = False
    if MECHANISMS[chosen.mechanism].delta == "none":
        args.delta = None
    if not args.quiet:
        said = [f"{option} {value}" for option, value in chosen.options.items()]
        print(f"auto: {' '.join([chosen.mechanism, *said])} ({chosen.why})", file=sys.stderr)


def _choice(args: argparse.Namespace) -> Any:
    from dptopk.planning.auto import choose

    with refusing():
        return choose(
            k=args.k,
            epsilon=args.epsilon,
            delta=args.delta or 0.0,
            known_domain=args.domain is not None,
            max_items_per_user=args.max_items_per_user,
            ordered=not args.unordered,
            counts=args.counts_epsilon is not None,
            session=args.ledger is not None,
        )


def _check_mechanism(args: argparse.Namespace) -> None:
    name, choice = args.mechanism, MECHANISMS[args.mechanism]
    if args.ledger is not None and name not in IN_SESSIONS:
        raise Refused(f"--ledger goes with --mechanism {' or '.join(IN_SESSIONS)}")
    if isinstance(args.k, tuple):
        if name != "top_stable":
            raise Refused("a range of -k goes with --mechanism top_stable")
        if args.k_bar is not None:
            raise Refused("--k-bar goes with a single -k, not with a range")
    if choice.domain == "known" and args.domain is None:
        raise Refused(
            f"{name} needs a domain fixed before the data is seen: give --domain FILE with all "
            "items there are, or use --mechanism limited_domain"
        )
    if choice.delta == "required" and args.delta is None and args.ledger is None:
        raise Refused(f"{name} needs --delta, e.g. --delta 1e-6")
    if choice.delta == "none" and args.delta:
        raise Refused(f"{name} is pure: leave --delta out")
    if choice.weights and args.counts_epsilon is not None:
        raise Refused("--counts-epsilon goes with mechanisms that count users, not with weighted")
    for option in WEIGHTING:
        if getattr(args, option) is not None and not choice.weights:
            raise Refused(f"--{option.replace('_', '-')} goes with --mechanism weighted")
    for option in OPTIONS:
        # A bound on a user's items is kept by reading no more, with any mechanism.
        if option in choice.options or option == "max_items_per_user":
            continue
        if getattr(args, option, None) is not None:
            having = [other for other, its in MECHANISMS.items() if option in its.options]
            flag = "--" + option.replace("_", "-")
            raise Refused(f"{flag} goes with --mechanism {' or '.join(having)}")


def _check_counts(args: argparse.Namespace) -> None:
    from dptopk._validate import integer, positive, probability
    from dptopk.mechanisms.noisy_counts import calibrate_counts

    if args.plot and (args.json or args.quiet):
        raise Refused("--plot draws in the table: leave --json and --quiet out")
    if args.plot and args.counts_epsilon is None:
        raise Refused("--plot draws noisy counts: say what they may cost by --counts-epsilon E")
    if args.counts_epsilon is None:
        if args.counts_delta is not None:
            raise Refused("--counts-delta goes with --counts-epsilon")
        if args.ranked:
            raise Refused("--ranked goes with --counts-epsilon")
        return
    if args.quiet and not (args.json or args.html or args.ranked):
        raise Refused("--quiet prints the items alone: the counts would be paid for and not seen")
    with refusing():
        # Here, as the noise of k counts may be refused where that of none is not.
        epsilon = positive("counts-epsilon", args.counts_epsilon)
        delta = probability("counts-delta", args.counts_delta or 0.0, zero=True)
        k = integer("k", _most(args))
        calibrate_counts(epsilon, delta, k, k, None, args.max_groups_per_user or 1)


def _limit(args: argparse.Namespace) -> int:
    """Return how many rows to ask of the engine, decided without the data."""
    from dptopk.domain import private_limit

    if isinstance(args.k_bar, int):
        return args.k_bar
    if args.k_bar == "private":
        return private_limit(_most(args))
    rows = MECHANISMS[args.mechanism].rows
    assert rows is not None
    return rows(_most(args))


def _weighting(args: argparse.Namespace) -> dict[str, Any]:
    """Return how users with many items count less, if they do."""
    from dptopk.planning.auto import default_soft_cap

    if not MECHANISMS[args.mechanism].weights:
        return {}
    given = {name: getattr(args, name) for name in ("soft_cap", "norm")}
    if args.soft_cap is None:
        given["soft_cap"] = default_soft_cap(args.k, args.epsilon, args.max_items_per_user)
    return {name: value for name, value in given.items() if value is not None}


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the mechanism takes but for the budget."""
    choice = MECHANISMS[args.mechanism]
    given = {name: getattr(args, name) for name in choice.options}
    if choice.weights:
        given["min_users"] = args.min_users
    return {"k": args.k, **{name: value for name, value in given.items() if value is not None}}


def _plan(h: Any, args: argparse.Namespace) -> Any:
    """Return the call of a mechanism with a budget of its own, checked."""
    import dptopk
    from dptopk.mechanisms._plan import plan_of

    options = {"epsilon": args.epsilon, **_options(args)}
    if MECHANISMS[args.mechanism].delta != "none":
        options["delta"] = args.delta or 0.0
    return plan_of(getattr(dptopk, args.mechanism))(h, **options)


def _run_mechanism(
    h: Any, args: argparse.Namespace, session: Any, request_id: str | None = None
) -> Any:
    import dptopk

    if session is not None:
        return getattr(session, args.mechanism)(h, request_id=request_id, **_options(args))
    release = _plan(h, args).draw(None)
    if args.counts_epsilon is None:
        return release
    return dptopk.noisy_counts(
        release,
        h,
        epsilon=args.counts_epsilon,
        delta=args.counts_delta or 0.0,
        max_items_per_user=args.max_items_per_user,
        ranked=args.ranked,
    )


def _advice(args: argparse.Namespace) -> str:
    """Say what brings more items, by what was asked for alone."""
    ways = ["another range of -k" if isinstance(args.k, tuple) else "a smaller -k"]
    ways += ["a larger budget" if args.ledger else "a larger --epsilon"]
    if args.domain is None:
        ways.append("--domain with --mechanism peel, if all items there may be are known")
    if not (isinstance(args.k, tuple) or args.ledger or args.auto):
        ways.append("what `dptopk plan` ranks first")
    return f"What helps: {'; '.join(ways[:-1])}; or {ways[-1]}."


def _stopped(release: Any, args: argparse.Namespace) -> str:
    """Say why fewer came out than were asked for, by what came out alone."""
    if not isinstance(args.k, tuple):
        return (
            f"Stopped after {len(release)} of {args.k}: the noisy threshold (BOT) came next; the "
            f"remaining items are too close to the cut to be told privately. {_advice(args)}"
        )
    if len(release):
        return f"These are all items there are, fewer than {args.k[0]}."
    low, high = args.k
    return (
        f"Nothing came out: the gap chosen among the sizes {low} to {high} is too small to be told "
        f"privately. {_advice(args)}"
    )


def _print_release(release: Any, args: argparse.Namespace, session: Any = None) -> None:
    measures, more, groups = None, {}, isinstance(release, Releases)
    if not groups and release.counts is not None:
        more["counts_noise"] = release.counts_noise._asdict()
        intervals = release.intervals(CONFIDENCE).tolist()
        measures = Measures("counts", "users (noisy)", release.counts.tolist(), intervals, "d")
    before, after = [], []
    if not groups and not release.complete:
        before.append(_stopped(release, args))
    left = _left(session)
    if session is not None and left is None:
        after.append(f"What is left of budget {printable(args.budget)} could not be read.")
    elif left is not None:
        more["remaining"] = left._asdict()
        after.append(
            f"Of budget {printable(args.budget)}, {left.outcomes} outcomes and {left.calls} calls "
            "are left."
        )
    if groups:
        by_group.print_releases(release, args, more=more, after=after)
        return
    print_release(
        release, args, measures=measures, unit="user", more=more, before=before, after=after
    )
