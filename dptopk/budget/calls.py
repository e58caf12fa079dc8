"""Calls of a budget: their parameters in the plain form that is recorded, and their steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dptopk._validate import boolean, choice, integer, positive
from dptopk.mechanisms._plan import Steps, steps_of

__all__ = ["call_of", "largest_k", "steps_in"]


def call_of(mechanism: str, **options: Any) -> dict[str, Any]:
    """Return a call as it is recorded; equal calls have equal ones, whatever the types given."""
    plain = {name: _PLAIN[name](value) for name, value in options.items()}
    return {"mechanism": mechanism, **plain}


def steps_in(call: dict[str, Any], counts: Any) -> Steps:
    """Check a call on counts, all but its budget."""
    options = dict(call)
    return steps_of(options.pop("mechanism"))(counts, **options)


def largest_k(call: dict[str, Any], counts: Any) -> float:
    """Return the largest k that public numbers allow: of "rest" there is no more."""
    limits = [call.get("k_bar"), getattr(counts, "k_bar", None)]
    if "k_bar" not in call and hasattr(counts, "__len__"):  # all items of a known domain
        limits.append(len(counts))
    return min((limit for limit in limits if isinstance(limit, int)), default=math.inf)


def _k(k: Any) -> int | str:
    if not isinstance(k, str):
        return integer("k", k)
    if k != "rest":
        raise ValueError(f'k must be an integer or "rest", got {k!r}')
    return k


def _or(default: type | None, check: Callable[[str, Any], Any], name: str) -> Callable[[Any], Any]:
    """Return a check that lets None, or a string, pass as it is."""
    passed = (type(None),) if default is None else (type(None), default)
    return lambda value: value if isinstance(value, passed) else check(name, value)


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "k": _k,
    "k_bar": _or(str, integer, "k_bar"),
    "max_items_per_user": _or(None, integer, "max_items_per_user"),
    "sensitivity": lambda value: positive("sensitivity", value, toward=math.inf),
    "monotone": _or(None, boolean, "monotone"),
    "largest": lambda value: boolean("largest", value),
    "output": lambda value: choice("output", value, ("set", "sequence")),
}
