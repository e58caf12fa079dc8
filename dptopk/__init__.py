"""Differentially private top-k selection, exact in law.

`Histogram` prepares counts, a mechanism picks from them, a `Release` says what
came out and what it cost.
"""

from importlib.metadata import PackageNotFoundError, version

from dptopk import accounting
from dptopk.argtopk import argtopk
from dptopk.errors import (
    BudgetError,
    DptopkError,
    LedgerError,
    RandomnessError,
    SourceError,
    UnknownDomainError,
)
from dptopk.filter import Filter
from dptopk.histogram import Histogram
from dptopk.ledger import Ledger
from dptopk.mechanisms.limited_domain import limited_domain
from dptopk.mechanisms.limited_domain_laplace import limited_domain_laplace
from dptopk.mechanisms.noisy_counts import noisy_counts
from dptopk.mechanisms.noisy_topk import noisy_topk
from dptopk.mechanisms.peel import peel
from dptopk.release import Cost, Release
from dptopk.rng import SeededRng
from dptopk.session import Session
from dptopk.verify import verify

try:
    __version__ = version("dptopk")
except PackageNotFoundError:  # a source tree that was built in place
    __version__ = "unknown"

__all__ = [
    "BudgetError",
    "Cost",
    "DptopkError",
    "Filter",
    "Histogram",
    "Ledger",
    "LedgerError",
    "RandomnessError",
    "Release",
    "SeededRng",
    "Session",
    "SourceError",
    "UnknownDomainError",
    "accounting",
    "argtopk",
    "limited_domain",
    "limited_domain_laplace",
    "noisy_counts",
    "noisy_topk",
    "peel",
    "verify",
]
