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
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from dptopk._validate import nonnegative
from dptopk.budget.account import LedgerAccount, remaining_in
from dptopk.budget.audit import exported
from dptopk.budget.book import Book, Reader
from dptopk.budget.exact import Exact
from dptopk.budget.filter_account import LedgerFilterAccount, amounts_of, check_cap
from dptopk.budget.lines import (
    Amounts,
    amounts_in,
    digest,
    fields_of,
    line_after,
    short_enough,
    sound,
    text_of,
)
from dptopk.budget.lines import key as _key
from dptopk.budget.periods import over_periods
from dptopk.budget.postgres import PostgresStore, is_address
from dptopk.budget.record import decode
from dptopk.budget.sqlite import SqliteStore
from dptopk.budget.store import Line, Store
from dptopk.budget.terms import Remaining, Terms
from dptopk.budget.total import Left, Total, left_of
from dptopk.errors import LedgerConflictError, LedgerError
from dptopk.release import Cost, Release
from dptopk.releases import Releases

__all__ = ["Budget", "Entry", "Ledger"]

FLOATS = tuple(name for name, kind in Terms.__annotations__.items() if kind == "float")


class Budget(NamedTuple):
    """A budget in a ledger.

    Attributes
    ----------
    name : str
        Its name.
    terms : Terms or Total
        What its sessions, or filters, are opened with.
    remaining : Remaining or Left
        What is left; of a filter, `Left`.
    dataset : str or None
        The data set that it is for, if its owner named one.
    cap : str or None
        The budget above it, if there is one.
    periods : int
        How many periods there have been: 1 if it was never renewed.
    period : str or None
        The name of this one; the first has none.
    total : Cost
        What all periods cost together, spent or not.
    """

    name: str
    terms: Terms | Total
    remaining: Remaining | Left
    dataset: str | None
    cap: str | None
    periods: int
    period: str | None
    total: Cost


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
    paid : bool
        Whether it was for a mechanism that the caller ran (`Filter.charge`): there is no
        release.
    below : str or None
        Of a cap: the budget whose call it was, which has the release.
    settled : bool
        Whether it is known what it came to.
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
    paid: bool = False
    below: str | None = None
    settled: bool = False

    def released(self, fields: Mapping[str, Any], body: str | None) -> Entry:
        """Return the same with what was released."""
        left = dict(self.amounts)
        for unit, amount in amounts_in(fields["back"]).items():
            left[unit] -= amount
        return self._replace(
            outcomes=int(left.get("outcomes", 0)),
            amounts=left,
            release=None if body is None else decode(body),
            settled=True,
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
    record are chained by hashes, which `budget` checks. Damage by chance is seen sooner:
    each line has a hash of its own, and a file's pages are checked when it is opened,
    which takes a few milliseconds for 1,000 calls.

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

    def create(
        self, name: str, *, dataset: str | None = None, cap: str | None = None, **terms: Any
    ) -> None:
        """Make a budget for a `Session`.

        Parameters
        ----------
        name : str
            A new name.
        dataset : str, optional
            The data set that it is for: it stands in each line of the record.
        cap : str, optional
            The name of a filter's budget that counts in rho, from which all budgets under
            it are charged too. Each outcome costs it the rho of a step, each call the delta
            of its threshold. All that they release together then has the cap's guarantee.
        **terms
            k_star, calls, epsilon, delta, method, accounting, delta_split: as in
            `Session`. They are fixed, and so is the epsilon of a step that
            follows from them.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or out of range.
        LedgerConflictError
            If there is a budget of that name, or the cap can't be one.
        UnknownBudgetError
            If there is no such cap.
        LedgerUnavailableError
            If the file can't be written.
        """
        _check_name("name", name)
        fixed = Terms.of(**terms)
        total = {"outcomes": Fraction(fixed.k_star), "calls": Fraction(fixed.calls)}
        accounting = f"session: {fixed.method}, {fixed.accounting}"
        self._create(name, total, "session", _texts(fixed), accounting, False, dataset, cap)

    def create_filter(
        self,
        name: str,
        *,
        epsilon: float | Exact | None = None,
        rho: float | Exact | None = None,
        delta: float | Exact = 0.0,
        delta_split: float | Exact = 0.5,
        dataset: str | None = None,
        cap: str | None = None,
    ) -> None:
        """Make a budget for a `Filter`, or one that is the cap of others.

        Parameters
        ----------
        name, dataset
            As in `create`.
        epsilon, rho, delta, delta_split
            As in `Filter`. They are fixed.
        cap : str, optional
            The name of another filter's budget that counts in the same unit, from which all
            budgets under it are charged too.

        Raises
        ------
        TypeError, ValueError, LedgerConflictError, UnknownBudgetError, LedgerUnavailableError
            As in `create`.

        Examples
        --------
        >>> import dptopk as dp, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with dp.Ledger(f"{folder.name}/budgets.sqlite") as ledger:
        ...     ledger.create_filter("sales", epsilon=2.0, delta=1e-6)
        ...     for name in ("ann", "bob"):
        ...         ledger.create(name, k_star=20, calls=5, epsilon=1.0, delta=1e-7, cap="sales")
        ...     session = dp.Session.bound(ledger, "ann")
        ...     release = session.limited_domain([9000, 8000, 40], k=2)
        ...     cap = ledger.budget("sales")
        ...     cap.remaining.rho < cap.terms.rho
        True
        >>> folder.cleanup()
        """
        _check_name("name", name)
        total = Total.of(epsilon=epsilon, rho=rho, delta=delta, delta_split=delta_split)
        amounts = amounts_of(total.pure, total.amount, total.thresholds)
        accounting = f"filter: {'pure DP' if total.pure else 'zCDP'}"
        self._create(name, amounts, "filter", total.texts(), accounting, total.pure, dataset, cap)

    def _create(
        self,
        name: str,
        total: Amounts,
        what: str,
        terms: dict[str, Any],
        accounting: str,
        pure: bool,
        dataset: str | None,
        cap: str | None,
    ) -> None:
        for option, value in (("dataset", dataset), ("cap", cap)):
            if value is not None:
                _check_name(option, value)

        def make(reader: Reader) -> tuple[None, list[Line]]:
            if reader.log.last(_key(name)) is not None:
                raise LedgerConflictError(
                    f"there is a budget named {name!r} already; draw from it, or take another name"
                )
            if cap is not None:
                above = reader.created(cap)
                if above["what"] != "filter" or above["cap"] is not None:
                    raise LedgerConflictError(
                        f"{cap!r} can't be a cap: it is not the budget of a filter, or has a cap"
                    )
                check_cap(Total.of_texts(above["terms"]), pure)
            about: dict[str, Any] = {"what": what, "terms": terms, "accounting": accounting}
            line = line_after(name, None, "create", total, **about, dataset=dataset, cap=cap)
            return None, [line]

        self._book.writing([name], make)

    def renew(self, name: str, period: str) -> None:
        """Begin a new period of a budget, with the whole of it; its owner says when.

        What was left of the period before is gone, and what calls under way do not take of
        it. The costs of all periods add up: `Budget.total`, and the cost that sessions,
        filters and their further releases name, are those of all periods together. A cap
        above the budget is not renewed with it.

        Parameters
        ----------
        name : str
            A budget.
        period : str
            The name of the period, such as "2026-12": each begins once.

        Raises
        ------
        TypeError, ValueError
            If an argument is no text, or empty or too long.
        UnknownBudgetError
            If there is no such budget.
        LedgerConflictError
            If that period began before.
        LedgerUnavailableError
            If the file can't be written.
        """
        _check_name("name", name)
        _check_name("period", period)
        self._book.renew(name, period)

    def names(self) -> list[str]:
        """Return the names of all budgets, in order."""
        with self._book.reading() as reader, sound():
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
        about, terms = self._book.created(name), self._terms(name)
        if isinstance(terms, Total):
            price, delta = (
                state.left[unit] for unit in ("epsilon" if terms.pure else "rho", "delta")
            )
            left: Remaining | Left = left_of(terms.pure, price, delta)
            cost = terms.cost("all calls under a filter")
        else:
            left, cost = remaining_in(state.left), terms.cost
        return Budget(
            name, terms, left, about["dataset"], about["cap"], state.periods, state.period,
            over_periods(cost, state.periods),
        )  # fmt: skip

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
            lines = reader.log.lines(_key(name))
        entries: dict[int, Entry] = {}
        for line in lines:
            fields = fields_of(line)
            with sound():
                if fields["kind"] == "charge":
                    entries[line.seq] = _entry(fields)
                elif fields["kind"] == "release":
                    if line.body is not None and fields["body"] != digest(line.body):
                        raise ValueError
                    entries[fields["of"]] = entries[fields["of"]].released(fields, line.body)
        return list(entries.values())

    def lost(self, name: str) -> list[Entry]:
        """Return the calls that were charged and have no release: under way, or lost.

        Which of the two a record can't tell: those of processes that are gone are lost, and
        stay charged.

        Parameters
        ----------
        name : str
            A budget.

        Returns
        -------
        list of Entry
            Without what was charged for mechanisms of others (`Filter.charge`).

        Raises
        ------
        UnknownBudgetError
            If there is none.
        """
        return [entry for entry in self.history(name) if not entry.settled]

    def export(
        self, names: Iterable[str] | None = None, *, key: bytes | None = None, bodies: bool = True
    ) -> Iterator[str]:
        """Return the record as lines of JSON, for audits; `verify_export` checks them.

        Parameters
        ----------
        names : iterable of str, optional
            Of these budgets; of all by default, caps included.
        key : bytes, optional
            Signs the export: the last line has its HMAC-SHA256.
        bodies : bool, default True
            Whether what was released is part of it. Its hash always is.

        Yields
        ------
        str
            A line of JSON, without its end.

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.
        UnknownBudgetError
            If there is no such budget.
        LedgerError
            If the record is not sound.
        """
        if isinstance(names, str):
            raise TypeError("names must be a list of names, got a string")
        wanted = self.names() if names is None else list(names)
        for name in wanted:
            self._book.checked(name)
        with self._book.reading() as reader:
            logs = [reader.log.lines(_key(name)) for name in wanted]
        yield from exported(logs, key=key, bodies=bodies)

    def account(self, name: str) -> tuple[Terms, LedgerAccount]:
        """Return what `Session.bound` needs of a budget."""
        terms, cap = self._opened(name)
        if isinstance(terms, Total):
            raise LedgerConflictError(f"{name!r} is the budget of a filter: use Filter.bound")
        return terms, LedgerAccount(self._book, name, terms, cap is not None)

    def filter_account(self, name: str) -> tuple[Total, LedgerFilterAccount]:
        """Return what `Filter.bound` needs of a budget."""
        total, cap = self._opened(name)
        if not isinstance(total, Total):
            raise LedgerConflictError(f"{name!r} is the budget of a session: use Session.bound")
        return total, LedgerFilterAccount(self._book, name, total, cap)

    def _opened(self, name: str) -> tuple[Terms | Total, Total | None]:
        """Return the terms of a budget and of the cap above it."""
        terms = self._terms(name)
        cap = self._book.created(name)["cap"]
        if cap is None:
            return terms, None
        above = self._terms(cap)
        if not isinstance(above, Total):
            raise LedgerError("the cap above a budget is no filter: the ledger is damaged")
        return terms, above

    def _terms(self, name: str) -> Terms | Total:
        about = self._book.created(name)
        with sound():
            texts = about["terms"]
            terms: Terms | Total
            if about["what"] == "filter":
                terms = Total.of_texts(texts)
                total = amounts_of(terms.pure, terms.amount, terms.thresholds)
            else:
                terms = Terms(**texts | {field: float.fromhex(texts[field]) for field in FLOATS})
                total = {"outcomes": Fraction(terms.k_star), "calls": Fraction(terms.calls)}
            if total != amounts_in(about["left"]):
                raise ValueError
            return terms

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


def _check_name(what: str, text: object) -> None:
    if not short_enough(what, text):
        raise ValueError(f"{what} must not be empty")


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
        bool(fields.get("paid")),
        text_of(fields["below"][0]) if "below" in fields else None,
        bool(fields.get("paid")),
    )
