"""Public libraries that have a mechanism of the same kind, at the same claim, in one run.

Needs the extra: pip install 'dptopk[compare]'. What is absent is skipped. Each gets
its input in the form that it takes fastest, made beforehand; only calls are measured.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import dptopk as dp
from benchmarks.data import Counts, skewed
from benchmarks.row import Row, at_least
from benchmarks.timing import medians_ms

EPSILON = 1.0
SMALL, LARGE = 10_000, 1_000_000


class Rival(NamedTuple):
    """A mechanism of another library.

    module : what to import
    name : library and mechanism
    prepare : (module, counts, k) -> a call to measure
    noise : the noise that ours takes for it
    k : how many to pick
    sizes : numbers of items at which a call ends within a minute
    """

    module: str
    name: str
    prepare: Callable[[Any, Counts, int], Callable[[], Any]]
    noise: str
    k: tuple[int, ...]
    sizes: tuple[int, ...] = (SMALL, LARGE)


def opendp_top_k(measure: str) -> Callable[[Any, Counts, int], Callable[[], Any]]:
    """OpenDP's noisy top-k on counts: exponential noise for pure DP, Gumbel for zCDP."""

    def prepare(opendp: Any, counts: Counts, k: int) -> Callable[[], Any]:
        opendp.enable_features("contrib")
        measurement = opendp.m.make_noisy_top_k(
            opendp.vector_domain(opendp.atom_domain(T="i64")),
            opendp.linf_distance(T="i64", monotonic=True),
            getattr(opendp, measure)(),
            k=k,
            scale=k / EPSILON,
        )
        return lambda: measurement(counts)

    return prepare


def opendp_max(opendp: Any, counts: Counts, k: int) -> Callable[[], Any]:
    """OpenDP's report noisy max, exponential noise."""
    opendp.enable_features("contrib")
    measurement = opendp.m.make_noisy_max(
        opendp.vector_domain(opendp.atom_domain(T="i64")),
        opendp.linf_distance(T="i64", monotonic=True),
        opendp.max_divergence(),
        scale=1 / EPSILON,
    )
    return lambda: measurement(counts)


def diffprivlib(mechanism: str) -> Callable[[Any, Counts, int], Callable[[], Any]]:
    """A mechanism of diffprivlib, which takes the scores when it is made."""

    def prepare(mechanisms: Any, counts: Counts, k: int) -> Callable[[], Any]:
        make, utility = getattr(mechanisms, mechanism), counts.tolist()
        return lambda: make(
            epsilon=EPSILON, sensitivity=1, utility=utility, monotonic=True
        ).randomise()

    return prepare


RIVALS = (
    Rival("opendp.prelude", "OpenDP noisy_max", opendp_max, "exponential", (1,)),
    Rival(  # neither ends within a minute at the large size
        "opendp.prelude", "OpenDP noisy_top_k", opendp_top_k("max_divergence"), "exponential",
        (10, 100), (SMALL,),
    ),
    Rival(
        "opendp.prelude", "OpenDP noisy_top_k, zCDP",
        opendp_top_k("zero_concentrated_divergence"), "gumbel", (10, 100), (SMALL,),
    ),
    Rival(
        "diffprivlib.mechanisms", "diffprivlib Exponential", diffprivlib("Exponential"),
        "gumbel", (1,),
    ),
    Rival(  # it takes items out of a list: quadratic
        "diffprivlib.mechanisms", "diffprivlib PermuteAndFlip", diffprivlib("PermuteAndFlip"),
        "exponential", (1,), (SMALL,),
    ),
)  # fmt: skip


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the comparisons; quick leaves out the large size."""
    modules = {name: load(name) for name in dict.fromkeys(rival.module for rival in RIVALS)}
    for size in (SMALL, LARGE):
        if quick and size == LARGE:
            break
        counts = skewed(size)
        for rival in RIVALS:
            module = modules[rival.module]
            if module is None or size not in rival.sizes:
                continue
            for k in rival.k:
                contenders = {
                    "ours": lambda k=k, r=rival: dp.noisy_topk(
                        counts,  # noqa: B023
                        k,
                        scale=k / EPSILON,
                        noise=r.noise,
                    ),
                    "theirs": rival.prepare(module, counts, k),
                }
                few = {"repeats": 1 if size == LARGE else 5, "warm_up": 0}
                ms = medians_ms(contenders, **few)
                work = f"noisy_topk, {rival.noise}, k={k}, on an array of {size:.0e}"
                yield at_least(work.replace("e+0", "e"), ms["ours"], rival.name, ms["theirs"], None)


def load(name: str) -> ModuleType | None:
    """Import a library, or say that it is skipped."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        print(f"compare: skipped {name} ({error}); pip install 'dptopk[compare]'", file=sys.stderr)
        return None
