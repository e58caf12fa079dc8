"""Arrows point down only: who may import whom."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dptopk"
if not PACKAGE.is_dir():  # run against an installed package, beside its sources
    pytest.skip("the sources are not here", allow_module_level=True)

# From the bottom up: a room may import those named before it, and itself.
LAYERS = [
    ["errors", "_core", "rounding"],
    ["_validate", "_counts"],
    ["domain"],
    ["rng", "accounting", "argtopk"],
    ["sources", "utility"],
    ["histogram"],
    ["reference"],
    ["discrete"],
    ["release"],
    ["mechanisms"],
    ["metrics", "_wrapped"],
    ["restricted", "ranking"],
    ["budget"],
    ["verification"],
    ["verify"],
    ["cli"],
    ["__main__", "__init__"],
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
# The command line looks up the version; the core is loaded before any layer.
PACKAGE_ITSELF = {"cli", "__main__"}


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path):
    """Full names in dptopk that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.split(".") for name in names if name.split(".")[0] == "dptopk")


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem)
def test_imports_point_down(path):
    room = room_of(path)
    for name in imports_of(path):
        used = name[1] if len(name) > 1 and name[1] in LEVEL else ""
        if used == "":
            assert room in PACKAGE_ITSELF, f"{room} imports the package itself"
        else:
            assert used == room or LEVEL[used] < LEVEL[room], f"{room} imports {used}"


MECHANISMS = sorted(PACKAGE.joinpath("mechanisms").glob("[!_]*.py"))


@pytest.mark.parametrize("path", MECHANISMS, ids=lambda p: p.stem)
def test_mechanisms_do_not_import_each_other(path):
    others = {other.stem for other in MECHANISMS} - {path.stem}
    for name in imports_of(path):
        assert name[1] != "mechanisms" or name[2] not in others


def test_the_core_needs_no_extra():
    """import dptopk loads NumPy, SciPy and mpmath, and nothing of the extras."""
    import subprocess
    import sys

    code = (
        "import sys, dptopk; "
        "print([m for m in ('duckdb', 'narwhals', 'rich', 'pandas', 'polars', 'pyarrow', "
        "'matplotlib', 'dp_accounting') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
