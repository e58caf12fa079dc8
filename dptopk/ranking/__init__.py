"""Private ranking from pairwise comparisons, and the parts of it that are not private.

`rank_pairs` is also ``dptopk.rank_pairs``. Everything else here adds no noise:
what it returns about real comparisons is not private.
"""

from dptopk.ranking.chain import ergodicity_coefficient, stationary_distribution, transition_matrix
from dptopk.ranking.condition import ConditionNumbers, condition_numbers
from dptopk.ranking.private import rank_pairs, worst_case_rho
from dptopk.ranking.simulate import bradley_terry

__all__ = [
    "ConditionNumbers",
    "bradley_terry",
    "condition_numbers",
    "ergodicity_coefficient",
    "rank_pairs",
    "stationary_distribution",
    "transition_matrix",
    "worst_case_rho",
]
