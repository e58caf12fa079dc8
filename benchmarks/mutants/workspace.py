"""A copy of the package that a mutant is put into, and its extension, built file by file."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLAGS = ["-std=c11", "-O1", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off"]


class BuildError(Exception):
    """What the mutant says is no program."""


class Workspace:
    """A folder with `csrc/` and `dptopk/`, which goes first on the path of its tests.

    Parameters
    ----------
    folder : Path
        Where; what is there of an earlier run is taken away, if the sources have changed.
    """

    def __init__(self, folder: Path):
        self.folder, self.objects = folder, folder / "objects"
        self.extension = folder / "dptopk" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
        self.stamp, self.made_from = folder / "made_from", _digest()
        if not (self.stamp.exists() and self.stamp.read_text() == self.made_from):
            self._make()
            self.stamp.write_text(self.made_from)

    def _make(self) -> None:
        folder = self.folder
        shutil.rmtree(folder, ignore_errors=True)
        ignored = shutil.ignore_patterns("*.so", "_core.c", "__pycache__")
        for name in ("csrc", "dptopk"):
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        self.objects.mkdir()
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", str(folder / "dptopk")], check=True
        )
        self._cython()
        for source in self._sources():
            self._compile(source)
        self._link()

    def _sources(self) -> list[Path]:
        return [self.folder / "dptopk/_core.c", *sorted((self.folder / "csrc").glob("*.c"))]

    def _cython(self) -> None:
        directives = re.findall(r'"(\w+)": (True|False),', (ROOT / "setup.py").read_text())
        assert len(directives) >= 4, "setup.py writes them in another way"
        options = [f"-X{name}={value}" for name, value in directives]
        _run([sys.executable, "-m", "cython", "-3", *options, "dptopk/_core.pyx"], self.folder)

    def _compile(self, source: Path) -> None:
        # The wrappers compute nothing that optimisation could change, and are long.
        flags = [*FLAGS, "-O0"] if source.name == "_core.c" else FLAGS
        include = ["-Icsrc", f"-I{sysconfig.get_path('include')}"]
        target = self.objects / f"{source.stem}.o"
        _run(["cc", *flags, *include, "-c", str(source), "-o", str(target)], self.folder)

    def _link(self) -> None:
        objects = [str(self.objects / f"{source.stem}.o") for source in self._sources()]
        made = self.extension.with_suffix(".new")  # a mapped file must not be written into
        _run(["cc", "-shared", *objects, "-lm", "-o", str(made)], self.folder)
        made.replace(self.extension)

    def _users(self, header: Path) -> list[Path]:
        """Return the sources that a header is in."""
        users = []
        for source in self._sources():
            rule = subprocess.run(
                ["cc", "-MM", "-Icsrc", str(source)],
                cwd=self.folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if source.name != "_core.c" and header.name in rule.stdout:
                users.append(source)
        return users

    @contextmanager
    def changed(self, path: str, text: str) -> Iterator[None]:
        """Have another text in one file, built, as long as the block lasts.

        Raises
        ------
        BuildError
            If it does not compile.
        """
        file = self.folder / path
        before, times = file.read_bytes(), file.stat()
        touched = {".c": [file], ".h": [], ".pyx": [self.folder / "dptopk/_core.c"], ".py": []}
        sources = self._users(file) if file.suffix == ".h" else touched[file.suffix]
        kept = [self.extension, *(self.objects / f"{source.stem}.o" for source in sources)]
        if sources:
            for old in kept:
                shutil.copy2(old, old.with_suffix(old.suffix + ".kept"))
        self.stamp.unlink()  # until all is as it was
        file.write_text(text)
        # Another age than that of the compiled file, which is so passed over, and kept.
        os.utime(file, (times.st_atime, times.st_mtime + 1000))
        try:
            if file.suffix == ".pyx":
                self._cython()
            for source in sources:
                self._compile(source)
            if sources:
                self._link()
            yield
        finally:
            file.write_bytes(before)
            os.utime(file, (times.st_atime, times.st_mtime))
            if sources:
                for old in kept:
                    old.with_suffix(old.suffix + ".kept").replace(old)
            self.stamp.write_text(self.made_from)


def _digest() -> str:
    """Return what tells whether the sources are the same."""
    files = sorted(
        file
        for name in ("csrc", "dptopk")
        for file in (ROOT / name).rglob("*")
        if file.suffix in (".py", ".pyx", ".pxd", ".c", ".h") and file.name != "_core.c"
    )
    whole = hashlib.sha256(repr(FLAGS).encode())
    for file in files:
        whole.update(f"{file.relative_to(ROOT)}".encode() + file.read_bytes())
    return whole.hexdigest()


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(done.stderr[-2000:])
