"""The most frequent items where people with many items count less for each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple, overload

import numpy as np

from dptopk import _core
from dptopk._counts import Head, head_size
from dptopk._validate import boolean, integer, positive, probability
from dptopk.accounting.weighted import WeightedNoise, split_noise, weighted_noise
from dptopk.accounting.weights import GRID, ONE
from dptopk.histogram import Histogram, Histograms, weighted_histogram
from dptopk.mechanisms._plan import Plan, in_each, together
from dptopk.mechanisms._select import exact_field, full_head
from dptopk.release import Cost, Release
from dptopk.releases import Releases
from dptopk.rng import Rng, acquire, release

__all__ = ["Call", "Pricing", "call_weighted", "plan_weighted", "price_weighted", "weighted"]

THEOREMS = {
    "gaussian": "Balle and Wang 2018, Theorem 8, L2 sensitivity sqrt({})",
    "laplace": "the Laplace mechanism, L1 sensitivity {}",
}


class Pricing(NamedTuple):
    """What a release of sums of weights does and costs, from public numbers alone.

    Attributes
    ----------
    noise : WeightedNoise
        Noise, scale and threshold, in units of 2**-20 users.
    cost : Cost
    rho : float or None
        What Gaussian noise costs as zero-concentrated DP, where no threshold adds to it.
    """

    noise: WeightedNoise
    cost: Cost
    rho: float | None


@overload
def weighted(
    h: Histogram,
    *,
    k: int | None = None,
    epsilon: float,
    delta: float = 0.0,
    min_users: int | None = None,
    max_items_per_user: int | None = None,
    release_weights: bool = False,
    rng: Rng | None = None,
) -> Release: ...


@overload
def weighted(
    h: Histograms,
    *,
    k: int | None = None,
    epsilon: float,
    delta: float = 0.0,
    min_users: int | None = None,
    max_items_per_user: int | None = None,
    release_weights: bool = False,
    rng: Rng | None = None,
) -> Releases: ...


def weighted(
    h: Histogram | Histograms,
    *,
    k: int | None = None,
    epsilon: float,
    delta: float = 0.0,
    min_users: int | None = None,
    max_items_per_user: int | None = None,
    release_weights: bool = False,
    rng: Rng | None = None,
) -> Release | Releases:
    """Pick the items of most weight, where users with many items count less for each.

    A user with t items counts 1 for each of them if t is at most tau, the soft cap
    of the histogram; with more items sqrt(tau / t) or tau / t for each. So no items
    are dropped, and the noise is that for users of tau items. Over an unknown domain
    only items above a threshold come out. One release serves every k, at no further
    cost: ``release.top(k)``.

    Parameters
    ----------
    h : Histogram
        With a soft cap, of a known or an unknown domain: see `Histogram.from_events`
        and `Histogram.from_weights`.
    k : int, optional
        How many items to pick at most. By default all that pass the threshold. A
        known domain has no threshold, unless `min_users` sets one, and needs k.
    epsilon : float
        The total the release costs.
    delta : float, default 0
        The total delta. 0 only with norm "l1" over a known domain.
    min_users : int, optional
        Raise the threshold by this many users. Over a known domain this is the
        threshold.
    max_items_per_user : int, optional
        A bound on the items one user has, known beforehand; it may be large. Needed
        over an unknown domain, unless the histogram has one.
    release_weights : bool, default False
        Whether the noisy sums come out too, which costs nothing.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release, or Releases for Histograms
        Items by descending noisy weight; ``complete`` is False if fewer than k came
        out. ``weights`` has their noisy weights, if released, in users.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, the histogram has no
        soft cap, or nothing bounds the items of a user of an unknown domain.
    RandomnessError
        If there is no secure source of random bits.

    See Also
    --------
    limited_domain : where the plain number of users must decide.
    noisy_counts : their plain numbers of users afterwards, at their own cost.

    Notes
    -----
    **Guarantee**: (epsilon, delta)-DP when one user, who has at most
    max_items_per_user items, is added or removed. What one user adds has an L2 norm of
    at most sqrt(tau) (noise: Gaussian) or an L1 norm of at most tau (noise: Laplace).
    Over a known domain this is the analytic Gaussian mechanism, or the Laplace
    mechanism, pure. Over an unknown one the noise is the same, and the threshold the
    least that keeps delta for every number t of items and every u of them that are
    nobody else's: delta is not split. The sums are exact integers in units of 2**-20
    users, each weight rounded down; the noise is over the real numbers, and what is
    shown of a noisy sum is its whole part in 2**-10 users. Proof: docs/proofs/weighted.md.

    The order is by weight, not by number of users: users with few items decide more.
    A minimum of users per item alone would not be private; `min_users` only
    makes the threshold higher.

    Examples
    --------
    >>> import dptopk as dp
    >>> unit = dp.accounting.weight(2, soft_cap=1, norm="l1")  # of two items each
    >>> h = dp.Histogram.from_weights([900 * unit, 450 * unit, 450 * unit], ["tea", "jam", "ale"],
    ...                               soft_cap=1, norm="l1", max_items_per_user=10)
    >>> release = dp.weighted(h, epsilon=1, delta=1e-6)
    >>> release.labels[0], len(release)
    ('tea', 3)
    >>> release.top(1)
    <Release of 1 by weighted: ['tea']; epsilon=1, delta=1e-06>
    """
    plan = plan_weighted(
        h,
        k=k,
        epsilon=epsilon,
        delta=delta,
        min_users=min_users,
        max_items_per_user=max_items_per_user,
        release_weights=release_weights,
    )
    return plan.draw(rng)


def plan_weighted(
    h: Histogram | Histograms,
    *,
    k: int | None = None,
    epsilon: float,
    delta: float = 0.0,
    min_users: int | None = None,
    max_items_per_user: int | None = None,
    release_weights: bool = False,
) -> Plan:
    """Check a call of `weighted`; arguments as there."""
    call = call_weighted(
        h,
        k=k,
        min_users=min_users,
        max_items_per_user=max_items_per_user,
        release_weights=release_weights,
    )
    priced = price_weighted(
        positive("epsilon", epsilon),
        probability("delta", delta, zero=True),
        call.soft_cap,
        call.norm,
        max_items_per_user=call.max_items_per_user,
        n_items=call.histogram.n_items,
        min_users=call.min_users,
    )
    return call.at(priced.noise, priced.cost)


class Call(NamedTuple):
    """A call of `weighted` that has passed every check and has no budget yet.

    `max_items_per_user` is the bound that holds for the histogram's users.
    """

    histogram: Histogram | Histograms
    k: int | None
    soft_cap: int
    norm: str
    max_items_per_user: int | None
    min_users: int | None
    release_weights: bool

    def at(self, noise: WeightedNoise, cost: Cost) -> Plan:
        """Return the plan with this noise and threshold, whose release says that it costs this."""
        h, k = self.histogram, self.k
        if isinstance(h, Histograms):
            return self._by_group(h, noise, cost)

        def draw(rng: Rng | None) -> Release:
            picks, weights, private = self._picks(h, k, noise, rng)
            return self._release(noise, cost)(
                indices=picks if h.known_domain else None,
                labels=h.labels_of(picks),
                weights=weights,
                complete=k is None or picks.size == k,
                private=private,
            )

        return Plan(cost, draw)

    def _picks(
        self, h: Histogram, k: int | None, noise: WeightedNoise, rng: Rng | None
    ) -> tuple[np.ndarray, np.ndarray | None, bool]:
        head, most = _head_of(h, k, noise.scale, noise.threshold)
        return _pick(head, most, noise, self.release_weights, rng)

    def _release(self, noise: WeightedNoise, cost: Cost) -> Callable[..., Release]:
        """Return what makes a release of picks."""
        return partial(
            Release,
            ordered=True,
            cost=cost,
            mechanism="weighted",
            by_counts=True,  # of users with weights of at most 1
            parameters={
                "k": self.k,
                "soft_cap": self.soft_cap,
                "norm": self.norm,
                "max_items_per_user": self.max_items_per_user,
                "min_users": self.min_users,
                "noise": noise.noise,
                "scale": noise.scale / ONE,
                "threshold": None if noise.threshold is None else noise.threshold / ONE,
            },
        )

    def _by_group(self, hs: Histograms, noise: WeightedNoise, cost: Cost) -> Plan:
        """Plan the noise of all pairs of a group and an item: the price is the same.

        With a threshold all pairs that pass are released, of which the first in each group
        come out. So groups that were read off the data show where a pair of theirs passed.
        """
        if noise.threshold is None:
            return in_each(hs, lambda h: self._replace(histogram=h).at(noise, cost))
        whole, k = together(cost, hs), self.k
        release = self._release(noise, whole)

        def draw(rng: Rng | None) -> Releases:
            pairs, weights, private = self._picks(hs.pairs(), None, noise, rng)
            found = dict(hs.split(pairs))
            nothing = np.empty(0, np.int64)
            places = list(range(len(hs))) if hs.public else list(found)
            releases = []
            for place in places:
                which = found.get(place, nothing)[:k]
                labels = hs.labels_of(place, pairs[which])
                releases.append(
                    release(
                        indices=hs.items_of(place, pairs[which]) if hs.known_domain else None,
                        labels=labels,
                        weights=None if weights is None else weights[which],
                        complete=k is None or which.size == k,
                        private=private,
                    )
                )
            groups = hs.groups
            return Releases(
                [groups[place] for place in places],
                releases,
                cost=whole,
                mechanism="weighted",
                private=private,
            )

        return Plan(whole, draw)

    def at_price(self, price: Fraction, mass: Fraction | None, cost: Cost) -> Plan:
        """Return the plan at a price and a threshold's mass: see `split_noise`."""
        n_items = self.histogram.n_items
        noise = split_noise(
            price,
            soft_cap=self.soft_cap,
            norm=self.norm,
            max_items_per_user=_most(self.max_items_per_user, n_items),
            mass=mass,
        )
        return self.at(_raised(noise, self.min_users), cost)


def call_weighted(
    h: Histogram | Histograms,
    *,
    k: int | None = None,
    min_users: int | None = None,
    max_items_per_user: int | None = None,
    release_weights: bool = False,
) -> Call:
    """Check everything about a call but its budget; arguments as in `weighted`."""
    h, soft_cap, norm = weighted_histogram(h)
    if min_users is not None:
        min_users = integer("min_users", min_users)
    k = _checked_k(k, h.least_items if isinstance(h, Histograms) else h.n_items, min_users)
    user = h.bound_of_user(max_items_per_user)
    release_weights = boolean("release_weights", release_weights)
    return Call(h, k, soft_cap, norm, user, min_users, release_weights)


def _checked_k(k: Any, n_items: int | None, min_users: int | None) -> int | None:
    """Return k if it goes with the domain; `n_items` is the size of a known one."""
    if k is not None:
        k = integer("k", k)
        if n_items is not None and k > n_items:
            raise ValueError(f"k must be at most the number of items, {n_items}; got {k}")
    elif n_items is not None and min_users is None:
        raise TypeError(
            "k or min_users must be given: over a known domain there is no threshold to pass"
        )
    return k


@lru_cache(maxsize=1024)
def price_weighted(
    epsilon: float,
    delta: float,
    soft_cap: int,
    norm: str,
    *,
    max_items_per_user: int | None,
    n_items: int | None,
    min_users: int | None = None,
) -> Pricing:
    """Return the noise, the threshold and the cost; `n_items` is the size of a known domain."""
    known = n_items is not None
    if delta == 0.0 and not (known and norm == "l1"):
        which = "norm 'l2'" if norm == "l2" else "an unknown domain"
        raise ValueError(f"{which} needs delta > 0, got 0.0")
    if norm == "l1" and known:
        delta = 0.0
    most = _most(max_items_per_user, n_items)
    plan = weighted_noise(
        epsilon=epsilon,
        delta=delta,
        soft_cap=soft_cap,
        norm=norm,
        max_items_per_user=most,
        known_domain=known,
    )
    cap = soft_cap if most is None else min(soft_cap, most)
    theorem = THEOREMS[plan.noise].format(cap)
    rho = None
    if plan.threshold is not None:
        theorem += ", and a threshold for what is one user's alone"
    elif norm == "l2":
        rho = ONE * ONE * cap / (2.0 * plan.scale * plan.scale) * (1.0 + 2.0**-50)
    plan = _raised(plan, min_users)
    return Pricing(plan, Cost(epsilon, delta, theorem), rho)


def _most(max_items_per_user: int | None, n_items: int | None) -> int | None:
    """Return the most items that a user has; `n_items` is the size of a known domain."""
    if max_items_per_user is None and n_items is None:
        raise TypeError(
            "max_items_per_user must be given, or have bounded the histogram's users: of an "
            "unknown domain the threshold depends on it; it may be large"
        )
    return min((n for n in (max_items_per_user, n_items) if n is not None), default=None)


def _raised(noise: WeightedNoise, min_users: int | None) -> WeightedNoise:
    """Return the noise with a threshold so many users higher."""
    if min_users is None:
        return noise
    threshold = (noise.threshold or 0) + min_users * ONE
    if threshold >= 2**62:
        raise ValueError(f"min_users is too large, got {min_users}")
    return noise._replace(threshold=threshold)


def _head_of(h: Histogram, k: int | None, scale: float, threshold: int | None) -> tuple[Head, int]:
    """Cut for the picks there may be, and say how many these are.

    Where the cut is changes the cost of a draw, never its law.
    """
    n, tail = len(h), h.tail
    if k is not None and n:
        keys, items = full_head(h.head, n, k=min(k, n), scale=scale, tail=tail)
    elif not n:
        keys, items = h.head(0)
    else:
        assert tail is not None
        assert threshold is not None
        likely = int(np.count_nonzero(tail > threshold - 2.0 * scale))
        keys, items = h.head(head_size(n, max(1, likely)))
    most = n if k is None else min(k, n)
    return Head(keys, items, tail if keys.size < n else None, False), max(1, most)


def _pick(
    head: Head, k: int, plan: WeightedNoise, valued: bool, rng: Any
) -> tuple[np.ndarray, np.ndarray | None, bool]:
    """Return the picks, their noisy sums in users on request, and whether privately drawn."""
    source = acquire(rng)
    try:
        found = _core.race(
            source,
            head.keys,
            head.items,
            k,
            plan.scale,
            _core.NOISES[plan.noise],
            tail=head.tail,
            stop=0 if plan.threshold is None else _core.FIXED,
            stop_key=plan.threshold or 0,
            valued=True,
        )
        floors = None
        if found is not None:
            picks, bounds = found
            if picks.size and picks[-1] == _core.STOP:
                picks, bounds = picks[:-1], bounds[:-1]
            floors = _floors(head, plan.scale, bounds) if valued else np.empty(0, np.int64)
        if floors is None:
            picks, floors = _replay(source, head, k, plan, valued)
        private = source.private
    finally:
        release(source)
    return picks.copy(), floors * (GRID / ONE) if valued else None, private


def _replay(
    source: _core.Source, head: Head, k: int, plan: WeightedNoise, valued: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the picks and whole parts that doubles could not decide."""
    from dptopk.reference import weighted as exact  # loads mpmath: seldom needed
    from dptopk.reference.race import Tape

    stop = None if plan.threshold is None else (plan.threshold, 0.0)
    field = replace(exact_field(head, offsets=None, stop=stop), fixed=True)
    picks, floors = exact.draw(
        Tape.replay(source), field, k=k, scale=plan.scale, noise=plan.noise, values=valued
    )
    return np.array(picks, np.int64), np.array(floors, np.int64)


def _floors(head: Head, scale: float, bounds: np.ndarray) -> np.ndarray | None:
    """Return the whole parts of noisy sums in units of GRID, or None if some are not certain.

    Bounds are of (sum + noise - the first sum) / scale.
    """
    base = int(head.keys[0]) if head.keys.size else 0
    whole, rest = divmod(base, GRID)
    reach = scale * bounds
    reach += np.abs(reach) * 2.0**-50 * np.array([-1.0, 1.0])
    ends = np.floor((reach + rest) / GRID + np.array([-(2.0**-40), 2.0**-40]))
    if not (np.isfinite(ends).all() and (ends[:, 0] == ends[:, 1]).all()):
        return None
    return whole + ends[:, 0].astype(np.int64)
