"""``python -m benchmarks randomness``: the words that kernels read, before dieharder.

The secure source's stream, re-keyed from the operating system as always, goes through a pipe to
each test of dieharder (Debian's package `dieharder`), a new process and new words for each. Exit
code 1 if a test says FAILED; of many sound ones a few are WEAK by chance. With `--broken` bit 40
of each word is 1 in 55 of 100: the tests of bits (100, 200) must reject it.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from dptopk import _core

# Those that dieharder calls good, but for 17, 201, 203, 208 and 209, which take minutes each.
TESTS = (0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 15, 16, 100, 101, 102, 200, 202, 204, 205, 206, 207)
ASSESSMENTS = ("PASSED", "WEAK", "FAILED")
NTUPLE = {200: 8, 202: 4}  # where one must be given: bits at once, numbers to be ordered
WORDS = 1 << 15  # at once: 256 KiB


def stream(broken: bool) -> Iterator[bytes]:
    """Words without end, as the kernels read them."""
    source, faults = _core.SecureSource(), np.random.default_rng(1)
    while True:
        source.begin()
        words = source.read(WORDS)
        if broken:
            words |= np.where(faults.random(WORDS) < 0.1, 1 << 40, 0).astype(np.uint64)
        yield words.astype("<u8").tobytes()


def assess(test: int, broken: bool, samples: int) -> tuple[list[str], int]:
    """The assessments of one test, and how many bytes it was given."""
    command = ["dieharder", "-g", "200", "-d", str(test), "-D", "test_name", "-D", "ntuple"]
    command += ["-D", "pvalues", "-D", "assessment", "-c", "|"]
    command += ["-p", str(samples)] if samples else []
    command += ["-n", str(NTUPLE[test])] if test in NTUPLE else []
    given = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # A pipe that breaks is how dieharder says that it has enough.
        with contextlib.suppress(BrokenPipeError), process.stdin:
            for block in stream(broken):
                process.stdin.write(block)
                given += len(block)
        lines = process.stdout.read().decode().splitlines()
    lines = [" ".join(line.replace("|", " ").split()) for line in lines]
    lines = [line for line in lines if line.endswith(ASSESSMENTS)]
    if process.returncode != 0 or not lines:
        raise RuntimeError(f"dieharder -d {test} assessed nothing")
    return lines, given


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks randomness", description=__doc__)
    parser.add_argument("--tests", type=int, nargs="+", default=TESTS, metavar="N", help="-d N")
    parser.add_argument("--samples", type=int, default=0, metavar="N", help="of each test: -p N")
    parser.add_argument("--broken", action="store_true", help="bits that lean to 1")
    args = parser.parse_args(arguments)
    if shutil.which("dieharder") is None:
        parser.error("dieharder is not installed (Debian's package dieharder)")
    total, found, start = 0, dict.fromkeys(ASSESSMENTS, 0), time.monotonic()
    for test in args.tests:
        lines, given = assess(test, args.broken, args.samples)
        total += given
        for line in lines:
            found[line.split()[-1]] += 1
            print(f"{test:3} {line}", flush=True)
    minutes = (time.monotonic() - start) / 60
    print(f"{found}, {total / 2**30:.1f} GiB, {minutes:.0f} minutes, SIMD {_core.simd_get()}")
    return 1 if found["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
