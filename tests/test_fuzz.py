"""The targets of fuzz/ under libFuzzer: so many runs, from a corpus and a seed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUNS = 2_000
MISSING = "fuzzing is not tested: no libFuzzer; Debian's packages are clang and libclang-rt-dev"
TARGETS = sorted(path.stem for path in ROOT.glob("fuzz/*.c"))

#: A mistake in a kernel for each target: where, what is there, what stands in its place.
MISTAKES = {
    "adaptive": ("adaptive.c", "1.0 + 0x1p-47", "1.0 - 0x1p-40"),
    "canonical": ("canonical.c", "*log_unit + 0x1p-20", "*log_unit - 0x1p-10"),
    "cut": ("keys.c", "keys[i] = INT64_MIN ^ flip", "keys[i] = INT64_MAX ^ flip"),
    "discrete": ("discrete.c", "*value = up - down;", "*value = down - up;"),
    "draw": ("draw.c", "drop[i] * factor - ln(value[i])", "drop[i] * factor - value[i]"),
    "items": ("items.c", "(int64_t)at <= after", "(int64_t)at < 0"),
    "joint": ("joint.c", "size + 0x1p-20) * 0x1p+52", "size - 0x1p-10) * 0x1p+52"),
    "keys": ("keys.c", "(int64_t)(first + i) > after", "(int64_t)(first + i) >= after"),
    "noise": ("noise.c", "const double value = -log(s);", "const double value = -log1p(s);"),
    "paths": ("paths.c", "g + (int64_t)m - 1)", "g + (int64_t)m)"),
    "product": ("product.c", "out[j] += a[i] * b[j - i]", "out[j] -= a[i] * b[j - i]"),
    "race": ("noise.c", "const double value = -log(s);", "const double value = log(s);"),
    "rng": ("rng.c", "rng->next = words + read;", "rng->next = words;"),
    "rows": ("race.c", "rng->next = word;", ""),
    "sparse_vector": ("sparse_vector.c", "word & 1 ? -size : size", "word & 1 ? size : -size"),
    "subset": ("subset.c", "chosen = last;", "chosen = last - 1;"),
}


def changed(target):
    """The text of a kernel with the mistake that the target must see."""
    file, text, mistake = MISTAKES[target]
    source = (ROOT / "csrc" / file).read_text()
    assert source.count(text) == 1, f"{file} no longer has this once: choose another mistake"
    return source.replace(text, mistake)


@pytest.mark.skipif(not TARGETS, reason="no fuzz")
def test_each_target_has_a_corpus_and_a_mistake_to_see():
    assert sorted(MISTAKES) == TARGETS
    assert sorted(path.name for path in (ROOT / "fuzz/corpora").iterdir()) == TARGETS
    for target in TARGETS:
        sizes = [path.stat().st_size for path in (ROOT / "fuzz/corpora" / target).iterdir()]
        assert 0 < len(sizes) < 40
        assert sum(sizes) < 4_000
        changed(target)


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Return what makes a program: the kernels are compiled once, for all workers."""
    if not TARGETS or not shutil.which("clang") or not shutil.which("make"):
        pytest.skip(MISSING)
    fcntl = pytest.importorskip("fcntl")
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "nothing.c").write_text(
        "#include <stddef.h>\n#include <stdint.h>\n"
        "int LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { (void)d, (void)n; return 0; }\n"
    )
    command = ["clang", "-fsanitize=fuzzer,address,undefined", "nothing.c", "-o", "nothing"]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip(MISSING)
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    environment = {name: value for name, value in os.environ.items() if name[:4] != "MAKE"}

    def program(target, twin=None):
        path = shared / "fuzz" / f"{target}.run"
        command = ["make", "-s", f"FUZZ_IN={path.parent}"]
        command += [str(path)] if twin is None else [f"TWIN={twin}", str(path)]
        with open(shared / "fuzz.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path.unlink(missing_ok=True)  # it may be that of a twin
            subprocess.run(command, cwd=ROOT, env=environment, check=True)
            return path.rename(path.with_suffix(".twin" if twin else ".right"))

    return program


def run(program, folder, target):
    corpora = ["found", str(ROOT / "fuzz/corpora" / target)]  # what is new goes to the first
    (folder / "found").mkdir()
    command = [str(program), "-seed=1", f"-runs={RUNS}", "-max_len=400", "-timeout=300", *corpora]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, errors="replace"
    )


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
def test_no_input_breaks_a_kernel(target, build, tmp_path):
    done = run(build(target), tmp_path, target)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
def test_a_mistake_in_a_kernel_is_seen(target, build, tmp_path):
    """By a check of the target, whatever the sanitizers see."""
    twin = tmp_path / "twin.c"
    twin.write_text(changed(target))
    done = run(build(target, twin), tmp_path, target)
    assert done.returncode != 0
    assert re.search(r"^fuzz/\w+\.[ch]:\d+: ", done.stderr, re.MULTILINE), done.stderr[-3000:]
