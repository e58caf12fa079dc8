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

    # ---- adaptive.c
    size_t dptk_adaptive_scratch(size_t m, size_t capacity)
    int dptk_adaptive(size_t steps, size_t m, size_t capacity, double range, double floor_,
                      double *scratch, double *out, size_t *n_out)
