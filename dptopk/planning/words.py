"""Why a mechanism does well, and the call to copy, in Python and in a shell."""

from __future__ import annotations

from typing import Any

from dptopk.mechanisms.table import MECHANISMS
from dptopk.planning.candidates import Asked, Candidate

__all__ = ["call_of", "command_of", "reason_of"]

WHY = {
    "limited_domain": "one threshold for all picks, which is cheap where few items are wanted",
    "limited_domain_laplace": "few items of each user, so that the noise is free of k",
    "restricted_gumbel": "tests each pick against the cut, at a price that does not grow with k",
    "restricted_normal": "Gaussian noise for few items of each user, and a test of each pick",
    "restricted_canonical": "picks a whole set, and tests it against the cut",
    "top_stable": "returns the exact top where a large gap follows it, and else nothing",
    "peel": "noise that delta makes small, over a domain that needs no threshold",
    "permute_and_flip": "the least noise for a few picks that are paid one by one",
    "canonical": "picks a whole set by how few users would make it the top k",
    "joint": "picks a whole set by its worst count",
    "oneshot": "noise drawn once, and a set that shows no order",
    "weighted": "users of many items count less for each, so that the noise does not grow with k",
}
LOSSES = {
    "weighted": "it ranks by weight, which favours what users of few items have",
}


def reason_of(candidate: Candidate, asked: Asked, found: dict[str, float]) -> str:
    """Say in a sentence what a candidate does and what it found."""
    what = WHY[candidate.mechanism]
    if candidate.mechanism == "peel" and not asked.delta:
        what = "as much noise as k picks cost one by one, over a domain that needs no threshold"
    cut = candidate.options.get("max_items_per_user")
    lost = LOSSES.get(candidate.mechanism, "")
    if not lost and cut is not None and cut != asked.most:
        lost = f"users keep {cut} items" if cut > 1 else "users keep one item"
    said = f"{what}{', but ' if lost else ''}{lost}"
    return f"{said[0].upper()}{said[1:]}: finds {found['recall']:.2f} of the true top {asked.k}."


def call_of(candidate: Candidate, asked: Asked) -> str:
    """Return Python to paste, for `events` and, if it is known, `domain`."""
    its, call = MECHANISMS[candidate.mechanism], dict(candidate.options)
    made: dict[str, Any] = {}
    if its.weights:
        made = {name: call.pop(name) for name in ("soft_cap", "norm")}
    elif not asked.known and its.rows is not None:
        made["k_bar"] = call.get("k_bar") or its.rows(asked.k)
    most = call.pop("max_items_per_user", asked.most)
    if most is not None:
        made["max_items_per_user"] = most
    budget: dict[str, Any] = {"k": asked.k, "epsilon": asked.epsilon}
    if its.delta != "none" and not (its.weights and asked.known and made["norm"] == "l1"):
        budget["delta"] = asked.delta
    domain = ", domain=domain" if asked.known else ""
    return (
        f'h = dp.Histogram.from_events(events, user="user", item="item"{domain}{_more(made)})\n'
        f"release = dp.{candidate.mechanism}(h{_more({**budget, **call})})"
    )


def command_of(candidate: Candidate, asked: Asked) -> str:
    """Return the command for files of events; empty if `dptopk select` can't do it."""
    its, options = MECHANISMS[candidate.mechanism], dict(candidate.options)
    words = ["dptopk select FILE", f"-k {asked.k} --epsilon {asked.epsilon:g}"]
    if its.delta != "none" and asked.delta:
        words.append(f"--delta {asked.delta:g}")
    if asked.known:
        words.append("--domain ITEMS")
    if asked.most is not None:
        options.setdefault("max_items_per_user", asked.most)
    words.append(f"--mechanism {candidate.mechanism}")
    words += [f"--{name.replace('_', '-')} {value}" for name, value in options.items()]
    return " ".join(words)


def _more(options: dict[str, Any]) -> str:
    return "".join(f", {name}={value!r}" for name, value in options.items())
