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

# One or two of every part, each seen by a test that takes little time.
NOTICED = (
    Mistake(
        "half the noise where scores move both ways", f"{MECHANISMS}/peel.py",
        "1.0 if scores.monotone else 2.0", "1.0 if scores.monotone else 1.0",
        ("test_peel.py", "test_general_scores_take_twice_the_noise"),
    ),
    Mistake(
        "canonical is no step", f"{MECHANISMS}/canonical.py",
        "Steps(field.histogram, 1, 0, at", "Steps(field.histogram, 0, 0, at",
        ("test_canonical.py", "test_one_step_in_a_session_and_in_a_filter"),
    ),
    Mistake(
        "the integer threshold of Laplace noise is off", f"{MECHANISMS}/limited_domain_laplace.py",
        "most = math.log(delta) - math.log(m)", "most = math.log(delta) + math.log(m)",
        ("test_limited_domain_laplace.py", "test_the_integer_threshold_is_the_least"),
    ),
    Mistake(
        "min_users lowers the threshold", f"{MECHANISMS}/weighted.py",
        "(noise.threshold or 0) + min_users * ONE", "(noise.threshold or 0) - min_users * ONE",
        ("test_weighted.py", "test_min_users_raises_the_threshold"),
    ),
    Mistake(
        "a session lets one outcome too many be asked for", f"{BUDGET}/account.py",
        "if outcomes > left.outcomes:", "if outcomes > left.outcomes + 1:",
        ("test_session.py", "test_threads_never_pay_more_than_there_is"),
    ),
    Mistake(
        "a filter pays back", f"{BUDGET}/filter_account.py",
        "self._left[unit] -= amount", "self._left[unit] += amount",
        ("test_filter.py", "test_a_budget_is_used_up_exactly"),
    ),
    Mistake(
        "a bounded-range step costs nearly nothing", "dptopk/accounting/prices.py",
        "return padded(mean_loss(epsilon))", "return mean_loss(epsilon) / 2",
        ("test_prices.py", "test_prices_are_rounded_up_and_hardly_so"),
    ),
    Mistake(
        "users keep one item more than the bound", "dptopk/sources/bounds.py",
        "heapq.nsmallest(most, ranked)", "heapq.nsmallest(most + 1, ranked)",
        ("test_bounds.py", "test_one_user_moves_no_more_counts_than_are_kept"),
    ),
    Mistake(
        "sparse_vector's certain tests are turned round", "csrc/sparse_vector.c",
        "above = gap < 0.0;", "above = gap > 0.0;",
        ("test_sparse_vector.py", "test_kernel_equals_reference_on_the_same_tape"),
    ),
    Mistake(
        "the leader need not beat its rival's upper bound", "csrc/race.c",
        "return heap[0].low > rival;", "return heap[0].high >= rival;",
        ("test_race.py", "test_near_ties_are_never_decided_wrongly"),
    ),
    Mistake(
        "the heap of runners takes the lower child", "csrc/race.c",
        "child += heap[child + 1].high > heap[child].high;",
        "child += heap[child + 1].high < heap[child].high;",
        ("test_race.py", "test_kernel_equals_reference_on_the_same_tape"),
    ),
    Mistake(
        "a Laplace noise has one sign", "csrc/sparse_vector.c",
        "return word & 1 ? -size : size;", "return word & 1 ? size : size;",
        ("test_sparse_vector.py", "test_kernel_equals_reference_on_the_same_tape"),
    ),
)  # fmt: skip
