"""Thin wrappers of csrc/: views in, a call without the GIL, a status out.

Nothing here validates (mechanisms do, at the door) and nothing here knows
epsilon. One section per C file, in the order of dptk.h.
"""

import hashlib
import os

import numpy as np

cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS,
    PyBUF_FORMAT,
    PyBUF_STRIDES,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_REFCNT
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from dptopk.errors import RandomnessError, TapeEndError

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
#
# A kernel reads words through `source.rng`. Its caller says claim() or begin(),
# and runs it as long as again() says so. The words of a call stay readable, for a replay, until end() or the next begin().

# Words a source holds before its tape must be lengthened (8 KiB).
cdef enum:
    INITIAL_CAPACITY = 1024


def chacha20_block(const uint32_t[::1] key, uint32_t counter, const uint32_t[::1] nonce):
    """One block of RFC 8439 section 2.3, as 16 words; for the tests of its vectors."""
    if key.shape[0] != 8 or nonce.shape[0] != 3:
        raise ValueError("a key is 8 words and a nonce is 3")
    out = np.empty(16, dtype=np.uint32)
    cdef uint32_t[::1] view = out
    dptk_chacha20_block(&key[0], counter, &nonce[0], &view[0])
    return out


cdef class Source:
    """Where a kernel's random words come from. By itself, an empty tape."""

    cdef dptk_rng *rng
    cdef dptk_rng tape
    cdef object child
    cdef readonly bint private  # are the words secret and unpredictable
    cdef bint claimed

    def __cinit__(self, *args):
        dptk_tape_init(&self.tape, NULL, 0)
        self.rng = &self.tape

    cpdef claim(self):
        """Take it for the use of one caller, ready to draw."""
        if self.claimed:
            raise RuntimeError("this source of random words is in use")
        if not dptk_rounds_to_nearest():
            raise RuntimeError(
                "this thread does not round to nearest, on which all error bounds rest: a library "
                "or a call of fesetround changed that; set it back"
            )
        self.begin()
        self.claimed = True

    cpdef bint unclaim(self) except -1:
        """Give it back, its words wiped; returns whether it can serve another caller."""
        self.end()
        if not self.claimed:
            raise RuntimeError("this source of random words was given back before")
        self.claimed = False
        return False

    cpdef begin(self):
        """Start a call at the next unread word; forget those read before."""
        self.child = None
        self.rng.first = self.rng.next

    cpdef rewind(self):
        """Go back to the call's first word, to run the kernel again."""
        dptk_rewind(self.rng)

    cpdef extend(self):
        """Lengthen the tape to at least twice what the call has; keep the place in it."""
        raise TapeEndError("the tape of random words is at its end")

    cpdef end(self):
        """Forget the words read: from here on they can't be recovered."""
        self.begin()

    cpdef consumed(self):
        """All words of the call so far, read or not: a copy."""
        cdef size_t count = self.rng.end - self.rng.first
        words = np.empty(count, dtype=np.uint64)
        cdef uint64_t[::1] view = words
        if count:
            memcpy(&view[0], self.rng.first, count * sizeof(uint64_t))
        return words

    cpdef fresh(self, size_t count):
        """Words that are not on the tape, to refine variates in a replay.

        The same words of a call are followed by the same fresh ones, and the
        words that later calls read are not disturbed.
        """
        if self.child is None:
            words = np.asarray(self.consumed(), dtype="<u8")
            seed = hashlib.blake2b(words, digest_size=32, person=b"fresh").digest()
            self.child = np.random.Generator(np.random.PCG64(int.from_bytes(seed, "little")))
        return self.child.integers(0, 2**64, size=count, dtype=np.uint64)

    cdef int take(self, uint64_t *words, size_t count) except -1:
        """Copy the next words, lengthening the tape as needed."""
        cdef size_t i = 0
        while i < count:
            if self.rng.next != self.rng.end:
                words[i] = self.rng.next[0]
                self.rng.next += 1
                i += 1
            elif self.rng.refill(self.rng, 1) != DPTK_OK:
                self.extend()
        return 0

    def spawn(self):
        """A source of other words, which the next four words of this one determine."""
        seed = int.from_bytes(self.read(4).astype("<u8").tobytes(), "little")
        return GeneratorSource(np.random.Generator(np.random.PCG64(seed)))

    def read(self, size_t count):
        """The next words, lengthening the tape as needed: for replays and tests."""
        words = np.empty(count, dtype=np.uint64)
        cdef uint64_t[::1] view = words
        if count:
            self.take(&view[0], count)
        return words


@cython.final
cdef class TapeSource(Source):
    """A fixed tape of words, for tests: a kernel on it is deterministic."""

    cdef const uint64_t[::1] words

    def __cinit__(self, words):
        self.words = np.array(words, dtype=np.uint64)
        if self.words.shape[0]:
            dptk_tape_init(self.rng, &self.words[0], self.words.shape[0])


cdef class BufferedSource(Source):
    """A tape that grows in memory of its own, wiped as it is read. Abstract."""

    cdef dptk_buffer *buffer
    cdef uint64_t *words

    def __cinit__(self, *args):
        self.words = <uint64_t *>calloc(INITIAL_CAPACITY, sizeof(uint64_t))
        if self.words == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.buffer != NULL:
            dptk_wipe(self.buffer.words, self.buffer.capacity * sizeof(uint64_t))
        free(self.words)

    @property
    def capacity(self):
        """Size of the buffer, in words."""
        return self.buffer.capacity

    @property
    def address(self):
        """Where the buffer is: for the tests that words are wiped."""
        return <size_t>self.words

    cpdef begin(self):
        self.child = None
        dptk_buffer_begin(self.buffer)

    cpdef end(self):
        self.child = None
        dptk_buffer_begin(self.buffer)

    cpdef extend(self):
        cdef size_t capacity = 2 * self.buffer.capacity
        cdef uint64_t *words = <uint64_t *>calloc(capacity, sizeof(uint64_t))
        if words == NULL:
            raise MemoryError
        dptk_buffer_grow(self.buffer, words, capacity)
        free(self.words)
        self.words = words


cdef bytes os_random(Py_ssize_t count):
    """Bytes from the operating system, or RandomnessError: there is no other way."""
    try:
        drawn = os.urandom(count)
    except (OSError, NotImplementedError) as error:
        raise RandomnessError("the operating system has no secure random bytes") from error
    if not isinstance(drawn, bytes) or len(drawn) != count:
        raise RandomnessError("the operating system has no secure random bytes")
    return drawn


# Which process this is, as a number that no process it was forked from has. It stands in a
# page that the system empties in the child of a fork, by whatever call that was made. Where
# there is no such page, the process's own number tells, and with it how many forks the C library
# has told of: numbers of processes come again.
cdef extern from *:
    """
    #if !defined(_WIN32)
    #include <pthread.h>
    #include <sys/mman.h>
    #include <unistd.h>

    #if defined(__linux__) && !defined(MADV_WIPEONFORK)
    #define MADV_WIPEONFORK 18
    #endif

    static int64_t *dptk_page = NULL; /* which process; 0: not told yet */
    static int64_t dptk_processes = 0;

    static void dptk_count_process(void) { dptk_processes++; }

    static void dptk_mark_process(void)
    {
    #if defined(MADV_WIPEONFORK)
        const size_t size = (size_t)sysconf(_SC_PAGESIZE);
        void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page != MAP_FAILED && madvise(page, size, MADV_WIPEONFORK) == 0)
            dptk_page = (int64_t *)page;
        else if (page != MAP_FAILED)
            munmap(page, size);
    #endif
        if (dptk_page == NULL) (void)pthread_atfork(NULL, NULL, dptk_count_process);
    }

    static int64_t dptk_process(void)
    {
        int64_t told;
        if (dptk_page == NULL) return dptk_processes << 32 | (int64_t)getpid();
        told = __atomic_load_n(dptk_page, __ATOMIC_ACQUIRE);
        if (told == 0) {
            const int64_t next = __atomic_add_fetch(&dptk_processes, 1, __ATOMIC_ACQ_REL);
            if (__atomic_compare_exchange_n(dptk_page, &told, next, 0, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE))
                told = next; /* else another thread was first */
        }
        return told;
    }
    #else
    static void dptk_mark_process(void) {}
    static int64_t dptk_process(void) { return 1; }
    #endif
    """
    void dptk_mark_process() noexcept
    int64_t dptk_process() noexcept nogil


dptk_mark_process()
dptk_process()


cdef enum:
    NO_KEY = -1
    KEPT_CAPACITY = 1 << 20  # one that grew beyond it (8 MiB) is not kept


@cython.final
cdef class SecureSource(BufferedSource):
    """ChaCha20 keyed by the operating system, once per process."""

    cdef dptk_chacha chacha
    cdef int64_t process  # that keyed it; NO_KEY: it has no key
    cdef int64_t claimed_by  # the process that keyed it when it was claimed

    def __cinit__(self):
        self.chacha.buffer.words = self.words
        self.chacha.buffer.capacity = INITIAL_CAPACITY
        dptk_chacha_wipe(&self.chacha)
        self.buffer = &self.chacha.buffer
        self.rng = &self.buffer.rng
        self.process = NO_KEY
        self.private = True

    def __dealloc__(self):
        if self.buffer != NULL:
            dptk_chacha_wipe(&self.chacha)

    cdef rekey(self):
        # A copy of the parent's state draws the parent's words: drop it all first.
        self.process = NO_KEY
        dptk_chacha_wipe(&self.chacha)
        cdef int64_t process = dptk_process()  # before: a fork may come amid what follows
        cdef bytes key = os_random(32)
        dptk_chacha_init(&self.chacha, key, self.words, self.buffer.capacity)
        # The key would outlive its erasure in the freed object. One that
        # someone else holds too (a test's) is not ours to change.
        if Py_REFCNT(key) == 1:
            dptk_wipe(<char *>key, 32)
        self.process = process

    def spawn(self):
        """A secure source whose key is the next four words of this one."""
        cdef SecureSource child = SecureSource()
        cdef uint64_t[4] key
        self.take(key, 4)
        dptk_chacha_init(&child.chacha, <const uint8_t *>key, child.words,
                         child.buffer.capacity)
        dptk_wipe(key, sizeof(key))
        child.process = self.process
        return child

    cpdef claim(self):
        Source.claim(self)
        self.claimed_by = self.process

    cpdef bint unclaim(self) except -1:
        # What the parent draws from the same words it may publish: so the child may not.
        cdef bint copied = self.claimed_by != dptk_process()
        Source.unclaim(self)
        if copied:
            raise RandomnessError(
                "this process was forked amid a call: its random words are those of the parent, "
                "and nothing is released here"
            )
        return self.buffer.capacity <= KEPT_CAPACITY

    cpdef begin(self):
        if self.process != dptk_process():
            self.rekey()
        BufferedSource.begin(self)

    cpdef extend(self):
        if self.process == NO_KEY:
            raise RandomnessError("a secure source is used before begin()")
        BufferedSource.extend(self)

    cpdef fresh(self, size_t count):
        return np.frombuffer(os_random(8 * count), dtype=np.uint64).copy()


cdef bint again(Source source, int status) except -1:
    """Whether to run a kernel again: from its first word, on a longer tape."""
    if status != DPTK_TAPE_END:
        return False
    source.extend()
    source.rewind()
    return True


cdef struct bitgen:
    # The head of numpy/random/bitgen.h, which is stable and public; declared
    # here so that the build does not need NumPy.
    void *state
    uint64_t (*next_uint64)(void *state) noexcept nogil


@cython.final
cdef class GeneratorSource(BufferedSource):
    """The words `generator.integers(0, 2**64, dtype=uint64)` gives, one for one.

    It never draws ahead, so the generator goes on behind the last word that
    was read. It holds the generator's lock from claim() to unclaim().
    """

    cdef dptk_drawn drawn
    cdef object lock
    cdef object bit_generator  # owns the state

    def __cinit__(self, generator):
        self.bit_generator = generator.bit_generator
        self.lock = self.bit_generator.lock
        cdef bitgen *words = <bitgen *>PyCapsule_GetPointer(
            self.bit_generator.capsule, "BitGenerator")
        dptk_drawn_init(&self.drawn, words.next_uint64, words.state, self.words,
                        INITIAL_CAPACITY)
        self.buffer = &self.drawn.buffer
        self.rng = &self.buffer.rng

    cpdef claim(self):
        self.lock.acquire()
        try:
            Source.claim(self)
        except BaseException:
            self.lock.release()
            raise

    cpdef bint unclaim(self) except -1:
        Source.unclaim(self)
        self.lock.release()
        return False


# ---- keys.c


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
    if code[0] == c"e":
        return DPTK_F16
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


CHANGED = "the counts changed during the call: another thread writes to them"


cdef int raise_unsound(int status) except -1:
    """What is wrong with the counts, if it is that."""
    if status == DPTK_NAN:
        raise ValueError("counts must not contain NaN")
    if status == DPTK_CHANGED:
        raise RuntimeError(CHANGED)
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
        raise_unsound(status)
        return result
    finally:
        PyBuffer_Release(&view)


# ---- cut.c


cdef extern from *:
    """
    /* What malloc maps anew at each call is had by pages of 2 MB, as NumPy has its arrays: a small
       page takes about as long to get as to fill. */
    static void dptk_by_large_pages(void *memory, size_t size)
    {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        enum { MAPPED = 1 << 25 };
        const size_t page = 4096, ahead = -(uintptr_t)memory % page;
        if (size > MAPPED) madvise((char *)memory + ahead, size - ahead, MADV_HUGEPAGE);
    #else
        (void)memory, (void)size;
    #endif
    }
    """
    void dptk_by_large_pages(void *memory, size_t size) nogil


cdef int64_t *scratch_words(size_t words) except NULL:
    cdef int64_t *scratch = <int64_t *>malloc(words * sizeof(int64_t))
    if scratch == NULL:
        raise MemoryError
    dptk_by_large_pages(scratch, words * sizeof(int64_t))
    return scratch


def cut(counts, size_t m, bint in_order=True, bint watch=True):
    """(keys, index, watched) of the m largest, 1 <= m <= len(counts); else by index.

    Whether any is negative, of integers, or NaN or infinite, of floats; False without a `watch`.
    """
    cdef Py_buffer view
    cdef dptk_column col
    cdef int64_t[::1] keys_out, index_out
    cdef int64_t *scratch = NULL
    cdef int status, watched = 0
    column_of(counts, &view, &col)
    try:
        if not 1 <= m <= col.n:
            raise ValueError("m must be between 1 and the number of counts")
        keys_array = np.empty(m, dtype=np.int64)
        index_array = np.empty(m, dtype=np.int64)
        keys_out, index_out = keys_array, index_array
        scratch = scratch_words(dptk_cut_scratch(col.n, m))
        with nogil:
            status = dptk_cut(&col, m, 0 if in_order else DPTK_UNSORTED, scratch, &keys_out[0],
                              &index_out[0], &watched if watch else NULL)
        raise_unsound(status)
        return keys_array, index_array, watched != 0
    finally:
        free(scratch)
        PyBuffer_Release(&view)


def part(scores, int64_t key, size_t most):
    """(keys, items) of the scores with larger keys; None if they are `most` or more.

    False if a score is NaN or infinite, where those are not too many.
    """
    cdef Py_buffer view
    cdef dptk_column column
    cdef int64_t[::1] keys, items
    cdef size_t held
    cdef int status
    column_of(scores, &view, &column)
    try:
        keys_array = np.empty(dptk_part_room(most), dtype=np.int64)
        items_array = np.empty(dptk_part_room(most), dtype=np.int64)
        keys, items = keys_array, items_array
        with nogil:
            status = dptk_part(&column, key, most, &keys[0], &items[0], &held)
    finally:
        PyBuffer_Release(&view)
    if status == DPTK_NAN:
        return False
    return None if status == DPTK_SCRATCH else (keys_array[:held], items_array[:held])


def cut_rows(values, const int64_t[::1] m, const int64_t[::1] offset=None):
    """(keys, index) of the m[i] largest of every row i, one row after the other: dptk_cut.

    `values` has two dimensions; or one, of which [offset[i], offset[i + 1]) is row i.
    """
    cdef Py_buffer view
    cdef dptk_column col
    cdef int64_t[::1] keys_out, index_out
    cdef int64_t *scratch = NULL
    cdef size_t i, n = m.shape[0], done = 0, total = 0, room = 0
    cdef int status = DPTK_OK
    PyObject_GetBuffer(values, &view, PyBUF_STRIDES | PyBUF_FORMAT)
    try:
        col.type = column_type(&view)
        if view.ndim != (2 if offset is None else 1) or col.type < 0:
            raise TypeError("values must be native integers, float32 or float64 in rows")
        col.stride = view.strides[view.ndim - 1]
        for i in range(n):
            total += m[i]
            if m[i]:
                col.n = view.shape[1] if offset is None else <size_t>(offset[i + 1] - offset[i])
                room = max(room, dptk_cut_scratch(col.n, m[i]))
        keys_array = np.empty(total, dtype=np.int64)
        index_array = np.empty(total, dtype=np.int64)
        if total == 0:
            return keys_array, index_array
        keys_out, index_out = keys_array, index_array
        scratch = scratch_words(room)
        with nogil:
            for i in range(n):
                if m[i] == 0:
                    continue
                if offset is None:
                    col.n = view.shape[1]
                    col.data = <const char *>view.buf + <Py_ssize_t>i * view.strides[0]
                else:
                    col.n = <size_t>(offset[i + 1] - offset[i])
                    col.data = <const char *>view.buf + offset[i] * col.stride
                status = dptk_cut(&col, m[i], 0, scratch, &keys_out[done],
                                  &index_out[done], NULL)
                if status != DPTK_OK:
                    break
                done += m[i]
        raise_unsound(status)
        return keys_array, index_array
    finally:
        free(scratch)
        PyBuffer_Release(&view)


LEAST = DPTK_LEAST
UNSORTED = DPTK_UNSORTED
NAN_LAST = DPTK_NAN_LAST


cdef int output_of(object array, Py_buffer *view) except -1:
    """The memory of a packed array that is written to."""
    return PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)


cdef object EMPTY = np.empty, INT64 = np.dtype(np.int64), NDARRAY = np.ndarray

# Columns that are done before another thread could use the time, and on the stack.
cdef enum:
    SMALL = 1024
    SMALL_WORDS = 5 * SMALL


cdef object top_of(const dptk_column *col, size_t k, int order, object values):
    """The indices; `values`, unless None, takes the elements."""
    cdef Py_buffer index_view, values_view
    cdef int64_t small[SMALL_WORDS]
    cdef int64_t *scratch = NULL
    cdef int64_t *out
    cdef int status
    cdef bint filled = values is not None
    cdef size_t words = dptk_cut_scratch(col.n, k) + k
    memset(&index_view, 0, sizeof(Py_buffer))
    memset(&values_view, 0, sizeof(Py_buffer))
    try:
        index = EMPTY(k, INT64)
        output_of(index, &index_view)
        out = <int64_t *>index_view.buf
        if filled:
            output_of(values, &values_view)
        if col.n <= SMALL and words <= SMALL_WORDS:
            status = dptk_cut(col, k, order, small + k, small, out, NULL)
        else:
            scratch = scratch_words(words)
            with nogil:
                status = dptk_cut(col, k, order, scratch + k, scratch, out, NULL)
        if status == DPTK_NAN:
            raise ValueError(NAN_REFUSED)
        if filled:
            with nogil:
                dptk_take(col, out, k, values_view.buf)
        return index
    finally:
        free(scratch)
        PyBuffer_Release(&index_view)
        PyBuffer_Release(&values_view)


def topk(a, size_t k, int order, values=None):
    """Indices of the first k of a 1-D array, 1 <= k <= len(a), in an order: see dptk_cut.

    `values`, k of the same type, takes the elements.
    """
    cdef Py_buffer view
    cdef dptk_column col
    column_of(a, &view, &col)
    try:
        return top_of(&col, k, order, values)
    finally:
        PyBuffer_Release(&view)


def topk_at_once(a, k, axis, largest, sorted, nan, offsets, workers, bint valued):
    """(values, indices) of the commonest calls, which need no more checks than these; else None.

    values is None unless valued.
    """
    cdef Py_buffer view
    cdef dptk_column col
    cdef int order = 0
    if type(a) is not NDARRAY or type(k) is not int or offsets is not None:
        return None
    if type(axis) is not int or axis != -1 or type(workers) is not int or workers != 1:
        return None
    if largest is False:
        order |= DPTK_LEAST
    elif largest is not True:
        return None
    if sorted is False:
        order |= DPTK_UNSORTED
    elif sorted is not True:
        return None
    if type(nan) is not str or nan != "error":
        return None
    try:
        column_of(a, &view, &col)
    except (TypeError, ValueError):  # of another type or shape
        return None
    try:
        if not 1 <= k <= <Py_ssize_t>col.n:
            return None
        values = EMPTY(k, a.dtype) if valued else None
        return values, top_of(&col, k, order, values)
    finally:
        PyBuffer_Release(&view)


NAN_REFUSED = 'a must not contain NaN; nan="last" puts it behind all numbers'


# So many rows are handed to C at a time.
cdef enum:
    TOGETHER = 64


def topk_rows(rows, size_t k, int order, int64_t[:, ::1] index, values, size_t start, size_t stop):
    """The same for rows start to stop of a 2-D array, 1 <= k <= its length.

    `index` and `values` (or None) have a row for each.
    """
    cdef Py_buffer view, values_view
    cdef dptk_column col[TOGETHER]
    cdef size_t m[TOGETHER]
    cdef int64_t *out[TOGETHER]
    cdef int64_t *scratch = NULL
    cdef int status = DPTK_OK
    cdef size_t row, some, i, size
    cdef char *to
    cdef bint filled = values is not None
    PyObject_GetBuffer(rows, &view, PyBUF_STRIDES | PyBUF_FORMAT)
    col[0].type = column_type(&view)
    memset(&values_view, 0, sizeof(Py_buffer))
    try:
        if filled:
            output_of(values, &values_view)
        if view.ndim != 2 or col[0].type < 0:
            raise TypeError("rows must be a 2-D array of native numbers")
        col[0].n = <size_t>view.shape[1]
        col[0].stride = view.strides[1]
        size = dptk_size(col[0].type)
        to = <char *>values_view.buf
        scratch = scratch_words(dptk_cut_scratch(col[0].n, k) + k)
        with nogil:
            row = start
            while row < stop:
                some = min(<size_t>TOGETHER, stop - row)
                for i in range(some):
                    col[i] = col[0]
                    col[i].data = <const char *>view.buf + <ptrdiff_t>(row + i) * view.strides[0]
                    m[i] = k
                    out[i] = &index[row + i, 0]
                status = dptk_cut_rows(col, m, some, order, scratch, out)
                if status != DPTK_OK:
                    break
                for i in range(some):
                    if filled:
                        dptk_take(&col[i], out[i], k, to + (row + i) * k * size)
                row += some
        if status == DPTK_NAN:
            raise ValueError(NAN_REFUSED)
    finally:
        free(scratch)
        PyBuffer_Release(&view)
        PyBuffer_Release(&values_view)


def topk_ragged(a, size_t k, int order, const int64_t[::1] offsets, const int64_t[::1] places,
                int64_t[::1] index, values, size_t start, size_t stop):
    """The same for rows a[offsets[i]:offsets[i + 1]], start to stop of them.

    Row i has its elements, k >= 1 or all that there are, from places[i] on in `index`, as
    positions in `a`, and in `values` (or None).
    """
    cdef Py_buffer view, values_view
    cdef dptk_column whole
    cdef dptk_column col[TOGETHER]
    cdef size_t m[TOGETHER]
    cdef size_t at[TOGETHER]
    cdef int64_t *out[TOGETHER]
    cdef int64_t *scratch = NULL
    cdef int status = DPTK_OK
    cdef size_t row, some, size, length, i, j, room = 0
    cdef char *to
    cdef bint filled = values is not None
    column_of(a, &view, &whole)
    memset(&values_view, 0, sizeof(Py_buffer))
    try:
        if filled:
            output_of(values, &values_view)
        size = dptk_size(whole.type)
        to = <char *>values_view.buf
        for row in range(start, stop):
            length = offsets[row + 1] - offsets[row]
            if length:
                some = min(k, length)
                room = max(room, dptk_cut_scratch(length, some) + some)
        scratch = scratch_words(room + 1)
        with nogil:
            row = start
            while row < stop:
                some = 0
                while row < stop and some < TOGETHER:
                    length = offsets[row + 1] - offsets[row]
                    if length:
                        at[some] = row
                        col[some] = whole
                        col[some].n = length
                        col[some].data = whole.data + offsets[row] * whole.stride
                        m[some] = min(k, length)
                        out[some] = &index[places[row]]
                        some += 1
                    row += 1
                status = dptk_cut_rows(col, m, some, order, scratch, out)
                if status != DPTK_OK:
                    break
                for i in range(some):
                    if filled:
                        dptk_take(&col[i], out[i], m[i], to + places[at[i]] * size)
                    for j in range(m[i]):
                        out[i][j] += offsets[at[i]]
        if status == DPTK_NAN:
            raise ValueError(NAN_REFUSED)
    finally:
        free(scratch)
        PyBuffer_Release(&view)
        PyBuffer_Release(&values_view)


def count_keys(counts, size_t span, int16_t[::1] copy=None):
    """How many scores have each key in [0, span).

    `copy` takes the keys, those past 16 bits as 32,767.
    """
    cdef Py_buffer view
    cdef dptk_column col
    cdef int64_t[::1] table_out
    cdef int64_t *scratch = NULL
    cdef int16_t *to = NULL
    cdef int status
    column_of(counts, &view, &col)
    try:
        if copy is not None and col.n:
            if <size_t>copy.shape[0] != col.n:
                raise ValueError("the copy must be as long as the counts")
            to = &copy[0]
        table = np.empty(span + 1, dtype=np.int64)  # never empty, so that it has an address
        table_out = table
        scratch = scratch_words(dptk_count_keys_scratch(span))
        with nogil:
            status = dptk_count_keys(&col, span, scratch, &table_out[0], to)
        raise_unsound(status)
        return table[:span]
    finally:
        free(scratch)
        PyBuffer_Release(&view)


# ---- signals during what takes long
#
# The watch of a kernel takes the GIL every LOOK seconds to see whether a signal waits. A handler
# that raises makes the kernel return DPTK_STOPPED, and stopped() hand on what it raised.

cdef extern from *:
    """
    #include <time.h>

    static const double DPTK_LOOK = 0.05;

    static double dptk_seconds(void)
    {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    }

    static int dptk_look(void *state)
    {
        double *last = (double *)state, now = dptk_seconds();
        PyGILState_STATE gil;
        int raised;
        if (now >= *last && now < *last + DPTK_LOOK) return 0;
        *last = now;
        gil = PyGILState_Ensure();
        raised = PyErr_CheckSignals() < 0;
        PyGILState_Release(gil);
        return raised;
    }

    static int dptk_raised(void) { return -1; }
    """
    double dptk_seconds() noexcept nogil
    int dptk_look(void *state) noexcept nogil
    int dptk_raised() except -1


cdef const dptk_watch *watching(dptk_watch *watch, double *last) noexcept:
    """Begin to look at signals from now on."""
    last[0] = dptk_seconds()
    watch.stop = dptk_look
    watch.state = last
    return watch


cdef int stopped(int status) except -1:
    """Raise what the handler of a signal raised while a kernel ran."""
    if status == DPTK_STOPPED:
        dptk_raised()
    return 0


# ---- noise.c

NOISES = {
    "gumbel": DPTK_GUMBEL,
    "exponential": DPTK_EXPONENTIAL,
    "laplace": DPTK_LAPLACE,
    "gaussian": DPTK_GAUSSIAN,
    "uniform": DPTK_UNIFORM,
}


def noise_value(int noise, double s, double s_error):
    """(value, error bound) of a noise at F = exp(-s), as the race takes it: dptk_noise."""
    cdef double error
    cdef double value = dptk_noise(noise, s, s_error, &error)
    return value, error


# ---- race.c

STOP = DPTK_STOP
FIXED = DPTK_FIXED

# For fewer picks than this a race is over in some 20 us, less than it takes to
# hand the GIL to another thread and back: two threads then do more with it kept.
# A pick with fresh noise costs about as much as eight others.
cdef enum:
    KEEP_GIL = 256
    FRESH_COST = 8

# Multiplies the error bounds of every race: tests raise it, so that the exact
# replay runs often.
error_factor = 1.0


def race(Source source, const int64_t[::1] key, const int64_t[::1] index, Py_ssize_t k,
         double scale, int noise, bint real=False, tail=None,
         const double[::1] offset=None, int stop=0, int64_t stop_key=0,
         double stop_offset=0.0, bint fresh=False, bint valued=False, sweep=None):
    """Return the items picked as an int64 array, or None if undecided: dptk_race.

    Where `sweep_floor` says so it is dptk_sweep; with `sweep`, a number, it is that with
    this floor, for tests.

    `stop` is 0, 1 for a stopper with noise, or FIXED for one without. `valued` returns a
    pair: the items, and a row each of bounds of their noisy scores. `fresh` draws the noise
    anew for every pick, without offset and stop: dptk_race_afresh.
    """
    cdef dptk_field field
    cdef Py_buffer view
    cdef dptk_column column
    cdef dptk_race_scratch scratch
    cdef size_t capacity = 256, picked = 0, wanted, looks = 0
    cdef double factor = error_factor, floor = 0.0
    cdef int status = DPTK_SCRATCH
    cdef int sweeping = 0
    cdef int64_t[::1] item
    cdef int64_t *left = NULL
    cdef double[:, ::1] bounds
    cdef double *value = NULL
    cdef bint keep_gil
    cdef dptk_watch watch
    cdef double last
    if fresh and (offset is not None or stop or valued):
        raise ValueError("fresh noise goes with neither offsets nor a stopper nor values")
    field.m = key.shape[0]
    field.key = &key[0] if field.m else NULL
    field.index = &index[0] if field.m else NULL
    field.offset = NULL
    if offset is not None:
        field.offset = &offset[0]
    field.real = real
    field.stop = stop
    field.stop_key = stop_key
    field.stop_offset = stop_offset
    field.tail = NULL
    k = min(k, (<Py_ssize_t>field.m if tail is None else len(tail)) + (stop != 0))
    items = np.empty(k, dtype=np.int64)
    values = np.empty((k, 2)) if valued else None
    if k == 0:
        return (items, values) if valued else items
    item = items
    if valued:
        bounds = values
        value = &bounds[0, 0]
    keep_gil = (k * FRESH_COST if fresh else k) < KEEP_GIL and field.offset == NULL
    scratch.block = NULL
    scratch.watch = NULL
    if not keep_gil:
        scratch.watch = watching(&watch, &last)
    if tail is not None:
        column_of(tail, &view, &column)
        field.tail = &column
    try:
        if sweep is not None:
            sweeping, floor = 1, sweep
        elif not fresh and not valued:
            sweeping = dptk_sweep_floor(&field, k, scale, noise, &floor, &looks)
        # A threshold may let few of many pass: with one, memory grows when it is needed.
        wanted = max(looks, <size_t>(min(k, 4096) if stop == DPTK_FIXED else k) + 128)
        while capacity < wanted or (offset is not None and capacity < field.m + 2):
            capacity *= 2
        if fresh:
            left = scratch_words(2 * field.m)
        while True:
            if status == DPTK_SCRATCH:
                allocate(&scratch, capacity, field.m, tail is not None, fresh, sweeping,
                         column.n if tail is not None else 0)
                capacity *= 4
            if keep_gil:
                status = run(source.rng, &field, k, scale, noise, factor, sweeping, floor,
                             &scratch, left, &item[0], value, &picked)
            else:
                with nogil:
                    status = run(source.rng, &field, k, scale, noise, factor, sweeping, floor,
                                 &scratch, left, &item[0], value, &picked)
            if status == DPTK_SCRATCH:
                source.rewind()
            elif not again(source, status):
                break
    finally:
        free(scratch.block)
        free(left)
        if tail is not None:
            PyBuffer_Release(&view)
    if status == DPTK_UNDECIDED:
        return None
    stopped(status)
    raise_unsound(status)
    items = items if <Py_ssize_t>picked == k else items[:picked]
    return (items, values[:picked]) if valued else items


cdef enum:
    FEW_SCORES = 200
    FEW_BLOCKS = 256

FEW = FEW_SCORES


def race_few(Source source, scores, Py_ssize_t k, double scale, int noise):
    """The items picked from up to FEW scores, as by `cut` and `race` over all of them.

    None if undecided; False, before a word is read, if a score is not finite.
    """
    cdef Py_buffer view
    cdef dptk_column column
    cdef dptk_field field
    cdef dptk_race_scratch scratch
    cdef dptk_block block[FEW_BLOCKS]
    cdef dptk_runner runner[FEW_BLOCKS]
    cdef uint32_t position[FEW_SCORES]
    cdef int64_t key[FEW_SCORES]
    cdef int64_t index[FEW_SCORES]
    cdef int64_t infinite = 0x7FF0000000000000
    cdef int64_t *space = NULL
    cdef size_t picked
    cdef int status
    cdef int64_t[::1] item
    column_of(scores, &view, &column)
    try:
        if not k <= <Py_ssize_t>column.n <= FEW_SCORES:
            raise ValueError("there are too many scores, or too few")
        field.real = column.type >= DPTK_F32
        space = scratch_words(dptk_cut_scratch(column.n, column.n))
        status = dptk_cut(&column, column.n, 0, space, key, index, NULL)
    finally:
        free(space)
        PyBuffer_Release(&view)
    field.m = column.n
    if field.real and (status != DPTK_OK or not ~infinite < key[field.m - 1] <= key[0] < infinite):
        return False
    field.key = key
    field.index = index
    field.offset = NULL
    field.tail = NULL
    field.stop = 0
    scratch.block = block
    scratch.runner = runner
    scratch.position = position
    scratch.capacity = FEW_BLOCKS
    scratch.watch = NULL
    items = np.empty(k, dtype=np.int64)
    item = items
    while True:
        status = run(source.rng, &field, k, scale, noise, error_factor, 0, 0.0, &scratch, NULL,
                     &item[0], NULL, &picked)
        if not again(source, status):
            break
    raise_unsound(status)
    return None if status == DPTK_UNDECIDED else items


def sweep_floor(const int64_t[::1] key, const int64_t[::1] index, Py_ssize_t k, double scale,
                int noise, bint real, tail):
    """The floor of the sweep that `race` makes over a field, or None: dptk_sweep_floor."""
    cdef dptk_field field
    cdef Py_buffer view
    cdef dptk_column column
    cdef double floor = 0.0
    cdef size_t looks
    field.m = key.shape[0]
    field.key = &key[0] if field.m else NULL
    field.index = &index[0] if field.m else NULL
    field.offset = NULL
    field.real = real
    field.stop = 0
    field.stop_key = 0
    field.tail = NULL
    if tail is not None:
        column_of(tail, &view, &column)
        field.tail = &column
    try:
        k = min(k, <Py_ssize_t>field.m if tail is None else len(tail))
        return floor if dptk_sweep_floor(&field, k, scale, noise, &floor, &looks) else None
    finally:
        if tail is not None:
            PyBuffer_Release(&view)


def race_rows(Source source, const int64_t[::1] key, const int64_t[::1] index,
              const int64_t[::1] start, const int64_t[::1] place, double scale, int noise,
              bint real, int stop, const int64_t[::1] stop_key, const double[::1] stop_offset,
              tails, int64_t[::1] item, size_t done, size_t end):
    """Return (done, undecided): dptk_race_rows from race `done` on, its picks into `item`.

    If undecided, the next word is the first of race `done`. Words of earlier races are
    forgotten along the way. `stop_key` and `stop_offset` are None without a stopper;
    `tails` is None; or a list of arrays, and None for a row whose head is all; or a tuple
    (values, bounds) of all scores of each row, as `cut_rows` takes them.
    """
    cdef dptk_rows rows
    cdef Columns columns
    cdef dptk_race_scratch scratch
    cdef dptk_buffer *buffer = NULL
    cdef size_t capacity = 256, i, most = 0, largest = 0, widest = 0, bits = 0
    cdef int64_t nothing = 0
    cdef double factor = error_factor
    cdef int status = DPTK_SCRATCH
    cdef bint keep_gil = (end - done) * 16 < KEEP_GIL
    cdef dptk_watch watch
    cdef double last
    rows.n = start.shape[0] - 1
    rows.key = &key[0] if key.shape[0] else &nothing
    rows.index = &index[0] if key.shape[0] else &nothing
    rows.start = &start[0]
    rows.place = &place[0]
    rows.tail = NULL
    if tails is not None:
        columns = Columns(tails, start)
        rows.tail = columns.column
    rows.real = real
    rows.stop = stop
    if stop:
        rows.stop_key = &stop_key[0]
        rows.stop_offset = &stop_offset[0]
    if done == end or item.shape[0] == 0:
        return end, False
    if isinstance(source, BufferedSource):
        buffer = (<BufferedSource>source).buffer
    for i in range(rows.n):
        most = max(most, <size_t>(place[i + 1] - place[i]))
        widest = max(widest, <size_t>(start[i + 1] - start[i]))
        largest = max(largest, rows.tail[i].n if rows.tail else <size_t>(start[i + 1] - start[i]))
        if rows.tail and rows.tail[i].n <= DPTK_SWEEP_MOST:
            bits = max(bits, rows.tail[i].n)
    while capacity < min(most, largest + 1) + 128:
        capacity *= 2
    scratch.block = NULL
    scratch.watch = watching(&watch, &last)
    try:
        while True:
            if status == DPTK_SCRATCH:
                allocate(&scratch, capacity, widest, tails is not None, False, True, bits)
                capacity *= 4
            if keep_gil:
                status = run_rows(source.rng, buffer, &rows, end, scale, noise, factor, &scratch,
                                  &item[0], &done)
            else:
                with nogil:
                    status = run_rows(source.rng, buffer, &rows, end, scale, noise, factor,
                                      &scratch, &item[0], &done)
            if status == DPTK_TAPE_END:
                source.extend()
            elif status != DPTK_SCRATCH:
                break
    finally:
        free(scratch.block)
    stopped(status)
    raise_unsound(status)
    return done, status == DPTK_UNDECIDED


@cython.final
cdef class Columns:
    """The tails of rows, or columns as long as the heads that are all: kept alive."""

    cdef dptk_column *column
    cdef Py_buffer *view
    cdef size_t n

    def __cinit__(self, tails, const int64_t[::1] start):
        cdef size_t i
        self.column = <dptk_column *>calloc(max(1, start.shape[0] - 1), sizeof(dptk_column))
        self.view = <Py_buffer *>calloc(max(1, len(tails)), sizeof(Py_buffer))
        if self.column == NULL or self.view == NULL:
            raise MemoryError
        if isinstance(tails, tuple):
            values, bounds = tails
            self.of_table(values, bounds, start.shape[0] - 1)
            return
        for i, tail in enumerate(tails):
            if tail is None:
                self.column[i].n = <size_t>(start[i + 1] - start[i])
            else:
                column_of(tail, &self.view[i], &self.column[i])
                self.n = i + 1

    cdef int of_table(self, values, const int64_t[::1] bounds, size_t n) except -1:
        cdef Py_buffer *view = &self.view[0]
        cdef dptk_column *col
        cdef size_t i
        cdef int kind
        PyObject_GetBuffer(values, view, PyBUF_STRIDES | PyBUF_FORMAT)
        self.n = 1
        kind = column_type(view)
        if view.ndim != (2 if bounds is None else 1) or kind < 0:
            raise TypeError("values must be native integers, float32 or float64 in rows")
        for i in range(n):
            col = &self.column[i]
            col.type = kind
            col.stride = view.strides[view.ndim - 1]
            if bounds is None:
                col.n = view.shape[1]
                col.data = <const char *>view.buf + <Py_ssize_t>i * view.strides[0]
            else:
                col.n = <size_t>(bounds[i + 1] - bounds[i])
                col.data = <const char *>view.buf + bounds[i] * col.stride
        return 0

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.n):
            PyBuffer_Release(&self.view[i])  # nothing, if it holds nothing
        free(self.view)
        free(self.column)


cdef int run_rows(dptk_rng *rng, dptk_buffer *buffer, const dptk_rows *rows, size_t end,
                  double scale, int noise, double factor, dptk_race_scratch *scratch,
                  int64_t *item, size_t *done) noexcept nogil:
    """Races until the end, or until one needs help from Python; words go when they are read."""
    cdef size_t before
    cdef uint64_t state
    cdef int status
    while True:
        before = done[0]
        state = dptk_float_begin()
        status = dptk_race_rows(rng, rows, end, scale, noise, factor, scratch, item, done)
        dptk_float_end(state)
        if buffer != NULL and done[0] > before:
            dptk_buffer_begin(buffer)
        elif status == DPTK_TAPE_END:
            return status
        if status != DPTK_TAPE_END:
            return status


cdef int run(dptk_rng *rng, const dptk_field *field, size_t k, double scale, int noise,
             double factor, int sweeping, double floor, dptk_race_scratch *scratch,
             int64_t *left, int64_t *item, double *value, size_t *picked) noexcept nogil:
    """A race, or a sweep; with fresh noise for every pick if `left` is given."""
    cdef uint64_t state = dptk_float_begin()
    cdef int status
    picked[0] = k
    if sweeping:
        status = dptk_sweep(rng, field, k, scale, noise, factor, floor, scratch, item)
    elif left == NULL:
        status = dptk_race(rng, field, k, scale, noise, factor, scratch, item, value, picked)
    else:
        status = dptk_race_afresh(rng, field, k, scale, noise, factor, scratch, left, item)
    dptk_float_end(state)
    return status


cdef int allocate(dptk_race_scratch *scratch, size_t capacity, size_t m, bint tail,
                  bint fresh, bint sweep, size_t n) except -1:
    """Give the scratch `capacity` places for a head of m, in one piece of memory.

    For a sweep what it needs too, with n items in the column of the tail.
    """
    cdef size_t blocks = capacity * sizeof(dptk_block)
    cdef size_t runners = capacity * sizeof(dptk_runner)
    cdef size_t marks = 2 * capacity * sizeof(dptk_mark) * (1 + fresh) if tail else 0
    cdef size_t sort = 4 * capacity * sizeof(int64_t) if sweep else 0
    cdef size_t seen = (n + 63) // 64 * sizeof(uint64_t) if sweep else 0
    cdef char *memory
    free(scratch.block)
    scratch.block = NULL
    memory = <char *>malloc(blocks + runners + marks + sort + seen + m * sizeof(uint32_t))
    if memory == NULL:
        raise MemoryError
    scratch.block = <dptk_block *>memory
    scratch.runner = <dptk_runner *>(memory + blocks)
    memory += blocks + runners
    scratch.mark = <dptk_mark *>memory
    scratch.gone = scratch.mark + 2 * capacity if fresh and tail else NULL
    scratch.sort = <int64_t *>(memory + marks)
    scratch.seen = <uint64_t *>(memory + marks + sort)
    scratch.position = <uint32_t *>(memory + marks + sort + seen)
    scratch.capacity = capacity
    return 0


# ---- survey.c

COST_PASS, COST_PART, COST_FIRST = DPTK_COST_PASS, DPTK_COST_PART, DPTK_COST_FIRST
COST_LOOK, COST_BLOCK = DPTK_COST_LOOK, DPTK_COST_BLOCK


def survey(scores, size_t k, double scale, size_t size, int64_t origin=0,
           double floor=-INFINITY):
    """dptk_survey as a dict."""
    cdef Py_buffer view
    cdef dptk_column column
    cdef dptk_survey found
    memset(&found, 0, sizeof(found))
    column_of(scores, &view, &column)
    try:
        if not (1 <= k and 1 <= size <= column.n and column.type != DPTK_F16):
            raise ValueError("there are too few scores, or halves")
        with nogil:
            dptk_survey_of(&column, k, scale, size, origin, floor, &found)
    finally:
        PyBuffer_Release(&view)
    return found


def fall_of(const int64_t[::1] key, size_t k, bint in_order, bint real, double scale):
    """(by how many scales the k-th key is above the least, which that is): dptk_fall_of."""
    cdef size_t n = key.shape[0]
    cdef int64_t least
    if not 1 <= k <= n:
        raise ValueError("k must be between 1 and the number of keys")
    cdef int64_t *scratch = scratch_words(n // 4 + 2)
    fall = dptk_fall_of(&key[0], n, k, in_order, real, scale, scratch, &least)
    free(scratch)
    return fall, least


# ---- draw.c

def finite(scores):
    """Tell whether no float of a column is NaN or infinite."""
    cdef Py_buffer view
    cdef dptk_column column
    cdef int64_t *keys = NULL
    cdef size_t held, room = dptk_part_room(1)
    cdef int status
    column_of(scores, &view, &column)
    try:
        keys = scratch_words(2 * room)
        with nogil:  # no key is as large as this
            status = dptk_part(&column, INT64_MAX - 1, 1, keys, keys + room, &held)
    finally:
        free(keys)
        PyBuffer_Release(&view)
    return status != DPTK_NAN


# For fewer scores than this a draw is over in some 15 us: see KEEP_GIL.
cdef enum:
    KEEP_GIL_SCORES = 4096
    WATCH_ROWS = 32  # of these: less than a millisecond


cdef size_t candidates(size_t n, size_t k):
    # More than there ever are, but of scores made to deceive.
    return min(n, 2 * k + n // 16 + 4096)


def draw(Source source, scores, Py_ssize_t k, double scale):
    """The k items that dptk_draw picks; None if undecided.

    False, before a word is read, if a score is not finite, or this is no way for them.
    """
    cdef Py_buffer view
    cdef dptk_column column
    cdef dptk_span span
    cdef int64_t *scratch = NULL
    cdef Py_buffer item
    cdef double factor = error_factor
    cdef size_t capacity
    cdef int status
    cdef bint keep_gil
    memset(&item, 0, sizeof(Py_buffer))
    column_of(scores, &view, &column)
    try:
        if not 1 <= k <= <Py_ssize_t>column.n or column.type == DPTK_F16:
            raise ValueError("there are too few scores, or halves")
        items = np.empty(k, dtype=np.int64)
        output_of(items, &item)
        keep_gil = column.n < KEEP_GIL_SCORES
        if keep_gil:
            status = dptk_draw_prepare(&column, NULL, scale, &span)
        else:
            with nogil:
                status = dptk_draw_prepare(&column, NULL, scale, &span)
        if status != DPTK_OK:
            return False
        capacity = candidates(column.n, k)
        scratch = scratch_words(dptk_draw_scratch(capacity))
        while True:
            if keep_gil:
                status = dptk_draw(source.rng, &column, &span, NULL, k, scale, factor, capacity,
                                   scratch, <int64_t *>item.buf)
            else:
                with nogil:
                    status = dptk_draw(source.rng, &column, &span, NULL, k, scale, factor,
                                       capacity, scratch, <int64_t *>item.buf)
            if status == DPTK_SCRATCH and capacity == column.n:  # which is always enough
                status = DPTK_CHANGED
                break
            if status == DPTK_SCRATCH:
                source.rewind()
                free(scratch)
                scratch = NULL
                capacity = column.n
                scratch = scratch_words(dptk_draw_scratch(capacity))
            elif not again(source, status):
                break
    finally:
        free(scratch)
        PyBuffer_Release(&view)
        PyBuffer_Release(&item)
    raise_unsound(status)
    return None if status == DPTK_UNDECIDED else items


def draw_part(Source source, scores, const int64_t[::1] key, const int64_t[::1] index, bint real,
              int64_t most, double floor, size_t looks, Py_ssize_t k, double scale):
    """The k items that dptk_draw picks of all scores, of which some are drawn; None if undecided.

    Those have these keys, of doubles if they are `real`, and indices. None of them is smaller
    than `most`, no key of the rest is larger, and the `floor` is so many scales above that: about
    so many `looks` into the rest. False, before a word is read, if this is no way for them.
    """
    cdef Py_buffer view, item
    cdef dptk_column column, all
    cdef dptk_span span
    cdef dptk_rest rest
    cdef dptk_race_scratch race_scratch
    cdef dptk_block block
    cdef dptk_watch watch
    cdef double last
    cdef double factor = error_factor
    cdef int64_t *scratch = NULL
    cdef int64_t *bits = NULL
    cdef size_t capacity, i, m = key.shape[0]
    cdef int status
    memset(&item, 0, sizeof(Py_buffer))
    memset(&race_scratch, 0, sizeof(race_scratch))
    column_of(scores, &view, &all)
    try:
        if not (1 <= k <= <Py_ssize_t>all.n and 1 <= m < all.n and m == <size_t>index.shape[0]):
            raise ValueError("there are too few scores, or no rest")
        column.data = <const char *>&key[0]
        if real and most < 0:  # else all keys are the bits of their doubles
            bits = scratch_words(m)
            for i in range(m):
                bits[i] = key[i] ^ ((key[i] >> 63) & ~(<int64_t>1 << 63))
            column.data = <const char *>bits
        column.stride = sizeof(int64_t)
        column.n = m
        column.type = DPTK_F64 if real else DPTK_I64
        items = np.empty(k, dtype=np.int64)
        output_of(items, &item)
        # The rest must not be too far from them.
        if dptk_draw_prepare(&column, &most, scale, &span) != DPTK_OK:
            return False
        rest.all = &all
        rest.index = &index[0]
        rest.key = most
        rest.floor = floor
        rest.scratch = &race_scratch
        race_scratch.block = &block
        race_scratch.watch = watching(&watch, &last)
        race_scratch.seen = <uint64_t *>scratch_words((all.n + 63) // 64)
        capacity = min(all.n, candidates(m, k) + looks)
        while True:
            race_scratch.capacity = capacity
            race_scratch.runner = <dptk_runner *>malloc(capacity * sizeof(dptk_runner))
            if race_scratch.runner == NULL:
                raise MemoryError
            scratch = scratch_words(dptk_draw_scratch(capacity))
            with nogil:
                status = dptk_draw(source.rng, &column, &span, &rest, k, scale, factor,
                                   capacity, scratch, <int64_t *>item.buf)
            if status == DPTK_SCRATCH and capacity == all.n:  # which is always enough
                status = DPTK_CHANGED
                break
            if status == DPTK_SCRATCH:
                source.rewind()
                capacity = min(all.n, 4 * capacity)
            elif not again(source, status):
                break
            free(scratch)
            free(race_scratch.runner)
            scratch = NULL
            race_scratch.runner = NULL
    finally:
        free(bits)
        free(scratch)
        free(race_scratch.runner)
        free(race_scratch.seen)
        PyBuffer_Release(&view)
        PyBuffer_Release(&item)
    stopped(status)
    raise_unsound(status)
    return None if status == DPTK_UNDECIDED else items


def draw_sieved(Source source, scores, int64_t key, int bits, size_t through, Py_ssize_t k,
                double scale):
    """The k items that dptk_draw_sieved picks; None if undecided.

    About so many items will be let `through`. False, and no word is read, if this is no way for
    the scores, or one of them is not finite.
    """
    cdef Py_buffer view, item
    cdef dptk_column column
    cdef dptk_sieve sieve
    cdef double factor = error_factor
    cdef int64_t *scratch = NULL
    cdef size_t capacity, valued, room
    cdef int status
    memset(&item, 0, sizeof(Py_buffer))
    memset(&sieve, 0, sizeof(sieve))
    column_of(scores, &view, &column)
    try:
        if not 1 <= k <= <Py_ssize_t>column.n or column.type == DPTK_F16:
            raise ValueError("there are too few scores, or halves")
        if not 0 <= bits <= DPTK_SIEVE_BITS:
            raise ValueError("a sieve has a few bits, or none")
        if key == INT64_MAX or (key == -1 and column.type >= DPTK_F32):
            raise ValueError("a sieve has a key that others are above")
        items = np.empty(k, dtype=np.int64)
        output_of(items, &item)
        sieve.col = &column
        sieve.key = key
        capacity = min(column.n + 1, through + through // 4 + 4096)
        valued = min(column.n, 2 * k + 4096)
        while True:
            room = dptk_sieve_room(capacity)
            sieve.capacity = capacity
            sieve.bits = bits
            sieve.score = scratch_words(2 * room + (room + 3) // 4 + dptk_draw_scratch(valued))
            sieve.index = sieve.score + room
            sieve.lead = <uint16_t *>(sieve.index + room)
            scratch = sieve.index + room + (room + 3) // 4
            with nogil:
                status = dptk_draw_sieved(source.rng, &sieve, k, scale, factor, valued, scratch,
                                          <int64_t *>item.buf)
            if status == DPTK_NAN:
                source.rewind()
                return False
            if status == DPTK_SCRATCH and capacity > column.n and valued == column.n:
                status = DPTK_CHANGED  # as that is always enough
                break
            if status == DPTK_SCRATCH:
                source.rewind()
                capacity = min(column.n + 1, 4 * capacity)
                valued = min(column.n, 4 * valued)
            elif not again(source, status):
                break
            free(sieve.score)
            sieve.score = NULL
    finally:
        free(sieve.score)
        PyBuffer_Release(&view)
        PyBuffer_Release(&item)
    raise_unsound(status)
    return None if status == DPTK_UNDECIDED else items


def close_value(uint64_t word, int64_t key, int64_t origin, bint real, double scale):
    """A value as a sum of two doubles, and what it may be off by: dptk_close_value."""
    cdef double error
    cdef dptk_wide value
    value = dptk_close_value(word, key, origin, real, scale, &error)
    return value.high, value.low, error


def descending(const double[::1] value, const double[::1] error, double floor, double noise_error,
               double factor, size_t k):
    """Where the k largest of those above a floor are; None if not certain: dptk_descending."""
    cdef size_t n = value.shape[0]
    cdef int64_t[::1] place
    cdef size_t above
    if not (1 <= k <= n and n == <size_t>error.shape[0]):
        raise ValueError("there are too few values, or not as many errors")
    places = np.empty(n, dtype=np.int64)
    place = places
    cdef int64_t *scratch = scratch_words(2 * n)
    above = dptk_descending(&value[0], &error[0], n, floor, noise_error, factor, k, scratch,
                            scratch + n, &place[0])
    free(scratch)
    return places[:k] if above else None


def draw_rows(Source source, values, const int64_t[::1] offset, const int64_t[::1] place,
              double scale, size_t most, int64_t[::1] item, size_t done, size_t end):
    """Pick by dptk_draw from rows `done` to `end`, up to the first that is not done so.

    `values` has two dimensions; or one, of which [offset[i], offset[i + 1]) is row i, and
    whose picks are item[place[i]:place[i + 1]]. Returns the first row that is not done, of
    which the next word is the first: one of more than `most` scores, or that `draw` says
    False or None to. Words of earlier rows are forgotten along the way.
    """
    cdef Py_buffer view
    cdef dptk_column[DPTK_DRAW_ROWS] column
    cdef size_t[DPTK_DRAW_ROWS] k
    cdef int64_t *picks[DPTK_DRAW_ROWS]
    cdef dptk_span span
    cdef int64_t *scratch = NULL
    cdef dptk_buffer *buffer = NULL
    cdef dptk_watch watch
    cdef double last
    cdef double factor = error_factor
    cdef size_t i, did, rows, since = 0, room = 0, few = min(most, <size_t>DPTK_DRAW_FEW)
    # The words of a generator are not read ahead: they are its user's.
    cdef size_t together = 1 if isinstance(source, GeneratorSource) else DPTK_DRAW_ROWS
    cdef int status = DPTK_OK
    if isinstance(source, BufferedSource):
        buffer = (<BufferedSource>source).buffer
    PyObject_GetBuffer(values, &view, PyBUF_STRIDES | PyBUF_FORMAT)
    try:
        for i in range(DPTK_DRAW_ROWS):
            column[i].type = column_type(&view)
            column[i].stride = view.strides[view.ndim - 1]
        if view.ndim > 2 or column[0].type < 0 or column[0].type == DPTK_F16:
            raise TypeError("values must be native integers, float32 or float64 in rows")
        for i in range(done, end):
            if few < <size_t>(offset[i + 1] - offset[i]) <= most:
                room = max(room, dptk_draw_scratch(offset[i + 1] - offset[i]))
        scratch = scratch_words(room + 1)
        watching(&watch, &last)
        while True:
            with nogil:
                while done < end and status == DPTK_OK:
                    if since >= WATCH_ROWS:
                        since = 0
                        if watch.stop(watch.state):
                            status = DPTK_STOPPED
                            break
                    rows = did = 0
                    while rows < together and done + rows < end:
                        i = done + rows
                        k[rows] = <size_t>(place[i + 1] - place[i])
                        picks[rows] = &item[place[i]]
                        column[rows].n = <size_t>(offset[i + 1] - offset[i])
                        column[rows].data = <const char *>view.buf + (
                            <Py_ssize_t>i * view.strides[0] if view.ndim == 2
                            else offset[i] * column[0].stride)
                        if not 0 < k[rows] <= DPTK_DRAW_ROWS_K or column[rows].n > few:
                            break
                        rows += 1
                    if rows > 1:
                        status = dptk_draw_few_rows(source.rng, column, k, rows, scale, factor,
                                                    picks, &did)
                    elif column[0].n > most:
                        break
                    else:
                        if column[0].n > few:
                            status = dptk_draw_prepare(column, NULL, scale, &span)
                            if status == DPTK_OK:
                                status = dptk_draw(source.rng, column, &span, NULL, k[0], scale,
                                                   factor, column[0].n, scratch, picks[0])
                        elif k[0] > 0:
                            status = dptk_draw_few(source.rng, column, k[0], scale, factor,
                                                   picks[0])
                        did = status == DPTK_OK
                        if not did:
                            source.rng.next = source.rng.first
                    if buffer != NULL:
                        dptk_buffer_begin(buffer)
                    else:
                        source.rng.first = source.rng.next
                    done += did
                    since += did
            stopped(status)
            if status != DPTK_TAPE_END:
                return done
            source.extend()
            status = DPTK_OK
    finally:
        free(scratch)
        PyBuffer_Release(&view)


# ---- paths.c


PRECISIONS = ("rough", "plain", "pairs")


cdef class Staircase:
    """The paths under a staircase, counted.

    bound : k integers, not falling, in [0, 2^52)
    precision : one of PRECISIONS
    """

    cdef dptk_staircase c
    cdef dptk_watch watch
    cdef double last
    cdef int64_t *scratch
    cdef int status

    def __cinit__(self, const int64_t[::1] bound, precision="plain", bint rows=False):
        cdef size_t k = bound.shape[0]
        cdef int to = PRECISIONS.index(precision)
        self.scratch = scratch_words(dptk_paths_scratch(k, to, rows))
        watching(&self.watch, &self.last)
        with nogil:
            self.status = dptk_paths(&bound[0], k, to, rows, &self.watch,
                                     <double *>self.scratch, &self.c)
        stopped(self.status)

    def __dealloc__(self):
        free(self.scratch)

    def log(self):
        """(logarithm of the number of paths, its error bound), or None if undecided."""
        cdef double log_count, error
        if self.status != DPTK_OK:
            return None
        dptk_paths_log(&self.c, &log_count, &error)
        return log_count, error

    def count(self):
        """(high, low, exponent, relative error) of dptk_staircase, or None if undecided."""
        if self.status != DPTK_OK:
            return None
        return self.c.count.high, self.c.count.low, self.c.exponent, self.c.error

    def stairs(self):
        """[(height, placed, theta, first, last), ...] from the lowest up."""
        cdef size_t s
        return [(self.c.stair[s].height, self.c.stair[s].placed, self.c.stair[s].theta,
                 self.c.stair[s].first, self.c.stair[s].last) for s in range(self.c.stairs)]

    def parts(self, size_t s, size_t taken):
        """(first, [part, ...], [its low half, ...], error) of dptk_paths_parts, or None."""
        cdef size_t first, n, i
        cdef double error
        cdef int status
        with nogil:
            status = dptk_paths_parts(&self.c, s, taken, &first, &n, &error)
        stopped(status)
        if status != DPTK_OK:
            return None
        low = [self.c.part.low[i] for i in range(n)] if self.c.part.low else [0.0] * n
        return first, [self.c.part.high[i] for i in range(n)], low, error


# ---- paths_mod.c


def paths_mod(const int64_t[::1] bound, uint64_t prime):
    """The number of paths modulo a prime between 2^53 and 2^61."""
    cdef size_t k = bound.shape[0]
    cdef uint64_t *scratch = <uint64_t *>scratch_words(dptk_paths_mod_scratch(k))
    cdef uint64_t residue
    cdef dptk_watch watch
    cdef double last
    cdef int status
    watching(&watch, &last)
    with nogil:
        status = dptk_paths_mod(&bound[0], k, prime, &watch, scratch, &residue)
    free(scratch)
    stopped(status)
    return residue


# ---- joint.c


cdef class Joint:
    """The envelope of one call, and its working memory."""

    cdef dptk_groups groups
    cdef const int64_t[::1] key, end
    cdef dptk_joint_block *block
    cdef int64_t *scratch
    cdef size_t k, blocks
    cdef double scale, log_unit, last
    cdef bint sequence
    cdef dptk_watch watch
    cdef int status

    def __cinit__(self, const int64_t[::1] key, const int64_t[::1] end, size_t k, double scale,
                  bint sequence, bint real, envelope=None):
        self.key, self.end = key, end  # kept alive
        self.groups.key = &key[0]
        self.groups.end = &end[0]
        self.groups.n = key.shape[0]
        self.groups.real = real
        self.k, self.scale, self.sequence = k, scale, sequence
        self.block = <dptk_joint_block *>malloc(DPTK_JOINT_BLOCKS * sizeof(dptk_joint_block))
        self.scratch = scratch_words(dptk_joint_scratch(k, sequence))
        if self.block == NULL:
            raise MemoryError
        if envelope is not None:
            self.use(envelope[0], envelope[1])
            return
        watching(&self.watch, &self.last)
        with nogil:
            self.status = dptk_joint_envelope(&self.groups, k, scale, sequence, &self.watch,
                                              self.scratch, self.block, &self.blocks,
                                              &self.log_unit)
        stopped(self.status)

    def __dealloc__(self):
        free(self.block)
        free(self.scratch)

    cdef int use(self, list blocks, double log_unit) except -1:
        """Take what envelope() gave for the same scores, k and scale."""
        cdef dptk_joint_block *block = self.block
        if len(blocks) > DPTK_JOINT_BLOCKS:
            raise ValueError("too many blocks")
        for start, width, weight, constant in blocks:
            block.start, block.width, block.weight, block.constant = start, width, weight, constant
            block += 1
        self.blocks, self.log_unit, self.status = len(blocks), log_unit, DPTK_OK
        return 0

    def envelope(self):
        """([(start, width, weight, constant), ...], log_unit), or None: beyond doubles."""
        cdef size_t i
        if self.status != DPTK_OK:
            return None
        return [(self.block[i].start, self.block[i].width, self.block[i].weight,
                 self.block[i].constant != 0) for i in range(self.blocks)], self.log_unit

    def draw(self, Source source):
        """The ranks, or None if undecided."""
        cdef int status = self.status
        cdef double factor = error_factor
        cdef int64_t[::1] rank
        if status != DPTK_OK:
            return None
        ranks = np.empty(self.k, dtype=np.int64)
        rank = ranks
        watching(&self.watch, &self.last)
        while True:
            with nogil:
                status = dptk_joint(source.rng, &self.groups, self.k, self.scale, self.sequence,
                                    factor, self.block, self.blocks, self.log_unit, &self.watch,
                                    self.scratch, &rank[0])
            stopped(status)
            if not again(source, status):
                return ranks if status == DPTK_OK else None


# ---- canonical.c


cdef class Canonical:
    """The envelope of one call, and its working memory."""

    cdef dptk_groups groups
    cdef const int64_t[::1] key, end
    cdef dptk_canonical_block *block
    cdef int64_t *scratch
    cdef size_t k, blocks
    cdef double scale, log_unit

    def __cinit__(self, const int64_t[::1] key, const int64_t[::1] end, size_t k, double scale,
                  bint real):
        self.key, self.end = key, end  # kept alive
        self.groups.key = &key[0]
        self.groups.end = &end[0]
        self.groups.n = key.shape[0]
        self.groups.real = real
        self.k, self.scale = k, scale
        self.scratch = scratch_words(dptk_canonical_scratch(k))
        self.block = <dptk_canonical_block *>malloc(
            dptk_canonical_blocks(k) * sizeof(dptk_canonical_block))
        if self.block == NULL:
            raise MemoryError
        with nogil:
            dptk_canonical_envelope(&self.groups, k, scale, self.scratch, self.block,
                                    &self.blocks, &self.log_unit)

    def __dealloc__(self):
        free(self.block)
        free(self.scratch)

    def envelope(self):
        """([(row, first, last, weight), ...], log_unit)."""
        cdef size_t i
        return [(self.block[i].row, self.block[i].first, self.block[i].last,
                 self.block[i].weight) for i in range(self.blocks)], self.log_unit

    def sizes(self):
        """[(logarithm, error bound), ...] of what the blocks may let in: for the tests."""
        cdef size_t i
        return [(self.block[i].log_size, self.block[i].error) for i in range(self.blocks)]

    def draw(self, Source source):
        """The ranks, or None if undecided."""
        cdef int status
        cdef double factor = error_factor
        cdef int64_t[::1] rank
        ranks = np.empty(self.k, dtype=np.int64)
        rank = ranks
        while True:
            with nogil:
                status = dptk_canonical(source.rng, &self.groups, self.k, self.scale, factor,
                                        self.block, self.blocks, self.log_unit, self.scratch,
                                        &rank[0])
            if not again(source, status):
                return ranks if status == DPTK_OK else None


# ---- items.c


def items(Source source, const int64_t[::1] rank, const int64_t[::1] key, const int64_t[::1] end,
          const int64_t[::1] head, column):
    """The items of these ranks: dptk_items. The column may be None if all are in the head."""
    cdef dptk_groups groups
    cdef Py_buffer view
    cdef dptk_column col
    cdef int64_t[::1] out
    cdef int64_t *scratch = NULL
    cdef size_t k = rank.shape[0], m = head.shape[0]
    cdef int status
    groups.key, groups.end, groups.n, groups.real = &key[0], &end[0], key.shape[0], False
    picks = np.empty(k, dtype=np.int64)
    out = picks
    if column is not None:
        column_of(column, &view, &col)
    try:
        scratch = scratch_words(dptk_items_scratch(k))
        while True:
            with nogil:
                status = dptk_items(source.rng, &rank[0], &groups, &head[0], m, &col, k, scratch,
                                    &out[0])
            if not again(source, status):
                raise_unsound(status)
                return picks
    finally:
        free(scratch)
        if column is not None:
            PyBuffer_Release(&view)


# ---- discrete.c

DISCRETE = {"laplace": DPTK_DISCRETE_LAPLACE, "gaussian": DPTK_DISCRETE_GAUSSIAN}


cdef enum:
    WATCH_INTEGERS = 4096


cdef int run_discrete(dptk_rng *rng, size_t n, double scale, int noise, double factor,
                      const dptk_watch *watch, int64_t *out) noexcept nogil:
    """dptk_discrete, under a watch."""
    cdef size_t done = 0, some
    cdef int status = DPTK_OK
    while status == DPTK_OK and done < n:
        if watch.stop(watch.state):
            return DPTK_STOPPED
        some = n - done
        if some > WATCH_INTEGERS:
            some = WATCH_INTEGERS
        status = dptk_discrete(rng, some, scale, noise, factor, out + done)
        done += some
    return status


def discrete(Source source, size_t n, double scale, int noise):
    """Return n integers of a discrete law, or None if undecided: dptk_discrete."""
    cdef double factor = error_factor
    cdef int64_t[::1] out
    cdef int status
    cdef dptk_watch watch
    cdef double last
    values = np.empty(n, dtype=np.int64)
    if n == 0:
        return values
    out = values
    watching(&watch, &last)
    while True:
        if n < KEEP_GIL:
            status = dptk_discrete(source.rng, n, scale, noise, factor, &out[0])
        else:
            with nogil:
                status = run_discrete(source.rng, n, scale, noise, factor, &watch, &out[0])
        if not again(source, status):
            break
    stopped(status)
    return values if status == DPTK_OK else None


# ---- sparse_vector.c


def sparse_vector(Source source, queries, int64_t base, double offset, double threshold_scale,
                  double query_scale, uint64_t threshold_word, bint above, size_t hits,
                  uint8_t[::1] hit, size_t tested=0):
    """Return (tested, undecided): dptk_sparse_vector from query `tested` on.

    Queries are int64 or float64. If undecided, the next word is that of query
    `tested`. Words of earlier queries are forgotten along the way.
    """
    cdef dptk_tests tests
    cdef const int64_t[::1] integer
    cdef const double[::1] real
    cdef size_t n = len(queries), before
    cdef double factor = error_factor
    cdef int status
    if <size_t>hit.shape[0] < n:
        raise ValueError("there must be a place for each query")
    tests.integer = NULL
    tests.real = NULL
    if n == 0:
        return 0, False
    if queries.dtype.kind == "f":
        real = queries
        tests.real = &real[0]
    else:
        integer = queries
        tests.integer = &integer[0]
    tests.base = base
    tests.offset = offset
    tests.threshold_scale = threshold_scale
    tests.query_scale = query_scale
    tests.threshold_word = threshold_word
    tests.above = above
    while True:
        before = tested
        if n - tested < KEEP_GIL:
            status = dptk_sparse_vector(source.rng, &tests, n, hits, factor, &tested, &hit[0])
        else:
            with nogil:
                status = dptk_sparse_vector(source.rng, &tests, n, hits, factor, &tested,
                                            &hit[0])
        if status != DPTK_TAPE_END:
            return tested, status == DPTK_UNDECIDED
        hits -= <size_t>sum_of(&hit[before], tested - before)
        if tested == before:
            source.extend()
        else:
            source.begin()


cdef size_t sum_of(const uint8_t *hit, size_t n) noexcept nogil:
    """How many of them are 1."""
    cdef size_t i, total = 0
    for i in range(n):
        total += hit[i]
    return total


# ---- adaptive.c


def adaptive(size_t steps, size_t m, size_t capacity, double range_, double floor_, start=None):
    """Upper bounds of delta at x = 0, range/m, ... after the given steps, or that many more."""
    cdef double[::1] scratch = np.empty(dptk_adaptive_scratch(m, capacity))
    cdef double[::1] before = np.empty(1) if start is None else start
    cdef size_t n_before = 0 if start is None else before.shape[0]
    out = np.empty(capacity)
    cdef double[::1] view = out
    cdef size_t n = 0
    with nogil:
        dptk_adaptive(&before[0], n_before, steps, m, capacity, range_, floor_, &scratch[0],
                      &view[0], &n)
    return out[:n]
