"""A Release as a line of ASCII JSON, and back again with its types."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np

from dptopk.release import Cost, Release

__all__ = ["check_labels", "decode", "encode"]

# Kinds that JSON lacks, by exact type: to a string and back.
_KINDS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "datetime": (datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "uuid": (uuid.UUID, str, uuid.UUID),
}
_BY_TYPE = {kind[0]: name for name, kind in _KINDS.items()}
_PLAIN = (bool, int, str, type(None))


def check_labels(labels: Any) -> None:
    """Raise TypeError if a label is of a type that can't be recorded; None: no labels."""
    if labels is None:
        return
    if isinstance(labels, np.ndarray) and labels.dtype.kind != "O":
        labels = labels[:1]
    kinds = {type(label): label for label in labels}
    for label in labels if tuple in kinds else kinds.values():
        _pack(label)


def _pack(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if type(value) is tuple:
        return {"tuple": [_pack(v) for v in value]}
    if isinstance(value, np.generic) and value.dtype.kind in "biufUSmM":
        return {"numpy": [value.dtype.str, value.tobytes().hex()]}
    kind = _BY_TYPE.get(type(value))
    if kind is None:
        raise TypeError(f"a label of type {type(value).__name__} can't be recorded in a ledger")
    return {kind: _KINDS[kind][1](value)}


def _unpack(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "float":
        return float(inner)
    if kind == "tuple":
        return tuple(map(_unpack, inner))
    if kind == "numpy":
        dtype = np.dtype(inner[0])
        if not dtype.itemsize:  # an empty string
            return dtype.type()
        return np.frombuffer(bytes.fromhex(inner[1]), dtype=dtype)[0]
    return _KINDS[kind][2](inner)


def encode(release: Release) -> str:
    """Return a release as JSON."""
    state = {
        "indices": None if release.indices is None else release.indices.tolist(),
        "labels": None if release.labels is None else [_pack(v) for v in release.labels],
        "counts": None if release.counts is None else release.counts.tolist(),
        "ordered": release.ordered,
        "complete": release.complete,
        "cost": list(release.cost),
        "mechanism": release.mechanism,
        "private": bool(release.private),
        "parameters": {name: _pack(value) for name, value in release.parameters.items()},
    }
    return json.dumps(state, allow_nan=False)


def decode(text: str) -> Release:
    """Return the release that `encode` was given."""
    state = json.loads(text)
    return Release(
        indices=None if state["indices"] is None else np.array(state["indices"], np.int64),
        labels=None if state["labels"] is None else tuple(map(_unpack, state["labels"])),
        counts=None if state["counts"] is None else np.array(state["counts"], np.int64),
        ordered=state["ordered"],
        complete=state["complete"],
        cost=Cost(*state["cost"]),
        mechanism=state["mechanism"],
        private=state["private"],
        parameters={name: _unpack(value) for name, value in state["parameters"].items()},
    )
