"""Public stand-ins for data: how many users with so many items have each item.

That table is all that mechanisms can tell apart: counts of users are its sums, sums of
weights are its weighted sums, and a bound on the items of a user thins its rows.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptopk._validate import integer, positive
from dptopk.accounting.weights import weight
from dptopk.histogram import Histogram

__all__ = ["Shape", "as_shape", "default_shapes", "zipf"]

Ints = NDArray[np.int64]

SEED = 20  # of whatever a shape leaves open: it is the same each time
#: Standard deviation of the logarithm of how many items a user has, where only the mean is known.
SPREAD = 0.85
#: How much users of many items differ from others in what they have: the standard deviation
#: of an exponent.
TILT = 0.3
#: Classes of users by how many items they have, from so many standard deviations to so many.
CLASSES = np.linspace(-2.5, 3.0, 12)
MOST_ITEMS = 1_000_000


class Shape:
    """A public stand-in for data that nobody may look at: what plans are simulated on.

    Made by `zipf`, or by a method below of data that is public already, such as an older
    year or another city. Never of the data that is to be protected: what is planned on it
    would tell of it.

    Attributes
    ----------
    name : str
        What it is called in tables.
    n_items : int
        How many items there are, those that nobody has included.
    counts : numpy.ndarray of int64, shape (n_items,)
        How many users have each item.

    See Also
    --------
    zipf : by a law of popularity.
    plan, simulate : what shapes are for.

    Examples
    --------
    >>> import dptopk as dp
    >>> shape = dp.Shape.from_pairs([1, 1, 2, 2, 3], ["tea", "jam", "tea", "ale", "tea"])
    >>> shape.counts
    array([1, 1, 3])
    >>> shape
    Shape('5 pairs of 3 items')
    """

    name: str
    n_items: int
    counts: Ints

    def __init__(self, items: Ints, have: Ints, users: Ints, *, n_items: int, name: str | None):
        """Hold rows: how many `users` who `have` so many items have each of these `items`."""
        self._items, self._have, self._users = items, have, users
        self.n_items = n_items
        self.counts = self._sums(users)
        self.name = f"{users.sum()} pairs of {n_items} items" if name is None else str(name)
        self._made: dict[tuple[Any, ...], tuple[Histogram, Ints]] = {}

    @classmethod
    def from_pairs(cls, users: Any, items: Any, *, name: str | None = None) -> Shape:
        """Return the shape of public events: two columns of equal length, one event a row.

        Parameters
        ----------
        users, items : sequence, array or column of a frame, shape (n,)
            Who had what. Repeated pairs count once; items are numbered in the order of
            their labels.
        name : str, optional
            What it is called in tables.

        Returns
        -------
        Shape

        Raises
        ------
        TypeError, ValueError
            If the columns are not of one dimension and of equal length, hold nothing, or
            hold labels that have no order.
        """
        user, item = _numbers("users", users), _numbers("items", items)
        if user.size != item.size:
            raise ValueError("users and items must be of equal length")
        n_items = int(item.max()) + 1
        user, item = np.divmod(np.unique(user * n_items + item), n_items)
        have = np.bincount(user)[user]
        most = int(have.max()) + 1
        rows, number = np.unique(item * most + have, return_counts=True)
        item, have = np.divmod(rows, most)
        return cls(item, have, number.astype(np.int64), n_items=n_items, name=name)

    @classmethod
    def from_counts(
        cls, counts: Any, *, items_per_user: float = 10.0, name: str | None = None
    ) -> Shape:
        """Return a shape of public users per item, where nothing is known of single users.

        How many items they have is then assumed: log-normal with this mean; and users of many
        items differ a little from others in what they have.

        Parameters
        ----------
        counts : Histogram or array of integers, shape (d,)
            Of a truncated Histogram the items that it holds.
        items_per_user : float, default 10
            The mean number of items of a user, at least 1.
        name : str, optional
            What it is called in tables.

        Returns
        -------
        Shape

        Raises
        ------
        TypeError, ValueError
            If the counts are none, are all 0 or are sums of weights.

        Examples
        --------
        >>> import dptopk as dp
        >>> dp.Shape.from_counts([3, 9, 7], items_per_user=1.5).counts
        array([3, 9, 7])
        """
        h = counts if isinstance(counts, Histogram) else Histogram(counts)
        if h.soft_cap is not None:
            raise ValueError("a shape is made of counts of users, not of sums of weights")
        array = np.asarray(h.counts, np.int64)
        if not array.any():
            raise ValueError("counts must not all be 0")
        _check_items(array.size)
        mean = _mean(items_per_user)
        n_users = max(int(array.max()), round(int(array.sum()) / mean))
        items, have, users = _spread(array, n_users, mean)
        return cls(items, have, users, n_items=array.size, name=name)

    def __repr__(self) -> str:
        return f"Shape({self.name!r})"

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(-self.counts, kind="stable")

    def true_top(self, k: int) -> NDArray[np.bool_]:
        """Return which items are of the true top k, ties by item order."""
        of_top = np.zeros(self.n_items, bool)
        of_top[self._order[:k]] = True
        return of_top

    def counted(
        self, *, known: bool, most: int | None = None, rows: int | None = None
    ) -> tuple[Histogram, Ints]:
        """Return users per item as a histogram, and which item each number of a trial means.

        Parameters
        ----------
        known : bool
            Whether the domain is.
        most : int, optional
            How many items of each user are kept.
        rows : int, optional
            How many rows of an unknown domain are kept.
        """
        key = ("counted", known, most, rows)
        if key not in self._made:
            counts = self._sums(self._kept(most))
            if known:
                self._made[key] = Histogram(counts), np.arange(self.n_items)
            else:
                order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
                cut = self.n_items if rows is None else rows
                below = int(counts[order[cut]]) if cut < order.size else 0
                order = order[:cut]
                h = Histogram.truncated(
                    counts[order], order, next_count=below, k_bar=cut, max_items_per_user=most
                )
                self._made[key] = h, order
        return self._made[key]

    def weighed(
        self, *, known: bool, most: int | None = None, soft_cap: int, norm: str
    ) -> tuple[Histogram, Ints]:
        """Return sums of weights as a histogram, and which item each number of a trial means."""
        key = ("weighed", known, most, soft_cap, norm)
        if key not in self._made:
            have = self._have if most is None else np.minimum(self._have, most)
            sizes, place = np.unique(have, return_inverse=True)
            of_size = [weight(t, soft_cap=soft_cap, norm=norm) for t in sizes.tolist()]
            sums = self._sums(self._kept(most) * np.array(of_size, np.int64)[place])
            there = np.arange(self.n_items) if known else np.flatnonzero(sums)
            h = Histogram.from_weights(
                sums[there],
                there,
                soft_cap=soft_cap,
                norm=norm,  # type: ignore[arg-type]
                max_items_per_user=most,
                domain_is_public=known,
            )
            self._made[key] = h, there
        return self._made[key]

    def scaled(self, factor: int, *, down: bool = False) -> Shape:
        """Return the shape of so many times the users, or of so many times fewer.

        Parameters
        ----------
        factor : int
            At least 1.
        down : bool, default False
            Whether to keep each user with a chance of 1 / factor, in place of repeating them.

        Returns
        -------
        Shape

        Examples
        --------
        >>> import dptopk as dp
        >>> dp.Shape.from_counts([30, 90], items_per_user=1).scaled(10).counts
        array([300, 900])
        """
        factor = integer("factor", factor)
        if factor == 1:
            return self
        if down:
            users = np.random.default_rng(SEED).binomial(self._users, 1.0 / factor)
            name = f"{self.name}, 1 user of {factor}"
        else:
            users, name = self._users * factor, f"{self.name}, {factor} times the users"
        users = users.astype(np.int64)
        return Shape(self._items, self._have, users, n_items=self.n_items, name=name)

    def _sums(self, of_rows: Ints) -> Ints:
        """Return the sums by item; exact, as they are whole numbers below 2**53."""
        return np.bincount(self._items, of_rows, self.n_items).astype(np.int64)

    def _kept(self, most: int | None) -> Ints:
        """Return how many users of each row keep the item, if each keeps so many at random."""
        if most is None:
            return self._users
        share = np.minimum(1.0, most / self._have)
        return np.random.default_rng(SEED).binomial(self._users, share).astype(np.int64)


def zipf(
    exponent: float,
    *,
    n_users: int,
    n_items: int,
    items_per_user: float = 10.0,
    name: str | None = None,
) -> Shape:
    """Return a shape by Zipf's law: the i-th item has about i**-exponent of what the first has.

    Parameters
    ----------
    exponent : float
        0.5 to 1 for most data; larger where few items have nearly all users.
    n_users : int
        How many users there are: a guess that is public, such as a round number.
    n_items : int
        How many items there are, at most 1,000,000.
    items_per_user : float, default 10
        The mean number of items of a user; how many they have is log-normal.
    name : str, optional
        What it is called in tables.

    Returns
    -------
    Shape
        The same for the same arguments.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Examples
    --------
    >>> import dptopk as dp
    >>> shape = dp.zipf(1.1, n_users=1000, n_items=50, items_per_user=3)
    >>> shape
    Shape('zipf(1.1, n_users=1000, n_items=50, items_per_user=3)')
    >>> bool(shape.counts[0] > 4 * shape.counts[9])
    True
    """
    exponent = positive("exponent", exponent)
    n_users, n_items = integer("n_users", n_users), integer("n_items", n_items)
    _check_items(n_items)
    mean = _mean(items_per_user)
    if mean > n_items:
        raise ValueError(f"items_per_user must be at most n_items, {n_items}; got {items_per_user}")
    law = np.exp(-exponent * np.log(np.arange(1, n_items + 1)))
    wanted = n_users * mean
    low, high = wanted / law.sum(), max(1.0, n_users / law[-1])
    for _ in range(60):  # nobody has an item twice: the head can be full, and the rest fills up
        middle = math.sqrt(low * high)
        full = np.minimum(law * middle, n_users).sum() > wanted
        low, high = (low, middle) if full else (middle, high)
    chance = np.minimum(law * low / n_users, 1.0)
    counts = np.sort(np.random.default_rng(SEED).binomial(n_users, chance))[::-1]
    if name is None:
        name = f"zipf({exponent:g}, n_users={n_users}, n_items={n_items}, items_per_user={mean:g})"
    items, have, users = _spread(counts.astype(np.int64), n_users, mean)
    return Shape(items, have, users, n_items=n_items, name=name)


@lru_cache(maxsize=2)
def default_shapes(*, sets: bool = False) -> tuple[Shape, ...]:
    """Return the shapes that stand for data of which nothing is said.

    Few users of many items, more whose favourites are nearly alike, and very many of few
    items. docs/choosing.md tells how well they serve.

    Parameters
    ----------
    sets : bool, default False
        Whether each comes with a quarter and four times its users too: a mechanism that picks
        a whole set finds all of it on one size of data, and nothing on another.

    Examples
    --------
    >>> from dptopk.planning import default_shapes
    >>> for shape in default_shapes():
    ...     print(shape.name)
    zipf(0.75, n_users=5000, n_items=5000, items_per_user=30)
    zipf(0.5, n_users=25000, n_items=10000, items_per_user=30)
    zipf(0.75, n_users=100000, n_items=10000, items_per_user=6)
    """
    if sets:
        shapes = default_shapes()
        sizes = [[shape.scaled(4, down=True), shape, shape.scaled(4)] for shape in shapes]
        return tuple(shape for each in sizes for shape in each)
    return (
        zipf(0.75, n_users=5_000, n_items=5_000, items_per_user=30),
        zipf(0.5, n_users=25_000, n_items=10_000, items_per_user=30),
        zipf(0.75, n_users=100_000, n_items=10_000, items_per_user=6),
    )


def as_shape(like: Any) -> Shape:
    """Return a shape as it is, and that of public counts."""
    if isinstance(like, Shape):
        return like
    if isinstance(like, Histogram):
        return Shape.from_counts(like)
    raise TypeError(
        "like must be a shape such as dp.zipf(1.1, n_users=10_000, n_items=5_000), or a public "
        f"Histogram, got {type(like).__name__}"
    )


def _numbers(what: str, column: Any) -> Ints:
    """Return each label's number in their order."""
    array = np.asarray(column)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{what} must be one column of at least one row")
    try:
        return np.unique(array, return_inverse=True)[1].astype(np.int64)
    except TypeError:
        raise TypeError(f"{what} must be labels of one kind, none of them null") from None


def _check_items(n_items: int) -> None:
    if n_items > MOST_ITEMS:
        raise ValueError(f"a shape has at most {MOST_ITEMS} items, got {n_items}")


def _mean(items_per_user: Any) -> float:
    mean = positive("items_per_user", items_per_user)
    if mean < 1.0:
        raise ValueError(f"items_per_user must be at least 1, got {items_per_user}")
    return mean


def _spread(counts: Ints, n_users: int, mean: float) -> tuple[Ints, Ints, Ints]:
    """Spread the users of each item over users of few and of many items.

    A user of t items has item i with a chance of 1 - exp(-q t**(1 + b)), where b is drawn for
    each item, and q makes the chances add up to its count.
    """
    rng = np.random.default_rng(SEED)
    log_t = math.log(mean) - SPREAD**2 / 2 + SPREAD * CLASSES
    t = np.clip(np.rint(np.exp(log_t)), 1, counts.size)
    there = np.exp(-(CLASSES**2) / 2)
    there *= n_users / there.sum()
    rate = t ** (1.0 + TILT * rng.standard_normal((counts.size, 1)))
    q = counts[:, None] / (rate @ there)[:, None]
    crowded = counts > 0.01 * n_users
    q[crowded] = _rates(counts[crowded], rate[crowded], there)
    chance = -np.expm1(-q * rate) * there
    chance /= np.maximum(chance.sum(axis=1, keepdims=True), 1e-300)
    users = rng.multinomial(counts, chance)
    item, place = np.nonzero(users)
    return item, t[place].astype(np.int64), users[item, place]


def _rates(counts: Ints, rate: NDArray[Any], there: NDArray[Any]) -> NDArray[Any]:
    """Return q for items of which many users have had enough."""
    low, high = np.full((counts.size, 1), 1e-12), np.full((counts.size, 1), 50.0)
    for _ in range(40):
        middle = np.sqrt(low * high)
        much = (-np.expm1(-middle * rate) @ there)[:, None] > counts[:, None]
        low, high = np.where(much, low, middle), np.where(much, middle, high)
    return low
