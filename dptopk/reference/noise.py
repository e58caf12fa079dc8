"""Exact laws of noisy selection, for noise of any law: order statistics by quadrature.

Items with scores x_i get independent noise of distribution F; who has the k
largest sums? One integral over the k-th largest answers that for sets, and k
nested ones for sequences. The integrands are smooth between the scores, where
Gauss-Legendre panels are good to about 1e-14.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

__all__ = ["LAWS", "Panels", "sequence_law", "set_law"]

Array = npt.NDArray[np.float64]
REACH = 60.0  # scales beyond the scores: what lies past it weighs e^-60
PANEL = 1.0  # widest panel, in scales
NODES = 24  # per panel


class Noise(NamedTuple):
    """Density, distribution and survival functions of a standard noise."""

    density: Callable[[Array], Array]
    below: Callable[[Array], Array]
    above: Callable[[Array], Array]


#: Where a law is not smooth, if not at 0 alone.
KINKS = {"uniform": (-2.0, 0.0)}


def _gumbel_density(z: Array) -> Array:
    z = np.maximum(z, -30.0)  # there it is 0
    return np.asarray(np.exp(-z - np.exp(-z)))


def _decay(z: Array) -> Array:
    """exp(-z) for z >= 0, and 1 below."""
    return np.asarray(np.exp(-np.maximum(z, 0.0)))


#: Noise laws by the names that the mechanisms use.
LAWS = {
    "gumbel": Noise(
        _gumbel_density,
        lambda z: np.exp(-np.exp(-np.maximum(z, -30.0))),
        lambda z: -np.expm1(-np.exp(-np.maximum(z, -30.0))),
    ),
    "exponential": Noise(
        lambda z: np.where(z > 0, _decay(z), 0.0),
        lambda z: -np.expm1(-np.maximum(z, 0.0)),
        _decay,
    ),
    "laplace": Noise(
        lambda z: 0.5 * np.exp(-np.abs(z)),
        lambda z: np.where(z < 0, 0.5 * _decay(-z), 1 - 0.5 * _decay(z)),
        lambda z: np.where(z < 0, 1 - 0.5 * _decay(-z), 0.5 * _decay(z)),
    ),
    "gaussian": Noise(
        lambda z: np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi),
        special.ndtr,
        lambda z: special.ndtr(-z),
    ),
    "uniform": Noise(
        lambda z: np.where((z > -2) & (z < 0), 0.5, 0.0),
        lambda z: np.clip(1 + z / 2, 0.0, 1.0),
        lambda z: np.clip(-z / 2, 0.0, 1.0),
    ),
}


@functools.cache
def _rule() -> tuple[Array, Array, Array]:
    """Nodes and weights on [0, 1], and the matrix that integrates from each node to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    basis = np.linalg.inv(np.polynomial.legendre.legvander(nodes, NODES - 1))
    antiderivative = np.polynomial.legendre.legint(basis, lbnd=1)
    to_end = -np.polynomial.legendre.legval(nodes, antiderivative).T
    return (nodes + 1) / 2, weights / 2, to_end / 2


class Panels:
    """A line cut at the kinks; functions on it are arrays of shape (panels, NODES)."""

    def __init__(self, scores: Sequence[float], scale: float, kinks: Sequence[float] = (0.0,)):
        ends = {min(scores) / scale - REACH, max(scores) / scale + REACH}
        for kink in kinks:
            ends.update(score / scale + kink for score in scores)
        cuts: list[float] = []
        for low, high in itertools.pairwise(sorted(ends)):
            pieces = int(np.ceil((high - low) / PANEL))
            cuts.extend(low + (high - low) * i / pieces for i in range(pieces))
        cuts.append(max(ends))
        self.widths = np.diff(cuts)[:, None]
        nodes, self.weights, self.to_end = _rule()
        self.points = np.array(cuts[:-1])[:, None] + self.widths * nodes

    def integral(self, f: Array) -> float:
        """Over the whole line."""
        return float(((f * self.widths) @ self.weights).sum())

    def beyond(self, f: Array) -> Array:
        """From every point to the end of the line."""
        whole = (f * self.widths) @ self.weights
        after = np.concatenate((np.cumsum(whole[::-1])[::-1][1:], [0.0]))
        return np.asarray((f * self.widths) @ self.to_end.T + after[:, None])


def _tables(scores: Mapping[Any, float], scale: float, noise: str) -> tuple[Panels, dict[Any, Any]]:
    panels = Panels(list(scores.values()), scale, KINKS.get(noise, (0.0,)))
    law = LAWS[noise]
    tables: dict[Any, Any] = {}
    for item, score in scores.items():
        z = panels.points - score / scale
        tables[item] = Noise(*(f(z) for f in law))  # type: ignore[arg-type]
    return panels, tables


def set_law(
    scores: Sequence[float], *, k: int, scale: float, noise: str
) -> dict[tuple[int, ...], float]:
    """Chance of every set of k items to hold the k largest noisy scores.

    Parameters
    ----------
    scores : sequence of float, shape (items,)
        One per item.
    k : int
        Size of the sets, at most ``len(scores)``.
    scale : float
        Scale of the noise, in units of the scores.
    noise : str
        One of `LAWS`.

    Returns
    -------
    dict of tuple to float
        Each set, as indices in item order, and its probability.

    Examples
    --------
    >>> from dptopk.reference.noise import set_law
    >>> chance = set_law([2, 1, 0], k=2, scale=1.0, noise="exponential")
    >>> {items: round(p, 3) for items, p in chance.items()}
    {(0, 1): 0.808, (0, 2): 0.176, (1, 2): 0.017}
    """
    panels, tables = _tables(dict(enumerate(scores)), scale, noise)
    chances = {}
    for items in itertools.combinations(range(len(scores)), k):
        others = np.ones_like(panels.points)
        for other in set(tables) - set(items):
            others = others * tables[other].below
        kth = np.zeros_like(panels.points)
        for last in items:
            density = tables[last].density
            for item in items:
                if item != last:
                    density = density * tables[item].above
            kth = kth + density
        chances[items] = panels.integral(kth * others)
    return chances


def sequence_law(
    scores: Mapping[Any, float], *, k: int, scale: float, noise: str, stop: Any = None
) -> dict[tuple[Any, ...], float]:
    """Chance of every sequence of the k largest noisy scores, largest first.

    Parameters
    ----------
    scores : mapping of item to float
        Who competes.
    k, scale, noise
        As in `set_law`.
    stop : item, optional
        A competitor that ends the sequence when it comes; it is its last element.

    Returns
    -------
    dict of tuple to float
        Each sequence and its probability.

    Examples
    --------
    >>> from dptopk.reference.noise import sequence_law
    >>> chance = sequence_law({0: 2, "end": 1}, k=2, scale=1.0, noise="laplace", stop="end")
    >>> {items: round(p, 3) for items, p in chance.items()}
    {(0, 'end'): 0.724, ('end',): 0.276}
    """
    panels, tables = _tables(scores, scale, noise)
    chances: dict[tuple[Any, ...], float] = {}

    def extend(items: tuple[Any, ...], ahead: Array) -> None:
        """`ahead`: the chance that the items come in this order, all above a point."""
        for item in scores:
            if item in items:
                continue
            density = tables[item].density * ahead
            sequence = (*items, item)
            if len(sequence) == min(k, len(scores)) or (stop is not None and item == stop):
                for other in scores:
                    if other not in sequence:
                        density = density * tables[other].below
                chances[sequence] = panels.integral(density)
            else:
                extend(sequence, panels.beyond(density))

    extend((), np.ones_like(panels.points))
    return chances
