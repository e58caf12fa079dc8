"""The limited-domain mechanism, readable: peel among the top k_bar and a stop.

Durfee and Rogers 2019, Algorithm 1. Only the k_bar largest counts compete,
against one more competitor, BOT, that ends the list. BOT stands one user and
``scale * ln(m / delta)`` above the (k_bar+1)-th count, m being how many items
one user can bring into the top k_bar (`movable`), so an item that a neighbour
would not even see is picked with probability at most delta / (1 + delta).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dptopk.reference.peel import plackett_luce, shares
from dptopk.reference.race import STOP, Field, Tape, race

BOT: Final = "BOT"
Outcome = tuple["int | str", ...]


def movable(k_bar: int, *, n_items: int | None, max_items_per_user: int | None) -> int:
    """How many items one user can move across the cut at k_bar: the m of the threshold.

    Parameters
    ----------
    k_bar : int
        Number of items that compete.
    n_items : int or None
        Size of the domain if it is known, None if the items were read off the data.
    max_items_per_user : int or None
        Most items one user can have, None if there is no bound.

    Returns
    -------
    int
        At least 1, also where nothing can cross the cut (``k_bar >= n_items``).

    Examples
    --------
    >>> from dptopk.reference.limited_domain import movable
    >>> movable(3, n_items=4, max_items_per_user=None)
    1
    >>> movable(3, n_items=None, max_items_per_user=2)
    2
    """
    bounds = [k_bar]
    if n_items is not None:
        bounds.append(n_items - k_bar)
    if max_items_per_user is not None:
        bounds.append(max_items_per_user)
    return max(1, min(bounds))


def cut(counts: Sequence[int], k_bar: int, *, known: bool) -> tuple[list[int], int]:
    """Who competes, and the count that is next in line.

    Parameters
    ----------
    counts : sequence of int, shape (items,)
        Distinct users per item.
    k_bar : int
        Number of items that compete. The (k_bar+1)-th count is all that is read of the
        others, so the answer to a query with LIMIT k_bar + 1 is enough.
    known : bool
        True: every index exists, also those that count 0. False: items that count 0
        are not there.

    Returns
    -------
    items : list of int
        Indices of the top k_bar, largest first, ties by index; fewer if there are fewer.
    next_count : int
        The (k_bar+1)-th count, 0 past the last item.

    Examples
    --------
    >>> from dptopk.reference.limited_domain import cut
    >>> cut([1, 3, 3, 0], 2, known=True)
    ([1, 2], 1)
    >>> cut([1, 0, 0, 0], 2, known=False)
    ([0], 0)
    """
    present = [i for i, count in enumerate(counts) if known or count > 0]
    order = sorted(present, key=lambda i: (-counts[i], i))
    next_count = counts[order[k_bar]] if len(order) > k_bar else 0
    return order[:k_bar], next_count


def law(
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    scale: float,
    threshold: float,
    known: bool = True,
) -> dict[Outcome, float]:
    """Chance of every outcome.

    Parameters
    ----------
    counts : sequence of int, shape (items,)
        Distinct users per item.
    k : int
        Most items that are picked.
    k_bar : int
        Number of items that compete, at least k.
    scale : float
        Scale of the Gumbel noise, in users.
    threshold : float
        ``ln(m / delta)``, in units of the scale.
    known : bool
        Whether items that count 0 are there (see `cut`).

    Returns
    -------
    dict of tuple to float
        Each outcome, a tuple of item indices with BOT as its last element if BOT came
        before the k-th item, and its probability.

    Examples
    --------
    >>> from dptopk.reference import limited_domain
    >>> chance = limited_domain.law([9, 1, 0], k=1, k_bar=1, scale=1.0, threshold=5.0)
    >>> {outcome: round(p, 3) for outcome, p in chance.items()}
    {(0,): 0.881, ('BOT',): 0.119}
    """
    items, next_count = cut(counts, k_bar, known=known)
    logits: dict[int | str, float] = {i: (counts[i] - next_count) / scale for i in items}
    logits[BOT] = 1 / scale + threshold
    return plackett_luce(logits, k, stop=BOT)


def private_k_bar_law(
    counts: Sequence[int],
    *,
    k: int,
    k_bar_max: int,
    scale: float,
    delta: float,
    known: bool = True,
    max_items_per_user: int | None = None,
    with_k_bar: bool = False,
) -> dict[Outcome, float]:
    """Chance of every outcome when k_bar is itself chosen privately, lowest BOT preferred.

    One more exponential mechanism, with the same noise, picks k_bar from k, ..., k_bar_max
    by the score ``-(h_(k_bar+1) + scale * ln(m(k_bar) / delta))``; the mechanism then runs
    at that k_bar. The range is fixed without the data: a query with LIMIT k_bar_max + 1
    answers it, and items missing from the answer count 0.

    Parameters
    ----------
    counts, k, scale, known
        As in `law`.
    k_bar_max : int
        Largest k_bar to choose from, at least k.
    delta : float
        The mechanism's delta, in (0, 1).
    max_items_per_user : int, optional
        Most items one user can have.
    with_k_bar : bool
        Put the chosen k_bar in front of each outcome. It is paid for either way.

    Returns
    -------
    dict of tuple to float
        Each outcome and its probability.

    Examples
    --------
    >>> from dptopk.reference import limited_domain
    >>> chance = limited_domain.private_k_bar_law(
    ...     [9, 9, 0], k=1, k_bar_max=2, scale=1.0, delta=0.01, known=False)
    >>> {outcome: round(p, 3) for outcome, p in chance.items()}
    {(0,): 0.484, ('BOT',): 0.033, (1,): 0.484}
    """
    n_items = len(counts) if known else None
    logits, laws = {}, {}
    for k_bar in range(k, k_bar_max + 1):
        m = movable(k_bar, n_items=n_items, max_items_per_user=max_items_per_user)
        threshold = math.log(m / delta)
        logits[k_bar] = -(cut(counts, k_bar, known=known)[1] / scale + threshold)
        laws[k_bar] = law(counts, k=k, k_bar=k_bar, scale=scale, threshold=threshold, known=known)
    mixture: dict[Outcome, float] = {}
    for k_bar, share in shares(logits).items():
        for picks, chance in laws[k_bar].items():
            outcome = (k_bar, *picks) if with_k_bar else picks
            mixture[outcome] = mixture.get(outcome, 0.0) + share * chance
    return mixture


def sample(
    tape: Tape,
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    scale: float,
    threshold: float,
    known: bool = True,
) -> Outcome:
    """Draw once from a tape of random words, exactly: the twin of the compiled mechanism.

    Parameters
    ----------
    tape : dptopk.reference.race.Tape
        Where the words come from.
    counts, k, k_bar, scale, threshold, known
        As in `law`.

    Returns
    -------
    tuple
        The picks, best first, ended by `BOT` if it came before the k-th.
    """
    return drawn(
        tape, cut(counts, k_bar, known=known), counts, k=k, scale=scale, threshold=threshold
    )


def drawn(
    tape: Tape,
    top: tuple[list[int], int],
    counts: Sequence[int],
    *,
    k: int,
    scale: float,
    threshold: float,
    noise: str = "gumbel",
) -> Outcome:
    """Run the race of a `cut` against BOT, with noise of any law."""
    items, next_count = top
    field = Field([counts[i] for i in items], items, stop=(next_count + 1, threshold))
    picks = race(tape, field, k=k, scale=scale, noise=noise)
    return tuple(BOT if pick == STOP else pick for pick in picks)


def sample_private_k_bar(
    tape: Tape,
    counts: Sequence[int],
    *,
    k: int,
    k_bar_max: int,
    scale: float,
    delta: float,
    known: bool = True,
    max_items_per_user: int | None = None,
) -> int:
    """Choose k_bar once from a tape of random words; arguments as in `private_k_bar_law`."""
    n_items = len(counts) if known else None
    choice = range(k, k_bar_max + 1)
    m = [movable(c, n_items=n_items, max_items_per_user=max_items_per_user) for c in choice]
    field = Field(
        [-cut(counts, c, known=known)[1] for c in choice],
        list(choice),
        offsets=[math.log(delta) - math.log(x) for x in m],
    )
    return race(tape, field, k=1, scale=scale)[0]


def naive_sample(
    counts: Sequence[int],
    *,
    k: int,
    k_bar: int,
    scale: float,
    threshold: float,
    draws: int,
    rng: np.random.Generator,
    known: bool = True,
) -> list[Outcome]:
    """Draw the way Algorithm 1 is printed: noise on every competitor, then a sort.

    A baseline for tests. Not private: double arithmetic, and a generator that is no
    secure source.

    Parameters
    ----------
    counts, k, k_bar, scale, threshold, known
        As in `law`.
    draws : int
        Number of independent draws.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    list of tuple
        One outcome a draw, as in `law`.

    Examples
    --------
    >>> import numpy as np
    >>> from dptopk.reference import limited_domain
    >>> limited_domain.naive_sample([90, 0], k=2, k_bar=2, scale=1.0, threshold=5.0, draws=1,
    ...                             rng=np.random.default_rng(1))
    [(0, 'BOT')]
    """
    items, next_count = cut(counts, k_bar, known=known)
    names: list[int | str] = [*items, BOT]
    scores = [counts[i] for i in items] + [next_count + 1 + threshold * scale]
    noisy = np.asarray(scores) / scale + rng.gumbel(size=(draws, len(scores)))
    return until_bot(noisy, names, k)


def until_bot(noisy: npt.NDArray[Any], names: Sequence[int | str], k: int) -> list[Outcome]:
    """Sort each row, and stop at BOT or the k-th."""
    outcomes: list[Outcome] = []
    for order in np.argsort(-noisy, axis=1):
        picks = [names[j] for j in order]
        outcomes.append(tuple(picks[: min(k, picks.index(BOT) + 1)]))
    return outcomes
