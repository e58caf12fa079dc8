"""The C surface of csrc/dptk.h as Cython sees it."""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "dptk.h" nogil:
    int DPTK_OK, DPTK_TAPE_END, DPTK_SCRATCH, DPTK_UNDECIDED, DPTK_NAN

    # ---- simd.c
    int dptk_simd_best()
    int dptk_simd_get()
    int dptk_simd_set(int level)

    # ---- rng.c
    ctypedef struct dptk_rng:
        const uint64_t *next
        const uint64_t *end
        int (*refill)(dptk_rng *rng) noexcept nogil

    # ---- cut.c
    int DPTK_I8, DPTK_I16, DPTK_I32, DPTK_I64
    int DPTK_U8, DPTK_U16, DPTK_U32, DPTK_U64
    int DPTK_F32, DPTK_F64
    ctypedef struct dptk_column:
        const char *data
        ptrdiff_t stride
        size_t n
        int type

    int dptk_keys(const dptk_column *col, size_t first, size_t count, int64_t *keys)
    size_t dptk_cut_scratch(size_t n, size_t m)
    int dptk_cut(const dptk_column *col, size_t m, int64_t *scratch,
                 int64_t *keys, int64_t *index, int *negative)
    size_t dptk_count_keys_scratch(size_t span)
    int dptk_count_keys(const dptk_column *col, int64_t low, size_t span,
                        int64_t *scratch, int64_t *table, int64_t *outside)

    # ---- race.c
