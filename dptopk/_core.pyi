"""Types of the extension module."""

from typing import Any

import numpy as np
import numpy.typing as npt

# ---- simd.c
def simd_best() -> int: ...
def simd_get() -> int: ...
def simd_set(level: int) -> int: ...

# ---- rng.c

# ---- cut.c
def keys(counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]: ...
def cut(
    counts: npt.NDArray[Any], m: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], bool]: ...
def count_keys(
    counts: npt.NDArray[Any], low: int, span: int
) -> tuple[npt.NDArray[np.int64], int]: ...

# ---- race.c
