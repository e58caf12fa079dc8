"""Counts of distinct users per item: of all users, or in each of many groups of them."""

from dptopk.histogram.many import Histograms
from dptopk.histogram.one import (
    Counts,
    FileFormat,
    Histogram,
    Norm,
    Nulls,
    Paths,
    as_histogram,
    known_histogram,
    weighted_histogram,
)

__all__ = [
    "Counts",
    "FileFormat",
    "Histogram",
    "Histograms",
    "Norm",
    "Nulls",
    "Paths",
    "as_histogram",
    "known_histogram",
    "weighted_histogram",
]
