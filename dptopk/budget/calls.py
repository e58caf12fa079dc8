"""The calls of a session: their parameters in the plain form that is recorded, and their steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from dptopk._types import KBar
from dptopk._validate import boolean, choice, integer, positive
from dptopk.histogram import Counts
from dptopk.mechanisms._plan import Steps, method_for_groups, steps_of
from dptopk.release import Release
from dptopk.rng import Rng

__all__ = ["Calls", "call_of", "largest_k", "steps_in"]


def call_of(mechanism: str, **options: Any) -> dict[str, Any]:
    """Return a call as it is recorded; equal calls have equal ones, whatever the types given."""
    plain = {name: _PLAIN[name](value) for name, value in options.items()}
    return {"mechanism": mechanism, **plain}


def steps_in(call: dict[str, Any], counts: Any) -> Steps:
    """Check a call on counts, all but its budget."""
    options = dict(call)
    return steps_of(options.pop("mechanism"))(counts, **options)


def largest_k(call: dict[str, Any], counts: Any) -> float:
    """Return the largest k that public numbers allow: of "rest" there is no more."""
    limits = [call.get("k_bar"), getattr(counts, "k_bar", None)]
    if "k_bar" not in call:  # all items of a known domain
        least = getattr(counts, "least_items", None)  # of the groups, if there are many
        limits.append(len(counts) if least is None and hasattr(counts, "__len__") else least)
    return min((limit for limit in limits if isinstance(limit, int)), default=math.inf)


def _k(k: Any) -> int | str:
    if not isinstance(k, str):
        return integer("k", k)
    if k != "rest":
        raise ValueError(f'k must be an integer or "rest", got {k!r}')
    return k


def _or(default: type | None, check: Callable[[str, Any], Any], name: str) -> Callable[[Any], Any]:
    """Return a check that lets None, or a string, pass as it is."""
    passed = (type(None),) if default is None else (type(None), default)
    return lambda value: value if isinstance(value, passed) else check(name, value)


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "k": _k,
    "k_bar": _or(str, integer, "k_bar"),
    "max_items_per_user": _or(None, integer, "max_items_per_user"),
    "sensitivity": lambda value: positive("sensitivity", value, toward=math.inf),
    "monotone": _or(None, boolean, "monotone"),
    "largest": lambda value: boolean("largest", value),
    "output": lambda value: choice("output", value, ("set", "sequence")),
}


class Calls:
    """What a session can be asked for; `Session` checks, charges and draws."""

    def _run(
        self, call: dict[str, Any], counts: Counts, rng: Rng | None, request_id: str | None
    ) -> Any:
        raise NotImplementedError

    @method_for_groups
    def limited_domain(
        self,
        counts: Counts,
        *,
        k: int | Literal["rest"],
        k_bar: KBar = None,
        max_items_per_user: int | None = None,
        rng: Rng | None = None,
        request_id: str | None = None,
    ) -> Release:
        """Pick up to k of the k_bar most frequent items, and pay for what comes back.

        Parameters
        ----------
        counts : Histogram, Histograms or array of integers, shape (d,)
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
        Release, or Releases for Histograms
            ``release.outcomes`` is what it was charged. Its cost is that of
            the whole session, which holds for all releases of the session
            together and is not to be added up.

        Raises
        ------
        TypeError, ValueError
            If an argument is of the wrong kind or out of range, or the labels
            are of a type that a ledger can't record; nothing is charged.
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
        call = call_of("limited_domain", k=k, k_bar=k_bar, max_items_per_user=max_items_per_user)
        return self._run(call, counts, rng, request_id)

    @method_for_groups
    def peel(
        self,
        counts: Counts,
        *,
        k: int | Literal["rest"],
        sensitivity: float = 1.0,
        monotone: bool | None = None,
        rng: Rng | None = None,
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
        Release, or Releases for Histograms
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
        call = call_of("peel", k=k, sensitivity=sensitivity, monotone=monotone)
        return self._run(call, counts, rng, request_id)

    @method_for_groups
    def joint(
        self,
        counts: Counts,
        *,
        k: int,
        output: Literal["set", "sequence"] = "set",
        sensitivity: float = 1.0,
        monotone: bool | None = None,
        rng: Rng | None = None,
        request_id: str | None = None,
    ) -> Release:
        """Pick k items at once over the full domain, at one outcome of the session and no call.

        The joint exponential mechanism is one bounded-range step, whatever k: as
        accurate as its epsilon_step allows.

        Parameters
        ----------
        counts, k, output, sensitivity, monotone, rng
            As in `dptopk.joint`.
        request_id : str, optional
            As in `limited_domain`.

        Returns
        -------
        Release, or Releases for Histograms
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
        >>> session.joint([3, 900, 700, 5], k=2).items
        (1, 2)
        >>> session.remaining
        Remaining(outcomes=19, calls=5)
        """
        call = call_of(
            "joint",
            k=integer("k", k),
            output=output,
            sensitivity=sensitivity,
            monotone=monotone,
        )
        return self._run(call, counts, rng, request_id)

    @method_for_groups
    def canonical(
        self,
        counts: Counts,
        *,
        k: int,
        sensitivity: float = 1.0,
        monotone: bool | None = None,
        rng: Rng | None = None,
        request_id: str | None = None,
    ) -> Release:
        """Pick a set of k items over the full domain, at one outcome of the session and no call.

        Parameters
        ----------
        counts, k, sensitivity, monotone, rng
            As in `dptopk.canonical`.
        request_id : str, optional
            As in `limited_domain`.

        Returns
        -------
        Release, or Releases for Histograms
            A set of k items; the cost is that of the whole session.

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
        >>> session.canonical([3, 900, 700, 5], k=2).items
        (1, 2)
        >>> session.remaining
        Remaining(outcomes=19, calls=5)
        """
        call = call_of("canonical", k=integer("k", k), sensitivity=sensitivity, monotone=monotone)
        return self._run(call, counts, rng, request_id)

    @method_for_groups
    def noisy_max(
        self,
        counts: Counts,
        *,
        largest: bool = True,
        sensitivity: float = 1.0,
        monotone: bool | None = None,
        rng: Rng | None = None,
        request_id: str | None = None,
    ) -> Release:
        """Pick the item with the largest or least noisy score, at one outcome and no call.

        With Gumbel noise: a pick by other noise is not of bounded range.

        Parameters
        ----------
        counts, largest, sensitivity, monotone, rng
            As in `dptopk.noisy_max`.
        request_id : str, optional
            As in `limited_domain`.

        Returns
        -------
        Release, or Releases for Histograms
            One item; the cost is that of the whole session.

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
        >>> session.noisy_max([30, 900, 700, 5], largest=False).items
        (3,)
        """
        call = call_of("noisy_max", largest=largest, sensitivity=sensitivity, monotone=monotone)
        return self._run(call, counts, rng, request_id)
