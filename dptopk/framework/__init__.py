"""Any mechanism over an unknown domain.

restrict.py  a mechanism picks from the top k_bar, and each pick is tested
wrapped.py   running the mechanism: one of ours, or a callable of the caller's
ready.py     ours by name, ready to call
"""

from dptopk.framework.ready import (
    restricted_canonical,
    restricted_gumbel,
    restricted_normal,
    restricted_oneshot,
    restricted_permute_and_flip,
)
from dptopk.framework.restrict import restricted

__all__ = [
    "restricted",
    "restricted_canonical",
    "restricted_gumbel",
    "restricted_normal",
    "restricted_oneshot",
    "restricted_permute_and_flip",
]
