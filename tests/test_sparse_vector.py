"""sparse_vector: the kernel against its twin. Its law is in test_verify.py."""

import numpy as np
import pytest

from dptopk import _core
from dptopk.mechanisms._threshold import threshold_tests
from dptopk.reference import sparse_vector as exact
from dptopk.reference.race import Tape
from dptopk.rng import TapeRng

TAPES = 1500


def words(seed, n=256):
    return np.random.default_rng(seed).integers(0, 2**64, size=n, dtype=np.uint64)


def read(tape, fresh=99):
    generator = np.random.default_rng(fresh)
    return Tape(
        _core.TapeSource(tape).read,
        lambda n: generator.integers(0, 2**64, size=n, dtype=np.uint64),
    )


def random_case(seed):
    """Queries of both kinds, from all equal to far apart, and scales from tiny to huge."""
    rng = np.random.default_rng([seed, 1])
    n = int(rng.integers(0, 60))
    spread = int(rng.choice([0, 1, 5, 100, 10**6, 2**61]))
    queries = rng.integers(-spread, spread, size=n, endpoint=True)
    threshold = int(queries[0]) if n and rng.random() < 0.7 else int(rng.integers(-9, 9))
    if rng.random() < 0.3:
        queries, threshold = queries * 0.37, threshold * 0.37
    elif rng.random() < 0.5:
        threshold += 0.25
    near = max(1.0, spread / 3.0)
    return queries, {
        "threshold": threshold,
        "threshold_scale": float(rng.choice([1e-3, 0.5, 1.0, 7.3, near])),
        "query_scale": float(rng.choice([1e-3, 0.5, 1.0, 7.3, near])),
        "hits": int(rng.choice([1, 2, 5, 1000])),
        "above": bool(rng.integers(2)),
    }


@pytest.fixture(scope="module")
def expected():
    """What the reference makes of every tape."""
    outcomes = []
    for seed in range(TAPES):
        queries, case = random_case(seed)
        outcomes.append(exact.sample(read(words(seed)), queries.tolist(), **case))
    return outcomes


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("factor", [1.0, 2.0**30, 2.0**49], ids=["kernel", "mixed", "replay"])
def test_kernel_equals_reference_on_the_same_tape(expected, factor, monkeypatch):
    monkeypatch.setattr(_core, "error_factor", factor)
    for seed in range(TAPES):
        queries, case = random_case(seed)
        bits, private = threshold_tests(queries, rng=TapeRng(words(seed)), **case)
        assert tuple(bits.tolist()) == expected[seed], seed
        assert not private
