"""Composition of private steps: what they cost together, and what a total buys each of them.

Pure arithmetic, rounded against the caller: a total is never below the bound
it stands for, a budget per step never above what the total allows. `METHODS`
lists the methods, with what each assumes of a step and its source.

"Bounded range" means that the log-ratios of a step's probabilities under two
neighbours span at most epsilon_step: so for the exponential mechanism, and so
for Gumbel noise. It is more than epsilon-DP. Permute-and-flip, report noisy
max and the Laplace mechanisms do not have it: for them use basic, advanced or
optimal. Every method allows steps that are chosen in view of earlier outcomes.
"""

from dptopk.accounting.gaussian import gaussian_delta, gaussian_sigma
from dptopk.accounting.inverse import (
    METHODS,
    prepare,
    step_epsilon,
    total_epsilon,
    winning_method,
)
from dptopk.accounting.weighted import weighted_noise
from dptopk.accounting.weights import weight

__all__ = [
    "METHODS",
    "gaussian_delta",
    "gaussian_sigma",
    "prepare",
    "step_epsilon",
    "total_epsilon",
    "weight",
    "weighted_noise",
    "winning_method",
]
