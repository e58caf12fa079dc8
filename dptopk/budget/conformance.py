"""Whether a store keeps to the contract of `dptopk.budget.store`: for whoever writes one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dptopk.budget.store import Line, Store, UncertainError
from dptopk.errors import LedgerError, LedgerUnavailableError

__all__ = ["check_store"]


class _Undone(LedgerError):
    """What ends a block whose lines must not stay."""


def check_store(opened: Callable[[], Store]) -> None:
    """Raise AssertionError, which says what is wrong, if a store breaks the contract.

    It can't tell what happens when a process is killed, or the power fails.

    Parameters
    ----------
    opened : function
        Opens the same place, empty at first, each time it is called.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dptopk.budget.conformance import check_store
    >>> from dptopk.budget.sqlite import SqliteStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_store(lambda: SqliteStore(Path(folder, "budgets.sqlite"), 30.0))
    """
    first, second = opened(), opened()
    try:
        _check_reading(first, second)
        _check_undoing(first, second)
        _check_texts(first, second)
        _check_turns([first, second, first, second])
    finally:
        first.close()
        second.close()
    try:
        with first.transaction():
            pass
    except LedgerUnavailableError:
        pass
    else:
        raise AssertionError("a store that is closed runs transactions")
    third = opened()
    with third.transaction() as log:
        _is(log.lines("a", 0, 2), _LINES[:2], "lines are gone when the store is opened again")
    third.close()


_LINES = [Line("a", seq, f"r{seq % 2}", f"text {seq}", "body" * seq or None) for seq in range(3)]


def _is(found: object, wanted: object, otherwise: str) -> None:
    if found != wanted:
        raise AssertionError(otherwise)


def _check_reading(first: Store, second: Store) -> None:
    with second.transaction() as log:
        nothing = (log.names(), log.last("a"), log.lines("a"), log.find("a", "r0"))
        _is(nothing, ([], None, [], []), "a new store is not empty")
    with first.transaction(["a"]) as log:
        for line in _LINES:
            log.append(line)
        _is(log.last("a"), _LINES[2], "a transaction does not see what it appended")
    with first.transaction(["B", "a b"]) as log:
        log.append(Line("a b", 0, None, "x", None))
        log.append(Line("B", 0, None, "y", None))
    for store in (first, second):
        with store.transaction() as log:
            _is(log.names(), ["B", "a", "a b"], "names are not all there, in their order")
            _is(log.last("a"), _LINES[2], "last is not the line of the largest number")
            _is(log.lines("a"), _LINES, "lines are not what was appended")
            _is(log.lines("a", 1), _LINES[1:], "lines do not begin at the number asked for")
            _is(log.lines("a", 1, 1), _LINES[1:2], "lines are more than were asked for")
            _is(log.find("a", "r0"), _LINES[::2], "find does not find the lines of a request")
            _is(log.find("B", "r0"), [], "find finds lines of another log")


def _check_undoing(first: Store, second: Store) -> None:
    try:
        with first.transaction(["a"]) as log:
            log.append(_LINES[0]._replace(seq=3))
            raise _Undone
    except _Undone:
        pass
    else:
        raise AssertionError("an error in a transaction is not passed on")
    with second.transaction() as log:
        _is(log.last("a"), _LINES[2], "what ended by an error stays")
    try:
        with first.transaction(["a", "c"]) as log:
            log.append(Line("c", 0, None, "z", None))
            log.append(_LINES[2]._replace(text="another"))
    except UncertainError:
        pass
    else:
        raise AssertionError("a number can be taken twice")
    with second.transaction() as log:
        _is(log.lines("a"), _LINES, "a line that is there was changed")
        _is(log.last("c"), None, "a part of a transaction stays")


def _check_texts(first: Store, second: Store) -> None:
    names = [
        "t",
        "T",
        "t ",
        " t",
        "t\\x00",
        "t\\u00e9",
        "t'",
        't"',
        "t%",
        "t%s",
        "t?",
        "",
        "t" * 900,
    ]
    for name in names:
        line = Line(name, 0, name, f'{{"{name}"}}', "b" * (300_000 if name == "t" else 30))
        with first.transaction([name]) as log:
            _is(log.last(name), None, "two names are taken for one")
            log.append(line)
        with second.transaction() as log:
            _is(log.find(name, name), [line], "a text does not come back as it was")


def _check_turns(stores: list[Store], turns: int = 10) -> None:
    wrong: list[BaseException] = []

    def work(store: Store) -> None:
        done = 0
        while done < turns:
            try:
                with store.transaction(["m", "n"]) as log:
                    for name in ("m", "n"):
                        last = log.last(name)
                        seq = 0 if last is None else last.seq + 1
                        log.append(Line(name, seq, None, f"{seq}", None))
                done += 1
            except UncertainError:
                continue
            except BaseException as error:
                wrong.append(error)
                return

    threads = [threading.Thread(target=work, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise AssertionError(f"a transaction failed among others: {type(wrong[0]).__name__}")
    with stores[0].transaction() as log:
        for name in ("m", "n"):
            seqs = [line.seq for line in log.lines(name)]
            _is(seqs, list(range(turns * len(stores))), "transactions do not take turns")
