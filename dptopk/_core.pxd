"""The C surface of csrc/dptk.h as Cython sees it."""

from libc.stddef cimport ptrdiff_t
from libc.math cimport INFINITY
from libc.stdint cimport INT64_MAX, int16_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "float_state.h" nogil:
    uint64_t dptk_float_begin()
    void dptk_float_end(uint64_t state)
    bint dptk_rounds_to_nearest()


cdef extern from "dptk.h" nogil:
    int DPTK_OK, DPTK_TAPE_END, DPTK_SCRATCH, DPTK_UNDECIDED, DPTK_NAN, DPTK_CHANGED
    int DPTK_STOPPED

    ctypedef struct dptk_watch:
        int (*stop)(void *state) noexcept nogil
        void *state

    # ---- simd.c
    int dptk_simd_best()
    int dptk_simd_get()
    int dptk_simd_set(int level)

    # ---- rng.c
    ctypedef struct dptk_rng:
        const uint64_t *next
        const uint64_t *end
        int (*refill)(dptk_rng *rng, size_t n) noexcept nogil
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

    # ---- keys.c
    int DPTK_I8, DPTK_I16, DPTK_I32, DPTK_I64
    int DPTK_U8, DPTK_U16, DPTK_U32, DPTK_U64
    int DPTK_F16, DPTK_F32, DPTK_F64
    ctypedef struct dptk_column:
        const char *data
        ptrdiff_t stride
        size_t n
        int type

    int dptk_keys(const dptk_column *col, size_t first, size_t count, int64_t *keys)
    size_t dptk_size(int type)
    void dptk_take(const dptk_column *col, const int64_t *index, size_t count, void *out)

    # ---- cut.c
    size_t dptk_cut_scratch(size_t n, size_t m)
    int DPTK_LEAST, DPTK_UNSORTED, DPTK_NAN_LAST
    int dptk_cut(const dptk_column *col, size_t m, int order, int64_t *scratch,
                 int64_t *keys, int64_t *index, int *watched)
    int dptk_cut_rows(const dptk_column *row, const size_t *m, size_t rows, int order,
                      int64_t *scratch, int64_t *const *index)
    size_t dptk_part_room(size_t capacity)
    int dptk_part(const dptk_column *col, int64_t key, size_t capacity, int64_t *keys,
                  int64_t *index, size_t *held)
    size_t dptk_count_keys_scratch(size_t span)
    int dptk_count_keys(const dptk_column *col, size_t span, int64_t *scratch, int64_t *table,
                        int16_t *copy)

    # ---- noise.c
    int DPTK_GUMBEL, DPTK_EXPONENTIAL, DPTK_LAPLACE, DPTK_GAUSSIAN, DPTK_UNIFORM
    double dptk_noise(int noise, double s, double s_error, double *error)

    # ---- race.c
    int DPTK_STOP, DPTK_FIXED
    ctypedef struct dptk_field:
        const int64_t *key
        const int64_t *index
        const double *offset
        size_t m
        int real
        const dptk_column *tail
        int stop
        int64_t stop_key
        double stop_offset
    ctypedef struct dptk_block:
        pass
    ctypedef struct dptk_runner:
        pass
    ctypedef struct dptk_mark:
        pass
    ctypedef struct dptk_race_scratch:
        dptk_block *block
        dptk_runner *runner
        uint32_t *position
        dptk_mark *mark
        dptk_mark *gone
        int64_t *sort
        uint64_t *seen
        size_t capacity
        const dptk_watch *watch
    int dptk_race(dptk_rng *rng, const dptk_field *field, size_t k, double scale, int noise,
                  double error_factor, dptk_race_scratch *scratch, int64_t *item, double *value,
                  size_t *picked)
    size_t DPTK_SWEEP_MOST
    int dptk_sweep_floor(const dptk_field *field, size_t k, double scale, int noise,
                         double *floor, size_t *looks)
    int dptk_sweep(dptk_rng *rng, const dptk_field *field, size_t k, double scale, int noise,
                   double error_factor, double floor, dptk_race_scratch *scratch, int64_t *item)
    ctypedef struct dptk_rows:
        const int64_t *key
        const int64_t *index
        const int64_t *start
        const int64_t *place
        const dptk_column *tail
        size_t n
        int real
        int stop
        const int64_t *stop_key
        const double *stop_offset
    int dptk_race_rows(dptk_rng *rng, const dptk_rows *rows, size_t end, double scale, int noise,
                       double error_factor, dptk_race_scratch *scratch, int64_t *item,
                       size_t *done)
    int dptk_race_afresh(dptk_rng *rng, const dptk_field *field, size_t k, double scale,
                         int noise, double error_factor, dptk_race_scratch *scratch,
                         int64_t *left, int64_t *item)

    # ---- survey.c
    double DPTK_COST_PASS
    double DPTK_COST_PART
    double DPTK_COST_FIRST
    double DPTK_COST_LOOK
    enum:
        DPTK_COST_BLOCK
    ctypedef struct dptk_survey:
        double spread
        double fall
        double cut_cost
        double sieve_cost
        int64_t key
        int bits
        size_t through
        double part_cost
        int64_t most
        double floor
        size_t held
        size_t looks
    void dptk_survey_of(const dptk_column *col, size_t k, double scale, size_t size,
                        int64_t origin, double floor, dptk_survey *out)
    double dptk_fall_of(const int64_t *keys, size_t n, size_t k, int in_order, int real,
                        double scale, int64_t *scratch, int64_t *least)

    # ---- draw.c
    ctypedef struct dptk_span:
        pass
    int dptk_draw_prepare(const dptk_column *col, const int64_t *also, double scale,
                          dptk_span *span)
    ctypedef struct dptk_rest:
        const dptk_column *all
        const int64_t *index
        int64_t key
        double floor
        dptk_race_scratch *scratch
    size_t dptk_draw_scratch(size_t capacity)
    int dptk_draw(dptk_rng *rng, const dptk_column *col, const dptk_span *span,
                  const dptk_rest *rest, size_t k, double scale, double error_factor,
                  size_t capacity, int64_t *scratch, int64_t *item)
    enum:
        DPTK_SIEVE_BITS
    ctypedef struct dptk_sieve:
        const dptk_column *col
        int64_t key
        int bits
        size_t capacity
        int64_t *score
        int64_t *index
        uint16_t *lead
    size_t dptk_sieve_room(size_t capacity)
    int dptk_draw_sieved(dptk_rng *rng, dptk_sieve *sieve, size_t k, double scale,
                         double error_factor, size_t capacity, int64_t *scratch, int64_t *item)
    enum:
        DPTK_DRAW_FEW
        DPTK_DRAW_ROWS
        DPTK_DRAW_ROWS_K
    ctypedef struct dptk_wide:
        double high
        double low
    dptk_wide dptk_close_value(uint64_t word, int64_t key, int64_t origin, int real, double scale,
                               double *error)
    size_t dptk_descending(const double *value, const double *error, size_t n, double floor,
                           double noise_error, double factor, size_t k, int64_t *scratch,
                           int64_t *to, int64_t *place)
    int dptk_draw_few(dptk_rng *rng, const dptk_column *col, size_t k, double scale,
                      double error_factor, int64_t *item)
    int dptk_draw_few_rows(dptk_rng *rng, const dptk_column *col, const size_t *k, size_t rows,
                           double scale, double error_factor, int64_t **item, size_t *done)

    # ---- paths.c
    ctypedef struct dptk_series:
        double *high
        double *low
    ctypedef struct dptk_stair:
        int64_t height
        size_t placed
        double theta
        size_t first
        size_t last
    ctypedef struct dptk_staircase:
        dptk_stair *stair
        size_t stairs
        dptk_wide count
        int64_t exponent
        double error
        dptk_series part
    size_t dptk_paths_scratch(size_t k, int precision, int rows)
    int dptk_paths(const int64_t *bound, size_t k, int precision, int rows,
                   const dptk_watch *watch, double *scratch, dptk_staircase *staircase) nogil
    void dptk_paths_log(const dptk_staircase *staircase, double *log_count, double *error)
    int dptk_paths_parts(dptk_staircase *staircase, size_t s, size_t taken, size_t *first,
                         size_t *n, double *error) nogil

    # ---- paths_mod.c
    size_t dptk_paths_mod_scratch(size_t k)
    int dptk_paths_mod(const int64_t *bound, size_t k, uint64_t p, const dptk_watch *watch,
                       uint64_t *scratch, uint64_t *residue) nogil

    # ---- joint.c
    ctypedef struct dptk_groups:
        const int64_t *key
        const int64_t *end
        size_t n
        int real
    ctypedef struct dptk_joint_block:
        double start
        double width
        double log_low
        double log_high
        uint64_t weight
        int constant
    int DPTK_JOINT_BLOCKS
    size_t dptk_joint_scratch(size_t k, int sequence)
    int dptk_joint_envelope(const dptk_groups *groups, size_t k, double scale, int sequence,
                            const dptk_watch *watch, int64_t *scratch, dptk_joint_block *block,
                            size_t *blocks, double *log_unit) nogil
    int dptk_joint(dptk_rng *rng, const dptk_groups *groups, size_t k, double scale,
                   int sequence, double error_factor, const dptk_joint_block *block,
                   size_t blocks, double log_unit, const dptk_watch *watch, int64_t *scratch,
                   int64_t *rank) nogil

    # ---- canonical.c
    ctypedef struct dptk_canonical_block:
        int64_t row
        int64_t first
        int64_t last
        double log_size
        double error
        uint64_t weight
    size_t dptk_canonical_blocks(size_t k)
    size_t dptk_canonical_scratch(size_t k)
    void dptk_canonical_envelope(const dptk_groups *groups, size_t k, double scale,
                                 int64_t *scratch, dptk_canonical_block *block, size_t *blocks,
                                 double *log_unit) nogil
    int dptk_canonical(dptk_rng *rng, const dptk_groups *groups, size_t k, double scale,
                       double error_factor, const dptk_canonical_block *block, size_t blocks,
                       double log_unit, int64_t *scratch, int64_t *rank) nogil

    # ---- items.c
    size_t dptk_items_scratch(size_t k)
    int dptk_items(dptk_rng *rng, const int64_t *rank, const dptk_groups *groups,
                   const int64_t *head, size_t m, const dptk_column *col, size_t k,
                   int64_t *scratch, int64_t *item)

    # ---- discrete.c
    int DPTK_DISCRETE_LAPLACE, DPTK_DISCRETE_GAUSSIAN
    int dptk_discrete(dptk_rng *rng, size_t n, double scale, int noise, double error_factor,
                      int64_t *out)

    # ---- sparse_vector.c
    ctypedef struct dptk_tests:
        const int64_t *integer
        const double *real
        int64_t base
        double offset
        double threshold_scale
        double query_scale
        uint64_t threshold_word
        int above
    int dptk_sparse_vector(dptk_rng *rng, const dptk_tests *tests, size_t n, size_t hits,
                           double error_factor, size_t *tested, uint8_t *hit)

    # ---- adaptive.c
    size_t dptk_adaptive_scratch(size_t m, size_t capacity)
    int dptk_adaptive(const double *start, size_t n_start, size_t steps, size_t m,
                      size_t capacity, double range, double floor_, double *scratch,
                      double *out, size_t *n_out)
