"""Our own mechanisms over an unknown domain, by way of `restricted`."""

from __future__ import annotations

from typing import Any

from dptopk._types import Bound
from dptopk._validate import positive
from dptopk.framework.restrict import Options, plan_restricted
from dptopk.histogram import Counts, Histograms, as_histogram
from dptopk.mechanisms._plan import Plan, for_groups
from dptopk.mechanisms._set_noise import SetNoise
from dptopk.release import Release
from dptopk.rng import Rng
from dptopk.rounding import difference_down

__all__ = [
    "plan_restricted_canonical",
    "plan_restricted_gumbel",
    "plan_restricted_normal",
    "plan_restricted_oneshot",
    "plan_restricted_permute_and_flip",
    "restricted_canonical",
    "restricted_gumbel",
    "restricted_normal",
    "restricted_oneshot",
    "restricted_permute_and_flip",
]


@for_groups
def restricted_gumbel(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float,
    k_bar: int | None = None,
    mechanism_epsilon: float | None = None,
    mechanism_delta: float | None = None,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Release:
    """Pick up to k items by Gumbel noise among the top k_bar: `peel` by way of `restricted`.

    Parameters
    ----------
    counts, k, epsilon, delta, k_bar, mechanism_epsilon, mechanism_delta, bound, rng
        As in `restricted`.

    Returns
    -------
    Release, or Releases for Histograms

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP, that of `restricted`. Where ``epsilon_tests`` is 4
    steps of `limited_domain` (from about 15 picks on, by default), a smaller gap than that one
    needs is enough to return all k picks (Theorem 5). With fewer than 10 picks
    `limited_domain` tends to return more.

    Source: Carvalho and Wang, Algorithm 3 (RG).

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.restricted_gumbel([3, 900, 700, 5], k=2, k_bar=3, epsilon=1.0, delta=1e-6).items
    (1, 2)
    """
    plan = plan_restricted_gumbel(
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        k_bar=k_bar,
        mechanism_epsilon=mechanism_epsilon,
        mechanism_delta=mechanism_delta,
        bound=bound,
    )
    return plan.draw(rng)


def plan_restricted_gumbel(counts: Counts, **more: Any) -> Plan:
    """Check a call of `restricted_gumbel`; arguments as there."""
    return plan_restricted("peel", counts, **more)


@for_groups
def restricted_oneshot(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float,
    noise: SetNoise = "best",
    max_items_per_user: int | None = None,
    k_bar: int | None = None,
    mechanism_epsilon: float | None = None,
    mechanism_delta: float | None = None,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Release:
    """Pick a set of up to k items among the top k_bar: `oneshot` by way of `restricted`.

    Parameters
    ----------
    counts, k, epsilon, delta, k_bar, mechanism_epsilon, mechanism_delta, bound, rng
        As in `restricted`.
    noise : {"best", "gumbel", "exponential", "laplace", "gaussian"}
        As in `oneshot`, for k_bar items. Half of delta goes to the picks by default
        if their noise uses any; a set by Gumbel noise is `restricted_gumbel` without
        its order.
    max_items_per_user : int, optional
        As in `oneshot`.

    Returns
    -------
    Release, or Releases for Histograms
        Unordered: the set is tested in an order drawn at random.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP, that of `restricted`.

    Examples
    --------
    >>> import dptopk as dp
    >>> r = dp.restricted_oneshot([3, 900, 700, 5], k=2, k_bar=3, epsilon=1.0, delta=1e-6)
    >>> r.items, r.ordered
    ((1, 2), False)
    """
    plan = plan_restricted_oneshot(
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        noise=noise,
        max_items_per_user=max_items_per_user,
        k_bar=k_bar,
        mechanism_epsilon=mechanism_epsilon,
        mechanism_delta=mechanism_delta,
        bound=bound,
    )
    return plan.draw(rng)


def plan_restricted_oneshot(
    counts: Counts,
    *,
    noise: SetNoise = "best",
    max_items_per_user: int | None = None,
    bound: Bound = "exact",
    **more: Any,
) -> Plan:
    """Check a call of `restricted_oneshot`; arguments as there."""
    options: Options = {"noise": noise, "max_items_per_user": max_items_per_user, "bound": bound}
    return plan_restricted("oneshot", counts, options=options, bound=bound, **more)


@for_groups
def restricted_canonical(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float,
    k_bar: int | None = None,
    mechanism_epsilon: float | None = None,
    mechanism_delta: float | None = None,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Release:
    """Pick a set of up to k items among the top k_bar: `canonical` by way of `restricted`.

    Parameters
    ----------
    counts, k, epsilon, delta, k_bar, mechanism_epsilon, mechanism_delta, bound, rng
        As in `restricted`.

    Returns
    -------
    Release, or Releases for Histograms
        Unordered: the set is tested in an order drawn at random.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP, that of `restricted`. The picks are pure DP, and all
    of delta goes to the tests.

    Examples
    --------
    >>> import dptopk as dp
    >>> r = dp.restricted_canonical([3, 900, 700, 5], k=2, k_bar=3, epsilon=1.0, delta=1e-6)
    >>> r.items, r.ordered
    ((1, 2), False)
    """
    plan = plan_restricted_canonical(
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        k_bar=k_bar,
        mechanism_epsilon=mechanism_epsilon,
        mechanism_delta=mechanism_delta,
        bound=bound,
    )
    return plan.draw(rng)


def plan_restricted_canonical(counts: Counts, **more: Any) -> Plan:
    """Check a call of `restricted_canonical`; arguments as there."""
    return plan_restricted("canonical", counts, **more)


@for_groups
def restricted_permute_and_flip(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float,
    k_bar: int | None = None,
    mechanism_epsilon: float | None = None,
    mechanism_delta: float | None = None,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Release:
    """Pick up to k items among the top k_bar: `permute_and_flip` by way of `restricted`.

    Parameters
    ----------
    counts, k, epsilon, delta, k_bar, mechanism_epsilon, mechanism_delta, bound, rng
        As in `restricted`.

    Returns
    -------
    Release, or Releases for Histograms
        Items in the order of the picks.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP, that of `restricted`. The picks are pure DP by
    default, and all of delta goes to the tests.

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.restricted_permute_and_flip([3, 900, 700, 5], k=2, epsilon=1.0, delta=1e-6).items
    (1, 2)
    """
    plan = plan_restricted_permute_and_flip(
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        k_bar=k_bar,
        mechanism_epsilon=mechanism_epsilon,
        mechanism_delta=mechanism_delta,
        bound=bound,
    )
    return plan.draw(rng)


def plan_restricted_permute_and_flip(counts: Counts, **more: Any) -> Plan:
    """Check a call of `restricted_permute_and_flip`; arguments as there."""
    return plan_restricted("permute_and_flip", counts, **more)


@for_groups
def restricted_normal(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    delta: float,
    max_items_per_user: int | None = None,
    k_bar: int | None = None,
    mechanism_epsilon: float | None = None,
    mechanism_delta: float | None = None,
    bound: Bound = "exact",
    rng: Rng | None = None,
) -> Release:
    """Pick up to k items by normal noise among the top k_bar.

    Parameters
    ----------
    counts, k, epsilon, delta, k_bar, mechanism_delta, rng
        As in `restricted`.
    max_items_per_user : int, optional
        A bound D on the items one user has, known beforehand. By default the
        histogram's own bound, which it may not be below.
    mechanism_epsilon : float, optional
        The share of the normal noise. By default what is left by the tests, which get
        4 epsilon / D (the paper's experiments), but no more than half of epsilon; as in
        `restricted` where no D is known.
    bound : {"exact", "paper"}
        As in `restricted`; "paper" is also the larger noise of the paper, for sqrt(D).

    Returns
    -------
    Release, or Releases for Histograms
        Items best first.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP, that of `restricted`, when one user, who touches at
    most D items once each, is added or removed. The noise has the least standard
    deviation that is (mechanism_epsilon, mechanism_delta)-DP at L2 sensitivity
    sqrt(t (k_bar - t) / k_bar), t = min(D, floor(k_bar / 2)), by the analytic Gaussian
    mechanism (Balle and Wang 2018, Theorem 8) on the differences of k_bar counts
    (docs/proofs/shift.md); its cost does not grow with k. For ``bound="paper"`` it is
    sqrt(min(D, k_bar)). The paper's Theorem 8 counts D twice, for its epsilon is
    sqrt(D) times that of a noise already made for sqrt(D).

    Source: Carvalho and Wang, appendix E (RN).

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.restricted_normal([3, 900, 700, 5], k=2, k_bar=3, epsilon=1.0, delta=1e-6,
    ...                      max_items_per_user=8).items
    (1, 2)
    """
    plan = plan_restricted_normal(
        counts,
        k=k,
        epsilon=epsilon,
        delta=delta,
        max_items_per_user=max_items_per_user,
        k_bar=k_bar,
        mechanism_epsilon=mechanism_epsilon,
        mechanism_delta=mechanism_delta,
        bound=bound,
    )
    return plan.draw(rng)


def plan_restricted_normal(
    counts: Counts,
    *,
    epsilon: float,
    max_items_per_user: int | None = None,
    mechanism_epsilon: float | None = None,
    bound: Bound = "exact",
    **more: Any,
) -> Plan:
    """Check a call of `restricted_normal`; arguments as there."""
    h = counts if isinstance(counts, Histograms) else as_histogram(counts)
    user = h.bound_of_user(max_items_per_user)
    if mechanism_epsilon is None and user is not None:
        epsilon = positive("epsilon", epsilon)
        mechanism_epsilon = difference_down(epsilon, epsilon * min(4 / user, 0.5))
    return plan_restricted(
        "normal",
        h,
        epsilon=epsilon,
        mechanism_epsilon=mechanism_epsilon,
        options={"max_items_per_user": user, "bound": bound},
        bound=bound,
        **more,
    )
