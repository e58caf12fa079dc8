"""The system has no random bytes at some read: nothing comes out, whatever the mechanism."""

import inspect
import os

import numpy as np
import pytest

import dptopk as dp
from dptopk import _core, rng
from dptopk.errors import RandomnessError
from dptopk.mechanisms.table import MECHANISMS

COUNTS = np.arange(3000)[::-1].copy()
PICKS = dp.peel(COUNTS, k=3, epsilon=1.0, rng=dp.SeededRng(1))
OPTIONS = {
    "epsilon": 1.0, "delta": 1e-3, "max_items_per_user": 2, "scale": 1.0, "threshold": 500,
    "distance": 3, "degree": 2, "comparisons_per_pair": 3, "k": 3, "stop": "unstable",
}  # fmt: skip
FIRST = {
    "restricted": (lambda h, k: range(k), COUNTS),
    "noisy_counts": (PICKS, COUNTS),
    "stable_release": ("ant",),
    "stable_queries": ([("ant", 3)],),
    "rank_pairs": ([[0, 2, 1], [1, 0, 3], [2, 0, 0]],),
    "weighted": (dp.Histogram.from_weights(COUNTS << 20, soft_cap=1, domain_is_public=True),),
}


def call(name):
    function = getattr(dp, name)
    its = inspect.signature(function).parameters
    given = {
        option: value for option, value in OPTIONS.items()
        if option in its and (its[option].default is its[option].empty
                              or option in ("epsilon", "max_items_per_user", "k"))
    }  # fmt: skip
    if name == "restricted":
        given["mechanism_epsilon"] = 0.5
    if name == "weighted":
        given["delta"] = 1e-3
    return function(*FIRST.get(name, (COUNTS,)), **given)


@pytest.mark.parametrize("factor", [1.0, 1e12], ids=["doubles decide", "replays"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_read_that_fails_ends_the_call(name, factor, monkeypatch):
    """Replays, which wide bounds of errors bring about, read more: each of these too."""
    real, reads = os.urandom, []
    monkeypatch.setattr(_core, "error_factor", factor)
    fails_at = None

    def urandom(count):
        reads.append(count)
        if len(reads) - 1 == fails_at:
            raise OSError("none")
        return real(count)

    monkeypatch.setattr(os, "urandom", urandom)
    for fails_at in range(3):
        reads.clear()
        monkeypatch.setattr(rng, "_free", [])
        try:
            call(name)
        except RandomnessError:
            assert len(reads) == fails_at + 1  # none was asked for after it
        else:
            assert len(reads) <= fails_at  # the call needs no more
            assert fails_at > 0
            break
