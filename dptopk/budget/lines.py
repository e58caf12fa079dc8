"""What the lines of a ledger say, each chained to the one before by its SHA-256.

A log begins with the line that creates its budget. Every further line says what happened
and what is left after it:

- charge: these amounts went off; of a call that is about to draw, or of a mechanism that
  the caller runs (`paid`);
- release: what came of that charge, and what of it went back;
- renew: a new period began, with the whole budget.

Amounts are exact fractions by unit: outcomes and calls of a session; epsilon or rho, and
delta, of a filter.

`check` is a hash of the line without it: the last line has no other whose hash would tell of a
bit that turned, and the first one has the terms of the budget.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from dptopk.budget.store import Line
from dptopk.errors import LedgerError
from dptopk.rng import token

__all__ = [
    "Amounts",
    "Replay",
    "State",
    "amounts_in",
    "charge_id",
    "digest",
    "fields_of",
    "key",
    "line_after",
    "minus",
    "now",
    "plus",
    "renewed_id",
    "replay",
    "short_enough",
    "sound",
    "state_in",
    "text_of",
]

#: So much of each unit.
Amounts: TypeAlias = dict[str, Fraction]

VERSION = 2


class State(NamedTuple):
    """A log after one of its lines.

    Attributes
    ----------
    seq : int
        The line's number.
    hash : str
        Its SHA-256, which the next line repeats.
    left : dict of Fraction
        What is left of each unit.
    periods : int
        How many periods there have been.
    period : str or None
        The name of this one; the first has none.
    """

    seq: int
    hash: str
    left: Amounts
    periods: int
    period: str | None


#: Characters of a key: PostgreSQL has indexes of texts up to this and a little more.
LONGEST = 1000


def short_enough(what: str, text: object) -> str:
    """Return a name or an id that can be one."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a string, got {type(text).__name__}")
    if len(key(text)) > LONGEST:
        raise ValueError(f"{what} is too long: more than {LONGEST} characters, escapes included")
    return text


def key(text: str) -> str:
    """Return a name or an id as printable ASCII: stores differ in what texts they take."""
    if not isinstance(text, str):
        raise TypeError(f"a name must be a string, got {type(text).__name__}")
    return text.encode("unicode_escape").decode("ascii")


def text_of(key: str) -> str:
    """Return the name or id that has this key."""
    return key.encode("ascii").decode("unicode_escape")


def digest(text: str) -> str:
    """Return the SHA-256 of a line's text."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@cache
def _library() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dptopk")
    except PackageNotFoundError:
        return "unknown"


def now() -> str:
    """Return the time in UTC."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


def minus(left: Mapping[str, Fraction], amounts: Mapping[str, Fraction]) -> Amounts:
    """Return what is left after this."""
    return {unit: amount - amounts.get(unit, 0) for unit, amount in left.items()}


def plus(left: Mapping[str, Fraction], amounts: Mapping[str, Fraction]) -> Amounts:
    """Return what there is with this."""
    return {unit: amount + amounts.get(unit, 0) for unit, amount in left.items()}


def line_after(
    name: str,
    before: State | None,
    kind: str,
    left: Mapping[str, Fraction],
    *,
    request_id: str | None = None,
    body: str | None = None,
    at: str | None = None,
    library: str | None = None,
    renewed: str | None = None,
    **more: Any,
) -> Line:
    """Return the next line of a log."""
    periods, period = (1, None) if before is None else (before.periods, before.period)
    if renewed is not None:
        periods, period = periods + 1, renewed
    seq = 0 if before is None else before.seq + 1
    fields = {
        "version": VERSION,
        "name": key(name),
        "seq": seq,
        "previous": "" if before is None else before.hash,
        "at": at or now(),
        "library": library or _library(),
        "nonce": token(8),  # two lines are never the same
        "kind": kind,
        "left": _texts(left),
        "periods": periods,
        "period": period,
        **{name: _texts(value) if name in _AMOUNTS else value for name, value in more.items()},
    }
    if request_id is not None:
        fields["request_id"] = key(request_id)
    if body is not None:
        fields["body"] = digest(body)
    text = _text({**fields, "check": digest(_text(fields))})
    return Line(key(name), seq, _about(fields), text, body)


def _text(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def charge_id(seq: int) -> str:
    """Return what the release of a charge without a request_id is found by; no key is like it."""
    return f"\\#{seq}"


def renewed_id(period: str) -> str:
    """Return what the line that began a period is found by."""
    return f"\\#period {key(period)}"


def _about(fields: Mapping[str, Any]) -> str | None:
    if "request_id" in fields:
        request: str = fields["request_id"]
        return request
    if fields["kind"] == "renew":
        return renewed_id(fields["period"])
    return charge_id(fields["of"]) if fields["kind"] == "release" else None


_AMOUNTS = ("amounts", "above", "back")


def _texts(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    return {unit: str(Fraction(amount)) for unit, amount in amounts.items()}


def amounts_in(texts: Mapping[str, str]) -> Amounts:
    """Return amounts that were written down."""
    if not all(set(text) <= set("0123456789/-") for text in texts.values()):
        raise ValueError("an amount is a fraction of two integers")  # 1e999999999 has no end
    return {unit: Fraction(text) for unit, text in texts.items()}


@contextmanager
def sound(damaged: str = "a line of the ledger is damaged") -> Iterator[None]:
    """Say that what is read in the block is damaged, if it can't be understood."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        understood = False
    else:
        understood = True
    if not understood:
        error = LedgerError(damaged)
        try:
            raise error
        finally:
            error.__context__ = None  # which is what was raised in the block, and quotes the line


def fields_of(line: Line) -> dict[str, Any]:
    """Return what a line says; refuse one that says it is another, or is damaged."""
    with sound():
        fields: dict[str, Any] = json.loads(line.text)
        here = fields["name"] == line.name and fields["seq"] == line.seq
        about = line.request_id in (None, _about(fields))
        unchanged = fields.pop("check") == digest(_text(fields))
    if not (here and about):
        raise LedgerError("a line of the ledger is not where it was written: it is damaged")
    if not unchanged:
        raise LedgerError("a line of the ledger is damaged")
    return fields


def state_in(line: Line, fields: Mapping[str, Any]) -> State:
    """Return what a log came to by this line."""
    with sound():
        periods, period = fields["periods"], fields["period"]
        if type(periods) is not int or periods < 1 or not isinstance(period, (str, type(None))):
            raise TypeError
        return State(line.seq, digest(line.text), amounts_in(fields["left"]), periods, period)


class Replay:
    """A log that is gone through from its first line, each checked against those before."""

    def __init__(self) -> None:
        self.state: State | None = None
        self.total: Amounts = {}
        self._open: dict[int, tuple[Amounts, str | None]] = {}  # charges without a release

    def open_charges(self) -> int:
        """Return how many charges have no release."""
        return len(self._open)

    def follow(self, line: Line) -> None:
        """Check the next line."""
        wrong = f"line {line.seq} of a budget is not what those before it add up to"
        with sound(wrong):
            fields = fields_of(line)
            after = state_in(line, fields)
            right = self._left(line, fields) == after.left and min(after.left.values()) >= 0
            if line.body is not None:
                right &= fields["body"] == digest(line.body)
        if not right:
            raise LedgerError(wrong)
        self.state = after

    def _left(self, line: Line, fields: Mapping[str, Any]) -> Amounts | None:
        before, kind = self.state, fields["kind"]
        if (before is None) != (kind == "create") or (
            fields["previous"] != ("" if before is None else before.hash)
            or line.seq != (0 if before is None else before.seq + 1)
        ):
            return None
        if before is None:
            self.total = amounts_in(fields["left"])
            return self.total if (fields["periods"], fields["period"]) == (1, None) else None
        period = (before.periods, before.period)
        if kind == "renew":
            right = fields["periods"] == before.periods + 1 and bool(fields["period"])
            return self.total if right else None
        if period != (fields["periods"], fields["period"]):
            return None
        if kind == "charge":
            amounts = amounts_in(fields["amounts"])
            if min(amounts.values()) < 0:
                return None
            if not fields.get("paid"):
                self._open[line.seq] = amounts, before.period
            return minus(before.left, amounts)
        if kind != "release":
            return None
        amounts, charged_in = self._open.pop(fields["of"])
        back = amounts_in(fields["back"])
        right = all(0 <= back[unit] <= amounts.get(unit, 0) for unit in back) and (
            charged_in == before.period or not any(back.values())
        )
        return plus(before.left, back) if right else None


def replay(lines: Iterable[Line]) -> Replay:
    """Go through a whole log."""
    found = Replay()
    for line in lines:
        found.follow(line)
    return found
