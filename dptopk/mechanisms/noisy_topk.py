"""The raw noise-and-select kernel, for those who calibrate by hand."""

from __future__ import annotations

import numpy as np

from dptopk import _core
from dptopk._types import Noise, Numbers
from dptopk._validate import choice, integer, positive, scores_array
from dptopk.mechanisms._select import head_of_scores, select
from dptopk.rng import Rng

__all__ = ["noisy_topk"]


def noisy_topk(
    scores: Numbers, k: int, *, scale: float, noise: Noise = "gumbel", rng: Rng | None = None
) -> np.ndarray:
    """Return the indices of the k largest of scores + noise, largest first.

    The drop-in for ``np.argpartition(-(scores + rng.gumbel(scale=scale, ...)), k)``:
    same law, but the noise of items that cannot come out is never drawn, the
    order is exactly that of real-valued noise (no rounding, no overflow), and
    the bits are secure by default.

    Parameters
    ----------
    scores : array of any integer or float dtype, shape (d,)
        Finite scores, in any order.
    k : int
        How many to pick, 1 <= k <= d.
    scale : float
        Scale of the noise, in units of the scores.
    noise : {"gumbel", "exponential", "laplace", "gaussian", "uniform"}
        Law of the noise. The scale is the b of Gumbel and Laplace noise, the
        mean of exponential noise, the standard deviation of Gaussian noise,
        half the range of uniform noise.
    rng : optional
        None for secure randomness; `SeededRng` or a `numpy.random.Generator`
        for experiments, which are not private.

    Returns
    -------
    numpy.ndarray of int64, shape (k,)

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If k or the scale is out of range, or a score is NaN or infinite.
    RandomnessError
        If there is no secure source of random bits.

    Notes
    -----
    **No guarantee**: this does no accounting. Gumbel noise of scale s/e on
    scores of sensitivity s that move all one way (counts) makes k picks out of
    k steps that are each e-bounded-range; of scale 2s/e on other scores.

    Cost: one pass over the scores, then time in k alone; more passes where
    thousands of scores tie far above the rest. The array must not change
    during the call.

    Examples
    --------
    >>> import numpy as np
    >>> import dptopk as dp
    >>> dp.noisy_topk(np.array([5, 900, 2, 700, 1]), 2, scale=1.0)
    array([1, 3])
    """
    array = scores_array("scores", scores)
    k = integer("k", k)
    if k > array.size:
        raise ValueError(f"k must be at most the number of scores, got {k}")
    scale = positive("scale", scale)
    noise = choice("noise", noise, _core.NOISES)
    head = head_of_scores(array, k=k, scale=scale)
    picks, _ = select(head, k=k, scale=scale, noise=noise, rng=rng)
    return picks
