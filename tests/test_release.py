"""What is published: the same bytes from two builds, and wheels that run elsewhere."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOT_SOURCES = shutil.ignore_patterns(
    ".*", "build", "dist", "docs", "wheelhouse", "*.egg-info", "*.so", "__pycache__", "_core.c"
)

needs_build = pytest.mark.skipif(
    not (ROOT / "setup.py").exists()
    or any(importlib.util.find_spec(name) is None for name in ("build", "Cython", "setuptools")),
    reason="no checkout, or no build, Cython and setuptools",
)


def build(directory):
    """A source package and a wheel from it, built in a directory of its own."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    command = [sys.executable, "-m", "build", "-q", "--no-isolation", "--skip-dependency-check"]
    done = subprocess.run(
        [*command, "-o", str(directory / "out")], cwd=directory, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return {path.name: path for path in (directory / "out").iterdir()}


@pytest.mark.full
@needs_build
def test_two_builds_are_the_same_bytes(tmp_path):
    shutil.copytree(ROOT, tmp_path / "some", ignore=NOT_SOURCES)
    shutil.copytree(tmp_path / "some", tmp_path / "elsewhere")
    some, others = build(tmp_path / "some"), build(tmp_path / "elsewhere")
    assert some.keys() == others.keys()
    assert sorted(Path(name).suffix for name in some) == [".gz", ".whl"]
    for name, path in some.items():
        assert path.read_bytes() == others[name].read_bytes(), name
    wheel = next(path for name, path in some.items() if name.endswith(".whl"))
    only_sources(next(path for name, path in some.items() if name.endswith(".gz")))
    same_modules(wheel)
    accepted(wheel)


def only_sources(package):
    """Nothing that a compiler made: neither machine code nor Cython's C."""
    with tarfile.open(package) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"dptopk/_core.pyx", "csrc/dptk.h", "tests/conftest.py"} <= names
    assert [name for name in names if name.endswith((".so", ".pyd", "_core.c"))] == []


def same_modules(wheel):
    """The modules in the wheel are those of the checkout: `make dist` runs few tests on it."""
    package = ROOT / "dptopk"
    files = [*package.rglob("*.py"), *package.rglob("*.pyi"), package / "py.typed"]
    names = {path.relative_to(ROOT).as_posix(): path for path in files}
    with zipfile.ZipFile(wheel) as packed:
        extension = {name for name in packed.namelist() if name.endswith((".so", ".pyd"))}
        inside = {name for name in packed.namelist() if name.startswith("dptopk/")}
        assert inside - extension == names.keys()
        assert len(extension) == 1
        for name, path in names.items():
            assert packed.read(name) == path.read_bytes(), name


def accepted(wheel):
    """Auditwheel finds a manylinux that the wheel fits as it is."""
    if sys.platform != "linux" or importlib.util.find_spec("auditwheel") is None:
        return
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert '"manylinux_2_' in shown.replace("\n", " "), shown
