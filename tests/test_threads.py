"""The kernels on shared inputs in many threads, by ThreadSanitizer; of the extension: make tsan."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DRIVER = ROOT / "tests/threads/kernels.c"
FLAGS = ["-std=c11", "-g", "-O1", "-ffp-contract=off", "-fsanitize=thread", f"-I{ROOT}/csrc"]

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def tsan(tmp_path_factory):
    """Return what builds the driver and runs it; skip where no such program runs."""
    if not shutil.which("gcc") or not (ROOT / "csrc/dptk.h").exists():
        pytest.skip("no gcc or no csrc")
    folder = tmp_path_factory.mktemp("tsan")
    (folder / "nothing.c").write_text("int main(void) { return 0; }\n")
    nothing = ["gcc", "-fsanitize=thread", "nothing.c", "-o", "nothing"]
    if subprocess.run(nothing, cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip("no libtsan")
    # Where addresses are laid out too much at random TSan finds no room for its own.
    for before in ([], ["setarch", "-R"]):
        command = [*before, str(folder / "nothing")]
        if (not before or shutil.which("setarch")) and not subprocess.run(
            command, capture_output=True, check=False
        ).returncode:
            break
    else:
        pytest.skip("ThreadSanitizer cannot run here")
    sources = [str(path) for path in sorted(ROOT.glob("csrc/*.c"))]
    subprocess.run(["gcc", *FLAGS, "-c", *sources], cwd=folder, check=True)
    kernels = [str(path) for path in sorted(folder.glob("*.o"))]

    def run(*flags):
        program = str(folder / "-".join(["kernels", *flags]))
        command = ["gcc", *FLAGS, *flags, str(DRIVER), *kernels, "-lm", "-pthread", "-o", program]
        subprocess.run(command, check=True)
        return subprocess.run(
            [*before, program],
            env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"},  # the first says enough
            capture_output=True,
            text=True,
            check=False,
            errors="replace",
        )

    return run


def test_threads_on_shared_inputs_do_not_race(tsan):
    done = tsan()
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


def test_threads_on_shared_memory_do(tsan):
    """The broken twin: all write to the same scratch."""
    done = tsan("-DSHARED_SCRATCH")
    assert done.returncode != 0
    assert "ThreadSanitizer: data race" in done.stderr
