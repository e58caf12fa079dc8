"""Build of the one extension module; everything else is in pyproject.toml.

DPTOPK_SANITIZE=address,undefined    build with these sanitizers (make san)
"""

import gzip
import os
import platform
import struct
import tarfile
from glob import glob
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

# No -march and no -ffast-math: a wheel runs on any machine of its architecture,
# and every SIMD level rounds alike.
compile_args = ["-std=c11", "-O3", "-fvisibility=hidden", "-ffp-contract=off"]
compile_args += ["-g0"]  # where it was built would be in it
if struct.calcsize("P") == 4 and platform.machine().lower() in ("i386", "i586", "i686", "x86_64"):
    compile_args += ["-msse2", "-mfpmath=sse"]  # x87 would compute beyond doubles
link_args = []
sanitize = os.environ.get("DPTOPK_SANITIZE")
if sanitize:
    flags = [f"-fsanitize={sanitize}", "-fno-omit-frame-pointer", "-g"]
    compile_args += [*flags, "-fno-sanitize-recover=all"]
    link_args += flags


class Build(build_ext):
    """MSVC has other names for the same, and its mathematics in the C library."""

    def build_extensions(self):
        """Compile, with the compiler that was chosen."""
        if self.compiler.compiler_type == "msvc":
            for extension in self.extensions:
                extension.extra_compile_args = ["/std:c11", "/O2", "/fp:precise"]
                extension.libraries = []
        super().build_extensions()


class Sdist(sdist):
    """Of the same sources the same bytes, if SOURCE_DATE_EPOCH says when they are from."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, **owners):
        """Pack what was gathered."""
        when = os.environ.get("SOURCE_DATE_EPOCH")
        if when is None or format != "gztar":
            return super().make_archive(base_name, format, root_dir, base_dir, **owners)
        name = f"{base_name}.tar.gz"
        with (
            open(name, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=int(when)) as packed,
            tarfile.open(mode="w", fileobj=packed) as tar,
        ):
            for path in sorted(Path(root_dir or ".", base_dir).rglob("*")):
                if path.is_file():
                    member = tar.gettarinfo(path, path.relative_to(root_dir or "."))
                    member.mtime, member.mode = int(when), 0o644
                    member.uid = member.gid = 0
                    member.uname = member.gname = ""
                    with path.open("rb") as content:
                        tar.addfile(member, content)
        return name


core = Extension(
    "dptopk._core",
    sources=["dptopk/_core.pyx", *sorted(glob("csrc/*.c"))],
    include_dirs=["csrc"],
    depends=sorted(glob("csrc/*.h")),
    libraries=["m"],
    extra_compile_args=compile_args,
    extra_link_args=link_args,
)

setup(
    cmdclass={"build_ext": Build, "sdist": Sdist},
    ext_modules=cythonize(
        [core],
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": False,
            "freethreading_compatible": True,
        },
    ),
)
