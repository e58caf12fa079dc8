"""Build of the one extension module; everything else is in pyproject.toml.

DPTOPK_SANITIZE=address,undefined    build with these sanitizers (make san)
"""

import os
from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup

# No -march and no -ffast-math: a wheel runs on any machine of its architecture,
# and every SIMD level rounds alike.
compile_args = ["-std=c11", "-O3", "-fvisibility=hidden", "-ffp-contract=off"]
link_args = []
sanitize = os.environ.get("DPTOPK_SANITIZE")
if sanitize:
    flags = [f"-fsanitize={sanitize}", "-fno-omit-frame-pointer", "-g"]
    compile_args += [*flags, "-fno-sanitize-recover=all"]
    link_args += flags

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
    )
)
