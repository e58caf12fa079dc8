"""Differentially private top-k selection, exact in law.

`Histogram` prepares counts, a mechanism picks from them, a `Release` says what
came out and what it cost.
"""

from importlib.metadata import PackageNotFoundError, version

from dptopk import accounting, ranking, utility
from dptopk.argtopk import argtopk
from dptopk.errors import (
    DptopkError,
    RandomnessError,
    SourceError,
    StatementError,
    UnknownDomainError,
)
from dptopk.histogram import Histogram
from dptopk.mechanisms.limited_domain import limited_domain
from dptopk.mechanisms.limited_domain_laplace import limited_domain_laplace
from dptopk.mechanisms.noisy_counts import noisy_counts
from dptopk.mechanisms.noisy_max import noisy_max
from dptopk.mechanisms.noisy_topk import noisy_topk
from dptopk.mechanisms.oneshot import oneshot
from dptopk.mechanisms.peel import peel
from dptopk.mechanisms.permute_and_flip import permute_and_flip
from dptopk.ranking import rank_pairs
from dptopk.release import Cost, Release
from dptopk.rng import SeededRng
from dptopk.verify import verify

try:
    __version__ = version("dptopk")
except PackageNotFoundError:  # a source tree that was built in place
    __version__ = "unknown"

__all__ = [
    "Cost",
    "DptopkError",
    "Histogram",
    "RandomnessError",
    "Release",
    "SeededRng",
    "SourceError",
    "StatementError",
    "UnknownDomainError",
    "accounting",
    "argtopk",
    "limited_domain",
    "limited_domain_laplace",
    "noisy_counts",
    "noisy_max",
    "noisy_topk",
    "oneshot",
    "peel",
    "permute_and_flip",
    "rank_pairs",
    "ranking",
    "utility",
    "verify",
]
