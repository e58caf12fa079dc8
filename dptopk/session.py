"""Pay-what-you-get: many top-k queries out of one budget, each paid by what came back.

`Session` is Algorithm 2 of Durfee and Rogers 2019, with the epsilon of a step
fixed from the total. Its guarantee is Theorem 2, and the smaller delta of
"tight" comes from the following.

Let h and h' differ by a user who is in h', and D and D' be the items in their
top k_bar. An item that leaves D makes place for one that enters D'; pair them.
The two counts of a pair differ by 0 or 1 upwards, as do those of every other
item and of BOT: so with the pairs for items, each pick under h or h' is one
and the same step of the exponential mechanism, of bounded range, whatever was
picked before. (Where h has fewer items than k_bar, an item may enter D' with
none to leave: pair it with a missing one, which counts 0, and let that compete
under h. If h is on the right, that only makes outcomes without it less likely;
if it is on the left, the outcome changes only where the missing one comes up,
and that is charged as a pair below.)
An outcome in which no pair came up is the same event for both; so the hockey
stick of all outcomes is at most that of as many bounded-range steps, plus the
chance that a pair came up on *one* side, the left. That is at most
delta_threshold in every call, whatever came before, hence
calls * delta_threshold + delta_composition in all.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from dptopk._validate import boolean, choice, integer, positive, probability
from dptopk.accounting import METHODS, step_epsilon
from dptopk.accounting.compositions import basic
from dptopk.errors import BudgetError
from dptopk.histogram import Histogram
from dptopk.mechanisms import limited_domain, peel
from dptopk.mechanisms._calibrate import composition, scale_of
from dptopk.mechanisms.table import refused_by_session
from dptopk.release import Cost, Release
from dptopk.rng import acquire, release

__all__ = ["ACCOUNTINGS", "Remaining", "Session", "Spent", "Terms"]

THEOREM = "Durfee and Rogers 2019, Theorem 2"
#: How often the delta of the thresholds is charged a call.
ACCOUNTINGS = {"tight": 1, "printed": 2}


class Remaining(NamedTuple):
    """What a session has left.

    Attributes
    ----------
    outcomes : int
        How many outcomes, BOT included.
    calls : int
        How many calls of limited_domain.
    """

    outcomes: int
    calls: int


class Spent(NamedTuple):
    """What a session has spent, calls under way included; see `Session.spent`.

    Attributes
    ----------
    outcomes, calls : int
        Outcomes, BOT included, and calls of limited_domain.
    epsilon, delta : float
        What may be quoted for them, after the fact.
    """

    outcomes: int
    calls: int
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Terms:
    """What a session was opened with, and what follows from it for each step.

    Attributes
    ----------
    k_star, calls, epsilon, delta, method, accounting, delta_split
        As in `Session`.
    epsilon_step : float
        The epsilon of each step.
    delta_threshold : float
        The delta of the threshold of each call.
    delta_composition : float
        The delta of the composition of all steps.
    """

    k_star: int
    calls: int
    epsilon: float
    delta: float
    method: str
    accounting: str
    delta_split: float
    epsilon_step: float
    delta_threshold: float
    delta_composition: float

    @classmethod
    def of(
        cls,
        *,
        k_star: Any,
        calls: Any,
        epsilon: Any,
        delta: Any,
        method: Any = "adaptive",
        accounting: Any = "tight",
        delta_split: Any = 0.5,
    ) -> Terms:
        """Check the arguments of a session and fix its step."""
        return _terms(
            integer("k_star", k_star),
            integer("calls", calls),
            positive("epsilon", epsilon),
            probability("delta", delta, zero=False),
            choice("method", method, METHODS),
            choice("accounting", accounting, ACCOUNTINGS),
            _share(delta_split),
        )

    @property
    def cost(self) -> Cost:
        """The whole session."""
        return Cost(self.epsilon, self.delta, f"a whole session: {self._theorem}")

    @property
    def cost_of_call(self) -> Cost:
        """A call: the whole session again, as it is paid once for all calls."""
        text = f"charged to a session, whose calls cost this all together: {self._theorem}"
        return Cost(self.epsilon, self.delta, text)

    @property
    def _theorem(self) -> str:
        steps = composition(self.method, self.epsilon_step, self.k_star, self.delta_composition)
        how = "" if self.accounting == "printed" else ", its delta charged on one side"
        return f"{THEOREM}{how}; {steps}"


def _share(value: Any) -> float:
    share = positive("delta_split", value)
    if share > 1.0:
        raise ValueError(f"delta_split must be in (0, 1], got {value}")
    return share


@lru_cache(maxsize=1024)
def _terms(
    k_star: int,
    calls: int,
    epsilon: float,
    delta: float,
    method: str,
    accounting: str,
    delta_split: float,
) -> Terms:
    whole = Fraction(delta)
    thresholds = whole * Fraction(delta_split)
    each = _down(thresholds / (calls * ACCOUNTINGS[accounting]))
    if each == 0.0:
        raise ValueError(f"delta is too small to share among {calls} calls, got {delta}")
    rest = _down(whole - thresholds)
    step = step_epsilon(epsilon, k_star, rest, method)
    scale_of(step)  # refuses an epsilon too small for any noise
    return Terms(
        k_star, calls, epsilon, delta, method, accounting, delta_split, step, each, rest
    )  # fmt: skip


def _down(value: Fraction) -> float:
    """Return the double at or next below a fraction >= 0."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0.0)


def _up(value: Fraction) -> float:
    """Return the double at or next above a fraction >= 0."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


class Account(Protocol):
    """Where a session's budget is kept: in the process, or in a `Ledger`."""

    def remaining(self) -> Remaining:
        """Return what is left, less what calls under way have reserved."""

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> Release | None:
        """Return the release of an earlier request, if this is one."""

    check_labels: Callable[[Histogram], None] | None  #: refuses labels that can't be recorded

    def reserve(
        self, outcomes: int, calls: int, request_id: str | None, call: Mapping[str, Any]
    ) -> int | Release:
        """Charge, or raise BudgetError; a Release if the request has been answered before."""

    def settle(self, ticket: int, outcomes: int, calls: int, released: Release) -> None:
        """Keep as much of the charge as `outcomes`, and record what it was for."""


class InProcess:
    """A budget that ends with its process."""

    def __init__(self, terms: Terms):
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._outcomes, self._calls = terms.k_star, terms.calls
        self._reserved: dict[int, int] = {}
        self._tickets = 0

    def remaining(self) -> Remaining:
        """Return what is left, nothing after a fork."""
        if os.getpid() != self._pid:
            return Remaining(0, 0)
        with self._lock:
            return Remaining(self._outcomes, self._calls)

    def recorded(self, request_id: str, call: Mapping[str, Any]) -> Release | None:
        """Refuse: nothing is recorded here."""
        raise ValueError("request_id needs a session that is bound to a Ledger")

    check_labels: Callable[[Histogram], None] | None = None  # nothing is recorded here

    def reserve(
        self, outcomes: int, calls: int, request_id: str | None, call: Mapping[str, Any]
    ) -> int:
        """Charge."""
        if os.getpid() != self._pid:
            raise BudgetError(
                "this session was opened before a fork: each process would spend the whole of it; "
                "bind sessions to a Ledger to share a budget among processes"
            )
        with self._lock:
            check(Remaining(self._outcomes, self._calls), outcomes, calls)
            self._outcomes -= outcomes
            self._calls -= calls
            self._tickets += 1
            self._reserved[self._tickets] = outcomes
            return self._tickets

    def settle(self, ticket: int, outcomes: int, calls: int, released: Release) -> None:
        """Give back what was reserved and did not come."""
        with self._lock:
            self._outcomes += self._reserved.pop(ticket) - outcomes


def check(left: Remaining, outcomes: int, calls: int) -> None:
    """Raise BudgetError if this much is not left."""
    if calls > left.calls:
        raise BudgetError("no call is left in this session")
    if outcomes > left.outcomes:
        raise BudgetError(
            f"the call may cost {outcomes} outcomes, and {left.outcomes} are left in this session"
        )


class Session:
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
    method : str, default "adaptive"
        How the k_star steps are composed; see `dptopk.accounting.total_epsilon`.
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
    (Theorem 2; the proof of "tight" is in this module's documentation). The
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
        epsilon: float,
        delta: float,
        method: str = "adaptive",
        accounting: str = "tight",
        delta_split: float = 0.5,
    ):
        terms = Terms.of(
            k_star=k_star,
            calls=calls,
            epsilon=epsilon,
            delta=delta,
            method=method,
            accounting=accounting,
            delta_split=delta_split,
        )
        self._open(terms, InProcess(terms))

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

    def limited_domain(
        self,
        counts: Any,
        *,
        k: int | str,
        k_bar: int | str | None = None,
        max_items_per_user: int | None = None,
        rng: Any = None,
        request_id: str | None = None,
    ) -> Release:
        """Pick up to k of the k_bar most frequent items, and pay for what comes back.

        Parameters
        ----------
        counts : Histogram or array of integers, shape (d,)
            Users per item, of a known or an unknown domain.
        k : int or "rest"
            How many items at most; "rest": as many as the session can still
            pay, but not past k_bar or where the histogram was truncated.
        k_bar, max_items_per_user, rng
            As in `dptopk.limited_domain`. ``k_bar="private"`` costs one
            outcome more, whatever comes back.
        request_id : str, optional
            For a session bound to a ledger: a request that has been made
            before is neither drawn nor paid again; the recorded release comes
            back. The counts are not compared, which would tell whether they
            have changed: an id stands for one request of one histogram.

        Returns
        -------
        Release
            ``release.outcomes`` is what it was charged. Its cost is that of
            the whole session, which holds for all releases of the session
            together and is not to be added up.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or out of range, or the labels
            are of a type that a ledger can't record; nothing is charged. Except
            that where labels read off the data are of several types, one that
            can't be recorded is an error only when it is picked, and the charge
            stays.
        BudgetError
            If no call is left, or fewer outcomes than the call might cost;
            nothing is charged or drawn.
        LedgerConflictError
            If `request_id` was used before with other parameters, or was charged
            and has no release.
        LedgerUnavailableError
            If the ledger can't be read or written. Before the draw nothing has
            been charged; after it the charge stays and nothing is released.
        RandomnessError
            If there is no secure source of random bits; nothing is charged.
        """
        call: dict[str, Any] = {"mechanism": "limited_domain", "k": _k(k)}
        call["k_bar"] = (
            k_bar if k_bar is None or isinstance(k_bar, str) else integer("k_bar", k_bar)
        )
        call["max_items_per_user"] = (
            None
            if max_items_per_user is None
            else integer("max_items_per_user", max_items_per_user)
        )
        terms = self._terms

        def plan(k: int) -> limited_domain.Plan:
            plan = limited_domain.plan_of(
                counts, k=k, k_bar=k_bar, max_items_per_user=max_items_per_user
            )
            self._check_labels(plan.histogram)
            return plan

        def draw(plan: limited_domain.Plan) -> Release:
            return limited_domain.draw(
                plan,
                step=terms.epsilon_step,
                delta=terms.delta_threshold,
                cost=self._cost_of_call,
                rng=rng,
            )

        extra = int(isinstance(k_bar, str))
        most = [m for m in (call["k_bar"], getattr(counts, "k_bar", None)) if isinstance(m, int)]
        return self._run(
            call, plan, draw, most=most, extra=extra, calls=1, rng=rng, request_id=request_id
        )

    def peel(
        self,
        counts: Any,
        *,
        k: int | str,
        sensitivity: float = 1.0,
        monotone: bool | None = None,
        rng: Any = None,
        request_id: str | None = None,
    ) -> Release:
        """Pick k items over the full domain, at k outcomes of the session and no call.

        Each pick is one bounded-range step (Durfee and Rogers 2019, Lemma 4.3)
        and there is no threshold: so no delta, and no call is charged.

        Parameters
        ----------
        counts, sensitivity, monotone, rng
            As in `dptopk.peel`.
        k : int or "rest"
            How many items; "rest": as many as the session can still pay, or
            all there are.
        request_id : str, optional
            As in `limited_domain`.

        Returns
        -------
        Release
            k items; the cost is that of the whole session.

        Raises
        ------
        TypeError, ValueError, BudgetError, LedgerError, RandomnessError
            As in `limited_domain`.
        UnknownDomainError
            If the items were read off the data.

        Examples
        --------
        >>> import dptopk as dp
        >>> session = dp.Session(k_star=20, calls=5, epsilon=10.0, delta=1e-6)
        >>> session.peel([3, 900, 700, 5], k=2).items
        (1, 2)
        >>> session.remaining
        Remaining(outcomes=18, calls=5)
        """
        call: dict[str, Any] = {"mechanism": "peel", "k": _k(k)}
        call["sensitivity"] = positive("sensitivity", sensitivity, toward=math.inf)
        call["monotone"] = None if monotone is None else boolean("monotone", monotone)
        step = self._terms.epsilon_step

        def plan(k: int) -> peel.Plan:
            plan = peel.plan_of(counts, k=k, sensitivity=sensitivity, monotone=monotone)
            peel.scale_in(plan, step)  # refuses a scale past the range of floats
            if plan.scores.histogram is not None:
                self._check_labels(plan.scores.histogram)
            return plan

        def draw(plan: peel.Plan) -> Release:
            return peel.draw(plan, step=step, cost=self._cost_of_call, rng=rng)

        most = [len(counts)] if hasattr(counts, "__len__") else []
        return self._run(
            call, plan, draw, most=most, extra=0, calls=0, rng=rng, request_id=request_id
        )

    def _check_labels(self, h: Histogram) -> None:
        if self._account.check_labels is not None:
            self._account.check_labels(h)

    def _run(
        self,
        call: dict[str, Any],
        plan_of: Callable[[int], Any],
        draw: Callable[[Any], Release],
        *,
        most: list[int],
        extra: int,
        calls: int,
        rng: Any,
        request_id: str | None,
    ) -> Release:
        """Check, charge, draw, settle: in this order."""
        account = self._account
        if request_id is not None:
            if not isinstance(request_id, str):
                raise TypeError(f"request_id must be a string, got {type(request_id).__name__}")
            recorded = account.recorded(request_id, call)
            if recorded is not None:
                return recorded
        release(acquire(rng))  # a bad rng, or no secure bits, is an error before the charge
        while True:
            k, nothing_left = call["k"], False
            if k == "rest":
                left = account.remaining()
                nothing_left = left.outcomes < 1 + extra or left.calls < calls
                k = max(1, min([left.outcomes - extra, *most]))
            plan = plan_of(k)
            try:
                ticket = account.reserve(k + extra, calls, request_id, call)
                break
            except BudgetError:
                if call["k"] != "rest" or nothing_left:
                    raise
                # Another call took some of it in between: what is the rest now?
        if isinstance(ticket, Release):
            return ticket
        released = draw(plan)
        account.settle(ticket, released.outcomes + extra, calls, released)
        return released

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
        terms, left = self._terms, self._account.remaining()
        outcomes = terms.k_star - left.outcomes
        plain = basic(((terms.epsilon_step, outcomes),)) if outcomes else 0.0
        epsilon = min(plain, terms.epsilon)
        return Spent(outcomes, terms.calls - left.calls, epsilon, terms.delta)

    @property
    def cost(self) -> Cost:
        """The whole session, spent or not: its guarantee."""
        return self._terms.cost

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
        rho = Fraction(terms.epsilon_step) ** 2 * terms.k_star / 8
        thresholds = Fraction(terms.delta_threshold) * terms.calls * ACCOUNTINGS[terms.accounting]
        return ZCDpEvent(_up(rho)), _up(thresholds)

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


def _k(k: Any) -> int | str:
    if isinstance(k, str):
        if k != "rest":
            raise ValueError(f'k must be an integer or "rest", got {k!r}')
        return k
    return integer("k", k)
