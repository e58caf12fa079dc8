"""What a session is opened with, and the epsilon and delta of each step that follow.

The guarantee of a session is Theorem 2 of Durfee and Rogers 2019. The smaller delta of
"tight", calls * delta_threshold + delta_composition, is proved in docs/proofs/session.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from dptopk._types import Method
from dptopk._validate import choice, integer, positive, probability
from dptopk.accounting import METHODS, step_epsilon
from dptopk.accounting.compositions import epsilon_of_rho
from dptopk.accounting.inverse import step_of_rho
from dptopk.accounting.prices import bounded_range_rho
from dptopk.mechanisms._calibrate import composition, scale_of
from dptopk.release import Cost
from dptopk.rounding import down, up

__all__ = ["ACCOUNTINGS", "Remaining", "Spent", "Terms"]

THEOREM = "Durfee and Rogers 2019, Theorem 2"
#: How often the delta of the thresholds is charged a call.
ACCOUNTINGS = {"tight": 1, "printed": 2}


class Remaining(NamedTuple):
    """What a session has left.

    Attributes
    ----------
    outcomes : int
        How many outcomes, BOT included.
    calls : int
        How many calls of limited_domain.
    """

    outcomes: int
    calls: int


class Spent(NamedTuple):
    """What a session has spent, calls under way included; see `Session.spent`.

    Attributes
    ----------
    outcomes, calls : int
        Outcomes, BOT included, and calls of limited_domain.
    epsilon, delta : float
        What may be quoted for them, after the fact.
    """

    outcomes: int
    calls: int
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Terms:
    """What a session was opened with, and what follows from it for each step.

    Attributes
    ----------
    k_star, calls, epsilon, delta, method, accounting, delta_split
        As in `Session`.
    epsilon_step : float
        The epsilon of each step.
    delta_threshold : float
        The delta of the threshold of each call.
    delta_composition : float
        The delta of the composition of all steps.
    """

    k_star: int
    calls: int
    epsilon: float
    delta: float
    method: str
    accounting: str
    delta_split: float
    epsilon_step: float
    delta_threshold: float
    delta_composition: float

    @classmethod
    def of(
        cls,
        *,
        k_star: Any,
        calls: Any,
        delta: Any,
        epsilon: Any = None,
        rho: Any = None,
        method: Any = "adaptive",
        accounting: Any = "tight",
        delta_split: Any = 0.5,
    ) -> Terms:
        """Check the arguments of a session and fix its step."""
        if (epsilon is None) == (rho is None):
            raise TypeError("give either epsilon or rho, the total, not both")
        method = choice("method", method, METHODS)
        if rho is not None and method not in ("adaptive", "zcdp"):
            raise ValueError(f"method must be zcdp where rho is the total, got {method!r}")
        return _terms(
            integer("k_star", k_star),
            integer("calls", calls),
            None if epsilon is None else positive("epsilon", epsilon),
            None if rho is None else positive("rho", rho),
            probability("delta", delta, zero=False),
            method,
            choice("accounting", accounting, ACCOUNTINGS),
            _share(delta_split),
        )

    @property
    def rho(self) -> float | None:
        """What all steps cost in zCDP, if that is how they are composed."""
        if self.method != "zcdp" or self.delta_composition == 0.0:
            return None
        return up(self.k_star * Fraction(bounded_range_rho(self.epsilon_step)))

    @property
    def cost(self) -> Cost:
        """The whole session."""
        return Cost(self.epsilon, self.delta, f"a whole session: {self._theorem}", self.rho)

    @property
    def cost_of_call(self) -> Cost:
        """A call: the whole session again, as it is paid once for all calls."""
        text = f"charged to a session, whose calls cost this all together: {self._theorem}"
        return Cost(self.epsilon, self.delta, text, self.rho)

    @property
    def _theorem(self) -> str:
        steps = composition(self.method, self.epsilon_step, self.k_star, self.delta_composition)
        how = "" if self.accounting == "printed" else ", its delta charged on one side"
        return f"{THEOREM}{how}; {steps}"


def _share(value: Any) -> float:
    share = positive("delta_split", value)
    if share > 1.0:
        raise ValueError(f"delta_split must be in (0, 1], got {value}")
    return share


@lru_cache(maxsize=1024)
def _terms(
    k_star: int,
    calls: int,
    epsilon: float | None,
    rho: float | None,
    delta: float,
    method: Method,
    accounting: str,
    delta_split: float,
) -> Terms:
    whole = Fraction(delta)
    thresholds = whole * Fraction(delta_split)
    each = down(thresholds / (calls * ACCOUNTINGS[accounting]))
    if each == 0.0:
        raise ValueError(f"delta is too small to share among {calls} calls, got {delta}")
    rest = down(whole - thresholds)
    if epsilon is not None:
        step = step_epsilon(epsilon, k_star, rest, method)
    else:
        assert rho is not None
        if rest == 0.0:
            raise ValueError("delta_split must leave some of delta for epsilon to follow from rho")
        method, epsilon, step = "zcdp", epsilon_of_rho(rho, rest), step_of_rho(rho, k_star)
    scale_of(step)  # refuses an epsilon too small for any noise
    return Terms(
        k_star, calls, epsilon, delta, method, accounting, delta_split, step, each, rest
    )  # fmt: skip
