"""The counts to measure on, and what each may be compared with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks import bench_framework
from benchmarks.data import FILE, SHARED


class Counts(NamedTuple):
    """Counts, descending, the number of users, and what they are."""

    name: str
    counts: np.ndarray
    users: int
    real: bool


# What stands in for a set of the papers: it has the published number of items and
# percentiles of the counts; its gaps between neighbouring counts are made up.
STAND_INS = {
    "yelp_tips.synth": "Yelp",
    "foursquare.synth": "Foursquare",
    "gowalla.synth": "Gowalla",
    "gowalla_hybrid.synth": "Gowalla (real head)",
    "brightkite.synth": "BrightKite",
}
STAND_IN_NOTE = (
    "A set with * is a synthetic stand-in that matches the published percentiles of the paper's "
    "set, but not the gaps between its counts. What rests on gaps (TS, and the place where a "
    "threshold cuts) must not be compared with the printed figures; the rest roughly."
)


def load(name: str) -> Counts | None:
    """Return a set, or None if it is not here."""
    path = SHARED / f"{name}.npz"
    if path.exists():
        counts, users = bench_framework.load(name)
    elif name == "gowalla_hybrid.synth":
        with np.load(FILE) as data:
            counts = np.sort(np.repeat(data["value"], data["multiplicity"]))[::-1].astype(np.int64)
        users = 107_092
    else:
        return None
    return Counts(label(name), counts, users, name not in STAND_INS)


def label(name: str) -> str:
    """Return how tables call it: stand-ins with a star."""
    return f"{STAND_INS[name]}*" if name in STAND_INS else name.split(".")[0]


def found(names: tuple[str, ...]) -> tuple[list[Counts], list[str]]:
    """Return those that are here, and the names of those that are not."""
    loaded = {name: load(name) for name in names}
    return [its for its in loaded.values() if its], [n for n, its in loaded.items() if not its]
