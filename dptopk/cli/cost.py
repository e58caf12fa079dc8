"""``dptopk cost``: what a budget buys, by every composition method."""

from __future__ import annotations

import argparse
import math
from typing import Any

from dptopk._types import Method
from dptopk.cli.printing import print_json, refusing, tables, version


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    cost = commands.add_parser(
        "cost",
        allow_abbrev=False,
        help="what a budget buys, by every method",
        description="Per-step epsilon that a total affords, or the total that steps cost. "
        "peel and limited_domain take k steps (k + 1 with --k-bar private).",
    )
    cost.set_defaults(run=_run)
    budget = cost.add_mutually_exclusive_group(required=True)
    budget.add_argument("--epsilon", type=float, help="the total budget")
    budget.add_argument("--epsilon-step", type=float, help="the budget of one step")
    cost.add_argument("-k", "--k", "--steps", dest="steps", type=int, required=True)
    cost.add_argument("--delta", type=float, default=0.0)
    cost.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def _run(args: argparse.Namespace) -> int:
    from dptopk import accounting

    given = args.epsilon if args.epsilon is not None else args.epsilon_step
    solve = accounting.step_epsilon if args.epsilon is not None else accounting.total_epsilon
    answers: dict[Method, float | None] = {}
    with refusing():
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
        print_json({**question, "answer": unknown, "methods": answers, "version": version()})
        return 0
    console, table = tables()
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
