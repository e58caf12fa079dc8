"""Differentially private top-k selection, exact in law.

`Histogram` prepares counts, a mechanism picks from them, a `Release` says what
came out and what it cost.
"""

from importlib.metadata import PackageNotFoundError, version

from . import accounting
from .argtopk import argtopk
from .errors import DptopkError, RandomnessError, SourceError, UnknownDomainError
from .histogram import Histogram
from .mechanisms.limited_domain import limited_domain
from .mechanisms.noisy_topk import noisy_topk
from .mechanisms.peel import peel
from .release import Cost, Release
from .rng import SeededRng
from .verify import verify

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
    "limited_domain",
    "noisy_topk",
    "peel",
    "verify",
]
