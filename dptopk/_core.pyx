"""Thin wrappers of csrc/: views in, a call without the GIL, a status out.

Nothing here validates (mechanisms do, at the door) and nothing here knows
epsilon. One section per C file, in the order of dptk.h.
"""

import numpy as np

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport free, malloc

# ---- simd.c


def simd_best():
    """The highest SIMD level this machine can run."""
    return dptk_simd_best()


def simd_get():
    """The SIMD level in use."""
    return dptk_simd_get()


def simd_set(int level):
    """Use a SIMD level, or the best there is below it; returns the one in use."""
    return dptk_simd_set(level)


# ---- rng.c

# ---- cut.c


cdef int column_type(const Py_buffer *view) noexcept:
    """Element type of a buffer as dptk.h names it, or -1."""
    cdef const char *code = view.format
    cdef int log_size = 0
    while 1 << log_size < view.itemsize:
        log_size += 1
    if code[0] == c"@" or code[0] == c"=":
        code += 1
    if code[0] == 0 or code[1] != 0 or view.itemsize > 8:
        return -1
    if code[0] in b"bhilqn":
        return DPTK_I8 + log_size
    if code[0] in b"?BHILQN":
        return DPTK_U8 + log_size
    if code[0] == c"f":
        return DPTK_F32
    if code[0] == c"d":
        return DPTK_F64
    return -1


cdef int column_of(object counts, Py_buffer *view, dptk_column *col) except -1:
    """Describe a 1-D array to C. The view keeps it alive: release it after use."""
    PyObject_GetBuffer(counts, view, PyBUF_STRIDES | PyBUF_FORMAT)
    col.type = column_type(view)
    if view.ndim != 1 or col.type < 0:
        PyBuffer_Release(view)
        raise TypeError("counts must be a 1-D array of native integers, float32 or float64")
    col.data = <const char *>view.buf
    col.stride = view.strides[0]
    col.n = <size_t>view.shape[0]
    return 0


cdef int64_t *scratch_words(size_t words) except NULL:
    cdef int64_t *scratch = <int64_t *>malloc(words * sizeof(int64_t))
    if scratch == NULL:
        raise MemoryError
    return scratch


cdef int raise_nan(int status) except -1:
    if status == DPTK_NAN:
        raise ValueError("counts must not contain NaN")
    return 0


def keys(counts):
    """One int64 per score, which orders as the scores do."""
    cdef Py_buffer view
    cdef dptk_column col
    cdef int64_t[::1] out
    cdef int status
    column_of(counts, &view, &col)
    try:
        result = np.empty(col.n, dtype=np.int64)
        if col.n == 0:
            return result
        out = result
        with nogil:
            status = dptk_keys(&col, 0, col.n, &out[0])
        raise_nan(status)
        return result
    finally:
        PyBuffer_Release(&view)


def cut(counts, size_t m):
    """(keys, index, negative) of the m largest, 1 <= m <= len(counts)."""
    cdef Py_buffer view
    cdef dptk_column col
    cdef int64_t[::1] keys_out, index_out
    cdef int64_t *scratch = NULL
    cdef int status, negative = 0
    column_of(counts, &view, &col)
    try:
        if not 1 <= m <= col.n:
            raise ValueError("m must be between 1 and the number of counts")
        keys_array = np.empty(m, dtype=np.int64)
        index_array = np.empty(m, dtype=np.int64)
        keys_out, index_out = keys_array, index_array
        scratch = scratch_words(dptk_cut_scratch(col.n, m))
        with nogil:
            status = dptk_cut(&col, m, scratch, &keys_out[0], &index_out[0], &negative)
        raise_nan(status)
        return keys_array, index_array, negative != 0
    finally:
        free(scratch)
        PyBuffer_Release(&view)


def count_keys(counts, int64_t low, size_t span):
    """(table, outside): how many scores have each key in [low, low + span)."""
    cdef Py_buffer view
    cdef dptk_column col
    cdef int64_t[::1] table_out
    cdef int64_t *scratch = NULL
    cdef int64_t outside = 0
    cdef int status
    column_of(counts, &view, &col)
    try:
        table = np.empty(span + 1, dtype=np.int64)  # never empty, so that it has an address
        table_out = table
        scratch = scratch_words(dptk_count_keys_scratch(span))
        with nogil:
            status = dptk_count_keys(&col, low, span, scratch, &table_out[0], &outside)
        raise_nan(status)
        return table[:span], outside
    finally:
        free(scratch)
        PyBuffer_Release(&view)


# ---- race.c
