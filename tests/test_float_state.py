"""What other libraries do to a thread's floating point: flushed subnormals, rounding."""

import contextlib
import ctypes
import ctypes.util
import platform
import struct
import sys

import numpy as np
import pytest

import dptopk as dp

LINUX_X86 = sys.platform == "linux" and platform.machine() == "x86_64"
pytestmark = pytest.mark.skipif(not LINUX_X86, reason="the layout of fenv_t is that of glibc")

FLUSH = 0x8040  # flush to zero, denormals are zeros
ROUNDING = {"up": 0x4000, "down": 0x2000, "to zero": 0x6000}
SMALL = [1e-310, 2e-310, 3e-320, 0.0, -3e-320]


@contextlib.contextmanager
def mxcsr(bits):
    """Set bits of the control register, the last word of fenv_t, as fesetenv does."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    saved = ctypes.create_string_buffer(32)
    libm.fegetenv(saved)
    changed = bytearray(saved.raw)
    (word,) = struct.unpack_from("I", changed, 28)
    struct.pack_into("I", changed, 28, word | bits)
    libm.fesetenv(ctypes.create_string_buffer(bytes(changed), 32))
    try:
        yield
    finally:
        libm.fesetenv(saved)


def test_the_twin_that_flushes_sees_no_difference():
    """Else the tests below test nothing."""
    with mxcsr(FLUSH):
        assert float(np.float64(1e-310)) * 1.0 == 0.0
    assert float(np.float64(1e-310)) * 1.0 == 1e-310


@pytest.mark.parametrize("n", [5, 100, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_subnormal_scores_keep_their_order(n, dtype):
    scores = np.full(n, -1.0, dtype)
    scores[:5] = np.array(SMALL) if dtype is np.float64 else np.array(SMALL) * 1e270
    want = np.argsort(-scores, kind="stable")[:5].tolist()
    with mxcsr(FLUSH):
        got = dp.argtopk(scores, 5).tolist()
        least = dp.argtopk(-scores, 5, largest=False).tolist()
    assert got == least == want
    assert got == [1, 0, 2, 3, 4]


def test_a_race_is_not_changed():
    counts = np.arange(3000.0)
    calm = dp.noisy_topk(counts, 20, scale=30.0, rng=dp.SeededRng(4)).tolist()
    with mxcsr(FLUSH):
        assert dp.noisy_topk(counts, 20, scale=30.0, rng=dp.SeededRng(4)).tolist() == calm


def test_a_part_has_all_that_is_above_the_rest():
    scores = (np.random.default_rng(1).normal(scale=100.0, size=140_000) * 4e-41).astype("f4")
    calm = dp.noisy_topk(scores, 3000, scale=4e-40, rng=dp.SeededRng(4)).tolist()
    with mxcsr(FLUSH):
        assert dp.noisy_topk(scores, 3000, scale=4e-40, rng=dp.SeededRng(4)).tolist() == calm


@pytest.mark.parametrize("mode", ROUNDING)
@pytest.mark.parametrize("kind", [int, float])
def test_nothing_is_drawn_with_another_rounding(mode, kind):
    counts = [kind(each) for each in (3, 2, 1)]
    with mxcsr(ROUNDING[mode]):
        with pytest.raises(RuntimeError, match="round to nearest"):
            dp.peel(counts, k=1, epsilon=1.0)
        for scores in (counts, np.array(counts), np.array([counts]), np.array(counts * 9000)):
            with pytest.raises(RuntimeError, match="round to nearest"):
                dp.noisy_topk(scores, 1, scale=1.0)
    assert len(dp.peel(counts, k=1, epsilon=1.0).items) == 1


@pytest.mark.parametrize("mode", ROUNDING)
def test_order_does_not_depend_on_rounding(mode):
    with mxcsr(ROUNDING[mode]):
        assert dp.argtopk(np.array([0.1, 0.3, 0.2] * 100), 2).tolist() == [1, 4]
