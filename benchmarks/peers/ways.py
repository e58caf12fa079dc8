"""Who does each job, how, and how its cost was set to the same total.

A job is a total (epsilon 1, delta 1e-6 or none) for one user added or removed, who moves any number
of counts by one, all one way. `make` gets the data, and returns the call that is measured; the
call returns items numbered by descending count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import dptopk as dp
from benchmarks.peers import naive
from dptopk.accounting import step_epsilon

EPSILON, DELTA, USER = 1.0, 1e-6, 9
LAW = "bounded_range"  # eq. (4) of Durfee and Rogers: what a careful reader has by hand


class Data(NamedTuple):
    """Counts in random order, what place by count each has, and the same cut to USER items."""

    counts: np.ndarray
    place: np.ndarray
    bounded: np.ndarray
    events: Any = None  # benchmarks.events.Events, where there are rows


class Way(NamedTuple):
    """One way to do a job.

    slow : whether it takes long: fewer trials, and no run at a million items
    apart : why its result is not to be compared, if so
    """

    peer: str
    name: str
    cost: str
    make: Callable[[Data], Callable[[], Any]]
    slow: bool = False
    apart: str = ""


class Job(NamedTuple):
    """What is asked of all ways alike."""

    name: str
    title: str
    k: int
    ways: tuple[Way, ...]


def jobs() -> Iterator[Job]:
    """Yield all."""
    yield Job("pure", "The top 25 in order, known domain, epsilon 1", 25, tuple(_pure(25)))
    yield Job("set", "The top 25 as a set, known domain, epsilon 1", 25, tuple(_set(25)))
    yield Job("approx", "The top 100 in order, known domain, (1, 1e-6)", 100, tuple(_approx(100)))
    yield Job("unknown", "The top 50, unknown domain, (1, 1e-6), any number of items a user", 50,
              tuple(_unknown(50)))  # fmt: skip
    yield Job("bounded", f"The top 50, unknown domain, (1, 1e-6), at most {USER} items a user", 50,
              tuple(_bounded(50)))  # fmt: skip


# ---- known domains


def _ours(mechanism: Callable[..., Any], **options: Any) -> Callable[[Data], Callable[[], Any]]:
    def make(data: Data) -> Callable[[], Any]:
        call = partial(mechanism, data.counts, epsilon=EPSILON, **options)
        return lambda: data.place[list(call().items)]

    return make


def _pure(k: int) -> Iterator[Way]:
    basic = "k steps of epsilon / k"
    yield Way("dptopk", "peel", basic, _ours(dp.peel, k=k))
    yield Way(
        "dptopk", "joint, sequence", "by its theorem", _ours(dp.joint, k=k, output="sequence")
    )
    yield Way("OpenDP", "noisy_top_k, max divergence", "the scale by its own map", _opendp_top_k(k),
              slow=True)  # fmt: skip
    yield Way("diffprivlib", "Exponential, k times", basic,
              _diffprivlib("Exponential", k, EPSILON / k), slow=True)  # fmt: skip
    yield Way("diffprivlib", "PermuteAndFlip, k times", basic,
              _diffprivlib("PermuteAndFlip", k, EPSILON / k), slow=True)  # fmt: skip
    yield Way("NumPy", "Gumbel, argpartition", basic, _gumbel(k, EPSILON / k))
    yield Way("torch", "Gumbel, topk", basic, _torch(k, EPSILON / k))


def _set(k: int) -> Iterator[Way]:
    yield Way("dptopk", "canonical", "by its theorem", _ours(dp.canonical, k=k))
    yield Way("dptopk", "joint", "by its theorem", _ours(dp.joint, k=k))
    yield Way("dptopk", "oneshot, exponential", "scale k / epsilon",
              _ours(dp.oneshot, k=k, noise="exponential"))  # fmt: skip
    yield Way("paper, by hand", "one-shot Laplace (Thm 2.1)", "scale 2 k / epsilon, as printed",
              lambda data: _placed(data, partial(naive.laplace_set, data.counts, k, EPSILON,
                                                 np.random.default_rng(1))))  # fmt: skip
    yield Way("paper, by hand", "JOINT, its Algorithm 1", "weights exp(-epsilon loss / 2)",
              _naive_joint(k), slow=True,
              apart="on the 60 items that count most: more take minutes")  # fmt: skip
    yield Way("OpenDP", "noisy_top_k, max divergence",
              "the scale by its own map; its order comes, too", _opendp_top_k(k),
              slow=True)  # fmt: skip


def _approx(k: int) -> Iterator[Way]:
    yield Way("dptopk", "peel", "adaptive composition of bounded-range steps",
              _ours(dp.peel, k=k, delta=DELTA))  # fmt: skip
    yield Way("OpenDP", "noisy_top_k, zCDP", "the scale by its own map and zCDP conversion",
              _opendp_top_k(k, zcdp=True), slow=True)  # fmt: skip
    yield Way("diffprivlib", "Exponential, k times", "by its own BudgetAccountant",
              lambda data: _diffprivlib("Exponential", k, _own_step(k))(data),
              slow=True)  # fmt: skip
    step = step_epsilon(EPSILON, k, DELTA, LAW)
    yield Way("NumPy", "Gumbel, argpartition", "eq. (4) of Durfee and Rogers by hand",
              _gumbel(k, step))  # fmt: skip
    yield Way("torch", "Gumbel, topk", "eq. (4) of Durfee and Rogers by hand", _torch(k, step))


def _placed(data: Data, call: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: data.place[call()]


def _gumbel(k: int, step: float) -> Callable[[Data], Callable[[], Any]]:
    rng = np.random.default_rng(2)
    return lambda data: _placed(data, partial(naive.gumbel_top_k, data.counts, k, step, rng))


def _torch(k: int, step: float) -> Callable[[Data], Callable[[], Any]]:
    def make(data: Data) -> Callable[[], Any]:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(3)
        counts = torch.from_numpy(data.counts.astype(np.float64))

        def call() -> np.ndarray:
            noise = -torch.log(torch.empty_like(counts).exponential_()) / step
            return torch.topk(counts + noise, k).indices.numpy()

        return _placed(data, call)

    return make


def _opendp_top_k(k: int, *, zcdp: bool = False) -> Callable[[Data], Callable[[], Any]]:
    def make(data: Data) -> Callable[[], Any]:
        import opendp.prelude as opendp

        opendp.enable_features("contrib")

        def at(scale: float) -> Any:
            measure = opendp.zero_concentrated_divergence if zcdp else opendp.max_divergence
            made = opendp.m.make_noisy_top_k(
                opendp.vector_domain(opendp.atom_domain(T="i64")),
                opendp.linf_distance(T="i64", monotonic=True), measure(), k=k, scale=scale,
            )  # fmt: skip
            return opendp.c.make_fix_delta(opendp.c.make_zCDP_to_approxDP(made), DELTA) if zcdp \
                else made  # fmt: skip

        def affords(scale: float) -> bool:
            cost = at(scale).map(1)
            return (cost[0] if zcdp else cost) <= EPSILON

        measurement = at(opendp.binary_search(affords, bounds=(1.0, 1e4)))
        return _placed(data, lambda: measurement(data.counts))

    return make


def _own_step(k: int) -> float:
    """Return the epsilon of each of k calls that diffprivlib's accountant lets a total afford."""
    from diffprivlib import BudgetAccountant

    low, high = EPSILON / k, EPSILON
    while high - low > 1e-6 * low:
        step = (low + high) / 2
        spent = BudgetAccountant(slack=DELTA, spent_budget=[(step, 0.0)] * k).total()[0]
        low, high = (step, high) if spent <= EPSILON else (low, step)
    return low


def _diffprivlib(name: str, k: int, step: float) -> Callable[[Data], Callable[[], Any]]:
    def make(data: Data) -> Callable[[], Any]:
        import diffprivlib.mechanisms

        mechanism = getattr(diffprivlib.mechanisms, name)

        def call() -> list[int]:
            left, numbers, picked = data.counts.tolist(), list(range(data.counts.size)), []
            for _ in range(k):
                its = mechanism(epsilon=step, sensitivity=1, utility=left, monotonic=True)
                at = its.randomise()
                picked.append(numbers.pop(at))
                left.pop(at)
            return picked

        return _placed(data, call)

    return make


def _naive_joint(k: int) -> Callable[[Data], Callable[[], Any]]:
    def make(data: Data) -> Callable[[], Any]:
        head = np.sort(data.counts)[::-1][:60]
        return partial(naive.joint_set, head, k, EPSILON, np.random.default_rng(4))

    return make


# ---- unknown domains


def _cut(counts: np.ndarray, k_bar: int, most: int | None = None) -> dp.Histogram:
    top = np.sort(counts)[::-1]
    return dp.Histogram.truncated(
        top[:k_bar], range(k_bar), next_count=int(top[k_bar]), k_bar=k_bar,
        max_items_per_user=most,
    )  # fmt: skip


def _unknown(k: int) -> Iterator[Way]:
    k_bar, half = 10 * k, DELTA / 2

    def ours(mechanism: Any, **options: Any) -> Callable[[Data], Callable[[], Any]]:
        def make(data: Data) -> Callable[[], Any]:
            h = _cut(data.counts, options.get("k_bar", k_bar))
            call = partial(mechanism, h, k=k, epsilon=EPSILON, delta=DELTA, **options)
            return lambda: np.array(call().items, np.int64)

        return make

    def by_hand(call: Callable[..., Any], size: int) -> Callable[[Data], Callable[[], Any]]:
        rng = np.random.default_rng(5)
        return lambda data: partial(call, np.sort(data.counts)[::-1][: size + 1], rng=rng)

    yield Way(
        "dptopk", "limited_domain", "adaptive composition", ours(dp.limited_domain, k_bar=k_bar)
    )
    yield Way("dptopk", "restricted_gumbel", "adaptive composition, exact tail",
              ours(dp.restricted_gumbel, k_bar=k_bar))  # fmt: skip
    yield Way("dptopk", "top_stable", "exact tail", ours(dp.top_stable, k_bar=k))
    yield Way("dptopk", "weighted, soft cap 3", "analytic Gaussian and threshold",
              partial(_weighted, k=k))  # fmt: skip
    step = step_epsilon(EPSILON, k, half, LAW)
    yield Way("paper, by hand", "LD (Durfee and Rogers)", "eq. (4), half of delta each",
              by_hand(partial(naive.limited_domain, k=k, step=step, delta=half),
                      k_bar))  # fmt: skip
    yield Way("paper, by hand", "TS (Silva Carvalho et al.)", "as printed, k_bar = k",
              by_hand(partial(naive.top_stable, k=k, epsilon=EPSILON, delta=DELTA), k))  # fmt: skip
    law: Any = "bounded_range_2020"
    tests = 4 * step_epsilon(EPSILON, k, half, law)
    picks = step_epsilon(EPSILON - tests, k, half, law)
    yield Way("paper, by hand", "RG (Silva Carvalho and Wang)", "eq. (12), 4 steps for the tests",
              by_hand(partial(naive.restricted_gumbel, k=k, step=picks, epsilon_tests=tests,
                              delta_tests=half), k_bar))  # fmt: skip


def _weighted(data: Data, k: int) -> Callable[[], Any]:
    h = data.events.weighed(known=False, most=None, soft_cap=3, norm="l2")
    call = partial(dp.weighted, h, k=k, epsilon=EPSILON, delta=DELTA, max_items_per_user=10**6)
    place = np.empty(data.events.counts.size, np.int64)
    place[data.events.order] = np.arange(place.size)
    return lambda: place[np.array(call().items, np.int64)]


def _bounded(k: int) -> Iterator[Way]:
    def ours(mechanism: Any, **options: Any) -> Callable[[Data], Callable[[], Any]]:
        def make(data: Data) -> Callable[[], Any]:
            order = np.argsort(-data.bounded, kind="stable")
            h = _cut(data.bounded, options["k_bar"], USER)
            call = partial(mechanism, h, k=k, epsilon=EPSILON, delta=DELTA,
                           max_items_per_user=USER, **options)  # fmt: skip
            return lambda: data.place[order[list(call().items)]]

        return make

    yield Way("dptopk", "limited_domain_laplace", f"{USER} steps, exact tail",
              ours(dp.limited_domain_laplace, k_bar=10 * k))  # fmt: skip
    yield Way("dptopk", "restricted_normal", "analytic Gaussian, exact tail",
              ours(dp.restricted_normal, k_bar=10 * k))  # fmt: skip
    yield Way("dptopk", "weighted, soft cap 3", "analytic Gaussian and threshold; users not cut",
              partial(_weighted, k=k))  # fmt: skip
    yield Way("OpenDP", "laplace_threshold", "scale and threshold by its own map; counts come too",
              _opendp_threshold(k, "laplace"), slow=True)  # fmt: skip
    yield Way("OpenDP", "gaussian_threshold",
              "scale and threshold by its own map and zCDP conversion; counts come too",
              _opendp_threshold(k, "gaussian"), slow=True)  # fmt: skip


def _opendp_threshold(k: int, noise: str) -> Callable[[Data], Callable[[], Any]]:
    """Release all that pass, with their counts, and take the k largest: post-processing."""

    def make(data: Data) -> Callable[[], Any]:
        import opendp.prelude as opendp

        opendp.enable_features("contrib")
        gaussian = noise == "gaussian"
        number = opendp.atom_domain(T="i64")
        keyed = opendp.map_domain(number, number)
        distance = opendp.absolute_distance(T="i64")
        space = (keyed, (opendp.l02inf_distance if gaussian else opendp.l01inf_distance)(distance))
        make_it = opendp.m.make_gaussian_threshold if gaussian else opendp.m.make_laplace_threshold
        moved = (USER, math.isqrt(USER) if gaussian else USER, 1)

        def at(scale: float) -> Any:
            def leaks(threshold: int) -> bool:
                made = make_it(*space, scale=scale, threshold=threshold)
                return made.map(moved)[1] <= (DELTA / 2 if gaussian else DELTA)

            threshold = opendp.binary_search(leaks, bounds=(1, 100_000))
            made = make_it(*space, scale=scale, threshold=threshold)
            return opendp.c.make_fix_delta(opendp.c.make_zCDP_to_approxDP(made), DELTA) \
                if gaussian else made  # fmt: skip

        best = opendp.binary_search(
            lambda scale: at(scale).map(moved)[0] <= EPSILON, bounds=(5.0, 100.0)
        )
        measurement = at(best)
        there = np.flatnonzero(data.bounded)
        counted = dict(zip(there.tolist(), data.bounded[there].tolist(), strict=True))

        def call() -> np.ndarray:
            found = measurement(counted)
            best_k = sorted(found, key=found.__getitem__, reverse=True)[:k]
            return data.place[np.array(best_k, np.int64)]

        return call

    return make
