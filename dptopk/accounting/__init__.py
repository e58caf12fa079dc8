"""Composition of private steps: what they cost together, and what a total buys each of them.

Pure arithmetic, rounded against the caller: a total is never below the bound
it stands for, a budget per step never above what the total allows. The
methods, and what each assumes of a step:

=================== =============== ==============================================
method              a step is       source
=================== =============== ==============================================
basic               epsilon-DP      the sum
advanced            epsilon-DP      Durfee and Rogers 2019, Theorem 3
optimal             epsilon-DP      Kairouz, Oh and Viswanath; there Lemma 4.5
bounded_range       bounded range   Durfee and Rogers 2019, equation 4
bounded_range_2020  bounded range   Dong, Durfee and Rogers 2020
zcdp                bounded range   epsilon^2/8-zCDP, Canonne, Kamath and Steinke
adaptive            bounded range   the certified recursion of `adaptive`
best                bounded range   the smallest of all of these
=================== =============== ==============================================

"Bounded range" means that the log-ratios of a step's probabilities under two
neighbours span at most epsilon_step: so for the exponential mechanism, and so
for Gumbel noise. It is more than epsilon-DP. Permute-and-flip, report noisy
max and the Laplace mechanisms do not have it: for them use basic, advanced or
optimal. Every method allows steps that are chosen in view of earlier outcomes.
"""

from dptopk.accounting.inverse import METHODS, step_epsilon, total_epsilon, winning_method

__all__ = ["METHODS", "step_epsilon", "total_epsilon", "winning_method"]
