"""What each library can do, found by running it: every cell is a small program.

A probe returns whether the thing works, or a word. Where a library may have such a call, but we
know none, the probe looks for one among its public names; what it raises is the answer, too. A "no"
means: not by this probe.
"""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Callable
from typing import Any

PEERS = ("dptopk", "OpenDP", "diffprivlib", "NumPy", "torch")
MODULES = {"dptopk": "dptopk", "OpenDP": "opendp.prelude", "diffprivlib": "diffprivlib.mechanisms",
           "NumPy": "numpy", "torch": "torch"}  # fmt: skip
FEATURES: dict[str, dict[str, Callable[[], Any]]] = {}


def probe(feature: str, *peers: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Enter a probe of some libraries."""

    def enter(function: Callable[[], Any]) -> Callable[[], Any]:
        for peer in peers:
            FEATURES.setdefault(feature, {})[peer] = function
        return function

    return enter


def entered() -> dict[str, dict[str, Callable[[], Any]]]:
    """Return all probes, by feature and library."""
    from benchmarks.peers import probes_choice, probes_use  # noqa: F401  they enter themselves

    return FEATURES


def table(say: Callable[[str], None]) -> list[list[str]]:
    """Run every probe of every library that is installed."""
    rows = []
    for feature, probes in entered().items():
        row = [feature]
        for peer in PEERS:
            say(f"{feature}: {peer}")
            row.append(answer(probes.get(peer) or (lambda peer=peer: _absent(peer)), peer))
        rows.append(row)
    return rows


def answer(run: Callable[[], Any], peer: str) -> str:
    """Run one probe."""
    try:
        importlib.import_module(MODULES[peer])
    except ImportError:
        return "not installed"
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            found = run()
    except Exception as error:
        return f"no: {type(error).__name__}"
    return found if isinstance(found, str) else ("yes" if found else "no")


def _absent(peer: str) -> str:
    return "no such call"
