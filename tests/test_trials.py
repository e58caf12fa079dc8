"""Many draws of one call: the same as a loop of calls, and refused where they would be misused."""

import numpy as np
import pytest

import dptopk as dp
from dptopk import SeededRng, _core
from dptopk._trials import TAKEN
from dptopk.mechanisms import _rows
from dptopk.reference.noise import sequence_law
from dptopk.verification.sampling import chi_square

COUNTS = np.array([50, 60, 55, 48, 58, 53, 54, 49])
NAMES = ["ape", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"]
KNOWN = dp.Histogram(COUNTS, NAMES)
UNKNOWN = dp.Histogram.truncated([60, 58, 55, 41], ["a", "b", "c", "d"], next_count=40, k_bar=4)
WEIGHTS = dp.Histogram.from_weights(COUNTS << 20, NAMES, soft_cap=1, domain_is_public=False)
K = {"k": 3, "epsilon": 1.0}
DELTA = {**K, "delta": 0.2}
CALLS = {
    "limited_domain": (UNKNOWN, {**DELTA, "k": 4}),
    "limited_domain k_bar private": (UNKNOWN, {**DELTA, "k_bar": "private"}),
    "limited_domain known": (KNOWN, {**DELTA, "k_bar": 5}),
    "limited_domain_laplace": (UNKNOWN, {**DELTA, "max_items_per_user": 2}),
    "top_stable": (UNKNOWN, DELTA),
    "top_stable range": (KNOWN, {**DELTA, "k": (1, 3)}),
    "restricted_gumbel": (UNKNOWN, DELTA),
    "restricted_permute_and_flip": (UNKNOWN, DELTA),
    "restricted_canonical": (UNKNOWN, DELTA),
    "restricted_oneshot": (UNKNOWN, DELTA),
    "restricted_normal": (UNKNOWN, {**DELTA, "max_items_per_user": 2}),
    "peel": (KNOWN, K),
    "peel scores": (COUNTS * 0.5, {**K, "sensitivity": 2.0}),
    "permute_and_flip": (KNOWN, K),
    "oneshot": (COUNTS, {**K, "noise": "laplace"}),
    "oneshot least": (COUNTS, {**K, "epsilon": 0.2, "noise": "exponential", "largest": False}),
    "noisy_max": (COUNTS, {"epsilon": 1.0}),
    "canonical": (KNOWN, K),
    "joint": (KNOWN, {**K, "output": "sequence"}),
    "gamma": (KNOWN, K),
    "weighted": (WEIGHTS, {**DELTA, "max_items_per_user": 8}),
}


def looped(function, counts, size, rng, **options):
    """Calls one after the other, as trials number their items."""
    k = options.get("k", 1)
    rows = []
    for _ in range(size):
        release = function(counts, rng=rng, **options)
        items = release.indices
        if items is None:
            items = [list(counts.domain_labels).index(label) for label in release.labels]
        rows.append([*items, *[-1] * ((k[-1] if isinstance(k, tuple) else k) - len(items))])
    return rows


def test_every_mechanism_that_picks_from_counts_is_tried():
    assert {call.split()[0] for call in CALLS} == set(TAKEN)


@pytest.mark.parametrize("call", CALLS)
def test_trials_are_a_loop_of_calls(call):
    function = getattr(dp, call.split()[0])
    counts, options = CALLS[call]
    rng, other = SeededRng(6), SeededRng(6)
    picks = dp.trials(function, counts, 100, rng=rng, **options)
    assert picks.dtype == np.int64
    assert picks.tolist() == looped(function, counts, 100, other, **options)
    assert rng.generator.integers(2**60) == other.generator.integers(2**60)
    assert len({tuple(row) for row in picks.tolist()}) > 1
    assert dp.trials(function, counts, 0, rng=rng, **options).shape == (0, picks.shape[1])


@pytest.mark.parametrize("call", ["limited_domain", "peel scores", "oneshot"])
def test_replays_and_workers_change_nothing(call, monkeypatch):
    function = getattr(dp, call.split()[0])
    counts, options = CALLS[call]
    monkeypatch.setattr(_rows, "PICKS", 64)
    draws = [
        dp.trials(function, counts, 50, rng=SeededRng(2), workers=workers, **options).tolist()
        for workers in (1, 3)
    ]
    monkeypatch.setattr(_core, "error_factor", 2.0**45)
    draws.append(dp.trials(function, counts, 50, rng=SeededRng(2), **options).tolist())
    assert draws[0] == draws[1] == draws[2]


def test_many_trials_have_the_law_of_the_mechanism():
    scale = 1 / dp.peel(KNOWN, k=2, epsilon=0.2).parameters["epsilon_step"]
    law, wrong = (
        sequence_law(dict(enumerate(COUNTS.tolist())), k=2, scale=scale * factor, noise="gumbel")
        for factor in (1.0, 1.05)
    )

    def sample(draws, seed):
        picks = dp.trials(dp.peel, KNOWN, draws, rng=SeededRng(seed), k=2, epsilon=0.2)
        return [tuple(pair) for pair in picks.tolist()]

    assert chi_square(law, sample, draws=200_000, seed=4).passed
    assert not chi_square(wrong, sample, draws=200_000, seed=4).passed


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"rng": None}, TypeError, "rng must be a SeededRng"),
        ({"rng": np.random.default_rng(1)}, TypeError, "rng must be a SeededRng"),
        ({"mechanism": "peel"}, TypeError, "mechanism must be a function"),
        ({"mechanism": dp.noisy_topk}, TypeError, "mechanism must be a function"),
        ({"mechanism": dp.restricted}, TypeError, "mechanism must be a function"),
        ({"mechanism": len}, TypeError, "mechanism must be a function"),
        ({"mechanism": type("peel", (), {})}, TypeError, "mechanism must be a function"),
        ({"size": -1}, ValueError, "size"),
        ({"size": 1.0}, TypeError, "size"),
        ({"workers": 0}, ValueError, "workers"),
        ({"progress": 1}, TypeError, "progress"),
        ({"k": 9}, ValueError, "k must be at most"),
        ({"epsilon": 0}, ValueError, "epsilon"),
        ({"counts": UNKNOWN}, dp.UnknownDomainError, "domain fixed before"),
        ({"misspelt": 1}, TypeError, "misspelt"),
    ],
)
def test_bad_input(changes, kind, message):
    given = {"mechanism": dp.peel, "counts": KNOWN, "size": 3, "rng": SeededRng(1), **K, **changes}
    with pytest.raises(kind, match=message):
        dp.trials(given.pop("mechanism"), given.pop("counts"), given.pop("size"), **given)


def test_there_is_no_default_rng():
    with pytest.raises(TypeError, match="rng"):
        dp.trials(dp.peel, KNOWN, 3, **K)
