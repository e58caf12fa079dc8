"""Noise from a ball of the maximum norm on all scores, and the k largest."""

from __future__ import annotations

import math
from fractions import Fraction

from dptopk._validate import counts_array, integer, positive
from dptopk.histogram import Counts, Histogram
from dptopk.mechanisms._plan import Plan, for_groups, plans_by_group
from dptopk.mechanisms._select import scores_over, select_from
from dptopk.release import Cost, Release
from dptopk.rng import Rng, acquire, release

__all__ = ["gamma", "plan_gamma"]

THEOREM = "Steinke and Ullman 2015, noise in the maximum norm, on integers"
DOUBLE = 2**53  # odd integers up to here, and their halves, are doubles


@for_groups
def gamma(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    largest: bool = True,
    rng: Rng | None = None,
) -> Release:
    """Pick k items over the full domain by noise whose cost does not grow with k.

    Draws one radius for all items, from a discrete gamma-like law; then adds to
    every score noise that is uniform within that radius, and returns the k largest.
    The radius is about n_items sensitivity / epsilon (half of that for counts). So
    use it for small domains and large k; elsewhere `peel` or `oneshot` are far better.

    Parameters
    ----------
    counts : Histogram, Histograms or array of integers, shape (d,)
        Users per item over a known domain; items that a truncated histogram
        left out count what the next one does. With ``monotone=False`` an array holds
        scores of any sign.
    k : int
        How many items to pick, 1 <= k <= d.
    epsilon : float
        What the release costs.
    sensitivity : float, default 1
        How far one user can move a score.
    monotone : bool, optional
        Whether a user moves all scores one way; otherwise the noise is doubled.
        True by default. False gives the mechanism as it is published.
    largest : bool, default True
        Whether to pick the largest scores or the smallest.
    rng : optional
        None for secure randomness; see `SeededRng` for experiments.

    Returns
    -------
    Release, or Releases for Histograms
        k items, best first.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range; real-valued scores are
        of the wrong kind, as the radius is an integer.
    UnknownDomainError
        If the items were read off the data.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **Guarantee**: (epsilon, 0)-DP when one user is added or removed, whatever k:
    with ``monotone=False`` the whole vector of noisy scores, rounded to integers,
    has a chance that falls by exp(-epsilon / sensitivity) per unit of the
    noise's maximum norm. If a user moves all scores one way, half the noise does,
    as picks don't change when all scores move alike. `dptopk.reference.gamma`
    has the proofs. Ties are broken at random.

    Cost: about 0.2 ms for the radius; then as in `noisy_topk`, with more items
    looked at where the noise is not much wider than the scores are apart.

    Examples
    --------
    >>> import dptopk as dp
    >>> dp.gamma([3, 900, 700, 5], k=2, epsilon=1.0).indices
    array([1, 2])
    """
    plan = plan_gamma(
        counts, k=k, epsilon=epsilon, sensitivity=sensitivity, monotone=monotone, largest=largest
    )
    return plan.draw(rng)


@plans_by_group
def plan_gamma(
    counts: Counts,
    *,
    k: int,
    epsilon: float,
    sensitivity: float = 1.0,
    monotone: bool | None = None,
    largest: bool = True,
    groups: int = 1,
) -> Plan:
    """Check a call of `gamma`; arguments as there."""
    k = integer("k", k)
    epsilon = positive("epsilon", epsilon)
    sensitivity = positive("sensitivity", sensitivity, toward=math.inf)
    if not isinstance(counts, Histogram):
        counts = counts_array("counts", counts)
    scores = scores_over(counts, "gamma", monotone=monotone, k=k, largest=largest)
    from dptopk.reference.gamma import envelope, radius, scale_of_radius  # loads mpmath
    from dptopk.reference.race import Tape

    rate = Fraction(epsilon) / groups / Fraction(sensitivity)
    likeliest, _ = envelope(scores.n_items, rate)
    # Cut for the radius to expect, before the first draw; it sets the cost, not the law.
    usual = float(scale_of_radius(likeliest, monotone=scores.monotone))
    head = scores.head(k=k, scale=usual)
    cost = Cost(epsilon, 0.0, THEOREM)

    def draw(rng: Rng | None) -> Release:
        source = acquire(rng)
        try:
            tau = radius(Tape(source.read, source.fresh), scores.n_items, rate)
            source.begin()  # the race's first word is the next one
            scale = scale_of_radius(tau, monotone=scores.monotone)
            picks = select_from(
                source,
                head,
                k=k,
                scale=float(scale) if 2 * tau + 1 < DOUBLE else scale,
                noise="uniform",
            )
            private = source.private
        finally:
            release(source)
        picks = scores.items_of(picks)
        return Release(
            indices=picks,
            labels=scores.labels_of(picks),
            ordered=True,
            complete=True,
            cost=cost,
            mechanism="gamma",
            by_counts=scores.monotone and sensitivity <= 1.0,
            private=private,
            parameters={
                "k": k,
                "sensitivity": sensitivity,
                "monotone": scores.monotone,
                "n_items": scores.n_items,
            },
        )

    return Plan(cost, draw)
