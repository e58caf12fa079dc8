"""Random words: published vectors, erasure, replay, seeds and tapes, failing closed."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dptopk import _core, rng
from dptopk.errors import RandomnessError, TapeEndError

ALPHA = 1e-9
BATCH = 252  # words of one refill
KEY = bytes(range(32))
SOURCE = Path(__file__).parents[1] / "csrc/rng.c"


@pytest.fixture(autouse=True)
def own_pool(monkeypatch):
    """No source keyed by a test stays for later ones."""
    monkeypatch.setattr(rng, "_free", [])


@pytest.fixture
def fixed_key(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda n: KEY[:n])


def claimed(source):
    source.claim()
    return source


def words32(data):
    return np.frombuffer(data, dtype="<u4").astype(np.uint32)


def stream(count, key=KEY):
    """What the secure source must give, from the block function of the RFC; and its next key."""
    out, key = [], words32(key)
    while sum(map(len, out)) < count:
        blocks = [_core.chacha20_block(key, i, np.zeros(3, np.uint32)) for i in range(32)]
        lanes = np.transpose(blocks).ravel().astype(np.uint64)
        key = lanes[:8].astype(np.uint32)
        out.append(lanes[8::2] | lanes[9::2] << np.uint64(32))
    return np.concatenate(out)[:count], key.astype("<u4").tobytes()


def memory(source):
    """Bytes of the object, and the words of its buffer, as they lie there."""
    held = ctypes.string_at(id(source), type(source).__basicsize__)
    buffer = ctypes.string_at(source.address, 8 * source.capacity)
    return held, np.frombuffer(buffer, dtype=np.uint64)


# ---- ChaCha20


@pytest.mark.parametrize(
    ("key", "counter", "nonce", "expected"),
    [
        pytest.param(  # the serialised block
            KEY,
            1,
            "000000090000004a00000000",
            "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
            "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
            id="2.3.2",
        ),
        pytest.param(  # keystream, first block
            KEY,
            1,
            "000000000000004a00000000",
            "224f51f3401bd9e12fde276fb8631ded8c131f823d2c06e27e4fcaec9ef3cf78"
            "8a3b0aa372600a92b57974cded2b9334794cba40c63e34cdea212c4cf07d41b7",
            id="2.4.2",
        ),
        pytest.param(
            bytes(32),
            0,
            "00" * 12,
            "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
            "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
            id="A.1 #1",
        ),
        pytest.param(
            bytes(31) + b"\1",
            1,
            "00" * 12,
            "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
            "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
            id="A.1 #3",
        ),
    ],
)
def test_block_has_the_vectors_of_rfc_8439(key, counter, nonce, expected):
    block = _core.chacha20_block(words32(key), counter, words32(bytes.fromhex(nonce)))
    assert block.astype("<u4").tobytes().hex() == expected


@pytest.mark.parametrize("count", [1, BATCH, BATCH + 1, 9 * BATCH + 5])
def test_secure_words_are_the_same_at_every_level(level, fixed_key, count):
    source = claimed(_core.SecureSource())
    assert np.array_equal(source.read(count), stream(count)[0])


def byte_chi_square(words):
    seen = np.bincount(words.view(np.uint8), minlength=256)
    return stats.chisquare(seen).statistic


def test_secure_words_have_uniform_bytes(fixed_key):
    critical = stats.chi2.isf(ALPHA, 255)
    words = claimed(_core.SecureSource()).read(500 * BATCH)
    assert byte_chi_square(words) < critical
    assert byte_chi_square(words | np.uint64(1 << 63)) > critical  # one of 64 bits stuck


# ---- erasure


def test_refill_erases_the_key(fixed_key):
    source = claimed(_core.SecureSource())
    assert KEY in memory(source)[0]
    source.read(1)
    assert KEY not in memory(source)[0]
    assert not any(KEY[i : i + 4] in memory(source)[0] for i in range(0, 32, 4))
    assert stream(1)[1] in memory(source)[0]


@pytest.mark.skipif(
    not (sys.platform == "linux" and shutil.which("gcc") and SOURCE.exists()),
    reason="no gcc that is gcc, or no source beside the tests",
)
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3", "-Os"])
def test_more_of_the_stack_is_burnt_than_a_batch_has(level, tmp_path):
    """However it is compiled: the frames of a batch and of what makes it lie in what is wiped."""
    flags = ["-std=c11", level, "-fPIC", "-ffp-contract=off", "-fstack-usage", "-c"]
    made = tmp_path / "rng.o"
    subprocess.run(["gcc", *flags, SOURCE, "-o", made], check=True)
    lines = made.with_suffix(".su").read_text().splitlines()
    frame = {}
    for place, size, _ in (line.split("\t") for line in lines):
        frame[place.rsplit(":", 1)[-1]] = int(size)
    batches = [size for name, size in frame.items() if name.startswith("batch_")]
    calls = 4 * 64  # what is pushed by the way
    assert frame["make_batch"] + max(batches) + calls < frame["burn_batch"]


@pytest.mark.parametrize("finish", ["end", "begin", "unclaim"])
@pytest.mark.parametrize("count", [1, 50, BATCH, 8 * BATCH, 5000])
def test_read_words_are_wiped(finish, count):
    source = rng.acquire(None)
    read = source.read(count)
    assert np.isin(read, memory(source)[1]).all()
    getattr(source, finish)()
    left = memory(source)[1]
    assert not np.isin(read, left).any()
    assert np.count_nonzero(left) <= BATCH  # those not yet read, at most


def test_key_of_the_os_is_not_changed_when_it_is_shared(fixed_key):
    claimed(_core.SecureSource())
    assert bytes(range(32)) == KEY


# ---- calls


def secure():
    return _core.SecureSource(), stream(20_000)[0]


def seeded():
    words = np.random.default_rng(5).integers(0, 2**64, size=20_000, dtype=np.uint64)
    return _core.GeneratorSource(np.random.default_rng(5)), words


def tape():
    words = np.random.default_rng(6).integers(0, 2**64, size=20_000, dtype=np.uint64)
    return _core.TapeSource(words), words


@pytest.mark.parametrize("make", [secure, seeded, tape])
def test_calls_read_one_stream_without_gap_or_overlap(make, fixed_key):
    source, expected = make()
    source.claim()
    sizes = np.random.default_rng(1).choice([0, 1, 2, 251, 252, 253, 500, 1023, 1100], size=40)
    read = []
    for size in sizes:
        source.begin()
        half = int(size) // 2
        read += [source.read(half), source.read(int(size) - half)]
        assert np.array_equal(source.consumed()[:size], np.concatenate(read[-2:]))
    read = np.concatenate(read)
    assert np.array_equal(read, expected[: len(read)])


@pytest.mark.parametrize("make", [secure, seeded, tape])
@pytest.mark.parametrize("count", [0, 1, BATCH, 1024, 1025, 5000])
def test_rewind_goes_back_to_the_first_word_of_the_call(make, count, fixed_key):
    source, expected = make()
    source.claim()
    source.read(77)
    source.begin()
    first = source.read(count)
    source.rewind()
    again = source.read(count)
    assert np.array_equal(first, expected[77 : 77 + count])
    assert np.array_equal(first, again)
    source.rewind()
    source.begin()  # what was not read again is still to come
    assert np.array_equal(source.read(count + 3), expected[77 : 80 + count])


@pytest.mark.parametrize("make", [secure, seeded])
def test_extend_keeps_words_and_place(make, fixed_key):
    source, expected = make()
    source.claim()
    source.read(10)
    source.begin()
    before = source.capacity
    source.read(5)
    source.extend()
    assert source.capacity >= 2 * before
    assert np.array_equal(source.read(3), expected[15:18])
    assert np.array_equal(source.consumed()[:8], expected[10:18])


@pytest.mark.parametrize("count", [0, 1, 5])
def test_tape_ends(count):
    source = claimed(_core.TapeSource(np.arange(count, dtype=np.uint64)))
    assert np.array_equal(source.read(count), np.arange(count))
    with pytest.raises(TapeEndError):
        source.read(1)
    source.rewind()
    assert np.array_equal(source.read(count), np.arange(count))


def test_source_without_a_key_gives_nothing():
    with pytest.raises(RandomnessError):
        _core.SecureSource().read(1)
    with pytest.raises(TapeEndError):
        _core.Source().read(1)


@pytest.mark.parametrize("make", [seeded, tape])
def test_fresh_words_are_reproducible_and_leave_the_tape_alone(make):
    fresh = []
    for _ in range(2):
        source, expected = make()
        source.claim()
        source.read(20)
        fresh.append(np.concatenate([source.fresh(5), source.fresh(6)]))
        assert np.array_equal(source.read(20), expected[20:40])
        assert not np.isin(fresh[-1], expected).any()
        source.begin()
        source.read(1)
        assert not np.isin(source.fresh(11), fresh[-1]).any()
    assert np.array_equal(*fresh)
    assert len(np.unique(fresh[0])) == 11


def test_secure_fresh_words_are_not_on_the_tape():
    source = rng.acquire(None)
    first = source.read(50)
    fresh = source.fresh(50)
    assert len(np.unique(np.concatenate([first, fresh, source.read(50)]))) == 150


# ---- acquire and release


@pytest.mark.parametrize("error", [OSError("x"), NotImplementedError("x"), None])
def test_no_secure_bytes_no_source(monkeypatch, error):
    def urandom(count):
        if error is None:
            return b""
        raise error

    held = rng.acquire(None)
    monkeypatch.setattr(os, "urandom", urandom)
    with pytest.raises(RandomnessError, match="no secure random bytes"):
        rng.acquire(None)
    with pytest.raises(RandomnessError, match="no secure random bytes"):
        held.fresh(3)
    assert rng._free == []


def test_acquire_reuses_and_never_shares():
    one, two = rng.acquire(None), rng.acquire(None)
    assert one is not two
    rng.release(one)
    assert rng.acquire(None) is one
    rng.release(two)
    with pytest.raises(RuntimeError, match="given back before"):
        rng.release(two)
    assert rng._free == [two]


def test_a_source_grown_huge_is_not_kept():
    source = rng.acquire(None)
    source.read(2**20 + 1)
    rng.release(source)
    assert rng._free == []


@pytest.mark.parametrize(
    ("given", "private"),
    [
        (None, True),
        (rng.SeededRng(1), False),
        (np.random.default_rng(1), False),
        (rng.TapeRng([1]), False),
    ],
)
def test_only_the_secure_source_is_private(given, private):
    source = rng.acquire(given)
    assert source.private is private
    rng.release(source)


@pytest.mark.parametrize(
    "given",
    [7, "secure", True, np.random.PCG64(1), np.random.RandomState(1), np.random, rng.TapeRng],
)
def test_anything_else_is_refused(given):
    with pytest.raises(TypeError, match="rng must be None"):
        rng.acquire(given)


def draw(source_of, *counts):
    parts = []
    for count in counts:
        source = rng.acquire(source_of)
        parts.append(source.read(count))
        rng.release(source)
    return np.concatenate(parts)


def test_seeded_rng_is_reproducible_and_says_what_it_is():
    one, two = rng.SeededRng(11), rng.SeededRng(11)
    words = draw(one, 5, 2000, 3)
    assert np.array_equal(words, draw(two, 2008))  # whatever the calls
    assert len(np.unique(words)) == 2008
    assert not np.isin(draw(rng.SeededRng(12), 10), words).any()
    assert "NOT PRIVATE" in repr(one)
    assert "NOT PRIVATE" in rng.SeededRng.__doc__
    assert "NOT PRIVATE" in repr(rng.TapeRng([1]))


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_generator_gives_its_own_words_and_goes_on_behind_them(bits):
    used, plain = np.random.Generator(bits(4)), np.random.Generator(bits(4))
    words = draw(used, 3, 1500)
    assert np.array_equal(words, plain.integers(0, 2**64, size=1503, dtype=np.uint64))
    assert used.random() == plain.random()


def test_tape_rng_starts_anew_in_every_call():
    given = rng.TapeRng([3, 2**64 - 1])
    assert draw(given, 2, 2).tolist() == [3, 2**64 - 1] * 2


@pytest.mark.parametrize(
    ("make", "given", "error", "message"),
    [
        (rng.SeededRng, None, TypeError, "seed must be an integer, got NoneType"),
        (rng.SeededRng, True, TypeError, "seed must be an integer, got bool"),
        (rng.SeededRng, 1.0, TypeError, "seed must be an integer, got float"),
        (rng.SeededRng, -1, ValueError, "seed must be an integer >= 0, got -1"),
        (rng.TapeRng, [1.0], TypeError, "float"),
        (rng.TapeRng, [-1], ValueError, "words must be in"),
        (rng.TapeRng, [2**64], ValueError, "words must be in"),
        (rng.TapeRng, np.zeros(2), TypeError, "words must be uint64, got float64"),
        (rng.TapeRng, np.zeros((2, 2), np.uint64), ValueError, "one dimension, got 2"),
    ],
)
def test_bad_seeds_and_tapes(make, given, error, message):
    with pytest.raises(error, match=message):
        make(given)
