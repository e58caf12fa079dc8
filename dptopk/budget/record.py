"""A Release, or Releases, as a line of ASCII JSON, and back again with its types."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

import numpy as np

from dptopk.histogram import Histogram, Histograms
from dptopk.histogram.numbered import LabelsByNumber
from dptopk.release import Cost, CountsNoise, Release
from dptopk.releases import Releases
from dptopk.rng import token

__all__ = ["check_labels", "decode", "encode"]


def _datetime(value: datetime.datetime) -> str | list[Any]:
    """Return the text of a datetime, with what isoformat leaves out: the fold, and a zone's name.

    A zone of any other kind than `zoneinfo`'s is kept as its offset: the same instant.
    """
    zone = value.tzinfo.key if isinstance(value.tzinfo, zoneinfo.ZoneInfo) else None
    if zone is not None:
        return [value.replace(tzinfo=None).isoformat(), value.fold, zone]
    if value.fold and value.tzinfo is None:
        return [value.isoformat(), value.fold, None]
    return value.isoformat()


def _datetime_of(text: str | list[Any]) -> datetime.datetime:
    if isinstance(text, str):
        return datetime.datetime.fromisoformat(text)
    iso, fold, zone = text
    tzinfo = None if zone is None else zoneinfo.ZoneInfo(zone)
    return datetime.datetime.fromisoformat(iso).replace(tzinfo=tzinfo, fold=fold)


# Kinds that JSON lacks, by exact type: to what it has and back.
_KINDS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "datetime": (datetime.datetime, _datetime, _datetime_of),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "uuid": (uuid.UUID, str, uuid.UUID),
}
_BY_TYPE = {kind[0]: name for name, kind in _KINDS.items()}
_PLAIN = (bool, int, str, type(None))
_NUMPY = "biufUSmM"  # kinds of scalars


def check_labels(h: Histogram | Histograms) -> None:
    """Raise TypeError if labels are of a type that can't be recorded, before they are picked.

    All labels of a known domain are looked at, also those that truncation left out:
    which of them are the most frequent is data. Those read off the data are of one kind,
    whose labels can all be recorded.
    """
    labels = h.domain_labels
    if labels is None or isinstance(labels, LabelsByNumber):  # texts or integers
        return
    if isinstance(labels, np.ndarray) and labels.dtype.kind != "O":
        if labels.dtype.kind not in _NUMPY:
            raise TypeError(f"labels of dtype {labels.dtype.name} can't be recorded in a ledger")
        return
    if h.known_domain:
        kinds = {type(label): label for label in labels}
        for label in labels if tuple in kinds else kinds.values():
            _pack(label)


def _pack(value: Any) -> Any:
    if type(value) is str and any("\ud800" <= letter <= "\udfff" for letter in value):
        # JSON reads two halves of a character as the whole one: another label.
        return {"escaped": value.encode("unicode_escape").decode("ascii")}
    if type(value) in _PLAIN:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if type(value) is tuple:
        return {"tuple": [_pack(v) for v in value]}
    if isinstance(value, np.generic) and value.dtype.kind in _NUMPY:
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
    if kind == "escaped":
        return inner.encode("ascii").decode("unicode_escape")
    if kind == "tuple":
        return tuple(map(_unpack, inner))
    if kind == "numpy":
        dtype = np.dtype(inner[0])
        if not dtype.itemsize:  # an empty string
            return dtype.type()
        return np.frombuffer(bytes.fromhex(inner[1]), dtype=dtype)[0]
    return _KINDS[kind][2](inner)


def encode(release: Release | Releases) -> str:
    """Return a release, or the releases of many groups, as JSON.

    A salt is in it, so that its hash, which an export shows, tells no one whether a guess
    of the release is right.
    """
    if isinstance(release, Release):
        return _salted(_state(release))
    state: dict[str, Any] = {
        "groups": [_pack(group) for group in release],
        "releases": [_state(one) for one in release.values()],
        "cost": [_pack(value) for value in release.cost],
        "mechanism": release.mechanism,
        "private": bool(release.private),
    }
    return _salted(state)


def _salted(state: dict[str, Any]) -> str:
    return json.dumps({**state, "salt": token(16)}, allow_nan=False)


def _state(release: Release) -> dict[str, Any]:
    return {
        "indices": None if release.indices is None else release.indices.tolist(),
        "labels": None if release.labels is None else [_pack(v) for v in release.labels],
        "counts": None if release.counts is None else release.counts.tolist(),
        "counts_noise": None if release.counts_noise is None else list(release.counts_noise),
        "weights": None if release.weights is None else release.weights.tolist(),
        "ordered": release.ordered,
        "complete": release.complete,
        "cost": [_pack(value) for value in release.cost],
        "mechanism": release.mechanism,
        "by_counts": bool(release.by_counts),
        "private": bool(release.private),
        "parameters": {name: _pack(value) for name, value in release.parameters.items()},
    }


def decode(text: str) -> Release | Releases:
    """Return what `encode` was given."""
    state = json.loads(text)
    if "groups" not in state:
        return _release(state)
    return Releases(
        [_unpack(group) for group in state["groups"]],
        [_release(one) for one in state["releases"]],
        cost=Cost(*map(_unpack, state["cost"])),
        mechanism=state["mechanism"],
        private=state["private"],
    )


def _release(state: dict[str, Any]) -> Release:
    return Release(
        indices=None if state["indices"] is None else np.array(state["indices"], np.int64),
        labels=None if state["labels"] is None else tuple(map(_unpack, state["labels"])),
        counts=None if state["counts"] is None else np.array(state["counts"], np.int64),
        # Not in records of version 0.1, which have no counts.
        counts_noise=CountsNoise(*state["counts_noise"]) if state.get("counts_noise") else None,
        weights=None if state.get("weights") is None else np.array(state["weights"], np.float64),
        ordered=state["ordered"],
        complete=state["complete"],
        cost=Cost(*map(_unpack, state["cost"])),
        mechanism=state["mechanism"],
        by_counts=state.get("by_counts", False),  # version 0.1 did not record it
        private=state["private"],
        parameters={name: _unpack(value) for name, value in state["parameters"].items()},
    )
