"""Differentially private top-k selection, exact in law.

`Histogram` prepares counts, a mechanism picks from them, a `Release` says what
came out and what it cost.
"""

import sys
from typing import TYPE_CHECKING, Any

from dptopk import accounting, metrics, utility
from dptopk._argtopk import RaggedIndices, RaggedTopK, TopK, argtopk, topk
from dptopk._trials import trials
from dptopk.answers import Answers
from dptopk.budget.filter import Filter
from dptopk.budget.ledger import Ledger
from dptopk.budget.session import Session
from dptopk.builder import HistogramBuilder
from dptopk.errors import (
    BudgetError,
    DptopkError,
    ExhaustedError,
    LedgerConflictError,
    LedgerError,
    LedgerUnavailableError,
    MechanismError,
    RandomnessError,
    SourceError,
    StatementError,
    UnknownBudgetError,
    UnknownDomainError,
)
from dptopk.framework import (
    restricted,
    restricted_canonical,
    restricted_gumbel,
    restricted_normal,
    restricted_oneshot,
    restricted_permute_and_flip,
)
from dptopk.histogram import Histogram, Histograms
from dptopk.mechanisms.canonical import canonical
from dptopk.mechanisms.gamma import gamma
from dptopk.mechanisms.joint import count_sets, joint
from dptopk.mechanisms.limited_domain import limited_domain
from dptopk.mechanisms.limited_domain_laplace import limited_domain_laplace
from dptopk.mechanisms.noisy_counts import noisy_counts
from dptopk.mechanisms.noisy_max import noisy_max
from dptopk.mechanisms.noisy_topk import noisy_topk
from dptopk.mechanisms.oneshot import oneshot
from dptopk.mechanisms.peel import peel
from dptopk.mechanisms.permute_and_flip import permute_and_flip
from dptopk.mechanisms.sparse_vector import SparseVector, sparse_vector
from dptopk.mechanisms.stable_release import StableQueries, stable_queries, stable_release
from dptopk.mechanisms.top_stable import top_stable
from dptopk.mechanisms.weighted import weighted
from dptopk.planning import Choices, Shape, Simulation, plan, simulate, zipf
from dptopk.plotting import plot_accuracy, plot_costs
from dptopk.release import Cost, CountsNoise, Release
from dptopk.releases import Releases
from dptopk.rng import SeededRng
from dptopk.verification.verify import verify

if TYPE_CHECKING:
    from dptopk import ranking
    from dptopk.ranking import rank_pairs

    __version__: str

# `restricted` and `verify` are functions; their modules stand elsewhere, and can be imported by
# these names too. No module file has the name of a function, which it would hide.
sys.modules["dptopk.restricted"] = sys.modules["dptopk.framework.restrict"]
sys.modules["dptopk.verify"] = sys.modules["dptopk.verification.verify"]

__all__ = [
    "Answers",
    "BudgetError",
    "Choices",
    "Cost",
    "CountsNoise",
    "DptopkError",
    "ExhaustedError",
    "Filter",
    "Histogram",
    "HistogramBuilder",
    "Histograms",
    "Ledger",
    "LedgerConflictError",
    "LedgerError",
    "LedgerUnavailableError",
    "MechanismError",
    "RaggedIndices",
    "RaggedTopK",
    "RandomnessError",
    "Release",
    "Releases",
    "SeededRng",
    "Session",
    "Shape",
    "Simulation",
    "SourceError",
    "SparseVector",
    "StableQueries",
    "StatementError",
    "TopK",
    "UnknownBudgetError",
    "UnknownDomainError",
    "accounting",
    "argtopk",
    "canonical",
    "count_sets",
    "gamma",
    "joint",
    "limited_domain",
    "limited_domain_laplace",
    "metrics",
    "noisy_counts",
    "noisy_max",
    "noisy_topk",
    "oneshot",
    "peel",
    "permute_and_flip",
    "plan",
    "plot_accuracy",
    "plot_costs",
    "rank_pairs",
    "ranking",
    "restricted",
    "restricted_canonical",
    "restricted_gumbel",
    "restricted_normal",
    "restricted_oneshot",
    "restricted_permute_and_flip",
    "simulate",
    "sparse_vector",
    "stable_queries",
    "stable_release",
    "top_stable",
    "topk",
    "trials",
    "utility",
    "verify",
    "weighted",
    "zipf",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load when it is asked for: ranking needs SciPy's sparse parts, which take long."""
        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version

            try:
                value = version("dptopk")
            except PackageNotFoundError:  # a source tree that was built in place
                value = "unknown"
        elif name in ("ranking", "rank_pairs"):
            from importlib import import_module

            value = import_module("dptopk.ranking")
            value = value.rank_pairs if name == "rank_pairs" else value
        else:
            raise AttributeError(f"module 'dptopk' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
