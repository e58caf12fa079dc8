"""The comparison with other libraries: what is by hand has its law, and a record comes."""

from __future__ import annotations

import numpy as np
import pytest

reason = "the benchmarks stand in the sources, not in the wheel"
ways = pytest.importorskip("benchmarks.peers.ways", reason=reason)
import dptopk as dp  # noqa: E402
from benchmarks.paper import record  # noqa: E402
from benchmarks.paper.record import Scale  # noqa: E402
from benchmarks.peers import command, features, naive, probes_choice, probes_use  # noqa: E402
from dptopk.reference import joint, peel  # noqa: E402

TRIALS, ALPHA = 1500, 1e-9
COUNTS = np.array([6, 5, 3, 1])


def _distance(law, draw):
    """Return the largest distance of a share from its chance, and what chance allows."""
    seen: dict[tuple, int] = {}
    for _ in range(TRIALS):
        outcome = tuple(int(i) for i in draw())
        seen[outcome] = seen.get(outcome, 0) + 1
    assert set(seen) <= set(law)
    # Hoeffding's bound for each outcome, and the union over all
    allowed = np.sqrt(np.log(2 * len(law) / ALPHA) / (2 * TRIALS))
    return max(abs(seen.get(o, 0) / TRIALS - p) for o, p in law.items()), allowed


def test_the_joint_set_by_hand_has_the_law_and_its_twin_has_not():
    law = joint.law(COUNTS.tolist(), k=2, scale=2.0)
    rng = np.random.default_rng(1)
    far, allowed = _distance(law, lambda: sorted(naive.joint_set(COUNTS, 2, 1.0, rng)))
    assert far <= allowed
    far, allowed = _distance(law, lambda: sorted(naive.joint_set(COUNTS, 2, 2.0, rng)))
    assert far > allowed  # epsilon for epsilon / 2


def test_the_gumbel_race_by_hand_has_the_law_of_peel():
    law = peel.law(COUNTS.tolist(), k=2, scale=2.0)
    rng = np.random.default_rng(2)
    far, allowed = _distance(law, lambda: naive.gumbel_top_k(COUNTS, 2, 0.5, rng))
    assert far <= allowed


@pytest.mark.parametrize("by_hand", ["limited_domain", "top_stable", "restricted_gumbel"])
def test_mechanisms_by_hand_return_what_ours_return(by_hand):
    """The same parameters, the mean number that comes: within five standard errors."""
    gaps = by_hand == "top_stable"
    top = np.array([60, 55, 52, 30, 25, 12, 3] if gaps else [36, 32, 27, 20, 18, 9, 3])
    rng, ours = np.random.default_rng(3), dp.SeededRng(3)
    h = dp.Histogram.truncated(top[:-1], range(6), next_count=3, k_bar=6)
    if by_hand == "limited_domain":
        plain = [naive.limited_domain(top, 3, 0.4, 1e-3, rng).size for _ in range(1000)]
        picks = dp.trials(dp.limited_domain, h, 1000, rng=ours, k=3, k_bar=6, epsilon_step=0.4,
                          delta=2e-3)  # fmt: skip
    elif by_hand == "top_stable":
        plain = [naive.top_stable(top, 3, 1.0, 1e-2, rng).size for _ in range(1000)]
        picks = dp.trials(dp.top_stable, h, 1000, rng=ours, k=3, k_bar=3, epsilon=1.0, delta=1e-2,
                          split=0.37, bound="paper")  # fmt: skip
    else:
        plain = [naive.restricted_gumbel(top, 3, 0.4, 1.0, 1e-3, rng).size for _ in range(1000)]
        least = dp.accounting.total_epsilon(0.4, 3, 1e-3)
        picks = dp.trials(dp.restricted_gumbel, h, 1000, rng=ours, k=3, k_bar=6, delta=2e-3,
                          epsilon=least + 1.0, mechanism_epsilon=least, mechanism_delta=1e-3,
                          bound="paper")  # fmt: skip
    came = (picks >= 0).sum(axis=1)
    error = np.sqrt((np.var(plain) + came.var()) / 1000)
    assert abs(np.mean(plain) - came.mean()) <= 5 * error
    assert 0.2 < came.mean() < 2.99  # the thresholds were put to the test


LONG = {
    probes_choice.SET,
    probes_use.EVENTS,
    probes_use.GROUPS,
    probes_use.STREAM,
    probes_use.VERIFY,
}


def test_features_are_run_and_failures_are_said():
    assert features.answer(lambda: True, "NumPy") == "yes"
    assert features.answer(lambda: False, "NumPy") == "no"
    assert features.answer(lambda: 1 / 0, "NumPy") == "no: ZeroDivisionError"
    for feature in set(features.FEATURES) - LONG:
        assert features.answer(features.FEATURES[feature]["dptopk"], "dptopk") == "yes", feature


@pytest.mark.full
def test_the_longer_probes_too():
    for feature in LONG:
        assert features.answer(features.FEATURES[feature]["dptopk"], "dptopk") == "yes", feature


def test_what_is_not_installed_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "MODULES", dict.fromkeys(command.MODULES, "no_such_module"))
    monkeypatch.setattr(features, "MODULES", dict.fromkeys(features.PEERS, "no_such_module"))
    made = command.run(Scale("tiny"), lambda text: None)
    assert made.absent == list(command.MODULES)
    its = record.recorded("peers", made, command="x", seed=0, seconds=1.0)
    record.write(tmp_path, its)
    assert {row[-1] for row in its["tables"][0]["rows"] if row[0] == "OpenDP"} == {"not installed"}
    assert {cell for row in its["tables"][-1]["rows"] for cell in row[1:]} == {"not installed"}
