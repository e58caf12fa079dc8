"""The targets of fuzz/ under libFuzzer and its sanitizers: so many runs, from a seed."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLAGS = [
    "-std=c11", "-g", "-O1", "-ffp-contract=off", "-fsanitize=fuzzer,address,undefined",
    "-fno-sanitize-recover=all", f"-I{ROOT}/csrc", f"-I{ROOT}/fuzz",
]  # fmt: skip
RUNS = {"cut": 10_000, "race": 4_000}
MISSING = "fuzzing is not tested: no libFuzzer; Debian's packages are clang and libclang-rt-dev"

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def libfuzzer(tmp_path_factory):
    """Skip where a target of nothing does not build."""
    if not (ROOT / "fuzz").is_dir() or shutil.which("clang") is None:
        pytest.skip(MISSING)
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "nothing.c").write_text(
        "#include <stddef.h>\n#include <stdint.h>\n"
        "int LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { (void)d, (void)n; return 0; }\n"
    )
    command = ["clang", *FLAGS, str(folder / "nothing.c"), "-o", str(folder / "nothing")]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(MISSING)


@pytest.mark.parametrize("broken", [False, True], ids=["as it is", "with a check that is wrong"])
@pytest.mark.parametrize("target", RUNS)
def test_no_input_breaks_a_kernel(target, broken, libfuzzer, tmp_path):
    """The twin expects what no kernel does: a target that checks nothing would let it pass."""
    program = tmp_path / target
    sources = [f"{ROOT}/fuzz/{target}.c", *map(str, sorted(ROOT.glob("csrc/*.c")))]
    twin = ["-DFUZZ_BROKEN"] * broken
    subprocess.run(["clang", *FLAGS, *twin, *sources, "-lm", "-o", str(program)], check=True)
    done = subprocess.run(
        [str(program), "-seed=1", f"-runs={RUNS[target]}", "-max_len=400", "-timeout=300"],
        cwd=tmp_path, capture_output=True, text=True, check=False, errors="replace",
    )  # fmt: skip
    assert (done.returncode != 0) == broken, done.stderr[-3000:]
    if broken:
        assert "ERROR: libFuzzer: deadly signal" in done.stderr
