"""Pay-what-you-get: many top-k queries out of one budget, each paid by what came back.

`Session` is Algorithm 2 of Durfee and Rogers 2019, with the epsilon of a step
fixed from the total; `dptopk.budget.terms` has its guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from dptopk._types import Method
from dptopk.accounting.compositions import basic
from dptopk.budget.account import Account, ProcessAccount, check
from dptopk.budget.batch import SESSION_CALLS, Batch, SessionQuote, run_all
from dptopk.budget.calls import Calls, call_of, largest_k, steps_in
from dptopk.budget.lines import short_enough
from dptopk.budget.periods import over_periods
from dptopk.budget.terms import ACCOUNTINGS, Remaining, Spent, Terms
from dptopk.errors import BudgetError
from dptopk.histogram import Counts, Histograms
from dptopk.mechanisms._plan import Steps
from dptopk.mechanisms.table import refused_by_session
from dptopk.release import Cost
from dptopk.rng import Rng, check_rng
from dptopk.rounding import up

__all__ = ["Session"]


class Session(Calls):
    """Many top-k queries, adaptively chosen, out of one (epsilon, delta).

    A call is charged the number of outcomes that came back, BOT included,
    whatever k it was asked for. What it may cost at most is charged before
    anything is drawn; the rest is given back with the release. A call that
    fails in between keeps the whole charge.

    Parameters
    ----------
    k_star : int
        Outcomes of all calls together, BOT included.
    calls : int
        Calls of limited_domain, those that return BOT alone included.
    epsilon, delta : float
        The total of the session, delta > 0.
    rho : float
        In place of `epsilon`: the total of all steps in zero-concentrated DP. The
        thresholds' part of `delta` comes on top of it; at the rest epsilon
        follows from it.
    method : str, default "adaptive"
        How the k_star steps are composed; see `dptopk.accounting.total_epsilon`.
        With `rho` it is "zcdp".
    accounting : {"tight", "printed"}
        The share of a threshold in delta: once a call, or twice, as Theorem 2
        is printed.
    delta_split : float, default 0.5
        Part of delta, in (0, 1], that goes to the thresholds of the calls, in
        equal parts; the rest goes to the composition of the steps. With 1 the
        steps add up plainly.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    See Also
    --------
    bound : a session whose budget is kept in a `Ledger`.
    dptopk.Filter : for an epsilon that varies from call to call.

    Notes
    -----
    **Guarantee**: all releases of a session together are (epsilon, delta)-DP
    when one user is added or removed, whichever histograms and parameters the
    analyst chooses in view of earlier releases, and whenever they stop
    (Theorem 2; docs/proofs/session.md proves "tight"). The
    histograms may be different ones: the user is then added to or removed from
    all of them, and touches each item of each once at most.

    The epsilon of a step is fixed for the whole session. Threads may share a
    session; processes share a budget by a `Ledger`.

    Examples
    --------
    >>> import dptopk as dp
    >>> session = dp.Session(k_star=20, calls=5, epsilon=1.0, delta=1e-6)
    >>> by_day = dp.Histogram([9000, 8000, 40, 3], labels=["ant", "bee", "cat", "dog"])
    >>> release = session.limited_domain(by_day, k=3, k_bar=3)
    >>> release.labels, release.complete
    (('ant', 'bee'), False)
    >>> session.remaining  # two items and BOT are paid
    Remaining(outcomes=17, calls=4)
    >>> session.cost.epsilon, session.cost.delta
    (1.0, 1e-06)
    """

    def __init__(
        self,
        *,
        k_star: int,
        calls: int,
        delta: float,
        epsilon: float | None = None,
        rho: float | None = None,
        method: Method = "adaptive",
        accounting: Literal["tight", "printed"] = "tight",
        delta_split: float = 0.5,
    ):
        terms = Terms.of(
            k_star=k_star,
            calls=calls,
            epsilon=epsilon,
            rho=rho,
            delta=delta,
            method=method,
            accounting=accounting,
            delta_split=delta_split,
        )
        self._open(terms, ProcessAccount(terms))

    def _open(self, terms: Terms, account: Account) -> Session:
        self._terms = terms
        self._account = account
        self._cost_of_call = terms.cost_of_call
        return self

    @classmethod
    def bound(cls, ledger: Any, name: str) -> Session:
        """Open the session of a budget in a ledger; its parameters come from there.

        Parameters
        ----------
        ledger : Ledger
            Where the budget is kept.
        name : str
            Its name.

        Returns
        -------
        Session
            What it spends is spent for all sessions of that budget, in any
            thread, process or run.

        Raises
        ------
        UnknownBudgetError
            If there is no such budget.
        LedgerUnavailableError
            If the file can't be read.
        """
        terms, account = ledger.account(name)
        return cls.__new__(cls)._open(terms, account)

    def check(
        self, mechanism: str, counts: Counts, *, request_id: str | None = None, **options: Any
    ) -> None:
        """Raise what a call would raise before its charge, and charge nothing.

        Parameters
        ----------
        mechanism : str
            The name of a call of the session.
        counts, **options
            Its arguments but rng.
        request_id : str, optional
            Of a call that may have been paid before: it need not be affordable.
        """
        call = call_of(mechanism, **options)
        steps = self._steps(call, counts)
        if request_id is None:
            check(self._account.affords(), steps.most, steps.thresholds)

    def price(self, calls: Iterable[tuple[str, Any, Mapping[str, Any]]]) -> Batch:
        """Return what a batch of planned calls may cost at most; nothing is charged or drawn.

        Parameters
        ----------
        calls : iterable of (mechanism, counts, options)
            Each a call of this session, by its name.

        Returns
        -------
        Batch
            The outcomes and calls of all together, and whether so much is left.

        Raises
        ------
        TypeError, ValueError
            What a call would raise before its charge.

        Examples
        --------
        >>> import dptopk as dp
        >>> session = dp.Session(k_star=20, calls=5, epsilon=1.0, delta=1e-6)
        >>> counts = [9000, 8000, 40, 3]
        >>> planned = [("limited_domain", counts, {"k": k}) for k in (1, 2, 4)]
        >>> session.price([*planned, ("joint", counts, {"k": 3})])
        Batch(amounts={'outcomes': Fraction(8, 1), 'calls': Fraction(3, 1)}, fits=True)
        """
        quote = SessionQuote(self._account)
        twin = self.__class__.__new__(self.__class__)
        twin.__dict__.update(self.__dict__, _account=quote)
        run_all(twin, calls, SESSION_CALLS)
        asked, left = quote.asked, self._account.affords()
        amounts = {name: Fraction(amount) for name, amount in asked._asdict().items()}
        return Batch(amounts, asked.outcomes <= left.outcomes and asked.calls <= left.calls)

    def _steps(self, call: dict[str, Any], counts: Counts) -> Steps:
        """Check a call; of "rest" take as much as is left, at least 1."""
        if call.get("k") == "rest":
            groups = counts.max_groups_per_user if isinstance(counts, Histograms) else 1
            left = self._account.affords().outcomes // groups  # in each group of a user
            k = max(1, int(min(left, largest_k(call, counts))))
            steps = steps_in({**call, "k": k}, counts)
            more = steps.most // groups - left  # steps that are no outcomes
            if more > 0 and k > 1:
                steps = steps_in({**call, "k": max(1, k - more)}, counts)
        else:
            steps = steps_in(call, counts)
        if steps.histogram is not None:
            self._account.check_labels(steps.histogram)
        return steps

    def _run(
        self, call: dict[str, Any], counts: Counts, rng: Rng | None, request_id: str | None
    ) -> Any:
        """Check, charge, draw, settle: in this order."""
        account, terms = self._account, self._terms
        if request_id is not None:
            recorded = account.recorded(short_enough("request_id", request_id), call)
            if recorded is not None:
                return recorded
        check_rng(rng)
        refused = None  # how many steps were, of "rest"
        while True:
            steps = self._steps(call, counts)
            plan = steps.at(terms.epsilon_step, terms.delta_threshold, self._cost_of_call)
            try:
                ticket = account.reserve(steps.most, steps.thresholds, request_id, call)
                break
            except BudgetError:
                left, least = account.affords(), steps_in({**call, "k": 1}, counts)
                if call.get("k") != "rest" or steps.most == refused:
                    raise
                if least.most > left.outcomes or least.thresholds > left.calls:
                    raise
                refused = steps.most
                # Another call took some of it in between: what is the rest now?
        if not isinstance(ticket, int):
            return ticket
        released = plan.draw(rng)
        return account.settle(ticket, steps.taken(released), steps.thresholds, released)

    @property
    def remaining(self) -> Remaining:
        """Outcomes and calls that are left; what calls under way may cost is not."""
        return self._account.remaining()

    @property
    def spent(self) -> Spent:
        """What may be quoted for the session so far.

        The guarantee of a session is `cost`, at any time and for any way to
        stop. `spent` is an odometer, not a cap: its epsilon, the smaller of
        outcomes * epsilon_step and the session's, holds after the fact, in the
        sense that the sum over all transcripts t of
        max(0, P(t) - exp(epsilon(t)) Q(t)) is at most the session's delta.
        The smaller total that a composition of just these steps would have is
        NOT valid: how many there are depends on what came out, and advanced
        composition holds for a number of steps fixed beforehand, here k_star.
        So an analyst who decides by `spent` when to stop still has the
        guarantee of `cost`, and no better one.
        """
        terms, left, periods = self._terms, self._account.remaining(), self._account.periods
        outcomes = terms.k_star - left.outcomes
        plain = basic(((terms.epsilon_step, outcomes),)) if outcomes else 0.0
        epsilon, delta = min(plain, terms.epsilon), terms.delta
        if periods > 1:  # of those before this one the whole is quoted
            before = over_periods(terms.cost, periods - 1)
            epsilon = up(Fraction(epsilon) + Fraction(before.epsilon))
            delta = over_periods(terms.cost, periods).delta
        return Spent(outcomes, terms.calls - left.calls, epsilon, delta)

    @property
    def cost(self) -> Cost:
        """The whole session, spent or not: its guarantee. Of all periods, if there are more."""
        return over_periods(self._terms.cost, self._account.periods)

    @property
    def terms(self) -> Terms:
        """What the session was opened with, and the epsilon and delta of its steps."""
        return self._terms

    def to_dict(self) -> dict[str, Any]:
        """Return the terms, what is left and what is spent, as plain numbers and strings."""
        return {
            **self._terms.__dict__,
            "remaining": self.remaining._asdict(),
            "spent": self.spent._asdict(),
            "theorem": self.cost.theorem,
        }

    def to_dp_event(self) -> tuple[Any, float]:
        """Return the whole session for Google's dp-accounting.

        Returns
        -------
        event : dp_accounting.ZCDpEvent
            The k_star steps of the session, spent or not: each is
            epsilon_step^2/8-zCDP, and they may be chosen adaptively. For the
            Rényi accountant; that of privacy loss distributions refuses it.
        delta : float
            Of the thresholds of all calls; it comes on top of the delta that the
            accountant is asked for.

        Raises
        ------
        ImportError
            If dp-accounting is not installed (``pip install 'dptopk[interop]'``).

        Notes
        -----
        The `cost` of a session is a better bound of it alone. Compose it once,
        whatever the session has spent, and not its releases.
        """
        try:
            from dp_accounting import ZCDpEvent
        except ImportError:
            raise ImportError(
                "to_dp_event needs dp-accounting: pip install 'dptopk[interop]'"
            ) from None
        terms = self._terms
        times = self._account.periods
        rho = times * Fraction(terms.epsilon_step) ** 2 * terms.k_star / 8
        each = Fraction(terms.delta_threshold) * terms.calls * ACCOUNTINGS[terms.accounting]
        thresholds = times * each
        return ZCDpEvent(up(rho)), up(thresholds)

    if not TYPE_CHECKING:  # a misspelt call is an error of the type checker

        def __getattr__(self, name: str) -> Any:
            reason = refused_by_session(name)
            if reason:
                raise AttributeError(f"{name} can't be called through a session: {reason}")
            raise AttributeError(f"'Session' object has no attribute {name!r}")

    def __repr__(self) -> str:
        terms, left = self._terms, self.remaining
        return (
            f"<Session: {left.outcomes} of {terms.k_star} outcomes and {left.calls} of "
            f"{terms.calls} calls left; epsilon={terms.epsilon:g}, delta={terms.delta:g}>"
        )

    def __reduce__(self) -> Any:
        raise TypeError("a session can't be pickled or copied: its budget would be spent twice")
