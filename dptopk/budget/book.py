"""The budgets of a store: charges and releases as lines of its logs.

A charge is certain before anything is drawn, whatever the connection does: where the
store can't tell whether a transaction was committed, the book looks whether its lines
are there, and they are there or never will be, since their numbers are taken once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias, TypeVar

from dptopk.budget.lines import (
    Amounts,
    Replay,
    State,
    amounts_in,
    charge_id,
    digest,
    fields_of,
    key,
    line_after,
    minus,
    plus,
    renewed_id,
    sound,
    state_in,
    text_of,
)
from dptopk.budget.periods import at_cost_of
from dptopk.budget.record import decode, encode
from dptopk.budget.store import Line, Log, Store, UncertainError
from dptopk.errors import LedgerConflictError, LedgerError, UnknownBudgetError
from dptopk.release import Release
from dptopk.releases import Releases

__all__ = ["Book", "Price", "Reader", "Released"]

T = TypeVar("T")
Released: TypeAlias = Release | Releases

#: Seconds between tries of a transaction whose end is not known.
WAITS = (0.0, 0.1, 0.3, 1.0, 3.0)


class Price(NamedTuple):
    """What a call may cost.

    Attributes
    ----------
    amounts : dict of Fraction
        Of each unit of its budget.
    above : dict of Fraction
        Of each unit of the cap above it, if it has one.
    """

    amounts: Amounts
    above: Amounts


class Book:
    """Budgets by name in a store."""

    def __init__(self, store: Store):
        self._store = store
        # The last line of each log that this process has seen, to notice if one goes back.
        self._seen: dict[str, tuple[int, str]] = {}
        self._created: dict[str, dict[str, Any]] = {}
        self._replays: dict[str, Replay] = {}

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Read what has been committed."""
        seen = dict(self._seen)
        with self._store.transaction() as log:
            yield Reader(log, seen)

    def writing(
        self, names: Sequence[str], make: Callable[[Reader], tuple[T, Sequence[Line]]]
    ) -> T:
        """Append the lines that `make` returns of what it reads; return its result.

        It is run again if it is certain that nothing came of it.
        """
        tried: list[tuple[T, Sequence[Line]]] = []
        keys = sorted(map(key, names))
        for wait in (*WAITS, None):
            try:
                seen = dict(self._seen)
                with self._store.transaction(keys) as log:
                    done = next((one for one in tried if _is_in(log, one[1])), None)
                    if done is None:
                        done = make(Reader(log, seen))
                        tried.append(done)
                        for line in done[1]:
                            log.append(line)
                for line in done[1]:
                    self._see(line.name, _head_of(line))
                return done[0]
            except UncertainError:
                if wait is None:
                    raise
                time.sleep(wait)
        raise AssertionError

    def created(self, name: str) -> dict[str, Any]:
        """Return what a budget was created with."""
        if name not in self._created:
            with self.reading() as reader:
                self._created[name] = reader.created(name)
        return self._created[name]

    def state(self, name: str) -> State:
        """Return what a budget has come to."""
        with self.reading() as reader:
            return reader.state(name)

    def left(self, name: str) -> tuple[Amounts, Amounts]:
        """Return what is left of a budget, and of the cap above it: nothing, if it has none."""
        cap = self.created(name)["cap"]
        with self.reading() as reader:
            ours = reader.state(name).left
            return ours, {} if cap is None else reader.state(cap).left

    def checked(self, name: str) -> Replay:
        """Go through a budget's whole log, as far as it has not been gone through before."""
        replay = self._replays.pop(name, None) or Replay()
        with self.reading() as reader:
            reader.state(name)
            since = 0 if replay.state is None else replay.state.seq + 1
            for line in reader.log.lines(key(name), since):
                replay.follow(line)
        self._replays[name] = replay
        assert replay.state is not None
        self._see(key(name), (replay.state.seq, replay.state.hash))
        return replay

    def _see(self, name: str, head: tuple[int, str]) -> None:
        if self._seen.get(name, (-1, ""))[0] < head[0]:
            self._seen[name] = head

    def recorded(self, name: str, request_id: str, call: Mapping[str, Any]) -> Released | None:
        """Return the release of an earlier request, None if it is new."""
        with self.reading() as reader:
            return reader.recorded(name, request_id, call)

    def charge(
        self,
        name: str,
        price: Price,
        check: Callable[[Amounts, Amounts], None],
        call: Mapping[str, Any],
        *,
        request_id: str | None = None,
        paid: bool = False,
    ) -> int | Released:
        """Charge what a call may cost, or return what was released for the same request.

        `check` raises BudgetError if this is not left in the budget; the cap has a check
        of its own.
        """
        from dptopk.budget.filter_account import check as check_above

        about = self.created(name)
        cap = about["cap"]

        def make(reader: Reader) -> tuple[int | Released, list[Line]]:
            if request_id is not None:
                found = reader.recorded(name, request_id, call)
                if found is not None:
                    return found, []
            state = reader.state(name)
            check(state.left, price.amounts)
            notes = {
                "dataset": about["dataset"],
                "accounting": about["accounting"],
                "call": call,
                **({"paid": True} if paid else {}),
            }
            more: dict[str, Any] = dict(notes)
            lines: list[Line] = []
            if cap is not None:
                above = reader.state(cap)
                check_above(above.left, price.above, f"the cap {cap!r}")
                lines.append(
                    line_after(
                        cap, above, "charge", minus(above.left, price.above),
                        amounts=price.above, below=[key(name), state.seq + 1], **notes,
                    )
                )  # fmt: skip
                more |= {
                    "cap": [key(cap), above.seq + 1, above.periods],
                    "above": price.above,
                }
            line = line_after(
                name, state, "charge", minus(state.left, price.amounts),
                request_id=request_id, amounts=price.amounts, **more,
            )  # fmt: skip
            return line.seq, [line, *lines]

        return self.writing([name] if cap is None else [name, cap], make)

    def settle(self, name: str, ticket: int, taken: Price, released: Released) -> Released:
        """Record what was released, and give back what it did not cost.

        Returns it at the cost of all periods there have been.
        """
        cap = self.created(name)["cap"]

        def make(reader: Reader) -> tuple[Released, list[Line]]:
            charged = fields_of(reader.log.lines(key(name), ticket, 1)[0])
            state = reader.state(name)
            about = charged.get("request_id", charge_id(ticket))
            if len(reader.log.find(key(name), about)) > ("request_id" in charged):
                raise LedgerConflictError(
                    "a release of this charge is recorded already: its process was forked while "
                    "it was drawn"
                )
            ours = minus(amounts_in(charged["amounts"]), taken.amounts)
            if charged["periods"] != state.periods:  # what was left of an earlier one is gone
                ours = dict.fromkeys(ours, Fraction(0))
            whole = at_cost_of(released, state.periods)
            body = encode(whole)
            lines = [
                line_after(
                    name, state, "release", plus(state.left, ours), body=body, of=ticket,
                    back=ours, request_id=_request(charged),
                )
            ]  # fmt: skip
            if cap is not None:
                above = reader.state(cap)
                theirs = minus(amounts_in(charged["above"]), taken.above)
                if charged["cap"][2] != above.periods:
                    theirs = dict.fromkeys(theirs, Fraction(0))
                lines.append(
                    line_after(
                        cap, above, "release", plus(above.left, theirs), back=theirs,
                        of=charged["cap"][1], below=[key(name), lines[0].seq],
                    )
                )  # fmt: skip
            return whole, lines

        return self.writing([name] if cap is None else [name, cap], make)

    def renew(self, name: str, period: str) -> None:
        """Begin a new period, with the whole budget; the same period begins once."""

        def make(reader: Reader) -> tuple[None, list[Line]]:
            state = reader.state(name)
            if reader.log.find(key(name), renewed_id(period)):
                raise LedgerConflictError(f"{name!r} was renewed for {period!r} before")
            total = amounts_in(reader.created(name)["left"])
            return None, [line_after(name, state, "renew", total, renewed=period)]

        self.writing([name], make)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


class Reader:
    """What a transaction reads."""

    def __init__(self, log: Log, seen: Mapping[str, tuple[int, str]]):
        self.log, self._seen = log, seen

    def created(self, name: str) -> dict[str, Any]:
        """Return what a budget was created with."""
        self.state(name)
        return fields_of(self.log.lines(key(name), 0, 1)[0])

    def state(self, name: str) -> State:
        """Return what a budget has come to; refuse one that has less of a record than before."""
        line = self.log.last(key(name))
        if line is None and key(name) not in self._seen:
            raise UnknownBudgetError(
                f"there is no budget named {name!r}; Ledger.create, or dptopk ledger create, "
                "makes one"
            )
        fields = {} if line is None else fields_of(line)
        found = (-1, "") if line is None else _head_of(line)
        seen = self._seen.get(key(name), (-1, ""))
        if found[0] < seen[0] or (found[0] == seen[0] and found != seen):
            raise LedgerError(
                f"the record of {name!r} has lost what was in it before: the ledger was restored "
                "from an old copy, or is damaged"
            )
        assert line is not None
        return state_in(line, fields)

    def recorded(self, name: str, request_id: str, call: Mapping[str, Any]) -> Released | None:
        """Return the release of an earlier request, None if it is new."""
        self.state(name)
        lines = self.log.find(key(name), key(request_id))
        if not lines:
            return None
        first = fields_of(lines[0])
        with sound():
            same = first["call"] == json.loads(json.dumps(call))
        if not same:
            raise LedgerConflictError(
                f"request {request_id!r} was made before with other parameters"
            )
        if len(lines) == 1:
            raise LedgerConflictError(
                f"request {request_id!r} was charged before and no release is recorded: it is "
                "being drawn, or was lost in a crash and stays charged; it is not drawn again"
            )
        with sound("what was released is damaged in the ledger"):
            body = lines[1].body
            if fields_of(lines[1])["body"] != digest(body):  # type: ignore[arg-type]
                raise ValueError
            return decode(body)  # type: ignore[arg-type]


def _head_of(line: Line) -> tuple[int, str]:
    with sound():
        return line.seq, digest(line.text)


def _request(charged: Mapping[str, Any]) -> str | None:
    found = charged.get("request_id")
    return None if found is None else text_of(found)


def _is_in(log: Log, lines: Sequence[Line]) -> bool:
    """Return whether an earlier try came through; its lines did so together."""
    return bool(lines) and log.lines(lines[0].name, lines[0].seq, 1) == [lines[0]]
