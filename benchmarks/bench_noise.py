"""The noise mechanisms against NumPy's plain version, one-off and on a prepared Histogram."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import dptopk as dp
from benchmarks.data import Counts, skewed
from benchmarks.row import Row, at_least
from benchmarks.timing import medians_ms

SIZE = 1_000_000
EPSILON, DELTA = 1.0, 1e-6  # what does not compose spends epsilon alone: more noise
Noise = npt.NDArray[np.float64]


class Work(NamedTuple):
    """A mechanism to measure.

    name : with its noise, if it has a choice
    ours : (array or Histogram, k) -> anything
    noise : (generator, shape, k) -> what the plain version adds
    k : how many to pick
    one_off : how many times as fast as the plain version, or None for information
    prepared : microseconds a call on a Histogram, None for information, 0 if it takes none
    """

    name: str
    ours: Callable[[Any, int], Any]
    noise: Callable[[np.random.Generator, int, int], Noise]
    k: tuple[int, ...] = (10, 100)
    one_off: float | None = 15.0
    prepared: float | None = 20.0


def steps(rng: np.random.Generator, n: int, k: int) -> Noise:
    """Noise of k exponential mechanisms, composed."""
    return rng.gumbel(scale=1 / dp.accounting.step_epsilon(EPSILON, k, DELTA), size=n)


def pure_steps(rng: np.random.Generator, n: int, k: int) -> Noise:
    """Noise of k pure steps, composed, but drawn once: less work than permute-and-flip is."""
    step = dp.accounting.step_epsilon(EPSILON, k, DELTA, method="optimal")
    return rng.exponential(scale=1 / step, size=n)


def gumbel(rng: np.random.Generator, n: int, k: int) -> Noise:
    """Noise of k exponential mechanisms, pure."""
    return rng.gumbel(scale=k / EPSILON, size=n)


def exponential(rng: np.random.Generator, n: int, k: int) -> Noise:
    """Noise of report noisy max, or one shot of it."""
    return rng.exponential(scale=k / EPSILON, size=n)


def laplace(rng: np.random.Generator, n: int, k: int) -> Noise:
    """Noise of the same cost on either side."""
    return rng.laplace(scale=k / EPSILON, size=n)


def gaussian(rng: np.random.Generator, n: int, k: int) -> Noise:
    """Noise of as large a scale."""
    return rng.normal(scale=k / EPSILON, size=n)


def ball(rng: np.random.Generator, n: int, k: int) -> Noise:
    """Noise from a ball of the maximum norm, its radius of a gamma law."""
    return rng.gamma(n + 1) / (2 * EPSILON) * rng.uniform(-1.0, 1.0, size=n)


def raw(noise: str) -> Callable[[Any, int], Any]:
    """Draw by the kernel alone."""
    return lambda counts, k: dp.noisy_topk(counts, k, scale=k / EPSILON, noise=noise)


def one_shot(name: str, noise: Callable[[np.random.Generator, int, int], Noise]) -> list[Work]:
    """One shot at its pure scale; at k=100 so much noise that most picks come from the tail."""

    def ours(h: Any, k: int) -> Any:
        return dp.oneshot(h, k=k, epsilon=EPSILON, noise=name.lower())

    return [
        Work(f"oneshot, {name}", ours, noise, k=(k,), prepared=20.0 if k == 10 else None)
        for k in (10, 100)
    ]


WORKS = (
    Work("peel", lambda h, k: dp.peel(h, k=k, epsilon=EPSILON, delta=DELTA), steps),
    Work("noisy_topk, Gumbel", raw("gumbel"), gumbel, prepared=0),
    Work("noisy_topk, exponential", raw("exponential"), exponential, prepared=0),
    Work("noisy_topk, Laplace", raw("laplace"), laplace, prepared=0),
    Work("noisy_topk, Gaussian", raw("gaussian"), gaussian, prepared=0),
    Work("noisy_max", lambda h, k: dp.noisy_max(h, epsilon=EPSILON), exponential, k=(1,)),
    Work(
        "permute_and_flip",
        lambda h, k: dp.permute_and_flip(h, k=k, epsilon=EPSILON, delta=DELTA),
        pure_steps,
        prepared=None,  # fresh noise for every pick
    ),
    *one_shot("Laplace", laplace),
    *one_shot("exponential", exponential),
    Work(
        "oneshot, Gaussian, 10 items a user",
        lambda h, k: dp.oneshot(
            h, k=k, epsilon=EPSILON, delta=DELTA, noise="gaussian", max_items_per_user=10
        ),
        gaussian,
    ),
    Work(
        "limited_domain_laplace, k_bar=500, 20 items a user",
        lambda h, k: dp.limited_domain_laplace(
            h, k=k, k_bar=500, epsilon=EPSILON, delta=DELTA, max_items_per_user=20
        ),
        laplace,
    ),
    Work(
        "gamma",
        lambda h, k: dp.gamma(h, k=k, epsilon=EPSILON),
        ball,
        one_off=None,
        prepared=None,
    ),
)


def plain(counts: Counts, noise: Noise, k: int) -> Counts:
    """Today's idiom."""
    noisy = counts + noise
    top = np.argpartition(-noisy, k)[:k]
    return top[np.argsort(-noisy[top])]


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the comparisons; quick takes fewer repeats."""
    repeats = 5 if quick else 15
    counts, rng = skewed(SIZE), np.random.default_rng(1)
    h = dp.Histogram(counts)
    for work in WORKS:
        for k in work.k:
            contenders = {
                "ours": lambda w=work, k=k: w.ours(counts, k),
                "plain": lambda w=work, k=k: plain(counts, w.noise(rng, SIZE, k), k),
            }
            ms = medians_ms(contenders, repeats=repeats)
            name = f"{work.name}, k={k}, on an array of 1e6"
            yield at_least(name, ms["ours"], "NumPy, plain", ms["plain"], work.one_off)
            if work.prepared != 0:
                yield prepared(work, h, k, repeats=40 * repeats)


def prepared(work: Work, h: dp.Histogram, k: int, *, repeats: int) -> Row:
    """Measure calls on a Histogram, in microseconds."""
    us = 1e3 * medians_ms({"ours": lambda: work.ours(h, k)}, repeats=repeats)["ours"]
    name = f"{work.name}, k={k}, on a prepared Histogram of 1e6: us a call"
    if work.prepared is None:
        return Row(name, us / 1e3, "", None, us, "", None)
    return Row(name, us / 1e3, "", None, us, f"<= {work.prepared:g} us", us <= work.prepared)
