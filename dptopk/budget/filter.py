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

import os
import threading
from fractions import Fraction
from typing import Any, Literal

from dptopk._validate import choice, integer, positive
from dptopk.accounting.inverse import step_of_rho
from dptopk.accounting.prices import price as price_of
from dptopk.budget.exact import Exact, exact, told_apart
from dptopk.budget.filter_calls import FilterCalls
from dptopk.budget.total import Left, Total
from dptopk.errors import BudgetError
from dptopk.mechanisms._plan import Steps
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
        self.epsilon, self.delta, self.rho = total.epsilon, total.delta, total.rho
        self._pure, self._left, self._left_delta = total.pure, total.amount, total.thresholds
        self._thresholds = total.thresholds
        self._lock, self._pid = threading.Lock(), os.getpid()
        self._cost = total.cost("all calls under a filter")
        self._cost_of_call = total.cost("charged to a filter, whose calls cost this all together")

    @property
    def cost(self) -> Cost:
        """All calls together, spent or not: the guarantee."""
        return self._cost

    @property
    def remaining(self) -> Left:
        """What is left; what calls under way may cost is not."""
        with self._lock:
            left, delta = down(self._left), down(self._left_delta)
        return Left(left, 0.0, delta) if self._pure else Left(0.0, left, delta)

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
        with self._lock:
            each = self._left / integer("k", k)
        if down(each) == 0.0:
            return 0.0
        step = down(each) if self._pure else step_of_rho(each, 1)
        while step > 0.0 and self._price(exact(step)) > each:
            step = below(step)
        return step

    def charge(
        self,
        epsilon: float | Exact | None = None,
        *,
        rho: float | Exact | None = None,
        law: Literal["any", "laplace", "bounded_range"] = "any",
    ) -> float:
        """Pay for a mechanism that you are about to run yourself.

        Parameters
        ----------
        epsilon : float, Decimal or Fraction
            The epsilon of a mechanism of pure DP.
        rho : float, Decimal or Fraction
            In place of `epsilon`: the rho of one of zero-concentrated DP, such as
            Gaussian noise; for filters that count in rho.
        law : {"any", "laplace", "bounded_range"}
            What is known of a mechanism of pure DP, which is cheaper in rho:
            "laplace", real Laplace noise of scale (L1 sensitivity) / epsilon on
            what is released (not the discrete noise of counts, nor a pick
            by Laplace noise); "bounded_range", an exponential mechanism.

        Returns
        -------
        float
            What to run it with: the largest double not above what was given.

        Raises
        ------
        TypeError, ValueError
            If `epsilon` or `rho` is not a finite number > 0, or is not the filter's.
        BudgetError
            If that is more than is left; nothing is charged.

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
        if epsilon is None:
            positive("rho", rho)
            if self._pure:
                raise ValueError("rho needs a filter that counts in rho")
            self._reserve(exact(rho), Fraction(0))
            return down(exact(rho))
        positive("epsilon", epsilon)
        step = exact(epsilon)
        self._reserve(step if self._pure else price_of(step, law), Fraction(0))
        return down(step)

    def _price(self, step: Fraction) -> Fraction:
        """Return what a bounded-range step costs."""
        return step if self._pure else price_of(step, "bounded_range")

    def _run(
        self, steps: Steps, epsilon_step: float | Exact, delta: Fraction, rng: Rng | None
    ) -> Any:
        """Check, charge, draw, give back: in this order."""
        positive("epsilon_step", epsilon_step)
        step = exact(epsilon_step)
        if steps.thresholds:
            self._check_threshold()
        plan = steps.at(down(step), down(delta), self._cost_of_call)
        check_rng(rng)
        each = self._price(step)
        self._reserve(steps.most * each, steps.thresholds * delta)
        released = plan.draw(rng)
        with self._lock:
            self._left += (steps.most - steps.taken(released)) * each
        return released

    def _run_weighted(self, call: Call, price: Fraction, delta: Fraction, rng: Rng | None) -> Any:
        """Check, charge, draw: in this order."""
        if self._pure and call.norm == "l2":
            raise ValueError("Gaussian noise needs a filter that counts in rho")
        mass = None
        if not call.histogram.known_domain:
            self._check_threshold()
            # Several thresholds add up in an exponent: docs/proofs/weighted.md.
            mass = delta * (1 - self._thresholds / 2)
        plan = call.at_price(price, mass, self._cost_of_call)
        check_rng(rng)
        laplace = call.norm == "l1" and not self._pure
        self._reserve(price_of(price, "laplace") if laplace else price, delta)
        return plan.draw(rng)

    def _check_threshold(self) -> None:
        if self.delta == 0.0:
            raise ValueError("a noisy threshold needs a filter with delta > 0")

    def _reserve(self, price: Fraction, delta: Fraction) -> None:
        if os.getpid() != self._pid:
            raise BudgetError(
                "this filter was opened before a fork: each process would spend the whole of it"
            )
        with self._lock:
            if price > self._left:
                unit = "epsilon" if self._pure else "rho"
                asked, left = told_apart(price, self._left)
                raise BudgetError(
                    f"the call may cost {unit} = {asked}, and {left} is left in this filter"
                )
            if delta > self._left_delta:
                asked, left = told_apart(delta, self._left_delta)
                raise BudgetError(
                    f"the call costs a delta of {asked}, and {left} is left in this filter"
                )
            self._left -= price
            self._left_delta -= delta

    def __repr__(self) -> str:
        left = self.remaining
        what = f"epsilon={left.epsilon:g}" if self._pure else f"rho={left.rho:g}"
        return (
            f"<Filter: {what}, delta={left.delta:g} left; "
            f"epsilon={self.epsilon:g}, delta={self.delta:g} in all>"
        )

    def __reduce__(self) -> Any:
        raise TypeError("a filter can't be pickled or copied: its budget would be spent twice")
