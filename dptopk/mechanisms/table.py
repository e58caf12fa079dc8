"""The table of mechanisms and the table of noises.

The command line, the refusals of a `Session`, the generic tests and the table
in README.md read it: a mechanism is named here once, and a test compares what
is said of it with its signature and with what it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dptopk.domain import default_k_bar, restricted_k_bar

__all__ = ["DISCRETE_NOISES", "MECHANISMS", "NOISES", "Mechanism", "refused_by_session"]

#: Laws of real noise, in the order of their enumeration in csrc/dptk.h.
NOISES = ("gumbel", "exponential", "laplace", "gaussian", "uniform")
#: Laws of integer noise, likewise.
DISCRETE_NOISES = ("laplace", "gaussian")


class Mechanism(NamedTuple):
    """What there is to know of a mechanism without calling it.

    Attributes
    ----------
    domain : {"known", "any", ""}
        Whether the items must have been fixed before the data was seen; "" if
        it does not work on counts of items.
    order : {"ordered", "set", "either", ""}
        How the items come out; "either" by an argument, "" if none do.
    delta : {"none", "optional", "required"}
        Of the call.
    noises : tuple of str
        What `noise` may be, the default first; empty if there is no choice.
    scores : bool
        Whether it also takes real scores.
    options : tuple of str
        Which of k_bar, max_items_per_user and noise `dptopk select` hands on.
    command : bool
        Whether `dptopk select` offers it: it picks k items from counts.
    bounded_range : bool
        Whether each pick is one bounded-range step (`noisy_max`: with Gumbel noise).
    weights : bool
        Whether it works on sums of weights in place of counts.
    no_session : str
        Why it can't be called through a `Session`; "" if it can.
    rows : function of k, or None
        How many rows to ask of an engine, where the domain may be unknown.
    """

    domain: str
    order: str
    delta: str
    noises: tuple[str, ...] = ()
    scores: bool = False
    options: tuple[str, ...] = ()
    command: bool = True
    bounded_range: bool = False
    weights: bool = False
    no_session: str = ""
    rows: Callable[[int], int] | None = None


_OWN = "call it with a budget of its own, which adds to that of the session"
_NOT_BOUNDED_RANGE = (
    "its noise is not of bounded range, which the accounting of a session assumes of every step; "
    f"{_OWN}, or under a Filter"
)
_BY_LAPLACE = (
    "Laplace noise is not paid by the number of outcomes "
    f"(Durfee and Rogers 2019, after Theorem 2); {_OWN}"
)
_TESTED = (
    "its test of each pick costs an epsilon and delta that are no number of bounded-range steps; "
    f"{_OWN}"
)
_NO_STEPS = f"its cost is no number of bounded-range steps; {_OWN}"
_COUNTS = f"counts are not bounded-range steps; {_OWN}"
_COMPARISONS = "what it protects is one comparison, not a user; account for it apart"
_NO_ACCOUNTING = "it does no accounting: there is nothing to charge"

_LIMITED = ("k_bar", "max_items_per_user")
_ONESHOT = ("best", "gumbel", "exponential", "laplace", "gaussian")
_RESTRICTED = Mechanism(
    "any", "ordered", "required", options=("k_bar",), no_session=_TESTED, rows=restricted_k_bar
)

MECHANISMS: dict[str, Mechanism] = {
    "limited_domain": Mechanism(
        "any", "ordered", "required", options=_LIMITED, bounded_range=True, rows=default_k_bar
    ),
    "limited_domain_laplace": Mechanism(
        "any", "ordered", "required", options=_LIMITED, no_session=_BY_LAPLACE, rows=default_k_bar
    ),
    "top_stable": Mechanism(
        "any", "set", "required", options=("k_bar",), no_session=_NO_STEPS, rows=default_k_bar
    ),
    "restricted": _RESTRICTED._replace(order="either", command=False, options=()),
    "restricted_gumbel": _RESTRICTED,
    "restricted_permute_and_flip": _RESTRICTED,
    "restricted_canonical": _RESTRICTED._replace(order="set"),
    "restricted_oneshot": _RESTRICTED._replace(
        order="set",
        noises=_ONESHOT,
        options=("k_bar", "max_items_per_user", "noise"),
    ),
    "restricted_normal": _RESTRICTED._replace(options=_LIMITED),
    "peel": Mechanism("known", "ordered", "optional", scores=True, bounded_range=True),
    "permute_and_flip": Mechanism(
        "known", "ordered", "optional", scores=True, no_session=_NOT_BOUNDED_RANGE
    ),
    "oneshot": Mechanism(
        "known",
        "set",
        "optional",
        noises=_ONESHOT,
        scores=True,
        options=("max_items_per_user", "noise"),
        no_session=_NOT_BOUNDED_RANGE,
    ),
    "noisy_max": Mechanism(
        "known",
        "ordered",
        "none",
        noises=("exponential", "gumbel", "laplace"),
        scores=True,
        command=False,  # it is peel or permute_and_flip with k = 1
        bounded_range=True,
    ),
    "canonical": Mechanism("known", "set", "none", scores=True, bounded_range=True),
    "joint": Mechanism("known", "either", "none", scores=True, bounded_range=True),
    "gamma": Mechanism("known", "ordered", "none", no_session=_NOT_BOUNDED_RANGE),
    "weighted": Mechanism(
        "any", "ordered", "optional", options=("max_items_per_user",), weights=True,
        no_session=_NOT_BOUNDED_RANGE,
    ),
    "noisy_counts": Mechanism(
        "", "", "optional", noises=(*DISCRETE_NOISES, "shared"), command=False, no_session=_COUNTS
    ),
    "sparse_vector": Mechanism("", "", "none", command=False, no_session=_NO_STEPS),
    "stable_release": Mechanism("", "", "required", command=False, no_session=_NO_STEPS),
    "stable_queries": Mechanism("", "", "required", command=False, no_session=_NO_STEPS),
    "rank_pairs": Mechanism("", "either", "optional", command=False, no_session=_COMPARISONS),
    "noisy_topk": Mechanism(
        "", "ordered", "none", noises=NOISES, scores=True, command=False,
        no_session=_NO_ACCOUNTING,
    ),
}  # fmt: skip


def refused_by_session(name: str) -> str:
    """Say why a session has no such call; nothing if the name is no mechanism's, or it has one."""
    return MECHANISMS[name].no_session if name in MECHANISMS else ""
