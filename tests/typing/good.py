"""What a type checker must let pass: the door in all its forms."""

import sqlite3
from collections.abc import Sequence
from typing import assert_type

import numpy as np
import numpy.typing as npt

import dptopk as dp

COUNTS = np.array([900, 3, 700])
H = dp.Histogram(COUNTS, labels=["ant", "bee", "cat"])
ROWS = dp.Histogram.truncated([81, 12], ["cat", "ant"], next_count=5, k_bar=2)

assert_type(dp.peel(H, k=2, epsilon=1.0), dp.Release)
assert_type(dp.peel([900, 3, 700], k=2, epsilon=1), dp.Release)
assert_type(dp.peel(COUNTS, k=2, epsilon_step=0.5, delta=1e-6, method="zcdp"), dp.Release)
dp.peel(np.array([0.5, 2.0]), k=1, epsilon=1.0, sensitivity=0.1, rng=dp.SeededRng(7))
dp.peel(range(9), k=2, epsilon=1.0, rng=np.random.default_rng(1))
dp.limited_domain(ROWS, k=1, epsilon=1.0, delta=1e-6, k_bar="private")
dp.limited_domain(ROWS, k=1, epsilon_step=1.0, delta=1e-6, k_bar=2, max_items_per_user=3)
dp.limited_domain_laplace(ROWS, k=1, epsilon=1.0, delta=1e-6, max_items_per_user=3)
dp.permute_and_flip(H, k=2, epsilon=1.0, method="optimal")
dp.oneshot(H, k=2, epsilon=1.0, noise="exponential")
dp.oneshot(H, k=2, epsilon=1.0, delta=1e-6, noise="gumbel")
dp.noisy_max(H, epsilon=1.0, noise="gumbel", largest=False)
dp.joint(H, k=2, epsilon=1.0, output="sequence")
dp.canonical(H, k=2, epsilon=1.0, monotone=False)
dp.gamma(H, k=2, epsilon=1.0)
dp.top_stable(ROWS, k=1, epsilon=1.0, delta=1e-6, bound="paper")
dp.top_stable(ROWS, k=(1, 2), epsilon=1.0, delta=1e-6)
dp.restricted("peel", ROWS, k=1, epsilon=1.0, delta=1e-6, options={"method": "best"})
dp.restricted(lambda h, k: range(k), ROWS, k=1, epsilon=1.0, delta=1e-6, mechanism_epsilon=0.0)
dp.restricted(dp.peel, ROWS, k=1, epsilon=1.0, delta=1e-6)
dp.restricted_gumbel(ROWS, k=1, epsilon=1.0, delta=1e-6, k_bar=2)
dp.restricted_canonical(ROWS, k=1, epsilon=1.0, delta=1e-6)
dp.restricted_oneshot(ROWS, k=1, epsilon=1.0, delta=1e-6, noise="laplace")
dp.restricted_normal(ROWS, k=1, epsilon=1.0, delta=1e-6, max_items_per_user=3)
dp.noisy_counts(dp.peel(H, k=2, epsilon=1.0), H, epsilon=1.0, noise="laplace")
assert_type(dp.sparse_vector([3, 900], threshold=400, epsilon=2.0), dp.Answers)
dp.stable_queries([("ant", 250)], stop="stable", epsilon=1.0, delta=1e-6)
session = dp.Session(k_star=9, calls=2, epsilon=1.0, delta=1e-6)
assert_type(session.limited_domain(ROWS, k="rest", k_bar="private"), dp.Release)
session.peel(H, k=2)
session.canonical(H, k=2)
assert_type(dp.noisy_topk(np.ones((3, 4)), 2, scale=1.0, axis=0, size=(5,)), np.ndarray)
dp.noisy_topk([1, 2, 3], 2, scale=1.0, offsets=[0, 2, 3], workers=2).indices.sum()
assert_type(dp.trials(dp.peel, H, 9, rng=dp.SeededRng(1), k=2, epsilon=1.0), np.ndarray)
dp.accounting.total_epsilon(0.1, 10, 1e-6, method="adaptive")
dp.accounting.gaussian_sigma(epsilon=1.0, delta=1e-6)
assert_type(dp.argtopk(COUNTS, 2), npt.NDArray[np.int64])
assert_type(dp.argtopk([[3, 1]], 1, axis=0, largest=False, nan="last"), npt.NDArray[np.int64])
assert_type(dp.argtopk(COUNTS, 2, offsets=[0, 1, 3]), dp.RaggedIndices)
assert_type(dp.topk(COUNTS, 2, None, sorted=False, workers=2), dp.TopK)
assert_type(dp.topk(COUNTS, 2, offsets=np.array([0, 3])), dp.RaggedTopK)
GROUPS = dp.Histograms([[9, 1], [2, 8]], groups=["FR", "DE"], max_groups_per_user=1)
assert_type(GROUPS["FR"], dp.Histogram)
assert_type(dp.peel(GROUPS, k=1, epsilon=1.0), dp.Releases)
assert_type(dp.limited_domain(GROUPS, k=1, epsilon=1.0, delta=1e-6), dp.Releases)
assert_type(dp.oneshot(GROUPS, k=1, epsilon=1.0), dp.Releases)
assert_type(dp.canonical(H, k=2, epsilon=1.0), dp.Release)
assert_type(dp.restricted("peel", GROUPS, k=1, epsilon=1.0, delta=1e-6), dp.Releases)
assert_type(dp.restricted_gumbel(GROUPS, k=1, epsilon=1.0, delta=1e-6)["FR"], dp.Release)
assert_type(dp.noisy_counts(dp.joint(GROUPS, k=1, epsilon=1.0), GROUPS, epsilon=1.0), dp.Releases)
assert_type(session.limited_domain(GROUPS, k=1), dp.Releases)
EVENTS = {"who": [1], "what": ["a"], "where": ["FR"]}
assert_type(dp.Histogram.from_events(EVENTS, user="who", item="what"), dp.Histogram)
assert_type(
    dp.Histogram.from_events(EVENTS, user="who", item="what", by="where", groups=["FR"],
                             max_groups_per_user=1, every=None), dp.Histograms
)  # fmt: skip
dp.Histogram.from_files("events.csv", user=1, item=2, by=[3], soft_cap=1, header=False)


def of_a_sequence(counts: Sequence[int]) -> dp.Release:
    """Any sequence of integers will do."""
    return dp.peel(counts, k=1, epsilon=1.0)


def from_a_database(connection: sqlite3.Connection) -> dp.Histogram:
    """A table by its name or its parts, or a query."""
    dp.Histogram.from_sql(connection, ["main", "visits"], user="who", item="page", norm="l1")
    by = dp.Histogram.from_sql(
        connection, "visits", user="who", item="page", by="country", groups=["FR"],
        max_groups_per_user=1,
    )  # fmt: skip
    assert_type(by, dp.Histograms)
    return dp.Histogram.from_sql(connection, "visits", user="who", item="page", dialect="sqlite")


SHAPE = dp.zipf(0.8, n_users=100, n_items=20)
assert_type(dp.plan(k=2, epsilon=1.0, delta=1e-6, like=SHAPE), dp.Choices)
assert_type(dp.simulate(dp.peel, SHAPE, epsilons=[0.1, 1], ks=2), dp.Simulation)


def pictures(release: dp.Release, releases: dp.Releases) -> str:
    """Pictures and pages of what came out."""
    release.plot(confidence=0.9)
    releases.plot(ax=dp.plot_costs([1, 10], epsilon_step=0.1, methods=["basic", "adaptive"]))
    dp.plot_accuracy([{"k": 1}], y="score_ratio", x="k")
    assert_type(releases.to_html(), str)
    return release.to_html(title="Pages", remaining=None)
