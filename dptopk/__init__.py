"""Differentially private top-k selection, exact in law.

`Histogram` prepares counts, a mechanism picks from them, a `Release` says what
came out and what it cost.
"""

from importlib.metadata import PackageNotFoundError, version

from dptopk import accounting
from dptopk.argtopk import argtopk
from dptopk.errors import DptopkError, RandomnessError, SourceError, UnknownDomainError
from dptopk.histogram import Histogram
from dptopk.mechanisms.joint import count_sets, joint
from dptopk.mechanisms.limited_domain import limited_domain
from dptopk.mechanisms.noisy_counts import noisy_counts
from dptopk.mechanisms.noisy_topk import noisy_topk
from dptopk.mechanisms.peel import peel
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
    "UnknownDomainError",
    "accounting",
    "argtopk",
    "count_sets",
    "joint",
    "limited_domain",
    "noisy_counts",
    "noisy_topk",
    "peel",
    "verify",
]
