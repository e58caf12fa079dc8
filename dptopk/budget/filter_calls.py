"""The calls of a filter, each with an epsilon, or rho, of its own."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal, overload

from dptopk._types import KBar
from dptopk._validate import integer, positive, probability
from dptopk.budget.calls import call_of
from dptopk.budget.exact import Exact, exact
from dptopk.histogram import Counts, Histogram, Histograms
from dptopk.mechanisms._plan import method_for_groups
from dptopk.mechanisms.weighted import Call, call_weighted
from dptopk.release import Release
from dptopk.releases import Releases
from dptopk.rng import Rng

__all__ = ["FilterCalls"]


class FilterCalls:
    """What a filter can be asked for; `Filter` checks, charges and draws."""

    def _run(
        self,
        call: dict[str, Any],
        counts: Any,
        epsilon_step: float | Exact,
        delta: Fraction,
        rng: Rng | None,
        request_id: str | None,
    ) -> Any:
        raise NotImplementedError

    def _run_weighted(
        self,
        call: dict[str, Any],
        of: Call,
        price: Fraction,
        delta: Fraction,
        rng: Rng | None,
        request_id: str | None,
    ) -> Any:
        raise NotImplementedError

    @method_for_groups
    def limited_domain(
        self,
        counts: Counts,
        *,
        k: int,
        epsilon_step: float | Exact,
        delta_threshold: float | Exact,
        k_bar: KBar = None,
        max_items_per_user: int | None = None,
        rng: Rng | None = None,
        request_id: str | None = None,
    ) -> Release:
        """Pick up to k of the k_bar most frequent items, and pay for what comes back.

        Parameters
        ----------
        counts, k, k_bar, max_items_per_user, rng
            As in `dptopk.limited_domain`.
        epsilon_step : float, Decimal or Fraction
            The epsilon of each step of this call.
        delta_threshold : float, Decimal or Fraction
            The delta of the threshold of this call.
        request_id : str, optional
            For a filter bound to a ledger, as in `dptopk.Session.limited_domain`: a
            request that has been made before is neither drawn nor paid again.

        Returns
        -------
        Release, or Releases for Histograms
            Its cost is that of the whole filter, once for all its calls.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or out of range, or the filter
            has no delta; nothing is charged.
        BudgetError
            If the call might cost more than is left; nothing is charged or drawn.
        RandomnessError
            If there is no secure source of random bits; nothing is charged.
        LedgerConflictError, LedgerUnavailableError
            For a filter bound to a ledger, as in `dptopk.Session.limited_domain`.
        """
        probability("delta_threshold", delta_threshold, zero=False)
        call = call_of(
            "limited_domain", k=integer("k", k), k_bar=k_bar, max_items_per_user=max_items_per_user
        )
        return self._run(call, counts, epsilon_step, exact(delta_threshold), rng, request_id)

    @method_for_groups
    def peel(
        self,
        counts: Counts,
        *,
        k: int,
        epsilon_step: float | Exact,
        sensitivity: float = 1.0,
        monotone: bool | None = None,
        rng: Rng | None = None,
        request_id: str | None = None,
    ) -> Release:
        """Pick k items over the full domain.

        Parameters
        ----------
        counts, k, sensitivity, monotone, rng
            As in `dptopk.peel`.
        epsilon_step : float, Decimal or Fraction
            The epsilon of each pick.
        request_id : str, optional
            As in `limited_domain`.

        Returns
        -------
        Release, or Releases for Histograms
            Its cost is that of the whole filter, once for all its calls.

        Raises
        ------
        TypeError, ValueError, BudgetError, RandomnessError
            As in `limited_domain`.
        UnknownDomainError
            If the items were read off the data.
        """
        call = call_of("peel", k=integer("k", k), sensitivity=sensitivity, monotone=monotone)
        return self._run(call, counts, epsilon_step, Fraction(0), rng, request_id)

    @method_for_groups
    def joint(
        self,
        counts: Counts,
        *,
        k: int,
        epsilon_step: float | Exact,
        output: Literal["set", "sequence"] = "set",
        sensitivity: float = 1.0,
        monotone: bool | None = None,
        rng: Rng | None = None,
        request_id: str | None = None,
    ) -> Release:
        """Pick k items at once over the full domain: one bounded-range step, whatever k.

        Parameters
        ----------
        counts, k, output, sensitivity, monotone, rng
            As in `dptopk.joint`.
        epsilon_step : float, Decimal or Fraction
            Its epsilon.
        request_id : str, optional
            As in `limited_domain`.

        Returns
        -------
        Release, or Releases for Histograms
            Its cost is that of the whole filter, once for all its calls.

        Raises
        ------
        TypeError, ValueError, BudgetError, RandomnessError
            As in `limited_domain`.
        UnknownDomainError
            If the items were read off the data.
        """
        call = call_of(
            "joint", k=integer("k", k), output=output, sensitivity=sensitivity, monotone=monotone
        )
        return self._run(call, counts, epsilon_step, Fraction(0), rng, request_id)

    @method_for_groups
    def canonical(
        self,
        counts: Counts,
        *,
        k: int,
        epsilon_step: float | Exact,
        sensitivity: float = 1.0,
        monotone: bool | None = None,
        rng: Rng | None = None,
        request_id: str | None = None,
    ) -> Release:
        """Pick a set of k items over the full domain: one bounded-range step, whatever k.

        Parameters
        ----------
        counts, k, sensitivity, monotone, rng
            As in `dptopk.canonical`.
        epsilon_step : float, Decimal or Fraction
            Its epsilon.
        request_id : str, optional
            As in `limited_domain`.

        Returns
        -------
        Release, or Releases for Histograms
            Its cost is that of the whole filter, once for all its calls.

        Raises
        ------
        TypeError, ValueError, BudgetError, RandomnessError
            As in `limited_domain`.
        UnknownDomainError
            If the items were read off the data.
        """
        call = call_of("canonical", k=integer("k", k), sensitivity=sensitivity, monotone=monotone)
        return self._run(call, counts, epsilon_step, Fraction(0), rng, request_id)

    @method_for_groups
    def noisy_max(
        self,
        counts: Counts,
        *,
        epsilon_step: float | Exact,
        largest: bool = True,
        sensitivity: float = 1.0,
        monotone: bool | None = None,
        rng: Rng | None = None,
        request_id: str | None = None,
    ) -> Release:
        """Pick the item with the largest or least noisy score: one bounded-range step.

        With Gumbel noise; for a pick by other noise `charge` its epsilon.

        Parameters
        ----------
        counts, largest, sensitivity, monotone, rng
            As in `dptopk.noisy_max`.
        epsilon_step : float, Decimal or Fraction
            Its epsilon.
        request_id : str, optional
            As in `limited_domain`.

        Returns
        -------
        Release, or Releases for Histograms
            Its cost is that of the whole filter, once for all its calls.

        Raises
        ------
        TypeError, ValueError, BudgetError, RandomnessError
            As in `limited_domain`.
        UnknownDomainError
            If the items were read off the data.
        """
        call = call_of("noisy_max", largest=largest, sensitivity=sensitivity, monotone=monotone)
        return self._run(call, counts, epsilon_step, Fraction(0), rng, request_id)

    @overload
    def weighted(
        self,
        h: Histogram,
        *,
        k: int | None = None,
        rho: float | Exact | None = None,
        epsilon: float | Exact | None = None,
        delta_threshold: float | Exact = 0.0,
        min_users: int | None = None,
        max_items_per_user: int | None = None,
        release_weights: bool = False,
        rng: Rng | None = None,
        request_id: str | None = None,
    ) -> Release: ...

    @overload
    def weighted(
        self,
        h: Histograms,
        *,
        k: int | None = None,
        rho: float | Exact | None = None,
        epsilon: float | Exact | None = None,
        delta_threshold: float | Exact = 0.0,
        min_users: int | None = None,
        max_items_per_user: int | None = None,
        release_weights: bool = False,
        rng: Rng | None = None,
        request_id: str | None = None,
    ) -> Releases: ...

    def weighted(
        self,
        h: Histogram | Histograms,
        *,
        k: int | None = None,
        rho: float | Exact | None = None,
        epsilon: float | Exact | None = None,
        delta_threshold: float | Exact = 0.0,
        min_users: int | None = None,
        max_items_per_user: int | None = None,
        release_weights: bool = False,
        rng: Rng | None = None,
        request_id: str | None = None,
    ) -> Release | Releases:
        """Pick the items of most weight, where people with many items count less for each.

        Parameters
        ----------
        h, k, min_users, max_items_per_user, release_weights, rng
            As in `dptopk.weighted`.
        rho : float, Decimal or Fraction
            Of norm "l2": what its Gaussian noise costs, min(soft_cap, the most items
            of a user) / (2 sigma^2).
        epsilon : float, Decimal or Fraction
            Of norm "l1", in place of `rho`: of its Laplace noise. A filter that counts
            in rho charges less for it than for any pure DP.
        delta_threshold : float, Decimal or Fraction
            Of an unknown domain: the delta of the threshold.
        request_id : str, optional
            As in `limited_domain`.

        Returns
        -------
        Release, or Releases for Histograms
            Its cost is that of the whole filter, once for all its calls.

        Raises
        ------
        TypeError, ValueError, BudgetError, RandomnessError
            As in `limited_domain`.

        Notes
        -----
        Alone a call of `dptopk.weighted` needs less, as its delta is not split.
        Here noise adds up as rho and thresholds as delta: docs/proofs/weighted.md.

        Examples
        --------
        >>> import dptopk as dp
        >>> unit = dp.accounting.weight(2, soft_cap=1)  # of two items each
        >>> h = dp.Histogram.from_weights([900 * unit, 450 * unit], ["tea", "jam"],
        ...                               soft_cap=1, max_items_per_user=10)
        >>> budget = dp.Filter(epsilon=1.0, delta=1e-6)
        >>> budget.weighted(h, rho=0.005, delta_threshold=1e-7).labels
        ('tea', 'jam')
        """
        of = call_weighted(
            h,
            k=k,
            min_users=min_users,
            max_items_per_user=max_items_per_user,
            release_weights=release_weights,
        )
        name, price = ("rho", rho) if of.norm == "l2" else ("epsilon", epsilon)
        if price is None or (rho is not None and epsilon is not None):
            raise TypeError(f"norm {of.norm!r} takes {name}, and no other price")
        positive(name, price)
        known = of.histogram.known_domain
        probability("delta_threshold", delta_threshold, zero=known)
        if known and delta_threshold:
            raise ValueError("a known domain has no threshold: leave delta_threshold out")
        call = {
            "mechanism": "weighted",
            "k": of.k,
            "min_users": of.min_users,
            "max_items_per_user": max_items_per_user and int(max_items_per_user),
            "release_weights": of.release_weights,
            name: str(exact(price)),
            "delta_threshold": str(exact(delta_threshold)),
        }
        return self._run_weighted(call, of, exact(price), exact(delta_threshold), rng, request_id)
