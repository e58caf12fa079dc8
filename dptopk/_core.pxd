"""The C surface of csrc/dptk.h as Cython sees it."""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "dptk.h" nogil:
    int DPTK_OK, DPTK_TAPE_END, DPTK_SCRATCH, DPTK_UNDECIDED, DPTK_NAN

    # ---- rng.c
    ctypedef struct dptk_rng:
        const uint64_t *next
        const uint64_t *end
        int (*refill)(dptk_rng *rng) noexcept nogil

    # ---- cut.c

    # ---- race.c
