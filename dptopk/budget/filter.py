"""Calls whose epsilon varies from one to the next, chosen in view of what came before.

A `Session` fixes the epsilon of a step beforehand, as the better accountings
need. A filter adds up what each step costs instead and refuses the call that
might go past the total:

- delta = 0: epsilons of pure DP add up to epsilon.
- delta > 0, or a total given as rho: costs in zero-concentrated DP add up to rho,
  which becomes (epsilon, delta_composition) by the best conversion.
  `dptopk.accounting.prices` has what a step costs. Costs may be chosen
  adaptively, as long as their sum is kept below a bound fixed beforehand
  (Feldman and Zrnic 2021; Rogers, Roth, Ullman and Vadhan 2016 for pure DP). The
  deltas of thresholds add up to the rest of delta, as in docs/proofs/session.md
  and docs/proofs/weighted.md.

Sums are exact fractions: a Decimal or Fraction is taken as it is, and a float for
the decimal that it prints as: ten times 0.1 is 1.0, and uses it up. The noise
uses the largest double that is not above that decimal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Literal

from dptopk._validate import boolean, choice, integer, positive, probability
from dptopk.accounting.inverse import step_of_rho
from dptopk.accounting.prices import price as price_of
from dptopk.budget.batch import FILTER_CALLS, Batch, FilterQuote, run_all
from dptopk.budget.calls import steps_in
from dptopk.budget.exact import Exact, exact
from dptopk.budget.filter_account import FilterAccount, ProcessFilterAccount, amounts_of
from dptopk.budget.filter_calls import FilterCalls
from dptopk.budget.lines import short_enough
from dptopk.budget.periods import over_periods
from dptopk.budget.total import Left, Total, left_of
from dptopk.mechanisms.weighted import Call
from dptopk.release import Cost
from dptopk.rng import Rng, check_rng
from dptopk.rounding import below, down

__all__ = ["Filter"]


class Filter(FilterCalls):
    """A total for calls whose epsilon is chosen from call to call.

    What a call may cost at most is charged before anything is drawn. Of calls
    of limited_domain that bring fewer outcomes the rest is given back with the
    release; a call that fails in between keeps the whole charge.

    Parameters
    ----------
    epsilon : float, Decimal or Fraction
        The total.
    rho : float, Decimal or Fraction
        In place of `epsilon`: the total in zero-concentrated DP.
    delta : float, Decimal or Fraction, default 0
        The total delta. At 0 all calls are pure DP and their epsilons add up; or,
        with `rho`, there can be no call with a threshold.
    delta_split : float, default 0.5
        Part of delta, in (0, 1), that goes to thresholds of limited_domain and weighted;
        at the rest epsilon follows from rho, or rho from epsilon.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    See Also
    --------
    bound : a filter whose budget is kept in a `Ledger`.
    dptopk.Session : one epsilon for all steps, which affords more of them.

    Notes
    -----
    **Guarantee**: all releases under a filter together are (epsilon, delta)-DP
    when one user is added or removed, however the calls, their epsilons among
    them, are chosen in view of earlier releases. With `rho` and without `delta`
    they are rho-zCDP; so they are otherwise but for the thresholds, which
    have their part of delta.

    Examples
    --------
    >>> import dptopk as dp
    >>> pure = dp.Filter(epsilon=1.0)
    >>> for _ in range(2):
    ...     release = pure.peel([3, 900, 700, 5], k=1, epsilon_step=0.5)
    >>> pure.remaining.epsilon
    0.0
    >>> by_rho = dp.Filter(epsilon=1.0, delta=1e-6)
    >>> release = by_rho.limited_domain([9000, 40, 3], k=2, k_bar=2, epsilon_step=0.1,
    ...                                 delta_threshold=1e-7)
    >>> by_rho.remaining.rho < by_rho.rho
    True
    """

    def __init__(
        self,
        *,
        epsilon: float | Exact | None = None,
        rho: float | Exact | None = None,
        delta: float | Exact = 0.0,
        delta_split: float | Exact = 0.5,
    ):
        total = Total.of(epsilon=epsilon, rho=rho, delta=delta, delta_split=delta_split)
        self._open(total, ProcessFilterAccount(total))

    def _open(self, total: Total, account: FilterAccount) -> Filter:
        self.epsilon, self.delta, self.rho = total.epsilon, total.delta, total.rho
        self._pure, self._account = total.pure, account
        self._cost = total.cost("all calls under a filter")
        self._cost_of_call = total.cost("charged to a filter, whose calls cost this all together")
        return self

    @classmethod
    def bound(cls, ledger: Any, name: str) -> Filter:
        """Open the filter of a budget in a ledger; its total comes from there.

        Parameters
        ----------
        ledger : Ledger
            Where the budget is kept; `Ledger.create_filter` makes one.
        name : str
            Its name.

        Returns
        -------
        Filter
            What it spends is spent for all filters of that budget, in any thread,
            process or run.

        Raises
        ------
        UnknownBudgetError
            If there is no such budget.
        LedgerConflictError
            If it is that of a session.
        LedgerUnavailableError
            If the ledger can't be read.

        Examples
        --------
        >>> import dptopk as dp, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with dp.Ledger(f"{folder.name}/budgets.sqlite") as ledger:
        ...     ledger.create_filter("ann", rho=0.1, delta=1e-6)
        ...     budget = dp.Filter.bound(ledger, "ann")
        ...     release = budget.joint([3, 900, 700, 5], k=2, epsilon_step=0.5, request_id="one")
        ...     budget.joint([3, 900, 700, 5], k=2, epsilon_step=0.5, request_id="one") == release
        True
        >>> folder.cleanup()
        """
        total, account = ledger.filter_account(name)
        return cls.__new__(cls)._open(total, account)

    @property
    def cost(self) -> Cost:
        """All calls together, spent or not: the guarantee. Of all periods, if there are more."""
        return over_periods(self._cost, self._account.periods)

    @property
    def remaining(self) -> Left:
        """What is left; what calls under way may cost is not."""
        return left_of(self._pure, *self._account.left())

    def epsilon_step(self, k: int) -> float:
        """Return the largest epsilon_step that k outcomes can have out of what is left.

        Parameters
        ----------
        k : int
            How many outcomes.

        Returns
        -------
        float
            Rounded down; 0 if nothing is left.
        """
        each = self._account.affords()[0] / integer("k", k)
        if down(each) == 0.0:
            return 0.0
        step = down(each) if self._pure else step_of_rho(each, 1)
        while step > 0.0 and self._price(exact(step)) > each:
            step = below(step)
        return step

    def charge(
        self,
        epsilon: float | Exact | None = None,
        delta: float | Exact = 0.0,
        *,
        rho: float | Exact | None = None,
        law: Literal["any", "laplace", "bounded_range"] = "any",
        bounded_range: bool = False,
        request_id: str | None = None,
    ) -> float:
        """Pay for a mechanism that you are about to run yourself.

        Parameters
        ----------
        epsilon : float, Decimal or Fraction
            The epsilon of a mechanism that is (epsilon, delta)-DP.
        delta : float, Decimal or Fraction, default 0
            Its delta, which comes off the filter's part for thresholds
            (docs/proofs/weighted.md, 16).
        rho : float, Decimal or Fraction
            In place of `epsilon`: the rho of one of zero-concentrated DP, such as
            Gaussian noise; for filters that count in rho.
        law : {"any", "laplace", "bounded_range"}
            What is known of a mechanism of pure DP, which is cheaper in rho:
            "laplace", real Laplace noise of scale (L1 sensitivity) / epsilon on
            what is released (not the discrete noise of counts, nor a pick
            by Laplace noise); "bounded_range", an exponential mechanism.
        bounded_range : bool, default False
            The same as ``law="bounded_range"``.
        request_id : str, optional
            For a filter bound to a ledger: the same id is not charged twice. As what the
            mechanism returned is not recorded, it is then a LedgerConflictError.

        Returns
        -------
        float
            What to run it with: the largest double not above the epsilon, or rho, given.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or out of range, or is not one of such a filter.
        BudgetError
            If that is more than is left; nothing is charged.
        LedgerConflictError
            If `request_id` was charged before.
        LedgerUnavailableError
            If the ledger can't be read or written: count it as charged, run nothing.

        Examples
        --------
        >>> import dptopk as dp
        >>> budget = dp.Filter(epsilon=1.0)
        >>> spent = [budget.charge(0.1) for _ in range(10)]
        >>> budget.charge(1e-9)
        Traceback (most recent call last):
        dptopk.errors.BudgetError: the call may cost epsilon = 1e-09, and 0 is left in this filter
        """
        if (epsilon is None) == (rho is None):
            raise TypeError("give either epsilon or rho, not both")
        law = choice("law", law, ("any", "laplace", "bounded_range"))
        if boolean("bounded_range", bounded_range):
            if law == "laplace":
                raise ValueError("give either law or bounded_range, not both")
            law = "bounded_range"
        probability("delta", delta, zero=True)
        failure = exact(delta)
        if failure:
            self._check_threshold("a delta")
            if rho is not None or law != "any":
                raise ValueError("delta goes with epsilon alone, of any law")
        if rho is not None:
            positive("rho", rho)
            if self._pure:
                raise ValueError("rho needs a filter that counts in rho")
            given = price = exact(rho)
            call = {"mechanism": "charge", "rho": str(given)}
        else:
            positive("epsilon", epsilon)
            given = exact(epsilon)
            price = given if self._pure else price_of(given, law)
            call = {"mechanism": "charge", "epsilon": str(given), "law": law}
        call["delta"] = str(failure)
        if request_id is not None:
            self._account.recorded(short_enough("request_id", request_id), call)
        self._account.reserve(price, failure, call, request_id, paid=True)
        return down(given)

    def price(self, calls: Iterable[tuple[str, Any, Mapping[str, Any]]]) -> Batch:
        """Return what a batch of planned calls may cost at most; nothing is charged or drawn.

        Parameters
        ----------
        calls : iterable of (mechanism, counts, options)
            Each a call of this filter, by its name.

        Returns
        -------
        Batch
            The amounts of all calls together, exactly, and whether so much is left.

        Raises
        ------
        TypeError, ValueError
            What a call would raise before its charge.

        Examples
        --------
        >>> import dptopk as dp
        >>> budget = dp.Filter(epsilon=1.0)
        >>> one = ("peel", [3, 900, 700, 5], {"k": 2, "epsilon_step": 0.2})
        >>> budget.price([one, one])
        Batch(amounts={'epsilon': Fraction(4, 5), 'delta': Fraction(0, 1)}, fits=True)
        """
        quote = FilterQuote(self._account)
        twin = self.__class__.__new__(self.__class__)
        twin.__dict__.update(self.__dict__, _account=quote)
        run_all(twin, calls, FILTER_CALLS)
        amounts = amounts_of(self._pure, *quote.asked)
        left = amounts_of(self._pure, *self._account.affords())
        return Batch(amounts, all(amounts[unit] <= left[unit] for unit in left))

    def _price(self, step: Fraction) -> Fraction:
        """Return what a bounded-range step costs."""
        return step if self._pure else price_of(step, "bounded_range")

    def _run(
        self,
        call: dict[str, Any],
        counts: Any,
        epsilon_step: float | Exact,
        delta: Fraction,
        rng: Rng | None,
        request_id: str | None,
    ) -> Any:
        """Check, charge, draw, give back: in this order."""
        steps = steps_in(call, counts)
        positive("epsilon_step", epsilon_step)
        step = exact(epsilon_step)
        call |= {"epsilon_step": str(step)}
        if steps.thresholds:
            self._check_threshold()
            call["delta_threshold"] = str(delta)
        self._account.check_labels(steps.histogram)
        earlier = self._earlier(call, request_id)
        if earlier is not None:
            return earlier
        plan = steps.at(down(step), down(delta), self._cost_of_call)
        check_rng(rng)
        each = self._price(step)
        failure = steps.thresholds * delta
        ticket = self._account.reserve(steps.most * each, failure, call, request_id)
        if not isinstance(ticket, int):
            return ticket
        released = plan.draw(rng)
        return self._account.settle(ticket, steps.taken(released) * each, failure, released)

    def _run_weighted(
        self,
        call: dict[str, Any],
        of: Call,
        price: Fraction,
        delta: Fraction,
        rng: Rng | None,
        request_id: str | None,
    ) -> Any:
        """Check, charge, draw: in this order."""
        if self._pure and of.norm == "l2":
            raise ValueError("Gaussian noise needs a filter that counts in rho")
        mass = None
        if not of.histogram.known_domain:
            self._check_threshold()
            # Several thresholds add up in an exponent: docs/proofs/weighted.md.
            mass = delta * (1 - self._account.thresholds / 2)
        self._account.check_labels(of.histogram)
        earlier = self._earlier(call, request_id)
        if earlier is not None:
            return earlier
        plan = of.at_price(price, mass, self._cost_of_call)
        check_rng(rng)
        laplace = of.norm == "l1" and not self._pure
        cost = price_of(price, "laplace") if laplace else price
        ticket = self._account.reserve(cost, delta, call, request_id)
        if not isinstance(ticket, int):
            return ticket
        released = plan.draw(rng)
        return self._account.settle(ticket, cost, delta, released)

    def _earlier(self, call: dict[str, Any], request_id: str | None) -> Any:
        if request_id is None:
            return None
        return self._account.recorded(short_enough("request_id", request_id), call)

    def _check_threshold(self, what: str = "a noisy threshold") -> None:
        if self.delta == 0.0:
            raise ValueError(f"{what} needs a filter with delta > 0")

    def __repr__(self) -> str:
        left = self.remaining
        what = f"epsilon={left.epsilon:g}" if self._pure else f"rho={left.rho:g}"
        return (
            f"<Filter: {what}, delta={left.delta:g} left; "
            f"epsilon={self.epsilon:g}, delta={self.delta:g} in all>"
        )

    def __reduce__(self) -> Any:
        raise TypeError("a filter can't be pickled or copied: its budget would be spent twice")
