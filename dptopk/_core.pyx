"""Thin wrappers of csrc/: views in, a call without the GIL, a status out.

Nothing here validates (mechanisms do, at the door) and nothing here knows
epsilon. One section per C file, in the order of dptk.h.
"""

import numpy as np

# ---- rng.c

# ---- cut.c

# ---- race.c

# ---- adaptive.c


def adaptive(size_t steps, size_t m, size_t capacity, double range_, double floor_):
    """Upper bounds of delta at x = 0, range/m, ... after the given steps."""
    cdef double[::1] scratch = np.empty(dptk_adaptive_scratch(m, capacity))
    out = np.empty(capacity)
    cdef double[::1] view = out
    cdef size_t n = 0
    with nogil:
        dptk_adaptive(steps, m, capacity, range_, floor_, &scratch[0], &view[0], &n)
    return out[:n]
