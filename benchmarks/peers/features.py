"""What each library can do, found by running it: every cell is a small program.

A probe returns whether the thing works, or a word. Where a library may have such a call, but we
know none, the probe looks for one among its public names; what it raises is the answer, too. A "no"
means: not by this probe.
"""

from __future__ import annotations

import contextlib
import io
import math
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

PEERS = ("dptopk", "OpenDP", "diffprivlib", "NumPy", "torch")
MODULES = {"dptopk": "dptopk", "OpenDP": "opendp.prelude", "diffprivlib": "diffprivlib.mechanisms",
           "NumPy": "numpy", "torch": "torch"}  # fmt: skip
COUNTS = np.array([900, 700, 40, 30, 20, 10, 5, 2])
HUGE = np.array([2**60, 2**60 + 1])
FEATURES: dict[str, dict[str, Callable[[], Any]]] = {}


def probe(feature: str, *peers: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Enter a probe of some libraries."""

    def enter(function: Callable[[], Any]) -> Callable[[], Any]:
        for peer in peers:
            FEATURES.setdefault(feature, {})[peer] = function
        return function

    return enter


def table(say: Callable[[str], None]) -> list[list[str]]:
    """Run every probe of every library that is installed."""
    rows = []
    for feature, probes in FEATURES.items():
        row = [feature]
        for peer in PEERS:
            say(f"{feature}: {peer}")
            row.append(answer(probes.get(peer) or (lambda peer=peer: _absent(peer)), peer))
        rows.append(row)
    return rows


def answer(run: Callable[[], Any], peer: str) -> str:
    """Run one probe."""
    import importlib

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


def names(*words: str) -> bool:
    """Tell whether OpenDP or diffprivlib has a public call with such a name."""
    import diffprivlib.mechanisms

    opendp = _opendp()
    found = [*dir(opendp.m), *dir(opendp.t), *dir(opendp.c), *dir(diffprivlib.mechanisms)]
    return any(word in name.lower() for name in found for word in words)


def _opendp() -> Any:
    import opendp.prelude as opendp

    opendp.enable_features("contrib")
    return opendp


def _opendp_top(k: int, scale: float, *, zcdp: bool = False, type_: str = "i64") -> Any:
    opendp = _opendp()
    measure = opendp.zero_concentrated_divergence if zcdp else opendp.max_divergence
    # Floats that may be NaN are refused when it is made; say that they are not.
    atoms = (
        opendp.atom_domain(T=type_) if type_ == "i64" else opendp.atom_domain(T=type_, nan=False)
    )
    return opendp.m.make_noisy_top_k(
        opendp.vector_domain(atoms), opendp.linf_distance(T=type_, monotonic=True), measure(),
        k=k, scale=scale,
    )  # fmt: skip


def _gumbel(counts: np.ndarray, scale: float, k: int) -> np.ndarray:
    noisy = counts + np.random.default_rng().gumbel(scale=scale, size=counts.size)
    return np.argsort(-noisy)[:k]


def _torch_gumbel(counts: np.ndarray, scale: float, k: int) -> np.ndarray:
    import torch

    scores = torch.from_numpy(counts.astype(np.float64))
    noise = -torch.log(torch.empty_like(scores).exponential_()) * scale
    return torch.topk(scores + noise, k).indices.numpy()


def _diffprivlib(counts: Any, epsilon: float = 1.0) -> int:
    import diffprivlib.mechanisms

    its = diffprivlib.mechanisms.Exponential(
        epsilon=epsilon, sensitivity=1, utility=[float(c) for c in counts], monotonic=True
    )
    return its.randomise()


# ---- selection

TOP = "top k in order in one call, known domain"


@probe(TOP, "dptopk")
def _() -> bool:
    import dptopk as dp

    return list(dp.peel(COUNTS, k=2, epsilon=20.0).indices) == [0, 1]


@probe(TOP, "OpenDP")
def _() -> bool:
    return list(_opendp_top(2, 0.1)(COUNTS)) == [0, 1]


@probe(TOP, "NumPy")
def _() -> bool:
    return list(_gumbel(COUNTS, 0.1, 2)) == [0, 1]


@probe(TOP, "torch")
def _() -> bool:
    return list(_torch_gumbel(COUNTS, 0.1, 2)) == [0, 1]


SET = "a set for less than the same set in order, pure"


@probe(SET, "dptopk")
def _() -> bool:
    """The set finds more at the same epsilon."""
    import dptopk as dp

    counts, rng = np.arange(200, 0, -2), dp.SeededRng(1)
    found = [np.mean(dp.trials(call, counts, 300, rng=rng, k=10, epsilon=1.0) < 10)
             for call in (dp.peel, dp.canonical)]  # fmt: skip
    return bool(found[1] > found[0] + 0.05)


@probe(SET, "OpenDP", "diffprivlib")
def _() -> bool:
    return names("joint", "canonical_set", "inverse_sensitivity", "subset_selection")


UNKNOWN = "unknown domain, users with any number of items"


@probe(UNKNOWN, "dptopk")
def _() -> bool:
    import dptopk as dp

    h = dp.Histogram.from_counts({"a": 900, "b": 700, "c": 1})
    return dp.limited_domain(h, k=2, epsilon=5.0, delta=1e-6).labels == ("a", "b")


@probe(UNKNOWN, "OpenDP")
def _() -> bool:
    """The threshold's map wants to know in how many items one user is."""
    opendp = _opendp()
    keyed = opendp.map_domain(opendp.atom_domain(T=str), opendp.atom_domain(T="i64"))
    space = (keyed, opendp.l01inf_distance(opendp.absolute_distance(T="i64")))
    made = opendp.m.make_laplace_threshold(*space, scale=1.0, threshold=100)
    return bool(made.map((2**31 - 1, 2**31 - 1, 1))[0] < 10)


BOUNDED = "unknown domain, users with at most D items"


@probe(BOUNDED, "dptopk")
def _() -> bool:
    import dptopk as dp

    h = dp.Histogram.truncated([900, 700], ["a", "b"], next_count=1, k_bar=2, max_items_per_user=2)
    release = dp.limited_domain_laplace(h, k=2, epsilon=5.0, delta=1e-6, max_items_per_user=2)
    return release.labels == ("a", "b")


@probe(BOUNDED, "OpenDP")
def _() -> bool:
    opendp = _opendp()
    keyed = opendp.map_domain(opendp.atom_domain(T=str), opendp.atom_domain(T="i64"))
    space = (keyed, opendp.l01inf_distance(opendp.absolute_distance(T="i64")))
    made = opendp.m.make_laplace_threshold(*space, scale=2.0, threshold=100)
    return set(made({"a": 900, "b": 700, "c": 1})) == {"a", "b"} and made.map((2, 2, 1))[1] < 1e-6


# ---- noise

EXACT = "a difference of 1 at counts of 2^60 is kept"


def _keeps(draw: Callable[[], int], trials: int = 2000) -> bool:
    """The larger comes with chance 0.73 (Gumbel) or 0.82 (exponential); with 0.5 if it is lost."""
    return bool(np.mean([draw() == 1 for _ in range(trials)]) > 0.65)


@probe(EXACT, "dptopk")
def _() -> bool:
    import dptopk as dp

    return _keeps(lambda: dp.peel(HUGE, k=1, epsilon=1.0).indices[0])


@probe(EXACT, "OpenDP")
def _() -> bool:
    made = _opendp_top(1, 1.0)
    return _keeps(lambda: made(HUGE)[0])


@probe(EXACT, "diffprivlib")
def _() -> bool:
    return _keeps(lambda: _diffprivlib(HUGE), 500)


@probe(EXACT, "NumPy")
def _() -> bool:
    return _keeps(lambda: _gumbel(HUGE, 1.0, 1)[0])


@probe(EXACT, "torch")
def _() -> bool:
    return _keeps(lambda: _torch_gumbel(HUGE, 1.0, 1)[0])


SEEDED = "draws are not repeated by a global seed"


def _differs(draw: Callable[[], Any]) -> bool:
    seen = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(1)
        seen.append([int(draw()) for _ in range(60)])
    return seen[0] != seen[1]


FLAT = np.full(64, 3)


@probe(SEEDED, "dptopk")
def _() -> bool:
    import dptopk as dp

    return _differs(lambda: dp.peel(FLAT, k=1, epsilon=1.0).indices[0])


@probe(SEEDED, "OpenDP")
def _() -> bool:
    made = _opendp_top(1, 1.0)
    return _differs(lambda: made(FLAT)[0])


@probe(SEEDED, "diffprivlib")
def _() -> bool:
    return _differs(lambda: _diffprivlib(FLAT))


@probe(SEEDED, "NumPy")
def _() -> bool:
    return _differs(lambda: np.argmax(FLAT + np.random.gumbel(size=FLAT.size)))


@probe(SEEDED, "torch")
def _() -> bool:
    return _differs(lambda: _torch_gumbel(FLAT, 1.0, 1)[0])


NAN = "NaN scores are refused"
BAD = np.array([1.0, math.nan, 3.0])


def _refuses(draw: Callable[[], Any]) -> bool:
    try:
        draw()
    except Exception:
        return True
    return False


@probe(NAN, "dptopk")
def _() -> bool:
    import dptopk as dp

    return _refuses(lambda: dp.peel(BAD, k=1, epsilon=1.0))


@probe(NAN, "OpenDP")
def _() -> bool:
    made = _opendp_top(1, 1.0, type_="f64")
    made(np.array([1.0, 2.0, 3.0]))  # it takes floats
    return _refuses(lambda: made(BAD))


@probe(NAN, "diffprivlib")
def _() -> bool:
    return _refuses(lambda: _diffprivlib(BAD))


@probe(NAN, "NumPy")
def _() -> bool:
    return _refuses(lambda: _gumbel(BAD, 1.0, 1))


@probe(NAN, "torch")
def _() -> bool:
    return _refuses(lambda: _torch_gumbel(BAD, 1.0, 1))


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
    return bool(_opendp_top(100, 20.0, zcdp=True).map(1) < 100 * 0.05**2 / 2 * 0.99)


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
    return _refuses(lambda: session.limited_domain(COUNTS, k=2))


@probe(BUDGET, "OpenDP")
def _() -> bool:
    opendp = _opendp()
    query = _opendp_top(1, 1.0)
    budget = opendp.c.make_adaptive_composition(
        query.input_domain, query.input_metric, query.output_measure, d_in=1, d_mids=[1.01]
    )(COUNTS)
    budget(query)
    return _refuses(lambda: budget(query))


@probe(BUDGET, "diffprivlib")
def _() -> bool:
    from diffprivlib import BudgetAccountant

    budget = BudgetAccountant(epsilon=1.0)
    budget.spend(0.8, 0)
    return _refuses(lambda: budget.spend(0.8, 0))


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
    opendp = _opendp()
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

    opendp = _opendp()
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
