"""What a step costs in zero-concentrated DP (rho), rounded up.

A step is rho-zCDP if its Rényi divergence of every order a > 1 is at most
rho a, in both directions. For the two prices below it is the limit a -> 1 that
decides, the mean loss: for larger orders the divergence grows more slowly than
the order (Harrison and Manurangsi 2025). `tests/test_prices.py` takes the
supremum over all orders numerically.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dptopk.rounding import padded, up

__all__ = ["bounded_range_rho", "laplace_rho", "mean_loss", "price"]

_BERNOULLI = "1/6 -1/30 1/42 -1/30 5/66 -691/2730 7/6 -3617/510 43867/798 -174611/330 854513/138"
_MEAN_LOSS_SERIES = tuple(
    float(Fraction(b) * 4**n * (2 * n + 1) / (2 * n * math.factorial(2 * n)))
    for n, b in enumerate(_BERNOULLI.split(), 1)
)


def mean_loss(epsilon: float) -> float:
    """Largest mean loss of a bounded-range step: x - 1 - ln x at x = e/(1 - exp(-e)).

    With s = e/2 this is s coth s - 1 + ln(sinh(s)/s), the same at x = e/(exp(e) - 1).
    Its Taylor series alternates and falls; it stops here after a positive term, s^22.
    """
    if epsilon < 1.0:
        q = epsilon * epsilon / 4
        return math.fsum(c * q**n for n, c in enumerate(_MEAN_LOSS_SERIES, 1))
    x = epsilon / -math.expm1(-epsilon)
    return padded(x - 1 - math.log(x), x + 1 + abs(math.log(x)))


def bounded_range_rho(epsilon: float) -> float:
    """Price of an epsilon-bounded-range step: x - 1 - ln x at x = e/(exp(e) - 1).

    Below e^2/8 (Cesar and Rogers 2021), by 1.4% at e = 1 and by half at e = 9.
    """
    return padded(mean_loss(epsilon))


def laplace_rho(epsilon: float) -> float:
    """Price of the Laplace mechanism of scale (L1 sensitivity)/epsilon: e + exp(-e) - 1.

    Below e^2/2, as for the real numbers between its loss is between -e and e. Not so for
    discrete Laplace noise on integers that move by 1, whose loss is -e or e: that
    is any pure DP step.
    """
    if epsilon < 1.0:  # an alternating series, which stops after a positive term
        terms = ((-epsilon) ** n / math.factorial(n) for n in range(2, 21))
        return padded(math.fsum(terms))
    return padded(epsilon + math.expm1(-epsilon), epsilon + 1.0)


def price(epsilon: Fraction, law: str) -> Fraction:
    """Return what a step of an exact epsilon costs, by its law.

    "bounded_range", "laplace", or "any": any pure DP step costs e^2/2 (Bun and Steinke 2016).
    """
    above = up(epsilon)
    if law == "any" or math.isinf(above):
        return epsilon**2 / 2
    return Fraction(bounded_range_rho(above) if law == "bounded_range" else laplace_rho(above))
