"""What k and epsilon will buy, seen before anything is spent."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, Literal

from dptopk._trials import TAKEN
from dptopk._validate import boolean, choice, integer, positive, probability
from dptopk.mechanisms.table import MECHANISMS
from dptopk.planning.candidates import MANY_ITEMS
from dptopk.planning.measured import in_batches, measure
from dptopk.planning.shapes import as_shape
from dptopk.planning.table import Simulation
from dptopk.sources.progress import working

__all__ = ["simulate"]

BATCHED = 10_000  # trials a cell where they are one call of a kernel
OTHERS = 1_000


def simulate(
    mechanism: Callable[..., Any] | str,
    like: Any,
    *,
    epsilons: Any = 1.0,
    ks: Any = 10,
    delta: float = 0.0,
    domain: Literal["known", "unknown"] | None = None,
    trials: int | None = None,
    progress: bool = False,
    **options: Any,
) -> Simulation:
    """Tell how much of the true top k a mechanism finds on data like yours.

    It runs the mechanism itself, on public data or on a shape. Nothing is spent.

    Parameters
    ----------
    mechanism : function or str
        One that picks items from counts or weights, such as ``dp.peel``, or its name.
    like : Shape or Histogram
        Public data, or a shape such as ``dp.zipf(1.1, n_users=10_000, n_items=5_000)``. Never
        the data that is to be protected: the table would tell of it.
    epsilons : float or sequence of float, default 1
        The totals to try.
    ks : int or sequence of int, default 10
        The numbers of items to try.
    delta : float, default 0
        The total delta, for mechanisms that take one.
    domain : {"known", "unknown"}, optional
        Whether the items will have been fixed before the data is seen. By default unknown
        where the mechanism can do that.
    trials : int, optional
        How many draws a cell. By default 10,000 where a kernel draws them all at once, as of
        `peel`, `limited_domain` and `oneshot`; 1,000 of others.
    progress : bool, default False
        Whether to show a progress line on stderr, if it is a terminal and the work is long.
    **options
        Further arguments of the mechanism; of `weighted` also `soft_cap` (by default 3) and
        `norm`. With `max_items_per_user` each user of the shape keeps so many items.

    Returns
    -------
    Simulation
        A row for each epsilon and k: mechanism, parameters, domain, k, epsilon, delta, trials,
        and the means over the trials of recall (the share of the true top k that came out),
        score_ratio (`dptopk.metrics.score_ratio`) and returned (how many came out), each with
        its standard error, such as recall_se. ``to_frame()``, ``to_json()``, ``plot()``.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or the mechanism refuses it.

    Notes
    -----
    **No guarantee** is needed: nothing private is read. Trials have fixed random bits, so that
    the same call has the same answer. The truth is that of the shape as it is: what
    is cut by `max_items_per_user` counts as lost.

    Examples
    --------
    >>> import dptopk as dp
    >>> shape = dp.zipf(0.8, n_users=20_000, n_items=1000)
    >>> table = dp.simulate(dp.peel, shape, epsilons=[0.02, 1.0], ks=10, trials=2000)
    >>> [(row["epsilon"], round(row["recall"], 1)) for row in table]
    [(0.02, 0.7), (1.0, 1.0)]
    """
    name = _name(mechanism)
    shape = as_shape(like)
    epsilons, ks = _numbers("epsilons", epsilons, positive), _numbers("ks", ks, integer)
    delta = probability("delta", delta, zero=True)
    if trials is not None:
        trials = integer("trials", trials)
    progress = boolean("progress", progress)
    known = _known(name, domain)
    if MECHANISMS[name].weights:
        options = {"soft_cap": 3, "norm": "l2" if delta else "l1", **options}
        if not known:
            options = {"max_items_per_user": MANY_ITEMS, **options}
    cells = list(itertools.product(epsilons, ks))
    rows: list[dict[str, Any]] = []

    def done() -> float:
        return 100.0 * len(rows) / len(cells)

    with working(f"simulating {name}", progress and done):
        for epsilon, k in cells:
            if k > shape.n_items:
                raise ValueError(f"k must be at most the number of items, {shape.n_items}; got {k}")
            call: dict[str, Any] = {"k": k, "epsilon": epsilon, "delta": delta, "known": known}
            size = trials
            if size is None:
                size = BATCHED if in_batches(shape, name, options, **call) else OTHERS
            measured = measure(shape, name, options, **call, trials=size)
            rows.append(
                {
                    "mechanism": name,
                    "parameters": options,
                    "domain": "known" if known else "unknown",
                    "k": k,
                    "epsilon": epsilon,
                    "delta": delta if MECHANISMS[name].delta != "none" else 0.0,
                    "trials": size,
                    **measured.summary(),
                }
            )
    return Simulation(rows, caption=f"{name} on {shape.name}")


def _name(mechanism: Any) -> str:
    name = mechanism if isinstance(mechanism, str) else getattr(mechanism, "__name__", "")
    home = "dptopk." if isinstance(mechanism, str) else getattr(mechanism, "__module__", "")
    if name not in TAKEN or not str(home).startswith("dptopk."):
        raise TypeError(
            f"mechanism must be a function that picks from counts, or its name: {', '.join(TAKEN)}"
        )
    return name


def _numbers(name: str, given: Any, check: Callable[[str, Any], Any]) -> list[Any]:
    """Return one number or several, each checked."""
    several = isinstance(given, Iterable) and not isinstance(given, (str, bytes))
    numbers = [check(name, each) for each in (given if several else [given])]
    if not numbers:
        raise ValueError(f"{name} must hold at least one number")
    return numbers


def _known(name: str, domain: Any) -> bool:
    if domain is None:
        return MECHANISMS[name].domain == "known"
    return bool(choice("domain", domain, ("known", "unknown")) == "known")
