"""Files of version 0.1, whose record was in three tables and not chained: their upgrade.

The tables stay, under other names: a process that still runs version 0.1 finds none of
them, and can charge nothing any more.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from dptopk.budget.lines import State, line_after, minus, plus, state_in
from dptopk.budget.store import Line
from dptopk.errors import LedgerError

__all__ = ["upgraded"]

_TERMS = (
    "k_star", "calls", "epsilon", "delta", "method", "accounting", "delta_split",
    "epsilon_step", "delta_threshold", "delta_composition",
)  # fmt: skip
_TABLES = ("budgets", "balances", "reservations", "releases")
_LIBRARY = "0.1"


def upgraded(db: sqlite3.Connection, path: Path) -> list[Line]:
    """Return the lines of a file of version 0.1, and put its tables aside."""
    lines: list[Line] = []
    names = [name for (name,) in db.execute("SELECT name FROM budgets ORDER BY name")]
    for name in names:
        found = _lines(db, name)
        left = db.execute("SELECT outcomes, calls FROM balances WHERE name = ?", (name,)).fetchone()
        state = _state(found[-1])
        if left is None or (state.left["outcomes"], state.left["calls"]) != left:
            raise LedgerError(
                f"{path} is of version 0.1, and its balance of {name!r} is not what its record "
                "adds up to"
            )
        lines += found
    for table in _TABLES:
        for (trigger,) in db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", (table,)
        ).fetchall():
            db.execute(f"DROP TRIGGER {trigger}")
        db.execute(f"ALTER TABLE {table} RENAME TO version_1_{table}")
    return lines


def _state(line: Line) -> State:
    return state_in(line, json.loads(line.text))


def _lines(db: sqlite3.Connection, name: str) -> list[Line]:
    created, *row = db.execute(
        f"SELECT created, {', '.join(_TERMS)} FROM budgets WHERE name = ?", (name,)
    ).fetchone()
    terms = dict(zip(_TERMS, row, strict=True))
    left: Any = {"outcomes": terms["k_star"], "calls": terms["calls"]}
    line = line_after(
        name, None, "create", left, at=created, library=_LIBRARY,
        what="session", terms=terms, dataset=None, cap=None,
        accounting=f"session: {terms['method']}, {terms['accounting']}",
    )  # fmt: skip
    lines, state = [line], _state(line)
    rows = db.execute(
        "SELECT reservations.at, request_id, call, reservations.outcomes, calls, "
        "releases.at, releases.outcomes, released FROM reservations "
        "LEFT JOIN releases ON reservation = id WHERE name = ? ORDER BY id",
        (name,),
    )
    # Each release follows its charge: as releases only give back, nothing falls below 0.
    for at, request, call, reserved, calls, released_at, outcomes, body in rows.fetchall():
        amounts: Any = {"outcomes": reserved, "calls": calls}
        line = line_after(
            name, state, "charge", minus(state.left, amounts), request_id=request, at=at,
            library=_LIBRARY, amounts=amounts, call=json.loads(call),
        )  # fmt: skip
        lines.append(line)
        state = _state(line)
        if body is None:
            continue
        back: Any = {"outcomes": reserved - outcomes}
        line = line_after(
            name, state, "release", plus(state.left, back), request_id=request, at=released_at,
            library=_LIBRARY, of=state.seq, back=back, body=body,
        )  # fmt: skip
        lines.append(line)
        state = _state(line)
    return lines
