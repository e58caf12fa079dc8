"""Which mechanism to run, and with which parameters: from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dptopk._validate import boolean, choice, integer, positive, probability
from dptopk.errors import DptopkError
from dptopk.mechanisms.table import MECHANISMS
from dptopk.planning.candidates import Asked, Candidate, candidates
from dptopk.planning.measured import measure
from dptopk.planning.shapes import Shape, as_shape, default_shapes
from dptopk.planning.table import Rows
from dptopk.planning.words import call_of, command_of, reason_of
from dptopk.sources.progress import working

__all__ = ["Choices", "Ranked", "asked_of", "plan", "ranked"]

TRIALS = 200
FIRST = 20  # trials of all, before most are left behind
BEHIND = 0.1  # how much less recall leaves one behind
FEWER = {"joint": 5, "permute_and_flip": 2}  # whose draws take long


class Ranked(NamedTuple):
    """A candidate, its trials on each shape, and the means over the shapes."""

    candidate: Candidate
    trials: int
    found: dict[str, float]


class Choices(Rows):
    """What could be run, best first: the table that `plan` returns.

    Attributes
    ----------
    best : mapping
        The first row.
    """

    @property
    def best(self) -> Any:
        """The first row: ``best["call"]`` is Python to paste, ``best["reason"]`` says why."""
        return self[0]


def plan(
    *,
    k: int,
    epsilon: float,
    delta: float = 0.0,
    ordered: bool = True,
    counts: bool = False,
    domain: Literal["known", "unknown"] = "unknown",
    max_items_per_user: int | None = None,
    like: Any = None,
    trials: int = TRIALS,
    progress: bool = False,
) -> Choices:
    """Rank mechanisms and their parameters by what they find, from public facts alone.

    Each is run on data that is public: on what you say that yours is like. It can't
    look at yours, as it is not given it. So the choice costs nothing.

    Parameters
    ----------
    k : int
        How many items are wanted.
    epsilon : float
        The total that the selection may cost.
    delta : float, default 0
        The total delta; an unknown domain needs one.
    ordered : bool, default True
        Whether the items must come out in order. A set can be better.
    counts : bool, default False
        Whether numbers of users are wanted too, by `noisy_counts` at a cost of its own; what
        ranks by weights in place of users is then left out.
    domain : {"known", "unknown"}
        Whether the items were fixed before the data was seen.
    max_items_per_user : int, optional
        A bound on the items of a user, if there is one.
    like : Shape, Histogram or sequence of them, optional
        Public data, or shapes such as ``dp.zipf(0.8, n_users=10_000, n_items=5_000)``; never
        the data that is to be protected. Of several the mean counts. By default the
        shapes of ``dptopk.planning.default_shapes()``, which fit many data sets a little.
    trials : int, default 200
        How many draws on each shape; fewer of those whose draws take long, and of those that
        20 have left far behind.
    progress : bool, default False
        Whether to show a progress line on stderr, if it is a terminal and the work is long.

    Returns
    -------
    Choices
        A row for each call that could do it, best first: mechanism, parameters, k, epsilon,
        delta, trials; recall, score_ratio and returned, means over trials and shapes,
        each with its standard error over the trials; reason, a sentence; call, Python to
        paste where there are `events` and, if it is known, a `domain`; and command, the
        same for a shell.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range, or nothing can do what is asked.

    See Also
    --------
    simulate : what one mechanism finds, by epsilon and k.

    Notes
    -----
    **Guarantee**: the choice is a function of the arguments, which are public by
    assumption. Random bits are fixed: the same call has the same answer.

    Examples
    --------
    >>> import dptopk as dp
    >>> shape = dp.zipf(0.8, n_users=20_000, n_items=1000)
    >>> choices = dp.plan(k=10, epsilon=1, delta=1e-6, like=shape, trials=100)
    >>> choices.best["mechanism"]
    'limited_domain'
    >>> print(choices.best["call"])
    h = dp.Histogram.from_events(events, user="user", item="item", k_bar=1000)
    release = dp.limited_domain(h, k=10, epsilon=1.0, delta=1e-06)
    """
    asked = asked_of(k, epsilon, delta, domain, max_items_per_user, ordered, counts)
    shapes = _shapes(like, sets=not asked.ordered)
    trials = integer("trials", trials, minimum=2)
    progress = boolean("progress", progress)
    many = candidates(asked)
    done = [0.0]
    with working("planning", progress and (lambda: 100.0 * min(1.0, done[0]))):
        rows = ranked(asked, shapes, many, trials=trials, done=done)
    if not rows:
        raise ValueError(f"nothing can pick {asked.k} items here: k may be too large")
    likes = "the default shapes" if like is None else "; ".join(shape.name for shape in shapes)
    return Choices([_row(each, asked) for each in rows], caption=f"the best on {likes}")


def asked_of(
    k: Any, epsilon: Any, delta: Any, domain: Any, most: Any, ordered: Any, counts: Any
) -> Asked:
    """Return what is asked, if all of it is in range."""
    known = choice("domain", domain, ("known", "unknown")) == "known"
    asked = Asked(
        integer("k", k),
        positive("epsilon", epsilon),
        probability("delta", delta, zero=True),
        known,
        None if most is None else integer("max_items_per_user", most),
        boolean("ordered", ordered),
        boolean("counts", counts),
    )
    if not (known or asked.delta):
        raise ValueError("an unknown domain needs delta > 0, got 0.0")
    return asked


def ranked(
    asked: Asked,
    shapes: Sequence[Shape],
    many: Sequence[Candidate],
    *,
    trials: int,
    more: Mapping[str, Mapping[str, Any]] | None = None,
    done: list[float] | None = None,
) -> list[Ranked]:
    """Return the candidates that run, best first: by recall, then by score ratio.

    All have a few trials; those that are far behind by these have no more. `more` has options
    of some mechanisms, for the trials alone.
    """
    more = more or {}
    first = min(FIRST, trials)
    found = []
    for candidate in many:
        each = _measured(asked, shapes, candidate, first, more)
        if done is not None:
            done[0] += 0.5 / len(many)
        if each is not None:
            found.append(each)
    found.sort(key=_merit, reverse=True)
    if first < trials and found:
        near = [each for each in found if each.found["recall"] >= found[0].found["recall"] - BEHIND]
        again = []
        for each in near:
            again.append(_measured(asked, shapes, each.candidate, trials, more) or each)
            if done is not None:
                done[0] += 0.5 / len(near)
        found = sorted(again, key=_merit, reverse=True) + found[len(near) :]
    return found


def _merit(each: Ranked) -> tuple[float, float]:
    return round(each.found["recall"], 3), each.found["score_ratio"]


def _measured(
    asked: Asked,
    shapes: Sequence[Shape],
    candidate: Candidate,
    trials: int,
    more: Mapping[str, Mapping[str, Any]],
) -> Ranked | None:
    """Return what a candidate finds; None where it refuses a shape."""
    trials = max(2, trials // FEWER.get(candidate.mechanism, 1))
    summaries = []
    for shape in shapes:
        try:
            its = measure(
                shape,
                candidate.mechanism,
                {**candidate.options, **more.get(candidate.mechanism, {})},
                k=asked.k,
                epsilon=asked.epsilon,
                delta=asked.delta,
                known=asked.known,
                most=asked.most,
                trials=trials,
            )
        except (ValueError, DptopkError):
            return None
        summaries.append(its.summary())
    return Ranked(candidate, trials, _mean(summaries))


def _mean(summaries: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return means over shapes, and standard errors of these means."""
    n, means = len(summaries), {}
    for name in summaries[0]:
        values = [summary[name] for summary in summaries]
        means[name] = math.hypot(*values) / n if name.endswith("_se") else sum(values) / n
    return means


def _row(each: Ranked, asked: Asked) -> dict[str, Any]:
    its = MECHANISMS[each.candidate.mechanism]
    return {
        "mechanism": each.candidate.mechanism,
        "parameters": each.candidate.options,
        "k": asked.k,
        "epsilon": asked.epsilon,
        "delta": asked.delta if its.delta != "none" else 0.0,
        "trials": each.trials,
        **each.found,
        "reason": reason_of(each.candidate, asked, each.found),
        "call": call_of(each.candidate, asked),
        "command": command_of(each.candidate, asked),
    }


def _shapes(like: Any, *, sets: bool) -> tuple[Shape, ...]:
    if like is None:
        return default_shapes(sets=sets)
    if isinstance(like, (list, tuple)):
        if not like:
            raise ValueError("like must hold at least one shape")
        return tuple(map(as_shape, like))
    return (as_shape(like),)
