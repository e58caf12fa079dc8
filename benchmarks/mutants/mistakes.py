"""Mistakes that are known, each with who must see it: `dptopk verify`, or a test.

They stand by their text, so that they move with the code. `tests/test_mutants.py` makes each of
them, and fails where it is not seen: a check or a test has then lost its teeth.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """A text that stands once in a file, what stands there instead, and who must see it."""

    what: str
    path: str
    before: str
    after: str
    seen_by: tuple[str, str]  #: an entry of `verify` and a label's beginning; a file and a test

    def apply(self, text: str) -> str:
        """Return the file's text with the mistake in it.

        Raises
        ------
        LookupError
            If the place is not there, or not once.
        """
        if text.count(self.before) != 1:
            raise LookupError(f"{self.path} has {self.before!r} {text.count(self.before)} times")
        return text.replace(self.before, self.after)


MECHANISMS, BUDGET = "dptopk/mechanisms", "dptopk/budget"
VERIFIED = (
    # Costs that are not charged.
    Mistake(
        "a session charges no outcomes", f"{BUDGET}/account.py",
        "self._outcomes -= outcomes", "self._outcomes -= 0",
        ("charges", "session.peel(k=3)"),
    ),
    Mistake(
        "a session charges no call", f"{BUDGET}/account.py",
        "self._calls -= calls", "self._calls -= 0",
        ("charges", "session.limited_domain(k=2)"),
    ),
    Mistake(
        "BOT is no outcome", f"{MECHANISMS}/_plan.py",
        "return release.outcomes", "return len(release)",
        ("charges", "session.limited_domain(k=2)"),
    ),
    Mistake(
        "a filter charges no threshold", f"{BUDGET}/filter.py",
        "failure = steps.thresholds * delta", "failure = 0 * delta",
        ("charges", "filter.limited_domain(k=2)"),
    ),
    Mistake(
        "the choice of k_bar is no step", f"{MECHANISMS}/limited_domain.py",
        "Steps(h, k + 1, 1, at, lambda release: release.outcomes + 1)",
        "Steps(h, k, 1, at, outcomes_of)",
        ("charges", "session.limited_domain(k=4, k_bar=private)"),
    ),
    Mistake(
        "sparse_vector's answers are free", f"{MECHANISMS}/sparse_vector.py",
        "total = sum_up(epsilon, answers_epsilon)", "total = epsilon",
        ("charges", "SparseVector, with answers"),
    ),
    Mistake(
        "noisy counts are free", f"{MECHANISMS}/noisy_counts.py",
        "total = _sum(cost.epsilon, epsilon)", "total = cost.epsilon",
        ("noisy_counts", "noisy_counts(), shared noise of two counts"),
    ),
    # Thresholds and noise.
    Mistake(
        "ln(1 / delta) for ln(m / delta)", f"{MECHANISMS}/limited_domain.py",
        "return _lift(m, delta)", "return _lift(1, delta)",
        ("limited_domain", "limited_domain() and its twin on the same tapes"),
    ),
    Mistake(
        "the threshold without the + 1", f"{MECHANISMS}/limited_domain.py",
        "return padded(log, log + 1.0)", "return padded(log - 1.0, log + 1.0)",
        ("limited_domain", "limited_domain() and its twin on the same tapes"),
    ),
    Mistake(
        "a mechanism is shown only the items present", "dptopk/framework/restrict.py",
        "return shown, items, next_count\n    return counts",
        "return counts, items, next_count\n    return counts",
        ("restricted", "restricted(peel) and its twin on the same tapes"),
    ),
    Mistake(
        "half the noise of the tests", "dptopk/framework/restrict.py",
        "scale = scale_of(rest, 2.0)", "scale = scale_of(rest, 1.0)",
        ("restricted", "restricted(peel) and its twin on the same tapes"),
    ),
)  # fmt: skip
