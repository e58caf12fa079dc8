"""All of csrc/ for aarch64, run by an emulator: the same outputs as here on the same tapes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from dptopk import _core

ROOT = Path(__file__).parents[1]
SOURCES = [ROOT / "tests/c/kernels.c", *sorted(ROOT.glob("csrc/*.c"))]
FLAGS = ["-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/csrc"]
CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
CASES = 1936

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not (shutil.which("gcc") and SOURCES[1].exists()), reason="no gcc"),
]


@pytest.fixture(scope="module")
def output_of(tmp_path_factory):
    """Build the program once for each compiler, run it, and return its lines."""
    built = {}

    def lines(compiler, *flags, run=(), arguments=()):
        if (compiler, flags) not in built:
            program = tmp_path_factory.mktemp("kernels") / "kernels"
            sources = map(str, SOURCES)
            subprocess.run(
                [compiler, *FLAGS, *flags, *sources, "-lm", "-o", str(program)], check=True
            )
            built[compiler, flags] = program
        command = [*run, str(built[compiler, flags]), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    return lines


def differences(some, others, undecided=CASES // 50):
    """Cases that differ of those that both decided: all but few."""
    assert len(some) == len(others) == CASES
    both = [
        pair for pair in zip(some, others, strict=True)
        if not any(line.endswith("?") for line in pair)
    ]  # fmt: skip
    assert len(both) >= CASES - undecided
    return [pair for pair in both if pair[0] != pair[1]]


def test_every_level_gives_the_same(output_of):
    portable = output_of("gcc", arguments=["0"])
    for level in range(1, _core.simd_best() + 1):
        assert differences(portable, output_of("gcc", arguments=[str(level)])) == []


def test_another_logarithm_does_not(output_of):
    """The comparison sees it: a broken twin."""
    wrong = differences(output_of("gcc"), output_of("gcc", "-Wno-cpp", "-Dlog=log2"), CASES // 5)
    assert len(wrong) > 300
    named = {line.split()[0] for line, _ in wrong}
    assert named == {"race", "rows", "afresh", "sweep", "discrete"}


needs_emulator = pytest.mark.skipif(
    not (shutil.which(CROSS) and shutil.which(EMULATOR)), reason="no emulator"
)


@needs_emulator
@pytest.mark.parametrize("level", ["0", "1"], ids=["portable", "NEON"])
def test_aarch64_gives_the_same(output_of, level):
    on_arm = output_of(CROSS, "-static", run=[EMULATOR], arguments=[level])
    assert differences(output_of("gcc"), on_arm) == []


#: An instruction of each NEON kernel, what is put in its place, and what it is needed for.
BROKEN = [
    ("vqtbl1q_u8(table, x)", "vandq_u8(table, x)", "tally"),
    ("vuzp1q_u8(x, y)", "vandq_u8(x, y)", "cut"),
    ("vminvq_u8(x)", "(vmaxvq_u8(x))", "cut"),
]


@needs_emulator
@pytest.mark.parametrize(("call", "other", "needed_by"), BROKEN, ids=[row[0] for row in BROKEN])
def test_neon_is_what_ran(output_of, tmp_path, call, other, needed_by):
    """Broken twins: with another instruction the level is wrong, and the portable one is not."""
    header = tmp_path / "broken.h"
    header.write_text(f"#include <arm_neon.h>\n#define {call} {other}\n")
    flags = ["-static", "-include", str(header)]
    portable, neon = (
        output_of(CROSS, *flags, run=[EMULATOR], arguments=[level]) for level in ("0", "1")
    )
    wrong = {line.split()[0] for line, _ in differences(portable, neon, CASES // 5)}
    assert needed_by in wrong
