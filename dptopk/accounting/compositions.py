"""Closed forms of composition, one function per bound, each with its equation.

Steps come as groups ((epsilon_step, count), ...) and every value is rounded
up: `padded` adds 16 units of 2^-53, more than the handful of operations before it
(each within a unit, the library's exponentials and logarithms within two) can
have lost, all of whose terms are positive. Where terms of both signs meet, the
charge is on the sum of their sizes.
"""

import math
from fractions import Fraction

from dptopk.accounting.prices import mean_loss
from dptopk.rounding import padded, up

Groups = tuple[tuple[float, int], ...]


def _norm(groups: Groups) -> float:
    """Root of the sum of squares, without underflow."""
    top = max(epsilon for epsilon, _ in groups)
    return top * math.sqrt(math.fsum(count * (epsilon / top) ** 2 for epsilon, count in groups))


def _log_inverse(delta: float) -> float:
    return -math.log(delta) if delta > 0.0 else math.inf


def basic(groups: Groups) -> float:
    """Sum of the epsilons: the double at or next above the exact sum.

    Assumes epsilon-DP steps.
    """
    if len(groups) == 1 and groups[0][1] == 1:
        return groups[0][0]
    return up(sum((Fraction(epsilon) * count for epsilon, count in groups), Fraction(0)))


def advanced(groups: Groups, delta: float) -> float:
    """Theorem 3 of Durfee and Rogers (2019): sum e tanh(e/2) + sqrt(2 sum e^2 ln(1/delta)).

    Assumes epsilon-DP steps. (e^x - 1)/(e^x + 1) = tanh(x/2).
    """
    drift = math.fsum(count * epsilon * math.tanh(epsilon / 2) for epsilon, count in groups)
    spread = _norm(groups) * math.sqrt(2 * _log_inverse(delta))
    return min(basic(groups), padded(drift + spread))


def bounded_range(groups: Groups, delta: float) -> float:
    """Equation 4 of Durfee and Rogers (2019): the least of three.

    The third is sum e^2/2 + sqrt(sum e^2 ln(1/delta) / 2). Assumes
    epsilon-bounded-range steps.
    """
    norm = _norm(groups)
    third = norm * norm / 2 + norm * math.sqrt(_log_inverse(delta) / 2)
    return min(advanced(groups, delta), padded(third))


def bounded_range_2020(groups: Groups, delta: float) -> float:
    """Equations 12 and 15 of the restricted-domain framework (Carvalho and others).

    k (x - 1 - ln x) + e sqrt(k ln(1/delta) / 2) with x = e/(1 - exp(-e)), after
    Dong, Durfee and Rogers (2020). Assumes equal epsilon-bounded-range steps.
    """
    ((epsilon, count),) = groups
    spread = epsilon * math.sqrt(count / 2 * _log_inverse(delta))
    return min(basic(groups), padded(count * mean_loss(epsilon) + spread))


def _renyi_order(rho: float, log_inverse_delta: float) -> float:
    """Order less 1 that minimises `zcdp`: the root a of rho a^2 + ln(1 + a) = ln(1/delta).

    In s = ln a the left side is convex and increasing, so Newton's steps from
    the right of the root never pass it. Any a gives a valid bound.
    """
    a = math.sqrt(log_inverse_delta / rho)
    if log_inverse_delta < 700:
        a = min(a, math.expm1(log_inverse_delta))
    for _ in range(100):
        excess = rho * a * a + math.log1p(a) - log_inverse_delta
        move = excess / (2 * rho * a * a + a / (1 + a))
        a *= math.exp(-move)
        if move < 1e-9:
            break
    return a


def zcdp(groups: Groups, delta: float) -> float:
    """Cesar and Rogers (2021): an epsilon-bounded-range step is epsilon^2/8-zCDP.

    The sum rho of these becomes (epsilon, delta) at the best order 1 + a:
    rho (1 + a) + ln(a/(1 + a)) - (ln delta + ln(1 + a))/a (Canonne, Kamath and
    Steinke 2020). Assumes epsilon-bounded-range steps.
    """
    if delta == 0.0:
        return basic(groups)
    norm = _norm(groups)
    rho = max(norm * norm / 8, 1e-300)
    if rho >= basic(groups):
        return basic(groups)
    return min(basic(groups), max(0.0, epsilon_of_rho(rho, delta)))


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Epsilon at delta of what is rho-zCDP, rho and delta > 0: the bound in `zcdp`."""
    log_inverse_delta = _log_inverse(delta)
    a = _renyi_order(rho, log_inverse_delta)
    terms = (rho * (1 + a), -math.log1p(1 / a), log_inverse_delta / a, -math.log1p(a) / a)
    return padded(math.fsum(terms), math.fsum(map(abs, terms)))


def closed_form(groups: Groups, delta: float) -> float:
    """Least of the closed forms above. Assumes epsilon-bounded-range steps."""
    bounds = [bounded_range(groups, delta), zcdp(groups, delta)]
    if len(groups) == 1:
        bounds.append(bounded_range_2020(groups, delta))
    return min(bounds)
