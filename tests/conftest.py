"""Fixtures shared by the tests."""

import os
from pathlib import Path

import pytest

from dptopk import _core

# Read by type checkers, never run.
collect_ignore = ["typing"]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The directory of the research data sets; skips the test where it is absent."""
    named = os.environ.get("DPTOPK_DATA")
    path = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no real data at {path}: set DPTOPK_DATA to run this test")
    return path


@pytest.fixture(params=range(_core.simd_best() + 1))
def level(request):
    """Run the test at each SIMD level of this machine."""
    before = _core.simd_get()
    assert _core.simd_set(request.param) == request.param
    yield request.param
    _core.simd_set(before)
