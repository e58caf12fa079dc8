"""Probes of budgets, counts, groups and input."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.peers.calls import COUNTS, names, opendp_prelude, opendp_top, refuses
from benchmarks.peers.features import probe

# ---- accounting

RANGE = "k picks cost less than k epsilon-DP steps (bounded range)"


@probe(RANGE, "dptopk")
def _() -> bool:
    import dptopk as dp

    return dp.accounting.total_epsilon(0.05, 100, 1e-6) < dp.accounting.total_epsilon(
        0.05, 100, 1e-6, method="optimal"
    )


@probe(RANGE, "OpenDP")
def _() -> bool:
    """Its zCDP for k picks, against epsilon^2 / 2 for each epsilon-DP step."""
    return bool(opendp_top(100, 20.0, zcdp=True).map(1) < 100 * 0.05**2 / 2 * 0.99)


@probe(RANGE, "diffprivlib")
def _() -> bool:
    from diffprivlib import BudgetAccountant

    import dptopk as dp

    spent = BudgetAccountant(slack=1e-6, spent_budget=[(0.05, 0.0)] * 100).total()[0]
    return bool(spent < 0.99 * dp.accounting.total_epsilon(0.05, 100, 1e-6, method="optimal"))


BUDGET = "a budget refuses the call past its total"


@probe(BUDGET, "dptopk")
def _() -> bool:
    import dptopk as dp

    session = dp.Session(k_star=3, calls=1, epsilon=1, delta=1e-6)
    session.limited_domain(COUNTS, k=2)
    return refuses(lambda: session.limited_domain(COUNTS, k=2))


@probe(BUDGET, "OpenDP")
def _() -> bool:
    opendp = opendp_prelude()
    query = opendp_top(1, 1.0)
    budget = opendp.c.make_adaptive_composition(
        query.input_domain, query.input_metric, query.output_measure, d_in=1, d_mids=[1.01]
    )(COUNTS)
    budget(query)
    return refuses(lambda: budget(query))


@probe(BUDGET, "diffprivlib")
def _() -> bool:
    from diffprivlib import BudgetAccountant

    budget = BudgetAccountant(epsilon=1.0)
    budget.spend(0.8, 0)
    return refuses(lambda: budget.spend(0.8, 0))


PAY = "what did not come out is not charged"


@probe(PAY, "dptopk")
def _() -> bool:
    import dptopk as dp

    session = dp.Session(k_star=100, calls=5, epsilon=1, delta=1e-6)
    session.limited_domain(np.array([2, 1, 1]), k=50)
    return session.remaining.outcomes > 50


@probe(PAY, "OpenDP", "diffprivlib")
def _() -> bool:
    return names("pay_what", "refund", "limited_domain", "odometer_top")


# ---- counts, groups, data

SHOWN = "noisy counts of the picks, as integers"


@probe(SHOWN, "dptopk")
def _() -> bool:
    import dptopk as dp

    picks = dp.peel(COUNTS, k=2, epsilon=5.0)
    return all(isinstance(int(c), int) for c in dp.noisy_counts(picks, COUNTS, epsilon=1.0).counts)


@probe(SHOWN, "OpenDP")
def _() -> bool:
    opendp = opendp_prelude()
    made = opendp.m.make_laplace(
        opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l1_distance(T="i64"), scale=2.0
    )
    return all(isinstance(c, int) for c in made(COUNTS[:2]))


@probe(SHOWN, "diffprivlib")
def _() -> bool:
    import diffprivlib.mechanisms

    its = diffprivlib.mechanisms.Geometric(epsilon=1.0, sensitivity=1)
    return all(isinstance(its.randomise(int(c)), int) for c in COUNTS[:2])


GROUPS = "top k in each of 100 groups in one call, at one price"


@probe(GROUPS, "dptopk")
def _() -> bool:
    import polars as pl

    import dptopk as dp

    rng = np.random.default_rng(0)
    events = pl.DataFrame({"user": rng.integers(0, 3000, 9000), "item": rng.integers(0, 5, 9000),
                           "day": rng.integers(0, 100, 9000)})  # fmt: skip
    h = dp.Histogram.from_events(
        events, user="user", item="item", by="day", groups=range(100), max_groups_per_user=2
    )
    releases = dp.limited_domain(h, k=2, k_bar=2, epsilon=1.0, delta=1e-6)
    return len(releases) == 100 and releases.cost.epsilon <= 1.0


@probe(GROUPS, "OpenDP", "diffprivlib")
def _() -> bool:
    return names("group_top", "top_k_by", "topk_by")


EVENTS = "rows of events become counts of distinct users, each bounded"


@probe(EVENTS, "dptopk")
def _() -> bool:
    import polars as pl

    import dptopk as dp

    rows = pl.DataFrame({"user": [1, 1, 1, 2], "item": ["a", "a", "b", "a"]})
    h = dp.Histogram.from_events(rows, user="user", item="item", max_items_per_user=1)
    return int(h.counts.sum()) == 2


@probe(EVENTS, "OpenDP")
def _() -> bool | str:
    """Its truncation of a frame runs with one version of polars only."""
    import importlib.metadata

    import polars as pl

    opendp = opendp_prelude()
    needs = [r for r in importlib.metadata.requires("opendp") or () if r.startswith("polars==")]
    version = needs[0].split(";")[0].removeprefix("polars==").strip() if needs else pl.__version__
    if pl.__version__ != version:
        return f"not run: needs polars {version}"
    opendp.enable_features("honest-but-curious")
    rows = pl.LazyFrame({"user": [1, 1, 1, 2], "item": ["a", "a", "b", "a"]})
    query = opendp.Context.compositor(
        data=rows, privacy_unit=opendp.unit_of(contributions=1, identifier=pl.col("user")),
        privacy_loss=opendp.loss_of(epsilon=1.0, delta=1e-6), split_evenly_over=1,
    ).query().truncate_per_group(1).group_by("item").agg(opendp.len())  # fmt: skip
    query.release().collect()
    return True


STREAM = "batches of events, without holding all rows"


@probe(STREAM, "dptopk")
def _() -> bool:
    import pyarrow as pa

    import dptopk as dp

    with dp.HistogramBuilder(user="user", item="item") as builder:
        for users in ([1, 2, 2], [2, 3, 3]):
            builder.add(pa.table({"user": users, "item": ["a", "b", "a"]}))
        return len(builder.histogram()) == 2


@probe(STREAM, "OpenDP", "diffprivlib")
def _() -> bool:
    return names("builder", "batches", "incremental", "stream")


VERIFY = "checks the privacy of a mechanism of one's own"


@probe(VERIFY, "dptopk")
def _() -> bool:
    """It passes the exponential mechanism at 1, and fails it at 0.9."""
    import dptopk as dp

    def law(counts: tuple[int, ...]) -> dict[int, float]:
        weights = [math.exp(count) for count in counts]
        return {item: weight / sum(weights) for item, weight in enumerate(weights)}

    claims = [dp.verify(law, epsilon=e, delta=0.0, items=3, max_count=2).passed for e in (1.0, 0.9)]
    return claims == [True, False]


@probe(VERIFY, "OpenDP", "diffprivlib")
def _() -> bool:
    return names("verify", "audit", "check_privacy")
