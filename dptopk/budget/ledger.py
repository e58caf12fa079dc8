"""Budgets that last: charged on disk before anything is drawn.

A ledger keeps a log of each budget (`dptopk.budget.lines`) in a store: an SQLite file, or
another (`dptopk.budget.store`). A call takes two transactions, each synced to disk before
it is reported done:

1. reserve: what the call may cost at most goes off the balance;
2. settle: what came back is written down with its price, and the rest of the
   reservation returns to the balance.

A crash between them leaves the whole reservation charged and nothing released.
Nothing comes back from a session before its transaction 2 is on disk.

The record is append-only and chained by hashes. It holds what was released and what it
cost, and nothing else of the data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from dptopk._validate import nonnegative
from dptopk.budget.account import LedgerAccount, remaining_in
from dptopk.budget.book import Book, Reader
from dptopk.budget.lines import amounts_in, fields_of, key, line_after, short_enough, text_of
from dptopk.budget.postgres import PostgresStore, is_address
from dptopk.budget.record import decode
from dptopk.budget.sqlite import SqliteStore
from dptopk.budget.store import Line, Store
from dptopk.budget.terms import Remaining, Terms
from dptopk.errors import LedgerConflictError
from dptopk.release import Release
from dptopk.releases import Releases

__all__ = ["Budget", "Entry", "Ledger"]

FLOATS = tuple(name for name, kind in Terms.__annotations__.items() if kind == "float")


class Budget(NamedTuple):
    """A budget in a ledger.

    Attributes
    ----------
    name : str
        Its name.
    terms : Terms
        What its sessions are opened with.
    remaining : Remaining
        What is left.
    """

    name: str
    terms: Terms
    remaining: Remaining


class Entry(NamedTuple):
    """A call in the record of a budget.

    Attributes
    ----------
    at : str
        When it was charged, UTC.
    request_id : str or None
        The id of the request.
    call : dict
        What was asked.
    outcomes : int
        What it was charged: of a call without a release, what it might have cost.
    calls : int
        How many calls it was charged.
    release : Release, Releases or None
        What was released; None if it is being drawn or was lost.
    amounts : dict of Fraction
        What it was charged, by unit, exactly.
    dataset : str or None
        The data set that the budget is for, if its owner named one.
    library : str
        The version of dptopk that charged it.
    """

    at: str
    request_id: str | None
    call: dict[str, Any]
    outcomes: int
    calls: int
    release: Release | Releases | None
    amounts: dict[str, Fraction] = {}  # noqa: RUF012
    dataset: str | None = None
    library: str = ""

    def released(self, fields: Mapping[str, Any], body: str | None) -> Entry:
        """Return the same with what was released."""
        left = dict(self.amounts)
        for unit, amount in amounts_in(fields["back"]).items():
            left[unit] -= amount
        return self._replace(
            outcomes=int(left.get("outcomes", 0)),
            amounts=left,
            release=None if body is None else decode(body),
        )


class Ledger:
    """Budgets by name, in a file or a database, that survive crashes and are safe to share.

    Parameters
    ----------
    path : str, path or Store
        ``postgresql://...``: a PostgreSQL server, for budgets that many machines share
        (``pip install 'dptopk[postgres]'``). A `dptopk.budget.store.Store` is taken
        as it is. Else a file; it is made if it does not exist. It needs a local file
        system, as SQLite's locks do, and a directory that can be written. It
        must go by one name: no hard links, and no mount of the file alone.
    timeout : float, default 30
        Seconds to wait for other writers, or for a server.
    schema : str, default "dptopk"
        Of a server: where the record is. It is made if it does not exist; two schemas are
        two ledgers.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.
    LedgerUnavailableError
        If the file can't be opened or made, or the server can't be reached.
    LedgerError
        If it is damaged, or no ledger of this version.

    Notes
    -----
    Any number of threads and processes may use a ledger, also after a fork
    (``os.fork`` waits until no transaction of the process is running).
    Every charge is on disk before anything is drawn (synchronous=FULL), and every
    release before it is returned. Called by a signal handler in the middle of a
    transaction of the same thread, a ledger raises LedgerUnavailableError.

    A request that is repeated with the same ``request_id`` is neither drawn
    nor paid again: it gets the recorded release or, if there is none (a crash,
    or another caller still at it), a LedgerConflictError that says that it was charged.

    The record is for whoever may see all releases: it holds their labels and
    noisy counts. Who can write the file can spend or forge any budget in it. So
    a new file can be read and written by its owner alone (mode 0600). Lines of the
    record are chained by hashes, which `budget` checks.

    A file of version 0.1 is taken over when it is opened, once nobody else has it open;
    version 0.1 can't open it any more.

    Examples
    --------
    >>> import dptopk as dp, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with dp.Ledger(f"{folder.name}/budgets.sqlite") as ledger:
    ...     ledger.create("ann, sales", k_star=20, calls=5, epsilon=1.0, delta=1e-6)
    ...     session = dp.Session.bound(ledger, "ann, sales")
    ...     h = dp.Histogram([9000, 8000, 40], labels=["ant", "bee", "cat"])
    ...     release = session.limited_domain(h, k=2, request_id="monday")
    ...     again = session.limited_domain(h, k=2, request_id="monday")
    ...     again == release, ledger.budget("ann, sales").remaining
    (True, Remaining(outcomes=18, calls=4))
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Store,
        *,
        timeout: float = 30.0,
        schema: str = "dptopk",
    ):
        self._store = _opened(path, nonnegative("timeout", timeout), schema)
        self._book = Book(self._store)

    def create(self, name: str, **terms: Any) -> None:
        """Make a budget.

        Parameters
        ----------
        name : str
            A new name.
        **terms
            k_star, calls, epsilon, delta, method, accounting, delta_split: as in
            `Session`. They are fixed, and so is the epsilon of a step that
            follows from them.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or out of range.
        LedgerConflictError
            If there is a budget of that name.
        LedgerUnavailableError
            If the file can't be written.
        """
        if not short_enough("name", name):
            raise ValueError("name must not be empty")
        fixed = Terms.of(**terms)
        total = {"outcomes": Fraction(fixed.k_star), "calls": Fraction(fixed.calls)}
        about: dict[str, Any] = {
            "what": "session",
            "terms": _texts(fixed),
            "accounting": f"session: {fixed.method}, {fixed.accounting}",
            "dataset": None,
            "cap": None,
        }

        def make(reader: Reader) -> tuple[None, list[Line]]:
            if reader.log.last(key(name)) is not None:
                raise LedgerConflictError(f"there is a budget named {name!r} already")
            return None, [line_after(name, None, "create", total, **about)]

        self._book.writing([name], make)

    def names(self) -> list[str]:
        """Return the names of all budgets, in order."""
        with self._book.reading() as reader:
            return sorted(map(text_of, reader.log.names()))

    def budget(self, name: str) -> Budget:
        """Return a budget: its terms and what is left.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        Budget

        Raises
        ------
        UnknownBudgetError
            If there is none.
        LedgerError
            If its balance is not what the record adds up to, or the record is not the
            chain that it was.
        """
        state = self._book.checked(name).state
        assert state is not None
        return Budget(name, self._terms(name), remaining_in(state.left))

    def history(self, name: str) -> list[Entry]:
        """Return the record of a budget, oldest first.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        list of Entry

        Raises
        ------
        UnknownBudgetError
            If there is none.
        """
        with self._book.reading() as reader:
            reader.state(name)
            lines = reader.log.lines(key(name))
        entries: dict[int, Entry] = {}
        for line in lines:
            fields = fields_of(line)
            if fields["kind"] == "charge":
                entries[line.seq] = _entry(fields)
            elif fields["kind"] == "release":
                entries[fields["of"]] = entries[fields["of"]].released(fields, line.body)
        return list(entries.values())

    def account(self, name: str) -> tuple[Terms, LedgerAccount]:
        """Return what `Session.bound` needs of a budget."""
        return self._terms(name), LedgerAccount(self._book, name)

    def _terms(self, name: str) -> Terms:
        texts = self._book.created(name)["terms"]
        return Terms(**texts | {field: float.fromhex(texts[field]) for field in FLOATS})

    def close(self) -> None:
        """Close the file; sessions bound to it can't spend any more."""
        self._book.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self._store!r})"


def _opened(path: Any, timeout: float, schema: str) -> Store:
    if is_address(path):
        return PostgresStore(path, schema, timeout)
    if isinstance(path, str) and "://" in path:
        raise ValueError("an address of a ledger begins with postgresql://")
    if schema != "dptopk":
        raise ValueError("schema is for an address of PostgreSQL")
    if hasattr(path, "transaction"):
        store: Store = path
        return store
    return SqliteStore(Path(os.path.abspath(os.fspath(path))), timeout)


def _texts(terms: Terms) -> dict[str, Any]:
    """Return terms as they are kept: floats as float.hex() writes them."""
    values = {field: getattr(terms, field) for field in Terms.__dataclass_fields__}
    return values | {field: values[field].hex() for field in FLOATS}


def _entry(fields: Mapping[str, Any]) -> Entry:
    amounts = amounts_in(fields["amounts"])
    return Entry(
        fields["at"],
        None if fields.get("request_id") is None else text_of(fields["request_id"]),
        fields["call"],
        int(amounts.get("outcomes", 0)),
        int(amounts.get("calls", 0)),
        None,
        amounts,
        fields.get("dataset"),
        fields["library"],
    )
