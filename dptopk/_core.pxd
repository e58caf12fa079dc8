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
        const uint64_t *first

    ctypedef struct dptk_buffer:
        dptk_rng rng
        uint64_t *words
        size_t capacity

    ctypedef struct dptk_drawn:
        dptk_buffer buffer

    ctypedef struct dptk_chacha:
        dptk_buffer buffer

    void dptk_tape_init(dptk_rng *rng, const uint64_t *words, size_t n)
    void dptk_rewind(dptk_rng *rng)
    void dptk_buffer_begin(dptk_buffer *b)
    void dptk_buffer_grow(dptk_buffer *b, uint64_t *words, size_t capacity)
    void dptk_drawn_init(dptk_drawn *d, uint64_t (*draw)(void *state) noexcept nogil,
                         void *state, uint64_t *words, size_t capacity)
    void dptk_chacha20_block(const uint32_t *key, uint32_t counter,
                             const uint32_t *nonce, uint32_t *out)
    void dptk_chacha_init(dptk_chacha *c, const uint8_t *key, uint64_t *words, size_t capacity)
    void dptk_chacha_wipe(dptk_chacha *c)
    void dptk_wipe(void *memory, size_t n)

    # ---- simd.c
    int dptk_simd_best()
    int dptk_simd_get()
    int dptk_simd_set(int level)

    # ---- cut.c

    # ---- race.c
