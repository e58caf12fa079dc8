"""Thin wrappers of csrc/: views in, a call without the GIL, a status out.

Nothing here validates (mechanisms do, at the door) and nothing here knows
epsilon. One section per C file, in the order of dptk.h.
"""

import numpy as np

# ---- rng.c

# ---- cut.c

# ---- race.c
