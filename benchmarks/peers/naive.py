"""The papers' algorithms, written from the papers in plain NumPy and Python.

As a reader would write them: noise in doubles by NumPy's generator, no care of ties or rounding.
For comparison only: none of them is safe to publish from.
"""

from __future__ import annotations

import math

import numpy as np

Generator = np.random.Generator


def gumbel_top_k(counts: np.ndarray, k: int, step: float, rng: Generator) -> np.ndarray:
    """k picks of the exponential mechanism in one shot, best first."""
    noisy = counts + rng.gumbel(scale=1 / step, size=counts.size)
    top = np.argpartition(noisy, -k)[-k:]
    return top[np.argsort(-noisy[top])]


def laplace_set(counts: np.ndarray, k: int, epsilon: float, rng: Generator) -> np.ndarray:
    """The one-shot Laplace set of Qiao, Su and Zhang, Theorem 2.1."""
    noisy = counts + rng.laplace(scale=2 * k / epsilon, size=counts.size)
    return np.argpartition(noisy, -k)[-k:]


def limited_domain(
    top: np.ndarray, k: int, step: float, delta: float, rng: Generator
) -> np.ndarray:
    """LD of Durfee and Rogers on the k_bar + 1 largest counts, descending."""
    k_bar = top.size - 1
    bottom = top[-1] + 1 + math.log(k_bar / delta) / step + rng.gumbel(scale=1 / step)
    noisy = top[:-1] + rng.gumbel(scale=1 / step, size=k_bar)
    order = np.argsort(-noisy)[:k]
    return order[noisy[order] > bottom]


def top_stable(top: np.ndarray, k: int, epsilon: float, delta: float, rng: Generator) -> np.ndarray:
    """TS of Silva Carvalho et al., k_bar = k: the first gap that passes, downwards from k."""
    first, rest = 0.37 * epsilon, 0.63 * epsilon
    threshold = _stable_threshold(first, rest, delta / k) + rng.laplace(scale=1 / first)
    for i in range(k, 0, -1):
        gap = max(top[i - 1] - top[i] - 1, 0)
        if gap + rng.laplace(scale=2 / rest) > threshold:
            return np.arange(i)
    return np.arange(0)


def _stable_threshold(first: float, rest: float, delta: float) -> float:
    c, low, high = 2 * first / rest, 0.0, 1.0
    for _ in range(200):  # the largest delta_q of line 2, by bisection
        q = (low + high) / 2
        spent = (2 * q**c + q - c * (q**c + 2 * q)) / (4 * (1 - c))
        low, high = (q, high) if spent <= delta else (low, q)
    return 2 / rest * math.log(1 / low)


def restricted_gumbel(
    top: np.ndarray, k: int, step: float, epsilon_tests: float, delta_tests: float, rng: Generator
) -> np.ndarray:
    """RG of Silva Carvalho and Wang on the k_bar + 1 largest counts."""
    q = delta_tests
    for _ in range(100):  # delta_q (3 + ln(1 / delta_q)) / 4 = delta_tests
        q = 4 * delta_tests / (3 + math.log(1 / q))
    threshold = 2 / epsilon_tests * math.log(1 / q) + rng.laplace(scale=2 / epsilon_tests)
    found = []
    for item in gumbel_top_k(top[:-1], k, step, rng):
        if top[item] - top[-1] - 1 + rng.laplace(scale=2 / epsilon_tests) <= threshold:
            break
        found.append(item)
    return np.array(found, np.int64)


def joint_set(counts: np.ndarray, k: int, epsilon: float, rng: Generator) -> np.ndarray:
    """JOINT of Gillenwater et al. over sets: every utility, its sets counted, then one of them.

    By whole numbers, as the counts reach d^k; for small d only. Counts are descending.
    """
    d = counts.size
    losses = sorted({int(counts[i] - counts[j]) for i in range(k) for j in range(i, d)})

    def ends(loss: int) -> list[int]:
        reach = [int(np.searchsorted(-counts, loss - counts[i], "right")) for i in range(k)]
        return reach

    def ways(reach: list[int]) -> list[list[int]]:
        # ways[i][j]: to choose places i.. from items j.. below their ends, ascending
        table = [[0] * (d + 1) for _ in range(k)] + [[1] * (d + 1)]
        for i in range(k - 1, -1, -1):
            for j in range(d - 1, -1, -1):
                table[i][j] = table[i][j + 1] + (table[i + 1][j + 1] if j < reach[i] else 0)
        return table

    def upto(loss: int) -> int:
        return ways(ends(loss))[0][0]

    totals = [upto(loss) for loss in losses]
    exact = [b - a for a, b in zip([0, *totals], totals, strict=False)]
    logs = np.array([math.log(n) if n else -math.inf for n in exact])
    weights = logs - epsilon * np.array(losses) / 2
    chosen = int(np.argmax(weights + rng.gumbel(size=weights.size)))
    while True:  # a set within the loss, until one has it just so
        table, j, picked = ways(ends(losses[chosen])), 0, []
        reach = ends(losses[chosen])
        for i in range(k):
            while True:
                take = table[i + 1][j + 1] if j < reach[i] else 0
                j += 1
                if rng.random() * table[i][j - 1] < take:
                    picked.append(j - 1)
                    break
        if max(int(counts[i] - counts[p]) for i, p in enumerate(picked)) == losses[chosen]:
            return np.array(picked, np.int64)
