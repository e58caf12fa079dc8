"""All of csrc/ by other compilers and for other machines: the same outputs on the same tapes."""

import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dptopk import _core
from dptopk._core import TapeSource
from dptopk.reference.draw import draw
from dptopk.reference.race import Tape

ROOT = Path(__file__).parents[1]
SOURCES = [*sorted(ROOT.glob("tests/c/*.c")), *sorted(ROOT.glob("csrc/*.c"))]
FLAGS = ["-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/csrc"]
CASES = 4000  # and some more

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not (shutil.which("gcc") and (ROOT / "csrc/dptk.h").exists()), reason="no gcc or no csrc"
    ),
]

#: A compiler, its flags, what runs its programs, and whether it has the levels of here.
MACHINES = {
    "clang": ("clang", [], None, True),
    "C11 alone": ("gcc", ["-DDPTK_C11_ALONE", "-Wvla", "-pedantic-errors"], None, False),
    "musl": ("musl-gcc", ["-static"], None, True),
    "aarch64": ("aarch64-linux-gnu-gcc", ["-static"], "qemu-aarch64", False),
    "s390x": ("s390x-linux-gnu-gcc", ["-static"], "qemu-s390x", False),
    "i386": ("i686-linux-gnu-gcc", ["-static", "-msse2", "-mfpmath=sse"], "qemu-i386", False),
}


def need(*names):
    for name in filter(None, names):
        if not shutil.which(name):
            pytest.skip(f"no {name}")


@pytest.fixture(scope="module")
def output_of(tmp_path_factory):
    """Build the program once for each compiler, run it, and return its lines."""
    built = {}

    def lines(compiler, *flags, emulator=None, level=0):
        if (compiler, flags) not in built:
            program = tmp_path_factory.mktemp("kernels") / "kernels"
            sources = map(str, SOURCES)
            command = [compiler, *FLAGS, *flags, *sources, "-lm", "-o", str(program)]
            subprocess.run(command, check=True)
            built[compiler, flags] = program
        command = [*filter(None, [emulator]), str(built[compiler, flags]), str(level)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    return lines


def differences(some, others, undecided=CASES // 50):
    """Cases that differ, of those that both decided: all but few."""
    assert len(some) == len(others) >= CASES
    both = [
        pair for pair in zip(some, others, strict=True)
        if not any(line.endswith("?") for line in pair)
    ]  # fmt: skip
    assert len(both) >= len(some) - undecided
    return [pair for pair in both if pair[0] != pair[1]]


def kinds(pairs):
    return {line.split()[0] for line, _ in pairs}


def test_every_level_gives_the_same(output_of):
    portable = output_of("gcc")
    for level in range(1, _core.simd_best() + 1):
        assert differences(portable, output_of("gcc", level=level)) == []


@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_gives_the_same(output_of, machine):
    compiler, flags, emulator, as_here = MACHINES[machine]
    need(compiler, emulator)
    best = _core.simd_best() if as_here else 1 if machine == "aarch64" else 0
    for level in range(best + 1):
        there = output_of(compiler, *flags, emulator=emulator, level=level)
        assert differences(output_of("gcc"), there) == []


def test_another_logarithm_does_not(output_of):
    """The comparison sees it: a broken twin."""
    wrong = differences(output_of("gcc"), output_of("gcc", "-Wno-cpp", "-Dlog=log2"), CASES // 5)
    assert kinds(wrong) == {
        "race", "rows", "afresh", "sweep", "discrete", "joint", "canonical", "paths", "sparse",
        "noise", "drawn",
    }  # fmt: skip


def splitmix64(seed, count):
    z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def fnv1a(words, h=1):
    for byte in np.asarray(words, dtype="<i8").tobytes():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return h


def test_the_extension_gives_the_same(output_of):
    """The program's tapes and hashes are what they are here."""
    there = [line for line in output_of("gcc") if line.startswith("discrete")]
    for noise in range(2):
        for case in range(20):
            tape = TapeSource(splitmix64(90_000 + case, 2**16))
            out = _core.discrete(tape, 500, 0.3 * (1 + case * case), noise)
            assert f"discrete {noise} {case} 0 {fnv1a(out):016x}" == there.pop(0)
    assert not there


def draw_on(words, scores, k, scale):
    source = TapeSource(words)
    source.begin()
    return _core.draw(source, scores, k, scale)


def test_all_noise_at_once_is_that_of_the_reference(output_of):
    """Draws of 64-bit integers (type 3) by the kernel of here, and exactly."""
    lines = [line for line in output_of("gcc") if line.startswith("draw 3 ")]
    assert len(lines) == 24
    moved = 0
    for case, line in enumerate(lines):
        n, scale = [1, 50, 64, 65, 900, 4000][case % 6], [0.3, 20.0, 1e4][case % 3]
        spread = [3, 200, 2**20][case % 3]
        words = splitmix64(700_000 + case, 2**16 + 3 * n + 1)
        tape, drawn, last = words[: 2**16], words[2**16 : -1 : 3], words[-1]
        scores = (drawn % np.uint64(spread)).astype(np.int64) - case % 2 * spread // 2
        k = 1 + int(last) % (n // 8 + 1 if case % 4 else n)

        picks, others = (draw_on(words, scores, k, scale) for words in (tape, tape[1:]))
        assert line == f"draw 3 {case} 0 {fnv1a(picks, k):016x}"
        if n <= 65:
            fresh = Tape(TapeSource(tape).read, partial(splitmix64, case))
            assert picks.tolist() == draw(fresh, scores.tolist(), k=k, scale=scale)
        moved += picks.tolist() != others.tolist()
    assert moved > 12  # the comparison can fail


def test_excess_precision_is_refused():
    """32-bit x86 computes by x87, unless told otherwise."""
    need("i686-linux-gnu-gcc")
    command = ["i686-linux-gnu-gcc", *FLAGS, "-fsyntax-only", str(ROOT / "csrc/rng.c")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "-mfpmath=sse" in done.stderr
    assert subprocess.run([*command, "-msse2", "-mfpmath=sse"]).returncode == 0


#: An instruction of each NEON kernel, what is put in its place, and what it is needed for.
BROKEN = [
    ("vqtbl1q_u8(table, x)", "vandq_u8(table, x)", "tally"),
    ("vuzp1q_u8(x, y)", "vandq_u8(x, y)", "cut"),
    ("vminvq_u8(x)", "(vmaxvq_u8(x))", "cut"),
]


@pytest.mark.parametrize(("call", "other", "needed_by"), BROKEN, ids=[row[0] for row in BROKEN])
def test_neon_is_what_ran(output_of, tmp_path, call, other, needed_by):
    """Broken twins: with another instruction the level is wrong, and the portable one is not."""
    compiler, flags, emulator, _ = MACHINES["aarch64"]
    need(compiler, emulator)
    header = tmp_path / "broken.h"
    header.write_text(f"#include <arm_neon.h>\n#define {call} {other}\n")
    flags = [*flags, "-include", str(header)]
    portable, neon = (output_of(compiler, *flags, emulator=emulator, level=n) for n in (0, 1))
    assert needed_by in kinds(differences(portable, neon, CASES // 5))
