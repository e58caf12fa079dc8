"""The door under type checkers: what must pass passes, and every marked line is refused."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dptopk

HERE = Path(__file__).parent / "typing"
# Where the package is installed in place, type checkers have to be told.
ROOT = Path(dptopk.__file__).parents[1]
IN_PLACE = [] if ROOT.name == "site-packages" else [str(ROOT)]
FILES = ("good.py", "bad.py")
CACHE = Path(__file__).parents[1] / ".mypy_cache" / "typing"
pytestmark = [
    pytest.mark.full,  # mypy alone takes half a minute
    pytest.mark.xdist_group("typing"),  # they share mypy's cache
]


def marked(name):
    """Numbers of the lines that must be refused."""
    lines = (HERE / name).read_text().splitlines()
    return {n for n, line in enumerate(lines, 1) if line.endswith("# refused")}


def by_mypy(_):
    done = run("-m", "mypy", "--strict", "--config-file=", "--no-color-output",
               f"--cache-dir={CACHE}", *FILES)  # fmt: skip
    for name, line, kind in re.findall(r"^(\w+\.py):(\d+): (\w+):", done, re.M):
        if kind == "error":
            yield name, int(line)


def by_basedpyright(tmp_path):
    settings = tmp_path / "pyrightconfig.json"
    settings.write_text(json.dumps({
        "include": [str(HERE)], "typeCheckingMode": "standard", "pythonVersion": "3.11",
        "extraPaths": IN_PLACE, "pythonPlatform": "Linux",
    }))  # fmt: skip
    done = json.loads(run("-m", "basedpyright", "--outputjson", "-p", str(settings)))
    for found in done["generalDiagnostics"]:
        if found["severity"] == "error":
            yield Path(found["file"]).name, found["range"]["start"]["line"] + 1


def run(*arguments):
    paths = {"MYPYPATH": IN_PLACE[0]} if IN_PLACE else {}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=HERE, timeout=600,
        env={**os.environ, **paths},
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.stdout


CHECKERS = {"mypy": by_mypy, "basedpyright": by_basedpyright}


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_door_is_typed(checker, tmp_path):
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed: pip install {checker}")
    found = set(CHECKERS[checker](tmp_path))
    assert len(marked("bad.py")) > 30
    assert found == {("bad.py", line) for line in marked("bad.py")}
