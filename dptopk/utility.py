"""What accuracy can be expected: theorems on utility, as pure functions.

They tell about assumed data. Nothing is released, and nothing costs privacy,
unless you take a gap from real counts. A gap is a difference of counts, in users.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from dptopk._types import Bound
from dptopk._validate import choice, integer, nonnegative, positive, probability
from dptopk.accounting import step_epsilon
from dptopk.accounting.stability import stability_threshold
from dptopk.rounding import below, difference_down

__all__ = [
    "limited_domain_accuracy",
    "limited_domain_gap",
    "oneshot_recovers",
    "restricted_gap",
    "top_stable_gap",
    "top_stable_needs_less",
]

BOUNDS = ("exact", "paper")


def oneshot_recovers(
    *,
    gap: float,
    n_items: int,
    scale: float,
    k: int | None = None,
    noise: Literal["gumbel", "exponential", "laplace", "gaussian"] = "laplace",
) -> float:
    """Return a lower bound of the chance that one-shot selection finds the true top k.

    Parameters
    ----------
    gap : float
        With `k` the k-th largest score less the next one; without, the least difference
        between two scores that follow each other in order, over all items.
    n_items : int
        How many items there are.
    scale : float
        Scale of the noise, ``release.parameters["scale"]``, in units of the gap.
    k : int, optional
        How many are picked.
    noise : {"laplace", "gumbel", "exponential", "gaussian"}
        Law of the noise, ``release.parameters["noise"]``.

    Returns
    -------
    float
        max(0, 1 - pairs P(x)), x = gap / scale, rounded down. P(x) is the chance that two
        scores a gap apart are turned round; pairs is n_items - 1 without `k`, and
        k (n_items - k) with it.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Notes
    -----
    Without `k` it is Theorem 2.3 of Qiao, Su and Zhang 2021, for any k, and for the largest
    as for the smallest: if no two neighbours in the order are turned round, the set is right.
    With it the set is right if no item outside passes one inside, and only the gap between
    the two counts. P(x) is (2 + x) exp(-x) / 4 for Laplace noise, exp(-x) / 2 for
    exponential, 1 / (1 + exp(x)) for Gumbel, and 1 - Phi(x / sqrt(2)) for Gaussian noise.

    Examples
    --------
    >>> from dptopk.utility import oneshot_recovers
    >>> oneshot_recovers(gap=20.0, n_items=8_000_000, scale=1.0) > 0.9
    True
    >>> oneshot_recovers(gap=1.0, n_items=100, scale=1.0)
    0.0
    >>> round(oneshot_recovers(gap=15.0, n_items=1000, scale=1.0, k=10, noise="gumbel"), 4)
    0.997
    """
    gap = nonnegative("gap", gap)
    n_items = integer("n_items", n_items)
    scale = positive("scale", scale, toward=math.inf)
    noise = choice("noise", noise, tuple(_TURNED))
    pairs = n_items - 1
    if k is not None:
        k = integer("k", k)
        if k > n_items:
            raise ValueError(f"k must be at most n_items = {n_items}, got {k}")
        pairs = k * (n_items - k)
    if not pairs:
        return 1.0
    # Logarithms: the number of pairs and P(x) may each be past the range of floats. x is
    # rounded down; at x <= 1e4 the exponent is right to 1e-11, for Gaussian noise relatively.
    x = below(min(gap / scale, 1e4))
    log_failure = math.log(pairs) + _TURNED[noise](x)
    failure = math.exp(min(log_failure, 1.0)) * (1 + 1e-11)
    return difference_down(1.0, failure) if failure < 1.0 else 0.0


def _turned_by_gaussian(x: float) -> float:
    from scipy.special import log_ndtr  # loads SciPy

    return float(log_ndtr(-x / math.sqrt(2.0))) * (1 - 1e-13)


#: Logarithm of the chance that noise of scale 1 turns two scores round that are x apart.
_TURNED: dict[str, Callable[[float], float]] = {
    "laplace": lambda x: math.log((2.0 + x) / 4.0) - x,
    "gumbel": lambda x: -x - math.log1p(math.exp(-x)),
    "exponential": lambda x: -x - math.log(2.0),
    "gaussian": _turned_by_gaussian,
}


def top_stable_gap(
    *,
    k: int,
    epsilon: float,
    delta: float,
    beta: float,
    k_bar: int | None = None,
    split: float = 0.37,
    bound: Bound = "exact",
) -> float:
    """Return a gap h_i - h_(i+1), k <= i <= k_bar, with which `top_stable` picks k items.

    Parameters
    ----------
    k : int
        How many items are wanted.
    epsilon, delta : float
        Of `top_stable`, with ``epsilon_select=0``.
    beta : float
        The chance to fail all the same, in (0, 1).
    k_bar : int, optional
        How many places are tested; k by default.
    split : float
        The share of epsilon that goes to the threshold.
    bound : {"exact", "paper"}
        "exact": 1 + the height of the threshold + how far the noises fall short of it
        with chance beta. "paper": Theorem 4.1 of Carvalho and others 2020,
        1 + (4 / epsilon) (ln(k_bar / delta) + ln(1 / beta)), for a split in (3/7, 1/2).

    Returns
    -------
    float
        In users: a gap so large is enough, with chance 1 - beta.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Examples
    --------
    >>> from dptopk.utility import top_stable_gap
    >>> budget = {"k": 10, "epsilon": 1.0, "delta": 1e-6, "beta": 0.05}
    >>> [round(top_stable_gap(**budget, split=split), 1) for split in (0.37, 0.45)]
    [63.6, 68.6]
    >>> round(top_stable_gap(**budget, split=0.45, bound="paper"), 1)
    77.5
    """
    k, epsilon, delta, beta = _numbers(k, epsilon, delta, beta)
    k_bar = _wider(k, k_bar)
    split = probability("split", split, zero=False)
    if choice("bound", bound, BOUNDS) == "paper":
        if not 3 / 7 < split < 1 / 2:
            raise ValueError(f"the paper's bound needs a split in (3/7, 1/2), got {split}")
        return 1 + 4 / epsilon * (math.log(k_bar / delta) - math.log(beta))
    scales = {
        "query_scale": 2 / ((1 - split) * epsilon),
        "threshold_scale": 1 / (split * epsilon),
    }
    height = stability_threshold(delta, tests=k_bar, **scales)
    return 1 + height + stability_threshold(beta, **scales)


def limited_domain_gap(
    *,
    k: int,
    epsilon: float,
    delta: float,
    beta: float,
    k_bar: int | None = None,
    bound: Bound = "exact",
) -> float:
    """Return a gap h_k - h_(k_bar+1) with which `limited_domain` picks k items.

    1 + (ln(k_bar / delta) + ln(k / beta)) / epsilon_step: Durfee and Rogers 2019, Lemma 3.1.

    Parameters
    ----------
    k, epsilon, delta, beta, k_bar
        As in `top_stable_gap`.
    bound : {"exact", "paper"}
        What epsilon_step is: "exact", what `limited_domain` uses, which gives half of delta
        to the threshold; "paper", epsilon / sqrt(k / 2) and all of delta, as in the proof of
        Theorem 4.2 of Carvalho and others 2020.

    Returns
    -------
    float
        In users. "exact": a gap so large is enough, with chance 1 - beta. "paper": the number
        that is printed there, which is no promise: no k steps of that epsilon_step are
        known to cost (epsilon, delta). With what they do cost, such a gap is too small: of 3,000
        calls at 10 equal counts none returned 10 items, where 95 in 100 were to.

    Examples
    --------
    >>> from dptopk.utility import limited_domain_gap
    >>> budget = {"k": 10, "epsilon": 1.0, "delta": 1e-6, "beta": 0.05}
    >>> [round(limited_domain_gap(**budget, bound=bound), 1) for bound in ("exact", "paper")]
    [149.3, 48.9]
    """
    k, epsilon, delta, beta = _numbers(k, epsilon, delta, beta)
    k_bar = _wider(k, k_bar)
    if choice("bound", bound, BOUNDS) == "paper":
        step, share = epsilon / math.sqrt(k / 2), delta
    else:
        step, share = step_epsilon(epsilon, k, delta / 2), delta / 2
    return 1 + (math.log(k_bar / share) + math.log(k / beta)) / step


def limited_domain_accuracy(
    *,
    k: int,
    epsilon: float,
    delta: float,
    beta: float,
    k_bar: int | None = None,
    bound: Bound = "exact",
) -> float:
    """Return an alpha for which what `limited_domain` picks is (alpha, k)-accurate.

    Parameters
    ----------
    k, epsilon, delta, beta
        As in `limited_domain_gap`.
    k_bar : int, optional
        How many of the largest counts take part; k by default.
    bound : {"exact", "paper"}
        "exact": ln(k (k_bar - k) / beta - 1) / epsilon_step. "paper": Lemma 3.1 of Durfee and
        Rogers 2019, ln(k k_bar / beta) / epsilon_step.

    Returns
    -------
    float
        In users: no item that comes out counts less than h_k - alpha, with chance 1 - beta.

    Notes
    -----
    An item j outside the true top k is picked only if it passes one of those, i: k (k_bar - k)
    pairs. With Gumbel noise one that counts alpha less passes with a chance of
    1 / (1 + exp(epsilon_step alpha)). See `dptopk.metrics.accuracy_alpha`.

    Examples
    --------
    >>> from dptopk.utility import limited_domain_accuracy
    >>> budget = {"k": 10, "epsilon": 1.0, "delta": 1e-6, "beta": 0.05, "k_bar": 1000}
    >>> [round(limited_domain_accuracy(**budget, bound=bound), 1) for bound in ("exact", "paper")]
    [81.8, 81.9]
    """
    k, epsilon, delta, beta = _numbers(k, epsilon, delta, beta)
    k_bar = _wider(k, k_bar)
    step = step_epsilon(epsilon, k, delta / 2)
    if choice("bound", bound, BOUNDS) == "paper":
        return (math.log(k) + math.log(k_bar) - math.log(beta)) / step
    odds = k * (k_bar - k) / beta - 1
    return math.log(odds) / step if odds > 1 else 0.0


def top_stable_needs_less(
    *, k: int, epsilon: float, delta: float, beta: float, bound: Bound = "exact"
) -> bool:
    """Tell whether `top_stable` needs a smaller gap for k items than `limited_domain`.

    At k_bar = k, where both need a gap h_k - h_(k+1).

    Parameters
    ----------
    k : int
        How many items are wanted, at least 2.
    epsilon, delta, beta
        As in `top_stable_gap`.
    bound : {"exact", "paper"}
        "exact" compares the gaps that this library's mechanisms need, at the default split;
        "paper" is Theorem 4.2 of Carvalho and others 2020:
        4 ln(k / (delta beta)) < sqrt(k / 2) ln(k^2 / (delta beta)), whatever epsilon.

    Returns
    -------
    bool

    Notes
    -----
    Both gaps are sufficient, not necessary, so that this is a rule of thumb.

    Examples
    --------
    >>> from dptopk.utility import top_stable_needs_less
    >>> budget = {"epsilon": 1.0, "delta": 1e-6, "beta": 0.05}
    >>> [top_stable_needs_less(k=k, **budget) for k in (2, 3, 10)]
    [False, False, True]
    >>> [top_stable_needs_less(k=k, **budget, bound="paper") for k in (10, 30, 100)]
    [False, True, True]
    """
    k, epsilon, delta, beta = _numbers(k, epsilon, delta, beta)
    if k < 2:
        raise ValueError(f"k must be an integer >= 2, got {k}")
    if choice("bound", bound, BOUNDS) == "paper":
        log = -math.log(delta) - math.log(beta)
        return 4 * (math.log(k) + log) < math.sqrt(k / 2) * (2 * math.log(k) + log)
    budget = {"k": k, "epsilon": epsilon, "delta": delta, "beta": beta}
    return top_stable_gap(**budget) < limited_domain_gap(**budget)  # type: ignore[arg-type]


def restricted_gap(
    *, k: int, epsilon: float, delta: float, beta: float, bound: Bound = "exact"
) -> float:
    """Return a gap h_(k_bar) - h_(k_bar+1) with which `restricted` returns all k picks.

    Whatever the mechanism picks from the top k_bar then passes all tests, with chance
    1 - beta; k_bar does not matter.

    Parameters
    ----------
    k, beta
        As in `top_stable_gap`.
    epsilon, delta : float
        What the tests get: ``epsilon_tests`` and ``delta_tests`` of the release.
    bound : {"exact", "paper"}
        "exact": a union over the k tests of their exact chance to fail. "paper": Theorem 4 of
        Carvalho and Wang, 1 + 4 ln(k / (sqrt(delta_q) beta)) / epsilon.

    Returns
    -------
    float
        In users.

    Notes
    -----
    By Theorem 5 there that is less than `limited_domain` needs for the same total if epsilon
    is at least 4 times the step that `limited_domain` would take.

    Examples
    --------
    >>> from dptopk.utility import restricted_gap
    >>> budget = {"k": 10, "epsilon": 0.6, "delta": 5e-7, "beta": 0.05}
    >>> [round(restricted_gap(**budget, bound=bound), 1) for bound in ("exact", "paper")]
    [74.3, 89.9]
    """
    k, epsilon, delta, beta = _numbers(k, epsilon, delta, beta)
    scales = {"query_scale": 2 / epsilon, "threshold_scale": 2 / epsilon}
    if choice("bound", bound, BOUNDS) == "paper":
        height = stability_threshold(delta, bound="paper", **scales)
        return 1 + height + 4 / epsilon * math.log(k / beta)
    return 1 + stability_threshold(delta, **scales) + stability_threshold(beta, tests=k, **scales)


def _numbers(k: int, epsilon: float, delta: float, beta: float) -> tuple[int, float, float, float]:
    return (
        integer("k", k),
        positive("epsilon", epsilon),
        probability("delta", delta, zero=False),
        probability("beta", beta, zero=False),
    )


def _wider(k: int, k_bar: int | None) -> int:
    k_bar = k if k_bar is None else integer("k_bar", k_bar)
    if k > k_bar:
        raise ValueError(f"k must be at most k_bar = {k_bar}, got {k}")
    return k_bar
