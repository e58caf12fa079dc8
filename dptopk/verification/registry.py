"""What a mechanism hands in: checks that must pass and broken twins that must not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from dptopk.verification import privacy, sampling
from dptopk.verification.draws import Public
from dptopk.verification.privacy import Claim, Counts, Law, Outcome

Sampler = Callable[[Counts, int, int], Iterable[Outcome]]  # (counts, draws, seed)


@dataclass(frozen=True)
class Verdict:
    """What a check found."""

    passed: bool
    detail: str


class Check(Protocol):
    """Anything with a label, a cost class and a verdict."""

    @property
    def label(self) -> str:
        """What is checked, with its parameters."""

    @property
    def quick(self) -> bool:
        """Whether it also runs in a quick run."""

    def run(self) -> Verdict:
        """Do it."""


@dataclass(frozen=True)
class PrivacyCheck:
    """Exact law against claims, on every small histogram and every neighbour."""

    label: str
    law: Law
    claims: tuple[Claim, ...]
    items: int = 4
    max_count: int = 3
    max_items_per_user: int | None = None
    monotone: bool = True  #: False: neighbours move every score by -1, 0 or 1
    user: Callable[[tuple[int, ...]], bool] | None = None  #: whose items these can be
    quick: bool = True

    def run(self) -> Verdict:
        """Judge every claim; the detail is that of the first that fails, or of the tightest."""
        table = privacy.Table(
            self.law, self.items, self.max_count, self.max_items_per_user, self.monotone,
            self.user,
        )  # fmt: skip
        found = [(claim, table.worst(claim)) for claim in self.claims]
        bad = [pair for pair in found if not self._good(*pair)]
        claim, worst = bad[0] if bad else max(found, key=lambda pair: privacy.tightness(*pair))
        return Verdict(not bad, _describe(claim, worst))

    @staticmethod
    def _good(claim: Claim, worst: privacy.Worst) -> bool:
        return privacy.holds(claim, worst) and privacy.tightness(claim, worst) >= claim.attains


def claimed(
    label: str, law: Law, epsilon: Any, delta: float = 0.0, attains: float = 0.0, **domain: Any
) -> PrivacyCheck:
    """Check one claim; `domain` goes to `PrivacyCheck` (items, max_count, monotone, ...)."""
    return PrivacyCheck(label, law, (Claim(epsilon, delta, attains),), **domain)


@dataclass(frozen=True)
class SamplerCheck:
    """Draws of the public function against the exact law, on one histogram; and its cost."""

    label: str
    law: Law
    sampler: Sampler
    counts: Counts
    draws: int
    seed: int = 0
    sees: Law | None = None  #: a wrong law that so many draws must be able to tell apart
    quick: bool = False

    def run(self) -> Verdict:
        """Test once, at alpha = 1e-9; never again."""
        if isinstance(self.sampler, Public):
            undercharged = self.sampler.undercharged(self.counts)
            if undercharged:
                return Verdict(False, undercharged)
        law = self.law(self.counts)
        test = sampling.chi_square(
            law, partial(self.sampler, self.counts), draws=self.draws, seed=self.seed
        )
        detail = (
            f"chi-square {test.statistic:.1f}, critical {test.critical:.1f} "
            f"({test.freedom} degrees of freedom, {test.draws} draws)"
        )
        if self.sees is None:
            return Verdict(test.passed, detail)
        power = sampling.power(law, self.sees(self.counts), draws=self.draws)
        enough = power >= 0.999
        return Verdict(test.passed and enough, f"{detail}, power {math.floor(power * 1e4) / 1e4}")


@dataclass(frozen=True)
class TapeCheck:
    """Kernels against their reference on the same tapes."""

    label: str
    kernels: Mapping[str, Callable[[Any], Any]]
    reference: Callable[[Any], Any]
    tapes: Callable[[], Iterable[Any]]
    quick: bool = True

    def run(self) -> Verdict:
        """Compare outcome by outcome."""
        twin = sampling.tape_twin(self.kernels, self.reference, self.tapes())
        if twin.kernel is not None:
            return Verdict(False, f"{twin.kernel} differs from the reference on tape {twin.tape}")
        return Verdict(twin.passed, f"{len(self.kernels)} kernels agree on {twin.tapes} tapes")


@dataclass(frozen=True)
class Entry:
    """One mechanism.

    Parameters
    ----------
    name : str
        Its stem.
    checks : tuple of Check
        Each must pass.
    broken : tuple of Check
        The same checks on something known to be wrong. Each must be rejected; one that
        slips through shows that a check cannot see what it is there for.

    Raises
    ------
    ValueError
        If there is no check or no twin, or a twin that a demand for tightness alone could
        reject.
    """

    name: str
    checks: tuple[Check, ...]
    broken: tuple[Check, ...]

    def __post_init__(self) -> None:
        if not self.checks or not self.broken:
            raise ValueError(f"{self.name}: an entry needs checks and broken twins")
        for twin in self.broken:
            demands = [claim.attains for claim in getattr(twin, "claims", ())]
            if any(demands) or getattr(twin, "sees", None) is not None:
                raise ValueError(f"{self.name}: the twin {twin.label!r} must ask for no tightness")


def _describe(claim: Claim, worst: privacy.Worst) -> str:
    at = "its price" if callable(claim.epsilon) else f"{claim.epsilon:.6g}"
    if claim.delta > 0:
        share = worst.delta / claim.delta
        what = f"delta {worst.delta:.6g}, {share:.2%} of {claim.delta:.6g}, at epsilon {at}"
    elif math.isfinite(worst.loss):
        what = f"loss {worst.loss:.2%} of epsilon {at}"
    else:
        what = "an outcome possible on one side only"
    return f"{what}: {worst.counts} -> {worst.neighbour}"
